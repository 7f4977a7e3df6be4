/* test_forms.c - tensors that are less sparse than was planned: kept raw, or on the host, or
 * refused where that has no room, and the same bits in every case; and shares of zeros, against
 * counting.
 */
#include "rig.h"

#include <math.h>
#include <tenure/engine.h>

#define COUNT 2000u

static tn_error failure;

static void ok(tn_status status) {
    if (status != TN_OK)
        fail_msg("%s: %s: %s", tn_status_name(status), failure.where, failure.message);
}

/* a = relu(x) is kept as CSR while b = -x is computed; then y = b - a. */
typedef struct coded {
    tn_graph *graph;
    tn_tensor_id x, a, b, y, form;
    tn_program *program;
    tn_setup *setup;
    tn_engine *engine;
    tn_codec codec;     /* CSR, or as set before it is opened */
    double error_limit; /* likewise */
    float in[COUNT], out[COUNT];
} coded;

static tn_tensor_id coded_tensor(coded *it, const char *name, tn_kind kind) {
    const int64_t shape[] = {COUNT};
    tn_tensor_spec spec = {
        .name = name, .dtype = TN_FLOAT32, .kind = kind, .rank = 1, .shape = shape};
    tn_tensor_id id;
    ok(tn_graph_add_tensor(it->graph, &spec, &id, &failure));
    return id;
}

static void coded_op(coded *it, const char *type, tn_tensor_id p, tn_tensor_id q, tn_tensor_id y) {
    const tn_tensor_id inputs[] = {p, q};
    tn_op_spec spec = {.name = type,
                       .type = type,
                       .version = 14,
                       .inputs = inputs,
                       .input_count = q == TN_NONE ? 1 : 2,
                       .outputs = &y,
                       .output_count = 1};
    ok(tn_graph_add_op(it->graph, &spec, NULL, &failure));
}

/* bytes: of the form. */
static void coded_program(coded *it, uint64_t bytes) {
    const tn_encoded form = {it->a, it->codec, bytes};
    tn_instruction list[8];
    for (int i = 0; i < 8; i++) list[i] = (tn_instruction)TN_INSTRUCTION_INIT;
    list[0].opcode = TN_PUT, list[0].tensor = it->x;
    list[1].opcode = TN_APPLY, list[1].op = 0;
    list[2].opcode = TN_ENCODE, list[2].tensor = it->a, list[2].other = it->form;
    list[3].opcode = TN_DROP, list[3].tensor = it->a;
    list[4].opcode = TN_APPLY, list[4].op = 1;
    list[5].opcode = TN_DECODE, list[5].tensor = it->a, list[5].other = it->form;
    list[6].opcode = TN_APPLY, list[6].op = 2;
    list[7].opcode = TN_GET, list[7].tensor = it->y;
    list[2].codec = list[5].codec = it->codec;
    ok(tn_program_from_encoded(it->graph, &form, 1, list, 8, NULL, 0, &it->program, &failure));
}

static void coded_open_as(coded *it, uint64_t bytes, uint64_t host_capacity, float *zeros,
                          const tn_context *context) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    ok(tn_graph_create(NULL, &it->graph, &failure));
    it->x = coded_tensor(it, "x", TN_KIND_INPUT);
    it->a = coded_tensor(it, "a", TN_KIND_ACTIVATION);
    it->b = coded_tensor(it, "b", TN_KIND_ACTIVATION);
    it->y = coded_tensor(it, "y", TN_KIND_OUTPUT);
    it->form = it->y + 1;
    coded_op(it, "Relu", it->x, TN_NONE, it->a);
    coded_op(it, "Neg", it->x, TN_NONE, it->b);
    coded_op(it, "Sub", it->b, it->a, it->y);
    ok(tn_graph_set_block_io(it->graph, 0, &it->x, 1, &it->y, 1, &failure));
    ok(tn_graph_infer(it->graph, &failure));
    coded_program(it, bytes);
    kernels.plain = true;
    options.kernels = &kernels;
    options.given_program = it->program;
    engine.poison = true;
    engine.host_capacity = host_capacity;
    engine.zeros = zeros;
    engine.context = context;
    engine.error_limit = it->error_limit;
    ok(tn_setup_create(it->graph, &options, &it->setup, &failure));
    ok(tn_setup_open(it->setup, NULL, &engine, &it->engine, &failure));
}

static void coded_open(coded *it, uint64_t bytes, uint64_t host_capacity, float *zeros,
                       const tn_context *context) {
    memset(it, 0, sizeof *it);
    it->codec = TN_CODEC_CSR;
    coded_open_as(it, bytes, host_capacity, zeros, context);
}

static void coded_close(coded *it) {
    tn_engine_destroy(it->engine);
    tn_setup_destroy(it->setup);
    tn_program_destroy(it->program);
    tn_graph_destroy(it->graph);
}

