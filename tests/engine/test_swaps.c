/* test_swaps.c - copies, one by one: what overlaps, what is told and measured, what is refused; and
 * a plan that takes bytes which are still being copied, which poison must find. Random programs:
 * test_copies.c.
 */
#define GRAPH_DTYPE TN_INT32
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "play.h"

/* --- by hand: x and y go in, out = x + a + b after a was away --- */

enum { X, Y, A, B, C, OUT, TENSORS };

typedef struct hand {
    tn_graph *graph;
    tn_tensor_id id[TENSORS];
    tn_op_id op[TENSORS]; /* who makes it */
    tn_instruction list[32];
    uint32_t count;
} hand;

static tn_tensor_id hand_tensor(hand *it, const char *name, tn_kind kind, int64_t size) {
    return vector(it->graph, name, kind, size, 0);
}

/* a = x + y; b = cumulated y; c = a + b; out = c + x. */
static void hand_open(hand *it, int64_t size) {
    *it = (hand){0};
    assert_ok(tn_graph_create(NULL, &it->graph, &failure));
    it->id[X] = hand_tensor(it, "x", TN_KIND_INPUT, size);
    it->id[Y] = hand_tensor(it, "y", TN_KIND_INPUT, size);
    for (int t = A; t < OUT; t++)
        it->id[t] = hand_tensor(it, t == A ? "a" : t == B ? "b" : "c", TN_KIND_ACTIVATION, -1);
    it->id[OUT] = hand_tensor(it, "out", TN_KIND_OUTPUT, -1);
    apply(it->graph, "Add", 0, (tn_tensor_id[]){it->id[X], it->id[Y]}, 2, &it->id[A], 1);
    apply(it->graph, "CumSum", 0,
          (tn_tensor_id[]){it->id[Y], numbers(it->graph, (int64_t[]){0}, 1)}, 2, &it->id[B], 1);
    apply(it->graph, "Add", 0, (tn_tensor_id[]){it->id[A], it->id[B]}, 2, &it->id[C], 1);
    apply(it->graph, "Add", 0, (tn_tensor_id[]){it->id[C], it->id[X]}, 2, &it->id[OUT], 1);
    for (tn_op_id op = 0; op < tn_graph_op_count(it->graph); op++)
        for (int t = A; t <= OUT; t++)
            if (tn_graph_op(it->graph, op)->outputs[0] == it->id[t]) it->op[t] = op;
    assert_ok(tn_graph_infer(it->graph, &failure));
}

static tn_instruction *hand_add(hand *it, tn_opcode opcode, int tensor) {
    static const tn_instruction none = TN_INSTRUCTION_INIT;
    tn_instruction *made = &it->list[it->count++];
    *made = none;
    made->opcode = opcode;
    if (opcode == TN_APPLY)
        made->op = it->op[tensor];
    else if (opcode != TN_WAIT)
        made->tensor = it->id[tensor];
    return made;
}

/* `a` goes away on stream 1 while b is made, and comes back on stream 2 for c. */
static void hand_swap(hand *it, bool waits) {
    hand_add(it, TN_PUT, X);
    hand_add(it, TN_PUT, Y);
    hand_add(it, TN_APPLY, A)->signal = 1;
    tn_instruction *out = hand_add(it, TN_SWAP_OUT, A);
    out->stream = 1, out->wait = 1, out->signal = 2;
    if (waits) hand_add(it, TN_WAIT, X)->wait = 2;
    hand_add(it, TN_APPLY, B);
    tn_instruction *in = hand_add(it, TN_SWAP_IN, A);
    in->stream = 2, in->wait = 2, in->signal = 3;
    hand_add(it, TN_APPLY, C)->wait = 3;
    hand_add(it, TN_APPLY, OUT);
    hand_add(it, TN_GET, OUT);
}

