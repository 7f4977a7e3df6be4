/* lifetime.c - computes live ranges in one walk over the instructions.
 *
 * A life begins where its tensor is defined and ends after its last use; instruction i is step
 * i. A definition without any use lives for its own step.
 *
 * Control flow. The regions of one operator follow each other in the program, and its APPLY
 * comes last (step `own`). The regions determine the reads and writes of that APPLY:
 *
 *     If    only one region runs. Its result is copied to the If's output when it ends, so the
 *           output lives at the last step of every region, and from `own` on. In between, while
 *           the other region runs, no instruction needs it:
 *
 *               then: [a b c]   else: [d e]   If   ...
 *               output:     --            -----------
 *
 *     Loop  the body's formal inputs are filled at its first step and refilled after every turn.
 *           They live to `own`, and so do the body's results: `own` takes its outputs from the
 *           results or, after zero turns, from the formal inputs. Tensors from outside are needed
 *           again in the next turn, so they live to `own`, too. Outputs that gather one slice per
 *           turn live from the first step on.
 *
 *     Scan  as Loop, and its inputs are read one slice per turn.
 *
 * The rules for .tflite are the same. IF, CALL and CALL_ONCE run a region once; their arguments
 * are copied to the formal inputs of the region when it begins. WHILE has two regions, body and
 * condition. Its outputs carry the values that pass between these regions, so they live from the
 * first step of the first region to `own`. The inputs of all of these operators live to `own`.
 *
 * Cost: O(instructions + operands), times the depth of nested loops.
 */
#include "graph/op.h"
#include "program/occupancy.h"

#include <stdio.h>

typedef struct lifetime_walk {
    occ_state *occ;
    const tn_region *regions; /* by first, outer before inner */
    uint32_t region_count, next, next_end;
    uint32_t *by_end; /* [regions] by last */
    uint32_t *active; /* loops around the current step, outermost first */
    size_t active_count;
    uint32_t *of_op;     /* [operators] its first region in regions_by_op, or OCC_NONE */
    uint32_t *following; /* [regions] next region of the same operator, or OCC_NONE */
} lifetime_walk;

tn_status tn__occ_where(const occ_state *occ, tn_status status, tn_op_id op, tn_tensor_id tensor) {
    const tn_op *facts = op == TN_NONE ? NULL : tn_graph_op(occ->graph, op);
    const char *name = tensor == TN_NONE ? "" : tn_graph_tensor(occ->graph, tensor)->name;
    if (facts == NULL) return tn__where(occ->error, status, "tensor '%.80s'", name);
    return tn__where(occ->error, status, "node '%.60s' (%.30s), tensor '%.60s'", facts->name,
                     facts->type, name);
}

/* --- define, use, release --- */

static bool lifetime_is_fetched(const occ_state *occ, tn_tensor_id tensor) {
    return occ->fetched != NULL && occ->fetched[tensor] != TN_SIZE_UNKNOWN;
}

static uint64_t lifetime_bytes(const occ_state *occ, tn_tensor_id tensor) {
    return lifetime_is_fetched(occ, tensor) ? occ->fetched[tensor]
                                            : tn_graph_tensor(occ->graph, tensor)->bytes;
}

static tn_status lifetime_begin(occ_state *occ, tn_tensor_id tensor, tn_op_id op, uint32_t output,
                                uint32_t step) {
    if (tensor == TN_NONE || occ->is_static[tensor]) return TN_OK;
    if (lifetime_bytes(occ, tensor) == TN_SIZE_UNKNOWN)
        return tn__occ_where(occ,
                             tn__fail(occ->error, TN_E_UNKNOWN,
                                      "its size is not known; state its shape in the model"),
                             op, tensor);
    if (occ->count >= OCC_NONE - 1) TN_FAIL(occ->error, TN_E_INVALID, "more than 2^32 lives");
    if (!tn__reserve(occ->context, &occ->lives, &occ->room, occ->count + 1, sizeof *occ->lives))
        return tn__no_memory(occ->error, "lives");
    occ->lives[occ->count] = (occ_life){.tensor = tensor,
                                        .op = op,
                                        .output = output,
                                        .first = step,
                                        .last = step + 1,
                                        .bytes = lifetime_bytes(occ, tensor),
                                        .source = OCC_NONE,
                                        .earlier = occ->latest[tensor],
                                        .newest = OCC_NONE,
                                        .taken = OCC_NONE};
    occ->latest[tensor] = (uint32_t)occ->count++;
    occ->is_open[tensor] = 1;
    return TN_OK;
}

