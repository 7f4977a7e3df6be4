/* happens.c - the partial order of a program, as chains and vector clocks.
 *
 * Edges: a reader of a tensor comes after its definition, and a new definition comes after all
 * readers of the old one. An operator that writes into its input orders the other operators on
 * that memory: earlier ones stay before it and later ones after it. Views are accesses to the
 * memory of their source. An operator with blocks is one event from outside: it starts when all
 * inputs of its blocks are there, its blocks run one after the other as the program lists them,
 * and its outputs are there when its own APPLY is done. Inputs are put in order, and outputs are
 * fetched in order.
 *
 * With TN__BY_STREAMS, only the streams and signals of the program define the order, and
 * instructions that block the caller stay in order. In a program that the verifier accepts, this
 * implies all of the edges above.
 *
 * Chains: an instruction joins the chain of an instruction that it waits for, if that one is
 * still the end of its chain. Otherwise it joins any chain with an end that is known to come
 * before it. Otherwise it opens a new chain. Clocks are computed in the same walk: the maximum
 * over all predecessors.
 *
 * Cost: O((instructions + edges) chains) time, O(instructions chains) memory.
 * Source: vector clocks: Fidge 1988, Mattern 1989; chains: a greedy path cover.
 */
#include "graph/op.h"
#include "program/liveness/happens.h"

#define HAPPENS_NONE UINT32_MAX

typedef struct happens_edge {
    uint32_t from, to;
} happens_edge;

/* an entry in a list of the steps that have read a tensor or a memory */
typedef struct happens_touch {
    uint32_t step, next;
} happens_touch;

typedef struct happens_signal {
    uint32_t signal, step;
} happens_signal;

typedef struct happens_maker {
    const tn_program *program;
    const tn_graph *graph;
    const tn_context *context;
    tn_error *error;
    tn__happens *made;
    tn__arena scratch;
    /* [steps] first step of the outermost control flow around the step; outside control flow, the
     * step itself */
    uint32_t *entry;
    uint32_t *definer; /* [tensors] the step of the tensor's newest definition, or HAPPENS_NONE */
    /* [tensors] list of the steps that have read the tensor since its newest definition */
    uint32_t *user;
    /* [tensors] number of the memory in which the tensor lies: at first its own; for a view, that
     * of its source */
    uint32_t *home;
    /* [tensors + definitions] for each memory: the newest step that wrote into it, and the list of
     * steps that have read it since */
    uint32_t *writer, *reader;
    uint32_t home_count, home_room;
    uint32_t ordered; /* newest instruction with effects other than its outputs, or HAPPENS_NONE */
    happens_edge *edges;
    happens_touch *touches;
    size_t edge_count, edge_room, touch_count, touch_room;
    /* [steps + 1] index of the first edge that ends at each step; valid after the edges are
     * sorted */
    uint32_t *first;
    uint32_t *length; /* [chains] number of steps in each chain so far */
    size_t length_room;
    size_t numbers, most; /* number of clock entries stored so far, and their limit */
} happens_maker;

/* --- control flow as one event --- */

static int happens_region_order(const void *a, const void *b) {
    const tn_region *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->last != y->last) return x->last > y->last ? -1 : 1;
    return (x->block > y->block) - (x->block < y->block);
}

static tn_status happens_group(happens_maker *maker) {
    const tn_program *program = maker->program;
    const tn_instruction *instructions = tn_program_instructions(program);
    uint32_t steps = tn_program_count(program), count = tn_program_region_count(program);
    for (uint32_t i = 0; i < steps; i++) maker->entry[i] = maker->made->exit[i] = i;
    if (count == 0) return TN_OK;
    tn_region *regions = tn__arena_array(&maker->scratch, count, sizeof *regions);
    if (regions == NULL) return tn__no_memory(maker->error, "regions");
    memcpy(regions, tn_program_regions(program), count * sizeof *regions);
    qsort(regions, count, sizeof *regions, happens_region_order);
    for (uint32_t r = 0, done = 0; r < count; r++) {
        /* skips a region that lies inside one that was handled, or belongs to the same operator */
        if (regions[r].first < done) continue;
        uint32_t own = regions[r].last;
        while (own < steps &&
               (instructions[own].opcode != TN_APPLY || instructions[own].op != regions[r].op))
            own++;
        for (uint32_t i = regions[r].first; i <= own && i < steps; i++) {
            maker->entry[i] = regions[r].first;
            maker->made->exit[i] = own < steps ? own : steps - 1;
        }
        done = own + 1;
    }
    return TN_OK;
}

