/* gradients_attention.c - operators that training decomposes: attention, positions, gated
 * activations, normalisations of a sum. Beside their gradients: the decomposed operators compute
 * what the operator itself computes, whose kernels node_tests and bench hold against ONNX Runtime.
 */
#include "gradients.h"

/* --- operators of ONNX Runtime --- */

static void contrib_ops(net *n, const char *type, uint32_t input_count, const tn_tensor_id *inputs,
                        uint32_t output_count, tn_tensor_id *outputs) {
    for (uint32_t k = 0; k < output_count; k++)
        if (k == 0 || k == 3)
            outputs[k] =
                net_tensor(n, type, TN_KIND_ACTIVATION, TN_UNDEFINED, TN_RANK_UNKNOWN, NULL);
        else
            outputs[k] = TN_NONE;
    tn_op_spec spec = {.name = type,
                       .type = type,
                       .domain = "com.microsoft",
                       .version = 1,
                       .inputs = inputs,
                       .input_count = input_count,
                       .outputs = outputs,
                       .output_count = output_count,
                       .attrs = n->attrs,
                       .attr_count = n->attr_count};
    net_ok(n, tn_graph_add_op(n->graph, &spec, NULL, &n->error));
    n->attr_count = 0;
}

static tn_tensor_id contrib_op(net *n, const char *type, uint32_t input_count,
                               const tn_tensor_id *inputs) {
    tn_tensor_id y;
    contrib_ops(n, type, input_count, inputs, 1, &y);
    return y;
}

/* --- Attention --- */

typedef struct extents {
    int64_t batch, heads, groups, queries, keys, past, size, value_size;
    bool flat;
} extents;

static tn_tensor_id draw_operand(net *n, const extents *e, int64_t heads, int64_t length,
                                 int64_t size) {
    shape flat = {.rank = 3, .extent = {e->batch, length, heads * size}};
    shape whole = {.rank = 4, .extent = {e->batch, heads, length, size}};
    return param(n, 0, 1, e->flat ? &flat : &whole);
}

/* Every second time of booleans, else of numbers: some of them -inf, or all of them trained. */
static tn_tensor_id draw_mask(net *n, const extents *e) {
    shape s = {.rank = 4,
               .extent = {draw(n, 0, 1) ? 1 : e->batch, draw(n, 0, 1) ? 1 : e->heads,
                          draw(n, 0, 1) ? 1 : e->queries, e->past + e->keys}};
    int64_t kind = draw(n, 0, 2);
    if (kind == 0) return param(n, 0, 1, &s);
    tn_tensor_id numbers = net_numbers(n, "mask", 3, s.rank, s.extent);
    net_attr_int(n, "to", TN_BOOL);
    tn_tensor_id sees = net_op(n, "Cast", NET_LIST(numbers));
    if (kind == 1) return sees;
    return net_op(n, "Where", NET_LIST(sees, number(n, 0.5), number(n, -INFINITY)));
}

static tn_tensor_id build_attention(net *n, const void *data) {
    const bool *with_past = data;
    extents e = {.batch = draw(n, 1, 2),
                 .groups = draw(n, 1, 2),
                 .queries = draw(n, 1, 4),
                 .keys = draw(n, 1, 4),
                 .past = *with_past ? draw(n, 1, 3) : 0,
                 .size = draw(n, 1, 3),
                 .value_size = draw(n, 1, 3),
                 .flat = draw(n, 0, 1) != 0};
    tn_tensor_id inputs[6] = {TN_NONE, TN_NONE, TN_NONE, TN_NONE, TN_NONE, TN_NONE}, y[3];
    bool is_flat = e.flat;
    e.heads = e.groups * draw(n, 1, 2);
    n->version = 25;
    inputs[0] = draw_operand(n, &e, e.heads, e.queries, e.size);
    inputs[1] = draw_operand(n, &e, e.groups, e.keys, e.size);
    inputs[2] = draw_operand(n, &e, e.groups, e.keys, e.value_size);
    if (draw(n, 0, 1)) inputs[3] = draw_mask(n, &e);
    e.flat = false;
    if (*with_past) inputs[4] = draw_operand(n, &e, e.groups, e.past, e.size);
    if (*with_past) inputs[5] = draw_operand(n, &e, e.groups, e.past, e.value_size);
    if (is_flat) net_attr_int(n, "q_num_heads", e.heads);
    if (is_flat) net_attr_int(n, "kv_num_heads", e.groups);
    if (draw(n, 0, 1)) net_attr_int(n, "is_causal", 1);
    if (draw(n, 0, 2) == 0) net_attr_float(n, "softcap", 1.5);
    if (draw(n, 0, 2) == 0) net_attr_float(n, "scale", 0.7);
    if (draw(n, 0, 2) == 0) net_attr_int(n, "left_window_size", draw(n, 0, 2));
    if (draw(n, 0, 2) == 0) net_attr_int(n, "right_window_size", draw(n, 0, 2));
    net_ops(n, "Attention", 6, inputs, *with_past ? 3 : 1, y);
    if (!*with_past) return y[0];
    net_attr_int(n, "keepdims", 0);
    y[1] = net_op(n, "ReduceSum", NET_LIST(y[1]));
    net_attr_int(n, "keepdims", 0);
    y[2] = net_op(n, "ReduceMax", NET_LIST(y[2]));
    return net_op(n, "Sum", NET_LIST(y[0], y[1], y[2]));
}

