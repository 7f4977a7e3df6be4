/* safetensors.c - reads .safetensors files: eight bytes with the length of the header, a header of
 * JSON, packed tensors.
 *
 * The header (the format limits it to 100 MB) is parsed entry by entry, because the values of JSON
 * take many times the memory of their text: one entry at a time, and no more than a tensor needs.
 * Every range that it names is checked: it lies in the file, has the length that type and shape
 * need, and overlaps no other.
 */
#include <stdio.h>

#include "io/weights/weights.h"

#ifdef TENURE_MINIMAL
tn_status tn__safetensors_read(tn__weights_reader *it) {
    TN_FAIL(it->error, TN_E_UNSUPPORTED, "this build reads no JSON");
}
tn_status tn__safetensors_index(tn__weights_reader *it,
                                tn_status (*part)(void *self, const char *file), void *self) {
    (void)part, (void)self;
    TN_FAIL(it->error, TN_E_UNSUPPORTED, "this build reads no JSON");
}
#else
#include "base/json.h"

#define SAFETENSORS_HEADER_MOST 100000000u
#define SAFETENSORS_ENTRY_MOST ((size_t)64 << 10)

/* Reads the range [first, last) of "data_offsets", which must lie inside the tensor data. */
static bool safetensors_stretch(const json_t *tensor, uint64_t room, uint64_t *first,
                                uint64_t *last) {
    const json_t *offsets = json_object_get(tensor, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (!json_is_integer(begin) || !json_is_integer(end) || json_array_size(offsets) != 2)
        return false;
    json_int_t low = json_integer_value(begin), high = json_integer_value(end);
    if (low < 0 || high < low || (uint64_t)high > room) return false;
    *first = (uint64_t)low;
    *last = (uint64_t)high;
    return true;
}

/* Reads the shape of a tensor; `valid` is false if it is missing or invalid. Errors:
 * E_NO_MEMORY. */
static tn_status safetensors_shape(tn__weights_reader *it, const json_t *tensor, tn_weight *made,
                                   bool *valid) {
    const json_t *shape = json_object_get(tensor, "shape");
    *valid = json_is_array(shape) && json_array_size(shape) <= TN_RANK_MAX;
    if (!*valid) return TN_OK;
    made->rank = (uint32_t)json_array_size(shape);
    int64_t *extents = tn__arena_array(&it->to->arena, made->rank + 1u, sizeof *extents);
    if (extents == NULL) return tn__no_memory(it->error, "a shape");
    for (uint32_t d = 0; d < made->rank && *valid; d++) {
        const json_t *extent = json_array_get(shape, d);
        *valid = json_is_integer(extent);
        extents[d] = json_integer_value(extent);
    }
    made->shape = extents;
    *valid = *valid && tn__weights_elements(extents, made->rank, &made->elements);
    return TN_OK;
}

/* Reads one tensor. Elements of less than a byte are packed over the whole tensor, not row by
 * row. */
static tn_status safetensors_tensor(tn__weights_reader *it, const char *name, const json_t *tensor,
                                    const uint8_t *contents, uint64_t room) {
    tn_weight made = {0};
    uint64_t first, last;
    const char *type = json_string_value(json_object_get(tensor, "dtype"));
    bool valid;
    TN_TRY(safetensors_shape(it, tensor, &made, &valid));
    if (type == NULL || !valid || !safetensors_stretch(tensor, room, &first, &last))
        TN_FAIL(it->error, TN_E_INVALID,
                "tensor '%.80s' needs a dtype, a shape and data_offsets inside the file; it is "
                "damaged or cut short",
                name);
    made.type = tn__weight_type_of_safetensors(type);
    if (made.type == TN_WEIGHT_TYPE_COUNT)
        TN_FAIL(it->error, TN_E_UNSUPPORTED, "tensor '%.80s' is of dtype %.20s, which is not known",
                name, type);
    made.size = last - first;
    made.bytes = contents + first;
    if (made.size != tn_weight_type_bytes(made.type, 1, made.elements))
        TN_FAIL(it->error, TN_E_INVALID,
                "tensor '%.80s' has %llu bytes, but its shape and dtype %s need %llu", name,
                (unsigned long long)made.size, type,
                (unsigned long long)tn_weight_type_bytes(made.type, 1, made.elements));
    return tn__weights_add(it, name, strlen(name), &made);
}

/* Checks that tensors do not overlap: sorted by their begins, each one ends before the next
 * begins. */
static tn_status safetensors_apart(tn__weights_reader *it, size_t before) {
    const tn_weights *to = it->to;
    size_t count = to->count - before;
    tn__sort_item *items = tn__alloc_array(&to->context, count + 1, sizeof *items);
    if (items == NULL) return tn__no_memory(it->error, "tensors");
    for (size_t i = 0; i < count; i++)
        items[i] = (tn__sort_item){(uint64_t)(to->tensors[before + i].bytes - it->bytes),
                                   (uint32_t)(before + i)};
    tn_status status =
        tn__sort_items(&to->context, items, count) ? TN_OK : tn__no_memory(it->error, "tensors");
    const tn_weight *last = NULL; /* the last tensor so far that is not empty */
    for (size_t i = 0; status == TN_OK && i < count; i++) {
        const tn_weight *next = &to->tensors[items[i].id];
        if (next->size == 0) continue;
        if (last != NULL && next->bytes < last->bytes + last->size)
            status = tn__fail(it->error, TN_E_INVALID, "tensors '%.60s' and '%.60s' overlap",
                              last->name, next->name);
        last = next;
    }
    tn__free(&to->context, items, (count + 1) * sizeof *items);
    return status;
}

/* --- reading the header, entry by entry --- */

typedef struct safetensors_entries {
    tn__weights_reader *it;
    const char *text;
    size_t size, at;
    char *entry; /* copy of one entry in braces, which makes it a JSON object of its own */
    size_t room;
    bool has_metadata;
} safetensors_entries;

static void safetensors_skip(safetensors_entries *e) {
    while (e->at < e->size && memchr(" \t\r\n", e->text[e->at], 4) != NULL) e->at++;
}

/* Moves to the comma or brace that ends an entry. Brackets are only counted, because the JSON
 * parser checks them later. Returns false if the text ends first. */
static bool safetensors_pass(safetensors_entries *e) {
    size_t depth = 0;
    bool quoted = false;
    for (; e->at < e->size; e->at++) {
        char c = e->text[e->at];
        if (quoted) {
            if (c == '\\') e->at++;
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (depth > 0 && (c == '}' || c == ']')) {
            depth--;
        } else if (depth == 0 && (c == ',' || c == '}')) {
            return true;
        }
    }
    return false;
}

static tn_status safetensors_bad(const safetensors_entries *e, size_t at, const char *why) {
    TN_FAIL(e->it->error, TN_E_INVALID, "its header, byte %zu: %.120s", at, why);
}

/* Parses the entry in the bytes from `first` to e->at. */
static tn_status safetensors_entry(safetensors_entries *e, size_t first, const uint8_t *contents,
                                   uint64_t room) {
    static const char metadata[] = "\"__metadata__\"";
    tn__weights_reader *it = e->it;
    size_t size = e->at - first;
    json_error_t problem;
    tn_status status;
    const char *name;
    json_t *tensor;
    if (size >= sizeof metadata - 1 && !memcmp(e->text + first, metadata, sizeof metadata - 1)) {
        if (e->has_metadata) return safetensors_bad(e, first, "a second entry \"__metadata__\"");
        e->has_metadata = true; /* the metadata are not used */
        return TN_OK;
    }
    if (size > SAFETENSORS_ENTRY_MOST)
        return safetensors_bad(e, first, "an entry of more than 64 KiB, which no tensor needs");
    if (!tn__reserve(&it->to->context, &e->entry, &e->room, size + 2, 1))
        return tn__no_memory(it->error, "its header");
    e->entry[0] = '{';
    memcpy(e->entry + 1, e->text + first, size);
    e->entry[size + 1] = '}';
    json_t *root = tn__json_parse(e->entry, size + 2, &problem, &status);
    if (root == NULL && status == TN_E_NO_MEMORY) return tn__no_memory(it->error, "its header");
    if (root == NULL)
        return safetensors_bad(e, first + (size_t)(problem.position > 2 ? problem.position - 2 : 0),
                               problem.text);
    status = json_object_size(root) == 1 ? TN_OK
                                         : safetensors_bad(e, first, "no entry between its commas");
    json_object_foreach(root, name, tensor) if (status == TN_OK) status =
        safetensors_tensor(it, name, tensor, contents, room);
    json_decref(root);
    return status;
}

static tn_status safetensors_walk(safetensors_entries *e, const uint8_t *contents, uint64_t room) {
    safetensors_skip(e);
    if (e->at == e->size || e->text[e->at++] != '{')
        TN_FAIL(e->it->error, TN_E_INVALID, "its header is no JSON object of tensors");
    safetensors_skip(e);
    bool more = e->at == e->size || e->text[e->at] != '}';
    while (more) {
        safetensors_skip(e);
        size_t first = e->at;
        if (!safetensors_pass(e)) return safetensors_bad(e, first, "it ends within this entry");
        TN_TRY(safetensors_entry(e, first, contents, room));
        more = e->text[e->at] == ',';
        if (more) e->at++;
    }
    e->at++;
    safetensors_skip(e); /* the format pads the header with blanks */
    return e->at == e->size ? TN_OK : safetensors_bad(e, e->at, "something follows its object");
}

tn_status tn__safetensors_read(tn__weights_reader *it) {
    uint64_t header = 0;
    for (uint32_t i = 0; i < 8 && it->size >= 8; i++) header |= (uint64_t)it->bytes[i] << (8 * i);
    if (it->size < 8 || header > it->size - 8 || header > SAFETENSORS_HEADER_MOST)
        TN_FAIL(it->error, TN_E_INVALID,
                "no .safetensors file, or cut short: %zu bytes, and a header of %llu", it->size,
                (unsigned long long)header);
    safetensors_entries entries = {
        .it = it, .text = (const char *)it->bytes + 8, .size = (size_t)header};
    size_t before = it->to->count;
    tn_status status = safetensors_walk(&entries, it->bytes + 8 + header, it->size - 8 - header);
    tn__free(&it->to->context, entries.entry, entries.room);
    return status == TN_OK ? safetensors_apart(it, before) : status;
}

/* --- reading an index, which names the files of a model --- */

static bool index_is_plain(const char *file) {
    return *file != '\0' && *file != '.' && strchr(file, '/') == NULL;
}

static tn_status index_parts(tn__weights_reader *it, json_t *map, json_t *seen,
                             tn_status (*part)(void *self, const char *file), void *self) {
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) {
        const char *file = json_string_value(value);
        if (file == NULL || !index_is_plain(file))
            TN_FAIL(it->error, TN_E_INVALID,
                    "\"weight_map\" says '%.80s' of '%.80s'; it must be a file next to the index",
                    file != NULL ? file : "?", name);
        if (json_object_get(seen, file) != NULL) continue;
        if (json_object_size(seen) >= TN__WEIGHTS_PARTS_MOST)
            TN_FAIL(it->error, TN_E_INVALID, "more than %u files", TN__WEIGHTS_PARTS_MOST);
        if (json_object_set_new(seen, file, json_true()) != 0)
            return tn__no_memory(it->error, "an index");
        TN_TRY(part(self, file));
    }
    return TN_OK;
}

tn_status tn__safetensors_index(tn__weights_reader *it,
                                tn_status (*part)(void *self, const char *file), void *self) {
    json_error_t problem;
    tn_status status;
    json_t *root = tn__json_parse(it->bytes, it->size, &problem, &status);
    if (root == NULL) TN_FAIL(it->error, status, "line %d: %.120s", problem.line, problem.text);
    json_t *map = json_object_get(root, "weight_map"), *seen = json_object();
    if (seen == NULL)
        status = tn__no_memory(it->error, "an index");
    else
        status = json_is_object(map)
                     ? index_parts(it, map, seen, part, self)
                     : tn__fail(it->error, TN_E_INVALID,
                                "no \"weight_map\": it is no index of .safetensors files");
    json_decref(seen);
    json_decref(root);
    return status;
}
#endif
