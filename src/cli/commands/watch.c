/* watch.c - `tenure watch`: prints the present holders of memory of a running process, again and
 * again.
 *
 * The process publishes tables (tenure/watch.h). Each refresh reads all of them. A step of the
 * program is marked if its peak exceeds the peaks of all steps before. This includes steps that
 * began and ended between two refreshes, because the tables remember the last steps.
 */
#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    WATCH_ROWS = 20,   /* rows of the text, unless --rows is given */
    WATCH_MARKS = 5,   /* marked steps that are printed at one refresh */
    WATCH_TABLES = 128 /* largest number of tables with a remembered last step */
};
#define WATCH_RETRY_S 0.05 /* time between two attempts to find the first table */

enum { WATCH_EVERY = 400, WATCH_ONCE, WATCH_WAIT, WATCH_BY, WATCH_ROWS_OPTION, WATCH_JSON };

#define WATCH_OPTIONS(X)                                                                           \
    X(WATCH_EVERY, "every", "TIME",                                                                \
      "print the holders at this interval, such as 500ms or 1m (default: 1s)")                     \
    X(WATCH_ONCE, "once", NULL, "print the holders once and exit")                                 \
    X(WATCH_WAIT, "wait", "TIME",                                                                  \
      "wait this long for the first table of the process (default: do not wait)")                  \
    X(WATCH_BY, "by", "KEY",                                                                       \
      "add up rows with the same key: line, module, category or size (default: none, all rows)")   \
    X(WATCH_ROWS_OPTION, "rows", "N",                                                              \
      "print the N largest rows of each table (default: 20; all with --json and in the log)")      \
    X('o', "output", "FILE",                                                                       \
      "append each refresh to this log, as one JSON object in a line (.jsonl)")                    \
    X(WATCH_JSON, "json", NULL, "print each refresh as one JSON object in a line")

typedef enum watch_key {
    WATCH_BY_ROW,
    WATCH_BY_LINE,
    WATCH_BY_MODULE,
    WATCH_BY_CATEGORY,
    WATCH_BY_SIZE
} watch_key;

typedef struct watch_seen { /* The last step of a table that was printed. */
    char source[32];
    uint64_t step;
} watch_seen;

typedef struct watch_arguments {
    uint32_t pid;
    double every_s, wait_s;
    bool once, json;
    watch_key by;
    uint64_t rows; /* 0: the default */
    const char *log_path;
    /* state of the run */
    FILE *log;
    watch_seen seen[WATCH_TABLES];
    uint32_t seen_count;
    uint64_t refreshes;
} watch_arguments;

static const struct argp_option watch_options[] = {WATCH_OPTIONS(CLI_OPTION){0}};

static uint32_t watch_pid(struct argp_state *state, const char *text) {
    char *end;
    unsigned long long pid = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || pid < 1 || pid > INT32_MAX)
        cli_misuse(state, "'%.60s' is not the number of a process (PID)", text);
    return (uint32_t)pid;
}

