/* test_simulate.c - how long random programs of all opcodes take: against bounds that hold for any
 * walk, and against one that goes from event to event in time.
 */
#include "opcodes.h"

#include <math.h>

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "graph/op.h"

/* --- another simulator ---------------------------------------------------------------------------
 * Time passes from one end to the next. Whatever may start at a moment starts. */

typedef struct other {
    const tn_instruction *list;
    uint32_t count, handed; /* the walk has come so far */
    uint64_t duration[STEPS_MAX], start[STEPS_MAX], end[STEPS_MAX];
    bool started[STEPS_MAX], ended[STEPS_MAX];
    uint64_t now;
} other;

static int other_link(const tn_instruction *it) {
    switch (it->opcode) {
    case TN_PUT:
    case TN_SWAP_IN:
        return 1;
    case TN_GET:
    case TN_SWAP_OUT:
        return 2;
    case TN_FETCH:
        return 3;
    default:
        return 0;
    }
}

static bool other_by_walk(const tn_instruction *it) {
    return it->stream == 0 || it->opcode == TN_PUT || it->opcode == TN_GET;
}

static bool other_may_start(const other *o, uint32_t i) {
    const tn_instruction *it = &o->list[i];
    for (uint32_t a = 0; a < i; a++) {
        const tn_instruction *before = &o->list[a];
        bool same = before->stream == it->stream || (it->wait != 0 && before->signal == it->wait) ||
                    (other_link(it) != 0 && other_link(it) == other_link(before));
        if (same && !o->ended[a]) return false;
    }
    return true;
}

/* What starts now; whether anything did. */
static bool other_start(other *o) {
    bool any = false;
    while (o->handed < o->count) { /* the walk goes on past what others do */
        uint32_t w = o->handed;
        if (other_by_walk(&o->list[w]) && !o->ended[w]) break;
        o->handed++;
        any = true;
    }
    for (uint32_t i = 0; i <= o->handed && i < o->count; i++) {
        if (o->started[i] || !other_may_start(o, i)) continue;
        o->started[i] = any = true;
        o->start[i] = o->now;
        o->end[i] = o->now + o->duration[i];
    }
    for (uint32_t i = 0; i < o->count; i++)
        if (o->started[i] && !o->ended[i] && o->end[i] <= o->now) o->ended[i] = any = true;
    return any;
}

static uint64_t other_run(other *o) {
    for (;;) {
        while (other_start(o)) {
        }
        uint64_t next = UINT64_MAX;
        uint32_t left = 0;
        for (uint32_t i = 0; i < o->count; i++) {
            left += !o->ended[i];
            if (o->started[i] && !o->ended[i] && o->end[i] < next) next = o->end[i];
        }
        if (left == 0) return o->now;
        assert_true(next != UINT64_MAX);
        o->now = next;
    }
}

/* --- random programs ---------------------------------------------------------------------------*/

typedef struct timing {
    uint64_t costs[TENSORS_MAX], again[TENSORS_MAX];
    tn_simulate_options options;
} timing;

static void draw_timing(timing *t, tn__random *random) {
    static const double rates[] = {0, 1e9, 3.7e9, 25e9};
    t->options = (tn_simulate_options)TN_SIMULATE_OPTIONS_INIT;
    for (uint32_t i = 0; i < TENSORS_MAX; i++) {
        t->costs[i] = tn__random_below(random, 4) ? tn__random_below(random, 20000) : 0;
        t->again[i] = tn__random_below(random, 20000);
    }
    t->options.costs = t->costs;
    t->options.again = tn__random_below(random, 2) ? t->again : NULL;
    t->options.to_host_bytes_per_s = rates[tn__random_below(random, 4)];
    t->options.from_host_bytes_per_s = rates[tn__random_below(random, 4)];
    t->options.peer_bytes_per_s = rates[tn__random_below(random, 4)];
    t->options.codec_bytes_per_s = rates[tn__random_below(random, 4)];
    t->options.from_storage_bytes_per_s = rates[tn__random_below(random, 4)];
    t->options.storage_latency_s = tn__random_below(random, 2) ? 2e-9 : 0;
    t->options.latency_s = tn__random_below(random, 2) ? 1e-9 : 0;
    t->options.peer_latency_s = tn__random_below(random, 2) ? 3e-9 : 0;
}

static uint64_t move_time(const writer *w, const tn_instruction *it, double rate, double latency) {
    double bytes = (double)facts_of(w, it->tensor)->bytes;
    return (uint64_t)(latency * 1e12 + (rate > 0 ? bytes / rate * 1e12 : 0) + 0.5);
}

