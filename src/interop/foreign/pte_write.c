/* pte_write.c - writes a .pte file again with other offsets.
 *
 * Only words change: memory_offset_low and _high of tensors, and non_const_buffer_sizes. A
 * FlatBuffer leaves out a field that is 0, so a tensor at offset 0 has no word that could be
 * changed. If it moves, it gets a new AllocationDetails after the program, and its reference is
 * changed:
 *
 *   | program, with changed words | vtable | AllocationDetails ... | padding | segments |
 *
 * A record that several tensors refer to is replaced in the same way. The segments move by a
 * multiple of their alignment, and the extended header states their new start. Without the header
 * there are no segments, and the records go to the end of the file.
 *
 * The result is read again: it must have the same values with the new places, and nothing else may
 * differ. So a file with overlapping records is refused instead of being damaged.
 */
#include "interop/foreign/pte.h"

#define PTE_PAGE 4096u
#define PTE_RECORD 16u
#define PTE_VTABLE 10u

typedef struct pte_writing {
    const tn_foreign *foreign;
    pte_file file;
    const uint64_t *offsets; /* [buffers] */
    uint8_t *program;        /* [program.size], the new program */
    uint32_t *places;        /* [values of the plan] offset of each value's record, sorted */
    tn__text added;          /* vtable and records that follow the program */
    size_t start;            /* offset of `added` in the file */
    tn_error *error;
} pte_writing;

static void pte_put(uint8_t *to, uint64_t value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) to[i] = (uint8_t)(value >> (8 * i));
}

static size_t pte_at(const pte_writing *writing, const uint8_t *bytes) {
    return (size_t)(bytes - writing->file.program.bytes);
}

/* Returns the offset of a table's field in the file; 0: the field is absent. */
static size_t pte_field(const pte_writing *writing, const tn__flat_table *table, uint32_t field) {
    uint32_t slot = 4 + 2 * field;
    uint64_t at = slot + 2 <= table->vtable_size ? tn__little(table->vtable + slot, 2) : 0;
    return at != 0 ? pte_at(writing, table->bytes) + (size_t)at : 0;
}

static int pte_by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Whether several tensors refer to the record at this offset. */
static bool pte_is_shared(const pte_writing *writing, uint32_t place) {
    const uint32_t *found = bsearch(&place, writing->places, writing->foreign->facts.value_count,
                                    sizeof place, pte_by_number);
    if (found == NULL) return true;
    const uint32_t *end = writing->places + writing->foreign->facts.value_count;
    return (found > writing->places && found[-1] == place) ||
           (found + 1 < end && found[1] == place);
}

/* Writes an offset into the two words of a record. Writes nothing and returns false if a word that
 * must not be 0 is missing, or if several tensors use the record. */
static bool pte_patch(pte_writing *writing, const tn__flat_table *place, uint64_t offset) {
    size_t low = pte_field(writing, place, PTE_PLACE_LOW);
    size_t high = pte_field(writing, place, PTE_PLACE_HIGH);
    if ((low == 0 && (uint32_t)offset != 0) || (high == 0 && offset >> 32 != 0)) return false;
    if (pte_is_shared(writing, (uint32_t)pte_at(writing, place->bytes))) return false;
    if (low != 0) pte_put(writing->program + low, offset, 4);
    if (high != 0) pte_put(writing->program + high, offset >> 32, 4);
    return true;
}

/* Adds a record and makes the tensor refer to it. */
static tn_status pte_add(pte_writing *writing, const tn__flat_table *tensor,
                         const tn__flat_table *place, uint64_t offset) {
    uint8_t record[PTE_RECORD], vtable[16] = {0};
    static const uint16_t words[] = {PTE_VTABLE, PTE_RECORD, 4, 8, 12};
    if (writing->added.size == 0) {
        for (uint32_t i = 0; i < 5; i++) pte_put(vtable + 2 * i, words[i], 2);
        tn__text_add(&writing->added, (const char *)vtable, sizeof vtable);
    }
    size_t at = writing->start + writing->added.size;
    size_t reference = pte_field(writing, tensor, PTE_TENSOR_PLACE);
    if (at > INT32_MAX) TN_FAIL(writing->error, TN_E_UNSUPPORTED, "a program of more than 2 GiB");
    pte_put(record, at - writing->start, 4); /* distance from the record to its vtable */
    pte_put(record + 4, tn__flat_uint(place, PTE_PLACE_MEMORY, 4, 0), 4);
    pte_put(record + 8, offset, 8);
    tn__text_add(&writing->added, (const char *)record, sizeof record);
    pte_put(writing->program + reference, at - reference, 4);
    return TN_OK;
}

/* Writes the new offset of each value of the plan, in the order of the values. */
static tn_status pte_write_values(pte_writing *writing) {
    uint32_t number = 0;
    for (uint32_t i = 0; i < writing->file.values.count; i++) {
        tn__flat_table tensor = tn__pte_tensor(&writing->file, i);
        if (tensor.bytes == NULL) continue;
        tn__flat_table place = tn__flat_child(&tensor, PTE_TENSOR_PLACE);
        if (place.bytes == NULL) continue;
        const tn_foreign_value *value = &writing->foreign->values[number++];
        uint64_t offset = value->buffer != UINT32_MAX ? writing->offsets[value->buffer] : 0;
        if (offset == value->offset) continue;
        if (!pte_patch(writing, &place, offset)) TN_TRY(pte_add(writing, &tensor, &place, offset));
    }
    return TN_OK;
}

