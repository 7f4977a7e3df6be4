/* ranks.c - the step and the program of one of several ranks. */
#include "cli/ranks.h"

#include "base/base.h"

uint32_t cli_ranks_group(const cli_ranks *ranks, tn_grid_axis axis) {
    return tn_grid_group(&ranks->grid, axis, ranks->rank);
}

tn_status cli_ranks_step(const cli_ranks *ranks, uint64_t bucket, tn_train_options *options,
                         tn_error *error) {
    const tn_grid *grid = &ranks->grid;
    options->tensor_ranks = grid->tensor;
    options->tensor_rank = tn_grid_place(grid, ranks->rank).tensor;
    options->bucket_bytes = grid->data > 1 ? bucket : 0;
    if (grid->pipeline > 1)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "pipeline=%u: layers cannot be divided among several ranks yet", grid->pipeline);
    return TN_OK;
}

/* First within a layer, then the mean of gradients. */
tn_status cli_ranks_divide(void *self, const tn_program *program, tn_program **divided,
                           tn_error *error) {
    const cli_ranks *ranks = self;
    uint32_t tensor = cli_ranks_group(ranks, TN_GRID_TENSOR);
    uint32_t data = cli_ranks_group(ranks, TN_GRID_DATA);
    tn_program *joined;
    if (ranks->grid.tensor == 1) return tn_program_average(program, data, divided, error);
    if (ranks->grid.data == 1) return tn_program_join(program, tensor, divided, error);
    TN_TRY(tn_program_join(program, tensor, &joined, error));
    tn_status status = tn_program_average(joined, data, divided, error);
    tn_program_destroy(joined);
    return status;
}
