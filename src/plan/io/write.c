/* write.c - writes problems and plans as CSV, and placements as a dsa-solution-v1.
 *
 * csv.c describes the columns, and dsa_solution.c the format of solutions. A column is written only
 * if it is needed. Cost: O(bytes).
 */
#include "plan/io/io.h"
#include "plan/io/rows.h"
#include "plan/problem/problem.h"

#include <inttypes.h>
#include <stdio.h>

/* --- CSV --- */

typedef struct write_columns {
    bool alignment, hint, gaps, bank, any_bank, traffic, leader, clocks, pinned, apart, costs,
        excludes, reserved, offset;
} write_columns;

static bool write_is_plain(const tn_body *body) { /* Whether one piece covers the whole buffer. */
    return body->size == 0 ||
           (body->piece_count == 1 && body->pieces[0].lo == 0 && body->pieces[0].hi == body->size);
}

static write_columns write_choose(const tn_problem *problem, const tn_layout *layout) {
    write_columns columns = {0};
    size_t pins = 0;
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = &problem->bodies[i];
        columns.alignment |= body->alignment > 1;
        columns.hint |= body->has_hint;
        columns.gaps |= !write_is_plain(body);
        columns.bank |= body->bank != 0 || (layout != NULL && layout->bank[i] != 0);
        columns.any_bank |= (body->flags & (TN_BODY_ANY_BANK | TN__BODY_IN_BANK)) != 0;
        columns.traffic |= body->traffic != 0;
        columns.leader |= (body->flags & TN_BODY_TIED) != 0;
        pins += (body->flags & TN_BODY_PINNED) != 0;
    }
    columns.apart = problem->separation_count > 0;
    columns.costs = problem->reuse_cost_count > 0;
    columns.excludes = problem->exclusion_count > 0;
    columns.reserved = problem->reserved_count > 0;
    columns.clocks = problem->streams > 1;
    columns.offset = layout != NULL || pins > 0;
    columns.pinned = pins > 0 && (layout != NULL || pins < problem->count);
    return columns;
}

/* Whether two windows of a buffer are live at the same step. */
static bool write_overlaps(const tn_body *body) {
    for (uint32_t i = 1; i < body->piece_count; i++)
        if (body->pieces[i].first < body->pieces[i - 1].last) return true;
    return false;
}

#define WRITE_WINDOWS_MAX 4096u /* limit of pieces of a buffer, because all pairs are compared */

/* Checks whether a row can express the buffer. CSV has one list of clocks per part of the live
 * range, so with clocks each part must have one window. */
static tn_status write_check_row(const tn_problem *problem, const tn_body *body, tn_error *error) {
    if (write_overlaps(body) && (problem->streams > 1 || body->piece_count > WRITE_WINDOWS_MAX))
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "has several windows at one step, which CSV cannot say here; write JSON instead");
    return TN_OK;
}

tn_status tn__csv_can(const tn_problem *problem, tn_error *error) {
    for (tn_body_id id = 0; id < problem->count; id++) {
        char name[TN__BODY_TEXT_MAX];
        tn_status status = write_check_row(problem, &problem->bodies[id], error);
        if (status != TN_OK)
            return tn__where(error, status, "%s", tn__body_text(problem, id, name));
    }
    return TN_OK;
}

/* The earliest time after `time` at which a piece begins or ends; INT64_MAX if no piece does. */
static int64_t write_next_edge(const tn_body *body, int64_t time) {
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < body->piece_count; i++) {
        const tn_piece *piece = &body->pieces[i];
        if (piece->first > time && piece->first < next) next = piece->first;
        if (piece->last > time && piece->last < next) next = piece->last;
    }
    return next;
}

/* Writes the parts of the live range, from edge to edge of the pieces, in which only some bytes of
 * the buffer are live. */
