/* test_crash.c - a training that ends at any moment loses nothing that a checkpoint promised.
 *
 * Everything that the library does to files goes through the functions of this program that have
 * the names of the system's. A child trains, and ends at the first, second, third ... of them: in
 * the middle of a write, half of whose bytes are there. Then also the machine may have ended: of
 * what was written since the disk last had it all, some part is undone, drawn at random. Whoever
 * opens the table next must find the last checkpoint, or the one that was being made, and all of
 * it; and training goes on from there to the same bits as one that never ended. The same functions
 * say that the disk is full, or broken.
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

/* --- what files are asked to do --- */

enum { CALLS_MAX = 4096, NAME = 300, RENAMED = -2 };

typedef struct call { /* since the disk had it all */
    int file;         /* RENAMED: a new name; undone by putting `before` there, NULL: nothing */
    off_t offset, old_size;
    size_t before_size, after_size;
    uint8_t *before, *after; /* bytes; of a truncation: the whole file before, nothing after */
    bool truncates;
    char name[NAME];
} call;

static call calls[CALLS_MAX];
static uint32_t call_count;
static bool recording, machine_ends;
static uint64_t done, end_at; /* calls that change something; the one at which the process ends */
static tn__random coin;
static int failing; /* of every write from call number fail_from on: this reason */
static uint64_t fail_from;
static int failing_reads;

static ssize_t raw_write(int file, const void *bytes, size_t size, off_t offset) {
    return syscall(SYS_pwrite64, file, bytes, size, offset);
}
static ssize_t raw_read(int file, void *bytes, size_t size, off_t offset) {
    return syscall(SYS_pread64, file, bytes, size, offset);
}

static off_t size_of(int file) {
    struct stat facts;
    return fstat(file, &facts) == 0 ? facts.st_size : 0;
}

static void drop(call *it) {
    free(it->before);
    free(it->after);
}

static void forget(int file) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < call_count; i++)
        if (calls[i].file != file)
            calls[kept++] = calls[i];
        else
            drop(&calls[i]);
    call_count = kept;
}

static void forget_all(void) {
    while (call_count > 0) drop(&calls[--call_count]);
}

static void restore_file(const call *it) {
    int file = it->file;
    if (file == RENAMED) {
        if (it->before == NULL) {
            (void)unlink(it->name);
            return;
        }
        file = open(it->name, O_WRONLY | O_TRUNC);
        (void)raw_write(file, it->before, it->before_size, 0);
        close(file);
        return;
    }
    (void)raw_write(file, it->before, it->before_size, it->offset);
    (void)syscall(SYS_ftruncate, file, it->old_size);
}

static void repeat(const call *it) {
    if (it->truncates)
        (void)syscall(SYS_ftruncate, it->file, 0);
    else
        (void)raw_write(it->file, it->after, it->after_size, it->offset);
}

/* What was not on the disk is undone; some of it had reached it all the same, in any choice. */
static void end_machine(void) {
    for (uint32_t i = call_count; i-- > 0;)
        if (calls[i].file != RENAMED) restore_file(&calls[i]);
    for (uint32_t i = 0; i < call_count; i++)
        if (calls[i].file != RENAMED && tn__random_below(&coin, 2)) repeat(&calls[i]);
    for (uint32_t i = call_count; i-- > 0;)
        if (calls[i].file == RENAMED && tn__random_below(&coin, 2)) restore_file(&calls[i]);
}

static void end_process(void) {
    if (machine_ends) end_machine();
    _exit(9);
}

static call *note(int file) {
    if (call_count == CALLS_MAX) _exit(8);
    calls[call_count] = (call){.file = file, .old_size = file >= 0 ? size_of(file) : 0};
    return &calls[call_count++];
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) {
    if (!recording) return raw_write(file, bytes, size, offset);
    bool last = ++done == end_at;
    if (failing != 0 && done >= fail_from) {
        errno = failing;
        return done % 2 == 0 && size > 1 ? raw_write(file, bytes, 1, offset) : -1;
    }
    if (last) size /= 2;
    call *it = note(file);
    it->offset = offset;
    it->before = calloc(1, size + 1);
    it->after = malloc(size + 1);
    if (it->before == NULL || it->after == NULL) _exit(8);
    ssize_t had = raw_read(file, it->before, size, offset);
    it->before_size = had > 0 ? (size_t)had : 0;
    memcpy(it->after, bytes, size);
    it->after_size = size;
    ssize_t wrote = raw_write(file, bytes, size, offset);
    if (last) end_process();
    return wrote;
}

ssize_t pread(int file, void *bytes, size_t size, off_t offset) {
    if (recording && failing_reads != 0) {
        errno = failing_reads;
        return -1;
    }
    return raw_read(file, bytes, size, offset);
}

