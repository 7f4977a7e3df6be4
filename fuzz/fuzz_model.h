/* fuzz_model.h - what fuzzers of model formats share: any bytes as a model.
 *
 * What must hold beside the sanitizers: a graph or an error with a place and a message, never both;
 * nothing stays allocated; and no more memory than the file and the format's allowance explain.
 */
#ifndef FUZZ_MODEL_H
#define FUZZ_MODEL_H

#include <stdlib.h>

#include <tenure/graph.h>
#include <tenure/program.h>

#include "fuzz.h"
#include "base/base.h"
#include "io/import/importer.h"

#define FUZZ_MEMORY_FACTOR 4096u
#define FUZZ_MEMORY_LEAST ((size_t)256 << 20)

typedef struct fuzz_memory {
    size_t held, most;
} fuzz_memory;

static inline void *fuzz_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                                size_t alignment) {
    fuzz_memory *memory = self;
    (void)alignment;
    memory->held += new_size - old_size;
    if (memory->held > memory->most) memory->most = memory->held;
    if (new_size) return realloc(pointer, new_size);
    free(pointer);
    return NULL;
}

/* Every reading function, on everything. */
static inline void fuzz_read(const tn_graph *graph) {
    uint64_t sum = 0;
    for (tn_tensor_id i = 0; i < tn_graph_tensor_count(graph); i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, i);
        sum += tensor->bytes + strlen(tensor->name);
        for (uint32_t j = 0; tensor->rank != TN_RANK_UNKNOWN && j < tensor->rank; j++)
            sum += (uint64_t)tensor->shape[j];
        fuzz_must(tensor->producer == TN_NONE || tensor->producer < tn_graph_op_count(graph));
    }
    for (tn_op_id i = 0; i < tn_graph_op_count(graph); i++) {
        const tn_op *op = tn_graph_op(graph, i);
        sum += tn_op_cost(graph, i).flops + tn_op_workspace(graph, i) + strlen(op->name);
        for (uint32_t j = 0; j < op->output_count; j++) {
            if (op->outputs[j] == TN_NONE) continue;
            sum += tn_op_view(graph, i, j).offset + tn_op_inplace(graph, i, j);
        }
    }
    volatile uint64_t sink = sum; /* so that the reading is not left out */
    (void)sink;
}

#define FUZZ_CONTENTS_MAX 4096u /* bytes of a tensor that is read: shapes may claim any */

typedef struct fuzz_file {
    const char *name;
    const uint8_t *data;
    size_t size;
} fuzz_file;

/* Contents of small tensors, from this file or made up: an answer or an error, within the array. */
static inline void fuzz_contents(void *self, const tn_graph *graph) {
    const fuzz_file *file = self;
    const tn_context *context = tn_graph_context(graph);
    tn_contents *real, *made_up;
    if (tn__contents_memory(file->name, (tn__span){file->data, file->size}, context, &real, NULL))
        return;
    fuzz_accept();
    fuzz_must(tn_contents_generate(NULL, graph, 1, context, &made_up, NULL) == TN_OK);
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        tn_error error = {0};
        if (tensor->payload.size == 0 || tensor->bytes > FUZZ_CONTENTS_MAX) continue;
        uint8_t *bytes = malloc(tensor->bytes + 1);
        fuzz_must(bytes != NULL);
        bytes[tensor->bytes] = 0xa5;
        tn_status status = tn_contents_read(real, graph, id, bytes, tensor->bytes, &error);
        fuzz_must(status == TN_OK || (error.message[0] != 0 && error.where[0] != 0));
        status = tn_contents_read(made_up, graph, id, bytes, tensor->bytes, &error);
        fuzz_must(status == TN_OK || status == TN_E_UNSUPPORTED);
        fuzz_must(bytes[tensor->bytes] == 0xa5);
        free(bytes);
    }
    tn_contents_close(real);
    tn_contents_close(made_up);
}

/* Loads and reads; `visit` (may be NULL) gets a graph that loaded. options->context is set here. */
static inline void fuzz_load(const char *name, const uint8_t *data, size_t size,
                             tn_import_options options,
                             void (*visit)(void *self, const tn_graph *graph), void *self) {
    fuzz_memory memory = {0};
    tn_context context = TN_CONTEXT_INIT;
    context.allocator = (tn_allocator){fuzz_resize, &memory};
    options.context = &context;
    tn_graph *graph = NULL;
    tn_error error = {0};
    tn_status status = tn_graph_load_memory(name, data, size, &options, &graph, &error);
    fuzz_must((status == TN_OK) == (graph != NULL));
    fuzz_must(status != TN_E_INTERNAL);
    if (graph) {
        fuzz_read(graph);
        if (visit) visit(self, graph);
    } else {
        fuzz_must(error.status == status && error.message[0] && error.where[0]);
    }
    tn_graph_destroy(graph);
    fuzz_must(memory.held == 0);
    fuzz_must(memory.most <= FUZZ_MEMORY_LEAST + FUZZ_MEMORY_FACTOR * size);
}

#endif
