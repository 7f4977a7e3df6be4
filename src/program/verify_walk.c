/* verify_walk.c - checks in one walk over the list that every tensor exists when it is needed.
 *
 * A tensor exists from its definition to its release. Its readers come after its definition, and
 * a new definition comes after all of its readers; streams and signals must guarantee this, the
 * order of the list is not enough. An in-place write separates earlier readers of the memory
 * from later ones. A view may or may not share the memory of its source, so the program must be
 * correct in both cases.
 *
 * Contents are numbered. An operator that is recomputed must find the same contents as the first
 * time. Data that return from the host or from an encoded form must be unchanged.
 *
 * Inside control flow an instruction may read tensors from outside, but not release them. The
 * tensors that a region defines end with it, except its results, which its operator defines.
 */
#include "program/verify_walk.h"

tn_status tn__walk_touch(walk_state *walk, uint32_t *list, uint32_t what) {
    if (!tn__reserve(walk->context, &walk->touches, &walk->touch_room, walk->touch_count + 1,
                     sizeof *walk->touches))
        return tn__verify_no_memory(walk->verify);
    walk->touches[walk->touch_count] = (walk_touch){what, *list};
    *list = (uint32_t)walk->touch_count++;
    return TN_OK;
}

/* The first step in a list that may still run when `step` starts; VERIFY_NONE: all are over. */
static uint32_t walk_still(const walk_state *walk, uint32_t list, uint32_t step) {
    for (; list != VERIFY_NONE; list = walk->touches[list].next)
        if (!tn__verify_is_over(walk->verify, walk->touches[list].what, step))
            return walk->touches[list].what;
    return VERIFY_NONE;
}

static bool walk_is_static(const walk_state *walk, tn_tensor_id tensor) {
    return tn_tensor_is_static(tn_graph_tensor(walk->verify->graph, tensor));
}

uint32_t tn__walk_contents(walk_state *walk, tn_tensor_id tensor) {
    walk_tensor *it = &walk->tensors[tensor];
    uint32_t changes = walk->memories[it->memory].changes;
    if (it->changes != changes) it->contents = ++walk->contents;
    it->changes = changes;
    return it->contents;
}

/* --- read --- */

static tn_status walk_absent(const walk_state *walk, tn_tensor_id tensor, uint32_t step) {
    const walk_tensor *it = &walk->tensors[tensor];
    if (it->known && it->released != VERIFY_NONE)
        VERIFY_FAIL(walk->verify, step, tensor,
                    "instruction %u (%s) released it: define it again before this", it->released,
                    tn_opcode_name(walk->verify->instructions[it->released].opcode));
    if (it->known)
        VERIFY_FAIL(walk->verify, step, tensor,
                    "it was defined inside control flow, which has ended");
    VERIFY_FAIL(walk->verify, step, tensor, "nothing has defined it: %s",
                it->away     ? "its first copy is in the host's memory, swap it in"
                : it->stored ? "its contents are in a file, FETCH it"
                             : "PUT, APPLY or RECV it before this");
}

/* `first` must be over, because it writes or reads the memory that `step` now reads or writes. */
static tn_status walk_wait(const walk_state *walk, tn_tensor_id tensor, uint32_t first,
                           uint32_t step, const char *does) {
    const tn_instruction *instructions = walk->verify->instructions;
    if (tn__verify_is_over(walk->verify, first, step)) return TN_OK;
    VERIFY_FAIL(walk->verify, step, tensor,
                "instruction %u (%s, stream %u) %s it and may not be over: wait for a signal of it",
                first, tn_opcode_name(instructions[first].opcode), instructions[first].stream,
                does);
}

/* Refuses a tensor with missing parts, unless this instruction is the GATHER that adds them. */
static tn_status walk_whole(const walk_state *walk, tn_tensor_id tensor, uint32_t step) {
    const tn_instruction *it = &walk->verify->instructions[step];
    bool brings = it->opcode == TN_GATHER && it->tensor == tensor && it->other == TN_NONE;
    if (walk->tensors[tensor].parts == 0 || brings) return TN_OK;
    VERIFY_FAIL(walk->verify, step, tensor,
                "one of its %u parts is there: GATHER those that came to other ranks first",
                walk->tensors[tensor].parts);
}

