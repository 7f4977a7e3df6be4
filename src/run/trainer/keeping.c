/* keeping.c - lists the tensors of a training step that are kept between runs, and where a rank
 * holds them.
 *
 * The order is that of the parameters, each followed by its optimizer state, however the ranks
 * divide them, so a checkpoint has the same contents for any number of ranks. If ranks divide the
 * updates, parameters lie one after the other in a shard, and each rank writes to a checkpoint
 * those ranges of them that lie in its own part of the shard. If whole shards are resident, a rank
 * holds more than it writes.
 *
 * An example: the parameters w, b and v, and 000 for padding, in a shard of three parts.
 *
 *     shard    [ w                | b | v               |000]
 *     parts    [    rank 0    |    rank 1    |    rank 2    ]
 *
 * Rank 0 writes the beginning of w; rank 1 writes the end of w, all of b, and the beginning of v;
 * rank 2 writes the end of v.
 */
#include "run/trainer/checkpoint.h"

#include <stdio.h>

typedef struct keeping_list {
    const tn_training *training;
    const tn_context *context;
    tn__arena *arena;
    tn__keep *list;
    uint32_t count;
    bool failed; /* true: memory was exhausted while names were made */
} keeping_list;

/* If a tensor-parallel model divides the tensor, changes the entry so that it describes the whole
 * tensor. */
static void keeping_cut(const keeping_list *list, tn__keep *keep) {
    const tn_tensor_part *part = tn_training_part(list->training, keep->in);
    const tn_part_sums sums = tn_training_parts(list->training);
    if (part == NULL) return;
    keep->cut = part;
    keep->shape = part->shape;
    keep->bytes = keep->size = keep->length = part->bytes;
    keep->ranks = sums.ranks;
    keep->number = sums.rank;
    keep->context = list->context;
}

/* Makes the entry of a tensor that this rank holds whole. */
static tn__keep keeping_of(const tn_graph *graph, tn_tensor_id id, tn_role role) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    return (tn__keep){.name = tensor->name,
                      .role = role,
                      .dtype = tensor->dtype,
                      .rank = tensor->rank,
                      .shape = tensor->shape,
                      .bytes = tensor->bytes,
                      .in = id,
                      .size = tensor->bytes,
                      .length = tensor->bytes,
                      .parameter = role == TN_ROLE_PARAMETER ? id : TN_NONE};
}

static void keeping_add(keeping_list *list, tn_tensor_id id, tn_role role) {
    if (id == TN_NONE) return;
    tn__keep *keep = &list->list[list->count++];
    *keep = keeping_of(list->training->graph, id, role);
    keeping_cut(list, keep);
}

/* --- shards --- */

/* Computes the overlap of [at, at + bytes) with [from, from + size): its offset from `at`, and its
 * length. */
static void keeping_overlap(uint64_t at, uint64_t bytes, uint64_t from, uint64_t size,
                            uint64_t *first, uint64_t *length) {
    uint64_t low = at > from ? at : from;
    uint64_t high = at + bytes < from + size ? at + bytes : from + size;
    *first = low < high ? low - at : 0;
    *length = low < high ? high - low : 0;
}

/* Sets the fields of an entry that say where the tensor lies in the shard, and which bytes of it
 * this rank writes. The static tensor `in` is the whole shard (`whole`), or this rank's part of the
 * shard. */
static void keeping_place(tn__keep *keep, const tn_trained *trained, const tn_sharded *shard,
                          tn_tensor_id in, bool whole) {
    keep->in = in;
    keep->in_shard = true;
    keep->apart = !whole;
    keeping_overlap(trained->at, keep->bytes, shard->from, shard->part_bytes, &keep->writes,
                    &keep->length);
    keep->from = whole ? 0 : keep->writes;
    keep->size = whole ? keep->bytes : keep->length;
    keep->at = whole ? trained->at : keep->size > 0 ? trained->at + keep->from - shard->from : 0;
}

/* If a tensor-parallel model divides the parameter, changes the entry of the parameter or of its
 * state, which is in a shard, so that it describes the whole tensor. The offsets in the entry still
 * count within this rank's part. */
static void keeping_cut_in(const keeping_list *list, tn__keep *keep) {
    const tn_tensor_part *part = tn_training_part(list->training, keep->parameter);
    const tn_part_sums sums = tn_training_parts(list->training);
    if (part == NULL) return;
    keep->cut = part;
    keep->shape = part->shape;
    keep->bytes = part->bytes;
    keep->ranks = sums.ranks;
    keep->number = sums.rank;
}

/* Adds an optimizer state tensor of a parameter that is in a shard. The state is divided like the
 * parameter, and its name is the parameter's name with a suffix. */
static void keeping_add_state(keeping_list *list, const tn_trained *trained,
                              const tn_sharded *shard, tn_tensor_id in) {
    if (in == TN_NONE) return;
    const tn_graph *graph = list->training->graph;
    tn__keep keep = keeping_of(graph, trained->parameter, TN_ROLE_STATE);
    keep.parameter = trained->parameter;
    const char *word = strrchr(tn_graph_tensor(graph, in)->name, '.');
    char name[200];
    snprintf(name, sizeof name, "%.180s%s", keep.name, word != NULL ? word : "");
    keep.name = tn__arena_string(list->arena, name, strlen(name));
    list->failed |= keep.name == NULL;
    keeping_place(&keep, trained, shard, in, false);
    keep.context = list->context;
    keeping_cut_in(list, &keep);
    list->list[list->count++] = keep;
}

/* If one step contains all micro-batches, no sums of gradients are kept between steps; a step of
 * one micro-batch keeps them, and stores them in its checkpoint. This adds an empty entry in place
 * of such a sum, so each kind of step can continue from a checkpoint of the other kind. */
