/* contrib_quant.c - operators on quantised numbers of ONNX Runtime's domain com.microsoft: scales
 * and zero points follow each operand; the result is quantised too, or real.
 *
 * A zero point may be omitted although operands follow it: only input 0 is sure to exist.
 * Source: core/graph/contrib_ops/quantization_defs.cc and docs/ContribOperators.md of ONNX Runtime,
 * 2026.
 */
#include "graph/rules/fold.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

static tn_status quant_needs(tn_infer *infer, uint32_t input) {
    if (tn__input(infer, input) != NULL) return TN_OK;
    return tn__infer_fail(infer, "input %u is omitted; %.40s needs it", input, infer->op->type);
}

static tn_status quant_broadcast(tn_infer *infer, const uint32_t *which, uint32_t count,
                                 tn_dtype dtype) {
    const tn_tensor *tensors[3];
    int64_t shape[TN_RANK_MAX];
    uint32_t rank;
    bool known;
    for (uint32_t i = 0; i < count; i++) {
        TN_TRY(quant_needs(infer, which[i]));
        tensors[i] = tn__input(infer, which[i]);
    }
    TN_TRY(tn__broadcast(infer, tensors, count, shape, &rank, &known));
    return known ? tn__set_output(infer, 0, dtype, rank, shape) : tn__set_dtype(infer, 0, dtype);
}

static tn_status quant_shape_two(tn_infer *infer) {
    return quant_broadcast(infer, (const uint32_t[]){0, 3}, 2, tn__input(infer, 0)->dtype);
}
static tn_status quant_shape_where(tn_infer *infer) {
    TN_TRY(quant_needs(infer, 1));
    return quant_broadcast(infer, (const uint32_t[]){0, 1, 4}, 3, tn__input(infer, 1)->dtype);
}
static tn_status quant_shape_mul_integer(tn_infer *infer) {
    return quant_broadcast(infer, (const uint32_t[]){0, 2}, 2, TN_INT32);
}

/* Sets the shape of a concatenation of the operands 2, 5, 8, ...; between them are scales and zero
 * points. */
static tn_status quant_shape_concat(tn_infer *infer) {
    int64_t shape[TN_RANK_MAX], sum = 0;
    uint32_t axis = 0, rank = TN_RANK_UNKNOWN;
    TN_TRY(quant_needs(infer, 2));
    tn_dtype dtype = tn__input(infer, 2)->dtype;
    for (uint32_t i = 2; i < tn__input_count(infer); i += 3) {
        const tn_tensor *x = tn__input(infer, i);
        TN_TRY(quant_needs(infer, i));
        if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, dtype);
        if (rank == TN_RANK_UNKNOWN) {
            rank = x->rank;
            TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), rank, &axis));
            memcpy(shape, x->shape, rank * sizeof *shape);
        }
        TN_TRY(tn__rank_between(infer, i, rank, rank));
        for (uint32_t d = 0; d < rank; d++) {
            if (d == axis) continue;
            TN_TRY(tn__extents_agree(infer, 2, (int32_t)d, i, (int32_t)d));
            shape[d] = tn__extent_or(shape[d], x->shape[d]);
        }
        sum = tn__extent_add(sum, x->shape[axis]);
    }
    shape[axis] = sum;
    return tn__set_output(infer, 0, dtype, rank, shape);
}

/* --- quantised pools, whose images may have the channels last --- */

static bool quant_channels_last(const tn_infer *infer) {
    return tn__attr_int(infer->op, "channels_last", 0) != 0;
}

static tn_status quant_shape_global(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 3) return tn__infer_fail(infer, "'%.60s' has rank %u", x->name, x->rank);
    uint32_t channels = quant_channels_last(infer) ? x->rank - 1 : 1;
    for (uint32_t d = 0; d < x->rank; d++) shape[d] = d == 0 || d == channels ? x->shape[d] : 1;
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static tn_status quant_shape_pool(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX], pooled[TN_RANK_MAX];
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 3) return tn__infer_fail(infer, "'%.60s' has rank %u", x->name, x->rank);
    if (!quant_channels_last(infer)) {
        TN_TRY(tn__window_pool(infer, x, shape));
        return tn__set_output(infer, 0, x->dtype, x->rank, shape);
    }
    tn_tensor first = *x; /* the shape of the image, reordered so that channels come first */
    shape[0] = x->shape[0];
    shape[1] = x->shape[x->rank - 1];
    for (uint32_t d = 2; d < x->rank; d++) shape[d] = x->shape[d - 1];
    first.shape = shape;
    TN_TRY(tn__window_pool(infer, &first, pooled));
    for (uint32_t d = 1; d + 1 < x->rank; d++) shape[d] = pooled[d + 1];
    shape[x->rank - 1] = x->shape[x->rank - 1];
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

/* --- sums --- */

static tn_status quant_reduce(tn_infer *infer, tn_dtype dtype) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count, axis, rank = 0;
    uint64_t reduced = 0;
    const int64_t *axes = tn__attr_ints(infer->op, "axes", &count);
    bool keep = tn__attr_int(infer->op, "keepdims", 1) != 0;
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, dtype);
    for (uint32_t i = 0; i < count; i++) {
        TN_TRY(tn__axis(infer, axes[i], x->rank, &axis));
        reduced |= UINT64_C(1) << axis;
    }
    for (uint32_t d = 0; d < x->rank; d++) {
        bool gone = count == 0 || (reduced >> d & 1) != 0;
        if (!gone || keep) shape[rank++] = gone ? 1 : x->shape[d];
    }
    return tn__set_output(infer, 0, dtype, rank, shape);
}
static tn_status quant_shape_mean(tn_infer *infer) {
    return quant_reduce(infer, tn__input(infer, 0)->dtype);
}
static tn_status quant_shape_sum(tn_infer *infer) { return quant_reduce(infer, TN_INT32); }

