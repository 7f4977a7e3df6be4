/* mixed.c - mixed precision: chooses the operators that work on 16-bit floats, adds the casts in
 * between, repeats casts in the backward pass, and scales the loss.
 *
 * Parameters stay float32 and are updated in float32. If an operator works in 16 bits, its float32
 * operands are cast right before it, once per tensor, and its results have 16 bits. Gradients
 * follow, because a gradient has the type of its tensor. Kernels compute in float32 (or wider)
 * inside and round once when they store.
 *
 * The following stay in float32: the loss; statistics of normalisations (kernels hold them in
 * float32 anyway; running statistics are operands that stay); operators that sum many elements;
 * and functions that magnify an error of their operand or leave the range of 16 bits. An operator
 * that is not in the table below stays in float32 too.
 *
 *     w (f32) ── Cast ─┐                          the cast is repeated in the backward pass,
 *     x ── Cast ───── Conv ── BatchNorm ── ...    right before its reader, so no cast copy of
 *                               │ scale, bias,    parameters is kept for it (below)
 *                               statistics (f32)
 *
 * Source: Micikevicius et al. 2018, Mixed Precision Training (master weights, float32 for sums).
 * Cost: O(operands).
 */
#include "graph/train/frame.h"

#include <stdio.h>

/* --- types of operators that work in 16 bits -------------------------------------------------- */

typedef enum lower_sort {
    LOWER_FULL, /* float32 */
    LOWER_LOW,  /* products, which work in 16 bits; their kernels sum in float32 */
    /* operators that work in 16 bits if a computed operand has 16 bits, otherwise in float32. So
     * results of statistics stay in float32 until they are combined with an activation */
    LOWER_FOLLOW,
    /* operators that also work in 16 bits if they read a parameter alone, because their result is
     * then the operand of a product; otherwise as LOWER_FOLLOW */
    LOWER_MOVE,
    /* operators that read float32 rows of a table that is far larger than the rows. The result has
     * 16 bits if the table is a parameter; otherwise as LOWER_FOLLOW */
    LOWER_TABLE
} lower_sort;

