/* large.c - transformers too large to draw as a graph: formulas, counted matrix by matrix.
 *
 * What they leave out: what a run time keeps, fragmentation, buffers of communication. Activations
 * are those of Korthikanti et al. (2022) in 2-byte numbers, generalised to an inner layer of any
 * width: per layer, with s tokens, b sequences of a micro-batch, a heads, t tensor-parallel ranks
 *
 *     not divided by t   10 s b h      (normalisations, dropout masks; s/t with sequence parallel)
 *     divided by t        8 s b h + 4 s b f (+ 4 s b f gated) + 5 a s^2 b
 *
 * which for f = 4 h is the published s b h (10 + 24/t + 5 a s / (h t)). Without dropout its three
 * masks and the copy of the attention that it drops from are gone: 8 s b h and 2 a s^2 b. Keys and
 * values of fewer heads than ranks are on more than one. Recomputing attention's
 * core drops the last term, recomputing everything leaves the input of each layer, 2 s b h. The
 * first stage of p works on p micro-batches at once under 1F1B, stage i on p - i; interleaved in v
 * pieces a stage keeps 2 (p - i - 1) + (v - 1) p + 1 of them. The last one adds the logits and what
 * its loss keeps in fp32. ZeRO (Rajbhandari et al. 2020) divides the
 * optimizer's state, then gradients, then parameters by the data-parallel ranks.
 */
#include <math.h>

#include "base/base.h"

#include "estimate/cluster.h"

#define LARGE_MOST (UINT64_C(1) << 40) /* of any member: products of a few fit a double exactly */

static uint64_t large_or(uint64_t value, uint64_t otherwise) {
    return value != 0 ? value : otherwise;
}

/* The caller's, with defaults in place. */
static tn_large large_complete(const tn_large *given) {
    tn_large it = *given;
    it.ffn = large_or(it.ffn, tn__mul_sat(4, it.hidden));
    it.kv_heads = large_or(it.kv_heads, it.heads);
    bool divides = it.heads > 0 && it.hidden % it.heads == 0;
    if (it.head_size == 0 && divides) it.head_size = it.hidden / it.heads;
    if (it.positions == TN_SIZE_UNKNOWN) it.positions = it.sequence;
    it.tensor = large_or(it.tensor, 1);
    it.pipeline = large_or(it.pipeline, 1);
    it.data = large_or(it.data, 1);
    it.interleave = large_or(it.interleave, 1);
    it.micro = large_or(it.micro, 1);
    it.batch = large_or(it.batch, tn__mul_sat(it.data, it.micro));
    if (it.weight_bytes == 0 && it.state_bytes == 0) it.state_bytes = 12;
    if (it.weight_bytes == 0) it.weight_bytes = 2;
    if (it.gradient_bytes == 0) it.gradient_bytes = 4;
    return it;
}

static tn_status large_check(const tn_large *it, tn_error *error) {
    const struct {
        const char *name;
        uint64_t value;
        bool needed;
    } members[] = {{"hidden size", it->hidden, true},
                   {"layers", it->layers, true},
                   {"heads", it->heads, true},
                   {"vocabulary", it->vocabulary, true},
                   {"sequence", it->sequence, true},
                   {"head size", it->head_size, true},
                   {"inner size", it->ffn, true},
                   {"key and value heads", it->kv_heads, true},
                   {"positions", it->positions, false},
                   {"token types", it->types, false},
                   {"batch", it->batch, true},
                   {"micro-batch", it->micro, true},
                   {"tensor", it->tensor, true},
                   {"pipeline", it->pipeline, true},
                   {"data", it->data, true},
                   {"interleave", it->interleave, true}};
    if (it->heads > 0 && it->head_size == 0 && it->hidden > 0)
        TN_FAIL(error, TN_E_INVALID, "hidden size %llu cannot be divided by heads %llu",
                (unsigned long long)it->hidden, (unsigned long long)it->heads);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].value > LARGE_MOST || (members[i].needed && members[i].value == 0))
            TN_FAIL(error, TN_E_INVALID, "%s: %llu makes no sense", members[i].name,
                    (unsigned long long)members[i].value);
    bool spread = it->kv_heads < it->tensor; /* each of them on several ranks */
    const struct {
        const char *whole, *part;
        uint64_t a, b;
    } divided[] = {{"heads", "key and value heads", it->heads, it->kv_heads},
                   {"heads", "tensor", it->heads, it->tensor},
                   {"key and value heads", "tensor", spread ? 0 : it->kv_heads, it->tensor},
                   {"tensor", "key and value heads", spread ? it->tensor : 0, it->kv_heads},
                   {"inner size", "tensor", it->ffn, it->tensor},
                   {"layers", "pipeline", it->layers, it->pipeline},
                   {"layers of a stage", "interleave", it->layers / it->pipeline, it->interleave},
                   {"batch", "data", it->batch, it->data},
                   {"batch per data rank", "micro-batch", it->batch / it->data, it->micro}};
    for (size_t i = 0; i < sizeof divided / sizeof *divided; i++)
        if (divided[i].a % divided[i].b != 0)
            TN_FAIL(error, TN_E_INVALID, "%s %llu cannot be divided by %s %llu", divided[i].whole,
                    (unsigned long long)divided[i].a, divided[i].part,
                    (unsigned long long)divided[i].b);
    return TN_OK;
}

