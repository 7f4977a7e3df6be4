/* joint_swap.c - which values go to the host, and when they leave and come back, so that copies
 * hide behind compute; what does not fit then is computed again (joint_repair.c).
 *
 * A gap is the time between two touches of a value where all is kept. Both ways of the link are
 * queues: copies out in the order in which their gaps begin, each as early as it can; copies in in
 * the order in which they end, each as late as it can and yet be back in time:
 *
 *     compute   ... leave | .............................................. | back
 *     out             [ other ][== a ==]
 *     in                                              [== a ==][ other ]
 *     memory    ---------------- a ----]               [---- a -------------
 *
 * A gap in which nothing is left between the two copies stays in memory. Gaps are taken by several
 * orders (long ones; dear ones to compute again, for their bytes; both) and in several numbers: a
 * few copies and much computed again, up to all that hides; `tn__pass_time` says which is best.
 * Where none of that fits, copies do not hide: out right behind the gap's begin, in right before
 * its end.
 * Cost: that of a start of joint_search.c for each number and order.
 */
#include "budget/joint_swap.h"

#include "budget/joint_repair.h"
#include "program/clock.h"

typedef enum swap_how {
    SWAP_KEEP,
    SWAP_HIDE, /* where its copies hide, else it stays */
    SWAP_WAIT  /* out right behind its begin, in right before its end: both are waited for */
} swap_how;

typedef struct swap_gap {
    uint32_t value, leave, back; /* positions of nodes in the plain line */
    uint32_t settle, come;       /* the same: before these */
    uint64_t out, in;            /* time of the copies */
    float keys[3];               /* of each order: the largest first */
    uint8_t how;                 /* swap_how, as chosen */
    bool leaves;                 /* it does, in the end */
} swap_gap;

typedef struct swap_state {
    tn__pass_run *run;
    tn__line line;
    tn__repair repair;
    tn__schedule schedule;
    swap_gap *gaps;    /* [gap_count], by where they begin */
    uint32_t *by_back; /* gaps by where they end */
    uint32_t *by_key;  /* gaps in the order they are taken */
    tn__sort_item *items;
    uint32_t *nodes;    /* [positions] of the plain line */
    uint32_t *position; /* [nodes] */
    uint64_t *starts;   /* [positions + 1] */
    uint32_t gap_count, position_count;
    uint8_t *best; /* [gap_count] what was chosen for the best so far */
    tn__random random;
} swap_state;

#define SWAP_MOST 8u /* times the cost of all jobs: more is not looked for */

/* --- gaps ----------------------------------------------------------------------------------- */

static bool swap_may_go(const tn__work *work, uint32_t value) {
    const tn__value *it = &work->values[value];
    return (it->flags & TN__VALUE_COPIES) && !(it->flags & TN__VALUE_HELD) && it->bytes > 0;
}

static void swap_find_positions(swap_state *s) {
    const tn__line *line = &s->line;
    uint64_t at = 0;
    for (uint32_t n = line->nodes[TN__LINE_HEAD].next;; n = line->nodes[n].next) {
        s->position[n] = s->position_count;
        s->nodes[s->position_count] = n;
        s->starts[s->position_count++] = at;
        if (n == TN__LINE_TAIL) return;
        at = tn__add_sat(at, s->run->work->jobs[line->nodes[n].job].cost);
    }
}

/* Long ones that take much; dear ones, for their bytes; both. */
static void swap_keys(const swap_state *s, swap_gap *gap) {
    const tn__value *value = &s->run->work->values[gap->value];
    double cost = (double)s->run->work->cost + 1, again = cost;
    if (s->repair.can[gap->value]) again = (double)s->run->work->jobs[value->maker].again_cost + 1;
    double time = (double)(s->starts[gap->back] - s->starts[gap->leave]) + 1;
    double bytes = (double)value->bytes;
    gap->keys[0] = (float)(time / cost);
    gap->keys[1] = (float)(again / bytes);
    gap->keys[2] = (float)(time / cost * again / bytes);
}

