/* base.h - the functions that all other folders use. It depends only on the C library. */
#ifndef TN_BASE_H
#define TN_BASE_H

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <tenure/status.h>

/* --- three kinds of check, never mixed --------------------------------------------------
 *   TN_FAIL     input or environment is wrong   -> tn_status, always compiled
 *   tn_assert   our own code is wrong, O(1)     -> Debug, sanitizers and CI
 *   tn_audit    our own code is wrong, O(n)     -> -DTENURE_AUDIT=ON and fuzzing
 */
#ifdef NDEBUG
#define tn_assert(condition) ((void)0)
#else
#include <assert.h>
#define tn_assert(condition) assert(condition)
#endif
#ifdef TENURE_AUDIT
#define tn_audit(condition) tn_assert(condition)
#else
#define tn_audit(condition) ((void)0)
#endif

#define TN_TRY(call)                                                                               \
    do {                                                                                           \
        tn_status tn_try_status = (call);                                                          \
        if (tn_try_status != TN_OK) return tn_try_status;                                          \
    } while (0)

/* Does what TN_TRY does, for a function that owns resources: it has a label `done:` and a variable
 * `status`. */
#define TN_TRY_DONE(call)                                                                          \
    do {                                                                                           \
        if ((status = (call)) != TN_OK) goto done;                                                 \
    } while (0)

#define TN_FAIL(error, status, ...) return tn__fail(error, status, __VA_ARGS__)

/* Fills `error` with a status and a message, and leaves `where` empty; `error` may be NULL. Returns
 * `status`. */
