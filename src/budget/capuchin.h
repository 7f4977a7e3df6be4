/* capuchin.h - what the modes of the pass capuchin share (passes/capuchin.c says how they follow
 * each other). */
#ifndef TN_BUDGET_CAPUCHIN_H
#define TN_BUDGET_CAPUCHIN_H

#include "budget/gaps.h"

/* capuchin_passive.c: swaps on demand. Where a job finds no room, what was accessed least lately
 * goes to the host there and then; what it reads and is not there comes back there and then.
 * possible  out: false where there is no room for a job even so
 * Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs values). */
tn_status tn__capuchin_passive(tn__gaps *gaps, tn__schedule *schedule, bool *possible);

/* capuchin_feedback.c: which copies a schedule waits for before they are read.
 * late  out [gaps]: how long; 0: not at all
 * Errors: E_NO_MEMORY. Cost: O(acts + operands). */
tn_status tn__capuchin_late(const tn__gaps *gaps, const tn__schedule *schedule, uint64_t *late);

#endif
