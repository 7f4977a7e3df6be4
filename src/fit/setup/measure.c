/* measure.c - measures the time of operators on this machine.
 *
 * One sample stands for all operators with one kernel cache key and the same in-place outputs.
 * Samples are put into groups that fit into memory together. A group is filled once and then
 * measured in rounds: the first round warms up pages, kernels and the processor's clock; each later
 * round times every sample once. The cost of a sample is the median of its times, so that runs
 * which were interrupted by the system do not count.
 *
 * Caches: a group has as much memory as a training or inference step uses (the live bytes at the
 * peak, and static memory). So between two runs of a sample as many bytes pass through the caches
 * as between two runs of an operator in successive steps. A smaller group alternates between
 * several copies of its operands. A step finds some data in a nearer cache, because the previous
 * operator has just written them or memory was just released. Such data are touched before the time
 * is taken (measure_reach.c). Finally, all costs are multiplied so that they add up to the time of
 * a whole step.
 *
 * Do not measure while other programs use the same processors.
 *
 * Cost: the number of rounds times the time of all samples.
 */
#include "fit/setup/measure.h"

#include <stdlib.h>

#include "fit/setup/setup.h"
#include "graph/element.h"
#include "graph/takes.h"

/* Describes the measurement of a whole step, which gives a factor for all costs: with it, their sum
 * equals the time of a step of the compiled model's program. The factor is 1 if no step can be
 * run. */
typedef struct tn__measure_whole {
    /* the compiled model with the program that is run; NULL: no step is run */
    const tn_setup *setup;
    const tn_context *context;
    double seconds; /* limit for the time of all measurements */
    uint64_t room;  /* bytes that a run of the step may use */
} tn__measure_whole;

/* --- one operator alone: its operands, filled and read ---------------------------------------- */

/* Lays out and fills the memory of one operator that is measured alone.
 *
 * Inputs, outputs, packed forms and scratch memory follow each other, each aligned as in an arena.
 * Outputs that are views of inputs, or that the operator writes over inputs, share the memory of
 * these inputs. Tensors get the values that the graph knows. Other tensors get numbers between 1/4
 * and 5/4, so that their roots and logarithms are numbers and no denormal numbers appear, which are
 * slow; indices and counts become 0.
 */

#define OPERANDS_ALIGNMENT 64u

typedef struct operands_walk {
    const tn__sample *sample;
    uint8_t *memory; /* start of the memory; NULL: only count bytes */
    uint64_t at;
    bool fill, bind;
} operands_walk;

static uint8_t *operands_take(operands_walk *walk, uint64_t bytes) {
    uint8_t *here = walk->memory != NULL ? walk->memory + walk->at : NULL;
    uint64_t aligned;
    if (!tn__align_up(bytes, OPERANDS_ALIGNMENT, &aligned)) aligned = UINT64_MAX;
    walk->at = tn__add_sat(walk->at, aligned);
    return here;
}

/* --- contents --- */

static void operands_floats(tn_dtype dtype, uint8_t *bytes, uint64_t size, uint64_t seed) {
    uint32_t bits = tn_dtype_bits(dtype);
    tn__random random = {.state = seed};
    uint64_t some[256];
    for (int i = 0; i < 256; i++)
        some[i] = tn__element_of(dtype, 0.25 + (double)tn__random_below(&random, 4096) / 4096);
    for (uint64_t i = 0; i < size * 8 / bits; i++)
        memcpy(bytes + i * (bits / 8), &some[tn__random_next(&random) >> 56], bits / 8);
}

static void operands_fill(const tn_tensor *tensor, uint8_t *bytes, uint64_t size, uint64_t seed) {
    bool floats = tn__is_short_float(tensor->dtype) || tensor->dtype == TN_FLOAT64;
    if (tn__tensor_fill(tensor, bytes, size)) return;
    if (floats)
        operands_floats(tensor->dtype, bytes, size, seed);
    else
        memset(bytes, 0, size);
}

/* --- places --- */

static void operands_input(operands_walk *walk, const tn_op *op, uint32_t index) {
    tn__executor *executor = walk->sample->executor;
    tn_tensor_id id = op->inputs[index];
    if (id == TN_NONE) return;
    const tn_tensor *tensor = tn_graph_tensor(executor->graph, id);
    for (uint32_t i = 0; i < index; i++)
        if (op->inputs[i] == id) return;
    uint8_t *here = operands_take(walk, tensor->bytes);
    if (walk->fill) operands_fill(tensor, here, tensor->bytes, index + 1);
    if (walk->bind) executor->operands[id].data = here;
}

