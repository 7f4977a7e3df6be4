/* tflm.h - predicts the memory that TensorFlow Lite Micro uses for a model, from the file
 * alone.
 *
 *   tflm_kernels.c  memory that each kernel requests: options, own data, scratch
 *   tflm_cmsis.c    what CMSIS-NN's kernels request instead, by version, core and compiler
 *   tflm_esp.c      what ESP-NN's kernels request in addition, by version and chip
 *   tflm_builds.c   the libraries, versions and revisions that are possible
 *   tflm_planner.c  its planner: lifetimes, then online buffers around offline ones
 *   tflm_arena.c    the arena as a whole: head, tail, temporary
 */
#ifndef TN_IMPORT_TFLM_H
#define TN_IMPORT_TFLM_H

#include <tenure/rewrite.h>
#include "io/import/tflite/tflite_plan.h"

#define TFLM_ALIGNMENT 16u   /* alignment of tensors, scratch buffers and kernels' buffers */
#define TFLM_SCRATCH_MAX 8u  /* limit of known scratch requests of one operator */
#define TFLM_BUFFERS_MAX 10u /* limit of persistent buffers of one kernel */
#define TFLM_BUILDS_MAX 96u  /* limit of combinations of libraries, versions and revisions */
/* limit of buffers; the planner's time grows with the square of their number */
#define TFLM_PLANNED_MAX 20000u

/* A tensor of the file. Tensors are numbered across all subgraphs. */
typedef struct tflm_tensor {
    const int64_t *shape; /* [rank] extents */
    uint32_t rank;
    tn_dtype dtype;
    uint32_t channels; /* number of scales of the tensor's quantisation; 0: it is not quantised */
    bool is_constant, is_variable, is_unknown; /* is_unknown: the tensor's size is unknown */
    /* number, from 1, of the operator VAR_HANDLE that computes the tensor; 0: another operator
     * computes it */
    uint32_t handle_of;
    uint64_t elements;
    uint64_t bytes; /* bytes as the run time counts them: 4-bit elements take a byte each */
} tflm_tensor;

/* An operator, with the requests of its kernel. */
typedef struct tflm_op {
    const tflite_code *code; /* the operator's type, by name and by number */
    tn__flat_table table;
    uint32_t subgraph;
    tn__flat_vector inputs, outputs; /* numbers of tensors within the subgraph */
    uint32_t scratch_count, first_scratch;
} tflm_op;

/* One combination of kernel library, versions and compile options. */
typedef struct tflm_build {
    tn_micro_kernels kernels; /* the library; never TN_MICRO_ANY */
    uint32_t version; /* version of the library: major * 1000000 + minor * 10000 + patch * 100 */
    const char *name; /* name of the version; "" for the reference kernels */
    uint32_t runtime; /* revision of TensorFlow Lite Micro as a date, such as 20250131 */
    bool armclang;
    bool small; /* true: compiled with KERNELS_OPTIMIZED_FOR_SIZE */
} tflm_build;

#define TFLM_VERSION(major, minor, patch) ((major)*1000000u + (minor)*10000u + (patch)*100u)

typedef struct tflm_model {
    const tflite_plan *plan;
    const tn_micro_options *options;
    const tflm_build *build; /* the build that sizes are being computed for */
    tn__arena arena;
    tflm_tensor *tensors; /* [plan->first[subgraphs]] the tensors of all subgraphs */
    tflite_code *codes;
    uint32_t code_count;
    tflm_op *ops;       /* operators of all subgraphs, sorted by subgraph */
    uint64_t *first_op; /* [subgraphs + 1] index of the first operator of each subgraph */
    /* [scratch_count] bytes of the scratch requests, in the order in which kernels make them */
    uint64_t *scratch;
    size_t scratch_count;
    tn_error *error;
} tflm_model;

/* The memory that a kernel requests. */
typedef struct tflm_need {
    /* bytes of the C struct for the operator's builtin options, and its alignment */
    uint64_t options, options_alignment;
    uint64_t buffers[TFLM_BUFFERS_MAX]; /* bytes of the kernel's own data, which is persistent */
    uint32_t buffer_count;
    uint64_t scratch[TFLM_SCRATCH_MAX]; /* bytes of scratch memory while the kernel runs */
    uint32_t scratch_count;
    bool is_known; /* false: a custom operator, or one that no table lists */
} tflm_need;

/* Computes size and alignment of a C struct from a description of its fields: p pointer, z size_t,
 * i 4 bytes, e enum, b bool, h 2 bytes, d 8 bytes. A number repeats the field after it. Returns 0
 * on overflow; `alignment` may be NULL. */
uint64_t tn__tflm_struct(tn_micro_target target, const char *fields, uint64_t *alignment);
#define TN__TFLM_SIZE(target, fields) tn__tflm_struct(target, fields, NULL)

