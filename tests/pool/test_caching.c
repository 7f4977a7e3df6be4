/* test_caching.c - the settings of PYTORCH_CUDA_ALLOC_CONF, compared with a second allocator that
 * follows PyTorch's CUDACachingAllocator.cpp step by step: blocks in doubly linked lists, and free
 * blocks found by looking at all of them. It shares no code with src/memory/pool. Every block must
 * have the same size and the same place in its segment, every moment the same reserved bytes, and
 * the same requests must fail.
 */
#include "count.h"
#include "support.h"

#include <inttypes.h>
#include <stdlib.h>

#include <tenure/pool.h>

#include "base/base.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

#define MIB (UINT64_C(1) << 20)

/* --- PyTorch --- */

typedef struct block block;
struct block {
    block *prev, *next; /* in the segment */
    uint64_t rel, size; /* rel: from the start of the segment */
    uint64_t *base;     /* of the segment, in the addresses of the tested pool */
    int stream;
    bool large, allocated, mapped, expandable, alive;
    uint64_t gc_base;
};

typedef struct torch {
    block *blocks[40000];
    uint32_t count;
    uint64_t reserved, limit, max_split, divisions, span;
    const uint32_t *by_size; /* [TN_POOL_ROUNDUP_SIZES] */
    double gc;
    bool expandable;
    uint64_t calls[2];
} torch;

static block *torch_block(torch *t, block like) {
    block *made = malloc(sizeof *made);
    assert_non_null(made);
    assert_true(t->count < 40000);
    *made = like;
    made->alive = true;
    return t->blocks[t->count++] = made;
}

static uint64_t address(const block *b) { return *b->base + b->rel; }
static bool is_free(const block *b) { return b->alive && !b->allocated && b->mapped; }

static bool size_before(const block *a, const block *b) {
    if (a->size != b->size) return a->size < b->size;
    return address(a) < address(b);
}

/* The first free block of the stream of at least `size`, after `from` in the order. */
static block *lower_bound(torch *t, int stream, bool large, uint64_t size, const block *from) {
    block *best = NULL;
    for (uint32_t i = 0; i < t->count; i++) {
        block *b = t->blocks[i];
        if (!is_free(b) || b->stream != stream || b->large != large || b->size < size) continue;
        if (from != NULL && !size_before(from, b)) continue;
        if (best == NULL || size_before(b, best)) best = b;
    }
    return best;
}

static uint64_t round_size(const torch *t, uint64_t size) {
    if (size < 512) return 512;
    uint64_t divisions = t->divisions;
    if (divisions == 0) {
        uint32_t index = 0;
        while (index < 15 && size >= 2 * MIB << index) index++;
        divisions = t->by_size[index];
    }
    if (divisions > 1 && size > 512 * divisions) {
        if ((size & (size - 1)) == 0) return size;
        uint64_t floor = 1;
        while (floor * 2 <= size) floor *= 2;
        uint64_t division = floor / divisions, down = size - size % division;
        return down == size ? size : down + division;
    }
    return 512 * ((size + 511) / 512);
}

static uint64_t expandable_size(const block *b) {
    return b->size + (b->next != NULL && !b->next->mapped ? b->next->size : 0);
}

static block *get_free_block(torch *t, uint64_t size, int stream, bool large) {
    if (t->gc > 0) t->calls[large]++;
    block *it = lower_bound(t, stream, large, size, NULL);
    if (it == NULL) return NULL;
    if (t->expandable) {
        block *next = lower_bound(t, stream, large, size, it);
        while (next != NULL && expandable_size(next) < expandable_size(it)) {
            it = next;
            next = lower_bound(t, stream, large, size, it);
        }
    }
    if (size < t->max_split && it->size >= t->max_split) return NULL;
    if (t->max_split != UINT64_MAX && size >= t->max_split && it->size >= size + 20 * MIB)
        return NULL;
    return it;
}

static void release_block(torch *t, block *b) {
    assert_true(b->prev == NULL && b->next == NULL && !b->allocated);
    t->reserved -= b->size;
    b->alive = false;
}

