/* host_pool.c - plans the host pool of a result: a layout for the values that the program swaps. */
#include <tenure/host.h>

#include "fit/budget/seek.h"

tn_status tn__fit_host(tn__fit *fit, tn_fit_result *result) {
    bool swaps = false;
    tn_host host;
    const tn_instruction *list = tn_program_instructions(result->program);
    for (uint32_t i = 0; i < tn_program_count(result->program); i++)
        swaps |= list[i].opcode == TN_SWAP_OUT;
    if (!swaps) return TN_OK;
    TN_TRY(tn_program_host(result->program, 0, &host, fit->error));
    result->host = host.problem;
    host.problem = NULL; /* the result owns it now */
    tn_host_release(&host);
    return tn__fit_plan(fit, result->host, 0, &result->host_layout);
}
