/* library.h - the library of a driver, found when a device is opened: a file, and functions by
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
    const char *variable;     /* of the environment: the one file to load instead of `files` */
    const char *const *files; /* tried in order, ended by NULL */
    const char *remedy;       /* "install ..." */
    const tn__library_symbol *symbols;
    size_t symbol_count;
} tn__library;

/* Fills the pointers of `table`. What the process has loaded already is taken before what lies on
 * disk, so that there are not two runtimes; and it stays loaded, since its threads outlive us.
 * Errors: E_UNSUPPORTED (no file, or one that lacks a function; says which, and the remedy). */
tn_status tn__library_load(const tn__library *wanted, void *table, tn_error *error);

#endif
