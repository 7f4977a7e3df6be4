/* dnnl.c - finds oneDNN at run time, and contains the code that all oneDNN kernels share (dnnl.h).
 *
 * Memory. Every primitive gets its scratchpad from us, and memory objects are created in `prepare`;
 * `run` only sets addresses. One use of memory cannot be planned: implementations with "gemm" in
 * their name allocate packed copies on the heap while they run, up to some MB per call. Therefore
 * another implementation is chosen if there is one. On machines without AVX-512, all matrix
 * products are such implementations.
 *
 * Choice. oneDNN lists its implementations with the best first, but it lists "gemm" before some
 * that allocate nothing. If it has nothing better, it also offers reference loops ("ref") that are
 * much slower. These are refused, because our own loops are no slower.
 *
 * Threads. OpenMP stores the number of threads per calling thread, so each run sets it. A run holds
 * the library's lock, because two threads may run two engines that share kernels.
 *
 * Source: oneDNN 2.6 developer guide (programming model, primitive attributes).
 */
#include "engine/kernels/dnnl.h"

#ifdef TENURE_DNNL
#include <dlfcn.h>
#include <stdio.h>

/* --- loading the library, and describing tensors to it --- */

static const struct {
    const char *name;
    size_t offset;
} dnnl_symbols[] = {
#define TN_SYMBOL(name) {#name, offsetof(tn__dnnl, name)},
#include "engine/kernels/dnnl_symbols.def"
#undef TN_SYMBOL
};

tn_status tn__dnnl_status(dnnl_status_t outcome) {
    return outcome == dnnl_success         ? TN_OK
           : outcome == dnnl_out_of_memory ? TN_E_NO_MEMORY
                                           : TN_E_UNSUPPORTED;
}

static tn_status dnnl_resolve(tn__dnnl *library, tn_error *error) {
    /* RTLD_NODELETE, because the threads of the library continue after its handle is closed. */
    library->handle = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library->handle == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "oneDNN (libdnnl.so.2) cannot be loaded; install Debian's package libdnnl2");
    for (size_t i = 0; i < sizeof dnnl_symbols / sizeof *dnnl_symbols; i++) {
        void *found = dlsym(library->handle, dnnl_symbols[i].name);
        if (found == NULL)
            TN_FAIL(error, TN_E_UNSUPPORTED,
                    "oneDNN has no %s; install Debian 12's package libdnnl2 (2.6)",
                    dnnl_symbols[i].name);
        memcpy((char *)library + dnnl_symbols[i].offset, &found, sizeof found);
    }
    void *threads = dlsym(library->handle, "omp_set_num_threads");
    if (threads == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "this oneDNN does not run its threads with OpenMP; install Debian's libdnnl2");
    memcpy(&library->set_threads, &threads, sizeof threads);
    const dnnl_version_t *version = library->dnnl_version();
    if (version->major != 2 || version->minor < 6)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "oneDNN is version %d.%d; 2.6 or later below 3 is needed (package libdnnl2)",
                version->major, version->minor);
    return TN_OK;
}

static tn_status dnnl_start(tn__dnnl *library, tn_error *error) {
    TN_TRY(dnnl_resolve(library, error));
    library->set_threads((int)library->threads);
    tn_status status = tn__dnnl_status(library->dnnl_engine_create(&library->engine, dnnl_cpu, 0));
    if (status == TN_OK)
        status = tn__dnnl_status(library->dnnl_stream_create(&library->stream, library->engine,
                                                             dnnl_stream_default_flags));
    if (status != TN_OK) return tn__fail(error, status, "oneDNN cannot be started");
    return TN_OK;
}

tn_status tn__dnnl_open(const tn_context *context, uint32_t threads, tn__dnnl **library,
                        tn_error *error) {
    tn_context full = tn__context(context);
    tn__dnnl *made = tn__alloc_array(&full, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "oneDNN");
    made->context = full;
    made->threads = threads == 0 ? 1 : threads > 1024 ? 1024 : threads;
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        tn__free(&full, made, sizeof *made);
        return tn__no_memory(error, "a lock");
    }
    tn_status status = dnnl_start(made, error);
    if (status == TN_OK)
        *library = made;
    else
        tn__dnnl_close(made);
    return status;
}

void tn__dnnl_close(tn__dnnl *library) {
    if (library == NULL) return;
    if (library->stream != NULL) library->dnnl_stream_destroy(library->stream);
    if (library->engine != NULL) library->dnnl_engine_destroy(library->engine);
    if (library->handle != NULL) dlclose(library->handle);
    pthread_mutex_destroy(&library->lock);
    tn_context context = library->context;
    tn__free(&context, library, sizeof *library);
}

