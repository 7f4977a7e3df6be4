/* setup_split.c - operators in tiles: finds the compiled model within a budget with the least
 * additional work, or the smallest compiled model within a work budget.
 *
 * The graph without tiles is compiled first; if it is within the budget, it is the answer.
 * Otherwise tn_split_search chooses regions of operators by a prediction of their memory, and the
 * choice is compiled: only the resulting plan decides. If alignment and holes raise the plan above
 * the budget, the search is repeated with a budget that is lower by the excess. The choice with the
 * lowest prediction may not have the smallest plan. Therefore similar choices are planned as
 * drafts, too.
 *
 * The search counts operations and copied bytes. The time of a run depends on more, so smaller
 * tiles may run faster than tiles that just keep to the budget. With a timer, the choices for some
 * smaller budgets are timed, too. These budgets are fixed fractions of the arena without tiles, so
 * that searches for similar budgets compare the same choices.
 *
 * The limits of the plan (work_limit, timeout_s) cover the whole search: the plan of the graph
 * without tiles, the search for regions, and the plans with tiles, one after the other. If a limit
 * is reached, the best compiled model so far is the answer.
 *
 * Cost: that of the search and of several compilations.
 */
#include "fit/setup/setup.h"

#define SPLIT_ROUNDS 8u
/* choices that are predicted to need up to 1 / SPLIT_NEAR more than the target are drafted */
#define SPLIT_NEAR 2u
#define SPLIT_DRAFTS 16u
/* number of choices that are timed: those with the most predicted bytes that are still below the
 * target */
#define SPLIT_STEPS 8u
#define SPLIT_TIMED 8u /* number of fixed smaller budgets for which a choice is timed */
/* each fixed smaller budget is smaller than the previous one by 1 / SPLIT_GRID of the previous
 * one */
#define SPLIT_GRID 16u
#define SPLIT_ANY 1000.0 /* a work budget so large that it does not limit */
#define SPLIT_LEAST_S 1e-6
#define SPLIT_FAR 24u /* a careful layout usually saves at most 1 / SPLIT_FAR of a draft's arena */

/* --- given regions --- */

/* Copies the requested regions and recomputed tensors into the part, for reports. */
static tn_status split_keep(tn_setup *setup, const tn_setup_split *asked, tn__setup_part *part,
                            tn_error *error) {
    tn_split_region *kept =
        tn__alloc_array(&setup->context, (size_t)asked->region_count + 1, sizeof *kept);
    if (kept == NULL) return tn__no_memory(error, "a split graph");
    part->split = (tn_split_report){.regions = kept, .count = asked->region_count};
    memcpy(kept, asked->regions, asked->region_count * sizeof *kept);
    tn_split_again *again =
        tn__alloc_array(&setup->context, (size_t)asked->again_count + 1, sizeof *again);
    if (again == NULL) return tn__no_memory(error, "a split graph");
    part->split.again = again;
    part->split.again_count = asked->again_count;
    if (asked->again_count > 0) memcpy(again, asked->again, asked->again_count * sizeof *again);
    return TN_OK;
}

tn_status tn__setup_regions(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    const tn_setup_split *asked = options->split;
    const tn_graph *whole =
        setup->parts[PART_REWRITTEN] != NULL ? setup->parts[PART_REWRITTEN]->graph : setup->given;
    const tn_graph *cut = asked->graph != NULL ? asked->graph : whole;
    tn_graph *made = NULL;
    tn__setup_part *part;
    TN_TRY(tn__setup_part_make(setup, PART_GRAPH, &part, error));
    TN_TRY(split_keep(setup, asked, part, error));
    if (asked->graph == NULL && asked->again_count > 0) {
        TN_TRY(tn_graph_split_again(whole, asked->again, asked->again_count, &made, error));
        cut = made;
    }
    tn_status status = tn_graph_split(cut, part->split.regions, asked->region_count,
                                      &setup->context, &part->graph, error);
    tn_graph_destroy(made);
    TN_TRY(status);
    part->split.whole = tn_graph_work(whole);
    part->split.parts = tn_graph_work(part->graph);
    return TN_OK;
}