static void operands_output(operands_walk *walk, const tn_op *op, uint32_t index) {
    tn__executor *executor = walk->sample->executor;
    tn_tensor_id id = op->outputs[index], source;
    if (id == TN_NONE) return;
    tn_view view = tn_op_view(executor->graph, walk->sample->op, index);
    source = view.source;
    for (uint32_t i = 0; i < op->input_count && i < 64 && source == TN_NONE && index == 0; i++)
        if (walk->sample->inplace >> i & 1) source = op->inputs[i];
    const uint8_t *shared = source != TN_NONE ? executor->operands[source].data : NULL;
    bool is_input = false;
    for (uint32_t i = 0; i < op->input_count; i++) is_input |= op->inputs[i] == source;
    if (source != TN_NONE && is_input && !view.whole) {
        if (walk->bind) executor->operands[id].data = (uint8_t *)(uintptr_t)shared + view.offset;
        return;
    }
    uint64_t bytes = tn_graph_tensor(executor->graph, id)->bytes;
    uint8_t *here = operands_take(walk, bytes);
    /* writes the memory, so that page faults happen before the time is taken */
    if (walk->fill) memset(here, 1, bytes);
    if (walk->bind) executor->operands[id].data = here;
}

/* Visits all operands of a sample in the order in which they lie in memory, and returns the place
 * of its scratch memory. `packed`: NULL, or [inputs] gets the places of the packed forms. */
static uint8_t *operands_walk_all(operands_walk *walk, void **packed) {
    const tn__sample *sample = walk->sample;
    const tn_op *op = tn_graph_op(sample->executor->graph, sample->op);
    for (uint32_t i = 0; i < op->input_count; i++) operands_input(walk, op, i);
    for (uint32_t k = 0; k < op->output_count; k++) operands_output(walk, op, k);
    for (uint32_t i = 0; i < op->input_count && sample->prepared->packed != NULL; i++) {
        uint64_t bytes = sample->prepared->packed[i];
        if (bytes == 0) continue;
        uint8_t *here = operands_take(walk, bytes);
        const tn_tensor *tensor = tn_graph_tensor(sample->executor->graph, op->inputs[i]);
        if (walk->fill) memset(here, 0, bytes);
        if (walk->fill && tensor->dtype == TN_FLOAT32) operands_floats(TN_FLOAT32, here, bytes, i);
        if (packed != NULL) packed[i] = here;
    }
    uint8_t *scratch = operands_take(walk, sample->prepared->workspace);
    if (walk->fill) memset(scratch, 1, sample->prepared->workspace);
    return scratch;
}

static uint64_t sample_bytes(const tn__sample *sample) {
    operands_walk walk = {.sample = sample};
    operands_walk_all(&walk, NULL);
    return walk.at;
}

/* Fills all memory that the operator of a sample reads. */
static void sample_fill(const tn__sample *sample, uint8_t *memory) {
    operands_walk walk = {.sample = sample, .memory = memory, .fill = true};
    operands_walk_all(&walk, NULL);
}

/* Reads one byte of every cache line and writes it back unchanged. Most operands that a step finds
 * in its caches have been written there, and caches keep written lines in another state than lines
 * that were only read. */
static void operands_touch(uint8_t *bytes, uint64_t size) {
    for (uint64_t i = 0; i < size; i += 64) {
        volatile uint8_t *line = &bytes[i];
        *line = *line;
    }
}

static void operands_touch_if(const tn__sample *sample, uint32_t near, tn_tensor_id id) {
    if (id == TN_NONE || 2 * sample->near[near] <= sample->uses) return;
    operands_touch(sample->executor->operands[id].data,
                   tn_graph_tensor(sample->executor->graph, id)->bytes);
}

/* Touches the operands that most operators of the sample find in the caches during a step, and the
 * scratch memory, because earlier operators had theirs there. */
