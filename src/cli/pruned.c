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
        session->prune = cli_real(state, "prune", value);
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

void cli_pruned_print(const cli_session *session) {
    const tn_pruning *pruning = &session->pruning;
    char before[TN_SIZE_TEXT_MAX], after[TN_SIZE_TEXT_MAX];
    if (pruning->count == 0) return;
    const tn_pruned all = pruned_total(pruning);
    printf("%-15s %.2f %% of %" PRIu64 " elements of %u weights are zero, relative error %.3g\n",
           "pruned", 100 * pruned_zeros(&all), all.elements, pruning->count, pruned_error(&all));
    printf("%-15s from %s to %s\n", "", tn_size_format(all.bytes, before),
           tn_size_format(all.stored, after));
    printf("%12s %8s %8s %10s %10s  %-6s %s\n", "elements", "zeros", "error", "bytes", "stored",
           "places", "weight");
    for (uint32_t i = 0; i < pruning->count; i++) {
        const tn_pruned *at = &pruning->weights[i];
        printf("%12" PRIu64 " %7.2f%% %8.3g %10" PRIu64 " %10" PRIu64 "  %-6s %s\n", at->elements,
               100 * pruned_zeros(at), pruned_error(at), at->bytes, at->stored, pruned_form(at),
               pruned_name(session, at));
    }
}

static void pruned_json(const tn_pruned *at, tn__text *text) {
    tn__text_printf(text,
                    "\"elements\":%" PRIu64 ",\"zeros\":%" PRIu64
                    ",\"error\":%.9g,\"bytes\":%" PRIu64 ",\"stored\":%" PRIu64,
                    at->elements, at->elements - at->kept, pruned_error(at), at->bytes, at->stored);
}

void cli_pruned_json(const cli_session *session, tn__text *text) {
    const tn_pruning *pruning = &session->pruning;
    if (session->prune == 0) return;
    const tn_pruned all = pruned_total(pruning);
    tn__text_put(text, ",\"pruned\":{");
    pruned_json(&all, text);
    tn__text_put(text, ",\"weights\":[");
    for (uint32_t i = 0; i < pruning->count; i++) {
        tn__text_put(text, i > 0 ? ",{\"name\":" : "{\"name\":");
        tn__text_json(text, pruned_name(session, &pruning->weights[i]));
        tn__text_put(text, ",");
        pruned_json(&pruning->weights[i], text);
        tn__text_printf(text, ",\"places\":\"%s\"}", pruned_form(&pruning->weights[i]));
    }
    tn__text_put(text, "]}");
}
