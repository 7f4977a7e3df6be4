/* engine.c - set-up, a run from inputs to outputs, and what was measured.
 *
 * Everything that a run needs is taken here: the arena, static memory, the tables of walk.c, the
 * operands of calls. A run then writes into what is there and allocates nothing.
 */
#include "engine/engine.h"

#include <stdio.h>

/* --- a call --- */

static uint32_t engine_operands(tn_engine *engine, const tn_tensor_id *ids, uint32_t count,
                                tn_operand *operands) {
    for (uint32_t i = 0; i < count; i++)
        operands[i] = ids[i] == TN_NONE ? (tn_operand){.omitted = true} : engine->operands[ids[i]];
    return count;
}

tn_status tn__engine_call(tn_engine *engine, tn_op_id id, void *workspace) {
    const tn_op *op = tn_graph_op(engine->graph, id);
    const tn__kernel_choice *choice = &engine->kernels->choices[id];
    const uint64_t *packed = engine->statics.packed[id];
    if (engine->dynamic[id]) TN_TRY(tn__engine_reshape(engine, id));
    engine_operands(engine, op->inputs, op->input_count, engine->call_inputs);
    engine_operands(engine, op->outputs, op->output_count, engine->call_outputs);
    for (uint32_t i = 0; i < op->input_count && packed != NULL; i++)
        if (packed[i] != TN_SIZE_UNKNOWN) engine->call_inputs[i].data = engine->memory + packed[i];
    tn_kernel_call call = {.graph = engine->graph,
                           .op = op,
                           .id = id,
                           .version = op->version ? op->version : UINT32_MAX,
                           .input_count = op->input_count,
                           .output_count = op->output_count,
                           .inputs = engine->call_inputs,
                           .outputs = engine->call_outputs,
                           .workspace = workspace,
                           .workspace_bytes = choice->workspace,
                           .state = choice->state,
                           .random = &engine->random,
                           .error = engine->error};
    return choice->kernel->run(&call);
}

tn_status tn__engine_where(const tn_engine *engine, tn_status status, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    if (it->op != TN_NONE) {
        const tn_op *op = tn_graph_op(engine->graph, it->op);
        return tn__where(engine->error, status, "step %u, node '%.60s' (%.30s)", step, op->name,
                         op->type);
    }
    const char *name =
        it->tensor == TN_NONE ? "" : tn_graph_tensor(engine->graph, it->tensor)->name;
    return tn__where(engine->error, status, "step %u, %s of '%.60s'", step,
                     tn_opcode_name(it->opcode), name);
}

/* --- tables --- */

static tn_status engine_make_operands(tn_engine *engine) {
    uint32_t count = tn_graph_tensor_count(engine->graph);
    size_t extents = 0;
    for (tn_tensor_id t = 0; t < count; t++) {
        const tn_tensor *tensor = tn_graph_tensor(engine->graph, t);
        if (tensor->rank != TN_RANK_UNKNOWN) extents += tensor->rank;
    }
    engine->operands = tn__alloc_array(&engine->context, count, sizeof *engine->operands);
    engine->io = tn__alloc_array(&engine->context, count, sizeof *engine->io);
    engine->extents = tn__alloc_array(&engine->context, extents, sizeof *engine->extents);
    engine->extent_count = extents;
    if (engine->operands == NULL || engine->io == NULL || engine->extents == NULL)
        return tn__no_memory(engine->error, "operands");
    int64_t *at = engine->extents;
    for (tn_tensor_id t = 0; t < count; t++) {
        const tn_tensor *tensor = tn_graph_tensor(engine->graph, t);
        uint32_t rank = tensor->rank != TN_RANK_UNKNOWN ? tensor->rank : 0;
        engine->operands[t] = (tn_operand){.room = tensor->bytes,
                                           .dtype = tensor->dtype,
                                           .format = tensor->format,
                                           .rank = rank,
                                           .shape = at};
        for (uint32_t d = 0; d < rank; d++) *at++ = tensor->shape[d];
        engine->io[t] = ENGINE_NONE;
    }
    return TN_OK;
}

