/* test_experts.c - experts that are rows of a cache: the bits of the run with all experts in
 * memory, for caches of every size; counts that add up; files that change; allocations that fail.
 * tests/cli/experts.py compares results and counts with numpy.
 */
#define GRAPH_DTYPE TN_FLOAT32
#include "rig.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAYERS_MAX 5u
#define TOKENS_MAX 5
#define HIDDEN_MAX 12

/* A residual stream with a router and a mixture in each layer. Some weights are in the file, at the
 * place of their payload; the others are computed by `read`. */
typedef struct net {
    tn_graph *graph;
    char path[64];
    FILE *file;
    uint64_t at;
    int64_t tokens, hidden;
    uint32_t layers, experts;
} net;

static float weight_of(const char *name, uint64_t i) {
    uint64_t state = i;
    for (; *name != 0; name++) state = state * 31 + (uint64_t)(unsigned char)*name;
    tn__random random = {.state = state};
    return (float)(tn__random_next(&random) >> 40) / (float)(1 << 23) - 1;
}

static tn_tensor_id tensor(net *n, const char *name, tn_kind kind, uint32_t rank,
                           const int64_t *shape, bool stored) {
    tn_tensor_id id;
    tn_tensor_spec spec = {
        .name = name, .dtype = TN_FLOAT32, .kind = kind, .rank = rank, .shape = shape};
    if (kind == TN_KIND_ACTIVATION) spec.dtype = TN_UNDEFINED, spec.rank = TN_RANK_UNKNOWN;
    if (kind == TN_KIND_PARAMETER && stored) {
        uint64_t count = 1;
        for (uint32_t d = 0; d < rank; d++) count *= (uint64_t)shape[d];
        spec.payload = (tn_payload){n->at, 4 * count};
        for (uint64_t i = 0; i < count; i++) {
            float number = weight_of(name, i);
            assert_int_equal(fwrite(&number, 4, 1, n->file), 1);
        }
        n->at += 4 * count;
        fputc(77, n->file), n->at++; /* a gap: offsets need no alignment */
    }
    assert_ok(tn_graph_add_tensor(n->graph, &spec, &id, &failure));
    return id;
}

static tn_tensor_id part(net *n, uint32_t layer, const char *what, uint32_t rank, int64_t a,
                         int64_t b, int64_t c, bool stored) {
    char name[40];
    snprintf(name, sizeof name, "%s%u", what, layer);
    return tensor(n, name, TN_KIND_PARAMETER, rank, (int64_t[]){a, b, c}, stored);
}

static void mixture(net *n, uint32_t layer, tn_tensor_id x, tn_tensor_id scores, tn_tensor_id y,
                    int64_t inner, int64_t chosen, bool biased, bool stored) {
    tn_tensor_id inputs[6] = {x, scores, TN_NONE, TN_NONE, TN_NONE, TN_NONE};
    const int64_t experts = n->experts;
    inputs[2] = part(n, layer, "first", 3, experts, inner, n->hidden, stored);
    if (biased) inputs[3] = part(n, layer, "first_bias", 2, experts, inner, 0, true);
    inputs[4] = part(n, layer, "second", 3, experts, n->hidden, inner, true);
    if (biased) inputs[5] = part(n, layer, "second_bias", 2, experts, n->hidden, 0, stored);
    const tn_attr attr = {.name = "k", .type = TN_ATTR_INT, .count = 1, .ints = &chosen};
    const tn_op_spec spec = {.name = "mixture",
                             .type = "MoE",
                             .domain = "com.microsoft",
                             .inputs = inputs,
                             .outputs = &y,
                             .attrs = &attr,
                             .input_count = 6,
                             .output_count = 1,
                             .attr_count = 1};
    assert_ok(tn_graph_add_op(n->graph, &spec, NULL, &failure));
}

