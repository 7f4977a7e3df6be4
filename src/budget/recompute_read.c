/* recompute_read.c - what recomputation needs to know of a graph: bodies, when each is read, what
 * it costs to make it again.
 *
 * An operator may run again when it only computes its outputs from its inputs: not when it draws
 * numbers, writes into an operand or owns blocks; or when another operator repeats it
 * (tn_op_rule.again). Work is arithmetic or traffic, whichever takes longer.
 * Cost: O(tensors + operands).
 */
#include "budget/recompute.h"

#include "graph/attr.h"
#include "graph/store.h"

const char *tn__recompute_type(const tn__recompute *it, tn_op_id id) {
    const tn_op_rule *rule = tn__rule_of(it->graph, id);
    return rule != NULL ? rule->again : NULL;
}

tn_tensor_id tn__recompute_input(const tn__recompute *it, tn_op_id id, uint32_t index) {
    const tn_op *op = tn_graph_op(it->graph, id);
    bool found = tn__recompute_type(it, id) != NULL && index < 64 &&
                 (tn_op_changes(it->graph, id) >> index & 1);
    return found ? op->outputs[index] : op->inputs[index];
}

/* Whether the operator's outputs are memory of an input. */
static bool read_is_view(const tn__recompute *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && tn_op_view(it->graph, id, k).source != TN_NONE)
            return true;
    return false;
}

/* --- bodies --- */

static uint64_t read_aligned(const tn__recompute *it, uint64_t bytes) {
    uint64_t alignment = it->options.memory != NULL ? it->options.memory->alignment : 0, aligned;
    if (bytes == TN_SIZE_UNKNOWN) return 0;
    return tn__align_up(bytes, alignment > 0 ? alignment : 64, &aligned) ? aligned : bytes;
}

static void read_new_body(tn__recompute *it, tn_tensor_id id, tn_op_id maker, uint32_t made) {
    const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
    bool output = (tensor->flags & TN_TENSOR_IS_OUTPUT) != 0;
    it->body[id] = it->body_count;
    it->bodies[it->body_count++] =
        (tn__recompute_body){.bytes = read_aligned(it, tensor->bytes),
                             .maker = maker,
                             .made = made,
                             .end = made,
                             .leave = made,
                             .back = made,
                             .fixed = output || tensor->bytes == TN_SIZE_UNKNOWN};
}

static void read_fix(tn__recompute *it, tn_tensor_id id) {
    if (id != TN_NONE && it->body[id] != TN_NONE) it->bodies[it->body[id]].fixed = true;
}

static void read_use(tn__recompute *it, tn_tensor_id id, uint32_t position) {
    if (id == TN_NONE || it->body[id] == TN_NONE) return;
    tn__recompute_body *body = &it->bodies[it->body[id]];
    if (position - body->end > body->back - body->leave) {
        body->leave = body->end;
        body->back = position;
    }
    body->end = position;
}

/* A view is part of its source's body; a shape that is computed in the run cannot be had again. */
static void read_view(tn__recompute *it, const tn_op *op, tn_tensor_id output, tn_view view) {
    uint32_t body = it->body[view.source];
    it->body[output] = body;
    if (body == TN_NONE) return;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && op->inputs[i] != view.source &&
            it->body[op->inputs[i]] != TN_NONE)
            it->bodies[body].fixed = true;
    if (tn_graph_tensor(it->graph, output)->flags & TN_TENSOR_IS_OUTPUT)
        it->bodies[body].fixed = true;
}

static void read_changes(tn__recompute *it, tn_op_id id, uint32_t position) {
    const tn_op *op = tn_graph_op(it->graph, id);
    uint64_t changes = tn_op_changes(it->graph, id);
    for (uint32_t i = 0; i < op->input_count && i < 64; i++) {
        tn_tensor_id input = op->inputs[i];
        if (!(changes >> i & 1) || input == TN_NONE) continue;
        read_fix(it, input);
        if (it->first_change[input] == TN_NONE) it->first_change[input] = position;
        it->last_change[input] = position;
    }
}

/* --- operators --- */

static bool read_is_listed(const char *list, const char *type) {
    size_t length = strlen(type);
    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, type, word) == 0) return true;
        at += word + (at[word] == ',');
    }
    return list == NULL;
}

/* Whether what an operator found is there for the one that repeats it. */
static bool read_has_found(const tn__recompute *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    uint64_t changes = tn_op_changes(it->graph, id);
    for (uint32_t i = 0; i < 64 && changes >> i; i++)
        if ((changes >> i & 1) && (i >= op->output_count || op->outputs[i] == TN_NONE))
            return false;
    return true;
}

static bool read_may_repeat(const tn__recompute *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    const tn_op_rule *rule = it->graph->rules[id];
    if (rule == NULL || it->work[id] == TN_SIZE_UNKNOWN ||
        !read_is_listed(it->options.only, op->type))
        return false;
    return rule->again != NULL ? read_has_found(it, id) : tn_op_may_repeat(it->graph, id);
}