static void know_durations(const writer *w, const timing *t, other *o) {
    const tn_simulate_options *all = &t->options;
    for (uint32_t i = 0; i < o->count; i++) {
        const tn_instruction *it = &o->list[i];
        bool codec = it->opcode == TN_ENCODE || it->opcode == TN_DECODE;
        bool peer = it->opcode == TN_SEND || it->opcode == TN_RECV || it->opcode == TN_REDUCE ||
                    it->opcode == TN_GATHER || it->opcode == TN_SCATTER;
        if (it->opcode == TN_APPLY) {
            bool again = false;
            for (uint32_t a = 0; a < i; a++)
                again |= o->list[a].opcode == TN_APPLY && o->list[a].op == it->op;
            o->duration[i] = again && all->again != NULL ? t->again[it->op] : t->costs[it->op];
        } else if (codec && all->codec_bytes_per_s > 0) {
            double bytes = (double)(facts_of(w, it->tensor)->bytes + facts_of(w, it->other)->bytes);
            o->duration[i] = (uint64_t)(bytes / all->codec_bytes_per_s * 1e12 + 0.5);
        } else if (other_link(it) == 1) {
            o->duration[i] = move_time(w, it, all->from_host_bytes_per_s, all->latency_s);
        } else if (other_link(it) == 2) {
            o->duration[i] = move_time(w, it, all->to_host_bytes_per_s, all->latency_s);
        } else if (other_link(it) == 3) {
            o->duration[i] =
                move_time(w, it, all->from_storage_bytes_per_s, all->storage_latency_s);
        } else if (peer) {
            o->duration[i] =
                move_time(w, it, all->peer_bytes_per_s, all->latency_s + all->peer_latency_s);
        }
    }
}

typedef struct bounds {
    uint64_t sum, longest, swapped_out, swapped_in;
} bounds;

static bounds bounds_of(const writer *w, const other *o) {
    bounds found = {0};
    uint64_t stream[TN_STREAM_MAX] = {0};
    for (uint32_t i = 0; i < o->count; i++) {
        const tn_instruction *it = &o->list[i];
        found.sum += o->duration[i];
        stream[it->stream] += o->duration[i];
        if (stream[it->stream] > found.longest) found.longest = stream[it->stream];
        if (other_link(it) == 1) found.swapped_in += facts_of(w, it->tensor)->bytes;
        if (other_link(it) == 2) found.swapped_out += facts_of(w, it->tensor)->bytes;
    }
    return found;
}

static void check_stalls(const tn_simulation *found, const other *o) {
    uint64_t sum = 0, work = 0, after = 0;
    for (uint32_t i = 0; i < found->stall_count; i++) {
        const tn_stall *stall = &found->stalls[i];
        assert_true(stall->start_ps >= after && stall->duration_ps > 0);
        after = stall->start_ps + stall->duration_ps;
        assert_true(o->start[stall->step] == after && o->end[stall->on] == after);
        assert_true(stall->on < stall->step);
        sum += stall->duration_ps;
    }
    assert_true(sum == found->stall_ps);
    for (uint32_t i = 0; i < o->count; i++) /* the walk works or waits, nothing else */
        if (other_by_walk(&o->list[i])) {
            work += o->duration[i];
            after = o->end[i];
        }
    assert_true(after == 0 || after <= work + sum);
}

static void check_events(const tn_trace *trace, const other *o) {
    uint64_t count;
    int64_t held = 0;
    uint32_t steps = 0;
    const tn_event *events = tn_trace_events(trace, &count);
    assert_true(tn_trace_dropped(trace) == 0);
    for (uint64_t i = 0; i < count; i++) {
        const tn_event *event = &events[i];
        if (event->kind == TN_EVENT_STEP) {
            assert_true(event->step == steps++);
            assert_true(fabs(event->start_s * 1e12 - (double)o->start[event->step]) < 1);
            assert_true(fabs(event->duration_s * 1e12 - (double)o->duration[event->step]) < 1);
            assert_int_equal(event->stream, o->list[event->step].stream);
        } else {
            held += event->kind == TN_EVENT_ALLOC ? (int64_t)event->bytes : -(int64_t)event->bytes;
            assert_true(held >= 0);
        }
    }
    assert_true(steps == o->count && held == 0);
}

