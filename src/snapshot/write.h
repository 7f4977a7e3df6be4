/* write.h - a snapshot as a text, for who writes files in his own way. */
#ifndef TN_SNAPSHOT_WRITE_H
#define TN_SNAPSHOT_WRITE_H

#include <tenure/snapshot.h>

#include "base/base.h"

/* tn_snapshot_write, into a text. */
tn_status tn__snapshot_render(const tn_snapshot_use *uses, uint64_t count, uint64_t arena,
                              tn__text *text, tn_error *error);

#endif
