/* test_pools.c - every pool against a plain model: a map of who owns which unit of the range, and
 * sums over a plain list of blocks.
 *
 *     test_pool_pools [NAME [OPERATIONS]]
 *
 * NAME as in pools.def, or all; OPERATIONS of the random test for each, 400,000 unless told.
 */
#include "../support.h"
#include "count.h"

#include <tenure/pool.h>

#include "memory/pool/technique.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

static const char *only;
static uint64_t operations = 400000;

static bool wanted(const char *name) {
    char file[64];
    snprintf(file, sizeof file, "%s", name);
    for (char *c = file; *c != '\0'; c++)
        if (*c == '-') *c = '_';
    return only == NULL || strcmp(only, file) == 0;
}

/* --- the model --- */

enum { BLOCKS_MAX = 4096 };

typedef struct model_block {
    uint64_t id, offset, size, requested, birth;
    uint32_t tag, stream;
} model_block;

typedef struct model {
    const char *name;
    tn_pool *pool;
    uint64_t capacity, grain, size_max; /* sizes are spread evenly over the powers of two */
    uint32_t *owner;                    /* [capacity / grain]; 0: nobody */
    model_block blocks[BLOCKS_MAX], at_peak[BLOCKS_MAX];
    uint32_t count, peak_count;
    uint64_t requested, allocated, requested_peak, allocated_peak;
    uint64_t allocs, frees, failures;
} model;

static void model_open(model *made, const tn_pool_options *options) {
    tn_pool_options chosen = *options;
    chosen.capacity = made->capacity;
    assert_ok(tn_pool_create(&chosen, &made->pool, &failure));
    made->owner = calloc(made->capacity / made->grain + 1, sizeof *made->owner);
    assert_non_null(made->owner);
    for (uint32_t t = 1; t < 8; t++) {
        char name[16];
        uint32_t tag;
        snprintf(name, sizeof name, "tag %u", t);
        assert_ok(tn_pool_tag(made->pool, &(tn_pool_label){.name = name}, &tag, &failure));
        assert_int_equal(tag, t);
    }
}

static void model_close(model *made) {
    tn_pool_destroy(made->pool);
    free(made->owner);
    free(made);
}

static void model_own(model *made, const model_block *block, uint32_t from, uint32_t to) {
    uint64_t end = (block->offset + block->size + made->grain - 1) / made->grain;
    for (uint64_t i = block->offset / made->grain; i < end; i++) {
        if (made->owner[i] != from)
            fail_msg("byte %llu is held by %u\n", (unsigned long long)(i * made->grain),
                     made->owner[i]);
        made->owner[i] = to;
    }
}

static void model_raise(model *made) {
    if (made->requested > made->requested_peak) made->requested_peak = made->requested;
    if (made->allocated > made->allocated_peak) {
        made->allocated_peak = made->allocated;
        memcpy(made->at_peak, made->blocks, made->count * sizeof *made->blocks);
        made->peak_count = made->count;
    }
}

static bool model_alloc(model *made, const tn_pool_request *request) {
    tn_allocation got = {0};
    tn_status status = tn_pool_alloc(made->pool, request, &got, &failure);
    made->allocs++;
    if (status != TN_OK) {
        if (status != TN_E_EXHAUSTED) fail_msg("%s: %s\n", made->name, failure.message);
        made->failures++;
        return false;
    }
    uint64_t alignment = request->alignment > 1 ? request->alignment : 1;
    model_block block = {.id = got.id,
                         .offset = got.offset,
                         .size = got.size,
                         .requested = request->size,
                         .birth = made->allocs,
                         .tag = request->tag,
                         .stream = request->stream};
    assert_true(got.size >= request->size && got.offset + got.size <= made->capacity);
    assert_true(request->size == 0 || got.offset % alignment == 0);
    if (request->size > 0) model_own(made, &block, 0, (uint32_t)made->allocs);
    made->blocks[made->count++] = block;
    made->requested += block.requested;
    made->allocated += block.size;
    model_raise(made);
    return true;
}

static void model_free(model *made, uint32_t index) {
    model_block block = made->blocks[index];
    assert_ok(tn_pool_free(made->pool, block.id, &failure));
    made->frees++;
    if (block.requested > 0) model_own(made, &block, (uint32_t)block.birth, 0);
    made->requested -= block.requested;
    made->allocated -= block.size;
    made->blocks[index] = made->blocks[--made->count];
    if (made->frees % 512 == 0) /* an id is good once */
        assert_int_equal(tn_pool_free(made->pool, block.id, NULL), TN_E_INVALID);
}

/* --- what must hold --- */

static int model_order(const void *left, const void *right) {
    const model_block *a = left, *b = right;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    return (a->birth > b->birth) - (a->birth < b->birth);
}

