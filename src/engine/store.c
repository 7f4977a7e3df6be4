/* store.c - finds the file range of each tensor that a run fetches, and writes the data of such
 * tensors to a temporary file if no file has it in the needed form.
 *
 * A fetched tensor has exactly one form, which all operators that read it share, so it is one range
 * of one file. The space of the temporary file is reserved before anything is written, so that a
 * full disk is reported at once. The file is written through a memory mapping.
 * Cost: O(tensors + operands). Writing the forms takes as long as filling static memory.
 */
#include <tenure/engine.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "engine/engine.h"
#include "memory/device/ranges.h"

#define STORE_ALIGNMENT 4096u /* alignment of the forms in the temporary file: a page */
#define STORE_FORMED 0u       /* index of the temporary file in tn__store.files */

/* --- the list of fetched tensors, and of those of which rows are read --- */

static bool store_has_rows(const tn__store *store, const tn__statics *statics, tn_tensor_id id) {
    return (tn_graph_tensor(store->graph, id)->flags & TN_TENSOR_IN_FILE) != 0 &&
           statics->tensors[id].needed;
}

/* Adds a tensor of which rows are read. Until it gets its range of a file, it is like a tensor with
 * memory of its own. */
static void store_add_rows(tn__store *store, tn__statics *statics, tn_tensor_id id) {
    store->of[id] = store->count;
    store->list[store->count++] = (tn__stored){.tensor = id, .bytes = TN_SIZE_UNKNOWN};
    statics->tensors[id].kept = true;
    statics->tensors[id].offset = 0;
}

static tn_status store_list(tn__store *store, const tn_program *program, tn__statics *statics,
                            tn__arena *arena, tn_error *error) {
    const tn_instruction *list = tn_program_instructions(program);
    uint32_t tensors = tn_graph_tensor_count(store->graph), steps = tn_program_count(program);
    uint32_t fetches = 0;
    store->tensors = tensors;
    for (uint32_t s = 0; s < steps; s++) fetches += list[s].opcode == TN_FETCH;
    for (tn_tensor_id t = 0; t < tensors; t++) fetches += store_has_rows(store, statics, t);
    if (fetches == 0) return TN_OK;
    store->of = tn__arena_array(arena, tensors, sizeof *store->of);
    store->list = tn__arena_array(arena, fetches, sizeof *store->list);
    if (store->of == NULL || store->list == NULL) return tn__no_memory(error, "fetched tensors");
    memset(store->of, 0xff, tensors * sizeof *store->of);
    for (tn_tensor_id t = 0; t < tensors; t++)
        if (store_has_rows(store, statics, t)) store_add_rows(store, statics, t);
    for (uint32_t s = 0; s < steps; s++) {
        tn_tensor_id id = list[s].tensor;
        if (list[s].opcode != TN_FETCH || store->of[id] != TN_NONE) continue;
        store->of[id] = store->count;
        store->list[store->count++] = (tn__stored){.tensor = id, .bytes = TN_SIZE_UNKNOWN};
    }
    return TN_OK;
}

static const char *store_name(const tn__store *store, const tn__stored *stored) {
    return tn_graph_tensor(store->graph, stored->tensor)->name;
}

/* --- the file range of each fetched tensor --- */

static tn_status store_open(tn__store *store, const char *path, uint32_t *index, tn_error *error) {
    for (uint32_t f = STORE_FORMED + 1; f < store->file_count; f++)
        if (strcmp(store->files[f].path, path) == 0) {
            *index = f;
            return TN_OK;
        }
    if (!tn__reserve(store->context, &store->files, &store->file_room, store->file_count + 1,
                     sizeof *store->files))
        return tn__no_memory(error, "files of weights");
    TN_TRY(tn__ranges_open(path, &store->files[store->file_count], error));
    *index = (uint32_t)store->file_count++;
    return TN_OK;
}

static tn_status store_where(const tn__store *store, tn_tensor_id tensor, tn_file_range *range,
                             bool *found, tn_error *error) {
    *found = false;
    if (store->options->where == NULL) return TN_OK;
    TN_TRY(store->options->where(store->options->self, store->graph, tensor, range, found, error));
    *found = *found && range->size == tn_graph_tensor(store->graph, tensor)->bytes;
    return TN_OK;
}

/* Assigns a file range to a fetched tensor: a range of the model's file if that has the tensor in
 * the needed form, else a range of the temporary file. */
