/* verify_walk.c - checks in one walk over the list that every tensor exists when it is needed,
 * with the right contents, in the arena and outside of it.
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
 *
 * Cost: O(instructions + operands).
 */
#include "graph/op.h"
#include "program/verify/verify.h"

/* --- tensors in the arena --------------------------------------------------------------------- */

#define WALK_FIRST 1u /* number of the contents that exist before the program starts */

/* A tensor during the walk. Tensors with equal `contents` have equal bytes. */
typedef struct walk_tensor {
    bool here;    /* the tensor has been defined and not released */
    bool known;   /* the tensor has been defined at least once */
    bool fetched; /* the caller or another rank has received the tensor */
    /* the tensor is static, but lies in host memory when the program starts and when it ends */
    bool away;
    /* the tensor is static, but is in memory only after a FETCH has read it from its file */
    bool stored;
    uint32_t definer, released; /* steps */
    uint32_t region;            /* innermost region around the definition */
    uint32_t memory;            /* index in `memories` of the memory in which the tensor lies */
    uint32_t root;    /* the tensor itself, or its source if it is an alias by definition */
    uint32_t readers; /* list of the steps that have read the tensor since its definition */
    uint32_t contents;
    uint32_t changes; /* number of changes of the tensor's memory when `contents` was assigned */
    uint32_t born;    /* number of changes of the tensor's memory when the tensor was defined */
    /* number of the contents that the tensor's operator, or the GATHER that defined it, produces */
    uint32_t made;
    /* number of the contents on this rank that the newest communication combined with those of the
     * other ranks: for GATHER and SCATTER of the tensor `tensor`, for REDUCE of this tensor */
    uint32_t part;
    uint32_t combined; /* number of the contents after the newest REDUCE; 0: there was none */
    /* number of parts, if a RECV has brought only one of them; 0: the tensor is complete */
    uint32_t parts;
} walk_tensor;

/* Memory that several tensors may share: a tensor and its views. */
typedef struct walk_memory {
    uint32_t writer;  /* newest step that changed the memory in place */
    uint32_t readers; /* list of the steps that have read the memory since its last change */
    uint32_t changes;
    uint32_t changer; /* newest step that changed the memory and does not run an operator */
    uint32_t root;    /* root of the tensor that the step `changer` changed */
} walk_memory;

typedef struct walk_touch {
    uint32_t what, next;
} walk_touch;

/* a buffer of the host pool, with the tensor that was last swapped out to it */
typedef struct walk_host {
    tn_tensor_id tensor;
    uint32_t contents, writer, readers;
    /* the tensor has been swapped out to this buffer and has not been swapped in yet */
    bool pending;
} walk_host;

typedef struct walk_form { /* the encoded form of a tensor */
    tn_tensor_id of;
    tn_codec codec;
    uint32_t contents; /* number of the contents of the tensor `of` that the form encodes */
    /* number of the contents of the form itself, as long as `of` has the contents in `contents` */
    uint32_t itself;
    /* number of the contents of the form itself if it came from another rank or is static */
    uint32_t received;
} walk_form;

typedef struct walk_state {
    verify_state *verify;
    const tn_context *context;
    walk_tensor *tensors;
    walk_memory *memories;
    size_t memory_count, memory_room;
    walk_touch *touches;
    size_t touch_count, touch_room;
    uint32_t *inside; /* [regions] list of the tensors that the region has defined */
    uint32_t *times;  /* [operators] number of APPLY instructions of the operator */
    /* [operators] numbers of the contents of the operator's inputs at its first run */
    uint32_t **before;
    uint32_t *last_time; /* [operators] newest step that ran the operator */
    /* [tensors + instructions + 1] host buffers: first one for each tensor, then one for each slot;
     * may be NULL */
    walk_host *hosts;
    walk_form *forms;  /* [tensors] the encoded form of each tensor; may be NULL */
    uint32_t contents; /* number of contents created so far */
    /* newest operator with effects other than its outputs; such operators keep their order */
    uint32_t ordered;
    uint32_t next; /* index in verify->sorted of the next region that begins */
    bool speaks;   /* the program communicates with other ranks */
} walk_state;