int ftruncate(int file, off_t size) {
    if (recording && ++done == end_at) end_process();
    if (recording && size == 0) {
        call *it = note(file);
        it->truncates = true;
        it->before_size = (size_t)it->old_size;
        it->before = malloc(it->before_size + 1);
        if (it->before == NULL) _exit(8);
        (void)raw_read(file, it->before, it->before_size, 0);
    }
    return (int)syscall(SYS_ftruncate, file, size);
}

static int synced(int file) {
    struct stat facts;
    if (recording && ++done == end_at) end_process();
    if (recording && failing != 0 && done >= fail_from) {
        errno = failing;
        return -1;
    }
    if (recording) forget(fstat(file, &facts) == 0 && S_ISDIR(facts.st_mode) ? RENAMED : file);
    return 0; /* these machines never end */
}
int fdatasync(int file) { return synced(file); }
int fsync(int file) { return synced(file); }

/* A file that is made has a name that its folder may forget. */
int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    unsigned mode =
        flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, unsigned) : 0;
    va_end(more);
    if (recording && flags & O_CREAT && access(path, F_OK) != 0) {
        if (++done == end_at) end_process();
        snprintf(note(RENAMED)->name, NAME, "%s", path);
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *name, int flags, ...) {
    char path[NAME], link[32];
    va_list more;
    va_start(more, flags);
    unsigned mode = flags & O_CREAT ? va_arg(more, unsigned) : 0;
    va_end(more);
    if (recording && flags & O_CREAT && faccessat(folder, name, F_OK, 0) != 0) {
        if (++done == end_at) end_process();
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length > 0 ? length : 0] = '\0';
        int size = snprintf(note(RENAMED)->name, NAME, "%s/%s", path, name);
        if (length <= 0 || size >= NAME) _exit(8);
    }
    return (int)syscall(SYS_openat, folder, name, flags, mode);
}

/* A file that has no name gets one. */
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    if (recording && access(to, F_OK) != 0) {
        if (++done == end_at) end_process();
        snprintf(note(RENAMED)->name, NAME, "%s", to);
    }
    return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

int rename(const char *from, const char *to) {
    if (recording && ++done == end_at) end_process();
    if (recording) {
        call *it = note(RENAMED);
        tn__file file;
        snprintf(it->name, sizeof it->name, "%s", to);
        if (access(to, F_OK) == 0 && tn__file_map(to, &file, NULL) == TN_OK) {
            it->before_size = file.size;
            it->before = malloc(file.size + 1);
            if (it->before == NULL) _exit(8);
            memcpy(it->before, file.bytes, file.size);
            tn__file_unmap(&file);
        }
    }
    return (int)syscall(SYS_rename, from, to);
}

/* --- training --- */

enum { STEPS = 12, EVERY = 4, ROWS = 40, DIM = 3 };

static tn_embedding_table the_table(void) {
    tn_embedding_table table = TN_EMBEDDING_TABLE_INIT;
    table.rows = ROWS;
    table.dim = DIM;
    table.rule = TN_EMBEDDING_ADAGRAD;
    table.scale = 1;
    return table;
}

static void the_gradients(uint64_t step, kit_batch *batch, float *gradients) {
    tn__random random = {step + 1};
    kit_draw(batch, ROWS, 8, &random);
    for (uint32_t i = 0; i < KIT_BAGS * DIM; i++) gradients[i] = kit_number(&random);
}

static tn_status open_table(tn_embedding **e) {
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding_table table = the_table();
    options.reader = "plain";
    options.batch_rows = KIT_ROWS;
    TN_TRY(tn_embedding_bytes(&table, &options, 9, &options.cache_bytes, &failure));
    return tn_embedding_open(kit_path(), &options, e, &failure);
}

static tn_status step_on(tn_embedding *e, uint64_t step) {
    kit_batch batch;
    float gradients[KIT_BAGS * DIM];
    uint32_t ticket;
    the_gradients(step, &batch, gradients);
    TN_TRY(tn_embedding_begin(e, &batch.batch, &ticket, &failure));
    tn_status status = tn_embedding_update(
        e, ticket, gradients, &(tn_embedding_step){.rate = 0.1f, .epsilon = 1e-6f}, &failure);
    tn_status ended = tn_embedding_end(e, ticket, &failure);
    return status != TN_OK ? status : ended;
}

static tn_status train(tn_embedding *e) {
    uint64_t step = 0;
    size_t size;
    TN_TRY(tn_embedding_note(e, &step, sizeof step, &size, &failure));
    for (; step < STEPS; step++) {
        uint64_t next = step + 1;
        TN_TRY(step_on(e, step));
        if (next % EVERY == 0) TN_TRY(tn_embedding_checkpoint(e, &next, sizeof next, &failure));
    }
    return TN_OK;
}