static void hand_run(play *it, int32_t *x, int32_t *y, int32_t *out, int64_t size) {
    tn_array inputs[2] = {{.dtype = TN_INT32, .rank = 1, .bytes = 4 * (uint64_t)size, .data = x},
                          {.dtype = TN_INT32, .rank = 1, .bytes = 4 * (uint64_t)size, .data = y}};
    tn_array output = {.bytes = 4 * (uint64_t)size, .data = out};
    inputs[0].shape[0] = inputs[1].shape[0] = size;
    assert_ok(tn_engine_run(it->engine, inputs, 2, &output, 1, &failure));
    for (int64_t i = 0, sum = 0; i < size; i++) {
        sum += y[i];
        assert_int_equal(out[i], x[i] + y[i] + (int32_t)sum + x[i]);
    }
}

static const tn_event *event_of(const tn_trace *trace, tn_opcode opcode, tn_op_id op) {
    uint64_t count;
    const tn_event *events = tn_trace_events(trace, &count);
    for (uint64_t i = 0; i < count; i++)
        if (events[i].kind == TN_EVENT_STEP && events[i].opcode == opcode && events[i].op == op)
            return &events[i];
    fail_msg("there is no event of %s", tn_opcode_name(opcode));
    return NULL;
}

/* What copies are told and measured to take is what the link makes of their bytes, and the walk
 * goes on until it needs them. */
static void copies_are_told_with_their_times_and_stalls_are_measured(void **state) {
    enum { SIZE = 5000 };
    (void)state;
    static int32_t x[SIZE], y[SIZE], out[SIZE];
    const double link = 1e5, copy_s = 4 * SIZE / link; /* 200 ms: who is late on a busy machine is
                                                        * not as late as that */
    hand it;
    play p;
    tn_trace *trace;
    tn_engine_usage usage;
    for (int i = 0; i < SIZE; i++) x[i] = i, y[i] = 3 * i + 1;
    hand_open(&it, SIZE);
    hand_swap(&it, false);
    assert_ok(tn_trace_create(NULL, 100, &trace, &failure));
    const way how = {.link = link, .trace = trace};
    assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
    for (int run = 0; run < 2; run++) {
        tn_trace_clear(trace);
        hand_run(&p, x, y, out, SIZE);
        const tn_event *away = event_of(trace, TN_SWAP_OUT, TN_NONE);
        const tn_event *back = event_of(trace, TN_SWAP_IN, TN_NONE);
        const tn_event *b = event_of(trace, TN_APPLY, it.op[B]);
        const tn_event *c = event_of(trace, TN_APPLY, it.op[C]);
        assert_true(away->stream == 1 && back->stream == 2 && b->stream == 0);
        assert_true(away->bytes == 4 * SIZE && back->bytes == 4 * SIZE);
        assert_true(away->tensor == it.id[A] && back->tensor == it.id[A]);
        const tn_event *a = event_of(trace, TN_APPLY, it.op[A]);
        double away_s = away->start_s + away->duration_s, back_s = back->start_s + back->duration_s;
        assert_true(away_s - (a->start_s + a->duration_s) >= copy_s);
        assert_true(back_s - (a->start_s + a->duration_s) >= 2 * copy_s);
        assert_true(b->start_s < away_s); /* it did not wait */
        assert_true(back->start_s >= away_s && c->start_s >= back_s);
        tn_engine_measure(p.engine, &usage);
        assert_true(usage.out_bytes == 4 * SIZE && usage.in_bytes == 4 * SIZE);
        assert_true(usage.stall_seconds > copy_s); /* b takes microseconds */
        assert_true(usage.stall_seconds < usage.seconds);
        assert_true(usage.host_bytes >= 4 * SIZE && usage.host_peak >= 4 * SIZE);
    }
    play_close(&p);
    tn_trace_destroy(trace);
    tn_graph_destroy(it.graph);
}

