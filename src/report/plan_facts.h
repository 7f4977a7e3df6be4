/* plan_facts.h - the table of the facts of a plan. The formats "table" and "summary" of the library
 * print these facts, and so does `tenure plan` (src/cli/commands/plan.c), which adds facts that
 * only the command has. */
#ifndef TN_REPORT_PLAN_FACTS_H
#define TN_REPORT_PLAN_FACTS_H

#include "report/format.h"

/* The facts, each as X(UNIT, NAME, key, label, brief, help), in the order of the JSON. The table
 * prints `label` at the start of the fact's line, and the brief line prints `brief` with the value
 * in place of @. NULL means that the table or the brief line does not have the fact. UNIT is BYTES,
 * COUNT, SHARE, WORD or YES; BANKS, KINDS and STAGES are objects or lists with members of their
 * own. */
/* clang-format off */
#define TN__PLAN_FACTS(X)                                                                          \
    X(WORD, PLANNER, "planner", NULL, NULL, "the planner that found the plan")                     \
    X(WORD, STATUS, "status", NULL, NULL,                                                          \
      "optimal: no plan of these buffers has a lower peak (for a model, of this order with these " \
      "in-place choices; with another objective: no plan within the capacity has a lower reuse "    \
      "cost, fewer waits or less time); or feasible")                                              \
    X(WORD, OBJECTIVE, "objective", NULL, NULL,                                                    \
      "what the planner minimised: bytes, pairs (the reuse cost), waits or time")                  \
    X(WORD, ORDER, "order", NULL, NULL, "for models: the order of the operators")                  \
    X(YES, ORDER_PROVED, "order_proved", NULL, NULL,                                               \
      "for models: whether no order has a lower peak of live bytes")                               \
    X(BYTES, PEAK, "peak", "arena", "@", "bytes of the arena")                                     \
    X(BYTES, LOWER_BOUND, "lower_bound", "lower bound", NULL,                                      \
      "no plan of these buffers takes less")                                                       \
    X(SHARE, GAP, "gap", NULL, ", gap @", "`peak` / `lower_bound` - 1")                            \
    X(COUNT, REUSE_COST, "reuse_cost", NULL, ", reuse cost @",                                     \
      "for problems with reuse costs: the sum of the costs of the pairs that share bytes; for "    \
      "models with the objective pairs: a pair costs 1 if an operator must wait before it may "    \
      "overwrite the bytes")                                                                       \
    X(COUNT, REUSE_BOUND, "reuse_cost_bound", NULL, NULL,                                          \
      "with the objective pairs: no plan within the capacity has a lower reuse cost; else 0")      \
    X(COUNT, WAITS, "waits", NULL, ", waits @",                                                    \
      "if the order of the operators is known: the waits that the plan adds to it, without those " \
      "that other paths imply")                                                                    \
    X(COUNT, WAITS_BOUND, "waits_bound", NULL, NULL,                                               \
      "with the objective waits: no plan within the capacity adds fewer; else 0")                  \
    X(COUNT, TIME, "time", NULL, NULL,                                                             \
      "if the order of the operators is known: the time of the program with these waits, with "    \
      "`workers` operators at once; for models in picoseconds")                                    \
    X(COUNT, TIME_BOUND, "time_bound", NULL, NULL,                                                 \
      "with the objective time: no plan within the capacity takes less; else 0")                   \
    X(COUNT, WORKERS, "workers", NULL, NULL, "operators that run at once for `time`; 0: no limit") \
    X(BYTES, NAIVE, "naive", "without reuse", NULL, "bytes without reuse")                         \
    X(BYTES, STATIC, "static", NULL, NULL,                                                         \
      "for models: bytes outside the arena, such as weights")                                      \
    X(BYTES, CACHING_POOL, "caching_pool", "caching pool", NULL,                                   \
      "bytes that a caching pool would have reserved for the same run, with weights; absent if "   \
      "it cannot be simulated")                                                                    \
    X(BYTES, DEVICE, "device", "device", NULL, "with a device: its bytes")                         \
    X(YES, FITS, "fits", NULL, NULL, "with a device: whether arena and weights fit")               \
    X(BANKS, BANKS, "banks", NULL, NULL, "the banks of memory")                                    \
    X(KINDS, BY_KIND, "by_kind", NULL, NULL,                                                       \
      "for models: bytes of all tensors of each kind that occurs")                                 \
    X(KINDS, AT_PEAK, "at_peak", NULL, NULL, "for models: bytes of each kind at the peak")         \
    X(COUNT, BUFFERS, "buffers", NULL, NULL, "number of buffers")                                  \
    X(COUNT, TENSORS, "tensors", NULL, NULL,                                                       \
      "number of live ranges of tensors; null: a problem")                                         \
    X(COUNT, BOUNDED, "bounded", NULL, NULL,                                                       \
      "number of tensors with an upper bound as their size")                                       \
    X(COUNT, DEPENDENCIES, "dependencies_added", "dependencies", NULL,                             \
      "pairs of operators that can run at the same time in the graph but not in this plan; null: " \
      "a problem, or a graph too wide to count")                                                   \
    X(COUNT, STREAMS, "streams", "streams", NULL, "for models: number of streams that run operators; absent: one, and no others were asked for") \
    X(COUNT, STREAM_WAITS, "stream_waits", NULL, NULL,                                             \
      "with `streams`: how often one waits for another")                                             \
    X(COUNT, STREAM_TIME, "stream_time", NULL, NULL,                                               \
      "with `streams`: their estimated time in picoseconds")                                         \
    X(COUNT, SERIAL_TIME, "serial_time", NULL, NULL,                                               \
      "with `streams`: the time on one stream in picoseconds")                                       \
    X(STAGES, STAGES, "seconds", NULL, NULL, "wall time by stage")                                 \
    X(COUNT, SEED, "seed", NULL, NULL, "seed of randomised planners")                              \
    X(COUNT, WORK, "work", NULL, NULL,                                                             \
      "effort of the planner in units of work, the same on every machine")
/* clang-format on */

typedef enum tn__plan_fact_id {
#define TN_X(unit, name, key, label, brief, help) TN__PLAN_##name,
    TN__PLAN_FACTS(TN_X)
#undef TN_X
        TN__PLAN_FACT_COUNT
} tn__plan_fact_id;

typedef enum tn__plan_unit {
    TN__PLAN_UNIT_BYTES,
    TN__PLAN_UNIT_COUNT,
    TN__PLAN_UNIT_SHARE,
    TN__PLAN_UNIT_WORD,
    TN__PLAN_UNIT_YES,
    TN__PLAN_UNIT_BANKS,
    TN__PLAN_UNIT_KINDS,
    TN__PLAN_UNIT_STAGES
} tn__plan_unit;

typedef struct tn__plan_fact {
    const char *key, *label, *brief;
    tn__plan_unit unit;
    bool absent, null; /* absent: this plan does not have the fact; null: the value is unknown */
    uint64_t whole;    /* value of a fact with the unit BYTES, COUNT or YES */
    double real;       /* SHARE */
    const char *word;  /* WORD */
} tn__plan_fact;

/* Computes a fact. Cost: TN__PLAN_DEPENDENCIES, TN__PLAN_CACHING_POOL and the facts about streams
 * are computed from the plan or the program, which takes time; the others are only read. */
tn__plan_fact tn__plan_fact_of(const tn_report *report, tn__plan_fact_id id);
/* Adds the value of a fact as JSON. */
void tn__plan_fact_json(tn__text *text, const tn_report *report, tn__plan_fact_id id,
                        const tn__plan_fact *fact);

#endif
