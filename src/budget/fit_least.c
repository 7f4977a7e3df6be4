/* fit_least.c - the least budget that is answered.
 *
 * A search that finds nothing is no proof, and one for fewer bytes may find what it did not. So the
 * least is what a chain of searches ends with, which depends on nothing that differs from call to
 * call: not on the budget, nor on times, which may have been measured anew (a job costs what it
 * touches). Who asks for a budget goes along the chain until something fits in it: mostly that is
 * the first link. Who comes to its end without has asked for less than the least. So the least is
 * answered, and nothing below it is, by any call.
 *
 * The chain: halving between what the pass could do and what it could not, for live bytes; then
 * searches for layouts a little below what came of that, by turns for many bytes and for one.
 */
#include "budget/fit.h"

#define LEAST_HALVINGS 24u
#define LEAST_GRAIN 1024u /* part of it that halving ends with */
#define LEAST_SETTLES 12u /* searches below it */
#define LEAST_LEAP 16u    /* grains that the first of them goes, where a byte less was found */

static bool least_budgets(const tn__fit *fit) {
    return (fit->pass->features & TN__PASS_BUDGETS) != 0;
}

static tn_status least_halve(tn__fit *fit, const tn__fit_start *start, uint64_t high,
                             uint64_t enough, tn_fit_result *best) {
    uint64_t low = fit->bytes_bound > 0 ? fit->bytes_bound - 1 : 0;
    for (uint32_t i = 0; i < (least_budgets(fit) ? LEAST_HALVINGS : 1) && !fit->stopped; i++) {
        tn_fit_result next = {0};
        bool found;
        if (best->bytes <= enough || high <= low + 1 || high - low <= high / LEAST_GRAIN) break;
        uint64_t allowed = least_budgets(fit) ? low + (high - low) / 2 : high;
        tn_status status = tn__fit_once(fit, start, allowed, NULL, &next, &found);
        bool less = status == TN_OK && found && next.bytes < best->bytes;
        if (less && tn__fit_has_host(fit, &next)) tn__fit_take(best, &next);
        tn_fit_release(&next);
        TN_TRY(status);
        *(found ? &high : &low) = allowed;
        if (fit->bytes_bound > low + 1) low = fit->bytes_bound - 1;
    }
    return TN_OK;
}

/* The bound of the pass, before any budget was searched: halving begins with the same numbers,
 * whoever asks for the least. */
static tn_status least_bound(tn__fit *fit) {
    tn_fit_result next = {0};
    bool found;
    if (!least_budgets(fit)) return TN_OK;
    tn_status status = tn__fit_once(fit, &fit->starts[0], 1, NULL, &next, &found);
    tn_fit_release(&next);
    return status;
}

/* Layouts may take less than what lives, and another search may find what halving did not: so a
 * byte less is asked for. Where that finds something, steps of many bytes are tried, then fewer,
 * and at last one byte again. */
static tn_status least_settle(tn__fit *fit, tn_fit_result *best) {
    const uint64_t grain = best->bytes / LEAST_GRAIN + 1, leap = LEAST_LEAP * grain;
    uint64_t step = 1;
    for (uint32_t i = 0; i < LEAST_SETTLES && !fit->stopped; i++) {
        uint64_t arena = best->bytes - fit->options.fixed_bytes;
        tn_fit_result next = {0};
        bool none = arena <= step || arena - step < fit->bytes_bound;
        if (!none) TN_TRY(tn__fit_search_within(fit, best->bytes - step, &next));
        bool found = next.program != NULL;
        if (found) tn__fit_take(best, &next);
        if (!found && step == 1) break;
        if (step == 1)
            step = leap;
        else if (!found)
            step = step > grain ? step / 4 : 1;
    }
    return TN_OK;
}

static tn_status least_chain(tn__fit *fit, uint64_t enough, tn_fit_result *best) {
    uint64_t high = fit->options.live ? best->bytes : best->live_bytes;
    TN_TRY(least_bound(fit));
    for (uint32_t i = 0; i < fit->start_count; i++)
        TN_TRY(least_halve(fit, &fit->starts[i], high, enough, best));
    if (best->bytes <= enough || fit->options.any) return TN_OK;
    TN_TRY(least_settle(fit, best));
    if (!fit->stopped) fit->floor = best->bytes;
    return TN_OK;
}

tn_status tn__fit_search_least(tn__fit *fit, uint64_t enough, tn_fit_result *result) {
    const uint64_t time_bound = fit->time_bound;
    const bool has_bound = fit->has_bound;
    fit->for_least = true;
    tn_status status = least_chain(fit, enough, result);
    fit->for_least = false;
    fit->time_bound = time_bound; /* of the budget that was asked about */
    fit->has_bound = has_bound;
    return status;
}
