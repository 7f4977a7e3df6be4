/* pt2_reader.h - shared definitions of the files of the .pt2 reader.
 *
 *   formats/pt2.c    the archive: its layouts, versions, weights; the tensors and nodes in order
 *   zip.c            members of the archive
 *   pt2_weights.c    where the archive has the data of a weight, and reading it
 *   pt2_sizes.c      symbols and their values, sizes as expressions
 *   pt2_program.c    the values of the program: sizes, storages that values share, last readers
 *   pt2_node.c       arguments of a node, and operators added to the graph
 *   pt2_lower.c      PyTorch's operators as ONNX's: arithmetic, products, windows, normalisations,
 *                    attention
 *   pt2_move.c       the rules of operators that move elements, reduce or create tensors
 *
 * The JSON of the program stays in memory until the graph is complete; names are borrowed from it.
 */
#ifndef TN_IMPORT_PT2_READER_H
#define TN_IMPORT_PT2_READER_H

#include "base/json.h"
#include "io/import/importer.h"
#include "io/import/pt2/zip.h"

#define PT2_NONE UINT32_MAX
/* the value of pt2_value.last for a result of the program, which is read after all nodes */
#define PT2_LAST UINT32_MAX
#define PT2_OPERANDS 64u /* most tensors of a node that is expressed by ONNX operators */

typedef struct pt2_value { /* a tensor of the program */
    const char *name;      /* name in the program */
    const char *shown; /* name in the graph: a parameter has the name that the module gives it */
    const char *device;
    const int64_t *shape, *strides; /* [rank] extents, and strides in elements */
    uint32_t rank;
    tn_dtype dtype;
    tn_kind kind;
    tn_payload payload;
    /* the value with the storage that this value shares; its own number if it shares none */
    uint32_t root;
    /* for the result of an in-place operator: the value that was changed, because the result
     * is another name for it; otherwise the value's own number */
    uint32_t same;
    uint32_t peer; /* next in the list of views of one root; PT2_NONE ends the list */
    /* numbers, from 1, of the node that computes the value and of its last reader */
    uint32_t made, last;
    bool known, given; /* known: already defined; given: an input, a parameter or a constant */
    /* output: is a result of the program; changed: its storage is written in place */
    bool output, changed;
    /* number of the matrix whose transpose this value is, as long as no operator Transpose was
     * added for it; otherwise PT2_NONE */
    uint32_t transposed;
    tn_tensor_id id; /* its tensor of the graph; TN_NONE: none yet */
} pt2_value;

typedef struct pt2_change { /* an in-place operator, which changes its operand */
    uint32_t node, value;   /* `node`: number of the operator; `value`: the changed value */
} pt2_change;

typedef struct pt2_symbol {
    const char *name;
    int64_t least, most; /* TN_DIM_UNKNOWN: not stated */
} pt2_symbol;

typedef struct pt2_reader {
    tn_importer *importer;
    tn_error *error;
    tn__zip zip;
    tn__span root; /* the folder of the archive, with its slash */
    bool legacy;   /* true: the archive has the layout of torch before 2.8 */
    json_t *program, *graph, *signature, *weights, *constants;
    pt2_value *values;
    size_t value_room;
    uint32_t value_count;
    tn__names names; /* maps the name of a value to its number */
    pt2_change *changes;
    size_t change_room, change_count;
    pt2_symbol *symbols;
    size_t symbol_room;
    uint32_t symbol_count;
    tn__names symbol_names;
    tn__arena arena;
    tn__text text;
    /* number of sizes that could not be computed, so that the size of the export's example is
     * used */
    uint32_t hinted;
    bool keep;            /* true: nodes stay PyTorch's operators */
    const char *stranger; /* name of the first operator without a counterpart in ONNX */
    uint32_t strangers;
    /* The current node. */
    json_t *node;
    uint32_t number; /* number of the current node, from 1 */
    uint32_t temporaries;
    /* `type`: the target without its namespace, such as "add.Tensor" */
    const char *name, *target, *type;
    /* namespace and name without overload, such as "aten" and "add" */
    char domain[40], base[64];
    /* numbers of the values that are operands and results of the node, in order */
    uint32_t *reads, *makes;
    size_t read_room, make_room;
    uint32_t read_count, make_count;
} pt2_reader;

