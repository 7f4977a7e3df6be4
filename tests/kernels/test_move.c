/* Kernels that move elements, against a rule that says for each place of the output where its
 * element comes from; random shapes of rank 0 to 6, empty ones among them, all widths of elements.
 */
#include "count.h"
#include "boxes.h"

enum { ROUNDS = 400 };

/* --- Transpose --- */

static bool transposed(const void *self, const int64_t *out, int64_t *in) {
    const int64_t *perm = self;
    for (uint32_t d = 0; perm[d] >= 0; d++) in[perm[d]] = out[d];
    return true;
}

static void transpose_puts_each_element_where_perm_says(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = random_type(&random)}, out;
        int64_t perm[8];
        uint32_t rank = (uint32_t)tn__random_below(&random, 7);
        random_shape(&random, &in, rank, rank < 4 ? 40 : 6); /* larger than a tile of 16 */
        fill_random(&random, &in);
        for (uint32_t d = 0; d < rank; d++) {
            uint64_t other = tn__random_below(&random, d + 1);
            perm[d] = perm[other];
            perm[other] = d;
        }
        perm[rank] = -1;
        tn_attr attr = attr_ints("perm", perm, rank);
        run_well(seed,
                 &(kit_op){"Transpose", 13, &attr, 1, (const kit_array *[]){&in}, 1, 1, 0, -1},
                 &out);
        for (uint32_t d = 0; d < rank; d++) assert_int_equal(out.shape[d], in.shape[perm[d]]);
        assert_moved(seed, &out, &in, transposed, perm, NULL);
        free(in.data);
        free(out.data);
    }
}

/* --- Expand, Tile --- */

typedef struct repeated {
    const kit_array *in;
    uint32_t missing; /* dimensions that the input has fewer */
} repeated;

static bool repeats(const void *self, const int64_t *out, int64_t *in) {
    const repeated *of = self;
    for (uint32_t d = 0; d < of->in->rank; d++) in[d] = out[of->missing + d] % of->in->shape[d];
    return true;
}

static void expand_and_tile_repeat(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        bool tile = seed % 2;
        kit_array in = {.dtype = random_type(&random)}, out;
        uint32_t rank = (uint32_t)tn__random_below(&random, 6);
        uint32_t more = tile ? 0 : (uint32_t)tn__random_below(&random, 2);
        int64_t numbers[8], shape[8];
        random_shape(&random, &in, rank, 5);
        for (uint32_t d = 0; d < rank + more; d++) {
            bool one = !tile && d >= more && tn__random_below(&random, 2);
            if (one) in.shape[d - more] = 1;
            numbers[d] = d < more || one || tile ? random_in(&random, 1, 4) : in.shape[d - more];
            if (d >= more && !one && !tile && tn__random_below(&random, 2)) numbers[d] = 1;
            shape[d] = d < more ? numbers[d] : tile ? numbers[d] * in.shape[d] : in.shape[d - more];
            if (one) shape[d] = numbers[d];
        }
        fill_random(&random, &in);
        kit_array list = list_of(numbers, rank + more);
        run_well(seed,
                 &(kit_op){tile ? "Tile" : "Expand", 13, NULL, 0, (const kit_array *[]){&in, &list},
                           2, 1, 0, -1},
                 &out);
        assert_shape(seed, &out, rank + more, shape);
        assert_moved(seed, &out, &in, repeats, &(repeated){&in, more}, NULL);
        free(in.data);
        free(out.data);
    }
}

/* --- Slice --- */

typedef struct cuts {
    uint32_t rank;
    int64_t start[8], step[8];
} cuts;

static bool cut(const void *self, const int64_t *out, int64_t *in) {
    const cuts *of = self;
    for (uint32_t d = 0; d < of->rank; d++) in[d] = of->start[d] + out[d] * of->step[d];
    return true;
}

/* Python's rule, walk from start while before (behind) end; but where Python begins before the
 * first element and finds nothing, ONNX begins at it, backwards, too. Backwards the ends INT32_MAX
 * and INT64_MAX stand for the front, as in ONNX Runtime; no other end does. */
