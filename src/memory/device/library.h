/* library.h - loads the library of a driver when a device is opened, and finds its functions by
 * name.
 */
#ifndef TN_DEVICE_LIBRARY_H
#define TN_DEVICE_LIBRARY_H

#include "base/base.h"

typedef struct tn__library_symbol {
    const char *name;
    size_t offset; /* offset of the function's pointer in the caller's table */
} tn__library_symbol;

typedef struct tn__library {
    const char *what; /* name for messages, such as "the CUDA runtime" */
    /* environment variable that names the only file to load instead of `files` */
    const char *variable;
    const char *const *files; /* file names, tried in order; ends with NULL */
    const char *remedy;       /* what the user can do, such as "install ..." */
    const tn__library_symbol *symbols;
    size_t symbol_count;
} tn__library;

/* Fills in the pointers of `table`. A library that the process has already loaded is preferred to a
 * file on disk, to avoid two runtimes in one process. The library is never unloaded, because its
 * threads may run longer than the caller. Errors: E_UNSUPPORTED (no file could be loaded, or the
 * file lacks a function; the message says which, and the remedy). */
tn_status tn__library_load(const tn__library *wanted, void *table, tn_error *error);

#endif
