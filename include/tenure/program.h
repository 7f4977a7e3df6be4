/* program.h - the order of execution, and the buffers and live ranges that follow from it.
 *
 *     // ... graph: from tn_graph_load or built by hand, inferred
 *     tn_program *program;
 *     tn_occupancy *occupancy;
 *     tn_layout layout;
 *     if (tn_program_create(graph, NULL, &program, &error) ||
 *         tn_occupancy_create(program, NULL, &occupancy, &error) ||
 *         tn_plan(tn_occupancy_problem(occupancy), NULL, &layout, &error))
 *         return 2;
 *
 * A program is a list of instructions (instruction.h); instruction i runs at step i. Every
 * technique that saves memory is a pass: it takes a program and returns a program.
 *
 * An occupancy (`tn_occupancy`) is the result of liveness analysis and buffer assignment. It says
 * when each tensor is live (`tn_life`, a live range), and which tensors share one body (a buffer)
 * as views or in-place results. It also holds the problem for the planners (plan.h).
 * Threads: any number of threads may read; one thread at a time may change.
 */
#ifndef TENURE_PROGRAM_H
#define TENURE_PROGRAM_H

#include <tenure/instruction.h>
#include <tenure/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One block of a control-flow operator: instructions [first, last). The operator's own APPLY
 * follows its regions. */
typedef struct tn_region {
    tn_op_id op;
    tn_block_id block;
    uint32_t first, last;
    bool repeats; /* a loop body: tensors that it reads from outside stay live until `last` */
} tn_region;

typedef struct tn_program tn_program;

typedef struct tn_program_options {
    size_t struct_size;
    const char *order; /* "file" (NULL), "memory", or "auto": the order with the lowest peak of live
                        * bytes; on a tie with the file's order, the file's */
    const struct tn_occupancy_options *memory; /* how live bytes are counted; NULL: defaults.
                                                * `claimed` is ignored */
    const tn_op_id *sequence; /* [sequence_count] the caller's order, instead of `order`: every
                               * operator that is not folded, once; checked */
    uint32_t sequence_count;
} tn_program_options;
#define TN_PROGRAM_OPTIONS_INIT                                                                    \
    TN_INIT(tn_program_options, TN_SET(struct_size, sizeof(tn_program_options)))

/* Lowers an inferred graph: a PUT per graph input, an APPLY per operator that is not folded, a GET
 * per graph output. Blocks of control flow are inlined, and each is ordered separately. Every order
 * preserves the results: consumers follow producers, and readers of memory that an operator
 * overwrites (relu_) stay before or after that operator, as in the file.
 * The graph must outlive the program. Errors: E_INVALID (a sequence that breaks these rules; the
 * message names both operators), E_UNKNOWN (order), E_NO_MEMORY. Cost: docs/planners/orders.md. */
TN_API TN_CHECKED tn_status tn_program_create(const tn_graph *graph,
                                              const tn_program_options *options,
                                              tn_program **program, tn_error *error);
/* Makes a program of the caller's instructions (from a pass or a recorded run). They are copied and
 * checked by tn_program_verify. */
TN_API TN_CHECKED tn_status tn_program_from(const tn_graph *graph,
                                            const tn_instruction *instructions, uint32_t count,
                                            const tn_region *regions, uint32_t region_count,
                                            tn_program **program, tn_error *error);
/* An encoded (compressed) form of a tensor. It is a tensor of the program, not of the given graph,
 * since no operator computes it. */
typedef struct tn_encoded {
    tn_tensor_id tensor; /* the tensor that is encoded */
    tn_codec codec;
    uint64_t bytes; /* reserved for the form; 0: enough for any tensor data (tn_codec_bytes) */
} tn_encoded;
/* As tn_program_from, with encoded forms. The program gets a graph of its own, with the ids of the
 * given graph; `encoded[k]` is tensor tn_graph_tensor_count(graph) + k of it. That graph lives as
 * long as the program. Only ENCODE, DECODE (as `other`), swaps and releases may name an encoded
 * form. The given graph must outlive the program.
 * Errors: E_INVALID (a tensor of unknown size or without whole bytes; fewer bytes than any tensor
 * data need; and those of tn_program_from), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_program_from_encoded(
    const tn_graph *graph, const tn_encoded *encoded, uint32_t encoded_count,
    const tn_instruction *instructions, uint32_t count, const tn_region *regions,
    uint32_t region_count, tn_program **program, tn_error *error);
/* The program's encoded forms, [*count]; they are the last *count tensors of its graph, in order.
 */