static tn_status pte_find_places(pte_writing *writing) {
    uint32_t number = 0;
    for (uint32_t i = 0; i < writing->file.values.count; i++) {
        tn__flat_table tensor = tn__pte_tensor(&writing->file, i);
        if (tensor.bytes == NULL) continue;
        tn__flat_table place = tn__flat_child(&tensor, PTE_TENSOR_PLACE);
        if (place.bytes != NULL) writing->places[number++] = (uint32_t)pte_at(writing, place.bytes);
    }
    qsort(writing->places, number, sizeof *writing->places, pte_by_number);
    return TN_OK;
}

static void pte_write_sizes(pte_writing *writing, const uint64_t *sizes) {
    for (uint32_t i = 0; i < writing->foreign->facts.arena_count; i++) {
        size_t at = pte_at(writing, writing->file.sizes.items) + (size_t)8 * (i + 1);
        pte_put(writing->program + at, sizes[i], 8);
    }
}

/* Returns the largest power of two up to a page that divides the offset of the segments, but at
 * least 16. */
static size_t pte_alignment(uint64_t segments) {
    size_t alignment = PTE_PAGE;
    while (segments % alignment != 0) alignment /= 2;
    return alignment < 16 ? 16 : alignment;
}

static void pte_zeros(tn__text *out, size_t count) {
    static const char zeros[64];
    for (; count > 0 && !out->failed; count -= count < 64 ? count : 64)
        tn__text_add(out, zeros, count < 64 ? count : 64);
}

/* Joins the program, the added records, and the other bytes of the file. */
static void pte_join(pte_writing *writing, tn__text *out) {
    const pte_file *file = &writing->file;
    size_t program = file->program.size, grown = 0;
    if (writing->added.size > 0) {
        size_t alignment = file->segments > 0 ? pte_alignment(file->segments) : 16;
        size_t extra = writing->start + writing->added.size - program;
        grown = (extra + alignment - 1) / alignment * alignment;
        if (file->has_header) pte_put(writing->program + PTE_HEADER_AT + 8, program + grown, 8);
        if (file->segments > 0)
            pte_put(writing->program + PTE_HEADER_AT + 16, file->segments + grown, 8);
    }
    tn__text_add(out, (const char *)writing->program, program);
    if (grown > 0) {
        pte_zeros(out, writing->start - program);
        tn__text_add(out, writing->added.data, writing->added.size);
        pte_zeros(out, program + grown - writing->start - writing->added.size);
    }
    tn__text_add(out, (const char *)file->bytes.bytes + program, file->bytes.size - program);
}

/* Checks that the new file has the same values at the new places, with live ranges that contain the
 * old ones. They can be longer, because scratch memory can lie where a value of its type and size
 * was before. */
static tn_status pte_check(const pte_writing *writing, const uint64_t *sizes, const tn__text *out) {
    const tn_foreign *before = writing->foreign;
    tn_foreign *after;
    tn__span bytes = {(const uint8_t *)out->data, out->size};
    TN_TRY(tn__pte_read(writing->file.name, bytes, before->facts.module, &before->context, &after,
                        writing->error));
    bool same = after->facts.value_count == before->facts.value_count &&
                after->facts.arena_count == before->facts.arena_count;
    for (uint32_t i = 0; same && i < before->facts.arena_count; i++)
        same = after->arenas[i].size == sizes[i];
    for (uint32_t i = 0; same && i < before->facts.value_count; i++) {
        const tn_foreign_value *x = &before->values[i], *y = &after->values[i];
        uint64_t offset = x->buffer != UINT32_MAX ? writing->offsets[x->buffer] : 0;
        same = x->size == y->size && x->arena == y->arena && y->first <= x->first &&
               y->last >= x->last && y->offset == offset && strcmp(x->name, y->name) == 0;
    }
    tn_foreign_destroy(after);
    if (!same)
        TN_FAIL(writing->error, TN_E_INVALID,
                "the records of this file overlap, so its offsets cannot be changed alone");
    return TN_OK;
}

static tn_status pte_rewrite(pte_writing *writing, const uint64_t *sizes, tn__text *out) {
    writing->start = (writing->file.program.size + 15) / 16 * 16;
    TN_TRY(pte_find_places(writing));
    TN_TRY(pte_write_values(writing));
    pte_write_sizes(writing, sizes);
    pte_join(writing, out);
    if (out->failed || writing->added.failed) return tn__no_memory(writing->error, "a program");
    return pte_check(writing, sizes, out);
}

tn_status tn__pte_rewrite(const tn_foreign *foreign, tn__span file, const uint64_t *offsets,
                          const uint64_t *sizes, tn__text *out, tn_error *error) {
    const tn_context *context = &foreign->context;
    pte_writing writing = {.foreign = foreign, .offsets = offsets, .error = error};
    TN_TRY(tn__pte_open(&writing.file, "program", file, foreign->facts.module, error));
    size_t size = writing.file.program.size, values = (size_t)foreign->facts.value_count + 1;
    tn__text_init(&writing.added, context);
    writing.program = tn__alloc(context, size);
    writing.places = tn__alloc_array(context, values, sizeof *writing.places);
    bool fits = writing.program != NULL && writing.places != NULL;
    if (fits) memcpy(writing.program, file.bytes, size);
    tn_status status = fits ? pte_rewrite(&writing, sizes, out) : tn__no_memory(error, "a program");
    tn__free(context, writing.places, values * sizeof *writing.places);
    tn__free(context, writing.program, size);
    tn__text_release(&writing.added);
    return status;
}