static void operands_warm(const tn__sample *sample, uint8_t *scratch) {
    const tn_op *op = tn_graph_op(sample->executor->graph, sample->op);
    operands_touch(scratch, sample->prepared->workspace);
    for (uint32_t k = 0; k < op->output_count && k < MEASURE_OPERANDS; k++)
        operands_touch_if(sample, MEASURE_OPERANDS + k, op->outputs[k]);
    for (uint32_t i = 0; i < op->input_count && i < MEASURE_OPERANDS; i++)
        operands_touch_if(sample, i, op->inputs[i]);
}

/* Runs the operator of a sample once, on the operands that sample_fill has filled, and measures its
 * time. Before that, it touches the operands that a step finds in its caches. */
static tn_status sample_run(const tn__sample *sample, uint8_t *memory, double *seconds) {
    operands_walk walk = {.sample = sample, .memory = memory, .bind = true};
    void *packed[64] = {
        /* operators with more than 64 inputs have no packed forms (engine/kernels/cache.c) */
        NULL};
    bool some = sample->prepared->packed != NULL;
    uint8_t *scratch = operands_walk_all(&walk, some ? packed : NULL);
    operands_warm(sample, scratch);
    double start = tn__clock_s();
    tn_status status = tn__executor_call(sample->executor, sample->op, sample->prepared,
                                         some ? packed : NULL, scratch);
    *seconds = tn__clock_s() - start;
    return status;
}

/* --- a whole step ----------------------------------------------------------------------------- */

/* Measures a step as a whole, and scales the costs of its operators to it.
 *
 * In a step, caches, pages and clock rates differ from those of operators that are measured alone,
 * even if the right operands are touched before. Therefore a few steps of the program are run on
 * generated data, and all costs are multiplied by the ratio of the fastest step to the predicted
 * one. If the program does more than compute (copies, messages, files), or does not fit into
 * memory, costs stay as they are. Cost: one step to warm up, and up to STEP_RUNS more.
 */

#define STEP_RUNS 4u
#define STEP_SHARE 0.25 /* part of the measuring time after which no new step begins */
/* generated weights lie between plus and minus this, which is so small that the numbers in deep
 * networks neither vanish nor overflow */
#define STEP_SPREAD 0.1

static bool step_computes(const tn_program *program) {
    const tn_instruction *list = tn_program_instructions(program);
    for (uint32_t i = 0; i < tn_program_count(program); i++) switch (list[i].opcode) {
        case TN_PUT:
        case TN_APPLY:
        case TN_GET:
        case TN_FREE:
        case TN_DROP:
            continue;
        default:
            return false;
        }
    return true;
}

/* Called for a tensor whose values the graph does not have, such as a weight: fills it with random
 * numbers if it has floats, otherwise with zeros. */
static tn_status step_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                           uint64_t size, tn_error *error) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    uint32_t width = tn_dtype_bits(tensor->dtype) / 8;
    bool floats = tn__is_short_float(tensor->dtype) || tensor->dtype == TN_FLOAT64;
    tn__random random = {.state = (uint64_t)id + 1};
    (void)self;
    (void)error;
    memset(bytes, 0, (size_t)size);
    for (uint64_t i = 0; floats && i < size / width; i++) {
        double unit = (double)(tn__random_next(&random) >> 11) * 0x1p-52 - 1;
        uint64_t element = tn__element_of(tensor->dtype, STEP_SPREAD * unit);
        memcpy((uint8_t *)bytes + i * width, &element, width);
    }
    return TN_OK;
}

/* Returns the time of the fastest step in seconds; 0 if the program does not run on generated
 * data. */
static double step_least(const tn__measure_whole *whole, tn_error *error) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn__made_up run;
    double began = tn__clock_s(), least = 0;
    options.context = whole->context;
    options.read = step_read;
    tn_status status = tn__made_up_open(&run, whole->setup, &options, error);
    for (uint32_t i = 0; i <= STEP_RUNS && status == TN_OK; i++) {
        double start = tn__clock_s();
        if (i > 1 && start - began > STEP_SHARE * whole->seconds) break;
        status = tn__made_up_run(&run, error);
        double took = tn__clock_s() - start;
        if (i > 0 && (least == 0 || took < least)) least = took;
    }
    tn__made_up_close(&run);
    return status == TN_OK ? least : 0;
}

