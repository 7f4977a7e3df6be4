/* test_heap.c - heaps, compared with a search through all of their items. */
#include "../support.h"

#include "base/base.h"
#include "base/heap.h"

enum { ITEMS = 60, STEPS = 20000 };

typedef struct item {
    uint32_t key, id;
} item;

static bool item_before(const item *a, const item *b) { return a->key < b->key; }
TN__HEAP(test_heap, item, item_before)

/* Items by number; the owner knows where each one is. */
typedef struct owner {
    uint32_t key[ITEMS];
    size_t at[ITEMS];
} owner;

static bool owner_before(const owner *of, const uint32_t *a, const uint32_t *b) {
    return of->key[*a] < of->key[*b];
}
static void owner_placed(owner *of, const uint32_t *number, size_t at) { of->at[*number] = at; }
TN__HEAP_OF(test_index, owner, uint32_t, owner_before, owner_placed)

static void a_heap_gives_the_least_item(void **state) {
    (void)state;
    item items[ITEMS], all[ITEMS];
    size_t count = 0;
    tn__random random = {.state = 1};
    for (uint32_t step = 0; step < STEPS; step++) {
        bool grows = count == 0 || (count < ITEMS && tn__random_below(&random, 2) == 0);
        if (grows) {
            item added = {(uint32_t)tn__random_below(&random, 30), step};
            all[count] = added;
            test_heap_push(items, count++, added);
            continue;
        }
        item changed = {(uint32_t)tn__random_below(&random, 30), step};
        bool replaces = tn__random_below(&random, 3) == 0;
        item first = items[0];
        if (replaces)
            test_heap_sink(items, count, 0, changed);
        else
            first = test_heap_pop(items, count);
        size_t at = ITEMS; /* the item is one of all, and none is less */
        for (size_t i = 0; i < count; i++) {
            assert_true(all[i].key >= first.key);
            if (all[i].id == first.id) at = i;
        }
        assert_true(at < count);
        assert_int_equal(all[at].key, first.key);
        all[at] = replaces ? changed : all[count - 1];
        if (!replaces) count--;
    }
}

static void an_owner_finds_and_removes_any_item(void **state) {
    (void)state;
    owner of = {.key = {0}};
    uint32_t items[ITEMS];
    bool in[ITEMS] = {false};
    size_t count = 0;
    tn__random random = {.state = 2};
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t number = (uint32_t)tn__random_below(&random, ITEMS);
        if (!in[number]) {
            of.key[number] = (uint32_t)tn__random_below(&random, 30);
            test_index_push(&of, items, count++, number);
            in[number] = true;
        } else if (step % 3 == 0) { /* the key changes */
            uint32_t before = of.key[number];
            of.key[number] = (uint32_t)tn__random_below(&random, 30);
            if (of.key[number] < before)
                test_index_rise(&of, items, of.at[number], number);
            else
                test_index_sink(&of, items, count, of.at[number], number);
        } else {
            test_index_remove(&of, items, count--, of.at[number]);
            in[number] = false;
        }
        uint32_t least = UINT32_MAX, held = 0;
        for (uint32_t i = 0; i < ITEMS; i++) {
            if (!in[i]) continue;
            held++;
            assert_int_equal(items[of.at[i]], i);
            if (of.key[i] < least) least = of.key[i];
        }
        assert_int_equal(held, count);
        if (count > 0) assert_int_equal(of.key[items[0]], least);
    }
}

static void an_array_becomes_a_heap(void **state) {
    (void)state;
    tn__random random = {.state = 3};
    for (size_t count = 0; count < ITEMS; count++) {
        item items[ITEMS];
        for (uint32_t i = 0; i < count; i++)
            items[i] = (item){(uint32_t)tn__random_below(&random, 40), i};
        for (size_t i = count / 2; i-- > 0;) test_heap_sink(items, count, i, items[i]);
        uint64_t seen = 0;
        for (size_t left = count, last = 0; left > 0; left--) {
            item least = test_heap_pop(items, left);
            assert_true(least.key >= last);
            last = least.key;
            seen |= (uint64_t)1 << least.id;
        }
        assert_true(seen == ((uint64_t)1 << count) - 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heap_gives_the_least_item),
        cmocka_unit_test(an_owner_finds_and_removes_any_item),
        cmocka_unit_test(an_array_becomes_a_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
