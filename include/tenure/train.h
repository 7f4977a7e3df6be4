/* train.h - makes a training step (forward, backward and update) of an ordinary model, as a graph.
 *
 *     tn_graph *model;
 *     tn_training training;
 *     tn_error error;
 *     int64_t batch[] = {4, 8}, weights[] = {8, 3};
 *     tn_tensor_id in[2], y;
 *     tn_tensor_spec x = {.name = "x", .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT,
 *                         .rank = 2, .shape = batch};
 *     tn_tensor_spec w = {.name = "w", .dtype = TN_FLOAT32, .kind = TN_KIND_PARAMETER,
 *                         .rank = 2, .shape = weights};
 *     tn_tensor_spec scores = {.name = "y", .kind = TN_KIND_OUTPUT};
 *     tn_op_spec product = {.type = "MatMul", .inputs = in, .input_count = 2, .outputs = &y,
 *                           .output_count = 1};
 *     tn_train_options options = TN_TRAIN_OPTIONS_INIT;
 *     options.optimizer = TN_OPTIMIZER_ADAM;
 *     if (tn_graph_create(NULL, &model, &error) ||
 *         tn_graph_add_tensor(model, &x, &in[0], &error) ||
 *         tn_graph_add_tensor(model, &w, &in[1], &error) ||
 *         tn_graph_add_tensor(model, &scores, &y, &error) ||
 *         tn_graph_add_op(model, &product, NULL, &error) || tn_graph_infer(model, &error) ||
 *         tn_train(model, &options, &training, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
 *     // plan, prove, draw or run training.graph as any other graph (program.h, engine.h)
 *     printf("%u operators a step\n", tn_graph_op_count(training.graph));
 *     tn_training_release(&training);
 *     tn_graph_destroy(model);
 *
 * One run of the new graph is one step on one (micro-)batch. Its inputs are those of the model,
 * followed by `labels`, `learning_rate`, `step`, and `micro` if gradients are accumulated. Its
 * outputs are `loss`, `correct` for a classification loss, and the model's own outputs and the
 * gradients if the options ask for them. Parameters, running statistics and optimizer state are
 * static memory that operators update (TN_TENSOR_UPDATED). tn_engine_get_static and
 * tn_engine_set_static copy them between runs; a checkpoint holds nothing else.
 *
 * For speed, rewrite the model for TN_REWRITE_TO_TRAIN before tn_train (fused GELU and layer
 * normalisation with fused gradients), and the graph for TN_REWRITE_TRAINED after it (channels-last
 * convolutions, products on transposed tensors without copies, fused operators). Tensor ids of the
 * graph do not change.
 *
 * Tensors of the model keep their ids in the new graph, so a function that reads the data of the
 * model's parameters also works for the new graph. Batch normalisation and dropout work in training
 * mode; a batch normalisation with a frozen scale works in inference mode. A final Softmax or
 * LogSoftmax over the classes before the cross-entropy is removed, since the loss contains it.
 *
 * A parameter is a tensor of kind parameter and of a floating type that an operator reads as a
 * variable. Three kinds of tensors only look like parameters, and stay constant unless
 * tn_train_options.train names them:
 * - one element in elementwise arithmetic, unless its name is a path of identifiers
 * ("block.0.gamma") without the word "const" or "constant";
 * - values per channel in arithmetic on the inputs before any parameter is applied (the mean and
 * deviation of preprocessing), unless the model has no other parameters;
 * - a mask that is added to scores before a Softmax.
 * PyTorch's exporter merges parameters with equal data into one, with nodes "Identity_<n>" of it;
 * each of these becomes a parameter of its own again. Any other Identity of a parameter is the same
 * parameter, with its gradients summed. Weights made by ConstantOfShape are parameters.
 * Threads: the model is only read. Several graphs may be made at once.
 */
#ifndef TENURE_TRAIN_H
#define TENURE_TRAIN_H

#include <tenure/parts.h>
#include <tenure/shard.h>
#include <tenure/stages.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Losses and optimizers: X(name, text, sentence). */
/* clang-format off */
#define TN_LOSS_TABLE(X)                                                                       \
    X(CROSS_ENTROPY, "cross-entropy", "softmax cross-entropy of scores against class numbers") \
    X(MEAN_SQUARED, "mean-squared", "mean of the squared differences to the labels")           \
    X(OUTPUT, "output", "the model's output is the loss: a float scalar")
