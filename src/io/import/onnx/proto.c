/* proto.c - writes protobuf, and iterates over the fields of a message; see proto.h. */
#include "io/import/onnx/proto.h"

#include <string.h>

enum { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2, PROTO_FIXED32 = 5 };

static bool proto_read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (uint32_t shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

bool tn__proto_next(tn__span *left, tn__proto_field *field, bool *bad) {
    const uint8_t *start = left->bytes, *at = start, *end = start + left->size;
    uint64_t tag, size = 0;
    if (at == end) return false;
    *bad = true;
    if (!proto_read_varint(&at, end, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return false;
    *field = (tn__proto_field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)(tag & 7)};
    if (field->wire == PROTO_VARINT) {
        if (!proto_read_varint(&at, end, &field->value)) return false;
    } else if (field->wire == PROTO_BYTES) {
        if (!proto_read_varint(&at, end, &size)) return false;
    } else {
        if (field->wire != PROTO_FIXED32 && field->wire != PROTO_FIXED64) return false;
        size = field->wire == PROTO_FIXED32 ? 4 : 8;
    }
    if (size > (uint64_t)(end - at)) return false;
    field->inside = (tn__span){at, (size_t)size};
    at += size;
    field->raw = (tn__span){start, (size_t)(at - start)};
    *left = (tn__span){at, (size_t)(end - at)};
    *bad = false;
    return true;
}

static void proto_put_varint(tn__text *to, uint64_t value) {
    uint8_t bytes[10];
    size_t size = 0;
    do {
        bytes[size++] = (uint8_t)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    tn__text_add(to, (const char *)bytes, size);
}

void tn__proto_varint(tn__text *to, uint32_t number, uint64_t value) {
    proto_put_varint(to, (uint64_t)number << 3 | PROTO_VARINT);
    proto_put_varint(to, value);
}

void tn__proto_bytes(tn__text *to, uint32_t number, const void *bytes, size_t size) {
    proto_put_varint(to, (uint64_t)number << 3 | PROTO_BYTES);
    proto_put_varint(to, size);
    if (size > 0) tn__text_add(to, bytes, size);
}

void tn__proto_string(tn__text *to, uint32_t number, const char *text) {
    tn__proto_bytes(to, number, text, strlen(text));
}

void tn__proto_copy(tn__text *to, tn__span raw) {
    tn__text_add(to, (const char *)raw.bytes, raw.size);
}
