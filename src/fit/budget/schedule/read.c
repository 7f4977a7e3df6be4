/* read.c - reads a Program as jobs and values.
 *
 * The program's occupancy decides which tensors share memory, so a tensor is a view here exactly if
 * it is a view there. A slice with an unaligned offset, for example, is a job that copies.
 *
 * Some values cannot be restored after an eviction, because the operator that makes them may not be
 * repeated and they may not be copied: a value that is written in place, and a value with a view
 * that cannot be made again because it needs more than its source. Such a value stays live until
 * its last read. A job that reads memory which another operator overwrites (such as a trained
 * parameter) keeps its order with the write, also when it is repeated. Cost: that of an occupancy,
 * and O(n log n) for n instructions and operands.
 */
#include "fit/budget/schedule/read.h"

#include "fit/budget/costs.h"
#include "graph/attr.h"
#include "graph/op.h"
#include "program/program.h"

/* --- one job ---------------------------------------------------------------------------------- */

/* Reads the inputs, outputs and costs of one job, and the jobs before and after which it must run.
 *
 * A job that reads memory which other jobs overwrite (such as a trained parameter) must keep its
 * order with these writes. A forward walk, which records the last writer of each tensor, finds the
 * jobs that come before it, and a backward walk those that come after it. Cost: O(operands), plus
 * the regions of each operator with blocks.
 */

/* --- lists --- */

static tn_status read_append(tn__read_state *s, tn__read_list *list, uint32_t item) {
    if (!tn__reserve(s->context, &list->items, &list->room, list->count + 1, sizeof item))
        return tn__read_no_memory(s);
    list->items[list->count++] = item;
    return TN_OK;
}

/* Appends an item to the current list, unless it is TN_NONE or the list contains it already. */
tn_status tn__read_add(tn__read_state *s, uint32_t item, uint32_t *count) {
    if (item == TN_NONE || s->stamp[item] == s->stamps) return TN_OK;
    s->stamp[item] = s->stamps;
    ++*count;
    return read_append(s, &s->lists, item);
}

size_t tn__read_begin_list(tn__read_state *s) {
    s->stamps++;
    return s->lists.count;
}

/* --- what a job reads --- */

tn_status tn__read_note(tn__read_state *s, tn_tensor_id id) {
    return id == TN_NONE ? TN_OK : read_append(s, &s->reads, id);
}

/* Lists all tensors that the instructions of a job read, including those inside its blocks. */
static tn_status read_reads(tn__read_state *s, tn_op_id owner, uint32_t first, uint32_t last) {
    const tn_region *regions = tn_program_regions(s->map->program);
    for (uint32_t step = first; step < last; step++) {
        if (s->instructions[step].opcode == TN_SCATTER)
            TN_TRY(tn__read_note(s, s->instructions[step].tensor));
        if (s->instructions[step].opcode != TN_APPLY) continue;
        const tn_op *op = tn_graph_op(s->graph, s->instructions[step].op);
        for (uint32_t i = 0; i < op->input_count; i++) TN_TRY(tn__read_note(s, op->inputs[i]));
    }
    bool has_blocks = tn__op_has_blocks(tn_graph_op(s->graph, owner));
    for (uint32_t r = 0; has_blocks && r < tn_program_region_count(s->map->program); r++) {
        const tn_block *block = tn_graph_block(s->graph, regions[r].block);
        if (!tn__region_is_of(s->graph, &regions[r], owner)) continue;
        for (uint32_t k = 0; k < block->output_count; k++)
            TN_TRY(tn__read_note(s, block->outputs[k]));
    }
    return TN_OK;
}

static tn_status read_inputs(tn__read_state *s, uint32_t id) {
    tn__read_job *place = &s->places[id];
    tn__dag_map *map = s->map;
    map->read_first[id] = (uint32_t)s->reads.count;
    TN_TRY(read_reads(s, s->jobs[id].job.op, map->first[id], map->last[id]));
    if (s->reads.count >= TN_NONE) TN_FAIL(s->error, TN_E_UNSUPPORTED, "more than 2^32 operands");
    map->read_count[id] = (uint32_t)s->reads.count - map->read_first[id];
    place->inputs = tn__read_begin_list(s);
    for (uint32_t i = 0; i < map->read_count[id]; i++)
        TN_TRY(tn__read_add(s, map->value[s->reads.items[map->read_first[id] + i]],
                            &s->jobs[id].job.input_count));
    return tn__read_held(s, map->first[id], map->last[id], s->value_count,
                         &s->jobs[id].job.input_count);
}