static void model_check_holders(model *made, tn_holders_when when, model_block *blocks,
                                uint32_t count) {
    static tn_holder holders[BLOCKS_MAX];
    uint32_t room = made->allocs % 3 == 0 ? 7 : BLOCKS_MAX;
    assert_int_equal(tn_pool_holders(made->pool, when, holders, room), count);
    qsort(blocks, count, sizeof *blocks, model_order);
    for (uint32_t i = 0; i < count && i < room; i++) {
        char name[16];
        snprintf(name, sizeof name, "tag %u", blocks[i].tag);
        assert_int_equal(holders[i].birth, blocks[i].birth);
        assert_int_equal(holders[i].allocated, blocks[i].size);
        assert_int_equal(holders[i].requested, blocks[i].requested);
        assert_int_equal(holders[i].stream, blocks[i].stream);
        assert_string_equal(holders[i].label.name, blocks[i].tag == 0 ? "" : name);
    }
}

static uint64_t model_end(const model *made) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < made->count; i++)
        if (made->blocks[i].requested > 0 && made->blocks[i].offset + made->blocks[i].size > end)
            end = made->blocks[i].offset + made->blocks[i].size;
    return end;
}

static void model_check(model *made) {
    tn_pool_usage usage;
    const char *wrong = tn__pool_check(made->pool);
    if (wrong != NULL) fail_msg("%s: %s\n", made->name, wrong);
    tn_pool_measure(made->pool, &usage);
    assert_int_equal(usage.requested, made->requested);
    assert_int_equal(usage.allocated, made->allocated);
    assert_int_equal(usage.requested_peak, made->requested_peak);
    assert_int_equal(usage.allocated_peak, made->allocated_peak);
    assert_int_equal(usage.block_count, made->count);
    assert_int_equal(usage.alloc_count, made->allocs);
    assert_int_equal(usage.free_count, made->frees);
    assert_int_equal(usage.failed_count, made->failures);
    assert_true(usage.reserved >= usage.allocated && usage.reserved_peak >= usage.reserved);
    assert_true(usage.largest_free <= made->capacity - made->allocated);
    if (strcmp(made->name, "best-fit") == 0 || strcmp(made->name, "buddy") == 0)
        assert_int_equal(usage.reserved, model_end(made));
    static model_block now[BLOCKS_MAX], peak[BLOCKS_MAX];
    memcpy(now, made->blocks, made->count * sizeof *now);
    memcpy(peak, made->at_peak, made->peak_count * sizeof *peak);
    model_check_holders(made, TN_HOLDERS_NOW, now, made->count);
    model_check_holders(made, TN_HOLDERS_PEAK, peak, made->peak_count);
}

/* A technique that fails must really have no such place: of those that may use any free byte. */
static void model_check_no_room(const model *made, const tn_pool_request *request) {
    bool buddy = strcmp(made->name, "buddy") == 0;
    if (!buddy && strcmp(made->name, "best-fit") != 0 && strcmp(made->name, "two-ended") != 0)
        return;
    uint64_t size = (request->size + made->grain - 1) / made->grain, run = 0;
    uint64_t alignment = request->alignment > made->grain ? request->alignment / made->grain : 1;
    if (buddy) {
        while (!tn__is_power_of_two(size)) size += size & -size;
        if (size < alignment) size = alignment;
        alignment = size;
    }
    for (uint64_t i = made->capacity / made->grain; i-- > 0;) {
        run = made->owner[i] == 0 ? run + 1 : 0;
        /* two-ended keeps the holes of its ends apart: a run may be cut in two */
        uint64_t enough = strcmp(made->name, "two-ended") == 0 ? 2 * size + 2 * alignment : size;
        if (run >= enough && i % alignment == 0)
            fail_msg("%s: %llu bytes would fit at %llu\n", made->name,
                     (unsigned long long)request->size, (unsigned long long)(i * made->grain));
    }
}

/* --- random work --- */

static tn_pool_request random_request(const model *made, tn__random *random) {
    uint64_t bits = 64u - (uint64_t)__builtin_clzll(made->size_max);
    tn_pool_request request = {
        .size = 1 + (tn__random_next(random) & ((1ull << tn__random_below(random, bits)) - 1)),
        .stream = (uint32_t)tn__random_below(random, 3),
        .tag = (uint32_t)tn__random_below(random, 8),
        .flags = (uint32_t)tn__random_below(random, 2)};
    if (tn__random_below(random, 50) == 0) request.size = 0;
    if (tn__random_below(random, 16) == 0) request.alignment = 1ull << tn__random_below(random, 13);
    return request;
}