static tn_status store_place(tn__store *store, tn__statics *statics, const tn__static_place *place,
                             tn_error *error) {
    tn__stored *stored = &store->list[store->of[place->tensor]];
    tn_file_range range;
    bool found = false;
    if (stored->bytes != TN_SIZE_UNKNOWN)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "kernels want '%.80s' in more than one form: it cannot be fetched",
                store_name(store, stored));
    stored->op = place->op;
    stored->bytes = place->bytes;
    if (place->op == TN_NONE && tn__statics_is_leaf(statics, place->tensor))
        TN_TRY(store_where(store, place->tensor, &range, &found, error));
    if (found) {
        stored->offset = range.offset;
        /* the file has the data, so set-up reads the tensor only if a folded operator needs it */
        statics->tensors[place->tensor].kept = false;
        *place->offset = TN_SIZE_UNKNOWN;
        return store_open(store, range.path, &stored->file, error);
    }
    stored->file = STORE_FORMED;
    stored->offset = *place->offset = store->formed;
    if (!tn__add(store->formed, place->bytes, &store->formed) ||
        !tn__align_up(store->formed, STORE_ALIGNMENT, &store->formed))
        TN_FAIL(error, TN_E_INVALID, "the weights have more than 2^64 bytes");
    return TN_OK;
}

/* Assigns file ranges to the fetched tensors, and new offsets in static memory to all other
 * blocks. */
static tn_status store_places(tn__store *store, tn__statics *statics, tn_error *error) {
    tn__static_cursor at = {0};
    tn__static_place place;
    statics->bytes = 0;
    while (tn__statics_next(statics, &at, &place)) {
        if (store->of[place.tensor] != TN_NONE)
            TN_TRY(store_place(store, statics, &place, error));
        else
            TN_TRY(tn__statics_take(statics, place.bytes, place.offset, error));
    }
    for (uint32_t i = 0; i < store->count; i++)
        if (store->list[i].bytes == TN_SIZE_UNKNOWN)
            TN_FAIL(error, TN_E_INVALID,
                    "'%.80s' is fetched, but no kernel reads it under this name",
                    store_name(store, &store->list[i]));
    return TN_OK;
}

/* --- the pointers through which kernels find packed forms of weights --- */

static bool store_reads(const tn__store *store, const tn__statics *statics, tn_op_id op,
                        uint32_t input, tn__stored **stored) {
    const tn__packed_form *packed = statics->packed[op];
    tn_tensor_id tensor = tn_graph_op(store->graph, op)->inputs[input];
    if (packed == NULL || tensor == TN_NONE || store->of[tensor] == TN_NONE) return false;
    *stored = &store->list[store->of[tensor]];
    return (*stored)->op != TN_NONE &&
           (packed->offset[input] != TN_SIZE_UNKNOWN || packed->shared[input] != NULL);
}

static tn_status store_slots(tn__store *store, const tn__statics *statics, tn__arena *arena,
                             tn_error *error) {
    uint32_t ops = tn_graph_op_count(store->graph), total = 0;
    tn__stored *stored;
    for (int pass = 0; pass < 2; pass++) {
        for (tn_op_id op = 0; op < ops; op++)
            for (uint32_t i = 0; i < tn_graph_op(store->graph, op)->input_count; i++) {
                if (!store_reads(store, statics, op, i, &stored)) continue;
                if (pass == 1)
                    store->slots[stored->first + stored->count] = &statics->packed[op]->at[i];
                stored->count++;
            }
        for (uint32_t i = 0; i < store->count && pass == 0; i++) {
            store->list[i].first = total;
            total += store->list[i].count;
            store->list[i].count = 0;
        }
        if (pass > 0) break;
        store->slots = tn__arena_array(arena, total, sizeof *store->slots);
        if (store->slots == NULL) return tn__no_memory(error, "fetched tensors");
    }
    return TN_OK;
}

/* --- the temporary file: data that no file of the model has in the needed form --- */

/* Drops the pages of the finished data of a tensor from the process's memory. The data is in the
 * file, or in the page cache until the system has written it. */
static void store_leave(uint8_t *at, uint64_t bytes) {
    uintptr_t first = (uintptr_t)at & ~(uintptr_t)(STORE_ALIGNMENT - 1);
    (void)madvise((void *)first, (size_t)(bytes + ((uintptr_t)at - first)), MADV_DONTNEED);
}

