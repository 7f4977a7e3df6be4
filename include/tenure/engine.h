/* engine.h - runs a program under the caller's control: devices, kernels, engines, compiled models,
 * measured costs. tn_session (run.h) needs fewer calls. */
#ifndef TENURE_ENGINE_H
#define TENURE_ENGINE_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/engine.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/dist.h>
#include <tenure/fit.h>
#include <tenure/graph.h>
#include <tenure/plan.h>
#include <tenure/pool.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>
#include <tenure/rewrite.h>
#include <tenure/run.h>
#include <tenure/search.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- device ---------------------------------------------------------------------------------- */

/* Devices: separate memory, streams that work on it, and copies to and from the host.
 *
 *     tn_device_options options = TN_DEVICE_OPTIONS_INIT;
 *     tn_device *device;
 *     tn_stream *stream;
 *     tn_address arena;
 *     tn_error error;
 *     char there[6] = "", here[6] = "bytes";
 *     options.capacity = 1 << 20;
 *     if (tn_device_create(&options, &device, &error) ||
 *         tn_stream_create(device, 0, &stream, &error) ||
 *         tn_device_alloc(device, 4096, &arena, &error) ||
 *         tn_device_put(stream, arena, here, sizeof here, &error) ||
 *         tn_device_get(stream, there, arena, sizeof there, &error) ||
 *         tn_stream_wait(stream, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     puts(there); // bytes
 *     tn_device_free(device, arena);
 *     tn_stream_destroy(stream);
 *     tn_device_destroy(device);
 *
 * A device address is a number, not a pointer: bytes are copied only by put and get, and only
 * kernels that were launched on the device may access them.
 *
 * A stream works in order. Different streams run concurrently, and fences order them. A call that
 * queues work on a stream returns at once; host memory that it names must stay valid until the
 * stream has finished that work (tn_stream_wait). With TN_STREAM_INLINE the calling thread does the
 * work before the call returns.
 *
 * Units: bytes, seconds.
 * Threads: several threads may use a device at once, one thread a stream.
 */

typedef struct tn_device tn_device;
typedef struct tn_stream tn_stream;
typedef struct tn_fence tn_fence; /* a point in a stream that other streams can wait for */
typedef uint64_t tn_address;      /* an address in a device's memory; 0: no address */

typedef struct tn_device_options {
    size_t struct_size;
    const tn_context *context; /* services of the caller; NULL: defaults; must outlive the device */
    /* Name of the technique; NULL: "host". "cuda:1" is the second CUDA device; "file:/var/tmp" is
     * an unnamed file in that folder. */
    const char *device;
    /* capacity of the device in bytes, a hard limit; 0: the memory of the machine */
    uint64_t capacity;
    double link_bytes_per_s; /* limit of the rate of put and get, in each direction; 0: no limit */
} tn_device_options;
#define TN_DEVICE_OPTIONS_INIT                                                                     \
    TN_INIT(tn_device_options, TN_SET(struct_size, sizeof(tn_device_options)))

typedef struct tn_device_limits {
    const char *name;   /* name of the technique, such as "host"; a static string */
    uint64_t capacity;  /* capacity in bytes; TN_SIZE_UNKNOWN: the device has no limit of its own */
    uint64_t alignment; /* least alignment of every allocation */
    double link_bytes_per_s; /* limit of the rate of put and get; 0: no limit */
    bool host_kernels; /* whether kernels are host functions, so that tn_device_pointer works */
} tn_device_limits;

typedef struct tn_device_usage {
    /* requested bytes that are allocated at present, and their peak */
    uint64_t allocated, allocated_peak;
    uint64_t alloc_count, free_count, failed_count;
    uint64_t put_bytes, get_bytes; /* bytes that were queued for copying so far */
} tn_device_usage;

/* Opens a device.
 *
 * Errors: E_UNKNOWN (technique), E_INVALID (a link rate that is not valid), E_UNSUPPORTED (the
 * library is not installed, lacks a function or is too old; no such device; a rate for a device
 * with a real link), E_IO (the device fails; no file can be created in that folder), E_NO_MEMORY.
 *
 * cuda loads the CUDA runtime, and opencl the OpenCL loader, at the first call. TENURE_CUDART and
 * TENURE_OPENCL in the environment name another file to load. */
TN_API TN_CHECKED tn_status tn_device_create(const tn_device_options *options, tn_device **device,
                                             tn_error *error);
/* Closes a device and frees its memory. Streams and fences must be destroyed first. NULL has no
 * effect. */
TN_API void tn_device_destroy(tn_device *device);
/* Measures memory and traffic of a device so far, and its limits. */
TN_API void tn_device_measure(tn_device *device, tn_device_usage *usage);
TN_API tn_device_limits tn_device_limits_of(const tn_device *device);

/* Allocates a zeroed block. On the host device the block has its own pages with an unreadable page
 * on either side; it ends at the upper one, except for its alignment of 64.
 *
 * size  bytes; 0 is allowed and allocates nothing
 * Errors: E_EXHAUSTED (above the capacity; the message says how much is left), E_IO (file: the disk
 * is full), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_device_alloc(tn_device *device, uint64_t size, tn_address *address,
                                            tn_error *error);
/* Frees a block; address 0 has no effect. No queued work may use the block. */
TN_API void tn_device_free(tn_device *device, tn_address address);
/* Returns, for kernels only, the pointer to the bytes at an address, in the address space of the
 * kernels. NULL: the address is outside any block, or kernels are not host functions. */
