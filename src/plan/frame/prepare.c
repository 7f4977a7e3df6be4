/* prepare.c - prepares one bank for planners: collects its buffers (groups as one buffer each) and
 * replaces times by ranks.
 *
 * Times are replaced by their ranks among the bank's event times, so that flat arrays over time are
 * possible. If there are few steps compared with the number of times, the times are marked in a set
 * of all steps, one bit each, which is small enough for a cache; else they are sorted.
 *
 * Cost: O(n) for n pieces; the sort is O(n) per digit of 11 bits. Separations and reuse costs take
 * O(pairs log pairs) more.
 */
#include "plan/frame/planner_run.h"

/* a type that can hold the sum of 2^30 pieces of 2^63 bytes */
__extension__ typedef unsigned __int128 prepare_sum;

/* a set of all steps is used if there are at most this many steps per time */
#define PREPARE_DENSE 32u
/* approximate number of buffers per bucket in the class of the shortest live ranges */
#define PREPARE_BUCKET 128u

/* The times of all pieces, from which their ranks are computed: in a set of steps, or sorted if the
 * set would be too large. */
typedef struct prepare_times {
    int64_t least, most; /* the first and the last time */
    size_t count;        /* number of times: two for each piece, or for a buffer without pieces */
    /* [words], a bit for each step that is a time; NULL: the times are sorted */
    uint64_t *steps;
    uint32_t *before; /* [words], number of times in all words of `steps` before each one */
    size_t words;
    int64_t *time;  /* [count], the times in input order, to be sorted */
    uint32_t *rank; /* [count], their ranks */
    size_t next;    /* index of the rank that prepare_rank_of returns next */
} prepare_times;

static void prepare_release_apart(tn__prepared_bank *p);

void tn__prepared_release(tn__prepared_bank *p) {
    const tn_context *context = &p->context;
    size_t n = p->count;
    tn__free(context, p->ids, n * sizeof *p->ids);
    tn__free(context, p->pins, n * sizeof *p->pins);
    tn__free(context, p->times, p->time_count * sizeof *p->times);
    tn__free(context, p->bodies, n * sizeof *p->bodies);
    tn__free(context, p->pieces, p->piece_count * sizeof *p->pieces);
    tn__free(context, p->begins, p->clock_room * sizeof *p->begins);
    tn__free(context, p->ends, p->clock_room * sizeof *p->ends);
    tn__free(context, p->by_first, n * sizeof *p->by_first);
    tn__free(context, p->until, ((size_t)p->time_count + 1) * sizeof *p->until);
    tn__free(context, p->buckets,
             ((size_t)p->class_begin[p->class_count] + 1) * sizeof *p->buckets);
    prepare_release_apart(p);
}

/* Counts the buffers of the bank, their pieces and times. */
static void prepare_count(tn__prepared_bank *p, tn_bank_id which, prepare_times *times) {
    const tn_problem *problem = p->problem;
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = tn__whole_in(p->wholes, i, which);
        if (body == NULL) continue;
        p->count++;
        p->piece_count += body->piece_count;
        times->count += 2 * (size_t)(body->piece_count > 0 ? body->piece_count : 1);
        if (body->first < times->least) times->least = body->first;
        if (body->last > times->most) times->most = body->last;
    }
}

static bool prepare_times_room(const tn_context *context, prepare_times *times) {
    uint64_t range = (uint64_t)times->most - (uint64_t)times->least;
    if (times->count > 0 && range < PREPARE_DENSE * (uint64_t)times->count) {
        times->words = (size_t)(range / 64) + 1;
        times->steps = tn__alloc_array(context, times->words, sizeof *times->steps);
        times->before = tn__alloc(context, times->words * sizeof *times->before);
        return times->steps != NULL && times->before != NULL;
    }
    times->time = tn__alloc(context, times->count * sizeof *times->time);
    times->rank = tn__alloc(context, times->count * sizeof *times->rank);
    return times->time != NULL && times->rank != NULL;
}

