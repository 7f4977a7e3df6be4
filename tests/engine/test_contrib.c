/* test_contrib.c - operators of opsets 23 to 28 and of ONNX Runtime's contrib domain, one at a
 * time: shapes that fit and shapes, attributes and contents that do not.
 *
 * Two properties. Whatever the file says, there is an answer or an error, never more (the
 * sanitizers' builds run this too). And where an operator runs, the plan that lets it work in place
 * gives the bits of a run in which every tensor has memory of its own: a cache that is extended
 * where it lies is the cache that is copied.
 */
#include "../support.h"

#include <tenure/run.h>

#include "base/base.h"

/* Inputs: a type (f float32, l int64, j int32, u uint8, b bool) and an extent for each letter or
 * digit; "_" is omitted. Attributes: name=letter or number. */
typedef struct subject {
    const char *type, *domain, *inputs, *attrs;
    uint32_t outputs;
} subject;

#define MS "com.microsoft"
static const subject subjects[] = {
    {"Attention", "", "fBHSD fBGLD fBGLD", "is_causal=1", 4},
    {"Attention", "", "fBSa fBSb fBSb _ fBGPD fBGPD", "q_num_heads=H kv_num_heads=G", 3},
    {"Attention", "", "fBHSD fBGLD fBGLD bSL", "left_window_size=1 right_window_size=1", 1},
    {"Attention", "", "fBHSD fBGLD fBGLD fBHSL _ _ lB", "softcap=1", 1},
    {"RotaryEmbedding", "", "fBHSD fVe fVe lBS", "interleaved=1", 1},
    {"RotaryEmbedding", "", "fBSa fBSe fBSe", "num_heads=H", 1},
    {"TensorScatter", "", "fBVGD fBSGD lB", "axis=1", 1},
    {"SwiGLU", "", "fBSD fBSD", "", 1},
    {"CumProd", "", "fBSD l", "", 1},
    {"BitCast", "", "fBSD", "to=6", 1},
    {"SimplifiedLayerNormalization", "", "fBSD fD", "axis=-1", 2},
    {"LinearAttention", "", "fBSa fBSb fBSb fBGDD fBSG fBSG", "q_num_heads=H kv_num_heads=G", 2},
    {"CausalConvWithState", "", "fBHL fH1K fH fBHk", "", 2},
    {"DequantizeLinear", "", "uVD f u", "", 1},
    {"DequantizeLinear", "", "uVD f1D u1D", "axis=0 block_size=V", 1},
    {"RotaryEmbedding", MS, "fBHSD lBS fVe fVe", "", 1},
    {"GroupQueryAttention", MS, "fBSa fBSb fBSb fBGPD fBGPD jB j", "num_heads=H kv_num_heads=G", 3},
    {"GroupQueryAttention", MS, "fBSc _ _ fBGPD fBGPD jB j fVe fVe",
     "num_heads=H kv_num_heads=G do_rotary=1", 3},
    {"MultiHeadAttention", MS, "fBSa fBLa fBLa", "num_heads=H", 3},
    {"MultiHeadAttention", MS, "fBSa fBLa fBLa fi jBT fBHST fBHPD fBHPD",
     "num_heads=H unidirectional=1", 3},
    {"MultiHeadAttention", MS, "fBSa fBHLD fBHLD", "num_heads=H", 1},
    {"Attention", MS, "fBSK fKi fi", "num_heads=H unidirectional=1", 2},
    {"Attention", MS, "fBLK fKi fi jBT f2BHPD", "num_heads=H", 2},
    {"QAttention", MS, "uBSK uKi fi f f _ u u", "num_heads=H", 2},
    {"SkipLayerNormalization", MS, "fBSD fBSD fD fD fD", "", 4},
    {"SkipSimplifiedLayerNormalization", MS, "fBSD fBSD fD fD", "", 4},
    {"EmbedLayerNormalization", MS, "jBS jBS fVD fVD fVD fD fD jBS", "", 3},
    {"FastGelu", MS, "fBSD fD", "", 1},
    {"BiasGelu", MS, "fBSD fD", "", 1},
    {"QuickGelu", MS, "fBSD", "", 1},
    {"FusedMatMul", MS, "fBSK fKN", "", 1},
    {"FusedMatMul", MS, "fBKS fBKN", "transA=1", 1},
    {"FusedGemm", MS, "fSK fKN fN", "", 1},
    {"MatMulNBits", MS, "fBSm uN18 fN1 uN1", "K=m N=N bits=4 block_size=16", 1},
    {"MatMulNBits", MS, "fBSn uN58 fN5 _ jn fN", "K=n N=N bits=4 block_size=16", 1},
    {"GatherBlockQuantized", MS, "uV8 lBS fV1",
     "bits=4 block_size=16 gather_axis=0 quantize_axis=1", 1},
    {"MoE", MS, "fSD fSG fGND _ fGDN", "k=1", 1},
    {"QMoE", MS, "fSm fSG uGm8 fGm _ uGm8 fGm", "k=1", 1},
    {"QLinearAdd", MS, "uBSD f u uSD f u f u", "", 1},
    {"QLinearMul", MS, "uBSD f _ uD f u f u", "", 1},
    {"QLinearLeakyRelu", MS, "uBSD f u f u", "", 1},
    {"QLinearSigmoid", MS, "uBSD f u f u", "", 1},
    {"QLinearSoftmax", MS, "uBSD f u f u", "opset=13", 1},
    {"QLinearConcat", MS, "f u uBSD f u uBLD f u", "axis=1", 1},
    {"QLinearWhere", MS, "bBS uBS f u uBS f u f u", "", 1},
    {"QLinearGlobalAveragePool", MS, "uBDSS f u f u", "channels_last=0", 1},
    {"QLinearConv", MS, "uBDSS f u uND11 f u f u jN", "", 1},
    {"QLinearConv", MS, "uBSSD f u uND11 f u f u jN", "channels_last=1", 1},
    {"QGemm", MS, "uSK f u uKN f u jN f u", "", 1},
    {"DynamicQuantizeMatMul", MS, "fBSK uKN f u fN", "", 1},
    {"MatMulIntegerToFloat", MS, "uBSK uKN f f u u fN", "", 1},
};

