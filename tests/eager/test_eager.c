/* test_eager.c - the four commands: what they do, what they refuse, what they leave. */
#include "kit.h"

#include <math.h>

static void operators_run_as_they_come(void **state) {
    (void)state;
    tn_eager *eager = kit_open((tn_eager_options){.budget = 64 << 10, .poison = true});
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
    tn_handle x = kit_put(eager, TN_FLOAT32, TN_KIND_INPUT, a, SHAPE(2, 3));
    tn_handle y = kit_put(eager, TN_FLOAT32, TN_KIND_INPUT, b, SHAPE(3, 2));
    tn_handle z = kit_op(eager, "MatMul", LIST(x, y));
    tn_handle n = kit_op(eager, "Neg", LIST(z));
    float got[4];
    kit_get(eager, n, got, sizeof got);
    const float want[] = {-4, -5, -10, -11};
    assert_memory_equal(got, want, sizeof want);
    tn_eager_about about;
    check(tn_eager_describe(eager, n, &about, &failure));
    assert_int_equal(about.rank, 2);
    assert_int_equal(about.shape[1], 2);
    assert_int_equal(about.bytes, 16);
    check(tn_eager_check(eager, &failure));
    tn_eager_destroy(eager);
}

static void constants_are_known_to_rules_and_take_nothing(void **state) {
    (void)state;
    tn_eager *eager = kit_open((tn_eager_options){.budget = 64 << 10});
    const int64_t to[] = {3, -1};
    uint64_t before = kit_count(eager).evict.bytes;
    tn_handle shape = kit_put(eager, TN_INT64, TN_KIND_CONSTANT, to, SHAPE(2));
    assert_int_equal(kit_count(eager).evict.bytes, before);
    tn_handle x = kit_floats(eager, TN_KIND_INPUT, 1, SHAPE(2, 6));
    uint64_t with = kit_count(eager).evict.bytes;
    tn_handle y = kit_op(eager, "Reshape", LIST(x, shape));
    assert_int_equal(kit_count(eager).evict.bytes, with); /* a view */
    tn_handle s = kit_op(eager, "Shape", LIST(y));        /* known, too */
    tn_handle z = kit_op(eager, "Reshape", LIST(x, s));
    assert_int_equal(kit_count(eager).evict.bytes, with);
    int64_t extents[2], back[2];
    kit_get(eager, s, extents, sizeof extents);
    assert_int_equal(extents[0], 3);
    assert_int_equal(extents[1], 4);
    kit_get(eager, shape, back, sizeof back);
    assert_int_equal(back[1], -1);
    kit_del(eager, x);
    kit_del(eager, y);
    float a[12];
    kit_get(eager, z, a, sizeof a);
    tn_eager_destroy(eager);
}

/* What must fail, how, and with a word of the message. */
static void refuses(tn_status got, tn_status want, const char *word) {
    if (got != want || strstr(failure.message, word) == NULL || failure.where[0] == '\0')
        fail_msg("status %d, '%s' (wanted %d, '%s')", (int)got, failure.message, (int)want, word);
}

static void bad_attributes_are_refused(tn_eager *eager, tn_handle x) {
    const int64_t one = 1;
    const tn_attr good = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &one};
    tn_attr attrs[2] = {good, good};
    tn_eager_call call = {.type = "Softmax",
                          .inputs = &x,
                          .attrs = attrs,
                          .input_count = 1,
                          .output_count = 1,
                          .attr_count = 1};
    tn_handle out;
    attrs[0].name = NULL;
    refuses(tn_eager_apply(eager, &call, &out, &failure), TN_E_INVALID, "attribute 0 has no name");
    attrs[0] = good;
    attrs[0].ints = NULL;
    refuses(tn_eager_apply(eager, &call, &out, &failure), TN_E_INVALID, "axis has no contents");
    attrs[0] = good;
    attrs[0].count = 2;
    refuses(tn_eager_apply(eager, &call, &out, &failure), TN_E_INVALID, "axis has no contents");
    attrs[0] = (tn_attr){
        .name = "mode", .type = TN_ATTR_STRING, .count = 1, .strings = (const char *const[]){NULL}};
    refuses(tn_eager_apply(eager, &call, &out, &failure), TN_E_INVALID, "mode has no contents");
    attrs[0] = good;
    attrs[0].type = (tn_attr_type)99;
    refuses(tn_eager_apply(eager, &call, &out, &failure), TN_E_INVALID, "no type");
    attrs[0] = good;
    call.attr_count = 2;
    refuses(tn_eager_apply(eager, &call, &out, &failure), TN_E_INVALID, "axis is there twice");
    call.attr_count = 1;
    call.version = 999;
    refuses(tn_eager_apply(eager, &call, &out, &failure), TN_E_UNSUPPORTED, "operator set 999");
    call.version = 13;
    check(tn_eager_apply(eager, &call, &out, &failure));
    kit_del(eager, out);
}

