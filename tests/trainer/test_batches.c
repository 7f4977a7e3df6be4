/* test_batches.c - data sets of random sizes in batches of random sizes: what is seen, how often,
 * and that it follows from the number of the batch alone.
 */
#include "support.h"

#include <math.h>
#include <unistd.h>

#include <tenure/train.h>

#include "base/base.h"

#define MOST 200u

/* Samples that say which they are: sample i is (i, 3 i + 1) and has label i % classes. */
typedef struct numbered {
    double samples[MOST][2];
    uint8_t labels[MOST];
    tn_samples arrays;
} numbered;

static void numbered_make(numbered *set, uint32_t count, uint32_t first, uint32_t classes) {
    for (uint32_t i = 0; i < count; i++) {
        set->samples[i][0] = first + i;
        set->samples[i][1] = 3.0 * (first + i) + 1;
        set->labels[i] = (uint8_t)((first + i) % classes);
    }
    set->arrays = (tn_samples){
        .samples = {.dtype = TN_FLOAT64,
                    .rank = 2,
                    .shape = {count, 2},
                    .bytes = count * sizeof *set->samples,
                    .data = set->samples},
        .labels = {
            .dtype = TN_UINT8, .rank = 1, .shape = {count}, .bytes = count, .data = set->labels}};
}

typedef struct model { /* what it takes at once */
    float x[MOST][2];
    int64_t y[MOST], x_shape[2], y_shape[1];
    tn_tensor input, labels;
    tn_array x_array, y_array;
} model;

static void model_make(model *m, uint32_t batch) {
    *m = (model){.x_shape = {batch, 2}, .y_shape = {batch}};
    m->input = (tn_tensor){.name = "x",
                           .dtype = TN_FLOAT32,
                           .rank = 2,
                           .shape = m->x_shape,
                           .bytes = batch * sizeof *m->x};
    m->labels = (tn_tensor){.name = "labels",
                            .dtype = TN_INT64,
                            .rank = 1,
                            .shape = m->y_shape,
                            .bytes = batch * sizeof *m->y};
    m->x_array = (tn_array){
        .dtype = TN_FLOAT32, .rank = 2, .shape = {batch, 2}, .bytes = m->input.bytes, .data = m->x};
    m->y_array = (tn_array){
        .dtype = TN_INT64, .rank = 1, .shape = {batch}, .bytes = m->labels.bytes, .data = m->y};
}

static void must(tn_status status, const tn_error *error) {
    if (status != TN_OK) fail_msg("%s: %s", tn_status_name(status), error->message);
}

static tn_batches *batches_of(const tn_data *data, const model *m, int64_t classes, uint64_t seed) {
    tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
    tn_batches *batches;
    tn_error error;
    options.classes = classes;
    options.seed = seed;
    must(tn_batches_create(data, &m->input, &m->labels, &options, &batches, &error), &error);
    return batches;
}

/* Which sample stands at a place of a batch; that all of it is there. */
static uint32_t which(const model *m, uint32_t place, uint32_t classes) {
    uint32_t i = (uint32_t)m->x[place][0];
    assert_true(m->x[place][0] == (float)i && m->x[place][1] == (float)(3 * i + 1));
    assert_int_equal(m->y[place], i % classes);
    return i;
}

/* --- one random case --- */

typedef struct drawn_case {
    uint32_t count, test_count, batch, classes;
    uint64_t seed;
    numbered train, test;
    model m;
    tn_data *data;
    tn_batches *batches;
} drawn_case;

static void case_open(drawn_case *c, uint64_t seed) {
    tn__random random = {.state = seed};
    tn_error error;
    c->count = 1 + (uint32_t)tn__random_below(&random, MOST);
    c->test_count = 1 + (uint32_t)tn__random_below(&random, MOST);
    c->batch = 1 + (uint32_t)tn__random_below(&random, c->count);
    c->classes = 1 + (uint32_t)tn__random_below(&random, 12);
    c->seed = tn__random_next(&random);
    numbered_make(&c->train, c->count, 0, c->classes);
    numbered_make(&c->test, c->test_count, c->count, c->classes);
    model_make(&c->m, c->batch);
    must(tn_data_create(&c->train.arrays, &c->test.arrays, NULL, &c->data, &error), &error);
    c->batches = batches_of(c->data, &c->m, c->classes, c->seed);
}

static void case_close(drawn_case *c) {
    tn_batches_destroy(c->batches);
    tn_data_destroy(c->data);
}

#define CASES 300u

static void an_epoch_shows_each_sample_once(void **state) {
    (void)state;
    static drawn_case c;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        case_open(&c, seed);
        uint64_t per_epoch = tn_batches_per_epoch(c.batches);
        assert_int_equal(per_epoch, c.count / c.batch);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint32_t seen[MOST] = {0}, all = 0;
            for (uint64_t run = 0; run < per_epoch; run++) {
                tn_batches_fill(c.batches, epoch * per_epoch + run, &c.m.x_array, &c.m.y_array);
                for (uint32_t i = 0; i < c.batch; i++) seen[which(&c.m, i, c.classes)]++;
            }
            for (uint32_t i = 0; i < MOST; i++) {
                if (seen[i] > 1 || (seen[i] == 1 && i >= c.count))
                    fail_msg("seed %llu: sample %u is seen %u times", (unsigned long long)seed, i,
                             seen[i]);
                all += seen[i];
            }
            assert_int_equal(all, per_epoch * c.batch);
        }
        case_close(&c);
    }
}

