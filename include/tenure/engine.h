/* engine.h - a Program run on a device, every byte at its planned place.
 *
 *     // ... graph: of tn_graph_load; options.read: weights, by tn_contents_read
 *     tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
 *     if (tn_engine_rewrite(graph, NULL, &better, &error) ||  // fewer, larger operators; optional
 *         tn_kernels_create(better, NULL, &kernels, &error))  // who runs each, and its scratch
 *         return 2;
 *     memory.workspaces = tn_kernels_workspaces(kernels);     // which is part of the plan
 *     if (tn_program_plan(better, NULL, &memory, NULL, &program, &occupancy, &layout, &error) ||
 *         tn_engine_create(occupancy, &layout, kernels, device, &options, &engine, &error) ||
 *         tn_engine_run(engine, inputs, 1, outputs, 1, &error)) // again and again; no allocation
 *         return 2;
 *
 * session.h is all of that in one call (examples/run_model.c).
 * The arena is one block of exactly layout.peak bytes, static memory (parameters, constants and
 * what is computed from them, in the form that kernels want) a second one.
 * Units: bytes, seconds. Threads: an engine is used by one thread at a time; different engines do
 * not meet.
 */
#ifndef TENURE_ENGINE_H
#define TENURE_ENGINE_H

#include <tenure/array.h>
#include <tenure/device.h>
#include <tenure/graph.h>
#include <tenure/plan.h>
#include <tenure/program.h>
#include <tenure/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- graph to graph ----------------------------------------------------------------------------
 */

/* What a rewritten graph is for. */
typedef enum tn_rewrite_use {
    TN_REWRITE_TO_RUN,   /* it runs as it is */
    TN_REWRITE_TO_TRAIN, /* a model for tn_train: only what has a gradient is made */
    TN_REWRITE_TRAINED   /* of tn_train: tensors keep their ids, those that are computed no more
                          * have no bytes, and nothing that training changes is taken as known */
} tn_rewrite_use;

typedef struct tn_rewrite_options {
    size_t struct_size;
    const tn_context *context;
    bool no_fuse;        /* keep the operators as they are; then tensors keep their ids, too */
    bool no_formats;     /* keep activations in the order of the file (NCHW) */
    const char *without; /* NULL, or names of rewrites to leave out, with commas between */
    tn_rewrite_use use;
    /* INT8, with TN_REWRITE_TO_RUN: weights of convolutions and products are kept as 8-bit numbers
     * with a scale per channel, and made float32 again right before each use. Static memory falls
     * to about a quarter; results change. UNDEFINED: as they are. Whatever no_fuse says. */
    tn_dtype weights_dtype;
} tn_rewrite_options;
#define TN_REWRITE_OPTIONS_INIT                                                                    \
    { .struct_size = sizeof(tn_rewrite_options) }

/* An equal graph for the kernels that there are: batch normalisation folded into the weights of
 * convolutions, activations and additions into the operator before them, GELU and layer
 * normalisation recognised, channels last where convolutions work on them. Names, order and shapes
 * of inputs and outputs stay. The result is inferred; destroy it with tn_graph_destroy. Payloads
 * still mean the file that `graph` was read from. Errors: E_UNKNOWN (a name in `without`),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_engine_rewrite(const tn_graph *graph,
                                              const tn_rewrite_options *options,
                                              tn_graph **rewritten, tn_error *error);
/* The registry, in the order in which they are applied. */
TN_API uint32_t tn_rewrite_count(void);
TN_API const char *tn_rewrite_name(uint32_t index);
TN_API const char *tn_rewrite_summary(uint32_t index);

/* --- computing again instead of keeping ---------------------------------------------------------
 */

