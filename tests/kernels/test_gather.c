/* Kernels that pick, scatter and rank elements, against loops over single elements; and indices
 * that are not in range, of which every one must be refused.
 */
#include "count.h"
#include "boxes.h"

#include <math.h>

enum { ROUNDS = 400 };

static int64_t int_at(const kit_array *array, uint64_t index) {
    tn_operand operand = {.data = array->data, .dtype = array->dtype};
    return tn__operand_int(&operand, index);
}

/* Indices below `extent`, half of them written from the end. */
static void fill_indices(tn__random *random, kit_array *indices, int64_t extent) {
    indices->dtype = tn__random_below(random, 2) ? TN_INT64 : TN_INT32;
    fill_small(random, indices, -extent, extent - 1);
}

/* Runs with one index spoiled: it must be named. */
static void assert_refused(const kit_op *op, const kit_array *indices, tn__random *random,
                           int64_t extent) {
    uint64_t count = kit_count(indices), at = tn__random_below(random, count);
    int64_t bad = tn__random_below(random, 2) ? extent : -extent - 1;
    if (tn__random_below(random, 2)) bad = bad < 0 ? INT32_MIN : INT32_MAX;
    if (count == 0) return;
    if (indices->dtype == TN_INT64)
        ((int64_t *)indices->data)[at] = bad;
    else
        ((int32_t *)indices->data)[at] = (int32_t)bad;
    kit_array out;
    tn_error error;
    char text[32];
    snprintf(text, sizeof text, "index %lld ", (long long)bad);
    assert_int_equal(kit_run(op, &out, &error), TN_E_INVALID);
    if (strstr(error.message, text) == NULL) fail_msg("%s: %s", text, error.message);
    free(out.data);
}

/* --- Gather --- */

typedef struct gathered {
    const kit_array *data, *indices;
    uint32_t axis, batch, length;
} gathered;

static int64_t whole_index(int64_t index, int64_t extent) {
    return index < 0 ? index + extent : index;
}

static bool gather_source(const void *self, const int64_t *out, int64_t *in) {
    const gathered *of = self;
    uint32_t k = of->indices->rank;
    for (uint32_t d = 0; d < of->data->rank; d++)
        if (d != of->axis) in[d] = out[d < of->axis ? d : d + k - 1];
    in[of->axis] = whole_index(int_at(of->indices, index_of(of->indices, out + of->axis)),
                               of->data->shape[of->axis]);
    return true;
}

static bool elements_source(const void *self, const int64_t *out, int64_t *in) {
    const gathered *of = self;
    memcpy(in, out, of->data->rank * sizeof *in);
    in[of->axis] =
        whole_index(int_at(of->indices, index_of(of->indices, out)), of->data->shape[of->axis]);
    return true;
}

static void gather_takes_the_indexed(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(2 * ROUNDS, 40); seed++) {
        tn__random random = {seed};
        bool elements = seed % 2;
        kit_array data = {.dtype = random_type(&random)}, indices = {0}, out;
        random_shape(&random, &data, 1 + (uint32_t)tn__random_below(&random, 4), 5);
        uint32_t axis = (uint32_t)tn__random_below(&random, data.rank);
        int64_t given = tn__random_below(&random, 2) ? axis : (int64_t)axis - data.rank;
        int64_t extent = data.shape[axis];
        random_shape(&random, &indices,
                     elements ? data.rank : (uint32_t)tn__random_below(&random, 4), 4);
        for (uint32_t d = 0; d < data.rank && elements; d++)
            if (d != axis && indices.shape[d] > data.shape[d]) indices.shape[d] = data.shape[d];
        if (extent == 0) {
            if (indices.rank == 0) indices.rank = 1;
            indices.shape[indices.rank - 1] = 0;
        }
        fill_random(&random, &data);
        fill_indices(&random, &indices, extent);
        tn_attr attr = attr_int("axis", &given);
        kit_op op = {elements ? "GatherElements" : "Gather",
                     13,
                     &attr,
                     1,
                     (const kit_array *[]){&data, &indices},
                     2,
                     1,
                     0,
                     -1};
        gathered of = {.data = &data, .indices = &indices, .axis = axis};
        run_well(seed, &op, &out);
        assert_moved(seed, &out, &data, elements ? elements_source : gather_source, &of, NULL);
        free(out.data);
        assert_refused(&op, &indices, &random, extent);
        free(data.data);
        free(indices.data);
    }
}

