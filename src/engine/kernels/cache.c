/* cache.c - chooses and prepares a kernel when it is first requested, and keeps it for later
 * requests with an equal key.
 *
 * If a kernel's `prepare` returns E_UNSUPPORTED, the next kernel that accepts the operator is
 * tried.
 * Cost: O(kernels) for a new key, and the time of the kernels' `prepare`.
 */
#include "engine/kernels/cache.h"

#include <pthread.h>
#include <stdio.h>

#include "engine/kernels/dnnl.h"

#define CACHE_PACKED 64u /* operators with more inputs than this cannot have packed inputs */

struct tn__kernel_cache {
    tn_context context;
    /* protects all fields below, but not the prepared kernels to which `entries` points */
    pthread_mutex_t lock;
    uint32_t users;
    uint32_t threads;
    struct tn__dnnl *library; /* the loaded oneDNN library; NULL: only our own loops are used */
    tn__arena arena;          /* memory of the entries and keys */
    tn__names names;          /* maps a key to the index of its entry */
    tn__prepared **entries;
    size_t count, room;
    tn__text key; /* buffer for the key of the current request */
    tn__kernel_cache_counts counts;
};

/* --- creating, sharing and releasing a cache --- */

tn_status tn__kernel_cache_create(const tn_context *context, uint32_t threads, bool plain,
                                  tn__kernel_cache **cache, tn_error *error) {
    tn_context full = tn__context(context);
    tn__kernel_cache *made = tn__alloc_array(&full, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "kernels");
    made->context = full;
    made->users = 1;
    made->threads = threads > 0 ? threads : 1;
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        tn__free(&full, made, sizeof *made);
        return tn__no_memory(error, "a lock");
    }
    tn__arena_init(&made->arena, &made->context);
    tn__names_init(&made->names, &made->context);
    tn__text_init(&made->key, &made->context);
    tn_status status = TN_OK;
    if (!plain) status = tn__dnnl_open(&made->context, made->threads, &made->library, error);
    if (status == TN_E_UNSUPPORTED) status = TN_OK; /* oneDNN is not installed: use our own loops */
    if (status == TN_OK)
        *cache = made;
    else
        tn__kernel_cache_release(made);
    return status;
}

void tn__kernel_cache_hold(tn__kernel_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    cache->users++;
    pthread_mutex_unlock(&cache->lock);
}

static void cache_drop(const tn_context *context, const tn__prepared *prepared) {
    if (prepared->kernel->release != NULL && prepared->state != NULL)
        prepared->kernel->release(context, prepared->state);
}

void tn__kernel_cache_release(tn__kernel_cache *cache) {
    if (cache == NULL) return;
    pthread_mutex_lock(&cache->lock);
    bool last = --cache->users == 0;
    pthread_mutex_unlock(&cache->lock);
    if (!last) return;
    tn_context context = cache->context;
    for (size_t i = 0; i < cache->count; i++) cache_drop(&cache->context, cache->entries[i]);
    tn__free(&context, cache->entries, cache->room * sizeof *cache->entries);
    tn__names_release(&cache->names);
    tn__text_release(&cache->key);
    tn__arena_release(&cache->arena);
    tn__dnnl_close(cache->library);
    pthread_mutex_destroy(&cache->lock);
    tn__free(&context, cache, sizeof *cache);
}

/* --- choosing and preparing the kernel of one operator --- */

static bool cache_is_sequence(const tn_graph *graph, const tn_tensor_id *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] != TN_NONE &&
            ((tn_graph_tensor(graph, ids[i])->flags & TN_TENSOR_SEQUENCE) != 0 ||
             tn_graph_tensor(graph, ids[i])->dtype == TN_STRING))
            return true;
    return false;
}

