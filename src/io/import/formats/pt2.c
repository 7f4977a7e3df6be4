/* pt2.c - reads programs of torch.export (.pt2), schema version 8.
 *
 * The archive is a zip file with the program as JSON and the weights as plain bytes. Each node of
 * the program calls an operator of PyTorch. A node becomes operators of ONNX that compute the same,
 * so that the graph can be trained and run; a node without a counterpart stays PyTorch's own
 * operator, with the sizes that the program states. With `keep_aten` all nodes stay, and views
 * share the storage of their operand as they do in PyTorch. Weights are never read here.
 * pt2_reader.h lists the files of the reader.
 *
 * Source: PyTorch's torch/_export/serde/schema.py and its PT2 archive specification.
 * Cost: O(program).
 */
#include "io/import/importer.h"

#define PT2_SUMMARY "programs of torch.export, schema version 8"

/* Accepts any zip archive, so that the reader can say why an archive of another kind is no
 * program. */
static bool pt2_probe(const uint8_t *bytes, size_t size) {
    return size >= 4 && memcmp(bytes, "PK\x03\x04", 4) == 0;
}

#ifdef TENURE_MINIMAL
static tn_status pt2_read(tn_importer *importer) {
    TN_FAIL(importer->error, TN_E_UNSUPPORTED, "this build reads no JSON");
}

static tn_status pt2_contents(const tn__wanted *wanted, bool *found) {
    (void)wanted;
    *found = false;
    return TN_OK;
}

#define pt2_close NULL
#else
#include "io/import/pt2/pt2_reader.h"

#define PT2_MAJOR 8
#define pt2_contents tn__pt2_contents
#define pt2_close tn__pt2_close

/* --- finding the program in the archive ------------------------------------------------------- */

static bool pt2_ends(tn__span name, const char *end) {
    size_t length = strlen(end);
    return name.size >= length && memcmp(name.bytes + name.size - length, end, length) == 0 &&
           (name.size == length || end[0] == '/' || name.bytes[name.size - length - 1] == '/');
}

static bool pt2_in(tn__span name, tn__span root, const char *folder) {
    size_t length = strlen(folder);
    return name.size > root.size + length && memcmp(name.bytes, root.bytes, root.size) == 0 &&
           memcmp(name.bytes + root.size, folder, length) == 0;
}

/* Reads a short member as text without trailing white space; the text is "" if the member is
 * absent. */
static tn_status pt2_short(pt2_reader *reader, const char *name, char text[16]) {
    reader->text.size = 0;
    tn__text_add(&reader->text, (const char *)reader->root.bytes, reader->root.size);
    tn__text_put(&reader->text, name);
    text[0] = '\0';
    if (reader->text.failed) return tn__no_memory(reader->error, "the archive");
    const tn__zip_member *member = tn__zip_find(&reader->zip, reader->text.data, reader->text.size);
    if (member == NULL) return TN_OK;
    tn__span bytes;
    uint8_t *made;
    TN_TRY(tn__zip_read(&reader->zip, member, &bytes, &made));
    size_t length = 0;
    while (length < bytes.size && length < 15 && bytes.bytes[length] > ' ') length++;
    memcpy(text, bytes.bytes, length);
    text[length] = '\0';
    tn__free(reader->importer->context, made, made != NULL ? (size_t)member->size + 1 : 0);
    return TN_OK;
}

static tn_status pt2_json(pt2_reader *reader, const tn__zip_member *member, json_t **json) {
    tn__span bytes;
    uint8_t *made;
    json_error_t why;
    tn_status status;
    TN_TRY(tn__zip_read(&reader->zip, member, &bytes, &made));
    *json = tn__json_parse(bytes.bytes, bytes.size, &why, &status);
    tn__free(reader->importer->context, made, made != NULL ? (size_t)member->size + 1 : 0);
    if (*json != NULL) return TN_OK;
    status = tn__fail(reader->error, status, "%.150s", why.text);
    return tn__where(reader->error, status, "member '%.*s', byte %d",
                     (int)(member->name.size < 80 ? member->name.size : 80),
                     (const char *)member->name.bytes, why.position);
}

/* Returns the first member, in the order of the archive, with a name that ends with `suffix`; NULL
 * if the archive has no such member. */
