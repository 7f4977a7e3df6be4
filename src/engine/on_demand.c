/* on_demand.c - passive mode: evicts buffers when the pool is full, brings them back on access, and
 * records when each step began (on_demand.h).
 */
#include "engine/on_demand.h"

#include <inttypes.h>
#include <stdio.h>

/* --- tables --- */

static const tn_life *demand_lives(const tn__on_demand *it) {
    return tn_occupancy_lives(it->engine->places.occupancy);
}

static uint64_t demand_bytes(const tn__on_demand *it, tn_body_id body) {
    const tn_problem *problem = tn_occupancy_problem(it->engine->places.occupancy);
    return tn_problem_body(problem, body)->size;
}

typedef struct demand_tables {
    tn__on_demand *it;
    tn__lists uses;      /* [tensors] the steps that use the tensor */
    tn__lists of_tensor; /* [tensors] the live ranges of the tensor */
    uint32_t *body_at;   /* [tensors] the buffer of the tensor at the current step */
    tn__lists of_step;   /* [steps] the tensors that the step uses */
} demand_tables;

static void demand_fill_lives(void *self, tn__lists *lists) {
    const tn__on_demand *it = self;
    const tn_life *lives = demand_lives(it);
    uint32_t count = tn_occupancy_life_count(it->engine->places.occupancy);
    for (uint32_t i = 0; i < count; i++)
        if (!lives[i].is_static) tn__lists_add(lists, lives[i].body, i);
}

/* Fills a list of the tensors that each step uses. Tensors are visited in ascending order, as
 * tn__lists requires. */
static void demand_fill_steps(void *self, tn__lists *lists) {
    const demand_tables *tables = self;
    uint32_t tensors = tn_graph_tensor_count(tables->it->engine->executor.graph);
    for (tn_tensor_id id = 0; id < tensors; id++)
        for (uint32_t u = tables->uses.first[id]; u < tables->uses.first[id + 1]; u++)
            tn__lists_add(lists, tables->uses.items[u], id);
}

static int demand_compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Lists the buffers that a step accesses: those of live ranges that begin at the step, and those of
 * the tensors that it uses. Returns their number; the caller's array `bodies` has space for all of
 * them. */
static uint32_t demand_accesses(const demand_tables *tables, uint32_t step, uint32_t *bodies) {
    const tn__places *places = &tables->it->engine->places;
    const tn_life *lives = demand_lives(tables->it);
    uint32_t count = 0;
    for (uint32_t i = places->life_at[step]; i < places->life_at[step + 1]; i++) {
        if (lives[i].is_static) continue;
        if (lives[i].tensor != TN_NONE) tables->body_at[lives[i].tensor] = lives[i].body;
        bodies[count++] = lives[i].body;
    }
    for (uint32_t u = tables->of_step.first[step]; u < tables->of_step.first[step + 1]; u++)
        if (tables->body_at[tables->of_step.items[u]] != TN_NONE)
            bodies[count++] = tables->body_at[tables->of_step.items[u]];
    if (count > 1) qsort(bodies, count, sizeof *bodies, demand_compare);
    return count;
}

static void demand_fill_accesses(void *self, tn__lists *lists) {
    const demand_tables *tables = self;
    const tn__on_demand *it = tables->it;
    uint32_t tensors = tn_graph_tensor_count(it->engine->executor.graph);
    uint32_t *bodies = tables->body_at + tensors;
    for (uint32_t t = 0; t < tensors; t++) tables->body_at[t] = TN_NONE;
    for (uint32_t s = 0; s < it->steps; s++) {
        uint32_t count = demand_accesses(tables, s, bodies);
        for (uint32_t i = 0; i < count; i++) tn__lists_add(lists, s, bodies[i]);
    }
}

static tn_status demand_make_tables(tn__on_demand *it, tn__arena *arena, tn_error *error) {
    tn_engine *engine = it->engine;
    demand_tables tables = {.it = it};
    uint32_t tensors = tn_graph_tensor_count(engine->executor.graph);
    uint32_t lives = tn_occupancy_life_count(engine->places.occupancy);
    size_t room = 2 * (size_t)tensors + lives + 1;
    TN_TRY(tn__program_uses(engine->program, arena, &tables.uses, error));
    tables.body_at = tn__arena_array(arena, room, sizeof *tables.body_at);
    it->bodies = tn__arena_array(arena, (size_t)engine->places.body_count + 1, sizeof *it->bodies);
    it->times = tn__arena_array(arena, (size_t)it->steps + 1, sizeof *it->times);
    if (tables.body_at == NULL || it->bodies == NULL || it->times == NULL ||
        !tn__lists_make(&tables.of_step, it->steps, arena, demand_fill_steps, &tables) ||
        !tn__lists_make(&it->lives, engine->places.body_count, arena, demand_fill_lives, it) ||
        !tn__lists_make(&it->accesses, it->steps, arena, demand_fill_accesses, &tables))
        return tn__no_memory(error, "accesses by step");
    return TN_OK;
}

