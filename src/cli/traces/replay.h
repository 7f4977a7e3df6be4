/* replay.h - the results of `tenure replay` and their output: the answer, a picture of the bytes
 * reserved after each event, and a memory snapshot. */
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
    uint64_t most[CLI_REPLAY_COLUMNS]; /* the largest value in a column; UINT64_MAX: not reached */
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
    tn_error failure; /* if it does not fit */
    cli_holders holders;
    tn_pool *pool; /* owns the labels of the holders */
    bool was_played;
    tn_play_answer played; /* on the device */
} cli_replay_result;

typedef struct cli_replay {
    const char *path;
    cli_paths outputs;
    const char *pools[CLI_REPLAY_POOLS_MAX];    /* as given */
    tn_pool_caching conf[CLI_REPLAY_POOLS_MAX]; /* of caching:SETTINGS */
    bool has_conf[CLI_REPLAY_POOLS_MAX];
    uint32_t pool_count;
    uint64_t capacity, alignment, pages; /* 0: unknown */
    tn_plan_options plan_options;
    bool json;
    tn_context context;
    tn_pool_trace *trace;
    uint32_t device;          /* of a snapshot; UINT32_MAX: the one with the highest peak */
    tn_snapshot *snapshot;    /* NULL: the input is a CSV */
    tn_snapshot_lives *lives; /* own the strings of its trace */
    const tn_pool_event *events;
    uint64_t event_count;
    const char *play_on; /* the device that executes the trace, or NULL */
    tn_device *play_device;
    bool plays_own; /* also without a pool */
    tn_play_answer own;
    uint64_t *sizes;    /* [blocks] */
    uint64_t *reserved; /* [events], of one pool; with `outputs` */
    cli_replay_picture picture;
    tn_layout layout;
    cli_replay_result results[CLI_REPLAY_POOLS_MAX];
    tn_error *error;
} cli_replay;

/* The largest number of requested and not freed bytes; with `live` also after each event. */
uint64_t cli_replay_live_peak(const cli_replay *arguments, uint64_t *live);
/* Prints the answer. */
extern const cli_facts cli_replay_facts;
tn_status cli_replay_print(const cli_replay *arguments);

/* Adds a line; the first one is drawn as an area. bytes[event_count] is UINT64_MAX from the first
 * event that was not reached. `name` must outlive the picture. */
void cli_replay_curve(cli_replay_picture *picture, const char *name, bool fits,
                      const uint64_t *bytes);
/* Writes the trace as a memory snapshot of one pool. */
tn_status cli_replay_snapshot(const tn_pool_trace *trace, const tn_pool_options *options,
                              const char *path, tn_error *error);
/* Writes the picture. */
tn_status cli_replay_draw(const cli_replay_picture *picture, const char *path, tn_error *error);

#endif
