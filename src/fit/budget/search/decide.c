/* decide.c - decides whether any program is within a budget, before within.c looks for the fastest
 * one. Without a budget, it finds the least: the smallest budget that is answered.
 *
 * A search that finds nothing proves nothing, and a search for fewer bytes may succeed after one
 * for more bytes failed. Therefore the least is defined as the end of a chain of searches. The
 * chain depends on nothing that differs between calls, neither on the budget nor on measured times
 * (here a job costs the memory that it touches). A call with a budget follows the chain until a
 * result is within the budget, which is mostly the first result. If no result of the chain is, the
 * budget is below the least. So all calls agree: the least is answered, and no smaller budget is.
 *
 * The chain has three stages. First, bisection for the limit of live bytes: for each order of
 * operators in turn, between a limit within which the pass found a schedule and one within which it
 * found none. Second, layouts of the schedules found: short ones for all, careful ones for those
 * that may be smaller than the least so far. Third, searches for slightly smaller layouts, with
 * large and with single-byte steps. If the live bytes of a result are within the budget, it gets a
 * quick layout at once, which is usually enough. A quick layout is never smaller than the careful
 * one, so it answers no budget that the end of the chain would not answer.
 *
 * For a budget that is too small, the whole chain is searched, so the chain must be short. The
 * bisection stops early for an order that needs far more bytes than another one, and such an order
 * is not searched later. If the short layout of a program is far too large, it gets no careful
 * layout.
 */
#include "fit/budget/search/seek.h"

#define DECIDE_HALVINGS 24u
#define DECIDE_GRAIN 1024u /* the bisection ends if the range is below 1/1024 of its upper end */
/* limit for the number of searches for layouts smaller than the smallest one so far */
#define DECIDE_SETTLES 12u
/* first large step by which the searched budget is lowered, in units of 1 / DECIDE_GRAIN of the
 * bytes */
#define DECIDE_LEAP 16u
/* an order that needs more bytes than another one by more than 1/8 is dropped */
#define DECIDE_APART 8u

static bool decide_budgets(const tn__fit *fit) {
    return (fit->competitor->pass->features & TN__PASS_BUDGETS) != 0;
}

/* the state of the bisection for one order of operators */
typedef struct decide_range {
    /* limits of live bytes: `low` is the largest one for which no schedule was found, `high` the
     * smallest one for which one was found */
    uint64_t low, high;
    uint32_t rounds;
    bool ended;
} decide_range;

typedef struct decide_chain {
    uint64_t enough;
    tn_fit_result *best;
    /* results of the bisection that have no careful layout yet */
    tn_fit_result later[TN__FIT_ORDERS * DECIDE_HALVINGS];
    bool is_short[TN__FIT_ORDERS * DECIDE_HALVINGS]; /* the result has a short layout */
    uint32_t later_count;
    decide_range ranges[TN__FIT_ORDERS];
} decide_chain;

static bool decide_is_done(const tn__fit *fit, const decide_chain *chain) {
    return fit->ended || chain->best->bytes <= chain->enough;
}

/* Handles a result of the bisection. If its quick layout is within the budget, the result becomes
 * the best one and the search ends; otherwise it is stored for a careful layout. */
static tn_status decide_link(tn__fit *fit, decide_chain *chain, tn_fit_result *next) {
    /* bytes that every layout of this result needs */
    const uint64_t least = next->bytes;
    bool ends = least <= chain->enough;
    if (ends) {
        TN_TRY(tn__fit_lay_out(fit, TN__FIT_QUICK, 0, next));
        ends = next->bytes <= chain->enough && tn__fit_has_host(fit, next);
    }
    if (ends) {
        tn__fit_take(chain->best, next);
        return TN_OK;
    }
    next->bytes = least;
    chain->later[chain->later_count++] = *next;
    *next = (tn_fit_result){0};
    return TN_OK;
}

static tn_status decide_step(tn__fit *fit, const tn__fit_start *start, decide_chain *chain,
                             decide_range *range) {
    tn_fit_result next = {0};
    bool found;
    if (fit->competitor->bytes_bound > range->low + 1)
        range->low = fit->competitor->bytes_bound - 1;
    const uint64_t low = range->low, high = range->high;
    const uint32_t most = decide_budgets(fit) ? DECIDE_HALVINGS : 1;
    range->ended = range->rounds++ >= most || high <= low + 1 || high - low <= high / DECIDE_GRAIN;
    if (range->ended) return TN_OK;
    uint64_t allowed = decide_budgets(fit) ? low + (high - low) / 2 : high;
    tn_status status = tn__fit_ask(fit, start, allowed, NULL, &next, &found);
    *(found ? &range->high : &range->low) = allowed;
    if (status == TN_OK && found) status = decide_link(fit, chain, &next);
    tn_fit_release(&next);
    return status;
}

/* Whether another order needs so many fewer bytes that holes of a layout cannot change the
 * comparison. */
static bool decide_is_apart(const tn__fit *fit, const decide_chain *chain, uint32_t order) {
    const uint64_t low = chain->ranges[order].low;
    for (uint32_t i = 0; i < fit->start_count; i++)
        if (chain->ranges[i].high < low - low / DECIDE_APART) return true;
    return false;
}

static tn_status decide_halve(tn__fit *fit, decide_chain *chain) {
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < fit->start_count && !decide_is_done(fit, chain); i++) {
            if (chain->ranges[i].ended || decide_is_apart(fit, chain, i)) continue;
            TN_TRY(decide_step(fit, &fit->starts[i], chain, &chain->ranges[i]));
            more = true;
        }
    }
    return TN_OK;
}

/* Returns the smallest stored result that has a short layout, or that has no layout, depending on
 * `is_short`; NULL if none is left. */
