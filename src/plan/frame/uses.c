/* uses.c - plans tensors from the steps that use them: the simplest function that calls a planner.
 *
 * The live range of a tensor extends from its first to its last use. Cost: that of tn_plan.
 */
#include <tenure/plan.h>

#include "base/base.h"

/* Fills in the sizes and live ranges of the buffers [count]; first > last marks a tensor without a
 * use. */
static tn_status uses_read(const uint64_t *sizes, uint32_t count, const tn_use *uses,
                           uint32_t use_count, tn_body *bodies, tn_error *error) {
    for (uint32_t i = 0; i < count; i++)
        bodies[i] = (tn_body){.size = sizes[i], .first = INT64_MAX, .last = INT64_MIN};
    for (uint32_t k = 0; k < use_count; k++) {
        if (uses[k].tensor >= count || uses[k].step == UINT32_MAX)
            TN_FAIL(error, TN_E_INVALID, "use %u: there is no tensor %u, or no step %u", k,
                    uses[k].tensor, uses[k].step);
        tn_body *body = &bodies[uses[k].tensor];
        if (uses[k].step < body->first) body->first = uses[k].step;
        if ((int64_t)uses[k].step + 1 > body->last) body->last = (int64_t)uses[k].step + 1;
    }
    return TN_OK;
}

static tn_status uses_add(tn_problem *problem, const tn_body *bodies, uint32_t count,
                          tn_error *error) {
    TN_TRY(tn_problem_set_alignment(problem, 64, error));
    for (uint32_t i = 0; i < count; i++)
        if (bodies[i].first < bodies[i].last)
            TN_TRY(tn_problem_add(problem, &bodies[i], NULL, error));
    return TN_OK;
}

tn_status tn_plan_uses(const uint64_t *sizes, uint32_t count, const tn_use *uses,
                       uint32_t use_count, const tn_plan_options *options, uint64_t *offsets,
                       uint64_t *arena, tn_error *error) {
    tn_plan_options asked = TN_PLAN_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context = tn__context(asked.context);
    tn_body *bodies = tn__alloc_array(&context, count, sizeof *bodies);
    if (bodies == NULL) return tn__no_memory(error, "buffers");
    tn_problem *problem = NULL;
    tn_layout layout = {0};
    tn_status status = uses_read(sizes, count, uses, use_count, bodies, error);
    if (status == TN_OK) status = tn_problem_create(&context, &problem, error);
    if (status == TN_OK) status = uses_add(problem, bodies, count, error);
    if (status == TN_OK) status = tn_plan(problem, &asked, &layout, error);
    if (status == TN_OK) {
        for (uint32_t i = 0, at = 0; i < count; i++)
            offsets[i] = bodies[i].first < bodies[i].last ? layout.offset[at++] : 0;
        *arena = layout.peak;
    }
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    tn__free(&context, bodies, count * sizeof *bodies);
    return status;
}