/* Extents as the graph has them: a run may have changed those that are bounds. */
static void engine_reset_extents(tn_engine *engine) {
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(engine->graph); t++) {
        const tn_tensor *tensor = tn_graph_tensor(engine->graph, t);
        if (!(tensor->flags & TN_TENSOR_BOUND) || tn_tensor_is_static(tensor)) continue;
        for (uint32_t d = 0; d < tensor->rank; d++) engine->operands[t].shape[d] = tensor->shape[d];
    }
}

static tn_status engine_make_calls(tn_engine *engine) {
    uint32_t count = tn_graph_op_count(engine->graph);
    size_t inputs = 1, outputs = 1;
    engine->dynamic = tn__alloc_array(&engine->context, count, sizeof *engine->dynamic);
    if (engine->dynamic == NULL) return tn__no_memory(engine->error, "operators");
    bool any = false;
    for (tn_op_id id = 0; id < count; id++) {
        const tn_op *op = tn_graph_op(engine->graph, id);
        if (op->input_count > inputs) inputs = op->input_count;
        if (op->output_count > outputs) outputs = op->output_count;
        for (uint32_t k = 0; k < op->output_count && !engine->dynamic[id]; k++)
            engine->dynamic[id] =
                op->outputs[k] != TN_NONE &&
                (tn_graph_tensor(engine->graph, op->outputs[k])->flags & TN_TENSOR_BOUND) != 0;
        any = any || engine->dynamic[id];
    }
    engine->call_input_room = inputs;
    engine->call_output_room = outputs;
    engine->call_inputs = tn__alloc_array(&engine->context, inputs, sizeof *engine->call_inputs);
    engine->call_outputs = tn__alloc_array(&engine->context, outputs, sizeof *engine->call_outputs);
    if (any) engine->scratch = tn__alloc(&engine->context, ENGINE_SCRATCH);
    if (engine->call_inputs == NULL || engine->call_outputs == NULL ||
        (any && engine->scratch == NULL))
        return tn__no_memory(engine->error, "operators");
    return TN_OK;
}

/* life_at[s] .. life_at[s + 1]: lives that begin at step s; they are sorted by that already. */
static tn_status engine_make_lives(tn_engine *engine) {
    uint32_t steps = tn_program_count(engine->program);
    uint32_t count = tn_occupancy_life_count(engine->occupancy);
    const tn_life *lives = tn_occupancy_lives(engine->occupancy);
    engine->life_at = tn__alloc_array(&engine->context, (size_t)steps + 2, sizeof *engine->life_at);
    if (engine->life_at == NULL) return tn__no_memory(engine->error, "lives");
    uint32_t at = 0;
    for (uint32_t s = 0; s <= steps; s++) {
        engine->life_at[s] = at;
        while (at < count && lives[at].first <= s) {
            if (lives[at].whole)
                TN_FAIL(engine->error, TN_E_UNSUPPORTED,
                        "tensor '%.60s' views another at a place that is not known; this program "
                        "can be planned, not run",
                        tn_graph_tensor(engine->graph, lives[at].tensor)->name);
            at++;
        }
    }
    engine->life_at[steps + 1] = count;
    return TN_OK;
}

/* It runs one list on one device: no host pool, no codecs, no other ranks yet. */
static tn_status engine_check_program(tn_engine *engine) {
    const uint32_t beyond =
        TN_USES_SLOT | TN_USES_CODEC | TN_USES_PEER | TN_USES_GROUP | TN_USES_REDUCTION;
    const tn_instruction *instructions = tn_program_instructions(engine->program);
    for (uint32_t s = 0; s < tn_program_count(engine->program); s++) {
        const tn_opcode_facts *facts = tn_opcode_facts_of(instructions[s].opcode);
        if (facts->flags & beyond) {
            tn__fail(engine->error, TN_E_UNSUPPORTED, "this engine does not run '%s'", facts->name);
            return tn__engine_where(engine, TN_E_UNSUPPORTED, s);
        }
    }
    return TN_OK;
}