tn_status tn__walk_read(walk_state *walk, tn_tensor_id tensor, uint32_t step) {
    if (tensor == TN_NONE) return TN_OK;
    walk_tensor *it = &walk->tensors[tensor];
    if (!it->here) return walk_absent(walk, tensor, step);
    TN_TRY(walk_whole(walk, tensor, step));
    walk_memory *memory = &walk->memories[it->memory];
    TN_TRY(walk_wait(walk, tensor, it->definer, step, "defines"));
    TN_TRY(walk_wait(walk, tensor, memory->writer, step, "changes"));
    bool before = it->definer == VERIFY_NONE || it->definer < memory->changer;
    if (memory->changer != VERIFY_NONE && before && it->root != memory->root)
        VERIFY_FAIL(walk->verify, step, tensor,
                    "instruction %u changed what may be its memory: read it before that, or have "
                    "that change a copy",
                    memory->changer);
    TN_TRY(tn__walk_touch(walk, &it->readers, step));
    return tn__walk_touch(walk, &memory->readers, step);
}

/* --- define, change, release --- */

static tn_status walk_new_memory(walk_state *walk, uint32_t *memory) {
    if (!tn__reserve(walk->context, &walk->memories, &walk->memory_room, walk->memory_count + 1,
                     sizeof *walk->memories))
        return tn__verify_no_memory(walk->verify);
    walk->memories[walk->memory_count] =
        (walk_memory){.writer = VERIFY_NONE, .readers = VERIFY_NONE, .changer = VERIFY_NONE};
    *memory = (uint32_t)walk->memory_count++;
    return TN_OK;
}

/* Defines a tensor in the memory of a view's source, or in new memory (view.source TN_NONE). */
static tn_status walk_define_in(walk_state *walk, tn_tensor_id tensor, uint32_t step,
                                uint32_t region, uint32_t contents, tn_view view) {
    walk_tensor *it = &walk->tensors[tensor];
    if (it->here && it->definer == VERIFY_NONE)
        VERIFY_FAIL(walk->verify, step, tensor, "it is there before the program starts");
    if (it->here)
        VERIFY_FAIL(walk->verify, step, tensor,
                    "instruction %u defined it and nothing released it: DROP it first",
                    it->definer);
    if (it->root != tensor && contents != 0 && view.source == TN_NONE)
        VERIFY_FAIL(walk->verify, step, tensor,
                    "it is another name of '%.60s' by definition: bring that back, and APPLY its "
                    "node",
                    tn_graph_tensor(walk->verify->graph, it->root)->name);
    if (it->known) {
        TN_TRY(walk_wait(walk, tensor, it->definer, step, "defines"));
        TN_TRY(walk_wait(walk, tensor, walk_still(walk, it->readers, step), step, "uses"));
    }
    bool views = view.source != TN_NONE && walk->tensors[view.source].here;
    if (views)
        it->memory = walk->tensors[view.source].memory;
    else
        TN_TRY(walk_new_memory(walk, &it->memory));
    it->here = it->known = true;
    it->definer = step;
    it->released = VERIFY_NONE;
    it->region = region;
    it->parts =
        walk->verify->instructions[step].parts > 1 ? walk->verify->instructions[step].parts : 0;
    it->root = views && view.must ? walk->tensors[view.source].root : tensor;
    it->readers = VERIFY_NONE;
    it->changes = it->born = walk->memories[it->memory].changes;
    it->contents = contents != 0 ? contents : ++walk->contents;
    return region == VERIFY_NONE ? TN_OK : tn__walk_touch(walk, &walk->inside[region], tensor);
}

tn_status tn__walk_define(walk_state *walk, tn_tensor_id tensor, uint32_t step, uint32_t region,
                          uint32_t contents) {
    if (tensor == TN_NONE) return TN_OK;
    return walk_define_in(walk, tensor, step, region, contents, (tn_view){.source = TN_NONE});
}

static tn_status walk_change(walk_state *walk, tn_tensor_id tensor, uint32_t step) {
    if (tensor == TN_NONE) return TN_OK;
    walk_tensor *it = &walk->tensors[tensor];
    walk_memory *memory = &walk->memories[it->memory];
    TN_TRY(walk_wait(walk, tensor, walk_still(walk, memory->readers, step), step, "reads"));
    memory->writer = step;
    memory->readers = VERIFY_NONE;
    memory->changes++;
    if (walk->verify->instructions[step].opcode == TN_APPLY) return TN_OK;
    if (tn_tensor_is_constant(tn_graph_tensor(walk->verify->graph, tensor)))
        VERIFY_FAIL(walk->verify, step, tensor, "it is constant: no run may change it");
    memory->changer = step;
    memory->root = it->root;
    walk->verify->brings[step] = it->parts;
    it->parts = 0;
    return TN_OK;
}