/* Views take no work. */
static void read_work(tn__recompute *it, tn_op_id id, bool *cheap) {
    tn_cost cost = tn_op_cost(it->graph, id);
    uint64_t moves = tn__mul_sat(cost.bytes_moved, it->options.flops_per_byte);
    bool known = cost.flops != TN_SIZE_UNKNOWN && cost.bytes_moved != TN_SIZE_UNKNOWN;
    *cheap = cost.flops <= moves;
    it->work[id] = !known ? TN_SIZE_UNKNOWN : cost.flops > moves ? cost.flops : moves;
    if (read_is_view(it, id) && tn_op_changes(it->graph, id) == 0) it->work[id] = 0;
    if (known) it->total = tn__add_sat(it->total, it->work[id]);
}

static void read_op(tn__recompute *it, tn_op_id id, uint32_t position) {
    const tn_op *op = tn_graph_op(it->graph, id);
    bool cheap, by_other = tn__recompute_type(it, id) != NULL;
    bool moves = tn_op_changes(it->graph, id) == 0;
    read_work(it, id, &cheap);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id output = op->outputs[k];
        if (output == TN_NONE) continue;
        tn_view view = tn_op_view(it->graph, id, k);
        if (view.source != TN_NONE) {
            read_view(it, op, output, view);
            continue;
        }
        moves = false;
        read_new_body(it, output, id, position);
        it->bodies[it->body[output]].can =
            read_may_repeat(it, id) && (cheap || !it->options.cheap) && (!by_other || k == 0);
    }
    for (uint32_t i = 0; i < op->input_count; i++) read_use(it, op->inputs[i], position);
    if (!moves && !by_other && read_is_view(it, id)) /* memory of its own and of others */
        for (uint32_t k = 0; k < op->output_count; k++) read_fix(it, op->outputs[k]);
    read_changes(it, id, position);
}

/* --- the graph --- */

static bool read_is_folded(const tn__recompute *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE &&
            !(tn_graph_tensor(it->graph, op->outputs[k])->flags & TN_TENSOR_FOLDED))
            return false;
    return op->output_count > 0;
}

static tn_status read_room(tn__recompute *it) {
    size_t tensors = tn_graph_tensor_count(it->graph), ops = tn_graph_op_count(it->graph);
    size_t listed = tn_graph_block(it->graph, 0)->op_count;
    it->count = it->body_count = 0;
    it->total = 0;
    it->order = tn__arena_array(&it->arena, listed + 1, sizeof *it->order);
    it->scratch = tn__arena_array(&it->arena, ops + 1, sizeof *it->scratch);
    it->place = tn__arena_array(&it->arena, ops + 1, sizeof *it->place);
    it->work = tn__arena_array(&it->arena, ops + 1, sizeof *it->work);
    it->body = tn__arena_array(&it->arena, tensors + 1, sizeof *it->body);
    it->bodies = tn__arena_array(&it->arena, tensors + 1, sizeof *it->bodies);
    it->first_change = tn__arena_array(&it->arena, tensors + 1, sizeof *it->first_change);
    it->last_change = tn__arena_array(&it->arena, tensors + 1, sizeof *it->last_change);
    if (it->order == NULL || it->scratch == NULL || it->place == NULL || it->work == NULL ||
        it->body == NULL || it->bodies == NULL || it->first_change == NULL ||
        it->last_change == NULL)
        return tn__no_memory(it->error, "recomputation");
    for (size_t i = 0; i < tensors; i++)
        it->body[i] = it->first_change[i] = it->last_change[i] = TN_NONE;
    for (size_t i = 0; i < ops; i++) it->place[i] = TN_NONE;
    return TN_OK;
}

/* What other blocks read or hand out is theirs. */
static void read_other_blocks(tn__recompute *it) {
    for (tn_op_id id = 0; id < tn_graph_op_count(it->graph); id++) {
        const tn_op *op = tn_graph_op(it->graph, id);
        for (uint32_t i = 0; op->block != 0 && i < op->input_count; i++)
            read_fix(it, op->inputs[i]);
    }
    for (tn_block_id b = 0; b < tn_graph_block_count(it->graph); b++) {
        const tn_block *block = tn_graph_block(it->graph, b);
        for (uint32_t k = 0; k < block->output_count; k++) read_fix(it, block->outputs[k]);
    }
    for (uint32_t b = 0; b < it->body_count; b++) {
        tn__recompute_body *body = &it->bodies[b];
        if (body->fixed) body->end = it->count > 0 ? it->count - 1 : 0;
        body->can = body->can && !body->fixed && body->maker != TN_NONE;
    }
}

tn_status tn__recompute_read(tn__recompute *it) {
    TN_TRY(read_room(it));
    const tn_block *block = tn_graph_block(it->graph, 0);
    for (tn_op_id id = 0; id < tn_graph_op_count(it->graph); id++)
        it->scratch[id] = read_aligned(it, it->workspaces != NULL ? it->workspaces[id]
                                                                  : tn_op_workspace(it->graph, id));
    for (uint32_t i = 0; i < block->input_count; i++)
        if (!tn_tensor_is_static(tn_graph_tensor(it->graph, block->inputs[i])))
            read_new_body(it, block->inputs[i], TN_NONE, 0);
    for (uint32_t p = 0; p < block->op_count; p++) {
        tn_op_id id = block->ops[p];
        if (read_is_folded(it, id)) continue;
        it->place[id] = it->count;
        it->order[it->count] = id;
        read_op(it, id, it->count++);
    }
    read_other_blocks(it);
    return TN_OK;
}
