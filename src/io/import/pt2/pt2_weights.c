/* pt2_weights.c - the data of weights and constants in an archive.
 *
 * A list in the archive (weights_config.json) states for each tensor the member with its storage,
 * and its sizes, strides and offset there. A tensor that lies in row-major order in an uncompressed
 * member has its bytes as its payload, so that it can be read in place. Any other tensor (channels
 * last, transposed, expanded, or in a compressed member) is copied element by element when it is
 * read: its payload marks the local header of the member, and the list is read again to find the
 * strides.
 *
 * The sizes and strides of the list count, because they describe the storage that was saved; the
 * program's own strides describe the export.
 * Cost: O(list) once for a model, then O(bytes) for each tensor that is read.
 */
#include "io/import/pt2/pt2_reader.h"

/* The payload of a tensor that is not read in place: a size that differs from the tensor's. */
static uint64_t weights_mark(uint64_t size) { return size == 1 ? 2 : 1; }

/* --- the list --------------------------------------------------------------------------------- */

typedef struct weights_entry {
    const char *name;             /* name in the list */
    const tn__zip_member *member; /* the member with the storage */
    uint32_t rank;
    tn_dtype dtype;
    int64_t skip;                   /* offset of the first element in the storage, in elements */
    const int64_t *shape, *strides; /* [rank] */
} weights_entry;

/* Whether the list states the sizes of a tensor. Then tn__pt2_contents can find them, too. */
static bool weights_is_stated(json_t *meta) {
    return json_is_array(json_object_get(meta, "sizes"));
}

/* Sets the place of a tensor in its storage. If the list does not state its sizes and strides, they
 * are those of `value`. */
static tn_status weights_place(pt2_reader *reader, json_t *meta, const pt2_value *value,
                               weights_entry *entry) {
    pt2_value stated = {0};
    json_t *begin = json_object_get(meta, "storage_offset");
    if (weights_is_stated(meta))
        TN_TRY(tn__pt2_meta(reader, meta, &stated));
    else
        stated = *value;
    *entry = (weights_entry){.rank = stated.rank,
                             .dtype = stated.dtype,
                             .shape = stated.shape,
                             .strides = stated.strides};
    if (begin != NULL) TN_TRY(tn__pt2_size(reader, begin, &entry->skip));
    if (entry->skip < 0) TN_FAIL(reader->error, TN_E_INVALID, "it begins before its storage");
    return TN_OK;
}

/* Finds the member with the storage of a tensor; NULL: it is absent, or a pickle. */
static tn_status weights_member(pt2_reader *reader, json_t *listed, const char *folder,
                                const tn__zip_member **member) {
    const char *path = json_string_value(json_object_get(listed, "path_name"));
    *member = NULL;
    if (path == NULL || json_is_true(json_object_get(listed, "use_pickle"))) return TN_OK;
    reader->text.size = 0;
    tn__text_printf(&reader->text, "%.*s%s%s", (int)reader->root.size,
                    reader->root.size > 0 ? (const char *)reader->root.bytes : "", folder, path);
    if (reader->text.failed) return tn__no_memory(reader->error, "the archive");
    *member = tn__zip_find(&reader->zip, reader->text.data, reader->text.size);
    return TN_OK;
}

/* Returns whether the elements lie in row-major order without gaps. */
static bool weights_is_dense(const weights_entry *entry) {
    int64_t step = 1;
    for (uint32_t d = entry->rank; d-- > 0;) {
        if (entry->shape[d] != 1 && entry->strides[d] != step) return false;
        if (__builtin_mul_overflow(step, entry->shape[d], &step)) return false;
    }
    return true;
}

