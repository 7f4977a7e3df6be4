/* cli.h - what the subcommands share: the table of commands, input, errors, progress.
 *
 * A command is one file in commands/ and one line in commands.def: a table of options, parsed into
 * a struct, one chain of public calls, printed.
 */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#include <argp.h>
#include <stdio.h>

#include <tenure/tenure.h>

typedef struct cli_command {
    const char *name;
    const char *summary;       /* one line for `tenure --help` */
    const char *first;         /* its options that most need, "output json": up to ten */
    const struct argp *parser; /* its options: for parsing, help and completion */
    bool has_ranks; /* processes of mpirun run it together: what is wrong is told by one of them */
    int (*run)(int count, char **arguments); /* arguments[0] is "tenure NAME"; exit status */
} cli_command;

#define TN_COMMAND(name) extern const cli_command cli_command_##name;
#include "cli/commands.def"
#undef TN_COMMAND
/* main.c: the table, in the order of commands.def. */
uint32_t cli_command_count(void);
const cli_command *cli_command_at(uint32_t index);

/* lists.c: what this build knows, by the name of the list: "planners". */
typedef struct cli_list {
    const char *name, *about;
    uint32_t (*count)(void);
    const char *(*row)(uint32_t index);
    const char *key; /* of the detail in JSON */
    const char *(*detail)(uint32_t index);
    const char *(*make)(uint32_t index, char *detail, size_t room); /* in place of `detail` */
} cli_list;
uint32_t cli_list_count(void);
const cli_list *cli_list_at(uint32_t index);
const cli_list *cli_list_find(const char *name); /* NULL: there is none */
#define CLI_LIST_TEXT 512                        /* bytes of a detail that is made */

/* parse.c: what every command takes is taken here; the rest goes to command->parser with `input`.
 * Ends the program with what was asked (--help), or with a usage error. */
