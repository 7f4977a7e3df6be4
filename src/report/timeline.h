/* timeline.h - what several ranks did, inside.
 *
 *   timeline.c        ranks, runs of them, sums
 *   timeline_pack.c   a rank as bytes
 *   timeline_meet.c   what was predicted of each rank by itself, with ranks that wait for each
 *                     other
 *   timeline_lanes.c  what is drawn where: lanes of a rank, and its live bytes over time
 *   timeline_svg.c    the picture
 *   timeline_page.c   the same as JSON, and as a page that shows that (page/ranks.js)
 */
#ifndef TN_REPORT_TIMELINE_H
#define TN_REPORT_TIMELINE_H

#include <tenure/timeline.h>

#include "base/base.h"

/* Kinds of lanes, in the order of drawing: X(NAME, name, words) */
/* clang-format off */
#define TN__LANE_TABLE(X)                                                                          \
    X(COMPUTE, "compute", "computes")                                                              \
    X(TALK, "talk", "calls of other ranks")                                                        \
    X(COPY, "copy", "copies")
/* clang-format on */
typedef enum tn__lane {
#define TN_X(NAME, name, words) TN__LANE_##NAME,
    TN__LANE_TABLE(TN_X)
#undef TN_X
        TN__LANE_COUNT
} tn__lane;
const char *tn__lane_name(tn__lane lane);

typedef enum tn__span_phase { /* of what computes */
                              TN__SPAN_FORWARD,
                              TN__SPAN_BACKWARD,
                              TN__SPAN_UPDATE,
                              TN__SPAN_PHASES
} tn__span_phase;

typedef struct tn__span {
    double start_s, duration_s;
    uint64_t bytes, live;        /* that moved; of the arena meanwhile */
    uint32_t stream, name, type; /* the latter: where in the strings */
    uint32_t step;               /* of tn__line_run.steps; TN_NONE */
    uint8_t lane, phase;
} tn__span;

typedef enum tn__step_talk {
    TN__STEP_ALONE,
    TN__STEP_SEND,
    TN__STEP_RECV,
    TN__STEP_GROUP,
    TN__STEP_TALKS
} tn__step_talk;

typedef struct tn__line_step { /* an instruction of what was predicted, in the order of the list */
    double duration_s;
    uint32_t stream, wait, signal, peer, tag, group; /* of tn_instruction */
    uint8_t talk;
    uint8_t walks; /* the walk itself does it */
} tn__line_step;

typedef struct tn__line_run {
    tn__span *spans; /* [count], by start */
    size_t count, room;
    tn__line_step *steps; /* [step_count]; 0: what ranks wait for is not known */
    size_t step_count;
    tn__text strings; /* each with its NUL */
    uint32_t number;  /* of the run that it was */
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
void tn__line_run_release(const tn_context *context, tn__line_run *run);
tn_status tn__line_run_sort(const tn_context *context, tn__line_run *run, tn_error *error);
tn_status tn__line_find(const tn_timeline *line, uint32_t rank, tn_error *error);
const char *tn__line_kind(tn_timeline_kind kind);
/* When the first rank began with it, and how long it took until the last one had ended; false:
 * there is nothing of that kind. */
bool tn__line_span(const tn_timeline *line, tn_timeline_kind kind, double *start_s, double *span_s);

/* --- timeline_lanes.c --- */

typedef struct tn__line_lane { /* of one rank */
    tn__lane lane;
    uint32_t stream;
} tn__line_lane;
#define TN__LINE_LANES_MOST 12u /* more share the last one */
/* Those that occur, by kind and stream. */
uint32_t tn__line_lanes(const tn__line_run *run, tn__line_lane lanes[TN__LINE_LANES_MOST]);
uint32_t tn__line_lane_of(const tn__line_lane *lanes, uint32_t count, const tn__span *span);

/* --- timeline_svg.c, timeline_page.c --- */

void tn__line_svg(const tn_timeline *line, tn__text *text);
void tn__line_json(const tn_timeline *line, tn__text *text);
void tn__line_page(const tn_timeline *line, tn__text *text);

#endif
