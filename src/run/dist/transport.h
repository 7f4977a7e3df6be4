/* transport.h - the interface of a transport, which carries messages between ranks: one table of
 * functions.
 *
 * A transport is one file in drivers/ that fills in one tn__link_driver, and one line in
 * drivers.def. It starts ranks, moves bytes from one rank to another, and ends all ranks when one
 * fails. It knows nothing of sums and groups (collectives.c).
 *
 * Messages from one rank to another that have equal kinds and numbers arrive in the order in which
 * they were posted. Both ends must state the size of the message, and the sizes must be equal.
 */
#ifndef TN_DIST_LINK_H
#define TN_DIST_LINK_H

#include <time.h>

#include <tenure/dist.h>

#include "base/base.h"

typedef enum tn__kind_of_message {
    TN__MESSAGE_TAGGED, /* the message of a SEND or RECV; its number is the tag */
    TN__MESSAGE_GROUP   /* a message of a collective; its number is the group */
} tn__kind_of_message;

typedef enum tn__transfer_state {
    TN__TRANSFER_WAITS,
    TN__TRANSFER_MOVES,
    TN__TRANSFER_DONE
} tn__transfer_state;

/* One end of a message. The caller owns the struct, which must exist from `post` until `wait`
 * returns. */
typedef struct tn__transfer {
    bool sends;
    tn__kind_of_message kind;
    uint32_t number, peer;
    void *data;
    uint64_t bytes; /* size of the transfer in bytes, at most TN__TRANSFER_MOST */
    /* The fields from here on are used by the driver. */
    tn__transfer_state state;
    uint32_t from;
    struct tn__transfer *next;
    void *request;
    bool begun;
} tn__transfer;
#define TN__TRANSFER_MOST (UINT64_C(1) << 30)

/* The function that a transport calls on every rank, with its arguments. */
typedef struct tn__world_job {
    tn_status (*rank)(void *self, tn_world *world, tn_error *error);
    void *self;
    const tn_context *context;
    const struct tn__link_driver *driver;
} tn__world_job;

typedef struct tn__link_driver {
    const char *name;    /* name of the transport, as users type it: [a-z0-9-]+ */
    const char *summary; /* description of the transport in one line, without a full stop */
    /* Starts the ranks of this process and calls tn__world_rank for each, which in turn calls the
     * other functions with `link`. Returns when all ranks have ended. `options`: all fields are
     * set. *began becomes true if any rank started; after that the transport itself reports
     * failures to the user. */
    tn_status (*run)(const tn_world_options *options, const tn__world_job *job, bool *began,
                     tn_error *error);
    /* Starts transfers. Several threads may call it at once. */
    tn_status (*post)(void *link, tn__transfer *transfers, uint32_t count, tn_error *error);
    /* Waits until all transfers are done. Errors: if no rank of the world can continue, each
     * waiting rank gets the reason. The transfers are no longer used after it has returned. */
    tn_status (*wait)(void *link, tn__transfer *transfers, uint32_t count, tn_error *error);
} tn__link_driver;

/* Runs one rank, from the creation of its world to the end of its job (world.c). */
tn_status tn__world_rank(const tn__world_job *job, void *link, uint32_t rank, uint32_t ranks,
                         tn_error *error);

/* Returns the monotonic time in `seconds` from now, as a deadline for waiting on a condition
 * variable. */
struct timespec tn__link_until(double seconds);

/* Makes the message of a failed run: the message of the rank, with its number in front. */
void tn__world_words(uint32_t rank, const tn_error *from, tn_error *error);
/* Makes an error that came in a message safe to use: terminates its texts and limits its status to
 * known values. */
void tn__world_received(tn_error *error);

#endif
