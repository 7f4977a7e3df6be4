/* refusal.h - the facts about a search that found no program within a budget, and the sentence
 * about them.
 *
 * A refused search returns its status and these facts, and no message. The public call that began
 * the search writes the sentence: tn_fit for its own search, tn_fit_graph for all its searches
 * together (fit/claim.c). Only real failures (memory, invalid input, files) write a message where
 * they occur.
 */
#ifndef TN_BUDGET_REFUSAL_H
#define TN_BUDGET_REFUSAL_H

#include "base/base.h"

/* What ended a search. */
typedef enum tn__ended {
    TN__ENDED_NOT, /* nothing ended the search early: it was complete */
    TN__ENDED_LIMIT,
    TN__ENDED_TIME,
    TN__ENDED_CALLER
} tn__ended;

typedef struct tn__refusal {
    /* TN_FIT_*: techniques of the programs that were searched; 0: only the program without
     * changes */
    uint32_t techniques;
    uint64_t budget;
    uint64_t host_budget; /* limit for copies on the host; 0: no limit */
    uint64_t least;       /* bytes of the smallest program found; 0: no program was found */
    uint64_t bound; /* a proved lower bound in bytes: no program takes less; 0: no bound is known */
    /* TN_FIT_*: techniques of the programs for which `bound` holds; 0: it holds for all of
     * `techniques` */
    uint32_t bound_of;
    tn__ended ended; /* what ended the search; used if the status is E_STOPPED */
    bool ruled;      /* the user gave rules, which also limit the programs that were searched */
    const char *of; /* " of arena" if the bytes are those of the arena alone; NULL: of all memory */
    /* a sentence about the step that needs the most memory, such as "step 4, 'x' (Conv), needs 3.5
     * MiB (3,686,400 bytes) at once"; may be empty */
    char step[256];
} tn__refusal;

/* Size of the text that tn__refusal_text writes: the sentence about a budget that is not kept. */
#define TN__REFUSAL_TEXT 1024
const char *tn__refusal_text(const tn__refusal *refusal, tn_status status,
                             char text[TN__REFUSAL_TEXT]);
/* Writes the sentence of a refusal to `error` if `status` says that the search was refused; returns
 * `status`. Other failures have no facts, and already have a message. */
tn_status tn__refusal_fail(const tn__refusal *refusal, tn_status status, tn_error *error);

#endif
