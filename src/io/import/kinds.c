/* kinds.c - recognises the kind of a file by its contents.
 *
 * Used where a name says nothing (standard input), and where it is wrong (a web page, or an
 * archive, under the name of a model), so that the message names the kind. Most kinds are
 * recognised by a few bytes at a fixed place, zip archives by the names of their members.
 *
 * Source: the documents of each format; for zip archives the writers of PyTorch, NumPy and Keras.
 */
#include "io/import/kinds.h"
#include "io/import/importer.h"
#include <tenure/llm.h>

#include <stdio.h>

#ifndef TENURE_MINIMAL
#include "io/import/pt2/zip.h"
#endif

extern const tn_import_format tn__import_onnx;

/* --- a few bytes at a fixed place --- */

#define KIND_WEB                                                                                   \
    { NULL, "a web page, not a model", "was it downloaded from the right address?" }

static const struct {
    uint32_t at; /* offset of the mark in the file */
    uint32_t length;
    const char *mark;
    tn__file_kind kind;
} kind_marks[] = {
    {4, 4, "TFL3", {".tflite", "a TensorFlow Lite model", NULL}},
    {0, 4, "GGUF", {".gguf", "a file of weights (GGUF)", NULL}},
    {0, 17, "BufferAssignment:", {"-buffer-assignment.txt", "a buffer assignment of XLA", NULL}},
    {0, 8, "\x89HDF\r\n\x1a\n", {".h5", "a file of HDF5", NULL}},
    {0,
     6,
     "\x93NUMPY",
     {".npy", "an array of NumPy, not a model", "pass it as the data of an input"}},
    {0, 2, "\x1f\x8b", {NULL, "compressed by gzip", "unpack it first"}},
    {0,
     23,
     "version https://git-lfs",
     {NULL, "a Git LFS pointer, not the model", "run `git lfs pull`"}},
    {0, 9, "<!DOCTYPE", KIND_WEB},
    {0, 9, "<!doctype", KIND_WEB},
    {0, 5, "<html", KIND_WEB},
};

/* --- zip archives --- */

static const tn__file_kind kind_zip = {NULL, "a zip archive", "unpack it first"};

#ifdef TENURE_MINIMAL
static const tn__file_kind *kind_of_zip(tn__span file) {
    (void)file;
    return &kind_zip;
}
#else
static const struct {
    const char *member; /* end of a member's name */
    tn__file_kind kind;
} kind_members[] = {
    {"archive_format", {".pt2", "a program of torch.export", NULL}},
    {"serialized_exported_program.json", {".pt2", "a program of torch.export", NULL}},
    {"data.pkl", {".pt", "a pickle of PyTorch", NULL}},
    {"model.weights.h5", {".keras", "a model of Keras", NULL}},
    {".npy", {".npz", "a file of NumPy arrays", NULL}},
};

/* A damaged archive counts as a program of torch.export, because that reader reports the damage. */
static const tn__file_kind *kind_of_zip(tn__span file) {
    static const tn__file_kind damaged = {".pt2", "a damaged zip archive",
                                          "copy or download it again"};
    const tn_context context = tn__context(NULL);
    const tn__file_kind *kind = NULL;
    tn__zip zip;
    bool opened = tn__zip_open(&context, file, &zip, NULL) == TN_OK;
    for (size_t row = 0; opened && row < sizeof kind_members / sizeof *kind_members; row++) {
        size_t length = strlen(kind_members[row].member);
        for (size_t i = 0; i < zip.count && kind == NULL; i++) {
            tn__span name = zip.members[i].name;
            if (name.size >= length &&
                memcmp(name.bytes + name.size - length, kind_members[row].member, length) == 0)
                kind = &kind_members[row].kind;
        }
    }
    tn__zip_release(&zip);
    return kind != NULL ? kind : opened ? &kind_zip : &damaged;
}
#endif

/* --- all kinds --- */

#define KIND_LOOK 512u /* bytes that are read to distinguish text from other data */

/* Whether the file has no control characters near its start. */
static bool kind_is_text(tn__span file) {
    for (size_t at = 0; at < file.size && at < KIND_LOOK; at++)
        if (file.bytes[at] < ' ' && file.bytes[at] != '\t' && file.bytes[at] != '\r' &&
            file.bytes[at] != '\n')
            return false;
    return true;
}

