/* calls.c - the public calls of tenure/search.h that search for a budget, for the least budget, or
 * for the whole curve, and those that report the decision for each tensor. Cost: one search
 * (compete.c) for each budget. */
#include "fit/budget/search/seek.h"

#include <tenure/fit.h>
#include <tenure/search.h>

#include <stdio.h>

#include "base/base.h"
#include "program/program.h"

typedef tn_status (*calls_search)(tn__fit *fit, uint64_t budget, tn_fit_result *result);

static tn_status calls_least(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    (void)budget;
    TN_TRY(tn__fit_plain(fit, result));
    return tn__fit_compete_least(fit, result);
}

static tn_status calls_one(const tn_program *program, const tn_layout *laid, const tn_costs *costs,
                           const tn_fit_options *options, calls_search search,
                           tn_fit_result *result, tn__refusal *refusal, tn_error *error) {
    tn__fit fit;
    *result = (tn_fit_result){0};
    tn_status status = tn__fit_open(&fit, program, costs, options, error);
    fit.laid = laid;
    if (status == TN_OK) status = search(&fit, fit.options.budget, result);
    tn__fit_finish(&fit, result);
    *refusal = fit.refusal;
    tn__fit_close(&fit);
    return status;
}

static tn_status calls_budget(tn__fit *fit, uint64_t budget, tn_fit_result *result) {
    if (budget == 0) TN_FAIL(fit->error, TN_E_INVALID, "a budget of 0 bytes holds nothing");
    return tn__fit_compete_best(fit, budget, result);
}

/* --- the rule that prevents a program --- */

#define CALLS_RULES 16u /* limit for the number of rules that are left out one after the other */

static bool calls_is_none(tn_status status) {
    return status == TN_E_INFEASIBLE || status == TN_E_EXHAUSTED;
}

/* Whether a program within the budget is found under these rules; *bytes: its bytes. `ends_at`: the
 * time at which the whole call must end; 0: no limit. */
static bool calls_fits(const tn_program *program, const tn_costs *costs,
                       const tn_fit_options *given, double ends_at, const tn_rules *rules,
                       uint64_t *bytes) {
    tn_fit_options options = *given;
    tn_fit_result result;
    tn__refusal none;
    if (ends_at > 0) options.timeout_s = ends_at - tn__clock_s();
    if (ends_at > 0 && !(options.timeout_s > 0)) return false;
    options.rules = rules;
    options.any = true;
    options.explain = NULL;
    tn_status status =
        calls_one(program, NULL, costs, &options, calls_budget, &result, &none, NULL);
    *bytes = result.bytes;
    tn_fit_release(&result);
    return status == TN_OK;
}

/* Finds the rule that prevents a program within the budget: leaves out one rule after the other,
 * then all of them. Writes the finding as a sentence into refusal->step. */
static tn_status calls_name_rule(const tn_program *program, const tn_costs *costs,
                                 const tn_fit_options *options, double ends_at,
                                 tn__refusal *refusal, tn_error *error) {
    tn_rules all = TN_RULES_INIT, some;
    char text[TN__RULE_TEXT], size[TN_SIZE_TEXT_MAX];
    uint64_t bytes;
    tn__options(&all, sizeof all, options->rules);
    const uint32_t groups = all.count + (all.segments > 0);
    if (!tn__rules_any(options->rules)) return TN_OK;
    tn_context context = tn__context(
        options->context != NULL ? options->context : tn_graph_context(tn_program_graph(program)));
    tn_rule *list = tn__alloc_array(&context, (size_t)all.count + 1, sizeof *list);
    if (list == NULL) return tn__no_memory(error, "rules");
    for (uint32_t r = 0; r < groups && r < CALLS_RULES && groups > 1; r++) {
        some = all;
        some.list = list;
        some.count = 0;
        for (uint32_t i = 0; i < all.count; i++)
            if (i != r) list[some.count++] = all.list[i];
        if (r == all.count) some.segments = 0;
        if (!calls_fits(program, costs, options, ends_at, &some, &bytes)) continue;
        snprintf(refusal->step, sizeof refusal->step,
                 "the rule %s prevents it: without this rule a program of %s was found",
                 tn__rule_text(&all, r, text), tn_size_format(bytes, size));
        tn__free(&context, list, ((size_t)all.count + 1) * sizeof *list);
        return TN_OK;
    }
    tn__free(&context, list, ((size_t)all.count + 1) * sizeof *list);
    if (calls_fits(program, costs, options, ends_at, NULL, &bytes))
        snprintf(refusal->step, sizeof refusal->step,
                 "the rule%s %s%s prevent%s it: without rules a program of %s was found",
                 groups > 1 ? "s together, such as" : "", tn__rule_text(&all, 0, text),
                 groups > 1 ? "," : "", groups > 1 ? "" : "s", tn_size_format(bytes, size));
    return TN_OK;
}

