/* importer.h - the interface between the import frame and a model format.
 *
 * The frame (import.c) maps the file, chooses the format, creates the graph, calls `read`, applies
 * the options that need no format, infers shapes, and puts the file's name into errors. A format
 * only turns bytes into tensors and operators. It is one file in formats/ that defines `const
 * tn_import_format tn__import_<name>`, plus one line in formats.def.
 */
#ifndef TN_IMPORT_IMPORTER_H
#define TN_IMPORT_IMPORTER_H

#include <tenure/graph.h>

#include "base/base.h"
#include "io/import/dims.h"
#include "io/import/onnx/wire.h"

/* A callback that reports how parts of the file map to the graph. It is called for each tensor of
 * the file with the tensor of the graph, several times if several operators run a subgraph. With
 * index TN__MET_BLOCK it reports the block of a subgraph, and with TN__MET_EXTERNAL each tensor
 * with data in an external file. Returning false means that memory ran out. */
#define TN__MET_BLOCK UINT32_MAX
#define TN__MET_EXTERNAL (UINT32_MAX - 1)
typedef bool tn__import_met(void *self, uint32_t subgraph, uint32_t index, tn_tensor_id id);

typedef struct tn_importer {
    /* options, completed with defaults, in the size of this version */
    const tn_import_options *options;
    const tn_context *context; /* complete */
    const char *name;          /* name of the file, short enough for messages */
    const uint8_t *bytes;
    size_t size;
    tn_graph *graph;
    /* [input_shape_count], [parameter_count] true: the entry of this option has matched an input */
    bool *shape_used, *parameter_used;
    tn__dims dims; /* values of symbolic dimensions, and the missing ones */
    /* true: the format has applied the option `batch` to its inputs itself, so the frame does
     * not */
    bool batch_applied;
    tn__import_met *met; /* reports how parts of the file map to the graph; NULL: no report */
    void *met_self;
    tn_error *error;
} tn_importer;

/* A request for the data of one tensor. */
typedef struct tn__wanted {
    tn_contents *contents;
    tn__span file, payload; /* the model file, and the range of the tensor's data in it */
    const tn_tensor *tensor;
    void *bytes;   /* [size] receives the tensor's data as a plain array */
    uint64_t size; /* bytes of the tensor, above 0 */
    /* if not NULL: receives the range of a mapped file that has exactly these bytes, and then
     * `bytes` is not written. It stays unchanged if the file has no such range */
    tn__span *plain;
    tn_error *error;
} tn__wanted;

typedef struct tn_import_format {
    const char *name; /* "onnx" */
    /* description of the format, printed on one line by `tenure list formats` */
    const char *summary;
    const char *suffix;                               /* ".onnx" */
    bool (*probe)(const uint8_t *bytes, size_t size); /* recognises a file by its content alone */
    tn_status (*read)(tn_importer *importer);
    /* Writes the data of a tensor to `bytes`. *found is set to false if the file does not contain
     * them. */
    tn_status (*contents)(const tn__wanted *wanted, bool *found);
    /* Frees what `contents` keeps in tn__contents_state; NULL: it keeps nothing. */
    void (*close)(void *state);
} tn_import_format;

/* Chooses the format of a file by the suffix of its name, or else by its content. */
tn_status tn__import_choose(const char *name, tn__span file, const tn_import_format **format,
                            tn_error *error);

/* Completes the caller's options with defaults; `from` may be NULL or have the size of an older
 * version. */
void tn__import_options(const tn_import_options *from, tn_import_options *options);

/* tn_graph_load_memory with the additional callback `met`. */
tn_status tn__import(const char *name, tn__span file, const tn_import_options *options,
                     tn__import_met *met, void *self, tn_graph **graph, tn_error *error);

/* Returns the shape that --input-shape gives to this input, or NULL; marks the option as used. */
const tn_input_shape *tn__import_shape(tn_importer *importer, tn__span name);
/* Whether a glob of options.parameters matches the name. Marks the glob as used. */
bool tn__import_is_parameter(tn_importer *importer, const char *name);

/* tensor_data.c: finds `size` bytes of an external file, which stays mapped until the contents are
 * closed. *found is set to false if data of such files is generated instead. Errors: E_IO (no such
 * file, it is too short, or the model is in memory and has no folder), E_OUTSIDE (it does not stay
 * beneath the folder of the model), E_INVALID (a zero byte in its path). */
tn_status tn__contents_external(tn_contents *contents, tn__span location, uint64_t offset,
                                uint64_t size, tn__span *bytes, bool *found, tn_error *error);
/* tn_contents_open for a file in memory, which must stay valid. External files cannot be read. */
tn_status tn__contents_memory(const char *name, tn__span file, const tn_context *context,
                              tn_contents **contents, tn_error *error);
/* A place for data that a format keeps between tensors; NULL at first. */
void **tn__contents_state(tn_contents *contents);
const tn_context *tn__contents_context(const tn_contents *contents);

/* array.c: reads one array in any of its formats. `name` is used in messages. The data is allocated
 * from the context. */
tn_status tn__array_read(const char *name, tn__span file, const tn_context *context,
                         tn_array *array, tn_error *error);

/* Writes one line to the context's log, after the name of the file. */
void tn__import_log(const tn_importer *importer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
