/* batch.c - which samples make a batch, and the batch itself. */
#include <string.h>

#include "base/base.h"
#include "cli/data.h"

/* --- which --- */

static void batch_shuffle(uint32_t *order, uint64_t count, uint64_t seed, uint32_t epoch) {
    tn__random random = {.state = seed ^ (0x9e3779b97f4a7c15u * (epoch + 1u))};
    for (uint64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (uint64_t i = count; i > 1; i--) {
        uint64_t k = tn__random_below(&random, i);
        uint32_t kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
}

void cli_batch_choose(const cli_data *data, uint64_t seed, uint32_t epoch, uint64_t batch,
                      uint32_t size, uint64_t window, uint32_t *order, uint32_t *order_epoch,
                      uint64_t *numbers) {
    uint64_t count = data->train.count;
    if (data->text) { /* places drawn anew for each batch */
        tn__random random = {.state = seed + 0x632be59bd9b4e019u * (batch + 1) + epoch};
        for (uint32_t i = 0; i < size; i++) numbers[i] = tn__random_below(&random, count - window);
        return;
    }
    if (*order_epoch != epoch) batch_shuffle(order, count, seed, epoch);
    *order_epoch = epoch;
    for (uint32_t i = 0; i < size; i++) numbers[i] = order[(batch * size + i) % count];
}

/* --- elements of one type as those of another --- */

static void batch_pixels(void *to, const void *from, uint64_t count) {
    float *real = to;
    const uint8_t *byte = from;
    for (uint64_t i = 0; i < count; i++) real[i] = (float)byte[i] / 255;
}

/* A loop for each pair of C types. */
#define BATCH_LOOP(name, to_type, from_type)                                                       \
    static void name(void *to, const void *from, uint64_t count) {                                 \
        to_type *a = to;                                                                           \
        const from_type *b = from;                                                                 \
        for (uint64_t i = 0; i < count; i++) a[i] = (to_type)b[i];                                 \
    }
BATCH_LOOP(batch_narrow, float, double)
BATCH_LOOP(batch_wide_u8, int64_t, uint8_t)
BATCH_LOOP(batch_wide_i8, int64_t, int8_t)
BATCH_LOOP(batch_wide_i32, int64_t, int32_t)
BATCH_LOOP(batch_int_u8, int32_t, uint8_t)
BATCH_LOOP(batch_int_i8, int32_t, int8_t)

typedef void (*batch_convert)(void *to, const void *from, uint64_t count);

static const struct batch_pair {
    tn_dtype to, from;
    batch_convert convert;
} batch_pairs[] = {
    {TN_FLOAT32, TN_UINT8, batch_pixels}, {TN_FLOAT32, TN_FLOAT64, batch_narrow},
    {TN_INT64, TN_UINT8, batch_wide_u8},  {TN_INT64, TN_INT8, batch_wide_i8},
    {TN_INT64, TN_INT32, batch_wide_i32}, {TN_INT32, TN_UINT8, batch_int_u8},
    {TN_INT32, TN_INT8, batch_int_i8},
};

static batch_convert batch_find(tn_dtype from, tn_dtype to) {
    for (size_t i = 0; i < sizeof batch_pairs / sizeof *batch_pairs; i++)
        if (batch_pairs[i].from == from && batch_pairs[i].to == to) return batch_pairs[i].convert;
    return NULL;
}

bool cli_batch_converts(tn_dtype from, tn_dtype to) {
    return (from == to && tn_dtype_bits(from) % 8 == 0) || batch_find(from, to) != NULL;
}

static void batch_put(void *to, tn_dtype to_type, const void *from, tn_dtype from_type,
                      uint64_t count) {
    if (to_type == from_type)
        memcpy(to, from, count * (tn_dtype_bits(to_type) / 8));
    else
        batch_find(from_type, to_type)(to, from, count);
}

/* --- batches --- */

static void batch_fill_array(const tn_array *from, uint64_t from_count, const uint64_t *numbers,
                             uint32_t size, tn_array *to) {
    uint64_t from_each = from->bytes / from_count, to_each = to->bytes / size;
    uint64_t elements = from_each * 8 / tn_dtype_bits(from->dtype);
    for (uint32_t i = 0; i < size; i++)
        batch_put((uint8_t *)to->data + i * to_each, to->dtype,
                  (const uint8_t *)from->data + numbers[i] * from_each, from->dtype, elements);
}

void cli_batch_fill(const cli_data *data, const cli_set *set, const uint64_t *numbers,
                    uint32_t size, tn_array *input, tn_array *labels) {
    if (!data->text) {
        batch_fill_array(&set->samples, set->count, numbers, size, input);
        batch_fill_array(&set->labels, set->count, numbers, size, labels);
        return;
    }
    uint64_t window = (uint64_t)input->shape[1];
    uint64_t wide = tn_dtype_bits(input->dtype) / 8;
    for (uint32_t i = 0; i < size; i++) {
        const uint8_t *from = (const uint8_t *)set->samples.data + numbers[i];
        batch_put((uint8_t *)input->data + i * window * wide, input->dtype, from, TN_UINT8, window);
        batch_put((uint8_t *)labels->data + i * window * 8, labels->dtype, from + 1, TN_UINT8,
                  window);
    }
}