static void bad_calls_are_refused_and_nothing_is_lost(void **state) {
    (void)state;
    tn_eager *eager = kit_open((tn_eager_options){.budget = 64 << 10});
    tn_eager *other = kit_open((tn_eager_options){.budget = 64 << 10});
    tn_handle x = kit_floats(eager, TN_KIND_INPUT, 1, SHAPE(2, 3)), out;
    tn_handle foreign = kit_floats(other, TN_KIND_INPUT, 1, SHAPE(2, 3));
    tn_handle p = kit_floats(eager, TN_KIND_PARAMETER, 2, SHAPE(3, 3));
    tn_handle gone = kit_op(eager, "Relu", LIST(x));
    kit_del(eager, gone);
    tn_eager_counts before = kit_count(eager);
    refuses(kit_try(eager, "Relu", LIST(gone), &out), TN_E_INVALID, "deleted");
    assert_non_null(strstr(failure.where, "Relu, input 0"));
    refuses(tn_eager_del(eager, gone, &failure), TN_E_INVALID, "deleted");
    refuses(kit_try(eager, "Relu", LIST(foreign), &out), TN_E_INVALID, "another interpreter");
    refuses(kit_try(eager, "MatMul", LIST(x, x), &out), TN_E_INVALID, "");
    refuses(kit_try(eager, "Nonsense", LIST(x), &out), TN_E_INVALID, "no operator 'Nonsense'");
    refuses(kit_try(eager, "Relu", 0, NULL, &out), TN_E_INVALID, "");
    refuses(kit_try(eager, "Reshape", LIST(p, x), &out), TN_E_INVALID, "");
    refuses(kit_try(eager, "NonZero", LIST(x), &out), TN_E_UNSUPPORTED, "depend on contents");
    bad_attributes_are_refused(eager, x);
    const int64_t flat[] = {-1}, one[] = {1};
    tn_handle shape = kit_put(eager, TN_INT64, TN_KIND_INPUT, flat, SHAPE(1));
    refuses(kit_try(eager, "Reshape", LIST(p, shape), &out), TN_E_INVALID, "as a constant");
    kit_del(eager, shape);
    const tn_eager_call nothing = {.type = "Max", .inputs = &p, .input_count = 1};
    refuses(tn_eager_apply(eager, &nothing, &out, &failure), TN_E_INVALID, "without outputs");
    shape = kit_put(eager, TN_FLOAT32, TN_KIND_PARAMETER, NULL, 1, one);
    refuses(kit_try(eager, "GlobalMaxPool", LIST(shape), &out), TN_E_INVALID, "fewer than 2");
    kit_del(eager, shape);
    refuses(kit_try(eager, ".SgdStep", LIST(x, x, x), &out), TN_E_INVALID, "");
    float few[2];
    refuses(tn_eager_get(eager, x, few, sizeof few, &failure), TN_E_INVALID, "bytes");
    refuses(tn_eager_set(eager, x, few, 24, &failure), TN_E_INVALID, "fixed place");
    refuses(tn_eager_backward(eager, x, &p, 1, &out, &failure), TN_E_INVALID, "one element");
    tn_eager_optimizer *optimizer;
    tn_eager_optimizer_options numbers = TN_EAGER_OPTIMIZER_OPTIONS_INIT;
    refuses(tn_eager_optimizer_create(eager, &numbers, &x, 1, &optimizer, &failure), TN_E_INVALID,
            "parameter");
    numbers.momentum = NAN;
    refuses(tn_eager_optimizer_create(eager, &numbers, &p, 1, &optimizer, &failure), TN_E_INVALID,
            "between 0 and 1");
    numbers = (tn_eager_optimizer_options)TN_EAGER_OPTIMIZER_OPTIONS_INIT;
    numbers.beta2 = 1.5;
    refuses(tn_eager_optimizer_create(eager, &numbers, &p, 1, &optimizer, &failure), TN_E_INVALID,
            "between 0 and 1");
    numbers.beta2 = 0;
    const tn_handle twice[] = {p, p};
    refuses(tn_eager_optimizer_create(eager, &numbers, twice, 2, &optimizer, &failure),
            TN_E_INVALID, "parameters 0 and 1 are one tensor");
    check(tn_eager_optimizer_create(eager, &numbers, &p, 1, &optimizer, &failure));
    const double rates[] = {NAN, -INFINITY, 1e300};
    for (int bad = 0; bad < 3; bad++) {
        tn_handle none = TN_HANDLE_NONE;
        refuses(tn_eager_optimizer_step(optimizer, &none, rates[bad], &failure), TN_E_INVALID,
                "is not finite");
    }
    tn_eager_optimizer_destroy(optimizer);
    refuses(kit_try(eager, "Concat", LIST(x, x), &out), TN_E_INVALID, "attribute axis is missing");
    tn_graph *graph;
    refuses(tn_eager_recorded(eager, &graph, NULL, &failure), TN_E_INVALID, "nothing was recorded");
    refuses(tn_eager_log(eager, "none.log", &failure), TN_E_INVALID, "nothing was recorded");
    const int64_t huge[] = {INT64_MAX, 8};
    const tn_eager_data wrong = {.dtype = TN_FLOAT32, .rank = 2, .shape = huge};
    refuses(tn_eager_put(eager, &wrong, &out, &failure), TN_E_INVALID, "");
    const tn_eager_data bare = {.dtype = TN_FLOAT32, .rank = 2};
    refuses(tn_eager_put(eager, &bare, &out, &failure), TN_E_INVALID, "without a shape");
    const tn_eager_data strange = {.dtype = TN_FLOAT32, .kind = TN_KIND_COUNT};
    refuses(tn_eager_put(eager, &strange, &out, &failure), TN_E_INVALID, "no kind");
    const tn_eager_data large = {.dtype = TN_FLOAT32, .rank = 1, .shape = (int64_t[]){1 << 20}};
    refuses(tn_eager_put(eager, &large, &out, &failure), TN_E_EXHAUSTED, "");
    tn_eager_counts after = kit_count(eager);
    assert_int_equal(after.handles, before.handles);
    assert_int_equal(after.evict.bytes, before.evict.bytes);
    check(tn_eager_check(eager, &failure));
    tn_handle y = kit_op(eager, "Relu", LIST(x));
    float got[6];
    kit_get(eager, y, got, sizeof got);
    tn_eager_destroy(eager);
    tn_eager_destroy(other);
    tn_eager *none;
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    options.policy = "nobody";
    refuses(tn_eager_create(&options, &none, &failure), TN_E_UNKNOWN, "nobody");
    options.policy = NULL;
    options.budget = 63;
    refuses(tn_eager_create(&options, &none, &failure), TN_E_INVALID, "budget");
}

