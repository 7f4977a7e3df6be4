/* timeline.h - what several ranks did at the same time, in one picture.
 *
 *     tn_timeline *line;
 *     tn_error error;
 *     if (tn_timeline_create(NULL, "lm.onnx", 2, &line, &error) ||
 *         tn_timeline_rank(line, 1, "data 1", 4096, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     printf("%u ranks\n", tn_timeline_ranks(line)); // 2 ranks
 *     // of each: tn_timeline_add with the trace of a run, or of a simulation of it
 *     tn_timeline_destroy(line);
 *
 * Each rank has lanes: what it computes, what it says to others, copies beside them; below them the
 * bytes of its arena that live. What was predicted stands above what was measured, each from its
 * own beginning, to one scale. Ranks that are other processes hand over what they did as bytes.
 *
 * Units: bytes, seconds.
 * Threads: one at a time.
 */
#ifndef TENURE_TIMELINE_H
#define TENURE_TIMELINE_H

#include <tenure/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_timeline tn_timeline;

typedef enum tn_timeline_kind {
    TN_TIMELINE_PREDICTED, /* tn_simulate */
    TN_TIMELINE_MEASURED,  /* a run */
    TN_TIMELINE_KINDS
} tn_timeline_kind;

/* input  what is told above the picture: the model's name. Copied
 * ranks  at least 1
 * Errors: E_INVALID, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_create(const tn_context *context, const char *input,
                                               uint32_t ranks, tn_timeline **line, tn_error *error);
TN_API void tn_timeline_destroy(tn_timeline *line); /* NULL is fine */
TN_API uint32_t tn_timeline_ranks(const tn_timeline *line);

/* What a rank is called, and the bytes that its plan lets live at most. `label` is copied; NULL: by
 * its number alone. Errors: E_INVALID (there is no such rank), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_rank(tn_timeline *line, uint32_t rank, const char *label,
                                             uint64_t planned_peak, tn_error *error);
/* One run of its program, in the place of what was there of that kind.
 *
 * occupancy  of the program that ran; not needed after the call
 * run        number of the run in the trace; its steps alone are taken
 * shift_s    is added to all times: to the clock of rank 0 (tn_world_clock)
 * Errors: E_INVALID (no such rank; no step of that run, or one that the program has not),
 * E_NO_MEMORY. Cost: O(events + instructions + operands). */
TN_API TN_CHECKED tn_status tn_timeline_add(tn_timeline *line, uint32_t rank, tn_timeline_kind kind,
                                            const tn_occupancy *occupancy, const tn_trace *trace,
                                            uint32_t run, double shift_s, tn_error *error);

/* What was predicted of each rank by itself takes the others to be always ready. This has all of
 * them wait for each other, as a run does: a call begins when all who make it have come, and is
 * told from where a rank came to it. Where anything is not known (control flow, calls that never
 * meet) it all stays as it was. Errors: E_NO_MEMORY. Cost: O(calls x ranks + instructions log
 * instructions). */
TN_API TN_CHECKED tn_status tn_timeline_meet(tn_timeline *line, tn_error *error);

/* A rank as bytes, for another process of the same version and machine type, and from them. `bytes`
 * is the caller's; tn_timeline_release. Errors: E_INVALID (bytes that nobody packed so, no such
 * rank), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_pack(const tn_timeline *line, uint32_t rank, void **bytes,
                                             uint64_t *size, tn_error *error);
TN_API TN_CHECKED tn_status tn_timeline_unpack(tn_timeline *line, uint32_t rank, const void *bytes,
                                               uint64_t size, tn_error *error);
TN_API void tn_timeline_release(const tn_timeline *line, void *bytes, uint64_t size);

/* Seconds of what one rank did. */
typedef struct tn_timeline_sums {
    double span_s;    /* from its first beginning to its last end */
    double compute_s; /* in which it computed something; */
    double talk_s;    /* in which it was in a call of others; */
    double hidden_s;  /* of these, in which it computed as well */
    double idle_s;    /* from the first beginning on any rank to the last end, in which this one
                       * computed nothing: of a pipeline, its bubble */
    uint64_t peak;    /* the most bytes that lived */
    uint64_t sent;    /* bytes of its calls, each counted once */
    uint32_t talks;   /* that there were */
} tn_timeline_sums;
/* Zeroes where there is nothing of that kind, or no such rank. Cost: O(n log n). */
TN_API tn_timeline_sums tn_timeline_measure(const tn_timeline *line, uint32_t rank,
                                            tn_timeline_kind kind);

/* Writes the picture; the suffix picks what: .html (a page that opens by itself), .svg, .json. The
 * file appears whole or not at all. Errors: E_UNSUPPORTED (suffix), E_IO, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_write(const tn_timeline *line, const char *path,
                                              tn_error *error);
/* Whether it can write a file of that name. */
TN_API bool tn_timeline_writes(const char *path);

#ifdef __cplusplus
}
#endif
#endif
