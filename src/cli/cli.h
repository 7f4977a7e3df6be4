/* cli.h - functions that all subcommands share: the table of commands, options and their values,
 * text for people, files, signals, and progress.
 *
 * A command is one file in commands/ and one line in commands.def. It parses its options into a
 * struct, calls the public functions of the library, and prints the result. Parts that need a file
 * of their own, or that several commands share, are in these folders:
 *
 *   command_line  parsing of options and values, rules about combinations of options, help
 *   terminal      messages, progress, files of the command line
 *   answer        facts, printed as a table, as JSON, or as one line
 *   model         from the options of a command to a compiled or opened model; plan files
 *   estimate, fit, plan, train   parts of the commands with these names
 *   traces        parts of `replay` and `report`, and the plans of other tools (foreign.c)
 *   argp          a replacement of the argp of glibc, for other C libraries
 */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#include <argp.h>
#include <stdio.h>

#include <tenure/tenure.h>

#include "base/base.h"

/* --- standard output and standard error --- */

/* The command replaces stdout and stderr: cli_show_controls installs streams that escape control
 * characters, and `-o -` and --quiet redirect the text for people. The C standard does not make
 * stdout and stderr assignable. In glibc they are variables; for other C libraries the macros below
 * replace them by variables of the command. */

/* Returns the stream stderr of the C library, before the macros below redefine the name. */
static inline FILE *cli_first_stderr(void) { return stderr; }

#ifndef __GLIBC__
/* standard output and standard error of the commands; cli_show_controls sets both */
extern FILE *cli_stdout, *cli_stderr;
#undef stdout
#undef stderr
#define stdout cli_stdout
#define stderr cli_stderr
#define printf(...) fprintf(stdout, __VA_ARGS__)
#define puts(text) fprintf(stdout, "%s\n", text)
#define putchar(byte) fputc(byte, stdout)
#endif

/* --- commands (main.c) --- */

/* One of several uses of a command. It has its own help, such as `tenure estimate --help=llm`. */
typedef struct cli_topic {
    const char *name, *about; /* `about` is one sentence without a full stop */
    /* names of the topic's options, such as "batch json", the most useful first */
    const char *options;
    const char *examples; /* lines with examples */
} cli_topic;

typedef struct cli_command {
    const char *name;
    const char *summary;     /* description of the command in `tenure --help`, one line */
    const char *first;       /* names of the common options, such as "output json" */
    const cli_topic *topics; /* the last topic has no name; NULL: the command has no topics */
    /* the answers of --json (answer/facts.h), followed by NULL; NULL: the command has no --json */
    const struct cli_facts *const *answers;
    const struct argp *parser; /* the options of the command, for parsing, help and completion */
    /* true: mpirun may start several processes of this command; only one of them prints an error */
    bool has_ranks;
    /* runs the command and returns the exit status; arguments[0] is "tenure NAME" */
    int (*run)(int count, char **arguments);
} cli_command;

#define TN_COMMAND(name) extern const cli_command cli_command_##name;
#include "cli/commands.def"
#undef TN_COMMAND
/* The number of commands, and the command at an index, in the order of commands.def. */
uint32_t cli_command_count(void);
const cli_command *cli_command_at(uint32_t index);

/* A list that `tenure list NAME` prints, such as "planners": the entries of one registry of this
 * build. commands/list.c has the lists. */
typedef struct cli_list {
    const char *name, *about;
    uint32_t (*count)(void);
    const char *(*row)(uint32_t index);
    const char *key; /* name of the JSON member with an entry's detail */
    const char *(*detail)(uint32_t index);
    /* Writes the detail of an entry into the buffer `detail` of `room` bytes. If this function is
     * not NULL, it is used instead of the function `detail`. */
    const char *(*make)(uint32_t index, char *detail, size_t room);
} cli_list;
uint32_t cli_list_count(void);
const cli_list *cli_list_at(uint32_t index);
/* Returns the list with this name, or NULL if no list has it. */
const cli_list *cli_list_find(const char *name);
#define CLI_LIST_TEXT 512 /* size in bytes of the buffer for the function `make` */