static bool nd_source(const void *self, const int64_t *out, int64_t *in) {
    const gathered *of = self;
    int64_t place[16];
    uint32_t outer = of->indices->rank - 1;
    memcpy(place, out, outer * sizeof *place);
    memcpy(in, out, of->batch * sizeof *in);
    for (uint32_t i = 0; i < of->length; i++) {
        place[outer] = i;
        in[of->batch + i] = whole_index(int_at(of->indices, index_of(of->indices, place)),
                                        of->data->shape[of->batch + i]);
    }
    for (uint32_t d = of->batch + of->length; d < of->data->rank; d++)
        in[d] = out[outer + d - of->batch - of->length];
    return true;
}

/* Data and indices of the ND forms: all indexed axes have one extent, so that one range is right.
 */
static gathered random_nd(tn__random *random, kit_array *data, kit_array *indices, bool batched) {
    gathered of = {.data = data, .indices = indices};
    int64_t extent = random_in(random, 1, 5);
    data->dtype = random_type(random);
    data->rank = 1 + (uint32_t)tn__random_below(random, 4);
    for (uint32_t d = 0; d < data->rank; d++) data->shape[d] = extent;
    of.batch = batched ? (uint32_t)tn__random_below(random, data->rank) : 0;
    of.length = 1 + (uint32_t)tn__random_below(random, data->rank - of.batch);
    for (uint32_t d = 0; d < of.batch; d++) indices->shape[d] = data->shape[d];
    indices->rank = of.batch;
    for (uint64_t more = tn__random_below(random, 3); more > 0; more--)
        indices->shape[indices->rank++] = random_in(random, 1, 4);
    indices->shape[indices->rank++] = of.length;
    indices->dtype = TN_INT64;
    fill_random(random, data);
    fill_small(random, indices, -extent, extent - 1);
    return of;
}

static void gather_nd_takes_the_indexed(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array data = {0}, indices = {0}, out;
        gathered of = random_nd(&random, &data, &indices, true);
        int64_t batch = of.batch;
        tn_attr attr = attr_int("batch_dims", &batch);
        kit_op op = {"GatherND", 13, &attr, 1, (const kit_array *[]){&data, &indices}, 2, 1, 0, -1};
        run_well(seed, &op, &out);
        assert_moved(seed, &out, &data, nd_source, &of, NULL);
        free(out.data);
        assert_refused(&op, &indices, &random, data.shape[0]);
        free(data.data);
        free(indices.data);
    }
}

/* --- Scatter --- */

static void combine(const char *reduction, int64_t *to, int64_t update) {
    if (strcmp(reduction, "add") == 0)
        *to += update;
    else if (strcmp(reduction, "mul") == 0)
        *to *= update;
    else if (strcmp(reduction, "max") == 0)
        *to = *to > update ? *to : update;
    else if (strcmp(reduction, "min") == 0)
        *to = *to < update ? *to : update;
    else
        *to = update;
}

static void assert_numbers(uint64_t seed, const kit_array *out, const int64_t *expected) {
    for (uint64_t i = 0; i < kit_count(out); i++)
        if (int_at(out, i) != (out->dtype == TN_UINT8 ? (uint8_t)expected[i] : expected[i]))
            fail_msg("seed %llu: element %llu is %lld, not %lld", (unsigned long long)seed,
                     (unsigned long long)i, (long long)int_at(out, i), (long long)expected[i]);
}