const tn_split_report *tn_setup_splits(const tn_setup *setup) {
    const tn__setup_part *part = setup->parts[PART_GRAPH];
    return part != NULL && part->split.count > 0 ? &part->split : NULL;
}

/* --- choosing regions --- */

typedef struct split_state {
    const tn_graph *graph;
    const tn_setup_options *asked;
    const tn_setup *whole;
    /* predicts times; NULL: the choice with the least work is taken */
    const tn__setup_timer *timer;
    tn_split_search *search;
    tn_setup *best;          /* the best compiled model so far; NULL: none yet */
    tn_split_choice drafted; /* the choice of which `best` is made, if its plan is a draft */
    double deadline;     /* time at which the search must end, as tn__clock_s counts; 0: no limit */
    uint64_t work_limit; /* placements and regions that may still be tried; 0: no limit */
    bool stopped;        /* a limit was reached, so the search ends */
    tn_error *error;
} split_state;

/* --- limits --- */

static void split_limit(split_state *state, double began) {
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn__options(&plan, sizeof plan, state->asked->plan);
    state->work_limit = plan.work_limit;
    if (plan.timeout_s > 0) state->deadline = began + plan.timeout_s;
}

static void split_spend(split_state *state, uint64_t work) {
    if (state->work_limit == 0) return;
    state->stopped = state->stopped || work >= state->work_limit;
    state->work_limit = work < state->work_limit ? state->work_limit - work : 1;
}

static bool split_goes_on(split_state *state, uint32_t done, uint32_t of) {
    const tn_context *context = &state->whole->context;
    bool stops = context->progress != NULL && !context->progress(context->self, "split", done, of);
    bool late = state->deadline > 0 && tn__clock_s() >= state->deadline;
    state->stopped = state->stopped || stops || late;
    return !state->stopped;
}

static double split_left(const split_state *state) {
    double left = state->deadline > 0 ? state->deadline - tn__clock_s() : 0;
    return state->deadline > 0 && left < SPLIT_LEAST_S ? SPLIT_LEAST_S : left;
}

/* Sets the options of a plan, with the limits that are left. */
static void split_plan_options(const split_state *state, tn_plan_options *plan) {
    tn__options(plan, sizeof *plan, state->asked->plan);
    plan->struct_size = sizeof *plan;
    plan->work_limit = state->work_limit;
    plan->timeout_s = split_left(state);
}

/* Whether a status means that a predicted choice cannot be compiled, because the sizes of its tiles
 * are unknown or no kernel runs them. Such a choice is dropped, and others are tried. */
static bool split_drops(tn_status status) {
    return status == TN_E_INVALID || status == TN_E_UNKNOWN || status == TN_E_UNSUPPORTED ||
           status == TN_E_CONFLICT;
}

/* Handles the failure of an attempt. If a limit was reached, there is no message, because this is
 * only recorded. */
static tn_status split_fail(split_state *state, tn_status status, const tn_error *said) {
    if (status != TN_E_STOPPED) return tn__fail_as(state->error, status, said);
    state->stopped = true;
    return status;
}

/* Compiles one choice of regions. *made is NULL if the choice is dropped. */
static tn_status split_set_up(split_state *state, const tn_split_choice *choice, bool draft,
                              tn_setup **made) {
    tn_setup_options options = *state->asked;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_setup_split given = {.regions = choice->regions,
                            .region_count = choice->count,
                            .graph = choice->graph,
                            .again = choice->again,
                            .again_count = choice->again_count};
    options.split = &given;
    options.fit = NULL;
    split_plan_options(state, &plan);
    if (draft && plan.planner == NULL) plan.planner = "fast";
    options.plan = &plan;
    tn_error said = {0};
    *made = NULL;
    tn_status status = tn_setup_create(state->graph, &options, made, &said);
    if (split_drops(status)) return TN_OK;
    if (status != TN_OK) return split_fail(state, status, &said);
    split_spend(state, tn_setup_layout(*made)->work);
    tn__setup_part *part = (*made)->parts[PART_GRAPH];
    part->split.work = choice->work;
    part->split.whole_arena = tn_setup_need(state->whole).arena;
    part->split.whole_total = tn_setup_need(state->whole).total;
    return TN_OK;
}

