/* trace.h - the struct of recorded lookups of an embedding table. */
#ifndef TN_EMBEDDING_TRACE_H
#define TN_EMBEDDING_TRACE_H

#include <tenure/embedding.h>

#include "base/base.h"

struct tn_embedding_trace {
    tn_context context;
    uint32_t *rows;
    size_t count, room;
};

#endif
