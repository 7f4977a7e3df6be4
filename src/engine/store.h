/* store.h - what is static and does not stay: in a file, from where a run fetches it (FETCH).
 *
 * What the model's files hold just as the kernels read it is read from there. Everything else (what
 * is packed, folded, widened, made up) is made once, when the engine is set up, and kept in a file
 * without a name. So a run does the same either way: one read of one range, to its place in the
 * arena, on a stream of its own.
 */
#ifndef TN_ENGINE_STORE_H
#define TN_ENGINE_STORE_H

#include <tenure/engine.h>

#include "engine/places.h"
#include "device/ranges.h"
#include "engine/statics.h"

typedef struct tn__stored { /* a tensor, in the form that its readers want */
    tn_tensor_id tensor;
    tn_op_id op; /* that it is packed for; TN_NONE: as it is */
    uint64_t bytes, offset;
    uint32_t file;
    uint32_t first, count; /* of `slots`: where kernels look for a packed form */
} tn__stored;

typedef struct tn__store {
    const tn_context *context;
    const tn_graph *graph;
    const tn_engine_options *options;
    tn__stored *list; /* [count]; 0: the program fetches nothing */
    uint32_t count;
    uint32_t tensors;  /* of the graph; a program may have more of its own */
    uint32_t *of;      /* [tensors] index into `list`; TN_NONE: it stays */
    void ***slots;     /* by tensor */
    tn__ranges *files; /* [file_count] that are open; the first: what was made here */
    size_t file_count, file_room;
    uint64_t formed; /* bytes of the first */
    uint8_t *map;    /* of the first, while it is filled */
} tn__store;

/* Finds what the program fetches, where it is, and makes room for what is not anywhere: the
 * statics' places of it are then in that file. The options outlive the store.
 * Errors: E_UNSUPPORTED (kernels want a tensor in several forms, a pool), E_IO, E_NO_MEMORY. */
tn_status tn__store_make(tn__store *store, const tn_program *program, tn__statics *statics,
                         const tn_engine_options *options, tn__arena *arena, tn_error *error);
void tn__store_release(tn__store *store); /* zeros are fine */
/* Whether lives have the bytes that are fetched into them. Errors: E_INVALID. */
tn_status tn__store_check(const tn__store *store, const tn__places *places, tn_error *error);
/* tn_engine_options.read for the filling: by direct reads where a file has the bytes. */
tn_status tn__store_read(void *store, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                         uint64_t size, tn_error *error);
/* What was to be made is there. */
tn_status tn__store_filled(tn__store *store, tn__statics *statics, tn_error *error);

static inline const tn__stored *tn__store_find(const tn__store *store, tn_tensor_id tensor) {
    bool known = store->count > 0 && tensor < store->tensors;
    uint32_t at = known ? store->of[tensor] : TN_NONE;
    return at == TN_NONE ? NULL : &store->list[at];
}
/* Its packed form will be there, for all kernels that read it. */
void tn__store_bind(const tn__store *store, const tn__stored *stored, uint8_t *place);
/* Reads all of it, in any thread, no faster than the options say. */
tn_status tn__store_fetch(const tn__store *store, const tn__stored *stored, uint8_t *place,
                          tn_error *error);

#endif
