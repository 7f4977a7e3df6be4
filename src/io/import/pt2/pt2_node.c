/* pt2_node.c - the arguments of a node, and the functions that add operators to the graph. */
#include "io/import/pt2/pt2_reader.h"

#include <math.h>

/* opset version of the ONNX operators that are added: the newest one with a stable specification */
#define NODE_OPSET 23u

/* --- arguments -------------------------------------------------------------------------------- */

json_t *tn__pt2_argument(const pt2_reader *reader, const char *name, const char **kind) {
    json_t *inputs = json_object_get(reader->node, "inputs");
    *kind = "";
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        json_t *input = json_array_get(inputs, i), *argument = json_object_get(input, "arg");
        const char *called = json_string_value(json_object_get(input, "name"));
        if (called == NULL || strcmp(called, name) != 0) continue;
        void *first = json_object_iter(argument);
        if (first == NULL) return NULL;
        *kind = json_object_iter_key(first);
        return strcmp(*kind, "as_none") == 0 ? NULL : json_object_iter_value(first);
    }
    return NULL;
}

bool tn__pt2_int(pt2_reader *reader, const char *name, int64_t otherwise, int64_t *value) {
    const char *kind;
    json_t *argument = tn__pt2_argument(reader, name, &kind);
    *value = otherwise;
    if (argument == NULL) return true;
    if (json_is_boolean(argument)) *value = json_is_true(argument);
    if (json_is_boolean(argument)) return true;
    bool is_int = strcmp(kind, "as_int") == 0 || strcmp(kind, "as_sym_int") == 0;
    return is_int && tn__pt2_size(reader, argument, value) == TN_OK && *value != TN_DIM_UNKNOWN;
}

/* Reads a number that JSON cannot express, such as infinity, from its text. */
static bool node_special(json_t *argument, double *value) {
    const char *text = json_string_value(argument);
    if (text == NULL) return false;
    *value = strcmp(text, "Infinity") == 0    ? INFINITY
             : strcmp(text, "-Infinity") == 0 ? -INFINITY
                                              : NAN;
    return true;
}

bool tn__pt2_number(pt2_reader *reader, const char *name, double otherwise, double *value) {
    const char *kind;
    int64_t whole;
    json_t *argument = tn__pt2_argument(reader, name, &kind);
    *value = otherwise;
    if (argument == NULL) return true;
    /* an argument as_sym_float contains the number in a member as_float */
    json_t *inner = json_object_get(argument, "as_float");
    if (inner != NULL) argument = inner;
    if (json_is_real(argument)) *value = json_real_value(argument);
    if (json_is_real(argument)) return true;
    if (strcmp(kind, "as_float") == 0 && json_is_integer(argument))
        *value = (double)json_integer_value(argument);
    if (strcmp(kind, "as_float") == 0 && json_is_integer(argument)) return true;
    if (strcmp(kind, "as_float") == 0 && node_special(argument, value)) return true;
    if (!tn__pt2_int(reader, name, 0, &whole)) return false;
    *value = (double)whole;
    return true;
}

bool tn__pt2_ints(pt2_reader *reader, const char *name, int64_t *values, uint32_t *count) {
    const char *kind;
    json_t *argument = tn__pt2_argument(reader, name, &kind);
    *count = 0;
    if (argument == NULL) return true;
    if (!json_is_array(argument)) {
        *count = 1;
        return tn__pt2_int(reader, name, 0, &values[0]);
    }
    bool is_ints = strcmp(kind, "as_ints") == 0 || strcmp(kind, "as_sym_ints") == 0;
    if (!is_ints || json_array_size(argument) > TN_RANK_MAX) return false;
    for (size_t i = 0; i < json_array_size(argument); i++) {
        bool known = tn__pt2_size(reader, json_array_get(argument, i), &values[i]) == TN_OK;
        if (!known || values[i] == TN_DIM_UNKNOWN) return false;
    }
    *count = (uint32_t)json_array_size(argument);
    return true;
}

uint32_t tn__pt2_tensor(const pt2_reader *reader, const char *name) {
    const char *kind;
    json_t *argument = tn__pt2_argument(reader, name, &kind);
    /* the tensor inside of an as_optional_tensor */
    json_t *inner = json_object_get(argument, "as_tensor");
    const char *text = json_string_value(json_object_get(inner != NULL ? inner : argument, "name"));
    return tn__pt2_find(reader, text);
}

