/* liveness.c - computes live ranges, and extends them where streams run at the same time.
 *
 * A live range begins where its tensor is defined and ends after its last use; instruction i is
 * step i. A definition without any use is live during its own step.
 *
 * Control flow. The regions of one operator follow each other in the program, and its APPLY comes
 * last (step `own`). The regions determine the reads and writes of that APPLY:
 *
 *     If    only one region runs. Its result is copied to the If's output when it ends, so the
 *           output is live at the last step of every region, and from `own` on. In between, while
 *           the other region runs, no instruction needs it:
 *
 *               then: [a b c]   else: [d e]   If   ...
 *               output:     --            -----------
 *
 *     Loop  the body's formal inputs are filled at its first step and refilled after every
 *           iteration. They are live to `own`, and so are the body's results: `own` takes its
 *           outputs from the results or, after zero iterations, from the formal inputs. Tensors
 *           from outside are needed again in the next iteration, so they are live to `own`, too.
 *           Outputs that gather one slice per iteration are live from the first step on.
 *
 *     Scan  as Loop, and its inputs are read one slice per iteration.
 *
 * The rules for .tflite are the same. IF, CALL and similar operators run a region once; their
 * arguments are copied to the formal inputs of the region when it begins. WHILE has two regions,
 * body and condition. Its outputs carry the values that pass between these regions, so they are
 * live from the first step of the first region to `own`. The inputs of all of these operators are
 * live to `own`.
 *
 * Cost: O(instructions + operands), times the depth of nested loops.
 */
#include "graph/op.h"
#include "program/liveness/liveness.h"

#include <stdio.h>

/* --- live ranges ------------------------------------------------------------------------------ */

typedef struct liveness_walk {
    liveness_state *liveness;
    /* the program's regions, sorted by first step; outer regions come before inner ones */
    const tn_region *regions;
    uint32_t region_count, next, next_end;
    uint32_t *by_end; /* [regions] indices of the regions, sorted by last step */
    uint32_t *active; /* the loops around the current step, outermost first */
    size_t active_count;
    /* [operators] index in `regions` of the operator's first region, or RANGE_NONE */
    uint32_t *of_op;
    uint32_t *following; /* [regions] next region of the same operator, or RANGE_NONE */
} liveness_walk;

/* Writes "tensor 'x' of node 'conv1' (Conv)" into error->where. */
static tn_status liveness_where(const liveness_state *liveness, tn_status status, tn_op_id op,
                                tn_tensor_id tensor) {
    const tn_op *facts = op == TN_NONE ? NULL : tn_graph_op(liveness->graph, op);
    const char *name = tensor == TN_NONE ? "" : tn_graph_tensor(liveness->graph, tensor)->name;
    if (facts == NULL) return tn__where(liveness->error, status, "tensor '%.80s'", name);
    return tn__where(liveness->error, status, "node '%.60s' (%.30s), tensor '%.60s'", facts->name,
                     facts->type, name);
}

/* --- define, use, release --- */

static bool liveness_is_fetched(const liveness_state *liveness, tn_tensor_id tensor) {
    return liveness->fetched != NULL && liveness->fetched[tensor] != TN_SIZE_UNKNOWN;
}

static uint64_t liveness_bytes(const liveness_state *liveness, tn_tensor_id tensor) {
    return liveness_is_fetched(liveness, tensor) ? liveness->fetched[tensor]
                                                 : tn_graph_tensor(liveness->graph, tensor)->bytes;
}

