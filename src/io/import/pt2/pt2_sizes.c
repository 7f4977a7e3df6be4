/* pt2_sizes.c - symbols of a program, and sizes as expressions of them.
 *
 * torch.export writes a size that is not a number as the text of a SymPy expression:
 * "Mul(Integer(2), Symbol('s77', positive=True, integer=True))". The text is computed directly, by
 * descent of limited depth. A symbol has the value of --dim, or that of --input-shape or --batch at
 * an input, or the upper bound that the program states for it. A function that this reader does not
 * know is replaced by the hint, the size in the example of the export.
 */
#include "io/import/pt2/pt2_reader.h"

#include <stdio.h>

#define SIZES_DEPTH 64u
#define SIZES_TEXT 65536u     /* most characters of an expression */
#define SIZES_BOUND INT32_MAX /* a symbol with a larger upper bound counts as unbounded */

static tn__span sizes_span(const char *text) {
    return (tn__span){(const uint8_t *)text, strlen(text)};
}

/* --- expressions --- */

typedef struct sizes_text {
    pt2_reader *reader;
    const char *at;
    bool strange; /* true: the text has an unknown function, or is no expression */
    bool missing; /* true: the expression has a symbol without a value */
    bool needs;   /* true: list symbols without a value as missing */
    bool no_memory;
} sizes_text;

static bool sizes_is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void sizes_blank(sizes_text *text) {
    while (*text->at == ' ') text->at++;
}

static size_t sizes_word(const sizes_text *text) {
    size_t length = 0;
    while (sizes_is_word(text->at[length])) length++;
    return length;
}

static int64_t sizes_symbol(sizes_text *text, const char *name, size_t length) {
    tn__dims *dims = &text->reader->importer->dims;
    tn__span span = {(const uint8_t *)name, length};
    int64_t value = tn__dims_value(dims, span);
    if (value != TN_DIM_UNKNOWN) return value;
    bool noted = text->needs ? tn__dims_need(dims, span) : tn__dims_name(dims, span);
    text->missing = true;
    text->no_memory = !noted || text->no_memory;
    return 0;
}

/* Computes Symbol('s77', positive=True, integer=True); the text stands after the opening
 * parenthesis. */
static int64_t sizes_quoted(sizes_text *text) {
    char quote = *text->at;
    if (quote != '\'' && quote != '"') {
        text->strange = true;
        return 0;
    }
    const char *name = ++text->at;
    while (*text->at != '\0' && *text->at != quote) text->at++;
    size_t length = (size_t)(text->at - name);
    while (*text->at != '\0' && *text->at != ')') text->at++;
    if (*text->at == '\0' || length == 0) {
        text->strange = true;
        return 0;
    }
    text->at++;
    return sizes_symbol(text, name, length);
}

static int64_t sizes_floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Applies function `head` to its value so far, `so`, and its next argument. Returns false if the
 * function is unknown, or its value does not fit. */
static bool sizes_apply(const char *head, size_t length, int64_t so, int64_t next,
                        int64_t *result) {
    static const char *const heads[] = {"Add",       "Mul", "Pow", "FloorDiv", "CleanDiv",    "Mod",
                                        "PythonMod", "Max", "Min", "CeilDiv",  "PowByNatural"};
    uint32_t which = 0, count = sizeof heads / sizeof *heads;
    while (which < count &&
           (strlen(heads[which]) != length || memcmp(heads[which], head, length) != 0))
        which++;
    bool least = (so == INT64_MIN && next == -1);
    switch (which) {
    case 0:
        return !__builtin_add_overflow(so, next, result);
    case 1:
        return !__builtin_mul_overflow(so, next, result);
    case 2:
    case 10:
        if (next < 0 || next > 62) return false;
        for (*result = 1; next > 0; next--)
            if (__builtin_mul_overflow(*result, so, result)) return false;
        return true;
    case 3:
    case 4:
        if (next == 0 || least) return false;
        *result = sizes_floor_div(so, next);
        return true;
    case 5:
    case 6:
        if (next == 0 || least) return false;
        *result = so - sizes_floor_div(so, next) * next;
        return true;
    case 7:
        *result = so > next ? so : next;
        return true;
    case 8:
        *result = so < next ? so : next;
        return true;
    case 9:
        if (next == 0 || least || so == INT64_MIN) return false;
        *result = -sizes_floor_div(-so, next);
        return true;
    default:
        return false;
    }
}

static int64_t sizes_expression(sizes_text *text, uint32_t depth);

/* Reads the arguments of function `head` and returns its value; the text stands after the opening
 * parenthesis. */
