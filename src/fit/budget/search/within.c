/* within.c - finds the limit of live bytes to give to a pass, so that the layout of its answer is
 * within the caller's budget.
 *
 * Live bytes and the bytes of a layout differ: alignment and holes add bytes, in-place outputs save
 * some. First the limit is the whole budget. If the layout is too large, the next limit is smaller
 * by the excess; if bytes are left over, the next limit is larger by them. Later limits lie between
 * the largest one with a layout within the budget and the smallest one with a layout above it.
 *
 * Before that, decide.c decides whether any program is within the budget. So every call gets one
 * and the same answer to this question, and the search starts with a result that it can improve.
 */
#include "fit/budget/search/seek.h"

#define WITHIN_ROUNDS 9u /* limit for the rounds of pass and layout for one budget */
/* limit for the rounds for one order of operators before the next order is asked */
#define WITHIN_FIRST 4u
/* the search ends if the answer is above the lower bound by less than 1/4096 of the bound */
#define WITHIN_NEAR 4096u
/* the search ends if the layout leaves less than 1/64 of the budget unused */
#define WITHIN_CLOSE 64u
#define WITHIN_APART 64u /* an order that needs more than the budget by more than 1/64 is dropped */

void tn__fit_take(tn_fit_result *best, tn_fit_result *next) {
    tn_fit_release(best);
    *best = *next;
    *next = (tn_fit_result){0};
}

bool tn__fit_has_host(const tn__fit *fit, const tn_fit_result *result) {
    uint64_t budget = fit->options.host_budget;
    return budget == 0 || result->host == NULL || result->host_layout.peak <= budget;
}

/* --- within a budget --- */

typedef struct within_range {
    uint64_t target; /* bytes of the budget that remain for the arena, without static memory */
    /* the largest limit of live bytes with a layout within the target; 0: no such limit yet */
    uint64_t fitted;
    /* the smallest limit of live bytes with a layout above the target; UINT64_MAX: no such limit
     * yet */
    uint64_t failed;
    /* the largest limit of live bytes for which the pass found no schedule; 0: it always found
     * one */
    uint64_t none;
    uint64_t allowed; /* the limit of live bytes to try next */
    /* time of the last answer; in the search for the least, its bytes if it was within the target,
     * otherwise UINT64_MAX */
    uint64_t figure;
    bool fits, more; /* fits: the last answer was within the target; more: another round may help */
    /* the last answer of the pass, to start from; without actions: no answer yet */
    tn__schedule last;
} within_range;

/* Whether limits of live bytes are left to try between the largest with a layout within the target
 * and the smallest with a larger layout; sets range->allowed to one of them. */
static bool within_is_between(within_range *range) {
    const uint64_t low = range->fitted > range->none ? range->fitted : range->none;
    bool outside = range->allowed <= low || range->allowed >= range->failed;
    if (range->failed == UINT64_MAX) return range->allowed > low;
    if (range->failed <= low) return false;
    if (low > 0 && outside) range->allowed = low + (range->failed - low) / 2;
    return range->failed - low > range->target / (2 * WITHIN_CLOSE);
}

/* Chooses the next limit of live bytes from the size of the last layout (`took`) and the lower
 * bound of its layouts (`least`). Returns false if the answer is good enough, or no limit is left
 * to try. */
static bool within_next(within_range *range, uint64_t took, uint64_t least) {
    if (took <= range->target) {
        uint64_t left = range->target - least;
        if (range->allowed > range->fitted) range->fitted = range->allowed;
        if (left <= range->target / WITHIN_CLOSE) return false;
        range->allowed = tn__add_sat(range->allowed, left);
    } else {
        uint64_t over = took - range->target;
        if (range->allowed < range->failed) range->failed = range->allowed;
        if (over >= range->allowed) return false;
        range->allowed -= over;
    }
    return within_is_between(range);
}

/* Chooses the next limit of live bytes after the pass found nothing. If a larger limit gave a
 * layout that was too large, a limit in between may succeed. Returns false if no limit is left to
 * try. */
static bool within_miss(within_range *range) {
    if (range->failed == UINT64_MAX) return false;
    if (range->allowed > range->none) range->none = range->allowed;
    return within_is_between(range);
}

