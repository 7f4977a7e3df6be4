/* weights.c - opens weight files by their content, part by part, and finds tensors by name. It also
 * recognises files that only the framework which wrote them can read. */
#include "io/weights/weights.h"

#include <stdio.h>
#include <strings.h>

/* --- storage types ---------------------------------------------------------------------------- */

/* The storage types of numbers: block sizes as in ggml's structs, and names as in safetensors. */

typedef struct types_row {
    const char *text, *safetensors;
    int32_t gguf;
    uint32_t block, bytes;
    tn_dtype dtype;
} types_row;

static const types_row types_rows[] = {
#define TN_X(name, text, gguf, safetensors, block, bytes, dtype)                                   \
    {text, safetensors, gguf, block, bytes, TN_##dtype},
    TN_WEIGHT_TYPE_TABLE(TN_X)
#undef TN_X
};

const char *tn_weight_type_name(tn_weight_type type) {
    return (uint32_t)type < TN_WEIGHT_TYPE_COUNT ? types_rows[type].text : "?";
}

tn_weight_type tn_weight_type_find(const char *name) {
    uint32_t i = 0;
    while (i < TN_WEIGHT_TYPE_COUNT && strcasecmp(types_rows[i].text, name) != 0) i++;
    return (tn_weight_type)i;
}

tn_dtype tn_weight_type_dtype(tn_weight_type type) {
    return (uint32_t)type < TN_WEIGHT_TYPE_COUNT ? types_rows[type].dtype : TN_UNDEFINED;
}

uint32_t tn_weight_type_block(tn_weight_type type) {
    return (uint32_t)type < TN_WEIGHT_TYPE_COUNT ? types_rows[type].block : 0;
}

uint64_t tn_weight_type_bytes(tn_weight_type type, uint64_t rows, uint64_t columns) {
    if ((uint32_t)type >= TN_WEIGHT_TYPE_COUNT) return UINT64_MAX;
    uint64_t block = types_rows[type].block;
    uint64_t blocks = columns / block + (columns % block != 0);
    return tn__mul_sat(rows, tn__mul_sat(blocks, types_rows[type].bytes));
}

tn_weight_type tn__weight_type_of_gguf(uint32_t number) {
    uint32_t i = 0;
    while (i < TN_WEIGHT_TYPE_COUNT && (int64_t)types_rows[i].gguf != (int64_t)number) i++;
    return (tn_weight_type)i;
}

tn_weight_type tn__weight_type_of_safetensors(const char *name) {
    uint32_t i = 0;
    while (i < TN_WEIGHT_TYPE_COUNT &&
           (*types_rows[i].safetensors == '\0' || strcmp(types_rows[i].safetensors, name) != 0))
        i++;
    return (tn_weight_type)i;
}

/* --- files that cannot be read, and how to export from them ----------------------------------- */

/* Recognises files that only the framework which wrote them can read (pickled objects, archives of
 * code), and says how to export from them. */

static const struct {
    const char *suffix, *how;
} export_ways[] = {
    {".pt",
     "a pickle of PyTorch: torch.onnx.export(model, example_input, \"model.onnx\") writes the "
     "network, safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") its "
     "weights"},
    {".pth", "a pickle of PyTorch: torch.onnx.export(model, example_input, \"model.onnx\") writes "
             "the network, safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") "
             "its weights"},
    {".bin", "perhaps a pickle of PyTorch's weights: model.save_pretrained(\"folder\", "
             "safe_serialization=True) writes model.safetensors; its config.json is read as well"},
    {".ckpt", "a checkpoint of another framework: export the network as .onnx (torch.onnx.export, "
              "tf2onnx), its weights as .safetensors"},
    {".h5", "a model of Keras: python3 -m tf2onnx.convert --keras model.h5 --output model.onnx, or "
            "tf.lite.TFLiteConverter for a .tflite file"},
    {".hdf5", "a model of Keras: python3 -m tf2onnx.convert --keras model.hdf5 --output "
              "model.onnx, or tf.lite.TFLiteConverter for a .tflite file"},
    {".keras", "a model of Keras: model.export(\"folder\"), then python3 -m tf2onnx.convert "
               "--saved-model folder --output model.onnx"},
    {".pb", "perhaps a graph of TensorFlow: python3 -m tf2onnx.convert --saved-model folder "
            "--output model.onnx"},
    {".mlmodel", "a model of Core ML: export it as .onnx where it was made (torch.onnx.export)"},
    {".mlpackage", "a model of Core ML: export it as .onnx where it was made (torch.onnx.export)"},
    {".pdmodel", "a model of PaddlePaddle: paddle2onnx --model_dir . --save_file model.onnx"},
    {".engine", "a plan of TensorRT for one device: give the .onnx file that it was built from"},
    {".npz", "arrays of NumPy: safetensors.numpy.save_file(dict(numpy.load(\"weights.npz\")), "
             "\"weights.safetensors\") writes what is read here"},
};

