/* memory.c - the arena of the eager interpreter, and the functions that the eviction core
 * (memory/evict/evict.h) calls to use it.
 *
 * These functions compute, move and copy tensors in the arena. The arena is one block of device
 * memory, as large as the budget. Without a budget it is as large as the device, or as half of the
 * machine's memory; pages that are never touched cost nothing.
 *
 * Poison, the detection of stray writes: the arena is checked in units of 64 bytes. A unit that was
 * never used must still be zero. A unit that was released is filled with a pattern, and must still
 * have it when it is used again. A tensor may get only units that no other tensor has.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "graph/takes.h"
#include "run/eager/interpreter.h"

#define MEMORY_UNIT 64u
#define MEMORY_POISON 0xff /* the byte of the pattern: NaNs in all floating-point types */
#define MEMORY_TIMED 8u    /* number of runs of an operator that are measured */
/* modelled duration, in nanoseconds, of an operator that computes nothing */
#define MEMORY_CALL_NS 200u
/* modelled number of bytes that one processor core copies per second */
#define MEMORY_MOVES 8000000000u

enum { MEMORY_FRESH, MEMORY_FREE, MEMORY_HELD };

/* --- poison --- */

static bool memory_is_clean(const tn__eager_memory *memory, uint64_t unit) {
    const uint64_t *words = (const uint64_t *)(const void *)(memory->bytes + unit * MEMORY_UNIT);
    uint64_t want = memory->owned[unit] == MEMORY_FRESH ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < MEMORY_UNIT / sizeof *words; i++)
        if (words[i] != want) return false;
    return true;
}

static tn_status memory_conflict(uint64_t unit, const char *what, tn_error *error) {
    TN_FAIL(error, TN_E_CONFLICT, "bytes %llu to %llu of the arena %s",
            (unsigned long long)(unit * MEMORY_UNIT),
            (unsigned long long)((unit + 1) * MEMORY_UNIT), what);
}

/* Marks the units of a range as used. Fails if a unit is in use already, or was written while it
 * was not. */
static tn_status memory_hold(tn__eager_memory *memory, uint64_t at, uint64_t bytes,
                             tn_error *error) {
    uint64_t end = (at + bytes + MEMORY_UNIT - 1) / MEMORY_UNIT;
    for (uint64_t unit = at / MEMORY_UNIT; memory->owned != NULL && bytes > 0 && unit < end;
         unit++) {
        if (memory->owned[unit] == MEMORY_HELD)
            return memory_conflict(unit, "are given to a second tensor", error);
        if (!memory_is_clean(memory, unit))
            return memory_conflict(unit, "were written while nothing lived there", error);
        memory->owned[unit] = MEMORY_HELD;
    }
    return TN_OK;
}

static void memory_poison(void *self, uint64_t at, uint64_t bytes) {
    tn__eager_memory *memory = &((tn_eager *)self)->memory;
    if (memory->owned == NULL || bytes == 0) return;
    uint64_t first = at / MEMORY_UNIT, end = (at + bytes + MEMORY_UNIT - 1) / MEMORY_UNIT;
    memset(memory->owned + first, MEMORY_FREE, (size_t)(end - first));
    memset(memory->bytes + first * MEMORY_UNIT, MEMORY_POISON,
           (size_t)((end - first) * MEMORY_UNIT));
}

tn_status tn_eager_check(const tn_eager *eager, tn_error *error) {
    const tn__eager_memory *memory = &eager->memory;
    const char *broken = tn__evict_check(memory->core);
    if (broken != NULL) TN_FAIL(error, TN_E_INTERNAL, "%.300s", broken);
    if (memory->owned == NULL) return TN_OK;
    uint64_t reach = tn__evict_count(memory->core)->reach_bytes / MEMORY_UNIT + 64;
    uint64_t units = memory->size / MEMORY_UNIT;
    for (uint64_t unit = 0; unit < units && unit < reach; unit++)
        if (memory->owned[unit] != MEMORY_HELD && !memory_is_clean(memory, unit))
            return memory_conflict(unit, "were written while nothing lived there", error);
    return TN_OK;
}

