/* combine.h - which options of a command go together: one table of rules, and one check.
 *
 * parse.c notes every option of the command line. A command sets the conditions that only it knows,
 * such as "the input is a model". A rule is checked as soon as all its conditions are known.
 * `tenure list combinations` prints the rules.
 */
#ifndef TN_CLI_COMBINE_H
#define TN_CLI_COMBINE_H

#include "cli/cli.h"

/* The conditions: X(NAME, "name in a rule", "words in a message", how to meet it or NULL). */
#define CLI_CONDITIONS(X)                                                                          \
    X(MODEL, "model", "a model", NULL)                                                             \
    X(ONNX, "onnx", "an .onnx model", NULL)                                                        \
    X(FOREIGN, "foreign", "a plan of another tool (an XLA dump, a .pte program)", NULL)            \
    X(TFLITE, "tflite", "a .tflite model", NULL)                                                   \
    X(MICRO_OUTPUT, "micro-output",                                                                \
      "a plan for a microcontroller (-o FILE.tflite, or -o FILE.h for a .tflite model)", NULL)     \
    X(SWAPS, "swaps", "swapping", "add --allow swap and --link SIZE/s")                            \
    X(MODEL_ARGUMENT, "model-argument", "MODEL", NULL)                                             \
    X(HAS_KERNELS, "kernels", "kernels of this machine",                                           \
      "use measured costs or those of a file, or add --kernels onednn")                            \
    X(STAGES, "stages", "pipeline stages", "add --parallel pipeline=N")                            \
    X(INTERLEAVED, "interleaved", "--parallel interleave=N", NULL)                                 \
    X(TENSOR_RANKS, "tensor-ranks", "several tensor ranks", "add --parallel tensor=N")             \
    X(DATA_RANKS, "data-ranks", "several data-parallel ranks", "add --parallel data=N")            \
    X(SINGLE_PROCESS, "single-process", "a single process", NULL)                                  \
    X(FORMULAS, "formulas",                                                                        \
      "an estimate by formulas (config.json, --parallel tensor=N, --shard, --recompute)",          \
      "pass a config.json, or add --parallel tensor=N, --shard or --recompute")                    \
    X(TO_RUN, "to-run",                                                                            \
      "the run of a language model (its folder, config.json, .safetensors or .gguf file, without " \
      "--train)",                                                                                  \
      NULL)                                                                                        \
    X(CONFIG, "config", "a config.json", NULL)                                                     \
    X(WEIGHTS_FILE, "weights-file", "a weights file", NULL)                                        \
    X(RUNTIME_NAME, "runtime-name", "--runtime NAME", NULL)                                        \
    X(PLANNED, "planned", "an estimate with a plan",                                               \
      "pass a model file, and remove --pool, --alloc-policy, --release-policy and --parallel "     \
      "tensor=N")                                                                                  \
    X(ONNX_PLAN, "onnx-plan", "a plan of an .onnx model",                                          \
      "remove --pool, --as, --alloc-policy, --release-policy and options of formulas")             \
    X(DEVICE_SPEED, "device-speed", "the speed of a device",                                       \
      "add --device NAME from `tenure list hardware`")                                             \
    X(SEARCHES, "searches", "--parallel auto or --sweep", NULL)                                    \
    X(DIVIDED, "divided", "--parallel tensor=N,pipeline=N,data=N", NULL)                           \
    X(CREATE, "create", "create", NULL)                                                            \
    X(REPLAY, "replay", "replay", NULL)

typedef enum cli_condition {
#define TN_X(name, text, words, how) CLI_IF_##name,
    CLI_CONDITIONS(TN_X)
#undef TN_X
        CLI_CONDITION_COUNT
} cli_condition;

/* --- the check --- */

void cli_combine_note(const char *option,
                      const char *value); /* static strings; value may be NULL */
bool cli_given(const char *option);       /* whether the command line has this option */
void cli_condition_set(cli_condition condition, bool holds);
/* Ends with a usage error if a rule is broken and its conditions are known. cli_parse calls it;
 * commands that learn a condition later call it again with NULL. */
void cli_combine_check(const cli_command *command);

/* `tenure list combinations`: "plan --extra-work", "needs --split; add --split". */
uint32_t cli_combination_count(void);
const char *cli_combination_name(uint32_t index);
const char *cli_combination_text(uint32_t index);

#endif
