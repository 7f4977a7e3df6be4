/* stream.h - the report of weight streaming (weights are read from their file when needed). */
#ifndef TN_CLI_STREAM_H
#define TN_CLI_STREAM_H

#include <tenure/setup.h>

#include "cli/facts.h"

extern const cli_facts cli_stream_facts; /* with CLI_FACTS_ALSO */
/* Does nothing without streaming. usage NULL: the model has not run. */
void cli_stream_tell(cli_answer *answer, const tn_setup *setup, const tn_engine_usage *usage);

#endif
