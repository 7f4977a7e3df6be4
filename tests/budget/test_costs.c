/* test_costs.c - what operators cost: by a model of a device, by the caller's numbers. */
#include "../train/net.h"

#include <unistd.h>

#include <tenure/search.h>
#include <tenure/train.h>

#include "../support.h"

static tn_error failure;

static void costs_ok(tn_status status) {
    if (status != TN_OK) fail_msg("%s: %s", failure.where, failure.message);
}

/* A step of training with a convolution, a normalisation by the batch, a view, and a dense end. */
static tn_graph *costs_step(net *n, tn_training *training) {
    net_open(n, TN_FLOAT32, 1);
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(4, 3, 8, 8));
    x = net_conv(n, x, 3, 8, 3, 1, true);
    x = net_op(n, "Relu", NET_LIST(net_batch_norm(n, x, 8)));
    x = net_op(n, "Flatten", NET_LIST(net_op(n, "GlobalAveragePool", NET_LIST(x))));
    net_output(n, net_dense(n, x, 8, 3));
    net_ok(n, tn_graph_infer(n->graph, &n->error));
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    costs_ok(tn_train(n->graph, &options, training, &failure));
    return training->graph;
}

static tn_op_id costs_find(const tn_graph *graph, const char *type) {
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
        if (strcmp(tn_graph_op(graph, id)->type, type) == 0) return id;
    fail_msg("no %s", type);
    return TN_NONE;
}

static tn_costs *costs_model(const tn_graph *graph, double flops_per_s, double bytes_per_s) {
    tn_costs *costs;
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    model.flops_per_s = flops_per_s, model.bytes_per_s = bytes_per_s;
    costs_ok(tn_costs_create_model(graph, &model, &costs, &failure));
    return costs;
}

static void a_model_takes_the_longer_of_arithmetic_and_traffic(void **state) {
    net n;
    tn_training training;
    const tn_graph *graph = costs_step(&n, &training);
    (void)state;
    tn_costs *slow = costs_model(graph, 1e9, 1e18), *narrow = costs_model(graph, 1e18, 1e9);
    tn_costs *both = costs_model(graph, 1e9, 1e9);
    uint32_t computing = 0, moving = 0;
    uint64_t total = 0;
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        uint64_t flops = tn_costs_of(slow, id), bytes = tn_costs_of(narrow, id);
        assert_true(tn_costs_of(both, id) == (flops > bytes ? flops : bytes));
        computing += flops > bytes, moving += flops < bytes;
        total += tn_costs_of(both, id);
    }
    assert_true(computing > 2 && moving > 2);
    assert_true(tn_costs_total(both) == total);
    /* 4 x 8 x 8 x 8 numbers, each of 27 products and a bias: at a thousand picoseconds each */
    uint64_t conv = tn_costs_of(slow, costs_find(graph, "Conv"));
    assert_in_range(conv, 2048000ull * 54, 2048000ull * 56);
    tn_costs_destroy(slow), tn_costs_destroy(narrow), tn_costs_destroy(both);
    tn_training_release(&training);
    net_close(&n);
}

static void what_nobody_runs_costs_nothing(void **state) {
    net n;
    (void)state;
    net_open(&n, TN_FLOAT32, 2);
    tn_tensor_id half = net_ints(&n, 2, (const int64_t[]){1, 2});
    tn_tensor_id shape = net_op(&n, "Add", NET_LIST(half, half)); /* folded */
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(4, 2));
    net_output(&n, net_op(&n, "Relu", NET_LIST(net_op(&n, "Reshape", NET_LIST(x, shape)))));
    tn_costs *costs = costs_model(n.graph, 1e9, 1e9);
    assert_true(tn_costs_of(costs, costs_find(n.graph, "Add")) == 0);
    assert_true(tn_costs_of(costs, costs_find(n.graph, "Reshape")) == 0);
    assert_true(tn_costs_of(costs, costs_find(n.graph, "Relu")) == 64000);
    tn_costs_destroy(costs);
    net_close(&n);
}

