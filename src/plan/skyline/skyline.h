/* skyline.h - makes plans of any size in O(n log n) by filling the lowest place first; it can be
 * called repeatedly with other orders.
 *
 * Over time, the upper ends of placed buffers form a skyline of level segments. The lowest segment
 * takes the first buffer, in a given order, that is live only within the segment. If there is no
 * such buffer, none will ever fit there, and the segment is raised to its lower neighbour. So every
 * buffer lies as low as the buffers before it allow, and the order determines the plan.
 */
#ifndef TN_PLAN_SKYLINE_SKYLINE_H
#define TN_PLAN_SKYLINE_SKYLINE_H

#include "plan/frame/planner.h"
#include "plan/skyline/live_tree.h"

typedef struct tn__skyline tn__skyline;

typedef enum tn__skyline_fit {
    TN__SKYLINE_ANY,  /* the first buffer in the order that fits on the segment */
    TN__SKYLINE_WALL, /* preferably a buffer that begins or ends where the segment does */
    /* preferably a chain (buffers end to end, from one end of the segment to the other); buffers
     * with long live ranges are tried first */
    TN__SKYLINE_ROWS,
    /* preferably a chain (buffers end to end, from one end of the segment to the other); buffers
     * are tried in the given order */
    TN__SKYLINE_ROWS_RANKED
} tn__skyline_fit;

typedef struct tn__skyline_rule {
    tn__skyline_fit fit;
    /* With rules that prefer chains: if no chain is found, raises the segment to its lower
     * neighbour if that wastes at most this many mean areas (bytes x steps) of a buffer. */
    uint32_t lift;
} tn__skyline_rule;

/* A function that is called repeatedly with the number of buffers placed since the last call. */
typedef struct tn__skyline_poll {
    bool (*go_on)(void *self, uint32_t placed);
    void *self;
} tn__skyline_poll;

/* Makes a skyline. All buffers must have a nonzero size and at least one piece. NULL if memory is
 * exhausted or the input's run must stop. Cost: O(n log n); about 60 bytes per buffer and 32 per
 * step. */
tn__skyline *tn__skyline_create(const tn__live_tree_input *input, const tn_run_piece *pieces,
                                uint32_t time_count);
void tn__skyline_destroy(tn__skyline *skyline);

/* Computes offsets[id] for all buffers. The caller ensures that the sum of all sizes and alignments
 * is below 2^63.
 *
 * order    [count], a permutation of 0 ... count-1: indices of `ids`, first buffer first
 * give_up  a peak that would be useless: the function ends early when it is reached
 * peak     set to the peak, or to some height >= give_up
 *
 * Returns false if the poll asked to stop; offsets are then invalid.
 */
bool tn__skyline_fill(tn__skyline *skyline, const uint32_t *order, tn__skyline_rule rule,
                      uint64_t give_up, tn__skyline_poll poll, uint64_t *offsets, uint64_t *peak);

#endif
