/* combine.c - checks which options of a command may be combined. The file has the table of rules
 * and the function that checks a command line against it. */
#include "cli/command_line/combine.h"
#include "base/base.h"
#include "cli/estimate/estimate.h"
#include "cli/model/input.h"
#include "cli/model/training.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* --- the table of rules --- */

typedef enum combine_relation {
    COMBINE_NEEDS,     /* the option needs that at least one term of `others` holds */
    COMBINE_EXCLUDES,  /* the option must not be combined with any term of `others` */
    COMBINE_IDLE_WITH, /* no term of `others` may hold, because the option would have no effect */
} combine_relation;

/* A rule refers to terms, which are separated by blanks in its texts:
 *   --name       the option is given
 *   --name=A|B   one item of the option's value is A or B; A matches A, A:x and A=x
 *   --name!=A|B  one item of the option's value is neither A nor B
 *   !--name      the option is not given
 *   [name]       the condition holds
 *   @set/a/b     stands for every option of the parser `set`, except a and b
 * A row of the table is a rule for each command in `commands` and each option in `options`. Options
 * that a command does not have are left out of its rules. If no option in `others` is left, the
 * command does not have the rule. */
typedef struct combine_rule {
    const char *commands; /* names of commands; NULL: every command */
    const char *options;
    combine_relation relation;
    const char *others;
    /* the rule applies if this condition holds: "[name]" or "![name]"; NULL: always */
    const char *when;
    const char *why; /* the reason that the message of the error gives, or NULL */
    /* the remedy that the message gives; NULL: add or remove the other option */
    const char *advice;
} combine_rule;
typedef struct combine_set {
    const char *name;
    const struct argp *argp;
} combine_set;

static const combine_set combine_sets[] = {{"training", &cli_training_argp},
                                           {"input", &cli_input_argp},
                                           {"reading", &cli_input_estimate_argp},
                                           {"cluster", &cli_cluster_argp},
                                           {NULL, NULL}};

#define NO_STANDARD_KERNELS "--kernels=onednn|plain|cmsis-nn|any "
#define OTHER_POLICIES "--alloc-policy=start --release-policy=exit --pool "
#define CHOICES "--planner --threads!=1 --no-rewrite --fastest "

/* One rule: the commands or NULL for all, the options, the relation, the other terms, and .when,
 * .why and .advice as needed. */
#define RULE(commands_, options_, relation_, ...)                                                  \
    {                                                                                              \
        .commands = commands_, .options = options_, .relation = COMBINE_##relation_,               \
        .others = __VA_ARGS__                                                                      \
    }

