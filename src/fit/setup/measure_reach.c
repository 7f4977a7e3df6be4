/* measure_reach.c - estimates which operands a step finds in its caches.
 *
 * Two steps are simulated, one after the other, with a clock that counts the bytes that operators
 * have touched. An input is near, that is, in a cache, if its memory was touched less than `reach`
 * bytes ago. An output gets memory that was released before, the most recently released memory
 * first, as in tightly packed layouts. It is near if most of that memory was touched less than
 * `reach` bytes ago. Memory that was never released is not near. Cost: O(operands + n log n) for n
 * buffers.
 */
#include "fit/setup/measure.h"

/* a piece of released memory, and the value of `passed` when it was last touched */
typedef struct reach_piece {
    uint64_t bytes, touched;
} reach_piece;

typedef struct reach_state {
    const tn__measure_step *step;
    tn_tensor_id *root; /* [tensors] the tensor that owns the tensor's memory */
    /* [tensors] for a root, the value of `passed` when its memory was last touched; 0: never
     * touched */
    uint64_t *touched;
    uint64_t passed; /* number of bytes touched so far */
    /* [body_count] buffers in the order of their first step, and of their last step */
    tn__sort_item *begin, *end;
    uint32_t body_count, begin_at, end_at;
    /* [tensors] the buffer of the tensor's first live range; TN_NONE: it has no live range */
    uint32_t *body;
    /* [buffers] when the buffer got its memory in this step, most of that memory was in a cache */
    bool *near;
    reach_piece *pieces; /* released memory, in the order of release */
    uint32_t piece_count;
    bool counts;
} reach_state;

static tn_status reach_room(reach_state *s, tn__arena *arena, tn_error *error) {
    size_t tensors = (size_t)tn_graph_tensor_count(s->step->graph) + 1, bodies = 1;
    if (s->step->occupancy != NULL)
        bodies += tn_problem_count(tn_occupancy_problem(s->step->occupancy));
    s->root = tn__arena_array(arena, tensors, sizeof *s->root);
    s->touched = tn__arena_array(arena, tensors, sizeof *s->touched);
    s->body = tn__arena_array(arena, tensors, sizeof *s->body);
    s->begin = tn__arena_array(arena, bodies, sizeof *s->begin);
    s->end = tn__arena_array(arena, bodies, sizeof *s->end);
    s->near = tn__arena_array(arena, bodies, sizeof *s->near);
    s->pieces = tn__arena_array(arena, 4 * bodies, sizeof *s->pieces);
    if (s->root == NULL || s->touched == NULL || s->body == NULL || s->begin == NULL ||
        s->end == NULL || s->near == NULL || s->pieces == NULL)
        return tn__no_memory(error, "measuring");
    return TN_OK;
}

/* Finds the root of every tensor: operators are visited in order, so the source of a view has its
 * root before the view. */
static void reach_roots(reach_state *s) {
    const tn_graph *graph = s->step->graph;
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++) {
        s->root[t] = t;
        s->body[t] = TN_NONE;
    }
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        for (uint32_t k = 0; k < op->output_count; k++) {
            if (op->outputs[k] == TN_NONE) continue;
            tn_view view = tn_op_view(graph, id, k);
            if (view.source != TN_NONE) s->root[op->outputs[k]] = s->root[view.source];
        }
    }
}

static tn_status reach_bodies(reach_state *s, const tn_context *context, tn_error *error) {
    const tn_occupancy *occupancy = s->step->occupancy;
    if (occupancy == NULL) return TN_OK;
    const tn_problem *problem = tn_occupancy_problem(occupancy);
    const tn_life *lives = tn_occupancy_lives(occupancy);
    for (uint32_t i = tn_occupancy_life_count(occupancy); i-- > 0;)
        if (lives[i].tensor != TN_NONE && !lives[i].is_static && lives[i].share == TN_SHARE_OWN)
            s->body[lives[i].tensor] = lives[i].body;
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++, s->body_count++) {
        const tn_body *body = tn_problem_body(problem, b);
        s->begin[b] = (tn__sort_item){tn__sort_key(body->first), b};
        s->end[b] = (tn__sort_item){tn__sort_key(body->last), b};
    }
    if (!tn__sort_items(context, s->begin, s->body_count) ||
        !tn__sort_items(context, s->end, s->body_count))
        return tn__no_memory(error, "measuring");
    return TN_OK;
}

