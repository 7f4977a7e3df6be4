/* loss.c - losses, and Dropout.
 *
 * A mean is taken over the samples that are not ignored, by their weights. Dropout outside of
 * training hands its input on. In training it draws one number per element: with attribute seed
 * those of the Mersenne Twister that ONNX's definition (numpy) uses, so that a seeded model gives
 * what its tests expect; without, the run's own.
 * Source: operator texts of ONNX, opsets 1 to 17; Matsumoto, Nishimura 1998.
 */
#include <math.h>

#include "engine/kernels/check.h"

/* --- losses --- */

typedef struct loss_job {
    const tn_operand *x, *target, *weight; /* weight NULL: ones */
    uint64_t classes, inner;               /* number of elements after the classes */
    bool softmax;                          /* x are scores, not logarithms of probabilities */
    bool ignores;
    int64_t ignored;
} loss_job;

/* Logarithm of the sum of exponentials over the classes of one sample. */
static double loss_total(const loss_job *job, uint64_t first) {
    double most = -INFINITY, sum = 0;
    if (!job->softmax) return 0;
    for (uint64_t c = 0; c < job->classes; c++) {
        double value = tn__real_get(job->x, first + c * job->inner);
        if (value > most || isnan(value)) most = value;
    }
    for (uint64_t c = 0; c < job->classes; c++)
        sum += exp(tn__real_get(job->x, first + c * job->inner) - most);
    return most + log(sum);
}

static tn_status loss_read(tn_kernel_call *call, bool softmax, loss_job *job) {
    const tn_operand *x = &call->inputs[0], *target = &call->inputs[1];
    if (x->rank < 2 || target->rank != x->rank - 1)
        return tn__call_fail(call, TN_E_INVALID, "an input of rank %u, targets of rank %u", x->rank,
                             target->rank);
    for (uint32_t d = 0; d < target->rank; d++)
        if (target->shape[d] != x->shape[d == 0 ? 0 : d + 1])
            return tn__call_fail(call, TN_E_INVALID, "dimension %u of the targets is %lld", d,
                                 (long long)target->shape[d]);
    *job = (loss_job){.x = x,
                      .target = target,
                      .weight = tn__call_input(call, 2),
                      .classes = (uint64_t)x->shape[1],
                      .inner = tn__operand_span(x, 2, x->rank),
                      .softmax = softmax,
                      .ignores = tn__attr(call->op, "ignore_index") != NULL,
                      .ignored = tn__attr_int(call->op, "ignore_index", 0)};
    TN_TRY(tn__check_result(call, 1, x->rank, x->shape));
    return tn__check_count(call, 2, job->classes);
}

static tn_status loss_run(tn_kernel_call *call, bool softmax) {
    const char *reduction = tn__attr_string(call->op, "reduction", "mean");
    tn_operand *y = tn__call_output(call, 0), *logarithms = tn__call_output(call, 1);
    bool none = strcmp(reduction, "none") == 0, mean = strcmp(reduction, "mean") == 0;
    double sum = 0, weights = 0;
    loss_job job = {0};
    TN_TRY(loss_read(call, softmax, &job));
    if (!none && !mean && strcmp(reduction, "sum") != 0)
        return tn__call_fail(call, TN_E_INVALID, "the reduction '%.40s' is unknown", reduction);
    TN_TRY(tn__check_result(call, 0, none ? job.target->rank : 0, job.target->shape));
    uint64_t count = tn__operand_count(job.target);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t first = i / job.inner * job.classes * job.inner + i % job.inner;
        int64_t class = tn__operand_int(job.target, i);
        double total = loss_total(&job, first), loss = 0;
        for (uint64_t c = 0; c < job.classes && logarithms != NULL; c++)
            tn__real_set(logarithms, first + c * job.inner,
                         tn__real_get(job.x, first + c * job.inner) - total);
        if (!job.ignores || class != job.ignored) {
            if (class < 0 || (uint64_t) class >= job.classes)
                return tn__call_fail(call, TN_E_INVALID, "target %lld of %llu classes",
                                     (long long)class, (unsigned long long)job.classes);
            double weight = job.weight != NULL ? tn__real_get(job.weight, (uint64_t) class) : 1;
            loss = (total - tn__real_get(job.x, first + (uint64_t) class * job.inner)) * weight;
            weights += weight;
        }
        sum += loss;
        if (none && y != NULL) tn__real_set(y, i, loss);
    }
    if (!none && y != NULL) tn__real_set(y, 0, mean ? sum / weights : sum);
    return TN_OK;
}

static tn_status loss_run_likelihood(tn_kernel_call *call) { return loss_run(call, false); }
static tn_status loss_run_softmax(tn_kernel_call *call) { return loss_run(call, true); }

static bool loss_accepts(const tn_kernel_setup *setup) {
    tn_dtype dtype = tn__input_type(setup, 0);
    uint64_t same = dtype < TN_DTYPE_COUNT ? UINT64_C(1) << dtype : 0;
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__input_is(setup, 1, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 2, same) && tn__output_may_be(setup, 0, same) &&
           tn__output_may_be(setup, 1, same);
}

