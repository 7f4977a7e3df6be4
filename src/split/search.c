/* search.c - which regions run in parts: the least work within a budget.
 *
 * Every run of operators that ends in one that can be cut is priced, along each axis and for a few
 * numbers of parts, with halos computed again and kept. Of each run those prices stay that no other
 * beats in bytes and work. A budget is then a shortest path: from operator to operator, each either
 * as it is, where that is within the budget, or inside the cheapest region that is.
 *
 *     place    0     1     2     3     4     5
 *              o-----o-----o     o-----o-----o     as it is, where the budget lets it
 *                    \\____region, 7 parts____/      or a region over several
 *
 * The path is the least work there is of these regions, so work never rises with the budget; fewest
 * bytes for a share of work is a search by halves over budgets.
 * Not looked at: other orders of the operators than the graph's, regions within regions.
 * Cost: O(operators x 80 x axes x parts) prices; a path is O(operators + prices).
 */
#include "split/estimate.h"

#include <stdlib.h>

#define SEARCH_LENGTH 80u /* operators of a region */
#define SEARCH_SMALL 16u  /* what lives where less than this share of the peak does is no matter */
#define SEARCH_BYTE_FLOPS 8u /* without a wish */

typedef struct search_point {
    uint32_t first, last; /* places */
    tn_split_region region;
    split_price price;
    uint64_t cost; /* extra, and what is moved */
    uint64_t floor;
} search_point;

struct tn_split_search {
    tn_context context;
    tn__arena arena;
    split_model model;
    search_point *points; /* sorted by last */
    size_t count, room;
    uint64_t whole;
    uint32_t byte_flops; /* operations that take as long as copying a byte */
};

/* --- prices --- */

static uint64_t search_cost(const tn_split_search *search, const split_price *price) {
    return tn__add_sat(price->extra, tn__mul_sat(price->moved, search->byte_flops));
}

/* No worse in anything. */
static bool search_beats(const search_point *point, const search_point *other) {
    return point->price.peak <= other->price.peak && point->cost <= other->cost &&
           point->price.kept <= other->price.kept;
}

/* Whether a point of the same run is as good. `from`: the first point of the run. */
static bool search_is_beaten(const tn_split_search *search, size_t from,
                             const search_point *point) {
    for (size_t i = from; i < search->count; i++)
        if (search_beats(&search->points[i], point)) return true;
    return false;
}

static tn_status search_add(tn_split_search *search, size_t from, const search_point *point,
                            tn_error *error) {
    size_t kept = from;
    if (search_is_beaten(search, from, point)) return TN_OK;
    for (size_t i = from; i < search->count; i++) { /* those that it beats go */
        if (!search_beats(point, &search->points[i])) search->points[kept++] = search->points[i];
    }
    search->count = kept;
    if (!tn__reserve(&search->context, &search->points, &search->room, search->count + 1,
                     sizeof *search->points))
        return tn__no_memory(error, "a split graph");
    search->points[search->count++] = *point;
    return TN_OK;
}

/* One run, one way to cut it. *peak: TN_SIZE_UNKNOWN where it cannot be cut so. */
static tn_status search_try(tn_split_search *search, size_t from, search_point *point,
                            uint64_t most, bool *useful, tn_error *error) {
    split_region region;
    tn_error unused;
    const split_order *order = &search->model.order;
    point->price.peak = TN_SIZE_UNKNOWN;
    *useful = false;
    tn_status status =
        tn__split_begin(order, &point->region, point->first, point->last, &region, &unused);
    if (status == TN_OK && region.ops[0].parts)
        point->floor = tn__split_floor(&search->model, &region, point->first, point->last);
    if (status == TN_OK && region.ops[0].parts && point->floor + point->floor / 16 < most) {
        *useful = true;
        status = tn__split_ranges(&region);
        if (status == TN_OK)
            tn__split_price(&search->model, &region, point->first, point->last, &point->price);
    }
    tn__split_end(&region);
    if (status == TN_E_NO_MEMORY) return tn__no_memory(error, "a split graph");
    if (status != TN_OK || point->price.peak >= most) return TN_OK;
    point->cost = search_cost(search, &point->price);
    return search_add(search, from, point, error);
}

