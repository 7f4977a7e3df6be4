/* trace.c - rows gather in a static buffer and are written when it is full: no memory is asked for,
 * and a process that is killed leaves whole rows. */
#include "preload/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRACE_ROW_MAX = 96, TRACE_FILE = 512 };
static struct trace {
    int file;          /* none: not open, or it cannot be */
    struct stat which; /* the program may close our number and open something else by it */
    const char *path;  /* until it is opened, at the first row */
    size_t used;
    char rows[64 << 10];
} trace = {.file = -1};

/* Whether the file is ours still; else it is left alone. */
static bool trace_is_ours(void) {
    struct stat now;
    if (trace.file >= 0 && fstat(trace.file, &now) == 0 && now.st_dev == trace.which.st_dev &&
        now.st_ino == trace.which.st_ino)
        return true;
    trace.file = -1;
    trace.used = 0;
    return false;
}

static void trace_flush(void) {
    if (!trace_is_ours()) return;
    for (size_t done = 0; done < trace.used;) {
        ssize_t wrote = write(trace.file, trace.rows + done, trace.used - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) break;
        done += (size_t)wrote;
    }
    trace.used = 0;
}

/* The path with "%p" as our number. */
static void trace_name(const char *path, char *name, size_t room) {
    const char *mark = strstr(path, "%p");
    int before = mark != NULL ? (int)(mark - path) : (int)strlen(path);
    if (mark != NULL)
        snprintf(name, room, "%.*s%ld%s", before, path, (long)getpid(), mark + 2);
    else
        snprintf(name, room, "%s", path);
}

/* Open and locked; -1: another process has it, or it cannot be written. */
static int trace_claim(const char *name) {
    int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return file;
    if (flock(file, LOCK_EX | LOCK_NB) != 0 || (ftruncate(file, 0) != 0 && errno != EINVAL) ||
        fstat(file, &trace.which) != 0) {
        close(file);
        return -1;
    }
    int high = fcntl(file, F_DUPFD_CLOEXEC, TRACE_FILE); /* away from the numbers that shells use */
    if (high < 0) return file;
    close(file);
    return high;
}

/* At the first row, so that a process without large blocks (a shell, env) leaves no file. */
static void trace_begin(void) {
    static const char header[] = "action,id,size,alignment\n";
    static char name[4096], other[4096 + 24]; /* stacks of threads may be small; we are locked */
    trace_name(trace.path, name, sizeof name);
    trace.path = NULL;
    trace.file = trace_claim(name);
    snprintf(other, sizeof other, "%s.%ld", name, (long)getpid());
    if (trace.file < 0) trace.file = trace_claim(other);
    if (trace.file < 0) fprintf(stderr, "tenure: TENURE_TRACE: %s cannot be written\n", name);
    memcpy(trace.rows, header, sizeof header - 1);
    trace.used = sizeof header - 1;
}

void tn__trace_open(const char *path) {
    if (path != NULL && path[0] != '\0') trace.path = path;
}

static void trace_row(const char *action, uint64_t name, size_t size, size_t alignment) {
    if (trace.path != NULL) trace_begin();
    if (trace.file < 0) return;
    if (sizeof trace.rows - trace.used < TRACE_ROW_MAX) trace_flush();
    char *row = trace.rows + trace.used;
    int length = size == 0 ? snprintf(row, TRACE_ROW_MAX, "%s,%" PRIu64 ",,\n", action, name)
                           : snprintf(row, TRACE_ROW_MAX, "%s,%" PRIu64 ",%zu,%zu\n", action, name,
                                      size, alignment);
    trace.used += (size_t)length;
}

void tn__trace_alloc(uint64_t name, size_t size, size_t alignment) {
    trace_row("alloc", name, size, alignment);
}

void tn__trace_free(uint64_t name) { trace_row("free", name, 0, 0); }

void tn__trace_close(void) {
    trace.path = NULL;
    if (trace.file < 0) return;
    trace_flush();
    if (trace.file >= 0) close(trace.file);
    trace.file = -1;
}

void tn__trace_leave(void) {
    trace.path = NULL;
    if (trace_is_ours()) close(trace.file);
    trace.file = -1;
    trace.used = 0;
}