typedef struct tn_recompute_options {
    size_t struct_size;
    const tn_context *context;
    /* At most so much more work, as a share of that of one run: 0.1 is a tenth. Work of an operator
     * is its arithmetic or its traffic, whichever takes longer. 0: nothing is computed again */
    double share;
    bool cheap; /* only operators that move bytes: normalisations, activations, concatenations, not
                 * products and convolutions */
    const char *only;        /* NULL, or types of operators with commas between: these alone */
    uint32_t flops_per_byte; /* operations that take as long as moving one byte; 0 = 8 */
    const struct tn_occupancy_options *memory; /* what bytes are counted with; NULL: defaults */
} tn_recompute_options;
#define TN_RECOMPUTE_OPTIONS_INIT                                                                  \
    { .struct_size = sizeof(tn_recompute_options) }

typedef struct tn_recompute_report {
    uint32_t operators;     /* that run a second time */
    double share;           /* of the work of one run, that is added */
    uint64_t flops;         /* that are added */
    uint64_t before, after; /* live bytes at the worst step, in the order of the list */
} tn_recompute_report;

/* A graph whose results are the same bit by bit and whose peak is lower, as some tensors are
 * dropped after their last early use and computed again right before the next: in a training step
 * what the forward pass leaves for the backward pass (train.h). Operators are repeated as they are,
 * so this comes last, behind tn_engine_rewrite: tensors and operators of `graph` keep their ids. An
 * operator runs at most twice. When no choice lowers the peak the graph is a plain copy.
 *
 * report   out, may be NULL
 * Errors: E_INVALID (a share that is negative or no number), E_UNKNOWN (a size), E_NO_MEMORY.
 * Cost: O((operators + operands) log operators), some twenty times. */
TN_API TN_CHECKED tn_status tn_engine_recompute(const tn_graph *graph,
                                                const tn_recompute_options *options,
                                                tn_graph **recomputed, tn_recompute_report *report,
                                                tn_error *error);

/* --- kernels ------------------------------------------------------------------------------------
 */

typedef struct tn_kernels tn_kernels;

typedef struct tn_kernels_options {
    size_t struct_size;
    const tn_context *context; /* NULL or outlives the kernels */
    uint32_t threads;          /* of oneDNN; 0 = 1. Kernels are chosen and sized for it */
    bool plain;                /* our own loops alone, without oneDNN */
} tn_kernels_options;
#define TN_KERNELS_OPTIONS_INIT                                                                    \
    { .struct_size = sizeof(tn_kernels_options) }

/* Chooses and prepares a kernel for every operator that will run, the folded ones too.
 * The graph must outlive the kernels. Errors: E_UNSUPPORTED (an operator, or its element types,
 * that no kernel has, with its node), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_kernels_create(const tn_graph *graph,
                                              const tn_kernels_options *options,
                                              tn_kernels **kernels, tn_error *error);
TN_API void tn_kernels_destroy(tn_kernels *kernels); /* NULL is fine; after the engines */
/* [operator count] scratch bytes, for tn_occupancy_options.workspaces; lives with the kernels. */
TN_API const uint64_t *tn_kernels_workspaces(const tn_kernels *kernels);
/* The family of the kernel that runs an operator ("conv", "dnnl_conv"); "" for none. */
TN_API const char *tn_kernels_name(const tn_kernels *kernels, tn_op_id op);
/* What oneDNN calls what it runs ("brgconv:avx512_core"); "" for our own loops. */
TN_API const char *tn_kernels_detail(const tn_kernels *kernels, tn_op_id op);
/* Whether oneDNN is there; if not, why and what to install in `error`. */
TN_API bool tn_kernels_library(tn_error *error);

/* --- running ------------------------------------------------------------------------------------
 */

typedef struct tn_engine tn_engine;

