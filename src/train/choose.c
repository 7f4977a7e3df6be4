/* choose.c - what is trained, and what has to run for it.
 *
 * Backward from the loss: an operator runs when something that is needed depends on it. With blocks
 * about all operators run, as blocks read tensors of any operator around them.
 * Then every parameter of a floating type that a running operator reads as a variable is trained,
 * unless a pattern names it. Scalars (rank 0) are none: exporters write numbers such as 0.5 as
 * initializers without dimensions.
 * Cost: O(operands).
 */
#include "graph/fold.h"
#include "train/frame.h"

/* --- who runs --- */

/* Softmax and LogSoftmax are part of the cross-entropy. */
static tn_tensor_id choose_scores(const tn__train *it, tn_tensor_id output) {
    const tn_tensor *tensor = tn_graph_tensor(it->model, output);
    if (it->options.loss != TN_LOSS_CROSS_ENTROPY || tensor->producer == TN_NONE) return output;
    const tn_op *op = tn_graph_op(it->model, tensor->producer);
    bool soft = strcmp(op->type, "Softmax") == 0 || strcmp(op->type, "LogSoftmax") == 0;
    return soft && op->domain[0] == '\0' ? op->inputs[0] : output;
}

static void choose_read(tn__train *it, tn_tensor_id id) {
    if (id != TN_NONE) it->read[id] = true;
}

static void choose_runs(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (tn_op_id id = 0; id < tn_graph_op_count(it->model); id++) {
        const tn_op *op = tn_graph_op(it->model, id);
        for (uint32_t k = 0; k < op->input_count; k++)
            if (op->inputs[k] != TN_NONE) it->uses[op->inputs[k]]++;
    }
    bool all = tn_graph_block_count(it->model) > 1;
    choose_read(it, it->scores);
    for (uint32_t k = 0; k < block->output_count && it->options.keep_outputs; k++)
        choose_read(it, block->outputs[k]);
    for (uint32_t i = block->op_count; i-- > 0;) {
        const tn_op *op = tn_graph_op(it->model, block->ops[i]);
        bool runs = all;
        for (uint32_t k = 0; k < op->output_count; k++)
            runs = runs || (op->outputs[k] != TN_NONE && it->read[op->outputs[k]]);
        it->runs[block->ops[i]] = runs;
        for (uint32_t k = 0; k < op->input_count && runs; k++) choose_read(it, op->inputs[k]);
        for (uint32_t k = 0; k < op->attr_count && runs; k++)
            if (op->attrs[k].type == TN_ATTR_TENSOR) choose_read(it, op->attrs[k].tensor);
    }
}

/* --- who is trained --- */

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

static tn_status choose_check(const tn__train *it, const bool *used) {
    for (uint32_t i = 0; i < it->options.freeze_count; i++)
        if (!used[i])
            TN_FAIL(it->error, TN_E_INVALID,
                    "no parameter matches '%.100s'; `tenure plan --json` lists their names",
                    it->options.freeze[i]);
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
            const tn_tensor *tensor = tn_graph_tensor(it->model, input);
            if (tensor->kind == TN_KIND_PARAMETER && tensor->rank > 0) it->trained[input] = true;
        }
    }
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        const tn_tensor *tensor = tn_graph_tensor(it->model, id);
        if (tensor->kind == TN_KIND_PARAMETER && choose_freezes(it, tensor->name, used))
            it->trained[id] = false;
    }
    return choose_check(it, used);
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
    if (it->trained == NULL || it->read == NULL || it->uses == NULL || it->runs == NULL)
        return tn__no_memory(it->error, "a training graph");
    it->scores = choose_scores(it, block->outputs[it->options.output]);
    choose_runs(it);
    return choose_trained(it);
}
