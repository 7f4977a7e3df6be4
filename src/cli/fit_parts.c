/* fit_parts.c - operators in parts as one more way to keep to a budget.
 *
 * The program of whole operators is searched for first, as if nobody had allowed parts: what it
 * finds is a candidate, so that no answer is worse than without. Beside it stand programs of graphs
 * whose operators run in parts; the faster one by the same kind of costs is taken. A curve has the
 * same budgets as without, and others below them that only parts keep to.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/fit.h"

#define PARTS_WORK 1000.0 /* of a curve, times the model's: whatever it takes, as for one budget */

#define PARTS_LEAST_S 1e-6 /* of a search whose time is over */

/* All that belongs to one set-up. */
typedef struct parts_side {
    tn_setup *setup;
    tn_costs *costs;
    const tn_program *program;
    tn_occupancy_options memory;
    uint64_t fixed;
} parts_side;

static parts_side parts_now(const cli_fit *fit) {
    return (parts_side){fit->setup, fit->costs, fit->program, fit->memory,
                        fit->options.fixed_bytes};
}

static void parts_turn(cli_fit *fit, const parts_side *side) {
    fit->setup = side->setup;
    fit->costs = side->costs;
    fit->program = side->program;
    fit->memory = side->memory;
    fit->options.fixed_bytes = side->fixed;
}

/* The set-up becomes the one that is fitted, with costs of its own. */
static tn_status parts_take(cli_fit *fit, tn_setup *setup, tn_error *error) {
    cli_fit_take(fit, setup);
    fit->costs = NULL;
    return cli_fit_find_costs(fit, error);
}

/* What is taken now, for a budget. It is compared with the program without. */
static tn_status parts_solve(const cli_fit *fit, const tn_fit_options *asked, uint64_t budget,
                             tn_fit_result *result, tn_error *error) {
    tn_fit_options options = *asked;
    options.budget = budget;
    options.memory = &fit->memory;
    options.fixed_bytes = fit->options.fixed_bytes;
    options.zeros = NULL; /* of other tensors */
    if (fit->deadline > 0) options.timeout_s = fmax(fit->deadline - cli_clock(), PARTS_LEAST_S);
    *result = (tn_fit_result){0};
    return tn_fit(fit->program, fit->costs, &options, result, error);
}

/* Bounds are of programs of whole operators. */
static void parts_beside(tn_fit_result *result, const tn_fit_result *whole) {
    result->plain_bytes = whole->plain_bytes;
    result->plain_time = whole->plain_time;
    result->time_bound = result->bytes_bound = 0;
}

/* --- one budget --- */

/* Parts that keep to the budget by themselves; else those that need least, which may keep to it
 * once they are fitted. */
static tn_status parts_set_up(cli_fit *fit, uint64_t budget, tn_setup **made, tn_error *error) {
    const tn_setup_split within = {.budget = budget}, least = {.share = PARTS_WORK};
    cli_fit_asked asked;
    TN_TRY(cli_fit_ask(fit, &asked, error));
    asked.corridor.options.split = &within;
    tn_status status = tn_setup_create(fit->input.graph, &asked.corridor.options, made, error);
    if (status != TN_E_EXHAUSTED) return status;
    asked.corridor.options.split = &least;
    return tn_setup_create(fit->input.graph, &asked.corridor.options, made, error);
}

/* The other side goes. */
static void parts_drop(const parts_side *side) {
    tn_costs_destroy(side->costs);
    tn_setup_destroy(side->setup);
}

