/* Shapes, followed contents and views of the operators that move elements, against brute force:
 * each output element is looked up by the definition of the operator, one multi-index at a time.
 *
 * Every case runs twice: on a constant, where contents must be followed exactly, and on an input
 * whose elements are thought of as their own numbers 0, 1, 2, ..., where a view must be found if
 * and only if the numbers in the output are consecutive. */
#include <tenure/program.h>
#include "count.h"
#include "kit.h"

#define MOST 4096

typedef struct array { /* the reference: shape and elements */
    uint32_t rank;
    int64_t shape[8];
    uint32_t count;
    int64_t item[MOST];
} array;

static array array_make(uint32_t rank, const int64_t *shape) {
    array made = {.rank = rank, .count = 1};
    for (uint32_t d = 0; d < rank; d++) {
        made.shape[d] = shape[d];
        made.count *= (uint32_t)shape[d];
    }
    for (uint32_t i = 0; i < made.count; i++) made.item[i] = i;
    return made;
}

static array array_random(tn__random *random, uint32_t rank_max, uint32_t extent_max) {
    int64_t shape[8];
    uint32_t rank = (uint32_t)tn__random_below(random, rank_max + 1);
    for (uint32_t d = 0; d < rank; d++) {
        shape[d] = (int64_t)tn__random_below(random, extent_max + 1);
        if (!shape[d] && tn__random_below(random, 4)) shape[d] = 1; /* rarely empty, often 1 */
    }
    return array_make(rank, shape);
}

static void array_place(const array *from, uint32_t index, int64_t *place) {
    for (uint32_t d = from->rank; d-- > 0;) {
        place[d] = index % from->shape[d];
        index /= (uint32_t)from->shape[d];
    }
}

static int64_t array_get(const array *from, const int64_t *place) {
    int64_t index = 0;
    for (uint32_t d = 0; d < from->rank; d++) {
        assert_true(place[d] >= 0 && place[d] < from->shape[d]);
        index = index * from->shape[d] + place[d];
    }
    return from->item[index];
}

/* One case: `data` is input 0 of the operator that `add` appends; output k must be expected[k]. */
typedef struct fold_case {
    uint64_t seed;
    const char *type;
    array data, expected[4];
    uint32_t outputs;
    bool views; /* a view must be found whenever there is one; else it must only be right */
} fold_case;

static fold_case at; /* the case in hand; large, so not on the stack */

static void fold_check_shape(const tn_tensor *tensor, const array *expected) {
    if (tensor->rank != expected->rank)
        fail_msg("seed %llu, %s: rank %u, not %u", (unsigned long long)at.seed, at.type,
                 tensor->rank, expected->rank);
    for (uint32_t d = 0; d < expected->rank; d++)
        if (tensor->shape[d] != expected->shape[d])
            fail_msg("seed %llu, %s: extent %u is %lld, not %lld", (unsigned long long)at.seed,
                     at.type, d, (long long)tensor->shape[d], (long long)expected->shape[d]);
    assert_int_equal(tensor->bytes, expected->count * 8);
}

static void fold_check_contents(const tn_tensor *tensor, const array *expected) {
    if (!tensor->value || tensor->value->count != expected->count)
        fail_msg("seed %llu, %s: contents not followed", (unsigned long long)at.seed, at.type);
    assert_true(tensor->flags & TN_TENSOR_FOLDED);
    for (uint32_t i = 0; i < expected->count; i++)
        if (tensor->value->ints[i] != expected->item[i])
            fail_msg("seed %llu, %s: element %u is %lld, not %lld", (unsigned long long)at.seed,
                     at.type, i, (long long)tensor->value->ints[i], (long long)expected->item[i]);
}

static void fold_check_view(const test_kit *kit, tn_op_id op, uint32_t output, tn_tensor_id data,
                            const array *expected) {
    tn_view view = tn_op_view(kit->graph, op, output);
    if (expected->count == 0) return;
    bool consecutive = true;
    for (uint32_t i = 1; i < expected->count; i++)
        consecutive &= expected->item[i] == expected->item[i - 1] + 1;
    if (view.source == TN_NONE) {
        if (consecutive && at.views)
            fail_msg("seed %llu, %s: output %u is a view, but was not found",
                     (unsigned long long)at.seed, at.type, output);
        return;
    }
    assert_int_equal(view.source, data);
    assert_false(view.must);
    if (!consecutive || view.whole || view.offset != (uint64_t)expected->item[0] * 8)
        fail_msg("seed %llu, %s: output %u is not a view at byte %llu", (unsigned long long)at.seed,
                 at.type, output, (unsigned long long)view.offset);
}

