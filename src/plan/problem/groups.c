/* groups.c - joins tied buffers into one buffer, as planners, bounds and the verifier see it.
 *
 * Members keep their distances, so a group is one rigid buffer with the union of their pieces. The
 * union also handles aliases: bytes that two members share count once. The distance of each member
 * from the root is a multiple of the member's alignment, so all are aligned exactly if the root is
 * a multiple of the largest alignment. A pinned member pins the root. If the root would have to
 * begin below 0, off the alignment, or at two places, no layout exists, and the two buffers that
 * conflict are kept as proof.
 *
 * Cost: O(buffers), and for each group the cost of its normal form.
 */
#include "plan/problem/problem.h"

/* The members of all groups, one group after the other, filled by a counting sort. */
typedef struct groups_members {
    tn_body_id *ids;
    size_t *first; /* [group_count + 1], index of the first member of each group */
    tn_piece *pieces;
    size_t id_room, piece_room;
} groups_members;

static void groups_release_members(const tn_problem *problem, groups_members *members) {
    const tn_context *context = &problem->context;
    tn__free(context, members->ids, members->id_room * sizeof *members->ids);
    tn__free(context, members->first, (problem->group_count + 1) * sizeof *members->first);
    tn__free(context, members->pieces, members->piece_room * sizeof *members->pieces);
}

static bool groups_sort_members(const tn_problem *problem, groups_members *members) {
    const tn_context *context = &problem->context;
    size_t total = 0;
    for (size_t g = 0; g < problem->group_count; g++) {
        total += problem->groups[g].body_count;
        if (problem->groups[g].piece_count > members->piece_room)
            members->piece_room = problem->groups[g].piece_count;
    }
    members->id_room = total;
    members->ids = tn__alloc_array(context, total, sizeof *members->ids);
    members->first = tn__alloc_array(context, problem->group_count + 1, sizeof *members->first);
    members->pieces = tn__alloc_array(context, members->piece_room, sizeof *members->pieces);
    if (!members->ids || !members->first || !members->pieces) return false;
    total = 0;
    for (size_t g = 0; g < problem->group_count; g++) {
        members->first[g] = total;
        total += problem->groups[g].body_count;
    }
    for (size_t i = 0; i < problem->count; i++)
        if (problem->group_of[i] != TN__NO_GROUP)
            members->ids[members->first[problem->group_of[i]]++] = (tn_body_id)i;
    for (size_t g = problem->group_count; g > 0; g--) members->first[g] = members->first[g - 1];
    members->first[0] = 0;
    return true;
}

static void groups_pin(tn__wholes *wholes, tn_body *whole, tn_body_id *by, tn_body_id id) {
    const tn_body *body = &wholes->problem->bodies[id];
    if (!(body->flags & TN_BODY_PINNED)) return;
    bool fits = body->offset >= body->delta;
    uint64_t offset = fits ? body->offset - body->delta : 0;
    fits = fits && offset % whole->alignment == 0 && offset <= TN__PLAN_HEIGHT_MAX - whole->size;
    bool first = !(whole->flags & TN_BODY_PINNED);
    if (first) {
        whole->flags |= TN_BODY_PINNED;
        whole->offset = offset;
        *by = id;
    }
    if (wholes->clash || (fits && offset == whole->offset)) return;
    wholes->clash = true;
    wholes->clash_a = *by;
    wholes->clash_b = id;
}

/* Computes the buffer of a group without its pieces, which are appended to members->pieces; returns
 * their number. */
static size_t groups_join(tn__wholes *wholes, const groups_members *members, size_t g) {
    const tn_problem *problem = wholes->problem;
    const tn__body_group *group = &problem->groups[g];
    tn_body *whole = &wholes->bodies[g];
    tn_body_id pinned_by = group->root;
    size_t count = 0;
    *whole = problem->bodies[group->root];
    whole->flags &= (uint32_t)~TN_BODY_PINNED;
    whole->size = group->size;
    whole->alignment = group->alignment;
    for (size_t i = members->first[g]; i < members->first[g + 1]; i++) {
        const tn_body *body = &problem->bodies[members->ids[i]];
        groups_pin(wholes, whole, &pinned_by, members->ids[i]);
        for (uint32_t k = 0; k < body->piece_count; k++) {
            tn_piece *piece = &members->pieces[count++];
            *piece = body->pieces[k];
            piece->lo += body->delta;
            piece->hi += body->delta;
        }
    }
    return count;
}

static tn_status groups_unite(tn__wholes *wholes, const groups_members *members, size_t g,
                              tn_error *error) {
    tn_body *whole = &wholes->bodies[g];
    size_t count = groups_join(wholes, members, g);
    whole->pieces = NULL;
    whole->piece_count = 0;
    if (count == 0) return TN_OK; /* all members of the group have size 0 */
    tn_status status = tn__normal_form(members->pieces, count, wholes->problem->streams,
                                       &wholes->arena, &whole->pieces, &whole->piece_count, error);
    if (status != TN_OK) {
        char text[TN__BODY_TEXT_MAX];
        return tn__where(error, status, "the group of %s",
                         tn__body_text(wholes->problem, wholes->problem->groups[g].root, text));
    }
    for (uint32_t k = 0; k < whole->piece_count; k++) {
        if (k == 0 || whole->pieces[k].first < whole->first) whole->first = whole->pieces[k].first;
        if (k == 0 || whole->pieces[k].last > whole->last) whole->last = whole->pieces[k].last;
    }
    wholes->piece_count += whole->piece_count;
    return TN_OK;
}

tn_status tn__wholes_create(const tn_problem *problem, tn__wholes *wholes, tn_error *error) {
    *wholes = (tn__wholes){.problem = problem, .piece_count = problem->piece_count};
    tn__arena_init(&wholes->arena, &problem->context);
    TN_TRY(tn__exclusions_make(problem, &wholes->exclusions, error));
    if (problem->group_count == 0) return TN_OK;
    groups_members members = {0};
    wholes->bodies =
        tn__alloc_array(&problem->context, problem->group_count, sizeof *wholes->bodies);
    bool room = wholes->bodies != NULL && groups_sort_members(problem, &members);
    tn_status status = room ? TN_OK : tn__no_memory(error, "the groups of tied bodies");
    for (size_t g = 0; g < problem->group_count && status == TN_OK; g++) {
        wholes->piece_count -= problem->groups[g].piece_count;
        status = groups_unite(wholes, &members, g, error);
    }
    groups_release_members(problem, &members);
    if (status != TN_OK) tn__wholes_release(wholes);
    return status;
}

void tn__wholes_release(tn__wholes *wholes) {
    const tn_problem *problem = wholes->problem;
    tn__free(&problem->context, wholes->bodies, problem->group_count * sizeof *wholes->bodies);
    tn__exclusions_release(problem, &wholes->exclusions);
    tn__arena_release(&wholes->arena);
}
