/* whole.h - a graph from the builder to its outputs, for tests of the engine: planned, laid out,
 * run. Contents are drawn from a seed and the tensor's name. */
#ifndef TN_TESTS_ENGINE_WHOLE_H
#define TN_TESTS_ENGINE_WHOLE_H

#include <math.h>

#include <tenure/engine.h>
#include <tenure/graph.h>

#include "base/base.h"
#include "engine/kernels/convert.h"
#include "support.h"

#define WHOLE_MOST 16u

typedef struct whole {
    bool plain;
    uint32_t threads;
    uint64_t seed;
    double spread;     /* floats are drawn from [-spread, spread); 0: 1 */
    tn_contents *from; /* where parameters come from; NULL: drawn */
    bool skip_poison;
    tn_dtype rounded; /* contents of float32 are numbers of this type; UNDEFINED: any */
    void (*change)(const tn_tensor *tensor, void *bytes); /* what was drawn; NULL: as it is */
    /* out: */
    uint32_t output_count;
    tn_array outputs[WHOLE_MOST]; /* data: free with whole_release */
    uint64_t arena, statics, peak;
    uint32_t library_count; /* operators that oneDNN runs */
    tn_error error;
} whole;

static inline uint64_t whole_hash(uint64_t seed, const char *name) {
    tn__random random = {seed};
    for (; *name != '\0'; name++) random.state = tn__random_next(&random) ^ (uint8_t)*name;
    return tn__random_next(&random);
}

static inline void whole_draw(const whole *run, const tn_tensor *tensor, void *bytes) {
    tn__random random = {whole_hash(run->seed, tensor->name)};
    uint64_t count = tensor->bytes * 8 / tn_dtype_bits(tensor->dtype);
    double spread = run->spread > 0 ? run->spread : 1;
    /* Variances are no less than 0; a name says so. */
    bool positive = strstr(tensor->name, "var") != NULL;
    bool low = tensor->dtype == TN_FLOAT16 || tensor->dtype == TN_BFLOAT16;
    memset(bytes, 0, tensor->bytes);
    for (uint64_t i = 0; i < count; i++) {
        double at = (double)(tn__random_next(&random) >> 11) * 0x1p-53;
        if (tensor->value != NULL && tensor->dtype == TN_FLOAT32)
            ((float *)bytes)[i] = (float)tensor->value->floats[i];
        else if (tensor->value != NULL && tensor->dtype == TN_INT64)
            ((int64_t *)bytes)[i] = tensor->value->ints[i];
        else if (tensor->dtype == TN_FLOAT32)
            ((float *)bytes)[i] = (float)(positive ? at + 0.1 : (2 * at - 1) * spread);
        else if (tensor->dtype == TN_INT64)
            ((int64_t *)bytes)[i] = (int64_t)(at * 8);
        if (!low && (tensor->dtype != TN_FLOAT32 || run->rounded == TN_UNDEFINED)) continue;
        float value = tensor->value != NULL ? (float)tensor->value->floats[i]
                      : positive            ? (float)(at + 0.1)
                                            : (float)((2 * at - 1) * spread);
        uint16_t half;
        tn__convert(TN_FLOAT32, &value, low ? tensor->dtype : run->rounded, &half, 1);
        if (low)
            ((uint16_t *)bytes)[i] = half;
        else
            tn__convert(run->rounded, &half, TN_FLOAT32, (float *)bytes + i, 1);
    }
    if (run->change != NULL) run->change(tensor, bytes);
}

static inline tn_status whole_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                                   uint64_t size, tn_error *error) {
    whole *run = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (run->from != NULL) return tn_contents_read(run->from, graph, id, bytes, size, error);
    assert_int_equal(size, tensor->bytes);
    whole_draw(run, tensor, bytes);
    return TN_OK;
}

static inline void whole_release(whole *run) {
    for (uint32_t i = 0; i < run->output_count; i++) free(run->outputs[i].data);
    run->output_count = 0;
}

static inline void whole_arrays(whole *run, const tn_graph *graph, tn_array *inputs,
                                uint32_t *input_count) {
    const tn_block *block = tn_graph_block(graph, 0);
    *input_count = 0;
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        if (tensor->kind != TN_KIND_INPUT) continue;
        assert_true(*input_count < WHOLE_MOST);
        tn_array *array = &inputs[(*input_count)++];
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        if (tensor->rank > 0)
            memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
        array->data = malloc(tensor->bytes + 1);
        whole_draw(run, tensor, array->data);
    }
    run->output_count = block->output_count;
    assert_true(block->output_count <= WHOLE_MOST);
    for (uint32_t i = 0; i < block->output_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->outputs[i]);
        run->outputs[i] = (tn_array){.bytes = tensor->bytes};
        run->outputs[i].data = calloc(1, tensor->bytes + 1);
    }
}

static inline tn_status whole_on(whole *run, const tn_setup *setup) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn_engine *engine;
    tn_array inputs[WHOLE_MOST];
    tn_engine_usage usage;
    uint32_t count;
    options.read = whole_read;
    options.self = run;
    options.poison = !run->skip_poison;
    options.seed = 1;
    tn_status status = tn_setup_open(setup, NULL, &options, &engine, &run->error);
    if (status != TN_OK) return status;
    whole_arrays(run, tn_setup_graph(setup), inputs, &count);
    for (int again = 0; again < 2 && status == TN_OK; again++)
        status = tn_engine_run(engine, inputs, count, run->outputs, run->output_count, &run->error);
    tn_engine_measure(engine, &usage);
    run->arena = usage.arena;
    run->peak = usage.measured_peak;
    run->statics = usage.static_bytes;
    for (uint32_t i = 0; i < count; i++) free(inputs[i].data);
    tn_engine_destroy(engine);
    return status;
}

