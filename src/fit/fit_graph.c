/* fit_graph.c - the one place that combines techniques to keep a graph within a budget.
 *
 *     whole ─▶ program: order, recompute, swap, encode ─▶ tiles, with the program's techniques
 *           ─▶ weights from their file
 *
 * Each set of techniques is a candidate: a compiled model (tn_setup) with its time. The fastest
 * candidate that fits is the answer. Tiles and streamed weights cost additional code or storage.
 * They are tried only if there is no answer yet, or if the answer is slower than the unchanged plan
 * by more than 1 / GRAPH_WORTH. Usually an early set gives the answer, so that the later sets cost
 * nothing. Each candidate is timed with costs for its own graph, and all these costs come from one
 * source (request->costs).
 *
 * The time limit covers the whole call. The context enforces it: every long computation asks the
 * context whether it may continue, so measuring costs, splitting and planning stop at the limit,
 * too.
 *
 * Cost: that of the candidates; only that of the unchanged plan if it is within the budget.
 */
#include "fit/frame.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fit/setup/setup.h"
#include "graph/takes.h"

/* The search for a faster answer ends if the overhead is below 1 / GRAPH_WORTH of the unchanged
 * plan's time. */
#define GRAPH_WORTH 100u
/* Costs are measured for at most 1 / GRAPH_MEASURE_PART of the time that is left. */
#define GRAPH_MEASURE_PART 3
/* limit of the processor time for each hint, because hints are optional */
#define GRAPH_HINT_S 10.0
#define GRAPH_LEAST_S 1e-6

/* --- time --- */

static bool graph_progress(void *self, const char *stage, uint64_t done, uint64_t total) {
    tn__graph_own *own = self;
    if (own->deadline > 0 && tn__clock_s() >= own->deadline) return false;
    if (own->hint_ends_at > 0 && clock() >= own->hint_ends_at) return false;
    if (own->outer.progress == NULL) return true;
    bool goes_on = own->outer.progress(own->outer.self, stage, done, total);
    own->interrupted = own->interrupted || !goes_on;
    return goes_on;
}

static void graph_log(void *self, const char *message) {
    const tn__graph_own *own = self;
    if (own->outer.log != NULL) own->outer.log(own->outer.self, message);
}

static void graph_found(void *self, const char *stage, uint64_t best, uint64_t bound) {
    const tn__graph_own *own = self;
    if (own->outer.found != NULL) own->outer.found(own->outer.self, stage, best, bound);
}

static bool graph_is_late(const tn__graph_frame *f) {
    return f->own->deadline > 0 && tn__clock_s() >= f->own->deadline;
}

double tn__graph_left(const tn__graph_frame *f) {
    double left = f->own->deadline - tn__clock_s();
    return left > GRAPH_LEAST_S ? left : GRAPH_LEAST_S;
}

/* --- costs --- */

static tn_status graph_measure(tn__graph_frame *f, const tn_setup *setup, tn_costs **costs,
                               tn_error *error) {
    double seconds = TN__MEASURE_S;
    if (f->own->deadline > 0 && tn__graph_left(f) / GRAPH_MEASURE_PART < seconds)
        seconds = tn__graph_left(f) / GRAPH_MEASURE_PART;
    return tn__setup_measure(setup, &f->options, seconds, costs, error);
}

/* Makes the costs of a compiled model; called through tn_setup_options.make_costs. */
static tn_status graph_costs(void *self, const tn_setup *setup, tn_costs **costs, tn_error *error) {
    tn__graph_frame *f = self;
    double began = tn__clock_s();
    tn_status status = f->request.costs != NULL
                           ? f->request.costs(f->request.self, setup, costs, error)
                           : graph_measure(f, setup, costs, error);
    f->costs_seconds += tn__clock_s() - began;
    return status;
}

tn_status tn__candidate_costs(tn__graph_frame *f, tn__candidate *it) {
    return it->costs != NULL ? TN_OK : graph_costs(f, it->setup, &it->costs, f->error);
}

/* --- candidates --- */

static void candidate_release(tn__candidate *it) {
    if (!it->shares) tn_costs_destroy(it->costs);
    tn_setup_destroy(it->setup);
    *it = (tn__candidate){0};
}

/* Fills the candidate's result with the program, occupancy and layout of its compiled model. */
static void candidate_read(tn__candidate *it) {
    tn_fit_result *result = &it->result;
    result->program = (tn_program *)(uintptr_t)tn_setup_program(it->setup);
    result->occupancy = (tn_occupancy *)(uintptr_t)tn_setup_occupancy(it->setup);
    result->layout = *tn_setup_layout(it->setup);
    result->bytes = tn_setup_need(it->setup).total;
    result->live_bytes = tn_occupancy_summary(result->occupancy).peak_live;
    it->fixed = tn__setup_fixed(it->setup);
    if (result->pass == NULL) result->pass = "none";
}

