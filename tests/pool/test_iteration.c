/* test_iteration.c - the pool that learns, at work that repeats, nearly repeats, and does not:
 * against a map of who owns which unit, and which stream had it last.
 *
 *     test_pool_iteration [OPERATIONS]    of the random test; 600,000 unless told
 */
#include "../support.h"

#include <tenure/pool.h>

#include "memory/pool/technique.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

static uint64_t operations = 600000;

/* --- an iteration: requests in order, and after which of them each block is freed --- */

enum { STEPS_MAX = 400, GRAIN = 64 };

typedef struct step {
    uint64_t size, alignment;
    uint32_t stream, length; /* freed before the request that is so many later */
} step;

typedef struct loop {
    step steps[STEPS_MAX];
    uint32_t count;
} loop;

/* Half forward and back, as training: early blocks live long. The rest is short, and now and then
 * one lives into the next iteration; not with several streams, which share no bytes, so that what
 * lies in the zone of another may keep a plan from coming into force. */
static void loop_make(loop *made, tn__random *random, uint32_t count, uint32_t streams) {
    made->count = count;
    for (uint32_t i = 0; i < count; i++) {
        step *at = &made->steps[i];
        uint64_t kind = tn__random_below(random, 40);
        uint32_t left = count - i;
        *at =
            (step){.size = 1 + tn__random_below(random, 1ull << (4 + tn__random_below(random, 12))),
                   .stream = (uint32_t)tn__random_below(random, streams)};
        at->length = 1 + (uint32_t)tn__random_below(random, 6);
        if (kind < 16 && i < count / 2) at->length = left - i;
        if (kind == 16 && streams == 1) at->length = 1 + (uint32_t)tn__random_below(random, count);
        if (kind > 36) at->alignment = 256;
        if (streams > 1 && at->length > left) at->length = left;
    }
}

/* --- the model --- */

enum { LIVE_MAX = 8192, UNITS = 1 << 16 };

typedef struct live_block {
    uint64_t id, offset, size, due; /* freed before request number `due` */
    uint32_t stream, owner;
} live_block;

typedef enum ground { PLAIN, RELEASES, SPARSE } ground; /* what the memory of the range is */

typedef struct model {
    tn_pool *pool;
    uint64_t requests, failures, settled; /* settled: how often we were told to wait */
    uint32_t owner[UNITS];                /* 0: nobody */
    uint32_t stream[UNITS];               /* that had it last, + 1 */
    uint64_t when[UNITS];                 /* `settled` at the time */
    bool is_backed[UNITS];                /* handed out, and not given back since */
    uint64_t backed;                      /* of them */
    ground kind;
    live_block live[LIVE_MAX];
    uint32_t count;
} model;

static void model_settle(void *self) { ((model *)self)->settled++; }

static void model_release(void *self, uint64_t offset, uint64_t size) {
    model *made = self;
    assert_true(size > 0 && offset % GRAIN == 0 && size % GRAIN == 0);
    assert_true(offset + size <= (uint64_t)UNITS * GRAIN);
    for (uint64_t u = offset / GRAIN; u < (offset + size) / GRAIN; u++) {
        if (made->owner[u] != 0) fail_msg("unit %llu is given back\n", (unsigned long long)u);
        made->backed -= made->is_backed[u];
        made->is_backed[u] = false;
    }
}

static model *model_open_as(const tn_context *context, ground kind) {
    model *made = calloc(1, sizeof *made);
    assert_non_null(made);
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    options.context = context;
    options.pool = "iteration";
    options.capacity = (uint64_t)UNITS * GRAIN;
    options.alignment = GRAIN;
    options.settle = model_settle;
    options.settle_self = made;
    options.release = kind == RELEASES ? model_release : NULL;
    options.release_self = made;
    options.is_sparse = kind == SPARSE;
    made->kind = kind;
    if (tn_pool_create(&options, &made->pool, &failure) == TN_OK) return made;
    free(made);
    return NULL;
}

static model *model_open(const tn_context *context) { return model_open_as(context, PLAIN); }

