/* phases.h - finds the phase of a training step that each instruction belongs to. */
#ifndef TN_ESTIMATE_PHASES_H
#define TN_ESTIMATE_PHASES_H

#include <tenure/estimate.h>
#include <tenure/program.h>

/* estimate.c. phases: out, [instructions] of tn_phase: FORWARD, BACKWARD or UPDATE, the update. A
 * program without training is all FORWARD. Cost: O(instructions + operands). */
void tn__phases_of(const tn_program *program, uint8_t *phases);

#endif
