/* session.c - a graph, planned and set up in one call.
 *
 * A rewritten graph has inputs and outputs in the order of the graph that was given, so arrays are
 * found by their place in its lists.
 */
#include <tenure/session.h>

#include <string.h>

#include "base/base.h"

struct tn_session {
    tn_context context;
    const tn_graph *given, *graph; /* as it was, and as it runs */
    tn_graph *rewritten;
    tn_kernels *kernels;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_device *device;
    tn_engine *engine;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
};

/* --- the plan --- */

/* Whether it is the graph of a training step: operators write into what is static. */
static bool session_is_trained(const tn_graph *graph) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        if (tn_graph_tensor(graph, id)->flags & TN_TENSOR_UPDATED) return true;
    return false;
}

static tn_status session_rewrite(tn_session *session, const tn_session_options *options,
                                 tn_error *error) {
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    session->graph = session->given;
    if (options->no_rewrite || options->plain) return TN_OK;
    rewrite.context = &session->context;
    bool trained = session_is_trained(session->given);
    rewrite.use = trained ? TN_REWRITE_TRAINED : TN_REWRITE_TO_RUN;
    rewrite.no_fuse = !trained && !options->fuse;
    TN_TRY(tn_graph_rewrite(session->given, &rewrite, &session->rewritten, error));
    session->graph = session->rewritten;
    return TN_OK;
}

static tn_status session_kernels(tn_session *session, const tn_session_options *options,
                                 tn_error *error) {
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    kernels.context = &session->context;
    kernels.threads = options->threads;
    kernels.plain = options->plain;
    return tn_kernels_create(session->graph, &kernels, &session->kernels, error);
}

/* The kernels' scratch is part of what recomputation looks at; the new graph wants its own. */
static tn_status session_recompute(tn_session *session, const tn_session_options *options,
                                   tn_error *error) {
    tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_graph *made;
    if (options->recompute == 0) return TN_OK;
    memory.workspaces = tn_kernels_workspaces(session->kernels);
    again.context = &session->context;
    again.memory = &memory;
    again.share = options->recompute;
    again.cheap = options->recompute_cheap;
    TN_TRY(tn_budget_recompute(session->graph, &again, &made, NULL, error));
    tn_kernels_destroy(session->kernels);
    session->kernels = NULL;
    tn_graph_destroy(session->rewritten);
    session->graph = session->rewritten = made;
    return session_kernels(session, options, error);
}

static tn_status session_plan(tn_session *session, const tn_session_options *options,
                              tn_error *error) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    plan.context = &session->context;
    TN_TRY(session_kernels(session, options, error));
    TN_TRY(session_recompute(session, options, error));
    memory.workspaces = tn_kernels_workspaces(session->kernels);
    program.order = options->order;
    program.memory = &memory;
    plan.planner = options->planner;
    if (!options->naive)
        return tn_program_plan(session->graph, &program, &memory, &plan, &session->program,
                               &session->occupancy, &session->layout, error);
    TN_TRY(tn_program_create(session->graph, &program, &session->program, error));
    memory.inplace = TN_INPLACE_NONE;
    memory.no_views = true;
    TN_TRY(tn_occupancy_create(session->program, &memory, &session->occupancy, error));
    return tn_layout_without_reuse(tn_occupancy_problem(session->occupancy), &session->layout,
                                   error);
}

/* --- the engine --- */

static tn_status session_engine(tn_session *session, const tn_session_options *options,
                                tn_error *error) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    char need[TN_SIZE_TEXT_MAX];
    uint64_t weights = tn_engine_static_bytes(session->occupancy, session->kernels);
    uint64_t total = tn__add_sat(session->layout.peak, weights);
    if (weights == TN_SIZE_UNKNOWN) return tn__no_memory(error, "constants");
    if (options->budget > 0 && total > options->budget)
        TN_FAIL(error, TN_E_EXHAUSTED, "the budget is too small; %s would do",
                tn_size_format(total, need));
    device.context = engine.context = &session->context;
    device.capacity = total; /* one byte more would be a broken promise */
    engine.read = options->read;
    engine.self = options->self;
    engine.seed = options->seed;
    engine.poison = options->poison;
    TN_TRY(tn_device_create(&device, &session->device, error));
    return tn_engine_create(session->occupancy, &session->layout, session->kernels, session->device,
                            &engine, &session->engine, error);
}

/* --- arrays --- */

