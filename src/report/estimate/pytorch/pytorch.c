/* pytorch.c - builds a graph of the training step that eager PyTorch runs, so that the estimators
 * of Tenure can be used for it.
 *
 * In this graph only the summing of gradients works in place, and every tensor is released after
 * its last use. Tensors that an operator saves for its backward function are operands of the
 * backward operator. The live ranges therefore follow from the graph. Views are not operators: an
 * operator that reads a view reads the tensor that has the bytes. Gradients of parameters are
 * outputs, so they are live until the end.
 *
 *     x ──▶ Conv ──▶ Relu ──▶ ... loss           saved:  Conv: x, weights    Relu: its output
 *            ▲ x       ▲ y                                Add, Flatten: nothing
 *     gx ◀── ConvBackward ◀── ReluBackward ◀── g
 *
 * Cost: O(operands).
 *
 * Source: PyTorch 1.13, tools/autograd/derivatives.yaml, and its allocations as the profiler shows
 * them.
 */
#include "report/estimate/pytorch/pytorch.h"

#include <stdio.h>

/* --- adding --- */

tn_status tn__pytorch_emit(tn__pytorch *it, const char *name, const char *type,
                           const tn_tensor_id *inputs, uint32_t input_count,
                           const tn_tensor_id *outputs, uint32_t output_count, uint64_t workspace) {
    tn_op_id id;
    /* the rule of its type says whether the operator works in place or makes a view */
    bool aten = strchr(type, '.') != NULL;
    tn_op_spec spec = {.name = name,
                       .type = type,
                       .domain = aten ? "aten" : "pytorch",
                       .inputs = inputs,
                       .outputs = outputs,
                       .input_count = input_count,
                       .output_count = output_count};
    TN_TRY(tn_graph_add_op(it->graph, &spec, &id, it->error));
    if (!tn__reserve(&it->context, &it->workspaces, &it->workspace_room, (size_t)id + 1,
                     sizeof *it->workspaces))
        return tn__no_memory(it->error, "workspaces");
    it->workspaces[id] = workspace;
    return TN_OK;
}

tn_status tn__pytorch_new(tn__pytorch *it, const tn_tensor_spec *spec, tn_tensor_id *id) {
    TN_TRY(tn_graph_add_tensor(it->graph, spec, id, it->error));
    if (!tn__reserve(&it->context, &it->holders, &it->holder_room, (size_t)*id + 1,
                     sizeof *it->holders))
        return tn__no_memory(it->error, "gradients");
    it->holders[*id] = 0;
    return TN_OK;
}

tn_status tn__pytorch_like(tn__pytorch *it, tn_tensor_id like, tn_dtype dtype, tn_kind kind,
                           const char *prefix, tn_tensor_id *id) {
    const tn_tensor *tensor = tn__pytorch_tensor(it, like);
    char name[200];
    snprintf(name, sizeof name, "%s.%.150s", prefix, tensor->name);
    tn_tensor_spec spec = {.name = name,
                           .dtype = dtype,
                           .kind = kind,
                           .flags = TN_TENSOR_STATED,
                           .rank = tensor->rank,
                           .shape = tensor->shape};
    return tn__pytorch_new(it, &spec, id);
}

tn_status tn__pytorch_contiguous(tn__pytorch *it, tn_tensor_id like, tn_kind kind,
                                 pytorch_place *place) {
    tn_tensor_id copy;
    if (place->strides == NULL && !place->part) return TN_OK;
    TN_TRY(tn__pytorch_like(it, like, tn__pytorch_tensor(it, like)->dtype, kind, "copy", &copy));
    TN_TRY(tn__pytorch_emit(it, "contiguous", "Clone", &place->id, 1, &copy, 1, 0));
    *place = (pytorch_place){.id = copy};
    return TN_OK;
}

/* --- preparation --- */

static bool pytorch_is_float(tn_dtype dtype) {
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 ||
           dtype == TN_BFLOAT16;
}