/* `none`: there is no answer without parts. */
static tn_status parts_one(cli_fit *fit, const tn_fit_options *options, bool none,
                           tn_error *error) {
    tn_fit_result *answer = &fit->results[fit->chosen], tried = {0};
    parts_side whole = parts_now(fit), parts;
    tn_setup *made;
    tn_status status = parts_set_up(fit, options->budget, &made, error);
    if (status != TN_OK) {
        parts_turn(fit, &whole);
        return status;
    }
    status = parts_take(fit, made, error);
    if (status == TN_OK) status = parts_solve(fit, options, options->budget, &tried, error);
    if (status == TN_E_INFEASIBLE || status == TN_E_EXHAUSTED) /* a proof is of these parts alone */
        status = tn__fail(
            error, TN_E_EXHAUSTED,
            "no operators in parts were found that keep to %llu bytes, fitted or not; "
            "the least found, as it is, takes %llu",
            (unsigned long long)options->budget, (unsigned long long)tn_setup_need(made).total);
    parts = parts_now(fit);
    if (status == TN_OK && (none || tried.time < answer->time)) {
        parts_beside(&tried, answer);
        tn_fit_release(answer);
        *answer = tried;
        if (fit->parts != NULL) { /* its curve is of the other side */
            fit->parts[fit->part_count++] = whole.setup;
            whole.setup = NULL;
        }
        parts_drop(&whole);
        return TN_OK;
    }
    tn_fit_release(&tried);
    parts_turn(fit, &whole);
    parts_drop(&parts);
    return status;
}

/* --- a curve --- */

typedef struct curve_point {
    parts_side side;
    uint64_t bytes, time;
} curve_point;

typedef struct parts_curve {
    curve_point *points; /* [count] rising in bytes, falling in time */
    uint32_t count;
} parts_curve;

/* A point for each set-up, of those that take less time than all before it. */
static tn_status curve_points(cli_fit *fit, const tn_fit_options *options, parts_curve *curve,
                              tn_error *error) {
    const parts_side whole = parts_now(fit);
    uint64_t before = UINT64_MAX;
    tn_status status = TN_OK;
    for (uint32_t i = 0; status == TN_OK && i < fit->part_count; i++) {
        tn_fit_result at = {0};
        status = parts_take(fit, fit->parts[i], error);
        if (status == TN_OK)
            status = parts_solve(fit, options, tn_setup_need(fit->parts[i]).total, &at, error);
        if (status == TN_OK && at.time < before) {
            curve->points[curve->count++] = (curve_point){parts_now(fit), at.bytes, at.time};
            before = at.time;
        } else {
            tn_costs_destroy(fit->costs);
        }
        tn_fit_release(&at);
        parts_turn(fit, &whole);
    }
    return status;
}

/* The fastest of parts within a budget: the last one; TN_NONE: none. */
static uint32_t curve_within(const parts_curve *curve, uint64_t budget) {
    uint32_t best = TN_NONE;
    for (uint32_t i = 0; i < curve->count && curve->points[i].bytes <= budget; i++) best = i;
    return best;
}

/* The answer of a point for a budget, in the place of what there is. */
static tn_status curve_take(cli_fit *fit, const tn_fit_options *options, const curve_point *point,
                            uint64_t budget, tn_fit_result *result, tn_error *error) {
    const parts_side whole = parts_now(fit);
    tn_fit_result tried;
    parts_turn(fit, &point->side);
    tn_status status = parts_solve(fit, options, budget, &tried, error);
    parts_turn(fit, &whole);
    if (status == TN_OK && (result->program == NULL || tried.time < result->time)) {
        tn_fit_release(result);
        *result = tried;
    } else {
        tn_fit_release(&tried);
    }
    return status;
}

/* Room in front of what there is, for budgets that only parts keep to. */
static tn_status curve_room(cli_fit *fit, uint32_t below, tn_error *error) {
    uint32_t count = below + fit->result_count;
    tn_fit_result *results = calloc(count, sizeof *results);
    uint64_t *budgets = calloc(count, sizeof *budgets);
    if (results == NULL || budgets == NULL) {
        free(results);
        free(budgets);
        return tn__no_memory(error, "the curve");
    }
    memcpy(results + below, fit->results, fit->result_count * sizeof *results);
    memcpy(budgets + below, fit->budgets, fit->result_count * sizeof *budgets);
    free(fit->results);
    free(fit->budgets);
    fit->results = results;
    fit->budgets = budgets;
    fit->sweep += below;
    fit->result_count = count;
    fit->chosen = fit->chosen > 0 || fit->options.budget > 0 ? fit->chosen + below : 0;
    return TN_OK;
}

