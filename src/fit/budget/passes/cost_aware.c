/* cost_aware.c - the method of SuperNeurons: keeps or swaps the outputs of convolutions and matrix
 * products (the checkpoints), and recomputes the cheap layers between them.
 *
 *     conv ── bn ── relu ── pool ── conv       a segment: the cheap layers after a checkpoint
 *
 * A feature map is a value that is idle at the turn, the end of the forward pass. The feature maps
 * of a segment can be recomputed in two ways. Speed-centric: once, for all backward layers; this
 * needs memory for the whole segment. Memory-centric: for each backward layer alone, from the
 * checkpoint. Let l_peak be the most bytes that a single layer reads, makes and needs as scratch. A
 * segment is recomputed speed-centric if its values, together with the largest layer that reads
 * them, are within l_peak, so that this never makes a new peak.
 *
 * With a host link, the checkpoints are also copied out after their last forward reader, and each
 * is prefetched while the backward pass works on the checkpoint that is needed before it. The
 * fastest of three variants within the budget is used: no technique, recomputation alone, and both.
 * The paper also has a cache of tensors on the device, and a choice among convolution algorithms; a
 * pass can do neither. Cost: that of three schedules. Source: Wang et al., "SuperNeurons" (PPoPP
 * 2018), sections 3.3 and 3.4.
 */
#include "fit/budget/algorithms/idle.h"

#include "fit/budget/pass.h"

typedef struct cost_aware {
    tn__idles gaps;
    const tn__dag *dag;
    uint32_t turn;
    /* [jobs] number of the job's segment; 0: the job makes a checkpoint, or comes after the turn,
     * the end of the forward pass */
    uint32_t *segment;
    uint64_t *bytes; /* [segments] bytes of the values to recompute */
    /* [segments] bytes of the largest backward layer that reads values of the segment, including
     * its operands and scratch memory */
    uint64_t *layer;
    /* [values] the value belongs to a segment that is recomputed memory-centric, so it is evicted
     * after each use */
    bool *drops;
    bool *stays;   /* [values] the value is a checkpoint, which is never recomputed */
    uint64_t peak; /* l_peak: the most bytes that a single layer needs */
} cost_aware;

/* Returns the bytes of all inputs, outputs and scratch memory of a layer. */
static uint64_t cost_aware_layer(const tn__dag *dag, uint32_t job) {
    const tn__job *it = &dag->jobs[job];
    uint64_t bytes = it->scratch;
    for (uint32_t i = 0; i < it->input_count; i++)
        bytes += dag->values[dag->operands[it->input_first + i]].bytes;
    for (uint32_t k = 0; k < it->output_count; k++)
        bytes += dag->values[dag->operands[it->output_first + k]].bytes;
    return bytes;
}

static bool cost_aware_is_checkpoint(const tn__pass_run *run, uint32_t job) {
    const tn_op_id op = run->dag->jobs[job].op;
    return op == TN_NONE || tn__kind_is_conv(run->graph, op) ||
           tn__kind_is_matmul(run->graph, op) || (run->dag->jobs[job].flags & TN__JOB_REPEATS) == 0;
}

/* Returns the segment of a value if the value can be recomputed at the end of this idle interval; 0
 * if it belongs to no segment or cannot be recomputed. */
static uint32_t cost_aware_of(const cost_aware *s, const tn__idle *gap) {
    const uint32_t maker = s->dag->values[gap->value].maker;
    if (maker == TN_NONE || gap->back <= s->turn) return 0;
    return s->segment[maker];
}

static void cost_aware_measure(cost_aware *s) {
    for (uint32_t j = 0, at = 0; j < s->dag->job_count; j++) {
        const uint64_t layer = cost_aware_layer(s->dag, j);
        const bool checkpoint = cost_aware_is_checkpoint(s->gaps.run, j);
        if (layer > s->peak) s->peak = layer;
        at += checkpoint;
        s->segment[j] = checkpoint || j > s->turn ? 0 : at + 1;
    }
    for (uint32_t v = 0; v < s->dag->value_count; v++) {
        const uint32_t maker = s->dag->values[v].maker;
        s->stays[v] = maker != TN_NONE && s->segment[maker] == 0;
    }
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        const tn__idle *gap = &s->gaps.list[g];
        const uint32_t segment = cost_aware_of(s, gap);
        const uint64_t layer = cost_aware_layer(s->dag, gap->back);
        if (segment == 0) continue;
        if (gap->leave <= s->turn) s->bytes[segment] += s->dag->values[gap->value].bytes;
        if (layer > s->layer[segment]) s->layer[segment] = layer;
    }
}

static bool cost_aware_is_fast(const cost_aware *s, uint32_t segment) {
    return tn__add_sat(s->bytes[segment], s->layer[segment]) <= s->peak;
}

/* Decides to recompute the value of an idle interval, if its operator can be repeated there. In a
 * speed-centric segment, the value stays live between two backward layers instead. */
