/* progress.c - reports the progress of long work: by a bar on a terminal, or by lines with
 * --progress=lines, which prints a line when a stage begins and at intervals that grow. The file
 * also handles Ctrl-C, which stops a search with the best answer so far, and has the clock of the
 * command. */
#include "base/base.h"
#include "cli/cli.h"
#include "report/format.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_BAR_AFTER_S 0.5
#define PROGRESS_BAR_EVERY_S 0.1
/* Bounds of the time between two lines, in seconds. Between the bounds, the next line comes when
 * the elapsed time is 1.5 times the present one. */
#define PROGRESS_LINE_LEAST_S 2.0
#define PROGRESS_LINE_MOST_S 60.0
#define PROGRESS_STAGES 16 /* number of stages for which a line is printed when they begin */
#define PROGRESS_WIDTH 24
#define PROGRESS_TEXT 200

static struct progress_state { /* The progress of the command that this process runs. */
    uint32_t mode;             /* index into cli_progress_modes */
    double start, next;
    bool drawn, plain_costs;
    /* The last printed note. It is not printed twice in a row, because a search may read one file
     * several times. */
    char note[400];
    const char *begun[PROGRESS_STAGES]; /* names of the stages whose beginning was printed */
    uint32_t begun_count;
    const char *stage; /* the stage that last reported `best` and `bound`; NULL: none has yet */
    /* best value and lower bound of a search; UINT64_MAX and 0 mean unknown */
    uint64_t best, bound;
    double deadline; /* time on the clock of cli_clock at which work must stop; 0: no deadline */
    const char *hurried; /* name of the stage that the deadline stops; NULL: every stage */
} progress = {.best = UINT64_MAX};

static volatile sig_atomic_t progress_interrupts;

const char *const cli_progress_modes[] = {"auto", "bar", "lines", "none", NULL};
enum { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_LINES, PROGRESS_NONE };

void cli_progress_set(uint32_t mode) { progress.mode = mode; }
void cli_progress_plain_costs(void) { progress.plain_costs = true; }

/* --- Ctrl-C --- */

static void progress_interrupt(int number) {
    static const char text[] = "\ntenure: note: stopping with the best result so far; press Ctrl-C "
                               "again to quit at once\n";
    if (cli_signal_repeats(number) || progress_interrupts != 0) return;
    progress_interrupts = 1;
    if (progress.mode != PROGRESS_NONE && write(STDERR_FILENO, text, sizeof text - 1) < 0)
        progress_interrupts = 1; /* the failed write is ignored, because standard error is closed */
}

void cli_interrupt_ends_work(void) { cli_on_signal(SIGINT, progress_interrupt); }

bool cli_interrupted(void) { return progress_interrupts != 0; }

void cli_deadline(double at, const char *stage) {
    progress.deadline = at;
    progress.hurried = stage;
}
bool cli_is_late(void) { return progress.deadline > 0 && cli_clock() >= progress.deadline; }

int cli_print_interrupted(uint64_t best, uint64_t bound) {
    cli_progress_end();
    cli_prefix(CLI_WARNING);
    fputs("interrupted; this is the best result so far (verified), ", stderr);
    if (bound > 0)
        fprintf(stderr, "%.2f %% above the lower bound\n", 100 * tn__words_gap(best, bound));
    else
        fputs("with no known lower bound\n", stderr);
    return tn_status_exit_code(TN_E_STOPPED);
}

/* --- output --- */

static void progress_amount(const char *stage, uint64_t amount, char text[TN__WORDS_MAX]) {
    if (strcmp(stage, "fit") != 0)
        tn__words_iec(amount, text);
    else if (progress.plain_costs)
        tn__grouped(amount, text);
    else
        snprintf(text, TN__WORDS_MAX, "%.4g s", (double)amount / (double)TN_COSTS_PER_S);
}

/* Writes the best value, the bound and the gap, as far as they are known, such as ", best 10.6 MiB,
 * bound 10.1 MiB, gap 4.9 %". */
static void progress_answer(const char *stage, char text[PROGRESS_TEXT]) {
    char best[TN__WORDS_MAX], bound[TN__WORDS_MAX];
    text[0] = '\0';
    bool known = progress.stage != NULL && strcmp(progress.stage, stage) == 0;
    if (!known || progress.best == UINT64_MAX) return;
    progress_amount(stage, progress.best, best);
    progress_amount(stage, progress.bound, bound);
    if (progress.bound == 0)
        snprintf(text, PROGRESS_TEXT, ", best %s", best);
    else
        snprintf(text, PROGRESS_TEXT, ", best %s, bound %s, gap %.1f %%", best, bound,
                 100 * tn__words_gap(progress.best, progress.bound));
}

