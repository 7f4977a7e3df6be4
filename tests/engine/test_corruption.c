/* test_corruption.c - eight ways in which planners of others let buffers meet, one graph each.
 *
 * The threads are named where each graph is made. Every graph is small enough to be read, runs in
 * every memory that we can give it, twice over (a replay must not differ), under poison, and must
 * give the bits that it gives when every tensor has memory of its own.
 */
#define GRAPH_DTYPE TN_FLOAT32
#include "rig.h"

#define SIZE 48

typedef struct sheet { /* a graph being written */
    tn_graph *graph;
    uint32_t inputs, outputs;
} sheet;

static tn_tensor_id in(sheet *s) {
    int64_t shape[2] = {6, 8};
    tn_tensor_id id;
    tn_tensor_spec spec = {
        .name = "in", .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT, .rank = 2, .shape = shape};
    assert_ok(tn_graph_add_tensor(s->graph, &spec, &id, &failure));
    s->inputs++;
    return id;
}

static tn_tensor_id make(sheet *s, tn_block_id block, bool output) {
    tn_tensor_id id;
    tn_tensor_spec spec = {
        .name = "t", .kind = output ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, .block = block};
    assert_ok(tn_graph_add_tensor(s->graph, &spec, &id, &failure));
    s->outputs += output;
    return id;
}

static tn_tensor_id unary_in(sheet *s, tn_block_id block, const char *type, tn_tensor_id x) {
    tn_tensor_id y = make(s, block, false);
    apply(s->graph, type, block, &x, 1, &y, 1);
    return y;
}
static tn_tensor_id unary(sheet *s, const char *type, tn_tensor_id x) {
    return unary_in(s, 0, type, x);
}
static tn_tensor_id binary_in(sheet *s, tn_block_id block, const char *type, tn_tensor_id a,
                              tn_tensor_id b) {
    tn_tensor_id y = make(s, block, false);
    apply(s->graph, type, block, (tn_tensor_id[]){a, b}, 2, &y, 1);
    return y;
}
static tn_tensor_id binary(sheet *s, const char *type, tn_tensor_id a, tn_tensor_id b) {
    return binary_in(s, 0, type, a, b);
}
static tn_tensor_id reshape(sheet *s, tn_tensor_id x, int64_t rows, int64_t columns) {
    tn_tensor_id y = make(s, 0, false);
    tn_tensor_id list[2] = {x, numbers(s->graph, (int64_t[]){rows, columns}, 2)};
    apply(s->graph, "Reshape", 0, list, 2, &y, 1);
    return y;
}
static void out(sheet *s, const char *type, tn_tensor_id x) {
    tn_tensor_id y = make(s, 0, true);
    apply(s->graph, type, 0, &x, 1, &y, 1);
}

/* LiteRT 8889, 8928: a reshaped tensor, its norm, and the residual that reads it again. */
static void reshaped_and_read_again(sheet *s) {
    tn_tensor_id x = unary(s, "Neg", in(s)), r = reshape(s, x, 8, 6);
    tn_tensor_id square = binary(s, "Mul", r, r), root = unary(s, "Sqrt", square);
    tn_tensor_id one = unary(s, "Exp", unary(s, "Neg", root));
    tn_tensor_id scaled = binary(s, "Mul", r, one);
    tn_tensor_id back = reshape(s, scaled, 6, 8);
    out(s, "Relu", binary(s, "Add", back, x));
}

/* A branch that computes with what is outside, and one that hands it on. */
static tn_tensor_id branch(sheet *s, tn_tensor_id flag, tn_tensor_id x, const char *type) {
    tn_block_id blocks[2];
    tn_attr attrs[2];
    tn_tensor_id y = make(s, 0, false);
    for (int i = 0; i < 2; i++) {
        assert_ok(tn_graph_add_block(s->graph, i ? "else" : "then", &blocks[i], &failure));
        tn_tensor_id inner = unary_in(s, blocks[i], i ? "Neg" : type, x);
        tn_tensor_id result = unary_in(s, blocks[i], "Relu", inner);
        assert_ok(tn_graph_set_block_io(s->graph, blocks[i], NULL, 0, &result, 1, &failure));
        attrs[i] = block_attr(i ? "else_branch" : "then_branch", blocks[i]);
    }
    tn_op_spec spec = {.type = "If",
                       .name = "if",
                       .version = 17,
                       .inputs = &flag,
                       .input_count = 1,
                       .outputs = &y,
                       .output_count = 1,
                       .attrs = attrs,
                       .attr_count = 2};
    assert_ok(tn_graph_add_op(s->graph, &spec, NULL, &failure));
    return y;
}

static tn_tensor_id flag_of(sheet *s) {
    tn_tensor_id id;
    tn_tensor_spec spec = {.name = "flag", .kind = TN_KIND_INPUT, .dtype = TN_BOOL};
    assert_ok(tn_graph_add_tensor(s->graph, &spec, &id, &failure));
    s->inputs++;
    return id;
}