/* --- memory that is released and taken again --- */

static uint64_t reach_size(const reach_state *s, tn_body_id body) {
    return tn_problem_body(tn_occupancy_problem(s->step->occupancy), body)->size;
}

static void reach_take(reach_state *s, tn_body_id body) {
    uint64_t left = reach_size(s, body), near = 0;
    while (left > 0 && s->piece_count > 0) {
        reach_piece *piece = &s->pieces[s->piece_count - 1];
        uint64_t bytes = piece->bytes < left ? piece->bytes : left;
        if (s->passed - piece->touched < s->step->reach) near += bytes;
        left -= bytes;
        piece->bytes -= bytes;
        s->piece_count -= piece->bytes == 0;
    }
    s->near[body] = 2 * near > reach_size(s, body);
}

/* Releases the buffers with a live range that ends before the step, then takes memory for those
 * that begin at it. */
static void reach_bodies_at(reach_state *s, uint32_t step) {
    uint64_t now = tn__sort_key(step);
    for (; s->end_at < s->body_count && s->end[s->end_at].key <= now; s->end_at++)
        s->pieces[s->piece_count++] = (reach_piece){reach_size(s, s->end[s->end_at].id), s->passed};
    for (; s->begin_at < s->body_count && s->begin[s->begin_at].key <= now; s->begin_at++)
        reach_take(s, s->begin[s->begin_at].id);
}

/* --- operators --- */

static void reach_touch(reach_state *s, tn_tensor_id id) {
    if (id == TN_NONE) return;
    uint64_t bytes = tn_graph_tensor(s->step->graph, id)->bytes;
    s->passed = tn__add_sat(s->passed, bytes != TN_SIZE_UNKNOWN ? bytes : 0);
    s->touched[s->root[id]] = s->passed;
}

static bool reach_is_near(const reach_state *s, tn_tensor_id id) {
    uint64_t touched = id != TN_NONE ? s->touched[s->root[id]] : 0;
    return touched > 0 && s->passed - touched < s->step->reach;
}

static void reach_count(const reach_state *s, tn__sample *sample, const tn_op *op) {
    for (uint32_t i = 0; i < op->input_count && i < MEASURE_OPERANDS; i++)
        sample->near[i] += reach_is_near(s, op->inputs[i]);
    for (uint32_t k = 0; k < op->output_count && k < MEASURE_OPERANDS; k++) {
        uint32_t body = op->outputs[k] != TN_NONE ? s->body[op->outputs[k]] : TN_NONE;
        sample->near[MEASURE_OPERANDS + k] += body != TN_NONE && s->near[body];
    }
    sample->uses++;
}

static void reach_operator(reach_state *s, tn_op_id id) {
    const tn_op *op = tn_graph_op(s->step->graph, id);
    if (s->step->of[id] == TN_NONE) return;
    if (s->counts) reach_count(s, &s->step->samples[s->step->of[id]], op);
    for (uint32_t i = 0; i < op->input_count; i++) reach_touch(s, op->inputs[i]);
    for (uint32_t k = 0; k < op->output_count; k++) reach_touch(s, op->outputs[k]);
}

static void reach_step(reach_state *s) {
    const tn_occupancy *occupancy = s->step->occupancy;
    uint32_t ops = tn_graph_op_count(s->step->graph);
    if (occupancy == NULL) {
        for (tn_op_id id = 0; id < ops; id++) reach_operator(s, id);
        return;
    }
    const tn_program *program = tn_occupancy_program(occupancy);
    s->begin_at = s->end_at = 0;
    for (uint32_t i = 0; i < tn_program_count(program); i++) {
        const tn_instruction *it = &tn_program_instructions(program)[i];
        reach_bodies_at(s, i);
        if (it->opcode == TN_APPLY) reach_operator(s, it->op);
    }
    reach_bodies_at(s, tn_program_count(program));
}

tn_status tn__measure_reach(const tn__measure_step *step, tn__arena *arena, tn_error *error) {
    reach_state s = {.step = step};
    TN_TRY(reach_room(&s, arena, error));
    reach_roots(&s);
    TN_TRY(reach_bodies(&s, arena->context, error));
    reach_step(&s);
    s.counts = true;
    reach_step(&s);
    return TN_OK;
}
