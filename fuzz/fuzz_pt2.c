/* fuzz_pt2.c - any bytes as a .pt2 program, under options that the last byte chooses.
 *
 * Bytes that begin as a zip archive are read as one. A checksum would stop most changes inside of
 * an archive, so all other bytes are the JSON of a program, in an archive that is made here.
 * Seeds: tests/foreign/pt2.py --corpus FOLDER. What must hold: fuzz_model.h.
 */
#include <tenure/occupancy.h>

#include "fuzz_model.h"

#include <zlib.h>

#define FUZZ_OPS_MAX 2000u

static const char fuzz_config[] =
    "{\"config\": {\"p\": {\"path_name\": \"weight_0\", \"use_pickle\": false, \"tensor_meta\": "
    "{\"storage_offset\": {\"as_int\": 1}}}}}";

static void fuzz_put(tn__text *text, uint64_t value, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) {
        char byte = (char)(i < 8 ? value >> (8 * i) & 255 : 0);
        tn__text_add(text, &byte, 1);
    }
}

/* A stored member in `archive`, and its entry in `list`. */
static void fuzz_member(tn__text *archive, tn__text *list, const char *name, const void *data,
                        size_t size) {
    uint64_t at = archive->size, length = strlen(name);
    uLong crc = crc32_z(0, data, size);
    for (uint32_t central = 0; central < 2; central++) {
        tn__text *to = central ? list : archive;
        fuzz_put(to, central ? 0x02014b50 : 0x04034b50, 4);
        fuzz_put(to, 0, central ? 12 : 10); /* versions, flags, stored, time */
        fuzz_put(to, crc, 4);
        fuzz_put(to, size, 4);
        fuzz_put(to, size, 4);
        fuzz_put(to, length, 4); /* and no extra field */
        if (central) fuzz_put(to, 0, 10);
        if (central) fuzz_put(to, at, 4);
        tn__text_put(to, name);
    }
    tn__text_add(archive, data, size);
}

/* An archive with `data` as its program. */
static void fuzz_archive(tn__text *archive, const uint8_t *data, size_t size) {
    static const float weights[16] = {1, 2, 3};
    tn_context context = tn__context(NULL);
    tn__text list;
    tn__text_init(&list, &context);
    fuzz_member(archive, &list, "m/archive_format", "pt2", 3);
    fuzz_member(archive, &list, "m/models/model.json", data, size);
    fuzz_member(archive, &list, "m/data/weights/model_weights_config.json", fuzz_config,
                sizeof fuzz_config - 1);
    fuzz_member(archive, &list, "m/data/weights/weight_0", weights, sizeof weights);
    uint64_t begin = archive->size;
    tn__text_add(archive, list.data, list.size);
    fuzz_put(archive, 0x06054b50, 4);
    fuzz_put(archive, 0, 4);
    fuzz_put(archive, 4, 2);
    fuzz_put(archive, 4, 2);
    fuzz_put(archive, list.size, 4);
    fuzz_put(archive, begin, 4);
    fuzz_put(archive, 0, 2);
    tn__text_release(&list);
}

static void fuzz_lives(void *file, const tn_graph *graph) {
    fuzz_contents(file, graph);
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    tn_error error = {0};
    if (tn_graph_op_count(graph) > FUZZ_OPS_MAX) return;
    if (tn_program_create(graph, NULL, &program, &error) == TN_OK) {
        tn_status status = tn_occupancy_create(program, NULL, &occupancy, &error);
        fuzz_must(status != TN_E_INTERNAL);
    }
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const tn_dim symbol = {"s77", 3};
    static const int64_t extents[] = {3, 6};
    static const tn_input_shape shape = {"x", 2, extents};
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    uint32_t pick = size % 8; /* not of the last byte: that of JSON is a bracket */
    options.dims = &symbol;
    options.dim_count = pick == 1;
    options.input_shapes = &shape;
    options.input_shape_count = pick == 2;
    options.batch = pick == 3 ? 5 : 0;
    options.keep_aten = pick > 3;
    tn_context context = tn__context(NULL);
    tn__text archive;
    tn__text_init(&archive, &context);
    if (size >= 2 && memcmp(data, "PK", 2) == 0)
        tn__text_add(&archive, (const char *)data, size);
    else
        fuzz_archive(&archive, data, size);
    if (!archive.failed && archive.size > 0) {
        fuzz_file file = {"f.pt2", (const uint8_t *)archive.data, archive.size};
        fuzz_load("f.pt2", file.data, file.size, options, fuzz_lives, &file);
    }
    tn__text_release(&archive);
    return 0;
}