const char *tn__dnnl_isa(const tn__dnnl *library) {
    unsigned isa = (unsigned)library->dnnl_get_effective_cpu_isa();
    bool wide = (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    return wide                                                       ? "avx512"
           : (isa & dnnl_cpu_isa_avx2) == (unsigned)dnnl_cpu_isa_avx2 ? "avx2"
           : (isa & dnnl_cpu_isa_avx) == (unsigned)dnnl_cpu_isa_avx   ? "avx"
                                                                      : "sse41";
}

void tn__dnnl_tell(const tn__dnnl *library, char *text, size_t size) {
    const dnnl_version_t *version = library->dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d, %s", version->major, version->minor, version->patch,
             tn__dnnl_isa(library));
}

/* --- descriptors --- */

bool tn__dnnl_is_fit(const tn_tensor *tensor) {
    if (tensor == NULL || (tensor->dtype != TN_FLOAT32 && tensor->dtype != TN_BFLOAT16) ||
        tensor->rank == TN_RANK_UNKNOWN || tensor->rank > DNNL_MAX_NDIMS ||
        (tensor->flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE)) || tensor->format.block ||
        tensor->bytes == TN_SIZE_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < tensor->rank; d++)
        if (tensor->shape[d] <= 0) return false;
    return true;
}

bool tn__dnnl_all_fit(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < setup->op->input_count; i++)
        if (setup->op->inputs[i] != TN_NONE && !tn__dnnl_is_fit(tn__setup_input(setup, i)))
            return false;
    for (uint32_t i = 0; i < setup->op->output_count; i++)
        if (setup->op->outputs[i] != TN_NONE && !tn__dnnl_is_fit(tn__setup_output(setup, i)))
            return false;
    return true;
}

void tn__dnnl_strides(const tn_tensor *tensor, int64_t *strides) {
    bool last = tensor->format.order == TN_ORDER_NHWC && tensor->rank > 2;
    int64_t stride = last ? tensor->shape[1] : 1;
    for (uint32_t d = tensor->rank; d-- > 0;) {
        if (last && d == 1) {
            strides[1] = 1;
            continue;
        }
        strides[d] = stride;
        stride *= tensor->shape[d];
    }
}

tn_status tn__dnnl_strided(const tn__dnnl *library, tn_dtype dtype, uint32_t rank,
                           const int64_t *shape, const int64_t *strides, dnnl_memory_desc_t *desc) {
    static const int64_t one[1] = {1};
    if (rank == 0) return tn__dnnl_strided(library, dtype, 1, one, one, desc);
    if (rank > DNNL_MAX_NDIMS) return TN_E_UNSUPPORTED;
    return tn__dnnl_status(library->dnnl_memory_desc_init_by_strides(
        desc, (int)rank, shape, dtype == TN_BFLOAT16 ? dnnl_bf16 : dnnl_f32, strides));
}

tn_status tn__dnnl_flat(const tn__dnnl *library, const tn_tensor *tensor,
                        dnnl_memory_desc_t *desc) {
    const dnnl_dims_t count = {(int64_t)(tensor->bytes / (tn_dtype_bits(tensor->dtype) / 8))};
    const dnnl_dims_t one = {1};
    return tn__dnnl_strided(library, tensor->dtype, 1, count, one, desc);
}

tn_status tn__dnnl_desc(const tn__dnnl *library, const tn_tensor *tensor,
                        dnnl_memory_desc_t *desc) {
    int64_t strides[TN_RANK_MAX];
    tn__dnnl_strides(tensor, strides);
    return tn__dnnl_strided(library, tensor->dtype, tensor->rank, tensor->shape, strides, desc);
}

tn_status tn__dnnl_rows(const tn__dnnl *library, const tn_tensor *tensor, uint32_t first,
                        uint32_t last, dnnl_memory_desc_t *desc) {
    dnnl_dims_t shape = {1, 1, 1}, strides = {0};
    for (uint32_t d = 0; d < tensor->rank; d++)
        shape[d < first ? 0 : d < last ? 1 : 2] *= tensor->shape[d];
    strides[2] = 1;
    strides[1] = shape[2];
    strides[0] = shape[1] * shape[2];
    return tn__dnnl_strided(library, tensor->dtype, shape[2] == 1 ? 2 : 3, shape, strides, desc);
}

tn_status tn__dnnl_any(const tn__dnnl *library, dnnl_memory_desc_t *desc) {
    dnnl_memory_desc_t made;
    TN_TRY(tn__dnnl_status(library->dnnl_memory_desc_init_by_tag(
        &made, desc->ndims, desc->dims, desc->data_type, dnnl_format_tag_any)));
    *desc = made;
    return TN_OK;
}

