/* statics.c - finds the weights, constants and folded tensors that a program needs, assigns offsets
 * to them, and fills them.
 *
 * Static tensors that operators read are stored in one block of memory. If a kernel needs a weight
 * in its own packed form, the block contains only the packed form; the plain weight is staged, that
 * is, kept in temporary host memory while it is packed. Folded tensors are computed when the engine
 * is created, each after the tensors that it depends on. Tensors that only folded operators read
 * are staged too, and released after their last reader.
 *
 *   weight ──▶ Mul ──▶ folded weight ──▶ pack ──▶ [ static memory ]
 *   staged            staged                      kept
 *
 * Views of static tensors (the output of a Constant, of a Reshape, or of an If with a constant
 * condition) are not copied: each static tensor is a base tensor and a distance in bytes from its
 * start.
 * Cost: O(operands), and the time to read, compute and pack the tensors.
 */
#include "engine/statics.h"
#include "graph/element.h"

#define STATICS_ALIGNMENT 64u /* a cache line, which is also the size of an AVX-512 vector */

static const tn_tensor *statics_tensor(const tn__statics *statics, tn_tensor_id id) {
    return tn_graph_tensor(statics->graph, id);
}

/* --- views --- */

/* Returns the tensor of which `id` is directly a view, and the distance from its start in *delta.
 * Returns `id` if it is not a view of a static tensor. */
static tn_tensor_id statics_source(const tn__statics *statics, tn_tensor_id id, uint64_t *delta) {
    const tn_graph *graph = statics->graph;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    *delta = 0;
    if (tensor->producer == TN_NONE || tensor->value != NULL) return id;
    const tn_op *op = tn_graph_op(graph, tensor->producer);
    uint32_t k = 0;
    while (op->outputs[k] != id) k++;
    /* an If with a constant condition: its output is the output of the branch that it takes */
    if (tn__op_has_blocks(op)) {
        for (uint32_t i = 0; i < op->attr_count; i++) {
            if (op->attrs[i].type != TN_ATTR_BLOCK) continue;
            const tn_block *block = tn_graph_block(graph, op->attrs[i].block);
            if (!block->dead && k < block->output_count) return block->outputs[k];
        }
        return id;
    }
    tn_view view = tn_op_view(graph, tensor->producer, k);
    if (view.source == TN_NONE || view.whole ||
        !tn_tensor_is_static(tn_graph_tensor(graph, view.source)))
        return id;
    *delta = view.offset;
    return view.source;
}

static void statics_resolve(tn__statics *statics, tn_tensor_id id) {
    tn_tensor_id base = id, next;
    uint64_t delta = 0, step;
    while ((next = statics_source(statics, base, &step)) != base) {
        base = next;
        delta += step;
    }
    statics->tensors[id].base = base;
    statics->tensors[id].delta = delta;
}

bool tn__statics_is_leaf(const tn__statics *statics, tn_tensor_id base) {
    const tn_tensor *tensor = statics_tensor(statics, base);
    return tensor->producer == TN_NONE || tensor->value != NULL;
}

/* --- finding the static tensors that a program needs --- */

/* an entry of the stack: an operator, and the next of the operator's inputs to visit */
typedef struct statics_item {
    tn_op_id op;
    uint32_t next;
} statics_item;

typedef struct statics_walk {
    statics_item *stack;
    size_t depth, room;
    uint8_t *ordered; /* [operators] 1: the operator is in statics->order */
} statics_walk;

static tn_status statics_push(tn__statics *statics, statics_walk *walk, tn_tensor_id id,
                              tn_error *error) {
    statics_resolve(statics, id);
    tn_tensor_id base = statics->tensors[id].base;
    if (statics->tensors[base].visited) return TN_OK;
    statics->tensors[base].visited = true;
    statics->tensors[base].base = base;
    if (tn__statics_is_leaf(statics, base)) return TN_OK;
    if (!tn__reserve(statics->context, &walk->stack, &walk->room, walk->depth + 1,
                     sizeof *walk->stack))
        return tn__no_memory(error, "constants");
    walk->stack[walk->depth++] = (statics_item){.op = statics_tensor(statics, base)->producer};
    return TN_OK;
}

/* Appends the operators that compute `id` to statics->order, each after the operators that compute
 * its inputs. */
static tn_status statics_visit(tn__statics *statics, statics_walk *walk, tn_tensor_id id,
                               tn_error *error) {
    TN_TRY(statics_push(statics, walk, id, error));
    while (walk->depth > 0) {
        tn_op_id now = walk->stack[walk->depth - 1].op;
        const tn_op *op = tn_graph_op(statics->graph, now);
        uint32_t at = walk->stack[walk->depth - 1].next++;
        if (at < op->input_count) {
            if (op->inputs[at] != TN_NONE)
                TN_TRY(statics_push(statics, walk, op->inputs[at], error));
            continue;
        }
        walk->depth--;
        if (walk->ordered[now]) continue;
        walk->ordered[now] = 1;
        statics->order[statics->order_count++] = now;
    }
    return TN_OK;
}

