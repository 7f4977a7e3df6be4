/* tell.h - what happens, for the trace; without one every function here does nothing. */
#ifndef TN_ENGINE_TELL_H
#define TN_ENGINE_TELL_H

#include <tenure/program.h>
#include <tenure/trace.h>

#include "base/base.h"

typedef struct tn__tell {
    tn_trace *trace; /* NULL: nothing is told */
    const tn_occupancy *occupancy;
    uint64_t (*live)[TN_KIND_COUNT]; /* [steps] the plan's curve */
    uint64_t now[TN_KIND_COUNT];     /* the same of blocks: what ALLOC and FREE leave */
    uint32_t run;                    /* its number */
} tn__tell;

tn_status tn__tell_make(tn__tell *tell, tn_trace *trace, const tn_occupancy *occupancy,
                        tn__arena *arena, tn_error *error);
/* An instruction ran; `bytes` that it moved across, if it is one that does. */
void tn__tell_step(tn__tell *tell, uint32_t step, double start_s, uint64_t bytes);
/* A body begins or ends; `life` names it, NULL: nobody lives there. */
void tn__tell_block(tn__tell *tell, uint32_t step, tn_body_id body, const tn_life *life,
                    bool frees);
/* A block of static memory; `tell` is a tn__tell. */
void tn__tell_static(void *tell, tn_tensor_id tensor, uint64_t bytes);

#endif
