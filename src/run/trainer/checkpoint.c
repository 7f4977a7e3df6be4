/* checkpoint.c - reads a checkpoint file, and checks every value in it before the value is used;
 * writes the state of a training run to a checkpoint, and restores the state from one. */
#include "run/trainer/checkpoint.h"
#include "graph/element.h"
#include <tenure/train.h>

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- hash --- */

uint64_t tn__checkpoint_hash(const uint8_t *bytes, size_t size) {
    size_t at = offsetof(tn__checkpoint_head, hash), behind = at + sizeof(uint64_t);
    uint64_t hash = 0x9e3779b97f4a7c15u ^ size;
    if (size < behind) return hash;
    return tn__hash(tn__hash(hash, bytes, at), bytes + behind, size - behind);
}

void tn__checkpoint_seal(uint8_t *bytes, size_t size, tn__checkpoint_head *head) {
    memcpy(bytes, head, sizeof *head);
    head->hash = tn__checkpoint_hash(bytes, size);
    memcpy(bytes, head, sizeof *head);
}

/* --- reading --- */

tn_status tn__checkpoint_damaged(const tn__checkpoint_reader *reader) {
    TN_FAIL(reader->error, TN_E_INVALID, "%.200s: the checkpoint is damaged before byte %llu",
            reader->path, (unsigned long long)(reader->at - reader->start));
}

tn_status tn__checkpoint_take(tn__checkpoint_reader *reader, size_t size, const uint8_t **bytes) {
    if (size > reader->left)
        TN_FAIL(reader->error, TN_E_INVALID, "%.200s: the checkpoint is cut short at byte %llu",
                reader->path, (unsigned long long)(reader->at - reader->start) + reader->left);
    *bytes = reader->at;
    reader->at += size;
    reader->left -= size;
    return TN_OK;
}

tn_status tn__checkpoint_copy(tn__checkpoint_reader *reader, void *to, size_t size) {
    const uint8_t *bytes = NULL;
    TN_TRY(tn__checkpoint_take(reader, size, &bytes));
    if (size > 0) memcpy(to, bytes, size);
    return TN_OK;
}

static bool checkpoint_fits(const tn_kept *kept) {
    uint64_t bytes;
    return tn_tensor_size(kept->dtype, (tn_format){0}, kept->rank, kept->shape, &bytes, NULL) ==
               TN_OK &&
           bytes == kept->size;
}

tn_status tn__checkpoint_facts(tn__checkpoint_reader *reader, tn_kept *kept) {
    const uint8_t *name = NULL;
    uint32_t facts[3], length;
    TN_TRY(tn__checkpoint_copy(reader, &length, 4));
    TN_TRY(tn__checkpoint_take(reader, (size_t)length + 1, &name));
    kept->name = (const char *)name;
    TN_TRY(tn__checkpoint_copy(reader, facts, sizeof facts));
    if (memchr(name, 0, (size_t)length + 1) != name + length || facts[0] > TN_ROLE_STATE ||
        facts[1] >= TN_DTYPE_COUNT || facts[2] > TN_RANK_MAX)
        return tn__checkpoint_damaged(reader);
    kept->role = (tn_role)facts[0];
    kept->dtype = (tn_dtype)facts[1];
    kept->rank = facts[2];
    TN_TRY(tn__checkpoint_copy(reader, kept->shape, 8 * (size_t)kept->rank));
    TN_TRY(tn__checkpoint_copy(reader, &kept->size, 8));
    return checkpoint_fits(kept) ? TN_OK : tn__checkpoint_damaged(reader);
}

tn__checkpoint_head tn__checkpoint_head_make(const char *magic, uint32_t count,
                                             const tn_checkpoint_run *run) {
    tn__checkpoint_head head = {.version = TN__CHECKPOINT_VERSION, .count = count};
    memcpy(head.magic, magic, sizeof head.magic);
    memcpy(head.run, run, sizeof head.run);
    memcpy(head.more, (const uint8_t *)run + sizeof head.run, sizeof head.more);
    return head;
}

