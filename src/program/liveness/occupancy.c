/* occupancy.c - computes the memory that a Program needs: live ranges, buffers, the Problem, the
 * totals.
 *
 * Cost: O((instructions + operands) log n).
 */
#include "program/liveness/liveness.h"

#include <stdio.h>

void tn_occupancy_destroy(tn_occupancy *occupancy) {
    if (occupancy == NULL) return;
    tn_context context = occupancy->context;
    tn_problem_destroy(occupancy->problem);
    tn__arena_release(&occupancy->arena);
    tn__free(&context, occupancy->found, occupancy->found_room * sizeof *occupancy->found);
    tn__free(&context, occupancy->uses.items, occupancy->uses.room * sizeof *occupancy->uses.items);
    tn__free(&context, occupancy, sizeof *occupancy);
}

/* --- buffers --- */

typedef struct buffer_member { /* entry for sorting live ranges by buffer */
    uint32_t root, id;
} buffer_member;

static int occupancy_member_order(const void *a, const void *b) {
    const buffer_member *x = a, *y = b;
    if (x->root != y->root) return x->root < y->root ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The name of an operator; without a name, that of its first named output, or else its type. It
 * names the operator's scratch in a plan. */
static const char *occupancy_op_name(const liveness_state *liveness, const tn_op *op) {
    if (op->name[0] != '\0') return op->name;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && tn_graph_tensor(liveness->graph, op->outputs[k])->name[0])
            return tn_graph_tensor(liveness->graph, op->outputs[k])->name;
    return op->type;
}

static void occupancy_name(const liveness_state *liveness, const live_range *range, char *text,
                           size_t room) {
    const char *name =
        range->tensor == TN_NONE ? "" : tn_graph_tensor(liveness->graph, range->tensor)->name;
    const tn_op *op = range->op == TN_NONE ? NULL : tn_graph_op(liveness->graph, range->op);
    /* operators may use different forms of one static tensor, so the operator is part of the
     * name */
    if (range->is_static && op != NULL)
        snprintf(text, room, "%s for %s", name, op->name[0] != '\0' ? op->name : op->type);
    else if (name[0] != '\0')
        snprintf(text, room, "%s", name);
    else if (op != NULL)
        snprintf(text, room, "%s:%s", occupancy_op_name(liveness, op),
                 range->tensor == TN_NONE ? "workspace" : "output");
    else
        snprintf(text, room, "tensor %u", range->tensor);
}

#define OCCUPANCY_NAME_MAX 1024u /* bytes of a buffer's name; longer tensor names are cut */

/* Writes the two clocks of a live range: one before its first step, one after all of its uses. */
static void occupancy_clock(const liveness_state *liveness, const live_range *range,
                            int64_t *clocks, tn_piece *piece) {
    const tn__happens *happens = liveness->happens;
    uint32_t chains = happens->chain_count;
    int64_t *ends = clocks + chains;
    for (uint32_t c = 0; c < chains; c++) {
        clocks[c] = tn__happens_seen(happens, range->first, c);
        ends[c] = 0;
    }
    ends[happens->chain[range->first]] = (int64_t)happens->index[range->first] + 1;
    for (uint32_t at = range->newest; at != RANGE_NONE; at = liveness->uses.items[at].next) {
        uint32_t use = liveness->uses.items[at].step;
        int64_t *end = &ends[happens->chain[use]];
        if ((int64_t)happens->index[use] + 1 > *end) *end = (int64_t)happens->index[use] + 1;
    }
    piece->begins = clocks;
    piece->ends = ends;
}

/* --- tensors that lie one after another --- */

/* One buffer: its live ranges are the members [first, last), sorted by id. */
typedef struct buffer_run {
    size_t first, last;
    uint32_t chain; /* index of the pattern that a tensor of it matches; RANGE_NONE: none */
    uint32_t at;    /* id of the live range of that tensor */
    uint32_t key;   /* the least root of all buffers of the chain; without a chain, its own root */
} buffer_run;

/* The buffers of one pattern of tn_occupancy_options.adjacent. */
typedef struct buffer_chain {
    uint32_t key;
    bool begun; /* whether a buffer of the chain was added to the problem */
    tn_body_id first;
    uint64_t end; /* bytes from the start of `first` to the end of the last buffer so far */
} buffer_chain;

