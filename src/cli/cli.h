/* cli.h - shared by the subcommands: the table of commands, options and their values, text for
 * people, files, signals, and progress.
 *
 * A command is one file in commands/ and one line in commands.def: it parses a table of options
 * into a struct, makes one chain of public calls, and prints the result. The folders hold the parts
 * that need files of their own or that several commands share:
 *
 *   command_line  from words to options and their values; which options go together; help
 *   terminal      messages, progress, files of the command line
 *   answer        facts, printed as a table, as JSON, or in one line
 *   model         from the options of a command to a compiled or opened model, and to a plan file
 *   estimate, fit, plan, train, traces   parts of the commands of these names; traces has those of
 *                 replay and report, and the plans of other tools (foreign.c)
 */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#include <argp.h>
#include <stdio.h>

#include <tenure/tenure.h>

#include "base/base.h"

/* --- standard output and standard error --- */

/* Both are variables, which they are in glibc only. cli_show_controls replaces both streams; `-o -`
 * and --quiet send the text for people elsewhere. */

/* The C library's own stream. */
static inline FILE *cli_first_stderr(void) { return stderr; }

#ifndef __GLIBC__
extern FILE *cli_stdout, *cli_stderr; /* set by cli_show_controls */
#undef stdout
#undef stderr
#define stdout cli_stdout
#define stderr cli_stderr
#define printf(...) fprintf(stdout, __VA_ARGS__)
#define puts(text) fprintf(stdout, "%s\n", text)
#define putchar(byte) fputc(byte, stdout)
#endif

/* --- commands (main.c) --- */

/* One use of a command, with a help of its own: `tenure estimate --help=llm`. */
typedef struct cli_topic {
    const char *name, *about; /* about: one sentence, without a full stop */
    const char *options;      /* their names, "batch json", in the order of usefulness */
    const char *examples;     /* lines */
} cli_topic;

typedef struct cli_command {
    const char *name;
    const char *summary;                    /* one line for `tenure --help` */
    const char *first;                      /* up to ten common options, "output json" */
    const cli_topic *topics;                /* the last has no name; NULL: none */
    const struct cli_facts *const *answers; /* of --json (answer/facts.h), the last NULL; NULL:
                                             * none */
    const struct argp *parser;              /* its options, for parsing, help and completion */
    bool has_ranks; /* mpirun may start several processes; only one of them prints an error */
    int (*run)(int count, char **arguments); /* arguments[0] is "tenure NAME"; exit status */
} cli_command;

#define TN_COMMAND(name) extern const cli_command cli_command_##name;
#include "cli/commands.def"
#undef TN_COMMAND
/* The table, in the order of commands.def. */
uint32_t cli_command_count(void);
const cli_command *cli_command_at(uint32_t index);

/* The registries of this build, by list name: "planners" (commands/list.c). */
typedef struct cli_list {
    const char *name, *about;
    uint32_t (*count)(void);
    const char *(*row)(uint32_t index);
    const char *key; /* JSON key of the detail */
    const char *(*detail)(uint32_t index);
    const char *(*make)(uint32_t index, char *detail, size_t room); /* used instead of `detail` */
} cli_list;
uint32_t cli_list_count(void);
const cli_list *cli_list_at(uint32_t index);
const cli_list *cli_list_find(const char *name); /* NULL: unknown name */
#define CLI_LIST_TEXT 512                        /* bytes of a detail that `make` writes */

/* --- options (command_line/parse.c) --- */

/* A row of a command's options: X(key, name, argument or NULL, help). Help is required. */
#define CLI_OPTION(key, name, argument, help)                                                      \
    {name, key, argument, 0 * (int)sizeof(char[sizeof(help) > 8 ? 1 : -1]), help, 0},

/* Parses the options of every command; command->parser gets the rest with `input`. Ends the program
 * after --help and on a usage error. */
