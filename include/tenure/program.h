/* program.h - when: instructions over tensors, and the geometry that follows from them.
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
 * A Program is a list of instructions (instruction.h); instruction i runs at step i. Every
 * technique that saves memory is a pass, Program in and Program out. An Occupancy is what the
 * Program asks of memory: which tensor lives when, which tensors share one body (views, in-place),
 * and the Problem for the planners.
 * Threads: any number may read; one at a time may change.
 */
#ifndef TENURE_PROGRAM_H
#define TENURE_PROGRAM_H

#include <tenure/instruction.h>
#include <tenure/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One run of a block of a control-flow operator: instructions [first, last). The operator's own
 * APPLY follows its regions. */
typedef struct tn_region {
    tn_op_id op;
    tn_block_id block;
    uint32_t first, last;
    bool repeats; /* a loop body: what it reads from outside stays until `last` */
} tn_region;

typedef struct tn_program tn_program;

typedef struct tn_program_options {
    size_t struct_size;
    const char *order; /* "file" (NULL), "memory", or "auto": of all orders the one whose live bytes
                        * peak lowest, the file's when none is better */
    const struct tn_occupancy_options *memory; /* what those bytes are counted with; NULL: defaults.
                                                * `claimed` is not read */
    const tn_op_id *sequence; /* [sequence_count] an order of your own, instead of `order`: each
                               * operator that is not folded, once; checked */
    uint32_t sequence_count;
} tn_program_options;
#define TN_PROGRAM_OPTIONS_INIT                                                                    \
    TN_INIT(tn_program_options, TN_SET(struct_size, sizeof(tn_program_options)))

/* Lowers an inferred graph: a PUT per graph input, an APPLY per operator that is not folded
 * (blocks of control flow inline, each arranged by itself), a GET per graph output.
 * Every order keeps what operators do: who needs a result comes after it, and where an operator
 * writes into memory that others read (relu_), each of them keeps its side of it.
 * The graph must outlive the program. Errors: E_INVALID (a sequence that breaks this, with both
 * operators), E_UNKNOWN (order), E_NO_MEMORY. Cost: docs/planners/orders.md. */
TN_API TN_CHECKED tn_status tn_program_create(const tn_graph *graph,
                                              const tn_program_options *options,
                                              tn_program **program, tn_error *error);
/* A program of the caller's own instructions (passes, recorded runs); they are copied, and checked
 * by tn_program_verify. */
TN_API TN_CHECKED tn_status tn_program_from(const tn_graph *graph,
                                            const tn_instruction *instructions, uint32_t count,
                                            const tn_region *regions, uint32_t region_count,
                                            tn_program **program, tn_error *error);
/* An encoded form, as a tensor that the program owns: in no graph, since nothing computes it. */
typedef struct tn_encoded {
    tn_tensor_id tensor; /* whose */
    tn_codec codec;
    uint64_t bytes; /* that there are for it; 0: whatever its elements may be (tn_codec_bytes) */
} tn_encoded;
/* As tn_program_from, with encoded forms: `encoded[k]` is tensor tn_graph_tensor_count(graph) + k
 * of the program's graph, which is then one of its own, with the ids of the given one, and lives as
 * long as the program. ENCODE and DECODE name it as `other`; it may be swapped and released, and
 * nothing else. The given graph outlives the program.
 * Errors: E_INVALID (a tensor without whole bytes of a known number, fewer bytes than any contents
 * need, and those of tn_program_from), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_program_from_encoded(
    const tn_graph *graph, const tn_encoded *encoded, uint32_t encoded_count,
    const tn_instruction *instructions, uint32_t count, const tn_region *regions,
    uint32_t region_count, tn_program **program, tn_error *error);
/* Its encoded forms, [*count]: form k is the last tensor of its graph but *count - 1 - k. */
TN_API const tn_encoded *tn_program_encoded(const tn_program *program, uint32_t *count);
/* Whether a program can be run and gives what its graph says; tn_program_from returns no other. By
 * the table of instruction.h, in every way that its streams and branches may go: what is read is
 * there, nothing is defined while it is there or released twice; an operator runs a second time
 * only where that gives the same again; what goes to the host or is encoded comes back as it left;
 * the graph's outputs are fetched (or, where ranks talk, computed by another); control flow is
 * nested and ends in its operator; and whoever must wait does. Errors: E_INVALID with the
 * instruction, its tensor, why, and what to do; E_NO_MEMORY. Cost: O(instructions + operands), with
 * several streams O(waits streams) more. */