static tn_status cache_none(const tn_graph *graph, const tn_op *op, tn_error *error) {
    char types[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < op->input_count && used + 24 < sizeof types; i++) {
        tn_tensor_id id = op->inputs[i];
        const char *name = id == TN_NONE ? "-" : tn_dtype_name(tn_graph_tensor(graph, id)->dtype);
        used += (size_t)snprintf(types + used, sizeof types - used, "%s%s", i ? ", " : "", name);
    }
    tn__fail(error, TN_E_UNSUPPORTED,
             "no kernel runs %s%s%s(%s); the model can be planned all the same", op->domain,
             op->domain[0] ? "." : "", op->type, types);
    return tn__where(error, TN_E_UNSUPPORTED, "node '%.60s' (%.30s)", op->name, op->type);
}

static tn_kernel_setup cache_setup(const tn__kernel_cache *cache, const tn_graph *graph,
                                   tn_op_id id, tn_error *error) {
    const tn_op *op = tn_graph_op(graph, id);
    return (tn_kernel_setup){.graph = graph,
                             .op = op,
                             .id = id,
                             .version = op->version ? op->version : UINT32_MAX,
                             .context = &cache->context,
                             .threads = cache->threads,
                             .library = cache->library,
                             .error = error};
}

static tn_status cache_prepare(tn__kernel_cache *cache, tn_kernel_setup *setup,
                               tn__prepared *prepared) {
    uint64_t packed[CACHE_PACKED] = {0}, forms[CACHE_PACKED] = {0};
    uint32_t count = setup->op->input_count < CACHE_PACKED ? setup->op->input_count : CACHE_PACKED;
    setup->packed = setup->op->input_count <= CACHE_PACKED ? packed : NULL;
    setup->forms = setup->packed != NULL ? forms : NULL;
    tn_status status = tn__kernel_prepare(prepared->kernel, setup);
    setup->packed = setup->forms = NULL;
    if (status != TN_OK) return status;
    prepared->state = setup->state;
    prepared->detail = setup->detail;
    prepared->workspace = setup->workspace;
    bool any = false;
    for (uint32_t i = 0; i < count; i++) any = any || packed[i] > 0;
    if (!any) return TN_OK;
    prepared->packed = tn__arena_copy(&cache->arena, packed, count * sizeof *packed);
    prepared->forms = tn__arena_copy(&cache->arena, forms, count * sizeof *forms);
    if (prepared->packed != NULL && prepared->forms != NULL) return TN_OK;
    cache_drop(&cache->context, prepared);
    return tn__no_memory(setup->error, "packed weights");
}

static tn_status cache_choose(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id id,
                              tn__prepared *prepared, tn_error *error) {
    const tn_op *op = tn_graph_op(graph, id);
    tn_kernel_setup setup = cache_setup(cache, graph, id, error);
    if (cache_is_sequence(graph, op->inputs, op->input_count) ||
        cache_is_sequence(graph, op->outputs, op->output_count))
        return cache_none(graph, op, error);
    for (const tn_kernel *kernel = NULL;;) {
        kernel = tn__kernel_find(&setup, cache->library != NULL, kernel);
        if (kernel == NULL) return cache_none(graph, op, error);
        *prepared = (tn__prepared){.kernel = kernel};
        tn_status status = TN_OK;
        if (kernel->prepare != NULL)
            status = cache_prepare(cache, &setup, prepared);
        else if (kernel->workspace != NULL)
            prepared->workspace = kernel->workspace(&setup);
        if (status != TN_E_UNSUPPORTED) return status;
    }
}

/* Prepares another variant of a kernel that was chosen before (tn_kernel.ways): one with less
 * scratch memory. */
static tn_status cache_choose_way(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id id,
                                  const tn_kernel *kernel, uint32_t way, tn__prepared *prepared,
                                  tn_error *error) {
    tn_kernel_setup setup = cache_setup(cache, graph, id, error);
    setup.way = way;
    *prepared = (tn__prepared){.kernel = kernel, .way = way};
    return cache_prepare(cache, &setup, prepared);
}

/* --- asking --- */

/* Adds an entry for the current key. Memory for the entry is reserved first, so that only one
 * failure after `prepare` must be undone. `first`: the entry of the kernel's fastest variant, if
 * variant number `way` of that kernel is to be added; NULL: choose a kernel. */
