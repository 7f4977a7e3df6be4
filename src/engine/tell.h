/* tell.h - records events in the trace; without a trace every function here does nothing. */
#ifndef TN_ENGINE_TELL_H
#define TN_ENGINE_TELL_H

#include <tenure/program.h>

#include "base/base.h"

typedef struct tn__tell {
    tn_trace *trace; /* NULL: nothing is recorded */
    const tn_occupancy *occupancy;
    uint64_t (*live)[TN_KIND_COUNT]; /* [steps] the plan's curve */
    uint64_t now[TN_KIND_COUNT];     /* bytes in use by kind, after ALLOC and FREE of blocks */
    uint32_t run;                    /* number of the run */
} tn__tell;

tn_status tn__tell_make(tn__tell *tell, tn_trace *trace, const tn_occupancy *occupancy,
                        tn__arena *arena, tn_error *error);
/* Records an instruction that ran; `bytes`: bytes that it moved across a link, if any. */
void tn__tell_step(tn__tell *tell, uint32_t step, double start_s, uint64_t bytes);
/* Records the beginning or end of a body; `life` names it (NULL: it has no live range). */
void tn__tell_block(tn__tell *tell, uint32_t step, tn_body_id body, const tn_life *life,
                    bool frees);
/* Records a block of static memory; `tell` is a tn__tell. */
void tn__tell_static(void *tell, tn_tensor_id tensor, uint64_t bytes);

#endif
