/* engine.h - runs a program on a device, with every byte at its planned place.
 *
 *     // ... graph: of tn_graph_load; options.read: weights, by tn_contents_read
 *     tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
 *     if (tn_graph_rewrite(graph, NULL, &better, &error) ||  // fewer, larger operators; optional
 *         tn_kernels_create(better, NULL, &kernels, &error))  // chooses the kernels
 *         return 2;
 *     memory.workspaces = tn_kernels_workspaces(kernels);     // scratch memory is planned, too
 *     if (tn_program_plan(better, NULL, &memory, NULL, &program, &occupancy, &layout, &error) ||
 *         tn_engine_create(occupancy, &layout, kernels, device, &options, &engine, &error) ||
 *         tn_engine_run(engine, inputs, 1, outputs, 1, &error)) // can be repeated; no allocation
 *         return 2;
 *
 * session.h does all of this in one call (examples/run_model.c).
 * The arena is one block of exactly layout.peak bytes. Static memory (parameters, constants and
 * tensors computed from them, in the form that kernels need) is a second block. If the occupancy
 * was made with tn_occupancy_options.statics, static memory is part of the arena, and there is only
 * one block. Buffers of the plan are called bodies.
 * Units: bytes, seconds.
 * Threads: one thread at a time uses an engine; different engines are independent.
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
    const tn_context *context; /* NULL, or must outlive the engine */
    /* Fills `bytes` (host memory, or device memory mapped for the call) with the plain data of a
     * parameter or constant. Not called for data that the graph itself contains (a value without a
     * payload), nor for optimizer state, which starts at zero. NULL: no other data is needed. */
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
    uint64_t seed; /* for operators that draw random numbers and have no seed of their own */
    /* Check for stray writes. Released bytes are filled with NaNs. They must be unchanged when a
     * buffer is defined, and so must the bytes between buffers. A violation ends the run with
     * E_CONFLICT. */
    bool poison;
    /* NULL: buffers have the offsets of the layout. Else the name of a pool of `pool_capacity`
     * bytes that is the arena. Each buffer is allocated at its first step and freed after its last.
     */
    const char *pool;
    uint64_t pool_capacity; /* bytes */
    tn_trace *trace;        /* NULL, or records the events; must outlive the engine */
    uint64_t host_capacity; /* bytes for swapped tensors, wherever they are kept; 0: no limit */
    /* NULL, or [tensors of the graph], which must outlive the engine. Each run lowers zeros[t] to
     * the share of elements that are 0 right after the tensor was computed, for
     * tn_fit_options.zeros. Initialise it with -1; entries of tensors that are not computed or not
     * float32 stay unchanged. */
    float *zeros;
    /* NULL, or must outlive the engine: communicates with other ranks. Called in the thread of the
     * run for instructions on stream 0, else in a thread of their stream, concurrently with the
     * computation. */
    const tn_exchange *exchange;
    /* NULL: swapped tensors are kept in host memory. Else the name of a device
     * (tn_device_options.device: "opencl", "cuda:1", "file:DIR") that keeps them, over its own
     * link. It is opened only if something is swapped. */
    const char *swap_device;
    double swap_bytes_per_s; /* limits the rate of copies to it, each way; 0: no limit */
    /* For weight streaming (FETCH). NULL, or finds the file range with the plain data of a
     * parameter. The parameter is then read from there on demand, by direct I/O in a thread of its
     * stream. All other fetched data, and each packed form that a kernel needs, is written to an
     * unnamed file in `forms_folder` (NULL: $TMPDIR, else /tmp) when the engine is created. */
    tn_status (*where)(void *self, const tn_graph *graph, tn_tensor_id tensor, tn_file_range *range,
                       bool *found, tn_error *error);
    const char *forms_folder;
    double storage_bytes_per_s; /* limits the rate of reads; 0: no limit */
    /* Data that was read may stay in the page cache. False: its only memory is the arena. */
    bool storage_cache;
    /* A tensor that a lossy codec would change by more than this relative error (tn_engine_loss) is
     * kept on the host unencoded. 0: no limit. */
    double error_limit;
    /* NULL, or the places of swapped tensors: a layout of tn_program_host(program, 0), such as
     * tn_fit_result.host_layout. It is verified (E_CONFLICT) and not used after the call. NULL:
     * they are planned; tn_setup_open uses the layout of the search for a budget, if there was
     * one */
    const tn_layout *host_layout;
} tn_engine_options;
#define TN_ENGINE_OPTIONS_INIT                                                                     \
    TN_INIT(tn_engine_options, TN_SET(struct_size, sizeof(tn_engine_options)))

