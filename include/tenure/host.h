/* host.h - the other side of a program's swaps: the host's memory for what is away.
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
 * A copy is held from the start of the SWAP_OUT that makes it until the last SWAP_IN of it is known
 * to be over. What is static and begins or ends the program there is held all the time. Copies in
 * one numbered buffer (tn_instruction.slot) are one body: by turns at one place.
 */
#ifndef TENURE_HOST_H
#define TENURE_HOST_H

#include <tenure/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_host {
    tn_problem *problem; /* on the steps of the program, as its Occupancy's is */
    tn_body_id *body;    /* [instructions] of a swap: where its copy is; TN_NONE: it is no swap */
    uint64_t copied;     /* bytes of all copies, each once: what memory without reuse would take */
    uint32_t count;      /* of instructions */
    tn_context context;
} tn_host;

/* What a program's swaps ask of the host's memory. A program without swaps has no bodies.
 *
 * alignment  of every body, a power of two; 0: 64
 * host       out; release it with tn_host_release. The program need not outlive it
 *
 * Errors: E_INVALID (the alignment), E_UNKNOWN (a size), E_NO_MEMORY.
 * Cost: O(instructions log n), and that of clocks with several streams. */
TN_API TN_CHECKED tn_status tn_program_host(const tn_program *program, uint64_t alignment,
                                            tn_host *host, tn_error *error);
TN_API void tn_host_release(tn_host *host); /* all zeros, and NULL, are fine */

#ifdef __cplusplus
}
#endif
#endif