/* --- attributes --- */

/* oneDNN's algorithm for each activation of ONNX. If an activation has parameters, they have the
 * same meaning in both. */
bool tn__dnnl_activation(const tn__dnnl_post *post, dnnl_alg_kind_t *kind, float *alpha,
                         float *beta) {
    static const struct {
        const char *type;
        dnnl_alg_kind_t kind;
        double alpha; /* parameter alpha of oneDNN; 0: take the parameter of the operator */
    } table[] = {
        {"Relu", dnnl_eltwise_relu, 0},
        {"LeakyRelu", dnnl_eltwise_relu, 0},
        {"Clip", dnnl_eltwise_clip_v2, 0},
        {"Sigmoid", dnnl_eltwise_logistic, 0},
        {"Tanh", dnnl_eltwise_tanh, 0},
        {"HardSwish", dnnl_eltwise_hardswish, 0},
        {"Swish", dnnl_eltwise_swish, 0},
        {"Gelu", dnnl_eltwise_gelu_erf, 0},
        {"GeluTanh", dnnl_eltwise_gelu_tanh, 0},
        {"Elu", dnnl_eltwise_elu, 0},
        {"Exp", dnnl_eltwise_exp, 0},
        {"Mish", dnnl_eltwise_mish, 0},
        {"Abs", dnnl_eltwise_abs, 0},
        {"Sqrt", dnnl_eltwise_sqrt, 0},
        {"Log", dnnl_eltwise_log, 0},
        {"Softplus", dnnl_eltwise_soft_relu, 1},
        {"Linear", dnnl_eltwise_linear, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].type, post->activation) != 0) continue;
        *kind = table[i].kind;
        *alpha = (float)(table[i].alpha != 0 ? table[i].alpha : post->alpha);
        *beta = (float)post->beta;
        return true;
    }
    return false;
}

static tn_status dnnl_add_posts(const tn__dnnl *library, const tn__dnnl_after *after,
                                dnnl_post_ops_t posts) {
    if (after->add != NULL)
        TN_TRY(tn__dnnl_status(
            library->dnnl_post_ops_append_binary(posts, dnnl_binary_add, after->add)));
    if (after->sum) TN_TRY(tn__dnnl_status(library->dnnl_post_ops_append_sum(posts, 1)));
    for (uint32_t i = 0; i < after->post_count; i++) {
        dnnl_alg_kind_t kind;
        float alpha, beta;
        if (!tn__dnnl_activation(&after->post[i], &kind, &alpha, &beta)) return TN_E_UNSUPPORTED;
        TN_TRY(tn__dnnl_status(library->dnnl_post_ops_append_eltwise(posts, 1, kind, alpha, beta)));
    }
    return TN_OK;
}

tn_status tn__dnnl_attr(const tn__dnnl *library, const tn__dnnl_after *after,
                        dnnl_primitive_attr_t *attr) {
    dnnl_primitive_attr_t made = NULL;
    dnnl_post_ops_t posts = NULL;
    tn_status status = tn__dnnl_status(library->dnnl_primitive_attr_create(&made));
    if (status != TN_OK) return status;
    TN_TRY_DONE(tn__dnnl_status(
        library->dnnl_primitive_attr_set_scratchpad_mode(made, dnnl_scratchpad_mode_user)));
    if (after != NULL && after->scale != 0 && after->scale != 1) {
        float scale = (float)after->scale;
        TN_TRY_DONE(
            tn__dnnl_status(library->dnnl_primitive_attr_set_output_scales(made, 1, 0, &scale)));
    }
    if (after != NULL && (after->add != NULL || after->sum || after->post_count > 0)) {
        TN_TRY_DONE(tn__dnnl_status(library->dnnl_post_ops_create(&posts)));
        TN_TRY_DONE(dnnl_add_posts(library, after, posts));
        TN_TRY_DONE(tn__dnnl_status(library->dnnl_primitive_attr_set_post_ops(made, posts)));
    }
    *attr = made;
    made = NULL;
done:
    if (posts != NULL) library->dnnl_post_ops_destroy(posts);
    if (made != NULL) library->dnnl_primitive_attr_destroy(made);
    return status;
}

