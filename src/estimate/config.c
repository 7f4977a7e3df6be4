/* config.c - reads the sizes of a transformer for training from a config.json of Hugging Face.
 *
 * The file is read by the same code as for running (llm_config.c). The formulas of large.c know
 * fewer kinds of transformers. If they would count a different number of parameters than the
 * matrices have, the family is an error.
 */
#include <stdio.h>

#include "estimate/llm.h"

#include <tenure/estimate.h>

#ifdef TENURE_MINIMAL
tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                          const tn_context *context, tn_large *large, tn_error *error) {
    (void)bytes, (void)size, (void)context, (void)large;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%s: this build reads no JSON", name);
}
#else

#define HAS(it, name) (((it)->traits & TN__LLM_TRAIT(name)) != 0)

static void config_sizes(const tn__llm_reading *it, tn_large *large) {
    large->hidden = it->size[TN__LLM_HIDDEN];
    large->layers = it->size[TN__LLM_LAYERS];
    large->heads = it->size[TN__LLM_HEADS];
    large->vocabulary = it->size[TN__LLM_VOCABULARY];
    large->kv_heads = it->size[TN__LLM_KV_HEADS];
    large->head_size = it->size[TN__LLM_HEAD_SIZE];
    large->ffn = it->size[TN__LLM_INNER];
    large->types = it->size[TN__LLM_TYPES];
    large->positions = HAS(it, LEARNED) ? it->size[TN__LLM_POSITION_ROWS] : 0;
}

static void config_parts(const tn__llm_reading *it, tn_large *large) {
    large->gated = HAS(it, GATED);
    large->rms_norm = !HAS(it, SHIFTED);
    large->no_query_bias = !HAS(it, QUERY_BIAS);
    large->no_output_bias = !HAS(it, OUTPUT_BIAS);
    large->no_inner_bias = !HAS(it, INNER_BIAS);
    large->query_norm = HAS(it, QUERY_NORM);
    large->embedding_norm = HAS(it, EMBEDDING_NORM) && !HAS(it, NO_FINAL_NORM);
    large->pooled = HAS(it, POOLED);
    large->untied = HAS(it, UNTIED);
    large->no_dropout = !it->drops;
}

static tn_status config_sequence(const tn__llm_reading *it, tn_large *large, tn_error *error) {
    uint64_t positions = it->size[TN__LLM_POSITIONS];
    if (large->sequence == 0) large->sequence = positions;
    if (large->sequence == 0)
        TN_FAIL(error, TN_E_INVALID,
                "no \"max_position_embeddings\": how many tokens has a sequence?");
    if (HAS(it, LEARNED) && large->sequence > positions)
        TN_FAIL(error, TN_E_INVALID, "a sequence of %llu, but only %llu positions",
                (unsigned long long)large->sequence, (unsigned long long)positions);
    return TN_OK;
}

/* Do the formulas count the parameters that exist? */
static tn_status config_compare(const tn_large *large, const tn_llm *llm, tn_error *error) {
    tn_large alone = *large;
    tn_large_estimate estimate = {0};
    alone.tensor = alone.pipeline = alone.data = alone.micro = alone.batch = alone.interleave = 0;
    tn_status status = tn_large_estimate_make(&alone, &estimate, NULL);
    if (status == TN_OK && estimate.exact_parameters == llm->parameters) return TN_OK;
    TN_FAIL(error, TN_E_UNSUPPORTED,
            "training a model_type %s is not known to the formulas: it is made of other parts than "
            "they count. What it takes to run is known",
            llm->type);
}

tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                          const tn_context *context, tn_large *large, tn_error *error) {
    tn_large made = *large;
    tn__llm_reading reading;
    tn_context own = tn__context(context);
    tn_llm *llm = tn__alloc(&own, sizeof *llm);
    if (llm == NULL) return tn__no_memory(error, "a model");
    tn_status status = tn__llm_config_read(name, bytes, size, &reading, llm, error);
    if (status == TN_OK) {
        config_sizes(&reading, &made);
        config_parts(&reading, &made);
        status = config_sequence(&reading, &made, error);
        if (status == TN_OK) status = config_compare(&made, llm, error);
        if (status != TN_OK) tn__where(error, status, "%s", name);
    }
    tn__free(&own, llm, sizeof *llm);
    if (status == TN_OK) *large = made;
    return status;
}
#endif
