/* pytorch_forward.c - adds the forward pass to the training step: views, operators that allocate
 * their results, and the copies that operators make.
 *
 * On the CPU, PyTorch's convolutions use oneDNN, which works in blocked formats. Input, weights and
 * output are copied to these formats and back. The copies are allocations of PyTorch and are
 * counted as workspace here: max(x + w, y) in the forward pass and x + gy in the backward pass,
 * where x, w, y and gy are the bytes of the input, the weights, the output and its gradient.
 * Blocked formats round the number of channels up to 16. An input with fewer channels is read
 * without a copy.
 */
#include "report/estimate/pytorch/pytorch.h"
#include "graph/attr.h"

/* --- strides ---------------------------------------------------------------------------------- */

/* Computes the strides of tensors as PyTorch does.
 *
 * Transposing, slicing and most reshaping move no data in PyTorch. The result is another view of
 * the same bytes, which stay allocated as long as any of their views exists. A copy is made if
 * strides cannot express the new shape. This determines the memory of attention:
 *
 *     [b, t, 3 c] ──Split──▶ [b, t, c] ──Reshape──▶ [b, t, h, d] ──Transpose──▶ [b, h, t, d] views
 *                            ──▶ product of b x h matrices: b and h have no common stride: a copy
 *
 * A dimension of extent 1 may have any stride.
 *
 * Cost: O(rank).
 */

/* runs of dimensions that are contiguous in memory, merged to one dimension each; the innermost run
 * first */
typedef struct view_runs {
    int64_t size[TN_RANK_MAX], stride[TN_RANK_MAX];
    uint32_t count;
} view_runs;

/* Computes the strides of a tensor at `place`. Returns false if its shape is unknown or if it is
 * empty. */
static bool view_strides(const tn_tensor *tensor, const pytorch_place *place, int64_t *strides) {
    int64_t next = 1;
    if (tensor->rank == TN_RANK_UNKNOWN) return false;
    for (uint32_t d = tensor->rank; d-- > 0;) {
        if (tensor->shape[d] < 1) return false;
        strides[d] = place->strides != NULL ? place->strides[d] : next;
        next *= tensor->shape[d];
    }
    return true;
}

static void view_merge(const int64_t *shape, const int64_t *strides, uint32_t rank,
                       view_runs *runs) {
    runs->count = 0;
    for (uint32_t d = rank; d-- > 0;) {
        if (shape[d] == 1) continue;
        uint32_t last = runs->count - 1;
        if (runs->count > 0 && strides[d] == runs->stride[last] * runs->size[last]) {
            runs->size[last] *= shape[d];
        } else {
            runs->size[runs->count] = shape[d];
            runs->stride[runs->count++] = strides[d];
        }
    }
}

/* Stores the strides in `place`, or NULL if they are those of a contiguous tensor. Returns false if
 * memory ran out. */
static bool view_keep(tn__pytorch *it, const tn_tensor *tensor, const int64_t *strides,
                      pytorch_place *place) {
    view_runs runs;
    view_merge(tensor->shape, strides, tensor->rank, &runs);
    if (runs.count == 0 || (runs.count == 1 && runs.stride[0] == 1)) {
        place->strides = NULL;
        return true;
    }
    int64_t *kept = tn__arena_copy(&it->arena, strides, tensor->rank * sizeof *strides);
    if (kept == NULL) return false;
    place->strides = kept;
    return true;
}

bool tn__pytorch_regroup(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                         pytorch_place *place) {
    int64_t strides[TN_RANK_MAX], made[TN_RANK_MAX], used = 1;
    view_runs runs;
    uint32_t r = 0;
    if (place->strides == NULL) return true;
    if (y->rank == TN_RANK_UNKNOWN || !view_strides(x, place, strides)) return false;
    view_merge(x->shape, strides, x->rank, &runs);
    for (uint32_t d = y->rank; d-- > 0;) {
        made[d] = 1;
        if (y->shape[d] == 1) continue;
        if (r == runs.count || y->shape[d] < 1 || runs.size[r] / used % y->shape[d] != 0)
            return false;
        made[d] = runs.stride[r] * used;
        used *= y->shape[d];
        if (used == runs.size[r]) r++, used = 1;
    }
    return r == runs.count && view_keep(it, y, made, place);
}

