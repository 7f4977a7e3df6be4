/* estimate_llm_tell.c - prints the memory to run a language model, as a table or as JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "base/base.h"
#include "cli/estimate_llm.h"

static void llm_print_size(const char *name, uint64_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void llm_print_size(const char *name, uint64_t bytes, const char *format, ...) {
    char size[TN_SIZE_TEXT_MAX];
    va_list list;
    printf("%-18s %s", name, tn_size_format(bytes, size));
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
}

static void llm_print_model(const cli_llm *llm) {
    const tn_llm *it = llm->model;
    char count[32];
    printf("%-18s ", "model");
    cli_put_text(stdout, it->type);
    if (it->guessed) printf(" (guessed: the file has no \"model_type\")");
    printf(": %" PRIu64 " layers of %" PRIu64 ", %" PRIu64 " heads, %" PRIu64 " KV heads\n",
           it->layers, it->hidden, it->heads, it->kv_heads);
    printf("%-18s vocabulary of %s", "", tn__grouped(it->vocabulary, count));
    if (it->experts > 0) printf(", %" PRIu64 " of %" PRIu64 " experts", it->chosen, it->experts);
    printf("\n");
    if (it->weight_count > 0) {
        printf("%-18s %s", "parameters", tn__grouped(it->parameters, count));
        if (it->active < it->parameters)
            printf(", %s of them active for a token", tn__grouped(it->active, count));
        if (*it->uncounted != '\0') printf(", without %s", it->uncounted);
        printf("\n");
    }
    if (it->extra > 0)
        printf("%-18s %s more in layers for multi-token prediction; not loaded\n", "",
               tn__grouped(it->extra, count));
}

static void llm_print_file(const cli_llm *llm) {
    char count[32];
    if (!llm->has_file) return;
    printf("%-18s %" PRIu64 " tensors of %s numbers in %u file%s\n", "weights file",
           llm->file.tensors, tn__grouped(llm->file.elements, count), llm->files,
           llm->files == 1 ? "" : "s");
    for (uint32_t type = 0; type < TN_WEIGHT_TYPE_COUNT; type++)
        if (llm->file.type_tensors[type] > 0)
            llm_print_size("", llm->file.type_bytes[type], " as %s",
                           tn_weight_type_name((tn_weight_type)type));
}

static const char *llm_cache_name(const cli_llm *llm) {
    tn_weight_type type = llm->options.cache_type;
    return tn_weight_type_name(type == TN_WEIGHT_TYPE_COUNT ? TN_WEIGHT_BF16 : type);
}

/* Whether the sizes are those of one device of several, or without the host's part. */
static bool llm_is_placed(const cli_llm *llm) {
    const tn_llm_options *it = &llm->options;
    return llm->found.devices > 1 || it->host_layers > 0 || it->host_experts > 0;
}

static void llm_print_cache(const cli_llm *llm) {
    const tn_llm_estimate *found = &llm->found;
    const tn_llm_cache *cache = &llm->model->cache;
    char token[TN_SIZE_TEXT_MAX];
    if (found->cache == 0) return;
    llm_print_size("  cache", found->cache, ": %" PRIu64 " x %" PRIu64 " tokens as %s",
                   found->batch, found->sequence, llm_cache_name(llm));
    printf("%-18s %s a token%s\n", "", tn_size_format(found->cache_token, token),
           cache->group_count > 0 && cache->groups[0].value == 0 ? ", keys and values compressed"
                                                                 : "");
    uint64_t windowed = tn_llm_cache_layers(cache, true);
    if (found->cache_state > 0 && !llm_is_placed(llm))
        llm_print_size("", found->cache_state,
                       " of it for the states of %" PRIu64 " layers, as f32", cache->state_layers);
    if (windowed > 0 && !llm->options.keep_all)
        printf("%-18s %" PRIu64 " of %" PRIu64 " layers keep a window of tokens\n", "", windowed,
               windowed + tn_llm_cache_layers(cache, false));
    if (found->cache_cross > 0 && !llm_is_placed(llm))
        llm_print_size("", found->cache_cross, " of it for the encoder's tokens");
}

