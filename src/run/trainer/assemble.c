/* assemble.c - assembles whole tensors from the parts that ranks of a tensor-parallel or pipelined
 * model hold (tenure/dist.h), and copies whole tensors back into such parts. A checkpoint and a
 * test of the model need whole tensors, one after the other.
 *
 * If the updates of a tensor-parallel model are also divided between ranks, a rank holds only a
 * range of its part. Then the ranks with the same part assemble this part first, and the tensor is
 * assembled from the parts afterwards.
 */
#include "run/trainer/trainer.h"
#include "run/trainer/checkpoint.h"

/* --- divided parameters on the first rank ----------------------------------------------------- */

/* Gathers divided parameters on the first rank, in host memory, one shard after the other, so that
 * the model can be tested between steps. */

bool tn__trainer_is_divided(const tn_trainer *trainer) {
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

/* Copies from `bytes`, the contents of a whole shard, each of its parameters to its place in
 * `gathered`. The parameters are listed in the order of the training step. */
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

/* Gathers the parameters of a tensor-parallel or pipelined model. The ranks that train on the first
 * part of each batch together hold all parameters, so only they take part. If ranks that train on
 * different samples also divide the parameters (--shard), all ranks take part. */
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
    if (!tn__trainer_is_divided(trainer)) return TN_OK;
    if (tn__trainer_is_lone(trainer)) return tn__trainer_lone(error);
    tn_status status = gathered_all(trainer, error);
    if (status != TN_OK) tn__trainer_forget(trainer);
    return status;
}

/* --- tensors of a cut model ------------------------------------------------------------------- */

static uint64_t parts_bytes(const tn__keep *keep) {
    return keep->cut != NULL ? keep->bytes / keep->ranks : keep->bytes;
}

/* Copies the range that this rank holds of its part of a tensor to its place in `mine`, which has
 * room for the whole part. Other bytes of `mine` are unchanged. */
static tn_status parts_get(const tn__keep *keep, tn_engine *engine, uint8_t *mine,
                           tn_error *error) {
    if (!keep->in_shard)
        return tn_engine_get_static(engine, keep->in, mine, parts_bytes(keep), error);
    if (keep->size == 0) return TN_OK;
    return tn_engine_get_static_at(engine, keep->in, keep->at, mine + keep->from, keep->size,
                                   error);
}

tn_status tn__keep_get_part(const tn__keep *keep, tn_engine *engine, void *whole, tn_error *error) {
    uint64_t size = parts_bytes(keep);
    void *mine = tn__alloc_array(keep->context, size, 1);
    if (mine == NULL) return tn__no_memory(error, "a part of a tensor");
    tn_status status = parts_get(keep, engine, mine, error);
    if (status == TN_OK) tn_tensor_part_put(keep->cut, keep->ranks, keep->number, mine, whole);
    tn__free(keep->context, mine, size);
    return status;
}

tn_status tn__keep_set_part(const tn__keep *keep, tn_engine *engine, const void *whole,
                            tn_error *error) {
    uint64_t size = parts_bytes(keep);
    uint8_t *mine = tn__alloc(keep->context, size);
    if (mine == NULL) return tn__no_memory(error, "a part of a tensor");
    tn_tensor_part_take(keep->cut, keep->ranks, keep->number, whole, mine);
    tn_status status = !keep->in_shard ? tn_engine_set_static(engine, keep->in, mine, size, error)
                       : keep->size > 0
                           ? tn_engine_set_static_at(engine, keep->in, keep->at, mine + keep->from,
                                                     keep->size, error)
                           : TN_OK;
    tn__free(keep->context, mine, size);
    return status;
}

/* --- assembling a tensor from its parts --- */

/* Assembles in `mine` the part of a tensor that several ranks divide. Each of these ranks
 * contributes the bytes that it writes to a checkpoint, and zeros elsewhere; the sum, computed on
 * int32 values, is the whole part. `room` is the size of `mine` in bytes, a multiple of 4. */
static tn_status parts_share(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                             uint8_t *mine, uint64_t room, tn_error *error) {
    const tn_exchange *to = keeping->exchange;
    memset(mine, 0, (size_t)room);
    if (keep->length > 0)
        TN_TRY(tn_engine_get_static_at(engine, keep->in, keep->at + (keep->writes - keep->from),
                                       mine + keep->writes, keep->length, error));
    return to->reduce(to->self, keeping->data_group, mine, room / 4, TN_INT32, TN_REDUCTION_SUM,
                      error);
}

