/* format.h - the interface of a report format, and functions that the formats share.
 *
 * A format is one file in formats/ that defines one tn_report_format, and one line in formats.def.
 * It reads a report and adds its output to a text. report.c checks the report before that and
 * writes the file afterwards. Nothing here plans, reads a clock or depends on the machine.
 */
#ifndef TN_REPORT_FORMAT_H
#define TN_REPORT_FORMAT_H

#include <tenure/estimate.h>
#include <tenure/report.h>
#include <tenure/search.h>

#include "base/base.h"

typedef struct tn_report_format {
    /* name of the format as users type it, such as node_data: letters and underscores */
    const char *name;
    /* suffix of the format's files, such as ".json"; "" if the output is printed and not written */
    const char *suffix;
    const char *summary; /* description of the format in --help: one line, without a full stop */
    bool of_run; /* true: the format shows a run: the report has only a trace and an occupancy */
    /* Adds the whole output to `text`. The report is complete and consistent: input, problem and
     * layout exist, and the layout has an offset per buffer. The caller checks text->failed
     * afterwards. */
    tn_status (*render)(const tn_report *report, tn__text *text, tn_error *error);
    /* If not NULL, it is used instead of `render`: writes the file itself, either completely or not
     * at all. */
    tn_status (*write)(const tn_report *report, const char *path, tn_error *error);
} tn_report_format;

/* Sets offsets[t] to the offset of tensor t of the graph, or to TN_SIZE_UNKNOWN if the tensor is
 * not in the arena. Errors: E_UNSUPPORTED if a tensor has two offsets. The function is in
 * tflite.c. */
tn_status tn__report_offsets(const tn_occupancy *occupancy, const tn_layout *layout,
                             uint64_t *offsets, tn_error *error);

/* --- scene.c: items of pictures and lists --- */

/* kind of a buffer of a problem; its use is unknown */
#define TN__KIND_BUFFER TN_KIND_COUNT
#define TN__KIND_COUNT (TN_KIND_COUNT + 1)
/* returns the name of a tn_kind, or "buffer" for TN__KIND_BUFFER */
const char *tn__kind_text(uint32_t kind);

/* The purposes of memory in a training step, each as X(NAME, name, words). */
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

/* A named item of a picture or list: one live range of a tensor. Without a model, it is a
 * buffer. */
typedef struct tn__report_item {
    const char *name;        /* name of the item; never NULL */
    const char *note;        /* text of the report's mark for the buffer; NULL: no marks */
    const tn_tensor *tensor; /* the tensor of the item; NULL for a buffer or a workspace */
    tn_body_id body;
    uint32_t kind;       /* kind of the item: a tn_kind, or TN__KIND_BUFFER */
    uint64_t bytes;      /* size of the tensor or buffer without alignment */
    uint64_t lo, hi;     /* range of bytes of the buffer in which the item is drawn */
    int64_t first, last; /* the item is live in the steps [first, last) */
    uint32_t step;       /* index of the instruction that defines the item, or TN_NONE */
    /* the item of which this item uses the memory, as a view or as an in-place result; TN_NONE:
     * this item has memory of its own */
    uint32_t source;
    tn_share share;
    bool whole; /* true if the item is a view of unknown position within [lo, hi) */
    /* true: the operator of the item requires that the item shares the memory of `source` */
    bool alias;
    tn__role role; /* purpose of the item; valid if the scene has phases */
    /* decision of a fit about the tensor, or about the tensor of which this one is an encoded form;
     * TN_FATE_KEPT without a fit */
    tn_fate fate;
} tn__report_item;

typedef struct tn__scene_piece {
    tn_body_id body;
    tn_piece piece;
} tn__scene_piece;

typedef struct tn__scene {
    const tn_report *report;
    tn__arena arena;
    tn__report_item *items; /* the items, sorted by `first`; without a model, item i is buffer i */
    uint32_t item_count;
    int64_t first, last; /* range of the time axis; with a model: [0, number of instructions) */
    uint64_t naive;      /* bytes that all buffers would need if no memory was reused */
    tn_memory_summary summary;   /* totals of the memory of a model; zeroes for a problem */
    bool occurs[TN__KIND_COUNT]; /* [kind] whether any item has the kind */
    uint64_t total[TN__KIND_COUNT];
    tn_fate_totals fates; /* totals of the decisions of a fit; zeroes without a fit */
    /* [steps] phase of each step of a training step: TN_PHASE_FORWARD, TN_PHASE_BACKWARD or
     * TN_PHASE_UPDATE; NULL: the program is no training step */
    uint8_t *phases;
    /* bytes of all tensors of each role; valid with `phases` */
    uint64_t role_total[TN__ROLE_COUNT];
    /* bytes of the tensors that are live at the peak; their sum is the peak */
    uint64_t role_at_peak[TN__ROLE_COUNT];
    tn__scene_piece *pieces; /* the parts of buffers that are drawn; tn__scene_pieces sets them */
    size_t piece_count;
} tn__scene;