TN_API const tn_encoded *tn_program_encoded(const tn_program *program, uint32_t *count);
/* Checks that a program can run and computes what its graph says. tn_program_from accepts no other
 * program. The check uses the table of instruction.h and covers every interleaving of streams and
 * every choice of branches:
 * - a tensor is read only while it is present, and neither defined nor released twice;
 * - an operator runs a second time only if that gives the same result;
 * - a swapped or encoded tensor comes back unchanged;
 * - the graph's outputs are fetched, or another rank computes them;
 * - regions of control flow are nested, and end in their operator;
 * - every dependency between streams has a wait.
 * Errors: E_INVALID (the message names the instruction, its tensor, the reason and the remedy),
 * E_NO_MEMORY. Cost: O(instructions + operands), plus O(waits streams) with several streams. */
TN_API TN_CHECKED tn_status tn_program_verify(const tn_program *program, tn_error *error);
/* Checks the programs of all ranks, each alone and all together; programs[r] is that of rank r. The
 * k-th SEND from one rank to another with a tag matches the k-th RECV there with that tag, of equal
 * size. The k-th REDUCE, GATHER or SCATTER of a group matches the k-th one of every rank that calls
 * the group (group 0: all ranks). The check proves that no rank deadlocks, where stream 0 issues
 * the instructions in list order. A single program whose messages name peer 0 sends to itself
 * across two streams, stream 0 after the other.
 * Errors: E_INVALID (the message names rank, instruction, tensor and the missing match),
 * E_NO_MEMORY. Cost: O(instructions + operands + m log m) for m communicating instructions. */
TN_API TN_CHECKED tn_status tn_programs_verify(const tn_program *const *programs, uint32_t count,
                                               tn_error *error);
TN_API void tn_program_destroy(tn_program *program);
TN_API const tn_graph *tn_program_graph(const tn_program *program);

/* The order of a program, and how close to optimal it is known to be. Bytes are live bytes at the
 * peak step; every tensor is rounded up to its alignment. */
typedef struct tn_program_order {
    const char *name; /* the order chosen: "file" if the requested one is no better; "sequence" for
                       * the caller's own; "" after tn_program_from. Static string */
    uint64_t peak;    /* 0: not computed */
    uint64_t bound;   /* no order of these operators needs less; 0: unknown */
    bool proved;      /* peak == bound: no order of these operators is better */
} tn_program_order;
TN_API tn_program_order tn_program_order_of(const tn_program *program);
/* Names and summaries of the orders, for lists and --help; without "auto". */
TN_API uint32_t tn_order_count(void);
TN_API const char *tn_order_name(uint32_t index);
TN_API const char *tn_order_summary(uint32_t index);
TN_API uint32_t tn_program_count(const tn_program *program);
TN_API const tn_instruction *tn_program_instructions(const tn_program *program);
TN_API uint32_t tn_program_region_count(const tn_program *program);
TN_API const tn_region *tn_program_regions(const tn_program *program);

/* --- occupancy: live ranges and buffers ------------------------------------------------------ */

typedef struct tn_occupancy tn_occupancy;

typedef enum tn_inplace {
    TN_INPLACE_CHOOSE, /* chosen by rule, for the lowest peak of live bytes */
    TN_INPLACE_NONE,
    TN_INPLACE_CLAIMED /* as CHOOSE, but tensors share memory only if `claimed` agrees */
} tn_inplace;

/* Which operators may run concurrently. SERIAL: the program's order; a program with several streams
 * gives the problem their clocks, or equivalent intervals. SAFE: all operators without a path
 * between them in the graph may overlap, and no plan adds a dependency between operators. */
typedef enum tn_parallel { TN_PARALLEL_SERIAL, TN_PARALLEL_SAFE } tn_parallel;

