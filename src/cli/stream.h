/* stream.h - the report of weight streaming (weights are read from their file when needed). */
#ifndef TN_CLI_STREAM_H
#define TN_CLI_STREAM_H

#include <tenure/setup.h>

#include "base/base.h"

/* Both do nothing without streaming. usage NULL: the model has not run. */
void cli_stream_print(const tn_setup *setup, const tn_engine_usage *usage);
void cli_stream_json(const tn_setup *setup, const tn_engine_usage *usage, tn__text *text);

#endif