const pt2_value *tn__pt2_value(const pt2_reader *reader, uint32_t value) {
    return &reader->values[value];
}

bool tn__pt2_reads_results(const pt2_reader *reader, uint32_t first) {
    for (uint32_t k = first; k < reader->make_count; k++)
        if (reader->values[reader->makes[k]].last > reader->number) return true;
    return false;
}

/* --- adding tensors and operators to the graph ------------------------------------------------ */

tn_status tn__pt2_between(pt2_reader *reader, tn_tensor_id *id) {
    reader->text.size = 0;
    tn__text_printf(&reader->text, "%s.%u", reader->name, ++reader->temporaries);
    if (reader->text.failed) return tn__no_memory(reader->error, "the model");
    tn_tensor_spec spec = {.name = reader->text.data, .kind = TN_KIND_ACTIVATION};
    return tn_graph_add_tensor(reader->importer->graph, &spec, id, reader->error);
}

tn_status tn__pt2_make(pt2_reader *reader, uint32_t value, tn_tensor_id *id) {
    pt2_value *made = &reader->values[value];
    tn_tensor_spec spec = {.name = made->shown,
                           .dtype = made->dtype,
                           .kind = made->output ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION,
                           .flags = TN_TENSOR_STATED,
                           .rank = made->rank,
                           .shape = made->shape};
    TN_TRY(tn_graph_add_tensor(reader->importer->graph, &spec, id, reader->error));
    made->id = *id;
    reader->values[made->same].id = *id;
    reader->values[made->same].transposed = PT2_NONE;
    return TN_OK;
}

tn_status tn__pt2_use(pt2_reader *reader, uint32_t value, tn_tensor_id *id) {
    static const int64_t swapped[] = {1, 0};
    uint32_t same = reader->values[value].same;
    uint32_t from = reader->values[same].transposed;
    if (reader->values[same].id == TN_NONE && from != PT2_NONE) {
        tn_tensor_id source, made;
        TN_TRY(tn__pt2_use(reader, from, &source));
        TN_TRY(tn__pt2_make(reader, same, &made));
        return tn__pt2_op(reader, "Transpose", PT2_LIST(source),
                          PT2_ATTRS(PT2_INTS("perm", swapped, 2)), &(tn_tensor_id){*id = made}, 1);
    }
    *id = reader->values[same].id;
    if (*id != TN_NONE) return TN_OK;
    TN_FAIL(reader->error, TN_E_INVALID, "'%.80s' has no contents", reader->values[value].name);
}

tn_status tn__pt2_same(pt2_reader *reader, uint32_t value, uint32_t operand) {
    pt2_value *made = &reader->values[value];
    tn_tensor_id source, result;
    TN_TRY(tn__pt2_use(reader, operand, &source));
    if (made->output)
        return tn__pt2_op1(reader, "Identity", PT2_LIST(source), NULL, 0, value, &result);
    made->id = reader->values[made->same].id = source;
    return TN_OK;
}

static tn_status node_constant(pt2_reader *reader, tn_tensor_spec *spec, tn_tensor_id *id) {
    reader->text.size = 0;
    tn__text_printf(&reader->text, "%s.%u", reader->name, ++reader->temporaries);
    if (reader->text.failed) return tn__no_memory(reader->error, "the model");
    spec->name = reader->text.data;
    spec->kind = TN_KIND_CONSTANT;
    return tn_graph_add_tensor(reader->importer->graph, spec, id, reader->error);
}

tn_status tn__pt2_constant_ints(pt2_reader *reader, const int64_t *values, uint32_t count,
                                tn_tensor_id *id) {
    static const int64_t none = 0;
    int64_t length = count;
    tn_tensor_spec spec = {.dtype = TN_INT64,
                           .rank = 1,
                           .shape = &length,
                           .value = {.count = count, .ints = count > 0 ? values : &none}};
    return node_constant(reader, &spec, id);
}

tn_status tn__pt2_scalar(pt2_reader *reader, tn_dtype dtype, double number, tn_tensor_id *id) {
    bool integer =
        dtype != TN_FLOAT16 && dtype != TN_BFLOAT16 && dtype != TN_FLOAT32 && dtype != TN_FLOAT64;
    bool fits = number > -9.2e18 && number < 9.2e18;
    int64_t whole = fits ? (int64_t)number : 0;
    double real = dtype == TN_FLOAT32 ? (double)(float)number : number;
    tn_tensor_spec spec = {
        .dtype = dtype,
        .value = {.count = 1, .ints = integer ? &whole : NULL, .floats = integer ? NULL : &real}};
    return node_constant(reader, &spec, id);
}

