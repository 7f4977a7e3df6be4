/* family.c - a program that knows nothing of Tenure, asks for memory in every way there is, and
 * watches its bytes. tests/preload/preload.py runs it with and without the library.
 *
 *     family CASE
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

enum { BIG = 300 << 10 };

static void fill(void *block, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i += 61) ((unsigned char *)block)[i] = (unsigned char)(seed + i);
}

static int holds(const void *block, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i += 61)
        if (((const unsigned char *)block)[i] != (unsigned char)(seed + i)) return 0;
    return 1;
}

static void ways(void) {
    void *pointer = NULL;
    for (size_t alignment = 8; alignment <= 1 << 30; alignment *= 2) {
        must(posix_memalign(&pointer, alignment, BIG) == 0 && (uintptr_t)pointer % alignment == 0);
        must(malloc_usable_size(pointer) >= BIG);
        fill(pointer, BIG, 1);
        free(pointer);
        pointer = aligned_alloc(alignment, 2 << 21);
        must(pointer != NULL && (uintptr_t)pointer % alignment == 0);
        free(pointer);
        pointer = memalign(alignment, BIG + 1);
        must(pointer != NULL && (uintptr_t)pointer % alignment == 0);
        free(pointer);
    }
    void *kept = pointer = &failures;
    must(posix_memalign(&pointer, 3, BIG) == EINVAL && pointer == kept);
    must(posix_memalign(&pointer, 4, BIG) == EINVAL && pointer == kept);
    pointer = valloc(BIG);
    must((uintptr_t)pointer % 4096 == 0);
    free(pointer);
    pointer = pvalloc(BIG + 1);
    must((uintptr_t)pointer % 4096 == 0 && malloc_usable_size(pointer) >= BIG + 4096);
    free(pointer);
    volatile size_t far = SIZE_MAX / 2;
    errno = 0;
    must(calloc(far, 3) == NULL && errno == ENOMEM);
    must(reallocarray(NULL, far, 3) == NULL);
    must(malloc_usable_size(NULL) == 0);
    free(NULL);
    pointer = strdup("small");
    errno = 17;
    free(pointer);
    pointer = malloc(BIG);
    errno = 17;
    free(pointer);
    must(errno == 17);
}

static void grows(void) {
    char *block = NULL;
    size_t size = 0;
    for (size_t next = 100; next < 40 << 20; next = next * 3 / 2) { /* from small to large */
        block = realloc(block, next);
        must(block != NULL && holds(block, size, 9));
        fill(block, next, 9);
        size = next;
    }
    for (; size > 50; size = size / 5 * 2) { /* and back */
        block = realloc(block, size / 5 * 2);
        must(block != NULL && holds(block, size / 5 * 2, 9));
    }
    free(block);
    for (int i = 0; i < 50; i++) { /* where others were before */
        unsigned char *dirty = malloc(BIG + 4096u * (unsigned)i);
        memset(dirty, 0xff, BIG + 4096u * (unsigned)i);
        free(dirty);
        unsigned char *clean = calloc(1, BIG + 4096u * (unsigned)i);
        for (size_t at = 0; at < BIG; at++)
            if (clean[at] != 0) {
                must(!"calloc gives zeros");
                break;
            }
        free(clean);
    }
}

