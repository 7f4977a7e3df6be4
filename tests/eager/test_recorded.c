/* test_recorded.c - what was run as a program: it is planned, fitted, run by the engine on the same
 * contents with the same bits; and as a log.
 */
#include "kit.h"

#include <unistd.h>

#include <tenure/engine.h>
#include <tenure/fit.h>
#include <tenure/run.h>

#define WIDTH 16
#define BATCH 64
#define LAYERS 6

static float weights[3][WIDTH * WIDTH], data[BATCH * WIDTH], labels[BATCH * WIDTH];

static void draw(float *numbers, uint32_t count, uint64_t seed) {
    tn__random random = {.state = seed};
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = (float)tn__random_below(&random, 2001) / 2000 - 0.5f;
}

static tn_handle named(tn_eager *eager, const char *name, tn_kind kind, const float *numbers,
                       int64_t rows) {
    tn_handle handle;
    const tn_eager_data put = {.dtype = TN_FLOAT32,
                               .kind = kind,
                               .rank = 2,
                               .shape = (int64_t[]){rows, WIDTH},
                               .data = numbers,
                               .name = name};
    check(tn_eager_put(eager, &put, &handle, &failure));
    return handle;
}

/* One step of training; what it leaves. */
static tn_eager *step(float *loss, float after[3][WIDTH * WIDTH]) {
    static const char *const names[] = {"w0", "w1", "w2"};
    tn_eager *eager = kit_open((tn_eager_options){.budget = 1 << 20, .record = true});
    tn_handle p[3], d[3];
    for (uint32_t i = 0; i < 3; i++) {
        draw(weights[i], WIDTH * WIDTH, i + 1);
        p[i] = named(eager, names[i], TN_KIND_PARAMETER, weights[i], WIDTH);
    }
    draw(data, BATCH * WIDTH, 7);
    draw(labels, BATCH * WIDTH, 8);
    tn_handle x = named(eager, "x", TN_KIND_INPUT, data, BATCH);
    tn_handle y = named(eager, "y", TN_KIND_INPUT, labels, BATCH);
    for (uint32_t l = 0; l < LAYERS; l++) {
        tn_handle z = kit_op(eager, "MatMul", LIST(x, p[l % 3]));
        kit_del(eager, x);
        x = kit_op(eager, "Tanh", LIST(z));
        kit_del(eager, z);
    }
    tn_handle found = kit_op(eager, ".MeanSquared", LIST(x, y));
    kit_del(eager, x);
    check(tn_eager_backward(eager, found, p, 3, d, &failure));
    kit_get(eager, found, loss, sizeof *loss);
    tn_eager_optimizer *optimizer;
    tn_eager_optimizer_options sgd = TN_EAGER_OPTIMIZER_OPTIONS_INIT;
    sgd.optimizer = TN_OPTIMIZER_SGD;
    check(tn_eager_optimizer_create(eager, &sgd, p, 3, &optimizer, &failure));
    check(tn_eager_optimizer_step(optimizer, d, 0.5, &failure));
    tn_eager_optimizer_destroy(optimizer);
    for (uint32_t i = 0; i < 3; i++) kit_get(eager, p[i], after[i], sizeof after[i]);
    return eager;
}

static tn_status read_weights(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                              uint64_t size, tn_error *error) {
    const char *name = tn_graph_tensor(graph, id)->name;
    (void)self, (void)error;
    if (name[0] != 'w') return TN_E_INVALID;
    memcpy(bytes, weights[name[1] - '0'], size);
    return TN_OK;
}

static void fill(tn_session *session, const tn_graph *graph, const char *name, const void *from) {
    tn_array *array = tn_session_array(session, tn_graph_find(graph, name));
    assert_non_null(array);
    memcpy(array->data, from, array->bytes);
}

static void a_recorded_step_runs_as_a_planned_program(void **state) {
    (void)state;
    float loss, after[3][WIDTH * WIDTH], got[WIDTH * WIDTH];
    const float rate = 0.5f, one = 1;
    tn_eager *eager = step(&loss, after);
    tn_graph *graph;
    tn_program *program;
    check(tn_eager_recorded(eager, &graph, &program, &failure));
    assert_string_equal(tn_program_order_of(program).name, "file");
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_session *session;
    options.read = read_weights;
    options.no_rewrite = true;
    check(tn_session_open(graph, &options, &session, &failure));
    fill(session, graph, "x", data);
    fill(session, graph, "y", labels);
    fill(session, graph, "d.loss", &one);
    fill(session, graph, "learning_rate", &rate);
    check(tn_session_run(session, &failure));
    const tn_block *block = tn_graph_block(graph, 0);
    assert_true(block->output_count >= 1);
    assert_memory_equal(tn_session_array(session, block->outputs[0])->data, &loss, sizeof loss);
    for (uint32_t i = 0; i < 3; i++) {
        char name[] = {'w', (char)('0' + i), 0};
        check(tn_engine_get_static(tn_session_engine(session), tn_graph_find(graph, name), got,
                                   sizeof got, &failure));
        assert_memory_equal(got, after[i], sizeof got);
    }
    tn_session_close(session);
    tn_program_destroy(program);
    tn_graph_destroy(graph);
    tn_eager_destroy(eager);
}

static uint32_t lines_with(const char *text, const char *word) {
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) count++;
    return count;
}

static void a_log_tells_each_operator_once(void **state) {
    (void)state;
    float loss, after[3][WIDTH * WIDTH];
    tn_eager *eager = step(&loss, after);
    char path[] = "/tmp/eager-log-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    check(tn_eager_log(eager, path, &failure));
    tn__file log;
    check(tn__file_map(path, &log, &failure));
    char *text = calloc(log.size + 1, 1);
    memcpy(text, log.bytes, log.size);
    uint32_t calls = lines_with(text, "\"CALL\""), changes = lines_with(text, "\"MUTATE\",");
    assert_int_equal(changes, 3);
    assert_int_equal(calls + changes, kit_count(eager).evict.plain_ops - 3); /* parameters */
    assert_int_equal(lines_with(text, "\"put\""), 4);
    assert_int_equal(lines_with(text, "\"IN_PLACE\":1"), changes);
    assert_int_equal(lines_with(text, "\"ALIAS\",\"NAME\""), calls);
    free(text);
    tn__file_unmap(&log);
    remove(path);
    tn_eager_destroy(eager);
}

static void nothing_is_told_that_was_not_recorded(void **state) {
    (void)state;
    tn_eager *eager = kit_open((tn_eager_options){.budget = 1 << 20});
    tn_graph *graph;
    assert_int_equal(tn_eager_recorded(eager, &graph, NULL, &failure), TN_E_INVALID);
    assert_int_equal(tn_eager_log(eager, "-", &failure), TN_E_INVALID);
    tn_handle x = kit_floats(eager, TN_KIND_INPUT, 1, SHAPE(4));
    check(tn_eager_restart(eager, &failure));
    tn_handle y = kit_op(eager, "Neg", LIST(x));
    float got[4];
    kit_get(eager, y, got, sizeof got);
    check(tn_eager_recorded(eager, &graph, NULL, &failure));
    assert_int_equal(tn_graph_op_count(graph), 1);
    tn_graph_destroy(graph);
    tn_eager_destroy(eager);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_step_runs_as_a_planned_program),
        cmocka_unit_test(a_log_tells_each_operator_once),
        cmocka_unit_test(nothing_is_told_that_was_not_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
