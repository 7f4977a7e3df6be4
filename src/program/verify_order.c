/* verify_order.c - finds the instructions that are over when an instruction starts.
 *
 * Each instruction has a list with one number per stream: how many instructions of it are over.
 * The list is that of the previous instruction on the same stream, unless an instruction waits
 * for a signal. So lists are shared, and only waits create new ones.
 */
#include "program/verify.h"

typedef struct order_signal {
    uint32_t signal, step;
} order_signal;

static int order_signal_order(const void *a, const void *b) {
    const order_signal *x = a, *y = b;
    if (x->signal != y->signal) return x->signal < y->signal ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static tn_status order_signals(verify_state *verify, order_signal **signals, uint32_t *count) {
    order_signal *made = tn__arena_array(&verify->arena, verify->count, sizeof *made);
    if (made == NULL) return tn__verify_no_memory(verify);
    for (uint32_t step = 0; step < verify->count; step++)
        if (verify->instructions[step].signal != 0)
            made[(*count)++] = (order_signal){verify->instructions[step].signal, step};
    if (*count > 0) qsort(made, *count, sizeof *made, order_signal_order);
    for (uint32_t i = 1; i < *count; i++)
        if (made[i].signal == made[i - 1].signal)
            VERIFY_FAIL(verify, made[i].step, TN_NONE,
                        "signal %u is given by instruction %u already: each once", made[i].signal,
                        made[i - 1].step);
    *signals = made;
    return TN_OK;
}

/* The step that gives the signal for which `step` waits. */
static tn_status order_find(const verify_state *verify, const order_signal *signals, uint32_t count,
                            uint32_t step, uint32_t *from) {
    uint32_t signal = verify->instructions[step].wait, low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (signals[middle].signal < signal)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || signals[low].signal != signal)
        VERIFY_FAIL(verify, step, TN_NONE, "it waits for signal %u, which no instruction gives",
                    signal);
    if (signals[low].step >= step)
        VERIFY_FAIL(verify, step, TN_NONE,
                    "it waits for signal %u, which instruction %u gives only later", signal,
                    signals[low].step);
    *from = signals[low].step;
    return TN_OK;
}

/* `step` starts when `from` is over. */
static tn_status order_join(verify_state *verify, uint32_t from, uint32_t step) {
    if (from == VERIFY_NONE || tn__verify_is_over(verify, from, step)) return TN_OK;
    const uint32_t *old = verify->over[step], *other = verify->over[from];
    uint32_t *made = tn__arena_array(&verify->arena, verify->stream_count, sizeof *made);
    if (made == NULL) return tn__verify_no_memory(verify);
    for (uint32_t s = 0; s < verify->stream_count; s++)
        made[s] = old[s] > other[s] ? old[s] : other[s];
    made[verify->instructions[from].stream] = verify->index[from] + 1;
    verify->over[step] = made;
    return TN_OK;
}

static tn_status order_step(verify_state *verify, const order_signal *signals, uint32_t count,
                            uint32_t step, uint32_t *of_opcode) {
    const tn_instruction *it = &verify->instructions[step];
    verify->waited[step] = VERIFY_NONE;
    if (it->wait != 0) {
        TN_TRY(order_find(verify, signals, count, step, &verify->waited[step]));
        TN_TRY(order_join(verify, verify->waited[step], step));
    }
    if (tn_opcode_facts_of(it->opcode)->blocks != TN_BLOCKS_CALLER) return TN_OK;
    TN_TRY(order_join(verify, of_opcode[it->opcode], step));
    of_opcode[it->opcode] = step;
    return TN_OK;
}

tn_status tn__verify_order(verify_state *verify) {
    tn__arena *arena = &verify->arena;
    uint32_t *now[TN_STREAM_MAX], length[TN_STREAM_MAX] = {0}, count = 0;
    uint32_t of_opcode[TN_OPCODE_COUNT];
    order_signal *signals = NULL;
    TN_TRY(order_signals(verify, &signals, &count));
    verify->stream_count = 1;
    for (uint32_t step = 0; step < verify->count; step++)
        if (verify->instructions[step].stream >= verify->stream_count)
            verify->stream_count = verify->instructions[step].stream + 1;
    uint32_t *nothing = tn__arena_array(arena, verify->stream_count, sizeof *nothing);
    if (nothing == NULL ||
        !(verify->index = tn__arena_array(arena, verify->count, sizeof *verify->index)) ||
        !(verify->over = tn__arena_array(arena, verify->count, sizeof *verify->over)) ||
        !(verify->waited = tn__arena_array(arena, verify->count, sizeof *verify->waited)) ||
        !(verify->brings = tn__arena_array(arena, verify->count, sizeof *verify->brings)))
        return tn__verify_no_memory(verify);
    for (uint32_t s = 0; s < TN_STREAM_MAX; s++) now[s] = nothing;
    for (uint32_t i = 0; i < TN_OPCODE_COUNT; i++) of_opcode[i] = VERIFY_NONE;
    for (uint32_t step = 0; step < verify->count; step++) {
        uint32_t stream = verify->instructions[step].stream;
        verify->index[step] = length[stream]++;
        verify->over[step] = now[stream];
        TN_TRY(order_step(verify, signals, count, step, of_opcode));
        now[stream] = verify->over[step];
    }
    return TN_OK;
}
