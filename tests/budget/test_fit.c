/* test_fit.c - budgets that are met: by random steps of training, at every budget from the least to
 * the plain program's; and what is told where they cannot be.
 */
#include "count.h"
#include "../random_graph.h"

#include "../train/drawn.h"

#include <tenure/fit.h>
#include <tenure/search.h>
#include <tenure/train.h>

#include "fit/budget/pass.h"

typedef struct fitted {
    tn_training training;
    tn_graph *graph; /* of the training */
    tn_program *program;
    tn_costs *costs;
} fitted;

static fitted fit_step(uint64_t seed) {
    net n;
    fitted it;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    model.flops_per_s = 1e9, model.bytes_per_s = 1e9;
    draw_net(&n, seed);
    assert_ok(tn_graph_infer(n.graph, &failure));
    assert_ok(tn_train(n.graph, &options, &it.training, &failure));
    it.graph = it.training.graph;
    net_close(&n);
    assert_ok(tn_program_create(it.graph, NULL, &it.program, &failure));
    assert_ok(tn_costs_create_model(it.graph, &model, &it.costs, &failure));
    return it;
}

static void fit_close(fitted *it) {
    tn_costs_destroy(it->costs);
    tn_program_destroy(it->program);
    tn_training_release(&it->training);
}

/* All that a result says of itself, looked at again. */
static void check_result(const fitted *it, const tn_fit_result *result,
                         const tn_fit_options *options) {
    assert_non_null(result->program);
    assert_ok(tn_program_verify(result->program, &failure));
    assert_ok(
        tn_layout_verify(tn_occupancy_problem(result->occupancy), &result->layout, NULL, &failure));
    assert_true(result->bytes == result->layout.peak + options->fixed_bytes);
    assert_true(result->live_bytes <= result->layout.peak);
    assert_true(result->time >= result->time_bound && result->time >= result->plain_time);
    assert_true(result->bytes >= result->bytes_bound);
    uint32_t outs = 0;
    for (uint32_t i = 0; i < tn_program_count(result->program); i++)
        outs += tn_program_instructions(result->program)[i].opcode == TN_SWAP_OUT;
    assert_int_equal(outs > 0, result->host != NULL);
    if (outs > 0) assert_ok(tn_layout_verify(result->host, &result->host_layout, NULL, &failure));
    (void)it;
}

static tn_fit_options quick(void) {
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    options.work_limit = 5000; /* of the search; what it finds is right whenever it ends */
    options.fixed_bytes = 1000;
    return options;
}

static void a_budget_is_met_by_the_layout(void **state) {
    (void)state;
    uint32_t met = 0, asked = 0;
    for (uint64_t seed = 1; seed <= case_count(4, 2); seed++) {
        fitted it = fit_step(seed);
        tn_fit_options options = quick();
        tn_fit_result least;
        assert_ok(tn_fit_least(it.program, it.costs, &options, &least, &failure));
        check_result(&it, &least, &options);
        for (uint64_t k = 0; k <= 4; k++) {
            tn_fit_result result;
            options.budget = least.bytes + (least.plain_bytes - least.bytes) * k / 4;
            failure = (tn_error){0};
            tn_status status = tn_fit(it.program, it.costs, &options, &result, &failure);
            if (status == TN_OK) assert_string_equal(failure.message, "");
            asked++;
            met += status == TN_OK;
            if (status == TN_OK && result.bytes > options.budget)
                fail_msg("seed %llu: %llu bytes of %llu", (unsigned long long)seed,
                         (unsigned long long)result.bytes, (unsigned long long)options.budget);
            assert_true(status == TN_OK || status == TN_E_EXHAUSTED);
            check_result(&it, &result, &options);
            if (k == 4) assert_true(status == TN_OK && result.time == result.plain_time);
            tn_fit_release(&result);
        }
        assert_true(least.bytes < least.plain_bytes);
        tn_fit_release(&least);
        fit_close(&it);
    }
    assert_true(met == asked); /* the least was found, so it is found again */
}