static void garbage_collect(torch *t) {
    uint64_t threshold = (uint64_t)(t->gc * (double)t->limit);
    if (t->reserved <= threshold) return;
    uint64_t target = t->reserved - threshold, reclaimed = 0;
    double total_age = 0;
    int freeable = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        block *b = t->blocks[i];
        if (!is_free(b) || !b->large || b->prev != NULL || b->next != NULL) continue;
        total_age += (double)(t->calls[1] - b->gc_base);
        freeable++;
    }
    bool freed = true;
    while (reclaimed < target && freed && freeable > 0) {
        double age_threshold = total_age / freeable;
        freed = false;
        for (uint32_t i = 0; i < t->count; i++) {
            block *b = t->blocks[i];
            if (!is_free(b) || !b->large || b->prev != NULL || b->next != NULL) continue;
            if ((double)(t->calls[1] - b->gc_base) < age_threshold) continue;
            freed = true;
            reclaimed += b->size;
            total_age -= (double)(t->calls[1] - b->gc_base);
            freeable--;
            release_block(t, b);
        }
    }
}

static void merge(block *dst, block *src) { /* as try_merge_blocks */
    if (src == NULL || src->allocated || dst->mapped != src->mapped) return;
    if (dst->prev == src) {
        dst->rel = src->rel;
        dst->prev = src->prev;
        if (dst->prev != NULL) dst->prev->next = dst;
    } else {
        dst->next = src->next;
        if (dst->next != NULL) dst->next->prev = dst;
    }
    dst->size += src->size;
    src->alive = false;
}

static block *split_after(torch *t, block *b, uint64_t size) {
    block like = *b;
    like.rel += size;
    like.size -= size;
    like.prev = b;
    like.allocated = false;
    block *rest = torch_block(t, like);
    if (b->next != NULL) b->next->prev = rest;
    b->next = rest;
    b->size = size;
    return rest;
}

static uint64_t page_of(const block *b) { return (b->large ? 20 : 2) * MIB; }

static bool map_block(torch *t, block *b, uint64_t size) {
    uint64_t page = page_of(b), bytes = (b->rel + size + page - 1) / page * page - b->rel;
    if (t->reserved + bytes > t->limit) return false;
    if (bytes < b->size) split_after(t, b, bytes);
    b->mapped = true;
    merge(b, b->prev);
    merge(b, b->next);
    b->gc_base = t->calls[b->large];
    t->reserved += bytes;
    return true;
}

static bool has_room(const block *b, uint64_t size) {
    uint64_t bytes = 0;
    for (; b != NULL && !b->allocated && bytes < size; b = b->next) bytes += b->size;
    return bytes >= size;
}

static block *try_expandable(torch *t, uint64_t size, int stream, bool large) {
    block *candidate = NULL, *lowest = NULL;
    for (uint64_t above = 0;;) { /* the unmapped blocks by address */
        lowest = NULL;
        for (uint32_t i = 0; i < t->count; i++) {
            block *b = t->blocks[i];
            if (!b->alive || b->mapped || b->stream != stream || b->large != large) continue;
            if (address(b) < above) continue;
            if (lowest == NULL || address(b) < address(lowest)) lowest = b;
        }
        if (lowest == NULL) break;
        above = address(lowest) + 1;
        block *c = lowest->prev != NULL && !lowest->prev->allocated ? lowest->prev : lowest;
        if (has_room(c, size)) {
            candidate = c;
            break;
        }
    }
    if (candidate == NULL) {
        uint64_t *base = malloc(sizeof *base);
        assert_non_null(base);
        *base = UINT64_MAX / 2; /* learned after the first block */
        candidate = torch_block(t, (block){.size = t->span,
                                           .base = base,
                                           .stream = stream,
                                           .large = large,
                                           .expandable = true});
    }
    if (!candidate->mapped &&
        !map_block(t, candidate, candidate->size < size ? candidate->size : size))
        return NULL;
    while (candidate->size < size) {
        block *next = candidate->next;
        uint64_t remaining = size - candidate->size;
        if (!map_block(t, next, remaining < next->size ? remaining : next->size)) return NULL;
        candidate = next;
    }
    return candidate;
}

