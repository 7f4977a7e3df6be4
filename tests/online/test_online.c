/* test_online.c - runs within a budget that is met while they run: the same bits as a run in the
 * planned arena of the whole program, never more bytes than the budget, and what is refused.
 */
#define GRAPH_DTYPE TN_FLOAT32
#include "../random_graph.h"

#include <tenure/online.h>

#include "../trainer/kit.h"
#include "count.h"
#include "engine/on_demand.h"

#define GIVEN_RATE 4e9

static tn_setup *compiled(const tn_graph *graph) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_setup *setup;
    kernels.plain = true;
    options.kernels = &kernels;
    assert_ok(tn_setup_create(graph, &options, &setup, &failure));
    return setup;
}

static tn_status opened(const tn_setup *setup, const tn_engine_options *engine, uint64_t budget,
                        tn_online **online) {
    tn_online_options options = TN_ONLINE_OPTIONS_INIT;
    options.budget = budget;
    options.link_bytes_per_s = GIVEN_RATE;
    options.engine = engine;
    return tn_online_create(setup, &options, online, &failure);
}

/* The smallest budget, of multiples of 64, with which passive mode can run. */
static uint64_t least_budget(const tn_setup *setup, const tn_engine_options *engine) {
    uint64_t low = 0, high = tn_setup_need(setup).total / 64 * 4 + 64; /* in 64 bytes */
    while (high - low > 1) {
        tn_online *online;
        uint64_t middle = low + (high - low) / 2;
        tn_status status = opened(setup, engine, middle * 64, &online);
        if (status == TN_OK) tn_online_destroy(online);
        if (status != TN_OK) assert_int_equal(status, TN_E_EXHAUSTED);
        *(status == TN_OK ? &high : &low) = middle;
    }
    return high * 64;
}

/* --- random graphs: views, in-place operators, concatenations --- */

typedef struct arrays {
    float in[2][8], out[2][8];
    bool flag;
    int64_t trips;
    tn_array inputs[4], outputs[2];
} arrays;

static void arrays_fill(arrays *it, uint64_t seed) {
    tn__random random = {.state = seed};
    *it = (arrays){.flag = true, .trips = 1};
    for (int i = 0; i < 16; i++)
        it->in[i / 8][i % 8] = (float)tn__random_below(&random, 2000) / 1000 - 1;
    for (int k = 0; k < 2; k++) {
        it->inputs[k] = (tn_array){
            .dtype = TN_FLOAT32, .rank = 1, .shape = {8}, .bytes = 32, .data = it->in[k]};
        it->outputs[k] = (tn_array){.bytes = 32, .data = it->out[k]};
    }
    it->inputs[2] = (tn_array){.dtype = TN_BOOL, .bytes = 1, .data = &it->flag};
    it->inputs[3] = (tn_array){.dtype = TN_INT64, .bytes = 8, .data = &it->trips};
}

/* Nothing that a step accessed ended above the budget, and neither did the pool's blocks. */
static void check_places(tn_online *online, uint64_t budget) {
    const tn_engine *engine = tn_online_engine(online);
    const tn__on_demand *it = engine->places.on_demand;
    const tn_problem *problem = tn_occupancy_problem(engine->places.occupancy);
    if (it == NULL) return;
    for (uint32_t s = 0; s < it->steps; s++)
        for (uint32_t a = it->accesses.first[s]; a < it->accesses.first[s + 1]; a++) {
            tn_body_id body = it->accesses.items[a];
            assert_true(engine->places.offset[body] + tn_problem_body(problem, body)->size <=
                        budget);
        }
    assert_true(engine->highest <= budget);
    tn_pool_usage usage;
    tn_pool_measure(engine->places.pool, &usage);
    assert_true(usage.allocated_peak <= budget);
}

static void run_random(const tn_setup *setup, tn_engine *whole, uint64_t budget, uint64_t seed,
                       uint32_t *evictions) {
    tn_online *online;
    tn_online_usage usage;
    uint32_t count;
    assert_ok(opened(setup, NULL, budget, &online));
    for (uint64_t i = 0; i < 4; i++) {
        arrays want, got;
        arrays_fill(&want, seed + i);
        arrays_fill(&got, seed + i);
        assert_ok(tn_engine_run(whole, want.inputs, 4, want.outputs, 2, &failure));
        assert_ok(tn_online_run(online, got.inputs, 4, got.outputs, 2, &failure));
        assert_memory_equal(got.out, want.out, sizeof want.out);
        check_places(online, budget);
    }
    tn_online_measure(online, &usage);
    const tn_online_iteration *list = tn_online_iterations(online, &count);
    assert_int_equal(count, 4);
    assert_true(usage.peak <= budget && usage.budget == budget && usage.iterations == 4);
    assert_false(list[0].guided);
    *evictions += list[0].evictions;
    tn_online_destroy(online);
}