static const char *occupancy_tensor_name(const liveness_state *liveness, const live_range *range) {
    return tn_graph_tensor(liveness->graph, range->tensor)->name;
}

/* Finds the pattern that the tensor of a live range matches; RANGE_NONE: none. Fails if there are
 * two. */
static tn_status occupancy_pattern_of(const liveness_state *liveness, const live_range *range,
                                      uint32_t *pattern) {
    const tn_occupancy_options *options = &liveness->options;
    *pattern = RANGE_NONE;
    if (range->tensor == TN_NONE || range->is_static) return TN_OK;
    const char *name = occupancy_tensor_name(liveness, range);
    for (uint32_t c = 0; c < options->adjacent_count; c++) {
        if (!tn__glob(options->adjacent[c], name)) continue;
        if (*pattern != RANGE_NONE)
            TN_FAIL(liveness->error, TN_E_INVALID,
                    "`adjacent`: tensor '%.60s' matches two patterns, '%.40s' and "
                    "'%.40s'",
                    name, options->adjacent[*pattern], options->adjacent[c]);
        *pattern = c;
    }
    return TN_OK;
}

/* Finds the chain of a buffer. A tensor in a chain must have the whole buffer, which it may share
 * in place with tensors that are in no chain. */
static tn_status occupancy_find_chain(const liveness_state *liveness, const buffer_member *members,
                                      buffer_run *run) {
    const char *other = NULL;
    uint64_t size = 0;
    run->chain = RANGE_NONE;
    for (size_t i = run->first; i < run->last; i++)
        if (liveness->ranges[members[i].id].hi > size) size = liveness->ranges[members[i].id].hi;
    for (size_t i = run->first; i < run->last; i++) {
        const live_range *range = &liveness->ranges[members[i].id];
        uint32_t pattern;
        TN_TRY(occupancy_pattern_of(liveness, range, &pattern));
        if (pattern == RANGE_NONE) continue;
        const char *name = occupancy_tensor_name(liveness, range);
        if (other != NULL)
            TN_FAIL(liveness->error, TN_E_CONFLICT,
                    "`adjacent`: tensors '%.60s' and '%.60s' cannot be adjacent, because one is "
                    "written over "
                    "the other; do not allow operators in place",
                    other, name);
        if (range->lo != 0 || range->hi != size)
            TN_FAIL(liveness->error, TN_E_CONFLICT,
                    "`adjacent`: tensor '%.60s' cannot be adjacent to others, because it is a part "
                    "of another "
                    "tensor's memory; do not allow views",
                    name);
        other = name;
        run->chain = pattern;
        run->at = members[i].id;
    }
    return TN_OK;
}

static int occupancy_run_order(const void *a, const void *b) {
    const buffer_run *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Reports that a pattern matches no tensor of the arena. A static tensor can match: its memory is
 * outside of the arena, or it has an offset of its own there. */
static tn_status occupancy_no_chain(const liveness_state *liveness, const char *pattern) {
    const tn_graph *graph = liveness->graph;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        if (!tn__glob(pattern, tensor->name)) continue;
        if (tn_tensor_is_static(tensor))
            TN_FAIL(liveness->error, TN_E_INVALID,
                    "`adjacent`: '%.80s' matches only tensors that are kept between runs, such as "
                    "the %s '%.60s'; only tensors that a run computes or reads as an input can be "
                    "adjacent",
                    pattern, tn_kind_name(tensor->kind), tensor->name);
        TN_FAIL(liveness->error, TN_E_INVALID,
                "`adjacent`: tensor '%.60s', which matches '%.80s', has no memory in the arena",
                tensor->name, pattern);
    }
    TN_FAIL(liveness->error, TN_E_INVALID, "`adjacent`: no tensor matches '%.80s'", pattern);
}

/* Sorts the buffers of each chain by the definitions of their tensors, behind each other, because
 * a tied body must be added after its leader. */