typedef struct scene {
    tn__random random;
    int64_t extents[128]; /* of letters */
    tn_graph *graph;
    tn_tensor_id inputs[10], outputs[4];
    uint32_t input_count;
    tn_error error;
} scene;

static int64_t below(scene *it, uint32_t count) {
    return (int64_t)tn__random_below(&it->random, count);
}

static void draw_extents(scene *it) {
    int64_t *at = it->extents;
    for (char digit = '0'; digit <= '9'; digit++) at[(int)digit] = digit - '0';
    at['B'] = 1 + below(it, 2);
    at['S'] = 1 + below(it, 4);
    at['L'] = 1 + below(it, 4);
    at['P'] = below(it, 5);
    at['T'] = at['P'] + at['L'];
    at['G'] = 1 + below(it, 2);
    at['H'] = at['G'] * (1 + below(it, 2));
    at['D'] = 2 + 2 * below(it, 3);
    at['V'] = 5 + below(it, 4);
    at['K'] = 1 + below(it, 3);
    at['N'] = 1 + below(it, 5);
    at['k'] = at['K'] - 1;
    at['e'] = at['D'] / 2;
    at['a'] = at['H'] * at['D'];
    at['b'] = at['G'] * at['D'];
    at['c'] = at['a'] + 2 * at['b'];
    at['i'] = 3 * at['a'];
    at['m'] = 16; /* of weights of 4 bits: 8 bytes */
    at['n'] = 80; /* five blocks of these */
}

