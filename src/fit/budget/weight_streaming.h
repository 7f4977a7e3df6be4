/* weight_streaming.h - weight streaming (tn_program_stream) for callers that continue with other
 * searches if it is refused: a refusal returns facts and no message. */
#ifndef TN_BUDGET_WEIGHT_STREAMING_H
#define TN_BUDGET_WEIGHT_STREAMING_H

#include <tenure/search.h>

#include "fit/budget/refusal.h"

/* Does what tn_program_stream does, but a refusal has no message: *refusal gets its facts. */
tn_status tn__stream_seek(const tn_program *program, const tn_costs *costs,
                          const tn_stream_options *options, tn_stream_result *result,
                          tn__refusal *refusal, tn_error *error);

#endif
