/* classes.c - finds classes, cuts of tensors that must be applied together, and chooses the
 * classes that are applied.
 *
 * A class begins with one axis of one tensor, cut into equal parts. It follows the tensor through
 * all operators that read or make it and on to their other operands, until nothing is left to
 * follow: at operators that sum over the axis, and at operands that are read whole. A class is
 * impossible if an operator needs a cut tensor whole, if a tensor would be cut in two ways, or if
 * the number of ranks does not divide an extent. Heads of attention, a hidden layer, a vocabulary,
 * and the channels between two convolutions are classes; each is found from any of its tensors.
 *
 * Cost: each axis of each tensor begins at most one class, and a class costs its operators.
 */
#include "graph/tensor_parallel/cut.h"

#include <inttypes.h>
#include <stdio.h>

/* --- classes ---------------------------------------------------------------------------------- */

/* copies of a parameter in training: the parameter, its gradient, two moments */
#define CLASSES_STATE 4u

/* --- readers --- */

static tn_status classes_readers(tn__cuts *it) {
    uint32_t tensors = tn_graph_tensor_count(it->graph), ops = tn_graph_op_count(it->graph);
    uint32_t count = 0;
    it->reader_of = tn__arena_array(it->arena, (size_t)tensors + 2, sizeof *it->reader_of);
    if (it->reader_of == NULL) return tn__no_memory(it->error, "readers of tensors");
    for (tn_op_id id = 0; id < ops; id++) {
        const tn_op *op = tn_graph_op(it->graph, id);
        for (uint32_t i = 0; i < op->input_count; i++) {
            if (op->inputs[i] == TN_NONE) continue;
            it->reader_of[op->inputs[i] + 2]++;
            count++;
            if (op->block != 0) it->pinned[op->inputs[i]] = 1;
        }
    }
    it->readers = tn__arena_array(it->arena, (size_t)count + 1, sizeof *it->readers);
    if (it->readers == NULL) return tn__no_memory(it->error, "readers of tensors");
    for (uint32_t t = 0; t < tensors; t++) it->reader_of[t + 2] += it->reader_of[t + 1];
    for (tn_op_id id = 0; id < ops; id++) {
        const tn_op *op = tn_graph_op(it->graph, id);
        for (uint32_t i = 0; i < op->input_count; i++)
            if (op->inputs[i] != TN_NONE)
                it->readers[it->reader_of[op->inputs[i] + 1]++] = (tn__cut_use){id, i};
    }
    return TN_OK;
}

/* Marks tensors that must stay whole: results of blocks, required outputs, and scores without an
 * axis of classes. */
static void classes_pin(tn__cuts *it) {
    for (tn_block_id b = 0; b < tn_graph_block_count(it->graph); b++) {
        const tn_block *block = tn_graph_block(it->graph, b);
        for (uint32_t k = 0; k < block->output_count; k++)
            if (b > 0 || it->keeps_outputs) it->pinned[block->outputs[k]] = 1;
    }
    if (it->classes == TN_NONE && it->scores != TN_NONE) it->pinned[it->scores] = 1;
}

