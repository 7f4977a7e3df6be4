/* dropout.c - Dropout as ONNX defines it, and DropoutTrain of training steps.
 *
 * Outside of training, ONNX's Dropout copies its input. In training, it draws one random number per
 * element. With the attribute `seed`, the numbers are those of the Mersenne Twister that ONNX's
 * definition (numpy) uses, so that models with a seed give the values of ONNX's tests. Without it,
 * they come from the counter of the run.
 * Source: the ONNX specifications, opsets 1 to 17; Matsumoto, Nishimura 1998.
 */
#include <math.h>

#include "engine/kernels/operands.h"

/* --- ONNX's Dropout, with the random numbers of numpy --- */

#define DROPOUT_WORDS 624u /* words of the state of a Mersenne Twister (MT19937) */

typedef struct dropout_random {
    bool seeded;
    tn__random plain;
    uint32_t next, words[DROPOUT_WORDS];
} dropout_random;

static void dropout_random_start(dropout_random *random, const tn_kernel_call *call) {
    const tn_attr *seed = tn__attr(call->op, "seed");
    random->seeded = seed != NULL && seed->type == TN_ATTR_INT;
    if (!random->seeded) {
        random->plain.state = call->random != NULL ? *call->random : 0;
        return;
    }
    uint32_t word = (uint32_t)seed->ints[0];
    for (uint32_t i = 0; i < DROPOUT_WORDS; i++) {
        random->words[i] = word;
        word = 1812433253u * (word ^ word >> 30) + i + 1;
    }
    random->next = DROPOUT_WORDS;
}

