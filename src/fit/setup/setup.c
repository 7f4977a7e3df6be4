/* setup.c - runs the compile stages that make a compiled model (tn_setup) of a graph: rewrite,
 * kernels, order, recomputation, scratch memory, fit, weight streaming, division among ranks,
 * streams, occupancy, layout.
 *
 * Each stage makes a part of the compiled model. Parts are reference-counted: a compiled model that
 * continues from another one shares its parts, so a search keeps the parts that it needs and drops
 * the others in any order. Later parts refer to earlier ones. A compiled model holds references to
 * all its parts, and releases them in reverse order.
 *
 * The stage SCRATCH (scratch.c) follows the stage that makes the program, because only the program
 * shows where scratch memory determines the peak. It also follows recomputation (setup_fit.c),
 * which lowers all other memory. The stages FIT and STREAM are for a budget in tn_setup_options;
 * tn_fit_graph instead calls tn__setup_search and tn__setup_streamed_from. Cost: that of the
 * stages; continuing from another compiled model costs O(1).
 */
#include "fit/setup/setup.h"

#include "engine/engine.h"
#include "program/program.h"

#define SETUP_ALIGNMENT 64u /* alignment of static blocks, as in statics.c */

/* --- parts --- */

tn_status tn__setup_part_make(tn_setup *setup, int kind, tn__setup_part **part, tn_error *error) {
    *part = tn__alloc_array(&setup->context, 1, sizeof **part);
    if (*part == NULL) return tn__no_memory(error, "a set-up");
    atomic_init(&(*part)->users, 1);
    setup->parts[kind] = *part;
    return TN_OK;
}

void tn__setup_part_release(tn_setup *setup, int kind) {
    tn__setup_part *part = setup->parts[kind];
    setup->parts[kind] = NULL;
    tn__setup_part_drop(setup, kind, part);
}

void tn__setup_part_drop(tn_setup *setup, int kind, tn__setup_part *part) {
    if (part == NULL || atomic_fetch_sub(&part->users, 1) > 1) return;
    switch (kind) {
    case PART_GRAPH:
        if (part->split.again != NULL)
            tn__free(&setup->context, (void *)(uintptr_t)part->split.again,
                     ((size_t)part->split.again_count + 1) * sizeof *part->split.again);
        if (part->split.regions != NULL)
            tn__free(&setup->context, (void *)(uintptr_t)part->split.regions,
                     ((size_t)part->split.count + 1) * sizeof *part->split.regions);
        tn_graph_destroy(part->graph);
        break;
    case PART_REWRITTEN:
        tn_graph_destroy(part->graph);
        break;
    case PART_KERNELS:
    case PART_SCRATCH:
        tn_kernels_destroy(part->kernels);
        break;
    case PART_PROGRAM:
    case PART_RECOMPUTED:
    case PART_STREAMS:
        tn_program_destroy(part->program);
        break;
    case PART_FIT:
    case PART_DIVIDED:
        tn_fit_release(&part->fitted);
        break;
    case PART_STREAM:
        tn_stream_release(&part->streamed);
        break;
    case PART_OCCUPANCY:
        tn_occupancy_destroy(part->occupancy);
        break;
    case PART_STATICS:
        tn__free(&setup->context, part->statics.blocks,
                 ((size_t)part->statics.count + 1) * sizeof *part->statics.blocks);
        break;
    default:
        tn_layout_release(&part->layout);
    }
    tn__free(&setup->context, part, sizeof *part);
}

/* --- the first stages: graph and kernels --- */

static tn_status setup_rewrite(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    bool splits = options->split != NULL && options->split->region_count > 0;
    bool rows = options->expert_slots > 0;
    tn__setup_part *part;
    if (options->rewrite != NULL) {
        tn__options(&rewrite, sizeof rewrite, options->rewrite);
        if (rewrite.context == NULL) rewrite.context = &setup->context;
        TN_TRY(
            tn__setup_part_make(setup, splits || rows ? PART_REWRITTEN : PART_GRAPH, &part, error));
        TN_TRY(tn_graph_rewrite(setup->given, &rewrite, &part->graph, error));
    }
    if (rows) return tn__setup_expert_rows(setup, options, error);
    return splits ? tn__setup_regions(setup, options, error) : TN_OK;
}

static tn_status setup_kernels(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn__setup_part *part;
    setup->given_kernels = options->given_kernels;
    if (options->no_kernels || options->given_kernels != NULL) return TN_OK;
    tn__options(&kernels, sizeof kernels, options->kernels);
    if (kernels.context == NULL) kernels.context = &setup->context;
    TN_TRY(tn__setup_part_make(setup, PART_KERNELS, &part, error));
    return tn_kernels_create(tn_setup_graph(setup), &kernels, &part->kernels, error);
}