/* Who asks whether hears no, or a program within the budget; no does not look for the least. */
static void whether_anything_fits_is_told_quickly(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(4, 2); seed++) {
        fitted it = fit_step(seed);
        tn_fit_options options = quick();
        tn_fit_result least, result;
        assert_ok(tn_fit_least(it.program, it.costs, &options, &least, &failure));
        options.any = true;
        options.budget = least.bytes_bound - 1;
        assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure),
                         TN_E_INFEASIBLE);
        assert_null(result.program);
        assert_true(result.rounds <= 2); /* one for each order */
        tn_fit_release(&result);
        options.budget = (least.bytes + least.plain_bytes) / 2;
        failure = (tn_error){0};
        assert_ok(tn_fit(it.program, it.costs, &options, &result, &failure));
        assert_string_equal(failure.message, "");
        check_result(&it, &result, &options);
        assert_true(result.bytes <= options.budget);
        tn_fit_release(&result);
        tn_fit_release(&least);
        fit_close(&it);
    }
}

static void the_curve_never_rises_with_the_budget(void **state) {
    (void)state;
    enum { POINTS = 5 };
    for (uint64_t seed = 1; seed <= case_count(3, 2); seed++) {
        fitted it = fit_step(seed);
        tn_fit_options options = quick();
        uint64_t budgets[POINTS];
        tn_fit_result results[POINTS];
        if (seed % 2 == 0) {
            options.allow = TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP;
            options.to_host_bytes_per_s = options.from_host_bytes_per_s = 1e9;
        }
        assert_ok(tn_fit_sweep(it.program, it.costs, &options, POINTS, budgets, results, &failure));
        for (uint32_t i = 0; i < POINTS; i++) {
            check_result(&it, &results[i], &options);
            assert_true(results[i].bytes <= budgets[i]);
            if (i > 0)
                assert_true(budgets[i] >= budgets[i - 1] && results[i].time <= results[i - 1].time);
        }
        assert_true(results[POINTS - 1].time == results[POINTS - 1].plain_time);
        for (uint32_t i = 0; i < POINTS; i++) tn_fit_release(&results[i]);
        fit_close(&it);
    }
}

static void a_byte_less_than_the_least_is_refused(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(4, 2); seed++) {
        fitted it = fit_step(seed);
        tn_fit_options options = quick();
        tn_fit_result least, result;
        if (seed % 2 == 0) options.work_limit = 100000;
        assert_ok(tn_fit_least(it.program, it.costs, &options, &least, &failure));
        options.budget = least.bytes - 1;
        tn_status status = tn_fit(it.program, it.costs, &options, &result, &failure);
        if (status == TN_OK)
            fail_msg("seed %llu: the least is %llu, and %llu bytes do", (unsigned long long)seed,
                     (unsigned long long)least.bytes, (unsigned long long)result.bytes);
        assert_true(status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE);
        assert_true(result.program != NULL && result.bytes == least.bytes);
        tn_fit_release(&result);
        options.budget = least.bytes;
        assert_ok(tn_fit(it.program, it.costs, &options, &result, &failure));
        tn_fit_release(&result);
        tn_fit_release(&least);
        fit_close(&it);
    }
}

/* Times as another measurement would give them. */
static void measure_anew(fitted *it, uint64_t seed) {
    uint32_t count = tn_graph_op_count(it->graph);
    uint64_t *of = calloc(count + 1, sizeof *of);
    tn__random random = {.state = seed};
    assert_non_null(of);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t was = tn_costs_of(it->costs, i);
        of[i] = was / 2 + tn__random_below(&random, was + 1);
    }
    tn_costs_destroy(it->costs);
    assert_ok(tn_costs_given(NULL, it->graph, of, NULL, count, 1e9, &it->costs, &failure));
    free(of);
}

/* Whoever asks, for whatever, and however often times are measured: one number is the least, and an
 * answer takes a budget that is answered. */
