/* mixed.c - mixed precision: chooses the operators that work on 16-bit floats, and adds the casts
 * in between.
 *
 * Parameters stay float32 and are updated in float32. If an operator works in 16 bits, its float32
 * operands are cast right before it, once per tensor, and its results have 16 bits. Gradients
 * follow, because a gradient has the type of its tensor. Kernels compute in float32 (or wider)
 * inside and round once when they store.
 *
 * The following stay in float32: the loss; statistics of normalisations (kernels hold them in
 * float32 anyway; running statistics are operands that stay); operators that sum many elements; and
 * functions that magnify an error of their operand or leave the range of 16 bits. An operator that
 * is not in the table below stays in float32 too.
 *
 *     w (f32) ── Cast ─┐                          the cast is repeated in the backward pass,
 *     x ── Cast ───── Conv ── BatchNorm ── ...    right before its reader, so no cast copy of
 *                               │ scale, bias,    parameters is kept for it (cast_again.c)
 *                               statistics (f32)
 *
 * Source: Micikevicius et al. 2018, Mixed Precision Training (master weights, float32 for sums).
 * Cost: O(operands).
 */
#include <stdio.h>

#include "graph/train/frame.h"

typedef enum lower_sort {
    LOWER_FULL, /* float32 */
    LOWER_LOW,  /* 16 bits: products; their kernels sum in float32 */
    /* 16 bits if a computed operand has 16 bits, else float32: results of statistics stay in
     * float32 until they meet an activation */
    LOWER_FOLLOW,
    /* like FOLLOW; a parameter alone gives 16 bits, because it is then the operand of a product */
    LOWER_MOVE,
    /* reads float32 rows of a table that is far larger than they are; gives 16 bits if the table is
     * a parameter, else as FOLLOW */
    LOWER_TABLE
} lower_sort;

typedef struct lower_row {
    const char *type;
    lower_sort sort;
    uint32_t stay; /* bit i: input i stays float32, and so do all outputs except the first */
} lower_row;

static const lower_row lower_rows[] = {
    {"Abs", LOWER_FOLLOW, 0},
    {"Add", LOWER_FOLLOW, 0},
    {"AveragePool", LOWER_FOLLOW, 0},
    {"BatchNormalization", LOWER_LOW, 2 | 4 | 8 | 16},
    {"Clip", LOWER_FOLLOW, 0},
    {"Concat", LOWER_MOVE, 0},
    {"Conv", LOWER_LOW, 0},
    {"ConvTranspose", LOWER_LOW, 0},
    {"DepthToSpace", LOWER_MOVE, 0},
    {"Div", LOWER_FOLLOW, 0},
    {"Dropout", LOWER_FOLLOW, 2},
    {"Einsum", LOWER_LOW, 0},
    {"Elu", LOWER_FOLLOW, 0},
    {"Erf", LOWER_FOLLOW, 0},
    {"Expand", LOWER_MOVE, 0},
    {"Flatten", LOWER_MOVE, 0},
    {"GRU", LOWER_LOW, 0},
    {"Gather", LOWER_TABLE, 0},
    {"Gelu", LOWER_FOLLOW, 0},
    {"Gemm", LOWER_LOW, 0},
    {"GlobalAveragePool", LOWER_FOLLOW, 0},
    {"GlobalMaxPool", LOWER_FOLLOW, 0},
    {"GroupNormalization", LOWER_FOLLOW, 2 | 4},
    {"HardSigmoid", LOWER_FOLLOW, 0},
    {"HardSwish", LOWER_FOLLOW, 0},
    {"Identity", LOWER_MOVE, 0},
    {"InstanceNormalization", LOWER_FOLLOW, 2 | 4},
    {"LSTM", LOWER_LOW, 0},
    {"LayerNormalization", LOWER_FOLLOW, 2 | 4},
    {"LeakyRelu", LOWER_FOLLOW, 0},
    {"MatMul", LOWER_LOW, 0},
    {"Max", LOWER_FOLLOW, 0},
    {"MaxPool", LOWER_FOLLOW, 0},
    {"Min", LOWER_FOLLOW, 0},
    {"Mish", LOWER_FOLLOW, 0},
    {"Mul", LOWER_FOLLOW, 0},
    {"Neg", LOWER_FOLLOW, 0},
    {"PRelu", LOWER_FOLLOW, 0},
    {"Pad", LOWER_MOVE, 0},
    {"RNN", LOWER_LOW, 0},
    {"Relu", LOWER_FOLLOW, 0},
    {"Reshape", LOWER_MOVE, 0},
    {"Resize", LOWER_FOLLOW, 2 | 4},
    {"Selu", LOWER_FOLLOW, 0},
    {"Sigmoid", LOWER_FOLLOW, 0},
    {"Slice", LOWER_MOVE, 0},
    {"Softmax", LOWER_FOLLOW, 0}, /* maximum and sum of a row are float32 inside */
    {"SpaceToDepth", LOWER_MOVE, 0},
    {"Split", LOWER_MOVE, 0},
    {"Squeeze", LOWER_MOVE, 0},
    {"Sub", LOWER_FOLLOW, 0},
    {"Sum", LOWER_FOLLOW, 0},
    {"Tanh", LOWER_FOLLOW, 0},
    {"Tile", LOWER_MOVE, 0},
    {"Transpose", LOWER_MOVE, 0},
    {"Unsqueeze", LOWER_MOVE, 0},
    {"Upsample", LOWER_FOLLOW, 2},
    {"Where", LOWER_FOLLOW, 0},
};

