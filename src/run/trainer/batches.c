/* batches.c - chooses the samples of each batch and fills the batch. */
#include "run/trainer/data.h"

struct tn_batches {
    tn_context context;
    tn__arena arena;
    const tn_data *data;
    uint64_t seed, per_epoch;
    /* number of labels of one sample; for text this is also the number of bytes in a window */
    uint64_t labels;
    uint32_t size; /* number of samples that one call fills */
    /* number of arrays that a call fills; with labels, the last one is theirs */
    uint32_t count;
    bool labelled;
    /* [count] for each of these arrays, its number in the training set and in the test set */
    uint32_t *from[2];
    /* each whole batch is divided into `parts` equal parts, and these are the batches of part
     * number `part` */
    uint32_t part, parts;
    uint32_t order_epoch; /* the epoch for which `order` is filled; TN_NONE: none yet */
    uint32_t *order;      /* [samples] */
    /* array of `size` sample numbers of the current batch; for text these are positions */
    uint64_t *numbers;
};

/* --- which --- */

/* Fills `order` for an epoch: a Fisher-Yates shuffle, from the end. */
static void batches_shuffle(tn_batches *batches, uint32_t epoch) {
    tn__random random = {.state = batches->seed ^ (0x9e3779b97f4a7c15u * (epoch + 1u))};
    uint64_t count = batches->data->train.count;
    uint32_t *order = batches->order;
    for (uint64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (uint64_t i = count; i > 1; i--) {
        uint64_t k = tn__random_below(&random, i);
        uint32_t kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
    batches->order_epoch = epoch;
}

/* Chooses the samples of batch `number`. A part of a batch gets the samples at its place in the
 * whole batch, so all parts together have the samples of an undivided batch. */
static void batches_choose(tn_batches *batches, uint64_t number) {
    uint64_t first = (uint64_t)batches->part * batches->size;
    uint64_t whole = (uint64_t)batches->parts * batches->size;
    uint32_t epoch = (uint32_t)(number / batches->per_epoch);
    uint64_t batch = number % batches->per_epoch, count = batches->data->train.count;
    if (batches->data->text) { /* text: each batch has new random positions */
        tn__random random = {.state = batches->seed + 0x632be59bd9b4e019u * (batch + 1) + epoch};
        for (uint64_t i = 0; i < first + batches->size; i++) {
            uint64_t place = tn__random_below(&random, count - batches->labels);
            if (i >= first) batches->numbers[i - first] = place;
        }
        return;
    }
    if (batches->order_epoch != epoch) batches_shuffle(batches, epoch);
    for (uint32_t i = 0; i < batches->size; i++)
        batches->numbers[i] = batches->order[(batch * whole + first + i) % count];
}

/* --- conversion between element types --- */

static void batches_pixels(void *to, const void *from, uint64_t count) {
    float *real = to;
    const uint8_t *byte = from;
    for (uint64_t i = 0; i < count; i++) real[i] = (float)byte[i] / 255;
}

/* Defines a conversion function for one pair of C types. */
#define BATCHES_LOOP(name, to_type, from_type)                                                     \
    static void name(void *to, const void *from, uint64_t count) {                                 \
        to_type *a = to;                                                                           \
        const from_type *b = from;                                                                 \
        for (uint64_t i = 0; i < count; i++) a[i] = (to_type)b[i];                                 \
    }
BATCHES_LOOP(batches_narrow, float, double)
BATCHES_LOOP(batches_wide_u8, int64_t, uint8_t)
BATCHES_LOOP(batches_wide_i8, int64_t, int8_t)
BATCHES_LOOP(batches_wide_i32, int64_t, int32_t)
BATCHES_LOOP(batches_int_u8, int32_t, uint8_t)
BATCHES_LOOP(batches_int_i8, int32_t, int8_t)

typedef void (*batches_convert)(void *to, const void *from, uint64_t count);

static const struct batches_pair {
    tn_dtype to, from;
    batches_convert convert;
} batches_pairs[] = {
    {TN_FLOAT32, TN_UINT8, batches_pixels}, {TN_FLOAT32, TN_FLOAT64, batches_narrow},
    {TN_INT64, TN_UINT8, batches_wide_u8},  {TN_INT64, TN_INT8, batches_wide_i8},
    {TN_INT64, TN_INT32, batches_wide_i32}, {TN_INT32, TN_UINT8, batches_int_u8},
    {TN_INT32, TN_INT8, batches_int_i8},
};

static batches_convert batches_find(tn_dtype from, tn_dtype to) {
    for (size_t i = 0; i < sizeof batches_pairs / sizeof *batches_pairs; i++)
        if (batches_pairs[i].from == from && batches_pairs[i].to == to)
            return batches_pairs[i].convert;
    return NULL;
}

bool tn__batch_converts(tn_dtype from, tn_dtype to) {
    return (from == to && tn_dtype_bits(from) % 8 == 0) || batches_find(from, to) != NULL;
}

static void batches_put(void *to, tn_dtype to_type, const void *from, tn_dtype from_type,
                        uint64_t count) {
    if (to_type == from_type)
        memcpy(to, from, count * (tn_dtype_bits(to_type) / 8));
    else
        batches_find(from_type, to_type)(to, from, count);
}

/* --- contents --- */

static void batches_fill_array(const tn_batches *batches, const tn_array *from, uint64_t from_count,
                               const tn_array *to) {
    uint64_t from_each = from->bytes / from_count, to_each = to->bytes / batches->size;
    uint64_t elements = from_each * 8 / tn_dtype_bits(from->dtype);
    for (uint32_t i = 0; i < batches->size; i++)
        batches_put((uint8_t *)to->data + i * to_each, to->dtype,
                    (const uint8_t *)from->data + batches->numbers[i] * from_each, from->dtype,
                    elements);
}

static void batches_fill_text(const tn_batches *batches, const tn__data_set *set,
                              const tn_array *input, const tn_array *labels) {
    uint64_t window = batches->labels, wide = tn_dtype_bits(input->dtype) / 8;
    for (uint32_t i = 0; i < batches->size; i++) {
        const uint8_t *from = (const uint8_t *)set->arrays[0].array.data + batches->numbers[i];
        batches_put((uint8_t *)input->data + i * window * wide, input->dtype, from, TN_UINT8,
                    window);
        batches_put((uint8_t *)labels->data + i * window * 8, labels->dtype, from + 1, TN_UINT8,
                    window);
    }
}

static void batches_fill(const tn_batches *batches, bool held_out, const tn_array *samples,
                         const tn_array *labels) {
    const tn__data_set *set = held_out ? &batches->data->test : &batches->data->train;
    if (batches->data->text) {
        batches_fill_text(batches, set, samples, labels);
        return;
    }
    for (uint32_t k = 0; k < batches->count; k++) {
        bool is_labels = batches->labelled && k + 1 == batches->count;
        batches_fill_array(batches, &set->arrays[batches->from[held_out][k]].array, set->count,
                           is_labels ? labels : &samples[k]);
    }
}

void tn_batches_fill(tn_batches *batches, uint64_t number, tn_array *samples, tn_array *labels) {
    batches_choose(batches, number);
    batches_fill(batches, false, samples, labels);
}

/* --- test samples --- */

/* Returns the distance between the beginnings of two successive test samples. */
static uint64_t batches_stride(const tn_batches *batches) {
    return batches->data->text ? batches->labels : 1;
}

/* Returns the position at which, and after which, no test sample begins. After each window of text
 * one more byte is needed: the last label of the window. */
static uint64_t batches_test_end(const tn_batches *batches) {
    uint64_t count = batches->data->test.count;
    if (!batches->data->text) return count;
    return count > batches->labels ? count - batches->labels : 0;
}

uint64_t tn_batches_test_count(const tn_batches *batches) {
    uint64_t each = batches->size * batches_stride(batches);
    uint64_t end = batches_test_end(batches);
    return end / each + (end % each != 0);
}

/* If the last batch has too few samples, the rest of it is filled with copies of its first
 * sample. */
uint32_t tn_batches_fill_test(tn_batches *batches, uint64_t number, tn_array *samples,
                              tn_array *labels) {
    uint64_t stride = batches_stride(batches), end = batches_test_end(batches);
    uint64_t first = number * batches->size * stride;
    uint32_t real = 0;
    for (uint32_t i = 0; i < batches->size; i++) {
        bool there = first + i * stride < end;
        batches->numbers[i] = there ? first + i * stride : first;
        real += there;
    }
    batches_fill(batches, true, samples, labels);
    return real;
}

/* --- creating batches --- */

static tn_status batches_count(tn_batches *batches, tn_error *error) {
    const tn__data_set *set = &batches->data->train;
    if (batches->data->text && set->count <= batches->labels)
        TN_FAIL(error, TN_E_INVALID,
                "%.200s has %llu bytes to train on; the model reads %llu and the next one",
                set->paths[0], (unsigned long long)set->count, (unsigned long long)batches->labels);
    uint64_t whole = (uint64_t)batches->parts * batches->size;
    batches->per_epoch = set->count / tn__mul_sat(whole, batches_stride(batches));
    if (batches->per_epoch == 0)
        TN_FAIL(error, TN_E_INVALID, "%llu samples do not fill a batch of %llu",
                (unsigned long long)set->count, (unsigned long long)whole);
    return TN_OK;
}

/* Finds the arrays for all tensors of a batch, and checks them. */
static tn_status batches_match(tn_batches *made, const tn__batch_of *of, int64_t classes,
                               tn_error *error) {
    const tn_data *data = made->data;
    for (uint32_t held_out = 0; held_out < 2; held_out++) {
        const tn__data_set *set = held_out ? &data->test : &data->train;
        uint32_t *from = tn__arena_array(&made->arena, made->count + (size_t)1, sizeof *from);
        if (from == NULL) return tn__no_memory(error, "batches");
        made->from[held_out] = from;
        if (!data->text) TN_TRY(tn__data_match(data, set, of, from, error));
        TN_TRY(tn__data_check(data, set, of, from, classes, error));
    }
    return TN_OK;
}

static tn_status batches_make(tn_batches *made, const tn__batch_of *of, int64_t classes,
                              tn_error *error) {
    const tn_data *data = made->data;
    const tn_tensor *labels = of->labels;
    made->size = (uint32_t)of->inputs[0].shape[0];
    made->labelled = labels != NULL;
    made->count = of->count + made->labelled;
    TN_TRY(batches_match(made, of, classes, error));
    if (labels != NULL)
        made->labels = labels->bytes * 8 / tn_dtype_bits(labels->dtype) / made->size;
    TN_TRY(batches_count(made, error));
    made->order_epoch = TN_NONE;
    made->numbers = tn__arena_array(&made->arena, made->size, sizeof *made->numbers);
    made->order =
        tn__arena_array(&made->arena, data->text ? 1 : data->train.count, sizeof *made->order);
    return made->numbers != NULL && made->order != NULL ? TN_OK : tn__no_memory(error, "batches");
}

/* Checks that the first extent of a tensor can be a number of samples. */
static tn_status batches_check_size(const tn_tensor *tensor, tn_error *error) {
    if (tensor->rank == 0 || tensor->rank > TN_RANK_MAX || tensor->shape[0] < 1 ||
        tensor->shape[0] > UINT32_MAX || tensor->bytes == TN_SIZE_UNKNOWN)
        TN_FAIL(error, TN_E_INVALID, "'%.80s' has no first extent that counts samples",
                tensor->name);
    return TN_OK;
}

/* Checks that all tensors of a batch have the same number of samples. */
static tn_status batches_check_sizes(const tn__batch_of *of, tn_error *error) {
    for (uint32_t k = 0; k < of->count + (of->labels != NULL); k++) {
        const tn_tensor *tensor = k < of->count ? &of->inputs[k] : of->labels;
        TN_TRY(batches_check_size(tensor, error));
        if (tensor->shape[0] != of->inputs[0].shape[0])
            TN_FAIL(error, TN_E_INVALID, "'%.80s' is for %lld samples, '%.80s' for %lld",
                    of->inputs[0].name, (long long)of->inputs[0].shape[0], tensor->name,
                    (long long)tensor->shape[0]);
    }
    return TN_OK;
}

tn_status tn_batches_create(const tn_data *data, const tn_tensor *inputs, const tn_tensor *labels,
                            const tn_batches_options *given, tn_batches **batches,
                            tn_error *error) {
    tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    tn_context context = tn__context(options.context);
    const tn__batch_of of = {inputs, options.input_count > 0 ? options.input_count : 1, labels};
    if (options.part > 0 && options.part >= options.parts)
        TN_FAIL(error, TN_E_INVALID, "a batch of %u parts has no part %u", options.parts,
                options.part);
    TN_TRY(batches_check_sizes(&of, error));
    tn_batches *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "batches");
    made->context = context;
    made->data = data;
    made->seed = options.seed;
    made->part = options.part;
    made->parts = options.parts > 0 ? options.parts : 1;
    tn__arena_init(&made->arena, &made->context);
    tn_status status = batches_make(made, &of, options.classes, error);
    if (status == TN_OK)
        *batches = made;
    else
        tn_batches_destroy(made);
    return status;
}

void tn_batches_destroy(tn_batches *batches) {
    if (batches == NULL) return;
    tn_context context = batches->context;
    tn__arena_release(&batches->arena);
    tn__free(&context, batches, sizeof *batches);
}

uint64_t tn_batches_per_epoch(const tn_batches *batches) { return batches->per_epoch; }
uint64_t tn_batches_labels(const tn_batches *batches) { return batches->labels; }
