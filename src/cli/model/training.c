/* training.c - parses the options of training, makes the graph of a training step, and makes the
 * part of one rank. */
#include "cli/model/training.h"
#include "base/base.h"
#include "cli/command_line/combine.h"
#include "cli/model/input.h"
#include "cli/model/plan_file.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* --- options of training, and the graph of a step --- */

/* extra work that is never reached, because each operator is recomputed a few times at most */
#define TRAINING_ALL 1e3

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
    TRAINING_SWITCH /* first key of the rows of TRAINING_SWITCHES */
};

#define TRAINING_OPTIONS(X)                                                                        \
    X(TRAINING_LOSS, "loss", "NAME",                                                               \
      "loss function: cross-entropy, mean-squared, or output for a model whose first output is "   \
      "the loss (output:NAME: another output) (default: cross-entropy)")                           \
    X(TRAINING_OPTIMIZER, "optimizer", "sgd|momentum|adam|adamw",                                  \
      "algorithm that updates the parameters; `estimate` also accepts none (default: adam)")       \
    X(TRAINING_MOMENTUM, "momentum", "SHARE", "momentum of --optimizer momentum (default: 0.9)")   \
    X(TRAINING_DECAY, "weight-decay", "SHARE",                                                     \
      "weight decay of the parameters in each step (default: 0)")                                  \
    X(TRAINING_FREEZE, "freeze", "PATTERN",                                                        \
      "do not train parameters that match this pattern " CLI_PATTERN "; may be repeated")          \
    X(TRAINING_TRAIN, "trainable", "PATTERN",                                                      \
      "also train constants that match this pattern " CLI_PATTERN "; may be repeated")             \
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

/* Options without a value, each as X(member of tn_train_options, option, help). The member is a
 * bool. */
#define TRAINING_SWITCHES(X)                                                                       \
    X(fuse_update, "fuse-update",                                                                  \
      "update each parameter as soon as its gradient is computed, which frees the gradient early") \
    X(dropout_bits, "dropout-bits",                                                                \
      "keep the mask of dropout, one bit per element (default: draw it again in the backward "     \
      "pass)")

