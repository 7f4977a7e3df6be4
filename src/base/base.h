/* base.h - the functions that every room uses. Depends only on the C library. */
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

/* The same for a function that owns resources and has a `done:` label and a `status`. */
#define TN_TRY_DONE(call)                                                                          \
    do {                                                                                           \
        if ((status = (call)) != TN_OK) goto done;                                                 \
    } while (0)

#define TN_FAIL(error, status, ...) return tn__fail(error, status, __VA_ARGS__)

/* Fills `error` (NULL is fine), `where` left empty; returns `status`. */
tn_status tn__fail(tn_error *error, tn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns `status`, the result of an attempt that wrote its error to `said`, and copies `said` to
 * `error` (NULL is fine). If `said` holds no error, `error` is left as it is. */
tn_status tn__fail_as(tn_error *error, tn_status status, const tn_error *said);
/* Sets error->where if it is still empty; `error` may be NULL. Returns `status`, so that it can
 * stand in a return. */
tn_status tn__where(tn_error *error, tn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* E_NO_MEMORY with a sentence that names what was to be allocated. */
tn_status tn__no_memory(tn_error *error, const char *what);
/* The failure of a system call with this errno: E_NO_MEMORY or E_IO, "cannot WHAT: REASON". */
tn_status tn__fail_system(tn_error *error, int reason, const char *what);

/* --- checked arithmetic: false on overflow, result untouched --- */
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

/* --- memory: everything goes through the context's one allocator --- */

/* Copies the fields that the caller gave over the defaults in `options` [size]. Both begin with
 * their struct_size; a caller that was compiled with fewer fields leaves the others at their
 * defaults. given: may be NULL. */
void tn__options(void *options, size_t size, const void *given);

/* A complete context by value from the caller's, which may be NULL or of an older size. */
tn_context tn__context(const tn_context *context);

/* NULL: out of memory; size 0 counts as 1 */
void *tn__alloc(const tn_context *context, size_t size);
void *tn__alloc_array(const tn_context *context, size_t count, size_t item); /* zeroed; checked */
/* size: as allocated */
void tn__free(const tn_context *context, void *pointer, size_t size);
/* Like realloc: NULL if out of memory, and the old block stays. Sizes above 0. */
void *tn__resize(const tn_context *context, void *pointer, size_t old_size, size_t new_size);

/* Makes room for `need` items in *data (a pointer to an array of `item` bytes each), doubling.
 * *room counts items. New items are not zeroed. */
bool tn__reserve(const tn_context *context, void *data, size_t *room, size_t need, size_t item);

/* A bump arena: many small allocations, freed at once. Zeroed memory, 16-byte aligned. */
typedef struct tn__arena {
    const tn_context *context;
    struct arena_chunk *chunks;
    char *next;
    size_t left;
} tn__arena;
void tn__arena_init(tn__arena *arena, const tn_context *context);
void *tn__arena_alloc(tn__arena *arena, size_t size); /* zeroed; NULL: out of memory */
void *tn__arena_array(tn__arena *arena, size_t count, size_t item);
void *tn__arena_copy(tn__arena *arena, const void *bytes, size_t size);
char *tn__arena_string(tn__arena *arena, const char *text, size_t length); /* adds a NUL */
void tn__arena_release(tn__arena *arena);

/* --- names: strings to numbers, open addressing; keys are borrowed -----------------------------
 */
typedef struct tn__names {
    const tn_context *context;
    struct names_slot *slots;
    size_t room, count;
    uint64_t key; /* key of the hash, so that hostile names cannot cause collisions */
} tn__names;
#define TN__NAMES_NONE UINT32_MAX
void tn__names_init(tn__names *names, const tn_context *context);
void tn__names_release(tn__names *names);
/* Adds `text` -> `value`. If the text exists already, leaves it and sets *existing (may be NULL) to
 * its value, else to TN__NAMES_NONE. False: out of memory. */
bool tn__names_add(tn__names *names, const char *text, size_t length, uint32_t value,
                   uint32_t *existing);
uint32_t tn__names_find(const tn__names *names, const char *text, size_t length);

/* Reads a decimal int64 from the front of a text and steps over it; false: no number, or it does
 * not fit. */
bool tn__take_integer(const char **at, size_t *size, int64_t *value);

/* --- text: a growing string; it remembers the first failure, so one check at the end suffices --
 */
typedef struct tn__text {
    const tn_context *context;
    char *data; /* NUL-terminated after the first addition */
    size_t size, room;
    bool failed;
} tn__text;
void tn__text_init(tn__text *text, const tn_context *context);
void tn__text_release(tn__text *text);
void tn__text_add(tn__text *text, const char *bytes, size_t size);
void tn__text_put(tn__text *text, const char *string);
void tn__text_printf(tn__text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The code point at a NUL-terminated string; returns its bytes, or 0 if they are not UTF-8. */
size_t tn__text_code(const char *string, uint32_t *code);
/* Control characters, and marks that hide or reorder text. */
bool tn__text_unprintable(uint32_t code);
/* The escape of JSON, \u000a or a pair of them, into `to`; returns its length. */
size_t tn__text_escape(uint32_t code, char to[13]);
/* Unchanged, except that bad UTF-8 becomes U+FFFD. */
void tn__text_utf8(tn__text *text, const char *string);
/* A JSON string with quotes; characters that cannot be printed are escaped, and `<` as \u003c, so
 * that it is safe inside a <script>. Bad UTF-8 becomes U+FFFD. */
void tn__text_json(tn__text *text, const char *string);
/* Escapes & < > " ' for HTML and SVG text and attributes; bad UTF-8 becomes U+FFFD. */
void tn__text_xml(tn__text *text, const char *string);

/* --- files --- */
typedef struct tn__file { /* a whole file, mapped read only (or read, if it cannot be mapped) */
    const uint8_t *bytes;
    size_t size;
    void *owner;
} tn__file;
tn_status tn__file_map(const char *path, tn__file *file,
                       tn_error *error); /* "-", "-.csv": standard input */
/* The same; reads at most `most` bytes from a file that is not regular: /dev/zero and some pipes
 * have no end. 0: TN__FILE_READ_MOST from a pipe. A device is no usual place for a file, so it
 * gives TN__FILE_DEVICE_MOST. */
#define TN__FILE_READ_MOST ((uint64_t)1 << 30)
#define TN__FILE_DEVICE_MOST ((uint64_t)16 << 20)
tn_status tn__file_map_most(const char *path, uint64_t most, tn__file *file, tn_error *error);
/* The same for a text: a zero byte in a file that is not regular is E_INVALID as soon as it is
 * read. */
tn_status tn__file_map_text(const char *path, uint64_t most, tn__file *file, tn_error *error);
void tn__file_unmap(tn__file *file);
/* A file that the file `beside` names, or that belongs to it: `name` is relative to the folder of
 * `beside`, and must stay beneath it even through symbolic links, unless `follow_links`. E_OUTSIDE:
 * it does not.
 */
tn_status tn__file_map_beneath(const char *beside, const char *name, bool follow_links,
                               tn__file *file, tn_error *error);
/* beneath.c: the same as a descriptor; -1 and errno, EXDEV if the name leaves the folder. A file is
 * created (O_CREAT) only in the folder itself. */
int tn__open_beneath(const char *beside, const char *name, bool follow_links, int flags,
                     mode_t mode);
/* The implementation without openat2. `folder` is open. */
int tn__open_walk(int folder, const char *name, int flags);
const char *tn__base_name(const char *path); /* the part after its last slash */
tn_status tn__outside(const char *beside, const char *name, tn_error *error); /* E_OUTSIDE */

/* Path and offset of bytes of a mapped file, for callers that read them without the mapping. The
 * path lives as long as the mapping. False: the bytes are not in that file, or it is not mapped. */
bool tn__file_where(const tn__file *file, const void *bytes, uint64_t size, const char **path,
                    uint64_t *offset);
/* Writes to a temporary file, syncs, renames: `path` is the old file or the whole new one, never
 * half. "-" writes to standard output; a path that is not a regular file (a pipe, /dev/null) is
 * written directly. */
tn_status tn__file_write(const char *path, const void *bytes, size_t size, tn_error *error);
/* The same for a new file, with this mode; 0: the usual mode. */
tn_status tn__file_write_new(const char *path, uint32_t mode, const void *bytes, size_t size,
                             tn_error *error);
/* Mode of the file at this path; 0: no file. */
uint32_t tn__file_mode(const char *path);
bool tn__has_suffix(const char *path, const char *suffix); /* ignoring case */

/* new_file.c: a file that gets its name only when it is complete. Write to `descriptor`, and sync
 * it. */
typedef struct tn__new_file {
    int descriptor, slot;
    const char *path; /* borrowed */
    char *beside;     /* its temporary name, if it has one */
    size_t room;
    bool named;
} tn__new_file;
bool tn__new_file_open(tn__new_file *part, const char *path); /* false: see errno */
bool tn__new_file_keep(tn__new_file *part,
                       bool replace);       /* names the file; in either case it is closed */
void tn__new_file_drop(tn__new_file *part); /* nothing is left */
/* Removes every unfinished file of this process; for a signal handler that ends the process. */
void tn__new_file_abandon(void);
/* Removes unfinished files for `path` that were left by ended processes. */
void tn__new_file_sweep(const char *path);
#define TN__GROUPED_MAX 27u /* 2^64 with its commas, and the terminating zero */
/* 9633792 as "9,633,792". */
const char *tn__grouped(uint64_t value, char text[TN__GROUPED_MAX]);

/* Shell-style match with * and ?; linear time. */
bool tn__glob(const char *pattern, const char *text);

/* --- suggestions for mistyped names --- */

bool tn__alike(const char *a, const char *b); /* ignores case, '-', '_' and spaces */

/* Finds the name that is nearest to an unknown word; of equally near ones the first. */
#define TN__NEAR_TEXT 100
typedef struct tn__near {
    const char *word, *name; /* name NULL: none is near; owned by the caller of tn__near_try */
    uint32_t wrong;          /* letters */
} tn__near;
tn__near tn__near_begin(const char *word);
void tn__near_try(tn__near *near, const char *name);
/* "did you mean 'NAME'?", or the text `otherwise`. */
const char *tn__near_ask(const tn__near *near, const char *otherwise, char text[TN__NEAR_TEXT]);
/* The same for the names of a registry. */
const char *tn__near_of(const char *word, uint32_t count, const char *(*name)(uint32_t),
                        const char *otherwise, char text[TN__NEAR_TEXT]);

/* --- order --- */
typedef struct tn__sort_item {
    uint64_t key;
    uint32_t id;
} tn__sort_item;
/* Sorts by key; the order of equal keys is kept. Linear. False: out of memory, and nothing was
 * moved. */
bool tn__sort_items(const tn_context *context, tn__sort_item *items, size_t count);
/* Maps a time to a key with the same order. */
static inline uint64_t tn__sort_key(int64_t time) { return (uint64_t)time ^ (uint64_t)1 << 63; }

/* --- random, clock --- */
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
/* Uniform in [0, bound) up to a bias of bound / 2^64; 0 if bound is 0. */
static inline uint64_t tn__random_below(tn__random *random, uint64_t bound) {
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)tn__random_next(random) * bound) >> 64);
}
double tn__clock_s(void); /* monotonic */
void tn__clock_sleep_until(double time_s);
#define TN__READ_S 100e-6 /* overhead of a disk read, if it was not measured */

/* Continues `hash` over `size` bytes. It detects damage, not attacks. */
uint64_t tn__hash(uint64_t hash, const void *data, size_t size);

#endif
