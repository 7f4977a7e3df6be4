/* facts.h - an answer of a command as a list of facts, written once: facts.c prints it as a table,
 * as JSON or in one line.
 *
 * A command declares its facts in a table (cli_facts: member of the JSON, label of the line, unit,
 * words of the brief line, meaning), and then adds the values in the order in which they are to be
 * printed. `tenure list members` prints the tables, and docs/formats.md is generated from them.
 *
 *     cli_answer answer;
 *     cli_answer_begin(&answer, &train_facts, arguments.json);
 *     cli_add(&answer, "planned_peak", usage.planned_peak);
 *     cli_add(&answer, "steps", state->done);
 *     cli_add_more(&answer, ", %u threads", threads);    // after the value, in the table alone
 *     return cli_answer_end(&answer, error);
 */
#ifndef TN_CLI_FACTS_H
#define TN_CLI_FACTS_H

#include "cli/cli.h"

typedef enum cli_unit {
    CLI_UNIT_BYTES,   /* uint64_t: "7.7 MiB (8,064,000 bytes)" */
    CLI_UNIT_COUNT,   /* uint64_t: "8,064" */
    CLI_UNIT_CHANGE,  /* int64_t as uint64_t, bytes more or less: "+8,064 bytes" */
    CLI_UNIT_REAL,    /* double */
    CLI_UNIT_SECONDS, /* double: "0.12 s" */
    CLI_UNIT_NS,      /* uint64_t, nanoseconds: "0.12 s" */
    CLI_UNIT_SHARE,   /* double, 1 is all: "12.5 %" */
    CLI_UNIT_WORD,    /* text */
    CLI_UNIT_YES,     /* uint64_t, 0 or 1: "yes"; in JSON true */
    CLI_UNIT_OBJECT,  /* members, in `of` */
    CLI_UNIT_LIST     /* objects with the members in `of`; of NULL: words or numbers, in one line */
} cli_unit;

#define CLI_ANY_KEY "*" /* any other name, for members named after the input; the last row */

typedef struct cli_facts cli_facts;
typedef struct cli_fact {
    const char *key; /* name of the JSON member, or CLI_ANY_KEY; NULL: not in the JSON */
    /* Begins the line of the table, or heads the column; NULL: only in the JSON. "|WORDS": the
     * value joins the line of the fact before it, after WORDS. */
    const char *label;
    cli_unit unit;
    const char *brief; /* words of the brief line, with @ for the value: ", @ steps"; NULL: none */
    const char *help;  /* the meaning, for `tenure list members` */
    const cli_facts *of;
} cli_fact;

