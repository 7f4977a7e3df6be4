/* explain_rests.c - why a buffer has its offset: which buffer is directly below it.
 *
 * That is the highest-ending buffer below it that is live at one of its times. From the highest
 * buffer of the arena down to the bottom these form a stack. The stack explains the size of the
 * arena: no buffer in it can move down while the others stay.
 */
#include "cli/explain.h"
#include "report/format.h"

static uint64_t rests_end(const tn_layout *layout, tn_body_id body, const tn_piece *piece) {
    return layout->offset[body] + piece->hi;
}

/* The highest end of a section of `below` that is under a section of `body` at the same time, or
 * 0. */
static uint64_t rests_reach(const tn_problem *problem, const tn_layout *layout, tn_body_id body,
                            tn_body_id below) {
    tn_piece one, other;
    uint32_t count, counts;
    uint64_t most = 0;
    const tn_piece *mine = tn__body_pieces(tn_problem_body(problem, body), &one, &count);
    const tn_piece *its = tn__body_pieces(tn_problem_body(problem, below), &other, &counts);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < counts; k++) {
            bool together = its[k].first < mine[i].last && mine[i].first < its[k].last;
            uint64_t end = rests_end(layout, below, &its[k]);
            if (together && end <= layout->offset[body] + mine[i].lo && end > most) most = end;
        }
    return most;
}

tn_body_id cli_explain_below(const tn_problem *problem, const tn_layout *layout, tn_body_id body) {
    const tn_body *it = tn_problem_body(problem, body);
    tn_body_id found = TN_NONE;
    uint64_t most = 0;
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        const tn_body *other = tn_problem_body(problem, b);
        bool apart = other->last <= it->first || it->last <= other->first;
        if (b == body || apart || layout->bank[b] != layout->bank[body]) continue;
        uint64_t end = rests_reach(problem, layout, body, b);
        if (end > most) most = end, found = b;
    }
    return found;
}

tn_body_id cli_explain_highest(const tn_problem *problem, const tn_layout *layout,
                               tn_bank_id bank) {
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        const tn_body *body = tn_problem_body(problem, b);
        if (layout->bank[b] == bank && body->size > 0 &&
            layout->offset[b] + body->size == layout->bank_peak[bank])
            return b;
    }
    return TN_NONE;
}

uint32_t cli_explain_stack(const tn_problem *problem, const tn_layout *layout, tn_body_id top,
                           tn_body_id *bodies, uint32_t room) {
    uint32_t count = 0;
    for (tn_body_id b = top; b != TN_NONE && count < room;) {
        bodies[count++] = b;
        b = layout->offset[b] > 0 ? cli_explain_below(problem, layout, b) : TN_NONE;
    }
    return count;
}
