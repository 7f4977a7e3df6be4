/* Sizes of tensors: element types, packing, blocked formats, overflow. */
#include "kit.h"

static const tn_format plain = {TN_ORDER_PLAIN, 0};

static void bits_and_names_follow_the_table(void **state) {
    (void)state;
    assert_int_equal(TN_FLOAT32, 1); /* ONNX's numbers */
    assert_int_equal(TN_BFLOAT16, 16);
    assert_int_equal(TN_INT2, 26);
    assert_int_equal(tn_dtype_bits(TN_FLOAT64), 64);
    assert_int_equal(tn_dtype_bits(TN_COMPLEX128), 128);
    assert_int_equal(tn_dtype_bits(TN_UINT4), 4);
    assert_int_equal(tn_dtype_bits(TN_STRING), 0);
    assert_int_equal(tn_dtype_bits((tn_dtype)1000), 0);
    assert_string_equal(tn_dtype_name(TN_BFLOAT16), "bfloat16");
    assert_string_equal(tn_dtype_name((tn_dtype)1000), "unknown");
    assert_string_equal(tn_kind_name(TN_KIND_OPTIMIZER_STATE), "optimizer_state");
    assert_string_equal(tn_kind_name((tn_kind)1000), "unknown");
}

static void size_is_the_rounded_up_number_of_bits(void **state) {
    (void)state;
    tn__random random = {20261};
    for (int round = 0; round < 5000; round++) {
        tn_dtype dtype = (tn_dtype)(1 + tn__random_below(&random, 26));
        uint32_t bits = tn_dtype_bits(dtype), rank = (uint32_t)tn__random_below(&random, 6);
        int64_t shape[6];
        uint64_t elements = 1, bytes = 7;
        for (uint32_t i = 0; i < rank; i++) {
            shape[i] = (int64_t)tn__random_below(&random, 9);
            elements *= (uint64_t)shape[i];
        }
        tn_status status = tn_tensor_size(dtype, plain, rank, shape, &bytes, NULL);
        if (!bits) {
            assert_int_equal(status, TN_E_UNKNOWN);
            assert_int_equal(bytes, 7);
        } else {
            assert_int_equal(status, TN_OK);
            assert_int_equal(bytes, (elements * bits + 7) / 8);
        }
    }
}

static void a_blocked_format_stores_whole_blocks_of_channels(void **state) {
    (void)state;
    for (uint32_t block = 1; block < 20; block++) {
        for (int64_t channels = 0; channels < 40; channels++) {
            int64_t shape[] = {2, channels, 3, 5}, padded = 0;
            uint64_t bytes;
            while (padded < channels) padded += block;
            tn_format format = {TN_ORDER_NCHW, block};
            assert_int_equal(tn_tensor_size(TN_FLOAT32, format, 4, shape, &bytes, NULL), TN_OK);
            assert_int_equal(bytes, 2 * padded * 15 * 4);
        }
    }
    uint64_t bytes;
    int64_t one = 3;
    tn_error error;
    assert_int_equal(
        tn_tensor_size(TN_FLOAT32, (tn_format){TN_ORDER_NCHW, 8}, 1, &one, &bytes, &error),
        TN_E_INVALID);
}

static void sizes_that_overflow_are_refused(void **state) {
    (void)state;
    uint64_t bytes = 7;
    tn_error error;
    int64_t large[] = {INT64_MAX, 2, 2}, empty[] = {INT64_MAX, INT64_MAX, 0};
    int64_t exact[] = {INT64_C(1) << 60}, negative[] = {-3}, unknown[] = {4, TN_DIM_UNKNOWN};
    assert_int_equal(tn_tensor_size(TN_UINT8, plain, 3, large, &bytes, &error), TN_E_INVALID);
    assert_int_equal(tn_tensor_size(TN_FLOAT64, plain, 1, large, &bytes, &error), TN_E_INVALID);
    assert_int_equal(tn_tensor_size(TN_FLOAT64, plain, 1, negative, &bytes, &error), TN_E_INVALID);
    assert_int_equal(tn_tensor_size(TN_FLOAT64, plain, 2, unknown, &bytes, &error), TN_E_UNKNOWN);
    assert_int_equal(tn_tensor_size(TN_INT8, plain, TN_RANK_UNKNOWN, NULL, &bytes, &error),
                     TN_E_UNKNOWN);
    assert_int_equal(bytes, 7); /* untouched by failures */
    assert_int_equal(tn_tensor_size(TN_UINT8, plain, 3, empty, &bytes, &error), TN_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(tn_tensor_size(TN_UINT4, plain, 1, exact, &bytes, &error), TN_OK);
    assert_int_equal(bytes, UINT64_C(1) << 59);
    assert_int_equal(tn_tensor_size(TN_INT2, plain, 2, large, &bytes, &error), TN_OK);
    assert_int_equal(bytes, (uint64_t)INT64_MAX / 2 + 1);
}

static void formats_are_read_by_name(void **state) {
    (void)state;
    static const char *const bad[] = {"",        "NCHW",    "nChwc",           "nChw0c",
                                      "nChw08c", "nChw8",   "nChw8cc",         "nchw8c",
                                      "nChw-8c", "nChw8 c", "nChw4294967296c", "nChw99999999999c"};
    tn_format format;
    tn_error error;
    assert_int_equal(tn_format_parse("nChw16c", &format, &error), TN_OK);
    assert_int_equal(format.order, TN_ORDER_NCHW);
    assert_int_equal(format.block, 16);
    assert_int_equal(tn_format_parse("nhwc", &format, &error), TN_OK);
    assert_int_equal(format.order, TN_ORDER_NHWC);
    assert_int_equal(format.block, 0);
    assert_int_equal(tn_format_parse("nchw", &format, &error), TN_OK);
    assert_int_equal(tn_format_parse("plain", &format, &error), TN_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tn_format_parse(bad[i], &format, &error), TN_E_UNKNOWN);
        assert_int_equal(format.order, TN_ORDER_PLAIN);
    }
    assert_int_equal(tn_format_parse("nChw4294967295c", &format, &error), TN_OK);
    assert_int_equal(format.block, UINT32_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_and_names_follow_the_table),
        cmocka_unit_test(size_is_the_rounded_up_number_of_bits),
        cmocka_unit_test(a_blocked_format_stores_whole_blocks_of_channels),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(formats_are_read_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
