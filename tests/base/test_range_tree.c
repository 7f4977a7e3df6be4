/* test_range_tree.c - trees of maximums, compared with plain arrays. */
#include "../support.h"

#include "base/range_tree.h"

enum { LEAVES = 70, STEPS = 3000 };

static int64_t most_of(const int64_t *values, uint32_t first, uint32_t last) {
    int64_t most = INT64_MIN;
    for (uint32_t i = first; i < last; i++)
        if (values[i] > most) most = values[i];
    return most;
}

/* The first leaf above a limit, by a walk over all of them. */
static uint32_t above(const int64_t *values, uint32_t count, int64_t limit) {
    for (uint32_t i = 0; i < count; i++)
        if (values[i] > limit) return i;
    return TN__RANGE_TREE_NONE;
}

/* Sets a block of leaves as large as the tree allows, aligned to its size. */
static void set_block(tn__range_tree *tree, int64_t *values, tn__random *random) {
    uint32_t size = 1;
    while (size < tree->width && tn__random_below(random, 3) > 0) size *= 2;
    uint32_t first = (uint32_t)tn__random_below(random, tree->width / size) * size;
    for (uint32_t i = 0; i < size; i++)
        values[first + i] = (int64_t)tn__random_below(random, 2000) - 1000;
    tn__range_tree_set(tree, first, size, values + first);
}

static void check_tree(const tn__range_tree *tree, const int64_t *values, tn__random *random) {
    uint32_t width = tree->width;
    uint32_t first = (uint32_t)tn__random_below(random, width + 1);
    uint32_t last = (uint32_t)tn__random_below(random, width + 1), size = 1;
    int64_t peak = most_of(values, 0, width), limit = peak - (int64_t)tn__random_below(random, 900);
    assert_true(tn__range_tree_most(tree, first, last) == most_of(values, first, last));
    assert_true(tn__range_tree_peak(tree) == peak);
    assert_int_equal(tn__range_tree_top(tree), above(values, width, peak - 1));
    assert_int_equal(tn__range_tree_above(tree, limit), above(values, width, limit));
    assert_int_equal(tn__range_tree_above(tree, peak), TN__RANGE_TREE_NONE);
    while (size < width && tn__random_below(random, 3) > 0) size *= 2;
    int64_t read[2 * LEAVES];
    first = (uint32_t)tn__random_below(random, width / size) * size;
    tn__range_tree_get(tree, first, size, read);
    for (uint32_t i = 0; i < size; i++) assert_true(read[i] == values[first + i]);
}

static void a_tree_is_as_an_array_would_be(void **state) {
    (void)state;
    tn__random random = {.state = 5};
    for (uint32_t leaves = 0; leaves <= LEAVES; leaves = leaves < 9 ? leaves + 1 : leaves + 20) {
        size_t room = tn__range_tree_room(leaves);
        int64_t *memory = malloc(room * sizeof *memory), values[2 * LEAVES] = {0};
        tn__range_tree tree;
        assert_non_null(memory);
        tn__range_tree_init(&tree, leaves, memory);
        assert_true(tree.width >= leaves && tree.width <= 2 * LEAVES);
        for (uint32_t i = 0; i < leaves; i++)
            tree.most[tree.width + i] = values[i] = (int64_t)tn__random_below(&random, 500);
        tn__range_tree_sum_up(&tree);
        for (uint32_t step = 0; step < STEPS; step++) {
            uint32_t first = (uint32_t)tn__random_below(&random, tree.width + 1);
            uint32_t last = (uint32_t)tn__random_below(&random, tree.width + 1);
            int64_t value = (int64_t)tn__random_below(&random, 200) - 100;
            tn__range_tree_add(&tree, first, last, value);
            for (uint32_t i = first; i < last; i++) values[i] += value;
            if (step % 7 == 0) set_block(&tree, values, &random);
            check_tree(&tree, values, &random);
        }
        free(memory);
    }
}

static void too_many_leaves_have_no_room(void **state) {
    (void)state;
    assert_true(tn__range_tree_room(((uint32_t)1 << 30) + 1) == SIZE_MAX);
    assert_true(tn__range_tree_room(UINT32_MAX) == SIZE_MAX);
    assert_int_equal(tn__range_tree_room(3), 16);
}

static void numbers_that_stay_have_maximums(void **state) {
    (void)state;
    tn__random random = {.state = 6};
    for (uint32_t leaves = 1; leaves < LEAVES; leaves++) {
        uint64_t tree[2 * LEAVES] = {0};
        int64_t values[LEAVES];
        for (uint32_t i = 0; i < leaves; i++)
            tree[leaves + i] = (uint64_t)(values[i] = (int64_t)tn__random_below(&random, 1000) + 1);
        tn__range_max_init(tree, leaves);
        assert_true(tree[1] == (uint64_t)most_of(values, 0, leaves));
        for (uint32_t first = 0; first <= leaves; first++)
            for (uint32_t last = 0; last <= leaves; last++)
                assert_true(tn__range_max(tree, leaves, first, last) ==
                            (first < last ? (uint64_t)most_of(values, first, last) : 0));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_is_as_an_array_would_be),
        cmocka_unit_test(too_many_leaves_have_no_room),
        cmocka_unit_test(numbers_that_stay_have_maximums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
