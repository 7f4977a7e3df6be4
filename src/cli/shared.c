/* shared.c - errors, values of options, the end of output. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Controls are those below a space, DEL, and U+0080 to U+009F: two bytes in UTF-8. */
void cli_put_text(FILE *file, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f)
            fprintf(file, "\\u%04x", *++at);
        else if (*at < ' ' || *at == 0x7f)
            fprintf(file, "\\x%02x", *at);
        else
            fputc(*at, file);
    }
}

int cli_fail(const tn_error *error) {
    cli_progress_end();
    fputs("tenure: ", stderr);
    cli_put_text(stderr, error->where);
    if (error->where[0] != '\0') fputs(": ", stderr);
    cli_put_text(stderr, error->message);
    fputc('\n', stderr);
    return tn_status_exit_code(error->status);
}

void cli_note(const char *message) {
    cli_progress_end();
    fputs("tenure: note: ", stderr);
    cli_put_text(stderr, message);
    fputc('\n', stderr);
}

uint64_t cli_size(struct argp_state *state, const char *option, const char *text) {
    uint64_t bytes = 0;
    tn_error error;
    if (tn_size_parse(text, &bytes, &error) != TN_OK)
        argp_error(state, "--%s: %s", option, error.message);
    return bytes;
}

uint64_t cli_number(struct argp_state *state, const char *option, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || strchr(text, '-') != NULL)
        argp_error(state, "--%s: '%s' is no whole number", option, text);
    return value;
}

double cli_speed(struct argp_state *state, const char *option, const char *text) {
    char *unit, whole[32];
    double factor = strtod(text, &unit);
    size_t length = strlen(unit);
    if (unit == text || !(factor > 0 && factor < 1e18) || length < 3 || length + 2 > sizeof whole ||
        strcmp(unit + length - 2, "/s") != 0)
        argp_error(state, "--%s: '%s' is no speed such as 0.5GB/s", option, text);
    snprintf(whole, sizeof whole, "1%.*s", (int)length - 2, unit);
    return factor * (double)cli_size(state, option, whole);
}

double cli_real(struct argp_state *state, const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0) || value > 1e9)
        argp_error(state, "--%s: '%s' is no number from 0 up", option, text);
    return value;
}

uint64_t cli_count(struct argp_state *state, const char *option, const char *text, uint64_t most) {
    uint64_t value = cli_number(state, option, text);
    if (value < 1 || value > most)
        argp_error(state, "--%s: from 1 to %llu", option, (unsigned long long)most);
    return value;
}

uint32_t cli_choice(struct argp_state *state, const char *option, const char *text,
                    const char *const *names) {
    char list[160] = "";
    for (uint32_t i = 0; names[i] != NULL; i++) {
        size_t used = strlen(list);
        if (strcmp(names[i], text) == 0) return i;
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    argp_error(state, "--%s: '%s' is none of %s", option, text, list);
    return 0;
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
    if (end == text || !(value > 0) || value > 1e9)
        argp_error(state, "--%s: '%s' is no time; write 10s, 500ms or 2m", option, text);
    return value * unit;
}

int cli_finish(int status) {
    cli_progress_end();
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    fprintf(stderr, "tenure: cannot write to standard output: %s\n", strerror(errno));
    return 2;
}

double cli_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *cli_suffixes(char text[CLI_SUFFIXES_MAX]) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < tn_report_format_count(); i++) {
        const char *suffix = tn_report_format_suffix(i);
        if (suffix[0] == '\0' || tn_report_format_of_run(i)) continue;
        int wrote = snprintf(text + used, CLI_SUFFIXES_MAX - used, "%s%s", used ? " " : "", suffix);
        used += wrote > 0 ? (size_t)wrote : 0;
        if (used >= CLI_SUFFIXES_MAX) break;
    }
    return text;
}
