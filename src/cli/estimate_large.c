/* estimate_large.c - `tenure estimate` by formulas: the training of a transformer, from config.json
 * or from an .onnx file, on many ranks. */
#include "cli/estimate_large.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/dist.h>

#include "base/base.h"
#include "cli/estimate_cluster.h"

void cli_large_split(struct argp_state *state, cli_large *large, tn_grid *grid, const char *value) {
    tn_error error = {0};
    if (tn_grid_parse(value, grid, &error) != TN_OK)
        cli_misuse(state, "--parallel: %s (or auto, serial, safe)", error.message);
    large->how.tensor = grid->tensor;
    large->how.pipeline = grid->pipeline;
    large->how.data = grid->data;
    large->how.interleave = grid->interleave;
    large->split = true;
}

static tn_status large_find(cli_large *large, const cli_way *way, tn_error *error) {
    const char *path = way->input.path;
    tn_large *how = &large->how;
    how->batch = way->batch;
    if (tn__has_suffix(path, ".json")) {
        tn__file file;
        TN_TRY(tn__file_map(path, &file, error));
        tn_status status =
            tn_large_config(path, file.bytes, file.size, way->input.import.context, how, error);
        tn__file_unmap(&file);
        TN_TRY(status);
    } else {
        tn_graph *graph;
        TN_TRY(tn_graph_load(path, &way->input.import, &graph, error));
        tn_status status = tn_large_from_graph(graph, how, error);
        tn_graph_destroy(graph);
        if (status != TN_OK) return tn__where(error, status, "%s", path);
    }
    /* Adam keeps two 4-byte numbers per weight and a copy of the weights; momentum keeps one; SGD
     * keeps nothing. */
    static const uint32_t state[] = {4, 8, 12, 12, 4};
    how->state_bytes = state[way->training.options.optimizer];
    if (way->training.options.dtype == TN_FLOAT32) { /* no additional copy of the weights */
        how->weight_bytes = how->gradient_bytes = 4;
        how->state_bytes -= 4;
    }
    tn_status status = tn_large_estimate_make(how, &large->found, error);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", path);
}

/* --- the facts --- */

static const cli_facts large_stage_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "layers", "stage", "layers of the stage"),
        CLI_FACT(COUNT, "parameters", NULL, "parameters on each of its ranks"),
        CLI_FACT(BYTES, "weights", "  weights", "bytes of the weights"),
        CLI_FACT(BYTES, "gradients", "  gradients", "bytes of the gradients"),
        CLI_FACT(BYTES, "optimizer_state", "  optimizer_state", "bytes of the optimizer state"),
        CLI_FACT(BYTES, "activations", "  activations", "bytes of the activations"),
        CLI_FACT(BYTES, "kept", "    kept", "part of them: kept from forward to backward"),
        CLI_FACT(BYTES, "loss", "    loss", "part of them: logits and loss"),
        CLI_FACT(BYTES, "total", "  total", "bytes of a rank of this stage"), CLI_FACTS_END}};
const cli_facts cli_large_facts = {
    .name = "estimate-large",
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the model"),
        CLI_FACT(COUNT, "parameters", "parameters", "number of parameters"),
        CLI_FACT(REAL, "parameters_by_formula", NULL, "the same by the published formula"),
        CLI_FACT(REAL, "flops", "FLOPs", "floating-point operations of an iteration"),
        CLI_FACT(COUNT, "ranks", "ranks", "number of ranks"),
        CLI_FACT(COUNT, "largest_stage", NULL, "the stage that needs most memory, from 0"),
        CLI_FACT_OF(LIST, "stages", "the pipeline stages; sizes are for one rank",
                    &large_stage_facts),
        CLI_FACT_BRIEF(BYTES, "total", "most on a rank", "@ on a rank",
                       "bytes of a rank of the largest stage"),
        CLI_FACTS_ALSO(&cli_cluster_facts),
        CLI_FACT(BYTES, "device_memory", "device", "bytes of the device of --device"),
        CLI_FACT(WORD, "device", NULL, "name of the device in `tenure list hardware`"),
        CLI_FACT(YES, "fits", "fits", "whether it fits the device"),
        CLI_FACTS_ALSO(&cli_changes_facts), CLI_FACTS_END}};

/* --- the answer --- */

/* The sizes that were read, and the defaults. */
static void large_tell_model(cli_answer *answer, const tn_large *how) {
    uint64_t kv = how->model.kv_heads > 0 ? how->model.kv_heads : how->model.heads;
    char digits[TN__GROUPED_MAX];
    cli_tell_line(answer, "model",
                  "%" PRIu64 " layers of %" PRIu64 ", %" PRIu64 " heads, %" PRIu64
                  " KV heads, inner %" PRIu64 "%s",
                  how->model.layers, how->model.hidden, how->model.heads, kv,
                  how->model.inner > 0 ? how->model.inner : 4 * how->model.hidden,
                  how->model.gated ? ", gated" : "");
    cli_tell_line(answer, "", "%" PRIu64 " tokens a sequence, vocabulary of %s%s%s", how->sequence,
                  tn__grouped(how->model.vocabulary, digits),
                  how->model.untied ? " with an output matrix" : "",
                  how->model.no_dropout ? ", no dropout" : "");
    cli_tell_line(answer, "", "attention is %s",
                  how->attention == TN_ATTENTION_UNFUSED ? "unfused: scores are kept" : "fused");
}