/* Grows and shrinks by turns, now and then to nothing. */
static void random_work(model *made, uint64_t seed, uint64_t count) {
    tn__random random = {.state = seed};
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bias = i / 1000 % 2 == 0 ? 60 : 40;
        if (i / 8000 % 4 == 3) bias = 10;
        if (made->count == 0 ||
            (made->count < BLOCKS_MAX && tn__random_below(&random, 100) < bias)) {
            tn_pool_request request = random_request(made, &random);
            if (!model_alloc(made, &request) && made->failures % 64 == 0)
                model_check_no_room(made, &request);
        } else {
            model_free(made, (uint32_t)tn__random_below(&random, made->count));
        }
        if (i % 997 == 0) model_check(made);
        if (i % 4001 == 0) {
            tn__pool_reset_peaks(made->pool);
            made->requested_peak = made->allocated_peak = 0;
            made->peak_count = 0;
            model_raise(made);
            tn_pool_empty_cache(made->pool);
        }
    }
    while (made->count > 0) model_free(made, made->count - 1);
    model_check(made);
}

static model *model_of(const char *name) {
    model *made = calloc(1, sizeof *made);
    assert_non_null(made);
    *made = (model){.name = name, .capacity = 400 << 10, .grain = 16, .size_max = 32 << 10};
    if (strcmp(name, "bfc") == 0)
        made->capacity = 5 << 20, made->grain = 256, made->size_max = 256 << 10;
    if (strcmp(name, "caching") == 0)
        made->capacity = 96 << 20, made->grain = 512, made->size_max = 16 << 20;
    return made;
}

static void random_operations_agree_with_a_plain_model(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_pool_count(); p++) {
        tn_pool_options options = TN_POOL_OPTIONS_INIT;
        options.pool = tn_pool_name(p);
        options.alignment = 16;
        if (!wanted(options.pool) || strcmp(options.pool, "planned") == 0) continue;
        for (uint64_t seed = 1, done = 0; done < operations; seed++, done += operations / 2) {
            print_message("%s, seed %llu\n", options.pool, (unsigned long long)seed);
            model *made = model_of(options.pool);
            model_open(made, &options);
            random_work(made, seed, operations / 2);
            if (operations >= 100000) /* the range was full now and then */
                assert_true(made->failures > 0);
            model_close(made);
        }
    }
}

/* All that was freed can be had again in one piece. */
static void nothing_is_lost_after_everything_is_freed(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_pool_count(); p++) {
        tn_pool_options options = TN_POOL_OPTIONS_INIT;
        options.pool = tn_pool_name(p);
        if (!wanted(options.pool) || strcmp(options.pool, "planned") == 0) continue;
        model *made = model_of(options.pool);
        options.alignment = made->grain;
        model_open(made, &options);
        random_work(made, 99, 20000);
        tn_pool_usage usage;
        uint64_t freed = tn_pool_empty_cache(made->pool);
        tn_pool_measure(made->pool, &usage);
        bool keeps_regions = strcmp(options.pool, "bfc") == 0;
        bool has_cache =
            strcmp(options.pool, "caching") == 0 || strcmp(options.pool, "iteration") == 0;
        assert_true(has_cache ? freed > 0 : freed == 0);
        assert_int_equal(usage.allocated, 0);
        if (!keeps_regions) {
            assert_int_equal(usage.reserved, 0);
            bool buddy = strcmp(options.pool, "buddy") == 0;
            uint64_t whole = buddy ? 256 << 10 : made->capacity;
            assert_int_equal(usage.largest_free, whole);
            assert_true(model_alloc(made, &(tn_pool_request){.size = whole}));
        }
        model_close(made);
    }
}

/* --- plans --- */

typedef struct script_step {
    uint64_t size;
    uint32_t victim; /* of the blocks in use; with size 0 and `frees` */
    bool frees;
} script_step;

enum { SCRIPT_STEPS = 20000 };

/* Random work with best-fit, written down: sizes, offsets, and which block each step frees. */
static uint32_t script_record(uint64_t seed, script_step *steps, uint64_t *sizes, uint64_t *offsets,
                              uint64_t *height) {
    model *made = model_of("best-fit");
    tn__random random = {.state = seed};
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    uint32_t count = 0, planned = 0;
    options.alignment = 16;
    made->capacity = 64 << 20;
    model_open(made, &options);
    while (count < SCRIPT_STEPS || made->count > 0) {
        bool frees = made->count > 0 && (count >= SCRIPT_STEPS || made->count >= 500 ||
                                         tn__random_below(&random, 100) < 48);
        script_step step = {.frees = frees};
        if (frees) {
            step.victim = (uint32_t)tn__random_below(&random, made->count);
            model_free(made, step.victim);
        } else {
            step.size = random_request(made, &random).size;
            assert_true(model_alloc(made, &(tn_pool_request){.size = step.size}));
            sizes[planned] = step.size;
            offsets[planned++] = made->blocks[made->count - 1].offset;
        }
        steps[count++] = step;
    }
    tn_pool_usage usage;
    tn_pool_measure(made->pool, &usage);
    *height = usage.reserved_peak;
    model_close(made);
    steps[count] = (script_step){.victim = UINT32_MAX};
    return planned;
}