/* `add` appends the operator for `at` with the given data and outputs. */
static void fold_run(tn_op_id (*add)(test_kit *kit, tn_tensor_id data,
                                     const tn_tensor_id *outputs)) {
    for (int constant = 0; constant < 2; constant++) {
        test_kit kit = kit_open();
        tn_tensor_id outputs[4], data;
        if (constant)
            data = kit_constant(&kit, TN_INT64, at.data.rank, at.data.shape, at.data.item, NULL);
        else
            data = kit_input(&kit, "data", TN_INT64, at.data.rank, at.data.shape);
        for (uint32_t i = 0; i < at.outputs; i++) outputs[i] = kit_open_tensor(&kit, "out");
        tn_op_id op = add(&kit, data, outputs);
        kit_infer(&kit);
        for (uint32_t i = 0; i < at.outputs; i++) {
            fold_check_shape(kit_at(&kit, outputs[i]), &at.expected[i]);
            if (constant)
                fold_check_contents(kit_at(&kit, outputs[i]), &at.expected[i]);
            else
                fold_check_view(&kit, op, i, data, &at.expected[i]);
        }
        kit_close(&kit);
    }
}

/* --- Slice: the definition, walked element by element --------------------------------------------
 */

static struct {
    uint32_t count;
    int64_t axes[8], starts[8], ends[8], steps[8];
    bool as_attributes;
} slice;

static tn_op_id slice_add(test_kit *kit, tn_tensor_id data, const tn_tensor_id *outputs) {
    if (slice.as_attributes) {
        kit->version = 9;
        kit_attr_ints(kit, "starts", slice.count, slice.starts);
        kit_attr_ints(kit, "ends", slice.count, slice.ends);
        kit_attr_ints(kit, "axes", slice.count, slice.axes);
        return kit_op_to(kit, "Slice", 1, &data, 1, outputs);
    }
    tn_tensor_id inputs[5] = {
        data, kit_list(kit, slice.count, slice.starts), kit_list(kit, slice.count, slice.ends),
        kit_list(kit, slice.count, slice.axes), kit_list(kit, slice.count, slice.steps)};
    return kit_op_to(kit, "Slice", 5, inputs, 1, outputs);
}

/* The indices that [start:end:step] selects from `extent` elements: as in Python, except that a
 * start far below 0 is 0 with a negative step, too, and that with one the ends INT32_MAX and
 * INT64_MAX stand for the front, as in ONNX Runtime; no other end does. */
static uint32_t slice_select(int64_t extent, int64_t start, int64_t end, int64_t step,
                             int64_t *selected) {
    uint32_t count = 0;
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    if (step < 0 && (end == INT32_MAX || end == INT64_MAX)) end = INT64_MIN;
    if (start < 0) start = start < -extent ? 0 : start + extent;
    if (end < 0) end = end < -extent ? low : end + extent;
    start = start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    for (int64_t i = start; step > 0 ? i < end : i > end; i += step) selected[count++] = i;
    return count;
}

static int64_t slice_limit(tn__random *random, int64_t extent) {
    static const int64_t far[] = {INT64_MAX,        INT64_MAX - 1, INT32_MAX, INT32_MAX - 1,
                                  INT64_C(1) << 31, INT64_MIN,     INT32_MIN};
    if (tn__random_below(random, 8) < 3)
        return far[tn__random_below(random, sizeof far / sizeof *far)];
    return (int64_t)tn__random_below(random, (uint64_t)(3 * extent + 4)) - extent - 2;
}