static void model_close(model *made) {
    tn_pool_destroy(made->pool);
    free(made);
}

static void model_check(const model *made) {
    const char *wrong = tn__pool_check(made->pool);
    if (wrong != NULL) fail_msg("%s\n", wrong);
    tn_pool_usage usage;
    tn_pool_measure(made->pool, &usage);
    assert_int_equal(usage.block_count, made->count);
    if (made->kind == RELEASES) assert_true(made->backed * GRAIN <= usage.reserved);
}

static void model_own(model *made, const live_block *block) {
    for (uint64_t u = block->offset / GRAIN; u < (block->offset + block->size) / GRAIN; u++) {
        if (made->owner[u] != 0) fail_msg("unit %llu has an owner\n", (unsigned long long)u);
        bool other = made->stream[u] != 0 && made->stream[u] != block->stream + 1;
        if (other && made->when[u] == made->settled)
            fail_msg("unit %llu goes from stream %u to %u and nobody waited\n",
                     (unsigned long long)u, made->stream[u] - 1, block->stream);
        made->owner[u] = block->owner;
        made->backed += !made->is_backed[u];
        made->is_backed[u] = true;
        made->stream[u] = block->stream + 1;
    }
}

static bool model_alloc(model *made, const step *wanted) {
    tn_allocation got;
    tn_pool_request request = {
        .size = wanted->size, .alignment = wanted->alignment, .stream = wanted->stream};
    uint64_t number = made->requests++;
    if (tn_pool_alloc(made->pool, &request, &got, &failure) != TN_OK) {
        made->failures++;
        return false;
    }
    assert_true(got.size >= wanted->size && got.size % GRAIN == 0);
    assert_true(wanted->alignment == 0 || got.offset % wanted->alignment == 0);
    live_block block = {.id = got.id,
                        .offset = got.offset,
                        .size = got.size,
                        .due = number + wanted->length,
                        .stream = wanted->stream,
                        .owner = (uint32_t)number + 1};
    model_own(made, &block);
    assert_true(made->count < LIVE_MAX);
    made->live[made->count++] = block;
    return true;
}

static void model_free(model *made, uint32_t index) {
    live_block block = made->live[index];
    for (uint64_t u = block.offset / GRAIN; u < (block.offset + block.size) / GRAIN; u++) {
        assert_int_equal(made->owner[u], block.owner);
        made->owner[u] = 0;
        made->when[u] = made->settled;
    }
    assert_ok(tn_pool_free(made->pool, block.id, &failure));
    made->live[index] = made->live[--made->count];
}

static void model_free_due(model *made) {
    for (uint32_t i = made->count; i-- > 0;)
        if (made->live[i].due <= made->requests) model_free(made, i);
}

static void model_step(model *made, const step *wanted) {
    model_free_due(made);
    model_alloc(made, wanted);
}

static void model_play(model *made, const loop *played, uint32_t times) {
    for (uint32_t t = 0; t < times; t++)
        for (uint32_t i = 0; i < played->count; i++) model_step(made, &played->steps[i]);
}

static tn_pool_lesson learned(const model *made) {
    tn_pool_lesson lesson;
    tn_pool_learned(made->pool, &lesson);
    return lesson;
}

/* Enough times to know it; fails when it is not learned. */
static void model_teach(model *made, const loop *played) {
    model_play(made, played, 8);
    assert_int_equal(learned(made).period, played->count);
    uint64_t before = learned(made).surprises;
    model_play(made, played, 1);
    assert_int_equal(learned(made).surprises, before);
}

/* --- what is learned --- */