tn_checkpoint_run tn__checkpoint_run_of(const tn__checkpoint_head *head) {
    tn_checkpoint_run run;
    memcpy(&run, head->run, sizeof head->run);
    memcpy((uint8_t *)&run + sizeof head->run, head->more, sizeof head->more);
    return run;
}

tn_status tn__checkpoint_head_of(tn__checkpoint_reader *reader, const char *magic, uint64_t least,
                                 tn__checkpoint_head *head) {
    const uint8_t *bytes = reader->at;
    size_t size = reader->left, oldest = offsetof(tn__checkpoint_head, more);
    memset(head, 0, sizeof *head);
    TN_TRY(tn__checkpoint_copy(reader, head, oldest));
    if (memcmp(head->magic, magic, sizeof head->magic) != 0 ||
        head->version < TN__CHECKPOINT_OLDEST || head->version > TN__CHECKPOINT_VERSION)
        TN_FAIL(reader->error, TN_E_INVALID, "%.200s is not a checkpoint of this version",
                reader->path);
    if (head->version > TN__CHECKPOINT_OLDEST)
        TN_TRY(tn__checkpoint_copy(reader, head->more, sizeof head->more));
    if (head->hash != tn__checkpoint_hash(bytes, size) || head->count > reader->left / least ||
        tn__checkpoint_run_of(head).loss >= TN_LOSS_COUNT)
        TN_FAIL(reader->error, TN_E_INVALID, "%.200s: the checkpoint is damaged or cut short",
                reader->path);
    return TN_OK;
}

tn_status tn__checkpoint_room(tn_checkpoint *checkpoint, uint32_t count, tn_error *error) {
    tn__arena *arena = &checkpoint->arena;
    checkpoint->kept = tn__arena_array(arena, (size_t)count + 1, sizeof *checkpoint->kept);
    checkpoint->parameters =
        tn__arena_array(arena, (size_t)count + 1, sizeof *checkpoint->parameters);
    bool all = checkpoint->kept != NULL && checkpoint->parameters != NULL;
    return all ? TN_OK : tn__no_memory(error, "a checkpoint");
}

void tn__checkpoint_add(tn_checkpoint *checkpoint, const tn_kept *kept) {
    checkpoint->kept[checkpoint->count++] = *kept;
    if (kept->role == TN_ROLE_PARAMETER)
        checkpoint->parameters[checkpoint->parameter_count++] = kept->name;
}

static tn_status checkpoint_tensors(tn__checkpoint_reader *reader, uint32_t count,
                                    tn_checkpoint *checkpoint) {
    TN_TRY(tn__checkpoint_room(checkpoint, count, reader->error));
    while (checkpoint->count < count) {
        tn_kept kept = {0};
        TN_TRY(tn__checkpoint_facts(reader, &kept));
        TN_TRY(tn__checkpoint_take(reader, kept.size, &kept.bytes));
        tn__checkpoint_add(checkpoint, &kept);
    }
    return reader->left == 0 ? TN_OK : tn__checkpoint_damaged(reader);
}

/* Checks that the bytes are not one of the files of a checkpoint that several ranks wrote. These
 * files have heads of other kinds, and cannot be read from memory alone. */
static tn_status checkpoint_is_whole(const char *name, const void *bytes, size_t size,
                                     tn_error *error) {
    if (size >= 8 && memcmp(bytes, TN__SHARD_MAGIC, 8) == 0)
        TN_FAIL(error, TN_E_INVALID,
                "%.200s is one of the parts of a checkpoint: give the file that names them", name);
    if (size >= 8 && memcmp(bytes, TN__SHARDS_MAGIC, 8) == 0)
        TN_FAIL(error, TN_E_INVALID,
                "%.200s names the parts of a checkpoint, which lie next to it: give its path "
                "(tn_checkpoint_open)",
                name);
    return TN_OK;
}