static void the_least_is_one_number(void **state) {
    (void)state;
    static const uint32_t allows[] = {TN_FIT_ORDER | TN_FIT_RECOMPUTE, TN_FIT_RECOMPUTE,
                                      TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP,
                                      TN_FIT_RECOMPUTE | TN_FIT_COMPRESS | TN_FIT_LOSSY};
    const uint32_t seeds = case_count(6, 2);
    uint32_t refused = 0, answered = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        fitted it = fit_step(seed);
        tn_fit_options options = quick();
        tn_fit_result least;
        tn__random random = {.state = seed};
        options.allow = allows[seed % 4];
        options.to_host_bytes_per_s = options.from_host_bytes_per_s = 1e9;
        assert_ok(tn_fit_least(it.program, it.costs, &options, &least, &failure));
        for (uint32_t k = 0; k < 12; k++) {
            tn_fit_result result;
            uint64_t reach = (least.plain_bytes - least.bytes) >> (k % 6);
            bool below = k % 2 == 1;
            measure_anew(&it, seed + k);
            if (reach >= least.bytes) reach = least.bytes - 1;
            options.budget = below ? least.bytes - 1 - tn__random_below(&random, reach)
                                   : least.bytes + tn__random_below(&random, reach);
            tn_status status = tn_fit(it.program, it.costs, &options, &result, &failure);
            if ((status == TN_OK) == below)
                fail_msg("seed %llu: the least is %llu, and for %llu bytes: %s",
                         (unsigned long long)seed, (unsigned long long)least.bytes,
                         (unsigned long long)options.budget, tn_status_name(status));
            assert_true(result.bytes >= least.bytes);
            refused += below;
            answered += !below;
            tn_fit_release(&result);
        }
        tn_fit_release(&least);
        fit_close(&it);
    }
    assert_true(refused > 5 * seeds && answered > 5 * seeds);
}

/* --- more allowed --- */

enum { MORE_ALLOWS = 6, MORE_PASSES = 6 };
static const uint32_t more_allows[MORE_ALLOWS] = {
    TN_FIT_ORDER | TN_FIT_RECOMPUTE,
    TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP,
    TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_COMPRESS,
    TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP | TN_FIT_COMPRESS,
    TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_COMPRESS | TN_FIT_LOSSY,
    TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP | TN_FIT_COMPRESS | TN_FIT_LOSSY,
};
static const char *const more_passes[MORE_PASSES] = {"vdnn-all",   "vdnn-conv", "vdnn-dynamic",
                                                     "cost-aware", "capuchin",  "gist"};

/* UINT64_MAX: nothing was found. */
static uint64_t more_time(const fitted *it, tn_fit_options *options, const char *pass,
                          uint32_t allow) {
    tn_fit_result result;
    options->pass = pass;
    options->allow = allow;
    tn_status status = tn_fit(it->program, it->costs, options, &result, &failure);
    bool none = status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
    if (status != TN_OK && !none) fail_msg("%s", failure.message);
    if (status == TN_OK) check_result(it, &result, options);
    if (status == TN_OK) assert_true(result.bytes <= options->budget);
    uint64_t time = status == TN_OK ? result.time : UINT64_MAX;
    tn_fit_release(&result);
    return time;
}

static void more_compare(uint64_t less, uint64_t more, const char *what, uint64_t seed,
                         uint64_t budget) {
    if (more > less)
        fail_msg("seed %llu, %llu bytes: %llu ps with all that is allowed, %llu with %s",
                 (unsigned long long)seed, (unsigned long long)budget, (unsigned long long)more,
                 (unsigned long long)less, what);
}

/* Loss is the exception: what loses nothing is the answer, fast or not, where there is any. So one
 * that loses may be faster than one that does not and was allowed more. */
static bool more_compares(const uint64_t *times, uint32_t less, uint32_t more) {
    bool loses = less >= 4 && times[less - 2] == UINT64_MAX;
    bool loses_not = more < 4 || times[more - 2] != UINT64_MAX;
    return (more_allows[less] & ~more_allows[more]) == 0 && !(loses && loses_not);
}

static uint32_t more_at(const fitted *it, tn_fit_options *options, uint64_t seed) {
    uint64_t times[MORE_ALLOWS];
    uint32_t faster = 0;
    for (uint32_t i = 0; i < MORE_ALLOWS; i++) {
        times[i] = more_time(it, options, NULL, more_allows[i]);
        for (uint32_t k = 0; k < i; k++) {
            bool loss = (more_allows[i] ^ more_allows[k]) == TN_FIT_LOSSY;
            if (loss && times[k] != UINT64_MAX) assert_true(times[i] == times[k]);
            if (!more_compares(times, k, i)) continue;
            more_compare(times[k], times[i], "less", seed, options->budget);
            faster += times[i] < times[k];
        }
    }
    for (uint32_t i = 0; i < MORE_PASSES; i++) {
        uint64_t alone = more_time(it, options, more_passes[i], more_allows[i < 5 ? 1 : 2]);
        more_compare(alone, times[i < 5 ? 1 : 2], more_passes[i], seed, options->budget);
    }
    return faster;
}