/* Returns the factor for all costs. *seconds: the time of the measured step; 0: no step was run. */
static double measure_scale(const tn__measure_whole *whole, const tn_costs *costs,
                            double *seconds) {
    tn_simulation simulation;
    tn_error unwanted;
    *seconds = 0;
    if (whole->setup == NULL || !step_computes(tn_setup_program(whole->setup)) ||
        tn_setup_layout(whole->setup) == NULL || tn_setup_need(whole->setup).total > whole->room ||
        tn_setup_predict(whole->setup, costs, NULL, &simulation, &unwanted) != TN_OK)
        return 1;
    double predicted = (double)simulation.total_ps / (double)TN_COSTS_PER_S;
    tn_simulation_release(&simulation);
    *seconds = step_least(whole, &unwanted);
    return *seconds > 0 && predicted > 0 ? *seconds / predicted : 1;
}

/* --- samples, groups and rounds --------------------------------------------------------------- */

#define MEASURE_SECONDS 20.0
#define MEASURE_ROUNDS 7u
#define MEASURE_BYTES (UINT64_C(2) << 30)
/* bytes that should lie between two runs of a sample, if a step uses as many: a group with fewer
 * bytes gets several copies of its operands, which are used in turn */
#define MEASURE_COLD (UINT64_C(64) << 20)

typedef struct measure_state {
    const tn_kernels *kernels;
    const tn_graph *graph;
    tn_measure_options options;
    tn_context context;
    tn__arena arena;
    tn__repeats repeats;
    tn__executor executor, again; /* executors of the graph, and of the graph of repeat forms */
    tn__sample *samples;
    uint32_t count;
    /* [operators] index of the sample that measures the operator, and of the sample for its repeat
     * form; TN_NONE: not measured */
    uint32_t *of, *again_of;
    uint64_t *inplace;  /* [operators] */
    uint64_t footprint; /* bytes of memory that a step uses */
    tn__names names;    /* names of all samples, to find a sample by its key */
    tn_device *device;
    tn_address address;
    uint8_t *memory; /* memory that holds the operands of the current group of samples */
    uint64_t memory_bytes;
    double copy_rate, began;
    tn_measure_report report;
    tn_error *error;
} measure_state;

/* --- samples --- */

/* Finds the sample for an operator: an existing one, if its operator runs in the same way, or a new
 * one. */
static tn_status measure_sample(measure_state *s, tn__executor *executor, tn_op_id id,
                                const tn__prepared *prepared, uint64_t inplace, uint32_t *index) {
    tn__text key;
    const char *text;
    uint32_t known = TN__NAMES_NONE;
    tn__text_init(&key, &s->context);
    tn__op_key(&key, executor->graph, id);
    tn__text_add(&key, (const char *)&inplace, sizeof inplace);
    tn__text_add(&key, (const char *)&prepared->way, sizeof prepared->way);
    text = key.failed ? NULL : tn__arena_copy(&s->arena, key.data, key.size);
    size_t size = key.size;
    tn__text_release(&key);
    if (text == NULL || !tn__names_add(&s->names, text, size, s->count, &known))
        return tn__no_memory(s->error, "measuring");
    *index = known;
    if (known != TN__NAMES_NONE) return TN_OK;
    tn__sample *sample = &s->samples[s->count];
    *sample =
        (tn__sample){.executor = executor, .op = id, .inplace = inplace, .prepared = prepared};
    sample->bytes = sample_bytes(sample);
    *index = s->count++;
    return TN_OK;
}

/* Finds the operators that write output 0 over an input in the given program, and the input of
 * each, in s->inplace. */
static tn_status measure_inplace(measure_state *s) {
    const tn_occupancy *occupancy = s->options.occupancy;
    s->inplace = tn__arena_array(&s->arena, tn_graph_op_count(s->graph) + 1, sizeof *s->inplace);
    if (s->inplace == NULL) return tn__no_memory(s->error, "measuring");
    if (occupancy == NULL) return TN_OK;
    const tn_life *lives = tn_occupancy_lives(occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++) {
        if (lives[i].share != TN_SHARE_INPLACE || lives[i].op == TN_NONE) continue;
        const tn_op *op = tn_graph_op(s->graph, lives[i].op);
        if (op->outputs[0] != lives[i].tensor) continue;
        for (uint32_t k = 0; k < op->input_count && k < 64; k++)
            if (op->inputs[k] == lives[i].source) s->inplace[lives[i].op] = UINT64_C(1) << k;
    }
    return TN_OK;
}

