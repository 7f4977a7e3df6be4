/* estimate_llm_tell.c - the answer of `tenure estimate` for running a language model. */
#include <inttypes.h>

#include "base/base.h"
#include "cli/estimate_llm.h"

/* --- the facts --- */

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

/* --- the model and its files --- */

static void llm_tell_model(cli_answer *answer, const cli_llm *llm) {
    const tn_llm *it = llm->model;
    char count[TN__GROUPED_MAX], experts[80] = "";
    if (it->experts > 0)
        snprintf(experts, sizeof experts, ", %" PRIu64 " of %" PRIu64 " experts", it->chosen,
                 it->experts);
    cli_tell_word(answer, "model_type", it->type);
    cli_tell_more(answer,
                  "%s: %" PRIu64 " layers of %" PRIu64 ", %" PRIu64 " heads, %" PRIu64 " KV heads",
                  it->guessed ? " (guessed: the file has no \"model_type\")" : "", it->model.layers,
                  it->model.hidden, it->model.heads, it->model.kv_heads);
    cli_tell(answer, "layers", it->model.layers);
    cli_tell_line(answer, "", "vocabulary of %s%s", tn__grouped(it->model.vocabulary, count),
                  experts);
    cli_tell_when(answer, it->weight_count > 0, "parameters", it->parameters);
    if (it->active < it->parameters)
        cli_tell_more(answer, ", %s of them active for a token", tn__grouped(it->active, count));
    if (*it->uncounted != '\0') cli_tell_more(answer, ", without %s", it->uncounted);
    cli_tell(answer, "active", it->active);
    cli_tell_if(answer, "further", it->extra);
    cli_tell_more(answer, " more in layers for multi-token prediction; not loaded");
}

static void llm_tell_file(cli_answer *answer, const cli_llm *llm) {
    char count[TN__GROUPED_MAX];
    if (!llm->has_file) return;
    cli_answer_open(answer, "file");
    cli_tell(answer, "tensors", llm->file.tensors);
    cli_tell_more(answer, " tensors of %s numbers in %u file%s",
                  tn__grouped(llm->file.elements, count), llm->files, llm->files == 1 ? "" : "s");
    cli_tell(answer, "elements", llm->file.elements);
    cli_answer_open(answer, "bytes");
    for (uint32_t type = 0; type < TN_WEIGHT_TYPE_COUNT; type++) {
        const char *name = tn_weight_type_name((tn_weight_type)type);
        if (llm->file.type_tensors[type] == 0) continue;
        cli_tell(answer, name, llm->file.type_bytes[type]);
        cli_tell_more(answer, " as %s", name);
    }
    cli_answer_close(answer);
    cli_answer_close(answer);
}

/* --- the parts --- */

static const char *llm_cache_name(const cli_llm *llm) {
    tn_weight_type type = llm->options.cache_type;
    return tn_weight_type_name(type == TN_WEIGHT_TYPE_COUNT ? TN_WEIGHT_BF16 : type);
}

/* Whether the sizes are those of one device of several, or without the host's part. */
static bool llm_is_placed(const cli_llm *llm) {
    const tn_llm_options *it = &llm->options;
    return llm->found.devices > 1 || it->host_layers > 0 || it->host_experts > 0;
}

static void llm_tell_total(cli_answer *answer, const cli_llm *llm) {
    if (!llm->has_model) {
        cli_tell_null(answer, "total");
        cli_tell(answer, "at_least", llm->total);
        cli_tell_more(answer, " at least");
        cli_tell_word(answer, "unknown", llm->unknown);
        return;
    }
    cli_tell(answer, "total", llm->total);
    if (llm->found.devices > 1)
        cli_tell_more(answer, " at most on each of %u devices, which share %s", llm->found.devices,
                      llm->options.by_tensor ? "every matrix" : "the layers");
    else if (llm_is_placed(llm))
        cli_tell_more(answer, " on the device");
}