/* --- options (command_line/parse.c) --- */

/* One row of a command's options, for a list X(key, name, argument or NULL, help). A help of fewer
 * than 8 characters is a compile error. */
#define CLI_OPTION(key, name, argument, help)                                                      \
    {name, key, argument, 0 * (int)sizeof(char[sizeof(help) > 8 ? 1 : -1]), help, 0},

/* Parses the command line. cli_parse itself handles the options that every command has;
 * command->parser handles all others, and gets `input`. Ends the program after --help and after a
 * usage error. */
void cli_parse(const cli_command *command, int count, char **words, void *input);
/* Ends the program with a usage error of one line that states the problem and how to fix it. */
void cli_misuse(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* Sets the file from which options are being read. Later usage errors name it as their source.
 * NULL: the options are those of the command line. */
void cli_misuse_in(const char *path);
/* Ends the program with an error of the library. */
void cli_end(const tn_error *error) __attribute__((noreturn));

/* How much text the user asked for, by --quiet, --brief and --json. */
typedef struct cli_tone {
    bool quiet; /* true if only errors are printed (--quiet) */
    bool brief; /* true if the answer is printed as one line (--brief) */
    bool json;  /* true if the answer is printed as one JSON object (--json) */
} cli_tone;
cli_tone cli_tone_asked(void);
/* the rules of name patterns in help texts (tn__glob) */
#define CLI_PATTERN "(* and ?; brackets are literal)"
/* Returns the name of the running command, such as "plan". */
const char *cli_command_name(void);
bool cli_follows_links(void); /* Returns whether --follow-links was given. Valid after cli_parse. */
/* Copies the options --follow-links and --read-limit into the context. */
void cli_context_read(tn_context *context);

/* All options of a command in one list: the options of its own table, the options of its child
 * tables under their headings, and the options that every command has. */
#define CLI_OPTIONS_MAX 96u
typedef struct cli_option {
    const char *name, *argument; /* argument: name of the value, NULL if the option has no value */
    char letter;                 /* letter of the short option, 0 if there is none */
    bool argument_may_lack;      /* true: the value may be left out, as in --holders[=N] */
    const char *heading; /* heading of the option in the help; "" for the command's own options */
    char *help;
} cli_option;
typedef struct cli_options {
    cli_option rows[CLI_OPTIONS_MAX];
    uint32_t count;
} cli_options;
void cli_options_list(const cli_command *command, cli_options *options);
void cli_options_release(cli_options *options);
/* Returns the present name of an option that had the name `name` in version 0.1, or NULL if `name`
 * is not such an old name. Old names are accepted until version 0.3. `name` may end with
 * "=VALUE". */
const char *cli_option_renamed(const char *name);

/* Prints the usage of a command and some of its options: the common ones (`what` NULL), all of them
 * ("all"), or those of the topic `what`. Returns false, without printing anything, if the command
 * has no such topic. */
bool cli_help(const cli_command *command, const char *what, FILE *to);

/* --- values of options (command_line/values.c) --- */

/* Each of these functions parses the value of an option. On an invalid value it ends the program
 * with a usage error that names the option. */
uint64_t cli_size(struct argp_state *state, const char *option, const char *text);
uint64_t cli_number(struct argp_state *state, const char *option, const char *text);
uint64_t cli_range(struct argp_state *state, const char *option, const char *text, uint64_t least,
                   uint64_t most);
double cli_duration(struct argp_state *state, const char *option, const char *text);
/* parses a number of bytes per second, such as "0.5GB/s" */
double cli_speed(struct argp_state *state, const char *option, const char *text);
/* parses a number that is at least 0 */
double cli_real(struct argp_state *state, const char *option, const char *text);
/* parses a fraction, such as "10%" or "0.1" */
double cli_share(struct argp_state *state, const char *option, const char *text);
uint64_t cli_count(struct argp_state *state, const char *option, const char *text,
                   uint64_t most); /* parses an integer from 1 to `most` */
/* Returns the index of `text` in the list `names`, which ends with NULL. A text that is not in the
 * list is a usage error that prints the list. */
uint32_t cli_choice(struct argp_state *state, const char *option, const char *text,
                    const char *const *names);
#define CLI_CHOICE(state, option, text, ...)                                                       \
    cli_choice(state, option, text, (const char *const[]){__VA_ARGS__, NULL})
/* Returns the device with this name in `tenure list hardware`. An unknown name is a usage error
 * that suggests the nearest name. */
const tn_hardware *cli_hardware(const struct argp_state *state, const char *option,
                                const char *text);
/* Parses the name of a device, as cli_hardware does, or a size in bytes. For a size it returns NULL
 * and sets *limit to the size. For a device it sets *limit to the bytes that a program can use: the
 * memory that the driver reports, minus the driver's context. */
const tn_hardware *cli_device(const struct argp_state *state, const char *text, uint64_t *limit);

/* --- text for people (terminal/messages.c) --- */

/* Replaces stdout and stderr by streams that print control characters as escapes. */
void cli_show_controls(void);
/* standard error without the escapes of cli_show_controls, for moving the cursor */
FILE *cli_terminal(void);
/* Prints text that may contain names from files in one line: newlines and tabs are printed as
 * escapes, too. */
void cli_put_text(FILE *file, const char *text);

/* Returns the width of the output in columns: the variable COLUMNS if it is set, else the width of
 * the terminal, else 80. Very small and very large widths are replaced by a limit. */
uint32_t cli_columns(FILE *to);
/* Prints text in lines of at most `columns` columns. The first line begins at column `at`; each
 * further line begins with `indent` blanks. */
void cli_fill(FILE *to, const char *text, uint32_t at, uint32_t indent, uint32_t columns);

/* cli_prefix prints "tenure: error: ", "tenure: warning: " or "tenure: note: " on standard error.
 * On a terminal the prefix is in colour unless the variable NO_COLOR is set. */
typedef enum cli_level { CLI_ERROR, CLI_WARNING, CLI_NOTE } cli_level;
void cli_prefix(cli_level level);
/* cli_fail prints "tenure: error: WHERE: MESSAGE" and returns the exit status. With --json and an
 * exit status of 1 or 3 it also prints the error as a JSON object on standard output. cli_fail_with
 * adds `members`, a text from cli_members_text, to that object. */
int cli_fail(const tn_error *error);
int cli_fail_with(const tn_error *error, const char *members);
/* Prints "tenure: note: MESSAGE", except with --quiet. */
void cli_note(const char *message);
/* Flushes standard output. Returns `status`, or 2 if a write failed. If the reader of a pipe has
 * ended, ends the process by SIGPIPE. */
int cli_finish(int status);

/* --- files of the command line (terminal/files.c) --- */

/* Returns the path of an input file. For "-", standard input, that is a path with the suffix of the
 * detected kind of file, such as "-.csv". Standard input can then be read several times. */
const char *cli_standard_input(struct argp_state *state, const char *path);
/* Returns the path of an output file; for "-", standard output, that is "-.json". If the file is
 * standard output, text for people goes to standard error from then on. */
const char *cli_standard_output(const char *path);
/* Returns the path as messages print it: "<stdin>" for standard input. */
const char *cli_shown_path(const char *path);
/* Whether a path such as "-.csv" can only mean standard input, because nothing is written to
 * standard output as a file. Messages then call it <stdin>. */
bool cli_standard_is_input(void);
/* The same for the value of an option that reads a file. Standard input can be given once, in an
 * option or as an argument. */
const char *cli_standard_value(struct argp_state *state, const char *option, const char *path);
/* Unless --overwrite is given, an output file must not be an input file. cli_note_input records an
 * input file and cli_check_folder an output file. cli_check_files compares all recorded files and
 * ends the program with a usage error if two are the same file. */
void cli_note_input(const char *path);
void cli_check_files(void);
/* Records an output file, and ends the program with a usage error if the file's folder does not
 * exist or the path is a folder. Commands call it before the work begins. */
void cli_check_folder(struct argp_state *state, const char *option, const char *path);
/* The output files of an option that may be repeated. */
#define CLI_PATHS_MAX 16u
typedef struct cli_paths {
    const char *at[CLI_PATHS_MAX];
    uint32_t count;
} cli_paths;
/* Adds an output file to `paths`. A path that ends in none of the `suffixes` (an array that ends
 * with NULL) is a usage error. */
void cli_paths_add(struct argp_state *state, const char *option, const char *const *suffixes,
                   const char *path, cli_paths *paths);
#define CLI_PATHS_ADD(state, option, path, paths, ...)                                             \
    cli_paths_add(state, option, (const char *const[]){__VA_ARGS__, NULL}, path, paths)
tn_status cli_paths_write(const cli_paths *paths,
                          tn_status (*write)(const void *self, const char *path, tn_error *error),
                          const void *self, tn_error *error);
/* Prints a line "wrote FILE" for each file of `paths`. */
void cli_paths_print(const cli_paths *paths);
/* Stores in *slot the file of an option that must not be repeated. A second file for the option is
 * a usage error. */
void cli_path_once(struct argp_state *state, const char *option, const char **slot,
                   const char *path);
/* Adds a file of the option -o. A suffix without a registered format and a missing folder are usage
 * errors. */
void cli_add_output(struct argp_state *state, const char **outputs, uint32_t *count, uint32_t most,
                    const char *path);
/* Writes the suffixes of all registered formats of plans, such as ".json .csv .svg", and returns
 * `text`. */
#define CLI_SUFFIXES_MAX 160
const char *cli_suffixes(char text[CLI_SUFFIXES_MAX]);

/* --- signals, time and progress (terminal/progress.c) --- */

double cli_clock(void); /* Returns the seconds of a monotonic clock. */

/* Installs a handler of a signal. SIGINT and SIGTERM are blocked while the handler runs. A signal
 * that is ignored stays ignored, with one exception: SIGINT and SIGQUIT, which a shell ignores for
 * background jobs, get any handler except cli_end_by_signal. */
void cli_on_signal(int number, void (*handler)(int));
/* A signal handler calls this function first. It returns false for the first signal. For a second
 * signal it returns true, and the process ends as soon as the handler returns. Signals within a
 * quarter of a second count as one, because timeout(1) signals the process and then the process
 * group. */
bool cli_signal_repeats(int number);
/* A signal handler that removes unfinished output files, then ends the process as the signal would
 * by default. */
void cli_end_by_signal(int number);

/* Returns a context with callbacks that print notes and report progress on standard error as
 * --progress asks. */
tn_context cli_context(void);
void cli_progress_end(void);
extern const char *const cli_progress_modes[]; /* the values of --progress, followed by NULL */
void cli_progress_set(uint32_t mode);
/* How progress is shown on standard error, by --progress and by what standard error is. */
typedef enum cli_progress_form {
    CLI_PROGRESS_SILENT,
    CLI_PROGRESS_BAR,  /* progress is one line that is overwritten */
    CLI_PROGRESS_LINES /* progress is printed as lines, at growing intervals */
} cli_progress_form;
cli_progress_form cli_progress_shown(void);
/* Returns the seconds from one line to the next, after `passed` seconds of work. */
double cli_progress_wait(double passed);
/* from now on, print costs of `fit` without a unit, not in seconds */
void cli_progress_plain_costs(void);
/* After this call, the first Ctrl-C stops planning and fitting, and the command reports the best
 * answer so far. A second Ctrl-C ends the process. */
void cli_interrupt_ends_work(void);
bool cli_interrupted(void);
/* Sets the time, on the clock of cli_clock, at which the stage named `stage` stops as if it was
 * interrupted. A `stage` of NULL means every stage; a time of 0 means no deadline. */
void cli_deadline(double at, const char *stage);
bool cli_is_late(void);
/* Prints a warning that the search was interrupted, with the gap between the best result and the
 * lower bound; a `bound` of 0 is unknown. Returns the exit status 3. */
int cli_print_interrupted(uint64_t best, uint64_t bound);

#endif
