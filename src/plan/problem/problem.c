/* problem.c - checks buffers, pieces and banks when they are added, and stores them in normal form.
 *
 * In the normal form of a buffer, its pieces are disjoint rectangles, sorted by (first, lo), as
 * long in time as they can be (normal.c); the hull [first, last) and the alignment are filled in; a
 * tied buffer names the root of its chain. All later code may rely on that.
 *
 * Cost of adding: that of the normal form, O(k log k) for k pieces that do not overlap.
 */
#include "plan/problem/problem.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>

#define PROBLEM_ALIGNMENT_MAX ((uint64_t)1 << 40)
/* limit of clocks of one buffer, so that a small file cannot demand much memory */
#define PROBLEM_CLOCKS_MAX ((uint64_t)1 << 22)
/* limit of buffers, and of all pieces, so that the number of their events fits in 32 bits */
#define PROBLEM_TOTAL_MAX (1u << 30)

tn_status tn_problem_create(const tn_context *context, tn_problem **problem, tn_error *error) {
    tn_problem *made = tn__alloc_array(context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a problem");
    made->context = tn__context(context);
    tn__arena_init(&made->arena, &made->context);
    made->alignment = 1;
    made->streams = 1;
    made->least = INT64_MAX;
    made->most = INT64_MIN;
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
    tn__free(&context, problem->group_of, problem->group_of_room * sizeof *problem->group_of);
    tn__free(&context, problem->groups, problem->group_room * sizeof *problem->groups);
    tn__free(&context, problem->separations,
             problem->separation_room * sizeof *problem->separations);
    tn__free(&context, problem->reuse_costs,
             problem->reuse_cost_room * sizeof *problem->reuse_costs);
    tn__free(&context, problem->exclusions, problem->exclusion_room * sizeof *problem->exclusions);
    tn__free(&context, problem->reserved, problem->reserved_room * sizeof *problem->reserved);
    tn__free(&context, problem->events, problem->event_room * sizeof *problem->events);
    tn__free(&context, problem->orders, problem->order_room * sizeof *problem->orders);
    tn__free(&context, problem->waits, problem->wait_room * sizeof *problem->waits);
    tn__free(&context, problem->spans, problem->span_room * sizeof *problem->spans);
    tn__free(&context, problem->banks, problem->bank_room * sizeof *problem->banks);
    tn__free(&context, problem, sizeof *problem);
}

tn_status tn_problem_set_bank(tn_problem *problem, tn_bank_id id, const tn_bank *bank,
                              tn_error *error) {
    if (id > problem->bank_count)
        TN_FAIL(error, TN_E_INVALID, "bank %u does not follow bank %zu; add banks in order", id,
                problem->bank_count);
    if (!(bank->bytes_per_s >= 0 && bank->bytes_per_s <= DBL_MAX))
        TN_FAIL(error, TN_E_INVALID, "bank %u has a speed that is not a number from 0 up", id);
    char usual[24] = "arena";
    if (id > 0) snprintf(usual, sizeof usual, "bank %u", id);
    const char *name = bank->name != NULL ? bank->name : usual;
    char *copy = tn__arena_string(&problem->arena, name, strlen(name));
    if (copy == NULL || !tn__reserve(&problem->context, &problem->banks, &problem->bank_room,
                                     (size_t)id + 1, sizeof *problem->banks))
        return tn__no_memory(error, "a bank");
    problem->banks[id] =
        (tn_bank){.name = copy, .capacity = bank->capacity, .bytes_per_s = bank->bytes_per_s};
    if (id == problem->bank_count) {
        problem->bank_count++;
        /* the file that was read does not contain the added bank */
        problem->dsa = NULL;
    }
    return TN_OK;
}

tn_status tn_problem_set_streams(tn_problem *problem, uint32_t count, tn_error *error) {
    if (count == 0 || count > TN_STREAMS_MAX)
        TN_FAIL(error, TN_E_INVALID, "%u streams; there can be 1 to %u", count, TN_STREAMS_MAX);
    if (problem->count > 0)
        TN_FAIL(error, TN_E_INVALID, "the number of streams is set before any body is added");
    int64_t *never = tn__arena_array(&problem->arena, count, sizeof *never);
    int64_t *zero = tn__arena_array(&problem->arena, count, sizeof *zero);
    if (never == NULL || zero == NULL) return tn__no_memory(error, "clocks");
    for (uint32_t s = 0; s < count; s++) never[s] = INT64_MAX;
    problem->streams = count;
    problem->clock_zero = zero;
    problem->clock_never = never;
    return TN_OK;
}

uint32_t tn_problem_streams(const tn_problem *problem) { return problem->streams; }

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
    if (body->flags & TN_BODY_ANY_BANK)
        TN_FAIL(error, TN_E_INVALID, "is pinned, but in no bank of its own");
    if (body->offset % alignment != 0)
        TN_FAIL(error, TN_E_INVALID,
                "is pinned at %" PRIu64 ", which is not a multiple of its alignment %" PRIu64,
                body->offset, alignment);
    if (!tn__add(body->offset, body->size, &end) || end > TN__PLAN_HEIGHT_MAX)
        TN_FAIL(error, TN_E_INVALID, "is pinned at %" PRIu64 ", where it ends beyond 2^63",
                body->offset);
    return TN_OK;
}

