/* sequence.c - lists of tensors and optional values.
 *
 * A sequence is the shape of one element and the number of elements; elements of different extents
 * are described by the largest of each, as an upper bound. Elements of different ranks have no
 * shape in common, so the size is then not known.
 * Source: operator texts of ONNX, opsets 11 to 21.
 */
#include "graph/rules/fold.h"

/* Extends `shape`, `rank` and *bound so that they describe one more element of the sequence. */
static void sequence_cover(const tn_tensor *element, int64_t *shape, uint32_t *rank, bool *bound) {
    if (element->flags & TN_TENSOR_BOUND) *bound = true;
    if (element->rank != *rank) *rank = TN_RANK_UNKNOWN;
    for (uint32_t d = 0; *rank != TN_RANK_UNKNOWN && d < *rank; d++) {
        int64_t a = shape[d], b = element->shape[d];
        if (a == b) continue;
        shape[d] = a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN ? TN_DIM_UNKNOWN : a > b ? a : b;
        *bound = true;
    }
}

static void sequence_first(const tn_tensor *element, int64_t *shape, uint32_t *rank) {
    *rank = element->rank;
    if (tn__rank_known(element) && element->rank)
        memcpy(shape, element->shape, element->rank * sizeof *shape);
}

static tn_status sequence_set(tn_infer *infer, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                              uint64_t repeat, bool bound) {
    TN_TRY(tn__set_sequence(infer, 0, dtype, rank, shape, repeat));
    if (bound && rank != TN_RANK_UNKNOWN) tn__set_bound(infer, 0);
    return TN_OK;
}

static tn_status sequence_construct(tn_infer *infer) {
    int64_t shape[TN_RANK_MAX];
    uint32_t rank;
    bool bound = false;
    sequence_first(tn__input(infer, 0), shape, &rank);
    for (uint32_t i = 0; i < tn__input_count(infer); i++) {
        if (!tn__input(infer, i)) return tn__infer_fail(infer, "input %u is omitted", i);
        sequence_cover(tn__input(infer, i), shape, &rank, &bound);
    }
    return sequence_set(infer, tn__input(infer, 0)->dtype, rank, shape, tn__input_count(infer),
                        bound);
}

static tn_status sequence_empty(tn_infer *infer) {
    tn_dtype dtype;
    TN_TRY(tn__attr_dtype(infer, "dtype", TN_FLOAT32, &dtype));
    return tn__set_sequence(infer, 0, dtype, TN_RANK_UNKNOWN, NULL, 0);
}

static tn_status sequence_insert(tn_infer *infer) {
    const tn_tensor *list = tn__input(infer, 0), *element = tn__input(infer, 1);
    int64_t shape[TN_RANK_MAX];
    uint32_t rank;
    bool bound = false;
    uint64_t repeat = list->repeat == TN_SIZE_UNKNOWN ? list->repeat : list->repeat + 1;
    sequence_first(element, shape, &rank);
    sequence_cover(element, shape, &rank, &bound);
    if (list->repeat != 0) sequence_cover(list, shape, &rank, &bound);
    return sequence_set(infer, element->dtype, rank, shape, repeat, bound);
}

static tn_status sequence_erase(tn_infer *infer) {
    const tn_tensor *list = tn__input(infer, 0);
    if (list->repeat == 0) return tn__infer_fail(infer, "'%.80s' is empty", list->name);
    uint64_t repeat = list->repeat == TN_SIZE_UNKNOWN ? list->repeat : list->repeat - 1;
    return tn__set_sequence(infer, 0, list->dtype, list->rank, list->shape, repeat);
}

static tn_status sequence_at(tn_infer *infer) {
    const tn_tensor *list = tn__input(infer, 0);
    if (list->rank == TN_RANK_UNKNOWN) return tn__set_dtype(infer, 0, list->dtype);
    return tn__set_output(infer, 0, list->dtype, list->rank, list->shape);
}

static tn_status sequence_length(tn_infer *infer) {
    return tn__set_output(infer, 0, TN_INT64, 0, NULL);
}

static tn_status sequence_length_fold(tn_infer *infer) {
    const tn_tensor *list = tn__input(infer, 0);
    int64_t length = (int64_t)list->repeat;
    /* in a block, a carried sequence has the length that it has before the last iteration, so the
     * length is not a known value there */
    if (list->repeat > INT64_MAX || !(list->flags & TN_TENSOR_SEQUENCE) || infer->op->block)
        return TN_OK;
    return tn__set_value_ints(infer, 0, &length, 1);
}

/* --- conversions between tensors and sequences --- */

/* Reads the sizes of a split along the axis: the number of parts, the largest size, and whether
 * sizes differ (*uneven). Returns false if they are unknown. */
static bool sequence_pieces(const tn_infer *infer, int64_t extent, uint64_t *pieces,
                            int64_t *largest, bool *uneven) {
    uint32_t count;
    const tn_tensor *split = tn__input(infer, 1);
    const int64_t *sizes = tn__value_ints(infer, 1, &count);
    *uneven = false;
    if (split && !sizes) return false;
    /* a single size applies to all parts; without sizes each part has extent 1 */
    if (!split || split->rank == 0) {
        int64_t size = split && count ? sizes[0] : 1;
        if (extent == TN_DIM_UNKNOWN || size <= 0) return false;
        *pieces = (uint64_t)(extent / size + (extent % size != 0));
        *largest = size < extent ? size : extent;
        *uneven = extent % size != 0 && extent > size;
        return true;
    }
    *pieces = count;
    *largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        *uneven |= sizes[i] != sizes[0];
        if (sizes[i] > *largest) *largest = sizes[i];
    }
    return true;
}

