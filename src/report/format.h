/* format.h - the interface of a report format, and the functions that formats share.
 *
 * A format is one file in formats/ that fills in one tn_report_format, plus one line in
 * formats.def. It reads the report and adds to a text; report.c checks the report before and writes
 * the file after. Nothing here plans, reads a clock or depends on the machine.
 */
#ifndef TN_REPORT_FORMAT_H
#define TN_REPORT_FORMAT_H

#include <tenure/estimate.h>
#include <tenure/report.h>
#include <tenure/search.h>

#include "base/base.h"

typedef struct tn_report_format {
    const char *name;    /* the name users type: [a-z]+ */
    const char *suffix;  /* ".json"; "" if the output is printed, not written */
    const char *summary; /* one line for --help, no full stop */
    bool of_run;         /* reports a run: only the trace and the occupancy exist */
    /* Adds the whole output to `text`. The report is complete and consistent: input, problem and
     * layout exist, the layout has an offset per body. The caller checks text->failed
     * afterwards. */
    tn_status (*render)(const tn_report *report, tn__text *text, tn_error *error);
    /* Used instead of `render`: writes the file itself, whole or not at all. */
    tn_status (*write)(const tn_report *report, const char *path, tn_error *error);
} tn_report_format;

/* tflite.c: the offset of each tensor of the graph, TN_SIZE_UNKNOWN: not in the arena. Errors:
 * E_UNSUPPORTED for a tensor with two offsets. offsets: out, [tensors of the graph]. */
tn_status tn__report_offsets(const tn_occupancy *occupancy, const tn_layout *layout,
                             uint64_t *offsets, tn_error *error);

/* --- scene.c: items of pictures and lists --- */

#define TN__KIND_BUFFER TN_KIND_COUNT /* a body of a problem; its use is unknown */
#define TN__KIND_COUNT (TN_KIND_COUNT + 1)
const char *tn__kind_text(uint32_t kind); /* of tn_kind, and "buffer" */

/* The purposes of memory in a training step. X(NAME, name, words) */
/* clang-format off */
#define TN__ROLE_TABLE(X)                                                                          \
    X(PARAMETER, "parameter", "parameter")                                                         \
    X(CONSTANT, "constant", "constant")                                                            \
    X(OPTIMIZER_STATE, "optimizer_state", "optimizer state")                                       \
    X(GRADIENT, "gradient", "gradient")                                                            \
    X(SAVED, "saved", "activation kept for backward")                                              \
    X(PASSING, "passing", "activation passing")                                                    \
    X(INPUT, "input", "input")                                                                     \
    X(OUTPUT, "output", "output")                                                                  \
    X(WORKSPACE, "workspace", "workspace")
/* clang-format on */
typedef enum tn__role {
#define TN_X(NAME, name, words) TN__ROLE_##NAME,
    TN__ROLE_TABLE(TN_X)
#undef TN_X
        TN__ROLE_COUNT
} tn__role;

/* A named item: one live range of a tensor; without a model, a body. */
typedef struct tn__report_item {
    const char *name;        /* never NULL */
    const char *note;        /* from marks; NULL: no marks */
    const tn_tensor *tensor; /* NULL: a body without a tensor */
    tn_body_id body;
    uint32_t kind;       /* tn_kind or TN__KIND_BUFFER */
    uint64_t bytes;      /* size of the tensor or body, unaligned */
    uint64_t lo, hi;     /* the range of the body in which it is drawn */
    int64_t first, last; /* live in [first, last) */
    uint32_t step;       /* the instruction that defines it, or TN_NONE */
    uint32_t source;     /* VIEW, INPLACE: item that owns its memory; else TN_NONE */
    tn_share share;
    bool whole;    /* a view that may lie anywhere in its range */
    bool alias;    /* its operator requires sharing: it cannot have its own memory */
    tn__role role; /* with phases */
    tn_fate fate;  /* decision of a fit; an encoded form has that of its tensor. Else KEPT */
} tn__report_item;

typedef struct tn__scene_piece {
    tn_body_id body;
    tn_piece piece;
} tn__scene_piece;