TN_API void *tn_device_pointer(const tn_device *device, tn_address address);

enum { /* Flags of tn_stream_create. */
       /* the calling thread does the work, which is done when the call returns */
       TN_STREAM_INLINE = 1u << 0,
};
/* Creates a stream. Errors: E_INVALID (flags), E_NO_MEMORY, and those of the device. */
TN_API TN_CHECKED tn_status tn_stream_create(tn_device *device, uint32_t flags, tn_stream **stream,
                                             tn_error *error);
/* Waits for queued work, then destroys the stream. */
TN_API void tn_stream_destroy(tn_stream *stream);
/* Waits for all queued work of a stream. Errors: the first error of a copy or launch since the last
 * wait, E_IO for a device that failed. Work that was queued after the error was skipped; fences
 * have passed. (INLINE: the call that queues work returns its own error, and no error is kept.) */
TN_API TN_CHECKED tn_status tn_stream_wait(tn_stream *stream, tn_error *error);
/* Reserves space for `count` queued items (copies, launches, waits for fences). Queuing up to that
 * many allocates nothing. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_stream_reserve(tn_stream *stream, uint32_t count, tn_error *error);

/* Copy from host to device, from device to host, and within the device (the ranges must not
 * overlap). Errors: E_INVALID (outside any block of the device), E_NO_MEMORY (queue). */
TN_API TN_CHECKED tn_status tn_device_put(tn_stream *stream, tn_address to, const void *from,
                                          uint64_t size, tn_error *error);
TN_API TN_CHECKED tn_status tn_device_get(tn_stream *stream, void *to, tn_address from,
                                          uint64_t size, tn_error *error);
TN_API TN_CHECKED tn_status tn_device_copy(tn_stream *stream, tn_address to, tn_address from,
                                           uint64_t size, tn_error *error);
/* Runs a function on the stream, such as a kernel on the host device. */
TN_API TN_CHECKED tn_status tn_device_launch(tn_stream *stream,
                                             tn_status (*work)(void *self, tn_error *error),
                                             void *self, tn_error *error);

/* Creates a fence, which counts as passed until it is recorded. */
TN_API TN_CHECKED tn_status tn_fence_create(tn_device *device, tn_fence **fence, tn_error *error);
TN_API void tn_fence_destroy(tn_fence *fence);
/* tn_fence_record queues a fence: it passes when the stream has finished all work queued before.
 * Recording it again moves it. tn_fence_wait queues a wait: no later work of this stream begins
 * before the fence has passed, as it was recorded when tn_fence_wait was called. A fence that was
 * never recorded counts as passed.
 * Threads: one thread at a time uses a fence. */
TN_API TN_CHECKED tn_status tn_fence_record(tn_fence *fence, tn_stream *stream, tn_error *error);
TN_API TN_CHECKED tn_status tn_fence_wait(tn_fence *fence, tn_stream *stream, tn_error *error);
/* Whether the fence has passed; the call does not wait. */
TN_API bool tn_fence_passed(const tn_fence *fence);

/* Measured rates of copies from and to host memory, in bytes per second. */
typedef struct tn_device_link {
    double put_bytes_per_s, get_bytes_per_s; /* rate of each direction alone */
    double both_bytes_per_s; /* sum of the rates when both directions copy at once */
} tn_device_link;
/* Measures the link with copies of `bytes` of ordinary host memory: the best of a few rounds.
 *
 * context  for host memory; NULL: the default
 * Errors: E_INVALID (0 bytes), those of tn_device_alloc (2 x bytes are allocated and freed) and of
 * copies, E_NO_MEMORY. Cost: 16 copies. */
TN_API TN_CHECKED tn_status tn_device_measure_link(tn_device *device, uint64_t bytes,
                                                   const tn_context *context, tn_device_link *link,
                                                   tn_error *error);

/* The registry of devices (`tenure list devices`). */
TN_API uint32_t tn_device_count(void);
TN_API const char *tn_device_name(uint32_t index);
TN_API const char *tn_device_summary(uint32_t index);

/* --- kernels --------------------------------------------------------------------------------- */

/* Chooses and prepares a kernel for each operator, before memory is planned.
 *
 *     // ... graph: of tn_graph_load or tn_graph_rewrite
 *     if (tn_kernels_create(graph, NULL, &kernels, &error)) // chooses the kernels
 *         return 2;
 *     memory.workspaces = tn_kernels_workspaces(kernels); // scratch memory is planned, too
 *
 * Identical operators share their prepared data.
 * Threads: several threads may read kernels at once, and kernels may be `with` of others meanwhile.
 */

typedef struct tn_kernels tn_kernels;

typedef struct tn_kernels_options {
    size_t struct_size;
    /* services of the caller; NULL: defaults; must outlive the kernels */
    const tn_context *context;
    /* number of threads of oneDNN, for which kernels are chosen and sized; 0: 1 */
    uint32_t threads;
    bool plain; /* true: use only Tenure's own loops, without oneDNN */
    /* Kernels of another graph, or NULL. Their prepared data is used again for identical operators
     * (the same model with recomputation or in another order). `threads` and `plain` are taken from
     * the given kernels. The given kernels need not outlive the new ones, but their context
     * must. */
    const tn_kernels *with;
    /* [operator count] bytes of scratch that each operator may use, or NULL: no limit. If the
     * fastest variant needs more, the first variant within the limit is chosen (for example a
     * convolution in tiles), or the variant with the least scratch. Read only during the call. */
    const uint64_t *scratch;
} tn_kernels_options;
#define TN_KERNELS_OPTIONS_INIT                                                                    \
    TN_INIT(tn_kernels_options, TN_SET(struct_size, sizeof(tn_kernels_options)))

