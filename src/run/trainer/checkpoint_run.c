/* checkpoint_run.c - writes the state of a training run to a checkpoint, and restores it. */
#include <stdio.h>

#include <tenure/train.h>

#include "graph/element.h"
#include "run/trainer/shards.h"

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

/* odd: out, the first parameter or statistic that is not finite; NULL: none. */
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
    tn__checkpoint_head head = {
        .version = TN__CHECKPOINT_VERSION, .count = keeping->count, .run = *run};
    memcpy(head.magic, "TENURECK", 8);
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
    /* files of an earlier checkpoint of several ranks */
    tn__shards_sweep(path, keeping->context, 0);
    return TN_OK;
}

/* --- restoring --- */

static tn_status run_compare(const tn_checkpoint *checkpoint, const tn_checkpoint_run *run,
                             tn_error *error) {
    const tn_checkpoint_run *was = &checkpoint->run;
    if (was->seed == run->seed && was->batch == run->batch && was->optimizer == run->optimizer &&
        was->dtype == run->dtype && was->micro_batches == run->micro_batches &&
        was->samples == run->samples && (was->loss == run->loss || was->loss == 0))
        return TN_OK; /* a loss of 0 is from an old version, which wrote it for every loss */
    TN_FAIL(error, TN_E_INVALID,
            "%.200s is of a run with another seed, batch, optimizer, loss, element type or data: "
            "seed %llu, batch %llu x %llu, %s, %llu samples",
            checkpoint->path, (unsigned long long)was->seed, (unsigned long long)was->batch,
            (unsigned long long)was->micro_batches,
            was->optimizer < TN_OPTIMIZER_COUNT ? tn_optimizer_name((tn_optimizer)was->optimizer)
                                                : "no optimizer",
            (unsigned long long)was->samples);
}

static tn_status run_compare_tensors(const tn_checkpoint *checkpoint, const tn__keeping *keeping,
                                     tn_error *error) {
    uint32_t count = keeping->count;
    for (uint32_t i = 0; i < count || i < checkpoint->count; i++) {
        const tn__keep *keep = i < count ? &keeping->list[i] : NULL;
        if (keep != NULL && i < checkpoint->count && checkpoint->kept[i].role == keep->role &&
            tn__kept_is(&checkpoint->kept[i], keep))
            continue;
        TN_FAIL(error, TN_E_INVALID, "%.200s is of another model: %s%.80s%s", checkpoint->path,
                keep != NULL ? "'" : "it holds more tensors than this one",
                keep != NULL ? keep->name : "",
                keep != NULL ? "' is expected where it has something else" : "");
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
