/* search.c - chooses the regions that run in tiles: those with the least additional work within a
 * budget.
 *
 * A tensor that waits long for its last readers is live during everything in between, so tiles
 * cannot lower the memory below its size. Therefore the search uses several graphs: the given one,
 * and others that each recompute one more tensor for late readers (skip.h). The next tensor is the
 * one that saves the most bytes per operation at the place where the previous graph needs the most
 * bytes. Each graph has prices for all its sequences of operators. For a budget, the least work
 * over all graphs is chosen, so a larger budget never needs more work.
 *
 * Cost: O(operators * 80 * axes * numbers of tiles) for each graph; O(operators + prices) for a
 * budget.
 */
#include <stdlib.h>

#include "fit/split/price.h"
#include "fit/split/skip.h"
#include "graph/takes.h"

typedef struct search_point {
    uint32_t first, last; /* places */
    tn_split_region region;
    split_price price;
    /* additional operations, plus the operations that take as long as moving the moved bytes */
    uint64_t cost;
    uint64_t floor;
} search_point;

/* Limits for all graphs of a search together. */
typedef struct search_limits {
    uint64_t work, work_limit; /* number of priced regions, and its limit; 0: no limit */
    double deadline; /* time at which the search must end, as tn__clock_s counts; 0: no limit */
    bool stopped;
} search_limits;

/* One of the graphs of a search, with its prices. */
typedef struct search_stage {
    const tn_context *context; /* the caller's context; NULL: the stage is not open */
    search_limits *limits;
    tn__arena arena;
    const tn_graph *graph;
    tn_graph *own; /* the graph, if the search made it; NULL: it is the caller's graph */
    split_model model;
    search_point *points; /* [count] prices, in ascending order of `last` */
    size_t count, room;
    uint64_t whole;      /* peak of live bytes of the graph without tiles */
    uint32_t byte_flops; /* number of operations that take as long as copying a byte */
    /* [skip_count] the tensors that are recomputed; the list belongs to the search */
    const tn_split_again *list;
    uint32_t skip_count; /* number of recomputed tensors */
    uint64_t skip;       /* operations of all recomputed operators */
} search_stage;

/* A path through one graph, as a choice of regions. Its work does not include that of recomputed
 * operators. */

typedef struct search_path {
    /* [places + 1] least cost of all operators before the place; UINT64_MAX: no path */
    uint64_t *cost;
    /* [places + 1] index in search_stage.points of the price of the region that ends directly
     * before the place; TN_NONE: the operator before the place runs whole */
    uint32_t *region;
} search_path;

/* --- prices of all sequences of one graph ----------------------------------------------------- */

/* Prices the sequences of operators of a graph as regions, along each of their axes.
 *
 * Every sequence that ends with an operator that can be cut is priced along each axis, for a few
 * numbers of tiles, with halos recomputed and with halos kept. A price is dropped if another price
 * of the same sequence needs at most its bytes and at most its work. The paths below combine the
 * other prices for a budget. The search considers no other order of the operators, and no regions
 * within regions.
 *
 * Cost: O(operators * 80 * axes * numbers of tiles) prices.
 */

#define SEARCH_LENGTH 80u /* limit for the number of operators in a region */
/* a region is ignored if all of its places have fewer live bytes than 1/16 of the peak */
#define SEARCH_SMALL 16u

/* --- limits --- */

static bool search_is_over(search_limits *limits) {
    bool late = limits->deadline > 0 && tn__clock_s() >= limits->deadline;
    limits->stopped = limits->stopped || late;
    return limits->stopped;
}

/* Counts a priced region. Returns false if the work limit is reached. */
static bool search_count(search_limits *limits) {
    if (limits->work_limit > 0 && limits->work >= limits->work_limit) limits->stopped = true;
    if (!limits->stopped) limits->work++;
    return !limits->stopped;
}

static bool search_goes_on(const search_stage *search, uint32_t done, uint32_t of) {
    const tn_context *context = search->context;
    bool stops = context->progress != NULL && !context->progress(context->self, "split", done, of);
    search->limits->stopped = search->limits->stopped || stops;
    return !search_is_over(search->limits);
}

/* --- prices --- */