static const tn__zip_member *pt2_suffixed(const pt2_reader *reader, const char *suffix) {
    for (size_t i = 0; i < reader->zip.count; i++)
        if (pt2_ends(reader->zip.members[i].name, suffix)) return &reader->zip.members[i];
    return NULL;
}

/* Returns the member of the program among models/NAME.json: the one with the name "model",
 * otherwise the first. *count is the number of programs. */
static const tn__zip_member *pt2_model(const pt2_reader *reader, uint32_t *count) {
    const tn__zip_member *found = NULL;
    *count = 0;
    for (size_t i = 0; i < reader->zip.count; i++) {
        const tn__zip_member *member = &reader->zip.members[i];
        tn__span name = member->name;
        if (!pt2_in(name, reader->root, "models/") || name.size < 5 ||
            memcmp(name.bytes + name.size - 5, ".json", 5) != 0)
            continue;
        ++*count;
        if (found == NULL || pt2_ends(name, "models/model.json")) found = member;
    }
    return found;
}

static tn_status pt2_check_version(pt2_reader *reader) {
    char format[16], version[16];
    TN_TRY(pt2_short(reader, "archive_format", format));
    TN_TRY(pt2_short(reader, "archive_version", version));
    if (strcmp(format, "pt2") != 0)
        TN_FAIL(reader->error, TN_E_UNSUPPORTED, "the archive has format '%s', not pt2", format);
    if (version[0] != '\0' && strcmp(version, "0") != 0)
        TN_FAIL(reader->error, TN_E_UNSUPPORTED,
                "version %s of the archive; this reader knows version 0", version);
    return TN_OK;
}

/* Finds the member with the program, in the current layout of the archive or in the older one. */
static tn_status pt2_find(pt2_reader *reader, const tn__zip_member **program) {
    const tn__zip_member *mark = pt2_suffixed(reader, "archive_format");
    uint32_t count = 0;
    *program = NULL;
    if (mark != NULL) {
        reader->root = (tn__span){mark->name.bytes, mark->name.size - strlen("archive_format")};
        TN_TRY(pt2_check_version(reader));
        *program = pt2_model(reader, &count);
    } else {
        *program = pt2_suffixed(reader, "serialized_exported_program.json");
        reader->legacy = true;
    }
    if (count > 1)
        tn__import_log(reader->importer, "the archive has %u programs; '%.*s' is read", count,
                       (int)((*program)->name.size < 80 ? (*program)->name.size : 80),
                       (const char *)(*program)->name.bytes);
    if (*program != NULL) return TN_OK;
    if (mark != NULL)
        TN_FAIL(reader->error, TN_E_UNSUPPORTED,
                "the archive has no program, only compiled code: save it with torch.export.save");
    if (pt2_suffixed(reader, "data.pkl") != NULL)
        TN_FAIL(reader->error, TN_E_UNSUPPORTED,
                "a pickle of PyTorch (torch.save or torch.jit.save): torch.export.save writes what "
                "is read here");
    TN_FAIL(reader->error, TN_E_INVALID,
            "this is a zip archive, but not of torch.export (it has no archive_format); unpack it "
            "first");
}

/* --- opening the program ---------------------------------------------------------------------- */

static tn_status pt2_check_schema(pt2_reader *reader) {
    json_t *version = json_object_get(reader->program, "schema_version");
    json_t *major = json_object_get(version, "major"), *minor = json_object_get(version, "minor");
    const char *torch = json_string_value(json_object_get(reader->program, "torch_version"));
    json_t *module = json_object_get(reader->program, "graph_module");
    if (json_is_integer(version)) /* PyTorch 2.2 and before */
        TN_FAIL(reader->error, TN_E_UNSUPPORTED,
                "schema version %lld, which has no minor version; this reader knows version %d; "
                "export the model with PyTorch 2.7 or later",
                (long long)json_integer_value(version), PT2_MAJOR);
    if (!json_is_integer(major))
        TN_FAIL(reader->error, TN_E_INVALID, "the program has no schema_version");
    if (json_integer_value(major) != PT2_MAJOR)
        TN_FAIL(reader->error, TN_E_UNSUPPORTED,
                "schema version %lld.%lld (torch %.40s); this reader knows version %d",
                (long long)json_integer_value(major), (long long)json_integer_value(minor),
                torch != NULL ? torch : "unknown", PT2_MAJOR);
    reader->graph = json_object_get(module, "graph");
    reader->signature = json_object_get(module, "signature");
    if (!json_is_object(reader->graph))
        TN_FAIL(reader->error, TN_E_INVALID, "the program has no graph");
    return TN_OK;
}

