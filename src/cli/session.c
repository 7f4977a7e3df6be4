/* session.c - load, rewrite or train, kernels, plan, device, engine. */
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define SESSION_EVENTS_MAX (UINT64_C(1) << 22) /* 600 MiB */

/* --- up to the plan --- */

/* The model, with nothing known of what others' weights or training will fill. */
static tn_status session_model(cli_session *session, tn_error *error) {
    cli_input *input = session->input;
    cli_checkpoint *kept = &session->kept;
    if (input->graph == NULL)
        TN_TRY(tn_graph_load(input->path, &input->import, &input->graph, error));
    if (session->weights_path != NULL) {
        TN_TRY(cli_checkpoint_open(session->weights_path, kept, error));
        cli_training before = {.options = TN_TRAIN_OPTIONS_INIT};
        before.options.loss = (tn_loss)kept->run.loss;
        TN_TRY(cli_training_model(&before, kept->parameters, kept->parameter_count, &input->graph,
                                  error));
        TN_TRY(cli_checkpoint_check(kept, input->graph, error));
    }
    if (session->training == NULL) return TN_OK;
    return cli_training_model(session->training, NULL, 0, &input->graph, error);
}

/* Of a run, what the file has not is made up; of training, all that is trained. */
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

/* The graph that runs: the model as kernels like it, or a step of its training. */
static tn_status session_graph(cli_session *session, tn_error *error) {
    bool rewrite = !session->choices.no_rewrite && !session->plain;
    session->graph = session->input->graph;
    if (session->training != NULL) {
        TN_TRY(cli_training_make(session->training, session->input->graph, rewrite,
                                 &session->rewritten, &session->step, error));
        session->graph = session->step.graph;
        return TN_OK;
    }
    if (!rewrite && session->weights_dtype == TN_UNDEFINED) return TN_OK;
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    options.no_fuse = options.no_formats = !rewrite;
    options.weights_dtype = session->weights_dtype;
    options.context = session->input->import.context;
    TN_TRY(tn_graph_rewrite(session->graph, &options, &session->rewritten, error));
    session->graph = session->rewritten;
    return TN_OK;
}

static tn_status session_kernels(cli_session *session, tn_error *error) {
    tn_kernels_options options = TN_KERNELS_OPTIONS_INIT;
    options.context = session->input->import.context;
    options.threads = session->choices.threads;
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

/* The kernels' scratch is part of what recomputation looks at. */
static tn_status session_recompute(cli_session *session, tn_error *error) {
    tn_occupancy_options memory = session_memory(session);
    bool done = false;
    if (session->training == NULL) return TN_OK;
    TN_TRY(cli_training_recompute(session->training, &memory, &session->step, &done, error));
    session->graph = session->step.graph;
    if (!done) return TN_OK;
    tn_kernels_destroy(session->kernels);
    session->kernels = NULL;
    return session_kernels(session, error);
}

tn_status cli_session_plan(cli_session *session, tn_error *error) {
    cli_input *input = session->input;
    double start = cli_clock();
    TN_TRY(session_model(session, error));
    TN_TRY(session_contents(session, error));
    cli_stage(input, "import", cli_clock() - start);
    start = cli_clock();
    TN_TRY(session_graph(session, error));
    TN_TRY(session_kernels(session, error));
    TN_TRY(session_recompute(session, error));
    cli_stage(input, "kernels", cli_clock() - start);
    start = cli_clock();
    tn_occupancy_options memory = session_memory(session);
    tn_program_options order = TN_PROGRAM_OPTIONS_INIT;
    order.order = input->order;
    order.memory = &memory;
    TN_TRY(tn_program_plan(session->graph, &order, &memory, &session->choices.plan,
                           &session->program, &session->occupancy, &session->layout, error));
    session->weights = tn_engine_static_bytes(session->occupancy, session->kernels);
    cli_stage(input, "plan", cli_clock() - start);
    return TN_OK;
}

uint64_t cli_session_need(const cli_session *session) {
    return tn__add_sat(session->layout.peak, session->weights);
}

/* --- up to the engine --- */

/* What another session has trained, in a graph of the same model. */
static bool session_read_trained(const cli_session *from, const tn_tensor *tensor, void *bytes,
                                 uint64_t size) {
    const tn_training *step = &from->step;
    uint32_t count = step->parameter_count + step->statistic_count;
    for (uint32_t i = 0; tensor->kind == TN_KIND_PARAMETER && i < count; i++) {
        tn_tensor_id id = i < step->parameter_count ? step->parameters[i].parameter
                                                    : step->statistics[i - step->parameter_count];
        const tn_tensor *trained = tn_graph_tensor(from->graph, id);
        if (strcmp(trained->name, tensor->name) == 0)
            return tn_engine_get_static(from->engine, id, bytes, size, NULL) == TN_OK;
    }
    return false;
}

static tn_status session_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                              uint64_t size, tn_error *error) {
    const cli_session *session = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (session->trained != NULL && session_read_trained(session->trained, tensor, bytes, size))
        return TN_OK;
    const cli_kept *kept = cli_checkpoint_find(&session->kept, tensor->name);
    if (tensor->kind == TN_KIND_PARAMETER && kept != NULL && kept->size == size) {
        memcpy(bytes, kept->bytes, size);
        return TN_OK;
    }
    bool fresh = session->fresh != NULL && (tensor->flags & TN_TENSOR_UPDATED) != 0;
    return tn_contents_read(fresh ? session->fresh : session->contents, graph, id, bytes, size,
                            error);
}