static int64_t sizes_arguments(sizes_text *text, const char *head, size_t length, uint32_t depth) {
    int64_t so = sizes_expression(text, depth + 1);
    sizes_blank(text);
    if (*text->at == ')' && !(length == 7 && memcmp(head, "Integer", 7) == 0) &&
        !(length == 3 && (memcmp(head, "Max", 3) == 0 || memcmp(head, "Min", 3) == 0 ||
                          memcmp(head, "Add", 3) == 0 || memcmp(head, "Mul", 3) == 0)))
        text->strange = true;
    while (*text->at == ',' && !text->strange) {
        text->at++;
        int64_t next = sizes_expression(text, depth + 1);
        if (!text->missing && !text->strange && !sizes_apply(head, length, so, next, &so))
            text->strange = true;
        sizes_blank(text);
    }
    if (*text->at != ')') text->strange = true;
    if (!text->strange) text->at++;
    return so;
}

static int64_t sizes_number(sizes_text *text) {
    size_t left = strlen(text->at);
    int64_t value = 0;
    if (!tn__take_integer(&text->at, &left, &value)) text->strange = true;
    return value;
}

static int64_t sizes_expression(sizes_text *text, uint32_t depth) {
    if (depth > SIZES_DEPTH) text->strange = true;
    if (text->strange) return 0;
    sizes_blank(text);
    if (*text->at == '-' || (*text->at >= '0' && *text->at <= '9')) return sizes_number(text);
    const char *head = text->at;
    size_t length = sizes_word(text);
    text->at += length;
    if (length == 0) text->strange = true;
    if (text->strange) return 0;
    if (*text->at != '(') return sizes_symbol(text, head, length);
    text->at++;
    if (length == 6 && memcmp(head, "Symbol", 6) == 0) return sizes_quoted(text);
    return sizes_arguments(text, head, length, depth);
}

/* Notes all symbols that are written as Symbol('s77', ...) in an expression. */
static tn_status sizes_name_symbols(pt2_reader *reader, const char *expression) {
    const char *at = expression;
    while ((at = strstr(at, "Symbol(")) != NULL) {
        at += strlen("Symbol(");
        char quote = *at;
        if (quote != '\'' && quote != '"') continue;
        const char *end = strchr(at + 1, quote);
        if (end == NULL) return TN_OK;
        tn__span name = {(const uint8_t *)at + 1, (size_t)(end - at - 1)};
        if (name.size > 0 && !tn__dims_name(&reader->importer->dims, name))
            return tn__no_memory(reader->error, "the dimensions");
        at = end;
    }
    return TN_OK;
}

static sizes_text sizes_read(pt2_reader *reader, const char *expression, bool needs,
                             int64_t *value) {
    sizes_text text = {.reader = reader, .at = expression, .needs = needs};
    text.strange = strlen(expression) > SIZES_TEXT;
    *value = sizes_expression(&text, 0);
    sizes_blank(&text);
    if (*text.at != '\0') text.strange = true;
    return text;
}

/* Computes a size that is given as text. An infix expression such as "2*s0", which very old
 * programs have, is computed by tn__dims_value, as in .onnx files. An expression that cannot be
 * computed (*strange) needs no values of symbols, because they would not help. */
static tn_status sizes_compute(pt2_reader *reader, const char *expression, int64_t *value,
                               bool *strange) {
    sizes_text text = sizes_read(reader, expression, false, value);
    if (text.missing && !text.strange) text = sizes_read(reader, expression, true, value);
    if (text.no_memory) return tn__no_memory(reader->error, "the dimensions");
    if (text.strange) {
        TN_TRY(sizes_name_symbols(reader, expression));
        *value = tn__dims_value(&reader->importer->dims, sizes_span(expression));
        text.strange = *value == TN_DIM_UNKNOWN;
        text.missing = false;
    }
    *strange = text.strange;
    if (text.missing) *value = TN_DIM_UNKNOWN;
    return TN_OK;
}

static tn_status sizes_hint(pt2_reader *reader, json_t *expression, const char *text,
                            int64_t *value) {
    json_t *hint = json_object_get(json_object_get(expression, "hint"), "as_int");
    if (!json_is_integer(hint))
        TN_FAIL(reader->error, TN_E_UNKNOWN, "the size '%.100s' cannot be computed", text);
    *value = json_integer_value(hint);
    if (reader->hinted++ == 0)
        tn__import_log(reader->importer,
                       "the size '%.100s' cannot be computed: the size of the export's example is "
                       "used",
                       text);
    return TN_OK;
}