static void what_repeats_is_served_from_the_plan(void **state) {
    (void)state;
    uint32_t refused = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        tn__random random = {.state = seed};
        model *made = model_open(NULL);
        loop *played = calloc(1, sizeof *played);
        uint32_t streams = 1 + (uint32_t)seed % 3;
        loop_make(played, &random, 64 + (uint32_t)tn__random_below(&random, 300), streams);
        print_message("seed %llu: %u requests\n", (unsigned long long)seed, played->count);
        step kept = {.size = 1000, .length = UINT32_MAX};
        for (int i = 0; i < 10; i++) model_step(made, &kept);
        model_play(made, played, 6);
        if (streams == 1 || learned(made).period != 0) {
            model_teach(made, played);
            uint64_t served = learned(made).served;
            model_play(made, played, 3);
            assert_int_equal(learned(made).served, served + 3 * played->count);
        } else {
            refused++; /* zones apart would take more than is reserved */
        }
        model_check(made);
        model_close(made);
        free(played);
    }
    assert_true(refused <= 5);
}

/* The most bytes that live at once in a loop that goes round, rounded as the pool does. */
static uint64_t loop_live(const loop *played) {
    uint64_t most = 0;
    for (uint32_t now = 0; now < played->count; now++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < played->count; i++) {
            uint32_t age = (now + played->count - i) % played->count;
            if (age < played->steps[i].length)
                live += (played->steps[i].size + GRAIN - 1) / GRAIN * GRAIN;
        }
        if (live > most) most = live;
    }
    return most;
}

static void a_plan_is_hardly_higher_than_what_lives(void **state) {
    (void)state;
    uint64_t heights = 0, bounds = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        tn__random random = {.state = 100 + seed};
        model *made = model_open(NULL);
        loop *played = calloc(1, sizeof *played);
        loop_make(played, &random, 200, 1);
        model_teach(made, played);
        uint64_t live = loop_live(played);
        print_message("seed %llu: %.4f\n", (unsigned long long)seed,
                      (double)learned(made).height / (double)live);
        assert_true(learned(made).height >= live);
        heights += learned(made).height;
        bounds += live;
        tn_pool_usage usage;
        tn__pool_reset_peaks(made->pool);
        model_play(made, played, 2);
        tn_pool_measure(made->pool, &usage);
        assert_int_equal(usage.reserved_peak, learned(made).height);
        model_close(made);
        free(played);
    }
    assert_true(heights <= bounds + bounds / 50);
}

/* A loop, after another one of which here and there a block stays. */
static model *model_teach_among(uint64_t seed, ground kind, loop *played) {
    tn__random random = {.state = 200 + seed};
    model *made = model_open_as(NULL, kind);
    loop *first = calloc(1, sizeof *first);
    loop_make(first, &random, 150, 1);
    loop_make(played, &random, 200, 1);
    for (uint32_t i = 0; i < played->count; i++) /* none lives into the next iteration */
        if (played->steps[i].length > 200 - i) played->steps[i].length = 200 - i;
    for (uint32_t i = 0; i < first->count; i++) {
        step wanted = first->steps[i];
        if (i % 15 == 0) wanted.length = UINT32_MAX;
        model_step(made, &wanted);
    }
    model_teach(made, played);
    model_check(made);
    free(first);
    return made;
}

/* Where memory can be given back, little more is held than lives: while it learns, and by the plan,
 * whatever was there before lies between. */
static void what_lies_free_goes_back(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        loop *played = calloc(1, sizeof *played);
        model *made = model_teach_among(seed, RELEASES, played);
        tn_pool_usage usage;
        tn_pool_measure(made->pool, &usage);
        print_message("seed %llu: %.4f, of the plan %.4f\n", (unsigned long long)seed,
                      (double)usage.reserved_peak / (double)usage.allocated_peak,
                      (double)learned(made).height / (double)usage.allocated_peak);
        uint64_t blocks = usage.allocated_peak + usage.allocated_peak / 256;
        uint64_t asked = usage.requested_peak + usage.requested_peak / 128;
        assert_true(usage.reserved_peak <= (blocks > asked ? blocks : asked) + 4 * GRAIN);
        tn__pool_reset_peaks(made->pool);
        model_play(made, played, 2);
        tn_pool_measure(made->pool, &usage);
        assert_int_equal(usage.reserved_peak, learned(made).height);
        model_close(made);
        free(played);
    }
}

