/* trace.h - records allocation requests as rows of a file, in order. The owner of a trace holds a
 * lock when it calls. */
#ifndef TN_PRELOAD_TRACE_H
#define TN_PRELOAD_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

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
/* `who`: the caller's name, without commas; NULL: unknown. */
void tn__trace_alloc(tn__trace *trace, uint64_t name, size_t size, size_t alignment,
                     uint32_t stream, const char *who);
void tn__trace_free(tn__trace *trace, uint64_t name);
void tn__trace_close(tn__trace *trace);
/* Prints how many rows are in the file and how many were lost, if any; for the statistics. */
void tn__trace_print(const tn__trace *trace);
void tn__trace_leave(tn__trace *trace); /* in the child of a fork: the file is the parent's */

#endif