/* --- the smallest pool with which a run is possible --- */

static const char *demand_name(const tn__on_demand *it, tn_body_id body) {
    const tn_life *life = tn__places_life(&it->engine->places, body);
    if (life == NULL || life->tensor == TN_NONE) return "scratch memory";
    return tn_graph_tensor(it->engine->executor.graph, life->tensor)->name;
}

/* Writes the names and sizes of the buffers of the four largest sizes that a step accesses to
 * `text`, as many as fit. */
static void demand_list(const tn__on_demand *it, uint32_t step, char *text, size_t size) {
    char bytes[TN_SIZE_TEXT_MAX];
    size_t used = 0;
    uint64_t below = UINT64_MAX;
    for (int shown = 0; shown < 4 && used < size; shown++) {
        uint64_t most = 0;
        for (uint32_t a = it->accesses.first[step]; a < it->accesses.first[step + 1]; a++) {
            uint64_t own = demand_bytes(it, it->accesses.items[a]);
            if (own < below && own > most) most = own;
        }
        for (uint32_t a = it->accesses.first[step]; a < it->accesses.first[step + 1]; a++) {
            tn_body_id body = it->accesses.items[a];
            if (most == 0 || demand_bytes(it, body) != most || used >= size) continue;
            int put = snprintf(text + used, size - used, ", '%.40s' %s", demand_name(it, body),
                               tn_size_format(most, bytes));
            used += put > 0 ? (size_t)put : 0;
        }
        below = most;
    }
}

static uint64_t demand_needs(const tn__on_demand *it, uint32_t step) {
    uint64_t bytes = 0, own;
    for (uint32_t a = it->accesses.first[step]; a < it->accesses.first[step + 1]; a++)
        if (tn__align_up(demand_bytes(it, it->accesses.items[a]), 64, &own))
            bytes = tn__add_sat(bytes, own);
    return bytes;
}

static tn_status demand_too_small(const tn__on_demand *it, uint32_t step, uint64_t bytes,
                                  tn_error *error) {
    const tn_instruction *at = &tn_program_instructions(it->engine->program)[step];
    const tn_op *op = at->op != TN_NONE ? tn_graph_op(it->engine->executor.graph, at->op) : NULL;
    char needed[TN_SIZE_TEXT_MAX], budget[TN_SIZE_TEXT_MAX], statics[TN_SIZE_TEXT_MAX];
    char holders[220] = "";
    demand_list(it, step, holders, sizeof holders);
    TN_FAIL(error, TN_E_EXHAUSTED,
            "the budget of %s is too small for one operator: '%.60s' (%.30s) needs %s at once: "
            "static memory %s%s",
            tn_size_format(it->engine->options.pool_capacity, budget), op != NULL ? op->name : "",
            op != NULL ? op->type : tn_opcode_name(at->opcode), tn_size_format(bytes, needed),
            tn_size_format(it->engine->statics.bytes, statics), holders);
}

/* Checks that the buffers of each single step fit within the budget, together with static
 * memory. */
static tn_status demand_check(const tn__on_demand *it, tn_error *error) {
    uint32_t worst = TN_NONE;
    uint64_t most = 0;
    for (uint32_t s = 0; s < it->steps; s++) {
        uint64_t bytes = tn__add_sat(demand_needs(it, s), it->engine->statics.bytes);
        if (bytes <= most) continue;
        most = bytes;
        worst = s;
    }
    if (most <= it->engine->options.pool_capacity) return TN_OK;
    return demand_too_small(it, worst, most, error);
}

static tn_status demand_supports(const tn_engine *engine, tn_error *error) {
    const tn_instruction *list = tn_program_instructions(engine->program);
    if (tn_program_region_count(engine->program) > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "passive mode runs no control flow: a loop holds tensors that no step names");
    for (uint32_t s = 0; s < tn_program_count(engine->program); s++)
        if (list[s].stream != 0 || list[s].opcode == TN_SWAP_OUT || list[s].opcode == TN_FETCH)
            TN_FAIL(error, TN_E_UNSUPPORTED,
                    "passive mode runs a program of one stream without copies, not instruction %u",
                    s);
    return TN_OK;
}

