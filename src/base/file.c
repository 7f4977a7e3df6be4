/* file.c - reads and writes whole files.
 *
 * A file is mapped for reading if possible: a model of several gigabytes then uses no memory until
 * its pages are read. To write, a new file is made (new_file.c), flushed to the disk and renamed.
 * So a reader never sees half of a plan, and a failure leaves the old file unchanged.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_READ_STEP ((size_t)1 << 16)
#define FILE_LOOK_MS 100  /* milliseconds between two checks whether a pipe has a writer */
#define FILE_WAIT_MS 5000 /* milliseconds after which waiting for a writer or for data ends */

typedef struct file_owner { /* how the memory of a file is freed */
    void *bytes;
    size_t size;
    bool mapped;
    char *path; /* path of the mapped file; NULL: unknown */
} file_owner;

/* Whether a path means standard input or output: "-", or "-" with a suffix that gives the format,
 * such as "-.csv". */
static bool file_is_standard(const char *path) {
    return path[0] == '-' && (path[1] == '\0' || path[1] == '.');
}

static tn_status file_fail(tn_error *error, const char *path, const char *what) {
    tn_status status = tn__fail_system(error, errno, what);
    return tn__where(error, status, "%s",
                     file_is_standard(path) ? "standard input or output" : path);
}

static tn_status file_refuse_length(const char *path, uint64_t most, tn_error *error) {
    char text[TN_SIZE_TEXT_MAX];
    tn_status status = tn__fail(error, TN_E_INVALID,
                                "more than %s come from it, which is no file; that much is read "
                                "(`read_limit` raises it)",
                                tn_size_format(most, text));
    return tn__where(error, status, "%s", path);
}

/* Waits a short time for the writer of a named pipe, or for data of a device. Both were opened
 * without waiting, because a writer or data may never come, and the process would hang without a
 * message. Returns false, without waiting, after FILE_WAIT_MS in all. */