/* More and more parts, while that helps. *useful: a run of this begin is worth while at all. */
static tn_status search_parts(tn_split_search *search, size_t from, search_point *point,
                              uint64_t most, bool *useful, tn_error *error) {
    static const uint32_t many[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
    const tn_op *op = tn_graph_op(search->model.order.graph, point->region.last);
    const tn_tensor *y = tn_graph_tensor(search->model.order.graph, op->outputs[0]);
    bool grid = point->region.parts[1] > 1;
    uint64_t before = UINT64_MAX;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        for (uint32_t c = 0; c < (grid ? 2u : 1u); c++) {
            point->region.parts[c] = many[i];
            if ((int64_t)many[i] > y->shape[point->region.axes[c]]) return TN_OK;
        }
        if (grid && many[i] > 8) return TN_OK;
        TN_TRY(search_try(search, from, point, most, useful, error));
        if (!*useful || (point->region.keep && point->price.halo == 0)) return TN_OK;
        if (point->price.peak != TN_SIZE_UNKNOWN &&
            (point->price.peak / 99 * 100 >= before ||
             point->price.peak <= point->floor + point->floor / 64))
            return TN_OK;
        before = point->price.peak;
    }
    return TN_OK;
}

/* Weights that would have to be cut, too, are none to begin with. */
static bool search_may_cut(const tn_split_search *search, tn_op_id id, uint32_t axis) {
    const tn_graph *graph = search->model.order.graph;
    const tn_op *op = tn_graph_op(graph, id);
    int64_t extent = tn_graph_tensor(graph, op->outputs[0])->shape[axis];
    if (extent < 2 || !tn__op_splits(graph, id, axis)) return false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn__part part = {axis, 0, extent};
        tn__need need;
        if (op->inputs[i] == TN_NONE || !tn__op_split(graph, id, &part, i, &need)) continue;
        if (need.axis != TN_NONE && tn__op_has(graph, id, TN_RULE_CONV | TN_RULE_MATMUL) &&
            tn_tensor_is_static(tn_graph_tensor(graph, op->inputs[i])))
            return false;
    }
    return true;
}

/* All runs that end at a place, cut along one axis or two. */
static tn_status search_axes(tn_split_search *search, uint32_t last, const uint32_t *axes,
                             bool grid, bool keep, tn_error *error) {
    const split_order *order = &search->model.order;
    uint64_t most = 0, small = search->whole / SEARCH_SMALL;
    for (uint32_t first = last + 1; first-- > 0 && last - first < SEARCH_LENGTH;) {
        bool useful;
        if (search->model.live[first] > most) most = search->model.live[first];
        if (most < small || first == last) continue;
        search_point point = {.first = first, .last = last};
        point.region = (tn_split_region){.first = order->ops[first],
                                         .last = order->ops[last],
                                         .axes = {axes[0], axes[1]},
                                         .parts = {2, grid ? 2u : 1u},
                                         .keep = keep};
        size_t from = search->count;
        while (from > 0 && search->points[from - 1].last == last &&
               search->points[from - 1].first == first)
            from--;
        TN_TRY(search_parts(search, from, &point, most, &useful, error));
    }
    return TN_OK;
}

static tn_status search_last(tn_split_search *search, uint32_t last, tn_error *error) {
    const split_order *order = &search->model.order;
    const tn_op *op = tn_graph_op(order->graph, order->ops[last]);
    if (op->output_count == 0 || op->outputs[0] == TN_NONE) return TN_OK;
    const tn_tensor *y = tn_graph_tensor(order->graph, op->outputs[0]);
    if (tn_tensor_is_static(y) || !tn__shape_known(y)) return TN_OK;
    bool image = y->rank == 4;
    bool channels_last = strcmp(op->domain, "tflite") == 0;
    uint32_t rows = channels_last ? 1 : 2, columns = rows + 1;
    tn__split_across(&search->model, last);
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        const uint32_t axes[2] = {axis, columns};
        if (image && axis == columns)
            continue; /* columns alone: rows are as good, and in one piece */
        if (!search_may_cut(search, order->ops[last], axis)) continue;
        TN_TRY(search_axes(search, last, axes, false, false, error));
        TN_TRY(search_axes(search, last, axes, false, true, error));
        if (image && axis == rows && search_may_cut(search, order->ops[last], columns))
            TN_TRY(search_axes(search, last, axes, true, false, error));
    }
    return TN_OK;
}

static bool search_goes_on(const tn_context *context, uint32_t done, uint32_t of) {
    return context->progress == NULL || context->progress(context->self, "split", done, of);
}

