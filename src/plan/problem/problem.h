/* problem.h - the internal view of a problem inside plan/, in addition to the public header. */
#ifndef TN_PLAN_PROBLEM_PROBLEM_H
#define TN_PLAN_PROBLEM_PROBLEM_H

#include <tenure/plan.h>

#include "base/base.h"

/* Properties of a root and the buffers tied to it, taken together. */
typedef struct tn__body_group {
    tn_body_id root;
    uint32_t body_count;
    size_t piece_count; /* number of pieces of all buffers of the group, as given */
    /* size: up to the highest byte of the group; alignment: the largest alignment of its buffers */
    uint64_t size, alignment;
} tn__body_group;
#define TN__NO_GROUP UINT32_MAX

/* A flag of tn_body in addition to the public ones: the file binds the buffer to `bank`. */
#define TN__BODY_IN_BANK (UINT32_C(1) << 16)

/* Facts about the dsa-problem-v1 file from which the problem was read, in the problem's arena. */
typedef struct tn__dsa_file {
    const int64_t *body_ids, *bank_ids; /* [count], [bank_count], the ids of buffers and pools */
    const char *profile, *instance;     /* NULL: the file does not state it */
    uint64_t fingerprint;
} tn__dsa_file;

struct tn_problem {
    tn_context context;
    tn__arena arena; /* memory of names and pieces; their addresses never change */
    tn_body *bodies;
    size_t count, room;
    size_t piece_count; /* number of pieces of all buffers */
    tn_bank *banks;
    size_t bank_count, bank_room;
    uint64_t alignment; /* alignment of buffers for which none is given */
    size_t any_count;   /* number of buffers that several banks may hold */
    size_t pin_count;   /* number of pinned buffers */
    /* the first begin and the last end of all buffers; INT64_MAX and INT64_MIN if there are none */
    int64_t least, most;
    uint32_t streams;
    const int64_t *clock_zero, *clock_never; /* [streams], clocks of pieces without clocks */
    tn__body_group *groups;                  /* groups in the order of their first tied buffer */
    /* [count], group of each buffer, or TN__NO_GROUP; NULL if there are no groups */
    uint32_t *group_of;
    size_t group_count, group_room, group_of_room;
    /* pairs of buffers that are separated, or that pay if they share bytes, as they were given */
    tn_pair *separations, *reuse_costs;
    tn_pair *exclusions; /* pairs of buffers that are never live at the same time */
    tn_reserved *reserved;
    size_t separation_count, separation_room, reuse_cost_count, reuse_cost_room;
    size_t exclusion_count, exclusion_room;
    size_t reserved_count, reserved_room;
    uint64_t *events; /* [event_count], the time that each event takes */
    uint64_t event_sum;
    tn_wait *orders, *waits;
    /* spans with `hi` filled in; the uses of each span lie in the arena, in ascending order */
    tn_span *spans;
    size_t event_count, event_room, order_count, order_room, wait_count, wait_room;
    /* number of uses of all spans: use_count without repetitions, use_room with repetitions */
    size_t span_count, span_room, use_count, use_room;
    const tn__dsa_file *dsa; /* NULL: the problem is not that of a dsa-problem-v1 file */
};

/* --- events (events.c) --- */

/* A set of events for each event: the set of event e is a row of bits, the `words` numbers from e *
 * words on. */
typedef struct tn__rows {
    uint64_t *bits;
    size_t words, room;
} tn__rows;
/* Makes `count` empty sets. Returns false if memory is exhausted. */
bool tn__rows_make(const tn_context *context, size_t count, tn__rows *rows);
void tn__rows_free(const tn_context *context, tn__rows *rows);
static inline uint64_t *tn__row(const tn__rows *rows, uint32_t event) {
    return rows->bits + event * rows->words;
}
static inline bool tn__row_has(const uint64_t *row, uint32_t event) {
    return (row[event / 64] >> event % 64 & 1) != 0;
}
static inline void tn__row_add(uint64_t *row, uint32_t event) {
    row[event / 64] |= 1ull << event % 64;
}
/* Adds the predecessors of event `of` to `row`; they all have lower numbers than `of`. */
static inline void tn__row_add_all(const tn__rows *rows, uint32_t of, uint64_t *row) {
    const uint64_t *more = tn__row(rows, of);
    for (size_t w = 0; w <= of / 64; w++) row[w] |= more[w];
}
/* Compares two spans that hold a common byte: -1 if the uses of `a` come first, 1 if those of `b`
 * do, 0 if neither (then their buffers are live at the same time). */
int tn__spans_order(const tn_span *a, const tn_span *b);
/* Computes the time of the program. `before` contains the direct predecessors of each event, and
 * may contain others. `after`, and `numbers` [tn__events_scratch], are scratch memory. See
 * tn_layout_waits. */
size_t tn__events_scratch(size_t events, uint32_t workers);
uint64_t tn__events_time(const tn_problem *problem, const tn__rows *before, tn__rows *after,
                         uint32_t workers, uint64_t *numbers);

/* Whether a problem has separations or reserved ranges. */
static inline bool tn__keeps_apart(const tn_problem *problem) {
    return problem->separation_count > 0 || problem->reserved_count > 0;
}
/* A range of bytes [first, last). */
typedef struct tn__byte_range {
    uint64_t first, last;
} tn__byte_range;
/* Fills in the reserved ranges of a bank, sorted and merged, in `out` [problem->reserved_count];
 * returns their number. */