static void slices_select_what_the_definition_says(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(4000, 400); seed++) {
        tn__random random = {seed};
        at = (fold_case){.seed = seed, .type = "Slice", .outputs = 1, .views = true};
        at.data = array_random(&random, 4, 5);
        int64_t selected[8][8], shape[8];
        slice.count = 0;
        slice.as_attributes = tn__random_below(&random, 3) == 0;
        for (uint32_t d = 0; d < at.data.rank; d++) {
            int64_t extent = at.data.shape[d], step = 1;
            if (!slice.as_attributes && tn__random_below(&random, 2))
                step = (int64_t)tn__random_below(&random, 9) - 4;
            if (step == 0) step = tn__random_below(&random, 2) ? INT64_MAX : -1;
            int64_t start = slice_limit(&random, extent), end = slice_limit(&random, extent);
            bool cut = tn__random_below(&random, 3) != 0;
            shape[d] = cut ? slice_select(extent, start, end, step < 9 ? step : 100, selected[d])
                           : slice_select(extent, 0, extent, 1, selected[d]);
            if (!cut) continue;
            slice.axes[slice.count] =
                tn__random_below(&random, 2) ? d : (int64_t)d - (int64_t)at.data.rank;
            slice.starts[slice.count] = start;
            slice.ends[slice.count] = end;
            slice.steps[slice.count++] = step;
        }
        at.expected[0] = array_make(at.data.rank, shape);
        for (uint32_t i = 0; i < at.expected[0].count; i++) {
            int64_t place[8];
            array_place(&at.expected[0], i, place);
            for (uint32_t d = 0; d < at.data.rank; d++) place[d] = selected[d][place[d]];
            at.expected[0].item[i] = array_get(&at.data, place);
        }
        if (slice.count || !slice.as_attributes) fold_run(slice_add);
    }
}

/* Of 5 elements with step -1, as ONNX Runtime 1.30 selects (Slice, operator set 13). */
static void only_two_ends_stand_for_the_front(void **state) {
    static const struct {
        int64_t start, end, extent;
    } known[] = {
        {4, INT64_MAX, 5},
        {4, INT32_MAX, 5},
        {-1, INT64_MIN, 5},
        {4, INT64_MAX - 1, 0},
        {4, INT32_MAX - 1, 0},
        {4, INT64_C(1) << 31, 0},
        {4, 5, 0},
        {INT64_MAX, INT64_MAX, 5},
        {INT32_MAX, 1, 3},
        {INT64_MIN, INT64_MAX, 1},
        {INT64_MAX, 4, 0},
        {-1, -6, 5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        test_kit kit = kit_open();
        int64_t five = 5, axis = 0, step = -1, wanted = known[i].extent;
        tn_tensor_id data = kit_input(&kit, "data", TN_FLOAT32, 1, &five);
        tn_tensor_id y = kit_op(&kit, "Slice",
                                KIT_LIST(data, kit_list(&kit, 1, &known[i].start),
                                         kit_list(&kit, 1, &known[i].end), kit_list(&kit, 1, &axis),
                                         kit_list(&kit, 1, &step)));
        kit_infer(&kit);
        kit_assert_shape(&kit, y, 1, &wanted);
        kit_close(&kit);
    }
}

/* --- Split, Concat --- */

/* Parts of one size, ceil(extent / outputs), by the attribute: the last may be smaller, or empty,
 * but no other; what begins behind the end ONNX Runtime refuses. */
static void equal_parts_begin_inside(void **state) {
    (void)state;
    for (int64_t extent = 0; extent <= 12; extent++)
        for (uint32_t outputs = 1; outputs <= 6; outputs++) {
            test_kit kit = kit_open();
            tn_tensor_id parts[6], data = kit_input(&kit, "data", TN_FLOAT32, 1, &extent);
            int64_t chunk = 0, left = extent;
            while (chunk * outputs < extent) chunk++;
            for (uint32_t k = 0; k < outputs; k++) parts[k] = kit_open_tensor(&kit, "part");
            kit.version = 18;
            kit_attr_int(&kit, "num_outputs", outputs);
            kit_op_to(&kit, "Split", 1, &data, outputs, parts);
            if ((outputs - 1) * chunk > extent) {
                kit_infer_fails(&kit, TN_E_INVALID);
            } else {
                kit_infer(&kit);
                for (uint32_t k = 0; k < outputs; k++, left -= chunk)
                    kit_assert_shape(&kit, parts[k], 1, left < chunk ? &left : &chunk);
            }
            kit_close(&kit);
        }
}

static struct {
    int64_t axis, sizes[4];
    uint32_t how; /* 0: list input, 1: attribute, 2: number of outputs, 3: equal parts */
} split;

static tn_op_id split_add(test_kit *kit, tn_tensor_id data, const tn_tensor_id *outputs) {
    kit_attr_int(kit, "axis", split.axis);
    if (split.how == 0)
        return kit_op_to(kit, "Split", KIT_LIST(data, kit_list(kit, at.outputs, split.sizes)),
                         at.outputs, outputs);
    if (split.how == 1) kit_attr_ints(kit, "split", at.outputs, split.sizes);
    if (split.how == 2) kit_attr_int(kit, "num_outputs", at.outputs);
    return kit_op_to(kit, "Split", 1, &data, at.outputs, outputs);
}

static void splits_cut_where_they_should(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(2000, 200); seed++) {
        tn__random random = {seed * 3};
        at = (fold_case){.seed = seed, .type = "Split", .views = true};
        at.data = array_random(&random, 4, 6);
        if (!at.data.rank) continue;
        uint32_t axis = (uint32_t)tn__random_below(&random, at.data.rank);
        int64_t extent = at.data.shape[axis], left = extent, before = 0;
        at.outputs = 1 + (uint32_t)tn__random_below(&random, 4);
        split.axis = tn__random_below(&random, 2) ? axis : (int64_t)axis - (int64_t)at.data.rank;
        split.how = (uint32_t)tn__random_below(&random, 4);
        if (split.how == 3 && extent % at.outputs) split.how = 0;
        int64_t chunk = (extent + at.outputs - 1) / at.outputs;
        if (split.how == 2 && (at.outputs - 1) * chunk > extent) split.how = 0; /* refused */
        for (uint32_t k = 0; k < at.outputs; k++) {
            split.sizes[k] = split.how >= 2 ? (left < chunk ? left : chunk)
                             : k + 1 == at.outputs
                                 ? left
                                 : (int64_t)tn__random_below(&random, (uint64_t)left + 1);
            left -= split.sizes[k];
            int64_t shape[8], place[8];
            memcpy(shape, at.data.shape, sizeof shape);
            shape[axis] = split.sizes[k];
            at.expected[k] = array_make(at.data.rank, shape);
            for (uint32_t i = 0; i < at.expected[k].count; i++) {
                array_place(&at.expected[k], i, place);
                place[axis] += before;
                at.expected[k].item[i] = array_get(&at.data, place);
            }
            before += split.sizes[k];
        }
        fold_run(split_add);
    }
}

