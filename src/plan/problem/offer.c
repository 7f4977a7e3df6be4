/* offer.c - gives other banks to an existing problem: `--bank` of the command line.
 *
 * Banks with names of the problem's own banks change these; else they replace the problem's banks
 * in order, and add to them. A body in bank 0 may then choose, unless it is pinned or explicitly
 * bound to bank 0, because 0 is the default bank. A group chooses together or not at all.
 * Cost: O(bodies + banks^2).
 */
#include "plan/problem/problem.h"

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