/* Simulates a program with the costs of its candidate, and returns its time. */
static tn_status candidate_time(tn__graph_frame *f, tn__candidate *it, const tn_program *program,
                                uint64_t *time) {
    tn_simulation simulation;
    TN_TRY(tn__candidate_costs(f, it));
    TN_TRY(tn__fit_simulate(program, it->costs, &f->search, NULL, &simulation, f->error));
    *time = simulation.total_ps;
    tn_simulation_release(&simulation);
    return TN_OK;
}

static bool graph_fits(const tn__graph_frame *f, const tn__candidate *it) {
    return it->setup != NULL && it->result.bytes <= f->search.budget;
}

static tn_claim *graph_claim(tn__graph_frame *f, uint32_t techniques, tn_claim_kind kind,
                             const char *why) {
    tn_fit_answer *answer = f->answer;
    if (answer->claim_count == TN_CLAIMS_MAX) return &f->unwanted;
    tn_claim *claim = &answer->claims[answer->claim_count++];
    *claim = (tn_claim){.techniques = techniques, .kind = kind, .why = why};
    return claim;
}

/* Records that a set of techniques cannot be used. The reason is the message of E_UNSUPPORTED in
 * f->error, or `why` if there is no message. */
static void graph_claim_failed(tn__graph_frame *f, uint32_t techniques, const char *why) {
    char *text = f->own->why[f->answer->claim_count];
    bool said = f->error->status == TN_E_UNSUPPORTED && f->error->message[0] != '\0';
    if (said) memcpy(text, f->error->message, TN__WHY_TEXT);
    graph_claim(f, techniques, TN_CLAIM_NOT_TRIED, said ? text : why);
}

/* Keeps the candidate if it is the fastest that fits, or the smallest that does not fit, and
 * releases it otherwise. The caller gives up ownership of `it`. */
static void graph_take(tn__graph_frame *f, tn__candidate *it) {
    bool fits = graph_fits(f, it);
    /* time 0 means that the time is not known */
    uint64_t time = it->result.time, best = f->best.result.time;
    bool better = fits && (f->best.setup == NULL || (time > 0 && (best == 0 || time < best)));
    tn__candidate *place =
        better                                                                          ? &f->best
        : !fits && (f->least.setup == NULL || it->result.bytes < f->least.result.bytes) ? &f->least
                                                                                        : NULL;
    if (place != NULL) {
        candidate_release(place);
        *place = *it;
        *it = (tn__candidate){0};
    } else {
        candidate_release(it);
    }
}

static bool graph_is_none(tn_status status) {
    return status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
}

/* Whether another set of techniques is worth a search: nothing fits yet, or the best candidate is
 * too slow. */
static bool graph_goes_on(const tn__graph_frame *f) {
    const tn_fit_result *best = &f->best.result;
    if (f->best.setup == NULL) return true;
    return !f->search.any && best->time > best->plain_time + best->plain_time / GRAPH_WORTH;
}

/* --- the unchanged graph --- */

/* Plans the unchanged graph, computes its time if the request asks for times, and records its
 * claim. The time limit does not apply, because every answer reports this plan. */
tn_status tn__graph_whole(tn__graph_frame *f) {
    tn__candidate *it = &f->whole;
    double deadline = f->own->deadline;
    f->own->deadline = 0;
    tn_status status = tn_setup_create(f->graph, &f->options, &it->setup, f->error);
    f->own->deadline = deadline;
    TN_TRY(status);
    candidate_read(it);
    it->result.plain_bytes = it->result.bytes;
    if (f->request.arena) {
        f->answer->apart = it->fixed;
        f->search.budget = tn__add_sat(f->search.budget, it->fixed);
    }
    bool fits = graph_fits(f, it);
    if (f->request.timed) {
        /* the program before the user's rules were applied */
        const tn_program *plain = tn__setup_ordered(it->setup);
        TN_TRY(candidate_time(f, it, tn_setup_program(it->setup), &it->result.time));
        it->result.plain_time = it->result.time;
        if (tn__rules_any(f->options.rules))
            TN_TRY(candidate_time(f, it, plain, &it->result.plain_time));
        it->result.time_bound = it->result.time;
    }
    uint64_t bound = it->fixed + it->result.layout.lower_bound;
    tn_claim *claim = graph_claim(f, 0,
                                  fits                       ? TN_CLAIM_FITS
                                  : bound > f->search.budget ? TN_CLAIM_INFEASIBLE
                                                             : TN_CLAIM_NOT_FOUND,
                                  "");
    claim->bytes = it->result.bytes;
    claim->bytes_bound = bound;
    claim->time = it->result.time;
    return TN_OK;
}

/* --- a program for the graph of a candidate --- */

/* Searches for a program within the budget for the graph of `from`, with the program's techniques.
 * *made shares the costs of `from`. It may exceed the budget; it is then the smallest program that
 * was found. Errors: those of tn_fit. After an error, *made may be empty. A refusal is described by
 * *refusal, without a message. */
