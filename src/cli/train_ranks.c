/* train_ranks.c - `tenure train --parallel data=N,tensor=N,pipeline=N`: a run on several ranks,
 * each with a part of every batch (data), of every layer (tensor), or of the layers (pipeline).
 *
 * All ranks do the same as a single one; only rank 0 prints, draws and tests. ranks.c divides the
 * options of the step and the program. Before any rank waits for another, all agree twice that they
 * can begin. So an error is printed once, and all ranks end with the same status.
 */
#include "cli/train.h"

#include <inttypes.h>
#include <signal.h>

#include "base/base.h"

bool cli_train_speaks(const cli_train *train) {
    return train->world == NULL || tn_world_rank(train->world) == 0;
}

uint32_t cli_train_ranks(const cli_train *train) {
    return train->world == NULL ? 1 : tn_world_ranks(train->world);
}

uint32_t cli_train_parts(const cli_train *train) { return train->at.grid.data; }

/* Ranks with different samples use different random numbers; ranks with parts of one model use the
 * same. */
#define RANKS_SEED UINT64_C(0x9e3779b97f4a7c15)

tn_status cli_train_join(cli_train *train, tn_error *error) {
    tn_train_options *options = &train->training.options;
    if (train->world == NULL) return TN_OK;
    train->at.rank = tn_world_rank(train->world);
    if (!train->divided) train->at.grid.data = tn_world_ranks(train->world);
    TN_TRY(tn_world_grid(train->world, &train->at.grid, error));
    train->session.exchange = train->options.exchange = tn_world_exchange(train->world);
    train->options.group = cli_ranks_group(&train->at, TN_GRID_DATA);
    train->options.tensor_group = cli_ranks_group(&train->at, TN_GRID_TENSOR);
    train->options.pipeline_group = cli_ranks_group(&train->at, TN_GRID_PIPELINE);
    train->at.step = &train->session.step;
    options->seed += RANKS_SEED * tn_grid_place(&train->at.grid, train->at.rank).data;
    TN_TRY(cli_ranks_step(&train->at, options, error));
    TN_TRY(cli_ranks_join(&train->at, train->world, train->input.import.context, error));
    if (tn_grid_ranks(&train->at.grid) == 1) return TN_OK;
    train->divide =
        (tn_divide){cli_ranks_divide, &train->at, .arranges = train->at.grid.pipeline > 1};
    train->session.divide = &train->divide;
    return TN_OK;
}

tn_status cli_train_agree(cli_train *train, tn_status status, tn_error *error) {
    return train->world == NULL ? status : tn_world_agree(train->world, status, error);
}

tn_status cli_train_alike(cli_train *train, tn_error *error) {
    const tn_world_same same = {"picture (-o)", train->pictures.count > 0};
    if (train->world == NULL) return TN_OK;
    TN_TRY(tn_world_compare(train->world, &same, 1, error));
    return tn_world_alike(train->world, tn_setup_program(train->session.setup), train->session.seed,
                          error);
}

/* --- measurements of the ranks, at the end --- */

tn_status cli_train_measure(cli_train *train, tn_error *error) {
    if (train->world == NULL) return TN_OK;
    const tn_exchange *to = tn_world_exchange(train->world);
    uint32_t ranks = cli_train_ranks(train);
    cli_rank *all = tn__alloc_array(train->input.import.context, ranks, sizeof *all);
    tn_engine_usage usage;
    if (all == NULL) return tn__no_memory(error, "the measurements of ranks");
    tn_engine_measure(train->session.engine, &usage);
    const tn_world_usage sent = tn_world_measure(train->world);
    all[to->rank] = (cli_rank){.planned = usage.planned_peak,
                               .measured = usage.measured_peak,
                               .statics = usage.static_bytes,
                               .messages = sent.messages,
                               .bytes = sent.bytes,
                               .step_messages = sent.messages - train->begun.messages,
                               .step_bytes = sent.bytes - train->begun.bytes,
                               .direct_bytes = sent.direct_bytes - train->begun.direct_bytes,
                               .talk_s = usage.talk_seconds,
                               .stall_s = usage.stall_seconds,
                               .idle = {-1, -1}};
    tn_status status = to->gather(to->self, 0, &all[to->rank], all, sizeof *all, error);
    train->ranks = all;
    return status;
}

/* --- the world --- */

static tn_status ranks_one(void *self, tn_world *world, tn_error *error) {
    cli_train *given = self, train = *given;
    tn_context context = *given->input.import.context;
    bool speaks = tn_world_rank(world) == 0;
    if (!speaks) {
        context.log = NULL;
        context.progress = NULL;
        train.session.traces.count = 0;
        train.log_path = NULL;
    }
    train.world = world;
    train.session.input = &train.input;
    train.input.import.context = train.session.choices.plan.context = &context;
    tn_status status = train.run(&train, error);
    if (speaks || !given->threads_as_ranks) given->signal = train.signal;
    cli_train_close(&train);
    return status;
}

static int ranks_tell(void *self, tn_status status, const tn_error *error) {
    (void)self;
    (void)status;
    return cli_fail(error);
}

bool cli_train_has_ranks(const cli_train *train) {
    return train->divided || train->threads_as_ranks || cli_ranks_started();
}

int cli_train_world(cli_train *train) {
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    tn_error error = {0};
    options.context = train->input.import.context;
    options.driver = train->threads_as_ranks ? "threads" : NULL;
    options.ranks = train->divided ? tn_grid_ranks(&train->at.grid) : 0;
    options.tell = ranks_tell;
    if (!train->threads_as_ranks && getenv("OMPI_COMM_WORLD_SIZE") == NULL && options.ranks > 1) {
        tn__fail(&error, TN_E_INVALID,
                 "%u ranks are requested, but only one process runs; start them with `mpirun -n %u "
                 "tenure ...`, or add --ranks-as-threads",
                 options.ranks, options.ranks);
        return cli_fail(&error);
    }
    return tn_status_exit_code(tn_world_run(&options, ranks_one, train, &error));
}
