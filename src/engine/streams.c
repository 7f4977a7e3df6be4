/* streams.c - runs instructions on streams of the device, and makes the calling thread wait for
 * them where the program has a signal.
 *
 * Each such instruction is an item with a fence, which its stream records after it. To wait for a
 * signal means to wait for the fence of the item that gives the signal. If an instruction that runs
 * in the calling thread gives the signal, no wait is needed, because that thread has already run
 * it. All memory, including the entries of the queues, is allocated when the engine is created, so
 * a run allocates nothing.
 *
 * Swapped-out tensors may be stored on another device. The copies to it run on the program's
 * streams. Each of these is paired with a stream of the other device that works in the calling
 * thread, so order, fences and failures are as for copies to the host.
 *
 * Cost: O(1) per step, and O(copies in progress) to find the copy that uses given bytes.
 */
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "engine/engine.h"
#include "graph/op.h"
#include "memory/device/driver.h"

/* queue entries of a stream that one copy or message needs in tn__streams_queue */
#define STREAMS_QUEUED 4u

/* --- which steps each stream knows to have ended, from the program's signals alone ---
 *
 * Every stream has a row with an entry for each stream: the number of that stream's steps, from the
 * beginning of the program, that are known to have ended. A signal copies the row of the stream
 * that gives it to the stream that waits for it. An instruction that blocks its caller passes its
 * row to the next instruction of the same opcode. Only the check for stray writes (poison) uses
 * these rows. They share no code with the vector clocks from which the plan was made
 * (program/liveness/happens.h), so they check the plan independently.
 * Cost: O(streams) per step.
 * Source: vector clocks: Fidge 1988, Mattern 1989.
 */

typedef struct tn__known {
    const tn_instruction *instructions;
    uint32_t width; /* streams */
    uint32_t at;    /* index of the current step */
    /* width x width entries: row[a * width + b] = s means that stream a knows that all steps of
     * stream b before step s have ended */
    uint32_t *row;
    uint32_t *given; /* [signals][width] for each signal: the row of the stream that gave it */
    /* [TN_OPCODE_COUNT][width] for each opcode: the row of the last blocking instruction */
    uint32_t *called;
    /* for each step: the row of `given` that its signal fills; TN_NONE: it gives no signal */
    uint32_t *given_at;
    /* for each step: the step that gives the signal for which it waits; TN_NONE: it waits for
     * none */
    const uint32_t *giver;
    size_t given_count;
} tn__known;

static tn_status known_make(tn__streams *streams, const uint32_t *giver, tn__arena *arena) {
    uint32_t steps = tn_program_count(streams->program);
    tn__known *known = tn__arena_alloc(arena, sizeof *known);
    if (known == NULL) return tn__no_memory(streams->executor->error, "steps known to be finished");
    known->instructions = tn_program_instructions(streams->program);
    known->given_at = tn__arena_array(arena, steps, sizeof *known->given_at);
    if (known->given_at == NULL)
        return tn__no_memory(streams->executor->error, "steps known to be finished");
    for (uint32_t s = 0; s < steps; s++) {
        const tn_instruction *it = &known->instructions[s];
        if (it->stream >= known->width) known->width = it->stream + 1;
        known->given_at[s] = it->signal != 0 ? (uint32_t)known->given_count++ : TN_NONE;
    }
    size_t width = known->width;
    known->giver = giver;
    known->row = tn__arena_array(arena, width * width, sizeof *known->row);
    known->called = tn__arena_array(arena, TN_OPCODE_COUNT * width, sizeof *known->called);
    known->given = tn__arena_array(arena, known->given_count * width, sizeof *known->given);
    if (known->row == NULL || known->called == NULL || known->given == NULL)
        return tn__no_memory(streams->executor->error, "steps known to be finished");
    streams->known = known;
    return TN_OK;
}

static void known_start(tn__streams *streams) {
    tn__known *known = streams->known;
    if (known == NULL) return;
    size_t width = known->width;
    memset(known->row, 0, width * width * sizeof *known->row);
    memset(known->called, 0, TN_OPCODE_COUNT * width * sizeof *known->called);
    known->at = TN_NONE;
}

static void known_merge(uint32_t *into, const uint32_t *from, uint32_t width) {
    for (uint32_t s = 0; s < width; s++)
        if (from[s] > into[s]) into[s] = from[s];
}

/* Records that the current step has ended: in the row of its own stream, in the row that its signal
 * carries, and in the row of its opcode if it blocks its caller. */
