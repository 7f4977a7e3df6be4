/* session.c - a set-up with an engine on it, and arrays for what goes in and comes out.
 *
 * A rewritten graph has inputs and outputs in the order of the graph that was given, so arrays are
 * found by their place in its lists.
 */
#include <tenure/session.h>

#define SESSION_STORAGE 1e9 /* bytes a second, of a file that nobody measured */

#include <string.h>

#include "base/base.h"

struct tn_session {
    tn_context context;
    const tn_graph *given, *graph; /* as it was, and as it runs */
    tn_setup *setup;
    tn_engine *engine;
    tn__arena arena; /* the arrays and their bytes */
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
};

/* --- set-up and engine --- */

/* Whether it is the graph of a training step: operators write into what is static. */
static bool session_is_trained(const tn_graph *graph) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        if (tn_graph_tensor(graph, id)->flags & TN_TENSOR_UPDATED) return true;
    return false;
}

static tn_status session_set_up(tn_session *session, const tn_session_options *options,
                                tn_error *error) {
    tn_setup_options setup = TN_SETUP_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    bool trained = session_is_trained(session->given);
    rewrite.use = trained ? TN_REWRITE_TRAINED : TN_REWRITE_TO_RUN;
    rewrite.no_fuse = !trained && !options->fuse;
    kernels.threads = options->threads;
    kernels.plain = options->plain;
    again.share = options->recompute;
    again.cheap = options->recompute_cheap;
    program.order = options->order;
    plan.planner = options->planner;
    fit.budget = options->budget;
    fit.pass = options->pass;
    bool keep = options->pass != NULL && strcmp(options->pass, "keep") == 0;
    setup.context = &session->context;
    bool staged = options->divide != NULL && options->divide->arranges; /* by the operators given */
    setup.rewrite = options->no_rewrite || options->plain || staged ? NULL : &rewrite;
    setup.kernels = &kernels;
    setup.recompute = &again;
    setup.program = &program;
    setup.plan = &plan;
    tn_setup_stream stream = {.budget = options->budget,
                              .bytes_per_s = options->storage_bytes_per_s,
                              .latency_s = TN__READ_S,
                              .parts = options->stream_parts};
    if (stream.bytes_per_s == 0) stream.bytes_per_s = SESSION_STORAGE;
    if (options->stream && options->budget > 0) setup.stream = &stream;
    setup.fit = keep || setup.stream != NULL ? NULL : &fit;
    setup.statics = options->statics;
    setup.without_reuse = options->naive;
    setup.divide = options->divide;
    TN_TRY(tn_setup_create(session->given, &setup, &session->setup, error));
    session->graph = tn_setup_graph(session->setup);
    return TN_OK;
}

static tn_status session_engine(tn_session *session, const tn_session_options *options,
                                tn_error *error) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    device.capacity = options->budget;
    engine.read = options->read;
    engine.self = options->self;
    engine.seed = options->seed;
    engine.poison = options->poison;
    engine.exchange = options->exchange;
    engine.where = options->where;
    return tn_setup_open(session->setup, &device, &engine, &session->engine, error);
}

/* --- arrays --- */

static tn_status session_make_array(tn_session *session, tn_tensor_id id, tn_array *array,
                                    tn_error *error) {
    const tn_tensor *tensor = tn_graph_tensor(session->graph, id);
    if (tensor->bytes == TN_SIZE_UNKNOWN || tensor->rank > TN_RANK_MAX)
        TN_FAIL(error, TN_E_UNKNOWN, "the size of '%.80s' is not known", tensor->name);
    *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *array->shape);
    array->data = tn__arena_alloc(&session->arena, tensor->bytes);
    return array->data != NULL ? TN_OK : tn__no_memory(error, "an input or an output");
}

static tn_status session_arrays(tn_session *session, tn_error *error) {
    const tn_block *block = tn_graph_block(session->graph, 0);
    session->inputs = tn__arena_array(&session->arena, block->input_count, sizeof *session->inputs);
    session->outputs =
        tn__arena_array(&session->arena, block->output_count, sizeof *session->outputs);
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
    tn__arena_init(&made->arena, &made->context);
    tn_status status = session_set_up(made, &asked, error);
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
const tn_setup *tn_session_setup(const tn_session *session) { return session->setup; }

void tn_session_close(tn_session *session) {
    if (session == NULL) return;
    tn_context context = session->context;
    tn_engine_destroy(session->engine);
    tn_setup_destroy(session->setup);
    tn__arena_release(&session->arena);
    tn__free(&context, session, sizeof *session);
}