static tn_status session_make_array(tn_session *session, tn_tensor_id id, tn_array *array,
                                    tn_error *error) {
    const tn_tensor *tensor = tn_graph_tensor(session->graph, id);
    if (tensor->bytes == TN_SIZE_UNKNOWN || tensor->rank > TN_RANK_MAX)
        TN_FAIL(error, TN_E_UNKNOWN, "the size of '%.80s' is not known", tensor->name);
    *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *array->shape);
    array->data = tn__alloc_array(&session->context, tensor->bytes + 1, 1);
    return array->data != NULL ? TN_OK : tn__no_memory(error, "an input or an output");
}

static tn_status session_arrays(tn_session *session, tn_error *error) {
    const tn_block *block = tn_graph_block(session->graph, 0);
    session->inputs =
        tn__alloc_array(&session->context, (size_t)block->input_count + 1, sizeof *session->inputs);
    session->outputs = tn__alloc_array(&session->context, (size_t)block->output_count + 1,
                                       sizeof *session->outputs);
    if (session->inputs == NULL || session->outputs == NULL)
        return tn__no_memory(error, "inputs and outputs");
    for (uint32_t i = 0; i < block->input_count; i++) {
        if (tn_tensor_is_static(tn_graph_tensor(session->graph, block->inputs[i]))) continue;
        TN_TRY(session_make_array(session, block->inputs[i], &session->inputs[session->input_count],
                                  error));
        session->input_count++;
    }
    for (uint32_t k = 0; k < block->output_count; k++) {
        TN_TRY(session_make_array(session, block->outputs[k], &session->outputs[k], error));
        session->output_count++;
    }
    return TN_OK;
}

tn_array *tn_session_array(tn_session *session, tn_tensor_id tensor) {
    const tn_block *block = tn_graph_block(session->given, 0);
    for (uint32_t i = 0, at = 0; i < block->input_count; i++) {
        if (tn_tensor_is_static(tn_graph_tensor(session->given, block->inputs[i]))) continue;
        if (block->inputs[i] == tensor) return &session->inputs[at];
        at++;
    }
    for (uint32_t k = 0; k < block->output_count; k++)
        if (block->outputs[k] == tensor) return &session->outputs[k];
    return NULL;
}

/* --- the calls --- */

tn_status tn_session_open(const tn_graph *graph, const tn_session_options *options,
                          tn_session **session, tn_error *error) {
    tn_session_options asked = TN_SESSION_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context = tn__context(asked.context);
    tn_session *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a session");
    made->context = context;
    made->given = graph;
    tn_status status = session_rewrite(made, &asked, error);
    if (status == TN_OK) status = session_plan(made, &asked, error);
    if (status == TN_OK) status = session_engine(made, &asked, error);
    if (status == TN_OK) status = session_arrays(made, error);
    if (status != TN_OK) {
        tn_session_close(made);
        return status;
    }
    *session = made;
    return TN_OK;
}

tn_status tn_session_run(tn_session *session, tn_error *error) {
    const tn_block *block = tn_graph_block(session->graph, 0);
    for (uint32_t k = 0; k < session->output_count; k++)
        session->outputs[k].bytes = tn_graph_tensor(session->graph, block->outputs[k])->bytes;
    return tn_engine_run(session->engine, session->inputs, session->input_count, session->outputs,
                         session->output_count, error);
}

tn_engine *tn_session_engine(tn_session *session) { return session->engine; }
const tn_occupancy *tn_session_occupancy(const tn_session *session) { return session->occupancy; }
const tn_layout *tn_session_layout(const tn_session *session) { return &session->layout; }

static void session_free_arrays(tn_session *session, const tn_tensor_id *ids, tn_array *arrays,
                                uint32_t count, bool skip_static) {
    for (uint32_t i = 0, at = 0; at < count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(session->graph, ids[i]);
        if (skip_static && tn_tensor_is_static(tensor)) continue;
        tn__free(&session->context, arrays[at++].data, tensor->bytes + 1);
    }
}

void tn_session_close(tn_session *session) {
    if (session == NULL) return;
    tn_context context = session->context;
    if (session->graph != NULL) {
        const tn_block *block = tn_graph_block(session->graph, 0);
        session_free_arrays(session, block->inputs, session->inputs, session->input_count, true);
        session_free_arrays(session, block->outputs, session->outputs, session->output_count,
                            false);
        tn__free(&context, session->inputs,
                 ((size_t)block->input_count + 1) * sizeof *session->inputs);
        tn__free(&context, session->outputs,
                 ((size_t)block->output_count + 1) * sizeof *session->outputs);
    }
    tn_engine_destroy(session->engine);
    tn_device_destroy(session->device);
    tn_layout_release(&session->layout);
    tn_occupancy_destroy(session->occupancy);
    tn_program_destroy(session->program);
    tn_kernels_destroy(session->kernels);
    tn_graph_destroy(session->rewritten);
    tn__free(&context, session, sizeof *session);
}