/* Reads one of the two lists of stored tensors, weights or constants. The older layout has none. */
static tn_status pt2_config(pt2_reader *reader, const char *suffix, json_t **config) {
    for (size_t i = 0; i < reader->zip.count && !reader->legacy; i++) {
        const tn__zip_member *member = &reader->zip.members[i];
        if (!pt2_ends(member->name, suffix)) continue;
        TN_TRY(pt2_json(reader, member, config));
        return TN_OK;
    }
    return TN_OK;
}

tn_status tn__pt2_archive(pt2_reader *reader, const tn__zip_member **program) {
    tn_importer *importer = reader->importer;
    char order[16];
    tn__span file = {importer->bytes, importer->size};
    TN_TRY(tn__zip_open(importer->context, file, &reader->zip, reader->error));
    TN_TRY(pt2_find(reader, program));
    TN_TRY(pt2_short(reader, "byteorder", order));
    if (order[0] != '\0' && strcmp(order, "little") != 0) {
        tn__import_log(importer, "its weights are in byte order '%s' and are not read", order);
        return TN_OK;
    }
    TN_TRY(pt2_config(reader, "data/weights/model_weights_config.json", &reader->weights));
    return pt2_config(reader, "data/constants/model_constants_config.json", &reader->constants);
}

static tn_status pt2_open(pt2_reader *reader) {
    const tn__zip_member *program;
    TN_TRY(tn__pt2_archive(reader, &program));
    TN_TRY(pt2_json(reader, program, &reader->program));
    return pt2_check_schema(reader);
}

/* --- inputs, parameters, buffers -------------------------------------------------------------- */

static json_t *pt2_entry(json_t *config, const char *name) {
    return name == NULL ? NULL : json_object_get(json_object_get(config, "config"), name);
}

/* Sets the kind of an input of the program (parameter, buffer, constant or input of the caller)
 * from its entry in the signature. */
static tn_status pt2_role(pt2_reader *reader, json_t *spec, pt2_value *value) {
    static const struct {
        const char *key, *name;
    } rows[] = {{"parameter", "parameter_name"},
                {"buffer", "buffer_name"},
                {"tensor_constant", "tensor_constant_name"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *of = json_object_get(spec, rows[i].key);
        const char *name = json_string_value(json_object_get(of, rows[i].name));
        if (of == NULL) continue;
        value->kind = i < 2 ? TN_KIND_PARAMETER : TN_KIND_CONSTANT;
        if (name == NULL) return TN_OK;
        value->shown = name;
        json_t *entry = pt2_entry(reader->weights, name);
        if (entry != NULL) return tn__pt2_payload(reader, entry, "data/weights/", value);
        entry = pt2_entry(reader->constants, name);
        return entry != NULL ? tn__pt2_payload(reader, entry, "data/constants/", value) : TN_OK;
    }
    value->kind =
        tn__import_is_parameter(reader->importer, value->name) ? TN_KIND_PARAMETER : TN_KIND_INPUT;
    return TN_OK;
}

static tn_status pt2_input(pt2_reader *reader, json_t *argument, json_t *spec) {
    json_t *tensor = json_object_get(argument, "as_tensor");
    const char *name = json_string_value(json_object_get(tensor, "name"));
    uint32_t number = tn__pt2_find(reader, name);
    /* an input that is a number, a token or an object has no tensor */
    if (tensor == NULL) return TN_OK;
    if (number == PT2_NONE)
        TN_FAIL(reader->error, TN_E_INVALID, "input '%.80s' is not in the list of tensors",
                name != NULL ? name : "");
    pt2_value *value = &reader->values[number];
    if (value->known) TN_FAIL(reader->error, TN_E_INVALID, "two inputs are called '%.80s'", name);
    value->known = value->given = true;
    tn_status status = pt2_role(reader, spec, value);
    return status == TN_OK ? status : tn__where(reader->error, status, "input '%.80s'", name);
}

static tn_status pt2_inputs(pt2_reader *reader) {
    json_t *inputs = json_object_get(reader->graph, "inputs");
    json_t *specs = json_object_get(reader->signature, "input_specs");
    for (size_t i = 0; i < json_array_size(inputs); i++)
        TN_TRY(pt2_input(reader, json_array_get(inputs, i), json_array_get(specs, i)));
    return TN_OK;
}

/* --- making the graph ------------------------------------------------------------------------- */

/* Adds those parameters and buffers to the graph that something reads, and all inputs of the
 * caller. */
static tn_status pt2_add_inputs(pt2_reader *reader) {
    json_t *inputs = json_object_get(reader->graph, "inputs");
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        json_t *tensor = json_object_get(json_array_get(inputs, i), "as_tensor");
        uint32_t number = tn__pt2_find(reader, json_string_value(json_object_get(tensor, "name")));
        if (number == PT2_NONE) continue;
        pt2_value *value = &reader->values[number];
        if (value->last == 0 && value->kind != TN_KIND_INPUT) continue;
        bool written = value->changed && reader->keep && value->kind != TN_KIND_INPUT;
        if (value->changed && value->kind == TN_KIND_CONSTANT) value->kind = TN_KIND_PARAMETER;
        tn_tensor_spec spec = {.name = value->shown,
                               .dtype = value->dtype,
                               .kind = value->kind,
                               .flags = written ? TN_TENSOR_UPDATED : 0,
                               .rank = value->rank,
                               .shape = value->shape,
                               .payload = value->payload};
        TN_TRY(tn_graph_add_tensor(reader->importer->graph, &spec, &value->id, reader->error));
    }
    return TN_OK;
}

