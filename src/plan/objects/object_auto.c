/* object_auto.c - runs all strategies that support the given kind of size, and keeps the result
 * with the lowest total; of equal ones the first.
 *
 * `naive` comes first and takes no time, so there is a result whenever a limit ends the others.
 * Each of the other strategies gets an equal share of the work, so that a slow one cannot delay the
 * rest.
 *
 * Cost: at most the sum of these shares.
 */
#include "plan/sharing/object.h"

#define AUTO_SHARE 2000000u /* limit of work for each strategy, in units: about a second */

static bool auto_takes(const tn_object_run *run, const tn_object_strategy *strategy) {
    /* strategies that auto does not run; greedy-best is among them because it combines two
     * strategies that run here anyway */
    static const char *const others[] = {"auto", "naive", "greedy-best"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(strategy->name, others[i]) == 0) return false;
    if (run->reallocation != NULL && !(strategy->features & TN_OBJECTS_REALLOCATION)) return false;
    return (strategy->features & 1u << run->kind) != 0;
}

static tn_status auto_objects_solve(tn_object_run *run) {
    uint32_t count = tn_object_strategy_count(), members = 0;
    TN_TRY(tn__object_try(run, tn__object_strategy_find("naive"), 0, true));
    for (uint32_t i = 0; i < count; i++) members += auto_takes(run, tn__object_strategy_at(i));
    for (uint32_t i = 0; i < count; i++) {
        const tn_object_strategy *strategy = tn__object_strategy_at(i);
        if (!auto_takes(run, strategy)) continue;
        uint64_t share = AUTO_SHARE;
        if (run->work_limit != 0) {
            uint64_t left = run->work < run->work_limit ? run->work_limit - run->work : 0;
            if (left / members < share) share = left / members + 1;
        }
        members--;
        TN_TRY(tn__object_try(run, strategy, share, false));
    }
    return TN_OK;
}

const tn_object_strategy tn__object_auto = {
    .name = "auto",
    .summary = "the best answer of all strategies (the default)",
    .source = "ours",
    .features = TN_OBJECTS_ALL_KINDS | TN_OBJECTS_REALLOCATION,
    .solve = auto_objects_solve,
};
