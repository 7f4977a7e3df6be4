/* rewrite.h - changes graphs and model files so that they need less memory or time: pruning,
 * fusion, tiles, and plans for TensorFlow Lite Micro inside .tflite files.
 */
#ifndef TENURE_REWRITE_H
#define TENURE_REWRITE_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/rewrite.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/graph.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- prune ----------------------------------------------------------------------------------- */

/* Magnitude pruning: sets the smallest weights to zero, and reports the error.
 *
 *     // ... graph: from tn_graph_load; read: tn_contents_read, as in tn_engine_options
 *     tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
 *     options.share = 0.9; // of all weights of convolutions and products
 *     options.read = read;
 *     if (tn_prune(graph, &options, &pruning, &error)) // chosen, with the error of each weight
 *         return 2;
 *     rewrite.pruning = &pruning; // of tn_rewrite_options: applied to the data, stored sparse
 *
 * Magnitudes are those of the weights in the file, before batch normalisations are folded into
 * them. Among equal magnitudes the first elements are kept: those of earlier operators, then
 * earlier elements in the order in which the operator reads them.
 */

typedef enum tn_prune_scope {
    TN_PRUNE_GLOBAL, /* one threshold for all weights, which needs their data */
    TN_PRUNE_TENSOR  /* an equal share of each weight */
} tn_prune_scope;

typedef struct tn_prune_options {
    size_t struct_size;
    const tn_context *context;
    /* share of the elements that become zero, in [0, 1): rounded to whole elements, and never all
     * elements. 0: nothing is pruned */
    double share;
    tn_prune_scope scope;
    /* Provides the data of weights, like `read` of tn_engine_options. NULL: the data is not known;
     * then scope must be TENSOR, errors are not known, and elements that are already zero are
     * stored too. */
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
} tn_prune_options;
#define TN_PRUNE_OPTIONS_INIT                                                                      \
    TN_INIT(tn_prune_options, TN_SET(struct_size, sizeof(tn_prune_options)))

/* A pruned weight. */
typedef struct tn_pruned {
    tn_op_id op; /* the operator that reads the weight as its second input */
    uint64_t elements;
    uint64_t kept; /* number of elements that are kept, without those that were zero already */
    /* sums of squares of all elements and of the pruned ones; NaN: not known. sqrt(lost / norm) is
     * the relative error */
    double norm, lost;
    uint64_t bytes;  /* bytes of the weight in float32: 4 * elements */
    uint64_t stored; /* bytes of the weight as it is stored; 0 before tn_pruning_measure */
    /* bits per position in the sparse form: 1, 8, 16; 0: the weight is stored dense */
    uint32_t bits;
} tn_pruned;

typedef struct tn_pruning {
    tn_pruned *weights; /* the pruned weights, in the order of their operators */
    uint32_t count;
    tn_context context; /* context that allocated `weights` */
    size_t room;        /* capacity of `weights` */
} tn_pruning;

/* Chooses the elements to prune. Only weights of Conv, Gemm and MatMul are pruned: static float32
 * weights of the file or graph (possibly through Transpose, Reshape and Identity), with two
 * dimensions for Gemm and MatMul, and without other readers. With share 0 the result is empty.
 *
 * pruning  out, release with tn_pruning_release; it does not refer to the graph
 *
 * Errors: E_INVALID (a share outside [0, 1), no data for the global scope, a weight with a value
 * that is not a number; the message names the tensor), those of `read`, E_NO_MEMORY. Cost: reads
 * the weights once, or three times with the global scope; memory for the largest weight. */
TN_API TN_CHECKED tn_status tn_prune(const tn_graph *graph, const tn_prune_options *options,
                                     tn_pruning *pruning, tn_error *error);

/* Sets `stored` and `bits` of each pruned weight from the graph that tn_graph_rewrite made with the
 * pruning. A weight is stored dense if its sparse form is not smaller, or if its operator does not
 * support the sparse form. */
TN_API void tn_pruning_measure(tn_pruning *pruning, const tn_graph *rewritten);
/* Releases a pruning; NULL or a zeroed one has no effect. */
TN_API void tn_pruning_release(tn_pruning *pruning);

/* --- rewrite --------------------------------------------------------------------------------- */

