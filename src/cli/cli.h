/* cli.h - shared by the subcommands: the table of commands, input, errors, progress.
 *
 * A command is one file in commands/ and one line in commands.def: it parses a table of options
 * into a struct, makes one chain of public calls, and prints the result.
 */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#include <argp.h>
#include <stdio.h>

#include <tenure/tenure.h>

#include "base/base.h"
#include "cli/streams.h"

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
    const struct cli_facts *const *answers; /* facts.h: of --json, the last NULL; NULL: none */
    const struct argp *parser;              /* its options, for parsing, help and completion */
    bool has_ranks; /* mpirun may start several processes; only one of them prints an error */
    int (*run)(int count, char **arguments); /* arguments[0] is "tenure NAME"; exit status */
} cli_command;

#define TN_COMMAND(name) extern const cli_command cli_command_##name;
#include "cli/commands.def"
#undef TN_COMMAND
/* main.c: the table, in the order of commands.def. */
uint32_t cli_command_count(void);
const cli_command *cli_command_at(uint32_t index);

/* lists.c: the registries of this build, by list name: "planners". */
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

/* parse.c: parses the options of every command; command->parser gets the rest with `input`. Ends
 * the program after --help and on a usage error. */
void cli_parse(const cli_command *command, int count, char **words, void *input);
/* Ends the program with a usage error of one line: the problem, and how to fix it. */
void cli_misuse(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* Later usage errors name this file, whose options are being read; NULL: the command line again. */
void cli_misuse_in(const char *path);
/* Ends the program with an error of the library. */
void cli_end(const tn_error *error) __attribute__((noreturn));
/* Prints the usage of a command and its options: the common ones (what NULL), all of them ("all"),
 * or those of a topic. False: it has no such topic, and nothing is printed. */
bool cli_help(const cli_command *command, const char *what, FILE *to);

/* How much the user wants to read. */
typedef struct cli_tone {
    bool quiet; /* errors only */
    bool brief; /* one line */
    bool json;  /* one object; the command's own --json was given */
} cli_tone;
cli_tone cli_tone_asked(void);
bool cli_follows_links(void);               /* --follow-links, once the words are parsed */
void cli_context_read(tn_context *context); /* --follow-links and --read-limit, likewise */

/* options.c: the options of a command in one list: its own, those of its children under their
 * headings, and those of every command. */
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
extern const struct argp cli_common_argp;

/* shape.c: columns of the terminal, else 80; the variable COLUMNS overrides both. */
uint32_t cli_columns(FILE *to);
/* Prints text in lines of at most `columns`, each after `indent` spaces. The first line starts at
 * column `at`. */
void cli_fill(FILE *to, const char *text, uint32_t at, uint32_t indent, uint32_t columns);

/* A row of a command's options: X(key, name, argument or NULL, help). Help is required. */
#define CLI_OPTION(key, name, argument, help)                                                      \
    {name, key, argument, 0 * (int)sizeof(char[sizeof(help) > 8 ? 1 : -1]), help, 0},

/* The suffixes of all registered formats for plans: " .json .csv ...".
 */
#define CLI_SUFFIXES_MAX 160
const char *cli_suffixes(char text[CLI_SUFFIXES_MAX]);

/* visible.c: after this call stdout and stderr show control characters as escapes. */
void cli_show_controls(void);
FILE *cli_terminal(void);         /* the unfiltered standard error, to move the cursor */
int cli_descriptor(FILE *stream); /* the file descriptor of stdout or stderr */
/* Prints text that may hold names from files in one line: newlines and tabs are escapes, too. */
void cli_put_text(FILE *file, const char *text);
/* settings.c: a message of the library, with the command's options instead of the settings that it
 * names between backticks. `text` was initialised and holds the answer. Without memory the answer
 * is `message` itself. */
const char *cli_settings(const char *message, tn__text *text);
/* shared.c: prints "tenure: error: ", "tenure: warning: " or "tenure: note: " on standard error, in
 * colour on a terminal unless the variable NO_COLOR is set. */
typedef enum cli_level { CLI_ERROR, CLI_WARNING, CLI_NOTE } cli_level;
void cli_prefix(cli_level level);
/* Prints "tenure: error: WHERE: MESSAGE" and returns the exit status. With --json and exit status 1
 * or 3, also prints an object on standard output that ends with `members` (cli_members_text). */
int cli_fail(const tn_error *error);
int cli_fail_with(const tn_error *error, const char *members);
/* Prints "tenure: note: MESSAGE", except with --quiet. */
void cli_note(const char *message);
/* Parses the value of an option. Ends the program with a usage error that names the option. */
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
/* Flushes standard output. Returns `status`, or 2 if any write failed.
 */
int cli_finish(int status);
/* version.c: prints `tenure version`; returns the exit status. */
int cli_version(void);

/* standard.c: `-`, standard input and output. The path "-" becomes a path with the suffix of its
 * contents, such as "-.csv"; other paths stay. The input may be read several times. */
bool cli_is_standard(const char *path);
/* A path for people: "<stdin>" for standard input. */
const char *cli_shown_path(const char *path);
/* Whether a path "-.csv" can only mean standard input, which messages call <stdin>. */
bool cli_standard_is_input(void);
const char *cli_standard_input(struct argp_state *state, const char *path);
const char *cli_standard_output(const char *path); /* later text for people goes to standard
                                                    * error */
/* An output file must not be an input file unless --overwrite is given. cli_standard_input and
 * cli_check_folder record the files; cli_check_files compares them. */
void cli_note_input(const char *path);
void cli_note_output(const char *option, const char *path);
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
bool cli_paths_has(const cli_paths *paths, const char *suffix);
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

/* --- input: a model or a problem --- */

enum { /* keys of the shared options; a command uses letters and numbers from 400 */
       CLI_DIM = 300,
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
       CLI_MODULE,
       CLI_BATCH, /* from here on: recorded in plans; commands describe them in their own way */
       CLI_TARGET,
       CLI_VARIABLES_OUTSIDE,
       CLI_SPLIT_REGION,
       CLI_SPLIT_AGAIN,
       CLI_KEEP, /* rules about tensors: not recorded in plans, which contain their program */
       CLI_RECOMPUTE,
       CLI_SWAP,
       CLI_SEGMENTS
};

#define CLI_BANKS_MAX 16u /* memories of one device */

/* The kernels that run a .tflite model (micro.h); zero: the reference kernels. */
typedef struct cli_kernels {
    tn_micro_kernels library;
    char version[24]; /* of the library; "": any */
    tn_micro_compiler compiler;
    uint32_t runtime; /* revision of TensorFlow Lite Micro, as 20250131; 0: any */
    char text[64];    /* as it was given; "": the default */
} cli_kernels;

typedef enum cli_runner { CLI_RUNNER_NONE, CLI_RUNNER_PLAIN, CLI_RUNNER_ONEDNN } cli_runner;
typedef struct cli_whom { /* the kernel library to plan for (whom.h); zero: the graph alone */
    cli_runner runner;
    uint32_t threads; /* of the kernels; 0 means 1 */
    bool no_rewrite;  /* keep the operators of the file */
    bool staged;      /* training with pipeline stages: rewrite before dividing, not after */
    bool fastest;     /* fastest kernels, regardless of their scratch */
} cli_whom;

/* Whether operators run in tiles (split.h). */
typedef struct cli_split {
    tn_split_region *regions; /* [region_count] the regions of a plan, with `again` */
    tn_split_again *again;    /* [again_count] */
    uint32_t region_count, again_count;
    bool asked, has_share;
    bool sweeps; /* a curve was requested */
    tn_setup_split options;
} cli_split;

typedef struct cli_input {
    const char *path;
    tn_import_options import;
    tn_occupancy_options occupancy_options;
    bool of_plan;             /* the options are those of a plan of a model */
    uint32_t given;           /* options of the command line, as bits 1 << (key - CLI_DIM) */
    const char *format;       /* --format as given, or NULL */
    const char *module;       /* of a plan of another tool; NULL: the default */
    const char *target;       /* the microcontroller of `arena`, or NULL */
    uint64_t alignment;       /* 0: the default */
    bool wants_csv;           /* the plan will be written as CSV, which cannot describe every
                               * problem */
    bool ends_work;           /* call cli_interrupt_ends_work after reading */
    const char *order;        /* order of operators; NULL: the order of the file */
    const tn_op_id *sequence; /* the order of a plan, for verify */
    uint32_t sequence_count;
    bool replays;              /* the program comes from a plan; choose nothing */
    const tn_program *program; /* that program, after the graph was made */
    uint64_t *scratch; /* [operators] then the scratch bytes that the plan gives each kernel; NULL:
                        * no kernels */
    tn_bank banks[CLI_BANKS_MAX];
    uint32_t bank_count;
    cli_kernels kernels; /* for a .tflite model */
    cli_whom whom;
    tn_static_place statics;
    cli_split split;                     /* for plan and run */
    tn_rules rules;                      /* for fit, run, train and estimate */
    const struct cli_training *training; /* NULL, or plan a step of this training */
    uint64_t *workspaces;                /* [operators of a .tflite model] */
    /* loaded */
    tn_graph *graph;
    tn_graph *rewritten; /* the part of `graph` that is trained; NULL: all of it */
    tn_training step;    /* set with `training` */
    tn_setup *setup;     /* set for a model; NULL: none */
    const tn_occupancy *occupancy;
    struct tn_foreign *foreign; /* set for a plan of another tool, with `own` */
    tn_problem *own;            /* set for a problem */
    tn_layout own_layout;
    tn_fit_answer answer; /* of cli_input_fit; then it owns the setup */
    const tn_problem *problem;
    const tn_layout *layout; /* NULL: not planned */
    tn_stage stages[8];
    uint32_t stage_count;
} cli_input;

/* The options for reading the input, a child of each command's parser. The variants omit options
 * that do not apply when a model runs, or that mean something else in `estimate`. */
/* rules.c: adds a rule, whose pattern ends with :prefetch=N for SWAP; frees the rules. */
void cli_rule_add(struct argp_state *state, cli_input *input, tn_rule_kind kind, const char *value);
void cli_rules_release(cli_input *input);
extern const struct argp cli_input_argp, cli_input_run_argp, cli_input_fit_argp,
    cli_input_train_argp, cli_input_sizes_argp, cli_input_estimate_argp;
/* Applies an option by name, as recorded in a plan; value NULL: a switch. False: unknown name. */
bool cli_input_apply(cli_input *input, const char *name, const char *value);
/* Stores the input path of a command. `what` ("model", "input") names it in the usage error for a
 * second path. */
void cli_input_take(cli_input *input, struct argp_state *state, const char *what, const char *path);
bool cli_input_is_model(const cli_input *input);
/* The graph that is planned: the model's own, or the rewritten one. */
const tn_graph *cli_input_graph(const cli_input *input);
tn_status cli_input_load(cli_input *input, tn_error *error); /* sets `problem` */
/* Makes the problem of a model again after its memory options changed. */
tn_status cli_input_again(cli_input *input, tn_error *error);
/* The same for input->program instead of the program that was made. */
tn_status cli_input_replay(cli_input *input, tn_error *error);
/* The same for kernels of these options. */
tn_status cli_input_occupy(cli_input *input, const tn_micro_options *micro, tn_error *error);
/* Loads and plans; sets `layout`. With --order auto it keeps the order with the smallest arena. */
tn_status cli_input_plan(cli_input *input, const tn_plan_options *options, tn_error *error);
/* Reads a problem that is not planned again if it has offsets. A model: use cli_input_plan. */
tn_status cli_input_load_layout(cli_input *input, const tn_plan_options *options, tn_error *error);
/* Plans a model within a budget by tn_fit_graph: with operators in tiles if input->split says so,
 * else without changes. `arena`: the budget is for the arena alone. The claims about it are in
 * input->answer. */
tn_status cli_input_fit(cli_input *input, const tn_plan_options *options, uint64_t budget,
                        bool arena, tn_error *error);
/* Loads, and plans with operators in tiles: tn_setup_split_sweep. */
tn_status cli_input_sweep(cli_input *input, const tn_plan_options *options, uint32_t count,
                          tn_setup **setups, uint32_t *found, tn_error *error);
void cli_input_take_setup(cli_input *input, tn_setup *setup); /* now owned by the input */
void cli_input_release(cli_input *input);
void cli_input_release_loaded(
    cli_input *input); /* releases the loaded data and keeps the options */
void cli_stage(cli_input *input, const char *name, double seconds);
double cli_clock(void);
/* A handler of SIGINT or SIGTERM calls this first. A second signal ends the process as soon as the
 * handler returns. Signals within a quarter of a second count as one, because timeout(1) signals
 * the process and then its group. Both signals are blocked while the handler runs. */
void cli_on_signal(int number, void (*handler)(int));
/* A signal handler that removes unfinished files, then ends the process as the signal does by
 * default. */
void cli_end_by_signal(int number);
bool cli_asks_again(int number);

#define CLI_TFLITE_ALIGNMENT 16u /* default alignment for plans inside .tflite models */

/* tflite.c: if the input is a .tflite model, lets its report write that model with the plan inside.
 */
void cli_report_model(tn_report *report, cli_input *input);

/* --- progress --- */

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
int cli_tell_interrupted(uint64_t best, uint64_t bound);

#endif
