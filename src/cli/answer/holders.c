/* holders.c - prints the tensors and blocks that hold the memory, as one table and one JSON array,
 * for a plan, a run or a replay.
 *
 * A row is a tensor, a workspace, a buffer or a block of a pool, with its bytes, kind, operator and
 * name. The sums by kind and by operator include all rows, not only the rows that are printed.
 */
#include "cli/answer/holders.h"
#include "cli/cli.h"
#include "report/format.h"

#include <inttypes.h>

#define HOLDERS_BESIDE 19u /* columns of a row in addition to the name of the tensor */
#define HOLDERS_USES 37u /* number of columns of a row for the kind and the operator of a tensor */
#define HOLDERS_NAME_FEWEST 12u
#define HOLDERS_SUMS 6u /* largest number of operators in the line "by operator" */
/* largest number of rows printed after a command found no plan that fits */
#define HOLDERS_LEAST 10u

/* --- gathering --- */

static bool holders_room(cli_holders *holders, const tn_context *context, uint32_t count) {
    *holders = (cli_holders){0};
    tn__arena_init(&holders->arena, context);
    holders->rows = tn__arena_array(&holders->arena, (size_t)count + 1, sizeof *holders->rows);
    return holders->rows != NULL;
}

void cli_holders_release(cli_holders *holders) {
    tn__arena_release(&holders->arena);
    *holders = (cli_holders){0};
}

static tn_pool_label holders_label(const tn_graph *graph, const tn_life *life) {
    tn_pool_label label = {.name = "", .kind = tn_kind_name(tn_life_kind(graph, life)), .op = ""};
    if (life->op != TN_NONE) label.op = tn_graph_op(graph, life->op)->type;
    if (life->tensor == TN_NONE) {
        label.name = tn_graph_op(graph, life->op)->name;
        return label;
    }
    label.name = tn_graph_tensor(graph, life->tensor)->name;
    return label;
}

tn_status cli_holders_of_model(cli_holders *holders, const tn_occupancy *occupancy, uint32_t step,
                               tn_error *error) {
    const tn_program *program = tn_occupancy_program(occupancy);
    const tn_graph *graph = tn_program_graph(program);
    const tn_life *lives = tn_occupancy_lives(occupancy);
    uint32_t room = tn_occupancy_life_count(occupancy);
    bool peak = step == TN_NONE;
    if (peak) step = tn_occupancy_summary(occupancy).peak_step;
    bool fits = holders_room(holders, NULL, room);
    tn_occupant *found = tn__arena_array(&holders->arena, (size_t)room + 1, sizeof *found);
    if (!fits || found == NULL) return tn__no_memory(error, "the holders");
    holders->count = tn_occupancy_holders(occupancy, step, found, room);
    for (uint32_t i = 0; i < holders->count; i++) {
        const tn_life *life = &lives[found[i].life];
        holders->rows[i] = (tn_holder){.label = holders_label(graph, life),
                                       .requested = found[i].bytes,
                                       .allocated = found[i].bytes};
    }
    const char *type = "";
    if (step < tn_program_count(program)) {
        const tn_instruction *it = &tn_program_instructions(program)[step];
        type = it->op == TN_NONE ? tn_opcode_name(it->opcode) : tn_graph_op(graph, it->op)->type;
    }
    snprintf(holders->title, sizeof holders->title, "at %sstep %u of %u (%s)",
             peak ? "the peak, " : "", step, tn_program_count(program), type);
    return TN_OK;
}

static int holders_order(const void *a, const void *b) {
    const tn_holder *x = a, *y = b;
    if (x->allocated != y->allocated) return x->allocated > y->allocated ? -1 : 1;
    return (x->birth > y->birth) - (x->birth < y->birth);
}

static uint64_t holders_live(const tn_body *body, int64_t step) {
    uint64_t live = 0;
    for (uint32_t k = 0; k < body->piece_count; k++)
        if (body->pieces[k].first <= step && step < body->pieces[k].last)
            live = tn__add_sat(live, body->pieces[k].hi - body->pieces[k].lo);
    return live;
}

