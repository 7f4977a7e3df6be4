/* test_parts.c - set-ups of which operators run in parts: within the budget or refused, measured as
 * planned, nothing read that was freed, the same results. */
#include "whole.h"

#define MODELS TENURE_SOURCE_DIR "/examples/models/"

static tn_graph *load(const char *name) {
    char path[512];
    tn_graph *graph;
    tn_error error;
    snprintf(path, sizeof path, "%s%s", MODELS, name);
    if (tn_graph_load(path, NULL, &graph, &error) != TN_OK) fail_msg("%s", error.message);
    return graph;
}

/* Runs a graph in parts, on poisoned memory. *total: what the plan needs. */
static tn_status run_parts(const tn_graph *graph, const tn_setup_split *split, bool plain,
                           whole *run, uint64_t *total) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_setup *setup;
    kernels.plain = plain;
    options.kernels = &kernels;
    options.rewrite = plain ? NULL : &rewrite;
    options.split = split;
    *run = (whole){.seed = 7, .threads = 1};
    tn_status status = tn_setup_create(graph, &options, &setup, &run->error);
    if (status != TN_OK) return status;
    *total = tn_setup_need(setup).total;
    uint64_t arena = tn_setup_need(setup).arena;
    status = whole_on(run, setup);
    if (status != TN_OK) fail_msg("%s: %s", run->error.where, run->error.message);
    assert_int_equal(run->peak, arena);
    tn_setup_destroy(setup);
    return TN_OK;
}

/* `shares` of work, 0.15 each, then a budget in between and one that nothing keeps to. */
static void in_parts_as_whole(const char *name, bool plain, uint32_t shares) {
    tn_graph *graph = load(name);
    whole one, two;
    uint64_t whole_total, total;
    assert_int_equal(run_parts(graph, NULL, plain, &one, &whole_total), TN_OK);
    uint64_t least = whole_total;
    for (uint32_t k = 0; k < shares; k++) {
        tn_setup_split split = {.share = k * 0.15 + 0.15};
        assert_int_equal(run_parts(graph, &split, plain, &two, &total), TN_OK);
        assert_true(total <= whole_total);
        if (total < least) least = total;
        if (whole_difference(&one, &two) > 1e-5) fail_msg("%s is another", name);
        whole_release(&two);
    }
    assert_true(least < whole_total);
    tn_setup_split within = {.budget = least + (whole_total - least) / 3}, none = {.budget = 1000};
    assert_int_equal(run_parts(graph, &within, plain, &two, &total), TN_OK);
    assert_true(total <= within.budget);
    if (whole_difference(&one, &two) > 1e-5) fail_msg("%s is another", name);
    whole_release(&two);
    whole_release(&one);
    assert_int_equal(run_parts(graph, &none, plain, &two, &total), TN_E_EXHAUSTED);
    tn_graph_destroy(graph);
}

static void mobilenet_in_parts(void **state) {
    (void)state;
    if (tn_kernels_library(NULL, NULL)) in_parts_as_whole("mobilenet_v2.onnx", false, 1);
}
static void unet_in_parts(void **state) {
    (void)state;
    if (tn_kernels_library(NULL, NULL)) in_parts_as_whole("unet64.onnx", false, 2);
}

static void a_wish_that_is_none_is_refused(void **state) {
    tn_graph *graph = load("two_branches.onnx");
    whole run;
    uint64_t total;
    tn_setup_split nothing = {0};
    (void)state;
    assert_int_equal(run_parts(graph, &nothing, true, &run, &total), TN_E_INVALID);
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mobilenet_in_parts),
        cmocka_unit_test(unet_in_parts),
        cmocka_unit_test(a_wish_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