/* Chooses the next limit of live bytes after an answer that is no faster than the best one. Its
 * layout is not planned; it counts as within the target. Returns false if no limit is left to
 * try. */
static bool within_pass_over(within_range *range) {
    if (range->failed == UINT64_MAX) return false;
    if (range->allowed > range->fitted) range->fitted = range->allowed;
    range->fits = true;
    return within_is_between(range);
}

/* Records a lower bound on time. A bound that was proved for a larger budget also holds for this
 * one, but one for a smaller budget may not, so the lowest bound is kept. */
static void within_note_bound(tn__fit *fit, uint64_t bound) {
    tn__fit_competitor *competitor = fit->competitor;
    if (!competitor->has_bound || bound < competitor->time_bound) competitor->time_bound = bound;
    competitor->has_bound = true;
}

static bool within_is_better(const tn__fit *fit, const tn_fit_result *next,
                             const tn_fit_result *best) {
    if (best->program == NULL) return true;
    return fit->for_least ? next->bytes < best->bytes : next->time < best->time;
}

/* Returns the time to beat: only faster results are accepted. UINT64_MAX: every result within the
 * budget is accepted. */
static uint64_t within_beaten(const tn__fit *fit, const tn_fit_result *best) {
    if (fit->for_least) return UINT64_MAX;
    return best->program != NULL && best->time < fit->limit ? best->time : fit->limit;
}

/* Asks the pass for an answer. A lower bound on time holds for every order, so only one order asks
 * for it. An order that cannot beat the best result searches only briefly. */
static tn_status within_ask(tn__fit *fit, const tn__fit_start *start, within_range *range,
                            const tn_fit_result *best, tn_fit_result *next, bool *found) {
    const bool whole = range->allowed >= range->target && !fit->competitor->has_bound;
    const uint64_t incumbent = within_beaten(fit, best);
    fit->no_bound = !fit->for_least && !whole;
    fit->incumbent = incumbent != UINT64_MAX ? incumbent : 0;
    tn_status status = tn__fit_ask(fit, start, range->allowed, &range->last, next, found);
    fit->no_bound = false;
    fit->incumbent = 0;
    if (status == TN_OK && whole) within_note_bound(fit, next->time_bound);
    return status;
}

/* Plans the layout of an answer. In the search for the least, the smallest layout is planned, but
 * only a short one if the answer is far from the least. */
static tn_status within_lay_out(tn__fit *fit, const within_range *range, tn_fit_result *next) {
    const uint64_t most = tn__add_sat(range->target, fit->options.fixed_bytes);
    if (!fit->for_least) return tn__fit_lay_out(fit, TN__FIT_CAREFUL, range->target, next);
    TN_TRY(tn__fit_lay_out(fit, TN__FIT_SHORT, 0, next));
    return tn__fit_is_far(fit, next->bytes, most) ? TN_OK
                                                  : tn__fit_lay_out(fit, TN__FIT_CAREFUL, 0, next);
}

/* One round: asks the pass for an answer within the current limit, and chooses the next limit. A
 * problem without a model has no layout, so its first answer is final. An answer that is no faster
 * than the best result needs no layout. */
static tn_status within_step(tn__fit *fit, const tn__fit_start *start, within_range *range,
                             tn_fit_result *best) {
    tn_fit_result next = {0};
    bool found, budgets = (fit->competitor->pass->features & TN__PASS_BUDGETS) != 0;
    tn_status status = within_ask(fit, start, range, best, &next, &found);
    bool late = found && next.time >= within_beaten(fit, best);
    bool laid = status == TN_OK && found && !late;
    if (found) range->figure = fit->for_least ? UINT64_MAX : next.time;
    if (laid) status = within_lay_out(fit, range, &next);
    laid = laid && status == TN_OK;
    uint64_t took = laid ? next.bytes - fit->options.fixed_bytes : 0;
    uint64_t least = fit->for_least ? took : next.layout.lower_bound;
    range->fits = laid && took <= range->target && tn__fit_has_host(fit, &next);
    if (fit->for_least && range->fits) range->figure = took;
    if (range->fits && within_is_better(fit, &next, best)) tn__fit_take(best, &next);
    tn_fit_release(&next);
    range->more = !fit->options.live && budgets;
    if (range->more && !found)
        range->more = within_miss(range);
    else if (range->more)
        range->more = late ? within_pass_over(range) : within_next(range, took, least);
    return status;
}

