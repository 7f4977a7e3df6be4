/* join.c - adds communication to the programs of tensor-parallel ranks: each operator that combines
 * data of the ranks is replaced or followed by a collective.
 *
 *     stream 0   ... APPLY MatMul   APPLY RankSum   REDUCE (sum)   APPLY Add ...
 *
 * RankScatter and RankGather are replaced by SCATTER and GATHER. The collective stays on the stream
 * of its operator, because the next operator nearly always needs the result; it gives the signal
 * that the operator gave.
 *
 * The result of a RankGather is dropped when the ranks have communicated again after its last read,
 * and gathered once more for later reads. So for the backward pass a rank keeps only its part. The
 * whole is kept as long as one of its views is still to be read. It is also kept if a rule of the
 * user says so or another stream uses it, and in programs with control flow.
 * Cost: O(instructions + operands).
 */
#include "fit/budget/rules.h"
#include "graph/op.h"
#include "program/program.h"
#include "run/dist/world.h"

typedef struct join_state {
    const tn_graph *graph;
    const tn_rules *rules;
    const tn_instruction *from;
    uint32_t count, group;
    size_t made, room;
    tn_instruction *to;
    /* for each instruction of the given program, and for its end: the index in the new program */
    uint32_t *at;
    /* The arrays from here on describe gathered tensors. NULL: every gathered tensor is kept. */
    /* for each tensor: how many collectives had been called (`called`) when it was last read or
     * gathered */
    uint32_t *calls;
    tn__lists uses; /* for each tensor: the steps that use it */
    /* for each tensor: the gathered tensor that it is, or of which it is a view; TN_NONE: none */
    tn_tensor_id *whole;
    /* for each gathered tensor: the last step that reads one of the views made so far */
    uint32_t *viewed;
    uint32_t called; /* number of collectives called so far */
    tn__arena arena;
    tn_error *error;
} join_state;

#define JOIN_GATHERS TN_RULE_RANKS_WHOLE
#define JOIN_SCATTERS TN_RULE_RANKS_PART
#define JOIN_SUMS (TN_RULE_RANKS_SUM | TN_RULE_RANKS_MAX)

static bool join_is(const join_state *it, const tn_instruction *in, uint32_t flags) {
    return in->opcode == TN_APPLY && tn__op_has(it->graph, in->op, flags);
}

static tn_status join_put(join_state *it, tn_instruction in) {
    if (!tn__reserve(tn_graph_context(it->graph), &it->to, &it->room, it->made + 1, sizeof in))
        return tn__no_memory(it->error, "a program of several ranks");
    it->to[it->made++] = in;
    return it->made < TN_NONE ? TN_OK : tn__fail(it->error, TN_E_EXHAUSTED, "2^32 instructions");
}

/* --- readers of gathered tensors --- */

typedef tn_status (*join_seer)(join_state *it, uint32_t step, tn_tensor_id id);

static tn_status join_reads(join_state *it, uint32_t step, join_seer see) {
    const tn_instruction *in = &it->from[step];
    if (in->opcode != TN_APPLY) {
        tn_tensor_id id = tn_instruction_effects(in).reads;
        return id != TN_NONE ? see(it, step, id) : TN_OK;
    }
    tn_op_form form = tn_op_form_of(it->graph, in->op, in->again);
    for (uint32_t i = 0; i < form.input_count; i++) {
        tn_tensor_id id = tn_op_form_input(&form, i);
        if (id != TN_NONE) TN_TRY(see(it, step, id));
    }
    return TN_OK;
}

/* Finds the tensors that are gathered in the forward pass, and their views, which are computed
 * later. */
static void join_find(join_state *it, uint32_t step) {
    const tn_instruction *in = &it->from[step];
    if (in->opcode != TN_APPLY) return;
    const tn_op *op = tn_graph_op(it->graph, in->op);
    if (join_is(it, in, JOIN_GATHERS) &&
        tn__rules_of(it->rules, it->graph, in->op) != TN_RULE_KEEP &&
        tn_graph_tensor(it->graph, op->outputs[0])->kind == TN_KIND_ACTIVATION)
        it->whole[op->outputs[0]] = op->outputs[0];
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        tn_tensor_id source = tn_op_view(it->graph, in->op, k).source;
        if (source != TN_NONE) it->whole[op->outputs[k]] = it->whole[source];
    }
}

static void join_stays(join_state *it, tn_tensor_id id) {
    if (id == TN_NONE || it->whole[id] == TN_NONE) return;
    it->whole[it->whole[id]] = TN_NONE;
    it->whole[id] = TN_NONE;
}

/* Marks gathered tensors that must be kept, because an operator changes them, an instruction other
 * than an operator changes, defines or releases them, or another stream uses them. */
static void join_leave(join_state *it, uint32_t step) {
    const tn_instruction *in = &it->from[step];
    tn_effects does = tn_instruction_effects(in);
    bool beside = in->stream > 0;
    if (in->opcode != TN_APPLY) {
        join_stays(it, does.changes);
        join_stays(it, does.defines);
        join_stays(it, does.releases);
        if (beside) join_stays(it, does.reads);
        return;
    }
    tn_op_form form = tn_op_form_of(it->graph, in->op, in->again);
    for (uint32_t i = 0; i < form.input_count; i++)
        if (beside || (i < 64 && (form.changes >> i & 1) != 0))
            join_stays(it, tn_op_form_input(&form, i));
    for (uint32_t k = 0; k < form.output_count && beside; k++) join_stays(it, form.op->outputs[k]);
}