static uint64_t search_cost(const search_stage *search, const split_price *price) {
    return tn__work_added(price->extra, price->moved, search->byte_flops);
}

/* Whether one price is at least as good as another in every respect. */
static bool search_beats(const search_point *point, const search_point *other) {
    return point->price.peak <= other->price.peak && point->cost <= other->cost &&
           point->price.kept <= other->price.kept;
}

/* Whether a known price of the same sequence is at least as good. `from`: index of the first price
 * of this sequence. */
static bool search_is_beaten(const search_stage *search, size_t from, const search_point *point) {
    for (size_t i = from; i < search->count; i++)
        if (search_beats(&search->points[i], point)) return true;
    return false;
}

static tn_status search_add(search_stage *search, size_t from, const search_point *point,
                            tn_error *error) {
    size_t kept = from;
    if (search_is_beaten(search, from, point)) return TN_OK;
    /* removes the prices that are no better than the new one */
    for (size_t i = from; i < search->count; i++) {
        if (!search_beats(point, &search->points[i])) search->points[kept++] = search->points[i];
    }
    search->count = kept;
    if (!tn__reserve(search->context, &search->points, &search->room, search->count + 1,
                     sizeof *search->points))
        return tn__no_memory(error, "a split graph");
    search->points[search->count++] = *point;
    return TN_OK;
}

/* Prices the region at its current length with this number of tiles, and adds the price if it is
 * useful. The peak is TN_SIZE_UNKNOWN if the region cannot be cut in this way. */
static tn_status search_try(search_stage *search, split_pricer *pricer, uint32_t index, size_t from,
                            search_point *point, uint64_t most, tn_error *error) {
    point->price = (split_price){.peak = TN_SIZE_UNKNOWN};
    if (!search_count(search->limits)) return TN_OK;
    TN_TRY(tn__price(pricer, index, point->region.parts, &point->price, error));
    if (point->price.peak >= most) return TN_OK;
    point->cost = search_cost(search, &point->price);
    return search_add(search, from, point, error);
}

/* Tries more and more tiles, as long as that helps. */
static tn_status search_more(search_stage *search, split_pricer *pricer, search_point *point,
                             uint64_t most, tn_error *error) {
    static const uint32_t many[PRICE_COUNTS] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
    const tn_op *op = tn_graph_op(search->model.order.graph, point->region.last);
    const tn_tensor *y = tn_graph_tensor(search->model.order.graph, op->outputs[0]);
    bool grid = point->region.parts[1] > 1;
    uint64_t before = UINT64_MAX;
    size_t from = search->count;
    for (uint32_t i = 0; i < PRICE_COUNTS; i++) {
        for (uint32_t c = 0; c < (grid ? 2u : 1u); c++) {
            point->region.parts[c] = many[i];
            if ((int64_t)many[i] > y->shape[point->region.axes[c]]) return TN_OK;
        }
        if (grid && many[i] > 8) return TN_OK;
        TN_TRY(search_try(search, pricer, i, from, point, most, error));
        if (point->region.keep && point->price.halo == 0) return TN_OK;
        if (point->price.peak != TN_SIZE_UNKNOWN &&
            (point->price.peak / 99 * 100 >= before ||
             point->price.peak <= point->floor + point->floor / 64))
            return TN_OK;
        before = point->price.peak;
    }
    return TN_OK;
}

/* Whether a region may end with this operator if it is cut along this axis: the operator can run in
 * tiles, and its weights are not cut. */
static bool search_may_cut(const search_stage *search, tn_op_id id, uint32_t axis) {
    const tn_graph *graph = search->model.order.graph;
    const tn_op *op = tn_graph_op(graph, id);
    int64_t extent = tn_graph_tensor(graph, op->outputs[0])->shape[axis];
    if (extent < 2 || !tn__op_splits(graph, id, axis)) return false;
    if (!tn__op_has(graph, id, TN_RULE_CONV | TN_RULE_MATMUL)) return true;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn__tile part = {axis, 0, extent};
        tn__need need;
        if (op->inputs[i] == TN_NONE || !tn__split_ask(&search->model.order, id, &part, i, &need))
            continue;
        if (need.axis != TN_NONE && tn_tensor_is_static(tn_graph_tensor(graph, op->inputs[i])))
            return false;
    }
    return true;
}

