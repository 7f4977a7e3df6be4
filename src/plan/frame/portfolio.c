/* portfolio.c - runs several planners on one bank in parallel, with a result that does not depend
 * on the number of threads.
 *
 * Each planner is a member of the portfolio. The winner is the first member, in order, that reaches
 * the lower bound. If no member does, it is the member with the lowest peak (in a run that
 * minimises reuse cost, the least cost within the capacity), ties to the first. Members before a
 * winner always run to their end and members after it are stopped, so the number of threads changes
 * only the time. Work is counted for the members up to the winner (for all, if none reaches the
 * bound), as if they had run one by one.
 */
#include "plan/frame/planner_run.h"

#include <pthread.h>

typedef struct portfolio_member {
    tn_run run;
    tn_error error;
    tn_status status;
    bool ran;
    atomic_bool stop; /* true: a member before this one has won, so this one must end */
} portfolio_member;

typedef struct portfolio {
    tn_run *outer;
    portfolio_member *members;
    uint32_t count, next;
    pthread_mutex_t lock;
} portfolio;

static uint32_t portfolio_take(portfolio *all) {
    pthread_mutex_lock(&all->lock);
    uint32_t index = all->next < all->count ? all->next++ : UINT32_MAX;
    pthread_mutex_unlock(&all->lock);
    return index;
}

static void portfolio_won(portfolio *all, uint32_t index) {
    pthread_mutex_lock(&all->lock);
    for (uint32_t i = index + 1; i < all->count; i++) all->members[i].stop = true;
    pthread_mutex_unlock(&all->lock);
}

static void portfolio_work(portfolio *all, bool other_thread) {
    for (;;) {
        uint32_t index = portfolio_take(all);
        if (index == UINT32_MAX) return;
        portfolio_member *member = &all->members[index];
        if (member->stop || all->outer->stop) continue;
        member->run.other_thread = other_thread;
        member->status = tn__run_solve(&member->run);
        member->ran = true;
        if (member->status == TN_OK && tn__run_is_proved(&member->run)) portfolio_won(all, index);
    }
}

static void *portfolio_thread(void *argument) {
    portfolio_work(argument, true);
    return NULL;
}