static tn_status walk_note_touch(walk_state *walk, uint32_t *list, uint32_t what) {
    if (!tn__reserve(walk->context, &walk->touches, &walk->touch_room, walk->touch_count + 1,
                     sizeof *walk->touches))
        return tn__verify_no_memory(walk->verify);
    walk->touches[walk->touch_count] = (walk_touch){what, *list};
    *list = (uint32_t)walk->touch_count++;
    return TN_OK;
}

/* Finds the first step in a list that may still be running when `step` starts; VERIFY_NONE: all of
 * them are over. */
static uint32_t walk_still(const walk_state *walk, uint32_t list, uint32_t step) {
    for (; list != VERIFY_NONE; list = walk->touches[list].next)
        if (!tn__verify_is_over(walk->verify, walk->touches[list].what, step))
            return walk->touches[list].what;
    return VERIFY_NONE;
}

static bool walk_is_static(const walk_state *walk, tn_tensor_id tensor) {
    return tn_tensor_is_static(tn_graph_tensor(walk->verify->graph, tensor));
}

/* Returns the number of a tensor's contents at this point of the walk. */
static uint32_t walk_contents(walk_state *walk, tn_tensor_id tensor) {
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

/* Checks that step `first` is over before `step` starts, because both steps access a tensor's
 * memory. */
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

static tn_status walk_read(walk_state *walk, tn_tensor_id tensor, uint32_t step) {
    if (tensor == TN_NONE) return TN_OK;
    walk_tensor *it = &walk->tensors[tensor];
    if (!it->here) return walk_absent(walk, tensor, step);
    TN_TRY(walk_whole(walk, tensor, step));
    walk_memory *memory = &walk->memories[it->memory];
    TN_TRY(walk_wait(walk, tensor, it->definer, step, "defines"));
    TN_TRY(walk_wait(walk, tensor, memory->writer, step, "changes"));
    if (it->combined != 0 && walk_contents(walk, tensor) == it->part &&
        walk->verify->instructions[step].opcode != TN_REDUCE)
        VERIFY_FAIL(walk->verify, step, tensor,
                    "it has this rank's own values, and the other ranks' were added to it before: "
                    "REDUCE it again");
    bool before = it->definer == VERIFY_NONE || it->definer < memory->changer;
    if (memory->changer != VERIFY_NONE && before && it->root != memory->root)
        VERIFY_FAIL(walk->verify, step, tensor,
                    "instruction %u changed what may be its memory: read it before that, or have "
                    "that change a copy",
                    memory->changer);
    TN_TRY(walk_note_touch(walk, &it->readers, step));
    return walk_note_touch(walk, &memory->readers, step);
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
    return region == VERIFY_NONE ? TN_OK : walk_note_touch(walk, &walk->inside[region], tensor);
}

/* Defines a tensor. contents: 0 assigns a new number. region: the innermost region around the
 * definition. */
static tn_status walk_define(walk_state *walk, tn_tensor_id tensor, uint32_t step, uint32_t region,
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

static tn_status walk_check_form(walk_state *walk, tn_tensor_id tensor, uint32_t step);

static tn_status walk_release(walk_state *walk, tn_tensor_id tensor, uint32_t step) {
    if (tensor == TN_NONE) return TN_OK;
    const verify_state *verify = walk->verify;
    walk_tensor *it = &walk->tensors[tensor];
    if (!it->here) return walk_absent(walk, tensor, step);
    if (it->region != verify->region_at[step])
        VERIFY_FAIL(verify, step, tensor,
                    "it was defined outside of the control flow that this is in: release it there");
    TN_TRY(walk_wait(walk, tensor, it->definer, step, "defines"));
    TN_TRY(walk_check_form(walk, tensor, step));
    if (tn_opcode_facts_of(verify->instructions[step].opcode)->flags & TN_KEEPS)
        TN_TRY(walk_note_touch(walk, &it->readers, step));
    walk_contents(walk, tensor);
    it->here = false;
    it->released = step;
    return TN_OK;
}

/* --- operators --- */

/* Whether the ranks combine the operator's results, so that it may be recomputed if they do so
 * again. */
static bool walk_combines(const walk_state *walk, tn_op_id id) {
    return tn__op_has(walk->verify->graph, id, TN_RULE_RANKS_COMBINE);
}

/* Checks that an operator may run a second time in this form. */
static tn_status walk_may_repeat(const walk_state *walk, const tn_op_form *form, tn_op_id id,
                                 uint32_t step) {
    const verify_state *verify = walk->verify;
    bool by_other = verify->instructions[step].again && form->type != NULL;
    if (by_other || tn_op_may_repeat(verify->graph, id) || walk_combines(walk, id)) return TN_OK;
    bool has_form = tn_op_form_of(verify->graph, id, true).type != NULL;
    VERIFY_FAIL(verify, step, TN_NONE, "instruction %u ran it, and it %s: %s", walk->last_time[id],
                tn_op_changes(verify->graph, id) != 0 ? "writes into its inputs"
                : tn__op_draws(verify->graph, id)
                    ? "draws random numbers, and is not known to give the same again"
                : tn_op_is_ordered(verify->graph, id) ? "does more than compute its outputs"
                                                      : "is not known to give the same again",
                has_form ? "set `again`" : "it runs once");
}

/* The number of the contents that a recomputation must find in an input: those of the operator's
 * first run. If the recomputation takes the input's old contents from an output of the operator
 * (form->found), it is the number of that output's contents. */
static uint32_t walk_before(const walk_state *walk, const tn_op_form *form, tn_op_id id,
                            uint32_t input) {
    bool found = input < 64 && (form->found >> input & 1);
    return found ? walk->tensors[form->op->outputs[input]].made : walk->before[id][input];
}

/* Checks that recomputing an operator gives the results of its first run; the error says why it
 * would not. */
static tn_status walk_repeat(walk_state *walk, const tn_op_form *form, tn_op_id id, uint32_t step) {
    const verify_state *verify = walk->verify;
    uint32_t before = walk->last_time[id];
    TN_TRY(walk_may_repeat(walk, form, id, step));
    for (uint32_t i = 0; i < form->input_count; i++) {
        tn_tensor_id input = tn_op_form_input(form, i);
        if (input != TN_NONE && walk_contents(walk, input) != walk_before(walk, form, id, i))
            VERIFY_FAIL(verify, step, input,
                        "it is not what it was at instruction %u, which ran the same node", before);
    }
    for (uint32_t k = 0; k < form->output_count; k++) {
        tn_tensor_id output = form->op->outputs[k];
        if (output == TN_NONE) continue;
        const walk_tensor *out = &walk->tensors[output];
        /* a REDUCE changed it, and walk_read demands another one after this step */
        if (walk_combines(walk, id) && walk_contents(walk, output) == out->combined) continue;
        if (out->known && walk->memories[out->memory].changes != out->born)
            VERIFY_FAIL(verify, step, output,
                        "it was changed in place after instruction %u: that would be undone",
                        before);
    }
    return TN_OK;
}

/* Records the contents of the inputs of an operator that will be recomputed. */
static tn_status walk_remember(walk_state *walk, tn_op_id id) {
    const tn_op *op = tn_graph_op(walk->verify->graph, id);
    walk->before[id] =
        tn__arena_array(&walk->verify->arena, op->input_count, sizeof **walk->before);
    if (walk->before[id] == NULL) return tn__verify_no_memory(walk->verify);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE) walk->before[id][i] = walk_contents(walk, op->inputs[i]);
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
        /* an empty region has no step of its own, so it is entered and left at the APPLY of its
         * operator */
        TN_TRY(walk_enter(walk, r, step));
        TN_TRY(walk_leave(walk, r, step));
    }
    for (uint32_t i = 0; i < form.input_count; i++)
        TN_TRY(walk_read(walk, tn_op_form_input(&form, i), step));
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
    for (uint32_t i = 0; i < op->input_count; i++) TN_TRY(walk_read(walk, op->inputs[i], step));
    for (uint32_t i = 0; i < block->input_count; i++)
        if (block->inputs[i] != TN_NONE && !walk_is_static(walk, block->inputs[i]))
            TN_TRY(walk_define(walk, block->inputs[i], step, region, 0));
    return TN_OK;
}