static void progress_draw_bar(const char *stage, uint64_t done, uint64_t total, double seconds) {
    char line[3 * PROGRESS_TEXT], bar[PROGRESS_TEXT] = "", answer[PROGRESS_TEXT];
    uint64_t most = total > 0 ? total : 1;
    int filled = (int)(PROGRESS_WIDTH * (double)(done < most ? done : most) / (double)most);
    if (total > 0)
        snprintf(bar, sizeof bar, " [%.*s%.*s]", filled, "########################",
                 PROGRESS_WIDTH - filled, "                        ");
    progress_answer(stage, answer);
    snprintf(line, sizeof line, "%s%s %.1f s%s", stage, bar, seconds, answer);
    fprintf(cli_terminal(), "\r\033[K%.*s", (int)cli_columns(stderr) - 1, line);
    progress.drawn = true;
}

static void progress_print_line(const char *stage, uint64_t done, uint64_t total, double seconds) {
    char answer[PROGRESS_TEXT], share[16] = "";
    progress_answer(stage, answer);
    if (total > 0) snprintf(share, sizeof share, ", %.0f %%", 100 * (double)done / (double)total);
    fprintf(stderr, "tenure: %s: %.0f s%s%s\n", stage, seconds, share, answer);
}

cli_progress_form cli_progress_shown(void) {
    bool silent = progress.mode == PROGRESS_NONE || cli_tone_asked().quiet ||
                  (progress.mode == PROGRESS_AUTO && !isatty(STDERR_FILENO));
    if (silent) return CLI_PROGRESS_SILENT;
    return progress.mode == PROGRESS_LINES ? CLI_PROGRESS_LINES : CLI_PROGRESS_BAR;
}

double cli_progress_wait(double passed) {
    double wait = passed / 2;
    if (wait < PROGRESS_LINE_LEAST_S) return PROGRESS_LINE_LEAST_S;
    return wait < PROGRESS_LINE_MOST_S ? wait : PROGRESS_LINE_MOST_S;
}

/* Returns whether the stage reports progress for the first time, and records it. Stages may
 * alternate, as planning and fitting do in a search. */
static bool progress_begins(const char *stage) {
    for (uint32_t i = 0; i < progress.begun_count; i++)
        if (strcmp(progress.begun[i], stage) == 0) return false;
    if (progress.begun_count == PROGRESS_STAGES) return false;
    progress.begun[progress.begun_count++] = stage;
    return true;
}

static bool progress_step(void *self, const char *stage, uint64_t done, uint64_t total) {
    (void)self;
    cli_progress_form form = cli_progress_shown();
    bool hurried = progress.hurried == NULL || strcmp(stage, progress.hurried) == 0;
    if (cli_interrupted() || (hurried && cli_is_late())) return false;
    if (form == CLI_PROGRESS_SILENT) return true;
    double now = cli_clock();
    bool bar = form == CLI_PROGRESS_BAR;
    if (progress.start == 0) {
        progress.start = now;
        progress.next = now + (bar ? PROGRESS_BAR_AFTER_S : 0);
    }
    bool begins = !bar && progress_begins(stage);
    if (now < progress.next && !begins) return true;
    double passed = now - progress.start;
    (bar ? progress_draw_bar : progress_print_line)(stage, done, total, passed);
    progress.next = now + (bar ? PROGRESS_BAR_EVERY_S : cli_progress_wait(passed));
    return true;
}

static void progress_found(void *self, const char *stage, uint64_t best, uint64_t bound) {
    (void)self;
    progress.stage = stage;
    progress.best = best;
    progress.bound = bound;
}

static void progress_note(void *self, const char *message) {
    (void)self;
    if (strncmp(message, progress.note, sizeof progress.note - 1) == 0) return;
    snprintf(progress.note, sizeof progress.note, "%s", message);
    cli_note(message);
}

tn_context cli_context(void) {
    tn_context context = TN_CONTEXT_INIT;
    context.log = progress_note;
    context.progress = progress_step;
    context.found = progress_found;
    return context;
}

void cli_progress_end(void) {
    if (progress.drawn) fputs("\r\033[K", cli_terminal());
    progress.drawn = false;
}

/* --- signals and the clock --- */

#define SIGNALS_SAME_S 0.25 /* seconds within which two signals count as one */

double cli_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool cli_signal_repeats(int number) {
    static volatile double first;
    double now = cli_clock();
    if (first == 0) first = now;
    if (now - first < SIGNALS_SAME_S) return false;
    cli_end_by_signal(number);
    return true;
}

void cli_end_by_signal(int number) {
    tn__new_file_abandon();
    signal(number, SIG_DFL);
    /* The signal is blocked here, so raise takes effect after the handler returns. */
    raise(number);
}

void cli_on_signal(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler}, before;
    /* a shell ignores these signals for background jobs */
    bool by_shell = number == SIGINT || number == SIGQUIT;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN &&
        !(by_shell && handler != cli_end_by_signal))
        return;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    (void)sigaction(number, &action, NULL);
}
