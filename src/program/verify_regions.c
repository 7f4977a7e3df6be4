/* verify_regions.c - checks control flow in a list: nested, complete, and closed by its
 * operator.
 *
 *     | region: then | region: else | APPLY If
 *
 * An operator has one region for each of its blocks that may run. Its regions follow each other
 * without a gap, and its APPLY comes next. All of them are on one stream, so that a skipped
 * branch and a repeated turn need no signals.
 */
#include "graph/op.h"
#include "program/verify.h"

#define REGION_FAIL(verify, region, ...)                                                           \
    return regions_where(verify, tn__fail((verify)->error, TN_E_INVALID, __VA_ARGS__), region)

static tn_status regions_where(const verify_state *verify, tn_status status, uint32_t region) {
    tn_op_id id = verify->regions[region].op;
    bool known = id < tn_graph_op_count(verify->graph);
    return tn__where(verify->error, status, "region %u, node '%.60s' (%.30s)", region,
                     known ? tn_graph_op(verify->graph, id)->name : "",
                     known ? tn_graph_op(verify->graph, id)->type : "");
}

static bool regions_runs(const verify_state *verify, const tn_attr *attr) {
    return attr->type == TN_ATTR_BLOCK && !tn_graph_block(verify->graph, attr->block)->dead;
}

/* --- one region alone --- */

static tn_status regions_check(const verify_state *verify, uint32_t r) {
    const tn_region *region = &verify->regions[r];
    if (region->first > region->last || region->last > verify->count ||
        region->op >= tn_graph_op_count(verify->graph) ||
        region->block >= tn_graph_block_count(verify->graph))
        REGION_FAIL(verify, r, "it lies outside the program, or names nothing of the graph");
    const tn_op *op = tn_graph_op(verify->graph, region->op);
    bool owns = false;
    for (uint32_t i = 0; i < op->attr_count; i++)
        owns |= regions_runs(verify, &op->attrs[i]) && op->attrs[i].block == region->block;
    if (!owns) REGION_FAIL(verify, r, "block %u is none that its node runs", region->block);
    if (region->repeats == tn__op_has(verify->graph, region->op, TN_RULE_ONCE))
        REGION_FAIL(verify, r, "it %s, and its node %s", region->repeats ? "repeats" : "runs once",
                    region->repeats ? "runs a block once" : "may run a block many times");
    for (uint32_t other = verify->of_op[region->op]; other != VERIFY_NONE;
         other = verify->next[other])
        if (verify->regions[other].block == region->block)
            REGION_FAIL(verify, r, "block %u has region %u already", region->block, other);
    return TN_OK;
}

static int regions_order(const void *a, const void *b) {
    const tn_region *x = *(const tn_region *const *)a, *y = *(const tn_region *const *)b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->last != y->last) return x->last > y->last ? -1 : 1;
    return (x > y) - (x < y);
}

/* --- nesting --- */

/* Finds the region around each region and around each step. Empty regions contain nothing. */
static tn_status regions_nest(verify_state *verify) {
    const tn_region **sorted =
        tn__arena_array(&verify->arena, verify->region_count, sizeof *sorted);
    if (sorted == NULL) return tn__verify_no_memory(verify);
    for (uint32_t r = 0; r < verify->region_count; r++)
        if (verify->regions[r].first < verify->regions[r].last)
            sorted[verify->sorted_count++] = &verify->regions[r];
    if (verify->sorted_count > 0)
        qsort(sorted, verify->sorted_count, sizeof *sorted, regions_order);
    uint32_t top = VERIFY_NONE, at = 0;
    for (uint32_t step = 0; step < verify->count; step++) {
        while (top != VERIFY_NONE && verify->regions[top].last <= step) top = verify->around[top];
        for (; at < verify->sorted_count && sorted[at]->first == step; at++) {
            uint32_t r = (uint32_t)(sorted[at] - verify->regions);
            if (top != VERIFY_NONE && sorted[at]->last > verify->regions[top].last)
                REGION_FAIL(verify, r, "it begins inside region %u and ends after it", top);
            verify->around[r] = top;
            verify->sorted[at] = top = r;
        }
        verify->region_at[step] = top;
    }
    return TN_OK;
}