typedef struct tn__scene {
    const tn_report *report;
    tn__arena arena;
    tn__report_item *items; /* models: by `first`; problems: item i is body i */
    uint32_t item_count;
    int64_t first, last;         /* range of the time axis; models: [0, number of instructions) */
    uint64_t naive;              /* sum of bytes without reuse */
    tn_memory_summary summary;   /* models; zeroes for problems */
    bool occurs[TN__KIND_COUNT]; /* kinds with an item */
    uint64_t total[TN__KIND_COUNT];
    tn_fate_totals fates; /* of a fit; else zeroes */
    uint8_t *phases;      /* [steps] tn_phase of a training step: FORWARD, BACKWARD, UPDATE (the
                      * update); NULL: no training step */
    uint64_t role_total[TN__ROLE_COUNT];   /* with phases: sum over all tensors */
    uint64_t role_at_peak[TN__ROLE_COUNT]; /* of tensors live at the peak; the sum is the peak */
    tn__scene_piece *pieces;               /* after tn__scene_pieces */
    size_t piece_count;
} tn__scene;

/* Cost: O(lives + bodies). Release in any case. */
tn_status tn__scene_make(tn__scene *scene, const tn_report *report, tn_error *error);
void tn__scene_release(tn__scene *scene);

/* --- scene.c: purposes of memory in a training step --- */

const char *tn__role_name(tn__role role);  /* "saved": for machines */
const char *tn__role_words(tn__role role); /* "activation kept for backward" */
/* "forward", "backward" or "update". */
const char *tn__phase_words(uint8_t phase);

/* --- scene.c: readers of each item --- */

/* steps[start[i]] ... steps[start[i + 1] - 1] read item i, in ascending order; each step once. */
typedef struct tn__uses {
    uint32_t *start; /* [items + 1] */
    uint32_t *steps;
} tn__uses;
/* For a model. Memory is from the scene's arena. Cost: O(lives + operands). */
tn_status tn__uses_make(tn__scene *scene, tn__uses *uses, tn_error *error);

/* --- scene.c: pieces and steps --- */

/* Lists the pieces, body by body, of bodies that differ from the rectangle of a single item: bodies
 * with several items or several pieces, or live longer than their item. */
tn_status tn__scene_pieces(tn__scene *scene, tn_error *error);

/* The operator of a step: type ("Conv", or "put"), and name, which may be "". */
typedef struct tn__step {
    const char *type, *name;
} tn__step;
tn__step tn__step_of(const tn_report *report, uint32_t step);
uint32_t tn__step_count(const tn_report *report); /* 0 without a model */

/* Pieces of a body as planned. If the body lists none, one piece of its full size is written into
 * *one. A body of size 0 has no pieces. */
const tn_piece *tn__body_pieces(const tn_body *body, tn_piece *one, uint32_t *count);

/* The verdict of the layout in a few words. For a model, a plan is optimal for one order only. */
const char *tn__words_verdict(const tn_report *report);

/* The kernel library for which memory is planned; NULL: the graph alone. */
void tn__words_whom(tn__text *text, const tn_report_kernels *kernels);    /* for people */
void tn__words_kernels(tn__text *text, const tn_report_kernels *kernels); /* as JSON */

/* --- curve.c: live bytes over time --- */

typedef struct tn__curve {
    const tn_context *context;
    size_t count, room;
    int64_t *at;    /* [count], rising */
    uint64_t *live; /* [count], bytes in [at[i], at[i + 1]); the last is 0; saturates */
    uint64_t peak;  /* the maximum, first reached at peak_at */
    int64_t peak_at;
} tn__curve;
/* Cost: O(n log n) for n pieces. Release in any case. */
tn_status tn__curve_make(tn__curve *curve, const tn_problem *problem, const tn_context *context,
                         tn_error *error);
void tn__curve_release(tn__curve *curve);
/* The step that a report calls the peak. For a model it is the step of its summary (where the lower
 * bound is reached, with alignment), otherwise the first step with the most live bytes. */
int64_t tn__peak_at(const tn__scene *scene, const tn__curve *curve);

/* A holder of memory at one instant: one row per live body, most bytes first, ties by body. */
typedef struct tn__holder {
    tn_body_id body;
    uint32_t item;    /* the item last written into it */
    uint32_t sharing; /* number of live items in it */
    uint64_t bytes;
} tn__holder;
/* `holders` lies in the scene's arena. */
tn_status tn__holders_at(tn__scene *scene, int64_t at, const tn__holder **holders, uint32_t *count,
                         tn_error *error);

