/* model_file.c - writes an .onnx file with other contents of its parameters, and with quantised
 * weights stored as integers.
 *
 *     w (real) ── QuantizeLinear ── q ── DequantizeLinear      becomes
 *                                   q (integers) ── DequantizeLinear
 *
 * Everything else of the file is copied byte for byte: other nodes, shapes, metadata, functions,
 * unknown fields. A parameter whose data is that of the file is copied as well, so external data
 * stays where it is, unless the new file is in another folder. The integers come from the engine's
 * own kernel of QuantizeLinear, so a run of the new file reads the numbers that a run of the old
 * one rounds to.
 *
 * Cost: O(size of the file and of the parameters); memory: the new file, and twice the largest
 * parameter.
 *
 * Source: onnx.proto.
 */
#include <tenure/train.h>

#include "base/base.h"
#include "graph/rules/fold.h"
#include "io/import/onnx/onnx_reader.h"
#include "io/import/onnx/proto.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_IR_APART 4 /* from this IR version on, initializers need not be inputs of the graph */

/* What the main graph of the file has under one name. */
typedef struct file_name {
    uint32_t readers; /* number of operands of nodes with this name, in subgraphs too */
    bool is_node;     /* a node makes it */
    bool quantises;   /* this node is a QuantizeLinear */
    bool is_output;   /* it is an output of the graph */
    bool is_gone;     /* nothing reads it after the change, so it is left out */
    tn_op_id fold;    /* the QuantizeLinear of the graph whose result is stored; TN_NONE: none */
    tn_tensor_id id;  /* the tensor of the graph; TN_NONE: the graph has none in its main block */
} file_name;

typedef struct file_image {
    tn_context context;
    tn__arena arena;
    const char *path, *output;
    const tn_graph *graph;
    const tn_contents_of *contents;
    tn_contents *own; /* the contents of the file; NULL: they cannot be read */
    tn__file mapped;
    tn__names names; /* of the file; the numbers are indices into `list` */
    file_name *list;
    uint32_t count;
    size_t room;
    int64_t ir;
    bool adds; /* true: an initializer is added */
    tn_written written;
    tn_error *error;
} file_image;

static tn_status file_no_memory(const file_image *image) {
    return tn__no_memory(image->error, "the model's file");
}

static tn_status file_bad(const file_image *image) {
    TN_FAIL(image->error, TN_E_INVALID, "%.200s is not an .onnx file, or it is damaged",
            image->path);
}

/* --- names of the file --- */

static tn_status file_add_name(file_image *image, tn__span name, file_name **entry) {
    uint32_t existing = TN__NAMES_NONE;
    if (!tn__names_add(&image->names, (const char *)name.bytes, name.size, image->count, &existing))
        return file_no_memory(image);
    if (existing == TN__NAMES_NONE) {
        if (!tn__reserve(&image->context, &image->list, &image->room, (size_t)image->count + 1,
                         sizeof *image->list))
            return file_no_memory(image);
        existing = image->count++;
        image->list[existing] = (file_name){.fold = TN_NONE, .id = TN_NONE};
    }
    *entry = &image->list[existing];
    return TN_OK;
}

static file_name *file_find(const file_image *image, tn__span name) {
    uint32_t at = tn__names_find(&image->names, (const char *)name.bytes, name.size);
    return at != TN__NAMES_NONE ? &image->list[at] : NULL;
}

/* Returns the first field with a number; size 0: there is none. */
static tn__span file_field(tn__span message, uint32_t number) {
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&message, &field, &bad))
        if (field.number == number) return field.inside;
    return (tn__span){NULL, 0};
}

static tn_status file_scan_graph(file_image *image, tn__span graph, uint32_t depth);

static tn_status file_scan_attribute(file_image *image, tn__span attribute, uint32_t depth) {
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&attribute, &field, &bad))
        if (field.number == ONNX_ATTR_G || field.number == ONNX_ATTR_GRAPHS)
            TN_TRY(file_scan_graph(image, field.inside, depth + 1));
    return bad ? file_bad(image) : TN_OK;
}