static tn_status measure_operator(measure_state *s, tn_op_id id) {
    s->of[id] = s->again_of[id] = TN_NONE;
    if (s->kernels->of[id] == NULL || !tn__op_runs(s->graph, id)) return TN_OK;
    if (s->options.only != NULL && !s->options.only[id]) return TN_OK;
    s->report.operators++;
    TN_TRY(measure_sample(s, &s->executor, id, s->kernels->of[id], s->inplace[id], &s->of[id]));
    s->again_of[id] = s->of[id];
    if (s->repeats.graph == NULL || s->repeats.of[id] == TN_NONE) return TN_OK;
    return measure_sample(s, &s->again, s->repeats.of[id], s->kernels->again_of[id], 0,
                          &s->again_of[id]);
}

/* Computes the bytes that a step uses: the live bytes at the peak (without a program, all tensors),
 * and static memory. */
static void measure_footprint(measure_state *s) {
    const tn_occupancy *occupancy = s->options.occupancy;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(s->graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(s->graph, id);
        bool counts = occupancy == NULL || tn_tensor_is_static(tensor);
        if (counts && tensor->bytes != TN_SIZE_UNKNOWN)
            s->footprint = tn__add_sat(s->footprint, tensor->bytes);
    }
    if (occupancy != NULL)
        s->footprint = tn__add_sat(s->footprint, tn_occupancy_summary(occupancy).peak_live);
}

static tn_status measure_samples(measure_state *s) {
    size_t count = tn_graph_op_count(s->graph);
    s->of = tn__arena_array(&s->arena, count + 1, sizeof *s->of);
    s->again_of = tn__arena_array(&s->arena, count + 1, sizeof *s->again_of);
    s->samples = tn__arena_array(&s->arena, 2 * count + 1, sizeof *s->samples);
    if (s->of == NULL || s->again_of == NULL || s->samples == NULL)
        return tn__no_memory(s->error, "measuring");
    TN_TRY(measure_inplace(s));
    measure_footprint(s);
    for (tn_op_id id = 0; id < count; id++) TN_TRY(measure_operator(s, id));
    s->report.alike = s->count;
    return TN_OK;
}

/* --- memory --- */

static void measure_drop(measure_state *s) {
    if (s->address != 0) tn_device_free(s->device, s->address);
    s->address = 0;
    s->memory = NULL;
}

static tn_status measure_take(measure_state *s, uint64_t bytes) {
    if (bytes <= s->memory_bytes && s->memory != NULL) return TN_OK;
    measure_drop(s);
    TN_TRY(tn_device_alloc(s->device, bytes, &s->address, s->error));
    s->memory = tn_device_pointer(s->device, s->address);
    s->memory_bytes = bytes;
    s->report.bytes = bytes > s->report.bytes ? bytes : s->report.bytes;
    return TN_OK;
}

/* Measures the rate of a copy that is much larger than the caches of one processor core, in bytes
 * copied per second. */
static tn_status measure_copy_rate(measure_state *s) {
    const uint64_t half = MEASURE_COLD / 2;
    double best = 0;
    TN_TRY(measure_take(s, 2 * half));
    memset(s->memory, 1, 2 * half);
    for (int i = 0; i < 5; i++) {
        double start = tn__clock_s();
        memcpy(s->memory, s->memory + half, half);
        double rate = (double)half / (tn__clock_s() - start);
        if (rate > best) best = rate;
    }
    s->copy_rate = best;
    return TN_OK;
}

/* --- rounds --- */

typedef struct measure_group {
    uint32_t first, last; /* samples */
    uint64_t bytes;       /* bytes of one copy of the group's operands */
    uint64_t copies;
} measure_group;

static double measure_seconds(const measure_state *s) {
    return s->options.seconds > 0 ? s->options.seconds : MEASURE_SECONDS;
}

static uint64_t measure_bytes(const measure_state *s) {
    return s->options.bytes > 0 ? s->options.bytes : MEASURE_BYTES;
}

/* Returns the limit for the bytes of a group: about as many as pass between two runs of a
 * sample. */
static uint64_t measure_room(const measure_state *s) {
    uint64_t room = measure_bytes(s);
    return room < s->footprint ? room : s->footprint;
}