static tn_status checkpoint_read(tn_checkpoint *checkpoint, const char *name, const void *bytes,
                                 size_t size, tn_error *error) {
    tn__checkpoint_head head;
    checkpoint->path = tn__arena_string(&checkpoint->arena, name, strlen(name));
    if (checkpoint->path == NULL) return tn__no_memory(error, "a checkpoint");
    tn__checkpoint_reader reader = {
        .path = checkpoint->path, .start = bytes, .at = bytes, .left = size, .error = error};
    TN_TRY(checkpoint_is_whole(checkpoint->path, bytes, size, error));
    TN_TRY(tn__checkpoint_head_of(&reader, "TENURECK", TN__CHECKPOINT_LEAST, &head));
    checkpoint->version = head.version;
    checkpoint->run = tn__checkpoint_run_of(&head);
    return checkpoint_tensors(&reader, head.count, checkpoint);
}

/* --- opening --- */

static tn_checkpoint *checkpoint_make(const tn_context *given) {
    tn_context context = tn__context(given);
    tn_checkpoint *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return NULL;
    made->context = context;
    tn__arena_init(&made->arena, &made->context);
    return made;
}

static tn_status checkpoint_finish(tn_checkpoint *made, tn_status status,
                                   tn_checkpoint **checkpoint) {
    if (status == TN_OK)
        *checkpoint = made;
    else
        tn_checkpoint_close(made);
    return status;
}

tn_status tn_checkpoint_read(const char *name, const void *bytes, size_t size,
                             const tn_context *context, tn_checkpoint **checkpoint,
                             tn_error *error) {
    tn_checkpoint *made = checkpoint_make(context);
    if (made == NULL) return tn__no_memory(error, "a checkpoint");
    return checkpoint_finish(made, checkpoint_read(made, name, bytes, size, error), checkpoint);
}

/* A path that is no regular file is refused, because a device may have no end: /dev/zero would be
 * read until memory is exhausted. */
tn_status tn__checkpoint_is_file(const char *path, tn_error *error) {
    struct stat facts;
    bool standard = strcmp(path, "-") == 0;
    int found = standard ? fstat(STDIN_FILENO, &facts) : stat(path, &facts);
    if (found != 0 || S_ISREG(facts.st_mode)) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "%.200s is not a checkpoint: not a regular file", path);
}

tn_status tn_checkpoint_open(const char *path, const tn_context *context,
                             tn_checkpoint **checkpoint, tn_error *error) {
    TN_TRY(tn__checkpoint_is_file(path, error));
    tn_checkpoint *made = checkpoint_make(context);
    if (made == NULL) return tn__no_memory(error, "a checkpoint");
    tn_status status = tn__file_map(path, &made->file, error);
    if (status == TN_OK)
        status = tn__shards_are(&made->file)
                     ? tn__shards_read(made, path, error)
                     : checkpoint_read(made, path, made->file.bytes, made->file.size, error);
    return checkpoint_finish(made, status, checkpoint);
}

void tn_checkpoint_close(tn_checkpoint *checkpoint) {
    if (checkpoint == NULL) return;
    tn_context context = checkpoint->context;
    for (uint32_t i = 0; i < checkpoint->shard_count; i++) tn__file_unmap(&checkpoint->shards[i]);
    tn__file_unmap(&checkpoint->file);
    tn__arena_release(&checkpoint->arena);
    tn__free(&context, checkpoint, sizeof *checkpoint);
}

/* --- contents --- */

const tn_checkpoint_run *tn_checkpoint_of_run(const tn_checkpoint *checkpoint) {
    return &checkpoint->run;
}

uint32_t tn_checkpoint_count(const tn_checkpoint *checkpoint) { return checkpoint->count; }

const tn_kept *tn_checkpoint_tensor(const tn_checkpoint *checkpoint, uint32_t index) {
    return index < checkpoint->count ? &checkpoint->kept[index] : NULL;
}

