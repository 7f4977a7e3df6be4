/* cmocka.h - a stand-in for the part of cmocka that rooms base and plan use, so that the minimal
 * build tests without any library. Other builds use cmocka itself. */
#ifndef TN_TESTS_MINIMAL_CMOCKA_H
#define TN_TESTS_MINIMAL_CMOCKA_H

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
};
#define cmocka_unit_test(function)                                                                 \
    { #function, function }

static jmp_buf minimal_failed;
static int minimal_skipped;

static inline void minimal_fail(const char *what, const char *file, int line) {
    printf("%s:%d: %s\n", file, line, what);
    longjmp(minimal_failed, 1);
}
#define minimal_check(condition, what)                                                             \
    ((condition) ? (void)0 : minimal_fail(what, __FILE__, __LINE__))

#define assert_true(value) minimal_check((value), "not true: " #value)
#define assert_false(value) minimal_check(!(value), "not false: " #value)
#define assert_null(value) minimal_check((value) == NULL, "not NULL: " #value)
#define assert_non_null(value) minimal_check((value) != NULL, "NULL: " #value)
#define assert_int_equal(a, b) minimal_check((a) == (b), #a " differs from " #b)
#define assert_int_not_equal(a, b) minimal_check((a) != (b), #a " equals " #b)
#define assert_string_equal(a, b) minimal_check(strcmp((a), (b)) == 0, #a " differs from " #b)
#define assert_string_not_equal(a, b) minimal_check(strcmp((a), (b)) != 0, #a " equals " #b)
#define assert_memory_equal(a, b, size)                                                            \
    minimal_check(memcmp((a), (b), (size)) == 0, #a " differs from " #b)
#define fail_msg(...) (printf(__VA_ARGS__), minimal_fail("", __FILE__, __LINE__))
#define print_message(...) printf(__VA_ARGS__)
#define skip() (minimal_skipped = 1, longjmp(minimal_failed, 1))

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    minimal_run((tests), sizeof(tests) / sizeof *(tests))

/* A function of its own, so that longjmp finds no local to clobber. */
static inline int minimal_run_one(const struct CMUnitTest *test) {
    void *state = NULL;
    minimal_skipped = 0;
    if (setjmp(minimal_failed) == 0) {
        test->test(&state);
        return 0;
    }
    if (minimal_skipped) return 0;
    printf("FAILED: %s\n", test->name);
    return 1;
}

static inline int minimal_run(const struct CMUnitTest *tests, size_t count) {
    int failures = 0;
    for (size_t i = 0; i < count; i++) failures += minimal_run_one(&tests[i]);
    printf("%zu tests, %d failed\n", count, failures);
    return failures;
}

#endif
