/* plan_options.h - the options of a plan, as words: written into the plan, read back, and compared
 * with the command line.
 */
#ifndef TN_CLI_PLAN_OPTIONS_H
#define TN_CLI_PLAN_OPTIONS_H

#include "cli/train_options.h"

/* A list of options; the value is a separate string. */
typedef struct cli_words cli_words;
struct cli_words {
    tn_report_option *rows; /* [count] */
    uint32_t count;
    size_t room;
    bool failed; /* out of memory */
};

/* Adds `name` with a printf-formatted value; format NULL: a switch. */
void cli_words_add(cli_words *words, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void cli_words_release(cli_words *words);

/* Adds every option that affects the plan of this input, with defaults spelled out: reading the
 * model, order, memory, kernels, training, and the tiles of the setup (NULL: none). */
void cli_words_of(const cli_input *input, const tn_setup *setup, cli_words *words);

/* Adds the words to a report; they must outlive the report. */
void cli_report_words(tn_report *report, const char *command, const cli_words *words);

/* Ends the program with a usage error if an option of the command line (`given`) differs from the
 * plan; the message names both. */
void cli_words_check(const cli_input *given, const cli_input *of_plan, const char *path);

/* Applies one option of a plan; value NULL: a switch. False: the option is unknown, or its value is
 * missing or unexpected. An invalid value ends the program with a usage error. */
bool cli_words_apply(cli_input *input, cli_training *training, const char *name, const char *value);

#endif
