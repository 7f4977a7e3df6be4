/* processor.h - features of the processor, for tests with a verdict that depends on them. */
#ifndef TN_TESTS_PROCESSOR_H
#define TN_TESTS_PROCESSOR_H

#include <stdbool.h>

/* Whether this is an x86-64 processor with the instructions, such as "avx2". */
#if defined(__x86_64__)
#define processor_has(instructions) (__builtin_cpu_supports(instructions) != 0)
#else
#define processor_has(instructions) false
#endif

#endif
