/* language_model.c - `tenure estimate` for running a language model. */
#include "base/base.h"
#include "cli/estimate/estimate.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Continues after config.json could not be used: the weights are known from the files, and the
 * cache and the workspace are reported as unknown. Any other error is returned. */
static tn_status llm_leave_open(cli_llm *llm, tn_status status, const tn_error *error) {
    bool open = status == TN_E_UNKNOWN || status == TN_E_UNSUPPORTED || status == TN_E_INVALID;
    if (!open) return status;
    snprintf(llm->unknown, sizeof llm->unknown, "%s", error->message);
    *llm->model = (tn_llm){.stored = {.packing = TN_PACK_UNKNOWN}};
    return TN_OK;
}

/* Reads config.json in the folder `path`, or next to the file `path`. */
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
    } else {
        status = llm_config_near(llm, path, error);
        if (llm->has_model && llm->stored != NULL)
            llm->model->missing = tn_llm_stored_missing(llm->stored, llm->model->model.layers);
    }
    tn_weights_close(weights);
    return status == TN_OK ? TN_OK : llm_leave_open(llm, status, error);
}

/* Adds a note if the folder has an image projector (mmproj*.gguf). The estimate does not count the
 * projector, so a run with images needs more memory. */
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

/* Reads the weights in a folder. A folder without files of weights is estimated from its
 * config.json. */
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

/* Checks that --weight-type can be computed, and sets the defaults for the weights and the runtime.
 * A weight type other than that of the files needs a config.json, which gives the sizes of the
 * matrices. */
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

/* Adds the largest batch that fits with `options`, or with `longest` the longest sequence, as a
 * change. */
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

/* The weight types that are tried as a change. The sizes of the matrices must be known. */
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

/* Tries to place parts of the model in host memory: all experts, or the smallest number of layers
 * that is enough, found by bisection. Then tries more devices. */
static void llm_try_places(cli_llm *llm) {
    char text[96];
    tn_llm_options placed = llm->options;
    if (llm->model->experts > 0 && placed.host_experts == 0) {
        placed.host_experts = UINT64_MAX;
        llm_try(llm, &placed, "--host-experts all");
        placed.host_experts = 0;
    }
    uint64_t low = placed.host_layers, high = llm->model->model.layers;
    /* `low` layers in host memory do not fit; `high` layers fit or are all layers */
    while (high > low + 1) {
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

/* Finds changes that make the model fit. Single changes come first, those with the smallest effect
 * on results before the others. Combinations are tried only if no single change is enough. */
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

/* --- making the estimate --- */

/* Whether the model fits the device. LLM_MAYBE means that the known parts fit, but other parts are
 * unknown. */
typedef enum llm_verdict { LLM_NO, LLM_YES, LLM_MAYBE } llm_verdict;

/* Returns whether the model fits. An estimate that is only a lower bound proves nothing if it fits,
 * because parts that are not counted may exceed the limit. */
static llm_verdict llm_fits(const cli_llm *llm) {
    bool bound = llm->options.runtime == TN_LLM_RUN_NONE && llm->runtime == 0;
    if (llm->limit == 0) return LLM_YES;
    if (llm->total > llm->limit || llm->model->missing > 0) return LLM_NO;
    return !llm->has_model || bound || llm->model->unproved ? LLM_MAYBE : LLM_YES;
}

static tn_status llm_estimate(cli_llm *llm, const char *path, tn_error *error) {
    tn_status status = tn_llm_estimate_make(llm->model, &llm->options, &llm->found, error);
    if (status != TN_OK) return tn__where(error, status, "%s", path);
    llm->total = tn__add_sat(llm->found.total, llm->runtime);
    if (llm->limit == 0) return TN_OK;
    llm->longest = tn_llm_most(llm->model, &llm->options, llm_room(llm), true);
    if (llm->most)
        llm->largest_batch = tn_llm_most(llm->model, &llm->options, llm_room(llm), false);
    /* if layers are missing in the files, every total is too small to say that a change is
     * enough */
    if (llm_fits(llm) == LLM_NO && llm->model->missing == 0) llm_changes(llm);
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

static void llm_release(cli_llm *llm) {
    free(llm->stored);
    free(llm->model);
}

/* --- the answer: the table of its facts --- */

static const cli_facts llm_type_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, CLI_ANY_KEY, "", "bytes of the tensors of this type"), CLI_FACTS_END}};
static const cli_facts llm_file_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "tensors", "weights file", "number of tensors"),
        CLI_FACT(COUNT, "elements", NULL, "numbers in all tensors"),
        CLI_FACT_OF(OBJECT, "bytes", "bytes by type, such as bf16", &llm_type_facts),
        CLI_FACTS_END}};
