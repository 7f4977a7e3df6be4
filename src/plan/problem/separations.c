/* separations.c - stores separations, exclusions, reserved ranges and reuse costs of a problem as
 * they are given.
 *
 * They are kept in lists in the order in which they were added. A pair may be given many times:
 * separations are not merged, and the reuse costs of a pair add up. So adding costs O(1), and
 * memory grows with the number of given pairs.
 */
#include "plan/problem/problem.h"

#include <inttypes.h>

#define APART_PAIRS_MAX ((size_t)1 << 30)
#define APART_RANGES_MAX ((size_t)1 << 20)

const char *tn_objective_name(tn_objective objective) {
    static const char *const names[] = {
#define TN_X(name, text) [TN_OBJECTIVE_##name] = text,
        TN_OBJECTIVE_TABLE(TN_X)
#undef TN_X
    };
    size_t index = (size_t)objective;
    return index < sizeof names / sizeof *names ? names[index] : "unknown";
}

static tn_status apart_check(const tn_problem *problem, tn_body_id a, tn_body_id b, size_t count,
                             tn_error *error) {
    if (a >= problem->count || b >= problem->count)
        TN_FAIL(error, TN_E_INVALID, "the pair of bodies %u and %u: there are %zu bodies", a, b,
                problem->count);
    if (a == b) TN_FAIL(error, TN_E_INVALID, "body %u cannot form a pair with itself", a);
    if (count >= APART_PAIRS_MAX)
        TN_FAIL(error, TN_E_INVALID, "more than 2^30 pairs; give fewer of them");
    return TN_OK;
}

/* Whether two buffers of one group share bytes, because of their distances from the root. */
static bool apart_tied_together(const tn_problem *problem, tn_body_id a, tn_body_id b) {
    if (problem->group_count == 0 || problem->group_of[a] == TN__NO_GROUP) return false;
    const tn_body *x = &problem->bodies[a], *y = &problem->bodies[b];
    if (problem->group_of[a] != problem->group_of[b] || x->size == 0 || y->size == 0) return false;
    return x->delta < y->delta + y->size && y->delta < x->delta + x->size;
}

tn_status tn_problem_keep_apart(tn_problem *problem, tn_body_id a, tn_body_id b, tn_error *error) {
    TN_TRY(apart_check(problem, a, b, problem->separation_count, error));
    if (apart_tied_together(problem, a, b)) {
        char x[TN__BODY_TEXT_MAX], y[TN__BODY_TEXT_MAX];
        TN_FAIL(error, TN_E_INVALID,
                "%s and %s are tied where they share bytes, so they cannot be kept apart",
                tn__body_text(problem, a, x), tn__body_text(problem, b, y));
    }
    if (!tn__reserve(&problem->context, &problem->separations, &problem->separation_room,
                     problem->separation_count + 1, sizeof *problem->separations))
        return tn__no_memory(error, "a separation");
    problem->separations[problem->separation_count++] =
        (tn_pair){.a = a < b ? a : b, .b = a < b ? b : a};
    return TN_OK;
}

tn_status tn_problem_add_exclusion(tn_problem *problem, tn_body_id a, tn_body_id b,
                                   tn_error *error) {
    TN_TRY(apart_check(problem, a, b, problem->exclusion_count, error));
    if (problem->streams > 1)
        TN_FAIL(error, TN_E_INVALID, "exclusions need a problem with one stream; this has %u",
                problem->streams);
    if (!tn__reserve(&problem->context, &problem->exclusions, &problem->exclusion_room,
                     problem->exclusion_count + 1, sizeof *problem->exclusions))
        return tn__no_memory(error, "an exclusion");
    problem->exclusions[problem->exclusion_count++] =
        (tn_pair){.a = a < b ? a : b, .b = a < b ? b : a};
    return TN_OK;
}

