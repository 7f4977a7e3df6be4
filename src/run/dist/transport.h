/* transport.h - the interface of a transport, which carries messages between ranks: one table of
 * functions.
 *
 * A transport is one file in drivers/ that fills in one tn__link_driver, plus one line in
 * drivers.def. It starts ranks, moves bytes from one to another, and ends all ranks when one fails.
 * It knows nothing of sums and groups (collectives.c).
 *
 * Messages from one rank to another with the same number and of the same kind arrive in the order
 * in which they were posted. Both ends must state the same size.
 */
#ifndef TN_DIST_LINK_H
#define TN_DIST_LINK_H

#include <time.h>

#include <tenure/dist.h>

#include "base/base.h"

typedef enum tn__kind_of_message {
    TN__MESSAGE_TAGGED, /* SEND and RECV; number: the tag */
    TN__MESSAGE_GROUP   /* part of a collective; number: the group */
} tn__kind_of_message;

typedef enum tn__transfer_state {
    TN__TRANSFER_WAITS,
    TN__TRANSFER_MOVES,
    TN__TRANSFER_DONE
} tn__transfer_state;

/* A message, from its post until its wait has returned; the memory is the caller's. */
typedef struct tn__transfer {
    bool sends;
    tn__kind_of_message kind;
    uint32_t number, peer;
    void *data;
    uint64_t bytes; /* at most TN__TRANSFER_MOST */
    /* for the driver */
    tn__transfer_state state;
    uint32_t from;
    struct tn__transfer *next;
    void *request;
    bool begun;
} tn__transfer;
#define TN__TRANSFER_MOST (UINT64_C(1) << 30)

/* A job: the function that a driver's `run` calls on every rank, and its arguments. */
typedef struct tn__world_job {
    tn_status (*rank)(void *self, tn_world *world, tn_error *error);
    void *self;
    const tn_context *context;
    const struct tn__link_driver *driver;
} tn__world_job;

typedef struct tn__link_driver {
    const char *name;    /* the name users type: [a-z0-9-]+ */
    const char *summary; /* one line, no full stop */
    /* Starts the ranks of this process and calls tn__world_rank for each, which calls back through
     * `link`. Returns when all ranks have ended. options: complete. began: set to true if any rank
     * started; then the transport has reported a failure itself. */
    tn_status (*run)(const tn_world_options *options, const tn__world_job *job, bool *began,
                     tn_error *error);
    /* Starts the transfers. Threads: called by several. */
    tn_status (*post)(void *link, tn__transfer *transfers, uint32_t count, tn_error *error);
    /* Waits until all transfers are done. Errors: no rank of the world can continue, and each
     * waiting rank gets the reason. The transfers are no longer used then. */
    tn_status (*wait)(void *link, tn__transfer *transfers, uint32_t count, tn_error *error);
} tn__link_driver;

/* world.c: runs one rank, from creating its world to the end of its job. */
tn_status tn__world_rank(const tn__world_job *job, void *link, uint32_t rank, uint32_t ranks,
                         tn_error *error);

/* The monotonic time in `seconds` from now, as a deadline for waiting on a condition variable. */
struct timespec tn__link_until(double seconds);

/* The message of a failed run: that of the rank, with its number in front. */
void tn__world_words(uint32_t rank, const tn_error *from, tn_error *error);
/* An error that came in a message: its texts end, and its status is one of the table. */
void tn__world_received(tn_error *error);

#endif
