/* facts.c - collects the facts of a command's answer and prints them as a table, as JSON or as one
 * line. */
#include "cli/answer/facts.h"
#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACTS_GAP 2u /* blanks between two columns of a table */
/* buffer size in bytes for a member's full name, such as "train.ranks[].idle.predicted" */
#define FACTS_NAME 160u
#define FACTS_MEMBERS 2048u /* capacity of the list of the JSON members of all commands */

typedef struct facts_value {
    uint64_t whole, most; /* least and greatest value of a range; equal for a plain number */
    double real;
    const char *word;
} facts_value;

/* --- looking up facts in the tables of facts --- */

const cli_facts cli_range_facts = {.rows = (const cli_fact[]){CLI_FACTS_END}};

/* Returns the row that declares the member `key`, or NULL if the table has no such row. */
static const cli_fact *facts_row(const cli_facts *facts, const char *key) {
    for (const cli_fact *row = facts->rows; row->help != NULL; row++) {
        if (row->key != NULL && (strcmp(row->key, key) == 0 || strcmp(row->key, CLI_ANY_KEY) == 0))
            return row;
        const cli_fact *also = row->key == NULL && row->of != NULL ? facts_row(row->of, key) : NULL;
        if (also != NULL) return also;
    }
    return NULL;
}

static const cli_fact *facts_find(const cli_facts *facts, const char *key) {
    const cli_fact *row = facts_row(facts, key);
    if (row != NULL) return row;
    fprintf(stderr, "tenure: internal error: the answer has no fact '%s'\n", key);
    exit(tn_status_exit_code(TN_E_INTERNAL));
}

static cli_open_level *facts_level(cli_answer *answer) { return &answer->levels[answer->depth]; }

static bool facts_in_columns(const cli_answer *answer) {
    const cli_open_level *level = &answer->levels[answer->depth];
    return answer->style == CLI_STYLE_TABLE && level->facts->columns && !level->silent;
}

/* --- printing the table --- */

/* Returns the number of columns before the row `until`; with `until` NULL, the number of all
 * columns. */
static uint32_t facts_column(const cli_facts *facts, const cli_fact *until) {
    uint32_t count = 0;
    for (const cli_fact *row = facts->rows; row->help != NULL && row != until; row++)
        count += row->label != NULL;
    return count;
}

/* Adds text to the output with its control characters as escapes. A name from a file that contains
 * a newline could otherwise imitate a second line of the answer. */
static void facts_put_visible(tn__text *out, const char *words, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)words[i];
        if (byte < ' ' || byte == 0x7f)
            tn__text_printf(out, "\\x%02x", byte);
        else
            tn__text_add(out, &words[i], 1);
    }
}

/* Adds empty cells up to the given column. The caller adds the values of a row in the order of the
 * columns, so a skipped column has no value. */
static void facts_skip_cells(cli_answer *answer, uint32_t column) {
    for (; answer->cell_next < column; answer->cell_next++) tn__text_add(&answer->cells, "", 1);
}

static void facts_label(cli_answer *answer, const char *label) {
    const cli_facts *facts = facts_level(answer)->facts;
    uint32_t depth = answer->depth;
    while (depth > 0 && answer->levels[depth].facts->width == 0) depth--;
    tn__text_printf(&answer->out, "%*s%-*s ", (int)facts->indent, "",
                    (int)answer->levels[depth].facts->width, label);
}

/* Removes the blanks at the end of the output and adds a newline. */
static void facts_put_end(tn__text *out) {
    while (!out->failed && out->size > 0 && out->data[out->size - 1] == ' ')
        out->data[--out->size] = '\0';
    tn__text_put(out, "\n");
}