/* Rewrites a graph for execution: folds, fuses, prunes, quantises weights.
 *
 *     // ... graph: from tn_graph_load
 *     if (tn_graph_rewrite(graph, NULL, &better, &error)) // fewer, larger operators
 *         return 2;
 *
 * Threads: one thread at a time may use a graph.
 */

/* The purpose of a rewritten graph. */
typedef enum tn_rewrite_use {
    TN_REWRITE_TO_RUN, /* the graph will be run without further changes */
    /* the graph is a model for tn_train: every operator that a rewrite makes has a gradient */
    TN_REWRITE_TO_TRAIN,
    /* the graph comes from tn_train: tensors keep their ids, tensors that are no longer computed
     * have 0 bytes, and trained values are not folded */
    TN_REWRITE_TRAINED
} tn_rewrite_use;

typedef struct tn_rewrite_options {
    size_t struct_size;
    const tn_context *context;
    bool no_fuse;    /* true: do not fuse operators; then tensors keep their ids, too */
    bool no_formats; /* true: keep the layout of the file for activations (NCHW) */
    /* names of rewrites to omit, separated by commas; NULL: no rewrite is omitted */
    const char *without;
    tn_rewrite_use use;
    /* INT8, with TN_REWRITE_TO_RUN: weights of convolutions and products are stored as 8-bit
     * numbers with a scale per channel, and converted to float32 right before each use. Static
     * memory falls to about a quarter; results change. UNDEFINED: weights are unchanged. The member
     * has effect even with no_fuse. */
    tn_dtype weights_dtype;
    /* The result of tn_prune for this graph, with TN_REWRITE_TO_RUN, or NULL: the weights in it are
     * pruned when the graph is prepared, and stored sparse if that is smaller, and operators
     * compute from the sparse form. Results change. The member has effect even with no_fuse;
     * weights_dtype applies to all other weights. */
    const tn_pruning *pruning;
} tn_rewrite_options;
#define TN_REWRITE_OPTIONS_INIT                                                                    \
    TN_INIT(tn_rewrite_options, TN_SET(struct_size, sizeof(tn_rewrite_options)))

/* Makes an equivalent graph for the kernels at hand: batch normalisations are folded into weights
 * of convolutions, activations and additions are fused into the operator before them, GELU and
 * layer normalisation become one operator, and convolutions work channels-last. Names, order and
 * shapes of inputs and outputs are unchanged. The result is inferred; destroy it with
 * tn_graph_destroy. Its payloads still refer to the file of `graph`.
 * Errors: E_UNKNOWN (a name in `without`), E_INVALID (a pruning of another graph), E_UNSUPPORTED
 * (an option that changes weights without TN_REWRITE_TO_RUN), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_graph_rewrite(const tn_graph *graph,
                                             const tn_rewrite_options *options,
                                             tn_graph **rewritten, tn_error *error);
/* The rewrites, in the order in which they are applied. */
TN_API uint32_t tn_rewrite_count(void);
TN_API const char *tn_rewrite_name(uint32_t index);
TN_API const char *tn_rewrite_summary(uint32_t index);

/* --- split ----------------------------------------------------------------------------------- */

/* Splits operators into tiles, so that tensors between them never exist as a whole.
 *
 *     // ... graph: from tn_graph_load, then tn_graph_rewrite with no_formats
 *     tn_split_region bands = {.first = 0, .last = 11, .axes = {2}, .parts = {7, 1}};
 *     if (tn_graph_split(graph, &bands, 1, NULL, &split, &error)) // seven bands of rows
 *         return 2;
 *
 * A region is a run of operators in graph order, including branches, residuals and concatenations.
 * The result is computed tile by tile: for each tile, every operator computes only the elements
 * that later operators need. Windows of neighbouring tiles overlap (a halo); the halo is recomputed
 * by each tile, or kept from the tile before. Tensors that cannot be split (inputs of an operator
 * that reduces along the axis, operands that are needed whole) are computed whole before the first
 * tile.
 *
 * Results are the same to the bit if the kernels sum each element in an order that does not depend
 * on the extents. oneDNN may choose another order for other extents; results then differ by float32
 * rounding.
 * Units: bytes, operations (multiply-add = 2).
 * Threads: graphs are only read.
 */

#define TN_SPLIT_AXES 2u