static void concat_puts_back_what_split_cut(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(500, 50); seed++) {
        tn__random random = {seed * 5};
        array data = array_random(&random, 4, 5);
        if (!data.rank) continue;
        test_kit kit = kit_open();
        uint32_t axis = (uint32_t)tn__random_below(&random, data.rank);
        int64_t first = (int64_t)tn__random_below(&random, (uint64_t)data.shape[axis] + 1);
        int64_t sizes[2] = {first, data.shape[axis] - first};
        tn_tensor_id constant =
            kit_constant(&kit, TN_INT64, data.rank, data.shape, data.item, NULL);
        tn_tensor_id parts[2] = {kit_open_tensor(&kit, "a"), kit_open_tensor(&kit, "b")};
        kit_attr_int(&kit, "axis", axis);
        kit_op_to(&kit, "Split", KIT_LIST(constant, kit_list(&kit, 2, sizes)), 2, parts);
        kit_attr_int(&kit, "axis", (int64_t)axis - data.rank);
        tn_tensor_id whole = kit_op(&kit, "Concat", 2, parts);
        kit_infer(&kit);
        kit_assert_shape(&kit, whole, data.rank, data.shape);
        kit_assert_ints(&kit, whole, data.count, data.item);
        kit_close(&kit);
    }
}

/* --- Transpose, Reshape, Expand, Tile, Gather --- */

static int64_t list[8];
static uint32_t list_count;

static tn_op_id transpose_add(test_kit *kit, tn_tensor_id data, const tn_tensor_id *outputs) {
    if (list_count) kit_attr_ints(kit, "perm", list_count, list);
    return kit_op_to(kit, "Transpose", 1, &data, 1, outputs);
}