/* `filled` elements above zero, anywhere; of the others half are below it. */
static tn_status coded_run(coded *it, uint64_t filled, tn__random *random) {
    tn_array in = {.dtype = TN_FLOAT32, .rank = 1, .shape = {COUNT}, .bytes = sizeof it->in};
    tn_array out = {.bytes = sizeof it->out, .data = it->out};
    in.data = it->in;
    for (uint32_t i = 0; i < COUNT; i++) {
        bool above = tn__random_below(random, COUNT - i) < filled;
        filled -= above;
        it->in[i] = above ? 0.5f + (float)i : -(float)tn__random_below(random, 2);
        if (!above && it->in[i] == 0) it->in[i] = 0; /* not -0 */
    }
    memset(it->out, 0x77, sizeof it->out);
    return tn_engine_run(it->engine, &in, 1, &out, 1, &failure);
}

static void check_out(const coded *it) {
    for (uint32_t i = 0; i < COUNT; i++) {
        float expected = -it->in[i] - (it->in[i] > 0 ? it->in[i] : 0);
        assert_true(it->out[i] == expected);
    }
}

static uint64_t form_bytes(uint64_t filled) { return tn_codec_bytes(TN_CODEC_CSR, COUNT, filled); }

static void what_has_no_room_goes_to_the_host(void **state) {
    tn__random random = {.state = 1};
    uint32_t spilled = 0, sparse = 0, raw = 0;
    (void)state;
    for (uint64_t round = 0; round < 200; round++) {
        uint64_t room = form_bytes(tn__random_below(&random, COUNT)), held = 0;
        faulty memory = {0};
        tn_context context = faulty_context(&memory);
        coded it;
        tn_engine_usage usage;
        coded_open(&it, room, 0, NULL, &context);
        for (int run = 0; run < 6; run++) {
            uint64_t requests = memory.requests, filled = tn__random_below(&random, COUNT);
            bool fits = form_bytes(filled) <= room, is_raw = !fits && room >= 16 + sizeof it.in;
            ok(coded_run(&it, filled, &random));
            check_out(&it);
            tn_engine_measure(it.engine, &usage);
            assert_int_equal(usage.raw_count, is_raw);
            assert_int_equal(usage.spill_count, !fits && !is_raw);
            bool first = usage.spill_count > 0 && held == 0; /* memory is taken once */
            assert_int_equal(memory.requests - requests, first);
            held += first ? sizeof it.in : 0;
            assert_int_equal(usage.spill_bytes, held);
            spilled += !fits && !is_raw;
            sparse += fits;
            raw += is_raw;
        }
        coded_close(&it);
        assert_int_equal(memory.held, 0);
    }
    assert_true(spilled > 50 && sparse > 50 && raw > 10);
}

/* Refused, with what to do; a run that is sparse again works. */
static void a_full_host_refuses_it_and_nothing_is_lost(void **state) {
    tn__random random = {.state = 2};
    coded it;
    tn_engine_usage usage;
    (void)state;
    coded_open(&it, form_bytes(100), COUNT * 4 - 1, NULL, NULL);
    assert_int_equal(coded_run(&it, 101, &random), TN_E_EXHAUSTED);
    assert_non_null(strstr(failure.message, "101 of 2000"));
    ok(coded_run(&it, 100, &random));
    check_out(&it);
    coded_close(&it);
    coded_open(&it, form_bytes(100), COUNT * 4, NULL, NULL);
    ok(coded_run(&it, 101, &random));
    check_out(&it);
    tn_engine_measure(it.engine, &usage);
    assert_int_equal(usage.spill_count, 1);
    coded_close(&it);
}

/* The host has no memory just then. */
static void without_memory_it_is_refused(void **state) {
    tn__random random = {.state = 3};
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    coded it;
    (void)state;
    coded_open(&it, form_bytes(10), 0, NULL, &context);
    memory.fail_at = memory.requests + 1;
    assert_int_equal(coded_run(&it, 500, &random), TN_E_EXHAUSTED);
    memory.fail_at = 0;
    ok(coded_run(&it, 500, &random));
    check_out(&it);
    coded_close(&it);
    assert_int_equal(memory.held, 0);
}

