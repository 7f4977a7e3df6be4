/* test_stream.c - weights that come from their file when they are needed: the bits of the run where
 * all stay, within every budget from the least on, by one reading for each time that it is needed;
 * files that change, end, or are none.
 */
#define GRAPH_DTYPE TN_FLOAT32
#include "rig.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/engine.h>
#include <tenure/run.h>

#define LAYERS_MAX 10u

/* --- networks: products with biases, some weights twice, some turned round first --- */

typedef struct net {
    tn_graph *graph;
    int64_t width;
    char path[64];
    uint64_t at[4 * LAYERS_MAX + 8]; /* [tensors] offset in the file; UINT64_MAX: not there */
    uint64_t weights;                /* bytes of all */
} net;

static tn_tensor_id matrix(net *n, const char *name, tn_kind kind, int64_t rows, int64_t columns) {
    tn_tensor_id id;
    const int64_t shape[2] = {rows, columns};
    tn_tensor_spec spec = {.name = name, .kind = kind};
    if (rows > 0) {
        spec.dtype = TN_FLOAT32;
        spec.rank = 2;
        spec.shape = shape;
    }
    assert_ok(tn_graph_add_tensor(n->graph, &spec, &id, &failure));
    return id;
}

static float weight_of(tn_tensor_id id, uint64_t i) {
    tn__random random = {.state = ((uint64_t)id << 32) ^ i};
    return (float)(tn__random_next(&random) >> 40) / (float)(1 << 23) - 1;
}

static void net_write(net *n, tn__random *random) {
    FILE *file = fopen(n->path, "wb");
    uint64_t at = 0;
    assert_non_null(file);
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(n->graph); t++) {
        const tn_tensor *tensor = tn_graph_tensor(n->graph, t);
        n->at[t] = UINT64_MAX;
        if (tensor->kind != TN_KIND_PARAMETER) continue;
        n->weights += tensor->bytes;
        for (uint64_t gap = tn__random_below(random, 100); gap > 0; gap--, at++) fputc(77, file);
        n->at[t] = at;
        for (uint64_t i = 0; i < tensor->bytes / 4; i++, at += 4) {
            float number = weight_of(t, i);
            assert_int_equal(fwrite(&number, 4, 1, file), 1);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static void net_open(net *n, uint64_t seed) {
    tn__random random = {.state = seed};
    *n = (net){.width = 16 + 4 * (int64_t)tn__random_below(&random, 12)};
    assert_ok(tn_graph_create(NULL, &n->graph, &failure));
    strcpy(n->path, "/tmp/tenure-stream-XXXXXX");
    int file = mkstemp(n->path);
    assert_true(file >= 0);
    close(file);
    tn_tensor_id x = matrix(n, "x", TN_KIND_INPUT, 3, n->width), before = TN_NONE;
    uint32_t layers = 3 + (uint32_t)tn__random_below(&random, LAYERS_MAX - 3);
    for (uint32_t i = 0; i < layers; i++) {
        bool same = before != TN_NONE && tn__random_below(&random, 4) == 0;
        bool turned = tn__random_below(&random, 4) == 0;
        tn_tensor_id w = same ? before : matrix(n, "w", TN_KIND_PARAMETER, n->width, n->width);
        before = w;
        if (turned) {
            tn_tensor_id flat = matrix(n, "turned", TN_KIND_ACTIVATION, 0, 0);
            apply(n->graph, "Transpose", 0, &w, 1, &flat, 1);
            w = flat;
        }
        tn_tensor_id y = matrix(n, "y", TN_KIND_ACTIVATION, 0, 0), z = y;
        tn_tensor_id b = matrix(n, "b", TN_KIND_PARAMETER, 1, n->width);
        bool last = i + 1 == layers;
        z = matrix(n, "z", last ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, 0, 0);
        apply(n->graph, "MatMul", 0, (tn_tensor_id[]){x, w}, 2, &y, 1);
        apply(n->graph, "Add", 0, (tn_tensor_id[]){y, b}, 2, &z, 1);
        x = z;
    }
    assert_ok(tn_graph_infer(n->graph, &failure));
    net_write(n, &random);
}

static void net_close(net *n) {
    tn_graph_destroy(n->graph);
    unlink(n->path);
}

static tn_status net_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                          uint64_t size, tn_error *error) {
    (void)self;
    (void)graph;
    (void)error;
    for (uint64_t i = 0; i < size / 4; i++) ((float *)bytes)[i] = weight_of(id, i);
    return TN_OK;
}

static tn_status net_where(void *self, const tn_graph *graph, tn_tensor_id id, tn_file_range *range,
                           bool *found, tn_error *error) {
    const net *n = self;
    (void)error;
    *found = n->at[id] != UINT64_MAX;
    *range = (tn_file_range){n->path, n->at[id], tn_graph_tensor(graph, id)->bytes};
    return TN_OK;
}

/* --- set-ups --- */

typedef struct run {
    tn_setup *setup;
    tn_engine *engine;
    tn_costs *costs;
    float out[3 * 64];
} run;

static void run_close(run *r) {
    tn_engine_destroy(r->engine);
    tn_setup_destroy(r->setup);
    tn_costs_destroy(r->costs);
}

/* budget 0: all weights stay. */
static tn_status run_open_in(run *r, net *n, uint64_t budget, bool library, bool poison,
                             const tn_context *context, double speed, bool parts) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    tn_setup_stream stream = {
        .budget = budget, .bytes_per_s = 1e9, .latency_s = 1e-6, .parts = parts};
    *r = (run){0};
    model.flops_per_s = 1e9, model.bytes_per_s = 1e9, model.context = context;
    kernels.plain = !library;
    TN_TRY(tn_costs_create_model(n->graph, &model, &r->costs, &failure));
    options.context = context;
    options.kernels = &kernels;
    if (!parts) options.costs = r->costs;
    options.stream = budget > 0 ? &stream : NULL;
    engine.read = net_read;
    engine.where = net_where;
    engine.self = n;
    engine.poison = poison;
    engine.storage_bytes_per_s = speed;
    TN_TRY(tn_setup_create(n->graph, &options, &r->setup, &failure));
    return tn_setup_open(r->setup, NULL, &engine, &r->engine, &failure);
}