static void a_plan_serves_every_iteration_of_what_it_was_made_for(void **state) {
    (void)state;
    if (!wanted("planned")) return;
    script_step *steps = calloc(2 * SCRIPT_STEPS + 1, sizeof *steps);
    uint64_t *sizes = calloc(2 * SCRIPT_STEPS, sizeof *sizes);
    uint64_t *offsets = calloc(2 * SCRIPT_STEPS, sizeof *offsets);
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    model *made = model_of("planned");
    options.pool = "planned";
    options.sizes = sizes;
    options.offsets = offsets;
    options.planned_count = script_record(5, steps, sizes, offsets, &made->capacity);
    model_open(made, &options);
    for (uint64_t done = 0; done < operations; done += SCRIPT_STEPS) {
        for (script_step *step = steps; step->victim != UINT32_MAX; step++) {
            if (step->frees)
                model_free(made, step->victim);
            else
                assert_true(model_alloc(made, &(tn_pool_request){.size = step->size}));
        }
        model_check(made);
    }
    tn_pool_usage usage;
    tn_pool_measure(made->pool, &usage);
    assert_true(usage.reserved <= made->capacity && usage.reserved >= made->capacity - 15);
    model_close(made);
    free(steps);
    free(sizes);
    free(offsets);
}

static void a_plan_refuses_what_was_not_planned(void **state) {
    (void)state;
    if (!wanted("planned")) return;
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool;
    tn_allocation a, b;
    options.pool = "planned";
    assert_int_equal(tn_pool_create(&options, &pool, &failure), TN_E_INVALID);
    options.sizes = (uint64_t[]){100, 0, 50};
    options.offsets = (uint64_t[]){0, 7, 60};
    options.planned_count = 3;
    options.capacity = 109;
    assert_int_equal(tn_pool_create(&options, &pool, &failure), TN_E_EXHAUSTED);
    options.capacity = 110;
    assert_ok(tn_pool_create(&options, &pool, &failure));
    uint32_t tag;
    assert_ok(tn_pool_tag(pool, &(tn_pool_label){.name = "first"}, &tag, &failure));
    assert_int_equal(tn_pool_alloc(pool, &(tn_pool_request){.size = 99}, &a, &failure),
                     TN_E_CONFLICT);
    assert_string_equal(failure.message, "request 0 asks for 99 bytes, and the plan has 100 there");
    assert_ok(tn_pool_alloc(pool, &(tn_pool_request){.size = 100, .tag = tag}, &a, &failure));
    assert_int_equal(tn_pool_alloc(pool, &(tn_pool_request){.size = 50}, &b, &failure),
                     TN_E_CONFLICT);
    assert_string_equal(failure.message, "request 1 is planned at 60, 50 bytes, but 'first' still "
                                         "holds [0, 100)");
    assert_ok(tn_pool_free(pool, a.id, &failure));
    assert_int_equal(
        tn_pool_alloc(pool, &(tn_pool_request){.size = 50, .alignment = 8}, &b, &failure),
        TN_E_CONFLICT);
    assert_ok(tn_pool_alloc(pool, &(tn_pool_request){.size = 50}, &b, &failure));
    assert_int_equal(b.offset, 60);
    tn_pool_destroy(pool);
}

/* --- refusing, and saying why --- */

static void a_full_pool_names_the_holders(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_pool_count(); p++) {
        tn_pool_options options = TN_POOL_OPTIONS_INIT;
        tn_pool *pool;
        tn_allocation a, b;
        tn_holder holders[2];
        uint32_t tag;
        options.pool = tn_pool_name(p);
        options.capacity = 4 << 20;
        if (!wanted(options.pool) || strcmp(options.pool, "planned") == 0) continue;
        assert_ok(tn_pool_create(&options, &pool, &failure));
        assert_ok(tn_pool_tag(pool, &(tn_pool_label){"conv1/out", "activation", "conv1"}, &tag,
                              &failure));
        assert_ok(
            tn_pool_alloc(pool, &(tn_pool_request){.size = 1 << 20, .tag = tag}, &a, &failure));
        b = a;
        assert_int_equal(tn_pool_alloc(pool, &(tn_pool_request){.size = 4 << 20}, &b, &failure),
                         TN_E_EXHAUSTED);
        assert_int_equal(a.id, b.id);
        assert_non_null(strstr(failure.message, "4194304 bytes do not fit"));
        assert_non_null(strstr(failure.message, "'conv1/out' activation 1048576"));
        assert_ok(tn_pool_free(pool, a.id, &failure));
        assert_int_equal(tn_pool_holders(pool, TN_HOLDERS_NOW, holders, 2), 0);
        assert_int_equal(tn_pool_holders(pool, TN_HOLDERS_FAILED, holders, 2), 1);
        assert_string_equal(holders[0].label.op, "conv1");
        assert_int_equal(holders[0].allocated, 1 << 20);
        assert_int_equal(tn_pool_alloc(pool, &(tn_pool_request){.size = UINT64_MAX}, &b, &failure),
                         TN_E_EXHAUSTED);
        tn_pool_destroy(pool);
    }
}

