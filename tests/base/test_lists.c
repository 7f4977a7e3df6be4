/* test_lists.c - lists by key, compared with a search through all pairs. */
#include "../support.h"

#include "base/lists.h"

enum { KEYS = 7, ITEMS = 40 };

typedef struct drawing {
    bool has[ITEMS][KEYS];
    uint32_t twice; /* every item is added this often */
} drawing;

static void fill(void *self, tn__lists *lists) {
    const drawing *drawn = self;
    for (uint32_t item = 0; item < ITEMS; item++)
        for (uint32_t key = 0; key < KEYS; key++)
            for (uint32_t i = 0; drawn->has[item][key] && i < drawn->twice; i++)
                tn__lists_add(lists, key, item);
}

static void check_key(const drawing *drawn, const tn__lists *lists, uint32_t key) {
    uint32_t at = lists->first[key], last = UINT32_MAX;
    for (uint32_t item = 0; item < ITEMS; item++) {
        uint32_t above = 0;
        for (uint32_t other = item + 1; other < ITEMS; other++) above += drawn->has[other][key];
        assert_int_equal(lists->first[key + 1] - tn__lists_after(lists, key, item), above);
        if (!drawn->has[item][key]) continue;
        assert_int_equal(lists->items[at++], item);
        last = item;
    }
    assert_int_equal(at, lists->first[key + 1]);
    assert_int_equal(tn__lists_last(lists, key), last);
}

static void lists_have_the_items_of_their_key_once_and_in_order(void **state) {
    (void)state;
    tn_context context = tn__context(NULL);
    uint64_t seed = 1;
    for (uint32_t round = 0; round < 200; round++) {
        drawing drawn = {.twice = 1 + round % 2};
        tn__arena arena;
        tn__lists lists;
        for (uint32_t item = 0; item < ITEMS; item++)
            for (uint32_t key = 0; key < KEYS; key++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                drawn.has[item][key] = (seed >> 60) < key * 2; /* key 0: no items */
            }
        tn__arena_init(&arena, &context);
        assert_true(tn__lists_make(&lists, KEYS, &arena, fill, &drawn));
        for (uint32_t key = 0; key < KEYS; key++) check_key(&drawn, &lists, key);
        tn__arena_release(&arena);
    }
}

static void no_keys_make_no_lists(void **state) {
    (void)state;
    tn_context context = tn__context(NULL);
    drawing drawn = {.twice = 0};
    tn__arena arena;
    tn__lists lists;
    tn__arena_init(&arena, &context);
    assert_true(tn__lists_make(&lists, 0, &arena, fill, &drawn));
    assert_int_equal(lists.first[0], 0);
    tn__arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_have_the_items_of_their_key_once_and_in_order),
        cmocka_unit_test(no_keys_make_no_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
