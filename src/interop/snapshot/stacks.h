/* stacks.h - frames and stacks by number: equal ones are stored once.
 *
 * The 10^7 allocations of a training run have a few thousand different stacks.
 */
#ifndef TN_SNAPSHOT_STACKS_H
#define TN_SNAPSHOT_STACKS_H

#include "base/table.h"

typedef struct tn__stack_frame {
    uint32_t function, file; /* numbers of texts */
    int64_t line;
} tn__stack_frame;

typedef struct tn__stack_row {
    uint64_t first; /* of its members */
    uint32_t count;
} tn__stack_row;

typedef struct tn__stacks {
    const tn_context *context;
    tn__stack_frame *frames;
    size_t frame_count, frame_room;
    tn__stack_row *stacks; /* number 0 is the empty one */
    size_t stack_count, stack_room;
    uint32_t *members; /* frames, the innermost first */
    size_t member_count, member_room;
    tn__table frame_table, stack_table; /* rows by their contents */
    uint64_t key; /* key of the hash, so that a hostile file cannot cause collisions */
} tn__stacks;

bool tn__stacks_init(tn__stacks *stacks, const tn_context *context); /* false: no memory */
void tn__stacks_release(tn__stacks *stacks);
/* Frees only the hash sets: the rows stay, and no more can be added. */
void tn__stacks_close(tn__stacks *stacks);
/* The number of a frame, of a stack of frames. False: out of memory, or 2^32 of them. */
bool tn__stacks_frame(tn__stacks *stacks, tn__stack_frame frame, uint32_t *number);
bool tn__stacks_stack(tn__stacks *stacks, const uint32_t *frames, uint32_t count, uint32_t *number);

#endif
