/* plan_options.c - the options of a plan, as words.
 *
 * One function writes each option in normal form from its parsed value. So `64` and `64B`, or a
 * default and the same value given, become the same word. Plans record these words, and `verify`
 * compares its command line with them.
 */
#include "cli/plan_options.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/whom.h"

#define OPTIONS_ALIGNMENT 64u /* the default for models */

/* --- a list --- */

void cli_words_add(cli_words *words, const char *name, const char *format, ...) {
    char *value = NULL;
    tn_context context = tn__context(NULL);
    va_list arguments;
    int length = 0;
    va_start(arguments, format);
    if (format != NULL) length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (format != NULL && length >= 0) value = malloc((size_t)length + 1);
    va_start(arguments, format);
    if (value != NULL) vsnprintf(value, (size_t)length + 1, format, arguments);
    va_end(arguments);
    if (format != NULL && value == NULL) {
        words->failed = true;
        return;
    }
    if (!tn__reserve(&context, &words->rows, &words->room, (size_t)words->count + 1,
                     sizeof *words->rows)) {
        words->failed = true;
        free(value);
        return;
    }
    words->rows[words->count++] = (tn_report_option){name, value};
}

void cli_words_release(cli_words *words) {
    tn_context context = tn__context(NULL);
    for (uint32_t i = 0; i < words->count; i++) free((void *)(uintptr_t)words->rows[i].value);
    tn__free(&context, words->rows, words->room * sizeof *words->rows);
    *words = (cli_words){0};
}

/* --- one option each ---------------------------------------------------------------------------
 */

static void options_shapes(const cli_input *input, const char *name, cli_words *words) {
    for (uint32_t i = 0; i < input->import.input_shape_count; i++) {
        const tn_input_shape *shape = &input->import.input_shapes[i];
        tn__text text;
        tn__text_init(&text, NULL);
        for (uint32_t k = 0; k < shape->rank; k++)
            tn__text_printf(&text, k > 0 ? ",%" PRId64 : "%" PRId64, shape->shape[k]);
        cli_words_add(words, name, "%s=%s", shape->name, shape->rank > 0 ? text.data : "");
        words->failed |= text.failed;
        tn__text_release(&text);
    }
}

static void options_values(const cli_input *input, const char *name, cli_words *words) {
    for (uint32_t i = 0; i < input->import.value_count; i++) {
        const tn_input_value *value = &input->import.values[i];
        tn__text text;
        tn__text_init(&text, NULL);
        for (uint32_t k = 0; k < value->count; k++)
            tn__text_printf(&text, k > 0 ? ",%.17g" : "%.17g", value->numbers[k]);
        cli_words_add(words, name, "%s=%s", value->name, value->count > 0 ? text.data : "");
        words->failed |= text.failed;
        tn__text_release(&text);
    }
}

static void options_banks(const cli_input *input, const char *name, cli_words *words) {
    for (uint32_t i = 0; i < input->bank_count; i++) {
        const tn_bank *bank = &input->banks[i];
        char capacity[24] = "none", speed[48] = "";
        if (bank->capacity > 0) snprintf(capacity, sizeof capacity, "%" PRIu64, bank->capacity);
        if (bank->bytes_per_s > 0) snprintf(speed, sizeof speed, "@%.17gB/s", bank->bytes_per_s);
        cli_words_add(words, name, "%s=%s%s", bank->name, capacity, speed);
    }
}

static void options_kernels(const cli_input *input, const char *name, cli_words *words) {
    static const char *const runners[] = {"none", "plain", "onednn"};
    const char *micro = input->kernels.text[0] != '\0' ? input->kernels.text : "reference";
    bool lite = tn__has_suffix(input->path, ".tflite") && input->training == NULL;
    if (input->whom.runner != CLI_RUNNER_NONE)
        cli_words_add(words, name, "%s:%u", runners[input->whom.runner],
                      input->whom.threads > 0 ? input->whom.threads : 1);
    else
        cli_words_add(words, name, "%s", lite ? micro : "none");
}

