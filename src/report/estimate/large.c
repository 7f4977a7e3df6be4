/* large.c - formulas for the training of transformers that are too large to be built as a graph. It
 * counts matrix by matrix. The sizes that the formulas need are read from a config.json or from a
 * graph.
 *
 * The formulas leave out the memory of the program that runs the model, fragmentation, and
 * communication buffers. Activations are stored in numbers of 2 bytes. The bytes per token and
 * layer follow from the hidden size h, the inner size f, the widths q of all queries and v of all
 * keys (or of all values), and the number of heads a. s is the sequence length and t the number of
 * tensor-parallel ranks:
 *
 *     fused attention    16 h  +  (4 q + 4 v + 4 a + 8 f) / t       (4 f without a gate)
 *     unfused            8 h  +  (4 q + 4 v + 8 f + 2 a s) / t
 *
 * Fused attention does not store the scores. It stores query, key, value, output and one sum per
 * head. The 16 h are two normalisations that compute in float32 (4 h each), their result and their
 * output. Normalised queries and keys need 6 (q + v) more. Dropout stores masks: 2 h, and 3 a s
 * more if attention is unfused. The formulas for unfused attention are those of Korthikanti et al.
 * (2022), for an inner layer of any width. For f = 4 h and b sequences they are the published s b h
 * (10 + 24/t + 5 a s / (h t)). If there are fewer heads of keys than ranks, these heads are stored
 * on several ranks.
 *
 * Selective recomputation stores everything but the core of attention: its output and sums, or its
 * scores. Full recomputation stores only the input of each layer, 2 h. At the peak one layer is
 * stored completely, with the gradients of its inner layer, 6 f. The logits and the cross-entropy
 * loss in float32 need 14 V bytes per token, where V is the size of the vocabulary: 2 for the
 * product, 4 for its copy, 4 for the gradient, 4 for a softmax. They are needed for the tokens that
 * are computed at a time.
 *
 * In the order 1F1B, stage i of p stages, counted from 0, stores the activations of p - i
 * micro-batches at a time. If the stages are interleaved in v pieces, it stores 2 (p - i - 1) + (v
 * - 1) p + 1 pieces. ZeRO (Rajbhandari et al. 2020) divides first the state of the optimizer, then
 * also the gradients, then also the parameters by the number of data-parallel ranks.
 */
#include "base/base.h"
#include "graph/op.h"
#include "report/estimate/cluster.h"
#include <tenure/estimate.h>
#include <tenure/llm.h>

#include <math.h>
#include <stdio.h>

/* --- sizes from a config.json ----------------------------------------------------------------- */

/* Reads the sizes of a transformer for training from a config.json of Hugging Face.
 *
 * tn_llm_config reads the file, as for running the model. The formulas below know fewer kinds of
 * transformers. If the number of parameters by the formulas differs from that of the matrices, the
 * result is an error.
 */

#ifdef TENURE_MINIMAL
tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                          const tn_context *context, tn_large *large, tn_error *error) {
    (void)bytes, (void)size, (void)context, (void)large;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%s: this build reads no JSON", name);
}
#else

static tn_status config_sequence(tn_large *large, tn_error *error) {
    const tn_transformer *model = &large->model;
    if (large->sequence == 0) large->sequence = model->positions;
    if (large->sequence == 0)
        TN_FAIL(error, TN_E_INVALID, "no \"max_position_embeddings\": state `sequence`");
    if (model->position_rows > 0 && large->sequence > model->positions)
        TN_FAIL(error, TN_E_INVALID,
                "a sequence of %llu tokens exceeds the %llu positions of the model",
                (unsigned long long)large->sequence, (unsigned long long)model->positions);
    return TN_OK;
}

/* Checks that the formulas count exactly the parameters that the model has. */
static tn_status config_compare(const tn_large *large, const tn_llm *llm, tn_error *error) {
    tn_large alone = *large;
    tn_large_estimate estimate = {0};
    alone.tensor = alone.pipeline = alone.data = alone.micro = alone.batch = alone.interleave = 0;
    tn_status status = tn_large_estimate_make(&alone, &estimate, NULL);
    if (status == TN_OK && estimate.exact_parameters == llm->parameters) return TN_OK;
    TN_FAIL(error, TN_E_UNSUPPORTED,
            "the formulas for training do not count all matrices of model_type %s; only the memory "
            "to run it can be estimated",
            llm->type);
}

tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                          const tn_context *context, tn_large *large, tn_error *error) {
    tn_large made = *large;
    tn_context own = tn__context(context);
    tn_llm *llm = tn__alloc(&own, sizeof *llm);
    if (llm == NULL) return tn__no_memory(error, "a model");
    tn_status status = tn_llm_config(name, bytes, size, llm, error);
    if (status == TN_OK) {
        made.model = llm->model;
        status = config_sequence(&made, error);
        if (status == TN_OK) status = config_compare(&made, llm, error);
        if (status != TN_OK) tn__where(error, status, "%s", name);
    }
    tn__free(&own, llm, sizeof *llm);
    if (status == TN_OK) *large = made;
    return status;
}
#endif

/* --- sizes from a graph ----------------------------------------------------------------------- */

/* Finds the sizes of a transformer in its graph.
 *
 * Exporters write attention in many ways. But every layer has one Softmax over [batch, heads,
 * tokens, tokens], and every model has a Gather from a table of embeddings. The sizes are found as
 * follows:
 *
 *     layers, heads, sequence   from these Softmax operators
 *     vocabulary, hidden        the largest table that a Gather reads
 *     inner size                the widest product with the hidden size, except that of the
 *                               vocabulary and one for query, key and value together (3 hidden)
 *
 * For any other graph the formulas do not apply, and the result is an error.
 */

static const tn_tensor *shape_operand(const tn_graph *graph, const tn_op *op, uint32_t i) {
    return i < op->input_count && op->inputs[i] != TN_NONE ? tn_graph_tensor(graph, op->inputs[i])
                                                           : NULL;
}

static void shape_attention(const tn_graph *graph, const tn_op *op, tn_large *made) {
    const tn_tensor *scores = shape_operand(graph, op, 0);
    if (scores == NULL || scores->rank != 4 || scores->shape[1] < 1 || scores->shape[3] < 1 ||
        scores->shape[2] != scores->shape[3])
        return;
    made->model.layers++;
    made->model.heads = (uint64_t)scores->shape[1];
    made->sequence = (uint64_t)scores->shape[3];
}

static void shape_table(const tn_graph *graph, const tn_op *op, tn_transformer *made) {
    const tn_tensor *table = shape_operand(graph, op, 0);
    if (table == NULL || table->kind != TN_KIND_PARAMETER || table->rank != 2 ||
        table->shape[0] < 1 || table->shape[1] < 1)
        return;
    if ((uint64_t)table->shape[0] <= made->vocabulary) return;
    made->vocabulary = (uint64_t)table->shape[0];
    made->hidden = (uint64_t)table->shape[1];
}

static void shape_inner(const tn_graph *graph, const tn_op *op, tn_transformer *made) {
    const tn_tensor *weights = shape_operand(graph, op, 1);
    if (weights == NULL || weights->rank != 2 || !tn_tensor_is_static(weights)) return;
    for (uint32_t side = 0; side < 2; side++) {
        uint64_t a = (uint64_t)weights->shape[side], b = (uint64_t)weights->shape[1 - side];
        if (a == made->hidden && b > made->inner && b != made->vocabulary && b != 3 * made->hidden)
            made->inner = b;
    }
}

tn_status tn_large_from_graph(const tn_graph *graph, tn_large *large, tn_error *error) {
    tn_large made = *large;
    tn_transformer *model = &made.model;
    *model = (tn_transformer){.position_rows = TN_SIZE_UNKNOWN};
    uint64_t sequence = large->sequence;
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        if (tn__op_is(op, "Softmax")) shape_attention(graph, op, &made);
        if (tn__op_is(op, "Gather")) shape_table(graph, op, model);
    }
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
        if (tn__op_has(graph, id, TN_RULE_MATMUL))
            shape_inner(graph, tn_graph_op(graph, id), model);
    if (model->layers == 0 || model->hidden == 0)
        TN_FAIL(error, TN_E_INVALID, "the graph is not recognised as a transformer (%s)",
                model->layers == 0 ? "no Softmax over [batch, heads, tokens, tokens]"
                                   : "no table of embeddings");
    /* the inner size was not found; the default of 4 hidden is used */
    if (model->inner <= model->hidden) model->inner = 0;
    if (sequence > 0) made.sequence = sequence;
    *large = made;
    return TN_OK;
}

/* --- formulas --------------------------------------------------------------------------------- */

/* limit of every size, so that a product of a few sizes can be computed in a double */
#define LARGE_MOST (UINT64_C(1) << 40)

static uint64_t large_or(uint64_t value, uint64_t otherwise) {
    return value != 0 ? value : otherwise;
}

