/* buckets.c - gathers gradients in buckets, and divides the training state among ranks by them.
 *
 * Several ranks that train the same model average their gradients (dist). Buckets make this an
 * operation on a few large tensors, each of which is ready as soon as its last gradient is. A
 * gradient is complete when the last reader of its parameter has been visited. Buckets are filled
 * in that order, so the first one is complete while most of the backward pass is still to come. On
 * one rank, buckets change no bit.
 * Source: Li et al., "PyTorch Distributed" (2020).
 */
#include "graph/rules/bucket.h"
#include "graph/train/frame.h"

#include <stdio.h>

/* limit of gradients in one bucket; program/liveness/buffers.c can place that many inputs inside
 * their bucket */
#define BUCKET_MOST 200u

/* --- buckets ---------------------------------------------------------------------------------- */

static tn_status bucket_updates(tn__train *it, const uint32_t *list, uint32_t count) {
    for (uint32_t i = 0; i < count && it->options.fuse_update; i++) {
        TN_TRY(tn__train_move(it, tn__train_home_of_parameter(it, list[i], true)));
        TN_TRY(tn__train_complete(it, list[i]));
        TN_TRY(tn__train_update(it, list[i]));
    }
    uint32_t shard = count > 0 ? it->made.parameters[list[0]].shard : TN_NONE;
    if (shard == TN_NONE || !it->options.fuse_update) return TN_OK;
    TN_TRY(tn__train_complete_shard(it, shard));
    return tn__train_update_shard(it, shard);
}