tn_status tn__fit_seek(const tn_program *program, const tn_layout *laid, const tn_costs *costs,
                       const tn_fit_options *given, tn_fit_result *result, tn__refusal *refusal,
                       tn_error *error) {
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    options.struct_size = sizeof options;
    const double ends_at = options.timeout_s > 0 ? tn__clock_s() + options.timeout_s : 0;
    tn_status status =
        calls_one(program, laid, costs, &options, calls_budget, result, refusal, error);
    if (calls_is_none(status) && !options.any && refusal->step[0] == '\0')
        TN_TRY(calls_name_rule(program, costs, &options, ends_at, refusal, error));
    return status;
}

tn_status tn_fit(const tn_program *program, const tn_costs *costs, const tn_fit_options *options,
                 tn_fit_result *result, tn_error *error) {
    tn__refusal refusal;
    tn_status status = tn__fit_seek(program, NULL, costs, options, result, &refusal, error);
    return tn__refusal_fail(&refusal, status, error);
}

tn_status tn_fit_least(const tn_program *program, const tn_costs *costs,
                       const tn_fit_options *options, tn_fit_result *result, tn_error *error) {
    tn__refusal none; /* facts that nothing reads: a search without a budget is never refused */
    return calls_one(program, NULL, costs, options, calls_least, result, &none, error);
}

/* --- the curve --- */

/* Finds a point of the curve: the faster of two results, the one found for this budget and the one
 * for the next smaller budget. If the caller stopped the search, it is the latter. */
static tn_status calls_next(tn__fit *fit, uint64_t budget, const tn_fit_result *below,
                            tn_fit_result *result) {
    if (fit->plain_bytes <= budget) return tn__fit_compete_best(fit, budget, result);
    if (!fit->ended) TN_TRY(tn__fit_compete_within(fit, budget, result));
    if (result->program != NULL && result->time <= below->time &&
        result->bytes >= tn__fit_floor(fit))
        return TN_OK;
    tn_fit_release(result);
    return tn__fit_copy(fit, below, result);
}

/* Finds the first point of the curve: the smallest result, and of those of this size the fastest
 * that is found. */
static tn_status calls_first(tn__fit *fit, tn_fit_result *result) {
    TN_TRY(tn__fit_plain(fit, result));
    TN_TRY(tn__fit_compete_least(fit, result));
    tn_fit_result next = {0};
    if (fit->ended || result->time == fit->plain_time) return TN_OK;
    tn_status status = tn__fit_compete_within(fit, result->bytes, &next);
    bool is_better = status == TN_OK && next.program != NULL && next.bytes == result->bytes &&
                     next.time < result->time;
    if (is_better) tn__fit_take(result, &next);
    tn_fit_release(&next);
    return status;
}

static tn_status calls_all(tn__fit *fit, uint32_t count, uint64_t *budgets,
                           tn_fit_result *results) {
    if (count < 2) TN_FAIL(fit->error, TN_E_INVALID, "a curve has at least two points");
    TN_TRY(calls_first(fit, &results[0]));
    tn__fit_finish(fit, &results[0]);
    uint64_t least = results[0].bytes;
    uint64_t most = fit->plain_bytes > least ? fit->plain_bytes : least;
    budgets[0] = least;
    for (uint32_t i = 1; i < count; i++) {
        budgets[i] = least + (uint64_t)((double)(most - least) * i / (count - 1));
        if (i + 1 == count) budgets[i] = most;
        TN_TRY(calls_next(fit, budgets[i], &results[i - 1], &results[i]));
        tn__fit_finish(fit, &results[i]);
    }
    return TN_OK;
}

