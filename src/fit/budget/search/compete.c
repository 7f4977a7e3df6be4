/* compete.c - the list of searches that compete for the answer.
 *
 * Allowing more techniques must never make the result slower. But a single search that may also
 * copy could end with a slower program than a search without copies. Therefore the pass `joint` is
 * asked several times, each time as if other techniques were not allowed, and other passes are
 * asked, too:
 *
 *     repeats only ─────▶ copies: each of the swapping passes, then `joint` with both ──────┐
 *                     └─▶ codecs: gist, then `joint` with both ─────────────────────────────┴▶ all
 *
 * Each search knows the times of the earlier searches that allow only a part of its techniques, and
 * looks only for faster programs. It knows nothing of the other searches, so its result does not
 * depend on what else is allowed, and the fastest result of more searches is never slower than that
 * of fewer. This also holds for the least budget: a budget is answered if one of the searches
 * answers it.
 *
 * Lossless techniques come first, whatever their speed: short floats are searched for only if no
 * other search has an answer.
 */
#include "fit/budget/search/seek.h"

/* Work limit of passes other than `joint`, as a multiple of the default effort of `joint`. They
 * have no limit of their own; capuchin, for example, looks at all actions for each choice. */
#define COMPETE_MOST 4u

/* --- the list of searches --- */

static void compete_put(tn__fit *fit, const tn_pass *pass, uint32_t allow) {
    fit->competitors[fit->competitor_count++] = (tn__fit_competitor){
        .pass = pass, .allow = allow, .reached = UINT64_MAX, .time = UINT64_MAX};
}

static void compete_add(tn__fit *fit, const char *name, uint32_t allow) {
    const tn_pass *pass = tn__pass_named(name);
    bool asks = (pass->features & TN__PASS_GRAPH) != 0 && fit->options.live;
    bool nothing = (allow & ~(uint32_t)TN_FIT_ORDER) == 0;
    if (asks || nothing) return;
    compete_put(fit, pass, allow);
    if (pass != tn__pass_named("joint"))
        fit->competitors[fit->competitor_count - 1].most = COMPETE_MOST;
}

static void compete_add_copies(tn__fit *fit, uint32_t allow) {
    static const char *const copying[] = {"vdnn-all", "vdnn-conv", "vdnn-dynamic", "cost-aware",
                                          "capuchin"};
    for (size_t i = 0; i < sizeof copying / sizeof *copying; i++)
        compete_add(fit, copying[i], allow);
    compete_add(fit, "joint", allow);
}

static void compete_add_codecs(tn__fit *fit, uint32_t runs, uint32_t codecs, uint32_t copies) {
    compete_add(fit, "gist", runs | codecs);
    compete_add(fit, "joint", runs | codecs);
    if (copies != 0) compete_add(fit, "joint", runs | codecs | copies);
}

void tn__fit_make_competitors(tn__fit *fit, const tn_pass *pass) {
    const uint32_t allow = fit->options.allow, lossless = TN_FIT_COMPRESS;
    const uint32_t runs = allow & (TN_FIT_ORDER | TN_FIT_RECOMPUTE), copies = allow & TN_FIT_SWAP;
    if (pass != tn__pass_named("joint")) {
        compete_put(fit, pass, allow);
        return;
    }
    compete_add(fit, "joint", runs);
    if (copies != 0) compete_add_copies(fit, runs | copies);
    if (allow & (TN_FIT_COMPRESS | TN_FIT_LOSSY)) compete_add_codecs(fit, runs, lossless, copies);
    if (allow & TN_FIT_LOSSY) compete_add_codecs(fit, runs, lossless | TN_FIT_LOSSY, copies);
    /* if only reordering is allowed, no other technique competes, so the pass is asked once */
    if (fit->competitor_count == 0) compete_put(fit, pass, allow);
}

/* --- dependencies between searches --- */

static bool compete_is_joint(const tn__fit *fit, const tn__fit_competitor *competitor) {
    return fit->competitor_count > 1 && competitor->pass == tn__pass_named("joint");
}

/* Whether the search `of` may build on the search `competitor`: both are the same search, or `of`
 * is one of the pass `joint`, and `competitor` comes before it and allows only a part of its
 * techniques. */
static bool compete_is_less(const tn__fit *fit, const tn__fit_competitor *competitor,
                            const tn__fit_competitor *of) {
    return competitor == of ||
           (competitor < of && compete_is_joint(fit, of) && (competitor->allow & ~of->allow) == 0);
}

uint64_t tn__fit_reached(const tn__fit *fit) {
    uint64_t reached = UINT64_MAX;
    for (const tn__fit_competitor *it = fit->competitors; it <= fit->competitor; it++)
        if (compete_is_less(fit, it, fit->competitor) && it->reached < reached)
            reached = it->reached;
    return reached;
}

/* Returns the time that the current search must beat: the best of the searches on which it
 * builds. */
static uint64_t compete_limit(const tn__fit *fit) {
    uint64_t limit = UINT64_MAX;
    for (const tn__fit_competitor *it = fit->competitors; it < fit->competitor; it++)
        if (compete_is_less(fit, it, fit->competitor) && it->time < limit) limit = it->time;
    return limit;
}

