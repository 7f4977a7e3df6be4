/* test_price.c - a region costs the same whether it was extended and asked about at every length,
 * or opened at its full length and asked about once. */
#include <tenure/rewrite.h>

#include "fit/split/price.h"
#include "whole.h"

#define PLACES 40u

static uint32_t number(tn__random *random, uint32_t from, uint32_t to) {
    return from + (uint32_t)tn__random_below(random, to - from + 1);
}

/* Convolutions, additions of two earlier images and Relus, some of which nothing else reads. */
static tn_graph *images(uint64_t seed) {
    tn__random random = {seed};
    int64_t shape[4] = {1, 6, number(&random, 20, 40), 24};
    tn_graph *graph;
    tn_tensor_id made[PLACES + 1];
    char name[32];
    assert_int_equal(tn_graph_create(NULL, &graph, NULL), TN_OK);
    made[0] = whole_tensor(graph, "x", TN_KIND_INPUT, 4, shape);
    for (uint32_t i = 1; i <= PLACES; i++) {
        uint32_t before = i > 6 ? number(&random, i - 6, i - 1) : i - 1;
        tn_tensor_id inputs[2] = {made[i - 1], made[before]};
        snprintf(name, sizeof name, "y%u", i);
        made[i] =
            whole_tensor(graph, name, i < PLACES ? TN_KIND_ACTIVATION : TN_KIND_OUTPUT, 0, NULL);
        switch (number(&random, 0, 3)) {
        case 0:
            whole_op_in(graph, "", "Add", 13, inputs, 2, made[i], NULL, 0);
            break;
        case 1:
            whole_op_in(graph, "", "Relu", 13, inputs, 1, made[i], NULL, 0);
            break;
        default: {
            int64_t size = number(&random, 0, 1) ? 3 : 5, w[4] = {6, 6, size, size};
            int64_t pads[4] = {size / 2, size / 2, size / 2, size / 2};
            tn_attr attr = {.name = "pads", .type = TN_ATTR_INTS, .count = 4, .ints = pads};
            snprintf(name, sizeof name, "w%u", i);
            inputs[1] = whole_tensor(graph, name, TN_KIND_PARAMETER, 4, w);
            whole_op_in(graph, "", "Conv", 11, inputs, 2, made[i], &attr, 1);
        }
        }
    }
    whole_infer(graph);
    return graph;
}

/* The price of places `first` to `last` alone. */
static split_price alone(split_model *model, const tn_split_region *asked, uint32_t first,
                         uint32_t last, const uint32_t *parts, uint64_t *floor) {
    split_region region;
    split_pricer pricer;
    split_price price;
    tn_error error;
    tn__split_across(model, first, last);
    assert_int_equal(tn__split_open(&model->order, asked, first, last, &region, &error), TN_OK);
    assert_int_equal(tn__price_open(&pricer, model, &region, first, &error), TN_OK);
    while (region.begin > 0) {
        assert_int_equal(tn__split_extend(&region), TN_OK);
        tn__price_extend(&pricer);
    }
    *floor = tn__price_floor(&pricer);
    assert_int_equal(tn__price(&pricer, 0, parts, &price, &error), TN_OK);
    tn__split_end(&region);
    return price;
}

typedef struct length {
    split_price prices[3];
    uint64_t floor;
    uint32_t first;
} length;

/* All lengths that end at a place. */
static uint32_t lengths(split_model *model, const tn_split_region *asked, uint32_t last,
                        const uint32_t (*parts)[2], length *made) {
    split_region region;
    split_pricer pricer;
    tn_error error;
    uint32_t count = 0, window = last > 30 ? last - 30 : 0;
    tn__split_across(model, window, last);
    if (tn__split_open(&model->order, asked, window, last, &region, &error) == TN_OK) {
        assert_int_equal(tn__price_open(&pricer, model, &region, window, &error), TN_OK);
        while (region.begin > 0 && tn__split_extend(&region) == TN_OK) {
            tn__price_extend(&pricer);
            made[count].first = window + region.begin;
            made[count].floor = tn__price_floor(&pricer);
            for (uint32_t k = 0; k < 3; k++)
                assert_int_equal(tn__price(&pricer, k, parts[k], &made[count].prices[k], &error),
                                 TN_OK);
            count++;
        }
    }
    tn__split_end(&region);
    return count;
}

static void compare(split_model *model, const tn_split_region *asked, uint32_t last,
                    const uint32_t (*parts)[2], uint32_t *compared) {
    length made[PLACES];
    uint32_t count = lengths(model, asked, last, parts, made);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < 3; k++) {
            uint64_t floor;
            split_price one = made[i].prices[k];
            split_price two = alone(model, asked, made[i].first, last, parts[k], &floor);
            assert_true(floor == made[i].floor);
            assert_true(one.peak == two.peak && one.extra == two.extra && one.halo == two.halo &&
                        one.moved == two.moved && one.kept == two.kept);
            assert_true(one.peak >= floor);
            (*compared)++;
        }
}

static void a_region_costs_the_same_at_any_length_of_its_window(void **state) {
    static const uint32_t rows[3][2] = {{2, 1}, {3, 1}, {8, 1}};
    static const uint32_t patches[3][2] = {{2, 2}, {3, 3}, {6, 6}};
    uint32_t compared = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 5; seed++) {
        tn_graph *graph = images(seed);
        tn_split_options options = TN_SPLIT_OPTIONS_INIT;
        split_model model;
        tn__arena arena;
        tn_error error;
        options.move_kept = 16;
        tn__arena_init(&arena, NULL);
        assert_int_equal(tn__split_model(graph, &options, &arena, &model, &error), TN_OK);
        for (uint32_t last = 3; last < model.order.op_count; last += 4)
            for (uint32_t way = 0; way < 3; way++) { /* rows, rows that are kept, patches */
                tn_split_region asked = {.axes = {2, 3}, .parts = {2, way == 2 ? 2u : 1u}};
                asked.keep = way == 1;
                compare(&model, &asked, last, way == 2 ? patches : rows, &compared);
            }
        tn__arena_release(&arena);
        tn_graph_destroy(graph);
    }
    printf("%u prices\n", compared);
    assert_true(compared > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_region_costs_the_same_at_any_length_of_its_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