static tn_status bucket_tensor(tn__train *it, const char *name, tn_tensor_id *id) {
    tn_tensor_spec spec = {.name = name, .kind = TN_KIND_GRADIENT, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

/* The gradients that wait for a bucket, and the tensors that will replace them. */
typedef struct bucket_lists {
    tn_tensor_id given[BUCKET_MOST], parts[BUCKET_MOST];
    int64_t shapes[BUCKET_MOST * (1 + TN_RANK_MAX)];
    uint32_t shape_count;
} bucket_lists;

/* Lists the gradients that wait for a bucket. With shards, no tensors replace them. */
static tn_status bucket_list(tn__train *it, bucket_lists *lists) {
    for (uint32_t i = 0; i < it->waiting_count; i++) {
        tn_tensor_id parameter = it->made.parameters[it->waiting[i]].parameter;
        const tn_tensor like = *tn_graph_tensor(it->graph, parameter);
        char name[200];
        lists->given[i] = it->gradient[parameter];
        if (tn__train_shards(it)) continue;
        lists->shapes[lists->shape_count++] = like.rank;
        for (uint32_t d = 0; d < like.rank; d++)
            lists->shapes[lists->shape_count++] = like.shape[d];
        snprintf(name, sizeof name, "%.180s.bucket",
                 tn_graph_tensor(it->graph, lists->given[i])->name);
        TN_TRY(bucket_tensor(it, name, &lists->parts[i]));
    }
    return TN_OK;
}

/* Makes a bucket of the gradients that wait. If ranks shard it, it has one part of equal size per
 * rank. */
static tn_status bucket_make(tn__train *it, const bucket_lists *lists, tn_tensor_id *bucket) {
    int64_t to = tn_graph_tensor(it->graph, it->made.parameters[it->waiting[0]].parameter)->dtype;
    int64_t parts = tn__train_shards(it) ? it->options.shard_count : 1;
    const tn_attr attrs[] = {TN__ATTR_INT("to", &to), TN__ATTR_INT("parts", &parts)};
    char name[32];
    snprintf(name, sizeof name, "bucket.%u", it->bucket_count++);
    TN_TRY(bucket_tensor(it, name, bucket));
    return tn__train_op(it, name, "Bucket", lists->given, it->waiting_count, bucket, 1, attrs,
                        parts > 1 ? 2 : 1);
}

static tn_status bucket_give(tn__train *it, bucket_lists *lists, tn_tensor_id bucket) {
    for (uint32_t i = 0; i < it->waiting_count; i++)
        it->gradient[it->made.parameters[it->waiting[i]].parameter] = lists->parts[i];
    const tn_attr shapes = TN__ATTR_INTS("shapes", lists->shapes, lists->shape_count);
    return tn__train_op(it, tn_graph_tensor(it->graph, bucket)->name, "BucketParts", &bucket, 1,
                        lists->parts, it->waiting_count, &shapes, 1);
}

static tn_status train_shard(tn__train *it, tn_tensor_id bucket, const uint32_t *list,
                             uint32_t count);

static tn_status bucket_all(tn__train *it, bucket_lists *lists) {
    tn_tensor_id bucket;
    TN_TRY(bucket_list(it, lists));
    TN_TRY(bucket_make(it, lists, &bucket));
    return tn__train_shards(it) ? train_shard(it, bucket, it->waiting, it->waiting_count)
                                : bucket_give(it, lists, bucket);
}

static tn_status bucket_close(tn__train *it) {
    uint32_t count = it->waiting_count;
    if (count == 0) return TN_OK;
    bucket_lists *lists = tn__alloc_array(it->context, 1, sizeof *lists);
    if (lists == NULL) return tn__no_memory(it->error, "a bucket of gradients");
    const tn_home home = it->home;
    tn_status status = tn__train_move(it, tn__train_home_of_parameter(it, it->waiting[0], true));
    if (status == TN_OK) status = bucket_all(it, lists);
    tn__free(it->context, lists, sizeof *lists);
    if (status != TN_OK) return status;
    it->waiting_count = 0;
    it->waiting_bytes = 0;
    TN_TRY(bucket_updates(it, it->waiting, count));
    return tn__train_move(it, home);
}

/* Whether the parts of a pipeline that hold parameter a are those that hold parameter b. */
static bool bucket_is_near(const tn__train *it, uint32_t a, uint32_t b) {
    const tn_trained *list = it->made.parameters;
    return it->homes == NULL ||
           it->homes[list[a].parameter].readers == it->homes[list[b].parameter].readers;
}

/* Whether this gradient may be put into one bucket with the gradients that wait. */
static bool bucket_suits(const tn__train *it, const tn_tensor *parameter, uint32_t number) {
    if (it->waiting_count == 0) return true;
    const tn_tensor *first =
        tn_graph_tensor(it->graph, it->made.parameters[it->waiting[0]].parameter);
    return it->waiting_count < BUCKET_MOST && first->dtype == parameter->dtype &&
           bucket_is_near(it, it->waiting[0], number) &&
           tn__add_sat(it->waiting_bytes, parameter->bytes) <= it->options.bucket_bytes;
}

/* If several parts of a pipeline have a sum of gradients for a parameter, adds these sums in all of
 * the parts. */
static tn_status bucket_sum(tn__train *it, uint32_t number) {
    const tn_home home = it->home;
    if (!tn__train_is_whole(it)) return TN_OK;
    TN_TRY(tn__train_move(it, tn__train_home_of_parameter(it, number, true)));
    TN_TRY(tn__train_sum_parts(it, it->made.parameters[number].parameter));
    return tn__train_move(it, home);
}

tn_status tn__train_arrived(tn__train *it, uint32_t number) {
    tn_tensor_id id = it->made.parameters[number].parameter;
    if (it->arrived[number]) return TN_OK;
    it->arrived[number] = true;
    TN_TRY(bucket_sum(it, number));
    if (it->options.bucket_bytes == 0 || it->gradient[id] == TN_NONE)
        return bucket_updates(it, &number, 1);
    const tn_tensor *parameter = tn_graph_tensor(it->graph, id);
    uint64_t bytes = tn__bucket_bytes(1, parameter->bytes);
    if (!bucket_suits(it, parameter, number)) TN_TRY(bucket_close(it));
    it->waiting[it->waiting_count++] = number;
    it->waiting_bytes = tn__add_sat(it->waiting_bytes, bytes);
    return TN_OK;
}

tn_status tn__train_arrived_all(tn__train *it) {
    for (uint32_t i = 0; i < it->made.parameter_count && it->options.bucket_bytes > 0; i++)
        TN_TRY(tn__train_arrived(it, i));
    return bucket_close(it);
}

/* --- shards: buckets that ranks divide -------------------------------------------------------- */

/* Makes the training step of one of several ranks that each keep a part of the training state.
 *
 * A bucket of gradients becomes a shard: the parameters lie in it in the same order as their
 * gradients. So one rank updates the same range of both, even if the range begins inside a
 * parameter.
 *
 *                      optimizer, gradients                     parameters
 *     kept             shard.0 [whole]  moments [part]          shard.0 [part]  moments [part]
 *     before all       BucketParts(shard.0) -> w, b ...         ShardWhole -> BucketParts -> w, b
 *     when it is full  Bucket(dw, db ...) -> bucket.0, ShardPart -> part of it
 *     update           of shard.0 from `from` on                of shard.0
 *
 * The communication of ranks (SCATTER, GATHER, and when whole shards come and go) is added with the
 * program of one rank (run/dist/average.c, gather.c). Parameters without a gradient stay as they
 * are.
 * Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 * Models" (2020).
 */

bool tn__train_shards(const tn__train *it) {
    return it->options.shard != TN_SHARD_NONE && it->options.shard_count > 1;
}

tn_status tn__train_shard_check(const tn__train *it) {
    const tn_train_options *options = &it->options;
    if ((unsigned)options->shard >= TN_SHARD_COUNT)
        TN_FAIL(it->error, TN_E_UNKNOWN, "there is nothing like that to be divided among ranks");
    if (!tn__train_shards(it)) return TN_OK;
    if (options->shard_count > TN_SHARDS_MAX || options->shard_index >= options->shard_count)
        TN_FAIL(it->error, TN_E_INVALID, "part %u of %u", options->shard_index,
                options->shard_count);
    if (options->bucket_bytes == 0)
        TN_FAIL(it->error, TN_E_INVALID,
                "ranks divide buckets of gradients among each other; set `bucket_bytes`");
    if (options->optimizer == TN_OPTIMIZER_NONE || options->output_gradients)
        TN_FAIL(it->error, TN_E_INVALID,
                "a rank that updates a part of the parameters hands out no gradients");
    if (options->dynamic_loss_scale)
        TN_FAIL(
            it->error, TN_E_UNSUPPORTED,
            "a loss scale that adapts needs all gradients, and a rank with a part of the state has "
            "only its own; set `loss_scale` to a number, or leave out `shard`");
    return TN_OK;
}

/* --- adding tensors and operators of shards --- */

static tn_status shard_result(tn__train *it, tn_kind kind, uint32_t number, const char *what,
                              tn_tensor_id *id) {
    char name[64];
    snprintf(name, sizeof name, "shard.%u.%s", number, what);
    tn_tensor_spec spec = {.name = name, .kind = kind, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

static tn_status shard_op(tn__train *it, const char *type, tn_tensor_id from, tn_tensor_id to) {
    int64_t parts = it->options.shard_count, part = it->options.shard_index;
    const tn_attr attrs[] = {TN__ATTR_INT("parts", &parts), TN__ATTR_INT("part", &part)};
    return tn__train_op(it, tn_graph_tensor(it->graph, to)->name, type, &from, 1, &to, 1, attrs, 2);
}

/* --- making a shard from a complete bucket --- */

static tn_status shard_keep(tn__train *it, tn_sharded *shard, uint32_t number, tn_dtype dtype) {
    uint64_t width = tn_dtype_bits(dtype) / 8;
    bool whole = it->options.shard != TN_SHARD_PARAMETERS;
    int64_t length = (int64_t)((whole ? shard->bytes : shard->part_bytes) / width);
    char name[32];
    snprintf(name, sizeof name, "shard.%u", number);
    tn_tensor_spec spec = {.name = name,
                           .dtype = dtype,
                           .kind = TN_KIND_PARAMETER,
                           .flags = TN_TENSOR_UPDATED,
                           .rank = 1,
                           .shape = &length};
    TN_TRY(tn_graph_add_tensor(it->graph, &spec, &shard->parameters, it->error));
    shard->whole = shard->parameters;
    return whole ? TN_OK : shard_result(it, TN_KIND_ACTIVATION, number, "whole", &shard->whole);
}

/* Makes the next shard from a bucket of the gradients of these parameters. */
static tn_status train_shard(tn__train *it, tn_tensor_id bucket, const uint32_t *list,
                             uint32_t count) {
    uint32_t number = it->made.sharded_count;
    tn_sharded *shard = &it->made.sharded[number];
    uint64_t at = 0;
    *shard = (tn_sharded){.state = {TN_NONE, TN_NONE}, .sum = TN_NONE};
    tn_dtype dtype = tn_graph_tensor(it->graph, it->made.parameters[list[0]].parameter)->dtype;
    for (uint32_t i = 0; i < count; i++) {
        tn_trained *trained = &it->made.parameters[list[i]];
        trained->shard = number;
        trained->at = at;
        at = tn__add_sat(
            at, tn__bucket_bytes(1, tn_graph_tensor(it->graph, trained->parameter)->bytes));
    }
    shard->bytes = tn__bucket_whole(at, it->options.shard_count);
    if (shard->bytes == TN_SIZE_UNKNOWN || shard->bytes > INT64_MAX)
        TN_FAIL(it->error, TN_E_INVALID, "a bucket of gradients is too large");
    shard->part_bytes = shard->bytes / it->options.shard_count;
    shard->from = (uint64_t)it->options.shard_index * shard->part_bytes;
    it->made.sharded_count++;
    TN_TRY(shard_keep(it, shard, number, dtype));
    TN_TRY(shard_result(it, TN_KIND_GRADIENT, number, "gradient", &shard->gradient));
    return shard_op(it, "ShardPart", bucket, shard->gradient);
}

/* --- parameters that become views of shards --- */

typedef struct shard_lists {
    tn_tensor_id *ids;
    int64_t *shapes;
    uint32_t count, shape_count;
} shard_lists;

static int shard_order(const void *a, const void *b) {
    const tn_trained *x = *(const tn_trained *const *)a, *y = *(const tn_trained *const *)b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Removes the parameter's own memory, because the shard has its data. */
static tn_status shard_free(tn__train *it, tn_tensor_id id) {
    const tn_tensor now = *tn_graph_tensor(it->graph, id);
    tn_tensor_spec spec = {.dtype = now.dtype,
                           .kind = TN_KIND_ACTIVATION,
                           .flags = now.flags & TN_TENSOR_UPDATED,
                           .rank = now.rank,
                           .shape = now.shape};
    return tn_graph_set_tensor(it->graph, id, &spec, it->error);
}

static tn_status shard_list(tn__train *it, uint32_t number, shard_lists *lists) {
    uint32_t all = it->made.parameter_count, room = 0, count = 0;
    size_t extents = 0;
    for (uint32_t i = 0; i < all; i++) {
        if (it->made.parameters[i].shard != number) continue;
        extents += 1 + tn_graph_tensor(it->graph, it->made.parameters[i].parameter)->rank;
        room++;
    }
    tn_trained **members = tn__arena_array(&it->arena, room, sizeof *members);
    lists->ids = tn__arena_array(&it->arena, room, sizeof *lists->ids);
    lists->shapes = tn__arena_array(&it->arena, extents, sizeof *lists->shapes);
    if (members == NULL || lists->ids == NULL || lists->shapes == NULL)
        return tn__no_memory(it->error, "what a rank keeps");
    for (uint32_t i = 0; i < all; i++)
        if (it->made.parameters[i].shard == number) members[count++] = &it->made.parameters[i];
    if (count > 0) qsort(members, count, sizeof *members, shard_order);
    for (lists->count = 0; lists->count < count; lists->count++) {
        tn_tensor_id id = members[lists->count]->parameter;
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        lists->ids[lists->count] = id;
        lists->shapes[lists->shape_count++] = tensor->rank;
        for (uint32_t d = 0; d < tensor->rank; d++)
            lists->shapes[lists->shape_count++] = tensor->shape[d];
        TN_TRY(shard_free(it, id));
    }
    return TN_OK;
}

/* In a pipeline, records that tensor `id` is made in every part that reads parameter `of`, before
 * all passes. */
static void shard_settle(tn__train *it, tn_tensor_id id, tn_tensor_id of) {
    if (!tn__train_is_whole(it)) return;
    const uint64_t readers = it->homes[of].readers;
    it->homes[id] = (tn_home){.way = TN_WAY_FORWARD, .of = of, .readers = readers};
}

/* Adds the operators that compute the parameters from a shard. Their ids are appended to `made`,
 * the operators that go to the front of the main block. */
static tn_status shard_give(tn__train *it, uint32_t number, tn_op_id *made, uint32_t *count) {
    const tn_sharded *shard = &it->made.sharded[number];
    shard_lists lists = {0};
    char name[40];
    TN_TRY(tn__train_settle(it));
    TN_TRY(shard_list(it, number, &lists));
    for (uint32_t i = 0; i < lists.count; i++) shard_settle(it, lists.ids[i], lists.ids[i]);
    if (shard->whole != shard->parameters) shard_settle(it, shard->whole, lists.ids[0]);
    if (shard->whole != shard->parameters) {
        made[(*count)++] = tn_graph_op_count(it->graph);
        TN_TRY(shard_op(it, "ShardWhole", shard->parameters, shard->whole));
    }
    const tn_attr shapes = TN__ATTR_INTS("shapes", lists.shapes, lists.shape_count);
    snprintf(name, sizeof name, "shard.%u.parameters", number);
    made[(*count)++] = tn_graph_op_count(it->graph);
    return tn__train_op(it, name, "BucketParts", &shard->whole, 1, lists.ids, lists.count, &shapes,
                        1);
}

tn_status tn__train_shard_end(tn__train *it) {
    uint32_t number = it->made.sharded_count, before = tn_graph_block(it->graph, 0)->op_count;
    uint32_t made = 0;
    tn_op_id *order = tn__arena_array(&it->arena, before + 2 * (size_t)number, sizeof *order);
    if (number == 0) return TN_OK;
    if (order == NULL) return tn__no_memory(it->error, "what a rank keeps");
    /* goes backwards, so that the results stand in the order in which parameters are first read */
    while (number-- > 0) TN_TRY(shard_give(it, number, order, &made));
    tn_op_id *ops = it->graph->blocks[0].ops;
    memcpy(order + made, ops, before * sizeof *order);
    memcpy(ops, order, (before + (size_t)made) * sizeof *order);
    return TN_OK;
}

/* --- data --- */

/* Reads all of a parameter; under tensor parallelism, the rank's part of it. */
static tn_status shard_read_all(const tn_training *training, tn_tensor_id id,
                                const tn_contents_of *contents, void *bytes, uint64_t size,
                                tn_error *error) {
    const tn_tensor_part *part = tn_training_part(training, id);
    if (part != NULL && contents->model != NULL)
        return tn__train_read_part(training, part, contents, bytes, error);
    return contents->read(contents->self, training->graph, id, bytes, size, error);
}

/* Reads those bytes of [from, from + size) of a shard that belong to the parameter. */
static tn_status shard_read_one(const tn_training *training, const tn_trained *trained,
                                const tn_contents_of *contents, uint64_t from, uint8_t *bytes,
                                uint64_t size, tn_error *error) {
    const tn_tensor *tensor = tn_graph_tensor(training->graph, trained->parameter);
    const tn_context *context = tn_graph_context(training->graph);
    uint64_t last = trained->at + tensor->bytes, to = from + size;
    uint64_t first = trained->at > from ? trained->at : from;
    if (last > to) last = to;
    if (first >= last) return TN_OK;
    if (last - first == tensor->bytes)
        return shard_read_all(training, trained->parameter, contents, bytes + (first - from),
                              tensor->bytes, error);
    uint8_t *all = tn__alloc(context, tensor->bytes);
    if (all == NULL) return tn__no_memory(error, "a parameter");
    tn_status status =
        shard_read_all(training, trained->parameter, contents, all, tensor->bytes, error);
    if (status == TN_OK)
        memcpy(bytes + (first - from), all + (first - trained->at), (size_t)(last - first));
    tn__free(context, all, tensor->bytes);
    return status;
}

tn_status tn_training_read(const tn_training *training, tn_tensor_id tensor,
                           const tn_contents_of *contents, void *bytes, uint64_t size,
                           tn_error *error) {
    const tn_tensor_part *part = tn_training_part(training, tensor);
    uint32_t k = 0;
    if (part != NULL && contents->model != NULL)
        return tn__train_read_part(training, part, contents, bytes, error);
    while (k < training->sharded_count && training->sharded[k].parameters != tensor) k++;
    if (k == training->sharded_count)
        return contents->read(contents->self, training->graph, tensor, bytes, size, error);
    const tn_sharded *shard = &training->sharded[k];
    uint64_t from = shard->whole == shard->parameters ? 0 : shard->from;
    memset(bytes, 0, (size_t)size);
    for (uint32_t i = 0; i < training->parameter_count; i++)
        if (training->parameters[i].shard == k)
            TN_TRY(shard_read_one(training, &training->parameters[i], contents, from, bytes, size,
                                  error));
    return TN_OK;
}