/* Prices all regions that end at the last operator of a window, from the shortest to the
 * longest. */
static tn_status search_lengths(search_stage *search, split_pricer *pricer, search_point *point,
                                tn_error *error) {
    const split_order *order = &search->model.order;
    split_region *region = pricer->region;
    uint64_t most = search->model.live[point->last], small = search->whole / SEARCH_SMALL;
    while (region->begin > 0 && tn__split_extend(region) == TN_OK) {
        tn__price_extend(pricer);
        point->first = pricer->first + region->begin;
        point->region.first = order->ops[point->first];
        if (search->model.live[point->first] > most) most = search->model.live[point->first];
        if (most < small || !region->ops[region->begin].parts) continue;
        point->floor = tn__price_floor(pricer);
        if (point->floor + point->floor / 16 >= most) continue;
        /* ends early if the time limit is reached, or if the search was stopped before */
        if (search_is_over(search->limits)) return TN_OK;
        search_point asked = *point;
        TN_TRY(search_more(search, pricer, &asked, most, error));
    }
    return TN_OK;
}

/* Prices all sequences that end at a place, cut along one axis or along two. */
static tn_status search_axes(search_stage *search, uint32_t last, const uint32_t *axes, bool grid,
                             bool keep, tn_error *error) {
    const split_order *order = &search->model.order;
    uint32_t window = last + 1 > SEARCH_LENGTH ? last + 1 - SEARCH_LENGTH : 0;
    search_point point = {.last = last};
    point.region = (tn_split_region){.last = order->ops[last],
                                     .axes = {axes[0], axes[1]},
                                     .parts = {2, grid ? 2u : 1u},
                                     .keep = keep};
    split_region region;
    split_pricer pricer;
    tn_error unused;
    tn_status result = TN_OK;
    tn_status status = tn__split_open(order, &point.region, window, last, &region, &unused);
    if (status == TN_E_NO_MEMORY) result = tn__no_memory(error, "a split graph");
    if (status == TN_OK) result = tn__price_open(&pricer, &search->model, &region, window, error);
    if (status == TN_OK && result == TN_OK) result = search_lengths(search, &pricer, &point, error);
    tn__split_end(&region);
    return result;
}

static tn_status search_last(search_stage *search, uint32_t last, tn_error *error) {
    const split_order *order = &search->model.order;
    const tn_op *op = tn_graph_op(order->graph, order->ops[last]);
    if (op->output_count == 0 || op->outputs[0] == TN_NONE) return TN_OK;
    const tn_tensor *y = tn_graph_tensor(order->graph, op->outputs[0]);
    if (tn_tensor_is_static(y) || !tn__shape_known(y)) return TN_OK;
    bool image = y->rank == 4;
    bool channels_last = strcmp(op->domain, "tflite") == 0;
    uint32_t rows = channels_last ? 1 : 2, columns = rows + 1;
    tn__split_across(&search->model, last + 1 > SEARCH_LENGTH ? last + 1 - SEARCH_LENGTH : 0, last);
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        const uint32_t axes[2] = {axis, columns};
        if (image && axis == columns)
            /* columns alone are not cut: cutting rows is as good, and rows are contiguous */
            continue;
        if (!search_may_cut(search, order->ops[last], axis)) continue;
        TN_TRY(search_axes(search, last, axes, false, false, error));
        TN_TRY(search_axes(search, last, axes, false, true, error));
        if (image && axis == rows && search_may_cut(search, order->ops[last], columns))
            TN_TRY(search_axes(search, last, axes, true, false, error));
    }
    return TN_OK;
}

/* Prices all sequences of a graph. `context` and `limits` must be set, `arena` initialised, and
 * everything else 0. The caller must close the stage, even after an error. Errors: E_STOPPED (a
 * limit, or the caller), E_NO_MEMORY. */
