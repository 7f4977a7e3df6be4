/* needed.c - finds the parameters to train, and the operators that have to run for it.
 *
 * The walk goes backward from the loss: an operator runs if a needed tensor depends on it. If the
 * graph has blocks, almost all operators run, because blocks read tensors of any operator around
 * them. Then every parameter of floating type that a running operator reads as a variable is
 * trained, unless it is a constant of the formula (parameters.c) or a pattern excludes it.
 * Cost: O(operands).
 */
#include <stdio.h>
#include <string.h>

#include "graph/fold.h"
#include "graph/train/frame.h"

/* --- operators that run --- */

/* The product of the extents from `first` on. */
static uint64_t choose_span(const tn_tensor *tensor, uint32_t first) {
    uint64_t span = 1;
    for (uint32_t d = first; d < tensor->rank; d++)
        span = tn__mul_sat(span, (uint64_t)tensor->shape[d]);
    return span;
}

/* Whether a Softmax of `x` normalises over the axis that the loss of an output of shape `y` takes
 * for classes. */
static bool choose_is_of_classes(const tn_op *op, const tn_tensor *x, const tn_tensor *y) {
    /* all axes from this one on form one row */
    const bool old = op->version != 0 && op->version < 13;
    uint32_t classes = tn_loss_axis(y->rank, y->shape);
    int64_t axis = tn__attr_int(op, "axis", old ? 1 : -1);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis > x->rank || y->rank < 2) return false;
    uint64_t inner = old ? 1 : choose_span(x, (uint32_t)axis + 1);
    return choose_span(x, (uint32_t)axis) / (inner == 0 ? 1 : inner) ==
               (uint64_t)y->shape[classes] &&
           inner == choose_span(y, classes + 1);
}

/* Softmax and LogSoftmax become part of the cross-entropy, even if shape changes follow them. */
static tn_tensor_id choose_scores(const tn__train *it, tn_tensor_id output) {
    const tn_tensor *y = tn_graph_tensor(it->model, output);
    tn_tensor_id at = output;
    if (it->options.loss != TN_LOSS_CROSS_ENTROPY || !tn__shape_known(y)) return output;
    for (;;) {
        const tn_tensor *tensor = tn_graph_tensor(it->model, at);
        if (tensor->producer == TN_NONE || tensor->block != 0) return output;
        const tn_op *op = tn_graph_op(it->model, tensor->producer);
        bool soft = tn__op_is(op, "Softmax") || tn__op_is(op, "LogSoftmax");
        const tn_tensor *x = op->input_count > 0 && op->inputs[0] != TN_NONE
                                 ? tn_graph_tensor(it->model, op->inputs[0])
                                 : NULL;
        if (x == NULL || !tn__shape_known(x)) return output;
        if (soft) return choose_is_of_classes(op, x, y) ? op->inputs[0] : output;
        if (!tn__op_has(it->model, tensor->producer, TN_RULE_RESHAPES)) return output;
        at = op->inputs[0];
    }
}

static void choose_read(tn__train *it, tn_tensor_id id) {
    if (id != TN_NONE) it->read[id] = true;
}

/* Whether an operator's output is a parameter of its own: such an operator does nothing in
 * training. */
static bool choose_hands_out(const tn__train *it, const tn_op *op) {
    return op->output_count == 1 && op->outputs[0] != TN_NONE &&
           it->begins[op->outputs[0]] != TN_NONE;
}

static void choose_runs(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (tn_op_id id = 0; id < tn_graph_op_count(it->model); id++) {
        const tn_op *op = tn_graph_op(it->model, id);
        for (uint32_t k = 0; k < op->input_count; k++)
            if (op->inputs[k] != TN_NONE && !choose_hands_out(it, op)) it->uses[op->inputs[k]]++;
    }
    bool all = false;
    for (tn_block_id b = 1; b < tn_graph_block_count(it->model); b++)
        all = all || tn_graph_block(it->model, b)->owner != TN_NONE;
    for (uint32_t p = 0; p < it->part_count; p++) choose_read(it, it->parts[p]);
    for (uint32_t r = 0; r < it->rounds && it->part_count == 0; r++)
        choose_read(it, tn__train_in_round(it, it->scores, r));
    for (uint32_t k = 0; k < block->output_count && it->options.keep_outputs; k++)
        choose_read(it, block->outputs[k]);
    for (uint32_t i = block->op_count; i-- > 0;) {
        const tn_op *op = tn_graph_op(it->model, block->ops[i]);
        bool runs = all;
        for (uint32_t k = 0; k < op->output_count; k++)
            runs = runs || (op->outputs[k] != TN_NONE && it->read[op->outputs[k]]);
        runs = runs && !choose_hands_out(it, op);
        it->runs[block->ops[i]] = runs;
        for (uint32_t k = 0; k < op->input_count && runs; k++) choose_read(it, op->inputs[k]);
        for (uint32_t k = 0; k < op->attr_count && runs; k++)
            if (op->attrs[k].type == TN_ATTR_TENSOR) choose_read(it, op->attrs[k].tensor);
    }
}

