/* foreign.h - reads memory plans that other tools wrote: XLA's dumps and ExecuTorch's .pte files.
 *
 *     tn_foreign *foreign;
 *     tn_error error;
 *     if (tn_foreign_load("examples/foreign/xla", NULL, &foreign, &error) ||
 *         tn_foreign_verify(foreign, NULL, &error)) // no two values share bytes at the same time
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message),
 *                tn_status_exit_code(error.status);
 *     const tn_foreign_facts *facts = tn_foreign_facts_of(foreign);
 *     printf("%s: %llu bytes, %llu live\n", facts->tool, (unsigned long long)facts->planned,
 *            (unsigned long long)facts->live);
 *     tn_foreign_destroy(foreign);
 *
 * XLA: a folder of `--xla_dump_to`, or one `*-buffer-assignment.txt` in it. The lists of live
 * ranges and the text of the module are read from the files next to it. ExecuTorch: a .pte file;
 * the plan in it is the offset of each tensor; live ranges are computed from its instructions.
 *
 * A value is an array of the other tool's program. It has a live range of steps and a place in an
 * arena (XLA: an allocation; ExecuTorch: a memory). Only some arenas are planned: those in which
 * the other tool chose the offsets (XLA: preallocated-temp). Values that share bytes on purpose,
 * because an operator works in place or a tensor is a view, are joined into one buffer of the
 * problem.
 *
 * Units: bytes; steps count the instructions of the schedule, intervals are half open.
 * Threads: any number of threads may read one plan.
 */
#ifndef TENURE_FOREIGN_H
#define TENURE_FOREIGN_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/foreign.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_foreign tn_foreign;

/* What an arena is used for, in the form X(NAME, "word"). */
#define TN_FOREIGN_USE_TABLE(X)                                                                    \
    X(PLANNED, "planned")                                                                          \
    X(PARAMETER, "parameter")                                                                      \
    X(DONATED, "donated parameter")                                                                \
    X(OUTPUT, "output")                                                                            \
    X(CONSTANT, "constant")                                                                        \
    X(THREAD_LOCAL, "thread-local")                                                                \
    X(OTHER, "other")
typedef enum tn_foreign_use {
#define TN_FOREIGN_USE(name, word) TN_FOREIGN_##name,
    TN_FOREIGN_USE_TABLE(TN_FOREIGN_USE)
#undef TN_FOREIGN_USE
        TN_FOREIGN_USE_COUNT
} tn_foreign_use;
TN_API const char *tn_foreign_use_name(uint32_t use);

typedef struct tn_foreign_options {
    size_t struct_size;
    /* Name or number of the module of a dump, or name of the method of a .pte file. NULL: the
     * module with the most planned bytes, or the first method. */
    const char *module;
    const tn_context *context;
} tn_foreign_options;
#define TN_FOREIGN_OPTIONS_INIT                                                                    \
    TN_INIT(tn_foreign_options, TN_SET(struct_size, sizeof(tn_foreign_options)))

typedef struct tn_foreign_arena {
    const char *name; /* name of the arena: "allocation 73", "memory 1" */
    uint64_t size;
    uint64_t
        alignment; /* the largest power of two that divides all its offsets, up to 512 in XLA and
                         * 16 in ExecuTorch */
    uint32_t use;  /* use of the arena, a tn_foreign_use */
    /* for a planned arena: the most bytes that are live at once, without alignment */
    uint64_t live;
    int64_t step; /* for a planned arena: the first step with `live` live bytes */
    /* for a planned arena: lower bound; no layout with this alignment takes fewer bytes */
    uint64_t bound;
} tn_foreign_arena;

typedef struct tn_foreign_value {
    const char *name; /* name of the value: "loop_add_fusion.12{}", "value 6"; unique */
    const char *op;   /* type of the instruction that defines the value; "" if not known */
    /* the operator of the user's program that the value belongs to, with file and line; "" if not
     * known */
    const char *source;
    uint64_t size, offset;
    int64_t first, last; /* live range of the value: [first, last) */
    uint32_t arena;
    /* number of the value's buffer in tn_foreign_problem; UINT32_MAX: the value is not in a planned
     * arena, or has 0 bytes */
    uint32_t buffer;
    /* whether the files list no live range for the value, so that it counts as live in all steps */
    bool has_no_life;
} tn_foreign_value;