/* --- options for counting memory --- */

tn_occupancy_options tn__setup_memory(const tn_setup *setup, const tn_setup_options *options) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    const tn_kernels *kernels = tn_setup_kernels(setup);
    tn__options(&memory, sizeof memory, options->memory);
    memory.struct_size = sizeof memory;
    /* the results of tiles are written directly into their place in the joined tensor */
    if (tn_setup_splits(setup) != NULL) memory.fuse_concat = true;
    if (kernels != NULL) {
        memory.workspaces = tn_kernels_workspaces(kernels);
        memory.workspaces_again = tn_kernels_workspaces_again(kernels);
    }
    const tn__setup_part *statics = setup->parts[PART_STATICS];
    if (statics == NULL || options->statics == TN_STATIC_APART) return memory;
    memory.statics = statics->statics.blocks;
    memory.static_count = statics->statics.count;
    memory.statics_first = options->statics == TN_STATIC_FIRST;
    return memory;
}

/* --- static memory --- */

static tn_status setup_take_blocks(tn_setup *setup, tn__setup_statics *statics, uint32_t count,
                                   tn_error *error) {
    statics->blocks = tn__alloc_array(&setup->context, (size_t)count + 1, sizeof *statics->blocks);
    statics->count = count;
    return statics->blocks != NULL ? TN_OK : tn__no_memory(error, "static memory");
}

/* Lists the blocks of static memory, in the forms that the kernels need, or without kernels as in
 * the graph. */
static tn_status setup_find_statics(tn_setup *setup, const tn_program *program,
                                    tn__setup_statics *statics, tn_error *error) {
    const tn_kernels *kernels = tn_setup_kernels(setup);
    if (kernels != NULL) {
        uint32_t count = tn_engine_static_blocks(program, kernels, NULL, 0);
        if (count == TN_NONE) return tn__no_memory(error, "static memory");
        TN_TRY(setup_take_blocks(setup, statics, count, error));
        count = tn_engine_static_blocks(program, kernels, statics->blocks, count);
        return count != TN_NONE ? TN_OK : tn__no_memory(error, "static memory");
    }
    tn_static_block *blocks;
    tn__arena arena;
    uint32_t count;
    tn__arena_init(&arena, &setup->context);
    tn_status status = tn__program_statics(program, &arena, &blocks, &count, error);
    if (status == TN_OK) status = setup_take_blocks(setup, statics, count, error);
    if (status == TN_OK && count > 0) memcpy(statics->blocks, blocks, count * sizeof *blocks);
    tn__arena_release(&arena);
    return status;
}

/* Finds the static memory of the graph with any of its programs, because it does not depend on the
 * order of operators. */
tn_status tn__setup_count_statics(tn_setup *setup, const tn_program *program, bool inside,
                                  tn_error *error) {
    tn__setup_part *part;
    TN_TRY(tn__setup_part_make(setup, PART_STATICS, &part, error));
    tn__setup_statics *statics = &part->statics;
    TN_TRY(setup_find_statics(setup, program, statics, error));
    statics->inside = inside;
    for (uint32_t i = 0; i < statics->count; i++) {
        /* the size of one block is unknown, so the sum is unknown */
        uint64_t bytes = TN_SIZE_UNKNOWN;
        (void)tn__align_up(statics->blocks[i].bytes, SETUP_ALIGNMENT, &bytes);
        statics->bytes = tn__add_sat(statics->bytes, bytes);
    }
    return TN_OK;
}

/* --- order, occupancy, layout --- */

tn_plan_options tn__setup_plan_options(const tn_setup *setup, const tn_setup_options *options) {
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn__options(&plan, sizeof plan, options->plan);
    plan.struct_size = sizeof plan;
    if (plan.context == NULL) plan.context = &setup->context;
    return plan;
}

static tn_status setup_make_program(tn_setup *setup, const tn_program_options *options,
                                    tn_error *error) {
    tn__setup_part *part;
    TN_TRY(tn__setup_part_make(setup, PART_PROGRAM, &part, error));
    return tn_program_create(tn_setup_graph(setup), options, &part->program, error);
}

/* Counts static memory that lies in the arena before the order is chosen, because it matters when
 * orders are compared. Any program of the graph gives it. */
static tn_status setup_order_statics(tn_setup *setup, const tn_setup_options *options,
                                     tn_error *error) {
    tn_program *any;
    if (options->statics == TN_STATIC_APART || options->given_program != NULL) return TN_OK;
    TN_TRY(tn_program_create(tn_setup_graph(setup), NULL, &any, error));
    tn_status status = tn__setup_count_statics(setup, any, true, error);
    tn_program_destroy(any);
    return status;
}