static void write_put_windows(tn__text *text, const tn_body *body) {
    const char *space = "";
    for (int64_t from = body->first, to; from < body->last; from = to) {
        const char *joint = "@";
        /* bytes that are live from this edge on; pieces are disjoint, so their bytes add up */
        uint64_t live = 0;
        to = write_next_edge(body, from);
        for (uint32_t i = 0; i < body->piece_count; i++)
            if (body->pieces[i].first <= from && body->pieces[i].last > from)
                live += body->pieces[i].hi - body->pieces[i].lo;
        if (live == body->size) continue;
        tn__text_printf(text, "%s%" PRId64 "-%" PRId64, space, from, to);
        space = " ";
        for (uint32_t i = 0; i < body->piece_count; i++) {
            const tn_piece *piece = &body->pieces[i];
            if (piece->first > from || piece->last <= from) continue;
            tn__text_printf(text, "%s%" PRIu64 ":%" PRIu64, joint, piece->lo, piece->hi);
            joint = "+";
        }
    }
}

static void write_put_gaps(tn__text *text, const tn_body *body) {
    int64_t done = body->first;
    const char *space = "";
    if (write_overlaps(body)) {
        write_put_windows(text, body);
        return;
    }
    for (uint32_t i = 0; i < body->piece_count && !write_is_plain(body); i++) {
        const tn_piece *piece = &body->pieces[i];
        if (piece->first > done) {
            tn__text_printf(text, "%s%" PRId64 "-%" PRId64, space, done, piece->first);
            space = " ";
        }
        done = piece->last;
        if (piece->lo == 0 && piece->hi == body->size) continue;
        tn__text_printf(text, "%s%" PRId64 "-%" PRId64 "@%" PRIu64 ":%" PRIu64, space, piece->first,
                        piece->last, piece->lo, piece->hi);
        space = " ";
    }
}

static void write_put_clocks(tn__text *text, const tn_body *body, uint32_t streams, bool ends) {
    tn__text_put(text, ",");
    for (uint32_t k = 0; k < body->piece_count; k++) {
        const tn_piece *piece = &body->pieces[k];
        const int64_t *clocks = ends ? piece->ends : piece->begins;
        if (k > 0) tn__text_put(text, "/");
        for (uint32_t s = 0; s < streams; s++)
            tn__text_printf(text, s > 0 ? " %" PRId64 : "%" PRId64, clocks[s]);
    }
}

/* Finds the id by which a row can refer to buffer `id`. That buffer must be the first with that
 * id. */
static tn_status write_put_name(const tn_problem *problem, tn_body_id id, const tn__names *names,
                                const char *role, char number[16], const char **name,
                                tn_error *error) {
    *name = problem->bodies[id].name;
    if (*name == NULL) {
        snprintf(number, 16, "%u", id);
        *name = number;
    }
    if (tn__names_find(names, *name, strlen(*name)) != id)
        TN_FAIL(error, TN_E_INVALID,
                "is %s '%.80s', and another body has that name; write JSON instead", role, *name);
    return TN_OK;
}

static tn_status write_put_leader(tn__text *text, const tn_problem *problem, const tn_body *body,
                                  const tn__names *names, tn_error *error) {
    char number[16];
    if (!(body->flags & TN_BODY_TIED)) {
        tn__text_put(text, ",,");
        return TN_OK;
    }
    const char *name;
    TN_TRY(write_put_name(problem, body->leader, names, "tied to", number, &name, error));
    tn__text_put(text, ",");
    tn__csv_put(text, name);
    tn__text_printf(text, ",%" PRIu64, body->delta);
    return TN_OK;
}

/* The columns that list pairs of buffers. */
enum { WRITE_APART, WRITE_COSTS, WRITE_EXCLUDES, WRITE_LISTS };

/* Lists the pairs of each buffer that are written in its row: those in which it is the first. */
typedef struct write_lists {
    const tn_problem *problem;
    const tn_pair *given[WRITE_LISTS]; /* the problem's pairs for each column */
    size_t given_count[WRITE_LISTS];
    /* [count + 1], begin of each buffer's list, for each column; NULL: there are no pairs */
    uint32_t *begin[WRITE_LISTS];
    uint32_t *pairs[WRITE_LISTS]; /* indices into the problem's pairs, sorted by first buffer */
    bool *told; /* [bank_count], whether a row has already listed the reserved ranges of the bank */
} write_lists;