tn_status tn__dnnl_after_of(const tn_op *op, tn__dnnl_after *after) {
    const tn_attr *names = tn__attr(op, "post");
    uint32_t alphas, betas;
    const double *alpha = tn__attr_floats(op, "post_alpha", &alphas);
    const double *beta = tn__attr_floats(op, "post_beta", &betas);
    if (names == NULL) return TN_OK;
    if (names->count > TN__DNNL_POST_MAX || alphas != names->count || betas != names->count)
        return TN_E_UNSUPPORTED;
    after->post_count = names->count;
    for (uint32_t i = 0; i < names->count; i++)
        after->post[i] = (tn__dnnl_post){names->strings[i], alpha[i], beta[i]};
    return TN_OK;
}

/* --- windows --- */

/* Computes the padding of one dimension. `missing`: number of elements by which the windows extend
 * beyond the input. `follows`: the total padding is `missing` even without auto_pad, because the
 * operator has the attribute output_shape. */
static void dnnl_pad(const char *mode, bool follows, const int64_t *pads, uint32_t at,
                     uint32_t spatial, int64_t missing, int64_t *begin, int64_t *end) {
    *begin = pads != NULL ? pads[at] : 0;
    *end = pads != NULL ? pads[spatial + at] : 0;
    if (!follows && strcmp(mode, "SAME_UPPER") != 0 && strcmp(mode, "SAME_LOWER") != 0) return;
    if (missing < 0) missing = 0;
    *begin = strcmp(mode, "SAME_UPPER") == 0 ? missing / 2 : missing - missing / 2;
    *end = missing - *begin;
}

bool tn__dnnl_window_of(const tn_op *op, const tn_tensor *input, const tn_tensor *output,
                        const int64_t *kernel, bool transposed, tn__dnnl_window *window) {
    uint32_t strides, dilations, pads, extras, spatial = input->rank - 2;
    const int64_t *stride = tn__attr_ints(op, "strides", &strides);
    const int64_t *dilation = tn__attr_ints(op, "dilations", &dilations);
    const int64_t *pad = tn__attr_ints(op, "pads", &pads);
    const int64_t *extra = tn__attr_ints(op, "output_padding", &extras);
    const char *mode = tn__attr_string(op, "auto_pad", "NOTSET");
    const bool follows = transposed && tn__attr(op, "output_shape") != NULL;
    if (input->rank < 3 || spatial > 3 || output->rank != input->rank ||
        (stride != NULL && strides != spatial) || (dilation != NULL && dilations != spatial) ||
        (pad != NULL && pads != 2 * spatial))
        return false;
    *window = (tn__dnnl_window){.spatial = spatial, .exact = true};
    for (uint32_t i = 0; i < spatial; i++) {
        int64_t step = stride != NULL ? stride[i] : 1, gap = dilation != NULL ? dilation[i] : 1;
        int64_t small = transposed ? output->shape[i + 2] : input->shape[i + 2];
        int64_t large = transposed ? input->shape[i + 2] : output->shape[i + 2];
        if (step < 1 || gap < 1 || kernel[i] < 1 || step > INT32_MAX || gap > INT32_MAX ||
            kernel[i] > INT32_MAX || small > INT32_MAX || large > INT32_MAX)
            return false;
        int64_t missing = (large - 1) * step + (kernel[i] - 1) * gap + 1 - small, said;
        int64_t more = transposed && extra != NULL && extras == spatial ? extra[i] : 0;
        dnnl_pad(mode, follows, strcmp(mode, "VALID") == 0 ? NULL : pad, i, spatial, missing + more,
                 &window->begin[i], &said);
        window->kernel[i] = kernel[i];
        window->stride[i] = step;
        window->dilation[i] = gap - 1;
        /* If the last elements of the input are in no window, `missing` is too small; keep the
         * padding that the attributes state. */
        window->end[i] = missing - window->begin[i];
        if (!transposed && window->end[i] < said && said - window->end[i] < step)
            window->end[i] = said;
        if (window->end[i] != said) window->exact = false;
    }
    return true;
}

/* --- choosing --- */

static const char *dnnl_name(const tn__dnnl *library, const_dnnl_primitive_desc_t desc) {
    const char *name = NULL;
    return library->dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) ==
                       dnnl_success &&
                   name != NULL
               ? name
               : "";
}

uint32_t tn__dnnl_rank_of(const char *implementation) {
    if (strncmp(implementation, "ref", 3) == 0 || strstr(implementation, "+ref") != NULL) return 0;
    return strstr(implementation, "gemm:") != NULL ? 1 : 2;
}

