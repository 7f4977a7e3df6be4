/* test_ranges.c - what is read past the system's cache: the right bytes, and never much of them
 * beside where they are wanted. This program has functions of its own with the names of the
 * system's, which write down what is asked of it. */
#include "../support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/device/ranges.h"

enum { SIZE = 19 << 20, MOST = 4 << 20, PAGE = 4096 };

static tn_error failure;
static uint64_t held, most_held; /* bytes that were read and not given back */
static uint64_t first, next;     /* of what was given back; both ends must be of pages, but these */

ssize_t pread(int file, void *bytes, size_t size, off_t offset) {
    if (size > 300000) size = 300000; /* as little as the system likes */
    ssize_t got = syscall(SYS_pread64, file, bytes, size, offset);
    if (got > 0) held += (uint64_t)got;
    if (held > most_held) most_held = held;
    return got;
}

int posix_fadvise(int file, off_t offset, off_t size, int advice) {
    if (advice == POSIX_FADV_RANDOM) return (int)syscall(SYS_fadvise64, file, offset, size, advice);
    assert_int_equal(advice, POSIX_FADV_DONTNEED);
    assert_true((uint64_t)offset == next && (next == first || next % PAGE == 0));
    next += (uint64_t)size;
    held -= (uint64_t)size;
    return (int)syscall(SYS_fadvise64, file, offset, size, advice);
}

/* Bytes of it that are in the system's cache. */
static uint64_t cached(const tn__ranges *file) {
    static uint8_t pages[SIZE / PAGE];
    uint64_t count = 0;
    void *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file->descriptor, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mincore(map, SIZE, pages), 0);
    munmap(map, SIZE);
    for (size_t i = 0; i < SIZE / PAGE; i++) count += pages[i] & 1;
    return count * PAGE;
}

static void little_is_in_the_cache_at_any_time(void **state) {
    (void)state;
    static uint8_t all[SIZE], got[SIZE];
    char path[] = "/tmp/tenure-ranges-XXXXXX";
    tn__random random = {1};
    tn__ranges file;
    int made = mkstemp(path);
    for (size_t i = 0; i < SIZE; i++) all[i] = (uint8_t)tn__random_next(&random);
    assert_true(made >= 0 && write(made, all, SIZE) == SIZE);
    assert_int_equal(fdatasync(made), 0); /* what is to be written cannot be given back */
    close(made);
    assert_int_equal(tn__ranges_open(path, &file, &failure), TN_OK);
    for (uint32_t turn = 0; turn < 12; turn++) {
        uint64_t size = tn__random_below(&random, turn % 2 == 0 ? SIZE : 3 * PAGE);
        first = next = tn__random_below(&random, SIZE - size + 1);
        assert_int_equal(tn__ranges_read_past_cache(&file, first, got, size, &failure), TN_OK);
        assert_memory_equal(got, all + first, size);
        assert_int_equal(next, first + size);
        assert_int_equal(held, 0);
    }
    assert_true(most_held <= MOST);
    (void)syscall(SYS_fadvise64, file.descriptor, 0, 0, POSIX_FADV_DONTNEED);
    if (cached(&file) == 0) {          /* else this file system is memory itself */
        const uint64_t part = 1000000; /* as weights follow each other in a file */
        for (uint64_t at = 0; at + part <= SIZE; at += part) {
            first = next = at;
            assert_int_equal(tn__ranges_read_past_cache(&file, at, got, part, &failure), TN_OK);
        }
        assert_true(cached(&file) <= SIZE / 16);
    }
    first = next = SIZE - 10;
    assert_int_equal(tn__ranges_read_past_cache(&file, first, got, 11, &failure), TN_E_IO);
    tn__ranges_close(&file);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(little_is_in_the_cache_at_any_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
