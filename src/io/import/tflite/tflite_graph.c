/* tflite_graph.c - turns a subgraph of a .tflite file into a block: roles, tensors, operators.
 *
 * A subgraph is read in several passes over its operators: first the readers and the producer of
 * each tensor; then a tensor of the graph for each one that is used, in the order of the file; then
 * the operators. An operator that names subgraphs (such as IF, WHILE, CALL) owns a block for each,
 * even if several operators name the same one: the run time allocates the tensors of such a
 * subgraph once, the plan once for each operator. Such blocks wait in a queue, so there is no
 * recursion.
 *
 * WHILE has its body before its condition, so that the results of the body are live while the
 * condition runs, as some run times need (they copy them after that).
 *
 * Cost: O(tensors + operands).
 */
#include "io/import/tflite/tflite_reader.h"

#include <stdio.h>

/* --- builtin options as attributes of operators, as far as shapes depend on them -------------- */

/* The options of an operator are a member of a union, of which only the table was verified
 * (flat.h). So a scalar is read only if it lies inside the table, and a list is checked here.
 * Attributes have the names of the fields in the schema. */

typedef struct tflite_options { /* attributes made from the builtin options of an operator */
    tn_attr attrs[8];
    int64_t ints[TN_RANK_MAX + 8];
} tflite_options;

typedef struct options_field {
    const char *name;
    uint8_t field, width; /* width 0 means a vector of int32 */
    int8_t otherwise;     /* the default value in the schema */
} options_field;

#define OPTIONS_FIELDS 6u
typedef struct options_row {
    const char *type;
    options_field fields[OPTIONS_FIELDS];
} options_row;

/* clang-format off */
#define OPTIONS_POOL {{"padding", 0, 1, 0}, {"stride_w", 1, 4, 0}, {"stride_h", 2, 4, 0}, \
    {"filter_width", 3, 4, 0}, {"filter_height", 4, 4, 0}}
#define OPTIONS_REDUCE {{"keep_dims", 0, 1, 0}}
static const options_row options_rows[] = { /* sorted by operator type */
    {"AVERAGE_POOL_2D", OPTIONS_POOL},
    {"BATCH_MATMUL", {{"adj_x", 0, 1, 0}, {"adj_y", 1, 1, 0}}},
    {"BIDIRECTIONAL_SEQUENCE_LSTM", {{"merge_outputs", 3, 1, 0}}},
    {"BIDIRECTIONAL_SEQUENCE_RNN", {{"merge_outputs", 2, 1, 0}}},
    {"CONCATENATION", {{"axis", 0, 4, 0}}},
    {"CONV_2D", {{"padding", 0, 1, 0}, {"stride_w", 1, 4, 0}, {"stride_h", 2, 4, 0},
                 {"dilation_w_factor", 4, 4, 1}, {"dilation_h_factor", 5, 4, 1}}},
    {"CONV_3D", {{"padding", 0, 1, 0}, {"stride_d", 1, 4, 0}, {"stride_w", 2, 4, 0},
                 {"stride_h", 3, 4, 0}}},
    {"DEPTHWISE_CONV_2D", {{"padding", 0, 1, 0}, {"stride_w", 1, 4, 0}, {"stride_h", 2, 4, 0},
                           {"dilation_w_factor", 5, 4, 1}, {"dilation_h_factor", 6, 4, 1}}},
    {"DEPTH_TO_SPACE", {{"block_size", 0, 4, 0}}},
    {"FULLY_CONNECTED", {{"keep_num_dims", 2, 1, 0}}},
    {"GATHER", {{"axis", 0, 4, 0}, {"batch_dims", 1, 4, 0}}},
    {"L2_POOL_2D", OPTIONS_POOL},
    {"MAX_POOL_2D", OPTIONS_POOL},
    {"MEAN", OPTIONS_REDUCE},
    {"ONE_HOT", {{"axis", 0, 4, 0}}},
    {"PACK", {{"axis", 1, 4, 0}}},
    {"REDUCE_ALL", OPTIONS_REDUCE},
    {"REDUCE_ANY", OPTIONS_REDUCE},
    {"REDUCE_MAX", OPTIONS_REDUCE},
    {"REDUCE_MIN", OPTIONS_REDUCE},
    {"REDUCE_PROD", OPTIONS_REDUCE},
    {"RESHAPE", {{"new_shape", 0, 0, 0}}},
    {"SPACE_TO_DEPTH", {{"block_size", 0, 4, 0}}},
    {"SQUEEZE", {{"squeeze_dims", 0, 0, 0}}},
    {"STRIDED_SLICE", {{"begin_mask", 0, 4, 0}, {"end_mask", 1, 4, 0}, {"ellipsis_mask", 2, 4, 0},
                       {"new_axis_mask", 3, 4, 0}, {"shrink_axis_mask", 4, 4, 0},
                       {"offset", 5, 1, 0}}},
    {"SUM", OPTIONS_REDUCE},
    {"SVDF", {{"rank", 0, 4, 0}}},
    {"UNPACK", {{"axis", 1, 4, 0}}},
};
/* clang-format on */

