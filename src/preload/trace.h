/* trace.h - requests as rows of a file, in order: called with the lock of large.c held. */
#ifndef TN_PRELOAD_TRACE_H
#define TN_PRELOAD_TRACE_H

#include <stddef.h>
#include <stdint.h>

/* NULL or "": no trace; else it must last. The file is made at the first row; one that another
 * process is writing is left to it, and ours is FILE.NUMBER. A file that cannot be written is told,
 * and done without. */
void tn__trace_open(const char *path);
void tn__trace_alloc(uint64_t name, size_t size, size_t alignment);
void tn__trace_free(uint64_t name);
void tn__trace_close(void);
void tn__trace_leave(void); /* in the child of a fork: the file is the parent's */

#endif
