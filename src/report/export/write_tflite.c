/* write_tflite.c - writes a split graph as a .tflite file with standard operators only. Operators
 * become:
 *
 *   tenure.Part   SLICE, with begin and size as constants
 *   Concat        CONCATENATION
 *   PAD           PAD, with the zero point of the tensor
 *   a part        the operator of the file with other operands, and with padding VALID
 *
 * Weights are operands by number, so all parts share them. A part of a tensor has the quantisation
 * table of the whole tensor. An unchanged tensor keeps its number, so inputs, outputs, signatures
 * and unchanged operators are used as they are in the file. Numbers of removed tensors are given to
 * new ones, because even an unused tensor takes memory. There are always more new tensors than
 * removed ones. A memory plan in the file is removed, because it describes other tensors.
 *
 * Cost: O(size of the file + operators x constants), because equal constants are searched for.
 *
 * Sources: TensorFlow Lite's schema, op_version.cc.
 */
#include "report/export/export.h"

#include <stdio.h>

#include "graph/attr.h"
#include "graph/op.h"
#include "report/export/flat_write.h"

enum { CODE_CONCATENATION = 2, CODE_PAD = 34, CODE_SLICE = 65 };
enum { OPTIONS_CONV = 1, OPTIONS_DEPTHWISE = 2, OPTIONS_CONCATENATION = 10 };

typedef struct tflite_constant {
    int32_t ints[2 * TN_RANK_MAX];
    /* columns: number of columns of a matrix; 0: the constant is a vector */
    uint32_t count, columns;
    uint32_t tensor;
} tflite_constant;

typedef struct tflite_new { /* a tensor of the new file */
    uint32_t label;         /* label of its table; 0: the table of the old file is used */
    tn_tensor_id id;        /* id of the tensor in the split graph; TN_NONE: a new constant */
    uint32_t constant;
} tflite_new;

typedef struct tflite_codes { /* operator codes that are added after those of the file */
    uint32_t builtin[8], version[8], count, old;
} tflite_codes;

typedef struct tflite_image {
    flat_writer writer;
    const tflite_plan *plan;
    const export_split *split;
    tn__arena arena;
    tn__flat_table graph; /* the table of subgraph 0 of the file */
    tn__flat_vector ops, tensors;
    uint32_t *number; /* [tensors of split->whole] number of the tensor in the file, or TN_NONE */
    /* [tensors of the split graph] number of the tensor in the new file, or TN_NONE */
    uint32_t *index;
    tflite_new *made; /* [tensor_count] the tensors of the new file, by number */
    uint32_t tensor_count;
    tflite_constant *constants;
    size_t constant_room, made_room;
    uint32_t constant_count;
    uint32_t *free_numbers; /* numbers of removed tensors, which new tensors may get */
    uint32_t free_count, free_next;
    tflite_codes codes;
    /* number of buffers in the old file; buffers of new constants come after them */
    uint32_t buffers;
    tn_error *error;
} tflite_image;

static tn_status image_no_memory(const tflite_image *image) {
    return tn__no_memory(image->error, "the split model");
}

/* --- numbers of tensors in the new file --- */

static tn_status image_number(tflite_image *image, uint32_t *number) {
    if (image->free_next < image->free_count) {
        *number = image->free_numbers[image->free_next++];
        return TN_OK;
    }
    if (!tn__reserve(&image->plan->context, &image->made, &image->made_room,
                     (size_t)image->tensor_count + 1, sizeof *image->made))
        return image_no_memory(image);
    *number = image->tensor_count++;
    image->made[*number] = (tflite_new){0};
    return TN_OK;
}

/* Whether the file states no shape of a tensor that an operator makes. Readers infer it from the
 * operator, but no longer from the concatenation of its parts, so it is written with its shape. */
