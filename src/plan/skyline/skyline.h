/* skyline.h - fills the lowest place first: makes plans of any size in O(n log n), repeatedly.
 *
 * Over time, the tops of placed bodies form a skyline of level segments. The lowest segment takes
 * the first body, in a given order, with its whole life within the segment. If there is no such
 * body, none will ever fit there, and the segment is raised to its lower neighbour. So every body
 * lies as low as those before it allow, and the order determines the plan.
 */
#ifndef TN_PLAN_SKYLINE_SKYLINE_H
#define TN_PLAN_SKYLINE_SKYLINE_H

#include "plan/frame/planner.h"
#include "plan/skyline/live_tree.h"

typedef struct tn__skyline tn__skyline;

typedef enum tn__skyline_fit {
    TN__SKYLINE_ANY,        /* the first in the order */
    TN__SKYLINE_WALL,       /* bodies that touch an end of the segment before all others */
    TN__SKYLINE_ROWS,       /* rows from end to end before all others, the longest lives first */
    TN__SKYLINE_ROWS_RANKED /* the same, but in the order given */
} tn__skyline_fit;

typedef struct tn__skyline_rule {
    tn__skyline_fit fit;
    /* ROWS: without a row, raise the segment if that wastes at most this number of mean body
     * areas */
    uint32_t lift;
} tn__skyline_rule;

/* Called now and then with the number of bodies placed since the last call. */
typedef struct tn__skyline_poll {
    bool (*go_on)(void *self, uint32_t placed);
    void *self;
} tn__skyline_poll;

/* All bodies must have a nonzero size and at least one piece. NULL if memory is out or the input's
 * run is to stop. Cost: O(n log n); about 60 bytes per body. */
tn__skyline *tn__skyline_create(const tn__live_tree_input *input, const tn_run_piece *pieces,
                                uint32_t time_count);
void tn__skyline_destroy(tn__skyline *skyline);

/* Fills in offsets[id] for all of its bodies. The caller sees to it that the sizes and alignments
 * of all bodies together stay below 2^63.
 *
 * order    [count], a permutation of 0 ... count-1: numbers in `ids`, first come first
 * give_up  a peak of which no use can be made any more: ends early then
 * peak     out: the height, or some height >= give_up
 * Returns false when the poll said so; offsets are then of no use. */
bool tn__skyline_fill(tn__skyline *skyline, const uint32_t *order, tn__skyline_rule rule,
                      uint64_t give_up, tn__skyline_poll poll, uint64_t *offsets, uint64_t *peak);

#endif
