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

#include "../graph/kit.h"

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
        uint64_t peak = tn_setup_layout(r.setup)->peak;
        assert_int_equal(usage.planned_peak, peak);
        assert_int_equal(usage.arena, peak);
        assert_true(usage.measured_peak <= peak);
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
        {.statics = TN_STATIC_ARENA, .order = "auto", .poison = true},
        {.statics = TN_STATIC_FIRST, .poison = true},
        {.statics = TN_STATIC_ARENA, .naive = true},
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

/* --- graphs by hand, of int64 --- */

/* Runs a graph of one input in several memories; output k has to be expected[k], a list that ends
 * with -1. `status`: how it ends. */
static void expect(test_kit *kit, const tn_array *input, const int64_t *const *expected,
                   tn_status status) {
    static const setting settings[] = {
        {.naive = true}, {.poison = true}, {.pool = "best-fit"}, {.order = "memory"}};
    uint32_t count = tn_graph_block(kit->graph, 0)->output_count;
    kit_infer(kit);
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        int64_t data[4][64];
        tn_array outputs[4];
        rig r;
        assert_ok(rig_make(&r, kit->graph, &settings[s], &failure));
        for (int again = 0; again < 2; again++) {
            for (uint32_t k = 0; k < count; k++)
                outputs[k] = (tn_array){.bytes = sizeof data[k], .data = data[k]};
            tn_status got = tn_engine_run(r.engine, input, 1, outputs, count, &failure);
            if (got != status) fail_msg("setting %zu: %s: %s", s, failure.where, failure.message);
            for (uint32_t k = 0; k < count && status == TN_OK; k++) {
                uint32_t i = 0;
                for (; expected[k][i] != -1; i++)
                    if (i * 8 >= outputs[k].bytes || data[k][i] != expected[k][i])
                        fail_msg("setting %zu: output %u differs at %u", s, k, i);
                assert_int_equal(outputs[k].bytes, i * 8);
            }
        }
        rig_release(&r);
    }
}

typedef struct loop_parts { /* its body: `turn`, `goes_on`, then what is carried */
    tn_block_id body;
    tn_tensor_id formals[6], results[6];
    uint32_t carried;
} loop_parts;

static loop_parts loop_open(test_kit *kit, uint32_t carried) {
    loop_parts loop = {.body = kit_block(kit, "body"), .carried = carried};
    kit->block = loop.body;
    for (uint32_t i = 0; i < carried + 2; i++) loop.formals[i] = kit_open_tensor(kit, "formal");
    loop.results[0] = kit_op(kit, "Identity", KIT_LIST(loop.formals[1]));
    return loop;
}

