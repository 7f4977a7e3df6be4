/* plan_file.h - a .json plan as a document: the options that made it, its tensors by index, and its
 * program. The buffers and their offsets are read by plan/io.
 */
#ifndef TN_CLI_PLAN_FILE_H
#define TN_CLI_PLAN_FILE_H

#include "cli/train_options.h"

/* One live range of a tensor, or the workspace of an operator, and where the plan puts it. Indices
 * are those of the graph that was planned; nobody has checked them. */
typedef struct cli_plan_tensor {
    tn_tensor_id tensor; /* TN_NONE: the workspace of `op` */
    tn_op_id op;         /* that defines it; TN_NONE: none does */
    uint32_t buffer;     /* row of the plan */
    uint64_t delta;      /* bytes from the start of the buffer */
    uint64_t offset;     /* as the plan writes it, too */
    uint64_t bytes;
    int64_t first;
    const char *name; /* for people; never NULL */
} cli_plan_tensor;

typedef struct cli_plan_file {
    const char *path;
    void *document;             /* jansson's; NULL: it is no JSON, or none that can be read */
    bool has_options;           /* it says how it was made */
    const char *library;        /* the version of the library that made it; "": not known */
    cli_plan_tensor *tensors;   /* [tensor_count] sorted by tensor, op, first */
    uint32_t tensor_count;      /* 0: it identifies no tensors, as other tools' plans */
    bool has_program, has_peak; /* has_program: its steps name tensors by index */
    uint64_t peak;
    tn_op_id *steps; /* [step_count] the operators in order; NULL: it does not say */
    uint32_t step_count;
} cli_plan_file;

/* Reads all of it but the buffers. What is no JSON has nothing, and that is no error.
 * Errors: E_INVALID (a member that cannot be), E_NO_MEMORY. Close it in any case. */
tn_status cli_plan_file_open(const char *path, cli_plan_file *file, tn_error *error);
void cli_plan_file_close(cli_plan_file *file);

/* Exchanges the options in `input`, those of the command line, for those of the plan; strings stay
 * the file's. An option that contradicts the plan ends the program with a usage error. */
tn_status cli_plan_file_options(const cli_plan_file *file, cli_input *input, cli_training *training,
                                tn_error *error);
/* For whose kernels an old plan, without options, says that it was made, where `whom` does not. */
void cli_plan_file_whom(const cli_plan_file *file, cli_whom *whom);
/* The program that it lists, of the graph that was planned. Errors: E_INVALID (an index that the
 * graph does not have, those of tn_program_from), E_NO_MEMORY. */
tn_status cli_plan_file_program(const cli_plan_file *file, const tn_graph *graph,
                                tn_program **program, tn_error *error);
/* Where it puts a live range; NULL: it does not say. */
const cli_plan_tensor *cli_plan_file_find(const cli_plan_file *file, tn_tensor_id tensor,
                                          tn_op_id op, int64_t first);

#endif
