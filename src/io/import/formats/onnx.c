/* onnx.c - reads ONNX models (.onnx), IR versions 1 to 14.
 *
 * Our own wire reader works directly on the mapped file: it builds only the graph, skips weights,
 * and bounds all sizes. docs/import.md says with figures why protobuf-c is not used. onnx_reader.h
 * lists the files of the reader.
 *
 * Cost: O(file without payloads); memory at most a constant times that.
 */
#include "io/import/onnx/onnx_reader.h"
#include "graph/infer/infer.h"

/* --- fields of ONNX's messages ---------------------------------------------------------------- */

/* The fields of ONNX's messages that are read, and their wire types.
 *
 * A field that is absent here is skipped as unknown: documentation, metadata, quantisation
 * annotations, and fields of later versions.
 * Source: onnx.proto of IR versions 8 (Debian's python3-onnx) and 14 (upstream).
 */

#define V TN_WIRE_VARINT
#define B TN_WIRE_BYTES
#define VS (TN_WIRE_VARINT | TN_WIRE_BYTES)  /* repeated integers, packed or single */
#define FS (TN_WIRE_FIXED32 | TN_WIRE_BYTES) /* repeated floats, packed or single */
#define DS (TN_WIRE_FIXED64 | TN_WIRE_BYTES) /* repeated doubles, packed or single */

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

/* --- ModelProto ------------------------------------------------------------------------------- */

#define ONNX_IR_NEWEST 14

/* --- functions for all files of the reader --- */

tn_status tn__onnx_no_memory(const onnx_reader *reader) {
    return tn__no_memory(reader->importer->error, "the model");
}

tn_status tn__onnx_check_size(const onnx_reader *reader, tn__span message) {
    if (message.size <= UINT32_MAX) return TN_OK;
    TN_FAIL(reader->importer->error, TN_E_UNSUPPORTED, "a node or function of more than 4 GiB");
}

const char *tn__onnx_text(onnx_reader *reader, uint32_t slot, const char *prefix, tn__span name) {
    tn__text *text = &reader->text[slot];
    text->size = 0;
    tn__text_put(text, prefix);
    tn__span_text(text, name);
    return text->failed ? NULL : text->size ? text->data : "";
}

tn__span tn__onnx_domain(tn__span domain) {
    return tn__span_is(domain, "ai.onnx") ? (tn__span){domain.bytes, 0} : domain;
}

/* --- versions --- */

tn_status tn__onnx_opset(onnx_reader *reader, tn__span message, onnx_opset *opset) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_opset_schema);
    tn__field field;
    int64_t version = 0;
    *opset = (onnx_opset){0};
    while (tn__wire_next(&wire, &field)) {
        if (field.number == ONNX_OPSET_DOMAIN)
            opset->domain = tn__onnx_domain(field.span);
        else
            version = tn__field_int(&field);
    }
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    if (version < 0 || version > INT32_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "version %lld of an operator set does not exist", (long long)version);
    opset->version = (uint32_t)version;
    return TN_OK;
}

static tn_status onnx_opset_add(onnx_reader *reader, onnx_opset opset) {
    if (reader->model_opset_count == ONNX_OPSETS_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "it imports more than %u operator sets",
                ONNX_OPSETS_MAX);
    reader->model_opsets[reader->model_opset_count++] = opset;
    return TN_OK;
}

static const onnx_opset *onnx_opset_find(const onnx_opset *opsets, size_t count, tn__span domain) {
    for (size_t i = 0; i < count; i++)
        if (tn__span_equal(opsets[i].domain, domain)) return &opsets[i];
    return NULL;
}

uint32_t tn__onnx_version(const onnx_reader *reader, const onnx_scope *scope, tn__span domain) {
    const onnx_opset *found = NULL;
    const onnx_function *function = scope->call ? scope->call->function : NULL;
    if (function && function->opset_count)
        found =
            onnx_opset_find(&reader->opsets[function->opset_first], function->opset_count, domain);
    if (!found) found = onnx_opset_find(reader->model_opsets, reader->model_opset_count, domain);
    return found ? found->version : 0;
}

/* --- reading a model: versions, functions, blocks --- */

typedef struct onnx_model {
    int64_t ir_version;
    tn__span graph;
    bool has_graph, has_training;
} onnx_model;

static tn_status onnx_model_read(onnx_reader *reader, onnx_model *model) {
    tn_importer *importer = reader->importer;
    tn__wire wire =
        tn__onnx_open(reader, (tn__span){importer->bytes, importer->size}, &tn__onnx_model_schema);
    tn__field field;
    onnx_opset opset;
    while (tn__wire_next(&wire, &field)) {
        switch (field.number) {
        case ONNX_MODEL_IR:
            model->ir_version = tn__field_int(&field);
            break;
        case ONNX_MODEL_TRAINING:
            model->has_training = true;
            break;
        case ONNX_MODEL_FUNCTION:
            TN_TRY(tn__onnx_function_add(reader, field.span));
            break;
        case ONNX_MODEL_OPSET:
            TN_TRY(tn__onnx_opset(reader, field.span, &opset));
            TN_TRY(onnx_opset_add(reader, opset));
            break;
        default:
            if (model->has_graph)
                TN_FAIL(importer->error, TN_E_INVALID, "the file holds two graphs");
            model->graph = field.span;
            model->has_graph = true;
            break;
        }
    }
    return tn__wire_close(&wire, importer->error);
}