/* Replaces the draft plan of a compiled model by a careful plan. */
static tn_status split_plan(split_state *state, tn_setup **made) {
    tn_setup_options options = *state->asked;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_setup *planned;
    split_plan_options(state, &plan);
    options.plan = &plan;
    options.split = NULL;
    options.fit = NULL;
    tn_error said = {0};
    tn_status status = tn_setup_from(*made, TN_SETUP_PLAN, &options, &planned, &said);
    if (status != TN_OK) return split_fail(state, status, &said);
    split_spend(state, tn_setup_layout(planned)->work);
    tn_setup_destroy(*made);
    *made = planned;
    return TN_OK;
}

/* Whether a careful layout may help: without a budget always, otherwise if the draft exceeds the
 * budget only a little. */
static bool split_is_near(const split_state *state, const tn_setup *draft) {
    uint64_t budget = state->asked->split->budget, total = tn_setup_need(draft).total;
    if (budget == 0) return true;
    return total > budget && total - budget <= tn_setup_need(draft).arena / SPLIT_FAR;
}

/* Compiles a choice and keeps it if it is the smallest so far. *beyond: bytes above the budget; 1
 * if the choice is dropped and there is a budget. `careful`: plan carefully even if the draft is
 * far above the budget. */
static tn_status split_try(split_state *state, const tn_split_choice *choice, bool careful,
                           uint64_t *beyond) {
    tn_setup *made;
    uint64_t budget = state->asked->split->budget;
    tn_status status = split_set_up(state, choice, true, &made);
    *beyond = budget > 0;
    if (status != TN_OK || made == NULL) return status;
    bool fits = budget > 0 && tn_setup_need(made).total <= budget;
    if (!fits && (careful || split_is_near(state, made))) {
        status = split_plan(state, &made);
        if (status != TN_OK) {
            tn_setup_destroy(made);
            return status;
        }
    }
    uint64_t total = tn_setup_need(made).total;
    *beyond = budget > 0 && total > budget ? total - budget : 0;
    if (state->best != NULL && tn_setup_need(state->best).total <= total) {
        tn_setup_destroy(made);
        return TN_OK;
    }
    tn_setup_destroy(state->best);
    state->best = made;
    return TN_OK;
}

/* Returns the bytes of the budget that remain for the arena. */
static uint64_t split_room(const split_state *state) {
    uint64_t budget = state->asked->split->budget, whole = tn_setup_need(state->whole).arena;
    uint64_t apart = tn_setup_need(state->whole).total - whole;
    return budget > apart ? budget - apart : 0;
}

static bool split_fits(const split_state *state) {
    uint64_t budget = state->asked->split->budget;
    return budget > 0 && state->best != NULL && tn_setup_need(state->best).total <= budget;
}

/* Compiles a choice with a draft plan. If the result is smaller than the best so far, keeps it and
 * the choice. */
static tn_status split_draft(split_state *state, tn_split_choice *choice) {
    tn_setup *made;
    tn_status status = split_set_up(state, choice, true, &made);
    if (status != TN_OK || made == NULL) return status;
    if (state->best != NULL && tn_setup_need(state->best).total <= tn_setup_need(made).total) {
        tn_setup_destroy(made);
        return TN_OK;
    }
    tn_setup_destroy(state->best);
    state->best = made;
    tn_split_choice_release(state->search, &state->drafted);
    state->drafted = *choice;
    *choice = (tn_split_choice){.live_bytes = choice->live_bytes, .work = choice->work};
    return TN_OK;
}

/* Drafts choices that are predicted to need slightly more than `least` bytes. They may need less,
 * because the layout of the least choice has holes. Targets are at equal distances, from above down
 * to `least`; lower targets need more work. */