/* --- edges --- */

static tn_status happens_add(happens_maker *maker, uint32_t from, uint32_t to) {
    if (from == HAPPENS_NONE || maker->entry[from] == maker->entry[to]) return TN_OK;
    if (!tn__reserve(maker->context, &maker->edges, &maker->edge_room, maker->edge_count + 1,
                     sizeof *maker->edges))
        return tn__no_memory(maker->error, "the order of operators");
    maker->edges[maker->edge_count++] = (happens_edge){maker->made->exit[from], maker->entry[to]};
    return TN_OK;
}

static tn_status happens_note(happens_maker *maker, uint32_t *list, uint32_t step) {
    if (!tn__reserve(maker->context, &maker->touches, &maker->touch_room, maker->touch_count + 1,
                     sizeof *maker->touches))
        return tn__no_memory(maker->error, "the order of operators");
    maker->touches[maker->touch_count] = (happens_touch){step, *list};
    *list = (uint32_t)maker->touch_count++;
    return TN_OK;
}

static tn_status happens_after(happens_maker *maker, uint32_t list, uint32_t step) {
    for (; list != HAPPENS_NONE; list = maker->touches[list].next)
        TN_TRY(happens_add(maker, maker->touches[list].step, step));
    return TN_OK;
}

static tn_status happens_read(happens_maker *maker, tn_tensor_id tensor, uint32_t step) {
    if (tensor == TN_NONE) return TN_OK;
    uint32_t home = maker->home[tensor];
    TN_TRY(happens_add(maker, maker->definer[tensor], step));
    TN_TRY(happens_add(maker, maker->writer[home], step));
    TN_TRY(happens_note(maker, &maker->user[tensor], step));
    return happens_note(maker, &maker->reader[home], step);
}

/* Adds the edges for an operator that writes into the memory of a tensor: after all earlier
 * accesses of that memory, before all later ones. */
static tn_status happens_change(happens_maker *maker, tn_tensor_id tensor, uint32_t step) {
    if (tensor == TN_NONE) return TN_OK;
    uint32_t home = maker->home[tensor];
    TN_TRY(happens_add(maker, maker->writer[home], step));
    TN_TRY(happens_after(maker, maker->reader[home], step));
    maker->writer[home] = step;
    maker->reader[home] = HAPPENS_NONE;
    return TN_OK;
}

/* Records the definition of a tensor, in the memory of a view's source or in new memory of its own.
 * It comes after the previous definition of the tensor and all of its readers. */
static tn_status happens_define(happens_maker *maker, tn_tensor_id tensor, tn_tensor_id source,
                                uint32_t step) {
    if (tensor == TN_NONE) return TN_OK;
    TN_TRY(happens_add(maker, maker->definer[tensor], step));
    TN_TRY(happens_after(maker, maker->user[tensor], step));
    if (source != TN_NONE)
        maker->home[tensor] = maker->home[source];
    else if (maker->definer[tensor] != HAPPENS_NONE)
        maker->home[tensor] = maker->home_count++;
    if (source == TN_NONE) maker->writer[maker->home[tensor]] = step;
    maker->definer[tensor] = step;
    maker->user[tensor] = HAPPENS_NONE;
    return TN_OK;
}

/* Adds the edges for an instruction that releases a tensor. It comes after the definition. The
 * memory is free when all of its users are over; an instruction FREE counts as one of these
 * users. */
static tn_status happens_release(happens_maker *maker, const tn_instruction *it, uint32_t step) {
    tn_tensor_id tensor = tn_instruction_effects(it).releases;
    if (tensor == TN_NONE) return TN_OK;
    TN_TRY(happens_add(maker, maker->definer[tensor], step));
    if (!(tn_opcode_facts_of(it->opcode)->flags & TN_KEEPS)) return TN_OK;
    return happens_note(maker, &maker->user[tensor], step);
}

