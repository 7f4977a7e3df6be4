/* test_split.c - regions of random networks in parts: branches, residuals, joins, what is needed
 * whole, results that others read. The same bits as the whole network; damaged regions are refused;
 * no allocation that fails does harm. */
#include <tenure/rewrite.h>

#include "fit/split/region.h"
#include "whole.h"

#define IMAGES 40u
#define SEED 1729u

typedef struct net {
    tn_graph *graph;
    tn__random random;
    tn_tensor_id images[IMAGES];
    int64_t shapes[IMAGES][4];
    uint32_t count, names;
    char text[32];
} net;

static int64_t draw(net *at, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(&at->random, (uint64_t)(last - first + 1));
}
static const char *fresh(net *at, const char *stem) {
    snprintf(at->text, sizeof at->text, "%s%u", stem, at->names++);
    return at->text;
}

static void add(net *at, const char *type, const tn_tensor_id *inputs, uint32_t count,
                const tn_attr *attrs, uint32_t attr_count, const int64_t *shape) {
    bool out = draw(at, 0, 11) == 0;
    tn_tensor_id id =
        whole_tensor(at->graph, fresh(at, "t"), out ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", type, 13, inputs, count, id, attrs, attr_count);
    at->images[at->count] = id;
    memcpy(at->shapes[at->count++], shape, 4 * sizeof *shape);
}

static void add_conv(net *at, uint32_t from, bool depthwise) {
    const int64_t *x = at->shapes[from];
    int64_t taps = draw(at, 0, 1) ? 3 : draw(at, 1, 2), stride = draw(at, 0, 3) == 0 ? 2 : 1;
    int64_t group = depthwise ? x[1] : 1, out = depthwise ? x[1] : draw(at, 1, 5);
    int64_t w[4] = {out, x[1] / group, taps, taps}, pad = taps / 2, pads[4] = {pad, pad, pad, pad};
    int64_t strides[2] = {stride, stride}, y[4] = {x[0], out, 0, 0};
    for (uint32_t d = 2; d < 4; d++) y[d] = (x[d] + 2 * pad - taps) / stride + 1;
    if (x[2] + 2 * pad < taps || x[3] + 2 * pad < taps) return;
    tn_tensor_id inputs[2] = {at->images[from],
                              whole_tensor(at->graph, fresh(at, "w"), TN_KIND_PARAMETER, 4, w)};
    tn_attr attrs[3] = {{.name = "pads", .type = TN_ATTR_INTS, .count = 4, .ints = pads},
                        {.name = "strides", .type = TN_ATTR_INTS, .count = 2, .ints = strides},
                        {.name = "group", .type = TN_ATTR_INT, .count = 1, .ints = &group}};
    add(at, "Conv", inputs, 2, attrs, 3, y);
}

static void add_pool(net *at, uint32_t from) {
    const int64_t *x = at->shapes[from];
    int64_t taps[2] = {2, 2}, strides[2] = {2, 2}, y[4] = {x[0], x[1], x[2] / 2, x[3] / 2};
    tn_attr attrs[2] = {{.name = "kernel_shape", .type = TN_ATTR_INTS, .count = 2, .ints = taps},
                        {.name = "strides", .type = TN_ATTR_INTS, .count = 2, .ints = strides}};
    if (x[2] < 2 || x[3] < 2) return;
    add(at, draw(at, 0, 1) ? "MaxPool" : "AveragePool", &at->images[from], 1, attrs, 2, y);
}

static bool same_but(const int64_t *a, const int64_t *b, uint32_t axis) {
    for (uint32_t d = 0; d < 4; d++)
        if (d != axis && a[d] != b[d]) return false;
    return true;
}

/* With some other image that suits it. */
static void add_pair(net *at, uint32_t from) {
    uint32_t axis = draw(at, 0, 1) ? TN_NONE : (uint32_t)draw(at, 1, 3);
    for (uint32_t i = 0; i < at->count; i++) {
        int64_t y[4], along = axis;
        if (i == from || !same_but(at->shapes[i], at->shapes[from], axis)) continue;
        tn_tensor_id inputs[2] = {at->images[from], at->images[i]};
        tn_attr attr = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &along};
        memcpy(y, at->shapes[from], sizeof y);
        if (axis != TN_NONE) y[axis] += at->shapes[i][axis];
        add(at, axis == TN_NONE ? "Add" : "Concat", inputs, 2, &attr, axis != TN_NONE, y);
        return;
    }
}

