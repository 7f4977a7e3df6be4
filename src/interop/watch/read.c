/* read.c - reads the tables of holders that a process publishes.
 *
 * A table is a file that another process writes, so nothing in it is trusted: sizes and counts are
 * checked against the bytes that were read, strings end within their fields, and the sums of the
 * rows must be the totals in the header.
 *
 * Cost: O(rows log rows) for each table.
 */
#include "interop/watch/table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef O_NOFOLLOW
#define O_NOFOLLOW 0
#endif

enum {
    READ_TRIES = 400,  /* copies of a table that are made until one is consistent */
    READ_TABLES = 128, /* tables of one process that are read */
};

/* --- checking a table ------------------------------------------------------------------------- */

static bool read_is_text(const char *text, size_t room) { return memchr(text, '\0', room) != NULL; }

static bool read_is_name(const tn__watch_name *name) {
    return read_is_text(name->line, sizeof name->line) &&
           read_is_text(name->module, sizeof name->module) &&
           read_is_text(name->category, sizeof name->category);
}

/* Checks the part of the header that says where rows are. */
static tn_status read_check_header(const tn__watch_header *header, size_t size, uint64_t pid,
                                   tn_error *error) {
    if (size < sizeof *header || memcmp(header->magic, TN__WATCH_MAGIC, sizeof header->magic) != 0)
        TN_FAIL(error, TN_E_INVALID, "it is not a table of holders");
    if (header->version != TN__WATCH_VERSION)
        TN_FAIL(error, TN_E_INVALID,
                "it has version %u, but this build reads version %u; use the versions of one "
                "release for both processes",
                header->version, TN__WATCH_VERSION);
    if (header->header_size != sizeof *header || header->row_size != sizeof(tn__watch_row))
        TN_FAIL(error, TN_E_INVALID, "its rows have another size than those of this build");
    if (header->pid != pid)
        TN_FAIL(error, TN_E_INVALID, "it is the table of process %llu",
                (unsigned long long)header->pid);
    if (header->room == 0 || header->room > TN__WATCH_ROWS_MAX + 1)
        TN_FAIL(error, TN_E_INVALID, "it has room for %u rows; a table has from 1 to %u",
                header->room, TN__WATCH_ROWS_MAX + 1);
    if (header->row_count == 0 || header->row_count > header->room)
        TN_FAIL(error, TN_E_INVALID, "it has %llu rows, but room for %u",
                (unsigned long long)header->row_count, header->room);
    if (size < tn__watch_size((uint32_t)header->row_count))
        TN_FAIL(error, TN_E_INVALID, "it is cut off: %llu rows do not fit into %llu bytes",
                (unsigned long long)header->row_count, (unsigned long long)size);
    if (!read_is_text(header->source, sizeof header->source))
        TN_FAIL(error, TN_E_INVALID, "its name does not end");
    return TN_OK;
}

/* Checks that the rows of a consistent copy add up to the totals. */
static tn_status read_check_sums(const tn__watch_header *header, const tn__watch_row *rows,
                                 tn_error *error) {
    uint64_t bytes = 0, blocks = 0, at[TN__WATCH_MOMENTS] = {0};
    bool fits = true;
    for (uint64_t i = 0; i < header->row_count && fits; i++) {
        fits = tn__add(bytes, rows[i].bytes, &bytes) && tn__add(blocks, rows[i].blocks, &blocks);
        for (int m = 0; m < TN__WATCH_MOMENTS; m++)
            fits = fits &&
                   tn__add(at[m], tn__watch_at(header, &rows[i], (tn__watch_moment_id)m), &at[m]);
    }
    fits = fits && bytes == header->bytes && blocks == header->blocks;
    for (int m = 0; m < TN__WATCH_MOMENTS; m++) fits = fits && at[m] == header->moments[m].bytes;
    if (!fits) TN_FAIL(error, TN_E_INVALID, "its rows do not add up to its totals");
    return TN_OK;
}

static const char *read_copy(tn__arena *arena, const char *text) {
    return tn__arena_string(arena, text, strlen(text));
}