static const options_row *options_find(const char *type) {
    size_t low = 0, high = sizeof options_rows / sizeof *options_rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(type, options_rows[middle].type);
        if (order == 0) return &options_rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Reads a list in a table that was not verified; returns false if it is absent or lies partly
 * outside the file. */
static bool options_list(const tflite_reader *reader, const tn__flat_table *table, uint32_t field,
                         int64_t *values, uint32_t *count) {
    const uint8_t *start = reader->file.bytes, *end = start + reader->file.size;
    if (!tn__flat_has(table, field)) return false;
    uint64_t slot = tn__little(table->vtable + 4 + 2 * (size_t)field, 2);
    if (slot < 4 || slot + 4 > table->size) return false;
    const uint8_t *at = table->bytes + slot;
    uint64_t offset = tn__little(at, 4), left = (uint64_t)(end - at);
    if (offset == 0 || offset > left || left - offset < 4) return false;
    const uint8_t *list = at + offset;
    uint64_t length = tn__little(list, 4);
    if (length > TN_RANK_MAX || left - offset - 4 < 4 * length) return false;
    for (uint32_t i = 0; i < length; i++)
        values[i] = (int32_t)(uint32_t)tn__little(list + 4 + 4 * (size_t)i, 4);
    *count = (uint32_t)length;
    return true;
}

static uint32_t tflite_options_read(const tflite_reader *reader, const tn__flat_table *op,
                                    const char *type, tflite_options *to) {
    const options_row *row = options_find(type);
    tn__flat_table options = tn__flat_child(op, TFLITE_OP_OPTIONS);
    uint32_t count = 0, used = 0;
    if (row == NULL || options.bytes == NULL) return 0;
    for (uint32_t i = 0; i < OPTIONS_FIELDS && row->fields[i].name; i++) {
        const options_field *field = &row->fields[i];
        tn_attr attr = {.name = field->name, .type = TN_ATTR_INT, .count = 1};
        attr.ints = &to->ints[used];
        if (field->width == 0) {
            if (!options_list(reader, &options, field->field, &to->ints[used], &attr.count))
                continue;
            attr.type = TN_ATTR_INTS;
        } else {
            to->ints[used] = tn__flat_int(&options, field->field, field->width, field->otherwise);
        }
        used += attr.count;
        to->attrs[count++] = attr;
    }
    return count;
}

/* --- operators with subgraphs ------------------------------------------------------------- */

typedef struct graph_call { /* how an operator type names its subgraphs */
    const char *type;
    uint32_t options; /* number of the type of the options in their union */
    bool second;      /* true: the options are in the second union */
    /* count: number of blocks of the operator. skipped: number of its first inputs that are not
     * passed to a subgraph */
    uint32_t count, skipped;
    uint32_t field[2]; /* fields of the options that hold the numbers of the subgraphs */
    const char *attribute[2];
    bool passes; /* true: the operator's inputs and outputs are those of the subgraph */
} graph_call;

static const graph_call graph_calls[] = {
    {"CALL", 16, false, 1, 0, {0}, {"subgraph"}, true},
    {"CALL_ONCE", 103, false, 1, 0, {0}, {"init"}, false},
    {"IF", 92, false, 2, 1, {0, 1}, {"then_branch", "else_branch"}, true},
    {"STABLEHLO_COMPOSITE", 21, true, 1, 0, {1}, {"decomposition"}, true},
    {"STABLEHLO_WHILE", 15, true, 2, 0, {1, 0}, {"body", "cond"}, true},
    {"WHILE", 93, false, 2, 0, {1, 0}, {"body", "cond"}, true},
};

static const graph_call *graph_call_of(const char *type) {
    for (size_t i = 0; i < sizeof graph_calls / sizeof *graph_calls; i++)
        if (strcmp(graph_calls[i].type, type) == 0) return &graph_calls[i];
    return NULL;
}

/* Checks that the operator's operands and results match those of the subgraph. A condition must
 * return one truth value. */
static tn_status graph_check_call(const tflite_reader *reader, const graph_call *call,
                                  const tn__flat_table *op, uint32_t subgraph, uint32_t which) {
    tn__flat_table graph = tn__flat_item(&reader->subgraphs, subgraph);
    uint64_t inputs = tn__flat_list(op, TFLITE_OP_INPUTS).count;
    uint64_t outputs = tn__flat_list(op, TFLITE_OP_OUTPUTS).count;
    uint64_t takes = tn__flat_list(&graph, TFLITE_GRAPH_INPUTS).count;
    uint64_t gives = tn__flat_list(&graph, TFLITE_GRAPH_OUTPUTS).count;
    if (!call->passes) inputs = takes, outputs = gives;
    if (strcmp(call->attribute[which], "cond") == 0) outputs = 1;
    if (inputs == takes + call->skipped * (call->passes ? 1u : 0u) && outputs == gives)
        return TN_OK;
    TN_FAIL(reader->importer->error, TN_E_INVALID,
            "subgraph %u takes %llu tensors and returns %llu, which the operator does not pass",
            subgraph, (unsigned long long)takes, (unsigned long long)gives);
}

static tn_status graph_enqueue(tflite_reader *reader, const tflite_pending *block,
                               uint32_t subgraph, tn_block_id *id) {
    tn_importer *importer = reader->importer;
    if (block->depth == TFLITE_DEPTH_MAX)
        TN_FAIL(importer->error, TN_E_INVALID, "subgraphs call each other more than %u deep",
                TFLITE_DEPTH_MAX);
    tn__flat_table graph = tn__flat_item(&reader->subgraphs, subgraph);
    tn__span name = tn__flat_string(&graph, TFLITE_GRAPH_NAME);
    char number[32];
    snprintf(number, sizeof number, "subgraph %u", subgraph);
    char *text = name.size ? tn__span_copy(&reader->arena, name)
                           : tn__arena_string(&reader->arena, number, strlen(number));
    if (!text) return tn__tflite_no_memory(reader);
    TN_TRY(tn__tflite_charge(reader, 4 + strlen(text) / 2));
    char *prefix = tn__arena_alloc(&reader->arena, strlen(text) + 2);
    if (!prefix || !tn__reserve(importer->context, &reader->pending, &reader->pending_room,
                                reader->pending_count + 1, sizeof *reader->pending))
        return tn__tflite_no_memory(reader);
    memcpy(prefix, text, strlen(text));
    prefix[strlen(text)] = '/';
    TN_TRY(tn_graph_add_block(importer->graph, text, id, importer->error));
    reader->pending[reader->pending_count++] = (tflite_pending){
        .subgraph = subgraph, .depth = block->depth + 1, .block = *id, .prefix = prefix};
    return TN_OK;
}

/* Adds the blocks of an operator as attributes. */
static tn_status graph_blocks(tflite_reader *reader, const tflite_pending *block,
                              const graph_call *call, const tn__flat_table *op, tn_attr *attrs) {
    uint32_t type_field = call->second ? TFLITE_OP_OPTIONS2_TYPE : TFLITE_OP_OPTIONS_TYPE;
    tn__flat_table options =
        tn__flat_child(op, call->second ? TFLITE_OP_OPTIONS2 : TFLITE_OP_OPTIONS);
    if (tn__flat_uint(op, type_field, 1, 0) != call->options || options.bytes == NULL)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "it does not say which subgraph it runs");
    for (uint32_t i = 0; i < call->count; i++) {
        int64_t subgraph = tn__flat_int(&options, call->field[i], 4, 0);
        if (subgraph < 0 || subgraph >= reader->subgraphs.count)
            TN_FAIL(reader->importer->error, TN_E_INVALID, "it runs subgraph %lld, of %u",
                    (long long)subgraph, reader->subgraphs.count);
        TN_TRY(graph_check_call(reader, call, op, (uint32_t)subgraph, i));
        attrs[i] = (tn_attr){.name = call->attribute[i], .type = TN_ATTR_BLOCK, .count = 1};
        TN_TRY(graph_enqueue(reader, block, (uint32_t)subgraph, &attrs[i].block));
    }
    return TN_OK;
}

