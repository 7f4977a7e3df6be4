/* measure_operands.c - lays out and fills the memory of one operator that is measured alone.
 *
 * Inputs, outputs, packed forms and scratch lie one after the other, each aligned as in an arena.
 * Outputs that are inputs by definition, or that work in place, share the memory of these inputs.
 * Tensors get the values that the graph knows. Other tensors get numbers between 1/4 and 5/4, whose
 * roots and logarithms are numbers and which never become slow denormals; indices and counts are 0.
 */
#include "fit/setup/measure.h"

#include "graph/element.h"

#define OPERANDS_ALIGNMENT 64u

typedef struct operands_walk {
    const tn__sample *sample;
    uint8_t *memory; /* NULL: only count bytes */
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
    if (walk->fill) memset(here, 1, bytes); /* touch the pages before anything is measured */
    if (walk->bind) executor->operands[id].data = here;
}

/* packed: [inputs], or NULL. */
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

uint64_t tn__sample_bytes(const tn__sample *sample) {
    operands_walk walk = {.sample = sample};
    operands_walk_all(&walk, NULL);
    return walk.at;
}

void tn__sample_fill(const tn__sample *sample, uint8_t *memory) {
    operands_walk walk = {.sample = sample, .memory = memory, .fill = true};
    operands_walk_all(&walk, NULL);
}

/* Writes one byte of every cache line back unchanged. Most operands that a step finds near have
 * been written there, and caches keep written lines in another state than lines that were only
 * read. */
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

/* Warms the operands that most such operators find near, and scratch, which lies where earlier
 * operators had theirs. */
static void operands_warm(const tn__sample *sample, uint8_t *scratch) {
    const tn_op *op = tn_graph_op(sample->executor->graph, sample->op);
    operands_touch(scratch, sample->prepared->workspace);
    for (uint32_t k = 0; k < op->output_count && k < MEASURE_OPERANDS; k++)
        operands_touch_if(sample, MEASURE_OPERANDS + k, op->outputs[k]);
    for (uint32_t i = 0; i < op->input_count && i < MEASURE_OPERANDS; i++)
        operands_touch_if(sample, i, op->inputs[i]);
}

tn_status tn__sample_run(const tn__sample *sample, uint8_t *memory, double *seconds) {
    operands_walk walk = {.sample = sample, .memory = memory, .bind = true};
    void *packed[64] = {
        NULL}; /* operators with more inputs have no packed forms (engine/kernels/cache.c) */
    bool some = sample->prepared->packed != NULL;
    uint8_t *scratch = operands_walk_all(&walk, some ? packed : NULL);
    operands_warm(sample, scratch);
    double start = tn__clock_s();
    tn_status status = tn__executor_call(sample->executor, sample->op, sample->prepared,
                                         some ? packed : NULL, scratch);
    *seconds = tn__clock_s() - start;
    return status;
}
