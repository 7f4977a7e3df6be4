/* find.c - operators with results that have an order or size that depends on the data: TopK,
 * NonMaxSuppression, Unique, NonZero.
 *
 * Elements are compared by integer keys that have their order (tn__order_key), and equal elements
 * by position, so that the result is unique.
 * Source: the ONNX specifications of these operators, opsets 1 to 13.
 */
#include "base/heap.h"
#include "engine/kernels/loops/box.h"

/* --- Unique ---
 *
 * Unique sorts the elements (or the slices along an axis) by value, and equal ones by position. The
 * first of each run of equal elements is then its first occurrence. The results are in the order of
 * values, or, with sorted = 0, in the order of first occurrences. All NaNs count as equal and come
 * last.
 * Cost: O(n log n) comparisons, and 4 n integers of scratch memory, for n elements or slices.
 */

typedef struct unique_slices {
    const char *data;
    tn_dtype dtype;
    uint32_t width;
    int64_t count;         /* slices */
    uint64_t outer, inner; /* a slice is `outer` x `inner` elements */
} unique_slices;

static const char *unique_at(const unique_slices *of, int64_t slice, uint64_t outer) {
    return of->data + (outer * (uint64_t)of->count + (uint64_t)slice) * of->inner * of->width;
}

static int unique_compare(const unique_slices *of, int64_t a, int64_t b) {
    for (uint64_t o = 0; o < of->outer; o++)
        for (uint64_t i = 0; i < of->inner; i++) {
            uint64_t x = tn__order_key(of->dtype, unique_at(of, a, o) + i * of->width);
            uint64_t y = tn__order_key(of->dtype, unique_at(of, b, o) + i * of->width);
            if (x != y) return x < y ? -1 : 1;
        }
    return 0;
}

static bool unique_before(const void *self, int64_t a, int64_t b) {
    return unique_compare(self, a, b) < 0;
}

/* Finds the groups of equal slices from their sorted order, and returns their number. group[i]
 * becomes the number of the group of slice i, and entry[g] the first slice of group g. `leader` is
 * scratch memory. */
static int64_t unique_groups(const unique_slices *of, bool sorted, const int64_t *order,
                             int64_t *leader, int64_t *group, int64_t *entry) {
    int64_t found = 0;
    for (int64_t i = 0; i < of->count; i++) {
        bool same = i > 0 && unique_compare(of, order[i - 1], order[i]) == 0;
        leader[order[i]] = same ? leader[order[i - 1]] : order[i];
        if (same || !sorted) continue;
        entry[found] = order[i];
        group[order[i]] = found++;
    }
    for (int64_t i = 0; i < of->count && !sorted; i++) {
        if (leader[i] != i) continue;
        entry[found] = i;
        group[i] = found++;
    }
    for (int64_t i = 0; i < of->count; i++) group[i] = group[leader[i]];
    return found;
}

static tn_status unique_write(tn_kernel_call *call, const unique_slices *of, uint32_t rank,
                              int64_t *shape, uint32_t axis, const int64_t *entry,
                              const int64_t *group, int64_t found) {
    uint64_t piece = of->inner * of->width;
    tn_operand *first = tn__call_output(call, 1), *inverse = tn__call_output(call, 2);
    tn_operand *counts = tn__call_output(call, 3);
    shape[axis] = found;
    TN_TRY(tn__call_shape(call, 0, rank, shape));
    TN_TRY(tn__call_shape(call, 1, 1, &found));
    TN_TRY(tn__call_shape(call, 2, 1, &of->count));
    TN_TRY(tn__call_shape(call, 3, 1, &found));
    char *to = tn__call_output(call, 0) != NULL ? call->outputs[0].data : NULL;
    for (uint64_t o = 0; o < of->outer && to != NULL && piece > 0; o++)
        for (int64_t i = 0; i < found; i++, to += piece)
            tn__move(to, unique_at(of, entry[i], o), piece);
    for (int64_t i = 0; i < found; i++) {
        if (first != NULL) ((int64_t *)first->data)[i] = entry[i];
        if (counts != NULL) ((int64_t *)counts->data)[i] = 0;
    }
    for (int64_t i = 0; i < of->count; i++) {
        if (inverse != NULL) ((int64_t *)inverse->data)[i] = group[i];
        if (counts != NULL) ((int64_t *)counts->data)[group[i]]++;
    }
    return TN_OK;
}

