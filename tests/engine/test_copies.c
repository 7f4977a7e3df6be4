/* test_copies.c - programs whose tensors are dropped, swapped, encoded and made again: what comes
 * out is what the plain program gives, bit by bit.
 *
 * Random programs run on streams of the device, planned by several planners, in pools, with poison,
 * over links of several speeds; and random swaps around and inside control flow. One by one:
 * test_swaps.c.
 */
#define GRAPH_DTYPE TN_INT32
#include "play.h"

#include "../program/opcodes.h"

/* --- random programs --- */

typedef struct expected {
    int32_t in[2][VALUES];
    uint8_t out[OUT_BYTES];
    uint64_t bytes;
} expected;

static void plain_run(const tn_graph *graph, uint64_t seed, expected *it) {
    const setting naive = {.naive = true};
    tn__random random = {.state = seed};
    rig r;
    for (int i = 0; i < 2; i++)
        for (uint32_t k = 0; k < VALUES; k++)
            it->in[i][k] = tn__random_below(&random, seed % 2 ? 2 : 12)
                               ? (int32_t)tn__random_next(&random)
                               : 0;
    assert_ok(rig_make(&r, (tn_graph *)(uintptr_t)graph, &naive, &failure));
    assert_ok(run_on(r.engine, it->in, it->out, &it->bytes));
    rig_release(&r);
}

static void compare_once(play *it, expected *plain, uint64_t seed, const way *how) {
    uint8_t out[OUT_BYTES];
    uint64_t bytes;
    if (run_on(it->engine, plain->in, out, &bytes) != TN_OK)
        fail_msg("seed %llu, planner %s, pool %s%s: %s: %s", (unsigned long long)seed,
                 how->planner ? how->planner : "auto", how->pool ? how->pool : "none",
                 how->poison ? ", poison" : "", failure.where, failure.message);
    if (bytes != plain->bytes || memcmp(out, plain->out, bytes) != 0)
        fail_msg("seed %llu, planner %s, pool %s: other bits", (unsigned long long)seed,
                 how->planner ? how->planner : "auto", how->pool ? how->pool : "none");
}

/* Each instruction is told once a run; on a stream of copies one is over before the next starts. */
static void check_trace(const tn_trace *trace, const writer *made) {
    static double ended[TN_STREAM_MAX];
    uint32_t told[STEPS_MAX] = {0};
    uint64_t count;
    const tn_event *events = tn_trace_events(trace, &count);
    memset(ended, 0, sizeof ended);
    assert_int_equal(tn_trace_dropped(trace), 0);
    for (uint64_t i = 0; i < count; i++) {
        const tn_event *event = &events[i];
        if (event->kind != TN_EVENT_STEP) continue;
        const tn_instruction *it = &made->list[event->step];
        bool copies =
            it->opcode == TN_SWAP_OUT || it->opcode == TN_SWAP_IN || it->opcode == TN_FETCH;
        told[event->step]++;
        assert_true(event->opcode == it->opcode && event->stream == it->stream);
        assert_true(event->start_s > 0 && event->duration_s >= 0);
        if (!copies) continue;
        assert_int_equal(event->bytes, facts_of(made, it->tensor)->bytes);
        assert_true(event->start_s >= ended[it->stream]);
        ended[it->stream] = event->start_s + event->duration_s;
    }
    for (uint32_t s = 0; s < made->count; s++) assert_int_equal(told[s], 2);
}

static bool fetches(const writer *made) {
    bool any = false;
    for (uint32_t i = 0; i < made->count; i++) any |= made->list[i].opcode == TN_FETCH;
    return any;
}

