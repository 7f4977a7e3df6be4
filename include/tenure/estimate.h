/* estimate.h - predicts how much memory a program needs, and whether it fits, before anything runs.
 */
#ifndef TENURE_ESTIMATE_H
#define TENURE_ESTIMATE_H

#include <tenure/graph.h>
#include <tenure/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of experimental headers. Stable calls only pass pointers to them on. */
struct tn_occupancy;
struct tn_static_block;

/* --- transformer ----------------------------------------------------------------------------- */

/* The sizes and parts of a transformer. Estimates of training (tn_large in
 * tenure/estimate.h) and of running a model (tn_llm in tenure/llm.h) both contain this struct.
 *
 *     const tn_transformer gpt2 = {.hidden = 768, .layers = 12, .heads = 12, .vocabulary = 50257,
 *                                  .positions = 1024, .position_rows = 1024};
 *     printf("%llu layers\n", (unsigned long long)gpt2.layers);
 *
 * Zero is the default of each member: a part with the value false is the part of GPT-2.
 */

typedef struct tn_transformer {
    uint64_t hidden, layers, heads, vocabulary;
    uint64_t kv_heads;  /* number of KV heads; 0: that of heads */
    uint64_t head_size; /* elements of a query head; 0: hidden / heads */
    /* Width of the inner layer per token; 0: 4 hidden. With experts, it is the sum of the widths of
     * the chosen experts; if layers differ, the largest. */
    uint64_t inner;
    uint64_t positions; /* maximum number of tokens of the model; 0: not stated */
    /* number of learned position embeddings; 0: the model has no such embeddings */
    uint64_t position_rows;
    uint64_t types; /* number of token type embeddings (BERT) */
    bool gated;     /* true: the inner layer has three matrices (LLaMA) */
    bool rms_norm;  /* true: normalisation has no bias (LLaMA) */
    /* Products without a bias: those of query, key and value; the output product of attention;
     * those of the inner layer. LLaMA has no biases. */
    bool no_query_bias, no_output_bias, no_inner_bias;
    bool query_norm;     /* true: query and key are normalised per head (Qwen3) */
    bool embedding_norm; /* true: an additional normalisation follows the embeddings (BLOOM) */
    bool pooled;         /* true: an additional product follows the last layer (BERT) */
    bool no_dropout;     /* true: training stores no dropout masks */
    bool untied;         /* true: the output matrix is not tied to the embeddings */
    uint64_t spare[4];   /* reserved for later fields: 0 (status.h) */
} tn_transformer;

/* --- shard ----------------------------------------------------------------------------------- */

/* Names the state that data-parallel ranks divide instead of replicating it (ZeRO).
 *
 *     printf("%s\n", tn_shard_name(TN_SHARD_GRADIENTS)); // gradients
 */

/* X(NAME, text, sentence): each kind includes those before it. Source: Rajbhandari et al., "ZeRO"
 * (2020), stages 1 to 3. */
/* clang-format off */
#define TN_SHARD_TABLE(X)                                                                         \
    X(NONE, "none", "every rank keeps everything")                                                \
    X(OPTIMIZER, "optimizer", "a rank keeps the optimizer's state of its part of the parameters")  \
    X(GRADIENTS, "gradients", "and their gradients, once they are added up")                      \
    X(PARAMETERS, "parameters", "and the parameters, which come together where they are read")
/* clang-format on */
typedef enum tn_shard {
#define TN_X(name, text, sentence) TN_SHARD_##name,
    TN_SHARD_TABLE(TN_X)
#undef TN_X
        TN_SHARD_COUNT
} tn_shard;

/* Returns the name of a kind of sharding: "none", "optimizer", ...; a static string. NULL: the
 * value is out of range. */
TN_API const char *tn_shard_name(tn_shard shard);

/* --- estimate -------------------------------------------------------------------------------- */

/* Predicts how much memory a program needs, and whether it fits, before anything runs.
 *
 *     tn_large large = {.model = {.hidden = 12288, .layers = 96, .heads = 96,
 *                                 .vocabulary = 51200, .position_rows = TN_SIZE_UNKNOWN},
 *                       .sequence = 2048, .batch = 1536, .tensor = 8, .pipeline = 16, .data = 6,
 *                       .recompute = TN_RECOMPUTE_FULL};
 *     tn_large_estimate estimate;
 *     tn_error error;
 *     if (tn_large_estimate_make(&large, &estimate, &error) != TN_OK) return 2;
 *     printf("%.1f GB a rank\n", (double)estimate.largest.total / 1e9); // formulas: tn_large
 *
 * tn_estimate_make estimates an existing program from its occupancy (its liveness analysis and
 * buffer assignment). It does not use a formula: it runs the planners that plan a run, or asks the
 * pools of a run for the program's blocks in the program's order. So arena and pool sizes equal
 * those of a run to the byte. Sizes that cannot be known here are left out and documented: the
 * workspaces of kernels, unless they are given, and memory that the runtime keeps for itself.
 *
 * Large transformers are estimated by formulas instead: tn_large. A category of memory is called a
 * part (tn_part).
 * Units: bytes, seconds, FLOP/s.
 * Threads: everything is read only.
 */

