/* flat_write.h - writes a FlatBuffer in front of an old one, which it keeps.
 *
 * Offsets in a FlatBuffer only point forward. So the new objects come first, each before the
 * objects that it points to, and the old file follows unchanged. The new objects can therefore
 * point into the old file. An object that is not written yet is represented by a label. The last
 * call, tn__flat_finish, writes the offsets of all labels, when the position of every object is
 * known.
 *
 *     | new head and root | new lists | new tables, each with its leaves | old file |
 */
#ifndef TN_EXPORT_FLAT_WRITE_H
#define TN_EXPORT_FLAT_WRITE_H

#include "base/base.h"
#include "io/import/tflite/flat.h"

#define FLAT_ALIGNMENT 16u /* alignment of tensor data, and of the old file after the new objects */

typedef struct flat_fix {
    size_t at;      /* position in the new file at which the offset is stored */
    uint32_t label; /* label that the offset points to; TN__FLAT_OLD: it points to `old` */
    size_t old;     /* position in the old file to which the offset points */
} flat_fix;
#define TN__FLAT_OLD UINT32_MAX

typedef struct flat_writer {
    tn_context context;
    tn__span file; /* the bytes of the old file */
    tn__text text;
    flat_fix *fixes;
    size_t *labels;
    size_t fix_count, fix_room, label_count, label_room;
    bool failed; /* true if memory ran out while the file was written */
} flat_writer;

typedef enum flat_kind { FLAT_NONE, FLAT_U8, FLAT_U32, FLAT_LABEL, FLAT_OLD } flat_kind;
typedef struct flat_slot { /* the value of one field of a table */
    flat_kind kind;
    uint32_t value; /* the number, or the label of the object that the field points to */
    /* the object in the old file to which a field of the kind FLAT_OLD points */
    const uint8_t *old;
} flat_slot;

void tn__flat_begin(flat_writer *writer, const tn_context *context, tn__span file);
void tn__flat_end(flat_writer *writer);
uint32_t tn__flat_label(flat_writer *writer);
/* Sets the position of the object with this label to the present position. */
void tn__flat_here(flat_writer *writer, uint32_t label);
void tn__flat_u32(flat_writer *writer, uint32_t value);
void tn__flat_align(flat_writer *writer, size_t alignment);
void tn__flat_lead(flat_writer *writer, uint32_t label);
void tn__flat_lead_old(flat_writer *writer, const uint8_t *old);
/* Writes a table with its vtable, and defines `label` as the position of the table. */
void tn__flat_table_put(flat_writer *writer, uint32_t label, const flat_slot *slots,
                        uint32_t count);
void tn__flat_text_put(flat_writer *writer, uint32_t label, const char *text);
void tn__flat_ints_put(flat_writer *writer, uint32_t label, const int32_t *ints, uint32_t count);
/* Writes a vector of bytes. Its data begins at a multiple of FLAT_ALIGNMENT. */
void tn__flat_bytes_put(flat_writer *writer, uint32_t label, const void *bytes, uint32_t size);
/* Writes the offsets of all labels and appends the old file. Errors: E_NO_MEMORY, E_UNSUPPORTED
 * (the file would exceed 2 GiB). */
tn_status tn__flat_finish(flat_writer *writer, tn_error *error);

/* Returns the object that a field of an old table points to, or NULL if the table does not have the
 * field. */
const uint8_t *tn__flat_old(const tn__flat_table *table, uint32_t field);

#endif
