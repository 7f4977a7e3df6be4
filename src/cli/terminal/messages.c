/* messages.c - prints text for people: errors and notes. It replaces settings of the library by
 * options of the command, escapes characters that control the terminal, and wraps lines at the
 * width of the terminal. */
#define _GNU_SOURCE /* fopencookie */
#include "base/base.h"
#include "cli/answer/holders.h"
#include "cli/answer/model_facts.h"
#include "cli/cli.h"
#include "report/format.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* --- control characters --- */

/* A name in a file must not be able to control the terminal. All text for people is printed to
 * stdout and stderr, which are variables (cli.h) and are both replaced by streams that escape. They
 * write an escape for control characters other than newline and tab, for marks that hide or reorder
 * text (\x1b, \u202e), and for bytes that are not UTF-8. Code that prints a name therefore needs no
 * check. Code that moves the cursor, such as the progress bar, uses the unfiltered stream
 * cli_terminal. Files that are written to standard output bypass the escaping streams; files.c
 * refuses to write formats that may contain control characters to a terminal. */

typedef struct controls_stream {
    int descriptor;
    size_t held;   /* number of bytes in `bytes`: the begin of a character that is not complete */
    char bytes[5]; /* [held] the bytes of the incomplete character, followed by a NUL */
} controls_stream;

static controls_stream controls_out = {.descriptor = STDOUT_FILENO};
static controls_stream controls_error = {.descriptor = STDERR_FILENO};
static FILE *controls_terminal;
#ifndef __GLIBC__
FILE *cli_stdout, *cli_stderr;
#endif

static bool controls_write(int descriptor, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t wrote = write(descriptor, bytes, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return false;
        bytes += wrote;
        size -= (size_t)wrote;
    }
    return true;
}

/* Returns the number of bytes of the UTF-8 character that begins with `first`, or 1 if no character
 * begins with this byte. */
static size_t controls_length(unsigned char first) {
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
}

/* Writes the visible form of the bytes in `stream` to `to`, and empties `stream`. Returns the
 * number of bytes written. */
static size_t controls_show_held(controls_stream *stream, char *to) {
    uint32_t code;
    size_t held = stream->held, used = 0;
    stream->bytes[held] = '\0';
    stream->held = 0;
    if (tn__text_code(stream->bytes, &code) == held) {
        if (held > 1 && tn__text_unprintable(code)) return tn__text_escape(code, to);
        if (held > 1 || !tn__text_unprintable(code) || code == '\n' || code == '\t') {
            memcpy(to, stream->bytes, held);
            return held;
        }
    }
    for (size_t i = 0; i < held; i++)
        used += (size_t)sprintf(to + used, "\\x%02x", (unsigned char)stream->bytes[i]);
    return used;
}

/* Adds one byte to the stream. If that completes a character, its visible form is written to `to`.
 * Returns the number of bytes written. */
static size_t controls_show(controls_stream *stream, unsigned char byte, char *to) {
    bool goes_on = (byte & 0xc0) == 0x80;
    size_t used = stream->held > 0 && !goes_on ? controls_show_held(stream, to) : 0;
    stream->bytes[stream->held++] = (char)byte;
    if (stream->held < controls_length((unsigned char)stream->bytes[0])) return used;
    return used + controls_show_held(stream, to + used);
}

static ssize_t controls_put(void *self, const char *bytes, size_t size) {
    char shown[4096 + 32];
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        used += controls_show(self, (unsigned char)bytes[i], shown + used);
        if (used < 4096 && i + 1 < size) continue;
        if (!controls_write(((controls_stream *)self)->descriptor, shown, used)) return 0;
        used = 0;
    }
    return (ssize_t)size;
}

static FILE *controls_open(controls_stream *stream, int buffering) {
    FILE *made = fopencookie(stream, "w", (cookie_io_functions_t){.write = controls_put});
    if (made != NULL && setvbuf(made, NULL, buffering, BUFSIZ) == 0) return made;
    static const char text[] = "tenure: error: out of memory for standard output\n";
    (void)controls_write(STDERR_FILENO, text, sizeof text - 1);
    _exit(tn_status_exit_code(TN_E_NO_MEMORY));
}

void cli_show_controls(void) {
    controls_terminal = cli_first_stderr();
    stdout = controls_open(&controls_out, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    stderr = controls_open(&controls_error, _IONBF);
}

FILE *cli_terminal(void) { return controls_terminal; }

/* Returns the file descriptor of stdout or stderr, which may be an escaping stream without a
 * descriptor of its own. */
static int controls_descriptor(FILE *stream) {
    int descriptor = fileno(stream);
    if (descriptor >= 0) return descriptor;
    return stream == stderr ? STDERR_FILENO : STDOUT_FILENO;
}

/* Escapes only newline and tab. The escaping streams handle all other characters that are not
 * printable. */
void cli_put_text(FILE *file, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\n' || *text == '\t')
            fprintf(file, "\\x%02x", *text);
        else
            fputc(*text, file);
    }
}

