/* torch.c - the functions that torch.cuda.memory.CUDAPluggableAllocator calls in a library.
 *
 *     allocator = torch.cuda.memory.CUDAPluggableAllocator(
 *         "libtenure_torch.so", "tenure_torch_alloc", "tenure_torch_free")
 *     torch.cuda.memory.change_current_allocator(allocator)
 *
 * Settings come from the environment, at the first request (docs/pytorch.md). PyTorch does not
 * check the result of its current allocator, and would continue with a tensor at address 0. So a
 * request that cannot be met ends the process with the reason, unless TENURE_OOM=null says that the
 * caller checks the result (torch.cuda.MemPool does). At the end of the process no function of CUDA
 * is called: CUDA may be unloaded by then, and frees its memory itself.
 *
 * Threads: functions may be called by any thread; one lock protects everything. The child of a fork
 * has no CUDA, and so no memory of the allocator.
 *
 * Source: PyTorch, torch/csrc/cuda/CUDAPluggableAllocator.cpp, for which functions are called when
 * and with which arguments; no code was copied.
 */
#include "interop/preload/shared.h"
#include "interop/torch/device_arena.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the call site in Python ------------------------------------------------------------------ */

/* Asks Python for the line of code that allocates. The functions of Python's stable interface are
 * looked up by name in the running process. So building needs no Python, and in programs without
 * Python the lookup fails.
 *
 * PyTorch releases Python's lock while an operator runs, so it is taken here; PyTorch does so too
 * when it records stacks.
 *
 * Cost: a wait for the lock, and a few calls per frame: about a microsecond if no other thread
 * holds it.
 * Source: Python/C API, frame objects (3.9 and later).
 */

enum {
    CALL_SITE_FRAMES = 100, /* limit of the frames that are examined */
    CALL_SITE_MAX = 120,    /* bytes of a name, with its terminating NUL */
};

/* Every function of Python that is called: result, name, arguments. Objects are pointers. */
#define CALL_SITE_SYMBOLS(X)                                                                       \
    X(int, Py_IsInitialized, (void))                                                               \
    X(int, PyGILState_Ensure, (void))                                                              \
    X(void, PyGILState_Release, (int state))                                                       \
    X(void *, PyEval_GetFrame, (void))                                                             \
    X(void *, PyFrame_GetBack, (void *frame))                                                      \
    X(void *, PyFrame_GetCode, (void *frame))                                                      \
    X(int, PyFrame_GetLineNumber, (void *frame))                                                   \
    X(void *, PyObject_GetAttrString, (void *object, const char *name))                            \
    X(const char *, PyUnicode_AsUTF8, (void *object))                                              \
    X(void *, PyErr_Occurred, (void))                                                              \
    X(void, PyErr_Clear, (void))                                                                   \
    X(void, Py_IncRef, (void *object))                                                             \
    X(void, Py_DecRef, (void *object))

static struct call_site_python {
#define CALL_SITE_MEMBER(result, name, arguments) result(*name) arguments;
    CALL_SITE_SYMBOLS(CALL_SITE_MEMBER)
#undef CALL_SITE_MEMBER
} python;

/* Searches Python in this process. False: it is not present, or lacks a function. */
static bool call_site_open(void) {
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
#define CALL_SITE_ROW(result, name, arguments) {#name, offsetof(struct call_site_python, name)},
        CALL_SITE_SYMBOLS(CALL_SITE_ROW)
#undef CALL_SITE_ROW
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(RTLD_DEFAULT, symbols[i].name);
        if (found == NULL) return false;
        memcpy((char *)&python + symbols[i].offset, &found, sizeof found);
    }
    return true;
}

/* Shortens the path of a file to a name. Returns false if the file belongs to torch itself, as
 * installed in site-packages or dist-packages (a user's program may lie in a folder named torch).
 * Characters that would end a field or a row of a trace are omitted. */
static bool call_site_name_file(const char *path, char *name, size_t room) {
    const char *slash = strrchr(path, '/'), *from = slash != NULL ? slash + 1 : path;
    size_t used = 0;
    for (; *from != '\0' && used + 1 < room; from++)
        if (*from != ',' && (unsigned char)*from >= ' ') name[used++] = *from;
    name[used] = '\0';
    return strstr(path, "-packages/torch/") == NULL;
}

