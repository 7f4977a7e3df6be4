/* count.h - how many cases a test tries that could try any number.
 *
 * TENURE_COUNT is a percentage of the full number, 100 if it is not set. `make check` and `make
 * test` set it low, `make test-long` sets it to 100. Builds with a sanitizer, whose tests run
 * several times slower, try a quarter of the others' cases. A test that calls these functions gets
 * the label "counted" (tests/register.cmake).
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

/* The percentage of the full number, 1 to 100. */
static inline uint32_t case_percent(void) {
    const char *text = getenv("TENURE_COUNT");
    unsigned long percent = text == NULL ? 100 : strtoul(text, NULL, 10);
    if (percent > 100) percent = 100;
    percent /= TN_TESTS_SLOWER;
    return percent > 0 ? (uint32_t)percent : 1;
}

/* The number of cases out of `full`, at least `least`. */
static inline uint32_t case_count(uint32_t full, uint32_t least) {
    uint64_t count = (uint64_t)full * case_percent() / 100;
    if (count < least) count = least;
    return count < full ? (uint32_t)count : full;
}

/* From one case to the next, for a test that walks along a row whose end it does not know. */
static inline uint32_t case_step(void) { return 100 / case_percent(); }

#endif