/* Chooses and prepares a kernel for every operator that will run, including folded ones. The graph
 * must outlive the kernels. Errors: E_UNSUPPORTED (an operator or its element types without a
 * kernel, with its node), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_kernels_create(const tn_graph *graph,
                                              const tn_kernels_options *options,
                                              tn_kernels **kernels, tn_error *error);
/* Destroys kernels; NULL has no effect. Engines on the kernels must be destroyed first. */
TN_API void tn_kernels_destroy(tn_kernels *kernels);
/* Returns [operator count] scratch bytes, for tn_occupancy_options.workspaces; they live as long as
 * the kernels. */
TN_API const uint64_t *tn_kernels_workspaces(const tn_kernels *kernels);
/* Returns [operator count] scratch bytes of recomputed operators, for
 * tn_occupancy_options.workspaces_again. They differ from those of tn_kernels_workspaces for
 * operators that are recomputed by an operator of another type (tn_op_form_of). */
TN_API const uint64_t *tn_kernels_workspaces_again(const tn_kernels *kernels);
/* Returns the family of the kernel of an operator ("conv", "dnnl_conv"); "": the operator has no
 * kernel. */
TN_API const char *tn_kernels_name(const tn_kernels *kernels, tn_op_id op);
/* Returns the name of oneDNN's implementation ("brgconv:avx512_core"); "" for Tenure's own
 * loops. */
TN_API const char *tn_kernels_detail(const tn_kernels *kernels, tn_op_id op);
/* Returns the variant of the kernel: 0 is the fastest; 1, 2, ... use smaller tiles and less
 * scratch. */
TN_API uint32_t tn_kernels_way(const tn_kernels *kernels, tn_op_id op);
/* Returns the instruction set that oneDNN uses: "sse41", "avx", "avx2", "avx512". It is that of the
 * processor, or the limit of ONEDNN_MAX_CPU_ISA. "": oneDNN runs no operator. */
TN_API const char *tn_kernels_isa(const tn_kernels *kernels);
/* Whether oneDNN is installed. If not, `error` has the reason and the package to install.
 *
 * text  NULL, or receives its version and the instruction set that it uses here: "oneDNN 2.6.3,
 *       avx2" */
#define TN_LIBRARY_TEXT_MAX 48
TN_API bool tn_kernels_library(char text[TN_LIBRARY_TEXT_MAX], tn_error *error);

/* --- engine ---------------------------------------------------------------------------------- */

/* Runs a program on a device, with every byte at its planned place.
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
 * run.h does all of this in one call (examples/run_model.c).
 * The arena is one block of exactly layout.peak bytes. Static memory (parameters, constants and
 * tensors computed from them, in the form that kernels need) is a second block. If the occupancy
 * was made with tn_occupancy_options.statics, static memory is part of the arena, and there is only
 * one block. Buffers of the plan are called bodies.
 * Units: bytes, seconds.
 * Threads: one thread at a time uses an engine; different engines are independent.
 */

typedef struct tn_engine tn_engine;