static tn_status walk_leave(walk_state *walk, uint32_t region, uint32_t step) {
    const verify_state *verify = walk->verify;
    const tn_block *block = tn_graph_block(verify->graph, verify->regions[region].block);
    for (uint32_t i = 0; i < block->output_count; i++)
        TN_TRY(walk_read(walk, block->outputs[i], step));
    for (uint32_t at = walk->inside[region]; at != VERIFY_NONE; at = walk->touches[at].next) {
        tn_tensor_id tensor = walk->touches[at].what;
        if (!walk->tensors[tensor].here || walk->tensors[tensor].region != region) continue;
        TN_TRY(walk_check_form(walk, tensor, step));
        walk_contents(walk, tensor);
        walk->tensors[tensor].here = false;
    }
    return TN_OK;
}

/* --- the walk --- */

static tn_status walk_copy(walk_state *walk, uint32_t step, uint32_t *contents);

/* Numbers the contents of a tensor after a REDUCE. `own` is the number of its contents before. If
 * an earlier REDUCE began with the same contents, so did those of the other ranks, and the result
 * is the same. Only results of operators that mark such a sum are combined twice. */
static void walk_combine(walk_state *walk, tn_tensor_id tensor, uint32_t own) {
    walk_tensor *it = &walk->tensors[tensor];
    const tn_op_id maker = tn_graph_tensor(walk->verify->graph, tensor)->producer;
    if (maker == TN_NONE || !walk_combines(walk, maker)) return;
    if (it->combined == 0 || it->part != own) it->combined = ++walk->contents;
    it->part = own;
    it->contents = it->combined;
    it->changes = walk->memories[it->memory].changes;
}

