/* feed.h - rows on their way from and to the file.
 *
 * A transfer is one row read into its slot or written from a copy of it. There are a fixed number
 * of them, in the slab. A reader carries them out: one table of functions, of which three are known
 * (feed.c). Whoever waits for one takes what has finished, in any order.
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
    uint32_t slot;       /* of a read */
    uint32_t next;       /* in a list */
    bool writes;
    int failure; /* 0: none; -1: the file ended; else errno */
} tn__haul;

typedef struct tn__feed {
    const struct tn__feeder *reader;
    void *state; /* the reader's */
    int file;
    uint32_t depth;
    uint32_t vacant; /* list of transfers */
    uint32_t reading, writing;
    tn__haul *transfers; /* [depth] */
    char *copies;        /* [depth x row]: what is written */
} tn__feed;

typedef struct tn__feeder {
    const char *name, *summary;
    uint64_t (*bytes)(uint32_t depth); /* of io->state, zeroed; aligned to 16 */
    tn_status (*open)(tn__feed *io, uint32_t threads, tn_error *error);
    void (*begin)(tn__feed *io, uint32_t transfer); /* takes it */
    void (*start)(tn__feed *io);      /* those taken are to run now; NULL: they do already */
    uint32_t (*finish)(tn__feed *io); /* waits for one; there is one under way */
    void (*close)(tn__feed *io);      /* nothing is under way; also after an `open` that failed */
} tn__feeder;

extern const tn__feeder tn__feeder_uring, tn__feeder_threads;

/* The reader of this name, NULL: uring where this process may use it, else threads. */
tn_status tn__feeder_find(const char *name, const tn__feeder **reader, tn_error *error);
/* Why io_uring cannot be used with as many transfers as there may be, or NULL. Cost: sets up a
 * queue and takes it down. */
const char *tn__uring_lacks(void);

/* Opens with io->reader, state, file, depth, transfers and copies set. */
tn_status tn__feed_open(tn__feed *io, uint32_t threads, tn_error *error);
/* A transfer that is nobody's; TN__HAUL_NONE: finish one first. */
uint32_t tn__feed_take(tn__feed *io);
void tn__feed_begin(tn__feed *io, uint32_t transfer);
static inline bool tn__feed_is_busy(const tn__feed *io) { return io->reading + io->writing > 0; }
/* Waits for one, which the caller gives back when it has looked at it. */
uint32_t tn__feed_finish(tn__feed *io);
void tn__feed_give(tn__feed *io, uint32_t transfer);
void tn__feed_start(tn__feed *io);

/* One system call's outcome, for readers: true: it is over. */
bool tn__haul_goes_on(tn__haul *it, ssize_t count, int reason);
/* All of it, in this thread. */
void tn__haul_run(int file, tn__haul *it);

#endif
