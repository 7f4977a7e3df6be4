/* scratch.c - chooses kernels with less scratch memory if scratch memory determines the peak.
 *
 * First the fastest kernel of each operator is chosen. Only the finished program shows which of
 * them raise the peak: as long as an operator's scratch memory and the other live bytes stay below
 * the peak of all other memory, the scratch memory costs nothing. For operators that need more
 * scratch memory than this, smaller kernels are requested (tn_kernels_options.scratch). If even the
 * smallest kernels raise the peak, the peak that they reach becomes the limit for all operators, so
 * that no operator works in smaller pieces than needed. The new kernels are kept if the live bytes
 * of the arena and static memory together become smaller; static memory counts because other
 * kernels may need other forms of the weights.
 *
 * The choice depends on sizes alone, never on measured time. So a model, a number of threads and an
 * instruction set always give the same kernels, the same plan and the same bits. Cost: an occupancy
 * and its live bytes at each step; then the preparation of the requested kernels.
 */
#include "fit/setup/setup.h"

#include <tenure/engine.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

/* alignment of scratch memory; a gain of fewer bytes does not count */
#define SCRATCH_ALIGNMENT 64u

typedef struct scratch_room {
    const tn_program *program;
    uint64_t *others; /* [steps] live bytes without scratch memory */
    uint64_t *limits; /* [operators] limit for the bytes of scratch memory */
    uint64_t base;    /* the peak without scratch memory, the largest of `others` */
    tn__arena arena;
} scratch_room;

static tn_status scratch_measure(scratch_room *room, const tn_setup *setup,
                                 const tn_setup_options *options, uint64_t *peak, tn_error *error) {
    uint32_t steps = tn_program_count(room->program);
    uint64_t(*live)[TN_KIND_COUNT] = tn__arena_array(&room->arena, (size_t)steps + 1, sizeof *live);
    room->others = tn__arena_array(&room->arena, (size_t)steps + 1, sizeof *room->others);
    room->limits = tn__arena_array(
        &room->arena, (size_t)tn_graph_op_count(tn_setup_graph(setup)) + 1, sizeof *room->limits);
    if (live == NULL || room->others == NULL || room->limits == NULL)
        return tn__no_memory(error, "room for scratch");
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    tn_occupancy *occupancy;
    TN_TRY(tn_occupancy_create(room->program, &memory, &occupancy, error));
    *peak = tn_occupancy_summary(occupancy).peak_live;
    tn_status status = tn_occupancy_live(occupancy, live, error);
    tn_occupancy_destroy(occupancy);
    if (status != TN_OK) return status;
    room->base = 0;
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
            if (kind != TN_KIND_WORKSPACE) room->others[step] += live[step][kind];
        if (room->others[step] > room->base) room->base = room->others[step];
    }
    return TN_OK;
}

/* Returns the peak with these kernels: the largest sum of live bytes and scratch memory over all
 * steps. */
static uint64_t scratch_peak(const scratch_room *room, const uint64_t *workspaces) {
    const tn_instruction *instructions = tn_program_instructions(room->program);
    uint64_t peak = room->base;
    for (uint32_t step = 0; step < tn_program_count(room->program); step++) {
        tn_op_id op = instructions[step].op;
        if (instructions[step].opcode != TN_APPLY || op == TN_NONE) continue;
        uint64_t bytes = UINT64_MAX;
        (void)tn__align_up(workspaces[op], SCRATCH_ALIGNMENT, &bytes);
        uint64_t live = tn__add_sat(room->others[step], bytes);
        if (live > peak) peak = live;
    }
    return peak;
}

/* Computes limits[]: the most scratch memory that each operator may use so that no step exceeds
 * `peak`. An operator that runs in several steps gets the smallest of their limits. */
static void scratch_limit(scratch_room *room, size_t operators, uint64_t peak) {
    const tn_instruction *instructions = tn_program_instructions(room->program);
    for (size_t op = 0; op < operators; op++) room->limits[op] = UINT64_MAX;
    for (uint32_t step = 0; step < tn_program_count(room->program); step++) {
        tn_op_id op = instructions[step].op;
        if (instructions[step].opcode != TN_APPLY || op == TN_NONE) continue;
        uint64_t left = peak > room->others[step] ? peak - room->others[step] : 0;
        if (left < room->limits[op]) room->limits[op] = left;
    }
}

static tn_status scratch_kernels(const tn_setup *setup, const scratch_room *room,
                                 tn_kernels **kernels, tn_error *error) {
    tn_kernels_options options = TN_KERNELS_OPTIONS_INIT;
    options.context = &setup->context;
    options.with = tn_setup_kernels(setup);
    options.scratch = room->limits;
    return tn_kernels_create(tn_setup_graph(setup), &options, kernels, error);
}

static uint32_t scratch_count(const tn_kernels *kernels, uint32_t operators) {
    uint32_t count = 0;
    for (tn_op_id op = 0; op < operators; op++) count += tn_kernels_way(kernels, op) > 0;
    return count;
}