tn_status tn__on_demand_make(tn_engine *engine) {
    tn_error *error = engine->executor.error;
    tn__on_demand *it = tn__arena_alloc(&engine->tables, sizeof *it);
    if (it == NULL) return tn__no_memory(error, "passive mode");
    *it = (tn__on_demand){.engine = engine, .steps = tn_program_count(engine->program)};
    if (engine->options.pool == NULL || engine->options.poison)
        TN_FAIL(error, TN_E_INVALID, "passive mode needs a pool, and does not go with poison");
    TN_TRY(demand_supports(engine, error));
    TN_TRY(demand_make_tables(it, &engine->tables, error));
    TN_TRY(demand_check(it, error));
    engine->places.on_demand = it;
    return TN_OK;
}

/* --- copies --- */

static void demand_forget(tn__on_demand *it, tn_body_id body) {
    tn__on_demand_body *at = &it->bodies[body];
    if (at->host == NULL) return;
    tn__free(&it->engine->context, at->host, (size_t)demand_bytes(it, body));
    at->host = NULL;
    it->host_now -= demand_bytes(it, body);
}

void tn__on_demand_release(tn_engine *engine) {
    tn__on_demand *it = engine->places.on_demand;
    for (tn_body_id b = 0; it != NULL && b < engine->places.body_count; b++) demand_forget(it, b);
}

static tn_status demand_take_host(tn__on_demand *it, tn_body_id body, tn_error *error) {
    uint64_t bytes = demand_bytes(it, body), limit = it->engine->options.host_capacity;
    char text[TN_SIZE_TEXT_MAX];
    if (limit != 0 && tn__add_sat(it->host_now, bytes) > limit)
        TN_FAIL(error, TN_E_EXHAUSTED, "swapped tensors need more than %s of the host's memory",
                tn_size_format(limit, text));
    it->bodies[body].host = tn__alloc(&it->engine->context, (size_t)bytes);
    if (it->bodies[body].host == NULL) return tn__no_memory(error, "swapped-out tensors");
    it->host_now += bytes;
    if (it->host_now > it->host_peak) it->host_peak = it->host_now;
    return TN_OK;
}

static tn_status demand_copy(tn__on_demand *it, tn_body_id body, bool out, tn_error *error) {
    tn_engine *engine = it->engine;
    uint64_t bytes = demand_bytes(it, body);
    uint8_t *host = it->bodies[body].host;
    tn_address address =
        tn__memory_address(&engine->memory, engine->places.arena + engine->places.offset[body]);
    tn_stream *stream = engine->memory.stream;
    double start = tn__clock_s();
    TN_TRY(out ? tn_device_get(stream, host, address, bytes, error)
               : tn_device_put(stream, address, host, bytes, error));
    TN_TRY(tn_stream_wait(stream, error));
    *(out ? &it->out_s : &it->in_s) += tn__clock_s() - start;
    *(out ? &it->out_bytes : &it->in_bytes) += bytes;
    return TN_OK;
}

/* --- eviction --- */

/* Evicts a buffer: copies its data to the host and frees its bytes in the arena. A buffer that
 * began at the current step has no data yet, so nothing is copied. */
static tn_status demand_evict(tn__on_demand *it, tn_body_id body, tn_error *error) {
    tn__on_demand_body *at = &it->bodies[body];
    if (at->begun != it->now && demand_bytes(it, body) > 0) {
        TN_TRY(demand_take_host(it, body, error));
        TN_TRY(demand_copy(it, body, true, error));
        it->evictions++;
    }
    at->out = true;
    return tn_pool_free(it->engine->places.pool, it->engine->places.block[body], error);
}

/* Returns the buffer in the arena that was accessed least recently; buffers of the current step do
 * not count. TN_NONE: there is none. */
static tn_body_id demand_oldest(const tn__on_demand *it) {
    tn_body_id oldest = TN_NONE;
    for (tn_body_id b = 0; b < it->engine->places.body_count; b++) {
        const tn__on_demand_body *at = &it->bodies[b];
        if (!at->live || at->out || at->touched == it->now || demand_bytes(it, b) == 0) continue;
        if (oldest == TN_NONE || at->touched < it->bodies[oldest].touched) oldest = b;
    }
    return oldest;
}

/* Allocates a buffer from the pool. Does not evict: E_EXHAUSTED if the pool is full. */
static tn_status demand_alloc(tn__on_demand *it, tn_body_id body, tn_error *error) {
    tn__places *places = &it->engine->places;
    tn_allocation block;
    tn_pool_request request = {.size = demand_bytes(it, body), .tag = places->tag[body]};
    TN_TRY(tn_pool_alloc(places->pool, &request, &block, error));
    places->offset[body] = block.offset;
    places->block[body] = block.id;
    it->bodies[body].out = false;
    return TN_OK;
}