static tn_status file_scan_node(file_image *image, tn__span node, uint32_t depth) {
    tn__proto_field field;
    tn__span left = node;
    file_name *entry;
    bool bad = false;
    while (tn__proto_next(&left, &field, &bad)) {
        if (field.number == ONNX_NODE_ATTRIBUTE)
            TN_TRY(file_scan_attribute(image, field.inside, depth));
        if (field.number == ONNX_NODE_INPUT) {
            TN_TRY(file_add_name(image, field.inside, &entry));
            entry->readers++;
        }
        if (field.number != ONNX_NODE_OUTPUT || depth > 0) continue;
        TN_TRY(file_add_name(image, field.inside, &entry));
        entry->is_node = true;
        entry->quantises = tn__span_is(file_field(node, ONNX_NODE_TYPE), "QuantizeLinear");
    }
    return bad ? file_bad(image) : TN_OK;
}

/* Counts the readers of all names. depth: 0 for the main graph. An output of a subgraph reads its
 * name. */
static tn_status file_scan_graph(file_image *image, tn__span graph, uint32_t depth) {
    tn__proto_field field;
    bool bad = false;
    if (depth > ONNX_DEPTH_MAX) return file_bad(image);
    while (tn__proto_next(&graph, &field, &bad)) {
        file_name *entry;
        if (field.number == ONNX_GRAPH_NODE) TN_TRY(file_scan_node(image, field.inside, depth));
        if (field.number == ONNX_GRAPH_INITIALIZER && depth == 0)
            TN_TRY(file_add_name(image, file_field(field.inside, ONNX_TENSOR_NAME), &entry));
        if (field.number != ONNX_GRAPH_OUTPUT) continue;
        TN_TRY(file_add_name(image, file_field(field.inside, ONNX_INFO_NAME), &entry));
        entry->readers++;
        if (depth == 0) entry->is_output = true;
    }
    return bad ? file_bad(image) : TN_OK;
}

/* --- what is stored as integers --- */

/* Whether the tensor is read from a file, and no operator but a Constant makes it. */
static bool file_is_stored(const tn_graph *graph, tn_tensor_id id) {
    if (id == TN_NONE) return true;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (tensor->block != 0 || !tn_tensor_is_constant(tensor)) return false;
    return tensor->producer == TN_NONE ||
           strcmp(tn_graph_op(graph, tensor->producer)->type, "Constant") == 0;
}

static file_name *file_of(const file_image *image, tn_tensor_id id) {
    const char *name = tn_graph_tensor(image->graph, id)->name;
    return file_find(image, (tn__span){(const uint8_t *)name, strlen(name)});
}

/* Marks the QuantizeLinear nodes of stored weights. */
static void file_choose(file_image *image) {
    const tn_graph *graph = image->graph;
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t i = 0; i < block->op_count; i++) {
        const tn_op *op = tn_graph_op(graph, block->ops[i]);
        bool stored = tn__op_is_contrib(op, "QuantizeLinear") && op->input_count >= 2;
        for (uint32_t k = 0; k < op->input_count && stored; k++)
            stored = file_is_stored(graph, op->inputs[k]);
        if (!stored || op->inputs[0] == TN_NONE || op->outputs[0] == TN_NONE) continue;
        file_name *q = file_of(image, op->outputs[0]), *x = file_of(image, op->inputs[0]);
        if (q == NULL || x == NULL || !q->quantises || q->is_output || q->fold != TN_NONE) continue;
        q->fold = block->ops[i];
        image->adds = true;
        x->readers--;
        x->is_gone = x->readers == 0 && !x->is_output;
    }
}

/* --- contents --- */

static tn_status file_read(const file_image *image, tn_tensor_id id, void *bytes) {
    const tn_contents_of *from = image->contents;
    uint64_t size = tn_graph_tensor(image->graph, id)->bytes;
    if (from != NULL && from->read != NULL)
        return from->read(from->self, image->graph, id, bytes, size, image->error);
    if (image->own == NULL) TN_FAIL(image->error, TN_E_IO, "%.200s cannot be read", image->path);
    return tn_contents_read(image->own, image->graph, id, bytes, size, image->error);
}

/* Whether the file has these contents. */
static bool file_has(const file_image *image, tn_tensor_id id, const void *bytes, void *room) {
    uint64_t size = tn_graph_tensor(image->graph, id)->bytes;
    return image->own != NULL &&
           tn_contents_read(image->own, image->graph, id, room, size, NULL) == TN_OK &&
           memcmp(bytes, room, (size_t)size) == 0;
}

/* Whether the graph has the tensor, with data. */
static bool file_has_data(const file_image *image, const file_name *entry) {
    if (entry == NULL || entry->id == TN_NONE) return false;
    uint64_t bytes = tn_graph_tensor(image->graph, entry->id)->bytes;
    return bytes > 0 && bytes != TN_SIZE_UNKNOWN;
}

