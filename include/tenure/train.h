/* train.h - a training step as a Graph: forward, backward and update, from an ordinary model.
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
 * One run of the new graph is one step on one (micro-)batch. Its inputs are those of the model, and
 * behind them `labels`, `learning_rate`, `step`, and `micro` where gradients are accumulated. Its
 * outputs are `loss`, `correct` with a loss of classes, the model's own outputs and the gradients
 * where the options ask for them. Parameters, running statistics and the state of the optimizer are
 * static memory that operators write into (TN_TENSOR_UPDATED); tn_engine_get_static and
 * tn_engine_set_static move them between runs, which is all that a checkpoint holds.
 *
 * For speed, the model may be exchanged for tn_graph_rewrite's of it for TN_REWRITE_TO_TRAIN (GELU
 * and layer normalisation are one operator, and so are their gradients), and the graph for
 * tn_graph_rewrite's of it for TN_REWRITE_TRAINED (convolutions on channels that lie last,
 * products that read and write transposed tensors where they lie, fused operators). Ids of the
 * graph stay.
 *
 * Tensors of the model keep their ids in the new graph, so whoever reads the contents
 * of the model's parameters reads those of the new graph with the same function.
 * Batch normalisation and dropout work as in training; where the scale of a batch normalisation is
 * frozen, it works as in inference. A last Softmax or LogSoftmax over the classes before a softmax
 * cross-entropy is left out, as the loss contains it.
 *
 * What a parameter is: a tensor of kind parameter and a floating type that an operator reads as a
 * variable, but for those that look like constants of a formula: one element in elementwise
 * arithmetic whose name is no path of identifiers ("block.0.gamma"), and values per channel in
 * arithmetic on the inputs before any parameter acted (mean and deviation of a preprocessing).
 * Besides, PyTorch's exporter merges parameters of equal contents into one and nodes "Identity_<n>"
 * of it: each of these is a parameter of its own again; any other Identity of a parameter is that
 * parameter, whose gradients are summed. And weights made by ConstantOfShape are parameters.
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

/* X(name, text, sentence). */
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

/* TN_LOSS_COUNT, TN_OPTIMIZER_COUNT: no such name. Text and sentence are static; NULL outside. */
TN_API tn_loss tn_loss_find(const char *text);
TN_API const char *tn_loss_name(tn_loss loss);
TN_API const char *tn_loss_summary(tn_loss loss);
TN_API tn_optimizer tn_optimizer_find(const char *text);
TN_API const char *tn_optimizer_name(tn_optimizer optimizer);
TN_API const char *tn_optimizer_summary(tn_optimizer optimizer);