typedef struct tn_engine_options {
    size_t struct_size;
    const tn_context *context; /* services of the caller; NULL: defaults; must outlive the engine */
    /* Provides the plain data of a parameter or constant: fills `bytes`, which is host memory, or
     * device memory mapped for the call. Not called for data that the graph itself contains (a
     * value without a payload), nor for optimizer state, which starts at zero. NULL: no other data
     * is needed. */
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
    uint64_t seed; /* seed for operators that draw random numbers and have no seed of their own */
    /* If true, check for stray writes. Released bytes are filled with NaNs, which must be unchanged
     * when a buffer is next defined there; the bytes between buffers must be unchanged, too. A
     * violation ends the run with E_CONFLICT. */
    bool poison;
    /* Name of a pool of `pool_capacity` bytes that is the arena. Each buffer is then allocated at
     * its first step and freed after its last. NULL: buffers have the offsets of the layout. */
    const char *pool;
    uint64_t pool_capacity; /* bytes */
    /* With a pool: passive mode. If the pool is full, the buffers that were accessed least recently
     * are copied to the host, and back when a step accesses them; the run waits for each copy.
     * Only for programs of one stream without control flow or copies, and not with `poison` */
    bool on_demand;
    bool warm; /* true: write every page of the arena first, so that the first run is not slower */
    tn_trace *trace; /* trace that records the events of runs, or NULL; must outlive the engine */
    /* limit of the bytes for swapped tensors, wherever they are kept; 0: no limit */
    uint64_t host_capacity;
    /* [tensors of the graph] shares of zeros, or NULL; must outlive the engine. Each run lowers
     * zeros[t] to the share of elements that are 0 right after the tensor was computed, for
     * tn_fit_options.zeros. The caller initialises the array with -1; entries of tensors that are
     * not computed or not float32 stay unchanged. */
    float *zeros;
    /* Communication with other ranks, or NULL; must outlive the engine. Called in the thread of the
     * run for instructions on stream 0, otherwise in a thread of their stream, concurrently with
     * the computation. */
    const tn_exchange *exchange;
    /* Name of a device (tn_device_options.device: "opencl", "cuda:1", "file:DIR") that keeps
     * swapped tensors, over its own link. The device is opened only if a tensor is swapped. NULL:
     * swapped tensors are kept in host memory. */
    const char *swap_device;
    /* limit of the rate of copies to and from the swap device, in each direction; 0: no limit */
    double swap_bytes_per_s;
    /* For weight streaming (FETCH): finds the file range with the plain data of a parameter, or
     * NULL. The parameter is then read from the range on demand, by direct I/O in a thread of its
     * stream. All other fetched data, and each packed form that a kernel needs, is written to an
     * unnamed file in `forms_folder` (NULL: $TMPDIR, or else /tmp) when the engine is created. */
    tn_status (*where)(void *self, const tn_graph *graph, tn_tensor_id tensor, tn_file_range *range,
                       bool *found, tn_error *error);
    const char *forms_folder;
    double storage_bytes_per_s; /* limit of the rate of reads from files; 0: no limit */
    /* true: data that was read from files may stay in the page cache. false: the arena is the only
     * memory for it */
    bool storage_cache;
    /* A tensor that a lossy codec would change by more than this relative error (tn_engine_loss) is
     * kept on the host without encoding. 0: no limit. */
    double error_limit;
    /* Places of swapped tensors on the host: a layout of tn_program_host(program, 0), such as
     * tn_fit_result.host_layout. It is verified (E_CONFLICT) and not used after the call. NULL: the
     * engine plans the places; tn_setup_open uses the layout of the search for a budget, if there
     * was one */
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
TN_API void tn_engine_destroy(tn_engine *engine); /* Destroys an engine; NULL has no effect. */

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

/* Read or write the data of static memory between runs: trained parameters, optimizer state. `size`
 * is the size of the tensor. Errors: E_INVALID (another size, or a tensor that is not kept in the
 * form of the graph). */
TN_API TN_CHECKED tn_status tn_engine_get_static(tn_engine *engine, tn_tensor_id tensor,
                                                 void *bytes, uint64_t size, tn_error *error);
TN_API TN_CHECKED tn_status tn_engine_set_static(tn_engine *engine, tn_tensor_id tensor,
                                                 const void *bytes, uint64_t size, tn_error *error);

/* Read or write the bytes [from, from + size) of a tensor in static memory; otherwise like
 * tn_engine_get_static and tn_engine_set_static. */
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
    /* Bytes of weights and folded tensors. They are inside the arena with a pool, or if the
     * occupancy has buffers for them; otherwise outside. */
    uint64_t static_bytes;
    uint64_t run_count;
    /* streams on which kernels run at the same time; 0: one kernel runs after the other */
    uint32_t kernel_streams;
    double seconds;      /* seconds of the last run */
    uint64_t host_bytes; /* bytes of host memory allocated for swapped tensors */
    /* Swapping in the last run: highest host byte used; bytes swapped out and in; seconds that the
     * computation was stalled, because it waited for copies or for other streams. */
    uint64_t host_peak, out_bytes, in_bytes;
    double stall_seconds;
    /* In the last run: number of tensors with more nonzero elements than CSR was planned for, which
     * were kept raw in their own place (raw_count) or on the host (spill_count, which also counts
     * tensors above `error_limit`). spill_bytes: host memory allocated for such tensors so far. */
    uint64_t raw_count, spill_count, spill_bytes;
    /* Communication in the last run: calls of the exchange, bytes of their tensors, and seconds in
     * the calls, overlapped or not. */
    uint64_t talk_count, talk_bytes;
    double talk_seconds;
    /* Weight streaming in the last run: bytes fetched, and seconds of reading, overlapped or not.
     * forms_bytes: size of the file of packed forms. */
    uint64_t fetch_bytes;
    double fetch_seconds;
    uint64_t forms_bytes;
    /* Experts in the last run, with a cache for them (tn_setup_options.expert_slots). row_uses:
     * experts that an operator used, each counted once per run of the operator; row_hits: those
     * that were in the cache or already being read. row_reads, row_bytes: experts read from a
     * file, and their bytes. row_guesses: experts that were guessed for the next operator;
     * row_right: those that it used; row_withheld: those that were not in the cache and were not
     * read, because most of the recent guesses were wrong. row_wait_seconds: seconds that operators
     * waited for reads. */
    uint64_t row_uses, row_hits, row_reads, row_bytes, row_guesses, row_right, row_withheld;
    double row_wait_seconds;
} tn_engine_usage;
/* Measures the memory of an engine, and the statistics of its last run. */
TN_API void tn_engine_measure(const tn_engine *engine, tn_engine_usage *usage);

/* The error of one tensor in a lossy codec (float16, float10, float8): x is the value before
 * encoding, y after it. Without a limit, the first and then every 16th run of the engine measures
 * errors; with `error_limit` every run does. */
typedef struct tn_engine_loss {
    const char *name; /* name of the tensor, owned by the graph of the program */
    tn_codec codec;
    uint64_t bytes, form_bytes; /* bytes of the tensor, and of its encoded form */
    uint64_t measured;          /* number of times that it was encoded and measured */
    /* number of these measurements with an error above `error_limit`, after which the tensor was
     * kept on the host without encoding */
    uint64_t kept;
    double largest;  /* largest |x - y| of an element over all measurements */
    double relative; /* largest |x - y| / |x| by the Euclidean norm over all measurements */
} tn_engine_loss;
/* Writes the errors of up to `room` tensors to `losses` and returns the number of tensors that were
 * measured. */
