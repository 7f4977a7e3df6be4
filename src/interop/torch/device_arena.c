/* device_arena.c - turns offsets of a pool into addresses of a device. */
#include "interop/torch/device_arena.h"

#include <inttypes.h>
#include <stdio.h>

/* --- stream fences ---------------------------------------------------------------------------- */

/* The functions of tn__stream_fences, implemented with CUDA events. Errors that were worked around
 * are cleared in the runtime, because PyTorch asks it for the last error. Source: CUDA Runtime API,
 * stream and event management. */

static bool fences_worked(const tn__cuda *cuda, int status) {
    if (status != TN__CUDA_OK) (void)cuda->cudaGetLastError();
    return status == TN__CUDA_OK;
}

static bool fences_create(void *self, void **event) {
    const tn__cuda *cuda = self;
    return fences_worked(cuda, cuda->cudaEventCreateWithFlags(event, TN__CUDA_EVENT_UNTIMED));
}

static void fences_destroy(void *self, void *event) {
    const tn__cuda *cuda = self;
    (void)cuda->cudaEventDestroy(event);
}

/* Records an event. It may fail for a stream of another device. */
static bool fences_record(void *self, void *event, void *stream) {
    const tn__cuda *cuda = self;
    return fences_worked(cuda, cuda->cudaEventRecord(event, stream));
}

static bool fences_wait(void *self, void *event, void *stream) {
    const tn__cuda *cuda = self;
    return fences_worked(cuda, cuda->cudaStreamWaitEvent(stream, event, 0));
}

static bool fences_finish(void *self, void *stream) {
    const tn__cuda *cuda = self;
    return fences_worked(cuda, cuda->cudaStreamSynchronize(stream));
}

static tn_status fences_reach(void *self, void *event, tn_error *error) {
    const tn__cuda *cuda = self;
    int status = cuda->cudaEventSynchronize(event);
    return tn__cuda_status(cuda, status, "waiting for the last user of a block", error);
}

static tn_status fences_settle(void *self, tn_error *error) {
    const tn__cuda *cuda = self;
    int status = cuda->cudaDeviceSynchronize();
    return tn__cuda_status(cuda, status, "waiting for the device", error);
}

static const tn__stream_fences_ways fences_ways = {
    .create = fences_create,
    .destroy = fences_destroy,
    .record = fences_record,
    .wait = fences_wait,
    .finish = fences_finish,
    .reach = fences_reach,
    .settle = fences_settle,
};

void tn__fences_turns(tn__stream_fences *turns, const tn_context *context, const tn__cuda *cuda) {
    tn__stream_fences_init(turns, context, &fences_ways, (void *)(uintptr_t)cuda);
}

/* --- block table ------------------------------------------------------------------------------ */

/* The block table is a hash table with open addressing: linear probing, at most half full. When an
 * entry is removed, later entries move up (Knuth, volume 3, 6.4, algorithm R). */

enum { TABLE_FIRST = 256 };

static void table_init(tn__block_table *table, const tn_context *context) {
    *table = (tn__block_table){.context = context};
}

static void table_release(tn__block_table *table) {
    tn__free(table->context, table->places, table->room * sizeof *table->places);
    table_init(table, table->context);
}

static size_t table_home(const tn__block_table *table, uint64_t offset) {
    /* offsets are multiples of a power of two, so the bits are mixed */
    uint64_t hash = offset * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32) & (table->room - 1);
}

/* Returns the entry of an offset, or the empty entry in which it belongs. */
static tn__block_entry *table_probe(const tn__block_table *table, uint64_t offset) {
    size_t at = table_home(table, offset);
    while (table->places[at].size != 0 && table->places[at].offset != offset)
        at = (at + 1) & (table->room - 1);
    return &table->places[at];
}

/* Makes the table large enough for one more entry; false if memory is out. */
static bool table_room(tn__block_table *table) {
    if (2 * (table->count + 1) <= table->room) return true;
    tn__block_table wider = *table;
    wider.room = table->room == 0 ? TABLE_FIRST : 2 * table->room;
    wider.places = tn__alloc_array(table->context, wider.room, sizeof *wider.places);
    if (wider.places == NULL) return false;
    for (size_t i = 0; i < table->room; i++)
        if (table->places[i].size != 0)
            *table_probe(&wider, table->places[i].offset) = table->places[i];
    tn__free(table->context, table->places, table->room * sizeof *table->places);
    *table = wider;
    return true;
}

/* Adds a block that is not in the table yet. The table must be large enough. */
static void table_add(tn__block_table *table, const tn__block_entry *block) {
    tn_assert(block->size != 0);
    *table_probe(table, block->offset) = *block;
    table->count++;
}

/* Returns the block that begins at `offset`, valid until the table changes; NULL if no block begins
 * there. */