typedef struct tn_engine_options {
    size_t struct_size;
    const tn_context *context; /* NULL or outlives the engine */
    /* Fills `bytes` (of device memory mapped for the call, or of the host) with the plain contents
     * of a parameter or constant. Not asked for what the graph itself knows (a value without a
     * payload), nor for optimizer state, which begins at zero. NULL: there is nothing else. */
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
    uint64_t seed; /* of operators that draw numbers without a seed of their own */
    /* Released bytes become NaNs, and each buffer's bytes must still be so when it is born; so must
     * what lies between buffers. Each violation ends the run with E_CONFLICT. */
    bool poison;
    /* NULL: the layout's offsets. Else the arena is a pool of `pool_capacity` bytes, and each
     * buffer is allocated at its first step and freed after its last. */
    const char *pool;
    uint64_t pool_capacity; /* bytes */
    tn_trace *trace;        /* NULL, or receives what happens; outlives the engine */
} tn_engine_options;
#define TN_ENGINE_OPTIONS_INIT                                                                     \
    { .struct_size = sizeof(tn_engine_options) }

/* Sets up: takes the memory, reads and packs weights, computes what is folded.
 *
 * occupancy  made with the kernels' workspaces; outlives the engine, as do kernels and device
 * layout     of its problem, verified here before anything runs; NULL with a pool. Copied
 *
 * Errors: E_CONFLICT (the layout is not valid), E_EXHAUSTED (the device has not the capacity),
 * those of `read` and of kernels, E_UNSUPPORTED (instructions that this engine does not run),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_engine_create(const tn_occupancy *occupancy, const tn_layout *layout,
                                             const tn_kernels *kernels, tn_device *device,
                                             const tn_engine_options *options, tn_engine **engine,
                                             tn_error *error);
TN_API void tn_engine_destroy(tn_engine *engine); /* NULL is fine */

/* Runs the program once.
 *
 * inputs   [graph inputs that are no parameters], in the graph's order
 * outputs  [graph outputs]; `data` and its room in `bytes` are the caller's, for each run anew:
 * dtype, rank, shape and bytes are set to what came out, also when a later step fails
 *
 * Errors: E_INVALID (an array of another type or shape; data too small), E_CONFLICT (poison),
 * E_EXHAUSTED (a pool without room), those of kernels. The engine can run again afterwards. */
TN_API TN_CHECKED tn_status tn_engine_run(tn_engine *engine, const tn_array *inputs,
                                          uint32_t input_count, tn_array *outputs,
                                          uint32_t output_count, tn_error *error);

/* Contents of static memory between runs: parameters that are trained, optimizer state. `size` is
 * that of the tensor. Errors: E_INVALID (a tensor that is not kept as it is in the graph, another
 * size). */
TN_API TN_CHECKED tn_status tn_engine_get_static(tn_engine *engine, tn_tensor_id tensor,
                                                 void *bytes, uint64_t size, tn_error *error);
TN_API TN_CHECKED tn_status tn_engine_set_static(tn_engine *engine, tn_tensor_id tensor,
                                                 const void *bytes, uint64_t size, tn_error *error);

typedef struct tn_engine_usage {
    uint64_t planned_peak;  /* of the layout; 0 with a pool */
    uint64_t measured_peak; /* of the arena: the highest byte that any operand of any run had */
    uint64_t arena;         /* bytes taken from the device for it */
    uint64_t static_bytes;  /* bytes taken for weights and folded tensors */
    uint64_t run_count;
    double seconds; /* of the last run */
} tn_engine_usage;
TN_API void tn_engine_measure(const tn_engine *engine, tn_engine_usage *usage);
/* The pool that the arena is, for its statistics and holders; NULL without one. */
TN_API struct tn_pool *tn_engine_pool(tn_engine *engine);
/* Bytes of static memory that an engine over these kernels takes. */
TN_API uint64_t tn_engine_static_bytes(const tn_occupancy *occupancy, const tn_kernels *kernels);
/* The blocks that make it up, in the order in which a pool is asked for them: of which tensor each
 * is and how many bytes it has. Fills tensors[room] and bytes[room] and returns how many there are;
 * TN_NONE when out of memory. For tn_estimate_options. */
TN_API uint32_t tn_engine_static_blocks(const tn_occupancy *occupancy, const tn_kernels *kernels,
                                        tn_tensor_id *tensors, uint64_t *bytes, uint32_t room);

#ifdef __cplusplus
}
#endif
#endif