const tn_kept *tn_checkpoint_find(const tn_checkpoint *checkpoint, const char *name) {
    for (uint32_t i = 0; i < checkpoint->count; i++)
        if (checkpoint->kept[i].role != TN_ROLE_STATE &&
            strcmp(checkpoint->kept[i].name, name) == 0)
            return &checkpoint->kept[i];
    return NULL;
}

/* Whether name, element type and shape of a stored tensor are those of the entry `keep`. */
static bool checkpoint_kept_is(const tn_kept *kept, const tn__keep *keep) {
    bool same = strcmp(kept->name, keep->name) == 0 && kept->dtype == keep->dtype &&
                kept->rank == keep->rank && kept->size == keep->bytes;
    for (uint32_t d = 0; same && d < kept->rank; d++) same = kept->shape[d] == keep->shape[d];
    return same;
}

static bool checkpoint_is_tensor(const tn_kept *kept, const tn_tensor *tensor) {
    const tn__keep keep = {.name = tensor->name,
                           .dtype = tensor->dtype,
                           .rank = tensor->rank,
                           .shape = tensor->shape,
                           .bytes = tensor->bytes};
    return tensor->kind == TN_KIND_PARAMETER && checkpoint_kept_is(kept, &keep);
}

static bool checkpoint_is_in(const tn_kept *kept, const tn_graph *model) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(model); id++)
        if (checkpoint_is_tensor(kept, tn_graph_tensor(model, id))) return true;
    return false;
}

static tn_status checkpoint_check(const tn_checkpoint *checkpoint, const tn_graph *model,
                                  tn_error *error) {
    for (uint32_t i = 0; i < checkpoint->count; i++) {
        const tn_kept *kept = &checkpoint->kept[i];
        if (kept->role == TN_ROLE_STATE || checkpoint_is_in(kept, model)) continue;
        TN_FAIL(error, TN_E_INVALID,
                "%.200s is of another model: this one has no parameter '%.80s' of %s and its shape",
                checkpoint->path, kept->name, tn_dtype_name(kept->dtype));
    }
    return TN_OK;
}

tn_status tn_checkpoint_model(const tn_checkpoint *checkpoint, const tn_graph *graph,
                              tn_graph **model, tn_error *error) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_graph *made;
    options.loss = (tn_loss)checkpoint->run.loss;
    options.output = checkpoint->run.output;
    options.train = checkpoint->parameters;
    options.train_count = checkpoint->parameter_count;
    TN_TRY(tn_train_model(graph, &options, &made, error));
    tn_status status = checkpoint_check(checkpoint, made, error);
    if (status == TN_OK)
        *model = made;
    else
        tn_graph_destroy(made);
    return status;
}

/* --- the state of a run ----------------------------------------------------------------------- */

/* Writes the state of a training run to a checkpoint, and restores the state from one. */

/* --- writing --- */

static uint64_t run_size(const tn__keeping *keeping) {
    uint64_t size = sizeof(tn__checkpoint_head);
    for (uint32_t i = 0; i < keeping->count; i++) {
        const tn__keep *keep = &keeping->list[i];
        size = tn__add_sat(size, TN__CHECKPOINT_LEAST + strlen(keep->name) + 8 * keep->rank);
        size = tn__add_sat(size, keep->bytes);
    }
    return size;
}

/* Writes all tensors of the run to `at`. *odd: set to the name of the first parameter or statistic
 * with an element that is not finite; unchanged if all are finite. */
static tn_status run_fill(uint8_t *at, tn_engine *engine, const tn__keeping *keeping,
                          const char **odd, tn_error *error) {
    for (uint32_t i = 0; i < keeping->count; i++) {
        const tn__keep *keep = &keeping->list[i];
        at = tn__keep_put(at, keep);
        TN_TRY(tn__keep_gather(keeping, keep, engine, at, error));
        if (keep->role != TN_ROLE_STATE && *odd == NULL &&
            tn__first_odd(at, keep->bytes, keep->dtype) != TN_SIZE_UNKNOWN)
            *odd = keep->name;
        at += keep->bytes;
    }
    return TN_OK;
}