static void options_switch(bool on, const char *name, cli_words *words) {
    if (on) cli_words_add(words, name, NULL);
}

/* Adds the words of one option, unless it was not given and has no default to record. */
static void options_word(const cli_input *input, int key, const char *name, cli_words *words) {
    static const char *const statics[] = {"apart", "arena", "first"};
    bool model = cli_input_is_model(input);
    uint64_t alignment = input->alignment > 0 ? input->alignment : model ? OPTIONS_ALIGNMENT : 0;
    switch (key) {
    case CLI_DIM:
        for (uint32_t i = 0; i < input->import.dim_count; i++)
            cli_words_add(words, name, "%s=%" PRId64, input->import.dims[i].name,
                          input->import.dims[i].value);
        return;
    case CLI_INPUT_SHAPE:
        options_shapes(input, name, words);
        return;
    case CLI_VALUE:
        options_values(input, name, words);
        return;
    case CLI_PARAMETER:
        for (uint32_t i = 0; i < input->import.parameter_count; i++)
            cli_words_add(words, name, "%s", input->import.parameters[i]);
        return;
    case CLI_FORMAT:
        if (input->format != NULL) cli_words_add(words, name, "%s", input->format);
        return;
    case CLI_BATCH:
        if (input->import.batch > 0) cli_words_add(words, name, "%" PRId64, input->import.batch);
        return;
    case CLI_ALIGNMENT:
        if (alignment > 0) cli_words_add(words, name, "%" PRIu64, alignment);
        return;
    case CLI_ORDER:
        if (model) cli_words_add(words, name, "%s", input->order != NULL ? input->order : "file");
        return;
    case CLI_BANK:
        options_banks(input, name, words);
        return;
    case CLI_PARALLEL:
        if (model)
            cli_words_add(words, name, "%s",
                          input->occupancy_options.parallel == TN_PARALLEL_SAFE ? "safe"
                                                                                : "serial");
        return;
    case CLI_STATIC:
        if (model) cli_words_add(words, name, "%s", statics[input->statics]);
        return;
    case CLI_KERNELS:
        if (model) options_kernels(input, name, words);
        return;
    case CLI_NO_INPLACE:
        options_switch(input->occupancy_options.inplace == TN_INPLACE_NONE, name, words);
        return;
    case CLI_NO_VIEWS:
        options_switch(input->occupancy_options.no_views, name, words);
        return;
    case CLI_FUSE_CONCAT:
        options_switch(input->occupancy_options.fuse_concat, name, words);
        return;
    case CLI_NO_REWRITE:
        options_switch(input->whom.no_rewrite, name, words);
        return;
    case CLI_FASTEST:
        options_switch(input->whom.fastest, name, words);
        return;
    case CLI_TARGET:
        if (input->target != NULL) cli_words_add(words, name, "%s", input->target);
        return;
    case CLI_VARIABLES_OUTSIDE:
        options_switch(input->import.variables_outside, name, words);
        return;
    default:
        return;
    }
}

/* --- all of them --- */

static void options_split(const tn_setup *setup, cli_words *words) {
    const tn_split_report *split = setup != NULL ? tn_setup_splits(setup) : NULL;
    for (uint32_t i = 0; split != NULL && i < split->again_count; i++)
        cli_words_add(words, "split-again", "%u,%u,%u", split->again[i].tensor,
                      split->again[i].from, split->again[i].before);
    for (uint32_t i = 0; split != NULL && i < split->count; i++) {
        const tn_split_region *region = &split->regions[i];
        cli_words_add(words, "split-region", "%u,%u,%u,%u,%u,%u,%d,%d", region->first, region->last,
                      region->axes[0], region->parts[0], region->axes[1], region->parts[1],
                      region->keep, region->slices);
    }
}

