/* create.c - operators that create tensors: Constant, ConstantOfShape, EyeLike, Range, Shape, Size,
 * OneHot.
 *
 * Shape and Size read only extents: if the shape of the input is an upper bound, their own shape is
 * exact and their values are bounds.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include <math.h>

#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/rules/range.h"

/* --- Constant --- */

static const tn_attr *create_constant_attr(const tn_infer *infer) {
    for (uint32_t i = 0; i < infer->op->attr_count; i++)
        if (!strncmp(infer->op->attrs[i].name, "value", 5) ||
            !strcmp(infer->op->attrs[i].name, "sparse_value"))
            return &infer->op->attrs[i];
    return NULL;
}

static tn_status create_constant(tn_infer *infer) {
    const tn_attr *attr = create_constant_attr(infer);
    if (!attr) return tn__infer_fail(infer, "it has no value");
    int64_t count = attr->count;
    switch (attr->type) {
    case TN_ATTR_TENSOR:
        return tn__set_like(infer, 0, tn_graph_tensor(infer->graph, attr->tensor));
    case TN_ATTR_INT:
        return tn__set_output(infer, 0, TN_INT64, 0, NULL);
    case TN_ATTR_INTS:
        return tn__set_output(infer, 0, TN_INT64, 1, &count);
    case TN_ATTR_FLOAT:
        return tn__set_output(infer, 0, TN_FLOAT32, 0, NULL);
    case TN_ATTR_FLOATS:
        return tn__set_output(infer, 0, TN_FLOAT32, 1, &count);
    case TN_ATTR_STRING:
        return tn__set_output(infer, 0, TN_STRING, 0, NULL);
    case TN_ATTR_STRINGS:
        return tn__set_output(infer, 0, TN_STRING, 1, &count);
    default:
        return TN_OK;
    }
}

static tn_status create_fold_constant(tn_infer *infer) {
    const tn_attr *attr = create_constant_attr(infer);
    if (!attr) return TN_OK;
    if (attr->type == TN_ATTR_TENSOR) {
        const tn_value *value = tn_graph_tensor(infer->graph, attr->tensor)->value;
        if (!value) return TN_OK;
        return value->ints ? tn__set_value_ints(infer, 0, value->ints, value->count)
                           : tn__set_value_floats(infer, 0, value->floats, value->count);
    }
    if (attr->ints) return tn__set_value_ints(infer, 0, attr->ints, attr->count);
    if (attr->floats) return tn__set_value_floats(infer, 0, attr->floats, attr->count);
    return TN_OK;
}

/* The output of a Constant is a view of the tensor in its attribute. */
static tn_view create_constant_view(tn_infer *infer, uint32_t output) {
    const tn_attr *attr = create_constant_attr(infer);
    if (output || !attr || attr->type != TN_ATTR_TENSOR) return tn__no_view;
    return (tn_view){.source = attr->tensor, .must = true};
}

/* --- ConstantOfShape ----------------------------------------------------------------------------
 */

static tn_status create_of_shape(tn_infer *infer) {
    const tn_attr *attr = tn__attr(infer->op, "value");
    tn_dtype dtype = attr && attr->type == TN_ATTR_TENSOR
                         ? tn_graph_tensor(infer->graph, attr->tensor)->dtype
                         : TN_FLOAT32;
    uint32_t count;
    const int64_t *shape = tn__value_ints(infer, 0, &count);
    if (shape && count > TN_RANK_MAX) return tn__infer_fail(infer, "a shape of %u extents", count);
    for (uint32_t i = 0; shape && i < count; i++)
        if (shape[i] < 0)
            return tn__infer_fail(infer, "extent %u of the shape is %lld", i, (long long)shape[i]);
    if (shape) return tn__set_output(infer, 0, dtype, count, shape);
    uint32_t rank = tn__list_length(tn__input(infer, 0));
    if (rank == TN_NONE) return tn__set_dtype(infer, 0, dtype);
    return tn__set_output(infer, 0, dtype, rank, tn__unknown_extents);
}

