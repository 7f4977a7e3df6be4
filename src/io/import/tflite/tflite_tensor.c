/* tflite_tensor.c - reads a tensor of a .tflite file: type, shape, role.
 *
 * A tensor with data is a constant: its buffer is not empty, or its bytes lie outside the
 * FlatBuffer (models above 2 GiB). A tensor without elements that no operator computes is a
 * constant as well; it needs no buffer. Variable tensors keep their values from run to run, so they
 * are inputs and outputs of the whole program, in whichever subgraph they are.
 *
 * The run time plans with `shape`; -1 in `shape_signature` only says that a caller may resize. So
 * `shape` is used, unless an --input-shape contradicts it.
 */
#include "io/import/tflite/tflite_reader.h"

#define TFLITE_VALUES 128u /* limit of elements with stored values */

static const tn_dtype tensor_types[] = {
    TN_FLOAT32,  TN_FLOAT16,  TN_INT32,     TN_UINT8,        TN_INT64,      TN_STRING,
    TN_BOOL,     TN_INT16,    TN_COMPLEX64, TN_INT8,         TN_FLOAT64,    TN_COMPLEX128,
    TN_UINT64,   TN_RESOURCE, TN_VARIANT,   TN_UINT32,       TN_UINT16,     TN_INT4,
    TN_BFLOAT16, TN_INT2,     TN_UINT4,     TN_FLOAT8E4M3FN, TN_FLOAT8E5M2,
};

tn_dtype tn__tflite_dtype(int64_t type) {
    if (type < 0 || (size_t)type >= sizeof tensor_types / sizeof *tensor_types) return TN_UNDEFINED;
    return tensor_types[type];
}

static tn_status tensor_dtype(const tflite_reader *reader, const tn__flat_table *tensor,
                              tn_dtype *dtype) {
    int64_t type = tn__flat_int(tensor, TFLITE_TENSOR_TYPE, 1, 0);
    if (type < 0)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "element type %lld does not exist",
                (long long)type);
    if ((size_t)type >= sizeof tensor_types / sizeof *tensor_types)
        TN_FAIL(reader->importer->error, TN_E_UNSUPPORTED,
                "element type %lld is of a later version of the format", (long long)type);
    *dtype = tensor_types[type];
    return TN_OK;
}

/* --- contents --- */

static tn_status tensor_buffer(const tflite_reader *reader, const tn__flat_table *tensor,
                               tn__flat_table *buffer) {
    uint64_t index = tn__flat_uint(tensor, TFLITE_TENSOR_BUFFER, 4, 0);
    *buffer = (tn__flat_table){0};
    if (index == 0 && reader->buffers.count == 0) return TN_OK;
    if (index >= reader->buffers.count)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "it has buffer %llu, of %u",
                (unsigned long long)index, reader->buffers.count);
    *buffer = tn__flat_item(&reader->buffers, (uint32_t)index);
    return TN_OK;
}

/* The bytes that the file holds for a buffer. An offset above 1 points outside the FlatBuffer. */
static uint64_t tensor_payload(const tn__flat_table *buffer) {
    if (tn__flat_uint(buffer, TFLITE_BUFFER_OFFSET, 8, 0) > 1)
        return tn__flat_uint(buffer, TFLITE_BUFFER_SIZE, 8, 0);
    return tn__flat_list(buffer, TFLITE_BUFFER_DATA).count;
}

/* The range of a constant's data in the file; empty for external data. Sparse data has an encoding
 * that is not supported, so it has no range either. */