static tn_status graph_fit_on(tn__graph_frame *f, tn__candidate *from, uint32_t allow,
                              tn__candidate *made, tn__refusal *refusal) {
    tn_setup_options options = f->options;
    tn_fit_options search = f->search;
    tn_fit_result result = {0};
    search.allow = allow & TN__FIT_PROGRAM;
    search.context = &f->own->context;
    if (search.allow == 0) search.pass = "none";
    if (f->own->deadline > 0) search.timeout_s = tn__graph_left(f);
    /* the measured fractions of zeros are numbered by the tensors of the graph without tiles, so a
     * graph with tiles cannot use them */
    if (tn_setup_splits(from->setup) != NULL) search.zeros = NULL;
    options.fit = &search;
    *refusal = (tn__refusal){0};
    TN_TRY(tn__candidate_costs(f, from));
    tn_status status = tn__setup_search(from->setup, &options, tn__setup_ordered(from->setup),
                                        from->costs, &result, refusal, f->error);
    /* answer->detail gets the sentence about the step that needs too much memory, but not from the
     * search for a hint */
    if (graph_is_none(status) && f->own->hint_ends_at == 0)
        snprintf(f->answer->detail, sizeof f->answer->detail, "%s", refusal->step);
    if (result.program == NULL) {
        tn_fit_release(&result);
        return status;
    }
    result.plain_bytes = f->whole.result.bytes;
    tn_fit_result found = result;
    if (status == TN_OK && graph_fits(f, from)) { /* the graph of `from` fits without changes */
        tn_fit_release(&result);
        made->setup = from->setup;
        from->setup = NULL;
        made->result =
            (tn_fit_result){.pass = "none", .time = found.time, .plain_time = found.plain_time};
        candidate_read(made);
        made->costs = from->costs;
        made->shares = true;
        made->techniques = allow;
        return TN_OK;
    }
    tn_status taken = tn__setup_fitted_from(from->setup, &options, &result, &made->setup, f->error);
    if (taken != TN_OK) return taken;
    made->result = found;
    made->result.host = tn_setup_fitted(made->setup)->host;
    candidate_read(made);
    made->costs = from->costs;
    made->shares = true;
    made->techniques = allow;
    return status;
}

/* Records the claim of a set of techniques: bytes and time of its program, or the facts of its
 * refusal. */
static void graph_record_claim(tn__graph_frame *f, uint32_t techniques, tn_status status,
                               const tn__candidate *it, const tn__refusal *refusal) {
    tn_claim_kind kind = status == TN_OK             ? TN_CLAIM_FITS
                         : status == TN_E_INFEASIBLE ? TN_CLAIM_INFEASIBLE
                         : status == TN_E_STOPPED    ? TN_CLAIM_STOPPED
                                                     : TN_CLAIM_NOT_FOUND;
    tn_claim *claim = graph_claim(f, techniques, kind, "");
    const bool fits = status == TN_OK;
    claim->bytes = fits ? it->result.bytes : refusal->least;
    claim->bytes_bound = fits ? it->result.bytes_bound : refusal->bound;
    claim->time = it->result.time;
}

tn_status tn__graph_zeros(tn__graph_frame *f) {
    if (f->request.zeros == NULL) return TN_OK;
    return f->request.zeros(f->request.self, f->whole.setup, &f->search.zeros, f->error);
}

/* Tries the techniques that change only the program, and records a claim. */
static tn_status graph_program(tn__graph_frame *f, uint32_t allow) {
    tn__candidate made = {0};
    tn__refusal refusal;
    uint32_t techniques = allow & TN__FIT_PROGRAM;
    if (techniques == 0) return TN_OK;
    f->search.zeros = NULL;
    if ((techniques & (TN_FIT_COMPRESS | TN_FIT_LOSSY)) != 0) TN_TRY(tn__graph_zeros(f));
    tn_status status = graph_fit_on(f, &f->whole, techniques, &made, &refusal);
    if (status != TN_OK && !graph_is_none(status) && status != TN_E_STOPPED) {
        candidate_release(&made);
        return status;
    }
    if (made.result.plain_time > 0)
        f->whole.result.plain_time = f->whole.result.time = made.result.plain_time;
    graph_record_claim(f, techniques, status, &made, &refusal);
    if (made.setup != NULL) graph_take(f, &made);
    return TN_OK;
}

/* --- operators in tiles --- */

/* Estimates the time of a graph with tiles; called through tn__setup_timer.time. If the caller
 * gives no costs, the choices of tiles are compared by default rates, and only the chosen one is
 * measured: measuring every choice would take too long. */