static void lifetime_extend(occ_life *life, uint32_t last) {
    if (last > life->last) life->last = last;
}

static tn_status lifetime_note(occ_state *occ, uint32_t id, uint32_t step) {
    occ_uses *uses = &occ->uses;
    if (uses->count >= OCC_NONE - 1) TN_FAIL(occ->error, TN_E_INVALID, "more than 2^32 uses");
    if (!tn__reserve(occ->context, &uses->items, &uses->room, uses->count + 1, sizeof *uses->items))
        return tn__no_memory(occ->error, "lives");
    uses->items[uses->count] = (occ_use){step, occ->lives[id].newest};
    occ->lives[id].newest = (uint32_t)uses->count++;
    return TN_OK;
}

tn_status tn__occ_need(occ_state *occ, uint32_t id, uint32_t step) {
    lifetime_extend(&occ->lives[id], step + 1);
    return lifetime_note(occ, id, step);
}

/* A tensor from outside a loop is needed until the loop ends. */
static tn_status lifetime_use(lifetime_walk *walk, tn_tensor_id tensor, tn_op_id op,
                              uint32_t step) {
    occ_state *occ = walk->occ;
    if (tensor == TN_NONE || occ->is_static[tensor]) return TN_OK;
    if (!occ->is_open[tensor])
        return tn__occ_where(occ,
                             tn__fail(occ->error, TN_E_INVALID,
                                      "it is used at step %u, where it does not exist", step),
                             op, tensor);
    occ_life *life = &occ->lives[occ->latest[tensor]];
    life->uses++;
    TN_TRY(tn__occ_need(occ, occ->latest[tensor], step));
    for (size_t i = 0; i < walk->active_count; i++) {
        const tn_region *region = &walk->regions[walk->active[i]];
        if (life->first >= region->first || step < region->first) continue;
        /* may be needed by the next turn: keep it to the end of the outermost such loop, which
         * ends last */
        return tn__occ_need(occ, occ->latest[tensor], region->last);
    }
    return TN_OK;
}

/* --- views: recorded here, decided in bodies.c --- */

/* Records the life in which `output` of an operator may lie, and its offset. A view of a static
 * tensor is static. */
static void lifetime_note_view(occ_state *occ, tn_op_id op, uint32_t output, tn_view view) {
    tn_tensor_id tensor = tn_graph_op(occ->graph, op)->outputs[output];
    occ_life *life = &occ->lives[occ->latest[tensor]];
    if (!occ->is_open[view.source]) return;
    life->source = occ->latest[view.source];
    life->must = view.must;
    life->whole = view.whole;
    life->offset = view.whole ? 0 : view.offset;
}

static bool lifetime_is_static_view(const occ_state *occ, tn_view view) {
    return view.source != TN_NONE && occ->is_static[view.source] &&
           (view.must || !occ->options.no_views);
}

/* --- operators --- */

static tn_status lifetime_outputs(lifetime_walk *walk, tn_op_id id, const tn_op_form *form,
                                  uint32_t step) {
    occ_state *occ = walk->occ;
    for (uint32_t k = 0; k < form->output_count; k++) {
        tn_tensor_id tensor = form->op->outputs[k];
        if (tensor == TN_NONE || occ->is_static[tensor]) continue;
        tn_view view = tn_op_view(occ->graph, id, k);
        if (lifetime_is_static_view(occ, view) && occ->latest[tensor] == OCC_NONE) {
            occ->is_static[tensor] = 1;
            continue;
        }
        TN_TRY(lifetime_begin(occ, tensor, id, k, step));
        if (view.source != TN_NONE) lifetime_note_view(occ, id, k, view);
    }
    uint64_t workspace = tn__workspace(occ->graph, &occ->options, id, form->type != form->op->type);
    if (workspace == 0) return TN_OK;
    if (!tn__reserve(occ->context, &occ->lives, &occ->room, occ->count + 1, sizeof *occ->lives))
        return tn__no_memory(occ->error, "lives");
    occ->lives[occ->count++] = (occ_life){.tensor = TN_NONE,
                                          .op = id,
                                          .output = OCC_NONE,
                                          .first = step,
                                          .last = step + 1,
                                          .bytes = workspace,
                                          .source = OCC_NONE,
                                          .earlier = OCC_NONE,
                                          .newest = OCC_NONE,
                                          .taken = OCC_NONE};
    return TN_OK;
}

