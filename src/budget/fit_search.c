/* fit_search.c - the budget that a pass sees, so that the layout is within the one that was given.
 *
 * What lives at once and what a layout takes differ: alignment and holes take more, memory that an
 * operator takes over in place takes less. So the pass is asked for the whole budget first; where
 * the layout took more, for that much less; where bytes were left over, for that much more; then
 * between the largest that fitted and the smallest that did not.
 *
 * Whether there is any program within the budget is asked before (fit_least.c): the same question
 * has the same answer in every call, and something to be better than is there from the start.
 */
#include "budget/fit.h"

#include <stdio.h>

#define FIT_ROUNDS 9u  /* passes and layouts for one budget */
#define FIT_FIRST 4u   /* of them, at most, for an order before the next one is asked */
#define FIT_NEAR 4096u /* of the bound: an answer so little above it is good */
#define FIT_CLOSE 64u  /* a layout that leaves less than this part of the budget is good */
#define FIT_APART 64u  /* part of its bytes that an order is above what it may take, to be left */

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

typedef struct search_range {
    uint64_t target;  /* bytes of the arena */
    uint64_t fitted;  /* largest allowance whose layout was within it; 0: none */
    uint64_t failed;  /* smallest whose layout was not; UINT64_MAX: none */
    uint64_t none;    /* largest that the pass had no answer for; 0: none */
    uint64_t allowed; /* that is tried next */
    uint64_t figure; /* picoseconds of the last answer; of the least's search, bytes if it fitted */
    bool fits, more; /* the last answer did; it is worth to ask again */
    tn__schedule last; /* the last answer; no acts: none */
} search_range;

/* Whether there is anything left between what did and what did not; then `allowed` is in between.
 */
static bool search_is_between(search_range *range) {
    const uint64_t low = range->fitted > range->none ? range->fitted : range->none;
    bool outside = range->allowed <= low || range->allowed >= range->failed;
    if (range->failed == UINT64_MAX) return range->allowed > low;
    if (range->failed <= low) return false;
    if (low > 0 && outside) range->allowed = low + (range->failed - low) / 2;
    return range->failed - low > range->target / (2 * FIT_CLOSE);
}

/* What to allow next, of what this one took, and any layout of it does. False: it is good enough,
 * or nothing is left. */
static bool search_next(search_range *range, uint64_t took, uint64_t least) {
    if (took <= range->target) {
        uint64_t left = range->target - least;
        if (range->allowed > range->fitted) range->fitted = range->allowed;
        if (left <= range->target / FIT_CLOSE) return false;
        range->allowed = tn__add_sat(range->allowed, left);
    } else {
        uint64_t over = took - range->target;
        if (range->allowed < range->failed) range->failed = range->allowed;
        if (over >= range->allowed) return false;
        range->allowed -= over;
    }
    return search_is_between(range);
}

/* The same where the pass had no answer: for more bytes it had one whose layout took too much, so
 * one in between may do. */
static bool search_miss(search_range *range) {
    if (range->failed == UINT64_MAX) return false;
    if (range->allowed > range->none) range->none = range->allowed;
    return search_is_between(range);
}

/* The same of an answer that is no better than another one, so that nobody asks what it takes: as
 * if it fitted. */
static bool search_pass_over(search_range *range) {
    if (range->failed == UINT64_MAX) return false;
    if (range->allowed > range->fitted) range->fitted = range->allowed;
    range->fits = true;
    return search_is_between(range);
}

/* What was proved of a larger budget holds for this one; of a smaller, it need not. */
static void search_note_bound(tn__fit *fit, uint64_t bound) {
    tn__fit_part *part = fit->part;
    if (!part->has_bound || bound < part->time_bound) part->time_bound = bound;
    part->has_bound = true;
}

static bool search_is_better(const tn__fit *fit, const tn_fit_result *next,
                             const tn_fit_result *best) {
    if (best->program == NULL) return true;
    return fit->for_least ? next->bytes < best->bytes : next->time < best->time;
}

