/* session.c - a session (tenure/run.h): compiles a model, creates an engine for it, and owns arrays
 * for its inputs and outputs.
 *
 * Rewriting a graph does not change the order of its inputs and outputs, so an array is found by
 * its index in the list of the given graph.
 */
#include <tenure/engine.h>
#include <tenure/run.h>

#include <string.h>

#include "base/base.h"
#include "fit/frame.h"

struct tn_session {
    tn_context context;
    const tn_graph *given, *graph; /* the graph of the caller, and the graph after rewrites */
    tn_graph *loaded;              /* the given graph if it was loaded from a file; else NULL */
    tn_contents *contents;         /* tensor data of the model file */
    tn_fit_answer answer;
    tn_setup *setup; /* the set-up of the engine, a part of `answer`, which owns it */
    tn_engine *engine;
    tn__arena arena; /* memory of the arrays and their data */
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
};

/* --- compiling a graph and opening its engine --- */

/* All options with which the graph is compiled. */
typedef struct session_asked {
    tn_setup_options setup;
    tn_rewrite_options rewrite;
    tn_kernels_options kernels;
    tn_recompute_options again;
    tn_program_options program;
    tn_plan_options plan;
} session_asked;

static void session_ask(const tn_session *session, const tn_session_options *options,
                        session_asked *asked) {
    bool trained = tn__graph_is_trained(session->given);
    *asked =
        (session_asked){TN_SETUP_OPTIONS_INIT,     TN_REWRITE_OPTIONS_INIT, TN_KERNELS_OPTIONS_INIT,
                        TN_RECOMPUTE_OPTIONS_INIT, TN_PROGRAM_OPTIONS_INIT, TN_PLAN_OPTIONS_INIT};
    asked->rewrite.use = trained ? TN_REWRITE_TRAINED : TN_REWRITE_TO_RUN;
    asked->rewrite.no_fuse = !trained && !options->fuse;
    asked->kernels.threads = options->threads;
    asked->kernels.plain = options->plain;
    asked->again.share = options->recompute;
    asked->again.cheap = options->recompute_cheap;
    asked->program.order = options->order;
    asked->plan.planner = options->planner;
    tn_setup_options *setup = &asked->setup;
    setup->context = &session->context;
    /* whether the caller divides the graph by its operators, so that rewrites must not change
     * them */
    bool staged = options->divide != NULL && options->divide->arranges;
    setup->rewrite = options->no_rewrite || options->plain || staged ? NULL : &asked->rewrite;
    setup->kernels = &asked->kernels;
    setup->recompute = &asked->again;
    setup->program = &asked->program;
    setup->plan = &asked->plan;
    setup->statics = options->statics;
    setup->without_reuse = options->naive;
    setup->divide = options->divide;
    setup->rules = options->rules;
}

