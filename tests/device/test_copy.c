/* Copies past the caches: every byte at any size and offset, and no byte beside it. */
#include "memory/device/copy.h"

#include "base/base.h"
#include "support.h"

#define ROOM ((uint64_t)3 << 20)
#define SEED 20261123u

static void copies_move_every_byte_and_no_other(void **state) {
    (void)state;
    tn__random random = {SEED};
    uint8_t *from = malloc(ROOM), *to = malloc(ROOM), *expected = malloc(ROOM);
    assert_true(from != NULL && to != NULL && expected != NULL);
    for (uint64_t i = 0; i < ROOM; i++) from[i] = (uint8_t)tn__random_next(&random);
    for (int round = 0; round < 200; round++) {
        uint64_t size = tn__random_below(&random, round % 2 ? ROOM - 256 : 1 << 19);
        uint64_t source = tn__random_below(&random, 128), target = tn__random_below(&random, 128);
        memset(to, round, ROOM);
        memset(expected, round, ROOM);
        memcpy(expected + target, from + source, size);
        tn__copy_past_caches(to + target, from + source, size);
        if (memcmp(to, expected, ROOM) != 0)
            fail_msg("seed %u, round %d: %llu bytes from %llu to %llu", SEED, round,
                     (unsigned long long)size, (unsigned long long)source,
                     (unsigned long long)target);
    }
    free(from);
    free(to);
    free(expected);
}

int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(copies_move_every_byte_and_no_other)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