static tn_status occupancy_sort_chains(const liveness_state *liveness, const buffer_member *members,
                                       buffer_run *runs, uint32_t count, buffer_chain *chains) {
    for (uint32_t i = 0; i < count; i++) {
        buffer_run *run = &runs[i];
        TN_TRY(occupancy_find_chain(liveness, members, run));
        run->key = members[run->first].root;
        if (run->chain == RANGE_NONE) continue;
        buffer_chain *chain = &chains[run->chain];
        if (!chain->begun) chain->key = run->key;
        chain->begun = true;
        run->key = chain->key;
    }
    for (uint32_t c = 0; c < liveness->options.adjacent_count; c++) {
        if (!chains[c].begun) return occupancy_no_chain(liveness, liveness->options.adjacent[c]);
        chains[c].begun = false;
    }
    qsort(runs, count, sizeof *runs, occupancy_run_order);
    return TN_OK;
}

/* Ties a buffer to the first one of its chain. */
static tn_status occupancy_tie(const liveness_state *liveness, buffer_chain *chain, tn_body_id id,
                               tn_body *body) {
    uint64_t at = 0;
    if (!tn__align_up(chain->end, liveness->options.alignment, &at) ||
        !tn__add(at, body->size, &chain->end))
        TN_FAIL(liveness->error, TN_E_INVALID, "adjacent tensors of more than 2^64 bytes");
    if (chain->begun) {
        body->flags |= TN_BODY_TIED;
        body->leader = chain->first;
        body->delta = at;
    } else {
        chain->first = id;
    }
    chain->begun = true;
    return TN_OK;
}

/* --- the problem --- */

/* Adds one buffer to the problem. Each section of it is the byte range that a member keeps
 * alive. */
static tn_status occupancy_add_buffer(const liveness_state *liveness, tn_problem *problem,
                                      buffer_chain *chains, const buffer_member *members,
                                      const buffer_run *run, tn_piece *pieces, tn_body_id *body) {
    size_t first = run->first, last = run->last;
    bool clocks = tn__liveness_has_clocks(liveness);
    size_t streams = clocks ? 2 * (size_t)liveness->happens->chain_count : 0, room = last - first;
    int64_t *clock = NULL;
    char name[OCCUPANCY_NAME_MAX];
    uint64_t size = 0, traffic = 0;
    if (clocks &&
        (clock = tn__alloc_array(liveness->context, room, streams * sizeof *clock)) == NULL)
        return tn__no_memory(liveness->error, "clocks");
    uint32_t count = 0;
    for (size_t i = first; i < last; i++) {
        const live_range *range = &liveness->ranges[members[i].id];
        if (range->hi > size) size = range->hi;
        traffic = tn__add_sat(traffic, tn__mul_sat(range->bytes, 1 + (uint64_t)range->uses));
        if (range->lo >= range->hi) continue;
        pieces[count] = (tn_piece){
            .first = range->first, .last = range->last, .lo = range->lo, .hi = range->hi};
        /* for a static live range no clock is written, because it is never over */
        if (clocks && !range->is_static)
            occupancy_clock(liveness, range, clock + count * streams, &pieces[count]);
        count++;
    }
    /* The buffer gets the name of the first member that begins at the buffer's start, so that a row
     * of a plan with this name gives the address of that tensor. */
    size_t at = first;
    while (at + 1 < last && liveness->ranges[members[at].id].delta != 0) at++;
    const live_range *owner = &liveness->ranges[members[at].id];
    occupancy_name(liveness, owner, name, sizeof name);
    tn_body made = {.size = size,
                    .first = owner->first,
                    .last = owner->last,
                    .pieces = pieces,
                    .piece_count = count,
                    .traffic = liveness->options.bank_count > 0 ? traffic : 0,
                    .name = name};
    if (owner->is_static && liveness->options.statics_first) {
        made.flags = TN_BODY_PINNED;
        made.offset = owner->offset;
    }
    tn_status status = TN_OK;
    if (run->chain != RANGE_NONE)
        status = occupancy_tie(liveness, &chains[run->chain], tn_problem_count(problem), &made);
    if (status == TN_OK) status = tn_problem_add(problem, &made, body, liveness->error);
    tn__free(liveness->context, clock, room * streams * sizeof *clock);
    return status;
}

