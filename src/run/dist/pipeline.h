/* pipeline.h - shared types of the files that make the programs of a pipeline.
 *
 *   pipeline.c       which operators each stage runs, in which pass, and which tensors it receives
 *   pipeline_emit.c  the program of one stage
 */
#ifndef TN_DIST_PIPELINE_H
#define TN_DIST_PIPELINE_H

#include <tenure/dist.h>

#include "program/passes.h"

typedef struct tn__message { /* one tensor, sent from one stage to another */
    uint32_t from, to;
    tn_tensor_id tensor;
    uint32_t need; /* first pass of `to` that reads it, or a later one of its lane */
    bool back;     /* from a backward pass */
} tn__message;

typedef struct tn__pipe_op { /* an operator of one stage, in the order of that stage */
    uint32_t pass, step;     /* step: in the program of all stages */
} tn__pipe_op;

typedef struct tn__pipe {
    const tn_program *program;
    const tn_graph *graph;
    const tn_stages *stages;
    const uint32_t *ranks; /* [count] */
    tn__passes passes;
    uint32_t count;      /* stages */
    uint32_t tensor;     /* number of ranks that share each stage; 1: not cut */
    uint32_t part;       /* which of them this rank is */
    uint32_t group;      /* group of the ranks that share the current stage */
    bool whole_sends;    /* each rank sends the tensors that they have in common whole */
    uint32_t slack;      /* a SEND is waited for this many passes later */
    uint32_t pass_count; /* per stage; one of them is for updates */
    tn_home *homes;      /* [operators] */
    uint64_t *on;        /* [operators] bit s: stage s runs it */
    tn__pipe_op **ops;   /* [count] */
    uint32_t *op_count;  /* [count] */
    tn__message *list;   /* [message_count] by sender, in the order of sending */
    uint32_t message_count;
    uint32_t *first_of; /* [tensors] its first message; TN_NONE: no message */
    tn__arena arena;
    tn_error *error;
} tn__pipe;

/* Does the operator provide parameters of a shard? It then runs on every stage that reads them,
 * before all passes. */
static inline bool tn__pipe_is_shard(const tn_home *home) {
    return home->way == TN_WAY_FORWARD && home->of != TN_NONE;
}
/* The stage that sends an operator's results to stages that do not run it. */
uint32_t tn__pipe_sender(const tn__pipe *pipe, tn_op_id id);
/* Does each rank of a stage send a part of this tensor, which they have in common? The receivers
 * then gather the parts.
 */
bool tn__pipe_in_parts(const tn__pipe *pipe, tn_tensor_id id);
/* pipeline_emit.c. */
tn_status tn__pipe_emit(tn__pipe *pipe, uint32_t stage, tn_program **made);

#endif
