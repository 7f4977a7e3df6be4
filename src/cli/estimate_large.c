/* estimate_large.c - a transformer, from config.json or from an .onnx file, on many ranks. */
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

tn_status cli_large_find(cli_large *large, const cli_way *way, tn_error *error) {
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

static void large_json(const cli_large *large, const cli_cluster *cluster, const char *path,
                       const tn_hardware *device, uint64_t limit) {
    const tn_large_estimate *found = &large->found;
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "{\"format\":\"tenure-estimate-large\",\"version\":1,\"input\":");
    tn__text_json(&text, path);
    tn__text_printf(&text,
                    ",\"parameters\":%" PRIu64 ",\"parameters_by_formula\":%.0f,\"flops\":%.6e"
                    ",\"ranks\":%" PRIu64 ",\"largest_stage\":%u,\"stages\":[",
                    found->exact_parameters, found->parameters, found->flops, found->ranks,
                    found->largest_stage);
    uint64_t stages = large->how.pipeline > 0 ? large->how.pipeline : 1;
    for (uint32_t i = 0; i < stages; i++) {
        tn_large_stage stage = {0};
        if (tn_large_stage_make(&large->how, i, &stage, NULL) != TN_OK) break;
        tn__text_printf(
            &text,
            "%s{\"layers\":%" PRIu64 ",\"parameters\":%" PRIu64 ",\"weights\":%" PRIu64
            ",\"gradients\":%" PRIu64 ",\"optimizer_state\":%" PRIu64 ",\"activations\":%" PRIu64
            ",\"kept\":%" PRIu64 ",\"loss\":%" PRIu64 ",\"total\":%" PRIu64 "}",
            i > 0 ? "," : "", stage.layers, stage.parameters, stage.weights, stage.gradients,
            stage.state, stage.activations, stage.kept, stage.loss, stage.total);
    }
    tn__text_printf(&text, "],\"total\":%" PRIu64, found->largest.total);
    cli_cluster_json(cluster, large, &text);
    if (device != NULL) {
        tn__text_put(&text, ",\"device\":");
        tn__text_json(&text, device->name);
    }
    if (limit > 0) {
        bool fits = found->largest.total <= limit;
        tn__text_printf(&text, ",\"fits\":%s", fits ? "true" : "false");
        if (!fits) cli_changes_json(large->changes, large->change_count, &text);
    }
    tn__text_put(&text, "}\n");
    if (!text.failed) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
}

/* Prints the sizes that were read, and the defaults. */
static void large_print_model(const tn_large *how) {
    uint64_t kv = how->kv_heads > 0 ? how->kv_heads : how->heads;
    char digits[TN__GROUPED_MAX];
    printf("%-18s %" PRIu64 " layers of %" PRIu64 ", %" PRIu64 " heads, %" PRIu64
           " KV heads, inner %" PRIu64 "%s\n",
           "model", how->layers, how->hidden, how->heads, kv,
           how->ffn > 0 ? how->ffn : 4 * how->hidden, how->gated ? ", gated" : "");
    printf("%-18s %" PRIu64 " tokens a sequence, vocabulary of %s%s%s\n", "", how->sequence,
           tn__grouped(how->vocabulary, digits), how->untied ? " with an output matrix" : "",
           how->no_dropout ? ", no dropout" : "");
    printf("%-18s attention is %s\n", "",
           how->attention == TN_ATTENTION_UNFUSED ? "unfused: scores are kept" : "fused");
}

static void large_print_stage(const tn_large *how, uint32_t index) {
    tn_large_stage stage = {0};
    char size[TN_SIZE_TEXT_MAX], digits[TN__GROUPED_MAX];
    if (tn_large_stage_make(how, index, &stage, NULL) != TN_OK) return;
    printf("stage %-12u %" PRIu64 " layers, %s parameters on each of its ranks\n", index,
           stage.layers, tn__grouped(stage.parameters, digits));
    printf("  %-16s %s\n", "weights", tn_size_format(stage.weights, size));
    printf("  %-16s %s\n", "gradients", tn_size_format(stage.gradients, size));
    printf("  %-16s %s\n", "optimizer_state", tn_size_format(stage.state, size));
    printf("  %-16s %s\n", "activations", tn_size_format(stage.activations, size));
    printf("    %-14s %s from forward to backward\n", "kept", tn_size_format(stage.kept, size));
    if (stage.loss > 0)
        printf("    %-14s %s for logits and loss\n", "", tn_size_format(stage.loss, size));
    printf("  %-16s %s\n", "total", tn_size_format(stage.total, size));
}

void cli_large_tell(const cli_large *large, const cli_cluster *cluster, const char *path,
                    const tn_hardware *device, uint64_t limit, bool json) {
    const tn_large_estimate *found = &large->found;
    char size[TN_SIZE_TEXT_MAX], digits[TN__GROUPED_MAX];
    if (json) {
        large_json(large, cluster, path, device, limit);
        return;
    }
    large_print_model(&large->how);
    printf("%-18s %s (by the formula %.4g)\n", "parameters",
           tn__grouped(found->exact_parameters, digits), found->parameters);
    printf("%-18s %.4g in an iteration\n", "FLOPs", found->flops);
    printf("%-18s %" PRIu64 "\n", "ranks", found->ranks);
    uint64_t stages = large->how.pipeline > 0 ? large->how.pipeline : 1;
    large_print_stage(&large->how, 0);
    if (stages > 1) large_print_stage(&large->how, (uint32_t)stages - 1);
    if (found->largest_stage != 0 && found->largest_stage + 1 != stages)
        large_print_stage(&large->how, found->largest_stage);
    printf("%-18s %s, stage %u\n", "most on a rank", tn_size_format(found->largest.total, size),
           found->largest_stage);
    cli_cluster_tell(cluster, large);
    if (limit == 0) return;
    printf("%-18s %s%s%s\n", "device", tn_size_format(limit, size), device != NULL ? ", " : "",
           device != NULL ? device->title : "");
    bool fits = found->largest.total <= limit;
    printf("%-18s %s\n", "fits", fits ? "yes" : "no");
    if (!fits) cli_changes_tell(large->changes, large->change_count);
}