static tn_status split_near(split_state *state, uint64_t least, double share) {
    const tn_setup *best = state->best != NULL ? state->best : state->whole;
    uint64_t sought = tn_setup_need(best).arena, from = sought > least ? sought : least;
    uint64_t target = from + from / SPLIT_NEAR, step = (target - least) / SPLIT_DRAFTS;
    tn_status status = TN_OK;
    for (uint32_t i = 0; status == TN_OK && target > least && !split_fits(state); i++) {
        tn_split_choice choice;
        if (!split_goes_on(state, i, SPLIT_DRAFTS)) break;
        TN_TRY(tn_split_within(state->search, target, &choice, state->error));
        bool is_near = choice.live_bytes > least && choice.work <= share;
        if (is_near && choice.count > 0) status = split_draft(state, &choice);
        uint64_t live = choice.live_bytes;
        tn_split_choice_release(state->search, &choice);
        if (!is_near) break;
        target = target - least > step && target - step < live ? target - step : live - 1;
    }
    return status;
}

/* Replaces the draft plan of the best compiled model by a careful plan. */
static tn_status split_finish(split_state *state) {
    uint64_t beyond;
    if (state->drafted.count == 0 || state->stopped) return TN_OK;
    return split_try(state, &state->drafted, true, &beyond);
}

/* Finds the smallest compiled model: tries the choice with the lowest prediction, and similar ones.
 * The budget only decides when to stop; the choices themselves depend on the graph alone. So if a
 * refusal names a smallest size, a budget of this size finds it again. */
static tn_status split_fewest(split_state *state, double share) {
    tn_split_choice choice;
    uint64_t beyond;
    TN_TRY(tn_split_least(state->search, share, &choice, state->error));
    tn_status status = choice.count > 0 ? split_try(state, &choice, true, &beyond) : TN_OK;
    uint64_t least = choice.live_bytes;
    tn_split_choice_release(state->search, &choice);
    TN_TRY(status);
    TN_TRY(split_near(state, least, share));
    return split_finish(state);
}

static tn_status split_within(split_state *state) {
    const tn_setup_split *asked = state->asked->split;
    uint64_t target = split_room(state);
    for (uint32_t round = 0; round < SPLIT_ROUNDS && target > 0; round++) {
        if (round > 0 && !split_goes_on(state, round, SPLIT_ROUNDS)) break;
        tn_split_choice choice;
        uint64_t beyond;
        tn_status status = tn_split_within(state->search, target, &choice, NULL);
        if (status == TN_E_EXHAUSTED) break;
        if (status != TN_OK) return tn__no_memory(state->error, "a split graph");
        if (asked->share > 0 && choice.work > asked->share) {
            tn_split_choice_release(state->search, &choice);
            break;
        }
        status = split_try(state, &choice, false, &beyond);
        uint64_t live = choice.live_bytes;
        tn_split_choice_release(state->search, &choice);
        if (status != TN_OK || beyond == 0) return status;
        target = live > beyond && live - beyond < target ? live - beyond : target - target / 16;
    }
    if (!state->stopped) {
        tn_setup_destroy(state->best);
        state->best = NULL;
        TN_TRY(split_fewest(state, asked->share > 0 ? asked->share : SPLIT_ANY));
    }
    return split_fits(state) ? TN_OK : state->stopped ? TN_E_STOPPED : TN_E_EXHAUSTED;
}

/* Compiles a choice, and keeps it if it is within the budget and faster than the best; *time is the
 * time of the best. */
static tn_status split_time(split_state *state, const tn_split_choice *choice, uint64_t *time) {
    tn_setup *made;
    uint64_t other;
    tn_status status = split_set_up(state, choice, true, &made);
    if (status != TN_OK || made == NULL) return status;
    bool fits = tn_setup_need(made).total <= state->asked->split->budget;
    if (fits) status = state->timer->time(state->timer->self, made, &other, state->error);
    bool better = fits && status == TN_OK && other < *time;
    if (better) *time = other;
    tn_setup_destroy(better ? state->best : made);
    if (better) state->best = made;
    return status;
}

