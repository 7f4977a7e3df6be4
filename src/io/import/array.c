/* array.c - reads and writes files of one array: numpy's .npy, and ONNX tensors (.pb, read only).
 *
 * A .npy file begins with magic bytes; any other file is tried as an ONNX tensor.
 */
#include "io/import/importer.h"
#include "io/import/onnx/onnx_reader.h"

#include <stdio.h>

/* Allocates the data of an array according to its type and shape; at least one byte. */
static tn_status array_alloc(const tn_context *context, tn_array *array, tn_error *error) {
    TN_TRY(tn_tensor_size(array->dtype, (tn_format){0}, array->rank, array->shape, &array->bytes,
                          error));
    if (array->bytes > PTRDIFF_MAX)
        TN_FAIL(error, TN_E_INVALID, "it has %llu bytes", (unsigned long long)array->bytes);
    array->data = tn__alloc(context, (size_t)array->bytes);
    return array->data != NULL ? TN_OK : tn__no_memory(error, "an array");
}

void tn_array_release(tn_array *array, const tn_context *given) {
    tn_context context = tn__context(given);
    if (array == NULL) return;
    tn__free(&context, array->data, (size_t)array->bytes);
    *array = (tn_array){0};
}

/* --- numpy's .npy files ----------------------------------------------------------------------- */

/* A file consists of "\x93NUMPY", version, length of the header, the header: a Python dictionary
 * with the keys descr, fortran_order and shape, in any order, padded with blanks. Then the
 * elements. Versions differ in the width of the length (2 bytes in version 1, then 4) and in the
 * encoding of field names, which a plain array does not have.
 *
 * Little-endian numbers and bools are read, in C order or in Fortran order, which is converted to C
 * order. For anything else the error says what to do in numpy. A file with bytes left over is an
 * error too: it holds several arrays, or a wrong shape.
 *
 * Source: numpy's documentation of numpy.lib.format.
 */

#define NPY_MAGIC "\x93NUMPY"
#define NPY_MAGIC_SIZE 6u

static const struct {
    char text[4]; /* the type without the character for its byte order */
    tn_dtype dtype;
} npy_types[] = {
    {"f4", TN_FLOAT32},   {"f8", TN_FLOAT64},     {"f2", TN_FLOAT16}, {"b1", TN_BOOL},
    {"i1", TN_INT8},      {"i2", TN_INT16},       {"i4", TN_INT32},   {"i8", TN_INT64},
    {"u1", TN_UINT8},     {"u2", TN_UINT16},      {"u4", TN_UINT32},  {"u8", TN_UINT64},
    {"c8", TN_COMPLEX64}, {"c16", TN_COMPLEX128},
};
#define NPY_TYPE_COUNT (sizeof npy_types / sizeof *npy_types)

static bool npy_probe(tn__span file) {
    return file.size >= NPY_MAGIC_SIZE && memcmp(file.bytes, NPY_MAGIC, NPY_MAGIC_SIZE) == 0;
}

/* --- the header's dictionary --- */

typedef struct npy_header {
    const char *at;
    size_t left;
    bool has_type, has_order, has_shape;
    bool fortran;
    tn_array *array;
    tn_error *error;
} npy_header;

static void npy_blanks(npy_header *header) {
    while (header->left != 0 && memchr(" \t\r\n", *header->at, 4) != NULL) {
        header->at++;
        header->left--;
    }
}

/* Skips `text` and returns true, if it comes next. */
static bool npy_take(npy_header *header, const char *text) {
    size_t length = strlen(text);
    npy_blanks(header);
    if (header->left < length || memcmp(header->at, text, length) != 0) return false;
    header->at += length;
    header->left -= length;
    return true;
}

static tn_status npy_fail(const npy_header *header, const char *expected) {
    TN_FAIL(header->error, TN_E_INVALID, "the header of this .npy file has %s where %s should be",
            header->left != 0 ? "something else" : "its end", expected);
}

/* Reads a string in quotes; its characters must need no escape. */
static tn_status npy_text(npy_header *header, tn__span *text) {
    npy_blanks(header);
    char quote = header->left != 0 ? *header->at : 0;
    if (quote != '\'' && quote != '"') return npy_fail(header, "a text in quotes");
    const char *from = header->at + 1, *end = memchr(from, quote, header->left - 1);
    if (end == NULL || memchr(from, '\\', (size_t)(end - from)) != NULL)
        return npy_fail(header, "a plain text in quotes");
    *text = (tn__span){(const uint8_t *)from, (size_t)(end - from)};
    header->left -= (size_t)(end + 1 - header->at);
    header->at = end + 1;
    return TN_OK;
}

