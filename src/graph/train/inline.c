/* inline.c - replaces operators that stop gradients by others that pass them: an If with a known
 * condition by the operators of the branch that it takes, and DequantizeLinear of QuantizeLinear by
 * FakeQuantize.
 *
 * Exporters write If where a shape decides (PyTorch's squeeze), and inference finds the dead
 * branch. An If has no gradient, but the operators in it have: they move to the place of the If and
 * keep their ids, and their results become its outputs. Known branches within known branches move
 * too. Control flow that only a run decides stays unchanged.
 *
 * Models for quantisation-aware training have real numbers that are quantised and dequantised again
 * with one scale and one zero point. FakeQuantize computes the same bits in one step, and its
 * gradient is that of the identity within the range. The QuantizeLinear stays if others read it.
 * Cost: O(operands), plus the depth of each block; nothing if no condition is known.
 */
#include "graph/rules/fold.h"
#include "graph/train/frame.h"

#define INLINE_GONE (TN_NONE - 1) /* marks the operators of a branch that never runs */

/* The branch that an If takes, if it is known; otherwise TN_NONE. */
static tn_block_id inline_branch(const tn_graph *graph, const tn_op *op) {
    tn_block_id taken = TN_NONE;
    uint32_t branches = 0, dead = 0;
    if (!tn__op_is(op, "If")) return TN_NONE;
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (op->attrs[i].type != TN_ATTR_BLOCK) continue;
        bool is_dead = tn_graph_block(graph, op->attrs[i].block)->dead;
        if (!is_dead) taken = op->attrs[i].block;
        branches++;
        dead += is_dead;
    }
    if (branches != 2 || dead != 1) return TN_NONE;
    return tn_graph_block(graph, taken)->output_count == op->output_count ? taken : TN_NONE;
}

/* Whether two operands are one tensor, or constants with the same contents. */
static bool inline_same(const tn_graph *graph, tn_tensor_id a, tn_tensor_id b) {
    if (a == b || a == TN_NONE || b == TN_NONE) return a == b;
    const tn_tensor *one = tn_graph_tensor(graph, a), *other = tn_graph_tensor(graph, b);
    const tn_value *x = one->value, *y = other->value;
    if (x == NULL || y == NULL || x->count != y->count || one->dtype != other->dtype) return false;
    if (x->floats != NULL && y->floats != NULL)
        return memcmp(x->floats, y->floats, x->count * sizeof *x->floats) == 0;
    return x->ints != NULL && y->ints != NULL &&
           memcmp(x->ints, y->ints, x->count * sizeof *x->ints) == 0;
}

static tn_tensor_id inline_operand(const tn_op *op, uint32_t input) {
    return input < op->input_count ? op->inputs[input] : TN_NONE;
}

/* Returns the QuantizeLinear whose result this DequantizeLinear expands again; NULL: there is no
 * such QuantizeLinear. */
static const tn_op *inline_quantised(const tn_graph *graph, const tn_op *op) {
    if (!tn__op_is_contrib(op, "DequantizeLinear")) return NULL;
    const tn_tensor *stored = tn_graph_tensor(graph, op->inputs[0]);
    if (stored->producer == TN_NONE || !tn__is_integer(stored->dtype)) return NULL;
    const tn_op *to = tn_graph_op(graph, stored->producer);
    bool same = tn__op_is_contrib(to, "QuantizeLinear") && to->block == op->block &&
                inline_same(graph, to->inputs[1], op->inputs[1]) &&
                inline_same(graph, inline_operand(to, 2), inline_operand(op, 2)) &&
                tn__attr_int(to, "axis", 1) == tn__attr_int(op, "axis", 1) &&
                tn__attr_int(to, "block_size", 0) == tn__attr_int(op, "block_size", 0);
    return same ? to : NULL;
}

static tn_status inline_fake(tn__train *it, const tn_op *op, const tn_op *quantised,
                             tn_block_id where) {
    const int64_t to = tn_graph_tensor(it->model, op->inputs[0])->dtype,
                  axis = tn__attr_int(op, "axis", 1), block = tn__attr_int(op, "block_size", 0);
    const tn_attr attrs[] = {TN__ATTR_INT("to", &to), TN__ATTR_INT("axis", &axis),
                             TN__ATTR_INT("block_size", &block)};
    const tn_tensor_id inputs[] = {quantised->inputs[0], op->inputs[1], inline_operand(op, 2)};
    tn_op_spec spec = {.name = op->name,
                       .type = "FakeQuantize",
                       .domain = "tenure",
                       .block = where,
                       .inputs = inputs,
                       .input_count = inputs[2] != TN_NONE ? 3 : 2,
                       .outputs = op->outputs,
                       .output_count = 1,
                       .attrs = attrs,
                       .attr_count = 3};
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

/* Returns the block to which the operators of a block are moved: the block itself, a block around
 * it, or INLINE_GONE. */
static tn_block_id inline_target(const tn_graph *graph, tn_block_id block) {
    tn_block_id target = TN_NONE;
    for (tn_block_id at = block; at != 0;) {
        tn_op_id owner = tn_graph_block(graph, at)->owner;
        if (owner == TN_NONE) return INLINE_GONE;
        const tn_op *op = tn_graph_op(graph, owner);
        tn_block_id taken = inline_branch(graph, op);
        if (taken != TN_NONE && taken != at) return INLINE_GONE;
        if (taken == TN_NONE && target == TN_NONE) target = at;
        at = op->block;
    }
    return target != TN_NONE ? target : 0;
}

/* Adds for each output of the If an Identity that computes it from the output of the branch. */
static tn_status inline_outputs(tn__train *it, const tn_op *op, tn_block_id taken,
                                tn_block_id where) {
    const tn_block *branch = tn_graph_block(it->model, taken);
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        tn_op_spec spec = {.name = op->name,
                           .type = "Identity",
                           .block = where,
                           .inputs = &branch->outputs[k],
                           .input_count = 1,
                           .outputs = &op->outputs[k],
                           .output_count = 1};
        TN_TRY(tn_graph_add_op(it->graph, &spec, NULL, it->error));
    }
    return TN_OK;
}

