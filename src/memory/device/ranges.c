/* ranges.c - reads parts of a file directly into the caller's memory, and writes them from there,
 * without mapping or copying the file.
 *
 * A file that is read repeatedly may change, end or fail in between. Each read checks afterwards
 * whether the file was changed since it was opened; if so, the bytes that were read are refused.
 * Renaming another file to its name does no harm, because the old one stays open.
 */
#define _GNU_SOURCE /* sync_file_range, fallocate */
#include "memory/device/ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* limit in bytes of the page cache that a read may occupy */
#define RANGES_PAST ((uint64_t)1 << 20)
#define RANGES_END ((uint64_t)INT64_MAX)
/* limit of one read call, because the system allows a little less than 2 GiB */
#define RANGES_AT_ONCE ((size_t)1 << 30)

static tn_status ranges_fail(const tn__ranges *file, const char *what, uint64_t at,
                             tn_error *error) {
    tn_status status = tn__fail_system(error, errno, what);
    return tn__where(error, status, "%.150s: byte %llu", file->path, (unsigned long long)at);
}

static tn_status ranges_look(tn__ranges *file, tn_error *error) {
    struct stat facts;
    if (fstat(file->descriptor, &facts) != 0) return ranges_fail(file, "look at it", 0, error);
    file->size = (uint64_t)facts.st_size;
    file->changed_s = facts.st_mtim.tv_sec;
    file->changed_ns = facts.st_mtim.tv_nsec;
    if (S_ISREG(facts.st_mode)) return TN_OK;
    tn_status status = tn__fail(error, TN_E_IO,
                                "it is no regular file: parts of it cannot be read "
                                "over and over");
    return tn__where(error, status, "%s", file->path);
}

tn_status tn__ranges_open(const char *path, tn__ranges *file, tn_error *error) {
    tn__ranges made = {.descriptor = -1, .path = strdup(path)};
    if (made.path == NULL) return tn__no_memory(error, path);
    /* O_NONBLOCK: opening a pipe does not wait for its writer */
    made.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    tn_status status =
        made.descriptor >= 0 ? ranges_look(&made, error) : ranges_fail(&made, "open", 0, error);
    if (status == TN_OK)
        *file = made;
    else
        tn__ranges_close(&made);
    return status;
}

/* Creates a temporary file. It has a name only for a moment, so nothing is left however the process
 * ends. */
