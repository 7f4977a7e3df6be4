/* report.h - renders a plan or a run as table, JSON, CSV, HTML, SVG, C header or trace.
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
 * For a training step (tn_train) the report shows phases and the role of each tensor, derived from
 * the program. Rendering only reads; it never plans. The same data gives the same bytes: the output
 * contains no clock, no host name and no path except the input's name as given. Only "table" and
 * "summary" show the times in `stages`.
 * Threads: any number of threads may render at once.
 */
#ifndef TENURE_REPORT_H
#define TENURE_REPORT_H

#include <tenure/fit.h>
#include <tenure/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of experimental headers. Stable calls only pass pointers to them on. */
struct tn_occupancy;
struct tn_trace;

typedef struct tn_stage { /* A named stage of the work, with its wall time. */
    const char *name;
    double seconds;
} tn_stage;

/* The kernel library that a plan is for, on this machine. The strings must outlive the report. */
typedef struct tn_report_kernels {
    const char *library; /* name of the kernel library: "onednn", "plain" */
    const char *isa;     /* instruction set of the kernels, as tn_kernels_isa returns it */
    uint32_t threads;
    bool rewritten; /* whether the graph was rewritten for these kernels */
    /* whether every kernel is the fastest one; if false, some were chosen to save scratch */
    bool fastest;
    uint64_t spare[2]; /* reserved for later fields: 0 (status.h) */
} tn_report_kernels;

/* A point of the trade-off between memory and time: a result of tn_fit_sweep. time_bound 0: no
 * bound is known. */
typedef struct tn_report_point {
    /* values of the fields with these names in the tn_fit_result */
    uint64_t budget, bytes, time, time_bound;
} tn_report_point;