enum { /* indices of the rows of TRAINING_SWITCHES */
#define TRAINING_INDEX(member, name, help) TRAINING_INDEX_##member,
       TRAINING_SWITCHES(TRAINING_INDEX) TRAINING_SWITCH_COUNT
};
#define TRAINING_ROW(member, name, help)                                                           \
    CLI_OPTION(TRAINING_SWITCH + TRAINING_INDEX_##member, name, NULL, help)
static const struct argp_option training_options[] = {
    TRAINING_OPTIONS(CLI_OPTION) TRAINING_RECOMPUTE(CLI_OPTION) TRAINING_SWITCHES(TRAINING_ROW){0}};
/* For `fit`, which itself decides which operators are recomputed. */
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
        training->loss_output = strncmp(value, "output:", 7) == 0 ? value + 7 : NULL;
        options->loss = training->loss_output != NULL ? TN_LOSS_OUTPUT : tn_loss_find(value);
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
        if (training->loss_output != NULL)
            cli_words_add(words, name, "output:%s", training->loss_output);
        else
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

/* Finds the output that is the loss. */
static tn_status training_output(const char *name, const tn_graph *model, uint32_t *output,
                                 tn_error *error) {
    const tn_block *block = tn_graph_block(model, 0);
    for (*output = 0; *output < block->output_count; ++*output)
        if (strcmp(tn_graph_tensor(model, block->outputs[*output])->name, name) == 0) return TN_OK;
    TN_FAIL(error, TN_E_INVALID,
            "the model has no output '%.80s' for --loss; its first output is '%.80s'", name,
            block->output_count > 0 ? tn_graph_tensor(model, block->outputs[0])->name : "absent");
}

tn_status cli_training_options(const cli_training *training, const tn_graph *model,
                               tn_train_options *options, tn_error *error) {
    *options = training->options;
    options->freeze = training->freeze;
    options->train = training->train;
    /* --dtype f32 means the data types of the model */
    if (options->dtype == TN_FLOAT32) options->dtype = TN_UNDEFINED;
    if (training->loss_output == NULL) return TN_OK;
    return training_output(training->loss_output, model, &options->output, error);
}

tn_status cli_training_model(const cli_training *training, tn_graph **model, tn_error *error) {
    tn_train_options options;
    tn_graph *made;
    TN_TRY(cli_training_options(training, *model, &options, error));
    TN_TRY(tn_train_model(*model, &options, &made, error));
    tn_graph_destroy(*model);
    *model = made;
    return TN_OK;
}

tn_status cli_training_make(const cli_training *training, const tn_graph *model, bool rewrite,
                            tn_graph **rewritten, tn_training *made, tn_error *error) {
    tn_train_options options;
    tn_rewrite_options before = TN_REWRITE_OPTIONS_INIT;
    TN_TRY(cli_training_options(training, model, &options, error));
    before.use = TN_REWRITE_TO_TRAIN;
    if (!rewrite) return tn_train(model, &options, made, error);
    TN_TRY(tn_graph_rewrite(model, &before, rewritten, error));
    return tn_train(*rewritten, &options, made, error);
}

tn_recompute_options cli_training_recompute(const cli_training *training) {
    tn_recompute_options options = TN_RECOMPUTE_OPTIONS_INIT;
    if (training == NULL) return options;
    options.cheap = training->recompute_cheap;
    options.share = training->recompute;
    if (options.cheap && options.share == 0) options.share = TRAINING_ALL;
    return options;
}

/* --- one of several ranks: processes of mpirun --- */

bool cli_ranks_started(void) {
    const char *count = getenv("OMPI_COMM_WORLD_SIZE");
    return count != NULL && strcmp(count, "1") != 0;
}

static tn_status ranks_end(void *self, tn_world *world, tn_error *error) {
    const tn_error *why = self;
    *error = *why;
    return tn_world_agree(world, why->status, error);
}

/* Prints the error on which the ranks agreed. Without MPI (TN_E_UNSUPPORTED) the processes cannot
 * communicate, and each one prints its own error. */
static int ranks_end_print(void *self, tn_status status, const tn_error *error) {
    return cli_fail(status == TN_E_UNSUPPORTED ? self : error);
}

int cli_ranks_end(const tn_error *error) {
    tn_error why = *error, result = {0};
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    options.tell = ranks_end_print;
    options.self = &why;
    tn_status status = tn_world_run(&options, ranks_end, &why, &result);
    return tn_status_exit_code(status == TN_E_UNSUPPORTED ? why.status : status);
}

/* --- one of several ranks: options --- */

enum { RANKS_BUCKET = 700, RANKS_SHARD, RANKS_AHEAD, RANKS_SCHEDULE, RANKS_WHOLE };

#define RANKS_OPTIONS(X)                                                                           \
    X(RANKS_BUCKET, "bucket", "SIZE",                                                              \
      "bytes of gradients that ranks exchange together, as soon as they are computed (default: "   \
      "4MiB)")                                                                                     \
    X(RANKS_SHARD, "shard", "none|optimizer|gradients|parameters",                                 \
      "state that data-parallel ranks divide among themselves instead of each keeping all of it: " \
      "optimizer state; also gradients; also parameters (default: none)")                          \
    X(RANKS_AHEAD, "gather-ahead", "SIZE",                                                         \
      "with --shard parameters: bytes of parameters that are gathered ahead of their use "         \
      "(default: the largest bucket)")                                                             \
    X(RANKS_SCHEDULE, "schedule", "NAME",                                                          \
      "with --parallel pipeline=N: order of micro-batches, 1f1b (a backward pass as soon as "      \
      "possible) or gpipe (all forward passes first) (default: 1f1b)")                             \
    X(RANKS_WHOLE, "whole-sends", NULL,                                                            \
      "with --parallel tensor=N,pipeline=N: each rank of a stage sends identical tensors whole "   \
      "(default: each sends a part, and the receivers combine the parts)")

static const struct argp_option ranks_options[] = {RANKS_OPTIONS(CLI_OPTION){0}};

#define TN_X(name, text, sentence) text,
static const char *const ranks_shards[] = {TN_SHARD_TABLE(TN_X) NULL};
static const char *const ranks_schedules[] = {TN_PIPELINE_TABLE(TN_X) NULL};
#undef TN_X

static error_t ranks_parse(int key, char *value, struct argp_state *state) {
    cli_ranks *ranks = state->input;
    switch (key) {
    case RANKS_BUCKET:
        ranks->bucket = cli_size(state, "bucket", value);
        if (ranks->bucket == 0) cli_misuse(state, "--bucket: the size must be above 0");
        return 0;
    case RANKS_SHARD:
        ranks->shard = (tn_shard)cli_choice(state, "shard", value, ranks_shards);
        return 0;
    case RANKS_SCHEDULE:
        ranks->schedule = (tn_pipeline)cli_choice(state, "schedule", value, ranks_schedules);
        ranks->scheduled = true;
        return 0;
    case RANKS_WHOLE:
        ranks->whole_sends = true;
        return 0;
    case RANKS_AHEAD:
        ranks->ahead = cli_size(state, "gather-ahead", value);
        if (ranks->ahead == 0) cli_misuse(state, "--gather-ahead: the size must be above 0");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp cli_ranks_argp = {.options = ranks_options, .parser = ranks_parse};

void cli_ranks_conditions(const cli_ranks *ranks, bool several_data) {
    cli_condition_set(CLI_IF_STAGES, ranks->grid.pipeline > 1);
    cli_condition_set(CLI_IF_INTERLEAVED, ranks->grid.interleave > 1);
    cli_condition_set(CLI_IF_TENSOR_RANKS, ranks->grid.tensor > 1);
    cli_condition_set(CLI_IF_DATA_RANKS, several_data);
}

/* --- one of several ranks: groups --- */

uint32_t cli_ranks_group(const cli_ranks *ranks, tn_grid_axis axis) {
    return tn_grid_group(&ranks->grid, axis, ranks->rank);
}

/* Returns the group for gathering parameters. It has the ranks of the group for gradients but
 * another number, so that both can communicate at the same time. */
static uint32_t ranks_gather_group(const cli_ranks *ranks) {
    return cli_ranks_group(ranks, TN_GRID_AXES) + cli_ranks_group(ranks, TN_GRID_DATA);
}

static bool ranks_shard(const cli_ranks *ranks) {
    return ranks->shard != TN_SHARD_NONE && ranks->grid.data > 1;
}

tn_status cli_ranks_join(const cli_ranks *ranks, tn_world *world, const tn_context *context,
                         tn_error *error) {
    uint32_t count = ranks->grid.data;
    tn_place at = tn_grid_place(&ranks->grid, ranks->rank);
    if (!ranks_shard(ranks)) return TN_OK;
    uint32_t *members = tn__alloc_array(context, count, sizeof *members);
    if (members == NULL) return tn__no_memory(error, "a group of ranks");
    for (at.data = 0; at.data < count; at.data++) members[at.data] = tn_grid_rank(&ranks->grid, at);
    tn_status status = tn_world_group(world, ranks_gather_group(ranks), members, count, error);
    tn__free(context, members, count * sizeof *members);
    return status;
}

/* --- one of several ranks: its training step and its program --- */

tn_status cli_ranks_step(const cli_ranks *ranks, tn_train_options *options, tn_error *error) {
    const tn_grid *grid = &ranks->grid;
    tn_place at = tn_grid_place(grid, ranks->rank);
    uint64_t bucket = ranks->bucket > 0 ? ranks->bucket : CLI_BUCKET_USUAL;
    options->tensor_ranks = grid->tensor;
    options->tensor_rank = at.tensor;
    options->sequence_parallel = ranks->sequence;
    options->bucket_bytes = grid->data > 1 ? bucket : 0;
    options->shard = ranks->shard;
    options->shard_count = grid->data;
    options->shard_index = at.data;
    if (ranks->sequence && grid->tensor == 1)
        TN_FAIL(error, TN_E_INVALID,
                "--sequence-parallel needs several tensor ranks, but tensor=1; add --parallel "
                "tensor=N");
    uint64_t parts = (uint64_t)grid->pipeline * grid->interleave;
    if (parts > TN_STAGE_PARTS_MAX)
        TN_FAIL(
            error, TN_E_INVALID,
            "pipeline=%u,interleave=%u: at most %u stage parts are supported; use smaller numbers",
            grid->pipeline, grid->interleave, TN_STAGE_PARTS_MAX);
    if (grid->pipeline > 1) options->pipeline_parts = (uint32_t)parts;
    if (ranks->shard != TN_SHARD_NONE && grid->data == 1)
        TN_FAIL(error, TN_E_INVALID,
                "--shard %s needs several data-parallel ranks, but data=1; add --parallel data=N, "
                "or remove --shard",
                tn_shard_name(ranks->shard));
    return TN_OK;
}

static tn_status ranks_divide_state(const cli_ranks *ranks, const tn_program *program,
                                    tn_program **divided, tn_error *error) {
    tn_program_shard_options options = TN_PROGRAM_SHARD_OPTIONS_INIT;
    options.shard = ranks->shard;
    options.group = cli_ranks_group(ranks, TN_GRID_DATA);
    options.gather_group = ranks_gather_group(ranks);
    options.ahead_bytes = ranks->ahead;
    options.rules = ranks->rules;
    return tn_program_shard(program, &options, divided, error);
}

/* Makes the program of this rank's pipeline stage; with tensor parallelism, of this rank's part of
 * the stage. */
static tn_status ranks_stage(const cli_ranks *ranks, const tn_program *program, tn_program **staged,
                             tn_error *error) {
    tn_program_pipeline_options options = TN_PROGRAM_PIPELINE_OPTIONS_INIT;
    tn_place at = tn_grid_place(&ranks->grid, ranks->rank);
    uint32_t numbers[TN_STAGE_PARTS_MAX];
    options.stages = ranks->step->stages;
    options.stage_count = ranks->grid.pipeline;
    options.stage = at.pipeline;
    options.schedule = ranks->schedule;
    options.ranks = numbers;
    options.tensor_ranks = ranks->grid.tensor;
    options.tensor_rank = at.tensor;
    options.whole_sends = ranks->whole_sends;
    options.rules = ranks->rules;
    options.tensor_group = cli_ranks_group(ranks, TN_GRID_TENSOR);
    for (at.pipeline = 0; at.pipeline < options.stage_count; at.pipeline++)
        numbers[at.pipeline] = tn_grid_rank(&ranks->grid, at);
    return tn_program_pipeline(program, &options, staged, error);
}

/* First divides the program into pipeline stages, within layers, or both. Then adds the averaging
 * of the gradients over the data-parallel ranks. */
tn_status cli_ranks_divide(void *self, const tn_program *program, tn_program **divided,
                           tn_error *error) {
    const cli_ranks *ranks = self;
    uint32_t data = cli_ranks_group(ranks, TN_GRID_DATA);
    tn_program *joined = NULL;
    if (ranks->grid.pipeline > 1)
        TN_TRY(ranks_stage(ranks, program, &joined, error));
    else if (ranks->grid.tensor > 1)
        TN_TRY(tn_program_join(program, cli_ranks_group(ranks, TN_GRID_TENSOR), ranks->rules,
                               &joined, error));
    if (ranks->grid.data == 1 && joined != NULL) {
        *divided = joined;
        return TN_OK;
    }
    const tn_program *from = joined != NULL ? joined : program;
    tn_status status = ranks_shard(ranks) ? ranks_divide_state(ranks, from, divided, error)
                                          : tn_program_average(from, data, divided, error);
    tn_program_destroy(joined);
    return status;
}