static tn_payload tensor_place(const tflite_reader *reader, const tn__flat_table *tensor) {
    tn__flat_table buffer = tn__flat_item(
        &reader->buffers, (uint32_t)tn__flat_uint(tensor, TFLITE_TENSOR_BUFFER, 4, 0));
    if (tn__flat_uint(tensor, TFLITE_TENSOR_EXTERNAL, 4, 0) != 0 ||
        tn__flat_has(tensor, TFLITE_TENSOR_SPARSITY))
        return (tn_payload){0};
    if (tn__flat_uint(&buffer, TFLITE_BUFFER_OFFSET, 8, 0) > 1)
        return (tn_payload){tn__flat_uint(&buffer, TFLITE_BUFFER_OFFSET, 8, 0),
                            tensor_payload(&buffer)};
    tn__flat_vector data = tn__flat_list(&buffer, TFLITE_BUFFER_DATA);
    if (data.count == 0) return (tn_payload){0};
    return (tn_payload){(uint64_t)(data.items - reader->file.bytes), data.count};
}

bool tn__tflite_has_contents(const tn__flat_vector *buffers, const tn__flat_table *tensor) {
    uint64_t index = tn__flat_uint(tensor, TFLITE_TENSOR_BUFFER, 4, 0);
    if (tn__flat_uint(tensor, TFLITE_TENSOR_EXTERNAL, 4, 0) != 0) return true;
    if (index >= buffers->count) return false;
    tn__flat_table buffer = tn__flat_item(buffers, (uint32_t)index);
    return tensor_payload(&buffer) > 0;
}

/* Whether the file contains data for the tensor. */
static bool tensor_is_constant(const tflite_reader *reader, const tn__flat_table *tensor) {
    return tn__tflite_has_contents(&reader->buffers, tensor);
}

/* Checks that a payload is large enough for its tensor, because the run time would read beyond it.
 * Sparse data is smaller on purpose, and strings have no fixed size. */
static tn_status tensor_check_payload(const tflite_reader *reader, const tn__flat_table *tensor,
                                      const tn_tensor_spec *spec) {
    tn__flat_table buffer;
    uint64_t need;
    tn_error *error = reader->importer->error;
    /* the index of the buffer is checked also for tensors without data */
    TN_TRY(tensor_buffer(reader, tensor, &buffer));
    if (spec->kind != TN_KIND_PARAMETER || buffer.bytes == NULL ||
        tn__flat_has(tensor, TFLITE_TENSOR_SPARSITY) ||
        tn__flat_uint(tensor, TFLITE_TENSOR_EXTERNAL, 4, 0) != 0 ||
        tn_tensor_size(spec->dtype, spec->format, spec->rank, spec->shape, &need, NULL) != TN_OK)
        return TN_OK;
    if (tensor_payload(&buffer) < need)
        TN_FAIL(error, TN_E_INVALID, "its contents are %llu bytes where its shape needs %llu",
                (unsigned long long)tensor_payload(&buffer), (unsigned long long)need);
    return TN_OK;
}

/* --- shapes --- */

static tn_status tensor_shape(const tflite_reader *reader, const tn__flat_table *tensor,
                              int64_t *shape, uint32_t *rank) {
    tn__flat_vector list = tn__flat_list(tensor, TFLITE_TENSOR_SHAPE);
    if (list.count > TN_RANK_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "it has %u dimensions; the most is %u",
                list.count, TN_RANK_MAX);
    for (uint32_t i = 0; i < list.count; i++) {
        int32_t extent = tn__flat_int32(&list, i);
        if (extent < -1)
            TN_FAIL(reader->importer->error, TN_E_INVALID, "dimension %u is %d", i, extent);
        shape[i] = extent < 0 ? TN_DIM_UNKNOWN : extent;
    }
    *rank = list.count;
    return TN_OK;
}

static bool tensor_is_open(const tn__flat_table *tensor) {
    tn__flat_vector signature = tn__flat_list(tensor, TFLITE_TENSOR_SIGNATURE);
    for (uint32_t i = 0; i < signature.count; i++)
        if (tn__flat_int32(&signature, i) < 0) return true;
    return false;
}