/* Where bytes cost nothing by themselves, a plan goes around what stays if that is as low as what
 * was needed, and lies above it if not. */
static void a_plan_that_would_be_high_lies_above(void **state) {
    uint32_t high = 0, above = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        loop *played = calloc(1, sizeof *played);
        model *around = model_teach_among(seed, PLAIN, played);
        model *made = model_teach_among(seed, SPARSE, played);
        tn_pool_usage usage;
        tn_pool_measure(made->pool, &usage);
        uint64_t bound = usage.allocated_peak + usage.allocated_peak / 128;
        bool is_high = learned(around).height > bound;
        high += is_high;
        above += is_high && learned(made).height <= bound;
        assert_true(is_high || learned(made).height <= learned(around).height);
        model_close(around);
        model_close(made);
        free(played);
    }
    print_message("%u of 20 high, %u of them above\n", high, above);
    assert_true(high >= 3 && above == high);
}

/* The program goes by its own steps: what it frees does not depend on how many requests there were.
 */
static void model_shift(model *made, int64_t requests) {
    for (uint32_t i = 0; i < made->count; i++) made->live[i].due += (uint64_t)requests;
}

/* One request more, one less, one of another size: nothing else is served another way. */
static void one_change_is_one_surprise(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        tn__random random = {.state = 1000 + seed};
        model *made = model_open(NULL);
        loop *played = calloc(1, sizeof *played);
        loop_make(played, &random, 150, 1);
        for (uint32_t i = 0; i < played->count; i++) /* all differ */
            played->steps[i].size = GRAIN * (i + 1);
        model_teach(made, played);
        uint64_t before = learned(made).surprises, served = learned(made).served;
        uint32_t at = (uint32_t)tn__random_below(&random, played->count - 3),
                 kind = (uint32_t)seed % 3;
        step odd = {.size = GRAIN * STEPS_MAX, .length = 1};
        for (uint32_t i = 0; i < played->count; i++) {
            if (i == at && kind == 0) model_shift(made, 1);
            if (i == at && kind == 1) model_shift(made, -1);
            if (i == at && kind != 1) model_step(made, &odd);
            if (i != at || kind == 0) model_step(made, &played->steps[i]);
        }
        model_play(made, played, 1);
        uint64_t surprises = learned(made).surprises;
        assert_true(surprises >= before + (kind != 1) && surprises <= before + 2);
        assert_true(learned(made).served >= served + 2 * played->count - 3);
        assert_int_equal(learned(made).plans, 1);
        model_check(made);
        model_close(made);
        free(played);
    }
}

static void another_loop_is_learned_anew(void **state) {
    (void)state;
    tn__random random = {.state = 5};
    model *made = model_open(NULL);
    loop *first = calloc(1, sizeof *first), *second = calloc(1, sizeof *second);
    loop_make(first, &random, 200, 2);
    loop_make(second, &random, 130, 2);
    model_teach(made, first);
    model_teach(made, second);
    assert_int_equal(learned(made).plans, 2);
    assert_true(tn_pool_empty_cache(made->pool) > 0); /* which forgets it */
    assert_int_equal(learned(made).period, 0);
    model_check(made);
    model_teach(made, first);
    model_close(made);
    free(first);
    free(second);
}

/* --- random work --- */

static void model_disturb(model *made, tn__random *random, step *wanted) {
    switch (tn__random_below(random, 4)) {
    case 0:
        wanted->size =
            1 + tn__random_below(random, tn__random_below(random, 8) == 0 ? 1u << 21 : 30000);
        return;
    case 1:
        wanted->length = 1 + (uint32_t)tn__random_below(random, 500);
        return;
    case 2:
        wanted->stream = (uint32_t)tn__random_below(random, 3);
        return;
    default: {
        step extra = {.size = 1 + tn__random_below(random, 9000), .length = 3};
        model_step(made, &extra);
    }
    }
}

