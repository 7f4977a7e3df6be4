/* cluster.c - computes the time of an iteration: micro-batches through the stages, then gradients
 * and updates.
 */
#include <math.h>

#include "base/base.h"
#include "graph/takes.h"
#include "report/estimate/cluster.h"

#define CLUSTER_PASSES (UINT64_C(1) << 22) /* passes that are simulated one by one */

typedef struct cluster_run {
    const tn_cluster *cluster;
    const tn_large *large;
    tn__cluster_parts parts;
    uint64_t rounds, count; /* micro-batches; pieces of layers over all stages */
    double *time[TN__WAY_COUNT];
    tn__cluster_work busy; /* of the stage that works longest, over the whole iteration */
    double longest;
    tn_cluster_time made;
} cluster_run;

static void cluster_add(tn__cluster_work *sum, const tn__cluster_work *work, double times) {
    sum->products += times * work->products;
    sum->other += times * work->other;
    sum->tensor += times * work->tensor;
}

static tn__cluster_work cluster_part(const cluster_run *run, uint64_t part, tn__cluster_way way) {
    tn__cluster_work work = {0};
    cluster_add(&work, &run->parts.layer[way],
                (double)run->large->model.layers / (double)run->count);
    if (part == 0) cluster_add(&work, &run->parts.first[way], 1);
    if (part + 1 == run->count) cluster_add(&work, &run->parts.last[way], 1);
    return work;
}

static void cluster_stage(cluster_run *run, uint64_t stage) {
    tn__cluster_work busy = {0};
    for (uint64_t part = stage; part < run->count; part += run->large->pipeline)
        for (uint32_t way = 0; way < TN__WAY_COUNT; way++) {
            tn__cluster_work work = cluster_part(run, part, (tn__cluster_way)way);
            cluster_add(&busy, &work, (double)run->rounds);
            run->time[way][part] = tn__cluster_sum(&work);
        }
    if (tn__cluster_sum(&busy) <= run->longest) return;
    run->longest = tn__cluster_sum(&busy);
    run->busy = busy;
}

/* The time of passing activations to the next stage, on each tensor rank. Only its part crosses the
 * slow link and is gathered over the fast one, unless activations between layers are divided
 * anyway. */
static double cluster_send(const cluster_run *run, double *slow) {
    const tn_large *large = run->large;
    double t = (double)large->tensor, bytes = (double)large->sequence * (double)large->micro;
    bytes *= (double)large->model.hidden * large->weight_bytes;
    uint64_t apart = tn__mul_sat(large->tensor, large->data);
    double link = tn__cluster_link(run->cluster, large->pipeline, apart);
    bool whole = run->cluster->whole_sends && !large->sequence_parallel;
    double sent = whole ? bytes : bytes / t;
    *slow = link < run->cluster->fast ? sent : 0;
    double gather = whole || large->sequence_parallel ? 0 : (t - 1) / t * bytes;
    return sent / link + gather / tn__cluster_link(run->cluster, large->tensor, 1);
}

static tn_status cluster_pass(cluster_run *run, tn_error *error) {
    const tn_large *large = run->large;
    double slow;
    tn__schedule_job job = {.stages = large->pipeline,
                            .pieces = large->interleave,
                            .rounds = run->rounds,
                            .time = {run->time[TN__FORWARD], run->time[TN__BACKWARD]},
                            .send = cluster_send(run, &slow)};
    TN_TRY(tn__schedule_run(&job, &run->made.pass, error));
    if (large->pipeline > 1) {
        double sends = 2 * (double)run->rounds * (double)large->interleave * slow;
        run->made.slow_bytes = (uint64_t)fmin(sends, 9e18);
    }
    return TN_OK;
}

/* Ring collectives over the data ranks. With divided gradients each micro-batch's are sent, because
 * no rank keeps their whole sum. Divided parameters are gathered for each forward and each backward
 * pass. */
static void cluster_data(cluster_run *run, const tn_large_stage *stage) {
    const tn_large *large = run->large;
    double d = (double)large->data, count = (double)stage->parameters, rounds = (double)run->rounds;
    double gradients = count * large->gradient_bytes, weights = count * large->weight_bytes;
    double bytes = 2 * gradients; /* an all-reduce sends them twice */
    if (large->shard == TN_SHARD_OPTIMIZER) bytes = gradients + weights;
    if (large->shard == TN_SHARD_GRADIENTS) bytes = rounds * gradients + weights;
    if (large->shard == TN_SHARD_PARAMETERS) bytes = rounds * (gradients + 2 * weights);
    bytes *= (d - 1) / d;
    double link = tn__cluster_link(run->cluster, large->data, large->tensor);
    double kept = count * (large->weight_bytes + large->gradient_bytes + large->state_bytes);
    run->made.data = bytes / link;
    if (link < run->cluster->fast) run->made.slow_bytes += (uint64_t)fmin(bytes, 9e18);
    const tn__machine memory = {.operations = 1, .bytes = run->cluster->bytes_per_s};
    run->made.update =
        tn__takes(0, 2 * kept / (large->shard >= TN_SHARD_OPTIMIZER ? d : 1), &memory);
}

