/* estimate.h - how much memory will it need, and does it fit? Asked before anything runs.
 *
 *     tn_large large = {.hidden = 12288, .layers = 96, .heads = 96, .vocabulary = 51200,
 *                       .sequence = 2048, .positions = TN_SIZE_UNKNOWN, .batch = 1536,
 *                       .tensor = 8, .pipeline = 16, .data = 6, .recompute = TN_RECOMPUTE_FULL};
 *     tn_large_estimate estimate;
 *     tn_error error;
 *     if (tn_large_estimate_make(&large, &estimate, &error) != TN_OK) return 2;
 *     printf("%.1f GB a rank\n", (double)estimate.largest.total / 1e9); // formulas: tn_large
 *
 * A program that is there is estimated by tn_estimate_make: occupancy in, bytes out.
 * An estimate is no formula beside the product: it plans with the planners that plan, or asks the
 * pools that run for the program's own blocks in the program's own order. So for arena and pools it
 * is what a run takes, to the byte. What it cannot know is left out and said: workspaces of kernels
 * unless they are given, and what a run time keeps for itself.
 *
 * Large transformers are estimated by formulas instead: tn_large.
 * Units: bytes, seconds, FLOP/s.
 * Threads: everything is read only.
 */
#ifndef TENURE_ESTIMATE_H
#define TENURE_ESTIMATE_H

#include <tenure/plan.h>
#include <tenure/program.h>
#include <tenure/shard.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- of a program ------------------------------------------------------------------------------
 */

/* When a buffer's memory is taken: DNNMem's policies. */
typedef enum tn_alloc_policy {
    TN_ALLOC_ON_DEMAND, /* when it is first written */
    TN_ALLOC_ON_START   /* before the run begins */
} tn_alloc_policy;
typedef enum tn_release_policy {
    TN_RELEASE_ON_DEATH, /* after its last use */
    TN_RELEASE_ON_EXIT   /* never, while the job lasts */
} tn_release_policy;

/* What memory is for: X(name, text). */
/* clang-format off */
#define TN_PART_TABLE(X)                                                                       \
    X(WEIGHTS, "weights")                 /* parameters and constants */                       \
    X(GRADIENTS, "gradients")             /* of parameters and of what lies between */         \
    X(OPTIMIZER_STATE, "optimizer_state")                                                      \
    X(ACTIVATIONS, "activations")         /* inputs, outputs, all that is computed */          \
    X(WORKSPACE, "workspace")             /* scratch of operators */                           \
    X(OVERHEAD, "overhead")               /* fragmentation, rounding, held and not used */     \
    X(RUNTIME, "runtime")                 /* what the run time keeps for itself */
/* X(name, text, meaning) */
#define TN_PHASE_TABLE(X)                                                                      \
    X(LOAD, "load", "everything is loaded, nothing has run")                                   \
    X(FORWARD, "forward", "forward pass of the first run")                                     \
    X(BACKWARD, "backward", "backward pass of the first run")                                  \
    X(FIRST_STEP, "first_step", "update of the first run")                                     \
    X(LATER_STEPS, "later_steps", "any later run, all of it")                                  \
    X(EVALUATION, "evaluation", "forward pass alone, beside what training keeps")              \
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
TN_API const char *tn_phase_meaning(tn_phase phase);

typedef struct tn_estimate_options {
    size_t struct_size;
    const tn_context *context;
    tn_alloc_policy alloc;     /* of what is no static memory; that is there from start to exit */
    tn_release_policy release; /* of the same */
    const char *pool;          /* serves static memory and buffers as they are asked for; NULL: the
                                * buffers lie in one planned arena, static memory beside it */
    uint64_t pool_capacity;    /* bytes; 0: without end */
    const tn_layout *layout;   /* a plan that is there already, of the occupancy's problem. NULL: it
                                * is planned here. Not read with a pool or other policies */
    const tn_plan_options *plan; /* NULL: defaults */
    /* [static_count] blocks of static memory, as kernels want them (tn_setup_statics);
     * static_count 0: every static tensor that the program reads, as it is */
    const tn_static_block *statics;
    uint32_t static_count;
    uint64_t runtime; /* bytes that the run time keeps for itself */
    bool late_state;  /* optimizer state is taken when the first update begins, not at load */
} tn_estimate_options;
#define TN_ESTIMATE_OPTIONS_INIT                                                                   \
    TN_INIT(tn_estimate_options, TN_SET(struct_size, sizeof(tn_estimate_options)))