static tn_status walk_release(walk_state *walk, tn_tensor_id tensor, uint32_t step) {
    if (tensor == TN_NONE) return TN_OK;
    const verify_state *verify = walk->verify;
    walk_tensor *it = &walk->tensors[tensor];
    if (!it->here) return walk_absent(walk, tensor, step);
    if (it->region != verify->region_at[step])
        VERIFY_FAIL(verify, step, tensor,
                    "it was defined outside of the control flow that this is in: release it there");
    TN_TRY(walk_wait(walk, tensor, it->definer, step, "defines"));
    TN_TRY(tn__walk_check_form(walk, tensor, step));
    if (tn_opcode_facts_of(verify->instructions[step].opcode)->flags & TN_KEEPS)
        TN_TRY(tn__walk_touch(walk, &it->readers, step));
    tn__walk_contents(walk, tensor);
    it->here = false;
    it->released = step;
    return TN_OK;
}

/* --- operators --- */

/* Whether an operator may run a second time in this form. */
static tn_status walk_may_repeat(const walk_state *walk, const tn_op_form *form, tn_op_id id,
                                 uint32_t step) {
    const verify_state *verify = walk->verify;
    bool by_other = verify->instructions[step].again && form->type != NULL;
    if (by_other || tn_op_may_repeat(verify->graph, id)) return TN_OK;
    bool has_form = tn_op_form_of(verify->graph, id, true).type != NULL;
    VERIFY_FAIL(verify, step, TN_NONE, "instruction %u ran it, and it %s: %s", walk->last_time[id],
                tn_op_changes(verify->graph, id) != 0 ? "writes into its inputs"
                : tn_op_is_ordered(verify->graph, id) ? "does more than compute its outputs"
                                                      : "is not known to give the same again",
                has_form ? "set `again`" : "it runs once");
}

/* The contents that the form must find in an input: those of the first time, or those found
 * then. */
static uint32_t walk_before(const walk_state *walk, const tn_op_form *form, tn_op_id id,
                            uint32_t input) {
    bool found = input < 64 && (form->found >> input & 1);
    return found ? walk->tensors[form->op->outputs[input]].made : walk->before[id][input];
}

/* Why recomputing an operator would give other results than its first run. */
static tn_status walk_repeat(walk_state *walk, const tn_op_form *form, tn_op_id id, uint32_t step) {
    const verify_state *verify = walk->verify;
    uint32_t before = walk->last_time[id];
    TN_TRY(walk_may_repeat(walk, form, id, step));
    for (uint32_t i = 0; i < form->input_count; i++) {
        tn_tensor_id input = tn_op_form_input(form, i);
        if (input != TN_NONE && tn__walk_contents(walk, input) != walk_before(walk, form, id, i))
            VERIFY_FAIL(verify, step, input,
                        "it is not what it was at instruction %u, which ran the same node", before);
    }
    for (uint32_t k = 0; k < form->output_count; k++) {
        tn_tensor_id output = form->op->outputs[k];
        if (output == TN_NONE) continue;
        const walk_tensor *out = &walk->tensors[output];
        if (out->known && walk->memories[out->memory].changes != out->born)
            VERIFY_FAIL(verify, step, output,
                        "it was changed in place after instruction %u: that would be undone",
                        before);
    }
    return TN_OK;
}

/* Records the inputs of an operator that will be recomputed. */
static tn_status walk_remember(walk_state *walk, tn_op_id id) {
    const tn_op *op = tn_graph_op(walk->verify->graph, id);
    walk->before[id] =
        tn__arena_array(&walk->verify->arena, op->input_count, sizeof **walk->before);
    if (walk->before[id] == NULL) return tn__verify_no_memory(walk->verify);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE) walk->before[id][i] = tn__walk_contents(walk, op->inputs[i]);
    return TN_OK;
}

static tn_status walk_outputs(walk_state *walk, const tn_op_form *form, tn_op_id id, uint32_t step,
                              bool again) {
    const verify_state *verify = walk->verify;
    uint32_t present = 0, folded = 0;
    for (uint32_t k = 0; k < form->output_count; k++) {
        tn_tensor_id tensor = form->op->outputs[k];
        if (tensor == TN_NONE) continue;
        present++;
        folded += walk_is_static(walk, tensor);
        if (walk_is_static(walk, tensor)) continue;
        tn_view view = tn_op_view(verify->graph, id, k);
        if (view.source != TN_NONE && view.must && walk->tensors[view.source].stored)
            VERIFY_FAIL(verify, step, tensor,
                        "it is another name of '%.60s' by definition, whose file would not know "
                        "what is written there: do not fetch that",
                        tn_graph_tensor(verify->graph, view.source)->name);
        TN_TRY(walk_define_in(walk, tensor, step, verify->region_at[step],
                              again ? walk->tensors[tensor].made : 0, view));
        walk->tensors[tensor].made = walk->tensors[tensor].contents;
    }
    if (present > 0 && folded == present)
        VERIFY_FAIL(verify, step, TN_NONE, "its node is folded: its outputs are there already");
    return TN_OK;
}