static int ranges_create(const char *folder) {
    char path[4096];
    errno = ENAMETOOLONG;
    if (snprintf(path, sizeof path, "%s/tenure-XXXXXX", folder) >= (int)sizeof path) return -1;
    int descriptor = mkstemp(path);
    if (descriptor < 0) return -1;
    unlink(path);
    (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return descriptor;
}

tn_status tn__ranges_temporary(const char *folder, uint64_t size, tn__ranges *file,
                               tn_error *error) {
    const char *given = getenv("TMPDIR");
    if (folder == NULL) folder = given != NULL && *given != '\0' ? given : "/tmp";
    tn__ranges made = {.descriptor = -1, .path = strdup(folder), .own = true};
    if (made.path == NULL) return tn__no_memory(error, folder);
    made.descriptor = ranges_create(folder);
    tn_status status = TN_OK;
    if (made.descriptor < 0) status = ranges_fail(&made, "create a file in this folder", 0, error);
    if (status == TN_OK) status = tn__ranges_take(&made, 0, size, error);
    if (status == TN_OK)
        *file = made;
    else
        tn__ranges_close(&made);
    return status;
}

tn_status tn__ranges_take(tn__ranges *file, uint64_t offset, uint64_t size, tn_error *error) {
    errno = EFBIG;
    if (size > RANGES_END || offset > RANGES_END - size)
        return ranges_fail(file, "take room for a file in this folder", offset, error);
    if (size > 0 && (errno = posix_fallocate(file->descriptor, (off_t)offset, (off_t)size)) != 0)
        return ranges_fail(file, "take room for a file in this folder", offset + size, error);
    if (offset + size > file->size) file->size = offset + size;
    return TN_OK;
}

void tn__ranges_give(const tn__ranges *file, uint64_t offset, uint64_t size) {
#if defined(__linux__) && defined(FALLOC_FL_PUNCH_HOLE)
    (void)fallocate(file->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                    /* freeing the space may fail; this is harmless, because it is freed with the
                     * file */
                    (off_t)size);
#else
    (void)file, (void)offset, (void)size;
#endif
}

bool tn__ranges_free(const tn__ranges *file, uint64_t *bytes) {
    struct statvfs facts;
    if (fstatvfs(file->descriptor, &facts) != 0) return false;
    *bytes = tn__mul_sat(facts.f_bavail, facts.f_frsize);
    return true;
}

void tn__ranges_close(tn__ranges *file) {
    if (file->path == NULL) return;
    if (file->descriptor >= 0) close(file->descriptor);
    free(file->path);
    *file = (tn__ranges){.descriptor = -1};
}

tn_status tn__ranges_is_same(const tn__ranges *file, uint64_t at, tn_error *error) {
    struct stat facts;
    if (file->own) return TN_OK;
    if (fstat(file->descriptor, &facts) != 0) return ranges_fail(file, "look at it", at, error);
    if (facts.st_mtim.tv_sec == file->changed_s && facts.st_mtim.tv_nsec == file->changed_ns &&
        (uint64_t)facts.st_size == file->size)
        return TN_OK;
    tn_status status = tn__fail(error, TN_E_IO,
                                "the file was changed while weights are read from it (it had %llu "
                                "bytes, now %llu); run again",
                                (unsigned long long)file->size, (unsigned long long)facts.st_size);
    return tn__where(error, status, "%.150s: byte %llu", file->path, (unsigned long long)at);
}

tn_status tn__ranges_read(const tn__ranges *file, uint64_t offset, void *bytes, uint64_t size,
                          tn_error *error) {
    uint64_t done = 0;
    while (done < size) {
        size_t now = size - done < RANGES_AT_ONCE ? (size_t)(size - done) : RANGES_AT_ONCE;
        ssize_t got = pread(file->descriptor, (uint8_t *)bytes + done, now, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ranges_fail(file, "read", offset + done, error);
        if (got == 0) {
            TN_TRY(tn__ranges_is_same(file, offset + done, error));
            tn_status status =
                tn__fail(error, TN_E_IO, "the file ends here, where %llu more bytes are wanted",
                         (unsigned long long)(size - done));
            return tn__where(error, status, "%.150s: byte %llu", file->path,
                             (unsigned long long)(offset + done));
        }
        done += (uint64_t)got;
    }
    return tn__ranges_is_same(file, offset, error);
}

tn_status tn__ranges_write(const tn__ranges *file, uint64_t offset, const void *bytes,
                           uint64_t size, tn_error *error) {
    for (uint64_t done = 0; done < size;) {
        size_t now = size - done < RANGES_AT_ONCE ? (size_t)(size - done) : RANGES_AT_ONCE;
        const uint8_t *from = (const uint8_t *)bytes + done;
        ssize_t put = pwrite(file->descriptor, from, now, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return ranges_fail(file, "write", offset + done, error);
        done += (uint64_t)put;
    }
    return TN_OK;
}

void tn__ranges_begin(const tn__ranges *file, uint64_t offset, uint64_t size) {
#if defined(__linux__) && defined(SYNC_FILE_RANGE_WRITE)
    (void)sync_file_range(file->descriptor, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
#else
    (void)file, (void)offset, (void)size;
#endif
}

/* Writes all data to the disk first, because pages that are not written yet cannot be dropped from
 * the cache. */
tn_status tn__ranges_settle(const tn__ranges *file, tn_error *error) {
#if defined(__linux__) && defined(SYNC_FILE_RANGE_WRITE)
    const unsigned all =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    bool settled = sync_file_range(file->descriptor, 0, 0, all) == 0;
#else
    bool settled = fdatasync(file->descriptor) == 0;
#endif
    if (!settled) return ranges_fail(file, "write", 0, error);
    tn__ranges_forget(file, 0, 0);
    return TN_OK;
}

void tn__ranges_forget(const tn__ranges *file, uint64_t offset, uint64_t size) {
    (void)posix_fadvise(file->descriptor, (off_t)offset, (off_t)size, POSIX_FADV_DONTNEED);
}

/* Reads in pieces, and drops each from the page cache. Pieces end at page boundaries, so that no
 * page between two pieces stays in the cache. The file is advised as random: otherwise the system
 * reads megabytes ahead, in large pages, and does not drop a large page in which a piece ends (of
 * 252 MiB read, 244 MiB stayed in the cache; with the advice, 0.3 MiB). Without reading ahead, the
 * measured disk is slower by a fifth. */
tn_status tn__ranges_read_past_cache(const tn__ranges *file, uint64_t offset, void *bytes,
                                     uint64_t size, tn_error *error) {
    (void)posix_fadvise(file->descriptor, 0, 0, POSIX_FADV_RANDOM);
    for (uint64_t done = 0; done < size;) {
        uint64_t at = offset + done, piece = RANGES_PAST - at % RANGES_PAST;
        if (piece > size - done) piece = size - done;
        TN_TRY(tn__ranges_read(file, at, (uint8_t *)bytes + done, piece, error));
        tn__ranges_forget(file, at, piece);
        done += piece;
    }
    return TN_OK;
}
