/* fuzz_paths.c - any bytes as the name of a file in another file.
 *
 * The folder has links of every kind: to a file and a folder in it, to one outside, absolute, in a
 * circle. What must hold: the system's way (openat2) and the walk both open the same file, or
 * neither opens one; and what is opened lies beneath the folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "base/base.h"

static char paths_top[] = "/tmp/tenure-fuzz-XXXXXX";
static char paths_in[40], paths_model[64];
static int paths_folder;

static void paths_leave(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", paths_top);
    if (system(command) != 0) fputs("the folder stays\n", stderr);
}

static void paths_begin(void) {
    static const char *const links[][2] = {{"../s", "o"}, {"/", "r"}, {"f", "l"},      {"d", "e"},
                                           {"..", "d/u"}, {"t", "t"}, {"../..", "d/w"}};
    fuzz_must(mkdtemp(paths_top) != NULL);
    atexit(paths_leave);
    snprintf(paths_in, sizeof paths_in, "%s/in", paths_top);
    snprintf(paths_model, sizeof paths_model, "%s/m", paths_in);
    fuzz_must(mkdir(paths_in, 0700) == 0);
    paths_folder = open(paths_in, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fuzz_must(paths_folder >= 0 && mkdirat(paths_folder, "d", 0700) == 0);
    static const char *const files[] = {"../s", "f", "d/f", "m"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        close(openat(paths_folder, files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        fuzz_must(symlinkat(links[i][0], paths_folder, links[i][1]) == 0);
}

/* Where an open file is, beneath the folder or it itself; closes it. */
static void paths_look(int file, struct stat *facts) {
    char link[64], where[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, where, sizeof where - 1);
    fuzz_must(length > 0 && fstat(file, facts) == 0);
    where[length] = '\0';
    size_t in = strlen(paths_in);
    fuzz_must(strncmp(where, paths_in, in) == 0 && (where[in] == '/' || where[in] == '\0'));
    close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool there;
    char name[PATH_MAX + 64];
    struct stat one, other;
    if (!there) paths_begin();
    there = true;
    if (size >= sizeof name) return 0;
    memcpy(name, data, size);
    name[size] = '\0';
    int by_system = tn__open_beneath(paths_model, name, false, O_RDONLY | O_NONBLOCK, 0);
    int by_walk = tn__open_walk(paths_folder, name, O_RDONLY | O_NONBLOCK);
    if (by_system >= 0) paths_look(by_system, &one);
    if (by_walk >= 0) paths_look(by_walk, &other);
    if (by_system >= 0 && by_walk >= 0) {
        fuzz_accept();
        fuzz_must(one.st_ino == other.st_ino);
    } else if ((by_system >= 0) != (by_walk >= 0)) {
        /* a folder alone may be open to one of them */
        fuzz_must(S_ISDIR((by_system >= 0 ? &one : &other)->st_mode));
    }
    return 0;
}
