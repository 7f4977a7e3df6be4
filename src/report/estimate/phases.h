/* phases.h - finds the phase of a training step to which each instruction belongs. */
#ifndef TN_ESTIMATE_PHASES_H
#define TN_ESTIMATE_PHASES_H

#include <tenure/estimate.h>
#include <tenure/program.h>

/* Sets phases[i] to the phase of instruction i: TN_PHASE_FORWARD, TN_PHASE_BACKWARD or
 * TN_PHASE_UPDATE. All instructions of a program without training are TN_PHASE_FORWARD. The
 * function is in estimate.c. Cost: O(instructions + operands). */
void tn__phases_of(const tn_program *program, uint8_t *phases);

#endif