TN_API uint32_t tn_engine_losses(const tn_engine *engine, tn_engine_loss *losses, uint32_t room);
/* Returns the pool that is the arena, for statistics and holders; NULL without a pool. */
TN_API struct tn_pool *tn_engine_pool(tn_engine *engine);
/* Returns the bytes of static memory that an engine of this program needs with these kernels. */
TN_API uint64_t tn_engine_static_bytes(const tn_program *program, const tn_kernels *kernels);
/* Writes the blocks of static memory to blocks[room], in the order in which they are requested from
 * a pool. Returns the number of blocks; TN_NONE if memory runs out. For tn_estimate_options. */
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

/* --- setup ----------------------------------------------------------------------------------- */

/* Compiles a graph for an engine, stage by stage.
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
 * A compiled model (`tn_setup`) is made by the stages in the table below; each stage uses the
 * results of the stages before it. tn_setup_from shares the early stages of a compiled model and
 * repeats the later ones with other decisions, so that a search can try thousands of compiled
 * models on one rewritten graph and its kernels. tn_setup_open makes an engine of a compiled model;
 * run.h adds arrays for inputs and outputs.
 * Units: bytes, seconds.
 * Threads: a finished compiled model is read-only: any number of threads may read it or derive
 * others from it.
 */

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
    X(STREAMS, "streams", "the program whose operators run on several streams")                    \
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
    /* `program` orders the instructions itself (a pipeline). Then orders of one device are not
     * compared, and a budget is met from the arranged program. Costs that are not given come from a
     * model, because measurements would differ between ranks. A tn_session does not rewrite the
     * graph, because a fused operator could belong to two stages */
    bool arranges;
} tn_divide;

/* Options to split operators, so that they run as tiles: with the least extra work for a budget, or
 * the least memory for a work budget. */
typedef struct tn_setup_split {
    uint64_t budget; /* bytes for all memory of the device (tn_setup_needs.total); 0: no budget */
    /* work budget: extra work that is allowed, as a share of the graph's work
     * (tn_split_choice.work). 0 with a budget: no limit. DBL_MIN: no extra work */
    double share;
    const tn_split_region *regions; /* [region_count] regions to use instead of a search */
    uint32_t region_count;
    /* the graph that the regions refer to (as in tn_split_choice); read during the call. NULL: the
     * rewritten graph, after `again` is applied to it */
    const tn_graph *graph;
    /* [again_count] with regions: tensors that are first recomputed, as in tn_graph_split_again */
    const tn_split_again *again;
    uint32_t again_count;
} tn_setup_split;

/* Weight streaming: weights are read from their file when they are needed (search.h), if the plan
 * with all weights exceeds the budget. */
typedef struct tn_setup_stream {
    uint64_t budget;    /* bytes for all memory of the device (tn_setup_needs.total) */
    double bytes_per_s; /* read rate of the weight file in bytes per second; above 0 */
    double latency_s;   /* latency of one read */
    /* true: operators with weights too large for the budget may run as tiles, so that their weights
     * are read in slices; not together with the caller's own costs, kernels or program */
    bool parts;
} tn_setup_stream;

/* The decisions of a compiled model, stage by stage; 0 and NULL are the defaults. The structures
 * that the pointers refer to are copied. Pointers inside those structures (names, sequences,
 * claims) must be valid until the call returns. */
