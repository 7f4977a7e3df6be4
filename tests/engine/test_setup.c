/* test_setup.c - the corridor: what it makes is what its stages make one by one; entered again it
 * makes only what follows; nothing is left behind, whoever goes first.
 */
#define GRAPH_DTYPE TN_INT32
#include "count.h"
#include "../random_graph.h"

#include <tenure/engine.h>

#define SEEDS case_count(60, 8)

static bool same_layout(const tn_layout *a, const tn_layout *b) {
    return a->body_count == b->body_count && a->peak == b->peak &&
           (a->body_count == 0 ||
            memcmp(a->offset, b->offset, a->body_count * sizeof *a->offset) == 0);
}

static bool same_program(const tn_program *a, const tn_program *b) {
    if (tn_program_count(a) != tn_program_count(b)) return false;
    const tn_instruction *x = tn_program_instructions(a), *y = tn_program_instructions(b);
    for (uint32_t i = 0; i < tn_program_count(a); i++)
        if (x[i].opcode != y[i].opcode || x[i].op != y[i].op || x[i].tensor != y[i].tensor)
            return false;
    return true;
}

static void it_is_its_stages_one_by_one(void **state) {
    (void)state;
    const char *orders[] = {"file", "memory", "auto"};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        tn_graph *graph = random_graph(seed, seed % 2);
        tn_setup_options options = TN_SETUP_OPTIONS_INIT;
        tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
        tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
        tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
        tn_setup *setup;
        tn_graph *better;
        tn_kernels *kernels;
        tn_program *ordered;
        tn_occupancy *occupancy;
        tn_layout layout;
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(tn_graph_rewrite(graph, &rewrite, &better, &failure));
        assert_ok(tn_kernels_create(better, NULL, &kernels, &failure));
        program.order = orders[seed % 3];
        memory.workspaces = tn_kernels_workspaces(kernels);
        memory.fuse_concat = seed % 4 == 0;
        assert_ok(tn_program_plan(better, &program, &memory, NULL, &ordered, &occupancy, &layout,
                                  &failure));
        options.rewrite = &rewrite;
        options.program = &program;
        options.memory = &memory;
        memory.workspaces = NULL;
        assert_ok(tn_setup_create(graph, &options, &setup, &failure));
        assert_ptr_equal(tn_setup_given(setup), graph);
        if (!same_program(ordered, tn_setup_program(setup)) ||
            !same_layout(&layout, tn_setup_layout(setup)))
            fail_msg("seed %llu: another plan\n", (unsigned long long)seed);
        tn_setup_needs needs = tn_setup_need(setup);
        assert_int_equal(needs.arena, layout.peak);
        assert_int_equal(needs.statics, tn_engine_static_bytes(ordered, kernels));
        assert_int_equal(needs.total, needs.arena + needs.statics);
        assert_null(tn_setup_recomputed(setup));
        tn_setup_destroy(setup);
        tn_layout_release(&layout);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(ordered);
        tn_kernels_destroy(kernels);
        tn_graph_destroy(better);
        tn_graph_destroy(graph);
    }
}

/* What a set-up has from the stages before `stage` is the base's own. */
static void assert_shared(const tn_setup *made, const tn_setup *base, tn_setup_stage stage) {
    bool again = tn_setup_recomputed(base) != NULL;
    tn_setup_stage last = again ? TN_SETUP_RECOMPUTE : TN_SETUP_ORDER;
    assert_int_equal(tn_setup_graph(made) == tn_setup_graph(base), stage > TN_SETUP_REWRITE);
    if (stage > TN_SETUP_KERNELS) assert_ptr_equal(tn_setup_kernels(made), tn_setup_kernels(base));
    assert_int_equal(tn_setup_program(made) == tn_setup_program(base), stage > last);
    assert_int_equal(tn_setup_occupancy(made) == tn_setup_occupancy(base), stage > TN_SETUP_OCCUPY);
    assert_ptr_not_equal(tn_setup_layout(made), tn_setup_layout(base));
    for (tn_setup_stage s = 0; s < stage; s++) assert_true(tn_setup_seconds(made, s) == 0);
}

static void entered_again_it_shares_what_comes_before(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        tn_graph *graph = random_graph(seed, seed % 2);
        tn_setup_options options = TN_SETUP_OPTIONS_INIT;
        tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
        tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
        tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
        tn_setup *made[TN_SETUP_STAGE_COUNT + 1];
        assert_ok(tn_graph_infer(graph, &failure));
        options.rewrite = &rewrite;
        options.recompute = &again;
        options.program = &program;
        program.order = "auto";
        again.share = seed % 3 == 0 ? 0.5 : 0;
        assert_ok(tn_setup_create(graph, &options, &made[0], &failure));
        assert_int_equal(tn_setup_recomputed(made[0]) != NULL, seed % 3 == 0);
        for (tn_setup_stage stage = 0; stage < TN_SETUP_STAGE_COUNT; stage++) {
            assert_ok(tn_setup_from(made[stage], stage, &options, &made[stage + 1], &failure));
            assert_shared(made[stage + 1], made[stage], stage);
            assert_true(same_program(tn_setup_program(made[0]), tn_setup_program(made[stage + 1])));
            assert_true(same_layout(tn_setup_layout(made[0]), tn_setup_layout(made[stage + 1])));
        }
        tn__random random = {seed}; /* whoever goes first */
        for (uint32_t left = TN_SETUP_STAGE_COUNT + 1; left > 0; left--) {
            uint32_t at = (uint32_t)tn__random_below(&random, left);
            tn_setup_destroy(made[at]);
            made[at] = made[left - 1];
            if (left == 1) break;
            const tn_setup *other = made[tn__random_below(&random, left - 1)];
            assert_ok(tn_layout_verify(tn_occupancy_problem(tn_setup_occupancy(other)),
                                       tn_setup_layout(other), NULL, &failure));
        }
        tn_graph_destroy(graph);
    }
}

