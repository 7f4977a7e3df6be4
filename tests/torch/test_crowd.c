/* test_crowd.c - many threads on the allocator for PyTorch: they free each other's blocks, use them
 * on further streams, empty the cache, and are interrupted by signals.
 *
 *     test_torch_crowd [block|granules [OPERATIONS SEED]]
 *
 * The stand-in's addresses fault when they are used, so a map on the host has the owner of each
 * 512 bytes: two blocks that overlap are found when the second is made. The streams are idle, so
 * the order of their work needs no check here (test_library.c). The bytes of all live blocks, and
 * those that the stand-in has given, stay within the budget. The last line counts operations,
 * signals and refused requests.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "count.h"
#include "standin.h"
#include "support.h"

enum { THREADS = 64, SLOTS = 2048, BUDGET = 16 << 20, BATCH = 1000, CELL = 512, CELLS = 1 << 22 };

typedef struct block {
    char *address;
    size_t size;
    void *stream;
} block;

static void *(*torch_alloc)(size_t size, int device, void *stream);
static void (*torch_free)(void *pointer, size_t size, int device, void *stream);
static void (*torch_record)(void *pointer, void *stream);
static void (*torch_empty)(void);

static _Atomic(block *) slots[SLOTS];
static _Atomic(const block *) owners[CELLS];
static atomic_ullong live, refused, signals, left;

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            fflush(stdout);                                                                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

/* Changes the owner of the block's cells. CELLS cells are two GiB of addresses, more than the
 * library takes here. */
static void own(const block *of, const block *was, const block *now) {
    uintptr_t first = (uintptr_t)of->address / CELL,
              last = ((uintptr_t)of->address + of->size - 1) / CELL;
    must((uintptr_t)of->address % CELL == 0);
    for (uintptr_t cell = first; cell <= last; cell++)
        must(atomic_exchange(&owners[cell % CELLS], now) == was);
}

static void leave(block *made) {
    if (made == NULL) return;
    own(made, made, NULL);
    atomic_fetch_sub(&live, made->size);
    torch_free(made->address, made->size, 0, made->stream);
    free(made);
}

static block *make(uint64_t *state, void *stream) {
    uint64_t way = next(state);
    size_t size = way % 8 != 0 ? 1 + (way >> 8) % 4000 : 4096 + (way >> 8) % (200 << 10);
    char *address = torch_alloc(size, 0, stream);
    if (address == NULL) {
        atomic_fetch_add(&refused, 1);
        return NULL;
    }
    must(atomic_fetch_add(&live, size) + size <= BUDGET);
    block *made = malloc(sizeof *made);
    must(made != NULL);
    *made = (block){address, size, stream};
    own(made, NULL, made);
    return made;
}

static void operate(uint64_t *state, void *stream) {
    _Atomic(block *) *slot = &slots[next(state) % SLOTS];
    block *had = atomic_exchange(slot, NULL);
    uint64_t way = next(state);
    if (had != NULL && way % 4 == 0) torch_record(had->address, stream);
    if (way % 65536 == 1) torch_empty();
    if (had != NULL && way % 8 == 0)
        leave(atomic_exchange(slot, had)); /* it stays, used on one more stream */
    else if (had != NULL)
        leave(had);
    else
        leave(atomic_exchange(slot, make(state, stream)));
}

static void *work(void *self) {
    uint64_t state = (uint64_t)(uintptr_t)self;
    void *stream;
    must(cudaStreamCreateWithFlags(&stream, 1) == 0);
    for (;;) {
        unsigned long long step, now = atomic_load(&left);
        do {
            if (now == 0) return NULL;
            step = now < BATCH ? now : BATCH;
        } while (!atomic_compare_exchange_weak(&left, &now, now - step));
        while (step-- > 0) operate(&state, stream);
        must(standin_used(0) <= BUDGET);
    }
}

static void interrupted(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    must(symbol != NULL);
    memcpy(function, &symbol, sizeof symbol);
}

static void load(const char *memory) {
    setenv("TENURE_CUDART", TENURE_STANDIN, 1);
    setenv("TENURE_CUDA", TENURE_STANDIN, 1);
    setenv("TENURE_MEMORY", memory, 1);
    setenv("STANDIN_GRANULE", "65536", 1);
    setenv("TENURE_BUDGET", "16MiB", 1);
    setenv("TENURE_OOM", "null", 1);
    void *library = dlopen(TENURE_TORCH, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) printf("%s\n", dlerror());
    must(library != NULL);
    must(freopen("/dev/null", "w", stderr) != NULL); /* one report for each refused request */
    find(library, "tenure_torch_alloc", &torch_alloc);
    find(library, "tenure_torch_free", &torch_free);
    find(library, "tenure_torch_record_stream", &torch_record);
    find(library, "tenure_torch_empty_cache", &torch_empty);
}

int main(int words, char **arguments) {
    pthread_t threads[THREADS];
    struct itimerval often = {{0, 1000}, {0, 1000}};
    const char *memory = words > 1 ? arguments[1] : "block";
    /* With granules, most of the time is the stand-in's mapping of pages. */
    uint32_t full = strcmp(memory, "block") == 0 ? 2000000 : 40000;
    unsigned long long operations =
        words > 2 ? strtoull(arguments[2], NULL, 10) : case_count(full, full / 20);
    uint64_t seed = words > 3 ? strtoull(arguments[3], NULL, 10) : 1;
    load(memory);
    atomic_store(&left, operations);
    signal(SIGPROF, interrupted);
    setitimer(ITIMER_PROF, &often, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)(seed * 1000 + i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    for (int i = 0; i < SLOTS; i++) leave(atomic_exchange(&slots[i], NULL));
    must(atomic_load(&live) == 0);
    printf("%llu operations, %llu signals, %llu refused\n", operations, atomic_load(&signals),
           atomic_load(&refused));
    return 0;
}