tn_status tn__fit_sweep(const tn_program *program, const tn_layout *laid, const tn_costs *costs,
                        const tn_fit_options *options, uint32_t count, uint64_t *budgets,
                        tn_fit_result *results, tn_error *error) {
    tn__fit fit;
    memset(results, 0, count * sizeof *results);
    memset(budgets, 0, count * sizeof *budgets);
    tn_status status = tn__fit_open(&fit, program, costs, options, error);
    fit.laid = laid;
    if (status == TN_OK) status = calls_all(&fit, count, budgets, results);
    tn__fit_close(&fit);
    return status;
}

tn_status tn_fit_sweep(const tn_program *program, const tn_costs *costs,
                       const tn_fit_options *options, uint32_t count, uint64_t *budgets,
                       tn_fit_result *results, tn_error *error) {
    return tn__fit_sweep(program, NULL, costs, options, count, budgets, results, error);
}

/* --- fates --- */

const char *tn_fate_name(tn_fate fate) {
    static const char *const names[TN_FATE_COUNT] = {"kept", "recomputed", "swapped", "encoded"};
    return fate < TN_FATE_COUNT ? names[fate] : "";
}

static void calls_mark(uint8_t *fates, tn_tensor_id tensor, tn_fate fate) {
    if (tensor != TN_NONE && fates[tensor] < fate) fates[tensor] = (uint8_t)fate;
}

/* A bit next to the tn_fate of a tensor: an operator that was visited defines the tensor. */
#define CALLS_MADE 0x80u

static void calls_apply(const tn_graph *graph, const tn_instruction *it, uint8_t *fates) {
    const tn_op *op = tn_graph_op(graph, it->op);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id id = op->outputs[k];
        if (id == TN_NONE || (it->again && k > 0)) continue;
        if ((fates[id] & CALLS_MADE) && (fates[id] & ~CALLS_MADE) < TN_FATE_RECOMPUTED)
            fates[id] = CALLS_MADE | TN_FATE_RECOMPUTED;
        fates[id] |= CALLS_MADE;
    }
}

void tn_program_fates(const tn_program *program, uint8_t *fates) {
    const tn_graph *graph = tn_program_graph(program);
    const tn_instruction *list = tn_program_instructions(program);
    uint32_t tensors = tn_graph_tensor_count(graph);
    memset(fates, TN_FATE_KEPT, tensors);
    for (uint32_t i = 0; i < tn_program_count(program); i++)
        if (list[i].opcode == TN_APPLY) calls_apply(graph, &list[i], fates);
    for (tn_tensor_id id = 0; id < tensors; id++) fates[id] &= (uint8_t)~CALLS_MADE;
    for (uint32_t i = 0; i < tn_program_count(program); i++) {
        if (list[i].opcode == TN_SWAP_OUT) calls_mark(fates, list[i].tensor, TN_FATE_SWAPPED);
        if (list[i].opcode == TN_ENCODE) calls_mark(fates, list[i].tensor, TN_FATE_ENCODED);
    }
}

/* --- decisions -------------------------------------------------------------------------------- */

/* Counts the tensors of a program, and their bytes, by decision: kept, recomputed, swapped,
 * encoded. */

static void fates_count(const tn_occupancy *occupancy, const uint8_t *fates, uint8_t *seen,
                        tn_fate_totals *totals) {
    const tn_life *lives = tn_occupancy_lives(occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++) {
        tn_tensor_id id = lives[i].tensor;
        if (id == TN_NONE || seen[id] || lives[i].share != TN_SHARE_OWN) continue;
        seen[id] = 1;
        totals->tensors[fates[id]]++;
        totals->bytes[fates[id]] = tn__add_sat(totals->bytes[fates[id]], lives[i].bytes);
    }
}

tn_status tn_fit_fates(const tn_occupancy *occupancy, tn_fate_totals *totals, tn_error *error) {
    const tn_program *program = tn_occupancy_program(occupancy);
    uint32_t tensors = tn_graph_tensor_count(tn_program_graph(program)), forms;
    const tn_context *context = &program->context;
    size_t room = 2 * ((size_t)tensors + 1);
    uint8_t *fates = tn__alloc(context, room);
    *totals = (tn_fate_totals){0};
    if (fates == NULL) return tn__no_memory(error, "what became of tensors");
    uint8_t *seen = fates + tensors + 1;
    (void)tn_program_encoded(program, &forms);
    memset(seen, 0, (size_t)tensors + 1);
    memset(seen + tensors - forms, 1, forms);
    tn_program_fates(program, fates);
    fates_count(occupancy, fates, seen, totals);
    tn__free(context, fates, room);
    return TN_OK;
}