static tn_status read_row(const tn__watch_header *header, const tn__watch_row *from, bool is_other,
                          tn__arena *arena, tn_watch_row *row, tn_error *error) {
    if (!read_is_name(&from->name)) TN_FAIL(error, TN_E_INVALID, "a name of it does not end");
    *row = (tn_watch_row){.line = is_other ? "(other)" : read_copy(arena, from->name.line),
                          .module = read_copy(arena, from->name.module),
                          .category = read_copy(arena, from->name.category),
                          .block_size = from->name.block_size,
                          .bytes = from->bytes,
                          .blocks = from->blocks,
                          .peak_bytes = tn__watch_at(header, from, TN__WATCH_PEAK)};
    if (header->step > 0) row->step_bytes = tn__watch_at(header, from, TN__WATCH_STEP);
    if (row->line == NULL || row->module == NULL || row->category == NULL)
        return tn__no_memory(error, "the rows of a table");
    return TN_OK;
}

/* Copies the steps that have ended, the oldest first. */
static tn_status read_past(const tn__watch_header *header, tn__arena *arena, tn_watch_past **result,
                           uint32_t *result_count, tn_error *error) {
    uint64_t count = header->past_count < TN__WATCH_PAST ? header->past_count : TN__WATCH_PAST;
    tn_watch_past *past = tn__arena_array(arena, (size_t)count + 1, sizeof *past);
    if (past == NULL) return tn__no_memory(error, "the steps of a table");
    for (uint64_t i = 0; i < count; i++) {
        const tn__watch_past *from =
            &header->past[(header->past_count - count + i) % TN__WATCH_PAST];
        if (!read_is_name(&from->name)) TN_FAIL(error, TN_E_INVALID, "a name of it does not end");
        past[i] = (tn_watch_past){.step = from->step,
                                  .peak = from->peak,
                                  .growth = from->growth,
                                  .line = read_copy(arena, from->name.line),
                                  .module = read_copy(arena, from->name.module),
                                  .category = read_copy(arena, from->name.category),
                                  .block_size = from->name.block_size,
                                  .row_growth = from->row_growth};
        if (past[i].line == NULL || past[i].module == NULL || past[i].category == NULL)
            return tn__no_memory(error, "the steps of a table");
    }
    *result = past;
    *result_count = (uint32_t)count;
    return TN_OK;
}

static int read_compare(const void *left, const void *right) {
    const tn_watch_row *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    if (a->peak_bytes != b->peak_bytes) return a->peak_bytes > b->peak_bytes ? -1 : 1;
    int order = strcmp(a->line, b->line);
    if (order == 0) order = strcmp(a->module, b->module);
    if (order == 0) order = strcmp(a->category, b->category);
    if (order == 0) order = a->block_size > b->block_size ? -1 : a->block_size < b->block_size;
    return order;
}

/* Turns the addresses of a table into names of its copies. */
static void read_resolve(const tn__watch_row *rows, const tn__watch_header *header,
                         tn__watch_symbols *symbols, tn_watch_row *out, tn_watch_past *past,
                         uint32_t past_count) {
    for (uint64_t i = 1; i < header->row_count; i++)
        if (rows[i].name.address != 0)
            tn__watch_symbols_find(symbols, rows[i].name.address, &out[i].line, &out[i].module);
    for (uint32_t i = 0; i < past_count; i++) {
        const tn__watch_name *name =
            &header->past[(header->past_count - past_count + i) % TN__WATCH_PAST].name;
        if (name->address != 0)
            tn__watch_symbols_find(symbols, name->address, &past[i].line, &past[i].module);
    }
}

