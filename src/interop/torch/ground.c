/* ground.c - turns offsets of a pool into addresses of a device. */
#include "interop/torch/ground.h"

#include <inttypes.h>
#include <stdio.h>

/* The alignment of every block, equal to that of PyTorch's own allocator, which kernels rely on. */
#define GROUND_ALIGNMENT 512u

/* --- opening and closing --- */

/* Allocates `bytes` in one block; bytes before the first aligned address are not used. CUDA
 * guarantees an alignment below GROUND_ALIGNMENT, but provides it in practice. Returns a status of
 * CUDA. */
static int ground_get(tn__ground *ground, uint64_t bytes) {
    const tn__cuda *cuda = ground->cuda;
    if (bytes > SIZE_MAX) return TN__CUDA_NO_MEMORY;
    int status = cuda->cudaMalloc(&ground->whole, (size_t)bytes);
    if (status != TN__CUDA_OK) return status;
    uint64_t front = -(uintptr_t)ground->whole & (GROUND_ALIGNMENT - 1);
    ground->base = (char *)ground->whole + front;
    ground->capacity = (bytes - front) / GROUND_ALIGNMENT * GROUND_ALIGNMENT;
    return ground->capacity > 0 ? status : TN__CUDA_NO_MEMORY;
}

/* Allocates as many tenths of the free memory as fit one block. */
static int ground_get_most(tn__ground *ground) {
    const tn__cuda *cuda = ground->cuda;
    size_t available = 0, total = 0;
    int status = cuda->cudaMemGetInfo(&available, &total);
    uint64_t tenth = available / 10 / GROUND_ALIGNMENT * GROUND_ALIGNMENT;
    if (status == TN__CUDA_OK) status = tenth == 0 ? TN__CUDA_NO_MEMORY : TN__CUDA_OK;
    if (status != TN__CUDA_OK) return status;
    for (uint64_t part = 9; part > 0; part--) {
        status = ground_get(ground, part * tenth);
        if (status != TN__CUDA_NO_MEMORY) break;
        if (part > 1) (void)cuda->cudaGetLastError();
    }
    return status;
}

static tn_status ground_open_block(tn__ground *ground, uint64_t budget, tn_error *error) {
    char text[TN_SIZE_TEXT_MAX], what[TN_SIZE_TEXT_MAX + 40] = "memory for its pool";
    uint64_t bytes = budget / GROUND_ALIGNMENT * GROUND_ALIGNMENT;
    if (budget != 0) {
        if (bytes == 0)
            TN_FAIL(error, TN_E_INVALID, "a budget has at least %u bytes", GROUND_ALIGNMENT);
        snprintf(what, sizeof what, "a budget of %s", tn_size_format(bytes, text));
    }
    int status = bytes != 0 ? ground_get(ground, bytes) : ground_get_most(ground);
    return tn__cuda_status(ground->cuda, status, what, error);
}

static tn_status ground_open_granules(tn__ground *ground, uint64_t budget, tn_error *error) {
    TN_TRY(tn__granules_open(&ground->granules, &ground->context, ground->cuda, ground->device,
                             budget, error));
    ground->base = (char *)(uintptr_t)ground->granules.base;
    ground->capacity = ground->granules.count * ground->granules.size;
    return TN_OK;
}

static tn_status ground_open_here(tn__ground *ground, const tn__ground_options *options,
                                  tn_error *error) {
    if (options->memory == TN__GROUND_GRANULES)
        TN_TRY(ground_open_granules(ground, options->budget, error));
    else
        TN_TRY(ground_open_block(ground, options->budget, error));
    tn_pool_options pool = TN_POOL_OPTIONS_INIT;
    pool.context = &ground->context;
    pool.pool = options->pool != NULL ? options->pool : "iteration";
    pool.capacity = ground->capacity;
    pool.alignment = GROUND_ALIGNMENT;
    pool.is_sparse = ground->granules.size != 0;
    return tn_pool_create(&pool, &ground->pool, error);
}

static void ground_name_trace(tn__ground *ground, const char *path) {
    if (path == NULL || path[0] == '\0') return;
    if (ground->device == 0)
        snprintf(ground->trace_path, sizeof ground->trace_path, "%s", path);
    else
        snprintf(ground->trace_path, sizeof ground->trace_path, "%s.cuda%d", path, ground->device);
}