static tn_status walk_step(walk_state *walk, uint32_t step) {
    const verify_state *verify = walk->verify;
    const tn_instruction *it = &verify->instructions[step];
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    uint32_t contents = 0;
    if (facts->reads == TN_AFFECTS_OPERATOR) return walk_apply(walk, it->op, step);
    tn_effects does = tn_instruction_effects(it);
    TN_TRY(walk_read(walk, does.reads, step));
    if ((facts->link == TN_LINK_TO_HOST || facts->link == TN_LINK_TO_PEER) &&
        facts->blocks != TN_BLOCKS_NOBODY)
        walk->tensors[it->tensor].fetched = true;
    uint32_t own = it->opcode == TN_REDUCE ? walk_contents(walk, it->tensor) : 0;
    TN_TRY(walk_change(walk, does.changes, step));
    if (it->opcode == TN_REDUCE) walk_combine(walk, it->tensor, own);
    TN_TRY(walk_copy(walk, step, &contents));
    TN_TRY(walk_define(walk, does.defines, step, verify->region_at[step], contents));
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

static tn_status walk_copies_end(walk_state *walk);

/* Checks that all graph outputs are fetched, on this rank or on another one. */
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
    return walk_copies_end(walk);
}

static tn_status walk_copies_begin(walk_state *walk);

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
    uint32_t none; /* index of the empty memory that tensors have before their definition */
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
    return walk_copies_begin(walk);
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

/* --- host buffers, encoded forms, files ------------------------------------------------------- */

/* Checks data outside the arena: buffers of the host pool, encoded forms, files.
 *
 * A host buffer holds the tensor that was last swapped out to it. The tensor may return several
 * times, until it is changed. A static tensor may begin and end in host memory, where its first
 * swap brings it in; every other tensor that is swapped out must return. Tensors that are
 * fetched from a file are constant, so they may be released and fetched at any time.
 */

/* --- the host pool --- */

static walk_host *copies_host(walk_state *walk, const tn_instruction *it) {
    return &walk->hosts[it->slot == 0 ? it->tensor : walk->verify->tensor_count + it->slot];
}

static tn_status copies_wait(const walk_state *walk, uint32_t first, uint32_t step) {
    const verify_state *verify = walk->verify;
    if (tn__verify_is_over(verify, first, step)) return TN_OK;
    VERIFY_FAIL(verify, step, verify->instructions[step].tensor,
                "instruction %u (%s, stream %u) uses the same buffer of the host and may not be "
                "over: wait for a signal of it",
                first, tn_opcode_name(verify->instructions[first].opcode),
                verify->instructions[first].stream);
}