/* With `gathered` results behind those that are carried; all outputs are the graph's. */
static void loop_close(test_kit *kit, loop_parts *loop, int64_t turns, const tn_tensor_id *initial,
                       uint32_t gathered) {
    tn_tensor_id inputs[6], outputs[6];
    kit->block = 0;
    kit_block_io(kit, loop->body, loop->carried + 2, loop->formals, loop->carried + gathered + 1,
                 loop->results);
    inputs[0] = kit_scalar(kit, turns);
    inputs[1] = TN_NONE;
    for (uint32_t i = 0; i < loop->carried; i++) inputs[i + 2] = initial[i];
    for (uint32_t i = 0; i < loop->carried + gathered; i++)
        outputs[i] = kit_tensor(kit, "result", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    kit_attr_block(kit, "body", loop->body);
    kit_op_to(kit, "Loop", loop->carried + 2, inputs, loop->carried + gathered, outputs);
}

static const int64_t three[] = {1, 2, 3}, three_again[] = {1, 2, 3, -1}, other[] = {7, 8, 9, -1};
static const tn_array three_given = {
    .dtype = TN_INT64, .rank = 1, .shape = {3}, .bytes = 24, .data = (void *)(uintptr_t)three};

static void a_loop_may_hand_back_its_formals_crossed(void **state) {
    (void)state;
    for (int64_t turns = 0; turns < 4; turns++)
        for (int viewed = 0; viewed < 2; viewed++) {
            test_kit kit = kit_open();
            tn_tensor_id x = kit_input(&kit, "x", TN_INT64, KIT_SHAPE(3));
            tn_tensor_id initial[] = {x, kit_list(&kit, 3, other)};
            loop_parts loop = loop_open(&kit, 2);
            for (uint32_t i = 0; i < 2; i++) {
                tn_tensor_id crossed = loop.formals[3 - i];
                loop.results[1 + i] =
                    viewed ? kit_op(&kit, "Identity", KIT_LIST(crossed)) : crossed;
            }
            loop_close(&kit, &loop, turns, initial, 0);
            const int64_t *expected[] = {turns % 2 ? other : three_again,
                                         turns % 2 ? three_again : other};
            expect(&kit, &three_given, expected, TN_OK);
            kit_close(&kit);
        }
}

static void what_a_loop_carries_may_grow_to_the_last_turn(void **state) {
    (void)state;
    for (int64_t turns = 0; turns < 4; turns++) {
        test_kit kit = kit_open();
        tn_tensor_id x = kit_input(&kit, "x", TN_INT64, KIT_SHAPE(3));
        tn_tensor_id more = kit_list(&kit, 3, other);
        loop_parts loop = loop_open(&kit, 1);
        kit_attr_int(&kit, "axis", 0);
        loop.results[1] = kit_op(&kit, "Concat", KIT_LIST(loop.formals[2], more));
        loop_close(&kit, &loop, turns, &x, 0);
        int64_t grown[] = {1, 2, 3, 7, 8, 9, 7, 8, 9, 7, 8, 9, -1};
        grown[3 + 3 * turns] = -1;
        const int64_t *expected[] = {grown};
        expect(&kit, &three_given, expected, TN_OK);
        kit_close(&kit);
    }
}

static void a_loop_gathers_equal_extents_alone(void **state) {
    (void)state;
    for (int equal = 0; equal < 2; equal++) {
        test_kit kit = kit_open();
        tn_tensor_id x = kit_input(&kit, "x", TN_INT64, KIT_SHAPE(3));
        tn_tensor_id zero = kit_list(&kit, 1, (int64_t[]){0});
        tn_tensor_id one = kit_list(&kit, 1, (int64_t[]){1});
        loop_parts loop = loop_open(&kit, 0);
        tn_tensor_id turn = kit_op(&kit, "Unsqueeze", KIT_LIST(loop.formals[0], zero));
        tn_tensor_id start = equal ? turn : zero;
        tn_tensor_id end = kit_op(&kit, "Add", KIT_LIST(turn, one));
        loop.results[1] = kit_op(&kit, "Slice", KIT_LIST(x, start, end));
        loop_close(&kit, &loop, 3, NULL, 1);
        const int64_t *expected[] = {three_again};
        expect(&kit, &three_given, expected, equal ? TN_OK : TN_E_INVALID);
        kit_close(&kit);
    }
}

/* One element of the input is no zero, where the plan has to reckon with three of them. */
static void one_element_of_a_bound_of_three_is_expanded(void **state) {
    (void)state;
    static const int64_t one_left[] = {0, 5, 0}, ones[] = {1, 1, 1, -1};
    const tn_array given = {.dtype = TN_INT64,
                            .rank = 1,
                            .shape = {3},
                            .bytes = 24,
                            .data = (void *)(uintptr_t)one_left};
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_INT64, KIT_SHAPE(3));
    tn_tensor_id y = kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    tn_tensor_id at = kit_op(&kit, "NonZero", KIT_LIST(x)); /* [1, n <= 3] */
    tn_tensor_id flat = kit_op(&kit, "Reshape", KIT_LIST(at, kit_list(&kit, 1, (int64_t[]){-1})));
    tn_tensor_id list = kit_list(&kit, 1, (int64_t[]){3});
    kit_op_to(&kit, "Expand", KIT_LIST(flat, list), 1, &y);
    expect(&kit, &given, (const int64_t *[]){ones}, TN_OK);
    kit_close(&kit);
}