static bool image_lacks_shape(const tflite_image *image, tn_tensor_id id) {
    const tn_tensor *y = tn_graph_tensor(image->split->graph, id);
    tn__flat_table table = tn__flat_item(&image->tensors, image->index[id]);
    return y->producer != TN_NONE && y->rank != TN_RANK_UNKNOWN && y->rank > 0 &&
           tn__flat_list(&table, TFLITE_TENSOR_SHAPE).count == 0;
}

/* Finds the tensors that keep their numbers: those that the split graph still has, and those that
 * no operator computes. The other numbers are free for new tensors. */
static tn_status image_keep(tflite_image *image) {
    const tn_graph *whole = image->split->whole;
    const tn__split_trace *trace = &image->split->trace;
    uint32_t count = tn_graph_tensor_count(whole);
    uint32_t *number = tn__arena_array(&image->arena, (size_t)count + 1, sizeof *number);
    image->number = number;
    bool *gone = tn__arena_array(&image->arena, (size_t)image->tensors.count + 1, sizeof *gone);
    image->free_numbers = tn__arena_array(&image->arena, (size_t)image->tensors.count + 1,
                                          sizeof *image->free_numbers);
    if (number == NULL || gone == NULL || image->free_numbers == NULL)
        return image_no_memory(image);
    for (uint32_t i = 0; i < count; i++) number[i] = TN_NONE;
    for (size_t i = 0; i < image->plan->place_count; i++) {
        const tflite_place *place = &image->plan->places[i];
        /* the tensor belongs to another subgraph, so it is skipped */
        if (place->tensor >= image->tensors.count) continue;
        number[place->id] = (uint32_t)place->tensor;
        gone[place->tensor] = tn_graph_tensor(whole, place->id)->producer != TN_NONE;
    }
    for (tn_tensor_id id = 0; id < trace->tensor_count; id++) {
        bool kept = !trace->is_new[id] && trace->tensors[id] != TN_NONE;
        image->index[id] = kept ? number[trace->tensors[id]] : TN_NONE;
        if (image->index[id] == TN_NONE) continue;
        gone[image->index[id]] = false;
        if (image_lacks_shape(image, id))
            image->made[image->index[id]] = (tflite_new){tn__flat_label(&image->writer), id, 0};
    }
    for (uint32_t i = 0; i < image->tensors.count; i++)
        if (gone[i]) image->free_numbers[image->free_count++] = i;
    return TN_OK;
}

static tn_status image_tensor(tflite_image *image, tn_tensor_id id, uint32_t *number) {
    if (image->index[id] == TN_NONE) {
        TN_TRY(image_number(image, &image->index[id]));
        image->made[image->index[id]] = (tflite_new){tn__flat_label(&image->writer), id, 0};
    }
    *number = image->index[id];
    return TN_OK;
}

static tn_status image_constant(tflite_image *image, const int32_t *ints, uint32_t count,
                                uint32_t columns, uint32_t *number) {
    for (uint32_t i = 0; i < image->constant_count; i++) {
        const tflite_constant *other = &image->constants[i];
        if (other->count != count || other->columns != columns ||
            memcmp(other->ints, ints, count * sizeof *ints) != 0)
            continue;
        *number = other->tensor;
        return TN_OK;
    }
    if (!tn__reserve(&image->plan->context, &image->constants, &image->constant_room,
                     (size_t)image->constant_count + 1, sizeof *image->constants))
        return image_no_memory(image);
    TN_TRY(image_number(image, number));
    tflite_constant *made = &image->constants[image->constant_count];
    *made = (tflite_constant){.count = count, .columns = columns, .tensor = *number};
    memcpy(made->ints, ints, count * sizeof *ints);
    image->made[*number] =
        (tflite_new){tn__flat_label(&image->writer), TN_NONE, image->constant_count++};
    return TN_OK;
}

/* --- operator codes of the new file --- */

static uint32_t image_version(uint32_t builtin, tn_dtype dtype) {
    if (dtype == TN_INT8) return 2;
    if (dtype != TN_INT16) return 1;
    return builtin == CODE_SLICE ? 4 : 3;
}

