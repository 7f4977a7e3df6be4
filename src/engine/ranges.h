/* ranges.h - parts of a file by direct reads, into where they are wanted. */
#ifndef TN_ENGINE_RANGES_H
#define TN_ENGINE_RANGES_H

#include "base/base.h"

typedef struct tn__ranges {
    int descriptor;
    char *path;    /* for messages */
    uint64_t size; /* of the file, when it was opened */
    int64_t changed_s, changed_ns;
    bool own; /* a temporary file, which nobody else sees */
} tn__ranges;
/* Errors: E_IO (no such file; no regular file). */
tn_status tn__ranges_open(const char *path, tn__ranges *file, tn_error *error);
/* A file without a name in `folder` (NULL: $TMPDIR, else /tmp) that has room for `size` bytes.
 * Errors: E_IO (no room). */
tn_status tn__ranges_temporary(const char *folder, uint64_t size, tn__ranges *file,
                               tn_error *error);
void tn__ranges_close(tn__ranges *file);
/* Reads all of [offset, offset + size), in any thread. Errors: E_IO: what cannot be read, where the
 * file ends, that it has changed since it was opened; with path and byte. */
tn_status tn__ranges_read(const tn__ranges *file, uint64_t offset, void *bytes, uint64_t size,
                          tn_error *error);
/* The same, and at most 4 MiB of it are in the system's cache at any time: each part is given back
 * before the next is read. */
tn_status tn__ranges_read_past_cache(const tn__ranges *file, uint64_t offset, void *bytes,
                                     uint64_t size, tn_error *error);
/* What was read of it need not stay in the system's cache; benign. */
void tn__ranges_forget(const tn__ranges *file, uint64_t offset, uint64_t size);

#endif
