/* checkpoint_run.c - a training run to disk and back. */
#include <stdio.h>

#include <tenure/train.h>

#include "graph/element.h"
#include "trainer/checkpoint.h"

/* --- writing --- */

static uint64_t run_size(const tn__keeping *keeping) {
    uint64_t size = sizeof(tn__checkpoint_head);
    for (uint32_t i = 0; i < keeping->count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(keeping->graph, keeping->ids[i]);
        size = tn__add_sat(size, TN__CHECKPOINT_LEAST + strlen(tensor->name) + 8 * tensor->rank);
        size = tn__add_sat(size, tensor->bytes);
    }
    return size;
}

static uint8_t *run_put(uint8_t *at, const void *bytes, size_t size) {
    if (size > 0) memcpy(at, bytes, size);
    return at + size;
}

/* odd: out, the first parameter or statistic that holds what is no number; NULL: none. */
static tn_status run_fill(uint8_t *at, tn_engine *engine, const tn__keeping *keeping,
                          const char **odd, tn_error *error) {
    for (uint32_t i = 0; i < keeping->count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(keeping->graph, keeping->ids[i]);
        uint32_t facts[] = {(uint32_t)keeping->roles[i], (uint32_t)tensor->dtype, tensor->rank};
        uint32_t length = (uint32_t)strlen(tensor->name);
        at = run_put(at, &length, 4);
        at = run_put(at, tensor->name, (size_t)length + 1);
        at = run_put(at, facts, sizeof facts);
        at = run_put(at, tensor->shape, 8 * (size_t)tensor->rank);
        at = run_put(at, &tensor->bytes, 8);
        TN_TRY(tn_engine_get_static(engine, keeping->ids[i], at, tensor->bytes, error));
        if (keeping->roles[i] != TN_ROLE_STATE && *odd == NULL &&
            tn__first_odd(at, tensor->bytes, tensor->dtype) != TN_SIZE_UNKNOWN)
            *odd = tensor->name;
        at += tensor->bytes;
    }
    return TN_OK;
}

static tn_status run_write(const char *path, uint8_t *file, uint64_t size, tn_engine *engine,
                           const tn__keeping *keeping, const tn_checkpoint_run *run,
                           tn_error *error) {
    const char *odd = NULL;
    tn__checkpoint_head head = {
        .version = TN__CHECKPOINT_VERSION, .count = keeping->count, .run = *run};
    memcpy(head.magic, "TENURECK", 8);
    TN_TRY(run_fill(file + sizeof head, engine, keeping, &odd, error));
    if (odd != NULL)
        TN_FAIL(
            error, TN_E_INVALID,
            "after step %llu '%.80s' holds what is not a number; no checkpoint is written, %.200s "
            "stays as it is; try a lower learning rate",
            (unsigned long long)run->step, odd, path);
    memcpy(file, &head, sizeof head);
    head.hash = tn__checkpoint_hash(file, size);
    memcpy(file, &head, sizeof head);
    return tn__file_write(path, file, size, error);
}

tn_status tn__checkpoint_save(const char *path, tn_engine *engine, const tn__keeping *keeping,
                              const tn_checkpoint_run *run, uint64_t *bytes, tn_error *error) {
    uint64_t size = run_size(keeping);
    uint8_t *file = tn__alloc_array(keeping->context, size, 1);
    if (file == NULL) return tn__no_memory(error, "a checkpoint");
    tn_status status = run_write(path, file, size, engine, keeping, run, error);
    tn__free(keeping->context, file, size);
    if (status == TN_OK) *bytes = size;
    return status;
}

/* --- putting back --- */

static tn_status run_compare(const tn_checkpoint *checkpoint, const tn_checkpoint_run *run,
                             tn_error *error) {
    const tn_checkpoint_run *was = &checkpoint->run;
    if (was->seed == run->seed && was->batch == run->batch && was->optimizer == run->optimizer &&
        was->dtype == run->dtype && was->micro_batches == run->micro_batches &&
        was->samples == run->samples && (was->loss == run->loss || was->loss == 0))
        return TN_OK; /* a loss of 0: of another time it was written for every loss */
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
        const tn_tensor *tensor =
            i < count ? tn_graph_tensor(keeping->graph, keeping->ids[i]) : NULL;
        if (tensor != NULL && i < checkpoint->count &&
            checkpoint->kept[i].role == keeping->roles[i] &&
            tn__kept_is(&checkpoint->kept[i], tensor))
            continue;
        TN_FAIL(error, TN_E_INVALID, "%.200s is of another model: %s%.80s%s", checkpoint->path,
                tensor != NULL ? "'" : "it holds more tensors than this one",
                tensor != NULL ? tensor->name : "",
                tensor != NULL ? "' is expected where it has something else" : "");
    }
    return TN_OK;
}

tn_status tn__checkpoint_restore(const tn_checkpoint *checkpoint, tn_engine *engine,
                                 const tn__keeping *keeping, const tn_checkpoint_run *run,
                                 tn_error *error) {
    TN_TRY(run_compare(checkpoint, run, error));
    TN_TRY(run_compare_tensors(checkpoint, keeping, error));
    for (uint32_t i = 0; i < keeping->count; i++)
        TN_TRY(tn_engine_set_static(engine, keeping->ids[i], checkpoint->kept[i].bytes,
                                    checkpoint->kept[i].size, error));
    return TN_OK;
}
