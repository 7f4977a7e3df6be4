/* places.c - builds the tables of buffers and of the live ranges in them. The addresses of buffers
 * come from a layout, or from a pool that allocates them during the run. */
#include "engine/engine.h"

static const tn_graph *places_graph(const tn__places *places) {
    return tn_program_graph(tn_occupancy_program(places->occupancy));
}

/* --- tables --- */

static tn_status places_index_lives(tn__places *places, tn__arena *arena, tn_error *error) {
    uint32_t steps = tn_program_count(tn_occupancy_program(places->occupancy));
    uint32_t count = tn_occupancy_life_count(places->occupancy), at = 0;
    const tn_life *lives = tn_occupancy_lives(places->occupancy);
    places->life_at = tn__arena_array(arena, (size_t)steps + 2, sizeof *places->life_at);
    if (places->life_at == NULL) return tn__no_memory(error, "lives");
    for (uint32_t s = 0; s <= steps; s++) {
        places->life_at[s] = at;
        while (at < count && lives[at].first <= s) {
            if (lives[at].whole)
                TN_FAIL(error, TN_E_UNSUPPORTED,
                        "tensor '%.60s' views another at a place that is not known; this program "
                        "can be planned, not run",
                        tn_graph_tensor(places_graph(places), lives[at].tensor)->name);
            at++;
        }
    }
    places->life_at[steps + 1] = count;
    return TN_OK;
}

static tn_status places_make_bodies(tn__places *places, const tn_layout *layout, tn__arena *arena,
                                    tn_error *error) {
    uint32_t bodies = tn_problem_count(tn_occupancy_problem(places->occupancy));
    const tn_life *lives = tn_occupancy_lives(places->occupancy);
    places->body_count = bodies;
    places->offset = tn__arena_array(arena, bodies, sizeof *places->offset);
    places->named = tn__arena_array(arena, bodies, sizeof *places->named);
    if (places->offset == NULL || places->named == NULL) return tn__no_memory(error, "offsets");
    for (tn_body_id b = 0; b < bodies; b++) places->named[b] = TN_NONE;
    for (uint32_t i = 0; i < tn_occupancy_life_count(places->occupancy); i++) {
        if (places->named[lives[i].body] == TN_NONE) places->named[lives[i].body] = i;
        places->static_count += lives[i].is_static;
    }
    places->held = tn__arena_array(arena, places->static_count, sizeof *places->held);
    if (places->held == NULL) return tn__no_memory(error, "offsets");
    if (layout != NULL && bodies > 0)
        memcpy(places->offset, layout->offset, bodies * sizeof *places->offset);
    if (layout != NULL) places->bytes = layout->peak;
    return TN_OK;
}

tn_status tn__places_make(tn__places *places, const tn_occupancy *occupancy,
                          const tn_layout *layout, tn__arena *arena, tn_error *error) {
    *places = (tn__places){.occupancy = occupancy};
    TN_TRY(places_index_lives(places, arena, error));
    return places_make_bodies(places, layout, arena, error);
}

const tn_life *tn__places_life(const tn__places *places, tn_body_id body) {
    uint32_t index = places->named[body];
    return index == TN_NONE ? NULL : &tn_occupancy_lives(places->occupancy)[index];
}

void tn__places_keep(tn__places *places, tn_body_id body) {
    uint64_t size = tn_problem_body(tn_occupancy_problem(places->occupancy), body)->size;
    places->held[places->held_count++] =
        (tn__held){places->offset[body], places->offset[body] + size};
}

/* --- buffers whose addresses a pool chooses during the run --- */

static tn_status places_tag(tn__places *places, tn_error *error) {
    const tn_graph *graph = places_graph(places);
    for (tn_body_id b = 0; b < places->body_count; b++) {
        const tn_life *life = tn__places_life(places, b);
        if (life == NULL) continue;
        bool scratch = life->tensor == TN_NONE;
        const tn_tensor *tensor = scratch ? NULL : tn_graph_tensor(graph, life->tensor);
        tn_pool_label label = {.name = scratch ? "" : tensor->name,
                               .kind = tn_kind_name(scratch ? TN_KIND_WORKSPACE : tensor->kind),
                               .op = life->op == TN_NONE ? "" : tn_graph_op(graph, life->op)->type};
        TN_TRY(tn_pool_tag(places->pool, &label, &places->tag[b], error));
    }
    return TN_OK;
}

tn_status tn__places_pool(tn__places *places, const char *name, uint64_t capacity,
                          uint32_t held_room, const tn_context *context, tn__arena *arena,
                          tn_error *error) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    options.context = context;
    options.pool = name;
    options.capacity = places->bytes = capacity;
    places->block = tn__arena_array(arena, places->body_count, sizeof *places->block);
    places->tag = tn__arena_array(arena, places->body_count, sizeof *places->tag);
    places->held = tn__arena_array(arena, held_room, sizeof *places->held);
    if (places->block == NULL || places->tag == NULL || places->held == NULL)
        return tn__no_memory(error, "offsets");
    TN_TRY(tn_pool_create(&options, &places->pool, error));
    return places_tag(places, error);
}

void tn__places_release(tn__places *places) { tn_pool_destroy(places->pool); }

tn_status tn__places_hold(tn__places *places, const tn_static_block *block, uint64_t *offset,
                          tn_error *error) {
    const tn_graph *graph = places_graph(places);
    const tn_tensor *tensor = tn_graph_tensor(graph, block->tensor);
    tn_allocation taken;
    tn_pool_request request = {.size = block->bytes, .flags = TN_POOL_LONG_LIVED};
    tn_pool_label label = {.name = tensor->name,
                           .kind = tn_kind_name(tensor->kind),
                           .op = block->op != TN_NONE ? tn_graph_op(graph, block->op)->type : ""};
    TN_TRY(tn_pool_tag(places->pool, &label, &request.tag, error));
    TN_TRY(tn_pool_alloc(places->pool, &request, &taken, error));
    places->held[places->held_count++] = (tn__held){taken.offset, taken.offset + block->bytes};
    *offset = taken.offset;
    return TN_OK;
}
