/* open_model.c - load, train, compile, open: from the file to an engine. */
#include "cli/ask.h"
#include "cli/open_model.h"
#include "cli/whom.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define SESSION_EVENTS_MAX (UINT64_C(1) << 22) /* 600 MiB */

/* --- up to the plan --- */

/* The weights of a weights file replace those of the model. */
static tn_status session_weights(cli_session *session, tn_error *error) {
    const char *path = session->weights_path;
    TN_TRY(tn_weights_open(path, session->input->import.context, &session->weights, error));
    tn_status status =
        tn_weights_bind(session->weights, session->input->graph, &session->weights_taken, error);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", path);
}

/* Loads the model and forgets the values of weights that another file or training will supply. */
static tn_status session_model(cli_session *session, tn_error *error) {
    cli_input *input = session->input;
    if (input->graph == NULL)
        TN_TRY(tn_graph_load(input->path, &input->import, &input->graph, error));
    if (session->weights_path != NULL && tn_weights_recognises(session->weights_path))
        TN_TRY(session_weights(session, error));
    else if (session->weights_path != NULL) {
        tn_graph *model;
        TN_TRY(tn_checkpoint_open(session->weights_path, input->import.context, &session->kept,
                                  error));
        TN_TRY(tn_checkpoint_model(session->kept, input->graph, &model, error));
        tn_graph_destroy(input->graph);
        input->graph = model;
    }
    if (session->training == NULL) return TN_OK;
    return cli_training_model(session->training, &input->graph, error);
}

/* For a run, data missing from the file are generated; for training, all trained weights. */
static tn_status session_contents(cli_session *session, tn_error *error) {
    const cli_input *input = session->input;
    const tn_context *context = input->import.context;
    if (session->contents != NULL) return TN_OK; /* another's */
    session->own_contents = true;
    if (!session->weights_made_up)
        return tn_contents_open(input->path, context, &session->contents, error);
    if (session->training == NULL)
        return tn_contents_generate(input->path, input->graph, session->weights_seed, context,
                                    &session->contents, error);
    TN_TRY(tn_contents_generate(NULL, input->graph, session->weights_seed, context, &session->fresh,
                                error));
    return tn_contents_open(input->path, context, &session->contents, error);
}

/* The graph to compile: the model, or a step of its training. */
static tn_status session_graph(cli_session *session, tn_error *error) {
    const cli_whom whom = cli_session_whom(session);
    session->graph = session->input->graph;
    if (session->training == NULL) return TN_OK;
    TN_TRY(cli_training_make(session->training, session->input->graph, cli_whom_rewrites(&whom),
                             &session->model, &session->step, error));
    session->graph = session->step.graph;
    return TN_OK;
}

cli_whom cli_session_whom(const cli_session *session) {
    cli_whom whom =
        cli_choices_whom(&session->choices, session->plain ? CLI_RUNNER_PLAIN : CLI_RUNNER_ONEDNN);
    whom.staged = session->divide != NULL && session->divide->arranges;
    return whom;
}

static tn_status session_prune(cli_session *session, tn_error *error) {
    tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
    if (session->prune == 0) return TN_OK;
    options.context = session->input->import.context;
    options.share = session->prune;
    options.scope = session->prune_scope;
    options.read = cli_session_read;
    options.self = session;
    return tn_prune(session->graph, &options, &session->pruning, error);
}

/* Seconds of the stages [first, last). */
static double session_seconds(const cli_session *session, tn_setup_stage first,
                              tn_setup_stage last) {
    double seconds = 0;
    for (tn_setup_stage at = first; at < last; at++)
        seconds += tn_setup_seconds(session->setup, at);
    return seconds;
}

tn_status cli_session_plan(cli_session *session, tn_error *error) {
    cli_input *input = session->input;
    double start = cli_clock();
    TN_TRY(session_model(session, error));
    TN_TRY(session_contents(session, error));
    cli_stage(input, "import", cli_clock() - start);
    start = cli_clock();
    TN_TRY(session_graph(session, error));
    TN_TRY(session_prune(session, error));
    double trained = cli_clock() - start;
    TN_TRY(cli_session_set_up(session, error));
    cli_stage(input, "kernels",
              trained + session_seconds(session, TN_SETUP_REWRITE, TN_SETUP_ORDER));
    cli_stage(input, "plan", session_seconds(session, TN_SETUP_ORDER, TN_SETUP_STAGE_COUNT));
    return TN_OK;
}

