/* test_kernel_streams.c - kernels on several streams of the device: in every run the outputs have
 * the bits of a run in which every tensor has memory of its own. ThreadSanitizer sees two kernels
 * that access the same bytes without a wait between them.
 */
#define GRAPH_DTYPE TN_INT32
#include "play.h"

#include "count.h"

enum { RUNS = 4, STREAMS = 4 };

typedef struct feed {
    int32_t in[2][VALUES];
    uint8_t flag, out[2][OUT_BYTES];
    int64_t turns;
    uint64_t bytes[2];
} feed;

/* Runs a random graph, whose inputs are two vectors, a bool and an int64. */
static tn_status run_feed(tn_engine *engine, feed *it) {
    tn_array outputs[2], inputs[4] = {{0},
                                      {0},
                                      {.dtype = TN_BOOL, .bytes = 1, .data = &it->flag},
                                      {.dtype = TN_INT64, .bytes = 8, .data = &it->turns}};
    memset(it->out, 0x77, sizeof it->out);
    for (int i = 0; i < 2; i++) {
        inputs[i] =
            (tn_array){.dtype = TN_INT32, .rank = 1, .bytes = 4 * VALUES, .data = it->in[i]};
        inputs[i].shape[0] = VALUES;
        outputs[i] = (tn_array){.bytes = OUT_BYTES, .data = it->out[i]};
    }
    tn_status status = tn_engine_run(engine, inputs, 4, outputs, 2, &failure);
    for (int i = 0; i < 2; i++) it->bytes[i] = outputs[i].bytes;
    return status;
}

static void plain_run(tn_graph *graph, uint64_t seed, feed *it) {
    const setting naive = {.naive = true};
    tn__random random = {.state = seed};
    rig r;
    for (int i = 0; i < 2; i++)
        for (uint32_t k = 0; k < VALUES; k++)
            it->in[i][k] = (int32_t)tn__random_below(&random, 2001) - 1000;
    assert_ok(rig_make(&r, graph, &naive, &failure));
    assert_ok(run_feed(r.engine, it));
    rig_release(&r);
}

/* Opens a graph on streams. `waits`: with the arena of the program on one stream. */
static tn_status open_on(tn_graph *graph, uint32_t streams, bool waits, tn_engine_options *engine,
                         rig *r) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_program_streams_options on = TN_PROGRAM_STREAMS_OPTIONS_INIT;
    *r = (rig){.graph = graph};
    kernels.plain = true;
    plan.work_limit = 1000;
    options.kernels = &kernels;
    options.plan = &plan;
    if (waits) {
        tn_setup *serial;
        TN_TRY(tn_setup_create(graph, &options, &serial, &failure));
        plan.objective = TN_OBJECTIVE_WAITS;
        plan.capacity = tn_setup_layout(serial)->peak;
        tn_setup_destroy(serial);
    }
    on.count = streams;
    options.streams = &on;
    TN_TRY(tn_setup_create(graph, &options, &r->setup, &failure));
    engine->read = read_any;
    return tn_setup_open(r->setup, NULL, engine, &r->engine, &failure);
}

static void check_seed(uint64_t seed, uint32_t *wide, uint32_t *kept) {
    tn_graph *graph = random_graph(seed, false);
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn_engine_usage usage;
    feed plain = {.flag = seed & 1}, got;
    rig r;
    bool waits = seed % 3 == 0;
    assert_ok(tn_graph_infer(graph, &failure));
    plain_run(graph, seed, &plain);
    options.poison = seed % 7 == 0;
    tn_status status = open_on(graph, 2 + (uint32_t)(seed % (STREAMS - 1)), waits, &options, &r);
    /* a plan whose waits cannot be kept, or which nothing within its own arena can have */
    if (waits && (status == TN_E_CONFLICT || status == TN_E_INFEASIBLE || status == TN_E_STOPPED)) {
        rig_release(&r);
        tn_graph_destroy(graph);
        return;
    }
    assert_ok(status);
    *kept += waits;
    for (uint32_t k = 0; k < RUNS; k++) {
        got = plain;
        if (run_feed(r.engine, &got) != TN_OK)
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, failure.where, failure.message);
        if (memcmp(&got, &plain, sizeof got) != 0)
            fail_msg("seed %llu, run %u: other bits", (unsigned long long)seed, k);
    }
    tn_engine_measure(r.engine, &usage);
    assert_true(!options.poison || usage.kernel_streams == 0);
    assert_true(usage.measured_peak <= usage.planned_peak);
    *wide += usage.kernel_streams > 1;
    rig_release(&r);
    tn_graph_destroy(graph);
}

static void every_run_has_the_bits_of_a_run_without_reuse(void **state) {
    uint32_t wide = 0, kept = 0, count = (uint32_t)case_count(600, 60);
    (void)state;
    for (uint64_t seed = 1; seed <= count; seed++) check_seed(seed, &wide, &kept);
    assert_true(wide > count / 8 && kept > count / 16);
}

/* --- two chains --- */