static tn_status curve_merge(cli_fit *fit, const tn_fit_options *options, const parts_curve *curve,
                             tn_error *error) {
    const tn_fit_result plain = fit->results[0];
    uint32_t below = 0;
    while (below < curve->count && curve->points[below].bytes < plain.bytes) below++;
    TN_TRY(curve_room(fit, below, error));
    for (uint32_t i = 0; i < below; i++) fit->budgets[i] = curve->points[i].bytes;
    for (uint32_t i = 0; i < fit->sweep; i++) {
        uint32_t at = curve_within(curve, fit->budgets[i]);
        if (at == TN_NONE || (i >= below && curve->points[at].time >= fit->results[i].time))
            continue;
        TN_TRY(
            curve_take(fit, options, &curve->points[at], fit->budgets[i], &fit->results[i], error));
        parts_beside(&fit->results[i], &plain);
    }
    return TN_OK;
}

/* What is drawn without a budget is the first point: its side becomes the one that is taken. */
static void curve_choose_first(cli_fit *fit, parts_curve *curve) {
    uint32_t at = curve_within(curve, fit->results[0].bytes);
    const tn_graph *graph = tn_program_graph(fit->results[0].program);
    if (at == TN_NONE || graph != tn_setup_graph(curve->points[at].side.setup)) return;
    for (uint32_t i = 0; i < fit->part_count; i++)
        if (fit->parts[i] == curve->points[at].side.setup) fit->parts[i] = fit->setup;
    tn_costs_destroy(fit->costs);
    parts_turn(fit, &curve->points[at].side);
    curve->points[at].side.costs = NULL; /* the fit's */
}

static tn_status parts_sweep(cli_fit *fit, const tn_fit_options *options, tn_error *error) {
    const tn_setup_split split = {.share = PARTS_WORK};
    parts_curve curve = {0};
    cli_fit_asked asked;
    parts_side whole = parts_now(fit);
    uint32_t most = fit->sweep;
    fit->parts = calloc((size_t)most + 1, sizeof *fit->parts);
    curve.points = calloc(most, sizeof *curve.points);
    tn_status status = fit->parts != NULL && curve.points != NULL
                           ? cli_fit_ask(fit, &asked, error)
                           : tn__no_memory(error, "the curve");
    if (status == TN_OK) {
        asked.corridor.options.split = &split;
        status = tn_setup_split_sweep(fit->input.graph, &asked.corridor.options, most, fit->parts,
                                      &fit->part_count, error);
    }
    parts_turn(fit, &whole);
    if (status == TN_OK) status = curve_points(fit, options, &curve, error);
    if (status == TN_OK) status = curve_merge(fit, options, &curve, error);
    if (status == TN_OK && options->budget == 0) curve_choose_first(fit, &curve);
    for (uint32_t i = 0; i < curve.count; i++) tn_costs_destroy(curve.points[i].side.costs);
    free(curve.points);
    return status;
}

/* --- both --- */

static tn_status parts_search(cli_fit *fit, const tn_fit_options *options, tn_status status,
                              tn_error *error) {
    bool none = status != TN_OK, curve = fit->sweep > 0;
    tn_error unused;
    if (curve && fit->results[0].program != NULL) TN_TRY(parts_sweep(fit, options, error));
    if (options->budget == 0) return status;
    const tn_fit_result *answer = &fit->results[fit->chosen];
    bool helps = none || (!options->any && answer->time > answer->plain_time);
    if (!helps) return status;
    tn_status parts = parts_one(fit, options, none, none ? error : &unused);
    return none ? parts : TN_OK;
}

/* A limit of time is for the search without and this one together: what there is then stays. */
tn_status cli_fit_parts(cli_fit *fit, const tn_fit_options *options, tn_status status,
                        tn_error *error) {
    bool none = status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
    if ((status != TN_OK && !none) || cli_interrupted()) return status;
    cli_deadline(fit->deadline, NULL);
    tn_status found = cli_is_late() ? TN_E_STOPPED : parts_search(fit, options, status, error);
    bool late = found == TN_E_STOPPED && cli_is_late();
    cli_deadline(0, NULL);
    if (!late) return found;
    if (!none) return TN_OK;
    TN_FAIL(error, TN_E_STOPPED,
            "time was up before operators in parts were searched for; with whole operators nothing "
            "was found");
}
