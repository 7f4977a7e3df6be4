/* unique.c - Unique and NonZero: outputs as long as the data say.
 *
 * Unique sorts the elements (or the slices along an axis) by value, ties by place, so that the
 * first of each run of equals is its first occurrence. Entries are then in the order of values, or,
 * with sorted = 0, of first occurrences. NaNs are equal to each other and come last.
 *
 * Cost:   O(n log n) comparisons, 4 n numbers of scratch for n elements or slices.
 * Source: operator texts of ONNX, opsets 9 to 13.
 */
#include "engine/kernels/box.h"

/* --- Unique --- */

typedef struct unique_slices {
    const char *data;
    tn_dtype dtype;
    uint32_t width;
    int64_t count;         /* slices */
    uint64_t outer, inner; /* elements of a slice: outer x inner */
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

/* From the sorted `order`: `group` [count] says which entry each slice became, `entry` [found] the
 * slice of each entry. `leader` is scratch. */
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
    for (uint32_t d = 0; d < data->rank; d++) /* empty slices are slices, too */
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

static const tn_kernel unique_kernels[] = {
    {.type = "NonZero", .accepts = tn__accepts_numbers, .run = unique_nonzero},
    {.type = "Unique",
     .accepts = tn__accepts_numbers,
     .workspace = unique_workspace,
     .run = unique_run},
};

TN_KERNEL_FAMILY(unique, "");