/* Squeeze and excite: everything of an image is needed first. */
static void add_gate(net *at, uint32_t from) {
    const int64_t *x = at->shapes[from];
    int64_t mean[4] = {x[0], x[1], 1, 1}, y[4];
    memcpy(y, x, sizeof y);
    add(at, "GlobalAveragePool", &at->images[from], 1, NULL, 0, mean);
    tn_tensor_id inputs[2] = {at->images[from], at->images[at->count - 1]};
    add(at, "Mul", inputs, 2, NULL, 0, y);
}

static void grow(net *at) {
    uint32_t recent = at->count > 4 ? at->count - 4 : 0;
    uint32_t from = (uint32_t)draw(at, recent, at->count - 1);
    switch (draw(at, 0, 6)) {
    case 0:
        add(at, "Relu", &at->images[from], 1, NULL, 0, at->shapes[from]);
        break;
    case 1:
    case 2:
        add_conv(at, from, false);
        break;
    case 3:
        add_conv(at, from, true);
        break;
    case 4:
        add_pool(at, from);
        break;
    case 5:
        add_pair(at, from);
        break;
    default:
        if (draw(at, 0, 2) == 0) add_gate(at, from);
        break;
    }
}

static void build(net *at, uint64_t seed) {
    *at = (net){.random = {seed}};
    int64_t shape[4] = {draw(at, 1, 2), draw(at, 1, 4), draw(at, 8, 24), draw(at, 8, 24)};
    assert_int_equal(tn_graph_create(NULL, &at->graph, NULL), TN_OK);
    at->images[0] = whole_tensor(at->graph, "x", TN_KIND_INPUT, 4, shape);
    memcpy(at->shapes[at->count++], shape, sizeof shape);
    for (uint32_t steps = 0; steps < 24 && at->count + 2 < IMAGES; steps++) grow(at);
    tn_tensor_id y = whole_tensor(at->graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at->graph, "", "Relu", 13, &at->images[at->count - 1], 1, y, NULL, 0);
    whole_infer(at->graph);
}

static void choose(net *at, tn_split_region *region) {
    const tn_block *block = tn_graph_block(at->graph, 0);
    uint32_t last = (uint32_t)draw(at, 0, (int64_t)block->op_count - 1);
    *region = (tn_split_region){.last = block->ops[last]};
    region->first = block->ops[draw(at, 0, last)];
    for (uint32_t c = 0; c < 2; c++) {
        region->axes[c] = (uint32_t)draw(at, c == 0 ? 0 : 2, 3);
        region->parts[c] = (uint32_t)draw(at, 1, 6);
    }
    region->keep = draw(at, 0, 1) == 0;
    if (region->keep) region->parts[1] = 1;
}

static void same_outputs(const tn_graph *graph, const tn_graph *split, uint64_t number) {
    whole one = {.plain = true, .threads = 1, .seed = number}, two = one;
    if (whole_run(&one, graph) != TN_OK) fail_msg("%s", one.error.message);
    if (whole_run(&two, split) != TN_OK)
        fail_msg("network %u: %s: %s", (unsigned)number, two.error.where, two.error.message);
    assert_int_equal(one.output_count, two.output_count);
    for (uint32_t k = 0; k < one.output_count; k++)
        if (memcmp(one.outputs[k].data, two.outputs[k].data, one.outputs[k].bytes) != 0)
            fail_msg("network %u: output %u is another", (unsigned)number, k);
    whole_release(&one);
    whole_release(&two);
}

static uint32_t runs = 1500;

static void regions_in_parts_compute_what_they_compute_whole(void **state) {
    uint32_t done = 0, kept = 0, patches = 0;
    (void)state;
    for (uint64_t number = 0; number < runs; number++) {
        net at;
        tn_split_region region;
        tn_graph *split;
        tn_error error;
        build(&at, SEED + number * 104729);
        choose(&at, &region);
        if (tn_graph_split(at.graph, &region, 1, NULL, &split, &error) == TN_OK) {
            same_outputs(at.graph, split, number);
            tn_graph_destroy(split);
            done++;
            kept += region.keep;
            patches += region.parts[1] > 1 && region.parts[0] > 1;
        }
        tn_graph_destroy(at.graph);
    }
    printf("%u regions of %u were cut, %u keep halos, %u in patches\n", done, runs, kept, patches);
    assert_true(done > runs / 4 && kept > 0 && patches > 0);
}

