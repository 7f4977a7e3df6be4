/* world.h - the internals of a world, a set of ranks that exchange messages.
 *
 *   world.c        from options to ranks; groups; ranks by axes: data, tensor, pipeline; the
 *                  collective check that all ranks agree
 *   collectives.c  turns a collective operation into messages; sums the elements of several ranks
 *   transport.h    the transports; drivers/
 *   clock_sync.c   the time of rank 0, and the speed of messages
 *   average.c      programs for data-parallel training
 *   gather.c       parameters that are gathered only while they are read
 */
#ifndef TN_DIST_WORLD_H
#define TN_DIST_WORLD_H

#include <pthread.h>

#include "run/dist/transport.h"

typedef struct tn__rank_group { /* never moves or changes until the world ends */
    struct tn__rank_group *next;
    uint32_t number, count, mine; /* mine: own member number, TN_NONE if it is no member */
    uint32_t *ranks;              /* [count] */
} tn__rank_group;

/* A buffer for messages that arrive in one collective; reused for later ones. */
typedef struct tn__message_buffer {
    struct tn__message_buffer *next;
    tn__transfer *transfers; /* [2 ranks] */
    void **parts;            /* [ranks] */
    uint8_t *bytes;          /* [TN__MESSAGE_BUFFER_BYTES] */
} tn__message_buffer;
#define TN__MESSAGE_BUFFER_BYTES (UINT64_C(4) << 20)

struct tn_world {
    tn_context context;
    const tn__link_driver *driver;
    void *link;
    uint32_t rank, ranks;
    tn_exchange exchange;
    pthread_mutex_t lock;      /* protects all fields below */
    tn__rank_group *groups;    /* list, the newest first; group 0 is all ranks */
    tn__message_buffer *rooms; /* list of unused buffers */
    uint64_t room_count;       /* number of buffers, used or not */
    uint64_t messages, bytes, direct_bytes;
};

/* NULL if the group does not exist. */
const tn__rank_group *tn__world_find(tn_world *world, uint32_t group);
/* A buffer for one collective. NULL: out of memory. */
tn__message_buffer *tn__message_buffer_take(tn_world *world);
void tn__message_buffer_give(tn_world *world, tn__message_buffer *room);

/* Posts and waits. */
tn_status tn__world_move(tn_world *world, tn__transfer *transfers, uint32_t count, tn_error *error);

/* clock_sync.c: tn_world_clock with a clock of the caller. */
tn_status tn__world_clock(tn_world *world, double (*clock)(void *self), void *self, double *shift_s,
                          tn_error *error);

/* collectives.c: fills in the exchange. */
void tn__collectives(tn_world *world);

/* average.c: tn_program_average of a training step that is divided as `shard` says. */
tn_status tn__program_average(const tn_program *program, uint32_t group, tn_shard shard,
                              tn_program **averaged, tn_error *error);

#endif