/* Returns whether the buffer is larger than every bank that it may be placed in. */
static bool holders_too_large(const tn_problem *problem, const tn_body *body) {
    bool any = (body->flags & TN_BODY_ANY_BANK) != 0;
    for (tn_bank_id id = 0; id < tn_problem_bank_count(problem); id++) {
        uint64_t capacity = tn_problem_bank(problem, id)->capacity;
        if ((any || body->bank == id) && (capacity == 0 || body->size <= capacity)) return false;
    }
    return true;
}

static void holders_add_body(cli_holders *holders, const tn_body *body, tn_body_id id,
                             uint64_t bytes) {
    tn_pool_label label = {.name = body->name != NULL ? body->name : "", .kind = "", .op = ""};
    holders->rows[holders->count++] = (tn_holder){
        .label = label, .requested = bytes, .allocated = bytes, .birth = (uint64_t)id + 1};
}

/* Finds the holders of a problem with several banks. These are the buffers that are larger than any
 * bank. If there are none, they are the buffers of all banks that are live when most bytes are
 * live. */
static tn_status holders_of_banks(cli_holders *holders, const tn_problem *problem,
                                  tn_error *error) {
    tn__curve curve;
    for (tn_body_id id = 0; id < tn_problem_count(problem); id++) {
        const tn_body *body = tn_problem_body(problem, id);
        if (holders_too_large(problem, body)) holders_add_body(holders, body, id, body->size);
    }
    snprintf(holders->title, sizeof holders->title, "larger than any bank");
    if (holders->count > 0) return TN_OK;
    tn_status status = tn__curve_make(&curve, problem, NULL, error);
    int64_t step = curve.peak_at;
    tn__curve_release(&curve);
    TN_TRY(status);
    for (tn_body_id id = 0; id < tn_problem_count(problem); id++) {
        const tn_body *body = tn_problem_body(problem, id);
        uint64_t live = holders_live(body, step);
        if (live > 0) holders_add_body(holders, body, id, live);
    }
    snprintf(holders->title, sizeof holders->title, "at the peak of all banks, time %" PRId64,
             step);
    return TN_OK;
}

static tn_status holders_of_arena(cli_holders *holders, const tn_problem *problem,
                                  tn_error *error) {
    uint64_t bytes;
    int64_t step;
    TN_TRY(tn_problem_lower_bound(problem, 0, &bytes, &step, error));
    for (tn_body_id id = 0; id < tn_problem_count(problem); id++) {
        const tn_body *body = tn_problem_body(problem, id);
        uint64_t live = holders_live(body, step);
        if (live > 0) holders_add_body(holders, body, id, live);
    }
    snprintf(holders->title, sizeof holders->title, "at the peak, time %" PRId64, step);
    return TN_OK;
}

tn_status cli_holders_of_problem(cli_holders *holders, const tn_problem *problem, tn_error *error) {
    if (!holders_room(holders, NULL, tn_problem_count(problem)))
        return tn__no_memory(error, "the holders");
    TN_TRY(tn_problem_bank_count(problem) > 1 ? holders_of_banks(holders, problem, error)
                                              : holders_of_arena(holders, problem, error));
    qsort(holders->rows, holders->count, sizeof *holders->rows, holders_order);
    for (uint32_t i = 0; i < holders->count; i++) holders->rows[i].birth = 0;
    return TN_OK;
}

tn_status cli_holders_of_pool(cli_holders *holders, tn_pool *pool, const char *name,
                              tn_holders_when when, tn_error *error) {
    static const char *const titles[] = {[TN_HOLDERS_NOW] = "now",
                                         [TN_HOLDERS_PEAK] = "at the peak",
                                         [TN_HOLDERS_FAILED] = "when it did not fit"};
    uint32_t count = tn_pool_holders(pool, when, NULL, 0);
    if (!holders_room(holders, NULL, count)) return tn__no_memory(error, "the holders");
    holders->count = tn_pool_holders(pool, when, holders->rows, count);
    snprintf(holders->title, sizeof holders->title, "%s, pool %.40s", titles[when], name);
    return TN_OK;
}