/* Outputs of a Loop or Scan that are carried from turn to turn; the others gather slices. */
static uint32_t lifetime_carried(const occ_state *occ, const tn_region *region) {
    const tn_op_rule *rule = tn__rule_of(occ->graph, region->op);
    return rule == NULL || rule->turns == NULL
               ? 0
               : rule->turns(tn_graph_op(occ->graph, region->op),
                             tn_graph_block(occ->graph, region->block))
                     .carried;
}

/* Whether an output of an operator with regions has begun in an earlier one of them. */
static bool lifetime_gathers(const occ_state *occ, tn_op_id op, tn_tensor_id tensor) {
    if (tensor == TN_NONE || occ->latest[tensor] == OCC_NONE || !occ->is_open[tensor]) return false;
    return occ->lives[occ->latest[tensor]].op == op;
}

/* A region begins: its operator reads its inputs; formal inputs and gathered outputs of a loop
 * begin. */
static tn_status lifetime_enter(lifetime_walk *walk, const tn_region *region) {
    occ_state *occ = walk->occ;
    const tn_op *op = tn_graph_op(occ->graph, region->op);
    const tn_block *block = tn_graph_block(occ->graph, region->block);
    for (uint32_t i = 0; i < op->input_count; i++)
        TN_TRY(lifetime_use(walk, op->inputs[i], region->op, region->first));
    for (uint32_t i = 0; i < block->input_count; i++)
        TN_TRY(lifetime_begin(occ, block->inputs[i], TN_NONE, OCC_NONE, region->first));
    for (uint32_t k = lifetime_carried(occ, region); k < op->output_count && region->repeats; k++)
        if (!lifetime_gathers(occ, region->op, op->outputs[k]))
            TN_TRY(lifetime_begin(occ, op->outputs[k], region->op, OCC_NONE, region->first));
    return TN_OK;
}

/* A branch ends: its results are copied out. The results of an empty branch are copied at `own`. */
static tn_status lifetime_leave_branch(lifetime_walk *walk, const tn_region *region, uint32_t own) {
    occ_state *occ = walk->occ;
    const tn_op *op = tn_graph_op(occ->graph, region->op);
    const tn_block *block = tn_graph_block(occ->graph, region->block);
    bool empty = region->first == region->last;
    uint32_t step = empty ? own : region->last - 1;
    for (uint32_t i = 0; i < block->output_count; i++)
        TN_TRY(lifetime_use(walk, block->outputs[i], region->op, step));
    for (uint32_t k = 0; k < op->output_count && !empty; k++) {
        tn_tensor_id tensor = op->outputs[k];
        uint32_t before = tensor == TN_NONE ? OCC_NONE : occ->latest[tensor];
        TN_TRY(lifetime_begin(occ, tensor, region->op, OCC_NONE, step));
        bool made = tensor != TN_NONE && occ->latest[tensor] != before;
        if (made) occ->lives[occ->latest[tensor]].joins = before != OCC_NONE;
        if (tensor != TN_NONE) occ->is_open[tensor] = 0; /* no instruction reads it before `own` */
    }
    return TN_OK;
}

/* The APPLY of an operator with regions. */
static tn_status lifetime_own(lifetime_walk *walk, tn_op_id id, uint32_t step) {
    occ_state *occ = walk->occ;
    const tn_op *op = tn_graph_op(occ->graph, id);
    bool holds = tn__op_has(occ->graph, id, TN_RULE_HOLDS);
    for (uint32_t i = 0; i < op->input_count && holds; i++)
        TN_TRY(lifetime_use(walk, op->inputs[i], id, step));
    for (uint32_t r = walk->of_op[id]; r != OCC_NONE; r = walk->following[r]) {
        const tn_region *region = &walk->regions[r];
        const tn_block *block = tn_graph_block(occ->graph, region->block);
        if (!region->repeats) {
            if (region->first == region->last) TN_TRY(lifetime_leave_branch(walk, region, step));
            continue;
        }
        for (uint32_t i = 0; i < block->input_count; i++)
            TN_TRY(lifetime_use(walk, block->inputs[i], id, step));
        for (uint32_t i = 0; i < block->output_count; i++)
            TN_TRY(lifetime_use(walk, block->outputs[i], id, step));
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id tensor = op->outputs[k];
        if (tensor == TN_NONE || occ->is_static[tensor]) continue;
        uint32_t before = occ->latest[tensor];
        if (lifetime_gathers(occ, id, tensor)) {
            TN_TRY(tn__occ_need(occ, before, step)); /* it has been gathering since the first
                                                       * step */
            continue;
        }
        bool joins = before != OCC_NONE && occ->lives[before].op == id;
        TN_TRY(lifetime_begin(occ, tensor, id, OCC_NONE, step));
        occ->lives[occ->latest[tensor]].joins = joins;
    }
    return TN_OK;
}