static void known_leave(tn__known *known) {
    const tn_instruction *it = &known->instructions[known->at];
    uint32_t *row = known->row + (size_t)it->stream * known->width;
    row[it->stream] = known->at + 1;
    if (known->given_at[known->at] != TN_NONE)
        memcpy(known->given + (size_t)known->given_at[known->at] * known->width, row,
               known->width * sizeof *row);
    if (tn_opcode_facts_of(it->opcode)->blocks == TN_BLOCKS_CALLER)
        known_merge(known->called + (size_t)it->opcode * known->width, row, known->width);
}

void tn__known_arrive(tn__streams *streams, uint32_t step) {
    tn__known *known = streams->known;
    if (known == NULL) return;
    if (known->at != TN_NONE) known_leave(known);
    known->at = step;
    const tn_instruction *it = &known->instructions[step];
    uint32_t *row = known->row + (size_t)it->stream * known->width;
    if (known->giver[step] != TN_NONE)
        known_merge(row, known->given + (size_t)known->given_at[known->giver[step]] * known->width,
                    known->width);
    if (tn_opcode_facts_of(it->opcode)->blocks == TN_BLOCKS_CALLER)
        known_merge(row, known->called + (size_t)it->opcode * known->width, known->width);
}

bool tn__known_over(const tn__streams *streams, uint32_t item) {
    const tn__known *known = streams->known;
    const tn__stream_item *of = &streams->items[item];
    uint32_t stream = known->instructions[known->at].stream;
    return known->row[(size_t)stream * known->width + of->stream] > of->step;
}

/* --- swapped-out tensors on a separate device, and the link to that device ---
 *
 * The threads of the program's streams make the copies. For this they use streams of the other
 * device that work in the calling thread. The bandwidth of the link can be limited
 * (tn_engine_options.swap_bytes_per_s). The link carries one copy at a time in each direction: a
 * copy reserves its time on the link when it begins, and does not end before that time has passed.
 */

static tn_status swaps_open(tn__host *host, const tn_engine_options *options,
                            const tn_context *context, tn_error *error) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    double speed = options->swap_bytes_per_s;
    if (!(speed >= 0 && speed <= 1e18))
        TN_FAIL(error, TN_E_INVALID, "a link has from 0 to 1e18 bytes per second, not %g", speed);
    device.device = options->swap_device;
    device.context = context;
    if (pthread_mutex_init(&host->lock, NULL) != 0)
        return tn__no_memory(error, "the lock of a link");
    tn_status status = tn_device_create(&device, &host->device, error);
    if (status != TN_OK) {
        pthread_mutex_destroy(&host->lock);
        return status;
    }
    host->bytes_per_s = speed;
    return tn_device_alloc(host->device, host->size, &host->address, error);
}

static void swaps_close(tn__host *host) {
    if (host->device == NULL) return;
    /* this also frees the memory that was allocated on the device */
    tn_device_destroy(host->device);
    pthread_mutex_destroy(&host->lock);
}

/* Reserves time on the link for a copy that begins now. Returns the time at which it will end. */
static double swaps_book(tn__host *host, bool out, uint64_t bytes) {
    if (host->bytes_per_s <= 0) return 0;
    pthread_mutex_lock(&host->lock);
    double now = tn__clock_s(), *is_free = &host->free_s[out];
    *is_free = (*is_free > now ? *is_free : now) + (double)bytes / host->bytes_per_s;
    double end = *is_free;
    pthread_mutex_unlock(&host->lock);
    return end;
}

static tn_status swaps_copy(void *self, tn_error *error) {
    const tn__stream_item *item = self;
    tn__streams *streams = item->streams;
    tn__host *host = &streams->host;
    tn_opcode opcode = tn_program_instructions(streams->program)[item->step].opcode;
    bool out = tn_opcode_facts_of(opcode)->link == TN_LINK_TO_HOST;
    tn_stream *stream = host->streams[item->stream];
    tn_address there = host->address + host->offset[item - streams->items];
    double end = swaps_book(host, out, item->bytes);
    TN_TRY(out ? tn_device_put(stream, there, item->data, item->bytes, error)
               : tn_device_get(stream, item->data, there, item->bytes, error));
    tn__clock_sleep_until(end);
    return TN_OK;
}

/* --- instructions that can run on streams --- */

