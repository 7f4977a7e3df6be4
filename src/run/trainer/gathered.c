/* gathered.c - gathers divided parameters on the first rank, in host memory, one shard after the
 * other: for testing the model between steps. */
#include "run/trainer/trainer.h"

bool tn__trainer_is_apart(const tn_trainer *trainer) {
    const tn_training *step = trainer->training;
    if (trainer->tensor_ranks > 1 || trainer->stages > 1) return true;
    return tn__trainer_shares(trainer) && step->sharded[0].whole != step->sharded[0].parameters;
}

void tn__trainer_forget(tn_trainer *trainer) {
    const tn__keeping *keeping = &trainer->keeping;
    if (trainer->gathered == NULL) return;
    for (uint32_t i = 0; i < keeping->count; i++)
        tn__free(&trainer->context, trainer->gathered[i], keeping->list[i].bytes);
    tn__free(&trainer->context, trainer->gathered, keeping->count * sizeof *trainer->gathered);
    trainer->gathered = NULL;
}

static bool gathered_is(const tn_trainer *trainer, uint32_t index) {
    const tn__keep *keep = &trainer->keeping.list[index];
    if (keep->cut != NULL || keep->staged) return keep->role != TN_ROLE_STATE;
    return keep->apart && keep->role == TN_ROLE_PARAMETER;
}

static tn_status gathered_room(tn_trainer *trainer, tn_error *error) {
    uint32_t count = trainer->keeping.count;
    tn__trainer_forget(trainer);
    trainer->gathered = tn__alloc_array(&trainer->context, count, sizeof *trainer->gathered);
    if (trainer->gathered == NULL) return tn__no_memory(error, "parameters of all ranks");
    for (uint32_t i = 0; i < count; i++) trainer->gathered[i] = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (!gathered_is(trainer, i)) continue;
        trainer->gathered[i] =
            tn__alloc_array(&trainer->context, trainer->keeping.list[i].bytes, 1);
        if (trainer->gathered[i] == NULL) return tn__no_memory(error, "parameters of all ranks");
    }
    return TN_OK;
}

/* Copies the shard in `bytes` to each of its parameters, which are listed in the step's order. */
static void gathered_part(tn_trainer *trainer, uint32_t shard, const uint8_t *bytes) {
    const tn_trained *trained = trainer->training->parameters;
    for (uint32_t i = 0; i < trainer->keeping.count; i++) {
        const tn__keep *keep = &trainer->keeping.list[i];
        if (keep->role != TN_ROLE_PARAMETER) continue;
        if (gathered_is(trainer, i) && trained->shard == shard)
            memcpy(trainer->gathered[i], bytes + trained->at, (size_t)keep->bytes);
        trained++;
    }
}

static tn_status gathered_shard(tn_trainer *trainer, uint32_t number, uint8_t *bytes,
                                tn_error *error) {
    const tn_sharded *shard = &trainer->training->sharded[number];
    const tn_exchange *to = trainer->options.exchange;
    uint8_t *mine = bytes + trainer->part * shard->part_bytes;
    TN_TRY(
        tn_engine_get_static(trainer->engine, shard->parameters, mine, shard->part_bytes, error));
    TN_TRY(to->gather(to->self, trainer->options.group, mine, bytes, shard->part_bytes, error));
    if (trainer->part == 0) gathered_part(trainer, number, bytes);
    return TN_OK;
}

/* Gathers the parameters of a tensor-parallel or pipelined model. The ranks of the first data part
 * together hold all parameters, so only they take part, unless the data parts divide the parameters
 * as well (--shard). */
static tn_status gathered_cut(tn_trainer *trainer, tn_error *error) {
    for (uint32_t i = 0; i < trainer->keeping.count; i++) {
        bool here = trainer->gathered != NULL;
        if (!gathered_is(trainer, i)) continue;
        TN_TRY(tn__keep_gather(&trainer->keeping, &trainer->keeping.list[i], trainer->engine,
                               here ? trainer->gathered[i] : NULL, error));
    }
    return TN_OK;
}

static tn_status gathered_all(tn_trainer *trainer, tn_error *error) {
    const tn_training *step = trainer->training;
    tn_status status = TN_OK;
    if (tn__trainer_leads(trainer)) TN_TRY(gathered_room(trainer, error));
    if (trainer->tensor_ranks > 1 || trainer->stages > 1) {
        bool has = trainer->part == 0 || tn__trainer_shares(trainer);
        return has ? gathered_cut(trainer, error) : TN_OK;
    }
    for (uint32_t k = 0; k < step->sharded_count && status == TN_OK; k++) {
        uint64_t size = step->sharded[k].bytes;
        uint8_t *bytes = tn__alloc_array(&trainer->context, size, 1);
        if (bytes == NULL) return tn__no_memory(error, "parameters of all ranks");
        status = gathered_shard(trainer, k, bytes, error);
        tn__free(&trainer->context, bytes, size);
    }
    return status;
}

tn_status tn_trainer_gather(tn_trainer *trainer, tn_error *error) {
    if (!tn__trainer_is_apart(trainer)) return TN_OK;
    if (tn__trainer_is_lone(trainer)) return tn__trainer_lone(error);
    tn_status status = gathered_all(trainer, error);
    if (status != TN_OK) tn__trainer_forget(trainer);
    return status;
}