/* What tn_fit adds to the plan of its program. Everything in it is borrowed. */
typedef struct tn_report_fit {
    /* the result; the occupancy of the report is that of the result's program */
    const tn_fit_result *result;
    uint64_t budget;      /* budget in bytes; 0: no budget was given */
    uint64_t fixed_bytes; /* the `fixed_bytes` of tn_fit_options */
    bool abstract;        /* whether times are costs of a problem, not picoseconds */
    /* with `abstract`: times are operations and bytes moved by split operators
     * (tn_setup_split_sweep); only bytes and times of `result` are read */
    bool work;
    /* [point_count] points of a curve, by rising budget; point_count 0: there is no curve */
    const tn_report_point *points;
    uint32_t point_count;
    const struct tn_trace
        *predicted; /* prediction by tn_simulate for the program; NULL: no transfers are shown */
    /* trace of a run, which is shown below the predicted one; NULL: no run */
    const struct tn_trace *measured;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_report_fit;

/* Facts about a body (buffer) of a problem that does not come from a model. Everything is
 * borrowed. */
typedef struct tn_report_mark {
    uint32_t kind;    /* kind of the body, a tn_kind; TN_KIND_COUNT: not known */
    const char *note; /* lines of text about the body; NULL: no text */
} tn_report_mark;

/* A request that failed because the device was full. Everything is borrowed. */
typedef struct tn_report_oom {
    int64_t time;    /* time of the request, on the time axis of the problem */
    uint64_t wanted; /* bytes of the request */
    /* bytes in use at the time of the request, and bytes of segments at that time */
    uint64_t requested, reserved;
    uint64_t device_free; /* bytes that were free on the device at the time of the request */
} tn_report_oom;

/* An option that affected the plan: its name on the command line without dashes, and its value as
 * text (NULL: a flag). A repeated option has one entry per value. */
typedef struct tn_report_option {
    const char *name, *value;
} tn_report_option;

/* The content of a report. Everything is borrowed. */
typedef struct tn_report {
    size_t struct_size;
    const char *input; /* name of the input file as the user gave it */
    const tn_problem *problem;
    const tn_layout *layout;
    /* occupancy of the program; NULL if the input was a problem, not a model */
    const struct tn_occupancy *occupancy;
    const tn_stage *stages; /* stages of the work, shown only in "table" and "summary" */
    uint32_t stage_count;
    const tn_context *context; /* context that allocates rendered text; NULL: malloc */
    /* trace of a run of the occupancy's program, for "trace" and "allocations", which need no
     * layout */
    const struct tn_trace *trace;
    /* for "header": bytes of the run time's whole arena, including memory that the run time needs
     * in addition to the tensors; 0: the tensors only */
    uint64_t arena_total;
    /* for "tflite": stores the plan in the format that the model was read from, and writes the file
     * `output`, as tn_tflite_write_plan does; offsets [tensors of the graph]. NULL: the format of
     * the model has no plans */
    tn_status (*write_plan)(void *self, const uint64_t *offsets, const char *output,
                            tn_error *error);
    void *write_plan_self;
    /* kernel library of the plan; NULL: the plan is for the graph alone */
    const tn_report_kernels *kernels;
    /* for json, csv, html, svg: what tn_fit adds; NULL: the plan does not come from tn_fit */
    const tn_report_fit *fit;
    uint32_t columns; /* width of "table", in which long names are shortened. 0: 80 */
    /* for html: [bodies] facts about each body, if there is no occupancy; NULL: no facts */
    const tn_report_mark *marks;
    /* bytes of weights and state outside the arena, as in tn_setup_need; 0: no such bytes, or the
     * number is not known */
    uint64_t static_bytes;
    /* capacity in bytes of the device that the plan is compared with; 0: no comparison */
    uint64_t device_bytes;
    const char *device; /* name of the device; NULL: it has no name */
    /* for html: an earlier plan or the plan of another model, to compare with; NULL: no comparison.
     * The `before` of that report is ignored */
    const struct tn_report *before;
    /* for json: [option_count] the options that made the plan, and the command that made it, so
     * that the plan can be verified with only the model. NULL: not stored in the plan */
    const tn_report_option *options;
    uint32_t option_count;
    const char *command;
    /* for html, with `marks`: the requests that failed, by rising time; and the most bytes that
     * segments had at any time. 0: no such requests, or not known */
    const tn_report_oom *ooms;
    uint32_t oom_count;
    uint64_t reserved_peak;
    const char *text; /* for html: lines of text below the picture, such as tables. NULL: no text */
    /* number of streams that the program was to use (tn_program_on_streams); then the answer says
     * how many it uses. 0: the answer says so only if there are several */
    uint64_t streams;
} tn_report;

/* Writes the whole plan to the file `path`. The suffix selects the format (.json .csv .html .svg .h
 * .tflite; for a run .trace.json .trace.csv). The file is replaced atomically. Errors:
 * E_UNSUPPORTED (an unknown suffix, for which the message lists the known ones; or content that the
 * format cannot express, such as another order of operators in a .tflite), E_IO, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_report_write(const tn_report *report, const char *path,
                                            tn_error *error);

/* Renders a report into memory. `text` ends with NUL; the caller releases it with
 * tn_report_release. */
TN_API TN_CHECKED tn_status tn_report_render(const tn_report *report, const char *format,
                                             char **text, size_t *size, tn_error *error);
TN_API void tn_report_release(char *text);

/* The formats. "json", "csv", "html", "svg" and "header" are whole plans (files). "tflite" is the
 * model with its plan inside; it can be written, but not rendered (E_UNSUPPORTED). "summary" is the
 * JSON object of `tenure plan --json`. "table" is text for people. "trace" (Chrome, Perfetto) and
 * "allocations" (the input of `tenure replay`) describe a run. */
TN_API uint32_t tn_report_format_count(void);
TN_API const char *tn_report_format_name(uint32_t index);
/* Returns the suffix of a format; "" for summary and table. */
TN_API const char *tn_report_format_suffix(uint32_t index);
TN_API const char *tn_report_format_summary(uint32_t index);
/* Whether a format describes a run, not a plan. */
TN_API bool tn_report_format_of_run(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