/* Whether a node adds nothing to the graph: nodes that compute with sizes, or check them, have no
 * tensor as a result. */
static bool pt2_skips(const pt2_reader *reader) {
    return reader->make_count == 0 &&
           (strcmp(reader->domain, "aten") != 0 || tn__pt2_alias(reader, 0) != PT2_CHANGES);
}

static tn_status pt2_node(pt2_reader *reader) {
    bool done = false;
    if (pt2_skips(reader)) return TN_OK;
    if (!reader->keep) TN_TRY(tn__pt2_lower(reader, &done));
    if (done) return TN_OK;
    if (reader->strangers++ == 0) reader->stranger = reader->target;
    return tn__pt2_keep(reader);
}

static tn_status pt2_nodes(pt2_reader *reader) {
    size_t count = json_array_size(json_object_get(reader->graph, "nodes"));
    for (uint32_t i = 0; i < count; i++) {
        tn_status status = tn__pt2_enter(reader, i);
        if (status == TN_OK) status = pt2_node(reader);
        if (status != TN_OK) return tn__pt2_where(reader, status);
    }
    return TN_OK;
}

/* Sets *id to the tensor that becomes a result of the graph. If the result is an input, or a tensor
 * that was changed in place later, an Identity operator with the result as its output is added. */
static tn_status pt2_result(pt2_reader *reader, uint32_t number, tn_tensor_id *id) {
    pt2_value *value = &reader->values[number];
    TN_TRY(tn__pt2_use(reader, number, id));
    if (*id == value->id && tn_graph_tensor(reader->importer->graph, *id)->kind == TN_KIND_OUTPUT)
        return TN_OK;
    tn_tensor_id from = *id;
    tn_tensor_spec made = {.name = value->shown,
                           .dtype = value->dtype,
                           .kind = TN_KIND_OUTPUT,
                           .flags = TN_TENSOR_STATED,
                           .rank = value->rank,
                           .shape = value->shape};
    TN_TRY(tn_graph_add_tensor(reader->importer->graph, &made, id, reader->error));
    tn_op_spec spec = {.name = value->name,
                       .type = reader->keep ? "alias.default" : "Identity",
                       .domain = reader->keep ? "aten" : "",
                       .inputs = &from,
                       .outputs = id,
                       .input_count = 1,
                       .output_count = 1};
    return tn_graph_add_op(reader->importer->graph, &spec, NULL, reader->error);
}

/* Adds the results of the graph: first the results of the caller, then the new data of changed
 * buffers. */