static void random_graphs_have_the_same_bits_in_every_budget(void **state) {
    uint32_t evictions = 0;
    (void)state;
    for (uint64_t seed = 0; seed < case_count(120, 6); seed++) {
        tn_graph *graph = random_graph(seed, false);
        assert_ok(tn_graph_infer(graph, &failure));
        tn_setup *setup = compiled(graph);
        tn_engine *whole;
        assert_ok(tn_setup_open(setup, NULL, NULL, &whole, &failure));
        uint64_t least = least_budget(setup, NULL);
        for (uint64_t more = 0; more < 6; more++)
            run_random(setup, whole, least + 64 * more, seed, &evictions);
        tn_engine_destroy(whole);
        tn_setup_destroy(setup);
        tn_graph_destroy(graph);
    }
    assert_true(evictions > 0);
}

/* --- training --- */

typedef struct step { /* a training step of a network */
    kit_run run;
    tn_training training;
    tn_setup *setup;
    tn_engine_options engine;
} step;

/* Layers of random widths, some with a normalisation, whose statistics outlast a step. */
static void step_open(step *it, uint64_t seed) {
    tn__random random = {.state = seed};
    *it = (step){.engine = TN_ENGINE_OPTIONS_INIT};
    kit_begin(&it->run, seed);
    net *n = it->run.n;
    tn_tensor_id x = net_input(n, TN_FLOAT32, NET_SHAPE(16, 12)), y = x;
    int64_t width = 12;
    for (uint64_t i = 3 + tn__random_below(&random, 4); i > 0; i--) {
        int64_t next = 16 + 8 * (int64_t)tn__random_below(&random, 6);
        y = net_dense(n, y, width, next);
        if (tn__random_below(&random, 2)) y = net_batch_norm(n, y, next);
        y = net_unary(n, tn__random_below(&random, 2) ? "Relu" : "Tanh", y);
        width = next;
    }
    kit_must(&it->run, net_finish(n, x, net_dense(n, y, width, 3)));
    it->run.train.optimizer = (tn_optimizer)tn__random_below(&random, TN_OPTIMIZER_NONE);
    it->run.train.micro_batches = 1 + (uint32_t)tn__random_below(&random, 2);
    kit_must(&it->run, tn_train(n->graph, &it->run.train, &it->training, &it->run.error));
    it->engine.read = net_read;
    it->engine.self = n;
    it->setup = compiled(it->training.graph);
}

static void step_close(step *it) {
    tn_setup_destroy(it->setup);
    tn_training_release(&it->training);
    kit_end(&it->run);
}

/* Trains and writes a checkpoint. online NULL: in the planned arena. */
static void step_train(step *it, tn_online *online, const char *path) {
    tn_trainer_options options = it->run.options;
    tn_engine *engine = NULL;
    tn_trainer *trainer;
    options.train = &it->run.train;
    options.steps = 7;
    options.rate = 1e-2;
    options.online = online;
    if (online == NULL)
        kit_must(&it->run, tn_setup_open(it->setup, NULL, &it->engine, &engine, &it->run.error));
    kit_must(&it->run, tn_trainer_create(it->run.n->graph, &it->training,
                                         online != NULL ? tn_online_engine(online) : engine,
                                         &options, &trainer, &it->run.error));
    kit_must(&it->run, tn_trainer_run(trainer, &it->run.error));
    kit_must(&it->run, tn_trainer_save(trainer, path, &it->run.error));
    tn_trainer_destroy(trainer);
    tn_engine_destroy(engine);
}

static void assert_same_files(const char *a, const char *b) {
    tn__file x, y;
    assert_int_equal(tn__file_map(a, &x, NULL), TN_OK);
    assert_int_equal(tn__file_map(b, &y, NULL), TN_OK);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.bytes, y.bytes, x.size);
    tn__file_unmap(&x);
    tn__file_unmap(&y);
}

static uint64_t lines; /* of explanations */

static void count_line(void *self, const char *line) {
    (void)self;
    assert_true(strlen(line) > 0 && strchr(line, '\n') == NULL);
    lines++;
}