static void cost_aware_recompute(cost_aware *s, uint32_t g) {
    tn__idle *gap = &s->gaps.list[g];
    const uint32_t segment = cost_aware_of(s, gap);
    if (segment == 0) return;
    const bool fast = cost_aware_is_fast(s, segment);
    if ((fast && gap->leave > s->turn) || tn__idles_recompute_cost(&s->gaps, g) == UINT64_MAX)
        return;
    gap->how = TN__IDLE_RECOMPUTE;
    s->drops[gap->value] = !fast;
    tn__idles_explain(&s->gaps, g, "recompute",
                      fast ? "speed-centric, its segment is within l_peak"
                           : "memory-centric, its segment is above l_peak");
}

static tn_status cost_aware_swap(cost_aware *s) {
    uint32_t above = TN_NONE;
    for (uint32_t i = 0; i < s->gaps.count; i++) {
        tn__idle *gap = &s->gaps.list[s->gaps.by_back[i].id];
        const tn__dag_value *value = &s->dag->values[gap->value];
        const bool spans = gap->leave <= s->turn && gap->back > s->turn;
        if (!spans || gap->how != TN__IDLE_KEEP || !(value->flags & TN__VALUE_COPIES) ||
            value->maker == TN_NONE || s->segment[value->maker] != 0)
            continue;
        uint32_t trigger = above != TN_NONE ? above : s->turn + 1;
        gap->how = TN__IDLE_SWAP;
        gap->settle = gap->leave + 1;
        gap->trigger = trigger < gap->settle ? gap->settle
                       : trigger > gap->back ? gap->back
                                             : trigger;
        above = gap->back;
        tn__idles_explain(&s->gaps, s->gaps.by_back[i].id, "offload", "a checkpoint");
    }
    return TN_OK;
}

static tn_status cost_aware_offer(cost_aware *s, bool *kept) {
    tn__pass_run *run = s->gaps.run;
    tn__schedule schedule;
    bool possible;
    *kept = false;
    tn__schedule_init(&schedule, &run->context);
    tn_status status = tn__idles_schedule(&s->gaps, &schedule, &possible);
    if (status == TN_OK && possible) status = tn__pass_offer(run, &schedule, kept);
    tn__schedule_release(&schedule);
    return status;
}

static tn_status cost_aware_open(cost_aware *s, tn__pass_run *run) {
    const size_t jobs = (size_t)run->dag->job_count + 2;
    *s = (cost_aware){.dag = run->dag};
    TN_TRY(tn__idles_find(run, &s->gaps));
    TN_TRY(tn__idles_turn(&s->gaps, &s->turn));
    s->segment = tn__arena_array(run->arena, jobs, sizeof *s->segment);
    s->bytes = tn__arena_array(run->arena, jobs, sizeof *s->bytes);
    s->layer = tn__arena_array(run->arena, jobs, sizeof *s->layer);
    s->drops = tn__arena_array(run->arena, (size_t)run->dag->value_count + 1, sizeof *s->drops);
    s->stays = tn__arena_array(run->arena, (size_t)run->dag->value_count + 1, sizeof *s->stays);
    if (!s->segment || !s->bytes || !s->layer || !s->drops || !s->stays)
        return tn__no_memory(run->error, "segments");
    s->gaps.drops = s->drops;
    s->gaps.stays = s->stays;
    cost_aware_measure(s);
    return TN_OK;
}

static tn_status cost_aware_solve(tn__pass_run *run) {
    const bool swaps = (run->allow & TN__ALLOW_SWAP) != 0 && run->out_rate > 0 && run->in_rate > 0;
    const bool recompute = (run->allow & TN__ALLOW_RECOMPUTE) != 0;
    cost_aware s;
    bool plain, cheap = false, both = false;
    TN_TRY(cost_aware_open(&s, run));
    TN_TRY(cost_aware_offer(&s, &plain));
    /* a schedule that keeps all values is within the budget; without repeats and copies it is the
     * fastest */
    if (plain) return TN_OK;
    for (uint32_t g = 0; g < s.gaps.count && recompute; g++) cost_aware_recompute(&s, g);
    if (recompute) TN_TRY(cost_aware_offer(&s, &cheap));
    if (swaps) {
        TN_TRY(cost_aware_swap(&s));
        TN_TRY(cost_aware_offer(&s, &both));
    }
    if (!cheap && !both) return TN_E_STOPPED;
    return TN_OK;
}

const tn_pass tn__pass_cost_aware = {
    .name = "cost-aware",
    .summary = "SuperNeurons: recomputes cheap layers between convolutions, and swaps the latter",
    .source = "Wang et al., SuperNeurons (2018)",
    .features = TN__PASS_RECOMPUTES | TN__PASS_SWAPS | TN__PASS_GRAPH | TN__PASS_BUDGETS,
    .solve = cost_aware_solve,
};
