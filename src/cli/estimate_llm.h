/* estimate_llm.h - the part of `tenure estimate` that tells what a language model takes to run:
 * from a config.json, a .safetensors or a .gguf file. */
#ifndef TN_CLI_ESTIMATE_LLM_H
#define TN_CLI_ESTIMATE_LLM_H

#include "cli/estimate.h"

#define CLI_LLM_CHANGES_MAX 5u

typedef struct cli_llm {
    tn_llm_options options; /* as asked for; batch and sequence, too */
    tn_llm_scheme scheme;   /* of --weight-type */
    bool asked;             /* one of its options was given */
    uint64_t runtime, limit;
    const tn_hardware *device;
    bool most; /* --max-batch */
    /* what was found */
    tn_llm *model;
    bool has_model; /* else weights alone are known */
    tn_weights_sum file;
    bool has_file;
    uint32_t files;
    tn_llm_estimate found;
    uint64_t total; /* with what the run time keeps */
    uint64_t largest_batch, longest;
    cli_change changes[CLI_LLM_CHANGES_MAX]; /* what would make it fit */
    uint32_t change_count;
} cli_llm;

/* Whether a file of this name is answered here, unless its training is asked for. */
bool cli_llm_recognises(const char *path);
tn_status cli_llm_find(cli_llm *llm, const char *path, const tn_context *context, tn_error *error);
void cli_llm_tell(const cli_llm *llm, const char *path, bool json);
bool cli_llm_fits(const cli_llm *llm);
void cli_llm_release(cli_llm *llm);

#endif
