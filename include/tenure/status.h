/* status.h - the types that every call shares: outcomes, error details, context, sizes.
 *
 *     uint64_t bytes;
 *     tn_error error;
 *     char text[TN_SIZE_TEXT_MAX];
 *     if (tn_size_parse("96KiB", &bytes, &error) != TN_OK)
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     puts(tn_size_format(bytes, text)); // 96.0 KiB (98,304 bytes)
 *
 * A call that can fail returns a tn_status and takes a tn_error * as its last argument (NULL if the
 * status alone is enough). On failure the outputs are unchanged. The library never prints, exits,
 * or aborts on bad input.
 * Two tiers: a program that is built with the stable headers (status.h, graph.h, plan.h, run.h,
 * fit.h, estimate.h, report.h, pool.h) runs with every later library of the same soname. The other
 * headers may change in every release; they need `#define TENURE_EXPERIMENTAL`.
 *
 * Structs of the stable headers grow without breaking programs:
 *
 * options  begin with `struct_size`, which TN_*_INIT sets, and grow at their end
 * results  and other structs of the caller end in `spare`, from which new fields take words. The
 *          caller leaves these words 0 in inputs. The library sets them to 0 in results: in a field
 *          that is newer than the library, 0 means "not known"
 * records  tn_tensor, tn_op, tn_block and tn_hardware are made by the library alone and grow at
 *          their end. Programs read them by pointer and do not rely on their size
 * others   never change
 *
 * tools/abi-check compares the headers with include/abi.txt.
 *
 * Threads: any number of threads may use everything here at once.
 */
#ifndef TENURE_STATUS_H
#define TENURE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#define TN_CHECKED __attribute__((warn_unused_result))
#else
#define TN_API
#define TN_CHECKED
#endif

/* The default of an options struct, `tn_x_options options = TN_X_OPTIONS_INIT;`, from one list of
 * fields. It uses designated initialisers in C, and assignments in C++, which has designated
 * initialisers only since C++20. Fields that are not in the list are 0. */
/* clang-format off */
#ifdef __cplusplus
#define TN_INIT(type, fields) ([]() -> type { type tn_init_ = type(); fields return tn_init_; }())
#define TN_SET(field, value) tn_init_.field = value;
#else
#define TN_INIT(type, fields) { fields }
#define TN_SET(field, value) .field = value,
#endif
/* clang-format on */

/* The outcomes of calls: X(name, exit status of `tenure`, sentence).
 * E_INFEASIBLE is a proof; E_STOPPED means that a limit ended the search without an answer. */
/* clang-format off */
#define TN_STATUS_TABLE(X)                                                                     \
    X(OK,            0, "done")                                                                \
    X(E_INFEASIBLE,  1, "no layout exists within the capacity")                                \
    X(E_CONFLICT,    1, "the plan is not valid: two buffers meet, or one is out of place")     \
    X(E_EXHAUSTED,   1, "an allocation does not fit in its pool")                              \
    X(E_INVALID,     2, "the argument or the input is not valid")                              \
    X(E_UNKNOWN,     2, "there is nothing of that name")                                       \
    X(E_UNSUPPORTED, 2, "this build or this planner cannot do that")                           \
    X(E_IO,          2, "a file or a device cannot be read or written")                                    \
    X(E_STOPPED,     3, "stopped by a limit before there was any answer")                      \
    X(E_NO_MEMORY,   4, "out of memory")                                                       \
    X(E_INTERNAL,    4, "an error in Tenure itself; please report it")         \
    X(E_OUTSIDE,     2, "a symbolic link leads out of the folder of the file that names it")
/* clang-format on */

typedef enum tn_status {
#define TN_X(name, exit_status, sentence) TN_##name,
    TN_STATUS_TABLE(TN_X)
#undef TN_X
} tn_status;