static void what_was_held_out_is_shown_once_and_in_order(void **state) {
    (void)state;
    static drawn_case c;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        case_open(&c, seed);
        uint32_t next = c.count;
        for (uint64_t k = 0; k < tn_batches_test_count(c.batches); k++) {
            uint32_t real = tn_batches_fill_test(c.batches, k, &c.m.x_array, &c.m.y_array);
            assert_true(real >= 1 && real <= c.batch);
            for (uint32_t i = 0; i < real; i++) assert_int_equal(which(&c.m, i, c.classes), next++);
            for (uint32_t i = real; i < c.batch; i++) (void)which(&c.m, i, c.classes);
        }
        assert_int_equal(next, c.count + c.test_count);
        case_close(&c);
    }
}

/* A run that begins anywhere sees what one that came there from the start sees. */
static void a_batch_follows_from_its_number_alone(void **state) {
    (void)state;
    static drawn_case c;
    static model other;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        tn__random random = {.state = seed + 1000};
        case_open(&c, seed);
        model_make(&other, c.batch);
        uint64_t runs = 3 * tn_batches_per_epoch(c.batches);
        uint64_t from = tn__random_below(&random, runs);
        tn_batches *resumed = batches_of(c.data, &other, c.classes, c.seed);
        for (uint64_t run = 0; run < runs; run++) {
            tn_batches_fill(c.batches, run, &c.m.x_array, &c.m.y_array);
            if (run < from) continue;
            tn_batches_fill(resumed, run, &other.x_array, &other.y_array);
            assert_memory_equal(c.m.x, other.x, c.m.x_array.bytes);
            assert_memory_equal(c.m.y, other.y, c.m.y_array.bytes);
            if (run % 3 == 0) /* a test between two steps changes nothing */
                (void)tn_batches_fill_test(resumed, 0, &other.x_array, &other.y_array);
        }
        tn_batches_destroy(resumed);
        case_close(&c);
    }
}

static void another_seed_or_epoch_is_another_order(void **state) {
    (void)state;
    static numbered set;
    static model a, b;
    tn_data *data;
    tn_error error;
    numbered_make(&set, MOST, 0, 7);
    model_make(&a, MOST);
    model_make(&b, MOST);
    must(tn_data_create(&set.arrays, NULL, NULL, &data, &error), &error);
    tn_batches *one = batches_of(data, &a, 7, 1), *two = batches_of(data, &b, 7, 2);
    tn_batches_fill(one, 0, &a.x_array, &a.y_array);
    tn_batches_fill(two, 0, &b.x_array, &b.y_array);
    assert_memory_not_equal(a.x, b.x, a.x_array.bytes);
    tn_batches_fill(two, 1, &a.x_array, &a.y_array);
    assert_memory_not_equal(a.x, b.x, a.x_array.bytes);
    assert_int_equal(tn_batches_test_count(one), 0);
    tn_batches_destroy(one);
    tn_batches_destroy(two);
    tn_data_destroy(data);
}

/* --- text --- */

#define WINDOW 5u

static void text_foretells_its_next_byte(void **state) {
    (void)state;
    char path[] = "/tmp/tenure-text-XXXXXX", what[64];
    uint8_t text[400];
    int64_t x[3][WINDOW], y[3][WINDOW], shape[] = {3, WINDOW};
    tn__random random = {.state = 9};
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)tn__random_below(&random, 256);
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, sizeof text) == sizeof text);
    close(file);
    snprintf(what, sizeof what, "text:%s", path);
    tn_tensor tensor = {
        .name = "x", .dtype = TN_INT64, .rank = 2, .shape = shape, .bytes = sizeof x};
    tn_array in = {
        .dtype = TN_INT64, .rank = 2, .shape = {3, WINDOW}, .bytes = sizeof x, .data = x};
    tn_array out = in;
    out.data = y;
    tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
    tn_data *data;
    tn_batches *batches;
    tn_error error;
    options.classes = 256;
    must(tn_data_load(what, NULL, &data, &error), &error);
    must(tn_batches_create(data, &tensor, &tensor, &options, &batches, &error), &error);
    tn_batches_destroy(batches);
    options.classes = 0; /* not known: nothing to check */
    must(tn_batches_create(data, &tensor, &tensor, &options, &batches, &error), &error);
    assert_true(tn_data_is_text(data));
    assert_int_equal(tn_data_count(data), 360);
    assert_int_equal(tn_data_test_count(data), 40);
    assert_int_equal(tn_batches_labels(batches), WINDOW);
    for (uint64_t run = 0; run < 2000; run++) {
        tn_batches_fill(batches, run, &in, &out);
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t at = 0; /* where the window stands in what is trained on */
            bool found = false;
            for (; at + WINDOW < 360 && !found; at += !found) {
                found = true;
                for (uint32_t k = 0; k < WINDOW; k++)
                    found &= x[i][k] == text[at + k] && y[i][k] == text[at + k + 1];
            }
            assert_true(found);
        }
    }
    uint32_t at = 360;
    for (uint64_t k = 0; k < tn_batches_test_count(batches); k++) {
        uint32_t real = tn_batches_fill_test(batches, k, &in, &out);
        for (uint32_t i = 0; i < real; i++, at += WINDOW)
            for (uint32_t j = 0; j < WINDOW; j++)
                assert_true(x[i][j] == text[at + j] && y[i][j] == text[at + j + 1]);
    }
    assert_true(at + WINDOW >= 400); /* not a whole window and its last label are left */
    tn_batches_destroy(batches);
    tn_data_destroy(data);
    unlink(path);
}