/* Returns the attribute `name`, or NULL if it is absent or does not have `count` numbers. */
static const int64_t *view_ints(const tn_op *op, const char *name, uint32_t count) {
    uint32_t found;
    const int64_t *ints = tn__attr_ints(op, name, &found);
    return ints != NULL && found == count ? ints : NULL;
}

bool tn__pytorch_permute(tn__pytorch *it, const tn_op *op, bool back, pytorch_place *place) {
    const tn_tensor *x = tn__pytorch_tensor(it, op->inputs[0]);
    const tn_tensor *y = tn__pytorch_tensor(it, op->outputs[0]);
    int64_t strides[TN_RANK_MAX], made[TN_RANK_MAX];
    if (!view_strides(back ? y : x, place, strides) || x->rank != y->rank) return false;
    const int64_t *perm = view_ints(op, "perm", x->rank);
    for (uint32_t d = 0; d < x->rank; d++) {
        int64_t from = perm != NULL ? perm[d] : (int64_t)(x->rank - 1 - d);
        if (from < 0 || from >= (int64_t)x->rank) return false;
        made[back ? from : d] = strides[back ? d : from];
    }
    return view_keep(it, back ? x : y, made, place);
}

/* Changes `place` to the elements at one index of a Gather. The dimension of the index is removed
 * or has extent 1. */
static bool pytorch_select(tn__pytorch *it, const tn_op *op, const tn_tensor *x, const tn_tensor *y,
                           pytorch_place *place) {
    int64_t axis = tn__attr_int(op, "axis", 0), made[TN_RANK_MAX], strides[TN_RANK_MAX];
    uint32_t count = 0;
    if (y->rank == TN_RANK_UNKNOWN || !view_strides(x, place, strides)) return false;
    if (axis < 0) axis += x->rank;
    for (uint32_t d = 0; d < x->rank; d++)
        if ((int64_t)d != axis || y->rank == x->rank) made[count++] = strides[d];
    place->part = true;
    return count == y->rank && view_keep(it, y, made, place);
}

bool tn__pytorch_part(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                      pytorch_place *place) {
    int64_t strides[TN_RANK_MAX], made[TN_RANK_MAX];
    if (y->rank == TN_RANK_UNKNOWN || !view_strides(x, place, strides)) return false;
    /* the result may have more leading dimensions than x, which Expand adds */
    for (uint32_t d = 0; d < y->rank; d++) {
        uint32_t behind = y->rank - d;
        bool is_new = behind > x->rank;
        int64_t extent = is_new ? 1 : x->shape[x->rank - behind];
        bool repeated = extent == 1 && y->shape[d] != 1;
        if (y->shape[d] < 1) return false;
        made[d] = is_new || repeated ? 0 : strides[x->rank - behind];
    }
    place->part = true;
    return view_keep(it, y, made, place);
}

bool tn__pytorch_collapses(const tn_tensor *x, const pytorch_place *place, uint32_t count) {
    int64_t strides[TN_RANK_MAX];
    view_runs runs;
    if (place->strides == NULL || count < 2) return true;
    if (count > x->rank || !view_strides(x, place, strides)) return false;
    view_merge(x->shape, strides, count, &runs);
    return runs.count < 2;
}

/* --- the forward pass ------------------------------------------------------------------------- */

#define PYTORCH_CHANNELS 16u /* number of channels in a block of oneDNN's formats */
/* Numbers that an LSTM saves per cell: four gates, the cell's state, the tanh of the state, and the
 * output. */
#define PYTORCH_LSTM_KEEPS 7

/* --- convolutions --- */

/* Returns the bytes of a tensor in a blocked format, in which the channels (dimension 1) are
 * rounded up. With `both` true, dimension 0 is rounded up as well, as for weights. */
static uint64_t pytorch_blocked(const tn_tensor *tensor, bool both) {
    uint64_t bytes = tensor->bytes;
    for (uint32_t d = both ? 0 : 1; d < 2 && d < tensor->rank && bytes != TN_SIZE_UNKNOWN; d++) {
        uint64_t extent = (uint64_t)tensor->shape[d], round = PYTORCH_CHANNELS;
        if (extent > 0) bytes = tn__mul_sat(bytes / extent, (extent + round - 1) / round * round);
    }
    return bytes;
}

