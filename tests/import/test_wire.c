/* test_wire.c - the protobuf walk: what it reads, skips and refuses, and the byte it names. */
#include "proto.h"

#include "io/import/onnx/wire.h"

static const tn__message schema = {"Test",
                                   {[1] = TN_WIRE_VARINT,
                                    [2] = TN_WIRE_BYTES,
                                    [3] = TN_WIRE_FIXED32,
                                    [4] = TN_WIRE_FIXED64,
                                    [5] = TN_WIRE_VARINT | TN_WIRE_BYTES}};

static tn__wire open_text(const void *bytes, size_t size) {
    return tn__wire_open(bytes, (tn__span){bytes, size}, &schema);
}

/* Reads to the end; the fault's byte, or -1. */
static long fault_of(const void *bytes, size_t size) {
    tn__wire wire = open_text(bytes, size);
    tn__field field;
    tn_error error = {0};
    while (tn__wire_next(&wire, &field)) {
    }
    if (tn__wire_close(&wire, &error) == TN_OK) return -1;
    assert_int_equal(error.status, TN_E_INVALID);
    long at;
    assert_int_equal(sscanf(error.where, "byte %ld", &at), 1);
    return at;
}

static void every_wire_type_is_read(void **state) {
    (void)state;
    proto message = {0};
    proto_int(&message, 1, 300);
    proto_text(&message, 2, "abc");
    proto_float(&message, 3, 1.5f);
    proto_tag(&message, 4, 1);
    double number = 2.25;
    proto_raw(&message, &number, 8);
    tn__wire wire = open_text(message.data, message.size);
    tn__field field;
    assert_true(tn__wire_next(&wire, &field));
    assert_int_equal(field.value, 300);
    assert_true(tn__wire_next(&wire, &field));
    assert_true(tn__span_is(field.span, "abc"));
    double value;
    assert_true(tn__wire_next(&wire, &field));
    assert_int_equal(tn__field_floats(&field, &value, 1), 1);
    assert_true(value == 1.5);
    assert_true(tn__wire_next(&wire, &field));
    assert_int_equal(tn__field_doubles(&field, &value, 1), 1);
    assert_true(value == 2.25);
    assert_false(tn__wire_next(&wire, &field));
    assert_int_equal(tn__wire_close(&wire, NULL), TN_OK);
    free(message.data);
}

static void negative_numbers_take_ten_bytes(void **state) {
    (void)state;
    proto message = {0};
    proto_int(&message, 1, -1);
    assert_int_equal(message.size, 11);
    tn__wire wire = open_text(message.data, message.size);
    tn__field field;
    assert_true(tn__wire_next(&wire, &field));
    assert_true(tn__field_int(&field) == -1);
    free(message.data);
}

static void unknown_fields_and_groups_are_skipped(void **state) {
    (void)state;
    static const uint8_t bytes[] = {0x52, 2,    'h', 'i',              /* field 10, bytes */
                                    0x5b, 0x08, 1,   0x5b, 0x5c, 0x5c, /* group 11 in group 11 */
                                    0xf8, 0x3f, 5,                     /* field 1023, varint */
                                    0x08, 7};
    tn__wire wire = open_text(bytes, sizeof bytes);
    tn__field field;
    assert_true(tn__wire_next(&wire, &field));
    assert_int_equal(field.number, 1);
    assert_int_equal(field.value, 7);
    assert_false(tn__wire_next(&wire, &field));
    assert_int_equal(tn__wire_close(&wire, NULL), TN_OK);
}

static void packed_and_single_numbers_are_the_same(void **state) {
    (void)state;
    static const uint8_t bytes[] = {0x28, 5, 0x2a, 3, 0x81, 0x01, 9};
    tn__wire wire = open_text(bytes, sizeof bytes);
    tn__field field;
    int64_t values[4];
    assert_true(tn__wire_next(&wire, &field));
    assert_int_equal(tn__field_varints(&wire, &field, values, 4), 1);
    assert_int_equal(values[0], 5);
    assert_true(tn__wire_next(&wire, &field));
    assert_int_equal(tn__field_count_varints(&field), 2);
    assert_int_equal(tn__field_varints(&wire, &field, values, 4), 2);
    assert_int_equal(values[0], 129);
    assert_int_equal(values[1], 9);
    assert_int_equal(tn__field_varints(&wire, &field, values, 1), 1); /* room for one */
}