/* the choices that were timed already; a choice is identified by its work */
typedef struct split_timed {
    double works[1 + SPLIT_STEPS + SPLIT_TIMED];
    uint32_t count;
    uint64_t time; /* time of the best choice */
} split_timed;

static bool split_is_timed(const split_timed *timed, double work) {
    for (uint32_t i = 0; i < timed->count; i++)
        if (timed->works[i] == work) return true;
    return false;
}

/* Times the choice for `target` bytes, unless it was timed already. *live: predicted bytes of the
 * choice; 0: there is no choice. */
static tn_status split_time_within(split_state *state, uint64_t target, split_timed *timed,
                                   uint64_t *live) {
    tn_split_choice choice;
    *live = 0;
    tn_status status = tn_split_within(state->search, target, &choice, NULL);
    if (status == TN_E_EXHAUSTED) return TN_OK;
    if (status != TN_OK) return tn__no_memory(state->error, "a split graph");
    *live = choice.live_bytes;
    if (choice.count > 0 && !split_is_timed(timed, choice.work)) {
        timed->works[timed->count++] = choice.work;
        status = split_time(state, &choice, &timed->time);
    }
    tn_split_choice_release(state->search, &choice);
    return status;
}

/* Looks for a faster choice that needs fewer than `target` bytes. Tries the next smaller choices,
 * of which a small network has few, and choices at fixed budgets, which are the same for other
 * targets. */
static tn_status split_fastest(split_state *state, uint64_t target) {
    uint64_t budget = tn_setup_need(state->whole).arena, live = target;
    split_timed timed = {.works = {tn_setup_splits(state->best)->work}, .count = 1};
    TN_TRY(state->timer->time(state->timer->self, state->best, &timed.time, state->error));
    if (timed.time == UINT64_MAX) return TN_OK; /* unknown */
    for (uint32_t i = 0; i < SPLIT_STEPS && live > 1; i++) {
        if (!split_goes_on(state, i, SPLIT_STEPS)) return TN_OK;
        TN_TRY(split_time_within(state, live - (i > 0), &timed, &live));
    }
    for (uint32_t tried = 0; tried < SPLIT_TIMED && budget >= SPLIT_GRID;) {
        budget -= budget / SPLIT_GRID;
        if (budget >= target) continue;
        if (!split_goes_on(state, tried++, SPLIT_TIMED)) break;
        TN_TRY(split_time_within(state, budget, &timed, &live));
        if (live == 0) break;
    }
    return TN_OK;
}

static tn_status split_search(split_state *state) {
    tn_split_options options = TN_SPLIT_OPTIONS_INIT;
    const tn_kernels *kernels = tn_setup_kernels(state->whole);
    options.context = &state->whole->context;
    if (kernels != NULL) options.workspaces = tn_kernels_workspaces(kernels);
    options.again = true;
    options.work_limit = state->work_limit;
    options.timeout_s = split_left(state);
    tn_error said = {0};
    tn_status status =
        tn_split_search_create(tn_setup_graph(state->whole), &options, &state->search, &said);
    if (status != TN_OK) return split_fail(state, status, &said);
    split_spend(state, tn_split_work(state->search));
    return TN_OK;
}

static tn_status split_find(split_state *state) {
    if (state->stopped) return TN_E_STOPPED;
    TN_TRY(split_search(state));
    uint64_t budget = state->asked->split->budget;
    if (budget == 0) return split_fewest(state, state->asked->split->share);
    TN_TRY(split_within(state));
    return state->timer != NULL ? split_fastest(state, split_room(state)) : TN_OK;
}

/* Refuses options in which the caller describes single operators of the graph without tiles. */
static tn_status split_check(const tn_setup_options *options, tn_error *error) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn__options(&memory, sizeof memory, options->memory);
    if (options->given_kernels != NULL || options->given_program != NULL || options->costs != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "operators in parts: kernels, a program or costs that are given are of the whole "
                "graph");
    if (memory.workspaces != NULL || memory.workspaces_again != NULL || memory.claimed != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "operators in parts: scratch that is given for each operator is of the whole "
                "graph (a .tflite model's is)");
    return TN_OK;
}

