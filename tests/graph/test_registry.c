/* The registry: sorted tables, no operator twice, listed in a stable order. */
#include "kit.h"

#include <strings.h>

#include "graph/op.h"

#define TN_FAMILY(folder, name) extern const tn_op_family tn__ops_##name;
#include "graph/ops.def"
#undef TN_FAMILY

static const tn_op_family *const families[] = {
#define TN_FAMILY(folder, name) &tn__ops_##name,
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

static bool type_has(const char *type, const char *const *words) {
    for (; *words != NULL; words++)
        for (const char *at = type; *at != '\0'; at++)
            if (strncasecmp(at, *words, strlen(*words)) == 0) return true;
    return false;
}

/* Passes that keep the results of costly operators ask for these kinds, in graphs of any domain.
 * Operators of TFLite are never repeated. */
static void convolutions_and_products_of_every_domain_are_known_as_such(void **state) {
    (void)state;
    static const char *const conv[] = {"conv", NULL};
    static const char *const product[] = {"matmul", "gemm", "attention", "lstm", "gru",
                                          "rnn",    "moe",  "einsum",    NULL};
    static const char *const other[] = {"Embedding", "Grad",      "Rotary",   "Fp16", "Mask",
                                        "Reduced",   "Recurrent", "backward", NULL};
    for (size_t i = 0; i < FAMILIES; i++)
        for (uint32_t j = 0; j < families[i]->rule_count; j++) {
            const tn_op_rule *rule = &families[i]->rules[j];
            if (rule->flags & TN_RULE_RANDOM || type_has(rule->type, other)) continue;
            if (type_has(rule->type, conv) && !(rule->flags & (TN_RULE_CONV | TN_RULE_CONV_LIKE)))
                fail_msg("%s %s is no convolution", families[i]->name, rule->type);
            if (type_has(rule->type, product) &&
                !(rule->flags & (TN_RULE_MATMUL | TN_RULE_MATMUL_LIKE)))
                fail_msg("%s %s is no product", families[i]->name, rule->type);
        }
    static const char *const torch[] = {"mm.default", "bmm.default", "addmm.default"};
    for (size_t i = 0; i < sizeof torch / sizeof *torch; i++)
        assert_true(tn__op_rule("aten", torch[i])->flags & TN_RULE_MATMUL_LIKE);
    assert_true(tn__op_rule("aten", "convolution.default")->flags & TN_RULE_CONV_LIKE);
    assert_false(tn__op_rule("aten", "relu.default")->flags &
                 (TN_RULE_CONV_LIKE | TN_RULE_MATMUL_LIKE));
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

/* --- what runs again --- */

/* By another type of the same domain, on as many inputs, whose output may lie where output 0 may,
 * and which itself may be repeated. */
static void what_repeats_an_operator_can_stand_for_it(void **state) {
    (void)state;
    uint32_t count = 0;
    for (size_t i = 0; i < FAMILIES; i++)
        for (uint32_t j = 0; j < families[i]->rule_count; j++) {
            const tn_op_rule *rule = &families[i]->rules[j];
            if (rule->recompute_as == NULL) continue;
            const tn_op_rule *other = tn__op_rule(families[i]->domain, rule->recompute_as);
            if (other == NULL) fail_msg("%s: there is no %s", rule->type, rule->recompute_as);
            count++;
            bool once = other->changes || (other->flags & (TN_RULE_CHANGES | TN_RULE_RANDOM |
                                                           TN_RULE_CONTROL | TN_RULE_ORDERED));
            if (once) fail_msg("%s may not be repeated", other->type);
            if (other->inputs_max < rule->inputs_max || other->inputs_min > rule->inputs_min)
                fail_msg("%s takes other inputs than %s", other->type, rule->type);
            if (rule->inplace_of || (rule->inplace & ~other->inplace) || other->view)
                fail_msg("%s has another memory than %s", other->type, rule->type);
        }
    assert_true(count > 0);
}

/* --- kinds --- */

/* The row at `index` of all rows, of a family whose domain is *domain; NULL: there are no more. */
static const tn_op_rule *rule_at(uint32_t index, const char **domain) {
    for (size_t i = 0; i < FAMILIES; i++) {
        *domain = families[i]->domain;
        if (index < families[i]->rule_count) return &families[i]->rules[index];
        index -= families[i]->rule_count;
    }
    return NULL;
}

static void kinds_of_operators_are_claimed_and_exclude_each_other(void **state) {
    (void)state;
    static const uint32_t apart[] = {TN_RULE_CONV, TN_RULE_MATMUL, TN_RULE_ARITHMETIC,
                                     TN_RULE_RESHAPES, TN_RULE_CONTROL};
    const uint32_t kinds = TN_RULE_CONV | TN_RULE_MATMUL | TN_RULE_ARITHMETIC | TN_RULE_RESHAPES |
                           TN_RULE_IMAGES | TN_RULE_ONCE | TN_RULE_HOLDS;
    uint32_t seen = 0;
    const char *domain;
    const tn_op_rule *rule;
    for (uint32_t i = 0; (rule = rule_at(i, &domain)) != NULL; i++) {
        uint32_t count = 0;
        for (size_t k = 0; k < sizeof apart / sizeof *apart; k++)
            count += (rule->flags & apart[k]) != 0;
        if (count > 1) fail_msg("%s.%s is of several kinds", domain, rule->type);
        seen |= rule->flags;
    }
    assert_int_equal(seen & kinds, kinds);
}

/* What a kind says of an operator must agree with what its row says otherwise. */
static void rows_do_what_their_kind_says(void **state) {
    (void)state;
    const char *domain;
    const tn_op_rule *rule;
    for (uint32_t i = 0; (rule = rule_at(i, &domain)) != NULL; i++) {
        bool computes = rule->flops != NULL || rule->flops_per > 0;
        bool product = rule->flags & (TN_RULE_CONV | TN_RULE_MATMUL);
        bool onnx = domain[0] == 0;
        if (product && (rule->flops == NULL || rule->inputs_min != 2 || rule->outputs_max != 1))
            fail_msg("%s.%s is not a product of two operands", domain, rule->type);
        if (product && onnx && (rule->gradient == NULL || !(rule->weights & 2)))
            fail_msg("%s: a product has weights and a gradient", rule->type);
        if ((rule->flags & TN_RULE_ARITHMETIC) && (!computes || rule->inputs_max < 2))
            fail_msg("%s.%s does no arithmetic", domain, rule->type);
        if ((rule->flags & TN_RULE_RESHAPES) && (computes || rule->view == NULL))
            fail_msg("%s.%s does more than change a shape", domain, rule->type);
        if ((rule->flags & TN_RULE_IMAGES) && !computes &&
            !(rule->flags & (TN_RULE_JOINS | TN_RULE_FORMAT_VIEW)))
            fail_msg("%s.%s: formats of what is not computed", domain, rule->type);
    }
}

static void fused_forms_are_there_for_what_claims_one(void **state) {
    (void)state;
    static const uint32_t kinds[] = {TN_RULE_CONV, TN_RULE_MATMUL};
    static const char *const forms[] = {"Conv", "MatMul"};
    for (size_t k = 0; k < 2; k++) {
        const tn_op_rule *form = tn__op_rule("tenure", forms[k]);
        assert_non_null(form);
        assert_true(form->flags & kinds[k]);
        assert_int_equal(form->inputs_max, 4); /* two operands, a row, a summand */
    }
}

static void blocks_that_run_once_are_no_loops(void **state) {
    (void)state;
    const char *domain;
    const tn_op_rule *rule;
    for (uint32_t i = 0; (rule = rule_at(i, &domain)) != NULL; i++) {
        bool once = rule->flags & TN_RULE_ONCE, holds = rule->flags & TN_RULE_HOLDS;
        bool control = (rule->flags & TN_RULE_CONTROL) || strcmp(domain, "tflite") == 0;
        if ((once || holds || rule->turns != NULL) && !control)
            fail_msg("%s.%s has no blocks", domain, rule->type);
        if (once && rule->turns != NULL) fail_msg("%s.%s: once, or turns?", domain, rule->type);
    }
    const tn_op loop = {.type = "Loop", .input_count = 5};
    const tn_op scan = {.type = "Scan",
                        .input_count = 5,
                        .attrs = &(tn_attr){.name = "num_scan_inputs",
                                            .type = TN_ATTR_INT,
                                            .count = 1,
                                            .ints = (int64_t[]){2}},
                        .attr_count = 1};
    const tn_block body = {.input_count = 5};
    tn__loop_values turns = tn__op_rule("", "Loop")->turns(&loop, &body);
    assert_int_equal(turns.carried, 3); /* all but the count and the condition */
    assert_int_equal(turns.given + turns.carried, loop.input_count);
    assert_int_equal(turns.formal + turns.carried, body.input_count);
    turns = tn__op_rule("", "Scan")->turns(&scan, &body);
    assert_int_equal(turns.carried + turns.sliced, scan.input_count);
    assert_int_equal(turns.sliced, 2);
    assert_false(turns.batch);
}

static void who_repeats_an_operator_changes_nothing(void **state) {
    (void)state;
    uint32_t count = 0;
    const char *domain;
    const tn_op_rule *rule;
    for (uint32_t i = 0; (rule = rule_at(i, &domain)) != NULL; i++) {
        if (rule->recompute_as == NULL) continue;
        const tn_op_rule *other = tn__op_rule(domain, rule->recompute_as);
        assert_non_null(other);
        if (rule->changes == 0) fail_msg("%s may run twice itself", rule->type);
        if (rule->changes >> rule->outputs_max) fail_msg("%s: nothing found", rule->type);
        assert_true(other->changes == 0 && !(other->flags & (TN_RULE_CHANGES | TN_RULE_RANDOM)));
        assert_int_equal(other->inputs_min, rule->inputs_min);
        assert_int_equal(other->inputs_max, rule->inputs_max);
        assert_int_equal(other->outputs_max, 1);
        count++;
    }
    assert_true(count > 0);
}

static void weights_are_operands_behind_the_data(void **state) {
    (void)state;
    uint32_t weighted = 0, statistics = 0;
    const char *domain;
    const tn_op_rule *rule;
    for (uint32_t i = 0; (rule = rule_at(i, &domain)) != NULL; i++) {
        if (rule->weights & 1) fail_msg("%s: its first input is data", rule->type);
        if (rule->inputs_max < 64 && rule->weights >> rule->inputs_max)
            fail_msg("%s has no such inputs", rule->type);
        weighted += rule->weights != 0;
        statistics += (rule->weights & rule->no_gradient) != 0;
    }
    assert_true(weighted > 0);
    assert_int_equal(statistics, 1); /* BatchNormalization alone has running ones */
}

static void cells_and_their_gradients_have_the_same_gates(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"GRU", "GruGrad"}, {"LSTM", "LstmGrad"}, {"RNN", "RnnGrad"}};
    uint32_t cells = 0;
    const char *domain;
    const tn_op_rule *rule;
    for (uint32_t i = 0; (rule = rule_at(i, &domain)) != NULL; i++) cells += rule->gates > 0;
    assert_int_equal(cells, 6);
    for (size_t k = 0; k < 3; k++)
        assert_int_equal(tn__op_rule("", pairs[k][0])->gates,
                         tn__op_rule("tenure", pairs[k][1])->gates);
}