static tn_status run_open(run *r, net *n, uint64_t budget, bool library, bool poison,
                          const tn_context *context, double speed) {
    return run_open_in(r, n, budget, library, poison, context, speed, false);
}

static tn_status run_once(run *r, const net *n) {
    static float x[3 * 64];
    for (int64_t i = 0; i < 3 * n->width; i++) x[i] = weight_of(9999, (uint64_t)i);
    tn_array input = {.dtype = TN_FLOAT32, .rank = 2, .data = x}, output = {.data = r->out};
    input.shape[0] = 3, input.shape[1] = n->width;
    input.bytes = output.bytes = 12 * (uint64_t)n->width;
    memset(r->out, 0x55, sizeof r->out);
    return tn_engine_run(r->engine, &input, 1, &output, 1, &failure);
}

/* What a program of these kernels needs at least: a step with its operands, nothing else. */
static uint64_t least_of(net *n, bool library) {
    run r;
    uint64_t least = 0;
    tn_status status = run_open(&r, n, 1, library, false, NULL, 0);
    assert_int_equal(status, TN_E_EXHAUSTED);
    run_close(&r);
    const char *at = strstr(failure.message, " needs ");
    assert_non_null(at);
    const char *exact = strchr(at, '(');
    char *end;
    if (exact == NULL) return strtoull(at + strlen(" needs "), &end, 10);
    for (at = exact + 1; *at != ' '; at++)
        if (*at >= '0' && *at <= '9') least = 10 * least + (uint64_t)(*at - '0');
    return least;
}

/* --- tests --- */

static void compare(net *n, uint64_t seed, bool library, uint64_t budget, const run *plain,
                    uint64_t *fetched) {
    run r;
    tn_engine_usage usage;
    if (run_open(&r, n, budget, library, true, NULL, 0) != TN_OK)
        fail_msg("seed %llu, budget %llu: %s: %s", (unsigned long long)seed,
                 (unsigned long long)budget, failure.where, failure.message);
    const tn_stream_result *streamed = tn_setup_streamed(r.setup);
    for (int i = 0; i < 2; i++) {
        assert_ok(run_once(&r, n));
        tn_engine_measure(r.engine, &usage);
        if (memcmp(r.out, plain->out, 12 * (size_t)n->width) != 0)
            fail_msg("seed %llu, budget %llu: other bits", (unsigned long long)seed,
                     (unsigned long long)budget);
        assert_true(usage.measured_peak <= budget && usage.arena <= budget);
        if (streamed == NULL) continue;
        assert_int_equal(usage.fetch_bytes, streamed->fetched_bytes);
        assert_int_equal(usage.measured_peak, usage.planned_peak);
    }
    *fetched += usage.fetch_bytes;
    run_close(&r);
}