tn_status tn__buffers_problem(liveness_state *liveness, tn_problem *problem, uint32_t *buffer_of) {
    size_t n = liveness->count;
    uint32_t count = 0;
    buffer_member *members = tn__arena_array(&liveness->scratch, n, sizeof *members);
    buffer_run *runs = tn__arena_array(&liveness->scratch, n, sizeof *runs);
    tn_piece *pieces = tn__arena_array(&liveness->scratch, n, sizeof *pieces);
    buffer_chain *chains =
        tn__arena_array(&liveness->scratch, liveness->options.adjacent_count, sizeof *chains);
    if (members == NULL || runs == NULL || pieces == NULL || chains == NULL)
        return tn__no_memory(liveness->error, "bodies");
    for (uint32_t i = 0; i < n; i++) members[i] = (buffer_member){liveness->ranges[i].root, i};
    if (n > 0) qsort(members, n, sizeof *members, occupancy_member_order);
    for (size_t first = 0, last; first < n; first = last) {
        for (last = first; last < n && members[last].root == members[first].root;) last++;
        runs[count++] = (buffer_run){.first = first, .last = last, .chain = RANGE_NONE};
    }
    if (liveness->options.adjacent_count > 0)
        TN_TRY(occupancy_sort_chains(liveness, members, runs, count, chains));
    TN_TRY(tn_problem_set_alignment(problem, liveness->options.alignment, liveness->error));
    if (tn__liveness_has_clocks(liveness))
        TN_TRY(tn_problem_set_streams(problem, liveness->happens->chain_count, liveness->error));
    for (uint32_t i = 0; i < count; i++)
        TN_TRY(occupancy_add_buffer(liveness, problem, chains, members, &runs[i], pieces,
                                    &buffer_of[members[runs[i].first].root]));
    return TN_OK;
}

/* --- results --- */

typedef struct range_sorted { /* a live range and its sorting key */
    tn_life range;
    uint32_t id;
} range_sorted;

static int occupancy_range_order(const void *a, const void *b) {
    const range_sorted *left = a, *right = b;
    const tn_life *x = &left->range, *y = &right->range;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return (left->id > right->id) - (left->id < right->id);
}

/* The bytes of memory of a live range. A view that repeats its source (Expand) needs no more bytes
 * than that source. */
static uint64_t occupancy_held(const live_range *range) {
    uint64_t seen = range->hi - range->lo;
    bool repeats = range->share == TN_SHARE_VIEW && range->hi > range->lo && range->bytes > seen;
    return repeats ? seen : range->bytes;
}

static tn_life occupancy_public_range(const liveness_state *liveness, const live_range *range) {
    return (tn_life){.tensor = range->tensor,
                     .op = range->op,
                     .body = range->body,
                     .delta = range->delta,
                     .bytes = occupancy_held(range),
                     .first = range->first,
                     .last = range->last,
                     .share = range->share,
                     .source = range->taken == RANGE_NONE ? TN_NONE
                                                          : liveness->ranges[range->taken].tensor,
                     .whole = range->whole,
                     .is_static = range->is_static};
}

/* Writes the live ranges in their public order, and the windows that they hold. `buffer_of` is
 * overwritten with the place of each live range. */
static tn_status occupancy_hand_over(liveness_state *liveness, tn_occupancy *made,
                                     uint32_t *buffer_of) {
    range_sorted *sorted = tn__arena_array(&liveness->scratch, liveness->count, sizeof *sorted);
    if (sorted == NULL) return tn__no_memory(liveness->error, "lives");
    for (uint32_t i = 0; i < liveness->count; i++) {
        liveness->ranges[i].body = buffer_of[liveness->ranges[i].root];
        sorted[i] = (range_sorted){occupancy_public_range(liveness, &liveness->ranges[i]), i};
    }
    if (liveness->count > 0) qsort(sorted, liveness->count, sizeof *sorted, occupancy_range_order);
    for (uint32_t i = 0; i < liveness->count; i++) {
        made->ranges[i] = sorted[i].range;
        buffer_of[sorted[i].id] = i;
    }
    return tn__holders_windows(liveness, made, buffer_of);
}

/* --- totals --- */

static uint64_t occupancy_aligned(const liveness_state *liveness, uint64_t bytes) {
    uint64_t aligned;
    return tn__align_up(bytes, liveness->options.alignment, &aligned) ? aligned : UINT64_MAX;
}