static void pytorch_want(tn__pytorch *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (tn_tensor_id t = 0; t < it->tensors; t++) {
        const tn_tensor *tensor = tn__pytorch_tensor(it, t);
        it->wanted[t] = tensor->kind == TN_KIND_PARAMETER && tensor->producer == TN_NONE &&
                        pytorch_is_float(tensor->dtype) && tensor->rank > 0;
    }
    for (uint32_t i = 0; i < block->op_count; i++) {
        const tn_op *op = tn_graph_op(it->model, block->ops[i]);
        bool any = false;
        uint64_t statistics = tn__op_statistics(it->model, block->ops[i]);
        for (uint32_t k = 0; k < op->input_count; k++) {
            tn_tensor_id x = op->inputs[k];
            if (x == TN_NONE) continue;
            if (k < 64 && (statistics >> k & 1)) it->wanted[x] = false;
            any = any || it->wanted[x];
            it->readers[x]++;
        }
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE)
                it->wanted[op->outputs[k]] =
                    any && pytorch_is_float(tn__pytorch_tensor(it, op->outputs[k])->dtype);
    }
    for (uint32_t i = 0; i < block->output_count; i++) it->readers[block->outputs[i]]++;
}

/* Returns the Pad operator that exporters insert before an AveragePool with padding, or TN_NONE.
 * PyTorch pads within the pool. */
static tn_op_id pytorch_padding(const tn__pytorch *it, const tn_op *op) {
    if (!tn__op_is(op, "AveragePool") || op->input_count == 0 || op->inputs[0] == TN_NONE)
        return TN_NONE;
    tn_op_id pad = tn__pytorch_tensor(it, op->inputs[0])->producer;
    bool only = pad != TN_NONE && it->readers[op->inputs[0]] == 1;
    return only && tn__op_is(tn_graph_op(it->model, pad), "Pad") ? pad : TN_NONE;
}

/* Links the Slice operators of each tensor, the latest first. Also marks operators that PyTorch
 * computes within their reader: a factor that is part of an activation, and the padding of a
 * pool. */
static void pytorch_link(tn__pytorch *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (uint32_t i = 0; i < block->op_count; i++) {
        tn_op_id id = block->ops[i];
        const tn_op *op = tn_graph_op(it->model, id);
        tn_tensor_id gate = tn__pytorch_gate(it, op);
        if (gate != TN_NONE) it->fused[tn__pytorch_tensor(it, gate)->producer] = true;
        tn_op_id pad = pytorch_padding(it, op);
        if (pad != TN_NONE) it->fused[pad] = true;
        const pytorch_rule *rule = tn__pytorch_find(it, op);
        if (rule == NULL || rule->how != PYTORCH_SLICE) continue;
        it->slice_before[id] = it->slice_last[op->inputs[0]];
        it->slice_last[op->inputs[0]] = id;
        it->slices[op->inputs[0]]++;
    }
}

static tn_status pytorch_copy_tensors(tn__pytorch *it) {
    for (tn_tensor_id t = 0; t < it->tensors; t++) {
        const tn_tensor *tensor = tn__pytorch_tensor(it, t);
        tn_tensor_id made;
        bool leaf = tensor->producer == TN_NONE;
        bool folded = !leaf && !it->wanted[t] && tn_tensor_is_static(tensor);
        tn_tensor_spec spec = {.name = tensor->name,
                               .dtype = tensor->dtype,
                               .kind = folded ? TN_KIND_CONSTANT : tensor->kind,
                               .format = tensor->format,
                               .flags = leaf ? 0 : TN_TENSOR_STATED,
                               .rank = tensor->rank,
                               .shape = tensor->shape};
        if (leaf && tensor->value != NULL) spec.value = *tensor->value;
        if (tensor->kind == TN_KIND_PARAMETER && tn_dtype_bits(tensor->dtype) >= 16 && leaf)
            spec.flags |= TN_TENSOR_UPDATED;
        TN_TRY(tn__pytorch_new(it, &spec, &made));
        it->place[t].id = leaf || folded ? t : TN_NONE;
    }
    return TN_OK;
}

/* --- loss --- */

/* Adds the softmax cross-entropy of the model's first output, and its gradient. PyTorch saves the
 * log-probabilities for the gradient. */
static tn_status pytorch_loss(tn__pytorch *it) {
    tn_tensor_id scores = tn_graph_block(it->model, 0)->outputs[0], logs, gradient;
    const tn_tensor *tensor = tn__pytorch_tensor(it, scores);
    tn_tensor_spec scalar = {.name = "loss", .dtype = TN_FLOAT32, .flags = TN_TENSOR_STATED};
    TN_TRY(tn__pytorch_like(it, scores, tensor->dtype, TN_KIND_ACTIVATION, "logs", &logs));
    TN_TRY(tn__pytorch_new(it, &scalar, &it->loss));
    TN_TRY(tn__pytorch_gradient(it, scores, &gradient));
    tn_tensor_id made[] = {it->loss, logs}, kept[] = {logs, it->loss};
    TN_TRY(tn__pytorch_emit(it, "loss", "CrossEntropy", &it->place[scores].id, 1, made, 2, 0));
    TN_TRY(
        tn__pytorch_emit(it, "loss", "CrossEntropyBackward", kept, 2, &gradient, 1, tensor->bytes));
    return tn__pytorch_give(it, scores, (pytorch_place){.id = gradient});
}