/* --- up to the engine --- */

/* Reads a tensor of the model or of the running graph; a rank may have only a part of it. */
static bool session_is_trained(const cli_session *session, const tn_graph *graph, tn_tensor_id id) {
    const tn_graph *step = graph == session->input->graph ? session->step.graph : graph;
    return step != NULL && (tn_graph_tensor(step, id)->flags & TN_TENSOR_UPDATED) != 0;
}

/* In a shard the whole tensor has no memory; it is read to fill the shard. */
static bool session_is_parameter(const tn_tensor *tensor) {
    bool shared = tensor->kind == TN_KIND_ACTIVATION && (tensor->flags & TN_TENSOR_UPDATED) != 0;
    return tensor->kind == TN_KIND_PARAMETER || shared;
}

static tn_status session_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                              uint64_t size, tn_error *error) {
    const cli_session *session = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (session->trained != NULL && tensor->kind == TN_KIND_PARAMETER &&
        tn_trainer_read(session->trained, tensor->name, bytes, size))
        return TN_OK;
    const tn_kept *kept =
        session->kept != NULL ? tn_checkpoint_find(session->kept, tensor->name) : NULL;
    if (session_is_parameter(tensor) && kept != NULL && kept->size == size) {
        memcpy(bytes, kept->bytes, size);
        return TN_OK;
    }
    if (session->weights != NULL && session_is_parameter(tensor) &&
        tn_weights_fill(session->weights, tensor, bytes, size))
        return TN_OK;
    bool fresh = session->fresh != NULL && session_is_trained(session, graph, id);
    return tn_contents_read(fresh ? session->fresh : session->contents, graph, id, bytes, size,
                            error);
}

tn_contents_of cli_session_contents(cli_session *session) {
    return (tn_contents_of){session_read, session, session->input->graph};
}

/* The same for the running graph; ranks may have parts of it. */
tn_status cli_session_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                           uint64_t size, tn_error *error) {
    cli_session *session = self;
    const tn_contents_of whole = cli_session_contents(session);
    if (session->training == NULL) return session_read(self, graph, id, bytes, size, error);
    return tn_training_read(&session->step, id, &whole, bytes, size, error);
}

/* The place of a tensor in a file, if it has the same bytes there. Trained or pruned weights have
 * none. */
tn_status cli_session_where(void *self, const tn_graph *graph, tn_tensor_id id,
                            tn_file_range *range, bool *found, tn_error *error) {
    const cli_session *session = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    *found = false;
    bool part = session->training != NULL && tn_training_part(&session->step, id) != NULL;
    if (part || session->trained != NULL || session->kept != NULL ||
        (session->fresh != NULL && (tensor->flags & TN_TENSOR_UPDATED) != 0))
        return TN_OK;
    if (session->weights != NULL && tensor->kind == TN_KIND_PARAMETER &&
        tn_weights_find(session->weights, tensor->name) != NULL) {
        *found = tn_weights_where(session->weights, tensor, range);
        return TN_OK;
    }
    return tn_contents_where(session->contents, graph, id, range, found, error);
}

/* Without a budget a pool gets more room than any pool needs: it is reserved, not touched. */
static uint64_t session_pool_room(const cli_session *session) {
    uint64_t naive = tn_occupancy_summary(tn_setup_occupancy(session->setup)).naive;
    uint64_t all = tn__add_sat(naive, tn_setup_need(session->setup).statics);
    return session->budget > 0 ? session->budget
                               : tn__add_sat(tn__mul_sat(all, 4), UINT64_C(256) << 20);
}

