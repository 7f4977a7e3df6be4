/* exact.c - finds the schedule with the least work within the budget by complete search
 * (exact_search.h), or proves that none exists; it also finds the smallest budget with a schedule.
 *
 * The problem is that of Checkmate (Jain and others, 2020), but without its stages: jobs may be
 * recomputed at any time, in any order. The cost is exponential, so this is for schedule graphs of
 * a few dozen jobs. The result is a reference for other passes. If a limit stops the search, the
 * states that are left in the queue give a lower bound on the cost.
 *
 * The smallest budget is found by bisection, beginning with small steps above the lower bound on
 * memory, because that bound is often sufficient. Each search either finds a schedule, and its peak
 * becomes the upper end, or proves that none exists.
 */
#include "fit/budget/algorithms/exact_search.h"

/* Searches for any schedule within `budget`. Returns TN_OK and stores the peak of one, or returns
 * E_INFEASIBLE if none exists. */
static tn_status exact_probe(tn__pass_run *run, const exact_model *model, uint64_t budget,
                             uint64_t *peak) {
    exact_search search = {.run = run, .model = model, .budget = budget, .ceiling = EXACT_NEVER};
    tn__schedule schedule;
    tn__replay replay = {0};
    tn__schedule_init(&schedule, &run->context);
    tn_status status = tn__exact_search(&search, &schedule);
    if (status == TN_OK)
        status = tn__replay_schedule(run->dag, &schedule, &replay, NULL, run->error);
    tn__schedule_release(&schedule);
    *peak = replay.peak;
    return status;
}

/* Raises *least, a proved lower bound on memory, to the smallest budget with a schedule. *is_all
 * becomes false if a limit stopped the search before that. */
static tn_status exact_find_least(tn__pass_run *run, const exact_model *model, uint64_t *least,
                                  bool *is_all) {
    uint64_t most = 0, peak = 0;
    TN_TRY(tn__dag_plain_peak(run->dag, &run->context, &most, run->error));
    for (uint64_t further = 0; *least < most;) {
        uint64_t half = (most - *least) / 2, budget = *least + (further < half ? further : half);
        tn_status status = exact_probe(run, model, budget, &peak);
        if (status == TN_OK)
            most = peak < budget ? peak : budget;
        else if (status == TN_E_INFEASIBLE)
            *least = budget + 1;
        else
            return status == TN_E_STOPPED ? TN_OK : status;
        further = 2 * further + 1;
    }
    *is_all = true;
    return TN_OK;
}

static tn_status exact_infeasible(tn__pass_run *run, const exact_model *model,
                                  bool is_all_allowed) {
    uint64_t least = tn__exact_least_bytes(model);
    bool is_all = false;
    if (least <= run->budget) least = run->budget + 1;
    TN_TRY(exact_find_least(run, model, &least, &is_all));
    least = least > run->dag->slack ? least - run->dag->slack : 0; /* of a layout */
    if (is_all_allowed && least > run->least_bytes) run->least_bytes = least;
    return TN_E_INFEASIBLE;
}

static tn_status exact_offer(tn__pass_run *run, const tn__schedule *schedule) {
    bool kept;
    return tn__pass_offer(run, schedule, &kept);
}

static tn_status exact_solve(tn__pass_run *run) {
    exact_model model;
    bool keeps_order = !(run->allow & TN__ALLOW_ORDER);
    bool is_all_allowed = !(run->allow & (TN__ALLOW_SWAP | TN__ALLOW_COMPRESS));
    TN_TRY(tn__exact_model(run, keeps_order, &model));
    if (run->budget < tn__exact_least_bytes(&model))
        return exact_infeasible(run, &model, is_all_allowed);
    exact_search search = {.run = run, .model = &model, .budget = run->budget};
    bool had_best = run->has_best;
    search.ceiling = had_best ? run->time - run->dag->cost : EXACT_NEVER;
    tn__schedule schedule;
    tn__schedule_init(&schedule, &run->context);
    tn_status status = tn__exact_search(&search, &schedule);
    if (status == TN_OK) status = exact_offer(run, &schedule);
    tn__schedule_release(&schedule);
    if (status == TN_E_INFEASIBLE && !had_best)
        return exact_infeasible(run, &model, is_all_allowed);
    /* the search proved that no schedule is better than the best one known */
    if (status == TN_E_INFEASIBLE) {
        search.floor = search.ceiling;
        status = TN_OK;
    }
    if (is_all_allowed) tn__pass_raise_bound(run, tn__add_sat(run->dag->cost, search.floor));
    return status;
}

const tn_pass tn__pass_exact = {
    .name = "exact",
    .summary = "complete search for the least work, proved; for small programs",
    .source = "Jain, Jain, Nrusimha, Gholami, Abbeel, Keutzer, Stoica, Gonzalez 2020 (Checkmate), "
              "the problem; A* (Hart, Nilsson, Raphael 1968)",
    .features = TN__PASS_RECOMPUTES | TN__PASS_ORDERS | TN__PASS_BUDGETS | TN__PASS_COMPLETE,
    .solve = exact_solve,
};