static tn_status sizes_of_expression(pt2_reader *reader, json_t *expression, int64_t *value) {
    const char *text = json_string_value(json_object_get(expression, "expr_str"));
    bool strange = false;
    if (text == NULL)
        TN_FAIL(reader->error, TN_E_INVALID, "a size is neither a number nor an expression");
    TN_TRY(sizes_compute(reader, text, value, &strange));
    return strange ? sizes_hint(reader, expression, text, value) : TN_OK;
}

tn_status tn__pt2_size(pt2_reader *reader, json_t *size, int64_t *value) {
    json_t *number = json_is_integer(size) ? size : json_object_get(size, "as_int");
    const char *name = json_string_value(json_object_get(size, "as_name"));
    *value = json_integer_value(number);
    if (json_is_integer(number)) return TN_OK;
    if (name != NULL) {
        json_t *named = json_object_get(json_object_get(reader->graph, "sym_int_values"), name);
        size = named;
        number = json_object_get(named, "as_int");
        *value = json_integer_value(number);
        if (json_is_integer(number)) return TN_OK;
    }
    return sizes_of_expression(reader, json_object_get(size, "as_expr"), value);
}

/* --- symbols --- */

/* Returns the name, in the arena, of a size that is a single symbol; NULL for any other size. */
static const char *sizes_plain(pt2_reader *reader, json_t *size) {
    const char *text =
        json_string_value(json_object_get(json_object_get(size, "as_expr"), "expr_str"));
    if (text == NULL) return NULL;
    sizes_text scan = {.at = text};
    size_t length = sizes_word(&scan);
    if (text[length] == '\0' && length > 0 && (text[0] < '0' || text[0] > '9')) return text;
    if (strncmp(text, "Symbol('", 8) != 0) return NULL;
    const char *end = strchr(text + 8, '\'');
    if (end == NULL || end == text + 8 || strchr(end, ')') == NULL || strchr(end, ')')[1] != '\0')
        return NULL;
    return tn__arena_string(&reader->arena, text + 8, (size_t)(end - text - 8));
}

static tn_status sizes_add_symbol(pt2_reader *reader, const char *name, int64_t least,
                                  int64_t most) {
    uint32_t existing;
    if (!tn__reserve(reader->importer->context, &reader->symbols, &reader->symbol_room,
                     (size_t)reader->symbol_count + 1, sizeof *reader->symbols) ||
        !tn__names_add(&reader->symbol_names, name, strlen(name), reader->symbol_count, &existing))
        return tn__no_memory(reader->error, "the dimensions");
    if (existing != TN__NAMES_NONE) return TN_OK;
    reader->symbols[reader->symbol_count++] =
        (pt2_symbol){.name = name, .least = least, .most = most};
    return TN_OK;
}

/* Reads the bound of a symbol. "int_oo" and numbers that no size can have mean that there is no
 * bound. */
static int64_t sizes_bound(json_t *bound) {
    json_t *number = json_is_object(bound) ? json_object_get(bound, "as_int") : bound;
    json_int_t value = json_integer_value(number);
    return json_is_integer(number) && value >= 0 && value <= SIZES_BOUND ? value : TN_DIM_UNKNOWN;
}

static tn_status sizes_ranges(pt2_reader *reader) {
    const char *name;
    json_t *range;
    json_object_foreach(json_object_get(reader->program, "range_constraints"), name, range) {
        int64_t least = sizes_bound(json_object_get(range, "min_val"));
        int64_t most = sizes_bound(json_object_get(range, "max_val"));
        TN_TRY(sizes_add_symbol(reader, name, least, most));
    }
    return TN_OK;
}

/* Applies the options `input_shapes` or `batch` to one dimension of an input. */
static tn_status sizes_bind(pt2_reader *reader, json_t *size, const char *input, uint32_t axis,
                            int64_t given, const char *option) {
    const char *symbol = sizes_plain(reader, size);
    if (symbol != NULL)
        return tn__dims_bind(&reader->importer->dims, sizes_span(symbol), given, input,
                             reader->error);
    json_t *number = json_object_get(size, "as_int");
    if (!json_is_integer(number) || json_integer_value(number) == given) return TN_OK;
    TN_FAIL(reader->error, TN_E_INVALID,
            "%s makes dimension %u of input '%.80s' %lld, but the program was exported for %lld "
            "only; export it with dynamic_shapes",
            option, axis, input, (long long)given, (long long)json_integer_value(number));
}

