/* The arena of TensorFlow Lite Micro: against figures that its authors publish, against this
 * machine's compiler, and by properties. */
#include "io/import/tflm/tflm.h"
#include "support.h"
#include "tflite_samples.h"

#include <tenure/graph.h>
#include <tenure/rewrite.h>

#define SHARED TENURE_SOURCE_DIR "/../shared/data/tflite/"

static tn_error failure;

/* The arena of a shared model under options; false, with a line, when the file is not there. */
static bool arena_of(const char *name, const uint64_t *offsets, tn_micro_options options,
                     tn_micro_arena *arena) {
    char path[600];
    tn_graph *graph;
    snprintf(path, sizeof path, SHARED "%s", name);
    if (tn_graph_load(path, NULL, &graph, &failure) != TN_OK) {
        printf("SKIP: shared/data/tflite/%s is not there\n", name);
        return false;
    }
    tn_status status =
        tn_micro_arena_of(path, NULL, graph, offsets, &options, arena, NULL, &failure);
    tn_graph_destroy(graph);
    if (status != TN_OK) fail_msg("%s: %s", name, failure.message);
    return true;
}

static tn_micro_options host(void) {
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    options.target = TN_MICRO_X86_64;
    options.runtime = 20250131; /* the figures are of 2025 or later */
    return options;
}

/* --- published figures --- */

/* memory_arena_threshold_test.cc, x86-64, TF_LITE_STATIC_MEMORY: head 672, tail 13800, total 14472,
 * variables 10240, 54 tensors, 15 nodes; without what GetDefaultTailUsage() counts, which are the
 * allocators and one SubgraphAllocations of 16 bytes. */
static void the_keyword_model_needs_what_its_authors_measured(void **state) {
    (void)state;
    tn_micro_arena arena;
    if (!arena_of("tflm_keyword_scrambled.tflite", NULL, host(), &arena)) return;
    uint64_t standard = arena.part[TN_MICRO_PART_ALLOCATORS] + 16;
    assert_int_equal(arena.head, 672);
    assert_int_equal(arena.tail - standard, 13800);
    assert_int_equal(arena.used - standard, 14472);
    assert_int_equal(arena.part[TN_MICRO_PART_VARIABLES], 10240);
    assert_int_equal(arena.part[TN_MICRO_PART_TENSORS], 54 * 24 + 16);
    assert_int_equal(arena.part[TN_MICRO_PART_NODES], 15 * 64);
}

/* hello_world_test on a 64-bit machine prints: total 2392, head 128, TfLiteEvalTensor 240,
 * persistent TfLiteTensor 128, persistent buffers 1184, nodes 192. It counts 24 resource variables
 * (16 + 24 * 40) and the larger allocators of the recording interpreter (208 bytes, measured
 * elsewhere), too. */
static void hello_world_needs_what_it_prints(void **state) {
    (void)state;
    tn_micro_arena arena;
    if (!arena_of("tflm_hello_world.tflite", NULL, host(), &arena)) return;
    assert_int_equal(arena.head, 128);
    assert_int_equal(arena.part[TN_MICRO_PART_TENSORS], 240 + 16);
    assert_int_equal(arena.part[TN_MICRO_PART_NODES], 192);
    assert_int_equal(arena.part[TN_MICRO_PART_KERNELS], 1184 - 16 - (16 + 24 * 40));
    uint64_t recorded = arena.used + 16 + 24 * 40 + 208;
    assert_true(recorded >= 2392 - 16 && recorded <= 2392 + 16);
}

/* A network of these layers, measured with the reference kernels on a 64-bit machine: head 6000,
 * arena_used_bytes() 8464, and an arena of 8464 bytes is enough. */
static void keywords_need_what_somebody_measured(void **state) {
    (void)state;
    const char *path = TENURE_SOURCE_DIR "/examples/models/keywords.tflite";
    tn_micro_options options = host();
    tn_micro_arena arena;
    tn_graph *graph;
    assert_int_equal(tn_graph_load(path, NULL, &graph, &failure), TN_OK);
    assert_int_equal(tn_micro_arena_of(path, NULL, graph, NULL, &options, &arena, NULL, &failure),
                     TN_OK);
    tn_graph_destroy(graph);
    assert_int_equal(arena.head, 6000);
    assert_int_equal(arena.used, 8464);
    assert_int_equal(arena.total, 8464);
}

/* The largest pair of neighbours in MobileNet 0.25 at 96x96: 48*48*8 and 48*48*16 bytes. */
static void person_detection_needs_its_largest_pair_of_tensors(void **state) {
    (void)state;
    tn_micro_arena arena;
    if (!arena_of("tflm_person_detect.tflite", NULL, host(), &arena)) return;
    assert_int_equal(arena.head, 48 * 48 * 8 + 48 * 48 * 16);
    assert_true(arena.total <= 136 * 1024); /* what its example reserves */
}

