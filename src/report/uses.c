/* uses.c - finds the steps that read an item.
 *
 * A tensor that was swapped or recomputed has several live ranges. A step reads the latest one that
 * began before it, so a live range has the uses of its tensor up to the begin of the next one.
 */
#include "program/program.h"
#include "report/format.h"

typedef struct uses_state {
    const tn_life *lives;
    uint32_t life_count, tensors;
    uint32_t *until; /* [tensors] begin of the live range after this one; TN_NONE */
    tn__lists of;    /* the uses of every tensor */
} uses_state;

static void uses_fill(void *self, tn__lists *uses) {
    uses_state *state = self;
    memset(state->until, 0xff, state->tensors * sizeof *state->until);
    for (uint32_t i = state->life_count; i-- > 0;) {
        const tn_life *life = &state->lives[i];
        if (life->tensor == TN_NONE) continue;
        uint32_t end = state->of.first[life->tensor + 1], *until = &state->until[life->tensor];
        uint32_t u = tn__lists_after(&state->of, life->tensor, life->first);
        for (; u < end && state->of.items[u] <= *until; u++)
            tn__lists_add(uses, i, state->of.items[u]);
        *until = life->first;
    }
}

tn_status tn__uses_make(tn__scene *scene, tn__uses *uses, tn_error *error) {
    const tn_occupancy *occupancy = scene->report->occupancy;
    const tn_program *program = tn_occupancy_program(occupancy);
    uses_state state = {.lives = tn_occupancy_lives(occupancy),
                        .life_count = tn_occupancy_life_count(occupancy),
                        .tensors = tn_graph_tensor_count(tn_program_graph(program))};
    TN_TRY(tn__program_uses(program, &scene->arena, &state.of, error));
    state.until = tn__arena_array(&scene->arena, (size_t)state.tensors + 1, sizeof *state.until);
    tn__lists made;
    if (state.until == NULL ||
        !tn__lists_make(&made, state.life_count, &scene->arena, uses_fill, &state))
        return tn__no_memory(error, "the uses of tensors");
    *uses = (tn__uses){.start = made.first, .steps = made.items};
    return TN_OK;
}
