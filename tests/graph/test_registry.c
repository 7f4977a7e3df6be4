/* The registry: sorted tables, no operator twice, listed in a stable order. */
#include "kit.h"

#include "graph/op.h"

#define TN_FAMILY(name) extern const tn_op_family tn__ops_##name;
#include "graph/ops.def"
#undef TN_FAMILY

static const tn_op_family *const families[] = {
#define TN_FAMILY(name) &tn__ops_##name,
#include "graph/ops.def"
#undef TN_FAMILY
};
#define FAMILIES (sizeof families / sizeof *families)

static void families_are_sorted_by_type_as_the_search_needs(void **state) {
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++)
        for (uint32_t j = 1; j < families[i]->rule_count; j++)
            if (strcmp(families[i]->rules[j - 1].type, families[i]->rules[j].type) >= 0)
                fail_msg("family %s: %s stands before %s", families[i]->name,
                         families[i]->rules[j - 1].type, families[i]->rules[j].type);
}

static void every_rule_is_found_and_no_type_appears_twice(void **state) {
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++)
        for (uint32_t j = 0; j < families[i]->rule_count; j++) {
            const tn_op_rule *rule = &families[i]->rules[j];
            if (tn__op_rule(families[i]->domain, rule->type) != rule)
                fail_msg("%s of family %s is hidden by another", rule->type, families[i]->name);
        }
    assert_ptr_equal(tn__op_rule("ai.onnx", "Relu"), tn__op_rule("", "Relu"));
    assert_null(tn__op_rule("", "NoSuchOperator"));
    assert_null(tn__op_rule("", ""));
    assert_null(tn__op_rule("no.such.domain", "Relu"));
}

static void rules_are_complete(void **state) {
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++)
        for (uint32_t j = 0; j < families[i]->rule_count; j++) {
            const tn_op_rule *rule = &families[i]->rules[j];
            if (rule->inputs_min > rule->inputs_max || rule->outputs_max == 0)
                fail_msg("%s: arity", rule->type);
            if (!rule->enter != !(rule->flags & TN_RULE_CONTROL)) fail_msg("%s: enter", rule->type);
            if (rule->inplace && rule->inplace_of) fail_msg("%s: two in-place rules", rule->type);
        }
}

/* PyTorch's names end in one underscore when they write into their input; of the operators that
 * Python spells with two on either side, those with an i do. */
static void aten_names_say_who_writes_into_its_input(void **state) {
    (void)state;
    static const char *const changing[] = {"relu_.default", "add_.Tensor", "__iand__.Tensor"};
    static const char *const pure[] = {"relu.default", "add.Tensor", "__and__.Tensor", "_"};
    for (size_t i = 0; i < sizeof changing / sizeof *changing; i++)
        assert_true(tn__op_rule("aten", changing[i])->flags & TN_RULE_CHANGES);
    for (size_t i = 0; i < sizeof pure / sizeof *pure; i++)
        assert_false(tn__op_rule("aten", pure[i])->flags & TN_RULE_CHANGES);
}

static void listing_is_by_domain_and_then_by_name(void **state) {
    (void)state;
    uint32_t count = tn_op_rule_count();
    assert_true(count > 100);
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(tn__op_rule(tn_op_rule_domain(i), tn_op_rule_type(i)));
        if (!i) continue;
        int order = strcmp(tn_op_rule_domain(i - 1), tn_op_rule_domain(i));
        if (!order) order = strcmp(tn_op_rule_type(i - 1), tn_op_rule_type(i));
        if (order >= 0) fail_msg("%s before %s", tn_op_rule_type(i - 1), tn_op_rule_type(i));
    }
    assert_null(tn_op_rule_type(count));
    assert_null(tn_op_rule_domain(count));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_sorted_by_type_as_the_search_needs),
        cmocka_unit_test(every_rule_is_found_and_no_type_appears_twice),
        cmocka_unit_test(rules_are_complete),
        cmocka_unit_test(aten_names_say_who_writes_into_its_input),
        cmocka_unit_test(listing_is_by_domain_and_then_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