static void every_budget_gives_the_bits_of_the_run_where_all_stay(void **state) {
    (void)state;
    uint64_t fetched = 0, tried = 0;
    bool libraries = tn_kernels_library(NULL, &failure);
    for (uint64_t seed = 1; seed <= 16; seed++) {
        bool library = libraries && seed % 2 == 0;
        net n;
        run plain;
        net_open(&n, seed);
        assert_ok(run_open(&plain, &n, 0, library, false, NULL, 0));
        assert_ok(run_once(&plain, &n));
        uint64_t least = least_of(&n, library), all = tn_setup_need(plain.setup).total;
        assert_true(least < all);
        for (int i = 0; i <= 6; i++, tried++) {
            uint64_t budget = least + least / 50 + (all - least) * (uint64_t)i / 6;
            compare(&n, seed, library, budget, &plain, &fetched);
        }
        run_close(&plain);
        net_close(&n);
    }
    assert_true(tried == 112 && fetched > 1000000);
}

/* The same by a session: refused without parts. */
static void session_in_parts(net *n, uint64_t budget, const float *expected) {
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_session *session;
    tn_engine_usage usage;
    options.read = net_read;
    options.where = net_where;
    options.self = n;
    options.plain = options.stream = options.poison = true;
    options.budget = budget;
    assert_int_equal(tn_session_open(n->graph, &options, &session, &failure), TN_E_EXHAUSTED);
    options.stream_parts = true;
    assert_ok(tn_session_open(n->graph, &options, &session, &failure));
    const tn_block *block = tn_graph_block(n->graph, 0);
    float *x = tn_session_array(session, block->inputs[0])->data;
    for (int64_t i = 0; i < 3 * n->width; i++) x[i] = weight_of(9999, (uint64_t)i);
    assert_ok(tn_session_run(session, &failure));
    tn_engine_measure(tn_session_engine(session), &usage);
    assert_true(usage.arena <= budget && usage.measured_peak <= budget);
    assert_memory_equal(tn_session_array(session, block->outputs[0])->data, expected,
                        12 * (size_t)n->width);
    tn_session_close(session);
}

/* Below what a product needs at once, its weights come in slices. Our own loops sum each element in
 * the same order, however many there are. */
static void operators_in_parts_go_below_the_least(void **state) {
    (void)state;
    uint32_t cut = 0;
    for (uint64_t seed = 21; seed <= 24; seed++) {
        net n;
        run plain, r;
        tn_engine_usage usage;
        net_open(&n, seed);
        assert_ok(run_open(&plain, &n, 0, false, false, NULL, 0));
        assert_ok(run_once(&plain, &n));
        uint64_t budget = least_of(&n, false) * 3 / 4;
        assert_int_equal(run_open(&r, &n, budget, false, true, NULL, 0), TN_E_EXHAUSTED);
        run_close(&r);
        tn_status status = run_open_in(&r, &n, budget, false, true, NULL, 0, true);
        if (status != TN_OK)
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, failure.where, failure.message);
        assert_non_null(tn_setup_splits(r.setup));
        assert_ok(run_once(&r, &n));
        tn_engine_measure(r.engine, &usage);
        assert_true(usage.arena <= budget && usage.measured_peak <= budget);
        assert_memory_equal(r.out, plain.out, 12 * (size_t)n.width);
        cut += tn_setup_splits(r.setup)->count;
        session_in_parts(&n, budget, plain.out);
        run_close(&r);
        run_close(&plain);
        net_close(&n);
    }
    assert_true(cut >= 8);
}

/* Where there is room for two weights at most, each is read for each time that it is needed. */
static void a_file_that_is_slow_is_read_ahead_and_waited_for(void **state) {
    (void)state;
    net n;
    run r, plain;
    tn_engine_usage usage;
    const double speed = 2e6;
    net_open(&n, 3);
    assert_ok(run_open(&plain, &n, 0, false, false, NULL, 0));
    assert_ok(run_once(&plain, &n));
    uint64_t least = least_of(&n, false), all = tn_setup_need(plain.setup).total;
    assert_ok(run_open(&r, &n, least + (all - least) / 4, false, false, NULL, speed));
    assert_ok(run_once(&r, &n));
    tn_engine_measure(r.engine, &usage);
    assert_memory_equal(r.out, plain.out, 12 * (size_t)n.width);
    assert_true(usage.fetch_bytes > 0);
    assert_true(usage.seconds >= (double)usage.fetch_bytes / speed);
    assert_true(usage.fetch_seconds >= (double)usage.fetch_bytes / speed);
    assert_true(usage.stall_seconds > 0 && usage.stall_seconds < usage.seconds);
    run_close(&r);
    run_close(&plain);
    net_close(&n);
}