static void random_programs_give_the_bits_of_the_plain_one(void **state) {
    (void)state;
    static const way ways[] = {{.poison = true},
                               {.planner = "greedy-by-size", .poison = true, .link = 2e6},
                               {.planner = "best-fit", .link = 1e6},
                               {.planner = "time-order", .poison = true},
                               {.pool = "best-fit", .poison = true, .link = 1e6},
                               {.pool = "caching"},
                               {.link = 5e6}};
    static writer made;
    tn_trace *trace;
    assert_ok(tn_trace_create(NULL, 1 << 14, &trace, &failure));
    uint64_t opcodes[TN_OPCODE_COUNT] = {0}, swapped = 0, again = 0, streams = 0;
    uint64_t raw = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        static expected plain;
        bool ran[TENSORS_MAX] = {false};
        write_program_for(&made, seed, 0, seed % 2, true);
        plain_run(made.graph, seed, &plain);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            play it;
            faulty memory = {0};
            tn_context context = faulty_context(&memory);
            way how = ways[w];
            how.context = &context;
            if (how.poison == false) how.trace = trace;
            tn_trace_clear(trace);
            tn_program *program;
            assert_ok(program_of(&made, &program));
            tn_status status = play_program(&it, made.graph, program, &how, &failure);
            if (how.pool != NULL && fetches(&made)) { /* a pool knows no files */
                assert_int_equal(status, TN_E_UNSUPPORTED);
                assert_int_equal(memory.held, 0);
                continue;
            }
            if (status != TN_OK)
                fail_msg("seed %llu: %s: %s", (unsigned long long)seed, failure.where,
                         failure.message);
            uint64_t requests = memory.requests;
            for (int run = 0; run < 2; run++) compare_once(&it, &plain, seed, &how);
            tn_engine_usage usage;
            tn_engine_measure(it.engine, &usage);
            assert_true(usage.out_bytes == 0 || usage.host_peak > 0);
            assert_true((usage.fetch_bytes > 0) == fetches(&made));
            assert_true(usage.host_peak <= usage.host_bytes);
            if (how.pool == NULL) /* nothing is allocated in a run */
                assert_int_equal(memory.requests, requests);
            swapped += w == 0 ? usage.out_bytes : 0;
            raw += w == 0 ? usage.raw_count : 0;
            if (how.trace != NULL) check_trace(trace, &made);
            play_close(&it);
            assert_int_equal(memory.held, 0);
        }
        for (uint32_t i = 0; i < made.count; i++) {
            opcodes[made.list[i].opcode]++;
            streams += made.list[i].stream > 0;
            if (made.list[i].opcode != TN_APPLY) continue;
            again += ran[made.list[i].op];
            ran[made.list[i].op] = true;
        }
        tn_graph_destroy(made.graph);
    }
    tn_trace_destroy(trace);
    static const tn_opcode used[] = {TN_PUT,    TN_APPLY,  TN_GET,      TN_FREE,
                                     TN_DROP,   TN_WAIT,   TN_SWAP_OUT, TN_SWAP_IN,
                                     TN_ENCODE, TN_DECODE, TN_FETCH};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) assert_true(opcodes[used[i]] > 100);
    assert_true(swapped > 1000 && again > 100 && streams > 1000);
    assert_true(raw > 20 && raw < opcodes[TN_ENCODE]);
}

/* --- around and inside control flow --- */

typedef struct feed { /* of graphs with control flow */
    int32_t in[2][8];
    uint8_t flag;
    int64_t trips;
    uint8_t out[2][4096];
    tn_array inputs[4], outputs[2];
} feed;

typedef struct mixed { /* a program with control flow, in the making */
    const tn_graph *graph;
    tn_instruction list[512];
    tn_region regions[16];
    uint32_t count, region_count, signals;
} mixed;

static void mixed_insert(mixed *m, uint32_t at, tn_instruction one) {
    assert_true(m->count < sizeof m->list / sizeof *m->list);
    memmove(&m->list[at + 1], &m->list[at], (m->count - at) * sizeof *m->list);
    m->list[at] = one;
    m->count++;
    for (uint32_t r = 0; r < m->region_count; r++) {
        m->regions[r].last += m->regions[r].last > at;
        m->regions[r].first += m->regions[r].first >= at;
    }
}

static tn_status mixed_program(const mixed *m, tn_program **program) {
    tn_error unwanted;
    return tn_program_from(m->graph, m->list, m->count, m->regions, m->region_count, program,
                           &unwanted);
}

/* What an operator made goes away right behind it: and comes back there, or over streams somewhere
 * later, with control flow in between perhaps. */
static void mixed_change(mixed *m, tn__random *random) {
    uint32_t at = (uint32_t)tn__random_below(random, m->count);
    tn_instruction one = TN_INSTRUCTION_INIT, wait = TN_INSTRUCTION_INIT;
    if (m->list[at].opcode != TN_APPLY) return;
    one.tensor = tn_graph_op(m->graph, m->list[at].op)->outputs[0];
    bool apart = tn__random_below(random, 2);
    uint32_t back = at + 2 + (apart ? (uint32_t)tn__random_below(random, m->count - at) : 0);
    if (apart && m->list[at].signal == 0) m->list[at].signal = ++m->signals;
    one.opcode = TN_SWAP_OUT;
    one.stream = apart;
    one.wait = apart ? m->list[at].signal : 0;
    one.signal = apart ? ++m->signals : 0;
    mixed_insert(m, at + 1, one);
    one.opcode = TN_SWAP_IN;
    one.stream = apart ? 2 : 0;
    one.wait = one.signal;
    one.signal = apart ? ++m->signals : 0;
    mixed_insert(m, back, one);
    wait.opcode = TN_WAIT;
    wait.wait = one.signal;
    if (apart) mixed_insert(m, back + 1, wait);
}

