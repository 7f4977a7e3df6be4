/* setup.h - compiles a graph for an engine, stage by stage.
 *
 *     tn_graph *graph;
 *     tn_setup *plain, *less;
 *     tn_error error;
 *     int64_t shape[] = {1, 1024};
 *     tn_tensor_id ids[4];
 *     tn_tensor_spec spec = {.name = "x", .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT, .rank = 2,
 *                            .shape = shape};
 *     if (tn_graph_create(NULL, &graph, &error) ||
 *         tn_graph_add_tensor(graph, &spec, &ids[0], &error))
 *         return 2;
 *     for (int i = 0; i < 3; i++) {
 *         spec = (tn_tensor_spec){.kind = i < 2 ? TN_KIND_ACTIVATION : TN_KIND_OUTPUT};
 *         tn_op_spec op = {.type = "Relu", .inputs = &ids[i], .input_count = 1,
 *                          .outputs = &ids[i + 1], .output_count = 1};
 *         if (tn_graph_add_tensor(graph, &spec, &ids[i + 1], &error) ||
 *             tn_graph_add_op(graph, &op, NULL, &error))
 *             return 2;
 *     }
 *     tn_setup_options options = TN_SETUP_OPTIONS_INIT;
 *     tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
 *     memory.inplace = TN_INPLACE_NONE;
 *     options.memory = &memory;
 *     if (tn_graph_infer(graph, &error) || tn_setup_create(graph, &options, &plain, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
 *     memory.inplace = TN_INPLACE_CHOOSE; // one decision changed: earlier stages are shared
 *     if (tn_setup_from(plain, TN_SETUP_OCCUPY, &options, &less, &error)) return 2;
 *     printf("%llu bytes, in place %llu\n", (unsigned long long)tn_setup_need(plain).total,
 *            (unsigned long long)tn_setup_need(less).total);
 *     tn_setup_destroy(plain);
 *     tn_setup_destroy(less);
 *     tn_graph_destroy(graph);
 *
 * A set-up (`tn_setup`, a compiled model) is made by the stages in the table below; each stage uses
 * the results of the stages before it. tn_setup_from shares the early stages of a set-up and
 * repeats the later ones with other decisions, so that a search can try thousands of set-ups on one
 * rewritten graph and its kernels. tn_setup_open makes an engine of a set-up (engine.h); session.h
 * adds arrays for inputs and outputs.
 * Units: bytes, seconds.
 * Threads: a finished set-up is read-only: any number of threads may read it or derive from it.
 */
#ifndef TENURE_SETUP_H
#define TENURE_SETUP_H

#include <tenure/budget.h>
#include <tenure/device.h>
#include <tenure/engine.h>
#include <tenure/fit.h>
#include <tenure/graph.h>
#include <tenure/kernels.h>
#include <tenure/plan.h>
#include <tenure/program.h>
#include <tenure/rewrite.h>
#include <tenure/rules.h>
#include <tenure/split.h>
#include <tenure/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The stages, in order: X(NAME, text, result). */
/* clang-format off */
#define TN_SETUP_STAGE_TABLE(X)                                                                    \
    X(REWRITE, "rewrite", "a graph of fewer, larger operators")                                    \
    X(KERNELS, "kernels", "who runs each operator, with what scratch, weights in what form")       \
    X(ORDER, "order", "the program")                                                               \
    X(RECOMPUTE, "recompute", "the program that computes again instead of keeping")                \
    X(SCRATCH, "scratch", "kernels with less scratch, where that makes the peak")                  \
    X(FIT, "fit", "the program that keeps to a budget, where that one does not")                   \
    X(STREAM, "stream", "the program whose weights come from their file, where not all fit")       \
    X(DIVIDE, "divide", "the program of one rank, which talks to the others")                      \
    X(OCCUPY, "occupy", "who lives when, and the problem; static memory")                          \
    X(PLAN, "plan", "the layout")
/* clang-format on */
typedef enum tn_setup_stage {
#define TN_X(name, text, makes) TN_SETUP_##name,
    TN_SETUP_STAGE_TABLE(TN_X)
#undef TN_X
        TN_SETUP_STAGE_COUNT
} tn_setup_stage;
TN_API const char *tn_setup_stage_name(tn_setup_stage stage);