static tn_status lifetime_apply(lifetime_walk *walk, const tn_instruction *it, uint32_t step) {
    tn_op_form form = tn_op_form_of(walk->occ->graph, it->op, it->again);
    if (walk->of_op[it->op] != OCC_NONE) return lifetime_own(walk, it->op, step);
    for (uint32_t i = 0; i < form.input_count; i++)
        TN_TRY(lifetime_use(walk, tn_op_form_input(&form, i), it->op, step));
    return lifetime_outputs(walk, it->op, &form, step);
}

/* --- the walk --- */

/* A released life is kept up to `step`, not through it. With clocks, the next holder waits for
 * the FREE itself. */
static tn_status lifetime_keep(lifetime_walk *walk, tn_tensor_id tensor, uint32_t step) {
    occ_state *occ = walk->occ;
    if (tensor == TN_NONE || occ->is_static[tensor]) return TN_OK;
    lifetime_extend(&occ->lives[occ->latest[tensor]], step);
    return lifetime_note(occ, occ->latest[tensor], step);
}

/* A tensor that is copied here is not a view of static memory, even if an operator made it one
 * before. */
static void lifetime_own_memory(occ_state *occ, tn_tensor_id tensor) {
    occ->is_static[tensor] = tn_tensor_is_static(tn_graph_tensor(occ->graph, tensor)) &&
                             !lifetime_is_fetched(occ, tensor);
}

static tn_status lifetime_step(lifetime_walk *walk, const tn_instruction *it, uint32_t step) {
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    tn_effects does = tn_instruction_effects(it);
    if (facts->reads == TN_AFFECTS_OPERATOR) return lifetime_apply(walk, it, step);
    TN_TRY(lifetime_use(walk, does.reads, TN_NONE, step));
    if (does.defines != TN_NONE) lifetime_own_memory(walk->occ, does.defines);
    TN_TRY(lifetime_begin(walk->occ, does.defines, TN_NONE, OCC_NONE, step));
    if (does.releases == TN_NONE) return TN_OK;
    if (facts->flags & TN_KEEPS) TN_TRY(lifetime_keep(walk, does.releases, step));
    walk->occ->is_open[does.releases] = 0;
    return TN_OK;
}

/* Regions that begin or end at this step: loops enter and leave the list of active ones. */
static tn_status lifetime_regions(lifetime_walk *walk, uint32_t step) {
    while (walk->active_count > 0 &&
           walk->regions[walk->active[walk->active_count - 1]].last <= step)
        walk->active_count--;
    for (; walk->next < walk->region_count && walk->regions[walk->next].first == step;
         walk->next++) {
        const tn_region *region = &walk->regions[walk->next];
        TN_TRY(lifetime_enter(walk, region));
        if (!region->repeats || region->first == region->last) continue;
        walk->active[walk->active_count++] = walk->next;
    }
    return TN_OK;
}

static int lifetime_region_order(const void *a, const void *b) {
    const tn_region *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->last != y->last) return x->last > y->last ? -1 : 1;
    return (x->block > y->block) - (x->block < y->block);
}

/* Branches with `step` as their last instruction pass on their results. */
static tn_status lifetime_branches(lifetime_walk *walk, uint32_t step) {
    for (; walk->next_end < walk->region_count; walk->next_end++) {
        const tn_region *region = &walk->regions[walk->by_end[walk->next_end]];
        if (region->last > step + 1) break;
        if (!region->repeats && region->first < region->last)
            TN_TRY(lifetime_leave_branch(walk, region, step));
    }
    return TN_OK;
}

