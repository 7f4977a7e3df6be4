/* search_paths.c - finds the least work of a graph within a budget, from the prices of its
 * sequences.
 *
 * The answer for a budget is a shortest path. Each operator either runs whole, if that is within
 * the budget, or lies inside the cheapest region that is within the budget.
 *
 *     place    0     1     2     3     4     5
 *              o-----o-----o     o-----o-----o     whole, where the budget allows it
 *                    \____region, 7 parts____/      or a region over several places
 *
 * The path has the least work of all combinations of these regions, so a larger budget never
 * needs more work. The fewest bytes for a share of work are found by binary search over budgets.
 *
 * Cost: O(operators + prices) for a path.
 */
#include "fit/split/search.h"

#include "graph/takes.h"

#include <stdlib.h>

/* --- paths --- */

tn_status tn__path_make(const search_stage *stage, search_path *path, tn_error *error) {
    size_t places = (size_t)stage->model.order.op_count + 1;
    path->cost = tn__alloc_array(stage->context, places, sizeof *path->cost);
    path->region = tn__alloc_array(stage->context, places, sizeof *path->region);
    return path->cost != NULL && path->region != NULL ? TN_OK
                                                      : tn__no_memory(error, "a split graph");
}

void tn__path_release(const search_stage *stage, search_path *path) {
    size_t places = (size_t)stage->model.order.op_count + 1;
    tn__free(stage->context, path->cost, places * sizeof *path->cost);
    tn__free(stage->context, path->region, places * sizeof *path->region);
}

static uint64_t path_weigh(uint64_t bytes, double weight) {
    double all = weight * (double)bytes;
    return all >= 0x1p62 ? UINT64_MAX / 4 : (uint64_t)all;
}

uint64_t tn__path_walk(const search_stage *stage, uint64_t budget, double weight,
                       search_path *path) {
    uint32_t places = stage->model.order.op_count;
    size_t at = 0;
    path->cost[0] = 0;
    for (uint32_t p = 0; p < places; p++) {
        path->cost[p + 1] = stage->model.live[p] <= budget ? path->cost[p] : UINT64_MAX;
        path->region[p + 1] = TN_NONE;
        for (; at < stage->count && stage->points[at].last == p; at++) {
            const search_point *point = &stage->points[at];
            uint64_t before = path->cost[point->first];
            if (point->price.peak > budget || before == UINT64_MAX) continue;
            uint64_t all = tn__add_sat(before, point->cost);
            if (weight > 0) all = tn__add_sat(all, path_weigh(point->price.kept, weight));
            if (all >= path->cost[p + 1]) continue;
            path->cost[p + 1] = all;
            path->region[p + 1] = (uint32_t)at;
        }
    }
    return path->cost[places];
}

tn_status tn__path_take(const search_stage *stage, const search_path *path, uint64_t whole,
                        tn_split_choice *choice, tn_error *error) {
    uint32_t count = 0, places = stage->model.order.op_count;
    *choice = (tn_split_choice){.graph = stage->graph,
                                .again = stage->list,
                                .again_count = stage->again_count,
                                .extra = stage->again};
    for (uint32_t p = places; p > 0;
         p = path->region[p] == TN_NONE ? p - 1 : stage->points[path->region[p]].first)
        count += path->region[p] != TN_NONE;
    choice->regions = tn__alloc_array(stage->context, (size_t)count + 1, sizeof *choice->regions);
    if (choice->regions == NULL) return tn__no_memory(error, "a split graph");
    choice->count = count;
    for (uint32_t p = places; p > 0;) {
        if (path->region[p] == TN_NONE) {
            p--;
            if (stage->model.live[p] > choice->live_bytes)
                choice->live_bytes = stage->model.live[p];
            continue;
        }
        const search_point *point = &stage->points[path->region[p]];
        choice->regions[--count] = point->region;
        if (point->price.peak > choice->live_bytes) choice->live_bytes = point->price.peak;
        choice->extra = tn__add_sat(choice->extra, point->price.extra);
        choice->moved = tn__add_sat(choice->moved, point->price.moved);
        choice->kept = tn__add_sat(choice->kept, point->price.kept);
        p = point->first;
    }
    choice->work = (double)tn__work_added(choice->extra, choice->moved, stage->byte_flops) /
                   (whole > 0 ? (double)whole : 1);
    return TN_OK;
}

/* One step of a path from its end: places [first, last], and the bytes that they need. */
static uint64_t path_item(const search_stage *stage, const search_path *path, uint32_t *first,
                          uint32_t last) {
    const search_point *point =
        path->region[last + 1] != TN_NONE ? &stage->points[path->region[last + 1]] : NULL;
    *first = point != NULL ? point->first : last;
    return point != NULL ? point->price.peak : stage->model.live[last];
}

void tn__path_worst(search_stage *stage, const search_path *path, bool across, uint32_t *first,
                    uint32_t *last) {
    uint64_t most = 0;
    *first = *last = 0;
    for (uint32_t p = stage->model.order.op_count, begin; p > 0; p = begin) {
        uint64_t bytes = path_item(stage, path, &begin, p - 1);
        if (across) {
            tn__split_across(&stage->model, begin, p - 1);
            bytes = stage->model.across[begin];
        }
        if (bytes <= most) continue;
        most = bytes;
        *first = begin;
        *last = p - 1;
    }
}

/* --- budgets --- */

static int path_order(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* All budgets at which the path can change, in ascending order. */
static uint64_t *path_budgets(const search_stage *stage, size_t *count) {
    size_t places = stage->model.order.op_count;
    uint64_t *list = tn__alloc_array(stage->context, places + stage->count + 1, sizeof *list);
    if (list == NULL) return NULL;
    for (size_t i = 0; i < places; i++) list[i] = stage->model.live[i];
    for (size_t i = 0; i < stage->count; i++) list[places + i] = stage->points[i].price.peak;
    *count = places + stage->count;
    qsort(list, *count, sizeof *list, path_order);
    return list;
}

tn_status tn__path_smallest(const search_stage *stage, uint64_t limit, search_path *path,
                            uint64_t *budget, tn_error *error) {
    size_t count, low = 0;
    uint64_t *list = path_budgets(stage, &count);
    if (list == NULL) return tn__no_memory(error, "a split graph");
    size_t high = count > 0 ? count - 1 : 0, room = stage->model.order.op_count + stage->count + 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t cost = tn__path_walk(stage, list[middle], 0, path);
        if (cost != UINT64_MAX && cost <= limit)
            high = middle;
        else
            low = middle + 1;
    }
    *budget = count > 0 ? list[low] : 0;
    tn__free(stage->context, list, room * sizeof *list);
    return TN_OK;
}