static tn_status walk_leave(walk_state *walk, uint32_t region, uint32_t step);
static tn_status walk_enter(walk_state *walk, uint32_t region, uint32_t step);

static tn_status walk_apply(walk_state *walk, tn_op_id id, uint32_t step) {
    const verify_state *verify = walk->verify;
    tn_op_form form = tn_op_form_of(verify->graph, id, verify->instructions[step].again);
    for (uint32_t r = verify->of_op[id]; r != VERIFY_NONE; r = verify->next[r]) {
        if (verify->regions[r].first < verify->regions[r].last) continue;
        TN_TRY(walk_enter(walk, r, step)); /* an empty region passes its inputs on */
        TN_TRY(walk_leave(walk, r, step));
    }
    for (uint32_t i = 0; i < form.input_count; i++)
        TN_TRY(tn__walk_read(walk, tn_op_form_input(&form, i), step));
    bool again = walk->last_time[id] != VERIFY_NONE;
    if (!again && verify->instructions[step].again)
        VERIFY_FAIL(verify, step, TN_NONE, "it runs again what has not run before");
    if (again) TN_TRY(walk_repeat(walk, &form, id, step));
    if (!again && walk->times[id] > 1) TN_TRY(walk_remember(walk, id));
    walk->last_time[id] = step;
    if (tn_op_is_ordered(verify->graph, id)) {
        if (!tn__verify_is_over(verify, walk->ordered, step))
            VERIFY_FAIL(verify, step, TN_NONE,
                        "instruction %u does more than compute, as this does: it must be over",
                        walk->ordered);
        walk->ordered = step;
    }
    for (uint32_t i = 0; i < form.input_count && i < 64; i++)
        if (form.changes >> i & 1) TN_TRY(walk_change(walk, form.op->inputs[i], step));
    return walk_outputs(walk, &form, id, step, again);
}

/* --- control flow --- */

static tn_status walk_enter(walk_state *walk, uint32_t region, uint32_t step) {
    const verify_state *verify = walk->verify;
    const tn_op *op = tn_graph_op(verify->graph, verify->regions[region].op);
    const tn_block *block = tn_graph_block(verify->graph, verify->regions[region].block);
    for (uint32_t i = 0; i < op->input_count; i++) TN_TRY(tn__walk_read(walk, op->inputs[i], step));
    for (uint32_t i = 0; i < block->input_count; i++)
        if (block->inputs[i] != TN_NONE && !walk_is_static(walk, block->inputs[i]))
            TN_TRY(tn__walk_define(walk, block->inputs[i], step, region, 0));
    return TN_OK;
}

static tn_status walk_leave(walk_state *walk, uint32_t region, uint32_t step) {
    const verify_state *verify = walk->verify;
    const tn_block *block = tn_graph_block(verify->graph, verify->regions[region].block);
    for (uint32_t i = 0; i < block->output_count; i++)
        TN_TRY(tn__walk_read(walk, block->outputs[i], step));
    for (uint32_t at = walk->inside[region]; at != VERIFY_NONE; at = walk->touches[at].next) {
        tn_tensor_id tensor = walk->touches[at].what;
        if (!walk->tensors[tensor].here || walk->tensors[tensor].region != region) continue;
        TN_TRY(tn__walk_check_form(walk, tensor, step));
        tn__walk_contents(walk, tensor);
        walk->tensors[tensor].here = false;
    }
    return TN_OK;
}

/* --- the walk --- */

static tn_status walk_step(walk_state *walk, uint32_t step) {
    const verify_state *verify = walk->verify;
    const tn_instruction *it = &verify->instructions[step];
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    uint32_t contents = 0;
    if (facts->reads == TN_AFFECTS_OPERATOR) return walk_apply(walk, it->op, step);
    tn_effects does = tn_instruction_effects(it);
    TN_TRY(tn__walk_read(walk, does.reads, step));
    if ((facts->link == TN_LINK_TO_HOST || facts->link == TN_LINK_TO_PEER) &&
        facts->blocks != TN_BLOCKS_NOBODY)
        walk->tensors[it->tensor].fetched = true;
    TN_TRY(walk_change(walk, does.changes, step));
    TN_TRY(tn__walk_copy(walk, step, &contents));
    TN_TRY(tn__walk_define(walk, does.defines, step, verify->region_at[step], contents));
    return walk_release(walk, does.releases, step);
}