static uint32_t dropout_random_word(dropout_random *random) {
    uint32_t *words = random->words;
    if (random->next == DROPOUT_WORDS) {
        for (uint32_t i = 0; i < DROPOUT_WORDS; i++) {
            uint32_t both =
                (words[i] & 0x80000000u) | (words[(i + 1) % DROPOUT_WORDS] & 0x7fffffffu);
            words[i] = words[(i + 397) % DROPOUT_WORDS] ^ both >> 1 ^ (both & 1 ? 0x9908b0dfu : 0);
        }
        random->next = 0;
    }
    uint32_t word = words[random->next++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

/* Returns a random number in [0, 1), with 53 random bits. */
static double dropout_random_unit(dropout_random *random) {
    if (!random->seeded) return (double)(tn__random_next(&random->plain) >> 11) * 0x1p-53;
    uint32_t high = dropout_random_word(random) >> 5, low = dropout_random_word(random) >> 6;
    return ((double)high * 0x1p26 + (double)low) * 0x1p-53;
}

/* --- Dropout --- */

/* Finds out whether Dropout is in training mode: by an attribute before opset 7, never in opsets 7
 * to 11, and by an input from opset 12 on. */
static tn_status dropout_trains(const tn_kernel_call *call, bool *trains) {
    const tn_operand *mode = tn__call_input(call, 2);
    *trains = call->version < 7 && tn__attr_int(call->op, "is_test", 0) == 0;
    if (call->version < 12 || mode == NULL) return TN_OK;
    TN_TRY(tn__check_count(call, 2, 1));
    *trains = tn__operand_int(mode, 0) != 0;
    return TN_OK;
}

static tn_status dropout_run_dropout(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *ratio_from = tn__call_input(call, 1);
    tn_operand *y = tn__call_output(call, 0), *mask = tn__call_output(call, 1);
    double ratio = tn__attr_float(call->op, "ratio", 0.5);
    bool trains;
    TN_TRY(dropout_trains(call, &trains));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_result(call, 1, x->rank, x->shape));
    if (call->version >= 12 && ratio_from != NULL) {
        TN_TRY(tn__check_count(call, 1, 1));
        ratio = tn__operand_float(ratio_from, 0);
    }
    if (!trains) ratio = 0; /* outside of training nothing is dropped */
    if (!(ratio >= 0 && ratio < 1))
        return tn__call_fail(call, TN_E_INVALID, "a ratio of %g is outside [0, 1)", ratio);
    dropout_random random = {0};
    if (ratio > 0) dropout_random_start(&random, call);
    if (ratio == 0 && y != NULL) tn__operand_copy(y, x);
    uint64_t count = tn__operand_count(x);
    for (uint64_t i = 0; i < count && (ratio > 0 || mask != NULL); i++) {
        bool kept = ratio == 0 || dropout_random_unit(&random) >= ratio;
        if (ratio > 0 && y != NULL) tn__real_set(y, i, kept ? tn__real_get(x, i) / (1 - ratio) : 0);
        if (mask != NULL && mask->dtype == TN_BOOL)
            ((uint8_t *)mask->data)[i] = kept;
        else if (mask != NULL)
            tn__real_set(mask, i, kept);
    }
    if (ratio > 0 && !random.seeded && call->random != NULL) *call->random = random.plain.state;
    return TN_OK;
}

static bool dropout_accepts_dropout(const tn_kernel_setup *setup) {
    tn_dtype dtype = tn__input_type(setup, 0);
    uint64_t same = dtype < TN_DTYPE_COUNT ? UINT64_C(1) << dtype : 0;
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__input_may_be(setup, 1, TN__TYPES_REAL) &&
           tn__input_may_be(setup, 2, TN__TYPE(BOOL)) && tn__output_may_be(setup, 0, same) &&
           tn__output_may_be(setup, 1, TN__TYPE(BOOL) | same);
}

/* --- DropoutTrain: drops elements at random and scales the others up ---
 *
 * Whether element i is dropped depends only on seed, operator, step, micro-batch and i: these
 * numbers are hashed with the output function of splitmix64 (Steele, Lea, Flood 2014). So the
 * backward pass can recompute the mask, and a resumed training run draws the same numbers as an
 * uninterrupted one. The output may have the address of the input. A row can be added before and a
 * tensor after; each sum is rounded as the operator Add rounds it.
 */

static uint64_t dropout_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns the hash of everything except the element's number, which is added to it later. */
static uint64_t dropout_key(const tn_kernel_call *call) {
    const tn_operand *micro = tn__call_input(call, 2);
    uint64_t key = dropout_mix((uint64_t)tn__attr_int(call->op, "seed", 0) + 0x9e3779b97f4a7c15u);
    key = dropout_mix(key + (uint64_t)tn__attr_int(call->op, "stream", 0));
    key = dropout_mix(key + (uint64_t)tn__operand_int(&call->inputs[1], 0));
    return dropout_mix(key + (micro != NULL ? (uint64_t)tn__operand_int(micro, 0) : 0));
}

/* Returns the number of element `i` in the undivided tensor, so that its random number does not
 * depend on how the tensor was divided into tiles or among ranks. */
static uint64_t dropout_place(const int64_t *places, uint64_t i) {
    if (places == NULL) return i;
    uint64_t run = (uint64_t)places[0];
    return i / run * (uint64_t)places[1] + i % run + (uint64_t)places[2];
}

/* Adds elements of a float32 tensor to the values, from element `at` on. The tensor repeats after
 * `width` elements. */
static void dropout_add(const tn_operand *addend, uint64_t width, uint64_t at, uint64_t count,
                        double *values) {
    const float *from = addend->data;
    for (uint64_t i = 0; i < count; i++)
        values[i] = (double)((float)values[i] + from[(at + i) % width]);
}

/* Writes which elements are kept: bit i % 8 of byte i / 8 is set for a kept element i. `at` is a
 * multiple of 8. */
static void dropout_keep(const tn_operand *bits, uint64_t at, uint64_t count, const bool *stays) {
    uint8_t *to = (uint8_t *)bits->data + at / 8;
    for (uint64_t i = 0; i < count; i += 8) {
        unsigned byte = 0;
        for (uint64_t k = 0; k < 8 && i + k < count; k++) byte |= (unsigned)stays[i + k] << k;
        to[i / 8] = (uint8_t)byte;
    }
}

static tn_status dropout_check(const tn_kernel_call *call, double ratio) {
    const tn_operand *x = &call->inputs[0];
    TN_TRY(tn__check_count(call, 1, 1));
    TN_TRY(tn__check_count(call, 2, 1));
    TN_TRY(tn__check_count(call, 3, x->rank > 0 ? (uint64_t)x->shape[x->rank - 1] : 1));
    TN_TRY(tn__check_count(call, 4, tn__operand_count(x)));
    if (!(ratio >= 0 && ratio < 1))
        return tn__call_fail(call, TN_E_INVALID, "attribute ratio must lie between 0 and 1");
    return TN_OK;
}

static tn_status dropout_run_train(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    const tn_operand *row = tn__call_input(call, 3), *sum = tn__call_input(call, 4);
    uint64_t total = tn__operand_count(x), key = dropout_key(call);
    const tn_operand *bits = tn__call_output(call, 1);
    double ratio = tn__attr_float(call->op, "ratio", 0.5), values[TN__REAL_TILE];
    bool stays[TN__REAL_TILE];
    uint32_t given;
    const int64_t *places = tn__attr_ints(call->op, "places", &given);
    TN_TRY(dropout_check(call, ratio));
    if (places != NULL && (given != 3 || places[0] < 1))
        return tn__call_fail(call, TN_E_INVALID, "attribute places is not three numbers");
    uint64_t bound = (uint64_t)(ratio * 4294967296.0);
    double factor = 1 / (1 - ratio);
    for (uint64_t at = 0; at < total; at += TN__REAL_TILE) {
        uint64_t count = total - at < TN__REAL_TILE ? total - at : TN__REAL_TILE;
        tn__real_load(x, at, 1, count, values);
        if (row != NULL) dropout_add(row, tn__operand_count(row), at, count, values);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t place = dropout_place(places, at + i);
            uint64_t drawn = dropout_mix(key + place * 0x9e3779b97f4a7c15u) >> 32;
            stays[i] = drawn >= bound;
            values[i] = stays[i] ? values[i] * factor : 0;
        }
        if (bits != NULL) dropout_keep(bits, at, count, stays);
        if (sum != NULL) dropout_add(sum, total, at, count, values);
        tn__real_store(&call->outputs[0], at, count, values);
    }
    return TN_OK;
}

