/* test_budget.c - stages of a pipeline that keep to a budget, beside parts of layers, of batches
 * and of what is kept: the same bits as without one, every rank within it, what ranks say to each
 * other the same in the same order. */
#define STEPS 4
#include "count.h"
#include "staged.h"

#include <tenure/fit.h>
#include <tenure/search.h>

#define WAYS 5

/* A division of a network among at most 8 ranks. */
static way draw(tn__random *random, tn_shard *shard) {
    static const uint32_t keeps[] = {TRANSFORMER, CNN, UNET}; /* others hardly anything but sums */
    way how = {.which = keeps[tn__random_below(random, 3)], .tensor = 1, .pieces = 1};
    bool whole = how.which == UNET; /* its channels are too few to be cut */
    how.data = 1 + (uint32_t)tn__random_below(random, 2);
    if (!whole) how.tensor = 1 + (uint32_t)tn__random_below(random, 2);
    how.stages = 2 + (uint32_t)tn__random_below(random, how.data * how.tensor < 3 ? 3 : 1);
    if (how.stages == 2) how.pieces = 1 + (uint32_t)tn__random_below(random, 2);
    how.rounds = how.stages + (uint32_t)tn__random_below(random, 3);
    if (how.pieces > 1) how.rounds = how.stages * (1 + (uint32_t)tn__random_below(random, 2));
    how.schedule = (tn_pipeline)tn__random_below(random, TN_PIPELINE_COUNT);
    how.sequence = how.tensor > 1 && how.which == TRANSFORMER && tn__random_below(random, 2);
    how.whole = how.tensor > 1 && tn__random_below(random, 2);
    *shard = how.data > 1 ? (tn_shard)tn__random_below(random, TN_SHARD_COUNT) : TN_SHARD_NONE;
    return how;
}

static const char *told(const way *how, tn_shard shard) {
    static char text[200];
    snprintf(text, sizeof text,
             "%-12s data %u, tensor %u%s, %u stages of %u, %u micro-batches, %s, shard %s",
             names[how->which], how->data, how->tensor, how->sequence ? " with sequences" : "",
             how->stages, how->pieces, how->rounds, tn_pipeline_name(how->schedule),
             tn_shard_name(shard));
    return text;
}

/* Whether all ranks fit in so much of what each takes of its own accord; then nothing else has
 * changed. */
static bool fits(const task *plain, uint32_t percent) {
    const tn_grid grid = grid_of(&plain->how);
    task it = {.how = plain->how, .shard = plain->shard, .early = plain->early};
    tn_error error = {0};
    uint64_t before = 0, after = 0;
    for (uint32_t r = 0; r < tn_grid_ranks(&grid); r++)
        it.budget[r] = plain->statics[r] + plain->peak[r] * percent / 100;
    tn_status status = try_ranks(&it, &error);
    if (status == TN_E_INFEASIBLE || status == TN_E_EXHAUSTED) {
        if (strstr(error.message, "the least found takes") == NULL) fail_msg("%s", error.message);
        return false;
    }
    if (status != TN_OK)
        fail_msg("%s at %u: %s: %s", told(&it.how, it.shard), percent, error.where, error.message);
    for (uint32_t r = 0; r < tn_grid_ranks(&grid); r++) {
        assert_true(it.peak[r] + it.statics[r] <= it.budget[r]);
        assert_int_equal(it.statics[r], plain->statics[r]);
        assert_int_equal(it.direct[r], plain->direct[r]);
        before += plain->peak[r];
        after += it.peak[r];
    }
    printf("%s: at %u %% %llu of %llu bytes\n", told(&it.how, it.shard), percent,
           (unsigned long long)after, (unsigned long long)before);
    assert_true(apart(&plain->got, &it.got) == 0);
    forget(&it.got);
    return true;
}

static void a_budget_changes_no_bit(void **state) {
    const uint32_t ways = case_count(WAYS, 1);
    uint32_t met = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= ways; seed++) {
        tn__random random = {.state = seed * UINT64_C(0x9e3779b97f4a7c15)};
        task plain = {.early = seed % 2};
        tn_error error = {0};
        plain.how = draw(&random, &plain.shard);
        if (try_ranks(&plain, &error) != TN_OK)
            fail_msg("seed %llu: %s: %s: %s", (unsigned long long)seed,
                     told(&plain.how, plain.shard), error.where, error.message);
        bool more = true;
        for (uint32_t percent = 95; percent > 80 && more; percent -= 12) {
            more = fits(&plain, percent);
            met += more;
        }
        forget(&plain.got);
    }
    printf("%u budgets of %u ways were met\n", met, ways);
    assert_true(met >= ways);
}

/* --- what is said --- */

static bool talks(const tn_instruction *it) {
    return it->opcode >= TN_SEND && it->opcode <= TN_SCATTER;
}

/* What one says, the other says in the same order; its operators run in the same order the first
 * time. */
