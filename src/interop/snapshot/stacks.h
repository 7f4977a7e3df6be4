/* stacks.h - frames and stacks by number: equal ones are stored once.
 *
 * The 10^7 allocations of a training run have only a few thousand different stacks.
 */
#ifndef TN_SNAPSHOT_STACKS_H
#define TN_SNAPSHOT_STACKS_H

#include "base/table.h"

typedef struct tn__stack_frame {
    uint32_t function, file; /* function and file, as numbers of texts */
    int64_t line;
} tn__stack_frame;

typedef struct tn__stack_row {
    uint64_t first; /* index in `members` of the first frame of the stack */
    uint32_t count;
} tn__stack_row;

typedef struct tn__stacks {
    const tn_context *context;
    tn__stack_frame *frames;
    size_t frame_count, frame_room;
    tn__stack_row *stacks; /* stack 0 is the empty stack */
    size_t stack_count, stack_room;
    /* frames of all stacks, as numbers of frames; within a stack, the innermost first */
    uint32_t *members;
    size_t member_count, member_room;
    /* find the number of a frame, or of a stack, by its contents */
    tn__table frame_table, stack_table;
    uint64_t key; /* key of the hash, so that a hostile file cannot cause collisions */
} tn__stacks;

/* returns false if memory is out */
bool tn__stacks_init(tn__stacks *stacks, const tn_context *context);
void tn__stacks_release(tn__stacks *stacks);
/* Frees only the hash tables: the frames and stacks stay, and no more can be added. */
void tn__stacks_close(tn__stacks *stacks);
/* Find the number of a frame, or of a stack of frames, which is added if it is new. False if memory
 * is out, or there are 2^32 of them. */
bool tn__stacks_frame(tn__stacks *stacks, tn__stack_frame frame, uint32_t *number);
bool tn__stacks_stack(tn__stacks *stacks, const uint32_t *frames, uint32_t count, uint32_t *number);

#endif
