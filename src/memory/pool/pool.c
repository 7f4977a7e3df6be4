/* pool.c - the code around every technique: checks requests, locks, counts.
 *
 * A technique gets requests that are valid and rounded, with records for their chunks reserved. So
 * its work on chunks cannot fail for lack of host memory. Peaks and sums are counted here, from the
 * sizes of the chunks handed out, in the same way for all techniques.
 */
#include "memory/pool/chunks.h"

#include <inttypes.h>

#define POOL_ALIGNMENT 64u
#define POOL_ALIGNMENT_MAX (1ull << 30)

#define TN_POOL(name) extern const tn__technique tn__pool_##name;
#include "memory/pool/pools.def"
#undef TN_POOL

static const tn__technique *const techniques[] = {
#define TN_POOL(name) &tn__pool_##name,
#include "memory/pool/pools.def"
#undef TN_POOL
};

uint32_t tn_pool_count(void) { return (uint32_t)(sizeof techniques / sizeof *techniques); }
const char *tn_pool_name(uint32_t index) { return techniques[index]->name; }
const char *tn_pool_summary(uint32_t index) { return techniques[index]->summary; }
const char *tn__pool_source(uint32_t index) { return techniques[index]->source; }

static const tn__technique *pool_find(const char *name) {
    for (uint32_t i = 0; i < tn_pool_count(); i++)
        if (strcmp(techniques[i]->name, name) == 0) return techniques[i];
    return NULL;
}

/* --- creating --- */

static tn_status pool_check_options(const tn_pool_options *options, const tn__technique **technique,
                                    tn_error *error) {
    const char *name = options->pool != NULL ? options->pool : "best-fit";
    uint64_t alignment = options->alignment;
    *technique = pool_find(name);
    if (*technique == NULL) {
        char asked[TN__NEAR_TEXT];
        TN_FAIL(error, TN_E_UNKNOWN, "there is no pool '%.80s'; %s", name,
                tn__near_of(name, tn_pool_count(), tn_pool_name, "see `tn_pool_name`", asked));
    }
    if (alignment > POOL_ALIGNMENT_MAX || (alignment != 0 && !tn__is_power_of_two(alignment)))
        TN_FAIL(error, TN_E_INVALID,
                "the alignment of a pool is a power of two up to 2^30, not %" PRIu64, alignment);
    if (options->capacity > TN_POOL_CAPACITY_MAX)
        TN_FAIL(error, TN_E_INVALID, "a pool has at most 2^62 bytes, not %" PRIu64,
                options->capacity);
    bool has_plan = options->planned_count > 0;
    if (has_plan != (*technique)->is_planned)
        TN_FAIL(error, TN_E_INVALID,
                has_plan ? "pool %s takes no sizes and offsets" : "pool %s needs sizes and offsets",
                name);
    if (has_plan && (options->sizes == NULL || options->offsets == NULL))
        TN_FAIL(error, TN_E_INVALID, "a plan has both sizes and offsets");
    return TN_OK;
}

static tn_status pool_open(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    uint64_t capacity = options->capacity != 0 ? options->capacity : TN_POOL_CAPACITY_MAX;
    uint64_t unit = options->alignment != 0 ? options->alignment : POOL_ALIGNMENT;
    if (unit < pool->technique->unit) unit = pool->technique->unit;
    if (pool->technique->is_planned) unit = 1;
    pool->unit = unit;
    pool->capacity = pool->usage.capacity = capacity & ~(unit - 1);
    pool->limit = pool->capacity;
    if (pool->capacity == 0)
        TN_FAIL(error, TN_E_INVALID,
                "a pool of %" PRIu64 " bytes has no room for a block of %" PRIu64, capacity, unit);
    if (pool->technique->state_size > 0) {
        pool->state = tn__alloc_array(&pool->context, 1, pool->technique->state_size);
        if (pool->state == NULL) return tn__no_memory(error, "a pool");
    }
    if (!tn__chunks_room(pool)) return tn__no_memory(error, "the chunks of a pool");
    uint32_t whole = tn__chunk_new(pool);
    tn_assert(whole == 0);
    pool->chunks[whole].size = pool->capacity;
    pool->chunks[whole].state = TN__CHUNK_OUTSIDE;
    pool->last = whole;
    uint32_t nobody;
    TN_TRY(tn_pool_tag(pool, &(tn_pool_label){0}, &nobody, error));
    return pool->technique->open(pool, options, error);
}

