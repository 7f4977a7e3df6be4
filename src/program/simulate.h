/* simulate.h - declarations that the files of the simulator share. */
#ifndef TN_PROGRAM_SIMULATE_H
#define TN_PROGRAM_SIMULATE_H

#include <tenure/simulate.h>

#include "program/program.h"

/* simulate_turns.c: how often each instruction runs.
 *
 *   durations  [instructions] of one run of each; a loop multiplies them by its turns
 *   turns      out [instructions]; 0: in a branch that is not taken
 *   guesses    out: operators with a branch or turns that are not known before the run
 *
 * Errors: E_NO_MEMORY. Cost: O(instructions depth + regions log regions).
 */
tn_status tn__simulate_turns(const tn_program *program, uint64_t *durations, uint64_t *turns,
                             uint32_t *guesses, tn__arena *arena, tn_error *error);

/* simulate_tell.c: the events. */
typedef struct tn__simulate_tell {
    const tn_program *program;
    const tn_simulate_options *options;
    uint64_t (*live)[TN_KIND_COUNT]; /* [instructions]; NULL: no occupancy is given */
    uint64_t now[TN_KIND_COUNT];     /* of blocks */
    tn__sort_item *begins, *ends;    /* [count] bodies by their first, by their last step */
    uint32_t count, begin, end;      /* next entry of `ends` and of `begins` */
    uint32_t *named;                 /* [bodies] the life that gives it a name; TN_NONE */
    bool *there;                     /* [bodies] */
} tn__simulate_tell;
tn_status tn__simulate_tell_make(tn__simulate_tell *tell, const tn_program *program,
                                 const tn_simulate_options *options, tn__arena *arena,
                                 tn_error *error);
/* Called when the walk comes to a step, and once after the last step. */
void tn__simulate_tell_blocks(tn__simulate_tell *tell, uint32_t step, uint64_t at_ps);
void tn__simulate_tell_step(const tn__simulate_tell *tell, uint32_t step, uint64_t start_ps,
                            uint64_t duration_ps, uint64_t bytes);

#endif
