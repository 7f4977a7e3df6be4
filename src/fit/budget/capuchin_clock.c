/* capuchin_clock.c - the times of copies out and back if compute waits for none of them.
 *
 * Each direction is a lane (program/clock.h). A copy out begins after the value's last access or
 * after the previous copy. Copies back are placed as late as possible: each is done when its value
 * is read, and when the next copy begins. Cost: O(gaps + jobs); a query costs O(log gaps).
 */
#include "fit/budget/capuchin.h"

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

int64_t tn__capuchin_ft(const tn__capuchin_clock *clock, uint32_t index) {
    const tn__gap *gap = &clock->gaps->list[index];
    const uint64_t *starts = clock->gaps->starts;
    uint32_t before = (uint32_t)tn__sorted_find(clock->order, clock->swap_count, gap->leave);
    uint32_t behind = (uint32_t)tn__sorted_find(clock->returns, clock->swap_count, gap->back);
    tn__lane out = {.at = before > 0 ? clock->busy[before - 1] : 0};
    uint64_t end = tn__lane_put(&out, starts[gap->leave + 1], tn__gaps_out(clock->gaps, gap));
    uint64_t due = behind < clock->swap_count ? clock->due[behind] : UINT64_MAX;
    double by = (double)(starts[gap->back] < due ? starts[gap->back] : due);
    double ft = by - (double)tn__gaps_in(clock->gaps, gap) - (double)end;
    return ft > -9e18 ? (int64_t)ft : INT64_MIN / 2;
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

static uint32_t clock_clip(uint32_t job, uint32_t least, uint32_t most) {
    if (job > most) job = most;
    return job < least ? least : job;
}

static void clock_settle(tn__capuchin_clock *clock) {
    const tn__gaps *gaps = clock->gaps;
    tn__lane out = {0};
    for (uint32_t i = 0; i < clock->swap_count; i++) {
        uint32_t index = clock->order[i].id;
        tn__gap *gap = &gaps->list[index];
        clock->busy[i] = tn__lane_put(&out, gaps->starts[gap->leave + 1], tn__gaps_out(gaps, gap));
        uint32_t settle = tn__clock_step(gaps->starts, gaps->run->work->job_count, out.at);
        if (settle > clock->settle_by[index]) settle = clock->settle_by[index];
        gap->settle = clock_clip(settle, gap->leave + 1, gap->back);
    }
}

static void clock_trigger(tn__capuchin_clock *clock) {
    const tn__gaps *gaps = clock->gaps;
    tn__lane in = {.at = UINT64_MAX};
    for (uint32_t i = clock->swap_count; i-- > 0;) {
        uint32_t index = clock->returns[i].id;
        tn__gap *gap = &gaps->list[index];
        uint64_t ahead = tn__add_sat(tn__gaps_in(gaps, gap), clock->lead[index]);
        tn__lane_put_before(&in, gaps->starts[gap->back], ahead);
        clock->due[i] = in.at;
        uint32_t job =
            tn__clock_step(gaps->starts, gaps->run->work->job_count, tn__add_sat(in.at, 1));
        job = job > 0 ? job - 1 : 0; /* the last job that starts by then */
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
