/* variadic.c - Max, Min, Sum and Mean of any number of inputs, with numpy broadcasting.
 *
 * Inputs combine from the left, always, so that a result does not depend on which of them the plan
 * let the output overwrite: a block of the output is written only after that block of every input
 * was read. Max and Min pass NaN on.
 */
#include "engine/kernels/blocks.h"

#define VARIADIC_LOOPS(name, of_float, of_double, of_int, of_uint)                                 \
    TN_LOOP_2(variadic_float_##name, float, float, of_float)                                       \
    TN_LOOP_2(variadic_double_##name, double, double, of_double)                                   \
    TN_LOOP_2(variadic_int_##name, int64_t, int64_t, of_int)                                       \
    TN_LOOP_2(variadic_uint_##name, uint64_t, uint64_t, of_uint)                                   \
    static const tn__loop variadic_##name[] = {variadic_float_##name, variadic_double_##name,      \
                                               variadic_int_##name, variadic_uint_##name};

/* clang-format off */
VARIADIC_LOOPS(Max, x > y || x != x ? x : y, x > y || x != x ? x : y, x > y ? x : y, x > y ? x : y)
VARIADIC_LOOPS(Min, x < y || x != x ? x : y, x < y || x != x ? x : y, x < y ? x : y, x < y ? x : y)
VARIADIC_LOOPS(Sum, x + y, x + y, (uint64_t)x + (uint64_t)y, x + y)
/* clang-format on */
TN_LOOP_1(variadic_float_mean, float, float, x / (float)p[0])
TN_LOOP_1(variadic_double_mean, double, double, x / p[0])

enum { VARIADIC_KEPT = 8 }; /* readers made once; further inputs' are made for every block */

typedef struct variadic_state {
    tn_kernel_call *call;
    tn__loop loop, last; /* last: NULL, or a loop applied to the combination */
    tn_dtype type;
    tn__reader kept[VARIADIC_KEPT], other;
} variadic_state;

static tn_status variadic_load(variadic_state *state, uint32_t input, uint64_t first, size_t count,
                               tn__block_room *room, const void **from, size_t *step) {
    const tn_kernel_call *call = state->call;
    const tn__reader *reader = &state->kept[input < VARIADIC_KEPT ? input : 0];
    if (input >= VARIADIC_KEPT) {
        TN_TRY(tn__reader_init(call, &call->inputs[input], &call->outputs[0], -1, &state->other));
        reader = &state->other;
    }
    *from = tn__reader_block(reader, first, count, state->type, room, step);
    return TN_OK;
}

static tn_status variadic_block(variadic_state *state, uint64_t first, size_t count) {
    const tn_operand *output = &state->call->outputs[0];
    char *to = (char *)output->data + first * tn__element_size(output->dtype);
    const double parameters[2] = {(double)state->call->input_count, 0};
    tn__block_room sum, room;
    tn__block block = {.count = count, .parameters = parameters};
    TN_TRY(variadic_load(state, 0, first, count, &sum, &block.from[0], &block.step[0]));
    for (uint32_t k = 1; k < state->call->input_count; k++) {
        bool direct = k + 1 == state->call->input_count && output->dtype == state->type;
        TN_TRY(variadic_load(state, k, first, count, &room, &block.from[1], &block.step[1]));
        block.to = direct && state->last == NULL ? (void *)to : &sum;
        state->loop(&block);
        block.from[0] = block.to;
        block.step[0] = 1;
    }
    if (state->last != NULL && state->call->input_count > 1) {
        block.to = &sum;
        state->last(&block);
        block.from[0] = &sum;
    }
    if (block.from[0] != to) tn__convert(state->type, block.from[0], output->dtype, to, count);
    return TN_OK;
}

static tn_status variadic_run(tn_kernel_call *call, const tn__loop *loops, bool mean) {
    const tn_operand *output = &call->outputs[0];
    const uint64_t count = tn__operand_count(output);
    const tn_dtype type = tn__computed_type(output->dtype);
    variadic_state state = {.call = call, .type = type};
    state.loop = loops[type == TN_FLOAT32 ? 0 : type == TN_FLOAT64 ? 1 : type == TN_INT64 ? 2 : 3];
    if (mean) state.last = type == TN_FLOAT32 ? variadic_float_mean : variadic_double_mean;
    if (count == 0) return TN_OK;
    for (uint32_t k = 0; k < call->input_count && k < VARIADIC_KEPT; k++)
        TN_TRY(tn__reader_init(call, &call->inputs[k], output, -1, &state.kept[k]));
    for (uint64_t first = 0; first < count; first += TN__BLOCK) {
        size_t some = count - first < TN__BLOCK ? (size_t)(count - first) : TN__BLOCK;
        TN_TRY(variadic_block(&state, first, some));
    }
    return TN_OK;
}

static tn_status variadic_run_Max(tn_kernel_call *call) {
    return variadic_run(call, variadic_Max, false);
}
static tn_status variadic_run_Mean(tn_kernel_call *call) {
    return variadic_run(call, variadic_Sum, true);
}
static tn_status variadic_run_Min(tn_kernel_call *call) {
    return variadic_run(call, variadic_Min, false);
}
static tn_status variadic_run_Sum(tn_kernel_call *call) {
    return variadic_run(call, variadic_Sum, false);
}

static bool variadic_accepts_mean(const tn_kernel_setup *setup) {
    const tn_tensor *output = tn__setup_output(setup, 0);
    return tn__elementwise_accepts(setup) &&
           (tn__is_short_float(output->dtype) || output->dtype == TN_FLOAT64);
}

static const tn_kernel variadic_kernels[] = {
    {.type = "Max", .accepts = tn__elementwise_accepts, .run = variadic_run_Max},
    {.type = "Mean", .accepts = variadic_accepts_mean, .run = variadic_run_Mean},
    {.type = "Min", .accepts = tn__elementwise_accepts, .run = variadic_run_Min},
    {.type = "Sum", .accepts = tn__elementwise_accepts, .run = variadic_run_Sum},
};

TN_KERNEL_FAMILY(variadic, "");