/* --- output --- */

/* Returns the name of a row, or "allocation N" for a row without a name. */
static const char *holders_name(const tn_holder *row, char number[40]) {
    if (row->label.name[0] != '\0' || row->birth == 0) return row->label.name;
    snprintf(number, 40, "allocation %" PRIu64, row->birth);
    return number;
}

typedef struct holders_sum {
    const char *word;
    uint64_t bytes;
} holders_sum;

static int holders_sum_order(const void *a, const void *b) {
    const holders_sum *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->word, y->word);
}

static int holders_word_order(const void *a, const void *b) {
    const holders_sum *x = a, *y = b;
    return strcmp(x->word, y->word);
}

/* Prints a line of sums, such as "  by kind      activation 6,021,120, output 4,032". Prints
 * nothing if the rows have no kind or operator. */
static void holders_print_sums(const cli_holders *holders, bool by_op, tn__text *text) {
    uint32_t count = 0;
    holders_sum *sums = calloc((size_t)holders->count + 1, sizeof *sums);
    /* if memory runs out, the table of holders is printed without the lines of sums */
    if (sums == NULL) return;
    for (uint32_t i = 0; i < holders->count; i++) {
        const tn_pool_label *label = &holders->rows[i].label;
        sums[i] = (holders_sum){by_op ? label->op : label->kind, holders->rows[i].allocated};
    }
    qsort(sums, holders->count, sizeof *sums, holders_word_order);
    for (uint32_t i = 0; i < holders->count; i++) {
        if (count > 0 && strcmp(sums[count - 1].word, sums[i].word) == 0)
            sums[count - 1].bytes = tn__add_sat(sums[count - 1].bytes, sums[i].bytes);
        else
            sums[count++] = sums[i];
    }
    qsort(sums, count, sizeof *sums, holders_sum_order);
    bool any = count > 1 || (count == 1 && sums[0].word[0] != '\0');
    char exact[TN__WORDS_MAX];
    for (uint32_t i = 0; i < count && any && i < HOLDERS_SUMS; i++) {
        const char *word = sums[i].word[0] != '\0' ? sums[i].word : "none";
        size_t width = strlen(word) < 40 ? strlen(word) : 40;
        tn__text_put(text, i > 0 ? ", " : by_op ? "  by operator    " : "  by kind        ");
        tn__words_cell(text, word, width, false);
        tn__text_printf(text, " %s", tn__grouped(sums[i].bytes, exact));
    }
    if (any && count > HOLDERS_SUMS) tn__text_printf(text, ", and %u more", count - HOLDERS_SUMS);
    if (any) tn__text_put(text, "\n");
    free(sums);
}

/* Returns whether any row has a kind or an operator. The rows of plain buffers have neither. */
static bool holders_have_uses(const cli_holders *holders) {
    for (uint32_t i = 0; i < holders->count; i++)
        if (holders->rows[i].label.kind[0] != '\0' || holders->rows[i].label.op[0] != '\0')
            return true;
    return false;
}

static void holders_print_row(const tn_holder *row, bool uses, uint32_t columns, tn__text *text) {
    const uint32_t beside = uses ? HOLDERS_BESIDE + HOLDERS_USES : HOLDERS_BESIDE;
    if (columns < beside + HOLDERS_NAME_FEWEST) columns = beside + HOLDERS_NAME_FEWEST;
    char exact[TN__WORDS_MAX], number[40];
    tn__text_printf(text, "  %15s  ", tn__grouped(row->allocated, exact));
    if (uses) {
        tn__words_cell(text, row->label.kind, 15, false);
        tn__text_put(text, "  ");
        tn__words_cell(text, row->label.op, 18, false);
        tn__text_put(text, "  ");
    }
    tn__words_cell(text, holders_name(row, number), columns - beside, false);
    while (!text->failed && text->size > 0 && text->data[text->size - 1] == ' ')
        text->data[--text->size] = '\0';
    tn__text_put(text, "\n");
}

