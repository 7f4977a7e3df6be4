/* argp.h - the part of glibc's argp that the command uses, for C libraries without it (musl,
 * Emscripten). CMakeLists.txt puts this folder into the search path only there.
 *
 * Help and messages about unknown options are the command's own, so nothing here prints them. */
#ifndef TENURE_CLI_ARGP_H
#define TENURE_CLI_ARGP_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

typedef int error_t; /* errno */

#define ARGP_ERR_UNKNOWN E2BIG /* a parser does not know the key */
#define ARGP_NO_HELP 0x10
#define ARGP_KEY_ARG 0          /* an argument that is no option */
#define ARGP_KEY_END 0x1000001  /* after the last argument; the last child gets it first */
#define ARGP_KEY_INIT 0x1000003 /* before the first argument */
#define OPTION_ARG_OPTIONAL 0x1 /* the value may be left out: --name or --name=VALUE */
#define OPTION_HIDDEN 0x2       /* not in help */

struct argp_state;

struct argp_option {
    const char *name;
    int key; /* printable: the letter of the short option */
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
    unsigned arg_num; /* arguments that the current parser took */
    void *input;
    void **child_inputs; /* set by a parser at ARGP_KEY_INIT */
};

/* Options come first, then the arguments in their order, wherever they are on the line. */
error_t argp_parse(const struct argp *argp, int count, char **words, unsigned flags, int *end,
                   void *input);

/* Prints the message and ends the process with `status`. */
_Noreturn void argp_failure(const struct argp_state *state, int status, int reason,
                            const char *format, ...);

#endif
