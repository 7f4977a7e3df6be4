/* open_model.c - load, train, set up, open: from the file to an engine. */
#include "cli/open_model.h"
#include "cli/split.h"
#include "cli/whom.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define SESSION_SAMPLE (UINT64_C(1) << 20)
#define SESSION_READ_S 100e-6                  /* that a read takes beside its bytes */
#define SESSION_EVENTS_MAX (UINT64_C(1) << 22) /* 600 MiB */

/* --- up to the plan --- */

/* Weights of a file of weights go in the place of the model's. */
static tn_status session_weights(cli_session *session, tn_error *error) {
    const char *path = session->weights_path;
    TN_TRY(tn_weights_open(path, NULL, &session->weights, error));
    tn_status status =
        tn_weights_bind(session->weights, session->input->graph, &session->weights_taken, error);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", path);
}

/* The model, with nothing known of what others' weights or training will fill. */
static tn_status session_model(cli_session *session, tn_error *error) {
    cli_input *input = session->input;
    if (input->graph == NULL)
        TN_TRY(tn_graph_load(input->path, &input->import, &input->graph, error));
    if (session->weights_path != NULL && tn_weights_recognises(session->weights_path))
        TN_TRY(session_weights(session, error));
    else if (session->weights_path != NULL) {
        tn_graph *model;
        TN_TRY(tn_checkpoint_open(session->weights_path, NULL, &session->kept, error));
        TN_TRY(tn_checkpoint_model(session->kept, input->graph, &model, error));
        tn_graph_destroy(input->graph);
        input->graph = model;
    }
    if (session->training == NULL) return TN_OK;
    return cli_training_model(session->training, &input->graph, error);
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

/* The graph that is set up: the model, or a step of its training. */
static tn_status session_graph(cli_session *session, tn_error *error) {
    const cli_whom whom = cli_session_whom(session);
    session->graph = session->input->graph;
    if (session->training == NULL) return TN_OK;
    TN_TRY(cli_training_make(session->training, session->input->graph, cli_whom_rewrites(&whom),
                             &session->model, &session->step, error));
    session->graph = session->step.graph;
    return TN_OK;
}

static tn_occupancy_options session_memory(const cli_session *session) {
    tn_occupancy_options options = session->input->occupancy_options;
    options.struct_size = sizeof options;
    options.alignment = session->input->alignment;
    return options;
}

cli_whom cli_session_whom(const cli_session *session) {
    return (cli_whom){.runner = session->plain ? CLI_RUNNER_PLAIN : CLI_RUNNER_ONEDNN,
                      .threads = session->choices.threads,
                      .no_rewrite = session->choices.no_rewrite,
                      .fastest = session->choices.fastest};
}

static tn_status session_where(void *self, const tn_graph *graph, tn_tensor_id id,
                               tn_file_range *range, bool *found, tn_error *error);
static tn_status session_read_part(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                                   uint64_t size, tn_error *error);

static tn_status session_prune(cli_session *session, tn_error *error) {
    tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
    if (session->prune == 0) return TN_OK;
    options.context = session->input->import.context;
    options.share = session->prune;
    options.scope = session->prune_scope;
    options.read = session_read_part;
    options.self = session;
    return tn_prune(session->graph, &options, &session->pruning, error);
}

/* A plan that is too large is fitted: by running operators again, where there is a link by copies
 * over it, and by codecs that were named. */
static tn_fit_options session_fit(const cli_session *session) {
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    bool keep = session->pool != NULL || session->naive ||
                (session->pass != NULL && strcmp(session->pass, "keep") == 0);
    fit.context = session->input->import.context;
    fit.budget = keep ? 0 : session->budget;
    fit.pass = session->pass;
    fit.allow = session->allow != 0 ? session->allow : TN_FIT_ORDER | TN_FIT_RECOMPUTE;
    fit.allow &= ~(CLI_ALLOW_SPLIT | CLI_ALLOW_STREAM);
    fit.codecs = session->codecs;
    if (session->codecs != 0) fit.allow |= TN_FIT_COMPRESS;
    if (cli_codecs_lose(session->codecs)) fit.allow |= TN_FIT_LOSSY;
    fit.host_budget = session->host_budget;
    fit.to_host_bytes_per_s = session->to_swap;
    fit.from_host_bytes_per_s = session->from_swap;
    return fit;
}

/* The plan as it is, then within the budget: what is asked about the graph as it runs comes in
 * between: costs that were given, and zeros for codecs. */
static tn_status session_make_twice(cli_session *session, tn_setup_options *options,
                                    tn_fit_options *fit, tn_error *error) {
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    tn_setup *plain;
    tn_costs *costs = NULL;
    float *zeros = NULL;
    options->fit = NULL;
    TN_TRY(tn_setup_create(session->graph, options, &plain, error));
    engine.read = session_read_part;
    engine.self = session;
    engine.context = session->input->import.context;
    tn_status status = TN_OK;
    if (cli_costs_given(&session->from))
        status =
            cli_costs_make(&session->from, tn_setup_graph(plain), options->context, &costs, error);
    bool counts = (session->codecs >> TN_CODEC_CSR & 1) != 0;
    if (status == TN_OK && counts && tn_setup_need(plain).total > fit->budget)
        status = cli_zeros(plain, &engine, &session->samples, &zeros, error);
    fit->zeros = zeros;
    options->fit = fit;
    options->costs = costs;
    if (status == TN_OK)
        status = tn_setup_from(plain, TN_SETUP_FIT, options, &session->setup, error);
    options->costs = NULL;
    tn_costs_destroy(costs);
    tn_setup_destroy(plain);
    free(zeros);
    return status;
}

/* How fast weights come: of the file with the largest that is read from where it is, or of the
 * folder where they will be kept. */
static tn_status session_storage(cli_session *session, tn_error *error) {
    const tn_graph *graph = session->graph;
    const char *path = session->forms_folder != NULL ? session->forms_folder : getenv("TMPDIR");
    uint64_t most = SESSION_SAMPLE; /* less tells no speed */
    if (path == NULL || *path == '\0') path = "/tmp";
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        tn_file_range range;
        bool found;
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        if (!tn_tensor_is_constant(tensor) || tensor->producer != TN_NONE) continue;
        TN_TRY(session_where(session, graph, id, &range, &found, error));
        if (!found || range.size <= most) continue;
        most = range.size;
        path = range.path;
    }
    return tn_storage_measure(path, &session->storage, error);
}