#define TN_OPTIMIZER_TABLE(X)                                                                  \
    X(SGD, "sgd", "p -= lr g")                                                                 \
    X(MOMENTUM, "momentum", "v = momentum v + g; p -= lr v")                                   \
    X(ADAM, "adam", "first and second moments, bias corrected")                                \
    X(ADAMW, "adamw", "adam with decay of the weights apart from the gradient")                \
    X(NONE, "none", "gradients alone; they become outputs of the graph")
/* clang-format on */

typedef enum tn_loss {
#define TN_X(name, text, sentence) TN_LOSS_##name,
    TN_LOSS_TABLE(TN_X)
#undef TN_X
        TN_LOSS_COUNT
} tn_loss;

typedef enum tn_optimizer {
#define TN_X(name, text, sentence) TN_OPTIMIZER_##name,
    TN_OPTIMIZER_TABLE(TN_X)
#undef TN_X
        TN_OPTIMIZER_COUNT
} tn_optimizer;

/* Find returns TN_LOSS_COUNT or TN_OPTIMIZER_COUNT for an unknown text. Names and summaries are
 * static; NULL for a value out of range. */
TN_API tn_loss tn_loss_find(const char *text);
TN_API const char *tn_loss_name(tn_loss loss);
TN_API const char *tn_loss_summary(tn_loss loss);
TN_API tn_optimizer tn_optimizer_find(const char *text);
TN_API const char *tn_optimizer_name(tn_optimizer optimizer);
TN_API const char *tn_optimizer_summary(tn_optimizer optimizer);

typedef struct tn_train_options {
    size_t struct_size;
    tn_loss loss;
    uint32_t output; /* index of the model's output that the loss is computed from */

    tn_optimizer optimizer;
    double momentum;     /* 0 = 0.9 */
    double beta1, beta2; /* of Adam; 0 = 0.9 and 0.999 */
    double epsilon;      /* of Adam; 0 = 1e-8 */
    double weight_decay; /* SGD, momentum, Adam: added to the gradient; AdamW: decoupled */
    bool nesterov;

    const char *const *freeze; /* [freeze_count] patterns with * and ?: parameters not to train */
    uint32_t freeze_count;
    const char *const *train; /* [train_count] patterns of parameters to train although they look
                               * like constants (above) */
    uint32_t train_count;
    uint32_t micro_batches;     /* runs whose gradients are summed for one update; 0 = 1 */
    tn_dtype dtype;             /* of activations and gradients. UNDEFINED and FLOAT32: as in the
                                 * model. BFLOAT16, FLOAT16: mixed precision; parameters, optimizer
                                 * state, statistics and the loss stay float32 */
    double loss_scale;          /* factor of the backward pass, divided out by the update; 0 = 1 */
    bool dynamic_loss_scale;    /* the scale adapts: a step with a non-finite gradient is skipped
                                 * (parameters and moments stay) and halves it; 2000 good steps in
                                 * a row double it. It starts at loss_scale, 0 = 65536. Not with
                                 * fuse_update, since it depends on all gradients */
    double batch_norm_momentum; /* weight of a batch in the running statistics; 0 = 0.1 */
    uint64_t seed;              /* of dropout */

    bool fuse_update;      /* update each parameter as soon as its gradient is complete */
    bool dropout_bits;     /* dropout stores its mask (one bit per element) instead of drawing it
                            * again in the backward pass; the results are the same */
    bool keep_pool_inputs; /* the gradient of a max pool searches the maxima again in the pool's
                            * input. Default: the pool stores the position of each maximum in 4 or 8
                            * bits per output, and its input can be released. The results are the
                            * same */
    bool keep_outputs;     /* the model's outputs stay outputs of the graph */
    bool output_gradients; /* gradients of parameters become outputs, for every optimizer */
    uint64_t bucket_bytes; /* gradients are gathered in buckets of about this size, in the order in
                            * which they are completed; ranks exchange each bucket in one message
                            * (dist.h). A larger gradient has a bucket of its own. 0: no buckets.
                            * The results are the same to the bit */

    /* Tensor parallelism: the model is cut over `tensor_ranks` ranks, and this graph is for rank
     * `tensor_rank`. It has a part of every tensor that can be cut (tn_training_part), and
     * operators that mark where ranks combine values, which tn_program_join (dist.h) turns into
     * communication. All ranks have the same samples. 0 and 1: not cut */
    uint32_t tensor_ranks, tensor_rank;

    /* Sharded data parallelism (ZeRO, dist.h): each of `shard_count` ranks keeps one part of every
     * bucket; this rank keeps part `shard_index`. In a cut model the ranks with the same part of it
     * share. Not with dynamic_loss_scale or output_gradients. NONE, or count 0 or 1: not sharded */
    tn_shard shard;
    uint32_t shard_count, shard_index;

    /* With tensor_ranks: also cuts the activations between the cut operators (normalisations,
     * dropout, residuals), along samples or, with one sample, along its sequence, and keeps them
     * cut for the backward pass. E_INVALID if the model has no such activations */
    bool sequence_parallel;

    /* Pipeline parallelism: one run of the graph is a whole step with all `micro_batches`, each
     * with its own inputs, labels, loss and `correct` (tn_training.stages). The model is divided
     * into this many consecutive parts of about equal work; every tensor is assigned to a part, for
     * tn_program_pipeline (dist.h). 1: all on one rank. 0: no pipeline. At most TN_STAGE_PARTS_MAX.
     * Not with 16-bit types, dynamic_loss_scale, or control flow that depends on data */
    uint32_t pipeline_parts;

    /* Computes the model's last product and the loss in about this many parts of the samples (for
     * text: of its tokens). Each part runs its backward pass before the next part begins, so that
     * scores and their gradient exist for one part at a time. Losses and gradients differ only by
     * the order of sums. At most 4096; 0 and 1: whole. E_UNSUPPORTED with TN_LOSS_OUTPUT, with
     * tensor_ranks, and if no product along such an axis makes the scores */
    uint32_t loss_parts;
} tn_train_options;
#define TN_SHARDS_MAX 65536u
#define TN_TRAIN_OPTIONS_INIT                                                                      \
    TN_INIT(tn_train_options, TN_SET(struct_size, sizeof(tn_train_options)))