static void arithmetic_broadcasts_its_operands(void **state) {
    (void)state;
    const char *domain;
    const tn_op_rule *rule;
    for (uint32_t i = 0; (rule = rule_at(i, &domain)) != NULL; i++) {
        if (!(rule->flags & TN_RULE_ARITHMETIC)) continue;
        test_kit kit = kit_open();
        bool chooses = rule->inputs_min == 3; /* by a condition in front */
        tn_tensor_id when = kit_input(&kit, "when", TN_BOOL, KIT_SHAPE(1));
        tn_tensor_id tall = kit_input(&kit, "tall", TN_FLOAT32, KIT_SHAPE(2, 1));
        tn_tensor_id wide = kit_input(&kit, "wide", TN_FLOAT32, KIT_SHAPE(1, 3));
        tn_tensor_id all[] = {when, tall, wide}, y = kit_open_tensor(&kit, "y");
        tn_op_id made;
        tn_op_spec spec = {.type = rule->type,
                           .domain = domain,
                           .inputs = all + !chooses,
                           .input_count = chooses ? 3 : 2,
                           .outputs = &y,
                           .output_count = 1};
        kit_check(&kit, tn_graph_add_op(kit.graph, &spec, &made, &kit.error));
        kit_check(&kit, tn_graph_infer(kit.graph, &kit.error));
        const tn_tensor *result = tn_graph_tensor(kit.graph, y);
        assert_true(tn__op_has(kit.graph, made, TN_RULE_ARITHMETIC | TN_RULE_CONV));
        assert_false(tn__op_has(kit.graph, made, TN_RULE_CONV));
        assert_int_equal(result->rank, 2);
        assert_true(result->shape[0] == 2 && result->shape[1] == 3);
        kit_close(&kit);
    }
}

