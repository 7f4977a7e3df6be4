/* editable.h - an editable schedule: a list of runs of jobs, with the live ranges of their values
 * and the bytes that are live during each run.
 *
 * The list begins with a head, which makes the values that exist from the start, and ends with a
 * tail, which reads the values that must be live at the end. First runs stay in the list; repeats
 * are inserted and removed; each run may be moved. Every change can be undone, in reverse order.
 * Each value has an ordered list of its touches, which are the runs that make or read it. It is a
 * linked list, because the lists of base/lists.h cannot be changed. A live range begins with a
 * making and ends with the last read before the next making.
 *
 * Runs have ascending keys with gaps between them. The bytes are kept in a segment tree over the
 * keys, so that a run can be inserted without changing the keys of others. If no key is free
 * between two runs, runs are renumbered. Bytes are counted as replay.c counts them, including
 * in-place outputs.
 */
#ifndef TN_JOINT_EDITABLE_H
#define TN_JOINT_EDITABLE_H

#include "base/range_tree.h"
#include "fit/budget/schedule/schedule_graph.h"

/* --- bytes at each key ------------------------------------------------------------------------ */

/* Returns the maximum of the bytes at the keys from `first` to `last`. */
static inline int64_t tn__editable_tree_most(const tn__range_tree *tree, uint32_t first,
                                             uint32_t last) {
    return tn__range_tree_most(tree, first, last + 1);
}

/* --- runs and touches ------------------------------------------------------------------------- */

enum {
    TN__EDITABLE_HEAD = 0,
    TN__EDITABLE_TAIL = 1,
    /* number of the node that is the first run of job 0; those of other jobs follow */
    TN__EDITABLE_FIRST = 2
};

typedef struct tn__editable_node {
    /* the job that runs; TN_NONE: the node is the head, the tail, or the end of a copy to or from
     * the host */
    uint32_t job;
    uint32_t key, prev, next;
    /* range of the node's touches, which are the values that it reads, then those that it makes */
    uint32_t touch_first, touch_count;
    uint32_t input_count;
    bool recompute, linked;
    /* the first output is written over an input, because the live range of that input ends with
     * this node */
    bool moved;
} tn__editable_node;

typedef struct tn__editable_touch {
    /* the node and the value of this touch; the previous and the next touch of the same value */
    uint32_t node, value, prev, next;
    bool makes;
} tn__editable_touch;

typedef enum tn__editable_deed {
    TN__EDITABLE_PUT,
    TN__EDITABLE_TAKEN,
    TN__EDITABLE_MOVED
} tn__editable_deed;

typedef struct tn__editable_change {
    /* the changed node, and the node that followed it before the removal or move (for an insertion,
     * after it) */
    uint32_t node, next;
    uint8_t deed; /* kind of the change, a tn__editable_deed */
} tn__editable_change;

typedef struct tn__editable {
    const tn__dag *dag;
    tn_context context;
    tn_error *error;
    tn__range_tree tree; /* the bytes that are live at each key (position in the schedule) */
    tn__editable_node *nodes;
    tn__editable_touch *touches;
    tn__editable_change *changes; /* log of all changes, for undo */
    uint32_t *first_touch;        /* [values] */
    /* [values] result of the last call of tn__editable_before for the value, from which the next
     * search starts; TN_NONE: no touch came before */
    uint32_t *near_touch;
    /* [jobs] list of the job's repeats that are not in the schedule, linked by `next` */
    uint32_t *spare;
    int64_t *old, *spread; /* bytes at the keys of a window, before and after its runs are spread */
    uint32_t *spread_keys;
    size_t node_room, touch_room, change_room, tree_room;
    int64_t *tree_memory;
    uint32_t node_count, touch_count, change_count, linked_count;
    uint64_t cost;
    bool failed; /* memory was exhausted, so that the contents are invalid */
} tn__editable;

/* Makes an editable schedule with the first run of every job and no repeats. `order` [job_count] is
 * the order of the runs; NULL means the order of the program. */
tn_status tn__editable_init(tn__editable *edit, const tn__dag *dag, const tn_context *context,
                            const uint32_t *order, tn_error *error);
void tn__editable_release(tn__editable *edit);

/* Inserts a repeat of a job before a node, where the inputs of the repeat must be live. Returns
 * TN_NONE if memory is exhausted. */
uint32_t tn__editable_put(tn__editable *edit, uint32_t job, uint32_t before);
/* Inserts a node for a copy of a value before another node: the end of its copy to the host, or, if
 * `comes`, its copy back. Between the two, from its last touch before the end of the copy to the
 * host, the value occupies no memory. Returns TN_NONE if memory is exhausted. */
uint32_t tn__editable_put_copy(tn__editable *edit, uint32_t value, uint32_t before, bool comes);
/* Whether a touch is the end of a copy to the host, where the memory of the value is freed. */
static inline bool tn__editable_is_settled(const tn__editable *edit, uint32_t touch) {
    uint32_t node = edit->touches[touch].node;
    return node > TN__EDITABLE_TAIL && edit->nodes[node].job == TN_NONE &&
           !edit->touches[touch].makes;
}
/* Removes a repeat. The readers of its outputs then read the values that the previous run made. */
void tn__editable_take(tn__editable *edit, uint32_t node);
/* Moves a run before another node, where the inputs of the run must be live. A first run must stay
 * before all readers of its outputs, and before all repeats of its job. */
void tn__editable_move(tn__editable *edit, uint32_t node, uint32_t before);
static inline uint32_t tn__editable_mark(const tn__editable *edit) { return edit->change_count; }
void tn__editable_undo(tn__editable *edit, uint32_t mark);
void tn__editable_forget(
    tn__editable *edit); /* forgets the log of changes, so that they cannot be undone */

/* Returns the last touch of a value before a key; TN_NONE if nothing makes the value before that
 * key. */
uint32_t tn__editable_before(const tn__editable *edit, uint32_t value, uint32_t key);
/* Whether the value of a touch is live between this touch and the value's next one. */
static inline bool tn__editable_is_read_next(const tn__editable *edit, uint32_t touch) {
    uint32_t next = edit->touches[touch].next;
    return next != TN_NONE && !edit->touches[next].makes;
}
static inline uint32_t tn__editable_key(const tn__editable *edit, uint32_t touch) {
    return edit->nodes[edit->touches[touch].node].key;
}
static inline int64_t tn__editable_peak(const tn__editable *edit) { return edit->tree.most[1]; }

tn_status tn__editable_write(const tn__editable *edit, tn__schedule *schedule, tn_error *error);
/* Replaces the repeats of an editable schedule by those of `schedule`. Its first runs must be in
 * the order of the editable schedule. Actions other than runs are ignored. */
tn_status tn__editable_read(tn__editable *edit, const tn__schedule *schedule);

#endif