typedef struct tn_setup tn_setup;

/* Turns the program of one device into that of one rank of several (dist.h). */
typedef struct tn_divide {
    tn_status (*program)(void *self, const tn_program *program, tn_program **divided,
                         tn_error *error);
    void *self;
    bool arranges; /* `program` orders the instructions itself (a pipeline). Then orders of one
                    * device are not compared, and a budget is met from the arranged program. Costs
                    * that are not given come from a model, since measurements would differ between
                    * ranks. A tn_session does not rewrite the graph, since fused operators could be
                    * of two stages */
} tn_divide;

/* Where static memory lies: parameters, constants, optimizer state and folded tensors, in the
 * layouts that the kernels need. */
typedef enum tn_static_place {
    TN_STATIC_APART, /* in a block of its own, outside the arena */
    TN_STATIC_ARENA, /* in the arena, placed by the planner: one peak bounds all memory */
    TN_STATIC_FIRST  /* pinned one after another at the arena's start */
} tn_static_place;

/* Split operators: they run in parts, with the least extra work for a budget, or the least memory
 * for a work budget. */
typedef struct tn_setup_split {
    uint64_t budget; /* bytes for all memory of the device (tn_setup_needs.total); 0: none */
    double share;    /* work budget: extra work allowed, as a share of the graph's work
                      * (tn_split_choice.work). 0 with a budget: no limit. DBL_MIN: no extra work */
    const tn_split_region *regions; /* [region_count] use these regions instead of a search */
    uint32_t region_count;
    const tn_graph *graph;       /* the graph that the regions refer to (as in tn_split_choice);
                                  * read during the call. NULL: the rewritten graph, after `again`
                                  * is applied to it */
    const tn_split_again *again; /* [again_count] with regions: tensors that are recomputed first,
                                  * as in tn_graph_split_again */
    uint32_t again_count;
} tn_setup_split;

/* Weight streaming: weights are read from their file when they are needed (stream.h), if the plan
 * with all weights exceeds the budget. */
typedef struct tn_setup_stream {
    uint64_t budget;    /* bytes for all memory of the device (tn_setup_needs.total) */
    double bytes_per_s; /* rate of reading; above 0 */
    double latency_s;   /* of one read */
    bool parts;         /* operators with weights too large for the budget may run in parts, so
                         * that their weights are read in slices; not together with the caller's own
                         * costs, kernels or program */
} tn_setup_stream;

/* The decisions, stage by stage; zero and NULL are the defaults. The structures that the pointers
 * refer to are copied. Pointers inside those (names, sequences, claims) must be valid until the
 * call returns. */
