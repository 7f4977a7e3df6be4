/* setup.h - the corridor: from a graph to all that an engine needs, stage by stage.
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
 *     memory.inplace = TN_INPLACE_CHOOSE; // one decision changed: what comes before it is shared
 *     if (tn_setup_from(plain, TN_SETUP_OCCUPY, &options, &less, &error)) return 2;
 *     printf("%llu bytes, in place %llu\n", (unsigned long long)tn_setup_need(plain).total,
 *            (unsigned long long)tn_setup_need(less).total);
 *     tn_setup_destroy(plain);
 *     tn_setup_destroy(less);
 *     tn_graph_destroy(graph);
 *
 * The stages follow each other as their names do below; each takes what those before it have made.
 * A search enters again where its decision is: thousands of set-ups share a rewritten graph and its
 * kernels. tn_setup_open makes an engine of one (engine.h); session.h is both and arrays.
 * Units: bytes, seconds.
 * Threads: set-ups are only read once they are made, by any number; several threads may go on from
 * the same one.
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
#include <tenure/split.h>
#include <tenure/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text, what it makes) */
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

/* From the program of one device to that of one rank of several (dist.h). */
typedef struct tn_divide {
    tn_status (*program)(void *self, const tn_program *program, tn_program **divided,
                         tn_error *error);
    void *self;
    bool arranges; /* it orders instructions itself, so that the orders of one device are not
                    * compared before; a budget is met by what it has arranged, without `costs` by
                    * a model of them, as ranks that measured at once would not agree; a tn_session
                    * leaves the operators as they are given, since what is put together may be of
                    * two stages */
} tn_divide;

/* Where static memory is: parameters, constants, optimizer state, what is computed of them, in the
 * form that the kernels want. */
typedef enum tn_static_place {
    TN_STATIC_APART, /* in a block of its own, beside the arena */
    TN_STATIC_ARENA, /* in the arena, wherever the planner puts it: one peak bounds everything */
    TN_STATIC_FIRST  /* pinned at the arena's start, one behind the other */
} tn_static_place;

/* Operators in parts: for a budget the least work, or for a share of work the least memory. */
typedef struct tn_setup_split {
    uint64_t budget; /* bytes, of all that a device must have (tn_setup_needs.total); 0: none */
    double share; /* of the graph's work that may be done beyond it (tn_split_choice.work); none at
                   * all: DBL_MIN. 0, with a budget: whatever it takes */
    const tn_split_region *regions; /* [region_count] instead: these */
    uint32_t region_count;
    const tn_graph *graph;       /* the graph of the regions, in the place of the rewritten one (as
                                  * in tn_split_choice); read during the call. NULL: the
                                  * rewritten one, after `again` */
    const tn_split_again *again; /* [again_count] with regions: tensors that are recomputed first,
                                  * as tn_graph_split_again takes them */
    uint32_t again_count;
} tn_setup_split;

/* The decisions, stage by stage; zero and NULL are the defaults. What they point to is copied, but
 * not what that points to in turn (names, sequences, claims): it lives as long as the call. */
/* Weights that come from their file when they are needed (stream.h), where the plan with all of
 * them needs more than the budget. */
typedef struct tn_setup_stream {
    uint64_t budget;    /* bytes of all that a device must have (tn_setup_needs.total) */
    double bytes_per_s; /* of reading; above 0 */
    double latency_s;   /* of one read */
    bool parts;         /* operators whose weights are too large for it may run in parts, so that
                         * they are read in slices; not with costs, kernels or a program of the
                         * caller's own */
} tn_setup_stream;