/* Checks that all elements lie in a storage of `room` bytes. */
static tn_status weights_check(const pt2_reader *reader, const weights_entry *entry,
                               uint64_t room) {
    uint64_t last = (uint64_t)entry->skip, end;
    for (uint32_t d = 0; d < entry->rank; d++) {
        uint64_t steps, size = (uint64_t)entry->shape[d];
        if (size == 0) return TN_OK;
        if (!tn__mul(size - 1, (uint64_t)entry->strides[d], &steps)) steps = UINT64_MAX;
        last = tn__add_sat(last, steps);
    }
    end = tn__mul_sat(tn__add_sat(last, 1), tn_dtype_bits(entry->dtype) / 8);
    if (end <= room) return TN_OK;
    TN_FAIL(reader->error, TN_E_INVALID,
            "its strides reach byte %llu of its storage, which has %llu bytes: the archive is "
            "damaged",
            (unsigned long long)end, (unsigned long long)room);
}

/* Checks that the list and the program agree about the tensor, apart from its strides. */
static tn_status weights_compare(const pt2_reader *reader, const weights_entry *entry,
                                 const pt2_value *value) {
    if (entry->rank != value->rank || entry->dtype != value->dtype)
        TN_FAIL(reader->error, TN_E_INVALID,
                "the program states %u dimensions of type %s, and the list of weights %u of type "
                "%s",
                value->rank, tn_dtype_name(value->dtype), entry->rank, tn_dtype_name(entry->dtype));
    for (uint32_t d = 0; d < entry->rank; d++)
        if (entry->shape[d] != value->shape[d])
            TN_FAIL(reader->error, TN_E_INVALID,
                    "the program states size %lld of dimension %u, and the list of weights %lld",
                    (long long)value->shape[d], d, (long long)entry->shape[d]);
    return TN_OK;
}