static tn_status liveness_begin(liveness_state *liveness, tn_tensor_id tensor, tn_op_id op,
                                uint32_t output, uint32_t step) {
    if (tensor == TN_NONE || liveness->is_static[tensor]) return TN_OK;
    if (liveness_bytes(liveness, tensor) == TN_SIZE_UNKNOWN)
        return liveness_where(liveness,
                              tn__fail(liveness->error, TN_E_UNKNOWN,
                                       "its size is not known; state its shape in the model"),
                              op, tensor);
    if (liveness->count >= RANGE_NONE - 1)
        TN_FAIL(liveness->error, TN_E_INVALID, "more than 2^32 lives");
    if (!tn__reserve(liveness->context, &liveness->ranges, &liveness->room, liveness->count + 1,
                     sizeof *liveness->ranges))
        return tn__no_memory(liveness->error, "lives");
    liveness->ranges[liveness->count] = (live_range){.tensor = tensor,
                                                     .op = op,
                                                     .output = output,
                                                     .first = step,
                                                     .last = step + 1,
                                                     .bytes = liveness_bytes(liveness, tensor),
                                                     .source = RANGE_NONE,
                                                     .earlier = liveness->latest[tensor],
                                                     .newest = RANGE_NONE,
                                                     .taken = RANGE_NONE};
    liveness->latest[tensor] = (uint32_t)liveness->count++;
    liveness->is_open[tensor] = 1;
    return TN_OK;
}

static void liveness_extend(live_range *range, uint32_t last) {
    if (last > range->last) range->last = last;
}

static tn_status liveness_note(liveness_state *liveness, uint32_t id, uint32_t step) {
    range_uses *uses = &liveness->uses;
    if (uses->count >= RANGE_NONE - 1)
        TN_FAIL(liveness->error, TN_E_INVALID, "more than 2^32 uses");
    if (!tn__reserve(liveness->context, &uses->items, &uses->room, uses->count + 1,
                     sizeof *uses->items))
        return tn__no_memory(liveness->error, "lives");
    uses->items[uses->count] = (range_use){step, liveness->ranges[id].newest};
    liveness->ranges[id].newest = (uint32_t)uses->count++;
    return TN_OK;
}

tn_status tn__liveness_need(liveness_state *liveness, uint32_t id, uint32_t step) {
    liveness_extend(&liveness->ranges[id], step + 1);
    return liveness_note(liveness, id, step);
}

/* Records that a step reads a tensor. If the tensor was defined outside a loop around the step, it
 * is needed until the loop ends. */
static tn_status liveness_use(liveness_walk *walk, tn_tensor_id tensor, tn_op_id op,
                              uint32_t step) {
    liveness_state *liveness = walk->liveness;
    if (tensor == TN_NONE || liveness->is_static[tensor]) return TN_OK;
    if (!liveness->is_open[tensor])
        return liveness_where(liveness,
                              tn__fail(liveness->error, TN_E_INVALID,
                                       "it is used at step %u, where it does not exist", step),
                              op, tensor);
    live_range *range = &liveness->ranges[liveness->latest[tensor]];
    range->uses++;
    TN_TRY(tn__liveness_need(liveness, liveness->latest[tensor], step));
    for (size_t i = 0; i < walk->active_count; i++) {
        const tn_region *region = &walk->regions[walk->active[i]];
        if (range->first >= region->first || step < region->first) continue;
        /* The next iteration may read the tensor, so it stays live to the end of the outermost loop
         * that it was defined outside of. */
        return tn__liveness_need(liveness, liveness->latest[tensor], region->last);
    }
    return TN_OK;
}

/* --- views: recorded here, decided in buffers.c --- */

/* Records the live range in which `output` of an operator may lie, and its offset. Records nothing
 * if the source is not live, because it is static. */
static void liveness_note_view(liveness_state *liveness, tn_op_id op, uint32_t output,
                               tn_view view) {
    tn_tensor_id tensor = tn_graph_op(liveness->graph, op)->outputs[output];
    live_range *range = &liveness->ranges[liveness->latest[tensor]];
    if (!liveness->is_open[view.source]) return;
    range->source = liveness->latest[view.source];
    range->must = view.must;
    range->whole = view.whole;
    range->offset = view.whole ? 0 : view.offset;
}

