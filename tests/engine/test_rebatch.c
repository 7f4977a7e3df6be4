/* test_rebatch.c - a batch that is written into the constants of a model: it is given another, and
 * the model then computes for each sample what it computed for one; or it is refused.
 */
#include <math.h>
#include <stdio.h>

#include "import/proto.h"

#include <tenure/run.h>

#include "base/base.h"
#include "support.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

static char told[600];
static void hear(void *self, const char *line) {
    (void)self;
    snprintf(told, sizeof told, "%s", line);
}

static tn_status load(const proto *model, int64_t batch, tn_graph **graph) {
    tn_context context = {.struct_size = sizeof context, .log = hear};
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    options.context = &context;
    options.batch = batch;
    told[0] = '\0';
    return tn_graph_load_memory("x.onnx", model->data, model->size, &options, graph, &failure);
}

static void put_shape(proto *graph, const char *name, const int64_t *extents, uint32_t count) {
    char dims[24];
    snprintf(dims, sizeof dims, "%u", count);
    proto_sub(graph, GRAPH_INITIALIZER, onnx_tensor(name, INT64, dims, extents, 8 * (size_t)count));
}

static void words(char *text, size_t room, const int64_t *extents, uint32_t count) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t d = 0; d < count && used + 24 < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d > 0 ? "," : "",
                                 (long long)extents[d]);
}

static uint32_t numbers(const char *text, int64_t *extents) {
    uint32_t count = 0;
    for (char *end = (char *)(uintptr_t)text; *end != '\0'; end += *end == ',')
        extents[count++] = strtoll(end, &end, 10);
    return count;
}

/* x of `input` is turned by `turn` (empty: as it is), reshaped to `target`. */
static proto one_reshape(const char *input, const char *turn, const char *target) {
    int64_t extents[8];
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, input));
    if (*turn != '\0') {
        proto node = onnx_node("Transpose", "t", "x", "z"), perm = onnx_attr("perm", 7);
        uint32_t count = numbers(turn, extents);
        for (uint32_t d = 0; d < count; d++) proto_int(&perm, 8, extents[d]);
        proto_sub(&node, NODE_ATTRIBUTE, perm);
        proto_sub(&graph, GRAPH_NODE, node);
    }
    proto_sub(&graph, GRAPH_NODE, onnx_node("Reshape", "r", *turn ? "z,s" : "x,s", "y"));
    put_shape(&graph, "s", extents, numbers(target, extents));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, NULL));
    return onnx_model(graph);
}