static error_t watch_parse(int key, char *value, struct argp_state *state) {
    watch_arguments *arguments = state->input;
    switch (key) {
    case WATCH_EVERY:
        arguments->every_s = cli_duration(state, "every", value);
        if (!(arguments->every_s > 0)) cli_misuse(state, "--every: the time must be above 0");
        return 0;
    case WATCH_ONCE:
        arguments->once = true;
        return 0;
    case WATCH_WAIT:
        arguments->wait_s = cli_duration(state, "wait", value);
        return 0;
    case WATCH_BY:
        arguments->by =
            (watch_key)(1 + CLI_CHOICE(state, "by", value, "line", "module", "category", "size"));
        return 0;
    case WATCH_ROWS_OPTION:
        arguments->rows = cli_count(state, "rows", value, UINT32_MAX);
        return 0;
    case 'o':
        cli_path_once(state, "output", &arguments->log_path, value);
        if (!tn__has_suffix(value, ".jsonl"))
            cli_misuse(state, "-o %s: a log is a .jsonl file", value);
        cli_check_folder(state, "output", value);
        return 0;
    case WATCH_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->pid != 0)
            cli_misuse(state, "one process is watched; '%s' is too many", value);
        arguments->pid = watch_pid(state, value);
        return 0;
    case ARGP_KEY_END:
        if (arguments->pid == 0)
            cli_misuse(state, "no process given; pass its number (PID), such as that of `pgrep`");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- the answer: its facts --- */

static const cli_facts watch_row_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "bytes", "bytes", "bytes in use now"),
        CLI_FACT(COUNT, "blocks", "blocks", "number of blocks in use now"),
        CLI_FACT(BYTES, "peak_bytes", "at the peak", "bytes at the peak of the table"),
        CLI_FACT(BYTES, "step_bytes", NULL,
                 "bytes at the peak of the present step; 0 if no step has begun"),
        CLI_FACT(BYTES, "block_size", "of each", "bytes of each block; null: the sizes differ"),
        CLI_FACT(WORD, "line", "line",
                 "line of code, function or offset that allocates; \"(other)\" for blocks without "
                 "a row of their own; empty if unknown"),
        CLI_FACT(WORD, "module", "module", "part of the network, or file; empty if unknown"),
        CLI_FACT(WORD, "category", "category", "such as parameter; empty if unknown"),
        CLI_FACTS_END}};
static const cli_facts watch_step_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "step", NULL, "number of the step, from 1"),
        CLI_FACT(BYTES, "peak", NULL, "its peak"),
        CLI_FACT(BYTES, "growth", NULL,
                 "bytes by which its peak exceeds those of all steps before; 0 if it does not"),
        CLI_FACT(WORD, "line", NULL, "if the step has growth: the row that grew most"),
        CLI_FACT(WORD, "module", NULL, "module of that row"),
        CLI_FACT(WORD, "category", NULL, "category of that row"),
        CLI_FACT(BYTES, "block_size", NULL, "block size of that row, or null"),
        CLI_FACT(BYTES, "row_growth", NULL, "growth of that row"), CLI_FACTS_END}};
static const cli_facts watch_table_facts = {
    .width = 12,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "source", NULL,
                 "name of the table: preload, cuda:N (libtenure_torch.so), torch "
                 "(tenure.torch.watch), or as the program chose"),
        CLI_FACT(BYTES, "bytes", "in use", "bytes in use now"),
        CLI_FACT(COUNT, "blocks", NULL, "number of blocks in use now"),
        CLI_FACT(BYTES, "peak", "peak", "most bytes in use at once"),
        CLI_FACT(COUNT, "step", "step", "number of the present step; 0: no step has begun"),
        CLI_FACT(BYTES, "step_peak", "|, peak so far ", "peak of the present step so far"),
        CLI_FACT(COUNT, "dropped", NULL,
                 "number of blocks that were counted without a row of their own"),
        CLI_FACT(YES, "exact", NULL,
                 "false: the table changed while it was read, so sums may differ from their parts"),
        CLI_FACT_OF(LIST, "steps", "the steps that have ended since the refresh before",
                    &watch_step_facts),
        CLI_FACT(COUNT, "missed_steps", NULL,
                 "number of further steps since then, which the table no longer has"),
        CLI_FACT(COUNT, "row_count", NULL, "number of rows, also of those that are not printed"),
        CLI_FACT_OF(LIST, "rows", "the holders, the largest first", &watch_row_facts),
        CLI_FACTS_END}};
static const cli_facts watch_facts = {
    .name = "watch",
    .width = 12,
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "pid", NULL, "number of the process"),
        CLI_FACT(WORD, "program", NULL, "name of its program"),
        CLI_FACT(COUNT, "time", NULL, "time of the refresh, in seconds since 1970"),
        CLI_FACT(YES, "ended", NULL,
                 "whether the process has ended without removing its tables, as when it is killed"),
        CLI_FACT_OF(LIST, "tables", "the tables of the process", &watch_table_facts),
        CLI_FACTS_END}};

/* --- rows --- */

