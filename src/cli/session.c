/* session.c - load, rewrite, kernels, plan, device, engine. */
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* --- up to the plan --- */

static tn_status session_contents(cli_session *session, tn_error *error) {
    const cli_input *input = session->input;
    if (session->weights_made_up)
        return tn_contents_generate(input->path, input->graph, session->weights_seed,
                                    input->import.context, &session->contents, error);
    return tn_contents_open(input->path, input->import.context, &session->contents, error);
}

static tn_status session_rewrite(cli_session *session, tn_error *error) {
    session->graph = session->input->graph;
    if (session->no_rewrite || session->plain) return TN_OK;
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    options.context = session->input->import.context;
    TN_TRY(tn_engine_rewrite(session->graph, &options, &session->rewritten, error));
    session->graph = session->rewritten;
    return TN_OK;
}

static tn_status session_kernels(cli_session *session, tn_error *error) {
    tn_kernels_options options = TN_KERNELS_OPTIONS_INIT;
    options.context = session->input->import.context;
    options.threads = session->threads;
    options.plain = session->plain;
    return tn_kernels_create(session->graph, &options, &session->kernels, error);
}

static tn_occupancy_options session_memory(const cli_session *session) {
    tn_occupancy_options options = session->input->occupancy_options;
    options.struct_size = sizeof options;
    options.alignment = session->input->alignment;
    options.workspaces = tn_kernels_workspaces(session->kernels);
    return options;
}

tn_status cli_session_plan(cli_session *session, tn_error *error) {
    cli_input *input = session->input;
    double start = cli_clock();
    TN_TRY(tn_graph_load(input->path, &input->import, &input->graph, error));
    TN_TRY(session_contents(session, error));
    cli_stage(input, "import", cli_clock() - start);
    start = cli_clock();
    TN_TRY(session_rewrite(session, error));
    TN_TRY(session_kernels(session, error));
    cli_stage(input, "kernels", cli_clock() - start);
    start = cli_clock();
    tn_occupancy_options memory = session_memory(session);
    tn_program_options order = TN_PROGRAM_OPTIONS_INIT;
    order.order = input->order;
    order.memory = &memory;
    TN_TRY(tn_program_plan(session->graph, &order, &memory, &session->plan, &session->program,
                           &session->occupancy, &session->layout, error));
    session->weights = tn_engine_static_bytes(session->occupancy, session->kernels);
    cli_stage(input, "plan", cli_clock() - start);
    return TN_OK;
}

uint64_t cli_session_need(const cli_session *session) {
    return tn__add_sat(session->layout.peak, session->weights);
}

/* --- up to the engine --- */

static tn_status session_read(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                              uint64_t size, tn_error *error) {
    return tn_contents_read(self, graph, tensor, bytes, size, error);
}

static tn_status session_engine(cli_session *session, const tn_layout *layout, tn_error *error) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    options.context = session->input->import.context;
    options.read = session_read;
    options.self = session->contents;
    options.seed = session->seed;
    options.poison = session->poison;
    options.trace = session->trace;
    options.pool = session->pool;
    /* Without a budget a pool may take what no pool here exceeds: it is reserved, not touched. */
    options.pool_capacity = session->budget;
    if (session->pool != NULL && session->budget == 0) {
        uint64_t naive = tn_occupancy_summary(session->occupancy).naive;
        options.pool_capacity =
            tn__add_sat(tn__mul_sat(tn__add_sat(naive, session->weights), 4), UINT64_C(256) << 20);
    }
    return tn_engine_create(session->occupancy, session->pool == NULL ? layout : NULL,
                            session->kernels, session->device, &options, &session->engine, error);
}

static tn_status session_device(cli_session *session, uint64_t capacity, tn_error *error) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    options.context = session->input->import.context;
    options.capacity = capacity;
    return tn_device_create(&options, &session->device, error);
}

tn_status cli_session_open(cli_session *session, tn_error *error) {
    char need[TN_SIZE_TEXT_MAX], arena[TN_SIZE_TEXT_MAX], weights[TN_SIZE_TEXT_MAX];
    if (session->pool == NULL && session->budget > 0 &&
        session->budget < cli_session_need(session)) {
        TN_FAIL(error, TN_E_EXHAUSTED, "the budget is too small; %s would do: arena %s, weights %s",
                tn_size_format(cli_session_need(session), need),
                tn_size_format(session->layout.peak, arena),
                tn_size_format(session->weights, weights));
    }
    TN_TRY(session_device(session, session->pool == NULL ? session->budget : 0, error));
    return session_engine(session, &session->layout, error);
}

