/* emit.h - what of a schedule becomes instructions, and behind which act. */
#ifndef TN_BUDGET_EMIT_H
#define TN_BUDGET_EMIT_H

#include "budget/work.h"

typedef struct tn__emit_copies {
    uint32_t *at; /* [acts] of an OUT: the act behind which it is copied; of an ENCODE itself;
                   * TN_NONE: never, as nobody wants it back */
    uint32_t *due, *next_due; /* [acts] OUTs that are copied behind an act, as lists; TN_NONE */
} tn__emit_copies;
/* Errors: E_NO_MEMORY. Cost: O(acts + operands). */
tn_status tn__emit_find_copies(const tn__work *work, const tn__schedule *schedule, tn__arena *arena,
                               tn__emit_copies *copies, tn_error *error);

#endif