/* One part of the result needs columns of a tensor by one way and rows of it by another. */
static void a_tensor_is_taken_along_both_axes(void **state) {
    (void)state;
    for (int64_t parts = 2; parts <= 8; parts *= 2) {
        net at = {.random = {SEED}};
        tn_error error;
        tn_graph *split;
        int64_t shape[2] = {16, 16}, turned[2] = {1, 0};
        tn_attr perm = {.name = "perm", .type = TN_ATTR_INTS, .count = 2, .ints = turned};
        assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
        tn_tensor_id x = whole_tensor(at.graph, "x", TN_KIND_INPUT, 2, shape);
        tn_tensor_id t = whole_tensor(at.graph, "t", TN_KIND_ACTIVATION, 0, NULL);
        tn_tensor_id y = whole_tensor(at.graph, "y", TN_KIND_OUTPUT, 0, NULL);
        tn_tensor_id both[2] = {x, t};
        whole_op_in(at.graph, "", "Transpose", 13, &x, 1, t, &perm, 1);
        whole_op_in(at.graph, "", "Add", 13, both, 2, y, NULL, 0);
        whole_infer(at.graph);
        tn_split_region region = {0, 1, {0, 1}, {(uint32_t)parts, 1}, false, false};
        if (tn_graph_split(at.graph, &region, 1, NULL, &split, &error) != TN_OK)
            fail_msg("%s", error.message);
        same_outputs(at.graph, split, (uint64_t)parts);
        tn_graph_destroy(split);
        tn_graph_destroy(at.graph);
    }
}

static void two_regions_may_not_meet(void **state) {
    net at = {.random = {SEED}};
    tn_error error;
    tn_graph *split;
    int64_t shape[4] = {1, 2, 8, 8};
    (void)state;
    assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
    tn_tensor_id x = whole_tensor(at.graph, "x", TN_KIND_INPUT, 4, shape);
    for (uint32_t i = 0; i < 4; i++) {
        tn_tensor_id y = whole_tensor(at.graph, fresh(&at, "y"),
                                      i < 3 ? TN_KIND_ACTIVATION : TN_KIND_OUTPUT, 0, NULL);
        whole_op_in(at.graph, "", "Relu", 13, &x, 1, y, NULL, 0);
        x = y;
    }
    whole_infer(at.graph);
    tn_split_region good[2] = {{0, 1, {2, 0}, {2, 1}, false, false},
                               {2, 3, {3, 0}, {4, 1}, true, false}};
    assert_int_equal(tn_graph_split(at.graph, good, 2, NULL, &split, &error), TN_OK);
    tn_graph_destroy(split);
    const tn_split_region bad[] = {
        {2, 1, {2, 0}, {2, 1}, false, false}, /* no run of operators */
        {0, 9, {2, 0}, {2, 1}, false, false}, /* no operator */
        {0, 1, {4, 0}, {2, 1}, false, false}, /* no axis */
        {0, 1, {2, 0}, {9, 1}, false, false}, /* more parts than rows */
        {0, 1, {2, 2}, {2, 2}, false, false}, /* one axis twice */
        {0, 1, {2, 3}, {2, 2}, true, false},  /* halos of patches are not kept */
        {0, 1, {2, 0}, {1, 0}, false, false}, /* one part */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tn_graph_split(at.graph, &bad[i], 1, NULL, &split, &error), TN_E_INVALID);
    tn_split_region meet[2] = {good[0], {1, 2, {2, 0}, {2, 1}, false, false}};
    assert_int_equal(tn_graph_split(at.graph, meet, 2, NULL, &split, &error), TN_E_INVALID);
    tn_graph_destroy(at.graph);
}

static void no_failing_allocation_does_harm(void **state) {
    (void)state;
    for (uint32_t keep = 0; keep < 2; keep++) {
        net at;
        tn_error error;
        tn_graph *split = NULL;
        build(&at, SEED + 5);
        const tn_block *block = tn_graph_block(at.graph, 0);
        tn_op_id last = block->ops[block->op_count - 1];
        tn_split_region region = {block->ops[0], last, {2, 0}, {2, 1}, keep == 1, false};
        if (tn_graph_split(at.graph, &region, 1, NULL, &split, &error) != TN_OK)
            fail_msg("%s", error.message);
        tn_graph_destroy(split);
        tn_status status = TN_E_NO_MEMORY;
        for (uint64_t at_request = 1; status != TN_OK; at_request++) {
            faulty memory = {.fail_at = at_request};
            tn_context context = faulty_context(&memory);
            split = NULL;
            status = tn_graph_split(at.graph, &region, 1, &context, &split, &error);
            assert_true(status == TN_OK || (status == TN_E_NO_MEMORY && split == NULL));
            tn_graph_destroy(split);
            assert_int_equal(memory.held, 0);
        }
        tn_graph_destroy(at.graph);
    }
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_in_parts_compute_what_they_compute_whole),
        cmocka_unit_test(a_tensor_is_taken_along_both_axes),
        cmocka_unit_test(two_regions_may_not_meet),
        cmocka_unit_test(no_failing_allocation_does_harm),
    };
    if (count > 1) runs = (uint32_t)atoi(words[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
