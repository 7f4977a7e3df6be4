/* joint_line.h - an editable schedule: a list of runs with the live ranges and bytes of each.
 *
 * The list has a head, which makes the values that exist from the start, and a tail, which reads
 * the values that must be live at the end. First runs stay in the list; repeats are inserted and
 * removed; each run may be moved. Every change can be undone, in reverse order. Each value has an
 * ordered list of its touches (the runs that make or read it): linked, because the lists of
 * base/lists.h cannot be changed. A live range reaches from one making to the last read before the
 * next.
 *
 * Runs have ascending keys with gaps between them, so that the bytes can be kept in a segment tree
 * over the keys while runs come and go. When a gap is used up, all keys are renumbered. Bytes are
 * counted as in replay.c, in-place outputs included.
 */
#ifndef TN_BUDGET_JOINT_LINE_H
#define TN_BUDGET_JOINT_LINE_H

#include "base/range_tree.h"
#include "fit/budget/work.h"

/* --- bytes over keys ------------------------------------------------------------------------ */

/* Adds bytes to the keys first ... last; does nothing if first > last. */
static inline void tn__line_tree_add(tn__range_tree *tree, uint32_t first, uint32_t last,
                                     int64_t bytes) {
    tn__range_tree_add(tree, first, last + 1, bytes);
}
/* The most bytes at the keys first ... last. */
static inline int64_t tn__line_tree_most(const tn__range_tree *tree, uint32_t first,
                                         uint32_t last) {
    return tn__range_tree_most(tree, first, last + 1);
}

/* --- runs and touches ----------------------------------------------------------------------- */

enum { TN__LINE_HEAD = 0, TN__LINE_TAIL = 1, TN__LINE_FIRST = 2 /* node of job 0's first run */ };

typedef struct tn__line_node {
    uint32_t job; /* TN_NONE: head, tail, and the settle or return of a copy */
    uint32_t key, prev, next;
    uint32_t touch_first, touch_count; /* inputs, then outputs */
    uint32_t input_count;
    bool again, linked;
    bool moved; /* its first output takes the memory of an input in the current list */
} tn__line_node;

typedef struct tn__line_touch {
    uint32_t node, value, prev, next; /* prev, next: touches of the same value */
    bool makes;
} tn__line_touch;

typedef enum tn__line_deed { TN__LINE_PUT, TN__LINE_TAKEN, TN__LINE_MOVED } tn__line_deed;

typedef struct tn__line_change {
    uint32_t node, next; /* the node before which it stands, or stood (taken, moved) */
    uint8_t deed;        /* tn__line_deed */
} tn__line_change;

typedef struct tn__line {
    const tn__work *work;
    tn_context context;
    tn_error *error;
    tn__range_tree tree; /* bytes by key */
    tn__line_node *nodes;
    tn__line_touch *touches;
    tn__line_change *changes;
    uint32_t *first_touch; /* [values] */
    uint32_t *near_touch;  /* [values] result of the last tn__line_before; TN_NONE: before the
                            * first */
    uint32_t *spare;       /* [jobs] its nodes outside the list, linked by `next` */
    int64_t *old, *spread; /* bytes and keys while nodes are spread over a window of keys */
    uint32_t *spread_keys;
    size_t node_room, touch_room, change_room, tree_room;
    int64_t *tree_memory;
    uint32_t node_count, touch_count, change_count, linked_count;
    uint64_t cost;
    bool failed; /* out of memory: the contents are invalid */
} tn__line;

/* `order` [job_count]: the order of first runs; NULL: program order. */
tn_status tn__line_init(tn__line *line, const tn__work *work, const tn_context *context,
                        const uint32_t *order, tn_error *error);
void tn__line_release(tn__line *line);

/* Inserts a repeat of a job before a node; its inputs must be live there. TN_NONE: out of
 * memory. */
uint32_t tn__line_put(tn__line *line, uint32_t job, uint32_t before);
/* Inserts the end of a value's copy to the host before a node, or (`comes`) its return. The value
 * has no memory from its last touch before the settle until the return. TN_NONE: out of memory. */
uint32_t tn__line_put_copy(tn__line *line, uint32_t value, uint32_t before, bool comes);
/* Whether a touch is the settle of a copy, which ends the value's memory. */
static inline bool tn__line_is_settled(const tn__line *line, uint32_t touch) {
    uint32_t node = line->touches[touch].node;
    return node > TN__LINE_TAIL && line->nodes[node].job == TN_NONE && !line->touches[touch].makes;
}
/* Removes a repeat. Its readers then read the values of the previous run. */
void tn__line_take(tn__line *line, uint32_t node);
/* Moves a run before another node. Its inputs must be live there. A first run must stay before all
 * readers of its outputs, and before all repeats of its job. */
void tn__line_move(tn__line *line, uint32_t node, uint32_t before);
static inline uint32_t tn__line_mark(const tn__line *line) { return line->change_count; }
void tn__line_undo(tn__line *line, uint32_t mark);
void tn__line_forget(tn__line *line); /* forgets the changes so far, which can then not be undone */

/* The last touch of a value before a key; TN_NONE: it is not made before that key. */
uint32_t tn__line_before(const tn__line *line, uint32_t value, uint32_t key);
/* Whether the value is live between this touch and its next one. */
static inline bool tn__line_is_read_next(const tn__line *line, uint32_t touch) {
    uint32_t next = line->touches[touch].next;
    return next != TN_NONE && !line->touches[next].makes;
}
static inline uint32_t tn__line_key(const tn__line *line, uint32_t touch) {
    return line->nodes[line->touches[touch].node].key;
}
static inline int64_t tn__line_peak(const tn__line *line) { return line->tree.most[1]; }

tn_status tn__line_write(const tn__line *line, tn__schedule *schedule, tn_error *error);
/* Replaces the line by a schedule that contains RUN only, with first runs in the order of the
 * line. */
tn_status tn__line_read(tn__line *line, const tn__schedule *schedule);

#endif