/* --- hooks --- */

static uint64_t memory_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sets the addresses of operands in the prepared call of a cached operator. If a second operator
 * computes output 0, the address of output 0 is in the scratch memory. */
static void memory_bind(const tn__eager_memory *memory, tn__cached_op *cached,
                        const tn__evict_run *run) {
    tn_operand *inputs = (tn_operand *)(uintptr_t)cached->call.inputs;
    for (uint32_t i = 0; i < cached->data_input_count; i++)
        inputs[cached->data_inputs[i]].data = memory->bytes + run->input_at[i];
    for (uint32_t k = 0; k < cached->data_output_count; k++)
        cached->call.outputs[cached->data_outputs[k]].data = memory->bytes + run->output_at[k];
    cached->call.workspace = memory->bytes + run->scratch_at;
    if (cached->again != NULL)
        cached->call.outputs[0].data = memory->bytes + run->scratch_at + cached->aside;
}

static tn_status memory_hold_all(tn__eager_memory *memory, const tn__cached_op *cached,
                                 const tn__evict_run *run, tn_error *error) {
    for (uint32_t k = 0; k < cached->data_output_count; k++)
        if (cached->data_as[k].alias == TN__EVICT_NONE && (!memory->in_place || run->again) &&
            !(run->again && tn__evict_is_there(memory->core, run->outputs[k])))
            TN_TRY(memory_hold(memory, run->output_at[k], cached->data_as[k].bytes, error));
    return memory_hold(memory, run->scratch_at, run->scratch_bytes, error);
}

/* Runs an operator that draws random numbers. When it is recomputed, it draws the numbers of its
 * first run. */
static tn_status memory_draw(tn_eager *eager, tn__cached_op *cached, const tn__evict_run *run) {
    tn__eager_memory *memory = &eager->memory;
    uint64_t now = eager->random;
    if (!tn__reserve(&eager->context, &memory->drawn, &memory->drawn_room, (size_t)run->op + 1,
                     sizeof *memory->drawn))
        return tn__no_memory(cached->call.error, "counters of random operators");
    if (run->again)
        eager->random = memory->drawn[run->op];
    else
        memory->drawn[run->op] = now;
    tn_status status = cached->prepared->kernel->run(&cached->call);
    if (run->again) eager->random = now;
    return status;
}

static tn_status memory_run(tn_eager *eager, tn__cached_op *cached, const tn__evict_run *run) {
    return cached->random ? memory_draw(eager, cached, run)
                          : cached->prepared->kernel->run(&cached->call);
}

static tn_status memory_timed(tn_eager *eager, tn__cached_op *cached, const tn__evict_run *run) {
    uint64_t began = memory_now();
    tn_status status = memory_run(eager, cached, run);
    uint64_t took = memory_now() - began;
    if (cached->timed++ == 0 || took < cached->cost_ns) cached->cost_ns = took > 0 ? took : 1;
    return status;
}

/* Returns the modelled cost of an operator, which is the same in every run. */
static uint64_t memory_model(const tn__cached_op *cached) {
    double ns = 1e9 * tn__op_takes(cached->graph, 0, &TN__PLAIN_MACHINE, NULL);
    return MEMORY_CALL_NS + (ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18);
}

/* Writes new data over a fixed tensor. No operator runs; the interpreter has the data. */
static tn_status memory_overwrite(tn__eager_memory *memory, const tn__evict_run *run,
                                  tn_error *error) {
    return tn_device_put(memory->stream, memory->arena + run->output_at[0], memory->given,
                         memory->given_bytes, error);
}

static tn_status memory_compute(void *self, const tn__evict_run *run, uint64_t *cost,
                                tn_error *error) {
    tn_eager *eager = self;
    tn__cached_op *cached = run->what;
    if (cached == NULL) return memory_overwrite(&eager->memory, run, error);
    /* all outputs are views, and their data exist already */
    if (cached->prepared == NULL) return TN_OK;
    if (eager->memory.owned != NULL) TN_TRY(memory_hold_all(&eager->memory, cached, run, error));
    memory_bind(&eager->memory, cached, run);
    cached->call.error = error;
    bool timed = cached->timed < MEMORY_TIMED && !eager->options.model_costs;
    if (eager->options.model_costs && cached->cost_ns == 0) cached->cost_ns = memory_model(cached);
    tn_status status = timed ? memory_timed(eager, cached, run) : memory_run(eager, cached, run);
    *cost = cached->cost_ns;
    return status;
}