/* 16 chains of 8 KiB each in 40 KiB. */
static void what_does_not_fit_is_made_again(void **state) {
    (void)state;
    tn_eager *eager = kit_open((tn_eager_options){.budget = 40 << 10, .poison = true});
    tn_eager *wide = kit_open((tn_eager_options){.budget = 4 << 20, .poison = true});
    tn_handle chain[2][16];
    for (uint32_t w = 0; w < 2; w++) {
        tn_eager *it = w == 0 ? eager : wide;
        tn_handle x = kit_floats(it, TN_KIND_INPUT, 7, SHAPE(2048));
        for (uint32_t i = 0; i < 16; i++) {
            tn_handle next = kit_op(it, i % 2 == 0 ? "Sin" : "Exp", LIST(x));
            chain[w][i] = x = next;
        }
    }
    float got[2048], want[2048];
    for (uint32_t i = 16; i-- > 0;) {
        kit_get(eager, chain[0][i], got, sizeof got);
        kit_get(wide, chain[1][i], want, sizeof want);
        assert_memory_equal(got, want, sizeof got);
    }
    tn_eager_counts counts = kit_count(eager);
    assert_true(counts.evict.remade_ops > 0);
    assert_true(counts.evict.peak_bytes <= 40 << 10);
    assert_int_equal(kit_count(wide).evict.remade_ops, 0);
    check(tn_eager_check(eager, &failure));
    tn_eager_destroy(eager);
    tn_eager_destroy(wide);
}