static void a_packed_number_that_is_cut_off_is_a_fault(void **state) {
    (void)state;
    static const uint8_t bytes[] = {0x2a, 2, 0x01, 0x81};
    tn__wire wire = open_text(bytes, sizeof bytes);
    tn__field field;
    int64_t values[4];
    assert_true(tn__wire_next(&wire, &field));
    assert_int_equal(tn__field_varints(&wire, &field, values, 4), 1);
    tn_error error;
    assert_int_equal(tn__wire_close(&wire, &error), TN_E_INVALID);
    assert_string_equal(error.where, "byte 3");
}

static void damage_is_refused_at_its_byte(void **state) {
    (void)state;
    static const struct {
        uint8_t bytes[16];
        size_t size;
        long at;
    } cases[] = {
        {{0x08}, 1, 0},                      /* no value */
        {{0x08, 0x80}, 2, 0},                /* cut varint */
        {{0x08, 1, 0x12, 5, 'a'}, 5, 2},     /* length too long */
        {{0x08, 1, 0x12}, 3, 2},             /* no length */
        {{0x1d, 0, 0, 0}, 4, 0},             /* cut fixed32 */
        {{0x21, 0, 0, 0, 0, 0, 0, 0}, 8, 0}, /* cut fixed64 */
        {{0x08, 1, 0x00, 1}, 4, 2},          /* field number 0 */
        {{0x08, 1, 0x0e}, 3, 2},             /* wire type 6 */
        {{0x0f, 1}, 2, 0},                   /* wire type 7 */
        {{0x08, 1, 0x0a, 0}, 4, 2},          /* field 1 as bytes */
        {{0x10, 1}, 2, 0},                   /* field 2 as varint */
        {{0x0b}, 1, 0},                      /* field 1 as group */
        {{0x53, 0x08, 1}, 3, 0},             /* open group */
        {{0x53, 0x5c}, 2, 0},                /* wrong group end */
        {{0x08, 1, 0x54}, 3, 2},             /* stray group end */
        {{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}, 11, 0}, /* 65 bits */
        {{0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, 12, 0},
        {{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 11, 0}, /* 2^64 - 1 */
        {{0x88, 0x80, 0x80, 0x80, 0x10, 1}, 6, 0}, /* tag above 32 bits */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long at = fault_of(cases[i].bytes, cases[i].size);
        if (at != cases[i].at) fail_msg("case %zu: byte %ld, not %ld", i, at, cases[i].at);
    }
}

static void deep_groups_are_refused_not_recursed(void **state) {
    (void)state;
    size_t size = 1u << 20;
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, 0x53, size);
    assert_int_equal(fault_of(bytes, size), 0);
    free(bytes);
}

static void an_empty_message_has_no_fields(void **state) {
    (void)state;
    tn__wire wire = tn__wire_open((const uint8_t *)"", (tn__span){0}, &schema);
    tn__field field;
    assert_false(tn__wire_next(&wire, &field));
    assert_int_equal(tn__wire_close(&wire, NULL), TN_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wire_type_is_read),
        cmocka_unit_test(negative_numbers_take_ten_bytes),
        cmocka_unit_test(unknown_fields_and_groups_are_skipped),
        cmocka_unit_test(packed_and_single_numbers_are_the_same),
        cmocka_unit_test(a_packed_number_that_is_cut_off_is_a_fault),
        cmocka_unit_test(damage_is_refused_at_its_byte),
        cmocka_unit_test(deep_groups_are_refused_not_recursed),
        cmocka_unit_test(an_empty_message_has_no_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
