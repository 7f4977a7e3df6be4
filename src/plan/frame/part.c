/* part.c - runs a planner on some of the buffers of a run, or on buffers made from them.
 *
 * Planners often reduce a problem to a smaller one: a window of time in which the buffers outside
 * stay in place, or buffers merged into larger ones. The smaller problem is prepared like a bank,
 * with times ranked anew. Any planner can solve it under a work limit, so that the result is the
 * same on every machine.
 *
 * Cost: O(count log count) in addition to the planner.
 */
#include "plan/frame/planner_run.h"

typedef struct part_times {
    tn__sort_item *items; /* [2 * count], the first and last time of each buffer */
    uint32_t *rank;       /* [2 * count], the ranks of these times */
} part_times;

static bool part_rank(tn__prepared_bank *p, const tn__subproblem *part, part_times *times) {
    size_t count = 2 * (size_t)part->count;
    const tn_context *context = &p->context;
    for (uint32_t i = 0; i < part->count; i++) {
        times->items[2 * i] = (tn__sort_item){part->bodies[i].first, 2 * i};
        times->items[2 * i + 1] = (tn__sort_item){part->bodies[i].last, 2 * i + 1};
    }
    if (!tn__sort_items(context, times->items, count)) return false;
    for (size_t i = 0; i < count; i++) {
        p->time_count += i == 0 || times->items[i].key != times->items[i - 1].key;
        times->rank[times->items[i].id] = p->time_count - 1;
    }
    p->times = tn__alloc(context, p->time_count * sizeof *p->times);
    for (size_t i = 0; i < count && p->times != NULL; i++)
        p->times[times->rank[times->items[i].id]] = (int64_t)times->items[i].key;
    return p->times != NULL;
}

/* Copies the real time of each rank, because some planners sort by real durations. */
static void part_real_times(tn__prepared_bank *p, const tn__prepared_bank *whole) {
    for (uint32_t t = 0; t < p->time_count; t++) p->times[t] = whole->times[p->times[t]];
}

static bool part_room(tn__prepared_bank *p, uint32_t count) {
    const tn_context *context = &p->context;
    p->count = p->piece_count = count;
    p->ids = tn__alloc_array(context, count, sizeof *p->ids);
    p->pins = tn__alloc_array(context, count, sizeof *p->pins);
    p->bodies = tn__alloc_array(context, count, sizeof *p->bodies);
    p->pieces = tn__alloc_array(context, count, sizeof *p->pieces);
    return p->ids && p->pins && p->bodies && p->pieces;
}

static void part_fill(tn__prepared_bank *p, const tn__subproblem *part, const uint32_t *rank) {
    for (uint32_t i = 0; i < part->count; i++) {
        const tn__subproblem_body *body = &part->bodies[i];
        p->ids[i] = i;
        p->pins[i] = body->pin;
        p->bodies[i] = (tn_run_body){.size = body->size,
                                     .alignment = body->alignment,
                                     .first = rank[2 * i],
                                     .last = rank[2 * i + 1],
                                     .piece_first = i,
                                     .piece_count = 1};
        p->pieces[i] = (tn_run_piece){rank[2 * i], rank[2 * i + 1], 0, body->size};
        if (body->alignment > 1) p->needs |= TN_PLANS_ALIGNMENT;
        if (body->pin != TN__FREE) p->needs |= TN_PLANS_PINS;
    }
}

static tn_status part_prepare(tn__prepared_bank *p, tn_run *run, const tn__subproblem *part) {
    const tn_context *context = &p->context;
    size_t room = 2 * (size_t)part->count;
    int64_t step;
    part_times times = {.items = tn__alloc(context, room * sizeof *times.items),
                        .rank = tn__alloc(context, room * sizeof *times.rank)};
    bool made = times.items != NULL && times.rank != NULL && part_room(p, part->count) &&
                part_rank(p, part, &times);
    if (made) part_fill(p, part, times.rank);
    if (made) part_real_times(p, run->prepared);
    made = made && tn__prepared_index(p);
    tn__free(context, times.items, room * sizeof *times.items);
    tn__free(context, times.rank, room * sizeof *times.rank);
    if (!made) return tn__no_memory(run->error, "a part of a problem");
    return tn__prepared_live_bytes(p, &p->lower_bound, &step, run->error);
}

tn_status tn__run_part(tn_run *run, const tn__subproblem *part, uint64_t *offset, uint64_t *peak) {
    const tn__prepared_bank *whole = run->prepared;
    tn__prepared_bank p = {.problem = whole->problem,
                           .wholes = whole->wholes,
                           .options = whole->options,
                           .context = whole->context,
                           .capacity = part->capacity,
                           .has_capacity = part->capacity != UINT64_MAX,
                           .deadline_s = whole->deadline_s,
                           .streams = 1};
    tn_run inner;
    *peak = UINT64_MAX;
    tn_status status = part_prepare(&p, run, part);
    if (status == TN_OK) status = tn__run_create(&inner, &p, part->planner, run->error);
    if (status == TN_OK) {
        uint64_t left = tn__run_work_left(run);
        inner.work_limit = part->work_limit < left ? part->work_limit : left;
        inner.outer = run;
        inner.other_thread = run->other_thread;
        status = tn__run_solve(&inner);
        *peak = inner.best_peak;
        if (status == TN_OK) memcpy(offset, inner.best, part->count * sizeof *offset);
        if (status == TN_E_STOPPED) status = TN_OK;
        run->timed_out |= inner.timed_out;
        if (status == TN_OK) status = tn__run_work(run, inner.work);
        tn__run_release(&inner);
    }
    tn__prepared_release(&p);
    return status;
}
