/* test_names.c - what `tenure list` tells of planners and of strategies for shared objects. */
#include "kit.h"

#include <tenure/objects.h>

#include "plan/frame/planner.h"

/* A name of its own, a sentence, and where the technique is from. */
static void techniques_say_what_they_are_and_where_they_are_from(void **state) {
    (void)state;
    for (uint32_t i = 0; i < tn_planner_count(); i++) {
        assert_true(strlen(tn_planner_summary(i)) > 0 && strlen(tn__planner_at(i)->source) > 0);
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(tn_planner_name(i), tn_planner_name(j));
    }
    for (uint32_t i = 0; i < tn_object_strategy_count(); i++) {
        assert_true(strlen(tn_object_strategy_summary(i)) > 0);
        assert_true(strlen(tn_object_strategy_source(i)) > 0);
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(tn_object_strategy_name(i), tn_object_strategy_name(j));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(techniques_say_what_they_are_and_where_they_are_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
