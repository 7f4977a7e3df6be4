/* problem.c - bodies, pieces, banks: checked when they enter, and in one normal form after that.
 *
 * Normal form of a body: its pieces are disjoint rectangles, sorted by (first, lo), as long in
 * time as they can be; the hull [first, last) and the alignment are filled in. Everything behind
 * this file may rely on it.
 * Cost of adding: O(k log k + k a) for k pieces of which at most a live at once. The normal form
 * can hold k^2 / 4 pieces: where k / 2 upright bars cross k / 2 level ones, no fewer disjoint
 * rectangles cover them.
 */
#include "plan/problem.h"

#include <inttypes.h>
#include <stdio.h>

#define PROBLEM_ALIGNMENT_MAX ((uint64_t)1 << 40)
#define PROBLEM_PIECES_MAX (1u << 22) /* of one body in normal form */
#define PROBLEM_TOTAL_MAX (1u << 30)  /* bodies, and pieces of all: 32 bits count their events */

tn_status tn_problem_create(const tn_context *context, tn_problem **problem, tn_error *error) {
    tn_problem *made = tn__alloc_array(context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a problem");
    made->context = tn__context(context);
    tn__arena_init(&made->arena, &made->context);
    made->alignment = 1;
    tn_status status = tn_problem_set_bank(made, 0, &(tn_bank){.name = "arena"}, error);
    if (status != TN_OK)
        tn_problem_destroy(made);
    else
        *problem = made;
    return status;
}

void tn_problem_destroy(tn_problem *problem) {
    if (problem == NULL) return;
    tn_context context = problem->context;
    tn__arena_release(&problem->arena);
    tn__free(&context, problem->bodies, problem->room * sizeof *problem->bodies);
    tn__free(&context, problem->banks, problem->bank_room * sizeof *problem->banks);
    tn__free(&context, problem, sizeof *problem);
}

tn_status tn_problem_set_bank(tn_problem *problem, tn_bank_id id, const tn_bank *bank,
                              tn_error *error) {
    if (id > problem->bank_count)
        TN_FAIL(error, TN_E_INVALID, "bank %u does not follow bank %zu; add banks in order", id,
                problem->bank_count);
    const char *name = bank->name != NULL ? bank->name : "arena";
    char *copy = tn__arena_string(&problem->arena, name, strlen(name));
    if (copy == NULL || !tn__reserve(&problem->context, &problem->banks, &problem->bank_room,
                                     (size_t)id + 1, sizeof *problem->banks))
        return tn__no_memory(error, "a bank");
    problem->banks[id] = (tn_bank){.name = copy, .capacity = bank->capacity};
    if (id == problem->bank_count) problem->bank_count++;
    return TN_OK;
}

const char *tn__body_text(const tn_problem *problem, tn_body_id id, char text[TN__BODY_TEXT_MAX]) {
    const char *name = id < problem->count ? problem->bodies[id].name : NULL;
    if (name == NULL)
        snprintf(text, TN__BODY_TEXT_MAX, "body %u", id);
    else
        snprintf(text, TN__BODY_TEXT_MAX, "'%.80s'", name);
    return text;
}

/* --- checks --- */

static tn_status problem_check_piece(const tn_body *body, const tn_piece *piece, tn_error *error) {
    if (piece->first >= piece->last)
        TN_FAIL(error, TN_E_INVALID,
                "lives in [%" PRId64 ", %" PRId64 "), which is empty; first must be below last",
                piece->first, piece->last);
    if (piece->lo >= piece->hi || piece->hi > body->size)
        TN_FAIL(error, TN_E_INVALID,
                "has the window [%" PRIu64 ", %" PRIu64
                "), which is empty or outside its size %" PRIu64,
                piece->lo, piece->hi, body->size);
    return TN_OK;
}

static tn_status problem_check_pin(const tn_body *body, uint64_t alignment, tn_error *error) {
    uint64_t end;
    if (!(body->flags & TN_BODY_PINNED)) return TN_OK;
    if (body->offset % alignment != 0)
        TN_FAIL(error, TN_E_INVALID,
                "is pinned at %" PRIu64 ", which is no multiple of its alignment %" PRIu64,
                body->offset, alignment);
    if (!tn__add(body->offset, body->size, &end) || end > TN__PLAN_HEIGHT_MAX)
        TN_FAIL(error, TN_E_INVALID, "is pinned at %" PRIu64 ", where it ends beyond 2^63",
                body->offset);
    return TN_OK;
}

static tn_status problem_check(const tn_problem *problem, const tn_body *body, uint64_t alignment,
                               tn_error *error) {
    if (problem->count >= PROBLEM_TOTAL_MAX) TN_FAIL(error, TN_E_INVALID, "is one body too many");
    if (body->size > TN__PLAN_HEIGHT_MAX)
        TN_FAIL(error, TN_E_INVALID, "has %" PRIu64 " bytes, more than 2^63", body->size);
    if (!tn__is_power_of_two(alignment) || alignment > PROBLEM_ALIGNMENT_MAX)
        TN_FAIL(error, TN_E_INVALID,
                "has alignment %" PRIu64 "; it must be a power of two up to 2^40", alignment);
    if (body->bank >= problem->bank_count)
        TN_FAIL(error, TN_E_INVALID, "is in bank %u, but there are %zu", body->bank,
                problem->bank_count);
    if (body->piece_count == 0 && body->first >= body->last)
        TN_FAIL(error, TN_E_INVALID,
                "lives in [%" PRId64 ", %" PRId64 "), which is empty; first must be below last",
                body->first, body->last);
    for (uint32_t i = 0; i < body->piece_count; i++)
        TN_TRY(problem_check_piece(body, &body->pieces[i], error));
    return problem_check_pin(body, alignment, error);
}

/* --- normal form: a sweep over time that keeps the union of the open windows --- */

typedef struct problem_sweep {
    const tn_context *context;
    tn_piece *out; /* finished rectangles; grows */
    size_t out_count, out_room;
    tn_piece *open; /* those that reach the present time */
    uint32_t open_count;
    tn_piece *live; /* input pieces alive now, by lo */
    uint32_t live_count;
} problem_sweep;

static int problem_piece_order(const void *a, const void *b) {
    const tn_piece *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static int problem_time_order(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* From `now` on the union of the live windows holds: windows that stay are prolonged later, the
 * others are closed at `now`, new ones opened. */
static bool problem_sweep_step(problem_sweep *sweep, int64_t now, tn_piece *fresh) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < sweep->live_count; i++) { /* merge neighbours into fresh[] */
        const tn_piece *live = &sweep->live[i];
        if (count != 0 && live->lo <= fresh[count - 1].hi) {
            if (live->hi > fresh[count - 1].hi) fresh[count - 1].hi = live->hi;
        } else {
            fresh[count++] = (tn_piece){.first = now, .lo = live->lo, .hi = live->hi};
        }
    }
    if (sweep->out_count > PROBLEM_PIECES_MAX ||
        !tn__reserve(sweep->context, &sweep->out, &sweep->out_room,
                     sweep->out_count + sweep->open_count, sizeof *sweep->out))
        return false;
    uint32_t at = 0;
    for (uint32_t i = 0; i < sweep->open_count; i++) {
        tn_piece *open = &sweep->open[i];
        while (at < count && fresh[at].lo < open->lo) at++;
        bool stays = at < count && fresh[at].lo == open->lo && fresh[at].hi == open->hi;
        if (stays) {
            fresh[at].first = open->first;
        } else {
            open->last = now;
            sweep->out[sweep->out_count++] = *open;
        }
    }
    for (uint32_t i = 0; i < count; i++) sweep->open[i] = fresh[i];
    sweep->open_count = count;
    return true;
}

static bool problem_sweep_run(problem_sweep *sweep, const tn_piece *pieces, uint32_t count,
                              const int64_t *times, size_t time_count, tn_piece *fresh) {
    uint32_t next = 0;
    for (size_t t = 0; t < time_count; t++) {
        if (t != 0 && times[t] == times[t - 1]) continue;
        uint32_t left = 0;
        for (uint32_t i = 0; i < sweep->live_count; i++)
            if (sweep->live[i].last > times[t]) sweep->live[left++] = sweep->live[i];
        sweep->live_count = left;
        for (; next < count && pieces[next].first == times[t]; next++) {
            uint32_t at = sweep->live_count++;
            for (; at > 0 && sweep->live[at - 1].lo > pieces[next].lo; at--)
                sweep->live[at] = sweep->live[at - 1];
            sweep->live[at] = pieces[next];
        }
        if (!problem_sweep_step(sweep, times[t], fresh)) return false;
    }
    tn_assert(sweep->open_count == 0);
    return sweep->out_count <= PROBLEM_PIECES_MAX;
}

/* `scratch` holds 4k pieces: sorted input, open, live, fresh. */
static bool problem_sort_and_sweep(problem_sweep *sweep, const tn_body *body, tn_piece *scratch,
                                   int64_t *times) {
    size_t k = body->piece_count;
    memcpy(scratch, body->pieces, k * sizeof *scratch);
    qsort(scratch, k, sizeof *scratch, problem_piece_order);
    for (size_t i = 0; i < k; i++) {
        times[2 * i] = scratch[i].first;
        times[2 * i + 1] = scratch[i].last;
    }
    qsort(times, 2 * k, sizeof *times, problem_time_order);
    sweep->open = scratch + k;
    sweep->live = scratch + 2 * k;
    if (!problem_sweep_run(sweep, scratch, (uint32_t)k, times, 2 * k, scratch + 3 * k))
        return false;
    qsort(sweep->out, sweep->out_count, sizeof *sweep->out, problem_piece_order);
    return true;
}

static tn_status problem_normalise(tn_problem *problem, const tn_body *body, tn_piece **pieces,
                                   uint32_t *count, tn_error *error) {
    const tn_context *context = &problem->context;
    size_t k = body->piece_count;
    tn_piece *scratch = tn__alloc_array(context, 4 * k, sizeof *scratch);
    int64_t *times = tn__alloc_array(context, 2 * k, sizeof *times);
    problem_sweep sweep = {.context = context};
    bool done =
        scratch != NULL && times != NULL && problem_sort_and_sweep(&sweep, body, scratch, times);
    if (done) {
        *count = (uint32_t)sweep.out_count;
        *pieces = tn__arena_copy(&problem->arena, sweep.out, *count * sizeof *sweep.out);
    }
    tn__free(context, sweep.out, sweep.out_room * sizeof *sweep.out);
    tn__free(context, scratch, 4 * k * sizeof *scratch);
    tn__free(context, times, 2 * k * sizeof *times);
    if (sweep.out_count > PROBLEM_PIECES_MAX)
        TN_FAIL(error, TN_E_INVALID, "has pieces that cut each other into more than %u",
                PROBLEM_PIECES_MAX);
    if (!done || *pieces == NULL) return tn__no_memory(error, "the pieces of a body");
    return TN_OK;
}

static tn_status problem_store_pieces(tn_problem *problem, tn_body *body, tn_error *error) {
    tn_piece *pieces = NULL;
    uint32_t count = 0;
    if (body->piece_count > 1) {
        TN_TRY(problem_normalise(problem, body, &pieces, &count, error));
    } else if (body->size > 0) {
        tn_piece whole = {.first = body->first, .last = body->last, .hi = body->size};
        pieces = tn__arena_copy(&problem->arena, body->piece_count == 1 ? body->pieces : &whole,
                                sizeof *pieces);
        if (pieces == NULL) return tn__no_memory(error, "the pieces of a body");
        count = 1;
    }
    if (count > PROBLEM_TOTAL_MAX - problem->piece_count)
        TN_FAIL(error, TN_E_INVALID, "has more pieces than fit in a problem");
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || pieces[i].first < body->first) body->first = pieces[i].first;
        if (i == 0 || pieces[i].last > body->last) body->last = pieces[i].last;
    }
    body->pieces = pieces;
    body->piece_count = count;
    return TN_OK;
}

