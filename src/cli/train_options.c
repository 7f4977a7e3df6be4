/* train_options.c - options of training, and the graph of a step. */
#include "cli/train_options.h"

#include "cli/plan_options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define TRAINING_ALL 1e3 /* no limit in practice: each operator is recomputed a few times at most */

enum {
    TRAINING_LOSS = 1000,
    TRAINING_OPTIMIZER,
    TRAINING_MOMENTUM,
    TRAINING_DECAY,
    TRAINING_FREEZE,
    TRAINING_TRAIN,
    TRAINING_MICRO,
    TRAINING_PARTS,
    TRAINING_DTYPE,
    TRAINING_SCALE,
    TRAINING_AGAIN,
    TRAINING_CHEAP,
    TRAINING_SWITCH /* the rows of TRAINING_SWITCHES use the keys from here on */
};

#define TRAINING_OPTIONS(X)                                                                        \
    X(TRAINING_LOSS, "loss", "NAME",                                                               \
      "loss function: cross-entropy, mean-squared, or output for a model whose output is the "     \
      "loss (default: cross-entropy)")                                                             \
    X(TRAINING_OPTIMIZER, "optimizer", "sgd|momentum|adam|adamw",                                  \
      "algorithm that updates the parameters; `estimate` also accepts none (default: adam)")       \
    X(TRAINING_MOMENTUM, "momentum", "SHARE", "momentum of --optimizer momentum (default: 0.9)")   \
    X(TRAINING_DECAY, "weight-decay", "SHARE",                                                     \
      "weight decay of the parameters in each step (default: 0)")                                  \
    X(TRAINING_FREEZE, "freeze", "PATTERN",                                                        \
      "do not train parameters that match this pattern (* and ?); may be repeated")                \
    X(TRAINING_TRAIN, "trainable", "PATTERN",                                                      \
      "also train constants that match this pattern (* and ?); may be repeated")                   \
    X(TRAINING_MICRO, "micro-batches", "N",                                                        \
      "number of runs whose gradients are summed for one update (default: 1)")                     \
    X(TRAINING_PARTS, "loss-parts", "N",                                                           \
      "number of parts of the batch for the last matrix product and the loss, computed one after " \
      "the other (default: 1)")                                                                    \
    X(TRAINING_DTYPE, "dtype", "f32|bf16|f16",                                                     \
      "type of activations and gradients (default: as in the model)")                              \
    X(TRAINING_SCALE, "loss-scale", "NUMBER",                                                      \
      "factor of the loss in the backward pass, for f16; dynamic: as large as possible (default: " \
      "1)")
#define TRAINING_RECOMPUTE(X)                                                                      \
    X(TRAINING_AGAIN, "recompute-work", "SHARE",                                                   \
      "recompute activations instead of keeping them, with at most this fraction of additional "   \
      "work, such as 10% or 0.1 (default: 0)")                                                     \
    X(TRAINING_CHEAP, "recompute-cheap", NULL,                                                     \
      "recompute the outputs of cheap operators such as normalisations and activation functions")

/* X(member of tn_train_options, option, help): a bool each. */
#define TRAINING_SWITCHES(X)                                                                       \
    X(fuse_update, "fuse-update",                                                                  \
      "update each parameter as soon as its gradient is computed, which frees the gradient early") \
    X(dropout_bits, "dropout-bits",                                                                \
      "keep the mask of dropout, one bit per element (default: draw it again in the backward "     \
      "pass)")