/* 25 negated numbers are dropped and offloaded; views go with their bytes. */
static void users_drop_and_offload(void **state) {
    (void)state;
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    tn_device *device;
    options.link_bytes_per_s = 1e11;
    check(tn_device_create(&options, &device, &failure));
    tn_eager *eager =
        kit_open((tn_eager_options){.budget = 64 << 10, .device = device, .poison = true});
    float numbers[25], got[25];
    for (int i = 0; i < 25; i++) numbers[i] = (float)i;
    const int64_t flat[] = {25};
    tn_handle x = kit_put(eager, TN_FLOAT32, TN_KIND_INPUT, numbers, SHAPE(5, 5));
    tn_handle w = kit_put(eager, TN_FLOAT32, TN_KIND_PARAMETER, numbers, SHAPE(5, 5));
    tn_handle shape = kit_put(eager, TN_INT64, TN_KIND_CONSTANT, flat, SHAPE(1));
    tn_handle y = kit_op(eager, "Neg", LIST(x));
    tn_handle view = kit_op(eager, "Reshape", LIST(y, shape));
    for (int way = 0; way < 2; way++) {
        tn_evict_counts before = kit_count(eager).evict;
        for (int twice = 0; twice < 2; twice++) /* the second time nothing is there */
            check(way == 0 ? tn_eager_drop(eager, y, &failure)
                           : tn_eager_offload(eager, view, &failure));
        assert_int_equal(before.bytes - kit_count(eager).evict.bytes, 128);
        kit_get(eager, way == 0 ? view : y, got, sizeof got);
        for (int i = 0; i < 25; i++) assert_true(got[i] == (float)-i);
        tn_evict_counts after = kit_count(eager).evict;
        assert_int_equal(after.bytes, before.bytes);
        assert_true(way == 0 ? after.remade_ops > before.remade_ops
                             : after.fetch_count == before.fetch_count + 1);
        check(tn_eager_check(eager, &failure));
    }
    refuses(tn_eager_drop(eager, x, &failure), TN_E_UNSUPPORTED, "cannot be recomputed");
    refuses(tn_eager_drop(eager, w, &failure), TN_E_UNSUPPORTED, "must stay");
    refuses(tn_eager_offload(eager, w, &failure), TN_E_UNSUPPORTED, "must stay");
    refuses(tn_eager_drop(eager, shape, &failure), TN_E_UNSUPPORTED, "takes no memory");
    refuses(tn_eager_drop(eager, TN_HANDLE_NONE, &failure), TN_E_INVALID, "");
    check(tn_eager_offload(eager, x, &failure));
    kit_get(eager, x, got, sizeof got);
    assert_memory_equal(got, numbers, sizeof got);
    tn_eager_destroy(eager);
    tn_device_destroy(device);
    eager = kit_open((tn_eager_options){.budget = 64 << 10});
    x = kit_put(eager, TN_FLOAT32, TN_KIND_INPUT, numbers, SHAPE(5, 5));
    refuses(tn_eager_offload(eager, x, &failure), TN_E_UNSUPPORTED, "no link");
    tn_eager_destroy(eager);
}