static void the_batch_goes_where_the_order_of_elements_takes_it(void **state) {
    (void)state;
    static const struct {
        const char *input, *turn, *target;
        int64_t batch;
        const char *output; /* NULL: refused */
    } rows[] = {
        {"1,6,8", "", "1,48", 3, "3,48"},         /* flattened */
        {"1,6,8", "", "1,-1", 3, "3,48"},         /* which would swallow the batch */
        {"1,6,8", "", "-1,48", 3, "3,48"},        /* follows by itself */
        {"1,6,8", "", "0,2,24", 3, "3,2,24"},     /* so does this */
        {"1,6,8", "", "6,8", 3, "18,8"},          /* samples one behind the other */
        {"1,6,8", "", "-1,8", 3, "18,8"},         /* */
        {"1,6,8", "", "1,6,2,4", 5, "5,6,2,4"},   /* heads */
        {"1,6,8", "", "1,-1,2,4", 5, "5,6,2,4"},  /* */
        {"1,6,8", "1,0,2", "6,2,4", 3, "6,6,4"},  /* tokens first: heads and batch are merged */
        {"1,6,8", "1,0,2", "6,-1,4", 3, "6,6,4"}, /* */
        {"1,6,8", "1,0,2", "6,1,8", 3, "6,3,8"},  /* as it was */
        {"1,6,8", "1,2,0", "48,1", 3, "48,3"},    /* the batch last */
        {"1,6,8", "1,2,0", "2,3,8,1", 3, "2,3,8,3"},
        {"4,6,8", "", "4,48", 6, "6,48"},
        {"4,6,8", "", "24,8", 6, "36,8"},
        {"4,6,8", "", "2,2,48", 6, NULL},      /* a batch in two extents */
        {"1,6,8", "", "1,1,48", 3, "3,1,48"},  /* it stays where it was */
        {"1,6,8", "1,0,2", "1,1,48", 3, NULL}, /* 6 blocks before it have no place there */
        {"1,6,8", "1,2,0", "6,8,1,1", 3, "6,8,3,1"},
        {"1,6,8", "1,0,2", "6,8,1", 3, "6,24,1"}, /* no extent of its own */
        {"1,6,8", "2,1,0", "48,1,1", 3, "48,1,3"},
        {"1,6,8", "1,0,2", "2,3,1,1,8", 3, NULL}, /* which of the two? */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        proto model = one_reshape(rows[i].input, rows[i].turn, rows[i].target);
        tn_graph *graph;
        char shape[200] = "refused";
        tn_status status = load(&model, rows[i].batch, &graph);
        if (status == TN_OK) {
            const tn_tensor *y = tn_graph_tensor(graph, tn_graph_find(graph, "y"));
            words(shape, sizeof shape, y->shape, y->rank);
            tn_graph_destroy(graph);
        } else {
            assert_int_equal(status, TN_E_INVALID);
            assert_non_null(strstr(failure.message, "dynamic_axes"));
        }
        if (strcmp(shape, rows[i].output != NULL ? rows[i].output : "refused") != 0)
            fail_msg("row %zu: %s -> %s\n", i, rows[i].target, shape);
        free(model.data);
    }
}

/* A constant that two operators read is changed for each by itself; what is told counts them. */
static void a_constant_that_is_shared_is_changed_for_each(void **state) {
    (void)state;
    static const int64_t extents[] = {1, 12};
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "1,3,4"));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("w", FLOAT, "12", NULL, 0));
    put_shape(&graph, "s", extents, 2);
    proto_sub(&graph, GRAPH_NODE, onnx_node("Reshape", "flat", "x,s", "a"));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Reshape", "row", "w,s", "b"));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Add", "sum", "a,b", "y"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, "1,12"));
    proto model = onnx_model(graph);
    tn_graph *made;
    assert_ok(load(&model, 7, &made));
    assert_int_equal(tn_graph_tensor(made, tn_graph_find(made, "a"))->shape[0], 7);
    assert_int_equal(tn_graph_tensor(made, tn_graph_find(made, "b"))->shape[0], 1);
    assert_int_equal(tn_graph_tensor(made, tn_graph_find(made, "y"))->shape[0], 7);
    assert_non_null(strstr(told, "in 1 shape ([1,12] of 'flat')"));
    tn_graph_destroy(made);
    assert_ok(load(&model, 1, &made)); /* the file's own */
    assert_string_equal(told, "");
    tn_graph_destroy(made);
    free(model.data);
}

/* Slices with numbers of the file's batch take that many samples, whatever there are. */
static void what_takes_a_batch_out_is_refused(void **state) {
    (void)state;
    static const int64_t zero[] = {0}, two[] = {2}, one[] = {1};
    for (uint32_t axis = 0; axis < 2; axis++) {
        proto graph = {0};
        tn_graph *made;
        proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "2,3,4"));
        put_shape(&graph, "from", zero, 1);
        put_shape(&graph, "to", two, 1);
        put_shape(&graph, "axis", axis > 0 ? one : zero, 1);
        proto_sub(&graph, GRAPH_NODE, onnx_node("Slice", "cut", "x,from,to,axis", "y"));
        proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, NULL));
        proto model = onnx_model(graph);
        tn_status status = load(&model, 5, &made);
        assert_int_equal(status, axis > 0 ? TN_OK : TN_E_INVALID);
        if (status == TN_OK)
            tn_graph_destroy(made);
        else
            assert_non_null(strstr(failure.message, "a batch of 2 out of 'x'"));
        free(model.data);
    }
}

