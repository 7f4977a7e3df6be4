/* curve.c - computes live bytes over time, and the holders of memory at a given time.
 *
 * Every piece of a buffer adds its bytes at the time `first` and subtracts them at `last`. The
 * running sum of these events in the order of time is the curve. The problem ensures that the
 * pieces of one buffer do not overlap, so no byte is counted twice. The sum has 128 bits and cannot
 * overflow, because a report may describe a problem that no planner has checked yet.
 *
 * Cost: O(n log n) time and O(n) memory for n pieces.
 */
#include "plan/problem/problem.h"
#include "report/format.h"

__extension__ typedef unsigned __int128 curve_sum128;

typedef struct curve_events {
    /* events sorted by time; the `id` of an entry is the index of the event in `bytes` */
    tn__sort_item *order;
    /* [count] bytes of the events; even indices are beginnings of live ranges, odd ones are ends */
    uint64_t *bytes;
    size_t count, order_room, bytes_room;
} curve_events;

const tn_piece *tn__body_pieces(const tn_body *body, tn_piece *one, uint32_t *count) {
    *count = body->size == 0 ? 0 : body->piece_count;
    if (*count > 0 || body->size == 0) return body->pieces;
    *one = (tn_piece){.first = body->first, .last = body->last, .lo = 0, .hi = body->size};
    *count = 1;
    return one;
}

/* Collects the events of all pieces. Buffers that are tied together share their bytes and count
 * once. */
static tn_status curve_gather(const tn__wholes *wholes, const tn_context *context,
                              curve_events *events, tn_error *error) {
    for (tn_body_id b = 0; b < tn_problem_count(wholes->problem); b++) {
        tn_piece one;
        uint32_t piece_count;
        const tn_body *body = tn__whole(wholes, b);
        if (body == NULL) continue;
        const tn_piece *pieces = tn__body_pieces(body, &one, &piece_count);
        size_t need = events->count + 2 * (size_t)piece_count;
        if (!tn__reserve(context, &events->order, &events->order_room, need,
                         sizeof *events->order) ||
            !tn__reserve(context, &events->bytes, &events->bytes_room, need, sizeof *events->bytes))
            return tn__no_memory(error, "the curve of live bytes");
        for (uint32_t i = 0; i < 2 * piece_count; i++) {
            const tn_piece *piece = &pieces[i / 2];
            int64_t at = i % 2 == 0 ? piece->first : piece->last;
            events->bytes[events->count] = piece->hi - piece->lo;
            events->order[events->count] =
                (tn__sort_item){tn__sort_key(at), (uint32_t)events->count};
            events->count++;
        }
    }
    if (!tn__sort_items(context, events->order, events->count))
        return tn__no_memory(error, "the curve of live bytes");
    return TN_OK;
}

/* Computes the running sum over the sorted events, with one entry per time. */
static void curve_sum(tn__curve *curve, const curve_events *events) {
    curve_sum128 live = 0;
    for (size_t i = 0; i < events->count;) {
        uint64_t key = events->order[i].key;
        int64_t at = (int64_t)(key ^ (uint64_t)1 << 63);
        curve_sum128 more = 0, less = 0;
        for (; i < events->count && events->order[i].key == key; i++) {
            uint32_t id = events->order[i].id;
            *(id % 2 == 0 ? &more : &less) += events->bytes[id];
        }
        live = live + more - less;
        uint64_t bytes = live > UINT64_MAX ? UINT64_MAX : (uint64_t)live;
        if (bytes > curve->peak || curve->count == 0) {
            curve->peak = bytes;
            curve->peak_at = at;
        }
        if (curve->count > 0 && curve->live[curve->count - 1] == bytes) continue;
        curve->at[curve->count] = at;
        curve->live[curve->count++] = bytes;
    }
    tn_assert(live == 0);
}

tn_status tn__curve_make(tn__curve *curve, const tn_problem *problem, const tn_context *context,
                         tn_error *error) {
    *curve = (tn__curve){.context = context};
    curve_events events = {0};
    tn__wholes wholes;
    TN_TRY(tn__wholes_create(problem, &wholes, error));
    tn_status status = curve_gather(&wholes, context, &events, error);
    tn__wholes_release(&wholes);
    if (status == TN_OK && events.count > 0) {
        curve->at = tn__alloc_array(context, events.count, sizeof *curve->at);
        curve->live = tn__alloc_array(context, events.count, sizeof *curve->live);
        curve->room = events.count;
        if (curve->at && curve->live)
            curve_sum(curve, &events);
        else
            status = tn__no_memory(error, "the curve of live bytes");
    }
    tn__free(context, events.order, events.order_room * sizeof *events.order);
    tn__free(context, events.bytes, events.bytes_room * sizeof *events.bytes);
    return status;
}

void tn__curve_release(tn__curve *curve) {
    tn__free(curve->context, curve->at, curve->room * sizeof *curve->at);
    tn__free(curve->context, curve->live, curve->room * sizeof *curve->live);
    *curve = (tn__curve){.context = curve->context};
}

int64_t tn__peak_at(const tn__scene *scene, const tn__curve *curve) {
    return scene->report->occupancy ? scene->summary.peak_step : curve->peak_at;
}

/* --- holders --- */

static int curve_holder_compare(const void *left, const void *right) {
    const tn__holder *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return (a->body > b->body) - (a->body < b->body);
}

static uint64_t curve_body_bytes(const tn_body *body, int64_t at) {
    tn_piece one;
    uint32_t count;
    const tn_piece *pieces = tn__body_pieces(body, &one, &count);
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < count; p++) {
        if (pieces[p].first <= at && at < pieces[p].last) bytes += pieces[p].hi - pieces[p].lo;
    }
    return bytes;
}

/* Sets the item of each row of `rows`, which has one row per buffer: the item that was last written
 * into the buffer. Views do not count, because they only read the bytes. A row with 0 bytes is a
 * buffer that is not live at time `at`; it is skipped. */
static void curve_name_rows(const tn__scene *scene, int64_t at, tn__holder *rows) {
    for (uint32_t i = 0; i < scene->item_count; i++) {
        const tn__report_item *item = &scene->items[i];
        tn__holder *row = &rows[item->body];
        if (row->bytes == 0) continue;
        row->sharing += item->first <= at && at < item->last;
        bool writes = item->share != TN_SHARE_VIEW && item->first <= at;
        if (row->item == TN_NONE || (writes && scene->items[row->item].first <= item->first))
            row->item = i;
    }
}

tn_status tn__holders_at(tn__scene *scene, int64_t at, const tn__holder **holders, uint32_t *count,
                         tn_error *error) {
    const tn_problem *problem = scene->report->problem;
    uint32_t bodies = tn_problem_count(problem), live = 0;
    tn__holder *rows = tn__arena_array(&scene->arena, (size_t)bodies + 1, sizeof *rows);
    if (rows == NULL) return tn__no_memory(error, "the holders at the peak");
    for (tn_body_id b = 0; b < bodies; b++)
        rows[b] = (tn__holder){b, TN_NONE, 0, curve_body_bytes(tn_problem_body(problem, b), at)};
    curve_name_rows(scene, at, rows);
    for (tn_body_id b = 0; b < bodies; b++) {
        if (rows[b].bytes > 0) rows[live++] = rows[b];
    }
    if (live > 0) qsort(rows, live, sizeof *rows, curve_holder_compare);
    *holders = rows;
    *count = live;
    return TN_OK;
}