bool tn__fit_runs(const tn__fit *fit) {
    const tn__fit_competitor *first = &fit->competitors[0];
    const uint32_t runs = TN_FIT_ORDER | TN_FIT_RECOMPUTE;
    return first != fit->competitor && compete_is_less(fit, first, fit->competitor) &&
           (first->allow & ~runs) == 0 && first->time != UINT64_MAX;
}

uint64_t tn__fit_floor(const tn__fit *fit) {
    uint64_t floor = UINT64_MAX;
    for (uint32_t i = 0; i < fit->competitor_count; i++)
        if (fit->competitors[i].floor > 0 && fit->competitors[i].floor < floor)
            floor = fit->competitors[i].floor;
    return floor != UINT64_MAX ? floor : 0;
}

/* Returns the search that allows the most techniques. If lossy codecs were not needed, it is the
 * search without them: its proofs about bytes and time hold for lossy codecs, too. */
const tn__fit_competitor *tn__fit_widest(const tn__fit *fit) {
    const tn__fit_competitor *widest =
        &fit->competitors[fit->competitor_count > 0 ? fit->competitor_count - 1 : 0];
    const uint32_t loss = TN_FIT_LOSSY;
    for (const tn__fit_competitor *it = widest; !widest->searched && it-- > fit->competitors;)
        if (it->searched && (it->allow & ~loss) == (widest->allow & ~loss)) return it;
    return widest;
}

/* Selects the next search. Returns false if all are done, or if those that are left are not needed
 * because there is an answer. */
static bool compete_next(tn__fit *fit, bool has_answer) {
    tn__fit_competitor *next = fit->competitor == NULL ? fit->competitors : fit->competitor + 1;
    if (next == fit->competitors + fit->competitor_count) return false;
    if (has_answer && (fit->ended || (next->allow & TN_FIT_LOSSY))) return false;
    fit->competitor = next;
    next->searched = true;
    return true;
}

static void compete_begin(tn__fit *fit) {
    fit->competitor = NULL;
    for (uint32_t i = 0; i < fit->competitor_count; i++) fit->competitors[i].time = UINT64_MAX;
}

/* Sets the lower bound on time of all searches to the time of the plain program, in which every
 * operator runs once. */
static void compete_note_plain(tn__fit *fit, uint64_t time) {
    for (uint32_t i = 0; i < fit->competitor_count; i++) fit->competitors[i].time_bound = time;
}

/* --- answers --- */

/* Keeps the faster one of two results within the budget; otherwise the one within the budget, or
 * the smaller one. Releases the other. */
static void compete_take(tn_fit_result *best, tn_fit_result *next, uint64_t budget) {
    bool fits = next->program != NULL && next->bytes <= budget;
    bool had = best->program != NULL && best->bytes <= budget;
    bool is_better = fits && had ? next->time < best->time
                                 : next->program != NULL && !had &&
                                       (best->program == NULL || next->bytes < best->bytes);
    if (is_better) tn__fit_take(best, next);
    tn_fit_release(next);
}

tn_status tn__fit_compete_within(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    compete_begin(fit);
    while (compete_next(fit, result->program != NULL)) {
        tn_fit_result next = {0};
        fit->limit = compete_limit(fit);
        tn_status status = tn__fit_search_within(fit, budget, &next);
        if (status == TN_OK && next.program != NULL) fit->competitor->time = next.time;
        compete_take(result, &next, budget);
        TN_TRY(status);
        if (fit->options.any && result->program != NULL) return TN_OK;
    }
    return TN_OK;
}

static tn_status compete_answer(tn__fit *fit, uint64_t budget, const tn_fit_result *plain,
                                tn_fit_result *result) {
    compete_begin(fit);
    while (compete_next(fit, result->program != NULL && result->bytes <= budget)) {
        tn_fit_result next = {0};
        fit->limit = compete_limit(fit);
        tn_status status = tn__fit_search(fit, budget, plain, &next);
        if (status == TN_OK && next.program != NULL && next.bytes <= budget)
            fit->competitor->time = next.time;
        compete_take(result, &next, budget);
        TN_TRY(status);
    }
    return TN_OK;
}

tn_status tn__fit_compete_best(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    tn_fit_result plain = {0};
    tn_status status = tn__fit_plain(fit, &plain);
    if (status == TN_OK && plain.bytes <= budget) {
        compete_note_plain(fit, plain.time);
        tn__fit_take(result, &plain);
        return TN_OK;
    }
    if (status == TN_OK)
        status = fit->options.any ? tn__fit_compete_within(fit, budget, result)
                                  : compete_answer(fit, budget, &plain, result);
    tn_fit_release(&plain);
    TN_TRY(status);
    if (result->program != NULL && result->bytes <= budget) return TN_OK;
    return tn__fit_search_fail(fit, budget, result);
}

tn_status tn__fit_compete_least(tn__fit *fit, tn_fit_result *result) {
    tn_fit_result plain = {0};
    tn_status status = tn__fit_copy(fit, result, &plain);
    compete_begin(fit);
    while (status == TN_OK && compete_next(fit, fit->ended)) {
        tn_fit_result next = {0};
        status = tn__fit_copy(fit, &plain, &next);
        if (status == TN_OK) status = tn__fit_decide(fit, 0, &next);
        if (status == TN_OK && next.bytes < result->bytes) tn__fit_take(result, &next);
        tn_fit_release(&next);
    }
    tn_fit_release(&plain);
    return status;
}
