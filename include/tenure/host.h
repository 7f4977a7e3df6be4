/* host.h - plans the host memory for the swapped tensors of a program.
 *
 *     // ... program: of tn_fit, or any
 *     tn_host host;
 *     tn_layout layout;
 *     if (tn_program_host(program, 0, &host, &error) ||
 *         tn_plan(host.problem, NULL, &layout, &error))
 *         return 2;
 *     // one block of layout.peak bytes; instruction i copies to or from it at
 *     // layout.offset[host.body[i]]
 *
 * A copy on the host is held from the start of the SWAP_OUT that makes it until its last SWAP_IN is
 * known to have ended. A static tensor that is on the host at the start or the end of the program
 * is held all the time. Copies in the same numbered slot (tn_instruction.slot) are one body (a
 * buffer of the plan) and share one offset over time.
 */
#ifndef TENURE_HOST_H
#define TENURE_HOST_H

#include <tenure/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_host {
    tn_problem *problem; /* on the steps of the program, like the problem of its occupancy */
    tn_body_id *body;    /* [instructions] the body of a swap's copy; TN_NONE: not a swap */
    uint64_t copied;     /* bytes of all copies, each counted once: the memory without reuse */
    uint32_t count;      /* number of instructions */
    tn_context context;
} tn_host;

/* Makes the layout problem of the host memory for a program's swaps. A program without swaps has no
 * bodies.
 *
 * alignment  of every body, a power of two; 0: 64
 * host       out; release it with tn_host_release. The program need not outlive it
 *
 * Errors: E_INVALID (the alignment), E_UNKNOWN (a size), E_NO_MEMORY.
 * Cost: O(instructions log n), and that of vector clocks with several streams. */
TN_API TN_CHECKED tn_status tn_program_host(const tn_program *program, uint64_t alignment,
                                            tn_host *host, tn_error *error);
TN_API void tn_host_release(tn_host *host); /* NULL and a zeroed host are fine */

#ifdef __cplusplus
}
#endif
#endif
