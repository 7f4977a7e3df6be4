/* evict.h - a budget of bytes while nobody knows what comes next: policies that evict.
 *
 *     for (uint32_t i = 0; i < tn_evict_policy_count(); i++)
 *         printf("%-10s %s\n", tn_evict_policy_name(i), tn_evict_policy_summary(i));
 *
 * When memory is full and a value is to be made, others go: they are dropped and computed again
 * when somebody asks for them, or copied to the host and back. Which of them goes is the policy's
 * choice, made from what has been seen so far and nothing else.
 *
 * Units: bytes; costs in the unit of whoever computes (nanoseconds in logs).
 */
#ifndef TENURE_EVICT_H
#define TENURE_EVICT_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- policies: one file each ---------------------------------------------------------- */

TN_API uint32_t tn_evict_policy_count(void);
/* index < tn_evict_policy_count(). Static texts. */
TN_API const char *tn_evict_policy_name(uint32_t index);    /* what people type */
TN_API const char *tn_evict_policy_summary(uint32_t index); /* one line */
TN_API const char *tn_evict_policy_source(uint32_t index);  /* where the idea comes from */

/* What was done for the budget's sake, since the beginning. */
typedef struct tn_evict_counts {
    uint64_t plain_cost, plain_ops;       /* first runs of operators */
    uint64_t remade_cost, remade_ops;     /* runs again */
    uint64_t drop_count, dropped_bytes;   /* evictions to be computed again */
    uint64_t swap_count, swapped_bytes;   /* evictions to the host */
    uint64_t fetch_count, fetched_bytes;  /* copies back from the host */
    uint64_t swap_cost;                   /* of copies both ways, by the link's rate */
    uint64_t move_count, moved_bytes;     /* by compaction */
    uint64_t move_cost;                   /* by the rate of moves */
    uint64_t search_count;                /* times that a policy was asked */
    uint64_t evaluation_count;            /* candidates that it looked at */
    uint64_t access_count;                /* records touched, as DTR's authors count them */
    double search_s;                      /* seconds in policies, when they are timed */
    uint64_t bytes, peak_bytes;           /* resident, now and at most; scratch included */
    uint64_t reach_bytes;                 /* with addresses: the highest byte in use, ever */
    uint64_t hole_count;                  /* allocations for which free bytes would have done, */
    uint64_t hole_bytes;                  /* and addresses did not; bytes evicted more for it */
    uint64_t host_bytes, host_peak_bytes; /* of copies on the host */
    uint64_t restart_count;               /* times that locked operands were given up for room */
} tn_evict_counts;

#ifdef __cplusplus
}
#endif
#endif
