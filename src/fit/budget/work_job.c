/* work_job.c - the inputs, outputs and costs of one job, and the jobs before and after which it
 * must run.
 *
 * A job that reads memory which other jobs overwrite (a trained parameter) must stay on its side of
 * the writes. A forward walk, which notes the last writer, and a backward walk find these jobs.
 * Cost: O(operands), plus the regions of each operator with blocks.
 */
#include "fit/budget/work_read.h"

#include "graph/attr.h"
#include "program/program.h"

/* --- lists --- */

static tn_status read_append(tn__read_state *s, tn__read_list *list, uint32_t item) {
    if (!tn__reserve(s->context, &list->items, &list->room, list->count + 1, sizeof item))
        return tn__read_no_memory(s);
    list->items[list->count++] = item;
    return TN_OK;
}

/* Appends an item unless the current list contains it. */
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

/* All tensors that the instructions of a job read, including those inside blocks. */
static tn_status read_reads(tn__read_state *s, uint32_t first, uint32_t last) {
    const tn_region *regions = tn_program_regions(s->map->program);
    for (uint32_t step = first; step < last; step++) {
        if (s->instructions[step].opcode != TN_APPLY) continue;
        const tn_op *op = tn_graph_op(s->graph, s->instructions[step].op);
        for (uint32_t i = 0; i < op->input_count; i++) TN_TRY(tn__read_note(s, op->inputs[i]));
    }
    tn_op_id owner = s->instructions[last - 1].op;
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
    tn__work_map *map = s->map;
    map->read_first[id] = (uint32_t)s->reads.count;
    TN_TRY(read_reads(s, map->first[id], map->last[id]));
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
        s->pinned[tensor] = id; /* a view that only this job can make */
        if (s->map->value[tensor] != TN_NONE) s->stays[s->map->value[tensor]] = true;
    }
    return TN_OK;
}

static bool read_is_as_large(const tn__read_state *s, uint32_t value, uint32_t other) {
    return value != TN_NONE && s->values[value].bytes == s->values[other].bytes;
}

/* The input that the first output overwrites in the program, otherwise the first input that it may
 * overwrite. */
static uint32_t read_inplace(const tn__read_state *s, tn_op_id id) {
    const tn_op *op = tn_graph_op(s->graph, id);
    const tn__work_map *map = s->map;
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

/* An operator may be repeated if it has a repeat form, and all outputs of that form have memory of
 * their own. A value received from other ranks again is a new value, so its readers are not
 * repeated. */
static bool read_repeats(const tn__read_state *s, tn_op_id id, const tn_op_form *form) {
    if (form->type == NULL || s->begin[id] != TN_NONE) return false;
    for (uint32_t k = 0; k < form->output_count; k++) {
        tn_tensor_id tensor = form->op->outputs[k];
        if (tensor != TN_NONE && s->map->root[tensor] != tensor) return false;
    }
    for (uint32_t i = 0; s->talks && i < form->input_count; i++) {
        tn_tensor_id input = tn_op_form_input(form, i);
        tn_tensor_id root = input != TN_NONE ? s->map->root[input] : TN_NONE;
        if (root != TN_NONE && s->several[root]) return false;
    }
    return true;
}

static tn_status read_again(tn__read_state *s, uint32_t id) {
    tn__job *job = &s->jobs[id].job;
    tn_op_form form = tn_op_form_of(s->graph, job->op, true);
    if (!read_repeats(s, job->op, &form)) return TN_OK;
    job->flags |= TN__JOB_REPEATS;
    s->places[id].again_inputs = tn__read_begin_list(s);
    for (uint32_t i = 0; i < form.input_count; i++) {
        tn_tensor_id input = tn_op_form_input(&form, i);
        if (input != TN_NONE)
            TN_TRY(tn__read_add(s, s->map->value[input], &job->again_input_count));
    }
    s->places[id].again_outputs = tn__read_begin_list(s);
    for (uint32_t k = 0; k < form.output_count; k++)
        if (form.op->outputs[k] != TN_NONE)
            TN_TRY(tn__read_add(s, s->map->value[form.op->outputs[k]], &job->again_output_count));
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
    job->again_cost = tn_costs_again_of(s->costs, job->op);
}

static tn_status read_scratch(tn__read_state *s, tn__job *job) {
    const tn_occupancy_options *memory = &s->map->memory;
    uint64_t first = tn__workspace(s->graph, memory, job->op, false);
    bool by_other = tn_op_form_of(s->graph, job->op, true).found != 0;
    uint64_t again = by_other ? tn__workspace(s->graph, memory, job->op, true) : 0;
    uint64_t most = first > again ? first : again;
    if (tn__align_up(most, memory->alignment, &job->scratch)) return TN_OK;
    TN_FAIL(s->error, TN_E_UNSUPPORTED, "the scratch of '%.80s' is too large",
            tn_graph_op(s->graph, job->op)->name);
}

/* --- writes into memory that other jobs read --- */

/* Calls for every root that an instruction of the job writes into. */
static void read_each_change(tn__read_state *s, uint32_t id,
                             void (*each)(tn__read_state *, tn_tensor_id, uint32_t)) {
    for (uint32_t step = s->map->first[id]; step < s->map->last[id]; step++) {
        tn_op_id op = s->instructions[step].op;
        uint64_t changes = op == TN_NONE ? 0 : tn_op_changes(s->graph, op);
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

/* Jobs that write into memory which this one reads: on the forward walk the writers before it, on
 * the backward walk those after it. */
static tn_status read_add_changers(tn__read_state *s, uint32_t id, uint32_t *count) {
    const tn__work_map *map = s->map;
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

/* Views that are jobs of their own come before their readers. */
static tn_status read_add_pinned(tn__read_state *s, uint32_t id) {
    const tn__work_map *map = s->map;
    for (uint32_t i = 0; i < map->read_count[id]; i++) {
        tn_tensor_id tensor = s->reads.items[map->read_first[id] + i];
        while (map->is_view[tensor]) { /* the source of this view */
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

tn_status tn__read_orders(tn__read_state *s) {
    uint32_t ordered = TN_NONE;
    for (uint32_t t = 0; t < tn_graph_tensor_count(s->graph); t++) s->changer[t] = TN_NONE;
    for (uint32_t j = 0; j < s->job_count; j++) {
        uint32_t *count = &s->jobs[j].job.after_count;
        s->places[j].after = tn__read_begin_list(s);
        TN_TRY(read_add_changers(s, j, count));
        if (!s->talks) TN_TRY(read_add_pinned(s, j)); /* ranks keep the order of first runs */
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

tn_status tn__read_job_of(tn__read_state *s, tn_op_id op, uint32_t step) {
    uint32_t id = s->job_count++;
    s->jobs[id].job = (tn__job){.op = op, .inplace = TN_NONE};
    s->map->first[id] = s->begin[op] != TN_NONE ? s->begin[op] : step;
    s->map->last[id] = step + 1;
    TN_TRY(read_inputs(s, id));
    TN_TRY(read_outputs(s, id));
    TN_TRY(read_again(s, id));
    read_costs(s, id);
    s->jobs[id].job.inplace = read_inplace(s, op);
    return read_scratch(s, &s->jobs[id].job);
}
