/* explain.c - `tenure plan --explain`: explains the memory of a plan, by answers to three
 * questions.
 *
 * Why this peak: it prints the peak step, the tensors that are live there, the operators that
 * produce them, and their last readers. How to lower the peak: every change is planned, not
 * guessed. First each of the largest holders is removed alone, which shows how near the next peak
 * is. Then the effects of options are printed, with the predicted time of recomputation. Why these
 * offsets: for each holder it prints the buffer directly below it. It also prints the stack of
 * buffers from the highest one to the bottom, which determines the size of the arena.
 *
 * The trials may use the time and work that the plan left of --timeout and --work-limit. Changes
 * that were not tried for this reason are listed.
 */
#include "base/base.h"
#include "cli/answer/model_facts.h"
#include "cli/estimate/estimate.h"
#include "cli/model/input.h"
#include "cli/plan/plan.h"
#include "report/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- why a buffer has its offset: the buffer directly below it --- */

/* The buffer directly below a buffer B is, of the buffers that are live at one of B's times and lie
 * below B, the one with the highest end. The highest buffer of the arena, the buffer directly below
 * it, and so on down to offset 0 form a stack. This stack explains the size of the arena: no buffer
 * in it can move down while the others stay where they are. */

static uint64_t rests_end(const tn_layout *layout, tn_body_id body, const tn_piece *piece) {
    return layout->offset[body] + piece->hi;
}

/* Returns the highest end of a section of `below` that lies under a section of `body` while both
 * are live, or 0 if there is none. */
static uint64_t rests_reach(const tn_problem *problem, const tn_layout *layout, tn_body_id body,
                            tn_body_id below) {
    tn_piece one, other;
    uint32_t count, counts;
    uint64_t most = 0;
    const tn_piece *mine = tn__body_pieces(tn_problem_body(problem, body), &one, &count);
    const tn_piece *its = tn__body_pieces(tn_problem_body(problem, below), &other, &counts);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < counts; k++) {
            bool together = its[k].first < mine[i].last && mine[i].first < its[k].last;
            uint64_t end = rests_end(layout, below, &its[k]);
            if (together && end <= layout->offset[body] + mine[i].lo && end > most) most = end;
        }
    return most;
}

/* Returns the buffer directly below `body` during its live range, or TN_NONE if there is none. */
static tn_body_id rests_below(const tn_problem *problem, const tn_layout *layout, tn_body_id body) {
    const tn_body *it = tn_problem_body(problem, body);
    tn_body_id found = TN_NONE;
    uint64_t most = 0;
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        const tn_body *other = tn_problem_body(problem, b);
        bool apart = other->last <= it->first || it->last <= other->first;
        if (b == body || apart || layout->bank[b] != layout->bank[body]) continue;
        uint64_t end = rests_reach(problem, layout, body, b);
        if (end > most) most = end, found = b;
    }
    return found;
}

/* Returns a buffer that ends where the bank's part of the arena ends, or TN_NONE. */
static tn_body_id rests_highest(const tn_problem *problem, const tn_layout *layout,
                                tn_bank_id bank) {
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        const tn_body *body = tn_problem_body(problem, b);
        if (layout->bank[b] == bank && body->size > 0 &&
            layout->offset[b] + body->size == layout->bank_peak[bank])
            return b;
    }
    return TN_NONE;
}

/* Stores `top`, the buffer directly below it, and so on in `bodies`, at most `room` buffers.
 * Returns their number. Cost: O(sections of all buffers) per stored buffer. */
static uint32_t rests_stack(const tn_problem *problem, const tn_layout *layout, tn_body_id top,
                            tn_body_id *bodies, uint32_t room) {
    uint32_t count = 0;
    for (tn_body_id b = top; b != TN_NONE && count < room;) {
        bodies[count++] = b;
        b = layout->offset[b] > 0 ? rests_below(problem, layout, b) : TN_NONE;
    }
    return count;
}

/* --- --explain: parts of sentences --- */

#define EXPLAIN_HOLDERS 6u    /* number of the largest holders that are removed, one at a time */
#define EXPLAIN_BODIES 20000u /* a problem with more buffers is not planned again for each holder */
#define EXPLAIN_STACK 12u     /* number of buffers of the stack that are printed */
#define EXPLAIN_STACK_MOST 4096u /* largest number of buffers in the stack */
#define EXPLAIN_CHANGES 12u

