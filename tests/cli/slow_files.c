/* slow_files.c - a library for LD_PRELOAD: a file system without O_TMPFILE, on a slow disk. So a
 * test can wait for the unfinished file, and send a signal while it is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

static int slow_open(const char *name, const char *path, int flags, mode_t mode) {
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return real(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return slow_open("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return slow_open("open64", path, flags, mode);
}

int fsync(int descriptor) {
    (void)descriptor;
    nanosleep(&(struct timespec){.tv_sec = 5}, NULL);
    return 0;
}