static tn_status graph_time_parts(void *self, const tn_setup *setup, uint64_t *time,
                                  tn_error *error) {
    tn__graph_frame *f = self;
    tn__candidate it = {.setup = (tn_setup *)(uintptr_t)setup};
    tn_costs_model rates = TN_COSTS_MODEL_INIT;
    rates.context = &f->own->context;
    *time = UINT64_MAX;
    tn_status status = f->request.costs != NULL
                           ? graph_costs(f, setup, &it.costs, error)
                           : tn_costs_create_model(tn_setup_graph(setup), &rates, &it.costs, error);
    /* without costs for tiles, the time stays UINT64_MAX, and no choice is faster */
    if (status == TN_E_UNSUPPORTED) return TN_OK;
    if (status == TN_OK) status = candidate_time(f, &it, tn_setup_program(setup), time);
    tn_costs_destroy(it.costs);
    return status;
}

/* Makes a compiled model with operators in tiles that is within the budget without other
 * techniques. If that is impossible, makes the one with the fewest bytes, which may fit with the
 * program's techniques. made->setup stays NULL if no tiles need fewer bytes than whole
 * operators. */
static tn_status graph_cut(tn__graph_frame *f, tn__candidate *made) {
    const tn_setup_split within = {.budget = f->search.budget, .share = f->request.split_share};
    const tn__setup_timer timer = {graph_time_parts, f};
    tn_setup_options options = f->options;
    options.split = &within;
    tn_status status = tn__setup_cut(f->whole.setup, &options, f->search.any ? NULL : &timer,
                                     &made->setup, f->error);
    if (made->setup != NULL) candidate_read(made);
    return status == TN_E_EXHAUSTED ? TN_OK : status;
}

/* Completes the result of a candidate with a changed graph: its overhead is relative to the plan of
 * the unchanged graph. */
static void graph_beside(const tn__graph_frame *f, tn__candidate *it) {
    it->result.plain_bytes = f->whole.result.bytes;
    if (f->whole.result.plain_time > 0) it->result.plain_time = f->whole.result.plain_time;
    /* the lower bounds are set to 0, because they were proved for whole operators only */
    it->result.time_bound = it->result.bytes_bound = 0;
}

/* Handles tiles for which there are no costs, because the caller's costs are for the operators of
 * the whole graph. The speed of tiles is unknown, so tiles become the answer only if there is no
 * other. */
static tn_status graph_split_untimed(tn__graph_frame *f, tn__candidate *cut) {
    if (!graph_fits(f, cut) || f->best.setup != NULL) {
        graph_claim_failed(f, TN_FIT_SPLIT, "the costs that were given are of the whole graph");
        candidate_release(cut);
        return TN_OK;
    }
    graph_claim(f, TN_FIT_SPLIT, TN_CLAIM_FITS, "")->bytes = cut->result.bytes;
    cut->techniques = TN_FIT_SPLIT;
    cut->result.plain_bytes = f->whole.result.bytes;
    graph_take(f, cut);
    return TN_OK;
}

/* Tries operators in tiles, and records a claim. If this graph has no tiles that can keep to a
 * budget (E_UNSUPPORTED), the claim has the reason and the call succeeds: this is not an error,
 * because the caller only allowed the usual techniques. */
static tn_status graph_split(tn__graph_frame *f, uint32_t allow) {
    tn__candidate cut = {0}, made = {0};
    tn__refusal refusal = {0};
    uint32_t techniques = allow & (TN__FIT_PROGRAM | TN_FIT_SPLIT);
    /* without kernels, static tensors keep the form that they have in the graph, so tiles cannot
     * lower their bytes */
    bool as_they_are = tn_setup_kernels(f->whole.setup) == NULL;
    if (as_they_are && f->whole.fixed > f->search.budget) {
        graph_claim(f, techniques, TN_CLAIM_INFEASIBLE, "")->bytes_bound = f->whole.fixed;
        return TN_OK;
    }
    tn_status status = graph_cut(f, &cut);
    if (status == TN_E_UNSUPPORTED) {
        graph_claim_failed(f, TN_FIT_SPLIT, "this graph's operators do not run in parts");
        return TN_OK;
    }
    if (status == TN_OK && cut.setup == NULL) {
        graph_record_claim(f, techniques, TN_E_EXHAUSTED, &cut, &refusal);
        return TN_OK;
    }
    if (status == TN_OK && tn__candidate_costs(f, &cut) == TN_E_UNSUPPORTED)
        return graph_split_untimed(f, &cut);
    if (status == TN_OK) status = graph_fit_on(f, &cut, techniques, &made, &refusal);
    /* the refusal was proved for the chosen tiles only, so it is no proof */
    if (status == TN_E_INFEASIBLE) status = TN_E_EXHAUSTED;
    refusal.bound = 0;
    bool fails = status != TN_OK && status != TN_E_EXHAUSTED && status != TN_E_STOPPED;
    if (made.setup != NULL) {
        graph_beside(f, &made);
        made.shares = false; /* `cut`, which is released below, hands the costs over to `made` */
        cut.shares = true;
    }
    if (!fails) graph_record_claim(f, techniques, status, &made, &refusal);
    if (made.setup != NULL) graph_take(f, &made);
    candidate_release(&cut);
    return fails ? status : TN_OK;
}