static void prepare_times_release(const tn_context *context, prepare_times *times) {
    tn__free(context, times->steps, times->words * sizeof *times->steps);
    tn__free(context, times->before, times->words * sizeof *times->before);
    tn__free(context, times->time, times->count * sizeof *times->time);
    tn__free(context, times->rank, times->count * sizeof *times->rank);
}

static void prepare_note(prepare_times *times, int64_t time) {
    uint64_t step = (uint64_t)time - (uint64_t)times->least;
    if (times->steps != NULL)
        times->steps[step / 64] |= (uint64_t)1 << step % 64;
    else
        times->time[times->next++] = time;
}

/* Collects buffers and times: those of each piece, or those of the buffer if it has no pieces. */
static tn_status prepare_gather(tn__prepared_bank *p, tn_bank_id which, prepare_times *times,
                                tn_error *error) {
    const tn_body *body;
    uint32_t count = 0;
    prepare_count(p, which, times);
    p->ids = tn__alloc(&p->context, p->count * sizeof *p->ids);
    p->pins = tn__alloc(&p->context, p->count * sizeof *p->pins);
    if (!p->ids || !p->pins || !prepare_times_room(&p->context, times))
        return tn__no_memory(error, "a bank");
    for (size_t i = 0; i < p->problem->count; i++) {
        if ((body = tn__whole_in(p->wholes, i, which)) == NULL) continue;
        p->ids[count] = (tn_body_id)i;
        p->pins[count++] = body->flags & TN_BODY_PINNED ? body->offset : TN__FREE;
        /* the hull of a single piece is the piece */
        for (uint32_t k = 0; k < body->piece_count && body->piece_count > 1; k++) {
            prepare_note(times, body->pieces[k].first);
            prepare_note(times, body->pieces[k].last);
        }
        if (body->piece_count > 1) continue;
        prepare_note(times, body->first);
        prepare_note(times, body->last);
    }
    return TN_OK;
}

static bool prepare_time_room(tn__prepared_bank *p, uint32_t count) {
    p->time_count = count;
    p->times = tn__alloc_array(&p->context, count, sizeof *p->times);
    return p->times != NULL;
}

/* Lists the times of the set of steps, and counts those before each word of it. */
static bool prepare_list(tn__prepared_bank *p, prepare_times *times) {
    uint32_t count = 0, rank = 0;
    for (size_t w = 0; w < times->words; w++) {
        times->before[w] = count;
        count += (uint32_t)__builtin_popcountll(times->steps[w]);
    }
    if (!prepare_time_room(p, count)) return false;
    for (size_t w = 0; w < times->words; w++)
        for (uint64_t bits = times->steps[w]; bits != 0; bits &= bits - 1)
            p->times[rank++] = times->least + (int64_t)(64 * w) + __builtin_ctzll(bits);
    return true;
}

static bool prepare_sort(tn__prepared_bank *p, prepare_times *times) {
    tn__sort_item *items = tn__alloc(&p->context, times->count * sizeof *items);
    if (items == NULL) return false;
    for (size_t i = 0; i < times->count; i++)
        items[i] = (tn__sort_item){tn__sort_key(times->time[i]), (uint32_t)i};
    bool room = tn__sort_items(&p->context, items, times->count);
    uint32_t count = 0;
    for (size_t i = 0; i < times->count && room; i++) {
        count += i == 0 || items[i].key != items[i - 1].key;
        times->rank[items[i].id] = count - 1;
    }
    room = room && prepare_time_room(p, count);
    for (size_t i = 0; i < times->count && room; i++) p->times[times->rank[i]] = times->time[i];
    tn__free(&p->context, items, times->count * sizeof *items);
    return room;
}

static tn_status prepare_rank(tn__prepared_bank *p, prepare_times *times, tn_error *error) {
    if (times->count == 0) return TN_OK;
    times->next = 0;
    bool room = times->steps != NULL ? prepare_list(p, times) : prepare_sort(p, times);
    return room ? TN_OK : tn__no_memory(error, "the steps of a bank");
}

