/* tflite.c - reads TensorFlow Lite models (.tflite), schema version 3.
 *
 * The file is verified whole before it is read (flat.h). Then subgraph 0 becomes the main block,
 * and the subgraphs that its operators name become their blocks. Unreferenced subgraphs are
 * programs of their own (signatures); they are left out with a line in the log. Weights are never
 * read. tflite_reader.h lists the files of the reader.
 *
 * Cost: O(file without payloads); memory at most a constant times that.
 */
#include "io/import/tflite/tflite_reader.h"

/* --- schema ----------------------------------------------------------------------------------- */

/* The tables of a .tflite file by field number, and the names of its operators.
 *
 * Source: TensorFlow Lite's schema, version 3c (numbers are only added, never reused). */

/* clang-format off */
#define SCALAR(bytes) {.kind = TN_FLAT_SCALAR, .width = bytes}
#define SCALARS(bytes) {.kind = TN_FLAT_SCALARS, .width = bytes}
#define STRING {.kind = TN_FLAT_STRING}
#define TABLE(schema) {.kind = TN_FLAT_TABLE, .child = &schema}
#define TABLES(schema) {.kind = TN_FLAT_TABLES, .child = &schema}
#define UNION {.kind = TN_FLAT_UNION}
#define NOTHING {.kind = TN_FLAT_UNKNOWN}
#define SCHEMA(name, text, ...) static const tn__flat_schema name = {text, \
    sizeof((tn__flat_field[]){__VA_ARGS__}) / sizeof(tn__flat_field), {__VA_ARGS__}}

SCHEMA(schema_code, "OperatorCode", SCALAR(1), STRING, SCALAR(4), SCALAR(4));
SCHEMA(schema_quantization, "QuantizationParameters", SCALARS(4), SCALARS(4), SCALARS(4),
       SCALARS(8), SCALAR(1), UNION, SCALAR(4));
SCHEMA(schema_dimension, "DimensionMetadata", SCALAR(1), SCALAR(4), SCALAR(1), UNION, SCALAR(1),
       UNION);
SCHEMA(schema_sparsity, "SparsityParameters", SCALARS(4), SCALARS(4), TABLES(schema_dimension));
SCHEMA(schema_variant, "VariantSubType", SCALARS(4), SCALAR(1), SCALAR(1));
SCHEMA(schema_tensor, "Tensor", SCALARS(4), SCALAR(1), SCALAR(4), STRING,
       TABLE(schema_quantization), SCALAR(1), TABLE(schema_sparsity), SCALARS(4), SCALAR(1),
       TABLES(schema_variant), SCALAR(4));
SCHEMA(schema_operator, "Operator", SCALAR(4), SCALARS(4), SCALARS(4), SCALAR(1), UNION, SCALARS(1),
       SCALAR(1), SCALARS(1), SCALARS(4), SCALAR(8), SCALAR(8), SCALAR(1), UNION, SCALAR(4));
SCHEMA(schema_subgraph, "SubGraph", TABLES(schema_tensor), SCALARS(4), SCALARS(4),
       TABLES(schema_operator), STRING, SCALAR(4));
SCHEMA(schema_buffer, "Buffer", SCALARS(1), SCALAR(8), SCALAR(8));
SCHEMA(schema_metadata, "Metadata", STRING, SCALAR(4));
SCHEMA(schema_map, "TensorMap", STRING, SCALAR(4));
SCHEMA(schema_signature, "SignatureDef", TABLES(schema_map), TABLES(schema_map), STRING, NOTHING,
       SCALAR(4));

const tn__flat_schema tn__tflite_model_schema = {"Model", 8,
    {SCALAR(4), TABLES(schema_code), TABLES(schema_subgraph), STRING, TABLES(schema_buffer),
     SCALARS(4), TABLES(schema_metadata), TABLES(schema_signature)}};

