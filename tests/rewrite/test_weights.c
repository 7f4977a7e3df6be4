/* test_weights.c - weights of 8 bits: results are those of weights rounded here, in double, to
 * max / 127 of their channel; static memory is a quarter; what is not asked for does not happen.
 */
#include "count.h"
#include "whole.h"

#define TRIES 12u

typedef enum sort { CONV, CONV_TRANSPOSE, MATMUL, GEMM, GEMM_TRANSPOSED, SORTS } sort;

typedef struct made {
    sort sort;
    tn_graph *graph;
    tn_tensor_id x, w, y;
    int64_t group, in, out, kernel, size,
        batch; /* products: batch rows of `in`, kernel and size 1 */
} made;

static int64_t from_to(tn__random *random, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(random, (uint64_t)(last - first + 1));
}

static void make(made *at, uint64_t seed) {
    static const char *const types[] = {"Conv", "ConvTranspose", "MatMul", "Gemm", "Gemm"};
    tn__random random = {seed};
    bool image = at->sort <= CONV_TRANSPOSE, right = at->sort == GEMM_TRANSPOSED;
    at->group = at->sort == CONV ? from_to(&random, 1, 2) : 1;
    at->in = from_to(&random, 16, 24) * at->group;
    at->out = from_to(&random, 16, 40) * at->group;
    at->kernel = image ? from_to(&random, 1, 3) : 1;
    at->size = image ? from_to(&random, 3, 6) : 1;
    at->batch = from_to(&random, 1, 4);
    int64_t x[] = {at->batch, at->in, at->size, at->size};
    int64_t conv[] = {at->out, at->in / at->group, at->kernel, at->kernel};
    int64_t back[] = {at->in, at->out, at->kernel, at->kernel};
    int64_t flip[] = {at->out, at->in}, one = 1;
    const int64_t *w = at->sort == CONV ? conv : right ? flip : back;
    const tn_attr attrs[] = {
        {.name = at->sort == CONV ? "group" : "transB",
         .type = TN_ATTR_INT,
         .count = 1,
         .ints = at->sort == CONV ? &at->group : &one},
    };
    assert_int_equal(tn_graph_create(NULL, &at->graph, NULL), TN_OK);
    at->x = whole_tensor(at->graph, "x", TN_KIND_INPUT, image ? 4 : 2, x);
    at->w = whole_tensor(at->graph, "w", TN_KIND_PARAMETER, image ? 4 : 2, w);
    at->y = whole_tensor(at->graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at->graph, "", types[at->sort], 13, (tn_tensor_id[]){at->x, at->w}, 2, at->y, attrs,
                at->sort == CONV || right ? 1 : 0);
    whole_infer(at->graph);
}

/* --- expected --- */

static float *drawn(const made *at, tn_tensor_id id, uint64_t seed, uint64_t *count) {
    const tn_tensor *tensor = tn_graph_tensor(at->graph, id);
    const whole run = {.seed = seed};
    float *values = malloc(tensor->bytes);
    whole_draw(&run, tensor, values);
    *count = tensor->bytes / sizeof *values;
    return values;
}

/* Where the weight of an input channel (within its group), an output channel and a tap lies. */
static int64_t place(const made *at, int64_t in, int64_t out, int64_t tap) {
    int64_t taps = at->kernel * at->kernel;
    if (at->sort == CONV) return (out * (at->in / at->group) + in) * taps + tap;
    if (at->sort == GEMM_TRANSPOSED) return out * at->in + in;
    return (in * at->out + out) * taps + tap;
}

/* Returns what weights in the middle of two steps, which may fall either way, make of a difference.
 */
static double round_channel(const made *at, float *w, int64_t out) {
    double most = 0, slack = 0;
    for (int64_t in = 0; in < at->in / at->group; in++)
        for (int64_t tap = 0; tap < at->kernel * at->kernel; tap++)
            most = fmax(most, fabs((double)w[place(at, in, out, tap)]));
    double scale = most / 127;
    for (int64_t in = 0; in < at->in / at->group; in++)
        for (int64_t tap = 0; tap < at->kernel * at->kernel; tap++) {
            float *one = &w[place(at, in, out, tap)];
            double steps = (double)*one / scale;
            if (fabs(steps - floor(steps) - 0.5) < 1e-4) slack += scale;
            *one = (float)(scale * nearbyint(steps));
        }
    return slack;
}

