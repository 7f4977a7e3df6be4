/* table.h - the layout of a published table of holders, and the file that has it.
 *
 * A table is a header and rows of a fixed size. The process that publishes it writes through a
 * shared mapping; readers use read(), so a file that is cut while they read is a short read and not
 * a signal. A sequence number is odd while the table changes (a sequence lock): a reader that finds
 * the same even number before and after has a consistent copy.
 *
 * Three moments are kept besides the present: the peak, the peak of the present step, and the
 * highest peak of the steps before. The number of bytes that a row had at a moment is stored only
 * when the row changes after it (`seen`), so a new peak costs O(1). Each change has a number; a
 * moment is known by the number of the change that reached it.
 *
 * After the rows, a table has the lines of /proc/PID/maps that describe code, so that addresses
 * still have names when the process has ended. The publishing process copies them when it meets an
 * address outside of them.
 *
 * The file is FOLDER/tenure-watch-PID-SOURCE with mode 0600 in /dev/shm, or in /tmp where that does
 * not exist. Not XDG_RUNTIME_DIR: the reader may have another value of it. The file is created with
 * O_EXCL and O_NOFOLLOW, all its memory at once, so that a full file system cannot end the
 * publishing process later. A reader accepts only a regular file of the owner of the process, which
 * the process has mapped: a file without a mapping was left by an earlier process with that number,
 * or by an earlier program of this process (exec).
 */
#ifndef TN_INTEROP_WATCH_TABLE_H
#define TN_INTEROP_WATCH_TABLE_H

#include <tenure/watch.h>

#include "base/base.h"

#define TN__WATCH_MAGIC "tnwatch"
#define TN__WATCH_VERSION 2u
#define TN__WATCH_PREFIX "tenure-watch-"
#define TN__WATCH_PAST 32u
#define TN__WATCH_ROWS_MAX 65535u
#define TN__WATCH_ROWS_DEFAULT 2047u
#define TN__WATCH_MAPS_ROOM 65536u /* bytes for the lines about code */
#define TN__WATCH_SOURCE_MAX 32u   /* bytes of a name, with its terminating NUL */

typedef enum tn__watch_moment_id {
    TN__WATCH_PEAK,
    TN__WATCH_STEP, /* the peak of the present step */
    TN__WATCH_BEST, /* the highest peak of the steps that have ended; its numbers are always stored */
    TN__WATCH_MOMENTS
} tn__watch_moment_id;

typedef struct tn__watch_name {
    char line[88], module[88], category[24];
    uint64_t address, block_size;
} tn__watch_name;

typedef struct tn__watch_row {
    uint64_t bytes, blocks;
    /* bytes at each moment; valid if `seen` is the number of the moment, otherwise `bytes` is that
     * number of bytes, because the row has not changed since */
    uint64_t at[TN__WATCH_MOMENTS], seen[TN__WATCH_MOMENTS];
    tn__watch_name name;
    uint64_t spare[5];
} tn__watch_row;

typedef struct tn__watch_moment {
    uint64_t bytes;
    uint64_t number; /* number of the change that reached it */
} tn__watch_moment;

typedef struct tn__watch_past {
    uint64_t step, peak, growth, row_growth;
    tn__watch_name name;
} tn__watch_past;

typedef struct tn__watch_header {
    char magic[8];
    uint32_t version, header_size, row_size;
    uint32_t room;      /* number of rows in the file, including row 0 for further labels */
    uint64_t pid;       /* number of the process */
    uint64_t sequence;  /* odd while the table changes */
    uint64_t row_count; /* rows from this one on were never used */
    uint64_t dropped;
    uint64_t bytes, blocks;
    uint64_t changes; /* number of changes so far */
    tn__watch_moment moments[TN__WATCH_MOMENTS];
    uint64_t step;       /* number of the present step, 0: none */
    uint64_t past_count; /* number of steps that have ended; step n is at past[n % PAST] */
    char source[TN__WATCH_SOURCE_MAX];
    tn__watch_past past[TN__WATCH_PAST];
    uint64_t maps_size; /* bytes of the lines about code, which follow all rows of the file */
    char program[64];   /* name of the program; "": unknown */
    char spare[184];
} tn__watch_header;

static inline uint64_t tn__watch_at(const tn__watch_header *header, const tn__watch_row *row,
                                    tn__watch_moment_id moment) {
    return moment == TN__WATCH_BEST || row->seen[moment] == header->moments[moment].number
               ? row->at[moment]
               : row->bytes;
}

/* Returns the bytes of the header and of `room` rows. A file has TN__WATCH_MAPS_ROOM more after all
 * its rows. */
static inline size_t tn__watch_size(uint32_t room) {
    return sizeof(tn__watch_header) + (size_t)room * sizeof(tn__watch_row);
}

/* Returns the folder of tables. */
const char *tn__watch_folder(void);
/* Writes the path of a table into `path`. */
void tn__watch_path(uint64_t pid, const char *source, char path[128]);
/* Whether a process has mapped the file at a path, by /proc/PID/maps. If that cannot be read, it
 * returns `otherwise`. Uses no memory of malloc. */
bool tn__watch_is_mapped(uint64_t pid, const char *path, bool otherwise);

/* Checks the bytes of a table and turns them into rows. `pid`: the process that must have written
 * it. `is_whole`: the bytes were read while the process did not change them, so all sums must
 * agree. Strings and arrays belong to `arena`. Errors: E_INVALID, E_NO_MEMORY. */
tn_status tn__watch_parse(const void *bytes, size_t size, uint64_t pid, bool is_whole,
                          tn__arena *arena, tn_watch_table *table, tn_error *error);

/* Turns addresses of the code of a process into names (symbols.c): its mappings are read once. */
typedef struct tn__watch_symbols tn__watch_symbols;
tn__watch_symbols *tn__watch_symbols_open(uint64_t pid, tn__arena *arena);
/* Whether the mappings of the process could not be read, as after its end. */
bool tn__watch_symbols_are_missing(const tn__watch_symbols *symbols);
/* Adds mappings from lines of /proc/PID/maps, such as those of a table. Nothing in them is
 * trusted. */
void tn__watch_symbols_add(tn__watch_symbols *symbols, const char *text, size_t size);
/* Sets *line and *module for an address; both stay as they are if nothing is known of it. Strings
 * belong to the arena. */
void tn__watch_symbols_find(tn__watch_symbols *symbols, uint64_t address, const char **line,
                            const char **module);
void tn__watch_symbols_close(tn__watch_symbols *symbols);

#endif
