/* problem.h - what the room `plan` knows of a problem beyond its public face. */
#ifndef TN_PLAN_PROBLEM_H
#define TN_PLAN_PROBLEM_H

#include <tenure/plan.h>

#include "base/base.h"

struct tn_problem {
    tn_context context;
    tn__arena arena; /* names and pieces: they never move */
    tn_body *bodies;
    size_t count, room;
    size_t piece_count; /* of all bodies */
    tn_bank *banks;
    size_t bank_count, bank_room;
    uint64_t alignment; /* of bodies that give none */
};

/* No body of a plan ends beyond this: sizes, offsets and alignments up to 2^40 then add up without
 * overflow in 64 bits. */
#define TN__PLAN_HEIGHT_MAX ((uint64_t)INT64_MAX)

/* "body 7" or "body 7 'conv1'" for messages. */
#define TN__BODY_TEXT_MAX 96
const char *tn__body_text(const tn_problem *problem, tn_body_id id, char text[TN__BODY_TEXT_MAX]);

/* E_INFEASIBLE when two pinned bodies meet: then there is no layout at all. */
tn_status tn__verify_pins(const tn_problem *problem, tn_error *error);

/* An empty layout for the problem: arrays allocated, zeroed. */
tn_status tn__layout_create(const tn_problem *problem, tn_layout *layout, tn_error *error);

#endif