/* Runs `graph`, which is inferred. The outputs are there on success. */
static inline tn_status whole_run(whole *run, const tn_graph *graph) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_setup *setup;
    kernels.plain = run->plain;
    kernels.threads = run->threads;
    options.kernels = &kernels;
    run->output_count = run->library_count = 0;
    tn_status status = tn_setup_create(graph, &options, &setup, &run->error);
    if (status != TN_OK) return status;
    for (uint32_t i = 0; i < tn_graph_op_count(graph); i++) {
        const char *name = tn_kernels_name(tn_setup_kernels(setup), i);
        run->library_count += strncmp(name, "dnnl", 4) == 0 || strcmp(name, "onednn") == 0;
    }
    status = whole_on(run, setup);
    tn_setup_destroy(setup);
    if (status != TN_OK) whole_release(run);
    return status;
}

/* The largest difference between two runs' outputs, over the largest number of the first, at least
 * 1. NaN on one side alone, or another number of outputs or elements: infinity. */
static inline double whole_difference(const whole *a, const whole *b) {
    double worst = 0;
    if (a->output_count != b->output_count) return INFINITY;
    for (uint32_t k = 0; k < a->output_count; k++) {
        double scale = 1, apart = 0;
        if (a->outputs[k].bytes != b->outputs[k].bytes) return INFINITY;
        if (a->outputs[k].dtype != TN_FLOAT32) {
            if (memcmp(a->outputs[k].data, b->outputs[k].data, a->outputs[k].bytes) != 0)
                return INFINITY;
            continue;
        }
        const float *left = a->outputs[k].data, *right = b->outputs[k].data;
        uint64_t count = 1;
        for (uint32_t d = 0; d < a->outputs[k].rank; d++) count *= (uint64_t)a->outputs[k].shape[d];
        for (uint64_t i = 0; i < count; i++) {
            if (isnan(left[i]) != isnan(right[i])) return INFINITY;
            if (isnan(left[i]) || left[i] == right[i]) continue;
            if (fabs((double)left[i]) > scale) scale = fabs((double)left[i]);
            double gap = fabs((double)left[i] - (double)right[i]);
            if (gap > apart) apart = gap;
        }
        if (!(apart / scale <= worst)) worst = apart / scale;
    }
    return worst;
}

/* How far outputs in 16 bits are from those in float32 beyond one rounding, relative to the largest
 * number of each. */
static inline double whole_beyond(const whole *wide, const whole *low, double unit) {
    double worst = 0;
    if (wide->output_count != low->output_count) return INFINITY;
    for (uint32_t k = 0; k < wide->output_count; k++) {
        const float *want = wide->outputs[k].data;
        uint64_t count = wide->outputs[k].bytes / sizeof *want;
        double scale = 1, apart = 0;
        bool same = low->outputs[k].dtype == TN_FLOAT32;
        for (uint64_t i = 0; i < count; i++) {
            float got;
            tn__convert(low->outputs[k].dtype,
                        (const char *)low->outputs[k].data +
                            i * tn__element_size(low->outputs[k].dtype),
                        TN_FLOAT32, &got, 1);
            if (isnan(want[i]) != isnan(got)) return INFINITY;
            if (isnan(got) || got == want[i]) continue;
            if (fabs((double)want[i]) > scale) scale = fabs((double)want[i]);
            double gap = fabs((double)got - (double)want[i]);
            if (!same) gap -= unit * fabs((double)want[i]);
            if (gap > apart) apart = gap;
        }
        if (!(apart / scale <= worst)) worst = apart / scale;
    }
    return worst;
}

/* --- building --- */

static inline tn_tensor_id whole_tensor(tn_graph *graph, const char *name, tn_kind kind,
                                        uint32_t rank, const int64_t *shape) {
    tn_tensor_spec spec = {
        .name = name, .dtype = TN_FLOAT32, .kind = kind, .rank = rank, .shape = shape};
    tn_tensor_id id;
    if (kind == TN_KIND_OUTPUT || kind == TN_KIND_ACTIVATION)
        spec.dtype = TN_UNDEFINED, spec.shape = NULL, spec.rank = 0;
    assert_int_equal(tn_graph_add_tensor(graph, &spec, &id, NULL), TN_OK);
    return id;
}

static inline void whole_op_in(tn_graph *graph, const char *domain, const char *type,
                               uint32_t version, const tn_tensor_id *inputs, uint32_t input_count,
                               tn_tensor_id output, const tn_attr *attrs, uint32_t attr_count) {
    tn_op_spec spec = {.name = type,
                       .type = type,
                       .domain = domain,
                       .version = version,
                       .inputs = inputs,
                       .outputs = &output,
                       .attrs = attrs,
                       .input_count = input_count,
                       .output_count = 1,
                       .attr_count = attr_count};
    tn_error error;
    if (tn_graph_add_op(graph, &spec, NULL, &error) != TN_OK) fail_msg("%s", error.message);
}

static inline void whole_infer(tn_graph *graph) {
    tn_error error;
    if (tn_graph_infer(graph, &error) != TN_OK) fail_msg("%s: %s", error.where, error.message);
}

#endif