static void running_again_costs_what_its_repeat_form_does(void **state) {
    net n;
    tn_training training;
    const tn_graph *graph = costs_step(&n, &training);
    (void)state;
    tn_costs *costs = costs_model(graph, 1e18, 1e9);
    tn_op_id norm = costs_find(graph, "BatchNormTrain"), conv = costs_find(graph, "Conv");
    assert_true(tn_costs_again_of(costs, conv) == tn_costs_of(costs, conv));
    /* x and y, and four rows of 8: the running statistics are not written */
    assert_true(tn_costs_again_of(costs, norm) == 1000ull * (2 * 4 * 8 * 64 * 4 + 4 * 8 * 4));
    assert_true(tn_costs_of(costs, norm) > tn_costs_again_of(costs, norm));
    tn_costs_destroy(costs);
    tn_training_release(&training);
    net_close(&n);
}

static void costs_refuses_bad_numbers(void **state) {
    net n;
    tn_costs *costs = NULL;
    static const double bad[] = {0, -1, NAN, INFINITY, 1e-300};
    uint64_t numbers[8] = {1, 2, TN_COSTS_MOST + 1};
    (void)state;
    net_open(&n, TN_FLOAT32, 3);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(4, 3));
    for (int i = 0; i < 3; i++) x = net_op(&n, "Relu", NET_LIST(x));
    net_output(&n, x);
    net_ok(&n, tn_graph_infer(n.graph, &n.error));
    uint32_t count = tn_graph_op_count(n.graph);
    assert_true(count >= 3 && count <= 8);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn_costs_model model = {sizeof model, NULL, bad[i], 1e9};
        assert_int_equal(tn_costs_create_model(n.graph, &model, &costs, &failure), TN_E_INVALID);
        model.flops_per_s = 1e9, model.bytes_per_s = bad[i];
        assert_int_equal(tn_costs_create_model(n.graph, &model, &costs, &failure), TN_E_INVALID);
    }
    assert_int_equal(tn_costs_given(NULL, n.graph, numbers, NULL, count, 0, &costs, &failure),
                     TN_E_INVALID);
    assert_non_null(strstr(failure.where, "Relu"));
    numbers[2] = TN_COSTS_MOST - 2; /* with the others one too many */
    assert_int_equal(tn_costs_given(NULL, n.graph, numbers, NULL, count, 0, &costs, &failure),
                     TN_E_INVALID);
    assert_non_null(strstr(failure.where, "Relu"));
    numbers[2]--;
    assert_int_equal(tn_costs_given(NULL, n.graph, numbers, NULL, count + 1, 0, &costs, &failure),
                     TN_E_INVALID);
    assert_int_equal(tn_costs_given(NULL, n.graph, numbers, NULL, count, NAN, &costs, &failure),
                     TN_E_INVALID);
    assert_null(costs);
    costs_ok(tn_costs_given(NULL, n.graph, numbers, NULL, count, 5, &costs, &failure));
    assert_true(tn_costs_of(costs, 1) == 2 && tn_costs_again_of(costs, 2) == numbers[2]);
    assert_true(tn_costs_bytes_per_s(costs) == 5 && tn_costs_graph(costs) == n.graph);
    tn_costs_destroy(costs);
    net_close(&n);
}

/* --- files --- */

static tn_costs *costs_drawn(const tn_graph *graph) {
    tn_costs *model = costs_model(graph, 1e9, 1e9), *costs;
    uint32_t count = tn_graph_op_count(graph);
    uint64_t *of = calloc(count, sizeof *of), *recompute = calloc(count, sizeof *recompute);
    for (tn_op_id id = 0; id < count; id++) {
        uint64_t cost = tn_costs_of(model, id); /* operators that are alike cost the same */
        of[id] = cost;
        recompute[id] = 2 * tn_costs_again_of(model, id);
    }
    costs_ok(tn_costs_given(NULL, graph, of, recompute, count, 1e9, &costs, &failure));
    tn_costs_destroy(model);
    free(of);
    free(recompute);
    return costs;
}

