/* weights.c - static memory of a program: the operators and blocks that read static tensors, the
 * placement of static memory in the arena or a pool, and access to static data between runs. */
#include "engine/engine.h"

/* --- readers --- */

tn_status tn__program_readers(const tn_program *program, tn__arena *arena, tn__readers *readers,
                              tn_error *error) {
    const tn_instruction *instructions = tn_program_instructions(program);
    const tn_region *regions = tn_program_regions(program);
    uint32_t count = tn_program_count(program), region_count = tn_program_region_count(program);
    tn_op_id *ops = tn__arena_array(arena, count, sizeof *ops);
    tn_block_id *blocks = tn__arena_array(arena, region_count + 1u, sizeof *blocks);
    bool *again = tn__arena_array(arena, count, sizeof *again);
    if (ops == NULL || blocks == NULL || again == NULL) return tn__no_memory(error, "constants");
    *readers = (tn__readers){.ops = ops, .again = again, .blocks = blocks};
    blocks[readers->block_count++] = 0;
    for (uint32_t r = 0; r < region_count; r++) blocks[readers->block_count++] = regions[r].block;
    for (uint32_t i = 0; i < count; i++) {
        if (instructions[i].opcode != TN_APPLY) continue;
        again[readers->op_count] = instructions[i].again;
        ops[readers->op_count++] = instructions[i].op;
    }
    return TN_OK;
}

/* --- size and blocks of static memory, computed without an engine --- */

static tn_status weights_plan(const tn_program *program, const tn_kernels *kernels,
                              tn__arena *arena, tn__statics *statics) {
    tn__readers readers;
    TN_TRY(tn__program_readers(program, arena, &readers, NULL));
    return tn__statics_plan(statics, kernels, &readers, &kernels->context, NULL);
}

uint64_t tn_engine_static_bytes(const tn_program *program, const tn_kernels *kernels) {
    tn__statics statics = {0};
    tn__arena arena;
    tn__arena_init(&arena, &kernels->context);
    bool planned = weights_plan(program, kernels, &arena, &statics) == TN_OK;
    uint64_t bytes = planned ? statics.bytes : TN_SIZE_UNKNOWN;
    tn__statics_release(&statics);
    tn__arena_release(&arena);
    return bytes;
}

static uint32_t weights_list(const tn__statics *statics, tn_static_block *blocks, uint32_t room) {
    tn__static_cursor at = {0};
    tn__static_place place;
    uint32_t count = 0;
    for (; tn__statics_next(statics, &at, &place); count++)
        if (count < room) blocks[count] = (tn_static_block){place.tensor, place.op, place.bytes};
    return count;
}

uint32_t tn_engine_static_blocks(const tn_program *program, const tn_kernels *kernels,
                                 tn_static_block *blocks, uint32_t room) {
    tn__statics statics = {0};
    tn__arena arena;
    tn__arena_init(&arena, &kernels->context);
    bool planned = weights_plan(program, kernels, &arena, &statics) == TN_OK;
    uint32_t count = planned ? weights_list(&statics, blocks, room) : TN_NONE;
    tn__statics_release(&statics);
    tn__arena_release(&arena);
    return count;
}

/* --- static memory in a pool: one block each, allocated before the first run --- */

tn_status tn__engine_make_pool(tn_engine *engine) {
    const tn_engine_options *options = &engine->options;
    tn__static_cursor at = {0};
    tn__static_place place;
    if (engine->places.static_count > 0)
        TN_FAIL(engine->executor.error, TN_E_INVALID,
                "a pool takes static memory itself; the plan has bodies for it");
    TN_TRY(tn__places_pool(&engine->places, options->pool, options->pool_capacity,
                           weights_list(&engine->statics, NULL, 0), &engine->context,
                           &engine->tables, engine->executor.error));
    while (tn__statics_next(&engine->statics, &at, &place)) {
        const tn_static_block block = {place.tensor, place.op, place.bytes};
        TN_TRY(tn__places_hold(&engine->places, &block, place.offset, engine->executor.error));
    }
    return TN_OK;
}

/* --- static memory in the arena: the last buffers of the layout, one for each block --- */

static bool weights_agree(const tn__places *places, tn_body_id body,
                          const tn__static_place *place) {
    const tn_life *life = body < places->body_count ? tn__places_life(places, body) : NULL;
    return life != NULL && life->is_static && life->tensor == place->tensor &&
           life->op == place->op && life->bytes == place->bytes;
}

