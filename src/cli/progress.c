/* progress.c - a bar for long work, on a terminal only. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_AFTER_S 0.5
#define PROGRESS_EVERY_S 0.1
#define PROGRESS_WIDTH 40

static struct progress_state { /* of the one command that this process runs */
    double start, last;
    bool drawn;
    char note[400]; /* the last: a search reads the same file again and again */
} progress;

static bool progress_draw(void *self, const char *stage, uint64_t done, uint64_t total) {
    (void)self;
    double now = cli_clock();
    if (progress.start == 0) progress.start = progress.last = now;
    if (now - progress.start < PROGRESS_AFTER_S || now - progress.last < PROGRESS_EVERY_S)
        return true;
    progress.last = now;
    progress.drawn = true;
    if (total == 0) {
        fprintf(stderr, "\r%s: %llu steps, %.1f s ", stage, (unsigned long long)done,
                now - progress.start);
        return true;
    }
    int filled = (int)(PROGRESS_WIDTH * (double)(done < total ? done : total) / (double)total);
    fprintf(stderr, "\r%s [%.*s%*s] %.1f s ", stage, filled,
            "########################################", PROGRESS_WIDTH - filled, "",
            now - progress.start);
    return true;
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
    if (isatty(STDERR_FILENO)) context.progress = progress_draw;
    return context;
}

void cli_progress_end(void) {
    if (progress.drawn) fputs("\r\033[K", stderr);
    progress.drawn = false;
}
