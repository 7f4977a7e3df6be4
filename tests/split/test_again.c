/* test_again.c - tensors that wait long for a late reader are computed again for it: networks with
 * skip connections need less than without, never more work for a budget, and give the same bits. */
#include <tenure/rewrite.h>

#include "whole.h"

typedef struct tower {
    tn_graph *graph;
    tn__random random;
    uint32_t names;
    int64_t channels, extent;
    tn_tensor_id now;
} tower;

static tn_tensor_id make(tower *at, const char *type, const tn_tensor_id *inputs, uint32_t count,
                         const tn_attr *attrs, uint32_t attr_count) {
    char name[32];
    snprintf(name, sizeof name, "t%u", at->names++);
    tn_tensor_id id = whole_tensor(at->graph, name, TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", type, 13, inputs, count, id, attrs, attr_count);
    return at->now = id;
}

static tn_tensor_id weights(tower *at, int64_t out, int64_t in, int64_t taps) {
    int64_t shape[4] = {out, in, taps, taps};
    char name[32];
    snprintf(name, sizeof name, "w%u", at->names++);
    return whole_tensor(at->graph, name, TN_KIND_PARAMETER, 4, shape);
}

static void conv(tower *at, int64_t out) {
    int64_t pads[4] = {1, 1, 1, 1};
    tn_attr attr = {.name = "pads", .type = TN_ATTR_INTS, .count = 4, .ints = pads};
    tn_tensor_id inputs[2] = {at->now, weights(at, out, at->channels, 3)};
    make(at, "Conv", inputs, 2, &attr, 1);
    at->channels = out;
    if (tn__random_below(&at->random, 2) == 0) make(at, "Relu", &at->now, 1, NULL, 0);
}

/* Twice as large or half as large. */
static void scale(tower *at, bool up) {
    int64_t taps[2] = {2, 2};
    tn_attr attrs[2] = {{.name = "kernel_shape", .type = TN_ATTR_INTS, .count = 2, .ints = taps},
                        {.name = "strides", .type = TN_ATTR_INTS, .count = 2, .ints = taps}};
    if (!up) {
        make(at, "MaxPool", &at->now, 1, attrs, 2);
        return;
    }
    tn_tensor_id inputs[2] = {at->now, weights(at, at->channels, at->channels, 2)};
    make(at, "ConvTranspose", inputs, 2, &attrs[1], 1);
}

/* Down and up again, each level with a skip and twice the channels; `add`: it is added, not joined.
 */
static void level(tower *at, uint32_t depth, int64_t out) {
    conv(at, out);
    if (tn__random_below(&at->random, 2) == 0) conv(at, at->channels);
    tn_tensor_id skip = at->now;
    int64_t channels = at->channels, axis = 1;
    tn_attr attr = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &axis};
    bool add = tn__random_below(&at->random, 3) == 0;
    if (depth == 0) return;
    scale(at, false);
    level(at, depth - 1, 2 * out);
    if (add) conv(at, channels);
    scale(at, true);
    tn_tensor_id both[2] = {at->now, skip};
    make(at, add ? "Add" : "Concat", both, 2, &attr, add ? 0 : 1);
    at->channels = add ? channels : at->channels + channels;
    conv(at, channels);
}

static tn_graph *network(uint64_t seed, uint32_t depth) {
    tower at = {.random = {seed}, .channels = 2};
    int64_t shape[4] = {1, 2, 32 + 16 * (int64_t)tn__random_below(&at.random, 2), 32};
    assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
    at.now = whole_tensor(at.graph, "x", TN_KIND_INPUT, 4, shape);
    level(&at, depth, 4 + (int64_t)tn__random_below(&at.random, 3));
    tn_tensor_id y = whole_tensor(at.graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at.graph, "", "Relu", 13, &at.now, 1, y, NULL, 0);
    whole_infer(at.graph);
    return at.graph;
}

static tn_split_search *search_of(const tn_graph *graph, bool again, const tn_context *context) {
    tn_split_options options = TN_SPLIT_OPTIONS_INIT;
    tn_split_search *search;
    tn_error error;
    options.again = again;
    options.context = context;
    if (tn_split_search_create(graph, &options, &search, &error) != TN_OK)
        fail_msg("%s", error.message);
    return search;
}

