/* test_scratch.c - operators in pieces: they compute what they do in one, in less scratch.
 *
 * Random convolutions, with summands and activations, of one and several images, their windows
 * dilated, strided, and beyond the image; judged by our own loops. Poison is on, so who writes
 * outside of his scratch or of his rows is found.
 */
#include "count.h"
#include "engine/kernels/dnnl.h"
#include "whole.h"

#include <tenure/engine.h>
#include <tenure/rewrite.h>

#define SEEDS case_count(160, 24)

typedef struct made {
    tn_graph *graph;
    tn__random random;
    tn_attr attrs[8];
    int64_t ints[8][8];
    uint32_t attr_count;
} made;

static int64_t made_from(made *at, int64_t first, int64_t last) { /* both may come */
    return first + (int64_t)tn__random_below(&at->random, (uint64_t)(last - first + 1));
}

static int64_t *made_ints(made *at, const char *name, uint32_t count) {
    uint32_t i = at->attr_count++;
    at->attrs[i] =
        (tn_attr){.name = name, .type = TN_ATTR_INTS, .count = count, .ints = at->ints[i]};
    return at->ints[i];
}

static void made_windows(made *at, uint32_t spatial, const int64_t *kernel) {
    int64_t *strides = made_ints(at, "strides", spatial), dilation = made_from(at, 1, 4);
    int64_t *dilations = made_ints(at, "dilations", spatial);
    int64_t *pads = made_ints(at, "pads", 2 * spatial);
    bool same = made_from(at, 0, 1) == 1;
    for (uint32_t i = 0; i < spatial; i++) {
        int64_t reach = (kernel[i] - 1) * dilation;
        strides[i] = same ? 1 : made_from(at, 1, 2);
        dilations[i] = dilation;
        pads[i] = same ? reach / 2 : made_from(at, 0, reach < 2 ? reach : 2);
        pads[spatial + i] = same ? reach - reach / 2 : made_from(at, 0, reach < 2 ? reach : 2);
    }
}

