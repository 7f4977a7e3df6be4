/* test_watch.c - published tables of holders against a model that keeps the set of live blocks of
 * every moment; damaged and foreign tables; readers beside a writer. */
#include "../support.h"

#include <tenure/watch.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../count.h"
#include "base/base.h"
#include "interop/watch/table.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

static tn_watch *publish(const char *source, uint32_t rows) {
    tn_watch_options options = TN_WATCH_OPTIONS_INIT;
    tn_watch *watch = NULL;
    options.source = source;
    options.rows = rows;
    assert_ok(tn_watch_create(&options, &watch, &failure));
    return watch;
}

/* --- a model ---------------------------------------------------------------------------------- */

enum { LABELS = 14, BLOCKS = 1500, PAST = 600 };

/* Every block that ever was, and for each moment whether it was live then. */
typedef struct model {
    tn_watch_block handle[BLOCKS];
    uint64_t size[BLOCKS];
    uint8_t label[BLOCKS]; /* the present one, or the last one */
    bool live[BLOCKS], peak[BLOCKS], step[BLOCKS], best[BLOCKS];
    uint32_t count;
    uint64_t bytes, peak_bytes, step_bytes, best_bytes, steps;
    struct {
        uint64_t peak, growth, row_growth, by_label[LABELS];
    } past[PAST];
    uint32_t past_count;
} model;

static tn_watch_label label_of(uint32_t i) {
    static const char *const lines[] = {"a.py:1", "b.py:22", NULL, "x"};
    static const char *const modules[] = {NULL, "encoder.0", "decoder.1.attention"};
    static char longest[LABELS][200];
    if (i == LABELS - 1) { /* only its end is kept */
        memset(longest[i], 'q', 150);
        memcpy(longest[i] + 150, "end.py:9", 9);
        return (tn_watch_label){.line = longest[i]};
    }
    return (tn_watch_label){.line = lines[i % 4],
                            .module = modules[i / 4 % 3],
                            .category = i % 2 == 0 ? "gradient" : "",
                            .block_size = i == 12 ? 4096 : 0};
}

static uint64_t sum(const model *it, const bool *at, int label) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < it->count; i++)
        if (at[i] && (label < 0 || it->label[i] == label)) bytes += it->size[i];
    return bytes;
}

static void model_note(model *it) {
    it->bytes = sum(it, it->live, -1);
    if (it->bytes > it->peak_bytes) {
        it->peak_bytes = it->bytes;
        memcpy(it->peak, it->live, sizeof it->live);
    }
    if (it->steps > 0 && it->bytes > it->step_bytes) {
        it->step_bytes = it->bytes;
        memcpy(it->step, it->live, sizeof it->live);
    }
}

static void model_step(model *it) {
    if (it->steps > 0) {
        uint32_t n = it->past_count++;
        assert_true(n < PAST);
        memset(&it->past[n], 0, sizeof it->past[n]);
        it->past[n].peak = it->step_bytes;
        if (it->step_bytes > it->best_bytes) {
            if (n > 0) it->past[n].growth = it->step_bytes - it->best_bytes;
            for (int label = 0; label < LABELS && n > 0; label++) {
                uint64_t now = sum(it, it->step, label), then = sum(it, it->best, label);
                it->past[n].by_label[label] = now > then ? now - then : 0;
                if (it->past[n].by_label[label] > it->past[n].row_growth)
                    it->past[n].row_growth = it->past[n].by_label[label];
            }
            it->best_bytes = it->step_bytes;
            memcpy(it->best, it->step, sizeof it->step);
        }
    }
    it->steps++;
    it->step_bytes = it->bytes;
    memcpy(it->step, it->live, sizeof it->live);
}