static void memory_move(void *self, uint64_t from, uint64_t to, uint64_t bytes) {
    tn__eager_memory *memory = &((tn_eager *)self)->memory;
    memmove(memory->bytes + to, memory->bytes + from, (size_t)bytes);
    if (memory->owned == NULL || bytes == 0) return;
    uint64_t units = (bytes + MEMORY_UNIT - 1) / MEMORY_UNIT;
    for (uint64_t u = 0; u < units; u++) {
        uint64_t left = from / MEMORY_UNIT + u;
        if (left < to / MEMORY_UNIT || left >= to / MEMORY_UNIT + units)
            memory_poison(self, left * MEMORY_UNIT, MEMORY_UNIT);
    }
    memset(memory->owned + to / MEMORY_UNIT, MEMORY_HELD, (size_t)units);
}

static tn_status memory_copy_out(void *self, uint64_t at, uint64_t bytes, uint64_t *host,
                                 tn_error *error) {
    tn_eager *eager = self;
    void *copy = tn__alloc(&eager->context, (size_t)bytes);
    if (copy == NULL) return tn__no_memory(error, "a copy on the host");
    tn_status status =
        tn_device_get(eager->memory.stream, copy, eager->memory.arena + at, bytes, error);
    if (status == TN_OK)
        *host = (uint64_t)(uintptr_t)copy;
    else
        tn__free(&eager->context, copy, (size_t)bytes);
    return status;
}

static tn_status memory_copy_in(void *self, uint64_t host, uint64_t at, uint64_t bytes,
                                tn_error *error) {
    tn__eager_memory *memory = &((tn_eager *)self)->memory;
    TN_TRY(memory_hold(memory, at, bytes, error));
    return tn_device_put(memory->stream, memory->arena + at, (const void *)(uintptr_t)host, bytes,
                         error);
}

static void memory_forget_copy(void *self, uint64_t host, uint64_t bytes) {
    tn__free(&((tn_eager *)self)->context, (void *)(uintptr_t)host, (size_t)bytes);
}

static const char *memory_name(void *self, uint32_t tensor) {
    const tn__eager_memory *memory = &((tn_eager *)self)->memory;
    return tensor < memory->label_room ? memory->labels[tensor] : NULL;
}

static void memory_forget(void *self, void *what) {
    (void)what;
    ((tn_eager *)self)->memory.history--;
}

/* --- creation --- */

/* Returns the size of the arena without a budget: the device's capacity, or half of the machine's
 * memory. */
static uint64_t memory_most(const tn_eager *eager) {
    tn_device_limits limits = tn_device_limits_of(eager->memory.device);
    if (limits.capacity != TN_SIZE_UNKNOWN) return limits.capacity;
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : (uint64_t)1 << 30;
}

static tn_status memory_arena(tn_eager *eager, tn_error *error) {
    tn__eager_memory *memory = &eager->memory;
    bool given = eager->options.budget != 0;
    uint64_t size = given ? eager->options.budget : memory_most(eager);
    for (;; size /= 2) {
        memory->size = size / MEMORY_UNIT * MEMORY_UNIT;
        if (memory->size == 0)
            TN_FAIL(error, TN_E_INVALID, "a budget of %llu bytes; the least is %u",
                    (unsigned long long)size, MEMORY_UNIT);
        tn_status status = tn_device_alloc(memory->device, memory->size, &memory->arena, error);
        if (status == TN_OK) break;
        if (given || size < ((uint64_t)1 << 24)) return status;
    }
    memory->bytes = tn_device_pointer(memory->device, memory->arena);
    if (!eager->options.poison) return TN_OK;
    memory->owned = tn__alloc_array(&eager->context, (size_t)(memory->size / MEMORY_UNIT), 1);
    return memory->owned != NULL ? TN_OK : tn__no_memory(error, "poison");
}

