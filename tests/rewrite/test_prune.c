/* test_prune.c - pruned weights: a run from the sparse form is the dense run with the same zeros,
 * which are found here by sorting; numbers of elements are exact, ties and all; bytes are what was
 * told; what cannot be pruned is refused or stays.
 */
#include "whole.h"

#define TRIES 60u
#define MOST 4096u /* elements of a weight here */

typedef struct made {
    tn_graph *graph;
    tn_tensor_id y;
    uint32_t weights; /* w0, w1, ... */
    uint32_t turned;  /* that goes through a Transpose; TN_NONE: none */
} made;

static int64_t from_to(tn__random *random, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(random, (uint64_t)(last - first + 1));
}

/* --- what is expected --- */

typedef struct element {
    float magnitude;
    uint32_t weight, at;
    int64_t order; /* as the operator reads it */
} element;

static int compare(const void *left, const void *right) {
    const element *a = left, *b = right;
    if (a->magnitude != b->magnitude) return a->magnitude > b->magnitude ? -1 : 1;
    if (a->weight != b->weight) return a->weight < b->weight ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Elements of all weights, those that stay first; which stay. */
static struct {
    element list[4 * MOST];
    uint64_t count;
    bool stays[4][MOST];
    uint64_t kept[4];
} mask;

/* Few different magnitudes, so that there are ties, and some zeros; every third weight is small. */
static void tie(const tn_tensor *tensor, void *bytes) {
    float *w = bytes;
    if (tensor->name[0] != 'w' || tensor->kind != TN_KIND_PARAMETER) return;
    for (uint64_t i = 0; i < tensor->bytes / sizeof *w; i++)
        w[i] = (float)(nearbyint((double)w[i] * 20) / 20) * (tensor->name[1] == '2' ? 0.125f : 1);
}

static void tie_and_zero(const tn_tensor *tensor, void *bytes) {
    float *w = bytes;
    tie(tensor, bytes);
    if (tensor->name[0] != 'w' || tensor->kind != TN_KIND_PARAMETER) return;
    for (uint64_t i = 0; i < tensor->bytes / sizeof *w; i++)
        if (!mask.stays[tensor->name[1] - '0'][i]) w[i] = 0;
}

static void mask_add(const made *at, whole *run, uint32_t weight) {
    char name[] = {'w', (char)('0' + weight), '\0'};
    const tn_tensor *tensor = NULL;
    float values[MOST];
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(at->graph); t++)
        if (strcmp(tn_graph_tensor(at->graph, t)->name, name) == 0)
            tensor = tn_graph_tensor(at->graph, t);
    assert_non_null(tensor);
    assert_true(tensor->bytes <= sizeof values);
    whole_draw(run, tensor, values);
    bool turned = weight == at->turned;
    for (uint32_t i = 0; i < tensor->bytes / sizeof *values; i++) {
        int64_t row = i / tensor->shape[1], column = i % tensor->shape[1];
        mask.list[mask.count++] =
            (element){fabsf(values[i]), weight, i, turned ? column * tensor->shape[0] + row : i};
    }
}

/* Of mask.list[first, count): the largest stay. */
static void mask_end(uint64_t first, double share) {
    uint64_t count = mask.count - first, pruned = (uint64_t)nearbyint(share * (double)count);
    uint64_t kept = pruned >= count ? 1 : count - pruned;
    qsort(mask.list + first, count, sizeof *mask.list, compare);
    for (uint64_t i = 0; i < kept; i++) {
        const element *it = &mask.list[first + i];
        mask.stays[it->weight][it->at] = true;
        mask.kept[it->weight] += it->magnitude > 0;
    }
}

static void mask_make(const made *at, whole *run, const tn_prune_options *options) {
    memset(&mask, 0, sizeof mask);
    for (uint32_t w = 0; w < at->weights; w++) {
        uint64_t first = mask.count;
        mask_add(at, run, w);
        if (options->scope == TN_PRUNE_TENSOR) mask_end(first, options->share);
    }
    if (options->scope == TN_PRUNE_GLOBAL) mask_end(0, options->share);
}

