/* arg.c - ArgMax and ArgMin: the position of the largest or smallest element along an axis.
 *
 * Among equal elements the first wins, or the last on request. NaN counts as better than any
 * number, and the first NaN wins. The smallest element is the largest after a change of sign
 * (floating types) or of all bits (integers), both of which reverse the order exactly. Rows of
 * neighbours go through a block of best values, so that memory is read in order.
 */
#include "engine/kernels/convert.h"

typedef struct arg_frame {
    bool smallest, last;
    tn_dtype load;
} arg_frame;

/* Compares `count` elements at place `at` with the best so far, each with its own. */
typedef void (*arg_loop)(const arg_frame *frame, size_t count, const void *elements, void *best,
                         int64_t *places, int64_t at);

/* clang-format off */
#define ARG_LOOP(name, type, turned)                                                           \
    static void arg_##name(const arg_frame *frame, size_t count, const void *elements,         \
                           void *best, int64_t *places, int64_t at) {                          \
        const type *x = elements, turn = turned;                                               \
        type *most = best;                                                                     \
        const bool last = frame->last;                                                         \
        for (size_t i = 0; i < count; i++) {                                                   \
            const type v = ARG_TURN_##name(x[i]), b = most[i];                                 \
            const bool better = (at == 0) | (v > b) | (last & (v == b)) | ((v != v) & (b == b)); \
            most[i] = better ? v : b;                                                          \
            places[i] = better ? at : places[i];                                               \
        }                                                                                      \
    }                                                                                          \
    static int64_t arg_run_##name(const arg_frame *frame, size_t count, const void *elements,  \
                                  void *best, int64_t place, int64_t at) {                     \
        const type *x = elements, turn = turned;                                               \
        type b = *(type *)best;                                                                \
        const bool last = frame->last;                                                         \
        for (size_t i = 0; i < count; i++) {                                                   \
            const type v = ARG_TURN_##name(x[i]);                                              \
            if ((at == 0 && i == 0) || v > b || (last && v == b) || (v != v && b == b)) {      \
                b = v;                                                                         \
                place = at + (int64_t)i;                                                       \
            }                                                                                  \
        }                                                                                      \
        *(type *)best = b;                                                                     \
        return place;                                                                          \
    }
#define ARG_TURN_float(v) ((v) * turn)
#define ARG_TURN_double(v) ((v) * turn)
#define ARG_TURN_int(v) ((v) ^ turn)
#define ARG_TURN_uint(v) ((v) ^ turn)
ARG_LOOP(float, float, frame->smallest ? -1.0f : 1.0f)
ARG_LOOP(double, double, frame->smallest ? -1.0 : 1.0)
ARG_LOOP(int, int64_t, frame->smallest ? -1 : 0)
ARG_LOOP(uint, uint64_t, frame->smallest ? UINT64_MAX : 0)
/* clang-format on */

static void arg_compare(const arg_frame *frame, size_t count, const void *elements, void *best,
                        int64_t *places, int64_t at) {
    arg_loop loop = frame->load == TN_FLOAT32   ? arg_float
                    : frame->load == TN_FLOAT64 ? arg_double
                    : frame->load == TN_INT64   ? arg_int
                                                : arg_uint;
    loop(frame, count, elements, best, places, at);
}

static int64_t arg_compare_run(const arg_frame *frame, size_t count, const void *elements,
                               void *best, int64_t place, int64_t at) {
    switch (frame->load) {
    case TN_FLOAT32:
        return arg_run_float(frame, count, elements, best, place, at);
    case TN_FLOAT64:
        return arg_run_double(frame, count, elements, best, place, at);
    case TN_INT64:
        return arg_run_int(frame, count, elements, best, place, at);
    default:
        return arg_run_uint(frame, count, elements, best, place, at);
    }
}

/* One result from `extent` neighbours. */
static int64_t arg_of_run(const arg_frame *frame, const tn_operand *x, uint64_t base,
                          uint64_t extent) {
    const size_t size = tn__element_size(x->dtype);
    tn__block_room room;
    double best = 0;
    int64_t place = 0;
    for (uint64_t done = 0; done < extent; done += TN__BLOCK) {
        size_t some = extent - done < TN__BLOCK ? (size_t)(extent - done) : TN__BLOCK;
        const char *from = (const char *)x->data + (base + done) * size;
        place = arg_compare_run(frame, some,
                                tn__convert_block(x->dtype, from, frame->load, &room, some), &best,
                                place, (int64_t)done);
    }
    return place;
}

/* `count` neighbouring results; the elements of each lie `stride` apart. */
static void arg_of_rows(const arg_frame *frame, const tn_operand *x, uint64_t base, uint64_t extent,
                        uint64_t stride, size_t count, int64_t *places) {
    const size_t size = tn__element_size(x->dtype);
    tn__block_room room, best;
    memset(&best, 0, sizeof best);
    memset(places, 0, count * sizeof *places);
    for (uint64_t k = 0; k < extent; k++) {
        const char *from = (const char *)x->data + (base + k * stride) * size;
        arg_compare(frame, count, tn__convert_block(x->dtype, from, frame->load, &room, count),
                    &best, places, (int64_t)k);
    }
}

static tn_status arg_run(tn_kernel_call *call, bool smallest) {
    const tn_operand *x = &call->inputs[0];
    int64_t *y = call->outputs[0].data;
    const arg_frame frame = {.smallest = smallest,
                             .last = tn__attr_int(call->op, "select_last_index", 0) != 0,
                             .load = tn__computed_type(x->dtype)};
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), x->rank, &axis));
    uint64_t outer = tn__operand_span(x, 0, axis), extent = (uint64_t)x->shape[axis];
    uint64_t inner = tn__operand_span(x, axis + 1, x->rank);
    TN_TRY(tn__call_expect(call, TN_INT64, outer * inner));
    if (extent == 0 && outer * inner > 0)
        return tn__call_fail(call, TN_E_INVALID, "axis %u has no elements to choose from", axis);
    for (uint64_t o = 0; o < outer && inner == 1; o++)
        y[o] = arg_of_run(&frame, x, o * extent, extent);
    for (uint64_t o = 0; o < outer && inner > 1; o++)
        for (uint64_t done = 0; done < inner; done += TN__BLOCK) {
            size_t some = inner - done < TN__BLOCK ? (size_t)(inner - done) : TN__BLOCK;
            arg_of_rows(&frame, x, o * extent * inner + done, extent, inner, some,
                        y + o * inner + done);
        }
    return TN_OK;
}

static tn_status arg_run_max(tn_kernel_call *call) { return arg_run(call, false); }
static tn_status arg_run_min(tn_kernel_call *call) { return arg_run(call, true); }

static const tn_kernel arg_kernels[] = {
    {.type = "ArgMax", .accepts = tn__numeric_accepts, .run = arg_run_max},
    {.type = "ArgMin", .accepts = tn__numeric_accepts, .run = arg_run_min},
};

TN_KERNEL_FAMILY(arg, "");