static void more_allowed_is_never_slower(void **state) {
    (void)state;
    const uint32_t seeds = case_count(5, 2);
    uint32_t faster = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        fitted it = fit_step(seed);
        tn_fit_options options = quick();
        tn_fit_result least;
        options.work_limit = 2000;
        assert_ok(tn_fit_least(it.program, it.costs, &options, &least, &failure));
        for (uint64_t k = 0; k < 3; k++) {
            const uint64_t span = least.plain_bytes - least.bytes;
            options.budget = k == 0 ? least.bytes - least.bytes / 8 : least.bytes + span * k / 4;
            options.to_host_bytes_per_s = seed % 2 ? 3e8 : 3e9;
            options.from_host_bytes_per_s = seed % 3 ? 3e8 : 3e9;
            faster += more_at(&it, &options, seed);
        }
        tn_fit_release(&least);
        fit_close(&it);
    }
    print_message("%u times faster with more\n", faster);
    assert_true(faster > 4 * seeds);
}

/* A layout that takes far too much says how much less to ask for; where nothing was found in that,
 * what lies in between is asked for (by 1.243 of the plain time it was answered when it was not).
 */
static void between_too_much_and_nothing_something_is_found(void **state) {
    (void)state;
    fitted it = fit_step(17);
    tn_fit_options options = quick();
    tn_fit_result least, result;
    options.work_limit = 20000;
    assert_ok(tn_fit_least(it.program, it.costs, &options, &least, &failure));
    options.budget = least.bytes + (least.plain_bytes - least.bytes) / 8;
    assert_ok(tn_fit(it.program, it.costs, &options, &result, &failure));
    check_result(&it, &result, &options);
    assert_true((double)result.time < 1.235 * (double)result.plain_time);
    tn_fit_release(&result);
    tn_fit_release(&least);
    fit_close(&it);
}

/* Where the answer for more bytes is of no use, starts are in the program's order again, not in
 * that of the answer: a line in the one with runs again of the other ended the process. */
static void an_answer_that_cannot_be_mended_is_forgotten(void **state) {
    (void)state;
    fitted it = fit_step(35);
    tn_fit_options options = quick();
    tn_fit_result least, result;
    options.work_limit = 20000;
    assert_ok(tn_fit_least(it.program, it.costs, &options, &least, &failure));
    for (uint64_t k = 1; k < 8; k++) {
        options.budget = least.bytes + (least.plain_bytes - least.bytes) * k / 24;
        assert_ok(tn_fit(it.program, it.costs, &options, &result, &failure));
        check_result(&it, &result, &options);
        tn_fit_release(&result);
    }
    tn_fit_release(&least);
    fit_close(&it);
}

/* --- what a search spends --- */

#define SPENT_OPS 1000u

/* A chain whose operators read what others made long before. */
static char *spent_problem(void) {
    tn__random random = {.state = 1};
    tn__text text;
    tn_context context = tn__context(NULL);
    tn__text_init(&text, &context);
    tn__text_put(&text, "{\"values\": [{\"bytes\": 64}");
    for (uint32_t i = 1; i < SPENT_OPS; i++)
        tn__text_printf(&text, ", {\"bytes\": %u}", 1 + (uint32_t)tn__random_below(&random, 98));
    tn__text_put(&text, "], \"operators\": [{\"cost\": 1, \"outputs\": [0]}");
    for (uint32_t i = 1; i < SPENT_OPS; i++) {
        uint32_t cost = 1 + (uint32_t)tn__random_below(&random, 8);
        tn__text_printf(&text, ", {\"cost\": %u, \"inputs\": [%u", cost, i - 1);
        if (i > 1) tn__text_printf(&text, ", %u", (uint32_t)tn__random_below(&random, i - 1));
        tn__text_printf(&text, "], \"outputs\": [%u]}", i);
    }
    tn__text_put(&text, "]}");
    assert_false(text.failed);
    return text.data;
}