/* --- structs --- */

static void structs_are_as_large_as_this_compiler_makes_them(void **state) {
    (void)state;
    struct eval {
        void *data, *dims;
        enum { EVAL_KIND } type;
    };
    struct convolution {
        int32_t numbers[9];
        void *multiplier, *shift;
        int32_t more[3];
    };
    struct softmax {
        double beta;
        int32_t numbers[7];
        void *tables[5];
    };
    struct mixed {
        bool a;
        int16_t b;
        bool c;
        int32_t d;
        bool e;
    };
    if (sizeof(void *) != 8) {
        printf("SKIP: not a 64-bit machine\n");
        return;
    }
    assert_int_equal(TN__TFLM_SIZE(TN_MICRO_X86_64, "2pe"), sizeof(struct eval));
    assert_int_equal(TN__TFLM_SIZE(TN_MICRO_X86_64, "9i2p3i"), sizeof(struct convolution));
    assert_int_equal(TN__TFLM_SIZE(TN_MICRO_X86_64, "d7i5p"), sizeof(struct softmax));
    assert_int_equal(TN__TFLM_SIZE(TN_MICRO_X86_64, "bhbib"), sizeof(struct mixed));
    assert_int_equal(TN__TFLM_SIZE(TN_MICRO_CORTEX_M, "2pe"), 12); /* as 32-bit runs print */
    assert_int_equal(TN__TFLM_SIZE(TN_MICRO_CORTEX_M, "6pip"), 32);
    assert_int_equal(TN__TFLM_SIZE(TN_MICRO_CORTEX_M, "ep2ippz2eb"), 32);
    assert_int_equal(TN__TFLM_SIZE(TN_MICRO_X86_64, ""), 0);
}

/* --- the planner of the run time --- */

typedef struct sampled {
    tn_graph *graph;
    lite *model;
    const uint8_t *bytes;
    size_t size;
} sampled;

static sampled sample(lite *model) {
    sampled all = {.model = model};
    all.bytes = lite_model(model, &all.size);
    if (tn_graph_load_memory("s.tflite", all.bytes, all.size, NULL, &all.graph, &failure) != TN_OK)
        fail_msg("%s: %s", failure.where, failure.message);
    return all;
}

static tn_micro_arena sampled_arena(const sampled *all, const uint64_t *offsets, uint64_t *placed) {
    tn_micro_arena arena;
    tn_micro_options options = host();
    if (tn__tflm_arena_from("s.tflite", (tn__span){all->bytes, all->size}, NULL, all->graph,
                            offsets, &options, &arena, placed, &failure) != TN_OK)
        fail_msg("%s: %s", failure.where, failure.message);
    return arena;
}

static void release_sample(sampled *all) {
    tn_graph_destroy(all->graph);
    free(all->model);
}

/* x (192) -> c (256) -> y (256); the file's fourth tensor, which nobody uses, lives before all. */
static void tensors_left_to_the_run_time_go_around_those_that_are_not(void **state) {
    (void)state;
    sampled all = sample(sample_convolution());
    tn_tensor_id x = tn_graph_find(all.graph, "x"), c = tn_graph_find(all.graph, "c");
    tn_tensor_id y = tn_graph_find(all.graph, "y");
    uint64_t offsets[8], placed[8];
    for (int i = 0; i < 8; i++) offsets[i] = TN_SIZE_UNKNOWN;
    tn_micro_arena arena = sampled_arena(&all, offsets, placed);
    assert_int_equal(arena.head, 512);
    assert_int_equal(placed[y], 0);   /* of equals the later one first */
    assert_int_equal(placed[c], 256); /* beside y, which lives with it */
    assert_int_equal(placed[x], 0);
    offsets[c] = 1024;
    arena = sampled_arena(&all, offsets, placed);
    assert_int_equal(placed[c], 1024);
    assert_int_equal(placed[x], 0);
    assert_int_equal(arena.head, 1280);
    offsets[c] = 16; /* below it there is no room */
    arena = sampled_arena(&all, offsets, placed);
    assert_int_equal(placed[x], 272);
    assert_int_equal(placed[y], 272);
    assert_int_equal(arena.head, 528);
    release_sample(&all);
}