static tn_status npy_fail_type(const npy_header *header, tn__span type) {
    char text[24];
    snprintf(text, sizeof text, "%.*s", (int)(type.size < 20 ? type.size : 20),
             (const char *)type.bytes);
    for (char *at = text; *at != 0; at++)
        if (*at < ' ' || *at > '~') *at = '?';
    const char *what = "is not a number type that is read; convert it, for example with "
                       "array.astype('float32')";
    if (text[0] == '>')
        what = "is big endian; convert it with array.astype(array.dtype.newbyteorder('<'))";
    if (text[0] == '|' && text[1] == 'O') what = "is pickled objects; save plain numbers";
    if (strchr(text, 'V') != NULL)
        what = "is opaque bytes, as numpy writes bfloat16; save it as float32: "
               "array.astype('float32')";
    if (strchr(text, 'U') != NULL || strchr(text, 'S') != NULL)
        what = "is text; save plain numbers";
    TN_FAIL(header->error, TN_E_UNSUPPORTED, "its element type '%s' %s", text, what);
}

static tn_status npy_type(npy_header *header) {
    tn__span type;
    npy_blanks(header);
    if (header->left != 0 && *header->at == '[')
        TN_FAIL(header->error, TN_E_UNSUPPORTED,
                "it is an array of structs; save its fields one by one");
    TN_TRY(npy_text(header, &type));
    bool one = type.size == 3 && type.bytes[2] == '1'; /* a type of one byte has no byte order */
    if (type.size < 3 || (type.bytes[0] != '<' && !(one && memchr("|>=", type.bytes[0], 3))))
        return npy_fail_type(header, type);
    tn__span kind = {type.bytes + 1, type.size - 1};
    for (size_t i = 0; i < NPY_TYPE_COUNT; i++) {
        if (!tn__span_is(kind, npy_types[i].text)) continue;
        header->array->dtype = npy_types[i].dtype;
        header->has_type = true;
        return TN_OK;
    }
    return npy_fail_type(header, type);
}

static tn_status npy_order(npy_header *header) {
    header->fortran = npy_take(header, "True");
    if (!header->fortran && !npy_take(header, "False")) return npy_fail(header, "True or False");
    header->has_order = true;
    return TN_OK;
}

/* Reads a shape: "()", "(3,)" or "(3, 4)"; Python 2 wrote "3L" for 3. */
static tn_status npy_shape(npy_header *header) {
    tn_array *array = header->array;
    array->rank = 0;
    if (!npy_take(header, "(")) return npy_fail(header, "a shape in parentheses");
    while (!npy_take(header, ")")) {
        int64_t extent;
        npy_blanks(header);
        if (array->rank == TN_RANK_MAX)
            TN_FAIL(header->error, TN_E_UNSUPPORTED, "it has more than %u dimensions", TN_RANK_MAX);
        if (!tn__take_integer(&header->at, &header->left, &extent) || extent < 0)
            return npy_fail(header, "an extent of the shape");
        array->shape[array->rank++] = extent;
        (void)npy_take(header, "L");
        if (npy_take(header, ",")) continue;
        if (!npy_take(header, ")")) return npy_fail(header, "a comma or the end of the shape");
        break;
    }
    header->has_shape = true;
    return TN_OK;
}

static tn_status npy_dictionary(npy_header *header) {
    if (!npy_take(header, "{")) return npy_fail(header, "a dictionary");
    while (!npy_take(header, "}")) {
        tn__span key;
        TN_TRY(npy_text(header, &key));
        if (!npy_take(header, ":")) return npy_fail(header, "a colon");
        if (tn__span_is(key, "descr") && !header->has_type)
            TN_TRY(npy_type(header));
        else if (tn__span_is(key, "fortran_order") && !header->has_order)
            TN_TRY(npy_order(header));
        else if (tn__span_is(key, "shape") && !header->has_shape)
            TN_TRY(npy_shape(header));
        else
            return npy_fail(header, "one of descr, fortran_order and shape, once");
        if (npy_take(header, ",")) continue;
        if (!npy_take(header, "}")) return npy_fail(header, "a comma or the end");
        break;
    }
    npy_blanks(header);
    if (header->left != 0 || !header->has_type || !header->has_order || !header->has_shape)
        return npy_fail(header, "descr, fortran_order and shape, and then the end");
    return TN_OK;
}