static tn_status join_begin(join_state *it, const tn_program *program) {
    size_t tensors = tn_graph_tensor_count(it->graph);
    bool stays = tn_program_region_count(program) > 0, any = false;
    it->at = tn__arena_array(&it->arena, (size_t)it->count + 1, sizeof *it->at);
    if (it->at == NULL) return tn__no_memory(it->error, "a program of several ranks");
    for (uint32_t s = 0; s < it->count; s++) any = any || join_is(it, &it->from[s], JOIN_GATHERS);
    if (stays || !any) return TN_OK;
    it->calls = tn__arena_array(&it->arena, tensors, sizeof *it->calls);
    it->viewed = tn__arena_array(&it->arena, tensors, sizeof *it->viewed);
    it->whole = tn__arena_array(&it->arena, tensors, sizeof *it->whole);
    if (!it->calls || !it->viewed || !it->whole)
        return tn__no_memory(it->error, "a program of several ranks");
    for (size_t t = 0; t < tensors; t++) it->whole[t] = TN_NONE;
    TN_TRY(tn__program_uses(program, &it->arena, &it->uses, it->error));
    for (uint32_t s = 0; s < it->count; s++) join_find(it, s);
    for (uint32_t s = 0; s < it->count; s++) join_leave(it, s);
    return TN_OK;
}

/* --- the instructions of the new program --- */

static tn_status join_gather(join_state *it, const tn_instruction *in, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    tn_instruction gather = TN_INSTRUCTION_INIT;
    gather.opcode = TN_GATHER;
    gather.tensor = op->inputs[0];
    gather.other = op->outputs[0];
    gather.stream = in->stream;
    gather.group = it->group;
    gather.wait = in->wait;
    gather.signal = in->signal;
    it->called++;
    if (it->whole != NULL) it->calls[op->outputs[0]] = it->called;
    return join_put(it, gather);
}

/* Called for each tensor that a step reads. If ranks have communicated since a gathered tensor was
 * last read, it is dropped and gathered again. */
static tn_status join_see(join_state *it, uint32_t step, tn_tensor_id id) {
    const tn_instruction plain = TN_INSTRUCTION_INIT;
    if (it->whole[id] != id) return TN_OK;
    if (it->calls[id] != it->called && it->viewed[id] < step) {
        tn_instruction drop = TN_INSTRUCTION_INIT;
        drop.opcode = TN_DROP;
        drop.tensor = id;
        TN_TRY(join_put(it, drop));
        TN_TRY(join_gather(it, &plain, tn_graph_tensor(it->graph, id)->producer));
    }
    it->calls[id] = it->called;
    return TN_OK;
}

/* Records the last step that reads one of the views that the operator makes. */
static void join_view(join_state *it, const tn_instruction *in) {
    if (in->opcode != TN_APPLY) return;
    const tn_op *op = tn_graph_op(it->graph, in->op);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id view = op->outputs[k], of = view != TN_NONE ? it->whole[view] : TN_NONE;
        if (of == TN_NONE || of == view) continue;
        uint32_t last = tn__lists_last(&it->uses, view);
        if (last != TN_NONE && last > it->viewed[of]) it->viewed[of] = last;
    }
}

static tn_status join_reduce(join_state *it, tn_instruction in) {
    tn_instruction reduce = TN_INSTRUCTION_INIT;
    bool most = tn__op_has(it->graph, in.op, TN_RULE_RANKS_MAX);
    bool part = tn__op_has(it->graph, in.op, JOIN_SCATTERS);
    const tn_op *op = tn_graph_op(it->graph, in.op);
    reduce.opcode = part ? TN_SCATTER : TN_REDUCE;
    reduce.tensor = part ? op->inputs[0] : op->outputs[0];
    reduce.other = part ? op->outputs[0] : TN_NONE;
    reduce.stream = in.stream;
    reduce.group = it->group;
    reduce.reduction = most ? TN_REDUCTION_MAX : TN_REDUCTION_SUM;
    reduce.signal = in.signal;
    reduce.wait = part ? in.wait : 0;
    in.signal = 0;
    it->called++;
    if (!part) TN_TRY(join_put(it, in));
    return join_put(it, reduce);
}

static tn_status join_walk(join_state *it) {
    for (uint32_t s = 0; s < it->count; s++) {
        const tn_instruction *in = &it->from[s];
        it->at[s] = (uint32_t)it->made;
        if (it->whole != NULL) {
            TN_TRY(join_reads(it, s, join_see));
            join_view(it, in);
        }
        if (join_is(it, in, JOIN_GATHERS))
            TN_TRY(join_gather(it, in, in->op));
        else if (join_is(it, in, JOIN_SUMS | JOIN_SCATTERS))
            TN_TRY(join_reduce(it, *in));
        else
            TN_TRY(join_put(it, *in));
    }
    it->at[it->count] = (uint32_t)it->made;
    return TN_OK;
}

/* --- the new program as a whole --- */

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

tn_status tn_program_join(const tn_program *program, uint32_t group, const tn_rules *rules,
                          tn_program **joined, tn_error *error) {
    uint32_t encoded;
    tn_region *regions = NULL;
    (void)tn_program_encoded(program, &encoded);
    if (encoded > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "a program that keeps tensors encoded is not made one of several ranks");
    join_state it = {.graph = tn_program_graph(program),
                     .rules = rules,
                     .from = tn_program_instructions(program),
                     .count = tn_program_count(program),
                     .group = group,
                     .error = error};
    const tn_context *context = tn_graph_context(it.graph);
    tn__arena_init(&it.arena, context);
    tn_status status = join_begin(&it, program);
    if (status == TN_OK) status = join_walk(&it);
    if (status == TN_OK) status = join_regions(&it, program, &regions);
    if (status == TN_OK)
        status = tn_program_from(it.graph, it.to, (uint32_t)it.made, regions,
                                 tn_program_region_count(program), joined, error);
    tn__free(context, it.to, it.room * sizeof *it.to);
    tn__arena_release(&it.arena);
    return status;
}