static tn_status cache_add(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id id,
                           const tn__prepared *first, uint32_t way, const tn__prepared **prepared,
                           tn_error *error) {
    tn__prepared *made = tn__arena_alloc(&cache->arena, sizeof *made);
    const char *key = tn__arena_copy(&cache->arena, cache->key.data, cache->key.size);
    if (made == NULL || key == NULL ||
        !tn__reserve(&cache->context, &cache->entries, &cache->room, cache->count + 1,
                     sizeof *cache->entries))
        return tn__no_memory(error, "kernels");
    TN_TRY(first == NULL ? cache_choose(cache, graph, id, made, error)
                         : cache_choose_way(cache, graph, id, first->kernel, way, made, error));
    if (!tn__names_add(&cache->names, key, cache->key.size, (uint32_t)cache->count, NULL)) {
        cache_drop(&cache->context, made);
        return tn__no_memory(error, "kernels");
    }
    cache->entries[cache->count++] = made;
    cache->counts.prepared++;
    cache->counts.key_bytes += cache->key.size;
    *prepared = made;
    return TN_OK;
}

static tn_status cache_ask(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id id,
                           const tn__prepared *first, uint32_t way, const tn__prepared **prepared,
                           tn_error *error) {
    cache->counts.asked++;
    cache->key.size = 0;
    cache->key.failed = false;
    tn__op_key(&cache->key, graph, id);
    /* Append the variant's number to the key. The key stays unambiguous, because tn__op_key writes
     * keys of which the end can be recognised. */
    if (way > 0) tn__text_printf(&cache->key, "%u", way);
    if (cache->key.failed) return tn__no_memory(error, "kernels");
    uint32_t at = tn__names_find(&cache->names, cache->key.data, cache->key.size);
    if (at == TN__NAMES_NONE) return cache_add(cache, graph, id, first, way, prepared, error);
    *prepared = cache->entries[at];
    return TN_OK;
}

tn_status tn__kernel_cache_find(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id op,
                                const tn__prepared **prepared, tn_error *error) {
    pthread_mutex_lock(&cache->lock);
    tn_status status = cache_ask(cache, graph, op, NULL, 0, prepared, error);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

tn_status tn__kernel_cache_within(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id op,
                                  uint64_t bytes, const tn__prepared **prepared, tn_error *error) {
    const tn__prepared *first, *other;
    /* receives the message if the kernel does not have this variant; the message is not used */
    tn_error refused;
    pthread_mutex_lock(&cache->lock);
    tn_status status = cache_ask(cache, graph, op, NULL, 0, &first, error);
    const tn__prepared *best = status == TN_OK ? first : NULL;
    for (uint32_t way = 1; status == TN_OK && best->workspace > bytes && way <= first->kernel->ways;
         way++) {
        tn_status asked = cache_ask(cache, graph, op, first, way, &other, &refused);
        if (asked == TN_OK && other->workspace < best->workspace) best = other;
        if (asked != TN_OK && asked != TN_E_UNSUPPORTED)
            status = tn__fail(error, asked, "%s", refused.message);
    }
    pthread_mutex_unlock(&cache->lock);
    if (status == TN_OK) *prepared = best;
    return status;
}

tn_status tn__kernel_cache_pack(tn__kernel_cache *cache, const tn__prepared *prepared,
                                const tn_graph *graph, tn_op_id op, uint32_t input,
                                const void *plain, void *packed, tn_error *error) {
    tn_kernel_setup setup = cache_setup(cache, graph, op, error);
    setup.state = prepared->state;
    return prepared->kernel->pack(&setup, input, plain, packed);
}

tn__kernel_cache_counts tn__kernel_cache_count(tn__kernel_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    tn__kernel_cache_counts counts = cache->counts;
    pthread_mutex_unlock(&cache->lock);
    return counts;
}

uint32_t tn__kernel_cache_threads(const tn__kernel_cache *cache) { return cache->threads; }

const char *tn__kernel_cache_isa(const tn__kernel_cache *cache) {
    return cache->library != NULL ? tn__dnnl_isa(cache->library) : "";
}