static void keeping_add_no_sum(keeping_list *list, const tn_trained *trained) {
    const tn_training *step = list->training;
    char name[200];
    if (trained->gradient == TN_NONE || step->stages == NULL || step->stages->rounds == 1) return;
    tn__keep keep = keeping_of(step->graph, trained->parameter, TN_ROLE_STATE);
    snprintf(name, sizeof name, "%.180s.sum", keep.name);
    keep.name = tn__arena_string(list->arena, name, strlen(name));
    list->failed |= keep.name == NULL;
    const tn_tensor_part *part = tn_training_part(step, trained->parameter);
    if (part != NULL) keep.shape = part->shape, keep.bytes = part->bytes;
    keep.in = TN_NONE;
    keep.size = keep.length = 0;
    list->list[list->count++] = keep;
}

static void keeping_add_trained(keeping_list *list, const tn_trained *trained) {
    const tn_training *step = list->training;
    if (trained->shard == TN_NONE) {
        keeping_add(list, trained->parameter, TN_ROLE_PARAMETER);
        keeping_add(list, trained->state[0], TN_ROLE_STATE);
        keeping_add(list, trained->state[1], TN_ROLE_STATE);
        keeping_add(list, trained->sum, TN_ROLE_STATE);
        keeping_add_no_sum(list, trained);
        return;
    }
    const tn_sharded *shard = &step->sharded[trained->shard];
    tn__keep keep = keeping_of(step->graph, trained->parameter, TN_ROLE_PARAMETER);
    keeping_place(&keep, trained, shard, shard->parameters, shard->whole == shard->parameters);
    keep.context = list->context;
    keeping_cut_in(list, &keep);
    list->list[list->count++] = keep;
    keeping_add_state(list, trained, shard, shard->state[0]);
    keeping_add_state(list, trained, shard, shard->state[1]);
    keeping_add_state(list, trained, shard, shard->sum);
    keeping_add_no_sum(list, trained);
}

tn_status tn__keeping_make(const tn_training *training, const tn_context *context, tn__arena *arena,
                           tn__keeping *keeping, tn_error *error) {
    size_t room = 5 * (size_t)training->parameter_count + training->statistic_count + 1;
    keeping_list list = {.training = training, .context = context, .arena = arena};
    list.list = tn__arena_array(arena, room, sizeof *list.list);
    if (list.list == NULL) return tn__no_memory(error, "a checkpoint");
    for (uint32_t i = 0; i < training->parameter_count; i++)
        keeping_add_trained(&list, &training->parameters[i]);
    for (uint32_t i = 0; i < training->statistic_count; i++)
        keeping_add(&list, training->statistics[i], TN_ROLE_STATISTIC);
    keeping_add(&list, training->loss_scale, TN_ROLE_STATE);
    if (list.failed) return tn__no_memory(error, "a checkpoint");
    *keeping = (tn__keeping){.context = context, .list = list.list, .count = list.count};
    return TN_OK;
}

/* --- pipeline --- */

void tn__keeping_stage(tn__keeping *keeping, const tn_stages *stages, uint32_t count,
                       uint32_t stage) {
    keeping->stage = stage;
    for (uint32_t i = 0, parameter = TN_NONE; i < keeping->count; i++) {
        tn__keep *keep = &keeping->list[i];
        /* entries for the optimizer state of a parameter follow the parameter, and keep its id */
        if (keep->role != TN_ROLE_STATE) parameter = keep->in;
        uint64_t readers = stages->homes[parameter].readers, on = 0;
        for (uint32_t part = 0; part < stages->parts; part++)
            if (readers >> part & 1) on |= UINT64_C(1) << part % count;
        keep->staged = true;
        keep->owner = 0;
        keep->context = keeping->context;
        while (keep->owner + 1 < count && !(on >> keep->owner & 1)) keep->owner++;
        if (!(on >> stage & 1)) keep->size = keep->length = 0;
    }
}

/* --- copying one tensor to or from the engine --- */

tn_status tn__keep_get(const tn__keep *keep, tn_engine *engine, void *whole, tn_error *error) {
    if (keep->size == 0) return TN_OK;
    if (keep->held != NULL) {
        memcpy(whole, keep->held, (size_t)keep->size);
        return TN_OK;
    }
    if (keep->cut != NULL) return tn__keep_get_part(keep, engine, whole, error);
    return tn_engine_get_static_at(engine, keep->in, keep->at, (uint8_t *)whole + keep->from,
                                   keep->size, error);
}

tn_status tn__keep_set(const tn__keep *keep, tn_engine *engine, const void *whole,
                       tn_error *error) {
    if (keep->size == 0) return TN_OK;
    if (keep->held != NULL) {
        memcpy(keep->held, whole, (size_t)keep->size);
        return TN_OK;
    }
    if (keep->cut != NULL) return tn__keep_set_part(keep, engine, whole, error);
    return tn_engine_set_static_at(engine, keep->in, keep->at, (const uint8_t *)whole + keep->from,
                                   keep->size, error);
}

static uint8_t *keeping_put(uint8_t *at, const void *bytes, size_t size) {
    if (size > 0) memcpy(at, bytes, size);
    return at + size;
}

uint8_t *tn__keep_put(uint8_t *at, const tn__keep *keep) {
    uint32_t facts[] = {(uint32_t)keep->role, (uint32_t)keep->dtype, keep->rank};
    uint32_t length = (uint32_t)strlen(keep->name);
    at = keeping_put(at, &length, 4);
    at = keeping_put(at, keep->name, (size_t)length + 1);
    at = keeping_put(at, facts, sizeof facts);
    at = keeping_put(at, keep->shape, 8 * (size_t)keep->rank);
    return keeping_put(at, &keep->bytes, 8);
}
