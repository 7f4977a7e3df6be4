/* frame.h - declarations that the files of this folder share; fit_graph.c explains how they
 * combine. */
#ifndef TN_FIT_FRAME_H
#define TN_FIT_FRAME_H

#include <tenure/claim.h>

#include "base/base.h"
#include "budget/fit.h"

/* Techniques that change only the program (tn_fit); the others change the graph or the place of
 * weights. */
#define TN__FIT_PROGRAM                                                                            \
    (uint32_t)(TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP | TN_FIT_COMPRESS | TN_FIT_LOSSY)

/* claim.c: E_INFEASIBLE, E_EXHAUSTED or E_STOPPED, with a message that states its scope. For
 * E_STOPPED, `ended` names the limit that ended the search. */
tn_status tn__claim_fail(const tn_fit_answer *answer, tn_status status, const char *ended,
                         const tn_context *context, tn_error *error);

#endif