const char *tn_weights_how_to_export(const char *path) {
    for (size_t i = 0; i < sizeof export_ways / sizeof *export_ways; i++)
        if (tn__has_suffix(path, export_ways[i].suffix)) return export_ways[i].how;
    return NULL;
}

/* --- adding tensors to the table -------------------------------------------------------------- */

bool tn__weights_elements(const int64_t *shape, uint32_t rank, uint64_t *elements) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < rank; d++)
        if (shape[d] < 0 || !tn__mul(count, (uint64_t)shape[d], &count)) return false;
    *elements = count;
    return true;
}

tn_status tn__weights_add(tn__weights_reader *it, const char *name, size_t length,
                          const tn_weight *tensor) {
    tn_weights *to = it->to;
    uint32_t existing;
    if (to->count >= TN__WEIGHTS_MOST)
        TN_FAIL(it->error, TN_E_INVALID, "more than %u tensors", TN__WEIGHTS_MOST);
    if (!tn__reserve(&to->context, &to->tensors, &to->room, to->count + 1, sizeof *to->tensors))
        return tn__no_memory(it->error, "tensors");
    tn_weight *made = &to->tensors[to->count];
    *made = *tensor;
    made->name = tn__arena_string(&to->arena, name, length);
    if (made->name == NULL ||
        !tn__names_add(&to->names, made->name, strlen(made->name), (uint32_t)to->count, &existing))
        return tn__no_memory(it->error, "tensors");
    if (existing != TN__NAMES_NONE)
        TN_FAIL(it->error, TN_E_INVALID, "two tensors are called '%.80s'", made->name);
    to->count++;
    return TN_OK;
}

/* --- opening one file of weights --- */

static tn_status weights_other(const tn__weights_reader *it) {
    const char *how = tn_weights_how_to_export(it->name);
    if (how != NULL) TN_FAIL(it->error, TN_E_UNSUPPORTED, "%s", how);
    TN_FAIL(it->error, TN_E_UNSUPPORTED, "no file of weights (.safetensors, .gguf)");
}

static tn_status weights_file(tn__weights_reader *it) {
    bool gguf = it->size >= 4 && memcmp(it->bytes, "GGUF", 4) == 0;
    bool safe = it->size >= 9 && it->bytes[8] == '{';
    if (!gguf && !safe && !tn__has_suffix(it->name, ".safetensors")) return weights_other(it);
    if (gguf && it->size < 8) TN_FAIL(it->error, TN_E_INVALID, "it is cut short");
    it->to->format = gguf ? "gguf" : "safetensors";
    return gguf ? tn__gguf_read(it) : tn__safetensors_read(it);
}

/* --- several --- */

typedef struct weights_parts {
    tn__weights_reader *it;
    const char *path; /* path of the index, or of the first part */
} weights_parts;