tn_status tn__checkpoint_is_odd(const char *odd, const char *path, const tn_checkpoint_run *run,
                                tn_error *error) {
    if (odd == NULL) return TN_OK;
    TN_FAIL(error, TN_E_INVALID,
            "after step %llu '%.80s' holds what is not a number; no checkpoint is written, %.200s "
            "stays as it is; try a lower learning rate",
            (unsigned long long)run->step, odd, path);
}

static tn_status run_write(const char *path, uint8_t *file, uint64_t size, tn_engine *engine,
                           const tn__keeping *keeping, const tn_checkpoint_run *run,
                           tn_error *error) {
    const char *odd = NULL;
    tn__checkpoint_head head = tn__checkpoint_head_make("TENURECK", keeping->count, run);
    TN_TRY(run_fill(file + sizeof head, engine, keeping, &odd, error));
    TN_TRY(tn__checkpoint_is_odd(odd, path, run, error));
    tn__checkpoint_seal(file, size, &head);
    return tn__file_write(path, file, size, error);
}

tn_status tn__checkpoint_save(const char *path, tn_engine *engine, const tn__keeping *keeping,
                              const tn_checkpoint_run *run, uint64_t *bytes, tn_error *error) {
    uint64_t size = run_size(keeping);
    uint8_t *file = tn__alloc_array(keeping->context, size, 1);
    if (file == NULL) return tn__no_memory(error, "a checkpoint");
    tn_status status = run_write(path, file, size, engine, keeping, run, error);
    tn__free(keeping->context, file, size);
    if (status != TN_OK) return status;
    *bytes = size;
    /* deletes files that belong to an earlier checkpoint of several ranks */
    tn__shards_sweep(path, keeping->context, 0);
    return TN_OK;
}

/* --- restoring --- */

/* How a setting of tn_checkpoint_run is stored and printed. */
typedef enum setting_kind {
    SETTING_COUNT,
    SETTING_REAL,
    SETTING_OPTIMIZER,
    SETTING_LOSS,
    SETTING_DTYPE,
    SETTING_OUTPUT
} setting_kind;

typedef struct run_setting {
    const char *name;
    size_t at; /* offset in tn_checkpoint_run */
    setting_kind kind;
} run_setting;

#define SETTING(field, name, kind)                                                                 \
    { name, offsetof(tn_checkpoint_run, field), kind }
static const run_setting run_settings[] = {
    SETTING(seed, "seed", SETTING_COUNT),
    SETTING(batch, "batch", SETTING_COUNT),
    SETTING(micro_batches, "number of micro-batches", SETTING_COUNT),
    SETTING(optimizer, "optimizer", SETTING_OPTIMIZER),
    SETTING(loss, "loss", SETTING_LOSS),
    SETTING(output, "output for the loss", SETTING_OUTPUT),
    SETTING(dtype, "element type", SETTING_DTYPE),
    SETTING(samples, "number of samples", SETTING_COUNT),
    SETTING(dropout_seed, "seed of dropout", SETTING_COUNT),
    SETTING(momentum, "momentum", SETTING_REAL),
    SETTING(nesterov, "form of momentum (1: Nesterov's)", SETTING_COUNT),
    SETTING(beta1, "beta1", SETTING_REAL),
    SETTING(beta2, "beta2", SETTING_REAL),
    SETTING(epsilon, "epsilon", SETTING_REAL),
    SETTING(weight_decay, "weight decay", SETTING_REAL),
    SETTING(loss_scale, "loss scale (0: it adapts)", SETTING_REAL),
    SETTING(batch_norm_momentum, "momentum of running statistics", SETTING_REAL),
    SETTING(prune_share, "share of weights to prune", SETTING_REAL),
    SETTING(prune_begin, "step at which pruning begins", SETTING_COUNT),
    SETTING(prune_end, "step at which pruning ends", SETTING_COUNT),
    SETTING(prune_every, "number of steps between two prunings", SETTING_COUNT),
};
#undef SETTING