static tn_status statics_need(tn__statics *statics, statics_walk *walk, tn_tensor_id id, bool keep,
                              tn_error *error) {
    if (id == TN_NONE || !tn_tensor_is_static(statics_tensor(statics, id))) return TN_OK;
    TN_TRY(statics_visit(statics, walk, id, error));
    tn__static *base = &statics->tensors[statics->tensors[id].base];
    statics->tensors[id].needed = true;
    base->needed = true;
    /* a tensor that stays in its file has no memory of its own */
    if ((statics_tensor(statics, id)->flags & TN_TENSOR_IN_FILE) != 0) return TN_OK;
    base->kept = base->kept || keep;
    return TN_OK;
}

static tn_status statics_need_all(tn__statics *statics, statics_walk *walk, const tn_tensor_id *ids,
                                  uint32_t count, const uint64_t *packed, tn_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        bool keep = packed == NULL || packed[i] == 0;
        TN_TRY(statics_need(statics, walk, ids[i], keep, error));
    }
    return TN_OK;
}

/* Marks the inputs that an operator reads when it is recomputed with another operator type. That
 * type reads its inputs unpacked. */
static tn_status statics_need_again(tn__statics *statics, statics_walk *walk, tn_op_id id,
                                    tn_error *error) {
    tn_op_form form = tn_op_form_of(statics->graph, id, true);
    for (uint32_t i = 0; i < form.input_count; i++)
        TN_TRY(statics_need(statics, walk, tn_op_form_input(&form, i), true, error));
    return TN_OK;
}

const uint64_t *tn__statics_sizes(const tn__statics *statics, tn_op_id id) {
    const tn__prepared *prepared = statics->kernels->of[id];
    return prepared != NULL ? prepared->packed : NULL;
}

static tn_status statics_find(tn__statics *statics, statics_walk *walk, tn_error *error) {
    const tn_graph *graph = statics->graph;
    const tn__readers *readers = &statics->readers;
    for (size_t b = 0; b < readers->block_count; b++) {
        const tn_block *block = tn_graph_block(graph, readers->blocks[b]);
        TN_TRY(statics_need_all(statics, walk, block->outputs, block->output_count, NULL, error));
    }
    for (size_t i = 0; i < readers->op_count; i++) {
        const tn_op *op = tn_graph_op(graph, readers->ops[i]);
        bool again = readers->again != NULL && readers->again[i];
        if (again && statics->kernels->again_of[readers->ops[i]] != NULL) {
            TN_TRY(statics_need_again(statics, walk, readers->ops[i], error));
            continue;
        }
        TN_TRY(statics_need_all(statics, walk, op->inputs, op->input_count,
                                tn__statics_sizes(statics, readers->ops[i]), error));
    }
    return TN_OK;
}

/* --- places --- */

tn_status tn__statics_take(tn__statics *statics, uint64_t bytes, uint64_t *offset,
                           tn_error *error) {
    uint64_t end;
    *offset = statics->bytes;
    if (!tn__add(statics->bytes, bytes, &end) || !tn__align_up(end, STATICS_ALIGNMENT, &end))
        TN_FAIL(error, TN_E_INVALID, "the weights have more than 2^64 bytes");
    statics->bytes = end;
    return TN_OK;
}

/* Looks for a packed form of an input that an earlier operator already has and that this operator
 * can share. If there is one, sets *found to the offset of that form. Otherwise sets it to NULL;
 * this operator's form is then recorded for later operators. The order matters because forms are
 * filled in the order in which operators run. */
static tn_status statics_share(tn__statics *statics, tn_op_id id, uint32_t input, uint64_t *offset,
                               const uint64_t **found, tn_error *error) {
    const tn__prepared *prepared = statics->kernels->of[id];
    tn__static *tensor = &statics->tensors[tn_graph_op(statics->graph, id)->inputs[input]];
    uint64_t form = prepared->forms[input], bytes = prepared->packed[input];
    *found = NULL;
    for (tn__shared_form *at = tensor->forms; at != NULL && form != 0; at = at->next)
        if (at->form == form && at->bytes == bytes) *found = at->offset;
    if (*found != NULL || form == 0) return TN_OK;
    tn__shared_form *made = tn__arena_alloc(&statics->arena, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "packed weights");
    *made = (tn__shared_form){tensor->forms, form, bytes, offset};
    tensor->forms = made;
    return TN_OK;
}

