/* engine.c - creates an engine for a program, runs the program from its inputs to its outputs, and
 * reports the engine's measurements.
 *
 * Creating the engine allocates everything that a run needs: the arena, static memory, and the
 * tables of all files that engine.h lists. A run allocates nothing, with one exception: host memory
 * for a tensor that needs more bytes than its planned encoded form has (encode.c).
 */
#include "engine/on_demand.h"

/* --- creating, running, measuring and destroying an engine --- */

static tn_status engine_check(const tn_engine *engine, const tn_layout *layout,
                              const tn_device *device) {
    tn_error *error = engine->executor.error;
    const tn_problem *problem = tn_occupancy_problem(engine->places.occupancy);
    if (!tn_device_limits_of(device).host_kernels)
        TN_FAIL(error, TN_E_UNSUPPORTED, "there are no kernels for this device");
    if (layout != NULL)
        TN_TRY(tn_layout_verify(problem, layout, NULL, error));
    else if (engine->options.pool == NULL)
        TN_FAIL(error, TN_E_INVALID, "neither a layout nor a pool is given");
    if (engine->options.trace != NULL && engine->options.poison)
        TN_FAIL(error, TN_E_INVALID, "a trace and poison do not go together");
    return TN_OK;
}

static tn_status engine_plan_statics(tn_engine *engine) {
    tn__readers readers;
    TN_TRY(tn__program_readers(engine->program, &engine->tables, &readers, engine->executor.error));
    return tn__statics_plan(&engine->statics, engine->kernels, &readers, &engine->context,
                            engine->executor.error);
}

static tn_status engine_take_memory(tn_engine *engine, tn_device *device) {
    const tn__places *places = &engine->places;
    bool inside = places->pool != NULL || places->static_count > 0;
    TN_TRY(tn__memory_take(&engine->memory, device, places->bytes, engine->statics.bytes, inside,
                           engine->executor.error));
    engine->places.arena = engine->memory.arena;
    /* with the option `warm`, writes to the whole arena now, so that the first accesses to its
     * pages (page faults) do not count as time of the operators */
    if (engine->options.warm && places->bytes > 0)
        memset(engine->memory.arena, 0, (size_t)places->bytes);
    return TN_OK;
}

static tn_status engine_fill_statics(tn_engine *engine) {
    bool stored = engine->store.count > 0;
    const tn__contents_source source = {.read = stored ? tn__store_read : engine->options.read,
                                        .self = stored ? &engine->store : engine->options.self,
                                        .told = tn__tell_static,
                                        .listener = &engine->tell};
    TN_TRY(tn__statics_fill(&engine->statics, &engine->executor, &source, engine->memory.statics));
    return tn__store_filled(&engine->store, &engine->statics, engine->executor.error);
}

/* Lists the operands that are views of static tensors, with their addresses. Such an operand is not
 * static by its own flags and has no live range. A run may copy such a view into memory of its own,
 * so each run begins by resetting these operands to the listed addresses. */
static tn_status engine_find_views(tn_engine *engine) {
    const tn_instruction *instructions = tn_program_instructions(engine->program);
    const tn_graph *graph = engine->executor.graph;
    tn_operand *operands = engine->executor.operands;
    engine->views =
        tn__arena_array(&engine->tables, tn_graph_tensor_count(graph), sizeof *engine->views);
    if (engine->views == NULL) return tn__no_memory(engine->executor.error, "views");
    for (uint32_t s = 0; s < tn_program_count(engine->program); s++) {
        if (instructions[s].opcode != TN_APPLY) continue;
        const tn_op *op = tn_graph_op(graph, instructions[s].op);
        for (uint32_t k = 0; k < op->output_count; k++) {
            if (op->outputs[k] == TN_NONE) continue;
            tn_view view = tn_op_view(graph, instructions[s].op, k);
            tn_operand *operand = &operands[op->outputs[k]];
            if (view.source == TN_NONE || operands[view.source].data == NULL) continue;
            /* skips an operand that has an address already: it is static, or an earlier step has
             * defined it */
            if (operand->data != NULL) continue;
            operand->data = (uint8_t *)operands[view.source].data + view.offset;
            engine->views[engine->view_count++] = (tn__bound){op->outputs[k], operand->data};
        }
    }
    return TN_OK;
}

/* Returns the bytes of host memory that may still be allocated: the host capacity without the
 * buffers for swapped tensors. UINT64_MAX means no limit. */
