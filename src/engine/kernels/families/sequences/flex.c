/* flex.c - FlexAttention of ai.onnx.preview without graphs that change scores, and its two
 * products, which the reader of ONNX files puts around such graphs, in plain loops.
 *
 * In float32 it is the attention of attend.h. In float64 one row of scores at a time is in scratch
 * memory.
 *
 * Cost:   O(batch x heads x queries x keys x size); scratch: a few rows of scores.
 * Source: the ONNX specification, ai.onnx.preview 1.
 */
#include <math.h>

#include "engine/kernels/loops/attend.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/loops/product.h"

typedef struct flex_shape {
    uint64_t batch, heads, groups, queries, keys, size, value_size;
    double scale;
} flex_shape;

static tn_status flex_read(tn_kernel_call *call, flex_shape *dims) {
    const tn_operand *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2];
    for (uint32_t i = 0; i < 3; i++)
        if (call->inputs[i].rank != 4) return tn__call_bad_shape(call, i);
    if (k->shape[0] != q->shape[0] || k->shape[3] != q->shape[3] || k->shape[1] < 1 ||
        q->shape[1] % k->shape[1] != 0)
        return tn__call_bad_shape(call, 1);
    const int64_t value[4] = {k->shape[0], k->shape[1], k->shape[2], v->shape[3]};
    const int64_t result[4] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
    TN_TRY(tn__check_shape(call, 2, 4, value));
    TN_TRY(tn__call_shape(call, 0, 4, result));
    *dims = (flex_shape){.batch = (uint64_t)q->shape[0],
                         .heads = (uint64_t)q->shape[1],
                         .groups = (uint64_t)k->shape[1],
                         .queries = (uint64_t)q->shape[2],
                         .keys = (uint64_t)k->shape[2],
                         .size = (uint64_t)q->shape[3],
                         .value_size = (uint64_t)v->shape[3]};
    dims->scale = tn__attr_float(call->op, "scale", 1 / sqrt((double)dims->size));
    return TN_OK;
}

static void flex_floats(const tn_kernel_call *call, const flex_shape *dims) {
    tn__attend it = {.heads = dims->heads,
                     .groups = dims->groups,
                     .queries = dims->queries,
                     .keys = dims->keys,
                     .size = dims->size,
                     .value_size = dims->value_size,
                     .scale = (float)dims->scale,
                     .seen = dims->keys,
                     .left = -1,
                     .right = -1,
                     .unseen = -INFINITY,
                     .scratch = call->workspace};
    for (uint64_t b = 0; b < dims->batch; b++) {
        it.q =
            tn__attend_side_of(&call->inputs[0], false, b, dims->heads, dims->queries, dims->size);
        it.k = tn__attend_side_of(&call->inputs[1], false, b, dims->groups, dims->keys, dims->size);
        it.v = tn__attend_side_of(&call->inputs[2], false, b, dims->groups, dims->keys,
                                  dims->value_size);
        it.y = tn__attend_side_of(&call->outputs[0], false, b, dims->heads, dims->queries,
                                  dims->value_size);
        tn__attend_run(&it);
    }
}

/* Computes one row of the result from one query. */
static void flex_row(const flex_shape *dims, const double *q, const double *k, const double *v,
                     double *scores, double *y) {
    double most = -INFINITY, sum = 0;
    for (uint64_t j = 0; j < dims->keys; j++) {
        scores[j] = 0;
        for (uint64_t e = 0; e < dims->size; e++) scores[j] += q[e] * k[j * dims->size + e];
        scores[j] *= dims->scale;
        if (!(scores[j] <= most)) most = scores[j]; /* NaN, too */
    }
    for (uint64_t j = 0; j < dims->keys; j++) {
        scores[j] = exp(scores[j] - most);
        sum += scores[j];
    }
    for (uint64_t e = 0; e < dims->value_size; e++) y[e] = 0;
    for (uint64_t j = 0; j < dims->keys; j++)
        for (uint64_t e = 0; e < dims->value_size; e++)
            y[e] += scores[j] / sum * v[j * dims->value_size + e];
}