static int64_t walked(int64_t extent, int64_t start, int64_t end, int64_t step, int64_t *first) {
    int64_t count = 0;
    if (step < 0 && (end == INT32_MAX || end == INT64_MAX)) end = -100;
    if (end < -100) end = -100;
    if (end > 100) end = 100;
    if (start < 0) start += extent;
    if (end < 0) end += extent;
    if (start < 0) start = 0;
    if (start >= extent) start = step > 0 ? extent : extent - 1;
    *first = start;
    for (int64_t at = start; at >= 0 && at < extent && (step > 0 ? at < end : at > end); at += step)
        count++;
    return count;
}

static void slice_walks_from_start_to_end(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(2 * ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = random_type(&random)}, out;
        uint32_t rank = 1 + (uint32_t)tn__random_below(&random, 5);
        int64_t starts[8], ends[8], steps[8], axes[8], shape[8];
        cuts of = {.rank = rank};
        random_shape(&random, &in, rank, 7);
        fill_random(&random, &in);
        for (uint32_t d = 0; d < rank; d++) {
            starts[d] = random_in(&random, -9, 9);
            ends[d] = random_in(&random, -9, 9);
            static const int64_t far[] = {INT64_MAX,     INT64_MAX - 1, INT32_MAX,
                                          INT32_MAX - 1, -INT64_MAX,    INT32_MIN};
            if (tn__random_below(&random, 3) == 0)
                ends[d] = far[tn__random_below(&random, sizeof far / sizeof *far)];
            do steps[d] = random_in(&random, -3, 3);
            while (steps[d] == 0);
            axes[d] = tn__random_below(&random, 2) ? d : (int64_t)d - rank;
            of.step[d] = steps[d];
            shape[d] = walked(in.shape[d], starts[d], ends[d], steps[d], &of.start[d]);
        }
        kit_array a = list_of(starts, rank), b = list_of(ends, rank), c = list_of(axes, rank);
        kit_array e = list_of(steps, rank);
        run_well(seed,
                 &(kit_op){"Slice", 13, NULL, 0, (const kit_array *[]){&in, &a, &b, &c, &e}, 5, 1,
                           0, -1},
                 &out);
        assert_shape(seed, &out, rank, shape);
        assert_moved(seed, &out, &in, cut, &of, NULL);
        free(in.data);
        free(out.data);
    }
}

/* --- Split and Concat --- */

static void concat_puts_back_what_split_took_apart(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = random_type(&random)}, parts[3], whole;
        uint32_t rank = 1 + (uint32_t)tn__random_below(&random, 5);
        random_shape(&random, &in, rank, 9);
        int64_t axis = random_in(&random, -(int64_t)rank, rank - 1),
                at = axis < 0 ? axis + rank : axis;
        int64_t extent = in.shape[at], sizes[3] = {random_in(&random, 0, extent)};
        sizes[1] = random_in(&random, 0, extent - sizes[0]);
        sizes[2] = extent - sizes[0] - sizes[1];
        fill_random(&random, &in);
        kit_array list = list_of(sizes, 3);
        tn_attr attr = attr_int("axis", &axis);
        run_well(seed,
                 &(kit_op){"Split", 13, &attr, 1, (const kit_array *[]){&in, &list}, 2, 3, 0, -1},
                 parts);
        cuts of = {.rank = rank};
        for (uint32_t d = 0; d < rank; d++) of.step[d] = 1;
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(parts[k].shape[at], sizes[k]);
            assert_moved(seed, &parts[k], &in, cut, &of, NULL);
            of.start[at] += sizes[k];
        }
        run_well(seed,
                 &(kit_op){"Concat", 13, &attr, 1,
                           (const kit_array *[]){&parts[0], &parts[1], &parts[2]}, 3, 1, 0, -1},
                 &whole);
        assert_shape(seed, &whole, rank, in.shape);
        assert_memory_equal(whole.data, in.data, kit_bytes(&in));
        for (uint32_t k = 0; k < 3; k++) free(parts[k].data);
        free(in.data);
        free(whole.data);
    }
}

