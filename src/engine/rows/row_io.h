/* row_io.h - transfers of rows between files and memory.
 *
 * A transfer reads one row, or a part of one, into its slot, or writes one from a copy. The slab
 * has a fixed number of transfers. A reader executes them; the readers are in row_io.c. Waiting
 * returns finished transfers in any order.
 */
#ifndef TN_EMBEDDING_ROW_IO_H
#define TN_EMBEDDING_ROW_IO_H

#include <sys/types.h>

#include "base/base.h"

#define TN__ROW_TRANSFER_NONE UINT32_MAX
#define TN__ROW_TRANSFER_MAX 4096u

typedef struct tn__row_transfer {
    int file; /* descriptor of the file */
    char *data;
    uint64_t offset;
    uint32_t size, done; /* bytes */
    uint32_t slot;       /* the slot into which a read copies the row */
    uint32_t next;       /* next transfer in a list */
    bool writes;
    /* why the transfer failed: an errno, or -1 if the file ended too early; 0: it did not fail */
    int failure;
} tn__row_transfer;

typedef struct tn__row_io {
    const struct tn__row_reader *reader;
    void *state; /* memory of the reader */
    uint32_t depth;
    uint32_t vacant; /* first of the list of unused transfers */
    uint32_t reading, writing;
    tn__row_transfer *transfers; /* [depth] */
    char *copies;                /* for each transfer, memory for a row that is being written */
} tn__row_io;

typedef struct tn__row_reader {
    const char *name, *summary;
    /* returns the size of io->state, which is zeroed and aligned to 16 */
    uint64_t (*bytes)(uint32_t depth);
    tn_status (*open)(tn__row_io *io, uint32_t threads, tn_error *error);
    void (*begin)(tn__row_io *io, uint32_t transfer); /* adds a transfer to the queue */
    void (*start)(tn__row_io *io); /* makes the queued transfers run; NULL: they run at once */
    /* waits for a transfer and returns it; at least one must be queued */
    uint32_t (*finish)(tn__row_io *io);
    /* called when no transfer is in progress, also if `open` failed */
    void (*close)(tn__row_io *io);
} tn__row_reader;

extern const tn__row_reader tn__row_reader_uring, tn__row_reader_threads;

/* Finds the reader with this name. NULL chooses io_uring if this process may use it, else
 * threads. */
tn_status tn__row_reader_find(const char *name, const tn__row_reader **reader, tn_error *error);
/* Returns NULL if io_uring can be used with the largest number of transfers, else the reason. Cost:
 * creates and destroys a queue. */
const char *tn__uring_lacks(void);

/* Opens the reader. The caller must have set reader, state, file, depth, transfers and copies. */
tn_status tn__row_io_open(tn__row_io *io, uint32_t threads, tn_error *error);
/* Returns an unused transfer. TN__ROW_TRANSFER_NONE: all are in use; wait for one with
 * tn__row_io_finish. */
uint32_t tn__row_io_take(tn__row_io *io);
void tn__row_io_begin(tn__row_io *io, uint32_t transfer);
static inline bool tn__row_io_is_busy(const tn__row_io *io) {
    return io->reading + io->writing > 0;
}
/* Waits for a transfer and returns it. The caller reads its result and then calls
 * tn__row_io_give. */
uint32_t tn__row_io_finish(tn__row_io *io);
void tn__row_io_give(tn__row_io *io, uint32_t transfer);
void tn__row_io_start(tn__row_io *io);

#endif
