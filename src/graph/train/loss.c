/* loss.c - adds labels and loss, and begins the backward pass.
 *
 * Scores of shape [batch, classes, ...] or [batch, ..., classes] are compared with class numbers.
 * Images (rank 4 and more) have their classes on axis 1, as in ONNX and PyTorch; texts have them on
 * the last axis. An axis of extent 1 holds no classes: [batch, 1, 1, classes] has them last. The
 * loss is one operator with one gradient, which needs only the scores: no probabilities are kept,
 * and the gradient may overwrite the scores. The backward pass begins with loss_scale /
 * micro_batches, so that sums of gradients are means.
 */
#include "graph/rules/fold.h"
#include "graph/train/frame.h"

static tn_status loss_output(tn__train *it, const char *name, tn_tensor_id *id) {
    tn_tensor_spec spec = {.name = name, .kind = TN_KIND_OUTPUT, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

static tn_status loss_labels(tn__train *it, tn_dtype dtype, uint32_t rank, const int64_t *shape) {
    tn_tensor_spec spec = {
        .name = "labels", .dtype = dtype, .kind = TN_KIND_INPUT, .rank = rank, .shape = shape};
    return tn_graph_add_tensor(it->graph, &spec, &it->made.labels, it->error);
}

static tn_status loss_op(tn__train *it, const char *type, const int64_t *axis, bool counts) {
    tn_tensor_id inputs[] = {it->scores, it->made.labels};
    tn_tensor_id outputs[] = {it->made.loss, it->made.correct};
    const tn_attr attr = TN__ATTR_INT("axis", axis);
    if (it->part_count > 0) return tn__train_loss_of_parts(it, type, axis != NULL ? &attr : NULL);
    return tn__train_op(it, "loss", type, inputs, 2, outputs, counts ? 2 : 1, &attr, axis != NULL);
}

static tn_status loss_cross_entropy(tn__train *it, const tn_tensor *own) {
    bool cut = tn__train_cut_of(it, it->scores) != NULL;
    const tn_tensor *scores = cut ? tn__train_whole_of(it, it->scores) : own;
    if (scores->rank < 2)
        TN_FAIL(it->error, TN_E_INVALID,
                "output '%.80s' has rank %u; a cross-entropy needs scores of [batch, classes]",
                scores->name, scores->rank);
    int64_t shape[TN_RANK_MAX], axis = tn_loss_axis(scores->rank, scores->shape);
    if (scores->shape[axis] < 2)
        TN_FAIL(it->error, TN_E_INVALID,
                "output '%.80s' scores %lld class on axis %lld; a cross-entropy needs two or more "
                "(the loss mean-squared does not)",
                scores->name, (long long)scores->shape[axis], (long long)axis);
    uint32_t rank = 0;
    for (uint32_t d = 0; d < scores->rank; d++)
        if (d != (uint32_t)axis) shape[rank++] = scores->shape[d];
    TN_TRY(loss_labels(it, TN_INT64, rank, shape));
    TN_TRY(loss_output(it, "loss", &it->made.loss));
    TN_TRY(loss_output(it, "correct", &it->made.correct));
    if (cut) return tn__train_class_loss(it, &axis);
    return loss_op(it, "CrossEntropy", &axis, true);
}

static tn_status loss_mean_squared(tn__train *it, const tn_tensor *scores) {
    TN_TRY(loss_labels(it, scores->dtype, scores->rank, scores->shape));
    TN_TRY(loss_output(it, "loss", &it->made.loss));
    return loss_op(it, "MeanSquared", NULL, false);
}

/* Uses the model's own output as the loss. */
static tn_status loss_own(tn__train *it, const tn_tensor *scores) {
    if (tn__elements(scores) != 1)
        TN_FAIL(it->error, TN_E_INVALID, "output '%.80s' is not a scalar, so it cannot be a loss",
                scores->name);
    it->made.loss = it->scores;
    const tn_block *block = tn_graph_block(it->graph, 0);
    for (uint32_t k = 0; k < block->output_count; k++)
        if (block->outputs[k] == it->scores) return TN_OK;
    tn_tensor_id *outputs =
        tn__arena_array(&it->arena, (size_t)block->output_count + 1, sizeof *outputs);
    if (outputs == NULL) return tn__no_memory(it->error, "outputs");
    for (uint32_t k = 0; k < block->output_count; k++) outputs[k] = block->outputs[k];
    outputs[block->output_count] = it->scores;
    return tn_graph_set_block_io(it->graph, 0, block->inputs, block->input_count, outputs,
                                 block->output_count + 1, it->error);
}

uint32_t tn_loss_axis(uint32_t rank, const int64_t *shape) {
    uint32_t last = rank > 0 ? rank - 1 : 0, usual = rank > 3 ? 1 : last;
    uint32_t other = usual == last ? 1 : last;
    return rank > 2 && shape[usual] == 1 && shape[other] != 1 ? other : usual;
}

/* Applies the shape changes that follow a Softmax which is left out, so that the scores get the
 * shape of the output. An added operator has no inferred shape yet. */
static tn_status loss_shape(tn__train *it) {
    const tn_tensor like = *tn_graph_tensor(it->model, it->shaped);
    const tn_tensor own = *tn_graph_tensor(it->graph, it->scores);
    bool same = own.rank == like.rank &&
                (own.rank == 0 || memcmp(own.shape, like.shape, own.rank * sizeof *own.shape) == 0);
    if (same || it->scores == it->shaped || it->part_count > 0) return TN_OK;
    int64_t literal = 1;
    tn_tensor_spec made = {.name = "scores", .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    tn_tensor_id inputs[] = {it->scores, TN_NONE}, output;
    TN_TRY(tn__graph_add_list(it->graph, like.shape, like.rank, &inputs[1], it->error));
    TN_TRY(tn_graph_add_tensor(it->graph, &made, &output, it->error));
    const tn_attr attr = TN__ATTR_INT("allowzero", &literal);
    tn_op_spec spec = {.name = "scores",
                       .type = "Reshape",
                       .inputs = inputs,
                       .input_count = 2,
                       .outputs = &output,
                       .output_count = 1,
                       .attrs = &attr,
                       .attr_count = 1};
    TN_TRY(tn_graph_add_op(it->graph, &spec, NULL, it->error));
    it->scores = output;
    return TN_OK;
}

/* The cross-entropy computes in float64 from scores of any type; other losses are float32. */
static tn_status loss_cast(tn__train *it) {
    const bool likes = it->options.loss == TN_LOSS_CROSS_ENTROPY;
    for (uint32_t p = 0; p < it->part_count; p++)
        TN_TRY(tn__train_as(it, it->parts[p], likes && it->likes_low[it->parts[p]], &it->parts[p]));
    if (it->part_count > 0) return TN_OK;
    return tn__train_as(it, it->scores, likes && it->likes_low[it->scores], &it->scores);
}

static tn_status loss_one(tn__train *it) {
    /* the graph that describes the tensors of the whole model */
    const tn_graph *whole = it->part_count > 0 ? it->model : it->graph;
    const tn_tensor scores = *tn_graph_tensor(whole, it->scores);
    if (!tn__is_float(scores.dtype) || !tn__shape_known(&scores))
        TN_FAIL(it->error, TN_E_INVALID,
                "output '%.80s' is not a tensor of a floating type and known shape", scores.name);
    it->made.labels = it->made.loss = it->made.correct = TN_NONE;
    if (it->options.loss == TN_LOSS_CROSS_ENTROPY) return loss_cross_entropy(it, &scores);
    if (it->options.loss == TN_LOSS_MEAN_SQUARED) return loss_mean_squared(it, &scores);
    return loss_own(it, &scores);
}

/* for each micro-batch, the current input of the loss, and its shape */
typedef struct loss_rounds {
    tn_tensor_id *scores, *shaped;
} loss_rounds;

/* Adds one operator in every micro-batch, after the operator that makes the scores, and infers
 * shapes afterwards. The first micro-batch comes last, so that its tensors stay the current
 * ones. */
static tn_status loss_each(tn__train *it, const loss_rounds *list, tn_status (*add)(tn__train *)) {
    for (uint32_t r = it->rounds; r-- > 0;) {
        it->scores = list->scores[r];
        it->shaped = list->shaped[r];
        if (tn__train_is_whole(it)) TN_TRY(tn__train_move(it, it->homes[it->scores]));
        TN_TRY(add(it));
        TN_TRY(tn__train_settle(it));
        list->scores[r] = it->scores;
        it->round_list[r] = (tn_round){it->made.labels, it->made.loss, it->made.correct, NULL};
    }
    return tn_graph_infer(it->graph, it->error);
}

tn_status tn__train_loss(tn__train *it, tn_tensor_id *seed) {
    tn_tensor_id *both = tn__arena_array(&it->arena, 2 * (size_t)it->rounds, sizeof *both);
    const loss_rounds list = {both, both != NULL ? both + it->rounds : NULL};
    it->round_list = tn__arena_array(&it->arena, it->rounds, sizeof *it->round_list);
    if (it->round_list == NULL || both == NULL) return tn__no_memory(it->error, "the loss");
    for (uint32_t r = 0; r < it->rounds; r++) {
        list.scores[r] = tn__train_in_round(it, it->scores, r);
        list.shaped[r] = tn__train_in_round(it, it->shaped, r);
    }
    TN_TRY(loss_each(it, &list, loss_cast));
    TN_TRY(loss_each(it, &list, loss_shape));
    TN_TRY(loss_each(it, &list, loss_one));
    return tn__train_seed(it, seed);
}
