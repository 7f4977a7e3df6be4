/* Formats: an operator of which the registry says that channels may lie last has a plain kernel
 * that looks at formats, and so do the convolutions that such tensors are made for. */
#include "kit.h"

#include "graph/op.h"

#define TN_FAMILY(folder, name) extern const tn_op_family tn__ops_##name;
#include "graph/ops.def"
#undef TN_FAMILY
static const tn_op_family *const families[] = {
#define TN_FAMILY(folder, name) &tn__ops_##name,
#include "graph/ops.def"
#undef TN_FAMILY
};

/* Kernels of that very type: those for any type do not know what they run. */
static bool looks_at_formats(const char *domain, const char *type) {
    for (uint32_t f = 0; f < tn__kernel_family_count(); f++) {
        const tn_kernel_family *family = tn__kernel_family_at(f);
        for (uint32_t k = 0; k < family->kernel_count && !family->library; k++) {
            const tn_kernel *kernel = &family->kernels[k];
            if (strcmp(tn__kernel_domain(family, kernel), domain) == 0 && kernel->formats &&
                strcmp(kernel->type, type) == 0)
                return true;
        }
    }
    return false;
}

static void what_may_have_channels_last_has_a_kernel_for_it(void **state) {
    (void)state;
    uint32_t count = 0;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (uint32_t k = 0; k < families[f]->rule_count; k++) {
            const tn_op_rule *rule = &families[f]->rules[k];
            if (!(rule->flags & (TN_RULE_IMAGES | TN_RULE_CONV))) continue;
            if (!looks_at_formats(families[f]->domain, rule->type))
                fail_msg("no plain kernel runs %s.%s with channels last", families[f]->domain,
                         rule->type);
            count++;
        }
    assert_true(count > 20);
    assert_true(looks_at_formats("", "ConvTranspose"));
    assert_true(looks_at_formats("tenure", "ConvGradWeights"));
    assert_false(looks_at_formats("", "Gather"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_have_channels_last_has_a_kernel_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