static tn_status search_stopped(tn_error *error) {
    TN_FAIL(error, TN_E_STOPPED, "the search for parts was stopped before it had any");
}

tn_status tn_split_search_create(const tn_graph *graph, const tn_split_options *options,
                                 tn_split_search **search, tn_error *error) {
    tn_split_options asked = TN_SPLIT_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context =
        asked.context != NULL ? tn__context(asked.context) : *tn_graph_context(graph);
    tn_split_search *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a split graph");
    made->context = context;
    tn__arena_init(&made->arena, &made->context);
    tn_status status = tn__split_model(graph, &asked, &made->arena, &made->model, error);
    made->byte_flops = asked.byte_flops > 0 ? asked.byte_flops : SEARCH_BYTE_FLOPS;
    for (uint32_t p = 0; status == TN_OK && p < made->model.order.op_count; p++)
        if (made->model.live[p] > made->whole) made->whole = made->model.live[p];
    for (uint32_t p = 0, ops = made->model.order.op_count; status == TN_OK && p < ops; p++)
        status =
            search_goes_on(&context, p, ops) ? search_last(made, p, error) : search_stopped(error);
    made->model.scratch = made->model.kept = NULL; /* the caller's, for the call */
    if (status == TN_OK)
        *search = made;
    else
        tn_split_search_destroy(made);
    return status;
}

void tn_split_search_destroy(tn_split_search *search) {
    if (search == NULL) return;
    tn_context context = search->context;
    tn__free(&context, search->points, search->room * sizeof *search->points);
    tn__arena_release(&search->arena);
    tn__free(&context, search, sizeof *search);
}

uint64_t tn_split_whole(const tn_split_search *search) { return search->whole; }

/* --- paths --- */

typedef struct search_path {
    uint64_t *cost;   /* [places + 1] of all before the place; UINT64_MAX: no way */
    uint32_t *region; /* [places + 1] the point that ends right before it; TN_NONE: as it is */
} search_path;

static tn_status search_path_make(const tn_split_search *search, search_path *path,
                                  tn_error *error) {
    size_t places = (size_t)search->model.order.op_count + 1;
    path->cost = tn__alloc_array(&search->context, places, sizeof *path->cost);
    path->region = tn__alloc_array(&search->context, places, sizeof *path->region);
    return path->cost != NULL && path->region != NULL ? TN_OK
                                                      : tn__no_memory(error, "a split graph");
}

static void search_path_release(const tn_split_search *search, search_path *path) {
    size_t places = (size_t)search->model.order.op_count + 1;
    tn__free(&search->context, path->cost, places * sizeof *path->cost);
    tn__free(&search->context, path->region, places * sizeof *path->region);
}

static uint64_t search_weigh(uint64_t bytes, double weight) {
    double all = weight * (double)bytes;
    return all >= 0x1p62 ? UINT64_MAX / 4 : (uint64_t)all;
}

/* The work of the best path, and what it keeps by weight; UINT64_MAX: none keeps to the budget. */
static uint64_t search_walk(const tn_split_search *search, uint64_t budget, double weight,
                            search_path *path) {
    uint32_t places = search->model.order.op_count;
    size_t at = 0;
    path->cost[0] = 0;
    for (uint32_t p = 0; p < places; p++) {
        path->cost[p + 1] = search->model.live[p] <= budget ? path->cost[p] : UINT64_MAX;
        path->region[p + 1] = TN_NONE;
        for (; at < search->count && search->points[at].last == p; at++) {
            const search_point *point = &search->points[at];
            uint64_t before = path->cost[point->first];
            if (point->price.peak > budget || before == UINT64_MAX) continue;
            uint64_t all = tn__add_sat(before, point->cost);
            if (weight > 0) all = tn__add_sat(all, search_weigh(point->price.kept, weight));
            if (all >= path->cost[p + 1]) continue;
            path->cost[p + 1] = all;
            path->region[p + 1] = (uint32_t)at;
        }
    }
    return path->cost[places];
}