static tn_status classes_begin(tn__cuts *it) {
    uint32_t tensors = tn_graph_tensor_count(it->graph), ops = tn_graph_op_count(it->graph);
    uint32_t inputs = 1, outputs = 1, axes = 0;
    it->first_axis = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *it->first_axis);
    if (it->first_axis == NULL) return tn__no_memory(it->error, "parts of a model");
    for (uint32_t t = 0; t < tensors; t++) {
        const tn_tensor *tensor = tn_graph_tensor(it->graph, t);
        it->first_axis[t] = axes;
        axes += tensor->rank <= TN_RANK_MAX ? tensor->rank : 0;
    }
    for (tn_op_id id = 0; id < ops; id++) {
        const tn_op *op = tn_graph_op(it->graph, id);
        if (op->input_count > inputs) inputs = op->input_count;
        if (op->output_count > outputs) outputs = op->output_count;
    }
    it->covered = tn__arena_array(it->arena, (size_t)axes + 1, 1);
    it->pinned = tn__arena_array(it->arena, (size_t)tensors + 1, 1);
    it->at = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *it->at);
    it->cuts = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *it->cuts);
    it->copied = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *it->copied);
    it->way = tn__arena_array(it->arena, (size_t)ops + 1, sizeof *it->way);
    it->link.inputs = tn__arena_array(it->arena, inputs, sizeof *it->link.inputs);
    it->link.outputs = tn__arena_array(it->arena, outputs, sizeof *it->link.outputs);
    it->link.once = tn__arena_array(it->arena, inputs, sizeof *it->link.once);
    if (!it->covered || !it->pinned || !it->at || !it->cuts || !it->copied || !it->way ||
        !it->link.inputs || !it->link.outputs || !it->link.once)
        return tn__no_memory(it->error, "parts of a model");
    TN_TRY(classes_readers(it));
    classes_pin(it);
    return TN_OK;
}

/* --- following one class of cuts through the graph --- */

typedef struct classes_state {
    tn__cuts *it;
    tn__class made;
    uint32_t number; /* number of the current class, counted from 1 */
    size_t tensor_room, op_room;
} classes_state;

#define CLASSES_FAIL(state, ...)                                                                   \
    do {                                                                                           \
        tn__class *classes_made = &(state)->made;                                                  \
        if (classes_made->why[0] == '\0')                                                          \
            snprintf(classes_made->why, sizeof classes_made->why, __VA_ARGS__);                    \
    } while (0)

static const char *classes_name(const tn_op *op) {
    return op->name[0] != '\0' ? op->name : op->type;
}

static void classes_check(classes_state *state, tn_tensor_id id, const tn__cut *cut) {
    const tn__cuts *it = state->it;
    const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
    if (!tn__cuts_divides(it, tensor, cut))
        CLASSES_FAIL(state, "%u ranks do not divide extent %" PRId64 " of axis %u of '%.80s'",
                     it->ranks, tensor->shape[cut->axis] / (cut->sizes ? 1 : cut->blocks),
                     cut->axis, tensor->name);
    if (it->pinned[id] || tn_dtype_bits(tensor->dtype) % 8 != 0)
        CLASSES_FAIL(state, "'%.80s' is needed whole", tensor->name);
    if (id == it->scores && (cut->axis != it->classes || cut->blocks != 1))
        CLASSES_FAIL(state, "the loss needs '%.80s' whole along axis %u", tensor->name, cut->axis);
}

static tn_status classes_add(classes_state *state, tn_tensor_id id, const tn__cut *cut) {
    tn__cuts *it = state->it;
    tn__class *made = &state->made;
    if (it->at[id].blocks > 0) {
        if (!tn__cut_same(&it->at[id], cut))
            CLASSES_FAIL(state, "'%.80s' would have to be cut in two ways",
                         tn_graph_tensor(it->graph, id)->name);
        return TN_OK;
    }
    if (made->count == state->tensor_room) {
        size_t room = 2 * state->tensor_room + 16;
        tn_tensor_id *tensors = tn__arena_array(it->arena, room, sizeof *tensors);
        if (tensors == NULL) return tn__no_memory(it->error, "parts of a model");
        if (made->count > 0) memcpy(tensors, made->tensors, made->count * sizeof *tensors);
        made->tensors = tensors;
        state->tensor_room = room;
    }
    it->at[id] = *cut;
    if (cut->blocks == 1) it->covered[it->first_axis[id] + cut->axis] = 1;
    made->tensors[made->count++] = id;
    classes_check(state, id, cut);
    return TN_OK;
}

