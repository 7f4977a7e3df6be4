/* statics.c - weights, constants, folded tensors: where they are, and how they get there.
 *
 * What the program reads of static tensors is kept in one block. A kernel that wants weights in a
 * form of its own gets that form there instead, and the plain one is only staged on the host while
 * it is packed. Folded tensors are computed at set-up, in an order found from what is needed; what
 * only they read is staged as well, and released after its last reader.
 *
 *     weight ──▶ Mul ──▶ folded weight ──▶ pack ──▶ [ static memory ]
 *      staged            staged                      kept
 *
 * Views of static tensors (a Constant and its attribute, Reshape, the branch that If takes) are no
 * copies: a tensor is a base and a distance.
 * Cost: O(operands), and reading and computing.
 */
#include "engine/engine.h"
#include "graph/element.h"

#define STATICS_ALIGNMENT 64u

static const tn_tensor *statics_tensor(const tn__statics *statics, tn_tensor_id id) {
    return tn_graph_tensor(statics->kernels->graph, id);
}

/* --- who views whom --- */

/* The tensor that `id` shows a part of, or `id`. */
static tn_tensor_id statics_source(const tn__statics *statics, tn_tensor_id id, uint64_t *delta) {
    const tn_graph *graph = statics->kernels->graph;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    *delta = 0;
    if (tensor->producer == TN_NONE || tensor->value != NULL) return id;
    const tn_op *op = tn_graph_op(graph, tensor->producer);
    uint32_t k = 0;
    while (op->outputs[k] != id) k++;
    if (tn__op_has_blocks(op)) { /* If with a known condition */
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

/* Whether its contents are there without computing. */
static bool statics_is_leaf(const tn__statics *statics, tn_tensor_id base) {
    const tn_tensor *tensor = statics_tensor(statics, base);
    return tensor->producer == TN_NONE || tensor->value != NULL;
}

/* --- what is needed --- */

typedef struct statics_walk { /* operators whose inputs are being looked at */
    tn_op_id *ops;
    uint32_t *next;
    size_t count, op_room, next_room;
} statics_walk;

static tn_status statics_push(tn__statics *statics, statics_walk *walk, tn_tensor_id id,
                              tn_error *error) {
    statics_resolve(statics, id);
    tn_tensor_id base = statics->tensors[id].base;
    if (statics->tensors[base].visited) return TN_OK;
    statics->tensors[base].visited = true;
    statics->tensors[base].base = base;
    if (statics_is_leaf(statics, base)) return TN_OK;
    if (!tn__reserve(statics->context, &walk->ops, &walk->op_room, walk->count + 1,
                     sizeof *walk->ops) ||
        !tn__reserve(statics->context, &walk->next, &walk->next_room, walk->count + 1,
                     sizeof *walk->next))
        return tn__no_memory(error, "constants");
    walk->ops[walk->count] = statics_tensor(statics, base)->producer;
    walk->next[walk->count++] = 0;
    return TN_OK;
}

/* Puts the producers of `id` into the order, each behind what it reads. */
static tn_status statics_visit(tn__statics *statics, statics_walk *walk, uint8_t *ordered,
                               tn_tensor_id id, tn_error *error) {
    TN_TRY(statics_push(statics, walk, id, error));
    while (walk->count > 0) {
        tn_op_id id_now = walk->ops[walk->count - 1];
        const tn_op *op = tn_graph_op(statics->kernels->graph, id_now);
        uint32_t at = walk->next[walk->count - 1]++;
        if (at < op->input_count) {
            if (op->inputs[at] != TN_NONE)
                TN_TRY(statics_push(statics, walk, op->inputs[at], error));
            continue;
        }
        walk->count--;
        if (ordered[id_now]) continue;
        ordered[id_now] = 1;
        statics->order[statics->order_count++] = id_now;
    }
    return TN_OK;
}

static tn_status statics_need(tn__statics *statics, statics_walk *walk, uint8_t *ordered,
                              tn_tensor_id id, bool keep, tn_error *error) {
    if (id == TN_NONE || !tn_tensor_is_static(statics_tensor(statics, id))) return TN_OK;
    TN_TRY(statics_visit(statics, walk, ordered, id, error));
    tn__static *base = &statics->tensors[statics->tensors[id].base];
    statics->tensors[id].needed = true;
    base->needed = true;
    base->kept = base->kept || keep;
    return TN_OK;
}

static tn_status statics_need_all(tn__statics *statics, statics_walk *walk, uint8_t *ordered,
                                  const tn_tensor_id *ids, uint32_t count, const uint64_t *packed,
                                  tn_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        bool keep = packed == NULL || packed[i] == 0;
        TN_TRY(statics_need(statics, walk, ordered, ids[i], keep, error));
    }
    return TN_OK;
}

static tn_status statics_find(tn__statics *statics, statics_walk *walk, uint8_t *ordered,
                              tn_error *error) {
    const tn_graph *graph = statics->kernels->graph;
    const tn_instruction *instructions = tn_program_instructions(statics->program);
    const tn_region *regions = tn_program_regions(statics->program);
    const tn_block *main_block = tn_graph_block(graph, 0);
    TN_TRY(statics_need_all(statics, walk, ordered, main_block->outputs, main_block->output_count,
                            NULL, error));
    for (uint32_t r = 0; r < tn_program_region_count(statics->program); r++) {
        const tn_block *block = tn_graph_block(graph, regions[r].block);
        TN_TRY(statics_need_all(statics, walk, ordered, block->outputs, block->output_count, NULL,
                                error));
    }
    for (uint32_t i = 0; i < tn_program_count(statics->program); i++) {
        if (instructions[i].opcode != TN_APPLY) continue;
        const tn_op *op = tn_graph_op(graph, instructions[i].op);
        TN_TRY(statics_need_all(statics, walk, ordered, op->inputs, op->input_count,
                                statics->kernels->choices[instructions[i].op].packed, error));
    }
    return TN_OK;
}

/* --- places --- */

static tn_status statics_take(tn__statics *statics, uint64_t bytes, uint64_t *offset,
                              tn_error *error) {
    uint64_t end;
    *offset = statics->bytes;
    if (!tn__add(statics->bytes, bytes, &end) || !tn__align_up(end, STATICS_ALIGNMENT, &end))
        TN_FAIL(error, TN_E_INVALID, "the weights have more than 2^64 bytes");
    statics->bytes = end;
    return TN_OK;
}

static tn_status statics_place_packed(tn__statics *statics, tn_op_id id, tn_error *error) {
    const tn_op *op = tn_graph_op(statics->kernels->graph, id);
    const uint64_t *packed = statics->kernels->choices[id].packed;
    if (packed == NULL || statics->packed[id] != NULL) return TN_OK;
    statics->packed[id] =
        tn__arena_array(&statics->arena, op->input_count + 1u, sizeof *statics->packed[id]);
    if (statics->packed[id] == NULL) return tn__no_memory(error, "packed weights");
    for (uint32_t i = 0; i < op->input_count; i++) {
        statics->packed[id][i] = TN_SIZE_UNKNOWN;
        if (packed[i] == 0) continue;
        TN_TRY(statics_take(statics, packed[i], &statics->packed[id][i], error));
        statics->tensors[statics->tensors[op->inputs[i]].base].uses++;
    }
    return TN_OK;
}

static tn_status statics_place(tn__statics *statics, tn_error *error) {
    const tn_graph *graph = statics->kernels->graph;
    const tn_instruction *instructions = tn_program_instructions(statics->program);
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++) {
        statics->tensors[t].offset = TN_SIZE_UNKNOWN;
        if (statics->tensors[t].kept)
            TN_TRY(statics_take(statics, statics_tensor(statics, t)->bytes,
                                &statics->tensors[t].offset, error));
    }
    for (uint32_t i = 0; i < tn_program_count(statics->program); i++)
        if (instructions[i].opcode == TN_APPLY)
            TN_TRY(statics_place_packed(statics, instructions[i].op, error));
    for (size_t i = 0; i < statics->order_count; i++) {
        const tn_op *op = tn_graph_op(graph, statics->order[i]);
        TN_TRY(statics_place_packed(statics, statics->order[i], error));
        for (uint32_t k = 0; k < op->input_count; k++)
            if (op->inputs[k] != TN_NONE)
                statics->tensors[statics->tensors[op->inputs[k]].base].uses++;
    }
    return TN_OK;
}

