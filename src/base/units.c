/* units.c - parses and formats sizes in IEC and SI units, together with the exact number of
 * bytes. */
#include "base/base.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

typedef struct units_row {
    const char *text;
    uint64_t bytes;
} units_row;

static const units_row units_rows[] = {
    {"", 1},
    {"B", 1},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
    {"PiB", 1ull << 50},
    {"kB", 1000},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"PB", 1000000000000000},
};

static const units_row *units_find(const char *text) {
    for (size_t i = 0; i < sizeof units_rows / sizeof *units_rows; i++)
        if (strcmp(units_rows[i].text, text) == 0) return &units_rows[i];
    return NULL;
}

__extension__ typedef unsigned __int128 units_wide;

/* Multiplies a decimal number such as "1.5" with a unit, without floating point. Digits that do not
 * fit into 64 bits are refused. A fraction of a byte is rounded down, so that a limit never exceeds
 * the number that was written. Plain bytes have no fraction. */
static bool units_scale(const char *digits, size_t length, uint64_t unit, uint64_t *bytes) {
    uint64_t whole = 0, fraction = 0, power = 1;
    bool point = false;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] == '.') {
            point = true;
            continue;
        }
        uint64_t digit = (uint64_t)(digits[i] - '0');
        uint64_t *part = point ? &fraction : &whole;
        if (!tn__mul(*part, 10, part) || !tn__add(*part, digit, part)) return false;
        if (point && !tn__mul(power, 10, &power)) return false;
    }
    if (unit == 1 && fraction != 0) return false;
    fraction = (uint64_t)((units_wide)fraction * unit / power);
    if (!tn__mul(whole, unit, &whole) || !tn__add(whole, fraction, &whole)) return false;
    *bytes = whole;
    return true;
}

tn_status tn_size_parse(const char *text, uint64_t *bytes, tn_error *error) {
    const char *start = text;
    while (isspace((unsigned char)*start)) start++;
    size_t length = 0, points = 0, digits = 0;
    for (; isdigit((unsigned char)start[length]) || start[length] == '.'; length++)
        *(start[length] == '.' ? &points : &digits) += 1;
    const char *rest = start + length;
    while (isspace((unsigned char)*rest)) rest++;
    char unit[8] = "";
    size_t unit_length = strlen(rest);
    while (unit_length > 0 && isspace((unsigned char)rest[unit_length - 1])) unit_length--;
    if (digits == 0 || points > 1 || unit_length >= sizeof unit)
        TN_FAIL(error, TN_E_INVALID,
                "'%.60s' is no size; write bytes, or a number with KiB MiB GiB kB MB GB", text);
    memcpy(unit, rest, unit_length);
    if (strlen(unit) == 1 && strchr("KMGTPkmgtp", unit[0]) != NULL) {
        char capital = (char)toupper((unsigned char)unit[0]);
        TN_FAIL(error, TN_E_INVALID, "'%.60s' could mean %c%s or %ciB; write one of them", text,
                capital == 'K' ? 'k' : capital, "B", capital);
    }
    const units_row *row = units_find(unit);
    if (row == NULL)
        TN_FAIL(error, TN_E_INVALID,
                "'%s' in '%.60s' is no unit; there are B KiB MiB GiB TiB kB MB GB TB", unit, text);
    if (!units_scale(start, length, row->bytes, bytes))
        TN_FAIL(error, TN_E_INVALID, "'%.60s' is not a whole number of bytes that fits in 64 bits",
                text);
    return TN_OK;
}

const char *tn__grouped(uint64_t value, char text[TN__GROUPED_MAX]) {
    char digits[21];
    int count = snprintf(digits, sizeof digits, "%" PRIu64, value);
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        if (i != 0 && (count - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

const char *tn_size_format(uint64_t bytes, char text[TN_SIZE_TEXT_MAX]) {
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char grouped[TN__GROUPED_MAX];
    tn__grouped(bytes, grouped);
    if (bytes == TN_SIZE_UNKNOWN)
        snprintf(text, TN_SIZE_TEXT_MAX, "unknown");
    else if (bytes < 1024)
        snprintf(text, TN_SIZE_TEXT_MAX, "%s byte%s", grouped, bytes == 1 ? "" : "s");
    else {
        size_t unit = 0;
        double value = (double)bytes / 1024;
        for (; value >= 1023.95 && unit + 1 < sizeof names / sizeof *names; unit++) value /= 1024;
        snprintf(text, TN_SIZE_TEXT_MAX, "%.1f %s (%s bytes)", value, names[unit], grouped);
    }
    return text;
}

bool tn__glob(const char *pattern, const char *text) {
    /* the position after the last star in the pattern, and the end of the text that this star
     * matches so far; NULL: no star yet */
    const char *star = NULL, *retry = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            retry = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

double tn__clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void tn__clock_sleep_until(double time_s) {
    for (double left = time_s - tn__clock_s(); left > 0; left = time_s - tn__clock_s()) {
        struct timespec nap = {.tv_sec = (time_t)left};
        nap.tv_nsec = (long)((left - (double)nap.tv_sec) * 1e9);
        /* a signal ends the sleep early; the loop then sleeps for the remaining time */
        (void)nanosleep(&nap, NULL);
    }
}