/* Checks the tie of `body`, which names its leader as given by the caller. Distances add up along
 * the chain of leaders. */
static tn_status problem_check_tie(const tn_problem *problem, const tn_body *body,
                                   uint64_t alignment, tn_error *error) {
    if (!(body->flags & TN_BODY_TIED)) return TN_OK;
    if (body->leader >= problem->count)
        TN_FAIL(error, TN_E_INVALID, "is tied to body %u, which is not there yet", body->leader);
    const tn_body *leader = &problem->bodies[body->leader];
    uint64_t delta = body->delta, end;
    if ((leader->flags ^ body->flags) & TN_BODY_ANY_BANK)
        TN_FAIL(error, TN_E_INVALID,
                "and the body it is tied to: one chooses its bank, one does not");
    if (leader->bank != body->bank && !(body->flags & TN_BODY_ANY_BANK))
        TN_FAIL(error, TN_E_INVALID, "is in bank %u, the body it is tied to in bank %u", body->bank,
                leader->bank);
    if (((leader->flags & TN_BODY_TIED) && !tn__add(delta, leader->delta, &delta)) ||
        !tn__add(delta, body->size, &end) || end > TN__PLAN_HEIGHT_MAX)
        TN_FAIL(error, TN_E_INVALID,
                "is tied %" PRIu64 " bytes above body %u, where it ends beyond 2^63", body->delta,
                body->leader);
    if (delta % alignment != 0)
        TN_FAIL(error, TN_E_INVALID,
                "lies %" PRIu64 " bytes above the start of its group, no multiple of its "
                "alignment %" PRIu64,
                delta, alignment);
    return TN_OK;
}

static tn_status problem_check(const tn_problem *problem, const tn_body *body, uint64_t alignment,
                               tn_error *error) {
    if (problem->count >= PROBLEM_TOTAL_MAX) TN_FAIL(error, TN_E_INVALID, "is one body too many");
    if (body->size > TN__PLAN_HEIGHT_MAX)
        TN_FAIL(error, TN_E_INVALID, "has %" PRIu64 " bytes, more than 2^63 - 1", body->size);
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
    TN_TRY(problem_check_tie(problem, body, alignment, error));
    return problem_check_pin(body, alignment, error);
}

/* --- adding --- */

/* Copies a piece into the problem's own memory. If its clocks are not known, it gets clocks that
 * order it neither before nor after other pieces. */
static tn_status problem_copy_piece(tn_problem *problem, const tn_piece *from, tn_piece *piece,
                                    tn_error *error) {
    uint32_t streams = problem->streams;
    *piece = *from;
    piece->begins = piece->ends = NULL;
    if (streams == 1) return TN_OK;
    piece->begins = from->begins != NULL ? tn__arena_copy(&problem->arena, from->begins,
                                                          streams * sizeof *from->begins)
                                         : problem->clock_zero;
    if (piece->begins == NULL) return tn__no_memory(error, "clocks");
    piece->ends = problem->clock_never;
    if (from->ends == NULL) return TN_OK;
    int64_t *ends = tn__arena_copy(&problem->arena, from->ends, streams * sizeof *ends);
    if (ends == NULL) return tn__no_memory(error, "clocks");
    for (uint32_t s = 0; s < streams; s++)
        if (ends[s] < piece->begins[s]) ends[s] = piece->begins[s];
    piece->ends = ends;
    return TN_OK;
}

static tn_status problem_copy_pieces(tn_problem *problem, const tn_body *body, uint32_t count,
                                     const tn_piece **pieces, tn_error *error) {
    tn_piece whole = {.first = body->first, .last = body->last, .hi = body->size};
    const tn_piece *from = body->piece_count > 0 ? body->pieces : &whole;
    tn_piece *copies = tn__arena_array(&problem->arena, count, sizeof *copies);
    if (copies == NULL) return tn__no_memory(error, "the pieces of a body");
    for (uint32_t i = 0; i < count; i++)
        TN_TRY(problem_copy_piece(problem, &from[i], &copies[i], error));
    *pieces = copies;
    return TN_OK;
}