tn_status tn__ground_open(const tn__ground_options *options, const tn__cuda *cuda, int device,
                          tn__ground **ground, tn_error *error) {
    tn_context context = tn__context(options->context);
    TN_TRY(tn__cuda_check_device(cuda, device, error));
    tn__ground *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "the records of a device's memory");
    made->context = context;
    made->cuda = cuda;
    made->device = device;
    tn__events_turns(&made->turns, &made->context, cuda);
    tn__lots_init(&made->lots, &made->context);
    tn__names_init(&made->names, &made->context);
    tn__arena_init(&made->words, &made->context);
    ground_name_trace(made, options->trace);
    tn__trace_open(&made->trace, made->trace_path, true);
    int before, entered = tn__cuda_enter(cuda, device, &before);
    tn_status status = tn__cuda_status(cuda, entered, "making it current", error);
    if (status == TN_OK) status = ground_open_here(made, options, error);
    tn__cuda_leave(cuda, device, before);
    if (status == TN_OK)
        *ground = made;
    else
        tn__ground_close(made);
    return status;
}

void tn__ground_close(tn__ground *ground) {
    if (ground == NULL) return;
    tn_context context = ground->context;
    int before, entered = tn__cuda_enter(ground->cuda, ground->device, &before);
    if (entered == TN__CUDA_OK) /* if the device is lost, its memory is gone too */
        (void)ground->cuda->cudaDeviceSynchronize();
    tn__stream_fences_release(&ground->turns);
    if (ground->granules.size != 0) tn__granules_close(&ground->granules, entered == TN__CUDA_OK);
    if (ground->whole != NULL) (void)ground->cuda->cudaFree(ground->whole);
    tn__cuda_leave(ground->cuda, ground->device, before);
    tn__trace_close(&ground->trace);
    tn__lots_release(&ground->lots);
    tn_pool_destroy(ground->pool);
    tn__names_release(&ground->names);
    tn__arena_release(&ground->words);
    tn__free(&context, ground->streams, ground->stream_room * sizeof *ground->streams);
    tn__free(&context, ground, sizeof *ground);
}

/* --- blocks --- */

/* Numbers a stream. False: out of memory. Few streams are in use at a time, and their handles
 * recur. */
static bool ground_number(tn__ground *ground, void *stream, uint32_t *number) {
    for (size_t i = 0; i < ground->stream_count; i++) {
        if (ground->streams[i] != stream) continue;
        *number = (uint32_t)i;
        return true;
    }
    if (ground->stream_count == UINT32_MAX ||
        !tn__reserve(&ground->context, &ground->streams, &ground->stream_room,
                     ground->stream_count + 1, sizeof *ground->streams))
        return false;
    *number = (uint32_t)ground->stream_count;
    ground->streams[ground->stream_count++] = stream;
    return true;
}

/* The tag of a name. If the name cannot be stored the block gets no tag; that is no reason to
 * refuse memory. */
static uint32_t ground_tag(tn__ground *ground, const char *who) {
    uint32_t tag = 0, known = TN__NAMES_NONE;
    if (who == NULL || who[0] == '\0') return 0;
    known = tn__names_find(&ground->names, who, strlen(who));
    if (known != TN__NAMES_NONE) return known;
    char *kept = tn__arena_string(&ground->words, who, strlen(who));
    if (kept == NULL || tn_pool_tag(ground->pool, &(tn_pool_label){.name = kept}, &tag, NULL))
        return 0;
    (void)tn__names_add(&ground->names, kept, strlen(kept), tag, NULL);
    return tag;
}

/* Provides memory for the block, and waits for streams that may still use its bytes. */
static tn_status ground_settle(tn__ground *ground, const tn_allocation *got, void *stream,
                               tn_error *error) {
    int before, entered = tn__cuda_enter(ground->cuda, ground->device, &before);
    tn_status status = tn__cuda_status(ground->cuda, entered, "making it current", error);
    bool has_granules = status == TN_OK && ground->granules.size != 0;
    if (has_granules) status = tn__granules_take(&ground->granules, got->offset, got->size, error);
    if (status == TN_OK) {
        status = tn__stream_fences_take(&ground->turns, got->offset, got->offset + got->size,
                                        stream, error);
        if (status != TN_OK && has_granules)
            tn__granules_give(&ground->granules, got->offset, got->size);
    }
    tn__cuda_leave(ground->cuda, ground->device, before);
    return status;
}

