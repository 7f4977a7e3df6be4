/* occupancy.h - the live ranges and buffers of a program, and plans for them: the tensors that
 * share a buffer, the dependencies that a plan adds, the allocation step by step, and memory on the
 * host. */
#ifndef TENURE_OCCUPANCY_H
#define TENURE_OCCUPANCY_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/occupancy.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- occupancy: live ranges and buffers ------------------------------------------------------ */

typedef struct tn_occupancy tn_occupancy;

typedef enum tn_inplace {
    /* tensors may share memory, chosen by rule for the lowest peak of live bytes */
    TN_INPLACE_CHOOSE,
    TN_INPLACE_NONE,
    /* like TN_INPLACE_CHOOSE, but tensors share memory only where their offsets in `claimed` agree
     * with it */
    TN_INPLACE_CLAIMED
} tn_inplace;

/* Which operators may run concurrently. SERIAL: only as the program orders them; for a program with
 * several streams, the problem gets the clocks of the streams, or equivalent intervals. SAFE: all
 * operators without a path between them in the graph may overlap, and no plan adds a dependency
 * between operators. */
typedef enum tn_parallel { TN_PARALLEL_SERIAL, TN_PARALLEL_SAFE } tn_parallel;

typedef struct tn_occupancy_options {
    size_t struct_size;
    uint64_t alignment; /* alignment of every body; 0: 64 */
    tn_inplace inplace;
    bool no_views; /* optional views get memory of their own; aliases by definition never do */
    /* with TN_INPLACE_CLAIMED: [tensor count] offset of each tensor; TN_SIZE_UNKNOWN: not given */
    const uint64_t *claimed;
    /* [bank_count] banks among which bodies may choose, as in tn_problem_offer_banks. The traffic
     * of a tensor is its bytes, counted once for its definition and once for each use */
    const tn_bank *banks;
    uint32_t bank_count;
    tn_parallel parallel;
    /* [operator count] scratch bytes of the kernels (tn_kernels_workspaces); NULL: the scratch
     * bytes of tn_op_workspace. Read only during the call */
    const uint64_t *workspaces;
    /* true: inputs of a concatenation are written directly into its output, if that raises the live
     * bytes of no step. With TN_INPLACE_CLAIMED, the claims decide instead */
    bool fuse_concat;
    /* [static_count] static memory in the arena: one body per block, in this order after all other
     * bodies, live in every step. Tensors that the program fetches (FETCH) are live from the FETCH
     * on, in the bytes of their block. static_count 0: static tensors are not in the arena */
    const struct tn_static_block *statics;
    uint32_t static_count;
    /* true: static blocks are pinned one after another from the start of the arena */
    bool statics_first;
    /* [operator count] scratch bytes of operators that run a second time in another form
     * (tn_kernels_workspaces_again); NULL: the scratch bytes of the first time */
    const uint64_t *workspaces_again;
    /* [adjacent_count] patterns of tensor names (* and ?). The tensors that match a pattern lie one
     * after another in memory, in the order of their definitions, each at the next multiple of the
     * alignment, such as the gradients of one AllReduce. In the problem they are tied bodies.
     * E_INVALID: a pattern that matches no tensor of the arena, a tensor that matches two patterns;
     * E_CONFLICT: a tensor that is a part of another one's memory (a view), or two tensors of which
     * one is written over the other */
    const char *const *adjacent;
    uint32_t adjacent_count;
} tn_occupancy_options;
#define TN_OCCUPANCY_OPTIONS_INIT                                                                  \
    TN_INIT(tn_occupancy_options, TN_SET(struct_size, sizeof(tn_occupancy_options)))

/* A block of static memory: a parameter, constant or folded tensor, in its plain layout or in the
 * layout that the kernel of an operator needs (packed). */
typedef struct tn_static_block {
    tn_tensor_id tensor;
    /* the operator for which the block is packed; TN_NONE: the block is for all operators */
    tn_op_id op;
    uint64_t bytes;
} tn_static_block;