static void skips_wait_no_longer(void **state) {
    uint32_t lower = 0, count = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++, count++) {
        tn_graph *graph = network(seed, 3);
        tn_split_search *with = search_of(graph, true, NULL),
                        *without = search_of(graph, false, NULL);
        double work = 1e30;
        for (uint32_t k = 1; k <= 24; k++) {
            tn_split_choice one, other;
            uint64_t budget = tn_split_whole(with) * k / 24;
            tn_status status = tn_split_within(with, budget, &one, NULL);
            if (tn_split_within(without, budget, &other, NULL) == TN_OK) {
                assert_int_equal(status, TN_OK);
                assert_true(one.work <= other.work);
                assert_true(other.graph == graph && other.again_count == 0);
                tn_split_choice_release(without, &other);
            }
            if (status != TN_OK) continue;
            assert_true(one.live_bytes <= budget && one.work <= work);
            assert_true((one.graph == graph) == (one.again_count == 0));
            work = one.work;
            tn_split_choice_release(with, &one);
        }
        tn_split_choice one, other;
        assert_int_equal(tn_split_least(with, 0.5, &one, NULL), TN_OK);
        assert_int_equal(tn_split_least(without, 0.5, &other, NULL), TN_OK);
        assert_true(one.live_bytes <= other.live_bytes && one.work <= 0.5);
        lower += one.live_bytes < other.live_bytes - other.live_bytes / 10;
        tn_split_choice_release(with, &one);
        tn_split_choice_release(without, &other);
        tn_split_search_destroy(with);
        tn_split_search_destroy(without);
        tn_graph_destroy(graph);
    }
    printf("lower by a tenth and more: %u of %u\n", lower, count);
    assert_true(lower >= count / 3);
}

static void the_bits_are_the_same(void **state) {
    uint32_t copies = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        tn_graph *graph = network(seed, 2), *split;
        tn_split_search *search = search_of(graph, true, NULL);
        tn_split_choice choice;
        whole before = {.plain = true, .seed = seed}, after = before;
        tn_error error;
        assert_int_equal(tn_split_least(search, 1, &choice, NULL), TN_OK);
        if (tn_graph_split(choice.graph, choice.regions, choice.count, NULL, &split, &error))
            fail_msg("seed %u: %s", (unsigned)seed, error.message);
        copies += choice.again_count;
        uint64_t more = tn_graph_work(choice.graph).flops - tn_graph_work(graph).flops;
        assert_true(choice.again_count == 0 ? more == 0 : more > 0 && more <= choice.extra);
        assert_int_equal(whole_run(&before, graph), TN_OK);
        assert_int_equal(whole_run(&after, split), TN_OK);
        if (whole_difference(&before, &after) != 0) fail_msg("seed %u differs", (unsigned)seed);
        whole_release(&before);
        whole_release(&after);
        tn_split_choice_release(search, &choice);
        tn_split_search_destroy(search);
        tn_graph_destroy(split);
        tn_graph_destroy(graph);
    }
    printf("%u tensors computed again\n", copies);
    assert_true(copies > 0);
}

static void a_skip_that_changes_waits(void **state) {
    /* With an operator that writes into what it reads nothing is computed again. */
    tn_graph *graph = network(1, 2);
    const tn_block *block = tn_graph_block(graph, 0);
    tn_split_choice choice;
    (void)state;
    tn_tensor_id y, x = block->outputs[0];
    const tn_tensor *before = tn_graph_tensor(graph, x);
    tn_tensor_spec spec = {.name = "changed",
                           .dtype = TN_FLOAT32,
                           .kind = TN_KIND_OUTPUT,
                           .rank = before->rank,
                           .shape = before->shape};
    assert_int_equal(tn_graph_add_tensor(graph, &spec, &y, NULL), TN_OK);
    whole_op_in(graph, "aten", "relu_.default", 0, &x, 1, y, NULL, 0);
    whole_infer(graph);
    tn_split_search *search = search_of(graph, true, NULL);
    assert_int_equal(tn_split_least(search, 1, &choice, NULL), TN_OK);
    assert_int_equal(choice.again_count, 0);
    tn_split_choice_release(search, &choice);
    tn_split_search_destroy(search);
    tn_graph_destroy(graph);
}

static void no_failing_allocation_does_harm(void **state) {
    tn_graph *graph = network(2, 2);
    tn_status status = TN_E_NO_MEMORY;
    (void)state;
    for (uint64_t at = 1; status != TN_OK; at += 1 + at / 3) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_split_options options = TN_SPLIT_OPTIONS_INIT;
        tn_split_search *search = NULL;
        tn_error error;
        options.context = &context;
        options.again = true;
        status = tn_split_search_create(graph, &options, &search, &error);
        assert_true(status == TN_OK || (status == TN_E_NO_MEMORY && search == NULL));
        tn_split_search_destroy(search);
        assert_int_equal(memory.held, 0);
        if (at > 1000000) fail_msg("it never ends");
    }
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skips_wait_no_longer),
        cmocka_unit_test(the_bits_are_the_same),
        cmocka_unit_test(a_skip_that_changes_waits),
        cmocka_unit_test(no_failing_allocation_does_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
