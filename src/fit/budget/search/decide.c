/* decide.c - decides whether any program is within a budget, before within.c looks for the fastest
 * one. Without a budget, finds the least: the smallest budget that is answered.
 *
 * A search that finds nothing proves nothing, and a search for fewer bytes may succeed where one
 * for more bytes failed. The least is therefore defined as the end of a chain of searches. The
 * chain depends on nothing that differs between calls: neither on the budget nor on measured times
 * (a job costs the memory that it touches). A call with a budget follows the chain until a result
 * fits; mostly the first one does. If the end is reached without a fit, the budget is below the
 * least. All calls therefore agree: the least is answered, and no smaller budget is.
 *
 * The chain has three stages. First, for each order alternately, bisection on live bytes between an
 * amount that the pass met and one that it missed. Then layouts of these results: short ones for
 * all, careful ones for those that may be smaller than the least so far. Last, searches for
 * slightly smaller layouts, with large and single-byte steps. A result with live bytes within the
 * budget gets a quick layout at once, which is usually enough. A quick layout is never smaller than
 * the careful one, so it answers no budget that the end of the chain would not answer.
 *
 * A budget that is too small walks the whole chain, so the chain must be short. The bisection stops
 * early for an order that needs far more than another one, and such an order gets no later
 * searches. A program with a short layout that is far too large gets no careful layout.
 */
#include "fit/budget/search/seek.h"

#define DECIDE_HALVINGS 24u
#define DECIDE_GRAIN 1024u /* the bisection ends at a range of this part of the bytes */
#define DECIDE_SETTLES 12u /* searches below the least so far */
#define DECIDE_LEAP 16u /* grains of the first step, after a search for one byte less succeeded */
#define DECIDE_APART 8u /* an order that needs more than another by this part is dropped */

static bool decide_budgets(const tn__fit *fit) {
    return (fit->competitor->pass->features & TN__PASS_BUDGETS) != 0;
}

/* The bisection of one order. */
typedef struct decide_range {
    uint64_t low, high; /* live bytes: the largest amount that the pass missed, and the smallest
                         * that it met */
    uint32_t rounds;
    bool ended;
} decide_range;

typedef struct decide_chain {
    uint64_t enough;
    tn_fit_result *best;
    tn_fit_result later[TN__FIT_ORDERS * DECIDE_HALVINGS]; /* without careful layouts */
    bool is_short[TN__FIT_ORDERS * DECIDE_HALVINGS];       /* has a short layout */
    uint32_t later_count;
    decide_range ranges[TN__FIT_ORDERS];
} decide_chain;

static bool decide_is_done(const tn__fit *fit, const decide_chain *chain) {
    return fit->ended || chain->best->bytes <= chain->enough;
}

/* Handles one result: the chain ends here, or the result is stored for later. */
static tn_status decide_link(tn__fit *fit, decide_chain *chain, tn_fit_result *next) {
    const uint64_t least = next->bytes; /* lower bound of its layout */
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

/* Whether another order needs far less, so that the holes of a layout do not change the comparison.
 */
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

/* The smallest of those with a short layout, or of those without a layout; NULL: none is left. */
static tn_fit_result *decide_pick(decide_chain *chain, bool is_short) {
    tn_fit_result *pick = NULL;
    for (uint32_t i = 0; i < chain->later_count; i++) {
        tn_fit_result *it = &chain->later[i];
        if (it->program == NULL || chain->is_short[i] != is_short) continue;
        if (pick == NULL || it->bytes < pick->bytes) pick = it;
    }
    return pick;
}

/* Plans a careful layout for a result that has a short one. */
static tn_status decide_lay_out_carefully(tn__fit *fit, decide_chain *chain, tn_fit_result *next) {
    uint64_t least = tn__add_sat(next->live_bytes, fit->options.fixed_bytes);
    bool may = fit->options.live || least < chain->best->bytes;
    if (may) TN_TRY(tn__fit_lay_out(fit, TN__FIT_CAREFUL, 0, next));
    bool less = may && next->bytes < chain->best->bytes && tn__fit_has_host(fit, next);
    if (less) tn__fit_take(chain->best, next);
    tn_fit_release(next);
    return TN_OK;
}

/* Plans short layouts in the order of live bytes, as long as a result may be far better than the
 * best with a short layout; that best one gets a careful layout. */
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

/* The pass's lower bound before any budget was searched, so that the bisection begins with the same
 * numbers in every call. */
static tn_status decide_bound(tn__fit *fit) {
    tn_fit_result next = {0};
    bool found;
    if (!decide_budgets(fit)) return TN_OK;
    tn_status status = tn__fit_ask(fit, &fit->starts[0], 1, NULL, &next, &found);
    tn_fit_release(&next);
    return status;
}

/* A layout may be smaller than the live bytes (in-place outputs), and another search may find a
 * program that the bisection missed. So one byte less is tried. If that succeeds, large steps are
 * tried, then smaller ones, and finally one byte again. The chain ends when no large step succeeded
 * since then. */
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
    competitor->time_bound = time_bound; /* belongs to the requested budget */
    competitor->has_bound = has_bound;
    if (status == TN_OK && result->bytes < competitor->reached) competitor->reached = result->bytes;
    return status;
}
