/* fill.c - fills static memory: reads weights, folds constants, makes packed forms.
 *
 * A tensor that a kernel wants in its own form is staged on the host while it is packed. So are
 * tensors that only folded operators read; these are released after their last reader.
 * Source: statics.h.
 * Cost: reading and computing.
 */
#include "engine/statics.h"
#include "graph/element.h"

#define FILL_ALIGNMENT 64u /* alignment that kernels may assume for scratch */

typedef struct fill_job {
    tn__statics *statics;
    tn__executor *executor;
    const tn__contents_source *source;
    uint8_t *memory;
} fill_job;

/* Address of the tensor's block while it is filled. */
static uint8_t *fill_at(const fill_job *job, tn_tensor_id id, uint64_t offset) {
    const uint8_t *fetched = job->statics->fetched;
    return (fetched != NULL && fetched[id] ? job->statics->store : job->memory) + offset;
}

/* Data that its file holds need not be in memory as well. */
static void fill_leave(const fill_job *job, tn_tensor_id id, uint64_t offset, uint64_t bytes) {
    if (job->statics->fetched == NULL || !job->statics->fetched[id]) return;
    if (job->statics->stored != NULL) job->statics->stored(fill_at(job, id, offset), bytes);
}

static tn_status fill_read(const fill_job *job, tn_tensor_id id, void *bytes) {
    const tn_tensor *tensor = tn_graph_tensor(job->statics->graph, id);
    tn_error *error = job->executor->error;
    if (tensor->bytes == 0) return TN_OK;
    bool held = tensor->kind == TN_KIND_OPTIMIZER_STATE || tensor->kind == TN_KIND_GRADIENT;
    if (held && tensor->value == NULL) {
        memset(bytes, 0, tensor->bytes); /* optimizer state begins at zero */
        return TN_OK;
    }
    /* The graph may know data that no file holds: the constants of a training step. */
    if (tensor->payload.size == 0 && tn__tensor_fill(tensor, bytes, tensor->bytes)) return TN_OK;
    if (job->source->read == NULL)
        TN_FAIL(error, TN_E_INVALID, "no operator reads the contents of '%.80s'", tensor->name);
    return job->source->read(job->source->self, job->statics->graph, id, bytes, tensor->bytes,
                             error);
}

static void fill_tell(const fill_job *job, tn_tensor_id id, uint64_t bytes) {
    if (job->source->told != NULL) job->source->told(job->source->listener, id, bytes);
}

/* Takes bytes for a base: in static memory if the tensor is kept, else staged. `read` for leaves.
 */
static tn_status fill_open(const fill_job *job, tn_tensor_id base, bool read) {
    tn__static *it = &job->statics->tensors[base];
    const tn_tensor *tensor = tn_graph_tensor(job->statics->graph, base);
    if (it->offset != TN_SIZE_UNKNOWN) {
        job->executor->operands[base].data = fill_at(job, base, it->offset);
        return TN_OK; /* read before */
    }
    if (it->staged == NULL) {
        it->staged = tn__alloc(job->statics->context, tensor->bytes);
        if (it->staged == NULL) return tn__no_memory(job->executor->error, "constants");
        if (read) TN_TRY(fill_read(job, base, it->staged));
    }
    job->executor->operands[base].data = it->staged;
    return TN_OK;
}

static tn_status fill_load(const fill_job *job, tn_tensor_id id) {
    const tn__static *it = &job->statics->tensors[id];
    tn_operand *operands = job->executor->operands;
    TN_TRY(fill_open(job, it->base, tn__statics_is_leaf(job->statics, it->base)));
    operands[id].data = (uint8_t *)operands[it->base].data + it->delta;
    return TN_OK;
}

static void fill_unload(const fill_job *job, tn_tensor_id id) {
    tn_tensor_id base = job->statics->tensors[id].base;
    tn__static *it = &job->statics->tensors[base];
    if (--it->uses > 0 || it->staged == NULL) return;
    tn__free(job->statics->context, it->staged, tn_graph_tensor(job->statics->graph, base)->bytes);
    it->staged = NULL;
}