static bool liveness_is_static_view(const liveness_state *liveness, tn_view view) {
    return view.source != TN_NONE && liveness->is_static[view.source] &&
           (view.must || !liveness->options.no_views);
}

/* --- operators --- */

static tn_status liveness_outputs(liveness_walk *walk, tn_op_id id, const tn_op_form *form,
                                  uint32_t step) {
    liveness_state *liveness = walk->liveness;
    for (uint32_t k = 0; k < form->output_count; k++) {
        tn_tensor_id tensor = form->op->outputs[k];
        if (tensor == TN_NONE || liveness->is_static[tensor]) continue;
        tn_view view = tn_op_view(liveness->graph, id, k);
        if (liveness_is_static_view(liveness, view) && liveness->latest[tensor] == RANGE_NONE) {
            liveness->is_static[tensor] = 1;
            continue;
        }
        TN_TRY(liveness_begin(liveness, tensor, id, k, step));
        if (view.source != TN_NONE) liveness_note_view(liveness, id, k, view);
    }
    uint64_t workspace =
        tn__workspace(liveness->graph, &liveness->options, id, form->type != form->op->type);
    if (workspace == 0) return TN_OK;
    if (!tn__reserve(liveness->context, &liveness->ranges, &liveness->room, liveness->count + 1,
                     sizeof *liveness->ranges))
        return tn__no_memory(liveness->error, "lives");
    liveness->ranges[liveness->count++] = (live_range){.tensor = TN_NONE,
                                                       .op = id,
                                                       .output = RANGE_NONE,
                                                       .first = step,
                                                       .last = step + 1,
                                                       .bytes = workspace,
                                                       .source = RANGE_NONE,
                                                       .earlier = RANGE_NONE,
                                                       .newest = RANGE_NONE,
                                                       .taken = RANGE_NONE};
    return TN_OK;
}

/* Number of outputs of a Loop or Scan that are carried from one iteration to the next; its later
 * outputs gather slices. */
static uint32_t liveness_carried(const liveness_state *liveness, const tn_region *region) {
    const tn_op_rule *rule = tn__rule_of(liveness->graph, region->op);
    return rule == NULL || rule->turns == NULL
               ? 0
               : rule->turns(tn_graph_op(liveness->graph, region->op),
                             tn_graph_block(liveness->graph, region->block))
                     .carried;
}

/* Whether an operator's output has already begun in an earlier region of that operator. */
static bool liveness_gathers(const liveness_state *liveness, tn_op_id op, tn_tensor_id tensor) {
    if (tensor == TN_NONE || liveness->latest[tensor] == RANGE_NONE || !liveness->is_open[tensor])
        return false;
    return liveness->ranges[liveness->latest[tensor]].op == op;
}

/* Called when a region begins: its operator reads its inputs, and the live ranges of formal inputs
 * and of a loop's gathered outputs begin, unless an earlier region of the loop has begun them. */
static tn_status liveness_enter(liveness_walk *walk, const tn_region *region) {
    liveness_state *liveness = walk->liveness;
    const tn_op *op = tn_graph_op(liveness->graph, region->op);
    const tn_block *block = tn_graph_block(liveness->graph, region->block);
    for (uint32_t i = 0; i < op->input_count; i++)
        TN_TRY(liveness_use(walk, op->inputs[i], region->op, region->first));
    for (uint32_t i = 0; i < block->input_count; i++)
        TN_TRY(liveness_begin(liveness, block->inputs[i], TN_NONE, RANGE_NONE, region->first));
    for (uint32_t k = liveness_carried(liveness, region); k < op->output_count && region->repeats;
         k++)
        if (!liveness_gathers(liveness, region->op, op->outputs[k]))
            TN_TRY(liveness_begin(liveness, op->outputs[k], region->op, RANGE_NONE, region->first));
    return TN_OK;
}

/* Called when a branch ends: its results are copied to the operator's outputs. Results of a branch
 * without instructions are copied at the operator's APPLY. */
