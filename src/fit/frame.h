/* frame.h - what the files of the room share; fit_graph.c says how they work together. */
#ifndef TN_FIT_FRAME_H
#define TN_FIT_FRAME_H

#include <tenure/claim.h>

#include "base/base.h"
#include "budget/fit.h"

/* What a program can do by itself (tn_fit); the others change the graph, or where weights are. */
#define TN__FIT_PROGRAM                                                                            \
    (uint32_t)(TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP | TN_FIT_COMPRESS | TN_FIT_LOSSY)

/* claim.c: E_INFEASIBLE, E_EXHAUSTED or E_STOPPED, in words that carry their scope; of the last
 * `ended` says what ended the search. */
tn_status tn__claim_fail(const tn_fit_answer *answer, tn_status status, const char *ended,
                         const tn_context *context, tn_error *error);

#endif