/* What the table is after so many steps, without any cache. */
static void expect_steps(tn_embedding *e, const plain *first, uint64_t steps) {
    plain p;
    kit_batch batch;
    float gradients[KIT_BAGS * DIM];
    plain_open(&p, &first->table);
    plain_copy(&p, first);
    for (uint64_t step = 0; step < steps; step++) {
        the_gradients(step, &batch, gradients);
        plain_update(&p, &batch.batch, gradients,
                     &(tn_embedding_step){.rate = 0.1f, .epsilon = 1e-6f});
    }
    plain_compare(&p, e);
    plain_close(&p);
}

static void make_table(plain *first) {
    tn_embedding_table table = the_table();
    tn_embedding *e;
    kit_remove(kit_path());
    assert_ok(tn_embedding_create(kit_path(), &table, NULL, &failure));
    assert_ok(open_table(&e));
    table.type = TN_FLOAT32;
    plain_open(first, &table);
    plain_read(first, e);
    tn_embedding_close(e);
}

static uint64_t steps_of(tn_embedding *e) {
    uint64_t step = 0;
    size_t size;
    assert_ok(tn_embedding_note(e, &step, sizeof step, &size, &failure));
    return step;
}

/* Ends at call `at`, in a child. False: it came to its end before. */
static bool end_in_child(uint64_t at, bool machine) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tn_embedding *e;
        end_at = at;
        machine_ends = machine;
        coin = (tn__random){at};
        recording = true;
        if (open_table(&e) != TN_OK || train(e) != TN_OK) _exit(7);
        _exit(0);
    }
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9);
    return WEXITSTATUS(status) == 9;
}

/* Half written files beside the checkpoint are left when a process ends; they do no harm. */
static void remove_parts(void) {
    char command[NAME];
    snprintf(command, sizeof command, "rm -f '%s'*.part", kit_path());
    assert_int_equal(system(command), 0);
}

static void end_everywhere(bool machine) {
    plain first;
    tn_embedding *e;
    uint64_t at = 1, seen[STEPS + 1] = {0}, undone = 0;
    for (bool ended = true; ended; at++) {
        tn_embedding_facts facts;
        make_table(&first);
        ended = end_in_child(at, machine);
        /* ends once more while it is undone, and then goes on */
        (void)end_in_child(1 + at % 7, machine);
        assert_ok(open_table(&e));
        tn_embedding_tell(e, &facts);
        undone += facts.undone > 0;
        uint64_t steps = steps_of(e);
        assert_true(steps <= STEPS && steps % EVERY == 0);
        seen[steps]++;
        expect_steps(e, &first, steps);
        assert_ok(train(e));
        expect_steps(e, &first, STEPS);
        tn_embedding_close(e);
        plain_close(&first);
        remove_parts();
    }
    for (uint32_t steps = 0; steps <= STEPS; steps += EVERY) assert_true(seen[steps] > 0);
    assert_true(at > 50 && undone > 10);
    print_message("ended at each of %llu calls\n", (unsigned long long)at - 2);
    kit_remove(kit_path());
}

static void the_end_of_the_process_loses_nothing(void **state) {
    (void)state;
    end_everywhere(false);
}

static void the_end_of_the_machine_loses_nothing(void **state) {
    (void)state;
    end_everywhere(true);
}

/* Killed from outside, at any time. */
static void a_kill_loses_nothing(void **state) {
    (void)state;
    plain first;
    tn_embedding *e;
    tn__random random = {1};
    make_table(&first);
    for (uint32_t kill_number = 0; kill_number < 20; kill_number++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (open_table(&e) != TN_OK) _exit(7);
            for (uint64_t step = steps_of(e);; step++) {
                uint64_t next = step + 1;
                if (step_on(e, step) != TN_OK) _exit(7);
                if (next % EVERY == 0 &&
                    tn_embedding_checkpoint(e, &next, sizeof next, &failure) != TN_OK)
                    _exit(7);
            }
        }
        struct timespec pause = {.tv_nsec = (long)tn__random_below(&random, 8000000)};
        nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_true(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        assert_ok(open_table(&e));
        uint64_t steps = steps_of(e);
        if (kill_number % 5 == 4) expect_steps(e, &first, steps);
        tn_embedding_close(e);
        remove_parts();
    }
    plain_close(&first);
    kit_remove(kit_path());
}

/* A journal is emptied when its checkpoint is there. The end of the machine may undo that, and what
 * was written next lie over the old records: those behind it are of the past. */