typedef struct tn_estimate {
    uint64_t total;               /* bytes: the most at any time */
    uint64_t part[TN_PART_COUNT]; /* of it, at that time; they add up to it */
    /* the most in each phase; TN_SIZE_UNKNOWN: the program has no such phase, or nobody can tell
     * (EVALUATION is for the caller, who has the other program) */
    uint64_t phase[TN_PHASE_COUNT];
    uint32_t peak_step; /* of the program, at that time */
    tn_op_id peak_op;   /* that runs then; TN_NONE: another instruction */
    uint32_t peak_run;  /* 0: the first run */
    uint64_t fixed;     /* static memory, aligned (with a pool: as it is asked for); 0 where the
                         * occupancy has bodies for it: it is part of the arena */
    uint64_t arena; /* bytes of the arena; with a pool all that it reserves, static memory too */
    uint64_t largest_static;       /* bytes of the largest static block */
    uint64_t requested, allocated; /* pool: the most of each, of tn_pool_usage */
} tn_estimate;

/* Errors: those of tn_plan; E_UNKNOWN (pool), E_EXHAUSTED (the pool's capacity), E_INVALID (a pool
 * for a program with loops, which asks for memory as often as they turn), E_NO_MEMORY.
 * Cost: planning; with a pool, two runs of it. */
TN_API TN_CHECKED tn_status tn_estimate_make(const tn_occupancy *occupancy,
                                             const tn_estimate_options *options,
                                             tn_estimate *estimate, tn_error *error);

/* --- as PyTorch would run it --------------------------------------------------------------------
 */

typedef struct tn_pytorch_options {
    size_t struct_size;
    uint32_t state_count;   /* tensors that the optimizer keeps of each parameter: 0 to 2 */
    uint32_t scratch_count; /* tensors of a parameter's size that its update needs for a moment */
} tn_pytorch_options;
#define TN_PYTORCH_OPTIONS_INIT                                                                    \
    TN_INIT(tn_pytorch_options, TN_SET(struct_size, sizeof(tn_pytorch_options)))

typedef struct tn_pytorch {
    tn_graph *graph;      /* inferred */
    uint64_t *workspaces; /* [its operators], for tn_occupancy_options */
    size_t workspace_room;
} tn_pytorch;

/* A training step of `graph` (softmax cross-entropy of its first output) as eager PyTorch runs it:
 * saved tensors as autograd saves them, gradients of parameters kept to the end, copies of oneDNN's
 * convolutions on the CPU as workspace. To be made an occupancy with TN_INPLACE_NONE.
 * Errors: E_UNSUPPORTED (an operator, with its node, whose saved tensors are not known; control
 * flow), E_INVALID (no parameter to train), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pytorch_make(const tn_graph *graph,
                                            const tn_pytorch_options *options, tn_pytorch *made,
                                            tn_error *error);
TN_API void tn_pytorch_release(tn_pytorch *made); /* NULL and zeroed are fine */

/* --- devices ------------------------------------------------------------------------------------
 */

#define TN_RATE_UNKNOWN (-1.0)

/* As the maker's data sheet states it; docs/estimate.md says which. */
typedef struct tn_hardware {
    const char *name;   /* "a100-80" */
    const char *title;  /* "NVIDIA A100 80 GB SXM" */
    uint64_t memory;    /* bytes */
    uint64_t usable;    /* of them, that its driver offers to programs, their contexts included */
    bool measured;      /* `usable` was read from a device; else a share of `memory` */
    double bytes_per_s; /* of that memory */
    /* FLOP/s, dense: fp32 on ordinary units; fp16 and bf16 on matrix units where there are any.
     * TN_RATE_UNKNOWN: not stated, or not supported */
    double fp32, fp16, bf16;
    uint32_t year; /* of the data sheet's device */
} tn_hardware;
TN_API uint32_t tn_hardware_count(void);
TN_API const tn_hardware *tn_hardware_at(uint32_t index); /* NULL outside */
/* Without regard to case, to dashes and to a GB behind a size ("A100-80GB"); NULL: none. */
TN_API const tn_hardware *tn_hardware_find(const char *name);

/* --- large transformers
 * ---------------------------------------------------------------------------
 */

typedef enum tn_recompute { /* of activations in the backward pass */
                            TN_RECOMPUTE_NONE,
                            TN_RECOMPUTE_SELECTIVE, /* the core of attention */
                            TN_RECOMPUTE_FULL       /* layers keep their input alone */
} tn_recompute;