tn_status tn__statics_plan(tn__statics *statics, const tn_program *program,
                           const tn_kernels *kernels, const tn_context *context, tn_error *error) {
    size_t tensors = tn_graph_tensor_count(kernels->graph), ops = kernels->count;
    *statics = (tn__statics){.kernels = kernels, .context = context, .program = program};
    tn__arena_init(&statics->arena, context);
    statics->tensors = tn__alloc_array(context, tensors, sizeof *statics->tensors);
    statics->order = tn__alloc_array(context, ops, sizeof *statics->order);
    statics->packed = tn__alloc_array(context, ops, sizeof *statics->packed);
    uint8_t *ordered = tn__alloc_array(context, ops, sizeof *ordered);
    statics_walk walk = {0};
    tn_status status = TN_OK;
    if (statics->tensors == NULL || statics->order == NULL || statics->packed == NULL ||
        ordered == NULL)
        status = tn__no_memory(error, "constants");
    if (status == TN_OK) status = statics_find(statics, &walk, ordered, error);
    if (status == TN_OK) status = statics_place(statics, error);
    tn__free(context, ordered, ops * sizeof *ordered);
    tn__free(context, walk.ops, walk.op_room * sizeof *walk.ops);
    tn__free(context, walk.next, walk.next_room * sizeof *walk.next);
    if (status != TN_OK) tn__statics_release(statics);
    return status;
}

