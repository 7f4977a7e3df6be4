/* test_statics.c - static memory inside the arena: one block of the device, planned, verified and
 * bounded to the byte; the same bits as beside it.
 *
 * Networks of convolutions and products with weights in forms of oneDNN's own, folded constants and
 * a step of training with the state of Adam. What the problem has is compared with what an engine
 * keeps, offsets with the sizes that the kernels want; plans in which anything overlaps a weight
 * are refused by name of both.
 */
#include "../support.h"

#include <tenure/tenure.h>

#include "base/base.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* --- networks --- */

typedef struct model {
    tn_graph *graph;
    tn_training training;
    const tn_graph *runs; /* one of both */
    tn__random random;
    tn_tensor_id last;
} model;

static tn_tensor_id made(model *m, const char *type, const tn_tensor_id *inputs, uint32_t count,
                         tn_kind kind) {
    tn_tensor_id id;
    tn_tensor_spec spec = {.name = type, .kind = kind, .rank = TN_RANK_UNKNOWN};
    char name[40];
    snprintf(name, sizeof name, "%s%u", type, tn_graph_tensor_count(m->graph));
    spec.name = name;
    assert_ok(tn_graph_add_tensor(m->graph, &spec, &id, &failure));
    tn_op_spec op = {.type = type,
                     .name = name,
                     .version = 17,
                     .inputs = inputs,
                     .input_count = count,
                     .outputs = &id,
                     .output_count = 1};
    assert_ok(tn_graph_add_op(m->graph, &op, NULL, &failure));
    return id;
}

static tn_tensor_id given(model *m, const char *what, tn_kind kind, uint32_t rank,
                          const int64_t *shape) {
    tn_tensor_id id;
    char name[40];
    snprintf(name, sizeof name, "%s%u", what, tn_graph_tensor_count(m->graph));
    tn_tensor_spec spec = {
        .name = name, .dtype = TN_FLOAT32, .kind = kind, .rank = rank, .shape = shape};
    assert_ok(tn_graph_add_tensor(m->graph, &spec, &id, &failure));
    return id;
}

/* Convolutions of 16 to 48 channels, some with a weight that is computed of two constants, then a
 * product; `train`: a step of Adam. */
static void build(model *m, uint64_t seed, bool train) {
    *m = (model){.random = {seed}};
    assert_ok(tn_graph_create(NULL, &m->graph, &failure));
    int64_t channels = 16, picture[] = {2, channels, 8, 8};
    m->last = given(m, "x", TN_KIND_INPUT, 4, picture);
    uint32_t depth = 1 + (uint32_t)tn__random_below(&m->random, 4);
    for (uint32_t i = 0; i < depth; i++) {
        int64_t to = 16 * (1 + (int64_t)tn__random_below(&m->random, 3));
        int64_t weight[] = {to, channels, 1, 1}, bias[] = {to};
        bool folded = !train && tn__random_below(&m->random, 3) == 0;
        tn_kind kind = folded ? TN_KIND_CONSTANT : TN_KIND_PARAMETER;
        tn_tensor_id conv[3] = {m->last, given(m, "w", kind, 4, weight),
                                given(m, "b", TN_KIND_PARAMETER, 1, bias)};
        if (folded) {
            tn_tensor_id both[] = {conv[1], given(m, "v", kind, 4, weight)};
            conv[1] = made(m, "Mul", both, 2, TN_KIND_ACTIVATION);
        }
        m->last = made(m, "Conv", conv, 3, TN_KIND_ACTIVATION);
        m->last = made(m, "Relu", &m->last, 1, TN_KIND_ACTIVATION);
        channels = to;
    }
    int64_t wide[] = {channels * 64, 5};
    m->last = made(m, "Flatten", &m->last, 1, TN_KIND_ACTIVATION);
    tn_tensor_id product[] = {m->last, given(m, "w", TN_KIND_PARAMETER, 2, wide)};
    m->last = made(m, "MatMul", product, 2, TN_KIND_OUTPUT);
    assert_ok(tn_graph_infer(m->graph, &failure));
    m->runs = m->graph;
    if (!train) return;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    options.optimizer = TN_OPTIMIZER_ADAM;
    assert_ok(tn_train(m->graph, &options, &m->training, &failure));
    m->runs = m->training.graph;
}