static size_t setting_size(const run_setting *setting) {
    return setting->kind == SETTING_COUNT || setting->kind == SETTING_REAL ? 8 : 4;
}

static void setting_text(const run_setting *setting, const tn_checkpoint_run *run, char text[32]) {
    const uint8_t *at = (const uint8_t *)run + setting->at;
    uint64_t count;
    uint32_t number;
    double real;
    memcpy(&number, at, sizeof number);
    if (setting->kind == SETTING_COUNT) {
        memcpy(&count, at, sizeof count);
        snprintf(text, 32, "%llu", (unsigned long long)count);
    } else if (setting->kind == SETTING_REAL) {
        memcpy(&real, at, sizeof real);
        snprintf(text, 32, "%.9g", real);
    } else if (setting->kind == SETTING_OPTIMIZER && number < TN_OPTIMIZER_COUNT) {
        snprintf(text, 32, "%s", tn_optimizer_name((tn_optimizer)number));
    } else if (setting->kind == SETTING_LOSS && number < TN_LOSS_COUNT) {
        snprintf(text, 32, "%s", tn_loss_name((tn_loss)number));
    } else if (setting->kind == SETTING_DTYPE && number < TN_DTYPE_COUNT) {
        snprintf(text, 32, "%s", tn_dtype_name((tn_dtype)number));
    } else {
        snprintf(text, 32, "%u", number);
    }
}

/* Whether a file of an older version leaves the setting unknown. Version 3 has none of the later
 * settings, and some programs wrote 0 for every loss in it. */
static bool setting_is_unknown(const run_setting *setting, const tn_checkpoint *checkpoint) {
    if (checkpoint->version > TN__CHECKPOINT_OLDEST) return false;
    return setting->at >= TN__CHECKPOINT_RUN_OLDEST ||
           (setting->kind == SETTING_LOSS && checkpoint->run.loss == 0);
}

static tn_status run_compare(const tn_checkpoint *checkpoint, const tn_checkpoint_run *run,
                             tn_error *error) {
    const tn_checkpoint_run *was = &checkpoint->run;
    char there[32], here[32];
    for (size_t i = 0; i < sizeof run_settings / sizeof *run_settings; i++) {
        const run_setting *setting = &run_settings[i];
        if (memcmp((const uint8_t *)was + setting->at, (const uint8_t *)run + setting->at,
                   setting_size(setting)) == 0 ||
            setting_is_unknown(setting, checkpoint))
            continue;
        setting_text(setting, was, there);
        setting_text(setting, run, here);
        TN_FAIL(error, TN_E_INVALID, "%.200s is of a run with another %s: %s there, %s here",
                checkpoint->path, setting->name, there, here);
    }
    return TN_OK;
}

/* Whether a stored tensor is the mask of a pruned parameter (masks.c). */
static bool checkpoint_is_mask(const tn_checkpoint *checkpoint, const tn_kept *kept) {
    static const char end[] = ".mask";
    size_t length = strlen(kept->name), own = sizeof end - 1;
    if (kept->role != TN_ROLE_STATE || kept->dtype != TN_UINT8 || length < own) return false;
    if (strcmp(kept->name + length - own, end) != 0) return false;
    for (uint32_t i = 0; i < checkpoint->count; i++)
        if (strlen(checkpoint->kept[i].name) == length - own &&
            strncmp(checkpoint->kept[i].name, kept->name, length - own) == 0)
            return true;
    return false;
}

static bool keeping_has(const tn__keeping *keeping, const char *name) {
    for (uint32_t i = 0; i < keeping->count; i++)
        if (strcmp(keeping->list[i].name, name) == 0) return true;
    return false;
}

