/* checkpoint.c - a training run on disk.
 *
 *     "TENURECK" | version u32 | count u32 | cli_progress_of_run | hash of all that follows u64
 *     for each tensor: length of its name u32, name, element type u32, bytes u64, contents
 *
 * Numbers are little endian, as the machine has them. The hash is XXH3 of 64 bits.
 */
#include "cli/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef TENURE_MINIMAL
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

#include "base/base.h"

#define CHECKPOINT_VERSION 1u

typedef struct checkpoint_head {
    char magic[8];
    uint32_t version, count;
    cli_progress_of_run run;
    uint64_t hash;
} checkpoint_head;

static uint64_t checkpoint_hash(const void *bytes, size_t size) {
#ifdef TENURE_MINIMAL
    (void)bytes;
    return size;
#else
    return (uint64_t)XXH3_64bits(bytes, size);
#endif
}

static uint64_t checkpoint_size(const tn_graph *graph, const tn_tensor_id *ids, uint32_t count) {
    uint64_t size = sizeof(checkpoint_head);
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, ids[i]);
        size = tn__add_sat(size, tn__add_sat(16 + strlen(tensor->name), tensor->bytes));
    }
    return size;
}

static uint8_t *checkpoint_put(uint8_t *at, const void *bytes, size_t size) {
    memcpy(at, bytes, size);
    return at + size;
}

static tn_status checkpoint_fill(uint8_t *at, tn_engine *engine, const tn_graph *graph,
                                 const tn_tensor_id *ids, uint32_t count, tn_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, ids[i]);
        uint32_t length = (uint32_t)strlen(tensor->name), dtype = (uint32_t)tensor->dtype;
        at = checkpoint_put(at, &length, 4);
        at = checkpoint_put(at, tensor->name, length);
        at = checkpoint_put(at, &dtype, 4);
        at = checkpoint_put(at, &tensor->bytes, 8);
        TN_TRY(tn_engine_get_static(engine, ids[i], at, tensor->bytes, error));
        at += tensor->bytes;
    }
    return TN_OK;
}

tn_status cli_checkpoint_save(const char *path, tn_engine *engine, const tn_graph *graph,
                              const tn_tensor_id *ids, uint32_t count,
                              const cli_progress_of_run *run, tn_error *error) {
    uint64_t size = checkpoint_size(graph, ids, count);
    uint8_t *bytes = calloc(1, size);
    if (bytes == NULL) return tn__no_memory(error, "a checkpoint");
    checkpoint_head head = {.version = CHECKPOINT_VERSION, .count = count, .run = *run};
    memcpy(head.magic, "TENURECK", 8);
    tn_status status = checkpoint_fill(bytes + sizeof head, engine, graph, ids, count, error);
    if (status == TN_OK) {
        head.hash = checkpoint_hash(bytes + sizeof head, size - sizeof head);
        memcpy(bytes, &head, sizeof head);
        status = tn__file_write(path, bytes, size, error);
    }
    free(bytes);
    return status;
}

/* --- reading --- */

typedef struct checkpoint_reader {
    const char *path;
    const uint8_t *at;
    size_t left;
    tn_error *error;
} checkpoint_reader;

static tn_status checkpoint_take(checkpoint_reader *reader, size_t size, const uint8_t **bytes) {
    if (size > reader->left)
        TN_FAIL(reader->error, TN_E_INVALID, "%.200s: the checkpoint is cut short", reader->path);
    *bytes = reader->at;
    reader->at += size;
    reader->left -= size;
    return TN_OK;
}

static tn_status checkpoint_tensor(checkpoint_reader *reader, tn_engine *engine,
                                   const tn_tensor *tensor, tn_tensor_id id) {
    const uint8_t *bytes = NULL;
    uint32_t length, dtype;
    uint64_t size;
    TN_TRY(checkpoint_take(reader, 4, &bytes));
    memcpy(&length, bytes, 4);
    TN_TRY(checkpoint_take(reader, length, &bytes));
    bool same = length == strlen(tensor->name) && memcmp(bytes, tensor->name, length) == 0;
    TN_TRY(checkpoint_take(reader, 4, &bytes));
    memcpy(&dtype, bytes, 4);
    TN_TRY(checkpoint_take(reader, 8, &bytes));
    memcpy(&size, bytes, 8);
    if (!same || dtype != (uint32_t)tensor->dtype || size != tensor->bytes)
        TN_FAIL(reader->error, TN_E_INVALID,
                "%.200s is of another model or optimizer: '%.80s' is expected there", reader->path,
                tensor->name);
    TN_TRY(checkpoint_take(reader, size, &bytes));
    return tn_engine_set_static(engine, id, bytes, size, reader->error);
}

static tn_status checkpoint_read(checkpoint_reader *reader, tn_engine *engine,
                                 const tn_graph *graph, const tn_tensor_id *ids, uint32_t count,
                                 cli_progress_of_run *run) {
    const uint8_t *bytes = NULL;
    checkpoint_head head;
    TN_TRY(checkpoint_take(reader, sizeof head, &bytes));
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, "TENURECK", 8) != 0 || head.version != CHECKPOINT_VERSION)
        TN_FAIL(reader->error, TN_E_INVALID, "%.200s is no checkpoint of this version",
                reader->path);
    if (head.hash != checkpoint_hash(reader->at, reader->left))
        TN_FAIL(reader->error, TN_E_INVALID, "%.200s: the checkpoint is damaged", reader->path);
    const cli_progress_of_run *was = &head.run;
    if (was->seed != run->seed || was->batch != run->batch || was->optimizer != run->optimizer ||
        was->dtype != run->dtype || was->micro_batches != run->micro_batches)
        TN_FAIL(reader->error, TN_E_INVALID,
                "%.200s is of a run with another seed, batch, optimizer or element type (seed "
                "%llu, batch %llu)",
                reader->path, (unsigned long long)was->seed, (unsigned long long)was->batch);
    if (head.count != count)
        TN_FAIL(reader->error, TN_E_INVALID, "%.200s holds %u tensors, this run has %u",
                reader->path, head.count, count);
    for (uint32_t i = 0; i < count; i++)
        TN_TRY(checkpoint_tensor(reader, engine, tn_graph_tensor(graph, ids[i]), ids[i]));
    *run = *was;
    return TN_OK;
}

tn_status cli_checkpoint_load(const char *path, tn_engine *engine, const tn_graph *graph,
                              const tn_tensor_id *ids, uint32_t count, cli_progress_of_run *run,
                              tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map(path, &file, error));
    checkpoint_reader reader = {.path = path, .at = file.bytes, .left = file.size, .error = error};
    tn_status status = checkpoint_read(&reader, engine, graph, ids, count, run);
    tn__file_unmap(&file);
    return status;
}
