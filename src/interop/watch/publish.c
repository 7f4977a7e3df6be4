/* publish.c - publishes a table of holders in shared memory.
 *
 * The library for LD_PRELOAD publishes from within malloc, so these functions take memory only from
 * mmap, and call nothing that allocates. The record of a table lies in pages that the system clears
 * in the child of a fork (MADV_WIPEONFORK): the child finds no mapping there and leaves the table
 * of its parent alone, without a handler and without asking for its own number.
 *
 * Labels are found by a hash table with chains. If all rows are used, a row without blocks that has
 * none at the kept moments either is given to a new label.
 */
#define _GNU_SOURCE /* memmem */
#include "interop/watch/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef O_NOFOLLOW
#define O_NOFOLLOW 0
#endif

enum {
    PUBLISH_LOOKS = 64,   /* rows that are examined for one without bytes when all rows are used */
    PUBLISH_RANGES = 1024 /* mappings of code that are remembered */
};

typedef struct publish_range { /* A mapping of code. */
    uint64_t first, last;
} publish_range;

/* The record of a published table. In the child of a fork all its bytes are 0. */
struct tn_watch {
    tn__watch_header *header; /* NULL: this is the child of a fork */
    tn__watch_row *rows;      /* [header->room] */
    size_t own_size, mask;
    uint32_t hand; /* the row that is examined next for a new label */
    uint32_t range_count;
    publish_range ranges[PUBLISH_RANGES]; /* those whose lines the table has */
    uint64_t strangers; /* number of labels with an address outside of these mappings */
    char path[128];
    /* followed by: the first row of each chain [mask + 1], the next row in the chain [room], the
     * hash of the label [room]; row 0 ends a chain */
    uint32_t index[];
};

static uint32_t *publish_heads(tn_watch *watch) { return watch->index; }
static uint32_t *publish_next(tn_watch *watch) { return watch->index + watch->mask + 1; }
static uint32_t *publish_hashes(tn_watch *watch) {
    return publish_next(watch) + watch->header->room;
}

/* --- the file --------------------------------------------------------------------------------- */

const char *tn__watch_folder(void) {
    struct stat found;
    return stat("/dev/shm", &found) == 0 && S_ISDIR(found.st_mode) ? "/dev/shm" : "/tmp";
}

void tn__watch_path(uint64_t pid, const char *source, char path[128]) {
    snprintf(path, 128, "%s/" TN__WATCH_PREFIX "%llu-%.31s", tn__watch_folder(),
             (unsigned long long)pid, source);
}

bool tn__watch_is_mapped(uint64_t pid, const char *path, bool otherwise) {
    char text[4096], line[130];
    size_t kept = 0;
    bool found = false;
    /* the path ends the line of its mapping; that of a removed file has more words */
    size_t length = (size_t)snprintf(line, sizeof line, "%.127s\n", path);
    snprintf(text, sizeof text, "/proc/%llu/maps", (unsigned long long)pid);
    int file = open(text, O_RDONLY | O_CLOEXEC);
    if (file < 0) return otherwise;
    for (ssize_t got; !found && (got = read(file, text + kept, sizeof text - kept)) > 0;) {
        size_t size = kept + (size_t)got;
        found = memmem(text, size, line, length) != NULL;
        kept = size < length ? size : length; /* the line may go on in the next piece */
        memmove(text, text + size - kept, kept);
    }
    close(file);
    return found;
}

/* --- mappings of code ------------------------------------------------------------------------- */

/* Reads a hexadecimal number at *at, which then points after it. */
static uint64_t publish_hex(const char **at) {
    uint64_t value = 0;
    for (;; ++*at) {
        char c = **at;
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        else
            return value;
    }
}

/* Adds a line of /proc/self/maps, which ends with a newline, if it describes code in a file and
 * there is room. */