uint32_t tn__reserved_of(const tn_problem *problem, tn_bank_id bank, tn__byte_range *out);
/* Raises *bytes to the least height with that many bytes outside of the reserved ranges of the
 * bank. Saturates. */
tn_status tn__above_reserved(const tn_problem *problem, tn_bank_id bank, uint64_t *bytes,
                             tn_error *error);

/* The exclusions of a problem, between buffers that are not tied and groups: a group is given by
 * its root. The buffers that are excluded with buffer i are others[begin[i]] to others[begin[i + 1]
 * - 1], in ascending order; each pair is in the lists of both. */
typedef struct tn__exclusions {
    size_t *begin; /* [problem->count + 1]; NULL: there are no exclusions */
    tn_body_id *others;
    size_t room;
} tn__exclusions;
tn_status tn__exclusions_make(const tn_problem *problem, tn__exclusions *made, tn_error *error);
void tn__exclusions_release(const tn_problem *problem, tn__exclusions *made);
/* Whether buffers or roots `a` and `b` are never live at the same time. Cost: O(log exclusions of
 * a). */
bool tn__excluded(const tn__exclusions *exclusions, tn_body_id a, tn_body_id b);

#define TN__PIECES_MAX (1u << 22) /* limit of pieces of one buffer in normal form */

/* Makes the normal form of `count` pieces (with clocks, if streams > 1) in `arena`. Returns
 * E_INVALID if it would be too large. */
tn_status tn__normal_form(const tn_piece *pieces, size_t count, uint32_t streams, tn__arena *arena,
                          const tn_piece **out, uint32_t *out_count, tn_error *error);

/* Each group as one buffer: the union of its pieces in normal form, with the size up to its highest
 * byte and its largest alignment; it is pinned if a member is. */
typedef struct tn__wholes {
    const tn_problem *problem;
    tn_body *bodies;    /* [problem->group_count], each group as one buffer */
    size_t piece_count; /* number of pieces of all buffers, with each group counted as one buffer */
    /* [count], the bank of each buffer; NULL: the bank that the problem states */
    const tn_bank_id *banks;
    tn__exclusions exclusions;
    bool clash; /* a group cannot satisfy the pins of one or two of its buffers */
    tn_body_id clash_a, clash_b;
    tn__arena arena;
} tn__wholes;
tn_status tn__wholes_create(const tn_problem *problem, tn__wholes *wholes, tn_error *error);
void tn__wholes_release(tn__wholes *wholes);
/* Returns buffer `id`, or its group if it is the root of one; NULL if it is tied to another root,
 * because that root's group includes it. */
static inline const tn_body *tn__whole(const tn__wholes *wholes, size_t id) {
    const tn_body *body = &wholes->problem->bodies[id];
    if (body->flags & TN_BODY_TIED) return NULL;
    if (!(body->flags & TN_BODY_LEADS)) return body;
    return &wholes->bodies[wholes->problem->group_of[id]];
}
/* Returns tn__whole if it is in bank `bank`, else NULL. */
static inline const tn_body *tn__whole_in(const tn__wholes *wholes, size_t id, tn_bank_id bank) {
    const tn_problem *problem = wholes->problem;
    const tn_body *body = &problem->bodies[id];
    bool chooses = (body->flags & TN_BODY_ANY_BANK) && problem->bank_count > 1;
    bool here = wholes->banks != NULL ? wholes->banks[id] == bank : !chooses && body->bank == bank;
    return here ? tn__whole(wholes, id) : NULL;
}
/* Computes tn_problem_lower_bound with the groups and banks of `wholes`. */
tn_status tn__lower_bound(const tn__wholes *wholes, tn_bank_id bank, uint64_t *bytes, int64_t *step,
                          tn_error *error);

/* No buffer of a plan ends beyond this height, so that adding sizes, offsets and alignments of up
 * to 2^40 does not overflow 64 bits. */
#define TN__PLAN_HEIGHT_MAX ((uint64_t)INT64_MAX)

/* Writes "body 7", or "'conv1'" if the buffer has a name, into `text`, for messages. */
#define TN__BODY_TEXT_MAX 96
const char *tn__body_text(const tn_problem *problem, tn_body_id id, char text[TN__BODY_TEXT_MAX]);

/* Returns E_INFEASIBLE if two pinned buffers conflict, because then no layout exists. */
tn_status tn__verify_pins(const tn_problem *problem, tn_error *error);

/* Returns the buffer's traffic in bytes, given or estimated. Saturates. */
uint64_t tn__traffic(const tn_body *body);

/* Makes an empty layout for the problem: allocates its arrays, sets them to zero, and takes over
 * the banks of the buffers. */
tn_status tn__layout_create(const tn_problem *problem, tn_layout *layout, tn_error *error);
/* computes the traffic of each bank of the layout from the banks of the buffers */
void tn__layout_add_traffic(const tn_problem *problem, tn_layout *layout);
bool tn__has_choice(const tn_problem *problem); /* whether several banks may hold some buffer */

/* Compares two int64_t times for qsort. */
int tn__time_order(const void *a, const void *b);
/* Returns the index of the latest of the sorted `times` [count] that is not after `time`; 0 if all
 * are after it. */
uint32_t tn__time_rank(const int64_t *times, uint32_t count, int64_t time);

#endif