static char *costs_written(const tn_costs *costs, size_t *size) {
    char path[] = "costs_XXXXXX", *bytes = malloc(1 << 20);
    int file = mkstemp(path);
    assert_true(file >= 0 && bytes != NULL);
    close(file);
    costs_ok(tn_costs_write(costs, path, &failure));
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    *size = fread(bytes, 1, (1 << 20) - 1, stream);
    bytes[*size] = 0;
    fclose(stream);
    remove(path);
    return bytes;
}

static void what_is_written_is_read(void **state) {
    net n;
    tn_training training;
    const tn_graph *graph = costs_step(&n, &training);
    size_t size;
    tn_costs *read;
    (void)state;
    tn_costs *costs = costs_drawn(graph);
    char *bytes = costs_written(costs, &size);
    costs_ok(tn_costs_read_memory("c.json", bytes, size, NULL, graph, &read, &failure));
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        assert_true(tn_costs_of(read, id) == tn_costs_of(costs, id));
        assert_true(tn_costs_again_of(read, id) == tn_costs_again_of(costs, id));
    }
    assert_true(tn_costs_bytes_per_s(read) == 1e9 && tn_costs_threads(read) == 0);
    tn_costs_destroy(read);
    tn_costs_destroy(costs);
    free(bytes);
    tn_training_release(&training);
    net_close(&n);
}

static void costs_of_another_model_are_refused_with_its_first_operator(void **state) {
    net n, other;
    tn_training training;
    const tn_graph *graph = costs_step(&n, &training);
    size_t size;
    tn_costs *costs = costs_drawn(graph), *read = NULL;
    char *bytes = costs_written(costs, &size);
    (void)state;
    net_open(&other, TN_FLOAT32, 4);
    tn_tensor_id x =
        net_conv(&other, net_input(&other, "x", NET_SHAPE(4, 3, 8, 8)), 3, 8, 3, 1, true);
    net_output(&other, net_op(&other, "Relu", NET_LIST(net_op(&other, "Tanh", NET_LIST(x)))));
    assert_int_equal(
        tn_costs_read_memory("c.json", bytes, size, NULL, other.graph, &read, &failure),
        TN_E_INVALID);
    assert_non_null(strstr(failure.message, "Conv"));
    assert_string_equal(failure.where, "c.json");
    assert_null(read);
    tn_costs_destroy(costs);
    free(bytes);
    tn_training_release(&training);
    net_close(&n);
    net_close(&other);
}

/* Two operators that are alike cost twice what their entry says. */
static void a_file_whose_sum_is_too_much_is_refused_with_the_node(void **state) {
    net n;
    size_t size;
    tn_costs *costs, *read = NULL;
    uint64_t numbers[2] = {TN_COSTS_MOST / 2, TN_COSTS_MOST / 2};
    (void)state;
    net_open(&n, TN_FLOAT32, 3);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(4));
    net_output(&n, net_op(&n, "Relu", NET_LIST(net_op(&n, "Relu", NET_LIST(x)))));
    net_ok(&n, tn_graph_infer(n.graph, &n.error));
    costs_ok(tn_costs_given(NULL, n.graph, numbers, NULL, 2, 0, &costs, &failure));
    char *bytes = costs_written(costs, &size);
    costs_ok(tn_costs_read_memory("c.json", bytes, size, NULL, n.graph, &read, &failure));
    tn_costs_destroy(read);
    read = NULL;
    char *digits = strstr(bytes, "\"ps\": 36028797018963968");
    assert_non_null(digits);
    digits[22] = '9';
    assert_int_equal(tn_costs_read_memory("c.json", bytes, size, NULL, n.graph, &read, &failure),
                     TN_E_INVALID);
    assert_true(strncmp(failure.where, "c.json: node '", 14) == 0);
    assert_null(read);
    tn_costs_destroy(costs);
    free(bytes);
    net_close(&n);
}