/* Passes beside joint know no end of their own: capuchin looks at all actions for each choice. */
static void a_search_ends_by_itself(void **state) {
    const uint64_t effort = 12000000 + 4000 * (uint64_t)SPENT_OPS;
    (void)state;
    char *json = spent_problem();
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_fit_result result;
    fitted it;
    assert_ok(tn_fit_problem_load_memory("p.json", json, strlen(json), NULL, &it.graph, &it.costs,
                                         &failure));
    assert_ok(tn_program_create(it.graph, NULL, &it.program, &failure));
    memory.alignment = 1;
    options.memory = &memory;
    options.live = true;
    options.budget = 1 << 30;
    assert_ok(tn_fit(it.program, it.costs, &options, &result, &failure));
    options.budget = result.bytes * 7 / 10;
    tn_fit_release(&result);
    options.allow = TN_FIT_SWAP;
    options.to_host_bytes_per_s = options.from_host_bytes_per_s = 1000;
    assert_ok(tn_fit(it.program, it.costs, &options, &result, &failure));
    print_message("%u rounds, %.1f times the effort of each\n", result.rounds,
                  (double)result.work / (double)(result.rounds * effort));
    assert_true(result.rounds > 1 && result.work / result.rounds < 3 * effort / 2);
    tn_fit_release(&result);
    tn_costs_destroy(it.costs);
    tn_program_destroy(it.program);
    tn_graph_destroy(it.graph);
    free(json);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    fitted it = fit_step(3), other = fit_step(4);
    const char *const nothing[] = {"no such operator*"};
    tn_fit_result result;
    tn_fit_options options = quick();
    assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure), TN_E_INVALID);
    options.budget = 500; /* below what is always there */
    assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure), TN_E_INFEASIBLE);
    assert_true(result.program != NULL && result.bytes > 500);
    tn_fit_release(&result);
    options.budget = 1064; /* one line beside it */
    assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure), TN_E_INFEASIBLE);
    assert_true(result.bytes_bound > 1064);
    tn_fit_release(&result);
    options.budget = 1 << 20;
    assert_int_equal(tn_fit(it.program, other.costs, &options, &result, &failure), TN_E_INVALID);
    options.pass = "nobody";
    assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure), TN_E_UNKNOWN);
    options.pass = NULL;
    options.allow = TN_FIT_SWAP; /* without a link */
    assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure), TN_E_INVALID);
    options.to_host_bytes_per_s = -1;
    assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure), TN_E_INVALID);
    options = quick();
    options.budget = 1 << 20;
    options.segments = nothing, options.segment_count = 1;
    assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure), TN_E_INVALID);
    fit_close(&it), fit_close(&other);
}

static void check_bound(const tn_error *error, uint64_t bound) {
    char words[128], size[TN_SIZE_TEXT_MAX];
    snprintf(words, sizeof words, ", and none takes less than %s", tn_size_format(bound, size));
    if (strstr(error->message, words) == NULL) fail_msg("%s: %s", words, error->message);
}

/* One byte less than the least: if that is not proved, tn_fit and tn_fit_graph state the bound. */
static void a_refusal_without_a_proof_has_the_bound(void **state) {
    (void)state;
    uint32_t unproved = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        fitted it = fit_step(seed);
        tn_fit_options options = quick();
        tn_fit_result result;
        tn_fit_request request = TN_FIT_REQUEST_INIT;
        tn_setup_options setup = TN_SETUP_OPTIONS_INIT;
        tn_fit_answer answer;
        options.fixed_bytes = 0;
        options.allow = TN_FIT_ORDER | TN_FIT_RECOMPUTE;
        assert_ok(tn_fit_least(it.program, it.costs, &options, &result, &failure));
        options.budget = result.bytes - 1;
        tn_fit_release(&result);
        tn_status status = tn_fit(it.program, it.costs, &options, &result, &failure);
        assert_true(status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE);
        if (status == TN_E_EXHAUSTED) check_bound(&failure, result.bytes_bound);
        unproved += status == TN_E_EXHAUSTED;
        tn_fit_release(&result);
        setup.no_kernels = request.no_hints = true;
        request.setup = &setup;
        request.search = &options;
        for (uint64_t budget = 1; budget > 0;) {
            options.budget = budget;
            status = tn_fit_graph(it.graph, &request, &answer, &failure);
            const tn_claim *claim = &answer.claims[answer.claim_count - 1];
            assert_true(status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE);
            assert_int_equal(claim->techniques, options.allow);
            if (status == TN_E_EXHAUSTED) check_bound(&failure, claim->bytes_bound);
            unproved += status == TN_E_EXHAUSTED;
            budget = budget == 1 ? claim->bytes - 1 : 0;
            tn_fit_answer_release(&answer);
        }
        fit_close(&it);
    }
    print_message("%u refusals without a proof\n", unproved);
    assert_true(unproved >= 2);
}

static bool stop_now(void *self, const char *stage, uint64_t done, uint64_t total) {
    (void)stage, (void)done, (void)total;
    return --*(int *)self > 0;
}

