/* engine.h - a Program run on a device, every byte at its planned place.
 *
 *     // ... graph: of tn_graph_load; options.read: weights, by tn_contents_read
 *     tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
 *     if (tn_graph_rewrite(graph, NULL, &better, &error) ||  // fewer, larger operators; optional
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
 * what is computed from them, in the form that kernels want) a second one; or it lies in the arena
 * where the occupancy was made with it (tn_occupancy_options.statics), and there is one block.
 * Units: bytes, seconds.
 * Threads: an engine is used by one thread at a time; different engines do not meet.
 */
#ifndef TENURE_ENGINE_H
#define TENURE_ENGINE_H

#include <tenure/array.h>
#include <tenure/budget.h>
#include <tenure/device.h>
#include <tenure/exchange.h>
#include <tenure/graph.h>
#include <tenure/kernels.h>
#include <tenure/plan.h>
#include <tenure/program.h>
#include <tenure/rewrite.h>
#include <tenure/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

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
    uint64_t host_capacity; /* bytes for what is swapped out, wherever; 0: no bound */
    /* NULL, or [tensors of the graph] and outlives the engine: runs write the least share of
     * elements that were 0 as soon as an operator had made them, for tn_fit_options.zeros. Begin
     * with -1: what no run made, and what is not float32, stays */
    float *zeros;
    /* NULL, or outlives the engine: how instructions reach other ranks. In the run's thread where
     * they are on stream 0, else in a thread of their stream, beside what is computed. */
    const tn_exchange *exchange;
    /* NULL: what is swapped out lies in the host's memory. Else the name of a device
     * (tn_device_options.device: "opencl", "cuda:1", "file:DIR") that keeps it, over its own link;
     * it is opened if something is swapped */
    const char *swap_device;
    double swap_bytes_per_s; /* copies there and back take no less, each way; 0: as they are */
    /* What a program fetches (FETCH). NULL, or tells where a file has the plain contents of a
     * parameter: it is then read from there whenever it is needed, by direct reads in a thread of
     * its stream. Everything else that is fetched, and each form that a kernel wants of its own, is
     * made when the engine is set up and kept in a file without a name in `forms_folder` (NULL:
     * $TMPDIR, else /tmp), as large as they are. */
    tn_status (*where)(void *self, const tn_graph *graph, tn_tensor_id tensor, tn_file_range *range,
                       bool *found, tn_error *error);
    const char *forms_folder;
    double storage_bytes_per_s; /* reads take no less; 0: as long as they take */
    bool storage_cache; /* what was read may stay in the system's cache: else all memory of it is
                         * the arena's */
} tn_engine_options;
#define TN_ENGINE_OPTIONS_INIT                                                                     \
    TN_INIT(tn_engine_options, TN_SET(struct_size, sizeof(tn_engine_options)))

/* Sets up: takes the memory, reads and packs weights, computes what is folded.
 *
 * occupancy  made with the kernels' workspaces; outlives the engine, as do kernels and device
 * layout     of its problem, verified here before anything runs; NULL with a pool. Copied
 *
 * Errors: E_CONFLICT (the layout is not valid), E_EXHAUSTED (the device has not the capacity, or
 * what is swapped out takes more than `host_capacity`), those of tn_device_create and
 * tn_device_alloc of the swap device, E_INVALID (the occupancy has bodies for
 * other static memory than these kernels want), those of `read` and of kernels, E_UNSUPPORTED
 * (instructions that this engine does not run: those of several ranks without an exchange, or of
 * types that it does not reduce, swaps of what is static, FETCH with a pool, or of what kernels
 * want in several forms,
 * control flow on other streams than 0, types that a codec does not take), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_engine_create(const tn_occupancy *occupancy, const tn_layout *layout,
                                             const tn_kernels *kernels, tn_device *device,
                                             const tn_engine_options *options, tn_engine **engine,
                                             tn_error *error);
TN_API void tn_engine_destroy(tn_engine *engine); /* NULL is fine */