/* --- what a job makes --- */

static tn_status read_outputs(tn__read_state *s, uint32_t id) {
    const tn_op *op = tn_graph_op(s->graph, s->jobs[id].job.op);
    s->places[id].outputs = tn__read_begin_list(s);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id tensor = op->outputs[k];
        if (tensor == TN_NONE || tn__read_is_static(s, tensor)) continue;
        if (s->map->root[tensor] == tensor) {
            TN_TRY(tn__read_add(s, s->map->value[tensor], &s->jobs[id].job.output_count));
            continue;
        }
        /* the tensor is a view that only this job can make, so the job must run before the view's
         * readers */
        s->pinned[tensor] = id;
        if (s->map->value[tensor] != TN_NONE) s->stays[s->map->value[tensor]] = true;
    }
    return TN_OK;
}

static bool read_is_as_large(const tn__read_state *s, uint32_t value, uint32_t other) {
    return value != TN_NONE && s->values[value].bytes == s->values[other].bytes;
}

/* Returns the input that the first output of an operator overwrites in the program; else the first
 * input that it may overwrite; TN_NONE if there is no such input. */
static uint32_t read_inplace(const tn__read_state *s, tn_op_id id) {
    const tn_op *op = tn_graph_op(s->graph, id);
    const tn__dag_map *map = s->map;
    if (map->memory.inplace == TN_INPLACE_NONE || op->output_count == 0) return TN_NONE;
    tn_tensor_id made = op->outputs[0];
    if (made == TN_NONE || map->root[made] != made || s->begin[id] != TN_NONE) return TN_NONE;
    uint32_t own = map->value[made];
    tn_tensor_id over = s->over[made];
    if (over != TN_NONE && read_is_as_large(s, map->value[over], own)) return map->value[over];
    uint64_t may = tn_op_inplace(s->graph, id, 0);
    for (uint32_t i = 0; i < op->input_count && i < 64; i++)
        if ((may >> i & 1) && op->inputs[i] != TN_NONE &&
            read_is_as_large(s, map->value[op->inputs[i]], own))
            return map->value[op->inputs[i]];
    return TN_NONE;
}

/* --- repeats --- */

/* Whether an operator may be repeated, by a pass or at least by a rule: it has a repeat form, and
 * all outputs of that form have memory of their own. Readers of a value that is received several
 * times from other ranks are not repeated, because each time it is a new value. Operators that
 * gather values from ranks are not repeated either: the division of the program decides about them,
 * and obeys rules (folder dist). */
static bool read_repeats(const tn__read_state *s, tn_op_id id, const tn_op_form *form) {
    if (form->type == NULL || s->begin[id] != TN_NONE) return false;
    if (tn__op_has(s->graph, id, TN_RULE_GATHERED)) return false;
    for (uint32_t k = 0; k < form->output_count; k++) {
        tn_tensor_id tensor = form->op->outputs[k];
        if (tensor != TN_NONE && s->map->root[tensor] != tensor) return false;
    }
    for (uint32_t i = 0; s->communicates && i < form->input_count; i++) {
        tn_tensor_id input = tn_op_form_input(form, i);
        tn_tensor_id root = input != TN_NONE ? s->map->root[input] : TN_NONE;
        if (root != TN_NONE && s->several[root]) return false;
    }
    return true;
}

static tn_status read_again(tn__read_state *s, uint32_t id) {
    tn__job *job = &s->jobs[id].job;
    const bool combines = tn__op_has(s->graph, job->op, TN_RULE_RANKS_COMBINE);
    tn_op_form form = tn_op_form_of(s->graph, job->op, !combines);
    if (!read_repeats(s, job->op, &form)) return TN_OK;
    job->flags |= combines ? TN__JOB_BY_RULE : TN__JOB_REPEATS;
    s->places[id].recompute_inputs = tn__read_begin_list(s);
    for (uint32_t i = 0; i < form.input_count; i++) {
        tn_tensor_id input = tn_op_form_input(&form, i);
        if (input != TN_NONE)
            TN_TRY(tn__read_add(s, s->map->value[input], &job->recompute_input_count));
    }
    s->places[id].recompute_outputs = tn__read_begin_list(s);
    for (uint32_t k = 0; k < form.output_count; k++)
        if (form.op->outputs[k] != TN_NONE)
            TN_TRY(
                tn__read_add(s, s->map->value[form.op->outputs[k]], &job->recompute_output_count));
    return TN_OK;
}

/* --- costs --- */