/* Chooses the order of operators. If layouts are compared for that, the occupancy and the layout of
 * the chosen order are kept for the later stages. */
static tn_status setup_order(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    tn_plan_options plan = tn__setup_plan_options(setup, options);
    tn__setup_part *made, *occupancy, *layout;
    setup->given_program = options->given_program;
    TN_TRY(setup_order_statics(setup, options, error));
    if (options->given_program != NULL) return TN_OK;
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    tn__options(&program, sizeof program, options->program);
    program.struct_size = sizeof program;
    program.memory = &memory;
    bool arranged = options->divide != NULL && options->divide->arranges;
    if (options->unplanned || options->without_reuse || arranged || tn__setup_recomputes(options))
        return setup_make_program(setup, &program, error);
    TN_TRY(tn__setup_part_make(setup, PART_PROGRAM, &made, error));
    TN_TRY(tn__setup_part_make(setup, PART_OCCUPANCY, &occupancy, error));
    TN_TRY(tn__setup_part_make(setup, PART_LAYOUT, &layout, error));
    TN_TRY(tn_program_plan(tn_setup_graph(setup), &program, &memory, &plan, &made->program,
                           &occupancy->occupancy, &layout->layout, error));
    setup->seconds[TN_SETUP_PLAN] = layout->layout.seconds;
    setup->seconds[TN_SETUP_ORDER] -= layout->layout.seconds;
    return TN_OK;
}

tn_status tn__setup_occupy(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    bool inside = options->statics != TN_STATIC_APART;
    tn__setup_part *part;
    if (setup->parts[PART_STATICS] == NULL)
        TN_TRY(tn__setup_count_statics(setup, tn_setup_program(setup), inside, error));
    if (setup->parts[PART_OCCUPANCY] != NULL) return TN_OK;
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    if (options->without_reuse) {
        memory.inplace = TN_INPLACE_NONE;
        memory.no_views = true;
        memory.fuse_concat = memory.statics_first = false;
    }
    TN_TRY(tn__setup_part_make(setup, PART_OCCUPANCY, &part, error));
    return tn_occupancy_create(tn_setup_program(setup), &memory, &part->occupancy, error);
}

/* Divides the program among ranks. This changes live ranges, so occupancy and layout are made
 * again. */
static tn_status setup_divide(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn__setup_part *part;
    if (options->divide == NULL) return TN_OK;
    tn__setup_part_release(setup, PART_OCCUPANCY);
    tn__setup_part_release(setup, PART_LAYOUT);
    const tn_program *program = tn_setup_program(setup);
    TN_TRY(tn__setup_part_make(setup, PART_DIVIDED, &part, error));
    TN_TRY(options->divide->program(options->divide->self, program, &part->fitted.program, error));
    return options->divide->arranges ? tn__setup_fit_divided(setup, options, error) : TN_OK;
}

tn_status tn__setup_plan(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn_plan_options plan = tn__setup_plan_options(setup, options);
    const tn_occupancy_options memory = tn__setup_memory(setup, options);
    tn__setup_part *part;
    if (options->unplanned || setup->parts[PART_LAYOUT] != NULL) return TN_OK;
    const tn_occupancy *occupancy = tn_setup_occupancy(setup);
    const tn_problem *problem = tn_occupancy_problem(occupancy);
    TN_TRY(tn__setup_part_make(setup, PART_LAYOUT, &part, error));
    if (options->without_reuse) return tn_layout_without_reuse(problem, &part->layout, error);
    TN_TRY(tn__occupancy_prepare(setup->parts[PART_OCCUPANCY]->occupancy, plan.objective, error));
    TN_TRY(tn_plan(problem, &plan, &part->layout, error));
    return tn_plan_loosen(occupancy, &memory, &plan, &part->layout, error);
}

/* --- the table of stages, and running them --- */

static const struct {
    const char *name;
    tn_status (*run)(tn_setup *setup, const tn_setup_options *options, tn_error *error);
    int part; /* the first part of the compiled model that the stage makes (PART_*) */
} setup_stages[TN_SETUP_STAGE_COUNT] = {
    [TN_SETUP_REWRITE] = {"rewrite", setup_rewrite, PART_REWRITTEN},
    [TN_SETUP_KERNELS] = {"kernels", setup_kernels, PART_KERNELS},
    [TN_SETUP_ORDER] = {"order", setup_order, PART_PROGRAM},
    [TN_SETUP_RECOMPUTE] = {"recompute", tn__setup_recompute, PART_RECOMPUTED},
    [TN_SETUP_SCRATCH] = {"scratch", tn__setup_scratch, PART_SCRATCH},
    [TN_SETUP_FIT] = {"fit", tn__setup_fit, PART_FIT},
    [TN_SETUP_STREAM] = {"stream", tn__setup_stream, PART_STREAM},
    [TN_SETUP_DIVIDE] = {"divide", setup_divide, PART_DIVIDED},
    [TN_SETUP_STREAMS] = {"streams", tn__setup_streams, PART_STREAMS},
    [TN_SETUP_OCCUPY] = {"occupy", tn__setup_occupy, PART_STATICS},
    [TN_SETUP_PLAN] = {"plan", tn__setup_plan, PART_LAYOUT},
};