void cli_words_of(const cli_input *input, const tn_setup *setup, cli_words *words) {
    *words = (cli_words){0};
    for (const struct argp_option *row = cli_input_argp.options; row->name != NULL; row++)
        options_word(input, row->key, row->name, words);
    if (input->training != NULL) cli_words_add(words, "train", NULL);
    if (input->training != NULL) cli_training_words(input->training, words);
    options_split(setup, words);
}

void cli_report_words(tn_report *report, const char *command, const cli_words *words) {
    report->command = command;
    report->options = words->failed ? NULL : words->rows;
    report->option_count = words->count;
}

/* --- contradictions --- */

static bool options_same(const cli_words *a, const cli_words *b) {
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const char *x = a->rows[i].value, *y = b->rows[i].value;
        if ((x == NULL) != (y == NULL) || (x != NULL && strcmp(x, y) != 0)) return false;
    }
    return true;
}

/* "--order auto", "--bank a=1 --bank b=2", or "no --order". */
static void options_say(const cli_words *words, const char *name, char text[200]) {
    size_t used = 0;
    snprintf(text, 200, "no --%s", name);
    for (uint32_t i = 0; i < words->count && used < 199; i++) {
        const char *value = words->rows[i].value;
        int more = snprintf(text + used, 200 - used, "%s--%s%s%.60s", i > 0 ? " " : "", name,
                            value != NULL ? " " : "", value != NULL ? value : "");
        used += more > 0 ? (size_t)more : 0;
    }
}

static void options_check(const char *name, const cli_words *given, const cli_words *of_plan,
                          const char *path) {
    char here[200], there[200];
    if (options_same(given, of_plan)) return;
    options_say(given, name, here);
    options_say(of_plan, name, there);
    cli_misuse(NULL, "%s contradicts %.100s, which was made with %s; remove the option", here, path,
               there);
}

static void options_check_training(const cli_input *given, const cli_input *of_plan,
                                   const char *path) {
    cli_words here = {0}, there = {0};
    if (given->training == NULL) return;
    if (of_plan->training == NULL)
        cli_misuse(NULL,
                   "--train contradicts %.100s, which is a plan for inference; remove --train",
                   path);
    cli_training_words(given->training, &here);
    cli_training_words(of_plan->training, &there);
    for (uint32_t i = 0; i < here.count; i++) {
        bool found = false;
        const char *value = here.rows[i].value;
        if (!cli_training_is_given(given->training, here.rows[i].name)) continue;
        for (uint32_t k = 0; k < there.count && !found; k++) {
            const char *other = there.rows[k].value;
            found = strcmp(here.rows[i].name, there.rows[k].name) == 0 &&
                    (value == other || (value && other && strcmp(value, other) == 0));
        }
        if (!found)
            cli_misuse(NULL, "--%s%s%s contradicts the options of %.100s; remove the option",
                       here.rows[i].name, value != NULL ? " " : "", value != NULL ? value : "",
                       path);
    }
    cli_words_release(&here);
    cli_words_release(&there);
}

void cli_words_check(const cli_input *given, const cli_input *of_plan, const char *path) {
    for (const struct argp_option *row = cli_input_argp.options; row->name != NULL; row++) {
        cli_words here = {0}, there = {0};
        if ((given->given >> (row->key - CLI_DIM) & 1) == 0) continue;
        options_word(given, row->key, row->name, &here);
        options_word(of_plan, row->key, row->name, &there);
        options_check(row->name, &here, &there, path);
        cli_words_release(&here);
        cli_words_release(&there);
    }
    options_check_training(given, of_plan, path);
}

/* --- reading them back --- */

bool cli_words_apply(cli_input *input, cli_training *training, const char *name,
                     const char *value) {
    if (strcmp(name, "train") == 0 && value == NULL) {
        input->training = training;
        return true;
    }
    if (cli_option_renamed(name) != NULL) name = cli_option_renamed(name);
    return cli_input_apply(input, name, value) || cli_training_apply(training, name, value);
}
