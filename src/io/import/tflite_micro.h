/* tflite_micro.h - predicts the memory that TensorFlow Lite Micro uses for a model, from the file
 * alone.
 *
 *   tflite_kernels.c  memory that each kernel requests: options, own data, scratch
 *   tflite_cmsis.c    what CMSIS-NN's kernels request instead, by version, core and compiler
 *   tflite_esp.c      what ESP-NN's kernels request in addition, by version and chip
 *   tflite_builds.c   the libraries, versions and revisions that are possible
 *   tflite_online.c   its planner: lifetimes, then online buffers around offline ones
 *   tflite_micro.c    the arena as a whole: head, tail, temporary
 */
#ifndef TN_IMPORT_TFLITE_MICRO_H
#define TN_IMPORT_TFLITE_MICRO_H

#include "io/import/tflite_plan.h"

#define MICRO_ALIGNMENT 16u      /* of tensors, scratch and kernels' buffers */
#define MICRO_SCRATCH_MAX 8u     /* known requests of one operator */
#define MICRO_BUFFERS_MAX 10u    /* persistent buffers of one kernel */
#define MICRO_BUILDS_MAX 96u     /* combinations of libraries, versions and revisions */
#define MICRO_PLANNED_MAX 20000u /* buffers; the planner's time grows with their square */

/* A tensor of the file, by its number among those of all subgraphs. */
typedef struct micro_tensor {
    const int64_t *shape; /* [rank] */
    uint32_t rank;
    tn_dtype dtype;
    uint32_t channels;                         /* scales of its quantisation; 0: not quantised */
    bool is_constant, is_variable, is_unknown; /* unknown: its size is unknown */
    uint32_t handle_of; /* the operator VAR_HANDLE that computes it, counted from 1; 0: another */
    uint64_t elements;
    uint64_t bytes; /* as the run time counts them: 4-bit elements take a byte each */
} micro_tensor;

/* An operator, with the requests of its kernel. */
typedef struct micro_op {
    const tflite_code *code; /* type and number */
    tn__flat_table table;
    uint32_t subgraph;
    tn__flat_vector inputs, outputs; /* numbers within the subgraph */
    uint32_t scratch_count, first_scratch;
} micro_op;

/* One combination of kernel library, versions and compile options. */
typedef struct micro_build {
    tn_micro_kernels kernels; /* never TN_MICRO_ANY */
    uint32_t version;         /* of the library, major * 1000000 + minor * 10000 + patch * 100 */
    const char *name;         /* of the version; "" of the reference kernels */
    uint32_t runtime;         /* revision of TensorFlow Lite Micro, as 20250131 */
    bool armclang;
    bool small; /* KERNELS_OPTIMIZED_FOR_SIZE */
} micro_build;

#define MICRO_VERSION(major, minor, patch) ((major)*1000000u + (minor)*10000u + (patch)*100u)

typedef struct micro_model {
    const tflite_plan *plan;
    const tn_micro_options *options;
    const micro_build *build; /* of the sizes that are computed now */
    tn__arena arena;
    micro_tensor *tensors; /* [plan->first[subgraphs]] */
    tflite_code *codes;
    uint32_t code_count;
    micro_op *ops;      /* of all subgraphs, one after the other */
    uint64_t *first_op; /* [subgraphs + 1] */
    uint64_t *scratch;  /* [scratch_count] bytes, in the order in which kernels ask */
    size_t scratch_count;
    tn_error *error;
} micro_model;

/* The memory that a kernel requests. */
typedef struct micro_need {
    uint64_t options, options_alignment; /* its builtin options, as a struct */
    uint64_t buffers[MICRO_BUFFERS_MAX]; /* its own data, persistent */
    uint32_t buffer_count;
    uint64_t scratch[MICRO_SCRATCH_MAX]; /* while it runs */
    uint32_t scratch_count;
    bool is_known; /* false: a custom operator, or one that no table lists */
} micro_need;

/* Size and alignment of a C struct from its fields: p pointer, z size_t, i 4 bytes, e enum, b bool,
 * h 2 bytes, d 8 bytes; a number repeats the next field. */