typedef struct explain_view {
    const cli_explained *of;
    tn_report report;
    tn__scene scene;
    tn__curve curve;
    tn__uses uses;
    const tn__holder *holders;
    uint32_t holder_count;
    int64_t at;
    uint32_t columns;
    cli_limits limits;
    tn__text text;
} explain_view;

/* Returns the options of one more plan, with the remaining time and work as its limits. */
static tn_plan_options explain_options(const explain_view *view) {
    tn_plan_options options = *view->of->options;
    if (view->limits.limited) options.work_limit = view->limits.work;
    if (view->of->deadline > 0) options.timeout_s = fmax(view->of->deadline - cli_clock(), 1e-6);
    return options;
}

static void explain_word(explain_view *view, const char *word, size_t width) {
    tn__words_cell(&view->text, word, width, false);
    while (!view->text.failed && view->text.size > 0 && view->text.data[view->text.size - 1] == ' ')
        view->text.data[--view->text.size] = '\0';
}

static size_t explain_width(const explain_view *view, uint32_t beside) {
    return view->columns > beside + 14 ? view->columns - beside : 14;
}

/* Adds the number and the operator of a step, such as "6 Conv". */
static void explain_step(explain_view *view, uint32_t step) {
    tn__text_printf(&view->text, "%u ", step);
    explain_word(view, tn__step_of(&view->report, step).type, 20);
}

/* Adds the live range of a tensor, such as "made at 6 Conv, read last at 8 Add". */
static void explain_life(explain_view *view, uint32_t index) {
    const tn__report_item *item = &view->scene.items[index];
    if (view->report.occupancy == NULL) {
        tn__text_printf(&view->text, "live %lld to %lld", (long long)item->first,
                        (long long)item->last);
        return;
    }
    if (item->step == TN_NONE) {
        tn__text_put(&view->text, "there from the start");
    } else {
        tn__text_put(&view->text, (int64_t)item->step == view->at ? "made here" : "made at ");
        if ((int64_t)item->step != view->at) explain_step(view, item->step);
    }
    uint32_t last = view->uses.start[index + 1];
    if (last == view->uses.start[index]) return;
    uint32_t step = view->uses.steps[last - 1];
    tn__text_put(&view->text, (int64_t)step == view->at ? ", read last here" : ", read last at ");
    if ((int64_t)step != view->at) explain_step(view, step);
}

/* --- --explain: why this peak --- */

static void explain_peak(explain_view *view) {
    char size[TN_SIZE_TEXT_MAX], exact[TN__WORDS_MAX];
    const tn_layout *layout = view->report.layout;
    tn__step step = view->report.occupancy != NULL ? tn__step_of(&view->report, (uint32_t)view->at)
                                                   : (tn__step){"", ""};
    uint64_t live = 0;
    for (uint32_t i = 0; i < view->holder_count; i++)
        live = tn__add_sat(live, view->holders[i].bytes);
    tn__text_printf(&view->text, "why %s\n  at %s %lld", tn_size_format(layout->peak, size),
                    view->report.occupancy != NULL ? "step" : "time", (long long)view->at);
    if (view->scene.phases != NULL)
        tn__text_printf(&view->text, " (%s)", tn__phase_words(view->scene.phases[view->at]));
    tn__text_put(&view->text, *step.type ? ", " : "");
    explain_word(view, step.type, 24);
    tn__text_put(&view->text, *step.name ? " " : "");
    explain_word(view, step.name, explain_width(view, 50));
    tn__text_printf(&view->text, ", %u buffers live: %s bytes\n", view->holder_count,
                    tn__grouped(live, exact));
    if (layout->bank_count == 1 && layout->peak > live)
        tn__text_printf(
            &view->text,
            "  %s bytes more by alignment and holes; no plan of these buffers needs less than %s\n",
            tn__grouped(layout->peak - live, exact), tn_size_format(layout->lower_bound, size));
    for (uint32_t i = 0; i < view->holder_count && i < EXPLAIN_HOLDERS; i++) {
        const tn__holder *row = &view->holders[i];
        tn__text_printf(&view->text, "  %15s  ", tn__grouped(row->bytes, exact));
        explain_word(view, view->scene.items[row->item].name, explain_width(view, 19));
        tn__text_put(&view->text, "\n                   ");
        explain_life(view, row->item);
        tn__text_put(&view->text, "\n");
    }
    if (view->holder_count > EXPLAIN_HOLDERS)
        tn__text_printf(&view->text, "  and %u smaller ones\n",
                        view->holder_count - EXPLAIN_HOLDERS);
}

