/* join.c - programs of ranks that have parts of one model: what is to become one over them does,
 * right behind the operator that says so.
 *
 *     stream 0   ... APPLY MatMul   APPLY RankSum   REDUCE (sum)   APPLY Add ...
 *
 * The next operator nearly always needs it, so it is a matter of the same stream; a signal of the
 * operator is given by what stands behind it instead.
 * Cost: O(instructions).
 */
#include "dist/world.h"
#include "graph/op.h"

typedef struct join_state {
    const tn_graph *graph;
    const tn_instruction *from;
    uint32_t count, group, made;
    tn_instruction *to;
    uint32_t *at; /* [count + 1] where an instruction has come to */
    tn__arena arena;
    tn_error *error;
} join_state;

static bool join_is_sum(const join_state *it, const tn_instruction *in) {
    return in->opcode == TN_APPLY &&
           tn__op_has(it->graph, in->op, TN_RULE_RANKS_SUM | TN_RULE_RANKS_MAX);
}

static void join_walk(join_state *it) {
    for (uint32_t s = 0; s < it->count; s++) {
        tn_instruction *in = &it->to[it->made++];
        it->at[s] = it->made - 1;
        *in = it->from[s];
        if (!join_is_sum(it, in)) continue;
        tn_instruction *reduce = &it->to[it->made++];
        bool most = tn__op_has(it->graph, in->op, TN_RULE_RANKS_MAX);
        *reduce = (tn_instruction)TN_INSTRUCTION_INIT;
        reduce->opcode = TN_REDUCE;
        reduce->tensor = tn_graph_op(it->graph, in->op)->outputs[0];
        reduce->stream = in->stream;
        reduce->group = it->group;
        reduce->reduction = most ? TN_REDUCTION_MAX : TN_REDUCTION_SUM;
        reduce->signal = in->signal;
        in->signal = 0;
    }
    it->at[it->count] = it->made;
}

static tn_status join_regions(join_state *it, const tn_program *program, tn_region **regions) {
    uint32_t count = tn_program_region_count(program);
    *regions = tn__arena_copy(&it->arena, tn_program_regions(program), count * sizeof **regions);
    if (count > 0 && *regions == NULL) return tn__no_memory(it->error, "blocks");
    for (uint32_t r = 0; r < count; r++) {
        (*regions)[r].first = it->at[(*regions)[r].first];
        (*regions)[r].last = it->at[(*regions)[r].last];
    }
    return TN_OK;
}

tn_status tn_program_join(const tn_program *program, uint32_t group, tn_program **joined,
                          tn_error *error) {
    uint32_t encoded;
    tn_region *regions = NULL;
    (void)tn_program_encoded(program, &encoded);
    if (encoded > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "a program that keeps tensors encoded is not made one of several ranks");
    join_state it = {.graph = tn_program_graph(program),
                     .from = tn_program_instructions(program),
                     .count = tn_program_count(program),
                     .group = group,
                     .error = error};
    tn__arena_init(&it.arena, tn_graph_context(it.graph));
    it.to = tn__arena_array(&it.arena, 2 * (size_t)it.count + 1, sizeof *it.to);
    it.at = tn__arena_array(&it.arena, (size_t)it.count + 1, sizeof *it.at);
    tn_status status =
        it.to != NULL && it.at != NULL ? TN_OK : tn__no_memory(error, "a program of several ranks");
    if (status == TN_OK) {
        join_walk(&it);
        status = join_regions(&it, program, &regions);
    }
    if (status == TN_OK)
        status = tn_program_from(it.graph, it.to, it.made, regions,
                                 tn_program_region_count(program), joined, error);
    tn__arena_release(&it.arena);
    return status;
}