/* --- update --- */

static tn_status pytorch_update(tn__pytorch *it, tn_tensor_id parameter) {
    static const char *const types[] = {"SgdStep", "MomentumStep", "AdamStep"};
    uint32_t states = it->options->state_count, count = 0, made = 0;
    tn_tensor_id inputs[6], outputs[3];
    tn_op_id id;
    inputs[count++] = parameter;
    tn_tensor_id gradient = it->given[parameter].id, seen;
    /* one operator computed the gradients of several parameters together */
    if (it->given[parameter].part) {
        TN_TRY(tn__pytorch_like(it, parameter, tn__pytorch_tensor(it, parameter)->dtype,
                                TN_KIND_GRADIENT, "part", &seen));
        TN_TRY(tn__pytorch_emit(it, "part", "view.default", &gradient, 1, &seen, 1, 0));
        gradient = seen;
    }
    inputs[count++] = gradient;
    for (uint32_t k = 0; k < states; k++) {
        TN_TRY(tn__pytorch_like(it, parameter, tn__pytorch_tensor(it, parameter)->dtype,
                                TN_KIND_OPTIMIZER_STATE, k == 0 ? "first" : "second",
                                &inputs[count]));
        count++;
    }
    inputs[count++] = it->rate;
    if (states == 2) inputs[count++] = it->step;
    for (uint32_t k = 0; k <= states; k++)
        TN_TRY(tn__pytorch_like(it, parameter, tn__pytorch_tensor(it, parameter)->dtype,
                                TN_KIND_ACTIVATION, "updated", &outputs[made++]));
    tn_op_spec spec = {.name = tn__pytorch_tensor(it, parameter)->name,
                       .type = types[states],
                       .domain = "tenure",
                       .inputs = inputs,
                       .outputs = outputs,
                       .input_count = count,
                       .output_count = made};
    uint64_t bytes = tn__pytorch_tensor(it, parameter)->bytes;
    TN_TRY(tn_graph_add_op(it->graph, &spec, &id, it->error));
    if (!tn__reserve(&it->context, &it->workspaces, &it->workspace_room, (size_t)id + 1,
                     sizeof *it->workspaces))
        return tn__no_memory(it->error, "workspaces");
    it->workspaces[id] = tn__mul_sat(bytes, it->options->scratch_count);
    /* the scratch of the previous update is released only now */
    if (it->options->scratch_count > 0) {
        it->workspaces[id] = tn__add_sat(it->workspaces[id], it->scratch_before);
        it->scratch_before = bytes;
    }
    return TN_OK;
}

static tn_status pytorch_finish(tn__pytorch *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    size_t room = 2 * (size_t)it->tensors + 4, inputs = 0, outputs;
    tn_tensor_id *list = tn__arena_array(&it->arena, 2 * room, sizeof *list);
    tn_tensor_spec rate = {.name = "learning_rate", .dtype = TN_FLOAT32};
    tn_tensor_spec step = {.name = "step", .dtype = TN_INT64};
    if (list == NULL) return tn__no_memory(it->error, "outputs");
    TN_TRY(tn__pytorch_new(it, &rate, &it->rate));
    TN_TRY(tn__pytorch_new(it, &step, &it->step));
    for (uint32_t i = 0; i < block->input_count; i++)
        if (!tn_tensor_is_static(tn__pytorch_tensor(it, block->inputs[i])))
            list[inputs++] = block->inputs[i];
    size_t data = inputs; /* the caller keeps the inputs, so they are also outputs of the graph */
    list[inputs++] = it->rate;
    list[inputs++] = it->step;
    outputs = inputs;
    for (size_t i = 0; i < data; i++) list[outputs++] = list[i];
    for (uint32_t i = 0; i < block->output_count; i++)
        if (it->place[block->outputs[i]].id != TN_NONE)
            list[outputs++] = it->place[block->outputs[i]].id;
    list[outputs++] = it->loss;
    for (tn_tensor_id t = 0; t < it->tensors; t++) {
        if (tn__pytorch_tensor(it, t)->producer != TN_NONE || it->given[t].id == TN_NONE ||
            !it->wanted[t])
            continue;
        list[outputs++] = it->given[t].id;
        TN_TRY(pytorch_update(it, t));
    }
    TN_TRY(tn_graph_set_block_io(it->graph, 0, list, (uint32_t)inputs, list + inputs,
                                 (uint32_t)(outputs - inputs), it->error));
    return tn_graph_infer(it->graph, it->error);
}