/* The details of a failure. The caller owns the struct; it contains no pointers. A message names a
 * setting by its field, or by the function that takes it, between backticks: "`dims` N: no
 * dimension has that name". The command `tenure` prints its own option instead. */
typedef struct tn_error {
    tn_status status;
    char message[400]; /* one sentence in UTF-8: what is wrong, then what to do */
    /* the place of the failure: "buffers.csv:17", "model.onnx: node 'conv1'"; "" if there is no
     * place */
    char where[200];
} tn_error;

TN_API const char *tn_status_name(tn_status status); /* "E_INFEASIBLE" */
/* Returns the sentence of an outcome, never NULL. */
TN_API const char *tn_status_message(tn_status status);
TN_API int tn_status_exit_code(tn_status status);

/* --- context ------------------------------------------------------------------------ */

/* A function that allocates, resizes and frees memory (like Lua's lua_Alloc).
 *
 * resize(self, pointer, old, new, alignment): to allocate, `pointer` is NULL and `old` is 0; to
 * free, `new` is 0, and the function returns NULL. The function returns NULL if memory runs out;
 * the old block then stays valid. `alignment` is a power of two, at most 4096. The function must be
 * thread-safe if a call of the library uses several threads.
 */
typedef struct tn_allocator {
    void *(*resize)(void *self, void *pointer, size_t old_size, size_t new_size, size_t alignment);
    void *self;
} tn_allocator;

/* Services that the caller provides to the library. In every field 0 means the default. */
typedef struct tn_context {
    size_t struct_size;     /* sizeof(tn_context) */
    tn_allocator allocator; /* the caller's allocator; if its `resize` is NULL, malloc is used */
    void *self;             /* passed to the callbacks log, progress and found */
    /* receives a message of one line, without a newline; NULL: messages are dropped */
    void (*log)(void *self, const char *message);
    /* Called regularly by long operations, from the calling thread; `total` is 0 if it is not
     * known. If it returns false, the operation is cancelled: the call then ends with E_STOPPED, or
     * with its best result so far. */
    bool (*progress)(void *self, const char *stage, uint64_t done, uint64_t total);
    /* maximum number of bytes that are read from a pipe or a device; 0: 1 GiB from a pipe, 16 MiB
     * from a device */
    uint64_t read_limit;
    /* Called just before `progress`, with the best result and the proved bound so far: bytes in the
     * stage "plan", time in the stage "fit". `best` UINT64_MAX: no result yet; `bound` 0: no
     * bound. */
    void (*found)(void *self, const char *stage, uint64_t best, uint64_t bound);
    /* Files that a model, an index, a checkpoint or a table names are opened below the folder of
     * the naming file. A symbolic link out of that folder fails with E_OUTSIDE. true: such links
     * are followed, which caches need that keep the data elsewhere. */
    bool follow_links;
} tn_context;

#define TN_CONTEXT_INIT TN_INIT(tn_context, TN_SET(struct_size, sizeof(tn_context)))

/* --- sizes -------------------------------------------------------------------------- */

/* a size that cannot be known; the library never replaces it by a guess */
#define TN_SIZE_UNKNOWN UINT64_MAX
#define TN_SIZE_TEXT_MAX 64

/* Parses a size: "4096", "96KiB", "1.5 GiB", "24GB" (decimal units are powers of 1000). A bare K, M
 * or G is an error; the message names its two possible meanings. Errors: E_INVALID (syntax,
 * overflow, not a whole number of bytes). */
TN_API TN_CHECKED tn_status tn_size_parse(const char *text, uint64_t *bytes, tn_error *error);

/* Writes a size such as "10.6 MiB (11,112,448 bytes)" into `text` and returns `text`. */
TN_API const char *tn_size_format(uint64_t bytes, char text[TN_SIZE_TEXT_MAX]);

/* Returns the version, such as "0.1.0"; a static string. */
TN_API const char *tn_version(void);

#ifdef __cplusplus
}
#endif
#endif