static tn_status liveness_leave_branch(liveness_walk *walk, const tn_region *region, uint32_t own) {
    liveness_state *liveness = walk->liveness;
    const tn_op *op = tn_graph_op(liveness->graph, region->op);
    const tn_block *block = tn_graph_block(liveness->graph, region->block);
    bool empty = region->first == region->last;
    uint32_t step = empty ? own : region->last - 1;
    for (uint32_t i = 0; i < block->output_count; i++)
        TN_TRY(liveness_use(walk, block->outputs[i], region->op, step));
    for (uint32_t k = 0; k < op->output_count && !empty; k++) {
        tn_tensor_id tensor = op->outputs[k];
        uint32_t before = tensor == TN_NONE ? RANGE_NONE : liveness->latest[tensor];
        TN_TRY(liveness_begin(liveness, tensor, region->op, RANGE_NONE, step));
        bool made = tensor != TN_NONE && liveness->latest[tensor] != before;
        if (made) liveness->ranges[liveness->latest[tensor]].joins = before != RANGE_NONE;
        if (tensor != TN_NONE)
            /* no instruction reads the output before the operator's APPLY, so it counts as closed
             * until then */
            liveness->is_open[tensor] = 0;
    }
    return TN_OK;
}

/* Handles the APPLY of an operator with regions, which ends its control flow. */
static tn_status liveness_own(liveness_walk *walk, tn_op_id id, uint32_t step) {
    liveness_state *liveness = walk->liveness;
    const tn_op *op = tn_graph_op(liveness->graph, id);
    bool holds = tn__op_has(liveness->graph, id, TN_RULE_HOLDS);
    for (uint32_t i = 0; i < op->input_count && holds; i++)
        TN_TRY(liveness_use(walk, op->inputs[i], id, step));
    for (uint32_t r = walk->of_op[id]; r != RANGE_NONE; r = walk->following[r]) {
        const tn_region *region = &walk->regions[r];
        const tn_block *block = tn_graph_block(liveness->graph, region->block);
        if (!region->repeats) {
            if (region->first == region->last) TN_TRY(liveness_leave_branch(walk, region, step));
            continue;
        }
        for (uint32_t i = 0; i < block->input_count; i++)
            TN_TRY(liveness_use(walk, block->inputs[i], id, step));
        for (uint32_t i = 0; i < block->output_count; i++)
            TN_TRY(liveness_use(walk, block->outputs[i], id, step));
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id tensor = op->outputs[k];
        if (tensor == TN_NONE || liveness->is_static[tensor]) continue;
        uint32_t before = liveness->latest[tensor];
        if (liveness_gathers(liveness, id, tensor)) {
            TN_TRY(
                /* the output is live already, because it has gathered slices since the first
                 * step */
                tn__liveness_need(liveness, before, step));
            continue;
        }
        bool joins = before != RANGE_NONE && liveness->ranges[before].op == id;
        TN_TRY(liveness_begin(liveness, tensor, id, RANGE_NONE, step));
        liveness->ranges[liveness->latest[tensor]].joins = joins;
    }
    return TN_OK;
}

static tn_status liveness_apply(liveness_walk *walk, const tn_instruction *it, uint32_t step) {
    tn_op_form form = tn_op_form_of(walk->liveness->graph, it->op, it->again);
    if (walk->of_op[it->op] != RANGE_NONE) return liveness_own(walk, it->op, step);
    for (uint32_t i = 0; i < form.input_count; i++)
        TN_TRY(liveness_use(walk, tn_op_form_input(&form, i), it->op, step));
    return liveness_outputs(walk, it->op, &form, step);
}

/* --- the walk --- */

/* Ends a live range that is released at `step`: it is live up to that step, not through it. With
 * clocks, the next live range in its bytes waits for the FREE itself. */
