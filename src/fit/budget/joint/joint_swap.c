/* joint_swap.c - chooses values to swap to the host, and the times of their copies, so that the
 * copies overlap with compute. Values are recomputed until the remaining excess over the budget is
 * gone (repair.c).
 *
 * An idle interval is the time between two accesses of a value, if every value is kept. Each
 * direction of the host link is a queue. Copies out are in the order in which their idle intervals
 * begin, each as early as possible. Copies in are in the order in which their idle intervals end,
 * each as late as possible without delaying the reader:
 *
 *     compute   ... leave | .............................................. | back
 *     out             [ other ][== a ==]
 *     in                                              [== a ==][ other ]
 *     memory    ---------------- a ----]               [---- a -------------
 *
 * A value stays in memory if there is no time between its two copies. Idle intervals are chosen in
 * several orders: long ones first; values that are expensive to recompute per byte first; the
 * product of both. Of each order, several numbers are tried, from a few copies with many repeats to
 * all copies that can be hidden. tn__pass_time compares the schedules. If none of them fits, copies
 * are made that are not hidden: out directly after the idle interval begins, in directly before it
 * ends. Cost: for each number and order, that of one start of joint_search.c.
 */
#include "fit/budget/joint/joint.h"

#include "program/clock.h"

typedef enum swap_how {
    SWAP_KEEP,
    SWAP_HIDE, /* swap the value only if both copies overlap with compute entirely */
    /* copy the value out directly after the idle interval begins, and in directly before it ends;
     * compute waits for both copies */
    SWAP_WAIT
} swap_how;

typedef struct swap_gap {
    /* the value, and the positions in the schedule without repeats at which its idle interval
     * begins and ends */
    uint32_t value, leave, back;
    /* positions directly before which the copy out must be done, and directly before which the
     * value is copied in */
    uint32_t settle, come;
    uint64_t out, in; /* durations of the copy out and of the copy in */
    float keys[3];    /* sort keys, one for each order; the largest comes first */
    uint8_t how;      /* how the value is copied in the choice that is tried now, a swap_how */
    /* the value is swapped in the choice that is tried now: its two copies fit into the idle
     * interval */
    bool leaves;
} swap_gap;

typedef struct swap_state {
    tn__pass_run *run;
    tn__editable edit;
    tn__repair repair;
    tn__schedule schedule;
    swap_gap *gaps;    /* [gap_count] idle intervals, in the order of their begins */
    uint32_t *by_back; /* idle intervals in the order of their ends */
    uint32_t *by_key;  /* idle intervals in the order in which they are chosen */
    tn__sort_item *items;
    uint32_t *nodes;    /* [positions] the nodes of the editable schedule when it had no repeats */
    uint32_t *position; /* [nodes] */
    uint64_t *starts;   /* [positions + 1] time at which each position begins */
    uint32_t gap_count, position_count;
    uint8_t *best; /* [gap_count] decisions of the best schedule so far */
    tn__random random;
} swap_state;

#define SWAP_MOST 8u /* limit for the cost of a schedule, as a multiple of the cost of all jobs */

/* --- idle intervals --------------------------------------------------------------------------- */

static bool swap_may_go(const tn__dag *dag, uint32_t value) {
    const tn__dag_value *it = &dag->values[value];
    return (it->flags & TN__VALUE_COPIES) && !(it->flags & TN__VALUE_HELD) && it->bytes > 0;
}

static void swap_find_positions(swap_state *s) {
    const tn__editable *edit = &s->edit;
    uint64_t at = 0;
    for (uint32_t n = edit->nodes[TN__EDITABLE_HEAD].next;; n = edit->nodes[n].next) {
        s->position[n] = s->position_count;
        s->nodes[s->position_count] = n;
        s->starts[s->position_count++] = at;
        if (n == TN__EDITABLE_TAIL) return;
        at = tn__add_sat(at, s->run->dag->jobs[edit->nodes[n].job].cost);
    }
}