static tn_kind occupancy_kind(const liveness_state *liveness, const live_range *range) {
    const tn_life of = {.tensor = range->tensor, .is_static = range->is_static};
    return tn_life_kind(liveness->graph, &of);
}

/* Whether a static tensor shows the bytes of another static tensor. A Constant shows the bytes of
 * its attribute, and a Reshape those of a weight. */
static bool occupancy_is_static_view(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (tensor->producer == TN_NONE || tensor->value != NULL) return false;
    const tn_op *op = tn_graph_op(graph, tensor->producer);
    uint32_t output = 0;
    while (op->outputs[output] != id) output++;
    tn_view view = tn_op_view(graph, tensor->producer, output);
    return view.source != TN_NONE && !view.whole &&
           tn_tensor_is_static(tn_graph_tensor(graph, view.source));
}

/* Sums the bytes of all tensors by kind. Each tensor counts once; an alias by definition has no
 * memory of its own. */
static void occupancy_count_totals(const liveness_state *liveness, tn_memory_summary *summary) {
    for (uint32_t i = 0; i < liveness->count; i++) {
        const live_range *range = &liveness->ranges[i];
        bool alias = range->source != RANGE_NONE && range->must;
        bool again =
            range->tensor != TN_NONE && liveness->latest[range->tensor] != i && !range->is_static;
        if (alias || again) continue;
        uint64_t bytes = occupancy_aligned(liveness, range->bytes);
        uint64_t *total = &summary->total[occupancy_kind(liveness, range)];
        *total = tn__add_sat(*total, bytes);
        summary->naive = tn__add_sat(summary->naive, bytes);
        if (range->tensor != TN_NONE &&
            (tn_graph_tensor(liveness->graph, range->tensor)->flags & TN_TENSOR_BOUND))
            summary->bounded++;
    }
    /* static tensors have already been counted, in their stored form */
    if (liveness->options.static_count > 0) return;
    for (uint32_t i = 0; i < tn_graph_tensor_count(liveness->graph); i++) {
        const tn_tensor *tensor = tn_graph_tensor(liveness->graph, i);
        if (!tn_tensor_is_static(tensor) || tensor->bytes == TN_SIZE_UNKNOWN) continue;
        if (occupancy_is_static_view(liveness->graph, i)) continue;
        bool trained = tensor->kind == TN_KIND_OPTIMIZER_STATE || tensor->kind == TN_KIND_GRADIENT;
        tn_kind kind =
            tensor->kind == TN_KIND_PARAMETER || trained ? tensor->kind : TN_KIND_CONSTANT;
        summary->total[kind] =
            tn__add_sat(summary->total[kind], occupancy_aligned(liveness, tensor->bytes));
    }
}

/* Sums the bytes at the peak by kind. */
static void occupancy_count_peak(tn_occupancy *made) {
    holders_walk walk = HOLDERS_WALK_INIT;
    tn_occupant holder;
    while (tn__holders_next(made, made->summary.peak_step, &walk, &holder))
        made->summary.at_peak[tn__occupancy_kind(made, holder.life)] += holder.bytes;
}

static tn_status occupancy_summarise(const liveness_state *liveness, tn_occupancy *made) {
    tn_memory_summary *summary = &made->summary;
    int64_t step = 0;
    occupancy_count_totals(liveness, summary);
    TN_TRY(tn_problem_lower_bound(made->problem, 0, &summary->peak_live, &step, liveness->error));
    summary->peak_step = (uint32_t)step;
    occupancy_count_peak(made);
    return TN_OK;
}

/* --- entry points --- */