static void llm_tell_weights(cli_answer *answer, const cli_llm *llm) {
    const tn_llm_scheme *scheme =
        llm->options.scheme != NULL ? llm->options.scheme : &llm->model->stored;
    bool file = !llm->has_model || llm->options.weight_bytes > 0;
    cli_tell(answer, "weights", llm->found.weights);
    cli_tell_more(answer, "%s%s", file ? "" : " as ", file ? ", as in the file" : scheme->name);
}

static void llm_tell_parts(cli_answer *answer, const cli_llm *llm) {
    const tn_llm_estimate *found = &llm->found;
    cli_answer_open(answer, "parts");
    llm_tell_weights(answer, llm);
    if (llm->has_model) {
        cli_tell_if(answer, "cache", found->cache);
        cli_tell_more(answer, ": %" PRIu64 " x %" PRIu64 " tokens as %s", found->batch,
                      found->sequence, llm_cache_name(llm));
        cli_tell(answer, "workspace", found->workspace);
        cli_tell_more(answer, ": %s, passes of %" PRIu64 " tokens", found->workspace_at,
                      found->pass);
    } else {
        cli_tell_null(answer, "cache");
        cli_tell_line(answer, "  cache", "unknown: %s", llm->unknown);
        cli_tell_null(answer, "workspace");
        cli_tell_line(answer, "  workspace", "unknown");
    }
    cli_tell_if(answer, "runtime", tn__add_sat(found->runtime, llm->runtime));
    if (llm->runtime > 0)
        cli_tell_more(answer, ", as given");
    else
        cli_tell_more(answer, ": %s, its buffers, context and rounding",
                      tn_llm_runtime_name(llm->options.runtime));
    cli_answer_close(answer);
}

static void llm_tell_cache(cli_answer *answer, const cli_llm *llm) {
    const tn_llm_estimate *found = &llm->found;
    const tn_llm_cache *cache = &llm->model->cache;
    bool any = found->cache > 0, whole = any && !llm_is_placed(llm);
    uint64_t windowed = tn_llm_cache_layers(cache, true);
    cli_answer_open(answer, "cache");
    cli_tell_word(answer, "type", llm_cache_name(llm));
    cli_tell(answer, "full", found->cache_full);
    cli_tell(answer, "window", found->cache_window);
    cli_tell_when(answer, any, "token", found->cache_token);
    if (cache->group_count > 0 && cache->groups[0].value == 0)
        cli_tell_more(answer, ", keys and values compressed");
    if (any && windowed > 0 && !llm->options.keep_all)
        cli_tell_line(answer, "", "%" PRIu64 " of %" PRIu64 " layers keep a window of tokens",
                      windowed, windowed + tn_llm_cache_layers(cache, false));
    cli_tell_when(answer, whole && found->cache_state > 0, "state", found->cache_state);
    cli_tell_more(answer, " for the states of %" PRIu64 " layers, as f32", cache->state_layers);
    cli_tell_when(answer, whole && found->cache_cross > 0, "cross", found->cache_cross);
    cli_tell_more(answer, " for the encoder's tokens");
    cli_tell_when(answer, found->cache_allocated > found->cache, "allocated",
                  found->cache_allocated);
    cli_tell_more(answer, ", as the runtime rounds the cache up");
    cli_answer_close(answer);
}

static void llm_tell_host(cli_answer *answer, const tn_llm_estimate *found) {
    char all[TN_SIZE_TEXT_MAX], cache[TN_SIZE_TEXT_MAX];
    uint64_t bytes = tn__add_sat(found->host_weights, found->host_cache);
    cli_answer_open(answer, "host");
    cli_tell_when(answer, bytes > 0, "weights", found->host_weights);
    cli_tell_as(answer, "%s at most, in addition: weights, and %s of cache",
                tn_size_format(bytes, all), tn_size_format(found->host_cache, cache));
    cli_tell(answer, "cache", found->host_cache);
    cli_answer_close(answer);
}

