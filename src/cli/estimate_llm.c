/* estimate_llm.c - computes the memory to run a language model; estimate_llm_tell.c prints it.
 */
#include "cli/estimate_llm.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

bool cli_llm_recognises(const char *path) {
    return tn_weights_recognises(path) || tn_weights_is_folder(path) ||
           tn__has_suffix(path, ".json");
}

/* --- reading --- */

static tn_status llm_config_read(cli_llm *llm, const char *path, tn__file file, tn_error *error) {
    tn_status status = tn_llm_config(path, file.bytes, file.size, llm->model, error);
    tn__file_unmap(&file);
    llm->has_model = status == TN_OK;
    return status;
}

static tn_status llm_config(cli_llm *llm, const char *path, tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map(path, &file, error));
    return llm_config_read(llm, path, file, error);
}

/* With an unsupported config.json the weights are known, but the cache and the workspace are
 * not. */
static tn_status llm_leave_open(cli_llm *llm, tn_status status, const tn_error *error) {
    bool open = status == TN_E_UNKNOWN || status == TN_E_UNSUPPORTED || status == TN_E_INVALID;
    if (!open) return status;
    snprintf(llm->unknown, sizeof llm->unknown, "%s", error->message);
    *llm->model = (tn_llm){.stored = {.packing = TN_PACK_UNKNOWN}};
    return TN_OK;
}

/* Finds config.json in the folder `path`, or in the folder of the file `path`. */
static tn_status llm_config_near(cli_llm *llm, const char *path, tn_error *error) {
    const char *slash = strrchr(path, '/');
    bool folder = tn_weights_is_folder(path);
    size_t length = strlen(path), kept = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    tn__text text;
    tn__text_init(&text, NULL);
    if (folder)
        tn__text_printf(&text, "%s%sconfig.json", path, path[length - 1] == '/' ? "" : "/");
    else
        tn__text_printf(&text, "%.*sconfig.json", (int)kept, path);
    tn_status status = TN_OK;
    if (text.failed)
        status = tn__no_memory(error, "a path");
    else if (access(text.data, R_OK) == 0) {
        tn__file file;
        status = tn__file_map_beneath(text.data, "config.json", cli_follows_links(), &file, error);
        if (status == TN_OK) status = llm_config_read(llm, text.data, file, error);
    } else
        snprintf(llm->unknown, sizeof llm->unknown, "the folder of the weights has no config.json");
    tn__text_release(&text);
    return status;
}

static tn_status llm_weights(cli_llm *llm, const char *path, const tn_context *context,
                             tn_error *error) {
    tn_weights *weights;
    TN_TRY(tn_weights_open(path, context, &weights, error));
    llm->file = tn_weights_total(weights);
    llm->files = tn_weights_files(weights);
    llm->has_file = true;
    llm->stored = malloc(sizeof *llm->stored);
    if (llm->stored != NULL) tn_llm_stored_read(weights, llm->stored);
    llm->options.stored = llm->stored;
    tn_status status;
    if (strcmp(tn_weights_format(weights), "gguf") == 0) {
        status = tn_llm_gguf(weights, llm->model, error);
        llm->has_model = status == TN_OK;
        if (!llm->runtime_named && llm->runtime == 0) llm->options.runtime = TN_LLM_RUN_LLAMA_CPP;
    } else
        status = llm_config_near(llm, path, error);
    tn_weights_close(weights);
    return status == TN_OK ? TN_OK : llm_leave_open(llm, status, error);
}

/* A projector for images next to a .gguf file is not counted: with images the run needs more. */
static void llm_note_projector(cli_llm *llm, const char *folder) {
    DIR *entries = llm->has_model ? opendir(folder) : NULL;
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (strncmp(entry->d_name, "mmproj", 6) != 0 || !tn__has_suffix(entry->d_name, ".gguf"))
            continue;
        if (*llm->model->note == '\0')
            snprintf(llm->model->note, sizeof llm->model->note,
                     "the image projector '%.80s' is not counted; images need more memory",
                     entry->d_name);
        llm->model->unproved = true;
        break;
    }
    if (entries != NULL) closedir(entries);
}

/* A folder without weights is estimated from its config.json. */
static tn_status llm_folder(cli_llm *llm, const char *path, const tn_context *context,
                            tn_error *error) {
    tn_status status = llm_weights(llm, path, context, error);
    if (status == TN_OK) llm_note_projector(llm, path);
    if (status != TN_E_UNKNOWN) return status;
    TN_TRY(llm_config_near(llm, path, error));
    if (llm->has_model) return TN_OK;
    status = tn__fail(error, TN_E_INVALID,
                      "the folder has no .safetensors file, no .gguf file and no config.json; give "
                      "the folder of a model");
    return tn__where(error, status, "%s", path);
}