static tn_status liveness_keep(liveness_walk *walk, tn_tensor_id tensor, uint32_t step) {
    liveness_state *liveness = walk->liveness;
    if (tensor == TN_NONE || liveness->is_static[tensor]) return TN_OK;
    liveness_extend(&liveness->ranges[liveness->latest[tensor]], step);
    return liveness_note(liveness, liveness->latest[tensor], step);
}

/* Gives a tensor memory of its own. A tensor that is copied is not a view of static memory, even if
 * an operator made it one before. */
static void liveness_own_memory(liveness_state *liveness, tn_tensor_id tensor) {
    liveness->is_static[tensor] = tn_tensor_is_static(tn_graph_tensor(liveness->graph, tensor)) &&
                                  !liveness_is_fetched(liveness, tensor);
}

static tn_status liveness_step(liveness_walk *walk, const tn_instruction *it, uint32_t step) {
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    tn_effects does = tn_instruction_effects(it);
    if (facts->reads == TN_AFFECTS_OPERATOR) return liveness_apply(walk, it, step);
    TN_TRY(liveness_use(walk, does.reads, TN_NONE, step));
    if (does.defines != TN_NONE) liveness_own_memory(walk->liveness, does.defines);
    TN_TRY(liveness_begin(walk->liveness, does.defines, TN_NONE, RANGE_NONE, step));
    if (does.releases == TN_NONE) return TN_OK;
    if (facts->flags & TN_KEEPS) TN_TRY(liveness_keep(walk, does.releases, step));
    walk->liveness->is_open[does.releases] = 0;
    return TN_OK;
}

/* Visits the regions that begin or end at this step: loops enter and leave the list of active
 * ones. */
static tn_status liveness_regions(liveness_walk *walk, uint32_t step) {
    while (walk->active_count > 0 &&
           walk->regions[walk->active[walk->active_count - 1]].last <= step)
        walk->active_count--;
    for (; walk->next < walk->region_count && walk->regions[walk->next].first == step;
         walk->next++) {
        const tn_region *region = &walk->regions[walk->next];
        TN_TRY(liveness_enter(walk, region));
        if (!region->repeats || region->first == region->last) continue;
        walk->active[walk->active_count++] = walk->next;
    }
    return TN_OK;
}

static int liveness_region_order(const void *a, const void *b) {
    const tn_region *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->last != y->last) return x->last > y->last ? -1 : 1;
    return (x->block > y->block) - (x->block < y->block);
}

/* Ends the branches whose last instruction is `step`: their results are copied to the outputs of
 * their operators. */
static tn_status liveness_branches(liveness_walk *walk, uint32_t step) {
    for (; walk->next_end < walk->region_count; walk->next_end++) {
        const tn_region *region = &walk->regions[walk->by_end[walk->next_end]];
        if (region->last > step + 1) break;
        if (!region->repeats && region->first < region->last)
            TN_TRY(liveness_leave_branch(walk, region, step));
    }
    return TN_OK;
}

/* Sorts region numbers by their ends: a bottom-up, stable merge sort. */
static void liveness_sort_ends(const tn_region *regions, uint32_t *order, uint32_t *spare,
                               uint32_t count) {
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t first = 0; first < count; first += 2 * width) {
            uint32_t a = first, middle = first + width < count ? first + width : count;
            uint32_t b = middle, last = middle + width < count ? middle + width : count;
            for (uint32_t at = first; at < last; at++) {
                bool left =
                    a < middle && (b >= last || regions[order[a]].last <= regions[order[b]].last);
                spare[at] = order[left ? a++ : b++];
            }
        }
        memcpy(order, spare, count * sizeof *order);
    }
}

static tn_status liveness_prepare(liveness_walk *walk, tn_region *regions) {
    liveness_state *liveness = walk->liveness;
    uint32_t count = walk->region_count, op_count = tn_graph_op_count(liveness->graph);
    if (count > 0) {
        memcpy(regions, tn_program_regions(liveness->program), count * sizeof *regions);
        qsort(regions, count, sizeof *regions, liveness_region_order);
    }
    walk->regions = regions;
    liveness_sort_ends(regions, walk->by_end, walk->following, count);
    for (uint32_t i = 0; i < op_count; i++) walk->of_op[i] = RANGE_NONE;
    for (uint32_t r = count; r-- > 0;) {
        walk->following[r] = walk->of_op[regions[r].op];
        walk->of_op[regions[r].op] = r;
    }
    return TN_OK;
}

