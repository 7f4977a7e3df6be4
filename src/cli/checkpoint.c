/* checkpoint.c - a training run on disk. */
#include "cli/checkpoint.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECKPOINT_VERSION 3u
#define CHECKPOINT_LEAST 25u /* bytes of a tensor without name, extents and contents */

typedef struct checkpoint_head {
    char magic[8];
    uint32_t version, count;
    cli_progress_of_run run;
    uint64_t hash;
} checkpoint_head;

static uint64_t checkpoint_mix(uint64_t hash, const uint8_t *bytes, size_t size) {
    uint64_t word;
    for (; size > 0; bytes += sizeof word) {
        size_t take = size < sizeof word ? size : sizeof word;
        word = 0;
        memcpy(&word, bytes, take);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
        size -= take;
    }
    return hash;
}

/* For damage, not for enemies: eight bytes at a time, every bit of them to all bits. */
uint64_t cli_checkpoint_hash(const uint8_t *bytes, size_t size) {
    size_t at = offsetof(checkpoint_head, hash), behind = at + sizeof(uint64_t);
    uint64_t hash = 0x9e3779b97f4a7c15u ^ size;
    if (size < behind) return hash;
    return checkpoint_mix(checkpoint_mix(hash, bytes, at), bytes + behind, size - behind);
}

/* --- writing --- */

static uint64_t checkpoint_size(const tn_graph *graph, const tn_tensor_id *ids, uint32_t count) {
    uint64_t size = sizeof(checkpoint_head);
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, ids[i]);
        size = tn__add_sat(size, CHECKPOINT_LEAST + strlen(tensor->name) + 8 * tensor->rank);
        size = tn__add_sat(size, tensor->bytes);
    }
    return size;
}

static uint8_t *checkpoint_put(uint8_t *at, const void *bytes, size_t size) {
    if (size > 0) memcpy(at, bytes, size);
    return at + size;
}

static tn_status checkpoint_fill(uint8_t *at, tn_engine *engine, const tn_graph *graph,
                                 const tn_tensor_id *ids, const cli_role *roles, uint32_t count,
                                 const char **odd, tn_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, ids[i]);
        uint32_t facts[] = {(uint32_t)roles[i], (uint32_t)tensor->dtype, tensor->rank};
        uint32_t length = (uint32_t)strlen(tensor->name);
        at = checkpoint_put(at, &length, 4);
        at = checkpoint_put(at, tensor->name, (size_t)length + 1);
        at = checkpoint_put(at, facts, sizeof facts);
        at = checkpoint_put(at, tensor->shape, 8 * (size_t)tensor->rank);
        at = checkpoint_put(at, &tensor->bytes, 8);
        TN_TRY(tn_engine_get_static(engine, ids[i], at, tensor->bytes, error));
        if (roles[i] != CLI_ROLE_STATE && *odd == NULL &&
            cli_first_odd(at, tensor->bytes, tensor->dtype) != TN_SIZE_UNKNOWN)
            *odd = tensor->name;
        at += tensor->bytes;
    }
    return TN_OK;
}