static uint64_t engine_host_left(const tn_engine *engine) {
    uint64_t capacity = engine->options.host_capacity, pool = engine->streams.host.size;
    if (capacity == 0) return UINT64_MAX;
    return capacity > pool ? capacity - pool : 0;
}

static tn_status engine_set_up(tn_engine *engine, const tn_occupancy *occupancy,
                               const tn_layout *layout, tn_device *device) {
    tn__executor *executor = &engine->executor;
    tn__arena *tables = &engine->tables;
    engine->places.occupancy = occupancy;
    TN_TRY(engine_check(engine, layout, device));
    TN_TRY(tn__executor_cover(executor));
    TN_TRY(tn__flow_make(&engine->flow, engine->program, executor, tables));
    TN_TRY(tn__engine_check(engine));
    TN_TRY(tn__io_make(&engine->io, executor, &engine->memory, tables));
    TN_TRY(tn__places_make(&engine->places, occupancy, layout, tables, executor->error));
    TN_TRY(engine_plan_statics(engine));
    TN_TRY(tn__store_make(&engine->store, engine->program, &engine->statics, &engine->options,
                          tables, executor->error));
    TN_TRY(tn__store_check(&engine->store, &engine->places, executor->error));
    if (engine->options.on_demand) TN_TRY(tn__on_demand_make(engine));
    if (engine->options.pool != NULL)
        TN_TRY(tn__engine_make_pool(engine));
    else if (engine->places.static_count > 0)
        TN_TRY(tn__engine_place_statics(engine));
    TN_TRY(engine_take_memory(engine, device));
    TN_TRY(tn__tell_make(&engine->tell, engine->options.trace, occupancy, tables, executor->error));
    TN_TRY(tn__streams_make(&engine->streams, engine->program, executor, &engine->memory,
                            &engine->tell, &engine->store, &engine->options, tables));
    TN_TRY(tn__forms_make(&engine->forms, engine->program, executor, &engine->context,
                          engine_host_left(engine), engine->options.error_limit, tables));
    TN_TRY(tn__spans_make(&engine->spans, &engine->places, &engine->tell, &engine->streams,
                          engine->options.poison, tables, executor->error));
    TN_TRY(engine_fill_statics(engine));
    TN_TRY(tn__row_cache_open(engine));
    TN_TRY(engine_find_views(engine));
    engine->planned_peak = layout != NULL ? layout->peak : 0;
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
    tn_error unwanted;
    made->context = context;
    made->program = tn_occupancy_program(occupancy);
    made->kernels = kernels;
    made->options = asked;
    tn__arena_init(&made->tables, &made->context);
    tn__executor_open(&made->executor, &made->context, tn_program_graph(made->program));
    made->executor.error = error != NULL ? error : &unwanted;
    tn_status status = engine_set_up(made, occupancy, layout, device);
    made->executor.error = NULL;
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
    tn__row_cache_close(&engine->row_cache);
    tn__store_release(&engine->store);
    tn__statics_release(&engine->statics);
    tn__on_demand_release(engine);
    tn__places_release(&engine->places);
    tn__streams_release(&engine->streams);
    tn__forms_release(&engine->forms);
    tn__memory_release(&engine->memory);
    tn__executor_close(&engine->executor);
    tn__arena_release(&engine->tables);
    tn__free(&context, engine, sizeof *engine);
}

/* --- a run --- */

/* Waits for all streams and chooses the status of the run. After a stream has failed, tensor data
 * is invalid, so an error that an operator reports is only a consequence: the stream's error is
 * returned. If the program communicates with other ranks, an operator's error is returned instead,
 * because the streams may have failed because of it. */
static tn_status engine_finish(tn_engine *engine, tn_status status) {
    tn_error said = {0};
    tn_status copied = tn__streams_finish(&engine->streams, &said);
    if (copied == TN_OK || (status != TN_OK && engine->streams.exchange != NULL)) return status;
    *engine->executor.error = said;
    return copied;
}