static void facts_end_line(cli_answer *answer) {
    const cli_fact *row = answer->begun;
    answer->begun = NULL;
    if (row == NULL) return;
    if (facts_in_columns(answer)) {
        facts_skip_cells(answer, facts_column(facts_level(answer)->facts, row));
        facts_put_visible(&answer->cells, answer->value.data, answer->value.size);
        facts_put_visible(&answer->cells, answer->more.data, answer->more.size);
        tn__text_add(&answer->cells, "", 1);
        answer->cell_next++;
        return;
    }
    facts_label(answer, row->label);
    facts_put_visible(&answer->out, answer->value.data, answer->value.size);
    facts_put_visible(&answer->out, answer->more.data, answer->more.size);
    facts_put_end(&answer->out);
}

/* Empties the text. An earlier failed allocation stays recorded in it. */
static void facts_clear(tn__text *text) { text->size = 0; }

static void facts_begin_line(cli_answer *answer, const cli_fact *row) {
    facts_end_line(answer);
    answer->begun = row;
    facts_clear(&answer->value);
    facts_clear(&answer->more);
}

static size_t facts_width(const char *cell) {
    size_t columns = 0;
    for (; *cell != '\0'; cell++) columns += ((unsigned char)*cell & 0xc0) != 0x80;
    return columns;
}

static void facts_print_cell(tn__text *out, const char *cell, size_t width, bool right) {
    size_t blanks = width - facts_width(cell);
    if (right) tn__text_printf(out, "%*s", (int)blanks, "");
    tn__text_put(out, cell);
    tn__text_printf(out, "%*s", (int)(right ? 0 : blanks) + (int)FACTS_GAP, "");
}

/* Prints one row of a list in columns: its cells up to the last one that is not empty, then the
 * words of cli_add_rest. Numbers are right-aligned. Returns the start of the next row. */
static const char *facts_print_row(tn__text *out, const cli_facts *facts, const size_t *widths,
                                   const char *cell) {
    uint32_t columns = facts_column(facts, NULL), last = 0, column = 0;
    const char *rest = cell;
    for (; column < columns; column++, rest += strlen(rest) + 1)
        if (*rest != '\0') last = column;
    column = 0;
    tn__text_printf(out, "%*s", (int)facts->indent, "");
    for (const cli_fact *row = facts->rows; row->help != NULL && column <= last; row++) {
        if (row->label == NULL) continue;
        if (widths[column] > 0)
            facts_print_cell(out, cell, widths[column],
                             row->unit != CLI_UNIT_WORD && row->unit != CLI_UNIT_YES);
        cell += strlen(cell) + 1;
        column++;
    }
    tn__text_put(out, rest);
    facts_put_end(out);
    return rest + strlen(rest) + 1;
}

static void facts_begin_columns(cli_answer *answer, const cli_facts *facts) {
    for (const cli_fact *row = facts->rows; row->help != NULL; row++)
        if (row->label != NULL) tn__text_add(&answer->cells, row->label, strlen(row->label) + 1);
    tn__text_add(&answer->cells, "", 1);
}

/* Sets widths[c] to the length of the longest cell of column c, or to 0 if all cells below the
 * heading of column c are empty. */
static void facts_measure(const tn__text *cells, uint32_t columns, size_t *widths) {
    const char *cell = cells->data, *end = cell + cells->size;
    for (uint32_t at = 0; cell < end; cell += strlen(cell) + 1, at++) {
        size_t width = facts_width(cell), *widest = &widths[at % (columns + 1)];
        if (at > columns && width > *widest) *widest = width;
    }
    cell = cells->data;
    for (uint32_t at = 0; at < columns; cell += strlen(cell) + 1, at++) {
        size_t width = facts_width(cell);
        if (widths[at] > 0 && width > widths[at]) widths[at] = width;
    }
}

static void facts_print_columns(cli_answer *answer, const cli_facts *facts) {
    uint32_t columns = facts_column(facts, NULL);
    size_t *widths = calloc((size_t)columns + 1, sizeof *widths);
    if (widths == NULL || answer->cells.failed) answer->out.failed = true;
    const char *cell = answer->cells.data, *end = cell + answer->cells.size;
    if (!answer->out.failed) {
        facts_measure(&answer->cells, columns, widths);
        while (cell < end) cell = facts_print_row(&answer->out, facts, widths, cell);
    }
    free(widths);
}

