/* tflite_schema.c - the tables of a .tflite file by field number, and the names of its operators.
 *
 * Source: TensorFlow Lite's schema, version 3c (numbers are only added, never reused).
 */
#include "io/import/tflite_reader.h"

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
