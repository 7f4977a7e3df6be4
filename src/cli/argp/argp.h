/* argp.h - the part of glibc's argp that the command uses, for C libraries without argp (musl,
 * Emscripten). CMakeLists.txt puts this folder into the search path only for such libraries.
 *
 * The command prints its own help and its own messages about unknown options, so the code here
 * prints neither.
 */
#ifndef TENURE_CLI_ARGP_H
#define TENURE_CLI_ARGP_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

typedef int error_t; /* errno */

/* return value of a parser that does not know the key of an option */
#define ARGP_ERR_UNKNOWN E2BIG
#define ARGP_NO_HELP 0x10
#define ARGP_KEY_ARG 0 /* key of an argument that is not an option */
/* key of the call after the last argument; children are called before their parent, the last child
 * first */
#define ARGP_KEY_END 0x1000001
#define ARGP_KEY_INIT 0x1000003 /* key of the call before the first argument */
/* flag of an option with an optional value: --name or --name=VALUE */
#define OPTION_ARG_OPTIONAL 0x1
#define OPTION_HIDDEN 0x2 /* flag of an option that the help does not show */

struct argp_state;

struct argp_option {
    const char *name;
    int key; /* a printable key is also the letter of the short option */
    const char *arg;
    int flags;
    const char *doc;
    int group;
};

struct argp_child {
    const struct argp *argp;
    int flags;
    const char *header;
    int group;
};

struct argp {
    const struct argp_option *options;
    error_t (*parser)(int key, char *value, struct argp_state *state);
    const char *args_doc;
    const char *doc;
    const struct argp_child *children;
    char *(*help_filter)(int key, const char *text, void *input);
    const char *argp_domain;
};

struct argp_state {
    int argc;
    char **argv;
    unsigned arg_num; /* number of arguments that the current parser has accepted */
    void *input;
    void **child_inputs; /* a parser sets the inputs of its children here at ARGP_KEY_INIT */
};

/* Parses the command line. First all options are parsed, then the other arguments in their order,
 * even if an argument stands before an option. */
error_t argp_parse(const struct argp *argp, int count, char **words, unsigned flags, int *end,
                   void *input);

/* Prints the message on standard error and ends the process with the exit status `status`. */
_Noreturn void argp_failure(const struct argp_state *state, int status, int reason,
                            const char *format, ...);

#endif