/* Parses a table; `symbols` may be NULL: addresses then have no names. */
static tn_status read_table(const void *bytes, size_t size, uint64_t pid, bool is_whole,
                            tn__watch_symbols *symbols, tn__arena *arena, tn_watch_table *table,
                            tn_error *error) {
    const tn__watch_header *header = bytes;
    TN_TRY(read_check_header(header, size, pid, error));
    const tn__watch_row *rows = (const tn__watch_row *)(const void *)(header + 1);
    if (is_whole) TN_TRY(read_check_sums(header, rows, error));
    tn_watch_row *out = tn__arena_array(arena, (size_t)header->row_count, sizeof *out);
    if (out == NULL) return tn__no_memory(error, "the rows of a table");
    for (uint64_t i = 0; i < header->row_count; i++)
        TN_TRY(read_row(header, &rows[i], i == 0, arena, &out[i], error));
    tn_watch_table made = {.source = read_copy(arena, header->source),
                           .bytes = header->bytes,
                           .blocks = header->blocks,
                           .peak = header->moments[TN__WATCH_PEAK].bytes,
                           .step = header->step,
                           .step_peak =
                               header->step > 0 ? header->moments[TN__WATCH_STEP].bytes : 0,
                           .dropped = header->dropped,
                           .is_exact = is_whole};
    if (made.source == NULL) return tn__no_memory(error, "the name of a table");
    tn_watch_past *past = NULL;
    TN_TRY(read_past(header, arena, &past, &made.past_count, error));
    made.past = past;
    if (symbols != NULL) read_resolve(rows, header, symbols, out, past, made.past_count);
    /* rows without any bytes say nothing */
    uint32_t kept = 0;
    for (uint64_t i = 0; i < header->row_count; i++)
        if (out[i].blocks != 0 || out[i].peak_bytes != 0 || out[i].step_bytes != 0)
            out[kept++] = out[i];
    qsort(out, kept, sizeof *out, read_compare);
    made.rows = out;
    made.row_count = kept;
    *table = made;
    return TN_OK;
}

tn_status tn__watch_parse(const void *bytes, size_t size, uint64_t pid, bool is_whole,
                          tn__arena *arena, tn_watch_table *table, tn_error *error) {
    return read_table(bytes, size, pid, is_whole, NULL, arena, table, error);
}

/* --- files ------------------------------------------------------------------------------------ */

typedef struct read_file {
    const tn_context *context;
    char *bytes;
    size_t size, room;
} read_file;

/* Reads up to `size` bytes of a file from its start; returns the number of bytes, 0 after an
 * error. */