/* Runs the program once.
 *
 * inputs   [graph inputs that are no parameters], in the graph's order
 * outputs  [graph outputs]; `data` and its room in `bytes` are the caller's, for each run anew:
 *          dtype, rank, shape and bytes are set to what came out, also when a later step fails
 *
 * What is swapped out comes back or is dropped before a run ends: between runs nothing is on the
 * host, and static memory is as the run left it. What is fetched is read in each run anew; a file
 * that has changed, ended or cannot be read ends the run with E_IO, and its path and byte.
 * Errors: E_INVALID (an array of another type or shape; data too small), E_CONFLICT (poison),
 * E_EXHAUSTED (a pool without room; a tensor that is not as sparse as was planned, where the host
 * has no room for it), those of kernels. The engine can run again afterwards. */
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

/* The same of bytes [from, from + size) of a tensor. */
TN_API TN_CHECKED tn_status tn_engine_get_static_at(tn_engine *engine, tn_tensor_id tensor,
                                                    uint64_t from, void *bytes, uint64_t size,
                                                    tn_error *error);
TN_API TN_CHECKED tn_status tn_engine_set_static_at(tn_engine *engine, tn_tensor_id tensor,
                                                    uint64_t from, const void *bytes, uint64_t size,
                                                    tn_error *error);

typedef struct tn_engine_usage {
    uint64_t planned_peak;  /* of the layout; 0 with a pool */
    uint64_t measured_peak; /* of the arena: the highest byte that any operand of any run had */
    uint64_t arena;         /* bytes taken from the device for it */
    uint64_t static_bytes; /* of weights and folded tensors: beside the arena; in it with a pool, or
                            * where the occupancy has bodies for them */
    uint64_t run_count;
    double seconds;      /* of the last run */
    uint64_t host_bytes; /* of the host's memory for what is swapped out */
    /* Of the last run: the highest of them that was used; bytes that were swapped out and in; and
     * that it stood still for copies and calls of others: for a signal, for one on stream 0, for
     * the last ones */
    uint64_t host_peak, out_bytes, in_bytes;
    double stall_seconds;
    /* Of the last run: tensors with more elements that are not zero than CSR was planned for, kept
     * raw where their form has room for that, else on the host; and bytes of the host's memory that
     * were taken for such so far */
    uint64_t raw_count, spill_count, spill_bytes;
    /* Of the last run: calls of the exchange, bytes of tensors that they were for, and seconds in
     * them, beside what was computed or not */
    uint64_t talk_count, talk_bytes;
    double talk_seconds;
    /* Of the last run: bytes that were fetched, seconds of reading them, beside what was computed
     * or not; and bytes of the file of forms */
    uint64_t fetch_bytes;
    double fetch_seconds;
    uint64_t forms_bytes;
} tn_engine_usage;
TN_API void tn_engine_measure(const tn_engine *engine, tn_engine_usage *usage);
/* The pool that the arena is, for its statistics and holders; NULL without one. */
TN_API struct tn_pool *tn_engine_pool(tn_engine *engine);
/* Bytes of static memory that an engine of this program over these kernels takes. */
TN_API uint64_t tn_engine_static_bytes(const tn_program *program, const tn_kernels *kernels);
/* The blocks that make it up, in the order in which a pool is asked for them. Fills blocks[room]
 * and returns how many there are; TN_NONE when out of memory. For tn_estimate_options. */
TN_API uint32_t tn_engine_static_blocks(const tn_program *program, const tn_kernels *kernels,
                                        tn_static_block *blocks, uint32_t room);
/* How fast a file is read that is in no cache: the faster of two stretches of it, each of up to
 * 128 MiB, as FETCH would read them.
 * path         of a folder: a file of 128 MiB is written there for it, and removed
 * bytes_per_s  out
 *
 * Errors: E_IO, E_INVALID (an empty file), E_NO_MEMORY.
 * Cost: 256 MiB of it. */
TN_API TN_CHECKED tn_status tn_storage_measure(const char *path, double *bytes_per_s,
                                               tn_error *error);
/* Which of them a program over these kernels may fetch instead (FETCH): constants in one form, that
 * operators read under one name, outside of control flow. False: out of memory.
 * may  out, [count], of the blocks above */
TN_API bool tn_engine_may_fetch(const tn_program *program, const tn_kernels *kernels,
                                const tn_static_block *blocks, uint32_t count, uint8_t *may);

#ifdef __cplusplus
}
#endif
#endif
