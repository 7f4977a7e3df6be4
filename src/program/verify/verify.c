/* verify.c - checks that a program can run and that it computes the outputs of its graph.
 *
 * It makes several passes, and each may rely on those before it. The first checks the operands of
 * every instruction against the table of opcodes (here). The second checks that control flow is
 * nested. The third derives from streams and signals which instructions are over when an
 * instruction starts. The next checks the order of messages and collectives (verify_ranks.c). The
 * last walks the list and tracks which tensors exist, with which contents, on the device, in the
 * host pool and encoded (verify_walk.c).
 *
 * Cost: O(n + operands) for a program of one stream; with s streams and w waits, s w more; with m
 * messages and collectives, m log m more.
 */
#include "graph/op.h"
#include "program/verify/verify.h"

#include <stdio.h>

/* --- the verifier ----------------------------------------------------------------------------- */

tn_status tn__verify_where(const verify_state *verify, tn_status status, uint32_t step,
                           tn_tensor_id tensor) {
    const tn_instruction *it = &verify->instructions[step];
    const char *name = tn_opcode_name(it->opcode);
    char rank[24] = "", of[80] = "";
    if (verify->rank != VERIFY_NONE) snprintf(rank, sizeof rank, "rank %u, ", verify->rank);
    if (tensor < verify->tensor_count)
        snprintf(of, sizeof of, ", tensor '%.60s'", tn_graph_tensor(verify->graph, tensor)->name);
    if (it->opcode == TN_APPLY && it->op < tn_graph_op_count(verify->graph)) {
        const tn_op *op = tn_graph_op(verify->graph, it->op);
        return tn__where(verify->error, status, "%sinstruction %u (%s), node '%.40s' (%.24s)%s",
                         rank, step, name, op->name, op->type, of);
    }
    return tn__where(verify->error, status, "%sinstruction %u (%s)%s", rank, step, name, of);
}

tn_status tn__verify_no_memory(const verify_state *verify) {
    return tn__no_memory(verify->error, "the check of a program");
}

void tn__verify_begin(verify_state *verify, const tn_program *program, uint32_t rank,
                      tn_error *error) {
    *verify = (verify_state){.program = program,
                             .graph = program->graph,
                             .instructions = program->instructions,
                             .regions = program->regions,
                             .count = (uint32_t)program->count,
                             .region_count = (uint32_t)program->region_count,
                             .tensor_count = tn_graph_tensor_count(program->graph),
                             .rank = rank,
                             .error = error};
    tn__arena_init(&verify->arena, &program->context);
}

/* --- operands of an instruction --- */

static bool verify_uses(const tn_opcode_facts *facts, tn_affects part) {
    return facts->reads == part || facts->changes == part || facts->defines == part ||
           facts->releases == part;
}

/* Checks that an operand is an id below `count` where the opcode uses it, and TN_NONE where it does
 * not. */
static tn_status verify_id(const verify_state *verify, uint32_t step, bool used, uint32_t id,
                           uint32_t count, const char *what) {
    if (used && id >= count)
        VERIFY_FAIL(verify, step, TN_NONE, "it names no %s of the graph", what);
    if (!used && id != TN_NONE)
        VERIFY_FAIL(verify, step, TN_NONE, "it uses no %s: set it to TN_NONE", what);
    return TN_OK;
}

static tn_status verify_number(const verify_state *verify, uint32_t step, uint32_t uses,
                               uint32_t flag, uint32_t value, const char *what) {
    if (!(uses & flag) && value != 0)
        VERIFY_FAIL(verify, step, TN_NONE, "it uses no %s: set it to 0", what);
    return TN_OK;
}

static tn_status verify_ids(const verify_state *verify, uint32_t step) {
    const tn_instruction *it = &verify->instructions[step];
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    bool other = verify_uses(facts, TN_AFFECTS_OTHER) &&
                 !((facts->flags & TN_MAY_CHANGE) && it->other == TN_NONE);
    TN_TRY(verify_id(verify, step, verify_uses(facts, TN_AFFECTS_OPERATOR), it->op,
                     tn_graph_op_count(verify->graph), "operator"));
    TN_TRY(verify_id(verify, step, verify_uses(facts, TN_AFFECTS_TENSOR), it->tensor,
                     verify->tensor_count, "tensor"));
    TN_TRY(verify_id(verify, step, other, it->other, verify->tensor_count, "other tensor"));
    if (other && it->other == it->tensor)
        VERIFY_FAIL(verify, step, it->tensor, "both its tensors are one: it needs two");
    return TN_OK;
}

/* Checks that an encoded form is only encoded, decoded, moved and released, with its own tensor and
 * codec. */