/* Assigns offsets to the packed forms of an operator's inputs. `runs`: the operator is one that the
 * program runs, so its forms are filled in the order of the program and can be shared with other
 * such operators. A folded operator does not share its forms. */
static tn_status statics_place_packed(tn__statics *statics, tn_op_id id, bool runs,
                                      tn_error *error) {
    const tn_op *op = tn_graph_op(statics->graph, id);
    const uint64_t *sizes = tn__statics_sizes(statics, id);
    if (sizes == NULL || statics->packed[id] != NULL) return TN_OK;
    tn__packed_form *packed = tn__arena_alloc(&statics->arena, sizeof *packed);
    if (packed == NULL) return tn__no_memory(error, "packed weights");
    packed->offset = tn__arena_array(&statics->arena, op->input_count, sizeof *packed->offset);
    packed->at = tn__arena_array(&statics->arena, op->input_count, sizeof *packed->at);
    packed->shared = tn__arena_array(&statics->arena, op->input_count, sizeof *packed->shared);
    if (packed->offset == NULL || packed->at == NULL || packed->shared == NULL)
        return tn__no_memory(error, "packed weights");
    statics->packed[id] = packed;
    for (uint32_t i = 0; i < op->input_count; i++) {
        packed->offset[i] = TN_SIZE_UNKNOWN;
        if (sizes[i] == 0) continue;
        if (runs)
            TN_TRY(statics_share(statics, id, i, &packed->offset[i], &packed->shared[i], error));
        if (packed->shared[i] != NULL) continue;
        TN_TRY(tn__statics_take(statics, sizes[i], &packed->offset[i], error));
        statics->tensors[statics->tensors[op->inputs[i]].base].uses++;
    }
    return TN_OK;
}

static tn_status statics_place(tn__statics *statics, tn_error *error) {
    const tn_graph *graph = statics->graph;
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++) {
        statics->tensors[t].offset = TN_SIZE_UNKNOWN;
        if (statics->tensors[t].kept)
            TN_TRY(tn__statics_take(statics, statics_tensor(statics, t)->bytes,
                                    &statics->tensors[t].offset, error));
    }
    for (size_t i = 0; i < statics->readers.op_count; i++)
        TN_TRY(statics_place_packed(statics, statics->readers.ops[i], true, error));
    for (size_t i = 0; i < statics->order_count; i++) {
        const tn_op *op = tn_graph_op(graph, statics->order[i]);
        TN_TRY(statics_place_packed(statics, statics->order[i], false, error));
        for (uint32_t k = 0; k < op->input_count; k++)
            if (op->inputs[k] != TN_NONE)
                statics->tensors[statics->tensors[op->inputs[k]].base].uses++;
    }
    return TN_OK;
}

static tn_status statics_plan(tn__statics *statics, statics_walk *walk, tn_error *error) {
    size_t tensors = tn_graph_tensor_count(statics->graph), ops = tn_graph_op_count(statics->graph);
    statics->tensors = tn__arena_array(&statics->arena, tensors, sizeof *statics->tensors);
    statics->order = tn__arena_array(&statics->arena, ops, sizeof *statics->order);
    statics->packed = tn__arena_array(&statics->arena, ops, sizeof *statics->packed);
    walk->ordered = tn__alloc_array(statics->context, ops, sizeof *walk->ordered);
    if (statics->tensors == NULL || statics->order == NULL || statics->packed == NULL ||
        walk->ordered == NULL)
        return tn__no_memory(error, "constants");
    TN_TRY(statics_find(statics, walk, error));
    return statics_place(statics, error);
}

tn_status tn__statics_plan(tn__statics *statics, const tn_kernels *kernels,
                           const tn__readers *readers, const tn_context *context, tn_error *error) {
    statics_walk walk = {0};
    *statics = (tn__statics){
        .kernels = kernels, .graph = kernels->graph, .readers = *readers, .context = context};
    tn__arena_init(&statics->arena, context);
    tn_status status = statics_plan(statics, &walk, error);
    tn__free(context, walk.ordered, tn_graph_op_count(statics->graph) * sizeof *walk.ordered);
    tn__free(context, walk.stack, walk.room * sizeof *walk.stack);
    if (status != TN_OK) tn__statics_release(statics);
    return status;
}

void tn__statics_release(tn__statics *statics) {
    if (statics->kernels == NULL) return;
    for (tn_tensor_id t = 0; statics->tensors != NULL && t < tn_graph_tensor_count(statics->graph);
         t++)
        if (statics->tensors[t].staged != NULL)
            tn__free(statics->context, statics->tensors[t].staged,
                     statics_tensor(statics, t)->bytes);
    tn__arena_release(&statics->arena);
    *statics = (tn__statics){0};
}

/* --- iteration over the blocks of static memory --- */