/* --- trained parameters --- */

bool tn__train_flows(const tn_graph *graph, const tn_op *op, const tn_op_rule *rule,
                     uint32_t input) {
    if (op->inputs[input] == TN_NONE) return false;
    uint64_t fixed = rule != NULL ? rule->no_gradient : 0;
    if (input < 64 && (fixed >> input & 1)) return false;
    return tn__is_float(tn_graph_tensor(graph, op->inputs[input])->dtype);
}

static bool choose_freezes(const tn__train *it, const char *name, bool *used) {
    bool frozen = false;
    for (uint32_t i = 0; i < it->options.freeze_count; i++) {
        if (!tn__glob(it->options.freeze[i], name)) continue;
        used[i] = frozen = true;
    }
    return frozen;
}

#define CHOOSE_SHOWN 3u /* parameters that a message names */

static tn_status choose_fail_unmatched(const tn__train *it, const char *pattern) {
    char names[CHOOSE_SHOWN * 48] = "";
    uint32_t count = 0;
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        if (!tn__train_is_parameter(it, id) || count++ >= CHOOSE_SHOWN) continue;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s'%.40s'", count > 1 ? ", " : "",
                 tn_graph_tensor(it->model, id)->name);
    }
    TN_FAIL(it->error, TN_E_INVALID, "no parameter matches '%.100s' of `freeze`; %s%s%s", pattern,
            count > 0 ? "parameters are " : "there are none", names,
            count > CHOOSE_SHOWN ? " and others" : "");
}

static tn_status choose_check(const tn__train *it, const bool *used) {
    for (uint32_t i = 0; i < it->options.freeze_count; i++)
        if (!used[i]) return choose_fail_unmatched(it, it->options.freeze[i]);
    for (tn_tensor_id id = 0; id < it->tensors; id++)
        if (it->trained[id]) return TN_OK;
    TN_FAIL(it->error, TN_E_INVALID,
            "the loss depends on no parameter that could be trained; are all of them frozen?");
}

static tn_status choose_trained(tn__train *it) {
    bool *used = tn__arena_array(&it->arena, (size_t)it->options.freeze_count + 1, sizeof *used);
    if (used == NULL) return tn__no_memory(it->error, "patterns");
    for (tn_op_id id = 0; id < tn_graph_op_count(it->model); id++) {
        const tn_op *op = tn_graph_op(it->model, id);
        if (!it->runs[id] || op->block != 0) continue;
        for (uint32_t i = 0; i < op->input_count; i++) {
            tn_tensor_id input = op->inputs[i];
            if (!tn__train_flows(it->model, op, it->model->rules[id], i)) continue;
            if (tn__train_is_parameter(it, input) && !it->constant[input])
                it->trained[input] = true;
        }
    }
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        const char *name = tn_graph_tensor(it->model, id)->name;
        if (tn__train_is_parameter(it, id) && choose_freezes(it, name, used))
            it->trained[id] = false;
    }
    return choose_check(it, used);
}

/* Marks tensors that depend on a trained parameter, through operands that gradients flow to. */
static void choose_depends(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (tn_tensor_id id = 0; id < it->tensors; id++) it->depends[id] = it->trained[id];
    for (uint32_t p = 0; p < block->op_count; p++) {
        tn_op_id id = block->ops[p];
        const tn_op *op = tn_graph_op(it->model, id);
        bool depends = false;
        for (uint32_t i = 0; i < op->input_count && it->runs[id]; i++)
            depends = depends || (tn__train_flows(it->model, op, it->model->rules[id], i) &&
                                  it->depends[op->inputs[i]]);
        for (uint32_t k = 0; k < op->output_count && depends; k++)
            if (op->outputs[k] != TN_NONE) it->depends[op->outputs[k]] = true;
    }
}

tn_status tn__train_choose(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    if (it->options.output >= block->output_count)
        TN_FAIL(it->error, TN_E_INVALID, "the model has %u outputs; there is no output %u",
                block->output_count, it->options.output);
    it->trained = tn__arena_array(&it->arena, it->tensors, sizeof *it->trained);
    it->read = tn__arena_array(&it->arena, it->tensors, sizeof *it->read);
    it->uses = tn__arena_array(&it->arena, it->tensors, sizeof *it->uses);
    it->runs = tn__arena_array(&it->arena, tn_graph_op_count(it->model), sizeof *it->runs);
    it->depends = tn__arena_array(&it->arena, it->tensors, sizeof *it->depends);
    if (!it->trained || !it->read || !it->uses || !it->runs || !it->depends)
        return tn__no_memory(it->error, "a training graph");
    it->shaped = block->outputs[it->options.output];
    it->scores = choose_scores(it, it->shaped);
    TN_TRY(tn__train_parameters(it));
    choose_runs(it);
    TN_TRY(tn__train_constants(it));
    TN_TRY(choose_trained(it));
    choose_depends(it);
    return TN_OK;
}