static lower_row lower_row_of(const tn_op *op) {
    for (size_t i = 0; i < sizeof lower_rows / sizeof *lower_rows; i++)
        if (tn__op_is(op, lower_rows[i].type)) return lower_rows[i];
    return (lower_row){.type = op->type, .sort = LOWER_FULL};
}

/* --- the choice of 16 bits --- */

static bool lower_is_full(const tn__train *it, tn_tensor_id id) {
    return id != TN_NONE && tn_graph_tensor(it->model, id)->dtype == TN_FLOAT32;
}

/* Whether a small constant would become infinite. */
static bool lower_overflows(const tn__train *it, const tn_op *op, uint32_t stay) {
    double most = it->options.dtype == TN_FLOAT16 ? 65520 : 0x1.ffp127;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!lower_is_full(it, op->inputs[i]) || (i < 32 && (stay >> i & 1))) continue;
        const tn_value *value = tn_graph_tensor(it->model, op->inputs[i])->value;
        for (uint32_t k = 0; value != NULL && value->floats != NULL && k < value->count; k++)
            if (isfinite(value->floats[k]) && fabs(value->floats[k]) >= most) return true;
    }
    return false;
}

static bool lower_works_low(const tn__train *it, const tn_op *op, const lower_row *row) {
    bool follows = false, moves = row->sort == LOWER_MOVE;
    if (row->sort == LOWER_FULL || lower_overflows(it, op, row->stay)) return false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id input = op->inputs[i];
        if (!lower_is_full(it, input) || (i < 32 && (row->stay >> i & 1))) continue;
        if (row->sort == LOWER_LOW || it->likes_low[input] || (moves && it->trained[input]))
            follows = true;
    }
    return follows;
}

/* In the order of the model: decides about operators, then about their outputs. */
static void lower_decide(tn__train *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    lower_row row = lower_row_of(op);
    bool low = lower_works_low(it, op, &row);
    bool table = row.sort == LOWER_TABLE && op->input_count > 0 &&
                 lower_is_full(it, op->inputs[0]) && it->trained[op->inputs[0]];
    it->works_low[id] = low;
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id output = op->outputs[k];
        if (!lower_is_full(it, output) || (k > 0 && row.stay != 0)) continue;
        it->likes_low[output] = low || table;
        it->is_low[output] = it->likes_low[output];
    }
}

tn_status tn__train_lower(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    it->works_low = tn__arena_array(&it->arena, tn_graph_op_count(it->model), sizeof(bool));
    it->likes_low = tn__arena_array(&it->arena, it->tensors, sizeof(bool));
    it->is_low = tn__arena_array(&it->arena, it->tensors, sizeof(bool));
    it->other = tn__arena_array(&it->arena, it->tensors, sizeof *it->other);
    if (it->works_low == NULL || it->likes_low == NULL || it->is_low == NULL || it->other == NULL)
        return tn__no_memory(it->error, "mixed precision");
    for (uint32_t i = 0; i < it->tensors; i++) it->other[i] = TN_NONE;
    if (!tn__train_lowers(it)) return TN_OK;
    for (tn_block_id b = 1; b < tn_graph_block_count(it->model); b++)
        if (!tn_graph_block(it->model, b)->dead)
            TN_FAIL(it->error, TN_E_UNSUPPORTED,
                    "mixed precision does not reach into the blocks of If, Loop and Scan; train "
                    "this model in its own types");
    for (uint32_t i = 0; i < block->op_count; i++)
        if (it->runs[block->ops[i]]) lower_decide(it, block->ops[i]);
    for (uint32_t k = 0; k < block->output_count && it->options.keep_outputs; k++)
        it->is_low[block->outputs[k]] = false; /* other operators read them too */
    return TN_OK;
}

