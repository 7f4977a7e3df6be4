/* fuzz_foreign.h - what must hold for every plan of another tool that can be read. */
#ifndef TN_FUZZ_FOREIGN_H
#define TN_FUZZ_FOREIGN_H

#include <stdlib.h>

#include "fuzz.h"
#include "interop/foreign/foreign.h"

#define FUZZ_BUFFERS_MAX 500u

/* The values that hold each planned arena at its peak add up to its live bytes. */
static inline void fuzz_holders(const tn_foreign *foreign) {
    uint32_t arenas, count, held[FUZZ_BUFFERS_MAX];
    const tn_foreign_arena *all = tn_foreign_arenas(foreign, &arenas);
    const tn_foreign_value *values = tn_foreign_values(foreign, &count);
    for (uint32_t i = 0; i < arenas && i < 8; i++) {
        uint64_t sum = 0;
        if (all[i].use != TN_FOREIGN_PLANNED || !tn_foreign_facts_of(foreign)->has_lives) continue;
        uint32_t holders = tn_foreign_holders(foreign, i, all[i].step, held, FUZZ_BUFFERS_MAX);
        for (uint32_t k = 0; k < holders && k < FUZZ_BUFFERS_MAX; k++)
            sum = tn__add_sat(sum, values[held[k]].size);
        if (holders <= FUZZ_BUFFERS_MAX) fuzz_must(sum == all[i].live);
        fuzz_must(all[i].live <= all[i].bound);
    }
}

/* A plan that was written is not refused when it is read again. */
static inline void fuzz_again(tn__span file) {
    tn_foreign *again;
    tn_status status = tn__pte_read("again.pte", file, NULL, NULL, &again, NULL);
    fuzz_must(status == TN_OK || status == TN_E_NO_MEMORY);
    if (status != TN_OK) return;
    fuzz_must(tn_foreign_verify(again, NULL, NULL) != TN_E_CONFLICT);
    tn_foreign_destroy(again);
}

/* A valid plan is a valid layout of its problem, within its arenas and not below the bound. */
static inline void fuzz_plan(const tn_foreign *foreign, tn__span file) {
    tn_problem *problem;
    tn_layout theirs, ours;
    uint64_t *offsets;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_status valid = tn_foreign_verify(foreign, NULL, NULL);
    tn_status status = tn_foreign_problem(foreign, &problem, &offsets, NULL);
    fuzz_must(valid != TN_E_INTERNAL && (status == TN_OK || status == TN_E_UNSUPPORTED));
    if (status != TN_OK) return;
    fuzz_accept();
    uint32_t count = tn_problem_count(problem);
    fuzz_must(count == tn_foreign_facts_of(foreign)->buffer_count);
    fuzz_must(tn_layout_from_offsets(problem, offsets, &theirs, NULL) == TN_OK);
    status = tn_layout_verify(problem, &theirs, NULL, NULL);
    if (valid == TN_OK) fuzz_must(status == TN_OK);
    if (valid == TN_OK) fuzz_must(theirs.peak >= tn_foreign_facts_of(foreign)->bound);
    options.planner = "best-fit";
    options.work_limit = 100000;
    if (count <= FUZZ_BUFFERS_MAX && file.bytes != NULL &&
        tn_plan(problem, &options, &ours, NULL) == TN_OK) {
        tn__text out;
        tn__text_init(&out, NULL);
        status = tn__foreign_rewrite(foreign, file, &ours, &out, NULL);
        fuzz_must(status != TN_E_INTERNAL);
        fuzz_must((status == TN_E_CONFLICT) == (valid == TN_E_CONFLICT));
        if (status == TN_OK) fuzz_again((tn__span){(const uint8_t *)out.data, out.size});
        tn__text_release(&out);
        tn_layout_release(&ours);
    }
    tn_layout_release(&theirs);
    tn_offsets_release(NULL, offsets, count);
    tn_problem_destroy(problem);
}

#endif