/* --- weights that come from their file --- */

static void graph_read_streamed(const tn__graph_frame *f, tn__candidate *it, uint32_t techniques) {
    const tn_stream_result *streamed = tn_setup_streamed(it->setup);
    it->techniques = techniques;
    it->result.pass = "stream";
    candidate_read(it);
    /* the time with a cache of experts depends on the router's choices, so it is not known */
    if (streamed != NULL && tn_setup_experts(it->setup) == NULL) {
        it->result.time = streamed->time;
        it->result.plain_time = streamed->plain_time;
        it->result.stall = streamed->stall;
        it->result.rounds = streamed->rounds;
    }
    it->result.plain_bytes = f->whole.result.bytes;
}

static tn_status graph_stream(tn__graph_frame *f, uint32_t allow) {
    tn__candidate made = {0};
    tn_setup_options options = f->options;
    tn_setup_stream stream = {.budget = f->search.budget,
                              .bytes_per_s = f->request.storage_bytes_per_s,
                              .latency_s = f->request.storage_latency_s,
                              .parts = (allow & TN_FIT_SPLIT) != 0};
    uint32_t techniques = allow & (TN_FIT_SPLIT | TN_FIT_STREAM);
    if (stream.bytes_per_s == 0 && f->request.storage != NULL)
        TN_TRY(f->request.storage(f->request.self, &stream.bytes_per_s, f->error));
    if (stream.bytes_per_s == 0) stream.bytes_per_s = TN__PLAIN_STORAGE_PER_S;
    options.stream = &stream;
    /* costs = NULL means that costs are measured if they are needed */
    if (!stream.parts) options.costs = f->whole.costs;
    tn__refusal refusal;
    tn_status status =
        tn__setup_streamed_from(f->whole.setup, &options, &made.setup, &refusal, f->error);
    bool fails = status != TN_OK && !graph_is_none(status) && status != TN_E_STOPPED;
    if (fails) return status;
    /* answer->detail gets the sentence about the step that needs too much memory, but not from the
     * search for a hint */
    if (status != TN_OK && refusal.step[0] != '\0' && f->own->hint_ends_at == 0)
        snprintf(f->answer->detail, sizeof f->answer->detail, "with streamed weights, %.230s",
                 refusal.step);
    if (made.setup != NULL) graph_read_streamed(f, &made, techniques);
    graph_record_claim(f, techniques, status, &made, &refusal);
    if (made.setup != NULL) graph_take(f, &made);
    return TN_OK;
}

/* --- applicable sets --- */

/* Whether the graph is a training step, that is, has operators that write into static tensors. Its
 * weights may not be streamed and its operators not split. */
bool tn__graph_is_trained(const tn_graph *graph) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        if (tn_graph_tensor(graph, id)->flags & TN_TENSOR_UPDATED) return true;
    return false;
}

static bool graph_has_scratch(const tn__graph_frame *f) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn__options(&memory, sizeof memory, f->options.memory);
    return memory.workspaces != NULL || memory.workspaces_again != NULL || memory.claimed != NULL;
}

/* Returns the reason why a technique cannot be used for this graph; NULL if it can be used. */
const char *tn__graph_hinders(const tn__graph_frame *f, uint32_t technique) {
    bool given = f->options.given_program != NULL || f->options.given_kernels != NULL;
    if (f->options.divide != NULL) return "it is one rank of several";
    if (tn__rules_any(f->options.rules)) return "rules name operators of the whole graph";
    if (technique == TN_FIT_STREAM && f->request.arena) return "the budget is for the arena alone";
    if (given) return "a program or kernels that are given are of the whole graph";
    if (technique == TN_FIT_SPLIT && graph_has_scratch(f))
        return "the scratch that is given for each operator is of the whole graph";
    if (tn__graph_is_trained(f->graph)) return "it is a step of training";
    if (technique == TN_FIT_STREAM && f->options.no_kernels)
        return "weights are streamed in the form that kernels want, and there are none";
    return NULL;
}

/* Tries tiles or weight streaming. Records a claim with the reason if the technique cannot be
 * used. */
static tn_status graph_try(tn__graph_frame *f, uint32_t technique, uint32_t allow) {
    const char *hinders = tn__graph_hinders(f, technique);
    if ((allow & technique) == 0 || !graph_goes_on(f)) return TN_OK;
    if (hinders != NULL) {
        graph_claim(f, technique, TN_CLAIM_NOT_TRIED, hinders);
        return TN_OK;
    }
    if (graph_is_late(f)) {
        graph_claim(f, technique, TN_CLAIM_STOPPED, "");
        return TN_OK;
    }
    return technique == TN_FIT_SPLIT ? graph_split(f, allow) : graph_stream(f, allow);
}

/* Runs the search for one set of techniques. That the set has no answer is recorded as a claim and
 * is no error; the caller gets a message only if the search itself fails. */
