/* io.h - rows on their way from and to the file.
 *
 * A transfer is one row read into its slot or written from a copy of it. There are a fixed number
 * of them, in the slab. A reader carries them out: one table of functions, of which three are known
 * (io.c). Whoever waits for one takes what has finished, in any order.
 */
#ifndef TN_EMBEDDING_IO_H
#define TN_EMBEDDING_IO_H

#include <sys/types.h>

#include "base/base.h"

#define TN__TRANSFER_NONE UINT32_MAX

typedef struct tn__transfer {
    char *data;
    uint64_t offset;
    uint32_t size, done; /* bytes */
    uint32_t slot;       /* of a read */
    uint32_t next;       /* in a list */
    bool writes;
    int failure; /* 0: none; -1: the file ended; else errno */
} tn__transfer;

typedef struct tn__io {
    const struct tn__reader *reader;
    void *state; /* the reader's */
    int file;
    uint32_t depth;
    uint32_t vacant; /* list of transfers */
    uint32_t reading, writing;
    tn__transfer *transfers; /* [depth] */
    char *copies;            /* [depth x row]: what is written */
} tn__io;

typedef struct tn__reader {
    const char *name, *summary;
    uint64_t (*bytes)(uint32_t depth); /* of io->state, zeroed; aligned to 16 */
    tn_status (*open)(tn__io *io, uint32_t threads, tn_error *error);
    void (*begin)(tn__io *io, uint32_t transfer); /* takes it */
    void (*start)(tn__io *io);      /* those taken are to run now; NULL: they do already */
    uint32_t (*finish)(tn__io *io); /* waits for one; there is one under way */
    void (*close)(tn__io *io);      /* nothing is under way; also after an `open` that failed */
} tn__reader;

extern const tn__reader tn__reader_uring, tn__reader_threads;

/* The reader of this name, NULL: uring where this process may use it, else threads. */
tn_status tn__io_reader(const char *name, const tn__reader **reader, tn_error *error);
/* Why io_uring cannot be used, or NULL. */
const char *tn__uring_lacks(void);

/* Opens with io->reader, state, file, depth, transfers and copies set. */
tn_status tn__io_open(tn__io *io, uint32_t threads, tn_error *error);
/* A transfer that is nobody's; TN__TRANSFER_NONE: finish one first. */
uint32_t tn__io_take(tn__io *io);
void tn__io_begin(tn__io *io, uint32_t transfer);
static inline bool tn__io_is_busy(const tn__io *io) { return io->reading + io->writing > 0; }
/* Waits for one, which the caller gives back when it has looked at it. */
uint32_t tn__io_finish(tn__io *io);
void tn__io_give(tn__io *io, uint32_t transfer);
void tn__io_start(tn__io *io);

/* One system call's outcome, for readers: true: it is over. */
bool tn__transfer_goes_on(tn__transfer *it, ssize_t count, int reason);
/* All of it, in this thread. */
void tn__transfer_run(int file, tn__transfer *it);

#endif
