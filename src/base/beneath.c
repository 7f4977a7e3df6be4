/* beneath.c - opens a file that another file names, but no file outside of that file's folder.
 *
 * A model, an index of shards or a checkpoint names other files. Such a name is not trusted:
 * through a symbolic link it could point to any file that the user may read. Linux resolves a name
 * with openat2 and RESOLVE_BENEATH, which fails if a component would leave the folder. Kernels
 * before 5.6, and some sandboxes, have no openat2. Then the name is resolved here, component by
 * component, and a symbolic link is followed only if its target stays beneath the folder.
 *
 * The folder itself comes from the path that the user gave, so symbolic links in it are followed.
 * Cost: one system call, or a few for each component.
 */
#define _GNU_SOURCE /* O_PATH */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
/* musl has the number of the system call, but not the header. */
#ifdef SYS_openat2
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#define BENEATH_OPENAT2
#endif
#endif

#define BENEATH_DEPTH 64 /* limit for the number of folders in a name */
#define BENEATH_LINKS 40 /* limit for the number of symbolic links, as in the kernel */

/* Opens the folder that contains `path`. Returns its descriptor, or -1 and errno. */
static int beneath_folder(const char *path) {
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    if (length >= sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (length > 0) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* --- resolving a name component by component --- */

typedef struct beneath_walk {
    /* the open folders of the components so far; the first one belongs to the caller */
    int folders[BENEATH_DEPTH];
    int depth, links;
    char rest[PATH_MAX]; /* the components that are not resolved yet */
} beneath_walk;

static int beneath_fail(int reason) {
    errno = reason;
    return -1;
}

/* Removes the first component from the components that are not resolved yet. Returns false if it is
 * longer than NAME_MAX. */
static bool beneath_take(beneath_walk *walk, char component[NAME_MAX + 1]) {
    const char *at = walk->rest + strspn(walk->rest, "/");
    size_t length = strcspn(at, "/");
    if (length > NAME_MAX) return false;
    memcpy(component, at, length);
    component[length] = '\0';
    at += length;
    at += strspn(at, "/");
    memmove(walk->rest, at, strlen(at) + 1);
    return true;
}

/* Puts the target of a symbolic link in front of the components that are not resolved yet. Returns
 * -1 and sets errno on failure. */
static int beneath_link(beneath_walk *walk, int link) {
    char target[PATH_MAX], joined[PATH_MAX];
    ssize_t length = readlinkat(link, "", target, sizeof target - 1);
    if (length < 0) return -1;
    target[length] = '\0';
    if (target[0] == '/') return beneath_fail(EXDEV);
    if (++walk->links > BENEATH_LINKS) return beneath_fail(ELOOP);
    int size = snprintf(joined, sizeof joined, "%s%s%s", target, walk->rest[0] != '\0' ? "/" : "",
                        walk->rest);
    if (size < 0 || (size_t)size >= sizeof joined) return beneath_fail(ENAMETOOLONG);
    memcpy(walk->rest, joined, (size_t)size + 1);
    return 0;
}

static int beneath_up(beneath_walk *walk) {
    if (walk->depth == 0) return beneath_fail(EXDEV);
    close(walk->folders[walk->depth--]);
    return 0;
}

/* Resolves one component. Returns true at the end of the walk; *opened is then the result, a
 * descriptor, or -1 on failure. */
static bool beneath_step(beneath_walk *walk, int flags, int *opened) {
    char component[NAME_MAX + 1];
    struct stat facts;
    int at = walk->folders[walk->depth];
    *opened = -1;
    if (!beneath_take(walk, component)) {
        errno = ENAMETOOLONG;
        return true;
    }
    if (component[0] == '\0' || strcmp(component, ".") == 0) return false;
    if (strcmp(component, "..") == 0) return beneath_up(walk) != 0;
    bool last = walk->rest[0] == '\0';
    int found = openat(at, component, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (found < 0 || fstat(found, &facts) != 0) {
        if (found >= 0) close(found);
        return true;
    }
    if (S_ISLNK(facts.st_mode)) {
        bool failed = beneath_link(walk, found) != 0;
        int reason = errno;
        close(found);
        errno = reason;
        return failed;
    }
    if (!last) {
        bool folder = S_ISDIR(facts.st_mode);
        if (!folder || walk->depth + 1 == BENEATH_DEPTH) {
            close(found);
            errno = folder ? ENAMETOOLONG : ENOTDIR;
            return true;
        }
        walk->folders[++walk->depth] = found;
        return false;
    }
    close(found);
    *opened = openat(at, component, flags | O_NOFOLLOW);
    return true;
}

int tn__open_walk(int folder, const char *name, int flags) {
    beneath_walk walk = {.folders = {folder}};
    int opened = -1;
    if (name[0] == '/') return beneath_fail(EXDEV);
    if (strlen(name) >= sizeof walk.rest) return beneath_fail(ENAMETOOLONG);
    size_t length = strlen(name);
    memcpy(walk.rest, name, length + 1);
    if (length > 0 && name[length - 1] == '/') flags |= O_DIRECTORY;
    bool ended = false;
    while (!ended && walk.rest[0] != '\0') ended = beneath_step(&walk, flags, &opened);
    int reason = ended ? errno : EISDIR;
    while (walk.depth > 0) close(walk.folders[walk.depth--]);
    errno = reason;
    return opened;
}

/* --- either --- */

static int beneath_open(int folder, const char *name, int flags) {
#ifdef BENEATH_OPENAT2
    struct open_how how = {.flags = (unsigned)flags,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long opened = syscall(SYS_openat2, folder, name, &how, sizeof how);
    if (opened >= 0 || (errno != ENOSYS && errno != EPERM && errno != EAGAIN)) return (int)opened;
#endif
    return tn__open_walk(folder, name, flags);
}

int tn__open_beneath(const char *beside, const char *name, bool follow_links, int flags,
                     mode_t mode) {
    int folder = beneath_folder(beside);
    if (folder < 0) return -1;
    int as_it_is = flags & ~O_CREAT;
    int opened =
        follow_links ? openat(folder, name, as_it_is) : beneath_open(folder, name, as_it_is);
    if (opened < 0 && errno == ENOENT && (flags & O_CREAT) != 0 && strchr(name, '/') == NULL)
        opened = openat(folder, name, flags | O_EXCL | O_NOFOLLOW, mode);
    int reason = errno;
    close(folder);
    errno = reason;
    return opened;
}

const char *tn__base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

tn_status tn__outside(const char *beside, const char *name, tn_error *error) {
    TN_FAIL(error, TN_E_OUTSIDE,
            "'%.120s' leads through a symbolic link out of the folder of '%.120s', and such links "
            "are not followed; put the file itself there",
            name, beside);
}