/* For another weight type than that of the file, the config.json gives the sizes. */
static tn_status llm_check(cli_llm *llm, const char *path, tn_error *error) {
    bool counted = llm->has_model && llm->model->weight_count > 0 && *llm->model->uncounted == '\0';
    if (llm->options.scheme != NULL && !counted) {
        tn_status status =
            tn__fail(error, TN_E_INVALID,
                     "--weight-type needs a config.json of a supported family, "
                     "because it describes the matrices; see `tenure list families`");
        return tn__where(error, status, "%s", path);
    }
    if (llm->has_file && llm->options.scheme == NULL)
        llm->options.weight_bytes = llm->file.bytes > 0 ? llm->file.bytes : 1;
    bool mix = llm->options.scheme != NULL && llm->options.scheme->packing == TN_PACK_MIX;
    if (!llm->runtime_named && llm->runtime == 0 && llm->options.runtime == TN_LLM_RUN_NONE)
        llm->options.runtime = mix ? TN_LLM_RUN_LLAMA_CPP : TN_LLM_RUN_TRANSFORMERS;
    llm->limit = tn_llm_runtime_usable(llm->options.runtime, llm->limit);
    return TN_OK;
}

/* --- changes that make it fit --- */

static uint64_t llm_room(const cli_llm *llm) {
    return llm->limit > llm->runtime ? llm->limit - llm->runtime : 0;
}

static bool llm_try(cli_llm *llm, const tn_llm_options *options, const char *text) {
    tn_llm_estimate made;
    bool fits = tn_llm_estimate_make(llm->model, options, &made, NULL) == TN_OK &&
                made.total <= llm_room(llm);
    if (!fits || llm->change_count == CLI_LLM_CHANGES_MAX) return fits;
    cli_change *change = &llm->changes[llm->change_count++];
    *change = (cli_change){.total = tn__add_sat(made.total, llm->runtime)};
    snprintf(change->text, sizeof change->text, "%s", text);
    return true;
}

/* The largest batch, or the longest sequence, that fits with `options`. */
static void llm_try_less(cli_llm *llm, const tn_llm_options *options, const char *before,
                         bool longest) {
    char text[96];
    tn_llm_options less = *options;
    uint64_t most = tn_llm_most(llm->model, options, llm_room(llm), longest);
    uint64_t now = longest ? llm->found.sequence : llm->found.batch;
    if (most == 0 || most >= now) return;
    *(longest ? &less.sequence : &less.batch) = most;
    snprintf(text, sizeof text, "%s--%s %" PRIu64, before, longest ? "sequence" : "batch", most);
    llm_try(llm, &less, text);
}

/* Tries fewer bytes per weight, if the matrices are known. */
static const char *const llm_types[] = {"int8", "int4"};

static bool llm_try_types(cli_llm *llm, const tn_llm_options *options, const char *behind) {
    bool any = false;
    if (llm->model->weight_count == 0) return false;
    for (size_t i = 0; i < sizeof llm_types / sizeof *llm_types; i++) {
        char text[96];
        tn_llm_scheme scheme;
        tn_llm_options packed = *options;
        if (tn_llm_scheme_find(llm_types[i], &scheme, NULL) != TN_OK) continue;
        packed.scheme = &scheme;
        packed.weight_bytes = 0;
        snprintf(text, sizeof text, "--weight-type %s%s", llm_types[i], behind);
        any = llm_try(llm, &packed, text) || any;
    }
    return any;
}

/* Parts of the model in host memory: the experts, or the fewest layers that are enough, found by
 * bisection. Then more devices. */
static void llm_try_places(cli_llm *llm) {
    char text[96];
    tn_llm_options placed = llm->options;
    if (llm->model->experts > 0 && placed.host_experts == 0) {
        placed.host_experts = UINT64_MAX;
        llm_try(llm, &placed, "--host-experts all");
        placed.host_experts = 0;
    }
    uint64_t low = placed.host_layers, high = llm->model->model.layers;
    while (high > low + 1) { /* `low` does not fit, `high` is not known to */
        tn_llm_estimate made;
        placed.host_layers = low + (high - low) / 2;
        bool fits = tn_llm_estimate_make(llm->model, &placed, &made, NULL) == TN_OK &&
                    made.total <= llm_room(llm);
        *(fits ? &high : &low) = placed.host_layers;
    }
    placed.host_layers = high;
    snprintf(text, sizeof text, "--host-layers %" PRIu64, high);
    if (high < llm->model->model.layers) llm_try(llm, &placed, text);
    placed.host_layers = llm->options.host_layers;
    placed.by_tensor = false;
    for (placed.devices = 2; llm->options.devices <= 1 && placed.devices <= 16;
         placed.devices *= 2) {
        snprintf(text, sizeof text, "--parallel pipeline=%u", placed.devices);
        if (llm_try(llm, &placed, text)) break;
    }
}

