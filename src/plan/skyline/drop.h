/* drop.h - drops buffers one after the other: each comes to lie on the highest buffer below it. */
#ifndef TN_PLAN_SKYLINE_DROP_H
#define TN_PLAN_SKYLINE_DROP_H

#include "plan/frame/planner.h"

typedef struct tn__drop tn__drop;

/* Makes a floor (the highest end of all dropped buffers at each time step) of height 0; NULL if
 * memory is exhausted. Cost: 32 bytes per time step. */
tn__drop *tn__drop_create(const tn_context *context, uint32_t time_count);
void tn__drop_destroy(tn__drop *drop);
/* sets the floor to height 0 at all time steps, as if no buffer had been dropped */
void tn__drop_reset(tn__drop *drop);

/* The lowest aligned offset at which every piece of the buffer lies on or above the floor. Cost:
 * O(pieces * log steps). */
uint64_t tn__drop_offset(const tn__drop *drop, const tn_run_body *body, const tn_run_piece *pieces);
/* Raises the floor (the highest end of dropped buffers at each step) to the upper ends of the
 * buffer's pieces, with the buffer at `offset`. */
void tn__drop_raise(tn__drop *drop, const tn_run_body *body, const tn_run_piece *pieces,
                    uint64_t offset);

#endif
