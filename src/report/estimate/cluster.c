/* cluster.c - computes the time of a training iteration on many devices, and finds the division of
 * a transformer among them that takes the least time.
 *
 * In an iteration, micro-batches pass through the stages of a pipeline; then gradients are summed
 * and parameters updated.
 */
#include "base/base.h"
#include "graph/takes.h"
#include "program/clock.h"
#include "program/pipeline_passes.h"
#include "report/estimate/cluster.h"

#include <math.h>

/* --- the work of a micro-batch on one rank ---------------------------------------------------- */

/* The work of a micro-batch on one tensor-parallel rank: layers, embedding and loss.
 *
 * There is no graph of such a large model, so operators are known only by their sizes. The product
 * of an m x k and a k x n matrix has 2 m n k operations and moves the bytes of three matrices. All
 * other operators only move data: numbers of `weight_bytes` bytes, and dropout masks of one byte
 * per number. Elementwise operators that follow each other count as one operator (bias + GELU,
 * scale + mask + softmax, bias + dropout + addition), as in the published runs. The backward pass
 * has each product twice, once for the gradient of its input and once for that of its weights, and
 * moves twice the bytes of the other operators.
 */

/* one tensor-parallel rank, with the sizes of its part for one micro-batch */
typedef struct work_rank {
    const tn_cluster *cluster;
    const tn_large *large;
    double tokens, hidden, width, kv, inner, heads, outside;
    bool masks;
} work_rank;

static work_rank work_rank_of(const tn_cluster *cluster, const tn_large *large) {
    double t = (double)large->tensor;
    uint64_t kv = large->model.kv_heads / large->tensor;
    return (work_rank){
        .cluster = cluster,
        .large = large,
        .tokens = (double)large->sequence * (double)large->micro,
        .hidden = (double)large->model.hidden,
        .width = (double)large->model.heads * (double)large->model.head_size / t,
        .kv = (double)(kv > 0 ? kv : 1) * (double)large->model.head_size,
        .inner = (double)large->model.inner / t,
        .heads = (double)large->model.heads / t,
        .outside = large->sequence_parallel ? t : 1,
        .masks = !large->model.no_dropout,
    };
}

/* Returns the seconds of one operator, by the model that all estimates use (graph/takes.h). */
static double work_takes(const work_rank *rank, double operations, double bytes) {
    const tn__machine machine = {rank->cluster->flops, rank->cluster->bytes_per_s};
    return tn__takes(operations, bytes, &machine);
}

/* Adds `times` matrix products of an m x k by a k x n matrix. */
static void work_product(const work_rank *rank, tn__cluster_work *work, double times, double m,
                         double n, double k) {
    double bytes = rank->large->weight_bytes * (m * k + k * n + m * n);
    work->products += times * work_takes(rank, 2 * m * n * k, bytes);
}

/* Adds an operator that only moves data: it reads or writes `numbers` numbers and `masks` bytes of
 * dropout masks. */
static void work_move(const work_rank *rank, tn__cluster_work *work, double numbers, double masks) {
    double bytes = numbers * rank->large->weight_bytes + (rank->masks ? masks : 0);
    work->other += work_takes(rank, 0, bytes);
}

/* Adds the core of attention: scores, softmax, and the product with the values. Selective
 * recomputation repeats these operators. The products of each head are counted separately. */
static void work_attention(const work_rank *rank, tn__cluster_work *work, double times) {
    double s = (double)rank->large->sequence, head = (double)rank->large->model.head_size;
    double heads = rank->heads * (double)rank->large->micro, scores = heads * s * s;
    work_product(rank, work, times * heads, s, s, head);
    work_product(rank, work, times * heads, s, head, s);
    work_move(rank, work, times * 2 * scores, 0);
    if (rank->masks) work_move(rank, work, times * 2 * scores, times * scores);
}