tn_status tn__dnnl_choose_back(const tn__dnnl *library, const void *descriptor,
                               const tn__dnnl_after *after, const_dnnl_primitive_desc_t forward,
                               dnnl_primitive_desc_t *chosen, uint32_t *rank) {
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_iterator_t each = NULL;
    dnnl_primitive_desc_t best = NULL;
    uint32_t best_rank = 0;
    TN_TRY(tn__dnnl_attr(library, after, &attr));
    tn_status status = tn__dnnl_status(library->dnnl_primitive_desc_iterator_create(
        &each, descriptor, attr, library->engine, forward));
    for (dnnl_status_t more = dnnl_success; status == TN_OK && more == dnnl_success;
         more = library->dnnl_primitive_desc_iterator_next(each)) {
        dnnl_primitive_desc_t found = library->dnnl_primitive_desc_iterator_fetch(each);
        uint32_t found_rank = found != NULL ? tn__dnnl_rank_of(dnnl_name(library, found)) : 0;
        if (found_rank > best_rank) {
            if (best != NULL) library->dnnl_primitive_desc_destroy(best);
            best = found;
            best_rank = found_rank;
        } else if (found != NULL) {
            library->dnnl_primitive_desc_destroy(found);
        }
        if (best_rank == 2) break;
    }
    if (each != NULL) library->dnnl_primitive_desc_iterator_destroy(each);
    library->dnnl_primitive_attr_destroy(attr);
    if (status == TN_OK && best == NULL) status = TN_E_UNSUPPORTED;
    if (status != TN_OK) return status;
    *chosen = best;
    if (rank != NULL) *rank = best_rank;
    return TN_OK;
}

tn_status tn__dnnl_choose(const tn__dnnl *library, const void *descriptor,
                          const tn__dnnl_after *after, dnnl_primitive_desc_t *chosen,
                          uint32_t *rank) {
    return tn__dnnl_choose_back(library, descriptor, after, NULL, chosen, rank);
}

const dnnl_memory_desc_t *tn__dnnl_wants(const tn__dnnl *library, dnnl_primitive_desc_t desc,
                                         dnnl_query_t what, int index) {
    return library->dnnl_primitive_desc_query_md(desc, what, index);
}

/* --- works --- */

typedef struct dnnl_bound {
    tn__dnnl_at at;
    dnnl_memory_t memory;
} dnnl_bound;

typedef struct dnnl_step {
    struct dnnl_step *next;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t *args; /* [count] the memory objects, as oneDNN takes them */
    dnnl_bound *bound;     /* [count] the same, with the operand or scratch memory of each */
    uint32_t count, room;
    dnnl_memory_t pad; /* scratchpad of the primitive; NULL: it needs none */
} dnnl_step;

typedef struct dnnl_packing {
    struct dnnl_packing *next;
    uint32_t input;
    dnnl_primitive_t reorder;
    dnnl_memory_t from, to;
} dnnl_packing;

struct tn__dnnl_work {
    tn__dnnl *library;
    tn__arena arena;
    tn_context context;
    dnnl_step *first, *last;
    dnnl_packing *packings;
    /* bytes; the scratchpads of all steps share the range of `pad` bytes after `scratch` */
    uint64_t scratch, pad;
    uint32_t accumulate; /* input that is copied to output 0 before the steps run; TN_NONE: none */
};

tn_status tn__dnnl_begin(tn_kernel_setup *setup, tn__dnnl_work **work) {
    if (setup->library == NULL) return TN_E_UNSUPPORTED;
    tn_context context = tn__context(setup->context);
    tn__dnnl_work *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(setup->error, "a kernel");
    made->library = setup->library;
    made->context = context;
    made->accumulate = TN_NONE;
    tn__arena_init(&made->arena, &made->context);
    made->library->set_threads((int)made->library->threads);
    *work = made;
    return TN_OK;
}

static void dnnl_step_release(const tn__dnnl *library, dnnl_step *step) {
    if (step->primitive != NULL) library->dnnl_primitive_destroy(step->primitive);
    if (step->pad != NULL) library->dnnl_memory_destroy(step->pad);
    for (uint32_t i = 0; i < step->count; i++) library->dnnl_memory_destroy(step->bound[i].memory);
}

void tn__dnnl_release(const tn_context *context, void *state) {
    (void)context; /* the parameter `context` is not needed, because the work has a copy of it */
    tn__dnnl_work *work = state;
    if (work == NULL) return;
    const tn__dnnl *library = work->library;
    for (dnnl_step *step = work->first; step != NULL; step = step->next)
        dnnl_step_release(library, step);
    for (dnnl_packing *at = work->packings; at != NULL; at = at->next) {
        if (at->reorder != NULL) library->dnnl_primitive_destroy(at->reorder);
        if (at->from != NULL) library->dnnl_memory_destroy(at->from);
        if (at->to != NULL) library->dnnl_memory_destroy(at->to);
    }
    tn__arena_release(&work->arena);
    tn_context own = work->context;
    tn__free(&own, work, sizeof *work);
}

