/* move.c - gradients of Slice, Gather and Pad: each gradient goes back to the place that its
 * element came from.
 *
 * The result is zero at first. A part is copied to its place. If an element may have been taken
 * several times, gradients are added in the order of the elements, so that the result is the same
 * in every run.
 */
#include "engine/kernels/box.h"
#include "engine/kernels/check.h"

static tn_status move_ints(const tn_kernel_call *call, const char *name, uint32_t wanted,
                           const int64_t **list) {
    uint32_t count;
    *list = tn__attr_ints(call->op, name, &count);
    if (count == wanted) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID, "attribute %s has %u values, not %u", name, count,
                         wanted);
}

/* --- Slice --- */

static tn_status move_run_slice(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0];
    tn_operand *dx = &call->outputs[0];
    const int64_t *starts, *steps;
    int64_t to[TN_RANK_MAX], from[TN_RANK_MAX], first = 0;
    tn__walk box = {.rank = 0};
    TN_TRY(move_ints(call, "starts", dx->rank, &starts));
    TN_TRY(move_ints(call, "steps", dx->rank, &steps));
    if (dy->rank != dx->rank)
        return tn__call_fail(call, TN_E_INVALID, "a part of rank %u of rank %u", dy->rank,
                             dx->rank);
    tn__dense_strides(dx, to);
    tn__dense_strides(dy, from);
    bool empty = tn__operand_count(dy) == 0;
    for (uint32_t d = 0; d < dx->rank && !empty; d++) {
        int64_t last = dy->shape[d] - 1, reach;
        if (starts[d] < 0 || starts[d] >= dx->shape[d] ||
            __builtin_mul_overflow(last, steps[d], &reach) ||
            __builtin_add_overflow(starts[d], reach, &reach) || reach < 0 || reach >= dx->shape[d])
            return tn__call_fail(call, TN_E_INVALID, "the part leaves dimension %u", d);
        first += starts[d] * to[d];
        tn__walk_add(&box, dy->shape[d], last > 0 ? steps[d] * to[d] : 0, from[d]);
    }
    memset(dx->data, 0, tn__operand_bytes(dx));
    if (empty) return TN_OK;
    return tn__box_copy(call, &box, tn__width(dx->dtype), (char *)dx->data + first, dy->data);
}

/* --- Gather --- */

/* to[at ...] += from[source ...] */
static void move_add(tn_operand *to, uint64_t at, const tn_operand *from, uint64_t source,
                     uint64_t count) {
    if (to->dtype == TN_FLOAT32) {
        float *sums = (float *)to->data + at;
        const float *values = (const float *)from->data + source;
        for (uint64_t i = 0; i < count; i++) sums[i] += values[i];
        return;
    }
    double sums[TN__REAL_TILE], values[TN__REAL_TILE];
    for (uint64_t i = 0; i < count; i += TN__REAL_TILE) {
        uint64_t some = count - i < TN__REAL_TILE ? count - i : TN__REAL_TILE;
        tn__real_load(to, at + i, 1, some, sums);
        tn__real_load(from, source + i, 1, some, values);
        for (uint64_t k = 0; k < some; k++) sums[k] += values[k];
        tn__real_store(to, at + i, some, sums);
    }
}

typedef struct move_gather {
    const tn_operand *dy, *indices;
    tn_operand *dx;
    uint64_t outer, extent, inner, count; /* count: of indices */
    int64_t first, whole;                 /* it is the rows from `first` on, of `whole` rows */
} move_gather;

/* Row `extent` means that it is not one of these rows. */
static tn_status move_index(const tn_kernel_call *call, const move_gather *job, uint64_t i,
                            uint64_t *row) {
    int64_t index = tn__index(job->indices, i), whole = job->whole;
    if (index < -whole || index >= whole)
        return tn__call_bad_index(call, index, (uint32_t)tn__attr_int(call->op, "axis", 0), whole);
    uint64_t at = (uint64_t)((index < 0 ? index + whole : index) - job->first);
    *row = at < job->extent ? at : job->extent;
    return TN_OK;
}

