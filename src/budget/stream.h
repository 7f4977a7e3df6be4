/* stream.h - what is fetched when: the parts of tn_program_stream.
 *
 *   stream.c         the frame: rounds of choice, program and layout
 *   stream_items.c   what may be fetched, who reads it, what else lives
 *   stream_clock.c   one choice: when each reading begins, and what the run then takes
 *   stream_choose.c  which blocks stay
 *   stream_emit.c    instructions
 */
#ifndef TN_BUDGET_STREAM_H
#define TN_BUDGET_STREAM_H

#include <tenure/stream.h>

#include "base/base.h"

/* One use of a block, and what may spare its reading: that the block is held from the use before,
 * or, of the first use, that it stays for good. Sorted by step, then block. */
typedef struct tn__stream_use {
    uint32_t step, block;
    uint32_t before, next; /* uses of the same block; TN_NONE */
    bool held;
} tn__stream_use;

/* A reading: for the uses from `first` on, up to the last one that is held over to. */
typedef struct tn__stream_fetch {
    uint32_t block, begins; /* with the walk at this step */
    uint32_t first, last;   /* used at these steps, and dropped behind the second */
} tn__stream_fetch;

typedef struct tn__stream {
    const tn_program *program;
    const tn_static_block *blocks;
    uint32_t block_count, steps;
    tn__arena arena;
    tn_error *error;
    uint64_t alignment;
    uint64_t *cost;    /* [steps] picoseconds */
    uint64_t *live;    /* [steps] bytes of all but static memory */
    uint64_t fixed;    /* bytes of blocks that may not be fetched */
    uint64_t *bytes;   /* [blocks] aligned */
    uint64_t *reading; /* [blocks] picoseconds */
    tn__stream_use *uses;
    uint32_t use_count;
    bool *stays; /* [blocks] the first use is held: so are all others */
    /* of one choice */
    uint64_t target;           /* bytes that may live at once */
    uint64_t *held;            /* [steps] bytes of blocks, that stay or are fetched */
    uint64_t *start;           /* [steps + 1] picoseconds */
    tn__stream_fetch *fetches; /* [fetch_count] in the order of reading */
    uint32_t fetch_count;
    uint64_t time;
    uint32_t short_step; /* where it did not fit */
} tn__stream;

/* stream_items.c */
tn_status tn__stream_open(tn__stream *stream, const tn_program *program, const tn_costs *costs,
                          const tn_stream_options *options, tn_error *error);
void tn__stream_close(tn__stream *stream);
/* Bytes without which nothing runs: the worst step with what it reads alone. */
uint64_t tn__stream_least(const tn__stream *stream, uint32_t *step);

/* stream_clock.c: what is held, as a schedule. False: it needs more than the target. */
bool tn__stream_clock(tn__stream *stream);

/* Whether a use needs no reading. */
static inline bool tn__stream_is_there(const tn__stream *stream, const tn__stream_use *use) {
    return use->held || stream->stays[use->block];
}

/* stream_choose.c: uses are held, best first, within the target. Not found: not even without. */
tn_status tn__stream_choose(tn__stream *stream, bool *found);

/* stream_emit.c */
tn_status tn__stream_emit(tn__stream *stream, tn_program **program);

#endif