/* Compiles the graph without tiles. */
static tn_status split_whole(const tn_graph *graph, const tn_setup_options *options,
                             tn_setup **whole, tn_error *error) {
    tn_setup_options plain = *options;
    plain.split = NULL;
    plain.fit = NULL;
    TN_TRY(split_check(options, error));
    return tn_setup_create(graph, &plain, whole, error);
}

/* Looks for tiles that are better than `whole`, the compiled model without tiles, which the caller
 * keeps. *setup is another compiled model, or NULL if `whole` is as good. E_EXHAUSTED and E_STOPPED
 * have no message; with E_EXHAUSTED, *setup is the smallest compiled model found. */
static tn_status split_from(const tn_graph *graph, const tn_setup_options *options, double began,
                            const tn_setup *whole, const tn__setup_timer *timer, tn_setup **setup,
                            tn_error *error) {
    split_state state = {
        .graph = graph, .asked = options, .whole = whole, .timer = timer, .error = error};
    split_limit(&state, began);
    split_spend(&state, tn_setup_layout(whole)->work);
    uint64_t budget = options->split->budget, total = tn_setup_need(whole).total;
    tn_status status = budget > 0 && total <= budget ? TN_OK : split_find(&state);
    if (state.search != NULL) tn_split_choice_release(state.search, &state.drafted);
    tn_split_search_destroy(state.search);
    bool better = state.best != NULL && tn_setup_need(state.best).total < total;
    /* without a budget, the smallest compiled model so far is the answer */
    if (status == TN_E_STOPPED && budget == 0) status = TN_OK;
    bool keeps = better && (status == TN_OK || status == TN_E_EXHAUSTED);
    *setup = keeps ? state.best : NULL;
    if (!keeps) tn_setup_destroy(state.best);
    return status;
}

tn_status tn__setup_cut(const tn_setup *whole, const tn_setup_options *options,
                        const tn__setup_timer *timer, tn_setup **setup, tn_error *error) {
    *setup = NULL;
    TN_TRY(split_check(options, error));
    return split_from(whole->given, options, tn__clock_s(), whole, timer, setup, error);
}

tn_status tn__setup_split(const tn_graph *graph, const tn_setup_options *options, tn_setup **setup,
                          tn_error *error) {
    tn_setup *whole, *cut;
    double began = tn__clock_s();
    uint64_t budget = options->split->budget;
    if (options->fit != NULL && budget > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "operators in parts and a program that is fitted, for one budget: call "
                "tn_fit_graph");
    if (options->split->share < 0 || (budget == 0 && options->split->share == 0))
        TN_FAIL(error, TN_E_INVALID, "operators in parts need a budget, or a share of work");
    TN_TRY(split_whole(graph, options, &whole, error));
    tn_status status = split_from(graph, options, began, whole, NULL, &cut, error);
    if (status == TN_OK) *setup = cut != NULL ? cut : whole;
    if (status == TN_E_EXHAUSTED || status == TN_E_STOPPED) {
        const tn__refusal refusal = {.techniques = TN_FIT_SPLIT,
                                     .budget = budget,
                                     .least = tn_setup_need(cut != NULL ? cut : whole).total,
                                     .ended = TN__ENDED_LIMIT};
        tn__refusal_fail(&refusal, status, error);
    }
    if (status != TN_OK) tn_setup_destroy(cut);
    if (status != TN_OK || cut != NULL) tn_setup_destroy(whole);
    return status;
}

/* --- the curve --- */

/* Makes compiled models for budgets at equal distances between the smallest one and that of the
 * graph without tiles, without these two. Equal consecutive choices are compiled once. */