/* The least share of all runs, of what operators make, whatever became of it then. */
static void shares_of_zeros_are_counted(void **state) {
    static const uint64_t filled[] = {700, 1500, 300};
    tn__random random = {.state = 4};
    float zeros[8], alone[8];
    coded it;
    (void)state;
    for (int i = 0; i < 8; i++) zeros[i] = alone[i] = -1;
    coded_open(&it, form_bytes(1600), 0, zeros, NULL);
    for (int run = 0; run < 3; run++) {
        uint32_t none = 0;
        ok(coded_run(&it, filled[run], &random));
        for (uint32_t i = 0; i < COUNT; i++) none += it.in[i] == 0;
        assert_true(zeros[it.a] == 1 - (run == 0 ? 700 : 1500) / (float)COUNT);
        assert_true(run > 0 || zeros[it.b] <= (float)none / COUNT);
        assert_true(zeros[it.x] == -1 && zeros[it.form] == -1); /* no operator makes these */
    }
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    ok(tn_setup_zeros(it.setup, &engine, NULL, 0, alone, &failure));
    assert_true(alone[it.a] > 0.4f && alone[it.a] < 0.6f); /* made up around 0 */
    assert_true(alone[it.x] == -1);
    tn_array in = {.dtype = TN_FLOAT32, .rank = 1, .shape = {COUNT}, .bytes = sizeof it.in};
    in.data = it.in;
    for (uint32_t i = 0; i < COUNT; i++) it.in[i] = 1;
    ok(tn_setup_zeros(it.setup, &engine, &in, 1, alone, &failure));
    assert_true(alone[it.a] == 0);
    coded_close(&it);
}

/* float8, in which 1 and 1.0625 become 1: an error of 0.0625 in half of the elements. */
static tn_status lossy_run(coded *it, double limit, uint64_t host_capacity) {
    tn_array in = {.dtype = TN_FLOAT32, .rank = 1, .shape = {COUNT}, .bytes = sizeof it->in};
    tn_array out = {.bytes = sizeof it->out, .data = it->out};
    memset(it, 0, sizeof *it);
    it->codec = TN_CODEC_FLOAT8;
    it->error_limit = limit;
    coded_open_as(it, tn_codec_bytes(TN_CODEC_FLOAT8, COUNT, 0), host_capacity, NULL, NULL);
    in.data = it->in;
    for (uint32_t i = 0; i < COUNT; i++) it->in[i] = i % 2 ? 1.0625f : 1;
    return tn_engine_run(it->engine, &in, 1, &out, 1, &failure);
}

static void an_error_above_the_limit_keeps_the_tensor(void **state) {
    const double error = 0.0625 / sqrt(1 + 1.0625 * 1.0625);
    const double limits[] = {0, error * 1.001, error * 0.999, 1e-9};
    (void)state;
    for (int i = 0; i < 4; i++) {
        coded it;
        tn_engine_usage usage;
        tn_engine_loss loss;
        bool keeps = i >= 2;
        ok(lossy_run(&it, limits[i], 0));
        assert_int_equal(tn_engine_losses(it.engine, &loss, 1), 1);
        assert_string_equal(loss.name, "a");
        assert_int_equal(loss.codec, TN_CODEC_FLOAT8);
        assert_int_equal(loss.bytes, 4 * COUNT);
        assert_int_equal(loss.form_bytes, COUNT);
        assert_int_equal(loss.measured, 1);
        assert_int_equal(loss.kept, keeps);
        assert_true(loss.largest == 0.0625);
        assert_true(fabs(loss.relative - error) < 1e-12);
        tn_engine_measure(it.engine, &usage);
        assert_int_equal(usage.spill_count, keeps);
        for (uint32_t k = 0; k < COUNT; k++)
            assert_true(it.out[k] == -it.in[k] - (keeps ? it.in[k] : 1));
        coded_close(&it);
    }
    coded it;
    assert_int_equal(lossy_run(&it, 1e-9, COUNT * 4 - 1), TN_E_EXHAUSTED);
    assert_non_null(strstr(failure.message, "relative error of 'a' as float8"));
    coded_close(&it);
}

/* Without a limit the first and every 16th run measure. */
static void some_runs_measure(void **state) {
    coded it;
    tn_engine_loss loss;
    tn_array in = {.dtype = TN_FLOAT32, .rank = 1, .shape = {COUNT}, .bytes = sizeof it.in};
    tn_array out = {.bytes = sizeof it.out, .data = it.out};
    (void)state;
    ok(lossy_run(&it, 0, 0));
    in.data = it.in;
    for (uint32_t run = 1; run < 40; run++) {
        ok(tn_engine_run(it.engine, &in, 1, &out, 1, &failure));
        assert_int_equal(tn_engine_losses(it.engine, &loss, 1), 1);
        assert_int_equal(loss.measured, 1 + run / 16);
    }
    coded_close(&it);
    coded_open(&it, form_bytes(100), 0, NULL, NULL);
    tn__random random = {.state = 5};
    ok(coded_run(&it, 90, &random));
    assert_int_equal(tn_engine_losses(it.engine, NULL, 0), 0); /* CSR loses nothing */
    coded_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_no_room_goes_to_the_host),
        cmocka_unit_test(a_full_host_refuses_it_and_nothing_is_lost),
        cmocka_unit_test(without_memory_it_is_refused),
        cmocka_unit_test(shares_of_zeros_are_counted),
        cmocka_unit_test(an_error_above_the_limit_keeps_the_tensor),
        cmocka_unit_test(some_runs_measure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