static void write_lists_release(write_lists *lists) {
    const tn_context *context = &lists->problem->context;
    for (int k = 0; k < WRITE_LISTS; k++) {
        size_t begins = lists->begin[k] != NULL ? lists->problem->count + 1 : 0;
        size_t pairs = lists->pairs[k] != NULL ? lists->given_count[k] : 0;
        tn__free(context, lists->begin[k], begins * sizeof *lists->begin[k]);
        tn__free(context, lists->pairs[k], pairs * sizeof *lists->pairs[k]);
    }
    size_t told = lists->told != NULL ? lists->problem->bank_count : 0;
    tn__free(context, lists->told, told * sizeof *lists->told);
}

static bool write_lists_make(write_lists *lists, const tn_problem *problem) {
    *lists =
        (write_lists){.problem = problem,
                      .given = {problem->separations, problem->reuse_costs, problem->exclusions},
                      .given_count = {problem->separation_count, problem->reuse_cost_count,
                                      problem->exclusion_count}};
    lists->told = tn__alloc_array(&problem->context, problem->bank_count, sizeof *lists->told);
    if (lists->told == NULL) return false;
    for (int k = 0; k < WRITE_LISTS; k++) {
        const tn_pair *pairs = lists->given[k];
        size_t count = lists->given_count[k];
        if (count == 0) continue;
        lists->begin[k] =
            tn__alloc_array(&problem->context, problem->count + 1, sizeof *lists->begin[k]);
        lists->pairs[k] = tn__alloc_array(&problem->context, count, sizeof *lists->pairs[k]);
        if (lists->begin[k] == NULL || lists->pairs[k] == NULL) return false;
        uint32_t at = 0, *begin = lists->begin[k];
        for (size_t i = 0; i < count; i++) begin[pairs[i].a]++;
        for (size_t i = 0; i < problem->count; i++) begin[i] = at += begin[i];
        begin[problem->count] = at;
        for (size_t i = count; i-- > 0;) lists->pairs[k][--begin[pairs[i].a]] = (uint32_t)i;
    }
    return true;
}

/* Writes a cell that lists pairs of a buffer; `which` is one of WRITE_APART, ... */
static tn_status write_put_pairs(tn__text *text, const write_lists *lists, tn_body_id id,
                                 int which, const tn__names *names, tn_error *error) {
    const tn_problem *problem = lists->problem;
    const uint32_t *begin = lists->begin[which];
    tn__text cell;
    tn__text_init(&cell, &problem->context);
    tn_status status = TN_OK;
    for (uint32_t i = begin[id]; i < begin[id + 1] && status == TN_OK; i++) {
        const tn_pair *pair = &lists->given[which][lists->pairs[which][i]];
        char number[16];
        const char *name;
        status = write_put_name(problem, pair->b, names, "paired with", number, &name, error);
        if (status == TN_OK && (name[0] == '\0' || strchr(name, ' ') != NULL))
            status = tn__fail(error, TN_E_INVALID,
                              "is paired with '%.80s', whose name has a blank or is empty; write "
                              "JSON instead",
                              name);
        if (status != TN_OK) break;
        tn__text_printf(&cell, "%s%s", i > begin[id] ? " " : "", name);
        if (which == WRITE_COSTS && (pair->cost != 1 || strchr(name, ':') != NULL))
            tn__text_printf(&cell, ":%" PRIu64, pair->cost);
    }
    if (status == TN_OK && cell.failed) status = tn__no_memory(error, "a CSV file");
    tn__text_put(text, ",");
    if (status == TN_OK && cell.size > 0) tn__csv_put(text, cell.data);
    tn__text_release(&cell);
    return status;
}

/* Writes the reserved ranges of a bank in the first row with a buffer of that bank. A bank without
 * buffers needs none. */