static tn_status search_open(search_stage *search, const tn_graph *graph,
                             const tn_split_options *options, tn_error *error) {
    uint32_t ops;
    search->graph = graph;
    search->byte_flops = options->byte_flops;
    TN_TRY(tn__split_model(graph, options, &search->arena, &search->model, error));
    ops = search->model.order.op_count;
    for (uint32_t p = 0; p < ops; p++)
        if (search->model.live[p] > search->whole) search->whole = search->model.live[p];
    for (uint32_t p = 0; p < ops; p++) {
        if (!search_goes_on(search, p, ops))
            TN_FAIL(error, TN_E_STOPPED, "the search for parts was stopped before it had any");
        TN_TRY(search_last(search, p, error));
    }
    if (search_goes_on(search, ops, ops)) return TN_OK;
    TN_FAIL(error, TN_E_STOPPED, "the search for parts was stopped before it had any");
}

static void search_close(search_stage *search) {
    if (search->context == NULL) return;
    tn__free(search->context, search->points, search->room * sizeof *search->points);
    tn__arena_release(&search->arena);
    tn_graph_destroy(search->own);
    *search = (search_stage){0};
}

/* --- the least work of one graph for a budget ------------------------------------------------- */

/* Finds the least work of a graph within a budget, from the prices of its sequences.
 *
 * The answer for a budget is a shortest path. Each operator either runs whole, if that is within
 * the budget, or belongs to a region that is within the budget. In this example, the operators 2 to
 * 4 form a region:
 *
 *     place    0     1     2     3     4     5
 *              o-----o-----o     o-----o-----o     whole, where the budget allows it
 *                    \____region, 7 tiles____/     or a region over several places
 *
 * The path has the least work of all combinations of these regions, so a larger budget never needs
 * more work. The fewest bytes for a share of work are found by binary search over budgets.
 *
 * Cost: O(operators + prices) for a path.
 */

/* --- paths --- */

/* Allocates a path. The caller must release it, even after an error. */
static tn_status path_make(const search_stage *stage, search_path *path, tn_error *error) {
    size_t places = (size_t)stage->model.order.op_count + 1;
    path->cost = tn__alloc_array(stage->context, places, sizeof *path->cost);
    path->region = tn__alloc_array(stage->context, places, sizeof *path->region);
    return path->cost != NULL && path->region != NULL ? TN_OK
                                                      : tn__no_memory(error, "a split graph");
}

static void path_release(const search_stage *stage, search_path *path) {
    size_t places = (size_t)stage->model.order.op_count + 1;
    tn__free(stage->context, path->cost, places * sizeof *path->cost);
    tn__free(stage->context, path->region, places * sizeof *path->region);
}

static uint64_t path_weigh(uint64_t bytes, double weight) {
    double all = weight * (double)bytes;
    return all >= 0x1p62 ? UINT64_MAX / 4 : (uint64_t)all;
}

/* Finds the best path within a budget. Returns its work plus `weight` times its permanent bytes;
 * UINT64_MAX if no path is within the budget. */
