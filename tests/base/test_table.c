/* test_table.c - the hash table, compared with a search through all numbers. */
#include "../support.h"

#include "base/table.h"

enum { NUMBERS = 300, STEPS = 6000 };

/* Few hashes, of which many share their low bits: long runs of slots, and equal hashes. */
static uint64_t hash_of(uint32_t number) {
    return number % 5 == 0 ? 7 : (uint64_t)(number % 40) << 20 | (number & 1);
}

static bool table_has(const tn__table *table, uint32_t number) {
    tn__probe probe = tn__table_probe(table, hash_of(number));
    for (uint32_t found; (found = tn__table_next(table, &probe)) != TN__TABLE_NONE;)
        if (found == number) return true;
    return false;
}

static void check_all(const tn__table *table, const bool *in) {
    size_t count = 0;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        assert_int_equal(table_has(table, i), in[i]);
        count += in[i];
    }
    assert_int_equal(table->count, count);
}

static void a_table_has_what_was_added_and_not_removed(void **state) {
    (void)state;
    bool in[NUMBERS] = {false};
    faulty memory = {.fail_at = 0};
    tn_context context = faulty_context(&memory);
    tn__random random = {.state = 8};
    tn__table table;
    tn__table_init(&table, &context);
    check_all(&table, in);
    assert_false(tn__table_remove(&table, 7, 0));
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t number = (uint32_t)tn__random_below(&random, NUMBERS);
        if (in[number])
            assert_true(tn__table_remove(&table, hash_of(number), number));
        else
            assert_true(tn__table_add(&table, hash_of(number), number));
        in[number] = !in[number];
        if (step % 10 == 0) check_all(&table, in);
        assert_int_equal(tn__table_remove(&table, hash_of(NUMBERS), NUMBERS), false);
    }
    tn__table_release(&table);
    assert_int_equal(memory.held, 0);
}

static void a_number_may_be_there_twice(void **state) {
    (void)state;
    tn_context context = tn__context(NULL);
    tn__table table;
    tn__table_init(&table, &context);
    assert_true(tn__table_add(&table, 3, 9) && tn__table_add(&table, 3, 9));
    assert_true(tn__table_remove(&table, 3, 9));
    tn__probe probe = tn__table_probe(&table, 3);
    assert_int_equal(tn__table_next(&table, &probe), 9);
    assert_int_equal(tn__table_next(&table, &probe), TN__TABLE_NONE);
    tn__table_release(&table);
}

/* Every allocation fails once: the table stays as it was, and works afterwards. */
static void a_table_without_memory_stays_as_it_was(void **state) {
    (void)state;
    for (uint64_t fail = 1;; fail++) {
        bool in[NUMBERS] = {false}, failed = false;
        faulty memory = {.fail_at = fail};
        tn_context context = faulty_context(&memory);
        tn__table table;
        tn__table_init(&table, &context);
        for (uint32_t i = 0; i < NUMBERS; i++) {
            in[i] = tn__table_add(&table, hash_of(i), i);
            if (in[i]) continue;
            failed = true;
            check_all(&table, in);
            in[i] = tn__table_add(&table, hash_of(i), i);
            assert_true(in[i]);
        }
        check_all(&table, in);
        tn__table_release(&table);
        assert_int_equal(memory.held, 0);
        if (!failed) break;
    }
}

static void too_many_numbers_have_no_room(void **state) {
    (void)state;
    faulty memory = {.fail_at = 1};
    tn_context context = faulty_context(&memory);
    tn__table table;
    tn__table_init(&table, &context);
    assert_false(tn__table_reserve(&table, UINT32_MAX));
    assert_int_equal(memory.requests, 0);
    memory.fail_at = 0;
    assert_true(tn__table_reserve(&table, 100) && table.room == 256);
    assert_true(tn__table_reserve(&table, 192) && table.room == 256);
    tn__table_release(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_what_was_added_and_not_removed),
        cmocka_unit_test(a_number_may_be_there_twice),
        cmocka_unit_test(a_table_without_memory_stays_as_it_was),
        cmocka_unit_test(too_many_numbers_have_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