static tn_status memory_device(tn_eager *eager, tn_error *error) {
    tn__eager_memory *memory = &eager->memory;
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    options.context = &eager->context;
    memory->device = eager->options.device;
    memory->own_device = memory->device == NULL;
    if (memory->own_device) TN_TRY(tn_device_create(&options, &memory->device, error));
    if (!tn_device_limits_of(memory->device).host_kernels)
        TN_FAIL(error, TN_E_UNSUPPORTED, "kernels are functions of the host; device '%.40s' is not",
                tn_device_limits_of(memory->device).name);
    return tn_stream_create(memory->device, TN_STREAM_INLINE, &memory->stream, error);
}

tn_status tn__eager_memory_open(tn_eager *eager, tn_error *error) {
    tn__eager_memory *memory = &eager->memory;
    TN_TRY(memory_device(eager, error));
    TN_TRY(memory_arena(eager, error));
    const tn_eager_options *asked = &eager->options;
    tn__evict_options options = {.context = &eager->context,
                                 .policy = asked->policy,
                                 .budget = memory->size,
                                 .addresses = true,
                                 .alignment = MEMORY_UNIT,
                                 .small_too = asked->all_candidates,
                                 .sample = !asked->all_candidates,
                                 .find_least = asked->find_least,
                                 .time_search = true,
                                 .seed = asked->seed,
                                 .link_bytes_per_s =
                                     (uint64_t)tn_device_limits_of(memory->device).link_bytes_per_s,
                                 .move_bytes_per_s = MEMORY_MOVES,
                                 .hooks = {.self = eager,
                                           .compute = memory_compute,
                                           .move = memory_move,
                                           .copy_out = memory_copy_out,
                                           .copy_in = memory_copy_in,
                                           .forget_copy = memory_forget_copy,
                                           .poison = asked->poison ? memory_poison : NULL,
                                           .forget = memory_forget,
                                           .name = memory_name}};
    return tn__evict_create(&options, &memory->core, error);
}

void tn__eager_memory_close(tn_eager *eager) {
    tn__eager_memory *memory = &eager->memory;
    tn__evict_destroy(memory->core);
    if (memory->arena != 0) tn_device_free(memory->device, memory->arena);
    if (memory->stream != NULL) tn_stream_destroy(memory->stream);
    if (memory->own_device) tn_device_destroy(memory->device);
    tn__free(&eager->context, memory->owned, (size_t)(memory->size / MEMORY_UNIT));
    tn__free(&eager->context, memory->drawn, memory->drawn_room * sizeof *memory->drawn);
    tn__free(&eager->context, memory->labels, memory->label_room * sizeof *memory->labels);
}

/* --- functions that the commands call --- */

void tn__eager_memory_label(tn_eager *eager, uint32_t tensor, const char *label) {
    tn__eager_memory *memory = &eager->memory;
    size_t room = memory->label_room;
    if (!tn__reserve(&eager->context, &memory->labels, &memory->label_room, (size_t)tensor + 1,
                     sizeof *memory->labels))
        /* running out of memory is no error here: only the name of the tensor is missing in
         * messages */
        return;
    if (memory->label_room > room)
        memset(memory->labels + room, 0, (memory->label_room - room) * sizeof *memory->labels);
    memory->labels[tensor] = label;
}

/* Stores a name for messages, and records the operator or value with the largest need of memory. */
static void memory_label(tn_eager *eager, uint32_t tensor, const char *label) {
    tn__eager_memory *memory = &eager->memory;
    if (tn__evict_least_of(memory->core)->bytes > memory->least.bytes) {
        memory->least = *tn__evict_least_of(memory->core);
        memory->least.name = label;
    }
    tn__eager_memory_label(eager, tensor, label);
}