typedef struct tn_split_region {
    /* the first and the last operator, both of block 0; the region includes the operators between
     * them */
    tn_op_id first, last;
    uint32_t axes[TN_SPLIT_AXES];  /* axes of output 0 of `last` along which the region is split */
    uint32_t parts[TN_SPLIT_AXES]; /* number of tiles along each axis; 0 and 1: not split */
    /* true: halos are kept from tile to tile (one axis only); otherwise they are recomputed */
    bool keep;
    /* true: slices of constants become constants of their own, so that each can be streamed
     * separately (search.h); otherwise the constant stays whole and is sliced in a run */
    bool slices;
} tn_split_region;

/* Makes a graph in which the given regions run as tiles. Regions must not overlap. Tensors with
 * readers outside a region keep names and data. New operators take the region's place, tile by
 * tile. All tiles share the weights. The result is inferred.
 *
 * graph    inferred; payloads of the result refer to the file of `graph`
 * regions  [count]
 * context  NULL: that of the graph
 *
 * Errors: E_INVALID (a region that cannot be split; the message names the operator: the axis is not
 * independent in the last operator, more tiles than elements, a result with readers before it is
 * complete), those of tn_graph_infer, E_NO_MEMORY.
 * Cost: O(operators x tiles). Source: Alwani et al., "Fused-layer CNN accelerators" (MICRO 2016);
 * Lin et al., "MCUNetV2" (NeurIPS 2021); Zhao et al., "AutoChunk" (ICLR 2024). */
TN_API TN_CHECKED tn_status tn_graph_split(const tn_graph *graph, const tn_split_region *regions,
                                           uint32_t count, const tn_context *context,
                                           tn_graph **split, tn_error *error);

/* A tensor that is recomputed right before its late readers instead of being kept. A place is the
 * position of an operator of block 0 in graph order. */
typedef struct tn_split_again {
    tn_tensor_id tensor;
    uint32_t from;   /* place of the first operator that is recomputed */
    uint32_t before; /* place of the first reader of the recomputed tensor */
} tn_split_again;

/* Makes a graph in which these tensors are recomputed, inferred. `again[0]` refers to `graph`, each
 * later entry to the graph after the entry before it. The caller destroys the result, which may
 * outlive `graph`.
 *
 * again    [count], count above 0
 *
 * Errors: E_INVALID (an id or a place that is not in the graph, operators with side effects), those
 * of tn_graph_infer, E_NO_MEMORY. Cost: O(count (operators + operands)). */
TN_API TN_CHECKED tn_status tn_graph_split_again(const tn_graph *graph, const tn_split_again *again,
                                                 uint32_t count, tn_graph **made, tn_error *error);

/* --- the search for regions --------------------------------------------------------------- */

/* The candidate regions of a graph with their bytes and work. They are computed once and searched
 * for many budgets. */
typedef struct tn_split_search tn_split_search;

typedef struct tn_split_options {
    size_t struct_size;
    const tn_context *context; /* services of the caller; NULL: the context of the graph */
    /* [operators] scratch bytes of the operators' kernels; NULL: those of the operators' rules.
     * Read only during the call */
    const uint64_t *workspaces;
    /* true: slices and concatenations copy, for run times that cannot place tiles directly into a
     * result */
    bool copies;
    uint32_t byte_flops; /* number of operations in the time that one byte moves; 0: 8 */
    /* [operators] persistent bytes of each copy of an operator, in addition to live bytes; NULL: no
     * such bytes. Read only during the call */
    const uint64_t *kept;
    uint64_t move_kept; /* persistent bytes of an operator that only moves elements */
    /* true: the search may also recompute, as tiles, tensors with late readers (a skip connection);
     * not with `copies` or `kept` */
    bool again;
    uint64_t work_limit; /* limit of the number of regions to price; 0: no limit; deterministic */
    /* limit of the wall time; 0: no limit. With it the search can only end earlier */
    double timeout_s;
} tn_split_options;
#define TN_SPLIT_OPTIONS_INIT                                                                      \
    TN_INIT(tn_split_options, TN_SET(struct_size, sizeof(tn_split_options)))