typedef struct tn_foreign_facts {
    const char *tool;   /* name of the other tool: "XLA", "ExecuTorch" */
    const char *form;   /* the variant of the format that was read */
    const char *module; /* name of the module or method */
    uint32_t modules;   /* number of modules or methods in the folder or file */
    uint32_t arena_count, value_count, step_count;
    uint32_t buffer_count; /* number of buffers in tn_foreign_problem */
    uint32_t joined; /* number of values at the place of an earlier value: in place, views, loops */
    /* number of values in `joined` made by an instruction that reads the earlier value at that
     * place; only for XLA with the module's text, otherwise 0 */
    uint32_t joined_seen;
    uint32_t without_life;                /* number of values without a live range */
    uint32_t lives_alone;                 /* number of live ranges without a value */
    bool has_lives;                       /* whether the files have live ranges */
    uint64_t bytes[TN_FOREIGN_USE_COUNT]; /* bytes of the arenas, by use */
    uint64_t planned;                     /* bytes[TN_FOREIGN_PLANNED] */
    uint64_t live, bound;                 /* sums of `live` and `bound` over the planned arenas */
    /* why the file does not show whether a plan without conflicts is valid; NULL: it shows it */
    const char *doubt;
} tn_foreign_facts;

/* Whether a path can be a plan of another tool: a .pte file, a `*-buffer-assignment.txt`, or a
 * folder with a file `module_*` of a dump. */
TN_API bool tn_foreign_recognises(const char *path);
/* Reads a plan.
 *
 * Errors: E_IO; E_INVALID with file and line or byte (truncated, a value outside its arena, a name
 * or live range that is given twice, numbers out of range); E_UNSUPPORTED (a version or a field
 * that is not known; the message names it); E_UNKNOWN (no such module); E_OUTSIDE (a symbolic link
 * leads out of the folder); E_NO_MEMORY. Cost: O(size of the files log values). */
TN_API TN_CHECKED tn_status tn_foreign_load(const char *path, const tn_foreign_options *options,
                                            tn_foreign **foreign, tn_error *error);
TN_API void tn_foreign_destroy(tn_foreign *foreign); /* Destroys a plan; NULL has no effect. */

/* Describe a plan. The results of these calls are valid until the plan is destroyed. */
TN_API const tn_foreign_facts *tn_foreign_facts_of(const tn_foreign *foreign);
TN_API const tn_foreign_arena *tn_foreign_arenas(const tn_foreign *foreign, uint32_t *count);
TN_API const tn_foreign_value *tn_foreign_values(const tn_foreign *foreign, uint32_t *count);
/* Returns the name of a step's instruction: "fusion.12", "aten::add.out"; "" after the last
 * step. */
TN_API const char *tn_foreign_step(const tn_foreign *foreign, int64_t step);

/* Makes a problem with the planned arenas as banks, and a buffer for each set of joined values.
 * `offsets` (may be NULL) receives the offsets of the other tool; release them with
 * tn_offsets_release and the number of buffers. Errors: E_UNSUPPORTED (the files have no live
 * ranges), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_foreign_problem(const tn_foreign *foreign, tn_problem **problem,
                                               uint64_t **offsets, tn_error *error);

/* Two values that share bytes [lo, hi) of an arena at a step. */
typedef struct tn_foreign_conflict {
    uint32_t a, b, arena;
    int64_t step;
    uint64_t lo, hi;
} tn_foreign_conflict;

/* Checks all arenas of the plan, not only the planned ones. Two values at one offset may meet if
 * one ends at the step in which the other begins, because an operator may work in place. In
 * ExecuTorch a view may also begin before the value that it views ends.
 *
 * conflict  out, may be NULL: the first conflict in time, then by byte
 *
 * Errors: E_CONFLICT (the message names both values), E_UNSUPPORTED (the files have no live ranges,
 * or `doubt` of tn_foreign_facts is set), E_NO_MEMORY. Cost: O(n log n) for n values. */
TN_API TN_CHECKED tn_status tn_foreign_verify(const tn_foreign *foreign,
                                              tn_foreign_conflict *conflict, tn_error *error);

/* Lists the values of an arena that occupy memory at a step, the largest first, one for each
 * buffer. Fills values[room] with their numbers and returns the number of all; returns 0 also if
 * memory runs out. */
TN_API uint32_t tn_foreign_holders(const tn_foreign *foreign, uint32_t arena, int64_t step,
                                   uint32_t *values, uint32_t room);

/* Writes the .pte file again with the offsets of a layout of tn_foreign_problem. Only the words of
 * offsets and of memory sizes change. FlatBuffers omit an offset of 0; a tensor without a stored
 * offset gets a new record after the program, and the segments move by whole pages. The new file is
 * read again and compared before it is written. The file is replaced atomically. Errors:
 * E_UNSUPPORTED (not a .pte file), E_CONFLICT (an invalid layout; or the old plan is not valid, so
 * that its offsets do not show which values are views), E_INVALID (records of the file overlap),
 * E_IO, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_foreign_rewrite(const tn_foreign *foreign, const tn_layout *layout,
                                               const char *path, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