/* What is no life and not static by its flags: a view of what is static. */
static void engine_bind_views(tn_engine *engine) {
    const tn_instruction *instructions = tn_program_instructions(engine->program);
    for (uint32_t s = 0; s < tn_program_count(engine->program); s++) {
        if (instructions[s].opcode != TN_APPLY) continue;
        const tn_op *op = tn_graph_op(engine->graph, instructions[s].op);
        for (uint32_t k = 0; k < op->output_count; k++) {
            if (op->outputs[k] == TN_NONE) continue;
            tn_view view = tn_op_view(engine->graph, instructions[s].op, k);
            if (view.source == TN_NONE || engine->operands[view.source].data == NULL) continue;
            engine->operands[op->outputs[k]].data =
                (uint8_t *)engine->operands[view.source].data + view.offset;
        }
    }
}

/* --- set-up --- */

static tn_status engine_make_bodies(tn_engine *engine, const tn_layout *layout) {
    uint32_t bodies = tn_problem_count(tn_occupancy_problem(engine->occupancy));
    engine->body_count = bodies;
    engine->body_offset = tn__alloc_array(&engine->context, bodies, sizeof *engine->body_offset);
    engine->body_block = tn__alloc_array(&engine->context, bodies, sizeof *engine->body_block);
    engine->body_tag = tn__alloc_array(&engine->context, bodies, sizeof *engine->body_tag);
    engine->body_life = tn__alloc_array(&engine->context, bodies, sizeof *engine->body_life);
    if (engine->body_offset == NULL || engine->body_block == NULL || engine->body_tag == NULL ||
        engine->body_life == NULL)
        return tn__no_memory(engine->error, "offsets");
    for (tn_body_id b = 0; b < bodies; b++) engine->body_life[b] = ENGINE_NONE;
    const tn_life *lives = tn_occupancy_lives(engine->occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(engine->occupancy); i++)
        if (engine->body_life[lives[i].body] == ENGINE_NONE) engine->body_life[lives[i].body] = i;
    if (layout != NULL) memcpy(engine->body_offset, layout->offset, bodies * sizeof(uint64_t));
    engine->planned_peak = layout != NULL ? layout->peak : 0;
    engine->arena_bytes = layout != NULL ? layout->peak : engine->options.pool_capacity;
    return TN_OK;
}

static tn_status engine_take_memory(tn_engine *engine) {
    uint64_t outside = engine->pool == NULL ? engine->statics.bytes : 0;
    TN_TRY(tn_device_alloc(engine->device, outside, &engine->static_address, engine->error));
    TN_TRY(tn_device_alloc(engine->device, engine->arena_bytes, &engine->arena_address,
                           engine->error));
    engine->arena = tn_device_pointer(engine->device, engine->arena_address);
    engine->memory = engine->pool != NULL
                         ? engine->arena
                         : tn_device_pointer(engine->device, engine->static_address);
    return TN_OK;
}

/* --- a pool instead of a plan --- */

static tn_status engine_tag_bodies(tn_engine *engine) {
    const tn_life *lives = tn_occupancy_lives(engine->occupancy);
    for (tn_body_id b = 0; b < engine->body_count; b++) {
        if (engine->body_life[b] == ENGINE_NONE) continue;
        const tn_life *life = &lives[engine->body_life[b]];
        bool scratch = life->tensor == TN_NONE;
        const tn_tensor *tensor = scratch ? NULL : tn_graph_tensor(engine->graph, life->tensor);
        tn_pool_label label = {
            .name = scratch ? "" : tensor->name,
            .kind = tn_kind_name(scratch ? TN_KIND_WORKSPACE : tensor->kind),
            .op = life->op == TN_NONE ? "" : tn_graph_op(engine->graph, life->op)->type};
        TN_TRY(tn_pool_tag(engine->pool, &label, &engine->body_tag[b], engine->error));
    }
    return TN_OK;
}

