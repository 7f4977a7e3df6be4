/* small_cast.c - Cast and CastLike from and to the types of small_types.h.
 *
 * Elements go through blocks of float64, or of int64 if the result is a small integer, which keeps
 * the low bits of a number that does not fit. The output may have the address of the input if both
 * have the same width.
 */
#include "engine/kernels/convert.h"
#include "engine/kernels/loops/small_types.h"
#include "engine/kernels/operands.h"

/* Reads a block as float64, or as int64 if `whole`. */
static const void *small_read(const tn_operand *from, uint64_t at, const double *values, bool whole,
                              tn__block_room *room, uint64_t count) {
    const tn_dtype type = whole ? TN_INT64 : TN_FLOAT64;
    tn__block_room reals;
    if (values == NULL)
        return tn__convert_block(from->dtype,
                                 (const char *)from->data + at * tn__element_size(from->dtype),
                                 type, room, count);
    for (uint64_t i = 0; i < count; i++)
        reals.doubles[i] = values[tn__small_code(from->dtype, from->data, at + i)];
    tn__convert(TN_FLOAT64, &reals, type, room, count);
    return room;
}

static void small_write(tn_operand *to, uint64_t at, const void *block, bool whole,
                        tn__small_options options, uint64_t count) {
    const uint32_t bits = tn_dtype_bits(to->dtype);
    const int64_t *ints = block;
    const double *reals = block;
    if (!tn__is_small(to->dtype)) {
        tn__convert(TN_FLOAT64, reals, to->dtype,
                    (char *)to->data + at * tn__element_size(to->dtype), count);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        tn__element_put(to->data, bits, at + i,
                        whole ? (uint64_t)ints[i]
                              : tn__small_round_to(to->dtype, reals[i], options));
}

static tn_status small_run(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    const char *round = tn__attr_string(call->op, "round_mode", "up");
    const tn__small_options options = {.saturate = tn__attr_int(call->op, "saturate", 1) != 0,
                                       .round = strcmp(round, "down") == 0      ? TN__SMALL_DOWN
                                                : strcmp(round, "nearest") == 0 ? TN__SMALL_NEAREST
                                                                                : TN__SMALL_UP};
    const bool whole = tn__is_small(to->dtype) && !tn__is_small_float(to->dtype);
    const uint64_t count = tn__operand_count(from);
    double values[256];
    tn__block_room room;
    TN_TRY(tn__check_result(call, 0, from->rank, from->shape));
    const bool decoded = tn__is_small(from->dtype);
    for (uint32_t code = 0; decoded && code < 1u << tn_dtype_bits(from->dtype); code++)
        values[code] = tn__small_value(from->dtype, code);
    for (uint64_t at = 0; at < count; at += TN__BLOCK) {
        uint64_t some = count - at < TN__BLOCK ? count - at : TN__BLOCK;
        small_write(to, at, small_read(from, at, decoded ? values : NULL, whole, &room, some),
                    whole, options, some);
    }
    tn__element_pad(to->data, tn_dtype_bits(to->dtype), count);
    return TN_OK;
}

static bool small_is_type(const tn_tensor *tensor) {
    return tensor != NULL && tensor->format.block == 0 && tensor->format.order != TN_ORDER_NHWC &&
           (tn__is_small(tensor->dtype) || tn__is_numeric(tensor->dtype));
}

static bool small_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *from = tn__setup_input(setup, 0), *to = tn__setup_output(setup, 0);
    return small_is_type(from) && small_is_type(to) &&
           (tn__is_small(from->dtype) || tn__is_small(to->dtype));
}

static const tn_kernel small_cast_kernels[] = {
    {.type = "Cast", .accepts = small_accepts, .run = small_run},
    {.type = "CastLike", .accepts = small_accepts, .run = small_run},
};

TN_KERNEL_FAMILY(small_cast, "");