/* --- adding one fact --- */

/* Prints a fraction in percent. A positive fraction below 0.1 % is printed as "< 0.1 %", so "0.0 %"
 * always means exactly zero. */
static void facts_put_share(tn__text *text, double share) {
    if (share > 0 && share < 0.001)
        tn__text_put(text, "< 0.1 %");
    else
        tn__text_printf(text, "%.1f %%", 100 * share);
}

static void facts_put_change(tn__text *text, uint64_t whole, bool narrow) {
    char digits[TN__GROUPED_MAX];
    bool less = (int64_t)whole < 0;
    tn__text_printf(text, "%s%s%s", less ? "-" : "+", tn__grouped(less ? 0 - whole : whole, digits),
                    narrow ? "" : " bytes");
}

static void facts_word(tn__text *text, cli_unit unit, const facts_value *it, bool narrow) {
    char size[TN_SIZE_TEXT_MAX], digits[TN__GROUPED_MAX];
    if (unit == CLI_UNIT_BYTES && !narrow)
        tn__text_put(text, tn_size_format(it->whole, size));
    else if (unit == CLI_UNIT_BYTES || unit == CLI_UNIT_COUNT)
        tn__text_put(text, tn__grouped(it->whole, digits));
    else if (unit == CLI_UNIT_CHANGE)
        facts_put_change(text, it->whole, narrow);
    else if (unit == CLI_UNIT_YES)
        tn__text_put(text, it->whole != 0 ? "yes" : "no");
    else if (unit == CLI_UNIT_WORD || unit == CLI_UNIT_LIST)
        tn__text_put(text, it->word);
    else if (unit == CLI_UNIT_SHARE)
        facts_put_share(text, it->real);
    else if (unit == CLI_UNIT_NS)
        tn__text_printf(text, "%.6g s", (double)it->whole / 1e9);
    else if (unit == CLI_UNIT_SECONDS)
        tn__text_printf(text, "%.4g s", it->real);
    else
        tn__text_printf(text, fabs(it->real) < 1e4 ? "%.4g" : "%.0f", it->real);
}

/* Prints a value, or a range as "LEAST to MOST", in the form for people. */
static void facts_words(tn__text *text, cli_unit unit, const facts_value *it, bool narrow) {
    const facts_value most = {.whole = it->most};
    facts_word(text, unit, it, narrow);
    if (it->most == it->whole) return;
    tn__text_put(text, " to ");
    facts_word(text, unit, &most, narrow);
}

static void facts_key(cli_answer *answer, const char *key) {
    cli_open_level *level = facts_level(answer);
    if (level->any) tn__text_put(&answer->out, ",");
    level->any = true;
    if (key == NULL) return;
    tn__text_json(&answer->out, key);
    tn__text_put(&answer->out, ":");
}

static void facts_put_brief(cli_answer *answer, const cli_fact *row, const facts_value *it) {
    const char *at = strchr(row->brief, '@');
    size_t before = at != NULL ? (size_t)(at - row->brief) : strlen(row->brief);
    tn__text_add(&answer->out, row->brief, before);
    if (at == NULL) return;
    facts_clear(&answer->value);
    facts_words(&answer->value, row->unit, it, false);
    facts_put_visible(&answer->out, answer->value.data, answer->value.size);
    tn__text_put(&answer->out, at + 1);
}

static void facts_put_json(cli_answer *answer, const char *key, const cli_fact *row,
                           const facts_value *it) {
    tn__text *out = &answer->out;
    facts_key(answer, key);
    if (row->unit == CLI_UNIT_WORD) {
        tn__text_json(out, it->word);
    } else if (row->unit == CLI_UNIT_YES) {
        tn__text_put(out, it->whole != 0 ? "true" : "false");
    } else if (row->of == &cli_range_facts) {
        tn__text_printf(out, "{\"least\":%" PRIu64 ",\"most\":%" PRIu64 "}", it->whole, it->most);
    } else if (row->unit == CLI_UNIT_BYTES || row->unit == CLI_UNIT_COUNT ||
               row->unit == CLI_UNIT_NS) {
        tn__words_integer(out, it->whole);
    } else if (row->unit == CLI_UNIT_CHANGE) {
        tn__words_signed(out, (int64_t)it->whole);
    } else {
        tn__text_printf(out, "%.9g", it->real);
    }
}