/* Static memory in the pool: long-lived blocks, taken before the first run. */
static tn_status engine_hold(tn_engine *engine, tn_tensor_id id, const tn_op *op, uint64_t bytes,
                             uint64_t *offset) {
    tn_allocation block;
    const tn_tensor *tensor = tn_graph_tensor(engine->graph, id);
    tn_pool_request request = {.size = bytes, .flags = TN_POOL_LONG_LIVED};
    tn_pool_label label = {
        .name = tensor->name, .kind = tn_kind_name(tensor->kind), .op = op != NULL ? op->type : ""};
    size_t room = engine->held_room;
    bool fits = tn__reserve(&engine->context, &engine->held, &room, engine->held_count + 1u,
                            sizeof *engine->held);
    engine->held_room = (uint32_t)room;
    if (!fits) return tn__no_memory(engine->error, "weights");
    TN_TRY(tn_pool_tag(engine->pool, &label, &request.tag, engine->error));
    TN_TRY(tn_pool_alloc(engine->pool, &request, &block, engine->error));
    engine->held[engine->held_count++] = (tn__span){.lo = block.offset, .hi = block.offset + bytes};
    *offset = block.offset;
    return TN_OK;
}

static tn_status engine_hold_statics(tn_engine *engine) {
    tn__statics *statics = &engine->statics;
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(engine->graph); t++)
        if (statics->tensors[t].offset != TN_SIZE_UNKNOWN)
            TN_TRY(engine_hold(engine, t, NULL, tn_graph_tensor(engine->graph, t)->bytes,
                               &statics->tensors[t].offset));
    for (tn_op_id id = 0; id < tn_graph_op_count(engine->graph); id++) {
        const tn_op *op = tn_graph_op(engine->graph, id);
        const uint64_t *sizes = engine->kernels->choices[id].packed;
        for (uint32_t i = 0; i < op->input_count && statics->packed[id] != NULL; i++)
            if (statics->packed[id][i] != TN_SIZE_UNKNOWN)
                TN_TRY(engine_hold(engine, op->inputs[i], op, sizes[i], &statics->packed[id][i]));
    }
    return TN_OK;
}

static tn_status engine_make_pool(tn_engine *engine) {
    if (engine->options.pool == NULL) return TN_OK;
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    options.context = &engine->context;
    options.pool = engine->options.pool;
    options.capacity = engine->options.pool_capacity;
    TN_TRY(tn_pool_create(&options, &engine->pool, engine->error));
    TN_TRY(engine_tag_bodies(engine));
    return engine_hold_statics(engine);
}

static tn_status engine_set_up(tn_engine *engine, const tn_layout *layout) {
    if (!tn_device_limits_of(engine->device).host_kernels)
        TN_FAIL(engine->error, TN_E_UNSUPPORTED, "there are no kernels for this device");
    if (layout != NULL)
        TN_TRY(
            tn_layout_verify(tn_occupancy_problem(engine->occupancy), layout, NULL, engine->error));
    else if (engine->options.pool == NULL)
        TN_FAIL(engine->error, TN_E_INVALID, "neither a layout nor a pool is given");
    if (engine->options.trace != NULL && engine->options.poison)
        TN_FAIL(engine->error, TN_E_INVALID, "a trace and poison do not go together");
    TN_TRY(engine_check_program(engine));
    TN_TRY(engine_make_operands(engine));
    TN_TRY(engine_make_calls(engine));
    TN_TRY(engine_make_lives(engine));
    TN_TRY(tn__statics_plan(&engine->statics, engine->program, engine->kernels, &engine->context,
                            engine->error));
    TN_TRY(tn_stream_create(engine->device, TN_STREAM_INLINE, &engine->stream, engine->error));
    TN_TRY(engine_make_bodies(engine, layout));
    TN_TRY(engine_make_pool(engine));
    TN_TRY(engine_take_memory(engine));
    TN_TRY(tn__control_make(engine));
    TN_TRY(tn__spans_make(engine));
    TN_TRY(tn__tell_make(engine));
    TN_TRY(tn__statics_fill(engine));
    engine_bind_views(engine);
    return TN_OK;
}

