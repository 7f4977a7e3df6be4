/* options.c - all options of a command in one list, from the tables that argp parses. Help,
 * completion and the man pages are generated from this list, so they cannot differ. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* A command may describe a shared option in its own words: its help filter decides. */
static char *options_help(const struct argp *argp, const struct argp_option *row) {
    const char *help = row->doc != NULL ? row->doc : "";
    char *told = argp->help_filter != NULL ? argp->help_filter(row->key, help, NULL) : NULL;
    return told != NULL && told != help ? told : strdup(help);
}

static void options_add(cli_options *options, const struct argp *command,
                        const struct argp_option *row, const char *heading) {
    if (options->count == CLI_OPTIONS_MAX || (row->flags & OPTION_HIDDEN) != 0) return;
    options->rows[options->count++] =
        (cli_option){.name = row->name,
                     .argument = row->arg,
                     .letter = row->key > ' ' && row->key < 127 ? (char)row->key : '\0',
                     .argument_may_lack = (row->flags & OPTION_ARG_OPTIONAL) != 0,
                     .heading = heading,
                     .help = options_help(command, row)};
}

/* Recursion is at most three levels deep: the tables are our own. */
static void options_walk(cli_options *options, const struct argp *command, const struct argp *argp,
                         const char *heading) {
    for (const struct argp_option *row = argp->options; row != NULL && row->name != NULL; row++)
        options_add(options, command, row, heading);
    for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL;
         child++)
        options_walk(options, command, child->argp,
                     child->header != NULL ? child->header : heading);
}

/* Headings stay in their order; options are sorted by name under each. */
static void options_sort(cli_options *options) {
    for (uint32_t i = 1; i < options->count; i++) {
        cli_option moved = options->rows[i];
        uint32_t at = i;
        while (at > 0 && strcmp(options->rows[at - 1].heading, moved.heading) == 0 &&
               strcmp(options->rows[at - 1].name, moved.name) > 0) {
            options->rows[at] = options->rows[at - 1];
            at--;
        }
        options->rows[at] = moved;
    }
}

const char *cli_option_renamed(const char *name) {
    static const char *const names[][2] = {{"recompute-share", "recompute-work"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i][0]);
        if (strncmp(name, names[i][0], length) != 0) continue;
        if (name[length] == '\0' || name[length] == '=') return names[i][1];
    }
    return NULL;
}

void cli_options_list(const cli_command *command, cli_options *options) {
    options->count = 0;
    options_walk(options, command->parser, command->parser, "");
    options_walk(options, command->parser, &cli_common_argp, "Options of every command:");
    options_sort(options);
}

void cli_options_release(cli_options *options) {
    for (uint32_t i = 0; i < options->count; i++) free(options->rows[i].help);
    options->count = 0;
}