static void bad_files_are_refused(void **state) {
#define COSTS_HEAD "{\"format\": \"tenure-costs\", \"version\": 1, "
#define COSTS_KEY "\"key\": \"0123456789abcdef0123456789abcdef\", "
    static const char *const bad[][2] = {
        {"", "byte"},
        {"[]", "format"},
        {"{\"format\": \"mem-plan\"}", "format"},
        {"{\"format\": \"tenure-costs\", \"version\": 2, \"operators\": []}", "version"},
        {COSTS_HEAD "\"operators\": 3}", "operators"},
        {COSTS_HEAD "\"threads\": -1, \"operators\": []}", "threads"},
        {COSTS_HEAD "\"bytes_per_s\": -1, \"operators\": []}", "bytes_per_s"},
        {COSTS_HEAD "\"bytes_per_s\": 1e400, \"operators\": []}", "byte"},
        {COSTS_HEAD "\"operators\": [{\"ps\": 1}]}", "key"},
        {COSTS_HEAD "\"operators\": [{\"key\": \"12\", \"ps\": 1}]}", "key"},
        {COSTS_HEAD "\"operators\": [{" COSTS_KEY "\"ps\": -1}]}", "ps"},
        {COSTS_HEAD "\"operators\": [{" COSTS_KEY "\"ps\": NaN}]}", "byte"},
        {COSTS_HEAD "\"operators\": [{" COSTS_KEY "\"ps\": 1.5}]}", "ps"},
        {COSTS_HEAD "\"operators\": [{" COSTS_KEY "\"ps\": 72057594037927937}]}", "ps"},
        {COSTS_HEAD "\"operators\": [{" COSTS_KEY "\"ps\": 1, \"again_ps\": \"1\"}]}", "again_ps"},
        {COSTS_HEAD "\"operators\": [{" COSTS_KEY "\"ps\": 1}, {" COSTS_KEY "\"ps\": 2}]}",
         "operators[0]"},
        {COSTS_HEAD "\"operators\": []}", "Relu"},
    };
    net n;
    (void)state;
    net_open(&n, TN_FLOAT32, 5);
    net_output(&n, net_op(&n, "Relu", NET_LIST(net_input(&n, "x", NET_SHAPE(4)))));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn_costs *costs = NULL;
        tn_error error = {0};
        tn_status status = tn_costs_read_memory("c.json", bad[i][0], strlen(bad[i][0]), NULL,
                                                n.graph, &costs, &error);
        if (status != TN_E_INVALID ||
            (strstr(error.where, bad[i][1]) == NULL && strstr(error.message, bad[i][1]) == NULL))
            fail_msg("%s: status %d, '%s: %s' does not name %s", bad[i][0], status, error.where,
                     error.message, bad[i][1]);
        assert_null(costs);
    }
    net_close(&n);
}

static void every_allocation_of_a_file_may_fail(void **state) {
    net n;
    tn_training training;
    const tn_graph *graph = costs_step(&n, &training);
    size_t size;
    tn_costs *costs = costs_drawn(graph);
    char *bytes = costs_written(costs, &size);
    (void)state;
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_costs *read = NULL;
        tn_status status =
            tn_costs_read_memory("c.json", bytes, size, &context, graph, &read, &failure);
        tn_costs_destroy(read);
        assert_true(memory.held == 0);
        if (status == TN_OK) break;
        assert_true(status == TN_E_NO_MEMORY && read == NULL && at < 10000);
    }
    tn_costs_destroy(costs);
    free(bytes);
    tn_training_release(&training);
    net_close(&n);
}

static void every_allocation_may_fail(void **state) {
    net n;
    tn_training training;
    const tn_graph *graph = costs_step(&n, &training);
    (void)state;
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_costs_model model = {sizeof model, &context, 1e9, 1e9};
        tn_costs *costs = NULL;
        tn_status status = tn_costs_create_model(graph, &model, &costs, &failure);
        tn_costs_destroy(costs);
        assert_true(memory.held == 0);
        if (status == TN_OK) break;
        assert_true(status == TN_E_NO_MEMORY && costs == NULL && at < 1000);
    }
    tn_training_release(&training);
    net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_takes_the_longer_of_arithmetic_and_traffic),
        cmocka_unit_test(what_nobody_runs_costs_nothing),
        cmocka_unit_test(running_again_costs_what_its_repeat_form_does),
        cmocka_unit_test(costs_refuses_bad_numbers),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(costs_of_another_model_are_refused_with_its_first_operator),
        cmocka_unit_test(a_file_whose_sum_is_too_much_is_refused_with_the_node),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(every_allocation_of_a_file_may_fail),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
