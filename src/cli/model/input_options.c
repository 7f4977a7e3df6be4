/* input_options.c - parses the options for reading the input, for the memory model, for rules about
 * tensors, and for tiles. */
#include "base/base.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- options for reading the input, and of the memory model --- */

#define INPUT_SIZES(X)                                                                             \
    X(CLI_DIM, "dim", "NAME=SIZE", "set a symbolic dimension to SIZE; may be repeated")            \
    X(CLI_INPUT_SHAPE, "input-shape", "NAME=N,N,...",                                              \
      "set the shape of a graph input; may be repeated")
#define INPUT_OPTIONS(X)                                                                           \
    INPUT_SIZES(X)                                                                                 \
    X(CLI_VALUE, "value", "NAME=N,N,...",                                                          \
      "set the data of a graph input that shapes depend on; the input becomes a parameter; may "   \
      "be repeated")                                                                               \
    X(CLI_PARAMETER, "parameter", "PATTERN",                                                       \
      "treat graph inputs that match this pattern " CLI_PATTERN                                    \
      " as parameters, which are outside the arena; may be repeated")                              \
    X(CLI_FORMAT, "format", "FORMAT",                                                              \
      "layout of activations of rank 4 and 5: nchw, nhwc, nChw8c, nChw16c, ... (default: as in "   \
      "the file)")                                                                                 \
    X(CLI_ALIGNMENT, "alignment", "SIZE",                                                          \
      "alignment in bytes of every buffer without its own (default: 64 for models, 1 for "         \
      "problems)")                                                                                 \
    X(CLI_ORDER, "order", "NAME",                                                                  \
      "order of the operators: one of `tenure list orders`, or auto for the one with the "         \
      "smallest arena (default: file)")                                                            \
    X(CLI_NO_INPLACE, "no-inplace", NULL, "never let an operator overwrite its input")             \
    X(CLI_NO_VIEWS, "no-views", NULL,                                                              \
      "give reshapes and slices their own memory instead of sharing it")                           \
    X(CLI_FUSE_CONCAT, "fuse-concat", NULL,                                                        \
      "place the inputs of a concatenation inside its output where possible, which saves the "     \
      "copy")                                                                                      \
    X(CLI_KEEP_ATEN, "keep-aten", NULL,                                                            \
      "plan the operators of a .pt2 program as PyTorch runs them, with its views, instead of "     \
      "Tenure's own operators")
#define INPUT_STATIC(X)                                                                            \
    X(CLI_STATIC, "static", "apart|arena|first",                                                   \
      "place of weights and optimizer state: apart, in blocks outside the arena; arena, planned "  \
      "with all other buffers; first, at the start of the arena (default: apart)")
#define INPUT_BANK(X)                                                                              \
    X(CLI_BANK, "bank", "NAME=SIZE[@SIZE/s]",                                                      \
      "a memory with this capacity (default: unlimited) and speed; repeat it for a device with "   \
      "several memories, and each buffer gets one of them")
#define INPUT_MODULE(X)                                                                            \
    X(CLI_MODULE, "module", "NUMBER|NAME",                                                         \
      "the module of an XLA dump, or the method of a .pte program (default: the module with the "  \
      "most planned bytes, the first method)")
#define INPUT_PARALLEL(X)                                                                          \
    X(CLI_PARALLEL, "parallel", "serial|safe",                                                     \
      "operators that may run at the same time: serial, one after the other; safe, all that the "  \
      "graph allows, so that the plan adds no dependencies (default: serial)")
#define INPUT_KERNELS(X)                                                                           \
    X(CLI_KERNELS, "kernels", "LIBRARY",                                                           \
      "count scratch memory and packed weights of a kernel library: onednn or plain, as in "       \
      "`tenure run` on this machine, with :N for N threads, or none; for "                         \
      ".tflite " CLI_TFLM_KERNELS_FORM " (default: none; reference for .tflite)")                  \
    X(CLI_NO_REWRITE, "no-rewrite", NULL,                                                          \
      "with --kernels: keep the operators of the file, fuse nothing")                              \
    X(CLI_FASTEST, "fastest", NULL,                                                                \
      "with --kernels: use the fastest kernel for each operator, even if it needs more scratch "   \
      "memory")