/* --- operators ------------------------------------------------------------------------------ */

/* Appends the ids of a list of tensors after the first `*count`. */
static tn_status graph_operands(tflite_reader *reader, const tn__flat_vector *list, size_t *count) {
    if (!tn__reserve(reader->importer->context, &reader->operands, &reader->operand_room,
                     *count + list->count + 1, sizeof *reader->operands))
        /* one element more, because even empty lists need an address */
        return tn__tflite_no_memory(reader);
    for (uint32_t i = 0; i < list->count; i++) {
        int32_t index = tn__flat_int32(list, i);
        reader->operands[(*count)++] = index < 0 ? TN_NONE : reader->ids[index];
    }
    return TN_OK;
}

/* The name of an operator: that of its first output, because operators have no names in the
 * file. */
static const char *graph_op_name(const tflite_reader *reader, const tn_op_spec *spec) {
    for (uint32_t i = 0; i < spec->output_count; i++)
        if (spec->outputs[i] != TN_NONE)
            return tn_graph_tensor(reader->importer->graph, spec->outputs[i])->name;
    return "";
}

static tn_status graph_add_op(tflite_reader *reader, const tflite_pending *block,
                              const tn__flat_table *op, const tflite_code *code) {
    tn__flat_vector inputs = tn__flat_list(op, TFLITE_OP_INPUTS);
    tn__flat_vector outputs = tn__flat_list(op, TFLITE_OP_OUTPUTS);
    const graph_call *call = graph_call_of(code->type);
    tflite_options options;
    tn_attr *attrs = options.attrs;
    size_t count = 0;
    TN_TRY(tn__tflite_charge(reader, (uint64_t)1 + inputs.count + outputs.count));
    uint32_t attr_count =
        call ? call->count : tflite_options_read(reader, op, code->type, &options);
    TN_TRY(tn__tflite_charge(reader, attr_count));
    if (call) TN_TRY(graph_blocks(reader, block, call, op, attrs));
    TN_TRY(graph_operands(reader, &inputs, &count));
    TN_TRY(graph_operands(reader, &outputs, &count));
    tn_op_spec spec = {.type = code->type,
                       .domain = "tflite",
                       .version = code->version,
                       .block = block->block,
                       .inputs = reader->operands,
                       .outputs = reader->operands + inputs.count,
                       .attrs = attrs,
                       .input_count = inputs.count,
                       .output_count = outputs.count,
                       .attr_count = attr_count};
    const char *name = graph_op_name(reader, &spec);
    TN_TRY(tn__tflite_charge(reader, strlen(name) / 4));
    /* copies the name, because names in the graph may move while the graph grows */
    reader->output.size = 0;
    tn__text_put(&reader->output, name);
    if (reader->output.failed) return tn__tflite_no_memory(reader);
    spec.name = *name ? reader->output.data : "";
    return tn_graph_add_op(reader->importer->graph, &spec, NULL, reader->importer->error);
}