static bool watch_same(watch_key by, const tn_watch_row *a, const tn_watch_row *b) {
    switch (by) {
    case WATCH_BY_LINE:
        return strcmp(a->line, b->line) == 0;
    case WATCH_BY_MODULE:
        return strcmp(a->module, b->module) == 0;
    case WATCH_BY_CATEGORY:
        return strcmp(a->category, b->category) == 0;
    case WATCH_BY_SIZE:
        return a->block_size == b->block_size;
    case WATCH_BY_ROW:
        break;
    }
    return false;
}

/* Orders rows by key, so that rows with the same key are neighbours. */
static int watch_order_by(watch_key by, const tn_watch_row *a, const tn_watch_row *b) {
    if (by == WATCH_BY_LINE) return strcmp(a->line, b->line);
    if (by == WATCH_BY_MODULE) return strcmp(a->module, b->module);
    if (by == WATCH_BY_CATEGORY) return strcmp(a->category, b->category);
    return (a->block_size > b->block_size) - (a->block_size < b->block_size);
}
static int watch_order_line(const void *a, const void *b) {
    return watch_order_by(WATCH_BY_LINE, a, b);
}
static int watch_order_module(const void *a, const void *b) {
    return watch_order_by(WATCH_BY_MODULE, a, b);
}
static int watch_order_category(const void *a, const void *b) {
    return watch_order_by(WATCH_BY_CATEGORY, a, b);
}
static int watch_order_size(const void *a, const void *b) {
    return watch_order_by(WATCH_BY_SIZE, a, b);
}

static int watch_order(const void *left, const void *right) {
    const tn_watch_row *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    if (a->peak_bytes != b->peak_bytes) return a->peak_bytes > b->peak_bytes ? -1 : 1;
    return watch_order_by(WATCH_BY_LINE, a, b);
}

/* Adds up rows with the same key; returns the number of sums. The sum keeps only the key. */
static uint32_t watch_add_up(watch_key by, tn_watch_row *rows, uint32_t count) {
    static int (*const orders[])(const void *, const void *) = {
        NULL, watch_order_line, watch_order_module, watch_order_category, watch_order_size};
    uint32_t sums = 0;
    if (by == WATCH_BY_ROW || count == 0) return count;
    qsort(rows, count, sizeof *rows, orders[by]);
    for (uint32_t i = 0; i < count; i++) {
        tn_watch_row *sum = sums > 0 ? &rows[sums - 1] : NULL;
        const tn_watch_row row = rows[i];
        if (sum == NULL || !watch_same(by, sum, &row)) {
            sum = &rows[sums++];
            *sum = (tn_watch_row){.line = by == WATCH_BY_LINE ? row.line : "",
                                  .module = by == WATCH_BY_MODULE ? row.module : "",
                                  .category = by == WATCH_BY_CATEGORY ? row.category : "",
                                  .block_size = by == WATCH_BY_SIZE ? row.block_size : 0};
        }
        sum->bytes = tn__add_sat(sum->bytes, row.bytes);
        sum->blocks = tn__add_sat(sum->blocks, row.blocks);
        sum->peak_bytes = tn__add_sat(sum->peak_bytes, row.peak_bytes);
        sum->step_bytes = tn__add_sat(sum->step_bytes, row.step_bytes);
    }
    qsort(rows, sums, sizeof *rows, watch_order);
    return sums;
}

static void watch_add_size(cli_answer *answer, uint64_t block_size) {
    if (block_size != 0)
        cli_add(answer, "block_size", block_size);
    else if (cli_answer_table(answer) == NULL)
        cli_add_null(answer, "block_size");
}

