/* split.c - tn__op_split, and the rules of element-wise operators.
 *
 * The checks that every answer must pass are made here once, as facts.c does for views.
 * Cost: that of the rule, O(inputs) at most.
 */
#include "graph/tiles/split.h"

#include "graph/fold.h"
#include "graph/store.h"

/* --- the question --- */

static bool split_is_exact(const tn_tensor *tensor) {
    return tn__shape_known(tensor) && tensor->format.block == 0 && tensor->repeat == 1 &&
           (tensor->flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE)) == 0;
}

/* Whether all existing outputs have this axis, with one extent. */
static bool split_in_common(const tn_infer *infer, const tn__part *part) {
    const tn_tensor *y = tn__output(infer, 0);
    if (!split_is_exact(y) || part->axis >= y->rank) return false;
    for (uint32_t k = 1; k < tn__output_count(infer); k++) {
        const tn_tensor *other = tn__output(infer, k);
        if (other == NULL) continue;
        if (!split_is_exact(other) || part->axis >= other->rank ||
            other->shape[part->axis] != y->shape[part->axis])
            return false;
    }
    return part->first >= 0 && part->first < part->last && part->last <= y->shape[part->axis];
}

/* Each question about one input looks at all inputs, so the work for an operator grows with their
 * square. An operator with more inputs is computed as a whole. */
#define SPLIT_INPUTS_MOST 1024u

/* Checks that all operands of the operator are known; prepares `infer` for its rules. */
static bool split_begin(const tn_graph *graph, tn_op_id id, tn_infer *infer) {
    const tn_op_rule *rule = graph->rules[id];
    const tn_op *op = &graph->ops[id];
    const uint32_t never = TN_RULE_CONTROL | TN_RULE_ORDERED | TN_RULE_CHANGES;
    if (rule == NULL || (rule->flags & never) != 0) return false;
    if (tn__op_has_blocks(op) || op->input_count < rule->inputs_min) return false;
    if (op->input_count > SPLIT_INPUTS_MOST) return false;
    *infer = (tn_infer){.graph = (tn_graph *)(uintptr_t)graph, /* rules that answer do not write */
                        .op = op,
                        .id = id,
                        .version = op->version ? op->version : UINT32_MAX};
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] == TN_NONE ? i < rule->inputs_min : !split_is_exact(tn__input(infer, i)))
            return false;
    return true;
}

/* One input of an operator that split_begin accepted. */
static bool split_input(tn_infer *infer, const tn_op_rule *rule, tn__part *part, uint32_t input,
                        tn__need *need) {
    *need = (tn__need){.axis = TN_NONE};
    if (!split_in_common(infer, part) || input >= infer->op->input_count) return false;
    const tn_tensor *x = tn__input(infer, input);
    if (x == NULL) return true;
    if (!rule->split(infer, part, input, need) || !split_in_common(infer, part)) return false;
    if (need->before < 0 || need->after < 0) return false;
    if (need->axis == TN_NONE) return true;
    if (need->axis >= x->rank || need->first < 0 || need->last > x->shape[need->axis]) return false;
    bool may_be_empty = (rule->flags & TN_RULE_JOINS) != 0;
    return may_be_empty ? need->first <= need->last : need->first < need->last;
}

bool tn__op_split(const tn_graph *graph, tn_op_id op, tn__part *part, uint32_t input,
                  tn__need *need) {
    tn_infer infer;
    *need = (tn__need){.axis = TN_NONE};
    const tn_op_rule *rule = graph->rules[op];
    if (rule == NULL || rule->split == NULL || !split_begin(graph, op, &infer)) return false;
    return split_input(&infer, rule, part, input, need);
}

bool tn__op_splits(const tn_graph *graph, tn_op_id id, uint32_t axis) {
    tn_infer infer;
    const tn_op_rule *rule = graph->rules[id];
    const tn_op *op = &graph->ops[id];
    if (op->output_count == 0 || op->outputs[0] == TN_NONE || op->input_count == 0) return false;
    const tn_tensor *y = &graph->tensors[op->outputs[0]];
    if (!split_is_exact(y) || axis >= y->rank) return false;
    if (rule == NULL || rule->split == NULL || !split_begin(graph, id, &infer)) return false;
    bool cut = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn__part part = {axis, 0, y->shape[axis]};
        tn__need need;
        if (!split_input(&infer, rule, &part, i, &need)) return false;
        cut = cut || need.axis != TN_NONE;
    }
    return cut;
}

bool tn__op_sums(const tn_graph *graph, tn_op_id id, uint32_t input, uint32_t *axis) {
    tn_infer infer;
    const tn_op_rule *rule = graph->rules[id];
    *axis = TN__SUM_WHOLE;
    if (rule == NULL || rule->sums == NULL || !split_begin(graph, id, &infer)) return false;
    if (!split_is_exact(tn__output(&infer, 0)) || input >= infer.op->input_count) return false;
    const tn_tensor *x = tn__input(&infer, input);
    if (x == NULL) return true;
    if (!rule->sums(&infer, input, axis)) return false;
    return *axis == TN__SUM_WHOLE || *axis == TN__SUM_ONCE || *axis < x->rank;
}

/* --- element by element --- */

bool tn__split_each(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, input), *y = tn__output(infer, 0);
    bool old = infer->version < 7 && *infer->op->domain == '\0'; /* operands broadcast otherwise */
    if (x->rank > y->rank || (old && x->rank != y->rank && tn__elements(x) != 1)) return false;
    uint32_t missing = y->rank - x->rank;
    if (part->axis < missing || x->shape[part->axis - missing] == 1) return tn__need_all(need);
    if (x->shape[part->axis - missing] != y->shape[part->axis]) return false;
    return tn__need_same(need, part->axis - missing, part);
}

bool tn__split_first(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *y = tn__output(infer, 0);
    if (input > 0) return tn__need_all(need);
    if (x->rank != y->rank || x->shape[part->axis] != y->shape[part->axis]) return false;
    return tn__need_same(need, part->axis, part);
}

/* --- reshapes --- */

static uint64_t split_before(const tn_tensor *tensor, uint32_t axis) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < axis; d++) count = tn__mul_sat(count, (uint64_t)tensor->shape[d]);
    return count;
}

bool tn__split_reshape(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *y = tn__output(infer, 0);
    uint64_t before = split_before(y, part->axis);
    if (input > 0) return tn__need_all(need);
    for (uint32_t d = 0; d < x->rank; d++)
        if (x->shape[d] == y->shape[part->axis] && split_before(x, d) == before)
            return tn__need_same(need, d, part);
    return false;
}