static tn_status graph_op_where(const tflite_reader *reader, tn_status status,
                                const tflite_pending *block, uint32_t index, const char *type) {
    return tn__where(reader->importer->error, status, "operator %u (%.60s) of subgraph %u", index,
                     type, block->subgraph);
}

static tn_status graph_add_ops(tflite_reader *reader, const tflite_pending *block,
                               const tn__flat_vector *ops) {
    for (uint32_t i = 0; i < ops->count; i++) {
        tn__flat_table op = tn__flat_item(ops, i);
        const tflite_code *code = &reader->codes[tn__flat_uint(&op, TFLITE_OP_CODE, 4, 0)];
        tn_status status = graph_add_op(reader, block, &op, code);
        if (status != TN_OK) return graph_op_where(reader, status, block, i, code->type);
    }
    return TN_OK;
}

/* --- roles ---------------------------------------------------------------------------------- */

/* Adds a role to all tensors of a list; -1 stands for an omitted operand. */
static tn_status graph_mark(tflite_reader *reader, const tn__flat_vector *list, uint8_t role) {
    for (uint32_t i = 0; i < list->count; i++) {
        int32_t index = tn__flat_int32(list, i);
        if (index < -1 || (index >= 0 && (uint32_t)index >= reader->tensors.count))
            TN_FAIL(reader->importer->error, TN_E_INVALID, "it names tensor %d, of %u", index,
                    reader->tensors.count);
        if (index >= 0) reader->roles[index] |= role;
    }
    return TN_OK;
}

