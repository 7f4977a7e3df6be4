/* dequant.c - finds weights that are stored in fewer bits than they are computed with. See
 * dequant.h. */
#include "graph/rules/dequant.h"

#include "graph/attr.h"
#include "graph/op.h"

static const tn_tensor *dequant_operand(const tn_graph *graph, const tn_op *op, uint32_t input) {
    bool there = input < op->input_count && op->inputs[input] != TN_NONE;
    return there ? tn_graph_tensor(graph, op->inputs[input]) : NULL;
}

/* Returns the tensor of the file that operand `input` comes from: the operand itself, or the input
 * of its Cast, because exporters store scales with 16 bits. NULL: the operand is absent, or
 * computed in another way. */
static const tn_tensor *dequant_stored(const tn_graph *graph, const tn_op *op, uint32_t input) {
    const tn_tensor *tensor = dequant_operand(graph, op, input);
    if (tensor == NULL || !tn_tensor_is_static(tensor)) return NULL;
    if (tensor->producer == TN_NONE) return tensor;
    const tn_op *cast = tn_graph_op(graph, tensor->producer);
    if (!tn__op_is(cast, "Cast") || input == 0) return NULL;
    const tn_tensor *source = dequant_operand(graph, cast, 0);
    return source != NULL && source->producer == TN_NONE && tn_tensor_is_static(source) ? source
                                                                                        : NULL;
}

/* Whether the operator is a DequantizeLinear of constants, so that its result is computed before
 * the run. */
static bool dequant_expands(const tn_graph *graph, const tn_op *op) {
    if (!tn__op_is_contrib(op, "DequantizeLinear") || op->output_count != 1) return false;
    if (op->outputs[0] == TN_NONE || op->input_count < 2) return false;
    const tn_tensor *result = tn_graph_tensor(graph, op->outputs[0]);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && dequant_stored(graph, op, i) == NULL) return false;
    return tn_tensor_is_static(result) && result->value == NULL;
}

/* Whether a DequantizeLinear expands weights that are stored in a form which products can read
 * while they multiply. */
static bool dequant_form_fits(const tn_graph *graph, const tn_op *op) {
    const tn_tensor *x = dequant_operand(graph, op, 0), *scale = dequant_operand(graph, op, 1);
    uint32_t bits = x != NULL ? tn_dtype_bits(x->dtype) : 0;
    bool whole = bits == 2 || bits == 4 || bits == 8;
    bool real = scale != NULL && (scale->dtype == TN_FLOAT32 || scale->dtype == TN_FLOAT16);
    if (!whole || !real || x->rank != 2 || x->dtype == TN_BOOL || x->dtype == TN_FLOAT4E2M1 ||
        (x->dtype >= TN_FLOAT8E4M3FN && x->dtype <= TN_FLOAT8E5M2FNUZ) || x->dtype == TN_FLOAT8E8M0)
        return false;
    int64_t axis = tn__attr_int(op, "axis", 1), block = tn__attr_int(op, "block_size", 0);
    if (block > 0)
        return axis == 0 && block >= 16 && (block & (block - 1)) == 0 && scale->rank == 2;
    return scale->rank == 1 && (axis == 1 || axis == -1) && scale->shape[0] == x->shape[1] &&
           scale->shape[0] > 1;
}

/* Flags that are stored together with a tn__dequant: */
enum {
    DEQUANT_SEEN = 4 /* at least one reader can use the stored form */,
    DEQUANT_QUANTISED = 8 /* a QuantizeLinear reads the tensor */
};

/* Whether the operator computes in 8-bit integers: both operands come from DequantizeLinear, the
 * weights have 8 bits, the data is not static, and the result of a convolution is quantised
 * again. */