typedef struct tn_occupancy_options {
    size_t struct_size;
    uint64_t alignment; /* of every body; 0: 64 */
    tn_inplace inplace;
    bool no_views; /* optional views get memory of their own; aliases by definition never do */
    const uint64_t *claimed; /* with CLAIMED: [tensor count] offsets; TN_SIZE_UNKNOWN: not given */
    /* [bank_count], as in tn_problem_offer_banks: bodies may choose their bank. The traffic of a
     * tensor is its bytes, once for its definition and once for each use */
    const tn_bank *banks;
    uint32_t bank_count;
    tn_parallel parallel;
    /* [operator count] scratch bytes of the kernels (tn_kernels_workspaces); NULL: those of
     * tn_op_workspace. Read only during the call */
    const uint64_t *workspaces;
    bool fuse_concat; /* inputs of a concatenation are written directly into its output, if that
                       * raises the live bytes of no step; with CLAIMED: if the claims say so */
    /* [static_count] static memory in the arena: one body per block, in this order after all other
     * bodies, live in every step. Tensors that the program fetches (FETCH) are live from there, and
     * take the bytes of their block. 0: static tensors are not in the arena */
    const struct tn_static_block *statics;
    uint32_t static_count;
    bool statics_first; /* static blocks are pinned one after another from the arena's start */
    /* [operator count] scratch bytes of operators that run a second time in another form
     * (tn_kernels_workspaces_again); NULL: as the first time */
    const uint64_t *workspaces_again;
} tn_occupancy_options;
#define TN_OCCUPANCY_OPTIONS_INIT                                                                  \
    TN_INIT(tn_occupancy_options, TN_SET(struct_size, sizeof(tn_occupancy_options)))

/* A block of static memory: a parameter, constant or folded tensor, in its plain layout or in the
 * layout that the kernel of an operator needs (packed). */
typedef struct tn_static_block {
    tn_tensor_id tensor;
    tn_op_id op; /* the operator that has a packed form of its own; TN_NONE: for all operators */
    uint64_t bytes;
} tn_static_block;

/* How a live range gets its memory. */
typedef enum tn_share {
    TN_SHARE_OWN,
    TN_SHARE_VIEW,
    TN_SHARE_INPLACE,
    TN_SHARE_FUSED /* a concatenation with inputs that were written into it, not copied */
} tn_share;
/* One live range of one tensor: from a definition to its last use. A tensor that is swapped or
 * recomputed has several. The output of an If has one at the end of each branch that writes it,
 * since only one of them runs. A static tensor (parameter, constant, folded) has one for each block
 * that the options put into the arena; its views have no live range. */
typedef struct tn_life {
    tn_tensor_id tensor; /* TN_NONE: the workspace of `op` */
    tn_op_id op; /* the operator that defines it; TN_NONE: PUT, or formal input of a block */
    tn_body_id body;
    uint64_t delta; /* bytes from the body's offset; 0 if `whole` */
    uint64_t bytes; /* unaligned size of the tensor; for a view that repeats bytes (expand), of
                     * the bytes it views */
    uint32_t first, last; /* live in steps [first, last). With copies on other streams: until the
                           * copy is known to be complete; if no interval can express that, `last`
                           * counts list order only and the clocks of the problem say the rest */
    tn_share share;       /* OWN: it shares no earlier tensor's memory */
    tn_tensor_id source;  /* VIEW, INPLACE: the tensor whose memory it uses; FUSED: the first input
                           * that lies in it; else TN_NONE */
    bool whole;           /* a view at an unknown offset: it keeps the whole body live */
    bool is_static;       /* a block of static memory; `op`: the operator of a packed form */
} tn_life;

/* Computes the live ranges, merges views and in-place pairs into bodies, and builds the problem.
 * The time axis is the step. The program must outlive the occupancy.
 * Errors: E_INVALID (for example a tensor used before it is defined), E_UNKNOWN (a size),
 * E_NO_MEMORY. Cost: O((instructions + operands) log n). */
TN_API TN_CHECKED tn_status tn_occupancy_create(const tn_program *program,
                                                const tn_occupancy_options *options,
                                                tn_occupancy **occupancy, tn_error *error);