static const char *const schema_operators[] = {
    "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE",
    "DEQUANTIZE", "EMBEDDING_LOOKUP", "FLOOR", "FULLY_CONNECTED", "HASHTABLE_LOOKUP",
    "L2_NORMALIZATION", "L2_POOL_2D", "LOCAL_RESPONSE_NORMALIZATION", "LOGISTIC", "LSH_PROJECTION",
    "LSTM", "MAX_POOL_2D", "MUL", "RELU", "RELU_N1_TO_1", "RELU6", "RESHAPE", "RESIZE_BILINEAR",
    "RNN", "SOFTMAX", "SPACE_TO_DEPTH", "SVDF", "TANH", "CONCAT_EMBEDDINGS", "SKIP_GRAM", "CALL",
    "CUSTOM", "EMBEDDING_LOOKUP_SPARSE", "PAD", "UNIDIRECTIONAL_SEQUENCE_RNN", "GATHER",
    "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "TRANSPOSE", "MEAN", "SUB", "DIV", "SQUEEZE",
    "UNIDIRECTIONAL_SEQUENCE_LSTM", "STRIDED_SLICE", "BIDIRECTIONAL_SEQUENCE_RNN", "EXP", "TOPK_V2",
    "SPLIT", "LOG_SOFTMAX", "DELEGATE", "BIDIRECTIONAL_SEQUENCE_LSTM", "CAST", "PRELU", "MAXIMUM",
    "ARG_MAX", "MINIMUM", "LESS", "NEG", "PADV2", "GREATER", "GREATER_EQUAL", "LESS_EQUAL",
    "SELECT", "SLICE", "SIN", "TRANSPOSE_CONV", "SPARSE_TO_DENSE", "TILE", "EXPAND_DIMS", "EQUAL",
    "NOT_EQUAL", "LOG", "SUM", "SQRT", "RSQRT", "SHAPE", "POW", "ARG_MIN", "FAKE_QUANT",
    "REDUCE_PROD", "REDUCE_MAX", "PACK", "LOGICAL_OR", "ONE_HOT", "LOGICAL_AND", "LOGICAL_NOT",
    "UNPACK", "REDUCE_MIN", "FLOOR_DIV", "REDUCE_ANY", "SQUARE", "ZEROS_LIKE", "FILL", "FLOOR_MOD",
    "RANGE", "RESIZE_NEAREST_NEIGHBOR", "LEAKY_RELU", "SQUARED_DIFFERENCE", "MIRROR_PAD", "ABS",
    "SPLIT_V", "UNIQUE", "CEIL", "REVERSE_V2", "ADD_N", "GATHER_ND", "COS", "WHERE", "RANK", "ELU",
    "REVERSE_SEQUENCE", "MATRIX_DIAG", "QUANTIZE", "MATRIX_SET_DIAG", "ROUND", "HARD_SWISH", "IF",
    "WHILE", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "SCATTER_ND", "SELECT_V2",
    "DENSIFY", "SEGMENT_SUM", "BATCH_MATMUL", "PLACEHOLDER_FOR_GREATER_OP_CODES", "CUMSUM",
    "CALL_ONCE", "BROADCAST_TO", "RFFT2D", "CONV_3D", "IMAG", "REAL", "COMPLEX_ABS", "HASHTABLE",
    "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "REDUCE_ALL", "CONV_3D_TRANSPOSE",
    "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "BROADCAST_ARGS", "RANDOM_STANDARD_NORMAL",
    "BUCKETIZE", "RANDOM_UNIFORM", "MULTINOMIAL", "GELU", "DYNAMIC_UPDATE_SLICE", "RELU_0_TO_1",
    "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_SUM", "ATAN2",
    "UNSORTED_SEGMENT_MIN", "SIGN", "BITCAST", "BITWISE_XOR", "RIGHT_SHIFT", "STABLEHLO_LOGISTIC",
    "STABLEHLO_ADD", "STABLEHLO_DIVIDE", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM",
    "STABLEHLO_RESHAPE", "STABLEHLO_CLAMP", "STABLEHLO_CONCATENATE", "STABLEHLO_BROADCAST_IN_DIM",
    "STABLEHLO_CONVOLUTION", "STABLEHLO_SLICE", "STABLEHLO_CUSTOM_CALL", "STABLEHLO_REDUCE",
    "STABLEHLO_ABS", "STABLEHLO_AND", "STABLEHLO_COSINE", "STABLEHLO_EXPONENTIAL",
    "STABLEHLO_FLOOR", "STABLEHLO_LOG", "STABLEHLO_MINIMUM", "STABLEHLO_NEGATE", "STABLEHLO_OR",
    "STABLEHLO_POWER", "STABLEHLO_REMAINDER", "STABLEHLO_RSQRT", "STABLEHLO_SELECT",
    "STABLEHLO_SUBTRACT", "STABLEHLO_TANH", "STABLEHLO_SCATTER", "STABLEHLO_COMPARE",
    "STABLEHLO_CONVERT", "STABLEHLO_DYNAMIC_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE",
    "STABLEHLO_PAD", "STABLEHLO_IOTA", "STABLEHLO_DOT_GENERAL", "STABLEHLO_REDUCE_WINDOW",
    "STABLEHLO_SORT", "STABLEHLO_WHILE", "STABLEHLO_GATHER", "STABLEHLO_TRANSPOSE", "DILATE",
    "STABLEHLO_RNG_BIT_GENERATOR", "REDUCE_WINDOW", "STABLEHLO_COMPOSITE", "COMPLEX",
};
/* clang-format on */