/* --- random numbers --- */

#define LOSS_WORDS 624u /* the state of a Mersenne twister (MT19937) */

typedef struct loss_random {
    bool seeded;
    tn__random plain;
    uint32_t next, words[LOSS_WORDS];
} loss_random;

static void loss_random_start(loss_random *random, const tn_kernel_call *call) {
    const tn_attr *seed = tn__attr(call->op, "seed");
    random->seeded = seed != NULL && seed->type == TN_ATTR_INT;
    if (!random->seeded) {
        random->plain.state = call->random != NULL ? *call->random : 0;
        return;
    }
    uint32_t word = (uint32_t)seed->ints[0];
    for (uint32_t i = 0; i < LOSS_WORDS; i++) {
        random->words[i] = word;
        word = 1812433253u * (word ^ word >> 30) + i + 1;
    }
    random->next = LOSS_WORDS;
}

static uint32_t loss_random_word(loss_random *random) {
    uint32_t *words = random->words;
    if (random->next == LOSS_WORDS) {
        for (uint32_t i = 0; i < LOSS_WORDS; i++) {
            uint32_t both = (words[i] & 0x80000000u) | (words[(i + 1) % LOSS_WORDS] & 0x7fffffffu);
            words[i] = words[(i + 397) % LOSS_WORDS] ^ both >> 1 ^ (both & 1 ? 0x9908b0dfu : 0);
        }
        random->next = 0;
    }
    uint32_t word = words[random->next++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

static double loss_random_unit(loss_random *random) { /* 53 bits, in [0, 1) */
    if (!random->seeded) return (double)(tn__random_next(&random->plain) >> 11) * 0x1p-53;
    uint32_t high = loss_random_word(random) >> 5, low = loss_random_word(random) >> 6;
    return ((double)high * 0x1p26 + (double)low) * 0x1p-53;
}

/* --- Dropout --- */

/* Opset 7 and 10 know no training; before, an attribute decides, from 12 on an input. */
static tn_status loss_trains(const tn_kernel_call *call, bool *trains) {
    const tn_operand *mode = tn__call_input(call, 2);
    *trains = call->version < 7 && tn__attr_int(call->op, "is_test", 0) == 0;
    if (call->version < 12 || mode == NULL) return TN_OK;
    TN_TRY(tn__check_count(call, 2, 1));
    *trains = tn__operand_int(mode, 0) != 0;
    return TN_OK;
}

static tn_status loss_run_dropout(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *ratio_from = tn__call_input(call, 1);
    tn_operand *y = tn__call_output(call, 0), *mask = tn__call_output(call, 1);
    double ratio = tn__attr_float(call->op, "ratio", 0.5);
    bool trains;
    TN_TRY(loss_trains(call, &trains));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_result(call, 1, x->rank, x->shape));
    if (call->version >= 12 && ratio_from != NULL) {
        TN_TRY(tn__check_count(call, 1, 1));
        ratio = tn__operand_float(ratio_from, 0);
    }
    if (!trains) ratio = 0; /* nothing is dropped */
    if (!(ratio >= 0 && ratio < 1))
        return tn__call_fail(call, TN_E_INVALID, "a ratio of %g is outside [0, 1)", ratio);
    loss_random random = {0};
    if (ratio > 0) loss_random_start(&random, call);
    if (ratio == 0 && y != NULL) tn__operand_copy(y, x);
    uint64_t count = tn__operand_count(x);
    for (uint64_t i = 0; i < count && (ratio > 0 || mask != NULL); i++) {
        bool kept = ratio == 0 || loss_random_unit(&random) >= ratio;
        if (ratio > 0 && y != NULL) tn__real_set(y, i, kept ? tn__real_get(x, i) / (1 - ratio) : 0);
        if (mask != NULL && mask->dtype == TN_BOOL)
            ((uint8_t *)mask->data)[i] = kept;
        else if (mask != NULL)
            tn__real_set(mask, i, kept);
    }
    if (ratio > 0 && !random.seeded && call->random != NULL) *call->random = random.plain.state;
    return TN_OK;
}

static bool loss_accepts_dropout(const tn_kernel_setup *setup) {
    tn_dtype dtype = tn__input_type(setup, 0);
    uint64_t same = dtype < TN_DTYPE_COUNT ? UINT64_C(1) << dtype : 0;
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__input_may_be(setup, 1, TN__TYPES_REAL) &&
           tn__input_may_be(setup, 2, TN__TYPE(BOOL)) && tn__output_may_be(setup, 0, same) &&
           tn__output_may_be(setup, 1, TN__TYPE(BOOL) | same);
}

static const tn_kernel loss_kernels[] = {
    {.type = "Dropout", .accepts = loss_accepts_dropout, .run = loss_run_dropout},
    {.type = "NegativeLogLikelihoodLoss", .accepts = loss_accepts, .run = loss_run_likelihood},
    {.type = "SoftmaxCrossEntropyLoss", .accepts = loss_accepts, .run = loss_run_softmax},
};

TN_KERNEL_FAMILY(loss, "");