/* Makes a group of as many samples as fit together, from sample `first` on, but at least one. */
static measure_group measure_group_from(measure_state *s, uint32_t first) {
    uint64_t room = measure_room(s);
    measure_group group = {.first = first, .last = first, .copies = 1};
    while (group.last < s->count) {
        tn__sample *sample = &s->samples[group.last];
        uint64_t bytes = tn__add_sat(group.bytes, sample->bytes);
        if (group.last > first && bytes > room) break;
        sample->offset = group.bytes;
        group.bytes = bytes;
        group.last++;
    }
    uint64_t cold = room < MEASURE_COLD ? room : MEASURE_COLD;
    if (group.bytes > 0 && group.bytes < cold)
        group.copies = (cold + group.bytes - 1) / group.bytes;
    return group;
}

static tn_status measure_run(measure_state *s, tn__sample *sample, uint8_t *memory, bool counts) {
    double seconds;
    tn_error *error = sample->executor->error, unwanted;
    if (sample->failed) return TN_OK;
    sample->executor->error = &unwanted;
    tn__executor_reset(sample->executor);
    tn_status status = sample_run(sample, memory + sample->offset, &seconds);
    sample->executor->error = error;
    if (status == TN_E_NO_MEMORY) return tn__no_memory(s->error, "measuring");
    sample->failed = status != TN_OK;
    if (counts && !sample->failed) sample->seconds[sample->count++] = seconds;
    return TN_OK;
}

static tn_status measure_fill_report(const measure_state *s, uint64_t done) {
    if (s->context.progress == NULL ||
        s->context.progress(s->context.self, "measure", done, s->count))
        return TN_OK;
    TN_FAIL(s->error, TN_E_STOPPED, "measuring was stopped");
}

/* Whether another round of a group may begin. Each group gets a part of the remaining time that is
 * proportional to its number of samples. */
static bool measure_goes_on(const measure_state *s, const measure_group *group, uint32_t round,
                            double began) {
    uint32_t most = s->options.rounds > 0 ? s->options.rounds : MEASURE_ROUNDS;
    double left = measure_seconds(s) - (began - s->began),
           share = (double)(group->last - group->first);
    share /= (double)(s->count - group->first);
    if (round > (most < MEASURE_ROUNDS_MOST ? most : MEASURE_ROUNDS_MOST)) return false;
    return round < 2 || tn__clock_s() - began < left * share;
}

static tn_status measure_group_run(measure_state *s, const measure_group *group) {
    double began = tn__clock_s();
    TN_TRY(measure_take(s, tn__mul_sat(group->bytes, group->copies)));
    for (uint64_t copy = 0; copy < group->copies; copy++)
        for (uint32_t i = group->first; i < group->last; i++)
            sample_fill(&s->samples[i], s->memory + copy * group->bytes + s->samples[i].offset);
    for (uint32_t round = 0; measure_goes_on(s, group, round, began); round++)
        for (uint32_t i = group->first; i < group->last; i++) {
            uint64_t copy = round % group->copies;
            TN_TRY(measure_run(s, &s->samples[i], s->memory + copy * group->bytes, round > 0));
            TN_TRY(measure_fill_report(s, i));
        }
    return TN_OK;
}

/* --- results --- */

