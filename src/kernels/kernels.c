/* kernels.c - who runs each operator: chosen and prepared once, before planning.
 *
 * Chosen are kernels for all that has to run: operators of blocks that are not dead and have an
 * output, and folded ones whose contents are not known as small values. A kernel that declines
 * while it prepares (E_UNSUPPORTED) is passed over for the next. Operators with blocks have none:
 * the engine runs them. Cost: O(operators x kernels), and what the kernels' `prepare` takes.
 */
#include "kernels/kernels.h"

#include "kernels/dnnl.h"

#include <stdio.h>

/* Nobody wants its outputs, or they are all known without computing: values, or views of what is
 * static. */
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

static bool kernels_is_sequence(const tn_graph *graph, const tn_tensor_id *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] != TN_NONE &&
            ((tn_graph_tensor(graph, ids[i])->flags & TN_TENSOR_SEQUENCE) != 0 ||
             tn_graph_tensor(graph, ids[i])->dtype == TN_STRING))
            return true;
    return false;
}

static tn_status kernels_none(const tn_graph *graph, const tn_op *op, tn_error *error) {
    char types[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < op->input_count && used + 24 < sizeof types; i++) {
        tn_tensor_id id = op->inputs[i];
        const char *name = id == TN_NONE ? "-" : tn_dtype_name(tn_graph_tensor(graph, id)->dtype);
        used += (size_t)snprintf(types + used, sizeof types - used, "%s%s", i ? ", " : "", name);
    }
    tn__fail(error, TN_E_UNSUPPORTED,
             "no kernel runs %s%s%s(%s); the model can be planned all the same", op->domain,
             op->domain[0] ? "." : "", op->type, types);
    return tn__where(error, TN_E_UNSUPPORTED, "node '%.60s' (%.30s)", op->name, op->type);
}

static tn_status kernels_prepare(tn_kernels *kernels, tn_kernel_setup *setup,
                                 tn__prepared *choice) {
    uint64_t packed[64] = {0};
    uint32_t count = setup->op->input_count;
    setup->packed = count <= 64 ? packed : NULL;
    tn_status status = choice->kernel->prepare(setup);
    setup->packed = NULL;
    if (status != TN_OK) return status;
    choice->state = setup->state;
    choice->detail = setup->detail;
    choice->workspace = setup->workspace;
    bool any = false;
    for (uint32_t i = 0; i < count && i < 64; i++) any = any || packed[i] > 0;
    if (!any) return TN_OK;
    uint64_t *kept = tn__arena_copy(&kernels->arena, packed, count * sizeof *packed);
    choice->packed = kept;
    if (kept != NULL) return TN_OK;
    if (choice->kernel->release != NULL) choice->kernel->release(&kernels->context, choice->state);
    choice->state = NULL;
    return tn__no_memory(setup->error, "packed weights");
}

static void kernels_setup_of(const tn_kernels *kernels, tn_op_id id, tn_kernel_setup *setup,
                             tn_error *error) {
    const tn_op *op = tn_graph_op(kernels->graph, id);
    *setup = (tn_kernel_setup){.graph = kernels->graph,
                               .op = op,
                               .id = id,
                               .version = op->version ? op->version : UINT32_MAX,
                               .context = &kernels->context,
                               .threads = kernels->threads,
                               .library = kernels->library,
                               .error = error,
                               .state = kernels->choices[id].state};
}

static tn_status kernels_choose(tn_kernels *kernels, tn_op_id id, tn_error *error) {
    const tn_op *op = tn_graph_op(kernels->graph, id);
    tn__prepared *choice = &kernels->choices[id];
    tn_kernel_setup setup;
    kernels_setup_of(kernels, id, &setup, error);
    if (kernels_is_sequence(kernels->graph, op->inputs, op->input_count) ||
        kernels_is_sequence(kernels->graph, op->outputs, op->output_count))
        return kernels_none(kernels->graph, op, error);
    for (const tn_kernel *kernel = NULL;;) {
        kernel = tn__kernel_find(&setup, kernels->library != NULL, kernel);
        if (kernel == NULL) return kernels_none(kernels->graph, op, error);
        choice->kernel = kernel;
        tn_status status = TN_OK;
        if (kernel->prepare != NULL)
            status = kernels_prepare(kernels, &setup, choice);
        else if (kernel->workspace != NULL)
            choice->workspace = kernel->workspace(&setup);
        if (status == TN_OK) break;
        choice->kernel = NULL;
        if (status != TN_E_UNSUPPORTED) return status;
    }
    kernels->workspaces[id] = choice->workspace;
    return TN_OK;
}