typedef struct pytorch_copies { /* bytes of the operands of a convolution in blocked formats */
    uint64_t x, w, y;
} pytorch_copies;

static pytorch_copies pytorch_conv(const tn__pytorch *it, const tn_op *op) {
    const tn_tensor *x = tn__pytorch_tensor(it, op->inputs[0]),
                    *w = tn__pytorch_tensor(it, op->inputs[1]);
    const tn_tensor *y = tn__pytorch_tensor(it, op->outputs[0]);
    bool few = x->rank > 1 && x->shape[1] < (int64_t)PYTORCH_CHANNELS;
    bool depthwise = w->rank > 1 && w->shape[1] == 1;
    return (pytorch_copies){.x = few ? 0 : pytorch_blocked(x, false),
                            .w = depthwise ? w->bytes : pytorch_blocked(w, !few),
                            .y = pytorch_blocked(y, false)};
}

uint64_t tn__pytorch_conv_scratch(const tn__pytorch *it, const tn_op *op, bool backward,
                                  bool permuted) {
    pytorch_copies copies = pytorch_conv(it, op);
    if (!backward) {
        uint64_t before = tn__add_sat(copies.x, copies.w);
        return copies.y > before ? copies.y : before;
    }
    const tn_tensor *weights = tn__pytorch_tensor(it, op->inputs[1]);
    bool depthwise = weights->rank > 1 && weights->shape[1] == 1;
    if (depthwise && permuted) /* the format has a block of 16 x 16 numbers per channel */
        copies.w = tn__mul_sat(weights->bytes, (uint64_t)PYTORCH_CHANNELS * PYTORCH_CHANNELS);
    /* the gradient of the weights, which is allocated after the copies are freed */
    uint64_t w = weights->bytes;
    uint64_t scratch = tn__add_sat(copies.x, copies.y);
    return copies.w > w ? tn__add_sat(scratch, copies.w - w) : scratch;
}

/* --- forward --- */

tn_tensor_id tn__pytorch_gate(const tn__pytorch *it, const tn_op *op) {
    if (!tn__op_is(op, "Mul") || op->input_count != 2) return TN_NONE;
    for (uint32_t k = 0; k < 2; k++) {
        tn_tensor_id gate = op->inputs[k], x = op->inputs[1 - k];
        if (gate == TN_NONE || x == TN_NONE || it->readers[gate] != 1) continue;
        tn_op_id by = tn__pytorch_tensor(it, gate)->producer;
        if (by == TN_NONE) continue;
        const tn_op *factor = tn_graph_op(it->model, by);
        if ((tn__op_is(factor, "Sigmoid") || tn__op_is(factor, "HardSigmoid")) &&
            factor->inputs[0] == x)
            return gate;
    }
    return TN_NONE;
}

/* If the operator only adds a bias to the result of a matrix product, returns that result, else
 * TN_NONE. */
static tn_tensor_id pytorch_biased(const tn__pytorch *it, const tn_op *op) {
    if (!tn__op_is(op, "Add") || op->input_count != 2) return TN_NONE;
    for (uint32_t k = 0; k < 2; k++) {
        tn_tensor_id product = op->inputs[k], bias = op->inputs[1 - k];
        if (product == TN_NONE || bias == TN_NONE || it->readers[product] != 1) continue;
        const tn_tensor *y = tn__pytorch_tensor(it, product), *b = tn__pytorch_tensor(it, bias);
        if (b->kind != TN_KIND_PARAMETER || b->rank != 1 || y->producer == TN_NONE) continue;
        if (tn__op_is(tn_graph_op(it->model, y->producer), "MatMul")) return product;
    }
    return TN_NONE;
}

/* Stores the tensors of the new graph that an operator reads in `ids`, which has a place for each
 * of its inputs. Returns their number. */
static uint32_t pytorch_operands(const tn__pytorch *it, const tn_op *op, tn_tensor_id *ids) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < op->input_count; k++)
        if (op->inputs[k] != TN_NONE && it->place[op->inputs[k]].id != TN_NONE)
            ids[count++] = it->place[op->inputs[k]].id;
    return count;
}

/* Adds an operator that allocates its results. `extra` is one more result, which is saved for the
 * gradient, or TN_NONE. */
