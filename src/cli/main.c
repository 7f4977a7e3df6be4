/* main.c - the command `tenure`: finds the subcommand and calls it. */
#include "cli/cli.h"
#include "base/base.h"
#include "tenure_revision.h" /* defines TENURE_REVISION; tools/revision.cmake writes this file */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- `tenure version`: version and revision, and the libraries --- */

/* Prints the answer of `tenure version` and returns the exit status. */
static int main_version(void) {
    char library[TN_LIBRARY_TEXT_MAX];
    tn_error missing;
    printf("tenure %s", tn_version());
    if (*TENURE_REVISION != '\0') printf(" (revision %s)", TENURE_REVISION);
    if (tn_kernels_library(library, &missing))
        printf("\nkernels   %s; plain loops\n", library);
    else
        printf("\nkernels   plain loops; %s\n", missing.message);
#ifdef TENURE_MINIMAL
    puts("built     with the C library only: no JSON, no packed data sets");
#else
    puts("built     with JSON (jansson) and packed data sets (zlib)");
#endif
    puts("licence   Apache-2.0");
    return cli_finish(0);
}

static const cli_command *const commands[] = {
#define TN_COMMAND(name) &cli_command_##name,
#include "cli/commands.def"
#undef TN_COMMAND
};

uint32_t cli_command_count(void) { return sizeof commands / sizeof *commands; }
const cli_command *cli_command_at(uint32_t index) { return commands[index]; }

static void main_help(FILE *to) {
    fputs("Usage: tenure COMMAND [OPTION...] [ARGUMENT...]\n"
          "Plans, proves and draws the memory of neural networks.\n\nCommands:\n",
          to);
    for (uint32_t i = 0; i < cli_command_count(); i++) {
        fprintf(to, "  %-11s", commands[i]->name);
        cli_fill(to, commands[i]->summary, 13, 13, cli_columns(to));
    }
    fputs("  help       list the commands, or show the help of one\n"
          "  version    print the version, the libraries of this build, and the licence\n",
          to);
    fputs("\nExamples:\n"
          "  tenure plan model.onnx -o plan.html     plan, and draw the plan\n"
          "  tenure plan buffers.csv --capacity 1MiB -o plan.csv\n"
          "  tenure verify model.onnx --plan plan.json\n"
          "\n`tenure help COMMAND` shows the options of a command.\n",
          to);
}

static const cli_command *main_find(const char *name) {
    for (uint32_t i = 0; i < cli_command_count(); i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

/* Prints an error for a first argument that is not a command, and returns the exit status. The
 * error suggests a similar command, or how to plan the file. */
static int main_refuse(const char *name) {
    char asked[TN__NEAR_TEXT];
    tn__near near = tn__near_begin(name);
    bool file = tn_import_recognises(name) || tn__has_suffix(name, ".csv");
    for (uint32_t i = 0; i < cli_command_count(); i++) tn__near_try(&near, commands[i]->name);
    tn__near_try(&near, "help");
    tn__near_try(&near, "version");
    cli_prefix(CLI_ERROR);
    fputs(name[0] == '-' ? "the command must come first, before '" : "there is no command '",
          stderr);
    cli_put_text(stderr, name);
    const char *otherwise = file ? "to plan a file: tenure plan FILE" : "`tenure help` lists them";
    fprintf(stderr, "'; %s\n", tn__near_ask(&near, otherwise, asked));
    return 2;
}

static int main_command(const cli_command *command, int count, char **words) {
    char title[64];
    snprintf(title, sizeof title, "tenure %s", command->name);
    words[0] = title; /* usage messages print words[0] as the name of the program */
    return command->run(count, words);
}

/* Prints the help of `help` and `version`, the two commands that are not in the table. Returns
 * false for any other name. */
static bool main_help_word(const char *name) {
    if (strcmp(name, "help") == 0)
        puts("Usage: tenure help [COMMAND [all]]\n"
             "Lists the commands, or prints the usage, common options and examples of COMMAND;\n"
             "with `all`, every option. `tenure help estimate` names the topics that it has.");
    else if (strcmp(name, "version") == 0)
        puts("Usage: tenure version\n"
             "Prints the version, the libraries of this build, and the licence.");
    else
        return false;
    return true;
}

static int main_no_topic(char **words) {
    cli_prefix(CLI_ERROR);
    fprintf(stderr, "help %.60s: there is no topic '%.60s'; write `tenure help %.60s all`\n",
            words[1], words[2], words[1]);
    return tn_status_exit_code(TN_E_INVALID);
}

/* Answers `tenure help`, `help COMMAND`, `help COMMAND all` and `help COMMAND TOPIC`. Returns the
 * exit status. */
static int main_print(int count, char **words) {
    if (count < 2) {
        main_help(stdout);
        return cli_finish(0);
    }
    if (main_help_word(words[1][0] == '-' ? "help" : words[1])) return cli_finish(0);
    const cli_command *command = main_find(words[1]);
    if (command == NULL) return main_refuse(words[1]);
    if (!cli_help(command, count > 2 ? words[2] : NULL, stdout)) return main_no_topic(words);
    return cli_finish(0);
}

/* Handles SIGBUS. Tensor data are read through mmap, and the kernel raises SIGBUS if a file was
 * truncated after it was mapped, or if its disk fails. */
static void main_no_page(int number, siginfo_t *facts, void *unused) {
    static const char message[] = "tenure: error: an input file was truncated while it was read, "
                                  "or its disk failed; run the command again\n";
    (void)unused;
    if (facts->si_code == BUS_ADRERR) {
        tn__new_file_abandon();
        ssize_t unheard = write(2, message, sizeof message - 1);
        (void)unheard;
        _exit(2);
    }
    signal(number, SIG_DFL); /* the failed access is repeated, and this time it ends the process */
}

/* Handles SIGABRT. oneDNN and other C++ libraries abort when they run out of memory. */
static void main_aborted(int number) {
    static const char message[] =
        "tenure: error: a library aborted; probably out of memory, which oneDNN does not report; "
        "use a smaller batch or a machine with more memory\n";
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

/* Installs handlers for signals that end a process by default, so that unfinished output files are
 * removed first. A signal that is already ignored, as by nohup, stays ignored. SIGXFSZ is ignored,
 * so that a file that reaches its size limit is reported as a write error. */
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
    signal(SIGPIPE, SIG_IGN); /* a closed pipe becomes a write error, which cli_finish handles */
    const char *name = count > 1 ? words[1] : "";
    const cli_command *command = main_find(name);
    if (command != NULL) return main_command(command, count - 1, words + 1);
    if (strcmp(name, "help") == 0) return main_print(count - 1, words + 1);
    if (strncmp(name, "--help", 6) == 0 || strcmp(name, "-h") == 0) return main_print(1, words);
    if (strcmp(name, "version") == 0 && count > 2) return main_print(2, words);
    if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return main_version();
    if (count > 1) return main_refuse(name);
    main_help(stderr);
    return 2;
}