static bool dequant_is_integer(const tn_graph *graph, const tn_op *op, const uint8_t *how) {
    const tn_tensor *data = dequant_operand(graph, op, 0), *weights = dequant_operand(graph, op, 1);
    bool conv = tn__op_is(op, "Conv");
    if (!conv && !tn__op_is(op, "MatMul") && !tn__op_is(op, "Gemm")) return false;
    if (data == NULL || weights == NULL || data->producer == TN_NONE) return false;
    const tn_op *from = tn_graph_op(graph, data->producer);
    const tn_op *own = tn_graph_op(graph, weights->producer);
    if (!tn__op_is(from, "DequantizeLinear") || tn_tensor_is_static(data)) return false;
    if (tn_dtype_bits(dequant_operand(graph, own, 0)->dtype) != 8) return false;
    return !conv || (how[op->outputs[0]] & DEQUANT_QUANTISED) != 0;
}

static bool dequant_reader_fits(const tn_graph *graph, const tn_op *op, uint32_t input,
                                const uint8_t *how) {
    if (input != 1) return false;
    if (dequant_is_integer(graph, op, how)) return true;
    const tn_op *own = tn_graph_op(graph, dequant_operand(graph, op, 1)->producer);
    if (!dequant_form_fits(graph, own)) return false;
    if (tn__op_is(op, "MatMul")) return true;
    return tn__op_is(op, "Gemm") && tn__attr_int(op, "transA", 0) == 0 &&
           tn__attr_int(op, "transB", 0) == 0 && tn__attr_float(op, "alpha", 1) == 1;
}

/* The first pass marks results of DequantizeLinear. The later passes remove the mark from results
 * that other operators read, that are read more than once, or that a block returns. */
void tn__graph_dequant(const tn_graph *graph, uint8_t *how) {
    uint32_t ops = tn_graph_op_count(graph);
    memset(how, TN__DEQUANT_NOT, tn_graph_tensor_count(graph));
    for (tn_op_id id = 0; id < ops; id++) {
        const tn_op *op = tn_graph_op(graph, id);
        if (dequant_expands(graph, op)) how[op->outputs[0]] |= TN__DEQUANT_FUSED;
        if (tn__op_is(op, "QuantizeLinear") && op->input_count > 0 && op->inputs[0] != TN_NONE)
            how[op->inputs[0]] |= DEQUANT_QUANTISED;
    }
    for (tn_op_id id = 0; id < ops; id++) {
        const tn_op *op = tn_graph_op(graph, id);
        for (uint32_t i = 0; i < op->input_count; i++) {
            uint8_t *at = op->inputs[i] != TN_NONE ? &how[op->inputs[i]] : NULL;
            if (at == NULL || (*at & 3) != TN__DEQUANT_FUSED) continue;
            bool good = (*at & DEQUANT_SEEN) == 0 && dequant_reader_fits(graph, op, i, how);
            *at = good ? TN__DEQUANT_FUSED | DEQUANT_SEEN : TN__DEQUANT_APART;
        }
    }
    for (tn_block_id b = 0; b < tn_graph_block_count(graph); b++) {
        const tn_block *block = tn_graph_block(graph, b);
        for (uint32_t i = 0; i < block->output_count; i++)
            if (block->outputs[i] != TN_NONE && (how[block->outputs[i]] & 3) != TN__DEQUANT_NOT)
                how[block->outputs[i]] = TN__DEQUANT_APART;
    }
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++) how[t] &= 3;
}

tn__dequant_sums tn__graph_dequant_sums(const tn_graph *graph, const uint8_t *how) {
    tn__dequant_sums sums = {0};
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        if (op->output_count != 1 || op->outputs[0] == TN_NONE ||
            how[op->outputs[0]] == TN__DEQUANT_NOT)
            continue;
        sums.expanded = tn__add_sat(sums.expanded, tn_graph_tensor(graph, op->outputs[0])->bytes);
        for (uint32_t i = 0; i < op->input_count; i++) {
            const tn_tensor *input = dequant_stored(graph, op, i);
            if (input != NULL) sums.stored = tn__add_sat(sums.stored, input->bytes);
        }
        sums.fused += how[op->outputs[0]] == TN__DEQUANT_FUSED;
        sums.apart += how[op->outputs[0]] == TN__DEQUANT_APART;
    }
    return sums;
}