static tn_status graph_set(tn__graph_frame *f, uint32_t technique, uint32_t allow) {
    tn_error *error = f->error, said = {0};
    f->error = &said;
    tn_status status =
        technique == TN__FIT_PROGRAM ? graph_program(f, allow) : graph_try(f, technique, allow);
    f->error = error;
    return status == TN_OK ? TN_OK : tn__fail_as(error, status, &said);
}

static tn_status graph_search(tn__graph_frame *f, uint32_t allow) {
    TN_TRY(graph_set(f, TN__FIT_PROGRAM, allow));
    TN_TRY(graph_set(f, TN_FIT_SPLIT, allow));
    return graph_set(f, TN_FIT_STREAM, allow);
}

static bool graph_keeps(const tn_fit_options *search) {
    return search->pass != NULL && strcmp(search->pass, "none") == 0;
}

/* --- hints --- */

/* Searches with the techniques `more` in addition to the allowed ones. The allowed ones alone were
 * not enough, so a success is due to `more`. The caller of this function keeps only the numbers of
 * the result, as a hint. */
static tn_status graph_hint_search(tn__graph_frame *f, uint32_t more) {
    uint32_t allow = f->answer->allowed | more;
    if (graph_keeps(&f->search)) f->search.pass = NULL;
    if (more & TN__FIT_PROGRAM) TN_TRY(graph_set(f, TN__FIT_PROGRAM, allow));
    if (more & (TN__FIT_PROGRAM | TN_FIT_SPLIT)) TN_TRY(graph_set(f, TN_FIT_SPLIT, allow));
    return graph_set(f, TN_FIT_STREAM, allow);
}

/* Whether the allowed techniques together with `more` meet the budget. Adds a hint if they do, or
 * if they come closer to the budget. */
static bool graph_hint(tn__graph_frame *f, uint32_t more) {
    tn_fit_answer *answer = f->answer;
    const tn__candidate least = f->least;
    const uint32_t claims = answer->claim_count;
    const uint64_t before = least.setup != NULL ? least.result.bytes : f->whole.result.bytes;
    tn_error *outer = f->error;
    f->least = (tn__candidate){0};
    f->error = NULL; /* a hint whose search failed is left out */
    double seconds = f->request.hint_seconds > 0 ? f->request.hint_seconds : GRAPH_HINT_S;
    f->own->hint_ends_at = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    tn_status status = graph_hint_search(f, more);
    const tn__candidate *it = f->best.setup != NULL ? &f->best : &f->least;
    bool fits = status == TN_OK && f->best.setup != NULL;
    bool helps = fits || (status == TN_OK && it->setup != NULL && it->result.bytes < before);
    if (helps && answer->hint_count < TN_HINTS_MAX) {
        const tn_fit_result *found = &it->result;
        bool timed = found->plain_time > 0 && found->time > 0;
        answer->hints[answer->hint_count++] = (tn_hint){
            .techniques = more,
            .fits = fits,
            .bytes = found->bytes,
            .more_time = timed ? (double)found->time / (double)found->plain_time - 1 : -1};
    }
    candidate_release(&f->best);
    candidate_release(&f->least);
    f->least = least;
    f->error = outer;
    f->own->hint_ends_at = 0;
    answer->claim_count = claims;
    return fits;
}

static void graph_hints(tn__graph_frame *f) {
    static const uint32_t more[] = {TN_FIT_ORDER | TN_FIT_RECOMPUTE, TN_FIT_SPLIT, TN_FIT_STREAM,
                                    TN_FIT_SPLIT | TN_FIT_STREAM};
    bool any = false;
    for (size_t i = 0; i < sizeof more / sizeof *more && !f->request.no_hints; i++) {
        uint32_t extra = more[i] & ~f->answer->allowed;
        bool both = i + 1 == sizeof more / sizeof *more;
        if (extra == 0 || (both && (any || extra != more[i]))) continue;
        bool graph = (extra & TN__FIT_PROGRAM) == 0;
        bool hindered = graph && tn__graph_hinders(f, extra) != NULL;
        if (!hindered && !graph_is_late(f)) any |= graph_hint(f, extra);
    }
}

/* --- the answer --- */

static void graph_give(tn_fit_answer *answer, const tn__candidate *it) {
    answer->result = it->result;
    answer->fixed_bytes = it->fixed;
    answer->costs = it->costs;
    answer->techniques = it->techniques;
}

/* With the option `arena`, subtracts the bytes of static memory from all claims and hints, so that
 * they count the arena alone. */
static void graph_take_apart(tn_fit_answer *answer) {
    uint64_t apart = answer->apart;
    for (uint32_t i = 0; i < answer->claim_count; i++) {
        tn_claim *claim = &answer->claims[i];
        claim->bytes -= claim->bytes > apart ? apart : claim->bytes;
        claim->bytes_bound -= claim->bytes_bound > apart ? apart : claim->bytes_bound;
    }
    for (uint32_t i = 0; i < answer->hint_count; i++)
        answer->hints[i].bytes -= answer->hints[i].bytes > apart ? apart : answer->hints[i].bytes;
}