/* --- --explain: changes that would lower the peak --- */

/* Plans the problem without one of its buffers, and sets *peak. The caller has checked with
 * explain_is_plain that no other data of the problem refer to numbers of buffers. */
static tn_status explain_without(explain_view *view, tn_body_id without, uint64_t *peak,
                                 tn_error *error) {
    const tn_problem *problem = view->report.problem;
    tn_plan_options options = explain_options(view);
    tn_problem *rest = NULL;
    tn_layout layout = {0};
    /* a fast planner, because there is one plan per holder */
    if (options.planner == NULL) options.planner = "fast";
    tn_status status = tn_problem_create(view->report.context, &rest, error);
    for (tn_body_id b = 0; b < tn_problem_count(problem) && status == TN_OK; b++)
        if (b != without) status = tn_problem_add(rest, tn_problem_body(problem, b), NULL, error);
    if (status == TN_OK) status = tn_plan(rest, &options, &layout, error);
    if (status == TN_OK) *peak = layout.peak;
    cli_limits_spend(&view->limits, layout.work);
    tn_layout_release(&layout);
    tn_problem_destroy(rest);
    return status;
}

/* Returns whether buffers may be removed from the problem one at a time. */
static bool explain_is_plain(const tn_problem *problem) {
    if (tn_problem_bank_count(problem) > 1 || tn_problem_streams(problem) > 1 ||
        tn_problem_count(problem) > EXPLAIN_BODIES)
        return false;
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++)
        if (tn_problem_body(problem, b)->flags & TN_BODY_TIED) return false;
    return true;
}

static void explain_holders(explain_view *view) {
    char exact[TN__WORDS_MAX], less[TN__WORDS_MAX];
    uint64_t peak, whole = view->report.layout->peak;
    tn_error unused;
    if (!explain_is_plain(view->report.problem)) return;
    for (uint32_t i = 0; i < view->holder_count && i < EXPLAIN_HOLDERS; i++) {
        const tn__holder *row = &view->holders[i];
        bool goes_on = cli_limits_go_on(&view->limits);
        tn_status status = goes_on ? explain_without(view, row->body, &peak, &unused) : TN_OK;
        if (!goes_on || !cli_limits_go_on(&view->limits)) {
            cli_limits_skip(&view->limits, "the plan without each of the largest buffers");
            return;
        }
        if (status != TN_OK) continue;
        uint64_t saved = whole > peak ? whole - peak : 0;
        tn__text_printf(&view->text, "  %15s  %15s less without ", tn__grouped(peak, exact),
                        tn__grouped(saved, less));
        explain_word(view, view->scene.items[row->item].name, explain_width(view, 50));
        tn__text_put(&view->text, saved < row->bytes ? ": then another step is the peak\n" : "\n");
    }
}

/* Returns the request of an estimate that describes how the input was planned. A trial changes one
 * option of it. */
static cli_estimate_request explain_way(explain_view *view) {
    const cli_explained *of = view->of;
    cli_estimate_request request = {.input = *of->input,
                                    .ranks = CLI_RANKS_INIT,
                                    .batch = (uint64_t)of->input->import.batch,
                                    .train = of->training != NULL,
                                    .training = CLI_TRAINING_INIT,
                                    .options = TN_ESTIMATE_OPTIONS_INIT,
                                    .runner = of->input->target.runner,
                                    .choices = CLI_CHOICES_INIT,
                                    .device = of->device,
                                    .limits = &view->limits};
    if (of->training != NULL) request.training = *of->training;
    request.input.occupancy_options.workspaces = NULL;
    request.choices.plan = explain_options(view);
    request.choices.threads = of->input->target.threads > 0 ? of->input->target.threads : 1;
    request.choices.no_rewrite = of->input->target.no_rewrite;
    request.choices.fastest = of->input->target.fastest;
    return request;
}

static void explain_change(explain_view *view, const cli_change *change, uint64_t all) {
    char exact[TN__WORDS_MAX], less[TN__WORDS_MAX];
    tn__text_printf(&view->text, "  %15s  %15s less with %s", tn__grouped(change->total, exact),
                    tn__grouped(all - change->total, less), change->text);
    if (change->priced)
        tn__text_printf(&view->text, " (estimate, fit, run, train), %+.1f %% time predicted",
                        100 * change->more_time);
    tn__text_put(&view->text, "\n");
}