/* clang-format off */
static const combine_rule combine_rules[] = {
    /* rules about the input of plan, verify, diff and other commands */
    RULE("plan verify diff",
         "@input/alignment/bank/module --batch --train --split --explain=tags", NEEDS, "[model]",
         .why = "the input is a problem", .advice = "remove the option, or pass a model"),
    RULE("plan verify diff report", "--module", NEEDS, "[foreign]",
         .advice = "remove the option, or pass an XLA dump or a .pte program"),
    RULE("report", "--device --bars", EXCLUDES, "[foreign]", .why = "it is for snapshots"),
    RULE("report", "--device --bars --no-pools --timeout --output", EXCLUDES, "[sums]",
         .why = "the file has sums, without live ranges", .advice = "remove the option"),
    RULE("report", "--bars", NEEDS, "--output"),
    RULE("verify", "--alignment --bank", EXCLUDES, "[foreign]",
         .why = "that plan is checked as it is", .advice = "remove the option"),
    RULE("plan", "--batch", NEEDS, "[onnx]", .advice = "use --input-shape for other formats"),
    RULE("split", "--plan", NEEDS, "[tflite]", .why = "only such a file can contain a plan"),
    RULE("split", "--head", NEEDS, "[tflite]", .why = "only its arena has a head"),
    RULE("split", "--dim --input-shape", NEEDS, "[onnx]", .why = "a .tflite model has fixed sizes"),

    RULE("plan run train", "--stream", NEEDS, "--streams"),
    RULE("plan", "--streams --adjacent", NEEDS, "[model]",
         .why = "a problem states its own streams and ties",
         .advice = "remove the option, or pass a model"),
    RULE("plan", "--streams", EXCLUDES,
         "--split --sweep --budget --form=objects --parallel=safe --explain",
         .why = "the plan is for one order of execution"),
    RULE("plan", "--adjacent", EXCLUDES, "--form=objects", .why = "shared objects have no offsets"),
    RULE("run", "--adjacent", EXCLUDES, "--pool", .why = "a pool knows no groups"),
    RULE("run train", "--streams", EXCLUDES,
         "--split --budget --pool --online --parallel --ranks-as-threads",
         .why = "these change the order of execution during the run"),

    /* training */
    RULE("plan verify", "@training", NEEDS, "--train"),
    RULE("fit", "@training/recompute-work/recompute-cheap", NEEDS, "--train"),
    RULE("estimate", "@training", NEEDS, "--train --as [formulas]", .advice = "add --train"),
    RULE(NULL, "--momentum", NEEDS, "--optimizer=momentum"),

    /* rules about the form of a plan */
    RULE("plan", "--explain", EXCLUDES, "--json --form=objects",
         .why = "it prints text about offsets"),
    RULE("plan", "--split --holders --train", EXCLUDES, "--form=objects"),
    RULE("plan", "--split", EXCLUDES, "--train", .why = "it supports inference only"),
    RULE("plan", "--kernels=onednn|plain", EXCLUDES, "[micro-output]",
         .why = "that plan is for the graph alone"),
    RULE("plan", "--train", EXCLUDES, "[micro-output]", .why = "that plan is for inference"),
    RULE("plan", "--form=objects", EXCLUDES, "[micro-output]",
         .why = "shared objects have no offsets"),
    RULE("arena", "--max", EXCLUDES, "--bank",
         .advice = "give each bank a capacity, --bank NAME=SIZE"),
    RULE("arena", "--output", EXCLUDES, "--plan=inside|none", .why = "it writes our plan"),

    RULE("plan", "--budget", EXCLUDES, "--capacity --bank --form=objects",
         .why = "each is a limit of its own"),

    RULE("plan", "--objective=pairs|waits|time", EXCLUDES,
         "--form=objects --explain --budget --split",
         .why = "the objective is for one plan within --capacity"),

    /* tiles */
    RULE(NULL, "--extra-work", NEEDS, "--split"),
    RULE("plan", "--sweep", NEEDS, "--split --objective=pairs|waits|time"),
    RULE("plan", "--sweep", EXCLUDES, "--explain --holders --device",
         .why = "it prints a curve"),

    /* rules about the techniques that may meet a budget */
    RULE("run train",
         "--allow --pass --codecs --swap-device --host-budget --costs --timeout", NEEDS,
         "--budget"),
    RULE("estimate", "--allow", NEEDS, "--budget"),
    RULE("estimate", "--link", NEEDS, "--budget --host-experts"),
    RULE(NULL, "--swap-device", NEEDS, "--allow=swap !--allow"),
    RULE(NULL, "--allow=swap", NEEDS, "--link --swap-device",
         .why = "the search uses the speed of copies to the host"),
    RULE("run train fit", "--host-budget", NEEDS, "[swaps]"),
    RULE("fit", "--swap", NEEDS, "--link --swap-device",
         .why = "the search uses the speed of copies to the host"),
    RULE("run fit", "--storage --storage-cache --forms", NEEDS, "--allow=stream"),
    RULE("run", "--allow=stream", EXCLUDES, "--pool", .why = "streaming needs a plan"),
    RULE("train", "--allow=stream", EXCLUDES, "--budget",
         .why = "training keeps its weights in memory",
         .advice = "remove stream from --allow"),
    RULE("fit", "--allow=stream", NEEDS, "--storage",
         .why = "the search uses the read speed of weight files"),
    RULE("fit", "--allow=stream", EXCLUDES, "--sweep --max-batch --run --train --problem --output",
         .why = "it answers one budget only", .advice = "remove one of them, or use `tenure run`"),
    RULE("fit", "--codecs", NEEDS, "--allow=compress --lossy"),
    RULE("fit", "--codecs=float16|float10|float8", NEEDS, "--lossy",
         .why = "these codecs change results"),
    RULE("fit", "--max-error", NEEDS, "--lossy", .why = "other codecs lose nothing"),
    RULE("fit", "--max-error", NEEDS, "--run"),
    RULE("run train", "--max-error", NEEDS, "--codecs=float16|float10|float8",
         .why = "other codecs lose nothing"),
    RULE("fit", "--sweep", EXCLUDES, "--max-batch"),

    /* rules of `fit` about a problem, costs and runs */
    RULE("fit", "--problem", EXCLUDES, "[model-argument] --train --batch --max-batch --kernels",
         .why = "it replaces the model"),
    RULE("fit", "@reading/keep/swap/segments/recompute/kernels --no-rewrite --fastest", EXCLUDES,
         "--problem", .why = "a problem has no model", .advice = "remove the option"),
    RULE("fit", "--segment", NEEDS, "--pass=segments", .why = "other passes do not use it"),
    RULE("fit", "--problem", EXCLUDES, "--costs --save-costs",
         .why = "the file has its own costs"),
    RULE("fit", "--run", NEEDS, "--budget"),
    RULE("fit", "--run", NEEDS, "[kernels]"),
    RULE("fit", "--save-costs", EXCLUDES, "--costs=model", .why = "that measures no costs"),

    /* rules of `run` and `train` */
    RULE("run train", "--trace", EXCLUDES, "--poison", .advice = "run the command once with each"),
    RULE("train", "--output", EXCLUDES, "--poison", .advice = "run the command once with each"),

    RULE("train", "--prune-weights", NEEDS, "--prune"),
    RULE("train", "--online", NEEDS, "--budget"),
    RULE("train", "--online", NEEDS, "--link", .why = "it copies tensors to the host"),
    RULE("train", "--online", EXCLUDES,
         "--pass --allow --swap --codecs --costs --timeout --swap-device --split "
         "--static=arena|first --poison --trace --output --parallel --ranks-as-threads",
         .why = "its policy decides alone, in a run on one device"),
    RULE("train", "--online", NEEDS, "[single-process]", .why = "mpirun has started several",
         .advice = "start one process"),
    RULE("train", "--explain", NEEDS, "--online"),

    /* ranks */
    RULE("train estimate", "[interleaved]", NEEDS, "[stages]", .advice = "add pipeline=N"),
    RULE("train estimate", "--schedule --whole-sends", NEEDS, "[stages]"),
    RULE("train estimate", "--whole-sends", NEEDS, "[tensor-ranks]"),
    RULE("train estimate", "--gather-ahead", NEEDS, "--shard=parameters"),
    RULE("train estimate", "--shard=parameters", EXCLUDES, "--budget", .when = "![stages]",
         .why = "without pipeline stages",
         .advice = "use --shard gradients, or add --parallel pipeline=N"),
    RULE("train", "--ranks-as-threads", NEEDS, "[single-process]",
         .why = "mpirun has started several", .advice = "use one of the two"),
    RULE("train", "--shard!=none", NEEDS, "[data-ranks]"),
    RULE("train", "--sequence-parallel", NEEDS, "[tensor-ranks]"),

    /* rules of `estimate` for running a language model */
    RULE("estimate",
         "--shard!=none --recompute!=none --micro-batch --sequence-parallel --attention "
         "--loss-chunk --parallel=auto @cluster",
         NEEDS, "--train --as", .when = "[to-run]", .advice = "add --train"),
    RULE("estimate", "[runtime-name]", NEEDS, "[to-run]", .advice = "give bytes here"),
    RULE("estimate",
         "--weight-type --cache-type --prefill --full-cache --host-layers --host-experts",
         NEEDS, "[to-run]"),
    RULE("estimate", "--cached-experts", NEEDS, "--host-experts",
         .why = "it counts copies of experts in host memory"),
    RULE("estimate", "--train --as", EXCLUDES, "[weights-file]",
         .why = "it does not describe the network",
         .advice = "pass its config.json, or the network as .onnx"),
    RULE("estimate",
         "--parallel=serial|safe " NO_STANDARD_KERNELS OTHER_POLICIES CHOICES "@reading",
         IDLE_WITH, "[to-run]", .advice = "remove it, or pass a model file such as .onnx"),

    /* rules of `estimate` for training by formulas */
    RULE("estimate",
         "@training/optimizer/dtype --as --runtime!=0 --max-batch --parallel=serial|safe "
         NO_STANDARD_KERNELS OTHER_POLICIES CHOICES
         "--alignment --bank --order --bucket --gather-ahead --keep --swap --segments",
         IDLE_WITH, "[formulas]",
         .advice = "remove it, or estimate a model file without these options"),
    RULE("estimate", "@reading/alignment/order/bank/keep/swap/segments", IDLE_WITH, "[config]"),
    RULE("estimate", "--devices", NEEDS, "--parallel=auto --sweep", .when = "[formulas]",
         .why = "otherwise --parallel gives the number of devices"),
    RULE("estimate", "[divided] --micro-batch", EXCLUDES, "[searches]", .when = "[formulas]",
         .why = "that chooses ranks and micro-batches"),
    RULE("estimate", "--parallel=auto", NEEDS, "--devices --sweep", .when = "[formulas]",
         .advice = "add --devices N"),
    RULE("estimate", "--parallel=auto --sweep", NEEDS, "[device-speed]", .when = "[formulas]"),

    /* rules of `estimate` for a model's graph */
    RULE("estimate", "--sequence --micro-batch --attention --loss-chunk @cluster",
         NEEDS, "[formulas]", .when = "![to-run]"),
    RULE("estimate", "--sequence-parallel", NEEDS, "[formulas] [tensor-ranks]",
         .when = "![to-run]", .advice = "add --parallel tensor=N"),
    RULE("estimate", "--bucket", NEEDS, "[data-ranks]"),
    RULE("estimate", "--output", NEEDS, "[planned]"),
    RULE("estimate", "--budget", NEEDS, "[onnx-plan]"),
    RULE("estimate", "--max-batch", NEEDS, "--device"),
    RULE("estimate", "--as", EXCLUDES,
         "@training/optimizer --kernels=onednn|plain --fuse-concat --keep --swap --segments",
         .why = "it estimates eager PyTorch"),

    /* `simulate`, `replay`, `watch` and `embed`: runs, pools and embedding tables */
    RULE("simulate", "--sweep", EXCLUDES, "--budget", .why = "it sets the budgets"),
    RULE("replay", "--pages", EXCLUDES, "--device",
         .why = "a pool on a device uses one block of fixed size"),
    RULE("watch", "--once", EXCLUDES, "--every", .why = "it prints the holders once"),
    RULE("embed", "[create]", NEEDS, "--rows"),
    RULE("embed", "[replay]", NEEDS, "--cache"),
    RULE("embed", "--zipf", NEEDS, "--rows --table", .when = "[replay]",
         .advice = "add --rows N or --table FILE"),
    RULE("embed", "--reader", NEEDS, "--table", .when = "[replay]"),
    {0}};