static tn_status pytorch_run(tn__pytorch *it, tn_op_id id, tn_tensor_id extra, uint64_t workspace) {
    const tn_op *op = tn_graph_op(it->model, id);
    size_t room = (size_t)op->input_count + op->output_count + 2;
    tn_tensor_id *ids = tn__arena_array(&it->arena, room, sizeof *ids);
    if (ids == NULL) return tn__no_memory(it->error, "operands");
    uint32_t inputs = pytorch_operands(it, op, ids), outputs = 0;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE || it->place[op->outputs[k]].id != TN_NONE) continue;
        ids[inputs + outputs++] = op->outputs[k];
        it->place[op->outputs[k]].id = op->outputs[k];
    }
    it->extra[id] = extra;
    if (extra != TN_NONE) ids[inputs + outputs++] = extra;
    if (outputs == 0) return TN_OK; /* the result is known before the run, so nothing is computed */
    return tn__pytorch_emit(it, op->name, op->type, ids, inputs, ids + inputs, outputs, workspace);
}

/* Gives an elementwise result the strides of the first operand that has the shape of the result. */
static void pytorch_keep_strides(tn__pytorch *it, const tn_op *op) {
    const tn_tensor *y = tn__pytorch_tensor(it, op->outputs[0]);
    for (uint32_t k = 0; k < op->input_count; k++) {
        tn_tensor_id x = op->inputs[k];
        if (x == TN_NONE || tn__pytorch_tensor(it, x)->rank != y->rank ||
            tn__pytorch_tensor(it, x)->bytes != y->bytes)
            continue;
        if (!it->place[x].part) it->place[op->outputs[0]].strides = it->place[x].strides;
        return;
    }
}

/* Adds a matrix product. It views the leading dimensions of an operand as one dimension, or copies
 * the operand if that is not possible. */
static tn_status pytorch_matmul(tn__pytorch *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    tn_tensor_id b = op->inputs[1], y = op->outputs[0], ids[2];
    bool folds = tn__pytorch_tensor(it, b)->rank <= 2;
    for (uint32_t k = 0; k < 2; k++) {
        const tn_tensor *x = tn__pytorch_tensor(it, op->inputs[k]);
        pytorch_place place = it->place[op->inputs[k]];
        uint32_t front = x->rank > 2 ? x->rank - (folds ? 1 : 2) : 0;
        if (!tn__pytorch_collapses(x, &place, front))
            TN_TRY(tn__pytorch_contiguous(it, op->inputs[k], TN_KIND_ACTIVATION, &place));
        ids[k] = it->operands[2 * (size_t)id + k] = place.id;
    }
    it->place[y].id = y;
    return tn__pytorch_emit(it, op->name, op->type, ids, 2, &y, 1, 0);
}

/* Makes a view, or a copy if no view is possible. */
static tn_status pytorch_view(tn__pytorch *it, const tn_op *op, const pytorch_rule *rule,
                              uint32_t output) {
    tn_tensor_id x = op->inputs[0], y = op->outputs[output];
    const tn_tensor *from = tn__pytorch_tensor(it, x), *to = tn__pytorch_tensor(it, y);
    pytorch_place place = it->place[x];
    bool seen = rule->how == PYTORCH_VIEW     ? tn__pytorch_regroup(it, from, to, &place)
                : rule->how == PYTORCH_TURN   ? tn__pytorch_permute(it, op, false, &place)
                : rule->how == PYTORCH_GATHER ? pytorch_select(it, op, from, to, &place)
                                              : tn__pytorch_part(it, from, to, &place);
    it->place[y] = seen ? place : (pytorch_place){.id = y};
    if (seen) return TN_OK;
    return tn__pytorch_emit(it, op->name, op->type, &it->place[x].id, 1, &y, 1, 0);
}

static tn_status pytorch_forward_lstm(tn__pytorch *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    const tn_tensor *y = tn__pytorch_tensor(it, op->outputs[0]);
    int64_t shape[] = {PYTORCH_LSTM_KEEPS, (int64_t)(y->bytes * 8 / tn_dtype_bits(y->dtype))};
    tn_tensor_spec kept = {
        .name = "cells", .dtype = y->dtype, .flags = TN_TENSOR_STATED, .rank = 2, .shape = shape};
    tn_tensor_id extra;
    TN_TRY(tn__pytorch_new(it, &kept, &extra));
    /* x must be contiguous, because its products for all time steps are computed together */
    pytorch_place x = it->place[op->inputs[0]];
    TN_TRY(tn__pytorch_contiguous(it, op->inputs[0], TN_KIND_ACTIVATION, &x));
    it->operands[2 * (size_t)id] = x.id;
    it->operands[2 * (size_t)id + 1] = it->place[op->inputs[1]].id;
    return pytorch_run(it, id, extra, tn__mul_sat(4, y->bytes));
}