/* Plans with operators in tiles and prints the arena if it is smaller. Returns whether it is. */
static bool explain_parts(explain_view *view) {
    const cli_input *from = view->of->input;
    tn_error unused;
    if (view->of->training != NULL || from->split.asked || view->report.occupancy == NULL ||
        tn_problem_count(view->report.problem) > EXPLAIN_BODIES)
        return false;
    cli_input parts = *from;
    parts.graph = parts.rewritten = NULL;
    parts.setup = NULL;
    parts.own = NULL;
    parts.own_layout = (tn_layout){0};
    parts.occupancy_options.workspaces = parts.workspaces = NULL;
    parts.split.asked = true;
    uint64_t whole = view->report.layout->peak;
    const tn_plan_options options = explain_options(view);
    bool goes_on = cli_limits_go_on(&view->limits);
    bool helps =
        goes_on && cli_input_plan(&parts, &options, &unused) == TN_OK && parts.layout->peak < whole;
    if (!cli_limits_go_on(&view->limits) && !helps)
        cli_limits_skip(&view->limits, "operators in tiles");
    else if (view->limits.limited && !helps)
        tn__text_put(&view->text, "  no operators in tiles were found within the work limit\n");
    if (helps) {
        char exact[TN__WORDS_MAX], less[TN__WORDS_MAX];
        tn__text_printf(&view->text, "  %15s  %15s less in the arena with operators in tiles, ",
                        tn__grouped(parts.layout->peak, exact),
                        tn__grouped(whole - parts.layout->peak, less));
        cli_split_words(parts.setup, &view->text);
        tn__text_put(&view->text, " (--split of plan and run)\n");
    }
    cli_input_release_loaded(&parts);
    return helps;
}

/* Prints how other options, and recomputation within some budgets, would change the bytes of arena
 * and weights together. */
static void explain_changes(explain_view *view) {
    static const double shares[] = {0.9, 0.75, 0.5};
    cli_change changes[EXPLAIN_CHANGES];
    cli_estimate_request request = explain_way(view);
    cli_estimate_result found;
    tn_error unused; /* the error is ignored: a change that is not possible is not proposed */
    bool parts = view->of->input->bank_count > 0;
    if (parts) return;
    if (!cli_limits_go_on(&view->limits) ||
        cli_estimate_within(&request, &found, &unused) != TN_OK) {
        if (!cli_limits_go_on(&view->limits))
            cli_limits_skip(&view->limits, "other options, recomputation, operators in tiles");
        return;
    }
    cli_limits_spend(&view->limits, found.work);
    uint64_t all = found.estimate.total;
    uint32_t count = cli_estimate_each(&request, &found, changes, EXPLAIN_CHANGES);
    for (size_t i = 0; i < sizeof shares / sizeof *shares && count < EXPLAIN_CHANGES; i++) {
        uint64_t budget =
            found.estimate.fixed + (uint64_t)(shares[i] * (double)found.estimate.arena);
        count += cli_estimate_fitted(&request, budget, &changes[count]);
    }
    char size[TN_SIZE_TEXT_MAX];
    if (count > 0)
        tn__text_printf(&view->text, "  arena and weights together are %s; that would be\n",
                        tn_size_format(all, size));
    for (uint32_t i = 0; i < count; i++) explain_change(view, &changes[i], all);
    if (!explain_parts(view) && count == 0 && !view->limits.reached && !view->limits.limited)
        tn__text_put(&view->text, "  no change found: no order, no option, no tiles, and no "
                                  "recomputation at 0.9, 0.75 or 0.5 of the arena\n");
}

/* Prints the changes that were not tried, or not completely, because a limit was reached. */
static void explain_skipped(explain_view *view) {
    if (view->limits.skipped.size == 0) return;
    tn__text_printf(&view->text, "  not tried, or not to the end, because %s: %s\n",
                    view->of->deadline > 0 && cli_clock() >= view->of->deadline
                        ? "the time was up"
                        : "the work limit was reached",
                    view->limits.skipped.data);
}

/* --- --explain: why these offsets --- */

