/* simulate_tell.c - prints the results of `tenure simulate` as text and JSON. */
#include "cli/simulate.h"

#include <inttypes.h>
#include <stdio.h>

const char *simulate_end_name(tn_evict_end end) {
    return end == TN_EVICT_DONE ? "done" : end == TN_EVICT_FULL ? "full" : "over";
}

/* --- text --- */

static void tell_bytes(const char *name, uint64_t bytes) {
    char text[TN_SIZE_TEXT_MAX];
    printf("%-18s %s\n", name, tn_size_format(bytes, text));
}

static double tell_share(uint64_t part, uint64_t whole) {
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

static void tell_evictions(const tn_evict_counts *counts) {
    char text[TN_SIZE_TEXT_MAX];
    printf("%-18s %" PRIu64 ", %s\n", "dropped", counts->drop_count,
           tn_size_format(counts->dropped_bytes, text));
    if (counts->swap_count > 0)
        printf("%-18s %" PRIu64 ", %s; back %" PRIu64 "\n", "to the host", counts->swap_count,
               tn_size_format(counts->swapped_bytes, text), counts->fetch_count);
    if (counts->move_count > 0)
        printf("%-18s %" PRIu64 ", %s\n", "moved", counts->move_count,
               tn_size_format(counts->moved_bytes, text));
    if (counts->hole_count > 0)
        printf("%-18s %" PRIu64
               " times enough bytes were free but not contiguous; %s evicted for it\n",
               "holes", counts->hole_count, tn_size_format(counts->hole_bytes, text));
    printf("%-18s %" PRIu64 " times, %" PRIu64 " candidates, %" PRIu64 " records, %.6f s\n",
           "searched", counts->search_count, counts->evaluation_count, counts->access_count,
           counts->search_s);
}

static void tell_run(const simulate_found *found, uint32_t policy, uint32_t budget) {
    const simulate_run *run = simulate_at(found, policy, budget);
    const tn_evict_outcome *outcome = &run->outcome;
    const tn_evict_counts *counts = &outcome->counts;
    printf("policy             %s\n", found->policies[policy]);
    if (outcome->end == TN_EVICT_FULL) {
        printf("does not fit       line %u: %s\n", outcome->line, outcome->message);
        return;
    }
    if (outcome->end == TN_EVICT_OVER) {
        printf("stopped            line %u: after %.4f of the plain time\n", outcome->line,
               outcome->overhead);
        return;
    }
    printf("time               %.6f s, %.4f of the plain run's\n", (double)outcome->cost / 1e9,
           outcome->overhead);
    printf("recomputed         %" PRIu64 " operators, %.6f s\n", counts->remade_ops,
           (double)counts->remade_cost / 1e9);
    tell_bytes("peak", counts->peak_bytes);
    if (found->addresses) tell_bytes("highest byte", counts->reach_bytes);
    tell_evictions(counts);
}

static void tell_table(const simulate_found *found) {
    printf("%16s  share", "budget");
    for (uint32_t p = 0; p < found->policy_count; p++) printf(" %9s", found->policies[p]);
    printf("\n");
    for (uint32_t b = 0; b < found->budget_count; b++) {
        printf("%16" PRIu64 " %5.1f%%", found->budgets[b],
               tell_share(found->budgets[b], found->plain_peak));
        for (uint32_t p = 0; p < found->policy_count; p++) {
            const tn_evict_outcome *outcome = &simulate_at(found, p, b)->outcome;
            if (outcome->end == TN_EVICT_DONE)
                printf(" %9.4f", outcome->overhead);
            else
                printf(" %9s", simulate_end_name(outcome->end));
        }
        printf("\n");
    }
}

/* One line: the smallest budget in which any policy finishes, and its fastest policy. */
static void tell_briefly(const simulate_found *found) {
    for (uint32_t b = 0; b < found->budget_count; b++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t p = 0; p < found->policy_count; p++) {
            const tn_evict_outcome *outcome = &simulate_at(found, p, b)->outcome;
            if (outcome->end == TN_EVICT_DONE &&
                (best == UINT32_MAX || outcome->cost < simulate_at(found, best, b)->outcome.cost))
                best = p;
        }
        if (best == UINT32_MAX) continue;
        printf("%" PRIu64 " of %" PRIu64 " bytes, %.4f of the plain time, %s\n", found->budgets[b],
               found->plain_peak, simulate_at(found, best, b)->outcome.overhead,
               found->policies[best]);
        return;
    }
    printf("no budget is enough; the plain peak is %" PRIu64 " bytes\n", found->plain_peak);
}

/* No policy can finish below this size without copies to the host. */
static void tell_least(const tn_evict_least *least) {
    char sizes[4][TN_SIZE_TEXT_MAX];
    printf("lower bound        %s: constants %s, not recomputable %s, %s %s\n",
           tn_size_format(least->bytes, sizes[0]), tn_size_format(least->pinned, sizes[1]),
           tn_size_format(least->held, sizes[2]), least->name != NULL ? least->name : "the end",
           tn_size_format(least->working, sizes[3]));
}