/* The regions of one operator, followed by its APPLY. */
static tn_status regions_close(verify_state *verify, tn_op_id op) {
    uint32_t first = UINT32_MAX, last = 0, r = verify->of_op[op];
    uint64_t instructions = 0;
    for (uint32_t i = r; i != VERIFY_NONE; i = verify->next[i]) {
        const tn_region *region = &verify->regions[i];
        if (region->first < first) first = region->first;
        if (region->last > last) last = region->last;
        instructions += region->last - region->first;
    }
    if (instructions != last - first)
        REGION_FAIL(verify, r, "the regions of its node do not follow each other");
    if (last >= verify->count || verify->instructions[last].opcode != TN_APPLY ||
        verify->instructions[last].op != op)
        REGION_FAIL(verify, r, "instruction %u, after the regions, is not the APPLY of its node",
                    last);
    for (uint32_t i = r; i != VERIFY_NONE; i = verify->next[i]) {
        const tn_region *region = &verify->regions[i];
        verify->own[i] = last;
        bool empty = region->first == region->last;
        if (!empty && verify->around[i] != verify->region_at[last])
            REGION_FAIL(verify, i, "it is not in the region that its node's APPLY is in");
    }
    return TN_OK;
}

/* --- instructions in them --- */

static tn_status regions_apply(const verify_state *verify, uint32_t step) {
    tn_op_id id = verify->instructions[step].op;
    const tn_op *op = tn_graph_op(verify->graph, id);
    uint32_t around = verify->region_at[step], blocks = 0, found = 0;
    tn_block_id block = around == VERIFY_NONE ? 0 : verify->regions[around].block;
    if (op->block != block)
        VERIFY_FAIL(verify, step, TN_NONE, "its node is in block %u, this is a run of block %u",
                    op->block, block);
    for (uint32_t i = 0; i < op->attr_count; i++) blocks += regions_runs(verify, &op->attrs[i]);
    for (uint32_t r = verify->of_op[id]; r != VERIFY_NONE; r = verify->next[r]) {
        found++;
        if (verify->own[r] != step)
            VERIFY_FAIL(verify, step, TN_NONE,
                        "its regions are those of instruction %u: control "
                        "flow runs once",
                        verify->own[r]);
        if (verify->regions[r].first < step && verify->instructions[step].wait != 0)
            VERIFY_FAIL(verify, step, TN_NONE,
                        "it would wait after its regions: put a WAIT in front of them");
    }
    if (found != blocks)
        VERIFY_FAIL(verify, step, TN_NONE, "its node runs %u blocks, and %u have a region", blocks,
                    found);
    return TN_OK;
}

static tn_status regions_inside(const verify_state *verify, uint32_t step) {
    const tn_instruction *it = &verify->instructions[step];
    const tn_instruction *own = &verify->instructions[verify->own[verify->region_at[step]]];
    if (it->stream != own->stream)
        VERIFY_FAIL(verify, step, it->tensor, "the control flow around it is on stream %u, not %u",
                    own->stream, it->stream);
    if (it->wait != 0 || it->signal != 0)
        VERIFY_FAIL(verify, step, it->tensor,
                    "inside control flow nobody waits or signals: do it outside");
    if (tn_opcode_facts_of(it->opcode)->blocks != TN_BLOCKS_NOBODY)
        VERIFY_FAIL(verify, step, it->tensor,
                    "inside control flow nobody knows how often others would have to take part");
    return TN_OK;
}

tn_status tn__verify_regions(verify_state *verify) {
    tn__arena *arena = &verify->arena;
    uint32_t ops = tn_graph_op_count(verify->graph), regions = verify->region_count;
    if (!(verify->region_at = tn__arena_array(arena, verify->count, sizeof *verify->region_at)) ||
        !(verify->around = tn__arena_array(arena, regions, sizeof *verify->around)) ||
        !(verify->own = tn__arena_array(arena, regions, sizeof *verify->own)) ||
        !(verify->next = tn__arena_array(arena, regions, sizeof *verify->next)) ||
        !(verify->sorted = tn__arena_array(arena, regions, sizeof *verify->sorted)) ||
        !(verify->of_op = tn__arena_array(arena, ops, sizeof *verify->of_op)))
        return tn__verify_no_memory(verify);
    memset(verify->of_op, 0xff, ops * sizeof *verify->of_op);
    for (uint32_t r = 0; r < regions; r++) {
        TN_TRY(regions_check(verify, r));
        verify->next[r] = verify->of_op[verify->regions[r].op];
        verify->of_op[verify->regions[r].op] = r;
    }
    TN_TRY(regions_nest(verify));
    for (uint32_t r = 0; r < regions; r++)
        if (verify->next[r] == VERIFY_NONE) TN_TRY(regions_close(verify, verify->regions[r].op));
    for (uint32_t step = 0; step < verify->count; step++) {
        if (verify->instructions[step].opcode == TN_APPLY) TN_TRY(regions_apply(verify, step));
        if (verify->region_at[step] != VERIFY_NONE) TN_TRY(regions_inside(verify, step));
    }
    return TN_OK;
}