/* Finds the operator code for a built-in operator in the version that the data type needs. If the
 * file does not have it, the code is added. */
static tn_status image_code(tflite_image *image, uint32_t builtin, tn_dtype dtype, uint32_t *code) {
    tn__flat_vector codes = tn__flat_list(&image->plan->model, TFLITE_MODEL_CODES);
    tflite_codes *ours = &image->codes;
    uint32_t version = image_version(builtin, dtype);
    for (uint32_t i = 0; i < codes.count; i++) {
        tn__flat_table other = tn__flat_item(&codes, i);
        if (tn__tflite_builtin(&other) != builtin ||
            tn__flat_uint(&other, TFLITE_CODE_VERSION, 4, 1) != version)
            continue;
        *code = i;
        return TN_OK;
    }
    uint32_t at = 0;
    while (at < ours->count && (ours->builtin[at] != builtin || ours->version[at] != version)) at++;
    if (at == sizeof ours->builtin / sizeof *ours->builtin)
        TN_FAIL(image->error, TN_E_INTERNAL, "more operator codes than there are");
    ours->builtin[at] = builtin;
    ours->version[at] = version;
    if (at == ours->count) ours->count++;
    *code = codes.count + at;
    return TN_OK;
}

/* --- operators --- */

/* An operator of the new file. Its table is written after all lists. */
typedef struct image_op {
    uint32_t label;
    uint32_t code;
    uint32_t *inputs, *outputs;
    uint32_t input_count, output_count;
    uint32_t options_type;
    flat_slot options[8]; /* new options; if option_count is 0, the options of `source` are used */
    uint32_t option_count;
    tn__flat_table source;
} image_op;

static tn_status image_operands(tflite_image *image, const tn_tensor_id *ids, uint32_t count,
                                uint32_t **numbers) {
    *numbers = tn__arena_array(&image->arena, (size_t)count + 3, sizeof **numbers);
    if (*numbers == NULL) return image_no_memory(image);
    for (uint32_t i = 0; i < count; i++) {
        (*numbers)[i] = UINT32_MAX; /* the number -1 means an omitted operand */
        if (ids[i] != TN_NONE) TN_TRY(image_tensor(image, ids[i], &(*numbers)[i]));
    }
    return TN_OK;
}

static tn_status image_slice(tflite_image *image, const tn_op *op, image_op *made) {
    const tn_tensor *x = tn_graph_tensor(image->split->graph, op->inputs[0]);
    const tn_tensor *y = tn_graph_tensor(image->split->graph, op->outputs[0]);
    int32_t begin[TN_RANK_MAX] = {0}, size[TN_RANK_MAX];
    uint32_t count, others;
    const int64_t *axes = tn__attr_ints(op, "axes", &count);
    const int64_t *starts = tn__attr_ints(op, "starts", &others);
    for (uint32_t d = 0; d < y->rank; d++) size[d] = (int32_t)y->shape[d];
    for (uint32_t i = 0; i < count && i < others; i++) begin[axes[i]] = (int32_t)starts[i];
    made->input_count = 3;
    TN_TRY(image_constant(image, begin, y->rank, 0, &made->inputs[1]));
    TN_TRY(image_constant(image, size, y->rank, 0, &made->inputs[2]));
    return image_code(image, CODE_SLICE, x->dtype, &made->code);
}

static tn_status image_pad(tflite_image *image, const tn_op *op, image_op *made) {
    const tn_tensor *x = tn_graph_tensor(image->split->graph, op->inputs[0]);
    int32_t pads[2 * TN_RANK_MAX];
    uint32_t count;
    const int64_t *given = tn__attr_ints(op, "paddings", &count);
    for (uint32_t i = 0; i < count; i++) pads[i] = (int32_t)given[i];
    made->input_count = 2;
    TN_TRY(image_constant(image, pads, count, 2, &made->inputs[1]));
    return image_code(image, CODE_PAD, x->dtype, &made->code);
}