/* --- run --- */

#define RANK_MOST 5u

typedef struct chain { /* of reshapes and transposes, for a batch of 1 */
    proto graph;
    int64_t shape[RANK_MOST];
    uint32_t rank, nodes;
} chain;

static uint64_t below(tn__random *random, uint64_t bound) {
    return tn__random_below(random, bound);
}

/* Other extents for the same elements: a few cut in two, a few neighbours put together. */
static void chain_reshape(chain *it, tn__random *random) {
    int64_t next[2 * RANK_MOST], target[RANK_MOST];
    uint32_t count = 0;
    char name[16], nodes[40], out[16];
    for (uint32_t d = 0; d < it->rank; d++) {
        int64_t extent = it->shape[d], part = 1 + (int64_t)below(random, 4);
        bool cuts = below(random, 3) == 0 && extent % part == 0 && count + 2 < RANK_MOST;
        bool joins = !cuts && count > 0 && below(random, 4) == 0;
        if (joins)
            next[count - 1] *= extent;
        else if (cuts) {
            next[count++] = part;
            next[count++] = extent / part;
        } else
            next[count++] = extent;
    }
    if (count > RANK_MOST) return;
    for (uint32_t d = 0; d < count; d++) target[d] = next[d];
    if (below(random, 3) == 0) target[below(random, count)] = -1;
    snprintf(name, sizeof name, "s%u", it->nodes);
    put_shape(&it->graph, name, target, count);
    snprintf(nodes, sizeof nodes, "v%u,s%u", it->nodes, it->nodes);
    snprintf(out, sizeof out, "v%u", it->nodes + 1);
    proto_sub(&it->graph, GRAPH_NODE, onnx_node("Reshape", name, nodes, out));
    memcpy(it->shape, next, count * sizeof *next);
    it->rank = count;
    it->nodes++;
}

static void chain_turn(chain *it, tn__random *random) {
    int64_t before[RANK_MOST];
    char in[16], out[16];
    uint32_t order[RANK_MOST];
    for (uint32_t d = 0; d < it->rank; d++) order[d] = d;
    for (uint32_t d = it->rank; d > 1; d--) {
        uint32_t other = (uint32_t)below(random, d), kept = order[d - 1];
        order[d - 1] = order[other];
        order[other] = kept;
    }
    snprintf(in, sizeof in, "v%u", it->nodes);
    snprintf(out, sizeof out, "v%u", it->nodes + 1);
    proto node = onnx_node("Transpose", out, in, out), perm = onnx_attr("perm", 7);
    memcpy(before, it->shape, sizeof before);
    for (uint32_t d = 0; d < it->rank; d++) {
        proto_int(&perm, 8, order[d]);
        it->shape[d] = before[order[d]];
    }
    proto_sub(&node, NODE_ATTRIBUTE, perm);
    proto_sub(&it->graph, GRAPH_NODE, node);
    it->nodes++;
}

static proto chain_make(tn__random *random) {
    chain it = {.shape = {1, 6, 8}, .rank = 3};
    proto_sub(&it.graph, GRAPH_INPUT, onnx_value("v0", FLOAT, "1,6,8"));
    uint32_t steps = 1 + (uint32_t)below(random, 5);
    for (uint32_t i = 0; i < steps; i++) {
        chain_reshape(&it, random);
        if (below(random, 2) == 0) chain_turn(&it, random);
    }
    char last[16];
    snprintf(last, sizeof last, "v%u", it.nodes);
    proto_sub(&it.graph, GRAPH_NODE, onnx_node("Neg", "neg", last, "y"));
    proto_sub(&it.graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, NULL));
    return onnx_model(it.graph);
}