static void publish_add_line(tn_watch *watch, char *maps, const char *line, size_t size) {
    tn__watch_header *header = watch->header;
    const char *at = line;
    uint64_t first = publish_hex(&at);
    if (*at++ != '-') return;
    uint64_t last = publish_hex(&at);
    bool is_code = (size_t)(at - line) + 4 < size && at[0] == ' ' && at[3] == 'x';
    if (!is_code || memchr(line, '/', size) == NULL || watch->range_count == PUBLISH_RANGES ||
        size > TN__WATCH_MAPS_ROOM - header->maps_size)
        return;
    watch->ranges[watch->range_count++] = (publish_range){first, last};
    memcpy(maps + header->maps_size, line, size);
    header->maps_size += size;
}

/* Copies the lines about code of /proc/self/maps into the table, with system calls only. A line of
 * more bytes than the buffer has is left out. */
static void publish_copy_maps(tn_watch *watch) {
    char text[4096], *maps = (char *)(void *)(watch->rows + watch->header->room);
    size_t kept = 0;
    bool skips = false; /* the text begins within a line that is left out */
    int failure = errno, file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    watch->header->maps_size = watch->range_count = 0;
    for (ssize_t got; file >= 0 && (got = read(file, text + kept, sizeof text - kept)) > 0;) {
        size_t size = kept + (size_t)got, start = 0;
        for (const char *end; (end = memchr(text + start, '\n', size - start)) != NULL;) {
            size_t length = (size_t)(end - (text + start)) + 1;
            if (!skips) publish_add_line(watch, maps, text + start, length);
            skips = false;
            start += length;
        }
        if (start == 0 && size == sizeof text) skips = true, start = size;
        kept = size - start;
        memmove(text, text + start, kept);
    }
    if (file >= 0) close(file);
    errno = failure;
}

/* Makes sure that the table has the mapping of an address, if the process has one. Addresses
 * without a file, as of compiled code, must not make every call read the mappings again. */
static void publish_cover(tn_watch *watch, uint64_t address) {
    for (uint32_t i = 0; i < watch->range_count; i++)
        if (address - 1 >= watch->ranges[i].first && address - 1 < watch->ranges[i].last) return;
    uint64_t count = ++watch->strangers;
    if ((count & (count - 1)) == 0) publish_copy_maps(watch);
}

static void publish_program(tn__watch_header *header) {
    int failure = errno, file = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, header->program, sizeof header->program - 1) : 0;
    if (size > 0 && header->program[size - 1] == '\n') header->program[size - 1] = '\0';
    if (file >= 0) close(file);
    errno = failure;
}

static bool publish_is_name(const char *source) {
    size_t length = source != NULL ? strnlen(source, TN__WATCH_SOURCE_MAX) : 0;
    if (length == 0 || length == TN__WATCH_SOURCE_MAX) return false;
    for (size_t i = 0; i < length; i++) {
        char c = source[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_word && c != ':' && c != '.' && c != '_' && c != '-') return false;
    }
    return true;
}

/* Whether a file may have this size. Beyond the limit of the process, the system would send it a
 * signal that ends it. */
static bool publish_may_have(size_t size) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= size;
}

/* Creates the file with all its memory; -1 and errno if it cannot be created. A file with its name
 * that this process has not mapped was left over, and is replaced. */
static int publish_create(const char *path, size_t size) {
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int file = open(path, flags, 0600);
    if (file < 0 && errno == EEXIST && !tn__watch_is_mapped((uint64_t)getpid(), path, false) &&
        unlink(path) == 0)
        file = open(path, flags, 0600);
    if (file < 0) return -1;
    int failed = publish_may_have(size) ? posix_fallocate(file, 0, (off_t)size) : EFBIG;
    if (failed == 0) return file;
    close(file);
    unlink(path);
    errno = failed;
    return -1;
}

