/* fit_host.c - the host's pool: a problem and a layout of its own.
 *
 * A buffer is held from the instruction that copies out to whoever waits for the last copy back:
 * from there on nobody reads it.
 * Cost: O(instructions + tensors), and a plan.
 */
#include "budget/fit.h"

#define HOST_ALIGNMENT 64u

typedef struct host_copies { /* of a tensor that is there */
    uint32_t out, in;        /* instructions; TN_NONE */
} host_copies;

/* The first instruction on stream 0 from `step` on that waits for it, or the end. */
static uint32_t host_end(const tn_program *program, uint32_t step) {
    const tn_instruction *list = tn_program_instructions(program);
    uint32_t count = tn_program_count(program), at = step + 1;
    while (at < count && list[at].wait != list[step].signal) at++;
    return at < count ? at + 1 : count;
}

static tn_status host_add(const tn_program *program, tn_problem *host, tn_tensor_id tensor,
                          host_copies *it, tn_error *error) {
    const tn_tensor *facts = tn_graph_tensor(tn_program_graph(program), tensor);
    if (it->out == TN_NONE) return TN_OK;
    uint32_t last = host_end(program, it->in != TN_NONE ? it->in : it->out);
    tn_piece piece = {.first = it->out, .last = last, .hi = facts->bytes};
    tn_body body = {.name = facts->name,
                    .size = facts->bytes,
                    .first = it->out,
                    .last = last,
                    .pieces = &piece,
                    .piece_count = 1};
    it->out = it->in = TN_NONE;
    return tn_problem_add(host, &body, NULL, error);
}

static tn_status host_all(const tn_program *program, tn_problem *host, host_copies *there,
                          tn_error *error) {
    const tn_instruction *list = tn_program_instructions(program);
    uint32_t tensors = tn_graph_tensor_count(tn_program_graph(program));
    for (uint32_t t = 0; t < tensors; t++) there[t] = (host_copies){TN_NONE, TN_NONE};
    for (uint32_t i = 0; i < tn_program_count(program); i++) {
        if (list[i].opcode == TN_SWAP_IN) there[list[i].tensor].in = i;
        if (list[i].opcode != TN_SWAP_OUT) continue;
        TN_TRY(host_add(program, host, list[i].tensor, &there[list[i].tensor], error));
        there[list[i].tensor].out = i;
    }
    for (uint32_t t = 0; t < tensors; t++) TN_TRY(host_add(program, host, t, &there[t], error));
    return TN_OK;
}

tn_status tn__fit_host(tn__fit *fit, tn_fit_result *result) {
    bool swaps = false;
    const tn_instruction *list = tn_program_instructions(result->program);
    for (uint32_t i = 0; i < tn_program_count(result->program); i++)
        swaps |= list[i].opcode == TN_SWAP_OUT;
    if (!swaps) return TN_OK;
    size_t tensors = tn_graph_tensor_count(tn_program_graph(result->program)) + (size_t)1;
    host_copies *there = tn__alloc_array(&fit->context, tensors, sizeof *there);
    if (there == NULL) return tn__no_memory(fit->error, "the host's pool");
    tn_status status = tn_problem_create(&fit->context, &result->host, fit->error);
    if (status == TN_OK)
        status = tn_problem_set_alignment(result->host, HOST_ALIGNMENT, fit->error);
    if (status == TN_OK) status = host_all(result->program, result->host, there, fit->error);
    tn_plan_options plan = tn__fit_plan_options(fit);
    if (status == TN_OK) status = tn_plan(result->host, &plan, &result->host_layout, fit->error);
    tn__free(&fit->context, there, tensors * sizeof *there);
    return status;
}
