/* backward.c - reverse-mode differentiation: visits operators from last to first and applies the
 * gradient rule of each.
 *
 * A tensor's gradient is complete when all its readers have been visited, since they all follow its
 * producer. Gradients from several readers are summed as they come, two at a time, so at most two
 * are live at once. Only tensors that depend on a trained parameter get a gradient, so frozen parts
 * of a network keep nothing.
 * Source: Linnainmaa 1970; Griewank, Walther, Evaluating Derivatives, chapter 3.
 * Cost: O(operands), and the operators that the rules add.
 */
#include "graph/train/frame.h"

static tn_status backward_room(tn__train *it) {
    it->forward = tn_graph_tensor_count(it->graph);
    it->needs = tn__arena_array(&it->arena, it->forward, sizeof *it->needs);
    it->gradient = tn__arena_array(&it->arena, it->forward, sizeof *it->gradient);
    it->readers = tn__arena_array(&it->arena, it->forward, sizeof *it->readers);
    it->arrived = tn__arena_array(&it->arena, it->made.parameter_count, sizeof *it->arrived);
    it->waiting = tn__arena_array(&it->arena, it->made.parameter_count, sizeof *it->waiting);
    if (it->needs == NULL || it->gradient == NULL || it->readers == NULL || it->arrived == NULL ||
        it->waiting == NULL)
        return tn__no_memory(it->error, "the backward pass");
    for (uint32_t i = 0; i < it->forward; i++) it->gradient[i] = TN_NONE;
    return TN_OK;
}

static bool backward_has_blocks(const tn_op *op) {
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].type == TN_ATTR_BLOCK) return true;
    return false;
}

/* Whether a block belongs to operator `id`, directly or through nested blocks. */
static bool backward_is_in(const tn__train *it, tn_block_id block, tn_op_id id) {
    while (block != 0) {
        tn_op_id owner = tn_graph_block(it->graph, block)->owner;
        if (owner == id) return true;
        if (owner == TN_NONE) return false;
        block = tn_graph_op(it->graph, owner)->block;
    }
    return false;
}

/* Whether the blocks of an operator read a tensor that depends on a trained parameter. Such a
 * tensor is not an operand of the operator. */
static bool backward_captures(const tn__train *it, tn_op_id id) {
    for (tn_op_id other = 0; other < tn_graph_op_count(it->graph); other++) {
        const tn_op *op = tn_graph_op(it->graph, other);
        bool reads = false;
        for (uint32_t i = 0; i < op->input_count && op->block != 0; i++)
            reads = reads || (op->inputs[i] != TN_NONE && it->needs[op->inputs[i]]);
        if (reads && backward_is_in(it, op->block, id)) return true;
    }
    for (tn_block_id b = 1; b < tn_graph_block_count(it->graph); b++) {
        const tn_block *block = tn_graph_block(it->graph, b);
        bool hands = false;
        for (uint32_t k = 0; k < block->output_count; k++)
            hands = hands || it->needs[block->outputs[k]];
        if (hands && backward_is_in(it, b, id)) return true;
    }
    return false;
}

/* Marks the tensors that depend on a trained parameter through operands that gradients flow to, and
 * counts the readers of every tensor. */
static void backward_mark(tn__train *it, const tn_op_id *ops, uint32_t count) {
    for (tn_tensor_id id = 0; id < it->tensors; id++) it->needs[id] = it->trained[id];
    for (uint32_t p = 0; p < count; p++) {
        const tn_op *op = tn_graph_op(it->graph, ops[p]);
        bool needs = false;
        for (uint32_t i = 0; i < op->input_count; i++) {
            if (op->inputs[i] == TN_NONE) continue;
            it->readers[op->inputs[i]]++;
            if (it->needs[op->inputs[i]] &&
                tn__train_flows(it->graph, op, it->graph->rules[ops[p]], i))
                needs = true;
        }
        if (!needs && backward_has_blocks(op)) needs = backward_captures(it, ops[p]);
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE) it->needs[op->outputs[k]] = needs;
    }
}

/* Applies the gradient rule of one operator, and adds the gradients that it returns to those of the
 * operands. */
static tn_status backward_ask(tn__train *it, tn_gradient *ask, const tn_op_rule *rule) {
    const tn_op *op = &ask->op;
    if (rule == NULL || rule->gradient == NULL || backward_has_blocks(op)) {
        tn_status status = tn__fail(it->error, TN_E_UNSUPPORTED,
                                    "this operator has no gradient, but lies between a trained "
                                    "parameter and the loss; freeze what is before it");
        return tn__op_where(it->graph, ask->id, it->error, status);
    }
    TN_TRY(rule->gradient(ask));
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!ask->wanted[i] || ask->found[i] == TN_NONE) continue;
        TN_TRY(tn__train_add_gradient(it, ask, op->inputs[i], ask->found[i]));
    }
    return TN_OK;
}