/* Weights come and go: all else stays as it is planned. */
static tn_status session_make_streamed(cli_session *session, tn_setup_options *options,
                                       tn_error *error) {
    tn_setup_stream stream = {.budget = session->budget, .latency_s = SESSION_READ_S};
    tn_setup *plain;
    tn_costs *costs = NULL;
    bool given = session->storage > 0;
    if (session->training != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "weights that are trained stay: --allow stream is for running a model");
    if (!given) TN_TRY(session_storage(session, error));
    stream.bytes_per_s = session->storage;
    if (!given) session->storage = 0; /* as fast as it goes */
    options->stream = &stream;
    stream.parts = (session->allow & CLI_ALLOW_SPLIT) != 0;
    if (!cli_costs_given(&session->from)) {
        tn_status status = tn_setup_create(session->graph, options, &session->setup, error);
        options->stream = NULL;
        return status;
    }
    options->stream = NULL;
    TN_TRY(tn_setup_create(session->graph, options, &plain, error));
    tn_status status =
        cli_costs_make(&session->from, tn_setup_graph(plain), options->context, &costs, error);
    options->costs = costs;
    options->stream = &stream;
    if (status == TN_OK)
        status = tn_setup_from(plain, TN_SETUP_STREAM, options, &session->setup, error);
    options->costs = NULL;
    options->stream = NULL;
    tn_costs_destroy(costs);
    tn_setup_destroy(plain);
    return status;
}

/* What cannot be made to fit is planned as it is, so that its holders can be told. */
static tn_status session_make(cli_session *session, tn_setup_options *options, tn_error *error) {
    tn_fit_options fit = session_fit(session);
    tn_error unused;
    options->split = cli_split_of(&session->input->split, session->budget);
    if (options->split == NULL) options->fit = &fit;
    bool twice = (session->codecs != 0 || cli_costs_given(&session->from)) && fit.budget > 0;
    bool streams = (session->allow & CLI_ALLOW_STREAM) != 0 && fit.budget > 0;
    if (streams) options->fit = NULL;
    tn_status status = streams ? session_make_streamed(session, options, error)
                       : twice ? session_make_twice(session, options, &fit, error)
                               : tn_setup_create(session->graph, options, &session->setup, error);
    options->fit = NULL;
    options->split = NULL;
    if (status != TN_E_EXHAUSTED && status != TN_E_INFEASIBLE) return status;
    if (!streams && (session->allow & CLI_ALLOW_SPLIT) != 0 && session->training == NULL &&
        fit.budget > 0) {
        tn_setup_split split = {.budget = fit.budget};
        options->split = &split;
        status = tn_setup_create(session->graph, options, &session->setup, error);
        options->split = NULL;
        if (status != TN_E_EXHAUSTED) return status;
    }
    if (tn_setup_create(session->graph, options, &session->setup, &unused) == TN_OK)
        session->graph = tn_setup_graph(session->setup);
    return status;
}

static tn_status session_set_up(cli_session *session, tn_error *error) {
    cli_corridor corridor;
    const cli_whom whom = cli_session_whom(session);
    tn_recompute_options again = cli_training_again(session->training);
    tn_program_options order = TN_PROGRAM_OPTIONS_INIT;
    tn_occupancy_options memory = session_memory(session);
    cli_whom_corridor(&whom, session->training != NULL ? TN_REWRITE_TRAINED : TN_REWRITE_TO_RUN,
                      &corridor);
    tn_setup_options *options = &corridor.options;
    corridor.rewrite.weights_dtype = session->weights_dtype;
    if (session->pruning.count > 0) corridor.rewrite.pruning = &session->pruning;
    if (session->weights_dtype != TN_UNDEFINED || corridor.rewrite.pruning != NULL)
        options->rewrite = &corridor.rewrite;
    order.order = session->input->order;
    options->context = session->input->import.context;
    options->recompute = &again;
    options->program = &order;
    options->memory = &memory;
    options->plan = &session->choices.plan;
    options->statics = session->input->statics;
    options->divide = session->divide;
    TN_TRY(session_make(session, options, error));
    session->graph = tn_setup_graph(session->setup);
    tn_pruning_measure(&session->pruning, session->graph);
    return TN_OK;
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
    TN_TRY(session_set_up(session, error));
    cli_stage(input, "kernels",
              trained + session_seconds(session, TN_SETUP_REWRITE, TN_SETUP_ORDER));
    cli_stage(input, "plan", session_seconds(session, TN_SETUP_ORDER, TN_SETUP_STAGE_COUNT));
    return TN_OK;
}