/* The label of a row of the view, or -1. */
static int label_at(const char *line, const char *module, const char *category, uint64_t size) {
    for (uint32_t i = 0; i < LABELS; i++) {
        tn_watch_label label = label_of(i);
        const char *want = label.line != NULL ? label.line : "";
        size_t length = strlen(want), cut = sizeof((tn__watch_name *)0)->line - 1;
        if (length > cut) want += length - cut;
        if (strcmp(want, line) == 0 &&
            strcmp(label.module != NULL ? label.module : "", module) == 0 &&
            strcmp(label.category != NULL ? label.category : "", category) == 0 &&
            label.block_size == size)
            return (int)i;
    }
    return -1;
}

static void compare(const model *it, bool has_room) {
    tn_watch_view *view;
    assert_ok(tn_watch_read(0, NULL, &view, &failure));
    assert_int_equal(view->table_count, 1);
    assert_int_equal(view->pid, getpid());
    const tn_watch_table *table = &view->tables[0];
    assert_true(table->is_exact); /* so the sums of rows were checked against the totals */
    assert_int_equal(table->bytes, it->bytes);
    assert_int_equal(table->peak, it->peak_bytes);
    assert_int_equal(table->step, it->steps);
    assert_int_equal(table->step_peak, it->step_bytes);
    assert_true(has_room == (table->dropped == 0) || !has_room);
    uint32_t found = 0;
    for (uint32_t i = 0; i < table->row_count && has_room; i++) {
        const tn_watch_row *row = &table->rows[i];
        int label = label_at(row->line, row->module, row->category, row->block_size);
        assert_true(label >= 0);
        assert_int_equal(row->bytes, sum(it, it->live, label));
        assert_int_equal(row->peak_bytes, sum(it, it->peak, label));
        assert_int_equal(row->step_bytes, sum(it, it->step, label));
        if (i > 0) assert_true(table->rows[i - 1].bytes >= row->bytes);
        found++;
    }
    for (int label = 0; label < LABELS && has_room; label++)
        found -= sum(it, it->live, label) + sum(it, it->peak, label) + sum(it, it->step, label) > 0;
    assert_int_equal(found, 0);
    uint32_t kept = it->past_count < TN__WATCH_PAST ? it->past_count : TN__WATCH_PAST;
    assert_int_equal(table->past_count, kept);
    for (uint32_t i = 0; i < kept; i++) {
        uint32_t n = it->past_count - kept + i;
        const tn_watch_past *past = &table->past[i];
        assert_int_equal(past->step, n + 1);
        assert_int_equal(past->peak, it->past[n].peak);
        assert_int_equal(past->growth, it->past[n].growth);
        if (!has_room) continue;
        assert_int_equal(past->row_growth, it->past[n].row_growth);
        int label = label_at(past->line, past->module, past->category, past->block_size);
        if (past->row_growth == 0) continue;
        assert_true(label >= 0 && it->past[n].by_label[label] == past->row_growth);
    }
    tn_watch_view_release(view);
}

static void run_model(uint64_t seed, uint32_t rows) {
    static model it;
    tn__random random = {seed};
    tn_watch *watch = publish("model", rows);
    memset(&it, 0, sizeof it);
    bool has_room = rows == 0;
    for (uint32_t turn = 0; it.count < BLOCKS && it.past_count < PAST - 2; turn++) {
        uint64_t choice = tn__random_below(&random, 100);
        uint32_t which = it.count > 0 ? (uint32_t)tn__random_below(&random, it.count) : 0;
        uint32_t i = (uint32_t)tn__random_below(&random, LABELS);
        tn_watch_label label = label_of(i);
        if (choice < 40) {
            uint32_t n = it.count++;
            it.size[n] = tn__random_below(&random, 1000);
            it.label[n] = (uint8_t)i;
            it.live[n] = true;
            tn_watch_alloc(watch, &label, it.size[n], &it.handle[n]);
            model_note(&it);
        } else if (choice < 80 && it.count > 0 && it.live[which]) {
            it.live[which] = false;
            tn_watch_free(watch, &it.handle[which]);
            model_note(&it);
        } else if (choice < 90 && it.count > 0 && it.live[which]) {
            it.label[which] = (uint8_t)i;
            tn_watch_move(watch, &label, &it.handle[which]);
        } else if (choice >= 97) {
            model_step(&it);
            tn_watch_step(watch);
        }
        if (turn % 61 == 0) compare(&it, has_room);
    }
    compare(&it, has_room);
    tn_watch_destroy(watch);
}