typedef struct tn_trained { /* a parameter that is trained */
    tn_tensor_id parameter;
    tn_tensor_id gradient; /* as the update reads it, times loss_scale / micro_batches; 16-bit if
                            * its operator computed so. TN_NONE: the loss does not depend on the
                            * parameter, and it is never updated */
    tn_tensor_id state[2]; /* velocity, or first and second moment; TN_NONE: the optimizer has no
                            * such state. Static, kind optimizer_state, initially zero */
    tn_tensor_id sum;      /* static sum over micro-batches; TN_NONE: not accumulated */
    uint32_t shard;        /* index into `sharded`, which then holds the parameter and its state;
                            * `gradient` is this rank's own before it enters the bucket. TN_NONE:
                            * not sharded */
    uint64_t at;           /* bytes from the start of the whole shard */
} tn_trained;

/* A shard: consecutive parameters, and the part of them that this rank keeps. Flat tensors. */
typedef struct tn_sharded {
    uint64_t bytes, part_bytes; /* of the whole, with padding of zeros; of a part */
    uint64_t from;              /* where this rank's part begins */
    tn_tensor_id parameters;    /* static: the whole; with TN_SHARD_PARAMETERS only the part */
    tn_tensor_id whole;         /* the model's parameters are views of it; or `parameters` */
    tn_tensor_id gradient;      /* the part of the gradient that updates this rank's part */
    tn_tensor_id state[2], sum; /* as in tn_trained, for the part */
} tn_sharded;

typedef struct tn_training {
    tn_graph *graph; /* inferred; made with the model's context */
    /* Inputs; TN_NONE if the graph does not have that input. */
    tn_tensor_id labels;        /* int64 class numbers, in the shape of the scores without the class
                                 * axis; or target values, with shape and type of the output */
    tn_tensor_id learning_rate; /* float32 scalar */
    tn_tensor_id step;          /* int64 scalar: number of updates before this one, from 0 */
    tn_tensor_id micro;         /* int64 scalar: 0 to micro_batches - 1; the last one updates */
    /* Static, kind optimizer_state, initially zero; TN_NONE: the loss scale is constant. */
    tn_tensor_id loss_scale; /* int64 [3]: log2 of the scale over its initial value, good steps in a
                              * row, steps skipped */
    /* Outputs. */
    tn_tensor_id loss;    /* float32 scalar, mean over the (micro-)batch, without loss_scale */
    tn_tensor_id correct; /* int64 scalar: labels with the highest score (cross-entropy) */
    uint32_t parameter_count, statistic_count;
    tn_trained *parameters;   /* [parameter_count], by id */
    tn_tensor_id *statistics; /* [statistic_count] running means and variances, by id */
    struct tn_parts *parts;   /* NULL: not cut */
    uint32_t sharded_count;
    tn_sharded *sharded; /* [sharded_count] in the order in which their gradients are completed */
    /* NULL; or the graph has all micro-batches: inputs and outputs above are those of the first,
     * followed by those of the others in order */
    const tn_stages *stages;
} tn_training;