static void explain_place(explain_view *view, tn_body_id body) {
    const tn_layout *layout = view->report.layout;
    char from[TN__WORDS_MAX], to[TN__WORDS_MAX], hole[TN__WORDS_MAX];
    const tn_body *it = tn_problem_body(view->report.problem, body);
    uint32_t item = 0;
    while (item + 1 < view->scene.item_count && view->scene.items[item].body != body) item++;
    for (uint32_t i = 0; i < view->holder_count; i++)
        if (view->holders[i].body == body) item = view->holders[i].item;
    tn__text_printf(&view->text, "  %15s to %15s  ", tn__grouped(layout->offset[body], from),
                    tn__grouped(layout->offset[body] + it->size, to));
    explain_word(view, view->scene.items[item].name, explain_width(view, 62));
    tn__text_printf(&view->text, " (%lld to %lld)", (long long)it->first, (long long)it->last);
    tn_body_id below = rests_below(view->report.problem, layout, body);
    uint64_t end = below == TN_NONE
                       ? 0
                       : layout->offset[below] + tn_problem_body(view->report.problem, below)->size;
    uint64_t gap = layout->offset[body] > end ? layout->offset[body] - end : 0;
    if (gap > 0) tn__text_printf(&view->text, ", %s free below it", tn__grouped(gap, hole));
    tn__text_put(&view->text, "\n");
}

/* Prints the stack of buffers that determines the size of the arena, from its top to its bottom. */
static tn_status explain_offsets(explain_view *view, tn_error *error) {
    const tn_problem *problem = view->report.problem;
    const tn_layout *layout = view->report.layout;
    tn_body_id *stack = tn__arena_array(&view->scene.arena, EXPLAIN_STACK_MOST, sizeof *stack);
    if (stack == NULL) return tn__no_memory(error, "the explanation");
    tn_body_id top = rests_highest(problem, layout, 0);
    uint32_t count =
        top == TN_NONE ? 0 : rests_stack(problem, layout, top, stack, EXPLAIN_STACK_MOST);
    int64_t from = INT64_MIN, to = INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const tn_body *body = tn_problem_body(problem, stack[i]);
        if (body->first > from) from = body->first;
        if (body->last < to) to = body->last;
    }
    tn__text_printf(
        &view->text,
        "\nwhy these offsets: each buffer lies on a buffer that is live at the same time%s\n",
        layout->bank_count > 1 ? ", of the first memory" : "");
    for (uint32_t i = 0; i < count && i < EXPLAIN_STACK; i++) explain_place(view, stack[i]);
    if (count > EXPLAIN_STACK)
        tn__text_printf(&view->text, "  and %u below them\n", count - EXPLAIN_STACK);
    if (count > 0 && from < to)
        tn__text_printf(
            &view->text,
            "  all of these are live at %lld, so the stack is as high as the bytes live then\n",
            (long long)from);
    else if (count > 0)
        tn__text_put(
            &view->text,
            "  they are not all live at once: the buffers between keep the upper ones up\n");
    return TN_OK;
}

/* --- --explain: the answers to all three questions --- */

static tn_status explain_make(explain_view *view, tn_error *error) {
    TN_TRY(tn__scene_make(&view->scene, &view->report, error));
    if (view->report.occupancy != NULL) TN_TRY(tn__uses_make(&view->scene, &view->uses, error));
    TN_TRY(tn__curve_make(&view->curve, view->report.problem, view->report.context, error));
    if (view->curve.count == 0) {
        tn__text_put(&view->text, "nothing needs memory\n\n");
        return TN_OK;
    }
    view->at = tn__peak_at(&view->scene, &view->curve);
    TN_TRY(tn__holders_at(&view->scene, view->at, &view->holders, &view->holder_count, error));
    explain_peak(view);
    tn__text_put(&view->text, "\nchanges that would lower it, each planned\n");
    explain_holders(view);
    if (view->report.occupancy != NULL) explain_changes(view);
    explain_skipped(view);
    TN_TRY(explain_offsets(view, error));
    tn__text_put(&view->text, "\n");
    return TN_OK;
}

tn_status cli_explain_plan(const cli_explained *of, tn_error *error) {
    explain_view view = {.of = of,
                         .report = {.struct_size = sizeof view.report,
                                    .input = of->input->path,
                                    .problem = of->input->problem,
                                    .layout = of->input->layout,
                                    .occupancy = of->input->occupancy},
                         .columns = cli_columns(stdout)};
    tn__text_init(&view.text, NULL);
    tn__text_init(&view.limits.skipped, NULL);
    view.limits.limited = of->options->work_limit > 0;
    if (view.limits.limited) view.limits.work = of->options->work_limit;
    cli_limits_spend(&view.limits, of->input->layout->work);
    cli_deadline(of->deadline, NULL);
    tn__arena_init(&view.scene.arena, NULL);
    tn_status status = explain_make(&view, error);
    if (view.text.failed) status = tn__no_memory(error, "the explanation");
    cli_deadline(0, NULL);
    cli_progress_end();
    if (status == TN_OK) fwrite(view.text.data, 1, view.text.size, stdout);
    tn__text_release(&view.text);
    tn__text_release(&view.limits.skipped);
    tn__curve_release(&view.curve);
    tn__scene_release(&view.scene);
    return status;
}