tn_status tn__fail(tn_error *error, tn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns `status`, the result of an attempt that wrote its error to `said`, and copies `said` to
 * `error`, which may be NULL. If `said` holds no failure, `error` does not change. */
tn_status tn__fail_as(tn_error *error, tn_status status, const tn_error *said);
/* Sets error->where if it is still empty; `error` may be NULL. Returns `status`, so that it can
 * stand in a return. */
tn_status tn__where(tn_error *error, tn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts the name of a file before the place of an error. Of a long path the part after the last
 * slash is used. Returns `status`. */
tn_status tn__where_in(tn_error *error, tn_status status, const char *file);
/* Returns E_NO_MEMORY, with a message that names the thing to be allocated. */
tn_status tn__no_memory(tn_error *error, const char *what);
/* Returns the failure of a system call with this errno, E_NO_MEMORY or E_IO, with the message
 * "cannot WHAT: REASON". */
tn_status tn__fail_system(tn_error *error, int reason, const char *what);

/* --- checked arithmetic: on overflow these functions return false and leave the result unchanged,
 * or (_sat) return UINT64_MAX --- */
static inline bool tn__add(uint64_t a, uint64_t b, uint64_t *sum) {
    uint64_t result;
    if (__builtin_add_overflow(a, b, &result)) return false;
    *sum = result;
    return true;
}
static inline bool tn__mul(uint64_t a, uint64_t b, uint64_t *product) {
    uint64_t result;
    if (__builtin_mul_overflow(a, b, &result)) return false;
    *product = result;
    return true;
}
static inline bool tn__is_power_of_two(uint64_t value) { return value && !(value & (value - 1)); }
static inline bool tn__align_up(uint64_t value, uint64_t alignment, uint64_t *aligned) {
    tn_assert(tn__is_power_of_two(alignment));
    uint64_t result;
    if (__builtin_add_overflow(value, alignment - 1, &result)) return false;
    *aligned = result & ~(alignment - 1);
    return true;
}
static inline uint64_t tn__add_sat(uint64_t a, uint64_t b) {
    uint64_t result;
    return __builtin_add_overflow(a, b, &result) ? UINT64_MAX : result;
}
static inline uint64_t tn__mul_sat(uint64_t a, uint64_t b) {
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

/* --- memory: all of it is allocated by the one function of the context --- */

/* Copies the fields that the caller gave over the defaults in `options` [size]. Both structs begin
 * with struct_size. If the caller was compiled with fewer fields, the others keep their defaults.
 * `given` may be NULL. */
void tn__options(void *options, size_t size, const void *given);

/* Returns a complete context: a copy of the caller's, which may be NULL or of an older size, with
 * defaults for missing fields. */
tn_context tn__context(const tn_context *context);

/* returns NULL if memory is exhausted; size 0 counts as 1 */
void *tn__alloc(const tn_context *context, size_t size);
/* returns zeroed memory; NULL if memory is exhausted or count * item overflows */
void *tn__alloc_array(const tn_context *context, size_t count, size_t item);
/* Frees a block. `size` must be the size with which the block was allocated. */
void tn__free(const tn_context *context, void *pointer, size_t size);
/* Changes the size of a block as realloc does. If memory is exhausted, it returns NULL, and the old
 * block remains. `pointer` NULL with the old size 0 allocates a new block, and the new size 0 frees
 * the block. */
void *tn__resize(const tn_context *context, void *pointer, size_t old_size, size_t new_size);

/* Grows *data, a pointer to an array of items of `item` bytes, to at least `need` items; the
 * capacity *room is doubled until it is enough. New items are not zeroed. Returns false if memory
 * is exhausted. */
bool tn__reserve(const tn_context *context, void *data, size_t *room, size_t need, size_t item);

/* A bump arena: many small allocations that are freed together. Its memory is zeroed and aligned to
 * 16 bytes. */
typedef struct tn__arena {
    const tn_context *context;
    struct arena_chunk *chunks;
    char *next;
    size_t left;
} tn__arena;
void tn__arena_init(tn__arena *arena, const tn_context *context);
/* returns zeroed memory; NULL if memory is exhausted */
void *tn__arena_alloc(tn__arena *arena, size_t size);
void *tn__arena_array(tn__arena *arena, size_t count, size_t item);
void *tn__arena_copy(tn__arena *arena, const void *bytes, size_t size);
/* copies a text and adds a terminating zero byte */
char *tn__arena_string(tn__arena *arena, const char *text, size_t length);
void tn__arena_release(tn__arena *arena);

/* --- names: strings to numbers, open addressing; keys are borrowed -----------------------------
 */
typedef struct tn__names {
    const tn_context *context;
    struct names_slot *slots;
    size_t room, count;
    /* key of the hash function, so that names in a hostile file cannot be chosen to collide */
    uint64_t key;
} tn__names;
#define TN__NAMES_NONE UINT32_MAX
void tn__names_init(tn__names *names, const tn_context *context);
void tn__names_release(tn__names *names);
/* Adds `text` with its number `value`. If the text exists already, it keeps its number, which
 * *existing receives; otherwise *existing becomes TN__NAMES_NONE. `existing` may be NULL. Returns
 * false if memory is exhausted. */
bool tn__names_add(tn__names *names, const char *text, size_t length, uint32_t value,
                   uint32_t *existing);
uint32_t tn__names_find(const tn__names *names, const char *text, size_t length);

/* Reads a decimal int64 at the front of a text, and moves *at to the first byte after it. Returns
 * false if there is no number, or it does not fit into 64 bits. */
bool tn__take_integer(const char **at, size_t *size, int64_t *value);

/* --- text: a growing string; it remembers the first failure, so one check at the end suffices --
 */
typedef struct tn__text {
    const tn_context *context;
    char *data; /* has a terminating zero byte after the first addition */
    size_t size, room;
    bool failed;
} tn__text;
void tn__text_init(tn__text *text, const tn_context *context);
void tn__text_release(tn__text *text);
void tn__text_add(tn__text *text, const char *bytes, size_t size);
void tn__text_put(tn__text *text, const char *string);
void tn__text_printf(tn__text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reads the code point at the front of a string. Returns the number of its bytes; 0 if they are not
 * valid UTF-8. */
size_t tn__text_code(const char *string, uint32_t *code);
/* Whether a code point is a control character, or a mark that hides or reorders text. */
bool tn__text_unprintable(uint32_t code);
/* Writes a code point as an escape of JSON, such as \u000a, or a pair of them. Returns the
 * length. */
size_t tn__text_escape(uint32_t code, char to[13]);
/* Appends a string. Bytes that are not valid UTF-8 become U+FFFD. */
void tn__text_utf8(tn__text *text, const char *string);
/* Appends a string as a JSON string with quotes. Characters that cannot be printed are escaped, and
 * `<` becomes \u003c, so that the text is safe inside a <script> element. Bytes that are not valid
 * UTF-8 become U+FFFD. */
void tn__text_json(tn__text *text, const char *string);
/* Appends a string for text and attributes of HTML and SVG: escapes & < > " '. Bytes that are not
 * valid UTF-8, control characters other than tab and newline, and U+FFFE and U+FFFF, which XML does
 * not allow, become U+FFFD. */
void tn__text_xml(tn__text *text, const char *string);

/* --- files --- */
/* a whole file in memory: mapped for reading, or read if it cannot be mapped */
typedef struct tn__file {
    const uint8_t *bytes;
    size_t size;
    void *owner;
} tn__file;
tn_status tn__file_map(const char *path, tn__file *file,
                       /* the path "-" or, for example, "-.csv" is standard input */
                       tn_error *error);
/* Maps or reads a whole file as tn__file_map does, but reads at most `most` bytes from a file that
 * is not regular, because /dev/zero and some pipes have no end. If `most` is 0, the limit is
 * TN__FILE_READ_MOST for a pipe, and TN__FILE_DEVICE_MOST for a device, from which files are seldom
 * read. */
#define TN__FILE_READ_MOST ((uint64_t)1 << 30)
#define TN__FILE_DEVICE_MOST ((uint64_t)16 << 20)
tn_status tn__file_map_most(const char *path, uint64_t most, tn__file *file, tn_error *error);
/* Reads a whole file as tn__file_map_most does, but expects text: a zero byte in a file that is not
 * regular is E_INVALID as soon as it is read. */
tn_status tn__file_map_text(const char *path, uint64_t most, tn__file *file, tn_error *error);
void tn__file_unmap(tn__file *file);
/* Maps a file that the file `beside` names, or that belongs to it. `name` is relative to the folder
 * of `beside`, and must stay beneath this folder, even through symbolic links, unless
 * `follow_links` is set. Errors: E_OUTSIDE if it does not stay beneath it. */
tn_status tn__file_map_beneath(const char *beside, const char *name, bool follow_links,
                               tn__file *file, tn_error *error);
/* Opens a file as tn__file_map_beneath does, and returns a descriptor (beneath.c). Returns -1 and
 * sets errno on failure: EXDEV if the name leaves the folder. With O_CREAT, a file is created only
 * in the folder itself. */
int tn__open_beneath(const char *beside, const char *name, bool follow_links, int flags,
                     mode_t mode);
/* Opens `name` beneath the open directory `folder` without the system call openat2, component by
 * component. Returns a descriptor, or -1 and errno. */
int tn__open_walk(int folder, const char *name, int flags);
const char *tn__base_name(const char *path); /* returns the part of a path after its last slash */
tn_status tn__outside(const char *beside, const char *name, tn_error *error); /* E_OUTSIDE */

/* Finds the path and the offset of some bytes of a mapped file, for callers that read these bytes
 * without the mapping. The path exists as long as the mapping. Returns false if the bytes are not
 * in that file, or the file is not mapped. */
bool tn__file_where(const tn__file *file, const void *bytes, uint64_t size, const char **path,
                    uint64_t *offset);
/* Replaces a file: writes a temporary file, flushes it to the disk, and renames it. So `path` is
 * always either the old file or the complete new one. The path "-" writes to standard output; a
 * path that is not a regular file (a pipe, /dev/null) is written directly. */
tn_status tn__file_write(const char *path, const void *bytes, size_t size, tn_error *error);
/* Writes a temporary file, flushes it to the disk, and renames it to `path`, whatever was there
 * before. The file gets these permissions (mode); 0: the usual permissions. */
tn_status tn__file_write_new(const char *path, uint32_t mode, const void *bytes, size_t size,
                             tn_error *error);
/* Returns the permissions (mode) of a file; 0 if there is no file at this path. */
uint32_t tn__file_mode(const char *path);
/* whether `path` ends in `suffix`; compares without regard to case */
bool tn__has_suffix(const char *path, const char *suffix);

/* A file that gets its name only when it is complete (new_file.c). The caller writes to
 * `descriptor`, and flushes it to the disk. */
typedef struct tn__new_file {
    int descriptor, slot;
    const char *path; /* borrowed */
    /* owned buffer for the temporary name of the file, which has this name if `named` is set */
    char *beside;
    size_t room;
    bool named;
} tn__new_file;
/* creates the unfinished file for `path`; returns false on failure, with the reason in errno */
bool tn__new_file_open(tn__new_file *part, const char *path);
/* gives the file its name; the file is closed, even on failure */
bool tn__new_file_keep(tn__new_file *part,
                       /* whether a file that has this name already may be replaced */
                       bool replace);
void tn__new_file_drop(tn__new_file *part); /* closes and removes the file */
/* Removes all unfinished files of this process. For a signal handler that ends the process. */
void tn__new_file_abandon(void);
/* Removes unfinished files for `path` that ended processes have left. */
void tn__new_file_sweep(const char *path);
#define TN__GROUPED_MAX 27u /* room for 2^64 - 1 with commas, and the terminating zero byte */
/* Formats a number with commas: 9633792 as "9,633,792". */
const char *tn__grouped(uint64_t value, char text[TN__GROUPED_MAX]);

/* Whether a text matches a pattern: * matches any text, ? one character, and every other character
 * itself. Unlike in a shell, brackets are literal, because names of tensors contain them. Cost: at
 * worst O(length of the text * length of the pattern). */
bool tn__glob(const char *pattern, const char *text);

/* --- suggestions for mistyped names --- */

/* compares without regard to case, '-', '_' and spaces */
bool tn__alike(const char *a, const char *b);

/* A search for the name that is most similar to an unknown word. Of equally similar names, the
 * first one is found. */
#define TN__NEAR_TEXT 100
typedef struct tn__near {
    /* name: the most similar name so far, owned by the caller of tn__near_try; NULL: no name is
     * similar */
    const char *word, *name;
    uint32_t wrong; /* letters */
} tn__near;
tn__near tn__near_begin(const char *word);
void tn__near_try(tn__near *near, const char *name);
/* Returns "did you mean 'NAME'?" if a similar name was found, and otherwise the text
 * `otherwise`. */
const char *tn__near_ask(const tn__near *near, const char *otherwise, char text[TN__NEAR_TEXT]);
/* Returns "did you mean 'NAME'?" with the most similar of the `count` names of a registry, or the
 * text `otherwise` if no name is similar. */
const char *tn__near_of(const char *word, uint32_t count, const char *(*name)(uint32_t),
                        const char *otherwise, char text[TN__NEAR_TEXT]);

/* --- order --- */
typedef struct tn__sort_item {
    uint64_t key;
    uint32_t id;
} tn__sort_item;
/* Sorts items by key; items with equal keys keep their order. Returns false, with the items
 * unchanged, if memory is exhausted. Cost: O(count). */
bool tn__sort_items(const tn_context *context, tn__sort_item *items, size_t count);
/* Maps a time to a key with the same order. */
static inline uint64_t tn__sort_key(int64_t time) { return (uint64_t)time ^ (uint64_t)1 << 63; }

/* --- random numbers, the clock, hashes --- */
typedef struct tn__random {
    uint64_t state;
} tn__random;
/* splitmix64 (Steele, Lea, Flood 2014): one add, three xor-shifts; any seed is fine. */
static inline uint64_t tn__random_next(tn__random *random) {
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
/* Returns a uniformly distributed number in [0, bound), with a bias of at most bound / 2^64; 0 if
 * bound is 0. */
static inline uint64_t tn__random_below(tn__random *random, uint64_t bound) {
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)tn__random_next(random) * bound) >> 64);
}
double tn__clock_s(void); /* monotonic */
void tn__clock_sleep_until(double time_s);
#define TN__READ_S 100e-6 /* latency of a disk read in seconds, if it was not measured */

/* Extends a hash by `size` bytes. It detects damage, but not attacks. */
uint64_t tn__hash(uint64_t hash, const void *data, size_t size);

#endif