/* Whether an operator's result always has dimensions. Then a shape of [] means that the file states
 * no shapes. */
static bool graph_never_scalar(const char *type) {
    static const char *const types[] = {
        "AVERAGE_POOL_2D", "CONV_2D",       "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE",
        "L2_POOL_2D",      "MAX_POOL_2D",   "RESIZE_BILINEAR",   "RESIZE_NEAREST_NEIGHBOR",
        "SPACE_TO_DEPTH",  "TRANSPOSE_CONV"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i], type) == 0) return true;
    return false;
}

static bool graph_is_scalar(const tflite_reader *reader, uint32_t index) {
    tn__flat_table tensor = tn__flat_item(&reader->tensors, index);
    return tn__flat_list(&tensor, TFLITE_TENSOR_SHAPE).count == 0 &&
           tn__flat_uint(&tensor, TFLITE_TENSOR_HAS_RANK, 1, 0) == 0;
}

static tn_status graph_mark_op(tflite_reader *reader, const tn__flat_table *op, bool *unshaped) {
    tn__flat_vector inputs = tn__flat_list(op, TFLITE_OP_INPUTS);
    tn__flat_vector outputs = tn__flat_list(op, TFLITE_OP_OUTPUTS);
    TN_TRY(graph_mark(reader, &inputs, TFLITE_IS_READ));
    TN_TRY(graph_mark(reader, &outputs, TFLITE_IS_MADE));
    const tflite_code *code = &reader->codes[tn__flat_uint(op, TFLITE_OP_CODE, 4, 0)];
    int32_t first = outputs.count ? tn__flat_int32(&outputs, 0) : -1;
    *unshaped |=
        first >= 0 && graph_never_scalar(code->type) && graph_is_scalar(reader, (uint32_t)first);
    return TN_OK;
}

static tn_status graph_mark_ops(tflite_reader *reader, const tflite_pending *block,
                                const tn__flat_vector *ops) {
    bool unshaped = false;
    for (uint32_t i = 0; i < ops->count; i++) {
        tn__flat_table op = tn__flat_item(ops, i);
        uint64_t code = tn__flat_uint(&op, TFLITE_OP_CODE, 4, 0);
        tn_status status = TN_OK;
        if (code >= reader->code_count)
            status =
                tn__fail(reader->importer->error, TN_E_INVALID, "it has operator code %llu, of %u",
                         (unsigned long long)code, reader->code_count);
        else
            status = graph_mark_op(reader, &op, &unshaped);
        if (status != TN_OK)
            return graph_op_where(reader, status, block, i,
                                  code < reader->code_count ? reader->codes[code].type : "?");
    }
    for (uint32_t i = 0; i < reader->tensors.count && unshaped; i++)
        if ((reader->roles[i] & TFLITE_IS_MADE) && graph_is_scalar(reader, i))
            reader->roles[i] |= TFLITE_IS_UNSHAPED;
    return TN_OK;
}

/* --- reading one subgraph as a block -------------------------------------------------------- */

