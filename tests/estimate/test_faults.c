/* test_faults.c - estimates when memory runs out, and what they promise of any program: parts add
 * up, policies order themselves, a step as PyTorch runs it keeps what autograd keeps.
 */
#include <tenure/estimate.h>
#include <tenure/import.h>

#include "base/base.h"
#include "support.h"

#define MODEL TENURE_SOURCE_DIR "/examples/models/mobilenet_v2.onnx"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* x [2, 8] through two products with Relu between: small enough to count by hand. */
static tn_graph *two_layers(const tn_context *context) {
    static const int64_t x_shape[] = {2, 8}, w_shape[] = {8, 8};
    tn_graph *graph;
    tn_tensor_id x, w[2], h, r, y;
    tn_tensor_spec in = {
        .name = "x", .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT, .rank = 2, .shape = x_shape};
    tn_tensor_spec weight = {
        .name = "w", .dtype = TN_FLOAT32, .kind = TN_KIND_PARAMETER, .rank = 2, .shape = w_shape};
    tn_tensor_spec inner = {.name = "h"}, out = {.name = "y", .kind = TN_KIND_OUTPUT};
    assert_ok(tn_graph_create(context, &graph, &failure));
    assert_ok(tn_graph_add_tensor(graph, &in, &x, &failure));
    for (int i = 0; i < 2; i++) assert_ok(tn_graph_add_tensor(graph, &weight, &w[i], &failure));
    assert_ok(tn_graph_add_tensor(graph, &inner, &h, &failure));
    assert_ok(tn_graph_add_tensor(graph, &inner, &r, &failure));
    assert_ok(tn_graph_add_tensor(graph, &out, &y, &failure));
    const tn_tensor_id first[] = {x, w[0]}, second[] = {r, w[1]};
    tn_op_spec ops[] = {
        {.type = "MatMul", .inputs = first, .outputs = &h, .input_count = 2, .output_count = 1},
        {.type = "Relu", .inputs = &h, .outputs = &r, .input_count = 1, .output_count = 1},
        {.type = "MatMul", .inputs = second, .outputs = &y, .input_count = 2, .output_count = 1}};
    for (int i = 0; i < 3; i++) assert_ok(tn_graph_add_op(graph, &ops[i], NULL, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    return graph;
}

static tn_status occupy(const tn_graph *graph, const uint64_t *workspaces, tn_program **program,
                        tn_occupancy **occupancy, tn_error *error) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    memory.inplace = TN_INPLACE_NONE;
    memory.workspaces = workspaces;
    TN_TRY(tn_program_create(graph, NULL, program, error));
    return tn_occupancy_create(*program, &memory, occupancy, error);
}

/* The peak by hand, in tensors of 64 bytes (x, h, r, y, logs and their gradients) and of 256
 * (weights, gradients of weights, state). At the first update x and y are there (the caller's, and
 * an output), both gradients of weights, and two moments and two weights. */
static void a_step_as_pytorch_runs_it_keeps_what_autograd_keeps(void **state) {
    (void)state;
    tn_graph *graph = two_layers(NULL);
    for (uint32_t states = 0; states <= 2; states++) {
        tn_autograd_options options = TN_AUTOGRAD_OPTIONS_INIT;
        tn_autograd step;
        tn_program *program;
        tn_occupancy *occupancy;
        tn_estimate estimate;
        options.state_count = states;
        options.scratch_count = 2;
        assert_ok(tn_autograd_make(graph, &options, &step, &failure));
        assert_ok(occupy(step.graph, step.workspaces, &program, &occupancy, &failure));
        assert_ok(tn_estimate_make(occupancy, NULL, &estimate, &failure));
        assert_int_equal(estimate.part[TN_PART_WEIGHTS], 2 * 256);
        assert_int_equal(estimate.part[TN_PART_OPTIMIZER_STATE], states * 2 * 256);
        assert_int_equal(estimate.part[TN_PART_GRADIENTS], 2 * 256);
        assert_int_equal(estimate.part[TN_PART_WORKSPACE], 2 * 256);
        /* x, y; loss, learning rate and step are 4, 4 and 8 bytes of at most 64 each */
        assert_true(estimate.part[TN_PART_ACTIVATIONS] >= 64 &&
                    estimate.part[TN_PART_ACTIVATIONS] <= 128 + 16);
        assert_true(estimate.phase[TN_PHASE_FIRST_STEP] != TN_SIZE_UNKNOWN);
        assert_true(estimate.phase[TN_PHASE_BACKWARD] != TN_SIZE_UNKNOWN);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_autograd_release(&step);
    }
    tn_graph_destroy(graph);
}

static tn_status whole(const tn_context *context, const char *pool, tn_graph *graph) {
    tn_estimate_options options = TN_ESTIMATE_OPTIONS_INIT;
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    tn_estimate estimate = {.total = 7};
    tn_autograd step = {0};
    tn_error error;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    plan.context = context;
    options.context = context;
    options.pool = pool;
    options.plan = &plan;
    tn_status status = tn_autograd_make(graph, NULL, &step, &error);
    if (status != TN_OK) assert_null(step.graph);
    if (status == TN_OK) status = occupy(step.graph, step.workspaces, &program, &occupancy, &error);
    if (status == TN_OK) {
        status = tn_estimate_make(occupancy, &options, &estimate, &error);
        assert_true(status == TN_OK ? estimate.total > 7 : estimate.total == 7);
    }
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_autograd_release(&step);
    return status;
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    static const char *const pools[] = {NULL, "caching"};
    for (int p = 0; p < 2; p++) {
        faulty memory = {0};
        tn_context context = faulty_context(&memory);
        tn_graph *graph = two_layers(&context);
        size_t held = memory.held;
        tn_status status = TN_E_NO_MEMORY;
        for (uint64_t n = 1; status != TN_OK; n++) {
            memory.requests = 0;
            memory.fail_at = n;
            status = whole(&context, pools[p], graph);
            assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
            assert_int_equal(memory.held, held);
            assert_true(n < 100000);
        }
        memory.fail_at = 0;
        tn_graph_destroy(graph);
        assert_int_equal(memory.held, 0);
    }
}

static void a_batch_scales_what_depends_on_it(void **state) {
    (void)state;
    uint64_t inputs[3];
    for (int64_t batch = 1; batch <= 3; batch++) {
        tn_import_options import = TN_IMPORT_OPTIONS_INIT;
        tn_graph *graph;
        import.batch = batch;
        assert_ok(tn_graph_load(MODEL, &import, &graph, &failure));
        const tn_block *block = tn_graph_block(graph, 0);
        inputs[batch - 1] = tn_graph_tensor(graph, block->inputs[0])->bytes;
        assert_int_equal(inputs[batch - 1], (uint64_t)batch * inputs[0]);
        assert_int_equal(tn_graph_tensor(graph, block->outputs[0])->shape[0], batch);
        tn_graph_destroy(graph);
    }
}

static void what_is_not_known_is_refused(void **state) {
    (void)state;
    tn_graph *graph = two_layers(NULL);
    tn_autograd_options options = TN_AUTOGRAD_OPTIONS_INIT;
    tn_estimate_options asked = TN_ESTIMATE_OPTIONS_INIT;
    tn_autograd step;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_estimate estimate;
    options.state_count = 3;
    assert_int_equal(tn_autograd_make(graph, &options, &step, &failure), TN_E_INVALID);
    assert_ok(occupy(graph, NULL, &program, &occupancy, &failure));
    asked.pool = "puddle";
    assert_int_equal(tn_estimate_make(occupancy, &asked, &estimate, &failure), TN_E_UNKNOWN);
    asked.pool = "best-fit";
    asked.pool_capacity = 64;
    assert_int_equal(tn_estimate_make(occupancy, &asked, &estimate, &failure), TN_E_EXHAUSTED);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_as_pytorch_runs_it_keeps_what_autograd_keeps),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(a_batch_scales_what_depends_on_it),
        cmocka_unit_test(what_is_not_known_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
