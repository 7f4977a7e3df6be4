/* curve.c - the curve of memory against time, including programs with operators in tiles.
 *
 * The curve has the budgets of the curve for whole operators (tn_fit_sweep), and smaller budgets
 * that only operators in tiles can meet. Each point is the faster of two programs, one with whole
 * operators and one with tiles. Both are timed with costs from one source, so no point is slower
 * than the point without tiles.
 *
 * Cost: at most two searches per budget (whole operators, tiles), and one per set of tiles.
 */
#include "fit/frame.h"

#include <string.h>

#include "fit/setup/setup.h"

/* limit for the additional work of tiles, as a multiple of the model's work; so large that it never
 * applies */
#define CURVE_WORK 1000.0

/* A compiled model with operators in tiles. It is faster than all those that need fewer bytes. */
typedef struct curve_tiles {
    tn__candidate it;
    uint64_t bytes, time;
} curve_tiles;

/* Memory that the points of a curve refer to and that the answer does not own. */
typedef struct curve_own {
    tn_context context;
    tn_setup **setups; /* [setup_count] compiled models with operators in tiles */
    /* [tile_count] the useful ones of these models, in ascending order of bytes and descending
     * order of time */
    curve_tiles *tiles;
    uint32_t setup_count, tile_count, room;
} curve_own;

typedef struct curve_points {
    tn__graph_frame *f;
    tn_fit_curve *curve;
    curve_own *own;
    uint32_t asked; /* number of points that the caller asked for */
} curve_points;

/* --- the whole graph --- */

static tn_fit_options curve_search(const tn__graph_frame *f, uint64_t budget) {
    tn_fit_options search = f->search;
    search.budget = budget;
    search.allow = f->answer->allowed & TN__FIT_PROGRAM;
    if (search.allow == 0) search.pass = "none";
    if (f->own->deadline > 0) search.timeout_s = tn__graph_left(f);
    return search;
}

static tn_status curve_whole(curve_points *job) {
    tn__graph_frame *f = job->f;
    tn_setup_options options = f->options;
    tn_fit_options search = curve_search(f, UINT64_MAX);
    uint64_t *budgets = tn__alloc_array(&job->own->context, job->asked, sizeof *budgets);
    tn_fit_result *results = tn__alloc_array(&job->own->context, job->asked, sizeof *results);
    options.fit = &search;
    tn_status status = budgets == NULL || results == NULL
                           ? tn__no_memory(f->error, "a curve")
                           : tn__setup_sweep(f->whole.setup, &options, f->whole.costs, job->asked,
                                             budgets, results, f->error);
    for (uint32_t i = 0; i < job->asked && results != NULL && status != TN_OK; i++)
        tn_fit_release(&results[i]);
    for (uint32_t i = 0; i < job->asked && status == TN_OK; i++)
        job->curve->points[i] = (tn_curve_point){.budget = budgets[i],
                                                 .result = results[i],
                                                 .setup = f->whole.setup,
                                                 .costs = f->whole.costs,
                                                 .fixed_bytes = f->whole.fixed};
    if (status == TN_OK) job->curve->count = job->asked;
    tn__free(&job->own->context, budgets, job->asked * sizeof *budgets);
    tn__free(&job->own->context, results, job->asked * sizeof *results);
    return status;
}

/* --- tiles --- */

/* Searches for a program within the budget for one compiled model with tiles. The fractions of
 * zeros (search.zeros) are not used, because they belong to tensors of the graph without tiles. */
static tn_status curve_solve(curve_points *job, const tn__candidate *side, uint64_t budget,
                             tn_fit_result *result) {
    tn_setup_options options = job->f->options;
    tn_fit_options search = curve_search(job->f, budget);
    search.zeros = NULL;
    options.fit = &search;
    *result = (tn_fit_result){0};
    tn__refusal refusal;
    tn_status status = tn__setup_search(side->setup, &options, tn__setup_ordered(side->setup),
                                        side->costs, result, &refusal, job->f->error);
    return tn__refusal_fail(&refusal, status, job->f->error);
}

/* Computes the bytes and the time of a compiled model with tiles, and keeps it if it is faster than
 * all those kept before, which need fewer bytes. */
