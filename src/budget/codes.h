/* codes.h - the encoded forms that a value may have while nobody reads it. */
#ifndef TN_BUDGET_CODES_H
#define TN_BUDGET_CODES_H

#include "budget/gaps.h"

typedef struct tn__code {
    tn_codec codec; /* NONE: it has none */
    uint64_t bytes; /* of the form */
} tn__code;

typedef struct tn__codes {
    const tn__pass_run *run;
    const tn__gaps *gaps;
    uint32_t *bits_from; /* [values] gap from which on bits are enough; TN_NONE */
    uint64_t *rows;      /* [values] bytes as rows of what is not 0; 0: they do not pay */
    tn_codec lossy;      /* of all others; NONE: they stay */
} tn__codes;

#define TN__LOSSY_COUNT 3
extern const tn_codec tn__lossy[TN__LOSSY_COUNT]; /* those that lose least first */

/* Which forms lose nothing, of every value; `lossy` is NONE. In run->arena; run and gaps outlive
 * it. Errors: E_NO_MEMORY. Cost: O(values + readers). */
tn_status tn__codes_find(tn__codes *codes, const tn__pass_run *run, const tn__gaps *gaps);
/* The form in a gap, if it began there and held to the last reader. */
tn__code tn__codes_of(const tn__codes *codes, uint32_t gap);
/* Whether a codec may be used: losses are allowed where it has some. */
bool tn__codes_allow(const tn__pass_run *run, tn_codec codec);

#endif