/* Splits a file into the text of its header and the elements after it. */
static tn_status npy_split(tn__span file, npy_header *header, tn__span *elements) {
    size_t width, start;
    if (file.size < NPY_MAGIC_SIZE + 4)
        TN_FAIL(header->error, TN_E_INVALID, "this .npy file is cut off");
    uint32_t version = file.bytes[NPY_MAGIC_SIZE];
    if (version < 1 || version > 3)
        TN_FAIL(header->error, TN_E_UNSUPPORTED, "version %u of .npy is not known (1 to 3 are)",
                version);
    width = version == 1 ? 2 : 4;
    start = NPY_MAGIC_SIZE + 2 + width;
    if (file.size < start) TN_FAIL(header->error, TN_E_INVALID, "this .npy file is cut off");
    uint64_t length = tn__little(file.bytes + NPY_MAGIC_SIZE + 2, (uint32_t)width);
    if (length > file.size - start)
        TN_FAIL(header->error, TN_E_INVALID, "the header of this .npy file is cut off");
    header->at = (const char *)file.bytes + start;
    header->left = (size_t)length;
    *elements = (tn__span){file.bytes + start + length, file.size - start - (size_t)length};
    return TN_OK;
}

/* --- elements --- */

/* Converts elements from Fortran order, in which the first index changes fastest, to C order: for
 * each position in C order it computes the position in the source. */
static void npy_turn(tn_array *array, const uint8_t *from) {
    uint32_t width = tn_dtype_bits(array->dtype) / 8;
    uint64_t stride[TN_RANK_MAX], index[TN_RANK_MAX] = {0}, at = 0, step = 1;
    uint8_t *to = array->data;
    for (uint32_t d = 0; d < array->rank; d++) {
        stride[d] = step;
        step *= (uint64_t)array->shape[d];
    }
    for (uint64_t i = 0; i < array->bytes / width; i++) {
        memcpy(to + i * width, from + at * width, width);
        for (uint32_t d = array->rank; d-- > 0;) {
            at += stride[d];
            if (++index[d] < (uint64_t)array->shape[d]) break;
            at -= stride[d] * index[d];
            index[d] = 0;
        }
    }
}

/* reads numpy's .npy files */
static tn_status npy_read(tn__span file, const tn_context *context, tn_array *array,
                          tn_error *error) {
    npy_header header = {.array = array, .error = error};
    tn__span elements = {0};
    uint64_t bytes;
    TN_TRY(npy_split(file, &header, &elements));
    TN_TRY(npy_dictionary(&header));
    TN_TRY(tn_tensor_size(array->dtype, (tn_format){0}, array->rank, array->shape, &bytes, error));
    /* a file of another length is refused, which also limits the allocation to the size of the
     * file */
    if (bytes != elements.size)
        TN_FAIL(error, TN_E_INVALID,
                "it has %zu bytes of elements, but its shape needs %llu; it is cut off, or holds "
                "more than one array",
                elements.size, (unsigned long long)bytes);
    TN_TRY(array_alloc(context, array, error));
    if (header.fortran && array->rank > 1)
        npy_turn(array, elements.bytes);
    else if (bytes != 0)
        memcpy(array->data, elements.bytes, (size_t)bytes);
    uint8_t *flags = array->data;
    for (uint64_t i = 0; array->dtype == TN_BOOL && i < bytes; i++) flags[i] = flags[i] != 0;
    return TN_OK;
}

/* --- writing --- */

static const char *npy_type_text(tn_dtype dtype) {
    for (size_t i = 0; i < NPY_TYPE_COUNT; i++)
        if (npy_types[i].dtype == dtype) return npy_types[i].text;
    return NULL;
}

/* Writes a header of version 1: 64 extents of 20 digits fit into the length of 2 bytes. The
 * elements begin at a multiple of 64, as in files that numpy writes. */
static void npy_header_text(tn__text *text, const tn_array *array, const char *type) {
    bool one = tn_dtype_bits(array->dtype) == 8;
    tn__text_add(text, NPY_MAGIC "\x01\x00..", NPY_MAGIC_SIZE + 4);
    tn__text_printf(text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", one ? '|' : '<',
                    type);
    for (uint32_t d = 0; d < array->rank; d++)
        tn__text_printf(text, "%s%lld%s", d != 0 ? " " : "", (long long)array->shape[d],
                        d + 1 < array->rank || array->rank == 1 ? "," : "");
    tn__text_put(text, "), }");
    while (text->size % 64 != 63 && !text->failed) tn__text_add(text, " ", 1);
    tn__text_add(text, "\n", 1);
    if (text->failed) return;
    size_t length = text->size - NPY_MAGIC_SIZE - 4;
    text->data[NPY_MAGIC_SIZE + 2] = (char)(length & 0xff);
    text->data[NPY_MAGIC_SIZE + 3] = (char)(length >> 8);
}