static tn_status liveness_walk_all(liveness_walk *walk) {
    const tn_program *program = walk->liveness->program;
    const tn_instruction *instructions = tn_program_instructions(program);
    for (uint32_t step = 0; step < tn_program_count(program); step++) {
        TN_TRY(liveness_regions(walk, step));
        TN_TRY(liveness_step(walk, &instructions[step], step));
        TN_TRY(liveness_branches(walk, step));
    }
    return TN_OK;
}

/* Finds the tensors that a FETCH reads from a file, and the bytes of each in the form that its
 * block has in the file. They no longer count as static. */
static tn_status liveness_fetched(liveness_state *liveness) {
    const tn_instruction *list = tn_program_instructions(liveness->program);
    uint32_t tensors = tn_graph_tensor_count(liveness->graph),
             steps = tn_program_count(liveness->program);
    for (uint32_t s = 0; s < steps; s++) {
        if (list[s].opcode != TN_FETCH) continue;
        if (liveness->fetched == NULL) {
            liveness->fetched =
                tn__arena_array(&liveness->scratch, tensors, sizeof *liveness->fetched);
            if (liveness->fetched == NULL) return tn__no_memory(liveness->error, "lives");
            memset(liveness->fetched, 0xff,
                   tensors * sizeof *liveness->fetched); /* all values become TN_SIZE_UNKNOWN */
        }
        liveness->fetched[list[s].tensor] = tn_graph_tensor(liveness->graph, list[s].tensor)->bytes;
        liveness->is_static[list[s].tensor] = 0;
    }
    for (uint32_t i = 0; i < liveness->options.static_count; i++) {
        const tn_static_block *block = &liveness->options.statics[i];
        if (liveness_is_fetched(liveness, block->tensor))
            liveness->fetched[block->tensor] = block->bytes;
    }
    return TN_OK;
}

/* Makes the live ranges of static blocks: from the first step to the last, because they stay in
 * memory for the next run. */
static tn_status liveness_statics(liveness_state *liveness) {
    uint32_t count = liveness->options.static_count, steps = tn_program_count(liveness->program);
    if (count >= RANGE_NONE - liveness->count)
        TN_FAIL(liveness->error, TN_E_INVALID, "more than 2^32 lives");
    if (!tn__reserve(liveness->context, &liveness->ranges, &liveness->room, liveness->count + count,
                     sizeof *liveness->ranges))
        return tn__no_memory(liveness->error, "lives");
    uint64_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const tn_static_block *block = &liveness->options.statics[i];
        uint64_t at = end;
        if (liveness_is_fetched(liveness, block->tensor)) continue;
        if (block->bytes == TN_SIZE_UNKNOWN)
            return liveness_where(liveness,
                                  tn__fail(liveness->error, TN_E_UNKNOWN, "its size is not known"),
                                  block->op, block->tensor);
        if (!tn__add(at, block->bytes, &end) ||
            !tn__align_up(end, liveness->options.alignment, &end))
            TN_FAIL(liveness->error, TN_E_INVALID, "static memory has more than 2^64 bytes");
        liveness->ranges[liveness->count++] = (live_range){.tensor = block->tensor,
                                                           .op = block->op,
                                                           .output = RANGE_NONE,
                                                           .last = steps > 0 ? steps : 1,
                                                           .newest = RANGE_NONE,
                                                           .bytes = block->bytes,
                                                           .offset = at,
                                                           .source = RANGE_NONE,
                                                           .earlier = RANGE_NONE,
                                                           .taken = RANGE_NONE,
                                                           .is_static = true};
    }
    return TN_OK;
}

