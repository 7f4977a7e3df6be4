/* again.c - kernels for operators that run again by another type.
 *
 * Such an operator is none of the graph: it stands only in programs. So that a kernel can be chosen
 * for it as for any other, it is put into a graph of its own, on tensors like those of the first.
 * None of these is static there: what another kernel wants packed this one would find nowhere.
 * Cost: O(operators), and for those that it is about what cache.c takes.
 */
#include "kernels/kernels.h"

static tn_status again_tensor(tn_graph *graph, const tn_tensor *like, bool input, tn_tensor_id *id,
                              tn_error *error) {
    const tn_tensor_spec spec = {.name = like->name,
                                 .dtype = like->dtype,
                                 .kind = input ? TN_KIND_INPUT : TN_KIND_ACTIVATION,
                                 .format = like->format,
                                 .flags = like->flags & TN_TENSOR_BOUND,
                                 .rank = like->rank,
                                 .shape = like->shape};
    return tn_graph_add_tensor(graph, &spec, id, error);
}

/* The operator as it runs again. A tensor that it reads twice is one there, too. */
static tn_status again_add(tn_kernels *kernels, tn_op_id id, const tn_op_form *form,
                           tn_error *error) {
    tn_tensor_id *inputs = tn__arena_array(&kernels->arena, form->input_count, sizeof *inputs);
    tn_tensor_id output;
    if (inputs == NULL) return tn__no_memory(error, "kernels");
    for (uint32_t i = 0; i < form->input_count; i++) {
        tn_tensor_id given = tn_op_form_input(form, i);
        uint32_t first = 0;
        while (tn_op_form_input(form, first) != given) first++;
        inputs[i] = first < i ? inputs[first] : TN_NONE;
        if (given != TN_NONE && first == i)
            TN_TRY(again_tensor(kernels->again, tn_graph_tensor(kernels->graph, given), true,
                                &inputs[i], error));
    }
    const tn_tensor *like = tn_graph_tensor(kernels->graph, form->op->outputs[0]);
    TN_TRY(again_tensor(kernels->again, like, false, &output, error));
    const tn_op_spec spec = {.name = form->op->name,
                             .type = form->type,
                             .domain = form->op->domain,
                             .version = form->op->version,
                             .inputs = inputs,
                             .outputs = &output,
                             .attrs = form->op->attrs,
                             .input_count = form->input_count,
                             .output_count = 1,
                             .attr_count = form->op->attr_count};
    return tn_graph_add_op(kernels->again, &spec, &kernels->again_as[id], error);
}

static tn_status again_collect(tn_kernels *kernels, tn_error *error) {
    for (tn_op_id id = 0; id < kernels->count; id++) {
        kernels->again_as[id] = TN_NONE;
        if (kernels->of[id] == NULL) continue;
        tn_op_form form = tn_op_form_of(kernels->graph, id, true);
        if (form.type == NULL || form.type == form.op->type) continue;
        if (kernels->again == NULL)
            TN_TRY(tn_graph_create(&kernels->context, &kernels->again, error));
        TN_TRY(again_add(kernels, id, &form, error));
    }
    return kernels->again != NULL ? tn_graph_infer(kernels->again, error) : TN_OK;
}

tn_status tn__kernels_again(tn_kernels *kernels, tn_error *error) {
    tn__arena *arena = &kernels->arena;
    size_t count = kernels->count;
    if (!(kernels->again_as = tn__arena_array(arena, count, sizeof *kernels->again_as)) ||
        !(kernels->again_of = tn__arena_array(arena, count, sizeof *kernels->again_of)) ||
        !(kernels->workspaces_again =
              tn__arena_array(arena, count, sizeof *kernels->workspaces_again)))
        return tn__no_memory(error, "kernels");
    TN_TRY(again_collect(kernels, error));
    for (tn_op_id id = 0; id < count; id++) {
        kernels->workspaces_again[id] = kernels->workspaces[id];
        if (kernels->again_as[id] == TN_NONE) continue;
        TN_TRY(tn__kernel_cache_find(kernels->cache, kernels->again, kernels->again_as[id],
                                     &kernels->again_of[id], error));
        kernels->workspaces_again[id] = kernels->again_of[id]->workspace;
    }
    return TN_OK;
}