static void transposes_permute(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(2000, 200); seed++) {
        tn__random random = {seed * 7};
        at = (fold_case){.seed = seed, .type = "Transpose", .outputs = 1, .views = true};
        at.data = array_random(&random, 5, 4);
        uint32_t rank = at.data.rank;
        int64_t shape[8], place[8], from[8];
        for (uint32_t d = 0; d < rank; d++) list[d] = d;
        for (uint32_t d = rank; d-- > 1;) {
            uint32_t other = (uint32_t)tn__random_below(&random, d + 1);
            int64_t swap = list[d];
            list[d] = list[other];
            list[other] = swap;
        }
        list_count = tn__random_below(&random, 5) ? rank : 0;
        for (uint32_t d = 0; !list_count && d < rank; d++) list[d] = rank - 1 - d;
        for (uint32_t d = 0; d < rank; d++) shape[d] = at.data.shape[list[d]];
        at.expected[0] = array_make(rank, shape);
        for (uint32_t i = 0; i < at.expected[0].count; i++) {
            array_place(&at.expected[0], i, place);
            for (uint32_t d = 0; d < rank; d++) from[list[d]] = place[d];
            at.expected[0].item[i] = array_get(&at.data, from);
        }
        fold_run(transpose_add);
    }
}

static const char *listed_type;
static tn_op_id listed_add(test_kit *kit, tn_tensor_id data, const tn_tensor_id *outputs) {
    return kit_op_to(kit, listed_type, KIT_LIST(data, kit_list(kit, list_count, list)), 1, outputs);
}

static void reshapes_keep_the_order_of_elements(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(2000, 200); seed++) {
        tn__random random = {seed * 11};
        at = (fold_case){.seed = seed, .type = "Reshape", .outputs = 1, .views = true};
        at.data = array_random(&random, 4, 6);
        if (!at.data.count) continue;
        int64_t shape[8], left = at.data.count; /* a random factorization */
        uint32_t rank = (uint32_t)tn__random_below(&random, 6);
        for (uint32_t d = 0; d < rank; d++) {
            shape[d] = d + 1 == rank ? left : 1 + (int64_t)tn__random_below(&random, 6);
            while (left % shape[d]) shape[d]--;
            left /= shape[d];
        }
        if (left != 1) continue;
        at.expected[0] = array_make(rank, shape);
        list_count = rank;
        uint32_t open = (uint32_t)tn__random_below(&random, 6);
        for (uint32_t d = 0; d < rank; d++) {
            bool copy = d < at.data.rank && at.data.shape[d] == shape[d];
            list[d] = d == open ? -1 : copy && tn__random_below(&random, 2) ? 0 : shape[d];
        }
        listed_type = "Reshape";
        fold_run(listed_add);
    }
}

static void expands_repeat_units(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(1500, 150); seed++) {
        tn__random random = {seed * 13};
        at = (fold_case){.seed = seed, .type = "Expand", .outputs = 1, .views = true};
        at.data = array_random(&random, 3, 3);
        uint32_t extra = (uint32_t)tn__random_below(&random, 3), rank = at.data.rank + extra;
        uint32_t cut = (uint32_t)tn__random_below(&random, rank + 1);
        int64_t shape[8], place[8];
        for (uint32_t d = 0; d < rank; d++) {
            int64_t own = d < extra ? 1 : at.data.shape[d - extra];
            shape[d] = own == 1 ? 1 + (int64_t)tn__random_below(&random, 3) : own;
        }
        for (uint32_t d = 0; d < rank; d++) { /* what is stated may be 1 where the data has more */
            bool keep =
                d < extra || at.data.shape[d - extra] != shape[d] || tn__random_below(&random, 2);
            list[d] = keep ? shape[d] : 1;
        }
        if (extra == 0 && cut < rank) { /* a shorter target is padded with ones on the left */
            bool same = true;
            for (uint32_t d = 0; d < cut; d++) same &= shape[d] == at.data.shape[d];
            if (same) memmove(list, list + cut, (rank - cut) * sizeof *list);
            list_count = same ? rank - cut : rank;
        } else {
            list_count = rank;
        }
        at.expected[0] = array_make(rank, shape);
        for (uint32_t i = 0; i < at.expected[0].count; i++) {
            array_place(&at.expected[0], i, place);
            for (uint32_t d = extra; d < rank; d++)
                if (at.data.shape[d - extra] == 1) place[d] = 0;
            at.expected[0].item[i] = array_get(&at.data, place + extra);
        }
        at.views = extra == 0; /* [3] to [1, 3] is left to Unsqueeze */
        listed_type = "Expand";
        fold_run(listed_add);
    }
}

