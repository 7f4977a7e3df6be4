/* tensor_data.c - reads the tensor data of parameters and constants when a program is prepared.
 *
 * The graph remembers where its file holds each tensor (tn_payload); the format decodes that range.
 * External data files are mapped when they are first needed and stay mapped. So reading a network
 * of gigabytes costs one copy of each weight and no further memory. An external file is identified
 * by its path in the model, compared byte by byte: models have one or a few.
 *
 * Data is taken from the first of these that exists: the tensor's payload; its known small value;
 * generated data, if the caller wants it. With generated data, external files are not opened at
 * all: the same call gives the same bytes whether or not the file exists.
 *
 * Cost: O(bytes read).
 */
#include <stdio.h>

#include "io/import/tensor_data.h"

typedef struct contents_external { /* an external data file of the model */
    struct contents_external *next;
    char *location; /* path of the file, as written in the model */
    size_t length;
    tn__file file;
} contents_external;

struct tn_contents {
    tn_context context;
    const tn_import_format *format; /* NULL: the contents have no file */
    void *state;                    /* data that the format keeps; NULL: none */
    char *path;
    bool in_memory; /* true: the model was read from memory, so external data is not available */
    tn__span model;
    tn__file file;
    contents_external *externals;
    tn__generator *generator; /* NULL: no data is generated */
};

const tn_context *tn__contents_context(const tn_contents *contents) { return &contents->context; }
void **tn__contents_state(tn_contents *contents) { return &contents->state; }

/* --- opening and closing the tensor data of a model --- */

static char *contents_copy(const tn_context *context, const char *bytes, size_t length) {
    char *copy = tn__alloc(context, length + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, bytes, length);
    copy[length] = 0;
    return copy;
}

static tn_status contents_create(const char *path, const tn_context *given, tn_contents **contents,
                                 tn_error *error) {
    tn_context context = tn__context(given);
    tn_contents *made = tn__alloc(&context, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "the contents of tensors");
    *made = (tn_contents){.context = context};
    made->path = contents_copy(&made->context, path, strlen(path));
    if (made->path == NULL) {
        tn_contents_close(made);
        return tn__no_memory(error, "the contents of tensors");
    }
    *contents = made;
    return TN_OK;
}

static tn_status contents_map(tn_contents *contents, tn_error *error) {
    if (strcmp(contents->path, "-") == 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "standard input was read already, so the contents of its tensors are gone; save "
                "the model to a file");
    TN_TRY(tn__file_map_most(contents->path, contents->context.read_limit, &contents->file, error));
    contents->model = (tn__span){contents->file.bytes, contents->file.size};
    tn_status status = tn__import_choose(contents->path, contents->model, &contents->format, error);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", contents->path);
}

tn_status tn_contents_open(const char *path, const tn_context *context, tn_contents **contents,
                           tn_error *error) {
    tn_contents *made;
    TN_TRY(contents_create(path, context, &made, error));
    tn_status status = contents_map(made, error);
    if (status == TN_OK)
        *contents = made;
    else
        tn_contents_close(made);
    return status;
}

tn_status tn_contents_generate(const char *path, const tn_graph *graph, uint64_t seed,
                               const tn_context *context, tn_contents **contents, tn_error *error) {
    tn_contents *made;
    TN_TRY(contents_create(path != NULL ? path : "", context, &made, error));
    tn_status status = path != NULL ? contents_map(made, error) : TN_OK;
    if (status == TN_OK)
        status = tn__generator_create(graph, seed, &made->context, &made->generator, error);
    if (status == TN_OK)
        *contents = made;
    else
        tn_contents_close(made);
    return status;
}

tn_status tn__contents_memory(const char *name, tn__span file, const tn_context *context,
                              tn_contents **contents, tn_error *error) {
    tn_contents *made;
    TN_TRY(contents_create(name, context, &made, error));
    made->in_memory = true;
    made->model = file;
    tn_status status = tn__import_choose(name, file, &made->format, error);
    if (status == TN_OK)
        *contents = made;
    else
        tn_contents_close(made);
    return status;
}

