/* layout.c - makes and releases layouts, and turns given offsets into a layout. */
#include "plan/problem/problem.h"

const char *tn_verdict_name(tn_verdict verdict) {
    static const char *const names[] = {
#define TN_X(name, text) [TN_VERDICT_##name] = text,
        TN_VERDICT_TABLE(TN_X)
#undef TN_X
    };
    size_t index = (size_t)verdict;
    return index < sizeof names / sizeof *names ? names[index] : "unknown";
}

uint64_t tn__traffic(const tn_body *body) {
    return body->traffic != 0 ? body->traffic : tn__mul_sat(body->size, 2);
}

/* Makes a layout. One block of memory holds all its arrays: offsets, peaks, bounds, traffic, then
 * banks. The block comes from malloc, because a layout outlives the context of the call that made
 * it. */
tn_status tn__layout_create(const tn_problem *problem, tn_layout *layout, tn_error *error) {
    size_t bodies = problem->count, banks = problem->bank_count;
    uint64_t *block = calloc(bodies + 3 * banks + (bodies + 1) / 2, sizeof *block);
    if (block == NULL) return tn__no_memory(error, "a layout");
    *layout = (tn_layout){.offset = block,
                          .bank = (tn_bank_id *)(block + bodies + 3 * banks),
                          .body_count = (uint32_t)bodies,
                          .bank_count = (uint32_t)banks,
                          .bank_peak = block + bodies,
                          .bank_lower_bound = block + bodies + banks,
                          .bank_traffic = block + bodies + 2 * banks};
    for (size_t i = 0; i < bodies && banks > 1; i++) layout->bank[i] = problem->bodies[i].bank;
    return TN_OK;
}

void tn_layout_release(tn_layout *layout) {
    if (layout == NULL) return;
    free(layout->offset);
    *layout = (tn_layout){0};
}

void tn__layout_add_traffic(const tn_problem *problem, tn_layout *layout) {
    for (size_t i = 0; i < problem->count; i++) {
        uint64_t *sum = &layout->bank_traffic[layout->bank[i]];
        *sum = tn__add_sat(*sum, tn__traffic(&problem->bodies[i]));
    }
}

static tn_status layout_fill(const tn_problem *problem, const uint64_t *offsets, tn_layout *made,
                             tn_error *error) {
    tn__wholes wholes;
    for (tn_body_id id = 0; id < made->body_count; id++) {
        const tn_body *body = &problem->bodies[id];
        uint64_t end = tn__add_sat(offsets[id], body->size);
        tn_bank_id bank = made->bank[id];
        if (bank >= made->bank_count) {
            char text[TN__BODY_TEXT_MAX];
            TN_FAIL(error, TN_E_INVALID, "%s is in bank %u, but there are %u",
                    tn__body_text(problem, id, text), bank, made->bank_count);
        }
        made->offset[id] = offsets[id];
        if (body->size != 0 && end > made->bank_peak[bank]) made->bank_peak[bank] = end;
    }
    tn__layout_add_traffic(problem, made);
    TN_TRY(tn__wholes_create(problem, &wholes, error));
    wholes.banks = made->bank;
    tn_status status = TN_OK;
    for (tn_bank_id bank = 0; bank < made->bank_count && status == TN_OK; bank++) {
        status = tn__lower_bound(&wholes, bank, &made->bank_lower_bound[bank], NULL, error);
        made->peak = tn__add_sat(made->peak, made->bank_peak[bank]);
        made->lower_bound = tn__add_sat(made->lower_bound, made->bank_lower_bound[bank]);
    }
    tn__wholes_release(&wholes);
    if (status == TN_OK)
        status = tn_layout_reuse_cost(problem, made, &made->reuse_cost, NULL, error);
    if (status == TN_OK && problem->event_count > 0)
        status = tn_layout_waits(problem, made, 0, NULL, &made->waits, &made->time, error);
    return status;
}

tn_status tn_layout_from_places(const tn_problem *problem, const uint64_t *offsets,
                                const tn_bank_id *banks, tn_layout *layout, tn_error *error) {
    tn_layout made;
    TN_TRY(tn__layout_create(problem, &made, error));
    made.planner = "given";
    for (size_t i = 0; i < problem->count && banks != NULL; i++) made.bank[i] = banks[i];
    tn_status status = layout_fill(problem, offsets, &made, error);
    if (status != TN_OK) {
        tn_layout_release(&made);
        return status;
    }
    bool least = made.peak == made.lower_bound && !tn__has_choice(problem);
    made.verdict = least ? TN_VERDICT_OPTIMAL : TN_VERDICT_FEASIBLE;
    *layout = made;
    return TN_OK;
}

tn_status tn_layout_from_offsets(const tn_problem *problem, const uint64_t *offsets,
                                 tn_layout *layout, tn_error *error) {
    return tn_layout_from_places(problem, offsets, NULL, layout, error);
}

tn_status tn_layout_without_reuse(const tn_problem *problem, tn_layout *layout, tn_error *error) {
    const tn_context *context = &problem->context;
    size_t room = (size_t)problem->count + 1;
    uint64_t *offsets = tn__alloc_array(context, room, sizeof *offsets), at = 0;
    tn_status status = TN_OK;
    if (offsets == NULL) return tn__no_memory(error, "the plan without reuse");
    for (tn_body_id b = 0; b < problem->count && status == TN_OK; b++) {
        const tn_body *body = &problem->bodies[b];
        if (!tn__align_up(at, body->alignment, &offsets[b]) ||
            !tn__add(offsets[b], body->size, &at))
            status = tn__fail(error, TN_E_INVALID, "without reuse it has more than 2^64 bytes");
    }
    if (status == TN_OK) status = tn_layout_from_offsets(problem, offsets, layout, error);
    tn__free(context, offsets, room * sizeof *offsets);
    return status;
}