static tn_status read_known(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                            uint64_t size, tn_error *error) {
    (void)self;
    const tn_value *value = tn_graph_tensor(graph, id)->value;
    if (tn_graph_tensor(graph, id)->dtype == TN_FLOAT32) { /* weights: any will do */
        for (uint64_t i = 0; i < size / 4; i++)
            ((float *)bytes)[i] = (float)((i * 7 + 3 + id) % 11) / 4 - 1;
        return TN_OK;
    }
    if (value == NULL || value->ints == NULL || size != 8 * (uint64_t)value->count)
        return tn__fail(error, TN_E_INVALID, "no contents");
    memcpy(bytes, value->ints, size);
    return TN_OK;
}

/* y of x; `shape` and `rank`: of y */
static void run(const tn_graph *graph, const float *x, uint64_t count, float *y, int64_t *shape,
                uint32_t *rank) {
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_session *session;
    options.plain = true;
    options.read = read_known;
    assert_ok(tn_session_open(graph, &options, &session, &failure));
    tn_array *in = tn_session_array(session, tn_graph_find(graph, "v0"));
    tn_array *out = tn_session_array(session, tn_graph_find(graph, "y"));
    assert_int_equal(in->bytes, 4 * count);
    assert_int_equal(out->bytes, 4 * count);
    memcpy(in->data, x, 4 * count);
    assert_ok(tn_session_run(session, &failure));
    memcpy(y, out->data, 4 * count);
    *rank = out->rank;
    for (uint32_t d = 0; d < out->rank; d++) shape[d] = out->shape[d];
    tn_session_close(session);
}

#define SAMPLE 48u
#define SAMPLES_MOST 5u

/* Whether sample s of a batch lies in y as the slowest, or as the fastest part of the axis that
 * grew. */
static bool is_there(const float *all, const int64_t *shape, const float *one, const int64_t *small,
                     uint32_t rank, uint64_t sample, bool fastest) {
    uint32_t axis = 0;
    uint64_t after = 1;
    while (axis + 1 < rank && shape[axis] == small[axis]) axis++;
    for (uint32_t d = axis + 1; d < rank; d++) after *= (uint64_t)shape[d];
    uint64_t part = fastest ? after : after * (uint64_t)small[axis];
    uint64_t batch = (uint64_t)(shape[axis] / small[axis]);
    for (uint64_t i = 0; i < SAMPLE; i++)
        if (all[i / part * part * batch + sample * part + i % part] != one[i]) return false;
    return true;
}

static void each_sample_becomes_what_it_became_alone(void **state) {
    (void)state;
    tn__random random = {.state = 31};
    uint32_t runs = 0, changed = 0, refused = 0;
    print_message("seed 31\n");
    for (uint32_t trial = 0; trial < 400; trial++) {
        proto model = chain_make(&random);
        int64_t batch = 2 + (int64_t)below(&random, SAMPLES_MOST - 1);
        float x[SAMPLE * SAMPLES_MOST], all[SAMPLE * SAMPLES_MOST], one[SAMPLE];
        int64_t shape[TN_RANK_MAX], small[TN_RANK_MAX];
        uint32_t rank, small_rank;
        tn_graph *alone, *graph;
        assert_ok(load(&model, 0, &alone));
        tn_status status = load(&model, batch, &graph);
        refused += status == TN_E_INVALID;
        if (status == TN_OK) {
            changed += told[0] != '\0';
            runs++;
            for (uint32_t i = 0; i < SAMPLE * (uint32_t)batch; i++) x[i] = (float)(i + 1);
            run(graph, x, SAMPLE * (uint64_t)batch, all, shape, &rank);
            bool slow = true, fast = true;
            for (uint64_t s = 0; s < (uint64_t)batch; s++) {
                run(alone, x + s * SAMPLE, SAMPLE, one, small, &small_rank);
                assert_int_equal(rank, small_rank);
                slow = slow && is_there(all, shape, one, small, rank, s, false);
                fast = fast && is_there(all, shape, one, small, rank, s, true);
            }
            if (!slow && !fast) fail_msg("trial %u: samples are mixed\n", trial);
            tn_graph_destroy(graph);
        }
        tn_graph_destroy(alone);
        free(model.data);
    }
    print_message("%u run, %u of them changed; %u refused\n", runs, changed, refused);
    assert_true(runs > 100 && changed > 80 && refused > 0);
}

