/* test_search.c - which regions: budgets are kept in the layout of the graph that comes out, work
 * never rises with the budget nor bytes with the share of work, what parts read again is counted,
 * and twice is the same. */
#include <tenure/rewrite.h>

#include <math.h>

#include "whole.h"

/* A network of stages: wide images in front, residuals in between. */
static tn_graph *network(uint64_t seed) {
    tn__random random = {seed};
    int64_t shape[4] = {1, 3, 32 + (int64_t)tn__random_below(&random, 17), 40}, channels = 3;
    tn_graph *graph;
    char name[32];
    assert_int_equal(tn_graph_create(NULL, &graph, NULL), TN_OK);
    tn_tensor_id x = whole_tensor(graph, "x", TN_KIND_INPUT, 4, shape), before = TN_NONE;
    for (uint32_t i = 0; i < 10; i++) {
        bool same = i % 3 == 2;
        int64_t out = same ? channels : 8 + (int64_t)tn__random_below(&random, 24);
        int64_t w[4] = {out, channels, 3, 3}, pads[4] = {1, 1, 1, 1};
        int64_t step = !same && tn__random_below(&random, 3) == 0 ? 2 : 1,
                strides[2] = {step, step};
        tn_attr attrs[2] = {{.name = "pads", .type = TN_ATTR_INTS, .count = 4, .ints = pads},
                            {.name = "strides", .type = TN_ATTR_INTS, .count = 2, .ints = strides}};
        snprintf(name, sizeof name, "w%u", i);
        tn_tensor_id inputs[2] = {x, whole_tensor(graph, name, TN_KIND_PARAMETER, 4, w)};
        snprintf(name, sizeof name, "y%u", i);
        tn_tensor_id y =
            whole_tensor(graph, name, i < 9 ? TN_KIND_ACTIVATION : TN_KIND_OUTPUT, 0, NULL);
        before = x;
        whole_op_in(graph, "", "Conv", 11, inputs, 2, y, attrs, 2);
        if (same && i < 9) {
            tn_tensor_id both[2] = {y, before};
            snprintf(name, sizeof name, "z%u", i);
            y = whole_tensor(graph, name, TN_KIND_ACTIVATION, 0, NULL);
            whole_op_in(graph, "", "Add", 13, both, 2, y, NULL, 0);
        }
        x = y;
        channels = out;
    }
    whole_infer(graph);
    return graph;
}

static tn_split_search *search_of(const tn_graph *graph) {
    tn_split_search *search;
    tn_error error;
    if (tn_split_search_create(graph, NULL, &search, &error) != TN_OK)
        fail_msg("%s", error.message);
    return search;
}

static uint64_t live_bytes(const tn_graph *graph) {
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    tn_program *program;
    tn_occupancy *occupancy;
    options.fuse_concat = true;
    options.alignment = 1;
    assert_int_equal(tn_program_create(graph, NULL, &program, NULL), TN_OK);
    assert_int_equal(tn_occupancy_create(program, &options, &occupancy, NULL), TN_OK);
    uint64_t peak = tn_occupancy_summary(occupancy).peak_live;
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    return peak;
}

/* What is predicted is near what is. */
static void predictions_hold(void **state) {
    double worst = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 16; seed++) {
        tn_graph *graph = network(seed), *split;
        tn_split_search *search = search_of(graph);
        uint64_t before = live_bytes(graph);
        for (uint32_t k = 1; k < 8; k++) {
            tn_split_choice choice;
            tn_error error;
            uint64_t budget = tn_split_whole(search) / 8 * k;
            tn_status status = tn_split_within(search, budget, &choice, &error);
            if (status == TN_E_EXHAUSTED) continue;
            assert_int_equal(status, TN_OK);
            assert_true(choice.live_bytes <= budget);
            if (tn_graph_split(graph, choice.regions, choice.count, NULL, &split, &error) != TN_OK)
                fail_msg("seed %u: %s", (unsigned)seed, error.message);
            double off = (double)live_bytes(split) / (double)choice.live_bytes;
            if (off > worst) worst = off;
            uint64_t more = tn_graph_work(split).flops - tn_graph_work(graph).flops;
            assert_true(more <= choice.extra + choice.extra / 100 + 1000);
            tn_graph_destroy(split);
            tn_split_choice_release(search, &choice);
        }
        assert_true(before <= tn_split_whole(search) + tn_split_whole(search) / 4);
        tn_split_search_destroy(search);
        tn_graph_destroy(graph);
    }
    printf("live bytes at most %.3f of what is predicted\n", worst);
    assert_true(worst > 0 && worst < 1.4);
}

