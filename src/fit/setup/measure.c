/* measure.c - measures the time of operators on this machine.
 *
 * One sample stands for all operators with the same kernel cache key and the same in-place
 * outputs. Samples are put into groups that fit into memory together. A group is filled once and
 * then measured in rounds: the first round warms up (pages, kernels, the processor's clock),
 * each further round times every sample once. The cost of a sample is the median of its times,
 * so interrupted runs do not count.
 *
 * Caches: a group has as much memory as a step uses (the live bytes at the peak step, and static
 * memory). So between two runs of a sample as many bytes pass through the caches as between two
 * runs of an operator in successive steps. A smaller group alternates between several copies.
 * Data that a step finds in a nearer cache, because the previous operator has just written them
 * or memory was just released, are touched before the clock starts (measure_reach.c). Finally,
 * costs are scaled to the time of a whole step (measure_step.c).
 *
 * When not to use: while other programs use the same processors.
 *
 * Cost: rounds x the time of all samples.
 */
#include "fit/setup/measure.h"

#include <stdlib.h>

#include "graph/takes.h"

#define MEASURE_SECONDS 20.0
#define MEASURE_ROUNDS 7u
#define MEASURE_BYTES (UINT64_C(2) << 30)
#define MEASURE_COLD                                                                               \
    (UINT64_C(64) << 20) /* bytes between two runs of a sample, if a step uses as many */

typedef struct measure_state {
    const tn_kernels *kernels;
    const tn_graph *graph;
    tn_measure_options options;
    tn_context context;
    tn__arena arena;
    tn__repeats repeats;
    tn__executor executor, again; /* of the graph, and of the repeat forms */
    tn__sample *samples;
    uint32_t count;
    uint32_t *of, *again_of; /* [operators] index of its sample; TN_NONE */
    uint64_t *inplace;       /* [operators] */
    uint64_t footprint;      /* bytes that a step uses */
    tn__names names;         /* keys of samples */
    tn_device *device;
    tn_address address;
    uint8_t *memory; /* of the current group */
    uint64_t memory_bytes;
    double copy_rate, began;
    tn_measure_report report;
    tn_error *error;
} measure_state;

/* --- samples --- */

/* The sample of an operator: an existing one that runs the same way, or a new one. */
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
    sample->bytes = tn__sample_bytes(sample);
    *index = s->count++;
    return TN_OK;
}

/* Finds the operators that write an output over an input in the given program. */
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

/* The live bytes at the peak step (without a program: all tensors), and static memory. */
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

/* Measures the bytes per second of a copy that is much larger than a processor's own caches;
 * each byte is read and written. */
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
    uint64_t bytes;       /* of one copy of the group */
    uint64_t copies;
} measure_group;

static double measure_seconds(const measure_state *s) {
    return s->options.seconds > 0 ? s->options.seconds : MEASURE_SECONDS;
}

static uint64_t measure_bytes(const measure_state *s) {
    return s->options.bytes > 0 ? s->options.bytes : MEASURE_BYTES;
}

/* The bytes of a group: about the number that pass between two runs of a sample. */
static uint64_t measure_room(const measure_state *s) {
    uint64_t room = measure_bytes(s);
    return room < s->footprint ? room : s->footprint;
}

/* Samples from `first` on that fit together, at least one. */
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
    tn_status status = tn__sample_run(sample, memory + sample->offset, &seconds);
    sample->executor->error = error;
    if (status == TN_E_NO_MEMORY) return tn__no_memory(s->error, "measuring");
    sample->failed = status != TN_OK;
    if (counts && !sample->failed) sample->seconds[sample->count++] = seconds;
    return TN_OK;
}

static tn_status measure_tell(const measure_state *s, uint64_t done) {
    if (s->context.progress == NULL ||
        s->context.progress(s->context.self, "measure", done, s->count))
        return TN_OK;
    TN_FAIL(s->error, TN_E_STOPPED, "measuring was stopped");
}

/* Whether another round may begin: each group gets a part of the remaining time that is
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
            tn__sample_fill(&s->samples[i], s->memory + copy * group->bytes + s->samples[i].offset);
    for (uint32_t round = 0; measure_goes_on(s, group, round, began); round++)
        for (uint32_t i = group->first; i < group->last; i++) {
            uint64_t copy = round % group->copies;
            TN_TRY(measure_run(s, &s->samples[i], s->memory + copy * group->bytes, round > 0));
            TN_TRY(measure_tell(s, i));
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
        double moved = 2 * s->copy_rate; /* bytes per second: a copy reads and writes */
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
        made->again[id] = s->again_of[id] != TN_NONE ? found[s->again_of[id]] : 0;
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

/* Scales the costs so that the operators of a step add up to the measured step. */
static tn_status measure_whole_step(measure_state *s, tn_costs *costs) {
    const tn__measure_whole whole = {.setup = s->options.setup,
                                     .context = &s->context,
                                     .seconds = measure_seconds(s),
                                     .room = measure_bytes(s)};
    if (whole.setup == NULL || s->count == 0) return TN_OK;
    TN_TRY(measure_tell(s, s->count - 1));
    measure_drop(s);
    s->report.scale = tn__measure_scale(&whole, costs, &s->report.step_seconds);
    for (tn_op_id id = 0; id < costs->count; id++) {
        costs->of[id] = measure_scaled(costs->of[id], s->report.scale);
        costs->again[id] = measure_scaled(costs->again[id], s->report.scale);
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