/* --- positions --- */

static tn_tensor_id build_rotary(net *n, const void *data) {
    const bool *contrib = data;
    int64_t batch = draw(n, 1, 2), heads = draw(n, 1, 3), length = draw(n, 1, 3);
    int64_t half = draw(n, 1, 2), rest = draw(n, 0, 1) ? draw(n, 0, 2) * 2 : 0, rows = 5;
    int64_t size = 2 * half + rest;
    bool flat = draw(n, 0, 1) != 0, by_id = *contrib || draw(n, 0, 1) != 0;
    shape x = {.rank = 3, .extent = {batch, length, heads * size}};
    shape whole = {.rank = 4, .extent = {batch, heads, length, size}};
    tn_tensor_id tables[2], ids = TN_NONE, from = param(n, 0, 1, flat ? &x : &whole);
    n->version = 23;
    for (uint32_t k = 0; k < 2; k++)
        tables[k] = by_id ? net_input(n, "table", NET_SHAPE(rows, half))
                          : net_input(n, "table", NET_SHAPE(batch, length, half));
    if (by_id) ids = net_numbers(n, "ids", rows, NET_SHAPE(batch, length));
    if (flat || *contrib) net_attr_int(n, "num_heads", heads);
    if (rest > 0) net_attr_int(n, "rotary_embedding_dim", 2 * half);
    net_attr_int(n, "interleaved", draw(n, 0, 1));
    if (*contrib)
        return contrib_op(n, "RotaryEmbedding", NET_LIST(from, ids, tables[0], tables[1]));
    return net_op(n, "RotaryEmbedding", by_id ? 4 : 3,
                  (const tn_tensor_id[]){from, tables[0], tables[1], ids});
}

/* --- others --- */

static tn_tensor_id build_swiglu(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 4);
    (void)data;
    n->version = 28;
    if (draw(n, 0, 1)) net_attr_float(n, "alpha", 1.7);
    return net_op(n, "SwiGLU", NET_LIST(param(n, 0, 2, &s), param(n, 0, 1, &s)));
}

static tn_tensor_id build_activation(net *n, const void *data) {
    const char *type = data;
    shape s = draw_shape(n, 2, 3, 4), last = {.rank = 1, .extent = {s.extent[s.rank - 1]}};
    bool biased = strcmp(type, "BiasGelu") == 0 || (strcmp(type, "FastGelu") == 0 && draw(n, 0, 1));
    tn_tensor_id x = param(n, 0, 2, &s), bias = biased ? param(n, 0, 1, &last) : TN_NONE;
    if (strcmp(type, "QuickGelu") == 0 && draw(n, 0, 1)) net_attr_float(n, "alpha", 1.2);
    return contrib_op(n, type, biased ? 2 : 1, (const tn_tensor_id[]){x, bias});
}

static tn_tensor_id build_skip(net *n, const void *data) {
    const char *type = data;
    bool full = strcmp(type, "SkipLayerNormalization") == 0, sum = draw(n, 0, 1) != 0;
    int64_t hidden = draw(n, 3, 6);
    shape s = {.rank = 3, .extent = {draw(n, 1, 2), draw(n, 1, 3), hidden}};
    shape row = {.rank = 1, .extent = {hidden}};
    tn_tensor_id y[4], inputs[5] = {param(n, 0, 1, &s), param(n, 0, 1, &s), param(n, 1, 0.3, &row)};
    uint32_t count = 3;
    if (full) inputs[count++] = param(n, 0, 0.3, &row);
    if (draw(n, 0, 1)) inputs[count++] = param(n, 0, 0.3, &row);
    net_attr_float(n, "epsilon", 0.05);
    contrib_ops(n, type, count, inputs, sum ? 4 : 1, y);
    return sum ? net_op(n, "Add", NET_LIST(y[0], y[3])) : y[0];
}

static tn_tensor_id build_simplified(net *n, const void *data) {
    shape s = draw_shape(n, 2, 3, 4), last = {.rank = 1, .extent = {s.extent[s.rank - 1]}};
    (void)data;
    net_attr_float(n, "epsilon", 0.05);
    return net_op(n, "SimplifiedLayerNormalization",
                  NET_LIST(param(n, 0, 1, &s), param(n, 1, 0.3, &last)));
}