static void llm_print_parts(const cli_llm *llm) {
    const tn_llm_estimate *found = &llm->found;
    const tn_llm_scheme *scheme =
        llm->options.scheme != NULL ? llm->options.scheme : &llm->model->stored;
    bool file = llm->options.weight_bytes > 0;
    if (found->devices > 1)
        llm_print_size("total", llm->total, " at most on each of %u devices, which share %s",
                       found->devices, llm->options.by_tensor ? "every matrix" : "the layers");
    else
        llm_print_size("total", llm->total, "%s", llm_is_placed(llm) ? " on the device" : "");
    llm_print_size("  weights", found->weights, "%s%s", file ? "" : " as ",
                   file ? ", as in the file" : scheme->name);
    llm_print_cache(llm);
    llm_print_size("  workspace", found->workspace, ": %s, passes of %" PRIu64 " tokens",
                   found->workspace_at, found->pass);
    if (llm->runtime > 0) llm_print_size("  runtime", llm->runtime, ", as given%s", "");
    if (found->runtime > 0)
        llm_print_size("  runtime", found->runtime, ": %s, its buffers, context and rounding",
                       tn_llm_runtime_name(llm->options.runtime));
    if (found->cache_allocated > found->cache)
        llm_print_size("", found->cache_allocated - found->cache,
                       " of it by which the cache is "
                       "rounded up");
    if (found->host_weights > 0 || found->host_cache > 0) {
        char cache[TN_SIZE_TEXT_MAX];
        llm_print_size("host memory", tn__add_sat(found->host_weights, found->host_cache),
                       " at most, in addition: weights, and %s of cache",
                       tn_size_format(found->host_cache, cache));
    }
}

static const char *const llm_verdicts[] = {"no", "yes", "not known"};

static void llm_print_fit(const cli_llm *llm) {
    cli_llm_verdict fits = cli_llm_fits(llm);
    char memory[TN_SIZE_TEXT_MAX];
    if (llm->limit == 0) return;
    if (llm->device != NULL)
        llm_print_size("device", llm->limit, " usable of %s, %s",
                       tn_size_format(llm->device->memory, memory), llm->device->title);
    else
        llm_print_size("device", llm->limit, "%s", "");
    printf("%-18s %s", "fits", llm_verdicts[fits]);
    if (fits == CLI_LLM_YES && llm->found.runtime > 0)
        printf(", with %s", tn_llm_runtime_name(llm->options.runtime));
    if (fits == CLI_LLM_MAYBE) printf(": the known parts do");
    if (fits == CLI_LLM_NO && llm->total <= llm->limit)
        printf(": tensors of %" PRIu64 " of %" PRIu64 " layers are not in the file",
               llm->model->missing, llm->model->layers);
    printf("\n");
    if (llm->most) printf("%-18s %" PRIu64 "\n", "largest batch", llm->largest_batch);
    if (llm->longest > 0)
        printf("%-18s %" PRIu64 " tokens%s\n", "longest sequence", llm->longest,
               llm->longest == llm->model->positions ? " (the model's maximum)" : "");
    if (fits == CLI_LLM_NO) cli_changes_tell(llm->changes, llm->change_count);
}

static void llm_print(const cli_llm *llm) {
    if (llm->has_model) llm_print_model(llm);
    llm_print_file(llm);
    if (llm->has_model)
        llm_print_parts(llm);
    else {
        llm_print_size("total", llm->total, " at least%s", "");
        llm_print_size("  weights", llm->found.weights, ", as in the file%s", "");
        printf("  %-16s unknown: ", "cache");
        cli_put_text(stdout, llm->unknown);
        printf("\n  %-16s unknown\n", "workspace");
    }
    if (*llm->model->note != '\0') {
        printf("%-18s ", "note");
        cli_put_text(stdout, llm->model->note);
        printf("\n");
    }
    if (*llm->model->unread != '\0') {
        printf("%-18s ", "not read");
        cli_put_text(stdout, llm->model->unread);
        printf(": unknown; their effect on memory, if any, is not counted\n");
    }
    llm_print_fit(llm);
}

/* Prints the answer in one line. */
static void llm_brief(const cli_llm *llm) {
    char size[TN_SIZE_TEXT_MAX];
    static const char *const words[] = {", does not fit", ", fits", ", may fit"};
    printf("%s%s%s\n", llm->has_model ? "" : "at least ", tn_size_format(llm->total, size),
           llm->limit > 0 ? words[cli_llm_fits(llm)] : "");
}

/* --- JSON --- */