static tn_status engine_run(tn_engine *engine, const tn_array *inputs, uint32_t input_count,
                            tn_array *outputs, uint32_t output_count) {
    tn_error *error = engine->executor.error;
    TN_TRY(tn__io_begin(&engine->io, inputs, input_count, outputs, output_count));
    engine->executor.random = engine->options.seed;
    tn__executor_reset(&engine->executor);
    for (uint32_t i = 0; i < engine->view_count; i++)
        engine->executor.operands[engine->views[i].tensor].data = engine->views[i].data;
    tn__forms_start(&engine->forms);
    tn__row_cache_start(&engine->row_cache);
    double start = tn__clock_s();
    tn__streams_start(&engine->streams);
    tn__spans_start(&engine->spans);
    tn__on_demand_start(engine->places.on_demand);
    tn_status status = tn__engine_steps(engine);
    tn__on_demand_finish(engine->places.on_demand);
    status = engine_finish(engine, status);
    if (status == TN_OK) status = tn__spans_check(&engine->spans, error);
    tn__spans_finish(&engine->spans);
    engine->tell.run++;
    if (status == TN_OK) status = tn__io_get_statics(&engine->io);
    if (status == TN_OK) status = tn_stream_wait(engine->memory.stream, error);
    engine->seconds = tn__clock_s() - start;
    if (status == TN_OK) engine->run_count++;
    return status;
}

tn_status tn_engine_run(tn_engine *engine, const tn_array *inputs, uint32_t input_count,
                        tn_array *outputs, uint32_t output_count, tn_error *error) {
    tn_error unwanted;
    engine->executor.error = error != NULL ? error : &unwanted;
    tn_status status = engine_run(engine, inputs, input_count, outputs, output_count);
    engine->executor.error = NULL;
    return status;
}

/* --- measurements --- */

void tn_engine_measure(const tn_engine *engine, tn_engine_usage *usage) {
    *usage = (tn_engine_usage){.planned_peak = engine->planned_peak,
                               .measured_peak = engine->highest,
                               .arena = engine->places.bytes,
                               .static_bytes = engine->statics.bytes,
                               .host_bytes = engine->streams.host.size,
                               .host_peak = engine->streams.host.reached,
                               .out_bytes = engine->streams.out_bytes,
                               .in_bytes = engine->streams.in_bytes,
                               .raw_count = engine->forms.raw_count,
                               .spill_count = engine->forms.spill_count,
                               .spill_bytes = engine->forms.host_bytes,
                               .run_count = engine->run_count,
                               .kernel_streams = engine->streams.kernel_streams,
                               .seconds = engine->seconds,
                               .stall_seconds = engine->streams.stalled_s,
                               .talk_count = engine->streams.talk_count,
                               .talk_bytes = engine->streams.talk_bytes,
                               .talk_seconds = tn__talk_seconds(&engine->streams),
                               .fetch_bytes = engine->streams.fetch_bytes,
                               .fetch_seconds = tn__fetch_seconds(&engine->streams),
                               .forms_bytes = engine->store.formed,
                               .row_uses = engine->row_cache.uses,
                               .row_hits = engine->row_cache.hits,
                               .row_reads = engine->row_cache.reads,
                               .row_bytes = engine->row_cache.read_bytes,
                               .row_guesses = engine->row_cache.guesses,
                               .row_withheld = engine->row_cache.withheld,
                               .row_right = engine->row_cache.right,
                               .row_wait_seconds = engine->row_cache.waited_s};
    const tn__on_demand *passive = engine->places.on_demand;
    if (passive == NULL) return;
    usage->host_bytes = usage->host_peak = passive->host_peak;
    usage->out_bytes = passive->out_bytes;
    usage->in_bytes = passive->in_bytes;
    usage->stall_seconds = passive->out_s + passive->in_s;
}

uint32_t tn_engine_losses(const tn_engine *engine, tn_engine_loss *losses, uint32_t room) {
    const tn_graph *graph = engine->executor.graph;
    uint32_t count = 0;
    for (uint32_t i = 0; i < engine->forms.count; i++) {
        const tn__loss *it = &engine->forms.losses[i];
        if (it->measured == 0) continue;
        if (count < room)
            losses[count] = (tn_engine_loss){.name = tn_graph_tensor(graph, it->tensor)->name,
                                             .codec = it->codec,
                                             .bytes = it->bytes,
                                             .form_bytes = it->form_bytes,
                                             .measured = it->measured,
                                             .kept = it->kept,
                                             .largest = it->largest,
                                             .relative = it->relative};
        count++;
    }
    return count;
}

tn_pool *tn_engine_pool(tn_engine *engine) { return engine->places.pool; }
