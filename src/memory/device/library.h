/* library.h - loads the library of a driver when a device is opened, and finds its functions by
 * name.
 */
#ifndef TN_DEVICE_LIBRARY_H
#define TN_DEVICE_LIBRARY_H

#include "base/base.h"

typedef struct tn__library_symbol {
    const char *name;
    size_t offset; /* of its pointer in the caller's table */
} tn__library_symbol;

typedef struct tn__library {
    const char *what;         /* "the CUDA runtime" */
    const char *variable;     /* environment variable: the one file to load instead of `files` */
    const char *const *files; /* tried in order; ends with NULL */
    const char *remedy;       /* "install ..." */
    const tn__library_symbol *symbols;
    size_t symbol_count;
} tn__library;

/* Fills in the pointers of `table`. A library that the process has loaded already is preferred to a
 * file on disk, which avoids two runtimes in one process. It is never unloaded, because its threads
 * may outlive us.
 * Errors: E_UNSUPPORTED (no file, or one that lacks a function; the message says which, and the
 * remedy). */
tn_status tn__library_load(const tn__library *wanted, void *table, tn_error *error);

#endif
