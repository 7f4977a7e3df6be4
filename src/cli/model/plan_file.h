/* plan_file.h - a .json plan as a document: its options, its tensors by index, and its program.
 *
 * plan/io reads the buffers and their offsets.
 */
#ifndef TN_MODEL_PLAN_FILE_H
#define TN_MODEL_PLAN_FILE_H

#include "cli/model/input.h"
#include "cli/model/training.h"

/* One live range of a tensor, or the workspace of an operator, and its place in the plan. Indices
 * refer to the planned graph and are not checked yet. */
typedef struct cli_plan_tensor {
    tn_tensor_id tensor; /* TN_NONE: the workspace of `op` */
    tn_op_id op;         /* the operator that defines it, or TN_NONE */
    uint32_t buffer;     /* row of the plan */
    uint64_t delta;      /* bytes from the start of the buffer */
    uint64_t offset;     /* as written in the plan */
    uint64_t bytes;
    int64_t first;
    const char *name; /* for messages; never NULL */
} cli_plan_tensor;

typedef struct cli_plan_file {
    const char *path;
    void *document;             /* of jansson; NULL: not JSON, or not readable */
    bool has_options;           /* the plan records its options */
    const char *library;        /* the version of the library that made it, or "" */
    cli_plan_tensor *tensors;   /* [tensor_count] sorted by tensor, op, first */
    uint32_t tensor_count;      /* 0: it identifies no tensors, like plans of other tools */
    bool has_program, has_peak; /* has_program: its steps refer to tensors by index */
    uint64_t peak;
    bool has_reuse_cost;
    uint64_t reuse_cost; /* as the plan states it */
    bool has_waits;
    uint64_t waits, time, workers; /* the same */
    tn_op_id *steps;               /* [step_count] the operators in order, or NULL */
    uint32_t step_count;
} cli_plan_file;

/* Reads everything except the buffers. A file that is not JSON gives an empty document, without an
 * error. Errors: E_INVALID (an invalid member), E_NO_MEMORY. Close it also after an error. */
tn_status cli_plan_file_open(const char *path, cli_plan_file *file, tn_error *error);
void cli_plan_file_close(cli_plan_file *file);

/* Replaces the options of the command line in `input` by those of the plan; the file keeps owning
 * the strings. An option that contradicts the plan ends the program with a usage error. */
tn_status cli_plan_file_options(const cli_plan_file *file, cli_input *input, cli_training *training,
                                tn_error *error);
/* Sets `target` to the kernels recorded in an old plan without options, unless the user chose
 * them. */
void cli_plan_file_target(const cli_plan_file *file, cli_kernel_target *target);
/* Makes the listed program for the planned graph. Errors: E_INVALID (an index out of range, or
 * those of tn_program_from), E_NO_MEMORY. */
tn_status cli_plan_file_program(const cli_plan_file *file, const tn_graph *graph,
                                tn_program **program, tn_error *error);
/* The place of a live range, or NULL if the plan has none. */
const cli_plan_tensor *cli_plan_file_find(const cli_plan_file *file, tn_tensor_id tensor,
                                          tn_op_id op, int64_t first);

/* --- the options of a plan as words --- */

/* They are written into the plan, read back, and compared with the command line. */

/* A list of options; the value is a separate string. */
typedef struct cli_words cli_words;
struct cli_words {
    tn_report_option *rows; /* [count] */
    uint32_t count;
    size_t room;
    bool failed; /* out of memory */
};

/* Adds `name` with a printf-formatted value; format NULL: a switch. */
void cli_words_add(cli_words *words, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void cli_words_release(cli_words *words);

/* Adds every option that affects the plan of this input, with defaults spelled out: reading the
 * model, order, memory, kernels, training, and the tiles of the setup (NULL: none). */
void cli_words_of(const cli_input *input, const tn_setup *setup, cli_words *words);

/* Adds the words to a report; they must outlive the report. */
void cli_report_words(tn_report *report, const char *command, const cli_words *words);

#endif