static tn_status search_take(const tn_split_search *search, const search_path *path,
                             tn_split_choice *choice, tn_error *error) {
    uint32_t count = 0, places = search->model.order.op_count;
    *choice = (tn_split_choice){0};
    for (uint32_t p = places; p > 0;
         p = path->region[p] == TN_NONE ? p - 1 : search->points[path->region[p]].first)
        count += path->region[p] != TN_NONE;
    choice->regions = tn__alloc_array(&search->context, (size_t)count + 1, sizeof *choice->regions);
    if (choice->regions == NULL) return tn__no_memory(error, "a split graph");
    choice->count = count;
    for (uint32_t p = places; p > 0;) {
        if (path->region[p] == TN_NONE) {
            p--;
            if (search->model.live[p] > choice->live_bytes)
                choice->live_bytes = search->model.live[p];
            continue;
        }
        const search_point *point = &search->points[path->region[p]];
        choice->regions[--count] = point->region;
        if (point->price.peak > choice->live_bytes) choice->live_bytes = point->price.peak;
        choice->extra = tn__add_sat(choice->extra, point->price.extra);
        choice->moved = tn__add_sat(choice->moved, point->price.moved);
        choice->kept = tn__add_sat(choice->kept, point->price.kept);
        p = point->first;
    }
    double work = search->model.work > 0 ? (double)search->model.work : 1;
    choice->work = ((double)choice->extra + search->byte_flops * (double)choice->moved) / work;
    return TN_OK;
}

void tn_split_choice_release(const tn_split_search *search, tn_split_choice *choice) {
    if (choice->regions != NULL)
        tn__free(&search->context, choice->regions,
                 ((size_t)choice->count + 1) * sizeof *choice->regions);
    *choice = (tn_split_choice){0};
}

/* --- budgets --- */

static int search_order(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* All budgets at which something changes, rising. */
static uint64_t *search_budgets(const tn_split_search *search, size_t *count) {
    size_t places = search->model.order.op_count;
    uint64_t *list = tn__alloc_array(&search->context, places + search->count + 1, sizeof *list);
    if (list == NULL) return NULL;
    for (size_t i = 0; i < places; i++) list[i] = search->model.live[i];
    for (size_t i = 0; i < search->count; i++) list[places + i] = search->points[i].price.peak;
    *count = places + search->count;
    qsort(list, *count, sizeof *list, search_order);
    return list;
}

/* The smallest budget whose best path takes no more than `limit`. Without regions it is the
 * graph's. */
static tn_status search_smallest(const tn_split_search *search, uint64_t limit, search_path *path,
                                 uint64_t *budget, tn_error *error) {
    size_t count, low = 0;
    uint64_t *list = search_budgets(search, &count);
    if (list == NULL) return tn__no_memory(error, "a split graph");
    size_t high = count > 0 ? count - 1 : 0,
           room = search->model.order.op_count + search->count + 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t cost = search_walk(search, list[middle], 0, path);
        if (cost != UINT64_MAX && cost <= limit)
            high = middle;
        else
            low = middle + 1;
    }
    *budget = count > 0 ? list[low] : 0;
    tn__free(&search->context, list, room * sizeof *list);
    return TN_OK;
}

tn_status tn_split_within(const tn_split_search *search, uint64_t budget, tn_split_choice *choice,
                          tn_error *error) {
    return tn_split_weighing(search, budget, 0, choice, error);
}

tn_status tn_split_weighing(const tn_split_search *search, uint64_t budget, double weight,
                            tn_split_choice *choice, tn_error *error) {
    search_path path = {0};
    uint64_t least = 0;
    tn_status status = search_path_make(search, &path, error);
    if (status == TN_OK && search_walk(search, budget, weight, &path) == UINT64_MAX) {
        status = search_smallest(search, UINT64_MAX - 1, &path, &least, error);
        if (status == TN_OK)
            status = tn__fail(error, TN_E_EXHAUSTED,
                              "in parts the graph needs %llu bytes at least, not %llu",
                              (unsigned long long)least, (unsigned long long)budget);
    }
    if (status == TN_OK) status = search_take(search, &path, choice, error);
    search_path_release(search, &path);
    return status;
}

tn_status tn_split_least(const tn_split_search *search, double share, tn_split_choice *choice,
                         tn_error *error) {
    search_path path = {0};
    uint64_t budget;
    double most = share * (double)search->model.work;
    uint64_t limit = most >= 0x1p63 ? UINT64_MAX - 1 : most > 0 ? (uint64_t)most : 0;
    tn_status status = search_path_make(search, &path, error);
    if (status == TN_OK) status = search_smallest(search, limit, &path, &budget, error);
    if (status == TN_OK) {
        (void)search_walk(search, budget, 0, &path);
        status = search_take(search, &path, choice, error);
    }
    search_path_release(search, &path);
    return status;
}