void tn_contents_close(tn_contents *contents) {
    if (contents == NULL) return;
    tn_context context = contents->context;
    if (contents->state != NULL) contents->format->close(contents->state);
    while (contents->externals != NULL) {
        contents_external *next = contents->externals->next;
        tn__file_unmap(&contents->externals->file);
        tn__free(&context, contents->externals->location, contents->externals->length + 1);
        tn__free(&context, contents->externals, sizeof *contents->externals);
        contents->externals = next;
    }
    tn__generator_destroy(contents->generator);
    tn__file_unmap(&contents->file);
    if (contents->path != NULL) tn__free(&context, contents->path, strlen(contents->path) + 1);
    tn__free(&context, contents, sizeof *contents);
}

/* --- external data files --- */

#define CONTENTS_SHOWN 80 /* limit of characters of a path in a message */

static const char *contents_tail(const char *path) {
    size_t length = strlen(path);
    return length > CONTENTS_SHOWN ? path + length - CONTENTS_SHOWN : path;
}

static tn_status contents_fail_absent(const tn_contents *contents, const char *path,
                                      tn_error *error) {
    char reason[120];
    snprintf(reason, sizeof reason, "%.119s", error != NULL ? error->message : "");
    if (error != NULL) error->where[0] = 0;
    TN_FAIL(error, TN_E_IO,
            "its contents are in '%s', next to '%s': %s; put that file there, or make contents up "
            "with `tn_contents_generate`",
            contents_tail(path), contents_tail(contents->path), reason);
}

static tn_status contents_map_external(tn_contents *contents, contents_external *external,
                                       tn_error *error) {
    tn_error why = {0};
    tn_status status = tn__file_map_beneath(contents->path, external->location,
                                            contents->context.follow_links, &external->file, &why);
    if (status == TN_OK) return TN_OK;
    if (error != NULL) *error = why;
    return status == TN_E_IO ? contents_fail_absent(contents, why.where, error) : status;
}

static tn_status contents_external_find(tn_contents *contents, tn__span location,
                                        contents_external **found, tn_error *error) {
    for (contents_external *at = contents->externals; at != NULL; at = at->next)
        if (at->length == location.size && memcmp(at->location, location.bytes, at->length) == 0) {
            *found = at;
            return TN_OK;
        }
    if (memchr(location.bytes, 0, location.size) != NULL)
        TN_FAIL(error, TN_E_INVALID, "the path of its external data has a zero byte");
    const tn_context *context = &contents->context;
    contents_external *made = tn__alloc(context, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "external data");
    *made = (contents_external){.length = location.size};
    made->location = contents_copy(context, (const char *)location.bytes, location.size);
    tn_status status = made->location != NULL ? contents_map_external(contents, made, error)
                                              : tn__no_memory(error, "external data");
    if (status != TN_OK) {
        tn__free(context, made->location, made->length + 1);
        tn__free(context, made, sizeof *made);
        return status;
    }
    made->next = contents->externals;
    *found = contents->externals = made;
    return TN_OK;
}

tn_status tn__contents_external(tn_contents *contents, tn__span location, uint64_t offset,
                                uint64_t size, tn__span *bytes, bool *found, tn_error *error) {
    contents_external *external = NULL;
    uint64_t end;
    *found = contents->generator == NULL;
    if (!*found) return TN_OK;
    if (contents->in_memory)
        TN_FAIL(error, TN_E_IO,
                "its contents are in a file next to the model, which has no folder");
    TN_TRY(contents_external_find(contents, location, &external, error));
    if (!tn__add(offset, size, &end) || end > external->file.size)
        TN_FAIL(error, TN_E_IO,
                "its contents are bytes %llu to %llu of '%s', next to '%s', but that file has only "
                "%zu bytes: it is cut off, or of another model; get it again, or make contents up "
                "with `tn_contents_generate`",
                (unsigned long long)offset, (unsigned long long)tn__add_sat(offset, size),
                contents_tail(external->location), contents_tail(contents->path),
                external->file.size);
    *bytes = (tn__span){external->file.bytes + offset, (size_t)size};
    return TN_OK;
}

/* --- reading --- */