static void tiles_repeat_the_whole(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(1000, 100); seed++) {
        tn__random random = {seed * 17};
        at = (fold_case){.seed = seed, .type = "Tile", .outputs = 1, .views = true};
        at.data = array_random(&random, 4, 3);
        int64_t shape[8], place[8];
        list_count = at.data.rank;
        for (uint32_t d = 0; d < list_count; d++) {
            list[d] = (int64_t)tn__random_below(&random, 4);
            if (tn__random_below(&random, 2)) list[d] = 1;
            shape[d] = at.data.shape[d] * list[d];
        }
        at.expected[0] = array_make(list_count, shape);
        for (uint32_t i = 0; i < at.expected[0].count; i++) {
            array_place(&at.expected[0], i, place);
            for (uint32_t d = 0; d < list_count; d++) place[d] %= at.data.shape[d];
            at.expected[0].item[i] = array_get(&at.data, place);
        }
        listed_type = "Tile";
        fold_run(listed_add);
    }
}

static array gather_indices;
static int64_t gather_axis;
static tn_op_id gather_add(test_kit *kit, tn_tensor_id data, const tn_tensor_id *outputs) {
    tn_tensor_id indices = kit_constant(kit, TN_INT64, gather_indices.rank, gather_indices.shape,
                                        gather_indices.item, NULL);
    kit_attr_int(kit, "axis", gather_axis);
    return kit_op_to(kit, "Gather", KIT_LIST(data, indices), 1, outputs);
}

static void gathers_pick_by_index(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(2000, 200); seed++) {
        tn__random random = {seed * 19};
        at = (fold_case){.seed = seed, .type = "Gather", .outputs = 1};
        at.data = array_random(&random, 3, 4);
        gather_indices = array_random(&random, 2, 3);
        if (!at.data.rank) continue;
        uint32_t axis = (uint32_t)tn__random_below(&random, at.data.rank), rank = 0;
        int64_t extent = at.data.shape[axis], shape[8], place[8], from[8];
        if (!extent) continue;
        gather_axis = tn__random_below(&random, 2) ? axis : (int64_t)axis - (int64_t)at.data.rank;
        for (uint32_t i = 0; i < gather_indices.count; i++)
            gather_indices.item[i] =
                (int64_t)tn__random_below(&random, 2 * (uint64_t)extent) - extent;
        for (uint32_t d = 0; d < axis; d++) shape[rank++] = at.data.shape[d];
        for (uint32_t d = 0; d < gather_indices.rank; d++) shape[rank++] = gather_indices.shape[d];
        for (uint32_t d = axis + 1; d < at.data.rank; d++) shape[rank++] = at.data.shape[d];
        at.expected[0] = array_make(rank, shape);
        for (uint32_t i = 0; i < at.expected[0].count; i++) {
            array_place(&at.expected[0], i, place);
            memcpy(from, place, axis * sizeof *from);
            int64_t index = array_get(&gather_indices, place + axis);
            from[axis] = index < 0 ? index + extent : index;
            for (uint32_t d = axis + 1; d < at.data.rank; d++)
                from[d] = place[gather_indices.rank + d - 1];
            at.expected[0].item[i] = array_get(&at.data, from);
        }
        at.views = gather_indices.count == 1 && at.data.count != 0;
        for (uint32_t d = 0; d < axis; d++) at.views &= at.data.shape[d] == 1;
        fold_run(gather_add);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_select_what_the_definition_says),
        cmocka_unit_test(only_two_ends_stand_for_the_front),
        cmocka_unit_test(equal_parts_begin_inside),
        cmocka_unit_test(splits_cut_where_they_should),
        cmocka_unit_test(concat_puts_back_what_split_cut),
        cmocka_unit_test(transposes_permute),
        cmocka_unit_test(reshapes_keep_the_order_of_elements),
        cmocka_unit_test(expands_repeat_units),
        cmocka_unit_test(tiles_repeat_the_whole),
        cmocka_unit_test(gathers_pick_by_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