static tn_status watch_add_rows(const watch_arguments *arguments, cli_answer *answer,
                                const tn_watch_table *table, tn_error *error) {
    tn_watch_row *rows = calloc((size_t)table->row_count + 1, sizeof *rows);
    if (rows == NULL) return tn__no_memory(error, "the rows of a table");
    if (table->row_count > 0) memcpy(rows, table->rows, table->row_count * sizeof *rows);
    uint32_t count = watch_add_up(arguments->by, rows, table->row_count);
    bool is_text = cli_answer_table(answer) != NULL;
    uint64_t shown = arguments->rows != 0 ? arguments->rows : is_text ? WATCH_ROWS : UINT64_MAX;
    cli_add(answer, "row_count", count);
    cli_answer_open(answer, "rows");
    for (uint32_t i = 0; i < count && i < shown; i++) {
        cli_answer_open(answer, NULL);
        cli_add(answer, "bytes", rows[i].bytes);
        cli_add(answer, "blocks", rows[i].blocks);
        cli_add(answer, "peak_bytes", rows[i].peak_bytes);
        cli_add(answer, "step_bytes", rows[i].step_bytes);
        watch_add_size(answer, rows[i].block_size);
        cli_add_word(answer, "line", rows[i].line);
        cli_add_word(answer, "module", rows[i].module);
        cli_add_word(answer, "category", rows[i].category);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
    if (count > shown)
        cli_add_text(answer, "  and %" PRIu64 " smaller rows; see --rows\n", count - shown);
    free(rows);
    return TN_OK;
}

/* --- steps --- */

/* Returns the record of a table, which it makes for a new one; NULL: there are too many. */
static watch_seen *watch_find_seen(watch_arguments *arguments, const char *source) {
    for (uint32_t i = 0; i < arguments->seen_count; i++)
        if (strcmp(arguments->seen[i].source, source) == 0) return &arguments->seen[i];
    if (arguments->seen_count == WATCH_TABLES) return NULL;
    watch_seen *made = &arguments->seen[arguments->seen_count++];
    snprintf(made->source, sizeof made->source, "%s", source);
    return made;
}

static void watch_print_mark(cli_answer *answer, const tn_watch_past *past) {
    char growth[TN_SIZE_TEXT_MAX], number[TN__GROUPED_MAX];
    const char *parts[] = {past->line, past->module, past->category};
    tn__text words;
    tn__text_init(&words, NULL);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i][0] != '\0')
            tn__text_printf(&words, "%s%s", words.size > 0 ? ", " : "", parts[i]);
    if (past->block_size != 0)
        tn__text_printf(&words, "%sblocks of %s bytes", words.size > 0 ? ", " : "",
                        tn__grouped(past->block_size, number));
    if (past->row_growth < past->growth)
        tn__text_printf(&words, " (%s bytes)", tn__grouped(past->row_growth, number));
    cli_add_line(answer, "grew", "step %" PRIu64 " by %s, most by %s", past->step,
                 tn_size_format(past->growth, growth),
                 words.size > 0 ? words.data : "unknown code");
    tn__text_release(&words);
}

static void watch_add_step(cli_answer *answer, const tn_watch_past *past) {
    cli_answer_open(answer, NULL);
    cli_add(answer, "step", past->step);
    cli_add(answer, "peak", past->peak);
    cli_add(answer, "growth", past->growth);
    if (past->growth > 0) {
        cli_add_word(answer, "line", past->line);
        cli_add_word(answer, "module", past->module);
        cli_add_word(answer, "category", past->category);
        watch_add_size(answer, past->block_size);
        cli_add(answer, "row_growth", past->row_growth);
    }
    cli_answer_close(answer);
}

/* Adds the steps that have ended after step `seen`. The text has only those that grew. */
static void watch_add_steps(cli_answer *answer, const tn_watch_table *table, uint64_t seen) {
    const bool is_text = cli_answer_table(answer) != NULL;
    uint64_t grown = 0, listed = 0, missed = 0;
    if (!is_text) cli_answer_open(answer, "steps");
    for (uint32_t i = 0; i < table->past_count; i++)
        grown += table->past[i].step > seen && table->past[i].growth > 0;
    for (uint32_t i = 0; i < table->past_count; i++) {
        const tn_watch_past *past = &table->past[i];
        if (past->step <= seen) continue;
        if (listed++ == 0) missed = past->step - seen - 1;
        if (!is_text)
            watch_add_step(answer, past);
        else if (past->growth > 0 && grown-- <= WATCH_MARKS)
            watch_print_mark(answer, past);
    }
    if (!is_text) cli_answer_close(answer);
    cli_add(answer, "missed_steps", missed);
}

/* --- one refresh --- */