static void less_memory_takes_no_less_work(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 12; seed++) {
        tn_graph *graph = network(seed);
        tn_split_search *search = search_of(graph), *again = search_of(graph);
        double work = 1e30;
        for (uint32_t k = 1; k <= 24; k++) {
            tn_split_choice one, two;
            uint64_t budget = tn_split_whole(search) * k / 24;
            tn_status status = tn_split_within(search, budget, &one, NULL);
            assert_int_equal(status, tn_split_within(again, budget, &two, NULL));
            if (status != TN_OK) {
                assert_int_equal(status, TN_E_EXHAUSTED);
                assert_true(work == 1e30); /* it was feasible with less */
                continue;
            }
            assert_true(one.work <= work);
            work = one.work;
            assert_int_equal(one.count, two.count);
            assert_memory_equal(one.regions, two.regions, one.count * sizeof *one.regions);
            tn_split_choice_release(search, &one);
            tn_split_choice_release(again, &two);
        }
        assert_true(work == 0); /* the whole budget: as it is */
        uint64_t bytes = UINT64_MAX;
        for (uint32_t k = 0; k < 12; k++) {
            tn_split_choice choice;
            assert_int_equal(tn_split_least(search, 0.05 * k, &choice, NULL), TN_OK);
            assert_true(choice.live_bytes <= bytes && choice.work <= 0.05 * k + 1e-9);
            bytes = choice.live_bytes;
            tn_split_choice_release(search, &choice);
        }
        assert_true(bytes < tn_split_whole(search));
        tn_split_search_destroy(search);
        tn_split_search_destroy(again);
        tn_graph_destroy(graph);
    }
}

typedef struct listener {
    uint32_t calls, stop_at; /* 0: never */
} listener;

static bool listen_to(void *self, const char *stage, uint64_t done, uint64_t total) {
    listener *it = self;
    (void)stage;
    assert_true(done <= total);
    return ++it->calls != it->stop_at;
}

static tn_status search_within(const tn_graph *graph, uint64_t work_limit, listener *it,
                               tn_split_search **search) {
    tn_split_options options = TN_SPLIT_OPTIONS_INIT;
    tn_context context = TN_CONTEXT_INIT;
    context.self = it;
    context.progress = listen_to;
    options.context = &context;
    options.again = true;
    options.work_limit = work_limit;
    return tn_split_search_create(graph, &options, search, NULL);
}

/* A search with less work than it takes: an answer that is no better, or none. */
static void limit_to(const tn_graph *graph, uint64_t limit, uint64_t least) {
    listener unused = {0};
    tn_split_search *search;
    tn_split_choice choice;
    tn_status status = search_within(graph, limit, &unused, &search);
    if (status == TN_E_STOPPED) return;
    assert_int_equal(status, TN_OK); /* the graph as it is, without some of the others */
    assert_true(tn_split_work(search) <= limit);
    assert_int_equal(tn_split_least(search, 0.5, &choice, NULL), TN_OK);
    assert_true(choice.live_bytes >= least);
    tn_split_choice_release(search, &choice);
    tn_split_search_destroy(search);
}

/* A limit of work is never exceeded, and one that is never reached changes nothing. Once the caller
 * stops the search, it is not asked again. */
static void limits_end_the_search(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 8; seed++) {
        tn_graph *graph = network(seed);
        tn_split_search *search;
        tn_split_choice one, two;
        listener listens = {0};
        assert_int_equal(search_within(graph, 0, &listens, &search), TN_OK);
        uint64_t work = tn_split_work(search);
        assert_true(work > 20 && listens.calls > tn_graph_op_count(graph));
        assert_int_equal(tn_split_least(search, 0.5, &one, NULL), TN_OK);
        uint64_t least = one.live_bytes;
        tn_split_choice_release(search, &one);
        tn_split_search_destroy(search);
        assert_int_equal(search_within(graph, work, &listens, &search), TN_OK);
        assert_true(tn_split_work(search) == work);
        assert_int_equal(tn_split_least(search, 0.5, &two, NULL), TN_OK);
        assert_true(two.live_bytes == least);
        tn_split_choice_release(search, &two);
        tn_split_search_destroy(search);
        for (uint64_t part = 1; part < 8; part++) limit_to(graph, work * part / 8, least);
        assert_int_equal(search_within(graph, 1, &listens, &search), TN_E_STOPPED);
        for (uint32_t k = 1; k <= tn_graph_op_count(graph); k++) {
            listens = (listener){.stop_at = k};
            assert_int_equal(search_within(graph, 0, &listens, &search), TN_E_STOPPED);
            assert_int_equal(listens.calls, k);
        }
        tn_graph_destroy(graph);
    }
}