static tn_status kernels_choose_all(tn_kernels *kernels, tn_error *error) {
    for (tn_block_id b = 0; b < tn_graph_block_count(kernels->graph); b++) {
        const tn_block *block = tn_graph_block(kernels->graph, b);
        if (block->dead) continue;
        for (uint32_t i = 0; i < block->op_count; i++) {
            const tn_op *op = tn_graph_op(kernels->graph, block->ops[i]);
            if (tn__op_has_blocks(op) || kernels_needless(kernels->graph, op, block->ops[i]))
                continue;
            TN_TRY(kernels_choose(kernels, block->ops[i], error));
        }
    }
    return TN_OK;
}

tn_status tn_kernels_create(const tn_graph *graph, const tn_kernels_options *options,
                            tn_kernels **kernels, tn_error *error) {
    tn_kernels_options asked = TN_KERNELS_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context = tn__context(asked.context);
    size_t count = tn_graph_op_count(graph);
    tn_kernels *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "kernels");
    made->context = context;
    made->graph = graph;
    made->count = count;
    made->threads = asked.threads > 0 ? asked.threads : 1;
    tn__arena_init(&made->arena, &made->context);
    made->choices = tn__alloc_array(&context, count, sizeof *made->choices);
    made->workspaces = tn__alloc_array(&context, count, sizeof *made->workspaces);
    tn_status status = TN_OK;
    if (made->choices == NULL || made->workspaces == NULL) status = tn__no_memory(error, "kernels");
    if (status == TN_OK && !asked.plain) {
        status = tn__dnnl_open(&made->context, made->threads, &made->library, error);
        if (status == TN_E_UNSUPPORTED) status = TN_OK; /* our own loops, then */
    }
    if (status == TN_OK) status = kernels_choose_all(made, error);
    if (status != TN_OK) {
        tn_kernels_destroy(made);
        return status;
    }
    *kernels = made;
    return TN_OK;
}

void tn_kernels_destroy(tn_kernels *kernels) {
    if (kernels == NULL) return;
    tn_context context = kernels->context;
    for (size_t i = 0; i < kernels->count && kernels->choices != NULL; i++) {
        tn__prepared *choice = &kernels->choices[i];
        if (choice->kernel != NULL && choice->kernel->release != NULL && choice->state != NULL)
            choice->kernel->release(&kernels->context, choice->state);
    }
    tn__free(&context, kernels->choices, kernels->count * sizeof *kernels->choices);
    tn__free(&context, kernels->workspaces, kernels->count * sizeof *kernels->workspaces);
    tn__arena_release(&kernels->arena);
    tn__dnnl_close(kernels->library);
    tn__free(&context, kernels, sizeof *kernels);
}

const tn__prepared *tn__kernels_of(const tn_kernels *kernels, tn_op_id id) {
    const tn__prepared *choice = &kernels->choices[id];
    return choice->kernel != NULL ? choice : NULL;
}

tn_status tn__kernels_pack(const tn_kernels *kernels, tn_op_id id, uint32_t input,
                           const void *plain, void *packed, tn_error *error) {
    tn_kernel_setup setup;
    kernels_setup_of(kernels, id, &setup, error);
    return kernels->choices[id].kernel->pack(&setup, input, plain, packed);
}

const uint64_t *tn_kernels_workspaces(const tn_kernels *kernels) { return kernels->workspaces; }

const char *tn_kernels_name(const tn_kernels *kernels, tn_op_id op) {
    const tn_kernel *kernel = op < kernels->count ? kernels->choices[op].kernel : NULL;
    return kernel == NULL ? "" : tn__kernel_family(kernel)->name;
}

const char *tn_kernels_detail(const tn_kernels *kernels, tn_op_id op) {
    const char *detail = op < kernels->count ? kernels->choices[op].detail : NULL;
    return detail == NULL ? "" : detail;
}

bool tn_kernels_library(tn_error *error) {
    tn__dnnl *library;
    tn_context context = tn__context(NULL);
    if (tn__dnnl_open(&context, 1, &library, error) != TN_OK) return false;
    tn__dnnl_close(library);
    return true;
}