/* --- networks --- */

static const char *const names[] = {"w0", "w1", "w2", "w3"};

static tn_tensor_id conv(made *at, tn__random *random, tn_tensor_id x, uint32_t spatial,
                         int64_t channels, int64_t *filters) {
    int64_t group = channels % 2 == 0 ? from_to(random, 1, 2) : 1;
    *filters = group * from_to(random, 1, 9);
    int64_t shape[5] = {*filters, channels / group}, strides[3], dilations[3], pads[6];
    for (uint32_t d = 0; d < spatial; d++) {
        shape[2 + d] = tn__random_below(random, 3) == 0 ? 1 : from_to(random, 1, 3);
        strides[d] = tn__random_below(random, 2) == 0 ? 1 : from_to(random, 1, 3);
        dilations[d] = from_to(random, 1, 2);
        pads[d] = from_to(random, 0, 2);
        pads[spatial + d] = from_to(random, 0, 2);
    }
    tn_attr attrs[] = {
        {.name = "group", .type = TN_ATTR_INT, .count = 1, .ints = &group},
        {.name = "strides", .type = TN_ATTR_INTS, .count = spatial, .ints = strides},
        {.name = "dilations", .type = TN_ATTR_INTS, .count = spatial, .ints = dilations},
        {.name = "pads", .type = TN_ATTR_INTS, .count = 2 * spatial, .ints = pads}};
    tn_tensor_id inputs[3] = {x}, y;
    inputs[1] = whole_tensor(at->graph, names[at->weights], TN_KIND_PARAMETER, spatial + 2, shape);
    inputs[2] = whole_tensor(at->graph, "bias", TN_KIND_PARAMETER, 1, filters);
    at->weights++;
    y = whole_tensor(at->graph, "c", TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", "Conv", 13, inputs, tn__random_below(random, 2) ? 3 : 2, y, attrs,
                4);
    return y;
}

static tn_tensor_id follow(made *at, const char *type, tn_tensor_id x, tn_tensor_id other) {
    tn_tensor_id y = whole_tensor(at->graph, "f", TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", type, 13, (tn_tensor_id[]){x, other}, other == TN_NONE ? 1 : 2, y,
                NULL, 0);
    return y;
}

static tn_tensor_id normalise(made *at, tn_tensor_id x, int64_t channels) {
    static const char *const rows[] = {"scale", "shift", "mean", "var"};
    tn_tensor_id inputs[5] = {x}, y = whole_tensor(at->graph, "n", TN_KIND_ACTIVATION, 0, NULL);
    for (uint32_t i = 0; i < 4; i++)
        inputs[i + 1] = whole_tensor(at->graph, rows[i], TN_KIND_PARAMETER, 1, &channels);
    whole_op_in(at->graph, "", "BatchNormalization", 13, inputs, 5, y, NULL, 0);
    return y;
}