static void write_put_reserved(tn__text *text, write_lists *lists, const tn_layout *layout,
                               tn_body_id id) {
    const tn_problem *problem = lists->problem;
    tn_bank_id bank = layout != NULL ? layout->bank[id] : problem->bodies[id].bank;
    const char *space = "";
    tn__text_put(text, ",");
    if (lists->told[bank]) return;
    lists->told[bank] = true;
    for (size_t i = 0; i < problem->reserved_count; i++) {
        const tn_reserved *range = &problem->reserved[i];
        if (range->bank != bank) continue;
        /* skips a reserved range that begins above every possible offset */
        if (range->first > INT64_MAX) continue;
        uint64_t last = range->last < INT64_MAX ? range->last : INT64_MAX;
        tn__text_printf(text, "%s%" PRIu64 "-%" PRIu64, space, range->first, last);
        space = " ";
    }
}

static tn_status write_put_row(tn__text *text, const tn_problem *problem, const tn_layout *layout,
                               tn_body_id id, write_columns columns, const tn__names *names,
                               write_lists *lists, tn_error *error) {
    const tn_body *body = &problem->bodies[id];
    TN_TRY(write_check_row(problem, body, error));
    if (body->name != NULL)
        tn__csv_put(text, body->name);
    else
        tn__text_printf(text, "%u", id);
    tn__text_printf(text, ",%" PRId64 ",%" PRId64 ",%" PRIu64, body->first, body->last, body->size);
    if (columns.alignment) tn__text_printf(text, ",%" PRIu64, body->alignment);
    if (columns.hint) tn__text_printf(text, ",%" PRId64, body->has_hint ? body->hint : -1);
    if (columns.gaps) {
        tn__text_put(text, ",");
        write_put_gaps(text, body);
    }
    if (columns.bank) tn__text_printf(text, ",%u", layout != NULL ? layout->bank[id] : body->bank);
    if (columns.any_bank)
        tn__text_put(text, body->flags & TN_BODY_ANY_BANK   ? ",1"
                           : body->flags & TN__BODY_IN_BANK ? ",0"
                                                            : ",");
    if (columns.traffic) tn__text_printf(text, ",%" PRIu64, body->traffic);
    if (columns.leader) TN_TRY(write_put_leader(text, problem, body, names, error));
    for (int ends = 0; ends < 2 && columns.clocks; ends++)
        write_put_clocks(text, body, problem->streams, ends != 0);
    bool pinned = (body->flags & TN_BODY_PINNED) != 0;
    if (columns.pinned) tn__text_printf(text, ",%d", pinned);
    const bool listed[WRITE_LISTS] = {columns.apart, columns.costs, columns.excludes};
    for (int k = 0; k < WRITE_LISTS; k++)
        if (listed[k]) TN_TRY(write_put_pairs(text, lists, id, k, names, error));
    if (columns.reserved) write_put_reserved(text, lists, layout, id);
    if (columns.offset && (layout != NULL || pinned))
        tn__text_printf(text, ",%" PRIu64, layout != NULL ? layout->offset[id] : body->offset);
    else if (columns.offset)
        tn__text_put(text, ",");
    tn__text_put(text, "\n");
    return TN_OK;
}

/* Registers the ids of all buffers, if rows must refer to other rows. `numbers` stores the ids of
 * buffers without a name. */
static bool write_name_bodies(const tn_problem *problem, tn__names *names, tn__arena *numbers) {
    for (tn_body_id id = 0; id < problem->count; id++) {
        const char *name = problem->bodies[id].name;
        char number[16];
        uint32_t existing;
        if (name == NULL) {
            snprintf(number, sizeof number, "%u", id);
            name = tn__arena_string(numbers, number, strlen(number));
            if (name == NULL) return false;
        }
        if (!tn__names_add(names, name, strlen(name), id, &existing)) return false;
    }
    return true;
}