bool tn__tflite_contradicts(tflite_reader *reader, uint32_t index) {
    tn__flat_table tensor = tn__flat_item(&reader->tensors, index);
    const tn_input_shape *given =
        tn__import_shape(reader->importer, tn__flat_string(&tensor, TFLITE_TENSOR_NAME));
    tn__flat_vector list = tn__flat_list(&tensor, TFLITE_TENSOR_SHAPE);
    if (tensor_is_open(&tensor)) reader->has_signatures = true;
    if (given == NULL) return false;
    bool same = given->rank == list.count;
    for (uint32_t i = 0; same && i < list.count; i++) {
        int32_t extent = tn__flat_int32(&list, i);
        same = extent < 0 || given->shape[i] == extent;
    }
    return !same;
}

/* The shape of an input of the program: from --input-shape, or else from the file. */
static tn_status tensor_input_shape(tflite_reader *reader, const tn__flat_table *tensor,
                                    bool is_state, tn_tensor_spec *spec, int64_t *shape) {
    tn_importer *importer = reader->importer;
    const tn_input_shape *given =
        tn__import_shape(importer, tn__flat_string(tensor, TFLITE_TENSOR_NAME));
    if (given) {
        spec->rank = given->rank;
        memcpy(shape, given->shape, given->rank * sizeof *shape);
        return TN_OK;
    }
    /* if input shapes changed, the shape of a state variable is unknown, because its batch may
     * change as well */
    if (reader->drop_stated && is_state) spec->rank = TN_RANK_UNKNOWN;
    for (uint32_t i = 0; i < spec->rank && spec->rank != TN_RANK_UNKNOWN; i++)
        if (shape[i] == TN_DIM_UNKNOWN && !tn__dims_need_shape(&importer->dims, spec->name, i))
            return tn__tflite_no_memory(reader);
    return TN_OK;
}

/* Reads the values of small integer tensors, because shapes may depend on them. */
static tn_value tensor_value(const tflite_reader *reader, const tn_tensor_spec *spec,
                             int64_t *values) {
    uint32_t width = tn_dtype_bits(spec->dtype) / 8;
    uint64_t bytes;
    tn_value value = {0};
    if ((spec->dtype != TN_INT32 && spec->dtype != TN_INT64) || spec->payload.size == 0 ||
        tn_tensor_size(spec->dtype, spec->format, spec->rank, spec->shape, &bytes, NULL) != TN_OK ||
        bytes > spec->payload.size || bytes / width > TFLITE_VALUES ||
        spec->payload.offset > reader->file.size ||
        bytes > reader->file.size - spec->payload.offset)
        return value;
    const uint8_t *at = reader->file.bytes + spec->payload.offset;
    value.count = (uint32_t)(bytes / width);
    value.ints = values;
    for (uint32_t i = 0; i < value.count; i++) {
        uint64_t bits = tn__little(at + (size_t)width * i, width);
        values[i] = width == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits;
    }
    return value;
}

/* --- adding a tensor to the graph --- */

static tn_status tensor_add_state(tflite_reader *reader, tn_tensor_id id) {
    if (!tn__reserve(reader->importer->context, &reader->states, &reader->state_room,
                     reader->state_count + 1, sizeof *reader->states))
        return tn__tflite_no_memory(reader);
    reader->states[reader->state_count++] = id;
    return TN_OK;
}

/* Sets the name of a tensor, by which plans find it. If the name is taken, the tensor's number in
 * the graph is appended: names in a file may occur twice, and two operators may run one
 * subgraph. */
static tn_status tensor_name(tflite_reader *reader, const tflite_pending *block,
                             const tn__flat_table *tensor, uint32_t index, const char **name) {
    tn__span given = tn__flat_string(tensor, TFLITE_TENSOR_NAME);
    reader->name.size = 0;
    tn__text_put(&reader->name, block->prefix);
    if (given.size)
        tn__span_text(&reader->name, given);
    else
        tn__text_printf(&reader->name, "tensor %u", index);
    for (;;) {
        if (reader->name.failed) return tn__tflite_no_memory(reader);
        TN_TRY(tn__tflite_charge(reader, 1 + reader->name.size / 4));
        *name = reader->name.data;
        if (tn__names_find(&reader->names, *name, reader->name.size) == TN__NAMES_NONE)
            return TN_OK;
        tn__text_printf(&reader->name, "#%u", tn_graph_tensor_count(reader->importer->graph));
    }
}