static tn_status classes_add_op(classes_state *state, tn_op_id id) {
    tn__class *made = &state->made;
    if (made->op_count == state->op_room) {
        size_t room = 2 * state->op_room + 16;
        tn_op_id *ops = tn__arena_array(state->it->arena, room, sizeof *ops);
        if (ops == NULL) return tn__no_memory(state->it->error, "parts of a model");
        if (made->op_count > 0) memcpy(ops, made->ops, made->op_count * sizeof *ops);
        made->ops = ops;
        state->op_room = room;
    }
    made->ops[made->op_count++] = id;
    return TN_OK;
}

/* Counts the bytes that ranks combine for this operator: its result, and in the backward pass the
 * gradient of operands that all ranks read. */
static void classes_count_sent(classes_state *state, const tn_op *op) {
    tn__cuts *it = state->it;
    const tn__op_cuts *link = &it->link;
    tn__class *made = &state->made;
    if (link->sums)
        made->sent = tn__add_sat(made->sent, tn_graph_tensor(it->graph, op->outputs[0])->bytes);
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id id = op->inputs[i];
        if (id == TN_NONE || link->inputs[i].blocks > 0 || link->once[i] || !it->depends[id] ||
            it->copied[id] == state->number)
            continue;
        it->copied[id] = state->number;
        made->sent = tn__add_sat(made->sent, tn_graph_tensor(it->graph, id)->bytes);
    }
}

/* Follows a cut from one operand of an operator to all other operands. */
static tn_status classes_follow(classes_state *state, tn_op_id id, bool output, uint32_t index,
                                tn__cut cut) {
    tn__cuts *it = state->it;
    const tn_op *op = tn_graph_op(it->graph, id);
    tn_tensor_id from = output ? op->outputs[index] : op->inputs[index];
    if (!it->runs[id] || tn__cuts_looks(it, id)) return TN_OK;
    if (!tn__cuts_link(it, id, output, index, cut)) {
        CLASSES_FAIL(state, "'%.60s' (%.30s) needs axis %u of '%.60s' whole", classes_name(op),
                     op->type, cut.axis, tn_graph_tensor(it->graph, from)->name);
        return TN_OK;
    }
    const tn__op_cuts *link = &it->link;
    uint32_t way = link->sums ? 1 : 2 + link->outputs[0].axis;
    if (it->way[id] != 0 && it->way[id] != way)
        CLASSES_FAIL(state, "'%.60s' (%.30s) would have to be cut in two ways", classes_name(op),
                     op->type);
    if (it->way[id] != 0) return TN_OK;
    it->way[id] = way;
    TN_TRY(classes_add_op(state, id));
    classes_count_sent(state, op);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && link->inputs[i].blocks > 0) {
            if (tn__cuts_takes_part(it, op->inputs[i]))
                TN_TRY(classes_add(state, op->inputs[i], &link->inputs[i]));
            else if (!tn__cuts_divides(it, tn_graph_tensor(it->graph, op->inputs[i]),
                                       &link->inputs[i]))
                CLASSES_FAIL(state, "%u ranks do not divide axis %u of '%.80s'", it->ranks,
                             link->inputs[i].axis, tn_graph_tensor(it->graph, op->inputs[i])->name);
        }
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && link->outputs[k].blocks > 0)
            TN_TRY(classes_add(state, op->outputs[k], &link->outputs[k]));
    return TN_OK;
}

static tn_status classes_follow_all(classes_state *state, tn_tensor_id id) {
    tn__cuts *it = state->it;
    const tn__cut cut = it->at[id];
    tn_op_id maker = tn_graph_tensor(it->graph, id)->producer;
    if (maker != TN_NONE) {
        const tn_op *op = tn_graph_op(it->graph, maker);
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] == id) TN_TRY(classes_follow(state, maker, true, k, cut));
    }
    for (uint32_t r = it->reader_of[id]; r < it->reader_of[id + 1]; r++)
        TN_TRY(classes_follow(state, it->readers[r].op, false, it->readers[r].input, cut));
    return TN_OK;
}