/* Results have names if the caller gives some: in messages, and in the graph of the run. */
static void results_have_names(void **state) {
    (void)state;
    tn_eager *eager = kit_open((tn_eager_options){.budget = 4 << 10, .record = true});
    tn_handle x = kit_floats(eager, TN_KIND_INPUT, 7, SHAPE(256)), features, more;
    const int64_t axis = 0;
    const tn_attr attr = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &axis};
    char name[] = "features";
    const tn_eager_call call = {.type = "Concat",
                                .inputs = (tn_handle[]){x, x},
                                .attrs = &attr,
                                .names = (const char *[]){name},
                                .input_count = 2,
                                .output_count = 1,
                                .attr_count = 1};
    check(tn_eager_apply(eager, &call, &features, &failure));
    memset(name, 'x', sizeof name - 1); /* it was copied */
    /* 1 KiB that was put, 2 KiB of features, which the operator reads, and 2 KiB of its result */
    refuses(kit_try(eager, "Neg", 1, &features, &more), TN_E_EXHAUSTED, "'features' (2048)");
    kit_get(eager, features, (float[512]){0}, 2048);
    tn_graph *graph;
    check(tn_eager_recorded(eager, &graph, NULL, &failure));
    assert_int_not_equal(tn_graph_find(graph, "features"), TN_NONE);
    tn_graph_destroy(graph);
    tn_eager_destroy(eager);
}

static void random_operators_draw_the_same_again(void **state) {
    (void)state;
    float got[3][1024];
    for (uint32_t w = 0; w < 3; w++) {
        tn_eager *eager = kit_open(
            (tn_eager_options){.budget = w == 0 ? 1 << 20 : 20 << 10, .seed = 3, .poison = true});
        tn_handle x = kit_floats(eager, TN_KIND_INPUT, 7, SHAPE(1024)), draw[8], sum;
        for (uint32_t i = 0; i < 8; i++) draw[i] = kit_op(eager, "RandomNormalLike", LIST(x));
        for (uint32_t i = 0; i < 8; i++) {
            sum = kit_op(eager, "Add", LIST(x, draw[w == 2 ? i : i]));
            kit_del(eager, x);
            x = sum;
        }
        kit_get(eager, x, got[w], sizeof *got);
        assert_true(w == 0 || kit_count(eager).evict.remade_ops > 0);
        tn_eager_destroy(eager);
    }
    assert_memory_equal(got[0], got[1], sizeof *got);
    assert_memory_equal(got[0], got[2], sizeof *got);
}

static void a_loop_needs_no_more_the_longer_it_runs(void **state) {
    (void)state;
    tn_eager *eager = kit_open((tn_eager_options){.budget = 64 << 10, .no_tape = true});
    tn_handle x = kit_floats(eager, TN_KIND_INPUT, 7, SHAPE(64));
    uint64_t history = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        tn_handle y = kit_op(eager, "Sin", LIST(x)), z = kit_op(eager, "Add", LIST(x, y));
        kit_del(eager, y);
        kit_del(eager, z);
        tn_eager_counts counts = kit_count(eager);
        if (i == 10) history = counts.history;
        assert_true(i <= 10 || counts.history == history);
    }
    assert_int_equal(kit_count(eager).handles, 1);
    tn_eager_destroy(eager);
}

/* Neighbours of a value lie in its record, and records are used anew. */
static void what_was_seen_before_asks_the_host_for_nothing(void **state) {
    (void)state;
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_eager *eager = kit_open((tn_eager_options){
        .context = &context, .budget = 64 << 10, .no_tape = true, .policy = NULL});
    tn_handle x = kit_floats(eager, TN_KIND_INPUT, 7, SHAPE(64));
    uint64_t requests = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        tn_handle y = kit_op(eager, "Sin", LIST(x)), z = kit_op(eager, "Add", LIST(x, y));
        tn_handle last = kit_op(eager, "Mul", LIST(y, z));
        kit_del(eager, y);
        kit_del(eager, z);
        kit_del(eager, last);
        if (i == 10) requests = memory.requests;
    }
    assert_int_equal(memory.requests, requests);
    tn_eager_destroy(eager);
    assert_int_equal(memory.held, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_run_as_they_come),
        cmocka_unit_test(constants_are_known_to_rules_and_take_nothing),
        cmocka_unit_test(bad_calls_are_refused_and_nothing_is_lost),
        cmocka_unit_test(what_does_not_fit_is_made_again),
        cmocka_unit_test(users_drop_and_offload),
        cmocka_unit_test(results_have_names),
        cmocka_unit_test(random_operators_draw_the_same_again),
        cmocka_unit_test(a_loop_needs_no_more_the_longer_it_runs),
        cmocka_unit_test(what_was_seen_before_asks_the_host_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