static tn_status create_fold_of_shape(tn_infer *infer) {
    static const double zero = 0;
    const tn_value nought = {1, NULL, &zero};
    const tn_value *value =
        tn__attr(infer->op, "value") ? tn__attr_tensor_value(infer, "value") : &nought;
    uint32_t count = tn__fold_count(infer, 0);
    if (count == TN_NONE || !value || value->count != 1) return TN_OK;
    /* zero-initialised: all elements are taken from element 0 */
    uint32_t *pick = tn__scratch(infer, (size_t)count + 1, sizeof *pick);
    return pick ? tn__fold_pick(infer, 0, value, pick, count) : tn__infer_no_memory(infer);
}

/* --- EyeLike, OneHot --- */

static tn_status create_eye_like(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    tn_dtype dtype;
    TN_TRY(tn__attr_dtype(infer, "dtype", input->dtype, &dtype));
    if (!tn__rank_known(input)) return tn__set_output(infer, 0, dtype, 2, tn__unknown_extents);
    if (input->rank != 2)
        return tn__infer_fail(infer, "'%.80s' has rank %u, not 2", input->name, input->rank);
    return tn__set_output(infer, 0, dtype, 2, input->shape);
}

static tn_status create_one_hot(tn_infer *infer) {
    const tn_tensor *indices = tn__input(infer, 0);
    tn_dtype dtype = tn__input(infer, 2)->dtype;
    int64_t shape[TN_RANK_MAX];
    uint32_t axis;
    if (!tn__rank_known(indices) || indices->rank == TN_RANK_MAX)
        return tn__set_dtype(infer, 0, dtype);
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", -1), indices->rank + 1, &axis));
    const tn_value *depth = tn__value(infer, 1); /* the depth may have any number type */
    for (uint32_t i = 0; i < indices->rank; i++) shape[i < axis ? i : i + 1] = indices->shape[i];
    shape[axis] = TN_DIM_UNKNOWN;
    if (depth && depth->count == 1) {
        double extent = tn__value_at(depth, 0);
        if (!(extent >= 0 && extent < 0x1p62))
            return tn__infer_fail(infer, "a depth of %g", extent);
        shape[axis] = (int64_t)extent;
    }
    return tn__set_output(infer, 0, dtype, indices->rank + 1, shape);
}

/* --- Range --- */

/* The number of elements of a Range; TN_DIM_UNKNOWN on overflow. */
static int64_t create_range_extent(const tn_op *op, const tn_value *const values[3],
                                   tn_dtype dtype) {
    bool ints = values[0]->ints && values[1]->ints && values[2]->ints;
    bool floats = values[0]->floats && values[1]->floats && values[2]->floats;
    int64_t count = -1;
    if (floats)
        count = tn__range_floats(tn__range_in(op, dtype), values[0]->floats[0],
                                 values[1]->floats[0], values[2]->floats[0]);
    if (ints) count = tn__range_ints(values[0]->ints[0], values[1]->ints[0], values[2]->ints[0]);
    return count < 0 ? TN_DIM_UNKNOWN : count;
}

static bool create_range_inputs(const tn_infer *infer, const tn_value *values[3]) {
    for (uint32_t i = 0; i < 3; i++) {
        values[i] = tn__value(infer, i);
        if (!values[i] || values[i]->count != 1) return false;
    }
    return true;
}

static tn_status create_range(tn_infer *infer) {
    tn_dtype dtype = tn__input(infer, 0)->dtype;
    const tn_value *values[3];
    int64_t extent = TN_DIM_UNKNOWN;
    if (create_range_inputs(infer, values)) {
        double step = tn__value_at(values[2], 0);
        if (step == 0) return tn__infer_fail(infer, "the delta is 0");
        bool falls_with_limit =
            step < 0 && (tn__value_is_bound(infer, 0) || tn__value_is_bound(infer, 1));
        if (!falls_with_limit) extent = create_range_extent(infer->op, values, dtype);
    }
    return tn__set_output(infer, 0, dtype, 1, &extent);
}