TN_API TN_CHECKED tn_status tn_program_verify(const tn_program *program, tn_error *error);
/* The programs of all ranks, each by itself and together: programs[r] is that of rank r. The k-th
 * SEND from one rank to another with a tag meets the k-th RECV of it there, of as many bytes; the
 * k-th REDUCE, GATHER or SCATTER of a group meets those of all ranks that call the group (0: of
 * all); and nobody waits for ever, where stream 0 walks through the list and other streams are
 * given what comes behind one of its instructions when that is over. One program with peer 0 talks
 * to itself, on two streams, stream 0 after the other. Errors: E_INVALID with rank, instruction
 * and tensor, and who does not meet it; E_NO_MEMORY.
 * Cost: O(instructions + operands + m log m), m of them talking. */
TN_API TN_CHECKED tn_status tn_programs_verify(const tn_program *const *programs, uint32_t count,
                                               tn_error *error);
TN_API void tn_program_destroy(tn_program *program);
TN_API const tn_graph *tn_program_graph(const tn_program *program);

/* How a program came to its order, and how good that is known to be. Bytes are live bytes at the
 * worst step, every tensor rounded up to its alignment. */
typedef struct tn_program_order {
    const char *name; /* the order that was kept: "file" when the one asked for is no better;
                       * "sequence" for a caller's own; "" for tn_program_from. Static string */
    uint64_t peak;    /* 0: not counted */
    uint64_t bound;   /* no order of these operators needs less; 0: not known */
    bool proved;      /* peak == bound: no order is better */
} tn_program_order;
TN_API tn_program_order tn_program_order_of(const tn_program *program);
/* Names and summaries of the orders, for lists and --help; "auto", which picks, is not one. */
TN_API uint32_t tn_order_count(void);
TN_API const char *tn_order_name(uint32_t index);
TN_API const char *tn_order_summary(uint32_t index);
TN_API uint32_t tn_program_count(const tn_program *program);
TN_API const tn_instruction *tn_program_instructions(const tn_program *program);
TN_API uint32_t tn_program_region_count(const tn_program *program);
TN_API const tn_region *tn_program_regions(const tn_program *program);

/* --- occupancy ------------------------------------------------------------------------------ */

typedef struct tn_occupancy tn_occupancy;

typedef enum tn_inplace {
    TN_INPLACE_CHOOSE, /* by rule, for the lowest peak of live bytes */
    TN_INPLACE_NONE,
    TN_INPLACE_CLAIMED /* as CHOOSE, but tensors join only where `claimed` does not say otherwise */
} tn_inplace;

/* What may run side by side. A program with several streams gives the Problem their clocks, or
 * intervals where these say the same; with SAFE the graph's own order decides alone: whatever it
 * leaves open may happen together, and no plan adds a dependency between operators. */
typedef enum tn_parallel { TN_PARALLEL_SERIAL, TN_PARALLEL_SAFE } tn_parallel;

typedef struct tn_occupancy_options {
    size_t struct_size;
    uint64_t alignment; /* of every body; 0: 64 */
    tn_inplace inplace;
    bool no_views; /* views by rule get memory of their own; aliases by definition never */
    const uint64_t *claimed; /* CLAIMED: [tensor count] offsets, TN_SIZE_UNKNOWN where not given */
    /* [bank_count], as tn_problem_offer_banks takes them: bodies choose; their traffic is the bytes
     * of each tensor, once for its definition and once for each use */
    const tn_bank *banks;
    uint32_t bank_count;
    tn_parallel parallel;
    /* [operator count] scratch bytes of the kernels that will run them (tn_kernels_workspaces),
     * instead of tn_op_workspace; NULL: that. Read only during the call */
    const uint64_t *workspaces;
    bool fuse_concat; /* inputs of a concatenation lie inside its output from the start, where that
                       * raises the live bytes of no step; CLAIMED: where the claims say so */
    /* [static_count] static memory that lies in the arena: a body for each block, in this order
     * behind all others, that lives in every step; but for tensors that the program fetches
     * (FETCH), whose lives begin there, with the bytes of their block. 0: static tensors are no
     * bodies */
    const struct tn_static_block *statics;
    uint32_t static_count;
    bool statics_first; /* pinned one behind the other from the arena's start */
    /* [operator count] the same of those that run again by another type
     * (tn_kernels_workspaces_again); NULL: as the first time */
    const uint64_t *workspaces_again;
} tn_occupancy_options;
#define TN_OCCUPANCY_OPTIONS_INIT                                                                  \
    TN_INIT(tn_occupancy_options, TN_SET(struct_size, sizeof(tn_occupancy_options)))