static void rows_and_steps_are_those_of_a_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(40, 4); seed++) run_model(seed, 0);
}

/* With fewer rows than labels, totals and sums stay right. */
static void a_full_table_counts_further_labels_together(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(20, 4); seed++)
        run_model(seed, 1 + (uint32_t)(seed % 9));
    tn_watch *watch = publish("full", 2);
    tn_watch_block blocks[4];
    tn_watch_view *view;
    for (uint64_t i = 0; i < 4; i++)
        tn_watch_alloc(watch, &(tn_watch_label){.block_size = i + 1}, 10 * (i + 1), &blocks[i]);
    assert_ok(tn_watch_read(0, NULL, &view, &failure));
    assert_int_equal(view->tables[0].dropped, 2);
    assert_string_equal(view->tables[0].rows[0].line, "(other)");
    assert_int_equal(view->tables[0].rows[0].bytes, 70);
    tn_watch_view_release(view);
    /* rows without bytes at any kept moment are given to new labels */
    for (uint64_t i = 0; i < 4; i++) tn_watch_free(watch, &blocks[i]);
    tn_watch_block large;
    tn_watch_alloc(watch, &(tn_watch_label){.line = "late"}, 1000, &large);
    tn_watch_alloc(watch, &(tn_watch_label){.line = "later"}, 1000, &large);
    assert_ok(tn_watch_read(0, NULL, &view, &failure));
    assert_int_equal(view->tables[0].row_count, 2);
    assert_string_equal(view->tables[0].rows[1].line, "later");
    tn_watch_view_release(view);
    tn_watch_destroy(watch);
}

/* --- files ------------------------------------------------------------------------------------ */

static void names_of_tables_are_checked(void **state) {
    (void)state;
    static const char *const wrong[] = {NULL,   "",    "a/b",
                                        "..\n", "a b", "abcdefghijklmnopqrstuvwxyz-0123456"};
    tn_watch *watch = publish("mine", 0), *other = NULL;
    tn_watch_options options = TN_WATCH_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.source = wrong[i];
        assert_int_equal(tn_watch_create(&options, &other, &failure), TN_E_INVALID);
    }
    options.source = "mine";
    assert_int_equal(tn_watch_create(&options, &other, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "already"));
    options.source = "rows";
    options.rows = TN__WATCH_ROWS_MAX + 1;
    assert_int_equal(tn_watch_create(&options, &other, &failure), TN_E_INVALID);
    assert_null(other);
    tn_watch_destroy(watch);
    tn_watch_destroy(NULL);
}

static void a_table_that_was_left_over_is_replaced_and_not_read(void **state) {
    (void)state;
    char path[128];
    tn_watch_view *view = NULL;
    tn__watch_path((uint64_t)getpid(), "left", path);
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    assert_true(file >= 0 && write(file, "left", 4) == 4);
    close(file);
    assert_int_equal(tn_watch_read(0, NULL, &view, &failure), TN_E_UNKNOWN);
    tn_watch *longer = publish("left-longer", 0); /* its path begins with that of the other */
    assert_ok(tn_watch_read(0, NULL, &view, &failure));
    assert_int_equal(view->table_count, 1);
    tn_watch_view_release(view);
    tn_watch_destroy(longer);
    tn_watch *watch = publish("left", 0);
    assert_ok(tn_watch_read(0, NULL, &view, &failure));
    struct stat found;
    assert_true(stat(path, &found) == 0 && (found.st_mode & 0777) == 0600);
    tn_watch_view_release(view);
    tn_watch_destroy(watch);
    assert_int_equal(access(path, F_OK), -1);
}

