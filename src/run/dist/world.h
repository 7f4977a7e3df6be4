/* world.h - the internals of a world, a set of ranks that exchange messages.
 *
 *   world.c        creates ranks from options; groups; axes of ranks (data, tensor, pipeline); the
 *                  check that all ranks run one computation
 *   collectives.c  implements collective operations with messages; sums the elements of several
 *                  ranks
 *   transport.h    the interface of transports, which are in drivers/
 *   clock_sync.c   estimates the clock of rank 0, measures the speed of messages
 *   average.c      programs for data-parallel training
 *   gather.c       programs for parameters that are gathered only while they are read
 *   join.c         programs for ranks of a tensor-parallel model
 *   pipeline.c     programs for the stages of a pipeline
 */
#ifndef TN_DIST_WORLD_H
#define TN_DIST_WORLD_H

#include <pthread.h>

#include "run/dist/transport.h"

/* a group of ranks; it does not move or change until the world ends */
typedef struct tn__rank_group {
    struct tn__rank_group *next;
    /* `mine`: this rank's member number; TN_NONE: it is not a member */
    uint32_t number, count, mine;
    uint32_t *ranks; /* [count] */
} tn__rank_group;

/* Memory for the messages that arrive in one collective; later collectives reuse it. */
typedef struct tn__message_buffer {
    struct tn__message_buffer *next;
    tn__transfer *transfers; /* room for 2 * ranks transfers */
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
    tn__rank_group *groups;    /* list of all groups, the newest first; group 0 has all ranks */
    tn__message_buffer *rooms; /* list of unused buffers */
    uint64_t room_count;       /* number of all buffers, used and unused */
    uint64_t messages, bytes, direct_bytes;
};

/* Returns a group, or NULL if it does not exist. */
const tn__rank_group *tn__world_find(tn_world *world, uint32_t group);
/* Returns a buffer for one collective, or NULL if out of memory. */
tn__message_buffer *tn__message_buffer_take(tn_world *world);
void tn__message_buffer_give(tn_world *world, tn__message_buffer *room);

/* Posts transfers and waits until they are done. */
tn_status tn__world_move(tn_world *world, tn__transfer *transfers, uint32_t count, tn_error *error);

/* clock_sync.c: does the work of tn_world_clock with the given clock. */
tn_status tn__world_clock(tn_world *world, double (*clock)(void *self), void *self, double *shift_s,
                          tn_error *error);

/* Fills in world->exchange with the collectives (collectives.c). */
void tn__collectives(tn_world *world);

/* average.c: does the work of tn_program_average for a training step that is divided as `shard`
 * states. */
tn_status tn__program_average(const tn_program *program, uint32_t group, tn_shard shard,
                              tn_program **averaged, tn_error *error);

#endif