static tn_status curve_add_tiles(curve_points *job, tn_setup *setup) {
    curve_own *own = job->own;
    curve_tiles tiles = {.it = {.setup = setup}};
    tn_fit_result result = {0};
    uint64_t before = own->tile_count > 0 ? own->tiles[own->tile_count - 1].time : UINT64_MAX;
    tiles.it.fixed = tn__setup_fixed(setup);
    tn_status status = tn__candidate_costs(job->f, &tiles.it);
    if (status == TN_OK) status = curve_solve(job, &tiles.it, tn_setup_need(setup).total, &result);
    tiles.bytes = result.bytes;
    tiles.time = result.time;
    if (status == TN_OK && result.time < before)
        own->tiles[own->tile_count++] = tiles;
    else
        tn_costs_destroy(tiles.it.costs);
    tn_fit_release(&result);
    return status;
}

static tn_status curve_make_tiles(curve_points *job) {
    tn__graph_frame *f = job->f;
    curve_own *own = job->own;
    const tn_setup_split split = {.share = CURVE_WORK};
    tn_setup_options options = f->options;
    options.split = &split;
    own->setups = tn__alloc_array(&own->context, job->asked, sizeof(tn_setup *));
    own->tiles = tn__alloc_array(&own->context, job->asked, sizeof *own->tiles);
    own->room = job->asked;
    if (own->setups == NULL || own->tiles == NULL) return tn__no_memory(f->error, "a curve");
    TN_TRY(tn_setup_split_sweep(f->graph, &options, job->asked, own->setups, &own->setup_count,
                                f->error));
    tn_status status = TN_OK;
    for (uint32_t i = 0; status == TN_OK && i < own->setup_count; i++)
        status = curve_add_tiles(job, own->setups[i]);
    return status;
}

/* Returns the fastest compiled model with tiles within a budget; NULL if there is none. Entries are
 * sorted by ascending bytes and descending time, so this is the last entry within the budget. */
static const curve_tiles *curve_within(const curve_own *own, uint64_t budget) {
    const curve_tiles *best = NULL;
    for (uint32_t i = 0; i < own->tile_count && own->tiles[i].bytes <= budget; i++)
        best = &own->tiles[i];
    return best;
}

/* Inserts `below` points at the front of the curve, for budgets that only operators in tiles can
 * meet. */
static tn_status curve_room(curve_points *job, uint32_t below) {
    tn_fit_curve *curve = job->curve;
    uint32_t count = below + curve->count;
    tn_curve_point *points = tn__alloc_array(&job->own->context, count, sizeof *points);
    if (points == NULL) return tn__no_memory(job->f->error, "a curve");
    memcpy(points + below, curve->points, curve->count * sizeof *points);
    tn__free(&job->own->context, curve->points, curve->room * sizeof *points);
    curve->points = points;
    curve->count = curve->room = count;
    for (uint32_t i = 0; i < below; i++) points[i].budget = job->own->tiles[i].bytes;
    return TN_OK;
}

/* Replaces the program of a point by one with tiles if that is faster. The lower bounds are set to
 * 0, because they were proved for whole operators only. */
static tn_status curve_improve(curve_points *job, const tn_fit_result *plain,
                               tn_curve_point *point) {
    const curve_tiles *tiles = curve_within(job->own, point->budget);
    tn_fit_result tried;
    if (tiles == NULL) return TN_OK;
    if (point->result.program != NULL && tiles->time >= point->result.time) return TN_OK;
    tn_status status = curve_solve(job, &tiles->it, point->budget, &tried);
    if (status != TN_OK || (point->result.program != NULL && tried.time >= point->result.time)) {
        tn_fit_release(&tried);
        return status;
    }
    tn_fit_release(&point->result);
    *point = (tn_curve_point){.budget = point->budget,
                              .result = tried,
                              .setup = tiles->it.setup,
                              .costs = tiles->it.costs,
                              .fixed_bytes = tiles->it.fixed};
    point->result.plain_bytes = plain->plain_bytes;
    point->result.plain_time = plain->plain_time;
    point->result.time_bound = point->result.bytes_bound = 0;
    return TN_OK;
}

static tn_status curve_merge(curve_points *job) {
    /* bytes and time of the unchanged plan; a copy, because points are inserted before this one */
    const tn_fit_result plain = job->curve->points[0].result;
    uint32_t below = 0;
    while (below < job->own->tile_count && job->own->tiles[below].bytes < plain.bytes) below++;
    TN_TRY(curve_room(job, below));
    tn_status status = TN_OK;
    for (uint32_t i = 0; status == TN_OK && i < job->curve->count; i++)
        status = curve_improve(job, &plain, &job->curve->points[i]);
    return status;
}