/* Returns the rank of a time. Times must be asked for in the order in which they were noted. */
static uint32_t prepare_rank_of(prepare_times *times, int64_t time) {
    if (times->steps == NULL) return times->rank[times->next++];
    uint64_t step = (uint64_t)time - (uint64_t)times->least;
    uint64_t below = times->steps[step / 64] & (((uint64_t)1 << step % 64) - 1);
    return times->before[step / 64] + (uint32_t)__builtin_popcountll(below);
}

/* Sorts buffers by first step with a counting sort, since first steps are ranks. Also computes
 * until[]. */
static void prepare_sort_by_first(tn__prepared_bank *p) {
    for (uint32_t i = 0; i < p->count; i++) p->until[p->bodies[i].first + 1]++;
    for (uint32_t t = 0; t < p->time_count; t++) p->until[t + 1] += p->until[t];
    /* until[t] = buffers that begin before t; filling the order moves each entry to the value of
     * the next step */
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t at = p->until[p->bodies[i].first]++;
        p->by_first[at] = i;
    }
    for (uint32_t t = p->time_count; t > 0; t--) p->until[t] = p->until[t - 1];
    p->until[0] = 0;
}

uint32_t tn__prepared_bucket(const tn__prepared_bank *p, const tn_run_body *body) {
    uint32_t k = 0, length = body->last - body->first;
    while (k + 1 < p->class_count && length > 1u << p->shift[k]) k++;
    return p->class_begin[k] + (body->first >> p->shift[k]);
}

/* Divides buffers into classes. A class holds live ranges up to four times as long as the class
 * before it; the last class takes all longer ones, in one or two buckets. */
static void prepare_buckets(tn__prepared_bank *p) {
    uint32_t shift = 0;
    while (shift < 31 && p->time_count >> shift > p->count / PREPARE_BUCKET) shift++;
    for (bool last = false; !last; shift += 2) {
        uint32_t k = p->class_count++;
        p->shift[k] = shift < 31 ? shift : 31;
        p->class_begin[k + 1] = p->class_begin[k] + (p->time_count >> p->shift[k]) + 1;
        last = p->time_count >> p->shift[k] == 0 || shift >= 31;
    }
}

bool tn__prepared_index(tn__prepared_bank *p) {
    const tn_context *context = &p->context;
    prepare_buckets(p);
    size_t buckets = p->class_begin[p->class_count];
    p->by_first = tn__alloc(context, p->count * sizeof *p->by_first);
    p->until = tn__alloc_array(context, (size_t)p->time_count + 1, sizeof *p->until);
    p->buckets = tn__alloc_array(context, buckets + 1, sizeof *p->buckets);
    if (!p->by_first || !p->until || !p->buckets) return false;
    prepare_sort_by_first(p);
    for (uint32_t i = 0; i < p->count; i++) p->buckets[tn__prepared_bucket(p, &p->bodies[i]) + 1]++;
    for (size_t i = 0; i < buckets; i++) p->buckets[i + 1] += p->buckets[i];
    return true;
}

static bool prepare_fill_room(tn__prepared_bank *p) {
    const tn_context *context = &p->context;
    p->bodies = tn__alloc(context, p->count * sizeof *p->bodies);
    p->pieces = tn__alloc(context, p->piece_count * sizeof *p->pieces);
    if (!p->bodies || !p->pieces) return false;
    p->streams = p->problem->streams;
    if (p->streams == 1) return true;
    p->clock_room = p->piece_count;
    p->begins = tn__alloc_array(context, p->clock_room, sizeof *p->begins);
    p->ends = tn__alloc_array(context, p->clock_room, sizeof *p->ends);
    p->needs |= TN_PLANS_STREAMS;
    return p->begins != NULL && p->ends != NULL;
}