/* A convolution, and half of the time a summand and an activation that rewrites put into it. */
static void made_graph(made *at) {
    uint32_t spatial = (uint32_t)made_from(at, 1, 3);
    bool transposed = made_from(at, 0, 5) == 0 && spatial < 3;
    int64_t group = made_from(at, 0, 2) > 0 ? 1 : made_from(at, 2, 4);
    int64_t in = made_from(at, 1, 9), out = made_from(at, 1, 20), one = 1, bias = group * out;
    int64_t x[5] = {made_from(at, 1, 3), group * in}, w[5] = {group * out, in};
    if (transposed) w[0] = group * in, w[1] = out;
    for (uint32_t i = 0; i < spatial; i++) {
        w[2 + i] = made_from(at, 1, 3);
        x[2 + i] = made_from(at, 9, 16);
    }
    tn_kind weights = made_from(at, 0, 1) == 1 ? TN_KIND_PARAMETER : TN_KIND_INPUT;
    bool more = made_from(at, 0, 1) == 1;
    tn_tensor_id inputs[3], results[2], pair[2], add;
    inputs[0] = whole_tensor(at->graph, "x", TN_KIND_INPUT, spatial + 2, x);
    inputs[1] = whole_tensor(at->graph, "w", weights, spatial + 2, w);
    inputs[2] = whole_tensor(at->graph, "b", TN_KIND_PARAMETER, 1, &bias);
    int64_t *groups = made_ints(at, "group", 1);
    at->attrs[0].type = TN_ATTR_INT;
    *groups = group;
    if (!transposed) made_windows(at, spatial, w + 2);
    results[0] = whole_tensor(at->graph, "y", more ? TN_KIND_ACTIVATION : TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at->graph, "", transposed ? "ConvTranspose" : "Conv", 11, inputs, 3, results[0],
                at->attrs, at->attr_count);
    if (!more) return;
    add = whole_tensor(at->graph, "half", TN_KIND_PARAMETER, 1, &one);
    pair[0] = results[0], pair[1] = add;
    results[1] = whole_tensor(at->graph, "other", TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", "Mul", 13, pair, 2, results[1], NULL, 0);
    tn_tensor_id sum[2], last; /* summed with what a second convolution makes of the same input */
    tn_tensor_id second = whole_tensor(at->graph, "second", TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", transposed ? "ConvTranspose" : "Conv", 11, inputs, 3, second,
                at->attrs, at->attr_count);
    sum[0] = second, sum[1] = results[1];
    tn_tensor_id total = whole_tensor(at->graph, "sum", TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", "Add", 13, sum, 2, total, NULL, 0);
    last = whole_tensor(at->graph, "z", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at->graph, "", "Relu", 13, &total, 1, last, NULL, 0);
}

static tn_setup *made_setup(const tn_graph *graph, bool rewrite, bool fastest) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_rewrite_options how = TN_REWRITE_OPTIONS_INIT;
    tn_setup *setup;
    tn_error error;
    how.no_formats = true; /* channels first: what most scratch is for */
    if (rewrite) options.rewrite = &how;
    options.fastest = fastest;
    if (tn_setup_create(graph, &options, &setup, &error) != TN_OK)
        fail_msg("%s: %s", error.where, error.message);
    return setup;
}

static uint64_t made_most(const tn_setup *setup, uint32_t *pieces) {
    uint64_t most = 0;
    *pieces = 0;
    for (tn_op_id op = 0; op < tn_graph_op_count(tn_setup_graph(setup)); op++) {
        uint64_t bytes = tn_kernels_workspaces(tn_setup_kernels(setup))[op];
        *pieces += tn_kernels_way(tn_setup_kernels(setup), op) > 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

static void pieces_compute_the_same_in_less_scratch(void **state) {
    tn_error missing;
    uint32_t found = 0, pieces, none;
    (void)state;
    if (!tn_kernels_library(NULL, &missing)) skip();
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        made at = {.random = {seed}};
        whole plain = {.seed = seed, .plain = true}, less = {.seed = seed};
        assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
        made_graph(&at);
        whole_infer(at.graph);
        tn_setup *setup = made_setup(at.graph, seed % 2 == 0, false);
        tn_setup *fast = made_setup(at.graph, seed % 2 == 0, true);
        assert_int_equal(whole_run(&plain, at.graph), TN_OK);
        if (whole_on(&less, setup) != TN_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, less.error.message);
        double apart = whole_difference(&plain, &less);
        if (!(apart < 1e-4)) fail_msg("seed %llu: %g apart", (unsigned long long)seed, apart);
        uint64_t most = made_most(setup, &pieces), before = made_most(fast, &none);
        assert_int_equal(none, 0);
        assert_int_equal(pieces > 0, tn_setup_scratch(setup) != NULL);
        assert_true(most <= before);
        double none_cost;
        assert_null(tn_setup_scratch(fast));
        assert_int_equal(tn_setup_pieces_cost(fast, &none_cost, &missing), TN_E_INVALID);
        if (pieces > 0) {
            found++;
            assert_true(tn_setup_need(setup).arena < tn_setup_need(fast).arena);
            assert_int_equal(tn_setup_scratch(setup)->operators, pieces);
            double cost = 1e9;
            if (found % 16 == 0) { /* a time, of either sign */
                assert_int_equal(tn_setup_pieces_cost(setup, &cost, &missing), TN_OK);
                assert_true(cost > -1 && cost < 1);
            }
        }
        whole_release(&plain);
        whole_release(&less);
        tn_setup_destroy(setup);
        tn_setup_destroy(fast);
        tn_graph_destroy(at.graph);
    }
    if (found < SEEDS / 8) fail_msg("only %u of %u ran in pieces", found, SEEDS);
    printf("%u of %u in pieces\n", found, SEEDS);
}

/* Every limit is kept as soon as some way keeps it, and the first of those is taken. */
static void the_first_way_within_a_limit_is_taken(void **state) {
    tn_error missing, error;
    (void)state;
    if (!tn_kernels_library(NULL, &missing)) skip();
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        made at = {.random = {seed}};
        assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
        made_graph(&at);
        whole_infer(at.graph);
        tn_kernels *first, *other;
        tn_kernels_options options = TN_KERNELS_OPTIONS_INIT;
        uint64_t limits[8] = {0};
        assert_int_equal(tn_kernels_create(at.graph, NULL, &first, &error), TN_OK);
        options.with = first;
        options.scratch = limits;
        uint64_t before = tn_kernels_workspaces(first)[0];
        assert_true(tn_graph_op_count(at.graph) <= 8);
        uint32_t way = 0;
        for (uint64_t limit = before + 1; limit > 0; limit /= 2) {
            limits[0] = limit;
            assert_int_equal(tn_kernels_create(at.graph, &options, &other, &error), TN_OK);
            uint64_t bytes = tn_kernels_workspaces(other)[0];
            assert_true(bytes <= before);
            assert_true(tn_kernels_way(other, 0) >= way);
            if (limit >= before) assert_int_equal(tn_kernels_way(other, 0), 0);
            way = tn_kernels_way(other, 0);
            tn_kernels_destroy(other);
        }
        tn_kernels_destroy(first);
        tn_graph_destroy(at.graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_compute_the_same_in_less_scratch),
        cmocka_unit_test(the_first_way_within_a_limit_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