/* Computes the sort keys of an idle interval: its length, the cost of recomputing the value per
 * byte, and the product of both. */
static void swap_keys(const swap_state *s, swap_gap *gap) {
    const tn__dag_value *value = &s->run->dag->values[gap->value];
    double cost = (double)s->run->dag->cost + 1, recompute = cost;
    if (s->repair.can[gap->value])
        recompute = (double)s->run->dag->jobs[value->maker].recompute_cost + 1;
    double time = (double)(s->starts[gap->back] - s->starts[gap->leave]) + 1;
    double bytes = (double)value->bytes;
    gap->keys[0] = (float)(time / cost);
    gap->keys[1] = (float)(recompute / bytes);
    gap->keys[2] = (float)(time / cost * recompute / bytes);
}

static void swap_add_gap(swap_state *s, uint32_t touch) {
    const tn__editable *edit = &s->edit;
    const tn__editable_touch *it = &edit->touches[touch];
    uint32_t next = edit->touches[it->next].node;
    uint64_t bytes = s->run->dag->values[it->value].bytes;
    swap_gap gap = {.value = it->value,
                    .leave = it->node == TN__EDITABLE_HEAD ? 0 : s->position[it->node],
                    .back = s->position[next],
                    .out = tn__lane_bytes(bytes, s->run->out_rate),
                    .in = tn__lane_bytes(bytes, s->run->in_rate)};
    if (gap.back <= gap.leave + 1 || next == TN__EDITABLE_TAIL) return;
    swap_keys(s, &gap);
    s->gaps[s->gap_count++] = gap;
}

/* Lists the idle intervals in the order of their begins, which is the order in which the nodes and
 * their touches are visited. */
static void swap_find_gaps(swap_state *s) {
    const tn__editable *edit = &s->edit;
    for (uint32_t n = TN__EDITABLE_HEAD; n != TN__EDITABLE_TAIL; n = edit->nodes[n].next)
        for (uint32_t i = 0; i < edit->nodes[n].touch_count; i++) {
            uint32_t touch = edit->nodes[n].touch_first + i;
            if (tn__editable_is_read_next(edit, touch) &&
                swap_may_go(s->run->dag, edit->touches[touch].value))
                swap_add_gap(s, touch);
        }
}

/* --- times of the copies ---------------------------------------------------------------------- */

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
        if (tn__editable_put_copy(&s->edit, gap->value, s->nodes[gap->settle], false) == TN_NONE)
            return false;
    }
    for (uint32_t i = 0; i < s->gap_count; i++) {
        const swap_gap *gap = &s->gaps[s->by_back[i]];
        if (!gap->leaves) continue;
        if (tn__editable_put_copy(&s->edit, gap->value, s->nodes[gap->come], true) == TN_NONE)
            return false;
    }
    return true;
}

/* Returns the time of the best schedule known so far; UINT64_MAX if none is known. */
static uint64_t swap_now(const tn__pass_run *run) {
    uint64_t now = run->has_best ? run->time : UINT64_MAX;
    return run->incumbent > 0 && run->incumbent < now ? run->incumbent : now;
}

/* --- trials --------------------------------------------------------------------------------- */

static void swap_choose(swap_state *s, uint32_t count, swap_how how) {
    for (uint32_t g = 0; g < s->gap_count; g++) s->gaps[g].how = SWAP_KEEP;
    for (uint32_t i = 0; i < count; i++) s->gaps[s->by_key[i]].how = (uint8_t)how;
}

/* Offers the edited schedule to the run. A schedule that the judge refuses is dropped; a repeat
 * between the two copies of a swap causes this. */
static tn_status swap_offer(swap_state *s) {
    tn_error refused;
    tn__replay replay;
    bool kept;
    TN_TRY(tn__editable_write(&s->edit, &s->schedule, s->run->error));
    tn_status status = tn__replay_schedule(s->run->dag, &s->schedule, &replay, NULL, &refused);
    if (status == TN_E_INVALID) return TN_OK;
    return status == TN_OK ? tn__pass_offer(s->run, &s->schedule, &kept) : status;
}