static size_t read_bytes(int file, void *to, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file, (char *)to + done, size - done, (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

static uint64_t read_sequence(int file) {
    tn__watch_header header;
    return read_bytes(file, &header, sizeof header) == sizeof header ? header.sequence : 1;
}

/* Makes one copy of the used rows of a table. *is_whole: the process did not change it
 * meanwhile. */
static tn_status read_once(int file, read_file *copy, bool *is_whole, tn_error *error) {
    tn__watch_header header;
    copy->size = read_bytes(file, &header, sizeof header);
    size_t wanted = sizeof header;
    if (copy->size == sizeof header && header.row_count <= TN__WATCH_ROWS_MAX + 1)
        wanted = tn__watch_size((uint32_t)header.row_count);
    if (!tn__reserve(copy->context, &copy->bytes, &copy->room, wanted, 1))
        return tn__no_memory(error, "a copy of a table");
    copy->size = read_bytes(file, copy->bytes, wanted);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint64_t after = read_sequence(file);
    *is_whole = false;
    if (copy->size < sizeof header) return TN_OK;
    const tn__watch_header *read = (const tn__watch_header *)(const void *)copy->bytes;
    *is_whole = header.sequence == after && read->sequence == after && after % 2 == 0 &&
                read->row_count == header.row_count;
    return TN_OK;
}

/* Opens the table at a path. Fails if other users can change the file, with E_OUTSIDE if it belongs
 * to another user. *file is -1 if it could not be opened. */
static tn_status read_open(const char *path, uid_t owner, int *file, tn_error *error) {
    struct stat found;
    *file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (*file < 0) return tn__fail_system(error, errno, "open the table");
    if (fstat(*file, &found) != 0 || !S_ISREG(found.st_mode))
        TN_FAIL(error, TN_E_INVALID, "it is not a regular file");
    if (found.st_uid != owner)
        TN_FAIL(error, TN_E_OUTSIDE, "it belongs to another user than the process");
    if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        TN_FAIL(error, TN_E_INVALID, "other users may write to it");
    return TN_OK;
}

typedef struct read_view { /* The record of a view. */
    tn_watch_view view;    /* first: a pointer to one is a pointer to the other */
    tn_context context;
    tn__arena arena;
    char program[64];
    char foreign[128]; /* a file of another user with the name of a table; "": not found */
    char names[READ_TABLES][TN__WATCH_SOURCE_MAX];
    uint32_t name_count;
    tn_watch_table *tables;
} read_view;

/* Takes the mappings and the name of a process that has ended from a table of it. */
static void read_leftovers(int file, const tn__watch_header *header, read_view *view,
                           tn__watch_symbols *symbols) {
    const tn_context *context = &view->context;
    bool is_named = view->program[0] != '\0';
    if (!is_named && read_is_text(header->program, sizeof header->program))
        memcpy(view->program, header->program, sizeof view->program);
    if (!tn__watch_symbols_are_missing(symbols) || header->room > TN__WATCH_ROWS_MAX + 1 ||
        header->maps_size > TN__WATCH_MAPS_ROOM)
        return;
    char *text = tn__alloc(context, TN__WATCH_MAPS_ROOM);
    size_t size = (size_t)header->maps_size;
    off_t at = (off_t)tn__watch_size(header->room);
    /* without memory, addresses have no names */
    if (text == NULL) return;
    if (pread(file, text, size, at) == (ssize_t)size) tn__watch_symbols_add(symbols, text, size);
    tn__free(context, text, TN__WATCH_MAPS_ROOM);
}

static tn_status read_file_table(int file, read_view *made, tn__watch_symbols *symbols,
                                 tn_watch_table *table, tn_error *error) {
    const tn_watch_view *view = &made->view;
    tn__arena *arena = &made->arena;
    read_file copy = {.context = arena->context};
    bool is_whole = false;
    tn_status status = TN_OK;
    for (int i = 0; i < READ_TRIES && !is_whole && status == TN_OK; i++) {
        if (i > 0) (void)sched_yield();
        status = read_once(file, &copy, &is_whole, error);
    }
    if (status == TN_OK && copy.size >= sizeof(tn__watch_header))
        read_leftovers(file, (const tn__watch_header *)(const void *)copy.bytes, made, symbols);
    if (status == TN_OK)
        status =
            read_table(copy.bytes, copy.size, view->pid, is_whole, symbols, arena, table, error);
    tn__free(arena->context, copy.bytes, copy.room);
    return status;
}

/* --- the tables of a process ------------------------------------------------------------------ */

static int read_compare_names(const void *left, const void *right) { return strcmp(left, right); }

/* Finds the names of the tables of a process, in order. */
static tn_status read_names(read_view *view, tn_error *error) {
    char prefix[64];
    DIR *folder = opendir(tn__watch_folder());
    if (folder == NULL) return tn__fail_system(error, errno, "list the tables of processes");
    int length = snprintf(prefix, sizeof prefix, TN__WATCH_PREFIX "%u-", view->view.pid);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, prefix, (size_t)length) != 0) continue;
        const char *source = entry->d_name + length;
        if (view->name_count == READ_TABLES || strlen(source) >= TN__WATCH_SOURCE_MAX) continue;
        strcpy(view->names[view->name_count++], source);
    }
    closedir(folder);
    qsort(view->names, view->name_count, sizeof *view->names, read_compare_names);
    return TN_OK;
}

/* Whether a process has ended, and only waits until its parent has read its exit status. */
static bool read_is_zombie(uint32_t pid) {
    char text[512], path[64];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = file >= 0 ? read_bytes(file, text, sizeof text - 1) : 0;
    if (file >= 0) close(file);
    text[size] = '\0';
    /* the name of the program, in parentheses, may hold any characters */
    const char *state = strrchr(text, ')');
    return state != NULL && state[1] == ' ' && (state[2] == 'Z' || state[2] == 'X');
}