static tn_status session_engine(cli_session *session, const tn_layout *layout, tn_error *error) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    options.context = session->input->import.context;
    options.read = session_read;
    options.self = session;
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
    options.link_bytes_per_s = session->link;
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

/* --- what happened --- */

/* Steps, and for each block its beginning and end. Loops may tell more; what has no room is
 * counted. */
tn_status cli_session_open_trace(cli_session *session, uint64_t runs, tn_error *error) {
    if (session->trace_path == NULL) return TN_OK;
    uint64_t a_run = tn_program_count(session->program) +
                     2 * (uint64_t)tn_problem_count(tn_occupancy_problem(session->occupancy));
    bool loops = tn_program_region_count(session->program) > 0;
    uint64_t room = tn__mul_sat(a_run * (loops ? 16 : 1), runs);
    room = tn__add_sat(room, 2 * (uint64_t)tn_graph_tensor_count(session->graph) + 16);
    if (room > SESSION_EVENTS_MAX) room = SESSION_EVENTS_MAX;
    return tn_trace_create(session->input->import.context, room, &session->trace, error);
}

tn_status cli_session_write_trace(const cli_session *session, tn_error *error) {
    if (session->trace_path == NULL) return TN_OK;
    tn_report report = {.struct_size = sizeof report,
                        .input = session->input->path,
                        .problem = tn_occupancy_problem(session->occupancy),
                        .occupancy = session->occupancy,
                        .layout = &session->layout,
                        .trace = session->trace};
    return tn_report_write(&report, session->trace_path, error);
}

/* --- memory of its own for everything --- */

tn_status cli_session_naive(const cli_session *session, cli_session *other, tn_error *error) {
    other->input = session->input;
    other->training = session->training;
    other->contents = session->contents;
    other->kept = session->kept;
    other->fresh = session->fresh;
    other->kernels = session->kernels;
    other->graph = session->graph;
    other->seed = session->seed;
    other->naive = true;
    tn_occupancy_options memory = session_memory(session);
    memory.inplace = TN_INPLACE_NONE;
    memory.no_views = true;
    memory.fuse_concat = false;
    TN_TRY(tn_occupancy_create(session->program, &memory, &other->occupancy, error));
    TN_TRY(tn_layout_without_reuse(tn_occupancy_problem(other->occupancy), &other->layout, error));
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
    tn_training_release(&session->step);
    tn_graph_destroy(session->rewritten);
    tn_trace_destroy(session->trace);
    tn_contents_close(session->fresh);
    if (session->weights_path != NULL) cli_checkpoint_close(&session->kept);
    if (session->own_contents) tn_contents_close(session->contents);
}
