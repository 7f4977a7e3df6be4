/* Random commands against a plain interpreter that keeps everything: the same values, counters that
 * add up, nothing left. */
#include "kit.h"

static uint64_t let_go; /* spent values, in all runs */

static void check(kit *k, uint64_t seed, const char *policy) {
    const char *fault = k->fault != NULL ? k->fault : tn__evict_check(k->evict);
    if (fault != NULL)
        fail_msg("policy %s, seed %llu: %s", policy, (unsigned long long)seed, fault);
}

static void run(const char *policy, uint64_t seed, uint64_t steps, uint64_t budget) {
    kit k;
    tn_error error;
    assert_int_equal(kit_open(&k, NULL, policy, budget, seed, &error), TN_OK);
    k.may_fail = (seed & 2) != 0;
    for (uint64_t i = 0; i < steps && kit_step(&k); i++)
        if (i % 64 == 0) check(&k, seed, policy);
    check(&k, seed, policy);
    while (k.live_count > 0) kit_release(&k, 0);
    check(&k, seed, policy);
    assert_int_equal(k.whats, 0); /* no history is left when nobody holds anything */
    assert_int_equal(k.copies, 0);
    assert_int_equal(tn__evict_count(k.evict)->bytes, 0);
    let_go += tn__evict_count(k.evict)->spent_count;
    assert_true(k.applied > 0 && k.wants > 0);
    kit_close(&k);
}

static void values_are_those_of_unlimited_memory(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_evict_policy_count(); p++)
        for (uint64_t seed = 1; seed <= 8; seed++)
            run(tn_evict_policy_name(p), seed, 2500, 2048 + 1024 * (seed % 6));
    assert_true(let_go > 100);
}

/* A chain whose every link was dropped is made from its beginning. */
static void a_chain_of_a_million_is_made_without_a_stack(void **state) {
    (void)state;
    const uint32_t length = 1000000;
    tn__evict *evict;
    tn_error error;
    tn__evict_options options = {.policy = "lru", .budget = 64, .small_too = true};
    assert_int_equal(tn__evict_create(&options, &evict, &error), TN_OK);
    tn__evict_output output = {.bytes = 8, .alias = TN__EVICT_NONE};
    uint32_t before, first, made;
    assert_int_equal(tn__evict_constant(evict, &(tn__evict_value){.bytes = 8}, &before, &error),
                     TN_OK);
    first = before; /* held: else it would be let go, and the end of the chain stay */
    tn__evict_retain(evict, first);
    for (uint32_t i = 0; i < length; i++) {
        tn__evict_call call = {
            .cost = 1, .inputs = &before, .input_count = 1, .outputs = &output, .output_count = 1};
        assert_int_equal(tn__evict_apply(evict, &call, &made, &error), TN_OK);
        tn__evict_release(evict, before);
        before = made;
    }
    uint32_t other; /* takes all but the constant */
    tn__evict_output large = {.bytes = 56, .alias = TN__EVICT_NONE};
    tn__evict_call call = {.outputs = &large, .output_count = 1};
    assert_int_equal(tn__evict_apply(evict, &call, &other, &error), TN_OK);
    assert_false(tn__evict_is_there(evict, before));
    assert_int_equal(tn__evict_want(evict, before, &error), TN_OK);
    assert_int_equal(tn__evict_count(evict)->remade_cost, length);
    assert_null(tn__evict_check(evict));
    tn__evict_destroy(evict);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_unlimited_memory),
        cmocka_unit_test(a_chain_of_a_million_is_made_without_a_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