/* A choice of regions. Its numbers are predictions from the graph; a plan may differ. */
typedef struct tn_split_choice {
    /* the graph that the regions refer to: the graph that was searched, or a graph owned by the
     * search in which tensors are recomputed */
    const tn_graph *graph;
    tn_split_region *regions; /* [count] the regions, in the order of `graph` */
    uint32_t count;
    /* [again_count] the tensors that are recomputed; owned by the search */
    const tn_split_again *again;
    uint32_t again_count;
    uint64_t live_bytes; /* live bytes at the peak step */
    uint64_t extra;      /* number of operations in addition to those of the unsplit graph */
    uint64_t moved; /* bytes copied (slices, kept halos, concatenations), and bytes that tiles read
                     * again (weights, keys and values of attention) if a tile with all its inputs
                     * exceeds a cache of 1 MiB */
    double
        work; /* extra work as a share of the graph's operations: `extra` + byte_flops * `moved` */
    uint64_t kept; /* persistent bytes of the additional operators */
} tn_split_choice;

/* Finds the candidate regions. Errors: E_NO_MEMORY, E_STOPPED (a limit, or `progress`, which is
 * called per operator, ended the search of the graph itself; graphs with recomputed tensors are
 * left out if a limit ends their search). Cost: for each operator, axis and number of tiles
 * O(80 operators x tiles); with `again` for at most 8 graphs. */
TN_API TN_CHECKED tn_status tn_split_search_create(const tn_graph *graph,
                                                   const tn_split_options *options,
                                                   tn_split_search **search, tn_error *error);
/* Destroys a search; NULL has no effect. */
TN_API void tn_split_search_destroy(tn_split_search *search);
/* Returns the live bytes of the unsplit graph at the peak step. */
TN_API uint64_t tn_split_whole(const tn_split_search *search);
/* Returns the number of regions that were priced, which is the unit of `work_limit`. Deterministic
 * without `timeout_s`. */
TN_API uint64_t tn_split_work(const tn_split_search *search);
/* Finds the regions of least work that keep live bytes within a budget. A larger budget never costs
 * more work.
 *
 * choice  out; release with tn_split_choice_release
 *
 * Errors: E_EXHAUSTED (no regions suffice; the message names a sufficient budget), E_NO_MEMORY.
 * Cost: O(regions). */
TN_API TN_CHECKED tn_status tn_split_within(const tn_split_search *search, uint64_t budget,
                                            tn_split_choice *choice, tn_error *error);
/* Finds the regions of least work that keep live bytes within a budget, like tn_split_within, but
 * each persistent byte counts as `weight` operations of work. */
TN_API TN_CHECKED tn_status tn_split_weighing(const tn_split_search *search, uint64_t budget,
                                              double weight, tn_split_choice *choice,
                                              tn_error *error);
/* Finds the fewest live bytes within a work budget: at most `share` of the graph's work as extra
 * work, as in tn_split_choice.work. A larger share never needs more bytes. Errors: E_NO_MEMORY.
 * Cost: O(regions log). */
TN_API TN_CHECKED tn_status tn_split_least(const tn_split_search *search, double share,
                                           tn_split_choice *choice, tn_error *error);
TN_API void tn_split_choice_release(const tn_split_search *search, tn_split_choice *choice);

/* Returns the work of one run of a graph: the sum of tn_op_cost over the operators that run.
 * Operators of unknown cost count as 0. Cost: O(operators). */
TN_API tn_cost tn_graph_work(const tn_graph *graph);

/* --- plans and arenas of TensorFlow Lite Micro ----------------------------------------------- */

/* Reads the plan inside the model at `path`. `graph` was loaded from that model with the same
 * `options`.
 *
 * offsets  out, [tensors of graph], bytes from the start of the arena; TN_SIZE_UNKNOWN if the plan
 *          leaves the tensor to the runtime, as it does for constants
 * Errors: E_UNKNOWN (the model has no plan), E_INVALID (a plan with another number of tensors or
 * with a negative offset; `graph` is of another model), and those of tn_graph_load. */
TN_API TN_CHECKED tn_status tn_tflite_read_plan(const char *path, const tn_import_options *options,
                                                const tn_graph *graph, uint64_t *offsets,
                                                tn_error *error);

