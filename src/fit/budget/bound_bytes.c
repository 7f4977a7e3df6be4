/* bound_bytes.c - a lower bound on the memory of every schedule. While a job runs, all its operands
 * are live. While the last of its inputs is made, all other inputs are live already; the minimum
 * over the possible last inputs is a bound, too. Held values and outputs are live together at the
 * end. Cost: O(operands of makers of inputs).
 */
#include "fit/budget/bound.h"

bool tn__bound_in(const uint32_t *list, uint32_t count, uint32_t value) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

/* Bytes of operands and scratch of a first run; an output that may take an input's memory is
 * assumed to take it. */
uint64_t tn__bound_of_job(const tn__work *work, uint32_t job) {
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(work, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(work, job, false, &outputs);
    uint64_t sum = work->jobs[job].scratch;
    for (uint32_t i = 0; i < inputs; i++) sum += work->values[input[i]].bytes;
    for (uint32_t i = 0; i < outputs; i++)
        if (i > 0 || work->jobs[job].inplace == TN_NONE) sum += work->values[output[i]].bytes;
    return sum;
}

/* Bytes of any run while all values in a list are live, too; a value in both counts once. */
static uint64_t bound_beside(const tn__work *work, uint32_t job, bool again, const uint32_t *list,
                             uint32_t count) {
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(work, job, again, &inputs);
    const uint32_t *output = tn__job_outputs(work, job, again, &outputs);
    uint64_t sum = work->jobs[job].scratch, list_bytes = 0;
    for (uint32_t i = 0; i < inputs; i++)
        if (!tn__bound_in(list, count, input[i])) sum += work->values[input[i]].bytes;
    for (uint32_t i = 0; i < outputs; i++)
        if (!tn__bound_in(list, count, output[i])) sum += work->values[output[i]].bytes;
    for (uint32_t i = 0; i < count; i++) list_bytes += work->values[list[i]].bytes;
    uint64_t shared = 0;
    if (work->jobs[job].inplace != TN_NONE && outputs > 0) shared = work->values[output[0]].bytes;
    sum += list_bytes;
    return sum > shared ? sum - shared : 0;
}

/* The bytes while the last input of a job is made, whichever run makes it. */
static uint64_t bound_of_inputs(const tn__work *work, uint32_t job) {
    uint32_t inputs;
    const uint32_t *input = tn__job_inputs(work, job, false, &inputs);
    uint64_t least = UINT64_MAX;
    if (inputs > 64) return 0; /* no bound: such jobs are skipped to limit the cost */
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t maker = work->values[input[i]].maker;
        if (maker == TN_NONE) continue;
        uint64_t first = bound_beside(work, maker, false, input, inputs);
        uint64_t again = bound_beside(work, maker, true, input, inputs);
        if (first < least) least = first;
        if (again < least) least = again;
    }
    return least == UINT64_MAX ? 0 : least;
}

uint64_t tn__bound_bytes(const tn__work *work, bool alone) {
    uint64_t least = 0, held = 0;
    for (uint32_t v = 0; v < work->value_count; v++)
        if (work->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD))
            held += work->values[v].bytes;
    least = held;
    for (uint32_t j = 0; j < work->job_count; j++) {
        uint64_t own = tn__bound_of_job(work, j), before = alone ? bound_of_inputs(work, j) : 0;
        if (own > least) least = own;
        if (before > least) least = before;
    }
    return least;
}