/* Single changes, with the smallest effect on results first; if none is enough, combinations. */
static void llm_changes(cli_llm *llm) {
    tn_llm_options now = llm->options, cache = now, both = now;
    tn_llm_scheme scheme;
    bool wide = now.cache_type == TN_WEIGHT_TYPE_COUNT;
    cache.cache_type = both.cache_type = TN_WEIGHT_Q8_0;
    llm_try_less(llm, &now, "", false);
    llm_try_less(llm, &now, "", true);
    if (wide) llm_try(llm, &cache, "--cache-type q8_0");
    llm_try_types(llm, &now, "");
    llm_try_places(llm);
    if (llm->change_count > 0) return;
    if (wide && llm_try_types(llm, &cache, " --cache-type q8_0")) return;
    if (llm->model->weight_count == 0 || tn_llm_scheme_find("int4", &scheme, NULL) != TN_OK) return;
    both.scheme = &scheme;
    both.weight_bytes = 0;
    llm_try_less(llm, &both, "--weight-type int4 --cache-type q8_0 ", true);
}

/* --- the estimate --- */

static tn_status llm_estimate(cli_llm *llm, const char *path, tn_error *error) {
    tn_status status = tn_llm_estimate_make(llm->model, &llm->options, &llm->found, error);
    if (status != TN_OK) return tn__where(error, status, "%s", path);
    llm->total = tn__add_sat(llm->found.total, llm->runtime);
    if (llm->limit == 0) return TN_OK;
    llm->longest = tn_llm_most(llm->model, &llm->options, llm_room(llm), true);
    if (llm->most)
        llm->largest_batch = tn_llm_most(llm->model, &llm->options, llm_room(llm), false);
    /* without some layers every total is too small: no change can be said to be enough */
    if (cli_llm_fits(llm) == CLI_LLM_NO && llm->model->missing == 0) llm_changes(llm);
    return TN_OK;
}

static tn_status llm_find(cli_llm *llm, const char *path, const tn_context *context,
                          tn_error *error) {
    llm->model = calloc(1, sizeof *llm->model);
    if (llm->model == NULL) return tn__no_memory(error, "a model");
    bool weights = tn_weights_recognises(path);
    TN_TRY(tn_weights_is_folder(path) ? llm_folder(llm, path, context, error)
           : weights                  ? llm_weights(llm, path, context, error)
                                      : llm_config(llm, path, error));
    TN_TRY(llm_check(llm, path, error));
    if (llm->has_model) return llm_estimate(llm, path, error);
    llm->found.weights = llm->file.bytes;
    llm->total = tn__add_sat(llm->file.bytes, llm->runtime);
    return TN_OK;
}

/* A lower bound that fits proves nothing: missing parts of the model may still exceed the limit. */
cli_llm_verdict cli_llm_fits(const cli_llm *llm) {
    bool bound = llm->options.runtime == TN_LLM_RUN_NONE && llm->runtime == 0;
    if (llm->limit == 0) return CLI_LLM_YES;
    if (llm->total > llm->limit || llm->model->missing > 0) return CLI_LLM_NO;
    return !llm->has_model || bound || llm->model->unproved ? CLI_LLM_MAYBE : CLI_LLM_YES;
}

static void llm_release(cli_llm *llm) {
    free(llm->stored);
    free(llm->model);
}

int cli_estimate_llm(cli_llm *llm, const cli_way *way, bool json, tn_error *error) {
    llm->options.batch = way->batch;
    llm->runtime = way->options.runtime;
    llm->device = way->device;
    llm->limit = llm->device != NULL ? llm->device->usable : way->limit;
    tn_status status = llm_find(llm, way->input.path, way->input.import.context, error);
    bool unknown = status == TN_E_UNKNOWN;
    if (status == TN_OK) status = cli_llm_tell(llm, way->input.path, json, error);
    int code = 0;
    if (status != TN_OK)
        code = cli_fail(error);
    else if (cli_llm_fits(llm) == CLI_LLM_NO)
        code = tn_status_exit_code(TN_E_INFEASIBLE);
    if (unknown)
        cli_note("pass the folder of the model with its .safetensors files; their sizes are known "
                 "for any family");
    llm_release(llm);
    return code;
}
