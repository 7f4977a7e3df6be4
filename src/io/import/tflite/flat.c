/* flat.c - reads the FlatBuffers wire format; see flat.h.
 *
 * The walk keeps one frame for every table that it is inside of. The schema has no cycle, so there
 * are at most TN_FLAT_DEPTH frames for any file.
 * Cost: O(bytes of tables, offsets and strings), vectors of scalars O(1); at most FLAT_SHARING
 * times the file.
 */
#include "io/import/tflite/flat.h"

#define FLAT_SHARING 8u
#define FLAT_SHARING_MIN ((uint64_t)1 << 20)

typedef struct flat_frame { /* a table that is being verified, or a vector of tables */
    const tn__flat_schema *schema;
    tn__flat_table table;
    uint32_t field; /* next field to be verified */
    /* a vector of `items_schema` tables, which are verified from index `item` on; count 0: this
     * frame is a single table */
    tn__flat_vector items;
    const tn__flat_schema *items_schema;
    uint32_t item;
} flat_frame;

typedef struct flat_walk {
    tn__span file;
    flat_frame frames[TN_FLAT_DEPTH];
    uint32_t depth;
    uint64_t allowance; /* bytes that may still be read */
    size_t end;
    tn_error *error;
} flat_walk;

static tn_status flat_fail(const flat_walk *walk, size_t at, const char *what) {
    const char *table = walk->depth ? walk->frames[walk->depth - 1].schema->name : "file";
    tn_status status = tn__fail(walk->error, TN_E_INVALID, "%.100s, in %.40s", what, table);
    return tn__where(walk->error, status, "byte %zu", at);
}

/* Checks that `size` bytes at `at` lie in the file, and takes them from the allowance. */
static tn_status flat_take(flat_walk *walk, size_t at, uint64_t size, uint64_t work) {
    if (at > walk->file.size || size > walk->file.size - at)
        return flat_fail(walk, at < walk->file.size ? at : walk->file.size,
                         "it reaches beyond the end of the file (cut off?)");
    if (work > walk->allowance)
        return flat_fail(walk, at, "the same bytes are used over and over again");
    walk->allowance -= work;
    if (at + (size_t)size > walk->end) walk->end = at + (size_t)size;
    return TN_OK;
}

static uint32_t flat_u32(const uint8_t *bytes) { return (uint32_t)tn__little(bytes, 4); }

/* --- tables ------------------------------------------------------------------------------- */

/* The offset of a field from the start of its table; 0 if it is absent. */
static uint32_t flat_slot(const tn__flat_table *table, uint32_t field) {
    uint32_t at = 4 + 2 * field;
    if (table->bytes == NULL || at + 2 > table->vtable_size) return 0;
    return (uint32_t)tn__little(table->vtable + at, 2);
}

static tn__flat_table flat_open(const uint8_t *bytes) {
    const uint8_t *vtable = bytes - (int32_t)flat_u32(bytes);
    return (tn__flat_table){.bytes = bytes,
                            .vtable = vtable,
                            .vtable_size = (uint32_t)tn__little(vtable, 2),
                            .size = (uint32_t)tn__little(vtable + 2, 2)};
}

static tn_status flat_check_table(flat_walk *walk, size_t at, tn__flat_table *table) {
    TN_TRY(flat_take(walk, at, 4, 4));
    int64_t vtable = (int64_t)at - (int32_t)flat_u32(walk->file.bytes + at);
    if (vtable < 0) return flat_fail(walk, at, "a table's vtable lies before the file");
    TN_TRY(flat_take(walk, (size_t)vtable, 4, 4));
    tn__flat_table found = flat_open(walk->file.bytes + at);
    if (found.vtable_size < 4 || found.vtable_size % 2 || found.size < 4)
        return flat_fail(walk, (size_t)vtable, "a vtable has a size that cannot be");
    TN_TRY(flat_take(walk, (size_t)vtable, found.vtable_size, found.vtable_size));
    TN_TRY(flat_take(walk, at, found.size, found.size));
    *table = found;
    return TN_OK;
}