/* Ends a class: computes its value, and copies the cuts out of the scratch arrays. */
static tn_status classes_end(classes_state *state) {
    tn__cuts *it = state->it;
    tn__class *made = &state->made;
    made->cuts = tn__arena_array(it->arena, (size_t)made->count + 1, sizeof *made->cuts);
    if (made->cuts == NULL) return tn__no_memory(it->error, "parts of a model");
    for (uint32_t i = 0; i < made->count; i++) {
        tn_tensor_id id = made->tensors[i];
        uint64_t bytes = tn_graph_tensor(it->graph, id)->bytes;
        uint64_t spared = bytes - bytes / it->ranks;
        made->cuts[i] = it->at[id];
        it->at[id] = (tn__cut){0};
        if (it->trained[id]) made->parameters = tn__add_sat(made->parameters, bytes);
        made->saved =
            tn__add_sat(made->saved, tn__mul_sat(spared, it->trained[id] ? CLASSES_STATE : 1));
    }
    for (uint32_t i = 0; i < made->op_count; i++) it->way[made->ops[i]] = 0;
    if (made->parameters == 0) return TN_OK;
    if (!tn__reserve(it->context, &it->found, &it->found_room, it->found_count + 1,
                     sizeof *it->found))
        return tn__no_memory(it->error, "parts of a model");
    it->found[it->found_count++] = *made;
    return TN_OK;
}

static tn_status classes_from(tn__cuts *it, tn_tensor_id id, uint32_t axis, uint32_t number) {
    classes_state state = {.it = it, .number = number};
    TN_TRY(classes_add(&state, id, &(tn__cut){.axis = axis, .blocks = 1}));
    for (uint32_t i = 0; i < state.made.count; i++)
        TN_TRY(classes_follow_all(&state, state.made.tensors[i]));
    return classes_end(&state);
}

static bool classes_begins(const tn__cuts *it, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
    if (!tn__cuts_takes_part(it, id) || !tn__shape_known(tensor)) return false;
    return tensor->producer == TN_NONE || it->runs[tensor->producer];
}

tn_status tn__cuts_classes(tn__cuts *it) {
    uint32_t number = 0;
    TN_TRY(classes_begin(it));
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(it->graph); id++) {
        if (!classes_begins(it, id)) continue;
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        for (uint32_t axis = 0; axis < tensor->rank; axis++)
            if (tensor->shape[axis] > 1 && !it->covered[it->first_axis[id] + axis])
                TN_TRY(classes_from(it, id, axis, ++number));
    }
    return TN_OK;
}

/* --- the choice of classes -------------------------------------------------------------------- */

/* Chooses which classes of cuts are applied.
 *
 * The value of a class is the bytes that a rank does not hold (parameters with their gradients and
 * optimizer state), less the bytes that ranks communicate for it in a step. A class without value
 * is not applied. Two classes conflict if both cut a tensor or an operator; then only one can be
 * applied. Classes are chosen greedily by value. Then a chosen class is removed if the classes it
 * excludes are worth more together. Tensors outside all chosen classes stay whole on all ranks.
 *
 * Cost: O(classes x operators).
 */

/* The value of a class: the bytes that it saves minus the bytes that ranks send for it; 0 if that
 * is negative, or if the class is impossible. */
static uint64_t choose_worth(const tn__class *class) {
    return class->why[0] == '\0' && class->saved > class->sent ? class->saved - class->sent : 0;
}

static int choose_compare(const void *a, const void *b) {
    const tn__class *x = a, *y = b;
    uint64_t first = choose_worth(x), second = choose_worth(y);
    if (first != second) return first < second ? 1 : -1;
    return x->tensors[0] < y->tensors[0] ? -1 : x->tensors[0] > y->tensors[0];
}

typedef struct classes_choice {
    tn__cuts *it;
    /* number, from 1, of the chosen class that cuts the tensor or operator; 0: none */
    uint32_t *of_tensor, *of_op;
    bool *taken; /* [classes] true: the class is chosen */
} classes_choice;

/* Lists the chosen classes that conflict with this one, each once, at most `most` of them. Returns
 * their total value, or the largest number if there are more. */
