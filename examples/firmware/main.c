/* main.c - a program for a microcontroller around a plan that was made into a header.
 *
 *     tenure plan wake_words.tflite --bank dtcm=40KiB@2GB/s --bank sram=64KiB@1GB/s -o wake_words.h
 *     arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -ffreestanding -nostdlib -T cortex_m4.ld main.c
 *
 * The header says where each tensor lives and in which memory; the linker script says where the
 * memories are. Kernels would be called with these addresses; here each tensor is written and
 * summed, in the order of the plan. It needs no C library, and runs on the host as well.
 */
#define WAKE_WORDS_DEFINE
#include "wake_words.h"

/* memory of each bank, by its number in the plan */
static uint8_t *const memories[] = {wake_words_dtcm, wake_words_sram};

typedef struct tensor {
    uint8_t *bytes;
    uint32_t size;
    int32_t first, last; /* live in steps [first, last) */
} tensor;

#define TENSOR(name, memory, offset, bytes, first, last)                                           \
    {memories[memory] + (offset), (uint32_t)(bytes), first, last},

static uint32_t sum(const tensor *it) {
    uint32_t total = 0;
    for (uint32_t k = 0; k < it->size; k++) total += it->bytes[k];
    return total;
}

/* Whether something that is born in this step takes the place of `it`: a view, or work in place. */
static int is_replaced(const tensor *tensors, uint32_t count, const tensor *it, int32_t step) {
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i].first == step && tensors[i].bytes == it->bytes && &tensors[i] != it)
            return 1;
    return 0;
}

/* Every step writes what is born in it and reads what dies after it. */
static uint32_t run(const tensor *tensors, uint32_t count, int32_t steps) {
    uint32_t total = 0;
    for (int32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < count; i++)
            if (tensors[i].last == step + 1 && is_replaced(tensors, count, &tensors[i], step))
                total += sum(&tensors[i]);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < tensors[i].size && tensors[i].first == step; k++)
                tensors[i].bytes[k] = (uint8_t)(i + 1);
        for (uint32_t i = 0; i < count; i++)
            if (tensors[i].last == step + 1 && !is_replaced(tensors, count, &tensors[i], step))
                total += sum(&tensors[i]);
    }
    return total;
}

int main(void) {
    const tensor tensors[] = {WAKE_WORDS_TENSORS(TENSOR)};
    const uint32_t count = sizeof tensors / sizeof *tensors;
    uint32_t expected = 0;
    int32_t steps = 0;
    for (uint32_t i = 0; i < count; i++) {
        expected += (i + 1) * tensors[i].size;
        if (tensors[i].last > steps) steps = tensors[i].last;
    }
    /* nobody wrote over anybody who was still needed */
    return run(tensors, count, steps) == expected ? 0 : 1;
}

#ifdef __arm__
/* --- what a C library would bring: the stack, memory cleared, main --- */
extern uint32_t stack_top, bss_begin, bss_end;
void reset(void);
void *memset(void *to, int value, __SIZE_TYPE__ size);
void *memcpy(void *to, const void *from, __SIZE_TYPE__ size);

void *memset(void *to, int value, __SIZE_TYPE__ size) {
    volatile uint8_t *bytes = to;
    for (__SIZE_TYPE__ i = 0; i < size; i++) bytes[i] = (uint8_t)value;
    return to;
}
void *memcpy(void *to, const void *from, __SIZE_TYPE__ size) {
    volatile uint8_t *bytes = to;
    for (__SIZE_TYPE__ i = 0; i < size; i++) bytes[i] = ((const uint8_t *)from)[i];
    return to;
}

void reset(void) {
    for (uint32_t *word = &bss_begin; word < &bss_end; word++) *word = 0;
    (void)main();
    for (;;) {
    }
}

typedef struct vector_table {
    const void *stack;
    void (*reset)(void);
} vector_table;
__attribute__((section(".vectors"), used)) static const vector_table vectors = {&stack_top, reset};
#endif