/* Two convolutions, batch normalisation, activation and sum as they come. */
static void make_images(made *at, tn__random *random) {
    uint32_t spatial = (uint32_t)from_to(random, 1, 3);
    int64_t shape[5] = {from_to(random, 1, 2), from_to(random, 1, 6)}, filters;
    for (uint32_t d = 0; d < spatial; d++)
        shape[2 + d] = from_to(random, 7, spatial == 1 ? 400 : 19);
    tn_tensor_id x = whole_tensor(at->graph, "x", TN_KIND_INPUT, spatial + 2, shape);
    tn_tensor_id y = conv(at, random, x, spatial, shape[1], &filters);
    if (tn__random_below(random, 2)) y = normalise(at, y, filters);
    if (tn__random_below(random, 2)) y = follow(at, "Relu", y, TN_NONE);
    int64_t again[5] = {filters, filters, 1, 1, 1};
    tn_tensor_id w =
        whole_tensor(at->graph, names[at->weights++], TN_KIND_PARAMETER, spatial + 2, again);
    tn_tensor_id z = whole_tensor(at->graph, "z", TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", "Conv", 13, (tn_tensor_id[]){y, w}, 2, z, NULL, 0);
    if (tn__random_below(random, 2)) z = follow(at, "Add", z, y);
    at->y = follow(at, tn__random_below(random, 2) ? "Relu" : "Sigmoid", z, TN_NONE);
}

/* A few rows through Gemm, an activation, MatMul, and a Transpose of the weights. */
static void make_rows(made *at, tn__random *random) {
    int64_t batch = from_to(random, 1, 3) == 1 ? from_to(random, 1, 7) : from_to(random, 8, 90);
    int64_t in = from_to(random, 1, 4) == 1 ? 600 : from_to(random, 20, 120);
    int64_t mid = in == 600 ? 6 : from_to(random, 8, 30), out = from_to(random, 1, 20);
    int64_t flip = (int64_t)tn__random_below(random, 2);
    int64_t x[] = {batch, in}, w0[] = {flip ? mid : in, flip ? in : mid}, w1[] = {mid, out};
    int64_t w2[] = {mid, out};
    tn_attr attr = {.name = "transB", .type = TN_ATTR_INT, .count = 1, .ints = &flip};
    tn_tensor_id inputs[3] = {whole_tensor(at->graph, "x", TN_KIND_INPUT, 2, x)};
    inputs[1] = whole_tensor(at->graph, "w0", TN_KIND_PARAMETER, 2, w0);
    inputs[2] = whole_tensor(at->graph, "bias", TN_KIND_PARAMETER, 1, &mid);
    tn_tensor_id h = whole_tensor(at->graph, "h", TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", "Gemm", 13, inputs, (uint32_t)from_to(random, 2, 3), h, &attr, 1);
    h = follow(at, "Tanh", h, TN_NONE);
    h = follow(at, "MatMul", h, whole_tensor(at->graph, "w1", TN_KIND_PARAMETER, 2, w1));
    if (tn__random_below(random, 2)) h = follow(at, "Gelu", h, TN_NONE);
    tn_tensor_id turned =
        follow(at, "Transpose", whole_tensor(at->graph, "w2", TN_KIND_PARAMETER, 2, w2), TN_NONE);
    at->y = follow(at, "MatMul", h, turned);
    at->weights = 3;
    at->turned = 2;
}

static void make(made *at, uint64_t seed) {
    tn__random random = {seed};
    *at = (made){.turned = TN_NONE};
    assert_int_equal(tn_graph_create(NULL, &at->graph, NULL), TN_OK);
    if (seed % 3 != 0)
        make_images(at, &random);
    else
        make_rows(at, &random);
    tn_tensor_id y = whole_tensor(at->graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at->graph, "", "Identity", 13, &at->y, 1, y, NULL, 0);
    whole_infer(at->graph);
}

/* --- sparse runs --- */

static uint32_t seen[17]; /* weights by the bits of their places */

/* Bytes, numbers and errors are as told. */
static void check_told(const tn_pruning *pruning, const made *at, const whole *got) {
    uint64_t stored = 0, dense = 0;
    assert_int_equal(pruning->count, at->weights);
    for (uint32_t w = 0; w < pruning->count; w++) {
        const tn_pruned *it = &pruning->weights[w];
        double norm = 0, lost = 0;
        assert_true(it->bits <= 16);
        seen[it->bits]++;
        assert_int_equal(it->kept, mask.kept[w]);
        for (uint64_t i = 0; i < mask.count; i++) {
            const element *one = &mask.list[i];
            double square = (double)one->magnitude * (double)one->magnitude;
            if (one->weight != w) continue;
            norm += square;
            lost += mask.stays[w][one->at] ? 0 : square;
        }
        assert_true(fabs(norm - it->norm) <= 1e-9 * norm);
        assert_true(fabs(lost - it->lost) <= 1e-9 * norm);
        assert_true(it->stored <= it->bytes && it->stored > 0);
        stored += it->stored;
        dense += it->bits == 0;
    }
    if (dense == 0)
        assert_true(got->statics >= stored && got->statics <= stored + 64u * 40u + 4096u);
}

static void check(uint64_t seed) {
    static const double shares[] = {0.05, 0.3, 0.5, 0.8, 0.9, 0.95, 0.995};
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
    tn_pruning pruning;
    tn_graph *rewritten;
    made at;
    make(&at, seed);
    whole got = {.plain = seed % 2 == 0, .seed = seed, .change = tie};
    whole want = {.plain = seed % 4 < 2, .seed = seed, .change = tie_and_zero};
    options.share = shares[seed / 2 % (sizeof shares / sizeof *shares)];
    options.scope = seed % 5 < 2 ? TN_PRUNE_TENSOR : TN_PRUNE_GLOBAL;
    options.read = whole_read;
    options.self = &got;
    if (tn_prune(at.graph, &options, &pruning, &got.error) != TN_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, got.error.message);
    rewrite.pruning = &pruning;
    rewrite.no_fuse = seed % 7 == 0;
    rewrite.no_formats = seed % 7 < 2;
    if (tn_graph_rewrite(at.graph, &rewrite, &rewritten, &got.error) != TN_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, got.error.message);
    tn_pruning_measure(&pruning, rewritten);
    mask_make(&at, &got, &options);
    if (whole_run(&got, rewritten) != TN_OK || whole_run(&want, at.graph) != TN_OK)
        fail_msg("seed %llu: %s %s", (unsigned long long)seed, got.error.message,
                 want.error.message);
    check_told(&pruning, &at, &got);
    double apart = whole_difference(&want, &got);
    if (!(apart <= 2e-5))
        fail_msg("seed %llu: results are %g apart", (unsigned long long)seed, apart);
    whole_release(&got);
    whole_release(&want);
    tn_pruning_release(&pruning);
    tn_graph_destroy(rewritten);
    tn_graph_destroy(at.graph);
}

static void sparse_runs_are_dense_runs_with_these_zeros(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= TRIES; seed++) check(seed);
    assert_true(seen[0] > 0 && seen[1] > 0 && seen[8] > 0 && seen[16] > 0);
}

/* --- one product of which everything is known --- */

enum { ROWS = 32, COLUMNS = 32 };

static void make_product(made *at) {
    const int64_t rows[] = {4, ROWS}, weights[] = {ROWS, COLUMNS};
    *at = (made){.weights = 1};
    assert_int_equal(tn_graph_create(NULL, &at->graph, NULL), TN_OK);
    tn_tensor_id x = whole_tensor(at->graph, "x", TN_KIND_INPUT, 2, rows);
    tn_tensor_id w = whole_tensor(at->graph, "w0", TN_KIND_PARAMETER, 2, weights);
    at->y = whole_tensor(at->graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at->graph, "", "MatMul", 13, (tn_tensor_id[]){x, w}, 2, at->y, NULL, 0);
    whole_infer(at->graph);
}

static void even(const tn_tensor *tensor, void *bytes) {
    float *w = bytes;
    for (uint64_t i = 0; i < ROWS * COLUMNS && tensor->kind == TN_KIND_PARAMETER; i++)
        w[i] = i % 2 ? -1 : 1;
}
static void no_number(const tn_tensor *tensor, void *bytes) {
    if (tensor->kind == TN_KIND_PARAMETER) ((float *)bytes)[77] = NAN;
}
static void infinite(const tn_tensor *tensor, void *bytes) {
    if (tensor->kind == TN_KIND_PARAMETER) ((float *)bytes)[5] = -INFINITY;
}

static tn_status prune(const made *at, whole *run, double share, tn_prune_scope scope,
                       tn_pruning *pruning) {
    tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
    options.share = share;
    options.scope = scope;
    options.read = whole_read;
    options.self = run;
    return tn_prune(at->graph, &options, pruning, &run->error);
}

/* All are as large: the first stay, one for each of 1,024 shares. */
static void of_equal_magnitudes_the_first_stay(void **state) {
    (void)state;
    whole run = {.seed = 1, .change = even};
    tn_pruning pruning;
    made at;
    make_product(&at);
    for (uint64_t pruned = 0; pruned < ROWS * COLUMNS; pruned += 31)
        for (int scope = 0; scope < 2; scope++) {
            double share = (double)pruned / (ROWS * COLUMNS);
            assert_int_equal(prune(&at, &run, share, (tn_prune_scope)scope, &pruning), TN_OK);
            assert_int_equal(pruning.count, pruned > 0 ? 1 : 0);
            if (pruned > 0) assert_int_equal(pruning.weights[0].kept, ROWS * COLUMNS - pruned);
            tn_pruning_release(&pruning);
        }
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    tn_graph *rewritten;
    assert_int_equal(prune(&at, &run, 0.75, TN_PRUNE_TENSOR, &pruning), TN_OK);
    options.pruning = &pruning;
    assert_int_equal(tn_graph_rewrite(at.graph, &options, &rewritten, NULL), TN_OK);
    assert_int_equal(whole_run(&run, rewritten), TN_OK);
    float x[4 * ROWS];
    const float *y = run.outputs[0].data;
    whole_draw(&run, tn_graph_tensor(at.graph, 0), x);
    for (int row = 0; row < 4; row++) /* the first 8 of 32 rows of w are left */
        for (int column = 0; column < COLUMNS; column++) {
            double sum = 0;
            for (int k = 0; k < ROWS / 4; k++)
                sum += (double)x[row * ROWS + k] * (column % 2 ? -1 : 1);
            assert_true(fabs((double)y[row * COLUMNS + column] - sum) < 1e-5);
        }
    whole_release(&run);
    tn_pruning_release(&pruning);
    tn_graph_destroy(rewritten);
    tn_graph_destroy(at.graph);
}

static void no_share_changes_nothing(void **state) {
    (void)state;
    whole plain = {.seed = 3}, same = plain;
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    tn_graph *rewritten, *as_it_was;
    tn_pruning pruning;
    made at;
    make_product(&at);
    assert_int_equal(prune(&at, &same, 0, TN_PRUNE_GLOBAL, &pruning), TN_OK);
    assert_int_equal(tn_graph_rewrite(at.graph, &options, &as_it_was, NULL), TN_OK);
    options.pruning = &pruning;
    assert_int_equal(tn_graph_rewrite(at.graph, &options, &rewritten, NULL), TN_OK);
    assert_int_equal(tn_graph_op_count(rewritten), tn_graph_op_count(as_it_was));
    assert_int_equal(whole_run(&plain, as_it_was), TN_OK);
    assert_int_equal(whole_run(&same, rewritten), TN_OK);
    assert_int_equal(plain.statics, same.statics);
    assert_memory_equal(plain.outputs[0].data, same.outputs[0].data, plain.outputs[0].bytes);
    whole_release(&plain);
    whole_release(&same);
    tn_pruning_release(&pruning);
    tn_graph_destroy(rewritten);
    tn_graph_destroy(as_it_was);
    tn_graph_destroy(at.graph);
}

static void what_cannot_be_pruned_is_refused(void **state) {
    (void)state;
    const double bad[] = {1, 1.5, -0.1, INFINITY, NAN};
    whole run = {.seed = 2};
    tn_pruning pruning = {.count = 7};
    made at;
    make_product(&at);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(prune(&at, &run, bad[i], TN_PRUNE_TENSOR, &pruning), TN_E_INVALID);
    assert_int_equal(prune(&at, &run, 0.5, (tn_prune_scope)2, &pruning), TN_E_UNKNOWN);
    run.change = no_number;
    for (int scope = 0; scope < 2; scope++) {
        assert_int_equal(prune(&at, &run, 0.5, (tn_prune_scope)scope, &pruning), TN_E_INVALID);
        assert_non_null(strstr(run.error.message, "element 77 of 'w0'"));
    }
    tn_prune_options blind = TN_PRUNE_OPTIONS_INIT;
    blind.share = 0.5;
    assert_int_equal(tn_prune(at.graph, &blind, &pruning, NULL), TN_E_INVALID);
    assert_int_equal(pruning.count, 7); /* untouched */
    blind.scope = TN_PRUNE_TENSOR;      /* shapes are enough */
    assert_int_equal(tn_prune(at.graph, &blind, &pruning, NULL), TN_OK);
    assert_true(pruning.count == 1 && pruning.weights[0].kept == ROWS * COLUMNS / 2);
    assert_true(isnan(pruning.weights[0].lost));
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    tn_graph *rewritten;
    options.pruning = &pruning;
    options.use = TN_REWRITE_TRAINED;
    assert_int_equal(tn_graph_rewrite(at.graph, &options, &rewritten, NULL), TN_E_UNSUPPORTED);
    options.use = TN_REWRITE_TO_RUN;
    pruning.weights[0].op = 5; /* of another graph */
    assert_int_equal(tn_graph_rewrite(at.graph, &options, &rewritten, NULL), TN_E_INVALID);
    tn_pruning_release(&pruning);
    run.change = infinite;
    assert_int_equal(prune(&at, &run, 0.99, TN_PRUNE_TENSOR, &pruning), TN_OK);
    assert_int_equal(pruning.weights[0].kept, 10);
    assert_true(pruning.weights[0].lost < 1e9); /* it stays */
    tn_pruning_release(&pruning);
    tn_graph_destroy(at.graph);
}

/* Another reader needs all of it. */
static void weights_with_other_readers_stay(void **state) {
    (void)state;
    const int64_t shape[] = {ROWS, COLUMNS};
    whole run = {.seed = 4};
    tn_pruning pruning;
    made at = {0};
    assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
    tn_tensor_id x = whole_tensor(at.graph, "x", TN_KIND_INPUT, 2, shape);
    tn_tensor_id w = whole_tensor(at.graph, "w0", TN_KIND_PARAMETER, 2, shape);
    tn_tensor_id y = whole_tensor(at.graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at.graph, "", "Add", 13, (tn_tensor_id[]){follow(&at, "MatMul", x, w), w}, 2, y,
                NULL, 0);
    whole_infer(at.graph);
    assert_int_equal(prune(&at, &run, 0.5, TN_PRUNE_GLOBAL, &pruning), TN_OK);
    assert_int_equal(pruning.count, 0);
    tn_pruning_release(&pruning);
    tn_graph_destroy(at.graph);
}

/* --- what goes wrong --- */

/* Every request for memory fails in turn: nothing leaks, and nothing is handed out. */
static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    whole run = {.seed = 6};
    made at;
    make_product(&at);
    for (int scope = 0; scope < 2; scope++) {
        tn_status status = TN_E_NO_MEMORY;
        for (uint64_t n = 1; status != TN_OK; n++) {
            faulty memory = {.fail_at = n};
            const tn_context context = faulty_context(&memory);
            tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
            tn_pruning pruning = {.count = 7};
            tn_graph *rewritten;
            options.context = &context;
            options.share = 0.5;
            options.scope = (tn_prune_scope)scope;
            options.read = whole_read;
            options.self = &run;
            status = tn_prune(at.graph, &options, &pruning, NULL);
            if (status == TN_OK) {
                tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
                rewrite.context = &context;
                rewrite.pruning = &pruning;
                status = tn_graph_rewrite(at.graph, &rewrite, &rewritten, NULL);
                if (status == TN_OK) tn_graph_destroy(rewritten);
                tn_pruning_release(&pruning);
            } else {
                assert_int_equal(pruning.count, 7);
            }
            assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
            assert_int_equal(memory.held, 0);
        }
    }
    tn_graph_destroy(at.graph);
}