typedef struct tn_setup_options {
    size_t struct_size;
    const tn_context
        *context; /* of all stages where their options name none; NULL or outlives it */
    /* REWRITE */
    const tn_rewrite_options *rewrite; /* NULL: the graph as it is */
    /* KERNELS */
    bool no_kernels;                   /* for the graph alone: scratch by the operators' rules,
                                        * static tensors as they are; it cannot be opened */
    const tn_kernels_options *kernels; /* NULL: defaults */
    const tn_kernels *given_kernels;   /* of the (rewritten) graph: none are made; outlive it */
    /* ORDER. Without a program of the caller's own, candidates are compared by their layouts, as
     * tn_program_plan does */
    const tn_program_options *program; /* `memory` is filled in */
    const tn_program *given_program;   /* of the graph as it runs: of a pass; outlives it */
    /* RECOMPUTE. At most so much work is done twice (budget.h). The order of several is then that
     * of least live bytes */
    const tn_recompute_options *recompute; /* NULL, or share 0: nothing. `memory` is filled in */
    /* SCRATCH. An operator whose scratch raises the peak runs in pieces (tn_kernels_way), which
     * takes a little longer. Not where operators run side by side, nor without reuse */
    bool fastest; /* every operator by its fastest kernel, whatever scratch it takes */
    /* FIT. Where the plan needs more than fit->budget, the fastest program that does not (fit.h),
     * with its occupancy and layout, made of what ORDER gave. Not without reuse, nor unplanned */
    const tn_fit_options *fit; /* NULL, or budget 0: nothing. The budget is for all that a device
                                * must have (tn_setup_needs.total); `fixed_bytes`, `memory` and
                                * `plan` are filled in */
    const tn_costs *costs;     /* of the graph as it runs, read during the call. NULL: measured, if
                                * there is need of them; without kernels of a machine that does
                                * eight operations while a byte moves */
    /* OCCUPY */
    const tn_occupancy_options *memory; /* `workspaces` are filled in where there are kernels */
    tn_static_place statics;            /* ARENA, FIRST: `statics` of the occupancy are filled in */
    bool without_reuse; /* memory of its own for every tensor: what plans are compared with */
    /* PLAN */
    const tn_plan_options *plan;
    bool unplanned; /* no layout: for a pool, or somebody's plan. The order of several is then that
                     * of least live bytes */
    /* DIVIDE, behind FIT. Of the same graph: only instructions that talk may be added, and others
     * moved */
    const tn_divide *divide; /* NULL: there is one rank */
    /* Behind REWRITE: operators run in parts (split.h), of the graph as it was rewritten, where the
     * plan of the whole does not keep to what is asked. Joins then lie where their parts are
     * (memory->fuse_concat). Not with kernels, a program, costs, `workspaces` or `claimed` of the
     * caller's own: they are of another graph. With regions of the caller's own: tn_setup_from
     * takes them as they are. Not with `fit`: tn_fit_graph combines both (claim.h). Where the
     * context's `progress` says to stop: the least so far, which may be the whole; with a budget
     * E_STOPPED */
    const struct tn_setup_split *split; /* NULL: nothing does */
    /* STREAM, behind FIT; needs `costs` as that does. Static memory then lies in the arena. Not
     * with `divide`, without reuse, or unplanned. NULL: weights stay */
    const tn_setup_stream *stream;
    /* Makes costs of a graph as it runs, where `costs` is NULL and there is need of them. NULL:
     * they are measured, or modelled, as said at `costs` */
    tn_status (*make_costs)(void *self, const tn_setup *setup, tn_costs **costs, tn_error *error);
    void *make_costs_self;
} tn_setup_options;
#define TN_SETUP_OPTIONS_INIT                                                                      \
    TN_INIT(tn_setup_options, TN_SET(struct_size, sizeof(tn_setup_options)))

/* Goes through all stages. The graph outlives the set-up.
 *
 * Errors: those of the calls that it is made of: tn_graph_rewrite, tn_kernels_create,
 * tn_program_plan, tn_program_recompute, tn_costs_measure, tn_fit. */
TN_API TN_CHECKED tn_status tn_setup_create(const tn_graph *graph, const tn_setup_options *options,
                                            tn_setup **setup, tn_error *error);
/* Another one with the same decisions before `stage`, which are shared and not made again, and the
 * options' from there on. Either may be destroyed first. */
TN_API TN_CHECKED tn_status tn_setup_from(const tn_setup *base, tn_setup_stage stage,
                                          const tn_setup_options *options, tn_setup **setup,
                                          tn_error *error);
TN_API void tn_setup_destroy(tn_setup *setup); /* NULL is fine; after its engines */