/* Returns the description `given`, with the default in place of every field that is 0. */
static tn_large large_complete(const tn_large *given) {
    tn_large it = *given;
    it.model.inner = large_or(it.model.inner, tn__mul_sat(4, it.model.hidden));
    it.model.kv_heads = large_or(it.model.kv_heads, it.model.heads);
    bool divides = it.model.heads > 0 && it.model.hidden % it.model.heads == 0;
    if (it.model.head_size == 0 && divides) it.model.head_size = it.model.hidden / it.model.heads;
    if (it.model.position_rows == TN_SIZE_UNKNOWN) it.model.position_rows = it.sequence;
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
    } members[] = {{"hidden size", it->model.hidden, true},
                   {"layers", it->model.layers, true},
                   {"heads", it->model.heads, true},
                   {"vocabulary", it->model.vocabulary, true},
                   {"sequence", it->sequence, true},
                   {"head size", it->model.head_size, true},
                   {"inner size", it->model.inner, true},
                   {"key and value heads", it->model.kv_heads, true},
                   {"positions", it->model.position_rows, false},
                   {"token types", it->model.types, false},
                   {"batch", it->batch, true},
                   {"micro-batch", it->micro, true},
                   {"tensor", it->tensor, true},
                   {"pipeline", it->pipeline, true},
                   {"data", it->data, true},
                   {"interleave", it->interleave, true},
                   {"tokens of the loss", it->loss_tokens, false}};
    if (it->model.heads > 0 && it->model.head_size == 0 && it->model.hidden > 0)
        TN_FAIL(error, TN_E_INVALID, "hidden size %llu cannot be divided by heads %llu",
                (unsigned long long)it->model.hidden, (unsigned long long)it->model.heads);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].value > LARGE_MOST || (members[i].needed && members[i].value == 0))
            TN_FAIL(error, TN_E_INVALID, "%s: %llu is out of range", members[i].name,
                    (unsigned long long)members[i].value);
    /* there are more ranks than heads of keys, so several ranks have a copy of one head */
    bool spread = it->model.kv_heads < it->tensor;
    const struct {
        const char *whole, *part;
        uint64_t a, b;
    } divided[] = {
        {"heads", "key and value heads", it->model.heads, it->model.kv_heads},
        {"heads", "tensor", it->model.heads, it->tensor},
        {"key and value heads", "tensor", spread ? 0 : it->model.kv_heads, it->tensor},
        {"tensor", "key and value heads", spread ? it->tensor : 0, it->model.kv_heads},
        {"inner size", "tensor", it->model.inner, it->tensor},
        {"layers", "pipeline", it->model.layers, it->pipeline},
        {"layers of a stage", "interleave", it->model.layers / it->pipeline, it->interleave},
        {"batch", "data", it->batch, it->data},
        {"batch per data rank", "micro-batch", it->batch / it->data, it->micro}};
    for (size_t i = 0; i < sizeof divided / sizeof *divided; i++)
        if (divided[i].a % divided[i].b != 0)
            TN_FAIL(error, TN_E_INVALID, "%s %llu cannot be divided by %s %llu", divided[i].whole,
                    (unsigned long long)divided[i].a, divided[i].part,
                    (unsigned long long)divided[i].b);
    return TN_OK;
}

/* --- parameters --- */

static uint64_t large_width(const tn_large *it) {
    return tn__mul_sat(it->model.heads, it->model.head_size);
}

/* Returns the width of the keys, or of the values, on one of `tensor` ranks. Every rank has at
 * least one head. */
static uint64_t large_kv_width(const tn_large *it, uint64_t tensor) {
    uint64_t heads = it->model.kv_heads / tensor;
    return tn__mul_sat(heads > 0 ? heads : 1, it->model.head_size);
}

static uint64_t large_norm(const tn_large *it) {
    return (it->model.rms_norm ? 1 : 2) * it->model.hidden;
}

/* Returns the parameters of a matrix of rows x columns, with a bias of `columns` numbers unless
 * `no_bias`. */
static uint64_t large_product(uint64_t rows, uint64_t columns, bool no_bias) {
    return tn__add_sat(tn__mul_sat(rows, columns), no_bias ? 0 : columns);
}

/* Returns the parameters of one layer on one of `tensor` ranks. The rows or the columns of matrices
 * are divided among the ranks. Normalisations, and the biases after a matrix that is divided by
 * rows, are not. */
