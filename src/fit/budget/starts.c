/* starts.c - the orders of operators from which passes start, as jobs and values.
 *
 * These are the program's order and, if the order is free, the order with the least memory. The
 * latter is used even if its peak is the same, because it often needs less memory elsewhere. Each
 * order has two works: one with the given costs, and one with reproducible costs for decisions that
 * must not depend on a clock.
 */
#include "fit/budget/seek.h"

#include "program/program.h"

static tn_status starts_mark(tn__fit *fit, tn__fit_start *start) {
    const tn_graph *graph = tn_program_graph(fit->given);
    const tn__work *work = &start->work;
    if (fit->options.segment_count > 0) {
        start->segments = tn__arena_array(&fit->arena, (size_t)work->job_count + 1, 1);
        if (start->segments == NULL) return tn__no_memory(fit->error, "segments");
        for (uint32_t j = 0; j < work->job_count; j++) {
            if (work->jobs[j].op == TN_NONE) continue;
            const char *name = tn_graph_op(graph, work->jobs[j].op)->name;
            for (uint32_t s = 0; s < fit->options.segment_count && start->segments[j] == 0; s++)
                if (tn__glob(fit->options.segments[s], name))
                    start->segments[j] = (uint8_t)(s < 254 ? s + 1 : 255);
        }
    }
    if (fit->options.zeros == NULL) return TN_OK;
    start->zeros =
        tn__arena_array(&fit->arena, (size_t)work->value_count + 1, sizeof *start->zeros);
    if (start->zeros == NULL) return tn__no_memory(fit->error, "measured zeros");
    for (uint32_t v = 0; v < work->value_count; v++)
        start->zeros[v] =
            work->values[v].tensor != TN_NONE ? fit->options.zeros[work->values[v].tensor] : -1.0f;
    return TN_OK;
}

/* Passes see a work that obeys the rules. The caller's own order decides whether a rule changes
 * anything. */
static tn_status starts_rule(tn__fit *fit, tn__fit_start *start) {
    const tn_rules *rules = fit->options.rules;
    const tn_graph *graph = tn_program_graph(fit->given);
    const bool first = fit->start_count == 1;
    const bool strict = first && tn__rules_are_strict(start->program);
    tn__ruled even;
    if (!tn__rules_any(rules)) return TN_OK;
    start->ruled = tn__arena_array(&fit->arena, 1, sizeof *start->ruled);
    if (start->ruled == NULL) return tn__no_memory(fit->error, "rules");
    start->plain = start->work;
    TN_TRY(tn__rules_apply(rules, graph, &start->work, strict, first ? fit->options.explain : NULL,
                           fit->options.explain_self, &fit->arena, start->ruled, fit->error));
    TN_TRY(tn__rules_apply(rules, graph, &start->even, false, NULL, NULL, &fit->arena, &even,
                           fit->error));
    start->work = start->ruled->work;
    start->even = even.work;
    return TN_OK;
}

static tn_status starts_add(tn__fit *fit, const tn_program *program, tn_program *own) {
    tn__fit_start *start = &fit->starts[fit->start_count++];
    *start = (tn__fit_start){.program = program, .own = own};
    TN_TRY(tn__work_read(program, fit->costs, fit->options.memory, &fit->arena, &start->work,
                         &start->map, fit->error));
    start->even = start->work; /* problems: their costs are exact */
    tn__work_map *map;
    if (!fit->options.live)
        TN_TRY(tn__work_read(program, NULL, fit->options.memory, &fit->arena, &start->even, &map,
                             fit->error));
    start->work.is_ordered = start->even.is_ordered = (fit->options.allow & TN_FIT_ORDER) == 0;
    TN_TRY(starts_rule(fit, start));
    return starts_mark(fit, start);
}

/* A pattern that matches no operator is reported as a mistake in the pattern. */
static tn_status starts_check_segments(const tn__fit *fit) {
    const tn_graph *graph = tn_program_graph(fit->given);
    for (uint32_t s = 0; s < fit->options.segment_count; s++) {
        bool any = false;
        for (uint32_t j = 0; j < fit->starts[0].work.job_count && !any; j++) {
            tn_op_id op = fit->starts[0].work.jobs[j].op;
            any = op != TN_NONE && tn__glob(fit->options.segments[s], tn_graph_op(graph, op)->name);
        }
        if (!any)
            TN_FAIL(fit->error, TN_E_INVALID, "no operator's name matches the segment '%.100s'",
                    fit->options.segments[s]);
    }
    return TN_OK;
}

static tn_status starts_add_order(tn__fit *fit) {
    tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
    tn_program *program;
    bool orders = (fit->options.allow & TN_FIT_ORDER) != 0 && fit->parts[0].pass->features != 0;
    if (!orders || fit->options.live) return TN_OK; /* problems: passes choose the order */
    options.order = "memory";
    options.memory = fit->options.memory;
    TN_TRY(tn__program_ordered(tn_program_graph(fit->given), &options, &program, fit->error));
    uint32_t count = tn_program_count(program);
    if (count == tn_program_count(fit->given) &&
        memcmp(tn_program_instructions(program), tn_program_instructions(fit->given),
               count * sizeof(tn_instruction)) == 0) {
        tn_program_destroy(program);
        return TN_OK;
    }
    return starts_add(fit, program, program);
}

tn_status tn__fit_make_starts(tn__fit *fit) {
    TN_TRY(starts_add(fit, fit->given, NULL));
    TN_TRY(starts_check_segments(fit));
    return starts_add_order(fit);
}
