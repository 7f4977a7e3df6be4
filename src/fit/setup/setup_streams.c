/* setup_streams.c - the stage STREAMS: puts the operators of the program on streams that work at
 * the same time (tn_program_on_streams).
 *
 * With the objective BYTES, the program on streams is planned like any other: two buffers share
 * bytes only if the waits between the streams allow it, so the plan never delays an operator. With
 * the other objectives, the program is planned on one stream, as these objectives count the waits
 * that a plan adds. Its offsets are kept, and the operators on streams wait as the plan
 * demands. The arena is smaller then, and there are more waits.
 */
#include "fit/setup/setup.h"

#include "program/program.h"

bool tn__setup_has_streams(const tn_setup_options *options) {
    return options->streams != NULL && options->streams->count != 1;
}

/* --- the layout of the program on one stream --- */

/* A tensor, block of static memory or workspace, and its offset in the arena. */
typedef struct streams_place {
    tn_tensor_id tensor;
    tn_op_id op;
    uint64_t offset, bytes;
} streams_place;

static int streams_place_order(const void *a, const void *b) {
    const streams_place *x = a, *y = b;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

/* The key of a live range in both programs: a tensor, or the operator of a workspace. */
static streams_place streams_key(const tn_life *life) {
    bool of_op = life->tensor == TN_NONE || life->is_static;
    return (streams_place){life->tensor, of_op ? life->op : TN_NONE, 0, life->bytes};
}

static streams_place *streams_places(const tn_occupancy *occupancy, const tn_layout *layout,
                                     tn__arena *arena) {
    uint32_t count = tn_occupancy_life_count(occupancy);
    const tn_life *lives = tn_occupancy_lives(occupancy);
    streams_place *places = tn__arena_array(arena, (size_t)count + 1, sizeof *places);
    if (places == NULL) return NULL;
    for (uint32_t i = 0; i < count; i++) {
        places[i] = streams_key(&lives[i]);
        places[i].offset = layout->offset[lives[i].body] + lives[i].delta;
    }
    if (count > 0) qsort(places, count, sizeof *places, streams_place_order);
    return places;
}

/* Gives every buffer of `to` the offset that its tensors have in `from`. Fails if a buffer has
 * tensors that do not lie beside each other there, or if the layout is not valid with the waits of
 * the streams. */
static tn_status streams_carry(const tn_occupancy *from, const tn_layout *layout,
                               const tn_occupancy *to, tn_layout *carried, tn__arena *arena,
                               tn_error *error) {
    const tn_problem *problem = tn_occupancy_problem(to);
    const tn_life *lives = tn_occupancy_lives(to);
    uint32_t count = tn_occupancy_life_count(from), bodies = tn_problem_count(problem);
    streams_place *places = streams_places(from, layout, arena);
    uint64_t *offsets = tn__arena_array(arena, (size_t)bodies + 1, sizeof *offsets);
    if (places == NULL || offsets == NULL) return tn__no_memory(error, "the offsets of buffers");
    for (tn_body_id b = 0; b < bodies; b++) offsets[b] = TN_SIZE_UNKNOWN;
    for (uint32_t i = 0; i < tn_occupancy_life_count(to); i++) {
        const streams_place key = streams_key(&lives[i]);
        const streams_place *place =
            count > 0 ? bsearch(&key, places, count, sizeof *places, streams_place_order) : NULL;
        uint64_t *offset = &offsets[lives[i].body];
        bool known = place != NULL && place->offset >= lives[i].delta;
        if (!known || (*offset != TN_SIZE_UNKNOWN && *offset != place->offset - lives[i].delta))
            TN_FAIL(
                error, TN_E_CONFLICT,
                "the plan for one stream cannot be kept on several streams: '%.60s' has "
                "another buffer there; use the objective bytes",
                lives[i].tensor != TN_NONE
                    ? tn_graph_tensor(tn_program_graph(tn_occupancy_program(to)), lives[i].tensor)
                          ->name
                    : "a workspace");
        *offset = place->offset - lives[i].delta;
    }
    TN_TRY(tn_layout_from_offsets(problem, offsets, carried, error));
    tn_status status = tn_layout_verify(problem, carried, NULL, error);
    if (status != TN_OK) tn_layout_release(carried);
    return status;
}

/* --- the stage --- */

static tn_status streams_plan_first(tn_setup *setup, const tn_setup_options *options,
                                    tn_dependency **after, uint64_t *count, tn_error *error) {
    TN_TRY(tn__setup_occupy(setup, options, error));
    TN_TRY(tn__setup_plan(setup, options, error));
    return tn_plan_dependencies(tn_setup_occupancy(setup), tn_setup_layout(setup), after, count,
                                error);
}

/* Replaces occupancy and layout by those of the program on streams, with the same offsets. */
static tn_status streams_keep(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn__setup_part *occupancy = setup->parts[PART_OCCUPANCY], *layout = setup->parts[PART_LAYOUT];
    tn__setup_part *carried;
    tn__arena arena;
    setup->parts[PART_OCCUPANCY] = setup->parts[PART_LAYOUT] = NULL;
    tn__arena_init(&arena, &setup->context);
    tn_status status = tn__setup_occupy(setup, options, error);
    if (status == TN_OK) status = tn__setup_part_make(setup, PART_LAYOUT, &carried, error);
    if (status == TN_OK)
        status = streams_carry(occupancy->occupancy, &layout->layout, tn_setup_occupancy(setup),
                               &carried->layout, &arena, error);
    if (status == TN_OK) {
        carried->layout.planner = layout->layout.planner;
        carried->layout.seed = layout->layout.seed;
        carried->layout.work = layout->layout.work;
        carried->layout.seconds = layout->layout.seconds;
        carried->layout.timed_out = layout->layout.timed_out;
    }
    tn__arena_release(&arena);
    tn__setup_part_drop(setup, PART_OCCUPANCY, occupancy);
    tn__setup_part_drop(setup, PART_LAYOUT, layout);
    return status;
}

tn_status tn__setup_streams(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn_program_streams_options streams = TN_PROGRAM_STREAMS_OPTIONS_INIT;
    tn_plan_options plan = tn__setup_plan_options(setup, options);
    bool keeps = plan.objective != TN_OBJECTIVE_BYTES;
    tn_dependency *after = NULL;
    tn__setup_part *part;
    if (!tn__setup_has_streams(options)) return TN_OK;
    tn__options(&streams, sizeof streams, options->streams);
    const tn_program *program = tn_setup_program(setup);
    if (keeps) {
        TN_TRY(streams_plan_first(setup, options, &after, &streams.after_count, error));
        streams.after = after;
    } else {
        tn__setup_part_release(setup, PART_OCCUPANCY);
        tn__setup_part_release(setup, PART_LAYOUT);
    }
    tn_status status = tn__setup_part_make(setup, PART_STREAMS, &part, error);
    if (status == TN_OK) status = tn_program_on_streams(program, &streams, &part->program, error);
    if (after != NULL) tn_dependencies_release(after);
    if (status != TN_OK || !keeps) return status;
    return streams_keep(setup, options, error);
}
