/* flat_write.c - writes a FlatBuffer in front of an old one, as flat_write.h describes.
 *
 * Every field of a table takes four bytes, so that only tensor data needs a larger alignment.
 *
 * Cost: O(bytes).
 */
#include "report/export/flat_write.h"

#define FLAT_FIELDS 16u

void tn__flat_begin(flat_writer *writer, const tn_context *context, tn__span file) {
    *writer = (flat_writer){.context = *context, .file = file};
    tn__text_init(&writer->text, &writer->context);
}

void tn__flat_end(flat_writer *writer) {
    tn__text_release(&writer->text);
    tn__free(&writer->context, writer->fixes, writer->fix_room * sizeof *writer->fixes);
    tn__free(&writer->context, writer->labels, writer->label_room * sizeof *writer->labels);
}

static void flat_put(flat_writer *writer, const void *bytes, size_t size) {
    tn__text_add(&writer->text, bytes, size);
}

uint32_t tn__flat_label(flat_writer *writer) {
    writer->failed =
        writer->failed || !tn__reserve(&writer->context, &writer->labels, &writer->label_room,
                                       writer->label_count + 1, sizeof *writer->labels);
    if (writer->failed) return 0;
    writer->labels[writer->label_count] = 0;
    return (uint32_t)writer->label_count++;
}

void tn__flat_here(flat_writer *writer, uint32_t label) {
    if (!writer->failed) writer->labels[label] = writer->text.size;
}

void tn__flat_u32(flat_writer *writer, uint32_t value) {
    uint8_t bytes[4];
    for (uint32_t i = 0; i < 4; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    flat_put(writer, bytes, 4);
}

static void flat_u16(flat_writer *writer, uint32_t value) {
    uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
    flat_put(writer, bytes, 2);
}

void tn__flat_align(flat_writer *writer, size_t alignment) {
    while (!writer->text.failed && writer->text.size % alignment != 0) flat_put(writer, "", 1);
}

static void flat_fix_at(flat_writer *writer, uint32_t label, size_t old) {
    writer->failed =
        writer->failed || !tn__reserve(&writer->context, &writer->fixes, &writer->fix_room,
                                       writer->fix_count + 1, sizeof *writer->fixes);
    if (!writer->failed)
        writer->fixes[writer->fix_count++] = (flat_fix){writer->text.size, label, old};
    tn__flat_u32(writer, 0);
}

void tn__flat_lead(flat_writer *writer, uint32_t label) { flat_fix_at(writer, label, 0); }

void tn__flat_lead_old(flat_writer *writer, const uint8_t *old) {
    flat_fix_at(writer, TN__FLAT_OLD, (size_t)(old - writer->file.bytes));
}

void tn__flat_table_put(flat_writer *writer, uint32_t label, const flat_slot *slots,
                        uint32_t count) {
    uint32_t at = 4, vtable = 4 + 2 * count, offsets[FLAT_FIELDS] = {0};
    tn_assert(count <= FLAT_FIELDS);
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i].kind == FLAT_NONE) continue;
        offsets[i] = at;
        at += 4;
    }
    tn__flat_align(writer, 4);
    /* padding before the vtable, so that the table begins directly after it */
    if (vtable % 4 != 0) flat_u16(writer, 0);
    flat_u16(writer, vtable);
    flat_u16(writer, at);
    for (uint32_t i = 0; i < count; i++) flat_u16(writer, offsets[i]);
    tn__flat_here(writer, label);
    tn__flat_u32(writer, vtable);
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i].kind == FLAT_LABEL)
            tn__flat_lead(writer, slots[i].value);
        else if (slots[i].kind == FLAT_OLD)
            tn__flat_lead_old(writer, slots[i].old);
        else if (slots[i].kind != FLAT_NONE)
            tn__flat_u32(writer, slots[i].value);
    }
}

void tn__flat_text_put(flat_writer *writer, uint32_t label, const char *text) {
    size_t size = strlen(text);
    tn__flat_align(writer, 4);
    tn__flat_here(writer, label);
    tn__flat_u32(writer, (uint32_t)size);
    flat_put(writer, text, size + 1);
}

void tn__flat_ints_put(flat_writer *writer, uint32_t label, const int32_t *ints, uint32_t count) {
    tn__flat_align(writer, 4);
    tn__flat_here(writer, label);
    tn__flat_u32(writer, count);
    for (uint32_t i = 0; i < count; i++) tn__flat_u32(writer, (uint32_t)ints[i]);
}

void tn__flat_bytes_put(flat_writer *writer, uint32_t label, const void *bytes, uint32_t size) {
    while (!writer->text.failed && (writer->text.size + 4) % FLAT_ALIGNMENT != 0)
        flat_put(writer, "", 1);
    tn__flat_here(writer, label);
    tn__flat_u32(writer, size);
    flat_put(writer, bytes, size);
}

tn_status tn__flat_finish(flat_writer *writer, tn_error *error) {
    tn__flat_align(writer, FLAT_ALIGNMENT);
    size_t end = writer->text.size;
    uint64_t total;
    if (!tn__add(end, writer->file.size, &total) || total > INT32_MAX)
        TN_FAIL(error, TN_E_UNSUPPORTED, "a model above 2 GiB");
    flat_put(writer, writer->file.bytes, writer->file.size);
    if (writer->failed || writer->text.failed) return tn__no_memory(error, "the split model");
    for (size_t i = 0; i < writer->fix_count; i++) {
        const flat_fix *fix = &writer->fixes[i];
        size_t to = fix->label == TN__FLAT_OLD ? end + fix->old : writer->labels[fix->label];
        tn_assert(to > fix->at);
        for (uint32_t k = 0; k < 4; k++)
            writer->text.data[fix->at + k] = (char)(uint8_t)((to - fix->at) >> (8 * k));
    }
    return TN_OK;
}

const uint8_t *tn__flat_old(const tn__flat_table *table, uint32_t field) {
    if (!tn__flat_has(table, field)) return NULL;
    const uint8_t *at = table->bytes + tn__little(table->vtable + 4 + 2 * (size_t)field, 2);
    return at + tn__little(at, 4);
}