static block *alloc_block(torch *t, uint64_t size, int stream, bool large) {
    uint64_t bytes = size <= MIB       ? 2 * MIB
                     : size < 10 * MIB ? 20 * MIB
                                       : (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    if (t->expandable) return try_expandable(t, size, stream, large);
    if (t->reserved + bytes > t->limit) return NULL;
    uint64_t *base = malloc(sizeof *base);
    assert_non_null(base);
    *base = UINT64_MAX / 2;
    t->reserved += bytes;
    return torch_block(t, (block){.size = bytes,
                                  .base = base,
                                  .stream = stream,
                                  .large = large,
                                  .mapped = true,
                                  .gc_base = t->calls[large]});
}

static bool release_available(torch *t, uint64_t size, int stream, bool large) {
    if (t->max_split == UINT64_MAX || t->expandable) return false;
    uint64_t key = size < t->max_split ? t->max_split : size, total = 0;
    block *it = lower_bound(t, stream, large, key, NULL);
    if (it != NULL) {
        release_block(t, it);
        return true;
    }
    while (total < key) { /* the largest of the stream */
        block *most = NULL;
        for (uint32_t i = 0; i < t->count; i++) {
            block *b = t->blocks[i];
            if (is_free(b) && b->stream == stream && b->large == large &&
                (most == NULL || size_before(most, b)))
                most = b;
        }
        if (most == NULL || most->size < t->max_split) break;
        total += most->size;
        release_block(t, most);
    }
    return total >= key;
}

static void unmap_block(torch *t, block *b) {
    uint64_t page = page_of(b), from = (b->rel + page - 1) / page * page,
             to = (b->rel + b->size) / page * page;
    if (from >= to) return;
    if (to < b->rel + b->size) split_after(t, b, to - b->rel)->gc_base = t->calls[b->large];
    if (from > b->rel) {
        block *front = b;
        b = split_after(t, b, from - b->rel);
        front->gc_base = t->calls[b->large];
    }
    b->mapped = false;
    t->reserved -= to - from;
    merge(b, b->prev);
    merge(b, b->next);
}

static void release_cached(torch *t) {
    for (uint32_t i = 0, count = t->count; i < count; i++) {
        block *b = t->blocks[i];
        if (!is_free(b)) continue;
        if (b->expandable)
            unmap_block(t, b);
        else if (b->prev == NULL && b->next == NULL)
            release_block(t, b);
    }
}

static block *torch_malloc(torch *t, uint64_t asked, int stream) {
    uint64_t size = round_size(t, asked);
    bool large = size > MIB;
    block *b = get_free_block(t, size, stream, large);
    if (b == NULL) {
        if (t->gc > 0) garbage_collect(t);
        b = alloc_block(t, size, stream, large);
        if (b == NULL && release_available(t, size, stream, large))
            b = alloc_block(t, size, stream, large);
        if (b == NULL) {
            release_cached(t);
            b = alloc_block(t, size, stream, large);
        }
        if (b == NULL) return NULL;
    }
    uint64_t remaining = b->size - size;
    bool split =
        !large || t->expandable ? remaining >= 512 : size < t->max_split && remaining > MIB;
    b->allocated = true;
    if (split) split_after(t, b, size)->gc_base = t->calls[large];
    return b;
}

static void torch_free(torch *t, block *b) {
    b->allocated = false;
    merge(b, b->prev);
    merge(b, b->next);
    b->gc_base = t->calls[b->large];
}

static void torch_close(torch *t) {
    for (uint32_t i = 0; i < t->count; i++) {
        bool last = true; /* bases are shared by the blocks of a segment */
        for (uint32_t k = i + 1; k < t->count && last; k++)
            last = t->blocks[k]->base != t->blocks[i]->base;
        if (last) free(t->blocks[i]->base);
    }
    for (uint32_t i = 0; i < t->count; i++) free(t->blocks[i]);
    free(t);
}

/* --- compared --- */

static const struct {
    const char *name;
    tn_pool_caching caching;
} settings[] = {
    {"default", {.limit = 300 * MIB}},
    {"expandable", {.expandable = true, .limit = 300 * MIB}},
    {"expandable, tight", {.expandable = true, .limit = 120 * MIB}},
    {"max_split", {.max_split_size = 24 * MIB, .limit = 300 * MIB}},
    {"rounding", {.roundup_power2_divisions = 8, .limit = 300 * MIB}},
    {"many steps", {.roundup_power2_divisions = 1024, .limit = 300 * MIB}},
    {"rounding by size",
     {.roundup_by_size = {2, 16, 0, 1, 8, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, .limit = 300 * MIB}},
    {"collecting", {.garbage_collection_threshold = 0.5, .limit = 300 * MIB}},
    {"all but pages",
     {.max_split_size = 40 * MIB,
      .roundup_power2_divisions = 4,
      .garbage_collection_threshold = 0.6,
      .limit = 300 * MIB}},
    {"all", {.expandable = true, .roundup_power2_divisions = 16, .limit = 300 * MIB}},
};
#define SETTINGS (sizeof settings / sizeof *settings)

static torch *torch_open(const tn_pool_caching *like) {
    torch *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->limit = like->limit;
    t->max_split = like->max_split_size != 0 ? like->max_split_size : UINT64_MAX;
    t->divisions = like->roundup_power2_divisions;
    t->by_size = like->roundup_by_size;
    t->gc = like->garbage_collection_threshold;
    t->expandable = like->expandable;
    t->span = (like->limit / 8 * 9 + 20 * MIB - 1) / (20 * MIB) * (20 * MIB);
    return t;
}

static uint64_t draw_size(tn__random *r) {
    switch (tn__random_below(r, 6)) {
    case 0:
        return 1 + tn__random_below(r, 4096);
    case 1:
        return 1 + tn__random_below(r, MIB + 4096);
    case 2:
        return MIB + tn__random_below(r, 9 * MIB);
    case 3:
        return UINT64_C(512) << tn__random_below(r, 16);
    default:
        return 1 + tn__random_below(r, 60 * MIB);
    }
}

typedef struct pair {
    tn_allocation ours;
    block *theirs;
} pair;

static void check_same(torch *t, tn_pool *pool, const char *name, uint64_t seed, uint32_t step) {
    tn_pool_usage usage;
    tn_pool_measure(pool, &usage);
    if (usage.reserved != t->reserved)
        fail_msg("%s, seed %" PRIu64 ", step %u: %" PRIu64 " reserved, not %" PRIu64, name, seed,
                 step, usage.reserved, t->reserved);
}

/* Returns the number of requests that failed. */
static uint32_t compare(const char *name, tn_pool_caching caching, uint64_t seed, uint32_t steps) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool;
    pair held[64];
    uint32_t count = 0, failed = 0;
    tn__random r = {seed};
    caching.struct_size = sizeof caching;
    options.pool = "caching";
    options.caching = &caching;
    assert_ok(tn_pool_create(&options, &pool, &failure));
    torch *t = torch_open(&caching);
    for (uint32_t step = 0; step < steps; step++) {
        bool frees = count == 64 || (count > 0 && tn__random_below(&r, 100) < 45);
        if (step % 200 == 199) {
            tn_pool_empty_cache(pool);
            release_cached(t);
        } else if (frees) {
            uint32_t at = (uint32_t)tn__random_below(&r, count);
            assert_ok(tn_pool_free(pool, held[at].ours.id, &failure));
            torch_free(t, held[at].theirs);
            held[at] = held[--count];
        } else {
            tn_pool_request request = {.size = draw_size(&r),
                                       .stream = (uint32_t)tn__random_below(&r, 2)};
            pair *made = &held[count];
            tn_status status = tn_pool_alloc(pool, &request, &made->ours, &failure);
            made->theirs = torch_malloc(t, request.size, (int)request.stream);
            if ((status == TN_OK) != (made->theirs != NULL))
                fail_msg("%s, seed %" PRIu64 ", step %u: %" PRIu64 " bytes, status %d", name, seed,
                         step, request.size, status);
            failed += status != TN_OK;
            if (status == TN_OK) {
                block *b = made->theirs;
                if (*b->base == UINT64_MAX / 2) *b->base = made->ours.offset - b->rel;
                if (made->ours.size != b->size || made->ours.offset != address(b))
                    fail_msg("%s, seed %" PRIu64 ", step %u: %" PRIu64 " bytes at %" PRIu64
                             ", not %" PRIu64 " at %" PRIu64,
                             name, seed, step, made->ours.size, made->ours.offset, b->size,
                             address(b));
                count++;
            }
        }
        check_same(t, pool, name, seed, step);
    }
    tn_pool_destroy(pool);
    torch_close(t);
    return failed;
}

static void every_setting_does_as_pytorch(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        uint32_t failed = 0;
        for (uint64_t seed = 1; seed <= case_count(60, 3); seed++)
            failed += compare(settings[i].name, settings[i].caching, seed * 1000 + i, 1200);
        assert_true(failed > 0); /* memory ran out, too */
    }
}