enum { /* 0, 1, ... */
#define TRAINING_INDEX(member, name, help) TRAINING_INDEX_##member,
       TRAINING_SWITCHES(TRAINING_INDEX) TRAINING_SWITCH_COUNT
};
#define TRAINING_ROW(member, name, help)                                                           \
    CLI_OPTION(TRAINING_SWITCH + TRAINING_INDEX_##member, name, NULL, help)
static const struct argp_option training_options[] = {
    TRAINING_OPTIONS(CLI_OPTION) TRAINING_RECOMPUTE(CLI_OPTION) TRAINING_SWITCHES(TRAINING_ROW){0}};
/* `fit` itself decides what to recompute. */
static const struct argp_option training_fit_options[] = {TRAINING_OPTIONS(CLI_OPTION)
                                                              TRAINING_SWITCHES(TRAINING_ROW){0}};

_Static_assert(TRAINING_SWITCH - TRAINING_LOSS + TRAINING_SWITCH_COUNT <= 32, "bits of given");

#define TRAINING_OFFSET(member, name, help) offsetof(tn_train_options, member),
static const size_t training_members[] = {TRAINING_SWITCHES(TRAINING_OFFSET)};

static void training_set_dtype(struct argp_state *state, tn_train_options *options,
                               const char *text) {
    static const tn_dtype types[] = {TN_FLOAT32, TN_BFLOAT16, TN_FLOAT16};
    options->dtype = types[CLI_CHOICE(state, "dtype", text, "f32", "bf16", "f16")];
}

static void training_set_scale(struct argp_state *state, tn_train_options *options,
                               const char *text) {
    options->dynamic_loss_scale = strcmp(text, "dynamic") == 0;
    options->loss_scale = 0;
    if (options->dynamic_loss_scale) return;
    options->loss_scale = cli_real(state, "loss-scale", text);
    if (!(options->loss_scale > 0))
        cli_misuse(state, "--loss-scale: '%s' is invalid; use a number above 0, or dynamic", text);
}

static void training_check(struct argp_state *state, const cli_training *training) {
    bool momentum = training->given >> (TRAINING_MOMENTUM - TRAINING_LOSS) & 1;
    if (momentum && training->options.momentum == 0)
        cli_misuse(state, "--momentum: 0 is not supported; use --optimizer sgd");
}

static error_t training_parse(int key, char *value, struct argp_state *state) {
    cli_training *training = state->input;
    tn_train_options *options = &training->options;
    switch (key) {
    case TRAINING_LOSS:
        options->loss = tn_loss_find(value);
        if (options->loss == TN_LOSS_COUNT)
            (void)CLI_CHOICE(state, "loss", value, "cross-entropy", "mean-squared", "output");
        break;
    case TRAINING_OPTIMIZER:
        options->optimizer = tn_optimizer_find(value);
        if (options->optimizer == TN_OPTIMIZER_COUNT)
            (void)CLI_CHOICE(state, "optimizer", value, "sgd", "momentum", "adam", "adamw");
        break;
    case TRAINING_MOMENTUM:
        options->momentum = cli_share(state, "momentum", value);
        break;
    case TRAINING_DECAY:
        options->weight_decay = cli_share(state, "weight-decay", value);
        break;
    case TRAINING_FREEZE:
        if (options->freeze_count == CLI_FREEZE_MAX)
            cli_misuse(state, "--freeze: at most 64 patterns are supported");
        training->freeze[options->freeze_count++] = value;
        break;
    case TRAINING_TRAIN:
        if (options->train_count == CLI_FREEZE_MAX)
            cli_misuse(state, "--trainable: at most 64 patterns are supported");
        training->train[options->train_count++] = value;
        break;
    case TRAINING_MICRO:
        options->micro_batches = (uint32_t)cli_count(state, "micro-batches", value, UINT32_MAX);
        break;
    case TRAINING_PARTS:
        options->loss_parts = (uint32_t)cli_count(state, "loss-parts", value, UINT32_MAX);
        break;
    case TRAINING_DTYPE:
        training_set_dtype(state, options, value);
        break;
    case TRAINING_SCALE:
        training_set_scale(state, options, value);
        break;
    case TRAINING_AGAIN:
        training->recompute = cli_share(state, "recompute-work", value);
        break;
    case TRAINING_CHEAP:
        training->recompute_cheap = true;
        break;
    case ARGP_KEY_END:
        training_check(state, training);
        return 0;
    default:
        if (key < TRAINING_SWITCH || key >= TRAINING_SWITCH + TRAINING_SWITCH_COUNT)
            return ARGP_ERR_UNKNOWN;
        *(bool *)((char *)options + training_members[key - TRAINING_SWITCH]) = true;
    }
    training->given |= UINT32_C(1) << (key - TRAINING_LOSS);
    return 0;
}

bool cli_training_is_given(const cli_training *training, const char *name) {
    for (const struct argp_option *option = training_options; option->name != NULL; option++)
        if (strcmp(option->name, name) == 0)
            return training->given >> (option->key - TRAINING_LOSS) & 1;
    return false;
}

bool cli_training_apply(cli_training *training, const char *name, const char *value) {
    struct argp_state state = {.input = training};
    for (const struct argp_option *row = training_options; row->name != NULL; row++)
        if (strcmp(row->name, name) == 0 && (row->arg != NULL) == (value != NULL))
            return training_parse(row->key, (char *)(uintptr_t)value, &state) == 0;
    return false;
}

static void training_word(const cli_training *training, int key, const char *name,
                          cli_words *words) {
    const tn_train_options *options = &training->options;
    switch (key) {
    case TRAINING_LOSS:
        cli_words_add(words, name, "%s", tn_loss_name(options->loss));
        return;
    case TRAINING_OPTIMIZER:
        cli_words_add(words, name, "%s", tn_optimizer_name(options->optimizer));
        return;
    case TRAINING_MOMENTUM:
        if (options->momentum != 0) cli_words_add(words, name, "%.17g", options->momentum);
        return;
    case TRAINING_DECAY:
        cli_words_add(words, name, "%.17g", options->weight_decay);
        return;
    case TRAINING_FREEZE:
        for (uint32_t i = 0; i < options->freeze_count; i++)
            cli_words_add(words, name, "%s", training->freeze[i]);
        return;
    case TRAINING_TRAIN:
        for (uint32_t i = 0; i < options->train_count; i++)
            cli_words_add(words, name, "%s", training->train[i]);
        return;
    case TRAINING_MICRO:
        cli_words_add(words, name, "%u", options->micro_batches > 0 ? options->micro_batches : 1);
        return;
    case TRAINING_PARTS:
        cli_words_add(words, name, "%u", options->loss_parts > 0 ? options->loss_parts : 1);
        return;
    case TRAINING_DTYPE:
        if (options->dtype != TN_UNDEFINED)
            cli_words_add(words, name, "%s",
                          options->dtype == TN_FLOAT32    ? "f32"
                          : options->dtype == TN_BFLOAT16 ? "bf16"
                                                          : "f16");
        return;
    case TRAINING_SCALE:
        if (options->dynamic_loss_scale)
            cli_words_add(words, name, "dynamic");
        else if (options->loss_scale > 0)
            cli_words_add(words, name, "%.17g", options->loss_scale);
        return;
    case TRAINING_AGAIN:
        cli_words_add(words, name, "%.17g", training->recompute);
        return;
    case TRAINING_CHEAP:
        if (training->recompute_cheap) cli_words_add(words, name, NULL);
        return;
    default:
        if (*(const bool *)((const char *)options + training_members[key - TRAINING_SWITCH]))
            cli_words_add(words, name, NULL);
    }
}

void cli_training_words(const cli_training *training, cli_words *words) {
    for (const struct argp_option *row = training_options; row->name != NULL; row++)
        training_word(training, row->key, row->name, words);
}

const struct argp cli_training_argp = {.options = training_options, .parser = training_parse};
const struct argp cli_training_fit_argp = {.options = training_fit_options,
                                           .parser = training_parse};

static tn_train_options training_options_of(const cli_training *training) {
    tn_train_options options = training->options;
    options.freeze = training->freeze;
    options.train = training->train;
    if (options.dtype == TN_FLOAT32) options.dtype = TN_UNDEFINED; /* as in the model */
    return options;
}

tn_status cli_training_model(const cli_training *training, tn_graph **model, tn_error *error) {
    tn_train_options options = training_options_of(training);
    tn_graph *made;
    TN_TRY(tn_train_model(*model, &options, &made, error));
    tn_graph_destroy(*model);
    *model = made;
    return TN_OK;
}

tn_status cli_training_make(const cli_training *training, const tn_graph *model, bool rewrite,
                            tn_graph **rewritten, tn_training *made, tn_error *error) {
    tn_train_options options = training_options_of(training);
    tn_rewrite_options before = TN_REWRITE_OPTIONS_INIT;
    before.use = TN_REWRITE_TO_TRAIN;
    if (!rewrite) return tn_train(model, &options, made, error);
    TN_TRY(tn_graph_rewrite(model, &before, rewritten, error));
    return tn_train(*rewritten, &options, made, error);
}

tn_recompute_options cli_training_again(const cli_training *training) {
    tn_recompute_options options = TN_RECOMPUTE_OPTIONS_INIT;
    if (training == NULL) return options;
    options.cheap = training->recompute_cheap;
    options.share = training->recompute;
    if (options.cheap && options.share == 0) options.share = TRAINING_ALL;
    return options;
}
