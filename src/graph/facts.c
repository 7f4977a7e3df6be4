/* facts.c - facts about one operator: cost, views, in-place, workspace, and the time on a machine.
 *
 * The registry's entry for the operator answers. The checks that every answer must pass are here,
 * so that no rule has to repeat them. Nothing is allocated.
 * Cost: O(inputs + outputs) and the rule's own.
 */
#include "graph/attr.h"
#include "graph/rules/bucket.h"
#include "graph/store.h"
#include "graph/takes.h"

/* --- questions about operators, and the checks of the answers that rules give ----------------- */

static const tn_op_rule *facts_begin(const tn_graph *graph, tn_op_id op, tn_infer *infer) {
    const tn_op *at = &graph->ops[op];
    /* the cast removes const; this is safe, because a rule that answers a question does not write
     * to the graph */
    *infer = (tn_infer){.graph = (tn_graph *)graph,
                        .op = at,
                        .id = op,
                        .version = at->version ? at->version : UINT32_MAX};
    /* Rules rely on the presence of the inputs that they need. Inference checks that, but it may
     * not have run, so it is checked here. */
    const tn_op_rule *rule = graph->rules[op];
    if (!rule || at->input_count < rule->inputs_min) return NULL;
    for (uint32_t i = 0; i < rule->inputs_min; i++)
        if (at->inputs[i] == TN_NONE) return NULL;
    return rule;
}

tn_cost tn_op_cost(const tn_graph *graph, tn_op_id op) {
    tn_infer infer;
    const tn_op_rule *rule = facts_begin(graph, op, &infer);
    tn_cost cost = {.flops = TN_SIZE_UNKNOWN};
    uint64_t elements = 0;
    for (uint32_t i = 0; i < infer.op->input_count; i++) {
        const tn_tensor *tensor = tn__input(&infer, i);
        if (tensor) cost.bytes_moved = tn__add_sat(cost.bytes_moved, tensor->bytes);
    }
    for (uint32_t i = 0; i < infer.op->output_count; i++) {
        const tn_tensor *tensor = tn__output(&infer, i);
        if (!tensor) continue;
        cost.bytes_moved = tn__add_sat(cost.bytes_moved, tensor->bytes);
        elements = tn__add_sat(elements, tn__elements(tensor));
    }
    if (rule && rule->flops)
        cost.flops = rule->flops(&infer);
    else if (rule && (elements != TN_SIZE_UNKNOWN || !rule->flops_per))
        cost.flops = rule->flops_per ? tn__mul_sat(elements, rule->flops_per) : 0;
    return cost;
}

static bool facts_same_shape(const tn_tensor *a, const tn_tensor *b) {
    if (a->rank != b->rank || a->rank == TN_RANK_UNKNOWN) return false;
    return !a->rank || !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape);
}

/* Whether the order of elements in memory follows from the shape alone. */
static bool facts_row_major(const tn_tensor *tensor) {
    return tensor->format.order != TN_ORDER_NHWC && !tensor->format.block;
}

static bool facts_same_format(const tn_tensor *a, const tn_tensor *b) {
    return a->format.block == b->format.block &&
           (a->format.order == TN_ORDER_NHWC) == (b->format.order == TN_ORDER_NHWC);
}

/* Whether a tensor is an input of the operator, or an attribute (such as the value of a
 * Constant). */
static bool facts_reads(const tn_op *op, tn_tensor_id id) {
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] == id) return true;
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].type == TN_ATTR_TENSOR && op->attrs[i].tensor == id) return true;
    return false;
}

tn_view tn_op_view(const tn_graph *graph, tn_op_id op, uint32_t output) {
    const tn_view none = {.source = TN_NONE};
    tn_infer infer;
    const tn_op_rule *rule = facts_begin(graph, op, &infer);
    const tn_tensor *tensor = tn__output(&infer, output);
    if (!rule || !rule->view || !tensor) return none;
    tn_view view = rule->view(&infer, output);
    if (view.source == TN_NONE || !facts_reads(infer.op, view.source)) return none;
    const tn_tensor *source = &graph->tensors[view.source];
    uint64_t end;
    bool known = tensor->bytes != TN_SIZE_UNKNOWN && source->bytes != TN_SIZE_UNKNOWN;
    bool inside = known && tn__add(view.offset, tensor->bytes, &end) && end <= source->bytes;
    /* If elements do not lie in the order of the shape, a view has the bytes of its source only if
     * both have equal shapes. A rule that looks at formats itself (Part) is exempt. */
    bool ordered = (facts_row_major(tensor) && facts_row_major(source)) ||
                   (facts_same_format(tensor, source) &&
                    (facts_same_shape(tensor, source) || (rule->flags & TN_RULE_FORMAT_VIEW) != 0));
    if (view.must) {
        if (!inside || view.whole) view.whole = true, view.offset = 0;
        return view;
    }
    /* If the extents of the view or its source are upper bounds, the distance of the view from the
     * start of the source is not known before the run. */
    bool bound = ((tensor->flags | source->flags) & TN_TENSOR_BOUND) && view.offset > 0;
    return inside && ordered && !bound ? view : none;
}