/* --- the device --- */

static void llm_tell_device(cli_answer *answer, const cli_llm *llm) {
    const tn_hardware *device = llm->device;
    char memory[TN_SIZE_TEXT_MAX];
    cli_answer_open(answer, "device");
    cli_tell(answer, "memory", device != NULL ? device->memory : llm->limit);
    cli_tell(answer, "usable", llm->limit);
    if (device != NULL) {
        cli_tell_more(answer, " usable of %s, %s", tn_size_format(device->memory, memory),
                      device->title);
        cli_tell_word(answer, "name", device->name);
    }
    cli_answer_close(answer);
}

static void llm_tell_verdict(cli_answer *answer, const cli_llm *llm) {
    static const char *const words[] = {", does not fit", ", fits", ", may fit"};
    cli_llm_verdict fits = cli_llm_fits(llm);
    cli_tell_brief(answer, "%s", words[fits]);
    if (fits == CLI_LLM_MAYBE) {
        cli_tell_null(answer, "fits");
        cli_tell_line(answer, "fits", "not known: %s",
                      *llm->model->unread != '\0'
                          ? "the counted parts do; the effect of unknown keys "
                            "is not counted"
                          : "the known parts do");
        return;
    }
    cli_tell(answer, "fits", fits == CLI_LLM_YES);
    if (fits == CLI_LLM_YES && llm->found.runtime > 0)
        cli_tell_more(answer, ", with %s", tn_llm_runtime_name(llm->options.runtime));
    if (fits == CLI_LLM_NO && llm->total <= llm->limit)
        cli_tell_more(answer, ": tensors of %" PRIu64 " of %" PRIu64 " layers are not in the file",
                      llm->model->missing, llm->model->model.layers);
}

static void llm_tell_fit(cli_answer *answer, const cli_llm *llm) {
    if (llm->limit == 0) return;
    llm_tell_device(answer, llm);
    llm_tell_verdict(answer, llm);
    if (llm->most) cli_tell(answer, "max_batch", llm->largest_batch);
    if (llm->has_model) {
        cli_tell_if(answer, "longest", llm->longest);
        bool open = llm->model->missing > 0 || llm->model->unproved;
        cli_tell_more(answer, " tokens%s%s", open ? " at most" : "",
                      llm->longest == llm->model->model.positions ? " (the model's maximum)" : "");
    }
    if (cli_llm_fits(llm) == CLI_LLM_NO && llm->model->missing == 0)
        cli_changes_tell(answer, llm->changes, llm->change_count);
}

tn_status cli_llm_tell(const cli_llm *llm, const char *path, bool json, tn_error *error) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_llm_facts, json);
    cli_tell_word(&answer, "input", cli_shown_path(path));
    if (llm->has_model) llm_tell_model(&answer, llm);
    llm_tell_file(&answer, llm);
    if (llm->has_model) {
        cli_tell(&answer, "batch", llm->found.batch);
        cli_tell(&answer, "sequence", llm->found.sequence);
        cli_tell(&answer, "pass", llm->found.pass);
        cli_tell_word(&answer, "run_time", tn_llm_runtime_name(llm->options.runtime));
        cli_tell(&answer, "devices", llm->found.devices);
    }
    llm_tell_total(&answer, llm);
    llm_tell_parts(&answer, llm);
    if (llm->has_model) {
        llm_tell_cache(&answer, llm);
        llm_tell_host(&answer, &llm->found);
        cli_tell_word_if(&answer, "note", llm->model->note);
        cli_tell_word_if(&answer, "not_read", llm->model->unread);
        cli_tell_more(&answer, ": unknown; their effect on memory, if any, is not counted");
        cli_tell(&answer, "missing_layers", llm->model->missing);
    }
    llm_tell_fit(&answer, llm);
    return cli_answer_end(&answer, error);
}