/* clang-format on */

#define COMBINE_NAME 32u
#define COMBINE_VALUES 64u
#define COMBINE_TEXT 160u

typedef enum combine_truth { COMBINE_NO, COMBINE_YES, COMBINE_UNKNOWN } combine_truth;

/* --- the options of the command line --- */

static struct { const char *name, *value; } combine_given[CLI_OPTIONS_MAX];
static uint32_t combine_given_count;
static combine_truth combine_holds[CLI_CONDITION_COUNT];
static bool combine_known[CLI_CONDITION_COUNT];

static const struct {
    const char *name, *words, *how;
} combine_conditions[] = {
#define TN_X(name, text, words, how) {text, words, how},
    CLI_CONDITIONS(TN_X)
#undef TN_X
};

static uint32_t combine_find(const char *name) {
    uint32_t at = 0;
    while (at < combine_given_count && strcmp(combine_given[at].name, name) != 0) at++;
    return at;
}

/* Records an option and its value. If an option is repeated, its last value counts. */
void cli_combine_note(const char *option, const char *value) {
    uint32_t at = combine_find(option);
    if (at == CLI_OPTIONS_MAX) return;
    combine_given[at].name = option;
    combine_given[at].value = value;
    if (at == combine_given_count) combine_given_count++;
}

bool cli_given(const char *option) { return combine_find(option) < combine_given_count; }

