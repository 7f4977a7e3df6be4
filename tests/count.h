/* count.h - how many cases a test tries that could try any number.
 *
 * TENURE_COUNT is a percentage of the full number, 100 if it is not set. `make check` and `make
 * test` set it low, `make test-long` sets it to 100; a campaign sets it higher. With a sanitizer a
 * test runs several times slower: tests/register.cmake sets TENURE_SLOWER, by which the percentage
 * is divided. A test that calls these functions gets the label "counted".
 */
#ifndef TN_TESTS_COUNT_H
#define TN_TESTS_COUNT_H

#include <stdint.h>
#include <stdlib.h>

static inline uint32_t case_number(const char *variable, uint32_t otherwise) {
    const char *text = getenv(variable);
    unsigned long number = text == NULL ? otherwise : strtoul(text, NULL, 10);
    return number < 1 ? 1 : number > 100000 ? 100000 : (uint32_t)number;
}

/* The percentage of the full number, at least 1. */
static inline uint32_t case_percent(void) {
    uint32_t percent = case_number("TENURE_COUNT", 100) / case_number("TENURE_SLOWER", 1);
    return percent > 0 ? percent : 1;
}

/* The number of cases: the percentage of `full`, at least `least`. */
static inline uint32_t case_count(uint32_t full, uint32_t least) {
    uint32_t percent = case_percent();
    uint64_t count = (uint64_t)full * percent / 100;
    if (count < least) count = least;
    return percent < 100 && count > full ? full : (uint32_t)count;
}

/* From one case to the next, for a test that walks along a row whose end it does not know. */
static inline uint32_t case_step(void) {
    uint32_t percent = case_percent();
    return percent < 100 ? 100 / percent : 1;
}

#endif