#define INPUT_RULES(X)                                                                             \
    X(CLI_KEEP, "keep", "PATTERN",                                                                 \
      "never recompute, swap or encode the results of operators whose names match this "           \
      "pattern " CLI_PATTERN                                                                       \
      ", or whose types match it after type:, such as type:Conv; may be repeated")                 \
    X(CLI_SWAP, "swap", "PATTERN[:prefetch=N]",                                                    \
      "swap the results of matching operators to the host between their early and late readers; "  \
      "the copy back starts N operators before the first late reader (default: 1); may be "        \
      "repeated")                                                                                  \
    X(CLI_SEGMENTS, "segments", "N",                                                               \
      "divide the forward pass of a training step into N segments of equal length, and recompute " \
      "the inner results of all but the last one")
#define INPUT_RECOMPUTE(X)                                                                         \
    X(CLI_RECOMPUTE, "recompute", "PATTERN",                                                       \
      "release the results of operators that match, as for --keep, after their early readers, "    \
      "and recompute them for late ones, in training those of the backward pass; with --parallel " \
      "also results of communication, such as type:RankSum; may be repeated")

/* Options that plans record. On the command line they are hidden here, because the commands that
 * have them describe them in their own words. */
#define INPUT_PLAN(X)                                                                              \
    X("batch", CLI_BATCH, "N")                                                                     \
    X("target", CLI_TARGET, "NAME")                                                                \
    X("variables-outside", CLI_VARIABLES_OUTSIDE, NULL)                                            \
    X("split-region", CLI_SPLIT_REGION, "NUMBERS")                                                 \
    X("split-again", CLI_SPLIT_AGAIN, "NUMBERS")
#define INPUT_HIDDEN(name, key, argument) {name, key, argument, OPTION_HIDDEN, NULL, 0},

static const struct argp_option input_options[] = {
    INPUT_OPTIONS(CLI_OPTION) INPUT_BANK(CLI_OPTION) INPUT_STATIC(CLI_OPTION)
        INPUT_PARALLEL(CLI_OPTION) INPUT_KERNELS(CLI_OPTION) INPUT_MODULE(CLI_OPTION)
            INPUT_PLAN(INPUT_HIDDEN){0}};
/* For commands that run the model: the device has one memory, and the command chooses the
 * kernels. */
static const struct argp_option input_run_options[] = {INPUT_OPTIONS(CLI_OPTION) INPUT_STATIC(
    CLI_OPTION) INPUT_PARALLEL(CLI_OPTION) INPUT_RULES(CLI_OPTION) INPUT_RECOMPUTE(CLI_OPTION){0}};
/* For `fit`, which counts weights outside the arena, so --static is missing. */
static const struct argp_option input_fit_options[] = {INPUT_OPTIONS(CLI_OPTION) INPUT_PARALLEL(
    CLI_OPTION) INPUT_RULES(CLI_OPTION) INPUT_RECOMPUTE(CLI_OPTION){0}};
/* For `train`, which has its own --parallel with more meanings. */
static const struct argp_option input_train_options[] = {INPUT_OPTIONS(CLI_OPTION) INPUT_STATIC(
    CLI_OPTION) INPUT_RULES(CLI_OPTION) INPUT_RECOMPUTE(CLI_OPTION){0}};
/* For `estimate`, which has its own versions of the other options. */
static const struct argp_option input_estimate_options[] = {
    INPUT_OPTIONS(CLI_OPTION) INPUT_BANK(CLI_OPTION) INPUT_RULES(CLI_OPTION){0}};

/* For `split`, which reads a model in order to write it again. */
static const struct argp_option input_sizes_options[] = {INPUT_SIZES(CLI_OPTION){0}};