/* ExecuTorch 21494: two conditionals whose results live at the same time. */
static void two_conditionals(sheet *s) {
    tn_tensor_id x = in(s), flag = flag_of(s);
    tn_tensor_id a = branch(s, flag, x, "Exp"), b = branch(s, flag, x, "Abs");
    out(s, "Relu", binary(s, "Sub", a, b));
    out(s, "Neg", binary(s, "Mul", b, a));
}

/* ONNX Runtime 21019: outputs that nobody reads still need memory while they are written. */
static void outputs_without_readers(sheet *s) {
    tn_tensor_id x = unary(s, "Abs", in(s)), keep = unary(s, "Sqrt", x), halves[2];
    for (int i = 0; i < 2; i++) halves[i] = make(s, 0, false);
    tn_attr axis = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = (int64_t[]){1}};
    tn_op_spec split = {.type = "Split",
                        .name = "split",
                        .version = 17,
                        .inputs = &x,
                        .input_count = 1,
                        .outputs = halves,
                        .output_count = 2,
                        .attrs = &axis,
                        .attr_count = 1};
    assert_ok(tn_graph_add_op(s->graph, &split, NULL, &failure));
    (void)unary(s, "Exp", keep); /* its result is never used */
    out(s, "Neg", halves[1]);
    out(s, "Relu", keep);
}

/* PyTorch 189735: what was written in place through a view, and the view's source. */
static void written_through_a_view(sheet *s) {
    tn_tensor_id x = unary(s, "Neg", in(s)), view = reshape(s, x, 12, 4);
    tn_tensor_id changed = unary(s, "Exp", view); /* may not go over x, which is read below */
    tn_tensor_id more = unary(s, "Sqrt", unary(s, "Abs", changed));
    out(s, "Relu", reshape(s, more, 6, 8));
    out(s, "Abs", x);
}

/* PyTorch 187678: two outputs of the graph that are one memory, and what is computed after. */
static void two_outputs_alike(sheet *s) {
    tn_tensor_id x = unary(s, "Neg", in(s));
    out(s, "Identity", x);
    tn_tensor_id y = make(s, 0, true);
    apply(s->graph, "Reshape", 0, (tn_tensor_id[]){x, numbers(s->graph, (int64_t[]){8, 6}, 2)}, 2,
          &y, 1);
    out(s, "Exp", unary(s, "Abs", x));
}

/* tinygrad 16571: gradients of two losses, through transposed copies; wrong from the second run on.
 */
static void two_backward_passes(sheet *s) {
    tn_tensor_id x = in(s), w = in(s), moved[2], gradient[2];
    tn_tensor_id h = unary(s, "Tanh", binary(s, "Mul", x, w));
    for (int i = 0; i < 2; i++) {
        moved[i] = make(s, 0, false);
        apply(s->graph, "Transpose", 0, &h, 1, &moved[i], 1); /* a fresh buffer each */
        tn_tensor_id loss = binary(s, "Mul", moved[i], moved[i]);
        if (i == 1) loss = binary(s, "Add", loss, loss);
        tn_tensor_id back = make(s, 0, false);
        apply(s->graph, "Transpose", 0, &loss, 1, &back, 1);
        tn_tensor_id slope = binary(s, "Sub", back, binary(s, "Mul", h, h));
        gradient[i] = binary(s, "Mul", slope, i ? w : x);
    }
    out(s, "Neg", binary(s, "Add", gradient[0], gradient[1]));
    out(s, "Neg", gradient[0]);
}

/* NNFusion 200: an operator that could work in place stands before another reader. */
static void in_place_before_a_reader(sheet *s) {
    tn_tensor_id x = unary(s, "Abs", in(s)), changed = unary(s, "Exp", x);
    tn_tensor_id again = unary(s, "Sqrt", x), third = binary(s, "Div", again, changed);
    out(s, "Neg", binary(s, "Add", third, x));
}