/* Writes the model at `path` to `output` with this plan. The bytes of the model stay unchanged
 * after a new head; a plan that the model had is replaced. The file is written completely or not at
 * all.
 *
 * offsets  [tensors of graph], multiples of 16; TN_SIZE_UNKNOWN leaves the tensor to the runtime
 * Errors: E_UNSUPPORTED (an offset that the format cannot express: not a multiple of 16, above 2^31
 * - 1, or two offsets for one tensor in a subgraph that several operators run; models above 2 GiB
 * or of a later schema), and those of tn_tflite_read_plan. */
TN_API TN_CHECKED tn_status tn_tflite_write_plan(const char *path, const tn_import_options *options,
                                                 const tn_graph *graph, const uint64_t *offsets,
                                                 const char *output, tn_error *error);

/* --- the whole arena of TensorFlow Lite Micro --- */

/* The ABI (sizes of pointers and enums) and the variants of the kernel libraries. */
typedef enum tn_micro_target {
    /* 32 bits, arm-none-eabi, enums of one byte, with DSP instructions: m4, m7, m33, m35p */
    TN_MICRO_CORTEX_M,
    TN_MICRO_CORTEX_M_HELIUM, /* like TN_MICRO_CORTEX_M, with vector instructions: m52, m55, m85 */
    TN_MICRO_X86_64,
    /* like TN_MICRO_CORTEX_M, without DSP instructions: m0, m0+, m3, m23 */
    TN_MICRO_CORTEX_M_SCALAR,
    TN_MICRO_ESP32, /* 32 bits, enums of 4 bytes: ESP32, S2, C2, C3, C5, C6, H2 */
    TN_MICRO_ESP32_S3,
    TN_MICRO_ESP32_P4,
    TN_MICRO_HIFI4 /* Xtensa HiFi 3 and HiFi 4: 32 bits, enums of 4 bytes */
} tn_micro_target;

/* The kernels that replace reference kernels. TN_MICRO_ANY: every library that runs on the target
 * is possible, and so are the reference kernels alone. */
typedef enum tn_micro_kernels {
    TN_MICRO_REFERENCE,
    TN_MICRO_CMSIS_NN, /* CMSIS-NN, which runs on Cortex-M and x86-64 */
    TN_MICRO_ESP_NN,   /* ESP32 */
    TN_MICRO_HIFI_NN,  /* Cadence's NN library for HiFi, as published in May 2024 */
    TN_MICRO_ANY
} tn_micro_kernels;

/* The compiler, on which the sizes of CMSIS-NN depend. */
typedef enum tn_micro_compiler {
    TN_MICRO_COMPILER_ANY,
    TN_MICRO_GCC, /* GCC or Clang */
    TN_MICRO_ARMCLANG
} tn_micro_compiler;

typedef struct tn_micro_options {
    size_t struct_size;
    tn_micro_target target;
    tn_micro_kernels kernels;
    /* For sizes that depend on a version, a compiler or an unknown kernel: if true, the largest
     * likely size counts, otherwise the smallest. */
    bool most;
    /* version of the kernel library, such as "1.2.1"; NULL: every known version is possible */
    const char *version;
    /* revision of TensorFlow Lite Micro, such as 20250131; 0: every revision is possible */
    uint32_t runtime;
    tn_micro_compiler compiler; /* compiler of CMSIS-NN */
} tn_micro_options;
#define TN_MICRO_OPTIONS_INIT                                                                      \
    TN_INIT(tn_micro_options, TN_SET(struct_size, sizeof(tn_micro_options)))

/* The versions of a library at which the sizes on a target changed, the oldest first. The index
 * must be less than the count. The count is 0 if the library does not run on the target. */
TN_API uint32_t tn_micro_version_count(tn_micro_target target, tn_micro_kernels kernels);
TN_API const char *tn_micro_version(tn_micro_target target, tn_micro_kernels kernels,
                                    uint32_t index);

/* The categories of memory in the tail of the arena, in the form X(name, text). */
/* clang-format off */
#define TN_MICRO_PART_TABLE(X)                                                                     \
    X(ALLOCATORS, "allocators")        /* the runtime's allocators and its planner */              \
    X(TENSORS, "tensor structures")    /* structures of the tensors in the file, of subgraphs */   \
    X(NODES, "operator structures")                                                                \
    X(OPTIONS, "operator options")                                                                 \
    X(KERNELS, "kernels' own data")    /* data of kernels: multipliers per channel, tables */      \
    X(HANDLES, "scratch handles")                                                                  \
    X(VARIABLES, "variable tensors")   /* variables that no plan places; resource variables */     \
    X(IO, "input and output structures")