/* Returns the name of the implementation of the last step that is not a reorder. If all steps are
 * reorders, returns the name for the last one. */
static const char *dnnl_work_name(const tn__dnnl_work *work) {
    const char *name = "";
    for (const dnnl_step *step = work->first; step != NULL; step = step->next) {
        const_dnnl_primitive_desc_t desc;
        dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
        if (work->library->dnnl_primitive_get_primitive_desc(step->primitive, &desc) !=
            dnnl_success)
            continue;
        (void)work->library->dnnl_primitive_desc_query(desc, dnnl_query_primitive_kind, 0, &kind);
        if (*name == '\0' || kind != dnnl_reorder) name = dnnl_name(work->library, desc);
    }
    return name;
}

tn_status tn__dnnl_end(tn_kernel_setup *setup, tn__dnnl_work *work, tn_status status) {
    uint64_t total;
    if (status == TN_OK && !tn__add(work->scratch, work->pad, &total)) status = TN_E_UNSUPPORTED;
    if (status != TN_OK) {
        tn__dnnl_release(setup->context, work);
        if (status == TN_E_NO_MEMORY) return tn__no_memory(setup->error, "a kernel");
        for (uint32_t i = 0; setup->packed != NULL && i < setup->op->input_count; i++)
            /* undo the requests for packed inputs before the next family of kernels is asked */
            setup->packed[i] = setup->forms[i] = 0;
        return status;
    }
    setup->state = work;
    setup->workspace = total;
    setup->detail = dnnl_work_name(work);
    return TN_OK;
}

tn_status tn__dnnl_step(tn__dnnl_work *work, dnnl_primitive_desc_t desc, uint32_t room) {
    const tn__dnnl *library = work->library;
    dnnl_step *step = tn__arena_alloc(&work->arena, sizeof *step);
    tn_status status = TN_E_NO_MEMORY;
    if (step == NULL) goto done;
    step->args = tn__arena_array(&work->arena, (size_t)room + 1, sizeof *step->args);
    step->bound = tn__arena_array(&work->arena, room, sizeof *step->bound);
    if (step->args == NULL || step->bound == NULL) goto done;
    step->room = room;
    if (work->last != NULL)
        work->last->next = step;
    else
        work->first = step;
    work->last = step;
    TN_TRY_DONE(tn__dnnl_status(library->dnnl_primitive_create(&step->primitive, desc)));
    const dnnl_memory_desc_t *pad = tn__dnnl_wants(library, desc, dnnl_query_scratchpad_md, 0);
    uint64_t bytes = pad != NULL ? library->dnnl_memory_desc_get_size(pad) : 0;
    if (bytes > 0) {
        TN_TRY_DONE(tn__dnnl_status(
            library->dnnl_memory_create(&step->pad, pad, library->engine, DNNL_MEMORY_NONE)));
        if (bytes > work->pad) work->pad = bytes;
    }
done:
    library->dnnl_primitive_desc_destroy(desc);
    return status;
}

tn_status tn__dnnl_bind(tn__dnnl_work *work, int role, const dnnl_memory_desc_t *desc,
                        tn__dnnl_at at) {
    dnnl_step *step = work->last;
    tn_assert(step != NULL && step->count < step->room);
    dnnl_bound *bound = &step->bound[step->count];
    TN_TRY(tn__dnnl_status(work->library->dnnl_memory_create(
        &bound->memory, desc, work->library->engine, DNNL_MEMORY_NONE)));
    bound->at = at;
    step->args[step->count] = (dnnl_exec_arg_t){.arg = role, .memory = bound->memory};
    step->count++;
    return TN_OK;
}

static tn_status dnnl_reorder_desc(const tn__dnnl *library, const dnnl_memory_desc_t *from,
                                   const dnnl_memory_desc_t *to, dnnl_primitive_desc_t *desc) {
    dnnl_primitive_attr_t attr;
    TN_TRY(tn__dnnl_attr(library, NULL, &attr));
    tn_status status = tn__dnnl_status(library->dnnl_reorder_primitive_desc_create(
        desc, from, library->engine, to, library->engine, attr));
    library->dnnl_primitive_attr_destroy(attr);
    return status;
}

tn_status tn__dnnl_reorder(tn__dnnl_work *work, const dnnl_memory_desc_t *from, tn__dnnl_at from_at,
                           const dnnl_memory_desc_t *to, tn__dnnl_at to_at) {
    dnnl_primitive_desc_t desc;
    TN_TRY(dnnl_reorder_desc(work->library, from, to, &desc));
    TN_TRY(tn__dnnl_step(work, desc, 2));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_FROM, from, from_at));
    return tn__dnnl_bind(work, DNNL_ARG_TO, to, to_at);
}