static void read_costs(tn__read_state *s, uint32_t id) {
    tn__job *job = &s->jobs[id].job;
    for (uint32_t step = s->map->first[id]; step < s->map->last[id]; step++) {
        tn_op_id op = s->instructions[step].op;
        if (s->instructions[step].opcode != TN_APPLY) continue;
        job->cost = tn__add_sat(job->cost, tn_costs_of(s->costs, op));
    }
    job->recompute_cost = tn_costs_again_of(s->costs, job->op);
}

/* Rounds a size up to the alignment, and raises *pad to its padding; false: it is too large. */
static bool read_align(tn__read_state *s, uint64_t bytes, uint64_t *aligned, uint32_t *pad) {
    if (!tn__align_up(bytes, s->map->memory.alignment, aligned)) return false;
    const uint64_t own = *aligned - bytes;
    if (own > *pad) *pad = own < UINT32_MAX ? (uint32_t)own : UINT32_MAX;
    if (own > s->slack) s->slack = own;
    return true;
}

static tn_status read_scratch(tn__read_state *s, tn__job *job) {
    const tn_occupancy_options *memory = &s->map->memory;
    uint64_t first = tn__workspace(s->graph, memory, job->op, false);
    bool by_other = tn_op_form_of(s->graph, job->op, true).found != 0;
    uint64_t recompute = by_other ? tn__workspace(s->graph, memory, job->op, true) : 0;
    uint64_t most = first > recompute ? first : recompute;
    if (read_align(s, most, &job->scratch, &job->pad)) return TN_OK;
    TN_FAIL(s->error, TN_E_UNSUPPORTED, "the scratch of '%.80s' is too large",
            tn_graph_op(s->graph, job->op)->name);
}

/* --- writes into memory that other jobs read --- */

/* Calls a function for each root tensor that the instructions of a job write into. */
static void read_each_change(tn__read_state *s, uint32_t id,
                             void (*each)(tn__read_state *, tn_tensor_id, uint32_t)) {
    for (uint32_t step = s->map->first[id]; step < s->map->last[id]; step++) {
        tn_op_id op = s->instructions[step].op;
        uint64_t changes = op == TN_NONE ? 0 : tn_op_changes(s->graph, op);
        /* communication after an operator belongs to the computation of its result */
        if (op == TN_NONE && s->jobs[id].job.op != TN_NONE) continue;
        tn_tensor_id changed = tn_instruction_effects(&s->instructions[step]).changes;
        if (changed != TN_NONE && s->map->root[changed] != TN_NONE)
            each(s, s->map->root[changed], id);
        for (uint32_t i = 0; i < 64 && changes >> i; i++) {
            if (!(changes >> i & 1)) continue;
            tn_tensor_id root = s->map->root[tn_graph_op(s->graph, op)->inputs[i]];
            if (root != TN_NONE) each(s, root, id);
        }
    }
}

static void read_note_change(tn__read_state *s, tn_tensor_id root, uint32_t job) {
    s->changer[root] = job;
    if (s->map->value[root] != TN_NONE) s->stays[s->map->value[root]] = true;
}

/* Adds the jobs that write into memory which this job reads: on the forward walk those before it,
 * on the backward walk those after it. */
static tn_status read_add_changers(tn__read_state *s, uint32_t id, uint32_t *count) {
    const tn__dag_map *map = s->map;
    tn_op_id op = s->jobs[id].job.op;
    tn_op_form form = {0};
    if (op != TN_NONE) form = tn_op_form_of(s->graph, op, true);
    for (uint32_t i = 0; i < map->read_count[id]; i++) {
        tn_tensor_id root = map->root[s->reads.items[map->read_first[id] + i]];
        if (root != TN_NONE && s->changer[root] != id)
            TN_TRY(tn__read_add(s, s->changer[root], count));
    }
    for (uint32_t i = 0; form.found != 0 && i < form.input_count; i++) {
        tn_tensor_id input = tn_op_form_input(&form, i);
        tn_tensor_id root = input != TN_NONE ? map->root[input] : TN_NONE;
        if (root != TN_NONE && s->changer[root] != id)
            TN_TRY(tn__read_add(s, s->changer[root], count));
    }
    return TN_OK;
}

/* Adds the jobs that make views which this job reads, because such a job must run before its
 * readers. */
