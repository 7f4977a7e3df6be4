/* rebatch.c - finds the batch of a graph, and changes it in a graph that was exported with a fixed
 * batch in its constants.
 *
 * Exporters that trace a model write the shape of a Reshape as they saw it, including the batch. A
 * reshape keeps the order of elements, which determines the place of the batch. In the input it is
 * the slowest part of axis a, and P is the product of the extents before it; in the output it is
 * the slowest part of the axis with the same product P before it. Extents of 1 leave several such
 * axes; the batch then stays at axis a, or moves to the only axis with its extent. If no axis is
 * the batch alone, the batch may also be the fastest part of the axis before: [tokens, batch x
 * heads, size] becomes [tokens x batch, heads x size]. That is assumed if the constant has -1
 * there, or if a reader of the output, a matrix or a bias, rules out the other axis. Otherwise the
 * place is not certain, and the graph is refused. An Expand and a Resize keep the batch on its
 * axis.
 *
 * Some tensors have no batch of their own but are repeated for every sample: a class token by
 * Expand, zeros for a recurrent state by ConstantOfShape. Such a tensor must have the batch of the
 * tensor that it is joined to along another axis, or of the samples for which it is the first
 * state. This is found only after its producer was inferred, so inference begins again with the
 * changed shape of the producer.
 *
 * Inference finds the place of the batch: shapes with the new batch are compared with those of the
 * reference, axis by axis. Cost: O(operands) in addition to inference.
 */
#include "graph/attr.h"
#include "graph/infer/infer.h"
#include "graph/op.h"
#include "graph/store.h"

#include <stdio.h>

/* --- where the batch is in an input and an output of a Reshape -------------------------------- */

/* Finds the axis of a tensor that carries the batch: the one axis with an extent that differs
 * between the graph with the old batch (`was`) and the graph with the new batch (`is`). Sets
 * TN_NONE if no extent differs. Returns false if several extents differ, if an extent changes by
 * another factor than the batch, or if the ranks differ. */
static bool rebatch_axis(const tn__rebatch *it, const tn_tensor *was, const tn_tensor *is,
                         uint32_t *axis) {
    *axis = TN_NONE;
    if (was->rank == TN_RANK_UNKNOWN || is->rank != was->rank) return false;
    for (uint32_t d = 0; d < is->rank; d++) {
        if (is->shape[d] == was->shape[d]) continue;
        if (*axis != TN_NONE || was->shape[d] < 1 || was->shape[d] % it->from != 0) return false;
        if (is->shape[d] / it->to != was->shape[d] / it->from || is->shape[d] % it->to != 0)
            return false;
        *axis = d;
    }
    return true;
}

static uint64_t rebatch_before(const tn_tensor *tensor, uint32_t axis) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < axis; d++) count = tn__mul_sat(count, (uint64_t)tensor->shape[d]);
    return count;
}

/* Finds the axis of the output that can hold the batch as its fastest part, where the product of
 * the extents up to and including that axis is `before` times the batch; TN_NONE: no such axis. */
static uint32_t rebatch_inward(const tn__rebatch *it, const tn_tensor *output, uint64_t before) {
    for (uint32_t d = 0; d < output->rank; d++) {
        uint64_t own = (uint64_t)(output->shape[d] / it->from);
        if (output->shape[d] > it->from && output->shape[d] % it->from == 0 &&
            tn__mul_sat(rebatch_before(output, d), own) == before)
            return d;
    }
    return TN_NONE;
}

/* Finds the axis of a Reshape's output to which the batch on axis `from` of its input goes. Returns
 * false if that is not certain. */
static bool rebatch_goal(tn__rebatch *it, const tn_op *op, const tn_tensor *input, uint32_t from,
                         const tn_tensor *output, bool inward, uint32_t *goal) {
    uint64_t before = rebatch_before(input, from);
    uint32_t pure = 0, only = 0, merged = TN_NONE, inner;
    bool stays = false;
    if (it->inner[op->inputs[0]])
        before = tn__mul_sat(before, (uint64_t)(input->shape[from] / it->from));
    for (uint32_t d = 0; d < output->rank; d++) {
        if (rebatch_before(output, d) != before) continue;
        if (output->shape[d] == it->from) {
            stays = stays || d == from;
            only = d;
            pure++;
        } else if (output->shape[d] > 0 && output->shape[d] % it->from == 0 && merged == TN_NONE)
            merged = d;
    }
    inner =
        pure == 0 && (inward || merged == TN_NONE) ? rebatch_inward(it, output, before) : TN_NONE;
    it->inner[op->outputs[0]] = inner != TN_NONE;
    *goal = stays ? from : pure == 1 ? only : inner != TN_NONE ? inner : merged;
    return stays || pure == 1 || (pure == 0 && *goal != TN_NONE);
}