/* --- products --- */

static tn_status quant_shape_dynamic_matmul(tn_infer *infer) {
    return tn__shape_matmul(infer, 0, 1, tn__input(infer, 0)->dtype);
}
static tn_status quant_shape_matmul_to_float(tn_infer *infer) {
    return tn__shape_matmul(infer, 0, 1, tn__input(infer, 2)->dtype);
}
static tn_status quant_shape_matmul16(tn_infer *infer) {
    bool unsigned_both =
        tn__input(infer, 0)->dtype == TN_UINT16 && tn__input(infer, 1)->dtype == TN_UINT16;
    return tn__shape_matmul(infer, 0, 1, unsigned_both ? TN_UINT32 : TN_INT32);
}

/* Sets the shape and type of a quantised product. The type is float if the result has no scale,
 * otherwise that of the result's zero point or, without one, that of operand A. */
static tn_status quant_shape_gemm(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 3), *zero = tn__input(infer, 8);
    TN_TRY(quant_needs(infer, 3));
    TN_TRY(tn__rank_between(infer, 0, 2, 2));
    TN_TRY(tn__rank_between(infer, 3, 2, 2));
    bool flip_a = tn__attr_int(infer->op, "transA", 0) != 0,
         flip_b = tn__attr_int(infer->op, "transB", 0) != 0;
    TN_TRY(tn__extents_agree(infer, 0, flip_a ? 0 : 1, 3, flip_b ? 1 : 0));
    tn_dtype dtype = tn__input(infer, 7) == NULL ? TN_FLOAT32
                     : zero != NULL              ? zero->dtype
                                                 : a->dtype;
    int64_t shape[2] = {tn__extent(a, flip_a ? 1 : 0), tn__extent(b, flip_b ? 0 : 1)};
    return tn__set_output(infer, 0, dtype, 2, shape);
}

static uint64_t quant_flops_inner(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0);
    if (!tn__shape_known(a) || a->rank == 0) return TN_SIZE_UNKNOWN;
    int64_t inner = a->shape[tn__attr_int(infer->op, "transA", 0) != 0 ? 0 : a->rank - 1];
    return tn__count_mul(tn__elements(tn__output(infer, 0)), tn__mul_sat(2, (uint64_t)inner));
}

static uint64_t quant_inplace_two(tn_infer *infer, uint32_t output) {
    return output == 0 ? tn__inplace_broadcast(infer, 1u | 1u << 3) : 0;
}

/* clang-format off */
#define QUANT(name, least, most, rule) .type = #name, .inputs_min = least, .inputs_max = most, \
    .outputs_max = 1, .shape = rule
static const tn_op_rule contrib_quant_rules[] = {
    {QUANT(DequantizeLinear, 2, 3, tn__shape_dequantize), .flops_per = 2, .no_gradient = 2 | 4},
    {QUANT(DynamicQuantizeMatMul, 3, 5, quant_shape_dynamic_matmul), .flops = quant_flops_inner,
     .weights = 2 | 4 | 8 | 16, .flags = TN_RULE_MATMUL_LIKE},
    {QUANT(MatMulInteger16, 2, 2, quant_shape_matmul16), .flops = quant_flops_inner,
     .flags = TN_RULE_MATMUL_LIKE},
    {QUANT(MatMulIntegerToFloat, 4, 7, quant_shape_matmul_to_float), .flops = quant_flops_inner,
     .flags = TN_RULE_MATMUL_LIKE},
    {QUANT(MulInteger, 1, 4, quant_shape_mul_integer), .flops_per = 3},
    {QUANT(QGemm, 1, 9, quant_shape_gemm), .flops = quant_flops_inner, .flags = TN_RULE_MATMUL_LIKE},
    {QUANT(QLinearAdd, 1, 8, quant_shape_two), .flops_per = 6, .inplace_of = quant_inplace_two},
    {QUANT(QLinearAveragePool, 1, 5, quant_shape_pool), .flops_per = 4},
    {QUANT(QLinearConcat, 1, UINT32_MAX, quant_shape_concat), .flops_per = 4},
    {QUANT(QLinearGlobalAveragePool, 1, 5, quant_shape_global), .flops_per = 4},
    {QUANT(QLinearLeakyRelu, 1, 5, tn__shape_first), .flops_per = 5, .inplace = 1,
     .split = tn__split_first},
    {QUANT(QLinearMul, 1, 8, quant_shape_two), .flops_per = 6, .inplace_of = quant_inplace_two},
    {QUANT(QLinearReduceMean, 1, 5, quant_shape_mean), .flops_per = 4},
    {QUANT(QLinearSigmoid, 1, 5, tn__shape_first), .flops_per = 14, .inplace = 1,
     .split = tn__split_first},
    {QUANT(QLinearSoftmax, 1, 5, tn__shape_first), .flops_per = 14},
    {QUANT(QLinearWhere, 1, 9, quant_shape_where), .flops_per = 4},
    {QUANT(QuantizeLinear, 2, 3, tn__shape_quantize), .flops_per = 3, .no_gradient = 2 | 4},
    {QUANT(ReduceSumInteger, 1, 1, quant_shape_sum), .flops_per = 1},
};
/* clang-format on */

TN_OP_FAMILY(contrib_quant, "com.microsoft");