/* Copies this rank's part of a tensor to `mine`. If ranks divide the part, assembles it from their
 * ranges. */
static tn_status parts_mine(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                            uint8_t *mine, tn_error *error) {
    uint64_t size = parts_bytes(keep), room = 0;
    if (!keep->in_shard) return parts_get(keep, engine, mine, error);
    if (!tn__align_up(size, 4, &room)) return tn__no_memory(error, "a tensor of all ranks");
    uint8_t *words = tn__alloc(keep->context, room);
    if (words == NULL) return tn__no_memory(error, "a tensor of all ranks");
    tn_status status = parts_share(keeping, keep, engine, words, room, error);
    if (status == TN_OK && size > 0) memcpy(mine, words, (size_t)size);
    tn__free(keep->context, words, room);
    return status;
}

static tn_status parts_gather(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                              uint8_t *all, void *whole, tn_error *error) {
    const tn_exchange *to = keeping->exchange;
    uint64_t size = parts_bytes(keep);
    uint8_t *mine = keep->cut != NULL ? all + keep->number * size : all;
    TN_TRY(parts_mine(keeping, keep, engine, mine, error));
    if (keep->cut != NULL)
        TN_TRY(to->gather(to->self, keeping->group, mine, all, size, error));
    else if (whole != NULL && size > 0)
        memcpy(whole, all, (size_t)size);
    for (uint32_t r = 0; r < keep->ranks && whole != NULL; r++)
        tn_tensor_part_put(keep->cut, keep->ranks, r, all + r * size, whole);
    return TN_OK;
}

/* Assembles a tensor from all ranks of a pipeline stage, or of a model without pipeline. */
static tn_status parts_whole(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                             void *whole, tn_error *error) {
    bool alone = keep->cut == NULL && (!keep->in_shard || keeping->exchange == NULL);
    if (alone) return whole != NULL ? tn__keep_get(keep, engine, whole, error) : TN_OK;
    uint8_t *all = tn__alloc(keep->context, keep->bytes);
    if (all == NULL) return tn__no_memory(error, "a tensor of all ranks");
    tn_status status = parts_gather(keeping, keep, engine, all, whole, error);
    tn__free(keep->context, all, keep->bytes);
    return status;
}

/* Assembles a tensor on the first rank of the pipeline stage that owns it, and sends it to the
 * first ranks of the other stages. */
static tn_status parts_pass(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                            void *bytes, tn_error *error) {
    const tn_exchange *to = keeping->exchange;
    if (keep->owner == keeping->stage) TN_TRY(parts_whole(keeping, keep, engine, bytes, error));
    return to->broadcast(to->self, keeping->stage_group, keep->owner, bytes, keep->bytes, error);
}

static tn_status parts_staged(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                              void *whole, tn_error *error) {
    if (keeping->part > 0)
        return keep->owner == keeping->stage ? parts_whole(keeping, keep, engine, NULL, error)
                                             : TN_OK;
    if (whole != NULL) return parts_pass(keeping, keep, engine, whole, error);
    void *bytes = tn__alloc(keep->context, keep->bytes);
    if (bytes == NULL) return tn__no_memory(error, "a tensor of another stage");
    tn_status status = parts_pass(keeping, keep, engine, bytes, error);
    tn__free(keep->context, bytes, keep->bytes);
    return status;
}

tn_status tn__keep_gather(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                          void *whole, tn_error *error) {
    if (keep->held != NULL) return whole != NULL ? tn__keep_get(keep, engine, whole, error) : TN_OK;
    if (keep->in != TN_NONE)
        return keep->staged ? parts_staged(keeping, keep, engine, whole, error)
                            : parts_whole(keeping, keep, engine, whole, error);
    /* no rank holds the tensor, so its contents are zeros */
    if (whole != NULL && keep->bytes > 0) memset(whole, 0, (size_t)keep->bytes);
    return TN_OK;
}

tn_status tn__keeping_lend(const tn__keeping *keeping, tn_engine *engine, tn_error *error) {
    for (uint32_t i = 0; i < keeping->count; i++)
        TN_TRY(tn__keep_gather(keeping, &keeping->list[i], engine, NULL, error));
    return TN_OK;
}