tn_status tn__csv_render(const tn_problem *problem, const tn_layout *layout, tn__text *text,
                         tn_error *error) {
    write_columns columns = write_choose(problem, layout);
    tn__names names;
    tn__arena numbers;
    tn__names_init(&names, &problem->context);
    tn__arena_init(&numbers, &problem->context);
    tn_status status = TN_OK;
    write_lists lists;
    bool named = columns.leader || columns.apart || columns.costs || columns.excludes;
    bool made = write_lists_make(&lists, problem);
    if (!made || (named && !write_name_bodies(problem, &names, &numbers)))
        status = tn__no_memory(error, "a CSV file");
    tn__text_printf(text, "id,lower,upper,size%s%s%s%s%s%s%s%s%s%s%s%s%s%s\n",
                    columns.alignment ? ",alignment" : "", columns.hint ? ",hint" : "",
                    columns.gaps ? ",gaps" : "", columns.bank ? ",bank" : "",
                    columns.any_bank ? ",any_bank" : "", columns.traffic ? ",traffic" : "",
                    columns.leader ? ",leader,delta" : "", columns.clocks ? ",begins,ends" : "",
                    columns.pinned ? ",pinned" : "", columns.apart ? ",apart" : "",
                    columns.costs ? ",costs" : "", columns.excludes ? ",excludes" : "",
                    columns.reserved ? ",reserved" : "", columns.offset ? ",offset" : "");
    for (tn_body_id id = 0; id < problem->count && status == TN_OK; id++) {
        status = write_put_row(text, problem, layout, id, columns, &names, &lists, error);
        char name[TN__BODY_TEXT_MAX];
        if (status != TN_OK) tn__where(error, status, "%s", tn__body_text(problem, id, name));
    }
    write_lists_release(&lists);
    tn__names_release(&names);
    tn__arena_release(&numbers);
    return status;
}

tn_status tn_problem_save_csv(const tn_problem *problem, const tn_layout *layout, const char *path,
                              tn_error *error) {
    tn__text text;
    tn__text_init(&text, &problem->context);
    tn_status status = tn__csv_render(problem, layout, &text, error);
    if (status == TN_OK && text.failed) status = tn__no_memory(error, path);
    if (status == TN_OK) status = tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}

/* --- dsa-problem-v1 --- */

/* Writes a member with a string, if the string is known. */
static void write_put_member(tn__text *text, const char *member, const char *value) {
    if (value == NULL) return;
    tn__text_printf(text, "\"%s\":", member);
    tn__text_json(text, value);
    tn__text_put(text, ",\n");
}

void tn__dsa_render(const tn_problem *problem, const tn_layout *layout, tn__text *text) {
    const tn__dsa_file *file = problem->dsa;
    tn__text_put(text, "{\"schema_version\":1,\n");
    if (file != NULL) {
        write_put_member(text, "profile", file->profile);
        write_put_member(text, "instance", file->instance);
        tn__text_printf(text, "\"problem_fingerprint\":\"%016" PRIx64 "\",\n",
                        file->fingerprint);
        tn__text_put(text, "\"metadata\":{\"solver\":\"tenure\"},\n");
    }
    tn__text_put(text, "\"placements\":[");
    for (tn_body_id id = 0; id < layout->body_count; id++) {
        tn_bank_id bank = layout->bank[id];
        int64_t buffer = file != NULL ? file->body_ids[id] : (int64_t)id;
        int64_t pool = file != NULL ? file->bank_ids[bank] : (int64_t)bank;
        tn__text_printf(text,
                        "%s\n{\"buffer\":%" PRId64 ",\"pool\":%" PRId64 ",\"offset\":%" PRIu64 "}",
                        id > 0 ? "," : "", buffer, pool, layout->offset[id]);
    }
    tn__text_put(text, "\n]}\n");
}

tn_status tn__problem_save_dsa(const tn_problem *problem, const tn_layout *layout, const char *path,
                               tn_error *error) {
    tn__text text;
    tn__text_init(&text, &problem->context);
    tn__dsa_render(problem, layout, &text);
    tn_status status = text.failed ? tn__no_memory(error, path) : TN_OK;
    if (status == TN_OK) status = tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}