/* clang-format on */
typedef enum tn_micro_part {
#define TN_X(name, text) TN_MICRO_PART_##name,
    TN_MICRO_PART_TABLE(TN_X)
#undef TN_X
        TN_MICRO_PART_COUNT
} tn_micro_part;
TN_API const char *tn_micro_part_name(tn_micro_part part);

/* The arena of TensorFlow Lite Micro, in bytes; it starts at a multiple of 16. */
typedef struct tn_micro_arena {
    uint64_t head; /* bytes of tensors and scratch, each rounded up to 16 */
    uint64_t tail; /* bytes of allocations that are kept: all categories and their alignment */
    uint64_t part[TN_MICRO_PART_COUNT];
    uint64_t tail_alignment;
    /* The most temporary memory that AllocateTensors() needs at once below the present end of the
     * tail. It uses the space of the head, because the head is laid out afterwards. */
    uint64_t temporary;
    uint64_t total; /* bytes of the smallest arena in which AllocateTensors() succeeds */
    /* head + tail, the number that arena_used_bytes() returns; `total` can be larger */
    uint64_t used;
    uint64_t planned;     /* number of buffers in the head */
    uint64_t scratch;     /* number of buffers in the head that are scratch memory */
    uint32_t unknown_ops; /* number of operators with unknown kernels, custom operators included */
    /* The kernels for which `total` was computed, and their version ("" for the reference kernels).
     * If several libraries or versions are possible, every other field is the largest (or smallest)
     * over all of them. */
    const char *kernels, *version;
} tn_micro_arena;

/* Computes the arena in which the runtime runs the model at `path`. `graph` was loaded from that
 * model with the same `import` options.
 *
 * offsets  [tensors of graph], as in tn_tflite_write_plan; NULL: the plan inside the model or, if
 *          it has no plan, the layout of the runtime's own planner
 * placed   out, [tensors of graph], may be NULL: offset of each tensor in the head; TN_SIZE_UNKNOWN
 *          if it is not in the head
 *
 * docs/microcontrollers.md lists the sizes that are exact and the sizes that are estimates.
 * Errors: E_UNSUPPORTED (a size that the runtime cannot know, more than 20000 buffers, kernels that
 * do not run on the target, an unknown version), and those of tn_tflite_read_plan except E_UNKNOWN.
 * Cost: O(file + buffers^2), as in the runtime. */
TN_API TN_CHECKED tn_status tn_micro_arena_of(const char *path, const tn_import_options *import,
                                              const tn_graph *graph, const uint64_t *offsets,
                                              const tn_micro_options *options,
                                              tn_micro_arena *arena, uint64_t *placed,
                                              tn_error *error);

/* Computes the scratch bytes of each operator of `graph` (a .tflite model) with these kernels, for
 * `workspaces` of tn_occupancy_options. Every request is rounded up to 16.
 *
 * workspaces  out, [operators of graph] */
TN_API TN_CHECKED tn_status tn_micro_workspaces(const char *path, const tn_import_options *import,
                                                const tn_graph *graph,
                                                const tn_micro_options *options,
                                                uint64_t *workspaces, tn_error *error);

/* --- export ---------------------------------------------------------------------------------- */

/* Splits a model into tiles (rewrite.h) and writes it as a file that unmodified runtimes
 * execute in less memory.
 *
 *     tn_export_options options = TN_EXPORT_OPTIONS_INIT;
 *     tn_export_report report;
 *     tn_error error;
 *     options.budget = 50 * 1024;
 *     if (tn_split_file("examples/models/wake_words.tflite", NULL, &options, &report, &error))
 *         return fprintf(stderr, "%s\n", error.message), 2;
 *     printf("%llu bytes instead of %llu\n", (unsigned long long)report.parts,
 *            (unsigned long long)report.whole);
 *
 * The new file has ordinary operators: slices, padding, convolutions, concatenations. They need
 * memory for their results, also where they only copy. So each candidate is written in memory and
 * measured as it would be in the memory of that runtime, before one is chosen. All tiles (parts in
 * the identifiers) share the weights; inputs, outputs, names, quantisation and metadata are
 * unchanged. Integer results are the same bit by bit. Float results are the same if the runtime
 * sums each element in an order that does not depend on the extents.
 *
 * Bytes for .tflite are the whole arena of TensorFlow Lite Micro (tn_micro_arena.total), including
 * its structures per operator and tensor, or only the head. Bytes for .onnx are activations in the
 * file's order, laid out by Tenure's planner, without weights.
 * Threads: one thread per call.
 */