/* Lists that no pruning made: places outside of the matrix, starts that fall or go too far. */
static uint32_t damage;
static void damaged(const tn_tensor *tensor, void *bytes) {
    if (strcmp(tensor->name, "places") == 0) memset(bytes, 0xff, tensor->bytes);
    for (uint64_t i = 0; strcmp(tensor->name, "starts") == 0 && i < tensor->bytes / 4; i++)
        ((uint32_t *)bytes)[i] =
            damage == 2 ? 9 - (uint32_t)i : (uint32_t)i * (damage == 1 ? 100 : 2);
}

static void lists_from_elsewhere_do_no_harm(void **state) {
    (void)state;
    const int64_t bits[] = {1, 8, 16}, rows = 4, columns = 10, kept = 8;
    for (uint32_t k = 0; k < 9; k++) {
        const int64_t x[] = {k % 2 ? 3 : 20, columns};
        const int64_t places = bits[k / 3] == 1 ? rows * 2 : kept, starts = rows + 1;
        tn_attr attrs[] = {{.name = "rows", .type = TN_ATTR_INT, .count = 1, .ints = &rows},
                           {.name = "columns", .type = TN_ATTR_INT, .count = 1, .ints = &columns},
                           {.name = "bits", .type = TN_ATTR_INT, .count = 1, .ints = &bits[k / 3]}};
        tn_graph *graph;
        tn_tensor_spec spec = {.name = "places",
                               .dtype = bits[k / 3] == 16 ? TN_UINT16 : TN_UINT8,
                               .kind = TN_KIND_PARAMETER,
                               .rank = 1,
                               .shape = &places};
        whole run = {.seed = k, .change = damaged, .plain = true};
        tn_tensor_id inputs[4];
        assert_int_equal(tn_graph_create(NULL, &graph, NULL), TN_OK);
        inputs[0] = whole_tensor(graph, "x", TN_KIND_INPUT, 2, x);
        inputs[1] = whole_tensor(graph, "values", TN_KIND_PARAMETER, 1, &kept);
        assert_int_equal(tn_graph_add_tensor(graph, &spec, &inputs[2], NULL), TN_OK);
        spec.name = "starts", spec.dtype = TN_UINT32, spec.shape = &starts;
        assert_int_equal(tn_graph_add_tensor(graph, &spec, &inputs[3], NULL), TN_OK);
        tn_tensor_id y = whole_tensor(graph, "y", TN_KIND_OUTPUT, 0, NULL);
        whole_op_in(graph, "tenure", "SparseMatMul", 1, inputs, 4, y, attrs, 3);
        whole_infer(graph);
        damage = k % 3;
        assert_int_equal(whole_run(&run, graph), damage == 0 ? TN_OK : TN_E_INVALID);
        for (uint64_t i = 0; damage == 0 && i < run.outputs[0].bytes / sizeof(float); i++)
            assert_true(fabsf(((float *)run.outputs[0].data)[i]) <= 8);
        if (damage == 0) whole_release(&run);
        tn_graph_destroy(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_runs_are_dense_runs_with_these_zeros),
        cmocka_unit_test(of_equal_magnitudes_the_first_stay),
        cmocka_unit_test(no_share_changes_nothing),
        cmocka_unit_test(what_cannot_be_pruned_is_refused),
        cmocka_unit_test(weights_with_other_readers_stay),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(lists_from_elsewhere_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