/* The curve of memory against work: set-ups in parts, from the one of fewest bytes for at most
 * `options->split->share` more work to the one without parts, which is the last. Each needs more
 * bytes than the one before it, for less work. Stopped by `progress`, those so far.
 *
 * options  `split->share` above 0; `fit` and the budget of `split` are not read
 * count    at least 2
 * setups   out, [count], of which [*found] were found; each to be destroyed
 * Errors: as tn_setup_create; then there are none. Cost: a search, and that of the set-ups. */
TN_API TN_CHECKED tn_status tn_setup_split_sweep(const tn_graph *graph,
                                                 const tn_setup_options *options, uint32_t count,
                                                 tn_setup **setups, uint32_t *found,
                                                 tn_error *error);

/* --- what was made; all of it lives as long as the set-up --------------------------------------
 */

TN_API const tn_graph *tn_setup_given(const tn_setup *setup);
TN_API const tn_graph *tn_setup_graph(const tn_setup *setup);     /* as it runs */
TN_API const tn_kernels *tn_setup_kernels(const tn_setup *setup); /* NULL: none */
TN_API const tn_program *tn_setup_program(const tn_setup *setup);
TN_API const tn_occupancy *tn_setup_occupancy(const tn_setup *setup);
TN_API const tn_layout *tn_setup_layout(const tn_setup *setup); /* NULL: unplanned */
/* Kernels with less scratch than the fastest ones; NULL: scratch does not make the peak, or there
 * are none that lower it. */
typedef struct tn_scratch_report {
    uint32_t operators;     /* that run in pieces */
    uint64_t before, after; /* live bytes at the worst step */
} tn_scratch_report;
TN_API const tn_scratch_report *tn_setup_scratch(const tn_setup *setup);
/* What is computed again within the share; NULL: nothing was asked for, or FIT chose anew. */
TN_API const tn_recompute_report *tn_setup_recomputed(const tn_setup *setup);
/* What runs in parts; NULL: nothing does. */
typedef struct tn_split_report {
    const tn_split_region *regions; /* [count] of the graph that was cut: as it was rewritten, with
                                     * what is computed again */
    uint32_t count;
    const tn_split_again *again; /* [again_count] tensors that are recomputed for late readers */
    uint32_t again_count;
    tn_cost whole, parts;              /* what one run does: without, and so */
    double work;                       /* share of the work that is done beyond it, as it was found
                                        * (tn_split_choice.work); 0: of regions that were given */
    uint64_t whole_arena, whole_total; /* what the plan without needs */
} tn_split_report;
TN_API const tn_split_report *tn_setup_splits(const tn_setup *setup);
/* How the budget was met; NULL: none was given, or the plan keeps to it as it is. Occupancy and
 * layout of it are the set-up's, and are not in it. */
TN_API const tn_fit_result *tn_setup_fitted(const tn_setup *setup);
/* How weights come and go; NULL: all of them stay. Program, occupancy and layout of it are the
 * set-up's, and are not in it. */
TN_API const tn_stream_result *tn_setup_streamed(const tn_setup *setup);
/* The blocks of static memory, in the form that the kernels want; without kernels as they are:
 * [*count], in the order of their bodies where they have some. */
TN_API const tn_static_block *tn_setup_statics(const tn_setup *setup, uint32_t *count);

typedef struct tn_setup_needs {
    uint64_t arena;   /* the layout's peak; unplanned: the lower bound */
    uint64_t statics; /* bytes of static memory, each block aligned */
    uint64_t total;   /* what a device must have: both, or the arena where statics lie in it */
} tn_setup_needs;
TN_API tn_setup_needs tn_setup_need(const tn_setup *setup);
/* Wall time that a stage took; of what is shared 0. */
TN_API double tn_setup_seconds(const tn_setup *setup, tn_setup_stage stage);

/* --- to an engine ------------------------------------------------------------------------------
 */

/* An engine on a device of its own. The set-up outlives it.
 *
 * device   NULL: defaults. Its capacity, 0: just what is needed, one byte more is refused
 * options  NULL: defaults; with a pool the layout is not read
 *
 * Errors: E_EXHAUSTED with what would do (a capacity that is too small), E_INVALID (no kernels, no
 * layout), those of tn_device_create and tn_engine_create. */
TN_API TN_CHECKED tn_status tn_setup_open(const tn_setup *setup, const tn_device_options *device,
                                          const tn_engine_options *options, tn_engine **engine,
                                          tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