/* Applies a mask that was stored in the forward pass. The result is that of recomputing the
 * mask. */
static tn_status dropout_run_bits(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    const uint8_t *bits = call->inputs[1].data;
    uint64_t total = tn__operand_count(x);
    double ratio = tn__attr_float(call->op, "ratio", 0.5), values[TN__REAL_TILE];
    TN_TRY(tn__check_count(call, 1, total / 8 + (total % 8 != 0)));
    if (!(ratio >= 0 && ratio < 1))
        return tn__call_fail(call, TN_E_INVALID, "attribute ratio must lie between 0 and 1");
    double factor = 1 / (1 - ratio);
    for (uint64_t at = 0; at < total; at += TN__REAL_TILE) {
        uint64_t count = total - at < TN__REAL_TILE ? total - at : TN__REAL_TILE;
        tn__real_load(x, at, 1, count, values);
        for (uint64_t i = 0; i < count; i++) {
            bool stays = bits[(at + i) / 8] >> (at + i) % 8 & 1;
            values[i] = stays ? values[i] * factor : 0;
        }
        tn__real_store(&call->outputs[0], at, count, values);
    }
    return TN_OK;
}

static bool dropout_accepts_bits(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0) && tn__input_is(setup, 1, TN__TYPE(UINT8));
}

static bool dropout_accepts_train(const tn_kernel_setup *setup) {
    bool adds = tn__setup_input(setup, 3) != NULL || tn__setup_input(setup, 4) != NULL;
    if (adds && !tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 8 | 16, 0)) return false;
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0) &&
           tn__input_is(setup, 1, TN__TYPE(INT64)) && tn__input_may_be(setup, 2, TN__TYPE(INT64));
}

_Static_assert(TN__REAL_TILE % 8 == 0, "tiles begin at whole bytes of a mask");

static const tn_kernel dropout_kernels[] = {
    {.type = "Dropout", .accepts = dropout_accepts_dropout, .run = dropout_run_dropout},
    {.domain = "tenure",
     .type = "DropoutBits",
     .accepts = dropout_accepts_bits,
     .run = dropout_run_bits},
    {.domain = "tenure",
     .type = "DropoutTrain",
     .accepts = dropout_accepts_train,
     .run = dropout_run_train},
};

TN_KERNEL_FAMILY(dropout, "");
