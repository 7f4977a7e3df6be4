/* prune.c - weights of which most are zero, made at set-up: PruneWeights leaves the largest
 * magnitudes, SparseWeights writes what is not zero into lists (graph/rules/sparse_weights.h).
 * Cost: three passes over the weights.
 */
#include "engine/kernels/check.h"
#include "graph/rules/sparse_weights.h"

static uint64_t prune_workspace(const tn_kernel_setup *setup) {
    (void)setup;
    return sizeof(tn__magnitudes);
}

static tn_status prune_run(tn_kernel_call *call) {
    const float *from = call->inputs[0].data;
    float *to = call->outputs[0].data;
    uint64_t count = tn__operand_count(&call->inputs[0]);
    int64_t kept = tn__attr_int(call->op, "kept", 0);
    tn__magnitudes *found = call->workspace;
    if (kept < 0 || (uint64_t)kept > count)
        return tn__call_fail(call, TN_E_INVALID, "%lld of %llu elements are to be kept",
                             (long long)kept, (unsigned long long)count);
    TN_TRY(tn__check_scratch(call, sizeof *found));
    tn__magnitudes_find(found, from, count, (uint64_t)kept);
    for (uint64_t i = 0; i < count; i++) to[i] = tn__magnitudes_keeps(found, from[i]) ? from[i] : 0;
    return TN_OK;
}

typedef struct prune_lists {
    tn__sparse form;
    float *values;
    uint8_t *bytes;
    uint16_t *words;
    uint32_t *starts;
    uint64_t count, started; /* values, starts so far */
} prune_lists;

/* An element that is not zero. */
static void prune_push(prune_lists *lists, uint64_t row, uint64_t column, float value) {
    uint64_t width = (lists->form.columns + 7) / 8, span = tn__sparse_span(&lists->form);
    if (lists->form.bits == 1)
        lists->bytes[row * width + column / 8] |= (uint8_t)(1u << column % 8);
    else if (lists->form.bits == 8)
        lists->bytes[lists->count] = (uint8_t)(column % span);
    else
        lists->words[lists->count] = (uint16_t)(column % span);
    lists->values[lists->count++] = value;
}

static tn_status prune_begin(tn_kernel_call *call, prune_lists *lists) {
    *lists = (prune_lists){.form = {(uint64_t)tn__attr_int(call->op, "rows", 0),
                                    (uint64_t)tn__attr_int(call->op, "columns", 0),
                                    tn__operand_count(&call->outputs[0]),
                                    (uint32_t)tn__attr_int(call->op, "bits", 0)},
                           .values = call->outputs[0].data,
                           .bytes = call->outputs[1].data,
                           .words = call->outputs[1].data,
                           .starts = call->outputs[2].data};
    const tn__sparse *form = &lists->form;
    int64_t places = (int64_t)tn__sparse_places(form), starts = (int64_t)tn__sparse_starts(form);
    TN_TRY(tn__check_count(call, 0, tn__mul_sat(form->rows, form->columns)));
    TN_TRY(tn__check_result(call, 1, 1, &places));
    TN_TRY(tn__check_result(call, 2, 1, &starts));
    memset(lists->values, 0, tn__operand_bytes(&call->outputs[0]));
    memset(lists->bytes, 0, tn__operand_bytes(&call->outputs[1]));
    return TN_OK;
}

/* Columns [first, first + count) of a row, which lie together. */
static tn_status prune_columns(prune_lists *lists, const tn_kernel_call *call, const float *from,
                               uint64_t row, uint64_t first, uint64_t count) {
    uint64_t span = tn__sparse_span(&lists->form);
    for (uint64_t i = 0; i < count; i++) {
        if ((first + i) % span == 0) lists->starts[lists->started++] = (uint32_t)lists->count;
        if (from[i] == 0) continue;
        if (lists->count == lists->form.kept)
            return tn__call_fail(
                call, TN_E_INVALID,
                "more than %llu elements are not zero: what they were scaled by is "
                "no number",
                (unsigned long long)lists->form.kept);
        prune_push(lists, row, first + i, from[i]);
    }
    return TN_OK;
}

static tn_status prune_run_sparse(tn_kernel_call *call) {
    const tn_operand *w = &call->inputs[0];
    const float *from = w->data;
    prune_lists lists;
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), w->rank, &axis));
    TN_TRY(prune_begin(call, &lists));
    uint64_t inner = tn__operand_span(w, axis + 1, w->rank), rows = (uint64_t)w->shape[axis];
    if (rows != lists.form.rows) return tn__call_fail(call, TN_E_INVALID, "not so many rows");
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < lists.form.columns; c += inner)
            TN_TRY(prune_columns(&lists, call, from + (c / inner * rows + r) * inner, r, c, inner));
    lists.starts[lists.started] = (uint32_t)lists.count;
    return TN_OK;
}

static bool prune_accepts(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPE(FLOAT32)) && tn__output_is(setup, 0, TN__TYPE(FLOAT32));
}

static bool prune_accepts_sparse(const tn_kernel_setup *setup) {
    uint64_t type = tn__attr_int(setup->op, "bits", 0) == 16 ? TN__TYPE(UINT16) : TN__TYPE(UINT8);
    return prune_accepts(setup) && tn__output_is(setup, 1, type) &&
           tn__output_is(setup, 2, TN__TYPE(UINT32));
}

static const tn_kernel prune_kernels[] = {
    {.type = "PruneWeights",
     .accepts = prune_accepts,
     .workspace = prune_workspace,
     .run = prune_run},
    {.type = "SparseWeights", .accepts = prune_accepts_sparse, .run = prune_run_sparse},
};

TN_KERNEL_FAMILY(prune, "tenure");
