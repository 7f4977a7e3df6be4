/* train.h - trains a model: data sets, the graph of a step, checkpoints, the training loop.
 */
#ifndef TENURE_TRAIN_H
#define TENURE_TRAIN_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/train.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/dist.h>
#include <tenure/engine.h>
#include <tenure/estimate.h>
#include <tenure/graph.h>
#include <tenure/online.h>
#include <tenure/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- data ------------------------------------------------------------------------------------ */

/* Data sets, and the division of their samples into batches for training.
 *
 *     uint8_t pixels[6][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}};
 *     uint8_t sorts[6] = {0, 1, 2, 0, 1, 2};
 *     tn_samples clothes = {
 *         .samples = {.dtype = TN_UINT8, .rank = 2, .shape = {6, 2}, .bytes = 12, .data = pixels},
 *         .labels = {.dtype = TN_UINT8, .rank = 1, .shape = {6}, .bytes = 6, .data = sorts}};
 *     float x[2][2]; // a batch of the model: two samples and their labels
 *     int64_t y[2], pairs[] = {2, 2};
 *     tn_tensor takes = {.name = "x", .dtype = TN_FLOAT32, .rank = 2, .shape = pairs, .bytes = 16};
 *     tn_tensor sort = {.name = "y", .dtype = TN_INT64, .rank = 1, .shape = pairs, .bytes = 16};
 *     tn_array samples = {.dtype = TN_FLOAT32, .rank = 2, .shape = {2, 2}, .bytes = 16, .data = x};
 *     tn_array labels = {.dtype = TN_INT64, .rank = 1, .shape = {2}, .bytes = 16, .data = y};
 *     tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
 *     tn_data *data;
 *     tn_batches *batches;
 *     tn_error error;
 *     options.classes = 3;
 *     if (tn_data_create(&clothes, NULL, NULL, &data, &error) ||
 *         tn_batches_create(data, &takes, &sort, &options, &batches, &error))
 *         return fprintf(stderr, "%s\n", error.message), 2;
 *     for (uint64_t run = 0; run < tn_batches_per_epoch(batches); run++) {
 *         tn_batches_fill(batches, run, &samples, &labels); // bytes become reals from 0 to 1
 *         printf("%lld %lld\n", (long long)y[0], (long long)y[1]);
 *     }
 *     tn_batches_destroy(batches);
 *     tn_data_destroy(data);
 *
 * A model with several inputs, and a loss without labels, gets arrays by the names of its inputs:
 *
 *     float left[6][2] = {{0}}, right[6][2] = {{1}};
 *     tn_array half = {.dtype = TN_FLOAT32, .rank = 2, .shape = {6, 2}, .bytes = 48, .data = left};
 *     tn_named_array both[] = {{"left", half}, {"right", half}};
 *     tn_samples pairs = {.inputs = both, .input_count = 2};
 *     tn_data *data;
 *     tn_error error;
 *     both[1].array.data = right;
 *     if (tn_data_create(&pairs, NULL, NULL, &data, &error))
 *         return fprintf(stderr, "%s\n", error.message), 2;
 *     printf("%llu pairs\n", (unsigned long long)tn_data_count(data));
 *     tn_data_destroy(data);
 *
 * A batch depends only on the data, the seed and its number, so a resumed run sees the same
 * batches. All data is checked before the first batch is filled: shapes, types, every label, and
 * numbers that are not finite.
 *
 * Units: samples, batches.
 * Threads: any number of threads may read data; one thread at a time uses batches.
 */

/* --- data sets --- */

typedef struct tn_data tn_data;

/* Loads a data set by name:
 *
 * fashion-mnist[:DIR]  the four idx files of Debian's dataset-fashion-mnist, or files with these
 *                      names in DIR, compressed by gzip or not; ten thousand samples are held out
 * X.npy,Y.npy          samples and labels, by their first extent; a second pair after a colon is
 *                      held out. For a model of several inputs whose loss takes no labels: its
 *                      inputs in their order
 * NAME=FILE,...        a file for each input of the model by its name, and for "labels" if the loss
 *                      takes labels; a second list after a colon is held out. The first extent of
 *                      all files is the number of samples. Files that end with .idx, -ubyte or .gz
 *                      have idx format, others are .npy
 * text:FILE            bytes, to predict the next one; the last tenth is held out
 *
 * context  NULL, or must outlive the data
 * data     out; destroy it with tn_data_destroy
 * Errors: E_IO, E_INVALID (not a data set; damaged; different numbers of labels and samples),
 * E_UNSUPPORTED (compressed files in a build without zlib), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_data_load(const char *what, const tn_context *context,
                                         tn_data **data, tn_error *error);
typedef struct tn_named_array {
    const char *name; /* of an input of the model, or "labels" for those of the loss */
    tn_array array;
} tn_named_array;
typedef struct tn_samples {
    /* samples and their labels; the first extent of both is the number of samples */
    tn_array samples, labels;
    /* [input_count] instead of `samples` and `labels`: arrays with names, for models of several
     * inputs and losses without labels. Their order has no meaning */
    const tn_named_array *inputs;
    uint32_t input_count;
} tn_samples;