void simulate_print_text(const simulate_found *found) {
    char text[TN_SIZE_TEXT_MAX];
    if (cli_tone_asked().brief) {
        tell_briefly(found);
        return;
    }
    printf("run                %u operators, %.6f s, peak %s\n", found->facts->op_count,
           (double)found->facts->plain_cost / 1e9, tn_size_format(found->plain_peak, text));
    tell_bytes("  of it constants", found->facts->constant_bytes);
    tell_least(&found->least);
    if (found->policy_count > 1 || found->budget_count > 1) {
        tell_table(found);
        return;
    }
    printf("budget             %s, %.1f %%\n", tn_size_format(found->budgets[0], text),
           tell_share(found->budgets[0], found->plain_peak));
    tell_run(found, 0, 0);
}

/* --- JSON --- */

static void json_counts(tn__text *text, const tn_evict_counts *counts) {
#define TELL_COUNT(field)                                                                          \
    { #field, counts->field }
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {TELL_COUNT(plain_cost),    TELL_COUNT(remade_cost),   TELL_COUNT(remade_ops),
                TELL_COUNT(drop_count),    TELL_COUNT(dropped_bytes), TELL_COUNT(swap_count),
                TELL_COUNT(swapped_bytes), TELL_COUNT(fetch_count),   TELL_COUNT(fetched_bytes),
                TELL_COUNT(swap_cost),     TELL_COUNT(move_count),    TELL_COUNT(moved_bytes),
                TELL_COUNT(move_cost),     TELL_COUNT(search_count),  TELL_COUNT(evaluation_count),
                TELL_COUNT(access_count),  TELL_COUNT(peak_bytes),    TELL_COUNT(reach_bytes),
                TELL_COUNT(hole_count),    TELL_COUNT(hole_bytes),    TELL_COUNT(host_peak_bytes),
                TELL_COUNT(restart_count), TELL_COUNT(spent_count),   TELL_COUNT(spent_bytes)};
#undef TELL_COUNT
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        tn__text_printf(text, ", \"%s\": %" PRIu64, rows[i].name, rows[i].value);
    tn__text_printf(text, ", \"search_s\": %.9f", counts->search_s);
}

static void json_run(tn__text *text, const simulate_found *found, const simulate_run *run) {
    const tn_evict_outcome *outcome = &run->outcome;
    tn__text_printf(text, "{\"budget\": %" PRIu64 ", \"share\": %.6f, \"end\": \"%s\"", run->budget,
                    tell_share(run->budget, found->plain_peak) / 100,
                    simulate_end_name(outcome->end));
    if (outcome->end == TN_EVICT_DONE)
        tn__text_printf(text, ", \"overhead\": %.9f, \"cost\": %" PRIu64, outcome->overhead,
                        outcome->cost);
    else
        tn__text_printf(text, ", \"line\": %u", outcome->line);
    if (outcome->end == TN_EVICT_FULL) {
        tn__text_printf(text, ", \"needed\": %" PRIu64 ", \"message\": ", outcome->needed);
        tn__text_json(text, outcome->message);
    }
    json_counts(text, &outcome->counts);
    tn__text_put(text, "}");
}

tn_status simulate_print_json(const simulate_found *found, tn_error *error) {
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "{\"format\": \"tenure-simulation\", \"version\": 1, \"input\": ");
    tn__text_json(&text, found->path);
    tn__text_printf(&text,
                    ", \"addresses\": %s, \"operators\": %u, \"values\": %u, \"constants\": %u, "
                    "\"constant_bytes\": %" PRIu64 ", \"plain_cost\": %" PRIu64
                    ", \"plain_peak\": %" PRIu64 ", \"least\": %" PRIu64 ", \"policies\": [",
                    found->addresses ? "true" : "false", found->facts->op_count,
                    found->facts->tensor_count, found->facts->constant_count,
                    found->facts->constant_bytes, found->facts->plain_cost, found->plain_peak,
                    found->least.bytes);
    for (uint32_t p = 0; p < found->policy_count; p++) {
        tn__text_printf(&text, "%s{\"policy\": \"%s\", \"runs\": [", p == 0 ? "\n " : "]},\n ",
                        found->policies[p]);
        for (uint32_t b = 0; b < found->budget_count; b++) {
            tn__text_put(&text, b == 0 ? "\n  " : ",\n  ");
            json_run(&text, found, simulate_at(found, p, b));
        }
    }
    tn__text_put(&text, "]}]}\n");
    bool failed = text.failed;
    if (!failed) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
    return failed ? tn__no_memory(error, "the answer") : TN_OK;
}
