/* shared.c - messages, values of options, the end of output. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio_ext.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/claims.h"
#include "cli/holders.h"
#include "report/format.h"

#define SHARED_SAME_WISH_S 0.25 /* closer signals count as one */

/* visible.c escapes all other characters that are not printable. */
void cli_put_text(FILE *file, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\n' || *text == '\t')
            fprintf(file, "\\x%02x", *text);
        else
            fputc(*text, file);
    }
}

static bool shared_has_colour(void) {
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (no_colour != NULL && no_colour[0] != '\0') return false;
    return isatty(STDERR_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

void cli_prefix(cli_level level) {
    static const char *const words[] = {"error: ", "warning: ", "note: "};
    static const char *const colours[] = {"31", "35", "36"};
    if (!shared_has_colour())
        fprintf(stderr, "tenure: %s", words[level]);
    else /* the filtered stream would escape the colour */
        fprintf(cli_terminal(), "tenure: \033[1;%sm%s\033[0m", colours[level], words[level]);
}

/* Whether the reader of the output pipe has exited, also if no write has failed yet. */
static bool shared_reader_left(void) {
    struct pollfd pipe = {.fd = STDOUT_FILENO};
    return poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0;
}

/* `tenure ... | head -1` ends like other commands in a pipe: by SIGPIPE, without a message. */
static void shared_end_by_signal(void) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

const cli_facts cli_error_facts = {
    .name = "error",
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "status", NULL, "kind of the error, such as E_INFEASIBLE"),
        CLI_FACT(COUNT, "exit_status", NULL, "exit status of the command"),
        CLI_FACT(WORD, "where", NULL, "file, line or node of the error; may be empty"),
        CLI_FACT(WORD, "message", NULL, "the message, one sentence"),
        CLI_FACTS_ALSO(&cli_refused_facts), CLI_FACTS_ALSO(&cli_holders_facts), CLI_FACTS_END}};

/* With --json, if no answer was printed yet, the error is also a JSON object. */
static void shared_fail_json(const tn_error *error, const char *members) {
    int code = tn_status_exit_code(error->status);
    tn__text words;
    cli_answer answer;
    if (!cli_tone_asked().json || (code != 1 && code != 3) || __fpending(stdout) > 0) return;
    tn__text_init(&words, NULL);
    cli_answer_begin(&answer, &cli_error_facts, true);
    cli_tell_word(&answer, "status", tn_status_name(error->status));
    cli_tell(&answer, "exit_status", (uint64_t)code);
    cli_tell_word(&answer, "where", error->where);
    cli_tell_word(&answer, "message", cli_settings(error->message, &words));
    cli_tell_members(&answer, members);
    (void)cli_answer_end(&answer, NULL); /* the message on standard error is enough */
    tn__text_release(&words);
}

int cli_fail(const tn_error *error) { return cli_fail_with(error, NULL); }

/* Prints a text that may begin with the path of standard input, "-.csv:2". */
static void shared_put_place(const char *text) {
    if (text[0] == '-' && text[1] == '.' && cli_standard_is_input()) {
        fputs("<stdin>", stderr);
        text += strcspn(text, ": ");
    }
    cli_put_text(stderr, text);
}

static void shared_put_message(const char *message) {
    tn__text words;
    tn__text_init(&words, NULL);
    shared_put_place(cli_settings(message, &words));
    tn__text_release(&words);
}

int cli_fail_with(const tn_error *error, const char *members) {
    cli_progress_end();
    shared_fail_json(error, members);
    if (error->status == TN_E_IO && shared_reader_left()) shared_end_by_signal();
    if (error->status == TN_E_STOPPED && cli_interrupted()) {
        cli_prefix(CLI_ERROR);
        fputs("interrupted before any result was found\n", stderr);
        return tn_status_exit_code(error->status);
    }
    cli_prefix(CLI_ERROR);
    shared_put_place(error->where);
    if (error->where[0] != '\0') fputs(": ", stderr);
    shared_put_message(error->message);
    if (error->status == TN_E_OUTSIDE) fputs(", or add --follow-links", stderr);
    fputc('\n', stderr);
    return tn_status_exit_code(error->status);
}

void cli_note(const char *message) {
    if (cli_tone_asked().quiet) return;
    cli_progress_end();
    cli_prefix(CLI_NOTE);
    shared_put_message(message);
    fputc('\n', stderr);
}

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

static const char *shared_hardware_name(uint32_t index) { return tn_hardware_at(index)->name; }

/* "a100-40, a100-80": the names that begin with `text`; false: fewer than two. */
static bool shared_hardware_begun(const char *text, char names[160]) {
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
    if (found == NULL && shared_hardware_begun(text, names))
        cli_misuse(state, "--%s: '%.60s' is ambiguous; write one of %s", option, text, names);
    if (found == NULL)
        cli_misuse(state, "--%s: no device is called '%.60s'; %s", option, text,
                   tn__near_of(text, tn_hardware_count(), shared_hardware_name,
                               "see `tenure list hardware`", asked));
    return found;
}

/* A bare number that is part of a device's name is probably that device, not a size in bytes. */
static void shared_check_number(const struct argp_state *state, const char *text) {
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
    shared_check_number(state, text);
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
        cli_misuse(state, "--%s: %.60s is out of range; use a time above 0 and up to 1e9", option,
                   text);
    return value * unit;
}

int cli_finish(int status) {
    cli_progress_end();
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    int reason = errno;
    if (shared_reader_left()) shared_end_by_signal();
    cli_prefix(CLI_ERROR);
    fprintf(stderr, "cannot write to standard output: %s\n", strerror(reason));
    return 2;
}

double cli_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool cli_asks_again(int number) {
    static volatile double first;
    double now = cli_clock();
    if (first == 0) first = now;
    if (now - first < SHARED_SAME_WISH_S) return false;
    cli_end_by_signal(number);
    return true;
}

void cli_end_by_signal(int number) {
    tn__new_file_abandon();
    signal(number, SIG_DFL);
    raise(number); /* blocked until the handler returns */
}

void cli_on_signal(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler}, before;
    bool by_shell = number == SIGINT || number == SIGQUIT; /* a shell ignores these for background
                                                            * jobs */
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN &&
        !(by_shell && handler != cli_end_by_signal))
        return;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    (void)sigaction(number, &action, NULL);
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