static tn_status flat_push(flat_walk *walk, const tn__flat_schema *schema, size_t at) {
    tn__flat_table table;
    TN_TRY(flat_check_table(walk, at, &table));
    if (schema == NULL) return TN_OK;
    if (walk->depth == TN_FLAT_DEPTH) return flat_fail(walk, at, "tables are nested too deep");
    walk->frames[walk->depth++] = (flat_frame){.schema = schema, .table = table};
    return TN_OK;
}

/* --- fields ------------------------------------------------------------------------------- */

static size_t flat_at(const flat_walk *walk, const uint8_t *bytes) {
    return (size_t)(bytes - walk->file.bytes);
}

/* Computes the target of the offset that is stored at `at`. */
static tn_status flat_follow(flat_walk *walk, const uint8_t *at, size_t *target) {
    uint32_t offset = flat_u32(at);
    size_t place = flat_at(walk, at);
    *target = 0;
    if (offset == 0) return flat_fail(walk, place, "an offset leads nowhere");
    TN_TRY(flat_take(walk, place, (uint64_t)offset, 0));
    *target = place + offset;
    return TN_OK;
}

static tn_status flat_check_list(flat_walk *walk, size_t at, uint32_t width, bool is_work,
                                 tn__flat_vector *list) {
    TN_TRY(flat_take(walk, at, 4, 4));
    uint32_t count = flat_u32(walk->file.bytes + at);
    uint64_t size = (uint64_t)count * width;
    TN_TRY(flat_take(walk, at + 4, size, is_work ? size : 0));
    *list = (tn__flat_vector){walk->file.bytes + at + 4, count};
    return TN_OK;
}

static tn_status flat_check_string(flat_walk *walk, size_t at) {
    tn__flat_vector text;
    TN_TRY(flat_check_list(walk, at, 1, true, &text));
    size_t end = at + 4 + text.count;
    TN_TRY(flat_take(walk, end, 1, 1));
    return walk->file.bytes[end] ? flat_fail(walk, end, "a string does not end") : TN_OK;
}

static uint32_t flat_inline_size(const tn__flat_field *field) {
    return field->kind == TN_FLAT_SCALAR ? field->width : 4;
}

/* The schema of the table in a field. */
static const tn__flat_schema *flat_child_of(const flat_frame *frame, const tn__flat_field *field,
                                            uint32_t index) {
    if (field->members == NULL || index == 0) return field->child;
    uint64_t type = tn__flat_uint(&frame->table, index - 1, 1, 0);
    return type < field->member_count ? field->members[type] : NULL;
}

/* Verifies one field of the table on top of the stack; a table in this field is pushed. */
static tn_status flat_check_field(flat_walk *walk, flat_frame *frame, uint32_t index) {
    const tn__flat_field *field = &frame->schema->fields[index];
    uint32_t slot = flat_slot(&frame->table, index);
    if (slot == 0 || field->kind == TN_FLAT_UNKNOWN) return TN_OK;
    const uint8_t *at = frame->table.bytes + slot;
    if (slot < 4 || slot + flat_inline_size(field) > frame->table.size)
        return flat_fail(walk, flat_at(walk, frame->table.bytes), "a field lies outside its table");
    if (field->kind == TN_FLAT_SCALAR) return TN_OK;
    size_t target;
    tn__flat_vector list = {0};
    TN_TRY(flat_follow(walk, at, &target));
    switch (field->kind) {
    case TN_FLAT_STRING:
        return flat_check_string(walk, target);
    /* the contents of the vector are not read here, because they may be the data of a tensor */
    case TN_FLAT_SCALARS:
        return flat_check_list(walk, target, field->width, field->width > 1, &list);
    case TN_FLAT_TABLES:
        TN_TRY(flat_check_list(walk, target, 4, true, &list));
        frame->items = list;
        frame->items_schema = field->child;
        frame->item = 0;
        return TN_OK;
    default:
        return flat_push(walk, flat_child_of(frame, field, index), target);
    }
}

