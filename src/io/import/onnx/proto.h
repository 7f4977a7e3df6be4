/* proto.h - functions that write protobuf, and functions that iterate over the fields of a message
 * so that they can be copied. The importer has read the whole file before, so the fields are well
 * formed; bounds are checked nevertheless. wire.h reads values. Cost: O(bytes).
 */
#ifndef TN_IMPORT_PROTO_H
#define TN_IMPORT_PROTO_H

#include "io/import/onnx/wire.h"

typedef struct tn__proto_field {
    uint32_t number, wire;
    uint64_t value;  /* value of a field that is a varint */
    tn__span inside; /* contents of a field that is bytes */
    tn__span raw;    /* all bytes of the field, including its tag */
} tn__proto_field;

/* Reads the next field and removes it from *left. Returns false at the end of the message; *bad is
 * then true if the message is not valid. */
bool tn__proto_next(tn__span *left, tn__proto_field *field, bool *bad);

/* Append a field with this number: an integer, bytes, or a string that ends with a zero. */
void tn__proto_varint(tn__text *to, uint32_t number, uint64_t value);
void tn__proto_bytes(tn__text *to, uint32_t number, const void *bytes, size_t size);
void tn__proto_string(tn__text *to, uint32_t number, const char *text);
/* Appends a field as it is, with its tag (`raw`). */
void tn__proto_copy(tn__text *to, tn__span raw);

#endif
