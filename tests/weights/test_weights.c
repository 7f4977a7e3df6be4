/* test_weights.c - files of weights: what a header says comes back, contents become a graph's in
 * its type, and damage is refused byte by byte.
 */
#include <stdio.h>
#include <unistd.h>

#include <tenure/llm.h>

#include "base/base.h"
#include "support.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* --- making files --- */

typedef struct bytes {
    uint8_t at[8192];
    size_t size;
} bytes;

static void put(bytes *to, const void *from, size_t size) {
    assert_true(to->size + size <= sizeof to->at);
    if (size > 0) memcpy(to->at + to->size, from, size);
    to->size += size;
}
static void put_number(bytes *to, uint64_t number, uint32_t width) {
    for (uint32_t i = 0; i < width; i++) put(to, &(uint8_t){(uint8_t)(number >> (8 * i))}, 1);
}

static bytes safetensors(const char *header, const void *contents, size_t size) {
    bytes made = {.size = 0};
    put_number(&made, strlen(header), 8);
    put(&made, header, strlen(header));
    put(&made, contents, size);
    return made;
}

static void put_string(bytes *to, const char *text) {
    put_number(to, strlen(text), 8);
    put(to, text, strlen(text));
}

/* Two tensors: 4 x 32 in q8_0, 6 in f32; and keys of several kinds. */
static bytes gguf(void) {
    bytes made = {.size = 0};
    put(&made, "GGUF", 4);
    put_number(&made, 3, 4);
    put_number(&made, 2, 8);
    put_number(&made, 4, 8);
    put_string(&made, "general.architecture"), put_number(&made, 8, 4), put_string(&made, "llama");
    put_string(&made, "llama.block_count"), put_number(&made, 4, 4), put_number(&made, 7, 4);
    put_string(&made, "low"), put_number(&made, 5, 4), put_number(&made, 0xffffffff, 4);
    put_string(&made, "list"), put_number(&made, 9, 4), put_number(&made, 2, 4);
    put_number(&made, 3, 8), put_number(&made, 0x00030002000a, 6);
    put_string(&made, "a"), put_number(&made, 2, 4), put_number(&made, 32, 8);
    put_number(&made, 4, 8), put_number(&made, 8, 4), put_number(&made, 0, 8);
    put_string(&made, "b"), put_number(&made, 1, 4), put_number(&made, 6, 8);
    put_number(&made, 0, 4), put_number(&made, 160, 8);
    while (made.size % 32 != 0) put_number(&made, 0, 1);
    for (uint32_t i = 0; i < 160 + 24; i++) put_number(&made, i, 1);
    return made;
}

static const char header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"h\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[24,32]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[32,36]},"
    "\"one\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[36,44]},"
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[44,44]}}";

static bytes plain_file(void) {
    static const float w[] = {1, -2, 3.5f, 0, -0.25f, 1e30f};
    static const uint16_t h[] = {0x3c00, 0xc000, 0x0001, 0x7c00}, b[] = {0x3f80, 0xc040};
    uint8_t contents[44];
    memcpy(contents, w, 24), memcpy(contents + 24, h, 8), memcpy(contents + 32, b, 4);
    memcpy(contents + 36, &(int64_t){-5}, 8);
    return safetensors(header, contents, sizeof contents);
}

static tn_weights *read_file(const bytes *file) {
    tn_weights *weights;
    assert_ok(tn_weights_read("x", file->at, file->size, NULL, &weights, &failure));
    return weights;
}

/* --- what a header says --- */

static void safetensors_tell_names_shapes_and_places(void **state) {
    (void)state;
    bytes file = plain_file();
    tn_weights *weights = read_file(&file);
    assert_string_equal(tn_weights_format(weights), "safetensors");
    assert_int_equal(tn_weights_count(weights), 5);
    const tn_weight *w = tn_weights_find(weights, "w");
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->shape[0], 2);
    assert_int_equal(w->shape[1], 3);
    assert_memory_equal(w->bytes, file.at + file.size - 44, 24);
    assert_int_equal(tn_weights_find(weights, "one")->elements, 1);
    assert_int_equal(tn_weights_find(weights, "none")->elements, 0);
    assert_null(tn_weights_find(weights, "__metadata__"));
    tn_weights_sum sum = tn_weights_total(weights);
    assert_int_equal(sum.elements, 6 + 4 + 2 + 1);
    assert_int_equal(sum.bytes, 44);
    assert_int_equal(sum.type_elements[TN_WEIGHT_BF16], 2);
    tn_weights_close(weights);
}