/* --- estimates of a program --- */

/* When the memory of a buffer is allocated and released: the policies of DNNMem. */
typedef enum tn_alloc_policy {
    TN_ALLOC_ON_DEMAND, /* memory is allocated when the buffer is first written */
    TN_ALLOC_ON_START   /* memory is allocated before the run begins */
} tn_alloc_policy;
typedef enum tn_release_policy {
    TN_RELEASE_ON_DEATH, /* memory is released after the last use of the buffer */
    TN_RELEASE_ON_EXIT   /* memory is not released before the job ends */
} tn_release_policy;

/* The categories of memory: X(name, text). */
/* clang-format off */
#define TN_PART_TABLE(X)                                                                       \
    X(WEIGHTS, "weights")                 /* parameters and constants */                       \
    X(GRADIENTS, "gradients") /* gradients of parameters and of intermediate tensors */        \
    X(OPTIMIZER_STATE, "optimizer_state")                                                      \
    X(ACTIVATIONS, "activations")         /* inputs, outputs, all computed tensors */          \
    X(WORKSPACE, "workspace")             /* scratch memory of operators */                    \
    X(OVERHEAD, "overhead")               /* fragmentation, rounding, reserved and unused */   \
    X(RUNTIME, "runtime") /* memory that the runtime keeps for itself */
/* The phases of a run, in the form X(name, text, meaning) */
#define TN_PHASE_TABLE(X)                                                                      \
    X(LOAD, "load", "everything is loaded, nothing has run")                                   \
    X(FORWARD, "forward", "forward pass of the first run")                                     \
    X(BACKWARD, "backward", "backward pass of the first run")                                  \
    X(UPDATE, "update", "update of the first run")                                             \
    X(LATER_STEPS, "later_steps", "any later run")                                             \
    X(EVALUATION, "evaluation", "forward pass alone, in addition to the memory of training")   \
    X(CHECKPOINT, "checkpoint", "between runs, one tensor at a time copied to the host")
/* clang-format on */
typedef enum tn_part {
#define TN_X(name, text) TN_PART_##name,
    TN_PART_TABLE(TN_X)
#undef TN_X
        TN_PART_COUNT
} tn_part;
typedef enum tn_phase {
#define TN_X(name, text, meaning) TN_PHASE_##name,
    TN_PHASE_TABLE(TN_X)
#undef TN_X
        TN_PHASE_COUNT
} tn_phase;
TN_API const char *tn_part_name(tn_part part);
TN_API const char *tn_phase_name(tn_phase phase);

typedef struct tn_estimate_options {
    size_t struct_size;
    const tn_context *context;
    /* policy of allocation for buffers; static memory is always allocated from start to exit */
    tn_alloc_policy alloc;
    tn_release_policy release; /* policy of release for buffers */
    /* Name of the pool that serves static memory and buffers in the order of the requests. NULL:
     * the buffers are in one planned arena, and static memory is outside of the arena. */
    const char *pool;
    uint64_t pool_capacity; /* capacity of the pool in bytes; 0: no limit */
    /* An existing plan of the occupancy's problem; NULL: the call makes a plan. Not read with a
     * pool or with other policies than the defaults. */
    const tn_layout *layout;
    const tn_plan_options *plan; /* options for the planner; NULL: defaults */
    /* [static_count] blocks of static memory in the form that kernels need (tn_setup_statics).
     * static_count 0: every static tensor that the program reads, in plain form. */
    const struct tn_static_block *statics;
    uint32_t static_count;
    uint64_t runtime; /* bytes that the runtime keeps for itself */
    /* true: optimizer state is allocated by the first update, not when the program is loaded */
    bool late_state;
} tn_estimate_options;
#define TN_ESTIMATE_OPTIONS_INIT                                                                   \
    TN_INIT(tn_estimate_options, TN_SET(struct_size, sizeof(tn_estimate_options)))

/* Sizes of the arrays of categories and phases in results: more than there are today, so that later
 * versions can add some. */
#define TN_PARTS_MAX 16u
#define TN_PHASES_MAX 16u