tn_status tn_pool_create(const tn_pool_options *given, tn_pool **pool, tn_error *error) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    const tn__technique *technique;
    tn__options(&options, sizeof options, given);
    TN_TRY(pool_check_options(&options, &technique, error));
    tn_context context = tn__context(options.context);
    tn_pool *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a pool");
    made->context = context;
    made->technique = technique;
    made->vacant = TN__CHUNK_NONE;
    made->settle = options.settle;
    made->settle_self = options.settle_self;
    made->release = options.release;
    made->release_self = options.release_self;
    made->is_sparse = options.is_sparse;
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        tn__free(&context, made, sizeof *made);
        return tn__no_memory(error, "the lock of a pool");
    }
    tn__arena_init(&made->words, &made->context);
    tn_status status = pool_open(made, &options, error);
    if (status == TN_OK)
        *pool = made;
    else
        tn_pool_destroy(made);
    return status;
}

void tn_pool_destroy(tn_pool *pool) {
    if (pool == NULL) return;
    tn_context context = pool->context;
    if (pool->technique->close != NULL && pool->state != NULL) pool->technique->close(pool);
    tn__holders_release(pool);
    tn__arena_release(&pool->words);
    tn__free(&context, pool->labels, pool->label_room * sizeof *pool->labels);
    tn__free(&context, pool->chunks, pool->chunk_room * sizeof *pool->chunks);
    tn__free(&context, pool->state, pool->technique->state_size);
    pthread_mutex_destroy(&pool->lock);
    tn__free(&context, pool, sizeof *pool);
}

/* --- labels --- */

static const char *pool_word(tn_pool *pool, const char *word) {
    if (word == NULL || word[0] == '\0') return "";
    return tn__arena_string(&pool->words, word, strlen(word));
}

tn_status tn_pool_tag(tn_pool *pool, const tn_pool_label *label, uint32_t *tag, tn_error *error) {
    pthread_mutex_lock(&pool->lock);
    tn_pool_label copy = {pool_word(pool, label->name), pool_word(pool, label->kind),
                          pool_word(pool, label->op)};
    bool done = copy.name != NULL && copy.kind != NULL && copy.op != NULL &&
                pool->label_count < UINT32_MAX &&
                tn__reserve(&pool->context, &pool->labels, &pool->label_room, pool->label_count + 1,
                            sizeof *pool->labels);
    if (done) {
        *tag = (uint32_t)pool->label_count;
        pool->labels[pool->label_count++] = copy;
    }
    pthread_mutex_unlock(&pool->lock);
    return done ? TN_OK : tn__no_memory(error, "the labels of a pool");
}

/* --- allocating --- */

static void pool_raise_peaks(tn_pool *pool) {
    tn_pool_usage *usage = &pool->usage;
    if (usage->requested > usage->requested_peak) usage->requested_peak = usage->requested;
    if (pool->reserved > usage->reserved_peak) usage->reserved_peak = pool->reserved;
    if (usage->allocated <= usage->allocated_peak) return;
    usage->allocated_peak = usage->allocated;
    tn__holders_mark(pool, &pool->peak);
}

/* Takes a chunk for the request. A request of 0 bytes gets a record that is not in the list of
 * chunks. */
static tn_status pool_take(tn_pool *pool, const tn_pool_request *request, uint32_t *chunk,
                           tn_error *error) {
    tn__want want = {.requested = request->size,
                     .alignment = request->alignment,
                     .stream = request->stream,
                     .long_lived = (request->flags & TN_POOL_LONG_LIVED) != 0};
    if (request->size == 0) {
        *chunk = tn__chunk_new(pool);
        pool->chunks[*chunk].is_empty = true;
        return TN_OK;
    }
    if (request->size > pool->capacity) return TN_E_EXHAUSTED;
    want.size = (request->size + pool->unit - 1) & ~(pool->unit - 1);
    if (want.alignment < pool->unit) want.alignment = pool->unit;
    return pool->technique->take(pool, &want, chunk, error);
}

