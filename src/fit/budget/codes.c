/* codes.c - decides which encoded forms a value may have.
 *
 * Sign bits are used if all readers after a gap only need to know which elements are above 0; the
 * registry knows these operators (tn_op_rule.signs). Sparse rows are used according to the measured
 * share of nonzero elements, planned with a reserve of 5 %. Short floats are used for all other
 * values, and where they are smaller than sparse rows. Cost: O(values + readers).
 */
#include "fit/budget/codes.h"

#include "fit/budget/kinds.h"

#define CODES_MORE 1.05 /* planned elements per measured nonzero element */

const tn_codec tn__lossy[TN__LOSSY_COUNT] = {TN_CODEC_FLOAT16, TN_CODEC_FLOAT10, TN_CODEC_FLOAT8};

bool tn__codes_allow(const tn__pass_run *run, tn_codec codec) {
    bool loses = codec == TN_CODEC_FLOAT16 || codec == TN_CODEC_FLOAT10 || codec == TN_CODEC_FLOAT8;
    if (loses && !(run->allow & TN__ALLOW_LOSSY)) return false;
    return (run->codecs >> codec & 1) != 0;
}

/* The tensor that owns a tensor's memory. */
static tn_tensor_id codes_root(const tn_graph *graph, tn_tensor_id id) {
    for (;;) {
        tn_op_id producer = tn_graph_tensor(graph, id)->producer;
        if (producer == TN_NONE) return id;
        const tn_op *op = tn_graph_op(graph, producer);
        uint32_t output = 0;
        while (output < op->output_count && op->outputs[output] != id) output++;
        tn_view view = tn_op_view(graph, producer, output);
        if (view.source == TN_NONE) return id;
        id = view.source;
    }
}

/* Whether an operator only needs to know which elements of a value are above 0. */
static bool codes_asks_signs(const tn__codes *s, tn_op_id id, tn_tensor_id tensor) {
    const tn_graph *graph = s->run->graph;
    uint64_t signs = tn__kind_signs(graph, id);
    if (signs == 0) return false;
    const tn_op *op = tn_graph_op(graph, id);
    bool reads = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE || codes_root(graph, op->inputs[i]) != tensor) continue;
        if (i >= 64 || !(signs >> i & 1)) return false;
        reads = true;
    }
    return reads;
}

/* The first gap after which all readers only need signs; TN_NONE: the last reader needs more. */
static uint32_t codes_signs_from(const tn__codes *s, uint32_t v) {
    const tn__work *work = s->run->work;
    const tn__value *value = &work->values[v];
    uint32_t least = TN_NONE; /* the first reader of the run of sign readers at the end */
    for (uint32_t i = work->readers.first[v + 1]; i-- > work->readers.first[v];) {
        uint32_t job = work->readers.items[i];
        if (work->jobs[job].op == TN_NONE) break;
        if (!codes_asks_signs(s, work->jobs[job].op, value->tensor)) break;
        least = job;
    }
    for (uint32_t g = s->gaps->first[v]; g < s->gaps->first[v + 1] && least != TN_NONE; g++)
        if (s->gaps->list[g].back >= least) return g;
    return TN_NONE;
}

/* Elements of 4 bytes each; 0: the value is not encoded. */
static uint64_t codes_elements(const tn__codes *s, uint32_t v) {
    const tn__value *value = &s->run->work->values[v];
    if (value->tensor == TN_NONE || (value->flags & (TN__VALUE_HELD | TN__VALUE_RULED))) return 0;
    const tn_tensor *tensor = tn_graph_tensor(s->run->graph, value->tensor);
    return tensor->dtype == TN_FLOAT32 && tensor->bytes <= value->bytes ? tensor->bytes / 4 : 0;
}

static void codes_lossless(tn__codes *s, uint32_t v) {
    const tn__value *value = &s->run->work->values[v];
    uint64_t count = codes_elements(s, v);
    float zeros = s->run->zeros != NULL ? s->run->zeros[v] : -1;
    s->bits_from[v] = TN_NONE;
    if (count == 0 || s->gaps->first[v] == s->gaps->first[v + 1]) return;
    if (!(value->flags & TN__VALUE_KEPT) && tn__codes_allow(s->run, TN_CODEC_BITS))
        s->bits_from[v] = codes_signs_from(s, v);
    if (!(zeros >= 0 && zeros <= 1) || !tn__codes_allow(s->run, TN_CODEC_CSR)) return;
    double filled = (double)count * (1 - (double)zeros) * CODES_MORE + 1;
    uint64_t most = filled < (double)count ? (uint64_t)filled : count;
    uint64_t bytes = tn_codec_bytes(TN_CODEC_CSR, count, most);
    if (bytes < value->bytes) s->rows[v] = bytes;
}

/* Outputs of the graph get lossless forms only. */
tn__code tn__codes_of(const tn__codes *s, uint32_t index) {
    uint32_t v = s->gaps->list[index].value;
    uint64_t count = codes_elements(s, v);
    bool kept = (s->run->work->values[v].flags & TN__VALUE_KEPT) != 0;
    tn__code form = {kept ? TN_CODEC_NONE : s->lossy, tn_codec_bytes(s->lossy, count, 0)};
    if (s->bits_from[v] != TN_NONE && index >= s->bits_from[v])
        form = (tn__code){TN_CODEC_BITS, tn_codec_bytes(TN_CODEC_BITS, count, 0)};
    else if (s->rows[v] > 0 && (form.codec == TN_CODEC_NONE || s->rows[v] <= form.bytes))
        form = (tn__code){TN_CODEC_CSR, s->rows[v]};
    if (count == 0 || form.bytes >= s->run->work->values[v].bytes) form.codec = TN_CODEC_NONE;
    return form;
}

tn_status tn__codes_find(tn__codes *codes, const tn__pass_run *run, const tn__gaps *gaps) {
    size_t values = (size_t)run->work->value_count + 1;
    *codes = (tn__codes){.run = run, .gaps = gaps, .lossy = TN_CODEC_NONE};
    codes->bits_from = tn__arena_array(run->arena, values, sizeof *codes->bits_from);
    codes->rows = tn__arena_array(run->arena, values, sizeof *codes->rows);
    if (codes->bits_from == NULL || codes->rows == NULL)
        return tn__no_memory(run->error, "encoded forms");
    for (uint32_t v = 0; v < run->work->value_count; v++) codes_lossless(codes, v);
    return TN_OK;
}
