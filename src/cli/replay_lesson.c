/* replay_lesson.c - prints the plan that a pool learned from a recorded run, below its row and in
 * JSON. */
#include "cli/replay.h"

#include <inttypes.h>
#include <stdio.h>

#include "report/format.h"

void cli_replay_print_lesson(const tn_pool_lesson *lesson, uint32_t blocks) {
    char height[TN__WORDS_MAX];
    if (lesson->plans == 0) return;
    double part = 100.0 / blocks;
    printf("  %-12s %18s  in force; %" PRIu64 " plan%s served %.1f %% of requests, %.1f %% were "
           "surprises\n",
           "  its plan", lesson->period != 0 ? tn__grouped(lesson->height, height) : "none",
           lesson->plans, lesson->plans == 1 ? "" : "s", part * (double)lesson->served,
           part * (double)lesson->surprises);
}

void cli_replay_json_lesson(const tn_pool_lesson *lesson, tn__text *text) {
    if (lesson->plans == 0) return;
    tn__text_printf(
        text,
        ", \"learned\": {\"plans\": %" PRIu64 ", \"served\": %" PRIu64 ", \"surprises\": %" PRIu64
        ", \"period\": %" PRIu64 ", \"height\": %" PRIu64 "}",
        lesson->plans, lesson->served, lesson->surprises, lesson->period, lesson->height);
}
