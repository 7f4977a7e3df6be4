/* world.h - what a world is inside.
 *
 *   world.c        from options to ranks; groups; what all have to agree on
 *   grid.c         ranks by axes: data, tensor, pipeline
 *   collectives.c  one out of many: what messages are made into
 *   reduce.c       elements of several ranks to one
 *   link.h         who carries messages; drivers/
 *   clock.c        the time of rank 0, and how fast messages are
 *   average.c      programs that train the same on other samples
 *   gather.c       parameters that are there while they are read
 */
#ifndef TN_DIST_WORLD_H
#define TN_DIST_WORLD_H

#include <pthread.h>

#include "dist/link.h"

typedef struct tn__group { /* stays where and what it is until the world ends */
    struct tn__group *next;
    uint32_t number, count, mine; /* mine: TN_NONE, it has no part in it */
    uint32_t *ranks;              /* [count] */
} tn__group;

/* Room for what arrives in one collective; kept for the next. */
typedef struct tn__room {
    struct tn__room *next;
    tn__transfer *transfers; /* [2 ranks] */
    void **parts;            /* [ranks] */
    uint8_t *bytes;          /* [TN__ROOM_BYTES] */
} tn__room;
#define TN__ROOM_BYTES (UINT64_C(4) << 20)

struct tn_world {
    tn_context context;
    const tn__link_driver *driver;
    void *link;
    uint32_t rank, ranks;
    tn_exchange exchange;
    pthread_mutex_t lock; /* of all below */
    tn__group *groups;    /* the last one made; group 0 is all */
    tn__room *rooms;      /* that nobody uses */
    uint64_t room_count;  /* that there are */
    uint64_t messages, bytes, direct_bytes;
};

/* NULL: there is no such group. */
const tn__group *tn__world_find(tn_world *world, uint32_t group);
/* A room for one collective. NULL: out of memory. */
tn__room *tn__room_take(tn_world *world);
void tn__room_give(tn_world *world, tn__room *room);

/* Posts and waits. */
tn_status tn__world_move(tn_world *world, tn__transfer *transfers, uint32_t count, tn_error *error);

/* clock.c: tn_world_clock by a clock of the caller's. */
tn_status tn__world_clock(tn_world *world, double (*clock)(void *self), void *self, double *shift_s,
                          tn_error *error);

/* collectives.c: fills in the exchange. */
void tn__collectives(tn_world *world);

/* average.c: tn_program_average of a step of which `shard` is divided. */
tn_status tn__program_average(const tn_program *program, uint32_t group, tn_shard shard,
                              tn_program **averaged, tn_error *error);

/* reduce.c. `parts`: [ranks] of `count` elements each, which are lost; the result is parts[0]. */
bool tn__reduces(tn_dtype dtype, tn_reduction reduction);
void tn__reduce(void *const *parts, uint32_t ranks, uint64_t count, tn_dtype dtype,
                tn_reduction reduction);

#endif
