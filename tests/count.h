/* count.h - how many cases a test tries that could try any number.
 *
 * TENURE_COUNT is a percentage of the full number, 100 if it is not set. `make check` and `make
 * test` set it low, `make test-long` sets it to 100. Below 100, builds with a sanitizer, whose
 * tests run several times slower, try a quarter of the others' cases. A test that includes this
 * header gets the label "counted" (tests/register.cmake).
 */
#ifndef TN_TESTS_COUNT_H
#define TN_TESTS_COUNT_H

#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TN_TESTS_SLOWER 4u
#else
#define TN_TESTS_SLOWER 1u
#endif

/* The number of cases out of `full`, at least `least`. */
static inline uint32_t case_count(uint32_t full, uint32_t least) {
    const char *text = getenv("TENURE_COUNT");
    unsigned long percent = text == NULL ? 100 : strtoul(text, NULL, 10);
    if (percent >= 100) return full;
    uint64_t count = (uint64_t)full * percent / 100 / TN_TESTS_SLOWER;
    if (count < least) count = least;
    return count < full ? (uint32_t)count : full;
}

#endif