static void names_match_in_their_domain_alone(void **state) {
    (void)state;
    const tn_op conv = {.type = "Conv", .domain = ""},
                spelled = {.type = "Conv", .domain = "ai.onnx"};
    const tn_op own = {.type = "Conv", .domain = "tenure"},
                other = {.type = "Conv", .domain = "elsewhere"};
    assert_true(tn__op_is(&conv, "Conv") && tn__op_is(&spelled, "Conv"));
    assert_true(tn__op_is(&own, "tenure.Conv"));
    assert_false(tn__op_is(&own, "Conv") || tn__op_is(&conv, "tenure.Conv"));
    assert_false(tn__op_is(&other, "Conv") || tn__op_is(&other, "tenure.Conv"));
    assert_false(tn__op_is(&conv, "ConvTranspose") || tn__op_is(&conv, "Con"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_sorted_by_type_as_the_search_needs),
        cmocka_unit_test(every_rule_is_found_and_no_type_appears_twice),
        cmocka_unit_test(rules_are_complete),
        cmocka_unit_test(what_repeats_an_operator_can_stand_for_it),
        cmocka_unit_test(aten_names_say_who_writes_into_its_input),
        cmocka_unit_test(listing_is_by_domain_and_then_by_name),
        cmocka_unit_test(convolutions_and_products_of_every_domain_are_known_as_such),
        cmocka_unit_test(kinds_of_operators_are_claimed_and_exclude_each_other),
        cmocka_unit_test(rows_do_what_their_kind_says),
        cmocka_unit_test(fused_forms_are_there_for_what_claims_one),
        cmocka_unit_test(blocks_that_run_once_are_no_loops),
        cmocka_unit_test(who_repeats_an_operator_changes_nothing),
        cmocka_unit_test(weights_are_operands_behind_the_data),
        cmocka_unit_test(cells_and_their_gradients_have_the_same_gates),
        cmocka_unit_test(arithmetic_broadcasts_its_operands),
        cmocka_unit_test(names_match_in_their_domain_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