static bool streams_swaps(const tn_instruction *it) {
    return (tn_opcode_facts_of(it->opcode)->flags & TN_USES_SLOT) != 0;
}

/* Whether a stream of the device runs the instruction, or could run it. `kernels`: kernels run on
 * streams, too. Instructions that access the caller's arrays always run in the calling thread. */
static bool streams_is_item(const tn_instruction *it, bool kernels) {
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    if (streams_swaps(it) || tn__instruction_talks(it) || it->opcode == TN_FETCH) return true;
    if (kernels && it->opcode == TN_APPLY) return true;
    bool idle = facts->reads == TN_AFFECTS_NONE && facts->changes == TN_AFFECTS_NONE &&
                facts->defines == TN_AFFECTS_NONE;
    return (kernels || it->stream != 0) && idle && (it->wait != 0 || it->signal != 0);
}

/* --- kernels that run at the same time --- */

/* Whether the kernel of an operator can run at the same time as others. Its outputs must have exact
 * extents, because extents that only a run finds out are written to a table that all kernels share.
 * It must draw no random numbers, because these would depend on the order of the kernels. A cache
 * of rows serves one kernel at a time. */
static bool streams_kernel_can(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    if (tn__op_has_blocks(op) || tn__rule_of(graph, id) == NULL || tn__op_draws(graph, id) ||
        tn__op_has_rows(op))
        return false;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        uint32_t flags = tn_graph_tensor(graph, op->outputs[k])->flags;
        if ((flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE)) != 0) return false;
    }
    return true;
}

/* Returns the number of streams on which kernels run at the same time. 0: all kernels run in the
 * calling thread, because the program uses one stream, has instructions that are no operators, or
 * has an operator that cannot run at the same time as others, or because an option observes the
 * memory between two operators. */
static uint32_t streams_kernels_of(const tn_program *program, const tn_engine_options *options) {
    const tn_instruction *instructions = tn_program_instructions(program);
    bool used[TN_STREAM_MAX] = {false};
    uint32_t count = 0;
    if (options->pool != NULL || options->on_demand || options->poison || options->zeros != NULL ||
        options->exchange != NULL || tn_program_region_count(program) > 0)
        return 0;
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        const tn_instruction *it = &instructions[s];
        bool plain = it->opcode == TN_PUT || it->opcode == TN_GET || it->opcode == TN_WAIT;
        if (plain) continue;
        if (it->opcode != TN_APPLY || it->again) return 0;
        if (!streams_kernel_can(tn_program_graph(program), it->op)) return 0;
        count += !used[it->stream];
        used[it->stream] = true;
    }
    return count > 1 ? count : 0;
}

static tn_status streams_kernel_tables(tn__streams *streams, tn__arena *arena) {
    const tn_graph *graph = tn_program_graph(streams->program);
    for (uint32_t i = 0; i < streams->item_count; i++) {
        tn__stream_item *item = &streams->items[i];
        if (!item->applies) continue;
        const tn_op *op = tn_graph_op(graph, item->call.op);
        item->call.inputs = tn__arena_array(arena, op->input_count, sizeof *item->call.inputs);
        item->call.outputs = tn__arena_array(arena, op->output_count, sizeof *item->call.outputs);
        if (item->call.inputs == NULL || item->call.outputs == NULL)
            return tn__no_memory(streams->executor->error, "operands");
    }
    return TN_OK;
}

/* Runs the kernel of an item, in the thread of its stream. */
static tn_status streams_apply(void *self, tn_error *error) {
    const tn__stream_item *item = self;
    const tn__executor *executor = item->streams->executor;
    /* the operator has no kernel, because nothing reads its outputs */
    if (item->call.prepared == NULL) return TN_OK;
    tn_status status = tn__executor_run_bound(executor, &item->call, error);
    if (status == TN_OK) return TN_OK;
    const tn_op *op = tn_graph_op(executor->graph, item->call.op);
    return tn__where(error, status, "step %u, node '%.60s' (%.30s)", item->step, op->name,
                     op->type);
}

/* --- which step gives the signal that a step waits for --- */

