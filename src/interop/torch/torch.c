/* torch.c - the functions that torch.cuda.memory.CUDAPluggableAllocator calls in a library.
 *
 *     allocator = torch.cuda.memory.CUDAPluggableAllocator(
 *         "libtenure_torch.so", "tenure_torch_alloc", "tenure_torch_free")
 *     torch.cuda.memory.change_current_allocator(allocator)
 *
 * Settings come from the environment, at the first request (docs/pytorch.md). PyTorch does not
 * check the result of its current allocator, and would continue with a tensor at address 0. So a
 * request that cannot be met ends the process with the reason, unless TENURE_OOM=null says that the
 * caller checks (torch.cuda.MemPool does). At the end of the process no function of CUDA is called:
 * CUDA may be unloaded by then, and frees its memory itself.
 *
 * Threads: any; one lock protects everything. The child of a fork has no CUDA, and so none of its
 * memory.
 * Source: PyTorch, torch/csrc/cuda/CUDAPluggableAllocator.cpp, for which functions are called when
 * and with which arguments; no code was copied.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "interop/preload/words.h"
#include "interop/torch/ground.h"
#include "interop/torch/who.h"

#define TORCH_EXPORT __attribute__((visibility("default")))

enum { TORCH_DEVICES = 64, TORCH_HOLDERS = 10 };

/* A stream is a cudaStream_t. */
TORCH_EXPORT void *tenure_torch_alloc(size_t size, int device, void *stream);
TORCH_EXPORT void tenure_torch_free(void *pointer, size_t size, int device, void *stream);
/* For set_record_stream_fn: the block is used on that stream, too. */
TORCH_EXPORT void tenure_torch_record_stream(void *pointer, void *stream);
/* For set_reset_fn: torch.cuda.empty_cache(). */
TORCH_EXPORT void tenure_torch_empty_cache(void);

static struct torch {
    pthread_mutex_t lock;
    enum { TORCH_NEW, TORCH_OPEN, TORCH_BROKEN } state;
    bool is_child, is_over, gives_null, tells; /* in the first two states CUDA is not available */
    tn__cuda cuda;
    tn__ground_options options;
    tn__ground *grounds[TORCH_DEVICES];
} torch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- opening --- */

static void torch_before_fork(void) { pthread_mutex_lock(&torch.lock); }
static void torch_after_fork(void) { pthread_mutex_unlock(&torch.lock); }
static void torch_in_child(void) {
    torch.is_child = true;
    for (uint32_t i = 0; i < TORCH_DEVICES; i++)
        if (torch.grounds[i] != NULL) tn__trace_leave(&torch.grounds[i]->trace);
    pthread_mutex_init(&torch.lock, NULL);
}

static const char *torch_word(const char *name) {
    const char *word = getenv(name);
    return word != NULL && word[0] != '\0' ? word : NULL;
}

static tn_status torch_read_settings(tn_error *error) {
    const char *oom = torch_word("TENURE_OOM");
    torch.gives_null = oom != NULL && strcmp(oom, "null") == 0;
    torch.tells = torch_word("TENURE_STATS") != NULL;
    torch.options.pool = torch_word("TENURE_POOL");
    torch.options.trace = torch_word("TENURE_TRACE");
    if (oom != NULL && !torch.gives_null && strcmp(oom, "abort") != 0)
        TN_FAIL(error, TN_E_INVALID, "TENURE_OOM is abort or null, not '%.40s'", oom);
    const char *memory = torch_word("TENURE_MEMORY");
    if (memory != NULL && strcmp(memory, "granules") == 0)
        torch.options.memory = TN__GROUND_GRANULES;
    else if (memory != NULL && strcmp(memory, "block") != 0)
        TN_FAIL(error, TN_E_INVALID, "TENURE_MEMORY is block or granules, not '%.40s'", memory);
    const char *budget = torch_word("TENURE_BUDGET");
    if (budget == NULL) return TN_OK;
    tn_status status = tn_size_parse(budget, &torch.options.budget, error);
    return tn__where(error, status, "TENURE_BUDGET");
}