static void prepare_fill_piece(tn__prepared_bank *p, const tn_body *body, const tn_piece *from,
                               uint32_t piece, prepare_times *times) {
    tn_run_piece *made = &p->pieces[piece];
    made->first = prepare_rank_of(times, from->first);
    made->last = prepare_rank_of(times, from->last);
    made->lo = from->lo;
    made->hi = from->hi;
    if (from->lo != 0 || from->hi != body->size || body->piece_count > 1)
        p->needs |= TN_PLANS_PIECES;
    if (p->begins == NULL) return;
    p->begins[piece] = from->begins;
    p->ends[piece] = from->ends;
}

static void prepare_fill_body(tn__prepared_bank *p, const tn_body *body, uint32_t i, uint32_t piece,
                              prepare_times *times) {
    tn_run_body made = {.size = body->size,
                        .alignment = body->alignment,
                        .piece_first = piece,
                        .piece_count = body->piece_count};
    for (uint32_t k = 0; k < body->piece_count; k++) {
        prepare_fill_piece(p, body, &body->pieces[k], piece + k, times);
        const tn_run_piece *rank = &p->pieces[piece + k];
        if (k == 0 || rank->first < made.first) made.first = rank->first;
        if (k == 0 || rank->last > made.last) made.last = rank->last;
    }
    if (body->piece_count == 0) {
        made.first = prepare_rank_of(times, body->first);
        made.last = prepare_rank_of(times, body->last);
    }
    p->bodies[i] = made;
    if (body->alignment > 1) p->needs |= TN_PLANS_ALIGNMENT;
    if (body->flags & TN_BODY_PINNED) p->needs |= TN_PLANS_PINS;
}

static tn_status prepare_fill(tn__prepared_bank *p, prepare_times *times, tn_error *error) {
    if (!prepare_fill_room(p)) return tn__no_memory(error, "a bank's bodies");
    uint32_t piece_count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        prepare_fill_body(p, tn__whole(p->wholes, p->ids[i]), i, piece_count, times);
        piece_count += p->bodies[i].piece_count;
    }
    return TN_OK;
}

static tn_status prepare_apart(tn__prepared_bank *p, tn_bank_id which, tn_error *error);

tn_status tn__prepare(tn__prepared_bank *p, tn_bank_id which, tn_error *error) {
    prepare_times times = {.least = INT64_MAX, .most = INT64_MIN};
    p->streams = p->problem->streams;
    tn_status status = prepare_gather(p, which, &times, error);
    if (status == TN_OK) status = prepare_rank(p, &times, error);
    times.next = 0;
    if (status == TN_OK) status = prepare_fill(p, &times, error);
    prepare_times_release(&p->context, &times);
    if (status == TN_OK && !tn__prepared_index(p)) status = tn__no_memory(error, "a bank");
    return status == TN_OK ? prepare_apart(p, which, error) : status;
}

/* --- the lower bound of a bank --- */

/* Computes the largest sum of live bytes over all steps, in one sweep over all pieces. It is a
 * lower bound of the peak, and exact if no alignment costs a byte. */
#define PREPARE_LIVE(sum_type)                                                                     \
    do {                                                                                           \
        sum_type *change = tn__alloc_array(&p->context, room, sizeof *change), live = 0, most = 0; \
        if (change == NULL) return tn__no_memory(error, "the lower bound");                        \
        /* a negative change wraps, so the sums of changes are right */                            \
        for (uint32_t i = 0; i < p->piece_count; i++) {                                            \
            change[p->pieces[i].first] += p->pieces[i].hi - p->pieces[i].lo;                       \
            change[p->pieces[i].last] -= p->pieces[i].hi - p->pieces[i].lo;                        \
        }                                                                                          \
        for (uint32_t t = 0; t < p->time_count; t++) {                                             \
            live += change[t];                                                                     \
            if (live <= most) continue;                                                            \
            most = live;                                                                           \
            *step = p->times[t];                                                                   \
        }                                                                                          \
        *bytes = most < UINT64_MAX ? (uint64_t)most : UINT64_MAX;                                  \
        tn__free(&p->context, change, room * sizeof *change);                                      \
        return TN_OK;                                                                              \
    } while (0)