/* --- memory of its own for everything --- */

/* One body behind the other. */
tn_status cli_layout_without_reuse(const tn_problem *problem, tn_layout *layout, tn_error *error) {
    uint32_t count = tn_problem_count(problem);
    uint64_t *offsets = calloc((size_t)count + 1, sizeof *offsets), at = 0;
    if (offsets == NULL) return tn__no_memory(error, "the plan without reuse");
    for (tn_body_id b = 0; b < count; b++) {
        const tn_body *body = tn_problem_body(problem, b);
        at = (at + body->alignment - 1) & ~(body->alignment - 1);
        offsets[b] = at;
        at += body->size;
    }
    tn_status status = tn_layout_from_offsets(problem, offsets, layout, error);
    free(offsets);
    return status;
}

tn_status cli_session_naive(const cli_session *session, cli_session *other, tn_error *error) {
    other->input = session->input;
    other->contents = session->contents;
    other->kernels = session->kernels;
    other->graph = session->graph;
    other->seed = session->seed;
    other->naive = true;
    tn_occupancy_options memory = session_memory(session);
    memory.inplace = TN_INPLACE_NONE;
    memory.no_views = true;
    memory.fuse_concat = false;
    TN_TRY(tn_occupancy_create(session->program, &memory, &other->occupancy, error));
    TN_TRY(cli_layout_without_reuse(tn_occupancy_problem(other->occupancy), &other->layout, error));
    TN_TRY(session_device(other, 0, error));
    return session_engine(other, &other->layout, error);
}

void cli_session_close(cli_session *session) {
    tn_engine_destroy(session->engine);
    tn_device_destroy(session->device);
    tn_layout_release(&session->layout);
    tn_occupancy_destroy(session->occupancy);
    if (session->naive) return; /* the rest belongs to the other */
    tn_program_destroy(session->program);
    tn_kernels_destroy(session->kernels);
    tn_graph_destroy(session->rewritten);
    tn_contents_close(session->contents);
}

/* --- arrays --- */

static tn_status arrays_room(const tn_tensor *tensor, tn_array *array, tn_error *error) {
    array->dtype = tensor->dtype;
    array->rank = tensor->rank;
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    array->bytes = tensor->bytes;
    array->data = calloc(1, tensor->bytes > 0 ? tensor->bytes : 1);
    return array->data != NULL ? TN_OK : tn__no_memory(error, "an input or an output");
}

/* Numbers that any model can take: reals in [-1, 1), integers and bools 0 or 1. */
static void arrays_draw(tn_array *array, const char *name, uint64_t seed) {
    tn__random random = {.state = seed};
    for (const char *at = name; *at != '\0'; at++) random.state = random.state * 31 + (uint8_t)*at;
    uint64_t width = tn_dtype_bits(array->dtype) / 8;
    for (uint64_t i = 0; width > 0 && i < array->bytes / width; i++) {
        uint64_t bits = tn__random_next(&random);
        double real = (double)(bits >> 11) * 0x1p-52 - 1;
        uint8_t *at = (uint8_t *)array->data + i * width;
        if (array->dtype == TN_FLOAT32)
            memcpy(at, &(float){(float)real}, 4);
        else if (array->dtype == TN_FLOAT64)
            memcpy(at, &real, 8);
        else if (array->dtype == TN_FLOAT16) /* +-1, +-0.5 */
            memcpy(at, &(uint16_t){(uint16_t)(0x3800u | (bits & 0x8000u) | (bits & 0x400u))}, 2);
        else
            at[0] = (uint8_t)(bits >> 63);
    }
}

static void arrays_fill_ones(tn_array *array) {
    uint64_t width = tn_dtype_bits(array->dtype) / 8;
    for (uint64_t i = 0; width > 0 && i < array->bytes / width; i++) {
        uint8_t *at = (uint8_t *)array->data + i * width;
        if (array->dtype == TN_FLOAT32)
            memcpy(at, &(float){1}, 4);
        else if (array->dtype == TN_FLOAT64)
            memcpy(at, &(double){1}, 8);
        else if (array->dtype == TN_FLOAT16)
            memcpy(at, &(uint16_t){0x3c00u}, 2);
        else if (array->dtype == TN_BFLOAT16)
            memcpy(at, &(uint16_t){0x3f80u}, 2);
        else
            at[0] = 1;
    }
}

