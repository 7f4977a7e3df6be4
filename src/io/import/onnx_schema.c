/* onnx_schema.c - the fields of ONNX's messages that are read, and their wire types.
 *
 * A field that is absent here is skipped as unknown: documentation, metadata, quantisation
 * annotations, and fields of later versions.
 * Source: onnx.proto of IR versions 8 (Debian's python3-onnx) and 14 (upstream).
 */
#include "io/import/onnx_reader.h"

#define V TN_WIRE_VARINT
#define B TN_WIRE_BYTES
#define VS (TN_WIRE_VARINT | TN_WIRE_BYTES)  /* repeated integer, packed or not */
#define FS (TN_WIRE_FIXED32 | TN_WIRE_BYTES) /* repeated float */
#define DS (TN_WIRE_FIXED64 | TN_WIRE_BYTES) /* repeated double */

/* clang-format off */
const tn__message tn__onnx_model_schema = {"ModelProto", {
    [ONNX_MODEL_IR] = V, [ONNX_MODEL_GRAPH] = B, [ONNX_MODEL_OPSET] = B,
    [ONNX_MODEL_TRAINING] = B, [ONNX_MODEL_FUNCTION] = B}};
const tn__message tn__onnx_opset_schema = {"OperatorSetIdProto", {
    [ONNX_OPSET_DOMAIN] = B, [ONNX_OPSET_VERSION] = V}};
const tn__message tn__onnx_function_schema = {"FunctionProto", {
    [ONNX_FUNCTION_NAME] = B, [ONNX_FUNCTION_INPUT] = B, [ONNX_FUNCTION_OUTPUT] = B,
    [ONNX_FUNCTION_NODE] = B, [ONNX_FUNCTION_OPSET] = B, [ONNX_FUNCTION_DOMAIN] = B,
    [ONNX_FUNCTION_DEFAULT] = B, [ONNX_FUNCTION_VALUE_INFO] = B,
    [ONNX_FUNCTION_OVERLOAD] = B}};
const tn__message tn__onnx_graph_schema = {"GraphProto", {
    [ONNX_GRAPH_NODE] = B, [ONNX_GRAPH_NAME] = B, [ONNX_GRAPH_INITIALIZER] = B,
    [ONNX_GRAPH_INPUT] = B, [ONNX_GRAPH_OUTPUT] = B, [ONNX_GRAPH_VALUE_INFO] = B,
    [ONNX_GRAPH_SPARSE] = B}};
const tn__message tn__onnx_node_schema = {"NodeProto", {
    [ONNX_NODE_INPUT] = B, [ONNX_NODE_OUTPUT] = B, [ONNX_NODE_NAME] = B, [ONNX_NODE_TYPE] = B,
    [ONNX_NODE_ATTRIBUTE] = B, [ONNX_NODE_DOMAIN] = B, [ONNX_NODE_OVERLOAD] = B}};
const tn__message tn__onnx_attribute_schema = {"AttributeProto", {
    [ONNX_ATTR_NAME] = B, [ONNX_ATTR_F] = TN_WIRE_FIXED32, [ONNX_ATTR_I] = V, [ONNX_ATTR_S] = B,
    [ONNX_ATTR_T] = B, [ONNX_ATTR_G] = B, [ONNX_ATTR_FLOATS] = FS, [ONNX_ATTR_INTS] = VS,
    [ONNX_ATTR_STRINGS] = B, [ONNX_ATTR_TENSORS] = B, [ONNX_ATTR_GRAPHS] = B,
    [ONNX_ATTR_TYPE] = V, [ONNX_ATTR_REF] = B, [ONNX_ATTR_SPARSE] = B}};
const tn__message tn__onnx_tensor_schema = {"TensorProto", {
    [ONNX_TENSOR_DIMS] = VS, [ONNX_TENSOR_TYPE] = V, [ONNX_TENSOR_SEGMENT] = B,
    [ONNX_TENSOR_FLOATS] = FS, [ONNX_TENSOR_INT32S] = VS, [ONNX_TENSOR_STRINGS] = B,
    [ONNX_TENSOR_INT64S] = VS, [ONNX_TENSOR_NAME] = B, [ONNX_TENSOR_RAW] = B,
    [ONNX_TENSOR_DOUBLES] = DS, [ONNX_TENSOR_UINT64S] = VS, [ONNX_TENSOR_EXTERNAL] = B,
    [ONNX_TENSOR_LOCATION] = V}};
const tn__message tn__onnx_sparse_schema = {"SparseTensorProto", {
    [ONNX_SPARSE_VALUES] = B, [ONNX_SPARSE_INDICES] = B, [ONNX_SPARSE_DIMS] = VS}};
const tn__message tn__onnx_entry_schema = {"StringStringEntryProto", {
    [ONNX_ENTRY_KEY] = B, [ONNX_ENTRY_VALUE] = B}};
const tn__message tn__onnx_value_info_schema = {"ValueInfoProto", {
    [ONNX_INFO_NAME] = B, [ONNX_INFO_TYPE] = B}};
const tn__message tn__onnx_type_schema = {"TypeProto", {
    [ONNX_TYPE_TENSOR] = B, [ONNX_TYPE_SEQUENCE] = B, [ONNX_TYPE_MAP] = B,
    [ONNX_TYPE_OPAQUE] = B, [ONNX_TYPE_SPARSE] = B, [ONNX_TYPE_OPTIONAL] = B}};
const tn__message tn__onnx_tensor_type_schema = {"TypeProto.Tensor", {
    [ONNX_TENSOR_TYPE_ELEMENT] = V, [ONNX_TENSOR_TYPE_SHAPE] = B}};
const tn__message tn__onnx_nested_type_schema = {"TypeProto.Sequence", {
    [ONNX_NESTED_TYPE_ELEMENT] = B}};
const tn__message tn__onnx_shape_schema = {"TensorShapeProto", {
    [ONNX_SHAPE_DIM] = B}};
const tn__message tn__onnx_dimension_schema = {"TensorShapeProto.Dimension", {
    [ONNX_DIM_VALUE] = V, [ONNX_DIM_PARAM] = B}};
/* clang-format on */
