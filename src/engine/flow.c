/* flow.c - builds the tables of control flow: the operators that have regions, and those that may
 * begin at each step. */
#include "engine/flow.h"
#include "graph/op.h"

static int flow_region_order(const void *a, const void *b) {
    const tn_region *x = a, *y = b;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->block > y->block) - (x->block < y->block);
}

/* Branches and loops of ONNX, if the registry describes how their operands correspond. */
static bool flow_is_known(const tn__flow *flow, const tn_region *region) {
    const tn_op *op = tn_graph_op(flow->graph, region->op);
    const tn_op_rule *rule = tn__rule_of(flow->graph, region->op);
    if (rule == NULL || op->domain[0] != 0) return false;
    if (rule->flags & TN_RULE_ONCE) return true;
    return rule->turns != NULL &&
           !rule->turns(op, tn_graph_block(flow->graph, region->block)).batch;
}

static tn_status flow_collect(tn__flow *flow, const tn_program *program) {
    const tn_instruction *instructions = tn_program_instructions(program);
    uint32_t r = 0;
    while (r < flow->region_count) {
        tn__control *control = &flow->controls[flow->control_count];
        const tn_op *op = tn_graph_op(flow->graph, flow->regions[r].op);
        if (!flow_is_known(flow, &flow->regions[r])) {
            tn__fail(flow->executor->error, TN_E_UNSUPPORTED, "nothing runs %s of opset %u",
                     op->type, op->version);
            return tn__where(flow->executor->error, TN_E_UNSUPPORTED, "node '%.60s'", op->name);
        }
        *control = (tn__control){.op = flow->regions[r].op,
                                 .entry = flow->regions[r].first,
                                 .first_region = r,
                                 .ran = TN_NONE};
        while (r < flow->region_count && flow->regions[r].op == control->op) {
            control->region_count++;
            r++;
        }
        flow->control_of[control->op] = flow->control_count++;
    }
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        if (instructions[s].opcode != TN_APPLY) continue;
        uint32_t c = flow->control_of[instructions[s].op];
        if (c != TN_NONE) flow->controls[c].own = s;
    }
    return TN_OK;
}

/* entering: controls by their first step, outer before inner: those that end later come first. */
static void flow_sort(tn__flow *flow, uint32_t steps) {
    uint32_t *at = flow->entering_at;
    for (uint32_t c = 0; c < flow->control_count; c++) at[flow->controls[c].entry + 1]++;
    for (uint32_t s = 0; s <= steps; s++) at[s + 1] += at[s];
    for (uint32_t c = 0; c < flow->control_count; c++) {
        const tn__control *control = &flow->controls[c];
        uint32_t slot = at[control->entry]; /* insertion: few begin at one step */
        while (flow->entering[slot] != TN_NONE) slot++;
        for (; slot > at[control->entry] &&
               flow->controls[flow->entering[slot - 1]].own < control->own;
             slot--)
            flow->entering[slot] = flow->entering[slot - 1];
        flow->entering[slot] = c;
    }
}

tn_status tn__flow_make(tn__flow *flow, const tn_program *program, tn__executor *executor,
                        tn__arena *arena) {
    uint32_t ops = tn_graph_op_count(executor->graph), steps = tn_program_count(program);
    uint32_t count = tn_program_region_count(program);
    *flow = (tn__flow){.executor = executor, .graph = executor->graph, .region_count = count};
    flow->regions =
        tn__arena_copy(arena, tn_program_regions(program), count * sizeof *flow->regions);
    flow->controls = tn__arena_array(arena, count, sizeof *flow->controls);
    flow->entering = tn__arena_array(arena, (size_t)count + 1, sizeof *flow->entering);
    flow->entering_at = tn__arena_array(arena, (size_t)steps + 2, sizeof *flow->entering_at);
    flow->control_of = tn__arena_array(arena, ops, sizeof *flow->control_of);
    flow->frames = tn__arena_array(arena, (size_t)count + 1, sizeof *flow->frames);
    if (flow->regions == NULL || flow->controls == NULL || flow->entering == NULL ||
        flow->entering_at == NULL || flow->control_of == NULL || flow->frames == NULL)
        return tn__no_memory(executor->error, "control flow");
    for (uint32_t i = 0; i < ops; i++) flow->control_of[i] = TN_NONE;
    for (uint32_t i = 0; i <= count; i++) flow->entering[i] = TN_NONE;
    if (count == 0) return TN_OK;
    qsort(flow->regions, count, sizeof *flow->regions, flow_region_order);
    TN_TRY(flow_collect(flow, program));
    flow_sort(flow, steps);
    return TN_OK;
}
