/* ranges.h - parts of a file by direct reads, into where they are wanted, and writes. */
#ifndef TN_DEVICE_RANGES_H
#define TN_DEVICE_RANGES_H

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
/* A file without a name in `folder` (NULL: $TMPDIR, else /tmp) that has room for `size` bytes, all
 * of them 0. Errors: E_IO (no room). */
tn_status tn__ranges_temporary(const char *folder, uint64_t size, tn__ranges *file,
                               tn_error *error);
/* Room for more of it; gives it back, which is benign. Errors: E_IO (no room). */
tn_status tn__ranges_take(tn__ranges *file, uint64_t offset, uint64_t size, tn_error *error);
void tn__ranges_give(const tn__ranges *file, uint64_t offset, uint64_t size);
/* Bytes that its file system has left; false: it does not say. */
bool tn__ranges_free(const tn__ranges *file, uint64_t *bytes);
void tn__ranges_close(tn__ranges *file);
/* Reads all of [offset, offset + size), in any thread. Errors: E_IO: what cannot be read, where the
 * file ends, that it has changed since it was opened; with path and byte. */
tn_status tn__ranges_read(const tn__ranges *file, uint64_t offset, void *bytes, uint64_t size,
                          tn_error *error);
/* The same, and at most 4 MiB of it are in the system's cache at any time: each part is given back
 * before the next is read. */
tn_status tn__ranges_read_past_cache(const tn__ranges *file, uint64_t offset, void *bytes,
                                     uint64_t size, tn_error *error);
/* Writes all of it, to the system's cache: `begin` has it go on to the disk by itself, `settle`
 * waits for what was written of the whole file, and gives it back. Errors: E_IO (of what was
 * written before, too), with path and byte. */
tn_status tn__ranges_write(const tn__ranges *file, uint64_t offset, const void *bytes,
                           uint64_t size, tn_error *error);
void tn__ranges_begin(const tn__ranges *file, uint64_t offset, uint64_t size);
tn_status tn__ranges_settle(const tn__ranges *file, tn_error *error);
/* What was read of it need not stay in the system's cache; benign. size 0: to its end */
void tn__ranges_forget(const tn__ranges *file, uint64_t offset, uint64_t size);

#endif