/* Writes the place of a frame, such as "train.py:31"; false: the frame is in torch, or has no
 * line. */
static bool call_site_name(void *frame, char *name, size_t room) {
    void *code = python.PyFrame_GetCode(frame);
    void *file = python.PyObject_GetAttrString(code, "co_filename");
    const char *path = file != NULL ? python.PyUnicode_AsUTF8(file) : NULL;
    bool is_users = path != NULL && call_site_name_file(path, name, room - 16);
    size_t used = is_users ? strlen(name) : 0;
    if (is_users) snprintf(name + used, room - used, ":%d", python.PyFrame_GetLineNumber(frame));
    if (path == NULL) python.PyErr_Clear();
    if (file != NULL) python.Py_DecRef(file);
    python.Py_DecRef(code);
    return is_users;
}

/* Searches the stack of the calling thread. The caller holds Python's lock. */
static bool call_site_search(char *name, size_t room) {
    void *frame = python.PyErr_Occurred() == NULL ? python.PyEval_GetFrame() : NULL;
    bool found = false;
    /* PyEval_GetFrame returns a borrowed reference */
    if (frame != NULL) python.Py_IncRef(frame);
    for (int i = 0; i < CALL_SITE_FRAMES && frame != NULL && !found; i++) {
        found = call_site_name(frame, name, room);
        void *back = python.PyFrame_GetBack(frame);
        python.Py_DecRef(frame);
        frame = back;
    }
    if (frame != NULL) python.Py_DecRef(frame);
    return found;
}

/* Finds the place for the calling thread, such as "train.py:31": the innermost line that is not in
 * torch itself. Waits for Python's lock, so the caller must hold no lock of this library. False:
 * there is no such line, as in the threads of the backward pass; then `name` is "". */
static bool call_site_find(char name[CALL_SITE_MAX]) {
    name[0] = '\0';
    if (!python.Py_IsInitialized()) return false;
    int state = python.PyGILState_Ensure();
    bool found = call_site_search(name, CALL_SITE_MAX);
    python.PyGILState_Release(state);
    if (!found) name[0] = '\0';
    return found;
}

/* --- state ------------------------------------------------------------------------------------ */

#define TORCH_EXPORT __attribute__((visibility("default")))

enum { TORCH_DEVICES = 64, TORCH_HOLDERS = 10, TORCH_REPORTS = 10 };

/* The functions that PyTorch calls. `stream` is a cudaStream_t. */
TORCH_EXPORT void *tenure_torch_alloc(size_t size, int device, void *stream);
TORCH_EXPORT void tenure_torch_free(void *pointer, size_t size, int device, void *stream);
/* PyTorch calls this function (set_record_stream_fn) if a block is also used on another stream. */
TORCH_EXPORT void tenure_torch_record_stream(void *pointer, void *stream);
/* PyTorch calls this function (set_reset_fn) in torch.cuda.empty_cache(). */
TORCH_EXPORT void tenure_torch_empty_cache(void);

static struct torch {
    pthread_mutex_t lock;
    enum { TORCH_NEW, TORCH_OPEN, TORCH_BROKEN } state;
    uint32_t reported; /* number of refused requests that were reported */
    /* `is_child`: in a forked child; `is_over`: the process is ending. CUDA is not available in
     * either case */
    bool is_child, is_over, gives_null, prints_stats;
    tn__cuda cuda;
    tn__device_arena_options options;
    tn__device_arena *arenas[TORCH_DEVICES];
} torch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- opening --- */

static void torch_before_fork(void) { pthread_mutex_lock(&torch.lock); }
static void torch_after_fork(void) { pthread_mutex_unlock(&torch.lock); }
static void torch_in_child(void) {
    torch.is_child = true;
    for (uint32_t i = 0; i < TORCH_DEVICES; i++)
        if (torch.arenas[i] != NULL) tn__trace_leave(&torch.arenas[i]->trace);
    pthread_mutex_init(&torch.lock, NULL);
}

static const char *torch_word(const char *name) {
    const char *word = getenv(name);
    return word != NULL && word[0] != '\0' ? word : NULL;
}

