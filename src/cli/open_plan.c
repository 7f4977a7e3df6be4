/* open_plan.c - plans a model, without changes or within a budget (tn_fit_graph combines the
 * techniques). If the budget cannot be met, the smallest program found remains, so that the command
 * can list the largest tensors at its peak.
 */
#include "cli/ask.h"
#include "cli/open_model.h"
#include "cli/split.h"
#include "cli/whom.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define SESSION_SAMPLE (UINT64_C(1) << 20)

static tn_fit_options session_search(const cli_session *session) {
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    fit.context = session->input->import.context;
    fit.budget = session->budget;
    fit.pass = session->pass;
    fit.allow = session->allow;
    if (session->input->split.asked) fit.allow |= TN_FIT_SPLIT;
    fit.codecs = session->codecs;
    if (session->codecs != 0) fit.allow |= TN_FIT_COMPRESS;
    if (cli_codecs_lose(session->codecs)) fit.allow |= TN_FIT_LOSSY;
    fit.host_budget = session->host_budget;
    fit.to_host_bytes_per_s = session->to_swap;
    fit.from_host_bytes_per_s = session->from_swap;
    fit.timeout_s = session->timeout_s;
    return fit;
}

typedef struct session_sources {
    cli_sources sources; /* first: a pointer to it is one to the whole */
    cli_session *session;
} session_sources;

/* The read speed of weights: of the file with the largest weight that can be read in place, or of
 * the folder for converted weights. */
static tn_status session_storage(void *self, double *bytes_per_s, tn_error *error) {
    const session_sources *sources = self;
    cli_session *session = sources->session;
    const tn_graph *graph = session->graph;
    const char *path = session->forms_folder != NULL ? session->forms_folder : getenv("TMPDIR");
    uint64_t most = SESSION_SAMPLE; /* smaller samples are too noisy */
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
    return tn_storage_measure(path, bytes_per_s, error);
}

/* Plans within the budget. If nothing fits, the answer keeps the smallest program found, so that
 * its holders can be listed. */
static tn_status session_fit(cli_session *session, const tn_setup_options *options,
                             tn_error *error) {
    const tn_fit_options search = session_search(session);
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    session_sources all = {.sources = {.from = &session->from,
                                       .threads = session->choices.threads,
                                       .codecs = session->codecs,
                                       .engine = TN_ENGINE_OPTIONS_INIT,
                                       .samples = &session->samples,
                                       .zeros = &session->zeros},
                           .session = session};
    all.sources.engine.context = search.context;
    all.sources.engine.read = cli_session_read;
    all.sources.engine.self = session;
    request.setup = options;
    request.search = &search;
    request.storage_bytes_per_s = session->storage;
    cli_ask_fit(&all.sources, &request);
    request.storage = session_storage;
    request.split_share = session->input->split.has_share ? session->input->split.options.share : 0;
    tn_status status = tn_fit_graph(session->graph, &request, &session->answer, error);
    session->setup = session->answer.setup != NULL ? session->answer.setup : session->answer.whole;
    return status;
}

/* No search is needed without a budget, for a pool, or with separate memory for every tensor. */
static tn_status session_make(cli_session *session, tn_setup_options *options, tn_error *error) {
    bool budget = session->budget > 0 && session->pool == NULL && !session->naive;
    options->split = budget ? NULL : cli_split_of(&session->input->split, 0);
    tn_status status = budget ? session_fit(session, options, error)
                              : tn_setup_create(session->graph, options, &session->setup, error);
    options->split = NULL;
    if (session->setup != NULL) session->graph = tn_setup_graph(session->setup);
    return status;
}

tn_status cli_session_set_up(cli_session *session, tn_error *error) {
    cli_asked asked;
    const cli_whom whom = cli_session_whom(session);
    cli_ask(session->input, &whom, session->training, &session->choices.plan, &asked);
    asked.setup.divide = session->divide;
    asked.rewrite.weights_dtype = session->weights_dtype;
    if (session->pruning.count > 0) asked.rewrite.pruning = &session->pruning;
    if (session->weights_dtype != TN_UNDEFINED || asked.rewrite.pruning != NULL)
        asked.setup.rewrite = &asked.rewrite;
    TN_TRY(session_make(session, &asked.setup, error));
    tn_pruning_measure(&session->pruning, session->graph);
    return TN_OK;
}