static uint64_t large_layer(const tn_large *it, uint64_t tensor) {
    uint64_t h = it->model.hidden, f = it->model.inner / tensor, width = large_width(it) / tensor;
    uint64_t read = tn__add_sat(width, tn__mul_sat(2, large_kv_width(it, tensor)));
    uint64_t count = large_product(h, read, it->model.no_query_bias);
    count = tn__add_sat(count, large_product(width, h, it->model.no_output_bias));
    count = tn__add_sat(
        count, tn__mul_sat(it->model.gated ? 2 : 1, large_product(h, f, it->model.no_inner_bias)));
    count = tn__add_sat(count, large_product(f, h, it->model.no_inner_bias));
    uint64_t norms = 2 * large_norm(it) + (it->model.query_norm ? 2 * it->model.head_size : 0);
    return tn__add_sat(count, norms);
}

static uint64_t large_vocabulary(const tn_large *it, uint64_t tensor) {
    return tn__mul_sat((it->model.vocabulary + tensor - 1) / tensor, it->model.hidden);
}

/* Returns the parameters before the first layer; large_last returns those after the last layer. */
static uint64_t large_first(const tn_large *it, uint64_t tensor) {
    uint64_t others =
        tn__mul_sat(tn__add_sat(it->model.position_rows, it->model.types), it->model.hidden);
    if (it->model.embedding_norm) others = tn__add_sat(others, large_norm(it));
    return tn__add_sat(large_vocabulary(it, tensor), others);
}

static uint64_t large_last(const tn_large *it, uint64_t tensor, bool alone) {
    uint64_t logits = it->model.untied || !alone ? large_vocabulary(it, tensor) : 0;
    if (it->model.pooled)
        logits = tn__add_sat(logits, large_product(it->model.hidden, it->model.hidden, false));
    return tn__add_sat(logits, large_norm(it));
}

/* --- activations --- */

static uint64_t large_saturate(double bytes) {
    return bytes < 9e18 ? (uint64_t)(bytes + 0.5) : UINT64_MAX;
}

typedef struct large_kept { /* bytes of activations of one layer */
    double all;             /* bytes that are stored without recomputation */
    double core;            /* the part of `all` that is the core of attention */
    double input;           /* bytes of the input of the layer */
    double backward;        /* bytes of gradients that exist during the layer's backward pass */
} large_kept;

static large_kept large_layer_unfused(const tn_large *it) {
    double tokens = (double)it->sequence * (double)it->micro, t = (double)it->tensor;
    double h = (double)it->model.hidden, f = (double)it->model.inner,
           outside = it->sequence_parallel ? t : 1;
    double core = (it->model.no_dropout ? 2.0 : 5.0) * (double)it->model.heads *
                  (double)it->sequence * tokens;
    double kv = (double)large_kv_width(it, it->tensor), width = (double)large_width(it);
    /* query, key, value and the result of attention in 2 bytes each; that is 8 h if queries, keys
     * and values have equally many heads */
    double inside = (4 * width / t + 4 * kv) * tokens;
    inside += ((it->model.gated ? 8 : 4) * tokens * f + core) / t;
    return (large_kept){.all = (it->model.no_dropout ? 8 : 10) * tokens * h / outside + inside,
                        .core = core / t,
                        .input = 2 * tokens * h / outside};
}

static large_kept large_layer_fused(const tn_large *it) {
    double tokens = (double)it->sequence * (double)it->micro, t = (double)it->tensor;
    double h = (double)it->model.hidden, f = (double)it->model.inner,
           outside = it->sequence_parallel ? t : 1;
    double kv = (double)large_kv_width(it, it->tensor), width = (double)large_width(it) / t;
    double sums = 4 * (double)it->model.heads / t;
    double inside = 4 * width + 4 * kv + sums + (it->model.gated ? 8 : 4) * f / t;
    if (it->model.query_norm) inside += 6 * (width + kv);
    return (large_kept){
        .all = tokens * ((it->model.no_dropout ? 16 : 18) * h / outside + inside),
        .core = tokens * (2 * width + sums),
        .input = tokens * 2 * h / outside,
        .backward = tokens * (it->model.gated ? 6 : 4) * f / t,
    };
}

static large_kept large_layer_kept(const tn_large *it) {
    return it->attention == TN_ATTENTION_UNFUSED ? large_layer_unfused(it) : large_layer_fused(it);
}

/* Returns how many pieces of this stage's layers can be between their forward and their backward
 * pass at one time. */
static uint64_t large_flight(const tn_large *it, uint32_t stage) {
    uint64_t behind = it->pipeline - stage - 1, pieces = it->interleave;
    uint64_t rounds = tn__mul_sat(it->batch / it->data / it->micro, pieces);
    uint64_t flight = pieces == 1 ? behind + 1 : 2 * behind + (pieces - 1) * it->pipeline + 1;
    /* at most as many pieces as all micro-batches of a step have */
    return flight < rounds ? flight : rounds;
}