static const char *copies_name(const walk_state *walk, tn_tensor_id tensor) {
    return tensor == TN_NONE ? "nothing" : tn_graph_tensor(walk->verify->graph, tensor)->name;
}

static tn_status copies_out(walk_state *walk, uint32_t step) {
    const tn_instruction *it = &walk->verify->instructions[step];
    walk_host *host = copies_host(walk, it);
    if (host->pending)
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "its buffer of the host still has '%.60s', which instruction %u swapped out "
                    "and nothing swapped in",
                    copies_name(walk, host->tensor), host->writer);
    TN_TRY(copies_wait(walk, host->writer, step));
    for (uint32_t at = host->readers; at != VERIFY_NONE; at = walk->touches[at].next)
        TN_TRY(copies_wait(walk, walk->touches[at].what, step));
    *host = (walk_host){.tensor = it->tensor,
                        .contents = walk_contents(walk, it->tensor),
                        .writer = step,
                        .readers = VERIFY_NONE,
                        .pending =
                            !tn_tensor_is_static(tn_graph_tensor(walk->verify->graph, it->tensor))};
    return TN_OK;
}

static tn_status copies_in(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    walk_host *host = copies_host(walk, it);
    if (host->tensor != it->tensor)
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "its buffer of the host has %s%.60s: swap it out there before this",
                    host->tensor == TN_NONE ? "" : "tensor ", copies_name(walk, host->tensor));
    TN_TRY(copies_wait(walk, host->writer, step));
    if (!walk->tensors[it->tensor].here && host->contents != walk_contents(walk, it->tensor))
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "it has changed since the host's copy was made: swap it out again");
    *contents = host->contents;
    host->pending = false;
    return walk_note_touch(walk, &host->readers, step);
}

/* --- encoded forms --- */

static tn_status copies_encode(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    *contents = ++walk->contents;
    walk->forms[it->other] = (walk_form){.of = it->tensor,
                                         .codec = it->codec,
                                         .contents = walk_contents(walk, it->tensor),
                                         .itself = *contents,
                                         .received = VERIFY_NONE};
    return TN_OK;
}

static tn_status copies_decode(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    const walk_form *form = &walk->forms[it->other];
    uint32_t itself = walk_contents(walk, it->other);
    /* the form came from another rank or is static, and it is unchanged, so it is valid */
    if (form->received == itself) return TN_OK;
    if (form->itself != itself)
        VERIFY_FAIL(walk->verify, step, it->other,
                    "it is not an encoded form: ENCODE '%.60s' into it, or RECV it",
                    copies_name(walk, it->tensor));
    if (form->of != it->tensor || form->codec != it->codec)
        VERIFY_FAIL(walk->verify, step, it->other, "it is '%.60s' by codec %s, not '%.60s' by %s",
                    copies_name(walk, form->of), tn_codec_name(form->codec),
                    copies_name(walk, it->tensor), tn_codec_name(it->codec));
    if (!walk->tensors[it->tensor].here && form->contents != walk_contents(walk, it->tensor))
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "it has changed since it was encoded: encode it again");
    *contents = form->contents;
    return TN_OK;
}

/* Checks that the encoded form of a tensor had a reader before it ends: a form without a reader
 * would be useless. */
static tn_status walk_check_form(walk_state *walk, tn_tensor_id tensor, uint32_t step) {
    const verify_state *verify = walk->verify;
    const walk_tensor *it = &walk->tensors[tensor];
    if (it->definer == VERIFY_NONE || verify->instructions[it->definer].opcode != TN_ENCODE ||
        it->readers != VERIFY_NONE)
        return TN_OK;
    VERIFY_FAIL(verify, step, tensor,
                "instruction %u encoded it and nothing read it: DECODE it, or do not ENCODE",
                it->definer);
}

/* --- files --- */