tn_status tn_engine_create(const tn_occupancy *occupancy, const tn_layout *layout,
                           const tn_kernels *kernels, tn_device *device,
                           const tn_engine_options *options, tn_engine **engine, tn_error *error) {
    tn_engine_options asked = TN_ENGINE_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context = tn__context(asked.context);
    tn_engine *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "an engine");
    made->context = context;
    made->occupancy = occupancy;
    made->program = tn_occupancy_program(occupancy);
    made->graph = tn_program_graph(made->program);
    made->kernels = kernels;
    made->device = device;
    made->options = asked;
    tn_error unwanted;
    made->error = error != NULL ? error : &unwanted;
    tn_status status = engine_set_up(made, layout);
    made->error = NULL;
    if (status != TN_OK) {
        tn_engine_destroy(made);
        return status;
    }
    *engine = made;
    return TN_OK;
}

void tn_engine_destroy(tn_engine *engine) {
    if (engine == NULL) return;
    tn_context context = engine->context;
    uint32_t tensors = tn_graph_tensor_count(engine->graph);
    uint32_t ops = tn_graph_op_count(engine->graph), steps = tn_program_count(engine->program);
    tn__statics_release(&engine->statics);
    tn__spans_release(engine);
    tn__control_release(engine);
    tn_pool_destroy(engine->pool);
    tn_device_free(engine->device, engine->arena_address);
    tn_device_free(engine->device, engine->static_address);
    tn_stream_destroy(engine->stream);
    tn__free(&context, engine->body_offset, engine->body_count * sizeof *engine->body_offset);
    tn__free(&context, engine->body_block, engine->body_count * sizeof *engine->body_block);
    tn__free(&context, engine->body_tag, engine->body_count * sizeof *engine->body_tag);
    tn__free(&context, engine->body_life, engine->body_count * sizeof *engine->body_life);
    tn__tell_release(engine);
    tn__free(&context, engine->held, engine->held_room * sizeof *engine->held);
    tn__free(&context, engine->operands, tensors * sizeof *engine->operands);
    tn__free(&context, engine->io, tensors * sizeof *engine->io);
    tn__free(&context, engine->extents, engine->extent_count * sizeof *engine->extents);
    tn__free(&context, engine->call_inputs, engine->call_input_room * sizeof *engine->call_inputs);
    tn__free(&context, engine->call_outputs,
             engine->call_output_room * sizeof *engine->call_outputs);
    tn__free(&context, engine->dynamic, ops * sizeof *engine->dynamic);
    tn__free(&context, engine->scratch, ENGINE_SCRATCH);
    tn__free(&context, engine->life_at, ((size_t)steps + 2) * sizeof *engine->life_at);
    tn_device_destroy(engine->own_device);
    tn__free(&context, engine, sizeof *engine);
}

/* --- a run --- */

static tn_status engine_check_input(const tn_engine *engine, tn_tensor_id id,
                                    const tn_array *array) {
    const tn_tensor *tensor = tn_graph_tensor(engine->graph, id);
    bool same = array->dtype == tensor->dtype && array->rank == tensor->rank;
    for (uint32_t d = 0; same && d < tensor->rank; d++) same = array->shape[d] == tensor->shape[d];
    if (same && array->bytes >= tensor->bytes && (array->data != NULL || tensor->bytes == 0))
        return TN_OK;
    char wanted[200];
    size_t used = 0;
    for (uint32_t d = 0; d < tensor->rank && used + 24 < sizeof wanted; d++)
        used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s%lld", d ? ", " : "",
                                 (long long)tensor->shape[d]);
    wanted[used] = 0;
    TN_FAIL(engine->error, TN_E_INVALID, "input '%.80s' has to be %s [%s]%s", tensor->name,
            tn_dtype_name(tensor->dtype), wanted, same ? ", all of it" : "");
}