void cli_parse(const cli_command *command, int count, char **words, void *input);
/* Ends the program with a usage error of one line: what is wrong and what to do. */
void cli_misuse(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* From here on usage errors are about the options in that file; NULL: the command line's again. */
void cli_misuse_in(const char *path);
/* The same, of what was found out in some other way. */
void cli_end(const tn_error *error) __attribute__((noreturn));
/* Prints how a command is used and its options: the first, or all of them. */
void cli_help(const cli_command *command, bool all, FILE *to);

/* How the user wants to be told. */
typedef struct cli_tone {
    bool quiet; /* files and the exit status alone, and errors */
    bool brief; /* one line */
    bool json;  /* one object: the command's own --json was given */
} cli_tone;
cli_tone cli_tone_asked(void);
bool cli_follows_links(void); /* --follow-links, once the words are parsed */

/* options.c: the options of a command as one list: its own, those of its children under their
 * headings, those of every command. */
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
extern const struct argp cli_common_argp;

/* shape.c: columns of a terminal, or 80; of COLUMNS where that is set. */
uint32_t cli_columns(FILE *to);
/* Words that are filled into lines of so many columns, each after `indent` spaces, the first of
 * which starts at column `at`. */
void cli_fill(FILE *to, const char *text, uint32_t at, uint32_t indent, uint32_t columns);

/* A row of a command's options: X(key, name, argument or NULL, help). Help is required. */
#define CLI_OPTION(key, name, argument, help)                                                      \
    {name, key, argument, 0 * (int)sizeof(char[sizeof(help) > 8 ? 1 : -1]), help, 0},

/* The suffixes that plans are written with (" .json .csv ..."), of every format that is registered.
 */
#define CLI_SUFFIXES_MAX 160
const char *cli_suffixes(char text[CLI_SUFFIXES_MAX]);

/* visible.c: from here on, stdout and stderr show control characters as escapes. */
void cli_show_controls(void);
FILE *cli_terminal(void);         /* standard error as it is, to move the cursor */
int cli_descriptor(FILE *stream); /* of stdout and stderr, whatever they are */
/* Prints text with names from files: no control character of theirs reaches the terminal. */
void cli_put_text(FILE *file, const char *text);
/* Prints "tenure: WHERE: MESSAGE" and returns the exit status. With --json an answer of status 1 or
 * 3 is an object on standard output as well, with `members` (",\"name\":...") behind its own. */
int cli_fail(const tn_error *error);
int cli_fail_with(const tn_error *error, const char *members);
/* Prints "tenure: note: MESSAGE". */
void cli_note(const char *message);
/* Parses the value of an option, or ends the program with a usage error that names it. */
uint64_t cli_size(struct argp_state *state, const char *option, const char *text);
uint64_t cli_number(struct argp_state *state, const char *option, const char *text);
uint64_t cli_range(struct argp_state *state, const char *option, const char *text, uint64_t least,
                   uint64_t most);
double cli_duration(struct argp_state *state, const char *option, const char *text);
double cli_speed(struct argp_state *state, const char *option, const char *text); /* 0.5GB/s */
double cli_real(struct argp_state *state, const char *option, const char *text);  /* from 0 up */
uint64_t cli_count(struct argp_state *state, const char *option, const char *text,
                   uint64_t most); /* from 1 up */
/* Which of `names` (NULL at the end) it is, or a usage error that lists them. */
uint32_t cli_choice(struct argp_state *state, const char *option, const char *text,
                    const char *const *names);
#define CLI_CHOICE(state, option, text, ...)                                                       \
    cli_choice(state, option, text, (const char *const[]){__VA_ARGS__, NULL})
/* A device of `tenure list hardware`, or a usage error with the nearest one. */
const tn_hardware *cli_hardware(const struct argp_state *state, const char *option,
                                const char *text);
/* A device of that list, or NULL and *limit bytes. */
const tn_hardware *cli_device(const struct argp_state *state, const char *text, uint64_t *limit);
/* Standard output whole or an error: flushed, and checked. Returns `status`, or 2 when it failed.
 */
int cli_finish(int status);
/* version.c: all of `tenure --version`; returns the exit status. */
int cli_version(void);

/* standard.c: `-`, standard input and output. A path "-" becomes one whose suffix tells the kind,
 * "-.csv"; other paths stay. What is read may be read again. */
bool cli_is_standard(const char *path);
const char *cli_standard_input(struct argp_state *state, const char *path);
const char *cli_standard_output(const char *path); /* text goes to standard error from then on */
/* Files that are read and written: what is written must be none that is read, unless --overwrite is
 * given. cli_standard_input and cli_check_folder note theirs; cli_check_files looks at them. */
void cli_note_input(const char *path);
void cli_note_output(const char *option, const char *path);
void cli_check_files(void);
/* A usage error where nobody could write such a file: before what it is for takes its time. */
void cli_check_folder(struct argp_state *state, const char *option, const char *path);
/* Files that one option names, each of which is written: the option may be repeated. */
#define CLI_PATHS_MAX 16u
typedef struct cli_paths {
    const char *at[CLI_PATHS_MAX];
    uint32_t count;
} cli_paths;
/* Adds a file whose suffix is one of `suffixes` (NULL at its end), or ends with a usage error. */
void cli_paths_add(struct argp_state *state, const char *option, const char *const *suffixes,
                   const char *path, cli_paths *paths);
#define CLI_PATHS_ADD(state, option, path, paths, ...)                                             \
    cli_paths_add(state, option, (const char *const[]){__VA_ARGS__, NULL}, path, paths)
bool cli_paths_has(const cli_paths *paths, const char *suffix);
tn_status cli_paths_write(const cli_paths *paths,
                          tn_status (*write)(const void *self, const char *path, tn_error *error),
                          const void *self, tn_error *error);
void cli_paths_print(const cli_paths *paths); /* "wrote FILE", a line each */
/* The one file of an option that cannot be repeated, or a usage error. */
void cli_path_once(struct argp_state *state, const char *option, const char **slot,
                   const char *path);
/* One more file to write, in a format that its suffix says and a folder that there is, or a usage
 * error. */
void cli_add_output(struct argp_state *state, const char **outputs, uint32_t *count, uint32_t most,
                    const char *path);

/* --- input: a model or a problem --- */

enum { /* keys of the shared options; commands use letters and numbers from 400 */
       CLI_DIM = 300,
       CLI_READ_LIMIT,
       CLI_INPUT_SHAPE,
       CLI_VALUE,
       CLI_PARAMETER,
       CLI_FORMAT,
       CLI_ALIGNMENT,
       CLI_ORDER,
       CLI_STATIC,
       CLI_NO_INPLACE,
       CLI_NO_VIEWS,
       CLI_FUSE_CONCAT,
       CLI_BANK,
       CLI_PARALLEL,
       CLI_KERNELS,
       CLI_NO_REWRITE,
       CLI_FASTEST,
       CLI_BATCH, /* from here on: commands have words of their own for them, plans carry them */
       CLI_TARGET,
       CLI_VARIABLES_OUTSIDE,
       CLI_SPLIT_REGION,
       CLI_SPLIT_AGAIN
};

#define CLI_BANKS_MAX 16u /* memories of one device */

/* Whose kernels run a .tflite model: they decide about scratch memory. */
typedef enum cli_kernels { CLI_KERNELS_REFERENCE, CLI_KERNELS_CMSIS, CLI_KERNELS_ANY } cli_kernels;

typedef enum cli_runner { CLI_RUNNER_NONE, CLI_RUNNER_PLAIN, CLI_RUNNER_ONEDNN } cli_runner;
typedef struct cli_whom { /* for whose kernels memory is planned: whom.h. Zero: the graph alone */
    cli_runner runner;
    uint32_t threads; /* of theirs; 0: 1 */
    bool no_rewrite;  /* operators as they are in the file */
    bool staged;      /* a step in stages: rewritten before it is divided, not behind that */
    bool fastest;     /* whatever scratch that takes */
} cli_whom;

/* Whether operators run in parts (split.h). */
typedef struct cli_split {
    tn_split_region *regions; /* [region_count] those of a plan, with `again`; 0: none */
    tn_split_again *again;    /* [again_count] */
    uint32_t region_count, again_count;
    bool asked, has_share;
    bool sweeps; /* a curve is asked for */
    tn_setup_split options;
} cli_split;

typedef struct cli_input {
    const char *path;
    tn_import_options import;
    tn_occupancy_options occupancy_options;
    bool has_model_options;   /* one that makes sense for models only was given */
    uint32_t given;           /* options of the command line: bit key - CLI_DIM */
    const char *format;       /* --format as it was given; NULL: it was not */
    const char *target;       /* of `arena`: the microcontroller; NULL: none */
    uint64_t alignment;       /* 0: the default of the input */
    uint64_t read_limit;      /* bytes from a pipe; 0: the default */
    bool wants_csv;           /* the plan will be written as a CSV, which cannot say everything */
    bool ends_work;           /* cli_interrupt_ends_work, once it was read */
    const char *order;        /* of operators; NULL: the file's */
    const tn_op_id *sequence; /* a plan's own order, of verify */
    uint32_t sequence_count;
    bool replays;              /* the program is a plan's own: nothing is chosen anew */
    const tn_program *program; /* that one, once the graph is there */
    uint64_t *scratch; /* then [operators] bytes of scratch that the plan gives each kernel; NULL:
                        * there are no kernels */
    tn_bank banks[CLI_BANKS_MAX];
    uint32_t bank_count;
    cli_kernels kernels; /* of a .tflite model */
    cli_whom whom;
    tn_static_place statics;
    cli_split split;                     /* of plan and run */
    const struct cli_training *training; /* NULL, or what is planned is a step of it */
    uint64_t *workspaces;                /* [operators of a .tflite model] */
    /* what was loaded */
    tn_graph *graph;
    tn_graph *rewritten; /* what of it is trained; NULL: itself */
    tn_training step;    /* with `training` */
    tn_setup *setup;     /* of a model; NULL: none */
    const tn_occupancy *occupancy;
    tn_problem *own; /* when the input is a problem */
    tn_layout own_layout;
    const tn_problem *problem;
    const tn_layout *layout; /* NULL: not planned */
    tn_stage stages[8];
    uint32_t stage_count;
} cli_input;

/* The options that say how to read the input; a child of each command's parser. Without those that
 * mean nothing to who runs the model, or something else in `estimate`. */
extern const struct argp cli_input_argp, cli_input_run_argp, cli_input_train_argp,
    cli_input_sizes_argp, cli_input_estimate_argp;
/* Takes one option by its name, as plans carry it; value NULL: a switch. False: there is none. */
bool cli_input_apply(cli_input *input, const char *name, const char *value);
/* The one path that a command takes; what: "model" or "input", for who gives another. */
void cli_input_take(cli_input *input, struct argp_state *state, const char *what, const char *path);
bool cli_input_is_model(const cli_input *input);
/* The graph that is planned: the model's, or what it was rewritten to. */
const tn_graph *cli_input_graph(const cli_input *input);
tn_status cli_input_load(cli_input *input, tn_error *error); /* sets `problem` */
/* The problem of a model anew, after its options of memory were changed. */
tn_status cli_input_again(cli_input *input, tn_error *error);
/* The same for input->program, instead of the one that was made. */
tn_status cli_input_replay(cli_input *input, tn_error *error);
/* The same for kernels of these options. */
tn_status cli_input_occupy(cli_input *input, const tn_micro_options *micro, tn_error *error);
/* Loads and plans: sets `layout`; of several orders that were asked for the one with the smallest
 * arena. */
tn_status cli_input_plan(cli_input *input, const tn_plan_options *options, tn_error *error);
/* Loads, and plans with operators in parts: tn_setup_split_sweep. */
tn_status cli_input_sweep(cli_input *input, const tn_plan_options *options, uint32_t count,
                          tn_setup **setups, uint32_t *found, tn_error *error);
void cli_input_take_setup(cli_input *input, tn_setup *setup); /* it is the input's */
void cli_input_release(cli_input *input);
void cli_input_release_loaded(cli_input *input); /* what was loaded; the options stay */
void cli_stage(cli_input *input, const char *name, double seconds);
double cli_clock(void);
/* A handler of SIGINT or SIGTERM that stays, and holds back both while it runs. It asks first
 * whether somebody asks again, who wants the process to end at once, as it then does when the
 * handler returns. What comes within a quarter of a second is one wish: timeout(1) signals the
 * process, then its group, and so it gets two. */
void cli_on_signal(int number, void (*handler)(int));
/* A handler: removes unfinished files, then ends the process as the signal does by default. */
void cli_end_by_signal(int number);
bool cli_asks_again(int number);

#define CLI_TFLITE_ALIGNMENT 16u /* of plans inside .tflite models, by default */

/* tflite.c: lets a report of the input write a .tflite model with the plan inside, where it is one.
 */
void cli_report_model(tn_report *report, cli_input *input);

/* --- progress --- */

/* A context that tells of long work on standard error: by a bar on a terminal, else by lines. */
tn_context cli_context(void);
void cli_progress_end(void);
extern const char *const cli_progress_modes[]; /* of --progress; NULL at the end */
void cli_progress_set(uint32_t mode);
void cli_progress_plain_costs(void); /* times are costs of no unit */
/* From here on Ctrl-C ends planning and fitting with the best answer so far; a second one ends the
 * process. */
void cli_interrupt_ends_work(void);
bool cli_interrupted(void);
/* From this time on (cli_clock) long work of the stage (NULL: of any) ends as if it was
 * interrupted; 0: no more. */
void cli_deadline(double at, const char *stage);
bool cli_is_late(void);
/* Says that it was, and how far the answer is from the bound (0: there is none); status 3. */
int cli_tell_interrupted(uint64_t best, uint64_t bound);

#endif
