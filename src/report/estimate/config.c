/* config.c - reads the sizes of a transformer for training from a config.json of Hugging Face.
 *
 * tn_llm_config reads the file, as for running. The formulas of large.c know fewer kinds of
 * transformers. If they would count a different number of parameters than the matrices have, the
 * family is an error.
 */
#include <stdio.h>

#include "base/base.h"

#include <tenure/estimate.h>
#include <tenure/llm.h>

#ifdef TENURE_MINIMAL
tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                          const tn_context *context, tn_large *large, tn_error *error) {
    (void)bytes, (void)size, (void)context, (void)large;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%s: this build reads no JSON", name);
}
#else

static tn_status config_sequence(tn_large *large, tn_error *error) {
    const tn_transformer *model = &large->model;
    if (large->sequence == 0) large->sequence = model->positions;
    if (large->sequence == 0)
        TN_FAIL(error, TN_E_INVALID, "no \"max_position_embeddings\": state `sequence`");
    if (model->position_rows > 0 && large->sequence > model->positions)
        TN_FAIL(error, TN_E_INVALID,
                "a sequence of %llu tokens exceeds the %llu positions of the model",
                (unsigned long long)large->sequence, (unsigned long long)model->positions);
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
            "the formulas for training do not count all matrices of model_type %s; only the memory "
            "to run it can be estimated",
            llm->type);
}

tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                          const tn_context *context, tn_large *large, tn_error *error) {
    tn_large made = *large;
    tn_context own = tn__context(context);
    tn_llm *llm = tn__alloc(&own, sizeof *llm);
    if (llm == NULL) return tn__no_memory(error, "a model");
    tn_status status = tn_llm_config(name, bytes, size, llm, error);
    if (status == TN_OK) {
        made.model = llm->model;
        status = config_sequence(&made, error);
        if (status == TN_OK) status = config_compare(&made, llm, error);
        if (status != TN_OK) tn__where(error, status, "%s", name);
    }
    tn__free(&own, llm, sizeof *llm);
    if (status == TN_OK) *large = made;
    return status;
}
#endif