static void wrong_requests_are_refused(void **state) {
    (void)state;
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool = NULL;
    tn_allocation a;
    options.pool = "none";
    assert_int_equal(tn_pool_create(&options, &pool, &failure), TN_E_UNKNOWN);
    options.pool = NULL;
    options.alignment = 48;
    assert_int_equal(tn_pool_create(&options, &pool, &failure), TN_E_INVALID);
    options.alignment = 0;
    options.capacity = TN_POOL_CAPACITY_MAX + 1;
    assert_int_equal(tn_pool_create(&options, &pool, &failure), TN_E_INVALID);
    options.capacity = 63;
    assert_int_equal(tn_pool_create(&options, &pool, &failure), TN_E_INVALID);
    assert_null(pool);
    options.capacity = 0;
    assert_ok(tn_pool_create(&options, &pool, &failure));
    assert_int_equal(tn_pool_alloc(pool, &(tn_pool_request){.alignment = 3}, &a, &failure),
                     TN_E_INVALID);
    assert_int_equal(tn_pool_alloc(pool, &(tn_pool_request){.tag = 1}, &a, &failure), TN_E_INVALID);
    assert_int_equal(tn_pool_free(pool, 0, &failure), TN_E_INVALID);
    assert_int_equal(tn_pool_free(pool, UINT64_MAX, &failure), TN_E_INVALID);
    tn_pool_destroy(pool);
}

/* --- what makes each technique itself --- */

static tn_pool *pool_of(const char *name, uint64_t capacity) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool;
    options.pool = name;
    options.capacity = capacity;
    assert_ok(tn_pool_create(&options, &pool, &failure));
    return pool;
}

static tn_allocation got(tn_pool *pool, uint64_t size, uint32_t stream, uint32_t flags) {
    tn_allocation block;
    assert_ok(tn_pool_alloc(pool,
                            &(tn_pool_request){.size = size, .stream = stream, .flags = flags},
                            &block, &failure));
    return block;
}

static uint64_t reserved(tn_pool *pool) {
    tn_pool_usage usage;
    tn_pool_measure(pool, &usage);
    return usage.reserved;
}

static void best_fit_takes_the_smallest_hole_that_is_enough(void **state) {
    (void)state;
    tn_pool *pool = pool_of("best-fit", 0);
    tn_allocation holes[3];
    uint64_t sizes[] = {64 * 9, 64 * 5, 64 * 7};
    for (int i = 0; i < 3; i++) {
        holes[i] = got(pool, sizes[i], 0, 0);
        got(pool, 64, 0, 0);
    }
    for (int i = 0; i < 3; i++) assert_ok(tn_pool_free(pool, holes[i].id, &failure));
    assert_int_equal(got(pool, 64 * 6, 0, 0).offset, holes[2].offset);
    assert_int_equal(got(pool, 64 * 5, 0, 0).offset, holes[1].offset);
    assert_int_equal(got(pool, 64, 0, 0).offset, holes[2].offset + 64 * 6);
    assert_int_equal(reserved(pool), 64 * 24);
    tn_pool_destroy(pool);
}

static void best_fit_finds_a_hole_for_a_large_alignment(void **state) {
    (void)state;
    tn_pool *pool = pool_of("best-fit", 0);
    tn_allocation block;
    got(pool, 64, 0, 0);
    tn_allocation small = got(pool, 64, 0, 0); /* the tightest, off the alignment */
    got(pool, 64, 0, 0);
    tn_allocation wide = got(pool, 64 * 9, 0, 0);
    got(pool, 64, 0, 0);
    assert_ok(tn_pool_free(pool, small.id, &failure));
    assert_ok(tn_pool_free(pool, wide.id, &failure));
    assert_ok(
        tn_pool_alloc(pool, &(tn_pool_request){.size = 64, .alignment = 512}, &block, &failure));
    assert_int_equal(block.offset, 512);
    assert_int_equal(reserved(pool), 64 * 13);
    tn_pool_destroy(pool);
}

static void an_id_is_dead_when_its_place_is_used_again(void **state) {
    (void)state;
    tn_pool *pool = pool_of("best-fit", 64); /* room for one block: always the same record */
    tn_allocation first = got(pool, 64, 0, 0);
    assert_ok(tn_pool_free(pool, first.id, &failure));
    tn_allocation second = got(pool, 64, 0, 0);
    assert_int_equal((uint32_t)first.id, (uint32_t)second.id);
    assert_int_equal(tn_pool_free(pool, first.id, &failure), TN_E_INVALID);
    assert_ok(tn_pool_free(pool, second.id, &failure));
    tn_pool_destroy(pool);
}