static tn_status image_join(tflite_image *image, const tn_op *op, image_op *made) {
    const tn_tensor *y = tn_graph_tensor(image->split->graph, op->outputs[0]);
    made->options_type = OPTIONS_CONCATENATION;
    made->option_count = 1;
    made->options[0] = (flat_slot){FLAT_U32, (uint32_t)tn__attr_int(op, "axis", 0), NULL};
    return image_code(image, CODE_CONCATENATION, y->dtype, &made->code);
}

static void image_option(const tn__flat_table *from, image_op *made, uint32_t field, uint32_t width,
                         uint32_t otherwise) {
    flat_kind kind = width == 1 ? FLAT_U8 : FLAT_U32;
    uint32_t value = (uint32_t)tn__flat_uint(from, field, width, otherwise);
    made->options[field] = (flat_slot){value == otherwise ? FLAT_NONE : kind, value, NULL};
    if (field >= made->option_count) made->option_count = field + 1;
}

/* Sets the options of a convolution with padding VALID. All other options are those of the operator
 * `op` in the file. */
static void image_valid(const tn__flat_table *op, image_op *made) {
    tn__flat_table from = tn__flat_child(op, TFLITE_OP_OPTIONS);
    bool depthwise = made->options_type == OPTIONS_DEPTHWISE;
    for (uint32_t field = 1; field <= 2; field++) image_option(&from, made, field, 4, 0);
    if (depthwise) image_option(&from, made, 3, 4, 0);
    image_option(&from, made, depthwise ? 4 : 3, 1, 0);
    for (uint32_t field = depthwise ? 5 : 4; field <= (depthwise ? 6u : 5u); field++)
        image_option(&from, made, field, 4, 1);
    if (!depthwise) image_option(&from, made, 6, 1, 0);
    made->options[0] = (flat_slot){FLAT_U8, 1, NULL};
}

static tn_status image_part(tflite_image *image, const tn_op *op, tn_op_id source, uint32_t number,
                            image_op *made) {
    const tn_op *whole = tn_graph_op(image->split->whole, source);
    if (number >= image->ops.count)
        TN_FAIL(image->error, TN_E_INTERNAL, "operator %u is not in the file", number);
    made->source = tn__flat_item(&image->ops, number);
    made->code = (uint32_t)tn__flat_uint(&made->source, TFLITE_OP_CODE, 4, 0);
    made->options_type = (uint32_t)tn__flat_uint(&made->source, TFLITE_OP_OPTIONS_TYPE, 1, 0);
    if (strcmp(op->type, "PAD") == 0) return image_pad(image, op, made);
    if (tn__attr_int(op, "padding", 0) == tn__attr_int(whole, "padding", 0)) return TN_OK;
    if (made->options_type != OPTIONS_CONV && made->options_type != OPTIONS_DEPTHWISE)
        TN_FAIL(image->error, TN_E_INVALID, "operator '%.80s' has options of another operator",
                whole->name);
    image_valid(&made->source, made);
    return TN_OK;
}

static tn_status image_make_op(tflite_image *image, tn_op_id id, const uint32_t *places,
                               image_op *made) {
    const tn_op *op = tn_graph_op(image->split->graph, id);
    tn_op_id source = image->split->trace.ops[id];
    *made = (image_op){.input_count = op->input_count, .output_count = op->output_count};
    if (!image->split->trace.is_part[id]) {
        made->source = tn__flat_item(&image->ops, places[source]);
        return TN_OK;
    }
    made->label = tn__flat_label(&image->writer);
    TN_TRY(image_operands(image, op->inputs, op->input_count, &made->inputs));
    TN_TRY(image_operands(image, op->outputs, op->output_count, &made->outputs));
    if (source != TN_NONE) return image_part(image, op, source, places[source], made);
    if (strcmp(op->type, "Part") == 0) return image_slice(image, op, made);
    if (strcmp(op->type, "PAD") == 0) return image_pad(image, op, made);
    return image_join(image, op, made);
}

/* --- writing --- */

