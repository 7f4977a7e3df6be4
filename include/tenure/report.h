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

typedef struct tn_stage { /* a named stage of the work, with its wall time */
    const char *name;
    double seconds;
} tn_stage;

/* The kernel library that a plan is for, on this machine. Strings must outlive the report. */
typedef struct tn_report_kernels {
    const char *library; /* "onednn", "plain" */
    const char *isa;     /* tn_kernels_isa */
    uint32_t threads;
    bool rewritten;    /* the graph was rewritten for these kernels */
    bool fastest;      /* every kernel is the fastest one; none was chosen to save scratch */
    uint64_t spare[2]; /* 0 (status.h) */
} tn_report_kernels;

/* A point of the trade-off between memory and time: a result of tn_fit_sweep. time_bound 0: no
 * bound. */
typedef struct tn_report_point {
    uint64_t budget, bytes, time, time_bound; /* of tn_fit_result */
} tn_report_point;

/* What tn_fit adds to the plan of its program. Borrowed. */
typedef struct tn_report_fit {
    const tn_fit_result *result; /* the report's occupancy is of its program */
    uint64_t budget;             /* bytes; 0: none was given */
    uint64_t fixed_bytes;        /* of tn_fit_options */
    bool abstract;               /* times are costs of a problem, not picoseconds */
    bool work; /* with `abstract`: times are operations and bytes moved by split operators
                * (tn_setup_split_sweep); only bytes and times of `result` are read */
    const tn_report_point *points; /* [point_count] by rising budget; 0: no curve */
    uint32_t point_count;
    const struct tn_trace
        *predicted; /* from tn_simulate of the program; NULL: no transfers are shown */
    const struct tn_trace *measured; /* from a run, shown below the predicted one; NULL: no run */
    uint64_t spare[4];               /* 0 (status.h) */
} tn_report_fit;

/* Facts about a body (buffer) of a problem that comes from no model. Borrowed. */
typedef struct tn_report_mark {
    uint32_t kind;    /* tn_kind; TN_KIND_COUNT: unknown */
    const char *note; /* lines of text; NULL: none */
} tn_report_mark;

/* A request that failed because the device was full. Borrowed. */
typedef struct tn_report_oom {
    int64_t time;                 /* on the time axis of the problem */
    uint64_t wanted;              /* bytes of the request */
    uint64_t requested, reserved; /* bytes in use, and bytes of segments, at that time */
    uint64_t device_free;         /* bytes that were free on the device */
} tn_report_oom;

/* An option that affected the plan: its name on the command line without dashes, and its value as
 * text (NULL: a flag). A repeated option has one entry per value. */
typedef struct tn_report_option {
    const char *name, *value;
} tn_report_option;

/* The content of a report. Everything is borrowed. */
typedef struct tn_report {
    size_t struct_size;
    const char *input; /* file name as the user gave it */
    const tn_problem *problem;
    const tn_layout *layout;
    const struct tn_occupancy *occupancy; /* NULL if the input was a problem, not a model */
    const tn_stage *stages;               /* for "table" and "summary"; not in files */
    uint32_t stage_count;
    const tn_context *context; /* allocates rendered text; NULL: malloc */
    /* a run of the occupancy's program, for "trace" and "allocations", which need no layout */
    const struct tn_trace *trace;
    /* for "header": bytes of the run time's whole arena, with memory that it needs in addition to
     * the tensors; 0: the tensors only */
    uint64_t arena_total;
    /* for "tflite": stores the plan in the format that the model was read from; writes `output` as
     * tn_tflite_write_plan does; offsets [tensors of the graph]. NULL: that format has no plans */
    tn_status (*write_plan)(void *self, const uint64_t *offsets, const char *output,
                            tn_error *error);
    void *write_plan_self;
    const tn_report_kernels *kernels; /* NULL: the plan is for the graph alone */
    const tn_report_fit *fit;         /* NULL: not from tn_fit. For json, csv, html, svg */
    uint32_t columns;                 /* width of "table"; long names are shortened. 0: 80 */
    const tn_report_mark *marks;      /* [bodies], without an occupancy; NULL: none. For html */
    uint64_t static_bytes; /* weights and state outside the arena, as from tn_setup_need; 0: none,
                            * or unknown */
    uint64_t device_bytes; /* capacity of the device to check against; 0: no check */
    const char *device;    /* its name; NULL: unnamed */
    /* For html: an earlier plan or the plan of another model, to compare with; NULL: none. Its own
     * `before` is ignored */
    const struct tn_report *before;
    /* For json: [option_count] the options that made the plan, so that it can be verified with
     * only the model, and the command that made it. NULL: not stored in the plan */
    const tn_report_option *options;
    uint32_t option_count;
    const char *command;
    /* For html, with `marks`: the requests that failed, by rising time; and the most bytes that
     * segments had at any time. 0: none, or unknown */
    const tn_report_oom *ooms;
    uint32_t oom_count;
    uint64_t reserved_peak;
    const char *text; /* For html: lines of text below the picture, such as tables. NULL: none */
} tn_report;

/* Writes the whole plan to `path`. The suffix selects the format (.json .csv .html .svg .h .tflite;
 * for a run .trace.json .trace.csv). The file is replaced atomically.
 * Errors: E_UNSUPPORTED (an unknown suffix; the message lists the known ones; or content that the
 * format cannot express, such as another order of operators in a .tflite), E_IO, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_report_write(const tn_report *report, const char *path,
                                            tn_error *error);

/* Renders into memory: `text` is NUL-terminated; the caller releases it with tn_report_release. */
TN_API TN_CHECKED tn_status tn_report_render(const tn_report *report, const char *format,
                                             char **text, size_t *size, tn_error *error);
TN_API void tn_report_release(char *text);

/* The formats. "json", "csv", "html", "svg" and "header" are whole plans (files). "tflite" is the
 * model with its plan inside; it can be written, not rendered (E_UNSUPPORTED). "summary" is the
 * JSON object of `tenure plan --json`. "table" is text for people. "trace" (Chrome, Perfetto) and
 * "allocations" (the input of `tenure replay`) describe a run. */
TN_API uint32_t tn_report_format_count(void);
TN_API const char *tn_report_format_name(uint32_t index);
TN_API const char *tn_report_format_suffix(uint32_t index); /* "" for summary and table */
TN_API const char *tn_report_format_summary(uint32_t index);
TN_API bool tn_report_format_of_run(uint32_t index); /* the format describes a run, not a plan */

#ifdef __cplusplus
}
#endif
#endif
