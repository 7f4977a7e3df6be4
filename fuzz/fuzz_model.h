/* fuzz_model.h - what fuzzers of model formats share: any bytes as a model.
 *
 * What must hold beside the sanitizers: a graph or an error with a place and a message, never both;
 * nothing stays allocated; and no more memory than the file and the format's allowance explain.
 */
#ifndef FUZZ_MODEL_H
#define FUZZ_MODEL_H

#include <stdlib.h>

#include <tenure/import.h>

#include "base/base.h"

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

static inline void fuzz_check(bool fine) {
    if (!fine) abort();
}

/* Every reading function, on everything. */
static inline void fuzz_read(const tn_graph *graph) {
    uint64_t sum = 0;
    for (tn_tensor_id i = 0; i < tn_graph_tensor_count(graph); i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, i);
        sum += tensor->bytes + strlen(tensor->name);
        for (uint32_t j = 0; tensor->rank != TN_RANK_UNKNOWN && j < tensor->rank; j++)
            sum += (uint64_t)tensor->shape[j];
        fuzz_check(tensor->producer == TN_NONE || tensor->producer < tn_graph_op_count(graph));
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

/* Loads and reads; `visit` (may be NULL) gets a graph that loaded. options->context is set here. */
static inline void fuzz_load(const char *name, const uint8_t *data, size_t size,
                             tn_import_options options, void (*visit)(const tn_graph *graph)) {
    fuzz_memory memory = {0};
    tn_context context = TN_CONTEXT_INIT;
    context.allocator = (tn_allocator){fuzz_resize, &memory};
    options.context = &context;
    tn_graph *graph = NULL;
    tn_error error = {0};
    tn_status status = tn_graph_load_memory(name, data, size, &options, &graph, &error);
    fuzz_check((status == TN_OK) == (graph != NULL));
    fuzz_check(status != TN_E_INTERNAL);
    if (graph) {
        fuzz_read(graph);
        if (visit) visit(graph);
    } else {
        fuzz_check(error.status == status && error.message[0] && error.where[0]);
    }
    tn_graph_destroy(graph);
    fuzz_check(memory.held == 0);
    fuzz_check(memory.most <= FUZZ_MEMORY_LEAST + FUZZ_MEMORY_FACTOR * size);
}

#endif