static void large_tell_stage(cli_answer *answer, const tn_large_stage *stage, uint32_t index) {
    char digits[TN__GROUPED_MAX];
    cli_answer_open(answer, NULL);
    cli_tell(answer, "layers", stage->layers);
    cli_tell_as(answer, "%u: %" PRIu64 " layers, %s parameters on each of its ranks", index,
                stage->layers, tn__grouped(stage->parameters, digits));
    cli_tell(answer, "parameters", stage->parameters);
    cli_tell(answer, "weights", stage->weights);
    cli_tell(answer, "gradients", stage->gradients);
    cli_tell(answer, "optimizer_state", stage->state);
    cli_tell(answer, "activations", stage->activations);
    cli_tell(answer, "kept", stage->kept);
    cli_tell_more(answer, " from forward to backward");
    cli_tell_if(answer, "loss", stage->loss);
    cli_tell_more(answer, " for logits and loss");
    cli_tell(answer, "total", stage->total);
    cli_answer_close(answer);
}

/* The table has only the first stage, the last one and the largest. */
static void large_tell_stages(cli_answer *answer, const cli_large *large, bool json) {
    uint64_t stages = large->how.pipeline > 0 ? large->how.pipeline : 1;
    cli_answer_open(answer, "stages");
    for (uint32_t i = 0; i < stages; i++) {
        tn_large_stage stage = {0};
        if (!json && i > 0 && i + 1 < stages && i != large->found.largest_stage) continue;
        if (tn_large_stage_make(&large->how, i, &stage, NULL) != TN_OK) break;
        large_tell_stage(answer, &stage, i);
    }
    cli_answer_close(answer);
}

static bool large_fits(const cli_large *large, uint64_t limit) {
    return limit == 0 || large->found.largest.total <= limit;
}

static void large_tell_fit(cli_answer *answer, const cli_large *large, const cli_way *way) {
    bool fits = large_fits(large, way->limit);
    if (way->limit == 0) return;
    cli_tell(answer, "device_memory", way->limit);
    if (way->device != NULL) {
        cli_tell_more(answer, ", %s", way->device->title);
        cli_tell_word(answer, "device", way->device->name);
    }
    cli_tell(answer, "fits", fits);
    cli_tell_brief(answer, fits ? ", fits" : ", does not fit");
    if (!fits) cli_changes_tell(answer, large->changes, large->change_count);
}

static tn_status large_tell(const cli_large *large, const cli_cluster *cluster, const cli_way *way,
                            bool json, tn_error *error) {
    const tn_large_estimate *found = &large->found;
    cli_answer answer;
    cli_answer_begin(&answer, &cli_large_facts, json);
    cli_tell_word(&answer, "input", cli_shown_path(way->input.path));
    large_tell_model(&answer, &large->how);
    cli_tell(&answer, "parameters", found->exact_parameters);
    cli_tell_more(&answer, " (by the formula %.4g)", found->parameters);
    cli_tell_real(&answer, "parameters_by_formula", found->parameters);
    cli_tell_real(&answer, "flops", found->flops);
    cli_tell_more(&answer, " in an iteration");
    cli_tell(&answer, "ranks", found->ranks);
    cli_tell(&answer, "largest_stage", found->largest_stage);
    large_tell_stages(&answer, large, json);
    cli_tell(&answer, "total", found->largest.total);
    cli_tell_more(&answer, ", stage %u", found->largest_stage);
    cli_cluster_tell(&answer, cluster, large, json);
    large_tell_fit(&answer, large, way);
    return cli_answer_end(&answer, error);
}

/* --- the estimate --- */

int cli_estimate_large(cli_large *large, cli_cluster *cluster, const cli_way *way, bool json,
                       tn_error *error) {
    tn_status status = large_find(large, way, error);
    if (status == TN_OK) status = cli_cluster_find(cluster, large, way->device, error);
    if (status == TN_OK && cluster->sweep) return cli_cluster_scale(cluster, large, way, json);
    if (status == TN_OK) {
        cli_large_change(large, cluster, way->limit);
        status = large_tell(large, cluster, way, json, error);
    }
    if (status != TN_OK) return cli_fail(error);
    return large_fits(large, way->limit) ? 0 : tn_status_exit_code(TN_E_INFEASIBLE);
}