static tn_status problem_store_pieces(tn_problem *problem, tn_body *body, tn_error *error) {
    const tn_piece *pieces = NULL;
    uint32_t count = 0;
    if (problem->streams > 1 && (uint64_t)body->piece_count * problem->streams > PROBLEM_CLOCKS_MAX)
        TN_FAIL(error, TN_E_INVALID, "has %u pieces with %u clocks each, more than 2^22 together",
                body->piece_count, problem->streams);
    if (body->piece_count > 1) {
        const tn_piece *given = body->pieces;
        if (problem->streams > 1)
            TN_TRY(problem_copy_pieces(problem, body, body->piece_count, &given, error));
        TN_TRY(tn__normal_form(given, body->piece_count, problem->streams, &problem->arena, &pieces,
                               &count, error));
    } else if (body->size > 0) {
        TN_TRY(problem_copy_pieces(problem, body, 1, &pieces, error));
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

/* Reserves memory for one more buffer, and for one more group if the buffer is tied. */
static bool problem_reserve(tn_problem *problem, bool tied) {
    const tn_context *context = &problem->context;
    size_t need = problem->count + 1;
    if (!tn__reserve(context, &problem->bodies, &problem->room, need, sizeof *problem->bodies))
        return false;
    if (!tied && problem->group_count == 0) return true;
    return tn__reserve(context, &problem->group_of, &problem->group_of_room, need,
                       sizeof *problem->group_of) &&
           tn__reserve(context, &problem->groups, &problem->group_room, problem->group_count + 1,
                       sizeof *problem->groups);
}

/* Replaces the leader of a buffer by the root of its chain, and the distance by that from the root.
 * Adds the buffer to the group of the root. */
static void problem_tie(tn_problem *problem, tn_body *made) {
    tn_body *root = &problem->bodies[made->leader];
    if (root->flags & TN_BODY_TIED) {
        made->delta += root->delta;
        made->leader = root->leader;
        root = &problem->bodies[made->leader];
    }
    if (problem->group_count == 0)
        for (size_t i = 0; i < problem->count; i++) problem->group_of[i] = TN__NO_GROUP;
    if (!(root->flags & TN_BODY_LEADS)) {
        root->flags |= TN_BODY_LEADS;
        problem->group_of[made->leader] = (uint32_t)problem->group_count;
        problem->groups[problem->group_count++] = (tn__body_group){.root = made->leader,
                                                                   .body_count = 1,
                                                                   .piece_count = root->piece_count,
                                                                   .size = root->size,
                                                                   .alignment = root->alignment};
    }
    tn__body_group *group = &problem->groups[problem->group_of[made->leader]];
    group->body_count++;
    group->piece_count += made->piece_count;
    if (made->size != 0 && made->delta + made->size > group->size)
        group->size = made->delta + made->size;
    if (made->alignment > group->alignment) group->alignment = made->alignment;
    problem->group_of[problem->count] = problem->group_of[made->leader];
}

tn_status tn_problem_add(tn_problem *problem, const tn_body *body, tn_body_id *id,
                         tn_error *error) {
    tn_body made = *body;
    made.flags &= TN_BODY_PINNED | TN_BODY_TIED | TN_BODY_ANY_BANK | TN__BODY_IN_BANK;
    if (!(made.flags & TN_BODY_TIED)) made.leader = 0, made.delta = 0;
    if (made.alignment == 0) {
        made.alignment = problem->alignment;
        made.flags |= TN_BODY_DEFAULT_ALIGNED;
    }
    if (made.pieces == NULL) made.piece_count = 0;
    if (!problem_reserve(problem, (made.flags & TN_BODY_TIED) != 0))
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
    if (made.flags & TN_BODY_TIED)
        problem_tie(problem, &made);
    else if (problem->group_count > 0)
        problem->group_of[problem->count] = TN__NO_GROUP;
    problem->bodies[problem->count++] = made;
    /* a reader sets the facts of its file after it has added all buffers */
    problem->dsa = NULL;
    problem->piece_count += made.piece_count;
    problem->any_count += (made.flags & TN_BODY_ANY_BANK) != 0;
    problem->pin_count += (made.flags & TN_BODY_PINNED) != 0;
    if (made.first < problem->least) problem->least = made.first;
    if (made.last > problem->most) problem->most = made.last;
    return TN_OK;
}

tn_status tn_problem_set_alignment(tn_problem *problem, uint64_t alignment, tn_error *error) {
    if (!tn__is_power_of_two(alignment) || alignment > PROBLEM_ALIGNMENT_MAX)
        TN_FAIL(error, TN_E_INVALID, "alignment %" PRIu64 " is not a power of two up to 2^40",
                alignment);
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = &problem->bodies[i];
        if (!(body->flags & TN_BODY_DEFAULT_ALIGNED)) continue;
        char text[TN__BODY_TEXT_MAX];
        tn_status status = problem_check_pin(body, alignment, error);
        if (status == TN_OK && (body->flags & TN_BODY_TIED) && body->delta % alignment != 0)
            status = tn__fail(error, TN_E_INVALID,
                              "lies %" PRIu64 " bytes above its leader, no multiple of the "
                              "alignment %" PRIu64,
                              body->delta, alignment);
        if (status != TN_OK)
            return tn__where(error, status, "%s", tn__body_text(problem, (tn_body_id)i, text));
    }
    for (size_t i = 0; i < problem->count; i++)
        if (problem->bodies[i].flags & TN_BODY_DEFAULT_ALIGNED)
            problem->bodies[i].alignment = alignment;
    for (size_t g = 0; g < problem->group_count; g++) problem->groups[g].alignment = 1;
    for (size_t i = 0; i < problem->count && problem->group_count > 0; i++) {
        if (problem->group_of[i] == TN__NO_GROUP) continue;
        tn__body_group *group = &problem->groups[problem->group_of[i]];
        if (problem->bodies[i].alignment > group->alignment)
            group->alignment = problem->bodies[i].alignment;
    }
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

bool tn__has_choice(const tn_problem *problem) {
    return problem->any_count > 0 && problem->bank_count > 1;
}

uint64_t tn_problem_naive(const tn_problem *problem) {
    uint64_t sum = 0, size;
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = &problem->bodies[i];
        if (body->flags & (TN_BODY_TIED | TN_BODY_LEADS)) continue;
        if (!tn__align_up(body->size, body->alignment, &size)) return UINT64_MAX;
        sum = tn__add_sat(sum, size);
    }
    for (size_t g = 0; g < problem->group_count; g++) {
        const tn__body_group *group = &problem->groups[g];
        if (!tn__align_up(group->size, group->alignment, &size)) return UINT64_MAX;
        sum = tn__add_sat(sum, size);
    }
    return sum;
}

int tn__time_order(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

uint32_t tn__time_rank(const int64_t *times, uint32_t count, int64_t time) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (times[middle] <= time)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* --- other banks for an existing problem ----------------------------------------------------
 *
 * A new bank with the name of one of the problem's banks changes that bank. If there are no such
 * names, the new banks replace the problem's banks in order, and further ones are added. A buffer
 * in bank 0 may then be planned in any bank, unless it is pinned or explicitly bound to bank 0,
 * because 0 is the default bank. Either all buffers of a group may change their bank or none.
 *
 * Cost: O(buffers + banks^2).
 */

static tn_bank_id offer_named(const tn_problem *problem, const char *name) {
    for (size_t i = 0; i < problem->bank_count; i++)
        if (name != NULL && strcmp(problem->banks[i].name, name) == 0) return (tn_bank_id)i;
    return UINT32_MAX;
}

static tn_status offer_banks(tn_problem *problem, const tn_bank *banks, uint32_t count,
                             tn_error *error) {
    uint32_t named = 0;
    for (uint32_t i = 0; i < count; i++) named += offer_named(problem, banks[i].name) != UINT32_MAX;
    if (named != 0 && named != count)
        TN_FAIL(error, TN_E_INVALID,
                "some banks have names of the problem's own and some have not; give all or none");
    for (uint32_t i = 0; i < count; i++) {
        tn_bank_id id = named != 0 ? offer_named(problem, banks[i].name) : i;
        TN_TRY(tn_problem_set_bank(problem, id, &banks[i], error));
    }
    return TN_OK;
}

tn_status tn_problem_offer_banks(tn_problem *problem, const tn_bank *banks, uint32_t count,
                                 tn_error *error) {
    TN_TRY(offer_banks(problem, banks, count, error));
    bool *stays = tn__alloc_array(&problem->context, problem->group_count, sizeof *stays);
    if (stays == NULL) return tn__no_memory(error, "the groups of tied bodies");
    for (size_t i = 0; i < problem->count && problem->group_count > 0; i++) {
        const tn_body *body = &problem->bodies[i];
        if (problem->group_of[i] == TN__NO_GROUP) continue;
        stays[problem->group_of[i]] |= (body->flags & (TN_BODY_PINNED | TN__BODY_IN_BANK)) != 0;
    }
    problem->any_count = 0;
    for (size_t i = 0; i < problem->count; i++) {
        tn_body *body = &problem->bodies[i];
        bool tied = problem->group_count > 0 && problem->group_of[i] != TN__NO_GROUP;
        bool held = (body->flags & TN_BODY_PINNED) || (tied && stays[problem->group_of[i]]);
        bool bound = held || (body->flags & TN__BODY_IN_BANK) != 0;
        if (body->bank == 0 && !bound) body->flags |= TN_BODY_ANY_BANK;
        problem->any_count += (body->flags & TN_BODY_ANY_BANK) != 0;
    }
    tn__free(&problem->context, stays, problem->group_count * sizeof *stays);
    return TN_OK;
}
