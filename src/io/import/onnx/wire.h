/* wire.h - a bounded reader of protobuf's wire format: no copy, no recursion, no allocation.
 *
 * A message is a sequence of fields in a byte range; a nested message is a byte range again, which
 * the caller opens if needed. So an unopened payload (a weight of 500 MB) only costs the reading of
 * its length, and its pages are never touched. The caller limits the depth of nesting.
 *
 * These are errors: a length or a number that runs past the end of its message, a varint of more
 * than 64 bits, field number 0, groups that do not close, and a field of the schema with another
 * wire type. Unknown fields are skipped. The fault records the byte in the file.
 *
 * Source: the encoding page of the Protocol Buffers documentation.
 */
#ifndef TN_IMPORT_WIRE_H
#define TN_IMPORT_WIRE_H

#include "base/base.h"

typedef struct tn__span { /* bytes of the file, without a terminator */
    const uint8_t *bytes;
    size_t size;
} tn__span;

/* Wire types as a mask, because repeated numbers may be packed or single. */
enum {
    TN_WIRE_VARINT = 1u << 0,
    TN_WIRE_FIXED64 = 1u << 1,
    TN_WIRE_BYTES = 1u << 2,
    TN_WIRE_FIXED32 = 1u << 5
};
#define TN_WIRE_FIELDS 32u

/* The fields of a message: the allowed wire types by field number. 0 stands for an unknown
 * field. */
typedef struct tn__message {
    const char *name; /* name of the message in the schema, such as "NodeProto" */
    uint8_t types[TN_WIRE_FIELDS];
} tn__message;

typedef struct tn__wire {
    const tn__message *message;
    const uint8_t *file; /* first byte of the file: positions in errors count from here */
    const uint8_t *next, *end;
    const char *fault; /* why reading stopped early; NULL: no fault */
} tn__wire;

typedef struct tn__field {
    uint32_t number;
    uint32_t type;  /* the wire type of the field, one of TN_WIRE_* */
    uint64_t value; /* the number of a field of type VARINT, FIXED32 or FIXED64 */
    tn__span span;  /* BYTES */
} tn__field;

tn__wire tn__wire_open(const uint8_t *file, tn__span span, const tn__message *message);

/* Reads the next field that is in the schema. Returns false at the end, and on a fault. */
bool tn__wire_next(tn__wire *wire, tn__field *field);

/* Returns TN_OK if the message was read to its end, otherwise E_INVALID with "byte N" of the
 * file. */
tn_status tn__wire_close(const tn__wire *wire, tn_error *error);

/* Functions for the elements of a repeated number, packed or single. */
/* the count requires reading the payload */
uint64_t tn__field_count_varints(const tn__field *field);
uint64_t tn__field_count_fixed(const tn__field *field, uint32_t bytes);

/* Reads up to `room` elements into `out` and returns their number. A varint that is truncated or
 * too long is a fault. */
uint32_t tn__field_varints(tn__wire *wire, const tn__field *field, int64_t *out, uint32_t room);
/* Reads up to `room` elements like tn__field_varints, and moves `left` to their end, so that a long
 * field can be read in parts. All are read when left->span is empty or, for a single number, after
 * the first call. */
uint32_t tn__field_take(tn__wire *wire, tn__field *left, int64_t *out, uint32_t room);
uint32_t tn__field_floats(const tn__field *field, double *out, uint32_t room);  /* float */
uint32_t tn__field_doubles(const tn__field *field, double *out, uint32_t room); /* double */

static inline int64_t tn__field_int(const tn__field *field) { return (int64_t)field->value; }
static inline uint64_t tn__little(const uint8_t *bytes, uint32_t count) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < count; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}
static inline double tn__float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}
static inline bool tn__span_is(tn__span span, const char *text) {
    size_t length = strlen(text);
    return span.size == length && (length == 0 || memcmp(span.bytes, text, length) == 0);
}
static inline bool tn__span_equal(tn__span a, tn__span b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.bytes, b.bytes, a.size) == 0);
}

#endif