static tn_status ground_get_block(tn__ground *ground, const tn_pool_request *request, void *stream,
                                  tn_allocation *got, tn_error *error) {
    TN_TRY(tn_pool_alloc(ground->pool, request, got, error));
    tn_status status = ground_settle(ground, got, stream, error);
    if (status != TN_OK) TN_TRY(tn_pool_free(ground->pool, got->id, NULL));
    return status;
}

/* Could the request fit elsewhere, once the pool has given up its plan? */
static bool ground_may_fit(const tn__ground *ground, uint64_t size) {
    const tn__granules *granules = &ground->granules;
    return granules->size != 0 &&
           tn__add_sat(ground->held, size) <= tn__mul_sat(granules->limit, granules->size);
}

tn_status tn__ground_alloc(tn__ground *ground, uint64_t size, void *stream, const char *who,
                           void **pointer, tn_error *error) {
    tn_pool_request request = {.size = size, .tag = ground_tag(ground, who)};
    tn_allocation got;
    if (!tn__lots_room(&ground->lots) || !ground_number(ground, stream, &request.stream))
        return tn__no_memory(error, "the records of blocks");
    tn_status status = ground_get_block(ground, &request, stream, &got, error);
    if (status == TN_E_EXHAUSTED && ground_may_fit(ground, size)) {
        (void)tn_pool_empty_cache(ground->pool);
        status = ground_get_block(ground, &request, stream, &got, error);
    }
    TN_TRY(status);
    tn__lot block = {got.offset, got.size, got.id, ground->count++, 1, {stream}};
    tn__lots_add(&ground->lots, &block);
    ground->held += got.size;
    tn__trace_alloc(&ground->trace, block.name, (size_t)size, 0, request.stream, who);
    *pointer = ground->base + got.offset;
    return TN_OK;
}

bool tn__ground_owns(const tn__ground *ground, const void *pointer) {
    return (uintptr_t)pointer - (uintptr_t)ground->base < ground->capacity;
}

static tn_status ground_find(const tn__ground *ground, const void *pointer, tn__lot **block,
                             tn_error *error) {
    uint64_t offset = (uintptr_t)pointer - (uintptr_t)ground->base;
    *block = tn__ground_owns(ground, pointer) ? tn__lots_find(&ground->lots, offset) : NULL;
    if (*block != NULL) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "%p is no block of cuda:%d: freed before, or never given", pointer,
            ground->device);
}

tn_status tn__ground_free(tn__ground *ground, void *pointer, tn_error *error) {
    tn__lot *found;
    TN_TRY(ground_find(ground, pointer, &found, error));
    tn__lot block = *found;
    tn__lots_remove(&ground->lots, found);
    ground->held -= block.size;
    int before, entered = tn__cuda_enter(ground->cuda, ground->device, &before);
    if (block.stream_count == 0 || entered != TN__CUDA_OK)
        tn__stream_fences_owe(&ground->turns);
    else
        tn__stream_fences_give(&ground->turns, block.offset, block.offset + block.size,
                               block.streams, block.stream_count);
    if (ground->granules.size != 0) tn__granules_give(&ground->granules, block.offset, block.size);
    tn__cuda_leave(ground->cuda, ground->device, before);
    tn__trace_free(&ground->trace, block.name);
    return tn_pool_free(ground->pool, block.id, error);
}

tn_status tn__ground_use(tn__ground *ground, void *pointer, void *stream, tn_error *error) {
    tn__lot *block;
    TN_TRY(ground_find(ground, pointer, &block, error));
    for (uint32_t i = 0; i < block->stream_count; i++)
        if (block->streams[i] == stream) return TN_OK;
    if (block->stream_count == TN__STREAM_FENCES_STREAMS) block->stream_count = 0;
    if (block->stream_count > 0) block->streams[block->stream_count++] = stream;
    return TN_OK;
}

void tn__ground_trim(tn__ground *ground) {
    (void)tn_pool_empty_cache(ground->pool);
    if (ground->granules.size == 0) return;
    int before, entered = tn__cuda_enter(ground->cuda, ground->device, &before);
    if (entered == TN__CUDA_OK) tn__granules_trim(&ground->granules);
    tn__cuda_leave(ground->cuda, ground->device, before);
}