static const cli_facts llm_part_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "weights", "  weights", "the weights"),
        CLI_FACT(BYTES, "cache", "  cache", "the KV cache; null: unknown"),
        CLI_FACT(BYTES, "workspace", "  workspace",
                 "intermediate tensors of a forward pass; null: unknown"),
        CLI_FACT(BYTES, "runtime", "  runtime",
                 "the runtime: its buffers, context and rounding, or the given bytes"),
        CLI_FACTS_END}};
static const cli_facts llm_cache_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "type", NULL, "element type"),
        CLI_FACT(BYTES, "full", NULL, "bytes of layers that keep all tokens"),
        CLI_FACT(BYTES, "window", NULL, "bytes of layers that keep a window of tokens"),
        CLI_FACT(BYTES, "token", "cache for a token",
                 "bytes for one more token of a sequence while windows are not full"),
        CLI_FACT(BYTES, "state", "  states", "bytes of recurrent states"),
        CLI_FACT(BYTES, "cross", "  encoder", "bytes for the tokens of the encoder"),
        CLI_FACT(BYTES, "allocated", "  allocated", "bytes of the cache as the runtime rounds it"),
        CLI_FACTS_END}};
static const cli_facts llm_host_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "weights", "host memory", "weights in host memory, at most"),
        CLI_FACT(BYTES, "cache", NULL, "cache in host memory, at most"), CLI_FACTS_END}};
static const cli_facts llm_experts_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "cached", "experts",
                 "experts of each layer in host memory of which the device keeps a copy"),
        CLI_FACT(COUNT, "of", NULL, "experts of a layer"),
        CLI_FACT(BYTES, "cached_bytes", NULL, "bytes of these copies, part of the weights"),
        CLI_FACT(BYTES, "expert_bytes", NULL, "bytes of one expert"),
        CLI_FACT(BYTES, "token_bytes", "  per token",
                 "bytes of the experts that a token uses, copied if none is on the device"),
        CLI_FACT(BYTES, "token_bytes_uniform", NULL,
                 "the mean if the router chose all experts equally often"),
        CLI_FACT(REAL, "tokens_per_s", "  link",
                 "with --link: tokens per second that the copies allow, by token_bytes"),
        CLI_FACT(REAL, "tokens_per_s_uniform", NULL,
                 "the same by token_bytes_uniform; 0: no limit"),
        CLI_FACTS_END}};
static const cli_facts llm_device_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "memory", NULL, "bytes of the device"),
        CLI_FACT(BYTES, "usable", "device", "bytes that the runtime can use of them"),
        CLI_FACT(WORD, "name", NULL, "its name in `tenure list hardware`"), CLI_FACTS_END}};
