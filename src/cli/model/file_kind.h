/* file_kind.h - refuses files that another command reads. */
#ifndef TN_CLI_FILE_KIND_H
#define TN_CLI_FILE_KIND_H

#include "cli/cli.h"

/* Ends the program with a usage error if the file is of a kind that the running command does not
 * read, such as a trace or the configuration of a language model; the error names the kind, and the
 * command that reads it. Only the first bytes of a regular file are looked at. */
void cli_refuse_kind(struct argp_state *state, const char *path);

#endif