typedef struct tn_train_options {
    size_t struct_size;
    tn_loss loss;
    uint32_t output; /* which of the model's outputs the loss is of */

    tn_optimizer optimizer;
    double momentum;     /* 0 = 0.9 */
    double beta1, beta2; /* of Adam; 0 = 0.9 and 0.999 */
    double epsilon;      /* of Adam; 0 = 1e-8 */
    double weight_decay; /* SGD, momentum, Adam: added to the gradient; AdamW: apart from it */
    bool nesterov;

    const char *const *freeze; /* [freeze_count] patterns with * and ?: parameters that stay */
    uint32_t freeze_count;
    const char *const *train; /* [train_count] patterns of parameters that are trained though they
                               * look like constants (below) */
    uint32_t train_count;
    uint32_t micro_batches;     /* gradients of so many runs are summed before an update; 0 = 1 */
    tn_dtype dtype;             /* of activations and gradients: UNDEFINED and FLOAT32 as in the
                                 * model; BFLOAT16, FLOAT16: mixed precision. Parameters, optimizer
                                 * state, statistics and the loss stay float32 */
    double loss_scale;          /* of the backward pass, taken out again by the update; 0 = 1 */
    bool dynamic_loss_scale;    /* it adapts: a step with a gradient that is not finite changes no
                                 * parameter and no moment, and halves it; it doubles after 2000
                                 * good steps in a row. It begins with loss_scale, 0 = 65536. Not
                                 * with fuse_update, as all gradients decide */
    double batch_norm_momentum; /* share of a batch in the running statistics; 0 = 0.1 */
    uint64_t seed;              /* of dropout */

    bool fuse_update;      /* a parameter is updated as soon as its gradient is there */
    bool dropout_bits;     /* dropout keeps its mask, a bit per element, instead of drawing it anew
                            * in the backward pass: the same numbers */
    bool keep_pool_inputs; /* the gradient of a maximum pool looks for the maxima again in what the
                            * pool read; else the pool keeps 4 or 8 bits an output, which of its
                            * window won, and nobody keeps what it read: the same numbers */
    bool keep_outputs;     /* the model's outputs stay outputs of the graph */
    bool output_gradients; /* gradients of parameters become outputs, whatever the optimizer */
    uint64_t bucket_bytes; /* gradients lie in buckets of about so many bytes, in the order in which
                            * they arrive, each one piece of memory that one message takes to other
                            * ranks (dist.h); a larger gradient has one for itself. 0: each for
                            * itself. No bit depends on it */

    /* The model is cut over so many ranks, of which this is one: its graph has a part of what can
     * be cut (tn_training_part), and says where ranks' values become one, which
     * tn_program_join (dist.h) does. All ranks have the same samples. 0 and 1: it is whole */
    uint32_t tensor_ranks, tensor_rank;

    /* NONE; or the step is that of one rank of several (dist.h), and each of `shard_count` keeps
     * one part of every bucket, this one `shard_index`; of a model that is cut, those with the same
     * part of it. Not with a loss scale that adapts, nor gradients as outputs. Count 0 and 1: there
     * is no other */
    tn_shard shard;
    uint32_t shard_count, shard_index;

    /* With tensor_ranks: what lies between the parts (normalisations, dropout, residuals) is cut,
     * too, along samples or, of one sample, its sequence, and kept in parts for the backward pass.
     * E_INVALID where there is nothing of that sort */
    bool sequence_parallel;

    /* 0; or one run of the graph is a whole step: it has all `micro_batches`, each with inputs,
     * labels, loss and answers of its own (tn_training.stages), and says which of so many parts of
     * the model, one behind the other and of about as much work each, every tensor belongs to, for
     * ranks of a pipeline (tn_program_pipeline, dist.h). 1: on one rank. At most
     * TN_STAGE_PARTS_MAX. Not with 16 bits, a loss scale that adapts, control flow that a
     * run decides */
    uint32_t pipeline_parts;

    /* The last product of the model and its loss in about so many parts of the samples (of a text:
     * of its words), each of which goes back before the next one begins, so that scores and their
     * gradient are there for one part at a time. Losses and gradients are the same but for the
     * order of sums. At most 4096; 0 and 1: whole. E_UNSUPPORTED with an output that is the loss,
     * ranks that share a model, and scores that no product makes along such an axis */
    uint32_t loss_parts;
} tn_train_options;
#define TN_SHARDS_MAX 65536u
#define TN_TRAIN_OPTIONS_INIT                                                                      \
    TN_INIT(tn_train_options, TN_SET(struct_size, sizeof(tn_train_options)))

typedef struct tn_trained { /* a parameter that is trained */
    tn_tensor_id parameter;
    tn_tensor_id gradient; /* as its update reads it, times loss_scale / micro_batches; of 16 bits
                            * where its operator worked so. TN_NONE: the loss does not depend on
                            * the parameter, so nothing updates it */
    tn_tensor_id state[2]; /* velocity; or first and second moment. TN_NONE: the optimizer has
                            * none. Static, kind optimizer_state, zero at first */
    tn_tensor_id sum;      /* static sum over micro-batches; TN_NONE: gradients are not summed */
    uint32_t shard;        /* index into `sharded`, where its state is, and it; its gradient is then
                            * the rank's own, as it goes into a bucket. TN_NONE: in none */
    uint64_t at;           /* bytes from the start of the whole shard */
} tn_trained;

/* Parameters that lie one behind the other, and what a rank keeps of them. Flat tensors. */
typedef struct tn_sharded {
    uint64_t bytes, part_bytes; /* of the whole, zeros between and behind them counted; of a part */
    uint64_t from;              /* where this rank's part begins */
    tn_tensor_id parameters;    /* static: the whole; with TN_SHARD_PARAMETERS the part */
    tn_tensor_id whole;         /* that the model's parameters are views of; or `parameters` */
    tn_tensor_id gradient;      /* the part that this rank updates by */
    tn_tensor_id state[2], sum; /* as in tn_trained, of the part */
} tn_sharded;

