/* timeline.h - the internal parts of a timeline of several ranks.
 *
 *   timeline.c        ranks, their runs and totals, the lanes of a rank, and a rank as bytes
 *   timeline_ranks.c  combines predictions of single ranks into one in which ranks wait for each
 *                     other
 *   timeline_svg.c    draws the timeline as a picture
 *   timeline_page.c   writes it as JSON, and as a page that shows the JSON (page/ranks.js)
 */
#ifndef TN_REPORT_TIMELINE_H
#define TN_REPORT_TIMELINE_H

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "base/base.h"

/* The kinds of lanes, in the order of drawing, each as X(NAME, name, words). */
/* clang-format off */
#define TN__TRACK_TABLE(X)                                                                         \
    X(COMPUTE, "compute", "computes")                                                              \
    X(CALL, "talk", "calls of other ranks")                                                        \
    X(COPY, "copy", "copies")
/* clang-format on */
typedef enum tn__track {
#define TN_X(NAME, name, words) TN__TRACK_##NAME,
    TN__TRACK_TABLE(TN_X)
#undef TN_X
        TN__TRACK_COUNT
} tn__track;
const char *tn__track_name(tn__track lane);

typedef enum tn__span_phase { /* the phase of a training step to which an operator belongs */
                              TN__SPAN_FORWARD,
                              TN__SPAN_BACKWARD,
                              TN__SPAN_UPDATE,
                              TN__SPAN_PHASES
} tn__span_phase;

typedef struct tn__timeline_span {
    double start_s, duration_s;
    uint64_t bytes, live;        /* bytes that are moved; live bytes of the arena during the span */
    uint32_t stream, name, type; /* `name` and `type` are offsets in `strings` */
    uint32_t step;               /* index of the span's step in tn__line_run.steps, or TN_NONE */
    uint8_t lane, phase;
} tn__timeline_span;

typedef enum tn__step_call {
    TN__STEP_ALONE,
    TN__STEP_SEND,
    TN__STEP_RECV,
    TN__STEP_GROUP,
    TN__STEP_CALLS
} tn__step_call;

typedef struct tn__line_step { /* an instruction of a predicted run, in program order */
    double duration_s;
    /* numbers that have the meaning of the fields in tn_instruction */
    uint32_t stream, wait, signal, peer, tag, group;
    uint8_t call;
    uint8_t link;  /* kind of the link: a tn_link */
    uint8_t walks; /* executed by the thread that goes through the program, not by another stream */
} tn__line_step;

typedef struct tn__line_run {
    tn__timeline_span *spans; /* [count] the spans of the run, sorted by start */
    size_t count, room;
    /* [step_count]; if the count is 0, dependencies between ranks are unknown */
    tn__line_step *steps;
    size_t step_count;
    tn__text strings; /* names and types of the spans, each ending with a NUL */
    uint32_t number;  /* number of the run in its trace */
} tn__line_run;

typedef struct tn__line_rank {
    char label[64];
    uint64_t planned;
    tn__line_run runs[TN_TIMELINE_KINDS];
} tn__line_rank;

struct tn_timeline {
    tn_context context;
    char *input;
    size_t input_size;
    uint32_t count;
    tn__line_rank *ranks; /* [count] */
};

static inline const char *tn__span_text(const tn__line_run *run, uint32_t at) {
    return run->strings.data + at;
}

/* timeline.c */
tn_status tn__line_run_sort(const tn_context *context, tn__line_run *run, tn_error *error);
const char *tn__line_kind(tn_timeline_kind kind);
/* Sets *start_s to the time when the first rank began, and *span_s to the seconds until the last
 * rank ended. Returns false if there is no run of that kind. */
bool tn__line_span(const tn_timeline *line, tn_timeline_kind kind, double *start_s, double *span_s);

/* --- timeline.c: lanes --- */

typedef struct tn__line_lane { /* a lane of one rank */
    tn__track lane;
    uint32_t stream;
} tn__line_lane;
#define TN__LINE_LANES_MOST 12u /* if a rank has more lanes, the last of these shows all others */
/* Lists the lanes that occur in a run, sorted by kind and stream. Returns their number. */
uint32_t tn__line_lanes(const tn__line_run *run, tn__line_lane lanes[TN__LINE_LANES_MOST]);
uint32_t tn__line_lane_of(const tn__line_lane *lanes, uint32_t count,
                          const tn__timeline_span *span);

/* --- timeline_svg.c, timeline_page.c: writing the timeline --- */

void tn__line_svg(const tn_timeline *line, tn__text *text);
void tn__line_json(const tn_timeline *line, tn__text *text);
void tn__line_page(const tn_timeline *line, tn__text *text);

#endif
