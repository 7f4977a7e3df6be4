/* row_io.h - transfers of rows between file and slab.
 *
 * A transfer reads one row into its slot, or writes one from a copy. The slab contains a fixed
 * number of transfers. A reader executes them: a table of functions; there are three readers
 * (row_io.c). Waiting returns finished transfers in any order.
 */
#ifndef TN_EMBEDDING_ROW_IO_H
#define TN_EMBEDDING_ROW_IO_H

#include <sys/types.h>

#include "base/base.h"

#define TN__ROW_TRANSFER_NONE UINT32_MAX
#define TN__ROW_TRANSFER_MAX 4096u

typedef struct tn__row_transfer {
    char *data;
    uint64_t offset;
    uint32_t size, done; /* bytes */
    uint32_t slot;       /* for a read */
    uint32_t next;       /* in a list */
    bool writes;
    int failure; /* 0: no failure; -1: the file ended; else errno */
} tn__row_transfer;

typedef struct tn__row_io {
    const struct tn__row_reader *reader;
    void *state; /* for the reader */
    int file;
    uint32_t depth;
    uint32_t vacant; /* list of transfers */
    uint32_t reading, writing;
    tn__row_transfer *transfers; /* [depth] */
    char *copies;                /* [depth x row]: the rows being written */
} tn__row_io;

typedef struct tn__row_reader {
    const char *name, *summary;
    uint64_t (*bytes)(uint32_t depth); /* size of io->state, zeroed; aligned to 16 */
    tn_status (*open)(tn__row_io *io, uint32_t threads, tn_error *error);
    void (*begin)(tn__row_io *io, uint32_t transfer); /* starts it */
    void (*start)(tn__row_io *io); /* runs the transfers begun so far; NULL: they run already */
    uint32_t (*finish)(tn__row_io *io); /* waits for one; at least one must be under way */
    void (*close)(tn__row_io *io);      /* no transfer is under way; also called if `open` failed */
} tn__row_reader;

extern const tn__row_reader tn__row_reader_uring, tn__row_reader_threads;

/* The reader with this name; NULL: uring if this process may use it, else threads. */
tn_status tn__row_reader_find(const char *name, const tn__row_reader **reader, tn_error *error);
/* Why io_uring cannot be used with the largest number of transfers, or NULL. Cost: creates and
 * destroys a queue. */
const char *tn__uring_lacks(void);

/* Opens with io->reader, state, file, depth, transfers and copies set. */
tn_status tn__row_io_open(tn__row_io *io, uint32_t threads, tn_error *error);
/* An unused transfer; TN__ROW_TRANSFER_NONE: all are in use, so finish one first. */
uint32_t tn__row_io_take(tn__row_io *io);
void tn__row_io_begin(tn__row_io *io, uint32_t transfer);
static inline bool tn__row_io_is_busy(const tn__row_io *io) {
    return io->reading + io->writing > 0;
}
/* Waits for one; the caller examines it and gives it back. */
uint32_t tn__row_io_finish(tn__row_io *io);
void tn__row_io_give(tn__row_io *io, uint32_t transfer);
void tn__row_io_start(tn__row_io *io);

#endif