/* Types that hold many summands: one after the other, where they belong. */
static tn_status move_gather_direct(const tn_kernel_call *call, const move_gather *job) {
    uint64_t row = 0;
    memset(job->dx->data, 0, tn__operand_bytes(job->dx));
    for (uint64_t o = 0; o < job->outer; o++)
        for (uint64_t i = 0; i < job->count; i++) {
            TN_TRY(move_index(call, job, i, &row));
            if (row == job->extent) continue;
            move_add(job->dx, (o * job->extent + row) * job->inner, job->dy,
                     (o * job->count + i) * job->inner, job->inner);
        }
    return TN_OK;
}

/* Row `row`, with its summands in a chain, in float64. */
static void move_gather_row(const move_gather *job, uint64_t outer, uint64_t row, uint64_t head,
                            const uint64_t *next) {
    double sums[TN__REAL_TILE], values[TN__REAL_TILE];
    for (uint64_t at = 0; at < job->inner; at += TN__REAL_TILE) {
        uint64_t some = job->inner - at < TN__REAL_TILE ? job->inner - at : TN__REAL_TILE;
        for (uint64_t k = 0; k < some; k++) sums[k] = 0;
        for (uint64_t i = head; i < job->count; i = next[i]) {
            uint64_t from = (outer * job->count + i) * job->inner + at;
            tn__real_load(job->dy, from, 1, some, values);
            for (uint64_t k = 0; k < some; k++) sums[k] += values[k];
        }
        tn__real_store(job->dx, (outer * job->extent + row) * job->inner + at, some, sums);
    }
}

/* Short types would lose all but the first few hundred summands of a frequent word: rows are summed
 * one by one, along chains of the indices that name them. */
static tn_status move_gather_rows(const tn_kernel_call *call, const move_gather *job) {
    uint64_t *next = call->workspace, *heads = next + job->count, row = 0;
    TN_TRY(tn__check_scratch(call, (job->count + job->extent) * sizeof *next));
    for (uint64_t r = 0; r < job->extent; r++) heads[r] = job->count; /* the end of a chain */
    for (uint64_t i = job->count; i-- > 0;) {
        TN_TRY(move_index(call, job, i, &row));
        if (row == job->extent) continue;
        next[i] = heads[row];
        heads[row] = i;
    }
    for (uint64_t o = 0; o < job->outer; o++)
        for (uint64_t r = 0; r < job->extent; r++) move_gather_row(job, o, r, heads[r], next);
    return TN_OK;
}

static bool move_is_short(tn_dtype dtype) { return dtype == TN_FLOAT16 || dtype == TN_BFLOAT16; }

static tn_status move_run_gather(tn_kernel_call *call) {
    tn_operand *dx = &call->outputs[0];
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), dx->rank, &axis));
    move_gather job = {.dy = &call->inputs[0],
                       .indices = &call->inputs[1],
                       .dx = dx,
                       .outer = tn__operand_span(dx, 0, axis),
                       .extent = (uint64_t)dx->shape[axis],
                       .inner = tn__operand_span(dx, axis + 1, dx->rank),
                       .count = tn__operand_count(&call->inputs[1]),
                       .first = tn__attr_int(call->op, "first", 0),
                       .whole = tn__attr_int(call->op, "whole", dx->shape[axis])};
    TN_TRY(tn__check_count(call, 0, tn__mul_sat(job.outer, tn__mul_sat(job.count, job.inner))));
    return move_is_short(dx->dtype) ? move_gather_rows(call, &job) : move_gather_direct(call, &job);
}

static uint64_t move_workspace_gather(const tn_kernel_setup *setup) {
    const tn_tensor *indices = tn__setup_input(setup, 1), *dx = tn__setup_output(setup, 0);
    int64_t axis = tn__attr_int(setup->op, "axis", 0);
    if (!move_is_short(dx->dtype) || axis < 0 || axis >= (int64_t)dx->rank) return 0;
    uint64_t entries = tn__add_sat(tn__setup_count(indices), (uint64_t)dx->shape[axis]);
    return tn__mul_sat(entries, sizeof(uint64_t));
}

/* --- Pad, but for constants --- */

typedef enum move_mode { MOVE_EDGE, MOVE_REFLECT, MOVE_WRAP } move_mode;

typedef struct move_pad {
    move_mode mode;
    int64_t before[TN_RANK_MAX];                   /* places in front of the elements that stay */
    int64_t first[TN_RANK_MAX], kept[TN_RANK_MAX]; /* elements that stay */
} move_pad;