static void work_layer(const work_rank *rank, tn__cluster_work *work, double times) {
    const tn_large *large = rank->large;
    double rows = rank->tokens, h = rank->hidden, outside = rows * h / rank->outside;
    double up = large->model.gated ? 2 : 1;
    work_product(rank, work, times, rows, rank->width + 2 * rank->kv, h);
    work_product(rank, work, times, rows, h, rank->width);
    work_product(rank, work, times * up, rows, rank->inner, h);
    work_product(rank, work, times, rows, h, rank->inner);
    work_attention(rank, work, times);
    /* two normalisations, which only move data */
    work_move(rank, work, times * 2 * 2 * outside, 0);
    /* the bias and the GELU of the inner layer, which only move data */
    work_move(rank, work, times * (up + 1) * rows * rank->inner, 0);
    /* two dropouts, each followed by an addition, which only move data */
    work_move(rank, work, times * 2 * 3 * outside, times * 2 * outside);
}

/* Returns the speed of the link between `ranks` ranks, if neighbouring ranks are `apart` devices
 * from each other: that within a machine, if all of them fit into one, else that between
 * machines. */
static double cluster_link(const tn_cluster *cluster, uint64_t ranks, uint64_t apart) {
    return tn__mul_sat(ranks, apart) <= cluster->per_node ? cluster->fast : cluster->slow;
}

/* Returns the seconds of the two sums over the tensor-parallel ranks that a layer has in each
 * direction. With sequence parallelism each sum becomes a gather and a reduce-scatter, which
 * together send as many bytes. */
static double work_sums(const work_rank *rank) {
    double t = (double)rank->large->tensor;
    double bytes = rank->tokens * rank->hidden * rank->large->weight_bytes;
    return 2 * 2 * (t - 1) / t * bytes / cluster_link(rank->cluster, rank->large->tensor, 1);
}

static void work_layers(const work_rank *rank, tn__cluster_parts *parts) {
    tn__cluster_work *back = &parts->layer[TN__BACKWARD];
    work_layer(rank, &parts->layer[TN__FORWARD], 1);
    work_layer(rank, back, 2);
    parts->layer[TN__FORWARD].tensor = back->tensor = work_sums(rank);
    if (rank->large->recompute == TN_RECOMPUTE_SELECTIVE) work_attention(rank, back, 1);
    if (rank->large->recompute != TN_RECOMPUTE_FULL) return;
    work_layer(rank, back, 1);
    back->tensor += work_sums(rank);
}

/* Computes the work outside the layers. Before the first layer that is reading rows of the
 * embedding table. After the last layer it is a normalisation, the logits, and the loss in
 * float32. */
static void work_ends(const work_rank *rank, tn__cluster_parts *parts) {
    const tn_large *large = rank->large;
    double columns = (double)((large->model.vocabulary + large->tensor - 1) / large->tensor);
    double rows = rank->tokens, outside = rows * rank->hidden / rank->outside;
    for (uint32_t way = 0; way < TN__WAY_COUNT; way++) {
        double times = way == TN__FORWARD ? 1 : 2;
        tn__cluster_work *last = &parts->last[way];
        work_move(rank, &parts->first[way], times * 3 * outside, times * outside);
        work_move(rank, last, times * 2 * outside, 0);
        work_product(rank, last, times, rows, columns, rank->hidden);
        last->other += work_takes(rank, 0, 2 * 4 * rows * columns);
    }
    /* one sum each: of embedding rows that are on other ranks, and of the gradient of the input of
     * the logits */
    parts->first[TN__FORWARD].tensor = parts->last[TN__BACKWARD].tensor = work_sums(rank) / 2;
}

/* Computes the work of one micro-batch. tn__large_complete must have set the defaults in
 * `large`. */
static tn__cluster_parts cluster_parts_make(const tn_cluster *cluster, const tn_large *large) {
    tn__cluster_parts parts = {0};
    work_rank rank = work_rank_of(cluster, large);
    work_layers(&rank, &parts);
    work_ends(&rank, &parts);
    return parts;
}

/* --- the passage of micro-batches through the stages ------------------------------------------ */