static tn_status swap_mend(swap_state *s) {
    bool runs = s->run->allow & TN__ALLOW_RECOMPUTE;
    const uint64_t most = tn__mul_sat(s->run->dag->cost, SWAP_MOST), now = swap_now(s->run);
    s->repair.cost_limit = now < most ? now : most;
    bool fits =
        runs ? tn__repair_run(&s->repair) : tn__editable_peak(&s->edit) <= (int64_t)s->run->budget;
    if (fits && runs && !tn__repair_trim(&s->repair)) s->edit.failed = true;
    if (s->edit.failed) return tn__no_memory(s->run->error, "copies");
    return fits ? swap_offer(s) : TN_OK;
}

/* Makes the schedule for the current decisions about idle intervals, and records these in `best` if
 * the schedule is the best so far. */
static tn_status swap_try(swap_state *s) {
    uint32_t mark = tn__editable_mark(&s->edit);
    /* The time that a schedule must beat for its decisions to be recorded. If schedules with
     * repeats alone fit, this is the time of the fastest schedule known. */
    uint64_t before = s->run->runs_fit   ? swap_now(s->run)
                      : s->run->has_best ? s->run->time
                                         : UINT64_MAX;
    swap_leave(s);
    swap_come(s);
    if (!swap_put(s)) return tn__no_memory(s->run->error, "copies");
    tn_status status = swap_mend(s);
    if (s->run->has_best && s->run->time < before)
        for (uint32_t g = 0; g < s->gap_count; g++) s->best[g] = s->gaps[g].how;
    tn__editable_undo(&s->edit, mark);
    uint64_t effort = s->repair.effort + 4 * (uint64_t)s->gap_count + s->position_count;
    s->repair.effort = 0;
    return status == TN_OK ? tn__pass_work(s->run, effort) : status;
}

static bool swap_is_done(const swap_state *s) {
    const tn__pass_run *run = s->run;
    return run->has_best && (run->feasible_only || run->time <= run->dag->cost);
}

static bool swap_sort(swap_state *s, uint32_t order) {
    for (uint32_t g = 0; g < s->gap_count; g++) {
        /* sorts by the bits: as integers, those of positive floats have the order of the floats */
        uint32_t bits;
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

/* Changes the decisions of the best schedule at random, for a few idle intervals that follow each
 * other in one of the orders. */
static void swap_change(swap_state *s) {
    uint32_t count = 1 + (uint32_t)tn__random_below(&s->random, 6);
    const uint32_t *list = tn__random_below(&s->random, 2) ? s->by_back : s->by_key;
    uint32_t at = (uint32_t)tn__random_below(&s->random, s->gap_count);
    uint32_t most = swap_now(s->run) < 2 * s->run->dag->cost ? 8 : 3;
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
        s->repair.weights.reach = reaches[tn__random_below(&s->random, 4)];
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

/* --- the whole search ------------------------------------------------------------------------- */

static tn_status swap_room(swap_state *s) {
    tn__arena *arena = s->run->arena;
    size_t gaps = (size_t)s->edit.touch_count + 1, nodes = (size_t)s->edit.node_count + 1;
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
        !tn__repair_room(&s->repair, &s->edit, s->run->budget, arena))
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
    s->repair.weights =
        (tn__repair_weights){.reach = 0.25f, .bulk = 1, .whole = true, .lengthen = 8};
    return TN_OK;
}

tn_status tn__joint_swap(tn__pass_run *run, uint64_t effort) {
    swap_state s = {.run = run, .random = {run->seed}};
    tn__schedule_init(&s.schedule, &run->context);
    TN_TRY(tn__editable_init(&s.edit, run->dag, &run->context, NULL, run->error));
    tn_status status = swap_prepare(&s);
    if (status == TN_OK) status = swap_try_all(&s, effort);
    tn__editable_release(&s.edit);
    tn__schedule_release(&s.schedule);
    return status;
}