/* Whether the file is text and begins as JSON does. */
static bool kind_is_json(tn__span file) {
    size_t at = 0, end = file.size < KIND_LOOK ? file.size : KIND_LOOK;
    while (at < end && strchr(" \t\r\n", file.bytes[at]) != NULL && file.bytes[at] != 0) at++;
    return at < end && (file.bytes[at] == '{' || file.bytes[at] == '[') && kind_is_text(file);
}

/* Whether the file begins with a length of a JSON text, and the text, as .safetensors files do. */
static bool kind_is_safetensors(tn__span file) {
    if (file.size < 10 || file.bytes[8] != '{') return false;
    uint64_t length = tn__little(file.bytes, 8);
    return length >= 2 && length <= file.size - 8;
}

/* Whether bytes 4 to 8 are "ET" and two digits, the version of the format. */
static bool kind_is_pte(tn__span file) {
    return file.size >= 8 && memcmp(file.bytes + 4, "ET", 2) == 0 && file.bytes[6] >= '0' &&
           file.bytes[6] <= '9' && file.bytes[7] >= '0' && file.bytes[7] <= '9';
}

static bool kind_is_pickle(tn__span file) {
    return file.size > 2 && file.bytes[0] == 0x80 && file.bytes[1] >= 2 && file.bytes[1] <= 5 &&
           file.bytes[file.size - 1] == '.';
}

const tn__file_kind *tn__file_kind_of(tn__span file) {
    static const tn__file_kind safetensors = {".safetensors", "a file of weights (safetensors)",
                                              NULL};
    static const tn__file_kind pte = {".pte", "a program of ExecuTorch", NULL};
    static const tn__file_kind json = {".json", "JSON text", NULL};
    static const tn__file_kind onnx = {".onnx", "an ONNX model", NULL};
    static const tn__file_kind pickle = {NULL, "a pickle of Python, which is never executed",
                                         "export the network as .onnx or .pt2"};
    if (file.size >= 4 && memcmp(file.bytes, "PK\x03\x04", 4) == 0) return kind_of_zip(file);
    for (size_t i = 0; i < sizeof kind_marks / sizeof *kind_marks; i++) {
        uint32_t at = kind_marks[i].at, length = kind_marks[i].length;
        if (file.size >= (size_t)at + length &&
            memcmp(file.bytes + at, kind_marks[i].mark, length) == 0)
            return &kind_marks[i].kind;
    }
    if (kind_is_pte(file)) return &pte;
    if (kind_is_json(file)) return &json;
    if (kind_is_safetensors(file)) return &safetensors;
    if (kind_is_pickle(file)) return &pickle;
    /* text can be a sequence of fields by chance, but a model has control characters in its tags */
    if (kind_is_text(file)) return NULL;
    return tn__import_onnx.probe(file.bytes, file.size) ? &onnx : NULL;
}

bool tn__file_kind_has_suffix(const char *suffix) {
    static const char *const others[] = {".json", ".pte", ".safetensors"};
    bool has = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        has = has || strcmp(suffix, others[i]) == 0;
    for (size_t i = 0; i < sizeof kind_marks / sizeof *kind_marks; i++)
        has = has ||
              (kind_marks[i].kind.suffix != NULL && strcmp(suffix, kind_marks[i].kind.suffix) == 0);
#ifndef TENURE_MINIMAL
    for (size_t i = 0; i < sizeof kind_members / sizeof *kind_members; i++)
        has = has || strcmp(suffix, kind_members[i].kind.suffix) == 0;
#endif
    return has;
}

tn_status tn__file_kind_refuse(const tn__file_kind *kind, const char *said, tn_error *error) {
    const char *how = kind->suffix != NULL ? tn_weights_how_to_export(kind->suffix) : NULL;
    char is[60] = "this is ";
    if (said != NULL) snprintf(is, sizeof is, "its name says %s, but it is ", said);
    if (how != NULL) TN_FAIL(error, TN_E_UNSUPPORTED, "%s%s", is, how);
    if (kind->remedy != NULL)
        TN_FAIL(error, TN_E_INVALID, "%s%s; %s", is, kind->name, kind->remedy);
    TN_FAIL(error, TN_E_INVALID, "%s%s; give it a name that ends in %s", is, kind->name,
            kind->suffix);
}