tn_status tn_problem_add(tn_problem *problem, const tn_body *body, tn_body_id *id,
                         tn_error *error) {
    tn_body made = *body;
    made.flags &= TN_BODY_PINNED;
    if (made.alignment == 0) {
        made.alignment = problem->alignment;
        made.flags |= TN_BODY_DEFAULT_ALIGNED;
    }
    if (made.pieces == NULL) made.piece_count = 0;
    if (!tn__reserve(&problem->context, &problem->bodies, &problem->room, problem->count + 1,
                     sizeof *problem->bodies))
        return tn__no_memory(error, "a body");
    tn_status status = problem_check(problem, &made, made.alignment, error);
    if (status == TN_OK) status = problem_store_pieces(problem, &made, error);
    if (status != TN_OK) {
        char name[24];
        snprintf(name, sizeof name, "%zu", problem->count);
        return tn__where(error, status, "body '%s'", made.name != NULL ? made.name : name);
    }
    if (made.name != NULL) {
        made.name = tn__arena_string(&problem->arena, made.name, strlen(made.name));
        if (made.name == NULL) return tn__no_memory(error, "a name");
    }
    if (id != NULL) *id = (tn_body_id)problem->count;
    problem->bodies[problem->count++] = made;
    problem->piece_count += made.piece_count;
    return TN_OK;
}

