/* Where best-fit puts things, against a list of blocks that is searched from end to end. */
#include <tenure/pool.h>

#include "base/base.h"
#include "../support.h"

static tn_error failure;

enum { LIVE_MAX = 600, OPERATIONS = 20000 };

typedef struct fit_block {
    uint64_t offset, size, id;
} fit_block;

typedef struct fit_model { /* blocks by offset */
    fit_block blocks[LIVE_MAX];
    uint32_t count;
    uint64_t unit;
} fit_model;

/* The smallest hole of at least `size` bytes, the lowest of equals; else behind the last block. */
static uint64_t fit_predict(const fit_model *model, uint64_t size) {
    uint64_t end = 0, best = UINT64_MAX, best_size = UINT64_MAX;
    for (uint32_t i = 0; i < model->count; i++) {
        uint64_t hole = model->blocks[i].offset - end;
        if (hole >= size && hole < best_size) {
            best = end;
            best_size = hole;
        }
        end = model->blocks[i].offset + model->blocks[i].size;
    }
    return best != UINT64_MAX ? best : end;
}

static void fit_insert(fit_model *model, fit_block block) {
    uint32_t at = model->count++;
    for (; at > 0 && model->blocks[at - 1].offset > block.offset; at--)
        model->blocks[at] = model->blocks[at - 1];
    model->blocks[at] = block;
}

/* Mostly little sizes, so that many holes are of one size; now and then a large one, so that they
 * lie far apart. */
static uint64_t fit_size(tn__random *random, uint64_t unit) {
    uint64_t kind = tn__random_below(random, 10);
    if (kind < 6) return unit * (1 + tn__random_below(random, 8));
    if (kind < 9) return 1 + tn__random_below(random, unit * 300);
    return 1 + tn__random_below(random, unit << tn__random_below(random, 24));
}

static void fit_alloc(fit_model *model, tn_pool *pool, uint64_t size, uint64_t seed) {
    uint64_t rounded = (size + model->unit - 1) & ~(model->unit - 1);
    uint64_t expected = fit_predict(model, rounded);
    tn_allocation got;
    if (tn_pool_alloc(pool, &(tn_pool_request){.size = size}, &got, &failure) != TN_OK)
        fail_msg("seed %llu: %s\n", (unsigned long long)seed, failure.message);
    if (got.offset != expected || got.size != rounded)
        fail_msg("seed %llu: %llu bytes at %llu, not at %llu\n", (unsigned long long)seed,
                 (unsigned long long)size, (unsigned long long)got.offset,
                 (unsigned long long)expected);
    fit_insert(model, (fit_block){got.offset, got.size, got.id});
}

static void fit_free(fit_model *model, tn_pool *pool, uint32_t index) {
    assert_int_equal(tn_pool_free(pool, model->blocks[index].id, &failure), TN_OK);
    model->count--;
    memmove(model->blocks + index, model->blocks + index + 1,
            (model->count - index) * sizeof *model->blocks);
}

static void best_fit_is_the_smallest_hole_that_is_enough_and_the_lowest(void **state) {
    (void)state;
    const uint64_t units[] = {64, 1, 4096, 64, 512, 64};
    fit_model *model = calloc(1, sizeof *model);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        tn__random random = {seed};
        tn_pool_options options = TN_POOL_OPTIONS_INIT;
        tn_pool *pool;
        *model = (fit_model){.unit = units[seed - 1]};
        options.pool = "best-fit";
        options.alignment = model->unit;
        assert_int_equal(tn_pool_create(&options, &pool, &failure), TN_OK);
        for (uint32_t i = 0; i < OPERATIONS; i++) {
            bool more = model->count == 0 ||
                        (model->count < LIVE_MAX && tn__random_below(&random, 100) < 52);
            if (i % 5000 > 4500) more = model->count == 0; /* and down to nearly nothing */
            if (more)
                fit_alloc(model, pool, fit_size(&random, model->unit), seed);
            else
                fit_free(model, pool, (uint32_t)tn__random_below(&random, model->count));
        }
        tn_pool_destroy(pool);
    }
    free(model);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(best_fit_is_the_smallest_hole_that_is_enough_and_the_lowest),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