static void variables_stay_in_the_tail_until_a_plan_places_them(void **state) {
    (void)state;
    sampled all = sample(sample_state());
    uint64_t offsets[8], placed[8];
    tn_tensor_id variable = TN_NONE;
    for (int i = 0; i < 8; i++) offsets[i] = TN_SIZE_UNKNOWN;
    tn_micro_arena free_arena = sampled_arena(&all, offsets, placed);
    assert_true(free_arena.part[TN_MICRO_PART_VARIABLES] > 0);
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(all.graph); id++)
        if (placed[id] == TN_SIZE_UNKNOWN && tn_graph_tensor(all.graph, id)->kind == TN_KIND_INPUT)
            variable = id;
    assert_int_not_equal(variable, TN_NONE);
    offsets[variable] = 4096;
    tn_micro_arena planned = sampled_arena(&all, offsets, placed);
    assert_true(planned.part[TN_MICRO_PART_VARIABLES] < free_arena.part[TN_MICRO_PART_VARIABLES]);
    assert_int_equal(placed[variable], 4096);
    assert_true(planned.head > 4096);
    release_sample(&all);
}

/* Elements of 4 bits take a byte each there, so that no plan of ours may place them. */
static void tensors_of_four_bits_are_left_to_the_run_time(void **state) {
    (void)state;
    lite *m = lite_new();
    lite_add(m, (lite_tensor){.name = "x", .shape = "1,96", .type = T_INT8});
    lite_add(m, (lite_tensor){.name = "h", .shape = "1,96", .type = T_INT4});
    lite_add(m, (lite_tensor){.name = "y", .shape = "1,96", .type = T_INT8});
    lite_op(m, OP_RELU, "0", "1");
    lite_op(m, OP_RELU, "1", "2");
    lite_end(m, "main", "0", "2");
    sampled all = sample(m);
    uint64_t offsets[3] = {0, 96, 144}, placed[3]; /* 48 bytes for h */
    tn_micro_arena arena = sampled_arena(&all, offsets, placed);
    assert_int_equal(placed[0], 0);
    assert_int_equal(placed[1], 240); /* 96 bytes, beside x and y */
    assert_int_equal(placed[2], 144);
    assert_int_equal(arena.head, 336);
    release_sample(&all);
}

/* Every sample, every end of the interval: the least is below the most, the total covers its parts.
 */
static void the_least_is_never_above_the_most(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        sampled all = sample(samples[i].make());
        for (int target = 0; target < 2; target++) {
            tn_micro_arena arena[2];
            for (int most = 0; most < 2; most++) {
                tn_micro_options options = TN_MICRO_OPTIONS_INIT;
                options.target = target ? TN_MICRO_X86_64 : TN_MICRO_CORTEX_M;
                options.kernels = most ? TN_MICRO_CMSIS_NN : TN_MICRO_REFERENCE;
                options.most = most;
                options.runtime = 20250131;
                options.version = most ? "7.0.0" : NULL;
                options.compiler = TN_MICRO_GCC;
                assert_int_equal(tn__tflm_arena_from("s.tflite", (tn__span){all.bytes, all.size},
                                                     NULL, all.graph, NULL, &options, &arena[most],
                                                     NULL, &failure),
                                 TN_OK);
                uint64_t sum = arena[most].tail_alignment;
                for (int part = 0; part < TN_MICRO_PART_COUNT; part++)
                    sum += arena[most].part[part];
                assert_int_equal(sum, arena[most].tail);
                assert_int_equal(arena[most].used, arena[most].head + arena[most].tail);
                assert_true(arena[most].total >= arena[most].used && arena[most].total % 16 == 0);
            }
            assert_true(arena[0].total <= arena[1].total && arena[0].head <= arena[1].head);
        }
        release_sample(&all);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    sampled all = sample(sample_loop());
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_graph *graph;
    import.context = &context;
    assert_int_equal(
        tn_graph_load_memory("s.tflite", all.bytes, all.size, &import, &graph, &failure), TN_OK);
    size_t held = memory.held;
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t at = 1; status != TN_OK && at < 10000; at++) {
        tn_micro_arena arena = {.head = 7};
        memory.fail_at = memory.requests + at;
        status = tn__tflm_arena_from("s.tflite", (tn__span){all.bytes, all.size}, &import, graph,
                                     NULL, NULL, &arena, NULL, &failure);
        assert_int_equal(memory.held, held);
        if (status == TN_OK) break;
        assert_int_equal(status, TN_E_NO_MEMORY);
        assert_int_equal(arena.head, 7);
    }
    assert_int_equal(status, TN_OK);
    tn_graph_destroy(graph);
    release_sample(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keyword_model_needs_what_its_authors_measured),
        cmocka_unit_test(hello_world_needs_what_it_prints),
        cmocka_unit_test(keywords_need_what_somebody_measured),
        cmocka_unit_test(person_detection_needs_its_largest_pair_of_tensors),
        cmocka_unit_test(structs_are_as_large_as_this_compiler_makes_them),
        cmocka_unit_test(tensors_left_to_the_run_time_go_around_those_that_are_not),
        cmocka_unit_test(variables_stay_in_the_tail_until_a_plan_places_them),
        cmocka_unit_test(tensors_of_four_bits_are_left_to_the_run_time),
        cmocka_unit_test(the_least_is_never_above_the_most),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
