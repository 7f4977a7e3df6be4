/* dims.c - implements the values of symbolic dimensions. See dims.h. */
#include "io/import/dims.h"

#include <stdio.h>

typedef struct dims_entry {
    const char *text; /* clean */
    int64_t value;    /* TN_DIM_UNKNOWN: the symbol has no value */
    bool given;       /* true: the value was given by the option `dims` */
    bool used;        /* true: the symbol occurs in the file */
    bool input;       /* true: the symbol is a dimension of an input */
    bool named;       /* true: the file names the symbol, but reading it needs no value */
} dims_entry;

typedef struct dims_open {
    const char *input;
    uint32_t axis;
} dims_open;

void tn__dims_release(tn__dims *dims) {
    tn__free(dims->context, dims->entries, dims->room * sizeof *dims->entries);
    tn__free(dims->context, dims->open, dims->open_room * sizeof *dims->open);
    tn__names_release(&dims->index);
    tn__arena_release(&dims->arena);
}

/* Returns the entry of a symbol, and creates it if it does not exist; NULL: out of memory. */
static dims_entry *dims_entry_of(tn__dims *dims, tn__span symbol) {
    const char *text = symbol.size ? (const char *)symbol.bytes : "";
    uint32_t at = tn__names_find(&dims->index, text, symbol.size);
    if (at != TN__NAMES_NONE) return &dims->entries[at];
    const char *clean = tn__span_copy(&dims->arena, symbol);
    char *key = tn__arena_string(&dims->arena, text, symbol.size);
    if (!clean || !key ||
        !tn__reserve(dims->context, &dims->entries, &dims->room, dims->count + 1,
                     sizeof *dims->entries) ||
        !tn__names_add(&dims->index, key, symbol.size, (uint32_t)dims->count, NULL))
        return NULL;
    dims_entry *entry = &dims->entries[dims->count++];
    *entry = (dims_entry){.text = clean, .value = TN_DIM_UNKNOWN};
    return entry;
}

static tn__span dims_span(const char *text) {
    return (tn__span){(const uint8_t *)text, strlen(text)};
}

static tn_status dims_give(tn__dims *dims, const tn_dim *dim, tn_error *error) {
    if (!dim->name || !*dim->name) TN_FAIL(error, TN_E_INVALID, "`dims` needs a name: `dims` N=8");
    if (dim->value < 0)
        TN_FAIL(error, TN_E_INVALID, "`dims` %.100s=%lld: a dimension cannot be negative",
                dim->name, (long long)dim->value);
    dims_entry *entry = dims_entry_of(dims, dims_span(dim->name));
    if (!entry) return tn__no_memory(error, "the dimensions");
    if (entry->given && entry->value != dim->value)
        TN_FAIL(error, TN_E_INVALID, "`dims` %.100s is given twice, as %lld and as %lld", dim->name,
                (long long)entry->value, (long long)dim->value);
    entry->given = true;
    entry->value = dim->value;
    return TN_OK;
}

tn_status tn__dims_init(tn__dims *dims, const tn_context *context, const tn_import_options *options,
                        tn_error *error) {
    *dims = (tn__dims){.context = context};
    tn__arena_init(&dims->arena, context);
    tn__names_init(&dims->index, context);
    for (uint32_t i = 0; i < options->dim_count; i++)
        TN_TRY(dims_give(dims, &options->dims[i], error));
    return TN_OK;
}

tn_status tn__dims_bind(tn__dims *dims, tn__span symbol, int64_t value, const char *input,
                        tn_error *error) {
    dims_entry *entry = dims_entry_of(dims, symbol);
    if (!entry) return tn__no_memory(error, "the dimensions");
    entry->used = entry->named = true;
    if (entry->value != TN_DIM_UNKNOWN && entry->value != value)
        TN_FAIL(error, TN_E_INVALID,
                "`input_shapes` %.80s makes dimension '%.80s' %lld, but %s makes it %lld", input,
                entry->text, (long long)value, entry->given ? "`dims`" : "another `input_shapes`",
                (long long)entry->value);
    entry->value = value;
    return TN_OK;
}

/* --- computing expressions of symbols with two short stacks, no recursion (Dijkstra's shunting
 * yard, 1961) --- */

#define DIMS_STACK 32u

typedef struct dims_sum {
    tn__dims *dims;
    /* true: names of inputs count as 1, to check whether their values would be enough */
    bool assume;
    const char *next, *end;
    int64_t values[DIMS_STACK];
    /* operators that wait for an operand: ( + - * / % and d, which stands for // */
    char operators[DIMS_STACK];
    uint32_t value_count, operator_count;
} dims_sum;

