/* trace.h - the internals of recorded lookups, and Zipf's law one draw at a time. */
#ifndef TN_EMBEDDING_TRACE_H
#define TN_EMBEDDING_TRACE_H

#include <tenure/embedding.h>

#include "base/base.h"

struct tn_embedding_trace {
    tn_context context;
    uint32_t *rows;
    size_t count, room;
};

typedef struct tn__zipf {
    double exponent;
    double first, last; /* draws lie between these areas */
    double near;        /* a rank this close above its draw is accepted at once */
    uint64_t rows, factor;
    tn__random random;
} tn__zipf;

#endif