static tn_status read_add_pinned(tn__read_state *s, uint32_t id) {
    const tn__dag_map *map = s->map;
    for (uint32_t i = 0; i < map->read_count[id]; i++) {
        tn_tensor_id tensor = s->reads.items[map->read_first[id] + i];
        /* follows the view to its source, which may be a view, too */
        while (map->is_view[tensor]) {
            tn_op_id maker = tn_graph_tensor(s->graph, tensor)->producer;
            const tn_op *op = tn_graph_op(s->graph, maker);
            uint32_t k = 0;
            while (op->outputs[k] != tensor) k++;
            tensor = tn__read_view(s, maker, k);
        }
        TN_TRY(tn__read_add(s, s->pinned[tensor], &s->jobs[id].job.after_count));
    }
    return TN_OK;
}

/* Finds the jobs that must run before others although the others read none of their values. Called
 * after all jobs are added. */
static tn_status read_orders(tn__read_state *s) {
    uint32_t ordered = TN_NONE;
    for (uint32_t t = 0; t < tn_graph_tensor_count(s->graph); t++) s->changer[t] = TN_NONE;
    for (uint32_t j = 0; j < s->job_count; j++) {
        uint32_t *count = &s->jobs[j].job.after_count;
        s->places[j].after = tn__read_begin_list(s);
        TN_TRY(read_add_changers(s, j, count));
        if (!s->communicates) /* not needed for a rank: its first runs keep their order anyway */
            TN_TRY(read_add_pinned(s, j));
        tn_op_id op = s->jobs[j].job.op;
        bool is_ordered = op != TN_NONE && tn_op_is_ordered(s->graph, op);
        if (is_ordered) TN_TRY(tn__read_add(s, ordered, count));
        if (is_ordered) ordered = j;
        read_each_change(s, j, read_note_change);
    }
    for (uint32_t t = 0; t < tn_graph_tensor_count(s->graph); t++) s->changer[t] = TN_NONE;
    for (uint32_t j = s->job_count; j-- > 0;) {
        s->places[j].limits = tn__read_begin_list(s);
        TN_TRY(read_add_changers(s, j, &s->jobs[j].job.limit_count));
        read_each_change(s, j, read_note_change);
    }
    return TN_OK;
}

/* Adds the job of an operator that has its instruction at `step`. `last`: the first instruction
 * that does not belong to it. */
static tn_status read_job_of(tn__read_state *s, tn_op_id op, uint32_t step, uint32_t last) {
    uint32_t id = s->job_count++;
    s->jobs[id].job = (tn__job){.op = op, .inplace = TN_NONE};
    s->map->first[id] = s->begin[op] != TN_NONE ? s->begin[op] : step;
    s->map->last[id] = last;
    TN_TRY(read_inputs(s, id));
    TN_TRY(read_outputs(s, id));
    TN_TRY(read_again(s, id));
    read_costs(s, id);
    s->jobs[id].job.inplace = read_inplace(s, op);
    return read_scratch(s, &s->jobs[id].job);
}

/* --- the whole program ------------------------------------------------------------------------ */

/* --- owners of memory --- */

static bool read_is_source(const tn__read_state *s, tn_op_id id, tn_tensor_id input) {
    for (uint32_t k = 0; k < tn_graph_op(s->graph, id)->output_count; k++)
        if (tn__read_view(s, id, k) == input) return true;
    return false;
}

/* Whether an operator is no job but a view: all its outputs lie in the memory of its inputs, and
 * are valid whenever the inputs are live. */
static bool read_is_view(const tn__read_state *s, tn_op_id id) {
    const tn_op *op = tn_graph_op(s->graph, id);
    uint32_t present = 0;
    if (s->begin[id] != TN_NONE || tn_op_changes(s->graph, id) != 0 ||
        tn_op_is_ordered(s->graph, id) || (s->communicates && s->marked[id]))
        return false;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        if (tn__read_view(s, id, k) == TN_NONE) return false;
        present++;
    }
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && !tn__read_is_static(s, op->inputs[i]) &&
            !read_is_source(s, id, op->inputs[i]))
            return false;
    return present > 0;
}

tn_status tn__read_new_value(tn__read_state *s, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(s->graph, id);
    uint64_t aligned;
    uint32_t pad = 0;
    if (tensor->bytes == TN_SIZE_UNKNOWN)
        TN_FAIL(s->error, TN_E_UNKNOWN, "the size of '%.80s' is not known", tensor->name);
    if (!read_align(s, tensor->bytes, &aligned, &pad))
        TN_FAIL(s->error, TN_E_UNSUPPORTED, "'%.80s' is too large", tensor->name);
    s->map->root[id] = id;
    s->map->value[id] = s->value_count;
    s->values[s->value_count++] =
        (tn__dag_value){.bytes = aligned, .tensor = id, .flags = TN__VALUE_COPIES, .pad = pad};
    return TN_OK;
}