static tn_status happens_apply(happens_maker *maker, const tn_instruction *it, uint32_t step) {
    tn_op_id id = it->op;
    tn_op_form form = tn_op_form_of(maker->graph, id, it->again);
    for (uint32_t i = 0; i < form.input_count; i++)
        TN_TRY(happens_read(maker, tn_op_form_input(&form, i), step));
    if (tn_op_is_ordered(maker->graph, id)) {
        TN_TRY(happens_add(maker, maker->ordered, step));
        maker->ordered = step;
    }
    for (uint32_t i = 0; i < form.input_count && i < 64; i++)
        if (form.changes >> i & 1) TN_TRY(happens_change(maker, form.op->inputs[i], step));
    for (uint32_t k = 0; k < form.output_count; k++) {
        tn_tensor_id tensor = form.op->outputs[k];
        if (tensor == TN_NONE) continue;
        TN_TRY(happens_define(maker, tensor, tn_op_view(maker->graph, id, k).source, step));
    }
    return TN_OK;
}

/* Adds the reads by which an operator takes results from its blocks, because no instruction lists
 * them. */
static tn_status happens_results(happens_maker *maker) {
    const tn_program *program = maker->program;
    const tn_region *regions = tn_program_regions(program);
    for (uint32_t r = 0; r < tn_program_region_count(program); r++) {
        const tn_block *block = tn_graph_block(maker->graph, regions[r].block);
        uint32_t step = regions[r].first;
        if (step >= tn_program_count(program)) continue;
        for (uint32_t i = 0; i < block->output_count; i++) {
            uint32_t definer = maker->definer[block->outputs[i]];
            if (definer != HAPPENS_NONE && definer < maker->entry[step])
                TN_TRY(happens_add(maker, definer, step));
        }
    }
    return TN_OK;
}

static tn_status happens_step(happens_maker *maker, const tn_instruction *it, uint32_t step) {
    tn_effects does = tn_instruction_effects(it);
    if (tn_opcode_facts_of(it->opcode)->reads == TN_AFFECTS_OPERATOR)
        return happens_apply(maker, it, step);
    TN_TRY(happens_read(maker, does.reads, step));
    TN_TRY(happens_change(maker, does.changes, step));
    TN_TRY(happens_define(maker, does.defines, TN_NONE, step));
    return happens_release(maker, it, step);
}

static int happens_signal_order(const void *a, const void *b) {
    const happens_signal *x = a, *y = b;
    return (x->signal > y->signal) - (x->signal < y->signal);
}

/* Orders the instructions that block the caller: those of one opcode run in the order of the list,
 * across all streams. */
static tn_status happens_caller(happens_maker *maker) {
    const tn_instruction *instructions = tn_program_instructions(maker->program);
    uint32_t last[TN_OPCODE_COUNT];
    for (uint32_t i = 0; i < TN_OPCODE_COUNT; i++) last[i] = HAPPENS_NONE;
    for (uint32_t step = 0; step < maker->made->count; step++) {
        tn_opcode opcode = instructions[step].opcode;
        if (tn_opcode_facts_of(opcode)->blocks != TN_BLOCKS_CALLER) continue;
        TN_TRY(happens_add(maker, last[opcode], step));
        last[opcode] = step;
    }
    return TN_OK;
}

static tn_status happens_data(happens_maker *maker) {
    const tn_instruction *instructions = tn_program_instructions(maker->program);
    uint32_t tensors = tn_graph_tensor_count(maker->graph);
    for (uint32_t i = 0; i < tensors; i++) {
        maker->definer[i] = maker->user[i] = HAPPENS_NONE;
        maker->home[i] = i;
    }
    maker->home_count = tensors;
    memset(maker->writer, 0xff, maker->home_room * sizeof *maker->writer);
    memset(maker->reader, 0xff, maker->home_room * sizeof *maker->reader);
    for (uint32_t step = 0; step < maker->made->count; step++)
        TN_TRY(happens_step(maker, &instructions[step], step));
    return happens_results(maker);
}

/* Adds the order of streams: each stream runs its instructions in order, and some of them wait for
 * a signal. */
