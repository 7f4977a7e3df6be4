/* skyline.h - fills the lowest place first: a plan of any size in O(n log n), again and again.
 *
 * Over time, the tops of what is placed are a skyline of level segments. The lowest segment takes,
 * of the bodies whose whole life lies within it, the one that is first in a given order; when none
 * does, nothing will ever fit there and the segment is lifted to its lower neighbour. So every body
 * lies as low as those before it allow, and an order decides everything.
 */
#ifndef TN_PLAN_SKYLINE_SKYLINE_H
#define TN_PLAN_SKYLINE_SKYLINE_H

#include "plan/frame/planner.h"
#include "plan/skyline/lives.h"

typedef struct tn__skyline tn__skyline;

typedef enum tn__skyline_fit {
    TN__SKYLINE_ANY,        /* the first in the order */
    TN__SKYLINE_WALL,       /* before all others those that touch an end of the segment */
    TN__SKYLINE_ROWS,       /* before all others rows from end to end, the longest lives first */
    TN__SKYLINE_ROWS_RANKED /* the same, the first in the order first */
} tn__skyline_fit;

typedef struct tn__skyline_rule {
    tn__skyline_fit fit;
    uint32_t lift; /* ROWS: without one, lift if that wastes at most so many mean areas of a body */
} tn__skyline_rule;

/* Asked now and then with the number of bodies placed since it was asked last. */
typedef struct tn__skyline_poll {
    bool (*go_on)(void *self, uint32_t placed);
    void *self;
} tn__skyline_poll;

/* For bodies that are all of nonzero size, with at least one piece. NULL when memory is out or the
 * input's run is to stop. Cost: O(n log n); about 60 bytes a body. */
tn__skyline *tn__skyline_create(const tn__lives_input *input, const tn_run_piece *pieces,
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