static void run_path(tn_engine *engine, uint64_t seed, uint32_t path, feed *it) {
    tn__random random = {.state = seed};
    memset(it, 0, sizeof *it);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 8; k++) it->in[i][k] = (int32_t)tn__random_below(&random, 2001) - 1000;
        it->inputs[i] = (tn_array){.dtype = TN_INT32, .rank = 1, .bytes = 32, .data = it->in[i]};
        it->inputs[i].shape[0] = 8;
        it->outputs[i] = (tn_array){.bytes = sizeof it->out[i], .data = it->out[i]};
    }
    it->flag = path % 2 == 1;
    it->trips = path / 2;
    it->inputs[2] = (tn_array){.dtype = TN_BOOL, .bytes = 1, .data = &it->flag};
    it->inputs[3] = (tn_array){.dtype = TN_INT64, .bytes = 8, .data = &it->trips};
    if (tn_engine_run(engine, it->inputs, 4, it->outputs, 2, &failure) != TN_OK)
        fail_msg("seed %llu, path %u: %s: %s", (unsigned long long)seed, path, failure.where,
                 failure.message);
}

static void swaps_inside_and_around_control_flow(void **state) {
    (void)state;
    uint32_t inside = 0, apart = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        static feed wanted[8], got;
        tn_graph *graph = random_graph(seed, true);
        tn__random random = {.state = seed};
        const setting naive = {.naive = true};
        const way how = {.poison = seed % 2, .link = seed % 3 ? 3e6 : 0};
        tn_program *plain, *program;
        static mixed m, before;
        rig r;
        play p;
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(rig_make(&r, graph, &naive, &failure));
        for (uint32_t path = 0; path < 8; path++) run_path(r.engine, seed, path, &wanted[path]);
        rig_release(&r);
        assert_ok(tn_program_create(graph, NULL, &plain, &failure));
        m = (mixed){.graph = graph,
                    .count = tn_program_count(plain),
                    .region_count = tn_program_region_count(plain)};
        memcpy(m.list, tn_program_instructions(plain), m.count * sizeof *m.list);
        memcpy(m.regions, tn_program_regions(plain), m.region_count * sizeof *m.regions);
        for (int change = 0; change < 12; change++) { /* what is refused is left out */
            before = m;
            mixed_change(&m, &random);
            if (mixed_program(&m, &program) != TN_OK)
                m = before;
            else
                tn_program_destroy(program);
        }
        for (uint32_t s = 0; s < m.count; s++) {
            if (m.list[s].opcode != TN_SWAP_OUT) continue;
            apart += m.list[s].stream > 0;
            for (uint32_t i = 0; i < m.region_count; i++)
                inside += m.regions[i].first <= s && s < m.regions[i].last;
        }
        assert_ok(mixed_program(&m, &program));
        assert_ok(play_program(&p, graph, program, &how, &failure));
        for (uint32_t path = 0; path < 8; path++) {
            run_path(p.engine, seed, path, &got);
            for (int k = 0; k < 2; k++)
                if (got.outputs[k].bytes != wanted[path].outputs[k].bytes ||
                    memcmp(got.out[k], wanted[path].out[k], got.outputs[k].bytes) != 0)
                    fail_msg("seed %llu, path %u: other bits", (unsigned long long)seed, path);
        }
        play_close(&p);
        tn_program_destroy(plain);
        tn_graph_destroy(graph);
    }
    printf("%u swaps inside control flow, %u on streams around it\n", inside, apart);
    assert_true(inside > 50 && apart > 50);
}

/* Inside it nobody may wait or signal (tn_program_verify). Here all of a program is on one stream,
 * once on 0. */
static void control_flow_on_another_stream_is_refused(void **state) {
    (void)state;
    tn_graph *graph = random_graph(4, true);
    tn_program *plain;
    tn_instruction list[256];
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(tn_program_create(graph, NULL, &plain, &failure));
    uint32_t count = tn_program_count(plain);
    assert_true(count <= 256 && tn_program_region_count(plain) > 0);
    memcpy(list, tn_program_instructions(plain), count * sizeof *list);
    for (uint32_t stream = 0; stream < 2; stream++) {
        tn_program *changed;
        tn_setup *setup;
        tn_engine *engine = NULL;
        tn_setup_options options = TN_SETUP_OPTIONS_INIT;
        tn_engine_options how = TN_ENGINE_OPTIONS_INIT;
        how.read = read_value;
        for (uint32_t s = 0; s < count; s++) list[s].stream = stream;
        assert_ok(tn_program_from(graph, list, count, tn_program_regions(plain),
                                  tn_program_region_count(plain), &changed, &failure));
        options.given_program = changed;
        assert_ok(tn_setup_create(graph, &options, &setup, &failure));
        tn_status status = tn_setup_open(setup, NULL, &how, &engine, &failure);
        assert_int_equal(status, stream == 0 ? TN_OK : TN_E_UNSUPPORTED);
        if (stream != 0) assert_non_null(strstr(failure.message, "control flow"));
        tn_engine_destroy(engine);
        tn_setup_destroy(setup);
        tn_program_destroy(changed);
    }
    tn_program_destroy(plain);
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_give_the_bits_of_the_plain_one),
        cmocka_unit_test(swaps_inside_and_around_control_flow),
        cmocka_unit_test(control_flow_on_another_stream_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