/* How a live range gets its memory. */
typedef enum tn_share {
    TN_SHARE_OWN,
    TN_SHARE_VIEW,
    TN_SHARE_INPLACE,
    TN_SHARE_FUSED /* a concatenation: its inputs were written into it, not copied */
} tn_share;
/* One live range of one tensor: from a definition to its last use. A tensor that is swapped or
 * recomputed has several live ranges. The output of an If has one at the end of each branch that
 * writes it, since only one branch runs. A static tensor (parameter, constant, folded) has one for
 * each block that the options put into the arena; views of a static tensor have no live range. */
typedef struct tn_life {
    tn_tensor_id tensor; /* the tensor; TN_NONE: the live range is the workspace of `op` */
    /* the operator that defines the tensor; TN_NONE: a PUT defines it, or it is a formal input of a
     * block */
    tn_op_id op;
    tn_body_id body;
    uint64_t delta; /* offset of the live range in bytes from the start of its body; 0 if `whole` */
    /* unaligned size of the tensor; for a view that repeats bytes (expand), the bytes that it
     * views */
    uint64_t bytes;
    /* steps [first, last) in which the tensor is live. With copies on other streams: until the copy
     * is known to be complete; if no interval can express that, `last` counts list order only, and
     * the clocks of the problem have the rest */
    uint32_t first, last;
    /* how the live range gets its memory; OWN: it shares no earlier tensor's memory */
    tn_share share;
    /* for VIEW and INPLACE: the tensor that had the memory first; for FUSED: the first input that
     * lies in it; otherwise TN_NONE */
    tn_tensor_id source;
    /* true: the live range is a view at an unknown offset, so it keeps the whole body live */
    bool whole;
    /* true: the live range is a block of static memory; `op` is then the operator of a packed
     * form */
    bool is_static;
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
/* The live ranges, sorted by first step, then by tensor. */
TN_API const tn_life *tn_occupancy_lives(const tn_occupancy *occupancy);
/* Returns the kind of a live range: that of its tensor; WORKSPACE without a tensor; CONSTANT for
 * folded static memory. */
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
    uint32_t bounded; /* number of tensors that are counted at an upper bound */
} tn_memory_summary;
TN_API tn_memory_summary tn_occupancy_summary(const tn_occupancy *occupancy);

typedef struct tn_occupant {
    uint32_t life; /* number of the live range: index into tn_occupancy_lives */
    /* bytes that the live range occupies; bytes shared by several live ranges count for one of
     * them */
    uint64_t bytes;
} tn_occupant;
/* Lists the live ranges that occupy memory of the arena at a step (TN_NONE: the peak step). Fills
 * holders[room] with the largest (ties by index) and returns the number of all. The bytes of all
 * add up to the live bytes. Cost: O(lives log room). */
TN_API uint32_t tn_occupancy_holders(const tn_occupancy *occupancy, uint32_t step,
                                     tn_occupant *holders, uint32_t room);

/* Computes the plan's curve: the live bytes at each step, by kind. Each byte of a body (buffer)
 * counts once.
 *
 * live  out, [instructions of the program][kinds]
 *
 * Errors: E_NO_MEMORY. Cost: O(lives log lives + instructions). */
TN_API TN_CHECKED tn_status tn_occupancy_live(const tn_occupancy *occupancy,
                                              uint64_t (*live)[TN_KIND_COUNT], tn_error *error);

/* --- dependencies that a plan adds -----------------------------------------------------------
 */

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
/* Adds the events, and a reuse cost of 1 for each pair of bodies that need a wait if they share
 * bytes, because the graph does not imply that all uses of one are over when the other is written:
 * for TN_OBJECTIVE_PAIRS and tn_layout_reuse_cost. A second call does nothing.
 * Errors: as tn_occupancy_add_events; E_UNSUPPORTED (more than 2^22 such pairs).
 * Cost: that of tn_occupancy_add_events, and O(ranges (ranges + uses) + steps^3 / 64). */
