/* test_contents.c - contents of tensors: what contents.py cannot see. Memory that runs out, files
 * that changed, contents that are made up. */
#include "proto.h"

#include <math.h>
#include <unistd.h>

#include <tenure/graph.h>

#include "io/import/importer.h"

/* --- an allocator that counts, and fails on demand --- */

typedef struct counter {
    uint64_t calls, fail_at; /* 0: never */
    size_t held;
} counter;

static void *counter_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                            size_t alignment) {
    counter *count = self;
    (void)alignment;
    if (new_size != 0 && ++count->calls == count->fail_at) return NULL;
    void *result = NULL;
    if (new_size != 0) {
        result = realloc(pointer, new_size);
        if (result == NULL) return NULL;
    } else {
        free(pointer);
    }
    count->held += new_size - old_size;
    return result;
}

static tn_context counted(counter *count) {
    tn_context context = TN_CONTEXT_INIT;
    context.allocator = (tn_allocator){counter_resize, count};
    return context;
}

/* --- models --- */

static const float numbers[6] = {1, -2, 3.5F, 0, 1e-8F, INFINITY};

static proto sparse_tensor(void) {
    static const float values[2] = {5, -6};
    static const int64_t places[2] = {1, 4};
    proto sparse = {0};
    proto_sub(&sparse, 1, onnx_tensor("s", FLOAT, "2", values, sizeof values));
    proto_sub(&sparse, 2, onnx_tensor("", INT64, "2", places, sizeof places));
    proto_int(&sparse, 3, 2);
    proto_int(&sparse, 3, 3);
    return sparse;
}

static proto external_tensor(const char *name, const char *location) {
    proto tensor = onnx_tensor(name, FLOAT, "2,3", NULL, 0);
    onnx_entry(&tensor, 13, "location", location);
    proto_int(&tensor, 14, 1);
    return tensor;
}

/* x -> y with parameters w (in the file), s (sparse), e (external), n (nowhere). */
static proto sample_model(void) {
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x,w,s,e,n", "y"));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("w", FLOAT, "2,3", numbers, sizeof numbers));
    proto_sub(&graph, GRAPH_SPARSE, sparse_tensor());
    proto_sub(&graph, GRAPH_INITIALIZER, external_tensor("e", "weights.bin"));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("n", FLOAT, "2,3", NULL, 0));
    return onnx_model(graph);
}

typedef struct folder {
    char path[64], model[96], weights[96];
} folder;

static void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static folder make_folder(void) {
    folder made;
    snprintf(made.path, sizeof made.path, "/tmp/tenure-contents-XXXXXX");
    assert_non_null(mkdtemp(made.path));
    snprintf(made.model, sizeof made.model, "%s/m.onnx", made.path);
    snprintf(made.weights, sizeof made.weights, "%s/weights.bin", made.path);
    proto model = sample_model();
    write_file(made.model, model.data, model.size);
    free(model.data);
    write_file(made.weights, numbers, sizeof numbers);
    return made;
}

static void drop_folder(const folder *made) {
    (void)unlink(made->model);
    (void)unlink(made->weights);
    assert_int_equal(rmdir(made->path), 0);
}

static tn_graph *load_file(const char *path) {
    tn_graph *graph;
    tn_error error;
    if (tn_graph_load(path, NULL, &graph, &error) != TN_OK)
        fail_msg("%s: %s", error.where, error.message);
    return graph;
}

static tn_status read_named(tn_contents *contents, const tn_graph *graph, const char *name,
                            float *out, tn_error *error) {
    tn_tensor_id id = tn_graph_find(graph, name);
    assert_true(id != TN_NONE);
    return tn_contents_read(contents, graph, id, out, 6 * sizeof *out, error);
}

/* What lies in a file as it is wanted can be read from there; a sparse tensor cannot. */
static void check_where(tn_contents *contents, const tn_graph *graph) {
    tn_file_range range;
    tn_error error;
    float there[6];
    bool found;
    tn_tensor_id w = tn_graph_find(graph, "w"), s = tn_graph_find(graph, "s");
    assert_int_equal(tn_contents_where(contents, graph, w, &range, &found, &error), TN_OK);
    assert_true(found && range.size == sizeof there);
    FILE *file = fopen(range.path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)range.offset, SEEK_SET), 0);
    assert_int_equal(fread(there, 1, sizeof there, file), sizeof there);
    fclose(file);
    assert_memory_equal(there, numbers, sizeof numbers);
    assert_int_equal(tn_contents_where(contents, graph, s, &range, &found, &error), TN_OK);
    assert_false(found);
}

/* --- reading --- */