static void *input_grow(struct argp_state *state, const void *array, size_t count, size_t item) {
    void *grown = realloc((void *)(uintptr_t)array, (count + 1) * item);
    if (grown == NULL) argp_failure(state, 4, 0, "out of memory");
    return grown;
}

static int64_t input_extent(struct argp_state *state, const char *option, const char *text,
                            char **end) {
    errno = 0;
    long long value = strtoll(text, end, 10);
    if (errno != 0 || *end == text || value < 0)
        cli_misuse(state, "--%s: '%s' is not a dimension; use a whole number of at least 0", option,
                   text);
    return value;
}

/* Returns a copy of the name before the last '=' in `text`, and sets *value to the text after
 * it. */
static char *input_name(struct argp_state *state, const char *option, const char *text,
                        const char **value) {
    const char *equals = strrchr(text, '=');
    if (equals == NULL || equals == text)
        cli_misuse(state, "--%s: '%s' has no name; write NAME=...", option, text);
    char *name = strndup(text, (size_t)(equals - text));
    if (name == NULL) argp_failure(state, 4, 0, "out of memory");
    *value = equals + 1;
    return name;
}

static void input_add_dim(struct argp_state *state, cli_input *input, const char *text) {
    const char *value;
    char *end;
    tn_dim dim = {.name = input_name(state, "dim", text, &value)};
    dim.value = input_extent(state, "dim", value, &end);
    if (*end != '\0')
        cli_misuse(state, "--dim: '%s' is not a dimension; use a whole number of at least 0",
                   value);
    tn_dim *dims = input_grow(state, input->import.dims, input->import.dim_count, sizeof *dims);
    dims[input->import.dim_count++] = dim;
    input->import.dims = dims;
}

static void input_add_shape(struct argp_state *state, cli_input *input, const char *text) {
    const char *at;
    char *end;
    tn_input_shape shape = {.name = input_name(state, "input-shape", text, &at)};
    int64_t *extents = NULL;
    while (*at != '\0') {
        extents = input_grow(state, extents, shape.rank, sizeof *extents);
        extents[shape.rank++] = input_extent(state, "input-shape", at, &end);
        if (*end != '\0' && (*end != ',' || end[1] == '\0'))
            cli_misuse(state, "--input-shape: '%s' is not a shape; write N,N,...", text);
        at = *end == ',' ? end + 1 : end;
    }
    shape.shape = extents;
    tn_input_shape *shapes = input_grow(state, input->import.input_shapes,
                                        input->import.input_shape_count, sizeof *shapes);
    shapes[input->import.input_shape_count++] = shape;
    input->import.input_shapes = shapes;
}

static void input_add_value(struct argp_state *state, cli_input *input, const char *text) {
    const char *at;
    char *end;
    tn_input_value value = {.name = input_name(state, "value", text, &at)};
    double *numbers = NULL;
    for (bool more = true; more; at = end + 1) {
        numbers = input_grow(state, numbers, value.count, sizeof *numbers);
        numbers[value.count++] = strtod(at, &end);
        more = *end == ',';
        if (end == at || (*end != '\0' && !more))
            cli_misuse(state, "--value: '%s' is not a list of numbers; write NAME=N,N,...", text);
    }
    value.numbers = numbers;
    tn_input_value *values =
        input_grow(state, input->import.values, input->import.value_count, sizeof *values);
    values[input->import.value_count++] = value;
    input->import.values = values;
}

static void input_add_parameter(struct argp_state *state, cli_input *input, const char *text) {
    const char **patterns = input_grow(state, input->import.parameters,
                                       input->import.parameter_count, sizeof *patterns);
    patterns[input->import.parameter_count++] = text;
    input->import.parameters = patterns;
}