/* --- parameters ---------------------------------------------------------------------------------
 */

static uint64_t large_width(const tn_large *it) { return tn__mul_sat(it->heads, it->head_size); }

/* Of keys, or of values, on one of `tensor` ranks: a rank has at least one head. */
static uint64_t large_kv_width(const tn_large *it, uint64_t tensor) {
    uint64_t heads = it->kv_heads / tensor;
    return tn__mul_sat(heads > 0 ? heads : 1, it->head_size);
}

static uint64_t large_norm(const tn_large *it) { return (it->rms_norm ? 1 : 2) * it->hidden; }

/* rows x columns, and a bias of `columns` unless there is none. */
static uint64_t large_product(uint64_t rows, uint64_t columns, bool no_bias) {
    return tn__add_sat(tn__mul_sat(rows, columns), no_bias ? 0 : columns);
}

/* Of one layer on one of `tensor` ranks: rows or columns of products are divided, normalisations
 * and the shifts behind a row-divided product are not. */
static uint64_t large_layer(const tn_large *it, uint64_t tensor) {
    uint64_t h = it->hidden, f = it->ffn / tensor, width = large_width(it) / tensor;
    uint64_t read = tn__add_sat(width, tn__mul_sat(2, large_kv_width(it, tensor)));
    uint64_t count = large_product(h, read, it->no_query_bias);
    count = tn__add_sat(count, large_product(width, h, it->no_output_bias));
    count =
        tn__add_sat(count, tn__mul_sat(it->gated ? 2 : 1, large_product(h, f, it->no_inner_bias)));
    count = tn__add_sat(count, large_product(f, h, it->no_inner_bias));
    uint64_t norms = 2 * large_norm(it) + (it->query_norm ? 2 * it->head_size : 0);
    return tn__add_sat(count, norms);
}

static uint64_t large_vocabulary(const tn_large *it, uint64_t tensor) {
    return tn__mul_sat((it->vocabulary + tensor - 1) / tensor, it->hidden);
}

/* What stands before the first layer, and behind the last. */
static uint64_t large_first(const tn_large *it, uint64_t tensor) {
    uint64_t others = tn__mul_sat(tn__add_sat(it->positions, it->types), it->hidden);
    if (it->embedding_norm) others = tn__add_sat(others, large_norm(it));
    return tn__add_sat(large_vocabulary(it, tensor), others);
}

static uint64_t large_last(const tn_large *it, uint64_t tensor, bool alone) {
    uint64_t logits = it->untied || !alone ? large_vocabulary(it, tensor) : 0;
    if (it->pooled) logits = tn__add_sat(logits, large_product(it->hidden, it->hidden, false));
    return tn__add_sat(logits, large_norm(it));
}

/* --- activations
 * ----------------------------------------------------------------------------------
 */

static uint64_t large_saturate(double bytes) {
    return bytes < 9e18 ? (uint64_t)(bytes + 0.5) : UINT64_MAX;
}

static double large_layer_activations(const tn_large *it) {
    double tokens = (double)it->sequence * (double)it->micro, t = (double)it->tensor;
    double h = (double)it->hidden, f = (double)it->ffn, outside = it->sequence_parallel ? t : 1;
    double core = (it->no_dropout ? 2.0 : 5.0) * (double)it->heads * (double)it->sequence * tokens;
    if (it->recompute == TN_RECOMPUTE_FULL) return 2 * tokens * h / outside;
    if (it->recompute == TN_RECOMPUTE_SELECTIVE) core = 0;
    double kv = (double)large_kv_width(it, it->tensor), width = (double)large_width(it);
    /* query 2, key and value 2 each, what they make 2: 8h with as many of them as of queries */
    double inside = (4 * width / t + 4 * kv) * tokens;
    inside += ((it->gated ? 8 : 4) * tokens * f + core) / t;
    return (it->no_dropout ? 8 : 10) * tokens * h / outside + inside;
}

