/* cache.h - an open table of embeddings. It has a slab, which is one block of memory for cached
 * rows and all tables; the file; the row transfers in progress; and the journal. */
#ifndef TN_EMBEDDING_CACHE_H
#define TN_EMBEDDING_CACHE_H

#include "engine/rows/row_io.h"
#include "engine/rows/policy.h"
#include "run/embedding/table.h"

/* The options of an open table, with the default in place of every option that was not given. */
typedef struct tn__cache_wish {
    tn_embedding_options options;
    const tn__row_policy *policy;
    const tn__row_reader *reader;
} tn__cache_wish;

/* The offset of each part of the slab, and the numbers of items for which the parts have room. */
typedef struct tn__division {
    uint64_t slots, index, state, transfers, reader, holds, chain, scratch, journal, copies, rows;
    uint64_t total;
    uint32_t slot_count, batch_rows, depth, journal_rows;
} tn__division;

typedef struct tn__ticket {
    bool is_open;
    tn_embedding_batch batch;
    tn__hold hold;
} tn__ticket;

/* The journal (journal.c): for each row that has changed since the last checkpoint, its previous
 * version from the file. */
typedef struct tn__journal {
    char *path;
    int file;            /* descriptor of the file; -1: the file is not open */
    uint64_t generation; /* number of the checkpoint to which the journal leads back */
    char *buffer;        /* buffer for `room` records of the journal */
    uint32_t room, used;
    /* `written`: bytes written to the file; `synced`: bytes of these that are durable */
    uint64_t written, synced;
    uint64_t undone; /* number of records that were undone when the table was opened */
    bool unsynced;   /* option: do not make the files durable against a crash of the machine */
    bool is_named;   /* whether the name of the file is durable */
} tn__journal;

struct tn_embedding {
    tn_context context;
    tn_embedding_table table;
    uint32_t value_bytes, row_bytes;
    uint64_t cache_bytes;
    char *path, *checkpoint_path;
    int file;
    bool read_only, is_broken;
    /* the error with which every call fails after the table is broken (is_broken) */
    tn_error broken;
    tn__residents r;
    char *rows; /* the rows in the cache: row_bytes bytes for each slot */
    uint32_t batch_rows, batch_count;
    tn__ticket tickets[TN_EMBEDDING_OPEN_MAX];
    uint32_t *chain;         /* for each position of a batch: the next position with the same row */
    float *scratch, *second; /* [dim] */
    tn__row_io io;
    tn__journal journal;
    tn_embedding_facts facts; /* statistics */
};

static inline char *tn__cache_row(const tn_embedding *e, uint32_t slot) {
    return e->rows + (size_t)slot * e->row_bytes;
}

/* --- moving rows (move.c) --- */

/* Waits for one transfer to finish, and handles its result. */
void tn__move_finish(tn_embedding *e);
/* Waits until all writes have finished. Fails if the table is broken. */
tn_status tn__move_settle(tn_embedding *e, tn_error *error);
void tn__move_in(tn_embedding *e, uint32_t slot); /* Starts to read a row into its slot. */
/* Starts to write a changed row from a copy, so that its slot is free at once. */
tn_status tn__move_out(tn_embedding *e, uint32_t slot, tn_error *error);
/* Waits until all rows of a batch have been read. */
tn_status tn__move_await(tn_embedding *e, const tn__ticket *ticket, tn_error *error);

/* Makes every later call fail with this error. Returns `status`. */
tn_status tn__cache_break(tn_embedding *e, tn_status status, const tn_error *error);

/* --- journal.c --- */

/* Opens or creates the journal of a table, and undoes the changes that it records. */
tn_status tn__journal_open(tn_embedding *e, tn_error *error);
/* Opens the journal of a table that is opened read-only. Errors: E_UNSUPPORTED (changes must be
 * undone first, which needs writing). */
tn_status tn__journal_look(tn_embedding *e, tn_error *error);
/* Adds a row's version in the file to the journal. Call it before the row in this slot changes for
 * the first time. */
tn_status tn__journal_add(tn_embedding *e, uint32_t slot, tn_error *error);
/* Makes all added records durable against a crash of the machine. */
tn_status tn__journal_secure(tn_embedding *e, tn_error *error);
/* Closes the journal, and removes its file if it is empty. */
void tn__journal_close(tn_embedding *e);

/* --- journal.c: the checkpoint --- */

/* Reads the number of the table's last checkpoint; 0: no checkpoint was made yet. Also verifies the
 * note that is stored with it. */
tn_status tn__checkpoint_generation(const tn_embedding *e, uint64_t *generation, tn_error *error);

#endif
