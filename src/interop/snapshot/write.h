/* write.h - renders a snapshot as text, for callers that write the file themselves. */
#ifndef TN_SNAPSHOT_WRITE_H
#define TN_SNAPSHOT_WRITE_H

#include <tenure/snapshot.h>

#include "base/base.h"

/* Like tn_snapshot_write, but into a text. */
tn_status tn__snapshot_render(const tn_snapshot_use *uses, uint64_t count, uint64_t arena,
                              tn__text *text, tn_error *error);

#endif