const cli_facts cli_llm_facts = {
    .name = "estimate-run",
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model"),
        CLI_FACT(WORD, "model_type", "model", "family of the model, as in its config.json"),
        CLI_FACT(COUNT, "layers", NULL, "number of layers"),
        CLI_FACT(COUNT, "parameters", "parameters", "number of parameters; 0: unknown"),
        CLI_FACT(COUNT, "active", NULL,
                 "parameters that a token uses, with the chosen experts alone"),
        CLI_FACT(COUNT, "further", "",
                 "parameters of layers for multi-token prediction, which are not loaded"),
        CLI_FACT_OF(OBJECT, "file", "the files of the weights", &llm_file_facts),
        CLI_FACT(COUNT, "batch", NULL, "number of sequences"),
        CLI_FACT(COUNT, "sequence", NULL, "tokens of a sequence"),
        CLI_FACT(COUNT, "pass", NULL, "tokens of all sequences in one forward pass"),
        CLI_FACT(WORD, "run_time", NULL, "llama.cpp, vllm, transformers or none"),
        CLI_FACT(COUNT, "devices", NULL,
                 "devices that share the model; sizes are those of the fullest"),
        CLI_FACT_BRIEF(BYTES, "total", "total", "@",
                       "the sum of `parts`; null: not all of them are known"),
        CLI_FACT_BRIEF(BYTES, "at_least", "total", "at least @",
                       "the sum of the known parts, if `total` is null"),
        CLI_FACT(WORD, "unknown", NULL, "why `total` is null"),
        CLI_FACT_OF(OBJECT, "parts", "the parts of the total", &llm_part_facts),
        CLI_FACT_OF(OBJECT, "cache", "the KV cache", &llm_cache_facts),
        CLI_FACT_OF(OBJECT, "host", "in host memory, in addition to the total", &llm_host_facts),
        CLI_FACT_OF(OBJECT, "experts", "with --host-experts: their copies on the device",
                    &llm_experts_facts),
        CLI_FACT(WORD, "note", "note", "a remark on the model, or empty"),
        CLI_FACT(WORD, "not_read", "not read",
                 "keys of the config.json that are unknown, or empty"),
        CLI_FACT(COUNT, "missing_layers", NULL, "layers without tensors in the file"),
        CLI_FACT_OF(OBJECT, "device", "the device of --device", &llm_device_facts),
        CLI_FACT(YES, "fits", "fits", "whether it fits the device; null: unknown"),
        CLI_FACT(COUNT, "max_batch", "largest batch",
                 "with --max-batch: the largest batch that fits"),
        CLI_FACT(COUNT, "longest", "longest sequence",
                 "tokens of the longest sequence that fits; 0: none"),
        CLI_FACTS_ALSO(&cli_changes_facts),
        CLI_FACTS_END}};

/* --- the answer: the model and its files --- */

static void llm_add_model(cli_answer *answer, const cli_llm *llm) {
    const tn_llm *it = llm->model;
    char count[TN__GROUPED_MAX], experts[80] = "";
    if (it->experts > 0)
        snprintf(experts, sizeof experts, ", %" PRIu64 " of %" PRIu64 " experts", it->chosen,
                 it->experts);
    cli_add_word(answer, "model_type", it->type);
    cli_add_more(answer,
                 "%s: %" PRIu64 " layers of %" PRIu64 ", %" PRIu64 " heads, %" PRIu64 " KV heads",
                 it->guessed ? " (guessed: the file has no \"model_type\")" : "", it->model.layers,
                 it->model.hidden, it->model.heads, it->model.kv_heads);
    cli_add(answer, "layers", it->model.layers);
    cli_add_line(answer, "", "vocabulary of %s%s", tn__grouped(it->model.vocabulary, count),
                 experts);
    cli_add_when(answer, it->weight_count > 0, "parameters", it->parameters);
    if (it->active < it->parameters)
        cli_add_more(answer, ", %s of them active for a token", tn__grouped(it->active, count));
    if (*it->uncounted != '\0') cli_add_more(answer, ", without %s", it->uncounted);
    cli_add(answer, "active", it->active);
    cli_add_if(answer, "further", it->extra);
    cli_add_more(answer, " more in layers for multi-token prediction; not loaded");
}

static void llm_add_file(cli_answer *answer, const cli_llm *llm) {
    char count[TN__GROUPED_MAX];
    if (!llm->has_file) return;
    cli_answer_open(answer, "file");
    cli_add(answer, "tensors", llm->file.tensors);
    cli_add_more(answer, " tensors of %s numbers in %u file%s",
                 tn__grouped(llm->file.elements, count), llm->files, llm->files == 1 ? "" : "s");
    cli_add(answer, "elements", llm->file.elements);
    cli_answer_open(answer, "bytes");
    for (uint32_t type = 0; type < TN_WEIGHT_TYPE_COUNT; type++) {
        const char *name = tn_weight_type_name((tn_weight_type)type);
        if (llm->file.type_tensors[type] == 0) continue;
        cli_add(answer, name, llm->file.type_bytes[type]);
        cli_add_more(answer, " as %s", name);
    }
    cli_answer_close(answer);
    cli_answer_close(answer);
}