static tn_status npy_write(const char *path, const tn_array *array, const tn_context *context,
                           tn_error *error) {
    const char *type = npy_type_text(array->dtype);
    uint64_t bytes;
    if (type == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "numpy has no type for %s; cast it to float32 or int8 in the model",
                tn_dtype_name(array->dtype));
    TN_TRY(tn_tensor_size(array->dtype, (tn_format){0}, array->rank, array->shape, &bytes, error));
    if (bytes != array->bytes)
        TN_FAIL(error, TN_E_INVALID, "an array of %llu bytes, but its shape needs %llu",
                (unsigned long long)array->bytes, (unsigned long long)bytes);
    tn__text text;
    tn__text_init(&text, context);
    npy_header_text(&text, array, type);
    if (bytes != 0) tn__text_add(&text, array->data, (size_t)bytes);
    tn_status status = text.failed ? tn__no_memory(error, "an array's file")
                                   : tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}

tn_status tn_array_save(const char *path, const tn_array *array, const tn_context *given,
                        tn_error *error) {
    tn_context context = tn__context(given);
    tn_status status = npy_write(path, array, &context, error);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", path);
}

/* --- ONNX tensors (.pb) ----------------------------------------------------------------------- */

/* Reads arrays from files that hold one TensorProto, such as the test data of ONNX models.
 *
 * The format has no magic number: a file is recognised if it parses as a TensorProto with an
 * element type and as many elements as its shape says.
 * Cost: O(bytes).
 */

static tn_status pb_read_tensor(onnx_reader *reader, tn__span file, tn_array *array) {
    tn_error *error = reader->importer->error;
    onnx_tensor tensor;
    bool found;
    TN_TRY(tn__onnx_tensor(reader, file, false, &tensor));
    if (tensor.dtype == TN_STRING)
        TN_FAIL(error, TN_E_UNSUPPORTED, "arrays of strings are not read");
    if (tensor.segmented) TN_FAIL(error, TN_E_UNSUPPORTED, "a part of a tensor is not read");
    array->dtype = tensor.dtype;
    array->rank = tensor.rank;
    memcpy(array->shape, tensor.shape, tensor.rank * sizeof *tensor.shape);
    /* the size was checked against the payload, so a small file cannot request much memory */
    if (tensor.elements != 0 && tensor.payload == 0)
        TN_FAIL(error, tensor.is_external ? TN_E_UNSUPPORTED : TN_E_INVALID,
                tensor.is_external ? "arrays in a file of their own are not read"
                                   : "it has a shape, but no elements");
    TN_TRY(array_alloc(reader->importer->context, array, error));
    if (array->bytes == 0) return TN_OK;
    onnx_array elements = {.bytes = array->data, .size = array->bytes};
    return tn__onnx_elements(reader, &tensor, &elements, &found);
}

/* reads files of one TensorProto (.pb) */
static tn_status pb_read(tn__span file, const tn_context *context, tn_array *array,
                         tn_error *error) {
    tn_importer importer = {
        .bytes = file.bytes, .size = file.size, .context = context, .error = error};
    onnx_reader reader = {.importer = &importer};
    tn_status status = pb_read_tensor(&reader, file, array);
    if (status != TN_E_INVALID || error == NULL) return status;
    char message[sizeof error->message];
    memcpy(message, error->message, sizeof message);
    snprintf(error->message, sizeof error->message,
             "neither a .npy file nor an ONNX tensor (.pb): %.300s", message);
    return status;
}

/* --- reading a file in any format ------------------------------------------------------------- */

tn_status tn__array_read(const char *name, tn__span file, const tn_context *given, tn_array *array,
                         tn_error *error) {
    tn_context context = tn__context(given);
    tn_array read = {0};
    tn_status status = npy_probe(file) ? npy_read(file, &context, &read, error)
                                       : pb_read(file, &context, &read, error);
    if (status == TN_OK) {
        *array = read;
        return TN_OK;
    }
    tn_array_release(&read, &context);
    if (error == NULL) return status;
    char where[sizeof error->where];
    memcpy(where, error->where, sizeof where);
    size_t length = strlen(name);
    const char *tail = length > 100 ? name + length - 100 : name;
    snprintf(error->where, sizeof error->where, "%s%s%.80s", tail, where[0] != 0 ? ": " : "",
             where);
    return status;
}

tn_status tn_array_load(const char *path, const tn_context *context, tn_array *array,
                        tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_most(path, tn__context(context).read_limit, &file, error));
    tn__span bytes = {file.bytes, file.size};
    tn_status status = tn__array_read(path, bytes, context, array, error);
    tn__file_unmap(&file);
    return status;
}