void cli_holders_write(const cli_holders *holders, uint32_t shown, uint32_t columns,
                       tn__text *text) {
    char all[TN_SIZE_TEXT_MAX], exact[TN__WORDS_MAX];
    uint64_t total = 0, rest = 0;
    bool uses = holders_have_uses(holders);
    for (uint32_t i = 0; i < holders->count; i++) {
        total = tn__add_sat(total, holders->rows[i].allocated);
        if (i >= shown) rest = tn__add_sat(rest, holders->rows[i].allocated);
    }
    tn__text_printf(text, "  %s: %u holder%s of %s\n", holders->title, holders->count,
                    holders->count == 1 ? "" : "s", tn_size_format(total, all));
    if (holders->count > 0 && uses)
        tn__text_printf(text, "  %15s  %-15s  %-18s  %s\n", "bytes", "kind", "operator", "name");
    else if (holders->count > 0)
        tn__text_printf(text, "  %15s  %s\n", "bytes", "name");
    for (uint32_t i = 0; i < holders->count && i < shown; i++)
        holders_print_row(&holders->rows[i], uses, columns, text);
    if (holders->count > shown)
        tn__text_printf(text, "  %15s  in %u more\n", tn__grouped(rest, exact),
                        holders->count - shown);
    holders_print_sums(holders, false, text);
    holders_print_sums(holders, true, text);
}

void cli_holders_print(const cli_holders *holders, uint32_t shown, FILE *file) {
    tn__text text;
    tn__text_init(&text, NULL);
    cli_holders_write(holders, shown, cli_columns(file), &text);
    if (!text.failed) fwrite(text.data, 1, text.size, file);
    tn__text_release(&text);
}

void cli_holders_print_least(const tn_occupancy *occupancy, uint64_t fixed, const char *of) {
    cli_holders holders;
    char size[TN_SIZE_TEXT_MAX], title[sizeof holders.title];
    if (cli_holders_of_model(&holders, occupancy, TN_NONE, NULL) == TN_OK) {
        snprintf(title, sizeof title, "%.60s, %.120s", of, holders.title);
        memcpy(holders.title, title, sizeof title);
        cli_holders_print(&holders, HOLDERS_LEAST, stderr);
    }
    if (fixed > 0)
        fprintf(stderr, "  at every step  weights and states: %s\n", tn_size_format(fixed, size));
    cli_holders_release(&holders);
}

static const cli_facts holders_row_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "allocation", NULL, "with blocks: number of the allocation, from 1"),
        CLI_FACT(BYTES, "requested", NULL, "requested bytes"),
        CLI_FACT(BYTES, "allocated", NULL, "allocated bytes"),
        CLI_FACT(COUNT, "stream", NULL, "stream of the allocation"),
        CLI_FACT(WORD, "name", NULL, "name of the tensor or buffer"),
        CLI_FACT(WORD, "kind", NULL, "its kind, such as activation"),
        CLI_FACT(WORD, "op", NULL, "type of the operator that defines it"), CLI_FACTS_END}};
const cli_facts cli_holders_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "holder_count", NULL, "number of tensors or blocks at that time"),
        CLI_FACT_OF(LIST, "holders", "the largest of them", &holders_row_facts), CLI_FACTS_END}};

void cli_holders_add(cli_answer *answer, const cli_holders *holders, uint32_t shown) {
    tn__text *table = cli_answer_table(answer);
    if (table != NULL) cli_holders_write(holders, shown, cli_columns(stdout), table);
    cli_add(answer, "holder_count", holders->count);
    cli_answer_open(answer, "holders");
    for (uint32_t i = 0; i < holders->count && i < shown; i++) {
        const tn_holder *row = &holders->rows[i];
        cli_answer_open(answer, NULL);
        if (row->birth > 0) cli_add(answer, "allocation", row->birth);
        cli_add(answer, "requested", row->requested);
        cli_add(answer, "allocated", row->allocated);
        cli_add(answer, "stream", row->stream);
        cli_add_word(answer, "name", row->label.name);
        cli_add_word(answer, "kind", row->label.kind);
        cli_add_word(answer, "op", row->label.op);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}