static uint64_t choose_in_the_way(classes_choice *state, const tn__class *class, uint32_t *others,
                                  uint32_t most, uint32_t *count) {
    uint64_t worth = 0;
    *count = 0;
    for (uint32_t i = 0; i < class->count + class->op_count; i++) {
        uint32_t other = i < class->count ? state->of_tensor[class->tensors[i]]
                                          : state->of_op[class->ops[i - class->count]];
        bool seen = other == 0;
        for (uint32_t k = 0; k < *count && !seen; k++) seen = others[k] == other;
        if (seen) continue;
        if (*count == most) return UINT64_MAX;
        others[(*count)++] = other;
        worth = tn__add_sat(worth, choose_worth(&state->it->found[other - 1]));
    }
    return worth;
}

static void choose_set(classes_choice *state, uint32_t index, bool take) {
    const tn__class *class = &state->it->found[index];
    uint32_t mark = take ? index + 1 : 0;
    state->taken[index] = take;
    for (uint32_t i = 0; i < class->count; i++) state->of_tensor[class->tensors[i]] = mark;
    for (uint32_t i = 0; i < class->op_count; i++) state->of_op[class->ops[i]] = mark;
}

#define CHOOSE_MEET 64u /* most conflicts of one class that are examined */

/* Adds all classes of cuts that have a value and no conflict with chosen ones. Returns their total
 * value; `list`, if not NULL, receives their numbers. */
static uint64_t choose_fill(classes_choice *state, uint32_t *list, uint32_t *count) {
    uint32_t others[CHOOSE_MEET], meets;
    uint64_t worth = 0;
    for (uint32_t c = 0; c < state->it->found_count; c++) {
        const tn__class *class = &state->it->found[c];
        if (state->taken[c] || choose_worth(class) == 0) continue;
        if (choose_in_the_way(state, class, others, CHOOSE_MEET, &meets) != 0 || meets > 0)
            continue;
        choose_set(state, c, true);
        worth = tn__add_sat(worth, choose_worth(class));
        if (list != NULL) list[(*count)++] = c;
    }
    return worth;
}

/* Replaces a chosen class of cuts by those that can be chosen without it, if these have a higher
 * total value. Returns whether it did so. */
static bool choose_improve(classes_choice *state, uint32_t index, uint32_t *list) {
    uint64_t worth = choose_worth(&state->it->found[index]);
    uint32_t count = 0;
    choose_set(state, index, false);
    state->taken[index] = true; /* prevents the class that was removed from being chosen again */
    uint64_t instead = choose_fill(state, list, &count);
    state->taken[index] = false;
    if (instead > worth) return true;
    for (uint32_t i = 0; i < count; i++) choose_set(state, list[i], false);
    choose_set(state, index, true);
    return false;
}

/* Reports why no class of cuts was chosen: the reason of the class with the most bytes of
 * parameters. */
static tn_status choose_nothing(const tn__cuts *it) {
    const tn__class *best = NULL;
    for (size_t c = 0; c < it->found_count; c++)
        if (best == NULL || it->found[c].parameters > best->parameters) best = &it->found[c];
    if (best == NULL)
        TN_FAIL(it->error, TN_E_INVALID, "no parameter of the model can be cut into %u parts",
                it->ranks);
    if (best->why[0] != '\0')
        TN_FAIL(it->error, TN_E_INVALID, "nothing of the model can be cut into %u parts: %s",
                it->ranks, best->why);
    TN_FAIL(it->error, TN_E_INVALID,
            "nothing of the model is worth being cut into %u parts: ranks would send more than "
            "they spare ('%.80s': %llu and %llu bytes)",
            it->ranks, tn_graph_tensor(it->graph, best->tensors[0])->name,
            (unsigned long long)best->sent, (unsigned long long)best->saved);
}