TN_API void tn_occupancy_destroy(tn_occupancy *occupancy);
TN_API const tn_program *tn_occupancy_program(const tn_occupancy *occupancy);
TN_API const tn_problem *tn_occupancy_problem(const tn_occupancy *occupancy);
TN_API uint32_t tn_occupancy_life_count(const tn_occupancy *occupancy);
TN_API const tn_life *tn_occupancy_lives(const tn_occupancy *occupancy); /* by first, then tensor */
/* The kind of a live range: that of its tensor; WORKSPACE without a tensor; CONSTANT for folded
 * static memory. */
TN_API tn_kind tn_life_kind(const tn_graph *graph, const tn_life *life);

typedef struct tn_memory_summary {
    uint64_t total[TN_KIND_COUNT];   /* bytes of all tensors of the kind, without sharing, aligned;
                                        static memory (parameters, constants, optimizer state,
                                        accumulated gradients) is outside the arena except for
                                        blocks that the options put there */
    uint64_t at_peak[TN_KIND_COUNT]; /* bytes in the arena at the peak of live bytes */
    uint64_t naive;     /* the arena without reuse: every tensor in memory of its own, except
                           aliases by definition */
    uint64_t peak_live; /* the lower bound of the problem */
    uint32_t peak_step;
    uint32_t bounded; /* tensors counted at an upper bound */
} tn_memory_summary;
TN_API tn_memory_summary tn_occupancy_summary(const tn_occupancy *occupancy);

typedef struct tn_occupant {
    uint32_t life;  /* index into tn_occupancy_lives */
    uint64_t bytes; /* that it holds; bytes shared by several live ranges count for one of them */
} tn_occupant;
/* Lists the live ranges that hold the arena at a step (TN_NONE: the peak step). Fills holders[room]
 * with the largest (ties by index) and returns the number of all. The bytes of all add up to the
 * live bytes. Cost: O(lives log room). */
TN_API uint32_t tn_occupancy_holders(const tn_occupancy *occupancy, uint32_t step,
                                     tn_occupant *holders, uint32_t room);

/* --- dependencies that a plan adds -----------------------------------------------------------
 */

/* `after` writes bytes that `before` used last, and the graph has no path between them: with this
 * layout `after` must wait for `before`. */
typedef struct tn_dependency {
    tn_op_id before, after;
} tn_dependency;

/* Lists the dependencies between operators that a layout adds to those of the graph: from the last
 * user of bytes to the next writer of the same bytes, each pair once. An operator with blocks
 * counts as one. The list is empty with TN_PARALLEL_SAFE.
 *
 * list   out, [count] by before, then after; release with tn_dependencies_release. May be NULL
 *
 * Errors: E_INVALID (the layout is of another problem), E_UNSUPPORTED (so many operators are
 * independent that their order would take more than 64 MiB and 1 KiB for each instruction),
 * E_NO_MEMORY. Cost: O(instructions chains + lives log lives + pairs found). */
TN_API TN_CHECKED tn_status tn_plan_dependencies(const tn_occupancy *occupancy,
                                                 const tn_layout *layout, tn_dependency **list,
                                                 uint64_t *count, tn_error *error);
TN_API void tn_dependencies_release(tn_dependency *list);
/* Adds the steps of the program to the problem of an occupancy, as events in the order of the
 * graph, and the live ranges as spans: for TN_OBJECTIVE_WAITS, TN_OBJECTIVE_TIME and
 * tn_layout_waits. The time of an event is estimated from operations and bytes moved, in
 * picoseconds. A second call does
 * nothing.
 * Errors: E_UNSUPPORTED (more than TN_EVENTS_MAX steps, or as tn_plan_dependencies), E_NO_MEMORY.
 * Cost: O(instructions chains + uses), and that of tn_plan_dependencies. */