static tn_status read_define(tn__read_state *s, tn_op_id id) {
    const tn_op *op = tn_graph_op(s->graph, id);
    tn__dag_map *map = s->map;
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id tensor = op->outputs[k];
        if (tensor == TN_NONE || tn__read_is_static(s, tensor)) continue;
        tn_tensor_id source = tn__read_view(s, id, k);
        if (source != TN_NONE) {
            map->root[tensor] = map->root[source];
            map->value[tensor] = map->value[source];
            map->is_view[tensor] = op->block == 0 && read_is_view(s, id);
        } else if (op->block == 0) {
            TN_TRY(tn__read_new_value(s, tensor));
        }
    }
    return TN_OK;
}

/* --- the program --- */

/* Finds the first instruction in the blocks of each operator. */
static void read_regions(tn__read_state *s) {
    const tn_region *regions = tn_program_regions(s->map->program);
    for (uint32_t r = 0; r < tn_program_region_count(s->map->program); r++) {
        uint32_t *begin = &s->begin[regions[r].op];
        if (*begin == TN_NONE || regions[r].first < *begin) *begin = regions[r].first;
    }
}

static tn_status read_refuse(const tn__read_state *s, uint32_t step) {
    TN_FAIL(s->error, TN_E_UNSUPPORTED,
            "instruction %u (%s): a program that was made by a pass, or for several devices, is "
            "not fitted again",
            step, tn_opcode_name(s->instructions[step].opcode));
}

/* Whether an instruction is the first run of an operator of the main block. For views of tensors
 * that were received again from other ranks, a later run is allowed, too. */
static bool read_is_first(const tn__read_state *s, tn_op_id id) {
    const tn_op *op = tn_graph_op(s->graph, id);
    for (uint32_t k = 0; k < op->output_count && op->block == 0; k++) {
        tn_tensor_id made = op->outputs[k];
        if (made == TN_NONE || s->map->value[made] == TN_NONE) continue;
        if (!s->communicates || !s->several[s->map->root[made]]) return false;
    }
    return true;
}

/* Whether a tensor comes from another rank: its contents may become valid later than its memory
 * begins. */
static bool read_arrives(const tn__read_state *s, tn_tensor_id root) {
    return s->communicates && s->stays[s->map->value[root]];
}

/* Adds an operator that makes a view smaller than its root (the tensor that owns the memory) to the
 * list of the root, in program order. */
static void read_note_part(const tn__read_state *s, tn_op_id id, tn_op_id *last_part) {
    const tn_op *op = tn_graph_op(s->graph, id);
    tn__dag_map *map = s->map;
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id tensor = op->outputs[k], root = tensor != TN_NONE ? map->root[tensor] : tensor;
        if (root == TN_NONE || map->value[tensor] == TN_NONE || read_arrives(s, root)) continue;
        if (tn_graph_tensor(s->graph, tensor)->bytes >= tn_graph_tensor(s->graph, root)->bytes)
            continue;
        tn_op_id *link =
            last_part[root] == TN_NONE ? &map->part[root] : &map->next_part[last_part[root]];
        last_part[root] = *link = id;
        return; /* one entry covers all outputs of the operator */
    }
}

static tn_status read_instruction(tn__read_state *s, uint32_t step) {
    const tn_instruction *it = &s->instructions[step];
    tn__dag_map *map = s->map;
    if (it->again || it->stream != 0) return read_refuse(s, step);
    switch (it->opcode) {
    case TN_PUT:
        map->puts[map->put_count++] = it->tensor;
        return map->value[it->tensor] == TN_NONE ? tn__read_new_value(s, it->tensor)
                                                 : read_refuse(s, step);
    case TN_APPLY:
        if (!read_is_first(s, it->op)) return read_refuse(s, step);
        TN_TRY(read_define(s, it->op));
        if (tn_graph_op(s->graph, it->op)->block != 0) return TN_OK;
        if (read_is_view(s, it->op)) {
            read_note_part(s, it->op, s->last_part);
            return TN_OK;
        }
        return read_job_of(s, it->op, step, step + 1);
    case TN_GET:
        map->gets[map->get_count++] = it->tensor;
        if (map->value[it->tensor] != TN_NONE)
            s->values[map->value[it->tensor]].flags |= TN__VALUE_KEPT;
        return TN_OK;
    case TN_FREE:
    case TN_DROP:
        /* instructions that release memory are not needed, because live ranges follow from reads */
        return TN_OK;
    default:
        return read_refuse(s, step);
    }
}

