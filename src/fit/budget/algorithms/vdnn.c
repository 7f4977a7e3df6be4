/* vdnn.c - copies feature maps to the host and back by fixed rules, without a budget.
 *
 * The forward pass ends at the job during which idle values have the most bytes (the turn). A
 * feature map is a value with an idle interval that spans the turn. It is offloaded at its last
 * reader of the forward pass: the copy to the host starts together with that layer, and the next
 * layer waits for the copy. In the backward pass, each layer that reads an offloaded map prefetches
 * the map that is needed next. A prefetch does not go beyond the next convolution in the direction
 * of the input, so that early maps do not fill the memory; maps beyond it are prefetched when the
 * backward job of that convolution runs.
 *
 * In networks with convolutions, the inputs of matrix products (the classifier) are not offloaded.
 * Algorithms of convolutions are not chosen here, because kernels are chosen before any pass runs.
 *
 * Limit: the pass cannot meet a given budget, because its memory follows from the rules. Cost:
 * O(jobs + operands). Source: Rhu et al., "vDNN" (2016).
 */
#include "fit/budget/algorithms/vdnn.h"

#include "fit/budget/pass.h"

typedef struct vdnn_state {
    tn__idles gaps;
    /* the last job of the forward pass, during which idle values have the most bytes */
    uint32_t turn;
    /* the idle intervals whose values are offloaded, in the order of the jobs at which they end */
    uint32_t *chosen;
    uint32_t count;
    bool has_conv;
} vdnn_state;

typedef bool (*vdnn_kind)(const tn_graph *graph, tn_op_id op);

static bool vdnn_is(const tn__pass_run *run, uint32_t job, vdnn_kind kind) {
    tn_op_id op = run->dag->jobs[job].op;
    return op != TN_NONE && kind(run->graph, op);
}

/* --- choice of the offloaded maps --- */

static tn_status vdnn_find_turn(vdnn_state *s) {
    const tn__pass_run *run = s->gaps.run;
    TN_TRY(tn__idles_turn(&s->gaps, &s->turn));
    for (uint32_t j = 0; j <= s->turn && j < run->dag->job_count; j++)
        s->has_conv |= vdnn_is(run, j, tn__kind_is_conv);
    return TN_OK;
}

/* Whether a job of the forward pass that reads the value has an operator for which the given
 * function returns true, such as a convolution. */
static bool vdnn_is_read_by(const vdnn_state *s, uint32_t v, vdnn_kind kind) {
    const tn__dag *dag = s->gaps.run->dag;
    for (uint32_t i = dag->readers.first[v]; i < dag->readers.first[v + 1]; i++) {
        uint32_t job = dag->readers.items[i];
        if (job <= s->turn && vdnn_is(s->gaps.run, job, kind)) return true;
    }
    return false;
}

static bool vdnn_takes(const vdnn_state *s, const tn__idle *gap, tn__vdnn_which which) {
    const tn__dag_value *value = &s->gaps.run->dag->values[gap->value];
    if (!(value->flags & TN__VALUE_COPIES)) return false;
    if (gap->leave > s->turn || gap->back <= s->turn) return false;
    if (which == TN__VDNN_CONV) return vdnn_is_read_by(s, gap->value, tn__kind_is_conv);
    return !s->has_conv || !vdnn_is_read_by(s, gap->value, tn__kind_is_matmul);
}

static tn_status vdnn_choose(vdnn_state *s, tn__vdnn_which which) {
    const tn__pass_run *run = s->gaps.run;
    tn__sort_item *items = tn__arena_array(run->arena, (size_t)s->gaps.count + 1, sizeof *items);
    s->chosen = tn__arena_array(run->arena, (size_t)s->gaps.count + 1, sizeof *s->chosen);
    if (items == NULL || s->chosen == NULL) return tn__no_memory(run->error, "feature maps");
    for (uint32_t g = 0; g < s->gaps.count; g++)
        if (vdnn_takes(s, &s->gaps.list[g], which))
            items[s->count++] = (tn__sort_item){s->gaps.list[g].back, g};
    if (!tn__sort_items(&run->context, items, s->count))
        return tn__no_memory(run->error, "feature maps");
    for (uint32_t i = 0; i < s->count; i++) s->chosen[i] = items[i].id;
    return TN_OK;
}

/* --- time of the copies back --- */

/* Returns the first convolution between two layers of the forward pass; TN_NONE if there is no
 * convolution. */
static uint32_t vdnn_conv_between(const vdnn_state *s, uint32_t low, uint32_t high) {
    for (uint32_t j = low + 1; j < high; j++)
        if (vdnn_is(s->gaps.run, j, tn__kind_is_conv)) return j;
    return TN_NONE;
}

/* Returns the backward job of a layer: the first job after the turn (the end of the forward pass)
 * that reads one of the layer's inputs or outputs. */
static uint32_t vdnn_backward_of(const vdnn_state *s, uint32_t layer) {
    const tn__dag *dag = s->gaps.run->dag;
    const tn__job *it = &dag->jobs[layer];
    uint32_t first = TN_NONE;
    for (uint32_t i = 0; i < it->input_count + it->output_count; i++) {
        uint32_t at =
            i < it->input_count ? it->input_first + i : it->output_first + i - it->input_count;
        uint32_t value = dag->operands[at], r = tn__lists_after(&dag->readers, value, s->turn);
        if (r < dag->readers.first[value + 1] && dag->readers.items[r] < first)
            first = dag->readers.items[r];
    }
    return first;
}

static void vdnn_fetch(vdnn_state *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        tn__idle *gap = &s->gaps.list[s->chosen[i]];
        const tn__idle *above = i > 0 ? &s->gaps.list[s->chosen[i - 1]] : NULL;
        uint32_t trigger = above != NULL ? above->back : s->turn + 1;
        uint32_t conv = above != NULL ? vdnn_conv_between(s, gap->leave, above->leave) : TN_NONE;
        uint32_t later = conv != TN_NONE ? vdnn_backward_of(s, conv) : TN_NONE;
        if (later != TN_NONE && later > trigger) trigger = later;
        gap->how = TN__IDLE_SWAP;
        gap->early = true;
        gap->settle = gap->leave + 1;
        gap->trigger = trigger < gap->settle ? gap->settle
                       : trigger > gap->back ? gap->back
                                             : trigger;
        tn__idles_explain(&s->gaps, s->chosen[i], "offload", "the forward pass is done with it");
    }
}

tn_status tn__vdnn_offer(tn__pass_run *run, tn__vdnn_which which, bool *kept) {
    vdnn_state s = {0};
    tn__schedule schedule;
    bool possible;
    *kept = false;
    if (!(run->allow & TN__ALLOW_SWAP) || run->out_rate <= 0 || run->in_rate <= 0)
        TN_FAIL(run->error, TN_E_UNSUPPORTED, "%s copies to the host, and there is no link to it",
                run->pass->name);
    if (which == TN__VDNN_CONV && run->graph == NULL)
        TN_FAIL(run->error, TN_E_UNSUPPORTED, "%s asks for convolutions, and there is no graph",
                run->pass->name);
    TN_TRY(tn__idles_find(run, &s.gaps));
    TN_TRY(vdnn_find_turn(&s));
    TN_TRY(vdnn_choose(&s, which));
    vdnn_fetch(&s);
    tn__schedule_init(&schedule, &run->context);
    tn_status status = tn__idles_schedule(&s.gaps, &schedule, &possible);
    if (status == TN_OK && possible) status = tn__pass_offer(run, &schedule, kept);
    tn__schedule_release(&schedule);
    return status;
}