static tn_dtype type_of(char letter) {
    return letter == 'f'   ? TN_FLOAT32
           : letter == 'l' ? TN_INT64
           : letter == 'j' ? TN_INT32
           : letter == 'b' ? TN_BOOL
                           : TN_UINT8;
}

/* One input; some extents are others than the operator wants. */
static void add_input(scene *it, const char *text, size_t length, bool wild) {
    int64_t shape[8];
    uint32_t rank = 0;
    tn_tensor_id id = TN_NONE;
    bool omitted = *text == '_' || (wild && below(it, 12) == 0);
    for (size_t i = 1; i < length; i++) {
        int64_t extent = it->extents[(int)text[i]];
        if (wild && below(it, 10) == 0) extent = below(it, 7);
        shape[rank++] = extent;
    }
    if (wild && below(it, 20) == 0) rank = rank > 0 ? rank - 1 : 1, shape[0] = 3;
    tn_tensor_spec spec = {.name = "in",
                           .dtype = type_of(*text),
                           .kind = TN_KIND_INPUT,
                           .rank = rank,
                           .shape = rank > 0 ? shape : NULL};
    if (!omitted && tn_graph_add_tensor(it->graph, &spec, &id, &it->error) != TN_OK)
        fail_msg("%s", it->error.message);
    it->inputs[it->input_count++] = id;
}

static const int64_t odd[] = {0, -1, 1, 3, 7, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN};

/* name=letter, name=number */
static uint32_t read_attrs(scene *it, const char *text, bool wild, char names[8][40],
                           tn_attr *attrs, int64_t *ints, double *floats) {
    uint32_t count = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        const char *equal = memchr(text, '=', length);
        snprintf(names[count], 40, "%.*s", (int)(equal - text), text);
        bool letter = equal[1] >= 'A';
        ints[count] = letter ? it->extents[(int)equal[1]] : strtoll(equal + 1, NULL, 10);
        if (wild && below(it, 4) == 0) ints[count] = odd[below(it, 9)];
        floats[count] = (double)ints[count];
        bool real = strcmp(names[count], "softcap") == 0;
        attrs[count] = (tn_attr){.name = names[count],
                                 .type = real ? TN_ATTR_FLOAT : TN_ATTR_INT,
                                 .count = 1,
                                 .ints = real ? NULL : &ints[count],
                                 .floats = real ? &floats[count] : NULL};
        count++;
        text += length;
        if (*text == ' ') text++;
    }
    return count;
}

static void build(scene *it, const subject *what, bool wild) {
    char names[8][40];
    tn_attr attrs[8];
    int64_t ints[8];
    double floats[8];
    it->input_count = 0;
    if (tn_graph_create(NULL, &it->graph, &it->error) != TN_OK) fail_msg("%s", it->error.message);
    for (const char *at = what->inputs; *at != '\0';) {
        size_t length = strcspn(at, " ");
        add_input(it, at, length, wild);
        at += length;
        if (*at == ' ') at++;
    }
    for (uint32_t k = 0; k < what->outputs; k++) {
        tn_tensor_spec out = {.name = "out", .kind = TN_KIND_OUTPUT};
        if (tn_graph_add_tensor(it->graph, &out, &it->outputs[k], &it->error) != TN_OK)
            fail_msg("%s", it->error.message);
    }
    tn_op_spec op = {.type = what->type,
                     .domain = what->domain,
                     .version = *what->domain != '\0' ? 1 : 28,
                     .inputs = it->inputs,
                     .outputs = it->outputs,
                     .attrs = attrs,
                     .input_count = it->input_count,
                     .output_count = what->outputs,
                     .attr_count = read_attrs(it, what->attrs, wild, names, attrs, ints, floats)};
    if (tn_graph_add_op(it->graph, &op, NULL, &it->error) != TN_OK)
        fail_msg("%s", it->error.message);
}

