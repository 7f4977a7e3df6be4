/* choose.c - chooses which classes of cuts are applied.
 *
 * The value of a class is the bytes that a rank does not hold (parameters with their gradients and
 * optimizer state), less the bytes that ranks communicate for it in a step. A class without value
 * is not applied. Two classes conflict if both cut a tensor or an operator; then only one can be
 * applied. Classes are chosen greedily by value. Then a chosen class is removed if the classes it
 * excludes are worth more together. Tensors outside all chosen classes stay whole on all ranks.
 *
 * Cost: O(classes x operators).
 */
#include <stdio.h>

#include "graph/cut/cut.h"

/* Above 0: it saves more bytes than ranks send for it. */
static uint64_t choose_worth(const tn__class *class) {
    return class->why[0] == '\0' && class->saved > class->sent ? class->saved - class->sent : 0;
}

static int choose_compare(const void *a, const void *b) {
    const tn__class *x = a, *y = b;
    uint64_t first = choose_worth(x), second = choose_worth(y);
    if (first != second) return first < second ? 1 : -1;
    return x->tensors[0] < y->tensors[0] ? -1 : x->tensors[0] > y->tensors[0];
}

typedef struct choose_state {
    tn__cuts *it;
    uint32_t *of_tensor, *of_op; /* number of the class that cuts it, from 1; 0: none */
    bool *taken;                 /* [classes] */
} choose_state;

/* The chosen classes that conflict with this one, each once, at most `most` of them. Returns their
 * total value, or the largest number if there are more. */
static uint64_t choose_in_the_way(choose_state *state, const tn__class *class, uint32_t *others,
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

static void choose_set(choose_state *state, uint32_t index, bool take) {
    const tn__class *class = &state->it->found[index];
    uint32_t mark = take ? index + 1 : 0;
    state->taken[index] = take;
    for (uint32_t i = 0; i < class->count; i++) state->of_tensor[class->tensors[i]] = mark;
    for (uint32_t i = 0; i < class->op_count; i++) state->of_op[class->ops[i]] = mark;
}

#define CHOOSE_MEET 64u /* conflicts of one class that are examined */

/* Adds the classes without conflicts. Returns their value; `list`, if not NULL, gets their
 * numbers. */
static uint64_t choose_fill(choose_state *state, uint32_t *list, uint32_t *count) {
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

/* Removes a chosen class, if the classes that fit then are worth more. */
static bool choose_improve(choose_state *state, uint32_t index, uint32_t *list) {
    uint64_t worth = choose_worth(&state->it->found[index]);
    uint32_t count = 0;
    choose_set(state, index, false);
    state->taken[index] = true; /* without that one */
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

/* Bytes of parameters of a class that stay whole. */
static uint64_t choose_left(const tn__cuts *it, const tn__class *class) {
    uint64_t whole = 0;
    for (uint32_t i = 0; i < class->count; i++) {
        tn_tensor_id id = class->tensors[i];
        if (it->trained[id] && it->cuts[id].blocks == 0)
            whole = tn__add_sat(whole, tn_graph_tensor(it->graph, id)->bytes);
    }
    return whole;
}

/* Why this class was not chosen. */
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

/* Explains the largest part that stays whole. A class that could be applied explains more than one
 * that cannot: nearly every parameter has an axis that is never worth cutting. */
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

static tn_status choose_take(tn__cuts *it, const choose_state *state) {
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
    choose_state state = {
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