static void a_swap_on_stream_0_is_a_stall(void **state) {
    (void)state;
    int32_t x[VALUES] = {1, 2, 3}, y[VALUES] = {4, 0, 5}, out[VALUES];
    hand it;
    play p;
    tn_engine_usage usage;
    hand_open(&it, VALUES);
    hand_add(&it, TN_PUT, X);
    hand_add(&it, TN_PUT, Y);
    hand_add(&it, TN_APPLY, A);
    hand_add(&it, TN_SWAP_OUT, A);
    hand_add(&it, TN_APPLY, B);
    hand_add(&it, TN_SWAP_IN, A);
    hand_add(&it, TN_APPLY, C);
    hand_add(&it, TN_APPLY, OUT);
    hand_add(&it, TN_GET, OUT);
    const way how = {.link = 3200, .poison = true}; /* 10 ms each */
    assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
    hand_run(&p, x, y, out, VALUES);
    tn_engine_measure(p.engine, &usage);
    assert_true(usage.stall_seconds >= 0.019 && usage.stall_seconds < usage.seconds);
    play_close(&p);
    tn_graph_destroy(it.graph);
}

static void the_host_has_as_much_as_it_is_given(void **state) {
    (void)state;
    int32_t x[VALUES] = {0}, y[VALUES] = {0}, out[VALUES];
    hand it;
    play p;
    tn_engine_usage usage;
    hand_open(&it, VALUES);
    hand_swap(&it, false);
    way how = {.poison = true};
    assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
    tn_engine_measure(p.engine, &usage);
    play_close(&p);
    how.host_capacity = usage.host_bytes;
    assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
    hand_run(&p, x, y, out, VALUES);
    play_close(&p);
    how.host_capacity--;
    assert_int_equal(play_open(&p, it.graph, it.list, it.count, &how, &failure), TN_E_EXHAUSTED);
    assert_non_null(strstr(failure.message, "of the host's memory"));
    tn_graph_destroy(it.graph);
}

/* Swapped tensors lie where the caller says, if they do not overlap there. */
static void the_host_is_laid_out_as_it_is_told(void **state) {
    (void)state;
    int32_t x[VALUES] = {1, 2, 3}, y[VALUES] = {4, 0, 5}, out[VALUES];
    uint64_t far[2] = {640, 320};
    hand it;
    play p;
    tn_host host;
    tn_layout layout;
    tn_engine_usage usage;
    hand_open(&it, VALUES);
    hand_swap(&it, false);
    way how = {.poison = true};
    assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
    assert_ok(tn_program_host(p.program, 0, &host, &failure));
    play_close(&p);
    assert_in_range(tn_problem_count(host.problem), 1, 2);
    assert_ok(tn_layout_from_offsets(host.problem, far, &layout, &failure));
    how.host_layout = &layout;
    assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
    hand_run(&p, x, y, out, VALUES);
    tn_engine_measure(p.engine, &usage);
    assert_int_equal(usage.host_bytes, layout.peak);
    assert_true(layout.peak >= far[0]);
    play_close(&p);
    layout.offset[0] = 1; /* not aligned */
    assert_int_equal(play_open(&p, it.graph, it.list, it.count, &how, &failure), TN_E_CONFLICT);
    layout.body_count++;
    assert_int_equal(play_open(&p, it.graph, it.list, it.count, &how, &failure), TN_E_CONFLICT);
    assert_non_null(strstr(failure.message, "host_layout"));
    layout.body_count--;
    tn_layout_release(&layout);
    tn_host_release(&host);
    tn_graph_destroy(it.graph);
}

/* The same numbers from whichever device keeps it, in the walk and beside it; each device that is
 * here. */