/* Parses --bank NAME=CAPACITY@SPEED/s, where capacity and speed are optional. */
static void input_add_bank(struct argp_state *state, cli_input *input, const char *text) {
    const char *value;
    if (input->bank_count == CLI_BANKS_MAX)
        cli_misuse(state, "--bank: at most 16 memories are supported");
    tn_bank bank = {.name = input_name(state, "bank", text, &value)};
    const char *at = strchr(value, '@');
    char *capacity = strndup(value, at != NULL ? (size_t)(at - value) : strlen(value));
    if (capacity == NULL) argp_failure(state, 4, 0, "out of memory");
    if (*capacity != '\0' && strcmp(capacity, "none") != 0) {
        bank.capacity = cli_size(state, "bank", capacity);
        if (bank.capacity == 0) cli_misuse(state, "--bank: the capacity must be above 0");
    }
    free(capacity);
    if (at != NULL) bank.bytes_per_s = cli_speed(state, "bank", at + 1);
    input->banks[input->bank_count++] = bank;
}

/* Parses `count` numbers that are separated by commas. */
static void input_numbers(struct argp_state *state, const char *option, const char *text,
                          uint32_t *numbers, uint32_t count) {
    const char *at = text;
    for (uint32_t i = 0; i < count; i++) {
        char *end;
        unsigned long long number = strtoull(at, &end, 10);
        if (end == at || *at == '-' || number >= UINT32_MAX || *end != (i + 1 < count ? ',' : '\0'))
            cli_misuse(state, "--%s: '%s' needs %u numbers separated by commas", option, text,
                       count);
        numbers[i] = (uint32_t)number;
        at = end + 1;
    }
}

static void input_add_region(struct argp_state *state, cli_input *input, const char *text) {
    cli_split *split = &input->split;
    uint32_t n[8];
    input_numbers(state, "split-region", text, n, 8);
    split->regions = input_grow(state, split->regions, split->region_count, sizeof *split->regions);
    split->regions[split->region_count++] = (tn_split_region){.first = n[0],
                                                              .last = n[1],
                                                              .axes = {n[2], n[4]},
                                                              .parts = {n[3], n[5]},
                                                              .keep = n[6] != 0,
                                                              .slices = n[7] != 0};
}

/* Checks the name of an order here, because `verify` never uses it if the plan lists its steps. */
static const char *input_order(struct argp_state *state, const char *name) {
    char asked[TN__NEAR_TEXT];
    if (strcmp(name, "auto") == 0) return name;
    for (uint32_t i = 0; i < tn_order_count(); i++)
        if (strcmp(name, tn_order_name(i)) == 0) return name;
    cli_misuse(state, "--order: no order is called '%.60s'; %s", name,
               tn__near_of(name, tn_order_count(), tn_order_name,
                           "see `tenure list orders`, or auto, the best of them", asked));
}

static void input_add_again(struct argp_state *state, cli_input *input, const char *text) {
    cli_split *split = &input->split;
    uint32_t n[3];
    input_numbers(state, "split-again", text, n, 3);
    split->again = input_grow(state, split->again, split->again_count, sizeof *split->again);
    split->again[split->again_count++] = (tn_split_again){n[0], n[1], n[2]};
}