static tn_status fill_pack(const fill_job *job, tn_op_id id) {
    const tn_kernels *kernels = job->statics->kernels;
    const tn_op *op = tn_graph_op(kernels->graph, id);
    tn__packed *packed = job->statics->packed[id];
    if (packed == NULL || packed->done) return TN_OK;
    packed->done = true;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (packed->shared[i] != NULL)
            packed->at[i] = fill_at(job, op->inputs[i], *packed->shared[i]);
        if (packed->offset[i] == TN_SIZE_UNKNOWN) continue;
        packed->at[i] = fill_at(job, op->inputs[i], packed->offset[i]);
        TN_TRY(fill_load(job, op->inputs[i]));
        fill_tell(job, op->inputs[i], kernels->of[id]->packed[i]);
        TN_TRY(tn__kernel_cache_pack(kernels->cache, kernels->of[id], kernels->graph, id, i,
                                     job->executor->operands[op->inputs[i]].data, packed->at[i],
                                     job->executor->error));
        fill_unload(job, op->inputs[i]);
        fill_leave(job, op->inputs[i], packed->offset[i], kernels->of[id]->packed[i]);
    }
    return TN_OK;
}

/* Runs a kernel with scratch from the heap, which is allowed during set-up. */
static tn_status fill_run(const fill_job *job, tn_op_id id) {
    const tn__prepared *prepared = job->statics->kernels->of[id];
    size_t bytes = (size_t)prepared->workspace + FILL_ALIGNMENT;
    uint8_t *workspace = tn__alloc(job->statics->context, bytes);
    if (workspace == NULL) return tn__no_memory(job->executor->error, "scratch");
    uintptr_t skew = (uintptr_t)workspace % FILL_ALIGNMENT;
    tn_status status =
        tn__executor_call(job->executor, id, prepared, tn__statics_packed(job->statics, id),
                          workspace + (skew ? FILL_ALIGNMENT - skew : 0));
    tn__free(job->statics->context, workspace, bytes);
    return status;
}

static tn_status fill_compute(const fill_job *job, tn_op_id id) {
    const tn_op *op = tn_graph_op(job->statics->graph, id);
    TN_TRY(fill_pack(job, id));
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE) TN_TRY(fill_load(job, op->inputs[i]));
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) TN_TRY(fill_open(job, op->outputs[k], false));
    TN_TRY(fill_run(job, id));
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE) fill_unload(job, op->inputs[i]);
    return TN_OK;
}

/* Unbinds staged tensors: nothing may read them again. */
static void fill_bind(const fill_job *job) {
    const tn__static *tensors = job->statics->tensors;
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(job->statics->graph); t++) {
        const tn__static *base = tensors[t].needed ? &tensors[tensors[t].base] : NULL;
        const uint8_t *fetched = job->statics->fetched;
        bool there = base != NULL && base->offset != TN_SIZE_UNKNOWN &&
                     (fetched == NULL || !fetched[tensors[t].base]);
        job->executor->operands[t].data =
            there ? job->memory + base->offset + tensors[t].delta : NULL;
    }
}

tn_status tn__statics_fill(tn__statics *statics, tn__executor *executor,
                           const tn__contents_source *source, uint8_t *memory) {
    const fill_job job = {statics, executor, source, memory};
    uint32_t tensors = tn_graph_tensor_count(statics->graph);
    for (tn_tensor_id t = 0; t < tensors; t++)
        if (statics->tensors[t].kept) fill_tell(&job, t, tn_graph_tensor(statics->graph, t)->bytes);
    for (tn_tensor_id t = 0; t < tensors; t++)
        if (statics->tensors[t].kept && tn__statics_is_leaf(statics, t)) {
            uint64_t offset = statics->tensors[t].offset;
            TN_TRY(fill_read(&job, t, fill_at(&job, t, offset)));
            fill_leave(&job, t, offset, tn_graph_tensor(statics->graph, t)->bytes);
        }
    for (size_t i = 0; i < statics->order_count; i++) TN_TRY(fill_compute(&job, statics->order[i]));
    for (size_t i = 0; i < statics->readers.op_count; i++)
        TN_TRY(fill_pack(&job, statics->readers.ops[i]));
    fill_bind(&job);
    return TN_OK;
}
