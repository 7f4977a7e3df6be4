/* cumulate.c - CumSum and CumProd: running sums and products along an axis, forwards or backwards,
 * with or without the element itself.
 *
 * Floating types keep the sum in float64 and round each result once. An element is read before its
 * place is written, so the output may lie on the input.
 */
#include "engine/kernels/convert.h"

typedef struct cumulate_frame {
    tn_dtype dtype, load; /* load: float64, int64 or uint64 */
    uint64_t extent, stride;
    bool exclusive, reverse, product;
} cumulate_frame;

/* One step along the axis for `count` neighbours: elements x to results, which may be x. */
static void cumulate_step(const cumulate_frame *frame, size_t count, tn__block_room *sums,
                          const void *x, void *y) {
    tn__block_room room, before;
    const size_t size = count * 8;
    const void *elements = tn__convert_block(frame->dtype, x, frame->load, &room, count);
    if (frame->exclusive) memcpy(&before, sums, size);
    if (frame->load == TN_FLOAT64) {
        const double *from = elements;
        if (frame->product)
            for (size_t i = 0; i < count; i++) sums->doubles[i] *= from[i];
        else
            for (size_t i = 0; i < count; i++) sums->doubles[i] += from[i];
    } else {
        const int64_t *from = elements;
        if (frame->product)
            for (size_t i = 0; i < count; i++)
                sums->ints[i] = (int64_t)((uint64_t)sums->ints[i] * (uint64_t)from[i]);
        else
            for (size_t i = 0; i < count; i++)
                sums->ints[i] = (int64_t)((uint64_t)sums->ints[i] + (uint64_t)from[i]);
    }
    tn__convert(frame->load, frame->exclusive ? &before : sums, frame->dtype, y, count);
}

static void cumulate_rows(const cumulate_frame *frame, const char *x, char *y, size_t count) {
    const size_t size = tn__element_size(frame->dtype);
    tn__block_room sums;
    memset(&sums, 0, sizeof sums);
    for (size_t i = 0; i < count && frame->product; i++)
        if (frame->load == TN_FLOAT64)
            sums.doubles[i] = 1;
        else
            sums.ints[i] = 1;
    for (uint64_t k = 0; k < frame->extent; k++) {
        uint64_t at = (frame->reverse ? frame->extent - 1 - k : k) * frame->stride * size;
        cumulate_step(frame, count, &sums, x + at, y + at);
    }
}

static tn_status cumulate_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    tn_operand *y = &call->outputs[0];
    uint32_t axis;
    TN_TRY(tn__call_expect(call, x->dtype, tn__operand_count(x)));
    if (tn__operand_count(&call->inputs[1]) == 0)
        return tn__call_fail(call, TN_E_INVALID, "its axis is empty; it must be one number");
    TN_TRY(tn__call_axis(call, tn__operand_int(&call->inputs[1], 0), x->rank, &axis));
    tn_dtype type = tn__computed_type(x->dtype);
    const cumulate_frame frame = {.dtype = x->dtype,
                                  .load = type == TN_FLOAT32 ? TN_FLOAT64 : type,
                                  .extent = (uint64_t)x->shape[axis],
                                  .stride = tn__operand_span(x, axis + 1, x->rank),
                                  .exclusive = tn__attr_int(call->op, "exclusive", 0) != 0,
                                  .reverse = tn__attr_int(call->op, "reverse", 0) != 0,
                                  .product = strcmp(call->op->type, "CumProd") == 0};
    const size_t size = tn__element_size(x->dtype);
    const uint64_t outer = tn__operand_span(x, 0, axis);
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t done = 0; done < frame.stride; done += TN__BLOCK) {
            uint64_t left = frame.stride - done,
                     at = (o * frame.extent * frame.stride + done) * size;
            cumulate_rows(&frame, (const char *)x->data + at, (char *)y->data + at,
                          left < TN__BLOCK ? (size_t)left : TN__BLOCK);
        }
    return TN_OK;
}

static const tn_kernel cumulate_kernels[] = {
    {.type = "CumProd", .accepts = tn__numeric_accepts, .run = cumulate_run},
    {.type = "CumSum", .accepts = tn__numeric_accepts, .run = cumulate_run},
};

TN_KERNEL_FAMILY(cumulate, "");