tn_status tn__liveness_find(liveness_state *liveness) {
    size_t regions = tn_program_region_count(liveness->program),
           ops = tn_graph_op_count(liveness->graph);
    liveness_walk walk = {.liveness = liveness, .region_count = (uint32_t)regions};
    tn__arena scratch;
    tn_region *sorted;
    tn__arena_init(&scratch, liveness->context);
    bool all = (sorted = tn__arena_array(&scratch, regions, sizeof *sorted)) &&
               (walk.by_end = tn__arena_array(&scratch, regions, sizeof *walk.by_end)) &&
               (walk.following = tn__arena_array(&scratch, regions, sizeof *walk.following)) &&
               (walk.of_op = tn__arena_array(&scratch, ops, sizeof *walk.of_op)) &&
               (walk.active = tn__arena_array(&scratch, regions, sizeof *walk.active));
    tn_status status = all ? liveness_fetched(liveness) : tn__no_memory(liveness->error, "lives");
    if (status == TN_OK) status = liveness_prepare(&walk, sorted);
    if (status == TN_OK) status = liveness_walk_all(&walk);
    if (status == TN_OK) status = liveness_statics(liveness);
    tn__arena_release(&scratch);
    return status;
}

/* --- streams as intervals --------------------------------------------------------------------- */

/* Replaces the clocks of streams by step intervals wherever both mean the same.
 *
 * Planners are faster and find better layouts with plain intervals than with clocks. A live range
 * must not share memory with a live range that begins before the first is known to be over,
 * according to streams and signals:
 *
 *     stream 0   ... use x   APPLY y   APPLY z   WAIT     APPLY u
 *     stream 1              SWAP_OUT x ─────────▶
 *     x          ───────────────────────────────────]    may lie where u lies, not y or z
 *
 * On one chain, if a step knows that the live range is over, all later steps know it, too. So each
 * chain has a last definition that conflicts with the live range. The live range is extended to the
 * last of these definitions in the list. This never loses a conflict. It also adds none if every
 * definition in between, on any chain, conflicts. If that holds for all live ranges, intervals are
 * equivalent to clocks and replace them. Otherwise nothing is changed.
 *
 * Cost: O((live ranges + uses) chains log n).
 */

/* limit of chains; more would take too long, and programs of streams have fewer */
#define INTERVALS_CHAINS_MAX 64u

typedef struct intervals_state {
    liveness_state *liveness;
    uint32_t chains;
    /* [chains + 1] where the steps of each chain begin in `step` and the other lists */
    uint32_t *first;
    uint32_t *step; /* [steps] numbers of the steps, sorted by chain, then by index in the chain */
    /* [steps] newest step of the same chain, before this one, that defines a live range; or
     * RANGE_NONE */
    uint32_t *before;
    /* [steps] first step of the same chain, from this one on, that defines a live range; or
     * RANGE_NONE */
    uint32_t *from;
    uint32_t *last; /* [ranges] end of the interval that replaces each live range */
} intervals_state;

static bool intervals_make(intervals_state *state, uint8_t **defines) {
    liveness_state *liveness = state->liveness;
    const tn__happens *happens = liveness->happens;
    tn__arena *arena = &liveness->scratch;
    uint32_t steps = happens->count;
    if (!(state->first = tn__arena_array(arena, (size_t)state->chains + 1, sizeof *state->first)) ||
        !(state->step = tn__arena_array(arena, steps, sizeof *state->step)) ||
        !(state->before = tn__arena_array(arena, steps, sizeof *state->before)) ||
        !(state->from = tn__arena_array(arena, steps, sizeof *state->from)) ||
        !(state->last = tn__arena_array(arena, liveness->count, sizeof *state->last)) ||
        !(*defines = tn__arena_array(arena, steps, sizeof **defines)))
        return false;
    for (uint32_t s = 0; s < steps; s++) state->first[happens->chain[s] + 1]++;
    for (uint32_t c = 0; c < state->chains; c++) state->first[c + 1] += state->first[c];
    for (uint32_t s = 0; s < steps; s++)
        state->step[state->first[happens->chain[s]] + happens->index[s]] = s;
    for (size_t i = 0; i < liveness->count; i++)
        if (!liveness->ranges[i].is_static) (*defines)[liveness->ranges[i].first] = 1;
    return true;
}