static tn_status memory_fill(tn__eager_memory *memory, const void *bytes, uint64_t size,
                             uint64_t at, tn_error *error) {
    TN_TRY(memory_hold(memory, at, size, error));
    if (bytes != NULL) return tn_device_put(memory->stream, memory->arena + at, bytes, size, error);
    if (size > 0) memset(memory->bytes + at, 0, (size_t)size);
    return TN_OK;
}

tn_status tn__eager_memory_put(tn_eager *eager, const void *bytes, uint64_t size, bool fixed,
                               const char *label, uint32_t *tensor, tn_error *error) {
    tn__eager_memory *memory = &eager->memory;
    const tn__evict_value value = {.bytes = size, .pinned = fixed};
    uint32_t made;
    TN_TRY(tn__evict_constant(memory->core, &value, &made, error));
    memory_label(eager, made, label);
    tn_status status = memory_fill(memory, bytes, size, tn__evict_at(memory->core, made), error);
    if (status == TN_OK)
        *tensor = made;
    else
        tn__evict_release(memory->core, made);
    return status;
}

tn_status tn__eager_memory_get(tn_eager *eager, uint32_t tensor, void *bytes, uint64_t size,
                               tn_error *error) {
    tn__eager_memory *memory = &eager->memory;
    TN_TRY(tn__evict_want(memory->core, tensor, error));
    tn_address from = memory->arena + tn__evict_at(memory->core, tensor);
    tn_status status = size > 0 ? tn_device_get(memory->stream, bytes, from, size, error) : TN_OK;
    tn__evict_unlock(memory->core, tensor);
    return status;
}

tn_status tn__eager_memory_set(tn_eager *eager, const void *bytes, uint64_t size, uint32_t *tensor,
                               tn_error *error) {
    tn__eager_memory *memory = &eager->memory;
    const tn__evict_output over = {.bytes = size, .alias = 0, .overwrites = true};
    const tn__evict_call call = {
        .inputs = tensor, .input_count = 1, .outputs = &over, .output_count = 1};
    uint32_t made;
    memory->given = bytes;
    memory->given_bytes = size;
    TN_TRY(tn__evict_apply(memory->core, &call, &made, error));
    tn__evict_release(memory->core, *tensor);
    *tensor = made;
    return TN_OK;
}

void tn__eager_memory_put_back(tn_eager *eager, uint32_t tensor, const void *bytes, uint64_t size) {
    const tn__eager_memory *memory = &eager->memory;
    memcpy(memory->bytes + tn__evict_at(memory->core, tensor), bytes, (size_t)size);
}

tn_status tn__eager_memory_apply(tn_eager *eager, tn__cached_op *cached, const uint32_t *inputs,
                                 uint32_t *outputs, tn_error *error) {
    const tn__evict_call call = {.what = cached,
                                 .cost = cached->cost_ns,
                                 .scratch = cached->scratch,
                                 .flags = cached->repeats ? 0 : TN__EVICT_ONCE,
                                 .input_count = cached->data_input_count,
                                 .output_count = cached->data_output_count,
                                 .inputs = inputs,
                                 .outputs = cached->data_as};
    TN_TRY(tn__evict_apply(eager->memory.core, &call, outputs, error));
    eager->memory.history++;
    for (uint32_t k = 0; k < cached->data_output_count; k++)
        memory_label(eager, outputs[k], cached->op->type);
    return TN_OK;
}

tn_status tn__eager_memory_add(tn_eager *eager, tn__cached_op *cached, const uint32_t *inputs,
                               uint32_t *output, tn_error *error) {
    tn__eager_memory *memory = &eager->memory;
    const tn__evict_output over = {
        .bytes = cached->data_as[0].bytes, .alias = 0, .overwrites = true};
    const tn__evict_call call = {.what = cached,
                                 .cost = cached->cost_ns,
                                 .scratch = cached->scratch,
                                 .input_count = 2,
                                 .output_count = 1,
                                 .inputs = inputs,
                                 .outputs = &over};
    memory->in_place = true;
    tn_status status = tn__evict_apply(memory->core, &call, output, error);
    memory->in_place = false;
    if (status != TN_OK) return status;
    memory->history++;
    memory_label(eager, *output, cached->op->type);
    return TN_OK;
}
