/* combine.h - checks which options of a command may be combined, by one table of rules.
 *
 * parse.c records every option of the command line. A command sets conditions that only the command
 * can find out, such as "the input is a model". A rule takes effect as soon as its conditions are
 * known. `tenure list combinations` prints the rules.
 */
#ifndef TN_CLI_COMBINE_H
#define TN_CLI_COMBINE_H

#include "cli/cli.h"

/* The conditions of rules, each as X(NAME, "name in a rule", "words in a message", "how to meet it"
 * or NULL). */
#define CLI_CONDITIONS(X)                                                                          \
    X(MODEL, "model", "a model", NULL)                                                             \
    X(ONNX, "onnx", "an .onnx model", NULL)                                                        \
    X(FOREIGN, "foreign", "a plan of another tool (an XLA dump, a .pte program)", NULL)            \
    X(SUMS, "sums", "a profile or statistics (JAX, ONNX Runtime)", NULL)                           \
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

/* --- checking the rules --- */

void cli_combine_note(const char *option,
                      /* Records an option of the command line. Both strings must be static; `value`
                       * may be NULL. */
                      const char *value);
bool cli_given(const char *option); /* Returns whether the command line contains this option. */
void cli_condition_set(cli_condition condition, bool holds);
/* Checks the options of the command line, and ends the program with a usage error if a rule is
 * broken. A condition that is not set yet breaks no rule. cli_parse calls this function. A command
 * that sets a condition later calls it again with NULL, which means the same command. */
void cli_combine_check(const cli_command *command);

/* The entries of `tenure list combinations`. A name is a command and an option, such as "plan
 * --extra-work"; its text is the rule, such as "needs --split; add --split". */
uint32_t cli_combination_count(void);
const char *cli_combination_name(uint32_t index);
const char *cli_combination_text(uint32_t index);

#endif