/* Sets the addresses of the live tensors in a buffer to the buffer's new offset. */
static void demand_bind(tn__on_demand *it, tn_body_id body) {
    tn_engine *engine = it->engine;
    const tn_life *lives = demand_lives(it);
    for (uint32_t i = it->lives.first[body]; i < it->lives.first[body + 1]; i++) {
        const tn_life *life = &lives[it->lives.items[i]];
        if (life->tensor == TN_NONE || life->first > it->step || life->last <= it->step) continue;
        uint64_t at = tn__places_of(&engine->places, life);
        engine->executor.operands[life->tensor].data = engine->places.arena + at;
        if (at + life->bytes > engine->highest) engine->highest = at + life->bytes;
    }
}

/* Completes the return of a buffer that was allocated again: copies its data from the host, if it
 * has any, and sets the addresses of its tensors. */
static tn_status demand_return(tn__on_demand *it, tn_body_id body, tn_error *error) {
    if (it->bodies[body].host != NULL) TN_TRY(demand_copy(it, body, false, error));
    demand_forget(it, body);
    demand_bind(it, body);
    return TN_OK;
}

static tn_body_id demand_largest_out(const tn__on_demand *it) {
    tn_body_id largest = TN_NONE;
    for (uint32_t a = it->accesses.first[it->step]; a < it->accesses.first[it->step + 1]; a++) {
        tn_body_id b = it->accesses.items[a];
        if (!it->bodies[b].out) continue;
        if (largest == TN_NONE || demand_bytes(it, b) > demand_bytes(it, largest)) largest = b;
    }
    return largest;
}

/* Used if enough bytes are free but not contiguous: evicts all buffers, then brings back the
 * buffers of the current step, the largest first. */
static tn_status demand_pack(tn__on_demand *it, tn_error *error) {
    it->packs++;
    for (tn_body_id b = 0; b < it->engine->places.body_count; b++)
        if (it->bodies[b].live && !it->bodies[b].out) TN_TRY(demand_evict(it, b, error));
    for (tn_body_id b = demand_largest_out(it); b != TN_NONE; b = demand_largest_out(it)) {
        TN_TRY(demand_alloc(it, b, error));
        TN_TRY(demand_return(it, b, error));
    }
    return TN_OK;
}

static tn_status demand_bring(tn__on_demand *it, tn_body_id body, tn_error *error) {
    for (;;) {
        tn_error full;
        tn_status status = demand_alloc(it, body, &full);
        if (status == TN_OK) return demand_return(it, body, error);
        tn_body_id oldest = demand_oldest(it);
        if (status != TN_E_EXHAUSTED) {
            *error = full;
            return status;
        }
        if (oldest == TN_NONE) return demand_pack(it, error);
        TN_TRY(demand_evict(it, oldest, error));
    }
}

/* --- functions that a run calls at its beginning, at each step and at its end --- */

void tn__on_demand_start(tn__on_demand *it) {
    if (it == NULL) return;
    it->access_count = it->evictions = it->packs = 0;
    it->out_bytes = it->in_bytes = it->host_peak = 0;
    it->out_s = it->in_s = 0;
    it->start_s = tn__clock_s();
}

static double demand_time(const tn__on_demand *it) {
    return tn__clock_s() - it->start_s - it->out_s - it->in_s;
}

void tn__on_demand_arrive(tn__on_demand *it, uint32_t step) {
    if (it == NULL) return;
    it->step = step;
    it->now++;
    for (uint32_t a = it->accesses.first[step]; a < it->accesses.first[step + 1]; a++)
        it->bodies[it->accesses.items[a]].touched = it->now;
    it->access_count += it->accesses.first[step + 1] - it->accesses.first[step];
}

tn_status tn__on_demand_enter(tn__on_demand *it) {
    if (it == NULL) return TN_OK;
    for (uint32_t a = it->accesses.first[it->step]; a < it->accesses.first[it->step + 1]; a++) {
        tn_body_id body = it->accesses.items[a];
        if (it->bodies[body].out) TN_TRY(demand_bring(it, body, it->engine->executor.error));
    }
    it->times[it->step] = demand_time(it);
    return TN_OK;
}

void tn__on_demand_finish(tn__on_demand *it) {
    if (it != NULL) it->times[it->steps] = demand_time(it);
}

void tn__on_demand_begin(tn__on_demand *it, tn_body_id body) {
    it->bodies[body].live = it->bodies[body].out = true;
    it->bodies[body].begun = it->now;
}

tn_status tn__on_demand_end(tn__on_demand *it, tn_body_id body, tn_error *error) {
    tn__on_demand_body *at = &it->bodies[body];
    bool out = at->out;
    demand_forget(it, body);
    at->live = at->out = false;
    return out ? TN_OK
               : tn_pool_free(it->engine->places.pool, it->engine->places.block[body], error);
}