static void touch(const char *path) { /* a second later, whatever the clock of files can tell */
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    struct timespec times[2] = {facts.st_atim, facts.st_mtim};
    times[1].tv_sec++;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void files_that_change_or_end_are_told_with_their_byte(void **state) {
    (void)state;
    net n;
    run r;
    struct stat facts;
    net_open(&n, 5);
    uint64_t least = least_of(&n, false);
    assert_ok(run_open(&r, &n, least + least / 20, false, false, NULL, 0));
    assert_ok(run_once(&r, &n));
    assert_int_equal(stat(n.path, &facts), 0);
    assert_int_equal(truncate(n.path, facts.st_size / 2), 0);
    assert_int_equal(run_once(&r, &n), TN_E_IO);
    assert_non_null(strstr(failure.where, n.path));
    assert_non_null(strstr(failure.where, "byte "));
    assert_non_null(strstr(failure.where, "tensor '"));
    run_close(&r);
    /* half of it is there when it is opened: the first tensor that is not ends the run */
    tn_status status = run_open(&r, &n, least + least / 20, false, false, NULL, 0);
    if (status == TN_OK) status = run_once(&r, &n); /* what stays is read before */
    assert_int_equal(status, TN_E_IO);
    assert_non_null(strstr(failure.message, "ends here"));
    const char *byte = strstr(failure.where, "byte ");
    assert_non_null(byte);
    assert_true(strtoll(byte + 5, NULL, 10) >= (long long)(facts.st_size / 2));
    run_close(&r);
    net_close(&n);
    net_open(&n, 5);
    assert_ok(run_open(&r, &n, least + least / 20, false, false, NULL, 0));
    touch(n.path);
    assert_int_equal(run_once(&r, &n), TN_E_IO);
    assert_non_null(strstr(failure.message, "was changed"));
    run_close(&r);
    unlink(n.path);
    assert_int_equal(mkfifo(n.path, 0600), 0);
    assert_int_equal(run_open(&r, &n, least + least / 20, false, false, NULL, 0), TN_E_IO);
    assert_non_null(strstr(failure.message, "no regular file"));
    run_close(&r);
    net_close(&n);
}

/* Another speed than of memory, or at least one; nothing is left in the folder. */
static void the_speed_of_files_and_folders_is_measured(void **state) {
    (void)state;
    char folder[] = "/tmp/tenure-folder-XXXXXX";
    double speed = 0;
    net n;
    net_open(&n, 9);
    assert_ok(tn_storage_measure(n.path, &speed, &failure));
    assert_true(speed > 1e3 && speed < 1e12);
    assert_non_null(mkdtemp(folder));
    assert_ok(tn_storage_measure(folder, &speed, &failure));
    assert_true(speed > 1e5 && speed < 1e12);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(tn_storage_measure(folder, &speed, &failure), TN_E_IO);
    assert_int_equal(truncate(n.path, 0), 0);
    assert_int_equal(tn_storage_measure(n.path, &speed, &failure), TN_E_INVALID);
    net_close(&n);
}

static void below_the_least_the_operator_is_named(void **state) {
    (void)state;
    net n;
    run r;
    net_open(&n, 7);
    assert_int_equal(run_open(&r, &n, 1000, false, false, NULL, 0), TN_E_EXHAUSTED);
    assert_non_null(strstr(failure.message, "MatMul"));
    run_close(&r);
    net_close(&n);
}

/* The next number that a file would get: what is left open keeps it away. */
static int next_file(void) {
    int file = open("/dev/null", O_RDONLY);
    close(file);
    return file;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    net n;
    net_open(&n, 4);
    uint64_t least = least_of(&n, false), failed = 0;
    int file = next_file();
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        run r;
        tn_status status = run_open(&r, &n, least + least / 10, false, false, &context, 0);
        if (status == TN_OK) assert_ok(run_once(&r, &n));
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
        cmocka_unit_test(every_budget_gives_the_bits_of_the_run_where_all_stay),
        cmocka_unit_test(operators_in_parts_go_below_the_least),
        cmocka_unit_test(a_file_that_is_slow_is_read_ahead_and_waited_for),
        cmocka_unit_test(files_that_change_or_end_are_told_with_their_byte),
        cmocka_unit_test(the_speed_of_files_and_folders_is_measured),
        cmocka_unit_test(below_the_least_the_operator_is_named),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
