/* verify_piece.h - pieces at their addresses, as the files of the verifier share them. */
#ifndef TN_PLAN_PROOF_VERIFY_PIECE_H
#define TN_PLAN_PROOF_VERIFY_PIECE_H

#include "plan/problem/problem.h"

typedef struct tn__verify_piece { /* a piece of a buffer, at its address in the bank */
    int64_t first, last;
    uint64_t lo, hi;
    /* the buffer to which the piece belongs; for a group of tied buffers, its root */
    tn_body_id body;
    uint32_t number; /* index of the piece among those of its buffer */
} tn__verify_piece;

/* Replaces *first by another conflict if that one is earlier in time or, at an equal time, lower in
 * memory. */
static inline void tn__verify_consider(tn_conflict *first, const tn_conflict *found) {
    bool later = found->step != first->step ? found->step > first->step : found->lo >= first->lo;
    if (first->reason == TN_CONFLICT_NONE || !later) *first = *found;
}

/* Finds the first conflict of the pieces of a bank, sorted by first step, in a problem with
 * exclusions (verify_exclusions.c). Returns false if memory is exhausted. */
bool tn__verify_excluding(const tn_context *context, const tn__verify_piece *pieces, uint32_t count,
                          const tn__exclusions *exclusions, tn_conflict *found);

#endif