/* A fetch restores the original contents of the tensor, because its file never changes. */
static tn_status copies_fetch(const walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    if (!tn_tensor_is_constant(tn_graph_tensor(walk->verify->graph, it->tensor)))
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "it is not constant: no file has what it is now");
    if (walk->tensors[it->tensor].away)
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "it begins in the host's memory: swap it in there, or fetch it everywhere");
    *contents = WALK_FIRST;
    return TN_OK;
}

/* Marks tensors that have a FETCH anywhere in the program: they are not in memory when it
 * starts. */
static void copies_stored(walk_state *walk) {
    const verify_state *verify = walk->verify;
    for (uint32_t step = 0; step < verify->count; step++) {
        const tn_instruction *it = &verify->instructions[step];
        if (tn_opcode_facts_of(it->opcode)->link != TN_LINK_FROM_STORAGE) continue;
        walk_tensor *tensor = &walk->tensors[it->tensor];
        /* skips tensors that are marked already or not static; the walk refuses a FETCH of a tensor
         * that is not static */
        if (!tensor->here) continue;
        tensor->stored = true;
        tensor->here = tensor->known = false;
    }
}

/* --- parts, and all instructions --- */

/* Checks that parts and whole fit: the size of one tensor is a multiple of the other's size. */
static tn_status copies_parts(walk_state *walk, uint32_t step) {
    const tn_instruction *it = &walk->verify->instructions[step];
    if (it->other == TN_NONE) return TN_OK;
    uint64_t a = tn_graph_tensor(walk->verify->graph, it->tensor)->bytes;
    uint64_t b = tn_graph_tensor(walk->verify->graph, it->other)->bytes;
    uint64_t part = it->opcode == TN_GATHER ? a : b, whole = it->opcode == TN_GATHER ? b : a;
    if (a == TN_SIZE_UNKNOWN || b == TN_SIZE_UNKNOWN || (part > 0 && whole % part == 0))
        return TN_OK;
    VERIFY_FAIL(walk->verify, step, it->other, "%llu bytes are not a whole number of parts of %llu",
                (unsigned long long)whole, (unsigned long long)part);
}

/* Numbers the contents of the tensor that a GATHER or a SCATTER defines. If the contents on this
 * rank are unchanged, so is the result: all ranks take part, and no rank has changed its own. */
static void copies_gather(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    walk_tensor *whole = &walk->tensors[it->other];
    const tn_instruction *was =
        whole->definer != VERIFY_NONE ? &walk->verify->instructions[whole->definer] : NULL;
    uint32_t part = walk_contents(walk, it->tensor);
    bool again = was != NULL && was->opcode == it->opcode && was->tensor == it->tensor &&
                 was->reduction == it->reduction && was->other == it->other &&
                 was->group == it->group && whole->part == part &&
                 walk->memories[whole->memory].changes == whole->born;
    if (!again) whole->made = ++walk->contents;
    whole->part = part;
    *contents = whole->made;
}

/* Applies an instruction to the host buffers and the encoded forms. *contents receives the number
 * of the contents that the defined tensor gets; 0 means new contents. */
static tn_status walk_copy(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    if (facts->flags & TN_USES_SLOT)
        return facts->link == TN_LINK_TO_HOST ? copies_out(walk, step)
                                              : copies_in(walk, step, contents);
    if (facts->flags & TN_USES_CODEC)
        return facts->defines == TN_AFFECTS_OTHER ? copies_encode(walk, step, contents)
                                                  : copies_decode(walk, step, contents);
    if ((it->opcode == TN_GATHER || it->opcode == TN_SCATTER) && it->other != TN_NONE)
        copies_gather(walk, step, contents);
    if (facts->flags & TN_MAY_CHANGE) return copies_parts(walk, step);
    const walk_tensor *tensor = facts->link == TN_LINK_NONE ? NULL : &walk->tensors[it->tensor];
    if (facts->link == TN_LINK_FROM_HOST && tensor->known &&
        walk->memories[tensor->memory].changes == tensor->born)
        *contents = tensor->contents; /* the copy has the contents that the tensor had */
    if (facts->link == TN_LINK_FROM_STORAGE) return copies_fetch(walk, step, contents);
    if (facts->link == TN_LINK_FROM_PEER && walk->forms != NULL)
        walk->forms[it->tensor].received = *contents = ++walk->contents;
    return TN_OK;
}