void cli_condition_set(cli_condition condition, bool holds) {
    combine_known[condition] = true;
    combine_holds[condition] = holds ? COMBINE_YES : COMBINE_NO;
}

/* --- the terms of a rule, and whether they hold --- */

typedef struct combine_term {
    /* values: values of the option, separated by "|"; "" if any value will do */
    char name[COMBINE_NAME], values[COMBINE_VALUES];
    uint32_t condition; /* index of the condition; CLI_CONDITION_COUNT if the term is an option */
    bool negated, differs; /* differs: the term has the form --name!=value */
} combine_term;

static void combine_copy(char *to, size_t room, const char *from, size_t length) {
    /* the table of rules is constant, and every term in it fits into the buffer */
    tn_assert(length < room);
    if (length >= room) length = room - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

static void combine_read(const char *word, size_t length, combine_term *term) {
    *term = (combine_term){.condition = CLI_CONDITION_COUNT, .negated = *word == '!'};
    word += term->negated;
    length -= term->negated;
    if (*word == '[') {
        combine_copy(term->name, sizeof term->name, word + 1, length - 2);
        for (term->condition = 0; term->condition < CLI_CONDITION_COUNT; term->condition++)
            if (strcmp(combine_conditions[term->condition].name, term->name) == 0) return;
        tn_assert(false);
        return;
    }
    size_t name = 2;
    while (name < length && word[name] != '=' && word[name] != '!') name++;
    combine_copy(term->name, sizeof term->name, word + 2, name - 2);
    term->differs = name < length && word[name] == '!';
    size_t values = name + 1 + term->differs;
    if (values < length)
        combine_copy(term->values, sizeof term->values, word + values, length - values);
}

/* An iterator over the terms of a text. A term @set is replaced by its options. */
typedef struct combine_walk {
    const char *at;
    const struct argp_option *row; /* next option of the set that is being replaced, or NULL */
    const char *except;
} combine_walk;

static bool combine_is_excepted(const char *except, const char *name) {
    for (; *except == '/'; except += strcspn(except + 1, "/ ") + 1) {
        size_t length = strcspn(except + 1, "/ ");
        if (strlen(name) == length && strncmp(except + 1, name, length) == 0) return true;
    }
    return false;
}

static bool combine_next_of_set(combine_walk *walk, combine_term *term) {
    for (; walk->row != NULL && walk->row->name != NULL; walk->row++) {
        if ((walk->row->flags & OPTION_HIDDEN) != 0 ||
            combine_is_excepted(walk->except, walk->row->name))
            continue;
        *term = (combine_term){.condition = CLI_CONDITION_COUNT};
        combine_copy(term->name, sizeof term->name, walk->row->name, strlen(walk->row->name));
        walk->row++;
        return true;
    }
    walk->row = NULL;
    return false;
}

static bool combine_next(combine_walk *walk, combine_term *term) {
    for (;;) {
        if (combine_next_of_set(walk, term)) return true;
        walk->at += strspn(walk->at, " ");
        size_t length = strcspn(walk->at, " ");
        if (length == 0) return false;
        const char *word = walk->at;
        walk->at += length;
        if (*word != '@') {
            combine_read(word, length, term);
            return true;
        }
        size_t name = strcspn(word, "/ ");
        const combine_set *set = combine_sets;
        while (strlen(set->name) != name - 1 || strncmp(set->name, word + 1, name - 1) != 0) set++;
        walk->row = set->argp->options;
        walk->except = word + name;
    }
}

static bool combine_is_one(const char *item, size_t length, const char *values) {
    for (;; values++) {
        size_t size = strcspn(values, "|");
        bool same = size <= length && strncmp(item, values, size) == 0;
        if (same && (size == length || item[size] == ':' || item[size] == '=')) return true;
        values += size;
        if (*values == '\0') return false;
    }
}

/* Returns the first item of `value`, a list with commas, that makes the term true, and sets its
 * length. Returns NULL if no item does. */
static const char *combine_item(const combine_term *term, const char *value, size_t *length) {
    for (const char *item = value; item != NULL; item += *length + 1) {
        *length = strcspn(item, ",");
        if (combine_is_one(item, *length, term->values) != term->differs) return item;
        if (item[*length] == '\0') return NULL;
    }
    return NULL;
}

static combine_truth combine_judge(const combine_term *term) {
    size_t length;
    combine_truth truth;
    if (term->condition < CLI_CONDITION_COUNT) {
        if (!combine_known[term->condition]) return COMBINE_UNKNOWN;
        truth = combine_holds[term->condition];
    } else {
        uint32_t at = combine_find(term->name);
        bool given = at < combine_given_count;
        if (given && term->values[0] != '\0')
            given = combine_item(term, combine_given[at].value, &length) != NULL;
        truth = given ? COMBINE_YES : COMBINE_NO;
    }
    if (!term->negated) return truth;
    return truth == COMBINE_YES ? COMBINE_NO : COMBINE_YES;
}

static const cli_option *combine_option(const cli_options *options, const combine_term *term) {
    for (uint32_t i = 0; i < options->count; i++)
        if (strcmp(options->rows[i].name, term->name) == 0) return &options->rows[i];
    return NULL;
}

static bool combine_has(const cli_options *options, const combine_term *term) {
    return term->condition < CLI_CONDITION_COUNT || combine_option(options, term) != NULL;
}

/* --- the message about a broken rule --- */

/* Prints a term for a message, such as "--allow stream". With `given` true the value is the item on
 * the command line that makes the term true; else it is the value in the table of rules. */
static void combine_put_term(tn__text *text, const cli_options *options, const combine_term *term,
                             bool given) {
    if (term->condition < CLI_CONDITION_COUNT) {
        tn__text_put(text, combine_conditions[term->condition].words);
        return;
    }
    const cli_option *option = combine_option(options, term);
    uint32_t at = combine_find(term->name);
    if (option != NULL && option->letter != '\0')
        tn__text_printf(text, "-%c", option->letter);
    else
        tn__text_printf(text, "--%s", term->name);
    if (term->values[0] == '\0') return;
    size_t length = 0;
    const char *item = given && at < combine_given_count
                           ? combine_item(term, combine_given[at].value, &length)
                           : NULL;
    const char *join = option != NULL && option->argument_may_lack ? "=" : " ";
    if (item != NULL)
        tn__text_printf(text, "%s%.*s", join, (int)(length < 40 ? length : 40), item);
    else if (term->differs)
        tn__text_printf(text, " (not %s)", term->values);
    else
        tn__text_printf(text, "%s%s", join, term->values);
}

static bool combine_is_named(const cli_options *options, const combine_term *term) {
    return !term->negated && combine_has(options, term);
}

/* Prints the terms of `others` as "--a, --b or --c". Returns the number of terms that are
 * printed. */
static uint32_t combine_put_others(tn__text *text, const cli_options *options, const char *others) {
    combine_term term;
    uint32_t count = 0, at = 0;
    for (combine_walk walk = {.at = others}; combine_next(&walk, &term);)
        count += combine_is_named(options, &term);
    for (combine_walk walk = {.at = others}; combine_next(&walk, &term);) {
        if (!combine_is_named(options, &term)) continue;
        tn__text_put(text, at == 0 ? "" : at + 1 < count ? ", " : " or ");
        combine_put_term(text, options, &term, false);
        at++;
    }
    return count;
}

static void combine_put_advice(tn__text *text, const cli_options *options, const combine_rule *rule,
                               uint32_t count) {
    combine_term term;
    tn__text_put(text, "; ");
    if (rule->advice != NULL || rule->relation != COMBINE_NEEDS || count > 1) {
        tn__text_put(text, rule->advice != NULL                  ? rule->advice
                           : rule->relation == COMBINE_IDLE_WITH ? "remove it"
                           : rule->relation == COMBINE_EXCLUDES  ? "remove one of them"
                                                                 : "add one of them");
        return;
    }
    combine_walk walk = {.at = rule->others};
    while (combine_next(&walk, &term) && !combine_is_named(options, &term)) continue;
    if (term.condition < CLI_CONDITION_COUNT) {
        const char *how = combine_conditions[term.condition].how;
        tn__text_put(text, how != NULL ? how : "remove the option");
        return;
    }
    const cli_option *option = combine_option(options, &term);
    tn__text_put(text, cli_given(term.name) ? "use " : "add ");
    combine_put_term(text, options, &term, false);
    if (term.values[0] == '\0' && option->argument != NULL && !option->argument_may_lack)
        tn__text_printf(text, " %s", option->argument);
}

/* Prints the part of a rule that follows its option. `broken` is the term that holds against the
 * rule; with NULL, all terms of `others` are printed. */
static void combine_put_rule(tn__text *text, const cli_options *options, const combine_rule *rule,
                             const combine_term *broken) {
    static const char *const words[] = {" needs ", " cannot be combined with ",
                                        " has no effect on "};
    combine_term term;
    uint32_t count = 1;
    tn__text_put(text, words[rule->relation]);
    if (broken != NULL)
        combine_put_term(text, options, broken, true);
    else
        count = combine_put_others(text, options, rule->others);
    if (rule->relation == COMBINE_NEEDS && count == 1 &&
        combine_next(&(combine_walk){.at = rule->others}, &term) && term.values[0] != '\0') {
        uint32_t at = combine_find(term.name);
        if (at < combine_given_count && combine_given[at].value != NULL)
            tn__text_printf(text, ", not %.40s", combine_given[at].value);
    }
    if (rule->why != NULL) tn__text_printf(text, ": %s", rule->why);
    combine_put_advice(text, options, rule, count);
}

/* --- checking the rules --- */

static void combine_end(const cli_options *options, const combine_rule *rule,
                        const combine_term *term, const combine_term *broken) {
    tn__text text;
    tn__text_init(&text, NULL);
    combine_put_term(&text, options, term, true);
    combine_put_rule(&text, options, rule, broken);
    cli_misuse(NULL, "%s", text.failed ? "these options cannot be combined" : text.data);
}

static void combine_check_option(const cli_options *options, const combine_rule *rule,
                                 const combine_term *term) {
    combine_term other;
    bool needs = rule->relation == COMBINE_NEEDS, has_others = false, met = false;
    for (combine_walk walk = {.at = rule->others}; combine_next(&walk, &other);) {
        if (!combine_has(options, &other)) continue;
        combine_truth truth = combine_judge(&other);
        has_others |= !other.negated;
        met |= truth != COMBINE_NO;
        if (!needs && truth == COMBINE_YES) combine_end(options, rule, term, &other);
    }
    if (needs && has_others && !met) combine_end(options, rule, term, NULL);
}

static bool combine_is_word(const char *words, const char *name) {
    size_t length = strlen(name);
    for (const char *at = words; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, length) == 0 && strchr(" ", at[length]) != NULL) return true;
    }
    return words == NULL;
}