static tn_status engine_check_arrays(tn_engine *engine, const tn_array *inputs,
                                     uint32_t input_count, const tn_array *outputs,
                                     uint32_t output_count) {
    const tn_block *block = tn_graph_block(engine->graph, 0);
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < block->input_count; i++) {
        tn_tensor_id id = block->inputs[i];
        if (tn_tensor_is_static(tn_graph_tensor(engine->graph, id))) continue;
        if (wanted < input_count) TN_TRY(engine_check_input(engine, id, &inputs[wanted]));
        engine->io[id] = wanted++;
    }
    if (wanted != input_count)
        TN_FAIL(engine->error, TN_E_INVALID, "%u inputs are given, the model has %u", input_count,
                wanted);
    if (output_count != block->output_count)
        TN_FAIL(engine->error, TN_E_INVALID, "%u outputs are given, the model has %u", output_count,
                block->output_count);
    for (uint32_t k = 0; k < output_count; k++) {
        const tn_tensor *tensor = tn_graph_tensor(engine->graph, block->outputs[k]);
        if (outputs[k].bytes < tensor->bytes)
            TN_FAIL(engine->error, TN_E_INVALID, "output '%.80s' needs %llu bytes, %llu are given",
                    tensor->name, (unsigned long long)tensor->bytes,
                    (unsigned long long)outputs[k].bytes);
    }
    return TN_OK;
}

/* What GET found, and what is static, in the caller's arrays. */
tn_status tn__engine_get(tn_engine *engine, tn_tensor_id id) {
    const tn_block *block = tn_graph_block(engine->graph, 0);
    const tn_operand *operand = &engine->operands[id];
    for (uint32_t k = 0; k < engine->output_count; k++) {
        if (block->outputs[k] != id) continue;
        tn_array *array = &engine->outputs[k];
        array->dtype = operand->dtype;
        array->rank = operand->rank;
        for (uint32_t d = 0; d < operand->rank; d++) array->shape[d] = operand->shape[d];
        array->bytes = tn__operand_bytes(operand);
        if (array->bytes > 0)
            TN_TRY(tn_device_get(engine->stream, array->data,
                                 tn__engine_address(engine, operand->data), array->bytes,
                                 engine->error));
    }
    return TN_OK;
}

tn_status tn__engine_put(tn_engine *engine, tn_tensor_id id) {
    const tn_array *array = &engine->inputs[engine->io[id]];
    uint64_t bytes = tn_graph_tensor(engine->graph, id)->bytes;
    if (bytes == 0) return TN_OK;
    return tn_device_put(engine->stream, tn__engine_address(engine, engine->operands[id].data),
                         array->data, bytes, engine->error);
}

tn_address tn__engine_address(const tn_engine *engine, const void *data) {
    const uint8_t *at = data;
    bool in_arena = at >= engine->arena && at < engine->arena + engine->arena_bytes;
    return in_arena ? engine->arena_address + (tn_address)(at - engine->arena)
                    : engine->static_address + (tn_address)(at - engine->memory);
}

static tn_status engine_run(tn_engine *engine, const tn_array *inputs, uint32_t input_count,
                            tn_array *outputs, uint32_t output_count) {
    TN_TRY(engine_check_arrays(engine, inputs, input_count, outputs, output_count));
    engine->inputs = inputs;
    engine->outputs = outputs;
    engine->input_count = input_count;
    engine->output_count = output_count;
    engine->random = engine->options.seed;
    engine_reset_extents(engine);
    double start = tn__clock_s();
    tn_status status = tn__spans_start(engine);
    if (status == TN_OK) status = tn__engine_steps(engine);
    if (status == TN_OK) status = tn__spans_check(engine);
    tn__spans_finish(engine);
    engine->trace_run++;
    const tn_block *block = tn_graph_block(engine->graph, 0);
    for (uint32_t k = 0; k < output_count && status == TN_OK; k++)
        if (tn_tensor_is_static(tn_graph_tensor(engine->graph, block->outputs[k])))
            status = tn__engine_get(engine, block->outputs[k]);
    if (status == TN_OK) status = tn_stream_wait(engine->stream, engine->error);
    engine->seconds = tn__clock_s() - start;
    if (status == TN_OK) engine->run_count++;
    return status;
}