/* Pieces of a stage's layers whose forward pass is done and backward pass is not, at most. */
static uint64_t large_flight(const tn_large *it, uint32_t stage) {
    uint64_t behind = it->pipeline - stage - 1, pieces = it->interleave;
    uint64_t rounds = tn__mul_sat(it->batch / it->data / it->micro, pieces);
    uint64_t flight = pieces == 1 ? behind + 1 : 2 * behind + (pieces - 1) * it->pipeline + 1;
    return flight < rounds ? flight : rounds; /* no more than there are */
}

static uint64_t large_activations(const tn_large *it, uint32_t stage, uint64_t layers) {
    double tokens = (double)it->sequence * (double)it->micro, t = (double)it->tensor;
    double h = (double)it->hidden, outside = it->sequence_parallel ? t : 1;
    double flight = (double)large_flight(it, stage), pieces = (double)it->interleave;
    double bytes = large_layer_activations(it) * (double)layers / pieces * flight;
    if (stage == 0 && !it->no_dropout) /* dropout mask of the embedding */
        bytes += tokens * h / outside * ceil(flight / pieces);
    if (it->recompute == TN_RECOMPUTE_FULL) { /* one layer is there whole, while it runs again */
        tn_large whole = *it;
        whole.recompute = TN_RECOMPUTE_NONE;
        bytes += large_layer_activations(&whole);
    }
    if (stage + 1 == it->pipeline) /* norm's and product's input in 2 bytes, logits in 4 */
        bytes += 4 * tokens * h / outside + 4 * tokens * (double)it->vocabulary / t;
    return large_saturate(bytes);
}

/* --- together
 * --------------------------------------------------------------------------------------
 */

static uint64_t large_share(const tn_large *it, tn_shard from, uint64_t bytes) {
    return it->shard >= from ? (bytes + it->data - 1) / it->data : bytes;
}

static void large_stage(const tn_large *it, uint32_t stage, tn_large_stage *made) {
    bool first = stage == 0, last = stage + 1 == it->pipeline;
    *made = (tn_large_stage){.layers = it->layers / it->pipeline};
    uint64_t count = tn__mul_sat(made->layers, large_layer(it, it->tensor));
    if (first) count = tn__add_sat(count, large_first(it, it->tensor));
    if (last) count = tn__add_sat(count, large_last(it, it->tensor, first));
    made->parameters = count;
    made->weights = large_share(it, TN_SHARD_PARAMETERS, tn__mul_sat(count, it->weight_bytes));
    made->gradients = large_share(it, TN_SHARD_GRADIENTS, tn__mul_sat(count, it->gradient_bytes));
    made->state = large_share(it, TN_SHARD_OPTIMIZER, tn__mul_sat(count, it->state_bytes));
    made->activations = large_activations(it, stage, made->layers);
    made->total = tn__add_sat(tn__add_sat(made->weights, made->gradients),
                              tn__add_sat(made->state, made->activations));
}

tn_status tn__large_complete(const tn_large *given, tn_large *large, tn_error *error) {
    *large = large_complete(given);
    return large_check(large, error);
}

tn_status tn_large_stage_make(const tn_large *large, uint32_t stage, tn_large_stage *made,
                              tn_error *error) {
    tn_large it = large_complete(large);
    TN_TRY(large_check(&it, error));
    if (stage >= it.pipeline)
        TN_FAIL(error, TN_E_INVALID, "there are %llu stages, and no stage %u",
                (unsigned long long)it.pipeline, stage);
    large_stage(&it, stage, made);
    return TN_OK;
}

tn_status tn_large_estimate_make(const tn_large *large, tn_large_estimate *estimate,
                                 tn_error *error) {
    tn_large it = large_complete(large);
    TN_TRY(large_check(&it, error));
    double l = (double)it.layers, h = (double)it.hidden, v = (double)it.vocabulary;
    double s = (double)it.sequence, b = (double)it.batch;
    tn_large_estimate made = {0};
    made.parameters = 12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h));
    made.flops = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    made.exact_parameters = tn__add_sat(tn__mul_sat(it.layers, large_layer(&it, 1)),
                                        tn__add_sat(large_first(&it, 1), large_last(&it, 1, true)));
    if (made.exact_parameters == UINT64_MAX)
        TN_FAIL(error, TN_E_INVALID, "2^64 parameters or more");
    made.ranks = tn__mul_sat(tn__mul_sat(it.tensor, it.pipeline), it.data);
    /* Stages between the first and the last only shrink: later ones have less in flight. */
    uint64_t looked[] = {0, 1, it.pipeline - 1};
    for (size_t i = 0; i < sizeof looked / sizeof *looked; i++) {
        tn_large_stage stage;
        if (looked[i] >= it.pipeline) continue;
        large_stage(&it, (uint32_t)looked[i], &stage);
        if (stage.total <= made.largest.total) continue;
        made.largest = stage;
        made.largest_stage = (uint32_t)looked[i];
    }
    *estimate = made;
    return TN_OK;
}