static tn_status unique_run(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0];
    bool flat = tn__attr(call->op, "axis") == NULL;
    bool sorted = tn__attr_int(call->op, "sorted", 1) != 0;
    uint32_t axis = 0;
    int64_t shape[TN_RANK_MAX];
    if (!flat) TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), data->rank, &axis));
    unique_slices of = {.data = data->data,
                        .dtype = data->dtype,
                        .width = tn__width(data->dtype),
                        .count = flat ? (int64_t)tn__operand_count(data) : data->shape[axis],
                        .outer = flat ? 1 : tn__operand_span(data, 0, axis),
                        .inner = flat ? 1 : tn__operand_span(data, axis + 1, data->rank)};
    TN_TRY(tn__call_scratch(call, 4 * sizeof(int64_t) * (uint64_t)of.count));
    int64_t *order = call->workspace, *leader = order + of.count, *group = leader + of.count;
    for (int64_t i = 0; i < of.count; i++) order[i] = i;
    tn__sort(order, leader, of.count, unique_before, &of);
    int64_t *entry = group + of.count;
    int64_t found = unique_groups(&of, sorted, order, leader, group, entry);
    if (!flat) memcpy(shape, data->shape, data->rank * sizeof *shape);
    return unique_write(call, &of, flat ? 1 : data->rank, shape, axis, entry, group, found);
}

static uint64_t unique_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *data = tn__setup_input(setup, 0);
    uint64_t count = tn__setup_count(data), most = 0;
    if (data == NULL || data->rank > TN_RANK_MAX) return 0;
    /* slices may be empty, so an axis may have more slices than the tensor has elements */
    for (uint32_t d = 0; d < data->rank; d++)
        if (data->shape[d] > 0 && (uint64_t)data->shape[d] > most) most = (uint64_t)data->shape[d];
    return tn__mul_sat(count > most ? count : most, 4 * sizeof(int64_t));
}

/* --- NonZero: one column of indices per element that is not 0 ------------------------------------
 */

static bool unique_is_zero(tn_dtype dtype, const char *element, uint32_t width) {
    static const char nought[16];
    if (tn__is_real(dtype)) return tn__load(dtype, element) == 0;
    return memcmp(element, nought, width) == 0;
}

static tn_status unique_nonzero(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0];
    uint32_t rank = data->rank ? data->rank : 1, width = tn__width(data->dtype);
    uint64_t count = tn__operand_count(data), column = 0;
    int64_t shape[2] = {rank, 0}, *to = call->outputs[0].data;
    const char *from = data->data;
    tn__walk walk = {.rank = data->rank};
    for (uint32_t d = 0; d < data->rank; d++) walk.extent[d] = data->shape[d];
    for (uint64_t i = 0; i < count; i++)
        shape[1] += !unique_is_zero(data->dtype, from + i * width, width);
    TN_TRY(tn__call_shape(call, 0, 2, shape));
    for (uint64_t i = 0; i < count; i++) {
        if (!unique_is_zero(data->dtype, from + i * width, width)) {
            for (uint32_t d = 0; d < rank; d++) to[d * (uint64_t)shape[1] + column] = walk.place[d];
            column++;
        }
        tn__walk_next(&walk);
    }
    return TN_OK;
}

/* --- TopK ---
 *
 * A heap has the k best elements found so far, with the worst of them at its root. At the end the
 * heap is emptied in order. NaN counts as the largest number.
 * Cost: O(n log k), and 16 k bytes of scratch memory.
 */

typedef struct rank_entry {
    uint64_t key; /* entries with a larger key are better */
    int64_t place;
} rank_entry;

static bool rank_worse(const rank_entry *a, const rank_entry *b) {
    return a->key != b->key ? a->key < b->key : a->place > b->place;
}

TN__HEAP(rank_heap, rank_entry, rank_worse)

/* Finds the k best of a line of elements, which are `stride` bytes apart. Afterwards `heap`
 * contains them with the best first. */
static void rank_line(rank_entry *heap, uint64_t k, const char *line, uint64_t extent,
                      uint64_t stride, tn_dtype dtype, bool largest) {
    for (uint64_t i = 0; i < extent; i++) {
        uint64_t key = tn__order_key(dtype, line + i * stride);
        rank_entry entry = {largest ? key : ~key, (int64_t)i};
        if (i < k)
            rank_heap_push(heap, i, entry);
        else if (rank_worse(&heap[0], &entry))
            rank_heap_sink(heap, k, 0, entry);
    }
    for (uint64_t left = k; left > 1; left--) heap[left - 1] = rank_heap_pop(heap, left);
}