static tn_status prepare_live_wide(const tn__prepared_bank *p, size_t room, uint64_t *bytes,
                                   int64_t *step, tn_error *error) {
    PREPARE_LIVE(prepare_sum);
}

tn_status tn__prepared_live_bytes(const tn__prepared_bank *p, uint64_t *bytes, int64_t *step,
                                  tn_error *error) {
    size_t room = (size_t)p->time_count + 1;
    uint64_t sum = 0;
    *step = 0;
    for (uint32_t i = 0; i < p->piece_count; i++)
        sum = tn__add_sat(sum, p->pieces[i].hi - p->pieces[i].lo);
    if (sum == UINT64_MAX) return prepare_live_wide(p, room, bytes, step, error);
    PREPARE_LIVE(uint64_t);
}

tn_status tn__prepared_bound(const tn__prepared_bank *p, tn_bank_id which, uint64_t *bytes,
                             int64_t *step, tn_error *error) {
    uint64_t rest = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const tn_run_body *body = &p->bodies[i];
        for (uint32_t k = 0; k < body->piece_count && body->alignment > 1; k++) {
            const tn_run_piece *piece = &p->pieces[body->piece_first + k];
            uint64_t block = body->alignment | piece->lo;
            rest |= (piece->hi - piece->lo) & ((block & (0 - block)) - 1);
        }
    }
    if (rest != 0 || p->exclusions != NULL)
        return tn__lower_bound(p->wholes, which, bytes, step, error);
    TN_TRY(tn__prepared_live_bytes(p, bytes, step, error));
    TN_TRY(tn__above_reserved(p->problem, which, bytes, error));
    /* no buffer can end below its size, or below its pin plus its size */
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t end = (p->pins[i] != TN__FREE ? p->pins[i] : 0) + p->bodies[i].size;
        if (p->bodies[i].size == 0 || end <= *bytes) continue;
        *bytes = end;
        *step = p->times[p->bodies[i].first];
    }
    return TN_OK;
}

/* --- separations, exclusions, reserved ranges and reuse costs --------------------------------- */

typedef struct apart_map {
    /* [problem->count], number in the run of each root buffer; UINT32_MAX: not in the run */
    uint32_t *run_id;
    size_t room;
} apart_map;

static void prepare_release_apart(tn__prepared_bank *p) {
    tn__besides *both[] = {&p->apart, &p->costs};
    for (int i = 0; i < 2; i++) {
        size_t begins = both[i]->begin != NULL ? (size_t)p->count + 1 : 0;
        tn__free(&p->context, both[i]->begin, begins * sizeof *both[i]->begin);
        tn__free(&p->context, both[i]->items, both[i]->item_count * sizeof *both[i]->items);
        *both[i] = (tn__besides){0};
    }
    tn__free(&p->context, p->reserved, p->reserved_room * sizeof *p->reserved);
    p->reserved = NULL;
    p->reserved_room = 0;
}

/* Adds the entries of a pair to the lists of both buffers; false if the pair has no effect in this
 * bank. */
static bool apart_entries(const tn__prepared_bank *p, const apart_map *map, const tn_pair *pair,
                          uint32_t ids[2], tn__beside entries[2]) {
    const tn_problem *problem = p->problem;
    tn_body_id of[2] = {pair->a, pair->b};
    uint64_t lo[2], hi[2];
    for (int i = 0; i < 2; i++) {
        const tn_body *body = &problem->bodies[of[i]];
        bool tied = (body->flags & TN_BODY_TIED) != 0;
        ids[i] = map->run_id[tied ? body->leader : of[i]];
        if (ids[i] == UINT32_MAX || body->size == 0) return false;
        lo[i] = tied ? body->delta : 0;
        hi[i] = lo[i] + body->size;
    }
    if (ids[0] == ids[1]) return false;
    for (int i = 0; i < 2; i++)
        entries[i] = (tn__beside){.other = ids[!i],
                                  .cost = pair->cost,
                                  .lo = lo[i],
                                  .hi = hi[i],
                                  .other_lo = lo[!i],
                                  .other_hi = hi[!i]};
    return true;
}

