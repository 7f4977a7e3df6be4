/* foreign.h - a plan of another tool as arenas and values, which a reader fills in.
 *
 * A reader (xla.c, pte.c) adds arenas, values and steps, and then calls tn__foreign_finish, which
 * checks places, joins values into buffers, and computes the bounds.
 */
#ifndef TN_INTEROP_FOREIGN_H
#define TN_INTEROP_FOREIGN_H

#include <tenure/foreign.h>

#include "base/base.h"
#include "io/import/onnx/wire.h" /* tn__span */

#define TN__FOREIGN_ARENAS_MAX 1000000u
#define TN__FOREIGN_VALUES_MAX 10000000u
#define TN__FOREIGN_STEPS_MAX 100000000
#define TN__FOREIGN_NAME_MAX 65536u

typedef struct foreign_body {     /* a buffer: values that share bytes on purpose, at one offset */
    uint32_t arena, start, count; /* the values of the buffer are order[start .. start + count) */
    uint64_t offset, size;
    bool is_mixed;   /* whether its values have several sizes */
    bool is_alone;   /* whether no other value may join it */
    int64_t end;     /* the latest end of a live range of the buffer's values */
    uint32_t buffer; /* number of the buffer in the problem; UINT32_MAX: it has no buffer */
} foreign_body;

/* What is known about a value that a .pte file places, as bits */
enum {
    TN__FOREIGN_VIEW =
        1, /* the value may begin anywhere within the live range of another one at the
                           * same offset, because it has the same bytes */
    TN__FOREIGN_FIXED = 2, /* other methods use the value at this offset, so it must not move */
    TN__FOREIGN_APART = 4, /* the value shares its bytes on purpose only with values of its size */
    TN__FOREIGN_ALONE = 8  /* the value does not share its bytes on purpose */
};

/* A pair in a list of tn__foreign_needs, which says what `what` is: a step that must run before
 * `step`, or a value that `step` reads. */
typedef struct tn__foreign_pair {
    uint32_t step, what;
} tn__foreign_pair;

/* What the text of a program says about the order of its steps. */
typedef struct tn__foreign_needs {
    /* static text: the reason that the other fields are empty; NULL: the other fields are known */
    const char *missing;
    /* `after`: pairs of a step and a step that must run before it; `reads`: pairs of a step and a
     * value that it reads */
    tn__foreign_pair *after, *reads;
    size_t after_count, after_room, read_count, read_room;
    uint8_t *inner; /* [steps] 1: the step is inside of a computation that a later step calls */
    size_t inner_room;
} tn__foreign_needs;

struct tn_foreign {
    tn_context context;
    tn__arena texts;
    tn_foreign_facts facts;
    tn_foreign_arena *arenas;
    tn_foreign_value *values;
    const char **steps;
    /* [values] operands of each value's instruction, in XLA's module text; released when the plan
     * is complete; NULL: no text */
    tn__span *operands;
    size_t arena_room, value_room, step_room, operand_room;
    /* [values] bits TN__FOREIGN_*; NULL (XLA): a live range may begin in the step in which another
     * one at the same offset ends */
    uint8_t *marks;
    size_t mark_room;
    foreign_body *bodies;
    uint32_t *order; /* [values] all values, sorted by arena, then offset, then first step */
    uint32_t *owner; /* [values], buffer of each value, or UINT32_MAX */
    size_t body_count, body_room, order_room;
    /* ExecuTorch: the file, which can be written again with other offsets; else empty */
    tn__file file;
    tn__foreign_needs needs;
};

/* Creates an empty plan; the texts `tool` and `form` must be static. */
tn_status tn__foreign_create(const tn_context *context, const char *tool, const char *form,
                             tn_foreign **foreign, tn_error *error);
/* tn__foreign_add_arena and tn__foreign_add_value return false if memory is out. `value` and
 * `arena` are copied; their texts must exist as long as the plan (tn__foreign_text). */
bool tn__foreign_add_arena(tn_foreign *foreign, const tn_foreign_arena *arena);
bool tn__foreign_add_value(tn_foreign *foreign, const tn_foreign_value *value);
bool tn__foreign_add_step(tn_foreign *foreign, const char *name);
char *tn__foreign_text(tn_foreign *foreign, tn__span text);
tn_status tn__foreign_finish(tn_foreign *foreign, tn_error *error);
/* Returns the contents of the file with the offsets of a layout, as tn_foreign_rewrite writes
 * them. */
tn_status tn__foreign_rewrite(const tn_foreign *foreign, tn__span file, const tn_layout *layout,
                              tn__text *out, tn_error *error);

/* The texts of one module (xla.c). If there are no live ranges or no text, `bytes` is NULL; then
 * `name` is not read. */
typedef struct tn__xla_file {
    const char *name; /* file name, for messages */
    tn__span span;
} tn__xla_file;
typedef struct tn__xla_files {
    tn__xla_file assignment, ranges, text;
} tn__xla_files;
tn_status tn__xla_read(const tn__xla_files *files, const tn_context *context, tn_foreign **foreign,
                       tn_error *error);
/* Returns the bytes of the preallocated-temp allocations of an assignment, without reading anything
 * else. */
uint64_t tn__xla_planned(tn__span assignment);
/* Reads the instructions of a module (xla_text.c). */
tn_status tn__xla_read_text(tn_foreign *foreign, const tn__xla_file *text, tn_error *error);
/* Read a plan of XLA from a folder or file, and recognise such a path (xla_folder.c). */
tn_status tn__xla_load(const char *path, const tn_foreign_options *options, tn_foreign **foreign,
                       tn_error *error);
bool tn__xla_recognises(const char *path);

/* Reads one method of a .pte file (pte.c); `method` NULL: the first one. */
tn_status tn__pte_read(const char *name, tn__span file, const char *method,
                       const tn_context *context, tn_foreign **foreign, tn_error *error);
/* Writes a .pte file again with other offsets (pte_write.c). */
tn_status tn__pte_rewrite(const tn_foreign *foreign, tn__span file, const uint64_t *offsets,
                          const uint64_t *sizes, tn__text *out, tn_error *error);

#endif
