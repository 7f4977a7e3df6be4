/* test_file.c - what is the file's own: a system that fails, a folder that has nothing in it
 * afterwards, and how little is in the system's memory. This program has functions of its own with
 * the names of the system's: each of them can be told to fail. */
#define _GNU_SOURCE /* sync_file_range */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tenure/engine.h>

#include "base/base.h"
#include "support.h"

enum { SIZE = 9 << 20, MOST = 4 << 20, PIECE = 1 << 20 };
enum { FALLOCATE, PWRITE, PREAD, SYNC, CALLS };

static tn_error failure;
static unsigned fail_at[CALLS];            /* 1: the next call; 0: none */
static _Atomic(uint64_t) on_way, most_way; /* bytes that were written and not waited for */

static bool fails(int call) { return fail_at[call] > 0 && --fail_at[call] == 0; }

int posix_fallocate(int file, off_t offset, off_t size) {
    if (fails(FALLOCATE)) return ENOSPC;
    return syscall(SYS_fallocate, file, 0, offset, size) == 0 ? 0 : errno;
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) {
    if (fails(PWRITE)) return errno = EIO, -1;
    if (size > 300000) size = 300000; /* as little as the system likes */
    uint64_t now = atomic_fetch_add(&on_way, size) + size;
    if (now > most_way) most_way = now;
    return syscall(SYS_pwrite64, file, bytes, size, offset);
}

ssize_t pread(int file, void *bytes, size_t size, off_t offset) {
    if (fails(PREAD)) return errno = EIO, -1;
    return syscall(SYS_pread64, file, bytes, size > 300000 ? 300000 : size, offset);
}

int sync_file_range(int file, off_t offset, off_t size, unsigned flags) {
    bool waits = (flags & SYNC_FILE_RANGE_WAIT_AFTER) != 0;
    if (waits && fails(SYNC)) return errno = EIO, -1;
    if (waits) on_way = 0;
    return (int)syscall(SYS_sync_file_range, file, offset, size, flags);
}

static uint32_t entries(const char *folder) {
    DIR *opened = opendir(folder);
    uint32_t count = 0;
    assert_non_null(opened);
    while (readdir(opened) != NULL) count++;
    closedir(opened);
    return count - 2; /* . and .. */
}

static int next_descriptor(void) { /* the same again where none was left open */
    int next = dup(0);
    close(next);
    return next;
}

/* --- the folder --- */

static tn_status open_in(const char *name, tn_device **device) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    options.device = name;
    *device = NULL;
    return tn_device_create(&options, device, &failure);
}

static tn_status use_all(const char *name, uint8_t *bytes, uint8_t *back, uint32_t flags,
                         const char *folder) {
    tn_device *device = NULL;
    tn_stream *stream = NULL;
    tn_address blocks[2];
    tn_status status = open_in(name, &device);
    if (status == TN_OK) {
        assert_int_equal(entries(folder), 0);
        status = tn_stream_create(device, flags, &stream, &failure);
    }
    for (int i = 0; i < 2 && status == TN_OK; i++)
        status = tn_device_alloc(device, SIZE, &blocks[i], &failure);
    if (status == TN_OK) status = tn_device_put(stream, blocks[0], bytes, SIZE, &failure);
    if (status == TN_OK) status = tn_device_copy(stream, blocks[1], blocks[0], SIZE, &failure);
    if (status == TN_OK) status = tn_device_get(stream, back, blocks[1], SIZE, &failure);
    if (status == TN_OK) status = tn_stream_wait(stream, &failure);
    tn_stream_destroy(stream);
    tn_device_destroy(device);
    return status;
}

static void a_call_that_fails_is_told_with_its_folder_and_nothing_is_left(void **state) {
    static const char *const words[CALLS] = {"No space left", "cannot write", "cannot read",
                                             "cannot write"};
    static uint8_t bytes[SIZE], back[SIZE];
    char folder[] = "/tmp/tenure-file-XXXXXX", name[64];
    tn__random random = {1};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(name, sizeof name, "file:%s", folder);
    for (size_t i = 0; i < SIZE; i++) bytes[i] = (uint8_t)tn__random_next(&random);
    int before = next_descriptor();
    for (int call = 0; call < CALLS; call++) {
        tn_status status = TN_E_IO;
        for (unsigned nth = 1; status != TN_OK; nth += 1 + nth / 4) {
            memset(back, 0, SIZE);
            fail_at[call] = nth;
            status = use_all(name, bytes, back, nth % 2 ? TN_STREAM_INLINE : 0, folder);
            bool failed = fail_at[call] == 0;
            assert_int_equal(status, failed ? TN_E_IO : TN_OK);
            fail_at[call] = 0;
            if (failed && (strstr(failure.message, words[call]) == NULL ||
                           strstr(failure.where, folder) == NULL))
                fail_msg("call %d: %s: %s\n", call, failure.where, failure.message);
            if (!failed) assert_memory_equal(bytes, back, SIZE);
            assert_int_equal(entries(folder), 0);
            assert_int_equal(next_descriptor(), before);
        }
    }
    assert_int_equal(rmdir(folder), 0);
}

static void a_folder_that_holds_no_file_is_refused(void **state) {
    tn_device *device;
    (void)state;
    assert_int_equal(open_in("file:/nowhere/at/all", &device), TN_E_IO);
    assert_non_null(strstr(failure.where, "/nowhere/at/all"));
    assert_int_equal(open_in("file:/dev/null", &device), TN_E_IO);
    assert_int_equal(open_in("file:", &device), TN_E_UNKNOWN);
    assert_int_equal(open_in("files", &device), TN_E_UNKNOWN);
    assert_non_null(strstr(failure.message, "did you mean"));
    setenv("TMPDIR", "/nowhere/by/default", 1);
    assert_int_equal(open_in("file", &device), TN_E_IO);
    assert_non_null(strstr(failure.where, "/nowhere/by/default"));
    unsetenv("TMPDIR");
    assert_int_equal(open_in("file", &device), TN_OK);
    tn_device_destroy(device);
}

/* --- the system's memory --- */

static void little_is_on_its_way_at_any_time(void **state) {
    enum { STREAMS = 3 };
    static uint8_t bytes[SIZE];
    tn_device *device;
    tn_stream *streams[STREAMS];
    tn_address block;
    (void)state;
    assert_int_equal(open_in("file", &device), TN_OK);
    on_way = most_way = 0;
    for (uint32_t s = 0; s < STREAMS; s++) {
        assert_int_equal(tn_stream_create(device, 0, &streams[s], &failure), TN_OK);
        assert_int_equal(tn_device_alloc(device, SIZE, &block, &failure), TN_OK);
        for (uint64_t at = 0; at < SIZE; at += 700000) {
            uint64_t size = SIZE - at < 700000 ? SIZE - at : 700000;
            assert_int_equal(tn_device_put(streams[s], block + at, bytes + at, size, &failure),
                             TN_OK);
        }
    }
    for (uint32_t s = 0; s < STREAMS; s++) {
        assert_int_equal(tn_stream_wait(streams[s], &failure), TN_OK);
        tn_stream_destroy(streams[s]);
    }
    tn_device_destroy(device);
    assert_true(most_way >= PIECE && most_way <= MOST + 2 * STREAMS * PIECE);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(a_call_that_fails_is_told_with_its_folder_and_nothing_is_left),
        cmocka_unit_test(a_folder_that_holds_no_file_is_refused),
        cmocka_unit_test(little_is_on_its_way_at_any_time),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