static void two_ended_keeps_long_and_short_lives_apart(void **state) {
    (void)state;
    tn_pool *pool = pool_of("two-ended", 6400);
    tn_allocation a = got(pool, 640, 0, TN_POOL_LONG_LIVED), b = got(pool, 64, 0, 0);
    tn_allocation c = got(pool, 128, 0, TN_POOL_LONG_LIVED), d = got(pool, 128, 0, 0);
    assert_int_equal(a.offset, 0);
    assert_int_equal(b.offset, 6336);
    assert_int_equal(c.offset, 640);
    assert_int_equal(d.offset, 6208);
    assert_int_equal(reserved(pool), 960);
    assert_ok(tn_pool_free(pool, b.id, &failure)); /* a hole of the back */
    assert_int_equal(reserved(pool), 960);
    assert_int_equal(got(pool, 60, 0, TN_POOL_LONG_LIVED).offset, 768);
    assert_int_equal(got(pool, 60, 0, 0).offset, 6336);
    tn_pool_destroy(pool);
}

/* The ends touch: what is freed at the border, on either side, is the middle again. */
static void two_ended_finds_its_middle_again_when_it_was_full(void **state) {
    (void)state;
    for (unsigned last = 0; last < 2; last++) {        /* who takes the rest */
        for (unsigned order = 0; order < 2; order++) { /* who gives back first */
            tn_pool *pool = pool_of("two-ended", 640);
            tn_allocation ends[2];
            ends[0] = got(pool, last == 0 ? 448 : 192, 0, TN_POOL_LONG_LIVED);
            ends[1] = got(pool, last == 0 ? 192 : 448, 0, 0);
            assert_int_equal(reserved(pool), 640);
            assert_ok(tn_pool_free(pool, ends[order].id, &failure));
            assert_int_equal(reserved(pool), ends[1 - order].size);
            assert_int_equal(got(pool, 64, 0, order == 0 ? TN_POOL_LONG_LIVED : 0).offset,
                             order == 0 ? 0 : 576);
            assert_ok(tn_pool_free(pool, ends[1 - order].id, &failure));
            assert_int_equal(reserved(pool), 64);
            got(pool, 576, 0, 0);
            assert_int_equal(reserved(pool), 640);
            assert_null(tn__pool_check(pool));
            tn_pool_destroy(pool);
        }
    }
}

static void bfc_regions_double_and_near_fits_are_not_cut(void **state) {
    (void)state;
    tn_pool *pool = pool_of("bfc", 0);
    tn_allocation a = got(pool, 1, 0, 0);
    assert_int_equal(a.size, 256);
    assert_int_equal(reserved(pool), 2 << 20);
    tn_allocation b = got(pool, 3 << 20, 0, 0); /* in a region of 4 MiB, whole: less than twice */
    assert_int_equal(b.size, 4 << 20);
    assert_int_equal(reserved(pool), 6 << 20);
    tn_allocation c = got(pool, 20 << 20, 0, 0); /* 8, 16, 32: raised by need, not doubled again */
    assert_int_equal(c.size, 32 << 20);
    tn_allocation d = got(pool, 16 << 20, 0, 0);
    assert_int_equal(reserved(pool), (6 + 32 + 32) << 20);
    assert_int_equal(d.size, 16 << 20); /* exactly twice: cut */
    assert_ok(tn_pool_free(pool, b.id, &failure));
    assert_int_equal(got(pool, 2 << 20, 0, 0).size, 2 << 20);
    tn_pool_destroy(pool);
}

static void caching_keeps_segments_by_stream_and_size(void **state) {
    (void)state;
    tn_pool *pool = pool_of("caching", 0);
    tn_allocation a = got(pool, 1, 1, 0), b = got(pool, 1 << 20, 1, 0);
    assert_int_equal(a.size, 512);
    assert_int_equal(reserved(pool), 2 << 20);
    got(pool, 512, 2, 0); /* another stream, another segment */
    assert_int_equal(reserved(pool), 4 << 20);
    tn_allocation c = got(pool, (1 << 20) + 1, 1, 0);
    assert_int_equal(c.size, (1 << 20) + 512);
    assert_int_equal(reserved(pool), 24 << 20);
    tn_allocation d = got(pool, (18 << 20) - 512, 1, 0); /* leaves 1 MiB: not cut */
    assert_int_equal(d.size, (20 << 20) - c.size);
    tn_allocation e = got(pool, (11 << 20) + 1, 1, 0);
    assert_int_equal(e.size, 12 << 20); /* rounded up; what is left is too little to cut */
    assert_int_equal(reserved(pool), 36 << 20);
    assert_int_equal(tn_pool_empty_cache(pool), 0);
    assert_ok(tn_pool_free(pool, e.id, &failure));
    assert_ok(tn_pool_free(pool, c.id, &failure));
    assert_int_equal(reserved(pool), 36 << 20);
    assert_int_equal(tn_pool_empty_cache(pool), 12 << 20);
    assert_ok(tn_pool_free(pool, d.id, &failure));
    assert_ok(tn_pool_free(pool, a.id, &failure));
    assert_ok(tn_pool_free(pool, b.id, &failure));
    assert_int_equal(tn_pool_empty_cache(pool), 22 << 20);
    assert_int_equal(reserved(pool), 2 << 20);
    tn_pool_destroy(pool);
}

