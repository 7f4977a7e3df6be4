/* ranges.c - parts of a file, read to where they are wanted: no mapping, no copy of the file.
 *
 * A file that is read over and over while it is used may change, end or fail in between. Each read
 * looks afterwards whether the file is what it was when it was opened: what came before a change
 * was seen is then refused with the rest. Replacing a file by renaming another onto it does no
 * harm: the old one stays open.
 */
#include "engine/ranges.h"

#include <tenure/engine.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define RANGES_PAST ((uint64_t)1 << 20)  /* of the system's cache, while something is read */
#define RANGES_AT_ONCE ((size_t)1 << 30) /* a read takes a little less than 2 GiB at most */

static tn_status ranges_fail(const tn__ranges *file, const char *what, uint64_t at,
                             tn_error *error) {
    tn_status status = tn__fail(error, TN_E_IO, "cannot %s: %s", what, strerror(errno));
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
    made.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is no wait */
    tn_status status =
        made.descriptor >= 0 ? ranges_look(&made, error) : ranges_fail(&made, "open", 0, error);
    if (status == TN_OK)
        *file = made;
    else
        tn__ranges_close(&made);
    return status;
}

/* It has its name for a moment only: whatever ends us, nothing is left behind. */
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
    tn__ranges made = {.descriptor = -1, .path = strdup(folder), .size = size, .own = true};
    if (made.path == NULL) return tn__no_memory(error, folder);
    made.descriptor = ranges_create(folder);
    tn_status status = TN_OK;
    if (made.descriptor < 0) status = ranges_fail(&made, "create a file in this folder", 0, error);
    if (status == TN_OK && (errno = posix_fallocate(made.descriptor, 0, (off_t)size)) != 0)
        status = ranges_fail(&made, "take room for a file in this folder", size, error);
    if (status == TN_OK)
        *file = made;
    else
        tn__ranges_close(&made);
    return status;
}

void tn__ranges_close(tn__ranges *file) {
    if (file->path == NULL) return;
    if (file->descriptor >= 0) close(file->descriptor);
    free(file->path);
    *file = (tn__ranges){.descriptor = -1};
}

static tn_status ranges_is_same(const tn__ranges *file, uint64_t at, tn_error *error) {
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
            TN_TRY(ranges_is_same(file, offset + done, error));
            tn_status status =
                tn__fail(error, TN_E_IO, "the file ends here, where %llu more bytes are wanted",
                         (unsigned long long)(size - done));
            return tn__where(error, status, "%.150s: byte %llu", file->path,
                             (unsigned long long)(offset + done));
        }
        done += (uint64_t)got;
    }
    return ranges_is_same(file, offset, error);
}

void tn__ranges_forget(const tn__ranges *file, uint64_t offset, uint64_t size) {
    (void)posix_fadvise(file->descriptor, (off_t)offset, (off_t)size, POSIX_FADV_DONTNEED);
}

/* Pieces end where pages do, so that none is left behind between two. Read as if at random: else
 * the system reads megabytes beyond, in large pages, and gives back none of those that a piece ends
 * in (of 252 MiB in pieces 244 stayed; so 0.3 do). That costs speed, a fifth of the disk's at hand.
 */
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

#define RANGES_PIECE ((uint64_t)16 << 20)
#define RANGES_STRETCH ((uint64_t)128 << 20)

/* [from, to), piece after piece, as a run reads weights that follow each other. *seconds is lowered
 * to what that takes. */
static tn_status ranges_stretch(const tn__ranges *file, uint64_t from, uint64_t to, uint8_t *bytes,
                                double *seconds, tn_error *error) {
    tn__ranges_forget(file, from, to - from);
    double start = tn__clock_s();
    for (uint64_t at = from; at < to; at += RANGES_PIECE) {
        uint64_t size = to - at < RANGES_PIECE ? to - at : RANGES_PIECE;
        TN_TRY(tn__ranges_read_past_cache(file, at, bytes, size, error));
    }
    double took = tn__clock_s() - start;
    if (took < *seconds) *seconds = took;
    return TN_OK;
}

/* The faster of two stretches, from both halves of the file, as operators are measured: what else
 * the machine does is not the disk's. */
static tn_status ranges_sample(const tn__ranges *file, uint8_t *bytes, double *bytes_per_s,
                               tn_error *error) {
    uint64_t half = file->size / 2, size = file->size - half;
    double seconds = INFINITY;
    if (size > RANGES_STRETCH) size = RANGES_STRETCH;
    memset(bytes, 0, RANGES_PIECE); /* memory is not to be waited for */
    if (size <= half) TN_TRY(ranges_stretch(file, 0, size, bytes, &seconds, error));
    TN_TRY(ranges_stretch(file, half, half + size, bytes, &seconds, error));
    *bytes_per_s = (double)size / (seconds > 1e-9 ? seconds : 1e-9);
    return TN_OK;
}

/* A file of zeros in a folder: on the disk, so that it can be forgotten. */
static tn_status ranges_write(const char *folder, uint8_t *bytes, tn__ranges *file,
                              tn_error *error) {
    TN_TRY(tn__ranges_temporary(folder, RANGES_STRETCH, file, error));
    memset(bytes, 0, RANGES_PIECE);
    for (uint64_t at = 0; at < RANGES_STRETCH;) {
        ssize_t count = pwrite(file->descriptor, bytes, RANGES_PIECE, (off_t)at);
        if (count < 0 && errno != EINTR) return ranges_fail(file, "write", at, error);
        if (count > 0) at += (uint64_t)count;
    }
    return fdatasync(file->descriptor) == 0 ? TN_OK : ranges_fail(file, "write", 0, error);
}

tn_status tn_storage_measure(const char *path, double *bytes_per_s, tn_error *error) {
    struct stat facts;
    tn__ranges file = {.descriptor = -1};
    uint8_t *bytes = malloc(RANGES_PIECE);
    if (bytes == NULL) return tn__no_memory(error, path);
    bool folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    tn_status status =
        folder ? ranges_write(path, bytes, &file, error) : tn__ranges_open(path, &file, error);
    if (status == TN_OK && file.size == 0)
        status = tn__where(error, tn__fail(error, TN_E_INVALID, "an empty file has no speed"), "%s",
                           path);
    if (status == TN_OK) status = ranges_sample(&file, bytes, bytes_per_s, error);
    free(bytes);
    tn__ranges_close(&file);
    return status;
}
