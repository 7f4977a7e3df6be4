/* profile.h - files with bytes by allocation site, without live ranges, as input of report: JAX's
 * device memory profile and ONNX Runtime's node memory statistics. */
#ifndef TN_CLI_PROFILE_H
#define TN_CLI_PROFILE_H

#include "cli/answer/facts.h"
#include "cli/traces/report.h"

extern const cli_facts cli_profile_facts, cli_node_stats_facts;
/* Whether the unpacked bytes of a file are a profile or node statistics, by the first bytes or the
 * name of the file. */
bool cli_profile_recognises(const char *path, const uint8_t *bytes, size_t size);
/* Prints the answer of `tenure report` for a profile, and returns the exit status. */
int cli_profile_report(cli_report *report, const uint8_t *bytes, size_t size);

#endif