/* --- the answer: the parts of the memory --- */

static const char *llm_cache_name(const cli_llm *llm) {
    tn_weight_type type = llm->options.cache_type;
    return tn_weight_type_name(type == TN_WEIGHT_TYPE_COUNT ? TN_WEIGHT_BF16 : type);
}

/* Returns whether the printed sizes are those of one device out of several, or exclude the parts in
 * host memory. */
static bool llm_is_placed(const cli_llm *llm) {
    const tn_llm_options *it = &llm->options;
    return llm->found.devices > 1 || it->host_layers > 0 || it->host_experts > 0;
}

static void llm_add_total(cli_answer *answer, const cli_llm *llm) {
    if (!llm->has_model) {
        cli_add_null(answer, "total");
        cli_add(answer, "at_least", llm->total);
        cli_add_more(answer, " at least");
        cli_add_word(answer, "unknown", llm->unknown);
        return;
    }
    cli_add(answer, "total", llm->total);
    if (llm->found.devices > 1)
        cli_add_more(answer, " at most on each of %u devices, which share %s", llm->found.devices,
                     llm->options.by_tensor ? "every matrix" : "the layers");
    else if (llm_is_placed(llm))
        cli_add_more(answer, " on the device");
}

static void llm_add_weights(cli_answer *answer, const cli_llm *llm) {
    const tn_llm_scheme *scheme =
        llm->options.scheme != NULL ? llm->options.scheme : &llm->model->stored;
    bool file = !llm->has_model || llm->options.weight_bytes > 0;
    cli_add(answer, "weights", llm->found.weights);
    cli_add_more(answer, "%s%s", file ? "" : " as ", file ? ", as in the file" : scheme->name);
}

static void llm_add_parts(cli_answer *answer, const cli_llm *llm) {
    const tn_llm_estimate *found = &llm->found;
    cli_answer_open(answer, "parts");
    llm_add_weights(answer, llm);
    if (llm->has_model) {
        cli_add_if(answer, "cache", found->cache);
        cli_add_more(answer, ": %" PRIu64 " x %" PRIu64 " tokens as %s", found->batch,
                     found->sequence, llm_cache_name(llm));
        cli_add(answer, "workspace", found->workspace);
        cli_add_more(answer, ": %s, passes of %" PRIu64 " tokens", found->workspace_at,
                     found->pass);
    } else {
        cli_add_null(answer, "cache");
        cli_add_line(answer, "  cache", "unknown: %s", llm->unknown);
        cli_add_null(answer, "workspace");
        cli_add_line(answer, "  workspace", "unknown");
    }
    cli_add_if(answer, "runtime", tn__add_sat(found->runtime, llm->runtime));
    if (llm->runtime > 0)
        cli_add_more(answer, ", as given");
    else
        cli_add_more(answer, ": %s, its buffers, context and rounding",
                     tn_llm_runtime_name(llm->options.runtime));
    cli_answer_close(answer);
}

static void llm_add_cache(cli_answer *answer, const cli_llm *llm) {
    const tn_llm_estimate *found = &llm->found;
    const tn_llm_cache *cache = &llm->model->cache;
    bool any = found->cache > 0, whole = any && !llm_is_placed(llm);
    uint64_t windowed = tn_llm_cache_layers(cache, true);
    cli_answer_open(answer, "cache");
    cli_add_word(answer, "type", llm_cache_name(llm));
    cli_add(answer, "full", found->cache_full);
    cli_add(answer, "window", found->cache_window);
    cli_add_when(answer, any, "token", found->cache_token);
    if (cache->group_count > 0 && cache->groups[0].value == 0)
        cli_add_more(answer, ", keys and values compressed");
    if (any && windowed > 0 && !llm->options.keep_all)
        cli_add_line(answer, "", "%" PRIu64 " of %" PRIu64 " layers keep a window of tokens",
                     windowed, windowed + tn_llm_cache_layers(cache, false));
    cli_add_when(answer, whole && found->cache_state > 0, "state", found->cache_state);
    cli_add_more(answer, " for the states of %" PRIu64 " layers, as f32", cache->state_layers);
    cli_add_when(answer, whole && found->cache_cross > 0, "cross", found->cache_cross);
    cli_add_more(answer, " for the encoder's tokens");
    cli_add_when(answer, found->cache_allocated > found->cache, "allocated",
                 found->cache_allocated);
    cli_add_more(answer, ", as the runtime rounds the cache up");
    cli_answer_close(answer);
}