typedef struct tn_training {
    tn_graph *graph; /* inferred; made with the model's context */
    /* Inputs; TN_NONE where there is none of that sort. */
    tn_tensor_id labels;        /* int64 class numbers, in the shape of the scores without their
                                 * class axis; or what the output shall be, of its shape and type */
    tn_tensor_id learning_rate; /* float32 scalar */
    tn_tensor_id step;          /* int64 scalar: updates before this one, from 0 */
    tn_tensor_id micro;         /* int64 scalar: 0 to micro_batches - 1; the last one updates */
    /* Static, kind optimizer_state, zero at first; TN_NONE: the loss scale is constant. */
    tn_tensor_id loss_scale; /* int64 [3]: exponent of 2 over the first scale, good steps in a row,
                              * steps that were skipped */
    /* Outputs. */
    tn_tensor_id loss;    /* float32 scalar, mean over the (micro-)batch, without loss_scale */
    tn_tensor_id correct; /* int64 scalar: how many labels have the highest score (cross-entropy) */
    uint32_t parameter_count, statistic_count;
    tn_trained *parameters;   /* [parameter_count], by id */
    tn_tensor_id *statistics; /* [statistic_count] running means and variances, by id */
    struct tn_parts *parts;   /* NULL: all is whole */
    uint32_t sharded_count;
    tn_sharded *sharded; /* [sharded_count] in the order in which their gradients arrive */
    /* NULL; or the graph has all micro-batches: inputs and outputs above are those of the first,
     * and all of the others', one after the other, stand behind them */
    const tn_stages *stages;
} tn_training;

/* Makes the graph of a training step.
 *
 * graph     the model, inferred, with known shapes; all parameters of floating types whose names no
 *           pattern matches are trained
 * options   NULL: defaults
 *
 * The axis of classes is that of tn_loss_axis.
 * Errors: E_INVALID (a pattern without a parameter, no parameter to train, an output that does not
 * fit the loss, numbers out of range, a model of which nothing can be cut, more parts of a pipeline
 * than operators), E_UNSUPPORTED (an operator between a parameter and the loss that has no
 * gradient, with its node), E_NO_MEMORY. Cost: O(tensors + operators). */
TN_API TN_CHECKED tn_status tn_train(const tn_graph *graph, const tn_train_options *options,
                                     tn_training *training, tn_error *error);
/* The model with the parameters that training gives it: those that a file has as something else
 * (merged by an exporter, left out: see above) are parameters here, and nothing is known of the
 * contents of what is trained, so that whoever runs it asks for them (tn_engine_options.read). For
 * rewriting before it is trained, and for inference after. Ids are those of the model; tn_train of
 * either gives the same parameters. Destroy with tn_graph_destroy.
 * Errors and cost: as tn_train. */
TN_API TN_CHECKED tn_status tn_train_model(const tn_graph *graph, const tn_train_options *options,
                                           tn_graph **model, tn_error *error);

/* Who reads contents, as in tn_engine_options. */
typedef struct tn_contents_of {
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
    const tn_graph *model; /* NULL, or what was trained (tn_train): of tensors that ranks have cut
                            * it is asked for the whole, as this model has it */
} tn_contents_of;
/* For tn_engine_options.read: what a static tensor of the training graph begins with. A shard's are
 * put together of its parameters', each of which `contents` is asked for as if it were static (it
 * is flagged TN_TENSOR_UPDATED); of a cut tensor this rank's part is taken; any other tensor is
 * `contents`' own business.
 * Errors: those of `contents`, E_NO_MEMORY. Memory: a parameter that is not all in the part. */
TN_API TN_CHECKED tn_status tn_training_read(const tn_training *training, tn_tensor_id tensor,
                                             const tn_contents_of *contents, void *bytes,
                                             uint64_t size, tn_error *error);

/* The axis of classes in scores of this shape: the last one of rank 2 and 3, axis 1 of higher rank
 * (images), and the other one of the two where that has extent 1. */
TN_API uint32_t tn_loss_axis(uint32_t rank, const int64_t *shape);

/* Which part of a static tensor, a parameter, a statistic or state, this graph has; NULL: all of
 * it. Lives as long as the training. Cost: O(log of those that are cut). */
TN_API const tn_tensor_part *tn_training_part(const tn_training *training, tn_tensor_id tensor);
typedef struct tn_part_sums {
    uint64_t parameters, cut; /* bytes of the parameters that are trained; of those that are cut */
    uint32_t sums;            /* that ranks make one in a step, forward and backward */
    uint64_t bytes;           /* of these */
    uint32_t ranks, rank;     /* over how many it is cut, and which one this is; 0: it is whole */
    const char *whole;        /* why the largest that stays whole cannot be cut; NULL: nothing that
                               * could be spared is. Lives as long as the training */
    uint64_t between;         /* bytes of activations between the parts that are cut, too, whole */
} tn_part_sums;
TN_API tn_part_sums tn_training_parts(const tn_training *training);

TN_API void tn_training_release(tn_training *training); /* with its graph; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
