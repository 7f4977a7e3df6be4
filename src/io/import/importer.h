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

/* A callback that reports how parts of the file map to the graph. For each tensor of the file: the
 * tensor of the graph, several times if several operators run a subgraph. With index TN__MET_BLOCK:
 * the block of a subgraph. With TN__MET_EXTERNAL: each tensor with data in an external file. False:
 * out of memory. */
#define TN__MET_BLOCK UINT32_MAX
#define TN__MET_EXTERNAL (UINT32_MAX - 1)
typedef bool tn__import_met(void *self, uint32_t subgraph, uint32_t index, tn_tensor_id id);

typedef struct tn_importer {
    const tn_import_options *options; /* complete, of this version's size */
    const tn_context *context;        /* complete */
    const char *name;                 /* name of the file, short enough for messages */
    const uint8_t *bytes;
    size_t size;
    tn_graph *graph;
    /* [input_shape_count], [parameter_count]: matched an input */
    bool *shape_used, *parameter_used;
    tn__dims dims;       /* values of symbolic dimensions, and missing ones */
    bool batch_applied;  /* the format set `batch` itself, in every size */
    tn__import_met *met; /* NULL: no callback */
    void *met_self;
    tn_error *error;
} tn_importer;

/* A request for the data of one tensor. */
typedef struct tn__wanted {
    tn_contents *contents;
    tn__span file, payload; /* the model file, and the range of the tensor in it */
    const tn_tensor *tensor;
    void *bytes;     /* [size], the plain array to be filled */
    uint64_t size;   /* above 0 */
    tn__span *plain; /* NULL, or out: the range of a mapped file with exactly these bytes; then
                      * `bytes` is not written. Unchanged if the file has no such range */
    tn_error *error;
} tn__wanted;

typedef struct tn_import_format {
    const char *name;                                 /* "onnx" */
    const char *summary;                              /* one line for `tenure list formats` */
    const char *suffix;                               /* ".onnx" */
    bool (*probe)(const uint8_t *bytes, size_t size); /* recognises a file by its content alone */
    tn_status (*read)(tn_importer *importer);
    /* Fills in `bytes`; *found false: the file does not contain them. */
    tn_status (*contents)(const tn__wanted *wanted, bool *found);
} tn_import_format;

/* The format of a file, by the suffix of its name, else by content. */
tn_status tn__import_choose(const char *name, tn__span file, const tn_import_format **format,
                            tn_error *error);

/* Complete options from the caller's, which may be NULL or of an older size. */
void tn__import_options(const tn_import_options *from, tn_import_options *options);

/* tn_graph_load_memory, with the callback `met`. */
tn_status tn__import(const char *name, tn__span file, const tn_import_options *options,
                     tn__import_met *met, void *self, tn_graph **graph, tn_error *error);

/* The shape that --input-shape gives to this input, or NULL; marks the option as used. */
const tn_input_shape *tn__import_shape(tn_importer *importer, tn__span name);
/* Does a glob of options.parameters match? Marks the glob as used. */
bool tn__import_is_parameter(tn_importer *importer, const char *name);

/* tensor_data.c: `size` bytes of an external file, mapped until the contents are closed. *found
 * false: data of such files is generated instead. Errors: E_IO (no such file, too short). */
tn_status tn__contents_external(tn_contents *contents, tn__span location, uint64_t offset,
                                uint64_t size, tn__span *bytes, bool *found, tn_error *error);
/* tn_contents_open for a file in memory, which must stay valid; external files cannot be read. */
tn_status tn__contents_memory(const char *name, tn__span file, const tn_context *context,
                              tn_contents **contents, tn_error *error);
const tn_context *tn__contents_context(const tn_contents *contents);

/* array.c: reads one array in any of its formats; `name` is for messages. Its data is allocated
 * from the context. */
tn_status tn__array_read(const char *name, tn__span file, const tn_context *context,
                         tn_array *array, tn_error *error);

/* One line to the context's log, with the file's name in front. */
void tn__import_log(const tn_importer *importer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