const char *tn__tflite_operator(uint32_t builtin) {
    return builtin < sizeof schema_operators / sizeof *schema_operators ? schema_operators[builtin]
                                                                        : NULL;
}

/* --- functions for all files of the reader ---------------------------------------------------- */

#define TFLITE_VERSION 3u
/* operators above this number have it only in the newer field */
#define TFLITE_CODE_GREATER 127u
#define TFLITE_CUSTOM 32u
#define TFLITE_UNITS_MIN 100000u
#define TFLITE_ZIP_END 22u /* bytes of the record that ends an archive, without its comment */

tn_status tn__tflite_no_memory(const tflite_reader *reader) {
    return tn__no_memory(reader->importer->error, "the model");
}

/* Takes units from the allowance of a file, which has one unit per byte. That is enough if each
 * part of the file is used once: an operand takes 4 bytes of the file, a name of a tensor and its
 * operator at least four characters, and everything else more. */
tn_status tn__tflite_charge(tflite_reader *reader, uint64_t units) {
    if (units > reader->allowance)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "it uses the same tensors or subgraphs over and over again");
    reader->allowance -= units;
    return TN_OK;
}

tn_status tn__tflite_tensor_where(const tflite_reader *reader, tn_status status, uint32_t subgraph,
                                  uint32_t index) {
    tn__flat_table tensor = tn__flat_item(&reader->tensors, index);
    tn__span name = tn__flat_string(&tensor, TFLITE_TENSOR_NAME);
    int length = name.size < 80 ? (int)name.size : 80;
    return tn__where(reader->importer->error, status, "tensor %u of subgraph %u '%.*s'", index,
                     subgraph, length, name.size ? (const char *)name.bytes : "");
}

/* --- the list of operator types in the file ------------------------------------------------- */

/* Returns the number of a builtin operator. The older field has one byte; the newer one is 0 in
 * files that do not have it. */
uint32_t tn__tflite_builtin(const tn__flat_table *code) {
    int64_t old = tn__flat_int(code, TFLITE_CODE_OLD, 1, 0);
    int64_t newer = tn__flat_int(code, TFLITE_CODE_BUILTIN, 4, 0);
    int64_t most = old > newer ? old : newer;
    return most < 0 ? 0 : (uint32_t)most;
}

static tn_status tflite_type(tflite_reader *reader, const tn__flat_table *table,
                             tflite_code *code) {
    const char *known = tn__tflite_operator(code->builtin);
    reader->name.size = 0;
    if (code->builtin == TFLITE_CUSTOM) {
        tn__text_put(&reader->name, "CUSTOM:");
        tn__span_text(&reader->name, tn__flat_string(table, TFLITE_CODE_CUSTOM));
    } else if (known && code->builtin != TFLITE_CODE_GREATER) {
        code->type = known;
        return TN_OK;
    } else {
        tn__text_printf(&reader->name, "BUILTIN_%u", code->builtin);
    }
    TN_TRY(tn__tflite_charge(reader, reader->name.size / 4));
    code->type = reader->name.failed
                     ? NULL
                     : tn__arena_string(&reader->arena, reader->name.data, reader->name.size);
    return code->type ? TN_OK : tn__tflite_no_memory(reader);
}

static tn_status tflite_codes(tflite_reader *reader, const tn__flat_table *model) {
    tn__flat_vector codes = tn__flat_list(model, TFLITE_MODEL_CODES);
    TN_TRY(tn__tflite_charge(reader, codes.count));
    reader->codes = tn__arena_array(&reader->arena, codes.count, sizeof *reader->codes);
    if (!reader->codes) return tn__tflite_no_memory(reader);
    for (uint32_t i = 0; i < codes.count; i++) {
        tn__flat_table table = tn__flat_item(&codes, i);
        int64_t version = tn__flat_int(&table, TFLITE_CODE_VERSION, 4, 1);
        tflite_code *code = &reader->codes[i];
        code->builtin = tn__tflite_builtin(&table);
        code->version = version > 0 ? (uint32_t)version : 1;
        TN_TRY(tflite_type(reader, &table, code));
    }
    reader->code_count = codes.count;
    return TN_OK;
}

