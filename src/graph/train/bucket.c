/* bucket.c - collects complete gradients in buckets, from which updates read them.
 *
 * Several ranks that train the same model average their gradients (dist). Buckets make this an
 * operation on a few large tensors, each of which is ready as soon as its last gradient is. A
 * gradient is complete when the last reader of its parameter has been visited. Buckets are filled
 * in that order, so the first one is complete while most of the backward pass is still to come. On
 * one rank, buckets change no bit.
 * Source: Li et al., "PyTorch Distributed" (2020).
 */
#include <stdio.h>

#include "graph/bucket.h"
#include "graph/train/frame.h"

#define BUCKET_MOST 200u /* gradients in one bucket: as many as may share memory from the start */

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

/* The gradients that wait, and the tensors that replace them. */
typedef struct bucket_lists {
    tn_tensor_id given[BUCKET_MOST], parts[BUCKET_MOST];
    int64_t shapes[BUCKET_MOST * (1 + TN_RANK_MAX)];
    uint32_t shape_count;
} bucket_lists;

/* Lists the gradients that wait. With shards, no tensors replace them. */
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

/* Makes a bucket of the gradients that wait. For ranks that shard it, it has one equal part per
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

static tn_status bucket_all(tn__train *it, bucket_lists *lists) {
    tn_tensor_id bucket;
    TN_TRY(bucket_list(it, lists));
    TN_TRY(bucket_make(it, lists, &bucket));
    return tn__train_shards(it) ? tn__train_shard(it, bucket, it->waiting, it->waiting_count)
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

/* Whether the same parts of a pipeline hold both parameters. */
static bool bucket_is_near(const tn__train *it, uint32_t a, uint32_t b) {
    const tn_trained *list = it->made.parameters;
    return it->homes == NULL ||
           it->homes[list[a].parameter].readers == it->homes[list[b].parameter].readers;
}

/* Whether this gradient may join the gradients that wait in one bucket. */
static bool bucket_suits(const tn__train *it, const tn_tensor *parameter, uint32_t number) {
    if (it->waiting_count == 0) return true;
    const tn_tensor *first =
        tn_graph_tensor(it->graph, it->made.parameters[it->waiting[0]].parameter);
    return it->waiting_count < BUCKET_MOST && first->dtype == parameter->dtype &&
           bucket_is_near(it, it->waiting[0], number) &&
           tn__add_sat(it->waiting_bytes, parameter->bytes) <= it->options.bucket_bytes;
}

/* If several parts of a pipeline have a sum each for a parameter, adds these up in all of the
 * parts. */
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