/* Whether a tensor is an input of the main block that the caller fills, and not a parameter by
 * --parameter. Variable tensors are added to the inputs when all blocks have been read, whether the
 * list contains them or not. */
static bool graph_is_input(const tflite_reader *reader, const tn__flat_vector *inputs,
                           uint32_t at) {
    int32_t index = tn__flat_int32(inputs, at);
    if (index < 0) return false;
    tn__flat_table tensor = tn__flat_item(&reader->tensors, (uint32_t)index);
    return !tn__flat_uint(&tensor, TFLITE_TENSOR_VARIABLE, 1, 0) &&
           tn_graph_tensor(reader->importer->graph, reader->ids[index])->kind != TN_KIND_PARAMETER;
}

static tn_status graph_set_io(tflite_reader *reader, const tflite_pending *block,
                              const tn__flat_vector *inputs, const tn__flat_vector *outputs) {
    size_t count = 0, kept = 0;
    TN_TRY(graph_operands(reader, inputs, &count));
    for (uint32_t i = 0; i < count; i++) {
        tn_tensor_id id = reader->operands[i];
        if (block->block != 0 && id == TN_NONE)
            TN_FAIL(reader->importer->error, TN_E_INVALID, "subgraph %u leaves out input %u",
                    block->subgraph, i);
        if (block->block != 0 || graph_is_input(reader, inputs, i)) reader->operands[kept++] = id;
    }
    size_t all = kept;
    TN_TRY(graph_operands(reader, outputs, &all));
    for (size_t i = kept; i < all; i++)
        if (reader->operands[i] == TN_NONE)
            TN_FAIL(reader->importer->error, TN_E_INVALID, "subgraph %u leaves out output %zu",
                    block->subgraph, i - kept);
    return tn_graph_set_block_io(reader->importer->graph, block->block, reader->operands,
                                 (uint32_t)kept, reader->operands + kept, (uint32_t)(all - kept),
                                 reader->importer->error);
}

static tn_status graph_room(tflite_reader *reader) {
    const tn_context *context = reader->importer->context;
    size_t count = (size_t)reader->tensors.count + 1;
    if (!tn__reserve(context, &reader->roles, &reader->role_room, count, sizeof *reader->roles) ||
        !tn__reserve(context, &reader->ids, &reader->id_room, count, sizeof *reader->ids))
        return tn__tflite_no_memory(reader);
    memset(reader->roles, 0, count);
    return TN_OK;
}

tn_status tn__tflite_block(tflite_reader *reader, const tflite_pending *block) {
    tn__flat_table graph = tn__flat_item(&reader->subgraphs, block->subgraph);
    tn__flat_vector inputs = tn__flat_list(&graph, TFLITE_GRAPH_INPUTS);
    tn__flat_vector outputs = tn__flat_list(&graph, TFLITE_GRAPH_OUTPUTS);
    tn__flat_vector ops = tn__flat_list(&graph, TFLITE_GRAPH_OPERATORS);
    reader->tensors = tn__flat_list(&graph, TFLITE_GRAPH_TENSORS);
    TN_TRY(tn__tflite_charge(reader, ((uint64_t)reader->tensors.count + ops.count) / 4));
    TN_TRY(graph_room(reader));
    const tn_importer *importer = reader->importer;
    if (importer->met &&
        !importer->met(importer->met_self, block->subgraph, TN__MET_BLOCK, block->block))
        return tn__tflite_no_memory(reader);
    TN_TRY(graph_mark(reader, &inputs, TFLITE_IS_INPUT));
    TN_TRY(graph_mark(reader, &outputs, TFLITE_IS_READ));
    TN_TRY(graph_mark_ops(reader, block, &ops));
    for (uint32_t i = 0; i < inputs.count && block->block == 0; i++) {
        int32_t index = tn__flat_int32(&inputs, i);
        if (index >= 0 && tn__tflite_contradicts(reader, (uint32_t)index))
            reader->drop_stated = true;
    }
    for (uint32_t i = 0; i < reader->tensors.count; i++)
        TN_TRY(tn__tflite_tensor(reader, block, i));
    TN_TRY(graph_add_ops(reader, block, &ops));
    return graph_set_io(reader, block, &inputs, &outputs);
}
