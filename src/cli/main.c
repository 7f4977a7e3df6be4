/* main.c - the command `tenure`: finds the subcommand and hands over. */
#include "cli/cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TN_COMMAND(name) extern const cli_command cli_command_##name;
#include "cli/commands.def"
#undef TN_COMMAND

static const cli_command *const commands[] = {
#define TN_COMMAND(name) &cli_command_##name,
#include "cli/commands.def"
#undef TN_COMMAND
};

static void main_help(FILE *to) {
    fputs("Usage: tenure COMMAND [OPTION...] [ARGUMENT...]\n"
          "The memory system of neural networks: plan, prove, draw.\n\nCommands:\n",
          to);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nExamples:\n"
          "  tenure plan model.onnx -o plan.html     how much memory, and a picture of it\n"
          "  tenure plan buffers.csv --capacity 1MiB -o plan.csv\n"
          "  tenure verify model.onnx --plan plan.json\n"
          "\n`tenure COMMAND --help` tells more.\n",
          to);
}

int main(int count, char **arguments) {
    argp_err_exit_status = 2; /* usage errors, as in the table of statuses */
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves is an error of writing, told at the end */
    const char *name = count > 1 ? arguments[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        main_help(stdout);
        return cli_finish(0);
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        return cli_version();
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(name, commands[i]->name) != 0) continue;
        char title[64];
        snprintf(title, sizeof title, "tenure %s", name);
        arguments[1] = title; /* what usage messages call us */
        return commands[i]->run(count - 1, arguments + 1);
    }
    if (count > 1)
        fprintf(stderr, "tenure: there is no command '%s'; see `tenure --help`\n", name);
    else
        main_help(stderr);
    return 2;
}