static tn__block_entry *table_find(const tn__block_table *table, uint64_t offset) {
    if (table->room == 0) return NULL;
    tn__block_entry *found = table_probe(table, offset);
    return found->size != 0 ? found : NULL;
}

static void table_remove(tn__block_table *table, tn__block_entry *block) {
    size_t mask = table->room - 1, hole = (size_t)(block - table->places);
    for (size_t at = (hole + 1) & mask; table->places[at].size != 0; at = (at + 1) & mask) {
        size_t home = table_home(table, table->places[at].offset);
        /* keeps the entry in place if its preferred index is after the hole */
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        table->places[hole] = table->places[at];
        hole = at;
    }
    table->places[hole].size = 0;
    table->count--;
}

/* --- the device arena ------------------------------------------------------------------------- */

/* The alignment of every block, equal to that of PyTorch's own allocator, which kernels rely on. */
#define ARENA_ALIGNMENT 512u

/* --- opening and closing the arena --- */

/* Allocates `bytes` in one block; bytes before the first aligned address are not used. CUDA
 * guarantees only a smaller alignment than ARENA_ALIGNMENT, but provides it in practice. Returns a
 * status of CUDA. */
static int arena_get(tn__device_arena *arena, uint64_t bytes) {
    const tn__cuda *cuda = arena->cuda;
    if (bytes > SIZE_MAX) return TN__CUDA_NO_MEMORY;
    int status = cuda->cudaMalloc(&arena->whole, (size_t)bytes);
    if (status != TN__CUDA_OK) return status;
    uint64_t front = -(uintptr_t)arena->whole & (ARENA_ALIGNMENT - 1);
    arena->base = (char *)arena->whole + front;
    arena->capacity = (bytes - front) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    return arena->capacity > 0 ? status : TN__CUDA_NO_MEMORY;
}

/* Allocates as many tenths of the free memory as are available in one block. */
static int arena_get_most(tn__device_arena *arena) {
    const tn__cuda *cuda = arena->cuda;
    size_t available = 0, total = 0;
    int status = cuda->cudaMemGetInfo(&available, &total);
    uint64_t tenth = available / 10 / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (status == TN__CUDA_OK) status = tenth == 0 ? TN__CUDA_NO_MEMORY : TN__CUDA_OK;
    if (status != TN__CUDA_OK) return status;
    for (uint64_t part = 9; part > 0; part--) {
        status = arena_get(arena, part * tenth);
        if (status != TN__CUDA_NO_MEMORY) break;
        if (part > 1) (void)cuda->cudaGetLastError();
    }
    return status;
}

static tn_status arena_open_block(tn__device_arena *arena, uint64_t budget, tn_error *error) {
    char text[TN_SIZE_TEXT_MAX], what[TN_SIZE_TEXT_MAX + 40] = "memory for its pool";
    uint64_t bytes = budget / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (budget != 0) {
        if (bytes == 0)
            TN_FAIL(error, TN_E_INVALID, "a budget has at least %u bytes", ARENA_ALIGNMENT);
        snprintf(what, sizeof what, "a budget of %s", tn_size_format(bytes, text));
    }
    int status = bytes != 0 ? arena_get(arena, bytes) : arena_get_most(arena);
    return tn__cuda_status(arena->cuda, status, what, error);
}

static tn_status arena_open_pages(tn__device_arena *arena, uint64_t budget, tn_error *error) {
    TN_TRY(
        tn__pages_open(&arena->pages, &arena->context, arena->cuda, arena->device, budget, error));
    arena->base = (char *)(uintptr_t)arena->pages.base;
    arena->capacity = arena->pages.count * arena->pages.size;
    return TN_OK;
}

static tn_status arena_open_here(tn__device_arena *arena, const tn__device_arena_options *options,
                                 tn_error *error) {
    if (options->memory == TN__DEVICE_ARENA_PAGES)
        TN_TRY(arena_open_pages(arena, options->budget, error));
    else
        TN_TRY(arena_open_block(arena, options->budget, error));
    tn_pool_options pool = TN_POOL_OPTIONS_INIT;
    pool.context = &arena->context;
    pool.pool = options->pool != NULL ? options->pool : "iteration";
    pool.capacity = arena->capacity;
    pool.alignment = ARENA_ALIGNMENT;
    pool.is_sparse = arena->pages.size != 0;
    return tn_pool_create(&pool, &arena->pool, error);
}

static void arena_open_watch(tn__device_arena *arena) {
    char source[32];
    snprintf(source, sizeof source, "cuda:%d", arena->device);
    tn__watched_open(&arena->watched, source, &arena->context);
}