/* --- --explain=tags: the events of tn_occupancy_tags as sentences --- */

/* Each event of memory tags is printed as one line, with its step and operator. Names come from
 * files that are not trusted, so tn__words_cell escapes their control characters. */

#define TAGS_NAME 72u     /* width in columns of a tensor's name */
#define TAGS_OPERATOR 14u /* width of the operator's type */

typedef struct tags_text {
    const tn_graph *graph;
    tn__text text;
    uint32_t step; /* the step that was printed last; UINT32_MAX: none yet */
} tags_text;

static void tags_name(tags_text *to, tn_tensor_id tensor) {
    if (tensor == TN_NONE) {
        tn__text_put(&to->text, "its workspace");
        return;
    }
    tn__words_cell(&to->text, tn_graph_tensor(to->graph, tensor)->name, TAGS_NAME, false);
    while (!to->text.failed && to->text.size > 0 && to->text.data[to->text.size - 1] == ' ')
        to->text.data[--to->text.size] = '\0';
}

static void tags_uses(tags_text *to, uint32_t uses) {
    tn__text_printf(&to->text, "%u more use%s", uses, uses == 1 ? "" : "s");
}

static void tags_step(tags_text *to, const tn_tag_event *event) {
    const tn_op *op = event->op != TN_NONE ? tn_graph_op(to->graph, event->op) : NULL;
    bool same = event->step == to->step;
    to->step = event->step;
    if (same)
        tn__text_put(&to->text, "        ");
    else
        tn__text_printf(&to->text, "%6u  ", event->step);
    tn__words_cell(&to->text, op != NULL && !same ? op->type : "", TAGS_OPERATOR, false);
    tn__text_put(&to->text, " ");
}

static bool tags_event(void *self, const tn_tag_event *event) {
    tags_text *to = self;
    tags_step(to, event);
    tags_name(to, event->tensor);
    switch (event->kind) {
    case TN_TAG_OUTSIDE:
        tn__text_put(&to->text, " is an input or a weight: no tag");
        break;
    case TN_TAG_NEW:
        tn__text_printf(&to->text, " gets tag %u, a new one: ", event->tag);
        if (event->other != TN_NONE) tags_name(to, event->other);
        tn__text_put(&to->text, event->other != TN_NONE ? " is still live" : "none is free");
        break;
    case TN_TAG_TAKEN:
        tn__text_printf(&to->text, " takes tag %u from the queue", event->tag);
        break;
    case TN_TAG_VIEW:
    case TN_TAG_INPLACE:
        tn__text_put(&to->text,
                     event->kind == TN_TAG_VIEW ? " lies in " : " works in place, over ");
        tags_name(to, event->other);
        if (event->tag != TN_NONE) tn__text_printf(&to->text, ", tag %u", event->tag);
        break;
    case TN_TAG_KEPT:
        tn__text_put(&to->text, " stays live: ");
        tags_uses(to, event->uses);
        break;
    case TN_TAG_FREED:
        tn__text_printf(&to->text, " is dead: tag %u returns to the queue", event->tag);
        break;
    }
    tn__text_put(&to->text, "\n");
    return !to->text.failed;
}

tn_status cli_explain_tags(const tn_occupancy *occupancy, tn_error *error) {
    tags_text to = {.graph = tn_program_graph(tn_occupancy_program(occupancy)), .step = UINT32_MAX};
    tn_tag_summary summary;
    char size[TN_SIZE_TEXT_MAX];
    tn__text_init(&to.text, NULL);
    tn__text_put(&to.text, "  step  operator       event\n");
    tn_status status = tn_occupancy_tags(occupancy, tags_event, &to, &summary, error);
    if (status == TN_OK)
        tn__text_printf(&to.text, "\n  %u tag%s end to end: %s\n\n", summary.tag_count,
                        summary.tag_count == 1 ? "" : "s", tn_size_format(summary.bytes, size));
    if (to.text.failed) status = tn__no_memory(error, "the explanation");
    cli_progress_end();
    if (status == TN_OK) fwrite(to.text.data, 1, to.text.size, stdout);
    tn__text_release(&to.text);
    return status;
}