/* --- lines that fit the width of the terminal --- */

#define WIDTH_COLUMNS 80u /* columns of an output that is not a terminal */
#define WIDTH_FEWEST 40u
#define WIDTH_MOST 4096u

uint32_t cli_columns(FILE *to) {
    const char *given = getenv("COLUMNS");
    struct winsize size = {0};
    unsigned long columns = given != NULL ? strtoul(given, NULL, 10) : 0;
    if (columns == 0 && isatty(controls_descriptor(to)) &&
        ioctl(controls_descriptor(to), TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    if (columns == 0) columns = WIDTH_COLUMNS;
    if (columns < WIDTH_FEWEST) return WIDTH_FEWEST;
    return columns < WIDTH_MOST ? (uint32_t)columns : WIDTH_MOST;
}

void cli_fill(FILE *to, const char *text, uint32_t at, uint32_t indent, uint32_t columns) {
    bool begun = false;
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");
        if (begun && length > 0 && at + 1 + length > columns) {
            fprintf(to, "\n%*s", (int)indent, "");
            at = indent;
            begun = false;
        }
        if (length > 0) fprintf(to, "%s%.*s", begun ? " " : "", (int)length, text);
        at += (uint32_t)length + begun;
        begun = begun || length > 0;
        text += length;
        text += *text != '\0';
    }
    fputc('\n', to);
}

/* --- replacing settings of the library by options of the command --- */

/* Messages of the library do not mention options, because the library has no command line. They
 * name a setting by its public field or function, between backticks: "`dims` N: no dimension has
 * that name". The command prints the option that sets it instead: "--dim N: no dimension has that
 * name". Other words between backticks are printed unchanged. */

static const struct {
    const char *setting, *words;
} settings[] = {
    {"adjacent", "--adjacent"},
    {"alignment", "--alignment"},
    {"allow", "--allow"},
    {"bucket_bytes", "--bucket"},
    {"capacity", "--capacity"},
    {"dims", "--dim"},
    {"freeze", "--freeze"},
    {"fuse_concat", "--fuse-concat"},
    {"fuse_update", "--fuse-update"},
    {"input_shapes", "--input-shape"},
    {"keep_aten", "--keep-aten"},
    {"loss_parts", "--loss-parts"},
    {"loss_scale", "--loss-scale"},
    {"order", "--order"},
    {"pass", "--pass"},
    {"planner", "--planner"},
    {"read_limit", "--read-limit"},
    {"sequence", "--sequence"},
    {"shard", "--shard"},
    {"tn_stream_rule", "--stream"},
    {"tn_contents_generate", "--weights random:SEED"},
    {"tn_device_name", "`tenure list devices`"},
    {"tn_embedding_create", "`tenure embed create`"},
    {"tn_embedding_open", "`tenure embed undo`"},
    {"tn_embedding_policy_name", "`tenure list row-policies`"},
    {"tn_evict_policy_name", "`tenure list policies`"},
    {"tn_layout_from_offsets", "--plan FILE"},
    {"tn_object_strategy_name", "`tenure list objects`"},
    {"tn_op_rule_type", "`tenure list operators`"},
    {"tn_order_name", "`tenure list orders`"},
    {"tn_pass_name", "`tenure list passes`"},
    {"tn_planner_name", "`tenure list planners`"},
    {"tn_pool_name", "`tenure list pools`"},
    {"tn_problem_load", "`tenure plan`"},
    {"tn_rewrite_name", "`tenure list rewrites`"},
    {"tn_weights_bind", "--weights FILE"},
    {"tn_weights_total", "`tenure estimate`"},
    {"values", "--value"},
};

/* Returns the option for a setting of the library, or NULL if no setting has this name. */
static const char *settings_find(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strlen(settings[i].setting) == length && !memcmp(settings[i].setting, name, length))
            return settings[i].words;
    return NULL;
}

/* Returns a message of the library in which the command's options replace the settings between
 * backticks. The result is stored in `text`, which the caller has initialised and releases. If
 * memory runs out, the result is `message` itself. */