static int measure_compare(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t measure_cost(const measure_state *s, tn__sample *sample) {
    double seconds;
    if (sample->count == 0) {
        /* bytes per second that are moved; a copy reads and writes each byte, so they are twice the
         * copied ones */
        double moved = 2 * s->copy_rate;
        tn__machine machine = {TN__PLAIN_RATIO * moved, moved};
        seconds = tn__op_takes(sample->executor->graph, sample->op, &machine, NULL);
    } else {
        qsort(sample->seconds, sample->count, sizeof *sample->seconds, measure_compare);
        seconds = sample->seconds[sample->count / 2];
    }
    double units = seconds * (double)TN_COSTS_PER_S + 0.5;
    return units < (double)TN_COSTS_MOST ? (uint64_t)units : TN_COSTS_MOST;
}

static tn_status measure_costs(measure_state *s, tn_costs **costs) {
    tn_costs *made = NULL;
    TN_TRY(tn__costs_create(s->options.context, s->graph, &made, s->error));
    uint64_t *found = tn__arena_array(&s->arena, (size_t)s->count + 1, sizeof *found);
    if (found == NULL) {
        tn_costs_destroy(made);
        return tn__no_memory(s->error, "measuring");
    }
    for (uint32_t i = 0; i < s->count; i++) {
        found[i] = measure_cost(s, &s->samples[i]);
        s->report.unmeasured += s->samples[i].failed;
    }
    for (tn_op_id id = 0; id < made->count; id++) {
        made->of[id] = s->of[id] != TN_NONE ? found[s->of[id]] : 0;
        made->recompute[id] = s->again_of[id] != TN_NONE ? found[s->again_of[id]] : 0;
    }
    made->bytes_per_s = s->copy_rate;
    made->threads = tn__kernel_cache_threads(s->kernels->cache);
    *costs = made;
    return TN_OK;
}

static uint64_t measure_scaled(uint64_t cost, double scale) {
    double units = (double)cost * scale + 0.5;
    return units < (double)TN_COSTS_MOST ? (uint64_t)units : TN_COSTS_MOST;
}

/* Multiplies all costs so that the costs of a step's operators add up to the time of a measured
 * step. */
static tn_status measure_whole_step(measure_state *s, tn_costs *costs) {
    const tn__measure_whole whole = {.setup = s->options.setup,
                                     .context = &s->context,
                                     .seconds = measure_seconds(s),
                                     .room = measure_bytes(s)};
    if (whole.setup == NULL || s->count == 0) return TN_OK;
    TN_TRY(measure_fill_report(s, s->count - 1));
    measure_drop(s);
    s->report.scale = measure_scale(&whole, costs, &s->report.step_seconds);
    for (tn_op_id id = 0; id < costs->count; id++) {
        costs->of[id] = measure_scaled(costs->of[id], s->report.scale);
        costs->recompute[id] = measure_scaled(costs->recompute[id], s->report.scale);
    }
    return TN_OK;
}

/* --- entry points --- */

static tn_status measure_open(measure_state *s) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    device.context = &s->context;
    s->executor.error = s->again.error = s->error;
    TN_TRY(tn__repeats_make(&s->context, s->graph, &s->repeats, s->error));
    tn__executor_open(&s->executor, &s->context, s->graph);
    s->executor.error = s->error;
    TN_TRY(tn__executor_cover(&s->executor));
    if (s->repeats.graph != NULL) {
        tn__executor_open(&s->again, &s->context, s->repeats.graph);
        s->again.error = s->error;
        TN_TRY(tn__executor_cover(&s->again));
    }
    return tn_device_create(&device, &s->device, s->error);
}

static tn_status measure_all(measure_state *s, tn_costs **costs) {
    tn_costs *made = NULL;
    TN_TRY(measure_open(s));
    TN_TRY(measure_samples(s));
    const tn__measure_step step = {.graph = s->graph,
                                   .occupancy = s->options.occupancy,
                                   .samples = s->samples,
                                   .of = s->of,
                                   .reach = measure_room(s)};
    TN_TRY(tn__measure_reach(&step, &s->arena, s->error));
    for (uint32_t at = 0; at < s->count;) {
        measure_group group = measure_group_from(s, at);
        TN_TRY(measure_group_run(s, &group));
        at = group.last;
    }
    TN_TRY(measure_copy_rate(s));
    TN_TRY(measure_costs(s, &made));
    tn_status status = measure_whole_step(s, made);
    if (status == TN_OK)
        *costs = made;
    else
        tn_costs_destroy(made);
    return status;
}

static void measure_close(measure_state *s) {
    measure_drop(s);
    tn_device_destroy(s->device);
    tn__executor_close(&s->executor);
    tn__executor_close(&s->again);
    tn__repeats_release(&s->repeats);
    tn__names_release(&s->names);
    tn__arena_release(&s->arena);
}

tn_status tn_costs_measure(const tn_kernels *kernels, const tn_measure_options *options,
                           tn_costs **costs, tn_measure_report *report, tn_error *error) {
    measure_state s = {.kernels = kernels,
                       .graph = kernels->graph,
                       .options = TN_MEASURE_OPTIONS_INIT,
                       .report = {.scale = 1},
                       .began = tn__clock_s(),
                       .error = error};
    tn__options(&s.options, sizeof s.options, options);
    s.context = tn__context(s.options.context);
    tn__arena_init(&s.arena, &s.context);
    tn__names_init(&s.names, &s.context);
    tn_status status = measure_all(&s, costs);
    s.report.seconds = tn__clock_s() - s.began;
    measure_close(&s);
    if (status == TN_OK && report != NULL) *report = s.report;
    return status;
}