static tn_status setup_run(tn_setup *setup, tn_setup_stage stage, const tn_setup_options *options,
                           tn_error *error) {
    for (int at = (int)stage; at < TN_SETUP_STAGE_COUNT; at++) {
        double start = tn__clock_s();
        TN_TRY(setup_stages[at].run(setup, options, error));
        setup->seconds[at] += tn__clock_s() - start;
    }
    return TN_OK;
}

/* Makes a compiled model with only those parts of `base` that come before the part `end`. If `base`
 * is NULL, it has no parts. */
static tn_status setup_begin(const tn_graph *graph, const tn_setup *base, int end,
                             const tn_context *given, tn_setup **setup, tn_error *error) {
    tn_context context = base != NULL ? base->context : tn__context(given);
    tn_setup *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a set-up");
    made->context = context;
    made->given = graph;
    *setup = made;
    if (base == NULL) return TN_OK;
    made->given_kernels = base->given_kernels;
    made->given_program = base->given_program;
    for (int kind = 0; kind < end; kind++) {
        made->parts[kind] = base->parts[kind];
        if (made->parts[kind] != NULL) atomic_fetch_add(&made->parts[kind]->users, 1);
    }
    return TN_OK;
}

tn_status tn__setup_share(const tn_setup *base, int end, tn_setup **setup, tn_error *error) {
    return setup_begin(base->given, base, end, NULL, setup, error);
}

tn_status tn__setup_make(const tn_graph *graph, const tn_setup *base, tn_setup_stage stage,
                         const tn_setup_options *given, tn_setup **setup, tn__refusal *refusal,
                         tn_error *error) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    tn_setup *made = NULL;
    TN_TRY(setup_begin(graph, base, setup_stages[stage].part, options.context, &made, error));
    made->refusal = refusal;
    tn_status status = setup_run(made, stage, &options, error);
    made->refusal = NULL;
    if (status != TN_OK) {
        tn_setup_destroy(made);
        return status;
    }
    *setup = made;
    return TN_OK;
}

/* Compiles a graph with streamed weights, and with operators in tiles if their weights are too
 * large. */
static tn_status setup_create_streamed(const tn_graph *graph, const tn_setup_options *options,
                                       tn_setup **setup, tn_error *error) {
    tn_setup_options plain = *options;
    tn__refusal refusal;
    tn_setup *whole;
    plain.stream = NULL;
    plain.fit = NULL;
    TN_TRY(tn_setup_create(graph, &plain, &whole, error));
    tn_status status = tn__setup_streamed_from(whole, options, setup, &refusal, error);
    tn_setup_destroy(whole);
    return tn__refusal_fail(&refusal, status, error);
}

tn_status tn_setup_create(const tn_graph *graph, const tn_setup_options *options, tn_setup **setup,
                          tn_error *error) {
    tn_setup_options asked = TN_SETUP_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    if (asked.split != NULL && asked.split->region_count == 0)
        return tn__setup_split(graph, &asked, setup, error);
    if (asked.stream != NULL && asked.stream->parts && asked.split == NULL)
        return setup_create_streamed(graph, &asked, setup, error);
    return tn__setup_make(graph, NULL, TN_SETUP_REWRITE, options, setup, NULL, error);
}

tn_status tn_setup_from(const tn_setup *base, tn_setup_stage stage, const tn_setup_options *options,
                        tn_setup **setup, tn_error *error) {
    if (stage < TN_SETUP_REWRITE || stage >= TN_SETUP_STAGE_COUNT)
        TN_FAIL(error, TN_E_INVALID, "there is no stage %d", (int)stage);
    return tn__setup_make(base->given, base, stage, options, setup, NULL, error);
}

void tn_setup_destroy(tn_setup *setup) {
    if (setup == NULL) return;
    tn_context context = setup->context;
    for (int kind = PART_COUNT; kind-- > 0;) tn__setup_part_release(setup, kind);
    tn__free(&context, setup, sizeof *setup);
}

const char *tn_setup_stage_name(tn_setup_stage stage) {
    return stage < TN_SETUP_STAGE_COUNT ? setup_stages[stage].name : "";
}
