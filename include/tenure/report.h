/* report.h - what people and machines read: tables, JSON, CSV, the picture.
 *
 *     tn_problem *problem;
 *     tn_layout layout;
 *     tn_error error;
 *     char *table;
 *     if (tn_problem_create(NULL, &problem, &error) ||
 *         tn_problem_add(problem, &(tn_body){.size = 1024, .last = 3}, NULL, &error) ||
 *         tn_plan(problem, NULL, &layout, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     tn_report report = {.struct_size = sizeof report, .input = "ten.csv", .problem = problem,
 *                         .layout = &layout};
 *     if (tn_report_render(&report, "table", &table, NULL, &error)) // or tn_report_write to a file
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     fputs(table, stdout);
 *     tn_report_release(table);
 *     tn_layout_release(&layout);
 *     tn_problem_destroy(problem);
 *
 * Of a training step (tn_train) it tells phases, and what each tensor is for: the program alone
 * says so. A report reads; it never plans. The same data gives the same bytes: no clock, no host
 * name, no path but the input's name as given; only "table" and "summary" show `stages`.
 * Threads: any number may report at once.
 */
#ifndef TENURE_REPORT_H
#define TENURE_REPORT_H

#include <tenure/fit.h>
#include <tenure/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_stage { /* a named span of work, for `seconds` */
    const char *name;
    double seconds;
} tn_stage;

/* What a report is about. Everything is borrowed. */
/* Whose kernels a plan is for: those of this machine. Strings live as long as the report. */
typedef struct tn_report_kernels {
    const char *library; /* "onednn", "plain" */
    const char *isa;     /* tn_kernels_isa */
    uint32_t threads;
    bool rewritten; /* the graph was rewritten for them */
    bool fastest;   /* none was taken for its little scratch */
} tn_report_kernels;

/* A point of the curve of memory against time: an answer of tn_fit_sweep. Without a bound 0. */
typedef struct tn_report_point {
    uint64_t budget, bytes, time, time_bound; /* of tn_fit_result */
} tn_report_point;

/* What a fit adds to the plan of its program. Borrowed, as the report is. */
typedef struct tn_report_fit {
    const tn_fit_result *result; /* the report's occupancy is of its program */
    uint64_t budget;             /* 0: none was given */
    uint64_t fixed_bytes;        /* of tn_fit_options */
    bool abstract;               /* times are costs of a problem, not picoseconds */
    bool work; /* with `abstract`: they are operations, and what is moved, of operators in parts
                * (tn_setup_split_sweep); of `result` bytes and times alone are read */
    const tn_report_point *points; /* [point_count] budgets rising; 0: no curve */
    uint32_t point_count;
    const tn_trace *predicted; /* of tn_simulate of the program; NULL: no link is shown */
    const tn_trace *measured;  /* of a run of it, shown below the other; NULL: there was none */
} tn_report_fit;

/* What is known of a body of a problem that comes from no model. Borrowed. */
typedef struct tn_report_mark {
    uint32_t kind;    /* tn_kind; TN_KIND_COUNT: not known */
    const char *note; /* lines of text; NULL: none */
} tn_report_mark;

/* An option that decided about a plan: its name on the command line without dashes, and its value
 * as text; NULL: a switch. An option that is repeated has one entry for each value. */
typedef struct tn_report_option {
    const char *name, *value;
} tn_report_option;

typedef struct tn_report {
    size_t struct_size;
    const char *input; /* file name as the user gave it */
    const tn_problem *problem;
    const tn_layout *layout;
    const tn_occupancy *occupancy; /* NULL when the input was a problem, not a model */
    const tn_stage *stages;        /* left out of files, shown by summaries */
    uint32_t stage_count;
    const tn_context *context; /* NULL: malloc; what a rendered text is allocated with */
    /* of a run of the occupancy's program, for "trace" and "allocations", which need no layout */
    const tn_trace *trace;
    /* bytes of the whole arena of a run time, for "header": what it keeps beside the tensors of the
     * one memory, too; 0: the tensors alone */
    uint64_t arena_total;
    /* how the file that the model was read from takes a plan in, for "tflite": writes `output` as
     * tn_tflite_write_plan does; offsets [tensors of the graph]. NULL: it does not */
    tn_status (*write_plan)(void *self, const uint64_t *offsets, const char *output,
                            tn_error *error);
    void *write_plan_self;
    const tn_report_kernels *kernels; /* NULL: the plan is for the graph alone */
    const tn_report_fit *fit;         /* NULL: the plan is of no fit. For json, csv, html, svg */
    uint32_t columns;                 /* of a line of "table"; long names are cut. 0: 80 */
    const tn_report_mark *marks;      /* [bodies], without an occupancy; NULL: none. For html */
    uint64_t static_bytes; /* beside the arena: weights and state, as tn_setup_need tells them; 0:
                            * there are none, or nobody said */
    uint64_t device_bytes; /* of the memory that all of it is to fit into; 0: nobody asked */
    const char *device;    /* its name; NULL: it has none */
    /* For html: a plan of another time or model, which this one is shown beside; NULL: none. Its
     * own `before` is not read */
    const struct tn_report *before;
    /* For json: [option_count] the options that made the plan, so that it can be verified with the
     * model and nothing else, and the command that made it. NULL: the plan does not carry them */
    const tn_report_option *options;
    uint32_t option_count;
    const char *command;
} tn_report;

/* Writes the whole plan to `path`; the suffix picks the format (.json .csv .html .svg .h .tflite;
 * of a run .trace.json .trace.csv).
 * The file appears whole or not at all.
 * Errors: E_UNSUPPORTED (suffix; the message lists the known ones; what the format cannot say, as
 * another order of operators in a .tflite), E_IO, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_report_write(const tn_report *report, const char *path,
                                            tn_error *error);

/* The same into memory: `text` is NUL-terminated, owned by the caller; tn_report_release. */
TN_API TN_CHECKED tn_status tn_report_render(const tn_report *report, const char *format,
                                             char **text, size_t *size, tn_error *error);
TN_API void tn_report_release(char *text);

/* Formats by name: "json", "csv", "html", "svg", "header" are whole plans (files); "tflite" is the
 * model with its plan inside, which is written, not rendered (E_UNSUPPORTED); "summary" is the
 * one JSON object of `tenure plan --json`; "table" is the text for people; "trace" (Chrome,
 * Perfetto) and "allocations" (what `tenure replay` reads) tell of a run. */
TN_API uint32_t tn_report_format_count(void);
TN_API const char *tn_report_format_name(uint32_t index);
TN_API const char *tn_report_format_suffix(uint32_t index); /* "" for summary and table */
TN_API const char *tn_report_format_summary(uint32_t index);
TN_API bool tn_report_format_of_run(uint32_t index); /* it tells of a run, not of a plan */

#ifdef __cplusplus
}
#endif
#endif