/* --- operators -------------------------------------------------------------------------------- */

tn_status tn__pt2_op(pt2_reader *reader, const char *type, const tn_tensor_id *inputs,
                     uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                     const tn_tensor_id *outputs, uint32_t output_count) {
    tn_op_spec spec = {.name = reader->name,
                       .type = type,
                       .version = NODE_OPSET,
                       .inputs = inputs,
                       .outputs = outputs,
                       .attrs = attrs,
                       .input_count = input_count,
                       .output_count = output_count,
                       .attr_count = attr_count};
    return tn_graph_add_op(reader->importer->graph, &spec, NULL, reader->error);
}

tn_status tn__pt2_op1(pt2_reader *reader, const char *type, const tn_tensor_id *inputs,
                      uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                      uint32_t value, tn_tensor_id *output) {
    TN_TRY(value == PT2_NONE ? tn__pt2_between(reader, output)
                             : tn__pt2_make(reader, value, output));
    return tn__pt2_op(reader, type, inputs, input_count, attrs, attr_count, output, 1);
}

/* --- adding a node as PyTorch's own operator -------------------------------------------------- */

/* Makes attributes of the numbers among the node's arguments, so that reports can show them. */
static tn_status node_attrs(pt2_reader *reader, tn_attr **made, uint32_t *count) {
    json_t *inputs = json_object_get(reader->node, "inputs");
    size_t most = json_array_size(inputs);
    tn_attr *attrs = tn__arena_array(&reader->arena, most + 1, sizeof *attrs);
    int64_t *ints = tn__arena_array(&reader->arena, most + 1, sizeof *ints);
    double *floats = tn__arena_array(&reader->arena, most + 1, sizeof *floats);
    if (attrs == NULL || ints == NULL || floats == NULL)
        return tn__no_memory(reader->error, "the model");
    *made = attrs;
    *count = 0;
    for (size_t i = 0; i < most; i++) {
        json_t *input = json_array_get(inputs, i), *argument = json_object_get(input, "arg");
        const char *name = json_string_value(json_object_get(input, "name"));
        json_t *whole = json_object_get(argument, "as_int");
        json_t *real = json_object_get(argument, "as_float");
        if (name == NULL || *name == '\0') continue;
        if (json_is_integer(whole)) {
            ints[*count] = json_integer_value(whole);
            attrs[*count] = PT2_INT(name, &ints[*count]);
            ++*count;
        } else if (json_is_real(real)) {
            floats[*count] = json_real_value(real);
            attrs[*count] = PT2_FLOAT(name, &floats[*count]);
            ++*count;
        }
    }
    return TN_OK;
}

tn_status tn__pt2_keep(pt2_reader *reader) {
    tn_attr *attrs = NULL;
    uint32_t attr_count = 0, inputs = reader->read_count, outputs = reader->make_count;
    bool shares = outputs > 0 && tn__pt2_alias(reader, 0) == PT2_SHARES;
    TN_TRY(node_attrs(reader, &attrs, &attr_count));
    tn_tensor_id *ids = tn__arena_array(&reader->arena, (size_t)inputs + outputs + 1, sizeof *ids);
    if (ids == NULL) return tn__no_memory(reader->error, "the model");
    for (uint32_t i = 0; i < inputs; i++) TN_TRY(tn__pt2_use(reader, reader->reads[i], &ids[i]));
    for (uint32_t k = 0; k < outputs; k++)
        TN_TRY(tn__pt2_make(reader, reader->makes[k], &ids[inputs + k]));
    /* the type begins with "alias." if the node returns a view, because aten.c decides by the
     * type */
    reader->text.size = 0;
    tn__text_printf(&reader->text, "%s%s", shares ? "alias." : "", reader->type);
    if (reader->text.failed) return tn__no_memory(reader->error, "the model");
    tn_op_spec spec = {.name = reader->name,
                       .type = reader->text.data,
                       .domain = reader->domain,
                       .inputs = ids,
                       .outputs = ids + inputs,
                       .attrs = attrs,
                       .input_count = inputs,
                       .output_count = outputs,
                       .attr_count = attr_count};
    return tn_graph_add_op(reader->importer->graph, &spec, NULL, reader->error);
}
