/* crowd.c - a program that is hard on an allocator: many threads that free each other's blocks,
 * forks while they allocate, signals that interrupt them, and allocations before main and after it.
 *
 *     crowd OPERATIONS SEED BUDGET
 *
 * Every block has its size and seed at both ends, which are checked before the block is freed or
 * resized. The bytes of large blocks that are alive at once are counted and must stay within BUDGET
 * (0: none). A large block may be refused, a small one may not. Children of a fork go on with a
 * copy of all blocks. The last line says how many operations, forks, signals and refusals there
 * were.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 64, SLOTS = 512, LARGE = 64 << 10, EARLY = 3, CHILD = 300, FORKS_LEAST = 5 };

typedef struct block {
    size_t size;
    uint64_t seed;
} block;

static _Atomic(block *) slots[SLOTS];
static atomic_ullong live, refused, signals, left;
static unsigned long long budget;
static block *early[EARLY];

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            dprintf(1, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static void count(size_t size) {
    if (size < LARGE) return;
    unsigned long long now = atomic_fetch_add(&live, size) + size;
    must(budget == 0 || now <= budget);
}

static void uncount(size_t size) {
    if (size >= LARGE) atomic_fetch_sub(&live, size);
}

static void mark(block *made, size_t size, uint64_t seed) {
    *made = (block){size, seed};
    memcpy((char *)made + size - sizeof seed, &seed, sizeof seed);
}

static void check(const block *made) {
    uint64_t seed;
    must(made->size >= sizeof *made + sizeof seed &&
         malloc_usable_size((void *)made) >= made->size);
    memcpy(&seed, (const char *)made + made->size - sizeof seed, sizeof seed);
    must(seed == made->seed);
}

static void leave(block *made) {
    if (made == NULL) return;
    check(made);
    uncount(made->size);
    free(made);
}

static size_t choose(uint64_t *state) {
    uint64_t way = next(state);
    size_t least = sizeof(block) + sizeof(uint64_t);
    if (way % 8 != 0) return least + (way >> 8) % 2000;
    return LARGE - 4096 + (way >> 8) % (400 << 10);
}

static block *make(uint64_t *state) {
    size_t size = choose(state), alignment = (size_t)16 << next(state) % 10;
    void *made = NULL;
    switch (next(state) % 4) {
    case 0:
        made = malloc(size);
        break;
    case 1:
        made = calloc(1, size);
        for (size_t i = 0; made != NULL && i < size; i += 1021) must(((char *)made)[i] == 0);
        break;
    case 2:
        made = aligned_alloc(alignment, size);
        must((uintptr_t)made % alignment == 0);
        break;
    default:
        if (posix_memalign(&made, alignment, size) != 0) made = NULL;
        must((uintptr_t)made % alignment == 0);
    }
    if (made == NULL) {
        must(size >= LARGE);
        atomic_fetch_add(&refused, 1);
        return NULL;
    }
    mark(made, size, next(state));
    count(size);
    return made;
}

static block *resize(block *old, uint64_t *state) {
    size_t was = old->size, size = choose(state);
    uint64_t seed = old->seed;
    check(old);
    uncount(was);
    block *made = realloc(old, size);
    if (made == NULL) { /* the old one stays */
        must(size >= LARGE);
        atomic_fetch_add(&refused, 1);
        count(was);
        return old;
    }
    must(made->size == was && made->seed == seed);
    mark(made, size, next(state));
    count(size);
    return made;
}

static void operate(uint64_t *state) {
    _Atomic(block *) *slot = &slots[next(state) % SLOTS];
    block *had = atomic_exchange(slot, NULL);
    if (had != NULL && next(state) % 2 == 0)
        had = resize(had, state);
    else if (had != NULL) {
        leave(had);
        return;
    } else
        had = make(state);
    leave(atomic_exchange(slot, had));
}

static void *work(void *self) {
    uint64_t state = (uint64_t)(uintptr_t)self;
    for (;;) {
        unsigned long long step = 1000, now = atomic_load(&left);
        do {
            if (now == 0) return NULL;
            step = now < 1000 ? now : 1000;
        } while (!atomic_compare_exchange_weak(&left, &now, now - step));
        while (step-- > 0) operate(&state);
    }
}

static void interrupted(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void child(uint64_t seed) {
    for (int i = 0; i < CHILD; i++) operate(&seed);
    _exit(0);
}

/* Blocks that a thread was resizing during the fork are lost to the child, and stay counted. */
static unsigned long fork_often(uint64_t seed) {
    unsigned long forks = 0;
    while (atomic_load(&left) > 0 || forks < FORKS_LEAST) {
        int status = -1;
        pid_t made = fork();
        if (made == 0) child(seed + forks);
        must(made > 0 && waitpid(made, &status, 0) == made);
        must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        forks++;
        usleep(2000);
    }
    return forks;
}

__attribute__((constructor(101))) static void begin(void) {
    for (int i = 0; i < EARLY; i++) {
        early[i] = malloc((size_t)LARGE << i);
        must(early[i] != NULL);
        mark(early[i], (size_t)LARGE << i, 7);
    }
}

__attribute__((destructor(101))) static void end(void) {
    for (int i = 0; i < EARLY; i++) {
        check(early[i]);
        early[i] = realloc(early[i], (size_t)LARGE << (i + 1));
        must(early[i] != NULL && early[i]->seed == 7);
        free(early[i]);
    }
}

int main(int words, char **arguments) {
    pthread_t threads[THREADS];
    struct itimerval often = {{0, 1000}, {0, 1000}};
    sigset_t prof;
    must(words == 4);
    unsigned long long operations = strtoull(arguments[1], NULL, 10);
    uint64_t seed = strtoull(arguments[2], NULL, 10);
    budget = strtoull(arguments[3], NULL, 10);
    atomic_store(&left, operations);
    for (int i = 0; i < EARLY; i++) count(early[i]->size);
    signal(SIGPROF, interrupted);
    for (uintptr_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)(seed * 1000 + i + 1)) == 0);
    sigemptyset(&prof);
    sigaddset(&prof, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &prof, NULL); /* so that the other threads are interrupted */
    setitimer(ITIMER_PROF, &often, NULL);
    unsigned long forks = fork_often(seed);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    for (int i = 0; i < SLOTS; i++) leave(atomic_exchange(&slots[i], NULL));
    for (int i = 0; i < EARLY; i++) uncount(early[i]->size);
    must(atomic_load(&live) == 0);
    printf("%llu operations, %lu forks, %llu signals, %llu refused\n", operations, forks,
           atomic_load(&signals), atomic_load(&refused));
    return 0;
}