/* Adds a value to the text of the table line that is being written. */
static void facts_put_cell(cli_answer *answer, cli_unit unit, const facts_value *it) {
    int width = facts_level(answer)->facts->cell;
    tn__text words;
    tn__text_init(&words, NULL);
    facts_words(&words, unit, it, facts_in_columns(answer) || width > 0);
    tn__text_printf(&answer->value, "%*s", width, words.size > 0 ? words.data : "");
    if (words.failed) answer->value.failed = true;
    tn__text_release(&words);
}

static void facts_put_line(cli_answer *answer, const cli_fact *row, const facts_value *it) {
    facts_value one = *it;
    bool joins = row->label[0] == '|';
    if (!joins) facts_begin_line(answer, row);
    /* the line that this value would join was left out of the table */
    if (answer->begun == NULL) return;
    if (joins) tn__text_put(&answer->value, row->label + 1);
    if (facts_level(answer)->facts->cell == 0) {
        facts_put_cell(answer, row->unit, it);
        return;
    }
    one.most = it->whole;
    facts_put_cell(answer, row->unit, &one);
    if (row->of != &cli_range_facts) return;
    one.whole = one.most = it->most;
    tn__text_put(&answer->value, " ");
    if (it->most == it->whole)
        tn__text_printf(&answer->value, "%*s", facts_level(answer)->facts->cell, "");
    else
        facts_put_cell(answer, row->unit, &one);
}

static void facts_add_value(cli_answer *answer, const char *key, facts_value value) {
    const cli_fact *row = facts_find(facts_level(answer)->facts, key);
    if (answer->style == CLI_STYLE_JSON) {
        facts_put_json(answer, key, row, &value);
    } else if (answer->style == CLI_STYLE_BRIEF) {
        if (row->brief != NULL) facts_put_brief(answer, row, &value);
    } else if (row->label != NULL && !facts_level(answer)->silent) {
        facts_put_line(answer, row, &value);
    } else {
        facts_end_line(answer);
    }
}

void cli_add(cli_answer *answer, const char *key, uint64_t value) {
    facts_add_value(answer, key, (facts_value){value, value, (double)value, ""});
}

void cli_add_range(cli_answer *answer, const char *key, uint64_t least, uint64_t most) {
    facts_add_value(answer, key, (facts_value){least, most, 0, ""});
}

void cli_add_real(cli_answer *answer, const char *key, double value) {
    if (!isfinite(value))
        cli_add_null(answer, key);
    else
        facts_add_value(answer, key, (facts_value){.real = value});
}

void cli_add_word(cli_answer *answer, const char *key, const char *word) {
    if (word == NULL)
        cli_add_null(answer, key);
    else
        facts_add_value(answer, key, (facts_value){.word = word});
}

void cli_add_null(cli_answer *answer, const char *key) {
    const cli_fact *row = facts_find(facts_level(answer)->facts, key);
    if (answer->style == CLI_STYLE_JSON) {
        facts_key(answer, key);
        tn__text_put(&answer->out, "null");
    } else if (answer->style == CLI_STYLE_TABLE) {
        facts_end_line(answer);
        if (row->label != NULL && facts_in_columns(answer)) facts_begin_line(answer, row);
    }
}

void cli_add_if(cli_answer *answer, const char *key, uint64_t value) {
    if (value != 0 || answer->style == CLI_STYLE_JSON)
        cli_add(answer, key, value);
    else
        facts_end_line(answer);
}

void cli_add_json(cli_answer *answer, const char *key, const char *json) {
    (void)facts_find(facts_level(answer)->facts, key);
    if (answer->style != CLI_STYLE_JSON) return;
    facts_key(answer, key);
    tn__text_put(&answer->out, json);
}