static void dismiss(model *m) {
    if (m->runs != m->graph) tn_training_release(&m->training);
    tn_graph_destroy(m->graph);
}

static tn_status draw(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                      uint64_t size, tn_error *error) {
    (void)self, (void)graph, (void)error;
    tn__random random = {id};
    for (uint64_t i = 0; i < size / 4; i++)
        ((float *)bytes)[i] = (float)(tn__random_next(&random) >> 40) / 16777216.0f - 0.5f;
    return TN_OK;
}

/* --- set up --- */

static tn_status set_up(const model *m, tn_static_place place, bool plain, tn_setup **setup) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    rewrite.use = m->runs != m->graph ? TN_REWRITE_TRAINED : TN_REWRITE_TO_RUN;
    kernels.plain = plain;
    program.order = "auto";
    options.rewrite = &rewrite;
    options.kernels = &kernels;
    options.program = &program;
    options.statics = place;
    return tn_setup_create(m->runs, &options, setup, &failure);
}

/* Outputs of three runs, and then what is kept, one behind the other. */
static uint8_t *run(const tn_setup *setup, tn_engine *engine, size_t *size) {
    const tn_graph *graph = tn_setup_graph(setup);
    const tn_block *block = tn_graph_block(graph, 0);
    tn_array inputs[16], outputs[32];
    uint32_t count = 0;
    size_t all = 0;
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        if (tn_tensor_is_static(tensor)) continue;
        tn_array *array = &inputs[count++];
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof(int64_t));
        array->data = calloc(1, tensor->bytes + 1);
        if (tensor->dtype == TN_FLOAT32)
            (void)!draw(NULL, graph, 1000 + count, array->data, array->bytes, NULL);
    }
    for (uint32_t k = 0; k < block->output_count; k++)
        all += tn_graph_tensor(graph, block->outputs[k])->bytes;
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++)
        if (tn_graph_tensor(graph, t)->flags & TN_TENSOR_UPDATED)
            all += tn_graph_tensor(graph, t)->bytes;
    uint8_t *bytes = calloc(1, all + 1), *at = bytes;
    assert_true(count <= 16 && block->output_count <= 32 && bytes != NULL);
    for (uint32_t k = 0; k < block->output_count; at += outputs[k++].bytes)
        outputs[k] =
            (tn_array){.bytes = tn_graph_tensor(graph, block->outputs[k])->bytes, .data = at};
    for (int i = 0; i < 3; i++)
        assert_ok(tn_engine_run(engine, inputs, count, outputs, block->output_count, &failure));
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, t);
        if (!(tensor->flags & TN_TENSOR_UPDATED)) continue;
        assert_ok(tn_engine_get_static(engine, t, at, tensor->bytes, &failure));
        at += tensor->bytes;
    }
    for (uint32_t i = 0; i < count; i++) free(inputs[i].data);
    *size = all;
    return bytes;
}

static tn_status open(const tn_setup *setup, uint64_t capacity, tn_engine **engine) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    device.capacity = capacity;
    options.read = draw;
    options.poison = true;
    return tn_setup_open(setup, &device, &options, engine, &failure);
}

/* Each block has a body, in all steps, of its size; FIRST: at the bytes that come before it. */
static void check_bodies(const tn_setup *setup, tn_static_place place) {
    const tn_occupancy *occupancy = tn_setup_occupancy(setup);
    const tn_problem *problem = tn_occupancy_problem(occupancy);
    const tn_layout *layout = tn_setup_layout(setup);
    uint32_t count, found = 0, bodies = tn_problem_count(problem);
    const tn_static_block *blocks = tn_setup_statics(setup, &count);
    uint64_t end = 0;
    assert_true(count > 0);
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++) {
        const tn_life *life = &tn_occupancy_lives(occupancy)[i];
        if (!life->is_static) continue;
        const tn_static_block *block = &blocks[life->body - (bodies - count)];
        assert_int_equal(life->tensor, block->tensor);
        assert_int_equal(life->op, block->op);
        assert_int_equal(life->bytes, block->bytes);
        found++;
    }
    assert_int_equal(found, count);
    for (uint32_t k = 0; k < count; k++) {
        const tn_body *body = tn_problem_body(problem, bodies - count + k);
        assert_int_equal(body->size, blocks[k].bytes);
        assert_int_equal(body->first, 0);
        assert_int_equal(body->last, tn_program_count(tn_setup_program(setup)));
        if (place == TN_STATIC_FIRST) assert_int_equal(layout->offset[bodies - count + k], end);
        end += (blocks[k].bytes + 63) / 64 * 64;
    }
    assert_int_equal(tn_setup_need(setup).statics, end);
    assert_ok(tn_layout_verify(problem, layout, NULL, &failure));
}