static tn_status verify_encoded(const verify_state *verify, uint32_t step) {
    const tn_instruction *it = &verify->instructions[step];
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    tn_tensor_id first = tn__program_first_encoded(verify->program);
    bool is_form = it->tensor != TN_NONE && it->tensor >= first;
    bool moves = (facts->flags & TN_USES_SLOT) || facts->reads == TN_AFFECTS_NONE;
    if (is_form && (!moves || facts->blocks != TN_BLOCKS_NOBODY))
        VERIFY_FAIL(verify, step, it->tensor, "it is an encoded form: DECODE it");
    if (it->other == TN_NONE || it->other < first) return TN_OK;
    const tn_encoded *form = &verify->program->encoded[it->other - first];
    if (!(facts->flags & TN_USES_CODEC) || form->tensor != it->tensor || form->codec != it->codec)
        VERIFY_FAIL(verify, step, it->other, "it is for '%.60s' by codec %s alone",
                    tn_graph_tensor(verify->graph, form->tensor)->name, tn_codec_name(form->codec));
    return TN_OK;
}

static tn_status verify_numbers(const verify_state *verify, uint32_t step) {
    const tn_instruction *it = &verify->instructions[step];
    uint32_t uses = tn_opcode_facts_of(it->opcode)->flags;
    TN_TRY(verify_number(verify, step, uses, TN_USES_SLOT, it->slot, "host buffer"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_PEER, it->peer, "peer"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_PEER, it->tag, "tag"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_PEER, it->part, "part"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_PEER, it->parts, "parts"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_GROUP, it->group, "group"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_CODEC, it->codec, "codec"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_REDUCTION, it->reduction, "reduction"));
    if (it->stream >= TN_STREAM_MAX)
        VERIFY_FAIL(verify, step, it->tensor, "stream %u: there are %u", it->stream, TN_STREAM_MAX);
    if (it->slot > verify->count)
        VERIFY_FAIL(verify, step, it->tensor,
                    "host buffer %u: number them from 1, without more of them than instructions",
                    it->slot);
    if ((uses & TN_USES_CODEC) && (it->codec == TN_CODEC_NONE || it->codec >= TN_CODEC_COUNT))
        VERIFY_FAIL(verify, step, it->tensor, "it names no codec");
    if (it->again && it->opcode != TN_APPLY)
        VERIFY_FAIL(verify, step, it->tensor, "it runs no operator: it cannot do so again");
    if (it->reduction >= TN_REDUCTION_COUNT)
        VERIFY_FAIL(verify, step, it->tensor, "it names no reduction");
    uint64_t bytes = it->parts > 0 ? tn_graph_tensor(verify->graph, it->tensor)->bytes : 0;
    if (it->part > 0 && it->part >= it->parts)
        VERIFY_FAIL(verify, step, it->tensor, "part %u of %u", it->part, it->parts);
    if (it->parts > 0 && bytes % it->parts != 0)
        VERIFY_FAIL(verify, step, it->tensor, "%llu bytes are not %u equal parts",
                    (unsigned long long)bytes, it->parts);
    if ((uses & TN_USES_WAIT) && it->wait == 0)
        VERIFY_FAIL(verify, step, TN_NONE, "it waits for nothing: name a signal, or leave it out");
    return TN_OK;
}

static tn_status verify_fields(const verify_state *verify) {
    for (uint32_t step = 0; step < verify->count; step++) {
        if ((size_t)verify->instructions[step].opcode >= TN_OPCODE_COUNT)
            VERIFY_FAIL(verify, step, TN_NONE, "there is no opcode %u",
                        (unsigned)verify->instructions[step].opcode);
        TN_TRY(verify_ids(verify, step));
        TN_TRY(verify_numbers(verify, step));
        TN_TRY(verify_encoded(verify, step));
    }
    return TN_OK;
}

/* --- entry points --- */

static tn_status verify_regions(verify_state *verify);

static tn_status verify_order(verify_state *verify);

tn_status tn__verify_program(verify_state *verify) {
    TN_TRY(verify_fields(verify));
    TN_TRY(verify_regions(verify));
    TN_TRY(verify_order(verify));
    TN_TRY(tn__verify_messages(verify));
    return tn__verify_walk(verify);
}

tn_status tn_program_verify(const tn_program *program, tn_error *error) {
    verify_state verify;
    tn__verify_begin(&verify, program, VERIFY_NONE, error);
    tn_status status = tn__verify_program(&verify);
    tn__arena_release(&verify.arena);
    return status;
}

/* --- control flow ----------------------------------------------------------------------------- */

/* Checks control flow in a list: nested, complete, and closed by its operator.
 *
 *     | region: then | region: else | APPLY If
 *
 * An operator has one region for each of its blocks that may run. Its regions follow each other
 * without a gap, and its APPLY comes next. All of them are on one stream, so that a skipped
 * branch and a repeated turn need no signals.
 */

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

/* Finds the innermost region around each region and around each step. Empty regions contain
 * nothing. */
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

/* Checks that the regions of an operator follow each other and that its APPLY comes next. */
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

/* Checks that control flow is nested and complete, and that the regions of each operator are
 * followed by its APPLY. */