static void *publish_map(size_t size, int file) {
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, file, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static tn_status publish_open(tn_watch *watch, const char *source, uint32_t room, tn_error *error) {
    tn__watch_path((uint64_t)getpid(), source, watch->path);
    size_t size = tn__watch_size(room) + TN__WATCH_MAPS_ROOM;
    int file = publish_create(watch->path, size);
    if (file < 0 && errno == EEXIST)
        TN_FAIL(error, TN_E_INVALID, "this process publishes a table with the name %s already",
                source);
    if (file < 0)
        return tn__where(error, tn__fail_system(error, errno, "create it"), "%s", watch->path);
    tn__watch_header *header = publish_map(size, file);
    close(file);
    if (header == NULL) {
        unlink(watch->path);
        return tn__no_memory(error, "a table of holders");
    }
    header->version = TN__WATCH_VERSION;
    header->header_size = sizeof *header;
    header->row_size = sizeof(tn__watch_row);
    header->room = room;
    header->pid = (uint64_t)getpid();
    header->row_count = 1;
    memcpy(header->source, source, strlen(source));
    publish_program(header);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(header->magic, TN__WATCH_MAGIC, sizeof TN__WATCH_MAGIC); /* last: it is valid now */
    watch->header = header;
    watch->rows = (tn__watch_row *)(void *)(header + 1);
    return TN_OK;
}

tn_status tn_watch_create(const tn_watch_options *given, tn_watch **watch, tn_error *error) {
    tn_watch_options options = TN_WATCH_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    if (!publish_is_name(options.source))
        TN_FAIL(error, TN_E_INVALID,
                "`source` must have 1 to 31 of the characters a-z A-Z 0-9 : . _ -");
    if (options.rows > TN__WATCH_ROWS_MAX)
        TN_FAIL(error, TN_E_INVALID, "`rows` is %u, but at most %u", options.rows,
                TN__WATCH_ROWS_MAX);
    uint32_t room = (options.rows == 0 ? TN__WATCH_ROWS_DEFAULT : options.rows) + 1;
    size_t chains = 1;
    while (chains < 2 * (size_t)room) chains *= 2;
    size_t size = sizeof(tn_watch) + (chains + 2 * (size_t)room) * sizeof(uint32_t);
    tn_watch *made = publish_map(size, -1);
    if (made == NULL) return tn__no_memory(error, "the record of a table of holders");
    made->own_size = size;
    made->mask = chains - 1;
#ifdef MADV_WIPEONFORK
    tn_status status = madvise(made, size, MADV_WIPEONFORK) == 0 ? TN_OK : TN_E_UNSUPPORTED;
#else
    tn_status status = TN_E_UNSUPPORTED;
#endif
    if (status != TN_OK)
        (void)tn__fail(error, status,
                       "a table of holders needs memory that is cleared on fork (Linux 4.14)");
    if (status == TN_OK) status = publish_open(made, options.source, room, error);
    if (status == TN_OK)
        *watch = made;
    else
        munmap(made, size);
    return status;
}

void tn_watch_destroy(tn_watch *watch) {
    if (watch == NULL || watch->header == NULL) return;
    unlink(watch->path);
    munmap(watch->header, tn__watch_size(watch->header->room) + TN__WATCH_MAPS_ROOM);
    munmap(watch, watch->own_size);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Copies a text, or its end if it is too long; the end of a name says more. The cut is not within a
 * code point. Bytes of `to` after the copy are not written. */
static void publish_fit(const char *text, char *to, size_t room) {
    size_t length = text != NULL ? strlen(text) : 0;
    if (length == 0) return;
    if (length >= room) {
        text += length - (room - 1);
        while (((unsigned char)*text & 0xc0) == 0x80) text++;
        length = strlen(text);
    }
    memcpy(to, text, length + 1);
}

static void publish_name(const tn_watch_label *label, tn__watch_name *name) {
    name->line[0] = name->module[0] = name->category[0] = '\0';
    publish_fit(label->line, name->line, sizeof name->line);
    publish_fit(label->module, name->module, sizeof name->module);
    publish_fit(label->category, name->category, sizeof name->category);
    name->address = label->address;
    name->block_size = label->block_size;
}

static uint32_t publish_hash(const tn__watch_name *name) {
    uint64_t hash = (name->address * 31 + name->block_size) * 0x9e3779b97f4a7c15u;
    if (name->line[0] != '\0') hash = tn__hash(hash, name->line, strlen(name->line));
    if (name->module[0] != '\0') hash = tn__hash(hash + 1, name->module, strlen(name->module));
    if (name->category[0] != '\0')
        hash = tn__hash(hash + 2, name->category, strlen(name->category));
    return (uint32_t)(hash ^ hash >> 32);
}

static bool publish_alike(const tn__watch_name *a, const tn__watch_name *b) {
    return a->address == b->address && a->block_size == b->block_size &&
           strcmp(a->line, b->line) == 0 && strcmp(a->module, b->module) == 0 &&
           strcmp(a->category, b->category) == 0;
}

static void publish_unlink(tn_watch *watch, uint32_t row) {
    uint32_t *at = &publish_heads(watch)[publish_hashes(watch)[row] & watch->mask];
    while (*at != row) at = &publish_next(watch)[*at];
    *at = publish_next(watch)[row];
}

static bool publish_is_empty(const tn_watch *watch, uint32_t row) {
    const tn__watch_row *it = &watch->rows[row];
    if (it->blocks != 0) return false;
    for (int m = 0; m < TN__WATCH_MOMENTS; m++)
        if (tn__watch_at(watch->header, it, (tn__watch_moment_id)m) != 0) return false;
    return true;
}

/* Returns a row for a new label: an unused one, or one without bytes. 0: all rows are
 * used. */
static uint32_t publish_new_row(tn_watch *watch) {
    tn__watch_header *header = watch->header;
    if (header->row_count < header->room) return (uint32_t)header->row_count++;
    for (uint32_t i = 0; i < PUBLISH_LOOKS && header->room > 1; i++) {
        watch->hand = watch->hand + 1 < header->room ? watch->hand + 1 : 1;
        if (!publish_is_empty(watch, watch->hand)) continue;
        publish_unlink(watch, watch->hand);
        return watch->hand;
    }
    return 0;
}

/* Finds the row of a label, or makes it. 0: all rows are used. */
static uint32_t publish_row(tn_watch *watch, const tn_watch_label *label) {
    tn__watch_name name;
    publish_name(label, &name);
    uint32_t hash = publish_hash(&name), *head = &publish_heads(watch)[hash & watch->mask];
    for (uint32_t row = *head; row != 0; row = publish_next(watch)[row])
        if (publish_hashes(watch)[row] == hash && publish_alike(&watch->rows[row].name, &name))
            return row;
    uint32_t row = publish_new_row(watch);
    if (row == 0) return 0;
    tn__watch_row *made = &watch->rows[row];
    *made = (tn__watch_row){0};
    if (name.address != 0) publish_cover(watch, name.address);
    memcpy(made->name.line, name.line, strlen(name.line));
    memcpy(made->name.module, name.module, strlen(name.module));
    memcpy(made->name.category, name.category, strlen(name.category));
    made->name.address = name.address;
    made->name.block_size = name.block_size;
    for (int m = 0; m < TN__WATCH_MOMENTS; m++) made->seen[m] = watch->header->moments[m].number;
    publish_hashes(watch)[row] = hash;
    publish_next(watch)[row] = *head;
    *head = row;
    return row;
}

/* --- changes ---------------------------------------------------------------------------------- */

static void publish_begin(tn__watch_header *header) {
    __atomic_store_n(&header->sequence, header->sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void publish_end(tn__watch_header *header) {
    __atomic_store_n(&header->sequence, header->sequence + 1, __ATOMIC_RELEASE);
}

/* Stores the bytes of a row at the moments, before it changes. */
static void publish_keep(const tn__watch_header *header, tn__watch_row *row) {
    for (int m = TN__WATCH_PEAK; m <= TN__WATCH_STEP; m++) {
        if (row->seen[m] == header->moments[m].number) continue;
        row->at[m] = row->bytes;
        row->seen[m] = header->moments[m].number;
    }
}

void tn_watch_alloc(tn_watch *watch, const tn_watch_label *label, uint64_t size,
                    tn_watch_block *block) {
    *block = (tn_watch_block){0};
    if (watch == NULL || watch->header == NULL) return;
    tn__watch_header *header = watch->header;
    publish_begin(header);
    uint32_t at = publish_row(watch, label);
    tn__watch_row *row = &watch->rows[at];
    header->dropped += at == 0;
    publish_keep(header, row);
    row->bytes += size;
    row->blocks++;
    header->bytes += size;
    header->blocks++;
    header->changes++;
    for (int m = TN__WATCH_PEAK; m <= TN__WATCH_STEP; m++)
        if (header->bytes > header->moments[m].bytes)
            header->moments[m] = (tn__watch_moment){header->bytes, header->changes};
    *block = (tn_watch_block){.size = size, .birth = header->changes, .row = at};
    publish_end(header);
}

/* Whether a block belongs to this table: one that was allocated without a table has no birth. */
static bool publish_has(const tn_watch *watch, const tn_watch_block *block) {
    return watch != NULL && watch->header != NULL && block->birth != 0;
}

void tn_watch_free(tn_watch *watch, const tn_watch_block *block) {
    if (!publish_has(watch, block)) return;
    tn__watch_header *header = watch->header;
    tn__watch_row *row = &watch->rows[block->row];
    tn_assert(block->row < header->row_count && row->bytes >= block->size && row->blocks > 0);
    publish_begin(header);
    publish_keep(header, row);
    row->bytes -= block->size;
    row->blocks--;
    header->bytes -= block->size;
    header->blocks--;
    header->changes++;
    publish_end(header);
}

void tn_watch_move(tn_watch *watch, const tn_watch_label *label, tn_watch_block *block) {
    if (!publish_has(watch, block)) return;
    tn__watch_header *header = watch->header;
    publish_begin(header);
    uint32_t at = publish_row(watch, label);
    tn__watch_row *from = &watch->rows[block->row], *to = &watch->rows[at];
    header->dropped += at == 0;
    publish_keep(header, from);
    publish_keep(header, to);
    for (int m = 0; m < TN__WATCH_MOMENTS; m++) {
        /* the block was counted at the moment if it was allocated by then */
        if (header->moments[m].number == 0 || block->birth > header->moments[m].number) continue;
        from->at[m] -= block->size;
        to->at[m] += block->size;
    }
    from->bytes -= block->size;
    from->blocks--;
    to->bytes += block->size;
    to->blocks++;
    block->row = at;
    header->changes++;
    publish_end(header);
}

/* Records a step that has ended. If its peak is the highest so far, its rows become those of the
 * highest peak, and the row that grew most is recorded. */
static void publish_past(tn_watch *watch) {
    tn__watch_header *header = watch->header;
    const tn__watch_moment *step = &header->moments[TN__WATCH_STEP];
    tn__watch_moment *best = &header->moments[TN__WATCH_BEST];
    tn__watch_past *past = &header->past[header->past_count++ % TN__WATCH_PAST];
    *past = (tn__watch_past){.step = header->step, .peak = step->bytes};
    if (step->bytes <= best->bytes) return;
    if (header->past_count > 1) past->growth = step->bytes - best->bytes;
    for (uint64_t i = 0; i < header->row_count; i++) {
        tn__watch_row *row = &watch->rows[i];
        uint64_t now = tn__watch_at(header, row, TN__WATCH_STEP);
        uint64_t growth = now > row->at[TN__WATCH_BEST] ? now - row->at[TN__WATCH_BEST] : 0;
        row->at[TN__WATCH_BEST] = now;
        if (past->growth == 0 || growth <= past->row_growth) continue;
        past->row_growth = growth;
        past->name = row->name;
    }
    *best = *step;
}

void tn_watch_step(tn_watch *watch) {
    if (watch == NULL || watch->header == NULL) return;
    tn__watch_header *header = watch->header;
    publish_begin(header);
    if (header->step > 0) publish_past(watch);
    header->step++;
    header->changes++;
    header->moments[TN__WATCH_STEP] = (tn__watch_moment){header->bytes, header->changes};
    publish_end(header);
}