/* Creates a data set from arrays, which are not copied and must outlive the data.
 *
 * train, test  samples to train on, and held-out samples; test NULL: nothing is held out
 * data         out; destroy it with tn_data_destroy
 * Errors: E_INVALID (no samples, arrays of different lengths, two of one name, bytes that do not
 * match the shape), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_data_create(const tn_samples *train, const tn_samples *test,
                                           const tn_context *context, tn_data **data,
                                           tn_error *error);
/* Destroys data; NULL has no effect. Its batches must be destroyed first. */
TN_API void tn_data_destroy(tn_data *data);

/* Returns the number of training samples; for text, of bytes. */
TN_API uint64_t tn_data_count(const tn_data *data);
/* Returns the number of held-out samples; 0: nothing is held out. */
TN_API uint64_t tn_data_test_count(const tn_data *data);
TN_API bool tn_data_is_text(const tn_data *data);
/* Returns the training samples or the held-out samples, for callers that make their own batches;
 * they live as long as the data. For text the samples are all bytes, and there are no labels. */
TN_API tn_samples tn_data_samples(const tn_data *data, bool held_out);

/* --- batches -----------------------------------------------------------------------------------
 */

typedef struct tn_batches tn_batches;

typedef struct tn_batches_options {
    size_t struct_size;
    /* services of the caller; NULL: defaults; must outlive the batches */
    const tn_context *context;
    /* number of inputs of the model that a batch fills; 0: 1 */
    uint32_t input_count;
    /* number of classes: labels must be less than it; 0: labels are not class numbers */
    int64_t classes;
    uint64_t seed; /* seed of the order of samples */
    /* Each batch is section number `part` of a batch with `parts` times as many samples, so that
     * data-parallel ranks together see the batches of a single rank. parts 0: each batch is a whole
     * one. */
    uint32_t part, parts;
} tn_batches_options;
#define TN_BATCHES_OPTIONS_INIT                                                                    \
    TN_INIT(tn_batches_options, TN_SET(struct_size, sizeof(tn_batches_options)))

/* Makes batches for inputs and labels with the given types and shapes; the first extent is the
 * batch. Arrays with names are for the inputs of these names. A sample has the shape that the model
 * accepts, except for extents of 1, or the model accepts vectors. Bytes become reals from 0 to 1 if
 * the model needs reals; float64 becomes float32, and integers become wider integers.
 *
 * data     must outlive the batches
 * inputs   [options->input_count] as in the graph of tn_train (tn_training_inputs); not needed
 *          after the call
 * labels   the same; NULL: the loss takes no labels
 * options  NULL: defaults
 * batches  out; destroy them with tn_batches_destroy
 * Errors: E_INVALID (an array for an input that does not exist, an input without an array, data
 * that the model does not accept, with the file and, if possible, the
 * sample; fewer samples than a batch has), E_NO_MEMORY. Cost: one pass over all data. */
TN_API TN_CHECKED tn_status tn_batches_create(const tn_data *data, const tn_tensor *inputs,
                                              const tn_tensor *labels,
                                              const tn_batches_options *options,
                                              tn_batches **batches, tn_error *error);
TN_API void tn_batches_destroy(tn_batches *batches); /* Destroys batches; NULL has no effect. */

/* Returns the number of batches in which every sample is seen once; samples that do not fill the
 * last batch are left out. For text, the number of batches with as many bytes as the text. */
TN_API uint64_t tn_batches_per_epoch(const tn_batches *batches);
/* Returns the number of labels per sample: 1; 0 without labels; for text the length of a window;
 * for images with one label per pixel the number of pixels. */
TN_API uint64_t tn_batches_labels(const tn_batches *batches);

/* Fills batch `number`, counted from the beginning of training. The order differs in each epoch;
 * for text, windows begin anywhere. The arrays have the types and shapes of tn_batches_create.
 *
 * samples  an array for each input, in the order of `inputs`
 * labels   NULL if the batches have no labels */
TN_API void tn_batches_fill(tn_batches *batches, uint64_t number, tn_array *samples,
                            tn_array *labels);

/* Returns the number of batches of held-out samples, in their order; for text, of adjacent
 * windows. */
TN_API uint64_t tn_batches_test_count(const tn_batches *batches);
/* Fills batch `number` of the held-out samples and returns its number of real samples, because the
 * last batch is padded. */
TN_API uint32_t tn_batches_fill_test(tn_batches *batches, uint64_t number, tn_array *samples,
                                     tn_array *labels);

/* --- train ----------------------------------------------------------------------------------- */

/* Makes a training step (forward, backward and update) of an ordinary model, as a graph.
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
 *     tn_train_options options = TN_TRAIN_OPTIONS_INIT; // cross-entropy, adam
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
 * tn_engine_set_static copy them between runs; a checkpoint contains nothing else.
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

/* Find a loss or an optimizer, and return its name or summary. Find returns TN_LOSS_COUNT or
 * TN_OPTIMIZER_COUNT for an unknown text. Names and summaries are static; NULL for a value out of
 * range. */
TN_API tn_loss tn_loss_find(const char *text);
TN_API const char *tn_loss_name(tn_loss loss);
TN_API const char *tn_loss_summary(tn_loss loss);
TN_API tn_optimizer tn_optimizer_find(const char *text);
TN_API const char *tn_optimizer_name(tn_optimizer optimizer);
TN_API const char *tn_optimizer_summary(tn_optimizer optimizer);