static tn_status rank_top_k(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0];
    uint32_t axis, count, width = tn__width(data->dtype);
    int64_t given = 0, shape[TN_RANK_MAX];
    bool some, largest = tn__attr_int(call->op, "largest", 1) != 0;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", -1), data->rank, &axis));
    TN_TRY(tn__call_list(call, 1, "k", 1, &given, &count, &some));
    memcpy(shape, data->shape, data->rank * sizeof *shape);
    if (count != 1 || given < 0 || given > shape[axis])
        return tn__call_fail(call, TN_E_INVALID, "k is %lld of %lld elements", (long long)given,
                             (long long)shape[axis]);
    shape[axis] = given;
    TN_TRY(tn__call_shape(call, 0, data->rank, shape));
    TN_TRY(tn__call_shape(call, 1, data->rank, shape));
    uint64_t k = (uint64_t)given, extent = (uint64_t)data->shape[axis];
    TN_TRY(tn__call_scratch(call, k * sizeof(rank_entry)));
    uint64_t outer = tn__operand_span(data, 0, axis);
    uint64_t inner = tn__operand_span(data, axis + 1, data->rank), stride = inner * width;
    tn_operand *values = tn__call_output(call, 0), *places = tn__call_output(call, 1);
    rank_entry *heap = call->workspace;
    for (uint64_t o = 0; o < outer && k > 0; o++)
        for (uint64_t i = 0; i < inner; i++) {
            const char *line = (const char *)data->data + o * extent * stride + i * width;
            rank_line(heap, k, line, extent, stride, data->dtype, largest);
            for (uint64_t j = 0; j < k; j++) {
                uint64_t to = (o * k + j) * inner + i;
                if (values != NULL)
                    tn__move((char *)values->data + to * width,
                             line + (uint64_t)heap[j].place * stride, width);
                if (places != NULL) ((int64_t *)places->data)[to] = heap[j].place;
            }
        }
    return TN_OK;
}

/* Returns the scratch bytes of TopK: as many heap entries as the output can have elements along the
 * axis. */
static uint64_t rank_top_k_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *to = tn__setup_output(setup, 0);
    if (to == NULL) to = tn__setup_output(setup, 1);
    if (to == NULL || to->rank > TN_RANK_MAX) return 0;
    int64_t axis = tn__attr_int(setup->op, "axis", -1);
    if (axis < 0) axis += to->rank;
    if (axis < 0 || axis >= (int64_t)to->rank || to->shape[axis] < 0) return 0;
    return tn__mul_sat((uint64_t)to->shape[axis], sizeof(rank_entry));
}

/* --- NonMaxSuppression ---
 *
 * For each class, the boxes are visited in the order of falling scores. A box is selected unless it
 * overlaps a selected box of its class too much. The selected boxes are read from the output.
 * Cost: O(n log n + n * selected) per class.
 */

typedef struct rank_box {
    double top, left, bottom, right;
} rank_box;