static void fill(scene *it, tn_session *session, uint64_t seed, bool wild) {
    tn__random random = {.state = seed};
    for (uint32_t i = 0; i < it->input_count; i++) {
        if (it->inputs[i] == TN_NONE) continue;
        tn_array *array = (tn_array *)tn_session_array(session, it->inputs[i]);
        const tn_tensor *tensor = tn_graph_tensor(it->graph, it->inputs[i]);
        uint64_t count = array->bytes * 8 / tn_dtype_bits(tensor->dtype);
        for (uint64_t e = 0; e < count; e++) {
            int64_t draw = (int64_t)tn__random_below(&random, 5);
            int64_t whole = wild && draw == 0 ? odd[tn__random_below(&random, 9)] : draw;
            if (tensor->dtype == TN_FLOAT32) ((float *)array->data)[e] = (float)draw / 2 - 0.75f;
            if (tensor->dtype == TN_INT64) ((int64_t *)array->data)[e] = whole;
            if (tensor->dtype == TN_INT32) ((int32_t *)array->data)[e] = (int32_t)whole;
            if (tensor->dtype == TN_BOOL) ((uint8_t *)array->data)[e] = draw != 0;
            if (tensor->dtype == TN_UINT8) ((uint8_t *)array->data)[e] = (uint8_t)(whole * 50);
        }
    }
}

/* Both ways; whether they ran. What they gave must be the same. */
static bool run_both(scene *it, const subject *what, uint64_t seed, bool wild) {
    uint8_t kept[4][4096];
    uint64_t sizes[4] = {0};
    bool ran[2] = {false, false};
    for (int way = 0; way < 2; way++) {
        tn_session_options options = TN_SESSION_OPTIONS_INIT;
        tn_session *session = NULL;
        options.plain = options.poison = true;
        options.naive = way == 1;
        if (tn_session_open(it->graph, &options, &session, &it->error) != TN_OK) return false;
        fill(it, session, seed, wild);
        ran[way] = tn_session_run(session, &it->error) == TN_OK;
        for (uint32_t k = 0; k < what->outputs && ran[way]; k++) {
            const tn_array *array = tn_session_array(session, it->outputs[k]);
            if (way == 0) {
                sizes[k] = array->bytes < sizeof kept[k] ? array->bytes : sizeof kept[k];
                if (sizes[k] > 0) memcpy(kept[k], array->data, (size_t)sizes[k]);
            } else if (ran[0] && sizes[k] > 0 &&
                       memcmp(kept[k], array->data, (size_t)sizes[k]) != 0) {
                fail_msg("%s (%s), seed %llu: output %u is another in place", what->type,
                         what->inputs, (unsigned long long)seed, k);
            }
        }
        tn_session_close(session);
    }
    if (ran[0] != ran[1])
        fail_msg("%s, seed %llu: runs in one way alone", what->type, (unsigned long long)seed);
    return ran[0];
}

static uint32_t run_seeds(const subject *what, uint64_t first, uint64_t count, bool wild) {
    uint32_t ran = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        scene it = {.random = {.state = seed * 77 + (uint64_t)(what - subjects)}};
        draw_extents(&it);
        build(&it, what, wild);
        if (tn_graph_infer(it.graph, &it.error) == TN_OK)
            ran += run_both(&it, what, seed, wild);
        else if (!wild)
            fail_msg("%s (%s), seed %llu: %s", what->type, what->inputs, (unsigned long long)seed,
                     it.error.message);
        tn_graph_destroy(it.graph);
    }
    return ran;
}

static void operators_that_fit_run_and_in_place_changes_nothing(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        uint32_t ran = run_seeds(&subjects[s], 1, 20, false);
        /* contents decide for some (lengths of caches, indices) */
        if (ran < 2) fail_msg("%s (%s): ran %u times", subjects[s].type, subjects[s].inputs, ran);
    }
}

static void operators_that_do_not_fit_are_errors(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++)
        (void)run_seeds(&subjects[s], 1000, 50, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_that_fit_run_and_in_place_changes_nothing),
        cmocka_unit_test(operators_that_do_not_fit_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