tn_status cli_session_open(cli_session *session, tn_error *error) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    device.context = options.context = session->input->import.context;
    device.capacity = session->pool == NULL ? session->budget : 0;
    device.link_bytes_per_s = session->link;
    options.read = cli_session_read;
    options.self = session;
    options.seed = session->seed;
    options.poison = session->poison;
    options.error_limit = session->max_error;
    options.trace = session->trace;
    options.exchange = session->exchange;
    options.where = cli_session_where;
    options.forms_folder = session->forms_folder;
    options.storage_bytes_per_s = session->storage;
    options.storage_cache = session->storage_cache;
    options.swap_device = session->swap_device;
    options.host_capacity = session->host_budget;
    options.swap_bytes_per_s = session->link;
    options.pool = session->pool;
    options.pool_capacity = session->pool != NULL ? session_pool_room(session) : 0;
    return tn_setup_open(session->setup, &device, &options, &session->engine, error);
}

/* --- the trace --- */

/* Room for the steps and for the begin and end of each block. Loops may produce more events; those
 * without room are counted. */
tn_status cli_session_open_trace(cli_session *session, uint64_t runs, tn_error *error) {
    if (session->traces.count == 0 && !session->traced) return TN_OK;
    const tn_program *program = tn_setup_program(session->setup);
    const tn_problem *problem = tn_occupancy_problem(tn_setup_occupancy(session->setup));
    uint64_t a_run = tn_program_count(program) + 2 * (uint64_t)tn_problem_count(problem);
    bool loops = tn_program_region_count(program) > 0;
    uint64_t room = tn__mul_sat(a_run * (loops ? 16 : 1), runs);
    room = tn__add_sat(room, 2 * (uint64_t)tn_graph_tensor_count(session->graph) + 16);
    if (room > SESSION_EVENTS_MAX) room = SESSION_EVENTS_MAX;
    return tn_trace_create(session->input->import.context, room, &session->trace, error);
}

static tn_status session_write_trace(const void *self, const char *path, tn_error *error) {
    const cli_session *session = self;
    tn_report report = {.struct_size = sizeof report,
                        .input = session->input->path,
                        .problem = tn_occupancy_problem(tn_setup_occupancy(session->setup)),
                        .occupancy = tn_setup_occupancy(session->setup),
                        .layout = session->pool == NULL ? tn_setup_layout(session->setup) : NULL,
                        .trace = session->trace};
    return tn_report_write(&report, path, error);
}

tn_status cli_session_write_trace(const cli_session *session, tn_error *error) {
    return cli_paths_write(&session->traces, session_write_trace, session, error);
}

/* --- separate memory for each tensor --- */

tn_status cli_session_naive(const cli_session *session, cli_session *other, tn_error *error) {
    other->input = session->input;
    other->training = session->training;
    other->contents = session->contents;
    other->kept = session->kept;
    other->weights = session->weights;
    other->fresh = session->fresh;
    other->step = session->step;
    other->seed = session->seed;
    other->exchange = session->exchange;
    other->forms_folder = session->forms_folder;
    other->naive = true;
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_occupancy_options memory = cli_ask_memory(session->input);
    options.memory = &memory;
    options.without_reuse = true;
    options.statics = session->input->statics;
    if (tn_setup_streamed(session->setup) != NULL) options.statics = TN_STATIC_ARENA;
    TN_TRY(tn_setup_from(session->setup, TN_SETUP_OCCUPY, &options, &other->setup, error));
    other->graph = tn_setup_graph(other->setup);
    return cli_session_open(other, error);
}

void cli_session_close(cli_session *session) {
    tn_engine_destroy(session->engine);
    if (session->answer.own == NULL) tn_setup_destroy(session->setup);
    tn_fit_answer_release(&session->answer);
    free(session->zeros);
    if (session->naive) return; /* the rest belongs to the other session */
    tn_pruning_release(&session->pruning);
    tn_training_release(&session->step);
    tn_graph_destroy(session->model);
    tn_trace_destroy(session->trace);
    tn_contents_close(session->fresh);
    if (session->weights_path != NULL) tn_checkpoint_close(session->kept);
    tn_weights_close(session->weights);
    if (session->own_contents) tn_contents_close(session->contents);
}
