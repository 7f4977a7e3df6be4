/* shared.h - the parts that the preloaded library and the PyTorch allocator share: settings from
 * the environment, messages, and the trace of requests.
 */
#ifndef TN_PRELOAD_SHARED_H
#define TN_PRELOAD_SHARED_H

#include <tenure/pool.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* --- settings and messages -------------------------------------------------------------------- */

/* Prints "tenure: what: detail" on standard error; `detail` may be "". */
void tn__message_print(const char *what, const char *detail);
/* Reads a size; if it is not set, *bytes is unchanged. False: it cannot be read; a message was
 * printed. */
bool tn__size_setting(const char *name, uint64_t *bytes);
/* Prints on standard error how a pool was used: "tenure: 999 large blocks; at most ...", where
 * `what` is "large blocks". If the pool learned plans, a second line says how well they served. */
void tn__pool_print(tn_pool *pool, const char *what);

/* --- trace ------------------------------------------------------------------------------------ */

/* Records allocation requests as rows of a file, in order. The owner holds a lock when it calls. */
typedef struct tn__trace {
    int file;          /* -1: not open, or failed */
    struct stat which; /* identifies it: the program may close the number and reuse it */
    const char *path;  /* NULL once it was opened, at the first row */
    bool is_other;     /* the plain name belongs to another process */
    bool has_streams;
    bool failed;         /* the disk is full, or failed: the file ends after a whole row */
    uint64_t written;    /* bytes of whole rows in the file */
    uint64_t kept, lost; /* rows, including the header */
    size_t used;
    char rows[64 << 10];
} tn__trace;

/* path: NULL or "" means no trace; otherwise it must stay valid. The file is created at the first
 * row. If another process is writing a trace to it, ours is FILE.NUMBER. If a file cannot be
 * written, a message says so and the program runs without a trace. `has_streams`: rows contain the
 * stream and the caller. */
void tn__trace_open(tn__trace *trace, const char *path, bool has_streams);
/* Leaves the plain name to another process, which may not have reached its first row yet: our
 * process number is appended to the name, unless the name contains it already ("%p"). */
void tn__trace_yield(tn__trace *trace);
/* `call_site`: the line of code that asks, without commas; NULL: unknown. */
void tn__trace_alloc(tn__trace *trace, uint64_t name, size_t size, size_t alignment,
                     uint32_t stream, const char *call_site);
void tn__trace_free(tn__trace *trace, uint64_t name);
void tn__trace_close(tn__trace *trace);
/* Prints how many rows are in the file and how many were lost, if any; for the statistics. */
void tn__trace_print(const tn__trace *trace);
void tn__trace_leave(tn__trace *trace); /* in the child of a fork: the file is the parent's */

#endif