/* A link with the name of a table must not lead to another file. */
static void a_link_is_neither_followed_nor_read(void **state) {
    (void)state;
    char path[128], victim[] = "/tmp/tenure-victim-XXXXXX";
    int file = mkstemp(victim);
    assert_true(file >= 0 && write(file, "kept", 4) == 4);
    tn__watch_path((uint64_t)getpid(), "link", path);
    assert_int_equal(symlink(victim, path), 0);
    tn_watch *watch = publish("link", 0); /* the link itself is replaced */
    struct stat found;
    assert_true(fstat(file, &found) == 0 && found.st_size == 4);
    assert_true(lstat(path, &found) == 0 && S_ISREG(found.st_mode));
    tn_watch_destroy(watch);
    close(file);
    unlink(victim);
}

/* A table that the process has mapped, but that others may write to, or that was cut. */
static void a_table_that_was_changed_is_refused(void **state) {
    (void)state;
    char path[128];
    tn_watch_view *view = NULL;
    (void)publish("changed", 3);
    tn__watch_path((uint64_t)getpid(), "changed", path);
    assert_int_equal(chmod(path, 0622), 0);
    assert_int_equal(tn_watch_read(0, NULL, &view, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "other users"));
    assert_string_equal(failure.where, path);
    assert_int_equal(chmod(path, 0600), 0);
    static const off_t cuts[] = {0, 1, 100, sizeof(tn__watch_header) - 1, sizeof(tn__watch_header)};
    for (size_t i = sizeof cuts / sizeof *cuts; i-- > 0;) {
        assert_int_equal(truncate(path, cuts[i]), 0);
        assert_int_equal(tn_watch_read(0, NULL, &view, &failure), TN_E_INVALID);
    }
    assert_null(view);
    unlink(path); /* not destroyed: its pages are gone */
}

static void other_processes_have_no_table(void **state) {
    (void)state;
    tn_watch_view *view = NULL;
    assert_int_equal(tn_watch_read(INT32_MAX, NULL, &view, &failure), TN_E_UNKNOWN);
    assert_non_null(strstr(failure.message, "no process"));
    assert_int_equal(tn_watch_read(0, NULL, &view, &failure), TN_E_UNKNOWN);
    assert_non_null(strstr(failure.message, "TENURE_WATCH=1"));
    pid_t child = fork();
    if (child == 0) { /* as nobody: a process of root, and its table, are not for others */
        bool is_other = setgid(65534) == 0 && setuid(65534) == 0;
        _exit(!is_other                                                          ? 77
              : tn_watch_read((uint32_t)getppid(), NULL, &view, NULL) == TN_E_IO ? 0
                                                                                 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) != 77) assert_int_equal(status, 0);
}

