/* wire.c - walks over messages in protobuf's wire format. See wire.h. Cost: O(bytes of headers). */
#include "io/import/onnx/wire.h"

#define WIRE_GROUP_DEPTH 64u

enum { WIRE_GROUP_START = 1u << 3, WIRE_GROUP_END = 1u << 4 };

tn__wire tn__wire_open(const uint8_t *file, tn__span span, const tn__message *message) {
    /* an absent message points to the file, which avoids arithmetic on NULL */
    if (!span.size) span.bytes = file;
    return (tn__wire){
        .message = message, .file = file, .next = span.bytes, .end = span.bytes + span.size};
}

static bool wire_fault(tn__wire *wire, const uint8_t *at, const char *why) {
    wire->fault = why;
    wire->next = at;
    return false;
}

/* Reads a varint at *next and moves *next to its end. Ten bytes hold 64 bits, so the tenth byte
 * provides only one bit. */
static bool wire_long_varint(const uint8_t **next, const uint8_t *end, uint64_t *value) {
    const uint8_t *at = *next;
    uint64_t result = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
        if (at == end) return false;
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) return false;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            *next = at;
            return true;
        }
    }
    return false;
}

/* Reads a varint; most tags and most lengths take one byte. */
static inline bool wire_varint(const uint8_t **next, const uint8_t *end, uint64_t *value) {
    if (*next == end || **next >= 0x80) return wire_long_varint(next, end, value);
    *value = *(*next)++;
    return true;
}

/* Reads number, wire type and content of the field at wire->next. */
static bool wire_field(tn__wire *wire, tn__field *field) {
    const uint8_t *at = wire->next;
    uint64_t tag;
    if (!wire_varint(&wire->next, wire->end, &tag))
        return wire_fault(wire, at, "a field's tag is cut off or too long");
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return wire_fault(wire, at, "there is no such field number");
    *field = (tn__field){.number = (uint32_t)(tag >> 3), .type = 1u << (tag & 7)};
    size_t left = (size_t)(wire->end - wire->next);
    switch (field->type) {
    case WIRE_GROUP_START:
    case WIRE_GROUP_END:
        return true;
    case TN_WIRE_VARINT:
        if (!wire_varint(&wire->next, wire->end, &field->value))
            return wire_fault(wire, at, "a number is cut off or longer than 64 bits");
        return true;
    case TN_WIRE_FIXED32:
    case TN_WIRE_FIXED64: {
        uint32_t width = field->type == TN_WIRE_FIXED32 ? 4 : 8;
        if (left < width) return wire_fault(wire, at, "a number is cut off");
        field->value = tn__little(wire->next, width);
        wire->next += width;
        return true;
    }
    case TN_WIRE_BYTES: {
        uint64_t size;
        if (!wire_varint(&wire->next, wire->end, &size))
            return wire_fault(wire, at, "a length is cut off or longer than 64 bits");
        if (size > (size_t)(wire->end - wire->next))
            return wire_fault(wire, at, "a length runs past the end of its message");
        field->span = (tn__span){wire->next, (size_t)size};
        wire->next += size;
        return true;
    }
    default:
        return wire_fault(wire, at, "there is no such wire type");
    }
}

/* Skips a group up to its end, after its start has been read; groups nest. */
static bool wire_skip_group(tn__wire *wire, uint32_t number, const uint8_t *at) {
    uint32_t open[WIRE_GROUP_DEPTH] = {number};
    uint32_t depth = 1;
    tn__field field;
    while (depth) {
        if (wire->next == wire->end) return wire_fault(wire, at, "a group does not end");
        if (!wire_field(wire, &field)) return false;
        if (field.type == WIRE_GROUP_START) {
            if (depth == WIRE_GROUP_DEPTH) return wire_fault(wire, at, "groups nest too deep");
            open[depth++] = field.number;
        } else if (field.type == WIRE_GROUP_END && open[--depth] != field.number) {
            return wire_fault(wire, at, "a group ends that was not begun");
        }
    }
    return true;
}

bool tn__wire_next(tn__wire *wire, tn__field *field) {
    while (!wire->fault && wire->next != wire->end) {
        const uint8_t *at = wire->next;
        if (!wire_field(wire, field)) return false;
        if (field->type == WIRE_GROUP_END)
            return wire_fault(wire, at, "a group ends that was not begun");
        uint32_t allowed = field->number < TN_WIRE_FIELDS ? wire->message->types[field->number] : 0;
        if (field->type == WIRE_GROUP_START && !allowed) {
            if (!wire_skip_group(wire, field->number, at)) return false;
            continue;
        }
        if (!allowed) continue;
        if (!(allowed & field->type))
            return wire_fault(wire, at, "a field has another wire type than the format says");
        return true;
    }
    return false;
}

tn_status tn__wire_close(const tn__wire *wire, tn_error *error) {
    if (!wire->fault) return TN_OK;
    tn_status status = tn__fail(error, TN_E_INVALID, "%s (in a %s); the file is damaged or cut off",
                                wire->fault, wire->message->name);
    return tn__where(error, status, "byte %zu", (size_t)(wire->next - wire->file));
}

uint64_t tn__field_count_varints(const tn__field *field) {
    if (field->type != TN_WIRE_BYTES) return 1;
    uint64_t count = 0;
    for (size_t i = 0; i < field->span.size; i++) count += field->span.bytes[i] < 0x80;
    return count;
}

uint64_t tn__field_count_fixed(const tn__field *field, uint32_t bytes) {
    return field->type == TN_WIRE_BYTES ? field->span.size / bytes : 1;
}

uint32_t tn__field_take(tn__wire *wire, tn__field *left, int64_t *out, uint32_t room) {
    if (left->type != TN_WIRE_BYTES) {
        if (room) out[0] = tn__field_int(left);
        return room ? 1 : 0;
    }
    const uint8_t *next = left->span.bytes, *end = next + left->span.size;
    uint32_t count = 0;
    while (next != end && count < room) {
        uint64_t value;
        if (!wire_varint(&next, end, &value)) {
            wire_fault(wire, next, "a number is cut off or longer than 64 bits");
            break;
        }
        out[count++] = (int64_t)value;
    }
    left->span = (tn__span){next, (size_t)(end - next)};
    return count;
}

uint32_t tn__field_varints(tn__wire *wire, const tn__field *field, int64_t *out, uint32_t room) {
    tn__field left = *field;
    return tn__field_take(wire, &left, out, room);
}

/* Reads packed or single elements of `width` bytes. */
static uint32_t wire_fixed(const tn__field *field, uint32_t width, double *out, uint32_t room) {
    uint64_t count = tn__field_count_fixed(field, width);
    if (count > room) count = room;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bits = field->type == TN_WIRE_BYTES
                            ? tn__little(field->span.bytes + (size_t)i * width, width)
                            : field->value;
        if (width == 4) {
            out[i] = tn__float_of((uint32_t)bits);
        } else {
            memcpy(&out[i], &bits, sizeof bits);
        }
    }
    return (uint32_t)count;
}

uint32_t tn__field_floats(const tn__field *field, double *out, uint32_t room) {
    return wire_fixed(field, 4, out, room);
}

uint32_t tn__field_doubles(const tn__field *field, double *out, uint32_t room) {
    return wire_fixed(field, 8, out, room);
}