/* A block of static memory: a parameter, constant or folded tensor, as it is or in the form that
 * the kernel of an operator wants it in. */
typedef struct tn_static_block {
    tn_tensor_id tensor;
    tn_op_id op; /* that has a form of its own; TN_NONE: for all */
    uint64_t bytes;
} tn_static_block;

/* One life of one tensor: from a definition to its last use. A tensor that is swapped or
 * recomputed has several, and so has the output of an If: one at the end of each branch that
 * writes it, since only one of them runs. Static tensors (parameters, constants, folded) have one
 * for each block that the options put into the arena, views of them none. */
typedef enum tn_share {
    TN_SHARE_OWN,
    TN_SHARE_VIEW,
    TN_SHARE_INPLACE,
    TN_SHARE_FUSED /* a concatenation: inputs that lie in it were laid there, not copied */
} tn_share;
typedef struct tn_life {
    tn_tensor_id tensor; /* TN_NONE: the workspace of `op` */
    tn_op_id op;         /* the operator that defines it; TN_NONE: PUT, a block's formal input */
    tn_body_id body;
    uint64_t delta;       /* bytes from the body's offset; with `whole` 0 */
    uint64_t bytes;       /* unaligned size of the tensor; of a view that repeats the bytes it sees
                           * (expand), of those */
    uint32_t first, last; /* live in steps [first, last). Where streams copy: until the copy is
                           * known to be over, or, if no interval can say that, in the list alone */
    tn_share share;       /* OWN: it took nobody's memory */
    tn_tensor_id source;  /* VIEW, INPLACE: the tensor whose memory it took; FUSED: the first input
                           * that lies in it; else TN_NONE */
    bool whole;           /* a view at an offset not known: it keeps all of the body alive */
    bool is_static;       /* a block of static memory; `op`: whose form it is, or TN_NONE */
} tn_life;

/* Computes lives, merges views and in-place pairs into bodies, builds the Problem (one body of
 * pieces per group; the time axis is the step). The program must outlive the occupancy.
 * Errors: E_INVALID (a tensor used before it is defined, ...), E_UNKNOWN (a size), E_NO_MEMORY.
 * Cost: O((instructions + operands) log n). */
TN_API TN_CHECKED tn_status tn_occupancy_create(const tn_program *program,
                                                const tn_occupancy_options *options,
                                                tn_occupancy **occupancy, tn_error *error);
TN_API void tn_occupancy_destroy(tn_occupancy *occupancy);
TN_API const tn_program *tn_occupancy_program(const tn_occupancy *occupancy);
TN_API const tn_problem *tn_occupancy_problem(const tn_occupancy *occupancy);
TN_API uint32_t tn_occupancy_life_count(const tn_occupancy *occupancy);
TN_API const tn_life *tn_occupancy_lives(const tn_occupancy *occupancy); /* by first, then tensor */
/* What kind of memory a life is: its tensor's; WORKSPACE without one; of static memory that is
 * computed (folded) CONSTANT. */
TN_API tn_kind tn_life_kind(const tn_graph *graph, const tn_life *life);

typedef struct tn_memory_summary {
    uint64_t total[TN_KIND_COUNT];   /* bytes of all tensors of the kind, each on its own, aligned;
                                        static memory (parameters, constants, optimizer state, sums
                                        of gradients) is outside the arena but for blocks that the
                                        options put there */
    uint64_t at_peak[TN_KIND_COUNT]; /* of the arena, at the peak of live bytes */
    uint64_t naive;     /* the arena without any reuse: every tensor that is no alias by
                           definition in memory of its own */
    uint64_t peak_live; /* the lower bound of the problem */
    uint32_t peak_step;
    uint32_t bounded; /* tensors whose size is an upper bound */
} tn_memory_summary;
TN_API tn_memory_summary tn_occupancy_summary(const tn_occupancy *occupancy);