/* Who takes as long is no answer; UINT64_MAX: whatever fits is one. */
static uint64_t search_beaten(const tn__fit *fit, const tn_fit_result *best) {
    if (fit->for_least) return UINT64_MAX;
    return best->program != NULL && best->time < fit->limit ? best->time : fit->limit;
}

/* What is proved holds for every order, so one of them asks for it. And who cannot be as fast as an
 * answer that there is need not search for long.
 */
static tn_status search_ask(tn__fit *fit, const tn__fit_start *start, search_range *range,
                            const tn_fit_result *best, tn_fit_result *next, bool *found) {
    const bool whole = range->allowed >= range->target && !fit->part->has_bound;
    const uint64_t beaten = search_beaten(fit, best);
    fit->no_bound = !fit->for_least && !whole;
    fit->beaten = beaten != UINT64_MAX ? beaten : 0;
    tn_status status = tn__fit_ask(fit, start, range->allowed, &range->last, next, found);
    fit->no_bound = false;
    fit->beaten = 0;
    if (status == TN_OK && whole) search_note_bound(fit, next->time_bound);
    return status;
}

/* Of the least's search the smallest that there is, but of what is far from it a short one. */
static tn_status search_lay_out(tn__fit *fit, const search_range *range, tn_fit_result *next) {
    const uint64_t most = tn__add_sat(range->target, fit->options.fixed_bytes);
    if (!fit->for_least) return tn__fit_lay_out(fit, TN__FIT_CAREFUL, range->target, next);
    TN_TRY(tn__fit_lay_out(fit, TN__FIT_SHORT, 0, next));
    return tn__fit_is_far(fit, next->bytes, most) ? TN_OK
                                                  : tn__fit_lay_out(fit, TN__FIT_CAREFUL, 0, next);
}

/* One answer for what the range allows, and what is allowed next. Problems count what lives: there
 * the first answer is the answer. What is no better than the best so far needs no layout. */
static tn_status search_step(tn__fit *fit, const tn__fit_start *start, search_range *range,
                             tn_fit_result *best) {
    tn_fit_result next = {0};
    bool found, budgets = (fit->part->pass->features & TN__PASS_BUDGETS) != 0;
    tn_status status = search_ask(fit, start, range, best, &next, &found);
    bool late = found && next.time >= search_beaten(fit, best);
    bool laid = status == TN_OK && found && !late;
    if (found) range->figure = fit->for_least ? UINT64_MAX : next.time;
    if (laid) status = search_lay_out(fit, range, &next);
    laid = laid && status == TN_OK;
    uint64_t took = laid ? next.bytes - fit->options.fixed_bytes : 0;
    uint64_t least = fit->for_least ? took : next.layout.lower_bound;
    range->fits = laid && took <= range->target && tn__fit_has_host(fit, &next);
    if (fit->for_least && range->fits) range->figure = took;
    if (range->fits && search_is_better(fit, &next, best)) tn__fit_take(best, &next);
    tn_fit_release(&next);
    range->more = !fit->options.live && budgets;
    if (range->more && !found)
        range->more = search_miss(range);
    else if (range->more)
        range->more = late ? search_pass_over(range) : search_next(range, took, least);
    return status;
}

/* Whether hardly anything can be faster. */
static bool search_is_near(const tn__fit *fit, const tn_fit_result *best) {
    const uint64_t bound = fit->part->time_bound;
    if (fit->for_least || !fit->part->has_bound) return false;
    return search_beaten(fit, best) <= tn__add_sat(bound, bound / FIT_NEAR);
}

/* The order that is asked next: what answered best the last time, whether or not its layout took
 * too much, as fewer bytes may cost it little; but they make nobody faster. NULL: none. */
static search_range *search_pick(const tn__fit *fit, search_range *ranges,
                                 const tn_fit_result *best) {
    search_range *pick = NULL;
    for (uint32_t i = 0; i < fit->start_count && !fit->stopped; i++) {
        bool late = !ranges[i].fits && ranges[i].figure >= search_beaten(fit, best);
        if (!ranges[i].more || late) continue;
        if (pick == NULL || ranges[i].figure < pick->figure) pick = &ranges[i];
    }
    return pick;
}