void tn__statics_release(tn__statics *statics) {
    if (statics->kernels == NULL) return;
    size_t tensors = tn_graph_tensor_count(statics->kernels->graph), ops = statics->kernels->count;
    for (size_t t = 0; t < tensors && statics->tensors != NULL; t++)
        if (statics->tensors[t].staged != NULL)
            tn__free(statics->context, statics->tensors[t].staged,
                     statics_tensor(statics, (tn_tensor_id)t)->bytes);
    tn__free(statics->context, statics->tensors, tensors * sizeof *statics->tensors);
    tn__free(statics->context, statics->order, ops * sizeof *statics->order);
    tn__free(statics->context, statics->packed, ops * sizeof *statics->packed);
    tn__arena_release(&statics->arena);
    *statics = (tn__statics){0};
}

/* --- filling --- */

static tn_status statics_read(tn_engine *engine, tn_tensor_id id, void *bytes) {
    const tn_tensor *tensor = tn_graph_tensor(engine->graph, id);
    if (tensor->bytes == 0) return TN_OK;
    bool held = tensor->kind == TN_KIND_OPTIMIZER_STATE || tensor->kind == TN_KIND_GRADIENT;
    if (held && tensor->value == NULL) {
        memset(bytes, 0, tensor->bytes); /* state begins at nothing */
        return TN_OK;
    }
    /* What no file holds, the graph may know: the constants of a training step. */
    if (tensor->payload.size == 0 && tn__tensor_fill(tensor, bytes, tensor->bytes)) return TN_OK;
    if (engine->options.read == NULL)
        TN_FAIL(engine->error, TN_E_INVALID, "nobody reads the contents of '%.80s'", tensor->name);
    return engine->options.read(engine->options.self, engine->graph, id, bytes, tensor->bytes,
                                engine->error);
}

/* Bytes for a base: kept ones in static memory, others staged. `read` for leaves. */
static tn_status statics_open(tn_engine *engine, tn_tensor_id base, bool read) {
    tn__static *it = &engine->statics.tensors[base];
    const tn_tensor *tensor = tn_graph_tensor(engine->graph, base);
    if (it->offset != TN_SIZE_UNKNOWN) {
        engine->operands[base].data = engine->memory + it->offset;
        return TN_OK; /* read before */
    }
    if (it->staged == NULL) {
        it->staged = tn__alloc(&engine->context, tensor->bytes);
        if (it->staged == NULL) return tn__no_memory(engine->error, "constants");
        if (read) TN_TRY(statics_read(engine, base, it->staged));
    }
    engine->operands[base].data = it->staged;
    return TN_OK;
}