/* For each place of each chain, finds the nearest definitions before and after it. */
static void intervals_index(intervals_state *state, const uint8_t *defines) {
    for (uint32_t c = 0; c < state->chains; c++) {
        uint32_t seen = RANGE_NONE, first = state->first[c], end = state->first[c + 1];
        for (uint32_t i = first; i < end; i++) {
            state->before[i] = seen;
            if (defines[state->step[i]]) seen = state->step[i];
        }
        seen = RANGE_NONE;
        for (uint32_t i = end; i-- > first;) {
            if (defines[state->step[i]]) seen = state->step[i];
            state->from[i] = seen;
        }
    }
}

/* Returns the first step of a chain, from index `low` on, that starts after step `use` is known to
 * be over; the chain's end if no such step exists. */
static uint32_t intervals_known(const intervals_state *state, uint32_t chain, uint32_t low,
                                uint32_t use) {
    uint32_t high = state->first[chain + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (tn__happens_before(state->liveness->happens, use, state->step[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Finds, for one chain, the newest definition that conflicts with a live range, and the first later
 * definition that does not. */
static void intervals_of(const intervals_state *state, const live_range *range, uint32_t chain,
                         uint32_t *newest, uint32_t *free) {
    uint32_t end = state->first[chain + 1];
    uint32_t at = intervals_known(state, chain, state->first[chain], range->first);
    for (uint32_t use = range->newest; use != RANGE_NONE && at < end;
         use = state->liveness->uses.items[use].next)
        at = intervals_known(state, chain, at, state->liveness->uses.items[use].step);
    *free = at < end ? state->from[at] : RANGE_NONE;
    if (at < end) {
        *newest = state->before[at];
        return;
    }
    bool empty = end == state->first[chain];
    bool defines = !empty && state->from[end - 1] != RANGE_NONE;
    *newest = empty ? RANGE_NONE : defines ? state->step[end - 1] : state->before[end - 1];
}

/* Finds an interval of steps that gives a live range exactly the conflicts that the clocks give it;
 * returns false if there is no such interval. */
static bool intervals_find(intervals_state *state, uint32_t id) {
    const live_range *range = &state->liveness->ranges[id];
    uint32_t last = range->last, soonest = RANGE_NONE;
    for (uint32_t c = 0; c < state->chains; c++) {
        uint32_t newest, free;
        intervals_of(state, range, c, &newest, &free);
        if (newest != RANGE_NONE && newest >= last) last = newest + 1;
        if (free < soonest) soonest = free;
    }
    state->last[id] = last;
    return soonest >= last;
}

tn_status tn__liveness_straighten(liveness_state *liveness) {
    intervals_state state = {.liveness = liveness};
    uint8_t *defines;
    if (liveness->happens == NULL || liveness->options.parallel != TN_PARALLEL_SERIAL) return TN_OK;
    state.chains = liveness->happens->chain_count;
    if (state.chains < 2 || state.chains > INTERVALS_CHAINS_MAX) return TN_OK;
    if (!intervals_make(&state, &defines)) return tn__no_memory(liveness->error, "lives");
    intervals_index(&state, defines);
    for (uint32_t i = 0; i < liveness->count; i++)
        if (!liveness->ranges[i].is_static && !intervals_find(&state, i)) return TN_OK;
    for (uint32_t i = 0; i < liveness->count; i++)
        if (!liveness->ranges[i].is_static) liveness->ranges[i].last = state.last[i];
    liveness->straight = true;
    return TN_OK;
}
