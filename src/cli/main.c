/* main.c - the command `tenure`: finds the subcommand and hands over. */
#include "cli/cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

static const cli_command *const commands[] = {
#define TN_COMMAND(name) &cli_command_##name,
#include "cli/commands.def"
#undef TN_COMMAND
};

uint32_t cli_command_count(void) { return sizeof commands / sizeof *commands; }
const cli_command *cli_command_at(uint32_t index) { return commands[index]; }

static void main_help(FILE *to) {
    fputs("Usage: tenure COMMAND [OPTION...] [ARGUMENT...]\n"
          "The memory system of neural networks: plan, prove, draw.\n\nCommands:\n",
          to);
    for (uint32_t i = 0; i < cli_command_count(); i++) {
        fprintf(to, "  %-11s", commands[i]->name);
        cli_fill(to, commands[i]->summary, 13, 13, cli_columns(to));
    }
    fputs("\nExamples:\n"
          "  tenure plan model.onnx -o plan.html     how much memory, and a picture of it\n"
          "  tenure plan buffers.csv --capacity 1MiB -o plan.csv\n"
          "  tenure verify model.onnx --plan plan.json\n"
          "\n`tenure help COMMAND` tells more.\n",
          to);
}

static const cli_command *main_find(const char *name) {
    for (uint32_t i = 0; i < cli_command_count(); i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

/* Who gives a file or an option where a command should be is told how it reads. */
static int main_refuse(const char *name) {
    char asked[TN__NEAR_TEXT];
    tn__near near = tn__near_begin(name);
    bool file = tn_import_recognises(name) || tn__has_suffix(name, ".csv");
    for (uint32_t i = 0; i < cli_command_count(); i++) tn__near_try(&near, commands[i]->name);
    tn__near_try(&near, "help");
    fputs(name[0] == '-' ? "tenure: a command comes first, before '"
                         : "tenure: there is no command '",
          stderr);
    cli_put_text(stderr, name);
    const char *otherwise = file ? "to plan a file: tenure plan FILE" : "`tenure help` lists them";
    fprintf(stderr, "'; %s\n", tn__near_ask(&near, otherwise, asked));
    return 2;
}

static int main_command(const cli_command *command, int count, char **words) {
    char title[64];
    snprintf(title, sizeof title, "tenure %s", command->name);
    words[0] = title; /* what usage messages call us */
    return command->run(count, words);
}

/* help, help COMMAND, help COMMAND all */
static int main_tell(int count, char **words) {
    if (count < 2) {
        main_help(stdout);
        return cli_finish(0);
    }
    const cli_command *command = main_find(words[1]);
    if (command == NULL) return main_refuse(words[1]);
    cli_help(command, count > 2 && strcmp(words[2], "all") == 0, stdout);
    return cli_finish(0);
}

/* Contents of a model are read where the system maps them: behind a file's new end, or on a disk
 * that fails, there is nothing. */
static void main_no_page(int number, siginfo_t *facts, void *unused) {
    static const char message[] =
        "tenure: a file that is being read became shorter, or its disk failed; run again\n";
    (void)unused;
    if (facts->si_code == BUS_ADRERR) {
        tn__new_file_abandon();
        ssize_t unheard = write(2, message, sizeof message - 1);
        (void)unheard;
        _exit(2);
    }
    signal(number, SIG_DFL); /* the same access again */
}

/* oneDNN and other libraries in C++ end the process when their memory is out. */
static void main_aborted(int number) {
    static const char message[] =
        "tenure: a library ended the process; most likely memory was out, which oneDNN does not "
        "report\n";
    (void)number;
    ssize_t unheard = write(2, message, sizeof message - 1);
    (void)unheard;
    tn__new_file_abandon();
    _exit(4);
}

static void main_watch_files(void) {
    struct sigaction action = {.sa_sigaction = main_no_page, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, NULL);
}

/* Signals that end a process by default: no unfinished file is left behind. A signal that is
 * ignored already (nohup) stays ignored. A file that reaches its limit of size is an error of
 * writing. */
static void main_watch_signals(void) {
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGALRM, SIGUSR1};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cli_on_signal(numbers[i], cli_end_by_signal);
    signal(SIGXFSZ, SIG_IGN);
    cli_on_signal(SIGABRT, main_aborted);
}

int main(int count, char **words) {
    cli_show_controls();
    main_watch_files();
    main_watch_signals();
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves is met at the end: cli_finish */
    const char *name = count > 1 ? words[1] : "";
    const cli_command *command = main_find(name);
    if (command != NULL) return main_command(command, count - 1, words + 1);
    if (strcmp(name, "help") == 0) return main_tell(count - 1, words + 1);
    if (strncmp(name, "--help", 6) == 0 || strcmp(name, "-h") == 0) return main_tell(1, words);
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        return cli_version();
    }
    if (count > 1) return main_refuse(name);
    main_help(stderr);
    return 2;
}