static void one_block_bounds_everything(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        const bool train = seed % 2, plain = seed % 3 == 0;
        const tn_static_place places[] = {TN_STATIC_ARENA, TN_STATIC_FIRST};
        model m;
        tn_setup *apart;
        tn_engine *engine;
        tn_engine_usage beside;
        size_t size, again;
        build(&m, seed, train);
        assert_ok(set_up(&m, TN_STATIC_APART, plain, &apart));
        assert_ok(open(apart, 0, &engine));
        uint8_t *expected = run(apart, engine, &size);
        tn_engine_measure(engine, &beside);
        tn_engine_destroy(engine);
        for (int k = 0; k < 2; k++) {
            tn_setup *setup;
            tn_engine_usage usage;
            assert_ok(set_up(&m, places[k], plain, &setup));
            check_bodies(setup, places[k]);
            uint64_t need = tn_setup_layout(setup)->peak;
            assert_int_equal(tn_setup_need(setup).total, need);
            assert_ok(open(setup, need, &engine));
            uint8_t *bytes = run(setup, engine, &again);
            if (again != size || memcmp(bytes, expected, size) != 0)
                fail_msg("seed %llu, place %d: other bits\n", (unsigned long long)seed, k);
            tn_engine_measure(engine, &usage);
            assert_int_equal(usage.measured_peak, need);
            assert_int_equal(usage.arena, need);
            assert_int_equal(usage.static_bytes, beside.static_bytes);
            assert_true(need <= beside.arena + beside.static_bytes + 64);
            tn_engine_destroy(engine);
            engine = NULL;
            assert_int_equal(open(setup, need - 1, &engine), TN_E_EXHAUSTED);
            assert_null(engine);
            free(bytes);
            tn_setup_destroy(setup);
        }
        free(expected);
        tn_setup_destroy(apart);
        dismiss(&m);
    }
}

/* --- saboteurs --- */

static void a_body_over_a_weight_is_refused(void **state) {
    (void)state;
    uint32_t refused = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        model m;
        tn_setup *setup;
        tn_layout layout;
        tn_conflict conflict;
        build(&m, seed, seed % 2);
        assert_ok(set_up(&m, TN_STATIC_ARENA, true, &setup));
        const tn_problem *problem = tn_occupancy_problem(tn_setup_occupancy(setup));
        uint32_t count, bodies = tn_problem_count(problem);
        (void)tn_setup_statics(setup, &count);
        assert_ok(
            tn_layout_from_offsets(problem, tn_setup_layout(setup)->offset, &layout, &failure));
        for (tn_body_id b = 0; b < bodies; b++) {
            tn_body_id weight = bodies - 1 - b % count; /* where this one is, that one goes */
            uint64_t was = layout.offset[b];
            if (weight == b || tn_problem_body(problem, b)->size == 0) continue;
            layout.offset[b] = layout.offset[weight];
            assert_int_equal(tn_layout_verify(problem, &layout, &conflict, &failure),
                             TN_E_CONFLICT);
            tn_engine *engine = NULL;
            tn_device *device;
            assert_ok(tn_device_create(NULL, &device, &failure));
            assert_int_equal(tn_engine_create(tn_setup_occupancy(setup), &layout,
                                              tn_setup_kernels(setup), device, NULL, &engine,
                                              &failure),
                             TN_E_CONFLICT);
            tn_device_destroy(device);
            layout.offset[b] = was;
            refused++;
        }
        tn_layout_release(&layout);
        tn_setup_destroy(setup);
        dismiss(&m);
    }
    assert_true(refused > 300);
}