typedef struct tn_setup_options {
    size_t struct_size;
    const tn_context *context; /* default of all stages; NULL, or must outlive the set-up */
    /* REWRITE */
    const tn_rewrite_options *rewrite; /* NULL: the graph is not rewritten */
    /* KERNELS */
    bool no_kernels;                   /* plan the graph alone: scratch by the operators' rules,
                                        * static tensors in plain layout; it cannot be opened */
    const tn_kernels_options *kernels; /* NULL: defaults */
    const tn_kernels *given_kernels;   /* use these kernels of the (rewritten) graph; they must
                                        * outlive the set-up. NULL: kernels are created */
    /* ORDER. Without the caller's own program, candidate orders are compared by their layouts, as
     * in tn_program_plan */
    const tn_program_options *program; /* `memory` is filled in */
    const tn_program *given_program;   /* use this program of the graph as it runs (from a pass); it
                                        * must outlive the set-up */
    /* RECOMPUTE. Recomputes tensors within a work budget (budget.h). Candidate orders are then
     * compared by their live bytes */
    const tn_recompute_options *recompute; /* NULL, or share 0: none. `memory` is filled in */
    /* SCRATCH. An operator with scratch memory that raises the peak runs in pieces
     * (tn_kernels_way), which is a little slower. Not where operators run concurrently, nor with
     * `without_reuse` */
    bool fastest; /* use the fastest kernel for every operator, regardless of its scratch */
    /* FIT. If the plan needs more than fit->budget: finds the fastest program within it (fit.h),
     * starting from the program of ORDER, with occupancy and layout. Not with `without_reuse` or
     * `unplanned` */
    const tn_fit_options *fit; /* NULL, or budget 0: none. The budget covers all memory of the
                                * device (tn_setup_needs.total); `fixed_bytes`, `memory` and `plan`
                                * are filled in */
    const tn_costs *costs;     /* of the graph as it runs; read during the call. NULL: measured when
                                * needed; without kernels, modelled for a machine that does eight
                                * operations in the time it moves one byte */
    /* OCCUPY */
    const tn_occupancy_options *memory; /* with kernels, `workspaces` are filled in */
    tn_static_place statics;            /* ARENA, FIRST: `statics` of the occupancy are filled in */
    bool without_reuse; /* memory of its own for every tensor: the baseline for plans */
    /* PLAN */
    const tn_plan_options *plan;
    bool unplanned; /* no layout, for a pool or a layout made elsewhere. Candidate orders are then
                     * compared by their live bytes */
    /* DIVIDE, after FIT. The divided program has the same graph; it may add communication
     * instructions and reorder the others */
    const tn_divide *divide; /* NULL: one rank */
    /* Split operators, after REWRITE (split.h): a search finds regions if the plan of the unsplit
     * graph misses the budget, or for a work budget. Concatenations of parts are written in place
     * (memory->fuse_concat). A search does not accept the caller's own kernels, program, costs,
     * `workspaces` or `claimed`, which refer to the unsplit graph. Given regions are applied
     * without a search, also by tn_setup_from. Not with `fit`: tn_fit_graph combines both
     * (claim.h). If the context's `progress` stops the search, the result is the smallest so far,
     * which may be unsplit; with a budget, E_STOPPED */
    const struct tn_setup_split *split; /* NULL: operators run whole */
    /* STREAM, after FIT; uses `costs` as FIT does. Static memory is then placed in the arena. Not
     * with `divide`, `without_reuse` or `unplanned`. NULL: weights stay in memory */
    const tn_setup_stream *stream;
    /* Makes the costs of the graph as it runs, if `costs` is NULL and they are needed. NULL: they
     * are measured or modelled, as described at `costs` */
    tn_status (*make_costs)(void *self, const tn_setup *setup, tn_costs **costs, tn_error *error);
    void *make_costs_self;
    /* RECOMPUTE, and FIT within its budget: rules about single tensors (rules.h). Operators are
     * then not split, and weights not streamed, for a budget. NULL: none */
    const tn_rules *rules;
} tn_setup_options;
#define TN_SETUP_OPTIONS_INIT                                                                      \
    TN_INIT(tn_setup_options, TN_SET(struct_size, sizeof(tn_setup_options)))

/* Runs all stages. The graph must outlive the set-up.
 *
 * Errors: those of tn_graph_rewrite, tn_kernels_create, tn_program_plan, tn_program_recompute,
 * tn_costs_measure and tn_fit. */
TN_API TN_CHECKED tn_status tn_setup_create(const tn_graph *graph, const tn_setup_options *options,
                                            tn_setup **setup, tn_error *error);
/* Derives a set-up: it shares the results of `base` before `stage`, and runs the stages from there
 * on with `options`. Either of the two may be destroyed first. */
TN_API TN_CHECKED tn_status tn_setup_from(const tn_setup *base, tn_setup_stage stage,
                                          const tn_setup_options *options, tn_setup **setup,
                                          tn_error *error);
TN_API void tn_setup_destroy(tn_setup *setup); /* NULL is fine; destroy its engines first */

/* Computes the trade-off between memory and work of split operators. The set-ups are sorted: the
 * first needs the fewest bytes with at most `options->split->share` extra work; the last is
 * unsplit. Each needs more bytes and less work than the one before it. If `progress` stops the
 * call, the set-ups found so far are returned.
 *
 * options  `split->share` above 0; `fit` and the budget of `split` are ignored
 * count    capacity of `setups`, at least 2
 * setups   out, [count]; the first *found are set, and the caller destroys each
 *
 * Errors: as tn_setup_create; no set-up is returned then. Cost: one search, and the set-ups. */
TN_API TN_CHECKED tn_status tn_setup_split_sweep(const tn_graph *graph,
                                                 const tn_setup_options *options, uint32_t count,
                                                 tn_setup **setups, uint32_t *found,
                                                 tn_error *error);

