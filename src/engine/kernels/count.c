/* count.c - TfIdfVectorizer over integers: how often each of a pool of n-grams occurs.
 *
 * An n-gram of a row are n elements at equal distances of 1 to max_skip_count + 1; single elements
 * are counted once. The pool holds all 1-grams, then all 2-grams, ..., and ngram_counts says where
 * each length begins.
 *
 * Cost:   O(row x distances x pool). No scratch: counts are made in the output.
 * Source: operator text of ONNX, opset 9.
 */
#include "engine/box.h"

typedef struct count_plan {
    const int64_t *pool, *begins, *columns;
    const double *weights; /* NULL: all 1 */
    uint32_t pool_count, begin_count, column_count, weight_count;
    int64_t least, most, skips; /* lengths of n-grams; distances above 1 */
    bool counts, weighs;        /* TF, IDF, or both */
} count_plan;

static bool count_read(const tn_op *op, count_plan *plan) {
    const char *mode = tn__op_string(op, "mode", "");
    plan->pool = tn__op_ints(op, "pool_int64s", &plan->pool_count);
    plan->begins = tn__op_ints(op, "ngram_counts", &plan->begin_count);
    plan->columns = tn__op_ints(op, "ngram_indexes", &plan->column_count);
    plan->weights = tn__op_floats(op, "weights", &plan->weight_count);
    plan->least = tn__op_int(op, "min_gram_length", 1);
    plan->most = tn__op_int(op, "max_gram_length", 1);
    plan->skips = tn__op_int(op, "max_skip_count", 0);
    plan->counts = strcmp(mode, "IDF") != 0;
    plan->weighs = strcmp(mode, "TF") != 0;
    bool named = strcmp(mode, "TF") == 0 || strcmp(mode, "IDF") == 0 || strcmp(mode, "TFIDF") == 0;
    if (plan->most > plan->begin_count) plan->most = plan->begin_count;
    if (plan->most < 0) plan->most = 0;
    return named && plan->pool != NULL && plan->begins != NULL && plan->columns != NULL &&
           plan->least >= 1 && plan->skips >= 0;
}

/* The n-grams of length n in the pool: [*first, *last) of its elements; `id` of the first. */
static tn_status count_grams(const tn_kernel_call *call, const count_plan *plan, int64_t n,
                             uint64_t *first, uint64_t *last, uint64_t *id) {
    int64_t end = plan->pool_count, at = 0;
    *id = 0;
    for (int64_t k = 1; k <= n; k++) {
        int64_t begin = plan->begins[k - 1];
        int64_t next = k < plan->begin_count ? plan->begins[k] : end;
        if (begin != at || next < begin || next > end || (next - begin) % k != 0)
            return tn__call_fail(call, TN_E_INVALID, "ngram_counts are no parts of the pool");
        if (k < n) *id += (uint64_t)(next - begin) / (uint64_t)k;
        *first = (uint64_t)begin;
        *last = (uint64_t)next;
        at = next;
    }
    return TN_OK;
}

/* Counts each n-gram of the pool that stands at `at`, its elements `distance` apart. */
static tn_status count_matches(const tn_kernel_call *call, const count_plan *plan, uint64_t at,
                               uint64_t n, uint64_t distance, float *row, uint64_t columns) {
    uint64_t first = 0, last = 0, id;
    TN_TRY(count_grams(call, plan, (int64_t)n, &first, &last, &id));
    for (; first < last; first += n, id++) {
        bool same = true;
        for (uint64_t i = 0; i < n && same; i++)
            same = tn__index(&call->inputs[0], at + i * distance) == plan->pool[first + i];
        if (!same) continue;
        if (id >= plan->column_count || plan->columns[id] < 0 ||
            (uint64_t)plan->columns[id] >= columns)
            return tn__call_fail(call, TN_E_INVALID, "n-gram %llu has no column",
                                 (unsigned long long)id);
        float *number = &row[plan->columns[id]];
        double weight = 1;
        if (plan->weighs && plan->weights != NULL && id < plan->weight_count)
            weight = plan->weights[id];
        *number = (float)(plan->counts ? (double)*number + weight : weight);
    }
    return TN_OK;
}

static tn_status count_row(const tn_kernel_call *call, const count_plan *plan, uint64_t begin,
                           uint64_t length, float *row, uint64_t columns) {
    for (uint64_t n = (uint64_t)plan->least; n <= (uint64_t)plan->most && n <= length; n++) {
        uint64_t far = n == 1 ? 1 : (length - 1) / (n - 1); /* the row holds no wider ones */
        for (uint64_t distance = 1; distance <= far && distance - 1 <= (uint64_t)plan->skips;
             distance++)
            for (uint64_t at = 0; at + (n - 1) * distance < length; at++)
                TN_TRY(count_matches(call, plan, begin + at, n, distance, row, columns));
    }
    return TN_OK;
}

static tn_status count_run(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    count_plan plan;
    int64_t columns = 0, shape[2];
    if (!count_read(call->op, &plan) || from->rank < 1 || from->rank > 2)
        return tn__call_fail(call, TN_E_INVALID, "rank %u, or attributes are missing", from->rank);
    for (uint32_t i = 0; i < plan.column_count; i++)
        if (plan.columns[i] >= columns && plan.columns[i] < INT32_MAX)
            columns = plan.columns[i] + 1;
    shape[0] = from->shape[0];
    shape[from->rank - 1] = columns;
    TN_TRY(tn__call_shape(call, 0, from->rank, shape));
    uint64_t rows = from->rank == 2 ? (uint64_t)from->shape[0] : 1;
    uint64_t length = (uint64_t)from->shape[from->rank - 1];
    float *to = call->outputs[0].data;
    if (tn__operand_bytes(&call->outputs[0]) == 0) return TN_OK;
    memset(to, 0, tn__operand_bytes(&call->outputs[0]));
    for (uint64_t r = 0; r < rows; r++)
        TN_TRY(count_row(call, &plan, r * length, length, to + r * (uint64_t)columns,
                         (uint64_t)columns));
    return TN_OK;
}

static bool count_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *from = tn__setup_input(setup, 0), *to = tn__setup_output(setup, 0);
    count_plan plan;
    return from != NULL && to != NULL && to->dtype == TN_FLOAT32 &&
           (from->dtype == TN_INT32 || from->dtype == TN_INT64) && tn__accepts_bytes(setup) &&
           count_read(setup->op, &plan);
}

static const tn_kernel count_kernels[] = {
    {.type = "TfIdfVectorizer", .accepts = count_accepts, .run = count_run},
};

TN_KERNEL_FAMILY(count, "");