/* Element (n, out, row, column) of the result, without padding, by the definition. */
static double expect(const made *at, const float *x, const float *w, int64_t n, int64_t out,
                     int64_t row, int64_t column) {
    int64_t each = at->in / at->group, first = out / (at->out / at->group) * each;
    double sum = 0;
    for (int64_t in = 0; in < each; in++)
        for (int64_t tap = 0; tap < at->kernel * at->kernel; tap++) {
            int64_t a = tap / at->kernel, b = tap % at->kernel;
            int64_t r = at->sort == CONV_TRANSPOSE ? row - a : row + a;
            int64_t c = at->sort == CONV_TRANSPOSE ? column - b : column + b;
            if (r < 0 || c < 0 || r >= at->size || c >= at->size) continue;
            int64_t from = ((n * at->in + first + in) * at->size + r) * at->size + c;
            sum += (double)x[from] * (double)w[place(at, in, out, tap)];
        }
    return sum;
}

static void judge(const made *at, const whole *got, const float *x, const float *w,
                  const double *slack, uint64_t seed) {
    int64_t wide =
        at->sort == CONV_TRANSPOSE ? at->size + at->kernel - 1 : at->size - at->kernel + 1;
    const float *y = got->outputs[0].data;
    uint64_t i = 0;
    for (int64_t n = 0; n < at->batch; n++)
        for (int64_t out = 0; out < at->out; out++)
            for (int64_t p = 0; p < wide * wide; p++, i++) {
                double want = expect(at, x, w, n, out, p / wide, p % wide);
                if (!(fabs((double)y[i] - want) <= 1e-4 * fmax(1, fabs(want)) + slack[out]))
                    fail_msg("sort %d, seed %llu: element %llu is %g, not %g", at->sort,
                             (unsigned long long)seed, (unsigned long long)i, (double)y[i], want);
            }
}

static void check(sort which, uint64_t seed, bool plain) {
    made at = {.sort = which};
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    tn_graph *rewritten;
    tn_error error;
    uint64_t count;
    make(&at, seed);
    options.weights_dtype = TN_INT8;
    options.no_fuse = options.no_formats = seed % 2;
    if (tn_graph_rewrite(at.graph, &options, &rewritten, &error) != TN_OK)
        fail_msg("%s: %s", error.where, error.message);
    whole got = {.plain = plain, .seed = seed}, wide = got;
    if (whole_run(&got, rewritten) != TN_OK || whole_run(&wide, at.graph) != TN_OK)
        fail_msg("sort %d, seed %llu: %s", which, (unsigned long long)seed, got.error.message);
    float *x = drawn(&at, at.x, seed, &count), *w = drawn(&at, at.w, seed, &count);
    double slack[80];
    assert_true(at.out <= 80);
    for (int64_t out = 0; out < at.out; out++) slack[out] = round_channel(&at, w, out);
    judge(&at, &got, x, w, slack, seed);
    assert_true(whole_difference(&wide, &got) > 1e-6); /* it was done */
    assert_true(got.statics >= count + 4 * (uint64_t)at.out);
    assert_true(got.statics <= count + 4 * (uint64_t)at.out + 256);
    free(x);
    free(w);
    whole_release(&got);
    whole_release(&wide);
    tn_graph_destroy(rewritten);
    tn_graph_destroy(at.graph);
}

static void results_are_those_of_rounded_weights(void **state) {
    (void)state;
    for (int k = 0; k < SORTS; k++)
        for (uint64_t seed = 1; seed <= case_count(TRIES, 8); seed++)
            check((sort)k, 100 * (uint64_t)k + seed, seed & 2);
}

