/* plan_options.h - the options that made a plan, as words: written into the plan, read back from
 * it, and compared with those of the command line.
 */
#ifndef TN_CLI_PLAN_OPTIONS_H
#define TN_CLI_PLAN_OPTIONS_H

#include "cli/train_options.h"

/* A list of options; a value is a string of its own. */
typedef struct cli_words cli_words;
struct cli_words {
    tn_report_option *rows; /* [count] */
    uint32_t count;
    size_t room;
    bool failed; /* out of memory */
};

/* Adds `name` with a value in printf's form; format NULL: a switch. */
void cli_words_add(cli_words *words, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void cli_words_release(cli_words *words);

/* Every option that decided about the plan of this input, with its defaults spelled out: those of
 * reading the model, order, memory, kernels, training, and of the set-up (NULL: none) what runs in
 * parts. */
void cli_words_of(const cli_input *input, const tn_setup *setup, cli_words *words);

/* Lets a report carry the words; they live as long as the report. */
void cli_report_words(tn_report *report, const char *command, const cli_words *words);

/* Whether an option that was given on the command line (`given`) says something else than the plan
 * does; then the program ends with a usage error that names both. */
void cli_words_check(const cli_input *given, const cli_input *of_plan, const char *path);

/* Takes one option of a plan; value NULL: a switch. False: there is no such option, or it takes a
 * value and has none, or the other way round. A bad value ends the program with a usage error. */
bool cli_words_apply(cli_input *input, cli_training *training, const char *name, const char *value);

#endif