static tn_status read_all(const char *path, const tn_graph *graph, const tn_context *context) {
    static const float sparse[6] = {0, 5, 0, 0, -6, 0};
    tn_contents *contents = NULL;
    tn_error error = {0};
    float got[6];
    tn_status status = tn_contents_open(path, context, &contents, &error);
    if (status == TN_OK) status = read_named(contents, graph, "w", got, &error);
    if (status == TN_OK) assert_memory_equal(got, numbers, sizeof numbers);
    if (status == TN_OK) check_where(contents, graph);
    if (status == TN_OK) status = read_named(contents, graph, "s", got, &error);
    if (status == TN_OK) assert_memory_equal(got, sparse, sizeof sparse);
    if (status == TN_OK) status = read_named(contents, graph, "e", got, &error);
    if (status == TN_OK) assert_memory_equal(got, numbers, sizeof numbers);
    if (status == TN_OK) status = read_named(contents, graph, "e", got, &error);
    if (status != TN_OK) assert_true(error.status == status && error.message[0] != 0);
    tn_contents_close(contents);
    return status;
}

static void reading_survives_every_allocation_that_fails(void **state) {
    (void)state;
    folder made = make_folder();
    tn_graph *graph = load_file(made.model);
    tn_status status = TN_E_NO_MEMORY;
    uint64_t at = 1;
    for (; status == TN_E_NO_MEMORY; at++) {
        counter count = {.fail_at = at};
        tn_context context = counted(&count);
        status = read_all(made.model, graph, &context);
        assert_int_equal(count.held, 0);
    }
    assert_int_equal(status, TN_OK);
    assert_true(at > 5); /* something was asked for */
    tn_graph_destroy(graph);
    drop_folder(&made);
}

static void a_file_that_shrank_is_refused(void **state) {
    (void)state;
    folder made = make_folder();
    tn_graph *graph = load_file(made.model);
    proto model = sample_model();
    float got[6];
    /* As long as it still looks like a model; what it lost may be any tensor's. */
    for (size_t size = 40; size < model.size; size++) {
        write_file(made.model, model.data, size);
        tn_contents *contents = NULL;
        tn_error error = {0};
        tn_status status = tn_contents_open(made.model, NULL, &contents, &error);
        assert_int_equal(status, TN_OK);
        status = read_named(contents, graph, "n", got, &error); /* stands last */
        assert_true(status == TN_E_INVALID || status == TN_E_UNKNOWN);
        assert_non_null(strstr(error.where, "'n'"));
        tn_contents_close(contents);
    }
    free(model.data);
    tn_graph_destroy(graph);
    drop_folder(&made);
}

static void another_model_is_refused_or_read_within_its_bounds(void **state) {
    (void)state;
    folder made = make_folder();
    tn_graph *graph = load_file(made.model);
    proto model = sample_model();
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        proto damaged = {0};
        proto_raw(&damaged, model.data, model.size);
        for (int i = 0; i < 3; i++) {
            seed = seed * 1103515245u + 12345u;
            damaged.data[(seed >> 8) % damaged.size] = (uint8_t)(seed >> 24);
        }
        tn_contents *contents = NULL;
        tn_error error = {0};
        float got[6];
        static const char *const names[] = {"w", "s", "e", "n"};
        tn__span file = {damaged.data, damaged.size};
        assert_int_equal(tn__contents_memory("m.onnx", file, NULL, &contents, &error), TN_OK);
        for (int i = 0; i < 4; i++) {
            tn_status status = read_named(contents, graph, names[i], got, &error);
            assert_true(status == TN_OK || status == TN_E_INVALID || status == TN_E_UNKNOWN ||
                        status == TN_E_IO || status == TN_E_UNSUPPORTED);
        }
        tn_contents_close(contents);
        free(damaged.data);
    }
    free(model.data);
    tn_graph_destroy(graph);
    drop_folder(&made);
}

static void only_the_size_that_is_needed_is_read(void **state) {
    (void)state;
    folder made = make_folder();
    tn_graph *graph = load_file(made.model);
    tn_contents *contents;
    tn_error error;
    float got[7];
    assert_int_equal(tn_contents_open(made.model, NULL, &contents, &error), TN_OK);
    tn_tensor_id id = tn_graph_find(graph, "w");
    assert_int_equal(tn_contents_read(contents, graph, id, got, 20, &error), TN_E_INVALID);
    assert_int_equal(tn_contents_read(contents, graph, id, got, 28, &error), TN_E_INVALID);
    assert_int_equal(tn_contents_read(contents, graph, 12345, got, 24, &error), TN_E_INVALID);
    assert_int_equal(read_named(contents, graph, "n", got, &error), TN_E_UNKNOWN);
    tn_contents_close(contents);
    tn_graph_destroy(graph);
    drop_folder(&made);
}

