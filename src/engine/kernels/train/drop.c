/* drop.c - dropout in training: elements are dropped by chance, the others scaled up.
 *
 * Whether element i is dropped follows from seed, operator, step, micro-batch and i alone: a
 * counter goes through splitmix64's output function (Steele, Lea, Flood 2014). So the backward pass
 * draws the mask again instead of keeping it, and a resumed run draws the same numbers as an
 * uninterrupted one. It works in place. A row may be added before and a tensor after, each sum
 * rounded as Add rounds it.
 */
#include "engine/kernels/check.h"

static uint64_t drop_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The key of one operator in one run; counters of elements are added to it. */
static uint64_t drop_key(const tn_kernel_call *call) {
    const tn_operand *micro = tn__call_input(call, 2);
    uint64_t key = drop_mix((uint64_t)tn__attr_int(call->op, "seed", 0) + 0x9e3779b97f4a7c15u);
    key = drop_mix(key + (uint64_t)tn__attr_int(call->op, "stream", 0));
    key = drop_mix(key + (uint64_t)tn__operand_int(&call->inputs[1], 0));
    return drop_mix(key + (micro != NULL ? (uint64_t)tn__operand_int(micro, 0) : 0));
}

/* The number of element `i` in the whole tensor: its random number does not depend on how the
 * tensor was cut. */
static uint64_t drop_place(const int64_t *places, uint64_t i) {
    if (places == NULL) return i;
    uint64_t run = (uint64_t)places[0];
    return i / run * (uint64_t)places[1] + i % run + (uint64_t)places[2];
}

/* values += those of a tensor of float32 from `at` on, which repeats after `width` elements. */
static void drop_add(const tn_operand *addend, uint64_t width, uint64_t at, uint64_t count,
                     double *values) {
    const float *from = addend->data;
    for (uint64_t i = 0; i < count; i++)
        values[i] = (double)((float)values[i] + from[(at + i) % width]);
}

/* Bit i % 8 of byte i / 8: element i stays. Tiles begin at whole bytes. */
static void drop_keep(const tn_operand *bits, uint64_t at, uint64_t count, const bool *stays) {
    uint8_t *to = (uint8_t *)bits->data + at / 8;
    for (uint64_t i = 0; i < count; i += 8) {
        unsigned byte = 0;
        for (uint64_t k = 0; k < 8 && i + k < count; k++) byte |= (unsigned)stays[i + k] << k;
        to[i / 8] = (uint8_t)byte;
    }
}

static tn_status drop_check(const tn_kernel_call *call, double ratio) {
    const tn_operand *x = &call->inputs[0];
    TN_TRY(tn__check_count(call, 1, 1));
    TN_TRY(tn__check_count(call, 2, 1));
    TN_TRY(tn__check_count(call, 3, x->rank > 0 ? (uint64_t)x->shape[x->rank - 1] : 1));
    TN_TRY(tn__check_count(call, 4, tn__operand_count(x)));
    if (!(ratio >= 0 && ratio < 1))
        return tn__call_fail(call, TN_E_INVALID, "attribute ratio must lie between 0 and 1");
    return TN_OK;
}

static tn_status drop_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    const tn_operand *row = tn__call_input(call, 3), *sum = tn__call_input(call, 4);
    uint64_t total = tn__operand_count(x), key = drop_key(call);
    const tn_operand *bits = tn__call_output(call, 1);
    double ratio = tn__attr_float(call->op, "ratio", 0.5), values[TN__REAL_TILE];
    bool stays[TN__REAL_TILE];
    uint32_t given;
    const int64_t *places = tn__attr_ints(call->op, "places", &given);
    TN_TRY(drop_check(call, ratio));
    if (places != NULL && (given != 3 || places[0] < 1))
        return tn__call_fail(call, TN_E_INVALID, "attribute places is not three numbers");
    uint64_t bound = (uint64_t)(ratio * 4294967296.0);
    double factor = 1 / (1 - ratio);
    for (uint64_t at = 0; at < total; at += TN__REAL_TILE) {
        uint64_t count = total - at < TN__REAL_TILE ? total - at : TN__REAL_TILE;
        tn__real_load(x, at, 1, count, values);
        if (row != NULL) drop_add(row, tn__operand_count(row), at, count, values);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t place = drop_place(places, at + i);
            uint64_t drawn = drop_mix(key + place * 0x9e3779b97f4a7c15u) >> 32;
            stays[i] = drawn >= bound;
            values[i] = stays[i] ? values[i] * factor : 0;
        }
        if (bits != NULL) drop_keep(bits, at, count, stays);
        if (sum != NULL) drop_add(sum, total, at, count, values);
        tn__real_store(&call->outputs[0], at, count, values);
    }
    return TN_OK;
}

/* By a mask that was kept: the same numbers as by drawing it again. */
static tn_status drop_run_bits(tn_kernel_call *call) {
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

static bool drop_accepts_bits(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0) && tn__input_is(setup, 1, TN__TYPE(UINT8));
}

static bool drop_accepts(const tn_kernel_setup *setup) {
    bool adds = tn__setup_input(setup, 3) != NULL || tn__setup_input(setup, 4) != NULL;
    if (adds && !tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 8 | 16, 0)) return false;
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0) &&
           tn__input_is(setup, 1, TN__TYPE(INT64)) && tn__input_may_be(setup, 2, TN__TYPE(INT64));
}

_Static_assert(TN__REAL_TILE % 8 == 0, "tiles begin at whole bytes of a mask");
static const tn_kernel train_drop_kernels[] = {
    {.type = "DropoutBits", .accepts = drop_accepts_bits, .run = drop_run_bits},
    {.type = "DropoutTrain", .accepts = drop_accepts, .run = drop_run},
};

TN_KERNEL_FAMILY(train_drop, "tenure");
