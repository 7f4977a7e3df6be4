/* arena.c - a program for a microcontroller with the arena of one model, whose size the build
 * computes (CMakeLists.txt).
 *
 * A program with TensorFlow Lite Micro passes the array to its interpreter, together with the model
 * that has the plan inside (wake_words_planned.tflite):
 *     tflite::MicroInterpreter interpreter(model, resolver, wake_words_arena,
 *                                          WAKE_WORDS_ARENA_SIZE);
 * This program only fills the array, so it needs no other library, and runs on the host as well.
 */
#define WAKE_WORDS_DEFINE
#include "wake_words_arena.h"

int main(void) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < WAKE_WORDS_ARENA_SIZE; i++) wake_words_arena[i] = 1;
    for (uint32_t i = 0; i < WAKE_WORDS_ARENA_SIZE; i++) sum += wake_words_arena[i];
    return sum == WAKE_WORDS_ARENA_SIZE ? 0 : 1;
}

#ifdef __arm__
/* --- without a C library: the start of the program, and a function that compilers call --- */
extern uint32_t stack_top;
void reset(void);
void *memset(void *to, int value, __SIZE_TYPE__ size);

void *memset(void *to, int value, __SIZE_TYPE__ size) {
    volatile uint8_t *bytes = to;
    for (__SIZE_TYPE__ i = 0; i < size; i++) bytes[i] = (uint8_t)value;
    return to;
}

void reset(void) {
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