/* --- formats/pt2.c --- */

void tn__pt2_init(pt2_reader *reader, tn_importer *importer);
void tn__pt2_release(pt2_reader *reader);
/* Opens the archive, and reads its lists of weights and constants. *program is the member with the
 * program. */
tn_status tn__pt2_archive(pt2_reader *reader, const tn__zip_member **program);

/* --- pt2_weights.c --- */

/* Sets value->payload for a weight whose entry in a list of the archive is `listed`. `folder` is
 * that of the list, such as "data/weights/". Errors: E_INVALID (the list and the program disagree,
 * or the storage is too short). */
tn_status tn__pt2_payload(pt2_reader *reader, json_t *listed, const char *folder, pt2_value *value);
/* The functions `contents` and `close` of the format. */
tn_status tn__pt2_contents(const tn__wanted *wanted, bool *found);
void tn__pt2_close(void *state);

/* --- pt2_sizes.c --- */

/* Reads `range_constraints`. Gives values to the symbols in the shapes of inputs, from the options
 * of the caller or from the upper bounds of the symbols. */
tn_status tn__pt2_symbols(pt2_reader *reader);
/* Computes a size: {"as_int": 1}, {"as_expr": {...}}, {"as_name": "sym_size"} or a number. *value
 * is TN_DIM_UNKNOWN if a symbol in the size has no value; the symbol is then listed as missing. */
tn_status tn__pt2_size(pt2_reader *reader, json_t *size, int64_t *value);

/* --- pt2_program.c --- */

/* tn__pt2_values lists the values of the program; tn__pt2_uses finds which node computes each value
 * and which nodes read it. */
tn_status tn__pt2_values(pt2_reader *reader);
/* Reads the type, sizes and strides of a value (TensorMeta). */
tn_status tn__pt2_meta(pt2_reader *reader, json_t *meta, pt2_value *value);
tn_status tn__pt2_uses(pt2_reader *reader);
/* Returns whether every in-place operator can compute a new tensor instead. Call tn__pt2_uses
 * first. */
bool tn__pt2_functional(const pt2_reader *reader);
/* Makes node `index` the current one: sets its names, operands and results in the reader. */
tn_status tn__pt2_enter(pt2_reader *reader, uint32_t index);
/* returns PT2_NONE if no value has this name */
uint32_t tn__pt2_find(const pt2_reader *reader, const char *name);
tn_status tn__pt2_where(const pt2_reader *reader, tn_status status);

/* How the current node's result `output` relates to its first operand. */
typedef enum pt2_alias {
    PT2_NEW, /* the result has a storage of its own */
    /* the result is a view for these operands, though the operator is no view by definition */
    PT2_SHARES,
    PT2_VIEW,   /* the result is a view by the operator's definition */
    PT2_CHANGES /* the result is the first operand itself, which the operator changes in place */
} pt2_alias;
pt2_alias tn__pt2_alias(const pt2_reader *reader, uint32_t output);

/* --- pt2_node.c --- */

/* Returns the value of argument `name` of the current node, and in *kind the key of its union, such
 * as "as_int". Returns NULL if the argument is absent, has its default value, or is None. */
json_t *tn__pt2_argument(const pt2_reader *reader, const char *name, const char **kind);
/* tn__pt2_int and tn__pt2_number read an argument, or `otherwise` if it is absent. They return
 * false if the argument has another type or an unknown value. */
bool tn__pt2_int(pt2_reader *reader, const char *name, int64_t otherwise, int64_t *value);
bool tn__pt2_number(pt2_reader *reader, const char *name, double otherwise, double *value);
/* Reads a list of at most TN_RANK_MAX integers; a single integer counts as a list of one. *count is
 * 0 if the argument is absent. Returns false if it has another type, more integers or an unknown
 * one. */
bool tn__pt2_ints(pt2_reader *reader, const char *name, int64_t *values, uint32_t *count);
/* Returns the number of the value that is argument `name`; PT2_NONE: the argument is absent or no
 * tensor. */
uint32_t tn__pt2_tensor(const pt2_reader *reader, const char *name);
const pt2_value *tn__pt2_value(const pt2_reader *reader, uint32_t value);

/* Sets *id to the tensor of the graph that holds the value's current data. If the value is a
 * transposed matrix, its first use adds the operator Transpose. */