/* Whenever the caller ends it: the best so far, or that there is none; never something else. */
static void a_search_may_be_interrupted(void **state) {
    (void)state;
    fitted it = fit_step(5);
    tn_fit_options options = quick();
    tn_fit_result least, result;
    assert_ok(tn_fit_least(it.program, it.costs, &options, &least, &failure));
    options.work_limit = 0;
    options.budget = least.bytes + (least.plain_bytes - least.bytes) / 8;
    for (int at = 1; at < 40; at += 3) {
        int steps_left = at;
        tn_context context = TN_CONTEXT_INIT;
        context.self = &steps_left;
        context.progress = stop_now;
        options.context = &context;
        tn_status status = tn_fit(it.program, it.costs, &options, &result, &failure);
        assert_true(status == TN_OK || status == TN_E_EXHAUSTED || status == TN_E_STOPPED);
        if (status == TN_OK) assert_true(result.bytes <= options.budget);
        if (status == TN_E_STOPPED) assert_non_null(strstr(failure.message, "interrupted"));
        if (result.program != NULL) assert_ok(tn_program_verify(result.program, &failure));
        tn_fit_release(&result);
    }
    tn_fit_release(&least);
    fit_close(&it);
}

/* So may a curve: the points that are left are the best of those before. */
static void a_curve_may_be_interrupted(void **state) {
    (void)state;
    enum { POINTS = 4 };
    uint32_t stopped = 0;
    fitted it = fit_step(5);
    tn_fit_options options = quick();
    options.work_limit = 0;
    for (int at = 1; at < 100; at += 1 + at / 2) {
        int steps_left = at;
        uint64_t budgets[POINTS];
        tn_fit_result results[POINTS];
        tn_context context = TN_CONTEXT_INIT;
        context.self = &steps_left;
        context.progress = stop_now;
        options.context = &context;
        assert_ok(tn_fit_sweep(it.program, it.costs, &options, POINTS, budgets, results, &failure));
        for (uint32_t i = 0; i < POINTS; i++) {
            check_result(&it, &results[i], &options);
            assert_true(results[i].bytes <= budgets[i]);
            if (i > 0) assert_true(results[i].time <= results[i - 1].time);
            stopped += results[i].stopped;
        }
        for (uint32_t i = 0; i < POINTS; i++) tn_fit_release(&results[i]);
    }
    assert_true(stopped > 0);
    fit_close(&it);
}

static bool allocations_fail(const fitted *it, tn_fit_options *options) {
    tn_status status = TN_E_NO_MEMORY;
    bool swapped = false;
    for (uint64_t at = 1; status != TN_OK; at += 1 + at / 8) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_fit_result result;
        options->context = &context;
        status = tn_fit(it->program, it->costs, options, &result, NULL);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        swapped |= result.host != NULL;
        tn_fit_release(&result);
        assert_true(memory.held == 0);
        if (memory.requests < at) break;
    }
    options->context = NULL;
    return swapped;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    fitted it = fit_step(2);
    tn_fit_options options = quick();
    tn_fit_result least;
    options.work_limit = 500;
    options.pass = "vdnn-all";
    options.allow = TN_FIT_SWAP;
    options.to_host_bytes_per_s = options.from_host_bytes_per_s = 1e9;
    assert_ok(tn_fit_least(it.program, it.costs, &options, &least, &failure));
    options.budget = (least.bytes + least.plain_bytes) / 2;
    tn_fit_release(&least);
    assert_true(allocations_fail(&it, &options));
    options.pass = NULL; /* several searches */
    options.allow = more_allows[3];
    allocations_fail(&it, &options);
    fit_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_is_met_by_the_layout),
        cmocka_unit_test(whether_anything_fits_is_told_quickly),
        cmocka_unit_test(the_curve_never_rises_with_the_budget),
        cmocka_unit_test(a_byte_less_than_the_least_is_refused),
        cmocka_unit_test(the_least_is_one_number),
        cmocka_unit_test(more_allowed_is_never_slower),
        cmocka_unit_test(an_answer_that_cannot_be_mended_is_forgotten),
        cmocka_unit_test(between_too_much_and_nothing_something_is_found),
        cmocka_unit_test(a_search_ends_by_itself),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_refusal_without_a_proof_has_the_bound),
        cmocka_unit_test(a_search_may_be_interrupted),
        cmocka_unit_test(a_curve_may_be_interrupted),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