static tn_status pt2_results(pt2_reader *reader) {
    tn_graph *graph = reader->importer->graph;
    json_t *outputs = json_object_get(reader->graph, "outputs");
    json_t *specs = json_object_get(reader->signature, "output_specs");
    size_t most = json_array_size(outputs);
    tn_tensor_id *ids = tn__arena_array(&reader->arena, most + 1, sizeof *ids);
    const tn_block *block = tn_graph_block(graph, 0);
    uint32_t count = 0, inputs = block->input_count, changed = 0;
    tn_tensor_id *before = tn__arena_copy(&reader->arena, block->inputs, inputs * sizeof *before);
    if (ids == NULL || (inputs > 0 && before == NULL))
        return tn__no_memory(reader->error, "the model");
    for (uint32_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < most; i++) {
            json_t *tensor = json_object_get(json_array_get(outputs, i), "as_tensor");
            json_t *spec = json_array_get(specs, i);
            bool own = spec == NULL || json_object_get(spec, "user_output") != NULL ||
                       json_object_get(spec, "loss_output") != NULL;
            if (tensor == NULL || own != (pass == 0)) continue;
            uint32_t value =
                tn__pt2_find(reader, json_string_value(json_object_get(tensor, "name")));
            TN_TRY(pt2_result(reader, value, &ids[count]));
            bool twice = false;
            for (uint32_t k = 0; k < count && k < 64; k++) twice = twice || ids[k] == ids[count];
            changed += pass;
            count += !twice;
        }
    if (changed > 0)
        tn__import_log(reader->importer,
                       "%u buffers or inputs change; their new contents are the last results",
                       changed);
    return tn_graph_set_block_io(graph, 0, before, inputs, ids, count, reader->error);
}

static tn_status pt2_build(pt2_reader *reader) {
    tn_importer *importer = reader->importer;
    reader->keep = importer->options->keep_aten;
    if (!reader->keep && !tn__pt2_functional(reader)) {
        reader->keep = true;
        tn__import_log(importer, "an operator in place changes a tensor of which views are read "
                                 "later: all operators stay PyTorch's own");
    }
    TN_TRY(pt2_add_inputs(reader));
    TN_TRY(pt2_nodes(reader));
    TN_TRY(pt2_results(reader));
    if (reader->strangers > 0 && !reader->keep)
        tn__import_log(importer,
                       "%u nodes have no counterpart here (first: %.80s): they are planned with "
                       "the stated sizes, but cannot run or be trained",
                       reader->strangers, reader->stranger);
    return TN_OK;
}

static tn_status pt2_program(pt2_reader *reader) {
    TN_TRY(pt2_open(reader));
    TN_TRY(tn__pt2_symbols(reader));
    TN_TRY(tn__pt2_values(reader));
    TN_TRY(tn__dims_check(&reader->importer->dims, reader->error));
    TN_TRY(pt2_inputs(reader));
    TN_TRY(tn__pt2_uses(reader));
    return pt2_build(reader);
}

void tn__pt2_release(pt2_reader *reader) {
    const tn_context *context = reader->importer->context;
    tn__free(context, reader->values, reader->value_room * sizeof *reader->values);
    tn__free(context, reader->changes, reader->change_room * sizeof *reader->changes);
    tn__free(context, reader->symbols, reader->symbol_room * sizeof *reader->symbols);
    tn__free(context, reader->reads, reader->read_room * sizeof *reader->reads);
    tn__free(context, reader->makes, reader->make_room * sizeof *reader->makes);
    tn__names_release(&reader->names);
    tn__names_release(&reader->symbol_names);
    tn__text_release(&reader->text);
    tn__arena_release(&reader->arena);
    tn__zip_release(&reader->zip);
    json_decref(reader->program);
    json_decref(reader->weights);
    json_decref(reader->constants);
}

void tn__pt2_init(pt2_reader *reader, tn_importer *importer) {
    *reader = (pt2_reader){.importer = importer, .error = importer->error};
    reader->zip.context = importer->context; /* so that the reader can be released at any time */
    tn__names_init(&reader->zip.names, importer->context);
    tn__arena_init(&reader->arena, importer->context);
    tn__names_init(&reader->names, importer->context);
    tn__names_init(&reader->symbol_names, importer->context);
    tn__text_init(&reader->text, importer->context);
}

static tn_status pt2_read(tn_importer *importer) {
    pt2_reader reader;
    tn__pt2_init(&reader, importer);
    tn_status status = pt2_program(&reader);
    importer->batch_applied = true;
    tn__pt2_release(&reader);
    return status;
}
#endif

const tn_import_format tn__import_pt2 = {.name = "pt2",
                                         .summary = PT2_SUMMARY,
                                         .suffix = ".pt2",
                                         .probe = pt2_probe,
                                         .read = pt2_read,
                                         .contents = pt2_contents,
                                         .close = pt2_close};