static void gguf_tells_keys_and_tensors(void **state) {
    (void)state;
    bytes file = gguf();
    uint64_t number;
    tn_weights *weights = read_file(&file);
    assert_string_equal(tn_weights_format(weights), "gguf");
    assert_string_equal(tn_weights_text(weights, "general.architecture"), "llama");
    assert_true(tn_weights_number(weights, "llama.block_count", &number));
    assert_int_equal(number, 7);
    assert_false(tn_weights_number(weights, "low", &number)); /* -1 */
    assert_true(tn_weights_number_at(weights, "list", 2, &number));
    assert_int_equal(number, 3);
    assert_false(tn_weights_number_at(weights, "list", 3, &number));
    const tn_weight *a = tn_weights_find(weights, "a"), *b = tn_weights_find(weights, "b");
    assert_int_equal(a->shape[0], 4); /* outermost first */
    assert_int_equal(a->shape[1], 32);
    assert_int_equal(a->size, 4 * 34);
    assert_int_equal(a->type, TN_WEIGHT_Q8_0);
    assert_int_equal(b->size, 24);
    assert_int_equal(b->bytes[0], 160);
    tn_weights_close(weights);
}

/* Bytes of blocks are those of the table of types: of every type one row of one block, and of a
 * row that is one number more. */
static void types_are_whole_blocks(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TN_WEIGHT_TYPE_COUNT; i++) {
        tn_weight_type type = (tn_weight_type)i;
        uint64_t block = tn_weight_type_block(type), one = tn_weight_type_bytes(type, 1, block);
        assert_int_equal(tn_weight_type_bytes(type, 3, block + 1), 6 * one);
        assert_int_equal(tn_weight_type_find(tn_weight_type_name(type)), type);
        tn_dtype dtype = tn_weight_type_dtype(type);
        if (dtype != TN_UNDEFINED) assert_int_equal(one * 8, block * tn_dtype_bits(dtype));
    }
    assert_int_equal(tn_weight_type_bytes(TN_WEIGHT_F32, UINT64_MAX, 2), UINT64_MAX);
    assert_int_equal(tn_weight_type_find("q9"), TN_WEIGHT_TYPE_COUNT);
}

/* --- damage --- */

/* Cut anywhere it is refused, and any byte of the header may be anything. */
static void damage_is_refused_or_harmless(void **state) {
    (void)state;
    bytes files[] = {plain_file(), gguf()};
    for (size_t f = 0; f < 2; f++) {
        tn_weights *weights;
        for (size_t size = 0; size < files[f].size; size++) {
            tn_status status = tn_weights_read("x", files[f].at, size, NULL, &weights, &failure);
            assert_true(status == TN_E_INVALID || status == TN_E_UNSUPPORTED);
        }
        for (size_t at = 0; at < files[f].size - 44; at++)
            for (uint32_t bit = 0; bit < 8; bit++) {
                bytes damaged = files[f];
                damaged.at[at] ^= (uint8_t)(1u << bit);
                if (tn_weights_read("x", damaged.at, damaged.size, NULL, &weights, &failure))
                    continue;
                for (uint32_t i = 0; i < tn_weights_count(weights); i++) {
                    const tn_weight *tensor = tn_weights_at(weights, i);
                    assert_true(tensor->bytes >= damaged.at);
                    assert_true(tensor->bytes + tensor->size <= damaged.at + damaged.size);
                }
                tn_weights_close(weights);
            }
    }
}

static void what_is_wrong_is_told(void **state) {
    (void)state;
    static const struct {
        const char *header, *says;
        tn_status status;
    } rows[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
         "overlap", TN_E_INVALID},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "need 8",
         TN_E_INVALID},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", "'a'", TN_E_INVALID},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "'a'", TN_E_INVALID},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,800]}}", "cut short",
         TN_E_INVALID},
        {"{\"a\":{\"dtype\":\"X9\",\"shape\":[2],\"data_offsets\":[0,8]}}", "X9", TN_E_UNSUPPORTED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}",
         "'a'", TN_E_INVALID},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
         "two tensors are called 'a'", TN_E_INVALID},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", "uplicate", TN_E_INVALID},
        {"{\"a\":3}", "'a'", TN_E_INVALID},
        {"{", "byte 1: it ends", TN_E_INVALID},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", "byte 19: a second", TN_E_INVALID},
        {"{\"__metadata__\":{},}", "no entry", TN_E_INVALID},
        {"{,}", "no entry", TN_E_INVALID},
        {"{} {}", "byte 3: something follows", TN_E_INVALID},
        {"{\"a\":{\"dtype\":\"}\\\",{\"]}", "byte 21: ", TN_E_INVALID},
        {"{\"__metadata__\":{\"}\":\"\\\"\"},\"a\":[}}", "byte 32: ", TN_E_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_weights *weights;
        uint8_t contents[16] = {0};
        bytes file = safetensors(rows[i].header, contents, sizeof contents);
        tn_status status = tn_weights_read("x", file.at, file.size, NULL, &weights, &failure);
        if (status != rows[i].status || strstr(failure.message, rows[i].says) == NULL)
            fail_msg("%s: %d, %s\n", rows[i].header, (int)status, failure.message);
    }
    for (size_t i = 0; i < 5; i++) { /* of these it is known how to export them */
        static const char *const names[] = {"m.pt", "m.pth", "m.bin", "m.h5", "m.keras"};
        tn_weights *weights;
        tn_status status = tn_weights_read(names[i], "PK\3\4....", 8, NULL, &weights, &failure);
        assert_int_equal(status, TN_E_UNSUPPORTED);
        assert_non_null(tn_weights_how_to_export(names[i]));
        assert_string_equal(failure.message, tn_weights_how_to_export(names[i]));
    }
    assert_null(tn_weights_how_to_export("m.onnx"));
}

