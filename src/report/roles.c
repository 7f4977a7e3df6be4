/* roles.c - finds for a training step the phase of each step, and the purpose of each tensor.
 *
 * Kinds distinguish parameters, gradients and optimizer state. They do not show which activations
 * determine the memory of training: an activation that the backward pass reads is live throughout
 * the steps in between, another one is freed after a few steps. So an activation that is made in
 * the forward pass and is live when the backward pass begins counts as kept for it.
 * Cost: O(lives + instructions + operands).
 */
#include "report/estimate/phases.h"
#include "report/format.h"

static const struct {
    const char *name, *words;
} roles_table[] = {
#define TN_X(NAME, name, words) {name, words},
    TN__ROLE_TABLE(TN_X)
#undef TN_X
};

const char *tn__role_name(tn__role role) { return roles_table[role].name; }
const char *tn__role_words(tn__role role) { return roles_table[role].words; }

const char *tn__phase_words(uint8_t phase) {
    return phase == TN_PHASE_FORWARD ? "forward"
                                     : (phase == TN_PHASE_BACKWARD ? "backward" : "update");
}

static tn__role roles_of_kind(uint32_t kind) {
    switch (kind) {
    case TN_KIND_PARAMETER:
        return TN__ROLE_PARAMETER;
    case TN_KIND_CONSTANT:
        return TN__ROLE_CONSTANT;
    case TN_KIND_OPTIMIZER_STATE:
        return TN__ROLE_OPTIMIZER_STATE;
    case TN_KIND_GRADIENT:
        return TN__ROLE_GRADIENT;
    case TN_KIND_INPUT:
        return TN__ROLE_INPUT;
    case TN_KIND_OUTPUT:
        return TN__ROLE_OUTPUT;
    case TN_KIND_WORKSPACE:
        return TN__ROLE_WORKSPACE;
    default:
        return TN__ROLE_PASSING;
    }
}

/* `back`: the first step after the forward pass. */
static tn__role roles_of(const tn__item *item, int64_t back) {
    tn__role role = roles_of_kind(item->kind);
    bool across = item->first < back && item->last > back;
    return role == TN__ROLE_PASSING && across ? TN__ROLE_SAVED : role;
}

/* The bytes of each role at the peak; bytes shared by several items count for one of them. */
static tn_status roles_at_peak(tn__scene *scene, tn_error *error) {
    tn_occupant *rows = tn__arena_array(&scene->arena, (size_t)scene->item_count + 1, sizeof *rows);
    if (rows == NULL) return tn__no_memory(error, "who holds the peak");
    uint32_t count =
        tn_occupancy_holders(scene->report->occupancy, TN_NONE, rows, scene->item_count);
    for (uint32_t i = 0; i < count; i++)
        scene->role_at_peak[scene->items[rows[i].life].role] += rows[i].bytes;
    return TN_OK;
}

tn_status tn__scene_roles(tn__scene *scene, tn_error *error) {
    uint32_t steps = tn__step_count(scene->report), back = 0;
    uint8_t *phases = tn__arena_array(&scene->arena, (size_t)steps + 1, sizeof *phases);
    if (phases == NULL) return tn__no_memory(error, "the phases of a step");
    tn__phases_of(tn_occupancy_program(scene->report->occupancy), phases);
    while (back < steps && phases[back] == TN_PHASE_FORWARD) back++;
    if (back == steps) return TN_OK;
    scene->phases = phases;
    for (uint32_t i = 0; i < scene->item_count; i++) {
        tn__item *item = &scene->items[i];
        item->role = roles_of(item, back);
        if (!item->alias)
            scene->role_total[item->role] = tn__add_sat(scene->role_total[item->role], item->bytes);
    }
    for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++) /* memory outside the arena */
        if (!scene->occurs[kind]) scene->role_total[roles_of_kind(kind)] = scene->total[kind];
    return roles_at_peak(scene, error);
}