static bool checkpoint_has(const tn_checkpoint *checkpoint, const char *name) {
    for (uint32_t i = 0; i < checkpoint->count; i++)
        if (strcmp(checkpoint->kept[i].name, name) == 0) return true;
    return false;
}

/* Writes a type such as "float32[2,3]" into `text`; a longer text is cut off. */
static void tensor_text(tn_dtype dtype, uint32_t rank, const int64_t *shape, char text[120]) {
    int used = snprintf(text, 120, "%s[", tn_dtype_name(dtype));
    for (uint32_t d = 0; d < rank && used < 100; d++)
        used += snprintf(text + used, 120 - (size_t)used, "%s%lld", d > 0 ? "," : "",
                         (long long)shape[d]);
    snprintf(text + used, 120 - (size_t)used, "]");
}

/* Reports the first tensor in which a checkpoint and a run differ. kept, keep: the tensors at its
 * place in both; NULL: one of them has fewer tensors. */
static tn_status tensors_differ(const tn_checkpoint *checkpoint, const tn__keeping *keeping,
                                const tn_kept *kept, const tn__keep *keep, tn_error *error) {
    const char *path = checkpoint->path;
    char there[120], here[120];
    if (kept != NULL && !keeping_has(keeping, kept->name)) {
        if (checkpoint_is_mask(checkpoint, kept))
            TN_FAIL(error, TN_E_INVALID,
                    "%.200s is of a run that prunes '%.80s', and this one does not", path,
                    kept->name);
        TN_FAIL(error, TN_E_INVALID,
                "%.200s has '%.80s', which this run does not train: it is frozen, or the "
                "checkpoint is of another model",
                path, kept->name);
    }
    if (keep != NULL && !checkpoint_has(checkpoint, keep->name)) {
        if (keep->held != NULL)
            TN_FAIL(error, TN_E_INVALID,
                    "%.200s is of a run that does not prune what this one does: it has no '%.80s'",
                    path, keep->name);
        TN_FAIL(error, TN_E_INVALID,
                "%.200s has no '%.80s', which this run trains: it was frozen, or the checkpoint is "
                "of another model",
                path, keep->name);
    }
    if (kept == NULL || keep == NULL || strcmp(kept->name, keep->name) != 0)
        TN_FAIL(error, TN_E_INVALID, "%.200s is of another model: '%.80s' is at another place",
                path, keep != NULL ? keep->name : kept->name);
    tensor_text(kept->dtype, kept->rank, kept->shape, there);
    tensor_text(keep->dtype, keep->rank, keep->shape, here);
    TN_FAIL(error, TN_E_INVALID, "%.200s is of another model: '%.80s' is %s there, %s here", path,
            keep->name, there, here);
}

static tn_status run_compare_tensors(const tn_checkpoint *checkpoint, const tn__keeping *keeping,
                                     tn_error *error) {
    for (uint32_t i = 0; i < keeping->count || i < checkpoint->count; i++) {
        const tn__keep *keep = i < keeping->count ? &keeping->list[i] : NULL;
        const tn_kept *kept = i < checkpoint->count ? &checkpoint->kept[i] : NULL;
        if (keep == NULL || kept == NULL || kept->role != keep->role ||
            !checkpoint_kept_is(kept, keep))
            return tensors_differ(checkpoint, keeping, kept, keep, error);
    }
    return TN_OK;
}

tn_status tn__checkpoint_suits(const tn_checkpoint *checkpoint, const tn__keeping *keeping,
                               const tn_checkpoint_run *run, tn_error *error) {
    TN_TRY(run_compare(checkpoint, run, error));
    return run_compare_tensors(checkpoint, keeping, error);
}

tn_status tn__checkpoint_restore(const tn_checkpoint *checkpoint, tn_engine *engine,
                                 const tn__keeping *keeping, tn_error *error) {
    for (uint32_t i = 0; i < keeping->count; i++)
        TN_TRY(tn__keep_set(&keeping->list[i], engine, checkpoint->kept[i].bytes, error));
    return TN_OK;
}