static bool tensor_is_empty(const tn_tensor_spec *spec) {
    for (uint32_t i = 0; i < spec->rank; i++)
        if (spec->shape[i] == 0) return true;
    return false;
}

static tn_status tensor_add(tflite_reader *reader, const tflite_pending *block, uint32_t index,
                            const tn__flat_table *tensor) {
    tn_importer *importer = reader->importer;
    int64_t shape[TN_RANK_MAX], values[TFLITE_VALUES];
    uint8_t role = reader->roles[index];
    tn_tensor_spec spec = {.kind = TN_KIND_ACTIVATION, .block = block->block, .shape = shape};
    bool is_state = tn__flat_uint(tensor, TFLITE_TENSOR_VARIABLE, 1, 0) != 0;
    bool is_input = role & TFLITE_IS_INPUT, is_made = role & TFLITE_IS_MADE;
    bool is_constant = tensor_is_constant(reader, tensor) && !is_state && !is_input;
    TN_TRY(tensor_dtype(reader, tensor, &spec.dtype));
    TN_TRY(tensor_shape(reader, tensor, shape, &spec.rank));
    TN_TRY(tensor_name(reader, block, tensor, index, &spec.name));
    if (is_made && (is_constant || is_state))
        TN_FAIL(importer->error, is_state ? TN_E_UNSUPPORTED : TN_E_INVALID,
                "an operator computes it, though it is a %s",
                is_state ? "variable tensor" : "constant");
    if (!is_made && !is_input && !is_state && tensor_is_empty(&spec)) is_constant = true;
    if (is_state) {
        spec.block = 0;
        TN_TRY(tensor_add_state(reader, tn_graph_tensor_count(importer->graph)));
    }
    if (is_constant) spec.kind = TN_KIND_PARAMETER;
    TN_TRY(tensor_check_payload(reader, tensor, &spec));
    if (is_constant && tensor_is_constant(reader, tensor))
        spec.payload = tensor_place(reader, tensor);
    if (is_constant) spec.value = tensor_value(reader, &spec, values);
    bool of_program = is_state || (is_input && block->block == 0);
    if (of_program) {
        TN_TRY(tensor_input_shape(reader, tensor, is_state, &spec, shape));
        if (tn__import_is_parameter(importer, spec.name) ||
            (is_state && importer->options->variables_outside))
            spec.kind = TN_KIND_PARAMETER;
    } else if (!is_constant && (reader->drop_stated || (role & TFLITE_IS_UNSHAPED))) {
        spec.rank = TN_RANK_UNKNOWN;
    }
    if (importer->options->variables_outside && spec.dtype == TN_RESOURCE && is_made) {
        /* the run time stores the handle in its operator, so the tensor has no bytes */
        spec.rank = 1;
        shape[0] = 0;
    }
    if (spec.rank == TN_RANK_UNKNOWN) spec.shape = NULL;
    TN_TRY(tn_graph_add_tensor(importer->graph, &spec, &reader->ids[index], importer->error));
    const char *kept = tn_graph_tensor(importer->graph, reader->ids[index])->name;
    if (!tn__names_add(&reader->names, kept, strlen(kept), reader->ids[index], NULL))
        return tn__tflite_no_memory(reader);
    if (importer->met &&
        !importer->met(importer->met_self, block->subgraph, index, reader->ids[index]))
        return tn__tflite_no_memory(reader);
    return TN_OK;
}

tn_status tn__tflite_tensor(tflite_reader *reader, const tflite_pending *block, uint32_t index) {
    tn__flat_table tensor = tn__flat_item(&reader->tensors, index);
    reader->ids[index] = TN_NONE;
    /* no operator uses the tensor, so the graph does not get it */
    if (reader->roles[index] == 0) return TN_OK;
    tn_status status = tensor_add(reader, block, index, &tensor);
    if (status == TN_OK) return TN_OK;
    return tn__tflite_tensor_where(reader, status, block->subgraph, index);
}