/* Simulates micro-batches that pass through the stages of a pipeline in the order 1F1B, with
 * interleaved stages or not.
 *
 * A stage is a lane of a clock (program/clock.h), with a list of passes in a fixed order
 * (program/pipeline_passes.h). A pass begins when its lane is free and its input has arrived. In
 * the forward direction the input comes from the part before it, in the backward direction from the
 * part after it. The unit of the clock is a power of two in seconds. It is chosen so that the sum
 * of all passes is less than 2^62 units.
 */

#define SCHEDULE_BITS 62
#define SCHEDULE_LATER UINT64_MAX /* end of a pass that has not been simulated yet */

typedef struct schedule_state {
    const tn__schedule_job *job;
    double unit; /* seconds */
    /* [part x rounds + round] time at which each pass of a micro-batch through a part ends */
    uint64_t *done[TN__WAY_COUNT];
    uint64_t *next;  /* [stage] number of passes of each stage that have been simulated */
    tn__lane *lanes; /* [stage] */
} schedule_state;

static double schedule_unit(const tn__schedule_job *job) {
    double all = 0;
    int exponent;
    for (uint64_t part = 0; part < job->stages * job->pieces; part++)
        all += (double)job->rounds *
               (job->time[TN__FORWARD][part] + job->time[TN__BACKWARD][part] + 2 * job->send);
    (void)frexp(all, &exponent);
    return all > 0 && isfinite(all) ? ldexp(1, exponent - SCHEDULE_BITS) : 1;
}

static uint64_t schedule_units(const schedule_state *state, double seconds) {
    return tn__lane_units(seconds / state->unit);
}

static tn__cluster_way schedule_way(const tn__pass *pass) {
    return pass->backward ? TN__BACKWARD : TN__FORWARD;
}

/* Returns when the input of a pass arrives, or SCHEDULE_LATER if the pass that computes it has not
 * been simulated yet. */
static uint64_t schedule_ready(const schedule_state *state, const tn__pass *pass) {
    const tn__schedule_job *job = state->job;
    uint64_t parts = job->stages * job->pieces;
    bool forward = !pass->backward;
    if (forward && pass->part == 0) return 0;
    uint64_t from = forward ? pass->part - 1 : pass->part + 1;
    /* the first backward pass depends on the forward pass of the last part */
    if (!forward && from == parts)
        return state->done[TN__FORWARD][pass->part * job->rounds + pass->round];
    uint64_t done = state->done[schedule_way(pass)][from * job->rounds + pass->round];
    bool crosses = job->stages > 1;
    return tn__add_sat(done, crosses ? schedule_units(state, job->send) : 0);
}

/* Simulates the next passes of a stage until the input of one is missing. Returns whether any pass
 * was simulated. */
static bool schedule_go_on(schedule_state *state, uint64_t stage) {
    const tn__schedule_job *job = state->job;
    const tn__passes passes = {job->stages, job->pieces, job->rounds, false};
    uint64_t all = 2 * job->rounds * job->pieces, before = state->next[stage];
    while (state->next[stage] < all) {
        tn__pass pass = tn__passes_kth(&passes, stage, state->next[stage]);
        tn__cluster_way way = schedule_way(&pass);
        uint64_t ready = schedule_ready(state, &pass);
        if (ready == SCHEDULE_LATER) break;
        state->done[way][pass.part * job->rounds + pass.round] = tn__lane_put(
            &state->lanes[stage], ready, schedule_units(state, job->time[way][pass.part]));
        state->next[stage]++;
    }
    return state->next[stage] > before;
}

/* Simulates all passes and returns the seconds they take. It sweeps over the stages in both
 * directions. A pass reads from a neighbouring stage, so each sweep advances many passes. */