static tn_status session_set_up(tn_session *session, const tn_session_options *options,
                                tn_error *error) {
    session_asked asked;
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    tn_fit_options search = TN_FIT_OPTIONS_INIT;
    session_ask(session, options, &asked);
    request.setup = &asked.setup;
    request.search = &search;
    request.storage_bytes_per_s = options->storage_bytes_per_s;
    search.budget = options->budget > 0 && !options->naive ? options->budget : UINT64_MAX;
    search.pass = options->pass;
    search.timeout_s = options->timeout_s;
    search.allow = options->allow;
    if (search.allow == 0 && options->stream)
        search.allow = TN_FIT_STREAM | (options->stream_parts ? TN_FIT_SPLIT : 0);
    TN_TRY(tn_fit_graph(session->given, &request, &session->answer, error));
    session->setup = session->answer.setup;
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

tn_array *tn_session_find(tn_session *session, const char *name) {
    const tn_block *block = tn_graph_block(session->given, 0);
    for (uint32_t i = 0; i < block->input_count; i++)
        if (strcmp(tn_graph_tensor(session->given, block->inputs[i])->name, name) == 0)
            return tn_session_array(session, block->inputs[i]);
    for (uint32_t k = 0; k < block->output_count; k++)
        if (strcmp(tn_graph_tensor(session->given, block->outputs[k])->name, name) == 0)
            return &session->outputs[k];
    return NULL;
}

/* --- loading a model file --- */

static tn_status session_read(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                              uint64_t size, tn_error *error) {
    return tn_contents_read(self, graph, tensor, bytes, size, error);
}

static tn_status session_where(void *self, const tn_graph *graph, tn_tensor_id tensor,
                               tn_file_range *range, bool *found, tn_error *error) {
    return tn_contents_where(self, graph, tensor, range, found, error);
}

static tn_status session_load(tn_session *session, const char *path,
                              const tn_import_options *import, tn_session_options *options,
                              tn_error *error) {
    tn_import_options loading = TN_IMPORT_OPTIONS_INIT;
    tn__options(&loading, sizeof loading, import);
    if (loading.context == NULL) loading.context = &session->context;
    if (options->read != NULL || options->where != NULL)
        TN_FAIL(error, TN_E_INVALID, "%.120s: `read` and `where` are for graphs, not for files",
                path);
    TN_TRY(tn_graph_load(path, &loading, &session->loaded, error));
    session->given = session->loaded;
    TN_TRY(options->make_weights
               ? tn_contents_generate(path, session->loaded, 1, loading.context, &session->contents,
                                      error)
               : tn_contents_open(path, loading.context, &session->contents, error));
    options->read = session_read;
    options->where = session_where;
    options->self = session->contents;
    options->fuse = !options->no_rewrite;
    return TN_OK;
}

/* --- opening, running and closing a session --- */

/* Opens a session for a graph, or for the file at `path` if `graph` is NULL. */
static tn_status session_open(const tn_graph *graph, const char *path,
                              const tn_import_options *import, const tn_session_options *options,
                              tn_session **session, tn_error *error) {
    tn_session_options asked = TN_SESSION_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context = tn__context(asked.context);
    tn_session *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a session");
    made->context = context;
    made->given = graph;
    tn__arena_init(&made->arena, &made->context);
    tn_status status = graph != NULL ? TN_OK : session_load(made, path, import, &asked, error);
    if (status == TN_OK) status = session_set_up(made, &asked, error);
    if (status == TN_OK) status = session_engine(made, &asked, error);
    if (status == TN_OK) status = session_arrays(made, error);
    if (status != TN_OK) {
        tn_session_close(made);
        return status;
    }
    *session = made;
    return TN_OK;
}

tn_status tn_session_open(const tn_graph *graph, const tn_session_options *options,
                          tn_session **session, tn_error *error) {
    return session_open(graph, NULL, NULL, options, session, error);
}

tn_status tn_session_open_file(const char *path, const tn_import_options *import,
                               const tn_session_options *options, tn_session **session,
                               tn_error *error) {
    return session_open(NULL, path, import, options, session, error);
}

tn_status tn_session_run(tn_session *session, tn_error *error) {
    const tn_block *block = tn_graph_block(session->graph, 0);
    for (uint32_t k = 0; k < session->output_count; k++)
        session->outputs[k].bytes = tn_graph_tensor(session->graph, block->outputs[k])->bytes;
    return tn_engine_run(session->engine, session->inputs, session->input_count, session->outputs,
                         session->output_count, error);
}

uint64_t tn_session_bytes(const tn_session *session) { return tn_setup_need(session->setup).total; }
tn_engine *tn_session_engine(tn_session *session) { return session->engine; }
const tn_setup *tn_session_setup(const tn_session *session) { return session->setup; }
const tn_graph *tn_session_graph(const tn_session *session) { return session->given; }

void tn_session_close(tn_session *session) {
    if (session == NULL) return;
    tn_context context = session->context;
    tn_engine_destroy(session->engine);
    tn_fit_answer_release(&session->answer);
    tn_contents_close(session->contents);
    tn_graph_destroy(session->loaded);
    tn__arena_release(&session->arena);
    tn__free(&context, session, sizeof *session);
}
