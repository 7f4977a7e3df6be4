/* search.c - what runs of operators of a graph cost in parts, each along its axes.
 *
 * Every run of operators that ends in one that can be cut is priced, along each axis and for a few
 * numbers of parts, with halos computed again and kept. Of each run those prices stay that no other
 * beats in bytes and work: search_paths.c makes budgets of them.
 * Not looked at: other orders of the operators than the graph's, regions within regions.
 * Cost: O(operators x 80 x axes x parts) prices.
 */
#include "split/search.h"

#define SEARCH_LENGTH 80u /* operators of a region */
#define SEARCH_SMALL 16u  /* what lives where less than this share of the peak does is no matter */

/* --- prices --- */

static uint64_t search_cost(const search_stage *search, const split_price *price) {
    return tn__add_sat(price->extra, tn__mul_sat(price->moved, search->byte_flops));
}

/* No worse in anything. */
static bool search_beats(const search_point *point, const search_point *other) {
    return point->price.peak <= other->price.peak && point->cost <= other->cost &&
           point->price.kept <= other->price.kept;
}

/* Whether a point of the same run is as good. `from`: the first point of the run. */
static bool search_is_beaten(const search_stage *search, size_t from, const search_point *point) {
    for (size_t i = from; i < search->count; i++)
        if (search_beats(&search->points[i], point)) return true;
    return false;
}

static tn_status search_add(search_stage *search, size_t from, const search_point *point,
                            tn_error *error) {
    size_t kept = from;
    if (search_is_beaten(search, from, point)) return TN_OK;
    for (size_t i = from; i < search->count; i++) { /* those that it beats go */
        if (!search_beats(point, &search->points[i])) search->points[kept++] = search->points[i];
    }
    search->count = kept;
    if (!tn__reserve(search->context, &search->points, &search->room, search->count + 1,
                     sizeof *search->points))
        return tn__no_memory(error, "a split graph");
    search->points[search->count++] = *point;
    return TN_OK;
}

/* One run, so many parts. The price's peak is TN_SIZE_UNKNOWN where it cannot be cut so. */
static tn_status search_try(search_stage *search, size_t from, search_point *point,
                            split_region *region, uint64_t most, tn_error *error) {
    point->price.peak = TN_SIZE_UNKNOWN;
    for (uint32_t c = 0; c < region->axis_count; c++) region->parts[c] = point->region.parts[c];
    tn_status status = tn__split_ranges(region);
    if (status == TN_OK)
        tn__split_price(&search->model, region, point->first, point->last, &point->price);
    if (status == TN_E_NO_MEMORY) return tn__no_memory(error, "a split graph");
    if (status != TN_OK || point->price.peak >= most) return TN_OK;
    point->cost = search_cost(search, &point->price);
    return search_add(search, from, point, error);
}

/* More and more parts, while that helps. */
static tn_status search_more(search_stage *search, size_t from, search_point *point,
                             split_region *region, uint64_t most, tn_error *error) {
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
        TN_TRY(search_try(search, from, point, region, most, error));
        if (point->region.keep && point->price.halo == 0) return TN_OK;
        if (point->price.peak != TN_SIZE_UNKNOWN &&
            (point->price.peak / 99 * 100 >= before ||
             point->price.peak <= point->floor + point->floor / 64))
            return TN_OK;
        before = point->price.peak;
    }
    return TN_OK;
}

/* One run, one way to cut it, where any number of parts may need less than it does whole. */
static tn_status search_parts(search_stage *search, size_t from, search_point *point, uint64_t most,
                              tn_error *error) {
    split_region region;
    tn_error unused;
    tn_status status = tn__split_begin(&search->model.order, &point->region, point->first,
                                       point->last, &region, &unused);
    bool useful = status == TN_OK && region.ops[0].parts;
    if (useful) {
        point->floor = tn__split_floor(&search->model, &region, point->first, point->last);
        useful = point->floor + point->floor / 16 < most;
    }
    tn_status told = status == TN_E_NO_MEMORY ? tn__no_memory(error, "a split graph") : TN_OK;
    if (useful) told = search_more(search, from, point, &region, most, error);
    tn__split_end(&region);
    return told;
}

/* Weights that would have to be cut, too, are none to begin with. */
static bool search_may_cut(const search_stage *search, tn_op_id id, uint32_t axis) {
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
static tn_status search_axes(search_stage *search, uint32_t last, const uint32_t *axes, bool grid,
                             bool keep, tn_error *error) {
    const split_order *order = &search->model.order;
    uint64_t most = 0, small = search->whole / SEARCH_SMALL;
    for (uint32_t first = last + 1; first-- > 0 && last - first < SEARCH_LENGTH;) {
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
        TN_TRY(search_parts(search, from, &point, most, error));
    }
    return TN_OK;
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

static bool search_goes_on(const search_stage *search, uint32_t done, uint32_t of) {
    const tn_context *context = search->context;
    return context->progress == NULL || context->progress(context->self, "split", done, of);
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
    return TN_OK;
}

void tn__search_close(search_stage *search) {
    if (search->context == NULL) return;
    tn__free(search->context, search->points, search->room * sizeof *search->points);
    tn__arena_release(&search->arena);
    tn_graph_destroy(search->own);
    *search = (search_stage){0};
}