tn_status tn_problem_set_alignment(tn_problem *problem, uint64_t alignment, tn_error *error) {
    if (!tn__is_power_of_two(alignment) || alignment > PROBLEM_ALIGNMENT_MAX)
        TN_FAIL(error, TN_E_INVALID, "alignment %" PRIu64 " is no power of two up to 2^40",
                alignment);
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = &problem->bodies[i];
        if (!(body->flags & TN_BODY_DEFAULT_ALIGNED)) continue;
        char text[TN__BODY_TEXT_MAX];
        tn_status status = problem_check_pin(body, alignment, error);
        if (status != TN_OK)
            return tn__where(error, status, "%s", tn__body_text(problem, (tn_body_id)i, text));
    }
    for (size_t i = 0; i < problem->count; i++)
        if (problem->bodies[i].flags & TN_BODY_DEFAULT_ALIGNED)
            problem->bodies[i].alignment = alignment;
    problem->alignment = alignment;
    return TN_OK;
}

/* --- reading --- */

uint32_t tn_problem_count(const tn_problem *problem) { return (uint32_t)problem->count; }
uint32_t tn_problem_bank_count(const tn_problem *problem) { return (uint32_t)problem->bank_count; }

const tn_body *tn_problem_body(const tn_problem *problem, tn_body_id id) {
    tn_assert(id < problem->count);
    return &problem->bodies[id];
}

const tn_bank *tn_problem_bank(const tn_problem *problem, tn_bank_id id) {
    tn_assert(id < problem->bank_count);
    return &problem->banks[id];
}

uint64_t tn_problem_naive(const tn_problem *problem) {
    uint64_t sum = 0;
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = &problem->bodies[i];
        uint64_t size = UINT64_MAX;
        if (!tn__align_up(body->size, body->alignment, &size)) return UINT64_MAX;
        sum = tn__add_sat(sum, size);
    }
    return sum;
}