static void net_open(net *n, uint64_t seed, bool stored) {
    tn__random random = {.state = seed};
    *n = (net){.tokens = 1 + (int64_t)tn__random_below(&random, TOKENS_MAX),
               .hidden = 2 + (int64_t)tn__random_below(&random, HIDDEN_MAX - 1),
               .layers = 2 + (uint32_t)tn__random_below(&random, LAYERS_MAX - 1),
               .experts = 1 + (uint32_t)tn__random_below(&random, 6)};
    const int64_t inner = 1 + (int64_t)tn__random_below(&random, 9);
    const int64_t chosen = 1 + (int64_t)tn__random_below(&random, n->experts);
    const int64_t shape[2] = {n->tokens, n->hidden};
    assert_ok(tn_graph_create(NULL, &n->graph, &failure));
    strcpy(n->path, "/tmp/tenure-experts-XXXXXX");
    n->file = fdopen(mkstemp(n->path), "wb");
    assert_non_null(n->file);
    tn_tensor_id x = tensor(n, "x", TN_KIND_INPUT, 2, shape, false);
    for (uint32_t layer = 0; layer < n->layers; layer++) {
        bool last = layer + 1 == n->layers, biased = tn__random_below(&random, 2) == 0;
        tn_tensor_id scores = tensor(n, "s", TN_KIND_ACTIVATION, 0, NULL, false);
        tn_tensor_id y = tensor(n, "y", TN_KIND_ACTIVATION, 0, NULL, false);
        tn_tensor_id router = part(n, layer, "router", 2, n->hidden, n->experts, 0, true);
        tn_tensor_id z =
            tensor(n, "z", last ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, 2, shape, false);
        apply(n->graph, "MatMul", 0, (tn_tensor_id[]){x, router}, 2, &scores, 1);
        mixture(n, layer, x, scores, y, inner, chosen, biased, stored);
        apply(n->graph, "Add", 0, (tn_tensor_id[]){x, y}, 2, &z, 1);
        x = z;
    }
    assert_int_equal(fclose(n->file), 0);
    assert_ok(tn_graph_infer(n->graph, &failure));
}

static void net_close(net *n) {
    tn_graph_destroy(n->graph);
    unlink(n->path);
}

static tn_status net_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                          uint64_t size, tn_error *error) {
    (void)self;
    (void)error;
    for (uint64_t i = 0; i < size / 4; i++)
        ((float *)bytes)[i] = weight_of(tn_graph_tensor(graph, id)->name, i);
    return TN_OK;
}

static tn_status net_where(void *self, const tn_graph *graph, tn_tensor_id id, tn_file_range *range,
                           bool *found, tn_error *error) {
    const tn_tensor *it = tn_graph_tensor(graph, id);
    (void)error;
    *found = it->payload.size > 0;
    *range = (tn_file_range){((net *)self)->path, it->payload.offset, it->payload.size};
    return TN_OK;
}

/* --- runs --- */

typedef struct run {
    tn_setup *setup;
    tn_engine *engine;
    float out[TOKENS_MAX * HIDDEN_MAX];
} run;

/* slots 0: all experts are in memory. */
static tn_status run_open(run *r, net *n, uint32_t slots, double speed, const tn_context *context) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    *r = (run){0};
    kernels.plain = true;
    options.context = context;
    options.kernels = &kernels;
    options.expert_slots = slots;
    engine.read = net_read;
    engine.where = net_where;
    engine.self = n;
    engine.poison = true;
    engine.storage_bytes_per_s = speed;
    TN_TRY(tn_setup_create(n->graph, &options, &r->setup, &failure));
    return tn_setup_open(r->setup, NULL, &engine, &r->engine, &failure);
}

static void run_close(run *r) {
    tn_engine_destroy(r->engine);
    tn_setup_destroy(r->setup);
}

