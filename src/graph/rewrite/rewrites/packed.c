/* packed.c - lets a product read weights in the few bits in which the file stores them.
 *
 *     w (2, 4 or 8 bits), scales, zero points ── DequantizeLinear ── MatMul, Gemm
 *     becomes  x, w, scales, zero points, bias ── PackedMatMul
 *     the same ── DequantizeLinear ── Gather along axis 0
 *     becomes  indices, w, scales, zero points ── PackedGather
 *
 * DequantizeLinear of constants would be computed at set-up, and its float32 result kept: 4 to 16
 * times the stored bytes. PackedMatMul expands a few columns at a time in its scratch memory. The
 * file may hold the matrix transposed, for a Gemm with transB or with a Transpose between. Scales
 * may have 16 bits; a Cast of the result, or of the scales, then goes as well. Several products and
 * Gathers may read the same weights, as an embedding that is also the last matrix, and each expands
 * them for itself. Weights that other operators read too stay as they are, because the whole matrix
 * has to be expanded for them.
 * Cost: O(operators), and again for each reader of weights with several readers.
 */
#include "graph/attr.h"
#include "graph/rewrite/rewrite.h"

static bool packed_is_type(tn_dtype dtype) {
    return dtype == TN_INT8 || dtype == TN_UINT8 || dtype == TN_INT4 || dtype == TN_UINT4 ||
           dtype == TN_INT2 || dtype == TN_UINT2 || dtype == TN_FLOAT4E2M1 ||
           (dtype >= TN_FLOAT8E4M3FN && dtype <= TN_FLOAT8E5M2FNUZ);
}

static bool packed_is_given(const tn__draft *draft, tn_op_id id, uint32_t input) {
    return tn__draft_is_known(draft, tn__draft_input(draft, id, input)) &&
           tn__draft_producer(draft, id, input, NULL) == TN_NONE;
}

/* Returns the scales of a DequantizeLinear as the file has them: the operand, or what a Cast makes
 * the operand of. TN_NONE: they are computed, or no floats. */
static tn_tensor_id packed_scales(const tn__draft *draft, tn_op_id from) {
    tn_tensor_id scales = tn__draft_input(draft, from, 1);
    tn_op_id cast = tn__draft_producer(draft, from, 1, "Cast");
    if (cast == TN_NONE)
        return packed_is_given(draft, from, 1) && tn__draft_is_float(draft, scales) ? scales
                                                                                    : TN_NONE;
    /* a cast to fewer bits would change the scales */
    tn_tensor_id source = tn__draft_input(draft, cast, 0);
    return tn__draft_is_exact(draft, scales) && packed_is_given(draft, cast, 0) &&
                   tn__draft_is_float(draft, source)
               ? source
               : TN_NONE;
}

/* Whether all operands of the DequantizeLinear come from the file, and they are a matrix of a
 * packed type with scales that are floats. */
static bool packed_is_stored(const tn__draft *draft, tn_op_id from) {
    if (!packed_is_given(draft, from, 0) || packed_scales(draft, from) == TN_NONE) return false;
    if (tn__draft_input(draft, from, 2) != TN_NONE && !packed_is_given(draft, from, 2))
        return false;
    const tn_tensor *w = tn__draft_tensor_of(draft, tn__draft_input(draft, from, 0));
    return w->rank == 2 && packed_is_type(w->dtype);
}

/* Whether `row` is a row of floats that a product adds to each of its `columns`. */
static bool packed_is_row(const tn__draft *draft, tn_tensor_id row, int64_t columns) {
    if (!tn__draft_is_static(draft, row) || !tn__draft_is_float(draft, row)) return false;
    const tn_tensor *tensor = tn__draft_tensor_of(draft, row);
    return tensor->rank == 1 && tensor->shape[0] == columns;
}

/* Whether the operator is a product of x and the matrix, without factors, with at most a row as
 * bias. */
static bool packed_is_plain(const tn__draft *draft, tn_op_id id, int64_t columns,
                            tn_tensor_id *bias) {
    const tn_op *op = tn__draft_op_of(draft, id);
    *bias = TN_NONE;
    if (tn__draft_is(draft, id, "MatMul")) return true;
    if (!tn__draft_is(draft, id, "Gemm") || tn__attr_int(op, "transA", 0) != 0 ||
        tn__attr_float(op, "alpha", 1) != 1)
        return false;
    *bias = tn__draft_input(draft, id, 2);
    return *bias == TN_NONE ||
           (tn__attr_float(op, "beta", 1) == 1 && packed_is_row(draft, *bias, columns));
}

/* Whether the operator takes rows of a matrix, its first operand. */
static bool packed_takes_rows(const tn__draft *draft, tn_op_id id) {
    int64_t axis = tn__attr_int(tn__draft_op_of(draft, id), "axis", 0);
    return tn__draft_is(draft, id, "Gather") && (axis == 0 || axis == -2) &&
           tn__draft_input(draft, id, 1) != TN_NONE;
}

/* Whether operator `id` can read its operand `input` as packed weights: it must take rows of its
 * first operand, or be a product without factors, `input` its second operand, and the first operand
 * a tensor of floats that is computed in the run. */
static bool packed_reads(const tn__draft *draft, tn_op_id id, uint32_t input, int64_t columns) {
    tn_tensor_id bias, x = tn__draft_input(draft, id, 0);
    if (input == 0) return packed_takes_rows(draft, id);
    return input == 1 && x != TN_NONE && tn__draft_is_float(draft, x) &&
           !tn__draft_is_static(draft, x) && tn__draft_tensor_of(draft, x)->rank >= 2 &&
           packed_is_plain(draft, id, columns, &bias);
}