static void another_device_may_keep_what_is_swapped_out(void **state) {
    (void)state;
    int32_t x[VALUES] = {1, 2, 3}, y[VALUES] = {4, 0, 5}, out[VALUES];
    setenv("TENURE_CUDART", TENURE_STANDIN, 1);
    for (uint32_t d = 0; d < tn_device_count(); d++) {
        hand it;
        play p;
        hand_open(&it, VALUES);
        hand_swap(&it, d % 2);
        way how = {.poison = true, .swap_device = tn_device_name(d)};
        tn_status status = play_open(&p, it.graph, it.list, it.count, &how, &failure);
        if (status == TN_E_UNSUPPORTED && strcmp(how.swap_device, "opencl") == 0) {
            print_message("SKIP: opencl: %s\n", failure.message);
        } else {
            assert_ok(status);
            for (int run = 0; run < 3; run++) hand_run(&p, x, y, out, VALUES);
            play_close(&p);
        }
        how.swap_device = "abacus";
        assert_int_equal(play_open(&p, it.graph, it.list, it.count, &how, &failure), TN_E_UNKNOWN);
        tn_graph_destroy(it.graph);
    }
}

/* Each way of it: what is told to be slow is not faster. */
static void the_link_to_another_device_is_as_slow_as_is_said(void **state) {
    enum { SIZE = 5000 };
    (void)state;
    static int32_t x[SIZE], y[SIZE], out[SIZE];
    const double speed = 1e5, copy_s = 4 * SIZE / speed;
    hand it;
    play p;
    hand_open(&it, SIZE);
    hand_swap(&it, true);
    const way how = {.swap_device = "host", .swap_bytes_per_s = speed};
    assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
    double start = tn__clock_s();
    hand_run(&p, x, y, out, SIZE);
    assert_true(tn__clock_s() - start >= 2 * copy_s);
    play_close(&p);
    way wrong = how;
    wrong.swap_bytes_per_s = -1;
    assert_int_equal(play_open(&p, it.graph, it.list, it.count, &wrong, &failure), TN_E_INVALID);
    tn_graph_destroy(it.graph);
}

/* A program without swaps asks nothing of the device but its name. */
static void a_device_that_keeps_nothing_is_not_opened(void **state) {
    (void)state;
    int32_t x[VALUES] = {1, 2, 3}, y[VALUES] = {4, 0, 5}, out[VALUES];
    hand it;
    play p;
    hand_open(&it, VALUES);
    hand_add(&it, TN_PUT, X);
    hand_add(&it, TN_PUT, Y);
    for (int t = A; t <= OUT; t++) hand_add(&it, TN_APPLY, t);
    hand_add(&it, TN_GET, OUT);
    way how = {.swap_device = "cuda"};
    setenv("TENURE_CUDART", "nowhere/libcudart.so", 1);
    assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
    hand_run(&p, x, y, out, VALUES);
    play_close(&p);
    how.swap_device = "abacus";
    assert_int_equal(play_open(&p, it.graph, it.list, it.count, &how, &failure), TN_E_UNKNOWN);
    tn_graph_destroy(it.graph);
}

