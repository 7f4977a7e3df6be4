/* proto.h - writes protobuf, and iterates over the fields of a message so that they can be copied.
 *
 * The importer has read the whole file before, so the fields copied here are well formed. Bounds
 * are checked all the same. */
#ifndef TN_EXPORT_PROTO_H
#define TN_EXPORT_PROTO_H

#include "base/base.h"
#include "io/import/onnx/wire.h"

typedef struct proto_field {
    uint32_t number, wire;
    uint64_t value;  /* value of a varint */
    tn__span inside; /* of bytes */
    tn__span raw;    /* with its tag */
} proto_field;

/* Reads the next field and steps over it. False: the end; *bad: not a valid message. */
bool tn__proto_next(tn__span *left, proto_field *field, bool *bad);

void tn__proto_varint(tn__text *to, uint32_t number, uint64_t value);
void tn__proto_bytes(tn__text *to, uint32_t number, const void *bytes, size_t size);
void tn__proto_string(tn__text *to, uint32_t number, const char *text);
void tn__proto_copy(tn__text *to, tn__span raw);

#endif
