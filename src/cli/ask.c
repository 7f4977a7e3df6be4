/* ask.c - from the options of a command to the options of a setup. */
#include "cli/ask.h"

#include <stdlib.h>

#include "base/base.h"

tn_occupancy_options cli_ask_memory(const cli_input *input) {
    tn_occupancy_options memory = input->occupancy_options;
    memory.struct_size = sizeof memory;
    memory.alignment = input->alignment;
    memory.banks = input->banks;
    memory.bank_count = input->bank_count;
    return memory;
}

/* The stages REWRITE, KERNELS and SCRATCH. */
static void ask_kernels(const cli_whom *whom, bool trains, cli_asked *asked) {
    asked->rewrite = (tn_rewrite_options)TN_REWRITE_OPTIONS_INIT;
    asked->kernels = (tn_kernels_options)TN_KERNELS_OPTIONS_INIT;
    asked->rewrite.use = trains ? TN_REWRITE_TRAINED : TN_REWRITE_TO_RUN;
    asked->kernels.threads = whom->threads;
    asked->kernels.plain = whom->runner == CLI_RUNNER_PLAIN;
    asked->setup.no_kernels = whom->runner == CLI_RUNNER_NONE;
    asked->setup.kernels = &asked->kernels;
    asked->setup.fastest = whom->fastest;
    if (cli_whom_rewrites(whom) && !whom->staged)
        asked->setup.rewrite = &asked->rewrite;
    else
        asked->rewrite.no_fuse = asked->rewrite.no_formats = true;
}

void cli_ask(const cli_input *input, const cli_whom *whom, const cli_training *training,
             const tn_plan_options *plan, cli_asked *asked) {
    asked->setup = (tn_setup_options)TN_SETUP_OPTIONS_INIT;
    asked->program = (tn_program_options)TN_PROGRAM_OPTIONS_INIT;
    asked->program.order = input->order;
    asked->recompute = cli_training_again(training);
    asked->memory = cli_ask_memory(input);
    ask_kernels(whom, training != NULL, asked);
    tn_setup_options *setup = &asked->setup;
    setup->context = input->import.context;
    setup->program = &asked->program;
    setup->recompute = &asked->recompute;
    setup->rules = &input->rules;
    setup->memory = &asked->memory;
    setup->statics = input->statics;
    setup->plan = plan;
    setup->unplanned = plan == NULL;
}

/* --- for a budget --- */

/* The callback `costs` of tn_fit_request. */
static tn_status ask_costs(void *self, const tn_setup *setup, tn_costs **costs, tn_error *error) {
    const cli_sources *sources = self;
    return cli_costs_make(sources->from, setup, sources->threads, sources->engine.context, costs,
                          error);
}

/* The callback `zeros`. Only the codec csr depends on them. */
static tn_status ask_zeros(void *self, const tn_setup *setup, const float **zeros,
                           tn_error *error) {
    const cli_sources *sources = self;
    if (sources->codecs != 0 && (sources->codecs >> TN_CODEC_CSR & 1) == 0) return TN_OK;
    free(*sources->zeros); /* of a search that has ended */
    TN_TRY(cli_zeros(setup, &sources->engine, sources->samples, sources->zeros, error));
    *zeros = *sources->zeros;
    return TN_OK;
}

void cli_ask_fit(cli_sources *sources, tn_fit_request *request) {
    request->costs = cli_costs_given(sources->from) ? ask_costs : NULL;
    request->zeros = ask_zeros;
    request->self = sources;
}
