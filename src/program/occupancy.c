/* occupancy.c - computes the memory that a Program needs: lives, bodies, the Problem, the
 * totals.
 *
 * Cost: O((instructions + operands) log n).
 */
#include "program/occupancy.h"

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

/* --- bodies --- */

typedef struct occ_member { /* lives sorted by body */
    uint32_t root, id;
} occ_member;

static int occ_member_order(const void *a, const void *b) {
    const occ_member *x = a, *y = b;
    if (x->root != y->root) return x->root < y->root ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The name of an operator, or of its result if it has no name: each scratch has a row in a plan. */
static const char *occ_op_name(const occ_state *occ, const tn_op *op) {
    if (op->name[0] != '\0') return op->name;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && tn_graph_tensor(occ->graph, op->outputs[k])->name[0])
            return tn_graph_tensor(occ->graph, op->outputs[k])->name;
    return op->type;
}

static void occ_name(const occ_state *occ, const occ_life *life, char *text, size_t room) {
    const char *name =
        life->tensor == TN_NONE ? "" : tn_graph_tensor(occ->graph, life->tensor)->name;
    const tn_op *op = life->op == TN_NONE ? NULL : tn_graph_op(occ->graph, life->op);
    if (life->is_static && op != NULL) /* several operators may have forms of the same tensor */
        snprintf(text, room, "%s for %s", name, op->name[0] != '\0' ? op->name : op->type);
    else if (name[0] != '\0')
        snprintf(text, room, "%s", name);
    else if (op != NULL)
        snprintf(text, room, "%s:%s", occ_op_name(occ, op),
                 life->tensor == TN_NONE ? "workspace" : "output");
    else
        snprintf(text, room, "tensor %u", life->tensor);
}

#define OCC_NAME_MAX 1024u /* of a body: longer tensor names are cut */

/* The clocks of a life: before its first step, and after all of its uses. */
static void occ_clock(const occ_state *occ, const occ_life *life, int64_t *clocks,
                      tn_piece *piece) {
    const tn__happens *happens = occ->happens;
    uint32_t chains = happens->chain_count;
    int64_t *ends = clocks + chains;
    for (uint32_t c = 0; c < chains; c++) {
        clocks[c] = tn__happens_seen(happens, life->first, c);
        ends[c] = 0;
    }
    ends[happens->chain[life->first]] = (int64_t)happens->index[life->first] + 1;
    for (uint32_t at = life->newest; at != OCC_NONE; at = occ->uses.items[at].next) {
        uint32_t use = occ->uses.items[at].step;
        int64_t *end = &ends[happens->chain[use]];
        if ((int64_t)happens->index[use] + 1 > *end) *end = (int64_t)happens->index[use] + 1;
    }
    piece->begins = clocks;
    piece->ends = ends;
}

/* One body of the members [first, last): each piece is the byte range that a member keeps alive. */
static tn_status occ_add_body(const occ_state *occ, tn_problem *problem, const occ_member *members,
                              size_t first, size_t last, tn_piece *pieces, tn_body_id *body) {
    bool clocks = tn__occ_has_clocks(occ);
    size_t streams = clocks ? 2 * (size_t)occ->happens->chain_count : 0, room = last - first;
    int64_t *clock = NULL;
    char name[OCC_NAME_MAX];
    uint64_t size = 0, traffic = 0;
    if (clocks && (clock = tn__alloc_array(occ->context, room, streams * sizeof *clock)) == NULL)
        return tn__no_memory(occ->error, "clocks");
    uint32_t count = 0;
    for (size_t i = first; i < last; i++) {
        const occ_life *life = &occ->lives[members[i].id];
        if (life->hi > size) size = life->hi;
        traffic = tn__add_sat(traffic, tn__mul_sat(life->bytes, 1 + (uint64_t)life->uses));
        if (life->lo >= life->hi) continue;
        pieces[count] =
            (tn_piece){.first = life->first, .last = life->last, .lo = life->lo, .hi = life->hi};
        if (clocks && !life->is_static) /* for static memory, no step is known to be over */
            occ_clock(occ, life, clock + count * streams, &pieces[count]);
        count++;
    }
    /* Named after the first member at its start, so that a row with that name gives that
     * tensor's address. */
    size_t at = first;
    while (at + 1 < last && occ->lives[members[at].id].delta != 0) at++;
    const occ_life *owner = &occ->lives[members[at].id];
    occ_name(occ, owner, name, sizeof name);
    tn_body made = {.size = size,
                    .first = owner->first,
                    .last = owner->last,
                    .pieces = pieces,
                    .piece_count = count,
                    .traffic = occ->options.bank_count > 0 ? traffic : 0,
                    .name = name};
    if (owner->is_static && occ->options.statics_first) {
        made.flags = TN_BODY_PINNED;
        made.offset = owner->offset;
    }
    tn_status status = tn_problem_add(problem, &made, body, occ->error);
    tn__free(occ->context, clock, room * streams * sizeof *clock);
    return status;
}