/* --- what is written as exporters do --- */

static void put_turn(proto *graph, const char *in, const char *out, uint32_t first, uint32_t second,
                     uint32_t third) {
    proto node = onnx_node("Transpose", out, in, out), perm = onnx_attr("perm", 7);
    proto_int(&perm, 8, first);
    proto_int(&perm, 8, second);
    proto_int(&perm, 8, third);
    proto_sub(&node, NODE_ATTRIBUTE, perm);
    proto_sub(graph, GRAPH_NODE, node);
}

static void put_reshape(proto *graph, const char *type, const char *in, const char *out,
                        const char *target) {
    char shape[24], operands[64];
    int64_t extents[8];
    snprintf(shape, sizeof shape, "%s.shape", out);
    snprintf(operands, sizeof operands, "%s,%s", in, shape);
    put_shape(graph, shape, extents, numbers(target, extents));
    proto_sub(graph, GRAPH_NODE, onnx_node(type, out, operands, out));
}

/* v0 [1,6,8] behind a class token, with the tokens outermost for two heads, and together with the
 * batch for a matrix; the token is left off again. `flat`: how that is written. */
static proto attention(const char *flat, bool gemm) {
    static const int64_t one[] = {1}, seven[] = {7};
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("v0", FLOAT, "1,6,8"));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("token", FLOAT, "1,1,8", NULL, 0));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("w", FLOAT, "8,8", NULL, 0));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("b", FLOAT, "8", NULL, 0));
    put_shape(&graph, "one", one, 1);
    put_shape(&graph, "seven", seven, 1);
    put_reshape(&graph, "Expand", "token", "first", "1,1,8");
    proto join = onnx_node("Concat", "join", "first,v0", "all"), axis = onnx_attr("axis", 2);
    proto_int(&axis, 3, 1);
    proto_sub(&join, NODE_ATTRIBUTE, axis);
    proto_sub(&graph, GRAPH_NODE, join);
    put_turn(&graph, "all", "tokens", 1, 0, 2);
    put_reshape(&graph, "Reshape", "tokens", "heads", "7,2,4");
    put_turn(&graph, "heads", "heads_first", 1, 0, 2);
    proto_sub(&graph, GRAPH_NODE, onnx_node("Softmax", "soft", "heads_first", "soft"));
    put_turn(&graph, "soft", "back", 1, 0, 2);
    put_reshape(&graph, "Reshape", "back", "flat", flat);
    if (gemm)
        proto_sub(&graph, GRAPH_NODE, onnx_node("Gemm", "gemm", "flat,w,b", "sum"));
    else {
        proto_sub(&graph, GRAPH_NODE, onnx_node("MatMul", "product", "flat,w", "product"));
        proto_sub(&graph, GRAPH_NODE, onnx_node("Add", "sum", "b,product", "sum"));
    }
    put_reshape(&graph, "Reshape", "sum", "apart", "7,1,8");
    put_turn(&graph, "apart", "samples", 1, 0, 2);
    proto_sub(&graph, GRAPH_NODE, onnx_node("Slice", "cut", "samples,one,seven,one", "y"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, NULL));
    return onnx_model(graph);
}