typedef struct tn_setup_options {
    size_t struct_size;
    /* services of the caller, the default of all stages; NULL: defaults; must outlive the compiled
     * model */
    const tn_context *context;
    /* options of the stage REWRITE; NULL: the graph is not rewritten */
    const tn_rewrite_options *rewrite;
    /* true: the stage KERNELS plans the graph alone, with scratch bytes by the operators' rules and
     * static tensors in plain layout; the compiled model cannot be opened */
    bool no_kernels;
    const tn_kernels_options *kernels; /* options of the stage KERNELS; NULL: defaults */
    /* kernels of the (rewritten) graph to use; they must outlive the compiled model. NULL: kernels
     * are created */
    const tn_kernels *given_kernels;
    /* options of the stage ORDER; the library sets the member `memory` itself. Without the caller's
     * own program, candidate orders are compared by their layouts, as in tn_program_plan */
    const tn_program_options *program;
    /* program to use, of the graph as it runs, from a pass; it must outlive the compiled model */
    const tn_program *given_program;
    /* options of the stage RECOMPUTE; NULL, or share 0: nothing is recomputed. The library sets the
     * member `memory` itself. The stage recomputes tensors within a work budget (search.h).
     * Candidate orders are then compared by their live bytes */
    const tn_recompute_options *recompute;
    /* true: use the fastest kernel for every operator, regardless of its scratch. If false, the
     * stage SCRATCH makes an operator with scratch memory that raises the peak run as tiles
     * (tn_kernels_way), which is a little slower. The stage does this neither where operators run
     * concurrently nor with `without_reuse` */
    bool fastest;
    /* options of the stage FIT; NULL, or budget 0: no budget. If the plan needs more than the
     * budget, the stage finds the fastest program within it (fit.h), starting from the program of
     * ORDER, with occupancy and layout. Not with `without_reuse` or `unplanned`. The budget covers
     * all memory of the device (tn_setup_needs.total). The library sets the members
     * `fixed_bytes`, `memory` and `plan` itself */
    const tn_fit_options *fit;
    /* costs of the graph as it runs; read during the call. NULL: measured when needed; without
     * kernels, modelled for a machine that does eight operations in the time it moves one byte */
    const tn_costs *costs;
    /* options of the stage OCCUPY. If there are kernels, the library sets the member `workspaces`
     * itself */
    const tn_occupancy_options *memory;
    /* place of static memory. With ARENA and FIRST, the library sets the member `statics` of the
     * occupancy options itself */
    tn_static_place statics;
    bool without_reuse; /* true: give every tensor memory of its own, as a baseline for plans */
    const tn_plan_options *plan; /* options of the stage PLAN, for the layout; NULL: defaults */
    /* true: make no layout, for a pool or a layout made elsewhere. Candidate orders are then
     * compared by their live bytes */
    bool unplanned;
    /* for the stage DIVIDE, which comes after FIT; NULL: one rank. The divided program has the
     * graph of the whole program; it may add communication instructions and reorder the others */
    const tn_divide *divide;
    /* Options for split operators, a step after REWRITE (rewrite.h); NULL: operators run whole. A
     * search finds regions if the plan of the unsplit
     * graph misses the budget, or for a work budget. Concatenations of tiles are written in place
     * (memory->fuse_concat). A search does not accept the caller's own kernels, program, costs,
     * `workspaces` or `claimed`, which refer to the unsplit graph. Given regions are applied
     * without a search, also by tn_setup_from. Not with `fit`: tn_fit_graph combines both
     * (fit.h). If the context's `progress` stops the search, the result is the smallest so far,
     * which may be unsplit; with a budget, E_STOPPED */
    const struct tn_setup_split *split;
    /* Options of the stage STREAM, which comes after FIT and uses `costs` as FIT does. Static
     * memory is then placed in the arena. Not with `divide`, `without_reuse` or `unplanned`. NULL:
     * weights stay in memory */
    const tn_setup_stream *stream;
    /* Options of the stage STREAMS (program.h); NULL, or `count` 1: operators run one after the
     * other. With `plan` of the objective BYTES, no wait is added for memory. With the others,
     * the layout is that of the program on one stream, and the streams wait where it demands.
     * E_UNSUPPORTED with a technique that adds other instructions (`recompute`, `fit`, `stream`,
     * `divide`), if the technique changes the program */
    const tn_program_streams_options *streams;
    /* Makes the costs of the graph as it runs, if `costs` is NULL and costs are needed. NULL: costs
     * are measured or modelled, as described at `costs` */
    tn_status (*make_costs)(void *self, const tn_setup *setup, tn_costs **costs, tn_error *error);
    void *make_costs_self;
    /* Rules about single tensors (fit.h), for RECOMPUTE, and for FIT within its budget. Operators
     * are then not split, and weights are not streamed, for a budget. NULL: no rules */
    const tn_rules *rules;
    /* Number of experts in the cache; 0: all experts are in memory. The experts of the operators
     * MoE and QMoE (domain com.microsoft) stay in their file, and an operator reads those that its
     * router chooses. A step of REWRITE; E_UNSUPPORTED if the graph has no such operator with
     * constant weights, or with `split` or the caller's own kernels or program. */
    uint32_t expert_slots;
} tn_setup_options;
#define TN_SETUP_OPTIONS_INIT                                                                      \
    TN_INIT(tn_setup_options, TN_SET(struct_size, sizeof(tn_setup_options)))

/* Compiles a graph by running all stages. The graph must outlive the compiled model.
 *
 * Errors: those of tn_graph_rewrite, tn_kernels_create, tn_program_plan, tn_program_recompute,
 * tn_costs_measure and tn_fit.
 */
TN_API TN_CHECKED tn_status tn_setup_create(const tn_graph *graph, const tn_setup_options *options,
                                            tn_setup **setup, tn_error *error);
/* Derives a compiled model from another: it shares the results of `base` before `stage`, and runs
 * the stages from there on with `options`. Either of the two may be destroyed first. */
TN_API TN_CHECKED tn_status tn_setup_from(const tn_setup *base, tn_setup_stage stage,
                                          const tn_setup_options *options, tn_setup **setup,
                                          tn_error *error);
/* Destroys a compiled model; NULL has no effect. Its engines must be destroyed first. */
TN_API void tn_setup_destroy(tn_setup *setup);

/* Computes the trade-off between memory and work of split operators. The results are compiled
 * models, sorted: the first needs the fewest bytes with at most `options->split->share` extra work;
 * the last is unsplit. Each needs more bytes and less work than the one before it. If `progress`
 * stops the call, the compiled models found so far are returned.
 *
 * options  `split->share` above 0; `fit` and the budget of `split` are ignored
 * count    capacity of `setups`, at least 2
 * setups   out, [count]; the first *found are set, and the caller destroys each
 *
 * Errors: those of tn_setup_create; no compiled model is returned then. Cost: one search, and the
 * compiled models. */
TN_API TN_CHECKED tn_status tn_setup_split_sweep(const tn_graph *graph,
                                                 const tn_setup_options *options, uint32_t count,
                                                 tn_setup **setups, uint32_t *found,
                                                 tn_error *error);

/* --- results; they live as long as the compiled model ----------------------------------------- */