/* --- checking and reading a whole file ------------------------------------------------------ */

/* Checks what follows the model. Metadata and label files may follow as a zip archive, which ends
 * with a list of its contents: an archive without that list was truncated. */
static tn_status tflite_check_tail(const tflite_reader *reader, size_t end) {
    const uint8_t *bytes = reader->file.bytes;
    size_t size = reader->file.size;
    while (end < size && bytes[end] == 0) end++;
    if (size - end < 4 || memcmp(bytes + end, "PK\x03\x04", 4) != 0) return TN_OK;
    for (size_t at = size - 4; at > end && size - at <= TFLITE_ZIP_END + UINT16_MAX; at--)
        if (size - at >= TFLITE_ZIP_END && memcmp(bytes + at, "PK\x05\x06", 4) == 0) return TN_OK;
    TN_FAIL(reader->importer->error, TN_E_INVALID,
            "the archive after the model has no end: the file was cut off");
}

/* Checks tensor data outside the FlatBuffer, in files above 2 GiB; *end is moved after it. */
static tn_status tflite_check_buffers(const tflite_reader *reader, size_t *end) {
    for (uint32_t i = 0; i < reader->buffers.count; i++) {
        tn__flat_table buffer = tn__flat_item(&reader->buffers, i);
        uint64_t offset = tn__flat_uint(&buffer, TFLITE_BUFFER_OFFSET, 8, 0), last;
        if (offset <= 1) continue;
        uint64_t size = tn__flat_uint(&buffer, TFLITE_BUFFER_SIZE, 8, 0);
        if (!tn__add(offset, size, &last) || last > reader->file.size)
            TN_FAIL(reader->importer->error, TN_E_INVALID,
                    "buffer %u reaches beyond the end of the file (cut off?)", i);
        if (last > *end) *end = (size_t)last;
    }
    return TN_OK;
}

static bool tflite_probe(const uint8_t *bytes, size_t size) {
    return size >= 8 && memcmp(bytes + 4, "TFL3", 4) == 0;
}

static tn_status tflite_open(tflite_reader *reader) {
    tn_importer *importer = reader->importer;
    size_t end;
    if (!tflite_probe(importer->bytes, importer->size))
        TN_FAIL(importer->error, TN_E_INVALID,
                "it has no mark 'TFL3' at byte 4: not a TensorFlow Lite model, or cut off");
    TN_TRY(tn__flat_verify(reader->file, &tn__tflite_model_schema, &end, importer->error));
    tn__flat_table model = tn__flat_root(reader->file);
    uint64_t version = tn__flat_uint(&model, TFLITE_MODEL_VERSION, 4, 0);
    if (version != TFLITE_VERSION)
        TN_FAIL(importer->error, TN_E_UNSUPPORTED, "schema version %llu; this reader knows %u",
                (unsigned long long)version, TFLITE_VERSION);
    reader->subgraphs = tn__flat_list(&model, TFLITE_MODEL_SUBGRAPHS);
    reader->buffers = tn__flat_list(&model, TFLITE_MODEL_BUFFERS);
    if (reader->subgraphs.count == 0)
        TN_FAIL(importer->error, TN_E_INVALID, "there is no subgraph in it");
    TN_TRY(tflite_check_buffers(reader, &end));
    TN_TRY(tflite_check_tail(reader, end));
    return tflite_codes(reader, &model);
}

/* --- blocks --------------------------------------------------------------------------------- */

/* Adds variable tensors as inputs (unless they are parameters) and outputs, because their live
 * range is the whole program. */
static tn_status tflite_add_states(tflite_reader *reader) {
    const tn_block *main_block = tn_graph_block(reader->importer->graph, 0);
    size_t inputs = main_block->input_count, outputs = main_block->output_count;
    size_t states = reader->state_count, all = inputs + outputs + 2 * states;
    if (states == 0) return TN_OK;
    if (!tn__reserve(reader->importer->context, &reader->operands, &reader->operand_room, all,
                     sizeof *reader->operands))
        return tn__tflite_no_memory(reader);
    tn_tensor_id *to = reader->operands;
    for (size_t i = 0; i < inputs; i++) *to++ = main_block->inputs[i];
    for (size_t i = 0; i < states; i++)
        if (tn_graph_tensor(reader->importer->graph, reader->states[i])->kind != TN_KIND_PARAMETER)
            *to++ = reader->states[i];
    inputs = (size_t)(to - reader->operands);
    for (size_t i = 0; i < outputs; i++) *to++ = main_block->outputs[i];
    for (size_t i = 0; i < states; i++) *to++ = reader->states[i];
    outputs = (size_t)(to - reader->operands) - inputs;
    return tn_graph_set_block_io(reader->importer->graph, 0, reader->operands, (uint32_t)inputs,
                                 reader->operands + inputs, (uint32_t)outputs,
                                 reader->importer->error);
}