/* Whether the tensor is one whose contents training may change. */
static bool file_is_parameter(const file_image *image, const file_name *entry) {
    if (!file_has_data(image, entry)) return false;
    const tn_tensor *tensor = tn_graph_tensor(image->graph, entry->id);
    return tensor->kind == TN_KIND_PARAMETER && tn__is_float(tensor->dtype);
}

static tn_status file_put_tensor(const file_image *image, tn_tensor_id id, const void *bytes,
                                 uint64_t size, tn__text *to) {
    const tn_tensor *tensor = tn_graph_tensor(image->graph, id);
    tn__text text;
    tn__text_init(&text, &image->context);
    for (uint32_t d = 0; d < tensor->rank; d++)
        tn__proto_varint(&text, ONNX_TENSOR_DIMS, (uint64_t)tensor->shape[d]);
    /* the numbers of element types are those of ONNX */
    tn__proto_varint(&text, ONNX_TENSOR_TYPE, (uint64_t)tensor->dtype);
    tn__proto_string(&text, ONNX_TENSOR_NAME, tensor->name);
    tn__proto_bytes(&text, ONNX_TENSOR_RAW, bytes, (size_t)size);
    tn__proto_bytes(to, ONNX_GRAPH_INITIALIZER, text.data, text.size);
    bool failed = text.failed || to->failed;
    tn__text_release(&text);
    return failed ? file_no_memory(image) : TN_OK;
}

/* Appends a tensor if the file does not have its contents, or if `whole`. *put: set to whether it
 * did. */
static tn_status file_put_parameter(file_image *image, tn_tensor_id id, bool whole, tn__text *to,
                                    bool *put) {
    uint64_t size = tn_graph_tensor(image->graph, id)->bytes;
    uint8_t *both = tn__alloc_array(&image->context, 2, (size_t)size);
    *put = false;
    if (both == NULL) return file_no_memory(image);
    tn_status status = file_read(image, id, both);
    bool same = status == TN_OK && file_has(image, id, both, both + size);
    if (status == TN_OK && (whole || !same)) {
        status = file_put_tensor(image, id, both, size, to);
        image->written.tensors += !same;
        *put = true;
    }
    tn__free(&image->context, both, 2 * (size_t)size);
    return status;
}

/* --- quantising --- */

/* Makes a graph of one QuantizeLinear with the operands of `op` as inputs. */
static tn_status quantise_graph(const file_image *image, const tn_op *op, tn_graph *graph,
                                tn_tensor_id *inputs, tn_tensor_id *output) {
    tn_op_spec spec = {.type = op->type,
                       .domain = op->domain,
                       .version = op->version,
                       .inputs = inputs,
                       .input_count = op->input_count,
                       .outputs = output,
                       .output_count = 1,
                       .attrs = op->attrs,
                       .attr_count = op->attr_count};
    for (uint32_t k = 0; k < op->input_count; k++) {
        inputs[k] = TN_NONE;
        if (op->inputs[k] == TN_NONE) continue;
        const tn_tensor *like = tn_graph_tensor(image->graph, op->inputs[k]);
        tn_tensor_spec input = {.name = like->name,
                                .dtype = like->dtype,
                                .kind = TN_KIND_INPUT,
                                .rank = like->rank,
                                .shape = like->shape};
        TN_TRY(tn_graph_add_tensor(graph, &input, &inputs[k], image->error));
    }
    tn_tensor_spec made = {.name = "q", .kind = TN_KIND_OUTPUT, .rank = TN_RANK_UNKNOWN};
    TN_TRY(tn_graph_add_tensor(graph, &made, output, image->error));
    TN_TRY(tn_graph_add_op(graph, &spec, NULL, image->error));
    return tn_graph_infer(graph, image->error);
}