tn_status tn__pt2_payload(pt2_reader *reader, json_t *listed, const char *folder,
                          pt2_value *value) {
    const tn__zip_member *member;
    weights_entry entry;
    uint64_t size, offset;
    bool plain;
    TN_TRY(weights_member(reader, listed, folder, &member));
    if (member == NULL || member->size == 0) return TN_OK; /* weights are absent from the archive */
    TN_TRY(weights_place(reader, json_object_get(listed, "tensor_meta"), value, &entry));
    TN_TRY(weights_compare(reader, &entry, value));
    TN_TRY(weights_check(reader, &entry, member->size));
    TN_TRY(tn_tensor_size(value->dtype, (tn_format){0}, value->rank, value->shape, &size,
                          reader->error));
    if (size == 0) return TN_OK;
    TN_TRY(tn__zip_range(&reader->zip, member, &offset, &plain));
    uint64_t first = (uint64_t)entry.skip * (tn_dtype_bits(value->dtype) / 8);
    if (plain && weights_is_dense(&entry))
        value->payload = (tn_payload){offset + first, size};
    else if (weights_is_stated(json_object_get(listed, "tensor_meta")))
        value->payload = (tn_payload){member->header, weights_mark(size)};
    return TN_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The lists of an archive, kept by a tn_contents from the first tensor that needs them. */
typedef struct weights_lists {
    tn_context context;
    tn_importer importer;   /* for the reader; it makes no graph */
    pt2_reader reader;      /* its archive, and the arena of the entries */
    weights_entry *entries; /* sorted by the place of the member */
    size_t room, count;
    /* the compressed member that was unpacked last, and its bytes, because tensors may share one */
    const tn__zip_member *unpacked;
    uint8_t *bytes;
} weights_lists;

static tn_status weights_list(weights_lists *lists, json_t *config, const char *folder) {
    pt2_reader *reader = &lists->reader;
    const char *name;
    json_t *listed;
    json_object_foreach(json_object_get(config, "config"), name, listed) {
        const tn__zip_member *member;
        json_t *meta = json_object_get(listed, "tensor_meta");
        TN_TRY(weights_member(reader, listed, folder, &member));
        if (member == NULL || !weights_is_stated(meta)) continue;
        if (!tn__reserve(&lists->context, &lists->entries, &lists->room, lists->count + 1,
                         sizeof *lists->entries))
            return tn__no_memory(reader->error, "the list of weights");
        weights_entry *entry = &lists->entries[lists->count];
        TN_TRY(weights_place(reader, meta, NULL, entry));
        entry->member = member;
        entry->name = tn__arena_string(&reader->arena, name, strlen(name));
        if (entry->name == NULL) return tn__no_memory(reader->error, "the list of weights");
        lists->count++;
    }
    return TN_OK;
}

static int weights_before(const void *a, const void *b) {
    uint64_t x = ((const weights_entry *)a)->member->header;
    uint64_t y = ((const weights_entry *)b)->member->header;
    return (x > y) - (x < y);
}

static tn_status weights_lists_read(weights_lists *lists) {
    pt2_reader *reader = &lists->reader;
    const tn__zip_member *program;
    TN_TRY(tn__pt2_archive(reader, &program));
    TN_TRY(weights_list(lists, reader->weights, "data/weights/"));
    TN_TRY(weights_list(lists, reader->constants, "data/constants/"));
    if (lists->count > 1)
        qsort(lists->entries, lists->count, sizeof *lists->entries, weights_before);
    json_decref(reader->weights);
    json_decref(reader->constants);
    reader->weights = reader->constants = NULL;
    return TN_OK;
}

void tn__pt2_close(void *state) {
    weights_lists *lists = state;
    tn_context context = lists->context;
    if (lists->unpacked != NULL)
        tn__free(&context, lists->bytes, (size_t)lists->unpacked->size + 1);
    tn__dims_release(&lists->importer.dims);
    tn__free(&context, lists->entries, lists->room * sizeof *lists->entries);
    tn__pt2_release(&lists->reader);
    tn__free(&context, lists, sizeof *lists);
}

static tn_status weights_open(const tn__wanted *wanted, weights_lists **made) {
    void **state = tn__contents_state(wanted->contents);
    *made = *state;
    if (*made != NULL) return TN_OK;
    const tn_context *given = tn__contents_context(wanted->contents);
    weights_lists *lists = tn__alloc_array(given, 1, sizeof *lists);
    if (lists == NULL) return tn__no_memory(wanted->error, "the list of weights");
    lists->context = *given;
    lists->context.log = NULL; /* loading the graph has logged everything */
    lists->importer = (tn_importer){.context = &lists->context,
                                    .name = "",
                                    .bytes = wanted->file.bytes,
                                    .size = wanted->file.size,
                                    .error = wanted->error};
    tn__pt2_init(&lists->reader, &lists->importer);
    tn_status status = tn__dims_init(&lists->importer.dims, &lists->context,
                                     &(tn_import_options)TN_IMPORT_OPTIONS_INIT, wanted->error);
    if (status == TN_OK) status = weights_lists_read(lists);
    if (status == TN_OK)
        *state = *made = lists;
    else
        tn__pt2_close(lists);
    return status;
}

/* Returns whether two tensors of one storage have the same elements in the same order. */
static bool weights_is_same(const weights_entry *a, const weights_entry *b) {
    size_t bytes = a->rank * sizeof *a->shape;
    return a->rank == b->rank && a->skip == b->skip && memcmp(a->shape, b->shape, bytes) == 0 &&
           memcmp(a->strides, b->strides, bytes) == 0;
}

/* Finds the entry of the wanted tensor. Tensors may share a storage; then the name decides, unless
 * all of them are the same. */
static tn_status weights_find(const weights_lists *lists, const tn__wanted *wanted,
                              const weights_entry **found) {
    const weights_entry *any = NULL;
    bool same = true;
    size_t low = 0, high = lists->count;
    uint64_t header = (uint64_t)(wanted->payload.bytes - wanted->file.bytes);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lists->entries[middle].member->header < header)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < lists->count && lists->entries[low].member->header == header; low++) {
        const weights_entry *entry = &lists->entries[low];
        same = same && (any == NULL || weights_is_same(any, entry));
        any = entry;
        if (strcmp(entry->name, wanted->tensor->name) != 0) continue;
        *found = entry;
        return TN_OK;
    }
    *found = any;
    if (any == NULL)
        TN_FAIL(wanted->error, TN_E_INVALID,
                "the archive does not list it: this is not the file that the graph was loaded "
                "from");
    if (same) return TN_OK;
    TN_FAIL(wanted->error, TN_E_UNSUPPORTED,
            "several tensors of the archive share its storage with other strides, and none has "
            "its name");
}

