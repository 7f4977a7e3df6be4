/* windows.c - extracts the buffers in a few slots as a problem of its own.
 *
 * If the buffers in a window of time cannot be placed, the whole problem has no placement, and a
 * window has few buffers. Alignments, pins or byte windows may raise the optimum above the peak of
 * live bytes. Then a complete search of a few crowded slots proves that much sooner than a search
 * of the whole problem.
 */
#include "plan/search/search.h"

typedef struct window {
    tn__search_input input;
    tn__search_body *bodies;
    tn__search_piece *pieces;
    tn__search_conflict *conflicts;
    /* [count of the whole problem], 1 plus the buffer's number within the window; 0: the buffer is
     * outside the window */
    uint32_t *inside;
    uint64_t *offsets; /* [count of the whole problem], offsets of the window's buffers */
    size_t piece_room, conflict_room;
} window;

static void window_release(const tn_context *context, const tn__search_input *whole, window *part) {
    size_t n = whole->count;
    tn__free(context, part->bodies, n * sizeof *part->bodies);
    tn__free(context, part->inside, n * sizeof *part->inside);
    tn__free(context, part->offsets, n * sizeof *part->offsets);
    tn__free(context, part->pieces, part->piece_room * sizeof *part->pieces);
    tn__free(context, part->conflicts, part->conflict_room * sizeof *part->conflicts);
}

/* Copies the buffers that have a piece in the window of time slots, and cuts their pieces off at
 * both ends of the window. */
static bool window_cut(const tn_context *context, const tn__search_input *whole, uint32_t from,
                       uint32_t to, window *part) {
    uint32_t count = 0;
    size_t piece_count = 0;
    for (uint32_t id = 0; id < whole->count; id++) {
        tn__search_body body = whole->bodies[id];
        if (body.first >= to || body.last <= from) continue;
        if (!tn__reserve(context, &part->pieces, &part->piece_room, piece_count + body.piece_count,
                         sizeof *part->pieces))
            return false;
        size_t begin = piece_count;
        for (uint32_t k = 0; k < body.piece_count; k++) {
            tn__search_piece piece = whole->pieces[body.piece_first + k];
            if (piece.first >= to || piece.last <= from) continue;
            piece.first = piece.first > from ? piece.first - from : 0;
            piece.last = piece.last < to ? piece.last - from : to - from;
            part->pieces[piece_count++] = piece;
        }
        if (piece_count == begin) continue;
        /* pieces that were left out may have conflicts too, so buffers of equal remaining pieces
         * may differ */
        if (body.piece_count > 1) part->input.unlike = true;
        body.first = body.first > from ? body.first - from : 0;
        body.last = body.last < to ? body.last - from : to - from;
        body.piece_first = (uint32_t)begin;
        body.piece_count = (uint32_t)(piece_count - begin);
        part->inside[id] = count + 1;
        /* conflict_first and conflict_count still refer to the whole problem; window_link replaces
         * them */
        part->bodies[count++] = body;
    }
    part->input.count = count;
    return true;
}

/* Copies the conflicts between buffers inside the window. Two buffers that overlap only outside the
 * window keep their conflict: it holds for the whole problem, so a proof that uses it holds for the
 * whole problem too. */
static bool window_link(const tn_context *context, const tn__search_input *whole, window *part) {
    size_t total = 0;
    for (uint32_t i = 0; i < part->input.count; i++) total += part->bodies[i].conflict_count;
    /* allocates at least one item, so that the list is never NULL */
    if (!tn__reserve(context, &part->conflicts, &part->conflict_room, total + 1,
                     sizeof *part->conflicts))
        return false;
    size_t count = 0;
    for (uint32_t i = 0; i < part->input.count; i++) {
        tn__search_body *body = &part->bodies[i];
        size_t begin = count;
        for (uint32_t k = 0; k < body->conflict_count; k++) {
            tn__search_conflict conflict = whole->conflicts[body->conflict_first + k];
            if (part->inside[conflict.other] == 0) continue;
            conflict.other = part->inside[conflict.other] - 1;
            const tn__search_body *other = &part->bodies[conflict.other];
            if (body->first >= other->last || other->first >= body->last)
                part->input.crosses = true;
            part->conflicts[count++] = conflict;
        }
        body->conflict_first = (uint32_t)begin;
        body->conflict_count = (uint32_t)(count - begin);
    }
    return true;
}

tn__search_outcome tn__window_decide(const tn_context *context, const tn__search_input *input,
                                     uint32_t from, uint32_t to, tn__search_order order,
                                     uint64_t capacity, uint64_t node_limit, tn__search_poll poll,
                                     uint64_t *nodes) {
    window part = {.input = {.slot_count = to - from, .complete = input->complete}};
    tn__search_outcome outcome = TN__SEARCH_NO_MEMORY;
    *nodes = 0;
    part.bodies = tn__alloc_array(context, input->count, sizeof *part.bodies);
    part.inside = tn__alloc_array(context, input->count, sizeof *part.inside);
    part.offsets = tn__alloc_array(context, input->count, sizeof *part.offsets);
    if (part.bodies != NULL && part.inside != NULL && part.offsets != NULL &&
        window_cut(context, input, from, to, &part) && window_link(context, input, &part)) {
        part.input.bodies = part.bodies;
        part.input.pieces = part.pieces;
        part.input.conflicts = part.conflicts;
        tn__search *search = tn__search_create(context, &part.input);
        if (search != NULL)
            outcome =
                tn__search_decide(search, order, capacity, node_limit, poll, part.offsets, nodes);
        tn__search_destroy(search);
    }
    window_release(context, input, &part);
    return outcome;
}