static void llm_json_model(const cli_llm *llm, tn__text *text) {
    const tn_llm *it = llm->model;
    if (!llm->has_model) return;
    tn__text_put(text, ",\"model_type\":");
    tn__text_json(text, it->type);
    tn__text_printf(text,
                    ",\"layers\":%" PRIu64 ",\"parameters\":%" PRIu64 ",\"active\":%" PRIu64
                    ",\"further\":%" PRIu64 ",\"not_read\":",
                    it->layers, it->parameters, it->active, it->extra);
    tn__text_json(text, it->unread);
    const tn_llm_estimate *found = &llm->found;
    tn__text_printf(text,
                    ",\"batch\":%" PRIu64 ",\"sequence\":%" PRIu64 ",\"pass\":%" PRIu64
                    ",\"cache\":{\"type\":\"%s\",\"full\":%" PRIu64 ",\"window\":%" PRIu64
                    ",\"state\":%" PRIu64 ",\"cross\":%" PRIu64 ",\"token\":%" PRIu64
                    ",\"allocated\":%" PRIu64 "}",
                    found->batch, found->sequence, found->pass, llm_cache_name(llm),
                    found->cache_full, found->cache_window, found->cache_state, found->cache_cross,
                    found->cache_token, found->cache_allocated);
    tn__text_put(text, ",\"note\":");
    tn__text_json(text, it->note);
    tn__text_printf(text,
                    ",\"run_time\":\"%s\",\"missing_layers\":%" PRIu64
                    ",\"devices\":%u,\"host\":{\"weights\":%" PRIu64 ",\"cache\":%" PRIu64 "}",
                    tn_llm_runtime_name(llm->options.runtime), it->missing, found->devices,
                    found->host_weights, found->host_cache);
}

static void llm_json_file(const cli_llm *llm, tn__text *text) {
    bool first = true;
    if (!llm->has_file) return;
    tn__text_printf(text, ",\"file\":{\"tensors\":%" PRIu64 ",\"elements\":%" PRIu64 ",\"bytes\":{",
                    llm->file.tensors, llm->file.elements);
    for (uint32_t type = 0; type < TN_WEIGHT_TYPE_COUNT; type++)
        if (llm->file.type_tensors[type] > 0) {
            tn__text_printf(text, "%s\"%s\":%" PRIu64, first ? "" : ",",
                            tn_weight_type_name((tn_weight_type)type), llm->file.type_bytes[type]);
            first = false;
        }
    tn__text_put(text, "}}");
}

static void llm_json_fit(const cli_llm *llm, tn__text *text) {
    static const char *const words[] = {"false", "true", "null"};
    if (llm->limit == 0) return;
    tn__text_printf(text, ",\"device\":{\"memory\":%" PRIu64 ",\"usable\":%" PRIu64,
                    llm->device != NULL ? llm->device->memory : llm->limit, llm->limit);
    if (llm->device != NULL) {
        tn__text_put(text, ",\"name\":");
        tn__text_json(text, llm->device->name);
    }
    tn__text_printf(text, "},\"fits\":%s", words[cli_llm_fits(llm)]);
    if (llm->has_model) tn__text_printf(text, ",\"longest\":%" PRIu64, llm->longest);
    if (llm->most) tn__text_printf(text, ",\"max_batch\":%" PRIu64, llm->largest_batch);
    if (cli_llm_fits(llm) == CLI_LLM_NO) cli_changes_json(llm->changes, llm->change_count, text);
}

static void llm_json(const cli_llm *llm, const char *path) {
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "{\"format\":\"tenure-estimate-run\",\"version\":1,\"input\":");
    tn__text_json(&text, path);
    llm_json_model(llm, &text);
    llm_json_file(llm, &text);
    tn__text_printf(&text, ",\"parts\":{\"weights\":%" PRIu64, llm->found.weights);
    if (llm->has_model)
        tn__text_printf(&text,
                        ",\"cache\":%" PRIu64 ",\"workspace\":%" PRIu64 ",\"runtime\":%" PRIu64
                        "},\"total\":%" PRIu64,
                        llm->found.cache, llm->found.workspace,
                        tn__add_sat(llm->found.runtime, llm->runtime), llm->total);
    else {
        tn__text_printf(&text,
                        ",\"cache\":null,\"workspace\":null,\"runtime\":%" PRIu64
                        "},\"total\":null,\"at_least\":%" PRIu64 ",\"unknown\":",
                        llm->runtime, llm->total);
        tn__text_json(&text, llm->unknown);
    }
    llm_json_fit(llm, &text);
    tn__text_put(&text, "}\n");
    if (!text.failed) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
}

void cli_llm_tell(const cli_llm *llm, const char *path, bool json) {
    if (json)
        llm_json(llm, path);
    else
        (cli_tone_asked().brief ? llm_brief : llm_print)(llm);
}
