/* random_graph.h - small random graphs with all that can go wrong with memory: chains in place,
 * views of parts, concatenations of views, branches and loops that read what is outside.
 *
 * All tensors are vectors of one element type (GRAPH_DTYPE, uint8 unless defined before) and, but
 * for halves, of one length. Inputs: two vectors, a bool for the branches, an int64 with the turns
 * of the loops.
 */
#ifndef TN_TESTS_RANDOM_GRAPH_H
#define TN_TESTS_RANDOM_GRAPH_H

#include "support.h"

#include <tenure/graph.h>

#include "base/base.h"

#ifndef GRAPH_DTYPE
#define GRAPH_DTYPE TN_UINT8
#endif

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* --- graphs by hand --- */

static tn_tensor_id vector(tn_graph *graph, const char *name, tn_kind kind, int64_t size,
                           tn_block_id block) {
    tn_tensor_id id;
    tn_tensor_spec spec = {.name = name, .kind = kind, .block = block};
    if (size >= 0) {
        spec.dtype = GRAPH_DTYPE;
        spec.rank = 1;
        spec.shape = &size;
    }
    assert_ok(tn_graph_add_tensor(graph, &spec, &id, &failure));
    return id;
}

static tn_tensor_id numbers(tn_graph *graph, const int64_t *values, uint32_t count) {
    tn_tensor_id id;
    int64_t size = count;
    tn_tensor_spec spec = {.name = "c",
                           .kind = TN_KIND_CONSTANT,
                           .dtype = TN_INT64,
                           .rank = 1,
                           .shape = &size,
                           .value = {.count = count, .ints = values}};
    assert_ok(tn_graph_add_tensor(graph, &spec, &id, &failure));
    return id;
}

static void apply(tn_graph *graph, const char *type, tn_block_id block, const tn_tensor_id *inputs,
                  uint32_t input_count, const tn_tensor_id *outputs, uint32_t output_count) {
    tn_op_spec spec = {.type = type,
                       .name = type,
                       .block = block,
                       .version = 17,
                       .inputs = inputs,
                       .input_count = input_count,
                       .outputs = outputs,
                       .output_count = output_count};
    assert_ok(tn_graph_add_op(graph, &spec, NULL, &failure));
}

/* --- random graphs --- */

#define POOL_MAX 64u

typedef struct maker {
    tn_graph *graph;
    tn__random random;
    tn_tensor_id pool[POOL_MAX]; /* tensors that may be read, all of `size` bytes */
    uint32_t count;
    int64_t size;
} maker;

static tn_tensor_id pick(maker *m) { return m->pool[tn__random_below(&m->random, m->count)]; }

static tn_tensor_id slice_of(maker *m, tn_block_id block, tn_tensor_id whole, int64_t from) {
    tn_tensor_id half = vector(m->graph, "half", TN_KIND_ACTIVATION, -1, block);
    int64_t to = from + m->size / 2;
    tn_tensor_id slice[3] = {whole, numbers(m->graph, &from, 1), numbers(m->graph, &to, 1)};
    apply(m->graph, "Slice", block, slice, 3, &half, 1);
    return half;
}

static void join(maker *m, tn_block_id block, const tn_tensor_id *parts, uint32_t count,
                 tn_tensor_id out) {
    tn_attr axis = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = (int64_t[]){0}};
    tn_op_spec spec = {.type = "Concat",
                       .name = "join",
                       .block = block,
                       .version = 17,
                       .inputs = parts,
                       .input_count = count,
                       .outputs = &out,
                       .output_count = 1,
                       .attrs = &axis,
                       .attr_count = 1};
    assert_ok(tn_graph_add_op(m->graph, &spec, NULL, &failure));
}

/* Half a tensor: a view of one, worked on in place perhaps, or in memory of its own. */
static tn_tensor_id make_half(maker *m, tn_block_id block, tn_tensor_id whole, int number) {
    int64_t middle = m->size / 2;
    uint64_t how = tn__random_below(&m->random, 4);
    tn_tensor_id part = slice_of(m, block, whole, how == 0 ? 1 : number * middle), made;
    if (how < 2) return part;
    made = vector(m->graph, "part", TN_KIND_ACTIVATION, -1, block);
    if (how == 2) apply(m->graph, "Relu", block, &part, 1, &made, 1);
    if (how == 3)
        apply(m->graph, "CumSum", block,
              (tn_tensor_id[]){part, numbers(m->graph, (int64_t[]){0}, 1)}, 2, &made, 1);
    return made;
}

static void make_op(maker *m, tn_block_id block) {
    char name[16];
    snprintf(name, sizeof name, "t%u", tn_graph_tensor_count(m->graph));
    tn_tensor_id out = vector(m->graph, name, TN_KIND_ACTIVATION, -1, block),
                 in[2] = {pick(m), pick(m)};
    uint64_t kind = tn__random_below(&m->random, 8);
    if (kind == 0) apply(m->graph, "Relu", block, in, 1, &out, 1);
    if (kind == 1) apply(m->graph, "Max", block, in, 2, &out, 1);
    if (kind == 2) apply(m->graph, "Identity", block, in, 1, &out, 1);
    if (kind == 3) {
        tn_tensor_id list[2] = {in[0], numbers(m->graph, &m->size, 1)};
        apply(m->graph, "Reshape", block, list, 2, &out, 1);
    }
    if (kind == 4)
        apply(m->graph, "CumSum", block,
              (tn_tensor_id[]){in[0], numbers(m->graph, (int64_t[]){0}, 1)}, 2, &out, 1);
    if (kind == 5) { /* a part of it, then whole again by joining it with itself */
        int64_t from = (int64_t)tn__random_below(&m->random, (uint64_t)m->size / 2);
        tn_tensor_id half = slice_of(m, block, in[0], from), twice[2] = {half, half};
        join(m, block, twice, 2, out);
    }
    if (kind > 5) {
        tn_tensor_id parts[2];
        for (int i = 0; i < 2; i++) parts[i] = make_half(m, block, i == 0 ? in[0] : in[1], i);
        if (tn__random_below(&m->random, 8) == 0) parts[1] = parts[0];
        join(m, block, parts, 2, out);
    }
    if (m->count < POOL_MAX) m->pool[m->count++] = out;
}