typedef struct tn_train_options {
    size_t struct_size;
    tn_loss loss;
    uint32_t output; /* index of the model's output from which the loss is computed */

    tn_optimizer optimizer; /* INIT and NULL: ADAM, as the command and Python */
    double momentum;        /* momentum; 0: 0.9 */
    double beta1, beta2;    /* decay rates of Adam; 0: 0.9 and 0.999 */
    double epsilon;         /* epsilon of Adam; 0: 1e-8 */
    /* weight decay; SGD, momentum and Adam add it to the gradient; AdamW applies it separately */
    double weight_decay;
    bool nesterov;

    /* [freeze_count] patterns with * and ? of parameters that are not trained */
    const char *const *freeze;
    uint32_t freeze_count;
    /* [train_count] patterns of parameters that are trained although they look like constants (see
     * the start of this section) */
    const char *const *train;
    uint32_t train_count;
    uint32_t micro_batches; /* number of runs with gradients that are summed for one update; 0: 1 */
    /* element type of activations and gradients. UNDEFINED and FLOAT32: as in the model. BFLOAT16,
     * FLOAT16: mixed precision; parameters, optimizer state, statistics and the loss stay
     * float32 */
    tn_dtype dtype;
    double loss_scale; /* factor of the backward pass, by which the update divides; 0: 1 */
    /* true: the loss scale adapts. If a gradient is not finite, the step is skipped (parameters and
     * moments stay) and the scale is halved; after 2000 good steps in a row it is doubled. The
     * scale starts at loss_scale, or at 65536 if that is 0. Not with fuse_update, because the scale
     * depends on all gradients */
    bool dynamic_loss_scale;
    double batch_norm_momentum; /* weight of a batch in the running statistics; 0: 0.1 */
    uint64_t seed;              /* seed of dropout */

    bool fuse_update; /* true: each parameter is updated as soon as its gradient is complete */
    /* true: dropout stores its mask (one bit per element) instead of drawing it again in the
     * backward pass; the results are the same */
    bool dropout_bits;
    /* true: the gradient of a max pool searches the maxima again in the pool's input. false: the
     * pool stores the position of each maximum in 4 or 8 bits per output, and its input can be
     * released. The results are the same */
    bool keep_pool_inputs;
    bool keep_outputs; /* true: the model's outputs stay outputs of the graph */
    /* true: gradients of parameters become outputs of the graph, for every optimizer */
    bool output_gradients;
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
     * share. Not with dynamic_loss_scale or output_gradients. `shard` TN_SHARD_NONE, or
     * `shard_count` 0 or 1: not sharded */
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
    TN_INIT(tn_train_options,                                                                      \
            TN_SET(struct_size, sizeof(tn_train_options)) TN_SET(optimizer, TN_OPTIMIZER_ADAM))

typedef struct tn_trained { /* A parameter that is trained. */
    tn_tensor_id parameter;
    /* gradient as the update reads it, times loss_scale / micro_batches; 16-bit if its operator
     * computed so. TN_NONE: the loss does not depend on the parameter, and it is never updated */
    tn_tensor_id gradient;
    /* velocity, or first and second moment; TN_NONE: the optimizer has no such state. Static, kind
     * optimizer_state, initially zero */
    tn_tensor_id state[2];
    /* static sum of gradients over micro-batches; TN_NONE: gradients are not accumulated */
    tn_tensor_id sum;
    /* index into `sharded` of the shard with the parameter and its state; `gradient` is then this
     * rank's own before it enters the bucket. TN_NONE: the parameter is not sharded */
    uint32_t shard;
    uint64_t at; /* offset of the parameter in bytes from the start of the whole shard */
} tn_trained;

/* A shard: consecutive parameters as one flat tensor, and the part of it that this rank keeps. */
typedef struct tn_sharded {
    /* bytes of the whole shard, with padding of zeros, and of a rank's part */
    uint64_t bytes, part_bytes;
    uint64_t from; /* offset of this rank's part in bytes */
    /* static tensor of the whole shard; with TN_SHARD_PARAMETERS only of the part */
    tn_tensor_id parameters;
    /* the tensor of which the model's parameters are views; it may be equal to `parameters` */
    tn_tensor_id whole;
    tn_tensor_id gradient; /* the section of the gradient that updates this rank's part */
    /* state of the optimizer and sum of gradients, like those of tn_trained, for this rank's
     * part */
    tn_tensor_id state[2], sum;
} tn_sharded;

typedef struct tn_training {
    tn_graph *graph; /* graph of the training step, inferred; made with the model's context */
    /* input: int64 class numbers, in the shape of the scores without the class axis; or target
     * values, with shape and type of the output. TN_NONE: the graph does not have this input */
    tn_tensor_id labels;
    /* input: float32 scalar, the learning rate; TN_NONE: the graph does not have this input */
    tn_tensor_id learning_rate;
    /* input: int64 scalar, number of updates before this one, from 0; TN_NONE: the graph does not
     * have this input */
    tn_tensor_id step;
    /* input: int64 scalar, 0 to micro_batches - 1, the last of which updates; TN_NONE: the graph
     * does not have this input */
    tn_tensor_id micro;
    /* int64 [3]: log2 of the scale over its initial value, good steps in a row, steps skipped.
     * Static, kind optimizer_state, initially zero; TN_NONE: the loss scale is constant */
    tn_tensor_id loss_scale;
    /* output: float32 scalar, mean loss over the (micro-)batch, without loss_scale */
    tn_tensor_id loss;
    /* output: int64 scalar, number of labels with the highest score (cross-entropy) */
    tn_tensor_id correct;
    uint32_t parameter_count, statistic_count;
    tn_trained *parameters;   /* [parameter_count] the parameters, by id */
    tn_tensor_id *statistics; /* [statistic_count] running means and variances, by id */
    /* parts of tensors in a model that is cut; NULL: the model is not cut */
    struct tn_parts *parts;
    uint32_t sharded_count;
    /* [sharded_count] the shards, in the order in which their gradients are completed */
    tn_sharded *sharded;
    /* NULL, or the graph has all micro-batches: the inputs and outputs named in the other members
     * are those of the first micro-batch, followed by those of the others in order */
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

/* A provider of the data of tensors, in the form of tn_engine_options. */
typedef struct tn_contents_of {
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
    /* the model given to tn_train, or NULL. For a cut tensor, `read` then receives the model and
     * the id in it, and provides the whole tensor */
    const tn_graph *model;
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

/* Lists the inputs of the model that a batch of data fills for micro-batch `round`, in the order of
 * the model and without the labels, and returns their number. Inputs with contents that stay are
 * left out.
 *
 * round  0, or below training->stages->rounds
 * ids    out, with room for all inputs of the model; NULL: only count */
TN_API uint32_t tn_training_inputs(const tn_training *training, uint32_t round, tn_tensor_id *ids);

/* Returns the axis of classes for scores of a shape: the last axis for rank 2 and 3, axis 1 for
 * higher ranks (images); if that axis has extent 1, the other one of the two. */
TN_API uint32_t tn_loss_axis(uint32_t rank, const int64_t *shape);

/* Returns the part of a static tensor (parameter, statistic or state) that the graph of the
 * training has; NULL: the whole tensor. Valid as long as the training. Cost: O(log of the number of
 * cut tensors). */
TN_API const tn_tensor_part *tn_training_part(const tn_training *training, tn_tensor_id tensor);
typedef struct tn_part_sums {
    /* bytes of the trained parameters, and bytes of those of them that are cut */
    uint64_t parameters, cut;
    /* number of tensors that ranks combine in a step by sums, maximums or gathering, forward and
     * backward */
    uint32_t sums;
    uint64_t bytes; /* bytes of the tensors that ranks combine in a step */
    /* number of ranks over which the model is cut, and number of this rank; 0: the model is not
     * cut */
    uint32_t ranks, rank;
    /* a sentence why the largest whole parameter cannot be cut; NULL: every parameter worth cutting
     * is cut. Valid as long as the training */
    const char *whole;
    /* bytes of activations between the cut operators that are cut, too, counted whole */
    uint64_t between;
} tn_part_sums;
TN_API tn_part_sums tn_training_parts(const tn_training *training);

/* Releases a training and its graph; NULL has no effect. */
TN_API void tn_training_release(tn_training *training);

/* --- checkpoint ------------------------------------------------------------------------------ */

/* Reads the checkpoint of a training run: parameters, optimizer state, and progress.
 *
 *     // ... run.ck: of tn_trainer_run (train.h); graph: of tn_graph_load
 *     if (tn_checkpoint_open("run.ck", NULL, &checkpoint, &error) ||
 *         tn_checkpoint_model(checkpoint, graph, &model, &error))
 *         return 2;
 *     const tn_kept *kept = tn_checkpoint_find(checkpoint, "conv1.weight");
 *     if (kept != NULL) memcpy(numbers, kept->bytes, kept->size);
 *
 * A file is either the old checkpoint or the complete new one, even if its writer is killed. A hash
 * detects damage. The format:
 *
 *     "TENURECK" | version u32 | count u32 | first 56 bytes of tn_checkpoint_run |
 *     hash of all else u64 | rest of tn_checkpoint_run (version 4; absent in version 3)
 *     for each tensor: length of its name u32, name, 0 u8, role u32, element type u32, rank u32,
 *                      extents i64[rank], bytes u64, data
 *
 * Ranks that shard the state (tn_train_options.shard) write one shard file each, and a main file
 * with their names, which is opened like any other checkpoint. The shard files must be next to the
 * main file, and they are removed when the run writes its next checkpoint. To keep such a
 * checkpoint, stop the run and copy all files, or resume it on one rank, which writes a single
 * file. The formats of main file and shard file:
 *
 *     "TENURESS" | version u32 ... rest of tn_checkpoint_run, as above
 *     for each shard: length of its name u32, name ("run.ck.7.0-of-2"), 0 u8, its bytes u64, its
 *                     hash u64
 *
 *     "TENURESH" | version u32 ... rest of tn_checkpoint_run, as above
 *     for each section: number of the tensor u32; its name ... bytes, as above; start of the
 *                       section in the tensor's data u64, bytes u64, data
 *
 * Numbers are little endian, as on the machine.
 * Units: bytes.
 * Threads: any number of threads may read an open checkpoint.
 */

/* The settings that decide the results of a training run. All of them except `step` must have equal
 * values when the run is resumed. The number of steps and the course of the learning rate are not
 * among them: a run may go on for longer, or at another rate. */
typedef struct tn_checkpoint_run {
    uint64_t step;  /* number of updates that were done */
    uint64_t seed;  /* seed of the order of samples */
    uint64_t batch; /* number of samples per run */
    uint64_t micro_batches;
    uint64_t samples; /* number of training samples; 0: they do not come from a data set */
    uint32_t optimizer, dtype, loss; /* numbers of tn_optimizer, tn_dtype and tn_loss */
    uint32_t output; /* index of the model's output from which the loss is computed */

    /* The settings below are unknown, and 0, in files of version 3, which lack them. */
    uint64_t dropout_seed; /* tn_train_options.seed; `seed` if that is 0 */
    /* 0 if the optimizer has no such number */
    double momentum, beta1, beta2, epsilon;
    double weight_decay;
    double loss_scale; /* factor of the loss in the backward pass; 0: it adapts */
    double batch_norm_momentum;
    double prune_share; /* tn_prune_schedule, with its defaults replaced; 0: nothing is pruned */
    uint64_t prune_begin, prune_end, prune_every;
    uint64_t nesterov; /* 0 or 1 */
} tn_checkpoint_run;

typedef enum tn_role {
    TN_ROLE_PARAMETER, /* a trained parameter */
    TN_ROLE_STATISTIC, /* running mean or variance of a normalisation */
    TN_ROLE_STATE      /* state of the optimizer, or other state between steps */
} tn_role;

typedef struct tn_kept { /* A tensor in a checkpoint. */
    const char *name;
    tn_role role;
    tn_dtype dtype;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX]; /* the extents, outermost first */
    uint64_t size;              /* bytes of the data in `bytes` */
    const uint8_t *bytes;       /* data in C order, little endian; not aligned */
} tn_kept;

typedef struct tn_checkpoint tn_checkpoint;

/* Opens (maps) a file and verifies all of it. Pointers that a checkpoint returns are valid until it
 * is closed.
 *
 * context     NULL, or must outlive the checkpoint
 * checkpoint  out; close it with tn_checkpoint_close
 * Errors: E_IO, E_INVALID (damaged, truncated, another version, not a regular file), E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_checkpoint_open(const char *path, const tn_context *context,
                                               tn_checkpoint **checkpoint, tn_error *error);
/* Reads a checkpoint from memory, which is not copied and must outlive it; otherwise like
 * tn_checkpoint_open. E_INVALID also for the main file of several ranks, because its shards are
 * found by path. `name` is used in messages and copied. */
TN_API TN_CHECKED tn_status tn_checkpoint_read(const char *name, const void *bytes, size_t size,
                                               const tn_context *context,
                                               tn_checkpoint **checkpoint, tn_error *error);
/* Closes a checkpoint; NULL has no effect. */
TN_API void tn_checkpoint_close(tn_checkpoint *checkpoint);

/* Return the settings and the tensors of a checkpoint; NULL for an index out of range. */
TN_API const tn_checkpoint_run *tn_checkpoint_of_run(const tn_checkpoint *checkpoint);
TN_API uint32_t tn_checkpoint_count(const tn_checkpoint *checkpoint);
TN_API const tn_kept *tn_checkpoint_tensor(const tn_checkpoint *checkpoint, uint32_t index);
/* Returns the parameter or statistic with a name; NULL: not found. */
TN_API const tn_kept *tn_checkpoint_find(const tn_checkpoint *checkpoint, const char *name);

/* Makes the model with the trained parameters, as tn_train_model does. Every trained tensor is a
 * parameter there, even if the file has another kind; the caller provides its data when the model
 * is run.
 *
 * graph  the model as it was loaded
 * model  out; destroy it with tn_graph_destroy
 * Errors: E_INVALID (a checkpoint of another model: a parameter or statistic is missing there or
 * has another shape), those of tn_train_model. */
TN_API TN_CHECKED tn_status tn_checkpoint_model(const tn_checkpoint *checkpoint,
                                                const tn_graph *graph, tn_graph **model,
                                                tn_error *error);

/* --- trainer --------------------------------------------------------------------------------- */

/* Trains a model: batches, learning rates, checkpoints, and a test.
 *
 *     // ... model: a tn_graph; session.read: the initial values of its parameters
 *     tn_trainer_options options = TN_TRAINER_OPTIONS_INIT;
 *     options.train = &train;            // loss, optimizer (train.h)
 *     options.session = &session;        // threads, planner, budget (run.h)
 *     options.data = data;               // of tn_data_load
 *     options.epochs = 2;
 *     options.checkpoint = "run.ck";     // every 100 steps, and when `step` stops the run
 *     options.go_on = true;              // resume from that file if it exists
 *     options.prune = &(tn_prune_schedule){.share = 0.9}; // nine of ten weights become zero
 *     if (tn_trainer_open(model, &options, &trainer, &error) ||
 *         tn_trainer_run(trainer, &error) || tn_trainer_test(trainer, &score, &error))
 *         return 2;
 *     printf("%.2f %% right\n", 100 * score.accuracy);
 *
 * examples/training/resume.c is the complete program. A program that is killed at any moment and
 * started again ends with the same bits as an uninterrupted run: a checkpoint contains all state
 * that persists between two steps, and everything else (the order of samples, the learning rate)
 * follows from the number of the step. The library handles no signals; `step` stops a run.
 *
 * Units: samples, steps (updates), seconds, bytes, nats.
 * Threads: one thread at a time uses a trainer; different trainers are independent.
 */

/* --- learning rates ----------------------------------------------------------------------------
 */

/* Schedules of the learning rate: X(name, text, sentence). */
/* clang-format off */
#define TN_SCHEDULE_TABLE(X)                                                                   \
    X(CONSTANT, "constant", "the rate stays")                                                  \
    X(LINEAR, "linear", "it falls to 0 by the last step, by the same each time")               \
    X(COSINE, "cosine", "it falls to 0 by the last step, slowly at both ends")
/* clang-format on */
typedef enum tn_schedule {
#define TN_X(name, text, sentence) TN_SCHEDULE_##name,
    TN_SCHEDULE_TABLE(TN_X)
#undef TN_X
        TN_SCHEDULE_COUNT
} tn_schedule;

/* Find a schedule, and return its name or summary. Find returns TN_SCHEDULE_COUNT for an unknown
 * text. Names and summaries are static; NULL for a value out of range. */
TN_API tn_schedule tn_schedule_find(const char *text);
TN_API const char *tn_schedule_name(tn_schedule schedule);
TN_API const char *tn_schedule_summary(tn_schedule schedule);

typedef struct tn_rate {
    double rate;          /* the highest learning rate */
    tn_schedule schedule; /* how the rate falls after the warm-up */
    uint64_t warmup;      /* number of first steps, in which the rate rises */
    uint64_t total;       /* number of all steps */
} tn_rate;
/* Returns the learning rate of a step after `done` steps; it depends on the two arguments only.
 * Source of the cosine schedule: Loshchilov and Hutter, "SGDR" (2017), without restarts. */
TN_API double tn_rate_at(const tn_rate *rate, uint64_t done);

/* --- pruning -----------------------------------------------------------------------------------
 */

/* Gradual magnitude pruning: while a model is trained, more and more of its weights become zero,
 * the smallest magnitudes of each parameter first, and stay zero. After `done` updates, the share
 * of zeros is
 *
 *     share * (1 - (1 - (done - begin) / (end - begin))^3)
 *
 * and `share` from `end` on. Source: Zhu and Gupta, "To prune, or not to prune" (2017). */
typedef struct tn_prune_schedule {
    double share; /* fraction of the elements of each pruned parameter; in [0, 1); 0: no pruning */
    uint64_t begin;
    uint64_t end;   /* 0: after three quarters of all steps */
    uint64_t every; /* number of steps between two prunings; 0: a 32nd of the steps, at least 1 */
    /* [pattern_count] patterns with * and ? of the parameters to prune; 0: the float32 parameters
     * that have two extents or more */
    const char *const *patterns;
    uint32_t pattern_count;
} tn_prune_schedule;
/* Returns the share of zeros after `done` updates, for a schedule in which `end` is not 0. */
TN_API double tn_prune_share_at(const tn_prune_schedule *schedule, uint64_t done);

/* --- a run -------------------------------------------------------------------------------------
 */

typedef struct tn_trainer tn_trainer;

/* The state of a training run. Means are over about the last TN_TRAINER_SEEN steps of this
 * process. */
#define TN_TRAINER_SEEN 50u
typedef struct tn_trainer_state {
    uint64_t first, done, total; /* number of steps: when this process began, now, at the end */
    uint64_t batch;              /* number of samples of a micro-batch, on this rank */
    uint32_t parts; /* number of data-parallel ranks, each with such a batch; 1: only this rank */
    uint32_t micro_batches; /* number of micro-batches of a step */
    uint64_t labels;        /* number of labels of a sample; 0 if no labels are read */
    bool stopped;           /* whether `step` stopped the run, on this or on another rank */
    bool counts;            /* whether `correct` and `accuracy` are valid */
    double loss;            /* loss of the last step */
    int64_t correct;        /* number of labels of the last step that have the highest score */
    double mean_loss;
    double accuracy; /* mean share of correct labels */
    double seconds;  /* seconds in steps, including checkpoints */
    /* seconds within `seconds` in the engine, without the time of tn_trainer_options.twin */
    double engine_seconds;
    uint64_t saved;       /* number of checkpoints written */
    uint64_t saved_bytes; /* bytes of the last checkpoint */
    double save_seconds;  /* seconds for writing all checkpoints */
    /* number of elements of all parameters that are pruned, and of those that are zero for good */
    uint64_t prunable, pruned;
} tn_trainer_state;

typedef struct tn_trainer_options {
    size_t struct_size;
    /* services of the caller; NULL: defaults; must outlive the trainer */
    const tn_context *context;
    /* options of the training step; NULL: defaults. Read only during the call */
    const tn_train_options *train;
    /* options of the session, for tn_trainer_open; NULL: defaults. `read` is called until the
     * trainer is destroyed */
    const tn_session_options *session;

    /* The training data: either `data`, which must outlive the trainer, or a function that provides
     * batch `number` of the training samples or of the held-out samples. `samples` has an array for
     * each input of the model (tn_training_inputs); `labels` is NULL if the loss takes none. The
     * batch must depend only on the arguments of the function; otherwise a resumed run differs. */
    const tn_data *data;
    tn_status (*fill)(void *self, bool held_out, uint64_t number, tn_array *samples,
                      tn_array *labels, tn_error *error);
    uint64_t test_batches; /* number of held-out batches that `fill` provides */

    /* number of all steps, including those before a resumed run; 0: it follows from `epochs` */
    uint64_t steps;
    uint64_t epochs;      /* number of passes over all samples of `data`; 0: 1 */
    double rate;          /* the highest learning rate; 0: 1e-3; below 0: rate 0 */
    tn_schedule schedule; /* schedule of the learning rate */
    uint64_t warmup;      /* number of steps in which the rate rises */
    /* NULL, or prunes parameters while they are trained; read only during the call. Checkpoints
     * contain the masks. Ranks may divide samples, but not parameters */
    const tn_prune_schedule *prune;
    /* seed of the order of samples; for tn_trainer_open also the default seed of `train` and
     * `session` */
    uint64_t seed;

    /* path of a checkpoint that is written regularly and at the end; NULL: no checkpoint */
    const char *checkpoint;
    uint64_t checkpoint_every; /* number of steps between two checkpoints; 0: 100 */
    /* path of a checkpoint from which the run continues; NULL: it starts anew */
    const char *resume;
    bool go_on; /* true: the run continues from `checkpoint` instead, if that file exists */

    /* Called after each step, before its checkpoint. If it returns false, the run stops with a
     * checkpoint. */
    bool (*step)(void *self, const tn_trainer_state *state);
    /* Called after each run of the engine, or NULL: after each micro-batch, or after each step if
     * the graph has all micro-batches (tn_training.stages). */
    tn_status (*ran)(void *self, tn_engine *engine, tn_error *error);
    void *self; /* passed to `fill`, `step` and `ran` */
    /* An engine of the graph of the training with another plan, or NULL; must outlive the trainer.
     * Both engines are trained, and their results must be equal bit by bit. */
    tn_engine *twin;
    /* NULL, or the transport to the ranks that train the same model on other samples, and their
     * group (dist.h). All ranks start from the state of the first member, which alone reads and
     * writes checkpoints. If seed, samples, steps or rates differ from the first member's, all
     * ranks end with E_CONFLICT. Losses and accuracy are those of all ranks. All ranks stop
     * together, one step after `step` stops one of them. The engine's program must average
     * gradients (tn_program_average). Ranks that keep shards (tn_train_options.shard) write
     * checkpoints together, each its part next to `checkpoint`, which is the same path on all
     * ranks. The first rank can read a checkpoint of any kind and number of ranks */
    const tn_exchange *exchange;
    uint32_t group;
    /* With `exchange`, for a model divided by tensor parallelism (tn_train_options.tensor_ranks):
     * the group of the ranks that have the parts of one copy of the model, in the order of the
     * parts. These ranks also start and stop together. Checkpoints and tests cover the whole model;
     * rank 0 of `exchange` writes and reads the checkpoints. */
    uint32_t tensor_group;
    /* With `exchange`, for a pipeline (tn_train_options.pipeline_parts): the group of the ranks
     * with the other stages, in their order. These ranks also start and stop together. One run of
     * the engine is then a step. Only for tn_trainer_create, because tn_program_pipeline needs the
     * result of tn_train. */
    uint32_t pipeline_group;
    /* For tn_trainer_create: the provider of the engine's parameters, so that ranks with parts of
     * them also start from those of the first rank; tn_trainer_open uses the provider of `session`.
     * NULL: each rank starts from its own parameters */
    tn_contents_of contents;
    /* For tn_trainer_create: NULL, or runs the steps instead of the engine, which is then
     * tn_online_engine(online). Must outlive the trainer; not with several ranks */
    tn_online *online;
} tn_trainer_options;
#define TN_TRAINER_OPTIONS_INIT                                                                    \
    TN_INIT(tn_trainer_options, TN_SET(struct_size, sizeof(tn_trainer_options)))

/* Creates a trainer on an engine of the graph of a step, made by the caller.
 *
 * model             the model given to tn_train; not used after the call
 * training, engine  must outlive the trainer
 * options           `train` as in the call that made `training`. Strings are copied
 *
 * Errors: E_INVALID (no steps, no samples, a learning rate that is not finite, data that do not fit
 * the model, no gradient for any parameter, two parameters of one name, a pruning with a share
 * outside of [0, 1), that begins after its end, or with a pattern that matches no parameter, a
 * checkpoint that is damaged or of another run), E_UNSUPPORTED (pruning of parameters that ranks
 * divide), E_CONFLICT (samples, steps or rates differ between ranks; on all ranks alike), E_IO,
 * E_NO_MEMORY. Logs a note to the context if some parameters are never updated, or a pruning ends
 * after the run. */
TN_API TN_CHECKED tn_status tn_trainer_create(const tn_graph *model, const tn_training *training,
                                              tn_engine *engine, const tn_trainer_options *options,
                                              tn_trainer **trainer, tn_error *error);
/* Creates a trainer from a model: finds its parameters (tn_train_model), makes the graph of a step,
 * and plans and opens it (tn_session_open). With session->fuse the model is rewritten first
 * (TN_REWRITE_TO_TRAIN).
 *
 * model  must outlive the trainer
 *
 * Errors: those of these calls and of tn_trainer_create. */
TN_API TN_CHECKED tn_status tn_trainer_open(const tn_graph *model,
                                            const tn_trainer_options *options, tn_trainer **trainer,
                                            tn_error *error);
TN_API void tn_trainer_destroy(tn_trainer *trainer); /* Destroys a trainer; NULL has no effect. */

/* Runs all remaining steps and writes checkpoints. A stop is not an error, and the call may be
 * repeated after one. Errors: E_INVALID (a loss or a parameter is not finite; the checkpoint file
 * is unchanged), E_CONFLICT (the twin differs), E_IO, those of tn_engine_run, `fill` and `ran`. */
TN_API TN_CHECKED tn_status tn_trainer_run(tn_trainer *trainer, tn_error *error);
/* Runs one step, without a checkpoint. Errors: those of tn_trainer_run; E_INVALID if no step is
 * left. */
TN_API TN_CHECKED tn_status tn_trainer_step(tn_trainer *trainer, tn_error *error);
/* Writes a checkpoint of the current state; the file is replaced atomically. Ranks that keep parts
 * (tn_train_options.shard, tensor_ranks) must all call it, with the same path in one folder. Of
 * other ranks only the first one writes.
 * Errors: E_INVALID (a parameter is not finite), E_UNSUPPORTED (a cut model without an exchange),
 * E_IO, E_NO_MEMORY, those of the exchange. */
TN_API TN_CHECKED tn_status tn_trainer_save(tn_trainer *trainer, const char *path, tn_error *error);
TN_API const tn_trainer_state *tn_trainer_at(const tn_trainer *trainer);

/* Return the components of a trainer; valid as long as the trainer. */
TN_API tn_engine *tn_trainer_engine(tn_trainer *trainer);
TN_API const tn_training *tn_trainer_training(const tn_trainer *trainer);
/* Reads a parameter or statistic as it is now, by its name. Returns false if no trained tensor has
 * this name and size, or if this rank has only a part of it (tn_trainer_gather). For
 * tn_engine_options.read of an inference engine. */
TN_API bool tn_trainer_read(tn_trainer *trainer, const char *name, void *bytes, uint64_t size);

/* Gathers all parameters on the first rank, in host memory, for tn_trainer_read and
 * tn_trainer_test; they stay until the next step begins. All ranks that have only parts of the
 * parameters (TN_SHARD_PARAMETERS, or a cut model) must call it; on others it does nothing.
 * Errors: E_UNSUPPORTED (a cut model without an exchange), E_NO_MEMORY, those of the exchange. */
TN_API TN_CHECKED tn_status tn_trainer_gather(tn_trainer *trainer, tn_error *error);

/* --- testing the model on held-out samples -----------------------------------------------------
 */

typedef struct tn_trainer_score {
    /* number of labels that were tested; with TN_LOSS_OUTPUT, of samples in whole batches; 0: no
     * such samples are held out, or the loss is another one */
    uint64_t labels;
    double loss;     /* mean loss; for a cross-entropy, in nats */
    bool counts;     /* whether `accuracy` is valid: the loss is a cross-entropy */
    double accuracy; /* share of labels that have the highest score */
} tn_trainer_score;

/* Whether a test is possible: held-out samples, and a cross-entropy of float32 scores or a loss
 * that the model computes. */
TN_API bool tn_trainer_tests(const tn_trainer *trainer);
/* Tests the current model, in inference mode, on all held-out samples. After tn_trainer_open: plans
 * the model for inference and releases that plan. Errors: those of tn_session_open and
 * tn_engine_run. */
TN_API TN_CHECKED tn_status tn_trainer_test(tn_trainer *trainer, tn_trainer_score *score,
                                            tn_error *error);
/* Tests the current model on all held-out samples, with an engine that read its parameters by
 * tn_trainer_read; `graph` is the engine's graph. */
TN_API TN_CHECKED tn_status tn_trainer_test_on(tn_trainer *trainer, const tn_graph *graph,
                                               tn_engine *engine, tn_trainer_score *score,
                                               tn_error *error);

/* --- the model's file --------------------------------------------------------------------------
 */

/* Writes the .onnx file of a model with trained parameters. Weights that the model quantises (a
 * QuantizeLinear of a parameter, as in quantisation-aware training) are stored as the integers that
 * the QuantizeLinear gives, and the DequantizeLinear after it stays.
 *
 *     // ... graph: of tn_graph_load("net.onnx"); read: asks tn_trainer_read for parameters, and
 *     // tn_contents_read for all other tensors
 *     tn_contents_of contents = {.read = read, .self = trainer};
 *     tn_written written;
 *     if (tn_model_write("net.onnx", graph, &contents, "trained.onnx", &written, &error)) return 2;
 *     printf("%u weights are integers now\n", written.quantised);
 */
typedef struct tn_written {
    uint32_t tensors;      /* number of parameters with other data than in the old file */
    uint32_t quantised;    /* number of weights that are stored as integers now */
    uint64_t real_bytes;   /* bytes of these weights as real numbers */
    uint64_t stored_bytes; /* and as integers, without scales and zero points */
    uint64_t file_bytes;   /* bytes of the new file */
} tn_written;
/* Writes the file. It is written next to `output` first and then renamed, so that the file is
 * complete or does not exist. Everything but parameters of floating types and quantised weights is
 * copied as it is; parameters whose data is unchanged too, so external data stays in its files if
 * the new file is in the same folder. All other parameters are stored in the file itself.
 *
 * path      the .onnx file from which `graph` was loaded
 * graph     as tn_graph_load, tn_train_model or tn_checkpoint_model made it, not rewritten
 * contents  provides the data of parameters and constants of `graph`; NULL: they are those of the
 *           file, and only quantised weights change
 * output    another file
 * written   out, or NULL
 * Errors: E_INVALID (output is the model itself; a damaged file), E_UNSUPPORTED (not an .onnx file;
 * more than 2 GiB), E_IO, E_NO_MEMORY, those of `contents` and of tn_session_run. */
TN_API TN_CHECKED tn_status tn_model_write(const char *path, const tn_graph *graph,
                                           const tn_contents_of *contents, const char *output,
                                           tn_written *written, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
