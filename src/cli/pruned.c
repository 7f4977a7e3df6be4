/* pruned.c - the effect of pruning on the weights of a model. */
#include "cli/pruned.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { PRUNED_SHARE = 1700, PRUNED_SCOPE };

#define PRUNED_OPTIONS(X)                                                                          \
    X(PRUNED_SHARE, "prune", "SHARE",                                                              \
      "set this fraction of the weights of convolutions and matrix products to zero, the "         \
      "smallest first, and store and run them sparse; results change (default: 0)")                \
    X(PRUNED_SCOPE, "prune-scope", "SCOPE",                                                        \
      "pruning threshold: global, one for all weights; tensor, the same fraction of each tensor "  \
      "(default: global)")

static error_t pruned_parse(int key, char *value, struct argp_state *state) {
    cli_session *session = state->input;
    switch (key) {
    case PRUNED_SHARE:
        session->prune = cli_share(state, "prune", value);
        if (!(session->prune < 1))
            cli_misuse(state, "--prune: the fraction must be at least 0 and below 1");
        return 0;
    case PRUNED_SCOPE:
        session->prune_scope = CLI_CHOICE(state, "prune-scope", value, "global", "tensor")
                                   ? TN_PRUNE_TENSOR
                                   : TN_PRUNE_GLOBAL;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option pruned_options[] = {PRUNED_OPTIONS(CLI_OPTION){0}};
const struct argp cli_pruned_argp = {.options = pruned_options, .parser = pruned_parse};

/* The sums over all pruned weights. */
static tn_pruned pruned_total(const tn_pruning *pruning) {
    tn_pruned all = {0};
    for (uint32_t i = 0; i < pruning->count; i++) {
        const tn_pruned *at = &pruning->weights[i];
        all.elements += at->elements;
        all.kept += at->kept;
        all.norm += at->norm;
        all.lost += at->lost;
        all.bytes += at->bytes;
        all.stored += at->stored;
    }
    return all;
}

static double pruned_error(const tn_pruned *at) {
    return at->norm > 0 ? sqrt(at->lost / at->norm) : 0;
}
static double pruned_zeros(const tn_pruned *at) {
    return at->elements > 0 ? 1 - (double)at->kept / (double)at->elements : 0;
}

/* The name of the weight in the file. */
static const char *pruned_name(const cli_session *session, const tn_pruned *at) {
    const tn_graph *graph = session->input->graph;
    return tn_graph_tensor(graph, tn_graph_op(graph, at->op)->inputs[1])->name;
}

static const char *pruned_form(const tn_pruned *at) {
    return at->bits == 0 ? "dense" : at->bits == 1 ? "bits" : at->bits == 8 ? "8-bit" : "16-bit";
}

static const cli_facts pruned_weight_facts = {
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "elements", "elements", "number of elements"),
        CLI_FACT(COUNT, "zeros", "zeros", "number of elements that are zero"),
        CLI_FACT(REAL, "error", "error", "norm of the change / norm of the weight"),
        CLI_FACT(BYTES, "bytes", "bytes", "bytes before pruning"),
        CLI_FACT(BYTES, "stored", "stored", "bytes as they are stored"),
        CLI_FACT(WORD, "places", "places",
                 "how the places of the values are stored: dense, bits, 8-bit or "
                 "16-bit"),
        CLI_FACT(WORD, "name", "weight", "name in the file"), CLI_FACTS_END}};
static const cli_facts pruned_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "elements", NULL, "number of elements of all pruned weights"),
        CLI_FACT(COUNT, "zeros", NULL, "number of elements that are zero"),
        CLI_FACT(REAL, "error", NULL, "norm of the change / norm of the weights"),
        CLI_FACT(BYTES, "bytes", NULL, "bytes before pruning"),
        CLI_FACT(BYTES, "stored", NULL, "bytes as they are stored"),
        CLI_FACT_OF(LIST, "weights", "the pruned weights", &pruned_weight_facts), CLI_FACTS_END}};
const cli_facts cli_pruned_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "pruned", "with --prune: its effect on the weights", &pruned_facts),
        CLI_FACTS_END}};

static void pruned_tell(cli_answer *answer, const tn_pruned *at) {
    cli_tell(answer, "elements", at->elements);
    cli_tell(answer, "zeros", at->elements - at->kept);
    cli_tell_as(answer, "%.2f %%", 100 * pruned_zeros(at));
    cli_tell_real(answer, "error", pruned_error(at));
    cli_tell(answer, "bytes", at->bytes);
    cli_tell(answer, "stored", at->stored);
}

void cli_pruned_tell(cli_answer *answer, const cli_session *session) {
    const tn_pruning *pruning = &session->pruning;
    char before[TN_SIZE_TEXT_MAX], after[TN_SIZE_TEXT_MAX];
    if (session->prune == 0) return;
    const tn_pruned all = pruned_total(pruning);
    if (pruning->count > 0) {
        cli_tell_line(answer, "pruned",
                      "%.2f %% of %" PRIu64 " elements of %u weights are zero, relative error %.3g",
                      100 * pruned_zeros(&all), all.elements, pruning->count, pruned_error(&all));
        cli_tell_line(answer, "", "from %s to %s", tn_size_format(all.bytes, before),
                      tn_size_format(all.stored, after));
    }
    cli_answer_open(answer, "pruned");
    pruned_tell(answer, &all);
    cli_answer_open(answer, "weights");
    for (uint32_t i = 0; i < pruning->count; i++) {
        cli_answer_open(answer, NULL);
        pruned_tell(answer, &pruning->weights[i]);
        cli_tell_word(answer, "places", pruned_form(&pruning->weights[i]));
        cli_tell_word(answer, "name", pruned_name(session, &pruning->weights[i]));
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
    cli_answer_close(answer);
}