static rank_box rank_read_box(const tn_operand *boxes, uint64_t index, bool center) {
    double v[4];
    for (uint32_t i = 0; i < 4; i++) v[i] = tn__operand_float(boxes, 4 * index + i);
    if (center) /* the four numbers are center x, center y, width, height */
        return (rank_box){v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
    return (rank_box){v[0] < v[2] ? v[0] : v[2], v[1] < v[3] ? v[1] : v[3],
                      v[0] < v[2] ? v[2] : v[0], v[1] < v[3] ? v[3] : v[1]};
}

/* Whether the intersection of two boxes is larger than `limit` times their union. */
static bool rank_overlaps(rank_box a, rank_box b, double limit) {
    double top = a.top > b.top ? a.top : b.top, left = a.left > b.left ? a.left : b.left;
    double bottom = a.bottom < b.bottom ? a.bottom : b.bottom;
    double right = a.right < b.right ? a.right : b.right;
    if (!(bottom > top && right > left)) return false;
    double both = (bottom - top) * (right - left);
    double all = (a.bottom - a.top) * (a.right - a.left) + (b.bottom - b.top) * (b.right - b.left);
    return both > limit * (all - both);
}

typedef struct rank_nms {
    const tn_operand *boxes, *scores;
    bool center;
    uint64_t extent; /* number of boxes in each batch entry */
    /* index of the first score of the current class, and of the first box of the current batch
     * entry */
    uint64_t score, batch;
    /* `overlap`: limit of the overlap; `least`: only boxes with larger scores are considered */
    double overlap, least;
    bool has_least;
} rank_nms;

static bool rank_scores_more(const void *self, int64_t a, int64_t b) {
    const rank_nms *nms = self;
    return tn__operand_float(nms->scores, nms->score + (uint64_t)a) >
           tn__operand_float(nms->scores, nms->score + (uint64_t)b);
}

/* Selects at most `most` boxes of one class of a batch entry and writes (batch, class, box) for
 * each to `rows`, which has space for `room` of them. Returns the number of selected boxes. If more
 * than `room` would be selected, returns `room` + 1. */
static int64_t rank_suppress(const rank_nms *nms, int64_t *order, int64_t *spare, int64_t most,
                             int64_t room, int64_t batch, int64_t class, int64_t *rows) {
    int64_t count = 0, kept = 0;
    for (uint64_t i = 0; i < nms->extent; i++) {
        double score = tn__operand_float(nms->scores, nms->score + i);
        if (!nms->has_least || score > nms->least) order[count++] = (int64_t)i;
    }
    tn__sort(order, spare, count, rank_scores_more, nms);
    for (int64_t i = 0; i < count && kept < most; i++) {
        rank_box box = rank_read_box(nms->boxes, nms->batch + (uint64_t)order[i], nms->center);
        bool free = true;
        for (int64_t k = 0; k < kept && free; k++) {
            uint64_t other = nms->batch + (uint64_t)rows[3 * k + 2];
            free = !rank_overlaps(rank_read_box(nms->boxes, other, nms->center), box, nms->overlap);
        }
        if (!free) continue;
        if (kept == room) return kept + 1;
        rows[3 * kept] = batch;
        rows[3 * kept + 1] = class;
        rows[3 * kept++ + 2] = order[i];
    }
    return kept;
}

static double rank_scalar(const tn_kernel_call *call, uint32_t index, double otherwise) {
    const tn_operand *operand = tn__call_input(call, index);
    return operand != NULL && tn__operand_count(operand) > 0 ? tn__operand_float(operand, 0)
                                                             : otherwise;
}

static tn_status rank_nms_run(tn_kernel_call *call) {
    rank_nms nms = {.boxes = &call->inputs[0], .scores = &call->inputs[1]};
    const int64_t *boxes = nms.boxes->shape, *scores = nms.scores->shape;
    if (nms.boxes->rank != 3 || nms.scores->rank != 3 || boxes[2] != 4 || boxes[0] != scores[0] ||
        boxes[1] != scores[2])
        return tn__call_fail(call, TN_E_INVALID,
                             "boxes must be [batch, n, 4], scores [batch, classes, n]");
    const tn_operand *limit = tn__call_input(call, 2);
    int64_t most = limit != NULL && tn__operand_count(limit) ? tn__index(limit, 0) : 0;
    nms.center = tn__attr_int(call->op, "center_point_box", 0) != 0;
    nms.overlap = rank_scalar(call, 3, 0);
    nms.has_least = tn__call_input(call, 4) != NULL;
    nms.least = rank_scalar(call, 4, 0);
    nms.extent = (uint64_t)boxes[1];
    TN_TRY(tn__call_scratch(call, 2 * sizeof(int64_t) * nms.extent));
    int64_t *order = call->workspace, *rows = call->outputs[0].data, found = 0;
    int64_t room = (int64_t)(call->outputs[0].room / (3 * sizeof(int64_t)));
    if (most > boxes[1]) most = boxes[1];
    for (int64_t b = 0; b < scores[0]; b++)
        for (int64_t c = 0; c < scores[1] && most > 0; c++) {
            nms.batch = (uint64_t)b * nms.extent;
            nms.score = (uint64_t)(b * scores[1] + c) * nms.extent;
            found += rank_suppress(&nms, order, order + nms.extent, most, room - found, b, c,
                                   rows + 3 * found);
            if (found > room)
                return tn__call_fail(call, TN_E_INVALID, "more than %lld boxes are selected",
                                     (long long)room);
        }
    int64_t shape[2] = {found, 3};
    return tn__call_shape(call, 0, 2, shape);
}

static uint64_t rank_nms_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *boxes = tn__setup_input(setup, 0);
    bool known = boxes != NULL && boxes->rank == 3 && boxes->shape[1] > 0;
    return known ? tn__mul_sat((uint64_t)boxes->shape[1], 2 * sizeof(int64_t)) : 0;
}

static const tn_kernel find_kernels[] = {
    {.type = "NonZero", .accepts = tn__accepts_numbers, .run = unique_nonzero},
    {.type = "Unique",
     .accepts = tn__accepts_numbers,
     .workspace = unique_workspace,
     .run = unique_run},
    {.type = "NonMaxSuppression",
     .accepts = tn__accepts_numbers,
     .workspace = rank_nms_workspace,
     .run = rank_nms_run},
    {.type = "TopK",
     .accepts = tn__accepts_numbers,
     .workspace = rank_top_k_workspace,
     .run = rank_top_k},
};

TN_KERNEL_FAMILY(find, "");