/* --- Pad --- */

typedef struct padding {
    char mode;
    uint32_t rank;
    int64_t before[8], crop[8], kept[8];
} padding;

/* Step by step: bounce at the ends, start again, or stop. */
static bool padded(const void *self, const int64_t *out, int64_t *in) {
    const padding *of = self;
    for (uint32_t d = 0; d < of->rank; d++) {
        int64_t at = out[d] - of->before[d], n = of->kept[d];
        if ((at < 0 || at >= n) && of->mode == 'c') return false;
        while (at < 0 || at >= n) {
            if (of->mode == 'e') at = at < 0 ? 0 : n - 1;
            if (of->mode == 'w') at += at < 0 ? n : -n;
            if (of->mode == 'r') at = n == 1 ? 0 : at < 0 ? -at : 2 * (n - 1) - at;
        }
        in[d] = at + of->crop[d];
    }
    return true;
}

static void pad_fills_from_what_its_mode_says(void **state) {
    (void)state;
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    for (uint64_t seed = 1; seed <= case_count(2 * ROUNDS, 40); seed++) {
        tn__random random = {seed};
        const char *mode = modes[seed % 4];
        kit_array in = {.dtype = random_type(&random)}, out, value = {.dtype = in.dtype};
        uint32_t rank = 1 + (uint32_t)tn__random_below(&random, 5);
        int64_t pads[16], shape[8];
        padding of = {.mode = *mode, .rank = rank};
        random_shape(&random, &in, rank, 5);
        for (uint32_t d = 0; d < rank; d++) {
            if (in.shape[d] == 0 && *mode != 'c') in.shape[d] = 2;
            int64_t first = random_in(&random, -1, 7), last = random_in(&random, -1, 7);
            if (in.shape[d] < 3) first = first < 0 ? 0 : first, last = last < 0 ? 0 : last;
            pads[d] = first;
            pads[rank + d] = last;
            of.crop[d] = first < 0 ? -first : 0;
            of.before[d] = first > 0 ? first : 0;
            of.kept[d] = in.shape[d] + (first < 0 ? first : 0) + (last < 0 ? last : 0);
            shape[d] = in.shape[d] + first + last;
        }
        fill_random(&random, &in);
        fill_random(&random, &value);
        kit_array list = list_of(pads, 2 * rank);
        tn_attr attr = attr_string("mode", &mode);
        run_well(
            seed,
            &(kit_op){"Pad", 13, &attr, 1, (const kit_array *[]){&in, &list, &value}, 3, 1, 0, -1},
            &out);
        assert_shape(seed, &out, rank, shape);
        assert_moved(seed, &out, &in, padded, &of, value.data);
        free(in.data);
        free(out.data);
        free(value.data);
    }
}

/* --- DepthToSpace, SpaceToDepth --- */

typedef struct blocks {
    int64_t b, channels; /* channels of the wide picture */
    bool crd;
} blocks;

static bool deep(const void *self, const int64_t *out, int64_t *in) {
    const blocks *of = self;
    int64_t part = out[2] % of->b * of->b + out[3] % of->b;
    in[0] = out[0];
    in[1] = of->crd ? out[1] * of->b * of->b + part : part * of->channels + out[1];
    in[2] = out[2] / of->b;
    in[3] = out[3] / of->b;
    return true;
}

static void depth_becomes_space_and_back(void **state) {
    (void)state;
    static const char *const modes[] = {"DCR", "CRD"};
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = random_type(&random)}, out, back;
        blocks of = {.b = random_in(&random, 1, 4), .channels = random_in(&random, 1, 3)};
        const char *mode = modes[of.crd = seed % 2];
        random_shape(&random, &in, 4, 6);
        in.shape[1] = of.channels * of.b * of.b;
        fill_random(&random, &in);
        tn_attr attrs[] = {attr_int("blocksize", &of.b), attr_string("mode", &mode)};
        run_well(seed,
                 &(kit_op){"DepthToSpace", 13, attrs, 2, (const kit_array *[]){&in}, 1, 1, 0, -1},
                 &out);
        assert_moved(seed, &out, &in, deep, &of, NULL);
        if (!of.crd) {
            run_well(
                seed,
                &(kit_op){"SpaceToDepth", 13, attrs, 1, (const kit_array *[]){&out}, 1, 1, 0, -1},
                &back);
            assert_shape(seed, &back, 4, in.shape);
            assert_memory_equal(back.data, in.data, kit_bytes(&in));
            free(back.data);
        }
        free(in.data);
        free(out.data);
    }
}

