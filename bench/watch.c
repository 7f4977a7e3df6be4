/* watch.c - what a published table of holders costs the program that is watched.
 *
 *     watch build/libtenure_preload.so
 *
 * A loop of 200 large blocks of different sizes, as of a training step, asks malloc and free. The
 * program runs itself under the library, in turn without and with TENURE_WATCH=1, nine times each;
 * the table has the medians and their ratio. The blocks are not written, so a request costs its
 * bookkeeping alone, and the ratio is an upper bound for programs that use their memory. The
 * second row has all sizes equal, the third writes each page of its blocks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 200, TURNS = 3000, ROUNDS = 9, PAGE = 4096 };

/* Processor time, so that other programs of the machine do not count. */
static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Prints the nanoseconds of a request of one case. */
static int run_case(const char *name) {
    void *blocks[BLOCKS];
    size_t sizes[BLOCKS];
    int turns = strcmp(name, "written") == 0 ? TURNS / 10 : TURNS;
    for (size_t i = 0; i < BLOCKS; i++)
        sizes[i] = strcmp(name, "equal") == 0 ? 256u << 10 : ((i * 7919) % 199 + 17) * PAGE;
    double begun = 0;
    for (int turn = -turns / 10; turn < turns; turn++) { /* the first tenth is not timed */
        if (turn == 0) begun = now_s();
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(sizes[i]);
            if (blocks[i] == NULL) return 1;
            for (size_t at = 0; name[0] == 'w' && at < sizes[i]; at += PAGE)
                ((volatile char *)blocks[i])[at] = 1;
        }
        for (size_t i = BLOCKS; i-- > 0;) free(blocks[i]);
    }
    printf("%.3f\n", (now_s() - begun) * 1e9 / ((double)turns * 2 * BLOCKS));
    return 0;
}

static double measure(const char *self, const char *library, const char *name, const char *watch) {
    int ends[2];
    double ns = 0;
    char text[64] = "";
    if (pipe(ends) != 0) exit(2);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        setenv("LD_PRELOAD", library, 1);
        setenv("TENURE_WATCH", watch, 1);
        execl(self, self, "--case", name, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], text, sizeof text - 1) <= 0 || (ns = atof(text)) <= 0) exit(2);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return ns;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words) {
    static const char *const cases[] = {"different", "equal", "written"};
    if (count == 3 && strcmp(words[1], "--case") == 0) return run_case(words[2]);
    if (count != 2) return fprintf(stderr, "watch LIBRARY\n"), 2;
    printf("| blocks | ns per request | with TENURE_WATCH=1 | ratio |\n|---|---|---|---|\n");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double off[ROUNDS], on[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) {
            off[i] = measure("/proc/self/exe", words[1], cases[c], "0");
            on[i] = measure("/proc/self/exe", words[1], cases[c], "1");
        }
        qsort(off, ROUNDS, sizeof *off, by_value);
        qsort(on, ROUNDS, sizeof *on, by_value);
        printf("| %s | %.1f | %.1f | %.2f |\n", cases[c], off[ROUNDS / 2], on[ROUNDS / 2],
               on[ROUNDS / 2] / off[ROUNDS / 2]);
        fflush(stdout);
    }
    return 0;
}