static void scatter_writes_and_combines(void **state) {
    (void)state;
    static const char *const reductions[] = {"none", "add", "mul", "max", "min"};
    static const tn_dtype types[] = {TN_INT64, TN_INT32, TN_FLOAT32, TN_FLOAT64, TN_UINT8};
    static int64_t expected[4096];
    for (uint64_t seed = 1; seed <= case_count(2 * ROUNDS, 40); seed++) {
        tn__random random = {seed};
        bool nd = seed % 2;
        const char *reduction = reductions[seed % 5];
        kit_array data = {0}, indices = {0}, updates = {0}, out;
        gathered of = random_nd(&random, &data, &indices, false);
        int64_t axis = random_in(&random, 0, data.rank - 1), extent = data.shape[0];
        free(data.data);
        data.dtype = updates.dtype = types[tn__random_below(&random, 5)];
        if (!nd) {
            free(indices.data);
            indices.rank = data.rank;
            for (uint32_t d = 0; d < data.rank; d++)
                indices.shape[d] = random_in(&random, 1, d == axis ? 6 : extent);
            fill_indices(&random, &indices, extent);
        }
        for (uint32_t d = 0; d + (nd ? 1 : 0) < indices.rank; d++)
            updates.shape[updates.rank++] = indices.shape[d];
        for (uint32_t d = of.length; d < data.rank && nd; d++)
            updates.shape[updates.rank++] = data.shape[d];
        fill_small(&random, &data, -2, 3);
        fill_small(&random, &updates, -2, 3);
        for (uint64_t i = 0; i < kit_count(&data); i++) expected[i] = int_at(&data, i);
        for (uint64_t i = 0; i < kit_count(&updates); i++) {
            int64_t at[16], in[16];
            place_of(&updates, i, at);
            of.axis = (uint32_t)axis;
            nd ? nd_source(&of, at, in) : elements_source(&of, at, in);
            combine(reduction, &expected[index_of(&data, in)], int_at(&updates, i));
        }
        tn_attr attrs[] = {attr_string("reduction", &reduction), attr_int("axis", &axis)};
        kit_op op = {nd ? "ScatterND" : "ScatterElements",
                     16,
                     attrs,
                     nd ? 1 : 2,
                     (const kit_array *[]){&data, &indices, &updates},
                     3,
                     1,
                     0,
                     seed % 3 == 0 ? 0 : -1};
        run_well(seed, &op, &out);
        assert_numbers(seed, &out, expected);
        free(out.data);
        assert_refused(&op, &indices, &random, extent);
        free(data.data);
        free(indices.data);
        free(updates.data);
    }
}

/* --- selection --- */

static void compress_keeps_what_the_condition_says(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        bool flat = seed % 2;
        kit_array data = {.dtype = random_type(&random)}, condition = {.dtype = TN_BOOL}, out;
        random_shape(&random, &data, 1 + (uint32_t)tn__random_below(&random, 4), 5);
        fill_random(&random, &data);
        int64_t axis = random_in(&random, 0, data.rank - 1);
        int64_t extent = flat ? (int64_t)kit_count(&data) : data.shape[axis];
        condition.rank = 1;
        condition.shape[0] = random_in(&random, 0, extent);
        fill_small(&random, &condition, 0, 1);
        tn_attr attr = attr_int("axis", &axis);
        run_well(seed,
                 &(kit_op){"Compress", 11, &attr, flat ? 0 : 1,
                           (const kit_array *[]){&data, &condition}, 2, 1, 0, -1},
                 &out);
        uint64_t next = 0, width = tn_dtype_bits(data.dtype) / 8;
        for (uint64_t i = 0; i < kit_count(&data); i++) {
            int64_t place[8];
            place_of(&data, i, place);
            uint64_t along = flat ? i : (uint64_t)place[axis];
            bool kept = along < (uint64_t)condition.shape[0] &&
                        ((const uint8_t *)condition.data)[along] != 0;
            if (!kept) continue;
            assert_memory_equal(element_of(&out, next++), element_of(&data, i), width);
        }
        assert_int_equal(next, kit_count(&out));
        free(data.data);
        free(condition.data);
        free(out.data);
    }
}