/* Extents of a convolution or a pooling operator, each below 2^31. */
typedef struct tflm_window {
    /* height, width and channels (h, w, c) of input (i), filter (f) and output (o) */
    uint64_t ih, iw, ic, fh, fw, oh, ow, oc;
    uint64_t filter_channels, batch, multiplier;
    /* padding at the top and at the left; vertical and horizontal stride */
    uint64_t ph, pw, sh, sw;
    bool dilated;
} tflm_window;
tflm_window tn__tflm_window(const tflm_model *model, const tflm_op *op);

/* Computes the memory that the kernel of one operator requests in the current build. */
void tn__tflm_need(const tflm_model *model, const tflm_op *op, tflm_need *need);
/* Computes the scratch of the reference kernel. The functions for other libraries call this one for
 * operators that run the reference kernel. */
void tn__tflm_reference(const tflm_model *model, const tflm_op *op, tflm_need *need);
/* Compute the memory that the kernel of CMSIS-NN or ESP-NN requests. tn__tflm_cmsis returns false
 * if the library has no kernel of its own for this operator; tn__tflm_esp returns true, because it
 * adds the reference kernel's scratch itself. */
bool tn__tflm_cmsis(const tflm_model *model, const tflm_op *op, tflm_need *need);
bool tn__tflm_esp(const tflm_model *model, const tflm_op *op, tflm_need *need);
/* The scratch of a convolution, as the library's size function computes it. wide: the activations
 * are int16. packed: the filter has 4 bits. most: returns the larger result if the run time leaves
 * an argument of that function undefined. */
uint64_t tn__tflm_cmsis_window(const tflm_build *build, tn_micro_target target, bool depthwise,
                               bool wide, bool packed, bool most, const tflm_window *w);
uint64_t tn__tflm_esp_window(uint32_t version, tn_micro_target target, bool depthwise,
                             const tflm_window *w);
void tn__tflm_buffer(tflm_need *need, uint64_t bytes);
void tn__tflm_scratch(tflm_need *need, uint64_t bytes);
bool tn__tflm_named(const tflm_op *op, const char *type);
uint64_t tn__tflm_extent(const tflm_tensor *tensor, uint32_t axis);
uint64_t tn__tflm_last_extent(const tflm_tensor *tensor);
uint64_t tn__tflm_up(uint64_t value, uint64_t to); /* saturates */
uint64_t tn__tflm_option(const tflm_op *op, uint32_t field, uint32_t bytes, uint64_t otherwise);

/* Lists the combinations that the options leave open; there is at least one. */
tn_status tn__tflm_builds(const tn_micro_options *options, tflm_build builds[TFLM_BUILDS_MAX],
                          uint32_t *count, tn_error *error);
const char *tn__tflm_kernels_name(tn_micro_kernels kernels);
const tflm_tensor *tn__tflm_input(const tflm_model *model, const tflm_op *op, uint32_t index);
const tflm_tensor *tn__tflm_output(const tflm_model *model, const tflm_op *op, uint32_t index);

/* tn_micro_arena_of for a file in memory, without a path in errors. */
tn_status tn__tflm_arena_from(const char *name, tn__span bytes, const tn_import_options *import,
                              const tn_graph *graph, const uint64_t *offsets,
                              const tn_micro_options *options, tn_micro_arena *arena,
                              uint64_t *placed, tn_error *error);

/* tn_micro_arena_of and tn_micro_workspaces for a file that is already open. */
tn_status tn__tflm_arena_at(const tflite_plan *plan, const tn_graph *graph, const uint64_t *offsets,
                            const tn_micro_options *options, tn_micro_arena *arena,
                            uint64_t *placed);
tn_status tn__tflm_workspaces_of(const tflite_plan *plan, const tn_graph *graph,
                                 const tn_micro_options *options, uint64_t *workspaces);

/* Computes the persistent bytes of each operator of the graph: its structs, its options, its
 * kernel's data, a tensor. *move receives these bytes for a SLICE, a PAD or a CONCATENATION. */
tn_status tn__tflm_kept_of(const tflite_plan *plan, const tn_graph *graph,
                           const tn_micro_options *options, uint64_t *kept, uint64_t *move);

/* Computes the head of the arena. offsets: [tensors of the file], -1 for tensors that are not
 * fixed; receives where the run time's planner places each tensor. *head: its bytes. *planned:
 * number of buffers in it. Errors: E_UNSUPPORTED (too many buffers), E_NO_MEMORY. Cost:
 * O(buffers^2). */
tn_status tn__tflm_online(tflm_model *model, int64_t *offsets, uint64_t *head, uint64_t *planned);

#endif
