/* test_trace.c - what a run tells: who got memory and who gave it back, step by step; and static
 * memory, which outlives runs.
 *
 * The events of random graphs are added up by the definition: nothing gets memory twice, nothing is
 * given back that was not taken, `live` is the sum of both by kind, the steps are those of the
 * program with the plan's curve, and behind a run nothing is left but what is static.
 */
#define GRAPH_DTYPE TN_INT32
#include "count.h"
#include "rig.h"

#include "../graph/kit.h"

#define OUTPUT_BYTES 4096u
#define EVENTS (1u << 16)

static void run_once(const rig *r, uint32_t turns, bool branch) {
    static int32_t in[2][8];
    static uint8_t out[2][OUTPUT_BYTES];
    uint8_t flag = branch;
    int64_t trips = turns;
    tn_array inputs[4] = {[2] = {.dtype = TN_BOOL, .bytes = 1, .data = &flag},
                          [3] = {.dtype = TN_INT64, .bytes = 8, .data = &trips}};
    tn_array outputs[2];
    for (int i = 0; i < 2; i++) {
        inputs[i] = (tn_array){.dtype = TN_INT32, .rank = 1, .bytes = 32, .data = in[i]};
        inputs[i].shape[0] = 8;
        outputs[i] = (tn_array){.bytes = OUTPUT_BYTES, .data = out[i]};
    }
    assert_ok(tn_engine_run(r->engine, inputs, 4, outputs, 2, &failure));
}

typedef struct judge {
    const tn_graph *graph;
    const tn_occupancy *occupancy;
    uint64_t now[TN_KIND_COUNT], fixed; /* bytes; those that no body has */
    uint64_t *held;                     /* [bodies], bytes */
    uint64_t (*curve)[TN_KIND_COUNT];
    uint32_t steps; /* of this run, so far */
} judge;

static void judge_memory(judge *it, const tn_event *event) {
    tn_kind kind = event->tensor == TN_NONE ? TN_KIND_WORKSPACE
                                            : tn_graph_tensor(it->graph, event->tensor)->kind;
    bool frees = event->kind == TN_EVENT_FREE;
    assert_true(event->bytes > 0 && event->duration_s == 0);
    if (event->body == TN_NONE) {
        assert_false(frees);
        it->fixed += event->bytes;
    } else {
        uint64_t *held = &it->held[event->body];
        const tn_problem *problem = tn_occupancy_problem(it->occupancy);
        assert_int_equal(*held, frees ? event->bytes : 0);
        assert_int_equal(event->bytes, tn_problem_body(problem, event->body)->size);
        *held = frees ? 0 : event->bytes;
    }
    it->now[kind] += frees ? 0 - event->bytes : event->bytes;
    assert_memory_equal(event->live, it->now, sizeof it->now);
}

static void judge_step(judge *it, const tn_event *event, bool straight) {
    const tn_program *program = tn_occupancy_program(it->occupancy);
    assert_true(event->step < tn_program_count(program));
    if (straight) assert_int_equal(event->step, it->steps);
    const tn_instruction *ran = &tn_program_instructions(program)[event->step];
    assert_true(event->opcode == ran->opcode && event->op == ran->op &&
                event->tensor == ran->tensor && event->duration_s >= 0);
    assert_memory_equal(event->live, it->curve[event->step], sizeof event->live);
    it->steps++;
}

static void judge_trace(const rig *r, const tn_trace *trace, uint32_t runs, bool straight) {
    uint64_t count;
    const tn_event *events = tn_trace_events(trace, &count);
    judge it = {.graph = tn_setup_graph(r->setup), .occupancy = tn_setup_occupancy(r->setup)};
    uint32_t length = tn_program_count(tn_occupancy_program(it.occupancy)), run = 0;
    uint32_t bodies = tn_problem_count(tn_occupancy_problem(it.occupancy));
    it.held = calloc((size_t)bodies + 1, sizeof *it.held);
    it.curve = calloc((size_t)length + 1, sizeof *it.curve);
    assert_ok(tn_occupancy_live(it.occupancy, it.curve, &failure));
    assert_int_equal(tn_trace_dropped(trace), 0);
    for (uint64_t i = 0; i < count; i++) {
        if (events[i].run != run) { /* behind a run nobody holds anything */
            assert_int_equal(events[i].run, ++run);
            if (straight) assert_int_equal(it.steps, length);
            for (tn_body_id b = 0; b < bodies; b++) assert_int_equal(it.held[b], 0);
            it.steps = 0;
        }
        if (events[i].kind == TN_EVENT_STEP)
            judge_step(&it, &events[i], straight);
        else
            judge_memory(&it, &events[i]);
    }
    assert_int_equal(run + 1, runs);
    tn_engine_usage usage;
    tn_engine_measure(r->engine, &usage);
    assert_true(it.fixed <= usage.static_bytes);
    assert_int_equal(it.fixed == 0, usage.static_bytes == 0);
    free(it.curve);
    free(it.held);
}