static void flex_doubles(const tn_kernel_call *call, const flex_shape *dims) {
    const double *q = call->inputs[0].data, *k = call->inputs[1].data, *v = call->inputs[2].data;
    double *y = call->outputs[0].data;
    for (uint64_t i = 0; i < dims->batch * dims->heads; i++) {
        uint64_t head = i % dims->heads / (dims->heads / dims->groups);
        uint64_t side = (i / dims->heads * dims->groups + head) * dims->keys;
        for (uint64_t r = 0; r < dims->queries; r++)
            flex_row(dims, q + (i * dims->queries + r) * dims->size, k + side * dims->size,
                     v + side * dims->value_size, call->workspace,
                     y + (i * dims->queries + r) * dims->value_size);
    }
}

static tn_status flex_run(tn_kernel_call *call) {
    bool narrow = call->inputs[0].dtype == TN_FLOAT32;
    flex_shape dims = {0};
    TN_TRY(flex_read(call, &dims));
    if (tn__operand_count(&call->outputs[0]) == 0) return TN_OK;
    TN_TRY(tn__check_scratch(call, narrow ? tn__attend_scratch(dims.queries, dims.keys)
                                          : tn__mul_sat(dims.keys, sizeof(double))));
    if (narrow)
        flex_floats(call, &dims);
    else
        flex_doubles(call, &dims);
    return TN_OK;
}

static bool flex_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 1 | 2 | 4, 0) &&
           tn__attr(setup->op, "score_mod") == NULL && tn__attr(setup->op, "prob_mod") == NULL;
}

static uint64_t flex_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *q = tn__setup_input(setup, 0), *k = tn__setup_input(setup, 1);
    if (q == NULL || k == NULL || q->rank != 4 || k->rank != 4) return 0;
    uint64_t keys = (uint64_t)k->shape[2];
    return q->dtype == TN_FLOAT32 ? tn__attend_scratch((uint64_t)q->shape[2], keys)
                                  : tn__mul_sat(keys, sizeof(double));
}

/* --- FlexScores, FlexValues: one product for each head --- */

static tn_status flex_run_product(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0], *b = &call->inputs[1];
    tn_operand *y = &call->outputs[0];
    bool scores = strcmp(call->op->type, "FlexScores") == 0;
    uint32_t along = scores ? 3 : 2; /* the axis of b over which is summed */
    if (a->rank != 4) return tn__call_bad_shape(call, 0);
    if (b->rank != 4 || b->shape[0] != a->shape[0] || b->shape[along] != a->shape[3] ||
        b->shape[1] < 1 || a->shape[1] % b->shape[1] != 0)
        return tn__call_bad_shape(call, 1);
    const int64_t shape[4] = {a->shape[0], a->shape[1], a->shape[2], b->shape[5 - along]};
    TN_TRY(tn__call_shape(call, 0, 4, shape));
    double usual = 1 / sqrt((double)a->shape[3]);
    double scale = scores ? tn__attr_float(call->op, "scale", usual) : 1;
    uint64_t inner = (uint64_t)a->shape[3], rows = (uint64_t)shape[2], columns = (uint64_t)shape[3];
    uint64_t share = (uint64_t)(a->shape[1] / b->shape[1]), width = tn__width(y->dtype);
    tn__product product = {.rows = rows,
                           .columns = columns,
                           .inner = inner,
                           .a_row = inner,
                           .a_inner = 1,
                           .b_inner = scores ? 1 : columns,
                           .b_column = scores ? inner : 1,
                           .c_row = columns,
                           .scale = scale};
    for (uint64_t i = 0; i < (uint64_t)(shape[0] * shape[1]); i++) {
        /* heads are the inner index of both, so i / share is the head of b in its batch, too */
        product.a = (const char *)a->data + i * rows * inner * width;
        product.b = (const char *)b->data + i / share * inner * columns * width;
        product.c = (char *)y->data + i * rows * columns * width;
        tn__product_run(&product, y->dtype);
    }
    return TN_OK;
}

static bool flex_accepts_product(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 1 | 2, 0);
}

static const tn_kernel flex_kernels[] = {
    {.type = "FlexAttention",
     .accepts = flex_accepts,
     .workspace = flex_workspace,
     .run = flex_run},
    {.domain = "tenure",
     .type = "FlexScores",
     .accepts = flex_accepts_product,
     .run = flex_run_product},
    {.domain = "tenure",
     .type = "FlexValues",
     .accepts = flex_accepts_product,
     .run = flex_run_product},
};

TN_KERNEL_FAMILY(flex, "ai.onnx.preview");