static uint64_t products_move(const tn_graph *graph) {
    uint64_t bytes = 0;
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
        if (strcmp(tn_graph_op(graph, id)->type, "MatMul") == 0)
            bytes += tn_op_cost(graph, id).bytes_moved;
    return bytes;
}

/* Two products with four times as many numbers between them, for 4,096 rows. */
static tn_graph *layers(int64_t width) {
    int64_t rows[2] = {4096, width}, up[2] = {width, 4 * width}, down[2] = {4 * width, width};
    tn_graph *graph;
    assert_int_equal(tn_graph_create(NULL, &graph, NULL), TN_OK);
    tn_tensor_id x = whole_tensor(graph, "x", TN_KIND_INPUT, 2, rows);
    tn_tensor_id first[2] = {x, whole_tensor(graph, "up", TN_KIND_PARAMETER, 2, up)};
    tn_tensor_id wide = whole_tensor(graph, "wide", TN_KIND_ACTIVATION, 0, NULL);
    tn_tensor_id last[2] = {whole_tensor(graph, "bent", TN_KIND_ACTIVATION, 0, NULL),
                            whole_tensor(graph, "down", TN_KIND_PARAMETER, 2, down)};
    tn_tensor_id y = whole_tensor(graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(graph, "", "MatMul", 13, first, 2, wide, NULL, 0);
    whole_op_in(graph, "", "Relu", 13, &wide, 1, last[0], NULL, 0);
    whole_op_in(graph, "", "MatMul", 13, last, 2, y, NULL, 0);
    whole_infer(graph);
    return graph;
}

/* Rows lie in one piece, so that nothing is copied: what is moved are the weights, once for each
 * part more, unless a part with its weights is small enough for a cache. */
static void weights_that_are_read_again_are_work(void **state) {
    uint32_t seen = 0;
    (void)state;
    for (uint32_t big = 0; big < 2; big++) {
        tn_graph *graph = layers(big ? 300 : 12), *split;
        tn_split_search *search = search_of(graph);
        for (uint32_t k = 1; k < 16; k++) {
            tn_split_choice choice;
            uint64_t budget = tn_split_whole(search) / 16 * k;
            if (tn_split_within(search, budget, &choice, NULL) != TN_OK) continue;
            assert_int_equal(
                tn_graph_split(graph, choice.regions, choice.count, NULL, &split, NULL), TN_OK);
            uint64_t again = products_move(split) - products_move(graph);
            assert_true(again > 0);
            if (!big) assert_int_equal(choice.moved, 0);
            if (big) assert_true(fabs((double)choice.moved / (double)again - 1) < 0.01);
            tn_graph_destroy(split);
            tn_split_choice_release(search, &choice);
            seen++;
        }
        tn_split_search_destroy(search);
        tn_graph_destroy(graph);
    }
    assert_true(seen > 4);
}

static void no_failing_allocation_does_harm(void **state) {
    tn_graph *graph = network(3);
    tn_status status = TN_E_NO_MEMORY;
    (void)state;
    for (uint64_t at = 1; status != TN_OK; at += 1 + at / 16) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_split_options options = TN_SPLIT_OPTIONS_INIT;
        tn_split_search *search = NULL;
        tn_error error;
        options.context = &context;
        status = tn_split_search_create(graph, &options, &search, &error);
        assert_true(status == TN_OK || (status == TN_E_NO_MEMORY && search == NULL));
        tn_split_search_destroy(search);
        assert_int_equal(memory.held, 0);
        if (at > 4000) break;
    }
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_hold),
        cmocka_unit_test(less_memory_takes_no_less_work),
        cmocka_unit_test(limits_end_the_search),
        cmocka_unit_test(weights_that_are_read_again_are_work),
        cmocka_unit_test(no_failing_allocation_does_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