static void attention_of_many_is_that_of_each(void **state) {
    (void)state;
    static const char *const flats[] = {"7,8", "-1,8", "7,-1", "-1,8"};
    for (uint32_t trial = 0; trial < 8; trial++) {
        proto model = attention(flats[trial / 2], trial % 2);
        float x[3 * SAMPLE], all[3 * SAMPLE], one[SAMPLE];
        int64_t shape[TN_RANK_MAX], small[TN_RANK_MAX];
        uint32_t rank;
        tn_graph *alone, *graph;
        assert_ok(load(&model, 0, &alone));
        assert_ok(load(&model, 3, &graph));
        for (uint32_t i = 0; i < 3 * SAMPLE; i++) x[i] = (float)(i * 13 % 31) / 8;
        run(graph, x, 3 * (uint64_t)SAMPLE, all, shape, &rank);
        for (uint32_t s = 0; s < 3; s++) {
            run(alone, x + s * SAMPLE, SAMPLE, one, small, &rank);
            for (uint32_t i = 0; i < SAMPLE; i++)
                if (fabsf(all[s * SAMPLE + i] - one[i]) > 1e-5F)
                    fail_msg("%s, sample %u, element %u\n", flats[trial / 2], s, i);
        }
        tn_graph_destroy(graph);
        tn_graph_destroy(alone);
        free(model.data);
    }
}

/* Sizes of a Resize, an Expand of what has a batch, zeros for a recurrent state. */
static void shapes_that_are_written_out_follow(void **state) {
    (void)state;
    static const struct {
        const char *type, *target, *input;
        int64_t batch;
        const char *output;
    } rows[] = {
        {"Resize", "1,2,8,12", "1,2,4,6", 5, "5,2,8,12"},
        {"Resize", "2,2,8,12", "2,2,4,6", 3, "3,2,8,12"},
        {"Expand", "1,2,4,6", "1,1,4,6", 5, "5,2,4,6"},
        {"Expand", "3,2,4,6", "3,1,4,6", 5, "5,2,4,6"},
        {"Expand", "2,4,6", "3,1,4,6", 5, "5,2,4,6"},
        {"LSTM", "1,1,3", "1,7,4", 5, "7,1,5,3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t extents[8];
        char shape[100];
        bool sizes = strcmp(rows[i].type, "Resize") == 0;
        bool recurs = strcmp(rows[i].type, "LSTM") == 0;
        proto graph = {0};
        proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, rows[i].input));
        put_shape(&graph, "s", extents, numbers(rows[i].target, extents));
        proto node = onnx_node(rows[i].type, "n", sizes ? "x,,,s" : "x,s", "y");
        if (recurs) {
            proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("w", FLOAT, "1,12,4", NULL, 0));
            proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("r", FLOAT, "1,12,3", NULL, 0));
            proto_sub(&graph, GRAPH_NODE, onnx_node("ConstantOfShape", "zeros", "s", "h"));
            put_turn(&graph, "x", "steps", 1, 0, 2);
            free(node.data);
            node = onnx_node("LSTM", "n", "steps,w,r,,,h,h", "y");
            proto hidden = onnx_attr("hidden_size", 2);
            proto_int(&hidden, 3, 3);
            proto_sub(&node, NODE_ATTRIBUTE, hidden);
        }
        proto_sub(&graph, GRAPH_NODE, node);
        proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, NULL));
        proto model = onnx_model(graph);
        tn_graph *made;
        tn_status status = load(&model, rows[i].batch, &made);
        if (status != TN_OK) fail_msg("row %zu: %s: %s\n", i, failure.where, failure.message);
        const tn_tensor *y = tn_graph_tensor(made, tn_graph_find(made, "y"));
        words(shape, sizeof shape, y->shape, y->rank);
        if (strcmp(shape, rows[i].output) != 0) fail_msg("row %zu: %s\n", i, shape);
        tn_graph_destroy(made);
        free(model.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_batch_goes_where_the_order_of_elements_takes_it),
        cmocka_unit_test(a_constant_that_is_shared_is_changed_for_each),
        cmocka_unit_test(what_takes_a_batch_out_is_refused),
        cmocka_unit_test(each_sample_becomes_what_it_became_alone),
        cmocka_unit_test(attention_of_many_is_that_of_each),
        cmocka_unit_test(shapes_that_are_written_out_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