static void nonzero_lists_the_places(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array data = {.dtype = seed % 2 ? TN_FLOAT32 : TN_INT64}, out;
        random_shape(&random, &data, 1 + (uint32_t)tn__random_below(&random, 4), 5);
        fill_small(&random, &data, -1, 1);
        if (seed % 2 && kit_count(&data) > 0) ((float *)data.data)[0] = -0.0f;
        run_well(seed, &(kit_op){"NonZero", 13, NULL, 0, (const kit_array *[]){&data}, 1, 1, 0, -1},
                 &out);
        int64_t column = 0;
        assert_int_equal(out.shape[0], data.rank);
        for (uint64_t i = 0; i < kit_count(&data); i++) {
            int64_t place[8];
            if (int_at(&data, i) == 0) continue;
            place_of(&data, i, place);
            for (uint32_t d = 0; d < data.rank; d++)
                assert_int_equal(int_at(&out, d * (uint64_t)out.shape[1] + (uint64_t)column),
                                 place[d]);
            column++;
        }
        assert_int_equal(column, out.shape[1]);
        free(data.data);
        free(out.data);
    }
}

/* What each output of Unique promises, checked one by one. */
static void unique_entries_occur_first_where_it_says(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array data = {.dtype = seed % 3 ? TN_FLOAT32 : TN_INT64}, out[4];
        random_shape(&random, &data, 1 + (uint32_t)tn__random_below(&random, 3), 5);
        fill_small(&random, &data, -2, 2);
        int64_t sorted = seed % 2;
        tn_attr attr = attr_int("sorted", &sorted);
        run_well(seed, &(kit_op){"Unique", 11, &attr, 1, (const kit_array *[]){&data}, 1, 4, 0, -1},
                 out);
        uint64_t found = kit_count(&out[0]), count = kit_count(&data);
        assert_int_equal(kit_count(&out[2]), count);
        for (uint64_t k = 0; k < found; k++) {
            int64_t value = int_at(&out[0], k), times = 0, first = -1;
            for (uint64_t i = 0; i < count; i++) {
                bool same = int_at(&data, i) == value;
                if (same && first < 0) first = (int64_t)i;
                times += same;
                assert_true(same == (int_at(&out[2], i) == (int64_t)k));
            }
            assert_int_equal(int_at(&out[1], k), first);
            assert_int_equal(int_at(&out[3], k), times);
            const kit_array *order = sorted ? &out[0] : &out[1];
            if (k > 0) assert_true(int_at(order, k - 1) < int_at(order, k));
        }
        for (uint32_t k = 0; k < 4; k++) free(out[k].data);
        free(data.data);
    }
}

static void top_k_is_the_head_of_the_sorted_line(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array data = {.dtype = seed % 3 ? TN_FLOAT32 : TN_INT64}, out[2];
        random_shape(&random, &data, 1 + (uint32_t)tn__random_below(&random, 3), 9);
        fill_small(&random, &data, -4, 4);
        int64_t axis = random_in(&random, 0, data.rank - 1), largest = seed % 2;
        int64_t k = random_in(&random, 0, data.shape[axis]);
        kit_array list = list_of(&k, 1);
        tn_attr attrs[] = {attr_int("axis", &axis), attr_int("largest", &largest)};
        run_well(seed,
                 &(kit_op){"TopK", 11, attrs, 2, (const kit_array *[]){&data, &list}, 2, 2, 0, -1},
                 out);
        assert_int_equal(out[0].shape[axis], k);
        for (uint64_t i = 0; i < kit_count(&data); i++) { /* as many are before it: its rank */
            int64_t place[8], other[8], rank = 0, own = int_at(&data, i);
            place_of(&data, i, place);
            memcpy(other, place, sizeof other);
            for (other[axis] = 0; other[axis] < data.shape[axis]; other[axis]++) {
                int64_t value = int_at(&data, index_of(&data, other));
                bool before = largest ? value > own : value < own;
                rank += before || (value == own && other[axis] < place[axis]);
            }
            if (rank >= k) continue;
            other[axis] = rank;
            assert_int_equal(int_at(&out[0], index_of(&out[0], other)), own);
            assert_int_equal(int_at(&out[1], index_of(&out[1], other)), place[axis]);
        }
        free(data.data);
        free(out[0].data);
        free(out[1].data);
    }
}