static uint64_t simulate_random(uint64_t seed, uint32_t streams) {
    static writer w;
    static other o;
    static timing t;
    tn__random random = {.state = seed * 31 + 7};
    tn_program *program;
    tn_occupancy *occupancy;
    tn_simulation found;
    write_program(&w, seed, streams);
    draw_timing(&t, &random);
    o = (other){.list = w.list, .count = w.count};
    know_durations(&w, &t, &o);
    assert_ok(tn_program_from(w.graph, w.list, w.count, NULL, 0, &program, &failure));
    assert_ok(tn_occupancy_create(program, NULL, &occupancy, &failure));
    assert_ok(tn_trace_create(NULL, 4 * STEPS_MAX, &t.options.trace, &failure));
    t.options.occupancy = occupancy;
    assert_ok(tn_simulate(program, &t.options, &found, &failure));
    uint64_t total = other_run(&o);
    bounds known = bounds_of(&w, &o);
    if (found.total_ps != total)
        fail_msg("seed %llu, %u streams: %llu ps, should be %llu", (unsigned long long)seed,
                 streams, (unsigned long long)found.total_ps, (unsigned long long)total);
    assert_true(total <= known.sum && total >= known.longest);
    if (streams == 1) assert_true(total == known.sum && found.stall_count == 0);
    assert_true(found.to_host_bytes == known.swapped_out);
    assert_true(found.from_host_bytes == known.swapped_in && found.guesses == 0);
    check_stalls(&found, &o);
    check_events(t.options.trace, &o);
    uint64_t stalls = found.stall_count;
    tn_simulation_release(&found);
    tn_trace_destroy(t.options.trace);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(w.graph);
    return stalls;
}

static void it_agrees_with_a_walk_from_event_to_event(void **state) {
    uint64_t stalls = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 1500; seed++) stalls += simulate_random(seed, 0);
    assert_true(stalls > 500);
}

static void one_stream_takes_the_sum(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) simulate_random(seed, 1);
}

/* --- control flow ------------------------------------------------------------------------------
 */

/* What the whole program takes, against its instructions by hand: loops as often as their constant
 * says, the longer branch. */
static tn_tensor_id scalar(tn_graph *graph, tn_dtype dtype, const char *name, int64_t value) {
    tn_tensor_id id;
    tn_tensor_spec spec = {
        .name = name, .dtype = dtype, .kind = TN_KIND_CONSTANT, .value = {1, &value, NULL}};
    assert_ok(tn_graph_add_tensor(graph, &spec, &id, &failure));
    return id;
}

static tn_graph *looping(int64_t turns, bool known) {
    tn_graph *graph;
    tn_block_id body;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    assert_ok(tn_graph_add_block(graph, "body", &body, &failure));
    tn_tensor_spec number = {.name = "n", .dtype = TN_INT64, .kind = TN_KIND_INPUT};
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 8, 0), most;
    if (known)
        most = scalar(graph, TN_INT64, "most", turns);
    else
        assert_ok(tn_graph_add_tensor(graph, &number, &most, &failure));
    tn_tensor_id yes = scalar(graph, TN_BOOL, "yes", 1);
    tn_tensor_id formals[3], next, y = vector(graph, "y", TN_KIND_OUTPUT, -1, 0);
    for (int i = 0; i < 3; i++) {
        tn_tensor_spec spec = {.name = "formal", .block = body, .kind = TN_KIND_ACTIVATION};
        assert_ok(tn_graph_add_tensor(graph, &spec, &formals[i], &failure));
    }
    next = vector(graph, "next", TN_KIND_ACTIVATION, -1, body);
    apply(graph, "Relu", body, &formals[2], 1, &next, 1);
    tn_tensor_id outputs[] = {formals[1], next}, inputs[] = {most, yes, x};
    assert_ok(tn_graph_set_block_io(graph, body, formals, 3, outputs, 2, &failure));
    tn_attr attr = {.name = "body", .type = TN_ATTR_BLOCK, .count = 1, .block = body};
    tn_op_spec loop = {.name = "loop",
                       .type = "Loop",
                       .version = 18,
                       .inputs = inputs,
                       .input_count = 3,
                       .outputs = &y,
                       .output_count = 1,
                       .attrs = &attr,
                       .attr_count = 1};
    assert_ok(tn_graph_add_op(graph, &loop, NULL, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    return graph;
}

static void loops_count_as_often_as_is_known(void **state) {
    (void)state;
    for (int known = 0; known < 2; known++) {
        tn_graph *graph = looping(7, known);
        tn_program *program;
        tn_simulation found;
        uint64_t costs[] = {1000, 0};
        tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
        options.costs = costs;
        assert_ok(tn_program_create(graph, NULL, &program, &failure));
        assert_string_equal(tn_graph_op(graph, 0)->type, "Relu");
        assert_ok(tn_simulate(program, &options, &found, &failure));
        assert_int_equal(found.total_ps, known ? 7000 : 1000);
        assert_int_equal(found.guesses, known ? 0 : 1);
        tn_simulation_release(&found);
        tn_program_destroy(program);
        tn_graph_destroy(graph);
    }
}

/* Random graphs with branches and loops: with every operator at no cost nothing takes time, with
 * one at a cost never more than all turns of all loops, never less than once outside of branches.
 */
static void branches_take_the_longest(void **state) {
    uint32_t guesses = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        tn__random random = {.state = seed};
        tn_program *program;
        tn_simulation found;
        tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
        tn_graph *graph = random_graph(seed, true);
        uint32_t count = tn_graph_op_count(graph);
        uint64_t *costs = calloc(count + 1, sizeof *costs), least = 0, all = 0;
        assert_ok(tn_program_create(graph, NULL, &program, &failure));
        for (uint32_t i = 0; i < count; i++) costs[i] = 1 + tn__random_below(&random, 1000);
        const tn_instruction *list = tn_program_instructions(program);
        for (uint32_t i = 0; i < tn_program_count(program); i++) {
            uint64_t cost = list[i].opcode == TN_APPLY ? costs[list[i].op] : 0;
            bool inside = cost > 0 && tn_graph_op(graph, list[i].op)->block != 0;
            least += inside ? 0 : cost;
            all += cost;
        }
        options.costs = costs;
        assert_ok(tn_simulate(program, &options, &found, &failure));
        assert_true(found.total_ps >= least && found.total_ps <= 1000000 * all);
        assert_true(found.total_ps == found.compute_ps && found.stall_count == 0);
        guesses += found.guesses;
        tn_simulation_release(&found);
        tn_program_destroy(program);
        tn_graph_destroy(graph);
        free(costs);
    }
    assert_true(guesses > 20);
}