/* Finds the owner of a process. If the process no longer exists, that is the present user. */
static tn_status read_owner(read_view *view, uid_t *owner, tn_error *error) {
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%u", view->view.pid);
    view->view.has_ended = stat(path, &found) != 0;
    *owner = view->view.has_ended ? geteuid() : found.st_uid;
    if (!view->view.has_ended) view->view.has_ended = read_is_zombie(view->view.pid);
    if (geteuid() != 0 && *owner != geteuid())
        TN_FAIL(error, TN_E_IO, "process %u belongs to another user", view->view.pid);
    return TN_OK;
}

static void read_program(read_view *view) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/comm", view->view.pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = file >= 0 ? read_bytes(file, view->program, sizeof view->program - 1) : 0;
    if (file >= 0) close(file);
    view->program[size] = '\0';
    view->program[strcspn(view->program, "\n")] = '\0';
    view->view.program = view->program;
}

static tn_status read_tables(read_view *view, uid_t owner, tn_error *error) {
    view->tables = tn__arena_array(&view->arena, view->name_count + 1, sizeof *view->tables);
    tn__watch_symbols *symbols = tn__watch_symbols_open(view->view.pid, &view->arena);
    if (view->tables == NULL || symbols == NULL) {
        tn__watch_symbols_close(symbols);
        return tn__no_memory(error, "the tables of a process");
    }
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < view->name_count && status == TN_OK; i++) {
        char path[128];
        int file;
        tn__watch_path(view->view.pid, view->names[i], path);
        /* left by an earlier process of that number, or by an earlier program of the process */
        if (!view->view.has_ended && !tn__watch_is_mapped(view->view.pid, path, true)) continue;
        status = read_open(path, owner, &file, error);
        if (status == TN_OK)
            status =
                read_file_table(file, view, symbols, &view->tables[view->view.table_count], error);
        bool is_gone = file < 0 && access(path, F_OK) != 0; /* since the folder was listed */
        if (file >= 0) close(file);
        if (status == TN_OK) view->view.table_count++;
        if (status == TN_E_OUTSIDE) snprintf(view->foreign, sizeof view->foreign, "%s", path);
        if (status == TN_E_OUTSIDE || (status == TN_E_IO && is_gone)) status = TN_OK;
        (void)tn__where(error, status, "%s", path);
    }
    tn__watch_symbols_close(symbols);
    view->view.tables = view->tables;
    return status;
}

static tn_status read_all(read_view *view, tn_error *error) {
    uid_t owner = 0;
    TN_TRY(read_owner(view, &owner, error));
    TN_TRY(read_names(view, error));
    read_program(view);
    TN_TRY(read_tables(view, owner, error));
    if (view->view.table_count > 0) return TN_OK;
    if (view->view.has_ended)
        TN_FAIL(error, TN_E_UNKNOWN, "there is no process %u", view->view.pid);
    if (view->foreign[0] != '\0')
        TN_FAIL(error, TN_E_UNKNOWN,
                "%s has the name of a table of process %u, but belongs to another user",
                view->foreign, view->view.pid);
    TN_FAIL(error, TN_E_UNKNOWN,
            "process %u%s%s%s publishes no table of holders (yet); it must be started with "
            "TENURE_WATCH=1 under libtenure_preload.so or libtenure_torch.so, or call "
            "tenure.torch.watch or tn_watch_create",
            view->view.pid, view->program[0] != '\0' ? " (" : "", view->program,
            view->program[0] != '\0' ? ")" : "");
}

tn_status tn_watch_read(uint32_t pid, const tn_context *given, tn_watch_view **view,
                        tn_error *error) {
    tn_context context = tn__context(given);
    read_view *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a view of the tables of a process");
    made->context = context;
    made->view.pid = pid != 0 ? pid : (uint32_t)getpid();
    tn__arena_init(&made->arena, &made->context);
    tn_error said = {0};
    tn_status status = read_all(made, &said);
    if (status == TN_OK)
        *view = &made->view;
    else
        tn_watch_view_release(&made->view);
    return tn__fail_as(error, status, &said);
}

void tn_watch_view_release(tn_watch_view *view) {
    if (view == NULL) return;
    read_view *made = (read_view *)(void *)view;
    tn_context context = made->context;
    tn__arena_release(&made->arena);
    tn__free(&context, made, sizeof *made);
}
