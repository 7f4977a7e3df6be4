/* gguf.c - reads the "GGUF" format: counts, keys with values, tensors, and after them the aligned
 * tensor data.
 *
 * Version 1 uses counts of 32 bits, later versions of 64; all numbers are little endian. Values
 * that are lists (the vocabulary) are skipped item by item, and only their position is stored.
 */
#include "io/weights/weights.h"

enum { /* types of values */
       GGUF_U8,
       GGUF_I8,
       GGUF_U16,
       GGUF_I16,
       GGUF_U32,
       GGUF_I32,
       GGUF_F32,
       GGUF_BOOL,
       GGUF_STRING,
       GGUF_LIST,
       GGUF_U64,
       GGUF_I64,
       GGUF_F64,
       GGUF_KINDS
};

static const uint8_t gguf_widths[GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

#define GGUF_RANK_MOST 4u

typedef struct gguf_cursor {
    tn__weights_reader *it;
    const uint8_t *at, *end;
    uint32_t version;
} gguf_cursor;

static tn_status gguf_short(const gguf_cursor *cursor) {
    TN_FAIL(cursor->it->error, TN_E_INVALID, "byte %llu: it is damaged or cut short",
            (unsigned long long)(cursor->at - cursor->it->bytes));
}

static uint64_t gguf_load(const uint8_t *at, uint32_t width) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < width; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static tn_status gguf_take(gguf_cursor *cursor, uint32_t width, uint64_t *value) {
    if ((size_t)(cursor->end - cursor->at) < width) return gguf_short(cursor);
    *value = gguf_load(cursor->at, width);
    cursor->at += width;
    return TN_OK;
}

/* Reads a count or a length; its width depends on the version. */
static tn_status gguf_count(gguf_cursor *cursor, uint64_t *value) {
    return gguf_take(cursor, cursor->version == 1 ? 4 : 8, value);
}

static tn_status gguf_string(gguf_cursor *cursor, const char **text, size_t *length) {
    uint64_t size = 0;
    TN_TRY(gguf_count(cursor, &size));
    if (size > (uint64_t)(cursor->end - cursor->at)) return gguf_short(cursor);
    *text = (const char *)cursor->at;
    *length = (size_t)size;
    cursor->at += size;
    return TN_OK;
}

/* Copies a string, up to a NUL if it contains one. */
static tn_status gguf_copy(const gguf_cursor *cursor, const char *text, size_t length,
                           const char **copy) {
    *copy = tn__arena_string(&cursor->it->to->arena, text, length);
    return *copy != NULL ? TN_OK : tn__no_memory(cursor->it->error, "names");
}

/* --- keys --- */

static tn_status gguf_step_over(gguf_cursor *cursor, uint32_t kind, uint64_t count) {
    const char *text;
    size_t length;
    uint64_t size = tn__mul_sat(gguf_widths[kind], count);
    if (kind != GGUF_STRING) {
        if (size > (uint64_t)(cursor->end - cursor->at)) return gguf_short(cursor);
        cursor->at += size;
        return TN_OK;
    }
    for (uint64_t i = 0; i < count; i++) TN_TRY(gguf_string(cursor, &text, &length));
    return TN_OK;
}

static tn_status gguf_value(gguf_cursor *cursor, tn__weights_key *key) {
    uint64_t kind = 0, count = 1;
    TN_TRY(gguf_take(cursor, 4, &kind));
    key->list = kind == GGUF_LIST;
    if (key->list) {
        TN_TRY(gguf_take(cursor, 4, &kind));
        TN_TRY(gguf_count(cursor, &count));
    }
    if (kind >= GGUF_KINDS || kind == GGUF_LIST)
        TN_FAIL(cursor->it->error, TN_E_INVALID, "key '%.80s' is of kind %llu, which is not known",
                key->name, (unsigned long long)kind);
    key->type = (uint32_t)kind;
    key->count = count;
    key->at = cursor->at;
    TN_TRY(gguf_step_over(cursor, key->type, count));
    if (key->type != GGUF_STRING || key->list) return TN_OK;
    uint32_t head = cursor->version == 1 ? 4 : 8;
    return gguf_copy(cursor, (const char *)key->at + head, (size_t)(cursor->at - key->at) - head,
                     &key->text);
}

static tn_status gguf_keys(gguf_cursor *cursor, uint64_t count) {
    tn_weights *to = cursor->it->to;
    if (count > TN__WEIGHTS_KEYS_MOST)
        TN_FAIL(cursor->it->error, TN_E_INVALID, "%llu keys make no sense",
                (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        const char *name;
        size_t length;
        tn__weights_key key = {0};
        TN_TRY(gguf_string(cursor, &name, &length));
        TN_TRY(gguf_copy(cursor, name, length, &key.name));
        TN_TRY(gguf_value(cursor, &key));
        if (!tn__reserve(&to->context, &to->keys, &to->key_room, to->key_count + 1,
                         sizeof *to->keys))
            return tn__no_memory(cursor->it->error, "keys");
        if (!tn__names_add(&to->key_names, key.name, strlen(key.name), (uint32_t)to->key_count,
                           NULL))
            return tn__no_memory(cursor->it->error, "keys");
        to->keys[to->key_count++] = key;
    }
    return TN_OK;
}

/* --- tensors --- */

typedef struct gguf_entry { /* an entry of the list of tensors, which precedes the tensor data */
    const char *name;
    size_t length;
    tn_weight tensor;
    uint64_t offset;
} gguf_entry;

/* The number of bytes of an entry's name that a message shows. */
static int gguf_words(const gguf_entry *entry) {
    return entry->length < 80 ? (int)entry->length : 80;
}

static tn_status gguf_shape(gguf_cursor *cursor, gguf_entry *entry) {
    uint64_t rank = 0, extent = 0;
    TN_TRY(gguf_take(cursor, 4, &rank));
    if (rank > GGUF_RANK_MOST) return gguf_short(cursor);
    entry->tensor.rank = (uint32_t)rank;
    int64_t *shape = tn__arena_array(&cursor->it->to->arena, (size_t)rank + 1, sizeof *shape);
    if (shape == NULL) return tn__no_memory(cursor->it->error, "shapes");
    /* the file lists extents from the fastest dimension to the slowest */
    for (uint64_t d = rank; d > 0; d--) {
        TN_TRY(gguf_count(cursor, &extent));
        if (extent > INT64_MAX) return gguf_short(cursor);
        shape[d - 1] = (int64_t)extent;
    }
    entry->tensor.shape = shape;
    if (!tn__weights_elements(shape, entry->tensor.rank, &entry->tensor.elements))
        return gguf_short(cursor);
    return TN_OK;
}

static tn_status gguf_size(const gguf_cursor *cursor, gguf_entry *entry, uint32_t number) {
    tn_weight *tensor = &entry->tensor;
    tensor->type = tn__weight_type_of_gguf(number);
    if (tensor->type == TN_WEIGHT_TYPE_COUNT)
        TN_FAIL(cursor->it->error, TN_E_UNSUPPORTED,
                "tensor '%.*s' is of type %u, which is not known", gguf_words(entry), entry->name,
                number);
    uint64_t row = tensor->rank > 0 ? (uint64_t)tensor->shape[tensor->rank - 1] : 1;
    if (row % tn_weight_type_block(tensor->type) != 0)
        TN_FAIL(cursor->it->error, TN_E_INVALID,
                "tensor '%.*s': rows of %llu are no whole number of blocks of %s",
                gguf_words(entry), entry->name, (unsigned long long)row,
                tn_weight_type_name(tensor->type));
    tensor->size = row > 0 ? tn_weight_type_bytes(tensor->type, tensor->elements / row, row) : 0;
    return TN_OK;
}

static tn_status gguf_entry_read(gguf_cursor *cursor, gguf_entry *entry) {
    uint64_t number = 0;
    TN_TRY(gguf_string(cursor, &entry->name, &entry->length));
    TN_TRY(gguf_shape(cursor, entry));
    TN_TRY(gguf_take(cursor, 4, &number));
    TN_TRY(gguf_size(cursor, entry, (uint32_t)number));
    return gguf_take(cursor, 8, &entry->offset);
}

static tn_status gguf_place(gguf_cursor *cursor, gguf_entry *entry, uint64_t start,
                            uint64_t alignment) {
    tn__weights_reader *it = cursor->it;
    uint64_t end = tn__add_sat(tn__add_sat(start, entry->offset), entry->tensor.size);
    if (entry->offset % alignment != 0 || end > it->size)
        TN_FAIL(it->error, TN_E_INVALID,
                "tensor '%.*s': %llu bytes at %llu are not in the file of %zu bytes; it is damaged "
                "or cut short",
                gguf_words(entry), entry->name, (unsigned long long)entry->tensor.size,
                (unsigned long long)tn__add_sat(start, entry->offset), it->size);
    entry->tensor.bytes = it->bytes + start + entry->offset;
    return tn__weights_add(it, entry->name, entry->length, &entry->tensor);
}

static tn_status gguf_entries(gguf_cursor *cursor, gguf_entry *entries, uint64_t count) {
    uint64_t alignment = 32, start;
    for (uint64_t i = 0; i < count; i++) TN_TRY(gguf_entry_read(cursor, &entries[i]));
    if (tn_weights_number(cursor->it->to, "general.alignment", &alignment) &&
        (alignment > (1u << 20) || !tn__is_power_of_two(alignment) || alignment < 8))
        TN_FAIL(cursor->it->error, TN_E_INVALID, "an alignment of %llu makes no sense",
                (unsigned long long)alignment);
    if (!tn__align_up((uint64_t)(cursor->at - cursor->it->bytes), alignment, &start))
        return gguf_short(cursor);
    for (uint64_t i = 0; i < count; i++) TN_TRY(gguf_place(cursor, &entries[i], start, alignment));
    return TN_OK;
}

#define GGUF_TENSOR_LEAST 20u /* bytes of the shortest entry of the list of tensors */

tn_status tn__gguf_read(tn__weights_reader *it) {
    gguf_cursor cursor = {.it = it, .at = it->bytes + 4, .end = it->bytes + it->size, .version = 3};
    const tn_context *context = &it->to->context;
    uint64_t version = 0, tensors = 0, keys = 0;
    TN_TRY(gguf_take(&cursor, 4, &version));
    if (version < 1 || version > 3)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "version %llu of GGUF; 1 to 3 are read, little endian alone",
                (unsigned long long)version);
    cursor.version = (uint32_t)version;
    TN_TRY(gguf_count(&cursor, &tensors));
    TN_TRY(gguf_count(&cursor, &keys));
    if (tensors > TN__WEIGHTS_MOST || tensors > it->size / GGUF_TENSOR_LEAST)
        return gguf_short(&cursor);
    TN_TRY(gguf_keys(&cursor, keys));
    size_t room = (size_t)tensors + 1;
    gguf_entry *entries = tn__alloc_array(context, room, sizeof *entries);
    if (entries == NULL) return tn__no_memory(it->error, "tensors");
    tn_status status = gguf_entries(&cursor, entries, tensors);
    tn__free(context, entries, room * sizeof *entries);
    return status;
}

/* --- keys --- */

static const tn__weights_key *gguf_find(const tn_weights *weights, const char *key) {
    uint32_t found = tn__names_find(&weights->key_names, key, strlen(key));
    return found != TN__NAMES_NONE ? &weights->keys[found] : NULL;
}

static bool gguf_whole(uint32_t kind, const uint8_t *at, uint64_t *number) {
    bool with_sign = kind == GGUF_I8 || kind == GGUF_I16 || kind == GGUF_I32 || kind == GGUF_I64;
    uint32_t width = gguf_widths[kind];
    if (kind == GGUF_F32 || kind == GGUF_F64 || kind == GGUF_STRING) return false;
    if (with_sign && (at[width - 1] & 0x80) != 0) return false;
    *number = gguf_load(at, width);
    return true;
}

bool tn_weights_number(const tn_weights *weights, const char *key, uint64_t *number) {
    const tn__weights_key *found = gguf_find(weights, key);
    return found != NULL && !found->list && gguf_whole(found->type, found->at, number);
}

bool tn_weights_number_at(const tn_weights *weights, const char *key, uint64_t index,
                          uint64_t *number) {
    const tn__weights_key *found = gguf_find(weights, key);
    if (found == NULL || !found->list || index >= found->count) return false;
    return gguf_whole(found->type, found->at + index * gguf_widths[found->type], number);
}

const char *tn_weights_text(const tn_weights *weights, const char *key) {
    const tn__weights_key *found = gguf_find(weights, key);
    return found != NULL ? found->text : NULL;
}