static void swap_add_gap(swap_state *s, uint32_t touch) {
    const tn__line *line = &s->line;
    const tn__line_touch *it = &line->touches[touch];
    uint32_t next = line->touches[it->next].node;
    uint64_t bytes = s->run->work->values[it->value].bytes;
    swap_gap gap = {.value = it->value,
                    .leave = it->node == TN__LINE_HEAD ? 0 : s->position[it->node],
                    .back = s->position[next],
                    .out = tn__lane_bytes(bytes, s->run->out_rate),
                    .in = tn__lane_bytes(bytes, s->run->in_rate)};
    if (gap.back <= gap.leave + 1 || next == TN__LINE_TAIL) return;
    swap_keys(s, &gap);
    s->gaps[s->gap_count++] = gap;
}

/* By where they begin: the touches of each node in turn. */
static void swap_find_gaps(swap_state *s) {
    const tn__line *line = &s->line;
    for (uint32_t n = TN__LINE_HEAD; n != TN__LINE_TAIL; n = line->nodes[n].next)
        for (uint32_t i = 0; i < line->nodes[n].touch_count; i++) {
            uint32_t touch = line->nodes[n].touch_first + i;
            if (tn__line_is_read_next(line, touch) &&
                swap_may_go(s->run->work, line->touches[touch].value))
                swap_add_gap(s, touch);
        }
}

/* --- when they leave and come back ---------------------------------------------------------- */

static void swap_leave(swap_state *s) {
    tn__lane out = {0};
    for (uint32_t g = 0; g < s->gap_count; g++) {
        swap_gap *gap = &s->gaps[g];
        gap->leaves = gap->how != SWAP_KEEP;
        if (!gap->leaves) continue;
        tn__lane lane = out;
        uint64_t end = tn__lane_put(&lane, s->starts[gap->leave + 1], gap->out);
        gap->settle = tn__clock_step(s->starts, s->position_count - 1, end);
        if (gap->how == SWAP_WAIT || gap->settle <= gap->leave) gap->settle = gap->leave + 1;
        gap->leaves =
            gap->settle < gap->back && (gap->how == SWAP_WAIT || s->starts[gap->settle] >= end);
        if (gap->leaves) out = lane;
    }
}

static void swap_come(swap_state *s) {
    tn__lane in = {.at = UINT64_MAX};
    for (uint32_t i = s->gap_count; i-- > 0;) {
        swap_gap *gap = &s->gaps[s->by_back[i]];
        if (!gap->leaves) continue;
        tn__lane lane = in;
        bool hides = tn__lane_put_before(&lane, s->starts[gap->back], gap->in);
        uint32_t at = tn__clock_step(s->starts, s->position_count - 1, lane.at + 1);
        gap->come = gap->how == SWAP_WAIT || at > gap->back ? gap->back : at > 0 ? at - 1 : 0;
        gap->leaves = gap->come > gap->settle &&
                      (gap->how == SWAP_WAIT || (hides && s->starts[gap->come] <= lane.at));
        if (gap->leaves) in = lane;
    }
}

static bool swap_put(swap_state *s) {
    for (uint32_t g = 0; g < s->gap_count; g++) {
        const swap_gap *gap = &s->gaps[g];
        if (!gap->leaves) continue;
        if (tn__line_put_copy(&s->line, gap->value, s->nodes[gap->settle], false) == TN_NONE)
            return false;
    }
    for (uint32_t i = 0; i < s->gap_count; i++) {
        const swap_gap *gap = &s->gaps[s->by_back[i]];
        if (!gap->leaves) continue;
        if (tn__line_put_copy(&s->line, gap->value, s->nodes[gap->come], true) == TN_NONE)
            return false;
    }
    return true;
}

/* What has to be beaten; UINT64_MAX: nothing. */
static uint64_t swap_now(const tn__pass_run *run) {
    uint64_t now = run->has_best ? run->time : UINT64_MAX;
    return run->beaten > 0 && run->beaten < now ? run->beaten : now;
}

/* --- trying --------------------------------------------------------------------------------- */

