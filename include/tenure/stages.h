/* stages.h - a step of training whose micro-batches are all in one graph, in parts for a pipeline.
 *
 * tn_train makes it (tn_train_options.pipeline_parts), and tells here what belongs where;
 * tn_program_pipeline (dist.h) makes the program of one stage of it. A part is a number of
 * operators of the model that follow each other; a round is a micro-batch.
 */
#ifndef TENURE_STAGES_H
#define TENURE_STAGES_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_STAGE_PARTS_MAX 64u

typedef enum tn_way { TN_WAY_FORWARD, TN_WAY_BACKWARD, TN_WAY_UPDATE } tn_way;

/* When and where a tensor is made. */
typedef struct tn_home {
    uint32_t part, round;
    tn_way way;       /* UPDATE: behind all passes, of no round */
    tn_tensor_id of;  /* TN_NONE; or wherever this parameter is, maybe in several parts, instead of
                       * in `part` alone */
    uint64_t readers; /* of what is static in the model: bit p, part p reads it */
} tn_home;

typedef struct tn_round {               /* of the step's graph */
    tn_tensor_id labels, loss, correct; /* TN_NONE: there is none */
    const tn_tensor_id *inputs; /* [input_count] what the model's inputs are here, in its order */
} tn_round;

typedef struct tn_stages {
    uint32_t parts, rounds;
    const tn_round *round; /* [rounds] */
    uint32_t input_count;
    const tn_home *homes; /* [tensors] those of the graph as tn_train made it */
    uint32_t tensors;
    /* NULL; or [tensors] whether all ranks with parts of a stage (tn_train_options.tensor_ranks)
     * have the same in it */
    const bool *alike;
    uint32_t tensor_ranks,
        tensor_rank; /* of the step (the same of train.h); 1 and 0: it is whole */
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