static tn_status walk_all(walk_state *walk) {
    const verify_state *verify = walk->verify;
    for (uint32_t step = 0; step < verify->count; step++) {
        for (; walk->next < verify->sorted_count; walk->next++) {
            uint32_t region = verify->sorted[walk->next];
            if (verify->regions[region].first != step) break;
            TN_TRY(walk_enter(walk, region, step));
        }
        TN_TRY(walk_step(walk, step));
        for (uint32_t r = verify->region_at[step];
             r != VERIFY_NONE && verify->regions[r].last == step + 1; r = verify->around[r])
            TN_TRY(walk_leave(walk, r, step));
    }
    return TN_OK;
}

/* All graph outputs must be fetched, if not here then on another rank. */
static tn_status walk_end(walk_state *walk) {
    const verify_state *verify = walk->verify;
    const tn_block *block = tn_graph_block(verify->graph, 0);
    for (uint32_t i = 0; i < block->output_count; i++) {
        tn_tensor_id id = block->outputs[i];
        if (id == TN_NONE || walk_is_static(walk, id) || walk->tensors[id].fetched) continue;
        if (walk->speaks && !walk->tensors[id].known) continue;
        return tn__where(
            verify->error,
            tn__fail(verify->error, TN_E_INVALID,
                     "it is an output of the graph and no instruction fetches it: GET it"),
            "tensor '%.80s'", tn_graph_tensor(verify->graph, id)->name);
    }
    return tn__walk_copies_end(walk);
}

static tn_status walk_begin(walk_state *walk, tn__arena *arena) {
    const verify_state *verify = walk->verify;
    uint32_t ops = tn_graph_op_count(verify->graph);
    if (!(walk->tensors = tn__arena_array(arena, verify->tensor_count, sizeof *walk->tensors)) ||
        !(walk->inside = tn__arena_array(arena, verify->region_count, sizeof *walk->inside)) ||
        !(walk->times = tn__arena_array(arena, ops, sizeof *walk->times)) ||
        !(walk->before = tn__arena_array(arena, ops, sizeof *walk->before)) ||
        !(walk->last_time = tn__arena_array(arena, ops, sizeof *walk->last_time)))
        return tn__verify_no_memory(verify);
    memset(walk->inside, 0xff, verify->region_count * sizeof *walk->inside);
    memset(walk->last_time, 0xff, ops * sizeof *walk->last_time);
    uint32_t none; /* the memory of tensors that were never defined */
    TN_TRY(walk_new_memory(walk, &none));
    for (uint32_t i = 0; i < verify->tensor_count; i++) {
        walk_tensor *it = &walk->tensors[i];
        *it = (walk_tensor){.definer = VERIFY_NONE,
                            .released = VERIFY_NONE,
                            .region = VERIFY_NONE,
                            .root = i,
                            .readers = VERIFY_NONE,
                            .contents = WALK_FIRST};
        it->here = it->known = walk_is_static(walk, i);
        if (it->here) TN_TRY(walk_new_memory(walk, &it->memory));
    }
    for (uint32_t step = 0; step < verify->count; step++) {
        const tn_instruction *it = &verify->instructions[step];
        tn_blocks blocks = tn_opcode_facts_of(it->opcode)->blocks;
        walk->speaks |= blocks == TN_BLOCKS_PEER || blocks == TN_BLOCKS_GROUP;
        if (it->op != TN_NONE) walk->times[it->op]++;
    }
    return tn__walk_copies_begin(walk);
}

tn_status tn__verify_walk(verify_state *verify) {
    walk_state walk = {.verify = verify,
                       .context = &verify->program->context,
                       .ordered = VERIFY_NONE,
                       .contents = WALK_FIRST};
    tn_status status = walk_begin(&walk, &verify->arena);
    if (status == TN_OK) status = walk_all(&walk);
    if (status == TN_OK) status = walk_end(&walk);
    tn__free(walk.context, walk.memories, walk.memory_room * sizeof *walk.memories);
    tn__free(walk.context, walk.touches, walk.touch_room * sizeof *walk.touches);
    return status;
}