tn_status tn_engine_run(tn_engine *engine, const tn_array *inputs, uint32_t input_count,
                        tn_array *outputs, uint32_t output_count, tn_error *error) {
    tn_error unwanted;
    engine->error = error != NULL ? error : &unwanted;
    tn_status status = engine_run(engine, inputs, input_count, outputs, output_count);
    engine->error = NULL;
    return status;
}

/* --- static memory, between runs --- */

static tn_status engine_static(tn_engine *engine, tn_tensor_id id, uint64_t size,
                               tn_address *address, tn_error *error) {
    bool known = id < tn_graph_tensor_count(engine->graph);
    const tn_tensor *tensor = known ? tn_graph_tensor(engine->graph, id) : NULL;
    if (!known || !tn_tensor_is_static(tensor) || engine->operands[id].data == NULL)
        TN_FAIL(error, TN_E_INVALID, "tensor %u is not kept in static memory", id);
    if (size != tensor->bytes)
        TN_FAIL(error, TN_E_INVALID, "'%.80s' has %llu bytes, not %llu", tensor->name,
                (unsigned long long)tensor->bytes, (unsigned long long)size);
    *address = tn__engine_address(engine, engine->operands[id].data);
    return TN_OK;
}

tn_status tn_engine_get_static(tn_engine *engine, tn_tensor_id id, void *bytes, uint64_t size,
                               tn_error *error) {
    tn_address address = 0;
    TN_TRY(engine_static(engine, id, size, &address, error));
    if (size == 0) return TN_OK;
    TN_TRY(tn_device_get(engine->stream, bytes, address, size, error));
    return tn_stream_wait(engine->stream, error);
}

tn_status tn_engine_set_static(tn_engine *engine, tn_tensor_id id, const void *bytes, uint64_t size,
                               tn_error *error) {
    tn_address address = 0;
    TN_TRY(engine_static(engine, id, size, &address, error));
    if (size == 0) return TN_OK;
    TN_TRY(tn_device_put(engine->stream, address, bytes, size, error));
    return tn_stream_wait(engine->stream, error);
}

/* --- what was measured --- */

void tn_engine_measure(const tn_engine *engine, tn_engine_usage *usage) {
    *usage = (tn_engine_usage){.planned_peak = engine->planned_peak,
                               .measured_peak = engine->measured,
                               .arena = engine->arena_bytes,
                               .static_bytes = engine->statics.bytes,
                               .run_count = engine->run_count,
                               .seconds = engine->seconds};
}

uint64_t tn_engine_static_bytes(const tn_occupancy *occupancy, const tn_kernels *kernels) {
    tn__statics statics;
    if (tn__statics_plan(&statics, tn_occupancy_program(occupancy), kernels, &kernels->context,
                         NULL) != TN_OK)
        return TN_SIZE_UNKNOWN;
    uint64_t bytes = statics.bytes;
    tn__statics_release(&statics);
    return bytes;
}

uint32_t tn_engine_static_blocks(const tn_occupancy *occupancy, const tn_kernels *kernels,
                                 tn_static_block *blocks, uint32_t room) {
    tn__statics statics;
    uint32_t count = 0;
    if (tn__statics_plan(&statics, tn_occupancy_program(occupancy), kernels, &kernels->context,
                         NULL) != TN_OK)
        return TN_NONE;
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(kernels->graph); t++) {
        if (statics.tensors[t].offset == TN_SIZE_UNKNOWN) continue;
        if (count < room)
            blocks[count] =
                (tn_static_block){t, TN_NONE, tn_graph_tensor(kernels->graph, t)->bytes};
        count++;
    }
    for (tn_op_id id = 0; id < kernels->count; id++) {
        const tn_op *op = tn_graph_op(kernels->graph, id);
        for (uint32_t i = 0; i < op->input_count && statics.packed[id] != NULL; i++) {
            if (statics.packed[id][i] == TN_SIZE_UNKNOWN) continue;
            if (count < room)
                blocks[count] =
                    (tn_static_block){op->inputs[i], id, kernels->choices[id].packed[i]};
            count++;
        }
    }
    tn__statics_release(&statics);
    return count;
}

tn_pool *tn_engine_pool(tn_engine *engine) { return engine->pool; }