/* An order's first answers: until one is within the budget, so that the next order knows what it
 * has to beat. */
static tn_status search_first(tn__fit *fit, uint32_t order, search_range *range, uint32_t *rounds,
                              tn_fit_result *best) {
    for (uint32_t i = 0; i < (fit->for_least ? 1 : FIT_FIRST); i++) {
        TN_TRY(search_step(fit, &fit->starts[order], range, best));
        ++*rounds;
        if (range->fits || !range->more || fit->stopped) return TN_OK;
    }
    return TN_OK;
}

/* Whether halving for the least showed that this order is far from it. */
static bool search_is_far(const tn__fit *fit, uint32_t order, uint64_t target) {
    const uint64_t low = fit->starts[order].low;
    return fit->for_least && low - low / FIT_APART > target;
}

/* The order of least memory first: within a budget it is mostly the better one. */
static tn_status search_ranges(tn__fit *fit, search_range *ranges, tn_fit_result *best) {
    uint32_t rounds = 0;
    for (uint32_t i = fit->start_count; i-- > 0 && !search_is_near(fit, best);)
        if (!search_is_far(fit, i, ranges[i].target))
            TN_TRY(search_first(fit, i, &ranges[i], &rounds, best));
    for (; rounds < FIT_ROUNDS; rounds++) {
        search_range *next = search_is_near(fit, best) ? NULL : search_pick(fit, ranges, best);
        if (next == NULL) return TN_OK;
        TN_TRY(search_step(fit, &fit->starts[next - ranges], next, best));
    }
    return TN_OK;
}

static tn_status search_from(tn__fit *fit, uint64_t target, tn_fit_result *best) {
    search_range ranges[TN__FIT_ORDERS];
    for (uint32_t i = 0; i < TN__FIT_ORDERS; i++) {
        ranges[i] = (search_range){
            .target = target, .failed = UINT64_MAX, .allowed = target, .figure = UINT64_MAX};
        tn__schedule_init(&ranges[i].last, &fit->context);
    }
    tn_status status = search_ranges(fit, ranges, best);
    for (uint32_t i = 0; i < TN__FIT_ORDERS; i++) tn__schedule_release(&ranges[i].last);
    return status;
}

/* Static memory alone is more than the budget: nothing that a pass does changes that. */
static bool search_is_hopeless(const tn__fit *fit, uint64_t budget) {
    return budget < fit->options.fixed_bytes;
}

tn_status tn__fit_search_within(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    fit->part->has_bound = false;
    fit->part->time_bound = 0;
    if (search_is_hopeless(fit, budget)) return TN_OK;
    return search_from(fit, budget - fit->options.fixed_bytes, result);
}

/* --- what is told where there is nothing --- */

#define SEARCH_TEXT (2 * TN_SIZE_TEXT_MAX + 32)

/* Bytes that were asked for, and those on the host where these are limited. */
static void search_tell(const tn__fit *fit, uint64_t budget, char text[SEARCH_TEXT]) {
    char asked[TN_SIZE_TEXT_MAX], host[TN_SIZE_TEXT_MAX];
    bool limited = fit->options.host_budget > 0 && (fit->options.allow & TN_FIT_SWAP) != 0;
    tn_size_format(budget, asked);
    tn_size_format(fit->options.host_budget, host);
    snprintf(text, SEARCH_TEXT, "%s%s%s%s", asked, limited ? " with no more than " : "",
             limited ? host : "", limited ? " on the host" : "");
}

/* Bytes alone, a search of everything, or a pass that is asked for nothing else. */
static tn_status search_prove(tn__fit *fit, uint64_t budget, bool *proved) {
    tn_fit_result none = {0};
    uint64_t fixed = fit->options.fixed_bytes;
    *proved = search_is_hopeless(fit, budget) || budget - fixed < fit->part->bytes_bound;
    if (*proved || fit->stopped) return TN_OK;
    if (budget - fixed > fit->part->denied && !fit->options.any) {
        bool found;
        fit->only_proof = true;
        tn_status status = tn__fit_ask(fit, &fit->starts[0], budget - fixed, NULL, &none, &found);
        fit->only_proof = false;
        tn_fit_release(&none);
        TN_TRY(status);
    }
    *proved = budget - fixed <= fit->part->denied;
    return TN_OK;
}

