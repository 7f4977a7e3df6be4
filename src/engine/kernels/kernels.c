/* kernels.c - finds the kernel of each operator of a graph, once, before planning.
 *
 * Operators that are computed during a run get a kernel, and so do folded operators if their
 * results are not known as small values in the graph. Operators in blocks that never run get no
 * kernel. Operators with blocks (If, Loop, Scan) get no kernel either, because the engine runs
 * them.
 * Cost: one request to the cache of kernels (cache.c) for each operator.
 */
#include "engine/kernels/kernels.h"

#include "engine/kernels/dnnl.h"

/* Whether no kernel is needed for an operator: it only writes its outputs, and each of them is
 * unused, known as a value, or a view of a static tensor. */
static bool kernels_needless(const tn_graph *graph, const tn_op *op, tn_op_id id) {
    if (tn_op_changes(graph, id) != 0 || tn_op_is_ordered(graph, id)) return false;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        const tn_tensor *tensor = tn_graph_tensor(graph, op->outputs[k]);
        if (!tn_tensor_is_static(tensor)) return false;
        if (tensor->value == NULL && tn_op_view(graph, id, k).source == TN_NONE) return false;
    }
    return true;
}

static tn_status kernels_find(tn_kernels *kernels, const uint64_t *scratch, tn_error *error) {
    const tn_graph *graph = kernels->graph;
    for (tn_block_id b = 0; b < tn_graph_block_count(graph); b++) {
        const tn_block *block = tn_graph_block(graph, b);
        if (block->dead) continue;
        for (uint32_t i = 0; i < block->op_count; i++) {
            tn_op_id id = block->ops[i];
            const tn_op *op = tn_graph_op(graph, id);
            if (tn__op_has_blocks(op) || kernels_needless(graph, op, id)) continue;
            TN_TRY(tn__kernel_cache_within(kernels->cache, graph, id,
                                           scratch != NULL ? scratch[id] : UINT64_MAX,
                                           &kernels->of[id], error));
            kernels->workspaces[id] = kernels->of[id]->workspace;
        }
    }
    return TN_OK;
}

/* Finds kernels for operators that are recomputed with another operator type. Call it after
 * kernels_find. */
static tn_status kernels_find_again(tn_kernels *kernels, tn_error *error) {
    const tn__repeats *again = &kernels->again;
    TN_TRY(tn__repeats_make(&kernels->context, kernels->graph, &kernels->again, error));
    for (tn_op_id id = 0; id < kernels->count; id++) {
        tn_op_id as = tn__repeats_of(again, id);
        kernels->workspaces_again[id] = kernels->workspaces[id];
        if (as == TN_NONE || kernels->of[id] == NULL) continue;
        TN_TRY(
            tn__kernel_cache_find(kernels->cache, again->graph, as, &kernels->again_of[id], error));
        kernels->workspaces_again[id] = kernels->again_of[id]->workspace;
    }
    return TN_OK;
}

static tn_status kernels_make(tn_kernels *kernels, const tn_kernels_options *options,
                              tn_error *error) {
    tn__arena *arena = &kernels->arena;
    size_t count = kernels->count;
    tn__arena_init(arena, &kernels->context);
    if (!(kernels->of = tn__arena_array(arena, count, sizeof *kernels->of)) ||
        !(kernels->workspaces = tn__arena_array(arena, count, sizeof *kernels->workspaces)) ||
        !(kernels->again_of = tn__arena_array(arena, count, sizeof *kernels->again_of)) ||
        !(kernels->workspaces_again =
              tn__arena_array(arena, count, sizeof *kernels->workspaces_again)))
        return tn__no_memory(error, "kernels");
    if (options->with != NULL) {
        kernels->cache = options->with->cache;
        tn__kernel_cache_hold(kernels->cache);
    } else {
        TN_TRY(tn__kernel_cache_create(&kernels->context, options->threads, options->plain,
                                       &kernels->cache, error));
    }
    TN_TRY(kernels_find(kernels, options->scratch, error));
    return kernels_find_again(kernels, error);
}

tn_status tn_kernels_create(const tn_graph *graph, const tn_kernels_options *options,
                            tn_kernels **kernels, tn_error *error) {
    tn_kernels_options asked = TN_KERNELS_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context = tn__context(asked.context);
    tn_kernels *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "kernels");
    made->context = context;
    made->graph = graph;
    made->count = tn_graph_op_count(graph);
    tn_status status = kernels_make(made, &asked, error);
    if (status == TN_OK)
        *kernels = made;
    else
        tn_kernels_destroy(made);
    return status;
}

void tn_kernels_destroy(tn_kernels *kernels) {
    if (kernels == NULL) return;
    tn_context context = kernels->context;
    tn__kernel_cache_release(kernels->cache);
    tn__repeats_release(&kernels->again);
    tn__arena_release(&kernels->arena);
    tn__free(&context, kernels, sizeof *kernels);
}

const uint64_t *tn_kernels_workspaces(const tn_kernels *kernels) { return kernels->workspaces; }

const uint64_t *tn_kernels_workspaces_again(const tn_kernels *kernels) {
    return kernels->workspaces_again;
}

const char *tn_kernels_name(const tn_kernels *kernels, tn_op_id op) {
    const tn__prepared *prepared = op < kernels->count ? kernels->of[op] : NULL;
    return prepared == NULL ? "" : tn__kernel_family(prepared->kernel)->name;
}

const char *tn_kernels_detail(const tn_kernels *kernels, tn_op_id op) {
    const tn__prepared *prepared = op < kernels->count ? kernels->of[op] : NULL;
    return prepared == NULL || prepared->detail == NULL ? "" : prepared->detail;
}

uint32_t tn_kernels_way(const tn_kernels *kernels, tn_op_id op) {
    const tn__prepared *prepared = op < kernels->count ? kernels->of[op] : NULL;
    return prepared == NULL ? 0 : prepared->way;
}

const char *tn_kernels_isa(const tn_kernels *kernels) {
    return tn__kernel_cache_isa(kernels->cache);
}

bool tn_kernels_library(char text[TN_LIBRARY_TEXT_MAX], tn_error *error) {
    tn__dnnl *library;
    tn_context context = tn__context(NULL);
    if (tn__dnnl_open(&context, 1, &library, error) != TN_OK) return false;
    if (text != NULL) tn__dnnl_tell(library, text, TN_LIBRARY_TEXT_MAX);
    tn__dnnl_close(library);
    return true;
}