tn_status tn__dnnl_scratch(tn__dnnl_work *work, uint64_t bytes, tn__dnnl_at *at) {
    uint64_t after;
    if (!tn__add(work->scratch, bytes, &after) || !tn__align_up(after, 64, &after))
        return TN_E_UNSUPPORTED;
    *at = (tn__dnnl_at){TN__DNNL_SCRATCH, 0, work->scratch};
    work->scratch = after;
    return TN_OK;
}

/* Adds the reorder primitive with which tn__dnnl_pack makes the packed form of an input. */
static tn_status dnnl_add_packing(tn__dnnl_work *work, uint32_t input,
                                  const dnnl_memory_desc_t *plain,
                                  const dnnl_memory_desc_t *wanted) {
    const tn__dnnl *library = work->library;
    dnnl_packing *packing = tn__arena_alloc(&work->arena, sizeof *packing);
    dnnl_primitive_desc_t desc;
    if (packing == NULL) return TN_E_NO_MEMORY;
    TN_TRY(dnnl_reorder_desc(library, plain, wanted, &desc));
    packing->input = input;
    packing->next = work->packings;
    work->packings = packing;
    tn_status status = tn__dnnl_status(library->dnnl_primitive_create(&packing->reorder, desc));
    library->dnnl_primitive_desc_destroy(desc);
    if (status == TN_OK)
        status = tn__dnnl_status(
            library->dnnl_memory_create(&packing->from, plain, library->engine, DNNL_MEMORY_NONE));
    if (status == TN_OK)
        status = tn__dnnl_status(
            library->dnnl_memory_create(&packing->to, wanted, library->engine, DNNL_MEMORY_NONE));
    return status;
}

/* Returns a number that identifies a packed form: the FNV-1a hash of both memory descriptors. Equal
 * descriptors have equal bytes. */
static uint64_t dnnl_form(const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *wanted) {
    const uint8_t *both[2] = {(const uint8_t *)plain, (const uint8_t *)wanted};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof *plain; i++)
            hash = (hash ^ both[k][i]) * UINT64_C(0x100000001b3);
    return hash != 0 ? hash : 1;
}

tn_status tn__dnnl_weights(tn_kernel_setup *setup, tn__dnnl_work *work, uint32_t input,
                           const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *wanted,
                           tn__dnnl_at *at) {
    *at = TN__DNNL_IN(input);
    if (work->library->dnnl_memory_desc_equal(plain, wanted)) return TN_OK;
    uint64_t bytes = work->library->dnnl_memory_desc_get_size(wanted);
    if (tn__setup_is_static(setup, input)) {
        TN_TRY(dnnl_add_packing(work, input, plain, wanted));
        setup->packed[input] = bytes;
        setup->forms[input] = dnnl_form(plain, wanted);
        return TN_OK;
    }
    TN_TRY(tn__dnnl_scratch(work, bytes, at));
    return tn__dnnl_reorder(work, plain, TN__DNNL_IN(input), wanted, *at);
}

void tn__dnnl_accumulate(tn__dnnl_work *work, uint32_t from) { work->accumulate = from; }

/* --- packing weights, and running the steps of a work --- */

/* Runs the reorder of a packing. Its scratchpad, at most a few KB, is allocated on the heap, which
 * is allowed because packing happens when the engine is created. */
static tn_status dnnl_pack_with(const tn_kernel_setup *setup, tn__dnnl_work *work,
                                const dnnl_packing *packing) {
    const tn__dnnl *library = work->library;
    const_dnnl_primitive_desc_t desc;
    dnnl_memory_t pad = NULL;
    void *bytes = NULL;
    uint64_t size = 0;
    dnnl_exec_arg_t args[3] = {{DNNL_ARG_FROM, packing->from}, {DNNL_ARG_TO, packing->to}};
    int count = 2;
    tn_status status =
        tn__dnnl_status(library->dnnl_primitive_get_primitive_desc(packing->reorder, &desc));
    if (status != TN_OK) return status;
    const dnnl_memory_desc_t *wants =
        library->dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    if (wants != NULL) size = library->dnnl_memory_desc_get_size(wants);
    if (size > 0) {
        bytes = tn__alloc(&work->context, (size_t)size);
        if (bytes == NULL) return tn__no_memory(setup->error, "packed weights");
        TN_TRY_DONE(
            tn__dnnl_status(library->dnnl_memory_create(&pad, wants, library->engine, bytes)));
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, pad};
    }
    status = tn__dnnl_status(
        library->dnnl_primitive_execute(packing->reorder, library->stream, count, args));
    if (status == TN_OK) status = tn__dnnl_status(library->dnnl_stream_wait(library->stream));
