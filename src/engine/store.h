/* store.h - static tensors that are not resident: they lie in a file, from which a run fetches them
 * (FETCH).
 *
 * If the model's file holds a tensor exactly as the kernels read it, it is read from there. All
 * other tensors (packed, folded, widened, generated) are made once, when the engine is set up, and
 * kept in a file without a name. So a run works the same way in both cases: it reads one range to
 * its place in the arena, on a separate stream.
 */
#ifndef TN_ENGINE_STORE_H
#define TN_ENGINE_STORE_H

#include <tenure/engine.h>

#include "engine/places.h"
#include "memory/device/ranges.h"
#include "engine/statics.h"

typedef struct tn__stored { /* a tensor, in the form that its readers want */
    tn_tensor_id tensor;
    tn_op_id op; /* the operator that it is packed for; TN_NONE: not packed */
    uint64_t bytes, offset;
    uint32_t file;
    /* range in `slots`: the addresses at which kernels look for a packed form */
    uint32_t first, count;
} tn__stored;

typedef struct tn__store {
    const tn_context *context;
    const tn_graph *graph;
    const tn_engine_options *options;
    tn__stored *list; /* [count]; 0: the program fetches nothing */
    uint32_t count;
    uint32_t tensors;  /* number of tensors of the graph; a program may have more of its own */
    uint32_t *of;      /* [tensors] index into `list`; TN_NONE: it is resident */
    void ***slots;     /* slots of all tensors */
    tn__ranges *files; /* [file_count] open files; the first holds the forms that were made here */
    size_t file_count, file_room;
    uint64_t formed; /* bytes of the first file */
    uint8_t *map;    /* mapping of the first file while it is filled */
} tn__store;

/* Finds the tensors that the program fetches and their places, and makes room for those that are in
 * no file: their places in `statics` are then places in the file of forms. The options must outlive
 * the store.
 * Errors: E_UNSUPPORTED (kernels want a tensor in several forms, a pool), E_IO, E_NO_MEMORY.
 */
tn_status tn__store_make(tn__store *store, const tn_program *program, tn__statics *statics,
                         const tn_engine_options *options, tn__arena *arena, tn_error *error);
void tn__store_release(tn__store *store); /* accepts zeros */
/* Checks that live ranges have the sizes of the data that is fetched into them. Errors: E_INVALID.
 */
tn_status tn__store_check(const tn__store *store, const tn__places *places, tn_error *error);
/* tn_engine_options.read for the filling: by direct reads if a file has the bytes. */
tn_status tn__store_read(void *store, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                         uint64_t size, tn_error *error);
/* All forms have been made. */
tn_status tn__store_filled(tn__store *store, tn__statics *statics, tn_error *error);

static inline const tn__stored *tn__store_find(const tn__store *store, tn_tensor_id tensor) {
    bool known = store->count > 0 && tensor < store->tensors;
    uint32_t at = known ? store->of[tensor] : TN_NONE;
    return at == TN_NONE ? NULL : &store->list[at];
}
/* Announces the place of its packed form to all kernels that read it. */
void tn__store_bind(const tn__store *store, const tn__stored *stored, uint8_t *place);
/* Reads all of the tensor, in any thread, no faster than the options allow. */
tn_status tn__store_fetch(const tn__store *store, const tn__stored *stored, uint8_t *place,
                          tn_error *error);

#endif
