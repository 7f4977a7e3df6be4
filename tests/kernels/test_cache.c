/* test_cache.c - kernels are shared by operators that are alike, and by no others.
 *
 * One operator is varied in all that a kernel may depend on: each variant gets a kernel of its own,
 * and whatever a kernel may not depend on changes nothing. What is shared runs on two threads.
 */
#include "../graph/kit.h"

#include "../support.h"

#include <pthread.h>

#include <tenure/engine.h>

#include "engine/kernels/kernels.h"

static tn_error failure;
static void check(tn_status status) {
    if (status != TN_OK) fail_msg("%s: %s", failure.where, failure.message);
}

/* --- what tells operators apart --- */

typedef struct variant { /* Clip of x [2, 8, 4, 4] float32 with a known bound, but: */
    const char *what, *type;
    int64_t width;
    tn_dtype dtype;
    bool last, unknown, updated, bound, pair, same;
    double low;
    int64_t ask; /* an attribute of this value */
    bool many;   /* 128 numbers, not one */
} variant;

static const variant variants[] = {
    {.what = "nothing"},
    {.what = "an extent", .width = 16},
    {.what = "the element type", .dtype = TN_FLOAT64},
    {.what = "the format", .last = true},
    {.what = "what is constant", .unknown = true},
    {.what = "what is updated", .updated = true},
    {.what = "extents that are bounds", .bound = true},
    {.what = "a known number", .low = 1},
    {.what = "an attribute", .ask = 1},
    {.what = "its value", .ask = 2},
    {.what = "the type", .type = "Min"},
    {.what = "two inputs", .type = "Min", .pair = true},
    {.what = "which inputs are one", .type = "Min", .same = true},
    {.what = "many numbers", .type = "Min", .many = true},
};
#define VARIANTS (sizeof variants / sizeof *variants)

static tn_op_id add(test_kit *kit, const variant *v, const char *name, double number) {
    static double numbers[128];
    const int64_t shape[4] = {2, v->width ? v->width : 8, 4, 4}, many[4] = {1, 8, 4, 4};
    const tn_dtype dtype = v->dtype ? v->dtype : TN_FLOAT32;
    tn_tensor_id out = kit_open_tensor(kit, "out"), inputs[2];
    tn_tensor_spec spec = {.name = name,
                           .dtype = dtype,
                           .kind = TN_KIND_INPUT,
                           .flags = v->bound ? TN_TENSOR_BOUND : 0,
                           .rank = 4,
                           .shape = shape,
                           .format = {.order = v->last ? TN_ORDER_NHWC : TN_ORDER_PLAIN}};
    tn_tensor_spec bound = {.name = name,
                            .dtype = dtype,
                            .kind = v->unknown ? TN_KIND_INPUT : TN_KIND_CONSTANT,
                            .flags = v->updated ? TN_TENSOR_UPDATED : 0,
                            .rank = v->many ? 4 : 0,
                            .shape = many};
    for (int i = 0; i < 128; i++) numbers[i] = number;
    if (!v->unknown) bound.value = (tn_value){.count = v->many ? 128 : 1, .floats = numbers};
    check(tn_graph_add_tensor(kit->graph, &spec, &inputs[0], &failure));
    check(tn_graph_add_tensor(kit->graph, v->pair ? &spec : &bound, &inputs[1], &failure));
    if (v->same) inputs[1] = inputs[0];
    if (v->ask != 0) kit_attr_int(kit, "ask", v->ask);
    return kit_op_to(kit, v->type ? v->type : "Clip", 2, inputs, 1, &out);
}

static bool same_key(const tn_graph *graph, tn_op_id a, tn_op_id b) {
    tn__text keys[2];
    for (int i = 0; i < 2; i++) {
        tn__text_init(&keys[i], tn_graph_context(graph));
        tn__op_key(&keys[i], graph, i ? b : a);
    }
    bool same =
        keys[0].size == keys[1].size && memcmp(keys[0].data, keys[1].data, keys[0].size) == 0;
    for (int i = 0; i < 2; i++) tn__text_release(&keys[i]);
    return same;
}

static void what_is_alike_is_shared_and_nothing_else(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn__kernel_cache *cache;
    const tn__prepared *prepared, *found[VARIANTS];
    tn_op_id ids[VARIANTS], again[VARIANTS];
    for (size_t i = 0; i < VARIANTS; i++) {
        const variant *v = &variants[i];
        ids[i] = add(&kit, v, "n", v->low);
        /* many numbers say nothing about how it is best run: those of the copy are others */
        again[i] = add(&kit, v, "another", v->low + (v->many ? 3 : 0));
    }
    kit_infer(&kit);
    check(tn__kernel_cache_create(NULL, 1, true, &cache, &failure));
    for (size_t i = 0; i < VARIANTS; i++) {
        assert_true(same_key(kit.graph, ids[i], again[i]));
        for (size_t k = 0; k < i; k++)
            if (same_key(kit.graph, ids[i], ids[k]))
                fail_msg("'%s' and '%s' have one key", variants[i].what, variants[k].what);
        if (variants[i].last) continue; /* no kernel of ours for that */
        check(tn__kernel_cache_find(cache, kit.graph, ids[i], &found[i], &failure));
        check(tn__kernel_cache_find(cache, kit.graph, again[i], &prepared, &failure));
        if (prepared != found[i]) fail_msg("'%s' is prepared twice", variants[i].what);
        for (size_t k = 0; k < i; k++)
            if (!variants[k].last && found[k] == found[i])
                fail_msg("'%s' and '%s' share one", variants[i].what, variants[k].what);
    }
    tn__kernel_cache_release(cache);
    kit_close(&kit);
}