static tn_status torch_open(tn_error *error) {
    if (torch.state == TORCH_OPEN) return TN_OK;
    if (torch.state == TORCH_BROKEN) TN_FAIL(error, TN_E_UNSUPPORTED, "see the first message");
    torch.state = TORCH_BROKEN;
    TN_TRY(torch_read_settings(error));
    TN_TRY(tn__cuda_load(&torch.cuda, error));
    if (pthread_atfork(torch_before_fork, torch_after_fork, torch_in_child) != 0)
        return tn__no_memory(error, "what is done when the process forks");
    torch.state = TORCH_OPEN;
    return TN_OK;
}

/* Granules are accessible only to their own device, but PyTorch copies between two devices as if
 * each could access the other. */
static tn_status torch_check_alone(int device, tn_error *error) {
    for (int i = 0; i < TORCH_DEVICES && torch.options.memory == TN__GROUND_GRANULES; i++)
        if (torch.grounds[i] != NULL)
            TN_FAIL(error, TN_E_UNSUPPORTED,
                    "granules are for one device of a process, and cuda:%d has them; for cuda:%d, "
                    "too, take TENURE_MEMORY=block",
                    i, device);
    return TN_OK;
}

static tn_status torch_ground(int device, tn__ground **ground, tn_error *error) {
    if (torch.is_child)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "a process that was forked has no CUDA; start it with the method 'spawn'");
    TN_TRY(torch_open(error));
    if (device < 0 || device >= TORCH_DEVICES)
        TN_FAIL(error, TN_E_UNSUPPORTED, "device %d is not from 0 to %d", device,
                TORCH_DEVICES - 1);
    *ground = torch.grounds[device];
    if (*ground != NULL) return TN_OK;
    TN_TRY(torch_check_alone(device, error));
    TN_TRY(tn__ground_open(&torch.options, &torch.cuda, device, &torch.grounds[device], error));
    *ground = torch.grounds[device];
    return TN_OK;
}

static pthread_once_t torch_lines_once = PTHREAD_ONCE_INIT;
static bool torch_has_lines;

static void torch_find_lines(void) {
    if (torch_word("TENURE_LINES") == NULL) return;
    torch_has_lines = tn__who_open();
    if (!torch_has_lines) tn__say("TENURE_LINES", "this process has no Python 3.9 or later");
}

/* --- failing --- */

static void torch_tell_holders(tn_pool *pool) {
    tn_holder holders[TORCH_HOLDERS];
    char text[TN_SIZE_TEXT_MAX];
    uint32_t found = tn_pool_holders(pool, TN_HOLDERS_NOW, holders, TORCH_HOLDERS);
    if (found > 0) fprintf(stderr, "tenure: %" PRIu32 " blocks are held; the largest:\n", found);
    for (uint32_t i = 0; i < found && i < TORCH_HOLDERS; i++)
        fprintf(stderr, "tenure:   %s, request %" PRIu64 ", stream %" PRIu32 "%s%s\n",
                tn_size_format(holders[i].allocated, text), holders[i].birth, holders[i].stream,
                holders[i].label.name[0] != '\0' ? ", " : "", holders[i].label.name);
}

/* Reports why there is no block. Returns only if the setting asks for NULL. */
static void torch_fail(uint64_t size, int device, const tn_error *error) {
    char what[TN_SIZE_TEXT_MAX + 40], text[TN_SIZE_TEXT_MAX];
    snprintf(what, sizeof what, "no block of %s on cuda:%d", tn_size_format(size, text), device);
    if (error->where[0] != '\0') tn__say(error->where, error->message);
    tn__say(what, error->where[0] == '\0' ? error->message : "a setting cannot be read");
    if (error->status == TN_E_EXHAUSTED) torch_tell_holders(torch.grounds[device]->pool);
    if (torch.gives_null) return;
    tn__say("stopped: PyTorch would go on without it (TENURE_OOM=null if somebody looks at NULL)",
            "");
    abort();
}

/* --- functions for PyTorch --- */