bool tn__statics_next(const tn__statics *statics, tn__static_cursor *at, tn__static_place *place) {
    while (at->tensor < tn_graph_tensor_count(statics->graph)) {
        tn_tensor_id t = at->tensor++;
        *place = (tn__static_place){t, TN_NONE, statics_tensor(statics, t)->bytes,
                                    &statics->tensors[t].offset};
        if (*place->offset != TN_SIZE_UNKNOWN) return true;
    }
    for (; at->op < tn_graph_op_count(statics->graph); at->op++, at->input = 0) {
        const tn_op *op = tn_graph_op(statics->graph, at->op);
        tn__packed_form *packed = statics->packed[at->op];
        while (packed != NULL && at->input < op->input_count) {
            uint32_t i = at->input++;
            if (packed->offset[i] == TN_SIZE_UNKNOWN) continue;
            *place = (tn__static_place){op->inputs[i], at->op,
                                        tn__statics_sizes(statics, at->op)[i], &packed->offset[i]};
            return true;
        }
    }
    return false;
}

void *const *tn__statics_packed(const tn__statics *statics, tn_op_id op) {
    return statics->packed[op] != NULL ? statics->packed[op]->at : NULL;
}

/* --- the data of static memory, written when the engine is created ---
 *
 * A tensor that a kernel reads in packed form is staged (kept in temporary host memory) while it is
 * packed. Tensors that only folded operators read are staged as well, and released after their last
 * reader.
 * Cost: the time to read, compute and pack the tensors.
 */

#define FILL_ALIGNMENT 64u /* kernels may rely on this alignment of their scratch memory */

typedef struct fill_job {
    tn__statics *statics;
    tn__executor *executor;
    const tn__contents_source *source;
    uint8_t *memory;
} fill_job;

/* Address of a block of static memory while it is filled: in memory, or in the mapping of a file if
 * the tensor is fetched during a run. */
static uint8_t *fill_at(const fill_job *job, tn_tensor_id id, uint64_t offset) {
    const uint8_t *fetched = job->statics->fetched;
    return (fetched != NULL && fetched[id] ? job->statics->store : job->memory) + offset;
}

/* Reports that the block of a fetched tensor is complete, so that its pages can be dropped from
 * memory. */
static void fill_leave(const fill_job *job, tn_tensor_id id, uint64_t offset, uint64_t bytes) {
    if (job->statics->fetched == NULL || !job->statics->fetched[id]) return;
    if (job->statics->stored != NULL) job->statics->stored(fill_at(job, id, offset), bytes);
}

static tn_status fill_read(const fill_job *job, tn_tensor_id id, void *bytes) {
    const tn_tensor *tensor = tn_graph_tensor(job->statics->graph, id);
    tn_error *error = job->executor->error;
    if (tensor->bytes == 0 || (tensor->flags & TN_TENSOR_ROW_CACHE) != 0) return TN_OK;
    bool held = tensor->kind == TN_KIND_OPTIMIZER_STATE || tensor->kind == TN_KIND_GRADIENT;
    if (held && tensor->value == NULL) {
        memset(bytes, 0, tensor->bytes); /* optimizer state begins at zero */
        return TN_OK;
    }
    /* The graph may have the data itself, for example for a constant that tn_train added. */
    if (tensor->payload.size == 0 && tn__tensor_fill(tensor, bytes, tensor->bytes)) return TN_OK;
    if (job->source->read == NULL)
        TN_FAIL(error, TN_E_INVALID, "no operator reads the contents of '%.80s'", tensor->name);
    return job->source->read(job->source->self, job->statics->graph, id, bytes, tensor->bytes,
                             error);
}

static void fill_tell(const fill_job *job, tn_tensor_id id, uint64_t bytes) {
    if (job->source->told != NULL) job->source->told(job->source->listener, id, bytes);
}

/* Sets the address of a base tensor: its block of static memory, or temporary host memory that is
 * allocated now if the tensor is staged. `read`: a staged tensor is filled with its data, which
 * must exist without computing it. */
static tn_status fill_open(const fill_job *job, tn_tensor_id base, bool read) {
    tn__static *it = &job->statics->tensors[base];
    const tn_tensor *tensor = tn_graph_tensor(job->statics->graph, base);
    if (it->offset != TN_SIZE_UNKNOWN) {
        job->executor->operands[base].data = fill_at(job, base, it->offset);
        return TN_OK; /* a kept tensor was filled with its data before */
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
    tn__packed_form *packed = job->statics->packed[id];
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

/* Runs the kernel of a folded operator. Its scratch memory is allocated here, because allocations
 * are allowed while the engine is created. */
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

/* Sets the addresses of all static operands to their blocks. Operands that were only staged or are
 * fetched get NULL, because no operator may read them before a fetch. */
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