static tn_status verify_regions(verify_state *verify) {
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

/* --- signals ---------------------------------------------------------------------------------- */

/* Finds the instructions that are over when an instruction starts.
 *
 * Each instruction has a list with one number per stream: how many of the stream's instructions are
 * over. It shares the list of the previous instruction on its stream. It gets a list of its own
 * only if something else must be over first: the instruction that gives the signal for which it
 * waits, or, if its opcode blocks the caller, the previous instruction of that opcode on any
 * stream.
 */

typedef struct order_signal {
    uint32_t signal, step;
} order_signal;

static int order_signal_order(const void *a, const void *b) {
    const order_signal *x = a, *y = b;
    if (x->signal != y->signal) return x->signal < y->signal ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static tn_status order_signals(verify_state *verify, order_signal **signals, uint32_t *count) {
    order_signal *made = tn__arena_array(&verify->arena, verify->count, sizeof *made);
    if (made == NULL) return tn__verify_no_memory(verify);
    for (uint32_t step = 0; step < verify->count; step++)
        if (verify->instructions[step].signal != 0)
            made[(*count)++] = (order_signal){verify->instructions[step].signal, step};
    if (*count > 0) qsort(made, *count, sizeof *made, order_signal_order);
    for (uint32_t i = 1; i < *count; i++)
        if (made[i].signal == made[i - 1].signal)
            VERIFY_FAIL(verify, made[i].step, TN_NONE,
                        "signal %u is given by instruction %u already: each once", made[i].signal,
                        made[i - 1].step);
    *signals = made;
    return TN_OK;
}

/* Finds the step that gives the signal for which `step` waits. */
static tn_status order_find(const verify_state *verify, const order_signal *signals, uint32_t count,
                            uint32_t step, uint32_t *from) {
    uint32_t signal = verify->instructions[step].wait, low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (signals[middle].signal < signal)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || signals[low].signal != signal)
        VERIFY_FAIL(verify, step, TN_NONE, "it waits for signal %u, which no instruction gives",
                    signal);
    if (signals[low].step >= step)
        VERIFY_FAIL(verify, step, TN_NONE,
                    "it waits for signal %u, which instruction %u gives only later", signal,
                    signals[low].step);
    *from = signals[low].step;
    return TN_OK;
}

/* Records that `step` starts after `from` is over, together with all steps that are over before
 * `from`. */
static tn_status order_join(verify_state *verify, uint32_t from, uint32_t step) {
    if (from == VERIFY_NONE || tn__verify_is_over(verify, from, step)) return TN_OK;
    const uint32_t *old = verify->over[step], *other = verify->over[from];
    uint32_t *made = tn__arena_array(&verify->arena, verify->stream_count, sizeof *made);
    if (made == NULL) return tn__verify_no_memory(verify);
    for (uint32_t s = 0; s < verify->stream_count; s++)
        made[s] = old[s] > other[s] ? old[s] : other[s];
    made[verify->instructions[from].stream] = verify->index[from] + 1;
    verify->over[step] = made;
    return TN_OK;
}

static tn_status order_step(verify_state *verify, const order_signal *signals, uint32_t count,
                            uint32_t step, uint32_t *of_opcode) {
    const tn_instruction *it = &verify->instructions[step];
    verify->waited[step] = VERIFY_NONE;
    if (it->wait != 0) {
        TN_TRY(order_find(verify, signals, count, step, &verify->waited[step]));
        TN_TRY(order_join(verify, verify->waited[step], step));
    }
    if (tn_opcode_facts_of(it->opcode)->blocks != TN_BLOCKS_CALLER) return TN_OK;
    TN_TRY(order_join(verify, of_opcode[it->opcode], step));
    of_opcode[it->opcode] = step;
    return TN_OK;
}

/* Matches signals, and finds for each instruction the steps that are over when it starts. */
static tn_status verify_order(verify_state *verify) {
    tn__arena *arena = &verify->arena;
    uint32_t *now[TN_STREAM_MAX], length[TN_STREAM_MAX] = {0}, count = 0;
    uint32_t of_opcode[TN_OPCODE_COUNT];
    order_signal *signals = NULL;
    TN_TRY(order_signals(verify, &signals, &count));
    verify->stream_count = 1;
    for (uint32_t step = 0; step < verify->count; step++)
        if (verify->instructions[step].stream >= verify->stream_count)
            verify->stream_count = verify->instructions[step].stream + 1;
    uint32_t *nothing = tn__arena_array(arena, verify->stream_count, sizeof *nothing);
    if (nothing == NULL ||
        !(verify->index = tn__arena_array(arena, verify->count, sizeof *verify->index)) ||
        !(verify->over = tn__arena_array(arena, verify->count, sizeof *verify->over)) ||
        !(verify->waited = tn__arena_array(arena, verify->count, sizeof *verify->waited)) ||
        !(verify->brings = tn__arena_array(arena, verify->count, sizeof *verify->brings)))
        return tn__verify_no_memory(verify);
    for (uint32_t s = 0; s < TN_STREAM_MAX; s++) now[s] = nothing;
    for (uint32_t i = 0; i < TN_OPCODE_COUNT; i++) of_opcode[i] = VERIFY_NONE;
    for (uint32_t step = 0; step < verify->count; step++) {
        uint32_t stream = verify->instructions[step].stream;
        verify->index[step] = length[stream]++;
        verify->over[step] = now[stream];
        TN_TRY(order_step(verify, signals, count, step, of_opcode));
        now[stream] = verify->over[step];
    }
    return TN_OK;
}