/* Whether each reader of an expanded matrix can read the matrix as packed weights instead. */
static bool packed_alone(const tn__draft *draft, tn_tensor_id matrix) {
    const tn__draft_tensor *read = &draft->tensors[matrix];
    if (read->fixed || read->tensor.rank != 2) return false;
    if (read->uses == 1) return true;
    for (tn_op_id id = 0; id < draft->op_count; id++) {
        const tn_op *op = tn__draft_op_of(draft, id);
        for (uint32_t i = 0; i < op->input_count && !draft->ops[id].gone; i++) {
            if (op->inputs[i] != matrix) continue;
            bool turned = tn__attr_int(op, "transB", 0) != 0;
            int64_t columns = tn__draft_tensor_of(draft, matrix)->shape[turned ? 0 : 1];
            if (!packed_reads(draft, id, i, columns)) return false;
        }
    }
    return true;
}

/* Returns the DequantizeLinear whose result is operand `input`, directly or through a Cast to
 * float32; TN_NONE: there is none. */
static tn_op_id packed_behind(const tn__draft *draft, tn_op_id id, uint32_t input) {
    tn_op_id from = tn__draft_producer(draft, id, input, "DequantizeLinear");
    tn_op_id cast = tn__draft_producer(draft, id, input, "Cast");
    if (from != TN_NONE || cast == TN_NONE) return from;
    if (!tn__draft_is_exact(draft, tn__draft_input(draft, id, input))) return TN_NONE;
    return tn__draft_only(draft, cast, 0, "DequantizeLinear");
}

/* Returns the DequantizeLinear that expands operand `input`, possibly before a Transpose, if all
 * readers of the result can read it packed; TN_NONE: there is none. */
static tn_op_id packed_source(const tn__draft *draft, tn_op_id id, uint32_t input,
                              bool *transposed) {
    tn_op_id turn = tn__draft_only(draft, id, input, "Transpose");
    tn_tensor_id matrix = tn__draft_input(draft, id, input);
    *transposed = false;
    if (tn__draft_is(draft, id, "Gemm"))
        *transposed = tn__attr_int(tn__draft_op_of(draft, id), "transB", 0) != 0;
    if (turn == TN_NONE || input == 0) {
        tn_op_id from = matrix != TN_NONE ? packed_behind(draft, id, input) : TN_NONE;
        return from != TN_NONE && packed_alone(draft, matrix) ? from : TN_NONE;
    }
    uint32_t count;
    const int64_t *perm = tn__attr_ints(tn__draft_op_of(draft, turn), "perm", &count);
    if (perm == NULL || (count == 2 && perm[0] == 1)) *transposed = !*transposed;
    if (tn__draft_only(draft, turn, 0, NULL) == TN_NONE) return TN_NONE;
    return packed_behind(draft, turn, 0);
}

/* Makes the operator one that reads the operands of the DequantizeLinear `from`. `more` is an
 * attribute with an integer. */
static tn_status packed_become(tn__draft *draft, tn_op_id id, tn_op_id from, const char *type,
                               tn_tensor_id first, tn_tensor_id bias, const char *more,
                               int64_t value) {
    const tn_op *own = tn__draft_op_of(draft, from);
    const tn_tensor_id inputs[] = {first, own->inputs[0], packed_scales(draft, from),
                                   tn__draft_input(draft, from, 2), bias};
    uint32_t attr_count, count = bias != TN_NONE ? 5 : inputs[3] != TN_NONE ? 4 : 3;
    const int64_t *kept = tn__arena_copy(&draft->arena, &value, sizeof value);
    const tn_attr attr = {.name = more, .type = TN_ATTR_INT, .count = 1, .ints = kept};
    const tn_attr *attrs = tn__draft_attrs(draft, own, &attr, 1, &attr_count);
    if (attrs == NULL || kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    return tn__draft_become(draft, id, "tenure", type, 1, inputs, count, attrs, attr_count);
}

static tn_status packed_rows(tn__draft *draft, tn_op_id id) {
    bool transposed;
    tn_op_id from = packed_source(draft, id, 0, &transposed);
    if (from == TN_NONE || !packed_is_stored(draft, from)) return TN_OK;
    tn_dtype to = tn__draft_tensor_of(draft, tn__draft_input(draft, id, 0))->dtype;
    return packed_become(draft, id, from, "PackedGather", tn__draft_input(draft, id, 1), TN_NONE,
                         "to", to);
}

static tn_status packed_each(tn__draft *draft, tn_op_id id) {
    tn_tensor_id bias, x = tn__draft_input(draft, id, 0);
    bool transposed;
    if (packed_takes_rows(draft, id)) return packed_rows(draft, id);
    tn_op_id from = packed_source(draft, id, 1, &transposed);
    if (from == TN_NONE || !packed_is_stored(draft, from)) return TN_OK;
    tn_tensor_id w = tn__draft_input(draft, from, 0);
    int64_t columns = tn__draft_tensor_of(draft, w)->shape[transposed ? 0 : 1];
    if (!tn__draft_is_float(draft, x) || tn__draft_is_static(draft, x) ||
        tn__draft_tensor_of(draft, x)->rank < 2 || !packed_is_plain(draft, id, columns, &bias))
        return TN_OK;
    return packed_become(draft, id, from, "PackedMatMul", x, bias, "transposed", transposed);
}

const tn__rewrite tn__rewrite_packed = {
    .name = "packed",
    .summary = "lets products and Gather read quantised weights in their stored bits",
    .each = packed_each,
};