tn_status cli_checkpoint_save(const char *path, tn_engine *engine, const tn_graph *graph,
                              const tn_tensor_id *ids, const cli_role *roles, uint32_t count,
                              const cli_progress_of_run *run, uint64_t *bytes, tn_error *error) {
    uint64_t size = checkpoint_size(graph, ids, count);
    const char *odd = NULL;
    uint8_t *file = calloc(1, size);
    if (file == NULL) return tn__no_memory(error, "a checkpoint");
    checkpoint_head head = {.version = CHECKPOINT_VERSION, .count = count, .run = *run};
    memcpy(head.magic, "TENURECK", 8);
    tn_status status =
        checkpoint_fill(file + sizeof head, engine, graph, ids, roles, count, &odd, error);
    if (status == TN_OK && odd != NULL)
        status = tn__fail(error, TN_E_INVALID,
                          "after step %llu '%.80s' holds what is no number; no checkpoint is "
                          "written, %.200s stays as it is; try a lower --lr",
                          (unsigned long long)run->step, odd, path);
    if (status == TN_OK) {
        memcpy(file, &head, sizeof head);
        head.hash = cli_checkpoint_hash(file, size);
        memcpy(file, &head, sizeof head);
        status = tn__file_write(path, file, size, error);
    }
    free(file);
    *bytes = size;
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

static tn_status checkpoint_copy(checkpoint_reader *reader, void *to, size_t size) {
    const uint8_t *bytes = NULL;
    TN_TRY(checkpoint_take(reader, size, &bytes));
    if (size > 0) memcpy(to, bytes, size);
    return TN_OK;
}

static tn_status checkpoint_tensor(checkpoint_reader *reader, cli_kept *kept) {
    const uint8_t *name = NULL;
    uint32_t facts[3], length;
    TN_TRY(checkpoint_copy(reader, &length, 4));
    TN_TRY(checkpoint_take(reader, (size_t)length + 1, &name));
    kept->name = (const char *)name;
    TN_TRY(checkpoint_copy(reader, facts, sizeof facts));
    if (memchr(name, 0, (size_t)length + 1) != name + length || facts[0] > CLI_ROLE_STATE ||
        facts[1] >= TN_DTYPE_COUNT || facts[2] > TN_RANK_MAX)
        TN_FAIL(reader->error, TN_E_INVALID, "%.200s: the checkpoint is damaged", reader->path);
    kept->role = (cli_role)facts[0];
    kept->dtype = (tn_dtype)facts[1];
    kept->rank = facts[2];
    TN_TRY(checkpoint_copy(reader, kept->shape, 8 * (size_t)kept->rank));
    TN_TRY(checkpoint_copy(reader, &kept->size, 8));
    return checkpoint_take(reader, kept->size, &kept->bytes);
}

tn_status cli_checkpoint_read(const char *path, const uint8_t *bytes, size_t size,
                              cli_checkpoint *checkpoint, tn_error *error) {
    checkpoint_reader reader = {.path = path, .at = bytes, .left = size, .error = error};
    checkpoint_head head;
    *checkpoint = (cli_checkpoint){.path = path};
    TN_TRY(checkpoint_copy(&reader, &head, sizeof head));
    if (memcmp(head.magic, "TENURECK", 8) != 0 || head.version != CHECKPOINT_VERSION)
        TN_FAIL(error, TN_E_INVALID, "%.200s is no checkpoint of this version", path);
    if (head.hash != cli_checkpoint_hash(bytes, size) ||
        head.count > reader.left / CHECKPOINT_LEAST || head.run.loss >= TN_LOSS_COUNT)
        TN_FAIL(error, TN_E_INVALID, "%.200s: the checkpoint is damaged or cut short", path);
    checkpoint->run = head.run;
    checkpoint->kept = calloc((size_t)head.count + 1, sizeof *checkpoint->kept);
    checkpoint->parameters = calloc((size_t)head.count + 1, sizeof *checkpoint->parameters);
    if (checkpoint->kept == NULL || checkpoint->parameters == NULL)
        return tn__no_memory(error, "a checkpoint");
    for (; checkpoint->count < head.count; checkpoint->count++) {
        cli_kept *kept = &checkpoint->kept[checkpoint->count];
        TN_TRY(checkpoint_tensor(&reader, kept));
        if (kept->role == CLI_ROLE_PARAMETER)
            checkpoint->parameters[checkpoint->parameter_count++] = kept->name;
    }
    if (reader.left > 0) TN_FAIL(error, TN_E_INVALID, "%.200s: the checkpoint is damaged", path);
    return TN_OK;
}

/* A device may have no end: /dev/zero would be read until memory is full. */
static tn_status checkpoint_is_file(const char *path, tn_error *error) {
    struct stat facts;
    bool standard = strcmp(path, "-") == 0;
    int found = standard ? fstat(STDIN_FILENO, &facts) : stat(path, &facts);
    if (found != 0 || S_ISREG(facts.st_mode)) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "%.200s is no checkpoint: not a regular file", path);
}

tn_status cli_checkpoint_open(const char *path, cli_checkpoint *checkpoint, tn_error *error) {
    tn__file file;
    *checkpoint = (cli_checkpoint){0};
    TN_TRY(checkpoint_is_file(path, error));
    TN_TRY(tn__file_map(path, &file, error));
    tn_status status = cli_checkpoint_read(path, file.bytes, file.size, checkpoint, error);
    checkpoint->file = file;
    if (status != TN_OK) cli_checkpoint_close(checkpoint);
    return status;
}