/* --- results; all of them live as long as the set-up --------------------------------------------
 */

TN_API const tn_graph *tn_setup_given(const tn_setup *setup);
TN_API const tn_graph *tn_setup_graph(const tn_setup *setup);     /* the graph that runs */
TN_API const tn_kernels *tn_setup_kernels(const tn_setup *setup); /* NULL: no_kernels */
TN_API const tn_program *tn_setup_program(const tn_setup *setup);
TN_API const tn_occupancy *tn_setup_occupancy(const tn_setup *setup);
/* Adds the events of the program to the problem of the occupancy (tn_occupancy_add_events), so that
 * tn_layout_waits counts the waits of any layout. Not while another thread uses the setup. */
TN_API TN_CHECKED tn_status tn_setup_add_events(tn_setup *setup, tn_error *error);
TN_API const tn_layout *tn_setup_layout(const tn_setup *setup); /* NULL: unplanned */
/* Kernels that run in pieces to need less scratch. NULL: scratch does not raise the peak, or no
 * such kernel lowers it. */
typedef struct tn_scratch_report {
    uint32_t operators;     /* number that run in pieces */
    uint64_t before, after; /* live bytes at the peak step */
} tn_scratch_report;
TN_API const tn_scratch_report *tn_setup_scratch(const tn_setup *setup);
/* The additional work and the effect of the stage RECOMPUTE. NULL: not requested, or the stage FIT
 * chose again which tensors are recomputed. */
TN_API const tn_recompute_report *tn_setup_recomputed(const tn_setup *setup);
/* The split operators. NULL: all operators run whole. */
typedef struct tn_split_report {
    const tn_split_region *regions; /* [count] of the graph that was split: the rewritten graph,
                                     * with the recomputed tensors */
    uint32_t count;
    const tn_split_again *again; /* [again_count] tensors that are recomputed for late readers */
    uint32_t again_count;
    tn_cost whole, parts;              /* work of one run: unsplit, split */
    double work;                       /* extra work as a share, as the search found it
                                        * (tn_split_choice.work); 0: the regions were given */
    uint64_t whole_arena, whole_total; /* bytes of the unsplit plan */
} tn_split_report;
TN_API const tn_split_report *tn_setup_splits(const tn_setup *setup);
/* How FIT met the budget. NULL: no budget was given, or the plan met it without FIT. Its occupancy
 * and layout moved to the set-up and are not in the result. */
TN_API const tn_fit_result *tn_setup_fitted(const tn_setup *setup);
/* How weights are streamed. NULL: all of them stay in memory. Its program, occupancy and layout
 * moved to the set-up and are not in the result. */
TN_API const tn_stream_result *tn_setup_streamed(const tn_setup *setup);
/* The blocks of static memory, [*count]: in the layouts that the kernels need, or in plain layout
 * without kernels. If they are bodies of the problem, they are in the order of these. */
TN_API const tn_static_block *tn_setup_statics(const tn_setup *setup, uint32_t *count);

typedef struct tn_setup_needs {
    uint64_t arena;   /* the layout's peak; unplanned: the lower bound */
    uint64_t statics; /* bytes of static memory, each block aligned */
    uint64_t total;   /* all memory of the device: arena + statics, or the arena if it has both */
} tn_setup_needs;
TN_API tn_setup_needs tn_setup_need(const tn_setup *setup);
/* Wall time of a stage in seconds; 0 if its result is shared with another set-up. */
TN_API double tn_setup_seconds(const tn_setup *setup, tn_setup_stage stage);

/* --- to an engine ------------------------------------------------------------------------------
 */

/* Creates an engine on a device of its own. The set-up must outlive it.
 *
 * device   NULL: defaults. Capacity 0: exactly the bytes needed, with no byte to spare
 * options  NULL: defaults; with a pool the layout is ignored
 *
 * Errors: E_EXHAUSTED (the capacity is too small; the message names a sufficient one), E_INVALID
 * (no kernels, or no layout), those of tn_device_create and tn_engine_create. */
TN_API TN_CHECKED tn_status tn_setup_open(const tn_setup *setup, const tn_device_options *device,
                                          const tn_engine_options *options, tn_engine **engine,
                                          tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