static tn_status split_points(split_state *state, uint32_t count, tn_setup **setups,
                              uint32_t *found) {
    tn_split_choice least, choice;
    double before = -1;
    TN_TRY(tn_split_least(state->search, state->asked->split->share, &least, state->error));
    uint64_t from = least.live_bytes, to = tn_split_whole(state->search);
    tn_split_choice_release(state->search, &least);
    for (uint32_t i = 1; i + 1 < count; i++) {
        if (!split_goes_on(state, i, count)) return TN_E_STOPPED;
        uint64_t budget = from + (uint64_t)((double)(to - from) * i / (count - 1));
        TN_TRY(tn_split_within(state->search, budget, &choice, state->error));
        bool is_new = choice.count > 0 && choice.work != before;
        before = choice.work;
        tn_status status = is_new ? split_set_up(state, &choice, false, &setups[*found]) : TN_OK;
        *found += is_new && status == TN_OK && setups[*found] != NULL;
        tn_split_choice_release(state->search, &choice);
        TN_TRY(status);
    }
    return TN_OK;
}

static double split_work(const tn_setup *setup) { return tn_setup_splits(setup)->work; }

/* Adds the smallest compiled model within the work budget to the points of the curve, which are in
 * descending order of work. */
static tn_status split_add_fewest(split_state *state, tn_setup **setups, uint32_t *found) {
    TN_TRY(split_fewest(state, state->asked->split->share));
    if (state->best == NULL) return TN_OK;
    uint32_t at = (*found)++;
    for (; at > 0 && split_work(setups[at - 1]) <= split_work(state->best); at--)
        setups[at] = setups[at - 1];
    setups[at] = state->best;
    state->best = NULL;
    return TN_OK;
}

/* Drops each point for which another one with at most its work needs at most its bytes. Holes in
 * layouts, which the search does not predict, cause such points. */
static void split_prune(tn_setup **setups, uint32_t *found) {
    uint64_t least = UINT64_MAX;
    uint32_t kept = 0;
    double before = -1;
    for (uint32_t i = *found; i-- > 0;) {
        uint64_t total = tn_setup_need(setups[i]).total;
        if (total < least) {
            least = total;
            continue;
        }
        tn_setup_destroy(setups[i]);
        setups[i] = NULL;
    }
    for (uint32_t i = 0; i < *found; i++) {
        const tn_split_report *split = setups[i] != NULL ? tn_setup_splits(setups[i]) : NULL;
        bool is_twin = split != NULL && split->work == before;
        if (split != NULL) before = split->work;
        if (is_twin) tn_setup_destroy(setups[i]);
        if (!is_twin && setups[i] != NULL) setups[kept++] = setups[i];
    }
    *found = kept;
}

tn_status tn_setup_split_sweep(const tn_graph *graph, const tn_setup_options *options,
                               uint32_t count, tn_setup **setups, uint32_t *found,
                               tn_error *error) {
    tn_setup_options asked = TN_SETUP_OPTIONS_INIT;
    tn_setup_split split;
    tn_setup *whole;
    double began = tn__clock_s();
    *found = 0;
    tn__options(&asked, sizeof asked, options);
    if (count < 2) TN_FAIL(error, TN_E_INVALID, "a curve has at least two points");
    if (asked.split == NULL || !(asked.split->share > 0))
        TN_FAIL(error, TN_E_INVALID, "a curve of operators in parts needs a share of work");
    split = *asked.split;
    split.budget = 0; /* no budget, because a curve is for several budgets */
    asked.split = &split;
    TN_TRY(split_whole(graph, &asked, &whole, error));
    split_state state = {.graph = graph, .asked = &asked, .whole = whole, .error = error};
    split_limit(&state, began);
    split_spend(&state, tn_setup_layout(whole)->work);
    tn_status status = state.stopped ? TN_E_STOPPED : split_search(&state);
    if (status == TN_OK) status = split_points(&state, count, setups, found);
    if (status == TN_OK) status = split_add_fewest(&state, setups, found);
    if (state.search != NULL) tn_split_choice_release(state.search, &state.drafted);
    tn_split_search_destroy(state.search);
    tn_setup_destroy(state.best);
    setups[(*found)++] = whole;
    /* after a limit, the points found so far are the curve */
    if (status == TN_OK || status == TN_E_STOPPED) {
        split_prune(setups, found);
        return TN_OK;
    }
    for (uint32_t i = 0; i < *found; i++) tn_setup_destroy(setups[i]);
    *found = 0;
    return status;
}
