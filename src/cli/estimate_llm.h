/* estimate_llm.h - the part of `tenure estimate` for a language model that runs: from its folder, a
 * config.json, a .safetensors or a .gguf file. */
#ifndef TN_CLI_ESTIMATE_LLM_H
#define TN_CLI_ESTIMATE_LLM_H

#include "cli/estimate.h"

#define CLI_LLM_CHANGES_MAX 5u

typedef struct cli_llm {
    tn_llm_options options;  /* as asked for; batch and sequence, too */
    tn_llm_scheme scheme;    /* of --weight-type */
    bool asked;              /* one of its options was given */
    bool runtime_named;      /* --runtime llama.cpp */
    uint64_t runtime, limit; /* bytes of the run time as given; bytes that may be used */
    const tn_hardware *device;
    bool most; /* --max-batch */
    /* what was found */
    tn_llm *model;
    bool has_model;    /* else weights alone are known */
    char unknown[400]; /* why cache and workspace are not known */
    tn_weights_sum file;
    bool has_file;
    uint32_t files;
    tn_llm_estimate found;
    uint64_t total; /* with the share of the run time */
    uint64_t largest_batch, longest;
    cli_change changes[CLI_LLM_CHANGES_MAX]; /* changes with which it would fit */
    uint32_t change_count;
} cli_llm;

/* Whether a file of this name is answered here, unless its training is asked for. */
bool cli_llm_recognises(const char *path);
tn_status cli_llm_find(cli_llm *llm, const char *path, const tn_context *context, tn_error *error);
void cli_llm_tell(const cli_llm *llm, const char *path, bool json);
/* Whether it fits; CLI_LLM_MAYBE: what is known fits, but not all is known. */
typedef enum cli_llm_verdict { CLI_LLM_NO, CLI_LLM_YES, CLI_LLM_MAYBE } cli_llm_verdict;
cli_llm_verdict cli_llm_fits(const cli_llm *llm);
void cli_llm_release(cli_llm *llm);

#endif
