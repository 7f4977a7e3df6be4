/* test_faults.c - estimates when memory runs out, and what they promise of any program: parts add
 * up, policies order themselves, a step as PyTorch runs it keeps what autograd keeps.
 */
#include <tenure/estimate.h>
#include <tenure/graph.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

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

/* Attention of 2 heads over x [batch, 4, 6] as exporters write it, with one product for query, key
 * and value that is split. */
static tn_graph *attention(const tn_context *context, int64_t batch) {
    const int64_t x_shape[] = {batch, 4, 6}, w_shape[] = {6, 18}, four[] = {4};
    const int64_t apart[] = {batch, 4, 2, 3}, joined[] = {batch, 4, 6}, three[] = {3};
    const int64_t thirds[] = {6, 6, 6};
    tn_graph *graph;
    tn_tensor_id x, w, shape, shape_3, parts, t[20];
    tn_tensor_spec in = {
        .name = "x", .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT, .rank = 3, .shape = x_shape};
    tn_tensor_spec weight = {
        .name = "w", .dtype = TN_FLOAT32, .kind = TN_KIND_PARAMETER, .rank = 2, .shape = w_shape};
    tn_tensor_spec list = {.name = "apart",
                           .dtype = TN_INT64,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = four,
                           .value = {.count = 4, .ints = apart}};
    assert_ok(tn_graph_create(context, &graph, &failure));
    assert_ok(tn_graph_add_tensor(graph, &in, &x, &failure));
    assert_ok(tn_graph_add_tensor(graph, &weight, &w, &failure));
    assert_ok(tn_graph_add_tensor(graph, &list, &shape, &failure));
    list.name = "joined", list.shape = three, list.value = (tn_value){.count = 3, .ints = joined};
    assert_ok(tn_graph_add_tensor(graph, &list, &shape_3, &failure));
    list.name = "thirds", list.value.ints = thirds;
    assert_ok(tn_graph_add_tensor(graph, &list, &parts, &failure));
    for (int i = 0; i < 15; i++) {
        tn_tensor_spec made = {.name = "t", .kind = i == 14 ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION};
        assert_ok(tn_graph_add_tensor(graph, &made, &t[i], &failure));
    }
    static const int64_t perm[] = {0, 2, 1, 3}, perm_key[] = {0, 2, 3, 1}, last[] = {2};
    tn_attr swap = {.name = "perm", .type = TN_ATTR_INTS, .count = 4, .ints = perm};
    tn_attr swap_key = {.name = "perm", .type = TN_ATTR_INTS, .count = 4, .ints = perm_key};
    tn_attr axis = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = last};
    struct {
        const char *type;
        tn_tensor_id inputs[2], output;
        uint32_t inputs_count, outputs_count;
        const tn_attr *attr;
    } rows[] = {{"MatMul", {x, w}, t[0], 2, 1, NULL},
                {"Split", {t[0], parts}, t[1], 2, 3, &axis}, /* t[1], t[2], t[3] */
                {"Reshape", {t[1], shape}, t[4], 2, 1, NULL},
                {"Reshape", {t[2], shape}, t[5], 2, 1, NULL},
                {"Reshape", {t[3], shape}, t[6], 2, 1, NULL},
                {"Transpose", {t[4]}, t[7], 1, 1, &swap},
                {"Transpose", {t[5]}, t[8], 1, 1, &swap_key},
                {"Transpose", {t[6]}, t[9], 1, 1, &swap},
                {"MatMul", {t[7], t[8]}, t[10], 2, 1, NULL},
                {"Softmax", {t[10]}, t[11], 1, 1, NULL},
                {"MatMul", {t[11], t[9]}, t[12], 2, 1, NULL},
                {"Transpose", {t[12]}, t[13], 1, 1, &swap},
                {"Reshape", {t[13], shape_3}, t[14], 2, 1, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_tensor_id outputs[] = {rows[i].output, rows[i].output + 1, rows[i].output + 2};
        tn_op_spec op = {.type = rows[i].type,
                         .inputs = rows[i].inputs,
                         .outputs = outputs,
                         .attrs = rows[i].attr,
                         .input_count = rows[i].inputs_count,
                         .output_count = rows[i].outputs_count,
                         .attr_count = rows[i].attr != NULL};
        assert_ok(tn_graph_add_op(graph, &op, NULL, &failure));
    }
    assert_ok(tn_graph_infer(graph, &failure));
    return graph;
}