/* The plan's blocks are not those that the kernels want: other forms, one more, one too few. */
static void other_static_memory_is_refused(void **state) {
    (void)state;
    model m;
    tn_setup *setup, *other;
    build(&m, 1, false);
    assert_ok(set_up(&m, TN_STATIC_ARENA, true, &setup));
    uint32_t count;
    const tn_static_block *blocks = tn_setup_statics(setup, &count);
    for (int lie = 0; lie < 4; lie++) {
        tn_static_block *told = calloc(count + 2u, sizeof *told);
        tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
        tn_setup_options options = TN_SETUP_OPTIONS_INIT;
        tn_engine *engine = NULL;
        memcpy(told, blocks, count * sizeof *told);
        memory.statics = told;
        memory.static_count = count + (lie == 0) - (lie == 1);
        if (lie == 0) told[count] = told[0];
        if (lie == 2) told[count - 1].bytes++;
        options.memory = &memory;
        assert_ok(tn_setup_from(setup, TN_SETUP_OCCUPY, &options, &other, &failure));
        assert_int_equal(open(other, UINT64_C(1) << 30, &engine), lie < 3 ? TN_E_INVALID : TN_OK);
        tn_engine_destroy(engine);
        tn_setup_destroy(other);
        free(told);
    }
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn_engine *engine = NULL;
    options.pool = "best-fit";
    options.pool_capacity = 1 << 24;
    assert_int_equal(tn_setup_open(setup, NULL, &options, &engine, &failure), TN_E_INVALID);
    tn_setup_destroy(setup);
    dismiss(&m);
}

/* --- who asks what there is --- */

static void estimates_and_curves_count_it_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        model m;
        tn_setup *setup;
        tn_estimate estimate;
        build(&m, seed, seed % 2);
        assert_ok(set_up(&m, TN_STATIC_ARENA, true, &setup));
        const tn_occupancy *occupancy = tn_setup_occupancy(setup);
        tn_estimate_options options = TN_ESTIMATE_OPTIONS_INIT;
        options.layout = tn_setup_layout(setup);
        assert_ok(tn_estimate_make(occupancy, &options, &estimate, &failure));
        assert_int_equal(estimate.total, options.layout->peak);
        assert_int_equal(estimate.fixed, 0);
        tn_memory_summary summary = tn_occupancy_summary(occupancy);
        uint64_t weights = 0, state_bytes = 0, sum = 0;
        for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++) {
            const tn_life *life = &tn_occupancy_lives(occupancy)[i];
            if (!life->is_static) continue;
            tn_kind kind = tn_life_kind(tn_setup_graph(setup), life);
            if (kind == TN_KIND_OPTIMIZER_STATE) state_bytes += life->bytes;
            if (kind == TN_KIND_PARAMETER || kind == TN_KIND_CONSTANT) weights += life->bytes;
            if (kind == TN_KIND_ACTIVATION || kind == TN_KIND_WORKSPACE)
                fail_msg("static memory of kind %s\n", tn_kind_name(kind));
        }
        for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++) sum += summary.at_peak[kind];
        uint64_t holes = 64 * (uint64_t)tn_problem_count(tn_occupancy_problem(occupancy));
        assert_true(sum <= summary.peak_live && summary.peak_live < sum + holes); /* alignment */
        assert_int_equal(summary.at_peak[TN_KIND_OPTIMIZER_STATE], state_bytes);
        assert_int_equal(estimate.part[TN_PART_OPTIMIZER_STATE], state_bytes);
        assert_int_equal(estimate.part[TN_PART_WEIGHTS], weights);
        assert_true(estimate.phase[TN_PHASE_LOAD] >= weights + state_bytes);
        assert_true(seed % 2 == 0 || state_bytes > 0);
        tn_setup_destroy(setup);
        dismiss(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_block_bounds_everything),
        cmocka_unit_test(a_body_over_a_weight_is_refused),
        cmocka_unit_test(other_static_memory_is_refused),
        cmocka_unit_test(estimates_and_curves_count_it_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
