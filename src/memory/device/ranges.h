/* ranges.h - direct reads of parts of a file into the caller's memory, and writes. */
#ifndef TN_DEVICE_RANGES_H
#define TN_DEVICE_RANGES_H

#include "base/base.h"

typedef struct tn__ranges {
    int descriptor;
    char *path;    /* path of the file, for messages */
    uint64_t size; /* size of the file when it was opened */
    int64_t changed_s, changed_ns;
    bool own; /* true: the file is a temporary one, which no other program sees */
} tn__ranges;
/* Opens a file for reading. Errors: E_IO (no such file; not a regular file). */
tn_status tn__ranges_open(const char *path, tn__ranges *file, tn_error *error);
/* Makes a file without a name in `folder` (NULL: $TMPDIR, else /tmp) with `size` bytes of space,
 * all 0. Errors: E_IO (the file cannot be created, or there is no space), E_NO_MEMORY. */
tn_status tn__ranges_temporary(const char *folder, uint64_t size, tn__ranges *file,
                               tn_error *error);
/* tn__ranges_take allocates disk space for a range. Errors: E_IO (no space). tn__ranges_give frees
 * it; a failure there is harmless and not reported. */
tn_status tn__ranges_take(tn__ranges *file, uint64_t offset, uint64_t size, tn_error *error);
void tn__ranges_give(const tn__ranges *file, uint64_t offset, uint64_t size);
/* Returns the free bytes of the file's file system in *bytes; false: unknown. */
bool tn__ranges_free(const tn__ranges *file, uint64_t *bytes);
void tn__ranges_close(tn__ranges *file);
/* Reads all of [offset, offset + size), in any thread. Errors: E_IO (unreadable, beyond the end, or
 * changed since the file was opened), with path and byte in the message. */
tn_status tn__ranges_read(const tn__ranges *file, uint64_t offset, void *bytes, uint64_t size,
                          tn_error *error);
/* Checks that the file has not been changed since it was opened; `at` is for the message. Errors:
 * E_IO. */
tn_status tn__ranges_is_same(const tn__ranges *file, uint64_t at, tn_error *error);
/* Reads a range as tn__ranges_read does, but keeps at most RANGES_PAST bytes of it (ranges.c) in
 * the page cache at any time: each piece is dropped before the next is read. */
tn_status tn__ranges_read_past_cache(const tn__ranges *file, uint64_t offset, void *bytes,
                                     uint64_t size, tn_error *error);
/* tn__ranges_write writes a range to the page cache. tn__ranges_begin starts writing it to the
 * disk. tn__ranges_settle waits for everything written to the file and drops it from the cache.
 * Errors: E_IO (also for earlier writes), with path and byte in the message. */
tn_status tn__ranges_write(const tn__ranges *file, uint64_t offset, const void *bytes,
                           uint64_t size, tn_error *error);
void tn__ranges_begin(const tn__ranges *file, uint64_t offset, uint64_t size);
tn_status tn__ranges_settle(const tn__ranges *file, tn_error *error);
/* Drops a range that was read from the page cache; failures are harmless. size 0: to the end of the
 * file. */
void tn__ranges_forget(const tn__ranges *file, uint64_t offset, uint64_t size);

#endif