/* Creates an engine: allocates memory, reads and packs weights, computes folded tensors.
 *
 * occupancy  made with the workspaces of the kernels; must outlive the engine, as must kernels and
 *            device
 * layout     of the occupancy's problem; NULL with a pool. It is verified before anything runs, and
 *            copied
 * engine     out; destroy it with tn_engine_destroy
 *
 * Errors: E_CONFLICT (a layout is not valid), E_EXHAUSTED (the device has less memory, or swapped
 * tensors need more than `host_capacity`), those of tn_device_create and tn_device_alloc for the
 * swap device, E_INVALID (the occupancy has buffers for other static memory than these kernels
 * need; neither layout nor pool; trace together with poison), those of `read` and of kernels,
 * E_NO_MEMORY.
 * E_UNSUPPORTED for a device without host kernels, and for instructions that this engine does not
 * run: communication without an exchange or with types that it does not reduce, swaps of static
 * tensors, FETCH with a pool or of constants that kernels need in several forms, control flow on
 * other streams than 0, types that a codec does not accept. */
TN_API TN_CHECKED tn_status tn_engine_create(const tn_occupancy *occupancy, const tn_layout *layout,
                                             const tn_kernels *kernels, tn_device *device,
                                             const tn_engine_options *options, tn_engine **engine,
                                             tn_error *error);
TN_API void tn_engine_destroy(tn_engine *engine); /* NULL is fine */

/* Runs the program once.
 *
 * inputs   [graph inputs that are not parameters], in the graph's order
 * outputs  [graph outputs]. The caller sets `data` and its size in `bytes` before each run. The run
 *          sets dtype, rank, shape and bytes of each output that was computed, even if a later step
 *          fails
 *
 * Swapped tensors return or are dropped before a run ends. Between runs nothing is on the host, and
 * static memory is as the run left it. Fetched data is read in each run; if its file was changed or
 * truncated or cannot be read, the run ends with E_IO and names path and byte.
 * Errors: E_INVALID (an array of another type or shape; an output with too few bytes), E_CONFLICT
 * (poison), E_EXHAUSTED (a full pool; a tensor with fewer zeros than planned that the host has no
 * room for), those of kernels. The engine can run again after an error. */
TN_API TN_CHECKED tn_status tn_engine_run(tn_engine *engine, const tn_array *inputs,
                                          uint32_t input_count, tn_array *outputs,
                                          uint32_t output_count, tn_error *error);

/* Reads or writes the data of static memory between runs: trained parameters, optimizer state.
 * `size` is the size of the tensor. Errors: E_INVALID (another size, or a tensor that is not kept
 * in the form of the graph). */
TN_API TN_CHECKED tn_status tn_engine_get_static(tn_engine *engine, tn_tensor_id tensor,
                                                 void *bytes, uint64_t size, tn_error *error);
TN_API TN_CHECKED tn_status tn_engine_set_static(tn_engine *engine, tn_tensor_id tensor,
                                                 const void *bytes, uint64_t size, tn_error *error);

/* As tn_engine_get_static and tn_engine_set_static, for the bytes [from, from + size) of a tensor.
 */
TN_API TN_CHECKED tn_status tn_engine_get_static_at(tn_engine *engine, tn_tensor_id tensor,
                                                    uint64_t from, void *bytes, uint64_t size,
                                                    tn_error *error);
TN_API TN_CHECKED tn_status tn_engine_set_static_at(tn_engine *engine, tn_tensor_id tensor,
                                                    uint64_t from, const void *bytes, uint64_t size,
                                                    tn_error *error);