/* --- ReverseSequence, Trilu --- */

typedef struct reversal {
    uint32_t time;
    const int64_t *lengths;
} reversal;

static bool reversed(const void *self, const int64_t *out, int64_t *in) {
    const reversal *of = self;
    int64_t length = of->lengths[out[1 - of->time]], t = out[of->time];
    memcpy(in, out, 6 * sizeof *in);
    in[of->time] = t < length ? length - 1 - t : t;
    return true;
}

static void reverse_sequence_turns_the_first_steps_of_each(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = random_type(&random)}, out;
        reversal of = {.time = seed % 2};
        int64_t lengths[8], time = of.time, batch = 1 - time;
        in.rank = 2 + (uint32_t)tn__random_below(&random, 3);
        for (uint32_t d = 0; d < in.rank; d++) in.shape[d] = random_in(&random, 1, 6);
        for (int64_t b = 0; b < in.shape[batch]; b++)
            lengths[b] = random_in(&random, 0, in.shape[time]);
        of.lengths = lengths;
        fill_random(&random, &in);
        kit_array list = list_of(lengths, (uint32_t)in.shape[batch]);
        tn_attr attrs[] = {attr_int("time_axis", &time), attr_int("batch_axis", &batch)};
        kit_op op = {
            "ReverseSequence", 10, attrs, 2, (const kit_array *[]){&in, &list}, 2, 1, 0, -1};
        run_well(seed, &op, &out);
        assert_moved(seed, &out, &in, reversed, &of, NULL);
        free(out.data);
        lengths[0] = in.shape[time] + 1;
        tn_error error;
        assert_int_equal(kit_run(&op, &out, &error), TN_E_INVALID);
        free(in.data);
        free(out.data);
    }
}

typedef struct triangle {
    uint32_t rank;
    int64_t k;
    bool upper;
} triangle;

static bool triangular(const void *self, const int64_t *out, int64_t *in) {
    const triangle *of = self;
    memcpy(in, out, of->rank * sizeof *in);
    int64_t over = out[of->rank - 1] - out[of->rank - 2];
    return of->upper ? over >= of->k : over <= of->k;
}

static void trilu_keeps_a_triangle_also_in_place(void **state) {
    (void)state;
    static const char nought[16];
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = random_type(&random)}, out, place = {.dtype = TN_INT64};
        triangle of = {.rank = 2 + (uint32_t)tn__random_below(&random, 2), .upper = seed % 2};
        int64_t upper = of.upper;
        of.k = random_in(&random, -7, 7);
        if (tn__random_below(&random, 20) == 0) of.k = INT64_MIN;
        if (tn__random_below(&random, 20) == 0) of.k = INT64_MAX;
        place.data = &of.k;
        random_shape(&random, &in, of.rank, 6);
        fill_random(&random, &in);
        tn_attr attr = attr_int("upper", &upper);
        run_well(seed,
                 &(kit_op){"Trilu", 14, &attr, 1, (const kit_array *[]){&in, &place}, 2, 1, 0,
                           seed % 4 < 2 ? 0 : -1},
                 &out);
        assert_moved(seed, &out, &in, triangular, &of, nought);
        free(in.data);
        free(out.data);
    }
}

/* --- what lies in place --- */