static uint64_t path_walk(const search_stage *stage, uint64_t budget, double weight,
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

/* Returns the last path as a choice of regions. choice->work is its work as a fraction of `whole`
 * operations. */
static tn_status path_take(const search_stage *stage, const search_path *path, uint64_t whole,
                           tn_split_choice *choice, tn_error *error) {
    uint32_t count = 0, places = stage->model.order.op_count;
    *choice = (tn_split_choice){.graph = stage->graph,
                                .again = stage->list,
                                .again_count = stage->skip_count,
                                .extra = stage->skip};
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

/* Returns the bytes that the last operator or region of a path needs which ends at place `last`.
 * *first: the place at which it begins. */
static uint64_t path_item(const search_stage *stage, const search_path *path, uint32_t *first,
                          uint32_t last) {
    const search_point *point =
        path->region[last + 1] != TN_NONE ? &stage->points[path->region[last + 1]] : NULL;
    *first = point != NULL ? point->first : last;
    return point != NULL ? point->price.peak : stage->model.live[last];
}

/* Finds the operator or region of a path that needs the most bytes, from place *first to place
 * *last. With `across`, finds the one with the most bytes that it does not use but that are live
 * from before it until after it. */
static void path_worst(search_stage *stage, const search_path *path, bool across, uint32_t *first,
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

/* Lists all budgets at which the path can change, in ascending order. Returns NULL if memory is
 * exhausted. */
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

/* Finds the smallest budget for which the best path needs at most `limit` work. Without regions, it
 * is the peak of the graph. */
static tn_status path_smallest(const search_stage *stage, uint64_t limit, search_path *path,
                               uint64_t *budget, tn_error *error) {
    size_t count, low = 0;
    uint64_t *list = path_budgets(stage, &count);
    if (list == NULL) return tn__no_memory(error, "a split graph");
    size_t high = count > 0 ? count - 1 : 0, room = stage->model.order.op_count + stage->count + 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t cost = path_walk(stage, list[middle], 0, path);
        if (cost != UINT64_MAX && cost <= limit)
            high = middle;
        else
            low = middle + 1;
    }
    *budget = count > 0 ? list[low] : 0;
    tn__free(stage->context, list, room * sizeof *list);
    return TN_OK;
}

/* --- the unsplit graph, and graphs in which tensors are recomputed ---------------------------- */

#define STAGES_MOST 8u
/* A tensor is recomputed only if it has at least 1 / STAGES_LEAST of the peak of the graph without
 * tiles. */
#define STAGES_LEAST 32u
/* Another graph is kept only if it saves more than 1 / STAGES_GAIN of the fewest bytes so far. */
#define STAGES_GAIN 64u

struct tn_split_search {
    tn_context context;
    search_limits limits;
    search_stage stages[STAGES_MOST]; /* [count] the graphs; the first is the given one */
    /* for each further graph, the tensor that it recomputes in addition to those of the previous
     * graph */
    tn_split_again skip[STAGES_MOST];
    uint32_t count;
    uint64_t whole, work;
};

/* --- graphs --- */

/* Copies the bytes of scratch memory for the operators of the next graph; a copied operator needs
 * as many as its original. */
static tn_status stages_scratch(search_stage *next, const search_stage *from,
                                const tn_op_id *sources, tn_split_options *options,
                                tn_error *error) {
    uint32_t ops = tn_graph_op_count(next->own);
    options->workspaces = NULL;
    if (from->model.scratch == NULL) return TN_OK;
    uint64_t *list = tn__arena_array(&next->arena, (size_t)ops + 1, sizeof *list);
    if (list == NULL) return tn__no_memory(error, "a split graph");
    for (uint32_t i = 0; i < ops; i++) list[i] = from->model.scratch[sources[i]];
    options->workspaces = list;
    return TN_OK;
}

static tn_status stages_open_next(tn_split_search *search, const split_skip *skip,
                                  const tn_split_options *asked, tn_error *error) {
    const search_stage *from = &search->stages[search->count - 1];
    search_stage *next = &search->stages[search->count];
    tn_split_options options = *asked;
    tn_op_id *sources;
    *next = (search_stage){.context = &search->context, .limits = &search->limits};
    tn__arena_init(&next->arena, next->context);
    TN_TRY(tn__skip_graph(&from->model, skip, next->context, &next->arena, &next->own, &sources,
                          error));
    TN_TRY(stages_scratch(next, from, sources, &options, error));
    next->skip = from->skip + skip->flops;
    next->skip_count = from->skip_count + 1;
    next->list = search->skip;
    search->skip[from->skip_count] = (tn_split_again){skip->tensor, skip->from, skip->before};
    return search_open(next, next->own, &options, error);
}

/* Finds the smallest budget of a graph for at most `limit` work. It is UINT64_MAX if recomputation
 * alone needs more work. */
static tn_status stages_smallest(const search_stage *stage, uint64_t limit, uint64_t *budget,
                                 tn_error *error) {
    search_path path = {0};
    *budget = UINT64_MAX;
    if (stage->skip > limit) return TN_OK;
    tn_status status = path_make(stage, &path, error);
    if (status == TN_OK) status = path_smallest(stage, limit - stage->skip, &path, budget, error);
    path_release(stage, &path);
    return status;
}

/* Where to look for a tensor to recompute: across the region or operator of the best path that has
 * the most bytes waiting across it; or across the one that needs the most bytes; or, if one region
 * spans all tensors that wait, at the operator across which the most bytes wait. */
enum { STAGES_ACROSS, STAGES_WORST, STAGES_FULLEST, STAGES_WAYS };

static tn_status stages_place(const tn_split_search *search, search_stage *stage, uint32_t way,
                              uint32_t *first, uint32_t *last, tn_error *error) {
    search_path path = {0};
    uint64_t most = search->work / 2, limit = most > stage->skip ? most - stage->skip : 0, bytes;
    if (way == STAGES_FULLEST) {
        *first = *last = TN_NONE;
        return TN_OK;
    }
    tn_status status = path_make(stage, &path, error);
    if (status == TN_OK) status = path_smallest(stage, limit, &path, &bytes, error);
    if (status == TN_OK) {
        (void)path_walk(stage, bytes, 0, &path);
        path_worst(stage, &path, way == STAGES_ACROSS, first, last);
    }
    path_release(stage, &path);
    return status;
}

/* Adds a graph that recomputes one more tensor. *better: it needs clearly fewer bytes than *least;
 * otherwise it is removed again. */
static tn_status stages_try(tn_split_search *search, const split_skip *skip,
                            const tn_split_options *options, uint64_t *least, bool *better,
                            tn_error *error) {
    search_stage *next = &search->stages[search->count];
    uint64_t bytes = UINT64_MAX;
    tn_error said = {0};
    tn_status status = stages_open_next(search, skip, options, &said);
    if (status == TN_OK) status = stages_smallest(next, search->work / 2, &bytes, &said);
    *better = status == TN_OK && bytes < *least - *least / STAGES_GAIN;
    /* a graph is dropped if its sizes cannot be inferred, or if a limit stopped its search */
    bool drops = status == TN_E_INVALID || status == TN_E_UNKNOWN || status == TN_E_UNSUPPORTED ||
                 status == TN_E_STOPPED;
    if (!*better) {
        search_close(next);
        return drops || status == TN_OK ? TN_OK : tn__fail_as(error, status, &said);
    }
    search->count++;
    *least = bytes;
    return TN_OK;
}

/* Tries to add one more graph, in each of the three ways to find a tensor. *more: a graph was
 * added. */
static tn_status stages_next(tn_split_search *search, const tn_split_options *options,
                             uint64_t *least, bool *more, tn_error *error) {
    search_stage *stage = &search->stages[search->count - 1];
    split_skip tried = {.tensor = TN_NONE}, skip;
    *more = false;
    for (uint32_t way = 0; way < STAGES_WAYS && !*more; way++) {
        uint32_t first, last;
        bool found;
        TN_TRY(stages_place(search, stage, way, &first, &last, error));
        TN_TRY(tn__skip_choose(&stage->model, first, last, search->whole / STAGES_LEAST, &skip,
                               &found, error));
        bool is_new = found && (skip.tensor != tried.tensor || skip.from != tried.from);
        if (search->limits.stopped) return TN_OK;
        if (!is_new || stage->skip + skip.flops > search->work / 2) continue;
        tried = skip;
        TN_TRY(stages_try(search, &skip, options, least, more, error));
    }
    return TN_OK;
}

tn_status tn_split_search_create(const tn_graph *graph, const tn_split_options *options,
                                 tn_split_search **search, tn_error *error) {
    tn_split_options asked = TN_SPLIT_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context =
        asked.context != NULL ? tn__context(asked.context) : *tn_graph_context(graph);
    tn_split_search *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a split graph");
    if (asked.byte_flops == 0) asked.byte_flops = TN__PLAIN_RATIO;
    made->context = context;
    made->count = 1;
    made->limits.work_limit = asked.work_limit;
    if (asked.timeout_s > 0) made->limits.deadline = tn__clock_s() + asked.timeout_s;
    made->stages[0].context = &made->context;
    made->stages[0].limits = &made->limits;
    tn__arena_init(&made->stages[0].arena, &made->context);
    tn_status status = search_open(&made->stages[0], graph, &asked, error);
    made->whole = made->stages[0].whole;
    made->work = made->stages[0].model.work;
    bool more = asked.again && !asked.copies && asked.kept == NULL;
    uint64_t least = 0;
    if (status == TN_OK) status = stages_smallest(&made->stages[0], made->work / 2, &least, error);
    while (status == TN_OK && more && made->count < STAGES_MOST)
        status = stages_next(made, &asked, &least, &more, error);
    /* forgets the arrays of the options: they belong to the caller, and need not exist after this
     * call */
    for (uint32_t i = 0; i < made->count; i++)
        made->stages[i].model.scratch = made->stages[i].model.kept = NULL;
    if (status == TN_OK)
        *search = made;
    else
        tn_split_search_destroy(made);
    return status;
}

void tn_split_search_destroy(tn_split_search *search) {
    if (search == NULL) return;
    tn_context context = search->context;
    for (uint32_t i = 0; i < STAGES_MOST; i++) search_close(&search->stages[i]);
    tn__free(&context, search, sizeof *search);
}

uint64_t tn_split_whole(const tn_split_search *search) { return search->whole; }

uint64_t tn_split_work(const tn_split_search *search) { return search->limits.work; }

/* --- choices --- */

void tn_split_choice_release(const tn_split_search *search, tn_split_choice *choice) {
    if (choice->regions != NULL)
        tn__free(&search->context, choice->regions,
                 ((size_t)choice->count + 1) * sizeof *choice->regions);
    *choice = (tn_split_choice){0};
}

/* Makes the choice of regions of one graph for a budget. */
static tn_status stages_take(const tn_split_search *search, const search_stage *stage,
                             uint64_t budget, double weight, tn_split_choice *choice,
                             tn_error *error) {
    search_path path = {0};
    tn_status status = path_make(stage, &path, error);
    if (status == TN_OK) {
        (void)path_walk(stage, budget, weight, &path);
        status = path_take(stage, &path, search->work, choice, error);
    }
    path_release(stage, &path);
    return status;
}

/* Computes the work of a graph for a budget, including its recomputed operators; UINT64_MAX if no
 * path is within the budget. */
static tn_status stages_cost(const search_stage *stage, uint64_t budget, double weight,
                             uint64_t *cost, tn_error *error) {
    search_path path = {0};
    tn_status status = path_make(stage, &path, error);
    if (status == TN_OK) *cost = path_walk(stage, budget, weight, &path);
    if (status == TN_OK && *cost != UINT64_MAX) *cost = tn__add_sat(*cost, stage->skip);
    path_release(stage, &path);
    return status;
}

/* Finds the graph that needs the fewest bytes for at most `limit` work. */
static tn_status stages_fewest(const tn_split_search *search, uint64_t limit,
                               const search_stage **best, uint64_t *budget, tn_error *error) {
    *budget = UINT64_MAX;
    *best = &search->stages[0];
    for (uint32_t i = 0; i < search->count; i++) {
        uint64_t bytes;
        TN_TRY(stages_smallest(&search->stages[i], limit, &bytes, error));
        if (bytes >= *budget) continue;
        *budget = bytes;
        *best = &search->stages[i];
    }
    return TN_OK;
}

tn_status tn_split_within(const tn_split_search *search, uint64_t budget, tn_split_choice *choice,
                          tn_error *error) {
    return tn_split_weighing(search, budget, 0, choice, error);
}

tn_status tn_split_weighing(const tn_split_search *search, uint64_t budget, double weight,
                            tn_split_choice *choice, tn_error *error) {
    const search_stage *best = NULL;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < search->count; i++) {
        uint64_t cost;
        TN_TRY(stages_cost(&search->stages[i], budget, weight, &cost, error));
        if (cost >= least) continue;
        least = cost;
        best = &search->stages[i];
    }
    if (best != NULL) return stages_take(search, best, budget, weight, choice, error);
    if (error == NULL) return TN_E_EXHAUSTED;
    TN_TRY(stages_fewest(search, UINT64_MAX - 1, &best, &least, error));
    TN_FAIL(error, TN_E_EXHAUSTED, "in parts the graph needs %llu bytes at least, not %llu",
            (unsigned long long)least, (unsigned long long)budget);
}

tn_status tn_split_least(const tn_split_search *search, double share, tn_split_choice *choice,
                         tn_error *error) {
    const search_stage *best;
    uint64_t budget;
    double most = share * (double)search->work;
    uint64_t limit = most >= 0x1p63 ? UINT64_MAX - 1 : most > 0 ? (uint64_t)most : 0;
    TN_TRY(stages_fewest(search, limit, &best, &budget, error));
    return stages_take(search, best, budget, 0, choice, error);
}
