/* replay.h - what `tenure replay` writes: the picture of the bytes that each pool has reserved
 * after each event, and a memory snapshot; and what is said of pools that learn. */
#ifndef TN_CLI_REPLAY_H
#define TN_CLI_REPLAY_H

#include <tenure/snapshot.h>

#include "base/base.h"

enum { CLI_REPLAY_COLUMNS = 720, CLI_REPLAY_CURVES_MAX = 65 };

typedef struct cli_replay_line {
    const char *name;
    bool fits;
    uint64_t peak;
    uint64_t most[CLI_REPLAY_COLUMNS]; /* in the events of a column; UINT64_MAX: not reached */
} cli_replay_line;

typedef struct cli_replay_picture {
    const char *title;
    uint64_t event_count;
    uint32_t line_count;
    cli_replay_line lines[CLI_REPLAY_CURVES_MAX];
} cli_replay_picture;

/* Adds a line; the first one is drawn as an area. bytes[event_count]; UINT64_MAX from the event on
 * that was not reached. `name` must outlive the picture. */
void cli_replay_curve(cli_replay_picture *picture, const char *name, bool fits,
                      const uint64_t *bytes);
/* replay_snapshot.c: the trace once more, served by one pool, as a memory snapshot. */
tn_status cli_replay_snapshot(const tn_pool_trace *trace, const tn_pool_options *options,
                              const char *path, tn_error *error);
tn_status cli_replay_draw(const cli_replay_picture *picture, const char *path, tn_error *error);

/* Nothing when the pool has learned nothing. */
void cli_replay_print_lesson(const tn_pool_lesson *lesson, uint32_t blocks);
void cli_replay_json_lesson(const tn_pool_lesson *lesson, tn__text *text);

#endif