TN_API const tn_graph *tn_setup_given(const tn_setup *setup);
TN_API const tn_graph *tn_setup_graph(const tn_setup *setup); /* Returns the graph that runs. */
/* Returns the kernels; NULL with no_kernels. */
TN_API const tn_kernels *tn_setup_kernels(const tn_setup *setup);
TN_API const tn_program *tn_setup_program(const tn_setup *setup);
TN_API const tn_occupancy *tn_setup_occupancy(const tn_setup *setup);
/* Adds the events of the program to the problem of the occupancy (tn_occupancy_add_events), so that
 * tn_layout_waits counts the waits of any layout. Must not be called while another thread uses the
 * compiled model. */
TN_API TN_CHECKED tn_status tn_setup_add_events(tn_setup *setup, tn_error *error);
/* Adds the reuse costs of the program (tn_occupancy_add_reuse_costs), so that
 * tn_layout_reuse_cost counts the pairs of any layout. Otherwise as tn_setup_add_events. */
TN_API TN_CHECKED tn_status tn_setup_add_reuse_costs(tn_setup *setup, tn_error *error);
/* Returns the layout; NULL if the compiled model is unplanned. */
TN_API const tn_layout *tn_setup_layout(const tn_setup *setup);
/* Kernels that run as tiles to need less scratch. NULL: scratch does not raise the peak, or no such
 * kernel lowers it. */
typedef struct tn_scratch_report {
    uint32_t operators;     /* number of operators that run as tiles */
    uint64_t before, after; /* live bytes at the peak step, before and after the change */
} tn_scratch_report;
TN_API const tn_scratch_report *tn_setup_scratch(const tn_setup *setup);
/* Returns the additional work and the effect of the stage RECOMPUTE. NULL: not requested, or the
 * stage FIT chose again which tensors are recomputed. */
TN_API const tn_recompute_report *tn_setup_recomputed(const tn_setup *setup);
/* The split operators of a compiled model. NULL: all operators run whole. */
typedef struct tn_split_report {
    /* [count] regions of the graph that was split: the rewritten graph, with the recomputed
     * tensors */
    const tn_split_region *regions;
    uint32_t count;
    const tn_split_again *again; /* [again_count] tensors that are recomputed for late readers */
    uint32_t again_count;
    tn_cost whole, parts; /* work of one run, of the unsplit and of the split graph */
    /* extra work as a share, as the search found it (tn_split_choice.work); 0: the regions were
     * given */
    double work;
    /* bytes of the unsplit plan: its arena, and all its memory */
    uint64_t whole_arena, whole_total;
} tn_split_report;
TN_API const tn_split_report *tn_setup_splits(const tn_setup *setup);
/* Returns how FIT met the budget. NULL: no budget was given, or the plan met it without FIT.
 * Occupancy and layout of the result were moved to the compiled model and are not in the result. */
TN_API const tn_fit_result *tn_setup_fitted(const tn_setup *setup);
/* Returns how weights are streamed. NULL: all weights stay in memory. Program, occupancy and layout
 * of the result were moved to the compiled model and are not in the result. */
TN_API const tn_stream_result *tn_setup_streamed(const tn_setup *setup);
/* Experts of mixtures that stay in their file and are read into a cache (option expert_slots). */
typedef struct tn_expert_cache {
    uint32_t operators;    /* number of mixtures */
    uint32_t experts;      /* number of experts of all these mixtures */
    uint32_t slots;        /* largest number of experts in the cache at the same time */
    uint64_t expert_bytes; /* bytes of the largest expert */
    uint64_t cache_bytes;  /* bytes of the cache with its tables; they are static memory */
    uint64_t bytes;        /* bytes of all experts */
} tn_expert_cache;
/* Returns the cache of experts. NULL: all experts are in memory. */
TN_API const tn_expert_cache *tn_setup_experts(const tn_setup *setup);
/* Returns the blocks of static memory, [*count]: in the layouts that the kernels need, or in plain
 * layout without kernels. If the blocks are bodies of the problem, they are in the order of those
 * bodies. */
TN_API const tn_static_block *tn_setup_statics(const tn_setup *setup, uint32_t *count);

typedef struct tn_setup_needs {
    uint64_t arena;   /* bytes of the arena: the layout's peak; without a layout, the lower bound */
    uint64_t statics; /* bytes of static memory, each block aligned */
    /* all memory of the device: arena + statics, or the arena alone if it contains both */
    uint64_t total;
} tn_setup_needs;
TN_API tn_setup_needs tn_setup_need(const tn_setup *setup);
/* Returns the wall time of a stage in seconds; 0 if its result is shared with another compiled
 * model. */
TN_API double tn_setup_seconds(const tn_setup *setup, tn_setup_stage stage);

/* --- opening an engine of a compiled model -----------------------------------------------------
 */

/* Creates an engine on a device of its own. The compiled model must outlive the engine.
 *
 * device   NULL: defaults. Capacity 0: exactly the bytes needed, with no byte to spare
 * options  NULL: defaults; with a pool the layout is ignored
 *
 * Errors: E_EXHAUSTED (the capacity is too small; the message names a sufficient one), E_INVALID
 * (no kernels, or no layout), those of tn_device_create and tn_engine_create. */
TN_API TN_CHECKED tn_status tn_setup_open(const tn_setup *setup, const tn_device_options *device,
                                          const tn_engine_options *options, tn_engine **engine,
                                          tn_error *error);

/* --- measure --------------------------------------------------------------------------------- */