static tn_status pool_alloc(tn_pool *pool, const tn_pool_request *request,
                            tn_allocation *allocation, tn_error *error) {
    uint32_t id;
    if (request->tag >= pool->label_count)
        TN_FAIL(error, TN_E_INVALID, "there is no tag %u", request->tag);
    if (!tn__chunks_room(pool) || !tn__holders_room(pool))
        return tn__no_memory(error, "the records of a pool");
    tn_pool_usage *usage = &pool->usage;
    tn_status status = pool_take(pool, request, &id, error);
    if (status != TN_OK) {
        usage->failed_count++;
        usage->alloc_count++;
        if (status != TN_E_EXHAUSTED) return status;
        tn__holders_mark(pool, &pool->failed);
        return tn__holders_exhausted(pool, request, error);
    }
    tn__chunk *chunk = &pool->chunks[id];
    tn_assert(chunk->size >= request->size && chunk->offset + chunk->size <= pool->capacity);
    chunk->state = TN__CHUNK_USED;
    chunk->requested = request->size;
    chunk->lane = request->stream;
    chunk->tag = request->tag;
    chunk->birth = ++usage->alloc_count;
    usage->block_count++;
    usage->requested += request->size;
    usage->allocated += chunk->size;
    pool_raise_peaks(pool);
    *allocation = (tn_allocation){
        .id = (uint64_t)chunk->generation << 32 | id, .offset = chunk->offset, .size = chunk->size};
    return TN_OK;
}

tn_status tn_pool_alloc(tn_pool *pool, const tn_pool_request *request, tn_allocation *allocation,
                        tn_error *error) {
    if (request->alignment > POOL_ALIGNMENT_MAX ||
        (request->alignment & (request->alignment - 1)) != 0)
        TN_FAIL(error, TN_E_INVALID, "an alignment is a power of two up to 2^30, not %" PRIu64,
                request->alignment);
    if (__atomic_load_n(&pool->is_due, __ATOMIC_RELAXED)) {
        __atomic_store_n(&pool->is_due, false, __ATOMIC_RELAXED);
        pool->technique->rest(pool);
    }
    pthread_mutex_lock(&pool->lock);
    tn_status status = pool_alloc(pool, request, allocation, error);
    tn_audit(tn__pool_check(pool) == NULL);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

static tn_status pool_free(tn_pool *pool, uint64_t id, tn_error *error) {
    uint32_t index = (uint32_t)id;
    tn__chunk *chunk = index < pool->chunk_count ? &pool->chunks[index] : NULL;
    if (chunk == NULL || chunk->state != TN__CHUNK_USED || chunk->generation != id >> 32)
        TN_FAIL(error, TN_E_INVALID,
                "%" PRIu64 " is not a block in use of this pool: freed before, or never given", id);
    tn_pool_usage *usage = &pool->usage;
    tn__holders_leave(pool, chunk);
    usage->block_count--;
    usage->free_count++;
    usage->requested -= chunk->requested;
    usage->allocated -= chunk->size;
    chunk->generation++;
    chunk->state = TN__CHUNK_FREE;
    if (chunk->is_empty)
        tn__chunk_drop(pool, index);
    else
        pool->technique->give(pool, index);
    return TN_OK;
}

tn_status tn_pool_free(tn_pool *pool, uint64_t id, tn_error *error) {
    pthread_mutex_lock(&pool->lock);
    tn_status status = pool_free(pool, id, error);
    tn_audit(tn__pool_check(pool) == NULL);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

uint64_t tn_pool_empty_cache(tn_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    uint64_t bytes = pool->technique->trim != NULL ? pool->technique->trim(pool) : 0;
    pthread_mutex_unlock(&pool->lock);
    return bytes;
}

/* --- measuring --- */

static double pool_lost(uint64_t useful, uint64_t held) {
    return held == 0 ? 0 : 1 - (double)useful / (double)held;
}

uint64_t tn__pool_reserved(tn_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    uint64_t reserved = pool->reserved;
    pthread_mutex_unlock(&pool->lock);
    return reserved;
}

void tn_pool_measure(tn_pool *pool, tn_pool_usage *usage) {
    pthread_mutex_lock(&pool->lock);
    *usage = pool->usage;
    usage->reserved = pool->reserved;
    usage->largest_free = tn__pool_largest_free(pool);
    pthread_mutex_unlock(&pool->lock);
    usage->internal_fragmentation = pool_lost(usage->requested, usage->allocated);
    usage->external_fragmentation = pool_lost(usage->allocated, usage->reserved);
}

void tn_pool_learned(tn_pool *pool, tn_pool_lesson *lesson) {
    *lesson = (tn_pool_lesson){0};
    pthread_mutex_lock(&pool->lock);
    if (pool->technique->lesson != NULL) pool->technique->lesson(pool, lesson);
    pthread_mutex_unlock(&pool->lock);
}

void tn__pool_reset_peaks(tn_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    tn_pool_usage *usage = &pool->usage;
    usage->requested_peak = usage->requested;
    usage->allocated_peak = usage->allocated;
    usage->reserved_peak = pool->reserved;
    tn__holders_mark(pool, &pool->peak);
    pthread_mutex_unlock(&pool->lock);
}
