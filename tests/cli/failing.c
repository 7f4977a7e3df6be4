/* failing.c - a library for LD_PRELOAD that runs a program again and again, each time with another
 * allocation that fails.
 *
 * The constructor forks before main: the child runs the program, and its n-th allocation fails,
 * once or with all that follow. The parent judges how the child ends: it must end by itself, with
 * the exit status of no memory (4), or as it does without a failure; never by a signal. One line
 * tells of each kind of wrong end, the last line how many allocations were made to fail.
 *
 *     FAIL_TELL=FILE FAIL_STRIDE=1 LD_PRELOAD=libcli_failing.so tenure plan model.onnx
 *
 * FAIL_INPUT: a file of at most 60 KiB that comes through a pipe as standard input.
 * FAIL_REMOVE: a file that is removed before each run. FAIL_STRIDE and FAIL_FIRST: every so many-th
 * allocation, from that one on. FAIL_AT=N and FAIL_ON=0|1: this one alone, in the program itself,
 * for a debugger.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size);

static atomic_ulong failing_count;
static unsigned long failing_at; /* 0: none fails */
static bool failing_on, *failing_reached;

static bool failing_now(void) {
    unsigned long count = atomic_fetch_add(&failing_count, 1) + 1;
    if (failing_at == 0 || count < failing_at || (count > failing_at && !failing_on)) return false;
    if (failing_reached != NULL) *failing_reached = true;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size) { return failing_now() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) {
    return failing_now() ? NULL : __libc_calloc(count, size);
}
void *realloc(void *pointer, size_t size) {
    return failing_now() ? NULL : __libc_realloc(pointer, size);
}
void *memalign(size_t alignment, size_t size) {
    return failing_now() ? NULL : __libc_memalign(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **pointer, size_t alignment, size_t size) {
    void *made = memalign(alignment, size);
    if (made == NULL) return ENOMEM;
    *pointer = made;
    return 0;
}

/* --- the runs --- */

static unsigned long failing_setting(const char *name, unsigned long otherwise) {
    const char *value = getenv(name);
    return value != NULL ? strtoul(value, NULL, 10) : otherwise;
}

static void failing_give(void) {
    static char bytes[60 << 10];
    const char *path = getenv("FAIL_INPUT");
    int ends[2], file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0 || pipe(ends) != 0) return;
    ssize_t size = read(file, bytes, sizeof bytes); /* a pipe holds 64 KiB */
    if (size < 0 || write(ends[1], bytes, (size_t)size) != size) _exit(99);
    close(ends[1]);
    close(file);
    dup2(ends[0], STDIN_FILENO);
}

/* Runs the program in a child; in the child it returns false. */
static bool failing_run(unsigned long at, bool on, int words, int *status) {
    const char *made = getenv("FAIL_REMOVE");
    *failing_reached = false;
    if (made != NULL) (void)unlink(made);
    (void)ftruncate(words, 0);
    pid_t child = fork();
    if (child == 0) {
        lseek(words, 0, SEEK_SET);
        dup2(words, STDERR_FILENO);
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDIN_FILENO);
        failing_give();
        dup2(null, STDOUT_FILENO);
        failing_count = 0;
        failing_at = at;
        failing_on = on;
        alarm(60);
        return false;
    }
    while (waitpid(child, status, 0) < 0 && errno == EINTR) continue;
    return true;
}

static void failing_tell(int tell, unsigned long at, bool on, int status, int words) {
    char first[160];
    ssize_t size = pread(words, first, sizeof first - 1, 0);
    first[size > 0 ? size : 0] = '\0';
    first[strcspn(first, "\n")] = '\0';
    dprintf(tell, "allocation %lu fails%s: %s %d: %s\n", at, on ? ", and all that follow" : "",
            WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), first);
}

/* The dynamic loader (127) and libgomp (1) end the process by themselves, and cannot be asked not
 * to: SECURITY.md says so. */
static bool failing_is_elsewhere(int status, int words) {
    char text[512];
    ssize_t size = pread(words, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    if (!WIFEXITED(status)) return false;
    return WEXITSTATUS(status) == 127 ||
           (WEXITSTATUS(status) == 1 && strstr(text, "libgomp: ") != NULL);
}

__attribute__((constructor)) static void failing_begin(void) {
    const char *path = getenv("FAIL_TELL");
    unsigned long stride = failing_setting("FAIL_STRIDE", 1), tried = 0, bad = 0, others = 0;
    int plain, status;
    if (path == NULL) {
        failing_at = failing_setting("FAIL_AT", 0);
        failing_on = failing_setting("FAIL_ON", 0) != 0;
        failing_count = 0;
        return;
    }
    int tell = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    unsetenv("LD_PRELOAD");
    int words = memfd_create("words", MFD_CLOEXEC);
    failing_reached =
        mmap(NULL, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tell < 0 || words < 0 || failing_reached == MAP_FAILED) _exit(99);
    if (!failing_run(0, false, words, &plain)) return;
    for (unsigned long at = failing_setting("FAIL_FIRST", 1); bad < 50; at += stride) {
        bool reached = false;
        for (int on = 0; on < 2; on++) {
            if (!failing_run(at, on, words, &status)) return;
            if (!*failing_reached) continue;
            reached = true;
            tried++;
            bool elsewhere = failing_is_elsewhere(status, words);
            bool good = status == plain || (WIFEXITED(status) && WEXITSTATUS(status) == 4);
            others += elsewhere;
            good = good || elsewhere;
            bad += !good;
            if (!good) failing_tell(tell, at, on, status, words);
        }
        if (!reached) break;
    }
    dprintf(tell, "%lu tried, %lu wrong, %lu ended by the loader or libgomp, status %d without\n",
            tried, bad, others, WIFEXITED(plain) ? WEXITSTATUS(plain) : -1);
    _exit(bad != 0);
}
