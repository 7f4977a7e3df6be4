/* layout.c - the answer: who owns its arrays, and how foreign offsets become one. */
#include "plan/problem.h"

const char *tn_verdict_name(tn_verdict verdict) {
    static const char *const names[] = {
#define TN_X(name, text) [TN_VERDICT_##name] = text,
        TN_VERDICT_TABLE(TN_X)
#undef TN_X
    };
    size_t index = (size_t)verdict;
    return index < sizeof names / sizeof *names ? names[index] : "unknown";
}

/* One block holds the arrays: offsets, then peaks, then bounds. It comes from malloc, since a
 * layout outlives the context of the call that made it. */
tn_status tn__layout_create(const tn_problem *problem, tn_layout *layout, tn_error *error) {
    size_t bodies = problem->count, banks = problem->bank_count;
    uint64_t *block = calloc(bodies + 2 * banks, sizeof *block);
    if (block == NULL) return tn__no_memory(error, "a layout");
    *layout = (tn_layout){.offset = block,
                          .body_count = (uint32_t)bodies,
                          .bank_count = (uint32_t)banks,
                          .bank_peak = block + bodies,
                          .bank_lower_bound = block + bodies + banks};
    return TN_OK;
}

void tn_layout_release(tn_layout *layout) {
    if (layout == NULL) return;
    free(layout->offset);
    *layout = (tn_layout){0};
}

tn_status tn_layout_from_offsets(const tn_problem *problem, const uint64_t *offsets,
                                 tn_layout *layout, tn_error *error) {
    tn_layout made;
    TN_TRY(tn__layout_create(problem, &made, error));
    made.planner = "given";
    for (tn_body_id id = 0; id < made.body_count; id++) {
        const tn_body *body = &problem->bodies[id];
        uint64_t end = tn__add_sat(offsets[id], body->size);
        made.offset[id] = offsets[id];
        if (body->size != 0 && end > made.bank_peak[body->bank]) made.bank_peak[body->bank] = end;
    }
    for (tn_bank_id bank = 0; bank < made.bank_count; bank++) {
        tn_status status =
            tn_problem_lower_bound(problem, bank, &made.bank_lower_bound[bank], NULL, error);
        if (status != TN_OK) {
            tn_layout_release(&made);
            return status;
        }
        made.peak = tn__add_sat(made.peak, made.bank_peak[bank]);
        made.lower_bound = tn__add_sat(made.lower_bound, made.bank_lower_bound[bank]);
    }
    made.verdict = made.peak == made.lower_bound ? TN_VERDICT_OPTIMAL : TN_VERDICT_FEASIBLE;
    *layout = made;
    return TN_OK;
}
