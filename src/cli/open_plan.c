/* open_plan.c - which plan a model gets: as it is, within a budget by running operators again or in
 * parts, by codecs, or with weights that come from their files.
 *
 * A budget that cannot be kept to still leaves a plan, so that whoever asked is told who holds the
 * memory at its peak.
 */
#include "cli/open_model.h"
#include "cli/split.h"
#include "cli/whom.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define SESSION_SAMPLE (UINT64_C(1) << 20)

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
    engine.read = cli_session_read;
    engine.self = session;
    engine.context = session->input->import.context;
    tn_status status = TN_OK;
    if (cli_costs_given(&session->from))
        status = cli_costs_make(&session->from, tn_setup_graph(plain), session->choices.threads,
                                options->context, &costs, error);
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
        TN_TRY(cli_session_where(session, graph, id, &range, &found, error));
        if (!found || range.size <= most) continue;
        most = range.size;
        path = range.path;
    }
    return tn_storage_measure(path, &session->storage, error);
}

/* Weights come and go: all else stays as it is planned. */
static tn_status session_make_streamed(cli_session *session, tn_setup_options *options,
                                       tn_error *error) {
    tn_setup_stream stream = {.budget = session->budget, .latency_s = TN__READ_S};
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
    tn_status status = cli_costs_make(&session->from, tn_setup_graph(plain),
                                      session->choices.threads, options->context, &costs, error);
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
    bool parts = !streams && (session->allow & CLI_ALLOW_SPLIT) != 0 && session->training == NULL &&
                 fit.budget > 0;
    const tn_setup_split split = {.budget = fit.budget};
    if (streams) options->fit = NULL;
    if (parts && !twice && options->split == NULL) options->split = &split;
    tn_status status = streams ? session_make_streamed(session, options, error)
                       : twice ? session_make_twice(session, options, &fit, error)
                               : tn_setup_create(session->graph, options, &session->setup, error);
    options->fit = NULL;
    options->split = NULL;
    if (status != TN_E_EXHAUSTED && status != TN_E_INFEASIBLE) return status;
    if (parts && twice) {
        options->split = &split;
        status = tn_setup_create(session->graph, options, &session->setup, error);
        options->split = NULL;
        if (status != TN_E_EXHAUSTED) return status;
    }
    if (tn_setup_create(session->graph, options, &session->setup, &unused) == TN_OK)
        session->graph = tn_setup_graph(session->setup);
    return status;
}

tn_status cli_session_set_up(cli_session *session, tn_error *error) {
    cli_corridor corridor;
    const cli_whom whom = cli_session_whom(session);
    tn_recompute_options again = cli_training_again(session->training);
    tn_program_options order = TN_PROGRAM_OPTIONS_INIT;
    tn_occupancy_options memory = cli_session_memory(session);
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