typedef struct tn_engine_usage {
    uint64_t planned_peak;  /* peak of the layout; 0 with a pool */
    uint64_t measured_peak; /* highest byte of the arena that any operand of any run used */
    uint64_t arena;         /* bytes allocated on the device for the arena */
    /* Weights and folded tensors. They are inside the arena with a pool, or if the occupancy has
     * buffers for them; else outside. */
    uint64_t static_bytes;
    uint64_t run_count;
    double seconds;      /* of the last run */
    uint64_t host_bytes; /* host memory allocated for swapped tensors */
    /* Of the last run: highest host byte used; bytes swapped out and in; seconds that the
     * computation was stalled, waiting for copies or for other streams. */
    uint64_t host_peak, out_bytes, in_bytes;
    double stall_seconds;
    /* Of the last run: tensors with more nonzero elements than CSR was planned for, which were kept
     * raw in their own place (raw_count) or on the host (spill_count, which also counts tensors
     * above `error_limit`). spill_bytes: host memory allocated for them so far. */
    uint64_t raw_count, spill_count, spill_bytes;
    /* Of the last run, communication: calls of the exchange, bytes of their tensors, and seconds in
     * the calls, overlapped or not. */
    uint64_t talk_count, talk_bytes;
    double talk_seconds;
    /* Of the last run: bytes fetched, seconds of reading, overlapped or not. forms_bytes: size of
     * the file of packed forms. */
    uint64_t fetch_bytes;
    double fetch_seconds;
    uint64_t forms_bytes;
} tn_engine_usage;
/* The memory of an engine, and the statistics of its last run. */
TN_API void tn_engine_measure(const tn_engine *engine, tn_engine_usage *usage);

/* The error of one tensor in a lossy codec (float16, float10, float8): x before, y after. Without a
 * limit, the first and then every 16th run of the engine measures; with `error_limit` every run. */
typedef struct tn_engine_loss {
    const char *name; /* of the tensor, owned by the graph of the program */
    tn_codec codec;
    uint64_t bytes, form_bytes; /* of the tensor, and of its form */
    uint64_t measured;          /* number of times that it was encoded and measured */
    uint64_t kept;              /* of these: above `error_limit`, so kept on the host unencoded */
    double largest;             /* largest |x - y| of an element; of all that were measured */
    double relative; /* |x - y| / |x| by the Euclidean norm; the largest that was measured */
} tn_engine_loss;
/* Writes the losses of up to `room` tensors to `losses` and returns the number of tensors that were
 * measured. */
TN_API uint32_t tn_engine_losses(const tn_engine *engine, tn_engine_loss *losses, uint32_t room);
/* The pool that is the arena, for statistics and holders; NULL without a pool. */
TN_API struct tn_pool *tn_engine_pool(tn_engine *engine);
/* Bytes of static memory that an engine of this program needs with these kernels. */
TN_API uint64_t tn_engine_static_bytes(const tn_program *program, const tn_kernels *kernels);
/* Writes the blocks of static memory to blocks[room], in the order in which they are requested from
 * a pool. Returns the number of blocks; TN_NONE if out of memory. For tn_estimate_options. */
TN_API uint32_t tn_engine_static_blocks(const tn_program *program, const tn_kernels *kernels,
                                        tn_static_block *blocks, uint32_t room);
/* Measures how fast an uncached file is read by FETCH: the faster of two sections of up to 128 MiB
 * each.
 * path         a file, or a folder, in which a temporary file of 128 MiB is written
 * bytes_per_s  out
 *
 * Errors: E_IO, E_INVALID (an empty file), E_NO_MEMORY.
 * Cost: up to 256 MiB of reads. */
TN_API TN_CHECKED tn_status tn_storage_measure(const char *path, double *bytes_per_s,
                                               tn_error *error);
/* Finds the blocks that a program can fetch instead (FETCH): constants in one form that operators
 * read under one name, outside of control flow. Returns false if out of memory.
 * may  out, [count], one flag per block of `blocks` */
TN_API bool tn_engine_may_fetch(const tn_program *program, const tn_kernels *kernels,
                                const tn_static_block *blocks, uint32_t count, uint8_t *may);

#ifdef __cplusplus
}
#endif
#endif