/* Whether an input may be broadcast although the upper bounds of all extents are equal: in a run
 * its actual extents may be smaller than those of the other inputs. */
static bool facts_may_broadcast(const tn_infer *infer) {
    uint32_t many = 0, bound = 0;
    for (uint32_t i = 0; i < infer->op->input_count; i++) {
        const tn_tensor *input = tn__input(infer, i);
        if (!input) continue;
        many += tn__elements(input) != 1;
        bound += (input->flags & TN_TENSOR_BOUND) != 0;
    }
    return many > 1 && bound > 0;
}

uint64_t tn_op_inplace(const tn_graph *graph, tn_op_id op, uint32_t output) {
    tn_infer infer;
    const tn_op_rule *rule = facts_begin(graph, op, &infer);
    const tn_tensor *tensor = tn__output(&infer, output);
    if (!rule || !tensor || tensor->bytes == TN_SIZE_UNKNOWN) return 0;
    if (facts_may_broadcast(&infer)) return 0;
    uint64_t mask = rule->inplace_of ? rule->inplace_of(&infer, output)
                    : output == 0    ? rule->inplace
                                     : 0;
    uint32_t count = infer.op->input_count < 64 ? infer.op->input_count : 64;
    uint64_t result = 0;
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *input = tn__input(&infer, i);
        if ((mask >> i & 1) && input && input->bytes == tensor->bytes &&
            tn_dtype_bits(input->dtype) == tn_dtype_bits(tensor->dtype) &&
            facts_same_format(input, tensor) && input->repeat == tensor->repeat)
            result |= UINT64_C(1) << i;
    }
    return result;
}

uint64_t tn_op_changes(const tn_graph *graph, tn_op_id op) {
    tn_infer infer;
    const tn_op_rule *rule = facts_begin(graph, op, &infer);
    uint64_t mask = rule ? rule->changes | ((rule->flags & TN_RULE_CHANGES) != 0) : 0;
    for (uint32_t i = 0; i < 64 && mask >> i; i++)
        if (!tn__input(&infer, i)) mask &= ~(UINT64_C(1) << i);
    return mask;
}

bool tn_op_is_ordered(const tn_graph *graph, tn_op_id op) {
    return tn__op_has(graph, op, TN_RULE_ORDERED) || tn__op_draws(graph, op);
}

bool tn_op_may_repeat(const tn_graph *graph, tn_op_id op) {
    const tn_op_rule *rule = graph->rules[op];
    const uint32_t once = TN_RULE_RANDOM | TN_RULE_CONTROL | TN_RULE_ORDERED;
    return rule != NULL && !(rule->flags & once) && !tn__op_draws(graph, op) &&
           tn_op_changes(graph, op) == 0;
}

/* Whether the type `recompute_as` can recompute the operator: output 0 and the old values of all
 * changed inputs, which are outputs, are present, and no attribute is an id of the operator's
 * graph. */
static bool facts_has_found(const tn_op *op, uint64_t changes) {
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].type == TN_ATTR_TENSOR || op->attrs[i].type == TN_ATTR_BLOCK) return false;
    for (uint32_t i = 0; i < 64 && changes >> i; i++)
        if ((changes >> i & 1) && (i >= op->output_count || op->outputs[i] == TN_NONE))
            return false;
    return op->output_count > 0 && op->outputs[0] != TN_NONE;
}

tn_op_form tn_op_form_of(const tn_graph *graph, tn_op_id id, bool again) {
    const tn_op *op = &graph->ops[id];
    tn_op_form form = {.op = op,
                       .type = op->type,
                       .input_count = op->input_count,
                       .output_count = op->output_count,
                       .changes = tn_op_changes(graph, id)};
    if (!again) return form;
    const tn_op_rule *rule = graph->rules[id];
    if (rule == NULL || rule->recompute_as == NULL) {
        if (!tn_op_may_repeat(graph, id)) form.type = NULL;
        return form;
    }
    form.type = facts_has_found(op, form.changes) ? rule->recompute_as : NULL;
    form.found = form.changes;
    form.changes = 0;
    form.output_count = 1;
    return form;
}

tn_tensor_id tn_op_form_input(const tn_op_form *form, uint32_t index) {
    bool found = index < 64 && (form->found >> index & 1);
    return found ? form->op->outputs[index] : form->op->inputs[index];
}

/* The axis along which a Concat joins its inputs: the axis on which an input is shorter than the
 * output. */