void cli_add_members(cli_answer *answer, const char *members) {
    if (members != NULL && answer->style == CLI_STYLE_JSON) tn__text_put(&answer->out, members);
}

void cli_add_when(cli_answer *answer, bool shown, const char *key, uint64_t value) {
    if (shown || answer->style == CLI_STYLE_JSON)
        cli_add(answer, key, value);
    else
        facts_end_line(answer);
}

void cli_add_word_if(cli_answer *answer, const char *key, const char *word) {
    if (*word != '\0' || answer->style == CLI_STYLE_JSON)
        cli_add_word(answer, key, word);
    else
        facts_end_line(answer);
}

/* --- words that only one style prints --- */

static void facts_vprintf(tn__text *text, const char *format, va_list values) {
    va_list again;
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *words = length >= 0 ? malloc((size_t)length + 1) : NULL;
    if (words == NULL) {
        text->failed = true;
        return;
    }
    vsnprintf(words, (size_t)length + 1, format, values);
    tn__text_add(text, words, (size_t)length);
    free(words);
}

void cli_add_more(cli_answer *answer, const char *format, ...) {
    va_list values;
    if (answer->begun == NULL) return;
    va_start(values, format);
    facts_vprintf(&answer->more, format, values);
    va_end(values);
}

void cli_add_as(cli_answer *answer, const char *format, ...) {
    va_list values;
    if (answer->begun == NULL) return;
    facts_clear(&answer->value);
    va_start(values, format);
    facts_vprintf(&answer->value, format, values);
    va_end(values);
}

void cli_add_line(cli_answer *answer, const char *label, const char *format, ...) {
    va_list values;
    if (answer->style != CLI_STYLE_TABLE || facts_level(answer)->silent) return;
    facts_end_line(answer);
    facts_label(answer, label);
    facts_clear(&answer->value);
    va_start(values, format);
    facts_vprintf(&answer->value, format, values);
    va_end(values);
    facts_put_visible(&answer->out, answer->value.data, answer->value.size);
    tn__text_put(&answer->out, "\n");
}

void cli_add_text(cli_answer *answer, const char *format, ...) {
    va_list values;
    if (answer->style != CLI_STYLE_TABLE || facts_level(answer)->silent) return;
    facts_end_line(answer);
    va_start(values, format);
    facts_vprintf(&answer->out, format, values);
    va_end(values);
}

void cli_add_cell(cli_answer *answer, const char *label, const char *format, ...) {
    const cli_fact *row = facts_level(answer)->facts->rows;
    va_list values;
    if (!facts_in_columns(answer)) return;
    while (row->help != NULL && (row->label == NULL || strcmp(row->label, label) != 0)) row++;
    facts_begin_line(answer, row);
    va_start(values, format);
    facts_vprintf(&answer->value, format, values);
    va_end(values);
}

void cli_add_rest(cli_answer *answer, const char *format, ...) {
    va_list values;
    if (!facts_in_columns(answer)) return;
    facts_end_line(answer);
    facts_skip_cells(answer, facts_column(facts_level(answer)->facts, NULL));
    facts_clear(&answer->value);
    va_start(values, format);
    facts_vprintf(&answer->value, format, values);
    va_end(values);
    facts_put_visible(&answer->cells, answer->value.data, answer->value.size);
    facts_skip_cells(answer, answer->cell_next + 1);
}

void cli_add_brief(cli_answer *answer, const char *format, ...) {
    va_list values;
    if (answer->style != CLI_STYLE_BRIEF) return;
    facts_clear(&answer->value);
    va_start(values, format);
    facts_vprintf(&answer->value, format, values);
    va_end(values);
    facts_put_visible(&answer->out, answer->value.data, answer->value.size);
}

void cli_add_break(cli_answer *answer) {
    if (answer->style == CLI_STYLE_BRIEF) tn__text_put(&answer->out, "\n");
}

