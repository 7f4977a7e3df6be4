/* cluster_work.c - computes the time of a micro-batch on one rank: layers, embedding, loss.
 *
 * There is no graph of such a model, so operators are known by their sizes. A matrix product has
 * 2 m n k operations and the bytes of three matrices. All other operators move bytes: numbers of
 * `weight_bytes`, masks of one byte. Elementwise operators that follow each other count as one
 * (bias + GELU, scale + mask + softmax, bias + dropout + add), as in the published runs. Backward:
 * each product twice (by its input and by its weights), and twice the bytes of the rest.
 */
#include "base/base.h"
#include "graph/takes.h"
#include "report/estimate/cluster.h"

typedef struct work_rank { /* one rank, with the tokens of one micro-batch */
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

/* One operator: the time of all estimates (graph/takes.h). */
static double work_takes(const work_rank *rank, double operations, double bytes) {
    const tn__machine machine = {rank->cluster->flops, rank->cluster->bytes_per_s};
    return tn__takes(operations, bytes, &machine);
}

/* times: the number of products of that size. */
static void work_product(const work_rank *rank, tn__cluster_work *work, double times, double m,
                         double n, double k) {
    double bytes = rank->large->weight_bytes * (m * k + k * n + m * n);
    work->products += times * work_takes(rank, 2 * m * n * k, bytes);
}

/* `numbers` are read or written, and in addition `masks` bytes. */
static void work_move(const work_rank *rank, tn__cluster_work *work, double numbers, double masks) {
    double bytes = numbers * rank->large->weight_bytes + (rank->masks ? masks : 0);
    work->other += work_takes(rank, 0, bytes);
}

/* Scores, softmax, values: the operators that selective recomputation repeats. Each head
 * separately. */
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
    work_move(rank, work, times * 2 * 2 * outside, 0);                   /* two normalisations */
    work_move(rank, work, times * (up + 1) * rows * rank->inner, 0);     /* bias and GELU */
    work_move(rank, work, times * 2 * 3 * outside, times * 2 * outside); /* dropout and add */
}

double tn__cluster_link(const tn_cluster *cluster, uint64_t ranks, uint64_t apart) {
    return tn__mul_sat(ranks, apart) <= cluster->per_node ? cluster->fast : cluster->slow;
}

/* Two sums over all tokens in each direction. With sequence parallelism each is a gather and a
 * reduce-scatter of the same bytes. */
static double work_sums(const work_rank *rank) {
    double t = (double)rank->large->tensor;
    double bytes = rank->tokens * rank->hidden * rank->large->weight_bytes;
    return 2 * 2 * (t - 1) / t * bytes / tn__cluster_link(rank->cluster, rank->large->tensor, 1);
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

/* Rows of the embedding table; after the layers a normalisation, logits, and the loss in fp32. */
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
    /* one sum each: rows on other ranks, and the gradient of the logits' input */
    parts->first[TN__FORWARD].tensor = parts->last[TN__BACKWARD].tensor = work_sums(rank) / 2;
}

tn__cluster_parts tn__cluster_parts_make(const tn_cluster *cluster, const tn_large *large) {
    tn__cluster_parts parts = {0};
    work_rank rank = work_rank_of(cluster, large);
    work_layers(&rank, &parts);
    work_ends(&rank, &parts);
    return parts;
}