/* Makes the graph of a training step.
 *
 * graph     the model, inferred, with known shapes; all parameters of floating types that match no
 *           `freeze` pattern are trained
 * options   NULL: defaults
 *
 * The axis of classes is that of tn_loss_axis.
 * Errors: E_INVALID (a pattern that matches no parameter, no parameter to train, an output that
 * does not fit the loss, numbers out of range, a model of which nothing can be cut, more pipeline
 * parts than operators), E_UNSUPPORTED (an operator without a gradient between a parameter and the
 * loss; the message names its node), E_NO_MEMORY. Cost: O(tensors + operators). */
TN_API TN_CHECKED tn_status tn_train(const tn_graph *graph, const tn_train_options *options,
                                     tn_training *training, tn_error *error);
/* Makes the model with the parameters that tn_train would train. Parameters that the file stores in
 * another form (merged by an exporter or omitted, see above) become real parameters, and trained
 * tensors have no data in the graph, so that an engine asks for them (tn_engine_options.read). Use
 * it to rewrite a model before training, and for inference after training. Ids are those of the
 * model; tn_train finds the same parameters in both. Destroy it with tn_graph_destroy.
 * Errors and cost: as tn_train. */
TN_API TN_CHECKED tn_status tn_train_model(const tn_graph *graph, const tn_train_options *options,
                                           tn_graph **model, tn_error *error);

/* Provides the data of tensors, as in tn_engine_options. */
typedef struct tn_contents_of {
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
    const tn_graph *model; /* NULL, or the model given to tn_train: for a cut tensor, `read` then
                            * receives this model and the id in it, and provides the whole tensor */
} tn_contents_of;
/* Provides the initial data of a static tensor of the training graph, for tn_engine_options.read. A
 * shard is assembled from its parameters; `contents` is asked for each as if it were static (it is
 * flagged TN_TENSOR_UPDATED). From a cut tensor this rank's part is taken. For any other tensor
 * `contents` is called directly.
 * Errors: those of `contents`, E_NO_MEMORY. Memory: one parameter, if it is only partly in the
 * part. */
TN_API TN_CHECKED tn_status tn_training_read(const tn_training *training, tn_tensor_id tensor,
                                             const tn_contents_of *contents, void *bytes,
                                             uint64_t size, tn_error *error);

/* The axis of classes for scores of this shape: the last axis for rank 2 and 3, axis 1 for higher
 * ranks (images); if that axis has extent 1, the other one of the two. */
TN_API uint32_t tn_loss_axis(uint32_t rank, const int64_t *shape);

/* The part of a static tensor (parameter, statistic or state) that this graph has; NULL: the whole.
 * Valid as long as the training. Cost: O(log of the number of cut tensors). */
TN_API const tn_tensor_part *tn_training_part(const tn_training *training, tn_tensor_id tensor);
typedef struct tn_part_sums {
    uint64_t parameters, cut; /* bytes of the trained parameters; of the cut ones */
    uint32_t sums;            /* values that ranks sum in a step, forward and backward */
    uint64_t bytes;           /* of these */
    uint32_t ranks, rank;     /* number of ranks of the cut, and this rank; 0: not cut */
    const char *whole; /* why the largest whole parameter cannot be cut; NULL: every parameter
                        * worth cutting is cut. Valid as long as the training */
    uint64_t between;  /* bytes of activations between the cut operators that are cut too,
                        * counted whole */
} tn_part_sums;
TN_API tn_part_sums tn_training_parts(const tn_training *training);

TN_API void tn_training_release(tn_training *training); /* and its graph; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
