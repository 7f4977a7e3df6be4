/* test_engine.c - the executor: what runs in the planned arena is what runs without any reuse.
 *
 * Random graphs (chains in place, views, concatenations, branches both ways, loops of 0 to 3 turns)
 * run on our own loops in every memory that the occupancy can give them, planned by several
 * planners, in a pool, with poison; results must be equal, bit by bit, to those where every tensor
 * has memory of its own. Plans with one offset moved must be refused, and with the verifier out of
 * the way be found by poison.
 */
#define GRAPH_DTYPE TN_INT32
#include "rig.h"

#define OUTPUT_BYTES 4096u

typedef struct feed {
    int32_t in[2][8];
    uint8_t flag;
    int64_t trips;
    uint8_t out[2][OUTPUT_BYTES];
    tn_array inputs[4], outputs[2];
} feed;

static tn_status rig_run(const rig *r, feed *it, tn_error *error) {
    for (int i = 0; i < 2; i++) {
        it->inputs[i] = (tn_array){.dtype = TN_INT32, .rank = 1, .bytes = 32, .data = it->in[i]};
        it->inputs[i].shape[0] = 8;
        it->outputs[i] = (tn_array){.bytes = OUTPUT_BYTES, .data = it->out[i]};
    }
    it->inputs[2] = (tn_array){.dtype = TN_BOOL, .bytes = 1, .data = &it->flag};
    it->inputs[3] = (tn_array){.dtype = TN_INT64, .bytes = 8, .data = &it->trips};
    return tn_engine_run(r->engine, it->inputs, 4, it->outputs, 2, error);
}

static void io_fill(feed *it, tn__random *random, uint32_t path) {
    memset(it, 0, sizeof *it);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 8; k++) it->in[i][k] = (int32_t)tn__random_below(random, 2001) - 1000;
    it->flag = path % 2 == 1;
    it->trips = path / 2;
}

/* Runs one graph in one setting, both ways and with 0 to 3 turns, against `expected`. */
static void compare(tn_graph *graph, const setting *how, const feed *expected, uint64_t seed) {
    rig r;
    tn_engine_usage usage;
    assert_ok(rig_make(&r, graph, how, &failure));
    for (uint32_t path = 0; path < 8; path++) {
        feed got;
        tn__random random = {.state = seed};
        io_fill(&got, &random, path);
        if (rig_run(&r, &got, &failure) != TN_OK)
            fail_msg("seed %llu, path %u: %s: %s\n", (unsigned long long)seed, path, failure.where,
                     failure.message);
        for (int k = 0; k < 2; k++)
            if (got.outputs[k].bytes != expected[path].outputs[k].bytes ||
                memcmp(got.out[k], expected[path].out[k], got.outputs[k].bytes) != 0)
                fail_msg("seed %llu, path %u, output %d differs (order %s, planner %s, pool %s)\n",
                         (unsigned long long)seed, path, k, how->order ? how->order : "file",
                         how->planner ? how->planner : "auto", how->pool ? how->pool : "none");
    }
    tn_engine_measure(r.engine, &usage);
    assert_int_equal(usage.run_count, 8);
    if (how->pool == NULL) {
        assert_int_equal(usage.planned_peak, r.layout.peak);
        assert_int_equal(usage.arena, r.layout.peak);
        assert_true(usage.measured_peak <= r.layout.peak);
    }
    rig_release(&r);
}