/* Moves the candidates to the answer. Costs move together with the compiled model to which they
 * belong. */
void tn__graph_keep(tn__graph_frame *f) {
    tn_fit_answer *answer = f->answer;
    bool whole = graph_fits(f, &f->whole);
    const tn__candidate *given = whole                    ? &f->whole
                                 : f->best.setup != NULL  ? &f->best
                                 : f->least.setup != NULL ? &f->least
                                                          : &f->whole;
    if (given->setup != NULL) graph_give(answer, given);
    answer->whole = f->whole.setup;
    answer->setup = whole ? f->whole.setup : f->best.setup;
    answer->least = f->best.setup != NULL    ? f->best.setup
                    : f->least.setup != NULL ? f->least.setup
                                             : f->whole.setup;
    answer->whole_costs = f->whole.costs;
    answer->costs_seconds = f->costs_seconds;
    if (f->least.setup != NULL && answer->least != f->least.setup) tn_setup_destroy(f->least.setup);
    tn__candidate *all[] = {&f->whole, &f->best, &f->least};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!all[i]->shares && all[i]->costs != answer->costs && all[i] != &f->whole)
            tn_costs_destroy(all[i]->costs);
    graph_take_apart(answer);
}

/* Returns the verdict over all techniques that were allowed. A proof for a set of techniques also
 * covers its subsets, so the claim of the unchanged plan counts only if there is no other claim.
 * Techniques that cannot be used for this graph do not prevent a proof. */
static tn_status graph_verdict(const tn__graph_frame *f) {
    const tn_fit_answer *answer = f->answer;
    bool proved = answer->claim_count > 0, stopped = false;
    for (uint32_t i = 0; i < answer->claim_count; i++) {
        const tn_claim *claim = &answer->claims[i];
        if (claim->techniques == 0 && answer->claim_count > 1) continue;
        bool other = claim->kind == TN_CLAIM_NOT_TRIED;
        proved = proved && (claim->kind == TN_CLAIM_INFEASIBLE || other);
        stopped = stopped || claim->kind == TN_CLAIM_STOPPED;
    }
    return stopped ? TN_E_STOPPED : proved ? TN_E_INFEASIBLE : TN_E_EXHAUSTED;
}

/* Moves the candidates to the answer, and writes the error message of a refusal. */
static tn_status graph_refuse(tn__graph_frame *f) {
    tn_status status = graph_verdict(f);
    tn__ended ended = f->own->interrupted ? TN__ENDED_CALLER
                      : graph_is_late(f)  ? TN__ENDED_TIME
                                          : TN__ENDED_LIMIT;
    tn__graph_keep(f);
    *f = (tn__graph_frame){.answer = f->answer, .own = f->own, .error = f->error};
    return tn__claim_fail(f->answer, status, ended, &f->own->outer, f->error);
}

/* Fits one rank of several with a single compiled model: the stage FIT searches the program of all
 * ranks before the division, or, if the division arranges messages, the stage DIVIDE searches that
 * of the rank. */
static tn_status graph_divided(tn__graph_frame *f) {
    tn_setup_options options = f->options;
    tn_fit_options search = f->search;
    tn__candidate made = {0};
    search.allow = f->answer->allowed & TN__FIT_PROGRAM;
    options.fit = graph_keeps(&search) ? NULL : &search;
    TN_TRY(tn_setup_create(f->graph, &options, &made.setup, f->error));
    const tn_fit_result *fitted = tn_setup_fitted(made.setup);
    if (fitted != NULL) made.result = *fitted;
    candidate_read(&made);
    const bool fits = graph_fits(f, &made);
    uint64_t bound = fitted == NULL ? made.fixed + made.result.layout.lower_bound : 0;
    tn_claim *claim = graph_claim(f, fitted != NULL ? search.allow : 0,
                                  fits                    ? TN_CLAIM_FITS
                                  : bound > search.budget ? TN_CLAIM_INFEASIBLE
                                                          : TN_CLAIM_NOT_FOUND,
                                  "");
    claim->bytes = made.result.bytes;
    claim->bytes_bound = bound;
    *(fits ? &f->best : &f->least) = made;
    return fits ? TN_OK : graph_refuse(f);
}

tn_status tn__graph_rest(tn__graph_frame *f) {
    uint32_t allow = f->answer->allowed;
    if (graph_fits(f, &f->whole)) return TN_OK;
    TN_TRY(graph_search(f, allow));
    if (f->best.setup != NULL) return TN_OK;
    if (graph_verdict(f) != TN_E_STOPPED) graph_hints(f);
    return graph_refuse(f);
}

static tn_status graph_all(tn__graph_frame *f) {
    if (f->search.budget == 0) TN_FAIL(f->error, TN_E_INVALID, "a budget of 0 bytes holds nothing");
    if (f->options.divide != NULL) return graph_divided(f);
    TN_TRY(tn__graph_whole(f));
    return tn__graph_rest(f);
}