static tn_status contents_of_payload(const tn_contents *contents, tn__wanted *wanted, bool *found) {
    tn_payload payload = wanted->tensor->payload;
    *found = false;
    if (payload.size == 0 || contents->format == NULL) return TN_OK;
    if (payload.size > contents->model.size || payload.offset > contents->model.size - payload.size)
        TN_FAIL(wanted->error, TN_E_INVALID,
                "its contents should be after the end of the file: this is not the file that the "
                "graph was loaded from");
    wanted->file = contents->model;
    wanted->payload = (tn__span){contents->model.bytes + payload.offset, (size_t)payload.size};
    return contents->format->contents(wanted, found);
}

static tn_status contents_read(tn_contents *contents, tn__wanted *wanted) {
    const tn_tensor *tensor = wanted->tensor;
    uint64_t need;
    bool found;
    if (tensor->dtype == TN_STRING)
        TN_FAIL(wanted->error, TN_E_UNSUPPORTED, "contents of strings are not read");
    TN_TRY(tn_tensor_size(tensor->dtype, (tn_format){0}, tensor->rank, tensor->shape, &need,
                          wanted->error));
    if (need != wanted->size)
        TN_FAIL(wanted->error, TN_E_INVALID, "its contents are %llu bytes, and %llu were asked for",
                (unsigned long long)need, (unsigned long long)wanted->size);
    if (need == 0) return TN_OK;
    TN_TRY(contents_of_payload(contents, wanted, &found));
    if (found || tn__tensor_fill(tensor, wanted->bytes, wanted->size)) return TN_OK;
    if (contents->generator != NULL) return tn__generate(contents->generator, wanted);
    TN_FAIL(wanted->error, TN_E_UNKNOWN,
            "the model does not hold its contents; `tn_contents_generate` makes some up");
}

/* Finds the mapped file that contains these bytes. */
static bool contents_find(const tn_contents *contents, tn__span bytes, tn_file_range *range) {
    tn_file_range made = {.size = bytes.size};
    bool found = tn__file_where(&contents->file, bytes.bytes, bytes.size, &made.path, &made.offset);
    for (const contents_external *at = contents->externals; at != NULL && !found; at = at->next)
        found = tn__file_where(&at->file, bytes.bytes, bytes.size, &made.path, &made.offset);
    if (found) *range = made;
    return found;
}

tn_status tn_contents_where(tn_contents *contents, const tn_graph *graph, tn_tensor_id id,
                            tn_file_range *range, bool *found, tn_error *error) {
    tn__span plain = {0};
    bool held;
    *found = false;
    if (id >= tn_graph_tensor_count(graph))
        TN_FAIL(error, TN_E_INVALID, "there is no tensor %u", id);
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    tn__wanted wanted = {.contents = contents,
                         .tensor = tensor,
                         .size = tensor->bytes,
                         .plain = &plain,
                         .error = error};
    if (tensor->dtype == TN_STRING || tensor->bytes == TN_SIZE_UNKNOWN || tensor->bytes == 0)
        return TN_OK;
    tn_status status = contents_of_payload(contents, &wanted, &held);
    if (status != TN_OK) return tn__where(error, status, "tensor '%.100s'", tensor->name);
    *found = plain.size == tensor->bytes && contents_find(contents, plain, range);
    return TN_OK;
}

tn_status tn_contents_read(tn_contents *contents, const tn_graph *graph, tn_tensor_id id,
                           void *bytes, uint64_t size, tn_error *error) {
    if (id >= tn_graph_tensor_count(graph))
        TN_FAIL(error, TN_E_INVALID, "there is no tensor %u", id);
    tn__wanted wanted = {.contents = contents,
                         .tensor = tn_graph_tensor(graph, id),
                         .bytes = bytes,
                         .size = size,
                         .error = error};
    tn_status status = contents_read(contents, &wanted);
    if (status == TN_OK || error == NULL) return status;
    char where[sizeof error->where];
    memcpy(where, error->where, sizeof where);
    snprintf(error->where, sizeof error->where, "tensor '%.100s'%s%.60s", wanted.tensor->name,
             where[0] ? ": " : "", where);
    tn__mend(error->where);
    tn__mend(error->message);
    return status;
}