/* Other readers need float32; other types, and training, are refused. */
static void weights_that_are_shared_stay(void **state) {
    (void)state;
    const int64_t shape[] = {32, 32};
    tn_graph *graph, *rewritten;
    assert_int_equal(tn_graph_create(NULL, &graph, NULL), TN_OK);
    tn_tensor_id x = whole_tensor(graph, "x", TN_KIND_INPUT, 2, shape);
    tn_tensor_id w = whole_tensor(graph, "w", TN_KIND_PARAMETER, 2, shape);
    tn_tensor_id h = whole_tensor(graph, "h", TN_KIND_ACTIVATION, 0, NULL);
    tn_tensor_id y = whole_tensor(graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(graph, "", "MatMul", 13, (tn_tensor_id[]){x, w}, 2, h, NULL, 0);
    whole_op_in(graph, "", "Add", 13, (tn_tensor_id[]){h, w}, 2, y, NULL, 0);
    whole_infer(graph);
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    options.weights_dtype = TN_INT8;
    options.no_fuse = true;
    assert_int_equal(tn_graph_rewrite(graph, &options, &rewritten, NULL), TN_OK);
    assert_int_equal(tn_graph_op_count(rewritten), 2);
    tn_graph_destroy(rewritten);
    options.weights_dtype = TN_UINT8;
    assert_int_equal(tn_graph_rewrite(graph, &options, &rewritten, NULL), TN_E_UNSUPPORTED);
    options.weights_dtype = TN_INT8;
    options.use = TN_REWRITE_TRAINED;
    assert_int_equal(tn_graph_rewrite(graph, &options, &rewritten, NULL), TN_E_UNSUPPORTED);
    tn_graph_destroy(graph);
}

#define ODD_ROWS 16
#define ODD_COLUMNS 32
static const struct {
    uint32_t row, column;
    float value;
} odd[] = {{0, 3, NAN}, {7, 4, NAN}, {15, 9, NAN}, {0, 10, INFINITY}, {15, 31, -INFINITY}};

static void make_odd(const tn_tensor *tensor, void *bytes) {
    for (size_t i = 0; i < sizeof odd / sizeof *odd && tensor->kind == TN_KIND_PARAMETER; i++)
        ((float *)bytes)[odd[i].row * ODD_COLUMNS + odd[i].column] = odd[i].value;
}

static bool is_odd(uint64_t column) {
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (odd[i].column == column) return true;
    return false;
}

/* A weight that is no number shows in all results of its channel, and in no other. */
static void weights_that_are_no_numbers_show(void **state) {
    (void)state;
    const int64_t rows[] = {2, ODD_ROWS}, weights[] = {ODD_ROWS, ODD_COLUMNS};
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    tn_graph *graph, *rewritten;
    assert_int_equal(tn_graph_create(NULL, &graph, NULL), TN_OK);
    tn_tensor_id x = whole_tensor(graph, "x", TN_KIND_INPUT, 2, rows);
    tn_tensor_id w = whole_tensor(graph, "w", TN_KIND_PARAMETER, 2, weights);
    tn_tensor_id y = whole_tensor(graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(graph, "", "MatMul", 13, (tn_tensor_id[]){x, w}, 2, y, NULL, 0);
    whole_infer(graph);
    options.weights_dtype = TN_INT8;
    assert_int_equal(tn_graph_rewrite(graph, &options, &rewritten, NULL), TN_OK);
    for (int plain = 0; plain < 2; plain++) {
        whole even = {.plain = plain != 0, .seed = 1, .skip_poison = true}, got = even;
        got.change = make_odd;
        assert_int_equal(whole_run(&even, rewritten), TN_OK);
        assert_int_equal(whole_run(&got, rewritten), TN_OK);
        const float *want = even.outputs[0].data, *is = got.outputs[0].data;
        for (uint64_t i = 0; i < 2 * ODD_COLUMNS; i++) {
            assert_true(isfinite(want[i]));
            assert_true(is_odd(i % ODD_COLUMNS) ? !isfinite(is[i]) : is[i] == want[i]);
        }
        whole_release(&even);
        whole_release(&got);
    }
    tn_graph_destroy(rewritten);
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_rounded_weights),
        cmocka_unit_test(weights_that_are_shared_stay),
        cmocka_unit_test(weights_that_are_no_numbers_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
