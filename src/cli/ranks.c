/* ranks.c - the training step and the program of one of several ranks. */
#include "cli/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/combine.h"

/* --- processes of mpirun --- */

bool cli_ranks_started(void) {
    const char *count = getenv("OMPI_COMM_WORLD_SIZE");
    return count != NULL && strcmp(count, "1") != 0;
}

static tn_status ranks_end(void *self, tn_world *world, tn_error *error) {
    const tn_error *why = self;
    *error = *why;
    return tn_world_agree(world, why->status, error);
}

/* Without MPI the processes cannot communicate; each one then reports its own error. */
static int ranks_end_tell(void *self, tn_status status, const tn_error *error) {
    return cli_fail(status == TN_E_UNSUPPORTED ? self : error);
}

int cli_ranks_end(const tn_error *error) {
    tn_error why = *error, told = {0};
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    options.tell = ranks_end_tell;
    options.self = &why;
    tn_status status = tn_world_run(&options, ranks_end, &why, &told);
    return tn_status_exit_code(status == TN_E_UNSUPPORTED ? why.status : status);
}

/* --- options --- */

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

/* --- groups --- */

uint32_t cli_ranks_group(const cli_ranks *ranks, tn_grid_axis axis) {
    return tn_grid_group(&ranks->grid, axis, ranks->rank);
}

/* The group for gathering parameters, concurrent with that of gradients: the same ranks under
 * another number. */
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

/* --- the step, and the program --- */

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
    return tn_program_shard(program, &options, divided, error);
}

/* The program of one pipeline stage of a replica, or of a part of it. */
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
    options.tensor_group = cli_ranks_group(ranks, TN_GRID_TENSOR);
    for (at.pipeline = 0; at.pipeline < options.stage_count; at.pipeline++)
        numbers[at.pipeline] = tn_grid_rank(&ranks->grid, at);
    return tn_program_pipeline(program, &options, staged, error);
}

/* First divides into stages or within layers or both, then averages gradients. */
tn_status cli_ranks_divide(void *self, const tn_program *program, tn_program **divided,
                           tn_error *error) {
    const cli_ranks *ranks = self;
    uint32_t data = cli_ranks_group(ranks, TN_GRID_DATA);
    tn_program *joined = NULL;
    if (ranks->grid.pipeline > 1)
        TN_TRY(ranks_stage(ranks, program, &joined, error));
    else if (ranks->grid.tensor > 1)
        TN_TRY(tn_program_join(program, cli_ranks_group(ranks, TN_GRID_TENSOR), &joined, error));
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