static tn_attr block_attr(const char *name, tn_block_id block) {
    return (tn_attr){.name = name, .type = TN_ATTR_BLOCK, .count = 1, .block = block};
}

/* If(flag): each branch computes from what is outside and returns one tensor. */
static void make_branch(maker *m, tn_tensor_id flag) {
    tn_block_id blocks[2];
    tn_tensor_id out = vector(m->graph, "if", TN_KIND_ACTIVATION, -1, 0);
    uint32_t outside = m->count;
    for (int i = 0; i < 2; i++) {
        assert_ok(tn_graph_add_block(m->graph, i ? "else" : "then", &blocks[i], &failure));
        uint64_t ops = tn__random_below(&m->random, 4); /* none: the result comes from outside */
        for (uint64_t k = 0; k < ops; k++) make_op(m, blocks[i]);
        tn_tensor_id result = m->pool[m->count - 1];
        assert_ok(tn_graph_set_block_io(m->graph, blocks[i], NULL, 0, &result, 1, &failure));
        m->count = outside;
    }
    tn_attr attrs[2] = {block_attr("then_branch", blocks[0]), block_attr("else_branch", blocks[1])};
    tn_op_spec spec = {.type = "If",
                       .name = "if",
                       .version = 17,
                       .inputs = &flag,
                       .input_count = 1,
                       .outputs = &out,
                       .output_count = 1,
                       .attrs = attrs,
                       .attr_count = 2};
    assert_ok(tn_graph_add_op(m->graph, &spec, NULL, &failure));
    m->pool[m->count++] = out;
}

/* Loop(count, , x): x changes every turn, with the help of what is outside. */
static void make_loop(maker *m, tn_tensor_id trips) {
    tn_block_id block;
    uint32_t outside = m->count;
    tn_tensor_id out = vector(m->graph, "loop", TN_KIND_ACTIVATION, -1, 0);
    tn_tensor_id inputs[3] = {trips, TN_NONE, pick(m)}, formals[3], results[2];
    assert_ok(tn_graph_add_block(m->graph, "body", &block, &failure));
    tn_tensor_spec turn = {.name = "turn", .dtype = TN_INT64, .block = block};
    tn_tensor_spec go = {.name = "go", .dtype = TN_BOOL, .block = block};
    assert_ok(tn_graph_add_tensor(m->graph, &turn, &formals[0], &failure));
    assert_ok(tn_graph_add_tensor(m->graph, &go, &formals[1], &failure));
    formals[2] = vector(m->graph, "x", TN_KIND_ACTIVATION, m->size, block);
    m->pool[m->count++] = formals[2];
    for (int k = 0; k < 3; k++) make_op(m, block);
    results[0] = formals[1];
    results[1] = m->pool[m->count - 1];
    assert_ok(tn_graph_set_block_io(m->graph, block, formals, 3, results, 2, &failure));
    m->count = outside;
    tn_attr attr = block_attr("body", block);
    tn_op_spec spec = {.type = "Loop",
                       .name = "loop",
                       .version = 17,
                       .inputs = inputs,
                       .input_count = 3,
                       .outputs = &out,
                       .output_count = 1,
                       .attrs = &attr,
                       .attr_count = 1};
    assert_ok(tn_graph_add_op(m->graph, &spec, NULL, &failure));
    m->pool[m->count++] = out;
}

static inline tn_graph *random_graph(uint64_t seed, bool control) {
    maker m = {.random = {.state = seed}, .size = 8};
    assert_ok(tn_graph_create(NULL, &m.graph, &failure));
    m.pool[m.count++] = vector(m.graph, "in", TN_KIND_INPUT, m.size, 0);
    m.pool[m.count++] = vector(m.graph, "in2", TN_KIND_INPUT, m.size, 0);
    tn_tensor_id flag, trips;
    tn_tensor_spec boolean = {.name = "flag", .kind = TN_KIND_INPUT, .dtype = TN_BOOL};
    tn_tensor_spec integer = {.name = "trips", .kind = TN_KIND_INPUT, .dtype = TN_INT64};
    assert_ok(tn_graph_add_tensor(m.graph, &boolean, &flag, &failure));
    assert_ok(tn_graph_add_tensor(m.graph, &integer, &trips, &failure));
    for (int i = 0; i < 8; i++) {
        make_op(&m, 0);
        if (control && i % 4 == 1) make_branch(&m, flag);
        if (control && i % 4 == 3) make_loop(&m, trips);
    }
    for (int i = 0; i < 2; i++) {
        tn_tensor_id out = vector(m.graph, "out", TN_KIND_OUTPUT, -1, 0), in = pick(&m);
        apply(m.graph, i ? "Identity" : "Relu", 0, &in, 1, &out, 1);
    }
    return m.graph;
}

#endif