static void assert_same_said(const tn_program *a, const tn_program *b) {
    const tn_instruction *x = tn_program_instructions(a), *y = tn_program_instructions(b);
    uint32_t at = 0, count = tn_program_count(b), again = 0;
    for (uint32_t i = 0; i < tn_program_count(a); i++) {
        if (!talks(&x[i])) continue;
        while (at < count && !talks(&y[at])) at++;
        assert_true(at < count);
        assert_int_equal(x[i].opcode, y[at].opcode);
        assert_int_equal(x[i].tensor, y[at].tensor);
        assert_int_equal(x[i].other, y[at].other);
        assert_int_equal(x[i].peer, y[at].peer);
        assert_int_equal(x[i].tag, y[at].tag);
        assert_int_equal(x[i].group, y[at].group);
        assert_int_equal(x[i].stream, y[at++].stream);
    }
    for (; at < count; at++) assert_false(talks(&y[at]));
    for (uint32_t i = 0; i < count; i++) again += y[i].opcode == TN_DROP;
    assert_true(again > 0); /* it is another program */
}

/* With less memory: for at most a share of work more, or the least that fit answers. */
static tn_program *lower(kit_run *run, const tn_program *plain, double share) {
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
    tn_recompute_report report;
    tn_fit_result result;
    tn_program *less;
    tn_costs *costs;
    if (share > 0) {
        again.share = share;
        kit_must(run, tn_program_recompute(plain, &again, &less, &report, &run->error));
        assert_true(report.after < report.before && report.share <= share);
        return less;
    }
    model.flops_per_s = 8e9;
    model.bytes_per_s = 1e9;
    kit_must(run, tn_costs_create_model(tn_program_graph(plain), &model, &costs, &run->error));
    kit_must(run, tn_fit_least(plain, costs, &options, &result, &run->error));
    assert_true(result.bytes < result.plain_bytes);
    less = result.program;
    result.program = NULL;
    tn_fit_release(&result);
    tn_costs_destroy(costs);
    return less;
}

/* The program of a rank, and in *less another one with less memory. */
static void make_programs(staged *it, const way *how, uint32_t number, double share,
                          tn_program **plain, tn_program **less) {
    kit_run *run = &it->run;
    tn_program *all;
    begin_alone(it, how, number);
    it->grid.data = how->data;
    kit_must(run, step_of(it, &run->error));
    kit_must(run, tn_program_create(it->step.graph, NULL, &all, &run->error));
    kit_must(run, divide(it, all, plain, &run->error));
    *less = lower(run, *plain, share);
    tn_program_destroy(all);
}

/* Each rank is fitted by itself, whatever others do: any of them beside any others. */
static void hold(const way *how, double share) {
    const tn_grid grid = grid_of(how);
    const uint32_t ranks = tn_grid_ranks(&grid);
    tn_program *plain[RANKS_MOST], *less[RANKS_MOST];
    const tn_program *some[RANKS_MOST];
    tn_error error = {0};
    staged *all = calloc(RANKS_MOST, sizeof *all);
    for (uint32_t r = 0; r < ranks; r++) {
        make_programs(&all[r], how, r, share, &plain[r], &less[r]);
        assert_same_said(plain[r], less[r]);
    }
    for (uint32_t set = 0; set < 1u << ranks; set++) {
        for (uint32_t r = 0; r < ranks; r++) some[r] = set >> r & 1 ? less[r] : plain[r];
        if (tn_programs_verify(some, ranks, &error) != TN_OK)
            fail_msg("set %u: %s: %s", set, error.where, error.message);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        tn_program_destroy(plain[r]);
        tn_program_destroy(less[r]);
        close_rank(&all[r]);
    }
    free(all);
}

static void programs_that_fit_hold_together(void **state) {
    const tn_pipeline back = TN_PIPELINE_ONE_BACK, ahead = TN_PIPELINE_ALL_AHEAD;
    (void)state;
    hold(&(way){TRANSFORMER, 1, 4, 1, 4, back, false, 1, false, false}, 0);
    hold(&(way){TRANSFORMER, 2, 2, 1, 2, back, false, 2, true, false}, 0);
    hold(&(way){UNET, 1, 2, 2, 4, back, false, 1, false, false}, 0);
    hold(&(way){MLP, 1, 3, 1, 4, ahead, false, 2, false, false}, 0);
    hold(&(way){TRANSFORMER, 1, 2, 1, 2, back, false, 2, true, false}, 0.3);
    hold(&(way){UNET, 1, 3, 1, 4, back, false, 1, false, false}, 0.3);
}

/* --- what cannot be --- */

static void what_a_pass_has_made_is_not_fitted_again(void **state) {
    const way how = {TRANSFORMER, 1, 2, 1, 2, TN_PIPELINE_ONE_BACK, false, 1, false, false};
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    tn_fit_result result = {0};
    tn_program *plain, *less;
    tn_costs *costs;
    staged one;
    (void)state;
    make_programs(&one, &how, 0, 0, &plain, &less);
    model.flops_per_s = model.bytes_per_s = 1e9;
    kit_must(&one.run, tn_costs_create_model(one.step.graph, &model, &costs, &one.run.error));
    options.budget = 1;
    tn_error error = {0};
    tn_status status = tn_fit(less, costs, &options, &result, &error);
    assert_int_equal(status, TN_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "is not fitted again"));
    tn_fit_release(&result);
    options.allow = TN_FIT_ORDER; /* ranks keep theirs */
    assert_int_equal(tn_fit(plain, costs, &options, &result, &error), TN_E_UNSUPPORTED);
    tn_fit_release(&result);
    tn_costs_destroy(costs);
    tn_program_destroy(plain);
    tn_program_destroy(less);
    close_rank(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_budget_changes_no_bit),
                                       cmocka_unit_test(programs_that_fit_hold_together),
                                       cmocka_unit_test(what_a_pass_has_made_is_not_fitted_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