static void rebatch_words(char *text, size_t room, const int64_t *shape, uint32_t count) {
    size_t used = (size_t)snprintf(text, room, "[");
    for (uint32_t d = 0; d < count && used + 24 < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d > 0 ? "," : "",
                                 (long long)shape[d]);
    snprintf(text + used, room - used, "]");
}

static const tn_tensor *rebatch_was(const tn__rebatch *it, tn_tensor_id id) {
    return id < tn_graph_tensor_count(it->reference) ? tn_graph_tensor(it->reference, id) : NULL;
}

static bool rebatch_is(const tn_infer *infer, const char *type) {
    return strcmp(infer->op->type, type) == 0 && *infer->op->domain == '\0';
}

/* --- constants that give the shape of an operator's output --- */

/* The operand that gives the output's shape; TN_NONE: no operand does. */
static uint32_t rebatch_shape_operand(const tn_op *op) {
    static const struct {
        const char *type;
        uint32_t operand;
    } rows[] = {{"Reshape", 1}, {"Expand", 1}, {"Resize", 3}, {"ConstantOfShape", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && *op->domain == '\0'; i++)
        if (strcmp(op->type, rows[i].type) == 0)
            return rows[i].operand < op->input_count && op->inputs[rows[i].operand] != TN_NONE
                       ? rows[i].operand
                       : TN_NONE;
    return TN_NONE;
}

/* Whether the constant gives the wanted shape without a change, because its -1 and 0 follow the
 * input. */
static bool rebatch_follows(const tn_infer *infer, const tn_value *target, const tn_tensor *input,
                            const int64_t *wanted) {
    bool copies = tn__attr_int(infer->op, "allowzero", 0) == 0;
    for (uint32_t d = 0; d < target->count; d++) {
        int64_t extent = target->ints[d];
        if (extent == 0 && copies) extent = d < input->rank ? input->shape[d] : -2;
        if (extent != -1 && extent != wanted[d]) return false;
    }
    return true;
}

/* Replaces the constant of operator `op` by a changed copy, because other operators may read the
 * original, too. */
static tn_status rebatch_change(tn_infer *infer, tn__rebatch *it, tn_op_id op,
                                const tn_value *target, const int64_t *wanted) {
    tn_graph *graph = infer->graph;
    uint32_t operand = rebatch_shape_operand(&graph->ops[op]);
    const tn_tensor *shape = &graph->tensors[graph->ops[op].inputs[operand]];
    char name[200], was[100];
    int64_t extents[TN_RANK_MAX], count = target->count;
    tn_tensor_id id;
    for (uint32_t d = 0; d < target->count; d++)
        extents[d] = target->ints[d] == -1 ? -1 : wanted[d];
    snprintf(name, sizeof name, "%.120s (batch %lld, for %u)", shape->name, (long long)it->to, op);
    tn_tensor_spec spec = {.name = name,
                           .dtype = TN_INT64,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = &count,
                           .value = {.count = target->count, .ints = extents}};
    rebatch_words(was, sizeof was, target->ints, target->count);
    const tn_op *changed = &graph->ops[op];
    if (it->changed++ == 0 && changed->name[0] != '\0')
        snprintf(it->first, sizeof it->first, "%s of '%.60s'", was, changed->name);
    else if (it->changed == 1)
        snprintf(it->first, sizeof it->first, "%s of %.60s #%u", was, changed->type, op);
    TN_TRY(tn_graph_add_tensor(graph, &spec, &id, infer->error));
    TN_TRY(tn__settle_size(graph, id, infer->error));
    ((tn_tensor_id *)(uintptr_t)graph->ops[op].inputs)[operand] = id;
    return TN_OK;
}

static tn_status rebatch_unsure(tn_infer *infer, const tn_tensor *input) {
    return tn__infer_fail(
        infer, "it is not certain which extent of this shape is the batch of '%.80s'", input->name);
}

/* Finds the axis of the output of a Resize or an Expand to which axis `from` of its input goes. */
static bool rebatch_kept(const tn_tensor *input, uint32_t from, const tn_tensor *output,
                         uint32_t *goal) {
    if (output->rank < input->rank) return false;
    /* Expand aligns the axes of its input at the last axis of its output */
    *goal = from + (output->rank - input->rank);
    return true;
}

/* Whether the constant shape of a Reshape has -1 at the axis along which the batch would vary
 * fastest. */
static bool rebatch_swallows(const tn__rebatch *it, const tn_op *op, const tn_value *target,
                             const tn_tensor *input, uint32_t from, const tn_tensor *output) {
    uint64_t before = rebatch_before(input, from);
    if (it->inner[op->inputs[0]])
        before = tn__mul_sat(before, (uint64_t)(input->shape[from] / it->from));
    uint32_t d = rebatch_inward(it, output, before);
    return d != TN_NONE && d < target->count && target->ints[d] == -1;
}

/* Computes the shape that the operator must give. Sets *known to false if its input has no batch,
 * or if a shape is unknown. Fails if it is not certain to which axis the batch goes. */
static tn_status rebatch_wanted(tn_infer *infer, tn__rebatch *it, const tn_value *target,
                                int64_t *wanted, bool *known) {
    const tn_op *op = infer->op;
    const tn_tensor *is = &infer->graph->tensors[op->inputs[0]];
    const tn_tensor *was = rebatch_was(it, op->inputs[0]), *gave = rebatch_was(it, op->outputs[0]);
    uint32_t axis, goal = 0;
    *known = false;
    if (was == NULL || gave == NULL || gave->rank == TN_RANK_UNKNOWN) return TN_OK;
    if (is->rank == TN_RANK_UNKNOWN || (is->flags & TN_TENSOR_BOUND) != 0) return TN_OK;
    if (!rebatch_axis(it, was, is, &axis)) return rebatch_unsure(infer, is);
    if (axis == TN_NONE) return TN_OK;
    bool inward = it->inward[infer->id] || rebatch_swallows(it, op, target, was, axis, gave);
    if (rebatch_is(infer, "Reshape") ? !rebatch_goal(it, op, was, axis, gave, inward, &goal)
                                     : !rebatch_kept(was, axis, gave, &goal))
        return rebatch_unsure(infer, is);
    for (uint32_t d = 0; d < gave->rank; d++) {
        wanted[d] = gave->shape[d];
        if (wanted[d] == TN_DIM_UNKNOWN) return TN_OK;
    }
    if (__builtin_mul_overflow(wanted[goal] / it->from, it->to, &wanted[goal]))
        return rebatch_unsure(infer, is);
    *known = true;
    return TN_OK;
}

/* Returns the known value of the operand that gives an operator's shape, if it is the same as in
 * the reference, so that it does not follow the batch yet; otherwise NULL. */
static const tn_value *rebatch_written(const tn_graph *graph, const tn__rebatch *it, tn_op_id id) {
    const tn_op *op = &graph->ops[id];
    uint32_t operand = rebatch_shape_operand(op);
    if (op->block != 0 || operand == TN_NONE || op->output_count != 1 ||
        op->outputs[0] == TN_NONE || op->inputs[0] == TN_NONE)
        return NULL;
    const tn_value *is = graph->tensors[op->inputs[operand]].value;
    const tn_tensor *tensor = rebatch_was(it, op->inputs[operand]);
    const tn_value *was = tensor != NULL ? tensor->value : NULL;
    bool same = is != NULL && was != NULL && is->ints != NULL && was->ints != NULL &&
                is->count == was->count && is->count <= TN_RANK_MAX &&
                memcmp(is->ints, was->ints, is->count * sizeof *is->ints) == 0;
    return same ? is : NULL;
}

/* --- tensors without a batch that are joined to tensors with one --- */

/* The axis on which operand `k` must have the batch because the other operands have it; TN_NONE:
 * there is no such axis. */
static uint32_t rebatch_partner_axis(const tn_infer *infer, const tn__rebatch *it, uint32_t k) {
    const tn_op *op = infer->op;
    const tn_graph *graph = infer->graph;
    bool joins = rebatch_is(infer, "Concat");
    bool begins =
        (rebatch_is(infer, "LSTM") || rebatch_is(infer, "GRU") || rebatch_is(infer, "RNN")) &&
        (k == 5 || k == 6);
    for (uint32_t i = 0; (joins || begins) && i < op->input_count; i++) {
        const tn_tensor *was = op->inputs[i] != TN_NONE ? rebatch_was(it, op->inputs[i]) : NULL;
        uint32_t axis;
        if (i == k || was == NULL || graph->tensors[op->inputs[i]].rank == TN_RANK_UNKNOWN)
            continue;
        if (!rebatch_axis(it, was, &graph->tensors[op->inputs[i]], &axis) || axis == TN_NONE)
            continue;
        /* a recurrent operator's input is [steps, batch, inputs] */
        if (begins) return i == 0 && axis == 1 ? 1 : TN_NONE;
        int64_t along = tn__attr_int(op, "axis", 1);
        return axis != (uint32_t)(along < 0 ? along + was->rank : along) ? axis : TN_NONE;
    }
    return TN_NONE;
}

/* Changes the producer of operand `k`, which made a tensor for the file's batch from inputs without
 * a batch. The producer gets the new batch, and inference must begin again. */
static tn_status rebatch_lift(tn_infer *infer, tn__rebatch *it, uint32_t k) {
    const tn_graph *graph = infer->graph;
    tn_tensor_id id = infer->op->inputs[k];
    const tn_tensor *is = &graph->tensors[id], *was = rebatch_was(it, id);
    uint32_t axis = rebatch_partner_axis(infer, it, k), own;
    int64_t wanted[TN_RANK_MAX];
    if (axis == TN_NONE || was == NULL || is->producer == TN_NONE) return TN_OK;
    const tn_op *maker = &graph->ops[is->producer];
    const tn_value *target = rebatch_written(graph, it, is->producer);
    bool repeats = strcmp(maker->type, "Expand") == 0 || rebatch_shape_operand(maker) == 0;
    if (target == NULL || !repeats || target->count != is->rank || axis >= is->rank) return TN_OK;
    if (!rebatch_axis(it, was, is, &own) || own != TN_NONE || is->shape[axis] != it->from)
        return TN_OK;
    memcpy(wanted, target->ints, target->count * sizeof *wanted);
    wanted[axis] = it->to;
    it->again = true;
    return rebatch_change(infer, it, is->producer, target, wanted);
}

/* --- a Reshape that has put the batch on an axis where it cannot be --- */

/* Whether the extent of the last axis of operand 0 is fixed because the operator multiplies by a
 * matrix or adds a bias. */
static bool rebatch_is_bound(const tn_infer *infer, const tn_tensor *is, const tn_tensor *was) {
    const tn_op *op = infer->op;
    if (op->input_count < 2 || op->inputs[1] == TN_NONE) return false;
    const tn_tensor *by = &infer->graph->tensors[op->inputs[1]];
    if (!tn_tensor_is_constant(by) && by->kind != TN_KIND_PARAMETER) return false;
    if (by->rank == TN_RANK_UNKNOWN || by->rank == 0) return false;
    int64_t extent = is->shape[is->rank - 1];
    if (extent == was->shape[was->rank - 1]) return false;
    if (rebatch_is(infer, "Gemm")) {
        bool turned = tn__attr_int(op, "transB", 0) != 0;
        return by->rank == 2 && tn__attr_int(op, "transA", 0) == 0 &&
               by->shape[turned ? 1 : 0] != extent;
    }
    if (rebatch_is(infer, "MatMul")) return by->rank == 2 && by->shape[0] != extent;
    bool adds = rebatch_is(infer, "Add") || rebatch_is(infer, "Sub") || rebatch_is(infer, "Mul") ||
                rebatch_is(infer, "Div");
    return adds && by->shape[by->rank - 1] != 1 && by->shape[by->rank - 1] != extent;
}

/* Handles an operand from a Reshape that has put the batch on an axis where it cannot be: makes the
 * Reshape use the other axis, and inference run once more. */
static void rebatch_turn(tn_infer *infer, tn__rebatch *it) {
    tn_graph *graph = infer->graph;
    const tn_op *op = infer->op;
    if (op->block != 0 || op->input_count == 0 || op->inputs[0] == TN_NONE) return;
    const tn_tensor *is = &graph->tensors[op->inputs[0]], *was = rebatch_was(it, op->inputs[0]);
    uint32_t axis;
    if (was == NULL || is->producer == TN_NONE || it->inward[is->producer]) return;
    if (is->rank == TN_RANK_UNKNOWN || is->rank == 0 || !rebatch_axis(it, was, is, &axis)) return;
    const tn_op *maker = &graph->ops[is->producer];
    if (axis + 1 != is->rank || strcmp(maker->type, "Reshape") != 0) return;
    if (!rebatch_is_bound(infer, is, was)) return;
    tn_tensor_id own = it->reference->ops[is->producer].inputs[1];
    it->changed -= own != maker->inputs[1];
    ((tn_tensor_id *)(uintptr_t)maker->inputs)[1] = own;
    it->inward[is->producer] = true;
    it->again = true;
}

/* --- changes before an operator is inferred --- */

/* Converts the wanted shape of an output to the form of the operator's constant: an Expand may omit
 * leading axes, and an extent of 1 follows its input. */
static void rebatch_cut(const tn_infer *infer, const tn_value *target, uint32_t rank,
                        int64_t *wanted) {
    if (!rebatch_is(infer, "Expand") || target->count > rank) return;
    memmove(wanted, wanted + (rank - target->count), target->count * sizeof *wanted);
    for (uint32_t d = 0; d < target->count; d++)
        if (target->ints[d] == 1) wanted[d] = 1;
}

tn_status tn__rebatch_before(tn_infer *infer, tn__rebatch *rebatch) {
    const tn_op *op = infer->op;
    int64_t wanted[TN_RANK_MAX];
    bool known;
    rebatch_turn(infer, rebatch);
    for (uint32_t k = 0; op->block == 0 && k < op->input_count; k++)
        if (op->inputs[k] != TN_NONE) TN_TRY(rebatch_lift(infer, rebatch, k));
    const tn_value *target = rebatch_written(infer->graph, rebatch, infer->id);
    if (target == NULL || rebatch_shape_operand(op) == 0) return TN_OK;
    TN_TRY(rebatch_wanted(infer, rebatch, target, wanted, &known));
    if (!known) return TN_OK;
    uint32_t rank = rebatch_was(rebatch, op->outputs[0])->rank;
    rebatch_cut(infer, target, rank, wanted);
    /* a Resize may give the extents of only some axes */
    if (!rebatch_is(infer, "Expand") && target->count != rank) return TN_OK;
    const tn_tensor *input = &infer->graph->tensors[op->inputs[0]];
    if (rebatch_is(infer, "Reshape")
            ? rebatch_follows(infer, target, input, wanted)
            : memcmp(target->ints, wanted, target->count * sizeof *wanted) == 0)
        return TN_OK;
    return rebatch_change(infer, rebatch, infer->id, target, wanted);
}

/* --- checks after an operator was inferred: its output must have the batch of its input --- */

static bool rebatch_cuts(const tn_infer *infer) {
    static const char *const types[] = {"Slice",    "Gather",  "GatherND", "Resize",
                                        "Upsample", "Reshape", "Crop"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (rebatch_is(infer, types[i])) return true;
    return false;
}

/* Marks the outputs of an operator other than Reshape if one of its inputs has the batch as the
 * fastest part of an axis. */
static void rebatch_pass(const tn_infer *infer, tn__rebatch *it) {
    const tn_op *op = infer->op;
    bool inner = false;
    if (op->block != 0 || rebatch_is(infer, "Reshape")) return;
    for (uint32_t k = 0; k < op->input_count; k++)
        inner = inner || (op->inputs[k] != TN_NONE && op->inputs[k] < it->tensors &&
                          it->inner[op->inputs[k]]);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && op->outputs[k] < it->tensors)
            it->inner[op->outputs[k]] = inner;
}

tn_status tn__rebatch_after(tn_infer *infer, tn__rebatch *rebatch) {
    const tn_op *op = infer->op;
    uint32_t axis;
    rebatch_pass(infer, rebatch);
    bool cuts = op->block == 0 && rebatch_cuts(infer) && op->input_count > 0 &&
                op->output_count > 0 && op->inputs[0] != TN_NONE && op->outputs[0] != TN_NONE;
    if (!cuts) return TN_OK;
    const tn_tensor *was = rebatch_was(rebatch, op->inputs[0]);
    const tn_tensor *gave = rebatch_was(rebatch, op->outputs[0]);
    const tn_tensor *is = &infer->graph->tensors[op->inputs[0]];
    if (was == NULL || gave == NULL || !rebatch_axis(rebatch, was, is, &axis) || axis == TN_NONE)
        return TN_OK;
    if (rebatch_axis(rebatch, gave, &infer->graph->tensors[op->outputs[0]], &axis) &&
        axis != TN_NONE)
        return TN_OK;
    return tn__infer_fail(infer, "it takes a batch of %lld out of '%.80s', whatever that has",
                          (long long)rebatch->from, is->name);
}

/* --- the first input of the graph, by whose first extent samples are counted ------------------ */

/* Decides whether the first extent of an input counts samples (infer.h). */

/* Rank of an input that may be one image. A batch of sequences [batch, time, features] has rank 3,
 * too. */
#define BATCH_IMAGE_RANK 3u

static tn_tensor_id batch_first(const tn_graph *graph) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        if (!tn_tensor_is_static(tensor) && tensor->rank > 0 && tensor->rank != TN_RANK_UNKNOWN)
            return block->inputs[i];
    }
    return TN_NONE;
}