/* --- what is refused ---------------------------------------------------------------------------*/

static void bad_rates_and_strangers_are_refused(void **state) {
    static writer w, v;
    tn_program *program, *another;
    tn_occupancy *occupancy;
    tn_simulation found;
    const double bad[] = {-1, NAN, INFINITY};
    (void)state;
    write_program(&w, 1, 1);
    write_program(&v, 2, 1);
    assert_ok(tn_program_from(w.graph, w.list, w.count, NULL, 0, &program, &failure));
    assert_ok(tn_program_from(v.graph, v.list, v.count, NULL, 0, &another, &failure));
    assert_ok(tn_occupancy_create(another, NULL, &occupancy, &failure));
    for (int i = 0; i < 15; i++) {
        tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
        double *fields[] = {&options.to_host_bytes_per_s, &options.from_host_bytes_per_s,
                            &options.peer_bytes_per_s,    &options.codec_bytes_per_s,
                            &options.latency_s,           &options.peer_latency_s};
        *fields[i % 5] = bad[i / 5];
        assert_int_equal(tn_simulate(program, &options, &found, &failure), TN_E_INVALID);
    }
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    options.occupancy = occupancy;
    assert_int_equal(tn_simulate(program, &options, &found, &failure), TN_E_INVALID);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_program_destroy(another);
    tn_graph_destroy(w.graph);
    tn_graph_destroy(v.graph);
}

static void every_allocation_may_fail(void **state) {
    static writer w;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_trace *trace;
    (void)state;
    write_program(&w, 5, 3);
    assert_ok(tn_program_from(w.graph, w.list, w.count, NULL, 0, &program, &failure));
    assert_ok(tn_occupancy_create(program, NULL, &occupancy, &failure));
    assert_ok(tn_trace_create(NULL, 4 * STEPS_MAX, &trace, &failure));
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
        tn_simulation found = {0};
        options.context = &context;
        options.trace = trace;
        options.occupancy = occupancy;
        tn_status status = tn_simulate(program, &options, &found, &failure);
        assert_true(memory.held == 0);
        tn_simulation_release(&found);
        if (status == TN_OK) break;
        assert_true(status == TN_E_NO_MEMORY && at < 100);
    }
    tn_trace_destroy(trace);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(w.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_a_walk_from_event_to_event),
        cmocka_unit_test(one_stream_takes_the_sum),
        cmocka_unit_test(loops_count_as_often_as_is_known),
        cmocka_unit_test(branches_take_the_longest),
        cmocka_unit_test(bad_rates_and_strangers_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