static void records_of_an_earlier_checkpoint_undo_nothing(void **state) {
    (void)state;
    enum { HEAD = 40, RECORD = 8 + 2 * DIM * 4 };
    plain first;
    tn_embedding *e;
    tn_embedding_facts facts;
    static uint8_t past[1 << 16];
    char path[NAME];
    uint64_t steps = EVERY, step = 0;
    make_table(&first);
    snprintf(path, sizeof path, "%s.journal", kit_path());
    assert_ok(open_table(&e));
    while (step < steps) assert_ok(step_on(e, step++));
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    ssize_t had = raw_read(file, past, sizeof past, 0);
    assert_true(had > HEAD + RECORD && (had - HEAD) % RECORD == 0);
    assert_ok(tn_embedding_checkpoint(e, &steps, sizeof steps, &failure));
    while (size_of(file) == 0) assert_ok(step_on(e, step++));
    tn_embedding_close(e);
    off_t now = size_of(file);
    assert_true(raw_write(file, past + HEAD, (size_t)had - HEAD, now) == had - HEAD);
    close(file);
    assert_ok(open_table(&e));
    tn_embedding_tell(e, &facts);
    assert_int_equal(facts.undone, (now - HEAD) / RECORD);
    expect_steps(e, &first, steps);
    tn_embedding_close(e);
    plain_close(&first);
    kit_remove(kit_path());
}

/* What undoing did needs nothing more: new records have the number of the old ones, which must not
 * come back behind them. */
static void what_is_undone_is_on_the_disk(void **state) {
    (void)state;
    plain first;
    tn_embedding *e;
    tn_embedding_facts facts;
    make_table(&first);
    assert_ok(open_table(&e));
    for (uint64_t step = 0; step < EVERY; step++) assert_ok(step_on(e, step));
    tn_embedding_close(e);
    recording = true;
    assert_ok(open_table(&e));
    recording = false;
    tn_embedding_tell(e, &facts);
    assert_true(facts.undone > 0);
    assert_int_equal(call_count, 0);
    tn_embedding_close(e);
    plain_close(&first);
    kit_remove(kit_path());
}

/* --- a disk that is full, or broken --- */

static void a_full_disk_leaves_the_last_checkpoint(void **state) {
    (void)state;
    plain first;
    tn_embedding *e;
    uint32_t told = 0;
    for (uint64_t from = 1; from < 80; from++) {
        make_table(&first);
        assert_ok(open_table(&e));
        failing = from % 2 == 0 ? ENOSPC : EIO;
        fail_from = from;
        done = end_at = 0;
        recording = true;
        tn_status status = train(e);
        recording = false;
        if (status != TN_OK) {
            told++;
            assert_int_equal(status, TN_E_IO);
            assert_non_null(strstr(failure.message, strerror(failing)));
            assert_true(failure.where[0] ==
                        '/'); /* the table, what stands beside it, or its folder */
        }
        failing = 0;
        forget_all();
        tn_embedding_close(e);
        remove_parts();
        assert_ok(open_table(&e)); /* there is room again */
        expect_steps(e, &first, steps_of(e));
        assert_ok(train(e));
        expect_steps(e, &first, STEPS);
        tn_embedding_close(e);
        plain_close(&first);
    }
    assert_true(told > 20);
    kit_remove(kit_path());
}

static void a_row_that_cannot_be_read_fails_its_batch_alone(void **state) {
    (void)state;
    plain first;
    tn_embedding *e;
    uint32_t row = 5;
    float sums[DIM];
    tn_embedding_batch batch = {.rows = &row, .row_count = 1, .bag_count = 1};
    make_table(&first);
    assert_ok(open_table(&e));
    recording = true;
    failing_reads = EIO;
    assert_int_equal(tn_embedding_lookup(e, &batch, sums, &failure), TN_E_IO);
    assert_non_null(strstr(failure.message, "row 5 at byte 4216"));
    assert_string_equal(failure.where, kit_path());
    recording = false;
    failing_reads = 0;
    assert_ok(tn_embedding_lookup(e, &batch, sums, &failure));
    assert_memory_equal(sums, first.values + 5 * DIM, sizeof sums);
    tn_embedding_close(e);
    plain_close(&first);
    kit_remove(kit_path());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_the_process_loses_nothing),
        cmocka_unit_test(the_end_of_the_machine_loses_nothing),
        cmocka_unit_test(a_kill_loses_nothing),
        cmocka_unit_test(records_of_an_earlier_checkpoint_undo_nothing),
        cmocka_unit_test(what_is_undone_is_on_the_disk),
        cmocka_unit_test(a_full_disk_leaves_the_last_checkpoint),
        cmocka_unit_test(a_row_that_cannot_be_read_fails_its_batch_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