static tn_status onnx_model_check(onnx_reader *reader, const onnx_model *model) {
    tn_importer *importer = reader->importer;
    if (!model->has_graph)
        TN_FAIL(importer->error, TN_E_INVALID,
                "there is no graph in it: not an ONNX model, or cut off");
    if (model->ir_version < 1 || model->ir_version > ONNX_IR_NEWEST)
        tn__import_log(
            importer,
            "IR version %lld is outside the supported versions 1 to %d; the file is read anyway",
            (long long)model->ir_version, ONNX_IR_NEWEST);
    if (model->has_training)
        tn__import_log(importer, "training_info is ignored; only the inference graph is read");
    /* Before IR version 3 a model had one operator set, and no list of them. */
    if (!reader->model_opset_count && model->ir_version < 3)
        return onnx_opset_add(reader, (onnx_opset){.version = 1});
    return TN_OK;
}

/* Reads the main graph, then every subgraph in the order in which their nodes were read. */
static tn_status onnx_read_blocks(onnx_reader *reader, tn__span graph) {
    tn_importer *importer = reader->importer;
    onnx_pending next = {.graph = graph, .prefix = ""};
    TN_TRY(tn__onnx_read_block(reader, &next));
    for (size_t i = 0; i < reader->pending_count; i++) {
        /* copies the entry, because the queue may move in memory when it grows */
        next = reader->pending[i];
        TN_TRY(tn__onnx_read_block(reader, &next));
    }
    return tn__dims_check(&importer->dims, importer->error);
}

static void onnx_release(onnx_reader *reader) {
    const tn_context *context = reader->importer->context;
    /* some scopes are left only after an error; then nothing uses them any more */
    while (reader->scopes) {
        reader->scopes->users = 1;
        reader->scopes->holds = NULL;
        tn__onnx_scope_drop(reader, reader->scopes);
    }
    tn__free(context, reader->opsets, reader->opset_room * sizeof *reader->opsets);
    tn__free(context, reader->functions, reader->function_room * sizeof *reader->functions);
    tn__free(context, reader->pending, reader->pending_room * sizeof *reader->pending);
    tn__free(context, reader->ids, reader->id_room * sizeof *reader->ids);
    tn__free(context, reader->attrs, reader->attr_room * sizeof *reader->attrs);
    for (uint32_t i = 0; i < 3; i++) tn__text_release(&reader->text[i]);
    tn__names_release(&reader->function_names);
    tn__arena_release(&reader->arena);
}

static tn_status onnx_read(tn_importer *importer) {
    onnx_reader reader = {.importer = importer};
    onnx_model model = {0};
    tn__arena_init(&reader.arena, importer->context);
    tn__names_init(&reader.function_names, importer->context);
    for (uint32_t i = 0; i < 3; i++) tn__text_init(&reader.text[i], importer->context);
    reader.expansion =
        tn__add_sat(ONNX_EXPANSION_MIN, tn__mul_sat(ONNX_EXPANSION_FACTOR, importer->size));
    tn_status status = onnx_model_read(&reader, &model);
    if (status == TN_OK) status = onnx_model_check(&reader, &model);
    if (status == TN_OK) status = onnx_read_blocks(&reader, model.graph);
    tn__graph_rules_win(importer->graph);
    onnx_release(&reader);
    return status;
}

/* Recognises a ModelProto, which has no magic number, by its first fields. They must contain a
 * graph or an operator set, and only fields that exist in some version of the format. */
static bool onnx_probe(const uint8_t *bytes, size_t size) {
    static const tn__message any = {"ModelProto",
                                    {[1] = TN_WIRE_VARINT,
                                     [2] = TN_WIRE_BYTES,
                                     [3] = TN_WIRE_BYTES,
                                     [4] = TN_WIRE_BYTES,
                                     [5] = TN_WIRE_VARINT,
                                     [6] = TN_WIRE_BYTES,
                                     [7] = TN_WIRE_BYTES,
                                     [8] = TN_WIRE_BYTES}};
    tn__wire wire = tn__wire_open(bytes, (tn__span){bytes, size}, &any);
    tn__field field;
    while (tn__wire_next(&wire, &field))
        if (field.number == ONNX_MODEL_GRAPH || field.number == ONNX_MODEL_OPSET) return true;
    return false;
}

const tn_import_format tn__import_onnx = {.name = "onnx",
                                          .summary = "ONNX models, IR versions 1 to 14",
                                          .suffix = ".onnx",
                                          .probe = onnx_probe,
                                          .read = onnx_read,
                                          .contents = tn__onnx_contents};