tn__text *cli_answer_table(cli_answer *answer) {
    if (answer->style != CLI_STYLE_TABLE) return NULL;
    facts_end_line(answer);
    return &answer->out;
}

void cli_add_gap(cli_answer *answer) {
    tn__text *table = cli_answer_table(answer);
    if (table != NULL) tn__text_put(table, "\n");
}

/* --- objects and lists --- */

static const cli_facts facts_none = {.rows = (const cli_fact[]){CLI_FACTS_END}};

void cli_answer_open(cli_answer *answer, const char *key) {
    cli_open_level *outer = facts_level(answer);
    const cli_facts *facts = outer->facts;
    bool list = false;
    const cli_fact *row = key != NULL ? facts_find(facts, key) : NULL;
    if (row != NULL) {
        list = row->unit == CLI_UNIT_LIST;
        facts = row->of != NULL ? row->of : &facts_none;
    }
    if (row != NULL && row->label != NULL && answer->style == CLI_STYLE_TABLE && !outer->silent)
        facts_put_line(answer, row, &(facts_value){.word = ""});
    else
        facts_end_line(answer);
    if (answer->depth + 1 == CLI_ANSWER_DEPTH || outer->list != (key == NULL)) {
        fprintf(stderr, "tenure: internal error: '%s' cannot be opened here\n", key ? key : "item");
        exit(tn_status_exit_code(TN_E_INTERNAL));
    }
    if (answer->style == CLI_STYLE_JSON) {
        facts_key(answer, key);
        tn__text_put(&answer->out, list ? "[" : "{");
    }
    answer->depth++;
    *facts_level(answer) =
        (cli_open_level){.facts = facts,
                         .list = list,
                         .silent = outer->silent || (outer->facts->columns && key != NULL)};
    if (list && facts_in_columns(answer)) facts_begin_columns(answer, facts);
}

void cli_answer_open_rows(cli_answer *answer, const cli_facts *facts) {
    answer->levels[++answer->depth] = (cli_open_level){.facts = facts, .list = true};
    facts_begin_columns(answer, facts);
}

void cli_answer_close(cli_answer *answer) {
    const cli_open_level level = *facts_level(answer);
    bool columns = facts_in_columns(answer);
    /* the end of an object without a table of facts ends no line of the table */
    if (level.facts != &facts_none) facts_end_line(answer);
    if (answer->style == CLI_STYLE_JSON) tn__text_put(&answer->out, level.list ? "]" : "}");
    if (columns && level.list) {
        if (answer->cell_rows > 0) facts_print_columns(answer, level.facts);
        facts_clear(&answer->cells);
        answer->cell_rows = 0;
    } else if (columns) {
        facts_skip_cells(answer, facts_column(level.facts, NULL) + 1);
        answer->cell_next = 0;
        answer->cell_rows++;
    }
    answer->depth--;
}

/* Returns the text to which the next element of the open list is added, or NULL if the current
 * style does not print it. */
static tn__text *facts_begin_element(cli_answer *answer) {
    if (answer->style == CLI_STYLE_JSON) {
        facts_key(answer, NULL);
        return &answer->out;
    }
    if (answer->begun == NULL) return NULL;
    if (answer->value.size > 0) tn__text_put(&answer->value, " ");
    return &answer->value;
}

void cli_add_element(cli_answer *answer, const char *word) {
    tn__text *text = facts_begin_element(answer);
    if (text == &answer->out) tn__text_json(text, word);
    if (text == &answer->value) tn__text_put(text, word);
}

void cli_add_number(cli_answer *answer, int64_t number) {
    tn__text *text = facts_begin_element(answer);
    if (text != NULL) tn__words_signed(text, number);
}

void cli_add_real_number(cli_answer *answer, double number) {
    tn__text *text = facts_begin_element(answer);
    if (text == NULL) return;
    if (text == &answer->out && !isfinite(number))
        tn__text_put(text, "null");
    else
        tn__text_printf(text, "%.9g", number);
}

/* --- beginning and ending an answer --- */