static uint32_t facts_join_axis(const tn_infer *infer, const tn_tensor *output) {
    for (uint32_t i = 0; i < infer->op->input_count; i++) {
        const tn_tensor *input = tn__input(infer, i);
        for (uint32_t d = 0; input && input->rank == output->rank && d < output->rank; d++)
            if (input->shape[d] != output->shape[d]) return d;
    }
    return TN_NONE;
}

static bool facts_joinable(const tn_tensor *tensor, const tn_tensor *output) {
    return tensor && tn__shape_known(tensor) && tensor->format.block == 0 &&
           facts_same_format(tensor, output) && tensor->repeat == 1 &&
           tensor->rank == output->rank && !(tensor->flags & TN_TENSOR_BOUND) &&
           tensor->bytes != TN_SIZE_UNKNOWN && tensor->dtype == output->dtype;
}

bool tn_op_joins(const tn_graph *graph, tn_op_id op) {
    tn_infer infer;
    const tn_op_rule *rule = facts_begin(graph, op, &infer);
    const tn_tensor *output = tn__output(&infer, 0);
    if (!rule || !(rule->flags & TN_RULE_JOINS) || !output || !facts_joinable(output, output))
        return false;
    if (tn_dtype_bits(output->dtype) % 8 != 0) return false;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < infer.op->input_count; i++) {
        const tn_tensor *input = tn__input(&infer, i);
        if (!facts_joinable(input, output)) return false;
        sum = tn__add_sat(sum, input->bytes);
    }
    uint32_t axis = facts_join_axis(&infer, output);
    if (axis == TN_NONE || sum != output->bytes) return false;
    for (uint32_t i = 0; tn__memory_axis(output, i) != axis; i++)
        if (output->shape[tn__memory_axis(output, i)] != 1) return false;
    return true;
}

/* --- inputs that may lie inside an output before the operator runs; workspaces --- */

/* Whether the bytes of an input can lie in a bucket (one buffer with several tensors) without
 * conversion. */
static bool facts_fills(const tn_tensor *tensor, const tn_tensor *bucket) {
    return tensor && tn__shape_known(tensor) && facts_row_major(tensor) && tensor->repeat == 1 &&
           !(tensor->flags & TN_TENSOR_BOUND) && tensor->bytes != TN_SIZE_UNKNOWN &&
           tensor->dtype == bucket->dtype;
}

bool tn__op_holds_input(const tn_graph *graph, tn_op_id op, uint32_t index) {
    tn_infer infer;
    const tn_op_rule *rule = facts_begin(graph, op, &infer);
    const tn_tensor *output = tn__output(&infer, 0);
    if (!rule || !output) return false;
    return !(rule->flags & TN_RULE_SPACED) || facts_fills(tn__input(&infer, index), output);
}

uint64_t tn__op_input_room(const tn_graph *graph, tn_op_id op, uint32_t index) {
    tn_infer infer;
    const tn_op_rule *rule = facts_begin(graph, op, &infer);
    const tn_tensor *input = tn__input(&infer, index), *output = tn__output(&infer, 0);
    if (!rule || !input || !output) return TN_SIZE_UNKNOWN;
    return rule->flags & TN_RULE_SPACED
               ? tn__bucket_bytes(tn__elements(input), tn_dtype_bits(output->dtype) / 8)
               : input->bytes;
}

uint64_t tn_op_workspace(const tn_graph *graph, tn_op_id op) {
    tn_infer infer;
    const tn_op_rule *rule = facts_begin(graph, op, &infer);
    return rule && rule->workspace ? rule->workspace(&infer) : 0;
}

/* --- the time of an operator on a machine ----------------------------------------------------- */

/* Computes an operator's time from the rates of a machine. */

/* Whether the operator needs no time: all of its outputs that are present lie in the memory of
 * inputs, or are known before the run. */
static bool takes_needless(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && tn_op_view(graph, id, k).source == TN_NONE &&
            !(tn_graph_tensor(graph, op->outputs[k])->flags & TN_TENSOR_FOLDED))
            return false;
    return true;
}

bool tn__op_runs(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    if (tn_graph_block(graph, op->block)->dead || tn__op_has_blocks(op)) return false;
    return tn_op_changes(graph, id) != 0 || tn_op_is_ordered(graph, id) ||
           !takes_needless(graph, id);
}

double tn__op_takes(const tn_graph *graph, tn_op_id id, const tn__machine *machine, bool *known) {
    if (known != NULL) *known = true;
    if (!tn__op_runs(graph, id)) return 0;
    tn_cost cost = tn_op_cost(graph, id);
    bool moves = cost.bytes_moved != TN_SIZE_UNKNOWN;
    if (known != NULL) *known = moves;
    return tn__takes(cost.flops != TN_SIZE_UNKNOWN ? (double)cost.flops : 0,
                     moves ? (double)cost.bytes_moved : 0, machine);
}