/* How attention is computed in training: in pieces that keep no scores, or written out. */
typedef enum tn_attention { TN_ATTENTION_FUSED, TN_ATTENTION_UNFUSED } tn_attention;

typedef struct tn_large { /* a transformer, and how it is trained */
    uint64_t hidden, layers, heads, vocabulary, sequence;
    uint64_t ffn;       /* of the inner layer; 0 = 4 hidden */
    uint64_t kv_heads;  /* groups of queries; 0 = heads */
    uint64_t positions; /* learned position embeddings; TN_SIZE_UNKNOWN: sequence; 0: none */
    uint64_t types;     /* token type embeddings (BERT) */
    uint64_t head_size; /* of a query; 0 = hidden / heads */
    bool gated;         /* three matrices in the inner layer (LLaMA) */
    bool rms_norm;      /* normalisation without shift (LLaMA) */
    bool no_query_bias, no_output_bias, no_inner_bias; /* of attention's products, of the inner
                                                          layer's (LLaMA: none has a bias) */
    bool query_norm;                 /* query and key are normalised head by head (Qwen3) */
    bool embedding_norm;             /* one more normalisation behind the embeddings (BLOOM) */
    bool pooled;                     /* one more product at the end (BERT) */
    bool no_dropout;                 /* no masks of dropout are kept */
    bool untied;                     /* output matrix of its own */
    uint64_t batch;                  /* sequences in all; 0 = data */
    uint64_t micro;                  /* of one pass through the pipeline; 0 = 1 */
    uint64_t tensor, pipeline, data; /* ranks; 0 = 1 */
    uint64_t interleave;             /* pieces of layers on a stage, taken in turn; 0 = 1 */
    bool sequence_parallel;          /* what is outside of products is divided, too */
    tn_shard shard;                  /* among data-parallel ranks */
    tn_recompute recompute;
    tn_attention attention;  /* unfused: the formulas of Korthikanti et al. (2022) */
    uint64_t loss_tokens;    /* logits and loss are computed for so many tokens at a time; 0: all */
    uint32_t weight_bytes;   /* of a parameter as it is computed with; 0 = 2 */
    uint32_t gradient_bytes; /* 0 = 4 with weights of 2, else 4 */
    uint32_t state_bytes;    /* of the optimizer, with its copy of the weights; 0 with weights and
                                gradients by default: 12 (Adam) */
} tn_large;

typedef struct tn_large_stage {  /* memory of each rank of one pipeline stage, bytes */
    uint64_t layers, parameters; /* parameters: on one rank */
    uint64_t weights, gradients, state, activations, total;
    uint64_t kept, loss; /* of `activations`: kept from forward to backward, logits and loss */
} tn_large_stage;

typedef struct tn_large_estimate {
    double parameters;         /* 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)) */
    double flops;              /* of an iteration: 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)) */
    uint64_t exact_parameters; /* counted, matrix by matrix, for this architecture */
    uint64_t ranks;
    tn_large_stage largest; /* the stage that needs the most */
    uint32_t largest_stage;
} tn_large_estimate;

/* Sets what a config.json of Hugging Face says; the rest of `large` is left alone. What a family is
 * made of goes by its "model_type" (docs/estimate.md lists them); without one, the keys tell
 * GPT-2's kind, BERT's and LLaMA's. `name` is for messages.
 * Errors: E_INVALID (no JSON, a key that is missing or makes no sense, a model_type that is not
 * known), E_UNSUPPORTED (parts that the formulas do not count, as experts; built without jansson),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                                            const tn_context *context, tn_large *large,
                                            tn_error *error);
/* The same from the graph of a transformer: layers, heads and sequence from its Softmax over
 * [batch, heads, tokens, tokens], vocabulary and hidden size from its largest table of embeddings.
 * Errors: E_INVALID (none is recognised). */
TN_API TN_CHECKED tn_status tn_large_from_graph(const tn_graph *graph, tn_large *large,
                                                tn_error *error);
/* Errors: E_INVALID (a size of 0, ranks that do not divide what they share, 2^64 parameters or
 * more; the member is named).
 * Source: Narayanan et al. 2021 (P, F), Rajbhandari et al. 2020 (shards), Korthikanti et al. 2022
 * (activations). */
TN_API TN_CHECKED tn_status tn_large_estimate_make(const tn_large *large,
                                                   tn_large_estimate *estimate, tn_error *error);
/* The same for stage `stage` alone. */
TN_API TN_CHECKED tn_status tn_large_stage_make(const tn_large *large, uint32_t stage,
                                                tn_large_stage *made, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
