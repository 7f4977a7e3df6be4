/* tflite_reader.h - shared definitions of the files of the .tflite reader.
 *
 *   formats/tflite.c  the model: schema, verification, versions, operator codes, subgraphs in a
 *                     queue
 *   tflite_graph.c    a subgraph: roles of its tensors, its operators with the builtin options that
 *                     shapes depend on, the blocks that they own
 *   tflite_tensor.c   a tensor: type, shape, data
 *   tflite_plan.c     offline plans inside files, read and written
 *   flat.c            the wire format
 */
#ifndef TN_IMPORT_TFLITE_READER_H
#define TN_IMPORT_TFLITE_READER_H

#include "io/import/tflite/flat.h"
#include "io/import/importer.h"

#define TFLITE_DEPTH_MAX 64u /* limit of the depth of subgraphs that call each other */

extern const tn__flat_schema tn__tflite_model_schema;
/* returns NULL for an operator of a later version */
const char *tn__tflite_operator(uint32_t builtin);
uint32_t tn__tflite_builtin(const tn__flat_table *code);
tn_dtype tn__tflite_dtype(int64_t type); /* returns TN_UNDEFINED for a type of a later version */
/* Whether the file contains data for the tensor, which then is a constant. */
bool tn__tflite_has_contents(const tn__flat_vector *buffers, const tn__flat_table *tensor);

/* clang-format off */
enum { TFLITE_MODEL_VERSION = 0, TFLITE_MODEL_CODES = 1, TFLITE_MODEL_SUBGRAPHS = 2,
       TFLITE_MODEL_BUFFERS = 4, TFLITE_MODEL_METADATA = 6, TFLITE_MODEL_KNOWN = 8 };
enum { TFLITE_METADATA_NAME = 0, TFLITE_METADATA_BUFFER = 1 };
enum { TFLITE_CODE_OLD = 0, TFLITE_CODE_CUSTOM = 1, TFLITE_CODE_VERSION = 2,
       TFLITE_CODE_BUILTIN = 3 };
enum { TFLITE_GRAPH_TENSORS = 0, TFLITE_GRAPH_INPUTS = 1, TFLITE_GRAPH_OUTPUTS = 2,
       TFLITE_GRAPH_OPERATORS = 3, TFLITE_GRAPH_NAME = 4 };
enum { TFLITE_TENSOR_SHAPE = 0, TFLITE_TENSOR_TYPE = 1, TFLITE_TENSOR_BUFFER = 2,
       TFLITE_TENSOR_NAME = 3, TFLITE_TENSOR_QUANTIZATION = 4, TFLITE_TENSOR_VARIABLE = 5, TFLITE_TENSOR_SPARSITY = 6,
       TFLITE_TENSOR_SIGNATURE = 7, TFLITE_TENSOR_HAS_RANK = 8, TFLITE_TENSOR_EXTERNAL = 10 };
enum { TFLITE_OP_CODE = 0, TFLITE_OP_INPUTS = 1, TFLITE_OP_OUTPUTS = 2, TFLITE_OP_OPTIONS_TYPE = 3,
       TFLITE_OP_OPTIONS = 4, TFLITE_OP_LARGE = 9, TFLITE_OP_OPTIONS2_TYPE = 11, TFLITE_OP_OPTIONS2 = 12 };
enum { TFLITE_QUANTIZATION_SCALE = 2, TFLITE_QUANTIZATION_ZERO = 3 };
enum { TFLITE_BUFFER_DATA = 0, TFLITE_BUFFER_OFFSET = 1, TFLITE_BUFFER_SIZE = 2 };
/* clang-format on */

typedef struct tflite_code {
    uint32_t builtin, version;
    const char *type; /* name of the operator: "CONV_2D", "CUSTOM:SignalWindow" */
} tflite_code;

/* A subgraph that waits in the queue to be read as a block of the graph. */
typedef struct tflite_pending {
    uint32_t subgraph, depth;
    tn_block_id block;
    const char *prefix; /* prefix of the names of the subgraph's tensors */
} tflite_pending;

/* The roles of a tensor in its subgraph, one bit each. */
enum {
    TFLITE_IS_INPUT = 1u << 0, /* the tensor is listed as an input */
    TFLITE_IS_READ = 1u << 1,  /* the tensor is read by an operator, or listed as an output */
    TFLITE_IS_MADE = 1u << 2,  /* the tensor is computed by an operator */
    /* the tensor has shape [], which here means that the file states no shape */
    TFLITE_IS_UNSHAPED = 1u << 3,
};

typedef struct tflite_reader {
    tn_importer *importer;
    tn__arena arena; /* memory that is released when the file has been read */
    tn__span file;
    tn__flat_vector subgraphs, buffers;
    tflite_code *codes;
    uint32_t code_count;
    size_t end;         /* end of the last byte that the model uses */
    uint64_t allowance; /* units that tensors, operators, operands and text may still take */
    /* true: an --input-shape contradicts the file, so other shapes that the file states are
     * ignored */
    bool drop_stated;
    /* true: the file has signatures, so some inputs may have another size than the stored one */
    bool has_signatures;
    tn__names names; /* names of tensors; the keys point to the graph's texts */
    tflite_pending *pending;
    size_t pending_room, pending_count;
    tn_tensor_id *states; /* variable tensors of all subgraphs */
    size_t state_room, state_count;
    /* State of the current subgraph. */
    tn__flat_vector tensors;
    uint8_t *roles; /* [tensors.count] the roles of each tensor, TFLITE_IS_* */
    tn_tensor_id *ids;
    size_t role_room, id_room;
    tn_tensor_id *operands; /* scratch */
    size_t operand_room;
    tn__text name, output;
} tflite_reader;

tn_status tn__tflite_no_memory(const tflite_reader *reader);
/* Takes `units` from reader->allowance, which limits how often a file may repeat its own parts.
 * Errors: E_INVALID if fewer units are left. */
tn_status tn__tflite_charge(tflite_reader *reader, uint64_t units);
/* Writes the place of an error, such as "tensor 3 of subgraph 1 'x'", into `where`; returns
 * status. */
tn_status tn__tflite_tensor_where(const tflite_reader *reader, tn_status status, uint32_t subgraph,
                                  uint32_t index);

/* tflite_tensor.c */
/* Adds a tensor of the current subgraph to the graph, according to its roles; its id is written to
 * reader->ids. */
tn_status tn__tflite_tensor(tflite_reader *reader, const tflite_pending *block, uint32_t index);
/* Whether an --input-shape contradicts the shape of an input of the main subgraph. Sets
 * reader->has_signatures if that shape is open. */
bool tn__tflite_contradicts(tflite_reader *reader, uint32_t index);

/* tflite_graph.c: reads one block, and puts its own blocks into the queue. */
tn_status tn__tflite_block(tflite_reader *reader, const tflite_pending *block);

#endif