static tn_status pytorch_compute(tn__pytorch *it, tn_op_id id, const pytorch_rule *rule) {
    const tn_op *op = tn_graph_op(it->model, id);
    tn_tensor_id y = op->outputs[0], extra = TN_NONE;
    uint64_t workspace = 0;
    bool copies = rule->how == PYTORCH_COMPUTE || rule->how == PYTORCH_CONV;
    if (rule->how == PYTORCH_CONV) workspace = tn__pytorch_conv_scratch(it, op, false, false);
    for (uint32_t k = 0; k < op->input_count && copies; k++)
        if (op->inputs[k] != TN_NONE && it->place[op->inputs[k]].strides != NULL)
            workspace = tn__add_sat(workspace, tn__pytorch_tensor(it, op->inputs[k])->bytes);
    if ((rule->saves & SAVES_INDICES) && op->output_count == 1)
        TN_TRY(tn__pytorch_like(it, y, TN_INT64, TN_KIND_ACTIVATION, "indices", &extra));
    if (rule->saves & SAVES_MASK)
        TN_TRY(tn__pytorch_like(it, y, tn__pytorch_tensor(it, y)->dtype, TN_KIND_ACTIVATION, "mask",
                                &extra));
    TN_TRY(pytorch_run(it, id, extra, workspace));
    if (!copies) pytorch_keep_strides(it, op);
    return TN_OK;
}

/* Returns whether a Concat only joins parts of parameters, as in exports that write the gates of an
 * LSTM in another order. PyTorch uses the parameters directly. */
static bool pytorch_rearranged(const tn__pytorch *it, const tn_op *op) {
    for (uint32_t k = 0; k < op->input_count; k++) {
        tn_tensor_id base = op->inputs[k] != TN_NONE ? it->place[op->inputs[k]].id : TN_NONE;
        if (base == TN_NONE || base >= it->tensors ||
            tn__pytorch_tensor(it, base)->producer != TN_NONE ||
            tn__pytorch_tensor(it, base)->kind != TN_KIND_PARAMETER || !it->wanted[base])
            return false;
    }
    return true;
}

tn_status tn__pytorch_forward(tn__pytorch *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    const pytorch_rule *rule = tn__pytorch_find(it, op);
    bool flows = false;
    for (uint32_t k = 0; k < op->output_count; k++)
        flows = flows || (op->outputs[k] != TN_NONE && it->wanted[op->outputs[k]]);
    if (!flows || rule == NULL || op->outputs[0] == TN_NONE) return pytorch_run(it, id, TN_NONE, 0);
    /* PyTorch computes this operator as a part of the operator that reads its result. */
    if (it->fused[id]) {
        if (tn__op_is(op, "Pad")) it->place[op->outputs[0]] = it->place[op->inputs[0]];
        return TN_OK;
    }
    if (rule->how == PYTORCH_CONCAT && pytorch_rearranged(it, op)) {
        it->place[op->outputs[0]] = (pytorch_place){.id = it->place[op->inputs[0]].id};
        return TN_OK;
    }
    tn_tensor_id product = pytorch_biased(it, op);
    if (product != TN_NONE) {
        it->place[op->outputs[0]] = it->place[product];
        return TN_OK;
    }
    bool viewed = rule->how == PYTORCH_VIEW || rule->how == PYTORCH_TURN ||
                  rule->how == PYTORCH_PART || rule->how == PYTORCH_SLICE ||
                  tn__pytorch_selects(it, op);
    for (uint32_t k = 0; k < op->output_count && viewed; k++)
        if (op->outputs[k] != TN_NONE) TN_TRY(pytorch_view(it, op, rule, k));
    if (viewed) return TN_OK;
    if (rule->how == PYTORCH_MATMUL) return pytorch_matmul(it, id);
    if (rule->how == PYTORCH_LSTM) return pytorch_forward_lstm(it, id);
    return pytorch_compute(it, id, rule);
}