/* Copies the elements of a tensor in row-major order. `from` is its first element. */
static void weights_copy(const weights_entry *entry, const uint8_t *from, uint8_t *to) {
    size_t width = tn_dtype_bits(entry->dtype) / 8;
    int64_t at[TN_RANK_MAX + 1] = {0};
    uint32_t rank = entry->rank, outer = rank > 0 ? rank - 1 : 0, d;
    size_t inner = rank > 0 ? (size_t)entry->shape[outer] : 1;
    size_t step = rank > 0 ? (size_t)entry->strides[outer] * width : width;
    do {
        const uint8_t *row = from;
        for (uint32_t k = 0; k < outer; k++)
            row += (size_t)at[k] * (size_t)entry->strides[k] * width;
        if (step == width)
            memcpy(to, row, inner * width);
        else
            for (size_t i = 0; i < inner; i++) memcpy(to + i * width, row + i * step, width);
        to += inner * width;
        for (d = outer; d-- > 0;) {
            if (++at[d] < entry->shape[d]) break;
            at[d] = 0;
        }
    } while (d != UINT32_MAX);
}

/* Sets *bytes to the unpacked bytes of a member. Those of an uncompressed one lie in the file. */
static tn_status weights_storage(weights_lists *lists, const tn__wanted *wanted,
                                 const tn__zip_member *member, const uint8_t **bytes) {
    uint64_t offset;
    bool plain;
    tn__span span;
    TN_TRY(tn__zip_range(&lists->reader.zip, member, &offset, &plain));
    *bytes = wanted->file.bytes + offset;
    if (plain) return TN_OK;
    *bytes = lists->bytes;
    if (lists->unpacked == member) return TN_OK;
    if (lists->unpacked != NULL)
        tn__free(&lists->context, lists->bytes, (size_t)lists->unpacked->size + 1);
    lists->unpacked = NULL;
    TN_TRY(tn__zip_read(&lists->reader.zip, member, &span, &lists->bytes));
    lists->unpacked = lists->bytes != NULL ? member : NULL;
    *bytes = span.bytes;
    return TN_OK;
}

static tn_status weights_read(weights_lists *lists, const tn__wanted *wanted) {
    const weights_entry *entry;
    const uint8_t *storage;
    TN_TRY(weights_find(lists, wanted, &entry));
    const tn_tensor *tensor = wanted->tensor;
    bool same = entry->rank == tensor->rank && entry->dtype == tensor->dtype &&
                memcmp(entry->shape, tensor->shape, entry->rank * sizeof *entry->shape) == 0;
    if (!same)
        TN_FAIL(wanted->error, TN_E_INVALID,
                "the archive has it with other sizes: this is not the file that the graph was "
                "loaded from");
    TN_TRY(weights_check(&lists->reader, entry, entry->member->size));
    TN_TRY(weights_storage(lists, wanted, entry->member, &storage));
    weights_copy(entry, storage + (size_t)entry->skip * (tn_dtype_bits(entry->dtype) / 8),
                 wanted->bytes);
    return TN_OK;
}

tn_status tn__pt2_contents(const tn__wanted *wanted, bool *found) {
    weights_lists *lists;
    *found = true;
    if (wanted->payload.size == wanted->size) {
        if (wanted->plain != NULL)
            *wanted->plain = wanted->payload;
        else
            memcpy(wanted->bytes, wanted->payload.bytes, (size_t)wanted->size);
        return TN_OK;
    }
    if (wanted->plain != NULL) return TN_OK; /* no range of the file has exactly its bytes */
    TN_TRY(weights_open(wanted, &lists));
    lists->reader.error = lists->reader.zip.error = lists->importer.error = wanted->error;
    return weights_read(lists, wanted);
}