/* Whether an Unsqueeze adds an axis before all others. The axes are an attribute, or since opset 13
 * an input that must be known. */
static bool batch_is_made(const tn_graph *graph, const tn_op *op) {
    uint32_t count = 0;
    const int64_t *axes = tn__attr_ints(op, "axes", &count);
    if (strcmp(op->type, "Unsqueeze") != 0) return false;
    if (axes == NULL && op->input_count > 1 && op->inputs[1] != TN_NONE) {
        const tn_value *value = tn_graph_tensor(graph, op->inputs[1])->value;
        axes = value != NULL ? value->ints : NULL;
        count = value != NULL ? (uint32_t)value->count : 0;
    }
    return axes != NULL && count == 1 &&
           (axes[0] == 0 || axes[0] == -(int64_t)BATCH_IMAGE_RANK - 1);
}

/* Whether an operator keeps the extents in place: its outputs have the shape of its input. */
static bool batch_goes_on(const tn_graph *graph, tn_op_id id, const tn_op *op) {
    const tn_op_rule *rule = tn__rule_of(graph, id);
    bool each = rule != NULL && (rule->flags & (TN_RULE_ARITHMETIC | TN_RULE_IMAGES)) != 0;
    return each || strcmp(op->type, "Cast") == 0 || strcmp(op->type, "Identity") == 0;
}