static void standard_input_is_gone_when_contents_are_wanted(void **state) {
    (void)state;
    tn_contents *contents = NULL;
    tn_error error;
    assert_int_equal(tn_contents_open("-", NULL, &contents, &error), TN_E_UNSUPPORTED);
    assert_null(contents);
    tn_contents_close(NULL);
}

/* --- graphs without a file --- */

static tn_graph *built_graph(tn_tensor_id ids[7]) {
    static const int64_t shape[] = {50, 40}, channels[] = {40}, one[] = {1};
    static const double scale[] = {0.25};
    static const int64_t counts[] = {-3};
    tn_graph *graph;
    tn_error error;
    tn_tensor_spec specs[7] = {
        {.name = "w", .dtype = TN_FLOAT32, .rank = 2, .shape = shape, .kind = TN_KIND_PARAMETER},
        {.name = "v", .dtype = TN_FLOAT32, .rank = 2, .shape = shape, .kind = TN_KIND_PARAMETER},
        {.name = "gamma",
         .dtype = TN_FLOAT16,
         .rank = 1,
         .shape = channels,
         .kind = TN_KIND_PARAMETER},
        {.name = "beta",
         .dtype = TN_FLOAT64,
         .rank = 1,
         .shape = channels,
         .kind = TN_KIND_PARAMETER},
        {.name = "q", .dtype = TN_INT4, .rank = 1, .shape = channels, .kind = TN_KIND_PARAMETER},
        {.name = "half",
         .dtype = TN_FLOAT16,
         .rank = 1,
         .shape = one,
         .kind = TN_KIND_CONSTANT,
         .value = {.count = 1, .floats = scale}},
        {.name = "three",
         .dtype = TN_INT16,
         .rank = 1,
         .shape = one,
         .kind = TN_KIND_CONSTANT,
         .value = {.count = 1, .ints = counts}},
    };
    assert_int_equal(tn_graph_create(NULL, &graph, &error), TN_OK);
    for (int i = 0; i < 7; i++)
        assert_int_equal(tn_graph_add_tensor(graph, &specs[i], &ids[i], &error), TN_OK);
    tn_tensor_spec out = {.name = "y", .kind = TN_KIND_OUTPUT};
    tn_tensor_id y;
    assert_int_equal(tn_graph_add_tensor(graph, &out, &y, &error), TN_OK);
    tn_tensor_id inputs[3] = {ids[0], ids[2], ids[3]};
    tn_op_spec op = {.type = "LayerNormalization",
                     .inputs = inputs,
                     .input_count = 3,
                     .outputs = &y,
                     .output_count = 1};
    assert_int_equal(tn_graph_add_op(graph, &op, NULL, &error), TN_OK);
    return graph;
}

static void known_values_are_contents_without_any_file(void **state) {
    (void)state;
    tn_tensor_id ids[7];
    tn_graph *graph = built_graph(ids);
    tn_contents *contents;
    tn_error error;
    uint16_t half;
    int16_t three;
    assert_int_equal(tn_contents_generate(NULL, graph, 1, NULL, &contents, &error), TN_OK);
    assert_int_equal(tn_contents_read(contents, graph, ids[5], &half, 2, &error), TN_OK);
    assert_int_equal(half, 0x3400); /* 0.25 */
    assert_int_equal(tn_contents_read(contents, graph, ids[6], &three, 2, &error), TN_OK);
    assert_int_equal(three, -3);
    tn_contents_close(contents);
    tn_graph_destroy(graph);
}

static void what_is_made_up_follows_from_seed_and_name(void **state) {
    (void)state;
    tn_tensor_id ids[7];
    tn_graph *graph = built_graph(ids);
    tn_contents *one, *two;
    tn_error error;
    static float a[2000], b[2000];
    uint64_t size = sizeof a;
    assert_int_equal(tn_contents_generate(NULL, graph, 1, NULL, &one, &error), TN_OK);
    assert_int_equal(tn_contents_generate(NULL, graph, 2, NULL, &two, &error), TN_OK);
    assert_int_equal(tn_contents_read(one, graph, ids[0], a, size, &error), TN_OK);
    assert_int_equal(tn_contents_read(one, graph, ids[1], b, size, &error), TN_OK);
    assert_memory_not_equal(a, b, size); /* another name */
    assert_int_equal(tn_contents_read(two, graph, ids[0], b, size, &error), TN_OK);
    assert_memory_not_equal(a, b, size); /* another seed */
    assert_int_equal(tn_contents_read(one, graph, ids[0], b, size, &error), TN_OK);
    assert_memory_equal(a, b, size); /* the same, later */
    tn_contents_close(one);
    tn_contents_close(two);
    tn_graph_destroy(graph);
}