static void arena_name_trace(tn__device_arena *arena, const char *path) {
    if (path == NULL || path[0] == '\0') return;
    if (arena->device == 0)
        snprintf(arena->trace_path, sizeof arena->trace_path, "%s", path);
    else
        snprintf(arena->trace_path, sizeof arena->trace_path, "%s.cuda%d", path, arena->device);
}

tn_status tn__device_arena_open(const tn__device_arena_options *options, const tn__cuda *cuda,
                                int device, tn__device_arena **arena, tn_error *error) {
    tn_context context = tn__context(options->context);
    TN_TRY(tn__cuda_check_device(cuda, device, error));
    tn__device_arena *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "the records of a device's memory");
    made->context = context;
    made->cuda = cuda;
    made->device = device;
    tn__fences_turns(&made->turns, &made->context, cuda);
    table_init(&made->table, &made->context);
    tn__names_init(&made->names, &made->context);
    tn__arena_init(&made->words, &made->context);
    arena_name_trace(made, options->trace);
    tn__trace_open(&made->trace, made->trace_path, true);
    int before, entered = tn__cuda_enter(cuda, device, &before);
    tn_status status = tn__cuda_status(cuda, entered, "making it current", error);
    if (status == TN_OK) status = arena_open_here(made, options, error);
    tn__cuda_leave(cuda, device, before);
    if (status == TN_OK && options->watches) arena_open_watch(made);
    if (status == TN_OK)
        *arena = made;
    else
        tn__device_arena_close(made);
    return status;
}

void tn__device_arena_close(tn__device_arena *arena) {
    if (arena == NULL) return;
    tn_context context = arena->context;
    int before, entered = tn__cuda_enter(arena->cuda, arena->device, &before);
    if (entered == TN__CUDA_OK) /* if the device is lost, its memory is gone too */
        (void)arena->cuda->cudaDeviceSynchronize();
    tn__stream_fences_release(&arena->turns);
    if (arena->pages.size != 0) tn__pages_close(&arena->pages, entered == TN__CUDA_OK);
    if (arena->whole != NULL) (void)arena->cuda->cudaFree(arena->whole);
    tn__cuda_leave(arena->cuda, arena->device, before);
    tn__trace_close(&arena->trace);
    tn__watched_close(&arena->watched);
    table_release(&arena->table);
    tn_pool_destroy(arena->pool);
    tn__names_release(&arena->names);
    tn__arena_release(&arena->words);
    tn__free(&context, arena->streams, arena->stream_room * sizeof *arena->streams);
    tn__free(&context, arena, sizeof *arena);
}

/* --- blocks --- */

/* Finds the number of a stream, which is numbered if it is new. False if memory is out. Few streams
 * are in use at a time, and their handles recur. */
static bool arena_number(tn__device_arena *arena, void *stream, uint32_t *number) {
    for (size_t i = 0; i < arena->stream_count; i++) {
        if (arena->streams[i] != stream) continue;
        *number = (uint32_t)i;
        return true;
    }
    if (arena->stream_count == UINT32_MAX ||
        !tn__reserve(&arena->context, &arena->streams, &arena->stream_room, arena->stream_count + 1,
                     sizeof *arena->streams))
        return false;
    *number = (uint32_t)arena->stream_count;
    arena->streams[arena->stream_count++] = stream;
    return true;
}

/* Returns the tag of a name. If the name cannot be stored, the block gets no tag, because that is
 * no reason to refuse memory. */
static uint32_t arena_tag(tn__device_arena *arena, const char *call_site) {
    uint32_t tag = 0, known = TN__NAMES_NONE;
    if (call_site == NULL || call_site[0] == '\0') return 0;
    known = tn__names_find(&arena->names, call_site, strlen(call_site));
    if (known != TN__NAMES_NONE) return known;
    char *kept = tn__arena_string(&arena->words, call_site, strlen(call_site));
    if (kept == NULL || tn_pool_tag(arena->pool, &(tn_pool_label){.name = kept}, &tag, NULL))
        return 0;
    (void)tn__names_add(&arena->names, kept, strlen(kept), tag, NULL);
    return tag;
}

/* Provides memory for the block, and waits for streams that may still use its bytes. */
static tn_status arena_settle(tn__device_arena *arena, const tn_allocation *got, void *stream,
                              tn_error *error) {
    int before, entered = tn__cuda_enter(arena->cuda, arena->device, &before);
    tn_status status = tn__cuda_status(arena->cuda, entered, "making it current", error);
    bool has_pages = status == TN_OK && arena->pages.size != 0;
    if (has_pages) status = tn__pages_take(&arena->pages, got->offset, got->size, error);
    if (status == TN_OK) {
        status = tn__stream_fences_take(&arena->turns, got->offset, got->offset + got->size, stream,
                                        error);
        if (status != TN_OK && has_pages) tn__pages_give(&arena->pages, got->offset, got->size);
    }
    tn__cuda_leave(arena->cuda, arena->device, before);
    return status;
}

