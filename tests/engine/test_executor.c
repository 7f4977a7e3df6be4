/* test_executor.c - operators run without any program: one after the other, as they come.
 *
 * Networks run by hand, each tensor in a block of exactly its size, must give the bits of a whole
 * run, with our own loops and with oneDNN. Graphs that grow while they run, as an interpreter's do,
 * are judged by plain arithmetic.
 */
#include "../graph/kit.h"

#include "../support.h"

#include <tenure/run.h>

#include "engine/executor.h"
#include "engine/statics.h"
#include "graph/element.h"

static tn_error failure;
static void check(tn_status status) {
    if (status != TN_OK) fail_msg("%s: %s", failure.where, failure.message);
}

/* --- an interpreter in a page --- */

typedef struct hand {
    tn__kernel_cache *cache;
    tn__executor executor;
    void *blocks[1024]; /* that operands lie in */
    uint32_t block_count;
} hand;

static void *block_of(uint64_t bytes) {
    void *block = NULL;
    assert_int_equal(posix_memalign(&block, 64, bytes > 0 ? (size_t)bytes : 1), 0);
    return block;
}

static hand hand_open(const tn_graph *graph, bool plain) {
    hand made = {0};
    check(tn__kernel_cache_create(NULL, 1, plain, &made.cache, &failure));
    tn__executor_open(&made.executor, tn_graph_context(graph), graph);
    made.executor.error = &failure;
    return made;
}

/* Room for a tensor, unless it has some. */
static void hand_take(hand *it, tn_tensor_id id) {
    tn_operand *operand = &it->executor.operands[id];
    if (operand->data != NULL) return;
    assert_true(it->block_count < sizeof it->blocks / sizeof *it->blocks);
    operand->data = it->blocks[it->block_count++] = block_of(operand->room);
}

static void hand_close(hand *it) {
    for (uint32_t i = 0; i < it->block_count; i++) free(it->blocks[i]);
    tn__executor_close(&it->executor);
    tn__kernel_cache_release(it->cache);
}

static tn_status hand_apply(hand *it, tn_op_id id) {
    const tn_graph *graph = it->executor.graph;
    const tn_op *op = tn_graph_op(graph, id);
    const tn__prepared *prepared;
    void *packed[8] = {NULL};
    TN_TRY(tn__kernel_cache_find(it->cache, graph, id, &prepared, &failure));
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) hand_take(it, op->outputs[k]);
    for (uint32_t i = 0; prepared->packed != NULL && i < op->input_count; i++) {
        if (prepared->packed[i] == 0) continue;
        packed[i] = block_of(prepared->packed[i]);
        check(tn__kernel_cache_pack(it->cache, prepared, graph, id, i,
                                    it->executor.operands[op->inputs[i]].data, packed[i],
                                    &failure));
    }
    void *workspace = block_of(prepared->workspace);
    tn_status status = tn__executor_call(&it->executor, id, prepared, packed, workspace);
    free(workspace);
    for (uint32_t i = 0; i < 8; i++) free(packed[i]);
    return status;
}

/* --- against a whole run --- */

/* Any numbers, the same whenever the same tensor is asked for. */
static tn_status contents(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                          uint64_t size, tn_error *error) {
    (void)self, (void)error;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (tn__tensor_fill(tensor, bytes, size)) return TN_OK;
    tn__random random = {.state = id + 1};
    float *floats = bytes;
    for (uint64_t i = 0; i < size / sizeof *floats; i++)
        floats[i] = (float)((double)tn__random_below(&random, 2001) / 1000 - 1);
    return TN_OK;
}

typedef struct network {
    test_kit kit;
    tn_tensor_id in, out[3];
} network;

/* A convolution twice, pooling, a product of what it gives, and indices whose number depends on the
 * contents. */