static bool file_await(int descriptor, int *waited_ms) {
    struct pollfd pipe = {.fd = descriptor, .events = POLLIN};
    if (*waited_ms >= FILE_WAIT_MS) return false;
    (void)poll(&pipe, 1, FILE_LOOK_MS);
    if (!(pipe.revents & POLLIN)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    *waited_ms += FILE_LOOK_MS;
    return true;
}

static bool file_make_room(file_owner *owner, size_t *room) {
    if (*room - owner->size >= FILE_READ_STEP) return true;
    size_t wider = *room != 0 ? 2 * *room : 4 * FILE_READ_STEP;
    void *grown = realloc(owner->bytes, wider);
    if (grown == NULL) return false;
    owner->bytes = grown;
    *room = wider;
    return true;
}

typedef struct file_reading {
    uint64_t most; /* limit in bytes for files that are not regular; 0: not given */
    bool text;     /* the file must be text, so a zero byte is an error */
    bool pipe;     /* the file is a named pipe */
} file_reading;

static tn_status file_refuse(const char *path, const char *what, tn_error *error) {
    return tn__where(error, tn__fail(error, TN_E_IO, "%s", what), "%s", path);
}

/* Called if no data can be read now. For a pipe and for standard input, the next read waits without
 * a limit; for another device, this function waits with a limit. */
static tn_status file_wait(int descriptor, const char *path, bool pipe, int *waited_ms,
                           tn_error *error) {
    if (pipe || descriptor == STDIN_FILENO) {
        (void)fcntl(descriptor, F_SETFL, 0);
        return TN_OK;
    }
    if (file_await(descriptor, waited_ms)) return TN_OK;
    return file_refuse(path, "this device gives no more bytes, and does not end", error);
}

static tn_status file_read_all(int descriptor, const char *path, const file_reading *how,
                               file_owner *owner, tn_error *error) {
    size_t room = 0;
    int waited_ms = 0;
    tn_status status = TN_OK;
    while (status == TN_OK) {
        if (!file_make_room(owner, &room)) {
            status = tn__no_memory(error, path);
            break;
        }
        /* one byte above the limit shows that the file is too large */
        uint64_t left = how->most - owner->size;
        size_t step = room - owner->size <= left ? room - owner->size : (size_t)left + 1;
        ssize_t count = read(descriptor, (char *)owner->bytes + owner->size, step);
        bool zero = how->text && count > 0 &&
                    memchr((char *)owner->bytes + owner->size, 0, (size_t)count) != NULL;
        if (count > 0) owner->size += (size_t)count;
        if (count > 0) waited_ms = 0;
        if (zero) {
            status = tn__fail(error, TN_E_INVALID, "it has a zero byte, so it is no text");
            status = tn__where(error, status, "%s", path);
        } else if (owner->size > how->most) {
            status = file_refuse_length(path, how->most, error);
        } else if (count == 0 && how->pipe && owner->size == 0) {
            if (file_await(descriptor, &waited_ms)) continue;
            status = file_refuse(path, "nobody writes into this pipe", error);
        } else if (count == 0) {
            return TN_OK;
        } else if (count < 0 && errno == EAGAIN) {
            status = file_wait(descriptor, path, how->pipe, &waited_ms, error);
        } else if (count < 0 && errno != EINTR) {
            status = file_fail(error, path, "read");
        }
    }
    free(owner->bytes);
    *owner = (file_owner){0};
    return status;
}

static tn_status file_open(const char *path, int descriptor, file_reading how, file_owner *owner,
                           tn_error *error) {
    struct stat facts;
    if (fstat(descriptor, &facts) != 0) return file_fail(error, path, "look at it");
    if (S_ISDIR(facts.st_mode)) {
        errno = EISDIR;
        return file_fail(error, path, "read");
    }
    if (S_ISREG(facts.st_mode) && facts.st_size > 0) {
        owner->size = (size_t)facts.st_size;
        owner->bytes = mmap(NULL, owner->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        owner->mapped = owner->bytes != MAP_FAILED;
        if (owner->mapped) return TN_OK;
        *owner = (file_owner){0};
    }
    bool device = S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode);
    if (how.most == 0) how.most = device ? TN__FILE_DEVICE_MOST : TN__FILE_READ_MOST;
    how.pipe = S_ISFIFO(facts.st_mode) && descriptor != STDIN_FILENO;
    return file_read_all(descriptor, path, &how, owner, error);
}

/* Maps the file of an open descriptor, and closes the descriptor unless it is standard input.
 * `path` is the name of the file in errors. */
static tn_status file_map(const char *path, int descriptor, file_reading how, tn__file *file,
                          tn_error *error) {
    file_owner found = {0};
    tn_status status = file_open(path, descriptor, how, &found, error);
    if (descriptor != STDIN_FILENO) close(descriptor);
    if (status != TN_OK) return status;
    file_owner *owner = malloc(sizeof *owner);
    *file = (tn__file){.bytes = found.bytes, .size = found.size, .owner = owner};
    if (owner != NULL) {
        *owner = found;
        if (found.mapped && descriptor != STDIN_FILENO) owner->path = strdup(path); /* benign */
        return TN_OK;
    }
    if (found.mapped)
        munmap(found.bytes, found.size);
    else
        free(found.bytes);
    *file = (tn__file){0};
    return tn__no_memory(error, path);
}

tn_status tn__file_map_beneath(const char *beside, const char *name, bool follow_links,
                               tn__file *file, tn_error *error) {
    const char *slash = strrchr(beside, '/');
    int folder = slash != NULL ? (int)(slash - beside) + 1 : 0;
    size_t room = (size_t)folder + strlen(name) + 3;
    char *path = malloc(room);
    if (path == NULL) return tn__no_memory(error, "a path");
    bool looks_standard = slash == NULL && file_is_standard(name);
    snprintf(path, room, "%.*s%s%s", folder, beside, looks_standard ? "./" : "", name);
    int descriptor =
        tn__open_beneath(beside, name, follow_links, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    tn_status status;
    if (descriptor >= 0)
        status = file_map(path, descriptor, (file_reading){0}, file, error);
    else
        status = errno == EXDEV ? tn__outside(beside, name, error) : file_fail(error, path, "open");
    free(path);
    return status;
}

static tn_status file_map_path(const char *path, file_reading how, tn__file *file,
                               tn_error *error) {
    bool standard = file_is_standard(path);
    int descriptor = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return file_fail(error, path, "open");
    return file_map(path, descriptor, how, file, error);
}

tn_status tn__file_map(const char *path, tn__file *file, tn_error *error) {
    return file_map_path(path, (file_reading){0}, file, error);
}

tn_status tn__file_map_most(const char *path, uint64_t most, tn__file *file, tn_error *error) {
    return file_map_path(path, (file_reading){.most = most}, file, error);
}

tn_status tn__file_map_text(const char *path, uint64_t most, tn__file *file, tn_error *error) {
    return file_map_path(path, (file_reading){.most = most, .text = true}, file, error);
}

void tn__file_unmap(tn__file *file) {
    file_owner *owner = file->owner;
    if (owner == NULL) return;
    if (owner->mapped)
        munmap(owner->bytes, owner->size);
    else
        free(owner->bytes);
    free(owner->path);
    free(owner);
    *file = (tn__file){0};
}

bool tn__file_where(const tn__file *file, const void *bytes, uint64_t size, const char **path,
                    uint64_t *offset) {
    const file_owner *owner = file->owner;
    const uint8_t *at = bytes;
    if (owner == NULL || owner->path == NULL || at < file->bytes) return false;
    uint64_t from = (uint64_t)(at - file->bytes);
    if (from > file->size || size > file->size - from) return false;
    *path = owner->path;
    *offset = from;
    return true;
}

static bool file_write_all(int descriptor, const char *bytes, size_t size) {
    while (size != 0) {
        ssize_t count = write(descriptor, bytes, size);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return false;
        bytes += count;
        size -= (size_t)count;
    }
    return true;
}

static tn_status file_write_through(const char *path, const void *bytes, size_t size,
                                    tn_error *error) {
    bool standard = file_is_standard(path);
    int descriptor = standard ? STDOUT_FILENO : open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return file_fail(error, path, "open for writing");
    bool written = file_write_all(descriptor, bytes, size);
    tn_status status = written ? TN_OK : file_fail(error, path, "write");
    if (!standard) close(descriptor);
    return status;
}

/* Writes the bytes to a new file and renames it to `path`. `replaced`: permissions of the existing
 * file at `path`; 0 if there is no such file. */
static tn_status file_write_part(const char *path, mode_t replaced, const void *bytes, size_t size,
                                 tn_error *error) {
    tn__new_file part;
    if (!tn__new_file_open(&part, path))
        return file_fail(error, path, "create a file in its folder");
    bool written = file_write_all(part.descriptor, bytes, size) &&
                   (replaced == 0 || fchmod(part.descriptor, replaced) == 0) &&
                   fsync(part.descriptor) == 0;
    if (!written) {
        tn_status status = file_fail(error, path, "write");
        tn__new_file_drop(&part);
        return status;
    }
    return tn__new_file_keep(&part, true) ? TN_OK : file_fail(error, path, "rename onto it");
}

/* Writes to a path that may be a symbolic link: the link remains, and its target, which need not
 * exist yet, is written. */
static tn_status file_write_target(const char *path, mode_t replaced, const void *bytes,
                                   size_t size, tn_error *error) {
    char *target = realpath(path, NULL);
    if (target == NULL && errno != ENOENT) return file_fail(error, path, "follow the link");
    if (target == NULL) { /* no file exists that a failure could damage */
        int descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (descriptor < 0) return file_fail(error, path, "open for writing");
        close(descriptor);
        target = realpath(path, NULL);
        if (target == NULL) return file_fail(error, path, "follow the link");
    }
    tn_status status = file_write_part(target, replaced, bytes, size, error);
    free(target);
    return status;
}

tn_status tn__file_write(const char *path, const void *bytes, size_t size, tn_error *error) {
    struct stat facts, link;
    bool standard = file_is_standard(path);
    bool exists = !standard && stat(path, &facts) == 0;
    mode_t mode = exists ? facts.st_mode & 07777 : 0;
    if (standard || (exists && !S_ISREG(facts.st_mode)))
        return file_write_through(path, bytes, size, error);
    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
        return file_write_target(path, mode, bytes, size, error);
    return file_write_part(path, mode, bytes, size, error);
}

tn_status tn__file_write_new(const char *path, uint32_t mode, const void *bytes, size_t size,
                             tn_error *error) {
    return file_write_part(path, (mode_t)mode & 07777, bytes, size, error);
}

uint32_t tn__file_mode(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 ? (uint32_t)facts.st_mode & 07777 : 0;
}

bool tn__has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), end = strlen(suffix);
    return length >= end && strcasecmp(path + length - end, suffix) == 0;
}