static void portfolio_run(portfolio *all) {
    pthread_t threads[64];
    uint32_t wanted = tn__run_threads(all->outer), started = 0;
    if (wanted > all->count) wanted = all->count;
    if (wanted > 64) wanted = 64;
    /* if a thread cannot be started, the other threads do its work */
    for (uint32_t i = 1; i < wanted; i++)
        if (pthread_create(&threads[started], NULL, portfolio_thread, all) == 0) started++;
    portfolio_work(all, all->outer->other_thread);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

/* Copies the best placement of the members into the outer run, and adds up work and bounds of the
 * members up to the winner. */
static tn_status portfolio_finish(portfolio *all) {
    tn_run *outer = all->outer;
    tn_status worst = TN_E_STOPPED;
    for (uint32_t i = 0; i < all->count; i++) {
        portfolio_member *member = &all->members[i];
        if (!member->ran) continue;
        outer->work += member->run.work;
        outer->timed_out |= member->run.timed_out;
        tn__run_raise_bound(outer, member->run.lower_bound);
        tn__run_raise_cost_bound(outer, member->run.cost_bound);
        if (member->status != TN_OK) {
            if (member->status != TN_E_STOPPED) worst = member->status;
            if (outer->error != NULL) *outer->error = member->error;
            continue;
        }
        if (tn__run_is_better(&member->run, outer)) {
            outer->best_peak = member->run.best_peak;
            outer->best_cost = member->run.best_cost;
            memcpy(outer->best, member->run.best, outer->prepared->count * sizeof *outer->best);
        }
        /* the first member with a proved result is the winner; the members after it were stopped */
        if (tn__run_is_proved(&member->run)) break;
    }
    if (worst != TN_E_STOPPED) return worst;
    if (outer->best_peak != UINT64_MAX) return TN_OK;
    TN_FAIL(outer->error, TN_E_STOPPED, "stopped before there was any layout");
}

tn_status tn__run_portfolio(tn_run *run, const tn_planner *const *planners, uint32_t count,
                            uint64_t work_limit) {
    portfolio all = {.outer = run};
    const tn_context *context = tn__run_context(run);
    all.members = tn__alloc_array(context, count, sizeof *all.members);
    if (all.members == NULL) return tn__no_memory(run->error, "a portfolio");
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < count && status == TN_OK; i++) {
        if (run->prepared->needs & ~planners[i]->features) continue;
        portfolio_member *member = &all.members[all.count];
        status = tn__run_create(&member->run, run->prepared, planners[i], &member->error);
        if (status != TN_OK) break;
        member->run.threads = tn__run_threads(run) > count ? tn__run_threads(run) / count : 1;
        if (run->best_peak != UINT64_MAX) { /* members begin with the best plan of the outer run */
            member->run.best_peak = run->best_peak;
            member->run.best_cost = run->best_cost;
            member->run.cost_bound = run->cost_bound;
            memcpy(member->run.best, run->best, run->prepared->count * sizeof *run->best);
        }
        member->run.outer = run;
        member->run.outer_stop = &member->stop;
        all.count++;
    }
    uint64_t left = tn__run_work_left(run);
    if (work_limit != 0 && work_limit < left) left = work_limit;
    for (uint32_t i = 0; i < all.count && left != UINT64_MAX; i++)
        all.members[i].run.work_limit = left / all.count > 0 ? left / all.count : 1;
    if (status == TN_OK) {
        pthread_mutex_init(&all.lock, NULL);
        portfolio_run(&all);
        pthread_mutex_destroy(&all.lock);
        status = portfolio_finish(&all);
    } else {
        status = tn__no_memory(run->error, "a portfolio");
    }
    for (uint32_t i = 0; i < all.count; i++) tn__run_release(&all.members[i].run);
    tn__free(context, all.members, count * sizeof *all.members);
    return status;
}

tn_status tn__run_as(tn_run *run, const char *name) {
    const tn_planner *planner = tn__planner_find(name);
    if (planner != NULL) return tn__run_portfolio(run, &planner, 1, 0);
    TN_FAIL(run->error, TN_E_UNSUPPORTED, "planner %s is not there", name);
}

tn_status tn__run_ask(tn_run *run, const char *name, uint64_t work_limit) {
    const tn_planner *planner = tn__planner_find(name);
    if (tn__run_is_done(run) || planner == NULL) return TN_OK;
    /* a limit is reached, and there is a plan */
    if (run->best_peak != UINT64_MAX && !tn__run_goes_on(run)) return TN_OK;
    tn_status status = tn__run_portfolio(run, &planner, 1, work_limit);
    /* whether the planner may have reached its own limit, `work_limit`, without a plan */
    bool own = status == TN_E_STOPPED && work_limit > 0;
    return own && tn__run_goes_on(run) ? TN_OK : status;
}

tn_status tn__run_quick_portfolio(tn_run *run) {
    uint32_t count = 0, all = tn_planner_count();
    const tn_planner **members = tn__run_scratch(run, all, sizeof *members);
    if (members == NULL) return tn__no_memory(run->error, "a portfolio");
    for (uint32_t i = 0; i < all; i++)
        if (tn__planner_at(i)->features & TN_PLANS_QUICKLY) members[count++] = tn__planner_at(i);
    return tn__run_portfolio(run, members, count, 0);
}

tn_status tn__run_simple_planners(tn_run *run) {
    for (uint32_t i = 0; i < tn_planner_count() && !tn__run_is_done(run); i++)
        if (tn__planner_at(i)->features & TN_PLANS_SIMPLY)
            TN_TRY(tn__run_ask(run, tn__planner_at(i)->name, 0));
    return TN_OK;
}