static tn_status backward_visit(tn__train *it, tn_op_id id) {
    tn_gradient ask = {
        .graph = it->graph, .op = *tn_graph_op(it->graph, id), .id = id, .error = it->error};
    const tn_op_rule *rule = it->graph->rules[id];
    ask.version = ask.op.version != 0 ? ask.op.version : UINT32_MAX;
    tn_tensor_id *given = tn__arena_array(&it->arena, ask.op.output_count, sizeof *given);
    bool *wanted = tn__arena_array(&it->arena, ask.op.input_count, sizeof *wanted);
    ask.found = tn__arena_array(&it->arena, ask.op.input_count, sizeof *ask.found);
    if (given == NULL || wanted == NULL || ask.found == NULL)
        return tn__no_memory(it->error, "the backward pass");
    bool any_given = false, any_wanted = false;
    for (uint32_t k = 0; k < ask.op.output_count; k++) {
        if (ask.op.outputs[k] != TN_NONE) TN_TRY(tn__train_sum_parts(it, ask.op.outputs[k]));
        given[k] = ask.op.outputs[k] == TN_NONE ? TN_NONE : it->gradient[ask.op.outputs[k]];
        any_given = any_given || given[k] != TN_NONE;
        any_wanted = any_wanted || (given[k] != TN_NONE && backward_has_blocks(&ask.op) &&
                                    it->needs[ask.op.outputs[k]]);
    }
    for (uint32_t i = 0; i < ask.op.input_count; i++) {
        ask.found[i] = TN_NONE;
        wanted[i] = tn__train_flows(it->graph, &ask.op, rule, i) && it->needs[ask.op.inputs[i]];
        any_wanted = any_wanted || wanted[i];
    }
    ask.given = given;
    ask.wanted = wanted;
    if (any_given && any_wanted && tn__train_ends_low(it, &ask.op)) {
        it->gradient[ask.op.inputs[0]] = given[0];
        return TN_OK;
    }
    return any_given && any_wanted ? backward_ask(it, &ask, rule) : TN_OK;
}

/* Completes the gradients of the parameters that this operator was the last to read. */
static tn_status backward_update(tn__train *it, tn_op_id id) {
    const tn_op op = *tn_graph_op(it->graph, id);
    for (uint32_t i = 0; i < op.input_count; i++) {
        tn_tensor_id input = op.inputs[i];
        if (input == TN_NONE || --it->readers[input] > 0) continue;
        if (input >= it->tensors || !it->trained[input]) continue;
        TN_TRY(tn__train_arrived(it, it->number[input]));
    }
    return TN_OK;
}

/* Makes the pipeline part of the shard's parameters the one to which new tensors belong
 * (it->home). */
static tn_status backward_shard_home(tn__train *it, uint32_t shard) {
    if (!tn__train_is_whole(it)) return TN_OK;
    tn_tensor_id of = it->homes[it->made.sharded[shard].parameters].of;
    return tn__train_move(it, tn__train_home_of_parameter(it, it->number[of], false));
}

static tn_status backward_updates(tn__train *it) {
    for (uint32_t i = 0; i < it->made.parameter_count; i++) {
        TN_TRY(tn__train_move(it, tn__train_home_of_parameter(it, i, false)));
        TN_TRY(tn__train_complete(it, i));
    }
    for (uint32_t k = 0; k < it->made.sharded_count; k++) {
        TN_TRY(backward_shard_home(it, k));
        TN_TRY(tn__train_complete_shard(it, k));
    }
    if (it->options.dynamic_loss_scale) TN_TRY(tn__train_scale_step(it));
    for (uint32_t i = 0; i < it->made.parameter_count; i++) {
        TN_TRY(tn__train_move(it, tn__train_home_of_parameter(it, i, false)));
        TN_TRY(tn__train_update(it, i));
    }
    for (uint32_t k = 0; k < it->made.sharded_count; k++) {
        TN_TRY(backward_shard_home(it, k));
        TN_TRY(tn__train_update_shard(it, k));
    }
    return TN_OK;
}

/* Begins the backward pass with the gradient of each loss; every micro-batch has one. */
static void backward_begin(tn__train *it, tn_tensor_id seed) {
    it->gradient[it->made.loss] = seed;
    for (uint32_t r = 1; r < it->rounds; r++) it->gradient[it->round_list[r].loss] = seed;
}

/* Assigns operators that a rule adds to the pipeline part of their forward operator. Operators that
 * all micro-batches share belong to the last micro-batch. */
static tn_status backward_home(tn__train *it, tn_op_id id) {
    tn_home home = tn__train_home_of(it, id);
    const tn_op *op = tn_graph_op(it->graph, id);
    if (!tn__train_is_whole(it)) return TN_OK;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && op->outputs[k] < it->once && it->shared[op->outputs[k]])
            home.round = it->rounds - 1;
    home.way = TN_WAY_BACKWARD;
    home.of = TN_NONE;
    home.readers = 0;
    return tn__train_move(it, home);
}

tn_status tn__train_backward(tn__train *it, tn_tensor_id seed) {
    const tn_block *block = tn_graph_block(it->graph, 0);
    uint32_t count = block->op_count;
    tn_op_id *ops = tn__arena_copy(&it->arena, block->ops, count * sizeof *ops);
    uint32_t *places = tn__arena_array(&it->arena, count, sizeof *places);
    if (ops == NULL || places == NULL) return tn__no_memory(it->error, "the backward pass");
    it->forward_ops = count;
    TN_TRY(backward_room(it));
    backward_mark(it, ops, count);
    backward_begin(it, seed);
    TN_TRY(tn__train_walk(it, ops, count, places));
    for (uint32_t i = 0; i < count; i++) {
        TN_TRY(backward_home(it, ops[places[i]]));
        TN_TRY(backward_visit(it, ops[places[i]]));
        TN_TRY(backward_update(it, ops[places[i]]));
    }
    TN_TRY(tn__train_arrived_all(it));
    return it->options.fuse_update ? TN_OK : backward_updates(it);
}