static tn_graph *two_chains(int64_t size, uint32_t length, const char *type) {
    tn_graph *graph;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id inputs[2] = {vector(graph, "a", TN_KIND_INPUT, size, 0),
                              vector(graph, "b", TN_KIND_INPUT, size, 0)};
    tn_tensor_id ends[2], out = vector(graph, "out", TN_KIND_OUTPUT, size, 0);
    for (uint32_t k = 0; k < 2; k++) {
        tn_tensor_id at = inputs[k];
        for (uint32_t i = 0; i < length; i++) {
            tn_tensor_id y = vector(graph, "y", TN_KIND_ACTIVATION, size, 0), pair[2] = {at, at};
            apply(graph, type, 0, pair, 2, &y, 1);
            at = y;
        }
        ends[k] = at;
    }
    apply(graph, "Add", 0, ends, 2, &out, 1);
    assert_ok(tn_graph_set_block_io(graph, 0, inputs, 2, &out, 1, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    return graph;
}

/* A trace has each operator once; those of one stream follow each other. */
static void a_trace_has_every_operator_on_its_stream(void **state) {
    tn_graph *graph = two_chains(VALUES, 20, "Add");
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    double ended[STREAMS] = {0};
    uint32_t steps[STREAMS] = {0};
    uint64_t count, bytes;
    int32_t in[2][VALUES] = {{1, 2, 3}, {4, 5, 6}}, out[OUT_BYTES / 4];
    rig r;
    (void)state;
    assert_ok(tn_trace_create(NULL, 1000, &options.trace, &failure));
    assert_ok(open_on(graph, 2, false, &options, &r));
    assert_ok(run_on(r.engine, in, (uint8_t *)out, &bytes));
    for (uint32_t k = 0; k < VALUES; k++)
        assert_int_equal(out[k], ((int64_t)in[0][k] + in[1][k]) << 20);
    const tn_event *events = tn_trace_events(options.trace, &count);
    for (uint64_t i = 0; i < count; i++) {
        if (events[i].kind != TN_EVENT_STEP || events[i].opcode != TN_APPLY) continue;
        assert_true(events[i].stream < 2 && events[i].start_s >= ended[events[i].stream]);
        ended[events[i].stream] = events[i].start_s + events[i].duration_s;
        steps[events[i].stream]++;
    }
    assert_int_equal(steps[0] + steps[1], 41);
    assert_true(steps[0] >= 20 && steps[1] >= 20);
    rig_release(&r);
    tn_trace_destroy(options.trace);
    tn_graph_destroy(graph);
}

/* A kernel that fails on a stream ends the run with its error and its node; the next run is as if
 * nothing had happened. */
static void a_kernel_that_fails_names_its_node(void **state) {
    tn_graph *graph;
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    int32_t in[2][VALUES] = {{5, 6, 7, 8}, {0, 1, 2, 99}}, out[OUT_BYTES / 4];
    uint64_t bytes;
    rig r;
    (void)state;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id inputs[2] = {vector(graph, "a", TN_KIND_INPUT, VALUES, 0),
                              vector(graph, "b", TN_KIND_INPUT, VALUES, 0)};
    tn_tensor_id picked = vector(graph, "p", TN_KIND_ACTIVATION, VALUES, 0),
                 summed = vector(graph, "s", TN_KIND_ACTIVATION, VALUES, 0),
                 done = vector(graph, "out", TN_KIND_OUTPUT, VALUES, 0);
    apply(graph, "Gather", 0, inputs, 2, &picked, 1);
    apply(graph, "Add", 0, inputs, 2, &summed, 1);
    apply(graph, "Add", 0, (tn_tensor_id[2]){picked, summed}, 2, &done, 1);
    assert_ok(tn_graph_set_block_io(graph, 0, inputs, 2, &done, 1, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(open_on(graph, 2, false, &options, &r));
    assert_int_equal(run_on(r.engine, in, (uint8_t *)out, &bytes), TN_E_INVALID);
    assert_non_null(strstr(failure.where, "Gather"));
    in[1][3] = 3;
    assert_ok(run_on(r.engine, in, (uint8_t *)out, &bytes));
    for (uint32_t k = 0; k < VALUES; k++)
        assert_int_equal(out[k], in[0][in[1][k]] + in[0][k] + in[1][k]);
    rig_release(&r);
    tn_graph_destroy(graph);
}

static tn_tensor_id floats(tn_graph *graph, const char *name, tn_kind kind) {
    const int64_t shape[1] = {VALUES};
    tn_tensor_id id;
    const tn_tensor_spec spec = {
        .name = name, .kind = kind, .dtype = TN_FLOAT32, .rank = 1, .shape = shape};
    assert_ok(tn_graph_add_tensor(graph, &spec, &id, &failure));
    return id;
}

/* Operators that draw random numbers do not run at the same time as others. */
static void operators_that_draw_run_alone(void **state) {
    static const char *const types[] = {"RandomNormalLike", "Dropout", "Neg"};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        tn_graph *graph;
        tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
        tn_engine_usage usage;
        rig r;
        assert_ok(tn_graph_create(NULL, &graph, &failure));
        tn_tensor_id x = floats(graph, "x", TN_KIND_INPUT), ends[2];
        for (uint32_t k = 0; k < 2; k++) {
            ends[k] = floats(graph, "y", TN_KIND_OUTPUT);
            apply(graph, k == 0 ? types[i] : "Neg", 0, &x, 1, &ends[k], 1);
        }
        assert_ok(tn_graph_set_block_io(graph, 0, &x, 1, ends, 2, &failure));
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(open_on(graph, 2, false, &options, &r));
        tn_engine_measure(r.engine, &usage);
        assert_int_equal(usage.kernel_streams, i == 2 ? 2 : 0);
        rig_release(&r);
        tn_graph_destroy(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_run_has_the_bits_of_a_run_without_reuse),
        cmocka_unit_test(a_trace_has_every_operator_on_its_stream),
        cmocka_unit_test(a_kernel_that_fails_names_its_node),
        cmocka_unit_test(operators_that_draw_run_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