typedef struct tn_export_options {
    size_t struct_size;
    /* services of the caller; `progress` can stop the search, and then the best result so far is
     * written */
    const tn_context *context;
    /* Budget in bytes. The candidate with the least predicted work within the budget is chosen,
     * among at most 100 that are measured. 0: no budget. */
    uint64_t budget;
    /* Work budget: limit of the additional work as a share of the model's work. Without `budget`,
     * the smallest candidate within the work budget is chosen. */
    double share;
    uint32_t byte_flops;    /* number of operations in the time of copying one byte; 0: 2 */
    tn_micro_options micro; /* for .tflite files: the runtime for which the arena is counted */
    bool plan; /* true: for .tflite, plan the arena, and write the plan into the file */
    /* If true, for .tflite: count only tensors and scratch, for applications that give the kept
     * data an arena of its own (the runtime's MicroAllocator accepts two). */
    bool head;
    /* For .onnx, as in tn_import_options: tiles have fixed sizes, which replace the symbols in the
     * written file. */
    const tn_dim *dims;                 /* [dim_count] values for symbolic dimensions */
    const tn_input_shape *input_shapes; /* [input_shape_count] shapes for inputs */
    uint32_t dim_count, input_shape_count;
    /* Limit of the regions that are priced, and of the operators of files that are measured; 0: no
     * limit. Each plan makes as many placements, but at least 2,000 and at most 200,000.
     * Deterministic. At the limit the best result so far is written. */
    uint64_t work_limit;
} tn_export_options;
#define TN_EXPORT_OPTIONS_INIT                                                                     \
    TN_INIT(tn_export_options, TN_SET(struct_size, sizeof(tn_export_options))                      \
                                   TN_SET(micro.struct_size, sizeof(tn_micro_options)))

#define TN_EXPORT_BINDING 3u
typedef struct tn_export_report {
    uint64_t whole, parts; /* bytes of memory that the original and the written model need */
    /* for .tflite files: the arena of the original model and that of the written model */
    tn_micro_arena whole_arena, arena;
    /* number of operations of the original and of the written model; a multiply-add counts 2 */
    uint64_t whole_flops, flops;
    uint64_t moved; /* bytes written by added slices, padding and concatenations */
    /* Additional work as a share of the model's work: operations, and `byte_flops` for each byte of
     * `moved`. Not finite if the model has no operations. */
    double work;
    uint32_t regions; /* number of regions that are split; 0: the model fits without a change */
    uint32_t whole_ops, ops;
    uint64_t whole_bytes, file_bytes; /* bytes of the original and of the written file */
    uint32_t tried;                   /* number of candidates that were written and measured */
    /* descriptions of the largest holders at the peak of the result */
    char binding[TN_EXPORT_BINDING][160];
    bool stopped; /* true: a limit or the caller ended the search, so a smaller model may exist */
} tn_export_report;

/* Reads a .tflite or .onnx model, splits it and writes the result. It is written next to `output`
 * first and then renamed, so that the file is complete or does not exist.
 *
 * output  NULL: only measure
 * report  out; on E_EXHAUSTED it has the smallest result that was found
 * Errors: E_EXHAUSTED (no candidate is within the budget; the message states the smallest),
 * E_INVALID (neither budget nor share; output is the input), E_UNKNOWN (a symbol without a value),
 * E_UNSUPPORTED (another format, sizes for a .tflite model, a file that cannot be extended, or
 * tiles that cannot be written), E_STOPPED, E_IO, those of tn_graph_load.
 * Cost: that of tn_split_search_create, and at most 205 files in memory, one at a time: the model,
 * 100 candidates, 100 that cannot be written, and 4 for the smallest. */
TN_API TN_CHECKED tn_status tn_split_file(const char *path, const char *output,
                                          const tn_export_options *options,
                                          tn_export_report *report, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