bool tn__train_lowers(const tn__train *it) {
    return !it->evaluates && (it->options.dtype == TN_FLOAT16 || it->options.dtype == TN_BFLOAT16);
}

/* --- casts --- */

static tn_status lower_tensor(tn__train *it, tn_tensor_id like, bool low, tn_tensor_id *id) {
    char name[200];
    tn_dtype dtype = low ? it->options.dtype : TN_FLOAT32;
    snprintf(name, sizeof name, "%.180s.%s", tn_graph_tensor(it->model, like)->name,
             tn_dtype_name(dtype));
    tn_tensor_spec spec = {
        .name = name, .dtype = dtype, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

static tn_status lower_cast(tn__train *it, tn_tensor_id from, tn_tensor_id to, bool low) {
    int64_t dtype = low ? it->options.dtype : TN_FLOAT32; /* the numbering of ONNX */
    const tn_attr attr = TN__ATTR_INT("to", &dtype);
    tn_op_spec spec = {.name = tn_graph_tensor(it->graph, to)->name,
                       .type = "Cast",
                       .version = 13,
                       .inputs = &from,
                       .input_count = 1,
                       .outputs = &to,
                       .output_count = 1,
                       .attrs = &attr,
                       .attr_count = 1};
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

tn_status tn__train_as(tn__train *it, tn_tensor_id tensor, bool low, tn_tensor_id *id) {
    *id = tensor;
    if (!tn__train_lowers(it) || !lower_is_full(it, tensor) || it->is_low[tensor] == low)
        return TN_OK;
    if (it->other[tensor] == TN_NONE) {
        TN_TRY(lower_tensor(it, tensor, low, &it->other[tensor]));
        TN_TRY(lower_cast(it, tensor, it->other[tensor], low));
    }
    *id = it->other[tensor];
    return TN_OK;
}

tn_status tn__train_lower_op(tn__train *it, tn_op_id id, tn_op *op) {
    uint32_t stay = lower_row_of(op).stay;
    bool low = it->works_low[id];
    tn_tensor_id *inputs = tn__arena_array(&it->arena, op->input_count + (size_t)1, sizeof *inputs);
    tn_tensor_id *outputs =
        tn__arena_array(&it->arena, op->output_count + (size_t)1, sizeof *outputs);
    if (inputs == NULL || outputs == NULL) return tn__no_memory(it->error, "mixed precision");
    for (uint32_t i = 0; i < op->input_count; i++) {
        bool stays = i < 32 && (stay >> i & 1);
        TN_TRY(tn__train_as(it, op->inputs[i], low && !stays, &inputs[i]));
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id output = op->outputs[k];
        outputs[k] = output;
        bool gives_low = low && (k == 0 || stay == 0);
        if (!lower_is_full(it, output) || it->is_low[output] == gives_low) continue;
        TN_TRY(lower_tensor(it, output, gives_low, &it->other[output]));
        outputs[k] = it->other[output];
    }
    op->inputs = inputs;
    op->outputs = outputs;
    return TN_OK;
}

tn_status tn__train_lower_after(tn__train *it, tn_op_id id, const tn_op *made) {
    const tn_op *op = tn_graph_op(it->model, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (made->outputs[k] != op->outputs[k])
            TN_TRY(lower_cast(it, made->outputs[k], op->outputs[k], it->is_low[op->outputs[k]]));
    return TN_OK;
}

/* --- gradients --- */

bool tn__train_ends_low(const tn__train *it, const tn_op *op) {
    if (!tn__train_lowers(it) || !tn__op_is(op, "Cast")) return false;
    tn_tensor_id from = op->inputs[0];
    return from < it->tensors && it->trained[from] && lower_is_full(it, from) &&
           op->outputs[0] == it->other[from] && it->readers[from] == 1 &&
           it->gradient[from] == TN_NONE;
}

bool tn__train_is_free_cast(const tn__train *it, const tn_op *op) {
    if (!tn__train_lowers(it) || !tn__op_is(op, "Cast")) return false;
    const tn_tensor *from = tn_graph_tensor(it->graph, op->inputs[0]);
    const tn_tensor *to = tn_graph_tensor(it->graph, op->outputs[0]);
    return tn_tensor_is_static(from) || tn_dtype_bits(from->dtype) < tn_dtype_bits(to->dtype);
}