/* --- from one graph to another --- */

static test_kit chain(int length) { /* of products with weights, in float16 */
    test_kit kit = kit_open();
    tn_tensor_id at = kit_input(&kit, "x", TN_FLOAT16, KIT_SHAPE(4, 16));
    for (int i = 0; i < length; i++) {
        tn_tensor_id w = kit_tensor(&kit, "w", TN_KIND_PARAMETER, TN_FLOAT16, KIT_SHAPE(16, 16));
        at = kit_op(&kit, "MatMul", KIT_LIST(at, w));
    }
    kit_block_io(&kit, 0, 1, tn_graph_block(kit.graph, 0)->inputs, KIT_LIST(at));
    kit_infer(&kit);
    return kit;
}

static void kernels_outlive_those_that_they_came_from(void **state) {
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        test_kit first = chain(2), second = chain(5);
        tn_kernels_options options = TN_KERNELS_OPTIONS_INIT;
        tn_kernels *a, *b;
        options.plain = plain;
        check(tn_kernels_create(first.graph, &options, &a, &failure));
        uint32_t before = tn__kernel_cache_count(a->cache).prepared;
        assert_int_equal(before, 1);
        options.with = a;
        options.plain = !plain; /* it is as `a` was made */
        check(tn_kernels_create(second.graph, &options, &b, &failure));
        assert_int_equal(tn__kernel_cache_count(b->cache).prepared, before);
        assert_string_equal(tn_kernels_name(b, 4), tn_kernels_name(a, 0));
        assert_ptr_equal(b->of[0], a->of[0]);
        tn_kernels_destroy(a);
        kit_close(&first);
        assert_true(tn_kernels_name(b, 3)[0] != 0);
        tn_kernels_destroy(b);
        kit_close(&second);
    }
}

/* --- on two threads --- */

typedef struct job {
    tn_engine *engine;
    uint16_t in[64], out[64];
    bool failed;
} job;

static tn_status weights(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                         uint64_t size, tn_error *error) {
    (void)self, (void)error, (void)graph;
    uint16_t *to = bytes;
    for (uint64_t i = 0; i < size / 2; i++) /* one or minus one on the diagonal */
        to[i] = i % 17 == 0 ? (id % 3 ? 0x3c00 : 0xbc00) : 0;
    return TN_OK;
}

static void *run_many(void *self) {
    job *it = self;
    for (int n = 0; n < 400; n++) {
        tn_array in = {.dtype = TN_FLOAT16, .rank = 2, .bytes = 128, .data = it->in};
        tn_array out = {.bytes = 128, .data = it->out};
        in.shape[0] = 4;
        in.shape[1] = 16;
        it->failed = it->failed || tn_engine_run(it->engine, &in, 1, &out, 1, NULL) != TN_OK;
        for (int i = 0; i < 64; i++) /* three weights: the sign of the second and of the third */
            it->failed = it->failed || (it->out[i] & 0x7fff) != (it->in[i] & 0x7fff);
    }
    return NULL;
}

static void two_engines_may_run_over_the_same_kernels(void **state) {
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        test_kit kit = chain(3);
        tn_kernels_options kernels_options = TN_KERNELS_OPTIONS_INIT;
        tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
        tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
        tn_kernels *kernels;
        tn_program *program;
        tn_occupancy *occupancy;
        tn_layout layout;
        tn_device *devices[2];
        pthread_t threads[2];
        static job jobs[2];
        kernels_options.plain = plain;
        options.read = weights;
        check(tn_kernels_create(kit.graph, &kernels_options, &kernels, &failure));
        assert_ptr_equal(kernels->of[0], kernels->of[1]);
        memory.workspaces = tn_kernels_workspaces(kernels);
        check(tn_program_plan(kit.graph, NULL, &memory, NULL, &program, &occupancy, &layout,
                              &failure));
        for (int i = 0; i < 2; i++) {
            jobs[i] = (job){0};
            for (int k = 0; k < 64; k++) jobs[i].in[k] = (uint16_t)(0x3c00 + 64 * i + k);
            check(tn_device_create(NULL, &devices[i], &failure));
            check(tn_engine_create(occupancy, &layout, kernels, devices[i], &options,
                                   &jobs[i].engine, &failure));
        }
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, run_many, &jobs[i]), 0);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 2; i++) {
            assert_false(jobs[i].failed);
            tn_engine_destroy(jobs[i].engine);
            tn_device_destroy(devices[i]);
        }
        tn_layout_release(&layout);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_kernels_destroy(kernels);
        kit_close(&kit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_alike_is_shared_and_nothing_else),
        cmocka_unit_test(kernels_outlive_those_that_they_came_from),
        cmocka_unit_test(two_engines_may_run_over_the_same_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