static tn_status run_once(run *r, const net *n, const char *input) {
    static float x[TOKENS_MAX * HIDDEN_MAX];
    for (int64_t i = 0; i < n->tokens * n->hidden; i++) x[i] = weight_of(input, (uint64_t)i);
    tn_array in = {.dtype = TN_FLOAT32, .rank = 2, .data = x}, out = {.data = r->out};
    in.shape[0] = n->tokens, in.shape[1] = n->hidden;
    in.bytes = out.bytes = 4 * (uint64_t)(n->tokens * n->hidden);
    memset(r->out, 0x55, sizeof r->out);
    return tn_engine_run(r->engine, &in, 1, &out, 1, &failure);
}

/* --- tests --- */

static void expect_counts(const net *n, const run *r, bool first, tn_engine_usage *usage) {
    const tn_expert_cache *cache = tn_setup_experts(r->setup);
    tn_engine_measure(r->engine, usage);
    assert_int_equal(usage->static_bytes, tn_setup_need(r->setup).statics);
    assert_true(usage->row_hits <= usage->row_uses && usage->row_uses >= n->layers);
    assert_true(usage->row_reads >= usage->row_uses - usage->row_hits);
    assert_true(usage->row_right <= usage->row_guesses);
    /* every read is for a miss or for a guess */
    assert_true(usage->row_reads <= usage->row_uses - usage->row_hits + usage->row_guesses);
    if (first) assert_true(usage->row_hits <= usage->row_right);
    if (!first && cache->slots == cache->experts) {
        assert_int_equal(usage->row_reads, 0);
        assert_int_equal(usage->row_bytes, 0);
        assert_int_equal(usage->row_hits, usage->row_uses);
    }
    if (cache->slots == 1) assert_int_equal(usage->row_guesses, 0);
}

static void compare(net *n, run *plain, uint32_t slots, uint64_t *guessed) {
    run r;
    tn_engine_usage usage;
    assert_ok(run_open(&r, n, slots, 0, NULL));
    const tn_expert_cache *cache = tn_setup_experts(r.setup);
    assert_non_null(cache);
    assert_int_equal(cache->operators, n->layers);
    assert_int_equal(cache->experts, n->layers * n->experts);
    assert_int_equal(cache->slots, slots < cache->experts ? slots : cache->experts);
    assert_true(cache->cache_bytes >= cache->slots * cache->expert_bytes);
    const char *const inputs[] = {"a", "a", "b", "a"};
    for (int i = 0; i < 4; i++) {
        assert_ok(run_once(plain, n, inputs[i]));
        assert_ok(run_once(&r, n, inputs[i]));
        assert_memory_equal(r.out, plain->out, 4 * (size_t)(n->tokens * n->hidden));
        /* the second run is that of the first input again */
        if (i == 0 || i == 1 || cache->slots < cache->experts)
            expect_counts(n, &r, i == 0, &usage);
        else
            tn_engine_measure(r.engine, &usage);
        *guessed += usage.row_right;
    }
    run_close(&r);
}

static void caches_of_every_size_give_the_bits_of_all_experts(void **state) {
    (void)state;
    uint64_t guessed = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        net n;
        run plain;
        net_open(&n, seed, seed % 3 != 0);
        assert_ok(run_open(&plain, &n, 0, 0, NULL));
        assert_null(tn_setup_experts(plain.setup));
        const uint32_t all = n.layers * n.experts;
        for (uint32_t slots = 1; slots <= all; slots += 1 + slots / 4)
            compare(&n, &plain, slots, &guessed);
        compare(&n, &plain, all + 7, &guessed);
        run_close(&plain);
        net_close(&n);
    }
    assert_true(guessed > 100);
}

/* The plan of two caches differs by their bytes, and by nothing else. */
static void the_cache_is_static_memory_of_the_plan(void **state) {
    (void)state;
    net n;
    run one, two;
    net_open(&n, 2, true);
    assert_ok(run_open(&one, &n, 1, 0, NULL));
    assert_ok(run_open(&two, &n, 2, 0, NULL));
    const tn_expert_cache *small = tn_setup_experts(one.setup),
                          *large = tn_setup_experts(two.setup);
    assert_int_equal(tn_setup_need(two.setup).total - tn_setup_need(one.setup).total,
                     large->cache_bytes - small->cache_bytes);
    assert_int_equal(tn_setup_need(two.setup).arena, tn_setup_need(one.setup).arena);
    run_close(&one);
    run_close(&two);
    net_close(&n);
}

