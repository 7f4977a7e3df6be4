/* facts.h - the answer of a command as a list of facts. A command writes each fact once, and
 * facts.c prints the facts as a table, as JSON or as one line.
 *
 * A command declares its facts in a table of type cli_facts. A row has the name of the JSON member,
 * the label of the line, the unit, the words of the brief line and the meaning of the fact. The
 * command then adds the values in the order in which they are printed. `tenure list members` prints
 * these tables, and docs/formats.md is generated from them.
 *
 *     cli_answer answer;
 *     cli_answer_begin(&answer, &train_facts, arguments.json);
 *     cli_add(&answer, "planned_peak", usage.planned_peak);
 *     cli_add(&answer, "steps", state->done);
 *     cli_add_more(&answer, ", %u threads", threads);    // after the value, only in the table
 *     return cli_answer_end(&answer, error);
 */
#ifndef TN_CLI_FACTS_H
#define TN_CLI_FACTS_H

#include "cli/cli.h"

typedef enum cli_unit {
    CLI_UNIT_BYTES,   /* a number of bytes as uint64_t: "7.7 MiB (8,064,000 bytes)" */
    CLI_UNIT_COUNT,   /* a count as uint64_t: "8,064" */
    CLI_UNIT_CHANGE,  /* a signed number of bytes, passed as uint64_t: "+8,064 bytes" */
    CLI_UNIT_REAL,    /* a number as double */
    CLI_UNIT_SECONDS, /* a number of seconds as double: "0.12 s" */
    CLI_UNIT_NS,      /* a number of nanoseconds as uint64_t: "0.12 s" */
    CLI_UNIT_SHARE,   /* a fraction as double; 1 is printed as "100.0 %" */
    CLI_UNIT_WORD,    /* text */
    CLI_UNIT_YES,     /* a uint64_t, 0 or 1: printed as "yes", in JSON true */
    CLI_UNIT_OBJECT,  /* an object; cli_fact.of declares its members */
    /* a list of objects with the members in cli_fact.of; with `of` NULL, a list of words or numbers
     * that is printed in one line */
    CLI_UNIT_LIST
} cli_unit;

/* as a key: matches every name that no earlier row declares, for members that are named after the
 * input. It must be in the last row. */
#define CLI_ANY_KEY "*"

typedef struct cli_facts cli_facts;
typedef struct cli_fact {
    /* name of the JSON member, or CLI_ANY_KEY; NULL: the fact is not in the JSON */
    const char *key;
    /* Text at the start of the fact's line, or the heading of its column. NULL: the fact is only in
     * the JSON. "|WORDS": the fact has no line of its own; WORDS and its value are added to the
     * line of the fact before it. */
    const char *label;
    cli_unit unit;
    /* text of the fact in the brief line, where @ stands for the value: ", @ steps"; NULL: the
     * brief line does not have the fact */
    const char *brief;
    const char *help; /* the fact's meaning, printed by `tenure list members` */
    const cli_facts *of;
} cli_fact;