/* --- NonMaxSuppression: what it keeps overlaps nothing kept, what it drops does
 * ------------------- */

static double shared(const float *a, const float *b) { /* intersection over union */
    double height = fmin((double)a[2], (double)b[2]) - fmax((double)a[0], (double)b[0]);
    double width = fmin((double)a[3], (double)b[3]) - fmax((double)a[1], (double)b[1]);
    double both = height > 0 && width > 0 ? height * width : 0;
    double of_a = (double)(a[2] - a[0]) * (double)(a[3] - a[1]);
    double of_b = (double)(b[2] - b[0]) * (double)(b[3] - b[1]);
    return both > 0 ? both / (of_a + of_b - both) : 0;
}

static void nms_keeps_what_nothing_better_covers(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        int64_t n = random_in(&random, 1, 12), most = 12, next = 0;
        kit_array boxes = {.dtype = TN_FLOAT32, .rank = 3, .shape = {2, n, 4}};
        kit_array scores = {.dtype = TN_FLOAT32, .rank = 3, .shape = {2, 2, n}}, out;
        float overlap = 0.3f, least = 1.0f;
        kit_array limit = list_of(&most, 1), share = {.dtype = TN_FLOAT32, .data = &overlap};
        kit_array bar = {.dtype = TN_FLOAT32, .data = &least};
        fill_small(&random, &boxes, 0, 9);
        fill_small(&random, &scores, 0, 6);
        float *box = boxes.data;
        for (int64_t i = 0; i < 2 * n; i++)
            for (int64_t d = 0; d < 2; d++) box[4 * i + 2 + d] = box[4 * i + d] + 1 + (float)d;
        run_well(seed,
                 &(kit_op){"NonMaxSuppression", 11, NULL, 0,
                           (const kit_array *[]){&boxes, &scores, &limit, &share, &bar}, 5, 1, 0,
                           -1},
                 &out);
        const int64_t *rows = out.data;
        for (int64_t b = 0; b < 2; b++)
            for (int64_t c = 0; c < 2; c++) {
                const float *score = (const float *)scores.data + (b * 2 + c) * n;
                bool kept[16] = {false}, done[16] = {false};
                for (int64_t round = 0; round < n; round++) {
                    int64_t best = -1;
                    for (int64_t i = 0; i < n; i++)
                        if (!done[i] && (best < 0 || score[i] > score[best])) best = i;
                    done[best] = true;
                    kept[best] = score[best] > least;
                    for (int64_t i = 0; i < n; i++)
                        if (i != best && kept[i] &&
                            shared(box + 4 * (b * n + i), box + 4 * (b * n + best)) >
                                (double)overlap)
                            kept[best] = false;
                    if (!kept[best]) continue;
                    assert_true(next < out.shape[0]);
                    assert_int_equal(rows[3 * next], b);
                    assert_int_equal(rows[3 * next + 1], c);
                    assert_int_equal(rows[3 * next++ + 2], best);
                }
            }
        assert_int_equal(next, out.shape[0]);
        free(boxes.data);
        free(scores.data);
        free(out.data);
    }
}

/* --- OneHot, Range, EyeLike --- */