/* Copies an operator; its blocks get new numbers. */
static tn_status inline_keep(tn__train *it, const tn_op *op, const tn_block_id *number,
                             tn_block_id where) {
    tn_op made = *op;
    tn_attr *attrs = tn__arena_copy(&it->arena, op->attrs, op->attr_count * sizeof *attrs);
    if (attrs == NULL && op->attr_count > 0) return tn__no_memory(it->error, "attributes");
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (attrs[i].type == TN_ATTR_BLOCK) attrs[i].block = number[attrs[i].block];
    made.attrs = attrs;
    return tn__train_copy_op(it, &made, where);
}

static tn_status inline_ops(tn__train *it, const tn_block_id *target, const tn_block_id *number) {
    for (tn_block_id b = tn_graph_block_count(it->model); b-- > 0;) {
        const tn_block *block = tn_graph_block(it->model, b);
        for (uint32_t i = 0; i < block->op_count && target[b] != INLINE_GONE; i++) {
            const tn_op *op = tn_graph_op(it->model, block->ops[i]);
            tn_block_id taken = inline_branch(it->model, op), to = number[target[b]];
            const tn_op *quantised = it->evaluates ? NULL : inline_quantised(it->model, op);
            TN_TRY(taken != TN_NONE    ? inline_outputs(it, op, taken, to)
                   : quantised != NULL ? inline_fake(it, op, quantised, to)
                                       : inline_keep(it, op, number, to));
        }
    }
    return TN_OK;
}

static tn_status inline_graph(tn__train *it, const tn_block_id *target, tn_block_id *number) {
    static const int64_t nothing[] = {0};
    uint32_t blocks = tn_graph_block_count(it->model);
    tn_tensor_id made;
    TN_TRY(tn_graph_create(it->context, &it->graph, it->error));
    for (tn_block_id b = 1; b < blocks; b++)
        if (target[b] == b)
            TN_TRY(tn_graph_add_block(it->graph, tn_graph_block(it->model, b)->name, &number[b],
                                      it->error));
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        tn_block_id where = target[tn_graph_tensor(it->model, id)->block];
        tn_tensor_spec spec = tn__graph_spec(it->model, id);
        if (where != INLINE_GONE)
            spec.block = number[where];
        else
            spec = (tn_tensor_spec){
                .dtype = TN_UINT8, .kind = TN_KIND_CONSTANT, .rank = 1, .shape = nothing};
        TN_TRY(tn_graph_add_tensor(it->graph, &spec, &made, it->error));
    }
    for (tn_block_id b = 0; b < blocks; b++) {
        const tn_block *block = tn_graph_block(it->model, b);
        if (target[b] == b)
            TN_TRY(tn_graph_set_block_io(it->graph, number[b], block->inputs, block->input_count,
                                         block->outputs, block->output_count, it->error));
    }
    TN_TRY(inline_ops(it, target, number));
    return tn_graph_infer(it->graph, it->error);
}

tn_status tn__train_inline(tn__train *it) {
    uint32_t blocks = tn_graph_block_count(it->model);
    bool any = false;
    for (tn_op_id id = 0; id < tn_graph_op_count(it->model) && !any; id++) {
        const tn_op *op = tn_graph_op(it->model, id);
        any = inline_branch(it->model, op) != TN_NONE ||
              (!it->evaluates && inline_quantised(it->model, op) != NULL);
    }
    if (!any) return TN_OK;
    tn_block_id *target = tn__arena_array(&it->arena, blocks, sizeof *target);
    tn_block_id *number = tn__arena_array(&it->arena, blocks, sizeof *number);
    if (target == NULL || number == NULL)
        return tn__no_memory(it->error, "the branches of the model");
    for (tn_block_id b = 0; b < blocks; b++) target[b] = inline_target(it->model, b);
    TN_TRY(inline_graph(it, target, number));
    it->model = it->inlined = it->graph;
    it->graph = NULL;
    return TN_OK;
}