static bool dims_apply(dims_sum *sum) {
    char sign = sum->operators[--sum->operator_count];
    if (sign == '(' || sum->value_count < 2) return false;
    int64_t right = sum->values[--sum->value_count];
    int64_t left = sum->values[sum->value_count - 1], result;
    bool divides = sign == '/' || sign == 'd' || sign == '%';
    if (divides && (right <= 0 || left < 0)) return false;
    bool fine = true;
    switch (sign) {
    case '+':
        fine = !__builtin_add_overflow(left, right, &result);
        break;
    case '-':
        fine = !__builtin_sub_overflow(left, right, &result);
        break;
    case '*':
        fine = !__builtin_mul_overflow(left, right, &result);
        break;
    case '%':
        result = left % right;
        break;
    case '/':
        fine = left % right == 0; /* fall through */
    default:
        result = left / right;
        break;
    }
    if (fine) sum->values[sum->value_count - 1] = result;
    return fine;
}

static bool dims_push_operator(dims_sum *sum, char sign) {
    bool product = sign != '+' && sign != '-';
    while (sum->operator_count) {
        char top = sum->operators[sum->operator_count - 1];
        bool binds = top != '(' && (!product || (top != '+' && top != '-'));
        if (!binds) break;
        if (!dims_apply(sum)) return false;
    }
    if (sum->operator_count == DIMS_STACK) return false;
    sum->operators[sum->operator_count++] = sign;
    return true;
}

static bool dims_is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_.:$@#?", c)) || (unsigned char)c >= 0x80;
}

/* Reads a number, or a name with a value. The name floor is skipped, because it has no effect where
 * `/` is exact. */
static bool dims_operand(dims_sum *sum, int64_t *value, bool *skip) {
    const char *first = sum->next;
    while (sum->next != sum->end && dims_is_name(*sum->next)) sum->next++;
    size_t length = (size_t)(sum->next - first);
    *skip = length == 5 && !memcmp(first, "floor", 5) && sum->next != sum->end && *sum->next == '(';
    if (*skip) return true;
    if (*first >= '0' && *first <= '9') {
        *value = 0;
        for (size_t i = 0; i < length; i++) {
            if (first[i] < '0' || first[i] > '9' || *value > INT32_MAX) return false;
            *value = *value * 10 + (first[i] - '0');
        }
        return true;
    }
    uint32_t at = tn__names_find(&sum->dims->index, first, length);
    if (at == TN__NAMES_NONE) return false;
    dims_entry *entry = &sum->dims->entries[at];
    if (!sum->assume) entry->used = true;
    *value = entry->value != TN_DIM_UNKNOWN ? entry->value
             : sum->assume && entry->input  ? 1
                                            : TN_DIM_UNKNOWN;
    return *value != TN_DIM_UNKNOWN;
}

/* Reads one token. On entry, `operand` says whether an operand must come next; on return, whether
 * one must follow. */
static bool dims_token(dims_sum *sum, bool *operand) {
    char c = *sum->next;
    if (*operand && dims_is_name(c)) {
        int64_t value;
        bool skip;
        if (sum->value_count == DIMS_STACK || !dims_operand(sum, &value, &skip)) return false;
        if (!skip) sum->values[sum->value_count++] = value;
        *operand = skip;
        return true;
    }
    sum->next++;
    if (*operand) {
        if (c != '(' || sum->operator_count == DIMS_STACK) return false;
        sum->operators[sum->operator_count++] = '(';
        return true;
    }
    if (c == ')') {
        while (sum->operator_count && sum->operators[sum->operator_count - 1] != '(')
            if (!dims_apply(sum)) return false;
        return sum->operator_count-- > 0;
    }
    if (!c || !strchr("+-*/%", c)) return false;
    if (c == '/' && sum->next != sum->end && *sum->next == '/') {
        c = 'd';
        sum->next++;
    }
    *operand = true;
    return dims_push_operator(sum, c);
}

static int64_t dims_compute(tn__dims *dims, const char *text, size_t size, bool assume) {
    dims_sum sum = {.dims = dims, .assume = assume, .next = text, .end = text + size};
    bool operand = true;
    while (sum.next != sum.end) {
        if (*sum.next == ' ') {
            sum.next++;
        } else if (!dims_token(&sum, &operand)) {
            return TN_DIM_UNKNOWN;
        }
    }
    while (sum.operator_count)
        if (!dims_apply(&sum)) return TN_DIM_UNKNOWN;
    bool fine = sum.value_count == 1 && !operand && sum.values[0] >= 0;
    return fine ? sum.values[0] : TN_DIM_UNKNOWN;
}

int64_t tn__dims_value(tn__dims *dims, tn__span symbol) {
    if (!symbol.size) return TN_DIM_UNKNOWN;
    const char *text = (const char *)symbol.bytes;
    uint32_t at = tn__names_find(&dims->index, text, symbol.size);
    if (at != TN__NAMES_NONE) {
        dims->entries[at].used = true;
        if (dims->entries[at].value != TN_DIM_UNKNOWN) return dims->entries[at].value;
    }
    return dims->count ? dims_compute(dims, text, symbol.size, false) : TN_DIM_UNKNOWN;
}

/* --- symbols that need a value, and the report of missing ones --- */

bool tn__dims_need(tn__dims *dims, tn__span symbol) {
    dims_entry *entry = dims_entry_of(dims, symbol);
    if (!entry) return false;
    entry->used = entry->input = true;
    return true;
}