static void what_is_made_up_fits_its_use(void **state) {
    (void)state;
    tn_tensor_id ids[7];
    tn_graph *graph = built_graph(ids);
    tn_contents *contents;
    tn_error error;
    static float w[2000];
    double beta[40], squares = 0;
    uint16_t gamma[40];
    uint8_t packed[20];
    int below = 0, above = 0;
    assert_int_equal(tn_contents_generate(NULL, graph, 9, NULL, &contents, &error), TN_OK);
    assert_int_equal(tn_contents_read(contents, graph, ids[0], w, sizeof w, &error), TN_OK);
    for (int i = 0; i < 2000; i++) {
        squares += (double)w[i] * (double)w[i];
        assert_true(fabs((double)w[i]) < sqrt(3.0 / 40));
    }
    assert_true(fabs(squares / 2000 - 1.0 / 40) < 0.1 / 40); /* variance 1 / fan_in */
    assert_int_equal(tn_contents_read(contents, graph, ids[2], gamma, sizeof gamma, &error), TN_OK);
    for (int i = 0; i < 40; i++) assert_true(gamma[i] >= 0x3800 && gamma[i] <= 0x3e00);
    assert_int_equal(tn_contents_read(contents, graph, ids[3], beta, sizeof beta, &error), TN_OK);
    for (int i = 0; i < 40; i++) {
        assert_true(fabs(beta[i]) < 0.01);
        below += beta[i] < 0;
        above += beta[i] > 0;
    }
    assert_true(below > 5 && above > 5);
    assert_int_equal(tn_contents_read(contents, graph, ids[4], packed, sizeof packed, &error),
                     TN_OK);
    tn_contents_close(contents);
    tn_graph_destroy(graph);
}

static void making_up_survives_every_allocation_that_fails(void **state) {
    (void)state;
    tn_tensor_id ids[7];
    tn_graph *graph = built_graph(ids);
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t at = 1; status == TN_E_NO_MEMORY; at++) {
        counter count = {.fail_at = at};
        tn_context context = counted(&count);
        tn_contents *contents = NULL;
        tn_error error;
        status = tn_contents_generate(NULL, graph, 1, &context, &contents, &error);
        assert_true((status == TN_OK) == (contents != NULL));
        tn_contents_close(contents);
        assert_int_equal(count.held, 0);
    }
    assert_int_equal(status, TN_OK);
    tn_graph_destroy(graph);
}

/* --- arrays --- */

static void arrays_survive_every_allocation_that_fails(void **state) {
    (void)state;
    folder made = make_folder();
    float values[6] = {1, 2, 3, 4, 5, 6};
    tn_array array = {
        .dtype = TN_FLOAT32, .rank = 2, .shape = {2, 3}, .bytes = sizeof values, .data = values};
    tn_status status = TN_E_NO_MEMORY;
    tn_error error;
    char path[128];
    snprintf(path, sizeof path, "%s/a.npy", made.path);
    for (uint64_t at = 1; status == TN_E_NO_MEMORY; at++) {
        counter count = {.fail_at = at};
        tn_context context = counted(&count);
        status = tn_array_save(path, &array, &context, &error);
        assert_int_equal(count.held, 0);
    }
    assert_int_equal(status, TN_OK);
    status = TN_E_NO_MEMORY;
    for (uint64_t at = 1; status == TN_E_NO_MEMORY; at++) {
        counter count = {.fail_at = at};
        tn_context context = counted(&count);
        tn_array back = {0};
        status = tn_array_load(path, &context, &back, &error);
        if (status == TN_OK) assert_memory_equal(back.data, values, sizeof values);
        tn_array_release(&back, &context);
        assert_int_equal(count.held, 0);
        assert_null(back.data);
    }
    assert_int_equal(status, TN_OK);
    array.bytes = 20;
    assert_int_equal(tn_array_save(path, &array, NULL, &error), TN_E_INVALID);
    assert_int_equal(unlink(path), 0);
    drop_folder(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_survives_every_allocation_that_fails),
        cmocka_unit_test(a_file_that_shrank_is_refused),
        cmocka_unit_test(another_model_is_refused_or_read_within_its_bounds),
        cmocka_unit_test(only_the_size_that_is_needed_is_read),
        cmocka_unit_test(standard_input_is_gone_when_contents_are_wanted),
        cmocka_unit_test(known_values_are_contents_without_any_file),
        cmocka_unit_test(what_is_made_up_follows_from_seed_and_name),
        cmocka_unit_test(what_is_made_up_fits_its_use),
        cmocka_unit_test(making_up_survives_every_allocation_that_fails),
        cmocka_unit_test(arrays_survive_every_allocation_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
