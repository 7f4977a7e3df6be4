/* node_engine.c - a model from its file to its outputs, through set-up and engine. */
#include <stdlib.h>
#include <string.h>

#include <tenure/engine.h>
#include <tenure/graph.h>

#include "base/base.h"
#include "engine/kernels/kernel.h"
#include "node_run.h"

#define NODE_VALUES 8 /* the longest list that is told ahead */

typedef struct node {
    const node_options *options;
    tn_graph *loaded;
    tn_contents *contents;
    tn_setup *setup;
    tn_engine *engine;
    bool is_known[NODE_INPUTS_MAX]; /* the input is a parameter */
    tn_error *error;
} node;

/* Shapes of the data, where the model leaves its own open or the data are of others. */
static tn_status node_reshape(node *self, const char *path, const tn_array *inputs,
                              uint32_t input_count) {
    tn_graph *first = self->loaded;
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    const tn_block *block = tn_graph_block(first, 0);
    tn_input_shape shapes[NODE_INPUTS_MAX];
    for (uint32_t i = 0; i < input_count && i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(first, block->inputs[i]);
        bool same = tensor->rank == inputs[i].rank;
        for (uint32_t d = 0; d < tensor->rank && same; d++)
            same = tensor->shape[d] == inputs[i].shape[d];
        if (!same)
            shapes[options.input_shape_count++] =
                (tn_input_shape){tensor->name, inputs[i].rank, inputs[i].shape};
    }
    if (options.input_shape_count == 0) return TN_OK;
    options.input_shapes = shapes;
    TN_TRY(tn_graph_load(path, &options, &self->loaded, self->error));
    tn_graph_destroy(first);
    return TN_OK;
}

/* A size that nothing determines: short lists of integers, and numbers of 16 bits, are told ahead,
 * as --value does. */
static tn_status node_load_values(node *self, const char *path, const tn_array *inputs,
                                  const char *const *names, uint32_t input_count) {
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    tn_input_value values[NODE_INPUTS_MAX];
    double numbers[NODE_INPUTS_MAX][NODE_VALUES];
    for (uint32_t i = 0; i < input_count; i++) {
        const bool narrow = inputs[i].dtype == TN_INT32;
        const bool half = inputs[i].dtype == TN_FLOAT16, brain = inputs[i].dtype == TN_BFLOAT16;
        if ((half || brain) && inputs[i].bytes == 2) {
            uint16_t bits;
            memcpy(&bits, inputs[i].data, sizeof bits);
            numbers[i][0] = (double)(half ? tn__half_to_float(bits) : tn__bfloat_to_float(bits));
            values[options.value_count++] = (tn_input_value){names[i], 1, numbers[i]};
            self->is_known[i] = true;
            continue;
        }
        const uint64_t count = inputs[i].bytes / (narrow ? 4 : 8);
        if ((!narrow && inputs[i].dtype != TN_INT64) || inputs[i].rank > 1 || count < 1 ||
            count > NODE_VALUES)
            continue;
        for (uint64_t k = 0; k < count; k++) {
            int32_t number = 0;
            int64_t wide = 0;
            memcpy(narrow ? (void *)&number : &wide,
                   (const char *)inputs[i].data + k * (narrow ? 4 : 8), narrow ? 4 : 8);
            numbers[i][k] = narrow ? number : (double)wide;
        }
        values[options.value_count++] = (tn_input_value){names[i], (uint32_t)count, numbers[i]};
        self->is_known[i] = true;
    }
    options.values = values;
    return tn_graph_load(path, &options, &self->loaded, self->error);
}

static tn_status node_load(node *self, const char *path, const tn_array *inputs,
                           const char *const *names, uint32_t input_count) {
    tn_status status = tn_graph_load(path, NULL, &self->loaded, self->error);
    if (status == TN_OK) return node_reshape(self, path, inputs, input_count);
    if (status != TN_E_UNKNOWN) return status;
    return node_load_values(self, path, inputs, names, input_count);
}

static tn_status node_read(void *contents, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                           uint64_t size, tn_error *error) {
    return tn_contents_read(contents, graph, tensor, bytes, size, error);
}

