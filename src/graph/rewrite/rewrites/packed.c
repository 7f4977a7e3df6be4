/* packed.c - lets a product read weights in the few bits in which the file stores them.
 *
 *     w (2, 4 or 8 bits), scales, zero points ── DequantizeLinear ── MatMul, Gemm
 *     becomes  x, w, scales, zero points, bias ── PackedMatMul
 *
 * DequantizeLinear of constants would be computed at set-up, and its float32 result kept: 4 to 16
 * times the stored bytes. PackedMatMul expands a few columns at a time in its scratch memory. The
 * file may hold the matrix transposed, for a Gemm with transB or with a Transpose between. Several
 * products may read the same weights, and each expands them for itself. Weights that other
 * operators read too stay as they are, because the whole matrix has to be expanded for them.
 * Cost: O(operators), and again for each reader of weights with several readers.
 */
#include "graph/attr.h"
#include "graph/rewrite/rewrite.h"

static bool packed_is_whole(tn_dtype dtype) {
    return dtype == TN_INT8 || dtype == TN_UINT8 || dtype == TN_INT4 || dtype == TN_UINT4 ||
           dtype == TN_INT2 || dtype == TN_UINT2;
}

/* Whether all operands of the DequantizeLinear come from the file, and they are a matrix of
 * integers with float32 scales. */
static bool packed_is_stored(const tn__draft *draft, tn_op_id from) {
    const tn_op *op = tn__draft_op_of(draft, from);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && (!tn__draft_is_known(draft, op->inputs[i]) ||
                                         tn__draft_producer(draft, from, i, NULL) != TN_NONE))
            return false;
    tn_tensor_id scale = tn__draft_input(draft, from, 1);
    if (op->inputs[0] == TN_NONE || scale == TN_NONE || !tn__draft_is_exact(draft, scale))
        return false;
    const tn_tensor *w = tn__draft_tensor_of(draft, op->inputs[0]);
    return w->rank == 2 && packed_is_whole(w->dtype);
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
           (tn__attr_float(op, "beta", 1) == 1 && tn__draft_is_row(draft, *bias, columns));
}

/* Whether operator `id` can read its operand `input` as packed weights: it must be a product
 * without factors, `input` its second operand, and the first operand a float32 tensor that is
 * computed in the run. */
static bool packed_reads(const tn__draft *draft, tn_op_id id, uint32_t input, int64_t columns) {
    tn_tensor_id bias, x = tn__draft_input(draft, id, 0);
    return input == 1 && x != TN_NONE && tn__draft_is_exact(draft, x) &&
           !tn__draft_is_static(draft, x) && tn__draft_tensor_of(draft, x)->rank >= 2 &&
           packed_is_plain(draft, id, columns, &bias);
}

/* Whether each reader of an expanded matrix is a product that can read the matrix as packed weights
 * instead. */
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

/* Returns the DequantizeLinear that expands a product's matrix, possibly before a Transpose, if
 * only products read the result; TN_NONE: there is none. */
static tn_op_id packed_source(const tn__draft *draft, tn_op_id id, bool *transposed) {
    tn_op_id turn = tn__draft_only(draft, id, 1, "Transpose");
    tn_op_id from = tn__draft_producer(draft, id, 1, "DequantizeLinear");
    *transposed = false;
    if (tn__draft_is(draft, id, "Gemm"))
        *transposed = tn__attr_int(tn__draft_op_of(draft, id), "transB", 0) != 0;
    if (turn == TN_NONE)
        return from != TN_NONE && packed_alone(draft, tn__draft_input(draft, id, 1)) ? from
                                                                                     : TN_NONE;
    uint32_t count;
    const int64_t *perm = tn__attr_ints(tn__draft_op_of(draft, turn), "perm", &count);
    if (perm == NULL || (count == 2 && perm[0] == 1)) *transposed = !*transposed;
    return tn__draft_only(draft, turn, 0, "DequantizeLinear");
}

static tn_status packed_each(tn__draft *draft, tn_op_id id) {
    tn_tensor_id bias, x = tn__draft_input(draft, id, 0);
    bool transposed;
    tn_op_id from = packed_source(draft, id, &transposed);
    if (from == TN_NONE || !packed_is_stored(draft, from)) return TN_OK;
    const tn_op *own = tn__draft_op_of(draft, from);
    int64_t columns = tn__draft_tensor_of(draft, own->inputs[0])->shape[transposed ? 0 : 1];
    if (!tn__draft_is_exact(draft, x) || tn__draft_is_static(draft, x) ||
        tn__draft_tensor_of(draft, x)->rank < 2 || !packed_is_plain(draft, id, columns, &bias))
        return TN_OK;
    const tn_tensor_id inputs[] = {x, own->inputs[0], own->inputs[1],
                                   tn__draft_input(draft, from, 2), bias};
    uint32_t attr_count, count = bias != TN_NONE ? 5 : inputs[3] != TN_NONE ? 4 : 3;
    const int64_t turned = transposed;
    const int64_t *kept = tn__arena_copy(&draft->arena, &turned, sizeof turned);
    const tn_attr more = {.name = "transposed", .type = TN_ATTR_INT, .count = 1, .ints = kept};
    const tn_attr *attrs = tn__draft_attrs(draft, own, &more, 1, &attr_count);
    if (attrs == NULL || kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    return tn__draft_become(draft, id, "tenure", "PackedMatMul", 1, inputs, count, attrs,
                            attr_count);
}

const tn__rewrite tn__rewrite_packed = {
    .name = "packed",
    .summary = "lets products read quantised weights in their stored bits",
    .each = packed_each,
};