static void a_rank_that_follows_from_bounds_is_refused_when_it_is_another(void **state) {
    (void)state;
    static const int64_t one_left[] = {0, 5, 0};
    const tn_array given = {.dtype = TN_INT64,
                            .rank = 1,
                            .shape = {3},
                            .bytes = 24,
                            .data = (void *)(uintptr_t)one_left};
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_INT64, KIT_SHAPE(3));
    tn_tensor_id y = kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    tn_tensor_id at = kit_op(&kit, "NonZero", KIT_LIST(x)); /* [1, n <= 3] */
    kit_op_to(&kit, "Squeeze", KIT_LIST(at), 1, &y);
    expect(&kit, &given, NULL, TN_E_UNSUPPORTED);
    kit_close(&kit);
}

/* [1, n <= 3] times [n <= 5, 1], which are of one n. */
static void bounds_that_differ_may_be_of_equal_extents(void **state) {
    (void)state;
    static const int64_t some[] = {0, 5, 7}, sum[] = {1 * 1 + 2 * 2, -1};
    const tn_array given = {
        .dtype = TN_INT64, .rank = 1, .shape = {3}, .bytes = 24, .data = (void *)(uintptr_t)some};
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_INT64, KIT_SHAPE(3));
    tn_tensor_id y = kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    tn_tensor_id row = kit_op(&kit, "NonZero", KIT_LIST(x));
    kit_attr_int(&kit, "axis", 0);
    tn_tensor_id more = kit_op(&kit, "Concat", KIT_LIST(x, kit_list(&kit, 2, (int64_t[]){0, 0})));
    tn_tensor_id column =
        kit_op(&kit, "Transpose", KIT_LIST(kit_op(&kit, "NonZero", KIT_LIST(more))));
    tn_tensor_id product = kit_op(&kit, "MatMul", KIT_LIST(row, column));
    tn_tensor_id list = kit_list(&kit, 1, (int64_t[]){1});
    kit_op_to(&kit, "Reshape", KIT_LIST(product, list), 1, &y);
    expect(&kit, &given, (const int64_t *[]){sum}, TN_OK);
    kit_close(&kit);
}

/* Hundreds of inputs whose contents are small enough to be looked at. */
static void many_bounds_are_concatenated(void **state) {
    (void)state;
    enum { MANY = 200, EXTENT = 512 };
    static int64_t data[EXTENT];
    static tn_tensor_id parts[MANY];
    const tn_array given = {
        .dtype = TN_INT64, .rank = 1, .shape = {EXTENT}, .bytes = sizeof data, .data = data};
    static const int64_t extents[] = {2, MANY * 400, -1};
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_INT64, KIT_SHAPE(EXTENT));
    tn_tensor_id y = kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    for (int i = 0; i < EXTENT; i++) data[i] = i < 400;
    tn_tensor_id at = kit_op(&kit, "NonZero", KIT_LIST(x)); /* [1, 400] */
    kit_attr_int(&kit, "axis", 0);
    at = kit_op(&kit, "Concat", KIT_LIST(at, at));
    for (int i = 0; i < MANY; i++) parts[i] = at;
    kit_attr_int(&kit, "axis", 1);
    tn_tensor_id all = kit_op(&kit, "Concat", MANY, parts);
    kit_op_to(&kit, "Shape", KIT_LIST(all), 1, &y);
    expect(&kit, &given, (const int64_t *[]){extents}, TN_OK);
    kit_close(&kit);
}

/* The sizes of a Split make 2, of 3 elements. */
static void a_split_of_a_bound_takes_all_of_it(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_INT64, KIT_SHAPE(3)), parts[2];
    for (int k = 0; k < 2; k++)
        parts[k] = kit_tensor(&kit, "part", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    tn_tensor_id at = kit_op(&kit, "NonZero", KIT_LIST(x));
    tn_tensor_id sizes = kit_list(&kit, 2, (int64_t[]){1, 1});
    kit_attr_int(&kit, "axis", 1);
    kit_op_to(&kit, "Split", KIT_LIST(at, sizes), 2, parts);
    expect(&kit, &three_given, NULL, TN_E_INVALID);
    kit_close(&kit);
}