static void llm_add_host(cli_answer *answer, const tn_llm_estimate *found) {
    char all[TN_SIZE_TEXT_MAX], cache[TN_SIZE_TEXT_MAX];
    uint64_t bytes = tn__add_sat(found->host_weights, found->host_cache);
    cli_answer_open(answer, "host");
    cli_add_when(answer, bytes > 0, "weights", found->host_weights);
    cli_add_as(answer, "%s at most, in addition: weights, and %s of cache",
               tn_size_format(bytes, all), tn_size_format(found->host_cache, cache));
    cli_add(answer, "cache", found->host_cache);
    cli_answer_close(answer);
}

/* Adds the copies of experts on the device, and the bytes that a token copies. These are facts of
 * the shapes; how many experts a token finds on the device depends on the router and is not
 * known. A router that chooses all experts equally often finds cached / all of them. */
static void llm_add_experts(cli_answer *answer, const cli_llm *llm, double link) {
    const tn_llm_estimate *found = &llm->found;
    const uint64_t all = llm->model->experts, cached = llm->options.cached_experts;
    char bytes[TN_SIZE_TEXT_MAX], one[TN_SIZE_TEXT_MAX], mean[TN_SIZE_TEXT_MAX];
    if (found->expert_bytes == 0 || all == 0) return;
    const double miss = (double)(all - cached) / (double)all;
    const uint64_t uniform = (uint64_t)((double)found->token_experts * miss);
    cli_answer_open(answer, "experts");
    cli_add(answer, "cached", cached);
    cli_add_more(answer, " of %" PRIu64 " in each layer on the device: %s; one has %s", all,
                 tn_size_format(found->cached_bytes, bytes),
                 tn_size_format(found->expert_bytes, one));
    cli_add(answer, "of", all);
    cli_add(answer, "cached_bytes", found->cached_bytes);
    cli_add(answer, "expert_bytes", found->expert_bytes);
    cli_add(answer, "token_bytes", found->token_experts);
    cli_add_more(answer,
                 " at most are copied; %s on average if all experts were chosen equally "
                 "often",
                 tn_size_format(uniform, mean));
    cli_add(answer, "token_bytes_uniform", uniform);
    if (link > 0) {
        const double least = link / (double)found->token_experts;
        const double likely = uniform > 0 ? link / (double)uniform : 0;
        cli_add_real(answer, "tokens_per_s", least);
        cli_add_as(answer, "%.1f tokens/s at most if every expert is copied", least);
        if (likely > 0)
            cli_add_more(answer,
                         ", %.1f if all experts were chosen equally often (predicted from "
                         "the copies alone)",
                         likely);
        cli_add_real(answer, "tokens_per_s_uniform", likely);
    }
    cli_answer_close(answer);
}

/* --- the answer: whether the model fits the device --- */

static void llm_add_device(cli_answer *answer, const cli_llm *llm) {
    const tn_hardware *device = llm->device;
    char memory[TN_SIZE_TEXT_MAX];
    cli_answer_open(answer, "device");
    cli_add(answer, "memory", device != NULL ? device->memory : llm->limit);
    cli_add(answer, "usable", llm->limit);
    if (device != NULL) {
        cli_add_more(answer, " usable of %s, %s", tn_size_format(device->memory, memory),
                     device->title);
        cli_add_word(answer, "name", device->name);
    }
    cli_answer_close(answer);
}