tn_status tn_problem_add_reuse_cost(tn_problem *problem, tn_body_id a, tn_body_id b, uint64_t cost,
                                    tn_error *error) {
    TN_TRY(apart_check(problem, a, b, problem->reuse_cost_count, error));
    if (cost > INT64_MAX) /* a cost is limited, because numbers in files have 63 bits */
        TN_FAIL(error, TN_E_INVALID, "the reuse cost %" PRIu64 " is above 2^63 - 1", cost);
    if (!tn__reserve(&problem->context, &problem->reuse_costs, &problem->reuse_cost_room,
                     problem->reuse_cost_count + 1, sizeof *problem->reuse_costs))
        return tn__no_memory(error, "a reuse cost");
    problem->reuse_costs[problem->reuse_cost_count++] =
        (tn_pair){.a = a < b ? a : b, .b = a < b ? b : a, .cost = cost};
    return TN_OK;
}

tn_status tn_problem_reserve(tn_problem *problem, tn_bank_id bank, uint64_t first, uint64_t last,
                             tn_error *error) {
    if (bank >= problem->bank_count)
        TN_FAIL(error, TN_E_INVALID, "a range is reserved in bank %u, but there are %zu", bank,
                problem->bank_count);
    if (first > last)
        TN_FAIL(error, TN_E_INVALID,
                "the reserved range [%" PRIu64 ", %" PRIu64 ") ends before it begins", first, last);
    if (first == last) return TN_OK;
    if (problem->reserved_count >= APART_RANGES_MAX)
        TN_FAIL(error, TN_E_INVALID, "more than 2^20 reserved ranges; give fewer of them");
    if (!tn__reserve(&problem->context, &problem->reserved, &problem->reserved_room,
                     problem->reserved_count + 1, sizeof *problem->reserved))
        return tn__no_memory(error, "a reserved range");
    problem->reserved[problem->reserved_count++] =
        (tn_reserved){.bank = bank, .first = first, .last = last};
    return TN_OK;
}

const tn_pair *tn_problem_separations(const tn_problem *problem, uint32_t *count) {
    *count = (uint32_t)problem->separation_count;
    return problem->separations;
}

const tn_pair *tn_problem_exclusions(const tn_problem *problem, uint32_t *count) {
    *count = (uint32_t)problem->exclusion_count;
    return problem->exclusions;
}

const tn_reserved *tn_problem_reserved(const tn_problem *problem, uint32_t *count) {
    *count = (uint32_t)problem->reserved_count;
    return problem->reserved;
}

const tn_pair *tn_problem_reuse_costs(const tn_problem *problem, uint32_t *count) {
    *count = (uint32_t)problem->reuse_cost_count;
    return problem->reuse_costs;
}

/* --- reserved ranges of a bank --- */

static int apart_by_first(const void *a, const void *b) {
    const tn__byte_range *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->last > y->last) - (x->last < y->last);
}

uint32_t tn__reserved_of(const tn_problem *problem, tn_bank_id bank, tn__byte_range *out) {
    uint32_t count = 0, merged = 0;
    for (size_t i = 0; i < problem->reserved_count; i++)
        if (problem->reserved[i].bank == bank)
            out[count++] = (tn__byte_range){problem->reserved[i].first, problem->reserved[i].last};
    if (count > 1) qsort(out, count, sizeof *out, apart_by_first);
    for (uint32_t i = 0; i < count; i++) {
        if (merged > 0 && out[i].first <= out[merged - 1].last) {
            if (out[i].last > out[merged - 1].last) out[merged - 1].last = out[i].last;
            continue;
        }
        out[merged++] = out[i];
    }
    return merged;
}

tn_status tn__above_reserved(const tn_problem *problem, tn_bank_id bank, uint64_t *bytes,
                             tn_error *error) {
    size_t room = problem->reserved_count;
    if (room == 0 || *bytes == 0) return TN_OK;
    tn__byte_range *ranges = tn__alloc(&problem->context, room * sizeof *ranges);
    if (ranges == NULL) return tn__no_memory(error, "reserved ranges");
    uint32_t count = tn__reserved_of(problem, bank, ranges);
    for (uint32_t i = 0; i < count && ranges[i].first < *bytes; i++)
        *bytes = tn__add_sat(*bytes, ranges[i].last - ranges[i].first);
    tn__free(&problem->context, ranges, room * sizeof *ranges);
    return TN_OK;
}
