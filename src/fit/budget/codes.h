/* codes.h - the encoded forms that a value may take between two reads. */
#ifndef TN_BUDGET_CODES_H
#define TN_BUDGET_CODES_H

#include "fit/budget/gaps.h"

typedef struct tn__code {
    tn_codec codec; /* NONE: the value has no encoded form */
    uint64_t bytes; /* size of the encoded form */
} tn__code;

typedef struct tn__codes {
    const tn__pass_run *run;
    const tn__gaps *gaps;
    uint32_t *bits_from; /* [values] first gap from which on sign bits suffice; TN_NONE */
    uint64_t *rows;      /* [values] size as sparse rows of its nonzero elements; 0: sparse rows
                          * are not smaller */
    tn_codec lossy;      /* codec for all other values; NONE: they are not encoded */
} tn__codes;

#define TN__LOSSY_COUNT 3
extern const tn_codec tn__lossy[TN__LOSSY_COUNT]; /* the least lossy first */

/* Finds the lossless forms of every value; `lossy` is set to NONE. The result lies in run->arena;
 * run and gaps must outlive it. Errors: E_NO_MEMORY. Cost: O(values + readers). */
tn_status tn__codes_find(tn__codes *codes, const tn__pass_run *run, const tn__gaps *gaps);
/* The form of a value that is encoded at this gap and stays encoded until its last reader. */
tn__code tn__codes_of(const tn__codes *codes, uint32_t gap);
/* Whether the caller allows this codec. A lossy codec needs permission for losses. */
bool tn__codes_allow(const tn__pass_run *run, tn_codec codec);

#endif