/* Makes the items of a report. The caller releases the scene, also after an error. Cost: O(live
 * ranges + buffers). */
tn_status tn__scene_make(tn__scene *scene, const tn_report *report, tn_error *error);
void tn__scene_release(tn__scene *scene);

/* --- scene.c: purposes of memory in a training step --- */

/* returns the identifier of a role for JSON, such as "saved" */
const char *tn__role_name(tn__role role);
/* returns words for people, such as "activation kept for backward" */
const char *tn__role_words(tn__role role);
/* Returns "forward", "backward" or "update". */
const char *tn__phase_words(uint8_t phase);

/* --- scene.c: readers of each item --- */

/* The steps that read each item: item i is read by steps[start[i]] to steps[start[i + 1] - 1], in
 * ascending order. A step is listed once even if it reads the item several times. */
typedef struct tn__uses {
    uint32_t *start; /* [items + 1] index of the first reader of each item */
    uint32_t *steps;
} tn__uses;
/* Finds the readers of all items of a model. The memory is owned by the scene. Cost: O(live ranges
 * + operands). */
tn_status tn__uses_make(tn__scene *scene, tn__uses *uses, tn_error *error);

/* --- pieces and steps (scene.c, curve.c); the verdict and the kernels as words (words.c) --- */

/* Lists the pieces of all buffers that cannot be drawn as the rectangle of a single item, buffer by
 * buffer. These are buffers with several items or several pieces, or that are live longer than
 * their item. */
tn_status tn__scene_pieces(tn__scene *scene, tn_error *error);

/* The operator of a step: its type ("Conv", or an opcode such as "put"), and its name, which may be
 * "". */
typedef struct tn__step {
    const char *type, *name;
} tn__step;
tn__step tn__step_of(const tn_report *report, uint32_t step);
/* number of steps of the program; 0 without a model */
uint32_t tn__step_count(const tn_report *report);

/* Returns the pieces of a buffer as planned. If the buffer lists no pieces, one piece of its full
 * size is stored in *one and returned. A buffer of size 0 has no pieces. */
const tn_piece *tn__body_pieces(const tn_body *body, tn_piece *one, uint32_t *count);

/* Returns the verdict of the layout in a few words. For a model, an optimal plan is optimal only
 * for one order of operators. */
const char *tn__words_verdict(const tn_report *report);

/* Both functions add the kernel library for which memory is planned. tn__words_whom adds it as
 * words for people, and tn__words_kernels as a JSON value. With `kernels` NULL, memory is planned
 * for the graph alone. */
void tn__words_whom(tn__text *text, const tn_report_kernels *kernels); /* writes words for people */
void tn__words_kernels(tn__text *text, const tn_report_kernels *kernels); /* writes a JSON value */

/* --- curve.c: live bytes over time --- */

typedef struct tn__curve {
    const tn_context *context;
    size_t count, room;
    int64_t *at; /* [count] the times at which the curve changes, in rising order */
    /* [count] live bytes in [at[i], at[i + 1]); the last entry is 0; larger sums than 2^64 - 1 are
     * saturated */
    uint64_t *live;
    uint64_t peak; /* the most bytes that are live at one time, first reached at peak_at */
    int64_t peak_at;
} tn__curve;
/* Computes the curve of live bytes. The caller releases the curve, also after an error. Cost: O(n
 * log n) for n pieces. */
tn_status tn__curve_make(tn__curve *curve, const tn_problem *problem, const tn_context *context,
                         tn_error *error);
void tn__curve_release(tn__curve *curve);
/* Returns the step that a report calls the peak. For a model, it is the step of its summary, where
 * the lower bound with alignment is reached. Otherwise it is the first step with the most live
 * bytes. */
int64_t tn__peak_at(const tn__scene *scene, const tn__curve *curve);

/* A buffer that is live at a given time. Lists of holders are sorted by bytes, largest first, and
 * then by buffer. */