static int streams_signal_order(const void *a, const void *b) {
    const tn__sort_item *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* Finds, for each step, the step that gives the signal for which it waits (TN_NONE: it waits for
 * none). */
static tn_status streams_find_givers(const tn__streams *streams, uint32_t *giver,
                                     tn__arena *arena) {
    const tn_instruction *instructions = tn_program_instructions(streams->program);
    uint32_t steps = tn_program_count(streams->program), count = 0;
    tn__sort_item *signals = tn__arena_array(arena, steps, sizeof *signals);
    if (signals == NULL) return tn__no_memory(streams->executor->error, "signals");
    for (uint32_t s = 0; s < steps; s++)
        if (instructions[s].signal != 0)
            signals[count++] = (tn__sort_item){.key = instructions[s].signal, .id = s};
    if (count > 0) qsort(signals, count, sizeof *signals, streams_signal_order);
    for (uint32_t s = 0; s < steps; s++) {
        const tn__sort_item wanted = {.key = instructions[s].wait};
        const tn__sort_item *found =
            wanted.key == 0 || count == 0
                ? NULL
                : bsearch(&wanted, signals, count, sizeof *signals, streams_signal_order);
        giver[s] = found != NULL ? found->id : TN_NONE;
    }
    return TN_OK;
}

static void streams_index(tn__streams *streams, const uint32_t *giver) {
    const tn_instruction *instructions = tn_program_instructions(streams->program);
    uint32_t steps = tn_program_count(streams->program), tail[TN_STREAM_MAX], made = 0;
    for (uint32_t s = 0; s < TN_STREAM_MAX; s++) tail[s] = TN_NONE;
    for (uint32_t s = 0; s < steps; s++) {
        const tn_instruction *it = &instructions[s];
        uint32_t waits = giver[s] == TN_NONE ? TN_NONE : streams->item_of[giver[s]];
        bool kernels = streams->kernel_streams != 0, item = streams_is_item(it, kernels);
        streams->signal_of[s] = waits;
        streams->tail_of[s] = item ? TN_NONE : tail[it->stream];
        streams->item_of[s] = item ? made : TN_NONE;
        if (!item) continue;
        uint32_t from = waits == TN_NONE ? 0 : streams->items[waits].stream;
        /* if the calling thread gives the signal, it has already passed that step */
        bool other = (kernels || from != 0) && from != it->stream;
        streams->items[made] = (tn__stream_item){.step = s,
                                                 .stream = it->stream,
                                                 .after = other ? waits : TN_NONE,
                                                 .copies = streams_swaps(it),
                                                 .talks = tn__instruction_talks(it),
                                                 .fetches = it->opcode == TN_FETCH,
                                                 .applies = it->opcode == TN_APPLY,
                                                 .call = {.op = it->op},
                                                 .streams = streams};
        if (kernels || it->stream != 0) tail[it->stream] = made;
        made++;
    }
}

/* --- host memory for swapped-out tensors --- */

/* Makes the layout `given` the layout of the problem. Fails if it has another number of buffers, or
 * if the buffers overlap. */
static tn_status streams_given_host(const tn_problem *problem, const tn_layout *given,
                                    tn_layout *layout, tn_error *error) {
    if (given->body_count != tn_problem_count(problem))
        TN_FAIL(error, TN_E_CONFLICT, "`host_layout` has %u buffers; this program swaps %u",
                given->body_count, tn_problem_count(problem));
    TN_TRY(tn_layout_from_offsets(problem, given->offset, layout, error));
    tn_status status = tn_layout_verify(problem, layout, NULL, error);
    if (status != TN_OK) tn_layout_release(layout);
    return status;
}

/* Assigns offsets in host memory to swapped-out tensors with a planner, as in the arena: two copies
 * that do not exist at the same time may share bytes. */
static tn_status streams_lay_host(tn__streams *streams, const tn_layout *given, tn__arena *arena) {
    tn_error *error = streams->executor->error;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn__host *pool = &streams->host;
    tn_layout layout;
    tn_host host;
    pool->offset = tn__arena_array(arena, streams->item_count, sizeof *pool->offset);
    if (pool->offset == NULL) return tn__no_memory(error, "buffers of the host");
    TN_TRY(tn_program_host(streams->program, 0, &host, error));
    options.context = arena->context;
    tn_status status = given != NULL ? streams_given_host(host.problem, given, &layout, error)
                                     : tn_plan(host.problem, &options, &layout, error);
    for (uint32_t i = 0; i < streams->item_count && status == TN_OK; i++)
        if (streams->items[i].copies)
            pool->offset[i] = layout.offset[host.body[streams->items[i].step]];
    if (status == TN_OK) {
        pool->size = layout.peak;
        tn_layout_release(&layout);
    }
    tn_host_release(&host);
    return status;
}

static tn_status streams_take_host(tn__streams *streams, const tn_engine_options *options,
                                   const tn_context *context) {
    tn_error *error = streams->executor->error;
    uint64_t capacity = options->host_capacity;
    char wanted[TN_SIZE_TEXT_MAX], given[TN_SIZE_TEXT_MAX];
    tn__host *host = &streams->host;
    if (capacity != 0 && host->size > capacity)
        TN_FAIL(error, TN_E_EXHAUSTED,
                "what is swapped out takes %s of the host's memory, of which %s may be taken",
                tn_size_format(host->size, wanted), tn_size_format(capacity, given));
    if (host->size == 0) return TN_OK;
    if (options->swap_device != NULL) return swaps_open(host, options, context, error);
    host->context = context;
    host->bytes = host->size <= SIZE_MAX ? tn__alloc(context, (size_t)host->size) : NULL;
    if (host->bytes == NULL) return tn__no_memory(error, "swapped-out tensors");
    /* write to the pages now, so that no page fault slows the first copy down */
    memset(host->bytes, 0, (size_t)host->size);
    return TN_OK;
}

/* --- creating and releasing streams --- */

static tn_status streams_open(tn__streams *streams) {
    tn_device *device = streams->memory->device;
    tn_error *error = streams->executor->error;
    uint32_t queued[TN_STREAM_MAX] = {0};
    for (uint32_t i = 0; i < streams->item_count; i++) {
        tn__stream_item *item = &streams->items[i];
        tn_stream **over = &streams->host.streams[item->stream];
        if (item->copies && streams->host.device != NULL && *over == NULL)
            TN_TRY(tn_stream_create(streams->host.device, TN_STREAM_INLINE, over, error));
        if (!tn__streams_apart(streams, item->step)) continue;
        if (streams->streams[item->stream] == NULL)
            TN_TRY(tn_stream_create(device, 0, &streams->streams[item->stream], error));
        TN_TRY(tn_fence_create(device, &item->fence, error));
        queued[item->stream] += STREAMS_QUEUED;
    }
    for (uint32_t s = 0; s < TN_STREAM_MAX; s++)
        if (streams->streams[s] != NULL)
            TN_TRY(tn_stream_reserve(streams->streams[s], queued[s], error));
    return TN_OK;
}

tn_status tn__streams_make(tn__streams *streams, const tn_program *program,
                           const tn__executor *executor, const tn__device_memory *memory,
                           tn__tell *tell, const tn__store *store, const tn_engine_options *options,
                           tn__arena *arena) {
    const tn_instruction *instructions = tn_program_instructions(program);
    uint32_t steps = tn_program_count(program), count = 0;
    *streams = (tn__streams){.program = program,
                             .executor = executor,
                             .memory = memory,
                             .tell = tell,
                             .exchange = options->exchange,
                             .store = store};
    if (options->swap_device != NULL)
        TN_TRY(tn__device_known(options->swap_device, executor->error));
    streams->kernel_streams = streams_kernels_of(program, options);
    for (uint32_t s = 0; s < steps; s++)
        count += streams_is_item(&instructions[s], streams->kernel_streams != 0);
    if (count == 0) return TN_OK;
    uint32_t *giver = tn__arena_array(arena, steps, sizeof *giver);
    streams->items = tn__arena_array(arena, count, sizeof *streams->items);
    streams->going = tn__arena_array(arena, count, sizeof *streams->going);
    streams->item_of = tn__arena_array(arena, steps, sizeof *streams->item_of);
    streams->signal_of = tn__arena_array(arena, steps, sizeof *streams->signal_of);
    streams->tail_of = tn__arena_array(arena, steps, sizeof *streams->tail_of);
    if (giver == NULL || streams->items == NULL || streams->going == NULL ||
        streams->item_of == NULL || streams->signal_of == NULL || streams->tail_of == NULL)
        return tn__no_memory(executor->error, "copies");
    streams->item_count = count;
    TN_TRY(streams_find_givers(streams, giver, arena));
    streams_index(streams, giver);
    TN_TRY(streams_kernel_tables(streams, arena));
    if (options->poison) TN_TRY(known_make(streams, giver, arena));
    TN_TRY(streams_lay_host(streams, options->host_layout, arena));
    TN_TRY(streams_take_host(streams, options, arena->context));
    return streams_open(streams);
}

void tn__streams_release(tn__streams *streams) {
    for (uint32_t s = 0; s < TN_STREAM_MAX; s++) tn_stream_destroy(streams->streams[s]);
    for (uint32_t i = 0; i < streams->item_count; i++) tn_fence_destroy(streams->items[i].fence);
    for (uint32_t s = 0; s < TN_STREAM_MAX; s++) tn_stream_destroy(streams->host.streams[s]);
    swaps_close(&streams->host);
    if (streams->host.bytes != NULL)
        tn__free(streams->host.context, streams->host.bytes, (size_t)streams->host.size);
}

void tn__streams_start(tn__streams *streams) {
    streams->stalled_s = 0;
    streams->out_bytes = streams->in_bytes = streams->talk_count = streams->talk_bytes = 0;
    streams->fetch_bytes = 0;
    for (uint32_t i = 0; i < streams->item_count; i++)
        streams->items[i].talk_s = streams->items[i].fetch_s = 0;
    streams->host.reached = 0;
    known_start(streams);
}

/* --- functions that a stream calls: begin and end of an item, and its copy --- */

static tn_status streams_began(void *self, tn_error *error) {
    tn__stream_item *item = self;
    (void)error;
    item->start_s = tn__clock_s();
    return TN_OK;
}

static tn_status streams_ended(void *self, tn_error *error) {
    const tn__stream_item *item = self;
    (void)error;
    tn__tell_step(item->streams->tell, item->step, item->start_s, item->bytes);
    return TN_OK;
}

static tn_status streams_copy(tn__streams *streams, uint32_t index, tn_stream *stream) {
    tn__stream_item *item = &streams->items[index];
    const tn_instruction *it = &tn_program_instructions(streams->program)[item->step];
    const tn_operand *operand = &streams->executor->operands[it->tensor];
    uint64_t offset = streams->host.offset[index];
    bool out = tn_opcode_facts_of(it->opcode)->link == TN_LINK_TO_HOST;
    item->data = operand->data;
    item->bytes = tn__operand_bytes(operand);
    if (item->bytes == 0) return TN_OK;
    *(out ? &streams->out_bytes : &streams->in_bytes) += item->bytes;
    if (offset + item->bytes > streams->host.reached) streams->host.reached = offset + item->bytes;
    if (streams->host.device != NULL)
        return tn_device_launch(stream, swaps_copy, item, streams->executor->error);
    tn_address address = tn__memory_address(streams->memory, operand->data);
    uint8_t *host = streams->host.bytes + offset;
    return out ? tn_device_get(stream, host, address, item->bytes, streams->executor->error)
               : tn_device_put(stream, address, host, item->bytes, streams->executor->error);
}

/* --- fetching from a file --- */

/* Prepares a fetch: records the tensor's address, which is known when the program comes to the
 * instruction. The reading itself can then happen in any thread. */
static void streams_fetch_begin(tn__streams *streams, tn__stream_item *item) {
    const tn_instruction *it = &tn_program_instructions(streams->program)[item->step];
    const tn__stored *stored = tn__store_find(streams->store, it->tensor);
    item->data = streams->executor->operands[it->tensor].data;
    item->bytes = stored->bytes;
    streams->fetch_bytes += stored->bytes;
    tn__store_bind(streams->store, stored, item->data);
}

static tn_status streams_fetch(void *self, tn_error *error) {
    tn__stream_item *item = self;
    const tn__streams *streams = item->streams;
    const tn_instruction *it = &tn_program_instructions(streams->program)[item->step];
    double start = tn__clock_s();
    tn_status status = tn__store_fetch(streams->store, tn__store_find(streams->store, it->tensor),
                                       item->data, error);
    item->fetch_s = tn__clock_s() - start;
    return status;
}

tn_status tn__streams_fetch(tn__streams *streams, uint32_t step) {
    tn__stream_item *item = &streams->items[streams->item_of[step]];
    streams_fetch_begin(streams, item);
    tn_status status = streams_fetch(item, streams->executor->error);
    streams->stalled_s += item->fetch_s;
    return status;
}

double tn__fetch_seconds(const tn__streams *streams) {
    double seconds = 0;
    for (uint32_t i = 0; i < streams->item_count; i++) seconds += streams->items[i].fetch_s;
    return seconds;
}

/* Queues an instruction on its stream. If the run records a trace, functions that record its times
 * are queued with it. A copy or message begins when its stream starts it, after all waits. A wait
 * begins when its stream comes to it. */
tn_status tn__streams_queue(tn__streams *streams, uint32_t step) {
    uint32_t index = streams->item_of[step];
    tn__stream_item *item = &streams->items[index];
    tn_stream *stream = streams->streams[item->stream];
    tn_error *error = streams->executor->error;
    bool told = streams->tell->trace != NULL, works = item->copies || item->talks;
    works = works || item->fetches || item->applies;
    if (told && !works) TN_TRY(tn_device_launch(stream, streams_began, item, error));
    if (item->after != TN_NONE)
        TN_TRY(tn_fence_wait(streams->items[item->after].fence, stream, error));
    if (told && works) TN_TRY(tn_device_launch(stream, streams_began, item, error));
    if (item->copies) TN_TRY(streams_copy(streams, index, stream));
    if (item->talks) {
        tn__talk_begin(streams, item);
        TN_TRY(tn_device_launch(stream, tn__talk, item, error));
    }
    if (item->fetches) {
        streams_fetch_begin(streams, item);
        TN_TRY(tn_device_launch(stream, streams_fetch, item, error));
    }
    if (item->applies) TN_TRY(tn_device_launch(stream, streams_apply, item, error));
    if (told) TN_TRY(tn_device_launch(stream, streams_ended, item, error));
    TN_TRY(tn_fence_record(item->fence, stream, error));
    streams->going[streams->going_count++] = index;
    return TN_OK;
}

tn_status tn__streams_swap(tn__streams *streams, uint32_t step) {
    double start = tn__clock_s();
    tn_status status = streams_copy(streams, streams->item_of[step], streams->memory->stream);
    streams->stalled_s += tn__clock_s() - start;
    return status;
}

/* --- waiting --- */

/* Makes the calling thread wait for a copy or message. tn_fence_wait does this, because the stream
 * that is passed to it works in the calling thread. */
static tn_status streams_wait(tn__streams *streams, uint32_t index) {
    if (index == TN_NONE || streams->items[index].fence == NULL) return TN_OK;
    const tn__stream_item *item = &streams->items[index];
    if (tn_fence_passed(item->fence)) return TN_OK;
    double start = tn__clock_s();
    tn_status status =
        tn_fence_wait(item->fence, streams->memory->stream, streams->executor->error);
    if (streams->kernel_streams == 0) streams->stalled_s += tn__clock_s() - start;
    return status;
}

tn_status tn__streams_before(tn__streams *streams, uint32_t step) {
    if (streams->item_count == 0) return TN_OK;
    TN_TRY(streams_wait(streams, streams->signal_of[step]));
    return streams_wait(streams, streams->tail_of[step]);
}

tn_status tn__streams_finish(tn__streams *streams, tn_error *error) {
    tn_status first = TN_OK;
    double start = tn__clock_s();
    for (uint32_t s = 0; s < TN_STREAM_MAX; s++) {
        if (streams->streams[s] == NULL) continue;
        tn_status status = tn_stream_wait(streams->streams[s], first == TN_OK ? error : NULL);
        if (first == TN_OK) first = status;
    }
    bool copies = streams->going_count > 0 && streams->kernel_streams == 0;
    if (copies) streams->stalled_s += tn__clock_s() - start;
    streams->going_count = 0;
    return first;
}

/* --- copies and messages that have not ended yet --- */

static bool streams_holds(const tn__stream_item *item, const uint8_t *data, uint64_t bytes) {
    if (!item->copies && !item->talks && !item->fetches) return false;
    if (item->data < data + bytes && data < item->data + item->bytes) return true;
    return item->other != NULL && item->other < data + bytes &&
           data < item->other + item->other_bytes;
}

uint32_t tn__streams_holder(tn__streams *streams, const uint8_t *data, uint64_t bytes) {
    for (uint32_t i = 0; i < streams->going_count;) {
        const tn__stream_item *item = &streams->items[streams->going[i]];
        if (tn_fence_passed(item->fence)) {
            streams->going[i] = streams->going[--streams->going_count];
            continue;
        }
        if (streams_holds(item, data, bytes)) return streams->going[i];
        i++;
    }
    return TN_NONE;
}

tn_status tn__streams_settle(tn__streams *streams, const uint8_t *data, uint64_t bytes) {
    for (;;) {
        uint32_t holder = tn__streams_holder(streams, data, bytes);
        if (holder == TN_NONE) return TN_OK;
        TN_TRY(streams_wait(streams, holder));
    }
}
