/* allocate.c - the offsets of all tensors of a graph in one call, for callers that run it.
 *
 * Cost: that of tn_program_create, tn_occupancy_create and tn_plan.
 */
#include <tenure/occupancy.h>
#include <tenure/program.h>
#include <tenure/run.h>

#include "base/base.h"

/* A tensor with several live ranges gets the offset of its first one. A program without copies
 * gives every tensor exactly one live range. */
static void allocate_offsets(const tn_graph *graph, const tn_occupancy *occupancy,
                             const tn_layout *layout, uint64_t *offsets) {
    const tn_life *lives = tn_occupancy_lives(occupancy);
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++) offsets[t] = TN_SIZE_UNKNOWN;
    for (uint32_t i = tn_occupancy_life_count(occupancy); i-- > 0;)
        if (lives[i].tensor != TN_NONE)
            offsets[lives[i].tensor] = layout->offset[lives[i].body] + lives[i].delta;
}

tn_status tn_graph_allocate(const tn_graph *graph, const tn_plan_options *options,
                            uint64_t *offsets, uint64_t *arena, tn_error *error) {
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    tn_layout layout = {0};
    tn_status status = tn_program_create(graph, NULL, &program, error);
    if (status == TN_OK) status = tn_occupancy_create(program, NULL, &occupancy, error);
    if (status == TN_OK) status = tn_plan(tn_occupancy_problem(occupancy), options, &layout, error);
    if (status == TN_OK) {
        allocate_offsets(graph, occupancy, &layout, offsets);
        *arena = layout.peak;
    }
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    return status;
}