typedef struct tn__holder {
    tn_body_id body;
    uint32_t item;    /* the item that was last written into the buffer */
    uint32_t sharing; /* number of live items in the buffer */
    uint64_t bytes;
} tn__holder;
/* Lists the buffers that are live at time `at`. The scene owns the list. */
tn_status tn__holders_at(tn__scene *scene, int64_t at, const tn__holder **holders, uint32_t *count,
                         tn_error *error);

/* --- run_events.c: transfers of a fit's program, and waiting for them --- */

/* a copy between device and host; times in picoseconds from the start of the run */
typedef struct tn__copy {
    uint32_t step;
    bool out; /* true if the copy goes from the device to the host */
    uint64_t bytes, start, end;
} tn__copy;

typedef struct tn__wait { /* a time during which the main stream was stalled, in picoseconds */
    uint32_t step;
    uint64_t start, duration;
} tn__wait;

/* The times of the main stream and of copies in one run, from a trace. */
typedef struct tn__run_times {
    uint64_t *reach; /* [steps + 1] when each step begins; the last entry is the end of the run */
    tn__copy *copies;
    tn__wait *waits;
    uint32_t copy_count, wait_count;
    uint64_t waited; /* sum of the durations in `waits` */
} tn__run_times;
/* Reads the last run of the trace. Only the instructions SWAP_OUT and SWAP_IN are counted as
 * copies. In a simulation, all time before a step is waiting. A real run spends other time there,
 * too, so with `measured` true only steps that wait for a signal are counted. The scene owns the
 * memory. Errors: E_NO_MEMORY. */
tn_status tn__run_times_make(tn__scene *scene, const tn_trace *trace, bool measured,
                             tn__run_times *link, tn_error *error);

/* --- run_events.c: names of events --- */

typedef struct tn__event_words { /* the names of an event; none of them is NULL */
    const char *name;            /* name of the operator, or else of the tensor or block */
    const char *category;        /* type of the operator, an opcode, "alloc" or "free" */
    const char *tensor, *kind;
    /* name of the operator, or its type if it has no name; type of the operator */
    const char *op, *type;
} tn__event_words;
tn__event_words tn__event_words_of(const tn_report *report, const tn_event *event);

/* --- words.c: numbers and names as text --- */

#define TN__WORDS_MAX 32 /* buffer size for a number; 2^64 has 26 characters with commas */
/* writes a size such as "9.2 MiB" */
const char *tn__words_iec(uint64_t bytes, char text[TN__WORDS_MAX]);
/* adds the digits of a number, such as "9633792"; faster than printf */
void tn__words_integer(tn__text *text, uint64_t value);
void tn__words_signed(tn__text *text, int64_t value);
/* Adds the shortest decimal number that is read back as `value`, with a point in every locale. Adds
 * null if `value` is not finite. */
void tn__words_number(tn__text *text, double value);
/* Returns peak / lower_bound - 1. The gap is 0 if both are equal, and infinite if only the bound is
 * 0. */
double tn__words_gap(uint64_t peak, uint64_t lower_bound);
/* Adds the shape of a tensor, such as "1x64x112x112" or "scalar". Unknown extents are "?", as in
 * "?x3". For a sequence the number of its tensors comes first, as in "3 times 8x8". Adds nothing if
 * `tensor` is NULL. */
void tn__words_shape(tn__text *text, const tn_tensor *tensor);
/* Adds `string` in exactly `width` columns of a terminal. Control characters and bytes that are not
 * UTF-8 become "?". A string that is too long is cut in the middle, because the end of a path is
 * its most useful part. A shorter string is padded on the right, or on the left if
 * `right_aligned`. */
void tn__words_cell(tn__text *text, const char *string, size_t width, bool right_aligned);
/* Returns the colour of a kind as "#rrggbb". The pages use the same palette. */
const char *tn__words_colour(uint32_t kind);
const char *tn__words_role_colour(tn__role role);
/* Returns the colour of a decision about a tensor as "#rrggbb". */
const char *tn__words_fate_colour(tn_fate fate);
/* Adds a time such as "0.0478 s". Costs of a problem have no unit and are added as numbers. */
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
/* Adds the result of a fit as an object of the JSON plan; adds nothing without a fit. */
void tn__fit_json(tn__text *text, const tn__scene *scene);

/* --- sha256.c --- */

/* Writes "sha256-" and the digest of `bytes` in base64. A content security policy with this text
 * allows the script that has these bytes. */
#define TN__SHA256_SOURCE_MAX 52
const char *tn__sha256_source(const void *bytes, size_t size, char text[TN__SHA256_SOURCE_MAX]);

#endif