static void cluster_total(cluster_run *run, const tn_large_estimate *estimate) {
    tn_cluster_time *made = &run->made;
    made->products = run->busy.products;
    made->other = run->busy.other;
    made->tensor = run->busy.tensor;
    made->seconds = made->pass + made->data + made->update;
    made->bubble = 1 - run->longest / made->pass;
    double operations = estimate->flops;
    /* F contains the forward pass of each layer twice */
    if (run->large->recompute != TN_RECOMPUTE_FULL) {
        double logits = 6 * (double)run->large->batch * (double)run->large->sequence *
                        (double)run->large->model.hidden * (double)run->large->model.vocabulary;
        operations = (operations - logits) * 3 / 4 + logits;
    }
    made->share =
        operations / (made->seconds * (double)run->cluster->devices * run->cluster->flops);
}

tn_status tn__cluster_check(const tn_cluster *it, tn_error *error) {
    const struct {
        const char *name;
        double value;
    } rates[] = {{"rate of operations", it->flops},
                 {"rate of the memory", it->bytes_per_s},
                 {"fast link", it->fast},
                 {"slow link", it->slow}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (!(rates[i].value > 0) || !isfinite(rates[i].value))
            TN_FAIL(error, TN_E_INVALID, "the %s is not a positive number", rates[i].name);
    if (it->devices == 0) TN_FAIL(error, TN_E_INVALID, "no devices");
    return TN_OK;
}

static tn_status cluster_check_ranks(const tn_cluster *it, const tn_large *large, tn_error *error) {
    uint64_t ranks = tn__mul_sat(tn__mul_sat(large->tensor, large->pipeline), large->data);
    if (ranks != it->devices)
        TN_FAIL(error, TN_E_INVALID, "tensor %llu x pipeline %llu x data %llu are not %llu devices",
                (unsigned long long)large->tensor, (unsigned long long)large->pipeline,
                (unsigned long long)large->data, (unsigned long long)it->devices);
    uint64_t rounds = large->batch / large->data / large->micro;
    if (large->interleave > 1 && (large->pipeline == 1 || rounds % large->pipeline != 0))
        TN_FAIL(error, TN_E_INVALID,
                "interleaved stages take micro-batches in groups of as many as there are stages, "
                "two or more: %llu micro-batches, %llu stages",
                (unsigned long long)rounds, (unsigned long long)large->pipeline);
    if (tn__mul_sat(tn__mul_sat(large->pipeline, large->interleave), rounds) > CLUSTER_PASSES)
        TN_FAIL(error, TN_E_INVALID,
                "%llu micro-batches through %llu stages of %llu pieces are more than are followed: "
                "take larger ones",
                (unsigned long long)rounds, (unsigned long long)large->pipeline,
                (unsigned long long)large->interleave);
    return TN_OK;
}

static tn_status cluster_make(cluster_run *run, tn_error *error) {
    const tn_large *large = run->large;
    tn_large_estimate estimate;
    TN_TRY(tn_large_estimate_make(large, &estimate, error));
    run->rounds = large->batch / large->data / large->micro;
    run->count = large->pipeline * large->interleave;
    run->parts = tn__cluster_parts_make(run->cluster, large);
    for (uint64_t i = 0; i < large->pipeline; i++) cluster_stage(run, i);
    TN_TRY(cluster_pass(run, error));
    cluster_data(run, &estimate.largest);
    cluster_total(run, &estimate);
    return TN_OK;
}

tn_status tn_cluster_time_make(const tn_cluster *cluster, const tn_large *large,
                               tn_cluster_time *time, tn_error *error) {
    tn_cluster it = *cluster;
    tn_large complete;
    tn__arena arena;
    if (it.per_node == 0) it.per_node = 8;
    TN_TRY(tn__large_complete(large, &complete, error));
    TN_TRY(tn__cluster_check(&it, error));
    TN_TRY(cluster_check_ranks(&it, &complete, error));
    cluster_run run = {.cluster = &it, .large = &complete};
    tn__arena_init(&arena, NULL);
    size_t count = (size_t)(complete.pipeline * complete.interleave);
    for (uint32_t way = 0; way < TN__WAY_COUNT; way++)
        run.time[way] = tn__arena_array(&arena, count, sizeof(double));
    tn_status status = run.time[TN__FORWARD] == NULL || run.time[TN__BACKWARD] == NULL
                           ? tn__no_memory(error, "the parts of a pipeline")
                           : cluster_make(&run, error);
    tn__arena_release(&arena);
    if (status == TN_OK) *time = run.made;
    return status;
}