/* --- the training step as a whole --- */

static tn_status pytorch_room(tn__pytorch *it) {
    size_t tensors = (size_t)it->tensors + 1, ops = (size_t)it->ops + 1;
    it->wanted = tn__arena_array(&it->arena, tensors, sizeof *it->wanted);
    it->readers = tn__arena_array(&it->arena, tensors, sizeof *it->readers);
    it->place = tn__arena_array(&it->arena, tensors, sizeof *it->place);
    it->given = tn__arena_array(&it->arena, tensors, sizeof *it->given);
    it->slices = tn__arena_array(&it->arena, tensors, sizeof *it->slices);
    it->slice_last = tn__arena_array(&it->arena, tensors, sizeof *it->slice_last);
    it->slice_before = tn__arena_array(&it->arena, ops, sizeof *it->slice_before);
    it->extra = tn__arena_array(&it->arena, ops, sizeof *it->extra);
    it->operands = tn__arena_array(&it->arena, 2 * ops, sizeof *it->operands);
    it->fused = tn__arena_array(&it->arena, ops, sizeof *it->fused);
    if (it->wanted == NULL || it->readers == NULL || it->place == NULL || it->given == NULL ||
        it->slices == NULL || it->slice_last == NULL || it->slice_before == NULL ||
        it->extra == NULL || it->operands == NULL || it->fused == NULL)
        return tn__no_memory(it->error, "gradients");
    for (tn_tensor_id t = 0; t < it->tensors; t++) {
        it->given[t].id = it->place[t].id = TN_NONE;
        it->slice_last[t] = TN_NONE;
    }
    for (tn_op_id i = 0; i < it->ops; i++) it->extra[i] = it->slice_before[i] = TN_NONE;
    return TN_OK;
}

static tn_status pytorch_make(tn__pytorch *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    if (tn_graph_block_count(it->model) > 1)
        TN_FAIL(it->error, TN_E_UNSUPPORTED, "a model with If, Loop or Scan is not followed");
    if (block->output_count == 0) TN_FAIL(it->error, TN_E_INVALID, "the model has no output");
    TN_TRY(pytorch_room(it));
    pytorch_want(it);
    if (!it->wanted[block->outputs[0]])
        TN_FAIL(it->error, TN_E_INVALID, "the first output depends on no parameter");
    pytorch_link(it);
    TN_TRY(tn_graph_create(&it->context, &it->graph, it->error));
    TN_TRY(pytorch_copy_tensors(it));
    for (uint32_t i = 0; i < block->op_count; i++) TN_TRY(tn__pytorch_forward(it, block->ops[i]));
    TN_TRY(pytorch_loss(it));
    for (uint32_t i = block->op_count; i-- > 0;) TN_TRY(tn__pytorch_backward(it, block->ops[i]));
    return pytorch_finish(it);
}

tn_status tn_pytorch_make(const tn_graph *graph, const tn_pytorch_options *options,
                          tn_pytorch *made, tn_error *error) {
    tn_pytorch_options asked = TN_PYTORCH_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn__pytorch it = {.context = *tn_graph_context(graph),
                      .model = graph,
                      .options = &asked,
                      .error = error,
                      .tensors = tn_graph_tensor_count(graph),
                      .ops = tn_graph_op_count(graph)};
    if (asked.state_count > 2) TN_FAIL(error, TN_E_INVALID, "an optimizer keeps 0 to 2 tensors");
    tn__arena_init(&it.arena, &it.context);
    tn_status status = pytorch_make(&it);
    tn__arena_release(&it.arena);
    tn__free(&it.context, it.holders, it.holder_room * sizeof *it.holders);
    if (status == TN_OK) {
        *made = (tn_pytorch){
            .graph = it.graph, .workspaces = it.workspaces, .workspace_room = it.workspace_room};
        return TN_OK;
    }
    tn__free(&it.context, it.workspaces, it.workspace_room * sizeof *it.workspaces);
    tn_graph_destroy(it.graph);
    return status;
}

void tn_pytorch_release(tn_pytorch *made) {
    if (made == NULL || made->graph == NULL) return;
    tn_context context = *tn_graph_context(made->graph);
    tn__free(&context, made->workspaces, made->workspace_room * sizeof *made->workspaces);
    tn_graph_destroy(made->graph);
    *made = (tn_pytorch){0};
}