static void llm_add_verdict(cli_answer *answer, const cli_llm *llm) {
    static const char *const words[] = {", does not fit", ", fits", ", may fit"};
    llm_verdict fits = llm_fits(llm);
    cli_add_brief(answer, "%s", words[fits]);
    if (fits == LLM_MAYBE) {
        cli_add_null(answer, "fits");
        cli_add_line(answer, "fits", "not known: %s",
                     *llm->model->unread != '\0'
                         ? "the counted parts do; the effect of unknown keys "
                           "is not counted"
                         : "the known parts do");
        return;
    }
    cli_add(answer, "fits", fits == LLM_YES);
    if (fits == LLM_YES && llm->found.runtime > 0)
        cli_add_more(answer, ", with %s", tn_llm_runtime_name(llm->options.runtime));
    if (fits == LLM_NO && llm->total <= llm->limit)
        cli_add_more(answer, ": tensors of %" PRIu64 " of %" PRIu64 " layers are not in the file",
                     llm->model->missing, llm->model->model.layers);
}

static void llm_add_fit(cli_answer *answer, const cli_llm *llm) {
    if (llm->limit == 0) return;
    llm_add_device(answer, llm);
    llm_add_verdict(answer, llm);
    if (llm->most) cli_add(answer, "max_batch", llm->largest_batch);
    if (llm->has_model) {
        cli_add_if(answer, "longest", llm->longest);
        bool open = llm->model->missing > 0 || llm->model->unproved;
        cli_add_more(answer, " tokens%s%s", open ? " at most" : "",
                     llm->longest == llm->model->model.positions ? " (the model's maximum)" : "");
    }
    if (llm_fits(llm) == LLM_NO && llm->model->missing == 0)
        cli_changes_add(answer, llm->changes, llm->change_count);
}

static tn_status llm_print(const cli_llm *llm, const char *path, double link, bool json,
                           tn_error *error) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_llm_facts, json);
    cli_add_word(&answer, "input", cli_shown_path(path));
    if (llm->has_model) llm_add_model(&answer, llm);
    llm_add_file(&answer, llm);
    if (llm->has_model) {
        cli_add(&answer, "batch", llm->found.batch);
        cli_add(&answer, "sequence", llm->found.sequence);
        cli_add(&answer, "pass", llm->found.pass);
        cli_add_word(&answer, "run_time", tn_llm_runtime_name(llm->options.runtime));
        cli_add(&answer, "devices", llm->found.devices);
    }
    llm_add_total(&answer, llm);
    llm_add_parts(&answer, llm);
    if (llm->has_model) {
        llm_add_cache(&answer, llm);
        llm_add_host(&answer, &llm->found);
        llm_add_experts(&answer, llm, link);
        cli_add_word_if(&answer, "note", llm->model->note);
        cli_add_word_if(&answer, "not_read", llm->model->unread);
        cli_add_more(&answer, ": unknown; their effect on memory, if any, is not counted");
        cli_add(&answer, "missing_layers", llm->model->missing);
    }
    llm_add_fit(&answer, llm);
    return cli_answer_end(&answer, error);
}

/* --- the estimate from the files to the answer --- */

int cli_estimate_llm(cli_llm *llm, const cli_estimate_request *request, bool json,
                     tn_error *error) {
    llm->options.batch = request->batch;
    llm->runtime = request->options.runtime;
    llm->device = request->device;
    llm->limit = llm->device != NULL ? llm->device->usable : request->limit;
    tn_status status = llm_find(llm, request->input.path, request->input.import.context, error);
    bool unknown = status == TN_E_UNKNOWN;
    if (status == TN_OK) status = llm_print(llm, request->input.path, request->link, json, error);
    int code = 0;
    if (status != TN_OK)
        code = cli_fail(error);
    else if (llm_fits(llm) == LLM_NO)
        code = tn_status_exit_code(TN_E_INFEASIBLE);
    if (unknown)
        cli_note("pass the folder of the model with its .safetensors files; their sizes are known "
                 "for any family");
    llm_release(llm);
    return code;
}