static void caching_empties_itself_before_it_fails(void **state) {
    (void)state;
    tn_pool *pool = pool_of("caching", 24 << 20);
    tn_allocation a = got(pool, 12 << 20, 1, 0), b = got(pool, 12 << 20, 1, 0);
    assert_ok(tn_pool_free(pool, a.id, &failure));
    assert_ok(tn_pool_free(pool, b.id, &failure));
    assert_int_equal(got(pool, 20 << 20, 2, 0).offset, 0);
    assert_int_equal(reserved(pool), 20 << 20);
    tn_pool_destroy(pool);
}

static void buddy_rounds_to_powers_of_two(void **state) {
    (void)state;
    tn_pool *pool = pool_of("buddy", 64 * 7);
    tn_allocation a = got(pool, 129, 0, 0);
    assert_int_equal(a.size, 256);
    assert_int_equal(a.offset, 0);
    assert_int_equal(got(pool, 65, 0, 0).offset, 256); /* not in the 64 bytes at the end */
    assert_int_equal(got(pool, 64, 0, 0).offset, 384);
    assert_ok(tn_pool_free(pool, a.id, &failure));
    assert_int_equal(got(pool, 64, 0, 0).offset, 0);
    assert_int_equal(got(pool, 128, 0, 0).offset, 128);
    tn_pool_destroy(pool);
}

/* --- faults, threads, the judge --- */

static tn_status fault_work(const tn_context *context, const char *name) {
    static uint64_t sizes[300], offsets[300];
    const uint32_t count = case_count(300, 60); /* of blocks; each request fails once */
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool = NULL;
    tn_allocation blocks[300];
    options.context = context;
    options.pool = name;
    for (uint32_t i = 0; i < count; i++) sizes[i] = 100 + i, offsets[i] = 512 * i;
    if (strcmp(name, "planned") == 0)
        options.sizes = sizes, options.offsets = offsets, options.planned_count = count;
    tn_status status = tn_pool_create(&options, &pool, NULL);
    if (status != TN_OK) assert_null(pool);
    for (uint32_t i = 0; i < count && status == TN_OK; i++) {
        uint32_t tag = 0;
        status =
            tn_pool_tag(pool, &(tn_pool_label){.name = "a name", .kind = "a kind"}, &tag, NULL);
        if (status != TN_OK) break;
        tn_allocation untouched = {.id = 7}, block = untouched;
        status =
            tn_pool_alloc(pool, &(tn_pool_request){.size = sizes[i], .tag = tag}, &block, NULL);
        if (status != TN_OK) assert_memory_equal(&block, &untouched, sizeof block);
        if (status == TN_OK && i % 3 == 0) status = tn_pool_free(pool, block.id, NULL);
        blocks[i] = block;
        if (pool != NULL) assert_null(tn__pool_check(pool));
    }
    (void)blocks;
    tn_pool_destroy(pool);
    return status;
}

static void a_failing_allocator_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_pool_count(); p++) {
        if (!wanted(tn_pool_name(p))) continue;
        for (uint64_t n = 1;; n += case_step()) {
            faulty memory = {.fail_at = n};
            tn_context context = faulty_context(&memory);
            tn_status status = fault_work(&context, tn_pool_name(p));
            assert_int_equal(memory.held, 0);
            if (memory.requests < n) {
                assert_int_equal(status, TN_OK);
                assert_true(n > 5);
                break;
            }
            /* what cannot be recorded is not learned, and nobody's error */
            bool may_do_without = strcmp(tn_pool_name(p), "iteration") == 0;
            if (!may_do_without || status != TN_OK) assert_int_equal(status, TN_E_NO_MEMORY);
        }
    }
}

typedef struct thread_work {
    tn_pool *pool;
    uint32_t *owner; /* by 64 bytes: whose thread's; written without a lock, for TSan to see */
    uint32_t number;
    const char *wrong;
} thread_work;

