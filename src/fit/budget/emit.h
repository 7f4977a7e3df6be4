/* emit.h - which acts of a schedule become instructions, and after which act. */
#ifndef TN_BUDGET_EMIT_H
#define TN_BUDGET_EMIT_H

#include "fit/budget/work.h"

typedef struct tn__emit_copies {
    uint32_t *at; /* [acts] OUT: the act after which the value is copied; ENCODE: the act itself;
                   * TN_NONE: never copied, because the value is not read back */
    uint32_t *due, *next_due; /* [acts] lists of the OUTs that are copied after an act; TN_NONE */
} tn__emit_copies;
/* Errors: E_NO_MEMORY. Cost: O(acts + operands). */
tn_status tn__emit_find_copies(const tn__work *work, const tn__schedule *schedule, tn__arena *arena,
                               tn__emit_copies *copies, tn_error *error);

#endif