static void swap_choose(swap_state *s, uint32_t count, swap_how how) {
    for (uint32_t g = 0; g < s->gap_count; g++) s->gaps[g].how = SWAP_KEEP;
    for (uint32_t i = 0; i < count; i++) s->gaps[s->by_key[i]].how = (uint8_t)how;
}

/* What the judge refuses (a copy that a run again crosses) is let go. */
static tn_status swap_offer(swap_state *s) {
    tn_error refused;
    tn__replay replay;
    bool kept;
    TN_TRY(tn__line_write(&s->line, &s->schedule, s->run->error));
    tn_status status = tn__replay_schedule(s->run->work, &s->schedule, &replay, NULL, &refused);
    if (status == TN_E_INVALID) return TN_OK;
    return status == TN_OK ? tn__pass_offer(s->run, &s->schedule, &kept) : status;
}

static tn_status swap_mend(swap_state *s) {
    bool runs = s->run->allow & TN__ALLOW_RECOMPUTE;
    const uint64_t most = tn__mul_sat(s->run->work->cost, SWAP_MOST), now = swap_now(s->run);
    s->repair.cost_limit = now < most ? now : most;
    bool fits =
        runs ? tn__repair_run(&s->repair) : tn__line_peak(&s->line) <= (int64_t)s->run->budget;
    if (fits && runs && !tn__repair_trim(&s->repair)) s->line.failed = true;
    if (s->line.failed) return tn__no_memory(s->run->error, "copies");
    return fits ? swap_offer(s) : TN_OK;
}

/* What was chosen; it is noted where it is the best so far. */
static tn_status swap_try(swap_state *s) {
    uint32_t mark = tn__line_mark(&s->line);
    /* where runs alone fit, they are what copies are added to until something is faster */
    uint64_t before = s->run->runs_fit   ? swap_now(s->run)
                      : s->run->has_best ? s->run->time
                                         : UINT64_MAX;
    swap_leave(s);
    swap_come(s);
    if (!swap_put(s)) return tn__no_memory(s->run->error, "copies");
    tn_status status = swap_mend(s);
    if (s->run->has_best && s->run->time < before)
        for (uint32_t g = 0; g < s->gap_count; g++) s->best[g] = s->gaps[g].how;
    tn__line_undo(&s->line, mark);
    uint64_t effort = s->repair.effort + 4 * (uint64_t)s->gap_count + s->position_count;
    s->repair.effort = 0;
    return status == TN_OK ? tn__pass_work(s->run, effort) : status;
}

static bool swap_is_done(const swap_state *s) {
    const tn__pass_run *run = s->run;
    return run->has_best && (run->any || run->time <= run->work->cost);
}

static bool swap_sort(swap_state *s, uint32_t order) {
    for (uint32_t g = 0; g < s->gap_count; g++) {
        uint32_t bits; /* of a positive number they ascend with it */
        memcpy(&bits, &s->gaps[g].keys[order], sizeof bits);
        s->items[g] = (tn__sort_item){~(uint64_t)bits, g};
    }
    if (!tn__sort_items(&s->run->context, s->items, s->gap_count)) return false;
    for (uint32_t g = 0; g < s->gap_count; g++) s->by_key[g] = s->items[g].id;
    return true;
}

static tn_status swap_try_order(swap_state *s, uint32_t order, swap_how how, uint64_t until) {
    enum { PARTS = 16 };
    if (!swap_sort(s, order)) return tn__no_memory(s->run->error, "copies");
    for (uint32_t part = 1; part <= PARTS; part++) {
        if (swap_is_done(s) || s->run->work_done > until) return TN_OK;
        swap_choose(s, (uint32_t)((uint64_t)s->gap_count * part / PARTS), how);
        TN_TRY(swap_try(s));
    }
    return TN_OK;
}

