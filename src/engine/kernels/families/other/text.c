/* text.c - TfIdfVectorizer, which counts how often each n-gram of a given list (the pool) occurs in
 * a row of integers.
 *
 * Every n-gram of the pool is compared at every position and for every skip. This is slow, but
 * exact, and needs no memory. With a skip of k, the items of an n-gram are k + 1 positions apart;
 * single items have no skips. Pools of strings are not supported, because no kernel supports
 * tensors of strings.
 * Cost: O(pool x row x skips).
 * Source: the ONNX specification, opset 9.
 */
#include "engine/kernels/operands.h"

typedef struct text_job {
    const tn_operand *x;
    const int64_t *pool, *starts, *indexes;
    const double *weights; /* a weight for each n-gram; NULL: all are 1 */
    uint32_t pool_count, start_count, index_count, weight_count;
    int64_t least, most, skips;
    bool counts, weighs; /* `counts`: the mode is TF or TFIDF; `weighs`: it is IDF or TFIDF */
    uint64_t row, rows, columns;
} text_job;

static tn_status text_read(tn_kernel_call *call, text_job *job) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    const char *mode = tn__attr_string(call->op, "mode", "TF");
    if (x->rank < 1 || x->rank > 2 || y->rank != x->rank)
        return tn__call_fail(call, TN_E_INVALID, "the input has rank %u", x->rank);
    *job = (text_job){.x = x,
                      .least = tn__attr_int(call->op, "min_gram_length", 1),
                      .most = tn__attr_int(call->op, "max_gram_length", 1),
                      .skips = tn__attr_int(call->op, "max_skip_count", 0),
                      .counts = strcmp(mode, "IDF") != 0,
                      .weighs = strcmp(mode, "TF") != 0,
                      .row = (uint64_t)x->shape[x->rank - 1],
                      .rows = tn__operand_span(x, 0, x->rank - 1),
                      .columns = (uint64_t)y->shape[y->rank - 1]};
    job->pool = tn__attr_ints(call->op, "pool_int64s", &job->pool_count);
    job->starts = tn__attr_ints(call->op, "ngram_counts", &job->start_count);
    job->indexes = tn__attr_ints(call->op, "ngram_indexes", &job->index_count);
    job->weights = tn__attr_floats(call->op, "weights", &job->weight_count);
    if (strcmp(mode, "TF") != 0 && strcmp(mode, "IDF") != 0 && strcmp(mode, "TFIDF") != 0)
        return tn__call_fail(call, TN_E_INVALID, "the mode '%.40s' is unknown", mode);
    if (job->skips < 0 || (job->weights != NULL && job->weight_count != job->index_count))
        return tn__call_fail(call, TN_E_INVALID, "max_skip_count or weights are out of range");
    if (tn__operand_span(y, 0, y->rank - 1) != job->rows)
        return tn__call_fail(call, TN_E_INVALID, "the output has another number of rows");
    return TN_OK;
}

/* Returns how often an n-gram of `length` items occurs in a row, over all skips. */
static uint64_t text_count(const text_job *job, uint64_t row, const int64_t *gram,
                           uint64_t length) {
    uint64_t found = 0;
    for (uint64_t step = 1; step <= (uint64_t)job->skips + 1; step++) {
        /* a longer step does not fit into the row either */
        if (length > 1 && (job->row - 1) / (length - 1) < step) break;
        for (uint64_t at = 0; at + (length - 1) * step < job->row; at++) {
            uint64_t same = 0;
            while (same < length &&
                   tn__operand_int(job->x, row * job->row + at + same * step) == gram[same])
                same++;
            found += same == length;
        }
        if (length == 1) break;
    }
    return found;
}

/* Counts the n-grams of one length, which are adjacent in the pool. *gram is the number of the
 * n-gram over all lengths. */
static tn_status text_length(const tn_kernel_call *call, const text_job *job, uint64_t row,
                             uint32_t length, uint32_t *gram) {
    float *to = (float *)call->outputs[0].data + row * job->columns;
    int64_t first = job->starts[length - 1];
    int64_t end = length < job->start_count ? job->starts[length] : (int64_t)job->pool_count;
    if (first < 0 || end < first || end > (int64_t)job->pool_count || (end - first) % length != 0)
        return tn__call_fail(call, TN_E_INVALID, "ngram_counts do not divide the pool");
    for (; first < end; first += length, ++*gram) {
        if (*gram >= job->index_count || job->indexes[*gram] < 0 ||
            (uint64_t)job->indexes[*gram] >= job->columns)
            return tn__call_fail(call, TN_E_INVALID, "n-gram %u has no place in the output", *gram);
        if (length < job->least || length > job->most || job->row == 0) continue;
        uint64_t found = text_count(job, row, job->pool + first, length);
        double weight = job->weighs && job->weights != NULL ? job->weights[*gram] : 1;
        double value = job->counts ? (double)found : found > 0;
        to[job->indexes[*gram]] += (float)(value * weight);
    }
    return TN_OK;
}

static tn_status text_run(tn_kernel_call *call) {
    text_job job = {0};
    TN_TRY(text_read(call, &job));
    memset(call->outputs[0].data, 0, tn__operand_bytes(&call->outputs[0]));
    for (uint64_t row = 0; row < job.rows; row++) {
        uint32_t gram = 0;
        for (uint32_t length = 1; length <= job.start_count; length++)
            TN_TRY(text_length(call, &job, row, length, &gram));
    }
    return TN_OK;
}

static bool text_accepts(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPES_INDEX) && tn__output_is(setup, 0, TN__TYPE(FLOAT32)) &&
           tn__attr(setup->op, "pool_int64s") != NULL;
}

static const tn_kernel text_kernels[] = {
    {.type = "TfIdfVectorizer", .accepts = text_accepts, .run = text_run},
};

TN_KERNEL_FAMILY(text, "");