typedef struct lower_row {
    const char *type;
    lower_sort sort;
    /* bit i: input i stays float32; if any bit is set, so do all outputs except the first */
    uint32_t stay;
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
    {"Softmax", LOWER_FOLLOW, 0}, /* sums a row, but its kernels do so in float32 or wider */
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

/* --- deciding which operators work in 16 bits --- */

static bool lower_is_full(const tn__train *it, tn_tensor_id id) {
    return id != TN_NONE && tn_graph_tensor(it->model, id)->dtype == TN_FLOAT32;
}

/* Whether a small constant of the operator would become infinite in 16 bits. */
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

/* Decides whether an operator works in 16 bits, then the types of its outputs. It is called for
 * operators in the order of the model. */
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
        /* callers read the outputs of the model, so these keep float32 */
        it->is_low[block->outputs[k]] = false;
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
    int64_t dtype = low ? it->options.dtype : TN_FLOAT32; /* ONNX's numbering of element types */
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

/* Whether the cast is repeated in the backward pass: its input is static, or has fewer bits. */
static bool train_is_free_cast(const tn__train *it, const tn_op *op) {
    if (!tn__train_lowers(it) || !tn__op_is(op, "Cast")) return false;
    const tn_tensor *from = tn_graph_tensor(it->graph, op->inputs[0]);
    const tn_tensor *to = tn_graph_tensor(it->graph, op->outputs[0]);
    return tn_tensor_is_static(from) || tn_dtype_bits(from->dtype) < tn_dtype_bits(to->dtype);
}

/* --- casts that are repeated ------------------------------------------------------------------ */

/* With mixed precision, repeats casts in the backward pass if that costs no memory.
 *
 * Two kinds of casts need not be kept for the backward pass: casts of parameters and casts from
 * fewer bits. The parameter and the shorter numbers are kept anyway. The copy of such a cast stands
 * right before its first reader in the backward pass. That is before any update of the parameter
 * that it reads, because the gradient for the update follows that reader. Bits stay the same. Any
 * other recomputation is a choice within a work budget: tn_program_recompute.
 */

#define RECOMPUTE_NONE UINT32_MAX

typedef struct recompute_state {
    tn__train *it;
    uint32_t count; /* number of operators in the main block before this pass */
    /* [forward] position of the tensor's first reader in the backward pass; RECOMPUTE_NONE: no
     * reader */
    uint32_t *reader;
    bool *again; /* [forward] true: the cast that computes the tensor is repeated */
    /* [forward] the tensor that the repeated cast computes; TN_NONE: none yet */
    tn_tensor_id *copy;
    tn_op_id *order; /* the new order of operators */
    size_t order_count;
} recompute_state;

/* Whether the tensor is kept until the backward pass is over, or at least until its reader
 * there. */
static bool recompute_is_there(const recompute_state *state, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(state->it->graph, id);
    if (tensor->producer == TN_NONE || tn_tensor_is_static(tensor)) return true;
    return id < state->it->forward && state->reader[id] != RECOMPUTE_NONE && !state->again[id];
}

/* --- copies --- */

static tn_status recompute_make(recompute_state *state, tn_tensor_id id) {
    tn__train *it = state->it;
    const tn_tensor like = *tn_graph_tensor(it->graph, id);
    const tn_op op = *tn_graph_op(it->graph, like.producer);
    char name[200];
    tn_op_id copy;
    snprintf(name, sizeof name, "%.180s.again", like.name);
    tn_tensor_spec tensor = {.name = name,
                             .dtype = like.dtype,
                             .kind = TN_KIND_ACTIVATION,
                             .rank = like.rank,
                             .shape = like.shape};
    TN_TRY(tn_graph_add_tensor(it->graph, &tensor, &state->copy[id], it->error));
    tn_op_spec spec = {.name = name,
                       .type = op.type,
                       .domain = op.domain,
                       .version = op.version,
                       .inputs = op.inputs,
                       .outputs = &state->copy[id],
                       .attrs = op.attrs,
                       .input_count = op.input_count,
                       .output_count = 1,
                       .attr_count = op.attr_count};
    TN_TRY(tn_graph_add_op(it->graph, &spec, &copy, it->error));
    state->order[state->order_count++] = copy;
    return TN_OK;
}

/* --- inserting the repeated casts into the backward pass --- */

static tn_status recompute_room(recompute_state *state) {
    tn__train *it = state->it;
    size_t forward = it->forward, ops = tn_graph_op_count(it->graph);
    state->count = tn_graph_block(it->graph, 0)->op_count;
    state->reader = tn__arena_array(&it->arena, forward, sizeof *state->reader);
    state->again = tn__arena_array(&it->arena, forward, sizeof *state->again);
    state->copy = tn__arena_array(&it->arena, forward, sizeof *state->copy);
    state->order = tn__arena_array(&it->arena, 2 * ops, sizeof *state->order);
    if (state->reader == NULL || state->again == NULL || state->copy == NULL ||
        state->order == NULL)
        return tn__no_memory(it->error, "recomputation");
    for (size_t i = 0; i < forward; i++) {
        state->reader[i] = RECOMPUTE_NONE;
        state->copy[i] = TN_NONE;
    }
    return TN_OK;
}

static void recompute_mark(recompute_state *state) {
    const tn__train *it = state->it;
    const tn_block *block = tn_graph_block(it->graph, 0);
    for (uint32_t p = it->forward_ops; p < state->count; p++) {
        const tn_op *op = tn_graph_op(it->graph, block->ops[p]);
        for (uint32_t i = 0; i < op->input_count; i++) {
            tn_tensor_id id = op->inputs[i];
            if (id == TN_NONE || id >= it->forward || state->reader[id] != RECOMPUTE_NONE) continue;
            state->reader[id] = p;
        }
    }
    for (uint32_t p = 0; p < it->forward_ops; p++) {
        const tn_op *op = tn_graph_op(it->graph, block->ops[p]);
        tn_tensor_id id = op->output_count > 0 ? op->outputs[0] : TN_NONE;
        if (id == TN_NONE || state->reader[id] == RECOMPUTE_NONE || op->block != 0) continue;
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        if (tensor->flags & TN_TENSOR_IS_OUTPUT || tn_tensor_is_static(tensor)) continue;
        state->again[id] = train_is_free_cast(it, op) && recompute_is_there(state, op->inputs[0]);
    }
}

/* Handles the operator at a position of the backward pass: inserts copies of those casts of which
 * it is the first reader. */
static tn_status recompute_visit(recompute_state *state, tn_op_id id, uint32_t position) {
    tn__train *it = state->it;
    const tn_op op = *tn_graph_op(it->graph, id);
    bool any = false;
    tn_tensor_id *inputs =
        tn__arena_copy(&it->graph->said, op.inputs, op.input_count * sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(it->error, "recomputation");
    for (uint32_t i = 0; i < op.input_count; i++) {
        tn_tensor_id input = op.inputs[i];
        if (input == TN_NONE || input >= it->forward || !state->again[input]) continue;
        if (state->reader[input] == position && state->copy[input] == TN_NONE)
            TN_TRY(recompute_make(state, input));
        inputs[i] = state->copy[input];
        any = true;
    }
    if (any) it->graph->ops[id].inputs = inputs;
    state->order[state->order_count++] = id;
    return TN_OK;
}

tn_status tn__train_recompute(tn__train *it) {
    recompute_state state = {.it = it};
    TN_TRY(recompute_room(&state));
    recompute_mark(&state);
    for (uint32_t p = 0; p < state.count; p++) {
        tn_op_id id = tn_graph_block(it->graph, 0)->ops[p];
        if (p < it->forward_ops)
            state.order[state.order_count++] = id;
        else
            TN_TRY(recompute_visit(&state, id, p));
    }
    memcpy(it->graph->blocks[0].ops, state.order, state.order_count * sizeof *state.order);
    return TN_OK;
}

/* --- the scale of the loss -------------------------------------------------------------------- */

/* Seeds the backward pass and scales gradients so that 16 bits can hold them.
 *
 * The seed is loss_scale / micro_batches, so that sums of gradients are means, and small gradients
 * do not vanish in 16 bits; updates divide by the scale again.
 *
 * An adaptive scale has state: an exponent relative to the first scale, good steps in a row,
 * skipped steps (int64, all 0 at first, in every checkpoint). LossScale computes the seed from it.
 * LossScaleStep looks at all gradients, writes the state, and gives the updates their factor for
 * gradients: 0 if one was not finite, in which case the updates write nothing. So a step is skipped
 * within the graph, and no gradient may be used before all are complete: fuse_update is not
 * allowed. Running statistics of normalisations come from the forward pass and are not restored.
 * Source: Micikevicius et al. 2018, section 3.2.
 */

#define SCALE_STATE 3       /* number of values in the state: exponent, good steps, skipped steps */
#define SCALE_FIRST 65536.0 /* 2^16, the initial scale of PyTorch and Apex */
#define SCALE_INTERVAL 2000 /* number of good steps after which the scale doubles */

static tn_status scale_result(tn__train *it, const char *name, tn_tensor_id *id) {
    tn_tensor_spec spec = {.name = name, .kind = TN_KIND_GRADIENT, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

static double scale_first(const tn__train *it) {
    return it->options.loss_scale != 1 ? it->options.loss_scale : SCALE_FIRST;
}

static tn_status scale_seed(tn__train *it, const tn_tensor *loss, const int64_t *shape,
                            tn_tensor_id *seed) {
    static const int64_t count[] = {SCALE_STATE};
    tn_tensor_spec spec = {.name = "loss_scale",
                           .dtype = TN_INT64,
                           .kind = TN_KIND_OPTIMIZER_STATE,
                           .flags = TN_TENSOR_UPDATED,
                           .rank = 1,
                           .shape = count};
    double first = scale_first(it) / it->options.micro_batches;
    int64_t to = loss->dtype;
    const tn_attr attrs[] = {TN__ATTR_FLOAT("first", &first), TN__ATTR_INT("to", &to),
                             TN__ATTR_INTS("shape", shape, loss->rank)};
    TN_TRY(tn_graph_add_tensor(it->graph, &spec, &it->made.loss_scale, it->error));
    TN_TRY(scale_result(it, "d.loss", seed));
    return tn__train_op(it, "loss_scale", "LossScale", &it->made.loss_scale, 1, seed, 1, attrs, 3);
}

tn_status tn__train_seed(tn__train *it, tn_tensor_id *seed) {
    const tn_tensor loss = *tn_graph_tensor(it->graph, it->made.loss);
    double one = it->options.loss_scale / it->options.micro_batches;
    int64_t ones[TN_RANK_MAX];
    for (uint32_t d = 0; d < loss.rank; d++) ones[d] = 1;
    if (it->options.dynamic_loss_scale) return scale_seed(it, &loss, ones, seed);
    tn_tensor_spec spec = {.name = "d.loss",
                           .dtype = loss.dtype,
                           .kind = TN_KIND_CONSTANT,
                           .rank = loss.rank,
                           .shape = ones,
                           .value = {.count = 1, .floats = &one}};
    return tn_graph_add_tensor(it->graph, &spec, seed, it->error);
}

tn_status tn__train_scale_step(tn__train *it) {
    uint32_t count = 2;
    tn_tensor_id outputs[2];
    tn_tensor_id *inputs =
        tn__arena_array(&it->arena, (size_t)it->made.parameter_count + 2, sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(it->error, "the scale of the loss");
    inputs[0] = it->made.loss_scale;
    inputs[1] = it->made.micro;
    for (uint32_t i = 0; i < it->made.parameter_count; i++)
        if (it->made.parameters[i].gradient != TN_NONE)
            inputs[count++] = it->made.parameters[i].gradient;
    double first = scale_first(it);
    int64_t interval = SCALE_INTERVAL, micro = it->options.micro_batches;
    const tn_attr attrs[] = {TN__ATTR_FLOAT("first", &first), TN__ATTR_INT("interval", &interval),
                             TN__ATTR_INT("micro_batches", &micro)};
    TN_TRY(scale_result(it, "loss_scale.new", &outputs[0]));
    TN_TRY(scale_result(it, "loss_scale.factor", &outputs[1]));
    it->factor = outputs[1];
    return tn__train_op(it, "loss_scale", "LossScaleStep", inputs, count, outputs, 2, attrs, 3);
}

tn_status tn__train_scale_check(const tn__train *it) {
    const tn_train_options *options = &it->options;
    if (!options->dynamic_loss_scale) return TN_OK;
    if (options->fuse_update)
        TN_FAIL(it->error, TN_E_INVALID,
                "a loss scale that adapts skips a step by all gradients; with "
                "`fuse_update` parameters are updated before the others' gradients are there");
    if (options->optimizer == TN_OPTIMIZER_NONE)
        TN_FAIL(it->error, TN_E_INVALID, "a loss scale that adapts needs an optimizer");
    if (options->loss_scale < 0x1p-20 || options->loss_scale > 0x1p40)
        TN_FAIL(it->error, TN_E_INVALID,
                "a loss scale that adapts begins between 2^-20 and 2^40, not at %g",
                options->loss_scale);
    return TN_OK;
}