/* Whether the best time is so close to the lower bound that no program can be much faster. */
static bool within_is_near(const tn__fit *fit, const tn_fit_result *best) {
    const uint64_t bound = fit->competitor->time_bound;
    if (fit->for_least || !fit->competitor->has_bound) return false;
    return within_beaten(fit, best) <= tn__add_sat(bound, bound / WITHIN_NEAR);
}

/* Returns the order to ask next: the one with the fastest last answer, even if its layout was too
 * large, because a smaller limit may make it only little slower. (A smaller limit never makes an
 * order faster.) NULL: no order is left. */
static within_range *within_pick(const tn__fit *fit, within_range *ranges,
                                 const tn_fit_result *best) {
    within_range *pick = NULL;
    for (uint32_t i = 0; i < fit->start_count && !fit->ended; i++) {
        bool late = !ranges[i].fits && ranges[i].figure >= within_beaten(fit, best);
        if (!ranges[i].more || late) continue;
        if (pick == NULL || ranges[i].figure < pick->figure) pick = &ranges[i];
    }
    return pick;
}

/* Runs the first rounds of an order, until an answer is within the budget. The next order then has
 * a time to beat. */
static tn_status within_first(tn__fit *fit, uint32_t order, within_range *range, uint32_t *rounds,
                              tn_fit_result *best) {
    for (uint32_t i = 0; i < (fit->for_least ? 1 : WITHIN_FIRST); i++) {
        TN_TRY(within_step(fit, &fit->starts[order], range, best));
        ++*rounds;
        if (range->fits || !range->more || fit->ended) return TN_OK;
    }
    return TN_OK;
}

/* Whether the bisection for the least showed that this order needs far more bytes than the
 * target. */
static bool within_is_far(const tn__fit *fit, uint32_t order, uint64_t target) {
    const uint64_t low = fit->starts[order].low;
    return fit->for_least && low - low / WITHIN_APART > target;
}

/* Searches with all orders of operators, except those that need far more bytes than the target. The
 * order with the least memory comes first, because within a budget it is mostly the faster one. */
static tn_status within_ranges(tn__fit *fit, within_range *ranges, tn_fit_result *best) {
    uint32_t rounds = 0;
    for (uint32_t i = fit->start_count; i-- > 0 && !within_is_near(fit, best);)
        if (!within_is_far(fit, i, ranges[i].target))
            TN_TRY(within_first(fit, i, &ranges[i], &rounds, best));
    for (; rounds < WITHIN_ROUNDS; rounds++) {
        within_range *next = within_is_near(fit, best) ? NULL : within_pick(fit, ranges, best);
        if (next == NULL) return TN_OK;
        TN_TRY(within_step(fit, &fit->starts[next - ranges], next, best));
    }
    return TN_OK;
}

static tn_status within_from(tn__fit *fit, uint64_t target, tn_fit_result *best) {
    within_range ranges[TN__FIT_ORDERS];
    for (uint32_t i = 0; i < TN__FIT_ORDERS; i++) {
        ranges[i] = (within_range){
            .target = target, .failed = UINT64_MAX, .allowed = target, .figure = UINT64_MAX};
        tn__schedule_init(&ranges[i].last, &fit->context);
    }
    tn_status status = within_ranges(fit, ranges, best);
    for (uint32_t i = 0; i < TN__FIT_ORDERS; i++) tn__schedule_release(&ranges[i].last);
    return status;
}

/* Whether static memory alone exceeds the budget, so that no pass can help. */
static bool within_is_hopeless(const tn__fit *fit, uint64_t budget) {
    return budget < fit->options.fixed_bytes;
}

tn_status tn__fit_search_within(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    fit->competitor->has_bound = false;
    fit->competitor->time_bound = 0;
    if (within_is_hopeless(fit, budget)) return TN_OK;
    return within_from(fit, budget - fit->options.fixed_bytes, result);
}

