/* fit_stream.c - `tenure fit --allow stream`: the program whose weights come from their file when
 * they are needed, as an answer of fit. Nothing of them is read: it is a prediction, for the speed
 * that --storage tells.
 */
#include <stdlib.h>

#include "base/base.h"
#include "cli/fit.h"

static void fit_stream_take(tn_stream_result *made, uint64_t plain_bytes, tn_fit_result *answer) {
    *answer = (tn_fit_result){
        .program = made->program,
        .occupancy = made->occupancy,
        .layout = made->layout,
        .pass = "stream",
        .bytes = made->bytes,
        .live_bytes = tn_occupancy_summary(made->occupancy).peak_live,
        .plain_bytes = plain_bytes,
        .time = made->time,
        .plain_time = made->plain_time,
        .stall = made->stall,
        .rounds = made->rounds,
    };
    made->program = NULL;
    made->occupancy = NULL;
    made->layout = (tn_layout){0};
}

bool cli_fit_streams(const cli_fit *fit) {
    return (fit->options.allow & CLI_ALLOW_STREAM) != 0 && fit->setup != NULL &&
           tn_setup_need(fit->setup).total > fit->options.budget;
}

tn_status cli_fit_stream(cli_fit *fit, tn_fit_result *answer, tn_error *error) {
    const tn_kernels *kernels = tn_setup_kernels(fit->setup);
    tn_stream_options options = TN_STREAM_OPTIONS_INIT;
    uint64_t plain_bytes = tn_setup_need(fit->setup).total;
    uint32_t count;
    const tn_static_block *blocks = tn_setup_statics(fit->setup, &count);
    if (kernels == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "weights are streamed in the form that kernels want: leave --costs model:... out");
    uint8_t *may = calloc((size_t)count + 1, 1);
    if (may == NULL || !tn_engine_may_fetch(fit->program, kernels, blocks, count, may)) {
        free(may);
        return tn__no_memory(error, "the answer");
    }
    options.context = fit->input.import.context;
    options.budget = fit->options.budget;
    options.blocks = blocks;
    options.block_count = count;
    options.may = may;
    options.bytes_per_s = fit->storage;
    options.latency_s = TN__READ_S;
    options.memory = &fit->memory;
    options.plan = &fit->choices.plan;
    tn_status status = tn_program_stream(fit->program, fit->costs, &options, &fit->streamed, error);
    free(may);
    if (status != TN_OK) return status;
    fit->options.fixed_bytes = 0; /* all of it lies in the arena */
    fit_stream_take(&fit->streamed, plain_bytes, answer);
    return TN_OK;
}
