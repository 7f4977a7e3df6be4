/* fuzz_problem.h - what must hold for any bytes that a problem reader accepts. */
#ifndef TN_FUZZ_PROBLEM_H
#define TN_FUZZ_PROBLEM_H

#include <stdlib.h>
#include <string.h>

#include <tenure/plan.h>

#include "fuzz.h"
#include "base/base.h"
#include "plan/io/io.h"

#define FUZZ_WORK 300u /* of a planner: what is fuzzed is the way there */
#define FUZZ_PLAN_MAX 24u

static inline bool fuzz_same_piece(const tn_piece *a, const tn_piece *b, uint32_t streams) {
    size_t clocks = streams > 1 ? streams * sizeof *a->begins : 0;
    return a->first == b->first && a->last == b->last && a->lo == b->lo && a->hi == b->hi &&
           (clocks == 0 ||
            (memcmp(a->begins, b->begins, clocks) == 0 && memcmp(a->ends, b->ends, clocks) == 0));
}

static inline bool fuzz_same_body(const tn_body *a, const tn_body *b, uint32_t streams) {
    const uint32_t kept = TN_BODY_PINNED | TN_BODY_TIED | TN_BODY_LEADS | TN_BODY_ANY_BANK;
    bool same = a->size == b->size && a->first == b->first && a->last == b->last &&
                a->alignment == b->alignment && a->bank == b->bank && a->leader == b->leader &&
                a->delta == b->delta && a->traffic == b->traffic &&
                ((a->flags ^ b->flags) & kept) == 0 && a->piece_count == b->piece_count;
    for (uint32_t i = 0; same && i < a->piece_count; i++)
        same = fuzz_same_piece(&a->pieces[i], &b->pieces[i], streams);
    return same;
}

/* Written as CSV and read again, the problem is the same. */
static inline void fuzz_round_trip(const tn_problem *problem) {
    tn__text text;
    tn_problem *again;
    tn__text_init(&text, NULL);
    if (tn__csv_render(problem, NULL, &text, NULL) == TN_OK) {
        tn_error error = {0};
        fuzz_must(!text.failed);
        tn_status status =
            tn_problem_load_memory("again.csv", text.data, text.size, NULL, &again, NULL, &error);
        fuzz_must(status == TN_OK && tn_problem_count(again) == tn_problem_count(problem));
        for (uint32_t i = 0; i < tn_problem_count(problem); i++)
            fuzz_must(fuzz_same_body(tn_problem_body(problem, i), tn_problem_body(again, i),
                                     tn_problem_streams(problem)));
        uint32_t count, same;
        tn_problem_separations(problem, &count);
        tn_problem_separations(again, &same);
        fuzz_must(count == same);
        tn_problem_reuse_costs(problem, &count);
        tn_problem_reuse_costs(again, &same);
        fuzz_must(count == same);
        tn_problem_exclusions(problem, &count);
        tn_problem_exclusions(again, &same);
        fuzz_must(count == same);
        tn_problem_destroy(again);
    }
    tn__text_release(&text);
}

/* Waits and time: the plan is verified by tn_plan, and its waits are pairs of events. */
static inline void fuzz_waits(const tn_problem *problem, size_t size) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_layout layout;
    tn_error error = {0};
    tn_wait *list;
    uint64_t count, time;
    uint32_t events;
    tn_problem_events(problem, &events);
    if (events == 0 || tn_problem_bank_count(problem) != 1) return;
    options.objective = size % 2 ? TN_OBJECTIVE_TIME : TN_OBJECTIVE_WAITS;
    options.workers = (uint32_t)(size / 2 % 4);
    options.capacity = 1 + size % 512;
    options.work_limit = FUZZ_WORK;
    tn_status status = tn_plan(problem, &options, &layout, &error);
    fuzz_must(status != TN_E_INTERNAL && (status == TN_OK || error.message[0] != '\0'));
    if (status != TN_OK) return;
    status = tn_layout_waits(problem, &layout, options.workers, &list, &count, &time, &error);
    fuzz_must(status == TN_OK && count == layout.waits && time == layout.time);
    for (uint64_t i = 0; i < count; i++)
        fuzz_must(list[i].before < list[i].after && list[i].after < events);
    tn_waits_release(list);
    tn_layout_release(&layout);
}

static inline int fuzz_problem(const char *name, const uint8_t *bytes, size_t size) {
    tn_problem *problem = NULL;
    tn_layout layout;
    tn_error error = {0};
    tn_status status = tn_problem_load_memory(name, bytes, size, NULL, &problem, NULL, &error);
    if (status != TN_OK) {
        fuzz_must(problem == NULL && error.message[0] != '\0' && error.where[0] != '\0');
        return 0;
    }
    fuzz_accept();
    fuzz_round_trip(problem);
    if (tn_problem_count(problem) <= FUZZ_PLAN_MAX) {
        tn_plan_options options = TN_PLAN_OPTIONS_INIT; /* the input's length says which planner */
        options.planner = tn_planner_name((uint32_t)(size % tn_planner_count()));
        options.work_limit = FUZZ_WORK;
        status = tn_plan(problem, &options, &layout, &error);
        fuzz_must(status == TN_OK || status == TN_E_INFEASIBLE || status == TN_E_STOPPED ||
                  status == TN_E_INVALID || status == TN_E_UNSUPPORTED);
        if (status == TN_OK) tn_layout_release(&layout);
        fuzz_waits(problem, size);
    }
    tn_problem_destroy(problem);
    return 0;
}

#endif
