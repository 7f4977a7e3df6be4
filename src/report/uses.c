/* uses.c - finds the steps that read an item.
 *
 * An instruction reads tensors; a tensor that was swapped or recomputed has several live ranges.
 * The one that is read is the latest that began before the instruction. Two passes over the
 * program, each from its first step on: the first counts, the second writes, so that the steps of
 * an item are in ascending order.
 */
#include "report/format.h"

typedef struct uses_walk {
    const tn_graph *graph;
    const tn_life *lives;
    uint32_t life_count, next; /* the first live range that has not begun */
    uint32_t *life_of;         /* [tensors] the latest live range that began, or TN_NONE */
    uint32_t *seen;            /* [lives] the last step that was noted, or TN_NONE */
    uint32_t *count;           /* [lives + 1] how many steps; then where the next is written */
    uint32_t *steps;           /* NULL: counting */
} uses_walk;

static void uses_note(uses_walk *walk, tn_tensor_id tensor, uint32_t step) {
    uint32_t life = tensor == TN_NONE ? TN_NONE : walk->life_of[tensor];
    if (life == TN_NONE || walk->seen[life] == step) return;
    walk->seen[life] = step;
    if (walk->steps != NULL) walk->steps[walk->count[life]] = step;
    walk->count[life]++;
}

static void uses_step(uses_walk *walk, const tn_instruction *it, uint32_t step) {
    tn_effects effects = tn_instruction_effects(it);
    if (it->opcode != TN_APPLY) {
        uses_note(walk, effects.reads, step);
        uses_note(walk, effects.changes, step);
        return;
    }
    tn_op_form form = tn_op_form_of(walk->graph, it->op, it->again);
    for (uint32_t i = 0; i < form.input_count; i++)
        uses_note(walk, tn_op_form_input(&form, i), step);
}

/* A step reads live ranges that began at an earlier step. */
static void uses_program(uses_walk *walk, const tn_program *program) {
    uint32_t tensors = tn_graph_tensor_count(walk->graph);
    walk->next = 0;
    for (uint32_t t = 0; t < tensors; t++) walk->life_of[t] = TN_NONE;
    for (uint32_t i = 0; i < walk->life_count; i++) walk->seen[i] = TN_NONE;
    for (uint32_t step = 0; step < tn_program_count(program); step++) {
        for (; walk->next < walk->life_count && walk->lives[walk->next].first < step; walk->next++)
            if (walk->lives[walk->next].tensor != TN_NONE)
                walk->life_of[walk->lives[walk->next].tensor] = walk->next;
        uses_step(walk, &tn_program_instructions(program)[step], step);
    }
}

tn_status tn__uses_make(tn__scene *scene, tn__uses *uses, tn_error *error) {
    const tn_occupancy *occupancy = scene->report->occupancy;
    const tn_program *program = tn_occupancy_program(occupancy);
    uses_walk walk = {.graph = tn_program_graph(program),
                      .lives = tn_occupancy_lives(occupancy),
                      .life_count = tn_occupancy_life_count(occupancy)};
    size_t items = (size_t)walk.life_count + 1;
    uint32_t tensors = tn_graph_tensor_count(walk.graph);
    walk.life_of = tn__arena_array(&scene->arena, (size_t)tensors + 1, sizeof *walk.life_of);
    walk.seen = tn__arena_array(&scene->arena, items, sizeof *walk.seen);
    walk.count = tn__arena_array(&scene->arena, items, sizeof *walk.count);
    uses->start = tn__arena_array(&scene->arena, items, sizeof *uses->start);
    if (!walk.life_of || !walk.seen || !walk.count || !uses->start)
        return tn__no_memory(error, "who reads what");
    uses_program(&walk, program);
    for (uint32_t i = 0; i < walk.life_count; i++) {
        uses->start[i + 1] = uses->start[i] + walk.count[i];
        walk.count[i] = uses->start[i];
    }
    uses->steps = tn__arena_array(&scene->arena, (size_t)uses->start[walk.life_count] + 1,
                                  sizeof *uses->steps);
    if (uses->steps == NULL) return tn__no_memory(error, "who reads what");
    walk.steps = uses->steps;
    uses_program(&walk, program);
    return TN_OK;
}
