/* select.c - operators with outputs of data-dependent size: NonZero, Compress, Unique; and TopK.
 *
 * If the input's values are unknown, the size is bounded by the number of elements: every element
 * may be selected. The bound is marked as one, and memory is reserved for it.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"

static int64_t select_elements(const tn_tensor *tensor) {
    uint64_t elements = tn__elements(tensor);
    return elements <= INT64_MAX ? (int64_t)elements : TN_DIM_UNKNOWN;
}

/* --- NonZero --- */

static uint32_t select_count(const tn_value *value) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < value->count; i++) found += tn__value_at(value, i) != 0;
    return found;
}

static tn_status select_nonzero(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    int64_t shape[2] = {TN_DIM_UNKNOWN, TN_DIM_UNKNOWN};
    if (tn__rank_known(input)) shape[0] = input->rank ? input->rank : 1;
    shape[1] = value ? (int64_t)select_count(value) : select_elements(input);
    TN_TRY(tn__set_output(infer, 0, TN_INT64, 2, shape));
    if (!value) tn__set_bound_axis(infer, 0, 1);
    return TN_OK;
}

static tn_status select_nonzero_fold(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    uint32_t count = tn__fold_count(infer, 0), column = 0;
    if (!value || count == TN_NONE) return TN_OK;
    uint32_t found = select_count(value);
    int64_t *result = tn__scratch(infer, (size_t)count + 1, sizeof *result);
    if (!result) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < value->count; i++) {
        if (tn__value_at(value, i) == 0) continue;
        int64_t rest = i;
        for (uint32_t d = input->rank; d-- > 0; rest /= input->shape[d])
            result[d * found + column] = rest % input->shape[d];
        column++;
    }
    return tn__set_value_ints(infer, 0, result, count);
}

/* --- Compress --- */

static tn_status select_compress(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0), *condition = tn__input(infer, 1);
    const tn_value *value = tn__value(infer, 1);
    bool flat = !tn__attr(infer->op, "axis");
    uint32_t axis = 0;
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(input)) return tn__set_dtype(infer, 0, input->dtype);
    if (!flat) TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), input->rank, &axis));
    int64_t most = flat ? select_elements(input) : input->shape[axis];
    int64_t flags = select_elements(condition);
    if (flags != TN_DIM_UNKNOWN && (most == TN_DIM_UNKNOWN || flags < most)) most = flags;
    if (!flat) memcpy(shape, input->shape, input->rank * sizeof *shape);
    shape[axis] = value ? (int64_t)select_count(value) : most;
    TN_TRY(tn__set_output(infer, 0, input->dtype, flat ? 1 : input->rank, shape));
    if (!value) tn__set_bound_axis(infer, 0, axis);
    return TN_OK;
}

/* --- Unique --- */

static tn_status select_unique(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    bool flat = !tn__attr(infer->op, "axis");
    uint32_t axis = 0;
    int64_t shape[TN_RANK_MAX], all = TN_DIM_UNKNOWN;
    TN_TRY(tn__set_dtype(infer, 0, input->dtype));
    if (tn__rank_known(input)) {
        if (!flat) TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), input->rank, &axis));
        all = flat ? select_elements(input) : input->shape[axis];
        if (!flat) memcpy(shape, input->shape, input->rank * sizeof *shape);
        shape[axis] = all;
        TN_TRY(tn__set_output(infer, 0, input->dtype, flat ? 1 : input->rank, shape));
    } else if (flat) {
        TN_TRY(tn__set_output(infer, 0, input->dtype, 1, &all));
    }
    for (uint32_t i = 1; i < 4; i++) TN_TRY(tn__set_output(infer, i, TN_INT64, 1, &all));
    tn__set_bound_axis(infer, 0, axis);
    tn__set_bound_axis(infer, 1, 0); /* output 2, the inverse, has one entry per input element */
    tn__set_bound_axis(infer, 3, 0);
    return TN_OK;
}

/* --- TopK --- */

static tn_status select_top_k(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const int64_t *k;
    uint32_t count, axis;
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(input)) {
        TN_TRY(tn__set_dtype(infer, 0, input->dtype));
        return tn__set_dtype(infer, 1, TN_INT64);
    }
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", -1), input->rank, &axis));
    memcpy(shape, input->shape, input->rank * sizeof *shape);
    bool known = tn__list(infer, 1, "k", &k, &count) && k && count == 1;
    bool loose = tn__value_is_bound(infer, 1) || (input->flags & TN_TENSOR_BOUND);
    if (known && k[0] < 0) return tn__infer_fail(infer, "k is %lld", (long long)k[0]);
    if (known && shape[axis] != TN_DIM_UNKNOWN && k[0] > shape[axis] && !loose)
        return tn__infer_fail(infer, "k is %lld, but '%.80s' has %lld elements there",
                              (long long)k[0], input->name, (long long)shape[axis]);
    if (known && (shape[axis] == TN_DIM_UNKNOWN || k[0] < shape[axis])) {
        shape[axis] = k[0];
    } else if (!known && shape[axis] != TN_DIM_UNKNOWN) {
        /* k is unknown, so the extent is an upper bound: at most all elements are selected */
        tn__set_bound_axis(infer, 0, axis);
        tn__set_bound_axis(infer, 1, axis);
    }
    TN_TRY(tn__set_output(infer, 0, input->dtype, input->rank, shape));
    return tn__set_output(infer, 1, TN_INT64, input->rank, shape);
}

static uint64_t select_top_k_flops(tn_infer *infer) {
    uint64_t elements = tn__elements(tn__input(infer, 0));
    /* the cost of a partial sort */
    return elements == TN_SIZE_UNKNOWN ? elements : tn__mul_sat(elements, 10);
}

/* clang-format off */
#define SELECT(name, least, most, outputs) .type = #name, .inputs_min = least, .inputs_max = most, \
    .outputs_max = outputs
static const tn_op_rule select_rules[] = {
    {SELECT(Compress, 2, 2, 1), .shape = select_compress},
    {SELECT(NonZero, 1, 1, 1), .shape = select_nonzero, .fold = select_nonzero_fold},
    {SELECT(TopK, 1, 2, 2), .shape = select_top_k, .flops = select_top_k_flops, .monotone = 2,
     .gradient = tn__gradient_top_k},
    {SELECT(Unique, 1, 1, 4), .shape = select_unique, .flops_per = 10},
};
/* clang-format on */

TN_OP_FAMILY(select, "");