static tn_tensor_id build_causal(net *n, const void *data) {
    int64_t batch = draw(n, 1, 2), channels = draw(n, 1, 3), taps = draw(n, 1, 3);
    int64_t length = draw(n, 2, 4);
    shape s = {.rank = 3, .extent = {batch, channels, length}};
    shape w = {.rank = 3, .extent = {channels, 1, taps}}, c = {.rank = 1, .extent = {channels}};
    shape state = {.rank = 3, .extent = {batch, channels, taps - 1}};
    bool past = taps > 1 && draw(n, 0, 1) != 0, bias = draw(n, 0, 1) != 0;
    tn_tensor_id y[2], inputs[4] = {param(n, 0, 1, &s), param(n, 0, 1, &w), TN_NONE, TN_NONE};
    (void)data;
    n->version = 27;
    if (bias) inputs[2] = param(n, 0, 1, &c);
    if (past) inputs[3] = param(n, 0, 1, &state);
    if (draw(n, 0, 1)) net_attr_string(n, "activation", "silu");
    net_ops(n, "CausalConvWithState", 4, inputs, 2, y);
    if (taps == 1) return y[0];
    net_attr_int(n, "keepdims", 0);
    return net_op(n, "Add", NET_LIST(y[0], net_op(n, "ReduceSum", NET_LIST(y[1]))));
}

/* --- linear attention --- */

typedef struct linear_case {
    const char *rule;
    bool contrib;
} linear_case;

/* Up to 10 tokens, so that the sequence is divided into runs of different lengths; every second
 * time the last state counts too, and sometimes the state alone. */
static tn_tensor_id build_linear(net *n, const void *data) {
    const linear_case *it = data;
    const int64_t batch = draw(n, 1, 2), length = draw(n, 1, 10), groups = draw(n, 1, 2);
    const int64_t times = draw(n, 1, 2), size = draw(n, 1, 3), value_size = draw(n, 1, 3);
    bool more_values = it->contrib && draw(n, 0, 2) == 0;
    const int64_t heads = more_values ? groups : groups * times;
    const int64_t keys = more_values ? groups * times : groups;
    const bool by_row = draw(n, 0, 1) != 0, one_beta = draw(n, 0, 1) != 0;
    shape q = {.rank = 3, .extent = {batch, length, heads * size}};
    shape k = {.rank = 3, .extent = {batch, length, keys * size}};
    shape v = {.rank = 3, .extent = {batch, length, keys * value_size}};
    shape state = {.rank = 4, .extent = {batch, keys, size, value_size}};
    shape decay = {.rank = 3, .extent = {batch, length, by_row ? keys * size : keys}};
    shape beta = {.rank = 3, .extent = {batch, length, one_beta ? 1 : keys}};
    tn_tensor_id y[4], inputs[6] = {param(n, 0, 1, &q),
                                    param(n, 0, 0.7, &k),
                                    param(n, 0, 1, &v),
                                    TN_NONE,
                                    TN_NONE,
                                    TN_NONE};
    if (draw(n, 0, 1)) inputs[3] = param(n, 0, 1, &state);
    if (strncmp(it->rule, "gated", 5) == 0) inputs[4] = param(n, -0.3, 0.5, &decay);
    if (strstr(it->rule, "delta") != NULL) inputs[5] = param(n, 0.5, 0.5, &beta);
    n->version = 27;
    net_attr_int(n, "q_num_heads", heads);
    net_attr_int(n, "kv_num_heads", keys);
    net_attr_string(n, "update_rule", it->rule);
    if (draw(n, 0, 1)) net_attr_float(n, "scale", 0.8);
    const int64_t wanted = draw(n, 0, 3);
    for (uint32_t i = 0; i < 2; i++)
        y[i] = net_tensor(n, i == 0 ? "y" : "state", TN_KIND_ACTIVATION, TN_UNDEFINED,
                          TN_RANK_UNKNOWN, NULL);
    tn_op_spec spec = {.name = "linear",
                       .type = "LinearAttention",
                       .domain = it->contrib ? "com.microsoft" : "",
                       .version = it->contrib ? 1 : n->version,
                       .inputs = inputs,
                       .input_count = 6,
                       .outputs = y,
                       .output_count = wanted == 0 ? 1 : 2,
                       .attrs = n->attrs,
                       .attr_count = n->attr_count};
    net_ok(n, tn_graph_add_op(n->graph, &spec, NULL, &n->error));
    n->attr_count = 0;
    if (wanted == 0) return y[0];
    if (wanted == 1) return y[1];
    net_attr_int(n, "keepdims", 0);
    return net_op(n, "Add", NET_LIST(y[0], net_op(n, "ReduceSum", NET_LIST(y[1]))));
}