static error_t input_parse(int key, char *value, struct argp_state *state) {
    cli_input *input = state->input;
    tn_error error;
    if (key >= CLI_DIM && key <= CLI_SPLIT_AGAIN) input->given |= UINT32_C(1) << (key - CLI_DIM);
    switch (key) {
    case ARGP_KEY_INIT:
        return 0;
    case CLI_BATCH:
        input->import.batch = (int64_t)cli_count(state, "batch", value, INT64_MAX);
        break;
    case CLI_TARGET:
        input->processor = cli_processors[cli_choice(state, "target", value, cli_processors)];
        break;
    case CLI_VARIABLES_OUTSIDE:
        input->import.variables_outside = true;
        break;
    case CLI_SPLIT_REGION:
        input_add_region(state, input, value);
        break;
    case CLI_SPLIT_AGAIN:
        input_add_again(state, input, value);
        break;
    case CLI_DIM:
        input_add_dim(state, input, value);
        break;
    case CLI_INPUT_SHAPE:
        input_add_shape(state, input, value);
        break;
    case CLI_VALUE:
        input_add_value(state, input, value);
        break;
    case CLI_PARAMETER:
        input_add_parameter(state, input, value);
        break;
    case CLI_FORMAT:
        if (tn_format_parse(value, &input->import.format, &error) != TN_OK)
            cli_misuse(state, "--format: %s", error.message);
        input->format = value;
        break;
    case CLI_MODULE:
        input->module = value;
        break;
    case CLI_ALIGNMENT:
        input->alignment = cli_size(state, "alignment", value);
        if (input->alignment == 0 || (input->alignment & (input->alignment - 1)) != 0)
            cli_misuse(state, "--alignment: '%s' is not a power of two; use 1, 2, 4, 8, ...",
                       value);
        return 0;
    case CLI_ORDER:
        input->order = input_order(state, value);
        break;
    case CLI_BANK:
        input_add_bank(state, input, value);
        return 0;
    case CLI_PARALLEL:
        input->occupancy_options.parallel =
            CLI_CHOICE(state, "parallel", value, "serial", "safe") == 1 ? TN_PARALLEL_SAFE
                                                                        : TN_PARALLEL_SERIAL;
        break;
    case CLI_STATIC:
        input->statics =
            (tn_static_place)CLI_CHOICE(state, "static", value, "apart", "arena", "first");
        break;
    case CLI_NO_INPLACE:
        input->occupancy_options.inplace = TN_INPLACE_NONE;
        break;
    case CLI_FUSE_CONCAT:
        input->occupancy_options.fuse_concat = true;
        break;
    case CLI_KEEP_ATEN:
        input->import.keep_aten = true;
        break;
    case CLI_NO_VIEWS:
        input->occupancy_options.no_views = true;
        break;
    case CLI_KERNELS:
        if (!cli_kernel_target_parse(state, value, &input->target))
            input->tflm_kernels = cli_tflm_kernels_parse(state, value);
        break;
    case CLI_NO_REWRITE:
        input->target.no_rewrite = true;
        break;
    case CLI_FASTEST:
        input->target.fastest = true;
        break;
    case CLI_KEEP:
        cli_rule_add(state, input, TN_RULE_KEEP, value);
        break;
    case CLI_RECOMPUTE:
        cli_rule_add(state, input, TN_RULE_RECOMPUTE, value);
        break;
    case CLI_SWAP:
        cli_rule_add(state, input, TN_RULE_SWAP, value);
        break;
    case CLI_SEGMENTS:
        input->rules.segments = (uint32_t)cli_count(state, "segments", value, UINT32_MAX);
        input->rules.struct_size = sizeof input->rules;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

bool cli_input_apply(cli_input *input, const char *name, const char *value) {
    struct argp_state state = {.input = input};
    for (const struct argp_option *row = input_options; row->name != NULL; row++)
        if (strcmp(row->name, name) == 0 && (row->arg != NULL) == (value != NULL))
            return input_parse(row->key, (char *)(uintptr_t)value, &state) == 0;
    return false;
}

const struct argp cli_input_argp = {.options = input_options, .parser = input_parse};
const struct argp cli_input_run_argp = {.options = input_run_options, .parser = input_parse};
const struct argp cli_input_fit_argp = {.options = input_fit_options, .parser = input_parse};
const struct argp cli_input_train_argp = {.options = input_train_options, .parser = input_parse};
const struct argp cli_input_sizes_argp = {.options = input_sizes_options, .parser = input_parse};
const struct argp cli_input_estimate_argp = {.options = input_estimate_options,
                                             .parser = input_parse};

/* --- rules about tensors: --keep, --recompute, --swap and --segments --- */

#define RULES_PREFETCH ":prefetch="
#define RULES_MOST 4096u /* operators */

static const char *const rules_options[TN_RULE_COUNT] = {"keep", "recompute", "swap"};

/* Cuts ":prefetch=N" off the end of a pattern and returns N, or 0 if the pattern does not end
 * so. */
static uint32_t rules_prefetch(struct argp_state *state, char *pattern) {
    char *at = pattern, *last = NULL, *end;
    while ((at = strstr(at, RULES_PREFETCH)) != NULL) last = at++;
    if (last == NULL) return 0;
    const char *number = last + sizeof RULES_PREFETCH - 1;
    unsigned long long value = strtoull(number, &end, 10);
    if (*number < '0' || *number > '9' || *end != '\0' || value == 0 || value > RULES_MOST)
        cli_misuse(state, "--swap: '%s' is not a number of operators from 1 to %u", number,
                   RULES_MOST);
    *last = '\0';
    return (uint32_t)value;
}

void cli_rule_add(struct argp_state *state, cli_input *input, tn_rule_kind kind,
                  const char *value) {
    const size_t count = (size_t)input->rules.count + 1;
    tn_rule *list = realloc((void *)(uintptr_t)input->rules.list, count * sizeof *list);
    char *pattern = strdup(value);
    if (list == NULL || pattern == NULL) argp_failure(state, 4, 0, "out of memory");
    const uint32_t prefetch = kind == TN_RULE_SWAP ? rules_prefetch(state, pattern) : 0;
    if (*pattern == '\0' || strcmp(pattern, "type:") == 0)
        cli_misuse(state, "--%s: the pattern is empty; write a name, or type: and an operator type",
                   rules_options[kind]);
    list[input->rules.count++] = (tn_rule){pattern, kind, prefetch};
    input->rules.list = list;
    input->rules.struct_size = sizeof input->rules;
}

void cli_rules_release(cli_input *input) {
    for (uint32_t i = 0; i < input->rules.count; i++)
        free((char *)(uintptr_t)input->rules.list[i].pattern);
    free((void *)(uintptr_t)input->rules.list);
    input->rules = (tn_rules){0};
}

/* --- operators in tiles: --split and --extra-work --- */

/* defaults of --extra-work, as fractions of the work of the model: for one plan, and for a curve */
#define SPLIT_SHARE 0.25
#define SPLIT_SHARE_MOST 0.5

enum { SPLIT_SPLIT = 1500, SPLIT_WORK };

#define SPLIT_OPTIONS(X)                                                                           \
    X(SPLIT_SPLIT, "split", NULL,                                                                  \
      "run operators in tiles, so that tensors between them never exist as a whole: to meet the "  \
      "budget, or to use as little memory as --extra-work allows")                                 \
    X(SPLIT_WORK, "extra-work", "SHARE",                                                           \
      "with --split: most additional work, such as 10% or 0.1 of the model's; a byte that is "     \
      "copied or read twice counts as eight operations (default: 25%, for a curve 50%, with a "    \
      "budget no limit)")

double cli_extra_work(struct argp_state *state, const char *text) {
    double work = cli_share(state, "extra-work", text);
    if (work > 1000)
        cli_misuse(state, "--extra-work: '%.60s' is more than 1000 times the work; use less", text);
    return work;
}

static error_t split_parse(int key, char *value, struct argp_state *state) {
    cli_split *split = state->input;
    switch (key) {
    case SPLIT_SPLIT:
        split->asked = true;
        return 0;
    case SPLIT_WORK:
        split->options.share = fmax(cli_extra_work(state, value), DBL_MIN);
        split->has_share = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option split_options[] = {SPLIT_OPTIONS(CLI_OPTION){0}};
const struct argp cli_split_argp = {.options = split_options, .parser = split_parse};

const tn_setup_split *cli_split_of(cli_split *split, uint64_t budget) {
    if (!split->asked) return NULL;
    split->options.budget = budget;
    if (split->sweeps && !split->has_share) split->options.share = SPLIT_SHARE_MOST;
    if (budget == 0 && !split->sweeps && !split->has_share) split->options.share = SPLIT_SHARE;
    return &split->options;
}