static void the_child_of_a_fork_leaves_the_table_alone(void **state) {
    (void)state;
    tn_watch *watch = publish("fork", 0);
    tn_watch_block block, other;
    tn_watch_label label = {.line = "parent"};
    tn_watch_view *view;
    tn_watch_alloc(watch, &label, 100, &block);
    pid_t child = fork();
    if (child == 0) {
        tn_watch_alloc(watch, &label, 7, &other);
        tn_watch_free(watch, &block);
        tn_watch_step(watch);
        tn_watch_destroy(watch);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(tn_watch_read(0, NULL, &view, &failure));
    assert_int_equal(view->tables[0].bytes, 100);
    assert_int_equal(view->tables[0].step, 0);
    tn_watch_view_release(view);
    tn_watch_free(watch, &block);
    tn_watch_destroy(watch);
}

/* A process that is killed leaves its table; it can be read, and says so. */
static void the_table_of_a_killed_process_is_marked(void **state) {
    (void)state;
    char path[128];
    int ready[2];
    tn_watch_view *view;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        tn_watch_block block;
        tn_watch_alloc(publish("killed", 0), &(tn_watch_label){.line = "last"}, 5, &block);
        if (write(ready[1], "", 1) == 1) pause();
        _exit(1);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_ok(tn_watch_read((uint32_t)child, NULL, &view, &failure));
    assert_false(view->has_ended);
    tn_watch_view_release(view);
    kill(child, SIGKILL);
    /* first before, then after its parent has read its exit status */
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
    assert_ok(tn_watch_read((uint32_t)child, NULL, &view, &failure));
    assert_true(view->has_ended);
    tn_watch_view_release(view);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_ok(tn_watch_read((uint32_t)child, NULL, &view, &failure));
    assert_true(view->has_ended);
    assert_string_equal(view->tables[0].rows[0].line, "last");
    tn_watch_view_release(view);
    tn__watch_path((uint64_t)child, "killed", path);
    assert_int_equal(unlink(path), 0);
    close(ready[0]);
    close(ready[1]);
}

/* --- damage ----------------------------------------------------------------------------------- */

typedef struct image {
    tn__watch_header header;
    tn__watch_row rows[4];
} image;

/* A table with two rows and three steps, as it is in its file. */
static image make_image(void) {
    char path[128];
    tn_watch *watch = publish("image", 3);
    tn_watch_block blocks[3];
    for (uint64_t i = 0; i < 3; i++) {
        tn_watch_alloc(watch, &(tn_watch_label){.line = i == 0 ? "a" : "b"}, 100 + i, &blocks[i]);
        tn_watch_step(watch);
    }
    tn_watch_free(watch, &blocks[1]);
    image made;
    tn__watch_path((uint64_t)getpid(), "image", path);
    int file = open(path, O_RDONLY);
    assert_int_equal(read(file, &made, sizeof made), sizeof made);
    close(file);
    tn_watch_destroy(watch);
    return made;
}

static tn_status parse(const image *it, size_t size, bool is_whole) {
    tn_watch_table table;
    tn__arena arena;
    tn_context context = tn__context(NULL);
    tn__arena_init(&arena, &context);
    tn_status status =
        tn__watch_parse(it, size, (uint64_t)getpid(), is_whole, &arena, &table, &failure);
    if (status == TN_OK) { /* every string and number can be read */
        uint64_t words = strlen(table.source);
        for (uint32_t i = 0; i < table.row_count; i++)
            words += strlen(table.rows[i].line) + strlen(table.rows[i].module) +
                     strlen(table.rows[i].category);
        for (uint32_t i = 0; i < table.past_count; i++)
            words += strlen(table.past[i].line) + strlen(table.past[i].category);
        assert_true(words < 1 << 20);
    }
    tn__arena_release(&arena);
    return status;
}

#define REFUSES(change, words)                                                                     \
    do {                                                                                           \
        image it = whole;                                                                          \
        change;                                                                                    \
        assert_int_equal(parse(&it, sizeof it, true), TN_E_INVALID);                               \
        if (strstr(failure.message, words) == NULL) fail_msg("%s", failure.message);               \
    } while (0)

static void each_damage_is_named(void **state) {
    (void)state;
    const image whole = make_image();
    assert_ok(parse(&whole, sizeof whole, true));
    REFUSES(it.header.magic[2] = 'x', "not a table");
    REFUSES(it.header.version++, "version 2");
    REFUSES(it.header.header_size++, "another size");
    REFUSES(it.header.row_size--, "another size");
    REFUSES(it.header.pid++, "the table of process");
    REFUSES(it.header.room = 0, "room");
    REFUSES(it.header.room = UINT32_MAX, "room");
    REFUSES(it.header.row_count = 0, "rows");
    REFUSES(it.header.row_count = 1ull << 40, "rows");
    REFUSES((it.header.room = 60000, it.header.row_count = 50000), "cut off");
    REFUSES(memset(it.header.source, 'x', sizeof it.header.source), "does not end");
    REFUSES(memset(it.rows[1].name.module, 'x', sizeof it.rows[1].name.module), "does not end");
    REFUSES(memset(it.header.past[1].name.line, 'x', sizeof it.header.past[1].name.line),
            "does not end");
    REFUSES(it.rows[1].bytes++, "add up");
    REFUSES(it.rows[2].blocks++, "add up");
    REFUSES(it.header.bytes--, "add up");
    REFUSES(it.rows[1].at[TN__WATCH_BEST]++, "add up");
    REFUSES(it.header.moments[TN__WATCH_PEAK].bytes++, "add up");
    REFUSES(it.header.moments[TN__WATCH_STEP].bytes++, "add up");
    REFUSES((it.rows[1].bytes = UINT64_MAX, it.rows[2].bytes = 2), "add up");
    for (size_t size = 0; size < offsetof(image, rows[3]); size += 17)
        assert_int_equal(parse(&whole, size, true), TN_E_INVALID);
}

/* Any bytes: no crash, and no answer that differs from its sums. */
static void random_damage_is_harmless(void **state) {
    (void)state;
    const image whole = make_image();
    tn__random random = {7};
    uint32_t refused = 0, count = case_count(60000, 6000);
    for (uint32_t i = 0; i < count; i++) {
        image it = whole;
        size_t room = offsetof(image, rows[3]);
        for (uint64_t n = 1 + tn__random_below(&random, 4); n > 0; n--)
            ((uint8_t *)&it)[tn__random_below(&random, room)] ^=
                (uint8_t)(1u << tn__random_below(&random, 8));
        refused += parse(&it, sizeof it, tn__random_below(&random, 2) == 0) != TN_OK;
    }
    assert_true(refused > count / 50 && refused < count);
}

static void reading_without_memory_changes_nothing(void **state) {
    (void)state;
    tn_watch *watch = publish("memory", 0);
    tn_watch_block block;
    tn_watch_label label = {.address = (uintptr_t)&publish};
    tn_watch_alloc(watch, &label, 100, &block);
    tn_watch_step(watch);
    tn_watch_step(watch);
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_watch_view *view = NULL;
    for (memory.fail_at = 1;; memory.fail_at++) {
        memory.requests = 0;
        if (tn_watch_read(0, &context, &view, &failure) == TN_OK) break;
        assert_int_equal(failure.status, TN_E_NO_MEMORY);
        assert_int_equal(memory.held, 0);
        assert_null(view);
    }
    tn_watch_view_release(view);
    assert_int_equal(memory.held, 0);
    tn_watch_destroy(watch);
}

/* --- names of code ---------------------------------------------------------------------------- */

static void an_address_becomes_a_function(void **state) {
    (void)state;
    tn_watch *watch = publish("code", 0);
    tn_watch_block block;
    tn_watch_view *view;
    tn_watch_label label = {.address = (uintptr_t)&an_address_becomes_a_function + 2};
    tn_watch_alloc(watch, &label, 100, &block);
    label.address = 5; /* no code */
    tn_watch_alloc(watch, &label, 50, &block);
    assert_ok(tn_watch_read(0, NULL, &view, &failure));
    assert_string_equal(view->tables[0].rows[0].line, "an_address_becomes_a_function");
    assert_string_equal(view->tables[0].rows[0].module, "test_watch_watch");
    assert_string_equal(view->tables[0].rows[1].line, "");
    tn_watch_view_release(view);
    tn_watch_destroy(watch);
}

/* Files of code with random damage, mapped as code: the reader survives them, and names
 * either a function or an address. */
static void a_damaged_file_of_code_is_harmless(void **state) {
    (void)state;
    enum { FILE_MOST = 8 << 20 };
    char path[] = "/tmp/tenure-code-XXXXXX";
    char *bytes = malloc(FILE_MOST), *damaged = malloc(FILE_MOST);
    int self = open("/proc/self/exe", O_RDONLY), file = mkstemp(path);
    ssize_t got = read(self, bytes, FILE_MOST);
    assert_true(bytes != NULL && damaged != NULL && file >= 0 && got > 10000);
    size_t size = (size_t)got;
    void *code = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    if (code == MAP_FAILED) skip(); /* /tmp may be mounted without the right to execute */
    tn_watch *watch = publish("damage", 0);
    tn__random random = {11};
    tn_watch_block blocks[8];
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t address = (uintptr_t)code + 1 + tn__random_below(&random, size);
        tn_watch_alloc(watch, &(tn_watch_label){.address = address}, 1, &blocks[i]);
    }
    for (uint32_t i = 0; i < case_count(300, 30); i++) {
        memcpy(damaged, bytes, size);
        for (uint64_t n = tn__random_below(&random, 12); n > 0; n--) {
            /* the header of the file, of its segments, or of its sections at the end */
            uint64_t at = tn__random_below(&random, 2) == 0
                              ? tn__random_below(&random, 800)
                              : size - 1 - tn__random_below(&random, 3000);
            damaged[at] = (char)tn__random_next(&random);
        }
        size_t kept = i % 5 == 0 ? (size_t)tn__random_below(&random, size) : size;
        assert_true(pwrite(file, damaged, kept, 0) == (ssize_t)kept);
        assert_int_equal(ftruncate(file, (off_t)kept), 0);
        tn_watch_view *view;
        assert_ok(tn_watch_read(0, NULL, &view, &failure));
        for (uint32_t k = 0; k < view->tables[0].row_count; k++)
            assert_true(strlen(view->tables[0].rows[k].line) < 300 &&
                        strstr(view->tables[0].rows[k].module, "tenure-code-") != NULL);
        tn_watch_view_release(view);
    }
    tn_watch_destroy(watch);
    munmap(code, size);
    unlink(path);
    close(self);
    close(file);
    free(bytes);
    free(damaged);
}