static bool draw_coin(tn__random *r) { return tn__random_below(r, 2) != 0; }

static tn_pool_caching draw_settings(tn__random *r) {
    tn_pool_caching it = {.limit = (40 + tn__random_below(r, 600)) * MIB,
                          .expandable = draw_coin(r)};
    if (draw_coin(r)) it.max_split_size = (21 + tn__random_below(r, 100)) * MIB;
    if (draw_coin(r)) it.roundup_power2_divisions = 1u << tn__random_below(r, 12);
    if (draw_coin(r)) it.garbage_collection_threshold = (double)(1 + tn__random_below(r, 99)) / 100;
    for (uint32_t i = 0; draw_coin(r) && i < TN_POOL_ROUNDUP_SIZES; i++)
        it.roundup_by_size[i] = (1u << tn__random_below(r, 12)) / 2;
    return it;
}

static void random_settings_do_as_pytorch(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(600, 30); seed++) {
        tn__random r = {seed};
        const tn_pool_caching it = draw_settings(&r);
        char name[160];
        snprintf(name, sizeof name,
                 "limit %" PRIu64 ", expandable %d, max_split %" PRIu64 ", divisions %u, gc %g",
                 it.limit, it.expandable, it.max_split_size, it.roundup_power2_divisions,
                 it.garbage_collection_threshold);
        (void)compare(name, it, seed, 400);
    }
}