/* Whether each refresh replaces the one before on a terminal. */
static bool watch_is_screen(const watch_arguments *arguments) {
    const cli_tone tone = cli_tone_asked();
    return !arguments->json && !arguments->once && !tone.brief && !tone.quiet &&
           isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
}

static tn_status watch_add_table(watch_arguments *arguments, cli_answer *answer,
                                 const tn_watch_view *view, const tn_watch_table *table,
                                 tn_error *error) {
    const watch_seen *seen = watch_find_seen(arguments, table->source);
    char blocks[TN__GROUPED_MAX];
    cli_answer_open(answer, NULL);
    cli_add_text(answer, "%s (%u), %s%s\n", view->program[0] != '\0' ? view->program : "process",
                 view->pid, table->source, view->has_ended ? ", ended" : "");
    cli_add_word(answer, "source", table->source);
    cli_add(answer, "bytes", table->bytes);
    cli_add_more(answer, " in %s block%s", tn__grouped(table->blocks, blocks),
                 table->blocks == 1 ? "" : "s");
    cli_add(answer, "blocks", table->blocks);
    cli_add(answer, "peak", table->peak);
    cli_add_if(answer, "step", table->step);
    cli_add_if(answer, "step_peak", table->step_peak);
    cli_add(answer, "dropped", table->dropped);
    cli_add(answer, "exact", table->is_exact);
    if (table->dropped > 0)
        cli_add_line(answer, "note",
                     "the table is full; %" PRIu64 " blocks were counted as (other)",
                     table->dropped);
    if (!table->is_exact)
        cli_add_line(answer, "note", "the table changed while it was read; sums may differ");
    /* on a screen, marks stay as long as the table has them */
    bool has_screen = cli_answer_table(answer) != NULL && watch_is_screen(arguments);
    watch_add_steps(answer, table, seen != NULL && !has_screen ? seen->step : 0);
    tn_status status = watch_add_rows(arguments, answer, table, error);
    cli_answer_close(answer);
    return status;
}

/* Adds the brief line of a refresh: the tables in one line each. */
static void watch_add_brief(cli_answer *answer, const tn_watch_view *view) {
    char bytes[TN_SIZE_TEXT_MAX], peak[TN_SIZE_TEXT_MAX];
    for (uint32_t i = 0; i < view->table_count; i++) {
        const tn_watch_table *table = &view->tables[i];
        if (i > 0) cli_add_break(answer);
        cli_add_brief(answer, "%s: %s in use, peak %s", table->source,
                      tn_size_format(table->bytes, bytes), tn_size_format(table->peak, peak));
        if (table->step > 0) cli_add_brief(answer, ", step %" PRIu64, table->step);
    }
}

/* Writes a refresh to a file. */
static tn_status watch_print(watch_arguments *arguments, const tn_watch_view *view, bool json,
                             FILE *file, tn_error *error) {
    cli_answer answer;
    tn_status status = TN_OK;
    cli_answer_begin(&answer, &watch_facts, json);
    watch_add_brief(&answer, view);
    cli_add(&answer, "pid", view->pid);
    cli_add_word(&answer, "program", view->program);
    cli_add(&answer, "time", (uint64_t)time(NULL));
    cli_add(&answer, "ended", view->has_ended);
    cli_answer_open(&answer, "tables");
    for (uint32_t i = 0; i < view->table_count && status == TN_OK; i++)
        status = watch_add_table(arguments, &answer, view, &view->tables[i], error);
    cli_answer_close(&answer);
    if (status == TN_OK) status = cli_answer_write(&answer, file, error);
    (void)fflush(file);
    return status;
}

/* Prints a refresh: on a terminal in place of the one before, otherwise after an empty line. */
static tn_status watch_refresh(watch_arguments *arguments, const tn_watch_view *view,
                               tn_error *error) {
    if (watch_is_screen(arguments))
        fputs("\033[H\033[J", cli_terminal());
    else if (arguments->refreshes > 0 && !arguments->json && !cli_tone_asked().brief)
        putchar('\n');
    arguments->refreshes++;
    TN_TRY(watch_print(arguments, view, arguments->json, stdout, error));
    if (arguments->log != NULL) {
        TN_TRY(watch_print(arguments, view, true, arguments->log, error));
        if (ferror(arguments->log))
            return tn__where(error, tn__fail_system(error, errno, "write the log"), "%s",
                             arguments->log_path);
    }
    for (uint32_t i = 0; i < view->table_count; i++) {
        const tn_watch_table *table = &view->tables[i];
        watch_seen *seen = watch_find_seen(arguments, table->source);
        if (seen != NULL && table->past_count > 0)
            seen->step = table->past[table->past_count - 1].step;
    }
    return TN_OK;
}