void cli_combine_check(const cli_command *command) {
    static const cli_command *known;
    cli_options options;
    combine_term term;
    if (command == NULL) command = known;
    known = command;
    cli_options_list(command, &options);
    for (const combine_rule *rule = combine_rules; rule->options != NULL; rule++) {
        if (!combine_is_word(rule->commands, command->name)) continue;
        if (rule->when != NULL) {
            combine_read(rule->when, strlen(rule->when), &term);
            if (combine_judge(&term) != COMBINE_YES) continue;
        }
        for (combine_walk walk = {.at = rule->options}; combine_next(&walk, &term);)
            if (combine_judge(&term) == COMBINE_YES) combine_check_option(&options, rule, &term);
    }
    cli_options_release(&options);
}

/* --- the list of all rules, for `tenure list combinations` --- */

typedef struct combine_row {
    char *name, *text;
} combine_row;
static combine_row *combine_rows;
static uint32_t combine_row_count;
static size_t combine_row_room;

static bool combine_has_others(const cli_options *options, const combine_rule *rule) {
    combine_term other;
    for (combine_walk walk = {.at = rule->others}; combine_next(&walk, &other);)
        if (combine_is_named(options, &other)) return true;
    return false;
}

static void combine_add(const cli_command *command, const cli_options *options,
                        const combine_rule *rule, const combine_term *term) {
    tn_context context = tn__context(NULL);
    combine_term when;
    tn__text name, text;
    tn__text_init(&name, NULL);
    tn__text_init(&text, NULL);
    tn__text_printf(&name, "%s ", command->name);
    combine_put_term(&name, options, term, false);
    if (rule->when != NULL) {
        combine_read(rule->when, strlen(rule->when), &when);
        tn__text_printf(&text, " %s %s:", when.negated ? "without" : "with",
                        combine_conditions[when.condition].words);
    }
    combine_put_rule(&text, options, rule, NULL);
    if (!name.failed && !text.failed &&
        tn__reserve(&context, &combine_rows, &combine_row_room, (size_t)combine_row_count + 1,
                    sizeof *combine_rows))
        combine_rows[combine_row_count++] = (combine_row){strdup(name.data), strdup(text.data + 1)};
    tn__text_release(&name);
    tn__text_release(&text);
}

/* Makes the list of all rules at the first call. The list is never freed. */
static void combine_list(void) {
    cli_options options;
    combine_term term;
    if (combine_rows != NULL) return;
    combine_given_count = 0; /* the list must not show values of the current command line */
    for (uint32_t c = 0; c < cli_command_count(); c++) {
        const cli_command *command = cli_command_at(c);
        cli_options_list(command, &options);
        for (const combine_rule *rule = combine_rules; rule->options != NULL; rule++) {
            if (!combine_is_word(rule->commands, command->name)) continue;
            if (!combine_has_others(&options, rule)) continue;
            for (combine_walk walk = {.at = rule->options}; combine_next(&walk, &term);)
                if (combine_has(&options, &term)) combine_add(command, &options, rule, &term);
        }
        cli_options_release(&options);
    }
}

uint32_t cli_combination_count(void) {
    combine_list();
    return combine_row_count;
}
const char *cli_combination_name(uint32_t index) { return combine_rows[index].name; }
const char *cli_combination_text(uint32_t index) { return combine_rows[index].text; }