uint64_t tn__micro_struct(tn_micro_target target, const char *fields, uint64_t *alignment);
#define TN__MICRO_SIZE(target, fields) tn__micro_struct(target, fields, NULL)

/* Extents of a convolution or a pooling operator, each below 2^31. */
typedef struct micro_window {
    uint64_t ih, iw, ic, fh, fw, oh, ow, oc; /* input, filter, output */
    uint64_t filter_channels, batch, multiplier;
    uint64_t ph, pw, sh, sw; /* padding at the top and at the left, strides */
    bool dilated;
} micro_window;
micro_window tn__micro_window(const micro_model *model, const micro_op *op);

/* The memory that one kernel of the build requests. */
void tn__micro_need(const micro_model *model, const micro_op *op, micro_need *need);
/* The scratch of the reference kernel, called by the rules of libraries that keep it. */
void tn__micro_reference(const micro_model *model, const micro_op *op, micro_need *need);
/* The rules of a library. false: it has no kernel of its own for this operator. */
bool tn__micro_cmsis(const micro_model *model, const micro_op *op, micro_need *need);
bool tn__micro_esp(const micro_model *model, const micro_op *op, micro_need *need);
/* The scratch of a convolution by the library's size function. wide: int16 activations; packed: a
 * filter of 4 bits; most: the larger answer where the runtime leaves an input of it open. */
uint64_t tn__micro_cmsis_window(const micro_build *build, tn_micro_target target, bool depthwise,
                                bool wide, bool packed, bool most, const micro_window *w);
uint64_t tn__micro_esp_window(uint32_t version, tn_micro_target target, bool depthwise,
                              const micro_window *w);
void tn__micro_buffer(micro_need *need, uint64_t bytes);
void tn__micro_scratch(micro_need *need, uint64_t bytes);
bool tn__micro_named(const micro_op *op, const char *type);
uint64_t tn__micro_extent(const micro_tensor *tensor, uint32_t axis);
uint64_t tn__micro_last_extent(const micro_tensor *tensor);
uint64_t tn__micro_up(uint64_t value, uint64_t to); /* saturates */
uint64_t tn__micro_option(const micro_op *op, uint32_t field, uint32_t bytes, uint64_t otherwise);

/* The combinations that the options leave open, at least one. */
tn_status tn__micro_builds(const tn_micro_options *options, micro_build builds[MICRO_BUILDS_MAX],
                           uint32_t *count, tn_error *error);
const char *tn__micro_kernels_name(tn_micro_kernels kernels);
const micro_tensor *tn__micro_input(const micro_model *model, const micro_op *op, uint32_t index);
const micro_tensor *tn__micro_output(const micro_model *model, const micro_op *op, uint32_t index);

/* tn_micro_arena_of from memory, without a path in errors. */
tn_status tn__micro_arena_from(const char *name, tn__span bytes, const tn_import_options *import,
                               const tn_graph *graph, const uint64_t *offsets,
                               const tn_micro_options *options, tn_micro_arena *arena,
                               uint64_t *placed, tn_error *error);

/* tn_micro_arena_of and tn_micro_workspaces of a file that is open. */
tn_status tn__micro_arena_at(const tflite_plan *plan, const tn_graph *graph,
                             const uint64_t *offsets, const tn_micro_options *options,
                             tn_micro_arena *arena, uint64_t *placed);
tn_status tn__micro_workspaces_of(const tflite_plan *plan, const tn_graph *graph,
                                  const tn_micro_options *options, uint64_t *workspaces);

/* The persistent bytes of each operator of the graph: its structures, options, its kernel's data, a
 * tensor. *move: the same for a slice, a pad or a join. */
tn_status tn__micro_kept_of(const tflite_plan *plan, const tn_graph *graph,
                            const tn_micro_options *options, uint64_t *kept, uint64_t *move);

/* The head. offsets: [tensors of the file], -1 if not fixed; receives where the run time's planner
 * places each tensor. *head: bytes; *planned: buffers in it.
 * Errors: E_UNSUPPORTED (too many), E_NO_MEMORY. Cost: O(buffers^2). */
tn_status tn__micro_online(micro_model *model, int64_t *offsets, uint64_t *head, uint64_t *planned);

#endif
