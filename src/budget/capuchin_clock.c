/* capuchin_clock.c - when copies leave and come back, if compute waits for none of them.
 *
 * Each direction serves in turn: copies out begin when their value leaves or when the one before is
 * done; copies back begin so that each is done when it is read, and when the one behind it begins.
 * Cost: O(gaps + jobs), a question O(log gaps).
 */
#include "budget/capuchin.h"

#include "base/sorted.h"

tn_status tn__capuchin_clock_make(tn__capuchin_clock *clock, tn__gaps *gaps) {
    tn__arena *arena = gaps->run->arena;
    size_t count = (size_t)gaps->count + 1;
    clock->gaps = gaps;
    clock->lead = tn__arena_array(arena, count, sizeof *clock->lead);
    clock->settle_by = tn__arena_array(arena, count, sizeof *clock->settle_by);
    clock->trigger_from = tn__arena_array(arena, count, sizeof *clock->trigger_from);
    clock->order = tn__arena_array(arena, count, sizeof *clock->order);
    clock->returns = tn__arena_array(arena, count, sizeof *clock->returns);
    clock->busy = tn__arena_array(arena, count, sizeof *clock->busy);
    clock->due = tn__arena_array(arena, count, sizeof *clock->due);
    if (clock->lead == NULL || clock->settle_by == NULL || clock->trigger_from == NULL ||
        clock->order == NULL || clock->returns == NULL || clock->busy == NULL || clock->due == NULL)
        return tn__no_memory(gaps->run->error, "capuchin");
    return TN_OK;
}

static uint64_t clock_copy(const tn__capuchin_clock *clock, const tn__gap *gap, bool back) {
    const tn__pass_run *run = clock->gaps->run;
    return tn__gaps_copy(run->work->values[gap->value].bytes, back ? run->in_rate : run->out_rate);
}

/* When a copy out has ended, on a link that is busy until then. */
static uint64_t clock_out_end(const tn__capuchin_clock *clock, const tn__gap *gap, uint64_t busy) {
    uint64_t start = clock->gaps->starts[gap->leave + 1];
    return tn__add_sat(busy > start ? busy : start, clock_copy(clock, gap, false));
}

/* When a copy back has to begin, on a link that has to be free from then on. Below 0: not at all.
 */
static int64_t clock_back_start(const tn__capuchin_clock *clock, const tn__gap *gap, uint64_t due,
                                uint64_t lead) {
    uint64_t end = clock->gaps->starts[gap->back] < due ? clock->gaps->starts[gap->back] : due;
    uint64_t ahead = tn__add_sat(clock_copy(clock, gap, true), lead);
    if (end > INT64_MAX / 2) end = INT64_MAX / 2;
    return ahead > INT64_MAX / 2 ? INT64_MIN / 2 : (int64_t)end - (int64_t)ahead;
}

int64_t tn__capuchin_ft(const tn__capuchin_clock *clock, uint32_t index) {
    const tn__gap *gap = &clock->gaps->list[index];
    uint32_t before = (uint32_t)tn__sorted_find(clock->order, clock->swap_count, gap->leave);
    uint32_t behind = (uint32_t)tn__sorted_find(clock->returns, clock->swap_count, gap->back);
    uint64_t end = clock_out_end(clock, gap, before > 0 ? clock->busy[before - 1] : 0);
    uint64_t due = behind < clock->swap_count ? clock->due[behind] : UINT64_MAX;
    int64_t start = clock_back_start(clock, gap, due, 0);
    return end > INT64_MAX / 2 ? INT64_MIN / 2 : start - (int64_t)end;
}

static tn_status clock_list(tn__capuchin_clock *clock) {
    const tn__gaps *gaps = clock->gaps;
    clock->swap_count = 0;
    for (uint32_t g = 0; g < gaps->count; g++) {
        if (gaps->list[g].how != TN__GAP_SWAP) continue;
        clock->order[clock->swap_count] = (tn__sort_item){gaps->list[g].leave, g};
        clock->returns[clock->swap_count++] = (tn__sort_item){gaps->list[g].back, g};
    }
    const tn_context *context = &gaps->run->context;
    if (!tn__sort_items(context, clock->order, clock->swap_count) ||
        !tn__sort_items(context, clock->returns, clock->swap_count))
        return tn__no_memory(gaps->run->error, "swaps");
    return TN_OK;
}

/* The first job that starts at a time or later. */
static uint32_t clock_job_at(const tn__capuchin_clock *clock, uint64_t time) {
    uint32_t low = 0, high = clock->gaps->run->work->job_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (clock->gaps->starts[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t clock_clip(uint32_t job, uint32_t least, uint32_t most) {
    if (job > most) job = most;
    return job < least ? least : job;
}

static void clock_settle(tn__capuchin_clock *clock) {
    for (uint32_t i = 0; i < clock->swap_count; i++) {
        uint32_t index = clock->order[i].id;
        tn__gap *gap = &clock->gaps->list[index];
        clock->busy[i] = clock_out_end(clock, gap, i > 0 ? clock->busy[i - 1] : 0);
        uint32_t settle = clock_job_at(clock, clock->busy[i]);
        if (settle > clock->settle_by[index]) settle = clock->settle_by[index];
        gap->settle = clock_clip(settle, gap->leave + 1, gap->back);
    }
}

static void clock_trigger(tn__capuchin_clock *clock) {
    uint64_t due = UINT64_MAX;
    for (uint32_t i = clock->swap_count; i-- > 0;) {
        uint32_t index = clock->returns[i].id;
        tn__gap *gap = &clock->gaps->list[index];
        int64_t start = clock_back_start(clock, gap, due, clock->lead[index]);
        clock->due[i] = due = start > 0 ? (uint64_t)start : 0;
        uint32_t job = clock_job_at(clock, tn__add_sat(due, 1));
        job = job > 0 ? job - 1 : 0; /* the last that starts by then */
        uint32_t least = gap->settle;
        if (gap->back > clock->window_last && least <= clock->window_last)
            least = clock->window_last + 1;
        if (clock->trigger_from[index] > least) least = clock->trigger_from[index];
        gap->trigger = clock_clip(job, least < gap->back ? least : gap->back, gap->back);
    }
}

tn_status tn__capuchin_place(tn__capuchin_clock *clock) {
    TN_TRY(clock_list(clock));
    clock_settle(clock);
    clock_trigger(clock);
    return TN_OK;
}