static double schedule_finish(schedule_state *state) {
    uint64_t stages = state->job->stages;
    bool moved = true;
    tn__lane end = {0};
    while (moved) {
        moved = false;
        for (uint64_t i = 0; i < stages; i++) moved |= schedule_go_on(state, i);
        for (uint64_t i = stages; i-- > 0;) moved |= schedule_go_on(state, i);
    }
    for (uint64_t i = 0; i < stages; i++) tn__lane_wait(&end, state->lanes[i]);
    return (double)end.at * state->unit;
}

tn_status tn__schedule_run(const tn__schedule_job *job, double *seconds, tn_error *error) {
    uint64_t passes = tn__mul_sat(tn__mul_sat(job->stages, job->pieces), job->rounds);
    tn__arena arena;
    schedule_state state = {.job = job, .unit = schedule_unit(job)};
    tn_status status = TN_OK;
    tn__arena_init(&arena, NULL);
    for (uint32_t way = 0; way < TN__WAY_COUNT; way++)
        state.done[way] = tn__arena_array(&arena, (size_t)passes, sizeof(uint64_t));
    state.next = tn__arena_array(&arena, (size_t)job->stages, sizeof *state.next);
    state.lanes = tn__arena_array(&arena, (size_t)job->stages, sizeof *state.lanes);
    if (state.done[TN__FORWARD] == NULL || state.done[TN__BACKWARD] == NULL || state.next == NULL ||
        state.lanes == NULL) {
        status = tn__no_memory(error, "the passes of a pipeline");
    } else {
        for (uint64_t i = 0; i < passes; i++)
            state.done[TN__FORWARD][i] = state.done[TN__BACKWARD][i] = SCHEDULE_LATER;
        *seconds = schedule_finish(&state);
    }
    tn__arena_release(&arena);
    return status;
}

/* --- the time of an iteration ----------------------------------------------------------------- */

#define CLUSTER_PASSES (UINT64_C(1) << 22) /* largest number of passes that are simulated */

