/* fetchable.c - finds the static tensors that may come and go during a run: those that one FETCH
 * loads whole.
 *
 * Such a tensor has one form, which all its readers want and call by the same name, so that no
 * reader looks for it elsewhere. It never changes. It has no views, because views would end with
 * it. It lies outside control flow, where the number of its uses is not known before the run.
 * Cost: O(operands + blocks).
 */
#include "engine/engine.h"

enum {
    FETCHABLE_NO = 1u << 0,
    FETCHABLE_PLAIN = 1u << 1,
    FETCHABLE_PACKED = 1u << 2,
    FETCHABLE_SEEN = 1u << 3
};

typedef struct fetchable_state {
    const tn_graph *graph;
    const tn_kernels *kernels;
    const tn__statics *statics;
    uint8_t *read; /* [tensors] FETCHABLE_*, combined over all readers */
} fetchable_state;

static bool fetchable_is_static(const fetchable_state *state, tn_tensor_id id) {
    return id != TN_NONE && tn_tensor_is_static(tn_graph_tensor(state->graph, id));
}

static void fetchable_op(const fetchable_state *state, const tn_instruction *it) {
    const tn_op *op = tn_graph_op(state->graph, it->op);
    const uint64_t *sizes =
        state->kernels->of[it->op] != NULL ? state->kernels->of[it->op]->packed : NULL;
    tn_op_form form = tn_op_form_of(state->graph, it->op, it->again);
    for (uint32_t i = 0; i < form.input_count; i++) {
        tn_tensor_id input = tn_op_form_input(&form, i);
        if (!fetchable_is_static(state, input)) continue;
        bool packed = sizes != NULL && sizes[i] > 0;
        state->read[input] |= it->again ? FETCHABLE_NO
                              : packed  ? FETCHABLE_PACKED
                                        : FETCHABLE_PLAIN;
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        tn_view view = tn_op_view(state->graph, it->op, k);
        if (fetchable_is_static(state, view.source)) state->read[view.source] |= FETCHABLE_NO;
    }
}

/* Excludes views and their bases: such bytes have a second name, or are known only in part. */
static void fetchable_views(const fetchable_state *state) {
    const tn_block *block = tn_graph_block(state->graph, 0);
    for (uint32_t i = 0; i < block->output_count; i++)
        if (block->outputs[i] != TN_NONE) state->read[block->outputs[i]] |= FETCHABLE_NO;
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(state->graph); t++) {
        const tn__static *it = &state->statics->tensors[t];
        if (!it->needed || it->base == t || !(state->read[t] & FETCHABLE_PLAIN)) continue;
        state->read[t] |= FETCHABLE_NO;
        state->read[it->base] |= FETCHABLE_NO;
    }
}

static void fetchable_judge(const fetchable_state *state, const tn_static_block *blocks,
                            uint32_t count, uint8_t *may) {
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t b = 0; b < count; b++) {
            tn_tensor_id id = blocks[b].tensor;
            uint8_t one = blocks[b].op == TN_NONE ? FETCHABLE_PLAIN : FETCHABLE_PACKED;
            if (pass > 0)
                may[b] = (state->read[id] & ~FETCHABLE_SEEN) == one && blocks[b].bytes > 0 &&
                         tn_tensor_is_constant(tn_graph_tensor(state->graph, id));
            else
                state->read[id] |= state->read[id] & FETCHABLE_SEEN ? FETCHABLE_NO /* two forms */
                                                                    : FETCHABLE_SEEN;
        }
}

bool tn_engine_may_fetch(const tn_program *program, const tn_kernels *kernels,
                         const tn_static_block *blocks, uint32_t count, uint8_t *may) {
    const tn_instruction *list = tn_program_instructions(program);
    const tn_graph *graph = tn_program_graph(program);
    uint32_t tensors = tn_graph_tensor_count(graph);
    tn__statics statics = {0};
    tn__readers readers;
    tn__arena arena;
    tn__arena_init(&arena, &kernels->context);
    fetchable_state state = {.graph = graph, .kernels = kernels, .statics = &statics};
    state.read = tn__arena_array(&arena, tensors, sizeof *state.read);
    bool fine = state.read != NULL &&
                tn__program_readers(program, &arena, &readers, NULL) == TN_OK &&
                tn__statics_plan(&statics, kernels, &readers, &kernels->context, NULL) == TN_OK;
    for (uint32_t s = 0; fine && s < tn_program_count(program); s++)
        if (list[s].opcode == TN_APPLY) fetchable_op(&state, &list[s]);
    if (fine && tn_program_region_count(program) == 0) {
        fetchable_views(&state);
        fetchable_judge(&state, blocks, count, may);
    } else {
        memset(may, 0, count);
    }
    tn__statics_release(&statics);
    tn__arena_release(&arena);
    return fine;
}
