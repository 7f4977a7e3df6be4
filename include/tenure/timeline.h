/* timeline.h - draws what several ranks did at the same time, in one picture.
 *
 *     tn_timeline *line;
 *     tn_error error;
 *     if (tn_timeline_create(NULL, "lm.onnx", 2, &line, &error) ||
 *         tn_timeline_rank(line, 1, "data 1", 4096, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     printf("%u ranks\n", tn_timeline_ranks(line)); // 2 ranks
 *     // for each rank: tn_timeline_add with the trace of a run or of a simulation
 *     tn_timeline_destroy(line);
 *
 * Each rank has lanes for computation, communication and copies, and below them the live bytes of
 * its arena. The predicted run is drawn above the measured one, each from its own start, to one
 * scale. Ranks in other processes send their part as bytes (tn_timeline_pack).
 *
 * Units: bytes, seconds.
 * Threads: one thread at a time.
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

/* Creates a timeline.
 *
 * input  the title of the picture: the model's name. Copied
 * ranks  at least 1
 *
 * Errors: E_INVALID, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_create(const tn_context *context, const char *input,
                                               uint32_t ranks, tn_timeline **line, tn_error *error);
TN_API void tn_timeline_destroy(tn_timeline *line); /* NULL is fine */
TN_API uint32_t tn_timeline_ranks(const tn_timeline *line);

/* Sets the label of a rank and the peak of live bytes in its plan. `label` is copied; NULL: only
 * its number. Errors: E_INVALID (no such rank), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_rank(tn_timeline *line, uint32_t rank, const char *label,
                                             uint64_t planned_peak, tn_error *error);
/* Adds one run of a rank's program; it replaces an earlier one of that kind.
 *
 * occupancy  of the program that ran; not needed after the call
 * run        number of the run in the trace; only its steps are used
 * shift_s    added to all times, to convert them to the clock of rank 0 (tn_world_clock)
 *
 * Errors: E_INVALID (no such rank; no step of that run, or a step outside the program),
 * E_NO_MEMORY. Cost: O(events + instructions + operands). */
TN_API TN_CHECKED tn_status tn_timeline_add(tn_timeline *line, uint32_t rank, tn_timeline_kind kind,
                                            const tn_occupancy *occupancy, const tn_trace *trace,
                                            uint32_t run, double shift_s, tn_error *error);

/* Makes the predictions of all ranks consistent. A prediction of one rank assumes that the others
 * are always ready; after this call ranks wait for each other as in a run: a collective begins when
 * its last rank arrives, and is drawn from the arrival of each rank. Nothing changes if something
 * is unknown (control flow, calls that never match). Errors: E_NO_MEMORY. Cost: O(calls x ranks +
 * instructions log instructions). */
TN_API TN_CHECKED tn_status tn_timeline_meet(tn_timeline *line, tn_error *error);

/* Converts a rank to bytes and back, for another process of the same version and machine type. The
 * caller owns `bytes` and releases them with tn_timeline_release. Errors: E_INVALID (bytes that
 * tn_timeline_pack did not make, no such rank), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_pack(const tn_timeline *line, uint32_t rank, void **bytes,
                                             uint64_t *size, tn_error *error);
TN_API TN_CHECKED tn_status tn_timeline_unpack(tn_timeline *line, uint32_t rank, const void *bytes,
                                               uint64_t size, tn_error *error);
TN_API void tn_timeline_release(const tn_timeline *line, void *bytes, uint64_t size);

/* Times of one rank, in seconds, and its bytes. */
typedef struct tn_timeline_sums {
    double span_s;    /* from its first start to its last end */
    double compute_s; /* computing */
    double talk_s;    /* in communication */
    double hidden_s;  /* the part of talk_s in which it also computed */
    double idle_s;    /* not computing, between the first start and the last end on any rank: the
                       * bubble of a pipeline */
    uint64_t peak;    /* peak of live bytes */
    uint64_t sent;    /* bytes of its communication calls, each counted once */
    uint32_t talks;   /* number of communication calls */
} tn_timeline_sums;
/* Returns zeros for an unknown rank or an empty kind. Cost: O(n log n). */
TN_API tn_timeline_sums tn_timeline_measure(const tn_timeline *line, uint32_t rank,
                                            tn_timeline_kind kind);

/* Writes the picture. The suffix selects the format: .html (a self-contained page), .svg, .json.
 * The file is replaced atomically. Errors: E_UNSUPPORTED (suffix), E_IO, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_write(const tn_timeline *line, const char *path,
                                              tn_error *error);
/* Whether tn_timeline_write supports a file of that name. */
TN_API bool tn_timeline_writes(const char *path);

#ifdef __cplusplus
}
#endif
#endif