/* Calls a kernel with given memory: outputs may lie on inputs. */
static tn_status run_at(const char *type, const tn_attr *attr, tn_operand *inputs,
                        uint32_t input_count, tn_operand *outputs, uint32_t output_count) {
    tn_error error;
    const tn_op op = {.name = "", .type = type, .domain = "", .attrs = attr, .attr_count = 1};
    tn_kernel_call call = {.op = &op,
                           .version = 13,
                           .inputs = inputs,
                           .input_count = input_count,
                           .outputs = outputs,
                           .output_count = output_count,
                           .error = &error};
    return kernel_of(type)->run(&call);
}

static void parts_that_lie_in_place_stay(void **state) {
    (void)state;
    int64_t whole[] = {3, 2}, first[] = {1, 2}, second[] = {2, 2}, axis = 0;
    float bytes[6] = {0, 1, 2, 3, 4, 5}, apart[2] = {7, 8};
    tn_attr attr = attr_int("axis", &axis);
    tn_operand all = {.data = bytes, .room = 24, .dtype = TN_FLOAT32, .rank = 2, .shape = whole};
    tn_operand parts[] = {
        {.data = apart, .room = 8, .dtype = TN_FLOAT32, .rank = 2, .shape = first},
        {.data = bytes + 2, .room = 16, .dtype = TN_FLOAT32, .rank = 2, .shape = second}};
    assert_int_equal(run_at("Concat", &attr, parts, 2, &all, 1), TN_OK);
    const float joined[6] = {7, 8, 2, 3, 4, 5};
    assert_memory_equal(bytes, joined, sizeof joined);

    int64_t sizes[] = {1, 2};
    tn_attr split = attr_ints("split", sizes, 2);
    parts[0].data = bytes;
    assert_int_equal(run_at("Split", &split, &all, 1, parts, 2), TN_OK);
    assert_memory_equal(bytes, joined, sizeof joined);
}

static void an_output_on_its_input_in_another_order_is_refused(void **state) {
    (void)state;
    int64_t shape[] = {2, 2}, perm[] = {1, 0};
    float bytes[4] = {0, 1, 2, 3};
    const float before[4] = {0, 1, 2, 3};
    tn_attr attr = attr_ints("perm", perm, 2);
    tn_operand in = {.data = bytes, .room = 16, .dtype = TN_FLOAT32, .rank = 2, .shape = shape};
    tn_operand out = in;
    assert_int_equal(run_at("Transpose", &attr, &in, 1, &out, 1), TN_E_INTERNAL);
    assert_memory_equal(bytes, before, sizeof before);
}

static void an_output_without_room_is_refused(void **state) {
    (void)state;
    int64_t shape[] = {2, 2}, two[] = {2, 2}, repeats_of[] = {1, 2}, count[] = {2};
    float from[4] = {0}, to[4] = {9, 9, 9, 9};
    const float before[4] = {9, 9, 9, 9};
    tn_attr attr = attr_ints("none", count, 1);
    tn_operand in[] = {
        {.data = from, .room = 16, .dtype = TN_FLOAT32, .rank = 2, .shape = shape},
        {.data = repeats_of, .room = 16, .dtype = TN_INT64, .rank = 1, .shape = count}};
    tn_operand out = {.data = to, .room = 16, .dtype = TN_FLOAT32, .rank = 2, .shape = two};
    assert_int_equal(run_at("Tile", &attr, in, 2, &out, 1), TN_E_INVALID);
    assert_memory_equal(to, before, sizeof before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transpose_puts_each_element_where_perm_says),
        cmocka_unit_test(expand_and_tile_repeat),
        cmocka_unit_test(slice_walks_from_start_to_end),
        cmocka_unit_test(concat_puts_back_what_split_took_apart),
        cmocka_unit_test(pad_fills_from_what_its_mode_says),
        cmocka_unit_test(depth_becomes_space_and_back),
        cmocka_unit_test(reverse_sequence_turns_the_first_steps_of_each),
        cmocka_unit_test(trilu_keeps_a_triangle_also_in_place),
        cmocka_unit_test(parts_that_lie_in_place_stay),
        cmocka_unit_test(an_output_on_its_input_in_another_order_is_refused),
        cmocka_unit_test(an_output_without_room_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