tn_status tn__pt2_use(pt2_reader *reader, uint32_t value, tn_tensor_id *id);
/* Adds a tensor to the graph for a result of the current node. */
tn_status tn__pt2_make(pt2_reader *reader, uint32_t value, tn_tensor_id *id);
/* Makes the result `value` equal to `operand`, without adding an operator if possible. */
tn_status tn__pt2_same(pt2_reader *reader, uint32_t value, uint32_t operand);
/* Adds a tensor between two operators that the program does not have; its type and shape are
 * inferred later. */
tn_status tn__pt2_between(pt2_reader *reader, tn_tensor_id *id);
tn_status tn__pt2_constant_ints(pt2_reader *reader, const int64_t *values, uint32_t count,
                                tn_tensor_id *id);
/* Adds a constant scalar of type `dtype`. */
tn_status tn__pt2_scalar(pt2_reader *reader, tn_dtype dtype, double number, tn_tensor_id *id);

#define PT2_LIST(...)                                                                              \
    (const tn_tensor_id[]){__VA_ARGS__},                                                           \
        (uint32_t)(sizeof((const tn_tensor_id[]){__VA_ARGS__}) / sizeof(tn_tensor_id))
#define PT2_ATTRS(...)                                                                             \
    (const tn_attr[]){__VA_ARGS__},                                                                \
        (uint32_t)(sizeof((const tn_attr[]){__VA_ARGS__}) / sizeof(tn_attr))
#define PT2_INT(text, value)                                                                       \
    (tn_attr) { .name = text, .type = TN_ATTR_INT, .count = 1, .ints = (value) }
#define PT2_INTS(text, values, number)                                                             \
    (tn_attr) { .name = text, .type = TN_ATTR_INTS, .count = (number), .ints = (values) }
#define PT2_FLOAT(text, value)                                                                     \
    (tn_attr) { .name = text, .type = TN_ATTR_FLOAT, .count = 1, .floats = (value) }
#define PT2_STRING(text, value)                                                                    \
    (tn_attr) { .name = text, .type = TN_ATTR_STRING, .count = 1, .strings = (value) }

/* Adds an ONNX operator; its outputs are tensors that exist. */
tn_status tn__pt2_op(pt2_reader *reader, const char *type, const tn_tensor_id *inputs,
                     uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                     const tn_tensor_id *outputs, uint32_t output_count);
/* Adds an ONNX operator with one output, and the output's tensor: that of result `value`, or one
 * that the program does not have (tn__pt2_between) if `value` is PT2_NONE. */
tn_status tn__pt2_op1(pt2_reader *reader, const char *type, const tn_tensor_id *inputs,
                      uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                      uint32_t value, tn_tensor_id *output);
/* Adds the current node to the graph as PyTorch's own operator. */
tn_status tn__pt2_keep(pt2_reader *reader);

/* --- pt2_lower.c, pt2_move.c --- */

/* Adds the ONNX operators that compute the current node. If *done is false, the node has no
 * counterpart in ONNX, and nothing was added. */
tn_status tn__pt2_lower(pt2_reader *reader, bool *done);

typedef struct pt2_rule pt2_rule;
struct pt2_rule {
    const char *name; /* name of PyTorch's operator without its overload */
    tn_status (*lower)(pt2_reader *reader, const pt2_rule *rule, bool *done);
    const char *onnx; /* ONNX operator, for rules that add a single one */
    double number;    /* a parameter of `lower`, which defines its meaning */
};
/* Returns the rule of pt2_move.c for this operator; NULL if its table has none. */
const pt2_rule *tn__pt2_move_rule(const char *base);
/* Returns whether anything reads a result of the current node from number `first` on. */
bool tn__pt2_reads_results(const pt2_reader *reader, uint32_t first);
/* Sets *id to `operand` in the type `dtype`; adds a Cast if the types differ. */
tn_status tn__pt2_cast(pt2_reader *reader, uint32_t operand, tn_dtype dtype, tn_tensor_id *id);
/* Adds a Reshape of `from` to `shape`. Its output is result `value`, or a tensor that the program
 * does not have if `value` is PT2_NONE. */
tn_status tn__pt2_reshape(pt2_reader *reader, tn_tensor_id from, uint32_t rank,
                          const int64_t *shape, uint32_t value, tn_tensor_id *id);

#endif