static void image_put_op(tflite_image *image, const image_op *op) {
    flat_writer *writer = &image->writer;
    uint32_t inputs = tn__flat_label(writer), outputs = tn__flat_label(writer);
    uint32_t options = tn__flat_label(writer);
    const uint8_t *old = NULL;
    if (op->source.bytes != NULL && op->option_count == 0)
        old = tn__flat_old(&op->source, TFLITE_OP_OPTIONS);
    flat_slot slots[TFLITE_OP_OPTIONS + 1] = {
        [TFLITE_OP_CODE] = {FLAT_U32, op->code, NULL},
        [TFLITE_OP_INPUTS] = {FLAT_LABEL, inputs, NULL},
        [TFLITE_OP_OUTPUTS] = {FLAT_LABEL, outputs, NULL},
        [TFLITE_OP_OPTIONS_TYPE] = {FLAT_U8, op->options_type, NULL},
    };
    if (old != NULL) slots[TFLITE_OP_OPTIONS] = (flat_slot){FLAT_OLD, 0, old};
    if (op->option_count > 0) slots[TFLITE_OP_OPTIONS] = (flat_slot){FLAT_LABEL, options, NULL};
    if (old == NULL && op->option_count == 0) slots[TFLITE_OP_OPTIONS_TYPE].kind = FLAT_NONE;
    tn__flat_table_put(writer, op->label, slots, TFLITE_OP_OPTIONS + 1);
    tn__flat_ints_put(writer, inputs, (const int32_t *)op->inputs, op->input_count);
    tn__flat_ints_put(writer, outputs, (const int32_t *)op->outputs, op->output_count);
    if (op->option_count > 0) tn__flat_table_put(writer, options, op->options, op->option_count);
}

/* Returns the table of the tensor in the file of which this tensor is a part, or an empty table. */
static tn__flat_table image_like(const tflite_image *image, tn_tensor_id id) {
    tn_tensor_id from = image->split->trace.tensors[id];
    if (from == TN_NONE || image->number[from] == TN_NONE) return (tn__flat_table){0};
    return tn__flat_item(&image->tensors, image->number[from]);
}

static void image_put_activation(tflite_image *image, const tflite_new *tensor) {
    flat_writer *writer = &image->writer;
    const tn_tensor *y = tn_graph_tensor(image->split->graph, tensor->id);
    tn__flat_table like = image_like(image, tensor->id);
    const uint8_t *quantization = tn__flat_old(&like, TFLITE_TENSOR_QUANTIZATION);
    uint32_t shape = tn__flat_label(writer), name = tn__flat_label(writer);
    int32_t extents[TN_RANK_MAX];
    for (uint32_t d = 0; d < y->rank; d++) extents[d] = (int32_t)y->shape[d];
    flat_slot slots[TFLITE_TENSOR_QUANTIZATION + 1] = {
        [TFLITE_TENSOR_SHAPE] = {FLAT_LABEL, shape, NULL},
        [TFLITE_TENSOR_TYPE] = {FLAT_U8, (uint32_t)tn__flat_uint(&like, TFLITE_TENSOR_TYPE, 1, 0),
                                NULL},
        [TFLITE_TENSOR_BUFFER] = {FLAT_U32, 0, NULL},
        [TFLITE_TENSOR_NAME] = {FLAT_LABEL, name, NULL},
    };
    if (quantization != NULL)
        slots[TFLITE_TENSOR_QUANTIZATION] = (flat_slot){FLAT_OLD, 0, quantization};
    tn__flat_table_put(writer, tensor->label, slots, TFLITE_TENSOR_QUANTIZATION + 1);
    tn__flat_ints_put(writer, shape, extents, y->rank);
    tn__flat_text_put(writer, name, y->name);
}

