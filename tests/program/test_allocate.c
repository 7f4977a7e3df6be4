/* test_allocate.c - tn_graph_allocate, judged by the operators alone: an output shares bytes with
 * an input only where the operator is a view or writes over it, and all of it is in the arena. */
#include "../support.h"

#include <tenure/graph.h>
#include <tenure/program.h>
#include <tenure/run.h>

static tn_error failure;

static bool may_share(const tn_graph *graph, tn_op_id id, uint32_t input, uint32_t output) {
    const tn_op *op = tn_graph_op(graph, id);
    return tn_op_view(graph, id, output).source == op->inputs[input] ||
           (tn_op_inplace(graph, id, output) >> input & 1) != 0 ||
           (tn_op_changes(graph, id) >> input & 1) != 0;
}

static uint32_t check_operator(const tn_graph *graph, tn_op_id id, const uint64_t *offsets,
                               uint64_t arena) {
    const tn_op *op = tn_graph_op(graph, id);
    uint32_t pairs = 0;
    for (uint32_t k = 0; k < op->output_count; k++) {
        const tn_tensor *y = tn_graph_tensor(graph, op->outputs[k]);
        uint64_t at = offsets[op->outputs[k]];
        if (at == TN_SIZE_UNKNOWN) continue;
        assert_true(at + y->bytes <= arena);
        for (uint32_t i = 0; i < op->input_count; i++) {
            uint64_t other = op->inputs[i] == TN_NONE ? TN_SIZE_UNKNOWN : offsets[op->inputs[i]];
            if (other == TN_SIZE_UNKNOWN) continue;
            pairs++;
            uint64_t bytes = tn_graph_tensor(graph, op->inputs[i])->bytes;
            if (at < other + bytes && other < at + y->bytes)
                assert_true(may_share(graph, id, i, k));
        }
    }
    return pairs;
}

static void outputs_do_not_lie_over_inputs(void **state) {
    (void)state;
    static const char *const models[] = {"mobilenet_v2.onnx", "unet64.onnx", "two_branches.onnx",
                                         "keywords.tflite"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char path[300];
        tn_graph *graph;
        uint64_t arena = 0;
        snprintf(path, sizeof path, "%s/examples/models/%s", TENURE_SOURCE_DIR, models[m]);
        if (tn_graph_load(path, NULL, &graph, &failure) != TN_OK) fail_msg("%s", failure.message);
        uint32_t count = tn_graph_tensor_count(graph), pairs = 0, found = 0;
        uint64_t *offsets = calloc(count, sizeof *offsets);
        assert_int_equal(tn_graph_allocate(graph, NULL, offsets, &arena, &failure), TN_OK);
        for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
            pairs += check_operator(graph, id, offsets, arena);
        for (tn_tensor_id t = 0; t < count; t++) {
            if (tn_tensor_is_static(tn_graph_tensor(graph, t)))
                assert_int_equal(offsets[t], TN_SIZE_UNKNOWN);
            found += offsets[t] != TN_SIZE_UNKNOWN;
        }
        assert_true(pairs > 0 && found > 0);
        free(offsets);
        tn_graph_destroy(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(outputs_do_not_lie_over_inputs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