TN_API TN_CHECKED tn_status tn_occupancy_add_events(tn_occupancy *occupancy, tn_error *error);
/* Replaces a layout by one that is no higher and adds fewer dependencies, if one is found quickly.
 * Stages of a compiled model (setup.h) and tn_program_plan already do this. Only for the
 * planner `auto`, the objective BYTES, one bank, TN_PARALLEL_SERIAL and at most 4096 bodies;
 * otherwise it does nothing.
 *
 * occupancy, memory, plan  those of the layout
 * layout                   in and out; stays valid for the problem of `occupancy`
 *
 * Errors: E_NO_MEMORY. Cost: that of tn_plan_dependencies and of a plan by the planner `fast`. */
TN_API TN_CHECKED tn_status tn_plan_loosen(const tn_occupancy *occupancy,
                                           const tn_occupancy_options *memory,
                                           const tn_plan_options *plan, tn_layout *layout,
                                           tn_error *error);

/* --- graph to plan in one call ------------------------------------------------------------------
 */

/* Makes program, occupancy and layout of each candidate order, and keeps the smallest arena. The
 * candidates of options->order "memory" are that order and the file's; "auto" stands for all
 * orders. The result therefore never needs more than the file's order. An order is skipped if its
 * lower bound is not below the best arena so far. Options may be NULL; `occupancy_options` replaces
 * `memory` of the program's options. The caller destroys program and occupancy and releases the
 * layout.
 * Errors: those of the three steps; E_INFEASIBLE and E_STOPPED only if every candidate fails. */
TN_API TN_CHECKED tn_status tn_program_plan(const tn_graph *graph,
                                            const tn_program_options *options,
                                            const tn_occupancy_options *occupancy_options,
                                            const tn_plan_options *plan_options,
                                            tn_program **program, tn_occupancy **occupancy,
                                            tn_layout *layout, tn_error *error);

/* --- tags: the allocation step by step -------------------------------------------------------- */

/* An event of one tensor at one step. A tag names memory before its size is known. X(name, text).
 */
/* clang-format off */
#define TN_TAG_TABLE(X)                                                                        \
    X(OUTSIDE, "outside")  /* a graph input: the caller's memory, no tag */                    \
    X(NEW, "new")          /* gets a new tag: no tag is free */                                \
    X(TAKEN, "taken")      /* gets the tag that has been free for longest */                   \
    X(VIEW, "view")        /* lies in the memory of `other` */                                 \
    X(INPLACE, "inplace")  /* is written over `other`, which is read for the last time */      \
    X(KEPT, "kept")        /* is read here and has `uses` reads left */                        \
    X(FREED, "freed")      /* is live no longer: its tag joins the queue of free tags */
/* clang-format on */
typedef enum tn_tag_kind {
#define TN_X(name, text) TN_TAG_##name,
    TN_TAG_TABLE(TN_X)
#undef TN_X
} tn_tag_kind;

typedef struct tn_tag_event {
    tn_tag_kind kind;
    uint32_t step;
    tn_op_id op;         /* the operator of the step; TN_NONE: another instruction */
    tn_tensor_id tensor; /* TN_NONE: the workspace of `op` */
    uint32_t tag;        /* TN_NONE: outside */
    tn_tensor_id other;  /* VIEW, INPLACE: the tensor that had the memory; NEW: a live input */
    uint32_t uses;       /* reads left: KEPT: of `tensor`; NEW: of `other` */
    uint64_t bytes;      /* of the tag so far: the size of its largest tensor */
} tn_tag_event;

typedef struct tn_tag_summary {
    uint32_t tag_count;
    uint64_t bytes; /* of all tags, placed end to end */
} tn_tag_summary;

/* Plays the program through a run-time allocator with use counts and a queue of free tags, and
 * reports every event in order: first the definitions of a step, then its reads and releases.
 *
 * event     called from this thread; false ends the call with E_STOPPED
 * summary   out, may be NULL
 *
 * Views and in-place sharing are those of the occupancy. Errors: E_STOPPED, E_NO_MEMORY.
 * Cost: O((lives + operands) log n). Source: MXNet, "Optimizing memory consumption in deep
 * learning" (2015), its allocation pass. */
TN_API TN_CHECKED tn_status tn_occupancy_tags(const tn_occupancy *occupancy,
                                              bool (*event)(void *self, const tn_tag_event *event),
                                              void *self, tn_tag_summary *summary, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