/* Looks for kernels that lower the peak, and the sum of the peak and static memory. *found is NULL
 * if there are no such kernels. */
static tn_status scratch_find(const tn_setup *setup, scratch_room *room, tn_kernels **found,
                              tn_error *error) {
    const tn_kernels *now = tn_setup_kernels(setup);
    uint32_t operators = tn_graph_op_count(tn_setup_graph(setup));
    uint64_t before = scratch_peak(room, tn_kernels_workspaces(now));
    *found = NULL;
    if (before <= room->base) return TN_OK;
    tn_kernels *least;
    scratch_limit(room, operators, room->base);
    TN_TRY(scratch_kernels(setup, room, &least, error));
    uint64_t peak = scratch_peak(room, tn_kernels_workspaces(least));
    tn_status status = TN_OK;
    /* the smallest kernels reach this peak, and a limit below it would not lower the peak
     * further */
    if (peak > room->base && peak < before) {
        tn_kernels_destroy(least);
        scratch_limit(room, operators, peak);
        status = scratch_kernels(setup, room, &least, error);
        if (status != TN_OK) return status;
    }
    uint64_t was = tn_engine_static_bytes(room->program, now);
    uint64_t is = tn_engine_static_bytes(room->program, least);
    if (tn__add_sat(peak, is) < tn__add_sat(before, was) && peak < before)
        *found = least;
    else
        tn_kernels_destroy(least);
    return status;
}

static tn_status scratch_stage(tn_setup *setup, const tn_setup_options *options, scratch_room *room,
                               tn_error *error) {
    tn_scratch_report report = {0};
    tn__setup_part *part;
    tn_kernels *found;
    TN_TRY(scratch_measure(room, setup, options, &report.before, error));
    TN_TRY(scratch_find(setup, room, &found, error));
    if (found == NULL) return TN_OK;
    report.operators = scratch_count(found, tn_graph_op_count(tn_setup_graph(setup)));
    report.after = scratch_peak(room, tn_kernels_workspaces(found));
    tn_status status = tn__setup_part_make(setup, PART_SCRATCH, &part, error);
    if (status != TN_OK) {
        tn_kernels_destroy(found);
        return status;
    }
    part->kernels = found;
    part->scratch = report;
    /* parts of later stages (for example a layout that was made to compare orders) refer to the old
     * kernels, so they are released */
    for (int kind = PART_STATICS; kind < PART_COUNT; kind++) tn__setup_part_release(setup, kind);
    return TN_OK;
}

tn_status tn__setup_scratch(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    scratch_room room = {.program = tn_setup_program(setup)};
    if (options->fastest || options->without_reuse || options->given_kernels != NULL ||
        tn_setup_kernels(setup) == NULL || memory.parallel != TN_PARALLEL_SERIAL)
        return TN_OK;
    tn__arena_init(&room.arena, &setup->context);
    tn_status status = scratch_stage(setup, options, &room, error);
    tn__arena_release(&room.arena);
    return status;
}

/* --- time lost by smaller kernels --- */

#define SCRATCH_ROUNDS 3u

static tn_status scratch_time(const tn_setup *setup, const tn_kernels *kernels, const bool *only,
                              double *seconds, tn_error *error) {
    tn_measure_options options = TN_MEASURE_OPTIONS_INIT;
    tn_costs *costs;
    options.context = &setup->context;
    options.rounds = SCRATCH_ROUNDS;
    options.only = only;
    TN_TRY(tn_costs_measure(kernels, &options, &costs, NULL, error));
    *seconds = (double)tn_costs_total(costs) / (double)TN_COSTS_PER_S;
    tn_costs_destroy(costs);
    return TN_OK;
}

tn_status tn_setup_pieces_cost(const tn_setup *setup, double *seconds, tn_error *error) {
    const tn_graph *graph = tn_setup_graph(setup);
    const tn_kernels *now = tn_setup_kernels(setup);
    size_t operators = (size_t)tn_graph_op_count(graph) + 1;
    tn_kernels_options options = TN_KERNELS_OPTIONS_INIT;
    tn_kernels *fastest;
    double fast = 0, slow = 0;
    if (tn_setup_scratch(setup) == NULL) TN_FAIL(error, TN_E_INVALID, "nothing runs in pieces");
    bool *only = tn__alloc_array(&setup->context, operators, sizeof *only);
    if (only == NULL) return tn__no_memory(error, "measuring");
    for (tn_op_id op = 0; op + 1 < operators; op++) only[op] = tn_kernels_way(now, op) > 0;
    options.context = &setup->context;
    options.with = now;
    tn_status status = tn_kernels_create(graph, &options, &fastest, error);
    if (status == TN_OK) {
        status = scratch_time(setup, now, only, &slow, error);
        if (status == TN_OK) status = scratch_time(setup, fastest, only, &fast, error);
        tn_kernels_destroy(fastest);
    }
    tn__free(&setup->context, only, operators * sizeof *only);
    if (status == TN_OK) *seconds = slow - fast;
    return status;
}