static void operators_whose_outputs_nobody_wants_do_not_run(void **state) {
    (void)state;
    static const int64_t minus[] = {-3, -4, -5, -1};
    static const int64_t given_data[] = {3, 4, 5};
    static const char *const types[] = {"Neg", "NonZero", "Shape", "Unique", "Add"};
    const tn_array given = {.dtype = TN_INT64,
                            .rank = 1,
                            .shape = {3},
                            .bytes = 24,
                            .data = (void *)(uintptr_t)given_data};
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_INT64, KIT_SHAPE(3)), none = TN_NONE;
    tn_tensor_id y = kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        kit_op_to(&kit, types[i], strcmp(types[i], "Add") == 0 ? 2 : 1, (tn_tensor_id[]){x, x}, 1,
                  &none);
    kit_op_to(&kit, "Neg", KIT_LIST(x), 1, &y);
    expect(&kit, &given, (const int64_t *[]){minus}, TN_OK);
    kit_close(&kit);
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
        const tn_occupancy *occupancy = tn_setup_occupancy(r.setup);
        const tn_problem *problem = tn_occupancy_problem(occupancy);
        tn_layout moved;
        assert_ok(
            tn_layout_from_offsets(problem, tn_setup_layout(r.setup)->offset, &moved, &failure));
        if (break_plan(problem, &moved, &random)) {
            assert_int_equal(tn_engine_create(occupancy, &moved, tn_setup_kernels(r.setup),
                                              r.engine->memory.device, &options, &refused,
                                              &failure),
                             TN_E_CONFLICT);
            /* past the verifier: into the engine that was made with the good plan */
            memcpy(r.engine->places.offset, moved.offset, moved.body_count * sizeof(uint64_t));
            io_fill(&given, &random, 0);
            if (rig_run(&r, &given, &failure) != TN_E_CONFLICT)
                fail_msg("seed %llu: nothing was noticed\n", (unsigned long long)seed);
            broken++;
        }
        tn_layout_release(&moved);
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
            const setting how = {.context = &context,
                                 .planner = "fast", /* tests/plan lets those of others fail */
                                 .pool = pools[p],
                                 .poison = pools[p] == NULL};
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
    uint64_t need = tn_setup_need(r.setup).total;
    for (int less = 0; less < 2; less++) {
        tn_device_options options = TN_DEVICE_OPTIONS_INIT;
        tn_engine_options with = TN_ENGINE_OPTIONS_INIT;
        tn_device *device;
        tn_engine *engine = NULL;
        options.capacity = need - (uint64_t)less;
        with.read = read_value;
        assert_ok(tn_device_create(&options, &device, &failure));
        assert_int_equal(tn_engine_create(tn_setup_occupancy(r.setup), tn_setup_layout(r.setup),
                                          tn_setup_kernels(r.setup), device, &with, &engine,
                                          &failure),
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
        cmocka_unit_test(a_loop_may_hand_back_its_formals_crossed),
        cmocka_unit_test(what_a_loop_carries_may_grow_to_the_last_turn),
        cmocka_unit_test(a_loop_gathers_equal_extents_alone),
        cmocka_unit_test(one_element_of_a_bound_of_three_is_expanded),
        cmocka_unit_test(a_rank_that_follows_from_bounds_is_refused_when_it_is_another),
        cmocka_unit_test(bounds_that_differ_may_be_of_equal_extents),
        cmocka_unit_test(many_bounds_are_concatenated),
        cmocka_unit_test(a_split_of_a_bound_takes_all_of_it),
        cmocka_unit_test(operators_whose_outputs_nobody_wants_do_not_run),
        cmocka_unit_test(a_moved_offset_is_refused_and_without_the_verifier_poisoned),
        cmocka_unit_test(a_run_allocates_nothing),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(arrays_of_another_type_or_shape_are_refused),
        cmocka_unit_test(the_device_is_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