static void training_has_the_same_bits_in_every_budget(void **state) {
    uint64_t guided = 0, changed = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(12, 2); seed++) {
        step it;
        step_open(&it, seed);
        step_train(&it, NULL, kit_path("whole"));
        uint64_t whole = tn_setup_need(it.setup).total, least = least_budget(it.setup, &it.engine);
        for (uint64_t part = 0; part < 4 && least < whole; part++) {
            uint64_t budget = least + (whole - least) / 4 * part;
            tn_online_options options = TN_ONLINE_OPTIONS_INIT;
            tn_online *online;
            tn_online_usage usage;
            options.budget = budget;
            options.link_bytes_per_s = GIVEN_RATE;
            options.engine = &it.engine;
            options.explain = count_line;
            assert_ok(tn_online_create(it.setup, &options, &online, &failure));
            step_train(&it, online, kit_path("within"));
            assert_same_files(kit_path("whole"), kit_path("within"));
            tn_online_measure(online, &usage);
            assert_true(usage.peak <= budget);
            assert_int_equal(usage.iterations, 7 * it.run.train.micro_batches);
            guided += usage.guided;
            changed += usage.swapped + usage.recomputed;
            tn_online_destroy(online);
        }
        step_close(&it);
    }
    assert_true(guided > 0 && changed > 0 && lines > 0);
}

/* --- what is refused --- */

static void refuses(const tn_setup *setup, const tn_online_options *options, tn_status status,
                    const char *words) {
    tn_online *online;
    assert_int_equal(tn_online_create(setup, options, &online, &failure), status);
    if (strstr(failure.message, words) == NULL) fail_msg("%s", failure.message);
}

static void bad_options_are_refused(void **state) {
    tn_online_options options = TN_ONLINE_OPTIONS_INIT;
    step it;
    (void)state;
    step_open(&it, 1);
    options.engine = &it.engine;
    options.link_bytes_per_s = 1e9;
    refuses(it.setup, &options, TN_E_INVALID, "needs a budget");
    options.budget = UINT64_C(1) << 30;
    options.link_bytes_per_s = 0;
    refuses(it.setup, &options, TN_E_INVALID, "speed of a link");
    options.link_bytes_per_s = -1;
    refuses(it.setup, &options, TN_E_INVALID, "speed of a link");
    options.link_bytes_per_s = 1e9;
    options.policy = "capuchino";
    refuses(it.setup, &options, TN_E_UNKNOWN, "no online policy 'capuchino'");
    options.policy = "capuchin";
    options.budget = least_budget(it.setup, &it.engine) - 64;
    refuses(it.setup, &options, TN_E_EXHAUSTED, "too small for one operator: '");
    assert_non_null(strstr(failure.message, "static memory"));
    options.budget = 64;
    refuses(it.setup, &options, TN_E_EXHAUSTED, "too small for one operator: '");
    step_close(&it);
}

static void control_flow_is_refused(void **state) {
    tn_online_options options = TN_ONLINE_OPTIONS_INIT;
    tn_graph *graph = random_graph(1, true);
    (void)state;
    assert_ok(tn_graph_infer(graph, &failure));
    tn_setup *setup = compiled(graph);
    options.budget = 1 << 20;
    options.link_bytes_per_s = 1e9;
    refuses(setup, &options, TN_E_UNSUPPORTED, "control flow");
    tn_setup_destroy(setup);
    tn_graph_destroy(graph);
}

/* Host memory for swapped tensors is limited as for a planned run. */
static void too_little_host_memory_is_an_error(void **state) {
    step it;
    tn_online *online;
    tn_trainer_options options;
    tn_trainer *trainer;
    (void)state;
    step_open(&it, 2);
    uint64_t least = least_budget(it.setup, &it.engine);
    it.engine.host_capacity = 1;
    assert_ok(opened(it.setup, &it.engine, least, &online));
    options = it.run.options;
    options.train = &it.run.train;
    options.online = online;
    kit_must(&it.run, tn_trainer_create(it.run.n->graph, &it.training, tn_online_engine(online),
                                        &options, &trainer, &it.run.error));
    assert_int_equal(tn_trainer_run(trainer, &failure), TN_E_EXHAUSTED);
    assert_non_null(strstr(failure.message, "of the host's memory"));
    tn_trainer_destroy(trainer);
    tn_online_destroy(online);
    step_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_have_the_same_bits_in_every_budget),
        cmocka_unit_test(training_has_the_same_bits_in_every_budget),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(control_flow_is_refused),
        cmocka_unit_test(too_little_host_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, kit_enter, kit_leave);
}