static void a_slow_file_is_waited_for(void **state) {
    (void)state;
    net n;
    run r;
    tn_engine_usage usage;
    const double speed = 1e5;
    net_open(&n, 5, true);
    assert_ok(run_open(&r, &n, 1, speed, NULL));
    assert_ok(run_once(&r, &n, "a"));
    tn_engine_measure(r.engine, &usage);
    assert_true(usage.row_bytes > 0);
    assert_true(usage.seconds >= (double)usage.row_bytes / speed);
    assert_true(usage.row_wait_seconds > 0 && usage.row_wait_seconds <= usage.seconds);
    run_close(&r);
    net_close(&n);
}

static void files_that_change_or_end_are_told_with_their_byte(void **state) {
    (void)state;
    net n;
    run r;
    struct stat facts;
    net_open(&n, 5, true);
    assert_ok(run_open(&r, &n, 1, 0, NULL));
    assert_ok(run_once(&r, &n, "a"));
    assert_int_equal(stat(n.path, &facts), 0);
    assert_int_equal(truncate(n.path, 1), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_once(&r, &n, "a"), TN_E_IO);
        assert_non_null(strstr(failure.where, n.path));
        assert_non_null(strstr(failure.where, "expert "));
    }
    run_close(&r);
    net_close(&n);
    net_open(&n, 5, true);
    assert_ok(run_open(&r, &n, 1, 0, NULL));
    struct timespec times[2] = {facts.st_atim, facts.st_mtim};
    times[1].tv_sec += 100;
    assert_int_equal(utimensat(AT_FDCWD, n.path, times, 0), 0);
    assert_int_equal(run_once(&r, &n, "a"), TN_E_IO);
    assert_non_null(strstr(failure.message, "was changed"));
    run_close(&r);
    net_close(&n);
}

static void graphs_without_mixtures_are_refused(void **state) {
    (void)state;
    const int64_t shape[1] = {4};
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_setup *setup;
    net n = {0};
    assert_ok(tn_graph_create(NULL, &n.graph, &failure));
    tn_tensor_id x = tensor(&n, "x", TN_KIND_INPUT, 1, shape, false);
    tn_tensor_id y = tensor(&n, "y", TN_KIND_OUTPUT, 1, shape, false);
    apply(n.graph, "Relu", 0, &x, 1, &y, 1);
    assert_ok(tn_graph_infer(n.graph, &failure));
    options.expert_slots = 1;
    assert_int_equal(tn_setup_create(n.graph, &options, &setup, &failure), TN_E_UNSUPPORTED);
    assert_non_null(strstr(failure.message, "mixture"));
    tn_graph_destroy(n.graph);
}

/* The number that the next open file would get: a file that is left open changes it. */
static int next_file(void) {
    int file = open("/dev/null", O_RDONLY);
    close(file);
    return file;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    net n;
    uint64_t failed = 0;
    net_open(&n, 2, false);
    int file = next_file();
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        run r;
        tn_status status = run_open(&r, &n, 3, 0, &context);
        if (status == TN_OK) assert_ok(run_once(&r, &n, "a"));
        run_close(&r);
        assert_int_equal(memory.held, 0);
        assert_int_equal(next_file(), file);
        if (status == TN_OK && memory.requests < at) break;
        failed += status != TN_OK;
        if (status != TN_OK) assert_int_equal(status, TN_E_NO_MEMORY);
    }
    assert_true(failed > 50);
    net_close(&n);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_of_every_size_give_the_bits_of_all_experts),
        cmocka_unit_test(the_cache_is_static_memory_of_the_plan),
        cmocka_unit_test(a_slow_file_is_waited_for),
        cmocka_unit_test(files_that_change_or_end_are_told_with_their_byte),
        cmocka_unit_test(graphs_without_mixtures_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