static tn_fit_result *decide_pick(decide_chain *chain, bool is_short) {
    tn_fit_result *pick = NULL;
    for (uint32_t i = 0; i < chain->later_count; i++) {
        tn_fit_result *it = &chain->later[i];
        if (it->program == NULL || chain->is_short[i] != is_short) continue;
        if (pick == NULL || it->bytes < pick->bytes) pick = it;
    }
    return pick;
}

/* Plans a careful layout for a stored result that has a short one, and keeps it if it is smaller
 * than the best result. */
static tn_status decide_lay_out_carefully(tn__fit *fit, decide_chain *chain, tn_fit_result *next) {
    uint64_t least = tn__add_sat(next->live_bytes, fit->options.fixed_bytes);
    bool may = fit->options.live || least < chain->best->bytes;
    if (may) TN_TRY(tn__fit_lay_out(fit, TN__FIT_CAREFUL, 0, next));
    bool less = may && next->bytes < chain->best->bytes && tn__fit_has_host(fit, next);
    if (less) tn__fit_take(chain->best, next);
    tn_fit_release(next);
    return TN_OK;
}

/* Plans layouts of the stored results. Results without a layout get short ones, in the order of
 * live bytes, as long as one may be far smaller than the best short layout. Otherwise the result
 * with the best short layout gets a careful one. */
static tn_status decide_lay_out(tn__fit *fit, decide_chain *chain) {
    while (!decide_is_done(fit, chain)) {
        const uint64_t best = chain->best->bytes;
        tn_fit_result *next = decide_pick(chain, false), *laid = decide_pick(chain, true);
        if (laid != NULL && tn__fit_is_far(fit, laid->bytes, best)) laid = NULL;
        bool may = next != NULL && next->bytes < best;
        if (may && (laid == NULL || tn__fit_is_far(fit, laid->bytes, next->bytes))) {
            chain->is_short[next - chain->later] = true;
            TN_TRY(tn__fit_lay_out(fit, TN__FIT_SHORT, 0, next));
        } else if (laid != NULL) {
            TN_TRY(decide_lay_out_carefully(fit, chain, laid));
        } else {
            return TN_OK;
        }
    }
    return TN_OK;
}

/* Asks the pass for its lower bound on memory before any search, so that the bisection begins with
 * the same numbers in every call. */
static tn_status decide_bound(tn__fit *fit) {
    tn_fit_result next = {0};
    bool found;
    if (!decide_budgets(fit)) return TN_OK;
    tn_status status = tn__fit_ask(fit, &fit->starts[0], 1, NULL, &next, &found);
    tn_fit_release(&next);
    return status;
}

/* Searches for layouts below the least so far, which may exist: a layout may be smaller than the
 * live bytes (because of in-place outputs), and another search may find a program that the
 * bisection missed. First, one byte less is tried. If that succeeds, large steps are tried, then
 * smaller ones, then one byte again. The chain ends when one byte fails, or when no large step has
 * succeeded since the last time. */
static tn_status decide_settle(tn__fit *fit, tn_fit_result *best) {
    const uint64_t grain = best->bytes / DECIDE_GRAIN + 1, leap = DECIDE_LEAP * grain;
    uint64_t step = 1;
    bool many = true;
    for (uint32_t i = 0; i < DECIDE_SETTLES && !fit->ended; i++) {
        uint64_t arena = best->bytes - fit->options.fixed_bytes;
        tn_fit_result next = {0};
        bool none = arena <= step || arena - step < fit->competitor->bytes_bound;
        if (!none) TN_TRY(tn__fit_search_within(fit, best->bytes - step, &next));
        bool found = next.program != NULL;
        if (found) tn__fit_take(best, &next);
        if (step == 1 && (!found || !many)) break;
        many = step > 1 && (many || found);
        if (step == 1)
            step = leap;
        else if (!found)
            step = step > grain ? step / 4 : 1;
    }
    return TN_OK;
}

static tn_status decide_follow(tn__fit *fit, decide_chain *chain) {
    tn_fit_result *best = chain->best;
    const uint64_t high = fit->options.live ? best->bytes : best->live_bytes;
    TN_TRY(decide_bound(fit));
    const uint64_t low = fit->competitor->bytes_bound > 0 ? fit->competitor->bytes_bound - 1 : 0;
    for (uint32_t i = 0; i < fit->start_count; i++)
        chain->ranges[i] = (decide_range){.low = low, .high = high};
    TN_TRY(decide_halve(fit, chain));
    for (uint32_t i = 0; i < fit->start_count; i++) fit->starts[i].low = chain->ranges[i].low;
    TN_TRY(decide_lay_out(fit, chain));
    if (best->bytes <= chain->enough || fit->options.any) return TN_OK;
    TN_TRY(decide_settle(fit, best));
    if (!fit->ended) fit->competitor->floor = best->bytes;
    return TN_OK;
}

tn_status tn__fit_decide(tn__fit *fit, uint64_t enough, tn_fit_result *result) {
    tn__fit_competitor *competitor = fit->competitor;
    const uint64_t time_bound = competitor->time_bound;
    const bool has_bound = competitor->has_bound;
    decide_chain chain = {.enough = enough, .best = result};
    fit->for_least = true;
    tn_status status = decide_follow(fit, &chain);
    fit->for_least = false;
    for (uint32_t i = 0; i < chain.later_count; i++) tn_fit_release(&chain.later[i]);
    /* these bounds belong to the search for the requested budget, so they are restored */
    competitor->time_bound = time_bound;
    competitor->has_bound = has_bound;
    if (status == TN_OK && result->bytes < competitor->reached) competitor->reached = result->bytes;
    return status;
}
