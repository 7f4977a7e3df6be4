/* report.h - the results of `tenure report` for each device of a snapshot, and their output. */
#ifndef TN_CLI_REPORT_H
#define TN_CLI_REPORT_H

#include "base/base.h"
#include "cli/answer/facts.h"

enum { CLI_REPORT_MOMENTS = 10, CLI_REPORT_POOLS = 4, CLI_REPORT_OUTPUTS = 8 };

/* A moment that the report describes, such as the peak. */
typedef struct cli_report_moment {
    /* the moment in words: "at the peak", "now" or, for example, "out of memory 1 of 2" */
    char name[48];
    uint64_t time;
    /* the out-of-memory event at this moment; NULL: it is another moment */
    const tn_snapshot_event *oom;
} cli_report_moment;

typedef struct cli_report_pool {
    const char *name; /* name of the pool, or "planned" for a plan of all live ranges */
    bool done;
    uint64_t reserved;   /* largest number of bytes that the pool reserved */
    const char *planner; /* name of the planner of a plan */
    const char *verdict; /* name of the verdict of a plan */
    tn_error failure;    /* error that ended the simulation, if `done` is false */
} cli_report_pool;

typedef struct cli_report_device {
    uint32_t device;
    tn_snapshot_lives *lives;
    cli_report_moment moments[CLI_REPORT_MOMENTS];
    uint32_t moment_count;
    cli_report_pool pools[CLI_REPORT_POOLS];
    uint32_t pool_count; /* number of simulated pools; 0: not requested, or impossible */
} cli_report_device;

typedef struct cli_report {
    const char *path;
    /* name of the module in a plan of another tool; NULL: the default module */
    const char *module;
    const char *outputs[CLI_REPORT_OUTPUTS];
    uint32_t output_count, top, device; /* `device` is UINT32_MAX for all devices */
    uint64_t bars;                      /* largest number of bars in a picture */
    double timeout_s;
    bool json, no_pools;
    tn_context context;
    tn_snapshot *snapshot;
    cli_report_device *devices; /* [device_count] the devices that have memory */
    uint32_t device_count;
    tn_error *error;
} cli_report;

/* The functions below are in report_answer.c, which prints the answer. */
extern const cli_facts cli_report_facts;
tn_status cli_report_print(const cli_report *report);
/* Writes the answer as a table into `answer`, which the caller releases. */
void cli_report_add_table(const cli_report *report, cli_answer *answer);
/* report_picture.c: draws the blocks of a device over time at their addresses, to every requested
 * file. Sets *left_out to the number of blocks that are not drawn, which are the smallest ones. */
tn_status cli_report_draw(const cli_report *report, const cli_report_device *device,
                          uint64_t *left_out);

#endif