static void image_put_constant(tflite_image *image, const tflite_new *tensor) {
    flat_writer *writer = &image->writer;
    const tflite_constant *constant = &image->constants[tensor->constant];
    uint32_t shape = tn__flat_label(writer), name = tn__flat_label(writer);
    uint32_t columns = constant->columns;
    int32_t extents[2] = {(int32_t)constant->count, (int32_t)columns};
    char text[40];
    if (columns > 0) extents[0] /= extents[1];
    snprintf(text, sizeof text, "tenure/split/%u", tensor->constant);
    const flat_slot slots[] = {
        {FLAT_LABEL, shape, NULL},
        {FLAT_U8, 2, NULL}, /* INT32 */
        {FLAT_U32, image->buffers + tensor->constant, NULL},
        {FLAT_LABEL, name, NULL},
    };
    tn__flat_table_put(writer, tensor->label, slots, 4);
    tn__flat_ints_put(writer, shape, extents, columns > 0 ? 2 : 1);
    tn__flat_text_put(writer, name, text);
}

static void image_put_buffer(tflite_image *image, uint32_t label, const tflite_constant *constant) {
    uint32_t data = tn__flat_label(&image->writer);
    uint8_t bytes[4 * 2 * TN_RANK_MAX];
    for (uint32_t i = 0; i < 4 * constant->count; i++)
        bytes[i] = (uint8_t)((uint32_t)constant->ints[i / 4] >> (8 * (i % 4)));
    tn__flat_table_put(&image->writer, label, &(flat_slot){FLAT_LABEL, data, NULL}, 1);
    tn__flat_bytes_put(&image->writer, data, bytes, 4 * constant->count);
}

static void image_put_code(tflite_image *image, uint32_t label, uint32_t at) {
    const tflite_codes *codes = &image->codes;
    const flat_slot slots[] = {
        [TFLITE_CODE_OLD] = {FLAT_U8, codes->builtin[at], NULL},
        [TFLITE_CODE_VERSION] = {FLAT_U32, codes->version[at], NULL},
        [TFLITE_CODE_BUILTIN] = {FLAT_U32, codes->builtin[at], NULL},
    };
    tn__flat_table_put(&image->writer, label, slots, TFLITE_CODE_BUILTIN + 1);
}

/* Writes a list of the entries in `old` and of `more` new tables. Sets *first to the label of the
 * first new table; the labels of the others follow it. */
static void image_put_list(tflite_image *image, uint32_t label, const tn__flat_vector *old,
                           uint32_t more, uint32_t *first) {
    flat_writer *writer = &image->writer;
    tn__flat_align(writer, 4);
    tn__flat_here(writer, label);
    tn__flat_u32(writer, old->count + more);
    for (uint32_t i = 0; i < old->count; i++)
        tn__flat_lead_old(writer, tn__flat_item(old, i).bytes);
    for (uint32_t i = 0; i < more; i++) {
        uint32_t made = tn__flat_label(writer);
        if (i == 0) *first = made;
        tn__flat_lead(writer, made);
    }
}

static void image_put_subgraph(tflite_image *image, uint32_t label, const image_op *ops,
                               uint32_t op_count) {
    flat_writer *writer = &image->writer;
    flat_slot slots[6] = {{0}};
    uint32_t tensors = tn__flat_label(writer), operators = tn__flat_label(writer);
    for (uint32_t field = 0; field < 5; field++) {
        const uint8_t *old = tn__flat_old(&image->graph, field);
        if (old != NULL) slots[field] = (flat_slot){FLAT_OLD, 0, old};
    }
    slots[TFLITE_GRAPH_TENSORS] = (flat_slot){FLAT_LABEL, tensors, NULL};
    slots[TFLITE_GRAPH_OPERATORS] = (flat_slot){FLAT_LABEL, operators, NULL};
    tn__flat_table_put(writer, label, slots, 5);
    tn__flat_here(writer, tensors);
    tn__flat_u32(writer, image->tensor_count);
    for (uint32_t i = 0; i < image->tensor_count; i++)
        if (image->made[i].label != 0)
            tn__flat_lead(writer, image->made[i].label);
        else
            tn__flat_lead_old(writer, tn__flat_item(&image->tensors, i).bytes);
    tn__flat_here(writer, operators);
    tn__flat_u32(writer, op_count);
    for (uint32_t i = 0; i < op_count; i++)
        if (ops[i].label != 0)
            tn__flat_lead(writer, ops[i].label);
        else
            tn__flat_lead_old(writer, ops[i].source.bytes);
}