static tn_status sizes_of_input(pt2_reader *reader, const char *name, json_t *sizes,
                                bool *has_batch) {
    tn_importer *importer = reader->importer;
    const tn_input_shape *given = tn__import_shape(importer, sizes_span(name));
    uint32_t rank = (uint32_t)json_array_size(sizes);
    if (given != NULL && given->rank != rank)
        TN_FAIL(reader->error, TN_E_INVALID,
                "`input_shapes` %.80s has %u dimensions; the input has %u", name, given->rank,
                rank);
    for (uint32_t d = 0; given != NULL && d < rank; d++)
        TN_TRY(sizes_bind(reader, json_array_get(sizes, d), name, d, given->shape[d],
                          "`input_shapes`"));
    bool takes = importer->options->batch > 0 && given == NULL && rank > 0 && !*has_batch &&
                 !tn__import_is_parameter(importer, name);
    if (takes)
        TN_TRY(sizes_bind(reader, json_array_get(sizes, 0), name, 0, importer->options->batch,
                          "`batch`"));
    *has_batch = *has_batch || takes;
    for (uint32_t d = 0; d < rank; d++) {
        const char *symbol = sizes_plain(reader, json_array_get(sizes, d));
        if (symbol != NULL)
            TN_TRY(sizes_add_symbol(reader, symbol, TN_DIM_UNKNOWN, TN_DIM_UNKNOWN));
    }
    return TN_OK;
}

/* Applies the options to all inputs of the caller, in order. */
static tn_status sizes_inputs(pt2_reader *reader) {
    json_t *inputs = json_object_get(reader->graph, "inputs");
    json_t *specs = json_object_get(reader->signature, "input_specs");
    json_t *tensors = json_object_get(reader->graph, "tensor_values");
    bool has_batch = false;
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        json_t *spec = json_array_get(specs, i);
        json_t *tensor = json_object_get(json_array_get(inputs, i), "as_tensor");
        const char *name = json_string_value(json_object_get(tensor, "name"));
        if (name == NULL || (spec != NULL && json_object_get(spec, "user_input") == NULL)) continue;
        json_t *sizes = json_object_get(json_object_get(tensors, name), "sizes");
        TN_TRY(sizes_of_input(reader, name, sizes, &has_batch));
    }
    return TN_OK;
}

/* Gives a symbol without a value its upper bound, and warns about a value outside of its bounds. */
static tn_status sizes_settle(pt2_reader *reader, const pt2_symbol *symbol) {
    tn__dims *dims = &reader->importer->dims;
    tn__span name = sizes_span(symbol->name);
    int64_t value = tn__dims_value(dims, name);
    if (value == TN_DIM_UNKNOWN) {
        if (symbol->most == TN_DIM_UNKNOWN) return TN_OK;
        tn__import_log(reader->importer,
                       "dimension '%.80s' has no value: its upper bound %lld is used", symbol->name,
                       (long long)symbol->most);
        return tn__dims_bind(dims, name, symbol->most, symbol->name, reader->error);
    }
    bool fits = (symbol->least == TN_DIM_UNKNOWN || value >= symbol->least) &&
                (symbol->most == TN_DIM_UNKNOWN || value <= symbol->most);
    char most[32] = "more";
    if (fits) return TN_OK;
    if (symbol->most != TN_DIM_UNKNOWN)
        snprintf(most, sizeof most, "%lld", (long long)symbol->most);
    tn__import_log(reader->importer,
                   "dimension '%.80s' is %lld, but PyTorch runs this program only for %lld to %s",
                   symbol->name, (long long)value,
                   symbol->least == TN_DIM_UNKNOWN ? 0 : (long long)symbol->least, most);
    return TN_OK;
}

/* Notes the symbols of numbers that the program computes, such as u0 = x.item(). A tensor whose
 * size is one of them needs a value; a number that is only an argument does not. */
static tn_status sizes_numbers(pt2_reader *reader) {
    const char *name;
    json_t *number;
    json_object_foreach(json_object_get(reader->graph, "sym_int_values"), name, number) {
        json_t *expression = json_object_get(json_object_get(number, "as_expr"), "expr_str");
        const char *text = json_string_value(expression);
        if (text != NULL) TN_TRY(sizes_name_symbols(reader, text));
    }
    return TN_OK;
}

tn_status tn__pt2_symbols(pt2_reader *reader) {
    TN_TRY(sizes_ranges(reader));
    TN_TRY(sizes_inputs(reader));
    TN_TRY(sizes_numbers(reader));
    for (uint32_t i = 0; i < reader->symbol_count; i++)
        TN_TRY(sizes_settle(reader, &reader->symbols[i]));
    return TN_OK;
}