static tn_status torch_read_settings(tn_error *error) {
    const char *oom = torch_word("TENURE_OOM");
    torch.gives_null = oom != NULL && strcmp(oom, "null") == 0;
    torch.prints_stats = torch_word("TENURE_STATS") != NULL;
    torch.options.pool = torch_word("TENURE_POOL");
    torch.options.trace = torch_word("TENURE_TRACE");
    torch.options.watches = tn__watch_wanted();
    if (oom != NULL && !torch.gives_null && strcmp(oom, "abort") != 0)
        TN_FAIL(error, TN_E_INVALID, "TENURE_OOM is abort or null, not '%.40s'", oom);
    const char *memory = torch_word("TENURE_MEMORY");
    if (memory != NULL && strcmp(memory, "granules") == 0)
        torch.options.memory = TN__DEVICE_ARENA_PAGES;
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
        return tn__no_memory(error, "the handlers for fork");
    torch.state = TORCH_OPEN;
    return TN_OK;
}

/* Fails if pages are used and another device has an arena. Pages are accessible only to their own
 * device, but PyTorch copies between two devices as if each could access the memory of the
 * other. */
static tn_status torch_check_alone(int device, tn_error *error) {
    for (int i = 0; i < TORCH_DEVICES && torch.options.memory == TN__DEVICE_ARENA_PAGES; i++)
        if (torch.arenas[i] != NULL)
            TN_FAIL(error, TN_E_UNSUPPORTED,
                    "granules are for one device of a process, and cuda:%d has them; for cuda:%d, "
                    "too, take TENURE_MEMORY=block",
                    i, device);
    return TN_OK;
}

static tn_status torch_arena(int device, tn__device_arena **arena, tn_error *error) {
    if (torch.is_child)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "a process that was forked has no CUDA; start it with the method 'spawn'");
    TN_TRY(torch_open(error));
    if (device < 0 || device >= TORCH_DEVICES)
        TN_FAIL(error, TN_E_UNSUPPORTED, "device %d is not from 0 to %d", device,
                TORCH_DEVICES - 1);
    *arena = torch.arenas[device];
    if (*arena != NULL) return TN_OK;
    TN_TRY(torch_check_alone(device, error));
    TN_TRY(
        tn__device_arena_open(&torch.options, &torch.cuda, device, &torch.arenas[device], error));
    *arena = torch.arenas[device];
    return TN_OK;
}

static pthread_once_t torch_lines_once = PTHREAD_ONCE_INIT;
static bool torch_has_lines;

static void torch_find_lines(void) {
    if (torch_word("TENURE_LINES") == NULL) return;
    torch_has_lines = call_site_open();
    if (!torch_has_lines)
        tn__message_print("TENURE_LINES", "this process has no Python 3.9 or later");
}

/* --- failing --- */

static void torch_print_holders(tn_pool *pool) {
    tn_holder holders[TORCH_HOLDERS];
    char text[TN_SIZE_TEXT_MAX];
    uint32_t found = tn_pool_holders(pool, TN_HOLDERS_NOW, holders, TORCH_HOLDERS);
    if (found > 0) tn__say("tenure: %" PRIu32 " blocks are held; the largest:\n", found);
    for (uint32_t i = 0; i < found && i < TORCH_HOLDERS; i++)
        tn__say("tenure:   %s, request %" PRIu64 ", stream %" PRIu32 "%s%s\n",
                tn_size_format(holders[i].allocated, text), holders[i].birth, holders[i].stream,
                holders[i].label.name[0] != '\0' ? ", " : "", holders[i].label.name);
}

/* Reports why a request is refused. Returns only if the setting asks for NULL; a caller that then
 * tries repeatedly gets at most TORCH_REPORTS reports. */
static void torch_fail(uint64_t size, int device, const tn_error *error) {
    if (torch.gives_null && torch.reported == TORCH_REPORTS) return;
    char what[TN_SIZE_TEXT_MAX + 40], text[TN_SIZE_TEXT_MAX];
    snprintf(what, sizeof what, "no block of %s on cuda:%d", tn_size_format(size, text), device);
    if (error->where[0] != '\0') tn__message_print(error->where, error->message);
    tn__message_print(what, error->where[0] == '\0' ? error->message : "a setting cannot be read");
    if (error->status == TN_E_EXHAUSTED) torch_print_holders(torch.arenas[device]->pool);
    if (torch.gives_null) {
        if (++torch.reported == TORCH_REPORTS)
            tn__message_print("no block", "further refused requests are not reported");
        return;
    }
    tn__message_print(
        "stopped: PyTorch would go on without it (TENURE_OOM=null if the caller checks for NULL)",
        "");
    abort();
}

