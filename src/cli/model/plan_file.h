/* plan_file.h - reads a .json plan as a document: its options, its tensors by index, and its
 * program.
 *
 * The buffers of a plan and their offsets are read by plan/io, not by this file.
 */
#ifndef TN_MODEL_PLAN_FILE_H
#define TN_MODEL_PLAN_FILE_H

#include "cli/model/input.h"
#include "cli/model/training.h"

/* A live range of a tensor, or the workspace of an operator, and its place in the plan. The indices
 * refer to the planned graph; they are as read from the file and not checked yet. */
typedef struct cli_plan_tensor {
    tn_tensor_id tensor; /* the tensor, or TN_NONE for the workspace of `op` */
    tn_op_id op;         /* the operator that defines the tensor, or TN_NONE */
    uint32_t buffer;     /* index of the buffer's row in the plan */
    uint64_t delta;      /* distance from the start of the buffer, in bytes */
    uint64_t offset;     /* offset of the tensor that the plan states */
    uint64_t bytes;
    int64_t first;
    uint32_t index;   /* index in the list of the document */
    const char *name; /* name of the tensor for messages; never NULL */
} cli_plan_tensor;

typedef struct cli_plan_file {
    const char *path;
    /* the JSON document of jansson; NULL: the file is not JSON, or cannot be read */
    void *document;
    bool has_options;    /* true if the plan file records the options with which it was made */
    bool is_own;         /* true if Tenure wrote the plan: it records the work of its search */
    const char *library; /* version of the library that made the plan, or "" */
    /* [tensor_count] live ranges, sorted by `tensor`, then `op`, then `first` */
    cli_plan_tensor *tensors;
    /* number of live ranges; 0: the plan identifies no tensors, like plans of other tools */
    uint32_t tensor_count;
    bool has_program, has_peak; /* has_program: the steps of the plan refer to tensors by index */
    bool has_lower_bound;
    uint64_t peak, lower_bound; /* as the plan states them */
    bool minimises_pairs;       /* the plan states the objective pairs */
    bool has_reuse_cost;
    uint64_t reuse_cost; /* the reuse cost that the plan states */
    bool has_waits;
    uint64_t waits, time, workers; /* waits, time and number of workers that the plan states */
    tn_op_id *steps; /* [step_count] the operators in the order of the plan; NULL: no order */
    uint32_t step_count;
} cli_plan_file;

/* Reads everything of a plan except the buffers. For a file that is not JSON, `document` is NULL
 * and there is no error. Errors: those of reading a file, E_INVALID (an invalid member),
 * E_NO_MEMORY. The caller closes the file, also after an error. */
tn_status cli_plan_file_open(const char *path, cli_plan_file *file, tn_error *error);
void cli_plan_file_close(cli_plan_file *file);
/* Whether a file is a solution of dsa-solver, which has placements without their buffers. */
bool cli_plan_file_is_solution(const char *path);

/* Replaces the options in `input` and `training` by those of the plan; `file` keeps owning their
 * strings. An option of the command line that contradicts the plan is a usage error. */
tn_status cli_plan_file_options(const cli_plan_file *file, cli_input *input, cli_training *training,
                                tn_error *error);
/* Sets `target` to the kernels that a plan of an older version records, which has no options. Does
 * nothing if the user chose kernels. */
void cli_plan_file_target(const cli_plan_file *file, cli_kernel_target *target);
/* Turns E_INVALID into E_CONFLICT, and moves the place of the error into its message: a plan that
 * was read but is wrong is not valid, whatever is wrong about it. Returns other statuses as they
 * are. */
tn_status cli_plan_conflict(tn_status status, tn_error *error);
/* Makes the program that the plan lists, for the planned graph. Errors: E_INVALID (an index out of
 * range), E_CONFLICT (the program cannot run, or does not compute the graph), E_NO_MEMORY. */
tn_status cli_plan_file_program(const cli_plan_file *file, const tn_graph *graph,
                                tn_program **program, tn_error *error);
/* Finds the place of a live range in the plan. Returns NULL if the plan has no such live range. */
const cli_plan_tensor *cli_plan_file_find(const cli_plan_file *file, tn_tensor_id tensor,
                                          tn_op_id op, int64_t first);

/* --- the options of a plan as words --- */

/* The options of a plan are written into the plan as text, read back, and compared with the command
 * line. */

/* A list of options, each a name and its value as text. */
typedef struct cli_words cli_words;
struct cli_words {
    tn_report_option *rows; /* [count] */
    uint32_t count;
    size_t room;
    bool failed; /* true if memory ran out when an option was added */
};

/* Adds the option `name` with a value that is formatted as by printf; with `format` NULL, without a
 * value. */
void cli_words_add(cli_words *words, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void cli_words_release(cli_words *words);

/* Adds every option that affects the plan of this input, also if it has its default value: options
 * for reading the model, order, memory, kernels, training, and the tiles of the setup. `setup` may
 * be NULL. */
void cli_words_of(const cli_input *input, const tn_setup *setup, cli_words *words);

/* Adds the options to a report. `words` must outlive the report. */
void cli_report_words(tn_report *report, const char *command, const cli_words *words);

#endif