/* Loops that go round some times, with so many of 1000 requests changed; between them chaos. */
static void random_work(uint64_t seed, uint64_t count, ground kind) {
    tn__random random = {.state = seed};
    model *made = model_open_as(NULL, kind);
    loop *played = calloc(1, sizeof *played);
    uint64_t served = 0;
    while (made->requests < count) {
        static const uint32_t disturbed[] = {0, 0, 5, 30, 1000};
        uint32_t part = disturbed[tn__random_below(&random, 5)];
        uint32_t times = 1 + (uint32_t)tn__random_below(&random, 30);
        loop_make(played, &random, 16 + (uint32_t)tn__random_below(&random, STEPS_MAX - 16),
                  1 + (uint32_t)tn__random_below(&random, 3));
        for (uint32_t i = 0; i < times * played->count; i++) {
            step wanted = played->steps[i % played->count];
            if (tn__random_below(&random, 1000) < part) model_disturb(made, &random, &wanted);
            model_step(made, &wanted);
            if (i % 997 == 0) model_check(made);
        }
        if (tn__random_below(&random, 8) == 0) tn_pool_empty_cache(made->pool);
        if (tn__random_below(&random, 8) == 0)
            while (made->count > 0) model_free(made, made->count - 1);
        model_check(made);
        served = learned(made).served;
    }
    print_message(
        "seed %llu: %llu requests, %llu failed, %llu served by %llu plans, %llu surprises\n",
        (unsigned long long)seed, (unsigned long long)made->requests,
        (unsigned long long)made->failures, (unsigned long long)served,
        (unsigned long long)learned(made).plans, (unsigned long long)learned(made).surprises);
    if (count >= 100000) assert_true(served > 0 && learned(made).surprises > 0);
    if (count >= 100000) assert_true(made->failures > 0);
    model_close(made);
    free(played);
}

static void random_operations_agree_with_a_map(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++)
        random_work(seed, operations / 6, (ground)(seed % 3));
}

/* Blocks of a stream that are in use when a plan begins may lie across the zones of two; they go,
 * and others come, in another order than was planned. The model sees whose bytes are whose. */
static void blocks_lie_across_zones(void **state) {
    uint64_t planned = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        tn__random random = {.state = seed};
        loop *played = calloc(1, sizeof *played);
        model *made = model_open(NULL);
        loop_make(played, &random, 30 + (uint32_t)tn__random_below(&random, 60),
                  2 + (uint32_t)tn__random_below(&random, 2));
        for (uint32_t i = 0; i < 3; i++) /* into the next iteration */
            played->steps[tn__random_below(&random, played->count)].length = played->count * 3 / 4;
        for (uint32_t i = 0; i < 14 * played->count; i++) {
            step wanted = played->steps[i % played->count];
            bool odd = learned(made).plans > 0 && tn__random_below(&random, 20) == 0;
            if (odd && made->count > 0)
                model_free(made, (uint32_t)tn__random_below(&random, made->count));
            if (odd) model_disturb(made, &random, &wanted);
            model_step(made, &wanted);
        }
        planned += learned(made).plans > 0;
        model_check(made);
        model_close(made);
        free(played);
    }
    print_message("%llu of 300 had plans\n", (unsigned long long)planned);
    assert_true(planned > 100);
}

static uint32_t model_find(const model *made, uint64_t size, uint32_t stream) {
    uint32_t i = 0;
    while (i < made->count && (made->live[i].size != size || made->live[i].stream != stream)) i++;
    return i;
}

/* The plan begins while a block lies across the border of two zones. It goes early, and its place
 * is cut for two that were not planned, in the middle of slots: a slot that one of them leaves is
 * the other's still. */
