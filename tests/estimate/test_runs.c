/* test_runs.c - an estimate against the run itself: arena, static memory and every pool, to the
 * byte, in inference and in training, with our own loops and with oneDNN where it is there.
 */
#include <tenure/engine.h>
#include <tenure/estimate.h>
#include <tenure/graph.h>
#include <tenure/pool.h>
#include <tenure/train.h>

#include <unistd.h>

#include "support.h"

#define RUNS_OPERANDS 16u

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

typedef struct runs { /* a model up to its plan */
    tn_graph *model;
    tn_training training;
    const tn_graph *graph;
    tn_contents *contents;
    tn_setup *setup;
    tn_array inputs[RUNS_OPERANDS], outputs[RUNS_OPERANDS];
    uint32_t input_count, output_count;
} runs;

typedef struct model {
    const char *path;
    int64_t batch;
    bool train;
    tn_optimizer optimizer;
} model;

static const model models[] = {
    {"/examples/models/mobilenet_v2.onnx", 0, false, TN_OPTIMIZER_SGD},
    {"/../shared/data/onnx/mnist8.onnx", 0, false, TN_OPTIMIZER_SGD},
    {"/../shared/data/onnx/fashion_resnet.onnx", 3, false, TN_OPTIMIZER_SGD},
    {"/../shared/data/onnx/ultraface.onnx", 0, false, TN_OPTIMIZER_SGD},
    {"/../shared/data/onnx/fashion_resnet.onnx", 4, true, TN_OPTIMIZER_ADAM},
    {"/../shared/data/onnx/fashion_resnet.onnx", 2, true, TN_OPTIMIZER_MOMENTUM},
};

static void runs_arrays(runs *r, const tn_tensor_id *ids, uint32_t count, tn_array *arrays,
                        uint32_t *filled) {
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(r->graph, ids[i]);
        if (arrays == r->inputs && tn_tensor_is_static(tensor)) continue;
        assert_true(*filled < RUNS_OPERANDS);
        tn_array *array = &arrays[(*filled)++];
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        for (uint32_t d = 0; d < tensor->rank; d++) array->shape[d] = tensor->shape[d];
        array->data = calloc(1, tensor->bytes + 1);
        assert_non_null(array->data);
    }
}

static bool runs_open(runs *r, const model *which, bool plain) {
    char path[1024];
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_setup_options setup = TN_SETUP_OPTIONS_INIT;
    *r = (runs){0};
    snprintf(path, sizeof path, "%s%s", TENURE_SOURCE_DIR, which->path);
    if (access(path, R_OK) != 0) {
        printf("SKIP: %s is not there\n", path);
        return false;
    }
    import.batch = which->batch;
    assert_ok(tn_graph_load(path, &import, &r->model, &failure));
    r->graph = r->model;
    if (which->train) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        options.optimizer = which->optimizer;
        assert_ok(tn_train(r->model, &options, &r->training, &failure));
        r->graph = r->training.graph;
    }
    assert_ok(tn_contents_generate(path, r->model, 1, NULL, &r->contents, &failure));
    kernels.plain = plain;
    setup.kernels = &kernels;
    assert_ok(tn_setup_create(r->graph, &setup, &r->setup, &failure));
    const tn_block *block = tn_graph_block(r->graph, 0);
    runs_arrays(r, block->inputs, block->input_count, r->inputs, &r->input_count);
    runs_arrays(r, block->outputs, block->output_count, r->outputs, &r->output_count);
    return true;
}

static void runs_close(runs *r) {
    for (uint32_t i = 0; i < r->input_count; i++) free(r->inputs[i].data);
    for (uint32_t i = 0; i < r->output_count; i++) free(r->outputs[i].data);
    tn_setup_destroy(r->setup);
    tn_contents_close(r->contents);
    if (r->training.graph != NULL) tn_training_release(&r->training);
    tn_graph_destroy(r->model);
}

static tn_status runs_read(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                           uint64_t size, tn_error *error) {
    return tn_contents_read(self, graph, tensor, bytes, size, error);
}

static void runs_estimate(const runs *r, const char *pool, tn_estimate *estimate) {
    tn_estimate_options options = TN_ESTIMATE_OPTIONS_INIT;
    options.pool = pool;
    options.statics = tn_setup_statics(r->setup, &options.static_count);
    assert_ok(tn_estimate_make(tn_setup_occupancy(r->setup), &options, estimate, &failure));
    uint64_t sum = 0;
    for (uint32_t part = 0; part < TN_PART_COUNT; part++) sum += estimate->part[part];
    assert_int_equal(sum, estimate->total);
    for (uint32_t phase = 0; phase < TN_PHASE_CHECKPOINT; phase++)
        if (estimate->phase[phase] != TN_SIZE_UNKNOWN)
            assert_true(estimate->phase[phase] <= estimate->total);
}

/* Runs it three times, and compares what it took with the estimate. */
static void runs_compare(runs *r, const char *name, const char *pool) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn_engine *engine;
    tn_engine_usage usage;
    tn_pool_usage held;
    tn_estimate estimate;
    runs_estimate(r, pool, &estimate);
    options.read = runs_read;
    options.self = r->contents;
    options.pool = pool;
    options.pool_capacity = pool != NULL ? estimate.arena * 2 + (64u << 20) : 0;
    assert_ok(tn_setup_open(r->setup, NULL, &options, &engine, &failure));
    for (uint32_t run = 0; run < 3; run++) {
        for (uint32_t k = 0; k < r->output_count; k++)
            r->outputs[k].bytes =
                tn_graph_tensor(r->graph, tn_graph_block(r->graph, 0)->outputs[k])->bytes;
        assert_ok(tn_engine_run(engine, r->inputs, r->input_count, r->outputs, r->output_count,
                                &failure));
    }
    tn_engine_measure(engine, &usage);
    if (pool == NULL) {
        assert_int_equal(estimate.arena, usage.arena);
        assert_int_equal(estimate.fixed, usage.static_bytes);
        assert_int_equal(estimate.total, usage.arena + usage.static_bytes);
    } else {
        tn_pool_measure(tn_engine_pool(engine), &held);
        if (held.reserved_peak != estimate.arena || held.requested_peak != estimate.requested ||
            held.allocated_peak != estimate.allocated)
            fail_msg(
                "%s, %s: %llu, %llu, %llu bytes measured, %llu, %llu, %llu estimated\n", name, pool,
                (unsigned long long)held.reserved_peak, (unsigned long long)held.requested_peak,
                (unsigned long long)held.allocated_peak, (unsigned long long)estimate.arena,
                (unsigned long long)estimate.requested, (unsigned long long)estimate.allocated);
        assert_int_equal(estimate.total, held.reserved_peak);
    }
    tn_engine_destroy(engine);
}

static void runs_all(bool plain) {
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        runs r;
        if (!runs_open(&r, &models[m], plain)) continue;
        runs_compare(&r, models[m].path, NULL);
        for (uint32_t p = 0; p < tn_pool_count(); p++)
            if (strcmp(tn_pool_name(p), "planned") != 0)
                runs_compare(&r, models[m].path, tn_pool_name(p));
        runs_close(&r);
    }
}

static void arena_and_pools_are_estimated_to_the_byte(void **state) {
    (void)state;
    runs_all(true);
}

static void so_they_are_with_onednn(void **state) {
    (void)state;
    if (!tn_kernels_library(NULL, &failure)) {
        printf("SKIP: %s\n", failure.message);
        return;
    }
    runs_all(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_and_pools_are_estimated_to_the_byte),
        cmocka_unit_test(so_they_are_with_onednn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