static void every_memory_gives_the_same_bits(void **state) {
    (void)state;
    static const setting settings[] = {
        {.order = NULL},
        {.poison = true},
        {.order = "memory", .poison = true},
        {.planner = "best-fit", .poison = true},
        {.planner = "greedy-by-size", .no_views = true, .poison = true},
        {.fuse = true, .poison = true},
        {.pool = "best-fit", .poison = true},
        {.pool = "bfc"},
        {.pool = "two-ended", .poison = true},
        {.pool = "caching"},
    };
    for (uint64_t seed = 1; seed <= 300; seed++) {
        tn_graph *graph = random_graph(seed, seed % 3 != 0);
        static feed expected[8];
        const setting naive = {.naive = true};
        rig r;
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(rig_make(&r, graph, &naive, &failure));
        for (uint32_t path = 0; path < 8; path++) {
            tn__random random = {.state = seed};
            io_fill(&expected[path], &random, path);
            if (rig_run(&r, &expected[path], &failure) != TN_OK)
                fail_msg("seed %llu: %s: %s\n", (unsigned long long)seed, failure.where,
                         failure.message);
        }
        rig_release(&r);
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            compare(graph, &settings[i], expected, seed);
        tn_graph_destroy(graph);
    }
}

/* --- broken plans --- */

/* Moves one body onto another that lives at the same time. False: no two do. */
static bool break_plan(const tn_problem *problem, tn_layout *layout, tn__random *random) {
    for (int tries = 0; tries < 200; tries++) {
        tn_body_id a = (tn_body_id)tn__random_below(random, layout->body_count);
        tn_body_id b = (tn_body_id)tn__random_below(random, layout->body_count);
        const tn_body *x = tn_problem_body(problem, a), *y = tn_problem_body(problem, b);
        if (a == b || x->size == 0 || y->size == 0) continue;
        uint64_t before = layout->offset[a];
        layout->offset[a] = layout->offset[b];
        if (layout->offset[a] + x->size <= layout->peak &&
            tn_layout_verify(problem, layout, NULL, NULL) == TN_E_CONFLICT)
            return true;
        layout->offset[a] = before;
    }
    return false;
}

static void a_moved_offset_is_refused_and_without_the_verifier_poisoned(void **state) {
    (void)state;
    uint32_t broken = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        tn_graph *graph = random_graph(seed, false);
        tn__random random = {.state = seed};
        const setting how = {.poison = true};
        tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
        tn_engine *refused;
        feed given;
        rig r;
        options.read = read_value;
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(rig_make(&r, graph, &how, &failure));
        const tn_problem *problem = tn_occupancy_problem(r.occupancy);
        if (break_plan(problem, &r.layout, &random)) {
            assert_int_equal(tn_engine_create(r.occupancy, &r.layout, r.kernels, r.device, &options,
                                              &refused, &failure),
                             TN_E_CONFLICT);
            /* past the verifier: into the engine that was made with the good plan */
            memcpy(r.engine->body_offset, r.layout.offset, r.layout.body_count * sizeof(uint64_t));
            io_fill(&given, &random, 0);
            if (rig_run(&r, &given, &failure) != TN_E_CONFLICT)
                fail_msg("seed %llu: nothing was noticed\n", (unsigned long long)seed);
            broken++;
        }
        rig_release(&r);
        tn_graph_destroy(graph);
    }
    assert_true(broken > 200);
}

/* --- nothing is allocated, and every allocation may fail --- */