/* Logs subgraphs that are never run: they are not part of the program. */
static tn_status tflite_log(tflite_reader *reader) {
    const tn_importer *importer = reader->importer;
    uint32_t left = reader->subgraphs.count - 1;
    bool *run = tn__arena_array(&reader->arena, reader->subgraphs.count, sizeof *run);
    if (!run) return tn__tflite_no_memory(reader);
    for (size_t i = 0; i < reader->pending_count; i++) {
        uint32_t subgraph = reader->pending[i].subgraph;
        left -= subgraph != 0 && !run[subgraph];
        run[subgraph] = true;
    }
    if (left)
        tn__import_log(importer, "%u subgraph%s that the main subgraph does not run %s left out",
                       left, left == 1 ? "" : "s", left == 1 ? "is" : "are");
    if (reader->has_signatures && !importer->options->input_shape_count)
        tn__import_log(importer,
                       "this model accepts other input sizes; the size in the file is used");
    return TN_OK;
}

static tn_status tflite_read_blocks(tflite_reader *reader) {
    tflite_pending next = {.prefix = ""};
    TN_TRY(tn__tflite_block(reader, &next));
    for (size_t i = 0; i < reader->pending_count; i++) {
        /* copies the entry, because the queue may move in memory when it grows */
        next = reader->pending[i];
        TN_TRY(tn__tflite_block(reader, &next));
    }
    TN_TRY(tflite_add_states(reader));
    TN_TRY(tflite_log(reader));
    return tn__dims_check(&reader->importer->dims, reader->importer->error);
}

static void tflite_release(tflite_reader *reader) {
    const tn_context *context = reader->importer->context;
    tn__free(context, reader->pending, reader->pending_room * sizeof *reader->pending);
    tn__free(context, reader->states, reader->state_room * sizeof *reader->states);
    tn__free(context, reader->roles, reader->role_room * sizeof *reader->roles);
    tn__free(context, reader->ids, reader->id_room * sizeof *reader->ids);
    tn__free(context, reader->operands, reader->operand_room * sizeof *reader->operands);
    tn__names_release(&reader->names);
    tn__text_release(&reader->name);
    tn__text_release(&reader->output);
    tn__arena_release(&reader->arena);
}

static tn_status tflite_read(tn_importer *importer) {
    tflite_reader reader = {.importer = importer, .file = {importer->bytes, importer->size}};
    reader.allowance = tn__add_sat(TFLITE_UNITS_MIN, importer->size);
    tn__arena_init(&reader.arena, importer->context);
    tn__names_init(&reader.names, importer->context);
    tn__text_init(&reader.name, importer->context);
    tn__text_init(&reader.output, importer->context);
    tn_status status = tflite_open(&reader);
    if (status == TN_OK) status = tflite_read_blocks(&reader);
    tflite_release(&reader);
    return status;
}

/* Reads the data of a tensor. Its buffer holds the plain bytes of the tensor, and may be longer. */
static tn_status tflite_contents(const tn__wanted *wanted, bool *found) {
    if (wanted->payload.size < wanted->size)
        TN_FAIL(wanted->error, TN_E_INVALID,
                "the file holds %zu bytes of it, where %llu are needed", wanted->payload.size,
                (unsigned long long)wanted->size);
    if (wanted->plain != NULL)
        *wanted->plain = (tn__span){wanted->payload.bytes, (size_t)wanted->size};
    else
        memcpy(wanted->bytes, wanted->payload.bytes, (size_t)wanted->size);
    *found = true;
    return TN_OK;
}

const tn_import_format tn__import_tflite = {.name = "tflite",
                                            .summary = "TensorFlow Lite models, schema version 3",
                                            .suffix = ".tflite",
                                            .probe = tflite_probe,
                                            .read = tflite_read,
                                            .contents = tflite_contents};