static tn_status happens_streams(happens_maker *maker, happens_signal *signals) {
    const tn_instruction *instructions = tn_program_instructions(maker->program);
    uint32_t count = 0, last[TN_STREAM_MAX];
    for (uint32_t i = 0; i < TN_STREAM_MAX; i++) last[i] = HAPPENS_NONE;
    for (uint32_t step = 0; step < maker->made->count; step++)
        if (instructions[step].signal != 0)
            signals[count++] = (happens_signal){instructions[step].signal, step};
    if (count > 0) qsort(signals, count, sizeof *signals, happens_signal_order);
    for (uint32_t step = 0; step < maker->made->count; step++) {
        const tn_instruction *it = &instructions[step];
        TN_TRY(happens_add(maker, last[it->stream], step));
        last[it->stream] = step;
        if (it->wait == 0) continue;
        const happens_signal *given = bsearch(&(happens_signal){.signal = it->wait}, signals, count,
                                              sizeof *signals, happens_signal_order);
        TN_TRY(happens_add(maker, given != NULL ? given->step : HAPPENS_NONE, step));
    }
    return TN_OK;
}

static tn_status happens_edges(happens_maker *maker, tn__happens_by by) {
    happens_signal *signals = tn__arena_array(&maker->scratch, maker->made->count, sizeof *signals);
    if (signals == NULL) return tn__no_memory(maker->error, "the order of operators");
    TN_TRY(by == TN__BY_GRAPH ? happens_data(maker) : happens_streams(maker, signals));
    return happens_caller(maker);
}

/* --- chains and clocks --- */

/* Sorts the edges by the step at which they end, with a counting sort. */
static void happens_sort(happens_maker *maker, uint32_t *from) {
    uint32_t steps = maker->made->count;
    memset(maker->first, 0, ((size_t)steps + 1) * sizeof *maker->first);
    for (size_t i = 0; i < maker->edge_count; i++) maker->first[maker->edges[i].to + 1]++;
    for (uint32_t i = 0; i < steps; i++) maker->first[i + 1] += maker->first[i];
    for (size_t i = 0; i < maker->edge_count; i++)
        from[maker->first[maker->edges[i].to]++] = maker->edges[i].from;
    for (uint32_t i = steps; i > 0; i--) maker->first[i] = maker->first[i - 1];
    maker->first[0] = 0;
}

static void happens_follow(tn__happens *made, uint32_t from, uint32_t *clock) {
    for (uint32_t c = 0; c < made->width[from]; c++)
        if (made->clock[from][c] > clock[c]) clock[c] = made->clock[from][c];
    uint32_t chain = made->chain[from];
    if (made->index[from] + 1 > clock[chain]) clock[chain] = made->index[from] + 1;
}

/* Returns the chain to which `step` is added: one whose last step comes before `step`, preferably
 * the chain of a direct predecessor, else a new one. A step inside control flow (`inside`) joins
 * the chain of the previous step. */
static uint32_t happens_chain(const happens_maker *maker, const uint32_t *clock,
                              const uint32_t *from, uint32_t count, bool inside, uint32_t step) {
    const tn__happens *made = maker->made;
    if (inside) return made->chain[step - 1];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t chain = made->chain[from[i]];
        if (clock[chain] == maker->length[chain]) return chain;
    }
    for (uint32_t chain = 0; chain < made->chain_count; chain++)
        if (clock[chain] == maker->length[chain]) return chain;
    return made->chain_count;
}

static tn_status happens_clock(happens_maker *maker, const uint32_t *from, uint32_t count,
                               uint32_t step) {
    tn__happens *made = maker->made;
    /* the step belongs to control flow that began at an earlier step, so it continues the chain of
     * the previous step */
    bool inside = maker->entry[step] != step;
    maker->numbers += made->chain_count;
    if (maker->numbers > maker->most)
        TN_FAIL(maker->error, TN_E_UNSUPPORTED,
                "too many operators are independent of each other: their order takes more than "
                "%zu MiB",
                maker->most >> 18);
    uint32_t *clock = tn__arena_array(&made->arena, made->chain_count, sizeof *clock);
    if (clock == NULL || !tn__reserve(maker->context, &maker->length, &maker->length_room,
                                      (size_t)made->chain_count + 1, sizeof *maker->length))
        return tn__no_memory(maker->error, "the order of operators");
    if (inside) happens_follow(made, step - 1, clock);
    for (uint32_t i = 0; i < count; i++) happens_follow(made, from[i], clock);
    uint32_t chain = happens_chain(maker, clock, from, count, inside, step);
    made->clock[step] = clock;
    made->width[step] = made->chain_count;
    if (chain == made->chain_count) maker->length[made->chain_count++] = 0;
    made->chain[step] = chain;
    made->index[step] = maker->length[chain]++;
    return TN_OK;
}

