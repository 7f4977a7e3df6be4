/* fit_search.c - the budget that a pass sees, so that the layout is within the one that was given.
 *
 * What lives at once and what a layout takes differ: alignment and holes take more, memory that an
 * operator takes over in place takes less. So the pass is asked for the whole budget first; where
 * the layout took more, for that much less; where bytes were left over, for that much more; then
 * between the largest that fitted and the smallest that did not.
 *
 * The least: halving between what the pass could do and what it could not, for live bytes; then
 * a few searches for budgets below what came of that, until one fails for a byte less. A search
 * that fails for a budget looks for the least, too: what that finds may be within the budget after
 * all, and says what would do.
 */
#include "budget/fit.h"

#include <inttypes.h>

#define FIT_ROUNDS 8u    /* passes and layouts for one budget and order */
#define FIT_CLOSE 64u    /* a layout that leaves less than this part of the budget is good */
#define FIT_HALVINGS 24u /* for the least */
#define FIT_GRAIN 1024u  /* part of it that halving ends with */
#define FIT_SETTLES 12u  /* searches below it */
#define FIT_LEAP 16u     /* grains that the first of them goes, where a byte less was found */

static void search_take(tn_fit_result *best, tn_fit_result *next) {
    tn_fit_release(best);
    *best = *next;
    *next = (tn_fit_result){0};
}

/* --- within a budget --- */

typedef struct search_range {
    uint64_t target;  /* bytes of the arena */
    uint64_t fitted;  /* largest allowance whose layout was within it; 0: none */
    uint64_t failed;  /* smallest whose layout was not; UINT64_MAX: none */
    uint64_t allowed; /* that is tried next */
} search_range;

/* What to allow next, of what this one took. False: it is good enough, or nothing is left. */
static bool search_next(search_range *range, uint64_t took) {
    if (took <= range->target) {
        uint64_t left = range->target - took;
        if (range->allowed > range->fitted) range->fitted = range->allowed;
        if (left <= range->target / FIT_CLOSE) return false;
        range->allowed = tn__add_sat(range->allowed, left);
    } else {
        uint64_t over = took - range->target;
        if (range->allowed < range->failed) range->failed = range->allowed;
        if (over >= range->allowed) return false;
        range->allowed -= over;
    }
    bool outside = range->allowed <= range->fitted || range->allowed >= range->failed;
    if (range->failed != UINT64_MAX && range->fitted > 0 && outside)
        range->allowed = range->fitted + (range->failed - range->fitted) / 2;
    return range->failed == UINT64_MAX ||
           range->failed - range->fitted > range->target / (2 * FIT_CLOSE);
}

/* What was proved of a larger budget holds for this one; of a smaller, it need not. */
static void search_note_bound(tn__fit *fit, const tn_fit_result *next, bool found) {
    uint64_t bound = found ? next->time_bound : 0;
    if (!fit->has_bound || bound < fit->time_bound) fit->time_bound = bound;
    fit->has_bound = true;
}

/* Whether the host's pool is within its own budget, holes and all. */
static bool search_has_host(const tn__fit *fit, const tn_fit_result *next) {
    uint64_t budget = fit->options.host_budget;
    return budget == 0 || next->host == NULL || next->host_layout.peak <= budget;
}

/* One answer for what the range allows, and what is allowed next. *more: it is worth to ask again.
 * Problems count what lives: there the first answer is the answer. */
static tn_status search_step(tn__fit *fit, const tn__fit_start *start, search_range *range,
                             tn_fit_result *best, bool *proved, bool *more) {
    tn_fit_result next = {0};
    bool found, none, budgets = (fit->pass->features & TN__PASS_BUDGETS) != 0;
    tn_status status = tn__fit_once(fit, start, range->allowed, &next, &found, &none);
    *proved = *proved || (none && range->allowed >= range->target);
    uint64_t took = found ? next.bytes - fit->options.fixed_bytes : 0;
    if (status == TN_OK && range->allowed >= range->target) search_note_bound(fit, &next, found);
    bool better = status == TN_OK && found && took <= range->target &&
                  search_has_host(fit, &next) && (best->program == NULL || next.time < best->time);
    if (better) search_take(best, &next);
    tn_fit_release(&next);
    *more = found && !fit->options.live && budgets && search_next(range, took) && !fit->stopped;
    return status;
}

/* Every order is asked once; then that which was fastest, or which came first. */
static tn_status search_from(tn__fit *fit, uint64_t target, tn_fit_result *best, bool *proved) {
    search_range ranges[TN__FIT_ORDERS];
    bool more[TN__FIT_ORDERS] = {false};
    uint32_t lead = 0;
    for (uint32_t i = 0; i < fit->start_count; i++) {
        uint64_t before = best->program != NULL ? best->time : UINT64_MAX;
        ranges[i] = (search_range){target, 0, UINT64_MAX, target};
        TN_TRY(search_step(fit, &fit->starts[i], &ranges[i], best, proved, &more[i]));
        if (best->program != NULL && best->time < before) lead = i;
        if (best->program == NULL && !more[lead] && more[i]) lead = i;
    }
    for (uint32_t round = 1; round < FIT_ROUNDS && more[lead]; round++)
        TN_TRY(search_step(fit, &fit->starts[lead], &ranges[lead], best, proved, &more[lead]));
    return TN_OK;
}