tn_status tn__occ_problem(occ_state *occ, tn_problem *problem, uint32_t *body_of) {
    size_t n = occ->count;
    occ_member *members = tn__arena_array(&occ->scratch, n, sizeof *members);
    tn_piece *pieces = tn__arena_array(&occ->scratch, n, sizeof *pieces);
    if (members == NULL || pieces == NULL) return tn__no_memory(occ->error, "bodies");
    for (uint32_t i = 0; i < n; i++) members[i] = (occ_member){occ->lives[i].root, i};
    if (n > 0) qsort(members, n, sizeof *members, occ_member_order);
    TN_TRY(tn_problem_set_alignment(problem, occ->options.alignment, occ->error));
    if (tn__occ_has_clocks(occ))
        TN_TRY(tn_problem_set_streams(problem, occ->happens->chain_count, occ->error));
    for (size_t first = 0, last; first < n; first = last) {
        for (last = first; last < n && members[last].root == members[first].root;) last++;
        TN_TRY(occ_add_body(occ, problem, members, first, last, pieces,
                            &body_of[members[first].root]));
    }
    return TN_OK;
}

/* --- results --- */

typedef struct occ_sorted { /* a life on its way to its place */
    tn_life life;
    uint32_t id;
} occ_sorted;

static int occ_life_order(const void *a, const void *b) {
    const occ_sorted *left = a, *right = b;
    const tn_life *x = &left->life, *y = &right->life;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return (left->id > right->id) - (left->id < right->id);
}

/* A view that repeats its source (expand) is no larger than that source. */
static uint64_t occ_held(const occ_life *life) {
    uint64_t seen = life->hi - life->lo;
    bool repeats = life->share == TN_SHARE_VIEW && life->hi > life->lo && life->bytes > seen;
    return repeats ? seen : life->bytes;
}

static tn_life occ_life_of(const occ_state *occ, const occ_life *life) {
    return (tn_life){.tensor = life->tensor,
                     .op = life->op,
                     .body = life->body,
                     .delta = life->delta,
                     .bytes = occ_held(life),
                     .first = life->first,
                     .last = life->last,
                     .share = life->share,
                     .source = life->taken == OCC_NONE ? TN_NONE : occ->lives[life->taken].tensor,
                     .whole = life->whole,
                     .is_static = life->is_static};
}

/* Writes the lives in their public order, and the windows that they hold; `body_of` becomes the
 * place of each life. */
static tn_status occ_hand_over(occ_state *occ, tn_occupancy *made, uint32_t *body_of) {
    occ_sorted *sorted = tn__arena_array(&occ->scratch, occ->count, sizeof *sorted);
    if (sorted == NULL) return tn__no_memory(occ->error, "lives");
    for (uint32_t i = 0; i < occ->count; i++) {
        occ->lives[i].body = body_of[occ->lives[i].root];
        sorted[i] = (occ_sorted){occ_life_of(occ, &occ->lives[i]), i};
    }
    if (occ->count > 0) qsort(sorted, occ->count, sizeof *sorted, occ_life_order);
    for (uint32_t i = 0; i < occ->count; i++) {
        made->lives[i] = sorted[i].life;
        body_of[sorted[i].id] = i;
    }
    return tn__occ_windows(occ, made, body_of);
}

/* --- totals --- */

static uint64_t occ_aligned(const occ_state *occ, uint64_t bytes) {
    uint64_t aligned;
    return tn__align_up(bytes, occ->options.alignment, &aligned) ? aligned : UINT64_MAX;
}

static tn_kind occ_kind(const occ_state *occ, const occ_life *life) {
    const tn_life of = {.tensor = life->tensor, .is_static = life->is_static};
    return tn_life_kind(occ->graph, &of);
}

/* Whether a static tensor shows the bytes of another one: a Constant shows those of its
 * attribute, a Reshape those of a weight. */
static bool occ_is_static_view(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (tensor->producer == TN_NONE || tensor->value != NULL) return false;
    const tn_op *op = tn_graph_op(graph, tensor->producer);
    uint32_t output = 0;
    while (op->outputs[output] != id) output++;
    tn_view view = tn_op_view(graph, tensor->producer, output);
    return view.source != TN_NONE && !view.whole &&
           tn_tensor_is_static(tn_graph_tensor(graph, view.source));
}

/* Sums tensors by kind, each once; an alias by definition has no memory of its own. */
static void occ_count_totals(const occ_state *occ, tn_memory_summary *summary) {
    for (uint32_t i = 0; i < occ->count; i++) {
        const occ_life *life = &occ->lives[i];
        bool alias = life->source != OCC_NONE && life->must;
        bool again = life->tensor != TN_NONE && occ->latest[life->tensor] != i && !life->is_static;
        if (alias || again) continue;
        uint64_t bytes = occ_aligned(occ, life->bytes);
        uint64_t *total = &summary->total[occ_kind(occ, life)];
        *total = tn__add_sat(*total, bytes);
        summary->naive = tn__add_sat(summary->naive, bytes);
        if (life->tensor != TN_NONE &&
            (tn_graph_tensor(occ->graph, life->tensor)->flags & TN_TENSOR_BOUND))
            summary->bounded++;
    }
    if (occ->options.static_count > 0) return; /* already counted, in their stored form */
    for (uint32_t i = 0; i < tn_graph_tensor_count(occ->graph); i++) {
        const tn_tensor *tensor = tn_graph_tensor(occ->graph, i);
        if (!tn_tensor_is_static(tensor) || tensor->bytes == TN_SIZE_UNKNOWN) continue;
        if (occ_is_static_view(occ->graph, i)) continue;
        bool trained = tensor->kind == TN_KIND_OPTIMIZER_STATE || tensor->kind == TN_KIND_GRADIENT;
        tn_kind kind =
            tensor->kind == TN_KIND_PARAMETER || trained ? tensor->kind : TN_KIND_CONSTANT;
        summary->total[kind] = tn__add_sat(summary->total[kind], occ_aligned(occ, tensor->bytes));
    }
}