static void one_hot_lights_one_place(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array indices = {.dtype = seed % 2 ? TN_FLOAT32 : TN_INT64}, out;
        kit_array values = {.dtype = TN_INT32, .rank = 1, .shape = {2}};
        random_shape(&random, &indices, (uint32_t)tn__random_below(&random, 4), 4);
        fill_small(&random, &indices, -7, 7);
        fill_small(&random, &values, 1, 9);
        int64_t depth = random_in(&random, 1, 5), axis = random_in(&random, 0, indices.rank);
        kit_array list = list_of(&depth, 1);
        tn_attr attr = attr_int("axis", &axis);
        run_well(seed,
                 &(kit_op){"OneHot", 11, &attr, 1, (const kit_array *[]){&indices, &list, &values},
                           3, 1, 0, -1},
                 &out);
        assert_int_equal(out.shape[axis], depth);
        for (uint64_t i = 0; i < kit_count(&out); i++) {
            int64_t place[8], from[8];
            uint32_t rank = 0;
            place_of(&out, i, place);
            for (uint32_t d = 0; d < out.rank; d++)
                if (d != axis) from[rank++] = place[d];
            int64_t index = int_at(&indices, index_of(&indices, from));
            bool lit = index == place[axis] || index == place[axis] - depth;
            assert_int_equal(int_at(&out, i), int_at(&values, lit));
        }
        free(indices.data);
        free(values.data);
        free(out.data);
    }
}

static void range_counts_up_and_down(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        int64_t start = random_in(&random, -20, 20), limit = random_in(&random, -20, 20), delta, at;
        do delta = random_in(&random, -4, 4);
        while (delta == 0);
        kit_array a = {.dtype = TN_INT64, .data = &start, .constant = true}, out;
        kit_array b = {.dtype = TN_INT64, .data = &limit, .constant = true};
        kit_array c = {.dtype = TN_INT64, .data = &delta, .constant = true};
        run_well(seed,
                 &(kit_op){"Range", 11, NULL, 0, (const kit_array *[]){&a, &b, &c}, 3, 1, 0, -1},
                 &out);
        uint64_t i = 0;
        for (at = start; delta > 0 ? at < limit : at > limit; at += delta) {
            assert_true(i < kit_count(&out));
            assert_int_equal(int_at(&out, i++), at);
        }
        assert_int_equal(i, kit_count(&out));
        free(out.data);
    }
}

static void drawn_numbers_follow_their_seed_and_their_law(void **state) {
    (void)state;
    double seeds[] = {7, 8}, sum = 0, squares = 0;
    int64_t shape[] = {100, 1000};
    kit_array first, again, other, run;
    tn_attr attrs[] = {attr_ints("shape", shape, 2),
                       {.name = "seed", .type = TN_ATTR_FLOAT, .count = 1, .floats = &seeds[0]}};
    kit_op op = {"RandomNormal", 1, attrs, 2, NULL, 0, 1, 0, -1};
    run_well(0, &op, &first);
    run_well(0, &op, &again);
    assert_memory_equal(first.data, again.data, kit_bytes(&first));
    attrs[1].floats = &seeds[1];
    run_well(0, &op, &other);
    assert_memory_not_equal(first.data, other.data, kit_bytes(&first));
    op.attr_count = 1;
    run_well(0, &op, &run);
    assert_memory_not_equal(first.data, run.data, kit_bytes(&first));
    for (uint64_t i = 0; i < 100000; i++) {
        double x = (double)((const float *)first.data)[i];
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / 1e5) < 0.02); /* 6 standard deviations of the mean */
    assert_true(fabs(squares / 1e5 - 1) < 0.03);
    free(first.data);
    free(again.data);
    free(other.data);
    free(run.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather_takes_the_indexed),
        cmocka_unit_test(gather_nd_takes_the_indexed),
        cmocka_unit_test(scatter_writes_and_combines),
        cmocka_unit_test(compress_keeps_what_the_condition_says),
        cmocka_unit_test(nonzero_lists_the_places),
        cmocka_unit_test(unique_entries_occur_first_where_it_says),
        cmocka_unit_test(top_k_is_the_head_of_the_sorted_line),
        cmocka_unit_test(nms_keeps_what_nothing_better_covers),
        cmocka_unit_test(one_hot_lights_one_place),
        cmocka_unit_test(range_counts_up_and_down),
        cmocka_unit_test(drawn_numbers_follow_their_seed_and_their_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