/* --- when nothing fits --- */

/* Tries to prove that no program is within the budget: by lower bounds on bytes, by a complete
 * search that failed, or by asking the pass for a proof. */
static tn_status within_prove(tn__fit *fit, uint64_t budget, bool *proved) {
    tn_fit_result none = {0};
    uint64_t fixed = fit->options.fixed_bytes;
    *proved = within_is_hopeless(fit, budget) || budget - fixed < fit->competitor->bytes_bound;
    if (*proved || fit->ended) return TN_OK;
    if (budget - fixed > fit->competitor->denied && !fit->options.any) {
        bool found;
        fit->only_proof = true;
        const uint64_t live = tn__add_sat(budget - fixed, tn__fit_slack(fit, &fit->starts[0].dag));
        tn_status status = tn__fit_ask(fit, &fit->starts[0], live, NULL, &none, &found);
        fit->only_proof = false;
        tn_fit_release(&none);
        TN_TRY(status);
    }
    *proved = budget - fixed <= fit->competitor->denied;
    return TN_OK;
}

tn_status tn__fit_search_fail(tn__fit *fit, uint64_t budget, const tn_fit_result *least) {
    const bool swaps = (fit->options.allow & TN_FIT_SWAP) != 0;
    bool proved, any = least->program != NULL;
    TN_TRY(within_prove(fit, budget, &proved));
    fit->refusal = (tn__refusal){
        .techniques = fit->options.allow,
        .ruled = fit->starts[0].ruled != NULL,
        .budget = budget,
        .host_budget = swaps ? fit->options.host_budget : 0,
        .least = any ? least->bytes : 0,
        .bound = any ? tn__add_sat(tn__fit_widest(fit)->bytes_bound, fit->options.fixed_bytes) : 0,
        .ended = fit->ended};
    return proved ? TN_E_INFEASIBLE : fit->ended != TN__ENDED_NOT ? TN_E_STOPPED : TN_E_EXHAUSTED;
}

/* --- the answer --- */

/* Whether a result of this size may be an answer. It may only if a later call with exactly this
 * budget would be answered, too; so the search for the least is followed if necessary. */
static tn_status within_is_answered(tn__fit *fit, uint64_t bytes, bool *answered) {
    tn_fit_result less = {0};
    const tn__fit_competitor *competitor = fit->competitor;
    bool complete = (competitor->pass->features & TN__PASS_COMPLETE) != 0;
    *answered = complete || bytes >= tn__fit_reached(fit);
    if (*answered || competitor->floor > 0 || fit->ended) return TN_OK;
    tn_status status = tn__fit_plain(fit, &less);
    if (status == TN_OK) status = tn__fit_decide(fit, bytes, &less);
    *answered = less.bytes <= bytes;
    tn_fit_release(&less);
    return status;
}

/* Searches within the budget, and replaces a result that is too large or slower by the one
 * found. */
static tn_status within_better(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    tn_fit_result found = {0};
    bool is_better = false;
    tn_status status = tn__fit_search_within(fit, budget, &found);
    if (status == TN_OK && found.program != NULL)
        is_better = result->program == NULL || result->bytes > budget || found.time < result->time;
    if (is_better) status = within_is_answered(fit, found.bytes, &is_better);
    if (is_better && status == TN_OK) tn__fit_take(result, &found);
    tn_fit_release(&found);
    return status;
}

tn_status tn__fit_search(tn__fit *fit, uint64_t budget, const tn_fit_result *plain,
                         tn_fit_result *result) {
    const bool complete = (fit->competitor->pass->features & TN__PASS_COMPLETE) != 0;
    if (fit->limit != UINT64_MAX) return within_better(fit, budget, result);
    TN_TRY(tn__fit_copy(fit, plain, result));
    if (complete) TN_TRY(within_better(fit, budget, result));
    if (result->bytes > budget) TN_TRY(tn__fit_decide(fit, budget, result));
    if (result->bytes > budget || complete || fit->ended) return TN_OK;
    return within_better(fit, budget, result);
}