static void a_trace_adds_up(void **state) {
    (void)state;
    static const setting settings[] = {{.order = NULL},
                                       {.order = "memory", .fuse = true},
                                       {.naive = true},
                                       {.pool = "best-fit"},
                                       {.pool = "caching", .no_views = true}};
    for (uint64_t seed = 1; seed <= case_count(200, 20); seed++) {
        bool control = seed % 2 == 0;
        tn_graph *graph = random_graph(seed, control);
        assert_ok(tn_graph_infer(graph, &failure));
        for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
            setting how = settings[s];
            tn_trace *trace;
            rig r;
            assert_ok(tn_trace_create(NULL, EVENTS, &trace, &failure));
            how.trace = trace;
            assert_ok(rig_make(&r, graph, &how, &failure));
            for (uint32_t run = 0; run < 3; run++) run_once(&r, run, run == 1);
            judge_trace(&r, trace, 3, !control);
            rig_release(&r);
            tn_trace_destroy(trace);
        }
        tn_graph_destroy(graph);
    }
}

/* Poison looks at bytes between events, which a trace does not tell of. */
static void a_trace_does_not_go_with_poison(void **state) {
    (void)state;
    tn_graph *graph = random_graph(1, false);
    setting how = {.poison = true};
    rig r;
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(tn_trace_create(NULL, 1, &how.trace, &failure));
    assert_int_equal(rig_make(&r, graph, &how, &failure), TN_E_INVALID);
    rig_release(&r);
    tn_trace_destroy(how.trace);
    tn_graph_destroy(graph);
}

/* y = x + w: what is set between runs is what the next one reads, in every kind of memory. */
static void static_memory_is_read_and_set(void **state) {
    (void)state;
    static const setting settings[] = {{.order = NULL},
                                       {.statics = TN_STATIC_ARENA},
                                       {.statics = TN_STATIC_FIRST},
                                       {.pool = "bfc"}};
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        test_kit kit = kit_open();
        tn_tensor_id x = kit_input(&kit, "x", TN_INT64, 1, (int64_t[]){3});
        tn_tensor_id w = kit_list(&kit, 3, (int64_t[]){10, 20, 30});
        tn_tensor_id y = kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, TN_RANK_UNKNOWN, NULL);
        kit_op_to(&kit, "Add", KIT_LIST(x, w), KIT_LIST(y));
        kit_infer(&kit);
        rig r;
        assert_ok(rig_make(&r, kit.graph, &settings[s], &failure));
        int64_t in[3] = {1, 2, 3}, out[3], now[3] = {0}, other[3] = {-1, -2, -3};
        assert_ok(tn_engine_get_static(r.engine, w, now, sizeof now, &failure));
        assert_true(now[0] == 10 && now[1] == 20 && now[2] == 30);
        assert_int_equal(tn_engine_get_static(r.engine, w, now, 16, &failure), TN_E_INVALID);
        assert_int_equal(tn_engine_set_static(r.engine, w, now, 32, &failure), TN_E_INVALID);
        assert_int_equal(tn_engine_get_static(r.engine, x, now, 24, &failure), TN_E_INVALID);
        assert_int_equal(tn_engine_get_static(r.engine, 99, now, 24, &failure), TN_E_INVALID);
        for (int turn = 0; turn < 2; turn++) {
            tn_array input = {.dtype = TN_INT64, .rank = 1, .shape = {3}, .bytes = 24, .data = in};
            tn_array output = {.bytes = sizeof out, .data = out};
            assert_ok(tn_engine_run(r.engine, &input, 1, &output, 1, &failure));
            for (int k = 0; k < 3; k++) assert_int_equal(out[k], in[k] + now[k]);
            assert_ok(tn_engine_set_static(r.engine, w, other, sizeof other, &failure));
            assert_ok(tn_engine_get_static(r.engine, w, now, sizeof now, &failure));
            assert_memory_equal(now, other, sizeof now);
        }
        rig_release(&r);
        kit_close(&kit);
    }
}

/* What the sizes say without an engine is what one then takes, however little room they are given.
 */
static void static_blocks_are_told_before(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(100, 10); seed++) {
        tn_graph *graph = random_graph(seed, seed % 2 == 0);
        static const setting plain = {.order = NULL};
        tn_static_block all[64], few[64];
        rig r;
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(rig_make(&r, graph, &plain, &failure));
        const tn_program *program = tn_occupancy_program(tn_setup_occupancy(r.setup));
        const tn_kernels *kernels = tn_setup_kernels(r.setup);
        tn_engine_usage usage;
        tn_engine_measure(r.engine, &usage);
        assert_int_equal(tn_engine_static_bytes(program, kernels), usage.static_bytes);
        uint32_t count = tn_engine_static_blocks(program, kernels, all, 64);
        assert_true(count <= 64);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < count; i++) sum += all[i].bytes;
        assert_true(sum <= usage.static_bytes && usage.static_bytes <= sum + 64 * (count + 1ull));
        for (uint32_t room = 0; room <= count; room++) {
            memset(few, 0x5a, sizeof few);
            assert_int_equal(tn_engine_static_blocks(program, kernels, few, room), count);
            for (uint32_t i = 0; i < room; i++)
                assert_true(few[i].tensor == all[i].tensor && few[i].op == all[i].op &&
                            few[i].bytes == all[i].bytes);
            const uint8_t *behind = (const uint8_t *)&few[room];
            assert_true(room == 64 || (behind[0] == 0x5a && behind[sizeof *few - 1] == 0x5a));
        }
        rig_release(&r);
        tn_graph_destroy(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_adds_up),
        cmocka_unit_test(a_trace_does_not_go_with_poison),
        cmocka_unit_test(static_memory_is_read_and_set),
        cmocka_unit_test(static_blocks_are_told_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