static uint32_t count_of(const tn_graph *graph, const char *type) {
    uint32_t count = 0;
    for (tn_op_id i = 0; i < tn_graph_op_count(graph); i++)
        count += strcmp(tn_graph_op(graph, i)->type, type) == 0;
    return count;
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
        tn_pytorch_options options = TN_PYTORCH_OPTIONS_INIT;
        tn_pytorch step;
        tn_program *program;
        tn_occupancy *occupancy;
        tn_estimate estimate;
        options.state_count = states;
        options.scratch_count = 2;
        assert_ok(tn_pytorch_make(graph, &options, &step, &failure));
        assert_ok(occupy(step.graph, step.workspaces, &program, &occupancy, &failure));
        assert_ok(tn_estimate_make(occupancy, NULL, &estimate, &failure));
        assert_int_equal(estimate.part[TN_PART_WEIGHTS], 2 * 256);
        assert_int_equal(estimate.part[TN_PART_OPTIMIZER_STATE], states * 2 * 256);
        assert_int_equal(estimate.part[TN_PART_GRADIENTS], 2 * 256);
        assert_int_equal(estimate.part[TN_PART_WORKSPACE], 3 * 256); /* and one of the one before */
        /* x, y; loss, learning rate and step are 4, 4 and 8 bytes of at most 64 each */
        assert_true(estimate.part[TN_PART_ACTIVATIONS] >= 64 &&
                    estimate.part[TN_PART_ACTIVATIONS] <= 128 + 16);
        assert_true(estimate.phase[TN_PHASE_UPDATE] != TN_SIZE_UNKNOWN);
        assert_true(estimate.phase[TN_PHASE_BACKWARD] != TN_SIZE_UNKNOWN);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_pytorch_release(&step);
    }
    tn_graph_destroy(graph);
}

/* Query, key and value are views of one product, until a product of [batch x heads] matrices cannot
 * see batch and heads as one dimension: then each is copied. One sequence alone needs no copy. The
 * heads side by side again are a copy in any case; gradients of the three are joined in one. */
static void products_copy_what_they_cannot_see_in_strides(void **state) {
    (void)state;
    for (int64_t batch = 1; batch <= 2; batch++) {
        tn_graph *graph = attention(NULL, batch);
        tn_pytorch step;
        assert_ok(tn_pytorch_make(graph, NULL, &step, &failure));
        assert_int_equal(count_of(step.graph, "Split"), 0);
        assert_int_equal(count_of(step.graph, "Transpose"), 0);
        assert_int_equal(count_of(step.graph, "Reshape"), 1);
        assert_int_equal(count_of(step.graph, "PartBackward"), 1);
        /* backward: those of query and value from [heads, tokens, 3] to [tokens, 6]; the key's,
         * [heads, 3, tokens], can be seen so */
        uint32_t forward = 0, clones = count_of(step.graph, "Clone");
        for (tn_op_id i = 0; i < tn_graph_op_count(step.graph); i++) {
            const tn_op *op = tn_graph_op(step.graph, i);
            forward += strcmp(op->type, "Clone") == 0 &&
                       tn_graph_tensor(step.graph, op->outputs[0])->kind == TN_KIND_ACTIVATION;
        }
        assert_int_equal(forward, batch > 1 ? 3 : 0);
        assert_int_equal(clones, forward + 2);
        tn_pytorch_release(&step);
        tn_graph_destroy(graph);
    }
}

static tn_status whole(const tn_context *context, const char *pool, tn_graph *graph) {
    tn_estimate_options options = TN_ESTIMATE_OPTIONS_INIT;
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    tn_estimate estimate = {.total = 7};
    tn_pytorch step = {0};
    tn_error error;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    plan.context = context;
    options.context = context;
    options.pool = pool;
    options.plan = &plan;
    tn_status status = tn_pytorch_make(graph, NULL, &step, &error);
    if (status != TN_OK) assert_null(step.graph);
    if (status == TN_OK) status = occupy(step.graph, step.workspaces, &program, &occupancy, &error);
    if (status == TN_OK) {
        status = tn_estimate_make(occupancy, &options, &estimate, &error);
        assert_true(status == TN_OK ? estimate.total > 7 : estimate.total == 7);
    }
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_pytorch_release(&step);
    return status;
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    static const char *const pools[] = {NULL, "caching"};
    for (int p = 0; p < 4; p++) {
        faulty memory = {0};
        tn_context context = faulty_context(&memory);
        tn_graph *graph = p < 2 ? two_layers(&context) : attention(&context, 2);
        size_t held = memory.held;
        tn_status status = TN_E_NO_MEMORY;
        for (uint64_t n = 1; status != TN_OK; n++) {
            memory.requests = 0;
            memory.fail_at = n;
            status = whole(&context, pools[p % 2], graph);
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
    tn_pytorch_options options = TN_PYTORCH_OPTIONS_INIT;
    tn_estimate_options asked = TN_ESTIMATE_OPTIONS_INIT;
    tn_pytorch step;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_estimate estimate;
    options.state_count = 3;
    assert_int_equal(tn_pytorch_make(graph, &options, &step, &failure), TN_E_INVALID);
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

static void phases_have_names_of_their_own(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TN_PHASE_COUNT; i++) {
        assert_true(strlen(tn_phase_name((tn_phase)i)) > 0);
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(tn_phase_name((tn_phase)i), tn_phase_name((tn_phase)j));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_as_pytorch_runs_it_keeps_what_autograd_keeps),
        cmocka_unit_test(products_copy_what_they_cannot_see_in_strides),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(a_batch_scales_what_depends_on_it),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test(phases_have_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