/* Writes the list of metadata without memory plans. */
static void image_put_metadata(tflite_image *image, uint32_t label) {
    const tflite_plan *plan = image->plan;
    flat_writer *writer = &image->writer;
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->metadata.count; i++) count += !tn__tflite_plan_is(plan, i);
    tn__flat_align(writer, 4);
    tn__flat_here(writer, label);
    tn__flat_u32(writer, count);
    for (uint32_t i = 0; i < plan->metadata.count; i++)
        if (!tn__tflite_plan_is(plan, i))
            tn__flat_lead_old(writer, tn__flat_item(&plan->metadata, i).bytes);
}

static void image_put_model(tflite_image *image, const image_op *ops, uint32_t op_count) {
    flat_writer *writer = &image->writer;
    const tflite_plan *plan = image->plan;
    flat_slot slots[TFLITE_MODEL_KNOWN] = {{0}};
    uint32_t root = tn__flat_label(writer), codes = tn__flat_label(writer);
    uint32_t subgraphs = tn__flat_label(writer), buffers = tn__flat_label(writer);
    uint32_t metadata = tn__flat_label(writer), subgraph = tn__flat_label(writer);
    uint32_t first_code = 0, first_buffer = 0;
    bool planned = tn__tflite_plan_find(plan) < plan->metadata.count;
    tn__flat_vector old_codes = tn__flat_list(&plan->model, TFLITE_MODEL_CODES);
    for (uint32_t field = 1; field < TFLITE_MODEL_KNOWN; field++) {
        const uint8_t *old = tn__flat_old(&plan->model, field);
        if (old != NULL) slots[field] = (flat_slot){FLAT_OLD, 0, old};
    }
    slots[TFLITE_MODEL_VERSION] = (flat_slot){
        FLAT_U32, (uint32_t)tn__flat_uint(&plan->model, TFLITE_MODEL_VERSION, 4, 0), NULL};
    slots[TFLITE_MODEL_CODES] = (flat_slot){FLAT_LABEL, codes, NULL};
    slots[TFLITE_MODEL_SUBGRAPHS] = (flat_slot){FLAT_LABEL, subgraphs, NULL};
    slots[TFLITE_MODEL_BUFFERS] = (flat_slot){FLAT_LABEL, buffers, NULL};
    if (planned) slots[TFLITE_MODEL_METADATA] = (flat_slot){FLAT_LABEL, metadata, NULL};
    tn__flat_lead(writer, root);
    tn__text_add(&writer->text, "TFL3", 4);
    tn__flat_table_put(writer, root, slots, TFLITE_MODEL_KNOWN);
    image_put_list(image, codes, &old_codes, image->codes.count, &first_code);
    tn__flat_here(writer, subgraphs);
    tn__flat_u32(writer, plan->subgraphs.count);
    tn__flat_lead(writer, subgraph);
    for (uint32_t i = 1; i < plan->subgraphs.count; i++)
        tn__flat_lead_old(writer, tn__flat_item(&plan->subgraphs, i).bytes);
    image_put_list(image, buffers, &plan->buffers, image->constant_count, &first_buffer);
    if (planned) image_put_metadata(image, metadata);
    image_put_subgraph(image, subgraph, ops, op_count);
    for (uint32_t i = 0; i < image->codes.count; i++) image_put_code(image, first_code + i, i);
    for (uint32_t i = 0; i < image->tensor_count; i++) {
        const tflite_new *tensor = &image->made[i];
        if (tensor->label != 0 && tensor->id != TN_NONE) image_put_activation(image, tensor);
        if (tensor->label != 0 && tensor->id == TN_NONE) image_put_constant(image, tensor);
    }
    for (uint32_t i = 0; i < op_count; i++)
        if (ops[i].label != 0) image_put_op(image, &ops[i]);
    for (uint32_t i = 0; i < image->constant_count; i++)
        image_put_buffer(image, first_buffer + i, &image->constants[i]);
}