static tn_status store_map(tn__store *store, tn__statics *statics, tn__arena *arena,
                           tn_error *error) {
    uint32_t tensors = tn_graph_tensor_count(store->graph);
    uint8_t *fetched = tn__arena_array(arena, tensors, sizeof *fetched);
    if (fetched == NULL) return tn__no_memory(error, "fetched tensors");
    for (uint32_t i = 0; i < store->count; i++) fetched[store->list[i].tensor] = 1;
    statics->fetched = fetched;
    if (store->formed == 0) return TN_OK;
    tn__ranges *file = &store->files[STORE_FORMED];
    TN_TRY(tn__ranges_temporary(store->options->forms_folder, store->formed, file, error));
    void *map =
        mmap(NULL, (size_t)store->formed, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor, 0);
    if (map == MAP_FAILED)
        return tn__where(error, tn__fail_system(error, errno, "map a file of it"), "%s",
                         file->path);
    store->map = statics->store = map;
    statics->stored = store_leave;
    return TN_OK;
}

tn_status tn__store_make(tn__store *store, const tn_program *program, tn__statics *statics,
                         const tn_engine_options *options, tn__arena *arena, tn_error *error) {
    *store = (tn__store){.context = arena->context, .graph = statics->graph, .options = options};
    TN_TRY(store_list(store, program, statics, arena, error));
    if (store->count == 0) return TN_OK;
    if (options->pool != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "what is fetched needs a plan: not with a pool");
    if (!tn__reserve(store->context, &store->files, &store->file_room, 2, sizeof *store->files))
        return tn__no_memory(error, "files of weights");
    store->files[store->file_count++] = (tn__ranges){.descriptor = -1};
    TN_TRY(store_places(store, statics, error));
    TN_TRY(store_slots(store, statics, arena, error));
    return store_map(store, statics, arena, error);
}

void tn__store_release(tn__store *store) {
    if (store->map != NULL) munmap(store->map, (size_t)store->formed);
    for (size_t f = 0; f < store->file_count; f++) tn__ranges_close(&store->files[f]);
    tn__free(store->context, store->files, store->file_room * sizeof *store->files);
}

/* --- filling --- */

tn_status tn__store_check(const tn__store *store, const tn__places *places, tn_error *error) {
    const tn_life *lives = tn_occupancy_lives(places->occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(places->occupancy) && store->count > 0; i++) {
        if (lives[i].tensor == TN_NONE || lives[i].is_static) continue;
        const tn__stored *stored = tn__store_find(store, lives[i].tensor);
        if (stored != NULL && stored->bytes != lives[i].bytes)
            TN_FAIL(error, TN_E_INVALID,
                    "the plan has %llu bytes for '%.80s', which is fetched in a form of %llu: make "
                    "the occupancy with the blocks of these kernels",
                    (unsigned long long)lives[i].bytes, store_name(store, stored),
                    (unsigned long long)stored->bytes);
    }
    return TN_OK;
}

static tn_status store_read(const tn__store *store, uint32_t file, uint64_t offset, void *bytes,
                            uint64_t size, tn_error *error) {
    return store->options->storage_cache
               ? tn__ranges_read(&store->files[file], offset, bytes, size, error)
               : tn__ranges_read_past_cache(&store->files[file], offset, bytes, size, error);
}

tn_status tn__store_read(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                         uint64_t size, tn_error *error) {
    tn__store *store = self;
    tn_file_range range;
    uint32_t file;
    bool found;
    TN_TRY(store_where(store, tensor, &range, &found, error));
    if (found && range.size == size) {
        TN_TRY(store_open(store, range.path, &file, error));
        return store_read(store, file, range.offset, bytes, size, error);
    }
    if (store->options->read == NULL)
        TN_FAIL(error, TN_E_INVALID, "no operator reads the contents of '%.80s'",
                tn_graph_tensor(graph, tensor)->name);
    return store->options->read(store->options->self, graph, tensor, bytes, size, error);
}

/* Ends the mapping of the temporary file. If reads must not come from the page cache, the file is
 * first written to disk, because the system cannot drop pages that are not written yet. */
tn_status tn__store_filled(tn__store *store, tn__statics *statics, tn_error *error) {
    statics->store = NULL;
    if (store->map == NULL) return TN_OK;
    bool cold = !store->options->storage_cache;
    bool fine = !cold || msync(store->map, (size_t)store->formed, MS_SYNC) == 0;
    int reason = errno;
    munmap(store->map, (size_t)store->formed);
    store->map = NULL;
    if (!fine)
        return tn__where(error, tn__fail_system(error, reason, "write"), "%s",
                         store->files[STORE_FORMED].path);
    if (cold) tn__ranges_forget(&store->files[STORE_FORMED], 0, store->formed);
    return TN_OK;
}

