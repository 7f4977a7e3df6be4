/* tflite.c - reads TensorFlow Lite models (.tflite), schema version 3.
 *
 * The file is verified whole before it is read (flat.h). Then subgraph 0 becomes the main block,
 * and the subgraphs that its operators name become their blocks. Unreferenced subgraphs are
 * programs of their own (signatures); they are left out with a line in the log. Weights are never
 * read. tflite_reader.h lists the files of the reader.
 *
 * Cost: O(file without payloads); memory at most a constant times that.
 */
#include "io/import/tflite_reader.h"

#define TFLITE_VERSION 3u
#define TFLITE_CODE_GREATER 127u /* larger numbers are only in the newer field */
#define TFLITE_CUSTOM 32u
#define TFLITE_UNITS_MIN 100000u
#define TFLITE_ZIP_END 22u /* bytes of the record that ends an archive, without its comment */

tn_status tn__tflite_no_memory(const tflite_reader *reader) {
    return tn__no_memory(reader->importer->error, "the model");
}

/* If each part of a file is used once, an operand takes 4 bytes of the file, a name that serves a
 * tensor and its operator four characters, and everything else more. So one unit for each byte
 * suffices.
 */
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

/* --- operator codes ------------------------------------------------------------------------- */

/* The old field holds a byte; the newer one is 0 in files that do not have it. */
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

/* --- the file as a whole -------------------------------------------------------------------- */

/* Metadata and label files may follow the model as a zip archive. The end of the archive lists its
 * contents: an archive without that record was truncated. */
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

/* Tensor data outside the FlatBuffer, in files above 2 GiB; *end moves after it. */
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

/* Variable tensors live from the start of the program to its end. */
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

/* Subgraphs that are never run are not part of the program. */
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
        next = reader->pending[i]; /* by value: the queue grows */
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

/* A buffer holds its tensor's plain bytes, and may be longer. */
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
