/* log.h - a recorded run as a list of commands on numbered tensors, which a reader makes from a log
 * and a simulator replays. Names are kept only for messages. */
#ifndef TN_EVICT_LOG_H
#define TN_EVICT_LOG_H

#include "memory/evict/evict.h"

typedef enum tn__log_what {
    TN__LOG_CONSTANT, /* makes a constant; id: an operator without operands and with one result */
    TN__LOG_APPLY,    /* runs an operator; id: the operator */
    TN__LOG_RETAIN,   /* adds a reference; id: the tensor */
    TN__LOG_RELEASE,  /* releases a reference; id: the tensor */
    TN__LOG_KEEP      /* id: a tensor that must be resident at the end of the log */
} tn__log_what;

typedef struct tn__log_command {
    uint32_t what; /* kind of the command, a tn__log_what */
    uint32_t id;   /* number of an operator or of a tensor, as the kind of the command says */
    uint32_t line;
} tn__log_command;

typedef struct tn__log_op {
    uint64_t cost, scratch;
    uint32_t first_input, input_count; /* range of `inputs`, which contains numbers of tensors */
    /* range of `tensors`: the results; tensors are numbered in the order in which they are made */
    uint32_t first_output, output_count;
    bool once;
    const char *name;
} tn__log_op;

typedef struct tn__log_tensor {
    uint64_t bytes; /* size of a new storage; 0 for a view */
    uint64_t storage_bytes;
    uint64_t shift;
    /* index of the operand of which the result shares the storage, or TN__EVICT_NONE */
    uint32_t alias;
    bool overwrites;
    const char *name;
    int64_t refs; /* only while reading: number of names that refer to the tensor */
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
    /* the log uses fields that DTR's own logs lack and its simulator does not model */
    bool is_ours;
};

#endif
