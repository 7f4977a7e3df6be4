/* stream.h - weights that come from their file when they are needed, told. */
#ifndef TN_CLI_STREAM_H
#define TN_CLI_STREAM_H

#include <tenure/setup.h>

#include "base/base.h"

/* Where nothing is streamed, both do nothing. usage: NULL: it has not run. */
void cli_stream_print(const tn_setup *setup, const tn_engine_usage *usage);
void cli_stream_json(const tn_setup *setup, const tn_engine_usage *usage, tn__text *text);

#endif