void cli_answer_begin_as(cli_answer *answer, const cli_facts *facts, cli_style style) {
    *answer = (cli_answer){.style = style};
    tn__text_init(&answer->out, NULL);
    tn__text_init(&answer->value, NULL);
    tn__text_init(&answer->more, NULL);
    tn__text_init(&answer->cells, NULL);
    answer->levels[0] = (cli_open_level){.facts = facts, .any = true};
}

void cli_answer_begin(cli_answer *answer, const cli_facts *facts, bool json) {
    bool brief = cli_tone_asked().brief || facts->sentence;
    cli_style plain = brief ? CLI_STYLE_BRIEF : CLI_STYLE_TABLE;
    cli_answer_begin_as(answer, facts, json ? CLI_STYLE_JSON : plain);
    if (json) tn__text_printf(&answer->out, "{\"format\":\"tenure-%s\",\"version\":1", facts->name);
}

const char *cli_answer_text(cli_answer *answer) {
    facts_end_line(answer);
    bool failed = answer->out.failed || answer->value.failed || answer->more.failed;
    return failed ? NULL : answer->out.size > 0 ? answer->out.data : "";
}

void cli_answer_release(cli_answer *answer) {
    tn__text_release(&answer->out);
    tn__text_release(&answer->value);
    tn__text_release(&answer->more);
    tn__text_release(&answer->cells);
}

tn_status cli_answer_write(cli_answer *answer, FILE *file, tn_error *error) {
    facts_end_line(answer);
    if (answer->style == CLI_STYLE_JSON) tn__text_put(&answer->out, "}");
    if (answer->style != CLI_STYLE_TABLE) tn__text_put(&answer->out, "\n");
    bool failed = answer->out.failed || answer->value.failed || answer->more.failed;
    if (!failed && answer->out.size > 0) fwrite(answer->out.data, 1, answer->out.size, file);
    cli_answer_release(answer);
    return failed ? tn__no_memory(error, "the answer") : TN_OK;
}

tn_status cli_answer_end(cli_answer *answer, tn_error *error) {
    return cli_answer_write(answer, stdout, error);
}

void cli_members_begin(cli_answer *answer, const cli_facts *facts) {
    cli_answer_begin_as(answer, facts, CLI_STYLE_JSON);
}

const char *cli_members_text(const cli_answer *answer) {
    return answer->out.failed ? NULL : answer->out.data;
}

/* --- listing the members of all answers --- */

typedef struct facts_member {
    char name[FACTS_NAME];
    const char *help;
} facts_member;
static facts_member facts_members[FACTS_MEMBERS];
static uint32_t facts_member_count;

static void facts_add(const cli_facts *facts, const char *before) {
    for (const cli_fact *row = facts->rows; row->help != NULL; row++) {
        char inner[FACTS_NAME];
        if (row->key == NULL && row->of != NULL) facts_add(row->of, before);
        if (row->key == NULL || facts_member_count == FACTS_MEMBERS) continue;
        const char *range = row->of == &cli_range_facts ? ".{least,most}" : "";
        facts_member *member = &facts_members[facts_member_count++];
        snprintf(member->name, sizeof member->name, "%s.%s%s", before, row->key, range);
        member->help = row->help;
        snprintf(inner, sizeof inner, "%s%s", member->name, row->unit == CLI_UNIT_LIST ? "[]" : "");
        if (row->of != NULL) facts_add(row->of, inner);
    }
}

uint32_t cli_member_count(void) {
    static bool listed;
    for (uint32_t i = 0; !listed && i < cli_command_count(); i++) {
        const cli_facts *const *answers = cli_command_at(i)->answers;
        for (; answers != NULL && *answers != NULL; answers++)
            facts_add(*answers, (*answers)->name);
    }
    if (!listed) facts_add(&cli_error_facts, cli_error_facts.name);
    listed = true;
    return facts_member_count;
}
const char *cli_member_name(uint32_t index) { return facts_members[index].name; }
const char *cli_member_help(uint32_t index) { return facts_members[index].help; }