/* Computes the bytes of `layers` layers, which include every micro-batch in flight. *kept are
 * stored from the forward to the backward pass; *more exist only at the peak. */
static void large_layers_kept(const tn_large *it, double layers, double *kept, double *more) {
    large_kept one = large_layer_kept(it);
    double selective = layers * (one.all - one.core) + one.core + one.backward;
    double full = layers * one.input + one.all + one.backward;
    tn_recompute recompute = it->recompute;
    if (recompute == TN_RECOMPUTE_FULL && full > selective)
        /* for a single layer full recomputation saves nothing, because one layer is stored whole
         * anyway */
        recompute = TN_RECOMPUTE_SELECTIVE;
    *kept = layers * (recompute == TN_RECOMPUTE_FULL        ? one.input
                      : recompute == TN_RECOMPUTE_SELECTIVE ? one.all - one.core
                                                            : one.all);
    *more = one.backward + (recompute == TN_RECOMPUTE_FULL        ? one.all
                            : recompute == TN_RECOMPUTE_SELECTIVE ? one.core
                                                                  : 0);
}

/* Returns the bytes of the last normalisation, the logits and the loss. */
static double large_loss(const tn_large *it) {
    double tokens = (double)it->sequence * (double)it->micro, t = (double)it->tensor;
    double h = (double)it->model.hidden, v = (double)it->model.vocabulary, at_once = tokens;
    double outside = it->sequence_parallel ? t : 1;
    bool unfused = it->attention == TN_ATTENTION_UNFUSED;
    if (it->loss_tokens > 0 && (double)it->loss_tokens < tokens) at_once = (double)it->loss_tokens;
    return (unfused ? 4 : 8) * tokens * h / outside + (unfused ? 4 : 14) * at_once * v / t;
}

static void large_activations(const tn_large *it, uint32_t stage, tn_large_stage *made) {
    double tokens = (double)it->sequence * (double)it->micro, t = (double)it->tensor;
    double h = (double)it->model.hidden, outside = it->sequence_parallel ? t : 1;
    double flight = (double)large_flight(it, stage), pieces = (double)it->interleave;
    double kept, more, loss = 0;
    large_layers_kept(it, (double)made->layers / pieces * flight, &kept, &more);
    if (stage == 0 && !it->model.no_dropout) /* add the mask of the dropout after the embedding */
        kept += tokens * h / outside * ceil(flight / pieces);
    if (stage + 1 == it->pipeline) loss = large_loss(it);
    made->kept = large_saturate(kept);
    made->loss = large_saturate(loss);
    made->activations = large_saturate(kept + more + loss);
}

/* --- together --- */

static uint64_t large_share(const tn_large *it, tn_shard from, uint64_t bytes) {
    return it->shard >= from ? (bytes + it->data - 1) / it->data : bytes;
}

static void large_stage(const tn_large *it, uint32_t stage, tn_large_stage *made) {
    bool first = stage == 0, last = stage + 1 == it->pipeline;
    *made = (tn_large_stage){.layers = it->model.layers / it->pipeline};
    uint64_t count = tn__mul_sat(made->layers, large_layer(it, it->tensor));
    if (first) count = tn__add_sat(count, large_first(it, it->tensor));
    if (last) count = tn__add_sat(count, large_last(it, it->tensor, first));
    made->parameters = count;
    made->weights = large_share(it, TN_SHARD_PARAMETERS, tn__mul_sat(count, it->weight_bytes));
    made->gradients = large_share(it, TN_SHARD_GRADIENTS, tn__mul_sat(count, it->gradient_bytes));
    made->state = large_share(it, TN_SHARD_OPTIMIZER, tn__mul_sat(count, it->state_bytes));
    large_activations(it, stage, made);
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
    double l = (double)it.model.layers, h = (double)it.model.hidden,
           v = (double)it.model.vocabulary;
    double s = (double)it.sequence, b = (double)it.batch;
    tn_large_estimate made = {0};
    made.parameters = 12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h));
    made.flops = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    made.exact_parameters = tn__add_sat(tn__mul_sat(it.model.layers, large_layer(&it, 1)),
                                        tn__add_sat(large_first(&it, 1), large_last(&it, 1, true)));
    if (made.exact_parameters == UINT64_MAX)
        TN_FAIL(error, TN_E_INVALID, "2^64 parameters or more");
    made.ranks = tn__mul_sat(tn__mul_sat(it.tensor, it.pipeline), it.data);
    /* The stages between the second and the last need less memory than the second, because later
     * stages have fewer micro-batches in flight. */
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