static tn_status statics_load(tn_engine *engine, tn_tensor_id id) {
    const tn__static *it = &engine->statics.tensors[id];
    TN_TRY(statics_open(engine, it->base, statics_is_leaf(&engine->statics, it->base)));
    engine->operands[id].data = (uint8_t *)engine->operands[it->base].data + it->delta;
    return TN_OK;
}

static void statics_unload(tn_engine *engine, tn_tensor_id id) {
    tn_tensor_id base = engine->statics.tensors[id].base;
    tn__static *it = &engine->statics.tensors[base];
    if (--it->uses > 0 || it->staged == NULL) return;
    tn__free(&engine->context, it->staged, tn_graph_tensor(engine->graph, base)->bytes);
    it->staged = NULL;
}

static tn_status statics_pack(tn_engine *engine, tn_op_id id) {
    const tn_op *op = tn_graph_op(engine->graph, id);
    uint64_t *offsets = engine->statics.packed[id];
    const tn_kernel *kernel = engine->kernels->choices[id].kernel;
    tn_kernel_setup setup;
    tn__kernel_setup_of(engine->kernels, id, &setup, engine->error);
    if (offsets == NULL || offsets[op->input_count]) return TN_OK; /* done before */
    offsets[op->input_count] = 1;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (offsets[i] == TN_SIZE_UNKNOWN) continue;
        TN_TRY(statics_load(engine, op->inputs[i]));
        tn__tell_static(engine, op->inputs[i], engine->kernels->choices[id].packed[i]);
        TN_TRY(kernel->pack(&setup, i, engine->operands[op->inputs[i]].data,
                            engine->memory + offsets[i]));
        statics_unload(engine, op->inputs[i]);
    }
    return TN_OK;
}

static tn_status statics_compute(tn_engine *engine, tn_op_id id) {
    const tn_op *op = tn_graph_op(engine->graph, id);
    uint64_t room = engine->kernels->choices[id].workspace;
    TN_TRY(statics_pack(engine, id));
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE) TN_TRY(statics_load(engine, op->inputs[i]));
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) TN_TRY(statics_open(engine, op->outputs[k], false));
    size_t bytes = (size_t)room + STATICS_ALIGNMENT;
    uint8_t *workspace = tn__alloc(&engine->context, bytes);
    if (workspace == NULL) return tn__no_memory(engine->error, "scratch");
    uintptr_t skew = (uintptr_t)workspace % STATICS_ALIGNMENT;
    tn_status status =
        tn__engine_call(engine, id, workspace + (skew ? STATICS_ALIGNMENT - skew : 0));
    tn__free(&engine->context, workspace, bytes);
    for (uint32_t i = 0; i < op->input_count && status == TN_OK; i++)
        if (op->inputs[i] != TN_NONE) statics_unload(engine, op->inputs[i]);
    return status;
}

tn_status tn__statics_fill(tn_engine *engine) {
    tn__statics *statics = &engine->statics;
    const tn_instruction *instructions = tn_program_instructions(engine->program);
    uint32_t tensors = tn_graph_tensor_count(engine->graph);
    for (tn_tensor_id t = 0; t < tensors; t++)
        if (statics->tensors[t].kept)
            tn__tell_static(engine, t, tn_graph_tensor(engine->graph, t)->bytes);
    for (tn_tensor_id t = 0; t < tensors; t++)
        if (statics->tensors[t].kept && statics_is_leaf(statics, t))
            TN_TRY(statics_read(engine, t, engine->memory + statics->tensors[t].offset));
    for (size_t i = 0; i < statics->order_count; i++)
        TN_TRY(statics_compute(engine, statics->order[i]));
    for (uint32_t i = 0; i < tn_program_count(engine->program); i++)
        if (instructions[i].opcode == TN_APPLY) TN_TRY(statics_pack(engine, instructions[i].op));
    for (tn_tensor_id t = 0; t < tensors; t++) { /* what is staged is not to be seen again */
        const tn__static *it = &statics->tensors[t];
        const tn__static *base = it->needed ? &statics->tensors[it->base] : NULL;
        bool there = base != NULL && base->offset != TN_SIZE_UNKNOWN;
        engine->operands[t].data = there ? engine->memory + base->offset + it->delta : NULL;
    }
    return TN_OK;
}