/* Marks the outputs that an operator of a problem declares as held (problem.c). */
static void read_held(tn__read_state *s, const tn__job *job) {
    uint32_t count;
    if (job->op == TN_NONE) return;
    const tn_op *op = tn_graph_op(s->graph, job->op);
    bool is_problem = strcmp(op->domain, "tenure") == 0 && strncmp(op->type, "Opaque", 6) == 0;
    const int64_t *held = is_problem ? tn__attr_ints(op, "held", &count) : NULL;
    for (uint32_t k = 0; held != NULL && k < count && k < op->output_count; k++)
        if (held[k]) s->values[s->map->value[op->outputs[k]]].flags |= TN__VALUE_HELD;
}

/* Marks the values that can be neither recomputed nor copied, so that they stay live until their
 * last read. */
static void read_settle(tn__read_state *s) {
    for (uint32_t j = 0; j < s->job_count; j++) {
        tn__dag_job *it = &s->jobs[j];
        const uint32_t *outputs = s->lists.items + s->places[j].outputs;
        read_held(s, &it->job);
        for (uint32_t k = 0; k < it->job.output_count; k++)
            if (s->stays[outputs[k]])
                it->job.flags &= ~(uint32_t)(TN__JOB_REPEATS | TN__JOB_BY_RULE);
    }
    for (uint32_t v = 0; v < s->value_count; v++)
        if (s->stays[v] || s->values[v].bytes == 0)
            s->values[v].flags &= ~(uint32_t)TN__VALUE_COPIES;
}

/* Returns the operator whose result the ranks combine on stream 0 at this step; TN_NONE: there is
 * none. An APPLY and the REDUCE directly after it, or a SCATTER, compute its result together, so
 * they are one job. *last: the first instruction after them. */
static tn_op_id read_combines(const tn__read_state *s, uint32_t step, uint32_t *last) {
    const tn_instruction *it = &s->instructions[step], *then = it + 1;
    tn_tensor_id made = TN_NONE;
    *last = step + 1;
    if (it->stream != 0) return TN_NONE;
    if (it->opcode == TN_SCATTER) made = it->other;
    if (it->opcode == TN_APPLY && step + 1 < tn_program_count(s->map->program) &&
        then->opcode == TN_REDUCE && then->stream == 0 && then->wait == 0) {
        made = tn_graph_op(s->graph, it->op)->outputs[0];
        if (made != then->tensor) made = TN_NONE;
        *last = step + 2;
    }
    if (made == TN_NONE || s->several[made] || tn__read_is_static(s, made)) return TN_NONE;
    const tn_op_id op = tn_graph_tensor(s->graph, made)->producer;
    return op != TN_NONE && tn__op_has(s->graph, op, TN_RULE_RANKS_COMBINE) ? op : TN_NONE;
}

bool tn__read_is_combined(const tn__read_state *s, uint32_t step) {
    uint32_t last;
    return read_combines(s, step, &last) != TN_NONE;
}

/* Reads the job of one step, or of several, of a program of several ranks. */
static tn_status read_rank_step(tn__read_state *s, uint32_t step, uint32_t *next) {
    uint32_t last;
    const tn_op_id op = read_combines(s, step, &last);
    *next = last;
    if (op == TN_NONE) {
        *next = step + 1;
        return s->instructions[step].opcode != TN_APPLY ? tn__read_message_job(s, step, next)
                                                        : read_instruction(s, step);
    }
    if (s->map->value[tn_graph_op(s->graph, op)->outputs[0]] != TN_NONE)
        return read_refuse(s, step);
    TN_TRY(read_define(s, op));
    return read_job_of(s, op, step, last);
}

static tn_status read_walk(tn__read_state *s) {
    uint32_t count = tn_program_count(s->map->program);
    for (uint32_t t = 0; t < tn_graph_tensor_count(s->graph); t++)
        if (tn__read_is_static(s, t)) s->map->root[t] = t;
    TN_TRY(tn__read_messages(s));
    for (uint32_t step = 0; step < count;) {
        uint32_t next = step + 1;
        TN_TRY(s->communicates ? read_rank_step(s, step, &next) : read_instruction(s, step));
        step = next;
    }
    tn__read_messages_end(s);
    TN_TRY(read_orders(s));
    read_settle(s);
    return TN_OK;
}