/* Maps a file. `named_by` is the file that names it; NULL: the caller names it. */
static tn_status weights_map(tn__weights_reader *it, const char *named_by, const char *path) {
    tn_weights *to = it->to;
    if (!tn__reserve(&to->context, &to->files, &to->file_room, to->file_count + 1,
                     sizeof *to->files))
        return tn__no_memory(it->error, "files");
    tn__file *made = &to->files[to->file_count];
    TN_TRY(named_by == NULL ? tn__file_map_most(path, to->context.read_limit, made, it->error)
                            : tn__file_map_beneath(named_by, tn__base_name(path),
                                                   to->context.follow_links, made, it->error));
    const tn__file *file = &to->files[to->file_count++];
    it->bytes = file->bytes;
    it->size = file->size;
    it->name = path;
    return TN_OK;
}

static tn_status weights_path(tn__weights_reader *it, const char *named_by, const char *path) {
    TN_TRY(weights_map(it, named_by, path));
    tn_status status = weights_file(it);
    return status == TN_OK ? TN_OK : tn__where(it->error, status, "%s", path);
}

/* Opens a further file of weights: one that an index file names, or one of several numbered
 * files. */
static tn_status weights_part(void *self, const char *file) {
    const weights_parts *parts = self;
    tn__weights_reader reader = *parts->it;
    const char *slash = strrchr(parts->path, '/');
    int folder = slash != NULL ? (int)(slash + 1 - parts->path) : 0;
    tn__text text;
    tn__text_init(&text, &reader.to->context);
    tn__text_printf(&text, "%.*s%s", folder, parts->path, file);
    const char *path =
        text.failed ? NULL : tn__arena_string(&reader.to->arena, text.data, text.size);
    tn__text_release(&text);
    if (path == NULL) return tn__no_memory(reader.error, "a path");
    return weights_path(&reader, parts->path, path);
}

/* If the path is the first of several numbered files ("x-00001-of-00003.gguf"), opens the
 * others. */
static tn_status weights_others(tn__weights_reader *it, const char *path) {
    uint32_t first, count;
    char end;
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    size_t length = strlen(base), tail = strlen("-00001-of-00003.gguf");
    if (length <= tail || !tn__has_suffix(path, ".gguf")) return TN_OK;
    if (sscanf(base + length - tail, "-%5u-of-%5u.ggu%c", &first, &count, &end) != 3 || first != 1)
        return TN_OK;
    weights_parts parts = {.it = it, .path = path};
    for (uint32_t part = 2; part <= count; part++) {
        tn__text text;
        tn__text_init(&text, &it->to->context);
        tn__text_printf(&text, "%.*s-%05u-of-%05u.gguf", (int)(length - tail), base, part, count);
        tn_status status =
            text.failed ? tn__no_memory(it->error, "a path") : weights_part(&parts, text.data);
        tn__text_release(&text);
        TN_TRY(status);
    }
    return TN_OK;
}

static tn_status weights_named(tn__weights_reader *it, const char *path) {
    if (!tn__has_suffix(path, ".index.json")) {
        TN_TRY(weights_path(it, NULL, path));
        return weights_others(it, path);
    }
    weights_parts parts = {.it = it, .path = path};
    TN_TRY(weights_map(it, NULL, path));
    it->to->format = "safetensors";
    tn__weights_reader index = *it;
    it->to->file_count--; /* the index itself is not counted as a part */
    tn__file file = it->to->files[it->to->file_count];
    tn_status status = tn__safetensors_index(&index, weights_part, &parts);
    tn__file_unmap(&file);
    return status == TN_OK ? TN_OK : tn__where(it->error, status, "%s", path);
}

/* Opens a folder: the files that its index lists, its single file, or all the parts of one
 * model. */
static tn_status weights_folder(tn__weights_reader *it, const char *folder) {
    tn__weights_folder found;
    TN_TRY(tn__weights_folder_read(it->to, folder, &found, it->error));
    if (found.count == 1) return weights_named(it, found.paths[0]);
    for (size_t i = 0; i < found.count; i++)
        TN_TRY(weights_path(it, found.paths[i], found.paths[i]));
    return TN_OK;
}

