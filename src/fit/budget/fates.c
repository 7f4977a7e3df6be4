/* fates.c - counts the decisions (kept, recomputed, swapped, encoded) for the tensors of a
 * program. */
#include <tenure/fit.h>

#include "base/base.h"

static void fates_count(const tn_occupancy *occupancy, const uint8_t *fates, uint8_t *seen,
                        tn_fate_totals *totals) {
    const tn_life *lives = tn_occupancy_lives(occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++) {
        tn_tensor_id id = lives[i].tensor;
        if (id == TN_NONE || seen[id] || lives[i].share != TN_SHARE_OWN) continue;
        seen[id] = 1;
        totals->tensors[fates[id]]++;
        totals->bytes[fates[id]] = tn__add_sat(totals->bytes[fates[id]], lives[i].bytes);
    }
}

tn_status tn_fit_fates(const tn_occupancy *occupancy, tn_fate_totals *totals, tn_error *error) {
    const tn_program *program = tn_occupancy_program(occupancy);
    uint32_t tensors = tn_graph_tensor_count(tn_program_graph(program)), forms;
    uint8_t *fates = malloc((size_t)tensors + 1), *seen = calloc((size_t)tensors + 1, 1);
    *totals = (tn_fate_totals){0};
    if (fates != NULL && seen != NULL) {
        (void)tn_program_encoded(program, &forms);
        memset(seen + tensors - forms, 1, forms);
        tn_program_fates(program, fates);
        fates_count(occupancy, fates, seen, totals);
    }
    bool room = fates != NULL && seen != NULL;
    free(fates);
    free(seen);
    return room ? TN_OK : tn__no_memory(error, "what became of tensors");
}
