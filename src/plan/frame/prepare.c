/* prepare.c - what planners see of one bank: its bodies (groups as one), times as ranks.
 *
 * Times are replaced by their ranks among the bank's event times, so that flat arrays over time are
 * possible. Cost: O(n log n) for n pieces.
 */
#include "plan/frame/planner_run.h"

/* The rank of a time that is one of them. */
static uint32_t prepare_rank(const int64_t *times, uint32_t count, int64_t time) {
    uint32_t rank = tn__time_rank(times, count, time);
    tn_assert(times[rank] == time);
    return rank;
}

void tn__prepared_release(tn__prepared *p) {
    const tn_context *context = &p->context;
    size_t n = p->count;
    tn__free(context, p->ids, n * sizeof *p->ids);
    tn__free(context, p->pins, n * sizeof *p->pins);
    tn__free(context, p->times, p->time_room * sizeof *p->times);
    tn__free(context, p->bodies, n * sizeof *p->bodies);
    tn__free(context, p->pieces, p->piece_count * sizeof *p->pieces);
    tn__free(context, p->begins, p->clock_room * sizeof *p->begins);
    tn__free(context, p->ends, p->clock_room * sizeof *p->ends);
    tn__free(context, p->by_first, n * sizeof *p->by_first);
    tn__free(context, p->position, n * sizeof *p->position);
    tn__free(context, p->until, ((size_t)p->time_count + 1) * sizeof *p->until);
}

/* Which bodies, which times; sets count, piece_count, time_count. */
static tn_status prepare_gather(tn__prepared *p, tn_bank_id which, tn_error *error) {
    const tn_problem *problem = p->problem;
    const tn_body *body;
    for (size_t i = 0; i < problem->count; i++) {
        if ((body = tn__whole_in(p->wholes, i, which)) == NULL) continue;
        p->count++;
        p->piece_count += body->piece_count;
    }
    p->time_room = 2 * ((size_t)p->piece_count + p->count);
    p->ids = tn__alloc_array(&p->context, p->count, sizeof *p->ids);
    p->pins = tn__alloc_array(&p->context, p->count, sizeof *p->pins);
    p->times = tn__alloc_array(&p->context, p->time_room, sizeof *p->times);
    if (!p->ids || !p->pins || !p->times) return tn__no_memory(error, "a bank");
    uint32_t count = 0;
    size_t times = 0;
    for (size_t i = 0; i < problem->count; i++) {
        if ((body = tn__whole_in(p->wholes, i, which)) == NULL) continue;
        p->ids[count] = (tn_body_id)i;
        p->pins[count++] = body->flags & TN_BODY_PINNED ? body->offset : TN__FREE;
        p->times[times++] = body->first;
        p->times[times++] = body->last;
        for (uint32_t k = 0; k < body->piece_count; k++) {
            p->times[times++] = body->pieces[k].first;
            p->times[times++] = body->pieces[k].last;
        }
    }
    qsort(p->times, times, sizeof *p->times, tn__time_order);
    for (size_t i = 0; i < times; i++)
        if (i == 0 || p->times[i] != p->times[i - 1]) p->times[p->time_count++] = p->times[i];
    return TN_OK;
}

/* Bodies by first step: counting sort, since first steps are ranks. until[] is its by-product. */
static void prepare_sort_by_first(tn__prepared *p) {
    for (uint32_t i = 0; i < p->count; i++) p->until[p->bodies[i].first + 1]++;
    for (uint32_t t = 0; t < p->time_count; t++) p->until[t + 1] += p->until[t];
    /* until[t] = bodies that begin before t; fill from there, which shifts it by one step */
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t at = p->until[p->bodies[i].first]++;
        p->by_first[at] = i;
        p->position[i] = at;
    }
    for (uint32_t t = p->time_count; t > 0; t--) p->until[t] = p->until[t - 1];
    p->until[0] = 0;
}

static bool prepare_fill_room(tn__prepared *p) {
    const tn_context *context = &p->context;
    p->bodies = tn__alloc_array(context, p->count, sizeof *p->bodies);
    p->pieces = tn__alloc_array(context, p->piece_count, sizeof *p->pieces);
    p->by_first = tn__alloc_array(context, p->count, sizeof *p->by_first);
    p->position = tn__alloc_array(context, p->count, sizeof *p->position);
    p->until = tn__alloc_array(context, (size_t)p->time_count + 1, sizeof *p->until);
    if (!p->bodies || !p->pieces || !p->by_first || !p->position || !p->until) return false;
    p->streams = p->problem->streams;
    if (p->streams == 1) return true;
    p->clock_room = p->piece_count;
    p->begins = tn__alloc_array(context, p->clock_room, sizeof *p->begins);
    p->ends = tn__alloc_array(context, p->clock_room, sizeof *p->ends);
    p->needs |= TN_PLANS_STREAMS;
    return p->begins != NULL && p->ends != NULL;
}

static void prepare_fill_body(tn__prepared *p, const tn_body *body, uint32_t i, uint32_t piece) {
    p->bodies[i] = (tn_run_body){.size = body->size,
                                 .alignment = body->alignment,
                                 .first = prepare_rank(p->times, p->time_count, body->first),
                                 .last = prepare_rank(p->times, p->time_count, body->last),
                                 .piece_first = piece,
                                 .piece_count = body->piece_count};
    for (uint32_t k = 0; k < body->piece_count; k++, piece++) {
        const tn_piece *from = &body->pieces[k];
        p->pieces[piece] =
            (tn_run_piece){.first = prepare_rank(p->times, p->time_count, from->first),
                           .last = prepare_rank(p->times, p->time_count, from->last),
                           .lo = from->lo,
                           .hi = from->hi};
        if (from->lo != 0 || from->hi != body->size || body->piece_count > 1)
            p->needs |= TN_PLANS_PIECES;
        if (p->begins == NULL) continue;
        p->begins[piece] = from->begins;
        p->ends[piece] = from->ends;
    }
    if (body->alignment > 1) p->needs |= TN_PLANS_ALIGNMENT;
    if (body->flags & TN_BODY_PINNED) p->needs |= TN_PLANS_PINS;
}

static tn_status prepare_fill(tn__prepared *p, tn_error *error) {
    if (!prepare_fill_room(p)) return tn__no_memory(error, "a bank's bodies");
    uint32_t piece_count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        prepare_fill_body(p, tn__whole(p->wholes, p->ids[i]), i, piece_count);
        piece_count += p->bodies[i].piece_count;
    }
    prepare_sort_by_first(p);
    for (p->leaf_count = 1; p->leaf_count < p->count;) p->leaf_count *= 2;
    return TN_OK;
}

tn_status tn__prepare(tn__prepared *p, tn_bank_id which, tn_error *error) {
    p->streams = p->problem->streams;
    TN_TRY(prepare_gather(p, which, error));
    return prepare_fill(p, error);
}
