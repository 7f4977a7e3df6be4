/* pipeline.h - what the files that make programs of a pipeline share.
 *
 *   pipeline.c       what each stage runs, in which pass, and what it is sent
 *   pipeline_emit.c  the program of one of them
 */
#ifndef TN_DIST_PIPELINE_H
#define TN_DIST_PIPELINE_H

#include <tenure/dist.h>

#include "program/passes.h"

typedef struct tn__message { /* a tensor from one stage to another, once */
    uint32_t from, to;
    tn_tensor_id tensor;
    uint32_t need; /* the first pass of `to` that reads it, or what is sent behind it */
    bool back;     /* of a backward pass */
} tn__message;

typedef struct tn__pipe_op { /* an operator of one stage, in the order in which it runs them */
    uint32_t pass, step;     /* of the whole program */
} tn__pipe_op;

typedef struct tn__pipe {
    const tn_program *program;
    const tn_graph *graph;
    const tn_stages *stages;
    const uint32_t *ranks; /* [count] */
    tn__passes passes;
    uint32_t count;      /* stages */
    uint32_t tensor;     /* ranks that have parts of each; 1: it is whole; */
    uint32_t part;       /* which of them this is; */
    uint32_t group;      /* and theirs, of the stage in hand */
    bool whole_sends;    /* what they have alike each of them sends, all of it */
    uint32_t slack;      /* so many passes behind a SEND it is waited for */
    uint32_t pass_count; /* of each, and one for updates */
    tn_home *homes;      /* [operators] */
    uint64_t *on;        /* [operators] bit s: stage s runs it */
    tn__pipe_op **ops;   /* [count] */
    uint32_t *op_count;  /* [count] */
    tn__message *list;   /* [message_count] by sender, in the order of sending */
    uint32_t message_count;
    uint32_t *first_of; /* [tensors] its first message; TN_NONE: it is nobody's */
    tn__arena arena;
    tn_error *error;
} tn__pipe;

/* Whether it gives parameters that lie in a shard, wherever they are read, ahead of all passes. */
static inline bool tn__pipe_is_shard(const tn_home *home) {
    return home->way == TN_WAY_FORWARD && home->of != TN_NONE;
}
/* The stage that sends what an operator makes to those that do not run it. */
uint32_t tn__pipe_sender(const tn__pipe *pipe, tn_op_id id);
/* Whether ranks that have a tensor alike send a part of it each, and put it together where it goes.
 */
bool tn__pipe_in_parts(const tn__pipe *pipe, tn_tensor_id id);
/* pipeline_emit.c. */
tn_status tn__pipe_emit(tn__pipe *pipe, uint32_t stage, tn_program **made);

#endif