/* --- fetches during a run --- */

void tn__store_bind(const tn__store *store, const tn__stored *stored, uint8_t *place) {
    for (uint32_t i = 0; i < stored->count; i++) *store->slots[stored->first + i] = place;
}

tn_status tn__store_fetch(const tn__store *store, const tn__stored *stored, uint8_t *place,
                          tn_error *error) {
    double start = tn__clock_s(), rate = store->options->storage_bytes_per_s;
    tn_status status = store_read(store, stored->file, stored->offset, place, stored->bytes, error);
    if (status != TN_OK) {
        if (error != NULL) {
            char where[sizeof error->where];
            memcpy(where, error->where, sizeof where);
            error->where[0] = 0;
            return tn__where(error, status, "tensor '%.60s': %.130s", store_name(store, stored),
                             where);
        }
        return status;
    }
    if (rate > 0) tn__clock_sleep_until(start + (double)stored->bytes / rate);
    return TN_OK;
}

/* --- measuring how fast weights can be read from their files --- */

#define STORAGE_PIECE ((uint64_t)16 << 20)
#define STORAGE_STRETCH ((uint64_t)128 << 20)

/* Reads the bytes [from, to) of a file in pieces, as a run reads weights that are adjacent in their
 * file. Lowers *seconds to the duration if the reading was faster than that. */
static tn_status storage_stretch(const tn__ranges *file, uint64_t from, uint64_t to, uint8_t *bytes,
                                 double *seconds, tn_error *error) {
    tn__ranges_forget(file, from, to - from);
    double start = tn__clock_s();
    for (uint64_t at = from; at < to; at += STORAGE_PIECE) {
        uint64_t size = to - at < STORAGE_PIECE ? to - at : STORAGE_PIECE;
        TN_TRY(tn__ranges_read_past_cache(file, at, bytes, size, error));
    }
    double took = tn__clock_s() - start;
    if (took < *seconds) *seconds = took;
    return TN_OK;
}

/* Measures the rate at which a file can be read: the faster of two ranges, one in each half of the
 * file. The faster one counts because other work on the machine can only make a reading slower.
 * (Operators are measured in the same way.) */
static tn_status storage_sample(const tn__ranges *file, uint8_t *bytes, double *bytes_per_s,
                                tn_error *error) {
    uint64_t half = file->size / 2, size = file->size - half;
    double seconds = INFINITY;
    if (size > STORAGE_STRETCH) size = STORAGE_STRETCH;
    /* write to the pages before the time is measured, to keep page faults out of it */
    memset(bytes, 0, STORAGE_PIECE);
    if (size <= half) TN_TRY(storage_stretch(file, 0, size, bytes, &seconds, error));
    TN_TRY(storage_stretch(file, half, half + size, bytes, &seconds, error));
    *bytes_per_s = (double)size / (seconds > 1e-9 ? seconds : 1e-9);
    return TN_OK;
}

/* Creates a file of zeros in a folder and writes it to disk, so that the system can drop its pages
 * from the page cache. */
static tn_status storage_write(const char *folder, uint8_t *bytes, tn__ranges *file,
                               tn_error *error) {
    TN_TRY(tn__ranges_temporary(folder, STORAGE_STRETCH, file, error));
    memset(bytes, 0, STORAGE_PIECE);
    for (uint64_t at = 0; at < STORAGE_STRETCH; at += STORAGE_PIECE)
        TN_TRY(tn__ranges_write(file, at, bytes, STORAGE_PIECE, error));
    return tn__ranges_settle(file, error);
}

tn_status tn_storage_measure(const char *path, double *bytes_per_s, tn_error *error) {
    struct stat facts;
    tn__ranges file = {.descriptor = -1};
    uint8_t *bytes = malloc(STORAGE_PIECE);
    if (bytes == NULL) return tn__no_memory(error, path);
    bool folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    tn_status status =
        folder ? storage_write(path, bytes, &file, error) : tn__ranges_open(path, &file, error);
    if (status == TN_OK && file.size == 0)
        status = tn__where(error, tn__fail(error, TN_E_INVALID, "an empty file has no speed"), "%s",
                           path);
    if (status == TN_OK) status = storage_sample(&file, bytes, bytes_per_s, error);
    free(bytes);
    tn__ranges_close(&file);
    return status;
}
