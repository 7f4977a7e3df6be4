/* stream.h - weight streaming (tn_program_stream): data shared by the stream_*.c files.
 *
 *   stream.c         the frame: rounds of choice, program and layout
 *   stream_items.c   blocks that may be fetched, their readers, and other live memory
 *   stream_clock.c   one choice: when each read begins, and the resulting time
 *   stream_choose.c  which blocks stay
 *   stream_emit.c    instructions
 */
#ifndef TN_BUDGET_STREAM_H
#define TN_BUDGET_STREAM_H

#include <tenure/stream.h>

#include "fit/budget/refusal.h"

/* One use of a block (tn__program_uses), and the decision about it. Its read can be saved by
 * holding the block since the previous use; for the first use, by keeping the block permanently.
 * Sorted by step, then block. */
typedef struct tn__stream_use {
    uint32_t step, block;
    uint32_t before, next; /* uses of the same block; TN_NONE */
    bool held;
} tn__stream_use;

/* A read of a block for the uses from `first` to the last use over which it is held. */
typedef struct tn__stream_fetch {
    uint32_t block, begins; /* begins when execution reaches this step */
    uint32_t first, last;   /* first and last step of use; the block is dropped after the second */
} tn__stream_fetch;

typedef struct tn__stream {
    const tn_program *program;
    const tn_static_block *blocks;
    uint32_t block_count, steps;
    tn__arena arena;
    tn_error *error;
    uint64_t alignment;
    uint64_t *cost;    /* [steps] picoseconds */
    uint64_t *live;    /* [steps] bytes of all memory except static memory */
    uint64_t fixed;    /* bytes of blocks that may not be fetched */
    uint64_t *bytes;   /* [blocks] aligned */
    uint64_t *reading; /* [blocks] time of a read in picoseconds */
    tn__stream_use *uses;
    uint32_t use_count;
    bool *stays; /* [blocks] the first use is held, and therefore all others */
    /* data of one choice */
    uint64_t target;           /* bytes that may be live at once */
    uint64_t *held;            /* [steps] bytes of blocks that stay or are fetched */
    uint64_t *start;           /* [steps + 1] picoseconds */
    tn__stream_fetch *fetches; /* [fetch_count] in the order of reads */
    uint32_t fetch_count;
    uint64_t time;
    uint32_t short_step; /* the step that did not fit */
} tn__stream;

/* stream.c: tn_program_stream without a message for a refusal, of which *refusal has the facts. */
tn_status tn__stream_seek(const tn_program *program, const tn_costs *costs,
                          const tn_stream_options *options, tn_stream_result *result,
                          tn__refusal *refusal, tn_error *error);

/* stream_items.c */
tn_status tn__stream_open(tn__stream *stream, const tn_program *program, const tn_costs *costs,
                          const tn_stream_options *options, tn_error *error);
void tn__stream_close(tn__stream *stream);
/* A lower bound on the bytes: the worst step with only the blocks that it reads. */
uint64_t tn__stream_least(const tn__stream *stream, uint32_t *step);

/* stream_clock.c: makes the schedule for the held uses. False: it needs more than the target. */
bool tn__stream_clock(tn__stream *stream);

/* Whether a use does not need a read. */
static inline bool tn__stream_is_there(const tn__stream *stream, const tn__stream_use *use) {
    return use->held || stream->stays[use->block];
}

/* stream_choose.c: holds uses, best first, within the target. *found false: even without held uses
 * the target is missed. */
tn_status tn__stream_choose(tn__stream *stream, bool *found);

/* stream_emit.c */
tn_status tn__stream_emit(tn__stream *stream, tn_program **program);

#endif
