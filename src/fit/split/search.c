/* search.c - prices every sequence of operators of a graph in parts, along each of its axes.
 *
 * Every sequence that ends in an operator that can be cut is priced along each axis and for a
 * few numbers of parts, with halos recomputed and with halos kept. A price is dropped if another
 * price of the same sequence is at most equal in bytes and work; search_paths.c combines the
 * remaining prices for a budget. The search does not consider other orders of the operators, nor
 * regions within regions.
 *
 * Cost: O(operators x 80 x axes x parts) prices.
 */
#include "fit/split/search.h"

#include "graph/takes.h"

#define SEARCH_LENGTH 80u /* maximum number of operators in a region */
#define SEARCH_SMALL 16u  /* places with fewer live bytes than this part of the peak are ignored */

/* --- limits --- */

static bool search_is_over(search_limits *limits) {
    bool late = limits->deadline > 0 && tn__clock_s() >= limits->deadline;
    limits->stopped = limits->stopped || late;
    return limits->stopped;
}

/* False: the work limit is reached. */
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

/* At least as good in every measure. */
static bool search_beats(const search_point *point, const search_point *other) {
    return point->price.peak <= other->price.peak && point->cost <= other->cost &&
           point->price.kept <= other->price.kept;
}

/* Whether a point of the same sequence is as good. `from`: the first point of the sequence. */
static bool search_is_beaten(const search_stage *search, size_t from, const search_point *point) {
    for (size_t i = from; i < search->count; i++)
        if (search_beats(&search->points[i], point)) return true;
    return false;
}

static tn_status search_add(search_stage *search, size_t from, const search_point *point,
                            tn_error *error) {
    size_t kept = from;
    if (search_is_beaten(search, from, point)) return TN_OK;
    for (size_t i = from; i < search->count; i++) { /* removes the points that it beats */
        if (!search_beats(point, &search->points[i])) search->points[kept++] = search->points[i];
    }
    search->count = kept;
    if (!tn__reserve(search->context, &search->points, &search->room, search->count + 1,
                     sizeof *search->points))
        return tn__no_memory(error, "a split graph");
    search->points[search->count++] = *point;
    return TN_OK;
}

/* Prices the region at its current length with this number of parts. The peak is TN_SIZE_UNKNOWN
 * if this cut is not possible. */
static tn_status search_try(search_stage *search, split_pricer *pricer, uint32_t index, size_t from,
                            search_point *point, uint64_t most, tn_error *error) {
    point->price = (split_price){.peak = TN_SIZE_UNKNOWN};
    if (!search_count(search->limits)) return TN_OK;
    TN_TRY(tn__price(pricer, index, point->region.parts, &point->price, error));
    if (point->price.peak >= most) return TN_OK;
    point->cost = search_cost(search, &point->price);
    return search_add(search, from, point, error);
}

/* Tries more and more parts, while that helps. */
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

/* Whether a region may end with this operator, cut along this axis without cutting its weights. */
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

/* Prices all regions of a window, from the shortest to the longest. */
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
        if (search_is_over(search->limits)) return TN_OK; /* the caller checks the limit, too */
        search_point asked = *point;
        TN_TRY(search_more(search, pricer, &asked, most, error));
    }
    return TN_OK;
}

/* Prices all sequences that end at a place, cut along one axis or two. */
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
    tn_status told = TN_OK;
    tn_status status = tn__split_open(order, &point.region, window, last, &region, &unused);
    if (status == TN_E_NO_MEMORY) told = tn__no_memory(error, "a split graph");
    if (status == TN_OK) told = tn__price_open(&pricer, &search->model, &region, window, error);
    if (status == TN_OK && told == TN_OK) told = search_lengths(search, &pricer, &point, error);
    tn__split_end(&region);
    return told;
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
            continue; /* columns alone: rows are as good, and contiguous */
        if (!search_may_cut(search, order->ops[last], axis)) continue;
        TN_TRY(search_axes(search, last, axes, false, false, error));
        TN_TRY(search_axes(search, last, axes, false, true, error));
        if (image && axis == rows && search_may_cut(search, order->ops[last], columns))
            TN_TRY(search_axes(search, last, axes, true, false, error));
    }
    return TN_OK;
}

tn_status tn__search_open(search_stage *search, const tn_graph *graph,
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

void tn__search_close(search_stage *search) {
    if (search->context == NULL) return;
    tn__free(search->context, search->points, search->room * sizeof *search->points);
    tn__arena_release(&search->arena);
    tn_graph_destroy(search->own);
    *search = (search_stage){0};
}