static void one_decision_changes_what_follows_it(void **state) {
    (void)state;
    tn_graph *graph = random_graph(7, false);
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_setup *base, *naive, *unplanned, *own;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(tn_setup_create(graph, NULL, &base, &failure));
    options.without_reuse = true;
    assert_ok(tn_setup_from(base, TN_SETUP_OCCUPY, &options, &naive, &failure));
    tn_memory_summary summary = tn_occupancy_summary(tn_setup_occupancy(naive));
    uint64_t arena = tn_setup_need(naive).arena; /* the last one's end is not aligned */
    assert_true(arena <= summary.naive && arena + 64 > summary.naive);
    assert_true(tn_setup_need(base).arena < arena);
    assert_ptr_equal(tn_setup_program(naive), tn_setup_program(base));
    options.without_reuse = false;
    options.unplanned = true;
    assert_ok(tn_setup_from(base, TN_SETUP_ORDER, &options, &unplanned, &failure));
    assert_null(tn_setup_layout(unplanned));
    /* what is there already: kernels, and a program of instructions; then it is planned */
    tn_program *copy;
    const tn_program *program = tn_setup_program(unplanned);
    assert_ok(tn_program_from(graph, tn_program_instructions(program), tn_program_count(program),
                              tn_program_regions(program), tn_program_region_count(program), &copy,
                              &failure));
    options = (tn_setup_options)TN_SETUP_OPTIONS_INIT;
    options.given_kernels = tn_setup_kernels(base);
    options.given_program = copy;
    options.plan = &plan;
    plan.planner = "greedy-by-size";
    assert_ok(tn_setup_create(graph, &options, &own, &failure));
    assert_ptr_equal(tn_setup_kernels(own), tn_setup_kernels(base));
    assert_ptr_equal(tn_setup_program(own), copy);
    assert_string_equal(tn_setup_layout(own)->planner, "greedy-by-size");
    tn_setup_destroy(own);
    tn_program_destroy(copy);
    tn_setup_destroy(unplanned);
    tn_setup_destroy(naive);
    tn_setup_destroy(base);
    tn_graph_destroy(graph);
}

static void what_cannot_run_is_not_opened(void **state) {
    (void)state;
    tn_graph *graph = random_graph(7, false);
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_setup *setup, *base;
    tn_engine *engine = NULL;
    assert_ok(tn_graph_infer(graph, &failure));
    options.no_kernels = options.unplanned = true;
    assert_ok(tn_setup_create(graph, &options, &setup, &failure));
    assert_null(tn_setup_kernels(setup));
    assert_int_equal(tn_setup_open(setup, NULL, NULL, &engine, &failure), TN_E_INVALID);
    tn_setup_destroy(setup);
    options.no_kernels = false;
    assert_ok(tn_setup_create(graph, &options, &base, &failure));
    assert_int_equal(tn_setup_open(base, NULL, NULL, &engine, &failure), TN_E_INVALID);
    assert_ok(tn_setup_from(base, TN_SETUP_PLAN, NULL, &setup, &failure));
    device.capacity = tn_setup_need(setup).total - 1;
    assert_int_equal(tn_setup_open(setup, &device, NULL, &engine, &failure), TN_E_EXHAUSTED);
    assert_non_null(strstr(failure.message, "would do"));
    assert_int_equal(tn_setup_from(base, TN_SETUP_STAGE_COUNT, NULL, &setup, &failure),
                     TN_E_INVALID);
    assert_null(engine);
    tn_setup_destroy(setup);
    tn_setup_destroy(base);
    tn_graph_destroy(graph);
}

static void running_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_status status = TN_E_NO_MEMORY;
    tn_graph *graph = random_graph(12, true);
    assert_ok(tn_graph_infer(graph, &failure));
    again.share = 0.3;
    options.context = &context;
    options.rewrite = &rewrite;
    options.recompute = &again;
    for (uint64_t at = 1; status != TN_OK; at++) {
        tn_setup *setup = NULL, *more = NULL;
        memory.requests = 0;
        memory.fail_at = at;
        status = tn_setup_create(graph, &options, &setup, &failure);
        if (status == TN_OK)
            status = tn_setup_from(setup, TN_SETUP_RECOMPUTE, &options, &more, &failure);
        memory.fail_at = 0;
        if (status != TN_OK) assert_int_equal(status, TN_E_NO_MEMORY);
        if (status != TN_OK) assert_null(more);
        tn_setup_destroy(setup);
        tn_setup_destroy(more);
        if (memory.held != 0)
            fail_msg("request %llu: %zu bytes of '%s' are left", (unsigned long long)at,
                     memory.held, failure.message);
    }
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_its_stages_one_by_one),
        cmocka_unit_test(entered_again_it_shares_what_comes_before),
        cmocka_unit_test(one_decision_changes_what_follows_it),
        cmocka_unit_test(what_cannot_run_is_not_opened),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