static void bad_settings_are_refused(void **state) {
    (void)state;
    static const struct {
        tn_pool_caching caching;
        uint64_t capacity;
        const char *says;
    } bad[] = {
        {{.max_split_size = 20 * MIB}, 0, "above 20 MiB"},
        {{.roundup_power2_divisions = 3}, 0, "power of two"},
        {{.roundup_by_size = {1, 2, 6}}, 0, "power of two"},
        {{.garbage_collection_threshold = 1}, 1 << 30, "between 0 and 1"},
        {{.garbage_collection_threshold = -0.5}, 1 << 30, "between 0 and 1"},
        {{.garbage_collection_threshold = 0.5}, 0, "needs a limit"},
        {{.expandable = true, .limit = MIB}, 8 * MIB, "16 times"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn_pool_caching caching = bad[i].caching;
        tn_pool_options options = TN_POOL_OPTIONS_INIT;
        tn_pool *pool = NULL;
        caching.struct_size = sizeof caching;
        options.pool = "caching";
        options.caching = &caching;
        options.capacity = bad[i].capacity;
        assert_int_equal(tn_pool_create(&options, &pool, &failure), TN_E_INVALID);
        assert_null(pool);
        if (strstr(failure.message, bad[i].says) == NULL) fail_msg("%zu: %s", i, failure.message);
    }
}

/* 100 requests that grow a little each: segments that cannot grow are of no use for the next. */
static void growing_requests_need_less_with_expandable_segments(void **state) {
    (void)state;
    uint64_t peaks[2];
    for (int expandable = 0; expandable < 2; expandable++) {
        tn_pool_caching caching = TN_POOL_CACHING_INIT;
        tn_pool_options options = TN_POOL_OPTIONS_INIT;
        tn_pool *pool;
        tn_pool_usage usage;
        caching.expandable = expandable;
        options.pool = "caching";
        options.caching = &caching;
        assert_ok(tn_pool_create(&options, &pool, &failure));
        for (uint64_t i = 0; i < 5; i++) {
            tn_allocation made;
            tn_pool_request request = {.size = (10 + 10 * i) * MIB};
            assert_ok(tn_pool_alloc(pool, &request, &made, &failure));
            assert_ok(tn_pool_free(pool, made.id, &failure));
        }
        tn_pool_measure(pool, &usage);
        peaks[expandable] = usage.reserved_peak;
        tn_pool_destroy(pool);
    }
    assert_true(peaks[0] == (10 + 20 + 30 + 40 + 50) * MIB); /* a segment for each */
    assert_true(peaks[1] == 60 * MIB);                       /* three pages of 20 MiB */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_does_as_pytorch),
        cmocka_unit_test(random_settings_do_as_pytorch),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(growing_requests_need_less_with_expandable_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