static tn_status occupancy_run(liveness_state *liveness, tn_occupancy *made) {
    uint32_t tensors = tn_graph_tensor_count(liveness->graph);
    if (!(liveness->latest =
              tn__arena_array(&liveness->scratch, tensors, sizeof *liveness->latest)) ||
        !(liveness->is_static =
              tn__arena_array(&liveness->scratch, tensors, sizeof *liveness->is_static)) ||
        !(liveness->is_open =
              tn__arena_array(&liveness->scratch, tensors, sizeof *liveness->is_open)))
        return tn__no_memory(liveness->error, "an occupancy");
    for (uint32_t i = 0; i < tensors; i++) {
        liveness->latest[i] = RANGE_NONE;
        liveness->is_static[i] = tn_tensor_is_static(tn_graph_tensor(liveness->graph, i));
    }
    TN_TRY(tn__liveness_find(liveness));
    TN_TRY(tn__buffers_assign(liveness));
    TN_TRY(tn__liveness_straighten(liveness));
    made->ranges = tn__arena_array(&made->arena, liveness->count, sizeof *made->ranges);
    uint32_t *buffer_of = tn__arena_array(&liveness->scratch, liveness->count, sizeof *buffer_of);
    if (made->ranges == NULL || buffer_of == NULL) return tn__no_memory(liveness->error, "lives");
    made->count = liveness->count;
    TN_TRY(tn__buffers_problem(liveness, made->problem, buffer_of));
    TN_TRY(occupancy_hand_over(liveness, made, buffer_of));
    TN_TRY(occupancy_summarise(liveness, made));
    if (liveness->options.bank_count == 0) return TN_OK;
    return tn_problem_offer_banks(made->problem, liveness->options.banks,
                                  liveness->options.bank_count, liveness->error);
}

tn_status tn__occupancy_options(const tn_occupancy_options *given, tn_occupancy_options *options,
                                tn_error *error) {
    tn_occupancy_options made = TN_OCCUPANCY_OPTIONS_INIT;
    tn__options(&made, sizeof made, given);
    made.struct_size = sizeof made;
    if (made.alignment == 0) made.alignment = 64;
    if (!tn__is_power_of_two(made.alignment))
        TN_FAIL(error, TN_E_INVALID, "the alignment is not a power of two");
    *options = made;
    return TN_OK;
}

tn_status tn__liveness_order(liveness_state *liveness, tn__happens *happens) {
    const tn_instruction *instructions = tn_program_instructions(liveness->program);
    bool several = false;
    for (uint32_t i = 1; i < tn_program_count(liveness->program); i++)
        several |= instructions[i].stream != instructions[0].stream;
    bool safe = liveness->options.parallel == TN_PARALLEL_SAFE;
    if (!safe && !several) return TN_OK;
    TN_TRY(tn__happens_create(liveness->program, safe ? TN__BY_GRAPH : TN__BY_STREAMS,
                              TN__HAPPENS_MAX, happens, liveness->error));
    liveness->happens = happens;
    return TN_OK;
}

tn_status tn_occupancy_create(const tn_program *program, const tn_occupancy_options *options,
                              tn_occupancy **occupancy, tn_error *error) {
    const tn_context *context = &program->context;
    liveness_state liveness = {
        .program = program, .graph = program->graph, .context = context, .error = error};
    TN_TRY(tn__occupancy_options(options, &liveness.options, error));
    tn_occupancy *made = tn__alloc_array(context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "an occupancy");
    made->context = *context;
    made->program = program;
    tn__arena_init(&made->arena, &made->context);
    tn__arena_init(&liveness.scratch, context);
    tn__happens happens = {0};
    tn_status status = tn_problem_create(context, &made->problem, error);
    if (status == TN_OK) status = tn__liveness_order(&liveness, &happens);
    if (status == TN_OK) status = occupancy_run(&liveness, made);
    tn__happens_release(&happens);
    tn__arena_release(&liveness.scratch);
    made->found = liveness.ranges;
    made->found_room = liveness.room;
    made->uses = liveness.uses;
    if (status != TN_OK)
        tn_occupancy_destroy(made);
    else
        *occupancy = made;
    return status;
}

const tn_program *tn_occupancy_program(const tn_occupancy *occupancy) { return occupancy->program; }
const tn_problem *tn_occupancy_problem(const tn_occupancy *occupancy) { return occupancy->problem; }
uint32_t tn_occupancy_life_count(const tn_occupancy *occupancy) {
    return (uint32_t)occupancy->count;
}
const tn_life *tn_occupancy_lives(const tn_occupancy *occupancy) { return occupancy->ranges; }
tn_memory_summary tn_occupancy_summary(const tn_occupancy *occupancy) { return occupancy->summary; }