static bool apart_is_plain(const tn__prepared_bank *p, uint32_t id) {
    const tn_run_body *body = &p->bodies[id];
    const tn_run_piece *piece = &p->pieces[body->piece_first];
    return body->piece_count == 1 && piece->lo == 0 && piece->hi == body->size &&
           !(p->problem->bodies[p->ids[id]].flags & TN_BODY_LEADS);
}

/* Whether two plain buffers must not share bytes, because of their live ranges and clocks. */
static bool apart_meet(const tn__prepared_bank *p, uint32_t a, uint32_t b) {
    const tn_run view = {.prepared = p};
    if (!apart_is_plain(p, a) || !apart_is_plain(p, b) || tn__prepared_excluded(p, a, b))
        return false;
    return tn__run_pieces_meet(&view, p->bodies[a].piece_first, p->bodies[b].piece_first);
}

static int apart_by_other(const void *a, const void *b) {
    const tn__beside *x = a, *y = b;
    if (x->other != y->other) return x->other < y->other ? -1 : 1;
    if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
    return (x->other_lo > y->other_lo) - (x->other_lo < y->other_lo);
}

/* Whether two plain buffers are separated; the lists of p->apart are sorted. */
static bool apart_separated(const tn__prepared_bank *p, uint32_t a, uint32_t b) {
    if (p->apart.begin == NULL || !apart_is_plain(p, a) || !apart_is_plain(p, b)) return false;
    size_t low = p->apart.begin[a], end = p->apart.begin[a + 1], high = end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->apart.items[middle].other < b)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && p->apart.items[low].other == b;
}

static bool apart_counts(const tn__prepared_bank *p, bool costs, const uint32_t ids[2],
                         const tn_pair *pair) {
    if (!costs) return true;
    return pair->cost > 0 && !apart_meet(p, ids[0], ids[1]) && !apart_separated(p, ids[0], ids[1]);
}

/* Lists the pairs of each buffer: counts them, fills the lists, then sorts each list. */
static bool apart_list(tn__prepared_bank *p, const apart_map *map, const tn_pair *pairs,
                       size_t count, bool costs, tn__besides *out) {
    uint32_t ids[2];
    tn__beside entries[2];
    tn__besides made = {.begin =
                            tn__alloc_array(&p->context, (size_t)p->count + 1, sizeof *made.begin)};
    if (made.begin == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        if (!apart_entries(p, map, &pairs[i], ids, entries) ||
            !apart_counts(p, costs, ids, &pairs[i]))
            continue;
        made.begin[ids[0]]++;
        made.begin[ids[1]]++;
        made.item_count += 2;
    }
    made.items = tn__alloc(&p->context, made.item_count * sizeof *made.items);
    if (made.items == NULL) {
        tn__free(&p->context, made.begin, ((size_t)p->count + 1) * sizeof *made.begin);
        return false;
    }
    size_t at = 0; /* at first begin[i] is the end of list i; filling moves it to its begin */
    for (uint32_t i = 0; i < p->count; i++) made.begin[i] = at += made.begin[i];
    made.begin[p->count] = at;
    for (size_t i = count; i-- > 0;) {
        if (!apart_entries(p, map, &pairs[i], ids, entries) ||
            !apart_counts(p, costs, ids, &pairs[i]))
            continue;
        for (int k = 0; k < 2; k++) made.items[--made.begin[ids[k]]] = entries[k];
    }
    for (uint32_t i = 0; i < p->count; i++)
        if (made.begin[i + 1] - made.begin[i] > 1)
            qsort(made.items + made.begin[i], made.begin[i + 1] - made.begin[i], sizeof *made.items,
                  apart_by_other);
    *out = made;
    return true;
}

