/* holders.h - who holds the memory, judged byte by byte from the pieces of the problem. */
#ifndef TN_TESTS_PROGRAM_HOLDERS_H
#define TN_TESTS_PROGRAM_HOLDERS_H

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "../support.h"

/* Bytes of a body that some piece keeps at a step; bodies are small here. */
static inline uint64_t judged_live(const tn_body *body, uint32_t step) {
    uint64_t live = 0;
    for (uint64_t byte = 0; byte < body->size; byte++) {
        bool held = false;
        for (uint32_t p = 0; p < body->piece_count; p++) {
            const tn_piece *piece = &body->pieces[p];
            held |=
                piece->first <= step && step < piece->last && piece->lo <= byte && byte < piece->hi;
        }
        live += held;
    }
    return live;
}

/* The rows of one step: live, largest first, adding up to what lives body by body; `kinds` receives
 * their sums. */
static inline void judge_holders(const tn_occupancy *occupancy, uint32_t step, uint64_t *kinds) {
    const tn_problem *problem = tn_occupancy_problem(occupancy);
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(occupancy));
    const tn_life *lives = tn_occupancy_lives(occupancy);
    uint32_t room = tn_occupancy_life_count(occupancy) + 1, bodies = tn_problem_count(problem);
    tn_occupant *rows = calloc(room, sizeof *rows), *few = calloc(room, sizeof *few);
    uint64_t *held = calloc((size_t)bodies + 1, sizeof *held);
    uint32_t count = tn_occupancy_holders(occupancy, step, rows, room);
    assert_true(count < room);
    for (uint32_t i = 0; i < count; i++) {
        const tn_life *life = &lives[rows[i].life];
        assert_true(rows[i].bytes > 0 && life->first <= step && step < life->last);
        assert_true(life->whole || rows[i].bytes <= life->bytes);
        if (i > 0)
            assert_true(rows[i - 1].bytes > rows[i].bytes ||
                        (rows[i - 1].bytes == rows[i].bytes && rows[i - 1].life < rows[i].life));
        held[life->body] += rows[i].bytes;
        kinds[life->tensor == TN_NONE ? TN_KIND_WORKSPACE
                                      : tn_graph_tensor(graph, life->tensor)->kind] +=
            rows[i].bytes;
    }
    for (tn_body_id b = 0; b < bodies; b++)
        assert_int_equal(held[b], judged_live(tn_problem_body(problem, b), step));
    for (uint32_t some = 0; some <= count; some = some * 2 + 1) {
        assert_int_equal(tn_occupancy_holders(occupancy, step, few, some), count);
        for (uint32_t i = 0; i < some && i < count; i++)
            assert_true(few[i].life == rows[i].life && few[i].bytes == rows[i].bytes);
    }
    free(held);
    free(few);
    free(rows);
}

/* Every step, against the curve and the summary. */
static inline void judge_all_holders(const tn_occupancy *occupancy) {
    uint32_t steps = tn_program_count(tn_occupancy_program(occupancy));
    tn_memory_summary summary = tn_occupancy_summary(occupancy);
    uint64_t(*live)[TN_KIND_COUNT] = malloc((steps + 1) * sizeof *live);
    assert_int_equal(tn_occupancy_live(occupancy, live, NULL), TN_OK);
    for (uint32_t step = 0; step < steps; step++) {
        uint64_t kinds[TN_KIND_COUNT] = {0};
        judge_holders(occupancy, step, kinds);
        assert_memory_equal(kinds, live[step], sizeof kinds);
    }
    assert_memory_equal(live[summary.peak_step], summary.at_peak, sizeof summary.at_peak);
    assert_int_equal(tn_occupancy_holders(occupancy, TN_NONE, NULL, 0),
                     tn_occupancy_holders(occupancy, summary.peak_step, NULL, 0));
    free(live);
}

#endif