static int64_t move_source(const move_pad *pad, uint32_t d, int64_t at) {
    int64_t kept = pad->kept[d], place = at - pad->before[d];
    if (pad->mode == MOVE_EDGE) place = place < 0 ? 0 : place >= kept ? kept - 1 : place;
    if (pad->mode == MOVE_WRAP) place = ((place % kept) + kept) % kept;
    if (pad->mode == MOVE_REFLECT) {
        int64_t period = kept > 1 ? 2 * (kept - 1) : 1;
        place = ((place % period) + period) % period;
        if (place >= kept) place = period - place;
    }
    return pad->first[d] + place;
}

static tn_status move_read_pad(const tn_kernel_call *call, move_pad *pad) {
    const tn_operand *dy = &call->inputs[0], *dx = &call->outputs[0];
    const char *mode = tn__attr_string(call->op, "mode", "");
    const int64_t *pads;
    TN_TRY(move_ints(call, "pads", 2 * dx->rank, &pads));
    pad->mode = strcmp(mode, "edge") == 0   ? MOVE_EDGE
                : strcmp(mode, "wrap") == 0 ? MOVE_WRAP
                                            : MOVE_REFLECT;
    if (pad->mode == MOVE_REFLECT && strcmp(mode, "reflect") != 0)
        return tn__call_fail(call, TN_E_INVALID, "the mode '%.40s' is unknown", mode);
    if (dy->rank != dx->rank)
        return tn__call_fail(call, TN_E_INVALID, "rank %u of rank %u", dy->rank, dx->rank);
    for (uint32_t d = 0; d < dx->rank; d++) {
        int64_t before = pads[d], after = pads[dx->rank + d], whole;
        if (__builtin_add_overflow(before, after, &whole) ||
            __builtin_add_overflow(whole, dx->shape[d], &whole) || whole != dy->shape[d])
            return tn__call_fail(call, TN_E_INVALID, "pads do not fit dimension %u", d);
        pad->before[d] = before > 0 ? before : 0;
        pad->first[d] = before < 0 ? -before : 0;
        pad->kept[d] = dx->shape[d] - pad->first[d] - (after < 0 ? -after : 0);
        if (pad->kept[d] < 1 && dy->shape[d] > 0)
            return tn__call_fail(call, TN_E_INVALID, "dimension %u has nothing to repeat", d);
    }
    return TN_OK;
}

static tn_status move_run_pad(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0];
    tn_operand *dx = &call->outputs[0];
    int64_t strides[TN_RANK_MAX], stride = 1;
    move_pad pad;
    TN_TRY(move_read_pad(call, &pad));
    memset(dx->data, 0, tn__operand_bytes(dx));
    if (dx->rank == 0) tn__operand_copy(dx, dy);
    if (dx->rank == 0 || tn__operand_count(dy) == 0) return TN_OK;
    uint32_t last = dx->rank - 1;
    tn__walk walk = {.rank = last};
    for (uint32_t d = 0; d < last; d++) walk.extent[d] = dy->shape[d];
    for (uint32_t d = dx->rank; d-- > 0; stride *= dx->shape[d]) strides[d] = stride;
    uint64_t row = 0;
    do {
        int64_t to = 0;
        for (uint32_t d = 0; d < last; d++) to += move_source(&pad, d, walk.place[d]) * strides[d];
        for (int64_t i = 0; i < dy->shape[last]; i++, row++)
            move_add(dx, (uint64_t)(to + move_source(&pad, last, i)), dy, row, 1);
    } while (tn__walk_next(&walk));
    return TN_OK;
}

static bool move_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0);
}

static bool move_accepts_pad(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 1, 0);
}

static bool move_accepts_gather(const tn_kernel_setup *setup) {
    return move_accepts(setup) && tn__input_is(setup, 1, TN__TYPES_INDEX);
}

static const tn_kernel train_move_kernels[] = {
    {.type = "GatherGrad",
     .accepts = move_accepts_gather,
     .workspace = move_workspace_gather,
     .run = move_run_gather},
    {.type = "PadGrad", .accepts = move_accepts_pad, .run = move_run_pad},
    {.type = "SliceGrad", .accepts = move_accepts, .run = move_run_slice},
};

TN_KERNEL_FAMILY(train_move, "tenure");
