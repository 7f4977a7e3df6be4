/* argp.c - parses the command line by tables of options; see argp.h.
 *
 * The root table and its children become a list of groups, parents before children. If several
 * tables have an option, the option belongs to the first of these groups. An argument that is no
 * option belongs to the first group with a parser that accepts it. Source of these rules: the
 * manual of glibc, "Parsing Program Options with Argp".
 */
#include "argp.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ARGP_GROUPS 32   /* largest number of option tables that one command may use */
#define ARGP_CHILDREN 16 /* largest number of children that one table may have */

typedef struct argp_group {
    const struct argp *argp;
    void *input, *child_inputs[ARGP_CHILDREN];
    int parent, child; /* parent: index of the group of the parent table, -1 for the root */
    unsigned taken;
} argp_group;

typedef struct argp_run {
    struct argp_state state;
    int count;
    argp_group groups[ARGP_GROUPS];
} argp_run;

_Noreturn void argp_failure(const struct argp_state *state, int status, int reason,
                            const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", state->argv != NULL ? state->argv[0] : "tenure");
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (reason != 0) fprintf(stderr, ": %s", strerror(reason));
    fputc('\n', stderr);
    exit(status);
}

/* Adds a group for the table and then for each of its children. The recursion is as deep as the
 * tables are nested, and the tables are constants of the program. */
static void argp_add(argp_run *run, const struct argp *argp, int parent, int child) {
    if (run->count == ARGP_GROUPS) argp_failure(&run->state, 4, 0, "too many tables of options");
    int self = run->count++;
    run->groups[self] = (argp_group){.argp = argp, .parent = parent, .child = child};
    for (int i = 0; argp->children != NULL && argp->children[i].argp != NULL; i++) {
        if (i == ARGP_CHILDREN) argp_failure(&run->state, 4, 0, "too many tables of options");
        argp_add(run, argp->children[i].argp, self, i);
    }
}

static error_t argp_call(argp_run *run, argp_group *group, int key, char *value) {
    if (group->argp->parser == NULL) return ARGP_ERR_UNKNOWN;
    run->state.input = group->input;
    run->state.child_inputs = group->child_inputs;
    run->state.arg_num = group->taken;
    return group->argp->parser(key, value, &run->state);
}

static error_t argp_begin(argp_run *run, void *input) {
    for (int i = 0; i < run->count; i++) {
        argp_group *group = &run->groups[i];
        group->input =
            group->parent < 0 ? input : run->groups[group->parent].child_inputs[group->child];
        error_t failed = argp_call(run, group, ARGP_KEY_INIT, NULL);
        if (failed != 0 && failed != ARGP_ERR_UNKNOWN) return failed;
    }
    return 0;
}

typedef struct argp_found {
    argp_group *group;
    /* the option that was found in the tables, or NULL if no table has it */
    const struct argp_option *option;
} argp_found;

static argp_found argp_find_letter(argp_run *run, char letter) {
    for (int i = 0; i < run->count; i++) {
        const struct argp_option *row = run->groups[i].argp->options;
        for (; row != NULL && row->name != NULL; row++)
            if (row->key == letter) return (argp_found){&run->groups[i], row};
    }
    return (argp_found){0};
}

/* Returns the option with exactly this name, else the first option with a name that begins with
 * it. */
static argp_found argp_find_name(argp_run *run, const char *name, size_t length) {
    argp_found prefix = {0};
    for (int i = 0; i < run->count; i++) {
        const struct argp_option *row = run->groups[i].argp->options;
        for (; row != NULL && row->name != NULL; row++) {
            if (strncmp(row->name, name, length) != 0) continue;
            if (row->name[length] == '\0') return (argp_found){&run->groups[i], row};
            if (prefix.option == NULL) prefix = (argp_found){&run->groups[i], row};
        }
    }
    return prefix;
}

static bool argp_takes_next(const struct argp_option *option) {
    return option->arg != NULL && (option->flags & OPTION_ARG_OPTIONAL) == 0;
}

static error_t argp_option(argp_run *run, argp_found found, char *value, const char *name) {
    if (found.option == NULL) argp_failure(&run->state, 2, 0, "there is no option %s", name);
    if (argp_takes_next(found.option) && value == NULL)
        argp_failure(&run->state, 2, 0, "%s needs a value", name);
    return argp_call(run, found.group, found.option->key, value);
}

/* Parses the options in the argument argv[*at]. If the value of the last option is the next
 * argument, *at is advanced to that argument. */
static error_t argp_word(argp_run *run, int *at) {
    char *word = run->state.argv[*at];
    char *next = *at + 1 < run->state.argc ? run->state.argv[*at + 1] : NULL;
    if (word[1] == '-') {
        char *equals = strchr(word, '=');
        size_t length = equals != NULL ? (size_t)(equals - word) - 2 : strlen(word) - 2;
        argp_found found = argp_find_name(run, word + 2, length);
        bool takes = found.option != NULL && equals == NULL && argp_takes_next(found.option);
        *at += takes && next != NULL;
        return argp_option(run, found, equals != NULL ? equals + 1 : takes ? next : NULL, word);
    }
    for (char *letter = word + 1; *letter != '\0'; letter++) {
        argp_found found = argp_find_letter(run, *letter);
        bool has_value = found.option != NULL && found.option->arg != NULL;
        bool takes = has_value && letter[1] == '\0' && argp_takes_next(found.option);
        *at += takes && next != NULL;
        char *value = has_value && letter[1] != '\0' ? letter + 1 : takes ? next : NULL;
        error_t failed = argp_option(run, found, value, word);
        if (failed != 0 || has_value) return failed;
    }
    return 0;
}

static error_t argp_argument(argp_run *run, char *word) {
    for (int i = 0; i < run->count; i++) {
        error_t failed = argp_call(run, &run->groups[i], ARGP_KEY_ARG, word);
        if (failed == 0) run->groups[i].taken++;
        if (failed != ARGP_ERR_UNKNOWN) return failed;
    }
    argp_failure(&run->state, 2, 0, "there are too many arguments: '%s'", word);
}

/* Parses all options of the command line, and collects the arguments that are no options in
 * `rest`. */
static error_t argp_options(argp_run *run, char **rest, int *rest_count) {
    bool quoted = false;
    error_t failed = 0;
    for (int i = 1; i < run->state.argc && failed == 0; i++) {
        char *word = run->state.argv[i];
        if (!quoted && strcmp(word, "--") == 0)
            quoted = true;
        else if (!quoted && word[0] == '-' && word[1] != '\0')
            failed = argp_word(run, &i);
        else
            rest[(*rest_count)++] = word;
    }
    return failed;
}

error_t argp_parse(const struct argp *argp, int count, char **words, unsigned flags, int *end,
                   void *input) {
    argp_run run = {.state = {.argc = count, .argv = words}};
    (void)flags;
    (void)end;
    argp_add(&run, argp, -1, 0);
    char **rest = calloc((size_t)count + 1, sizeof *rest);
    int rest_count = 0;
    if (rest == NULL) return ENOMEM;
    error_t failed = argp_begin(&run, input);
    if (failed == 0) failed = argp_options(&run, rest, &rest_count);
    for (int i = 0; i < rest_count && failed == 0; i++) failed = argp_argument(&run, rest[i]);
    free(rest);
    for (int i = run.count - 1; i >= 0 && failed == 0; i--) {
        failed = argp_call(&run, &run.groups[i], ARGP_KEY_END, NULL);
        if (failed == ARGP_ERR_UNKNOWN) failed = 0;
    }
    return failed;
}
