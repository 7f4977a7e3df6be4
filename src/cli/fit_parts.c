/* fit_parts.c - the curve of `tenure fit` with operators in tiles.
 *
 * It has the budgets of the curve without tiles, and smaller ones that only tiles can meet. Each
 * point is the faster of two programs, with whole operators and with tiles, by the same kind of
 * costs. So no point is worse than without tiles.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/fit.h"

#define PARTS_WORK                                                                                 \
    1000.0 /* extra work allowed in a curve, times the model's: no limit in
                           * practice */

#define PARTS_LEAST_S 1e-6 /* time limit of a search after the deadline */

/* The data of one setup. */
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

/* Selects a setup to fit, with its own costs. */
static tn_status parts_take(cli_fit *fit, tn_setup *setup, tn_error *error) {
    cli_fit_take(fit, setup);
    fit->costs = NULL;
    return cli_fit_find_costs(fit, error);
}

/* Fits the selected setup to a budget. */
static tn_status parts_solve(const cli_fit *fit, const tn_fit_options *asked, uint64_t budget,
                             tn_fit_result *result, tn_error *error) {
    tn_fit_options options = *asked;
    options.budget = budget;
    options.memory = &fit->memory;
    options.fixed_bytes = fit->options.fixed_bytes;
    options.zeros = NULL; /* these belong to other tensors */
    if (fit->deadline > 0) options.timeout_s = fmax(fit->deadline - cli_clock(), PARTS_LEAST_S);
    *result = (tn_fit_result){0};
    return tn_fit(fit->program, fit->costs, &options, result, error);
}

/* Bounds hold only for programs of whole operators, so they are dropped. */
static void parts_beside(tn_fit_result *result, const tn_fit_result *whole) {
    result->plain_bytes = whole->plain_bytes;
    result->plain_time = whole->plain_time;
    result->time_bound = result->bytes_bound = 0;
}

typedef struct curve_point {
    parts_side side;
    uint64_t bytes, time;
} curve_point;

typedef struct parts_curve {
    curve_point *points; /* [count] rising in bytes, falling in time */
    uint32_t count;
} parts_curve;

/* Adds a point for each setup that is faster than all before it. */
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

/* The fastest point within a budget, which is the last one, or TN_NONE. */
static uint32_t curve_within(const parts_curve *curve, uint64_t budget) {
    uint32_t best = TN_NONE;
    for (uint32_t i = 0; i < curve->count && curve->points[i].bytes <= budget; i++) best = i;
    return best;
}

/* Replaces the result by that of a point, if it is faster. */
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

/* Makes room in front for budgets that only tiles can meet. */
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

/* Selects the setup of the result that is printed and drawn.
 */
static void curve_choose(cli_fit *fit, parts_curve *curve) {
    const tn_program *program = fit->results[fit->chosen].program;
    if (program == NULL) return;
    for (uint32_t at = 0; at < curve->count; at++) {
        parts_side *side = &curve->points[at].side;
        if (tn_program_graph(program) != tn_setup_graph(side->setup)) continue;
        for (uint32_t i = 0; i < fit->part_count; i++)
            if (fit->parts[i] == side->setup) fit->parts[i] = fit->setup;
        tn_costs_destroy(fit->costs);
        parts_turn(fit, side);
        side->costs = NULL; /* now owned by `fit` */
        return;
    }
}

/* The answer for --budget becomes the fastest point within it, if that is faster or there was no
 * answer. */
static tn_status curve_answer(cli_fit *fit, const tn_fit_options *options, const parts_curve *curve,
                              tn_status status, tn_error *error) {
    tn_fit_result *answer = &fit->results[fit->chosen];
    const tn_fit_result plain = *answer;
    uint32_t at = curve_within(curve, options->budget);
    if (at == TN_NONE || (status == TN_OK && curve->points[at].time >= answer->time)) return status;
    if (status != TN_OK) tn_fit_release(answer);
    TN_TRY(curve_take(fit, options, &curve->points[at], options->budget, answer, error));
    parts_beside(answer, &plain);
    return TN_OK;
}

/* Makes the setups with tiles and their points. */
static tn_status curve_make(cli_fit *fit, const tn_fit_options *options, parts_curve *curve,
                            tn_error *error) {
    const tn_setup_split split = {.share = PARTS_WORK};
    const parts_side whole = parts_now(fit);
    cli_asked asked;
    fit->parts = calloc((size_t)fit->sweep + 1, sizeof *fit->parts);
    curve->points = calloc(fit->sweep, sizeof *curve->points);
    if (fit->parts == NULL || curve->points == NULL) return tn__no_memory(error, "the curve");
    TN_TRY(cli_fit_ask(fit, &asked, error));
    asked.setup.split = &split;
    tn_status status = tn_setup_split_sweep(fit->input.graph, &asked.setup, fit->sweep, fit->parts,
                                            &fit->part_count, error);
    parts_turn(fit, &whole);
    return status == TN_OK ? curve_points(fit, options, curve, error) : status;
}

/* After the deadline the curve without tiles stays. */
tn_status cli_fit_curve(cli_fit *fit, const tn_fit_options *options, tn_status status,
                        tn_error *error) {
    bool none = status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
    parts_curve curve = {0};
    if ((status != TN_OK && !none) || cli_interrupted() || fit->results[0].program == NULL)
        return status;
    cli_deadline(fit->deadline, NULL);
    tn_status made = cli_is_late() ? TN_E_STOPPED : curve_make(fit, options, &curve, error);
    if (made == TN_OK) made = curve_merge(fit, options, &curve, error);
    if (made == TN_OK && options->budget > 0)
        status = curve_answer(fit, options, &curve, status, error);
    if (made == TN_OK) curve_choose(fit, &curve);
    bool late = made == TN_E_STOPPED && cli_is_late();
    cli_deadline(0, NULL);
    for (uint32_t i = 0; i < curve.count; i++) tn_costs_destroy(curve.points[i].side.costs);
    free(curve.points);
    return made == TN_OK || late ? status : made;
}
