/* solution.c - writes placements as the solution of a dsa-problem-v1 (see dsa.c for the format). */
#include "plan/io/io.h"
#include "plan/problem/problem.h"

#include <inttypes.h>

void tn__dsa_render(const tn_problem *problem, const tn_layout *layout, tn__text *text) {
    tn__text_put(text, "{\"schema_version\":1,\"placements\":[");
    for (tn_body_id id = 0; id < layout->body_count; id++) {
        tn_bank_id bank = layout->bank[id];
        const int64_t *of_bodies = problem->file_body_ids, *of_banks = problem->file_bank_ids;
        int64_t buffer = of_bodies != NULL ? of_bodies[id] : (int64_t)id;
        int64_t pool = of_banks != NULL ? of_banks[bank] : (int64_t)bank;
        tn__text_printf(text,
                        "%s\n{\"buffer\":%" PRId64 ",\"pool\":%" PRId64 ",\"offset\":%" PRIu64 "}",
                        id > 0 ? "," : "", buffer, pool, layout->offset[id]);
    }
    tn__text_put(text, "\n]}\n");
}

tn_status tn_problem_save_dsa(const tn_problem *problem, const tn_layout *layout, const char *path,
                              tn_error *error) {
    tn__text text;
    tn__text_init(&text, &problem->context);
    tn__dsa_render(problem, layout, &text);
    tn_status status = text.failed ? tn__no_memory(error, path) : TN_OK;
    if (status == TN_OK) status = tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}
