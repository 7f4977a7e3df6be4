/* report.h - `tenure report`: the results for one device of a snapshot, and their output. */
#ifndef TN_CLI_REPORT_H
#define TN_CLI_REPORT_H

#include "base/base.h"
#include "cli/answer/facts.h"

enum { CLI_REPORT_MOMENTS = 10, CLI_REPORT_POOLS = 4, CLI_REPORT_OUTPUTS = 8 };

/* A moment that the report describes. */
typedef struct cli_report_moment {
    char name[48]; /* "at the peak", "now", "out of memory 1 of 2" */
    uint64_t time;
    const tn_snapshot_event *oom; /* NULL: no out-of-memory event */
} cli_report_moment;

typedef struct cli_report_pool {
    const char *name; /* name of the pool, or "planned" for a plan of all live ranges */
    bool done;
    uint64_t reserved;   /* at most */
    const char *planner; /* of the plan */
    const char *verdict; /* the same */
    tn_error failure;    /* if it failed */
} cli_report_pool;

typedef struct cli_report_device {
    uint32_t device;
    tn_snapshot_lives *lives;
    cli_report_moment moments[CLI_REPORT_MOMENTS];
    uint32_t moment_count;
    cli_report_pool pools[CLI_REPORT_POOLS];
    uint32_t pool_count; /* 0: not requested */
} cli_report_device;

typedef struct cli_report {
    const char *path;
    const char *module; /* of a plan of another tool; NULL: the default */
    const char *outputs[CLI_REPORT_OUTPUTS];
    uint32_t output_count, top, device; /* device UINT32_MAX: all */
    uint64_t bars;                      /* most bars in a picture */
    double timeout_s;
    bool json, no_pools;
    tn_context context;
    tn_snapshot *snapshot;
    cli_report_device *devices; /* [device_count], the devices with any memory */
    uint32_t device_count;
    tn_error *error;
} cli_report;

/* report_answer.c prints the answer. */
extern const cli_facts cli_report_facts;
tn_status cli_report_print(const cli_report *report);
/* The same as a table, into an answer that the caller releases. */
void cli_report_add_table(const cli_report *report, cli_answer *answer);
/* report_picture.c: draws the blocks over time at their addresses, to every requested file. Sets
 * the number of smallest blocks that were left out. */
tn_status cli_report_draw(const cli_report *report, const cli_report_device *device,
                          uint64_t *left_out);

#endif
