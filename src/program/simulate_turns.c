/* simulate_turns.c - computes how often each instruction runs, as far as that is known before a
 * run.
 *
 * It visits regions from the inside out. From the branches of one operator it keeps the longest.
 * It multiplies the instructions of a loop by its turns. The turns of a Loop are known if its
 * maximum is known and its body computes no condition that can end it sooner. The turns of a
 * Scan are the extent that it slices.
 *
 * Cost: O(instructions depth + regions log regions).
 */
#include "program/simulate.h"

#include "graph/attr.h"
#include "graph/op.h"

typedef struct turns_state {
    const tn_program *program;
    uint64_t *durations, *turns, *totals; /* totals [regions] */
    tn__sort_item *order;                 /* regions, the shortest first */
    bool *done;                           /* [regions] */
} turns_state;

/* Whether a condition is known to be true: it is absent, or its known value is true. */
static bool turns_holds(const tn_graph *graph, tn_tensor_id id) {
    if (id == TN_NONE) return true;
    const tn_value *value = tn_graph_tensor(graph, id)->value;
    return value != NULL && value->ints != NULL && value->count > 0 && value->ints[0] != 0;
}

static bool turns_of_loop(const tn_graph *graph, const tn_op *op, const tn_block *body,
                          uint64_t *turns) {
    tn_tensor_id most = op->input_count > 0 ? op->inputs[0] : TN_NONE;
    tn_tensor_id first = op->input_count > 1 ? op->inputs[1] : TN_NONE;
    const tn_value *value = most != TN_NONE ? tn_graph_tensor(graph, most)->value : NULL;
    bool passed_on =
        body->input_count > 1 && body->output_count > 0 && body->outputs[0] == body->inputs[1];
    if (value == NULL || value->ints == NULL || value->count == 0) return false;
    if (!turns_holds(graph, first) || body->output_count == 0) return false;
    if (!passed_on && !turns_holds(graph, body->outputs[0])) return false;
    *turns = value->ints[0] > 0 ? (uint64_t)value->ints[0] : 0;
    return true;
}

static bool turns_of_scan(const tn_graph *graph, const tn_op *op, uint32_t first, uint64_t *turns) {
    const tn_tensor *tensor =
        first < op->input_count ? tn_graph_tensor(graph, op->inputs[first]) : NULL;
    uint32_t count;
    const int64_t *axes = tn__attr_ints(op, "scan_input_axes", &count);
    int64_t axis = count > 0 ? axes[0] : 0;
    if (tensor == NULL || tensor->rank == TN_RANK_UNKNOWN) return false;
    if (axis < 0) axis += tensor->rank;
    if (axis < 0 || axis >= (int64_t)tensor->rank || tensor->shape[axis] < 0) return false;
    *turns = (uint64_t)tensor->shape[axis];
    return (tensor->flags & TN_TENSOR_BOUND) == 0;
}

static bool turns_of(const tn_graph *graph, const tn_region *region, uint64_t *turns) {
    const tn_op *op = tn_graph_op(graph, region->op);
    const tn_op_rule *rule = tn__rule_of(graph, region->op);
    const tn_block *body = tn_graph_block(graph, region->block);
    *turns = 1;
    if (rule == NULL || rule->turns == NULL) return false;
    tn__turns how = rule->turns(op, body);
    if (how.batch) return false;
    return how.formal > 0 ? turns_of_loop(graph, op, body, turns)
                          : turns_of_scan(graph, op, how.carried, turns);
}

static void turns_multiply(turns_state *s, const tn_region *region, uint64_t by) {
    for (uint32_t step = region->first; step < region->last; step++) {
        s->turns[step] = tn__mul_sat(s->turns[step], by);
        s->durations[step] = tn__mul_sat(s->durations[step], by);
    }
}

/* When the times of all branches of one operator are known, drops all but the longest. Returns
 * whether there was a choice. */
static bool turns_branch(turns_state *s, uint32_t index) {
    const tn_region *regions = s->program->regions;
    uint32_t longest = index, others = 0;
    for (uint32_t r = 0; r < s->program->region_count; r++) {
        if (regions[r].op != regions[index].op) continue;
        if (!s->done[r]) return false; /* the last of the branches decides */
        if (s->totals[r] > s->totals[longest] ||
            (s->totals[r] == s->totals[longest] && r < longest))
            longest = r;
    }
    for (uint32_t r = 0; r < s->program->region_count; r++)
        if (regions[r].op == regions[index].op && r != longest) {
            turns_multiply(s, &regions[r], 0);
            others++;
        }
    return others > 0;
}

static void turns_region(turns_state *s, uint32_t index, uint32_t *guesses) {
    const tn_region *region = &s->program->regions[index];
    uint64_t turns;
    for (uint32_t step = region->first; step < region->last; step++)
        s->totals[index] = tn__add_sat(s->totals[index], s->durations[step]);
    s->done[index] = true;
    if (!region->repeats) {
        *guesses += turns_branch(s, index);
        return;
    }
    if (!turns_of(s->program->graph, region, &turns)) ++*guesses;
    turns_multiply(s, region, turns);
}

tn_status tn__simulate_turns(const tn_program *program, uint64_t *durations, uint64_t *turns,
                             uint32_t *guesses, tn__arena *arena, tn_error *error) {
    turns_state s = {.program = program, .durations = durations, .turns = turns};
    size_t regions = program->region_count;
    s.totals = tn__arena_array(arena, regions + 1, sizeof *s.totals);
    s.order = tn__arena_array(arena, regions + 1, sizeof *s.order);
    s.done = tn__arena_array(arena, regions + 1, sizeof *s.done);
    if (s.totals == NULL || s.order == NULL || s.done == NULL)
        return tn__no_memory(error, "a simulation");
    for (size_t step = 0; step < program->count; step++) turns[step] = 1;
    for (uint32_t r = 0; r < regions; r++) {
        const tn_region *region = &program->regions[r];
        s.order[r] = (tn__sort_item){region->last - region->first, r};
    }
    if (!tn__sort_items(arena->context, s.order, regions))
        return tn__no_memory(error, "a simulation");
    *guesses = 0;
    for (size_t r = 0; r < regions; r++) turns_region(&s, s.order[r].id, guesses);
    return TN_OK;
}