static const char *thread_wrong(thread_work *work) {
    tn__random random = {.state = work->number};
    tn_allocation held[32] = {{0}};
    const uint32_t turns = case_count(20000, 2000);
    for (uint32_t i = 0; i < turns; i++) {
        tn_allocation *place = &held[tn__random_below(&random, 32)];
        for (uint64_t u = place->offset / 64; u < (place->offset + place->size) / 64; u++)
            if (work->owner[u] != work->number) return "a block was given to two threads";
        if (place->id != 0 && tn_pool_free(work->pool, place->id, NULL) != TN_OK)
            return "cannot free";
        *place = (tn_allocation){0};
        tn_pool_request request = {.size = 1 + tn__random_below(&random, 4000),
                                   .stream = work->number};
        if (i > turns - 100 || tn_pool_alloc(work->pool, &request, place, NULL) != TN_OK) continue;
        for (uint64_t u = place->offset / 64; u < (place->offset + place->size) / 64; u++)
            work->owner[u] = work->number;
        if (i % 256 == 0) {
            tn_pool_usage usage;
            tn_holder largest;
            tn_pool_measure(work->pool, &usage);
            if (tn_pool_holders(work->pool, TN_HOLDERS_PEAK, &largest, 1) == 0) return "no holder";
        }
    }
    return NULL;
}

static void *thread_run(void *given) {
    thread_work *work = given;
    work->wrong = thread_wrong(work);
    return NULL;
}

static void two_threads_share_a_pool(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_pool_count(); p++) {
        if (!wanted(tn_pool_name(p)) || strcmp(tn_pool_name(p), "planned") == 0) continue;
        tn_pool *pool = pool_of(tn_pool_name(p), 6 << 20);
        uint32_t *owner = calloc((6 << 20) / 64, sizeof *owner);
        thread_work work[2] = {{pool, owner, 1, NULL}, {pool, owner, 2, NULL}};
        pthread_t threads[2];
        for (int t = 0; t < 2; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, thread_run, &work[t]), 0);
        for (int t = 0; t < 2; t++) {
            pthread_join(threads[t], NULL);
            if (work[t].wrong != NULL) fail_msg("%s: %s\n", tn_pool_name(p), work[t].wrong);
        }
        assert_null(tn__pool_check(pool));
        tn_pool_destroy(pool);
        free(owner);
    }
}

/* A judge that cannot say no proves nothing. */
static void the_judge_notices_damage(void **state) {
    (void)state;
    tn_pool *pool = pool_of("best-fit", 4096);
    tn_allocation a = got(pool, 100, 0, 0);
    tn__chunk *chunk = &pool->chunks[(uint32_t)a.id];
    assert_null(tn__pool_check(pool));
    chunk->size -= 64;
    assert_string_equal(tn__pool_check(pool), "a block is smaller than its request");
    chunk->size += 128;
    assert_string_equal(tn__pool_check(pool), "chunks do not tile the range");
    chunk->size -= 64;
    pool->usage.allocated++;
    assert_string_equal(tn__pool_check(pool), "allocated bytes are miscounted");
    pool->usage.allocated--;
    pool->vacant_count++;
    assert_string_equal(tn__pool_check(pool), "vacant records are lost");
    pool->vacant_count--;
    assert_null(tn__pool_check(pool));
    tn_pool_destroy(pool);
}

static void pools_say_what_they_are_and_where_they_are_from(void **state) {
    (void)state;
    for (uint32_t i = 0; i < tn_pool_count(); i++) {
        assert_true(strlen(tn_pool_summary(i)) > 0 && strlen(tn__pool_source(i)) > 0);
        for (uint32_t j = 0; j < i; j++) assert_string_not_equal(tn_pool_name(i), tn_pool_name(j));
    }
}

int main(int count, char **arguments) {
    only = count > 1 && strcmp(arguments[1], "all") != 0 ? arguments[1] : NULL;
    if (count > 2) operations = strtoull(arguments[2], NULL, 10);
    const struct CMUnitTest all[] = {
        cmocka_unit_test(random_operations_agree_with_a_plain_model),
        cmocka_unit_test(nothing_is_lost_after_everything_is_freed),
        cmocka_unit_test(a_plan_serves_every_iteration_of_what_it_was_made_for),
        cmocka_unit_test(a_plan_refuses_what_was_not_planned),
        cmocka_unit_test(a_full_pool_names_the_holders),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(best_fit_takes_the_smallest_hole_that_is_enough),
        cmocka_unit_test(best_fit_finds_a_hole_for_a_large_alignment),
        cmocka_unit_test(an_id_is_dead_when_its_place_is_used_again),
        cmocka_unit_test(two_ended_keeps_long_and_short_lives_apart),
        cmocka_unit_test(two_ended_finds_its_middle_again_when_it_was_full),
        cmocka_unit_test(bfc_regions_double_and_near_fits_are_not_cut),
        cmocka_unit_test(caching_keeps_segments_by_stream_and_size),
        cmocka_unit_test(caching_empties_itself_before_it_fails),
        cmocka_unit_test(buddy_rounds_to_powers_of_two),
        cmocka_unit_test(a_failing_allocator_is_an_error_and_leaks_nothing),
        cmocka_unit_test(two_threads_share_a_pool),
        cmocka_unit_test(the_judge_notices_damage),
        cmocka_unit_test(pools_say_what_they_are_and_where_they_are_from),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