/* What lies in static memory until it is copied has memory of its own behind that, in each run. */
static void a_view_of_what_is_static_may_be_swapped(void **state) {
    (void)state;
    hand it;
    play p;
    tn_tensor_id view, parameter, sum;
    int32_t x[VALUES], y[VALUES] = {0}, out[VALUES];
    it = (hand){0};
    assert_ok(tn_graph_create(NULL, &it.graph, &failure));
    tn_tensor_id in = it.id[X] = vector(it.graph, "x", TN_KIND_INPUT, VALUES, 0);
    it.id[Y] = vector(it.graph, "y", TN_KIND_INPUT, VALUES, 0);
    tn_tensor_spec trained = {.name = "parameter",
                              .kind = TN_KIND_PARAMETER,
                              .flags = TN_TENSOR_UPDATED,
                              .dtype = TN_INT32,
                              .rank = 1,
                              .shape = (int64_t[]){VALUES}};
    assert_ok(tn_graph_add_tensor(it.graph, &trained, &parameter, &failure)); /* never folded */
    it.id[A] = view = vector(it.graph, "view", TN_KIND_ACTIVATION, -1, 0);
    it.id[B] = sum = vector(it.graph, "sum", TN_KIND_ACTIVATION, -1, 0);
    it.id[OUT] = vector(it.graph, "out", TN_KIND_OUTPUT, -1, 0);
    apply(it.graph, "Identity", 0, &parameter, 1, &view, 1);
    apply(it.graph, "Add", 0, (tn_tensor_id[]){view, in}, 2, &sum, 1);
    apply(it.graph, "Add", 0, (tn_tensor_id[]){sum, it.id[Y]}, 2, &it.id[OUT], 1);
    for (int t = 0; t < 3; t++) it.op[t == 2 ? OUT : A + t] = (tn_op_id)t;
    assert_ok(tn_graph_infer(it.graph, &failure));
    hand_add(&it, TN_PUT, X);
    hand_add(&it, TN_PUT, Y);
    hand_add(&it, TN_APPLY, A);
    hand_add(&it, TN_SWAP_OUT, A);
    hand_add(&it, TN_SWAP_IN, A);
    hand_add(&it, TN_APPLY, B);
    hand_add(&it, TN_APPLY, OUT);
    hand_add(&it, TN_GET, OUT);
    const way how = {.poison = true};
    assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
    for (int run = 0; run < 3; run++) {
        for (int i = 0; i < (int)VALUES; i++) x[i] = 100 * run + i;
        tn_array inputs[2] = {
            {.dtype = TN_INT32, .rank = 1, .shape = {VALUES}, .bytes = sizeof x, .data = x},
            {.dtype = TN_INT32, .rank = 1, .shape = {VALUES}, .bytes = sizeof y, .data = y}};
        tn_array output = {.bytes = sizeof out, .data = out};
        assert_ok(tn_engine_run(p.engine, inputs, 2, &output, 1, &failure));
        for (int i = 0; i < (int)VALUES; i++) assert_int_equal(out[i], x[i] + i + 7);
    }
    play_close(&p);
    tn_graph_destroy(it.graph);
}