typedef struct tn_estimate {
    uint64_t total;              /* peak of all memory in bytes */
    uint64_t part[TN_PARTS_MAX]; /* bytes of each category at the peak; their sum is `total` */
    /* Peak of each phase. TN_SIZE_UNKNOWN: the program has no such phase, or its peak is not known
     * (the caller estimates EVALUATION from the program for evaluation). */
    uint64_t phase[TN_PHASES_MAX];
    uint32_t peak_step; /* step of the program at the peak */
    /* operator at the peak; TN_NONE: the instruction at the peak runs no operator */
    tn_op_id peak_op;
    uint32_t peak_run; /* number of the run in which the peak occurs; 0: the first run */
    /* Bytes of static memory: aligned, or as requested with a pool. 0 if the occupancy has buffers
     * for static memory, which are then in the arena. */
    uint64_t fixed;
    /* bytes of the arena; with a pool all reserved bytes, including static memory */
    uint64_t arena;
    uint64_t largest_static; /* bytes of the largest static block */
    /* with a pool: peaks of requested and of allocated bytes, as in tn_pool_usage */
    uint64_t requested, allocated;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_estimate;

/* Estimates the memory of a program.
 *
 * occupancy  of a tn_fit_result (fit.h), or of tn_setup_occupancy (engine.h, experimental)
 *
 * Errors: those of tn_plan; E_UNKNOWN (pool), E_EXHAUSTED (capacity of the pool), E_INVALID (a pool
 * for a program with loops, because the number of requests depends on the number of iterations),
 * E_NO_MEMORY.
 * Cost: planning; with a pool, two runs of the pool. */
TN_API TN_CHECKED tn_status tn_estimate_make(const struct tn_occupancy *occupancy,
                                             const tn_estimate_options *options,
                                             tn_estimate *estimate, tn_error *error);

/* --- a training step as PyTorch would run it --- */

typedef struct tn_pytorch_options {
    size_t struct_size;
    /* number of state tensors that the optimizer keeps per parameter: 0 to 2 */
    uint32_t state_count;
    /* number of temporary tensors of a parameter's size during its update */
    uint32_t scratch_count;
} tn_pytorch_options;
#define TN_PYTORCH_OPTIONS_INIT                                                                    \
    TN_INIT(tn_pytorch_options, TN_SET(struct_size, sizeof(tn_pytorch_options)))

typedef struct tn_pytorch {
    tn_graph *graph;      /* inferred */
    uint64_t *workspaces; /* [operators of graph] scratch bytes, for tn_occupancy_options */
    size_t workspace_room;
    uint64_t spare[2]; /* reserved for later fields: 0 (status.h) */
} tn_pytorch;

/* Makes a training step of `graph` (softmax cross-entropy of its first output) as eager PyTorch
 * runs it. Tensors are saved as autograd saves them, gradients of parameters are kept to the end,
 * and copies that oneDNN makes for convolutions on the CPU are workspace. Create the occupancy of
 * the result with TN_INPLACE_NONE.
 *
 * made  out; release it with tn_pytorch_release
 * Errors: E_UNSUPPORTED (control flow, or an operator with unknown saved tensors; the node is
 * named), E_INVALID (no parameter to train), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pytorch_make(const tn_graph *graph,
                                            const tn_pytorch_options *options, tn_pytorch *made,
                                            tn_error *error);
/* Releases a training step; NULL or a zeroed one has no effect. */
TN_API void tn_pytorch_release(tn_pytorch *made);

/* --- devices --- */

#define TN_RATE_UNKNOWN (-1.0)

/* A device, with the numbers of the vendor's data sheet (docs/estimate.md lists the sources). */
typedef struct tn_hardware {
    const char *name;  /* "a100-80" */
    const char *title; /* full name, such as "NVIDIA A100 80 GB SXM" */
    uint64_t memory;   /* bytes */
    /* bytes that the driver offers to programs, including the contexts of programs */
    uint64_t usable;
    /* whether `usable` was read from a device; otherwise it is a share of `memory` */
    bool measured;
    double bytes_per_s; /* bandwidth of the device memory */
    /* Rates in FLOP/s for dense data: fp32 on ordinary units; fp16 and bf16 on matrix units if the
     * device has them. TN_RATE_UNKNOWN: not stated, or not supported. */
    double fp32, fp16, bf16;
    uint32_t year; /* year of the device in the data sheet */
} tn_hardware;
/* Bytes that the context of one process takes of `usable`: the context that docs/llm.md counts for
 * llama.cpp. Frameworks with more libraries take more; docs/llm.md counts 1 GiB for vLLM. */
#define TN_HARDWARE_CONTEXT (UINT64_C(512) << 20)
/* Number of devices in the table. */
TN_API uint32_t tn_hardware_count(void);
/* Returns a device of the table; NULL if the index is out of range. */
TN_API const tn_hardware *tn_hardware_at(uint32_t index);
/* Finds a device by its name. Case, dashes and a GB after a size do not matter ("A100-80GB"). NULL:
 * no device has that name. */
TN_API const tn_hardware *tn_hardware_find(const char *name);

/* --- large transformers --- */

typedef enum tn_recompute { /* How much of the activations is recomputed in the backward pass. */
                            TN_RECOMPUTE_NONE,
                            TN_RECOMPUTE_SELECTIVE, /* only the core of attention is recomputed */
                            /* each layer keeps only its input, and everything else is recomputed */
                            TN_RECOMPUTE_FULL
} tn_recompute;

/* The computation of attention in training: fused, in tiles without storing the scores, or
 * unfused. */
typedef enum tn_attention { TN_ATTENTION_FUSED, TN_ATTENTION_UNFUSED } tn_attention;

typedef struct tn_large { /* A transformer and the settings of its training. */
    /* the model; position_rows TN_SIZE_UNKNOWN: one per token of `sequence` */
    tn_transformer model;
    uint64_t sequence; /* number of tokens of a sequence */
    uint64_t batch;    /* number of sequences in total; 0: one per data-parallel rank */
    uint64_t micro;    /* number of sequences per micro-batch; 0: 1 */
    uint64_t tensor, pipeline, data; /* number of ranks in each direction; 0: 1 */
    uint64_t interleave;             /* groups of layers per stage (interleaved pipeline); 0: 1 */
    /* true: operators between the products are also divided over the tensor ranks */
    bool sequence_parallel;
    tn_shard shard; /* state that is sharded among data-parallel ranks */
    tn_recompute recompute;
    /* computation of attention; for unfused attention the formulas of Korthikanti et al. (2022) are
     * used */
    tn_attention attention;
    /* logits and loss are computed for this many tokens at a time; 0: for all at once */
    uint64_t loss_tokens;
    uint32_t weight_bytes;   /* bytes of a parameter during computation; 0: 2 */
    uint32_t gradient_bytes; /* bytes of a gradient; 0: 4 */
    /* Bytes of optimizer state per parameter, including the optimizer's copy of the weights. 0: 12
     * (Adam) if `weight_bytes` is 0, otherwise no state. */
    uint32_t state_bytes;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_large;

typedef struct tn_large_stage {  /* Memory of each rank of one pipeline stage, in bytes. */
    uint64_t layers, parameters; /* number of layers of the stage, and of parameters on one rank */
    uint64_t weights, gradients, state, activations, total;
    /* sections of `activations`: kept from forward to backward pass; logits and loss */
    uint64_t kept, loss;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_large_stage;

typedef struct tn_large_estimate {
    double parameters; /* number of parameters: 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)) */
    double flops;      /* operations per iteration: 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)) */
    /* number of parameters, counted matrix by matrix for this architecture */
    uint64_t exact_parameters;
    uint64_t ranks;
    tn_large_stage largest; /* the stage that needs the most memory */
    uint32_t largest_stage;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_large_estimate;

/* Sets `large->model` from a Hugging Face config.json, as tn_llm_config does, and the sequence if
 * it is 0. `name` is used in messages.
 * Errors: E_INVALID (not JSON, a missing or implausible key, an unknown model_type), E_UNSUPPORTED
 * (components that the formulas do not count, such as experts; built without jansson), E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                                            const tn_context *context, tn_large *large,
                                            tn_error *error);
/* Sets `large->model` from the graph of a transformer, and the sequence if it is 0. Layers, heads
 * and sequence come from each Softmax over [batch, heads, tokens, tokens], vocabulary and hidden
 * size from the largest embedding table. Errors: E_INVALID (not recognised as a transformer). */
TN_API TN_CHECKED tn_status tn_large_from_graph(const tn_graph *graph, tn_large *large,
                                                tn_error *error);
/* Estimates the memory per rank and the work of an iteration.
 * Errors: E_INVALID (a size of 0, ranks that do not divide evenly, 2^64 parameters or more; the
 * member is named).
 * Source: Narayanan et al. 2021 (P, F), Rajbhandari et al. 2020 (sharding), Korthikanti et al. 2022
 * (activations). */
TN_API TN_CHECKED tn_status tn_large_estimate_make(const tn_large *large,
                                                   tn_large_estimate *estimate, tn_error *error);
/* Estimates only the memory of stage `stage`. */
TN_API TN_CHECKED tn_status tn_large_stage_make(const tn_large *large, uint32_t stage,
                                                tn_large_stage *made, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