TN_API TN_CHECKED tn_status tn_occupancy_add_reuse_costs(tn_occupancy *occupancy, tn_error *error);
/* Replaces a layout by one that is no higher and adds fewer dependencies, if one is found quickly.
 * Stages of a compiled model (engine.h) and tn_program_plan already do this. Only for the
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

/* An event of one tensor at one step, in a run-time allocator with tags. A tag names memory before
 * its size is known. X(name, text). */
/* clang-format off */
#define TN_TAG_TABLE(X)                                                                        \
    X(OUTSIDE, "outside")  /* a graph input: the caller's memory, without a tag */             \
    X(NEW, "new")          /* the tensor gets a new tag, because no tag is free */             \
    X(TAKEN, "taken")      /* the tensor gets the tag that has been free for longest */        \
    X(VIEW, "view")        /* the tensor lies in the memory of `other` */                      \
    X(INPLACE, "inplace")  /* the tensor is written over `other`, which is read last here */   \
    X(KEPT, "kept")        /* the tensor is read here and has `uses` reads left */             \
    X(FREED, "freed")      /* the tensor is dead; its tag joins the queue of free tags */
/* clang-format on */
typedef enum tn_tag_kind {
#define TN_X(name, text) TN_TAG_##name,
    TN_TAG_TABLE(TN_X)
#undef TN_X
} tn_tag_kind;

typedef struct tn_tag_event {
    tn_tag_kind kind;
    uint32_t step;
    tn_op_id op;         /* the operator of the step; TN_NONE: the instruction is not an APPLY */
    tn_tensor_id tensor; /* the tensor; TN_NONE: the event is for the workspace of `op` */
    uint32_t tag;        /* tag of the memory; TN_NONE: the memory is the caller's and has no tag */
    /* for VIEW and INPLACE: the tensor that had the memory; for NEW: a live input */
    tn_tensor_id other;
    uint32_t uses;  /* number of reads left: for KEPT of `tensor`, for NEW of `other` */
    uint64_t bytes; /* bytes of the tag so far: the size of its largest tensor */
} tn_tag_event;

typedef struct tn_tag_summary {
    uint32_t tag_count;
    uint64_t bytes; /* bytes of all tags, placed end to end */
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

/* --- host ------------------------------------------------------------------------------------ */

/* Plans the host memory for the swapped tensors of a program.
 *
 *     // ... program: of tn_fit, or any
 *     tn_host host;
 *     tn_layout layout;
 *     if (tn_program_host(program, 0, &host, &error) ||
 *         tn_plan(host.problem, NULL, &layout, &error))
 *         return 2;
 *     // one block of layout.peak bytes; instruction i copies to or from it at
 *     // layout.offset[host.body[i]]
 *
 * A copy on the host is held from the start of the SWAP_OUT that makes it until its last SWAP_IN is
 * known to have ended. A static tensor that is on the host at the start or the end of the program
 * is held all the time. Copies in the same numbered slot (tn_instruction.slot) are one body (a
 * buffer of the plan) and share one offset over time.
 */

typedef struct tn_host {
    /* layout problem of the host memory, on the steps of the program, like the problem of its
     * occupancy */
    tn_problem *problem;
    /* [instructions] the body of a swap's copy; TN_NONE: the instruction is not a swap */
    tn_body_id *body;
    uint64_t copied; /* bytes of all copies, each counted once: the host memory without reuse */
    uint32_t count;  /* number of instructions */
    tn_context context;
} tn_host;

/* Makes the layout problem of the host memory for a program's swaps. A program without swaps has no
 * bodies.
 *
 * alignment  of every body, a power of two; 0: 64
 * host       out; release it with tn_host_release. The program need not outlive it
 *
 * Errors: E_INVALID (the alignment), E_UNKNOWN (a size), E_NO_MEMORY.
 * Cost: O(instructions log n), and that of vector clocks with several streams. */
TN_API TN_CHECKED tn_status tn_program_host(const tn_program *program, uint64_t alignment,
                                            tn_host *host, tn_error *error);
/* Releases host memory plans; NULL or a zeroed one has no effect. */
TN_API void tn_host_release(tn_host *host);

#ifdef __cplusplus
}
#endif

#endif