static void half_a_slot_is_not_given(void **state) {
    static const uint64_t sizes[] = {256, 512, 2048, 6016};
    uint32_t cut = 0;
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        model *made = model_open(NULL);
        bool is_done = false;
        for (uint32_t i = 0; i < 12 * 70; i++) {
            uint32_t at = i % 70;
            bool is_long = at == 0 || at == 35;
            step wanted = {.size = at == 0    ? 5056
                                   : at == 35 ? 6016
                                   : at % 2   ? 256
                                              : 512,
                           .stream = is_long,
                           .length = is_long ? 51 : 2};
            model_step(made, &wanted);
            uint32_t early = model_find(made, 5056, 1);
            if (is_done || learned(made).period == 0 || at != 23 || early == made->count) continue;
            model_free(made, early);
            step one = {.size = 64, .stream = 1, .length = 300};
            step other = {.size = sizes[k], .stream = 1, .length = 300};
            is_done = model_alloc(made, &one) && model_alloc(made, &other);
            model_free(made, made->count - 1);
        }
        cut += is_done;
        model_check(made);
        model_close(made);
    }
    assert_true(cut > 0);
}

/* What caching can do in so many bytes, it can as well: of a loop and its changes, in the range
 * that caching took for it. */
static uint64_t play_in(const char *pool, uint64_t capacity, uint64_t seed, bool *fits) {
    tn__random random = {.state = seed};
    static struct { uint64_t id, due; } live[LIVE_MAX];
    uint32_t count = 0;
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool_usage usage;
    tn_pool *made;
    loop *played = calloc(1, sizeof *played);
    options.pool = pool;
    options.capacity = capacity;
    options.alignment = 512;
    assert_ok(tn_pool_create(&options, &made, &failure));
    loop_make(played, &random, 300, 1);
    *fits = true;
    for (uint64_t n = 0; n < 300 * 12 && *fits; n++) {
        step wanted = played->steps[n % 300];
        wanted.size *= 700; /* to where segments of 2 and 20 MiB are not all there is */
        if (seed % 2 == 0 && tn__random_below(&random, 20) == 0)
            wanted.size = 1 + tn__random_below(&random, 20 << 20);
        for (uint32_t i = count; i-- > 0;) {
            if (live[i].due > n) continue;
            assert_ok(tn_pool_free(made, live[i].id, &failure));
            live[i] = live[--count];
        }
        tn_allocation got = {0};
        *fits =
            tn_pool_alloc(made, &(tn_pool_request){.size = wanted.size}, &got, &failure) == TN_OK;
        live[count].id = got.id;
        live[count++].due = n + wanted.length;
    }
    tn_pool_measure(made, &usage);
    tn_pool_destroy(made);
    free(played);
    return usage.reserved_peak;
}

static void it_fits_where_caching_fits(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        bool fits;
        uint64_t caching = play_in("caching", 0, seed, &fits);
        uint64_t free_range = play_in("iteration", 0, seed, &fits);
        print_message("seed %llu: %.3f of caching\n", (unsigned long long)seed,
                      (double)free_range / (double)caching);
        assert_true(free_range <= caching);
        play_in("iteration", caching, seed, &fits);
        assert_true(fits);
    }
}

/* --- faults and threads --- */

/* Fails not once but fifty times in a row. */
static void *drought_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                            size_t alignment) {
    faulty *memory = self;
    bool is_dry = memory->requests >= memory->fail_at && memory->requests < memory->fail_at + 50;
    if (new_size == 0 || !is_dry)
        return faulty_resize(self, pointer, old_size, new_size, alignment);
    memory->requests++;
    return NULL;
}

static void without_memory_it_learns_less_and_breaks_nothing(void **state) {
    (void)state;
    uint64_t plans = 0, without = 0;
    for (uint64_t n = 1;; n++) {
        faulty memory = {.fail_at = n};
        tn_context context = faulty_context(&memory);
        if (n % 2 == 0) context.allocator.resize = drought_resize;
        tn__random random = {.state = 3};
        loop *played = calloc(1, sizeof *played);
        loop_make(played, &random, 100, 1);
        model *made = model_open(&context);
        if (made != NULL) {
            model_play(made, played, 8);
            plans += learned(made).plans > 0;
            without += learned(made).plans == 0;
            tn_pool_empty_cache(made->pool);
            model_check(made);
            model_close(made);
        }
        free(played);
        assert_int_equal(memory.held, 0);
        if (memory.requests < n) break;
    }
    print_message("%llu with a plan, %llu without\n", (unsigned long long)plans,
                  (unsigned long long)without);
    assert_true(plans > 0 && without > 0);
}