static network network_make(void) {
    network n = {.kit = kit_open()};
    test_kit *kit = &n.kit;
    const int64_t flat[2] = {1, -1};
    n.in = kit_input(kit, "x", TN_FLOAT32, KIT_SHAPE(1, 8, 8, 8));
    tn_tensor_id at = n.in;
    for (int i = 0; i < 2; i++) {
        tn_tensor_id w = kit_tensor(kit, "w", TN_KIND_PARAMETER, TN_FLOAT32, KIT_SHAPE(8, 8, 3, 3));
        if (i == 1) w = kit_op(kit, "Tanh", KIT_LIST(w)); /* folded */
        kit_attr_ints(kit, "pads", 4, (int64_t[]){1, 1, 1, 1});
        at = kit_op(kit, "Conv", KIT_LIST(at, w));
        at = kit_op(kit, "Relu", KIT_LIST(at));
    }
    kit_attr_ints(kit, "kernel_shape", 2, (int64_t[]){2, 2});
    kit_attr_ints(kit, "strides", 2, (int64_t[]){2, 2});
    at = kit_op(kit, "MaxPool", KIT_LIST(at));
    at = kit_op(kit, "Reshape", KIT_LIST(at, kit_list(kit, 2, flat)));
    tn_tensor_id m = kit_tensor(kit, "m", TN_KIND_PARAMETER, TN_FLOAT32, KIT_SHAPE(128, 16));
    at = kit_op(kit, "MatMul", KIT_LIST(at, m));
    n.out[0] = kit_op(kit, "Softmax", KIT_LIST(at));
    at = kit_op(kit, "Relu", KIT_LIST(at));
    n.out[1] = kit_op(kit, "NonZero", KIT_LIST(at));
    n.out[2] = kit_op(kit, "Transpose", KIT_LIST(n.out[1]));
    kit_block_io(kit, 0, KIT_LIST(n.in), KIT_LIST(n.out[0], n.out[1], n.out[2]));
    kit_infer(kit);
    return n;
}

static tn_session *whole_run(const network *n, bool plain) {
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_session *session;
    options.read = contents;
    options.plain = plain;
    options.no_rewrite = true;
    check(tn_session_open(n->kit.graph, &options, &session, &failure));
    tn_array *x = tn_session_array(session, n->in);
    check(contents(NULL, n->kit.graph, n->in, x->data, x->bytes, NULL));
    check(tn_session_run(session, &failure));
    return session;
}

static void same_outputs(const network *n, tn_session *session, const tn__executor *executor) {
    for (int k = 0; k < 3; k++) {
        const tn_array *expected = tn_session_array(session, n->out[k]);
        const tn_operand *got = &executor->operands[n->out[k]];
        assert_int_equal(got->rank, expected->rank);
        assert_int_equal(tn__operand_bytes(got), expected->bytes);
        assert_memory_equal(got->shape, expected->shape, got->rank * sizeof *got->shape);
        assert_memory_equal(got->data, expected->data, expected->bytes);
    }
    assert_true(executor->operands[n->out[1]].shape[1] < 16); /* fewer than the bound */
    assert_true(executor->operands[n->out[1]].shape[1] > 0);
}

static void hand_read(hand *it, tn_tensor_id id) {
    hand_take(it, id);
    check(contents(NULL, it->executor.graph, id, it->executor.operands[id].data,
                   it->executor.operands[id].room, NULL));
}

static void compare(const network *n, bool plain) {
    tn_session *session = whole_run(n, plain);
    const tn_block *block = tn_graph_block(n->kit.graph, 0);
    hand it = hand_open(n->kit.graph, plain);
    check(tn__executor_cover(&it.executor));
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(n->kit.graph); t++)
        if (kit_at(&n->kit, t)->producer == TN_NONE) hand_read(&it, t);
    for (uint32_t i = 0; i < block->op_count; i++) check(hand_apply(&it, block->ops[i]));
    same_outputs(n, session, &it.executor);
    hand_close(&it);
    tn_session_close(session);
}

/* The same with weights that are folded and packed first, for a list of operators. */
static void compare_static(const network *n, bool plain) {
    tn_session *session = whole_run(n, plain);
    const tn_graph *graph = n->kit.graph;
    const tn_block *block = tn_graph_block(graph, 0);
    const tn_block_id main_block = 0;
    tn_op_id ops[16];
    tn__readers readers = {.ops = ops, .blocks = &main_block, .block_count = 1};
    tn_kernels_options options = TN_KERNELS_OPTIONS_INIT;
    const tn__contents_source source = {.read = contents};
    tn_kernels *kernels;
    tn__statics statics;
    hand it = hand_open(graph, plain);
    check(tn__executor_cover(&it.executor));
    options.plain = plain;
    check(tn_kernels_create(graph, &options, &kernels, &failure));
    for (uint32_t i = 0; i < block->op_count; i++) {
        tn_tensor_id first = tn_graph_op(graph, block->ops[i])->outputs[0];
        if (!tn_tensor_is_static(kit_at(&n->kit, first))) ops[readers.op_count++] = block->ops[i];
    }
    assert_true(readers.op_count < block->op_count); /* something is folded */
    check(tn__statics_plan(&statics, kernels, &readers, tn_graph_context(graph), &failure));
    uint8_t *memory = block_of(statics.bytes);
    check(tn__statics_fill(&statics, &it.executor, &source, memory));
    hand_read(&it, n->in);
    for (size_t i = 0; i < readers.op_count; i++) {
        const tn_op *op = tn_graph_op(graph, ops[i]);
        void *workspace = block_of(kernels->of[ops[i]]->workspace);
        for (uint32_t k = 0; k < op->output_count; k++) hand_take(&it, op->outputs[k]);
        check(tn__executor_call(&it.executor, ops[i], kernels->of[ops[i]],
                                tn__statics_packed(&statics, ops[i]), workspace));
        free(workspace);
    }
    same_outputs(n, session, &it.executor);
    free(memory);
    tn__statics_release(&statics);
    tn_kernels_destroy(kernels);
    hand_close(&it);
    tn_session_close(session);
}