static tn_status create_fold_range(tn_infer *infer) {
    const tn_value *values[3];
    uint32_t count = tn__fold_count(infer, 0);
    if (count == TN_NONE || !create_range_inputs(infer, values)) return TN_OK;
    tn_dtype dtype = tn__output(infer, 0)->dtype;
    if (values[0]->ints && values[2]->ints) {
        int64_t *ints = tn__scratch(infer, (size_t)count + 1, sizeof *ints);
        if (!ints) return tn__infer_no_memory(infer);
        /* the sum stays within the limit of the Range, so it does not overflow */
        for (uint32_t i = 0; i < count; i++)
            ints[i] = values[0]->ints[0] + (int64_t)i * values[2]->ints[0];
        return tn__set_value_ints(infer, 0, ints, count);
    }
    double *floats = tn__scratch(infer, (size_t)count + 1, sizeof *floats);
    if (!floats) return tn__infer_no_memory(infer);
    if (values[0]->ints || values[2]->ints) return TN_OK;
    tn_dtype in = tn__range_in(infer->op, dtype);
    for (uint32_t i = 0; i < count; i++)
        floats[i] =
            tn__round(dtype, tn__range_at(in, values[0]->floats[0], values[2]->floats[0], i));
    return tn__set_value_floats(infer, 0, floats, count);
}

/* --- Shape, Size --------------------------------------------------------------------------------
 */

/* The axes [*first, *last) of the extents that Shape returns; since opset 15 this may be a part of
 * them. */
static void create_shape_span(const tn_infer *infer, uint32_t rank, uint32_t *first,
                              uint32_t *last) {
    int64_t size = rank,
            limits[2] = {tn__attr_int(infer->op, "start", 0), tn__attr_int(infer->op, "end", size)};
    for (uint32_t i = 0; i < 2; i++) {
        if (limits[i] < 0) limits[i] += size;
        limits[i] = limits[i] < 0 ? 0 : limits[i] > size ? size : limits[i];
    }
    *first = (uint32_t)limits[0];
    *last = limits[1] > limits[0] ? (uint32_t)limits[1] : *first;
}

static tn_status create_shape(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    int64_t extent = TN_DIM_UNKNOWN;
    if (tn__rank_known(input)) {
        uint32_t first, last;
        create_shape_span(infer, input->rank, &first, &last);
        extent = (int64_t)last - first;
    }
    return tn__set_output(infer, 0, TN_INT64, 1, &extent);
}

static tn_status create_fold_shape(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    uint32_t first, last;
    if (!tn__rank_known(input) || (input->flags & TN_TENSOR_SEQUENCE)) return TN_OK;
    create_shape_span(infer, input->rank, &first, &last);
    for (uint32_t i = first; i < last; i++)
        if (input->shape[i] == TN_DIM_UNKNOWN) return TN_OK;
    static const int64_t none = 0;
    return tn__set_value_ints(infer, 0, last > first ? input->shape + first : &none, last - first);
}

static tn_status create_size(tn_infer *infer) {
    return tn__set_output(infer, 0, TN_INT64, 0, NULL);
}

static tn_status create_fold_size(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    uint64_t elements = tn__elements(input);
    if (elements > INT64_MAX || (input->flags & TN_TENSOR_SEQUENCE)) return TN_OK;
    int64_t size = (int64_t)elements;
    return tn__set_value_ints(infer, 0, &size, 1);
}

/* clang-format off */
#define CREATE(name, least, most) .type = #name, .inputs_min = least, .inputs_max = most,              .outputs_max = 1
static const tn_op_rule create_rules[] = {
    {CREATE(Constant, 0, 0), .shape = create_constant, .fold = create_fold_constant,
     .view = create_constant_view, .flags = TN_RULE_CONSTANT},
    {CREATE(ConstantOfShape, 1, 1), .shape = create_of_shape, .fold = create_fold_of_shape,
     .monotone = 1},
    {CREATE(EyeLike, 1, 1), .shape = create_eye_like, .gradient = tn__gradient_flat},
    {CREATE(OneHot, 3, 3), .shape = create_one_hot, .flops_per = 1, .monotone = 2},
    {CREATE(Range, 3, 3), .shape = create_range, .fold = create_fold_range, .flops_per = 2,
     .monotone = 2, .antitone = 1},
    {CREATE(Shape, 1, 1), .shape = create_shape, .fold = create_fold_shape,
     .flags = TN_RULE_SHAPE_ONLY},
    {CREATE(Size, 1, 1), .shape = create_size, .fold = create_fold_size,
     .flags = TN_RULE_SHAPE_ONLY},
};
/* clang-format on */

TN_OP_FAMILY(create, "");
