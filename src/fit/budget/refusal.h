/* refusal.h - why no program keeps to a budget: the facts, and the one sentence about them.
 *
 * A search that is refused returns its status and these facts, and no message. The public call that
 * began it writes the sentence: tn_fit and the stages for theirs, tn_fit_graph for all searches
 * together (fit/claim.c). Only real failures (memory, invalid input, files) write a message where
 * they occur.
 */
#ifndef TN_BUDGET_REFUSAL_H
#define TN_BUDGET_REFUSAL_H

#include "base/base.h"

/* What ended a search before it was complete. */
typedef enum tn__ended {
    TN__ENDED_NOT, /* nothing: it was complete */
    TN__ENDED_LIMIT,
    TN__ENDED_TIME,
    TN__ENDED_CALLER
} tn__ended;

typedef struct tn__refusal {
    uint32_t techniques; /* TN_FIT_*: the scope; 0: the program without changes */
    uint64_t budget;
    uint64_t host_budget; /* 0: no limit */
    uint64_t least;       /* bytes of the smallest program found; 0: none was found */
    uint64_t bound;       /* proved: no program takes less; 0: no bound */
    uint32_t bound_of;    /* TN_FIT_*: the bound is of programs with these techniques; 0: with all
                           * of `techniques` */
    tn__ended ended;      /* read for E_STOPPED */
    bool ruled;           /* the scope is further limited by rules of the user */
    const char *of;       /* " of arena" if the bytes are of it alone; NULL: of all memory */
    char step[256];       /* "step 4, 'x' (Conv), needs 3.5 MiB (3,686,400 bytes) at once", or "" */
} tn__refusal;

/* Writes the sentence. */
#define TN__REFUSAL_TEXT 1024
const char *tn__refusal_text(const tn__refusal *refusal, tn_status status,
                             char text[TN__REFUSAL_TEXT]);
/* Writes it to the error if the search was refused; returns the status. Other failures have no
 * facts, and their own message. */
tn_status tn__refusal_fail(const tn__refusal *refusal, tn_status status, tn_error *error);

#endif