/* --- functions for PyTorch --- */

void *tenure_torch_alloc(size_t size, int device, void *stream) {
    void *pointer = NULL;
    tn__device_arena *arena = NULL;
    tn_error error = {0};
    char call_site[CALL_SITE_MAX] = "";
    if (size == 0) return NULL;
    (void)pthread_once(&torch_lines_once, torch_find_lines);
    /* the line is looked up before the allocator's lock is taken, because that waits for Python's
     * lock */
    if (torch_has_lines) (void)call_site_find(call_site);
    pthread_mutex_lock(&torch.lock);
    tn_status status = torch_arena(device, &arena, &error);
    if (status == TN_OK)
        status = tn__device_arena_alloc(arena, size, stream, call_site, &pointer, &error);
    if (status != TN_OK) torch_fail(size, device, &error);
    pthread_mutex_unlock(&torch.lock);
    return status == TN_OK ? pointer : NULL;
}

/* Ends the process. A wrong pointer is an error of the program; a double free would give one block
 * to two owners. */
static void torch_stop(const tn_error *error) {
    tn__message_print(error->message, "stopped");
    abort();
}

static tn_status torch_free(void *pointer, int device, tn_error *error) {
    if (torch.is_child || torch.is_over) return TN_OK;
    if (device < 0 || device >= TORCH_DEVICES || torch.arenas[device] == NULL)
        TN_FAIL(error, TN_E_INVALID, "free of %p on device %d, which gave nothing", pointer,
                device);
    return tn__device_arena_free(torch.arenas[device], pointer, error);
}

void tenure_torch_free(void *pointer, size_t size, int device, void *stream) {
    tn_error error = {0};
    (void)size, (void)stream; /* size and stream are those of the request, which are recorded */
    if (pointer == NULL) return;
    pthread_mutex_lock(&torch.lock);
    if (torch_free(pointer, device, &error) != TN_OK) torch_stop(&error);
    pthread_mutex_unlock(&torch.lock);
}

void tenure_torch_record_stream(void *pointer, void *stream) {
    tn_error error = {0};
    pthread_mutex_lock(&torch.lock);
    for (uint32_t i = 0; i < TORCH_DEVICES && !torch.is_child && !torch.is_over; i++) {
        tn__device_arena *arena = torch.arenas[i];
        if (arena == NULL || !tn__device_arena_owns(arena, pointer)) continue;
        if (tn__device_arena_use(arena, pointer, stream, &error) != TN_OK) torch_stop(&error);
        break;
    }
    pthread_mutex_unlock(&torch.lock);
}

void tenure_torch_empty_cache(void) {
    pthread_mutex_lock(&torch.lock);
    for (uint32_t i = 0; i < TORCH_DEVICES && !torch.is_child && !torch.is_over; i++)
        if (torch.arenas[i] != NULL) tn__device_arena_trim(torch.arenas[i]);
    pthread_mutex_unlock(&torch.lock);
}

static void torch_print_memory(const tn__pages *of, uint32_t device) {
    char most[TN_SIZE_TEXT_MAX], size[TN_SIZE_TEXT_MAX];
    tn__say("tenure: cuda:%" PRIu32 ": at most %s were had, in granules of %s; %" PRIu64
            " of them went elsewhere, after %" PRIu64 " waits\n",
            device, tn_size_format(of->had_peak * of->size, most), tn_size_format(of->size, size),
            of->moved, of->waits);
}

__attribute__((destructor)) static void torch_close(void) {
    char what[40];
    pthread_mutex_lock(&torch.lock);
    for (uint32_t i = 0; i < TORCH_DEVICES && !torch.is_child; i++) {
        if (torch.arenas[i] == NULL) continue;
        tn__trace_close(&torch.arenas[i]->trace);
        tn__watched_close(&torch.arenas[i]->watched);
        snprintf(what, sizeof what, "blocks of cuda:%" PRIu32, i);
        if (torch.prints_stats) tn__pool_print(torch.arenas[i]->pool, what);
        if (torch.prints_stats) tn__trace_print(&torch.arenas[i]->trace);
        if (torch.prints_stats && torch.arenas[i]->pages.size != 0)
            torch_print_memory(&torch.arenas[i]->pages, i);
    }
    torch.is_over = true;
    pthread_mutex_unlock(&torch.lock);
}