static tn_status arena_get_block(tn__device_arena *arena, const tn_pool_request *request,
                                 void *stream, tn_allocation *got, tn_error *error) {
    TN_TRY(tn_pool_alloc(arena->pool, request, got, error));
    tn_status status = arena_settle(arena, got, stream, error);
    if (status != TN_OK) TN_TRY(tn_pool_free(arena->pool, got->id, NULL));
    return status;
}

/* Whether the request could fit at another offset, once the pool has given up its plan. */
static bool arena_may_fit(const tn__device_arena *arena, uint64_t size) {
    const tn__pages *pages = &arena->pages;
    return pages->size != 0 &&
           tn__add_sat(arena->held, size) <= tn__mul_sat(pages->limit, pages->size);
}

tn_status tn__device_arena_alloc(tn__device_arena *arena, uint64_t size, void *stream,
                                 const char *call_site, void **pointer, tn_error *error) {
    tn_pool_request request = {.size = size, .tag = arena_tag(arena, call_site)};
    tn_allocation got;
    if (!table_room(&arena->table) || !arena_number(arena, stream, &request.stream))
        return tn__no_memory(error, "the records of blocks");
    tn_status status = arena_get_block(arena, &request, stream, &got, error);
    if (status == TN_E_EXHAUSTED && arena_may_fit(arena, size)) {
        (void)tn_pool_empty_cache(arena->pool);
        status = arena_get_block(arena, &request, stream, &got, error);
    }
    TN_TRY(status);
    tn__block_entry block = {.offset = got.offset,
                             .size = got.size,
                             .id = got.id,
                             .name = arena->count++,
                             .stream_count = 1,
                             .streams = {stream}};
    tn_watch_label label = {.line = call_site, .block_size = size};
    tn__watched_alloc(&arena->watched, &label, size, request.stream, &block.watched);
    table_add(&arena->table, &block);
    arena->held += got.size;
    tn__trace_alloc(&arena->trace, block.name, (size_t)size, 0, request.stream, call_site);
    *pointer = arena->base + got.offset;
    return TN_OK;
}

bool tn__device_arena_owns(const tn__device_arena *arena, const void *pointer) {
    return (uintptr_t)pointer - (uintptr_t)arena->base < arena->capacity;
}

static tn_status arena_find(const tn__device_arena *arena, const void *pointer,
                            tn__block_entry **block, tn_error *error) {
    uint64_t offset = (uintptr_t)pointer - (uintptr_t)arena->base;
    *block = tn__device_arena_owns(arena, pointer) ? table_find(&arena->table, offset) : NULL;
    if (*block != NULL) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "%p is no block of cuda:%d: freed before, or never given", pointer,
            arena->device);
}

tn_status tn__device_arena_free(tn__device_arena *arena, void *pointer, tn_error *error) {
    tn__block_entry *found;
    TN_TRY(arena_find(arena, pointer, &found, error));
    tn__block_entry block = *found;
    table_remove(&arena->table, found);
    arena->held -= block.size;
    tn_watch_free(arena->watched.watch, &block.watched);
    int before, entered = tn__cuda_enter(arena->cuda, arena->device, &before);
    if (block.stream_count == 0 || entered != TN__CUDA_OK)
        tn__stream_fences_owe(&arena->turns);
    else
        tn__stream_fences_give(&arena->turns, block.offset, block.offset + block.size,
                               block.streams, block.stream_count);
    if (arena->pages.size != 0) tn__pages_give(&arena->pages, block.offset, block.size);
    tn__cuda_leave(arena->cuda, arena->device, before);
    tn__trace_free(&arena->trace, block.name);
    return tn_pool_free(arena->pool, block.id, error);
}

tn_status tn__device_arena_use(tn__device_arena *arena, void *pointer, void *stream,
                               tn_error *error) {
    tn__block_entry *block;
    TN_TRY(arena_find(arena, pointer, &block, error));
    for (uint32_t i = 0; i < block->stream_count; i++)
        if (block->streams[i] == stream) return TN_OK;
    if (block->stream_count == TN__STREAM_FENCES_STREAMS) block->stream_count = 0;
    if (block->stream_count > 0) block->streams[block->stream_count++] = stream;
    return TN_OK;
}

void tn__device_arena_trim(tn__device_arena *arena) {
    (void)tn_pool_empty_cache(arena->pool);
    if (arena->pages.size == 0) return;
    int before, entered = tn__cuda_enter(arena->cuda, arena->device, &before);
    if (entered == TN__CUDA_OK) tn__pages_trim(&arena->pages);
    tn__cuda_leave(arena->cuda, arena->device, before);
}