static tn_status read_hand_over(tn__read_state *s, tn__dag *dag) {
    const uint32_t *at = s->lists.items;
    static const uint32_t nothing[1];
    if (at == NULL) at = nothing;
    for (uint32_t j = 0; j < s->job_count; j++) {
        tn__dag_job *it = &s->jobs[j];
        const tn__read_job *place = &s->places[j];
        it->inputs = at + place->inputs;
        it->outputs = at + place->outputs;
        it->after = at + place->after;
        it->limits = at + place->limits;
        if (!(it->job.flags & (TN__JOB_REPEATS | TN__JOB_BY_RULE))) {
            it->job.recompute_input_count = it->job.recompute_output_count = 0;
            continue;
        }
        it->recompute_inputs = at + place->recompute_inputs;
        it->recompute_outputs = at + place->recompute_outputs;
    }
    s->map->reads = tn__arena_copy(s->arena, s->reads.items != NULL ? s->reads.items : nothing,
                                   (s->reads.count > 0 ? s->reads.count : 1) * sizeof *at);
    if (s->map->reads == NULL) return tn__read_no_memory(s);
    TN_TRY(tn__dag_make(s->arena, s->jobs, s->job_count, s->values, s->value_count, dag, s->error));
    dag->slack = s->slack;
    return TN_OK;
}

/* --- set-up --- */

static bool read_room_map(tn__read_state *s, size_t tensors, size_t steps) {
    tn__dag_map *map = s->map;
    tn__arena *arena = s->arena;
    map->root = tn__arena_array(arena, tensors + 1, sizeof *map->root);
    map->value = tn__arena_array(arena, tensors + 1, sizeof *map->value);
    map->is_view = tn__arena_array(arena, tensors + 1, sizeof *map->is_view);
    map->part = tn__arena_array(arena, tensors + 1, sizeof *map->part);
    map->next_part =
        tn__arena_array(arena, tn_graph_op_count(s->graph) + (size_t)1, sizeof *map->next_part);
    map->first = tn__arena_array(arena, steps + 1, sizeof *map->first);
    map->last = tn__arena_array(arena, steps + 1, sizeof *map->last);
    map->read_first = tn__arena_array(arena, steps + 1, sizeof *map->read_first);
    map->read_count = tn__arena_array(arena, steps + 1, sizeof *map->read_count);
    map->puts = tn__arena_array(arena, steps + 1, sizeof *map->puts);
    map->gets = tn__arena_array(arena, steps + 1, sizeof *map->gets);
    return map->part && map->next_part && map->root && map->value && map->is_view && map->first &&
           map->last && map->read_first && map->read_count && map->puts && map->gets;
}

static tn_status read_room(tn__read_state *s) {
    size_t tensors = tn_graph_tensor_count(s->graph), ops = tn_graph_op_count(s->graph);
    size_t steps = tn_program_count(s->map->program), values = tensors + steps;
    tn__arena *scratch = &s->scratch;
    bool room = read_room_map(s, tensors, steps);
    s->owns = tn__arena_array(scratch, tensors + 1, sizeof *s->owns);
    s->over = tn__arena_array(scratch, tensors + 1, sizeof *s->over);
    s->last_part = tn__arena_array(scratch, tensors + 1, sizeof *s->last_part);
    s->stays = tn__arena_array(scratch, values + 1, sizeof *s->stays);
    s->values = tn__arena_array(scratch, values + 1, sizeof *s->values);
    s->changer = tn__arena_array(scratch, tensors + 1, sizeof *s->changer);
    s->pinned = tn__arena_array(scratch, tensors + 1, sizeof *s->pinned);
    s->begin = tn__arena_array(scratch, ops + 1, sizeof *s->begin);
    s->jobs = tn__arena_array(scratch, steps + 1, sizeof *s->jobs);
    s->places = tn__arena_array(scratch, steps + 1, sizeof *s->places);
    s->stamp = tn__arena_array(scratch, values + 1, sizeof *s->stamp);
    if (!room || !s->owns || !s->last_part || !s->over || !s->stays || !s->values || !s->changer ||
        !s->pinned || !s->begin || !s->jobs || !s->places || !s->stamp)
        return tn__read_no_memory(s);
    for (size_t i = 0; i < tensors; i++)
        s->map->part[i] = s->last_part[i] = s->map->root[i] = s->map->value[i] = s->pinned[i] =
            s->over[i] = TN_NONE;
    for (size_t i = 0; i < ops; i++) s->begin[i] = s->map->next_part[i] = TN_NONE;
    return TN_OK;
}

/* Finds from the occupancy which tensors have memory of their own, and which are written over
 * another tensor. */
