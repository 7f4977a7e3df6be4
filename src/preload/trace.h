/* trace.h - requests as rows of a file, in order. Whoever has a trace calls with a lock held. */
#ifndef TN_PRELOAD_TRACE_H
#define TN_PRELOAD_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct tn__trace {
    int file;          /* -1: not open, or it cannot be */
    struct stat which; /* the program may close our number and open something else by it */
    const char *path;  /* until it is opened, at the first row */
    bool is_other;     /* the name is somebody else's */
    bool has_streams;
    bool failed;         /* the disk is full, or failed: the file ends after a whole row */
    uint64_t written;    /* bytes of whole rows in the file */
    uint64_t kept, lost; /* rows, with the header */
    size_t used;
    char rows[64 << 10];
} tn__trace;

/* NULL or "": no trace; else it must last. The file is made at the first row; one that another
 * trace is being written to is left to it, and ours is FILE.NUMBER. A file that cannot be written
 * is told, and done without. `has_streams`: rows say which stream asked, and who. */
void tn__trace_open(tn__trace *trace, const char *path, bool has_streams);
/* The name is for another process, which may not have come to its first row yet: ours has our
 * number behind, unless the name has it already ("%p"). */
void tn__trace_yield(tn__trace *trace);
/* `who`: a name without commas; NULL: nobody in particular. */
void tn__trace_alloc(tn__trace *trace, uint64_t name, size_t size, size_t alignment,
                     uint32_t stream, const char *who);
void tn__trace_free(tn__trace *trace, uint64_t name);
void tn__trace_close(tn__trace *trace);
/* How many rows are in the file and how many are not, if any is lost; for the statistics. */
void tn__trace_print(const tn__trace *trace);
void tn__trace_leave(tn__trace *trace); /* in the child of a fork: the file is the parent's */

#endif