void cli_parse(const cli_command *command, int count, char **words, void *input);
/* Ends the program with a usage error of one line: the problem, and how to fix it. */
void cli_misuse(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* Later usage errors name this file, whose options are being read; NULL: the command line again. */
void cli_misuse_in(const char *path);
/* Ends the program with an error of the library. */
void cli_end(const tn_error *error) __attribute__((noreturn));

/* How much the user wants to read. */
typedef struct cli_tone {
    bool quiet; /* errors only */
    bool brief; /* one line */
    bool json;  /* one object; the command's own --json was given */
} cli_tone;
cli_tone cli_tone_asked(void);
bool cli_follows_links(void);               /* --follow-links, once the words are parsed */
void cli_context_read(tn_context *context); /* sets --follow-links and --read-limit */

/* The options of a command in one list: its own, those of its children under their headings, and
 * those of every command. */
#define CLI_OPTIONS_MAX 96u
typedef struct cli_option {
    const char *name, *argument; /* argument NULL: none */
    char letter;                 /* 0: none */
    bool argument_may_lack;      /* --holders[=N] */
    const char *heading;         /* "": the command's own */
    char *help;
} cli_option;
typedef struct cli_options {
    cli_option rows[CLI_OPTIONS_MAX];
    uint32_t count;
} cli_options;
void cli_options_list(const cli_command *command, cli_options *options);
void cli_options_release(cli_options *options);
/* The name of an option that had another one in version 0.1, which is accepted until version 0.3;
 * NULL: it has no other. `name` may end with "=VALUE". */
const char *cli_option_renamed(const char *name);

/* Prints the usage of a command and its options: the common ones (what NULL), all of them ("all"),
 * or those of a topic. False: it has no such topic, and nothing is printed. */
bool cli_help(const cli_command *command, const char *what, FILE *to);

/* --- values of options (command_line/values.c) --- */

/* Each parses the value of an option, or ends the program with a usage error that names the
 * option. */
uint64_t cli_size(struct argp_state *state, const char *option, const char *text);
uint64_t cli_number(struct argp_state *state, const char *option, const char *text);
uint64_t cli_range(struct argp_state *state, const char *option, const char *text, uint64_t least,
                   uint64_t most);
double cli_duration(struct argp_state *state, const char *option, const char *text);
double cli_speed(struct argp_state *state, const char *option, const char *text); /* 0.5GB/s */
double cli_real(struct argp_state *state, const char *option, const char *text);  /* at least 0 */
double cli_share(struct argp_state *state, const char *option, const char *text); /* 10%, 0.1 */
uint64_t cli_count(struct argp_state *state, const char *option, const char *text,
                   uint64_t most); /* at least 1 */
/* The index of `text` in `names` (NULL at the end), or a usage error that lists them. */
uint32_t cli_choice(struct argp_state *state, const char *option, const char *text,
                    const char *const *names);
#define CLI_CHOICE(state, option, text, ...)                                                       \
    cli_choice(state, option, text, (const char *const[]){__VA_ARGS__, NULL})
/* A device of `tenure list hardware`, or a usage error that suggests the nearest name. */
const tn_hardware *cli_hardware(const struct argp_state *state, const char *option,
                                const char *text);
/* As cli_hardware, but `text` may also be a size: then it returns NULL. *limit: that size, or the
 * bytes that a device leaves to a program: those of its driver without the context. */
const tn_hardware *cli_device(const struct argp_state *state, const char *text, uint64_t *limit);

/* --- text for people (terminal/messages.c) --- */

/* After this call stdout and stderr show control characters as escapes. */
void cli_show_controls(void);
FILE *cli_terminal(void); /* the unfiltered standard error, to move the cursor */
/* Prints text that may hold names from files in one line: newlines and tabs are escapes, too. */
void cli_put_text(FILE *file, const char *text);

/* Columns of the terminal, else 80; the variable COLUMNS overrides both. */
uint32_t cli_columns(FILE *to);
/* Prints text in lines of at most `columns`, each after `indent` spaces. The first line starts at
 * column `at`. */
void cli_fill(FILE *to, const char *text, uint32_t at, uint32_t indent, uint32_t columns);

/* Prints "tenure: error: ", "tenure: warning: " or "tenure: note: " on standard error, in colour on
 * a terminal unless the variable NO_COLOR is set. */
typedef enum cli_level { CLI_ERROR, CLI_WARNING, CLI_NOTE } cli_level;
void cli_prefix(cli_level level);
/* Prints "tenure: error: WHERE: MESSAGE" and returns the exit status. With --json and exit status 1
 * or 3, also prints an object on standard output that ends with `members` (cli_members_text). */
int cli_fail(const tn_error *error);
int cli_fail_with(const tn_error *error, const char *members);
/* Prints "tenure: note: MESSAGE", except with --quiet. */
void cli_note(const char *message);
/* Flushes standard output. Returns `status`, or 2 if any write failed. */
int cli_finish(int status);

/* --- files of the command line (terminal/files.c) --- */

/* The path "-" for standard input becomes a path with the suffix of its contents, such as "-.csv";
 * other paths stay. The input may be read several times. */
const char *cli_standard_input(struct argp_state *state, const char *path);
/* The path for an output file; "-" becomes "-.json". Text for people that is printed later goes to
 * standard error. */
const char *cli_standard_output(const char *path);
/* A path for people: "<stdin>" for standard input. */
const char *cli_shown_path(const char *path);
/* Whether a path "-.csv" can only mean standard input, which messages call <stdin>. */
bool cli_standard_is_input(void);
/* An output file must not be an input file unless --overwrite is given. cli_standard_input and
 * cli_check_folder record the files; cli_check_files compares them. */
void cli_note_input(const char *path);
void cli_check_files(void);
/* Ends with a usage error if this file cannot be written, before the work begins. */
void cli_check_folder(struct argp_state *state, const char *option, const char *path);
/* The output files of one option that may be repeated. */
#define CLI_PATHS_MAX 16u
typedef struct cli_paths {
    const char *at[CLI_PATHS_MAX];
    uint32_t count;
} cli_paths;
/* Adds a file with one of the `suffixes` (NULL at the end), or ends with a usage error. */
void cli_paths_add(struct argp_state *state, const char *option, const char *const *suffixes,
                   const char *path, cli_paths *paths);
#define CLI_PATHS_ADD(state, option, path, paths, ...)                                             \
    cli_paths_add(state, option, (const char *const[]){__VA_ARGS__, NULL}, path, paths)
tn_status cli_paths_write(const cli_paths *paths,
                          tn_status (*write)(const void *self, const char *path, tn_error *error),
                          const void *self, tn_error *error);
void cli_paths_print(const cli_paths *paths); /* "wrote FILE", one line per file */
/* Stores the file of an option that must not be repeated, or ends with a usage error. */
void cli_path_once(struct argp_state *state, const char *option, const char **slot,
                   const char *path);
/* Adds an output file. A usage error if its suffix has no format or its folder does not exist. */
void cli_add_output(struct argp_state *state, const char **outputs, uint32_t *count, uint32_t most,
                    const char *path);
/* The suffixes of all registered formats for plans: " .json .csv ...". */
#define CLI_SUFFIXES_MAX 160
const char *cli_suffixes(char text[CLI_SUFFIXES_MAX]);

/* --- signals, time and progress (terminal/progress.c) --- */

double cli_clock(void); /* seconds of a clock that is never set back */

/* Installs a handler of SIGINT or SIGTERM. Both signals are blocked while the handler runs. */
void cli_on_signal(int number, void (*handler)(int));
/* A handler calls this first. True: it is the second signal, which ends the process as soon as the
 * handler returns. Signals within a quarter of a second count as one, because timeout(1) signals
 * the process and then its group. */
bool cli_signal_repeats(int number);
/* A signal handler that removes unfinished files, then ends the process as the signal does by
 * default. */
void cli_end_by_signal(int number);

/* A context that reports progress on standard error as --progress asks. */
tn_context cli_context(void);
void cli_progress_end(void);
extern const char *const cli_progress_modes[]; /* the values of --progress; NULL at the end */
void cli_progress_set(uint32_t mode);
void cli_progress_plain_costs(void); /* costs have no unit */
/* After this call Ctrl-C stops planning and fitting with the best answer so far; a second one ends
 * the process. */
void cli_interrupt_ends_work(void);
bool cli_interrupted(void);
/* After time `at` (cli_clock) the work of the stage (NULL: any) stops as if interrupted; 0: no
 * deadline. */
void cli_deadline(double at, const char *stage);
bool cli_is_late(void);
/* Prints that the search was interrupted, and the gap to the bound (0: no bound). Returns 3. */
int cli_print_interrupted(uint64_t best, uint64_t bound);

#endif
