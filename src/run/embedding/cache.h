/* cache.h - an open table: its slab, its file, transfers under way, and the journal. */
#ifndef TN_EMBEDDING_CACHE_H
#define TN_EMBEDDING_CACHE_H

#include "run/embedding/row_io.h"
#include "run/embedding/policy.h"
#include "run/embedding/table.h"

/* The options with all defaults filled in. */
typedef struct tn__cache_wish {
    tn_embedding_options options;
    const tn__row_policy *policy;
    const tn__row_reader *reader;
} tn__cache_wish;

/* Where each part of the slab begins. */
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

/* The versions in the file of all rows that changed since the last checkpoint (journal.c). */
typedef struct tn__journal {
    char *path;
    int file;            /* -1: not open */
    uint64_t generation; /* number of the checkpoint that it restores */
    char *buffer;        /* [room records] */
    uint32_t room, used;
    uint64_t written, synced; /* bytes of the file */
    uint64_t undone;          /* records undone at `open` */
    bool unsynced;            /* as in the options */
    bool is_named;            /* its name is on the disk */
} tn__journal;

struct tn_embedding {
    tn_context context;
    tn_embedding_table table;
    uint32_t value_bytes, row_bytes;
    uint64_t cache_bytes;
    char *path, *checkpoint_path;
    int file;
    bool read_only, is_broken;
    tn_error broken; /* why every call fails from now on */
    tn__residents r;
    char *rows; /* [slots x row_bytes] */
    uint32_t batch_rows, batch_count;
    tn__ticket tickets[TN_EMBEDDING_OPEN_MAX];
    uint32_t *chain;         /* [batch_rows]: the next place with the same row */
    float *scratch, *second; /* [dim] */
    tn__row_io io;
    tn__journal journal;
    tn_embedding_facts facts; /* the counters */
};

static inline char *tn__cache_row(const tn_embedding *e, uint32_t slot) {
    return e->rows + (size_t)slot * e->row_bytes;
}

/* --- moving rows (move.c) --- */

/* Waits for one transfer, and processes it. */
void tn__move_finish(tn_embedding *e);
/* Waits until all writes have finished. */
tn_status tn__move_settle(tn_embedding *e, tn_error *error);
void tn__move_in(tn_embedding *e, uint32_t slot); /* starts to read a row */
/* Starts to write a changed row; its slot is free at once. */
tn_status tn__move_out(tn_embedding *e, uint32_t slot, tn_error *error);
/* Waits until the rows of a batch have been read. */
tn_status tn__move_await(tn_embedding *e, const tn__ticket *ticket, tn_error *error);

/* From now on every call fails with this error. */
tn_status tn__cache_break(tn_embedding *e, tn_status status, const tn_error *error);

/* --- journal.c --- */

/* Creates or finds the journal of a table, and undoes the changes it records. */
tn_status tn__journal_open(tn_embedding *e, tn_error *error);
/* The same without writing: E_UNSUPPORTED if changes must be undone. */
tn_status tn__journal_look(tn_embedding *e, tn_error *error);
/* Call before the row in this slot changes for the first time. */
tn_status tn__journal_add(tn_embedding *e, uint32_t slot, tn_error *error);
/* Makes all added records durable against a crash of the machine. */
tn_status tn__journal_secure(tn_embedding *e, tn_error *error);
/* Call when the next checkpoint exists. */
void tn__journal_close(tn_embedding *e);

/* --- checkpoint.c --- */

/* The number of the table's last checkpoint; 0: none. Also verifies the note. */
tn_status tn__checkpoint_generation(const tn_embedding *e, uint64_t *generation, tn_error *error);

#endif