static tn_status node_set_up(node *self, const char *path) {
    const node_options *options = self->options;
    tn_setup_options setup = TN_SETUP_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    TN_TRY(tn_contents_open(path, NULL, &self->contents, self->error));
    kernels.plain = options->plain;
    setup.rewrite = options->rewrite ? &rewrite : NULL;
    setup.kernels = &kernels;
    TN_TRY(tn_setup_create(self->loaded, &setup, &self->setup, self->error));
    engine.read = node_read;
    engine.self = self->contents;
    engine.poison = true;
    return tn_setup_open(self->setup, NULL, &engine, &self->engine, self->error);
}

static tn_status node_outputs(node *self, tn_array *outputs, uint32_t output_count) {
    const tn_block *block = tn_graph_block(self->loaded, 0);
    if (block->output_count != output_count)
        return tn__fail(self->error, TN_E_INVALID, "it has %u outputs, not %u", block->output_count,
                        output_count);
    for (uint32_t i = 0; i < output_count; i++) {
        outputs[i] = (tn_array){.bytes = tn_graph_tensor(self->loaded, block->outputs[i])->bytes};
        outputs[i].data = malloc((size_t)outputs[i].bytes + 1);
        if (outputs[i].data == NULL) abort();
    }
    return TN_OK;
}

/* The engine can run again: the second run must give the same bytes. */
static tn_status node_again(node *self, const tn_array *inputs, uint32_t input_count,
                            tn_array *outputs, uint32_t output_count) {
    tn_status status = TN_OK;
    tn_array again[NODE_OUTPUTS_MAX] = {0};
    TN_TRY_DONE(node_outputs(self, again, output_count));
    TN_TRY_DONE(tn_engine_run(self->engine, inputs, input_count, again, output_count, self->error));
    for (uint32_t i = 0; i < output_count; i++)
        if (again[i].bytes != outputs[i].bytes ||
            memcmp(again[i].data, outputs[i].data, (size_t)again[i].bytes) != 0) {
            status =
                tn__fail(self->error, TN_E_INTERNAL, "a second run gives another output %u", i);
            break;
        }
done:
    for (uint32_t i = 0; i < output_count; i++) free(again[i].data);
    return status;
}

static tn_status node_measure(node *self) {
    tn_engine_usage usage;
    tn_engine_measure(self->engine, &usage);
    if (usage.measured_peak <= usage.planned_peak) return TN_OK;
    return tn__fail(self->error, TN_E_INTERNAL, "the run reached byte %llu, the plan only %llu",
                    (unsigned long long)usage.measured_peak,
                    (unsigned long long)usage.planned_peak);
}

tn_status node_run(const char *path, const node_options *options, const tn_array *given,
                   const char *const *names, uint32_t given_count, tn_array *outputs,
                   uint32_t output_count, tn_error *error) {
    node self = {.options = options, .error = error};
    tn_status status;
    tn_array inputs[NODE_INPUTS_MAX];
    uint32_t input_count = 0;
    memset(outputs, 0, output_count * sizeof *outputs);
    TN_TRY_DONE(node_load(&self, path, given, names, given_count));
    for (uint32_t i = 0; i < given_count; i++)
        if (!self.is_known[i]) inputs[input_count++] = given[i];
    TN_TRY_DONE(node_set_up(&self, path));
    TN_TRY_DONE(node_outputs(&self, outputs, output_count));
    TN_TRY_DONE(tn_engine_run(self.engine, inputs, input_count, outputs, output_count, error));
    TN_TRY_DONE(node_measure(&self));
    if (options->again) TN_TRY_DONE(node_again(&self, inputs, input_count, outputs, output_count));
done:
    tn_engine_destroy(self.engine);
    tn_setup_destroy(self.setup);
    tn_contents_close(self.contents);
    tn_graph_destroy(self.loaded);
    for (uint32_t i = 0; i < output_count && status != TN_OK; i++) {
        free(outputs[i].data);
        outputs[i] = (tn_array){0};
    }
    return status;
}