typedef struct cluster_run {
    const tn_cluster *cluster;
    const tn_large *large;
    tn__cluster_parts parts;
    uint64_t rounds, count; /* number of micro-batches; number of parts of layers over all stages */
    double *time[TN__WAY_COUNT];
    tn__cluster_work busy; /* work of the busiest stage over the whole iteration */
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

/* Returns the seconds of sending activations to the next stage. Each tensor-parallel rank sends its
 * part over the link between stages, and the next stage gathers the parts over the fast link. No
 * gather is needed if activations between layers are divided anyway (sequence parallelism) or if
 * every rank sends all of them. *slow is set to the bytes that cross the slow link. */
static double cluster_send(const cluster_run *run, double *slow) {
    const tn_large *large = run->large;
    double t = (double)large->tensor, bytes = (double)large->sequence * (double)large->micro;
    bytes *= (double)large->model.hidden * large->weight_bytes;
    uint64_t apart = tn__mul_sat(large->tensor, large->data);
    double link = cluster_link(run->cluster, large->pipeline, apart);
    bool whole = run->cluster->whole_sends && !large->sequence_parallel;
    double sent = whole ? bytes : bytes / t;
    *slow = link < run->cluster->fast ? sent : 0;
    double gather = whole || large->sequence_parallel ? 0 : (t - 1) / t * bytes;
    return sent / link + gather / cluster_link(run->cluster, large->tensor, 1);
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

/* Computes the time of the ring collectives over the data-parallel ranks, and of the update. If
 * gradients are divided (sharded), those of each micro-batch are sent, because no rank keeps their
 * whole sum. If parameters are divided, they are gathered for each forward and each backward
 * pass. */
static void cluster_data(cluster_run *run, const tn_large_stage *stage) {
    const tn_large *large = run->large;
    double d = (double)large->data, count = (double)stage->parameters, rounds = (double)run->rounds;
    double gradients = count * large->gradient_bytes, weights = count * large->weight_bytes;
    double bytes = 2 * gradients; /* an all-reduce sends the gradients twice */
    if (large->shard == TN_SHARD_OPTIMIZER) bytes = gradients + weights;
    if (large->shard == TN_SHARD_GRADIENTS) bytes = rounds * gradients + weights;
    if (large->shard == TN_SHARD_PARAMETERS) bytes = rounds * (gradients + 2 * weights);
    bytes *= (d - 1) / d;
    double link = cluster_link(run->cluster, large->data, large->tensor);
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
    /* `estimate->flops` counts the forward pass of each layer twice */
    if (run->large->recompute != TN_RECOMPUTE_FULL) {
        double logits = 6 * (double)run->large->batch * (double)run->large->sequence *
                        (double)run->large->model.hidden * (double)run->large->model.vocabulary;
        operations = (operations - logits) * 3 / 4 + logits;
    }
    made->share =
        operations / (made->seconds * (double)run->cluster->devices * run->cluster->flops);
}

/* Checks the rates and the number of devices. Errors: E_INVALID (a rate is not positive and finite,
 * or there are no devices). */
static tn_status cluster_check(const tn_cluster *it, tn_error *error) {
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
    run->parts = cluster_parts_make(run->cluster, large);
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
    TN_TRY(cluster_check(&it, error));
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

/* --- searching the fastest division ----------------------------------------------------------- */

/* Finds the division of a transformer among devices that takes the least time.
 *
 * All divisions are examined. To see that a division does not fit, only its memory is computed. The
 * time of a division that fits is computed, unless a lower bound shows that it cannot be the
 * fastest. That bound is the time of a rank's operations at the device's rate.
 */

typedef struct cluster_search_state {
    const tn_cluster *cluster;
    const tn_cluster_free *choices;
    tn_cluster_found best;
    bool any;
    uint64_t least; /* least memory of all divisions that were tried */
    tn_error *error;
} cluster_search_state;

/* Returns a lower bound of the time: that of the operations alone, without recomputation. `flops`
 * counts every forward pass twice, so three quarters of it are the operations without
 * recomputation. */
static double search_bound(const cluster_search_state *state, const tn_large_estimate *estimate) {
    return 0.75 * estimate->flops / ((double)state->cluster->devices * state->cluster->flops);
}

static bool search_better(const cluster_search_state *state, const tn_cluster_time *time,
                          const tn_large_estimate *memory) {
    if (!state->any || time->seconds < state->best.time.seconds) return true;
    return time->seconds == state->best.time.seconds &&
           memory->largest.total < state->best.memory.largest.total;
}

static tn_status search_try(cluster_search_state *state, const tn_large *large) {
    tn_large_estimate memory;
    tn_cluster_time time;
    tn_status status = tn_large_estimate_make(large, &memory, NULL);
    /* the sizes of the model cannot be divided evenly by this division, so it is skipped */
    if (status == TN_E_INVALID) return TN_OK;
    TN_TRY(status);
    state->best.tried++;
    if (memory.largest.total < state->least) state->least = memory.largest.total;
    if (state->cluster->memory > 0 && memory.largest.total > state->cluster->memory) return TN_OK;
    state->best.fitting++;
    if (state->any && search_bound(state, &memory) >= state->best.time.seconds) return TN_OK;
    status = tn_cluster_time_make(state->cluster, large, &time, NULL);
    if (status == TN_E_INVALID) return TN_OK;
    TN_TRY(status);
    if (!search_better(state, &time, &memory)) return TN_OK;
    state->best.large = *large;
    state->best.memory = memory;
    state->best.time = time;
    state->any = true;
    return TN_OK;
}

static tn_status search_sharding(cluster_search_state *state, const tn_large *large) {
    static const tn_shard shards[] = {TN_SHARD_NONE, TN_SHARD_OPTIMIZER, TN_SHARD_GRADIENTS,
                                      TN_SHARD_PARAMETERS};
    tn_large it = *large;
    if (!state->choices->shard || it.data <= 1) return search_try(state, &it);
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
        it.shard = shards[i];
        TN_TRY(search_try(state, &it));
    }
    return TN_OK;
}

static tn_status search_recompute(cluster_search_state *state, const tn_large *large) {
    static const tn_recompute ways[] = {TN_RECOMPUTE_NONE, TN_RECOMPUTE_SELECTIVE,
                                        TN_RECOMPUTE_FULL};
    tn_large it = *large;
    if (!state->choices->recompute) return search_sharding(state, &it);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        it.recompute = ways[i];
        TN_TRY(search_sharding(state, &it));
    }
    return TN_OK;
}

static tn_status search_micro(cluster_search_state *state, const tn_large *large) {
    tn_large it = *large;
    for (it.micro = 1; it.micro <= large->batch / large->data; it.micro *= 2)
        TN_TRY(search_recompute(state, &it));
    return TN_OK;
}

static tn_status search_interleave(cluster_search_state *state, const tn_large *large) {
    uint64_t layers = large->model.layers / large->pipeline;
    tn_large it = *large;
    for (it.interleave = 1; it.interleave <= layers; it.interleave++) {
        if (layers % it.interleave != 0) continue;
        TN_TRY(search_micro(state, &it));
        if (it.pipeline == 1) break;
    }
    return TN_OK;
}

static tn_status search_tensor(cluster_search_state *state, const tn_large *large,
                               uint64_t tensor) {
    tn_large it = *large;
    it.tensor = tensor;
    if (state->choices->sequence_parallel) it.sequence_parallel = tensor > 1;
    for (it.pipeline = 1; it.pipeline <= it.model.layers && it.pipeline <= state->cluster->devices;
         it.pipeline++) {
        uint64_t ranks = tn__mul_sat(tensor, it.pipeline);
        if (it.model.layers % it.pipeline != 0 || state->cluster->devices % ranks != 0) continue;
        it.data = state->cluster->devices / ranks;
        if (it.batch % it.data == 0) TN_TRY(search_interleave(state, &it));
    }
    return TN_OK;
}

static tn_status search_all(cluster_search_state *state, const tn_large *large, tn_error *error) {
    for (uint64_t t = 1; t <= state->cluster->per_node && t <= state->cluster->devices; t *= 2)
        TN_TRY(search_tensor(state, large, t));
    if (state->any) return TN_OK;
    if (state->best.tried == 0)
        TN_FAIL(error, TN_E_INFEASIBLE,
                "no division of %llu layers and a batch of %llu among %llu devices",
                (unsigned long long)large->model.layers, (unsigned long long)large->batch,
                (unsigned long long)state->cluster->devices);
    char memory[TN_SIZE_TEXT_MAX], least[TN_SIZE_TEXT_MAX];
    TN_FAIL(error, TN_E_INFEASIBLE,
            "no division among %llu devices fits in %s: the least takes %s on one of them",
            (unsigned long long)state->cluster->devices,
            tn_size_format(state->cluster->memory, memory), tn_size_format(state->least, least));
}

/* Checks the sizes of the model itself, on one device, before it is divided. Sets *whole to that
 * model, with the default in place of every field that is 0. */
static tn_status search_begin(const tn_large *large, tn_large *whole, tn_error *error) {
    tn_large it = *large;
    it.tensor = it.pipeline = it.data = it.micro = it.interleave = 1;
    it.shard = TN_SHARD_NONE;
    return tn__large_complete(&it, whole, error);
}

tn_status tn_cluster_search(const tn_cluster *cluster, const tn_large *large,
                            const tn_cluster_free *choices, tn_cluster_found *found,
                            tn_error *error) {
    tn_cluster it = *cluster;
    tn_cluster_free asked = TN_CLUSTER_FREE_INIT;
    tn_large whole;
    tn__options(&asked, sizeof asked, choices);
    if (it.per_node == 0) it.per_node = 8;
    TN_TRY(cluster_check(&it, error));
    TN_TRY(search_begin(large, &whole, error));
    if (!asked.shard) whole.shard = large->shard;
    cluster_search_state state = {.cluster = &it, .choices = &asked, .least = UINT64_MAX};
    TN_TRY(search_all(&state, &whole, error));
    *found = state.best;
    return TN_OK;
}
