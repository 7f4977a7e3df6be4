/* values.c - the values of options: numbers, sizes, times, speeds, fractions, names, and devices. A
 * bad value ends the program with a usage error that names the option. */
#include "base/base.h"
#include "cli/cli.h"
#include "report/format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

uint64_t cli_size(struct argp_state *state, const char *option, const char *text) {
    uint64_t bytes = 0;
    tn_error error;
    if (tn_size_parse(text, &bytes, &error) != TN_OK)
        cli_misuse(state, "--%s: %s", option, error.message);
    return bytes;
}

uint64_t cli_range(struct argp_state *state, const char *option, const char *text, uint64_t least,
                   uint64_t most) {
    char *end, from[TN__WORDS_MAX], to[TN__WORDS_MAX];
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    bool digits = *text == '-' || (*text >= '0' && *text <= '9');
    if (end == text || *end != '\0' || !digits)
        cli_misuse(state, "--%s: '%.60s' is not a whole number", option, text);
    if (errno != 0 || *text == '-' || value < least || value > most)
        cli_misuse(state, "--%s: %.60s is out of range; use a number from %s to %s", option, text,
                   tn__grouped(least, from), tn__grouped(most, to));
    return value;
}

uint64_t cli_number(struct argp_state *state, const char *option, const char *text) {
    return cli_range(state, option, text, 0, UINT64_MAX);
}

double cli_speed(struct argp_state *state, const char *option, const char *text) {
    char *unit, whole[32];
    double factor = strtod(text, &unit);
    size_t length = strlen(unit);
    if (unit == text || length < 3 || length + 2 > sizeof whole ||
        strcmp(unit + length - 2, "/s") != 0)
        cli_misuse(state, "--%s: '%.60s' is not a speed; write it like 0.5GB/s", option, text);
    if (!(factor > 0 && factor < 1e18))
        cli_misuse(state, "--%s: %.60s is out of range; a speed must be above 0", option, text);
    snprintf(whole, sizeof whole, "1%.*s", (int)length - 2, unit);
    return factor * (double)cli_size(state, option, whole);
}

double cli_real(struct argp_state *state, const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0')
        cli_misuse(state, "--%s: '%.60s' is not a number", option, text);
    if (!(value >= 0) || value > 1e9)
        cli_misuse(state, "--%s: %.60s is out of range; use a number from 0 to 1e9", option, text);
    return value;
}

double cli_share(struct argp_state *state, const char *option, const char *text) {
    size_t length = strlen(text);
    bool percent = length > 1 && text[length - 1] == '%';
    char *number = strndup(text, percent ? length - 1 : length);
    if (number == NULL) argp_failure(state, 4, 0, "out of memory");
    double share = cli_real(state, option, number) / (percent ? 100 : 1);
    free(number);
    return share;
}

uint64_t cli_count(struct argp_state *state, const char *option, const char *text, uint64_t most) {
    return cli_range(state, option, text, 1, most);
}

uint32_t cli_choice(struct argp_state *state, const char *option, const char *text,
                    const char *const *names) {
    char list[160] = "", asked[TN__NEAR_TEXT];
    tn__near near = tn__near_begin(text);
    for (uint32_t i = 0; names[i] != NULL; i++) {
        size_t used = strlen(list);
        if (strcmp(names[i], text) == 0) return i;
        tn__near_try(&near, names[i]);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    cli_misuse(state, "--%s: '%.60s' is not one of %s%s%s", option, text, list,
               near.name != NULL ? "; " : "", tn__near_ask(&near, "", asked));
}

static const char *values_hardware_name(uint32_t index) { return tn_hardware_at(index)->name; }

/* Lists the devices with names that begin with `text`, such as "a100-40, a100-80". Returns false if
 * there are fewer than two. */
static bool values_hardware_begun(const char *text, char names[160]) {
    size_t used = 0, length = strlen(text);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn_hardware_count() && length > 0; i++) {
        const char *name = tn_hardware_at(i)->name;
        if (strncasecmp(name, text, length) != 0 || used + strlen(name) + 2 >= 160) continue;
        used += (size_t)snprintf(names + used, 160 - used, "%s%s", count++ > 0 ? ", " : "", name);
    }
    return count > 1;
}

const tn_hardware *cli_hardware(const struct argp_state *state, const char *option,
                                const char *text) {
    char asked[TN__NEAR_TEXT], names[160];
    const tn_hardware *found = tn_hardware_find(text);
    if (found == NULL && values_hardware_begun(text, names))
        cli_misuse(state, "--%s: '%.60s' is ambiguous; write one of %s", option, text, names);
    if (found == NULL)
        cli_misuse(state, "--%s: no device is called '%.60s'; %s", option, text,
                   tn__near_of(text, tn_hardware_count(), values_hardware_name,
                               "see `tenure list hardware`", asked));
    return found;
}

/* Refuses a number without a unit that is part of a device's name: the user probably means that
 * device, not a size in bytes. */
static void values_check_number(const struct argp_state *state, const char *text) {
    if (strspn(text, "0123456789") != strlen(text)) return;
    for (uint32_t i = 0; i < tn_hardware_count(); i++) {
        const char *name = tn_hardware_at(i)->name;
        if (strstr(name, text) != NULL)
            cli_misuse(state,
                       "--device: '%.60s' is not the name of a device; did you mean '%s'? Write "
                       "bytes as '%.60sB'",
                       text, name, text);
    }
}

const tn_hardware *cli_device(const struct argp_state *state, const char *text, uint64_t *limit) {
    tn_error error;
    const tn_hardware *device = tn_hardware_find(text);
    if (device != NULL) {
        *limit = device->usable - TN_HARDWARE_CONTEXT;
        return device;
    }
    if (text[0] < '0' || text[0] > '9') (void)cli_hardware(state, "device", text);
    if (tn_size_parse(text, limit, &error) != TN_OK)
        cli_misuse(state, "--device: %s", error.message);
    if (*limit == 0) cli_misuse(state, "--device: the size must be above 0");
    values_check_number(state, text);
    return NULL;
}

double cli_duration(struct argp_state *state, const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end), unit = 1;
    if (strcmp(end, "ms") == 0)
        unit = 1e-3;
    else if (strcmp(end, "m") == 0 || strcmp(end, "min") == 0)
        unit = 60;
    else if (strcmp(end, "s") != 0 && *end != '\0')
        end = (char *)text;
    if (end == text)
        cli_misuse(state, "--%s: '%.60s' is not a time; write it like 10s, 500ms or 2m", option,
                   text);
    if (!(value > 0) || value > 1e9)
        cli_misuse(state, "--%s: %.60s is out of range; use a time above 0 s and up to 1e9 s",
                   option, text);
    return value * unit;
}