done:
    if (pad != NULL) library->dnnl_memory_destroy(pad);
    tn__free(&work->context, bytes, (size_t)size);
    return status;
}

tn_status tn__dnnl_pack(const tn_kernel_setup *setup, uint32_t input, const void *plain,
                        void *packed) {
    tn__dnnl_work *work = setup->state;
    tn__dnnl *library = work->library;
    for (const dnnl_packing *at = work->packings; at != NULL; at = at->next) {
        if (at->input != input) continue;
        pthread_mutex_lock(&library->lock);
        library->set_threads((int)library->threads);
        /* oneDNN only reads this memory; the cast is needed because the parameter of the function
         * is not const */
        dnnl_status_t set =
            library->dnnl_memory_set_data_handle(at->from, (void *)(uintptr_t)plain);
        if (set == dnnl_success) set = library->dnnl_memory_set_data_handle(at->to, packed);
        tn_status status = tn__dnnl_status(set);
        if (status == TN_OK) status = dnnl_pack_with(setup, work, at);
        pthread_mutex_unlock(&library->lock);
        if (status != TN_OK)
            tn__fail(setup->error, status, "oneDNN cannot pack input %u of '%.100s'", input,
                     setup->op->name);
        return status;
    }
    TN_FAIL(setup->error, TN_E_INTERNAL, "input %u of '%.100s' has no packed form", input,
            setup->op->name);
}

static void *dnnl_address(const tn_kernel_call *call, tn__dnnl_at at) {
    char *base = at.place == TN__DNNL_INPUT    ? call->inputs[at.index].data
                 : at.place == TN__DNNL_OUTPUT ? call->outputs[at.index].data
                                               : call->workspace;
    return base + at.offset;
}

static dnnl_status_t dnnl_run_step(const tn_kernel_call *call, const tn__dnnl_work *work,
                                   dnnl_step *step) {
    const tn__dnnl *library = work->library;
    dnnl_status_t outcome = dnnl_success;
    uint32_t count = step->count;
    for (uint32_t i = 0; i < count && outcome == dnnl_success; i++)
        outcome = library->dnnl_memory_set_data_handle(step->bound[i].memory,
                                                       dnnl_address(call, step->bound[i].at));
    if (step->pad != NULL && outcome == dnnl_success) {
        outcome = library->dnnl_memory_set_data_handle(step->pad,
                                                       (char *)call->workspace + work->scratch);
        step->args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, step->pad};
    }
    if (outcome == dnnl_success)
        outcome = library->dnnl_primitive_execute(step->primitive, library->stream, (int)count,
                                                  step->args);
    return outcome;
}

tn_status tn__dnnl_prepare(tn_kernel_setup *setup) {
    tn__dnnl_work *work = NULL;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, setup->kernel->build(setup, work));
}

tn_status tn__dnnl_run(tn_kernel_call *call) {
    tn__dnnl_work *work = call->state;
    tn__dnnl *library = work->library;
    dnnl_status_t outcome = dnnl_success;
    pthread_mutex_lock(&library->lock);
    library->set_threads((int)library->threads);
    if (work->accumulate != TN_NONE)
        tn__operand_copy(&call->outputs[0], &call->inputs[work->accumulate]);
    for (dnnl_step *step = work->first; step != NULL && outcome == dnnl_success; step = step->next)
        outcome = dnnl_run_step(call, work, step);
    if (outcome == dnnl_success) outcome = library->dnnl_stream_wait(library->stream);
    pthread_mutex_unlock(&library->lock);
    if (outcome == dnnl_success) return TN_OK;
    return tn__call_fail(call, outcome == dnnl_out_of_memory ? TN_E_NO_MEMORY : TN_E_INTERNAL,
                         "oneDNN failed while it ran (outcome %d)", (int)outcome);
}

#else

tn_status tn__dnnl_open(const tn_context *context, uint32_t threads, tn__dnnl **library,
                        tn_error *error) {
    (void)context, (void)threads, (void)library;
    TN_FAIL(error, TN_E_UNSUPPORTED,
            "this build is without oneDNN: install Debian's libdnnl-dev and build again");
}

const char *tn__dnnl_isa(const tn__dnnl *library) {
    (void)library;
    return "";
}

void tn__dnnl_tell(const tn__dnnl *library, char *text, size_t size) {
    (void)library, (void)text, (void)size;
}

void tn__dnnl_close(tn__dnnl *library) { (void)library; }

#endif