static tn_status flat_step(flat_walk *walk) {
    flat_frame *frame = &walk->frames[walk->depth - 1];
    if (frame->item < frame->items.count) {
        size_t target;
        TN_TRY(flat_follow(walk, frame->items.items + (size_t)4 * frame->item++, &target));
        return flat_push(walk, frame->items_schema, target);
    }
    frame->items.count = frame->item = 0;
    if (frame->field == frame->schema->field_count) {
        walk->depth--;
        return TN_OK;
    }
    uint32_t field = frame->field++;
    return flat_check_field(walk, frame, field);
}

tn_status tn__flat_verify(tn__span file, const tn__flat_schema *root, size_t *end,
                          tn_error *error) {
    flat_walk walk = {.file = file, .error = error, .end = 8};
    walk.allowance = tn__add_sat(FLAT_SHARING_MIN, tn__mul_sat(FLAT_SHARING, file.size));
    size_t target;
    /* reads the first 8 bytes: the offset of the root table, and the identifier of the format */
    TN_TRY(flat_take(&walk, 0, 8, 0));
    TN_TRY(flat_follow(&walk, file.bytes, &target));
    TN_TRY(flat_push(&walk, root, target));
    while (walk.depth) TN_TRY(flat_step(&walk));
    *end = walk.end;
    return TN_OK;
}

/* --- reading ------------------------------------------------------------------------------ */

static const uint8_t *flat_target(const uint8_t *at) { return at + flat_u32(at); }

tn__flat_table tn__flat_root(tn__span file) { return flat_open(flat_target(file.bytes)); }

bool tn__flat_has(const tn__flat_table *table, uint32_t field) {
    return flat_slot(table, field) != 0;
}

uint64_t tn__flat_uint(const tn__flat_table *table, uint32_t field, uint32_t width,
                       uint64_t otherwise) {
    uint32_t slot = flat_slot(table, field);
    /* members of a union are only verified as tables, so the position of the field is checked
     * here */
    if (slot < 4 || slot + width > table->size) return otherwise;
    return tn__little(table->bytes + slot, width);
}

int64_t tn__flat_int(const tn__flat_table *table, uint32_t field, uint32_t width,
                     int64_t otherwise) {
    uint32_t slot = flat_slot(table, field);
    uint64_t sign = (uint64_t)1 << (8 * width - 1);
    if (slot < 4 || slot + width > table->size) return otherwise;
    return (int64_t)((tn__little(table->bytes + slot, width) ^ sign) - sign);
}

tn__flat_table tn__flat_child(const tn__flat_table *table, uint32_t field) {
    uint32_t slot = flat_slot(table, field);
    return slot ? flat_open(flat_target(table->bytes + slot)) : (tn__flat_table){0};
}

tn__flat_table tn__flat_member(const tn__flat_table *table, uint32_t field, uint32_t type) {
    return tn__flat_uint(table, field - 1, 1, 0) == type ? tn__flat_child(table, field)
                                                         : (tn__flat_table){0};
}

tn__flat_vector tn__flat_list(const tn__flat_table *table, uint32_t field) {
    uint32_t slot = flat_slot(table, field);
    if (slot == 0) return (tn__flat_vector){0};
    const uint8_t *list = flat_target(table->bytes + slot);
    return (tn__flat_vector){list + 4, flat_u32(list)};
}

tn__span tn__flat_string(const tn__flat_table *table, uint32_t field) {
    tn__flat_vector text = tn__flat_list(table, field);
    return (tn__span){text.items, text.count};
}

tn__flat_table tn__flat_item(const tn__flat_vector *tables, uint32_t index) {
    return flat_open(flat_target(tables->items + (size_t)4 * index));
}
