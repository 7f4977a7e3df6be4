/* stages.h - describes a training step with all micro-batches in one graph, for a pipeline.
 *
 * tn_train makes the graph (tn_train_options.pipeline_parts) and records here the part and the
 * micro-batch of each tensor; tn_program_pipeline (dist.h) makes the program of one stage. A part
 * is a run of consecutive operators of the model; a round is a micro-batch.
 */
#ifndef TENURE_STAGES_H
#define TENURE_STAGES_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_STAGE_PARTS_MAX 64u

typedef enum tn_way { TN_WAY_FORWARD, TN_WAY_BACKWARD, TN_WAY_UPDATE } tn_way;

/* The part, the round and the pass in which a tensor is made. */
typedef struct tn_home {
    uint32_t part, round;
    tn_way way;       /* UPDATE: after all passes; belongs to no round */
    tn_tensor_id of;  /* a parameter: the tensor is made wherever that parameter is, possibly in
                       * several parts; TN_NONE: only in `part` */
    uint64_t readers; /* for static tensors of the model: bit p is set if part p reads it */
} tn_home;

/* The tensors of one micro-batch in the step's graph. */
typedef struct tn_round {
    tn_tensor_id labels, loss, correct; /* TN_NONE: the step has no such tensor */
    const tn_tensor_id *inputs;         /* [input_count] the model's inputs, in its order */
} tn_round;

typedef struct tn_stages {
    uint32_t parts, rounds;
    const tn_round *round; /* [rounds] */
    uint32_t input_count;
    const tn_home *homes; /* [tensors] of the graph as tn_train made it */
    uint32_t tensors;
    /* NULL; or [tensors]: all ranks that share a stage (tn_train_options.tensor_ranks) have the
     * same value in it */
    const bool *alike;
    uint32_t tensor_ranks, tensor_rank; /* of the step, as in train.h; 1 and 0: not cut */
} tn_stages;

/* The order in which a stage goes through its passes. X(name, text, sentence) */
/* clang-format off */
#define TN_PIPELINE_TABLE(X)                                                                       \
    X(ONE_BACK, "1f1b", "one forward, one backward in turn, as soon as there is one to go back")   \
    X(ALL_AHEAD, "gpipe", "all forward passes, then all backward ones")
/* clang-format on */
typedef enum tn_pipeline {
#define TN_X(name, text, sentence) TN_PIPELINE_##name,
    TN_PIPELINE_TABLE(TN_X)
#undef TN_X
        TN_PIPELINE_COUNT
} tn_pipeline;
/* "1f1b"; static, NULL outside. */
TN_API const char *tn_pipeline_name(tn_pipeline schedule);

#ifdef __cplusplus
}
#endif
#endif
