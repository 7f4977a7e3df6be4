/* weights.c - static memory of a program: its readers, its blocks, its data between runs. */
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

/* --- sizes, without an engine --- */

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

/* --- in a pool: long-lived blocks, taken before the first run --- */

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

/* --- in the arena: bodies of the problem, after all others, block by block --- */

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

/* --- data between runs --- */

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

/* Checks that the access covers all of the tensor. */
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
