/* new_file.c - writes files that get their name only when they are complete.
 *
 * If the file system supports it (O_TMPFILE), the file has no name until then, so nothing is left
 * if the process ends. Otherwise, and for the moment in which a file replaces another one, its name
 * is "<path>.<process>-<try>.part". A table has these names, so that a signal handler can remove
 * the files (tn__new_file_abandon). A process that is killed (SIGKILL) leaves its file.
 * tn__new_file_sweep removes it after the process has ended, if no other process has a lock on the
 * file. The lock is for processes on another machine or in another container, where the number of
 * the process means nothing.
 *
 * The table is global because a signal handler has no argument. A name is entered before the file
 * is created, and cleared after the file is gone.
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_TRIES 100
/* limit for the number of unfinished files at one time that a signal handler can remove */
#define PART_NAMES 64

typedef struct part_name {
    atomic_int state; /* PART_FREE; PART_TAKEN: the name is being written; PART_NAMED */
    char path[PATH_MAX];
} part_name;
enum { PART_FREE, PART_TAKEN, PART_NAMED };

static part_name part_names[PART_NAMES];

static int part_name_take(const char *path) {
    size_t length = strlen(path) + 1;
    if (length > PATH_MAX) return -1;
    for (int i = 0; i < PART_NAMES; i++) {
        int is_free = PART_FREE;
        if (!atomic_compare_exchange_strong(&part_names[i].state, &is_free, PART_TAKEN)) continue;
        memcpy(part_names[i].path, path, length);
        atomic_store(&part_names[i].state, PART_NAMED);
        return i;
    }
    return -1;
}

static void part_name_free(int slot) {
    if (slot >= 0) atomic_store(&part_names[slot].state, PART_FREE);
}

void tn__new_file_abandon(void) {
    int reason = errno;
    for (int i = 0; i < PART_NAMES; i++)
        if (atomic_load(&part_names[i].state) == PART_NAMED) (void)unlink(part_names[i].path);
    errno = reason;
}

/* --- creating an unfinished file --- */

static int part_open_nameless(const char *path) {
#ifdef O_TMPFILE
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    if (length >= sizeof folder) return -1;
    if (length > 0) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
#else
    (void)path;
    return -1;
#endif
}

/* Finds the next unused temporary name of this process. Links the file `from` to that name; if
 * `from` is NULL, creates a file with that name instead and opens it. */
static bool part_name_it(tn__new_file *part, const char *from) {
    for (int attempt = 0; attempt < PART_TRIES; attempt++) {
        snprintf(part->beside, part->room, "%s.%ld-%d.part", part->path, (long)getpid(), attempt);
        struct stat facts;
        /* a file with this name may belong to another process */
        if (lstat(part->beside, &facts) == 0) continue;
        part->slot = part_name_take(part->beside);
        bool made;
        if (from != NULL) {
            made = linkat(AT_FDCWD, from, AT_FDCWD, part->beside, AT_SYMLINK_FOLLOW) == 0;
        } else {
            part->descriptor = open(part->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            made = part->descriptor >= 0;
        }
        if (made) {
            part->named = true;
            return true;
        }
        part_name_free(part->slot);
        part->slot = -1;
        if (errno != EEXIST) return false;
    }
    return false;
}

bool tn__new_file_open(tn__new_file *part, const char *path) {
    *part = (tn__new_file){.descriptor = -1, .slot = -1, .path = path, .room = strlen(path) + 48};
    part->beside = malloc(part->room);
    if (part->beside == NULL) return false;
    part->descriptor = part_open_nameless(path);
    if (part->descriptor < 0 && !part_name_it(part, NULL)) {
        int reason = errno;
        free(part->beside);
        part->beside = NULL;
        errno = reason;
        return false;
    }
    /* locks the file for tn__new_file_sweep; a failure does no harm */
    (void)flock(part->descriptor, LOCK_EX | LOCK_NB);
    return true;
}

/* --- giving a file its final name, or removing it --- */

/* Links a file without a name to its final name, and returns true. If another file has that name
 * and `replace` is set, gives the file a temporary name instead and returns false. */
static bool part_link(tn__new_file *part, bool replace, bool *failed) {
    char self[64];
    *failed = false;
    if (part->named) return false;
    snprintf(self, sizeof self, "/proc/self/fd/%d", part->descriptor);
    if (linkat(AT_FDCWD, self, AT_FDCWD, part->path, AT_SYMLINK_FOLLOW) == 0) return true;
    *failed = errno != EEXIST || !replace || !part_name_it(part, self);
    return false;
}

bool tn__new_file_keep(tn__new_file *part, bool replace) {
    bool failed, kept = part_link(part, replace, &failed);
    if (!kept && !failed && replace) {
        kept = rename(part->beside, part->path) == 0;
    } else if (!kept && !failed) {
        kept = link(part->beside, part->path) == 0;
        if (kept)
            (void)unlink(part->beside);
        else if (errno == EPERM || errno == EOPNOTSUPP) /* without hard links, renames the file */
            kept = rename(part->beside, part->path) == 0;
    }
    if (kept) {
        part_name_free(part->slot);
        part->slot = -1;
        part->named = false;
    }
    int reason = errno;
    tn__new_file_drop(part);
    errno = reason;
    return kept;
}

void tn__new_file_drop(tn__new_file *part) {
    if (part->named) (void)unlink(part->beside);
    part_name_free(part->slot);
    if (part->descriptor >= 0) close(part->descriptor);
    free(part->beside);
    *part = (tn__new_file){.descriptor = -1, .slot = -1};
}

/* --- files of ended processes --- */

/* Returns the process in a name of the form "<base>.<process>-<try>.part"; 0 if the name has
 * another form. */
static long part_process(const char *name, const char *base) {
    size_t length = strlen(base);
    long process = 0;
    int attempt, end = 0;
    if (strncmp(name, base, length) != 0 || name[length] != '.') return 0;
    if (sscanf(name + length, ".%9ld-%9d.part%n", &process, &attempt, &end) != 2) return 0;
    return end > 0 && name[length + (size_t)end] == '\0' && process > 0 ? process : 0;
}

static bool part_is_dead(int folder, const char *name, long process) {
    if (kill((pid_t)process, 0) == 0 || errno != ESRCH) return false;
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return false;
    bool dead = flock(file, LOCK_EX | LOCK_NB) == 0;
    close(file);
    return dead;
}

void tn__new_file_sweep(const char *path) {
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    size_t length = (size_t)(base - path);
    if (length >= sizeof folder) return;
    if (length > 0) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    DIR *list = opendir(folder);
    if (list == NULL) return;
    for (struct dirent *at = readdir(list); at != NULL; at = readdir(list)) {
        long process = part_process(at->d_name, base);
        if (process > 0 && part_is_dead(dirfd(list), at->d_name, process))
            (void)unlinkat(dirfd(list), at->d_name, 0);
    }
    closedir(list);
}