static tn_status quantise_run(file_image *image, const tn_op *op, tn_graph *graph,
                              tn_session *session, const tn_tensor_id *inputs, tn_tensor_id output,
                              tn__text *to) {
    tn_tensor_id id = op->outputs[0];
    for (uint32_t k = 0; k < op->input_count; k++)
        if (inputs[k] != TN_NONE)
            TN_TRY(file_read(image, op->inputs[k], tn_session_array(session, inputs[k])->data));
    TN_TRY(tn_session_run(session, image->error));
    const tn_array *made = tn_session_array(session, output);
    if (made->bytes != tn_graph_tensor(image->graph, id)->bytes ||
        made->dtype != tn_graph_tensor(image->graph, id)->dtype)
        TN_FAIL(image->error, TN_E_INTERNAL, "'%.80s' is quantised to another type",
                tn_graph_tensor(graph, inputs[0])->name);
    image->written.quantised++;
    image->written.real_bytes += tn_graph_tensor(image->graph, op->inputs[0])->bytes;
    image->written.stored_bytes += made->bytes;
    return file_put_tensor(image, id, made->data, made->bytes, to);
}

/* Appends the result of a QuantizeLinear of a weight. */
static tn_status file_put_quantised(file_image *image, tn_op_id id, tn__text *to) {
    const tn_op *op = tn_graph_op(image->graph, id);
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_tensor_id *inputs = tn__arena_array(&image->arena, op->input_count, sizeof *inputs), output;
    tn_graph *graph = NULL;
    tn_session *session = NULL;
    if (inputs == NULL) return file_no_memory(image);
    options.context = &image->context;
    options.plain = true;
    tn_status status = tn_graph_create(&image->context, &graph, image->error);
    if (status == TN_OK) status = quantise_graph(image, op, graph, inputs, &output);
    if (status == TN_OK) status = tn_session_open(graph, &options, &session, image->error);
    if (status == TN_OK) status = quantise_run(image, op, graph, session, inputs, output, to);
    tn_session_close(session);
    tn_graph_destroy(graph);
    return status;
}

/* --- writing --- */

static bool file_folder(const char *path, struct stat *folder) {
    const char *slash = strrchr(path, '/');
    char text[4096];
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    if (slash != NULL && slash - path >= (long)sizeof text) return false;
    snprintf(text, sizeof text, "%.*s", length, slash == NULL ? "." : path);
    return stat(text, folder) == 0;
}

/* Whether the tensor's data is in another file, which would not be found from the new file, because
 * it is named relative to the folder of the model. */
static bool file_loses(const file_image *image, tn__span tensor) {
    struct stat from, to;
    if (file_field(tensor, ONNX_TENSOR_EXTERNAL).bytes == NULL) return false;
    return !file_folder(image->path, &from) || !file_folder(image->output, &to) ||
           from.st_dev != to.st_dev || from.st_ino != to.st_ino;
}

static tn_status file_put_initializer(file_image *image, const tn__proto_field *field,
                                      tn__text *to) {
    const file_name *entry = file_find(image, file_field(field->inside, ONNX_TENSOR_NAME));
    bool put = false, whole = file_loses(image, field->inside);
    if (entry != NULL && entry->is_gone) return TN_OK;
    if (file_is_parameter(image, entry) || (whole && file_has_data(image, entry)))
        TN_TRY(file_put_parameter(image, entry->id, whole, to, &put));
    if (!put) tn__proto_copy(to, field->raw);
    return TN_OK;
}

/* Appends a node, or the tensor that takes its place: integers, or a parameter that the file makes
 * by an operator. */
static tn_status file_put_node(file_image *image, const tn__proto_field *field, tn__text *to) {
    const file_name *entry = file_find(image, file_field(field->inside, ONNX_NODE_OUTPUT));
    bool put = false;
    if (entry != NULL && entry->is_gone) return TN_OK;
    if (entry != NULL && entry->fold != TN_NONE) return file_put_quantised(image, entry->fold, to);
    if (file_is_parameter(image, entry) && entry->is_node) {
        TN_TRY(file_put_parameter(image, entry->id, false, to, &put));
        image->adds = image->adds || put;
    }
    if (!put) tn__proto_copy(to, field->raw);
    return TN_OK;
}

/* Whether a description of a tensor is of one that is left out. */
static bool file_describes_gone(const file_image *image, const tn__proto_field *field) {
    if (field->number != ONNX_GRAPH_VALUE_INFO && field->number != ONNX_GRAPH_INPUT) return false;
    const file_name *entry = file_find(image, file_field(field->inside, ONNX_INFO_NAME));
    return entry != NULL && entry->is_gone;
}

static tn_status file_put_graph(file_image *image, tn__span from, tn__text *to) {
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&from, &field, &bad)) {
        if (field.number == ONNX_GRAPH_INITIALIZER)
            TN_TRY(file_put_initializer(image, &field, to));
        else if (field.number == ONNX_GRAPH_NODE)
            TN_TRY(file_put_node(image, &field, to));
        else if (!file_describes_gone(image, &field))
            tn__proto_copy(to, field.raw);
        if (to->failed) return file_no_memory(image);
    }
    return bad ? file_bad(image) : TN_OK;
}

