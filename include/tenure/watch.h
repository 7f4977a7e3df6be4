/* watch.h - the present holders of memory of a running process: a table that a program publishes,
 * and that other processes of the same user read.
 *
 *     tn_watch_options options = TN_WATCH_OPTIONS_INIT;
 *     tn_watch_label label = {.line = "model.c:31", .category = "activation"};
 *     tn_watch_block block;
 *     tn_watch *watch;
 *     tn_watch_view *view;
 *     tn_error error;
 *     options.source = "example";
 *     if (tn_watch_create(&options, &watch, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     tn_watch_alloc(watch, &label, 4096, &block);
 *     if (tn_watch_read(0, NULL, &view, &error)) // 0: this process; `tenure watch PID` for others
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     printf("%s holds %llu bytes\n", view->tables[0].rows[0].line,
 *            (unsigned long long)view->tables[0].rows[0].bytes); // model.c:31 holds 4096 bytes
 *     tn_watch_view_release(view);
 *     tn_watch_free(watch, &block);
 *     tn_watch_destroy(watch);
 *
 * A row of the table counts the blocks with equal labels. A step is an iteration of the program,
 * such as a training step; the program says where one begins. The table is a file in shared memory
 * that only its user can read (docs/watch.md). It needs Linux 4.14 or later.
 *
 * Units: bytes.
 * Threads: one thread at a time may use one tn_watch; the caller holds a lock. In the child of a
 * fork, functions that take the tn_watch of the parent have no effect.
 */
#ifndef TENURE_WATCH_H
#define TENURE_WATCH_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/watch.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- publishing --------------------------------------------------------------------------- */

typedef struct tn_watch tn_watch;

typedef struct tn_watch_options {
    size_t struct_size; /* sizeof(tn_watch_options) */
    /* name of the table, up to 31 of the characters a-z A-Z 0-9 : . _ -; unique in the process */
    const char *source;
    /* largest number of rows, up to 65535; 0: 2047. Blocks without a row are counted
     * together */
    uint32_t rows;
} tn_watch_options;
#define TN_WATCH_OPTIONS_INIT                                                                      \
    TN_INIT(tn_watch_options, TN_SET(struct_size, sizeof(tn_watch_options)))

/* The holder of a block. Any string may be NULL. Long strings are cut at the front. */
typedef struct tn_watch_label {
    const char *line;     /* line of code that allocates: "train.py:31"; up to 87 bytes */
    const char *module;   /* part of the network or the program: "encoder.0"; up to 87 bytes */
    const char *category; /* "parameter", "gradient", "activation", ...; up to 23 bytes */
    /* address of the code that allocates, which the reader turns into a line and a module if these
     * are NULL; 0: unknown */
    uint64_t address;
    uint64_t block_size; /* bytes of each block of the row; 0: a row for blocks of any size */
} tn_watch_label;

/* A block that is counted. The caller keeps it and does not change it. */
typedef struct tn_watch_block {
    uint64_t size, birth;
    uint32_t row;
} tn_watch_block;

/* Publishes an empty table. Errors: E_INVALID (`source` or `rows`; a table of this process has that
 * name), E_IO (the file cannot be created), E_NO_MEMORY, E_UNSUPPORTED (the system lacks a
 * function). Cost: 256 bytes of shared memory for each row, taken at once. */
TN_API TN_CHECKED tn_status tn_watch_create(const tn_watch_options *options, tn_watch **watch,
                                            tn_error *error);
/* Removes the table; NULL has no effect. A process that is killed leaves the file of its table. */
TN_API void tn_watch_destroy(tn_watch *watch);

/* Counts a block that was allocated, and fills *block. With `watch` NULL, it only clears *block.
 * Cost: O(1), and a look at up to 64 rows when the table is full. */
TN_API void tn_watch_alloc(tn_watch *watch, const tn_watch_label *label, uint64_t size,
                           tn_watch_block *block);
/* Counts a block as freed. `watch` may be NULL. */
TN_API void tn_watch_free(tn_watch *watch, const tn_watch_block *block);
/* Gives a block another label. The numbers at earlier peaks change as if it had always had this
 * label. `watch` may be NULL. */
TN_API void tn_watch_move(tn_watch *watch, const tn_watch_label *label, tn_watch_block *block);
/* Begins a step, and ends the one before it. `watch` may be NULL. Cost: O(rows). */
TN_API void tn_watch_step(tn_watch *watch);

/* --- reading ------------------------------------------------------------------------------ */

typedef struct tn_watch_row {
    /* "" if unknown. A row with an address has the function, or the offset in the file, as its
     * line, and the file as its module. The row for further labels has the line "(other)". */
    const char *line, *module, *category;
    uint64_t block_size;    /* bytes of each block; 0: blocks have different sizes */
    uint64_t bytes, blocks; /* at present */
    uint64_t peak_bytes;    /* bytes at the peak of the whole table */
    uint64_t step_bytes;    /* bytes at the peak of the present step */
} tn_watch_row;

/* A step that has ended. */
typedef struct tn_watch_past {
    uint64_t step; /* number of the step, from 1 */
    uint64_t peak;
    uint64_t growth; /* bytes by which its peak exceeds those of all steps before; 0: it does not */
    /* the row that grew most between the highest peak before and this one, and its growth; "" and 0
     * if `growth` is 0 */
    const char *line, *module, *category;
    uint64_t block_size, row_growth;
} tn_watch_past;

typedef struct tn_watch_table {
    const char *source;
    uint64_t bytes, blocks, peak;
    uint64_t step;            /* number of the present step, from 1; 0: no step has begun */
    uint64_t step_peak;       /* peak of the present step so far; 0 if no step has begun */
    uint64_t dropped;         /* number of blocks that were counted in the row "(other)" */
    const tn_watch_row *rows; /* [row_count], by bytes, then by bytes at the peak, descending */
    uint32_t row_count;
    const tn_watch_past *past; /* [past_count] the last steps that have ended, at most 32 */
    uint32_t past_count;
    /* false: the process changed the table while it was read. Each number is true of some moment,
     * but sums may differ from their parts */
    bool is_exact;
} tn_watch_table;

typedef struct tn_watch_view {
    uint32_t pid;
    const char *program;          /* name of the program; "" if unknown */
    bool has_ended;               /* true: the process has ended; tables are as it left them */
    const tn_watch_table *tables; /* [table_count], by source */
    uint32_t table_count;
} tn_watch_view;

/* Reads all tables of a process; `pid` 0: of this one. The caller releases the view.
 *
 * Errors: E_UNKNOWN (there is no such process, or it publishes no table), E_IO (the process belongs
 * to another user, or a file cannot be read), E_INVALID (a file is not a table of this process: the
 * message names the reason), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_watch_read(uint32_t pid, const tn_context *context,
                                          tn_watch_view **view, tn_error *error);
TN_API void tn_watch_view_release(tn_watch_view *view); /* NULL has no effect */

#ifdef __cplusplus
}
#endif
#endif