typedef struct thread_work {
    tn_pool *pool;
    uint32_t *owner; /* by 64 bytes; written without a lock, for TSan to see */
    uint32_t number;
    const char *wrong;
} thread_work;

static const char *thread_wrong(const thread_work *work) {
    tn__random random = {.state = work->number};
    static _Thread_local loop played;
    static _Thread_local struct {
        tn_allocation block;
        uint64_t due;
    } held[STEPS_MAX];
    loop_make(&played, &random, 100, 1);
    for (uint32_t n = 0; n < 100 * 200; n++) {
        const step *wanted = &played.steps[n % 100];
        for (uint32_t i = 0; i < STEPS_MAX; i++) {
            tn_allocation *block = &held[i].block;
            if (block->id == 0 || held[i].due > n) continue;
            for (uint64_t u = block->offset / GRAIN; u < (block->offset + block->size) / GRAIN; u++)
                if (work->owner[u] != work->number) return "a block was given to two threads";
            if (tn_pool_free(work->pool, block->id, NULL) != TN_OK) return "cannot free";
            block->id = 0;
        }
        uint32_t at = 0;
        while (held[at].block.id != 0) at++;
        tn_pool_request request = {.size = wanted->size, .stream = work->number};
        if (tn_pool_alloc(work->pool, &request, &held[at].block, NULL) != TN_OK) return "no room";
        held[at].due = n + wanted->length;
        const tn_allocation *block = &held[at].block;
        for (uint64_t u = block->offset / GRAIN; u < (block->offset + block->size) / GRAIN; u++)
            work->owner[u] = work->number;
    }
    return NULL;
}

static void *thread_run(void *given) {
    thread_work *work = given;
    work->wrong = thread_wrong(work);
    return NULL;
}

static uint64_t thread_released; /* bytes */

/* As the system does with pages: what is in them is lost. */
static void thread_release(void *self, uint64_t offset, uint64_t size) {
    thread_released += size;
    memset((uint32_t *)self + offset / GRAIN, 0, size / GRAIN * sizeof(uint32_t));
}

static void threads_share(bool releases) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool;
    options.pool = "iteration";
    options.capacity = 64 << 20;
    uint32_t *owner = calloc(options.capacity / GRAIN, sizeof *owner);
    options.release = releases ? thread_release : NULL;
    options.release_self = owner;
    assert_ok(tn_pool_create(&options, &pool, &failure));
    thread_work work[2] = {{pool, owner, 1, NULL}, {pool, owner, 2, NULL}};
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, thread_run, &work[t]), 0);
    for (int t = 0; t < 2; t++) {
        pthread_join(threads[t], NULL);
        if (work[t].wrong != NULL) fail_msg("%s\n", work[t].wrong);
    }
    assert_null(tn__pool_check(pool));
    tn_pool_destroy(pool);
    free(owner);
}

static void threads_share_it(void **state) {
    (void)state;
    threads_share(false);
    threads_share(true);
    assert_true(thread_released > 0);
}

int main(int count, char **arguments) {
    if (count > 1) operations = strtoull(arguments[1], NULL, 10);
    const struct CMUnitTest all[] = {
        cmocka_unit_test(what_repeats_is_served_from_the_plan),
        cmocka_unit_test(a_plan_is_hardly_higher_than_what_lives),
        cmocka_unit_test(what_lies_free_goes_back),
        cmocka_unit_test(a_plan_that_would_be_high_lies_above),
        cmocka_unit_test(one_change_is_one_surprise),
        cmocka_unit_test(another_loop_is_learned_anew),
        cmocka_unit_test(random_operations_agree_with_a_map),
        cmocka_unit_test(blocks_lie_across_zones),
        cmocka_unit_test(half_a_slot_is_not_given),
        cmocka_unit_test(it_fits_where_caching_fits),
        cmocka_unit_test(without_memory_it_learns_less_and_breaks_nothing),
        cmocka_unit_test(threads_share_it),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