/* --- up to the engine --- */

/* Of the model, of which a rank may have a part, or of the graph that runs. */
static bool session_is_trained(const cli_session *session, const tn_graph *graph, tn_tensor_id id) {
    const tn_graph *step = graph == session->input->graph ? session->step.graph : graph;
    return step != NULL && (tn_graph_tensor(step, id)->flags & TN_TENSOR_UPDATED) != 0;
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
    if (tensor->kind == TN_KIND_PARAMETER && kept != NULL && kept->size == size) {
        memcpy(bytes, kept->bytes, size);
        return TN_OK;
    }
    if (session->weights != NULL && tensor->kind == TN_KIND_PARAMETER &&
        tn_weights_fill(session->weights, tensor, bytes, size))
        return TN_OK;
    bool fresh = session->fresh != NULL && session_is_trained(session, graph, id);
    return tn_contents_read(fresh ? session->fresh : session->contents, graph, id, bytes, size,
                            error);
}

tn_contents_of cli_session_contents(cli_session *session) {
    return (tn_contents_of){session_read, session, session->input->graph};
}

/* The same of the graph that runs, of which ranks may have parts. */
static tn_status session_read_part(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                                   uint64_t size, tn_error *error) {
    cli_session *session = self;
    const tn_contents_of whole = cli_session_contents(session);
    if (session->training == NULL) return session_read(self, graph, id, bytes, size, error);
    return tn_training_read(&session->step, id, &whole, bytes, size, error);
}

/* Where that is in a file just so. What was trained or pruned is in none. */
static tn_status session_where(void *self, const tn_graph *graph, tn_tensor_id id,
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

/* Without a budget a pool may take what no pool here exceeds: it is reserved, not touched. */
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
    options.read = session_read_part;
    options.self = session;
    options.seed = session->seed;
    options.poison = session->poison;
    options.trace = session->trace;
    options.exchange = session->exchange;
    options.where = session_where;
    options.forms_folder = session->forms_folder;
    options.storage_bytes_per_s = session->storage;
    options.storage_cache = session->storage_cache;
    options.swap_device = session->swap_device;
    options.pool = session->pool;
    options.pool_capacity = session->pool != NULL ? session_pool_room(session) : 0;
    return tn_setup_open(session->setup, &device, &options, &session->engine, error);
}

/* --- what happened --- */

/* Steps, and for each block its beginning and end. Loops may tell more; what has no room is
 * counted. */
tn_status cli_session_open_trace(cli_session *session, uint64_t runs, tn_error *error) {
    if (session->trace_path == NULL) return TN_OK;
    const tn_program *program = tn_setup_program(session->setup);
    const tn_problem *problem = tn_occupancy_problem(tn_setup_occupancy(session->setup));
    uint64_t a_run = tn_program_count(program) + 2 * (uint64_t)tn_problem_count(problem);
    bool loops = tn_program_region_count(program) > 0;
    uint64_t room = tn__mul_sat(a_run * (loops ? 16 : 1), runs);
    room = tn__add_sat(room, 2 * (uint64_t)tn_graph_tensor_count(session->graph) + 16);
    if (room > SESSION_EVENTS_MAX) room = SESSION_EVENTS_MAX;
    return tn_trace_create(session->input->import.context, room, &session->trace, error);
}

tn_status cli_session_write_trace(const cli_session *session, tn_error *error) {
    if (session->trace_path == NULL) return TN_OK;
    tn_report report = {.struct_size = sizeof report,
                        .input = session->input->path,
                        .problem = tn_occupancy_problem(tn_setup_occupancy(session->setup)),
                        .occupancy = tn_setup_occupancy(session->setup),
                        .layout = session->pool == NULL ? tn_setup_layout(session->setup) : NULL,
                        .trace = session->trace};
    return tn_report_write(&report, session->trace_path, error);
}

/* --- memory of its own for everything --- */

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
    tn_occupancy_options memory = session_memory(session);
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
    tn_setup_destroy(session->setup);
    if (session->naive) return; /* the rest belongs to the other */
    tn_pruning_release(&session->pruning);
    tn_training_release(&session->step);
    tn_graph_destroy(session->model);
    tn_trace_destroy(session->trace);
    tn_contents_close(session->fresh);
    if (session->weights_path != NULL) tn_checkpoint_close(session->kept);
    tn_weights_close(session->weights);
    if (session->own_contents) tn_contents_close(session->contents);
}
