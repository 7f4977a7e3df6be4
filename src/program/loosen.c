/* loosen.c - of equally low layouts one that adds fewer dependencies between operators.
 *
 * A layout adds a dependency where an operator writes bytes that another one used last, and the
 * graph has no path between the two: they can no longer run at the same time. Often an equally low
 * layout adds none. It is a layout of the problem in which all operators without a path between
 * them overlap (TN_PARALLEL_SAFE). That problem has the same bodies with more conflicts, so its
 * layouts are layouts of the serial problem, too.
 *
 * Cost: that of tn_plan_dependencies; where there are any, of a plan by the planner `fast`.
 */
#include "program/program.h"

#include <string.h>

#define LOOSEN_BODIES 4096u /* more cost too much time */

static bool loosen_is_asked(const tn_occupancy_options *memory, const tn_plan_options *plan,
                            const tn_problem *problem) {
    bool usual = plan->planner == NULL || strcmp(plan->planner, "auto") == 0;
    return usual && plan->objective == TN_OBJECTIVE_BYTES &&
           memory->parallel == TN_PARALLEL_SERIAL && tn_problem_bank_count(problem) == 1 &&
           tn_problem_count(problem) <= LOOSEN_BODIES;
}

/* Whether body i of both problems is the same, except for its conflicts. */
static bool loosen_is_same(const tn_problem *a, const tn_problem *b) {
    if (tn_problem_count(a) != tn_problem_count(b)) return false;
    for (tn_body_id id = 0; id < tn_problem_count(a); id++) {
        const tn_body *x = tn_problem_body(a, id), *y = tn_problem_body(b, id);
        if (x->size != y->size || x->alignment != y->alignment || x->flags != y->flags)
            return false;
    }
    return true;
}

/* Another layout replaces `layout` if it is valid, no higher, and adds fewer than `added`
 * dependencies. */
static tn_status loosen_take(const tn_occupancy *serial, const tn_layout *safe, uint64_t added,
                             tn_layout *layout, tn_error *error) {
    const tn_problem *problem = tn_occupancy_problem(serial);
    tn_layout made;
    tn_error unused;
    uint64_t fewer = added;
    TN_TRY(tn_layout_from_offsets(problem, safe->offset, &made, error));
    bool better =
        made.peak <= layout->peak && tn_layout_verify(problem, &made, NULL, &unused) == TN_OK &&
        tn_plan_dependencies(serial, &made, NULL, &fewer, &unused) == TN_OK && fewer < added;
    if (!better) {
        tn_layout_release(&made);
        return TN_OK;
    }
    made.verdict = made.peak == made.lower_bound ? TN_VERDICT_OPTIMAL : layout->verdict;
    made.lower_bound = layout->lower_bound;
    memcpy(made.bank_lower_bound, layout->bank_lower_bound, sizeof *made.bank_lower_bound);
    made.planner = layout->planner;
    made.seed = layout->seed;
    made.work = layout->work + safe->work;
    made.seconds = layout->seconds + safe->seconds;
    made.timed_out = layout->timed_out;
    tn_layout_release(layout);
    *layout = made;
    return TN_OK;
}

tn_status tn_plan_loosen(const tn_occupancy *serial, const tn_occupancy_options *memory_options,
                         const tn_plan_options *plan_options, tn_layout *layout, tn_error *error) {
    const tn_problem *problem = tn_occupancy_problem(serial);
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_occupancy *occupancy;
    tn_layout safe = {0};
    tn_error unused;
    uint64_t added = 0;
    tn__options(&memory, sizeof memory, memory_options);
    tn__options(&plan, sizeof plan, plan_options);
    memory.struct_size = sizeof memory;
    plan.struct_size = sizeof plan;
    if (!loosen_is_asked(&memory, &plan, problem)) return TN_OK;
    if (tn_plan_dependencies(serial, layout, NULL, &added, &unused) != TN_OK || added == 0)
        return TN_OK;
    memory.parallel = TN_PARALLEL_SAFE;
    plan.planner = "fast";
    plan.capacity = 0;
    plan.enough = layout->peak;
    if (tn_occupancy_create(tn_occupancy_program(serial), &memory, &occupancy, &unused) != TN_OK)
        return TN_OK;
    tn_status status = TN_OK;
    if (loosen_is_same(problem, tn_occupancy_problem(occupancy)) &&
        tn_plan(tn_occupancy_problem(occupancy), &plan, &safe, &unused) == TN_OK)
        status = loosen_take(serial, &safe, added, layout, error);
    tn_layout_release(&safe);
    tn_occupancy_destroy(occupancy);
    return status;
}