static tn_status happens_clocks(happens_maker *maker) {
    uint32_t *from = tn__arena_array(&maker->scratch, maker->edge_count, sizeof *from);
    if (from == NULL) return tn__no_memory(maker->error, "the order of operators");
    happens_sort(maker, from);
    for (uint32_t step = 0; step < maker->made->count; step++)
        TN_TRY(happens_clock(maker, from + maker->first[step],
                             maker->first[step + 1] - maker->first[step], step));
    return TN_OK;
}

/* --- entry points --- */

static size_t happens_definitions(const tn_program *program) {
    size_t count = 0;
    for (uint32_t step = 0; step < tn_program_count(program); step++) {
        const tn_instruction *it = &tn_program_instructions(program)[step];
        count += it->op == TN_NONE ? 1 : tn_graph_op(program->graph, it->op)->output_count;
    }
    return count;
}

static tn_status happens_room(happens_maker *maker) {
    tn__happens *made = maker->made;
    tn__arena *kept = &made->arena, *scratch = &maker->scratch;
    size_t steps = made->count, tensors = tn_graph_tensor_count(maker->graph);
    size_t homes = tensors + happens_definitions(maker->program);
    if (homes >= HAPPENS_NONE) TN_FAIL(maker->error, TN_E_INVALID, "more than 2^32 definitions");
    maker->home_room = (uint32_t)homes;
    bool all = (made->chain = tn__arena_array(kept, steps, sizeof *made->chain)) &&
               (made->index = tn__arena_array(kept, steps, sizeof *made->index)) &&
               (made->width = tn__arena_array(kept, steps, sizeof *made->width)) &&
               (made->clock = tn__arena_array(kept, steps, sizeof *made->clock)) &&
               (made->exit = tn__arena_array(kept, steps, sizeof *made->exit)) &&
               (maker->entry = tn__arena_array(scratch, steps, sizeof *maker->entry)) &&
               (maker->first = tn__arena_array(scratch, steps + 1, sizeof *maker->first)) &&
               (maker->definer = tn__arena_array(scratch, tensors, sizeof *maker->definer)) &&
               (maker->home = tn__arena_array(scratch, tensors, sizeof *maker->home)) &&
               (maker->user = tn__arena_array(scratch, tensors, sizeof *maker->user)) &&
               (maker->writer = tn__arena_array(scratch, homes, sizeof *maker->writer)) &&
               (maker->reader = tn__arena_array(scratch, homes, sizeof *maker->reader));
    return all ? TN_OK : tn__no_memory(maker->error, "the order of operators");
}

tn_status tn__happens_create(const tn_program *program, tn__happens_by by, size_t most,
                             tn__happens *happens, tn_error *error) {
    tn__happens made = {.context = &program->context, .count = tn_program_count(program)};
    happens_maker maker = {.program = program,
                           .graph = program->graph,
                           .context = &program->context,
                           .error = error,
                           .made = &made,
                           .most = most < TN__HAPPENS_MAX ? most : TN__HAPPENS_MAX,
                           .ordered = HAPPENS_NONE};
    tn__arena_init(&made.arena, &program->context);
    tn__arena_init(&maker.scratch, &program->context);
    tn_status status = happens_room(&maker);
    if (status == TN_OK) status = happens_group(&maker);
    if (status == TN_OK) status = happens_edges(&maker, by);
    if (status == TN_OK) status = happens_clocks(&maker);
    tn__free(maker.context, maker.edges, maker.edge_room * sizeof *maker.edges);
    tn__free(maker.context, maker.touches, maker.touch_room * sizeof *maker.touches);
    tn__free(maker.context, maker.length, maker.length_room * sizeof *maker.length);
    tn__arena_release(&maker.scratch);
    if (status == TN_OK)
        *happens = made;
    else
        tn__arena_release(&made.arena);
    return status;
}

void tn__happens_release(tn__happens *happens) {
    if (happens->context != NULL) tn__arena_release(&happens->arena);
    *happens = (tn__happens){0};
}