/* --- the command --- */

/* Reads the tables; waits for the first one if the user asked for it. */
static tn_status watch_find(const watch_arguments *arguments, double begun, tn_watch_view **view,
                            tn_error *error) {
    tn_status status = tn_watch_read(arguments->pid, NULL, view, error);
    while (status == TN_E_UNKNOWN && arguments->refreshes == 0 &&
           tn__clock_s() < begun + arguments->wait_s) {
        tn__clock_sleep_until(tn__clock_s() + WATCH_RETRY_S);
        status = tn_watch_read(arguments->pid, NULL, view, error);
    }
    return status;
}

static tn_status watch_run_all(watch_arguments *arguments, tn_error *error) {
    const double begun = tn__clock_s();
    for (double next = begun;;) {
        tn_watch_view *view;
        tn_status status = watch_find(arguments, begun, &view, error);
        if (status == TN_E_UNKNOWN && arguments->refreshes > 0) {
            char note[80];
            snprintf(note, sizeof note, "process %u has ended or has closed its tables",
                     arguments->pid);
            cli_note(note);
            return TN_OK;
        }
        TN_TRY(status);
        status = watch_refresh(arguments, view, error);
        bool has_ended = view->has_ended;
        tn_watch_view_release(view);
        if (status != TN_OK || arguments->once || has_ended || ferror(stdout)) return status;
        next = tn__clock_s() > next + arguments->every_s ? tn__clock_s() : next;
        next += arguments->every_s;
        tn__clock_sleep_until(next);
    }
}

static int watch_run(int count, char **words);

static const struct argp watch_parser = {
    watch_options,
    watch_parse,
    "PID",
    "Print the present holders of memory of a running process: bytes now and at the peak, by line, "
    "module, category and block size. The process publishes them if it runs with TENURE_WATCH=1 "
    "under libtenure_preload.so or libtenure_torch.so, or calls tenure.torch.watch (Python) or "
    "tn_watch_create (C). A step of the program is marked if its peak exceeds all peaks before. "
    "The "
    "command ends with the process, or with Ctrl-C."
    "\vExamples:\n"
    "  TENURE_WATCH=1 LD_PRELOAD=libtenure_preload.so ./program &\n"
    "  tenure watch $! --every 5s\n"
    "  tenure watch $! --once --by module\n\n"
    "Exit status: 0 done, 2 bad usage, no such process, no table, or a table that cannot be read, "
    "4 "
    "internal error.",
    NULL,
    NULL,
    NULL};

const cli_command cli_command_watch = {
    .name = "watch",
    .summary = "print the present holders of memory of a running process",
    .first = "every once by rows output json",
    .answers = (const cli_facts *const[]){&watch_facts, NULL},
    .parser = &watch_parser,
    .run = watch_run,
};

static int watch_run(int count, char **words) {
    watch_arguments arguments = {.every_s = 1};
    tn_error error = {0};
    cli_parse(&cli_command_watch, count, words, &arguments);
    if (arguments.log_path != NULL) {
        arguments.log = fopen(arguments.log_path, "ae");
        if (arguments.log == NULL) {
            (void)tn__fail_system(&error, errno, "open the log");
            (void)tn__where(&error, error.status, "%s", arguments.log_path);
            return cli_fail(&error);
        }
    }
    tn_status status = watch_run_all(&arguments, &error);
    if (arguments.log != NULL && fclose(arguments.log) != 0 && status == TN_OK)
        status = tn__where(&error, tn__fail_system(&error, errno, "write the log"), "%s",
                           arguments.log_path);
    return cli_finish(status == TN_OK ? 0 : cli_fail(&error));
}
