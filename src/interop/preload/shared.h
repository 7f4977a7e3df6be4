/* shared.h - the parts that the preloaded library and the PyTorch allocator share: settings from
 * the environment, messages, the table of holders, and the trace of requests. */
#ifndef TN_PRELOAD_SHARED_H
#define TN_PRELOAD_SHARED_H

#include <tenure/pool.h>
#include <tenure/watch.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "memory/pool/learn.h"

/* --- settings and messages -------------------------------------------------------------------- */

/* Prints on standard error. A limit on the size of files, or a pipe without a reader, does not end
 * the program; errno is unchanged. */
__attribute__((format(printf, 1, 2))) void tn__say(const char *format, ...);
/* Prints "tenure: what: detail" on standard error; `detail` may be "". */
void tn__message_print(const char *what, const char *detail);
/* Reads a size from the environment; if it is not set, *bytes is unchanged. False: it cannot be
 * read; a message was printed. */
bool tn__size_setting(const char *name, uint64_t *bytes);
/* Prints on standard error how a pool was used: "tenure: 999 large blocks; at most ...", where
 * `what` is "large blocks". If the pool learned plans, a second line reports how many requests they
 * served. */
void tn__pool_print(tn_pool *pool, const char *what);

/* --- the table of holders --------------------------------------------------------------------- */

/* A published table of holders (tenure/watch.h), and the search for the steps of the program. A
 * step is an iteration: requests that repeat with the same sizes and streams. Unlike the pool
 * `iteration`, the search does not require that an iteration frees what it allocates, because a
 * program whose memory grows is what people look for. So it asks for more repetitions instead, and
 * for twice as many each time that a repetition ends. The caller holds a lock. */
typedef struct tn__watched {
    tn_watch *watch; /* NULL: there is no table */
    tn_context context;
    tn__learn learn;
    uint64_t count;    /* number of requests */
    uint64_t period;   /* requests of a step; 0: the program is not known to repeat */
    uint64_t left;     /* requests until the next step */
    uint64_t patience; /* repetitions after which a step is recognised */
} tn__watched;

/* Whether TENURE_WATCH asks for a table of holders: it is neither empty nor 0. */
bool tn__watch_wanted(void);
/* Publishes a table; if that fails, a message is printed, and there is no table. `context` NULL:
 * memory comes from malloc. */
void tn__watched_open(tn__watched *watched, const char *source, const tn_context *context);
void tn__watched_close(tn__watched *watched);
/* Counts a block that was allocated; tn_watch_free counts it as freed. */
void tn__watched_alloc(tn__watched *watched, const tn_watch_label *label, uint64_t size,
                       uint32_t stream, tn_watch_block *block);

/* --- trace ------------------------------------------------------------------------------------ */

/* Records allocation requests as rows of a file, in order. The caller of its functions holds a
 * lock. */
typedef struct tn__trace {
    int file; /* file descriptor; -1: not open, or failed */
    /* device and inode of the file: the program may close the descriptor and reuse its number */
    struct stat which;
    /* path of the trace; NULL once the file was opened, which happens at the first row */
    const char *path;
    bool is_other; /* true: the plain name belongs to another process */
    bool has_streams;
    bool failed;         /* true: the disk is full, or failed: the file ends after a whole row */
    uint64_t written;    /* bytes of whole rows in the file */
    uint64_t kept, lost; /* number of rows in the file, including the header, and of lost rows */
    size_t used;
    char rows[64 << 10];
} tn__trace;

/* Prepares a trace. `path` NULL or "" means no trace; otherwise it must stay valid. The file is
 * created at the first row. If another process is writing a trace to it, the file of this process
 * is FILE.NUMBER. If a file cannot be written, a message reports it and the program runs without a
 * trace. `has_streams`: rows contain the stream and the caller. */
void tn__trace_open(tn__trace *trace, const char *path, bool has_streams);
/* Leaves the plain name to another process, which may not have written its first row yet: the
 * number of this process is appended to the name, unless the name contains it already ("%p"). */
void tn__trace_yield(tn__trace *trace);
/* Writes a row for an allocation. `call_site`: the line of code that allocates, without commas;
 * NULL: unknown. */
void tn__trace_alloc(tn__trace *trace, uint64_t name, size_t size, size_t alignment,
                     uint32_t stream, const char *call_site);
void tn__trace_free(tn__trace *trace, uint64_t name);
void tn__trace_close(tn__trace *trace);
/* Prints how many rows are in the file and how many were lost, if any; for the statistics. */
void tn__trace_print(const tn__trace *trace);
/* called in the child of a fork, because the file belongs to the parent */
void tn__trace_leave(tn__trace *trace);

#endif
