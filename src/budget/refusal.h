/* refusal.h - why no program keeps to a budget: the facts, and the one sentence about them.
 *
 * A search that is refused returns its status and these facts. The public call that began it
 * writes the sentence: tn_fit and the stages for theirs, tn_fit_graph for all searches together
 * (fit/claim.c). A pass may leave a short reason in the error of its run; the search drops it.
 */
#ifndef TN_BUDGET_REFUSAL_H
#define TN_BUDGET_REFUSAL_H

#include "base/base.h"

typedef struct tn__refusal {
    uint32_t techniques; /* TN_FIT_*: the scope; 0: the program without changes */
    uint64_t budget;
    uint64_t host_budget; /* 0: no limit */
    uint64_t least;       /* bytes of the smallest program found; 0: none was found */
    uint64_t bound;       /* proved: no program takes less; 0: no bound */
    bool ruled;           /* the scope is further limited by rules of the user */
    const char *of;       /* " of arena" if the bytes are of it alone; NULL: of all memory */
    char step[256];       /* "step 4, 'x' (Conv), needs 3.5 MiB (3,686,400 bytes) at once", or "" */
} tn__refusal;

/* Writes the sentence. `ended`: the limit that ended the search, for E_STOPPED. */
#define TN__REFUSAL_TEXT 1024
const char *tn__refusal_text(const tn__refusal *refusal, tn_status status, const char *ended,
                             char text[TN__REFUSAL_TEXT]);
/* Writes it to the error if the search was refused; returns the status. Other failures have no
 * facts, and their own message. */
tn_status tn__refusal_fail(const tn__refusal *refusal, tn_status status, tn_error *error);

#endif