/* The gradient of Relu sees one bit of each element, and makes the same bits of it. */
static void the_gradient_of_relu_needs_one_bit_an_element(void **state) {
    enum { SIZE = 1003, INPUT = 0, GIVEN, RELU, CODE, GRADIENT, ALL };
    (void)state;
    static float x[SIZE], given[SIZE], got[2][SIZE];
    static const char *const names[] = {"x", "given", "relu", "code", "gradient"};
    tn_tensor_id id[ALL];
    tn_graph *graph;
    tn__random random = {.state = 3};
    static const uint32_t odd[] = {0,           0x80000000u, 1,           0x80000001u,
                                   0x7fc00000u, 0xffc00000u, 0x7f800000u, 0xff800000u};
    for (int i = 0; i < SIZE; i++) {
        x[i] = (float)tn__random_below(&random, 2001) - 1000;
        given[i] = (float)tn__random_below(&random, 2001) - 1000;
        if (i % 5 == 0) memcpy(&x[i], &odd[i / 5 % 8], 4);
        if (i % 7 == 0) memcpy(&given[i], &odd[i / 7 % 8], 4);
    }
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    for (int t = 0; t < ALL; t++) {
        int64_t size = t == CODE ? (SIZE + 7) / 8 : SIZE;
        tn_tensor_spec spec = {.name = names[t],
                               .kind = t < RELU       ? TN_KIND_INPUT
                                       : t < GRADIENT ? TN_KIND_ACTIVATION
                                                      : TN_KIND_OUTPUT,
                               .dtype = t == CODE ? TN_UINT8 : TN_FLOAT32,
                               .rank = 1,
                               .shape = &size};
        assert_ok(tn_graph_add_tensor(graph, &spec, &id[t], &failure));
    }
    tn_op_spec relu = {.type = "Relu",
                       .version = 17,
                       .inputs = &id[INPUT],
                       .input_count = 1,
                       .outputs = &id[RELU],
                       .output_count = 1};
    tn_op_spec back = {.type = "ReluGrad",
                       .domain = "tenure",
                       .inputs = &id[GIVEN],
                       .input_count = 2,
                       .outputs = &id[GRADIENT],
                       .output_count = 1};
    assert_ok(tn_graph_add_op(graph, &relu, NULL, &failure));
    assert_ok(tn_graph_add_op(graph, &back, NULL, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    for (int way_of = 0; way_of < 4; way_of++) {
        bool coded = way_of % 2;
        tn_instruction list[9], one = TN_INSTRUCTION_INIT;
        static const tn_opcode opcodes[] = {TN_PUT,  TN_PUT,    TN_APPLY, TN_ENCODE,
                                            TN_DROP, TN_DECODE, TN_APPLY, TN_GET};
        static const int on[] = {INPUT, GIVEN, 0, RELU, RELU, RELU, 1, GRADIENT};
        uint32_t count = 0;
        for (int k = 0; k < 8; k++) {
            if (!coded && k > 2 && k < 6) continue;
            list[count] = one;
            list[count].opcode = opcodes[k];
            if (opcodes[k] == TN_APPLY)
                list[count].op = (tn_op_id)on[k];
            else
                list[count].tensor = id[on[k]];
            if (opcodes[k] == TN_ENCODE || opcodes[k] == TN_DECODE)
                list[count].other = id[CODE], list[count].codec = TN_CODEC_BITS;
            count++;
        }
        const way how = {.poison = true, .library = way_of > 1};
        play p;
        assert_ok(play_open(&p, graph, list, count, &how, &failure));
        tn_array inputs[2], output = {.bytes = sizeof x, .data = got[coded]};
        for (int i = 0; i < 2; i++)
            inputs[i] = (tn_array){.dtype = TN_FLOAT32,
                                   .rank = 1,
                                   .shape = {SIZE},
                                   .bytes = sizeof x,
                                   .data = i ? given : x};
        assert_ok(tn_engine_run(p.engine, inputs, 2, &output, 1, &failure));
        if (coded) assert_memory_equal(got[0], got[1], sizeof x);
        play_close(&p);
    }
    tn_graph_destroy(graph);
}

/* --- what must be found, what must be refused --- */

static tn_body_id body_of(const play *it, tn_tensor_id tensor, int life) {
    const tn_occupancy *occupancy = tn_setup_occupancy(it->setup);
    const tn_life *lives = tn_occupancy_lives(occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++)
        if (lives[i].tensor == tensor && life-- == 0) return lives[i].body;
    fail_msg("tensor %u has no such body", tensor);
    return 0;
}

/* b is laid where a was, and a comes back where b was: that is right where the program waits until
 * a is gone, and else b takes bytes that are being copied. It takes 0.8 s, so that they certainly
 * are. */
static void poison_finds_who_takes_what_is_being_copied(void **state) {
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        int32_t x[VALUES] = {1, -2, 3}, y[VALUES] = {4, 0, 5}, out[VALUES];
        hand it;
        play p;
        uint64_t bytes;
        hand_open(&it, VALUES);
        hand_swap(&it, waits);
        for (uint32_t s = 0; s + 1 < it.count;
             s++) { /* back before b is made: nobody waits for it */
            tn_instruction one = it.list[s];
            if (one.opcode != TN_APPLY || one.op != it.op[B]) continue;
            it.list[s] = it.list[s + 1];
            it.list[s + 1] = one;
            break;
        }
        const way how = {.link = waits ? 2000 : 40, .poison = true, .planner = "given-order"};
        assert_ok(play_open(&p, it.graph, it.list, it.count, &how, &failure));
        uint64_t *offset = p.engine->places.offset;
        tn_body_id b = body_of(&p, it.id[B], 0);
        offset[body_of(&p, it.id[A], 1)] = offset[b];
        offset[b] = offset[body_of(&p, it.id[A], 0)];
        if (waits) {
            hand_run(&p, x, y, out, VALUES);
        } else {
            int32_t in[2][VALUES] = {{0}};
            uint8_t room[OUT_BYTES];
            assert_int_equal(run_on(p.engine, in, room, &bytes), TN_E_CONFLICT);
            assert_non_null(strstr(failure.message, "is copying"));
        }
        play_close(&p);
        tn_graph_destroy(it.graph);
    }
}

static void refused(hand *it, tn_status wanted, const char *why) {
    play p;
    const way how = {0};
    assert_int_equal(play_open(&p, it->graph, it->list, it->count, &how, &failure), wanted);
    if (strstr(failure.message, why) == NULL) fail_msg("%s: %s", failure.where, failure.message);
    tn_graph_destroy(it->graph);
}

static void what_the_engine_does_not_run_is_refused(void **state) {
    (void)state;
    hand it;
    static const tn_codec codecs[] = {TN_CODEC_BITS, TN_CODEC_FLOAT8, TN_CODEC_CSR};
    for (int i = 0; i < 3; i++) { /* int32 is no float32; a form that is too small */
        hand_open(&it, 600);
        tn_tensor_id code = vector(it.graph, "code", TN_KIND_ACTIVATION, i < 2 ? 600 : 5, 0);
        assert_ok(tn_graph_infer(it.graph, &failure));
        hand_add(&it, TN_PUT, X);
        hand_add(&it, TN_PUT, Y);
        hand_add(&it, TN_APPLY, A);
        tn_instruction *encode = hand_add(&it, TN_ENCODE, A);
        encode->other = code, encode->codec = codecs[i];
        hand_add(&it, TN_DROP, A);
        hand_add(&it, TN_APPLY, B);
        tn_instruction *decode = hand_add(&it, TN_DECODE, A);
        decode->other = code, decode->codec = codecs[i];
        hand_add(&it, TN_APPLY, C);
        hand_add(&it, TN_APPLY, OUT);
        hand_add(&it, TN_GET, OUT);
        refused(&it, i < 2 ? TN_E_UNSUPPORTED : TN_E_INVALID,
                i < 2 ? "does not take int32" : "makes at least");
    }
    hand_open(&it, VALUES); /* other ranks */
    hand_swap(&it, false);
    tn_instruction *send = &it.list[it.count++];
    *send = it.list[it.count - 2];
    send->opcode = TN_SEND;
    refused(&it, TN_E_UNSUPPORTED, "does not run 'send'");
}

/* Every request for memory fails in turn; then all is given back. */
static void memory_that_runs_out_leaves_nothing(void **state) {
    (void)state;
    int32_t in[2][VALUES] = {{1, 2, 3}, {4, 5}};
    hand it;
    hand_open(&it, VALUES);
    hand_swap(&it, true);
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        const way how = {.context = &context, .poison = at % 2, .link = 1e6};
        play p;
        uint8_t out[OUT_BYTES];
        uint64_t bytes;
        tn_status status = play_open(&p, it.graph, it.list, it.count, &how, &failure);
        if (status == TN_OK) status = run_on(p.engine, in, out, &bytes);
        bool failed = memory.requests >= at;
        play_close(&p);
        assert_int_equal(memory.held, 0);
        if (!failed) assert_int_equal(status, TN_OK);
        if (!failed) break;
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY); /* some do no harm */
    }
    tn_graph_destroy(it.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_told_with_their_times_and_stalls_are_measured),
        cmocka_unit_test(a_swap_on_stream_0_is_a_stall),
        cmocka_unit_test(the_host_has_as_much_as_it_is_given),
        cmocka_unit_test(the_host_is_laid_out_as_it_is_told),
        cmocka_unit_test(another_device_may_keep_what_is_swapped_out),
        cmocka_unit_test(the_link_to_another_device_is_as_slow_as_is_said),
        cmocka_unit_test(a_device_that_keeps_nothing_is_not_opened),
        cmocka_unit_test(a_view_of_what_is_static_may_be_swapped),
        cmocka_unit_test(the_gradient_of_relu_needs_one_bit_an_element),
        cmocka_unit_test(poison_finds_who_takes_what_is_being_copied),
        cmocka_unit_test(what_the_engine_does_not_run_is_refused),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