static void read_owners(tn__read_state *s) {
    const tn_life *lives = tn_occupancy_lives(s->occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(s->occupancy); i++)
        if (lives[i].tensor != TN_NONE && lives[i].share != TN_SHARE_VIEW)
            s->owns[lives[i].tensor] = true;
    for (uint32_t i = 0; i < tn_occupancy_life_count(s->occupancy); i++)
        if (lives[i].tensor != TN_NONE && lives[i].share == TN_SHARE_INPLACE)
            s->over[lives[i].tensor] = lives[i].source;
}

/* Whether a live range belongs to the memory that an operator with blocks needs while it runs. */
static bool read_is_inside(const tn__read_state *s, const tn_life *life) {
    if (life->tensor == TN_NONE) return tn_graph_op(s->graph, life->op)->block != 0;
    return tn_graph_tensor(s->graph, life->tensor)->block != 0 &&
           s->map->value[life->tensor] == TN_NONE;
}

/* Adds to the scratch bytes of each operator with blocks the largest sum of live bytes inside its
 * blocks. Tensors that share memory in place may be counted twice. */
static tn_status read_insides(tn__read_state *s) {
    const tn_life *lives = tn_occupancy_lives(s->occupancy);
    uint32_t steps = tn_program_count(s->map->program);
    int64_t *live = tn__arena_array(&s->scratch, (size_t)steps + 2, sizeof *live);
    uint64_t bytes, count = tn_occupancy_life_count(s->occupancy),
                    most_bytes = INT64_MAX / (count + 1);
    uint32_t pad = 0;
    if (live == NULL) return tn__read_no_memory(s);
    for (uint32_t i = 0; i < count; i++) {
        if (!read_is_inside(s, &lives[i])) continue;
        if (!read_align(s, lives[i].bytes, &bytes, &pad) || bytes > most_bytes)
            TN_FAIL(s->error, TN_E_UNSUPPORTED, "what lives inside blocks is too large");
        live[lives[i].first] += (int64_t)bytes;
        live[lives[i].last] -= (int64_t)bytes;
    }
    for (uint32_t step = 1; step < steps; step++) live[step] += live[step - 1];
    for (uint32_t j = 0; j < s->job_count; j++) {
        uint64_t most = 0;
        for (uint32_t step = s->map->first[j]; step < s->map->last[j]; step++)
            if ((uint64_t)live[step] > most) most = (uint64_t)live[step];
        s->jobs[j].job.scratch = tn__add_sat(s->jobs[j].job.scratch, most);
        if (most > 0 && pad > s->jobs[j].job.pad) s->jobs[j].job.pad = pad;
    }
    return TN_OK;
}

static tn_status read_run(tn__read_state *s, tn__dag *dag) {
    TN_TRY(tn_occupancy_create(s->map->program, &s->map->memory, &s->occupancy, s->error));
    TN_TRY(read_room(s));
    read_owners(s);
    read_regions(s);
    TN_TRY(read_walk(s));
    TN_TRY(read_insides(s));
    return read_hand_over(s, dag);
}

tn_status tn__dag_read(const tn_program *program, const tn_costs *costs,
                       const tn_occupancy_options *memory, tn__arena *arena, tn__dag *dag,
                       tn__dag_map **map, tn_error *error) {
    const tn_graph *graph = tn_program_graph(program);
    tn__dag_map *made = tn__arena_array(arena, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a program's jobs");
    tn__read_state state = {.map = made,
                            .graph = graph,
                            .costs = costs,
                            .context = arena->context,
                            .instructions = tn_program_instructions(program),
                            .arena = arena,
                            .error = error};
    made->program = program;
    made->graph = graph;
    TN_TRY(tn__occupancy_options(memory, &made->memory, error));
    made->memory.statics = NULL;
    made->memory.static_count = 0;
    tn__arena_init(&state.scratch, arena->context);
    tn_costs *plain = NULL;
    tn_status status = TN_OK;
    if (costs == NULL) status = tn__costs_plain(state.context, graph, &plain, error);
    if (costs == NULL) state.costs = plain;
    if (status == TN_OK) status = read_run(&state, dag);
    tn_costs_destroy(plain);
    tn_occupancy_destroy(state.occupancy);
    tn__free(state.context, state.lists.items, state.lists.room * sizeof *state.lists.items);
    tn__free(state.context, state.reads.items, state.reads.room * sizeof *state.reads.items);
    tn__arena_release(&state.scratch);
    if (status == TN_OK) *map = made;
    return status;
}

uint32_t tn__dag_value_of(const tn__dag_map *map, tn_tensor_id tensor) {
    return map->value[tensor];
}