static void a_run_allocates_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        faulty memory = {0};
        tn_context context = faulty_context(&memory);
        const setting how = {.context = &context, .poison = seed % 2 == 0};
        tn_graph *graph = random_graph(seed, true);
        tn__random random = {.state = seed};
        feed given;
        rig r;
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(rig_make(&r, graph, &how, &failure));
        uint64_t before = memory.requests;
        for (uint32_t path = 0; path < 8; path++) {
            memory.fail_at = memory.requests + 1; /* the next one fails */
            io_fill(&given, &random, path);
            assert_ok(rig_run(&r, &given, &failure));
        }
        assert_int_equal(memory.requests, before);
        memory.fail_at = 0;
        rig_release(&r);
        assert_int_equal(memory.held, 0);
        tn_graph_destroy(graph);
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    static const char *const pools[] = {NULL, "best-fit", "caching"};
    for (size_t p = 0; p < sizeof pools / sizeof *pools; p++) {
        tn_graph *graph = random_graph(6, true);
        assert_ok(tn_graph_infer(graph, &failure));
        for (uint64_t n = 1;; n++) {
            faulty memory = {.fail_at = n};
            tn_context context = faulty_context(&memory);
            const setting how = {.context = &context, .pool = pools[p], .poison = pools[p] == NULL};
            tn__random random = {.state = n};
            tn_error error = {0};
            feed given;
            rig r;
            tn_status status = rig_make(&r, graph, &how, &error);
            for (int run = 0; run < 2 && r.engine != NULL && status == TN_OK; run++) {
                io_fill(&given, &random, 5);
                status = rig_run(&r, &given, &error);
                if (status == TN_OK) continue;
                io_fill(&given, &random, 5); /* the same handle, again */
                if (rig_run(&r, &given, &error) != TN_OK)
                    fail_msg("%s: %s\n", error.where, error.message);
            }
            rig_release(&r);
            assert_int_equal(memory.held, 0);
            if (memory.requests < n) {
                assert_int_equal(status, TN_OK);
                break;
            }
            if (status != TN_OK) assert_int_equal(status, TN_E_NO_MEMORY);
        }
        tn_graph_destroy(graph);
    }
}

/* --- what is given is looked at --- */

static void arrays_of_another_type_or_shape_are_refused(void **state) {
    (void)state;
    tn_graph *graph = random_graph(3, true);
    const setting how = {0};
    tn__random random = {.state = 1};
    feed given;
    rig r;
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(rig_make(&r, graph, &how, &failure));
    io_fill(&given, &random, 0);
    assert_ok(rig_run(&r, &given, &failure));
    given.inputs[0].dtype = TN_FLOAT32;
    assert_int_equal(tn_engine_run(r.engine, given.inputs, 4, given.outputs, 2, &failure),
                     TN_E_INVALID);
    given.inputs[0].dtype = TN_INT32;
    given.inputs[0].shape[0] = 9;
    assert_int_equal(tn_engine_run(r.engine, given.inputs, 4, given.outputs, 2, &failure),
                     TN_E_INVALID);
    given.inputs[0].shape[0] = 8;
    assert_int_equal(tn_engine_run(r.engine, given.inputs, 3, given.outputs, 2, &failure),
                     TN_E_INVALID);
    assert_int_equal(tn_engine_run(r.engine, given.inputs, 4, given.outputs, 1, &failure),
                     TN_E_INVALID);
    given.outputs[1].bytes = 1;
    assert_int_equal(tn_engine_run(r.engine, given.inputs, 4, given.outputs, 2, &failure),
                     TN_E_INVALID);
    rig_release(&r);
    tn_graph_destroy(graph);
}

static void the_device_is_a_bound(void **state) {
    (void)state;
    tn_graph *graph = random_graph(9, true);
    const setting how = {0};
    rig r;
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(rig_make(&r, graph, &how, &failure));
    uint64_t need = r.layout.peak + tn_engine_static_bytes(r.occupancy, r.kernels);
    for (int less = 0; less < 2; less++) {
        tn_device_options options = TN_DEVICE_OPTIONS_INIT;
        tn_engine_options with = TN_ENGINE_OPTIONS_INIT;
        tn_device *device;
        tn_engine *engine = NULL;
        options.capacity = need - (uint64_t)less;
        with.read = read_value;
        assert_ok(tn_device_create(&options, &device, &failure));
        assert_int_equal(
            tn_engine_create(r.occupancy, &r.layout, r.kernels, device, &with, &engine, &failure),
            less ? TN_E_EXHAUSTED : TN_OK);
        tn_engine_destroy(engine);
        tn_device_destroy(device);
    }
    rig_release(&r);
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_memory_gives_the_same_bits),
        cmocka_unit_test(a_moved_offset_is_refused_and_without_the_verifier_poisoned),
        cmocka_unit_test(a_run_allocates_nothing),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(arrays_of_another_type_or_shape_are_refused),
        cmocka_unit_test(the_device_is_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
