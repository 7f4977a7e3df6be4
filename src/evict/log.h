/* log.h - a recorded run as commands on numbers: what a reader made of a log, for those who replay
 * it. Names are gone but for messages. */
#ifndef TN_EVICT_LOG_H
#define TN_EVICT_LOG_H

#include "evict/evict.h"

typedef enum tn__log_what {
    TN__LOG_CONSTANT, /* op: no operands, one result */
    TN__LOG_APPLY,    /* op */
    TN__LOG_RETAIN,   /* tensor */
    TN__LOG_RELEASE,  /* tensor */
    TN__LOG_KEEP      /* tensor: there at the end, and for good */
} tn__log_what;

typedef struct tn__log_command {
    uint32_t what; /* tn__log_what */
    uint32_t id;   /* op or tensor */
    uint32_t line;
} tn__log_command;

typedef struct tn__log_op {
    uint64_t cost, scratch;
    uint32_t first_input, input_count;   /* in `inputs`: tensors */
    uint32_t first_output, output_count; /* tensors: numbered in the order in which they are made */
    bool once;
    const char *name;
} tn__log_op;

typedef struct tn__log_tensor {
    uint64_t bytes; /* of a fresh storage; a view: 0 */
    uint64_t storage_bytes;
    uint64_t shift;
    uint32_t alias; /* operand whose storage it shares, or TN__EVICT_NONE */
    bool overwrites;
    const char *name;
    int64_t refs; /* while it is read: of names */
} tn__log_tensor;

struct tn_evict_log {
    tn_context context;
    tn__arena arena; /* names */
    const char *file;
    tn__log_command *commands;
    size_t command_count, command_room;
    tn__log_op *ops;
    size_t op_count, op_room;
    tn__log_tensor *tensors;
    size_t tensor_count, tensor_room;
    uint32_t *inputs;
    size_t input_count, input_room;
    tn_evict_log_facts facts;
    bool is_ours; /* has what DTR's own logs cannot say, and its simulator does not model */
};

#endif