/* The bytes of the parameters of a class that stay whole on every rank. */
static uint64_t choose_left(const tn__cuts *it, const tn__class *class) {
    uint64_t whole = 0;
    for (uint32_t i = 0; i < class->count; i++) {
        tn_tensor_id id = class->tensors[i];
        if (it->trained[id] && it->cuts[id].blocks == 0)
            whole = tn__add_sat(whole, tn_graph_tensor(it->graph, id)->bytes);
    }
    return whole;
}

/* Writes the reason why a class was not chosen. */
static void choose_words(const tn__class *class, const char *name, char *words, size_t room) {
    if (class->why[0] != '\0')
        snprintf(words, room, "%s", class->why);
    else if (choose_worth(class) == 0)
        snprintf(words, room,
                 "for '%.80s' ranks would send more than they spare (%llu and %llu bytes)", name,
                 (unsigned long long)class->sent, (unsigned long long)class->saved);
    else
        snprintf(words, room, "'%.80s' would be cut where something is that is worth more", name);
}

/* Explains why the class (tensors that are cut together) with the most bytes of uncut parameters
 * was not chosen. Of two classes with equally many bytes, one that can be cut is explained, because
 * nearly every parameter is also in a class that cannot. */
static tn_status choose_whole(tn__cuts *it) {
    const tn__class *most = NULL;
    uint64_t bytes = 0;
    char words[240];
    for (size_t c = 0; c < it->found_count; c++) {
        const tn__class *class = &it->found[c];
        uint64_t whole = choose_left(it, class);
        bool better = most != NULL && most->why[0] != '\0' && class->why[0] == '\0';
        if (whole == 0 || whole < bytes || (whole == bytes && !better)) continue;
        bytes = whole;
        most = class;
    }
    if (most == NULL) return TN_OK;
    uint32_t first = 0;
    while (!it->trained[most->tensors[first]] || it->cuts[most->tensors[first]].blocks > 0) first++;
    choose_words(most, tn_graph_tensor(it->graph, most->tensors[first])->name, words, sizeof words);
    it->whole = tn__arena_string(it->arena, words, strlen(words));
    return it->whole != NULL ? TN_OK : tn__no_memory(it->error, "parts of a model");
}

static tn_status choose_take(tn__cuts *it, const classes_choice *state) {
    bool any = false;
    for (size_t c = 0; c < it->found_count; c++) {
        const tn__class *class = &it->found[c];
        if (!state->taken[c]) continue;
        any = true;
        for (uint32_t i = 0; i < class->count; i++) it->cuts[class->tensors[i]] = class->cuts[i];
    }
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(it->graph); id++) {
        uint64_t bytes = tn_graph_tensor(it->graph, id)->bytes;
        if (!it->trained[id]) continue;
        it->parameters = tn__add_sat(it->parameters, bytes);
        if (it->cuts[id].blocks > 0) it->cut = tn__add_sat(it->cut, bytes);
    }
    return any ? choose_whole(it) : choose_nothing(it);
}

tn_status tn__cuts_choose(tn__cuts *it) {
    size_t tensors = tn_graph_tensor_count(it->graph), ops = tn_graph_op_count(it->graph);
    classes_choice state = {
        .it = it,
        .of_tensor = tn__arena_array(it->arena, tensors + 1, sizeof *state.of_tensor),
        .of_op = tn__arena_array(it->arena, ops + 1, sizeof *state.of_op),
        .taken = tn__arena_array(it->arena, it->found_count + 1, sizeof *state.taken)};
    uint32_t *list = tn__arena_array(it->arena, it->found_count + 1, sizeof *list);
    if (!state.of_tensor || !state.of_op || !state.taken || list == NULL)
        return tn__no_memory(it->error, "parts of a model");
    if (it->found_count > 0) qsort(it->found, it->found_count, sizeof *it->found, choose_compare);
    (void)choose_fill(&state, NULL, NULL);
    for (uint32_t c = 0; c < it->found_count; c++)
        if (state.taken[c]) (void)choose_improve(&state, c, list);
    return choose_take(it, &state);
}
