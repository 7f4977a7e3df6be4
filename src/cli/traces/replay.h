/* replay.h - the results of `tenure replay` and their output: the answer, a picture of the bytes
 * that are reserved after each event, and a memory snapshot. */
#ifndef TN_CLI_REPLAY_H
#define TN_CLI_REPLAY_H

#include <tenure/snapshot.h>

#include "base/base.h"
#include "cli/answer/holders.h"

enum { CLI_REPLAY_COLUMNS = 720, CLI_REPLAY_CURVES_MAX = 65, CLI_REPLAY_POOLS_MAX = 64 };

typedef struct cli_replay_line {
    const char *name;
    bool fits;
    uint64_t peak;
    /* largest value of the events in a column; UINT64_MAX: the pool did not reach them */
    uint64_t most[CLI_REPLAY_COLUMNS];
} cli_replay_line;

typedef struct cli_replay_picture {
    const char *title;
    uint64_t event_count;
    uint32_t line_count;
    cli_replay_line lines[CLI_REPLAY_CURVES_MAX];
} cli_replay_picture;

typedef struct cli_replay_result {
    const char *name;
    bool fits;
    tn_pool_usage usage;
    tn_pool_lesson lesson;
    tn_error failure; /* the reason that the trace does not fit, if `fits` is false */
    cli_holders holders;
    tn_pool *pool; /* the pool, which owns the names in `holders` */
    bool was_played;
    tn_play_answer played; /* result of the execution on a device */
} cli_replay_result;

typedef struct cli_replay {
    const char *path;
    cli_paths outputs;
    const char *pools[CLI_REPLAY_POOLS_MAX]; /* values of --pool as the user gave them */
    /* settings of the pools of the form caching:SETTINGS */
    tn_pool_caching conf[CLI_REPLAY_POOLS_MAX];
    tn_pool_caching caching; /* settings of the pool caching without any: the limit alone */
    bool has_conf[CLI_REPLAY_POOLS_MAX];
    uint32_t pool_count;
    /* values of --capacity and --pages (0: not given), and of --alignment or its default */
    uint64_t capacity, alignment, pages;
    tn_plan_options plan_options;
    bool json;
    tn_context context;
    tn_pool_trace *trace;
    uint32_t device;          /* device of a snapshot; UINT32_MAX: the one with the highest peak */
    tn_snapshot *snapshot;    /* the snapshot that is replayed; NULL: the input is a CSV */
    tn_snapshot_lives *lives; /* owns the strings of `trace`, if it is made from a snapshot */
    const tn_pool_event *events;
    uint64_t event_count;
    const char *play_on; /* the device that executes the trace, or NULL */
    tn_device *play_device;
    bool plays_own; /* true if the trace is also executed with the device's own allocator */
    tn_play_answer own;
    uint64_t *sizes; /* [blocks of the trace] bytes of each block */
    /* [events] bytes that one pool has reserved after each event; NULL without output files */
    uint64_t *reserved;
    cli_replay_picture picture;
    tn_layout layout;
    cli_replay_result results[CLI_REPLAY_POOLS_MAX];
    tn_error *error;
} cli_replay;

/* Returns the largest number of bytes that are requested and not freed at one time. If `live` is
 * not NULL, also sets live[i] to that number after event i. */
uint64_t cli_replay_live_peak(const cli_replay *arguments, uint64_t *live);
/* Prints the answer. */
extern const cli_facts cli_replay_facts;
tn_status cli_replay_print(const cli_replay *arguments);

/* Adds a line to the picture; the first line is drawn as an area. bytes[i] is the value after event
 * i, or UINT64_MAX if the pool did not reach event i. `name` must outlive the picture. */
void cli_replay_curve(cli_replay_picture *picture, const char *name, bool fits,
                      const uint64_t *bytes);
/* Replays the trace in one pool and writes the result as a memory snapshot. */
tn_status cli_replay_snapshot(const tn_pool_trace *trace, const tn_pool_options *options,
                              const char *path, tn_error *error);
/* Writes the picture as SVG. */
tn_status cli_replay_draw(const cli_replay_picture *picture, const char *path, tn_error *error);

#endif