/* --- plan_facts.c: the same run with a caching pool --- */

/* --- run_events.c: transfers of a fit's program, and waiting for them --- */

typedef struct tn__copy { /* picoseconds from the start of the run */
    uint32_t step;
    bool out; /* to the host */
    uint64_t bytes, start, end;
} tn__copy;

typedef struct tn__wait { /* time in which the main stream was stalled */
    uint32_t step;
    uint64_t start, duration;
} tn__wait;

/* Times of the main stream and of copies in one run, from a trace. */
typedef struct tn__run_times {
    uint64_t *reach; /* [steps + 1] when each step begins; the last: when all has ended */
    tn__copy *copies;
    tn__wait *waits;
    uint32_t copy_count, wait_count;
    uint64_t waited; /* total of `waits` */
} tn__run_times;
/* Reads the last run of the trace; only SWAP_OUT and SWAP_IN are copies. A simulation shows waiting
 * as the time before a step. A real run also spends other time there, so with `measured` only steps
 * that wait for a signal are counted. Memory is from the scene's arena. Errors: E_NO_MEMORY. */
tn_status tn__run_times_make(tn__scene *scene, const tn_trace *trace, bool measured,
                             tn__run_times *link, tn_error *error);

/* --- run_events.c: names of events --- */

typedef struct tn__event_words { /* never NULL */
    const char *name;            /* of the operator; without one, of the tensor or block */
    const char *category;        /* type of the operator, opcode, "alloc" or "free" */
    const char *tensor, *kind;
    const char *op, *type; /* the operator's name, or its type if it is unnamed; its type */
} tn__event_words;
tn__event_words tn__event_words_of(const tn_report *report, const tn_event *event);

/* --- words.c: numbers and names as text --- */

#define TN__WORDS_MAX 32 /* 2^64 with its commas has 26 characters */
const char *tn__words_iec(uint64_t bytes, char text[TN__WORDS_MAX]); /* "9.2 MiB" */
void tn__words_integer(tn__text *text, uint64_t value);              /* "9633792", fast */
void tn__words_signed(tn__text *text, int64_t value);
/* The shortest decimal that reads back the same, with a point in every locale; null if it is not
 * finite. */
void tn__words_number(tn__text *text, double value);
/* peak / lower_bound - 1; 0 if they are equal; infinite if only the bound is 0. */
double tn__words_gap(uint64_t peak, uint64_t lower_bound);
/* "1x64x112x112", "scalar", "? x 3" with unknown extents as "?"; "" without a tensor. */
void tn__words_shape(tn__text *text, const tn_tensor *tensor);
/* `string` in exactly `width` terminal columns: control characters and bad UTF-8 as "?", shortened
 * in the middle (the end of a path is its most useful part), padded on the right (left if
 * `right_aligned`). */
void tn__words_cell(tn__text *text, const char *string, size_t width, bool right_aligned);
/* The colour of a kind as "#rrggbb", from the same palette as the page. */
const char *tn__words_colour(uint32_t kind);
const char *tn__words_role_colour(tn__role role);
/* The same for the decision about a tensor. */
const char *tn__words_fate_colour(tn_fate fate);
/* "0.0478 s", or the bare cost of a problem. */
void tn__words_time(tn__text *text, const tn_report_fit *fit, uint64_t time);

/* --- html_data.c: the data of a fit on the page; nothing without a fit --- */
tn_status tn__html_fit(tn__scene *scene, tn__text *text, tn_error *error);

/* --- plan_facts.c: the result of a fit --- */

#define TN__FIT_FACTS 12
typedef struct tn__fit_fact {
    const char *name;
    uint64_t value;
} tn__fit_fact;
void tn__fit_facts(const tn_report_fit *fit, tn__fit_fact facts[TN__FIT_FACTS]);
/* An object in the plan as JSON; nothing without a fit. */
void tn__fit_json(tn__text *text, const tn__scene *scene);

/* --- sha256.c --- */

/* "sha256-" and the digest in base64, which a content security policy uses to allow one script. */
#define TN__SHA256_SOURCE_MAX 52
const char *tn__sha256_source(const void *bytes, size_t size, char text[TN__SHA256_SOURCE_MAX]);

#endif