void cli_checkpoint_close(cli_checkpoint *checkpoint) {
    free(checkpoint->kept);
    free(checkpoint->parameters);
    tn__file_unmap(&checkpoint->file);
    *checkpoint = (cli_checkpoint){0};
}

/* --- using --- */

static bool checkpoint_is(const cli_kept *kept, const tn_tensor *tensor) {
    bool same = strcmp(kept->name, tensor->name) == 0 && kept->dtype == tensor->dtype &&
                kept->rank == tensor->rank && kept->size == tensor->bytes;
    for (uint32_t d = 0; same && d < kept->rank; d++) same = kept->shape[d] == tensor->shape[d];
    return same;
}

tn_status cli_checkpoint_restore(const cli_checkpoint *checkpoint, tn_engine *engine,
                                 const tn_graph *graph, const tn_tensor_id *ids,
                                 const cli_role *roles, uint32_t count, cli_progress_of_run *run,
                                 tn_error *error) {
    const cli_progress_of_run *was = &checkpoint->run;
    if (was->seed != run->seed || was->batch != run->batch || was->optimizer != run->optimizer ||
        was->dtype != run->dtype || was->micro_batches != run->micro_batches ||
        was->samples != run->samples || was->loss != run->loss)
        TN_FAIL(
            error, TN_E_INVALID,
            "%.200s is of a run with another seed, batch, optimizer, loss, element type or data: "
            "seed %llu, batch %llu x %llu, %s, %llu samples",
            checkpoint->path, (unsigned long long)was->seed, (unsigned long long)was->batch,
            (unsigned long long)was->micro_batches,
            was->optimizer < TN_OPTIMIZER_COUNT ? tn_optimizer_name((tn_optimizer)was->optimizer)
                                                : "no optimizer",
            (unsigned long long)was->samples);
    for (uint32_t i = 0; i < count || i < checkpoint->count; i++) {
        if (i < count && i < checkpoint->count && checkpoint->kept[i].role == roles[i] &&
            checkpoint_is(&checkpoint->kept[i], tn_graph_tensor(graph, ids[i])))
            continue;
        TN_FAIL(error, TN_E_INVALID, "%.200s is of another model: %s%.80s%s", checkpoint->path,
                i < count ? "'" : "it holds more tensors than this one",
                i < count ? tn_graph_tensor(graph, ids[i])->name : "",
                i < count ? "' is expected where it has something else" : "");
    }
    for (uint32_t i = 0; i < count; i++)
        TN_TRY(tn_engine_set_static(engine, ids[i], checkpoint->kept[i].bytes,
                                    checkpoint->kept[i].size, error));
    run->step = was->step;
    return TN_OK;
}

const cli_kept *cli_checkpoint_find(const cli_checkpoint *checkpoint, const char *name) {
    for (uint32_t i = 0; i < checkpoint->count; i++)
        if (checkpoint->kept[i].role != CLI_ROLE_STATE &&
            strcmp(checkpoint->kept[i].name, name) == 0)
            return &checkpoint->kept[i];
    return NULL;
}

static bool checkpoint_is_in(const cli_kept *kept, const tn_graph *model) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(model); id++)
        if (tn_graph_tensor(model, id)->kind == TN_KIND_PARAMETER &&
            checkpoint_is(kept, tn_graph_tensor(model, id)))
            return true;
    return false;
}

tn_status cli_checkpoint_check(const cli_checkpoint *checkpoint, const tn_graph *model,
                               tn_error *error) {
    for (uint32_t i = 0; i < checkpoint->count; i++) {
        const cli_kept *kept = &checkpoint->kept[i];
        if (kept->role == CLI_ROLE_STATE || checkpoint_is_in(kept, model)) continue;
        TN_FAIL(error, TN_E_INVALID,
                "%.200s is of another model: this one has no parameter '%.80s' of %s and its shape",
                checkpoint->path, kept->name, tn_dtype_name(kept->dtype));
    }
    return TN_OK;
}