static const char *settings_replace(const char *message, tn__text *text) {
    const char *from = message, *words = NULL;
    for (const char *open = strchr(message, '`'); open != NULL; open = strchr(open + 1, '`')) {
        size_t length = strcspn(open + 1, "`");
        if (open[1 + length] != '\0') words = settings_find(open + 1, length);
        if (words == NULL) continue;
        tn__text_add(text, from, (size_t)(open - from));
        tn__text_put(text, words);
        open += 1 + length;
        from = open + 1;
        words = NULL;
    }
    tn__text_put(text, from);
    return text->failed ? message : text->data;
}

/* --- errors and notes --- */

static bool messages_has_colour(void) {
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (no_colour != NULL && no_colour[0] != '\0') return false;
    return isatty(STDERR_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

void cli_prefix(cli_level level) {
    static const char *const words[] = {"error: ", "warning: ", "note: "};
    static const char *const colours[] = {"31", "35", "36"};
    if (!messages_has_colour())
        fprintf(stderr, "tenure: %s", words[level]);
    else /* cli_terminal, because the escaping stream would print the colour codes as text */
        fprintf(cli_terminal(), "tenure: \033[1;%sm%s\033[0m", colours[level], words[level]);
}

/* Returns whether the process that reads standard output through a pipe has ended, even if no write
 * has failed yet. */
static bool messages_reader_left(void) {
    struct pollfd pipe = {.fd = STDOUT_FILENO};
    return poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0;
}

/* Ends the process by SIGPIPE, without a message, as other commands in a pipe such as `tenure ... |
 * head -1` do. */
static void messages_end_by_signal(void) {
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

/* Prints an error as a JSON object if --json was given, the exit status is 1 or 3, and nothing was
 * printed on standard output before. */
static void messages_fail_json(const tn_error *error, const char *members) {
    int code = tn_status_exit_code(error->status);
    tn__text words;
    cli_answer answer;
    if (!cli_tone_asked().json || (code != 1 && code != 3) || __fpending(stdout) > 0) return;
    tn__text_init(&words, NULL);
    cli_answer_begin(&answer, &cli_error_facts, true);
    cli_add_word(&answer, "status", tn_status_name(error->status));
    cli_add(&answer, "exit_status", (uint64_t)code);
    cli_add_word(&answer, "where", error->where);
    cli_add_word(&answer, "message", settings_replace(error->message, &words));
    cli_add_members(&answer, members);
    /* an error of printing is ignored: the message was printed on standard error */
    (void)cli_answer_end(&answer, NULL);
    tn__text_release(&words);
}

int cli_fail(const tn_error *error) { return cli_fail_with(error, NULL); }

/* Prints a text to standard error. If it begins with the path of standard input, as "-.csv:2" does,
 * that path is printed as "<stdin>". */
static void messages_put_place(const char *text) {
    if (text[0] == '-' && text[1] == '.' && cli_standard_is_input()) {
        fputs("<stdin>", stderr);
        text += strcspn(text, ": ");
    }
    cli_put_text(stderr, text);
}

static void messages_put_message(const char *message) {
    tn__text words;
    tn__text_init(&words, NULL);
    messages_put_place(settings_replace(message, &words));
    tn__text_release(&words);
}

int cli_fail_with(const tn_error *error, const char *members) {
    static const char interrupted[] = "interrupted before any result was found";
    bool ended = error->status == TN_E_STOPPED && cli_interrupted();
    cli_progress_end();
    /* stages of the work say that they were stopped, but not by whom; a search says it itself */
    tn_error told = *error;
    if (ended && strncmp(told.message, "interrupted", 11) != 0) {
        snprintf(told.message, sizeof told.message, "%s", interrupted);
        told.where[0] = '\0';
    }
    messages_fail_json(&told, members);
    if (error->status == TN_E_IO && messages_reader_left()) messages_end_by_signal();
    if (ended) {
        cli_prefix(CLI_ERROR);
        fprintf(stderr, "%s\n", interrupted);
        return tn_status_exit_code(error->status);
    }
    cli_prefix(CLI_ERROR);
    messages_put_place(error->where);
    if (error->where[0] != '\0') fputs(": ", stderr);
    messages_put_message(error->message);
    if (error->status == TN_E_OUTSIDE) fputs(", or add --follow-links", stderr);
    fputc('\n', stderr);
    return tn_status_exit_code(error->status);
}

void cli_note(const char *message) {
    if (cli_tone_asked().quiet) return;
    cli_progress_end();
    cli_prefix(CLI_NOTE);
    messages_put_message(message);
    fputc('\n', stderr);
}

int cli_finish(int status) {
    cli_progress_end();
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    int reason = errno;
    if (messages_reader_left()) messages_end_by_signal();
    cli_prefix(CLI_ERROR);
    fprintf(stderr, "cannot write to standard output: %s\n", strerror(reason));
    return 2;
}
