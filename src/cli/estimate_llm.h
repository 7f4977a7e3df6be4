/* estimate_llm.h - the part of `tenure estimate` for running a language model, from its folder,
 * config.json, .safetensors or .gguf file. */
#ifndef TN_CLI_ESTIMATE_LLM_H
#define TN_CLI_ESTIMATE_LLM_H

#include "cli/estimate.h"

#define CLI_LLM_CHANGES_MAX 8u

typedef struct cli_llm {
    tn_llm_options options;  /* as requested, including batch and sequence */
    tn_llm_scheme scheme;    /* --weight-type */
    bool runtime_named;      /* --runtime llama.cpp */
    uint64_t runtime, limit; /* given bytes of the runtime; usable bytes */
    const tn_hardware *device;
    bool most; /* --max-batch */
    /* results */
    tn_llm *model;
    bool has_model;    /* else only the weights are known */
    char unknown[400]; /* why the cache and the workspace are unknown */
    tn_weights_sum file;
    bool has_file;
    tn_llm_stored *stored; /* bytes of the files by layer */
    uint32_t files;
    tn_llm_estimate found;
    uint64_t total; /* including the runtime */
    uint64_t largest_batch, longest;
    cli_change changes[CLI_LLM_CHANGES_MAX]; /* changes that make it fit */
    uint32_t change_count;
} cli_llm;

/* Whether a file of this name is estimated here (except with --train). */
bool cli_llm_recognises(const char *path);
extern const cli_facts cli_llm_facts;
tn_status cli_llm_tell(const cli_llm *llm, const char *path, bool json, tn_error *error);
/* The whole path, from `options` to the answer. Returns the exit status. */
int cli_estimate_llm(cli_llm *llm, const cli_way *way, bool json, tn_error *error);
/* Whether the model fits the device. CLI_LLM_MAYBE: the known part fits, but some parts are
 * unknown. */
typedef enum cli_llm_verdict { CLI_LLM_NO, CLI_LLM_YES, CLI_LLM_MAYBE } cli_llm_verdict;
cli_llm_verdict cli_llm_fits(const cli_llm *llm);

#endif