static tn_status arrays_from_file(const tn_tensor *tensor, const char *path, tn_array *array,
                                  tn_error *error) {
    tn_array loaded = {0};
    TN_TRY(tn_array_load(path, NULL, &loaded, error));
    bool same = loaded.dtype == tensor->dtype && loaded.rank == tensor->rank;
    for (uint32_t d = 0; same && d < tensor->rank; d++) same = loaded.shape[d] == tensor->shape[d];
    if (same) memcpy(array->data, loaded.data, array->bytes);
    tn_status status = TN_OK;
    if (!same) {
        char shape[200] = "";
        size_t used = 0;
        for (uint32_t d = 0; d < tensor->rank && used + 24 < sizeof shape; d++)
            used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld", d ? "," : "",
                                     (long long)tensor->shape[d]);
        status =
            tn__fail(error, TN_E_INVALID, "%.100s does not hold %s [%s], which input '%.60s' needs",
                     path, tn_dtype_name(tensor->dtype), shape, tensor->name);
    }
    tn_array_release(&loaded, NULL);
    return status;
}

static tn_status arrays_input(const tn_tensor *tensor, const char *what, tn_array *array,
                              tn_error *error) {
    TN_TRY(arrays_room(tensor, array, error));
    uint64_t seed = 0;
    char *end;
    if (strcmp(what, "zeros") == 0) return TN_OK;
    if (strcmp(what, "ones") == 0) {
        arrays_fill_ones(array);
        return TN_OK;
    }
    if (strncmp(what, "random", 6) != 0 || (what[6] != '\0' && what[6] != ':'))
        return arrays_from_file(tensor, what, array, error);
    if (what[6] == ':') {
        seed = strtoull(what + 7, &end, 10);
        if (what[7] == '\0' || *end != '\0')
            TN_FAIL(error, TN_E_INVALID, "'%.80s' should read random:SEED", what);
    }
    arrays_draw(array, tensor->name, seed);
    return TN_OK;
}

tn_status cli_arrays_outputs(const tn_graph *graph, cli_arrays *arrays, tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    arrays->outputs = calloc((size_t)block->output_count + 1, sizeof *arrays->outputs);
    if (arrays->outputs == NULL) return tn__no_memory(error, "outputs");
    arrays->output_count = block->output_count;
    for (uint32_t k = 0; k < block->output_count; k++)
        TN_TRY(arrays_room(tn_graph_tensor(graph, block->outputs[k]), &arrays->outputs[k], error));
    return TN_OK;
}

static tn_status arrays_inputs(const tn_graph *graph, const cli_given *given, uint32_t given_count,
                               bool *used, cli_arrays *arrays, tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        const char *what = "random:0";
        if (tn_tensor_is_static(tensor)) continue;
        for (uint32_t g = 0; g < given_count; g++) {
            if (strcmp(given[g].name, tensor->name) != 0) continue;
            what = given[g].what;
            used[g] = true;
        }
        TN_TRY(arrays_input(tensor, what, &arrays->inputs[arrays->input_count++], error));
    }
    for (uint32_t g = 0; g < given_count; g++)
        if (!used[g])
            TN_FAIL(error, TN_E_INVALID, "--input: the model has no input '%.80s'", given[g].name);
    return TN_OK;
}

tn_status cli_arrays_make(const cli_session *session, const cli_given *given, uint32_t given_count,
                          cli_arrays *arrays, tn_error *error) {
    const tn_block *block = tn_graph_block(session->graph, 0);
    bool *used = calloc((size_t)given_count + 1, sizeof *used);
    arrays->inputs = calloc((size_t)block->input_count + 1, sizeof *arrays->inputs);
    tn_status status =
        used != NULL && arrays->inputs != NULL ? TN_OK : tn__no_memory(error, "inputs");
    if (status == TN_OK)
        status = arrays_inputs(session->graph, given, given_count, used, arrays, error);
    if (status == TN_OK) status = cli_arrays_outputs(session->graph, arrays, error);
    free(used);
    return status;
}

void cli_arrays_release(cli_arrays *arrays) {
    for (uint32_t i = 0; i < arrays->input_count; i++) free(arrays->inputs[i].data);
    for (uint32_t k = 0; k < arrays->output_count; k++) free(arrays->outputs[k].data);
    free(arrays->inputs);
    free(arrays->outputs);
}

const char *cli_output_name(const cli_session *session, uint32_t index) {
    const tn_block *block = tn_graph_block(session->graph, 0);
    return tn_graph_tensor(session->graph, block->outputs[index])->name;
}