/* "no program that recomputes whole operators was found", and what ended the search. */
static tn_status search_none(const tn__fit *fit, const char *asked, const char *rest) {
    char scope[TN__SCOPE_TEXT];
    if (fit->stopped)
        TN_FAIL(fit->error, TN_E_STOPPED,
                "the search was ended before it found a program that "
                "fits in %s%s",
                asked, rest);
    TN_FAIL(fit->error, TN_E_EXHAUSTED, "%s was found that fits in %s%s",
            tn__fit_scope(fit->options.allow, scope), asked, rest);
}

tn_status tn__fit_search_fail(tn__fit *fit, uint64_t budget, const tn_fit_result *least) {
    char asked[SEARCH_TEXT], need[TN_SIZE_TEXT_MAX], bound[TN_SIZE_TEXT_MAX];
    char scope[TN__SCOPE_TEXT], rest[2 * TN_SIZE_TEXT_MAX + 64] = "";
    bool proved, any = least->program != NULL;
    TN_TRY(search_prove(fit, budget, &proved));
    search_tell(fit, budget, asked);
    if (any) tn_size_format(least->bytes, need);
    tn__fit_scope(fit->options.allow, scope);
    if (proved && !any)
        TN_FAIL(fit->error, TN_E_INFEASIBLE, "%s fits in %s: that is proved", scope, asked);
    if (proved)
        TN_FAIL(fit->error, TN_E_INFEASIBLE,
                "%s fits in %s: that is proved; the least found takes %s", scope, asked, need);
    tn_size_format(tn__add_sat(fit->part->bytes_bound, fit->options.fixed_bytes), bound);
    if (any)
        snprintf(rest, sizeof rest, "; the least found takes %s, and none takes less than %s", need,
                 bound);
    return search_none(fit, asked, rest);
}

/* --- the answer --- */

/* Whether what takes so much may be an answer: whoever then gives just that as a budget has to be
 * answered, too. */
static tn_status search_is_answered(tn__fit *fit, uint64_t bytes, bool *answered) {
    tn_fit_result less = {0};
    const tn__fit_part *part = fit->part;
    bool complete = (part->pass->features & TN__PASS_COMPLETE) != 0;
    *answered = complete || bytes >= tn__fit_reached(fit);
    if (*answered || part->floor > 0 || fit->stopped) return TN_OK;
    tn_status status = tn__fit_plain(fit, &less);
    if (status == TN_OK) status = tn__fit_search_least(fit, bytes, &less);
    *answered = less.bytes <= bytes;
    tn_fit_release(&less);
    return status;
}

/* What the pass finds, in the place of what takes more than the budget, or longer. */
static tn_status search_better(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    tn_fit_result found = {0};
    bool is_better = false;
    tn_status status = tn__fit_search_within(fit, budget, &found);
    if (status == TN_OK && found.program != NULL)
        is_better = result->program == NULL || result->bytes > budget || found.time < result->time;
    if (is_better) status = search_is_answered(fit, found.bytes, &is_better);
    if (is_better && status == TN_OK) tn__fit_take(result, &found);
    tn_fit_release(&found);
    return status;
}

tn_status tn__fit_search(tn__fit *fit, uint64_t budget, const tn_fit_result *plain,
                         tn_fit_result *result) {
    const bool complete = (fit->part->pass->features & TN__PASS_COMPLETE) != 0;
    if (fit->limit != UINT64_MAX) return search_better(fit, budget, result);
    TN_TRY(tn__fit_copy(fit, plain, result));
    if (complete) TN_TRY(search_better(fit, budget, result));
    if (result->bytes > budget) TN_TRY(tn__fit_search_least(fit, budget, result));
    if (result->bytes > budget || complete || fit->stopped) return TN_OK;
    return search_better(fit, budget, result);
}