static void *thread_run(void *given) {
    unsigned number = (unsigned)(uintptr_t)given, state = number;
    void *blocks[24] = {0};
    size_t sizes[24] = {0};
    for (int i = 0; i < 4000; i++) {
        state = state * 1664525u + 1013904223u;
        unsigned at = (state >> 8) % 24;
        if (blocks[at] != NULL) must(holds(blocks[at], sizes[at], number + at));
        free(blocks[at]);
        sizes[at] = (state >> 4) % 5 == 0 ? 100 : 1000 + (state >> 10) % 700000;
        blocks[at] = malloc(sizes[at]);
        must(blocks[at] != NULL);
        fill(blocks[at], sizes[at], number + at);
        if (i % 1000 == 999) {
            pid_t child = fork();
            if (child == 0) { /* with the blocks of all threads, and able to go on */
                int good = holds(blocks[at], sizes[at], number + at);
                void *more = malloc(BIG);
                fill(more, BIG, 3);
                free(blocks[at]);
                good = good && holds(more, BIG, 3);
                free(more);
                _exit(good ? 0 : 1);
            }
            int status = 1;
            must(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        }
    }
    for (int at = 0; at < 24; at++) free(blocks[at]);
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    for (uintptr_t t = 0; t < 4; t++)
        must(pthread_create(&all[t], NULL, thread_run, (void *)t) == 0);
    for (int t = 0; t < 4; t++) pthread_join(all[t], NULL);
}

/* A loop as of training, for the pool to learn. */
static void loop(void) {
    void *blocks[80];
    for (int turn = 0; turn < 40; turn++) {
        for (unsigned i = 0; i < 80; i++) {
            size_t size = BIG + 8192u * (i * 7 % 80);
            blocks[i] = malloc(size);
            fill(blocks[i], size, i + (unsigned)turn);
        }
        for (unsigned i = 80; i-- > 0;) {
            must(holds(blocks[i], BIG, i + (unsigned)turn));
            free(blocks[i]);
        }
    }
}

/* The one block of each turn that is never freed. */
__attribute__((noinline)) static void *leak_keep(size_t size) {
    void *block = malloc(size);
    fill(block, size, 3);
    return block;
}

/* A loop that keeps a block in each turn; then it waits, to be looked at. */
static void leak(void) {
    void *blocks[12], *kept = NULL;
    volatile size_t size = 100001; /* not a constant, so that the function keeps its name */
    void *held = calloc(1, 2 << 20);
    for (int turn = 0; turn < 60; turn++) {
        for (unsigned i = 0; i < 12; i++) blocks[i] = malloc(BIG + 4096u * i);
        kept = leak_keep(size);
        for (unsigned i = 0; i < 12; i++) free(blocks[i]);
    }
    must(held != NULL && kept != NULL);
    puts("ready");
    fflush(stdout);
    must(getchar() == '\n');
}

/* Under TENURE_BUDGET=8MiB: no more than that, and an error that can be handled. */
static void budget(void) {
    void *first = malloc(5 << 20), *pointer = NULL;
    must(first != NULL);
    errno = 0;
    must(malloc(5 << 20) == NULL && errno == ENOMEM);
    must(calloc(5, 1 << 20) == NULL);
    must(posix_memalign(&pointer, 64, 5 << 20) == ENOMEM);
    fill(first, 5 << 20, 1);
    must(realloc(first, 7 << 20) == NULL && holds(first, 5 << 20, 1));
    must((first = realloc(first, 2 << 20)) != NULL && holds(first, 2 << 20, 1)); /* smaller fits */
    free(first);
    first = malloc(7 << 20);
    must(first != NULL);
    free(first);
}

/* Blocks that fit into no hole: every second of many small ones goes, then larger ones come. Tells
 * the most that was resident, in KiB. What went back is zero where zeroes are asked for. */
static void holes(void) {
    enum { SMALL = 1 << 20, COUNT = 64 };
    unsigned char *block[COUNT];
    for (int i = 0; i < COUNT; i++) {
        must((block[i] = malloc(SMALL)) != NULL);
        fill(block[i], SMALL, (unsigned)i);
    }
    for (int i = 0; i < COUNT; i += 2) free(block[i]);
    for (int i = 0; i < COUNT; i += 4) {
        must((block[i] = calloc(1, 2 * SMALL)) != NULL);
        for (int at = 0; at < 2 * SMALL; at += 61) must(block[i][at] == 0);
        fill(block[i], 2 * SMALL, (unsigned)i);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 4 == 2) continue;
        must(holds(block[i], i % 4 == 0 ? 2 * SMALL : SMALL, (unsigned)i));
        free(block[i]);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld\n", usage.ru_maxrss);
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"ways", ways},     {"grows", grows}, {"threads", threads}, {"loop", loop},
                 {"budget", budget}, {"holes", holes}, {"leak", leak}};
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, arguments[1]) != 0) continue;
        cases[i].run();
        puts(failures == 0 ? "done" : "failed");
        return failures != 0;
    }
    return 2;
}