static void operators_by_hand_give_the_bits_of_a_whole_run(void **state) {
    (void)state;
    network n = network_make();
    for (int plain = 0; plain < 2; plain++) {
        compare(&n, plain);
        compare_static(&n, plain);
    }
    kit_close(&n.kit);
}

/* --- a graph that grows while it runs --- */

#define GROWN 600u
#define WIDTH 5

static void grown_judge(const char *type, const int32_t *a, const int32_t *b, const int32_t *got) {
    for (int i = 0; i < WIDTH; i++) {
        uint32_t x = (uint32_t)a[i], y = (uint32_t)b[i];
        int32_t expected = strcmp(type, "Add") == 0   ? (int32_t)(x + y)
                           : strcmp(type, "Sub") == 0 ? (int32_t)(x - y)
                           : strcmp(type, "Max") == 0 ? (a[i] > b[i] ? a[i] : b[i])
                                                      : (a[i] < b[i] ? a[i] : b[i]);
        assert_int_equal(got[i], expected);
    }
}

static void a_graph_may_grow_between_calls(void **state) {
    (void)state;
    static const char *const types[] = {"Add", "Sub", "Max", "Min"};
    const uint64_t seed = 11;
    tn__random random = {.state = seed};
    test_kit kit = kit_open();
    hand it = hand_open(kit.graph, true);
    for (int i = 0; i < 2; i++) {
        tn_tensor_id id = kit_input(&kit, "x", TN_INT32, KIT_SHAPE(WIDTH));
        kit_infer(&kit);
        check(tn__executor_cover(&it.executor));
        hand_take(&it, id);
        int32_t *x = it.executor.operands[id].data;
        for (int k = 0; k < WIDTH; k++) x[k] = (int32_t)tn__random_below(&random, 2001) - 1000;
    }
    for (uint32_t n = 0; n < GROWN; n++) {
        const char *type = types[tn__random_below(&random, 4)];
        uint32_t count = tn_graph_tensor_count(kit.graph);
        tn_tensor_id a = (tn_tensor_id)tn__random_below(&random, count);
        tn_tensor_id b = (tn_tensor_id)tn__random_below(&random, count - 1);
        if (b >= a) b++;
        tn_tensor_id c = kit_op(&kit, type, KIT_LIST(a, b));
        kit_infer(&kit);
        check(tn__executor_cover(&it.executor));
        check(hand_apply(&it, tn_graph_op_count(kit.graph) - 1));
        const tn_operand *operands = it.executor.operands;
        grown_judge(type, operands[a].data, operands[b].data, operands[c].data);
    }
    /* however many there were, there are only four sorts */
    tn__kernel_cache_counts counts = tn__kernel_cache_count(it.cache);
    assert_int_equal(counts.asked, GROWN);
    assert_int_equal(counts.prepared, 4);
    hand_close(&it);
    kit_close(&kit);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    network n = network_make();
    for (uint64_t at = 1, done = 0; !done; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn__kernel_cache *cache = NULL;
        tn__executor executor;
        const tn__prepared *prepared;
        tn_status status = tn__kernel_cache_create(&context, 1, true, &cache, &failure);
        tn__executor_open(&executor, &context, n.kit.graph);
        if (status == TN_OK) status = tn__executor_cover(&executor);
        for (tn_op_id id = 0; status == TN_OK && id < tn_graph_op_count(n.kit.graph); id++)
            status = tn__kernel_cache_find(cache, n.kit.graph, id, &prepared, &failure);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        done = status == TN_OK;
        tn__executor_close(&executor);
        tn__kernel_cache_release(cache);
        assert_int_equal(memory.held, 0);
        assert_true(at < 1000);
    }
    kit_close(&n.kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_by_hand_give_the_bits_of_a_whole_run),
        cmocka_unit_test(a_graph_may_grow_between_calls),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
