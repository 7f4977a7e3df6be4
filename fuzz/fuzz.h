/* fuzz.h - what all fuzzers share: an expectation, and a count of the inputs that were accepted.
 *
 * A fuzzer tests little if all its inputs are refused at the first check. Each fuzzer
 * calls fuzz_accept where an input has passed its reader; replay.c fails if no seed gets there.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* weak: the fuzzer and replay.c share one count, and libFuzzer needs no other file */
__attribute__((weak)) uint64_t fuzz_accepted;

static inline void fuzz_accept(void) { fuzz_accepted++; }

static inline void fuzz_must(bool holds) {
    if (!holds) abort();
}

#endif