static tn_status search_fail(tn__fit *fit, uint64_t budget, const tn_fit_result *least,
                             bool proved) {
    char asked[TN_SIZE_TEXT_MAX], need[TN_SIZE_TEXT_MAX], bound[TN_SIZE_TEXT_MAX];
    uint64_t floor = tn__add_sat(fit->bytes_bound, fit->options.fixed_bytes);
    tn_size_format(budget, asked);
    tn_size_format(least->bytes, need);
    tn_size_format(floor, bound);
    if (proved || floor > budget)
        TN_FAIL(fit->error, TN_E_INFEASIBLE,
                "no program fits in %s: that is proved; the least found takes %s", asked, need);
    TN_FAIL(fit->error, fit->stopped ? TN_E_STOPPED : TN_E_EXHAUSTED,
            "no program was found that fits in %s; the least found takes %s, and none takes less "
            "than %s",
            asked, need, bound);
}

/* Who asks whether, and not what would do. */
static tn_status search_deny(const tn__fit *fit, uint64_t budget, bool proved) {
    char asked[TN_SIZE_TEXT_MAX];
    tn_size_format(budget, asked);
    if (proved || tn__add_sat(fit->bytes_bound, fit->options.fixed_bytes) > budget)
        TN_FAIL(fit->error, TN_E_INFEASIBLE, "no program fits in %s: that is proved", asked);
    TN_FAIL(fit->error, fit->stopped ? TN_E_STOPPED : TN_E_EXHAUSTED,
            "no program was found that fits in %s", asked);
}

/* Static memory alone is more than the budget: nothing that a pass does changes that. */
static bool search_is_hopeless(const tn__fit *fit, uint64_t budget) {
    return budget < fit->options.fixed_bytes;
}

tn_status tn__fit_search_within(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    bool proved = false;
    if (search_is_hopeless(fit, budget)) return TN_OK;
    return search_from(fit, budget - fit->options.fixed_bytes, result, &proved);
}

tn_status tn__fit_search(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    bool proved = search_is_hopeless(fit, budget);
    uint64_t target = proved ? 0 : budget - fit->options.fixed_bytes;
    fit->has_bound = false;
    fit->time_bound = 0;
    TN_TRY(tn__fit_plain(fit, result));
    if (result->bytes <= budget) {
        fit->time_bound = result->time; /* every operator runs once */
        return TN_OK;
    }
    tn_fit_release(result);
    if (!proved) TN_TRY(search_from(fit, target, result, &proved));
    if (result->program != NULL) return TN_OK;
    if (fit->options.any) return search_deny(fit, budget, proved);
    TN_TRY(tn__fit_search_least(fit, result));
    if (result->bytes <= budget) return TN_OK;
    return search_fail(fit, budget, result, proved);
}

/* --- the least --- */

static tn_status search_least_from(tn__fit *fit, const tn__fit_start *start, uint64_t high,
                                   tn_fit_result *best) {
    uint64_t low = fit->bytes_bound > 0 ? fit->bytes_bound - 1 : 0;
    bool budgets = (fit->pass->features & TN__PASS_BUDGETS) != 0;
    for (uint32_t i = 0; i < (budgets ? FIT_HALVINGS : 1) && !fit->stopped; i++) {
        tn_fit_result next = {0};
        bool found, proved;
        if (high <= low + 1 || high - low <= high / FIT_GRAIN) break;
        uint64_t allowed = budgets ? low + (high - low) / 2 : high;
        tn_status status = tn__fit_once(fit, start, allowed, &next, &found, &proved);
        bool less = status == TN_OK && found && next.bytes < best->bytes;
        if (less) search_take(best, &next);
        tn_fit_release(&next);
        TN_TRY(status);
        *(found ? &high : &low) = allowed;
        if (fit->bytes_bound > low + 1) low = fit->bytes_bound - 1;
    }
    return TN_OK;
}

/* The bound of the pass, before any budget was searched: halving begins with the same numbers,
 * whoever asks for the least. */
static tn_status search_bound(tn__fit *fit) {
    bool budgets = (fit->pass->features & TN__PASS_BUDGETS) != 0, found, proved;
    tn_fit_result next = {0};
    if (!budgets || fit->bytes_bound > 0) return TN_OK;
    tn_status status = tn__fit_once(fit, &fit->starts[0], 1, &next, &found, &proved);
    tn_fit_release(&next);
    return status;
}

/* Layouts may take less than what lives, and another search may find what halving did not: so a
 * byte less is asked for by the search that a budget would get. Where that finds something, steps
 * of many bytes are tried, then fewer, and at last one byte again. */
static tn_status search_settle(tn__fit *fit, tn_fit_result *best) {
    const uint64_t grain = best->bytes / FIT_GRAIN + 1, leap = FIT_LEAP * grain;
    uint64_t step = 1;
    for (uint32_t i = 0; i < FIT_SETTLES && !fit->stopped; i++) {
        uint64_t arena = best->bytes - fit->options.fixed_bytes;
        tn_fit_result next = {0};
        bool proved = arena <= step || arena - step < fit->bytes_bound;
        fit->for_least = step > 1;
        if (!proved) TN_TRY(search_from(fit, arena - step, &next, &proved));
        bool found = next.program != NULL;
        if (found) search_take(best, &next);
        if (!found && step == 1) break;
        if (step == 1)
            step = leap;
        else if (!found)
            step = step > grain ? step / 4 : 1;
    }
    return TN_OK;
}

tn_status tn__fit_search_least(tn__fit *fit, tn_fit_result *result) {
    TN_TRY(tn__fit_plain(fit, result));
    uint64_t high = fit->options.live ? result->bytes : result->live_bytes;
    const uint64_t time_bound = fit->time_bound;
    const bool has_bound = fit->has_bound;
    fit->for_least = true;
    tn_status status = search_bound(fit);
    for (uint32_t i = 0; i < fit->start_count && status == TN_OK; i++)
        status = search_least_from(fit, &fit->starts[i], high, result);
    if (status == TN_OK && !fit->options.any) status = search_settle(fit, result);
    fit->for_least = false;
    fit->time_bound = time_bound; /* of the budget that was asked about */
    fit->has_bound = has_bound;
    return status;
}
