/* joint_line.h - a schedule that is changed all the time: runs in a list, lives, bytes of each.
 *
 * The list has a head, which makes what is there from the start, and a tail, which reads what must
 * be there at the end. First runs stay in, runs again are put in and taken out, each may be moved,
 * and every change can be undone, last first. Each value has the list of its touches (made or
 * read by which run), in order: a life is from one making to the last read before the next.
 *
 * Runs have keys that ascend with gaps, so that bytes are kept in a tree of halves over keys while
 * runs come and go; where a gap is used up, all keys are given anew. Bytes are counted as
 * replay.c does, in-place included.
 */
#ifndef TN_BUDGET_JOINT_LINE_H
#define TN_BUDGET_JOINT_LINE_H

#include "budget/work.h"

/* --- bytes over keys ------------------------------------------------------------------------ */

typedef struct tn__line_tree {
    uint32_t width;       /* leaves: a power of two */
    int64_t *most, *both; /* [2 width] the largest below a node; what is added to all below it */
} tn__line_tree;
/* Bytes to the keys first ... last; nothing where first > last. */
void tn__line_tree_add(tn__line_tree *tree, uint32_t first, uint32_t last, int64_t bytes);
int64_t tn__line_tree_most(const tn__line_tree *tree, uint32_t first, uint32_t last);
/* The bytes of `size` keys, a power of two, from `first` on, a multiple of it. */
void tn__line_tree_set(tn__line_tree *tree, uint32_t first, uint32_t size, const int64_t *bytes);
void tn__line_tree_get(const tn__line_tree *tree, uint32_t first, uint32_t size, int64_t *bytes);
/* The first key above `limit`; TN_NONE: none. */
uint32_t tn__line_tree_above(const tn__line_tree *tree, int64_t limit);

/* --- runs and touches ----------------------------------------------------------------------- */

enum { TN__LINE_HEAD = 0, TN__LINE_TAIL = 1, TN__LINE_FIRST = 2 /* node of job 0's first run */ };

typedef struct tn__line_node {
    uint32_t job; /* TN_NONE: head, tail, and where a copy settles or comes back */
    uint32_t key, prev, next;
    uint32_t touch_first, touch_count; /* reads, then makings */
    uint32_t input_count;
    bool again, linked;
    bool moved; /* its first output takes the memory of an input at this moment */
} tn__line_node;

typedef struct tn__line_touch {
    uint32_t node, value, prev, next; /* of the same value */
    bool makes;
} tn__line_touch;

typedef enum tn__line_deed { TN__LINE_PUT, TN__LINE_TAKEN, TN__LINE_MOVED } tn__line_deed;

typedef struct tn__line_change {
    uint32_t node, next; /* before which it stands, or (taken, moved) stood */
    uint8_t deed;        /* tn__line_deed */
} tn__line_change;

typedef struct tn__line {
    const tn__work *work;
    tn_context context;
    tn_error *error;
    tn__line_tree tree;
    tn__line_node *nodes;
    tn__line_touch *touches;
    tn__line_change *changes;
    uint32_t *first_touch; /* [values] */
    uint32_t *near_touch;  /* [values] where tn__line_before ended; TN_NONE: before the first */
    uint32_t *spare;       /* [jobs] nodes of it that are not in the list, by `next` */
    int64_t *old, *spread; /* bytes and keys while nodes are spread over a window of keys */
    uint32_t *spread_keys;
    size_t node_room, touch_room, change_room, most_room, both_room;
    uint32_t node_count, touch_count, change_count, linked_count;
    uint64_t cost;
    bool failed; /* out of memory: nothing is right any more */
} tn__line;

/* `order` [job_count]: the order of first runs; NULL: as they stand. */
tn_status tn__line_init(tn__line *line, const tn__work *work, const tn_context *context,
                        const uint32_t *order, tn_error *error);
void tn__line_release(tn__line *line);

/* Another run of a job before a node; its inputs must be there. TN_NONE: out of memory. */
uint32_t tn__line_put(tn__line *line, uint32_t job, uint32_t before);
/* A value's copy to the host is done before a node, or (`comes`) it comes back there. From the last
 * touch before it has settled until it comes back it has no memory. TN_NONE: out of memory. */
uint32_t tn__line_put_copy(tn__line *line, uint32_t value, uint32_t before, bool comes);
/* Whether a touch is where a copy settles: what was there can not stay longer. */
static inline bool tn__line_is_settled(const tn__line *line, uint32_t touch) {
    uint32_t node = line->touches[touch].node;
    return node > TN__LINE_TAIL && line->nodes[node].job == TN_NONE && !line->touches[touch].makes;
}
/* Takes a run again out: whoever read what it made has it from the run before. */
void tn__line_take(tn__line *line, uint32_t node);
/* Moves a run before another node. Its inputs must be there, and a first run stays before all who
 * read what it makes, and before all other runs of its job. */
void tn__line_move(tn__line *line, uint32_t node, uint32_t before);
static inline uint32_t tn__line_mark(const tn__line *line) { return line->change_count; }
void tn__line_undo(tn__line *line, uint32_t mark);
void tn__line_forget(tn__line *line); /* the changes so far */

/* The last touch of a value before a key; TN_NONE: it was not made yet. */
uint32_t tn__line_before(const tn__line *line, uint32_t value, uint32_t key);
/* Whether the value is there between this touch and its next one. */
static inline bool tn__line_is_read_next(const tn__line *line, uint32_t touch) {
    uint32_t next = line->touches[touch].next;
    return next != TN_NONE && !line->touches[next].makes;
}
static inline uint32_t tn__line_key(const tn__line *line, uint32_t touch) {
    return line->nodes[line->touches[touch].node].key;
}
static inline int64_t tn__line_peak(const tn__line *line) { return line->tree.most[1]; }

tn_status tn__line_write(const tn__line *line, tn__schedule *schedule, tn_error *error);
/* The line becomes that schedule, which has RUN alone, first runs in the order of the line's. */
tn_status tn__line_read(tn__line *line, const tn__schedule *schedule);

#endif