/* --- begin and end of the program --- */

/* Marks a static tensor that is swapped in before it is swapped out: it is in host memory when the
 * program starts. */
static void copies_away(walk_state *walk) {
    const verify_state *verify = walk->verify;
    for (uint32_t step = verify->count; step-- > 0;) {
        const tn_instruction *it = &verify->instructions[step];
        const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
        if (!(facts->flags & TN_USES_SLOT)) continue;
        walk_tensor *tensor = &walk->tensors[it->tensor];
        /* for a static tensor, the first swap in the list decides where it is when the program
         * starts */
        if (tensor->here || tensor->away)
            tensor->away = facts->link == TN_LINK_FROM_HOST && it->slot == 0;
        if (tensor->known) tensor->here = !tensor->away;
    }
    for (uint32_t i = 0; i < verify->tensor_count; i++) {
        if (!walk->tensors[i].away) continue;
        walk->tensors[i].known = false;
        walk->hosts[i].tensor = i;
        walk->hosts[i].contents = WALK_FIRST;
    }
}

/* Sets up the host buffers and the encoded forms as they are before the program starts. */
static tn_status walk_copies_begin(walk_state *walk) {
    verify_state *verify = walk->verify;
    uint32_t uses = 0;
    copies_stored(walk);
    for (uint32_t step = 0; step < verify->count; step++)
        uses |= tn_opcode_facts_of(verify->instructions[step].opcode)->flags;
    if (uses & TN_USES_CODEC) {
        walk->forms = tn__arena_array(&verify->arena, verify->tensor_count, sizeof *walk->forms);
        if (walk->forms == NULL) return tn__verify_no_memory(verify);
        for (uint32_t i = 0; i < verify->tensor_count; i++)
            walk->forms[i] =
                (walk_form){.itself = VERIFY_NONE,
                            .received = walk->tensors[i].here ? WALK_FIRST : VERIFY_NONE};
    }
    if (!(uses & TN_USES_SLOT)) return TN_OK;
    size_t hosts = (size_t)verify->tensor_count + verify->count + 1;
    walk->hosts = tn__arena_array(&verify->arena, hosts, sizeof *walk->hosts);
    if (walk->hosts == NULL) return tn__verify_no_memory(verify);
    for (size_t i = 0; i < hosts; i++)
        walk->hosts[i] =
            (walk_host){.tensor = TN_NONE, .writer = VERIFY_NONE, .readers = VERIFY_NONE};
    copies_away(walk);
    return TN_OK;
}

#define COPIES_FAIL(walk, tensor, ...)                                                             \
    return tn__where((walk)->verify->error,                                                        \
                     tn__fail((walk)->verify->error, TN_E_INVALID, __VA_ARGS__), "tensor '%.80s'", \
                     copies_name(walk, tensor))

static tn_status walk_copies_end(walk_state *walk) {
    const verify_state *verify = walk->verify;
    for (uint32_t i = 0; i < verify->tensor_count; i++) {
        const walk_tensor *it = &walk->tensors[i];
        bool fixed = tn_tensor_is_static(tn_graph_tensor(verify->graph, i));
        if (fixed && !it->away && !it->stored && !it->here)
            COPIES_FAIL(walk, i, "it is there when the program starts, and not when it ends");
        if (it->away && (it->here || walk->hosts[i].contents != walk_contents(walk, i)))
            COPIES_FAIL(walk, i,
                        "it begins in the host's memory, and does not end there: swap it out");
        if (it->here && it->known) TN_TRY(walk_check_form(walk, i, verify->count - 1));
    }
    size_t hosts = walk->hosts == NULL ? 0 : (size_t)verify->tensor_count + verify->count + 1;
    for (size_t i = 0; i < hosts; i++)
        if (walk->hosts[i].pending)
            VERIFY_FAIL(verify, walk->hosts[i].writer, walk->hosts[i].tensor,
                        "it never comes back: DROP it, or SWAP_IN it where it is needed");
    return TN_OK;
}