typedef struct tn_occupant {
    uint32_t life;  /* index into tn_occupancy_lives */
    uint64_t bytes; /* that it holds; what several lives share counts once, for one of them */
} tn_occupant;
/* Who holds the arena at a step (TN_NONE: the peak's): fills holders[room] with the largest (ties
 * by life) and returns how many there are. All add up to the live bytes. Cost: O(lives log room) */
TN_API uint32_t tn_occupancy_holders(const tn_occupancy *occupancy, uint32_t step,
                                     tn_occupant *holders, uint32_t room);

/* --- what a plan costs in freedom ------------------------------------------------------------
 */

/* `after` takes bytes that `before` used last, and the graph has no path from the one to the other:
 * with this layout they can no longer run side by side, or the other way round. */
typedef struct tn_dependency {
    tn_op_id before, after;
} tn_dependency;

/* The dependencies between operators that a layout adds to those of the graph: who reads or writes
 * bytes last, and who writes the same bytes next, each pair once. An operator with blocks counts
 * as one. 0 with TN_PARALLEL_SAFE.
 *
 * list   out, [count] by before, then after; release with tn_dependencies_release. May be NULL
 *
 * Errors: E_INVALID (a layout of another problem), E_UNSUPPORTED (too many operators are
 * independent), E_NO_MEMORY. Cost: O(instructions chains + lives log lives + pairs found). */
TN_API TN_CHECKED tn_status tn_plan_dependencies(const tn_occupancy *occupancy,
                                                 const tn_layout *layout, tn_dependency **list,
                                                 uint64_t *count, tn_error *error);
TN_API void tn_dependencies_release(tn_dependency *list);

/* --- graph to plan in one call ------------------------------------------------------------------
 */

/* Program, occupancy and layout of the candidate orders that options->order stands for ("memory":
 * it and the file's; "auto": all), and of these the smallest arena. So no order that is asked for
 * ever costs more than the file's. An order whose lower bound is not below the best arena is not
 * planned. Options may be NULL; `memory` of the program's options is `occupancy_options`.
 * The caller destroys program and occupancy and releases the layout.
 * Errors: those of the three; E_INFEASIBLE and E_STOPPED only when it is so for every candidate. */
TN_API TN_CHECKED tn_status tn_program_plan(const tn_graph *graph,
                                            const tn_program_options *options,
                                            const tn_occupancy_options *occupancy_options,
                                            const tn_plan_options *plan_options,
                                            tn_program **program, tn_occupancy **occupancy,
                                            tn_layout *layout, tn_error *error);

/* --- tags: the allocation told step by step --------------------------------------------------- */

/* What happens to one tensor at one step. X(name, text). */
/* clang-format off */
#define TN_TAG_TABLE(X)                                                                        \
    X(OUTSIDE, "outside")  /* a graph input: the caller's memory, no tag */                    \
    X(NEW, "new")          /* gets a tag that nobody had: none is free */                      \
    X(TAKEN, "taken")      /* takes the tag that has been free for longest */                  \
    X(VIEW, "view")        /* lies in the memory of `other` */                                 \
    X(INPLACE, "inplace")  /* is written over `other`, which is read for the last time */      \
    X(KEPT, "kept")        /* is read here, and will be again: `uses` times */                 \
    X(FREED, "freed")      /* its life ends here: the tag goes to the queue of free ones */
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
    tn_tensor_id other;  /* VIEW, INPLACE: whose memory; NEW: an input that still lives; TN_NONE */
    uint32_t uses;       /* KEPT: of `tensor`; NEW: of `other`: how often it will yet be read */
    uint64_t bytes;      /* of the tag by now: as much as the largest that had it */
} tn_tag_event;

typedef struct tn_tag_summary {
    uint32_t tag_count;
    uint64_t bytes; /* of all tags: they lie end to end */
} tn_tag_summary;

/* Serves the program as a run-time allocator with use counts and a queue of free tags would, and
 * tells every event in order: first what the step defines, then what it reads and ends.
 *
 * event     called from this thread; false ends the call with E_STOPPED
 * summary   out, may be NULL
 * Views and in-place are those of the occupancy. Errors: E_STOPPED, E_NO_MEMORY.
 * Cost: O((lives + operands) log n). Source: MXNet, "Optimizing memory consumption in deep
 * learning" (2015), its allocation pass. */
TN_API TN_CHECKED tn_status tn_occupancy_tags(const tn_occupancy *occupancy,
                                              bool (*event)(void *self, const tn_tag_event *event),
                                              void *self, tn_tag_summary *summary, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
