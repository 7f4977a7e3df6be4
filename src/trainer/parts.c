/* parts.c - tensors of which every rank of a cut model has a part (tenure/parts.h): a checkpoint
 * and a test have the whole, which ranks put together and take apart one tensor after the other.
 */
#include "trainer/checkpoint.h"
#include "trainer/trainer.h"

static uint64_t parts_bytes(const tn__keep *keep) { return keep->bytes / keep->ranks; }

tn_status tn__keep_get_part(const tn__keep *keep, tn_engine *engine, void *whole, tn_error *error) {
    uint64_t size = parts_bytes(keep);
    void *mine = tn__alloc(keep->context, size);
    if (mine == NULL) return tn__no_memory(error, "a part of a tensor");
    tn_status status = tn_engine_get_static(engine, keep->in, mine, size, error);
    if (status == TN_OK) tn_tensor_part_put(keep->cut, keep->ranks, keep->number, mine, whole);
    tn__free(keep->context, mine, size);
    return status;
}

tn_status tn__keep_set_part(const tn__keep *keep, tn_engine *engine, const void *whole,
                            tn_error *error) {
    uint64_t size = parts_bytes(keep);
    void *mine = tn__alloc(keep->context, size);
    if (mine == NULL) return tn__no_memory(error, "a part of a tensor");
    tn_tensor_part_take(keep->cut, keep->ranks, keep->number, whole, mine);
    tn_status status = tn_engine_set_static(engine, keep->in, mine, size, error);
    tn__free(keep->context, mine, size);
    return status;
}

/* --- all parts --- */

static tn_status parts_gather(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                              uint8_t *all, void *whole, tn_error *error) {
    const tn_exchange *to = keeping->exchange;
    uint64_t size = parts_bytes(keep);
    uint8_t *mine = all + keep->number * size;
    TN_TRY(tn_engine_get_static(engine, keep->in, mine, size, error));
    TN_TRY(to->gather(to->self, keeping->group, mine, all, size, error));
    for (uint32_t r = 0; r < keep->ranks && whole != NULL; r++)
        tn_tensor_part_put(keep->cut, keep->ranks, r, all + r * size, whole);
    return TN_OK;
}

/* What one stage of a pipeline has, to all of them. */
static tn_status parts_pass(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                            void *bytes, tn_error *error) {
    const tn_exchange *to = keeping->exchange;
    if (keep->owner == keeping->stage) TN_TRY(tn__keep_get(keep, engine, bytes, error));
    return to->broadcast(to->self, keeping->group, keep->owner, bytes, keep->bytes, error);
}

static tn_status parts_staged(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                              void *whole, tn_error *error) {
    if (whole != NULL) return parts_pass(keeping, keep, engine, whole, error);
    void *bytes = tn__alloc(keep->context, keep->bytes);
    if (bytes == NULL) return tn__no_memory(error, "a tensor of another stage");
    tn_status status = parts_pass(keeping, keep, engine, bytes, error);
    tn__free(keep->context, bytes, keep->bytes);
    return status;
}

tn_status tn__keep_gather(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                          void *whole, tn_error *error) {
    if (keep->in == TN_NONE) { /* nobody has it: zeros */
        if (whole != NULL && keep->bytes > 0) memset(whole, 0, (size_t)keep->bytes);
        return TN_OK;
    }
    if (keep->staged) return parts_staged(keeping, keep, engine, whole, error);
    if (keep->cut == NULL) return whole != NULL ? tn__keep_get(keep, engine, whole, error) : TN_OK;
    uint8_t *all = tn__alloc(keep->context, keep->bytes);
    if (all == NULL) return tn__no_memory(error, "a tensor of all ranks");
    tn_status status = parts_gather(keeping, keep, engine, all, whole, error);
    tn__free(keep->context, all, keep->bytes);
    return status;
}

tn_status tn__keeping_lend(const tn__keeping *keeping, tn_engine *engine, tn_error *error) {
    for (uint32_t i = 0; i < keeping->count; i++)
        TN_TRY(tn__keep_gather(keeping, &keeping->list[i], engine, NULL, error));
    return TN_OK;
}