/* Sums the bytes at the peak by kind. */
static void occ_count_peak(tn_occupancy *made) {
    occ_walk walk = OCC_WALK_INIT;
    tn_occupant holder;
    while (tn__holders_next(made, made->summary.peak_step, &walk, &holder))
        made->summary.at_peak[tn__occupancy_kind(made, holder.life)] += holder.bytes;
}

static tn_status occ_summarise(const occ_state *occ, tn_occupancy *made) {
    tn_memory_summary *summary = &made->summary;
    int64_t step = 0;
    occ_count_totals(occ, summary);
    TN_TRY(tn_problem_lower_bound(made->problem, 0, &summary->peak_live, &step, occ->error));
    summary->peak_step = (uint32_t)step;
    occ_count_peak(made);
    return TN_OK;
}

/* --- entry points --- */

static tn_status occ_run(occ_state *occ, tn_occupancy *made) {
    uint32_t tensors = tn_graph_tensor_count(occ->graph);
    if (!(occ->latest = tn__arena_array(&occ->scratch, tensors, sizeof *occ->latest)) ||
        !(occ->is_static = tn__arena_array(&occ->scratch, tensors, sizeof *occ->is_static)) ||
        !(occ->is_open = tn__arena_array(&occ->scratch, tensors, sizeof *occ->is_open)))
        return tn__no_memory(occ->error, "an occupancy");
    for (uint32_t i = 0; i < tensors; i++) {
        occ->latest[i] = OCC_NONE;
        occ->is_static[i] = tn_tensor_is_static(tn_graph_tensor(occ->graph, i));
    }
    TN_TRY(tn__occ_find_lives(occ));
    TN_TRY(tn__occ_join(occ));
    TN_TRY(tn__occ_straighten(occ));
    made->lives = tn__arena_array(&made->arena, occ->count, sizeof *made->lives);
    uint32_t *body_of = tn__arena_array(&occ->scratch, occ->count, sizeof *body_of);
    if (made->lives == NULL || body_of == NULL) return tn__no_memory(occ->error, "lives");
    made->count = occ->count;
    TN_TRY(tn__occ_problem(occ, made->problem, body_of));
    TN_TRY(occ_hand_over(occ, made, body_of));
    TN_TRY(occ_summarise(occ, made));
    if (occ->options.bank_count == 0) return TN_OK;
    return tn_problem_offer_banks(made->problem, occ->options.banks, occ->options.bank_count,
                                  occ->error);
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

tn_status tn__occ_order(occ_state *occ, tn__happens *happens) {
    const tn_instruction *instructions = tn_program_instructions(occ->program);
    bool several = false;
    for (uint32_t i = 1; i < tn_program_count(occ->program); i++)
        several |= instructions[i].stream != instructions[0].stream;
    bool safe = occ->options.parallel == TN_PARALLEL_SAFE;
    if (!safe && !several) return TN_OK;
    TN_TRY(tn__happens_create(occ->program, safe ? TN__BY_GRAPH : TN__BY_STREAMS, TN__HAPPENS_MAX,
                              happens, occ->error));
    occ->happens = happens;
    return TN_OK;
}

tn_status tn_occupancy_create(const tn_program *program, const tn_occupancy_options *options,
                              tn_occupancy **occupancy, tn_error *error) {
    const tn_context *context = &program->context;
    occ_state occ = {
        .program = program, .graph = program->graph, .context = context, .error = error};
    TN_TRY(tn__occupancy_options(options, &occ.options, error));
    tn_occupancy *made = tn__alloc_array(context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "an occupancy");
    made->context = *context;
    made->program = program;
    tn__arena_init(&made->arena, &made->context);
    tn__arena_init(&occ.scratch, context);
    tn__happens happens = {0};
    tn_status status = tn_problem_create(context, &made->problem, error);
    if (status == TN_OK) status = tn__occ_order(&occ, &happens);
    if (status == TN_OK) status = occ_run(&occ, made);
    tn__happens_release(&happens);
    tn__arena_release(&occ.scratch);
    made->found = occ.lives;
    made->found_room = occ.room;
    made->uses = occ.uses;
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
const tn_life *tn_occupancy_lives(const tn_occupancy *occupancy) { return occupancy->lives; }
tn_memory_summary tn_occupancy_summary(const tn_occupancy *occupancy) { return occupancy->summary; }