/* --- entry points --- */

static uint32_t graph_allowed(const tn_fit_options *search) {
    uint32_t allow = search->allow;
    bool link = search->to_host_bytes_per_s > 0 && search->from_host_bytes_per_s > 0;
    if (graph_keeps(search)) return allow & ~TN__FIT_PROGRAM;
    if (allow == 0 && search->pass != NULL) allow = TN_FIT_ORDER | TN_FIT_RECOMPUTE;
    if (allow == 0) allow = TN_FIT_USUAL;
    if (search->allow == 0 && link) allow |= TN_FIT_SWAP;
    if (allow & TN_FIT_LOSSY) allow |= TN_FIT_COMPRESS;
    return allow;
}

static tn_status graph_open(tn__graph_frame *f, tn_error *error) {
    tn_context outer = tn__context(f->search.context != NULL    ? f->search.context
                                   : f->options.context != NULL ? f->options.context
                                                                : tn_graph_context(f->graph));
    tn__graph_own *own = tn__alloc_array(&outer, 1, sizeof *own);
    if (own == NULL) return tn__no_memory(error, "an answer");
    *own = (tn__graph_own){.context = outer, .outer = outer, .keeps = graph_keeps(&f->search)};
    f->answer->ruled = tn__rules_any(f->options.rules);
    if (f->search.timeout_s > 0) own->deadline = tn__clock_s() + f->search.timeout_s;
    own->context.self = own;
    own->context.progress = graph_progress;
    own->context.log = outer.log != NULL ? graph_log : NULL;
    own->context.found = outer.found != NULL ? graph_found : NULL;
    f->own = f->answer->own = own;
    f->options.context = f->search.context = &own->context;
    tn__options(&f->plan, sizeof f->plan, f->options.plan);
    f->plan.struct_size = sizeof f->plan;
    f->plan.context = &own->context;
    f->options.plan = &f->plan;
    f->options.fit = NULL;
    f->options.split = NULL;
    f->options.stream = NULL;
    f->options.costs = NULL;
    f->options.make_costs = graph_costs;
    f->options.make_costs_self = f;
    f->search.live = false;
    f->search.zeros = NULL;
    return TN_OK;
}

tn_status tn__graph_begin(tn__graph_frame *f, const tn_graph *graph, const tn_fit_request *given,
                          tn_fit_answer *answer, tn_error *error) {
    *f = (tn__graph_frame){.graph = graph,
                           .request = TN_FIT_REQUEST_INIT,
                           .options = TN_SETUP_OPTIONS_INIT,
                           .search = TN_FIT_OPTIONS_INIT,
                           .plan = TN_PLAN_OPTIONS_INIT,
                           .answer = answer,
                           .error = error};
    *answer = (tn_fit_answer){0};
    tn__options(&f->request, sizeof f->request, given);
    tn__options(&f->options, sizeof f->options, f->request.setup);
    tn__options(&f->search, sizeof f->search, f->request.search);
    f->options.struct_size = sizeof f->options;
    f->search.struct_size = sizeof f->search;
    f->request.struct_size = sizeof f->request;
    if (f->request.storage_latency_s == 0) f->request.storage_latency_s = TN__READ_S;
    /* the pass is looked up even if no pass will run, so that an unknown name is always an error */
    const tn_pass *pass;
    if (f->search.pass != NULL) {
        TN_TRY(tn__pass_find(f->search.pass, &pass, error));
        f->search.pass = pass->name;
    }
    if (f->options.rules == NULL) f->options.rules = f->search.rules;
    answer->budget = f->search.budget;
    answer->host_budget = f->search.host_budget;
    answer->allowed = graph_allowed(&f->search);
    return graph_open(f, error);
}

tn_status tn_fit_graph(const tn_graph *graph, const tn_fit_request *given, tn_fit_answer *answer,
                       tn_error *error) {
    tn__graph_frame f;
    TN_TRY(tn__graph_begin(&f, graph, given, answer, error));
    tn_status status = graph_all(&f);
    if (f.graph != NULL) tn__graph_keep(&f);
    return status;
}

void tn_fit_answer_release(tn_fit_answer *answer) {
    tn__graph_own *own = answer->own;
    if (own == NULL) return;
    tn_context outer = own->outer;
    own->deadline = 0;
    if (answer->costs != answer->whole_costs)
        tn_costs_destroy((tn_costs *)(uintptr_t)answer->costs);
    tn_costs_destroy((tn_costs *)(uintptr_t)answer->whole_costs);
    if (answer->setup != answer->whole) tn_setup_destroy(answer->setup);
    if (answer->least != answer->setup && answer->least != answer->whole)
        tn_setup_destroy(answer->least);
    tn_setup_destroy(answer->whole);
    tn__free(&outer, own, sizeof *own);
    *answer = (tn_fit_answer){0};
}