/* Sorts region numbers by their ends: a bottom-up, stable merge sort. */
static void lifetime_sort_ends(const tn_region *regions, uint32_t *order, uint32_t *spare,
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

static tn_status lifetime_prepare(lifetime_walk *walk, tn_region *regions) {
    occ_state *occ = walk->occ;
    uint32_t count = walk->region_count, op_count = tn_graph_op_count(occ->graph);
    if (count > 0) {
        memcpy(regions, tn_program_regions(occ->program), count * sizeof *regions);
        qsort(regions, count, sizeof *regions, lifetime_region_order);
    }
    walk->regions = regions;
    lifetime_sort_ends(regions, walk->by_end, walk->following, count);
    for (uint32_t i = 0; i < op_count; i++) walk->of_op[i] = OCC_NONE;
    for (uint32_t r = count; r-- > 0;) {
        walk->following[r] = walk->of_op[regions[r].op];
        walk->of_op[regions[r].op] = r;
    }
    return TN_OK;
}

static tn_status lifetime_walk_all(lifetime_walk *walk) {
    const tn_program *program = walk->occ->program;
    const tn_instruction *instructions = tn_program_instructions(program);
    for (uint32_t step = 0; step < tn_program_count(program); step++) {
        TN_TRY(lifetime_regions(walk, step));
        TN_TRY(lifetime_step(walk, &instructions[step], step));
        TN_TRY(lifetime_branches(walk, step));
    }
    return TN_OK;
}

/* A tensor that is fetched from a file lives from its FETCH to its release, in the form of its
 * block. */
static tn_status lifetime_fetched(occ_state *occ) {
    const tn_instruction *list = tn_program_instructions(occ->program);
    uint32_t tensors = tn_graph_tensor_count(occ->graph), steps = tn_program_count(occ->program);
    for (uint32_t s = 0; s < steps; s++) {
        if (list[s].opcode != TN_FETCH) continue;
        if (occ->fetched == NULL) {
            occ->fetched = tn__arena_array(&occ->scratch, tensors, sizeof *occ->fetched);
            if (occ->fetched == NULL) return tn__no_memory(occ->error, "lives");
            memset(occ->fetched, 0xff, tensors * sizeof *occ->fetched); /* TN_SIZE_UNKNOWN */
        }
        occ->fetched[list[s].tensor] = tn_graph_tensor(occ->graph, list[s].tensor)->bytes;
        occ->is_static[list[s].tensor] = 0;
    }
    for (uint32_t i = 0; i < occ->options.static_count; i++) {
        const tn_static_block *block = &occ->options.statics[i];
        if (lifetime_is_fetched(occ, block->tensor)) occ->fetched[block->tensor] = block->bytes;
    }
    return TN_OK;
}

/* Static blocks live from the first step to the last: they stay in memory for the next run. */
static tn_status lifetime_statics(occ_state *occ) {
    uint32_t count = occ->options.static_count, steps = tn_program_count(occ->program);
    if (count >= OCC_NONE - occ->count) TN_FAIL(occ->error, TN_E_INVALID, "more than 2^32 lives");
    if (!tn__reserve(occ->context, &occ->lives, &occ->room, occ->count + count, sizeof *occ->lives))
        return tn__no_memory(occ->error, "lives");
    uint64_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const tn_static_block *block = &occ->options.statics[i];
        uint64_t at = end;
        if (lifetime_is_fetched(occ, block->tensor)) continue;
        if (block->bytes == TN_SIZE_UNKNOWN)
            return tn__occ_where(occ, tn__fail(occ->error, TN_E_UNKNOWN, "its size is not known"),
                                 block->op, block->tensor);
        if (!tn__add(at, block->bytes, &end) || !tn__align_up(end, occ->options.alignment, &end))
            TN_FAIL(occ->error, TN_E_INVALID, "static memory has more than 2^64 bytes");
        occ->lives[occ->count++] = (occ_life){.tensor = block->tensor,
                                              .op = block->op,
                                              .output = OCC_NONE,
                                              .last = steps > 0 ? steps : 1,
                                              .newest = OCC_NONE,
                                              .bytes = block->bytes,
                                              .offset = at,
                                              .source = OCC_NONE,
                                              .earlier = OCC_NONE,
                                              .taken = OCC_NONE,
                                              .is_static = true};
    }
    return TN_OK;
}

tn_status tn__occ_find_lives(occ_state *occ) {
    size_t regions = tn_program_region_count(occ->program), ops = tn_graph_op_count(occ->graph);
    lifetime_walk walk = {.occ = occ, .region_count = (uint32_t)regions};
    tn__arena scratch;
    tn_region *sorted;
    tn__arena_init(&scratch, occ->context);
    bool all = (sorted = tn__arena_array(&scratch, regions, sizeof *sorted)) &&
               (walk.by_end = tn__arena_array(&scratch, regions, sizeof *walk.by_end)) &&
               (walk.following = tn__arena_array(&scratch, regions, sizeof *walk.following)) &&
               (walk.of_op = tn__arena_array(&scratch, ops, sizeof *walk.of_op)) &&
               (walk.active = tn__arena_array(&scratch, regions, sizeof *walk.active));
    tn_status status = all ? lifetime_fetched(occ) : tn__no_memory(occ->error, "lives");
    if (status == TN_OK) status = lifetime_prepare(&walk, sorted);
    if (status == TN_OK) status = lifetime_walk_all(&walk);
    if (status == TN_OK) status = lifetime_statics(occ);
    tn__arena_release(&scratch);
    return status;
}