static tn_status weights_all(tn__weights_reader *it, const char *path) {
    return tn_weights_is_folder(path) ? weights_folder(it, path) : weights_named(it, path);
}

/* --- opening --- */

static tn_weights *weights_make(const tn_context *given) {
    tn_context context = tn__context(given);
    tn_weights *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return NULL;
    made->context = context;
    made->format = "";
    tn__arena_init(&made->arena, &made->context);
    tn__names_init(&made->names, &made->context);
    tn__names_init(&made->key_names, &made->context);
    return made;
}

static tn_status weights_finish(tn_weights *made, tn_status status, tn_weights **weights) {
    if (status == TN_OK)
        *weights = made;
    else
        tn_weights_close(made);
    return status;
}

tn_status tn_weights_open(const char *path, const tn_context *context, tn_weights **weights,
                          tn_error *error) {
    tn_weights *made = weights_make(context);
    if (made == NULL) return tn__no_memory(error, "weights");
    tn__weights_reader reader = {.to = made, .name = path, .error = error};
    return weights_finish(made, weights_all(&reader, path), weights);
}

tn_status tn_weights_read(const char *name, const void *bytes, size_t size,
                          const tn_context *context, tn_weights **weights, tn_error *error) {
    tn_weights *made = weights_make(context);
    if (made == NULL) return tn__no_memory(error, "weights");
    tn__weights_reader reader = {
        .to = made, .name = name, .bytes = bytes, .size = size, .error = error};
    tn_status status = weights_file(&reader);
    if (status != TN_OK) tn__where(error, status, "%s", name);
    return weights_finish(made, status, weights);
}

void tn_weights_close(tn_weights *weights) {
    if (weights == NULL) return;
    tn_context context = weights->context;
    for (size_t i = 0; i < weights->file_count; i++) tn__file_unmap(&weights->files[i]);
    tn__free(&context, weights->files, weights->file_room * sizeof *weights->files);
    tn__free(&context, weights->tensors, weights->room * sizeof *weights->tensors);
    tn__free(&context, weights->keys, weights->key_room * sizeof *weights->keys);
    tn__names_release(&weights->names);
    tn__names_release(&weights->key_names);
    tn__arena_release(&weights->arena);
    tn__free(&context, weights, sizeof *weights);
}

/* --- asking --- */

bool tn_weights_recognises(const char *path) {
    return tn__has_suffix(path, ".safetensors") || tn__has_suffix(path, ".gguf") ||
           tn__has_suffix(path, ".safetensors.index.json");
}

const char *tn_weights_format(const tn_weights *weights) { return weights->format; }

uint32_t tn_weights_files(const tn_weights *weights) { return (uint32_t)weights->file_count; }

uint32_t tn_weights_count(const tn_weights *weights) { return (uint32_t)weights->count; }

const tn_weight *tn_weights_at(const tn_weights *weights, uint32_t index) {
    return index < weights->count ? &weights->tensors[index] : NULL;
}

const tn_weight *tn_weights_find(const tn_weights *weights, const char *name) {
    uint32_t found = tn__names_find(&weights->names, name, strlen(name));
    return found != TN__NAMES_NONE ? &weights->tensors[found] : NULL;
}

tn_weights_sum tn_weights_total(const tn_weights *weights) {
    tn_weights_sum sum = {.tensors = weights->count};
    for (size_t i = 0; i < weights->count; i++) {
        const tn_weight *tensor = &weights->tensors[i];
        sum.elements = tn__add_sat(sum.elements, tensor->elements);
        sum.bytes = tn__add_sat(sum.bytes, tensor->size);
        sum.type_tensors[tensor->type]++;
        sum.type_elements[tensor->type] =
            tn__add_sat(sum.type_elements[tensor->type], tensor->elements);
        sum.type_bytes[tensor->type] = tn__add_sat(sum.type_bytes[tensor->type], tensor->size);
    }
    return sum;
}