/* --- what is refused --- */

static void refused(const tn_samples *set, const model *m, int64_t classes, const char *why) {
    tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
    tn_data *data;
    tn_batches *batches = NULL;
    tn_error error = {0};
    options.classes = classes;
    must(tn_data_create(set, NULL, NULL, &data, &error), &error);
    assert_int_equal(tn_batches_create(data, &m->input, &m->labels, &options, &batches, &error),
                     TN_E_INVALID);
    assert_null(batches);
    if (strstr(error.message, why) == NULL) fail_msg("'%s' without '%s'", error.message, why);
    tn_data_destroy(data);
}

static void data_that_the_model_does_not_take_are_refused(void **state) {
    (void)state;
    static numbered set;
    static model m;
    model_make(&m, 4);
    numbered_make(&set, 20, 0, 5);
    refused(&set.arrays, &m, 4, "sample 4 has label 4; the model has 4 classes");
    set.samples[13][1] = INFINITY;
    refused(&set.arrays, &m, 5, "number 13 of its samples");
    set.samples[13][1] = NAN;
    refused(&set.arrays, &m, 5, "number 13 of its samples");
    numbered_make(&set, 3, 0, 5);
    refused(&set.arrays, &m, 5, "3 samples do not fill a batch of 4");
    numbered_make(&set, 20, 0, 5);
    m.x_shape[1] = 3;
    m.input.bytes = 4 * 3 * sizeof(float);
    refused(&set.arrays, &m, 5, "the model takes 'x' of float32 [3]");
    model_make(&m, 4);
    m.y_shape[0] = 2;
    refused(&set.arrays, &m, 5, "'x' is for 4 samples, 'labels' for 2");
    model_make(&m, 4);
    set.arrays.labels.dtype = TN_INT8;
    set.labels[7] = (uint8_t)-1;
    refused(&set.arrays, &m, 5, "sample 7 has label -1");
}

static void arrays_that_are_no_data_are_refused(void **state) {
    (void)state;
    static numbered set;
    tn_data *data = NULL;
    tn_error error;
    numbered_make(&set, 20, 0, 5);
    set.arrays.labels.shape[0] = 19;
    set.arrays.labels.bytes = 19;
    assert_int_equal(tn_data_create(&set.arrays, NULL, NULL, &data, &error), TN_E_INVALID);
    numbered_make(&set, 20, 0, 5);
    set.arrays.samples.bytes--;
    assert_int_equal(tn_data_create(&set.arrays, NULL, NULL, &data, &error), TN_E_INVALID);
    numbered_make(&set, 20, 0, 5);
    set.arrays.samples.shape[0] = set.arrays.labels.shape[0] = 0;
    set.arrays.samples.bytes = set.arrays.labels.bytes = 0;
    assert_int_equal(tn_data_create(&set.arrays, NULL, NULL, &data, &error), TN_E_INVALID);
    assert_null(data);
}

static void no_allocation_that_fails_leaves_anything(void **state) {
    (void)state;
    static numbered set;
    static model m;
    numbered_make(&set, 50, 0, 5);
    model_make(&m, 4);
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t at = 1; status != TN_OK; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
        tn_data *data = NULL;
        tn_batches *batches = NULL;
        options.context = &context;
        status = tn_data_create(&set.arrays, &set.arrays, &context, &data, NULL);
        if (status == TN_OK)
            status = tn_batches_create(data, &m.input, &m.labels, &options, &batches, NULL);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        assert_true(at < 1000);
        tn_batches_destroy(batches);
        tn_data_destroy(data);
        assert_int_equal(memory.held, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_shows_each_sample_once),
        cmocka_unit_test(what_was_held_out_is_shown_once_and_in_order),
        cmocka_unit_test(a_batch_follows_from_its_number_alone),
        cmocka_unit_test(another_seed_or_epoch_is_another_order),
        cmocka_unit_test(text_foretells_its_next_byte),
        cmocka_unit_test(data_that_the_model_does_not_take_are_refused),
        cmocka_unit_test(arrays_that_are_no_data_are_refused),
        cmocka_unit_test(no_allocation_that_fails_leaves_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