static bool batch_walk(const tn_graph *graph, uint8_t *carries) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t i = 0; i < block->op_count; i++) {
        const tn_op *op = tn_graph_op(graph, block->ops[i]);
        bool any = op->input_count > 0 && op->inputs[0] != TN_NONE && carries[op->inputs[0]] > 0;
        if (any && batch_is_made(graph, op)) return true;
        for (uint32_t k = 1; k < op->input_count; k++)
            any = any || (op->inputs[k] != TN_NONE && carries[op->inputs[k]] > 0);
        for (uint32_t k = 0; any && k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE && batch_goes_on(graph, block->ops[i], op))
                carries[op->outputs[k]] = 1;
    }
    return false;
}

tn_status tn__graph_batch_input(const tn_graph *graph, tn_tensor_id *input, bool *single,
                                tn_error *error) {
    tn_context context = tn__context(NULL);
    size_t count = tn_graph_tensor_count(graph);
    *input = batch_first(graph);
    *single = false;
    if (*input == TN_NONE || tn_graph_tensor(graph, *input)->rank != BATCH_IMAGE_RANK) return TN_OK;
    uint8_t *carries = tn__alloc_array(&context, count, sizeof *carries);
    if (carries == NULL) return tn__no_memory(error, "the batch");
    carries[*input] = 1;
    *single = batch_walk(graph, carries);
    tn__free(&context, carries, count * sizeof *carries);
    return TN_OK;
}