/* Adds points with tiles to the curve. If tiles are not supported for this graph, or a limit ends
 * their search, the curve stays as it is, and the call succeeds without a message. */
static tn_status curve_tile(curve_points *job) {
    tn__graph_frame *f = job->f;
    if (!(f->answer->allowed & TN_FIT_SPLIT) || tn__graph_hinders(f, TN_FIT_SPLIT) != NULL)
        return TN_OK;
    tn_error *error = f->error, said = {0};
    f->error = &said;
    tn_status status = curve_make_tiles(job);
    if (status == TN_OK) status = curve_merge(job);
    f->error = error;
    if (status == TN_E_STOPPED || status == TN_E_UNSUPPORTED) return TN_OK;
    return status == TN_OK ? TN_OK : tn__fail_as(error, status, &said);
}

/* --- the curve --- */

/* Removes each point with the same budget as the previous point, and points for which a limit left
 * no program. */
static void curve_compact(tn_fit_curve *curve) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < curve->count; i++) {
        tn_curve_point *point = &curve->points[i];
        bool same = kept > 0 && curve->points[kept - 1].budget == point->budget;
        if (same || point->result.program == NULL)
            tn_fit_release(&point->result);
        else
            curve->points[kept++] = *point;
    }
    curve->count = kept;
}

static tn_status curve_all(curve_points *job) {
    tn__graph_frame *f = job->f;
    f->request.timed = true;
    TN_TRY(tn__graph_whole(f));
    if (f->answer->allowed & (TN_FIT_COMPRESS | TN_FIT_LOSSY)) TN_TRY(tn__graph_zeros(f));
    TN_TRY(curve_whole(job));
    tn_status status = curve_tile(job);
    curve_compact(job->curve);
    return status;
}

static tn_status curve_open(curve_points *job, tn_fit_curve *curve, uint32_t count) {
    tn__graph_frame *f = job->f;
    if (count < 2) TN_FAIL(f->error, TN_E_INVALID, "a curve has at least two points");
    if (f->options.divide != NULL)
        TN_FAIL(f->error, TN_E_UNSUPPORTED, "there is no curve for one rank of several");
    job->own = tn__alloc_array(&f->own->outer, 1, sizeof *job->own);
    if (job->own == NULL) return tn__no_memory(f->error, "a curve");
    job->own->context = f->own->outer;
    curve->own = job->own;
    curve->points = tn__alloc_array(&f->own->outer, count, sizeof *curve->points);
    curve->room = count;
    return curve->points != NULL ? TN_OK : tn__no_memory(f->error, "a curve");
}

tn_status tn_fit_graph_curve(const tn_graph *graph, const tn_fit_request *request, uint32_t count,
                             tn_fit_answer *answer, tn_fit_curve *curve, tn_error *error) {
    tn__graph_frame f;
    curve_points job = {.f = &f, .curve = curve, .asked = count};
    *curve = (tn_fit_curve){0};
    TN_TRY(tn__graph_begin(&f, graph, request, answer, error));
    if (f.search.budget == 0) f.search.budget = answer->budget = UINT64_MAX;
    tn_status status = curve_open(&job, curve, count);
    if (status == TN_OK) status = curve_all(&job);
    if (status == TN_OK) status = tn__graph_rest(&f);
    if (f.graph != NULL) tn__graph_keep(&f);
    return status;
}

void tn_fit_curve_release(tn_fit_curve *curve) {
    curve_own *own = curve->own;
    if (own == NULL) return;
    tn_context context = own->context;
    for (uint32_t i = 0; i < curve->count; i++) tn_fit_release(&curve->points[i].result);
    for (uint32_t i = 0; i < own->tile_count; i++) tn_costs_destroy(own->tiles[i].it.costs);
    for (uint32_t i = 0; i < own->setup_count; i++) tn_setup_destroy(own->setups[i]);
    tn__free(&context, own->tiles, own->room * sizeof *own->tiles);
    tn__free(&context, own->setups, own->room * sizeof(tn_setup *));
    tn__free(&context, curve->points, curve->room * sizeof *curve->points);
    tn__free(&context, own, sizeof *own);
    *curve = (tn_fit_curve){0};
}