/* Whether the split axis is removed from the elements. The standard ignores `keepdims` where sizes
 * are given. ONNX Runtime removes the axis for a scalar size of 1 as well, and PyTorch's exporter
 * relies on that. */
static tn_status sequence_drops(tn_infer *infer, bool *drop) {
    const tn_tensor *split = tn__input(infer, 1);
    uint32_t count;
    const int64_t *sizes = tn__value_ints(infer, 1, &count);
    *drop = tn__attr_int(infer->op, "keepdims", 1) == 0;
    if (split == NULL) return TN_OK;
    bool scalar = tn__rank_known(split) && split->rank == 0 && sizes != NULL && count == 1;
    if (scalar && sizes[0] < 1)
        return tn__infer_fail(infer, "the size of a part is %lld", (long long)sizes[0]);
    *drop = *drop && scalar && sizes[0] == 1;
    return TN_OK;
}

static tn_status sequence_split(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX], largest = TN_DIM_UNKNOWN;
    uint32_t axis, rank = 0;
    uint64_t pieces = TN_SIZE_UNKNOWN;
    bool uneven;
    if (!tn__rank_known(input))
        return tn__set_sequence(infer, 0, input->dtype, TN_RANK_UNKNOWN, NULL, TN_SIZE_UNKNOWN);
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), input->rank, &axis));
    bool known = sequence_pieces(infer, input->shape[axis], &pieces, &largest, &uneven);
    bool drop;
    TN_TRY(sequence_drops(infer, &drop));
    for (uint32_t d = 0; d < input->rank; d++) {
        if (d == axis && drop) continue;
        shape[rank++] = d != axis ? input->shape[d] : known ? largest : TN_DIM_UNKNOWN;
    }
    return sequence_set(infer, input->dtype, rank, shape, known ? pieces : TN_SIZE_UNKNOWN,
                        known && uneven);
}

static tn_status sequence_concat(tn_infer *infer) {
    const tn_tensor *list = tn__input(infer, 0);
    bool stack = tn__attr_int(infer->op, "new_axis", 0) != 0;
    int64_t shape[TN_RANK_MAX + 1];
    uint32_t axis, rank = list->rank + stack;
    if (!tn__attr(infer->op, "axis")) return tn__infer_fail(infer, "attribute axis is missing");
    if (!tn__rank_known(list) || rank > TN_RANK_MAX) return tn__set_dtype(infer, 0, list->dtype);
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), rank, &axis));
    for (uint32_t d = 0; d < list->rank; d++)
        shape[stack && d >= axis ? d + 1 : d] = list->shape[d];
    if (stack) shape[axis] = 1;
    if (list->repeat > INT64_MAX)
        shape[axis] = TN_DIM_UNKNOWN;
    else if (shape[axis] != TN_DIM_UNKNOWN &&
             __builtin_mul_overflow(shape[axis], (int64_t)list->repeat, &shape[axis]))
        return tn__infer_fail(infer, "the extents along axis %u overflow", axis);
    return tn__set_output(infer, 0, list->dtype, rank, shape);
}

/* --- optional values --- */

static tn_status sequence_same(tn_infer *infer) {
    /* the output has type and shape of the input; without an input (an empty Optional) they stay
     * unknown */
    return tn__set_like(infer, 0, tn__input(infer, 0));
}

static tn_status sequence_truth(tn_infer *infer) {
    return tn__set_output(infer, 0, TN_BOOL, 0, NULL);
}

/* An Optional has an element if the file gives it one. Of an operand that the run gives, that is
 * not known before. */
static tn_status sequence_fold_truth(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const tn_op *maker = input != NULL && input->producer != TN_NONE
                             ? tn_graph_op(infer->graph, input->producer)
                             : NULL;
    bool made = maker != NULL && strcmp(maker->type, "Optional") == 0;
    bool filled = made && maker->input_count > 0 && maker->inputs[0] != TN_NONE;
    const int64_t truth = filled;
    return input == NULL || made ? tn__set_value_ints(infer, 0, &truth, 1) : TN_OK;
}

static tn_view sequence_view(tn_infer *infer, uint32_t output) {
    return output ? tn__no_view : tn__view_input(infer, 0, 0);
}

/* clang-format off */
#define SEQUENCE(name, least, most, rule) .type = #name, .inputs_min = least, .inputs_max = most,  \
    .outputs_max = 1, .shape = rule
static const tn_op_rule sequence_rules[] = {
    {SEQUENCE(ConcatFromSequence, 1, 1, sequence_concat)},
    {SEQUENCE(Optional, 0, 1, sequence_same), .view = sequence_view},
    {SEQUENCE(OptionalGetElement, 1, 1, sequence_same), .view = sequence_view},
    {SEQUENCE(OptionalHasElement, 0, 1, sequence_truth), .fold = sequence_fold_truth},
    {SEQUENCE(SequenceAt, 2, 2, sequence_at)},
    {SEQUENCE(SequenceConstruct, 1, UINT32_MAX, sequence_construct)},
    {SEQUENCE(SequenceEmpty, 0, 0, sequence_empty), .flags = TN_RULE_CONSTANT},
    {SEQUENCE(SequenceErase, 1, 2, sequence_erase)},
    {SEQUENCE(SequenceInsert, 2, 3, sequence_insert)},
    {SEQUENCE(SequenceLength, 1, 1, sequence_length), .fold = sequence_length_fold,
     .flags = TN_RULE_SHAPE_ONLY},
    {SEQUENCE(SplitToSequence, 1, 2, sequence_split)},
};
/* clang-format on */

TN_OP_FAMILY(sequence, "");