bool tn__dims_name(tn__dims *dims, tn__span symbol) {
    dims_entry *entry = dims_entry_of(dims, symbol);
    if (!entry) return false;
    entry->used = entry->named = true;
    return true;
}

bool tn__dims_need_shape(tn__dims *dims, const char *input, uint32_t axis) {
    char *copy = tn__arena_string(&dims->arena, input, strlen(input));
    if (!copy || !tn__reserve(dims->context, &dims->open, &dims->open_room, dims->open_count + 1,
                              sizeof *dims->open))
        return false;
    dims->open[dims->open_count++] = (dims_open){copy, axis};
    return true;
}

static tn_status dims_check_used(tn__dims *dims, tn_error *error) {
    const dims_entry *stray = NULL;
    for (size_t i = 0; i < dims->count && !stray; i++)
        if (dims->entries[i].given && !dims->entries[i].used) stray = &dims->entries[i];
    if (!stray) return TN_OK;
    char text[220];
    tn__item_list list = tn__item_list_begin(text, sizeof text);
    for (size_t i = 0; i < dims->count; i++)
        if (dims->entries[i].input || dims->entries[i].named)
            tn__item_list_add(&list, "'%.80s'", dims->entries[i].text);
    if (!list.count && !list.left_out)
        TN_FAIL(error, TN_E_INVALID,
                "`dims` %.100s: no dimension has that name; the inputs of this model have no "
                "symbolic dimensions (`input_shapes` sets a whole shape)",
                stray->text);
    TN_FAIL(error, TN_E_INVALID, "`dims` %.100s: no dimension has that name; there is %s",
            stray->text, tn__item_list_end(&list));
}

/* Whether this expression would get a value if its plain names had values. Then only the names are
 * reported as missing, not the expression. */
static bool dims_follows(tn__dims *dims, const dims_entry *entry) {
    size_t size = strlen(entry->text);
    bool plain = true;
    for (size_t i = 0; i < size; i++) plain = plain && dims_is_name(entry->text[i]);
    return !plain && dims_compute(dims, entry->text, size, true) != TN_DIM_UNKNOWN;
}

static bool dims_is_missing(tn__dims *dims, size_t i) {
    const dims_entry *entry = &dims->entries[i];
    if (!entry->input || entry->value != TN_DIM_UNKNOWN) return false;
    return dims_compute(dims, entry->text, strlen(entry->text), false) == TN_DIM_UNKNOWN &&
           !dims_follows(dims, entry);
}

/* Lists the open dimensions of one input; its entries are adjacent: "input 'x' dimensions 0,2
 * (unnamed)". */
static size_t dims_list_open(const tn__dims *dims, size_t first, tn__item_list *list) {
    const dims_open *open = dims->open;
    size_t end = first + 1;
    if (open[first].axis == TN_RANK_UNKNOWN) {
        tn__item_list_add(list, "input '%.80s' (no shape)", open[first].input);
        return end;
    }
    while (end < dims->open_count && open[end].axis > open[end - 1].axis &&
           open[end].axis != TN_RANK_UNKNOWN && !strcmp(open[end].input, open[first].input))
        end++;
    char axes[40];
    int used = snprintf(axes, sizeof axes, "%u", open[first].axis);
    for (size_t i = first + 1; i < end && used < 30; i++)
        used += snprintf(axes + used, sizeof axes - (size_t)used, ",%u", open[i].axis);
    tn__item_list_add(list, "input '%.80s' dimension%s %s (unnamed)", open[first].input,
                      end - first > 1 ? "s" : "", axes);
    return end;
}

static void dims_list_missing(tn__dims *dims, tn__item_list *list, const char **first) {
    for (size_t i = 0; i < dims->count; i++) {
        if (!dims_is_missing(dims, i)) continue;
        if (!*first) *first = dims->entries[i].text;
        tn__item_list_add(list, "'%.80s'", dims->entries[i].text);
    }
}

tn_status tn__dims_check(tn__dims *dims, tn_error *error) {
    TN_TRY(dims_check_used(dims, error));
    char names[140], shapes[140], give_name[64] = "", give_shape[64] = "";
    tn__item_list by_name = tn__item_list_begin(names, sizeof names);
    tn__item_list by_shape = tn__item_list_begin(shapes, sizeof shapes);
    const char *first = NULL;
    dims_list_missing(dims, &by_name, &first);
    for (size_t i = 0; i < dims->open_count;) i = dims_list_open(dims, i, &by_shape);
    if (!first && !dims->open_count) return TN_OK;
    bool several = by_name.count + by_name.left_out > 1;
    if (first)
        snprintf(give_name, sizeof give_name, " (give `dims` %.30s=SIZE%s)",
                 several ? "NAME" : first, several ? " for each" : "");
    if (dims->open_count)
        snprintf(give_shape, sizeof give_shape, ": give `input_shapes` %.30s=...",
                 dims->open[0].input);
    TN_FAIL(error, TN_E_UNKNOWN, "no value for %s%s%s%s%s", tn__item_list_end(&by_name), give_name,
            first && dims->open_count ? "; " : "", tn__item_list_end(&by_shape), give_shape);
}