/* --- several files --- */

static void write_file(const char *folder, const char *name, const void *content, size_t size) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(tn__file_write(path, content, size, &failure));
}

static void parts_are_read_together(void **state) {
    (void)state;
    char folder[] = "/tmp/tenure-weights-XXXXXX", path[200];
    static const char first[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    static const char second[] = "{\"b\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[0,6]}}";
    static const char index[] =
        "{\"metadata\":{\"total_size\":14},\"weight_map\":{\"a\":\"1.safetensors\","
        "\"b\":\"2.safetensors\",\"c\":\"1.safetensors\"}}";
    static const char outside[] = "{\"weight_map\":{\"a\":\"../1.safetensors\"}}";
    assert_non_null(mkdtemp(folder));
    bytes one = safetensors(first, "12345678", 8), two = safetensors(second, "123456", 6);
    write_file(folder, "1.safetensors", one.at, one.size);
    write_file(folder, "m.safetensors.index.json", index, strlen(index));
    snprintf(path, sizeof path, "%s/m.safetensors.index.json", folder);
    tn_weights *weights;
    assert_int_equal(tn_weights_open(path, NULL, &weights, &failure), TN_E_IO); /* no second part */
    write_file(folder, "2.safetensors", two.at, two.size);
    assert_ok(tn_weights_open(path, NULL, &weights, &failure));
    assert_int_equal(tn_weights_files(weights), 2);
    assert_int_equal(tn_weights_total(weights).bytes, 14);
    tn_weights_close(weights);
    write_file(folder, "m.safetensors.index.json", outside, strlen(outside));
    assert_int_equal(tn_weights_open(path, NULL, &weights, &failure), TN_E_INVALID);
    static const char *const names[] = {"1.safetensors", "2.safetensors",
                                        "m.safetensors.index.json"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* --- in a graph --- */

static tn_tensor_id add(tn_graph *graph, const char *name, tn_dtype dtype, tn_kind kind,
                        int64_t extent, int64_t second) {
    tn_tensor_id id;
    int64_t shape[] = {extent, second};
    tn_tensor_spec spec = {
        .name = name, .dtype = dtype, .kind = kind, .rank = second > 0 ? 2 : 1, .shape = shape};
    assert_ok(tn_graph_add_tensor(graph, &spec, &id, &failure));
    return id;
}

/* In a file that is there, what has the type that is wanted can be read from its place. */
static void a_file_tells_where_weights_are(const bytes *file, const tn_graph *graph,
                                           tn_tensor_id same, tn_tensor_id wider) {
    char path[] = "/tmp/tenure-weights-XXXXXX", there[24];
    tn_weights *weights;
    tn_file_range range;
    int made = mkstemp(path);
    assert_true(made >= 0);
    assert_int_equal(write(made, file->at, file->size), file->size);
    assert_ok(tn_weights_open(path, NULL, &weights, &failure));
    assert_true(tn_weights_where(weights, tn_graph_tensor(graph, same), &range));
    assert_string_equal(range.path, path);
    assert_int_equal(range.size, sizeof there);
    assert_int_equal(pread(made, there, sizeof there, (off_t)range.offset), sizeof there);
    assert_memory_equal(there, file->at + file->size - 44, sizeof there);
    assert_false(tn_weights_where(weights, tn_graph_tensor(graph, wider), &range));
    tn_weights_close(weights);
    close(made);
    unlink(path);
}

static void weights_become_those_of_a_graph(void **state) {
    (void)state;
    bytes file = plain_file();
    tn_weights *weights = read_file(&file);
    tn_graph *graph;
    uint32_t taken;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id w = add(graph, "w", TN_FLOAT32, TN_KIND_PARAMETER, 2, 3);
    tn_tensor_id h = add(graph, "h", TN_FLOAT32, TN_KIND_CONSTANT, 4, 0);
    tn_tensor_id b = add(graph, "b", TN_FLOAT64, TN_KIND_PARAMETER, 2, 0);
    tn_tensor_id other = add(graph, "other", TN_FLOAT32, TN_KIND_PARAMETER, 2, 0);
    assert_ok(tn_weights_bind(weights, graph, &taken, &failure));
    assert_int_equal(taken, 3);
    assert_int_equal(tn_graph_tensor(graph, h)->kind, TN_KIND_PARAMETER);
    float numbers[6], halves[4];
    double wide[2];
    assert_true(tn_weights_fill(weights, tn_graph_tensor(graph, w), numbers, sizeof numbers));
    assert_memory_equal(numbers, file.at + file.size - 44, sizeof numbers);
    assert_true(tn_weights_fill(weights, tn_graph_tensor(graph, h), halves, sizeof halves));
    assert_true(halves[0] == 1 && halves[1] == -2 && halves[2] == 0x1p-24f && halves[3] > 1e38f);
    assert_true(tn_weights_fill(weights, tn_graph_tensor(graph, b), wide, sizeof wide));
    assert_true(wide[0] == 1 && wide[1] == -3);
    assert_false(tn_weights_fill(weights, tn_graph_tensor(graph, other), wide, 8));
    assert_false(tn_weights_fill(weights, tn_graph_tensor(graph, b), wide, 8)); /* too few */
    tn_file_range nowhere;
    assert_false(tn_weights_where(weights, tn_graph_tensor(graph, w), &nowhere)); /* in memory */
    a_file_tells_where_weights_are(&file, graph, w, h);
    tn_graph_destroy(graph);

    static const struct {
        const char *name, *says;
        tn_dtype dtype;
        int64_t shape[2];
        tn_status status;
    } wrong[] = {
        {"w", "[2, 3] in the file", TN_FLOAT32, {3, 2}, TN_E_INVALID},
        {"w", "without loss", TN_FLOAT16, {2, 3}, TN_E_UNSUPPORTED},
        {"elsewhere", "none of its 5 tensors", TN_FLOAT32, {2, 3}, TN_E_INVALID},
    };
    for (size_t i = 0; i < 3; i++) {
        assert_ok(tn_graph_create(NULL, &graph, &failure));
        add(graph, wrong[i].name, wrong[i].dtype, TN_KIND_PARAMETER, wrong[i].shape[0],
            wrong[i].shape[1]);
        assert_int_equal(tn_weights_bind(weights, graph, NULL, &failure), wrong[i].status);
        assert_non_null(strstr(failure.message, wrong[i].says));
        tn_graph_destroy(graph);
    }
    tn_weights_close(weights);
}

/* All of float16 by its definition: sign, exponent, fraction. */
static void every_half_is_its_number(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 1u << 16; bits += 4) {
        uint16_t four[] = {(uint16_t)bits, (uint16_t)(bits + 1), (uint16_t)(bits + 2),
                           (uint16_t)(bits + 3)};
        bytes file = safetensors("{\"h\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}",
                                 four, 8);
        tn_weights *weights = read_file(&file);
        int64_t shape[] = {4};
        tn_tensor tensor = {.name = "h", .dtype = TN_FLOAT32, .rank = 1, .shape = shape};
        float numbers[4];
        assert_true(tn_weights_fill(weights, &tensor, numbers, sizeof numbers));
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t exponent = four[i] >> 10 & 31, fraction = four[i] & 1023;
            double size = exponent == 0 ? fraction * 0x1p-24 : (1024 + fraction) * 0x1p-25;
            for (uint32_t e = 0; e < exponent; e++) size *= 2;
            double expected = four[i] & 0x8000 ? -size : size;
            if (exponent == 31) {
                bool infinite = numbers[i] > 3.4e38f || numbers[i] < -3.4e38f;
                assert_true(fraction != 0 ? numbers[i] != numbers[i] : infinite);
            } else
                assert_true((double)numbers[i] == expected);
        }
        tn_weights_close(weights);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_tell_names_shapes_and_places),
        cmocka_unit_test(gguf_tells_keys_and_tensors),
        cmocka_unit_test(types_are_whole_blocks),
        cmocka_unit_test(damage_is_refused_or_harmless),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(parts_are_read_together),
        cmocka_unit_test(weights_become_those_of_a_graph),
        cmocka_unit_test(every_half_is_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