/* Finds the tensors of the graph that the file has by name. */
static void file_match(file_image *image) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(image->graph); id++) {
        if (tn_graph_tensor(image->graph, id)->block != 0) continue;
        file_name *entry = file_of(image, id);
        if (entry != NULL && entry->id == TN_NONE) entry->id = id;
    }
}

static tn_status file_scan(file_image *image, tn__span file) {
    tn__proto_field field;
    bool bad = false, any = false;
    while (tn__proto_next(&file, &field, &bad)) {
        if (field.number == ONNX_MODEL_IR) image->ir = (int64_t)field.value;
        if (field.number != ONNX_MODEL_GRAPH) continue;
        TN_TRY(file_scan_graph(image, field.inside, 0));
        any = true;
    }
    if (bad || !any) return file_bad(image);
    file_match(image);
    file_choose(image);
    return TN_OK;
}

/* Appends the fields of the model. Its IR version may change, so it is written last: the order of
 * fields has no meaning in protobuf. */
static tn_status file_put_model(file_image *image, tn__span file, tn__text *to) {
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&file, &field, &bad)) {
        if (field.number == ONNX_MODEL_IR) continue;
        if (field.number != ONNX_MODEL_GRAPH) {
            tn__proto_copy(to, field.raw);
            continue;
        }
        tn__text graph;
        tn__text_init(&graph, &image->context);
        tn_status status = file_put_graph(image, field.inside, &graph);
        if (status == TN_OK) tn__proto_bytes(to, ONNX_MODEL_GRAPH, graph.data, graph.size);
        tn__text_release(&graph);
        TN_TRY(status);
    }
    int64_t ir = image->adds && image->ir < FILE_IR_APART ? FILE_IR_APART : image->ir;
    tn__proto_varint(to, ONNX_MODEL_IR, (uint64_t)ir);
    if (bad) return file_bad(image);
    if (to->size > INT32_MAX)
        TN_FAIL(image->error, TN_E_UNSUPPORTED,
                "the model would have more than 2 GiB, the limit of an .onnx file");
    return to->failed ? file_no_memory(image) : TN_OK;
}

static tn_status file_make(file_image *image) {
    tn__text text;
    struct stat from, to;
    if (stat(image->path, &from) == 0 && stat(image->output, &to) == 0 &&
        from.st_dev == to.st_dev && from.st_ino == to.st_ino)
        TN_FAIL(image->error, TN_E_INVALID, "the output is the model itself: '%.200s'",
                image->output);
    if (!tn__has_suffix(image->path, ".onnx"))
        TN_FAIL(image->error, TN_E_UNSUPPORTED,
                "%.200s is not an .onnx file, and only these can be written with other parameters",
                image->path);
    TN_TRY(tn__file_map_most(image->path, image->context.read_limit, &image->mapped, image->error));
    const tn__span file = {image->mapped.bytes, image->mapped.size};
    /* external data may be missing; parameters are then all written into the file */
    if (tn_contents_open(image->path, &image->context, &image->own, NULL) != TN_OK)
        image->own = NULL;
    TN_TRY(file_scan(image, file));
    tn__text_init(&text, &image->context);
    tn_status status = file_put_model(image, file, &text);
    if (status == TN_OK) status = tn__file_write(image->output, text.data, text.size, image->error);
    image->written.file_bytes = text.size;
    tn__text_release(&text);
    return status;
}

tn_status tn_model_write(const char *path, const tn_graph *graph, const tn_contents_of *contents,
                         const char *output, tn_written *written, tn_error *error) {
    file_image image = {.context = *tn_graph_context(graph),
                        .path = path,
                        .output = output,
                        .graph = graph,
                        .contents = contents,
                        .error = error};
    tn__arena_init(&image.arena, &image.context);
    tn__names_init(&image.names, &image.context);
    tn_status status = file_make(&image);
    if (status == TN_OK && written != NULL) *written = image.written;
    tn_contents_close(image.own);
    tn__file_unmap(&image.mapped);
    tn__free(&image.context, image.list, image.room * sizeof *image.list);
    tn__names_release(&image.names);
    tn__arena_release(&image.arena);
    return status;
}