static bool apart_fill(tn__prepared_bank *p, const apart_map *map) {
    const tn_problem *problem = p->problem;
    memset(map->run_id, 0xff, map->room * sizeof *map->run_id);
    for (uint32_t i = 0; i < p->count; i++) map->run_id[p->ids[i]] = i;
    if (problem->separation_count > 0 &&
        !apart_list(p, map, problem->separations, problem->separation_count, false, &p->apart))
        return false;
    size_t count = problem->reuse_cost_count;
    const tn_pair *costs = problem->reuse_costs;
    if (p->judge != NULL) costs = tn__judge_pairs(p->judge, &count);
    return count == 0 || apart_list(p, map, costs, count, true, &p->costs);
}

/* Fills `apart`, `costs` and `reserved` of the prepared bank. */
static tn_status prepare_apart(tn__prepared_bank *p, tn_bank_id which, tn_error *error) {
    const tn_problem *problem = p->problem;
    bool made = true;
    if (problem->reserved_count > 0) {
        p->reserved_room = problem->reserved_count;
        p->reserved = tn__alloc(&p->context, p->reserved_room * sizeof *p->reserved);
        made = p->reserved != NULL;
        if (made) p->reserved_count = tn__reserved_of(problem, which, p->reserved);
    }
    if (p->judge != NULL) tn__judge_bind(p->judge, p);
    const tn__exclusions *exclusions = &p->wholes->exclusions;
    for (uint32_t i = 0; i < p->count && exclusions->begin != NULL; i++)
        if (exclusions->begin[p->ids[i]] < exclusions->begin[p->ids[i] + 1])
            p->exclusions = exclusions;
    if (made && (problem->separation_count > 0 || problem->reuse_cost_count > 0 || p->judge)) {
        apart_map map = {.room = problem->count};
        map.run_id = tn__alloc(&p->context, map.room * sizeof *map.run_id);
        made = map.run_id != NULL && apart_fill(p, &map);
        tn__free(&p->context, map.run_id, map.room * sizeof *map.run_id);
    }
    if (!made) return tn__no_memory(error, "the pairs of a bank");
    if (p->reserved_count > 0 || p->apart.item_count > 0 || p->exclusions != NULL)
        p->needs |= TN_PLANS_APART;
    return TN_OK;
}

uint64_t tn__prepared_above_reserved(const tn__prepared_bank *p, const tn_run_body *body,
                                     uint64_t offset) {
    uint64_t start;
    if (!tn__align_up(offset, body->alignment, &start)) return UINT64_MAX;
    for (uint32_t i = 0; i < p->reserved_count && body->size > 0; i++) {
        if (p->reserved[i].last <= start) continue;
        if (p->reserved[i].first >= tn__add_sat(start, body->size)) break;
        if (!tn__align_up(p->reserved[i].last, body->alignment, &start)) return UINT64_MAX;
    }
    return start;
}

uint64_t tn__prepared_cost(const tn__prepared_bank *p, const uint64_t *offset) {
    uint64_t sum = 0;
    if (p->judge != NULL) return tn__judge_value(p->judge, offset);
    if (p->costs.begin == NULL) return 0;
    for (uint32_t i = 0; i < p->count; i++) {
        for (size_t k = p->costs.begin[i]; k < p->costs.begin[i + 1]; k++) {
            const tn__beside *pair = &p->costs.items[k];
            if (pair->other < i) continue; /* a pair is in both lists and counts once */
            uint64_t mine = offset[i], theirs = offset[pair->other];
            if (mine + pair->lo < theirs + pair->other_hi &&
                theirs + pair->other_lo < mine + pair->hi)
                sum = tn__add_sat(sum, pair->cost);
        }
    }
    return sum;
}
