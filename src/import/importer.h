/* importer.h - what a model format gets, and what it gives.
 *
 * The frame (import.c) maps the file, chooses the format, makes the graph, calls `read`, applies
 * the options that need no format, infers, and puts the file's name into errors. A format only
 * turns bytes into tensors and operators. It is one file in formats/ that defines
 * `const tn_import_format tn__import_<name>`, plus one line in formats.def.
 */
#ifndef TN_IMPORT_IMPORTER_H
#define TN_IMPORT_IMPORTER_H

#include <tenure/import.h>

#include "base/base.h"
#include "import/dims.h"
#include "import/wire.h"

/* Told which tensor of the graph a tensor of the file became; several where a subgraph is run by
 * several operators; with index TN__MET_BLOCK, which block the subgraph became; and, with
 * TN__MET_EXTERNAL, of each tensor whose contents lie in a file beside the model. False: out of
 * memory. */
#define TN__MET_BLOCK UINT32_MAX
#define TN__MET_EXTERNAL (UINT32_MAX - 1)
typedef bool tn__import_met(void *self, uint32_t subgraph, uint32_t index, tn_tensor_id id);

typedef struct tn_importer {
    const tn_import_options *options; /* complete, of this version's size */
    const tn_context *context;        /* complete */
    const char *name;                 /* of the file, short enough for messages */
    const uint8_t *bytes;
    size_t size;
    tn_graph *graph;
    bool *shape_used, *parameter_used; /* [input_shape_count], [parameter_count]: met an input */
    tn__dims dims;                     /* values of symbolic dimensions, and what is missing */
    tn__import_met *met;               /* NULL: nobody asks */
    void *met_self;
    tn_error *error;
} tn_importer;

/* Contents of one tensor that somebody asks for. */
typedef struct tn__wanted {
    tn_contents *contents;
    tn__span file, payload; /* the model file, and the tensor's part of it */
    const tn_tensor *tensor;
    void *bytes;     /* [size], what `tensor` needs as a plain array */
    uint64_t size;   /* above 0 */
    tn__span *plain; /* NULL, or out: where a mapped file has just these bytes; nothing is written
                      * to `bytes`. Left alone where they are nowhere as they are */
    tn_error *error;
} tn__wanted;

typedef struct tn_import_format {
    const char *name;                                 /* "onnx" */
    const char *summary;                              /* one line for `tenure list formats` */
    const char *suffix;                               /* ".onnx" */
    bool (*probe)(const uint8_t *bytes, size_t size); /* by content alone */
    tn_status (*read)(tn_importer *importer);
    /* Fills `bytes`; *found false: the file does not hold them. */
    tn_status (*contents)(const tn__wanted *wanted, bool *found);
} tn_import_format;

/* The format of a file, by the suffix of its name, else by content. */
tn_status tn__import_choose(const char *name, tn__span file, const tn_import_format **format,
                            tn_error *error);

/* Complete options from the caller's, which may be NULL or of an older size. */
void tn__import_options(const tn_import_options *from, tn_import_options *options);

/* tn_graph_load_memory, telling `met`. */
tn_status tn__import(const char *name, tn__span file, const tn_import_options *options,
                     tn__import_met *met, void *self, tn_graph **graph, tn_error *error);

/* The shape that --input-shape gives to this input, or NULL; it counts as asked for. */
const tn_input_shape *tn__import_shape(tn_importer *importer, tn__span name);
/* Whether a glob of options.parameters matches; it counts as asked for. */
bool tn__import_is_parameter(tn_importer *importer, const char *name);

/* values.c: inputs with known contents become parameters, once the format has read the model. */
tn_status tn__import_values(const tn_importer *importer);

/* contents.c: `size` bytes of a file beside the model, mapped until the contents are closed.
 * *found false: those of such files are made up instead. Errors: E_IO (no such file, too short). */
tn_status tn__contents_external(tn_contents *contents, tn__span location, uint64_t offset,
                                uint64_t size, tn__span *bytes, bool *found, tn_error *error);
/* tn_contents_open for a file in memory, which must stay; nothing beside it can be read. */
tn_status tn__contents_memory(const char *name, tn__span file, const tn_context *context,
                              tn_contents **contents, tn_error *error);
const tn_context *tn__contents_context(const tn_contents *contents);

/* One line to the context's log, with the file's name in front. */
void tn__import_log(const tn_importer *importer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