struct cli_facts {
    /* for a whole answer, the X of its JSON member "format":"tenure-X"; NULL for parts of an
     * answer */
    const char *name;
    uint32_t width;  /* width of the labels in columns; 0: as in the enclosing object */
    uint32_t indent; /* number of blanks before each line of the table */
    /* least width of each value in columns; above 0, values are right-aligned and short */
    int cell;
    bool columns;         /* true if the table prints each item of this list as a row */
    bool sentence;        /* true if the table of this answer consists of the brief line only */
    const cli_fact *rows; /* the facts; a row with `help` NULL ends the array */
};
#define CLI_FACT(unit, key, label, help)                                                           \
    { key, label, CLI_UNIT_##unit, NULL, help, NULL }
#define CLI_FACT_BRIEF(unit, key, label, brief, help)                                              \
    { key, label, CLI_UNIT_##unit, brief, help, NULL }
#define CLI_FACT_OF(unit, key, help, facts)                                                        \
    { key, NULL, CLI_UNIT_##unit, NULL, help, facts }
#define CLI_FACTS_END                                                                              \
    { NULL, NULL, CLI_UNIT_WORD, NULL, NULL, NULL }
/* A whole number that is known to lie in a range, in JSON {"least":1,"most":2}. */
#define CLI_FACT_RANGE(unit, key, label, help)                                                     \
    { key, label, CLI_UNIT_##unit, NULL, help, &cli_range_facts }
extern const cli_facts cli_range_facts;
/* A column that is only in the table; cli_add_cell fills it. */
#define CLI_COLUMN(unit, label)                                                                    \
    { NULL, label, CLI_UNIT_##unit, NULL, "", NULL }
/* Adds the rows of another table of facts, as members of the same object. */
#define CLI_FACTS_ALSO(table)                                                                      \
    { NULL, NULL, CLI_UNIT_OBJECT, NULL, "", table }

#define CLI_ANSWER_DEPTH 8u
typedef enum cli_style { CLI_STYLE_TABLE, CLI_STYLE_JSON, CLI_STYLE_BRIEF } cli_style;
typedef struct cli_open_level {
    const cli_facts *facts;
    bool list;   /* true for an open list, false for an open object */
    bool any;    /* true if the open list or object has at least one member */
    bool silent; /* true for an object inside a row of columns, which only the JSON has */
} cli_open_level;
typedef struct cli_answer {
    cli_style style;
    tn__text out;
    const cli_fact *begun; /* the fact of the table line that is being written; NULL: none */
    tn__text value, more;  /* texts of the line `begun`: its value, and the words after it */
    cli_open_level levels[CLI_ANSWER_DEPTH];
    uint32_t depth;
    /* The cells of an open list in columns, as NUL-terminated texts, row by row. The first row is
     * the heading. After its cells, a row has one more text: the words of cli_add_rest. */
    tn__text cells;
    /* number of rows below the heading; index of the next column in the current row */
    uint32_t cell_rows, cell_next;
} cli_answer;

/* Begins an answer in the JSON style if `json` is true (--json was given), else in the brief style
 * with --brief or if `facts` is a sentence, else as a table. The caller must end the answer, also
 * after an error. */
void cli_answer_begin(cli_answer *answer, const cli_facts *facts, bool json);
/* Begins an answer as cli_answer_begin does, but in the given style. */
void cli_answer_begin_as(cli_answer *answer, const cli_facts *facts, cli_style style);
/* Ends the last line of a table and returns the text of the answer, which is valid until the answer
 * is released. Returns NULL if memory ran out. */
const char *cli_answer_text(cli_answer *answer);
/* Prints the answer and releases it. Errors: E_NO_MEMORY. */
tn_status cli_answer_end(cli_answer *answer, tn_error *error);
/* Writes the answer to a file as cli_answer_end prints it. */
tn_status cli_answer_write(cli_answer *answer, FILE *file, tn_error *error);

/* The functions cli_add... add one fact. `key` must be in the table of the open object; otherwise
 * the command ends with an internal error. A word that is NULL and a real number that is not finite
 * become null in the JSON and are left out of the table. */
void cli_add(cli_answer *answer, const char *key, uint64_t value);
void cli_add_real(cli_answer *answer, const char *key, double value);
void cli_add_word(cli_answer *answer, const char *key, const char *word);
void cli_add_null(cli_answer *answer, const char *key);
void cli_add_range(cli_answer *answer, const char *key, uint64_t least, uint64_t most);
/* The functions cli_add..._if add a fact as cli_add does, but the table and the brief line leave it
 * out if it is zero or an empty word. */
void cli_add_if(cli_answer *answer, const char *key, uint64_t value);
void cli_add_word_if(cli_answer *answer, const char *key, const char *word);
/* Adds a fact as cli_add does, but the table and the brief line have it only if `shown` is true. */
void cli_add_when(cli_answer *answer, bool shown, const char *key, uint64_t value);
/* Adds, to the JSON only, the member `key` with the JSON text `json` of the library as its
 * value. */
void cli_add_json(cli_answer *answer, const char *key, const char *json);
/* Adds, to the JSON only, the members in a text from cli_members_text. NULL adds nothing. */
void cli_add_members(cli_answer *answer, const char *members);

/* These functions change only the table. cli_add_more adds words after the value of the last fact.
 * cli_add_as prints words instead of that value. Both do nothing if the last fact has no label.
 * cli_add_line adds a line that is no fact, and cli_add_cell fills a CLI_COLUMN. */
void cli_add_more(cli_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cli_add_as(cli_answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_add_line(cli_answer *answer, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void cli_add_cell(cli_answer *answer, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds words to the current row of a list in columns, in place of the cells that the row does not
 * have. The words do not widen any column. */
void cli_add_rest(cli_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds text that contains its own newlines to the table. */
void cli_add_text(cli_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds words to the brief line only. */
void cli_add_brief(cli_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the brief line and begins another one. */
void cli_add_break(cli_answer *answer);
/* Adds an empty line to the table only. */
void cli_add_gap(cli_answer *answer);
/* Returns the text of the table, to which the caller adds complete lines, or NULL if the style of
 * the answer is not a table. */
tn__text *cli_answer_table(cli_answer *answer);

/* Opens and closes an object or a list. Inside a list, each item is opened with `key` NULL. If `of`
 * of the list's fact is NULL, the list has words or whole numbers. */
void cli_answer_open(cli_answer *answer, const char *key);
void cli_answer_close(cli_answer *answer);
/* Opens a list of items of the type `facts` that only the table has. The caller must have checked
 * that cli_answer_table is not NULL. */
void cli_answer_open_rows(cli_answer *answer, const cli_facts *facts);
void cli_add_element(cli_answer *answer, const char *word);
void cli_add_number(cli_answer *answer, int64_t number);
void cli_add_real_number(cli_answer *answer, double number);

/* Begins a text of JSON members, ",\"budget\":4096", that the caller appends to an object that is
 * written elsewhere, such as the object of an error. cli_members_text returns the text, or NULL if
 * memory ran out. The caller must release the answer, also after an error. */
void cli_members_begin(cli_answer *answer, const cli_facts *facts);
const char *cli_members_text(const cli_answer *answer);
void cli_answer_release(cli_answer *answer);

/* The members of the object "tenure-error", which cli_fail_with prints. */
extern const cli_facts cli_error_facts;

/* The JSON members of the answers of all commands: their number, the full name of each, such as
 * "train.ranks[].messages", and its meaning. */
uint32_t cli_member_count(void);
const char *cli_member_name(uint32_t index);
const char *cli_member_help(uint32_t index);

#endif