tn_status tn__engine_place_statics(tn_engine *engine) {
    tn__places *places = &engine->places;
    tn__static_cursor at = {0};
    tn__static_place place;
    tn_body_id body = places->body_count - places->static_count;
    bool agree = true;
    while (agree && tn__statics_next(&engine->statics, &at, &place)) {
        if (tn__store_find(&engine->store, place.tensor) != NULL) continue;
        agree = weights_agree(places, body, &place);
        if (!agree) break;
        *place.offset = places->offset[body];
        tn__places_keep(places, body++);
    }
    if (agree && body == places->body_count) return TN_OK;
    TN_FAIL(engine->executor.error, TN_E_INVALID,
            "the plan has other static memory than these kernels want");
}

/* --- reading and writing static tensors between runs --- */

static tn_status weights_find(const tn_engine *engine, tn_tensor_id id, const tn_tensor **tensor,
                              tn_error *error) {
    const tn_graph *graph = engine->executor.graph;
    bool known = id < tn_graph_tensor_count(graph);
    *tensor = known ? tn_graph_tensor(graph, id) : NULL;
    if (known && tn_tensor_is_static(*tensor) && engine->executor.operands[id].data != NULL)
        return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "tensor %u is not kept in static memory", id);
}

static tn_status weights_find_at(const tn_engine *engine, tn_tensor_id id, uint64_t from,
                                 uint64_t size, tn_address *address, tn_error *error) {
    const tn_tensor *tensor = NULL;
    uint64_t end;
    TN_TRY(weights_find(engine, id, &tensor, error));
    if (!tn__add(from, size, &end) || end > tensor->bytes)
        TN_FAIL(error, TN_E_INVALID, "'%.80s' has %llu bytes, not %llu from %llu on", tensor->name,
                (unsigned long long)tensor->bytes, (unsigned long long)size,
                (unsigned long long)from);
    const uint8_t *data = engine->executor.operands[id].data;
    *address = tn__memory_address(&engine->memory, data + from);
    return TN_OK;
}

/* Checks that an access to a static tensor covers the whole tensor. */
static tn_status weights_check(const tn_engine *engine, tn_tensor_id id, uint64_t size,
                               tn_error *error) {
    const tn_tensor *tensor = NULL;
    TN_TRY(weights_find(engine, id, &tensor, error));
    if (size == tensor->bytes) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "'%.80s' has %llu bytes, not %llu", tensor->name,
            (unsigned long long)tensor->bytes, (unsigned long long)size);
}

tn_status tn_engine_get_static_at(tn_engine *engine, tn_tensor_id id, uint64_t from, void *bytes,
                                  uint64_t size, tn_error *error) {
    tn_address address = 0;
    TN_TRY(weights_find_at(engine, id, from, size, &address, error));
    if (size == 0) return TN_OK;
    TN_TRY(tn_device_get(engine->memory.stream, bytes, address, size, error));
    return tn_stream_wait(engine->memory.stream, error);
}

tn_status tn_engine_set_static_at(tn_engine *engine, tn_tensor_id id, uint64_t from,
                                  const void *bytes, uint64_t size, tn_error *error) {
    tn_address address = 0;
    TN_TRY(weights_find_at(engine, id, from, size, &address, error));
    if (size == 0) return TN_OK;
    TN_TRY(tn_device_put(engine->memory.stream, address, bytes, size, error));
    return tn_stream_wait(engine->memory.stream, error);
}

tn_status tn_engine_get_static(tn_engine *engine, tn_tensor_id id, void *bytes, uint64_t size,
                               tn_error *error) {
    TN_TRY(weights_check(engine, id, size, error));
    return tn_engine_get_static_at(engine, id, 0, bytes, size, error);
}

tn_status tn_engine_set_static(tn_engine *engine, tn_tensor_id id, const void *bytes, uint64_t size,
                               tn_error *error) {
    TN_TRY(weights_check(engine, id, size, error));
    return tn_engine_set_static_at(engine, id, 0, bytes, size, error);
}

/* --- static tensors that a program could fetch from a file instead of keeping them in memory ---
 *
 * A fetchable tensor is a constant that one FETCH reads as a whole. All its readers use the same
 * form of it, plain or packed. It has no views, and is no view, because the memory of a view would
 * be released with it. The program has no control flow, because in a loop the number of uses is not
 * known before the run.
 * Cost: O(operands + blocks).
 */

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
    /* for each tensor: FETCHABLE_* flags (how operators read it), combined over all operators that
     * read it */
    uint8_t *read;
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

/* Excludes the outputs of the graph, views of static tensors that operators read in plain form, and
 * the tensors of which these are views. */
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
            /* if two blocks have this tensor, it has two forms and cannot be fetched */
            else
                state->read[id] |= state->read[id] & FETCHABLE_SEEN ? FETCHABLE_NO : FETCHABLE_SEEN;
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