/* tilelang-ascend 1156: made once before the loop, read in every turn, beside what a turn makes. */
static void made_before_a_loop(sheet *s) {
    tn_block_id block;
    tn_tensor_id x = in(s), trips, formals[3], results[2], y = make(s, 0, false);
    tn_tensor_spec count = {.name = "trips", .kind = TN_KIND_INPUT, .dtype = TN_INT64};
    assert_ok(tn_graph_add_tensor(s->graph, &count, &trips, &failure));
    s->inputs++;
    tn_tensor_id once = unary(s, "Exp", unary(s, "Neg", unary(s, "Abs", x)));
    assert_ok(tn_graph_add_block(s->graph, "body", &block, &failure));
    tn_tensor_spec turn = {.name = "turn", .dtype = TN_INT64, .block = block};
    tn_tensor_spec go = {.name = "go", .dtype = TN_BOOL, .block = block};
    tn_tensor_spec carried = {
        .name = "x", .dtype = TN_FLOAT32, .rank = 2, .shape = (int64_t[]){6, 8}, .block = block};
    assert_ok(tn_graph_add_tensor(s->graph, &turn, &formals[0], &failure));
    assert_ok(tn_graph_add_tensor(s->graph, &go, &formals[1], &failure));
    assert_ok(tn_graph_add_tensor(s->graph, &carried, &formals[2], &failure));
    tn_tensor_id a = unary_in(s, block, "Sqrt", unary_in(s, block, "Abs", formals[2]));
    tn_tensor_id b = binary_in(s, block, "Mul", a, once);
    results[0] = formals[1];
    results[1] = binary_in(s, block, "Sub", b, unary_in(s, block, "Tanh", once));
    assert_ok(tn_graph_set_block_io(s->graph, block, formals, 3, results, 2, &failure));
    tn_attr body = block_attr("body", block);
    tn_op_spec spec = {.type = "Loop",
                       .name = "loop",
                       .version = 17,
                       .inputs = (tn_tensor_id[]){trips, TN_NONE, x},
                       .input_count = 3,
                       .outputs = &y,
                       .output_count = 1,
                       .attrs = &body,
                       .attr_count = 1};
    assert_ok(tn_graph_add_op(s->graph, &spec, NULL, &failure));
    out(s, "Neg", y);
}

/* --- the judge --- */

typedef struct values {
    float in[3][SIZE];
    uint8_t flag;
    int64_t trips;
    float out[4][SIZE];
    tn_array inputs[4], outputs[4];
} values;

static void values_fill(values *v, const tn_graph *graph, tn__random *random, uint32_t path) {
    const tn_block *block = tn_graph_block(graph, 0);
    memset(v, 0, sizeof *v);
    v->flag = path % 2 == 1;
    v->trips = path;
    for (uint32_t i = 0, plain = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        tn_array *array = &v->inputs[i];
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        for (uint32_t d = 0; d < tensor->rank; d++) array->shape[d] = tensor->shape[d];
        array->data = tensor->dtype == TN_BOOL    ? (void *)&v->flag
                      : tensor->dtype == TN_INT64 ? (void *)&v->trips
                                                  : (void *)v->in[plain];
        for (uint32_t k = 0; k < SIZE && tensor->dtype == TN_FLOAT32; k++)
            v->in[plain][k] = (float)tn__random_below(random, 4001) / 1000 - 2;
        plain += tensor->dtype == TN_FLOAT32;
    }
    for (int k = 0; k < 4; k++)
        v->outputs[k] = (tn_array){.bytes = sizeof v->out[k], .data = v->out[k]};
}

static void judge(void (*write)(sheet *)) {
    static const setting settings[] = {
        {.naive = true},
        {.poison = true},
        {.order = "memory", .poison = true},
        {.planner = "best-fit", .poison = true},
        {.no_views = true, .poison = true},
        {.fuse = true, .poison = true},
        {.statics = TN_STATIC_ARENA, .poison = true},
        {.pool = "best-fit", .poison = true},
        {.pool = "caching"},
    };
    sheet s = {0};
    values expected[8];
    assert_ok(tn_graph_create(NULL, &s.graph, &failure));
    write(&s);
    assert_ok(tn_graph_infer(s.graph, &failure));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        rig r;
        assert_ok(rig_make(&r, s.graph, &settings[i], &failure));
        for (uint32_t path = 0; path < 8; path++) { /* four ways, each twice */
            values now;
            tn__random random = {.state = 7};
            values_fill(&now, s.graph, &random, path % 4);
            assert_ok(
                tn_engine_run(r.engine, now.inputs, s.inputs, now.outputs, s.outputs, &failure));
            if (i == 0) expected[path] = now;
            for (uint32_t k = 0; k < s.outputs; k++)
                if (memcmp(now.out[k], expected[path].out[k], now.outputs[k].bytes) != 0)
                    fail_msg("setting %zu, path %u: output %u differs\n", i, path, k);
        }
        rig_release(&r);
    }
    tn_graph_destroy(s.graph);
}

#define CASE(name)                                                                                 \
    static void name##_is_right(void **state) {                                                    \
        (void)state;                                                                               \
        judge(name);                                                                               \
    }
CASE(reshaped_and_read_again)
CASE(two_conditionals)
CASE(outputs_without_readers)
CASE(written_through_a_view)
CASE(two_outputs_alike)
CASE(two_backward_passes)
CASE(in_place_before_a_reader)
CASE(made_before_a_loop)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshaped_and_read_again_is_right),
        cmocka_unit_test(two_conditionals_is_right),
        cmocka_unit_test(outputs_without_readers_is_right),
        cmocka_unit_test(written_through_a_view_is_right),
        cmocka_unit_test(two_outputs_alike_is_right),
        cmocka_unit_test(two_backward_passes_is_right),
        cmocka_unit_test(in_place_before_a_reader_is_right),
        cmocka_unit_test(made_before_a_loop_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