void linear_attention(void **state) {
    static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
    (void)state;
    for (uint32_t c = 0; c < 8; c++) {
        const linear_case it = {.rule = rules[c % 4], .contrib = c >= 4};
        for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) check(build_linear, &it, it.rule, seed);
    }
}

/* --- the same results --- */

/* The output of the model itself, which keeps the operator. */
static void run_model(net *n, double *values, uint64_t count) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_engine_options how = TN_ENGINE_OPTIONS_INIT;
    tn_setup *setup;
    tn_engine *engine;
    tn_array inputs[STEPS_IO];
    kernels.plain = true;
    options.kernels = &kernels;
    how.read = steps_read;
    how.self = n;
    net_ok(n, tn_setup_create(n->graph, &options, &setup, &n->error));
    net_ok(n, tn_setup_open(setup, NULL, &how, &engine, &n->error));
    const tn_graph *graph = tn_setup_graph(setup);
    const tn_block *block = tn_graph_block(graph, 0);
    uint32_t given = 0;
    for (uint32_t i = 0; i < block->input_count; i++) {
        tn_tensor_id id = block->inputs[i];
        if (tn_tensor_is_static(tn_graph_tensor(graph, id))) continue;
        inputs[given] = steps_array(graph, id);
        for (uint64_t k = 0; k < n->counts[id]; k++)
            steps_put(inputs[given].dtype, inputs[given].data, k, n->contents[id][k]);
        given++;
    }
    tn_array y = steps_array(graph, block->outputs[0]);
    net_ok(n, tn_engine_run(engine, inputs, given, &y, 1, &n->error));
    assert_int_equal(y.bytes, count * sizeof(float));
    for (uint64_t i = 0; i < count; i++) values[i] = steps_get(y.dtype, y.data, i);
    for (uint32_t i = 0; i < given; i++) free(inputs[i].data);
    free(y.data);
    tn_engine_destroy(engine);
    tn_setup_destroy(setup);
}

static uint32_t count_of(const tn_graph *graph, const char *type) {
    uint32_t count = 0;
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
        count += strcmp(tn_graph_op(graph, id)->type, type) == 0;
    return count;
}

static void agree(builder build, const void *data, const char *type, uint64_t seed) {
    const setting how = {.poison = true};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    steps s;
    options.loss = TN_LOSS_MEAN_SQUARED;
    options.optimizer = TN_OPTIMIZER_NONE;
    options.keep_outputs = true;
    net_open(&n, TN_FLOAT32, seed);
    n.version = 21;
    tn_tensor_id id = build(&n, data);
    net_output(&n, id);
    steps_open(&s, &n, &options, &how);
    assert_int_equal(count_of(s.training.graph, type), 0);
    assert_int_equal(count_of(n.graph, type), 1);
    double *labels = steps_draw_labels(&s, 0);
    steps_run(&s);
    const tn_array *y = steps_output(&s, id);
    uint64_t count = y->bytes / sizeof(float);
    double *values = malloc((count + 1) * sizeof *values);
    run_model(&n, values, count);
    for (uint64_t i = 0; i < count; i++) {
        double decomposed = steps_get(y->dtype, y->data, i);
        if (!(fabs(decomposed - values[i]) <= 2e-5 * (1 + fabs(values[i]))))
            fail_msg("%s, seed %llu: element %llu is %.9g, decomposed %.9g", type,
                     (unsigned long long)seed, (unsigned long long)i, values[i], decomposed);
    }
    free(values);
    free(labels);
    steps_close(&s);
    net_close(&n);
}

void decomposed(void **state) {
    static const bool no = false, yes = true;
    static const struct {
        builder build;
        const void *data;
        const char *type;
    } cases[] = {
        {build_attention, &no, "Attention"},
        {build_attention, &yes, "Attention"},
        {build_rotary, &no, "RotaryEmbedding"},
        {build_rotary, &yes, "RotaryEmbedding"},
        {build_swiglu, NULL, "SwiGLU"},
        {build_activation, "BiasGelu", "BiasGelu"},
        {build_activation, "FastGelu", "FastGelu"},
        {build_activation, "QuickGelu", "QuickGelu"},
        {build_skip, "SkipLayerNormalization", "SkipLayerNormalization"},
        {build_skip, "SkipSimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"},
        {build_simplified, NULL, "SimplifiedLayerNormalization"},
        {build_causal, NULL, "CausalConvWithState"}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
            check(cases[c].build, cases[c].data, cases[c].type, seed);
            agree(cases[c].build, cases[c].data, cases[c].type, seed);
        }
    /* "Gelu" of com.microsoft becomes "Gelu" of ONNX */
    EACH_SEED(seed) check(build_activation, "Gelu", "Gelu", seed);
}