struct cli_facts {
    const char *name;     /* of the whole answer: "train" is "format":"tenure-train"; else NULL */
    uint32_t width;       /* columns of the labels; 0: as in the object around it */
    uint32_t indent;      /* blanks before each line */
    int cell;             /* columns of each value in a line; above 0: on the right, and short */
    bool columns;         /* of a list: in the table each item is a row */
    bool sentence;        /* of an answer: the table is the brief line */
    const cli_fact *rows; /* the last has a help of NULL */
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
/* The rows of another table, as members of the same object. */
#define CLI_FACTS_ALSO(table)                                                                      \
    { NULL, NULL, CLI_UNIT_OBJECT, NULL, "", table }

#define CLI_ANSWER_DEPTH 8u
typedef enum cli_style { CLI_STYLE_TABLE, CLI_STYLE_JSON, CLI_STYLE_BRIEF } cli_style;
typedef struct cli_open_level {
    const cli_facts *facts;
    bool list;   /* a list that is open, or an object */
    bool any;    /* it has a member */
    bool silent; /* inside a row of columns: only in the JSON */
} cli_open_level;
typedef struct cli_answer {
    cli_style style;
    tn__text out;
    const cli_fact *begun; /* the line of the table that was begun; NULL: none */
    tn__text value, more;  /* of that line */
    cli_open_level levels[CLI_ANSWER_DEPTH];
    uint32_t depth;
    /* Of a list in columns: texts that end with a zero, row by row. The first row is the heading; a
     * row ends with the words of cli_add_rest. */
    tn__text cells;
    uint32_t cell_rows, cell_next; /* rows below the heading; the next column of this row */
} cli_answer;

/* Begins an answer. `json`: whether --json was given; the tone decides the rest. End it in any
 * case. */
void cli_answer_begin(cli_answer *answer, const cli_facts *facts, bool json);
/* As cli_answer_begin, for an answer in one style. */
void cli_answer_begin_as(cli_answer *answer, const cli_facts *facts, cli_style style);
/* Ends the lines of a table; its text, or NULL without memory, until the answer is released. */
const char *cli_answer_text(cli_answer *answer);
/* Prints the answer. Errors: E_NO_MEMORY. */
tn_status cli_answer_end(cli_answer *answer, tn_error *error);

/* One fact. `key` is in the table of the object that is open (else the command ends with an
 * internal error). A word of NULL, or a real number that is not finite, is null, and not in the
 * table. */
void cli_add(cli_answer *answer, const char *key, uint64_t value);
void cli_add_real(cli_answer *answer, const char *key, double value);
void cli_add_word(cli_answer *answer, const char *key, const char *word);
void cli_add_null(cli_answer *answer, const char *key);
void cli_add_range(cli_answer *answer, const char *key, uint64_t least, uint64_t most);
/* The same, but zero or an empty word is only in the JSON. */
void cli_add_if(cli_answer *answer, const char *key, uint64_t value);
void cli_add_word_if(cli_answer *answer, const char *key, const char *word);
/* As cli_add; in the table and the brief line only if `shown`. */
void cli_add_when(cli_answer *answer, bool shown, const char *key, uint64_t value);
/* Members that the library wrote: the value of `key` as JSON. Only in the JSON. */
void cli_add_json(cli_answer *answer, const char *key, const char *json);
/* Members of another answer, from cli_members_text; NULL: none. Only in the JSON. */
void cli_add_members(cli_answer *answer, const char *members);

/* In the table alone: more words after the value of the last fact; other words instead of it; a
 * line of its own. Nothing if the last fact has no label. */
void cli_add_more(cli_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cli_add_as(cli_answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_add_line(cli_answer *answer, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void cli_add_cell(cli_answer *answer, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends a row of columns: words after its last cell, in place of the cells that were not added. They
 * widen no column. */
void cli_add_rest(cli_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Text with its own line ends. */
void cli_add_text(cli_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* In the brief line alone. */
void cli_add_brief(cli_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Begins another brief line. */
void cli_add_break(cli_answer *answer);
/* In the table alone: an empty line. */
void cli_add_gap(cli_answer *answer);
/* A text with line ends that goes into the table as it is, or NULL if the answer is no table. */
tn__text *cli_answer_table(cli_answer *answer);

/* An object or a list. In a list each item is opened and closed with a key of NULL. A list without
 * a table of members (`of` NULL) holds words or whole numbers. */
void cli_answer_open(cli_answer *answer, const char *key);
void cli_answer_close(cli_answer *answer);
/* A list that is only in the table, with items of `facts`. The caller asked cli_answer_table. */
void cli_answer_open_rows(cli_answer *answer, const cli_facts *facts);
void cli_add_element(cli_answer *answer, const char *word);
void cli_add_number(cli_answer *answer, int64_t number);
void cli_add_real_number(cli_answer *answer, double number);

/* Begins members that are appended to an object which is written elsewhere, such as that of an
 * error: ",\"budget\":4096". Release it in any case. NULL: no memory. */
void cli_members_begin(cli_answer *answer, const cli_facts *facts);
const char *cli_members_text(const cli_answer *answer);
void cli_answer_release(cli_answer *answer);

/* Of the object that cli_fail_with prints, "tenure-error". */
extern const cli_facts cli_error_facts;

/* The members of the answers of all commands: "train.ranks[].messages", and its meaning. */
uint32_t cli_member_count(void);
const char *cli_member_name(uint32_t index);
const char *cli_member_help(uint32_t index);

#endif