/* Measures the costs of operators on this machine by running them.
 *
 *     // ... kernels: of tn_kernels_create, or tn_setup_kernels
 *     tn_costs *costs;
 *     tn_measure_report report;
 *     if (tn_costs_measure(kernels, NULL, &costs, &report, &error))
 *         return 2;
 *     // tn_costs_of(costs, op) picoseconds
 *     tn_costs_destroy(costs);
 *
 * Identical operators (same type, attributes, shapes and element types) are run once, with the
 * kernels of a real run. Repeated forms are measured as well. The time of an operator depends on
 * the caches. So the operators run in rounds, in the order of the graph, each with its own memory.
 * Before an operator runs again, all others have used the caches, as in a real step. With a
 * compiled model, whole steps are run as well.
 *
 * The data is generated; an operator with data-dependent time can take another time in a real run.
 * Units: picoseconds (search.h), seconds, bytes.
 * Threads: a call uses the threads of its kernels; no other code should use them meanwhile.
 */

typedef struct tn_measure_options {
    size_t struct_size;
    /* services of the caller, which include `progress`; NULL: defaults; must outlive the costs */
    const tn_context *context;
    /* time limit in seconds: no new round begins after it; 0: 20. The first round always ends */
    double seconds;
    uint32_t rounds; /* largest number of rounds, after a first round for warming up; 0: 7 */
    /* memory limit in bytes, but at least the memory of the largest operator; 0: 2 GiB */
    uint64_t bytes;
    /* Occupancy of a program of the graph: operators that are in place in it are measured in place.
     * NULL: no operator is in place. */
    const tn_occupancy *occupancy;
    /* [operators] the operators to measure; all others cost nothing. NULL: all operators */
    const bool *only;
    /* A compiled model with these kernels, or NULL. A few steps of its program are run, with
     * generated weights and inputs, and all costs are scaled so that their sum is the time of a
     * step. Omitted if the program does more than compute, or needs more than `bytes`. */
    const tn_setup *setup;
} tn_measure_options;
#define TN_MEASURE_OPTIONS_INIT                                                                    \
    TN_INIT(tn_measure_options, TN_SET(struct_size, sizeof(tn_measure_options)))

typedef struct tn_measure_report {
    uint32_t operators; /* number of operators that run */
    uint32_t alike;     /* number of different operators and repeated forms that were run */
    /* Number of operators that could not run with generated data. They cost the time of copying
     * their bytes. */
    uint32_t unmeasured;
    uint64_t bytes;      /* bytes allocated for running single operators */
    double step_seconds; /* seconds of the fastest step of options->setup; 0: no step was run */
    double scale;        /* factor by which costs were scaled to `step_seconds`; 1 without a step */
    double seconds;
} tn_measure_report;

/* Measures the costs of the kernels' graph. The kernels need not outlive the costs.
 *
 * report  out, may be NULL
 * Errors: E_STOPPED (by `progress`), E_NO_MEMORY, E_EXHAUSTED (the machine has too little memory
 * for the largest operator). Cost: the rounds; each takes the time of all different operators. */
TN_API TN_CHECKED tn_status tn_costs_measure(const tn_kernels *kernels,
                                             const tn_measure_options *options, tn_costs **costs,
                                             tn_measure_report *report, tn_error *error);

/* Measures the additional seconds of a run in which operators of the compiled model use tiles for
 * less scratch (tn_setup_scratch). Both variants are measured, with the memory of the fastest
 * variant. A result below 0 means that tiles are faster. Errors: those of tn_costs_measure;
 * E_INVALID (no operator uses tiles). */
TN_API TN_CHECKED tn_status tn_setup_pieces_cost(const tn_setup *setup, double *seconds,
                                                 tn_error *error);

/* Measures shares of elements that are 0 in one run of the program of a compiled model, for
 * tn_fit_options.zeros. The plan must fit in the memory of this machine. Only `zeros` is changed:
 * parameters are copies.
 *
 * engine  `read`, `self` and `context` are used; NULL: defaults
 * inputs  as in tn_engine_run; NULL: generated numbers between -1 and 1, and indices of 0
 * zeros   [tensors of tn_setup_graph]: earlier results, or -1; each is lowered to the new share
 * Errors: those of tn_setup_open and tn_engine_run. Cost: a run, and one pass over all computed
 * data. */
TN_API TN_CHECKED tn_status tn_setup_zeros(const tn_setup *setup, const tn_engine_options *engine,
                                           const tn_array *inputs, uint32_t input_count,
                                           float *zeros, tn_error *error);

/* Predicts the time of a run of a compiled model's program from costs: tn_simulate with the
 * operators' costs and its occupancy. If the options state no rate for encoding, the rate of a copy
 * is used.
 *
 * costs    of tn_setup_graph; NULL: measured now (E_INVALID: there are no kernels)
 * options  NULL: defaults. The library sets the members `costs`, `again` and `occupancy` itself
 * Errors: those of tn_simulate and tn_costs_measure; E_INVALID (costs of another graph). */
TN_API TN_CHECKED tn_status tn_setup_predict(const tn_setup *setup, const tn_costs *costs,
                                             const tn_simulate_options *options,
                                             tn_simulation *simulation, tn_error *error);

/* --- the components of a session ------------------------------------------------------------- */

/* Return the components of a session, to read and set static tensors, to measure, and to draw. The
 * session owns them. */
TN_API tn_engine *tn_session_engine(tn_session *session);
TN_API const tn_setup *tn_session_setup(const tn_session *session);

#ifdef __cplusplus
}
#endif
#endif
