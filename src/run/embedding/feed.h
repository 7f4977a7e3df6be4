/* feed.h - transfers of rows between file and slab.
 *
 * A transfer reads one row into its slot, or writes one from a copy. The slab contains a fixed
 * number of transfers. A reader executes them: a table of functions; there are three readers
 * (feed.c). Waiting returns finished transfers in any order.
 */
#ifndef TN_EMBEDDING_FEED_H
#define TN_EMBEDDING_FEED_H

#include <sys/types.h>

#include "base/base.h"

#define TN__HAUL_NONE UINT32_MAX
#define TN__HAULS_MAX 4096u

typedef struct tn__haul {
    char *data;
    uint64_t offset;
    uint32_t size, done; /* bytes */
    uint32_t slot;       /* for a read */
    uint32_t next;       /* in a list */
    bool writes;
    int failure; /* 0: no failure; -1: the file ended; else errno */
} tn__haul;

typedef struct tn__feed {
    const struct tn__feeder *reader;
    void *state; /* for the reader */
    int file;
    uint32_t depth;
    uint32_t vacant; /* list of transfers */
    uint32_t reading, writing;
    tn__haul *transfers; /* [depth] */
    char *copies;        /* [depth x row]: the rows being written */
} tn__feed;

typedef struct tn__feeder {
    const char *name, *summary;
    uint64_t (*bytes)(uint32_t depth); /* size of io->state, zeroed; aligned to 16 */
    tn_status (*open)(tn__feed *io, uint32_t threads, tn_error *error);
    void (*begin)(tn__feed *io, uint32_t transfer); /* starts it */
    void (*start)(tn__feed *io);      /* runs the transfers begun so far; NULL: they run already */
    uint32_t (*finish)(tn__feed *io); /* waits for one; at least one must be under way */
    void (*close)(tn__feed *io);      /* no transfer is under way; also called if `open` failed */
} tn__feeder;

extern const tn__feeder tn__feeder_uring, tn__feeder_threads;

/* The reader with this name; NULL: uring if this process may use it, else threads. */
tn_status tn__feeder_find(const char *name, const tn__feeder **reader, tn_error *error);
/* Why io_uring cannot be used with the largest number of transfers, or NULL. Cost: creates and
 * destroys a queue. */
const char *tn__uring_lacks(void);

/* Opens with io->reader, state, file, depth, transfers and copies set. */
tn_status tn__feed_open(tn__feed *io, uint32_t threads, tn_error *error);
/* An unused transfer; TN__HAUL_NONE: all are in use, so finish one first. */
uint32_t tn__feed_take(tn__feed *io);
void tn__feed_begin(tn__feed *io, uint32_t transfer);
static inline bool tn__feed_is_busy(const tn__feed *io) { return io->reading + io->writing > 0; }
/* Waits for one; the caller examines it and gives it back. */
uint32_t tn__feed_finish(tn__feed *io);
void tn__feed_give(tn__feed *io, uint32_t transfer);
void tn__feed_start(tn__feed *io);

/* For readers: records `count`, the result of one read or write, and `reason`, its errno. Returns
 * true if the transfer must go on, false if it is complete or has failed. */
bool tn__haul_goes_on(tn__haul *it, ssize_t count, int reason);
/* Runs the whole transfer in this thread. */
void tn__haul_run(int file, tn__haul *it);

#endif