/* --- readers beside a writer ------------------------------------------------------------------ */

static bool is_over;

static void *write_always(void *argument) {
    tn_watch *watch = argument;
    tn_watch_block blocks[16] = {{0}};
    tn__random random = {3};
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        uint64_t i = tn__random_below(&random, 16);
        tn_watch_label label = {.block_size = 1 + i % 5};
        if (blocks[i].birth != 0) {
            tn_watch_free(watch, &blocks[i]);
            blocks[i] = (tn_watch_block){0};
        } else {
            tn_watch_alloc(watch, &label, 1 + i, &blocks[i]);
        }
        if (tn__random_below(&random, 50) == 0) tn_watch_step(watch);
        for (volatile int pause = 0; pause < 2000; pause++) {
        }
    }
    return NULL;
}

/* The sums of every consistent copy are checked by the reader, so a torn one would be refused. */
static void a_reader_gets_consistent_copies(void **state) {
    (void)state;
    tn_watch *watch = publish("beside", 0);
    pthread_t writer;
    uint32_t exact = 0;
    is_over = false;
    assert_int_equal(pthread_create(&writer, NULL, write_always, watch), 0);
    for (uint32_t i = 0; i < case_count(2000, 200); i++) {
        tn_watch_view *view;
        assert_ok(tn_watch_read(0, NULL, &view, &failure));
        exact += view->tables[0].is_exact;
        tn_watch_view_release(view);
    }
    __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
    pthread_join(writer, NULL);
    tn_watch_destroy(watch);
    assert_true(exact > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_steps_are_those_of_a_model),
        cmocka_unit_test(a_full_table_counts_further_labels_together),
        cmocka_unit_test(names_of_tables_are_checked),
        cmocka_unit_test(a_table_that_was_left_over_is_replaced_and_not_read),
        cmocka_unit_test(a_link_is_neither_followed_nor_read),
        cmocka_unit_test(a_table_that_was_changed_is_refused),
        cmocka_unit_test(other_processes_have_no_table),
        cmocka_unit_test(the_child_of_a_fork_leaves_the_table_alone),
        cmocka_unit_test(the_table_of_a_killed_process_is_marked),
        cmocka_unit_test(each_damage_is_named),
        cmocka_unit_test(random_damage_is_harmless),
        cmocka_unit_test(reading_without_memory_changes_nothing),
        cmocka_unit_test(an_address_becomes_a_function),
        cmocka_unit_test(a_damaged_file_of_code_is_harmless),
        cmocka_unit_test(a_reader_gets_consistent_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