void *tenure_torch_alloc(size_t size, int device, void *stream) {
    void *pointer = NULL;
    tn__ground *ground = NULL;
    tn_error error = {0};
    char who[TN__WHO_MAX] = "";
    if (size == 0) return NULL;
    (void)pthread_once(&torch_lines_once, torch_find_lines);
    /* before our lock, because it waits for Python's */
    if (torch_has_lines) (void)tn__who_asks(who);
    pthread_mutex_lock(&torch.lock);
    tn_status status = torch_ground(device, &ground, &error);
    if (status == TN_OK) status = tn__ground_alloc(ground, size, stream, who, &pointer, &error);
    if (status != TN_OK) torch_fail(size, device, &error);
    pthread_mutex_unlock(&torch.lock);
    return status == TN_OK ? pointer : NULL;
}

/* A wrong pointer is an error of the program; a double free would give one block to two owners. */
static void torch_stop(const tn_error *error) {
    tn__say(error->message, "stopped");
    abort();
}

static tn_status torch_free(void *pointer, int device, tn_error *error) {
    if (torch.is_child || torch.is_over) return TN_OK;
    if (device < 0 || device >= TORCH_DEVICES || torch.grounds[device] == NULL)
        TN_FAIL(error, TN_E_INVALID, "free of %p on device %d, which gave nothing", pointer,
                device);
    return tn__ground_free(torch.grounds[device], pointer, error);
}

void tenure_torch_free(void *pointer, size_t size, int device, void *stream) {
    tn_error error = {0};
    (void)size, (void)stream; /* as in the request, which is recorded */
    if (pointer == NULL) return;
    pthread_mutex_lock(&torch.lock);
    if (torch_free(pointer, device, &error) != TN_OK) torch_stop(&error);
    pthread_mutex_unlock(&torch.lock);
}

void tenure_torch_record_stream(void *pointer, void *stream) {
    tn_error error = {0};
    pthread_mutex_lock(&torch.lock);
    for (uint32_t i = 0; i < TORCH_DEVICES && !torch.is_child && !torch.is_over; i++) {
        tn__ground *ground = torch.grounds[i];
        if (ground == NULL || !tn__ground_owns(ground, pointer)) continue;
        if (tn__ground_use(ground, pointer, stream, &error) != TN_OK) torch_stop(&error);
        break;
    }
    pthread_mutex_unlock(&torch.lock);
}

void tenure_torch_empty_cache(void) {
    pthread_mutex_lock(&torch.lock);
    for (uint32_t i = 0; i < TORCH_DEVICES && !torch.is_child && !torch.is_over; i++)
        if (torch.grounds[i] != NULL) tn__ground_trim(torch.grounds[i]);
    pthread_mutex_unlock(&torch.lock);
}

static void torch_tell_memory(const tn__granules *of, uint32_t device) {
    char most[TN_SIZE_TEXT_MAX], size[TN_SIZE_TEXT_MAX];
    fprintf(stderr,
            "tenure: cuda:%" PRIu32 ": at most %s were had, in granules of %s; %" PRIu64
            " of them went elsewhere, after %" PRIu64 " waits\n",
            device, tn_size_format(of->had_peak * of->size, most), tn_size_format(of->size, size),
            of->moved, of->waits);
}

__attribute__((destructor)) static void torch_close(void) {
    char what[40];
    pthread_mutex_lock(&torch.lock);
    for (uint32_t i = 0; i < TORCH_DEVICES && !torch.is_child; i++) {
        if (torch.grounds[i] == NULL) continue;
        tn__trace_close(&torch.grounds[i]->trace);
        snprintf(what, sizeof what, "blocks of cuda:%" PRIu32, i);
        if (torch.tells) tn__say_numbers(torch.grounds[i]->pool, what);
        if (torch.tells) tn__trace_print(&torch.grounds[i]->trace);
        if (torch.tells && torch.grounds[i]->granules.size != 0)
            torch_tell_memory(&torch.grounds[i]->granules, i);
    }
    torch.is_over = true;
    pthread_mutex_unlock(&torch.lock);
}