/* --- the new file as a whole --- */

static tn_status image_begin(tflite_image *image) {
    image->graph = tn__flat_item(&image->plan->subgraphs, 0);
    image->ops = tn__flat_list(&image->graph, TFLITE_GRAPH_OPERATORS);
    image->tensors = tn__flat_list(&image->graph, TFLITE_GRAPH_TENSORS);
    image->buffers = image->plan->buffers.count;
    image->tensor_count = image->tensors.count;
    image->index = tn__arena_array(&image->arena, (size_t)image->split->trace.tensor_count + 1,
                                   sizeof *image->index);
    if (image->index == NULL || !tn__reserve(&image->plan->context, &image->made, &image->made_room,
                                             (size_t)image->tensor_count + 1, sizeof *image->made))
        return image_no_memory(image);
    for (uint32_t i = 0; i < image->tensor_count; i++) image->made[i] = (tflite_new){0};
    /* label 0 is reserved: it means that a tensor has no new table */
    (void)tn__flat_label(&image->writer);
    return image_keep(image);
}

/* Computes the position in the file of each operator of split->whole. The file has the operators of
 * block 0 in the order of their ids. */
static tn_status image_places(tflite_image *image, uint32_t **places) {
    const tn_graph *whole = image->split->whole;
    uint32_t count = tn_graph_op_count(whole), next = 0;
    *places = tn__arena_array(&image->arena, (size_t)count + 1, sizeof **places);
    if (*places == NULL) return image_no_memory(image);
    for (tn_op_id id = 0; id < count; id++)
        (*places)[id] = tn_graph_op(whole, id)->block == 0 ? next++ : TN_NONE;
    if (next == image->ops.count) return TN_OK;
    TN_FAIL(image->error, TN_E_INTERNAL, "the graph is not that of the file");
}

static tn_status image_make(tflite_image *image, tn__text *text) {
    const tn_block *main = tn_graph_block(image->split->graph, 0);
    uint32_t *places;
    image_op *ops = tn__arena_array(&image->arena, (size_t)main->op_count + 1, sizeof *ops);
    if (ops == NULL) return image_no_memory(image);
    TN_TRY(image_begin(image));
    TN_TRY(image_places(image, &places));
    for (uint32_t i = 0; i < main->op_count; i++)
        TN_TRY(image_make_op(image, main->ops[i], places, &ops[i]));
    /* a removed tensor that keeps its number would still take memory in the runtime */
    if (image->free_next < image->free_count)
        TN_FAIL(image->error, TN_E_INTERNAL, "fewer tensors than before");
    /* the writer has failed if a label could not be allocated */
    if (image->writer.failed) return image_no_memory(image);
    image_put_model(image, ops, main->op_count);
    TN_TRY(tn__flat_finish(&image->writer, image->error));
    tn__text_add(text, image->writer.text.data, image->writer.text.size);
    return text->failed ? image_no_memory(image) : TN_OK;
}

tn_status tn__export_tflite(const tflite_plan *plan, const export_split *split, tn__text *text,
                            tn_error *error) {
    tflite_image image = {.plan = plan, .split = split, .error = error};
    TN_TRY(tn__tflite_plan_check(plan));
    tn__arena_init(&image.arena, &plan->context);
    tn__flat_begin(&image.writer, &plan->context, plan->bytes);
    tn_status status = image_make(&image, text);
    tn__flat_end(&image.writer);
    tn__free(&plan->context, image.made, image.made_room * sizeof *image.made);
    tn__free(&plan->context, image.constants, image.constant_room * sizeof *image.constants);
    tn__arena_release(&image.arena);
    return status;
}