/* A few gaps of the best are chosen anew, near each other in one of the orders. */
static void swap_change(swap_state *s) {
    uint32_t count = 1 + (uint32_t)tn__random_below(&s->random, 6);
    const uint32_t *list = tn__random_below(&s->random, 2) ? s->by_back : s->by_key;
    uint32_t at = (uint32_t)tn__random_below(&s->random, s->gap_count);
    uint32_t most = swap_now(s->run) < 2 * s->run->work->cost ? 8 : 3;
    for (uint32_t g = 0; g < s->gap_count; g++) s->gaps[g].how = s->best[g];
    for (uint32_t i = 0; i < count; i++) {
        swap_gap *gap = &s->gaps[list[(at + i) % s->gap_count]];
        uint32_t how = (uint32_t)tn__random_below(&s->random, most);
        gap->how = how == 0 ? SWAP_WAIT : how % 2 ? SWAP_HIDE : SWAP_KEEP;
    }
}

static tn_status swap_improve(swap_state *s, uint64_t until) {
    static const float reaches[] = {0, 0.25f, 0.5f, 1};
    while (s->gap_count > 0 && s->run->work_done < until && !swap_is_done(s)) {
        s->repair.taste.reach = reaches[tn__random_below(&s->random, 4)];
        swap_change(s);
        TN_TRY(swap_try(s));
    }
    return TN_OK;
}

static tn_status swap_try_all(swap_state *s, uint64_t effort) {
    uint64_t until = tn__add_sat(s->run->work_done, effort);
    for (uint32_t order = 0; order < 3; order++) TN_TRY(swap_try_order(s, order, SWAP_HIDE, until));
    for (uint32_t order = 0; order < 3 && !s->run->has_best; order++)
        TN_TRY(swap_try_order(s, order, SWAP_WAIT, until));
    return swap_improve(s, until);
}

/* --- the whole ------------------------------------------------------------------------------ */

static tn_status swap_room(swap_state *s) {
    tn__arena *arena = s->run->arena;
    size_t gaps = (size_t)s->line.touch_count + 1, nodes = (size_t)s->line.node_count + 1;
    s->gaps = tn__arena_array(arena, gaps, sizeof *s->gaps);
    s->by_back = tn__arena_array(arena, gaps, sizeof *s->by_back);
    s->by_key = tn__arena_array(arena, gaps, sizeof *s->by_key);
    s->items = tn__arena_array(arena, gaps, sizeof *s->items);
    s->best = tn__arena_array(arena, gaps, sizeof *s->best);
    s->nodes = tn__arena_array(arena, nodes, sizeof *s->nodes);
    s->position = tn__arena_array(arena, nodes, sizeof *s->position);
    s->starts = tn__arena_array(arena, nodes, sizeof *s->starts);
    if (s->gaps == NULL || s->by_back == NULL || s->by_key == NULL || s->items == NULL ||
        s->best == NULL || s->nodes == NULL || s->position == NULL || s->starts == NULL ||
        !tn__repair_room(&s->repair, &s->line, s->run->budget, arena))
        return tn__no_memory(s->run->error, "copies");
    return TN_OK;
}

static tn_status swap_prepare(swap_state *s) {
    TN_TRY(swap_room(s));
    swap_find_positions(s);
    swap_find_gaps(s);
    for (uint32_t g = 0; g < s->gap_count; g++) s->items[g] = (tn__sort_item){s->gaps[g].back, g};
    if (!tn__sort_items(&s->run->context, s->items, s->gap_count))
        return tn__no_memory(s->run->error, "copies");
    for (uint32_t g = 0; g < s->gap_count; g++) s->by_back[g] = s->items[g].id;
    s->repair.taste = (tn__repair_taste){.reach = 0.25f, .bulk = 1, .whole = true, .lengthen = 8};
    return TN_OK;
}

tn_status tn__joint_swap(tn__pass_run *run, uint64_t effort) {
    swap_state s = {.run = run, .random = {run->seed}};
    tn__schedule_init(&s.schedule, &run->context);
    TN_TRY(tn__line_init(&s.line, run->work, &run->context, NULL, run->error));
    tn_status status = swap_prepare(&s);
    if (status == TN_OK) status = swap_try_all(&s, effort);
    tn__line_release(&s.line);
    tn__schedule_release(&s.schedule);
    return status;
}
