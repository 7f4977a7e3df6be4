/* gist.c - what is kept for long is kept encoded, and decoded right before it is read.
 *
 *   bits    one bit an element, where all later readers only ask what is above 0 (the gradient of
 *           Relu; the registry says who): 32 times smaller, and the results are the same bit by bit
 *   csr     where so many elements are 0 that it is smaller; by the share that was measured
 *           (tn_setup_zeros), never by one that is assumed. Room is planned for a twentieth more
 *           elements than there were; what has more yet goes to the host (engine/forms.h)
 *   float16, float10, float8   of anything else, and where they are smaller than csr, if losses are
 *           allowed: the first of them with which the budget is met
 *
 * Where memory is above the budget, the value that saves most for the time that its codec takes is
 * encoded, until the budget is met. Encoding begins with the first gap of a value from which on its
 * readers are content with the form, and holds to its last reader.
 *
 * The paper binarises what Relu hands to a maximum pool, as its pool remembers where the maximum
 * was. Here the graph of a training step has such pools already (MaxPoolTrain), and nobody keeps
 * what they read: what is left for bits is what Relu hands to others that keep nothing.
 *
 * When not to use: types other than float32 are left alone.
 * Cost: O(choices x (acts + gaps)). Source: Jain et al., "Gist" (2018).
 */
#include <inttypes.h>
#include <stdio.h>

#include "budget/gaps.h"
#include "budget/kinds.h"

#define GIST_MORE 1.05 /* elements for each that was not 0 when it was measured */

typedef struct gist_state {
    tn__pass_run *run;
    tn__gaps gaps;
    tn__schedule schedule;
    tn__replay found;
    uint32_t worst;      /* job at which the schedule needs most */
    uint32_t *bits_from; /* [values] gap from which on bits are enough; TN_NONE */
    uint64_t *rows;      /* [values] bytes as rows of what is not 0; 0: they do not pay */
    tn_codec lossy;      /* of all others; NONE: they stay */
} gist_state;

/* --- what a value may become --- */

/* The tensor whose memory a tensor is. */
static tn_tensor_id gist_root(const tn_graph *graph, tn_tensor_id id) {
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

/* Whether an operator only asks of a value which elements are above 0. */
static bool gist_asks_signs(const gist_state *s, tn_op_id id, tn_tensor_id tensor) {
    const tn_graph *graph = s->run->graph;
    uint64_t signs = tn__kind_signs(graph, id);
    if (signs == 0) return false;
    const tn_op *op = tn_graph_op(graph, id);
    bool reads = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE || gist_root(graph, op->inputs[i]) != tensor) continue;
        if (i >= 64 || !(signs >> i & 1)) return false;
        reads = true;
    }
    return reads;
}

/* The first gap behind which all readers only ask for signs; TN_NONE: the last reader does not. */
static uint32_t gist_signs_from(const gist_state *s, uint32_t v) {
    const tn__work *work = s->run->work;
    const tn__value *value = &work->values[v];
    uint32_t least = TN_NONE; /* the first of the readers at the end that ask for signs */
    for (uint32_t i = value->reader_count; i-- > 0;) {
        uint32_t job = work->readers[value->reader_first + i];
        if (!gist_asks_signs(s, work->jobs[job].op, value->tensor)) break;
        least = job;
    }
    for (uint32_t g = s->gaps.first[v]; g < s->gaps.first[v + 1] && least != TN_NONE; g++)
        if (s->gaps.list[g].back >= least) return g;
    return TN_NONE;
}

/* Elements, of 4 bytes; 0: it is not encoded. */
static uint64_t gist_elements(const gist_state *s, uint32_t v) {
    const tn__value *value = &s->run->work->values[v];
    if (value->tensor == TN_NONE || (value->flags & TN__VALUE_HELD)) return 0;
    const tn_tensor *tensor = tn_graph_tensor(s->run->graph, value->tensor);
    return tensor->dtype == TN_FLOAT32 && tensor->bytes <= value->bytes ? tensor->bytes / 4 : 0;
}

static bool gist_may(const gist_state *s, tn_codec codec) {
    return (s->run->codecs >> codec & 1) != 0;
}

static void gist_lossless(gist_state *s, uint32_t v) {
    const tn__value *value = &s->run->work->values[v];
    uint64_t count = gist_elements(s, v);
    float zeros = s->run->zeros != NULL ? s->run->zeros[v] : -1;
    s->bits_from[v] = TN_NONE;
    if (count == 0 || s->gaps.first[v] == s->gaps.first[v + 1]) return;
    if (!(value->flags & TN__VALUE_KEPT) && gist_may(s, TN_CODEC_BITS))
        s->bits_from[v] = gist_signs_from(s, v);
    if (!(zeros >= 0 && zeros <= 1) || !gist_may(s, TN_CODEC_CSR)) return;
    double filled = (double)count * (1 - (double)zeros) * GIST_MORE + 1;
    uint64_t most = filled < (double)count ? (uint64_t)filled : count;
    uint64_t bytes = tn_codec_bytes(TN_CODEC_CSR, count, most);
    if (bytes < value->bytes) s->rows[v] = bytes;
}

/* --- choosing --- */

typedef struct gist_form {
    tn_codec codec; /* NONE: it has none here */
    uint64_t bytes;
} gist_form;

/* Outputs of the graph lose nothing. */
static gist_form gist_form_of(const gist_state *s, uint32_t index) {
    uint32_t v = s->gaps.list[index].value;
    uint64_t count = gist_elements(s, v);
    bool kept = (s->run->work->values[v].flags & TN__VALUE_KEPT) != 0;
    gist_form form = {kept ? TN_CODEC_NONE : s->lossy, tn_codec_bytes(s->lossy, count, 0)};
    if (s->bits_from[v] != TN_NONE && index >= s->bits_from[v])
        form = (gist_form){TN_CODEC_BITS, tn_codec_bytes(TN_CODEC_BITS, count, 0)};
    else if (s->rows[v] > 0 && (form.codec == TN_CODEC_NONE || s->rows[v] <= form.bytes))
        form = (gist_form){TN_CODEC_CSR, s->rows[v]};
    if (count == 0 || form.bytes >= s->run->work->values[v].bytes) form.codec = TN_CODEC_NONE;
    return form;
}

/* Whether the value has a form already, which others gaps of it then have to have as well. */
static bool gist_is_coded(const gist_state *s, uint32_t v) {
    for (uint32_t g = s->gaps.first[v]; g < s->gaps.first[v + 1]; g++)
        if (s->gaps.list[g].how == TN__GAP_CODE) return true;
    return false;
}

static const char *gist_why(tn_codec codec) {
    if (codec == TN_CODEC_BITS) return "only signs are asked for from there on";
    if (codec == TN_CODEC_CSR) return "most of it was 0 when it was measured";
    return "losses are allowed";
}

static void gist_encode(gist_state *s, uint32_t index, gist_form form) {
    uint32_t v = s->gaps.list[index].value;
    char what[60];
    snprintf(what, sizeof what, "encode as %s, %" PRIu64 " bytes,", tn_codec_name(form.codec),
             form.bytes);
    for (uint32_t g = index; g < s->gaps.first[v + 1]; g++) {
        s->gaps.list[g].how = TN__GAP_CODE;
        s->gaps.list[g].codec = form.codec;
        s->gaps.list[g].bytes = form.bytes;
    }
    tn__gaps_explain(&s->gaps, index, what, gist_why(form.codec));
}

/* The gap over the worst job that saves most for its time. */
static bool gist_choose(gist_state *s) {
    double most = 0;
    uint32_t best = TN_NONE;
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        const tn__gap *gap = &s->gaps.list[g];
        if (gap->how != TN__GAP_KEEP || gap->leave >= s->worst || gap->back <= s->worst) continue;
        gist_form form = gist_form_of(s, g);
        if (form.codec == TN_CODEC_NONE || gist_is_coded(s, gap->value)) continue;
        uint64_t bytes = s->run->work->values[gap->value].bytes;
        uint32_t decodes = s->gaps.first[gap->value + 1] - g;
        double saves = (double)(bytes - form.bytes);
        saves /= (double)(bytes + form.bytes) * (1 + decodes); /* codecs move both forms */
        if (saves <= most) continue;
        most = saves;
        best = g;
    }
    if (best == TN_NONE) return false;
    gist_encode(s, best, gist_form_of(s, best));
    return true;
}

static tn_status gist_build(gist_state *s, bool *possible) {
    uint32_t next = 0;
    TN_TRY(tn__gaps_schedule(&s->gaps, &s->schedule, possible));
    if (!*possible) return TN_OK;
    TN_TRY(tn__replay_schedule(s->run->work, &s->schedule, &s->found, NULL, s->run->error));
    for (uint32_t i = 0; i < s->found.peak_act; i++)
        next += s->schedule.acts[i].kind == TN__RUN; /* nothing runs again */
    s->worst = next;
    return tn__pass_work(s->run, s->schedule.count + s->gaps.count);
}

static tn_status gist_meet(gist_state *s, tn_codec lossy) {
    bool possible, kept;
    s->lossy = lossy;
    for (uint32_t g = 0; g < s->gaps.count; g++) s->gaps.list[g].how = TN__GAP_KEEP;
    TN_TRY(gist_build(s, &possible));
    while (possible && s->found.peak > s->run->budget && gist_choose(s))
        TN_TRY(gist_build(s, &possible));
    return possible ? tn__pass_offer(s->run, &s->schedule, &kept) : TN_OK;
}

static tn_status gist_all(gist_state *s) {
    static const tn_codec lossy[] = {TN_CODEC_FLOAT16, TN_CODEC_FLOAT10, TN_CODEC_FLOAT8};
    size_t values = (size_t)s->run->work->value_count + 1;
    TN_TRY(tn__gaps_find(s->run, &s->gaps));
    s->bits_from = tn__arena_array(s->run->arena, values, sizeof *s->bits_from);
    s->rows = tn__arena_array(s->run->arena, values, sizeof *s->rows);
    if (s->bits_from == NULL || s->rows == NULL)
        return tn__no_memory(s->run->error, "encoded forms");
    for (uint32_t v = 0; v < s->run->work->value_count; v++) gist_lossless(s, v);
    TN_TRY(gist_meet(s, TN_CODEC_NONE));
    for (int i = 0; i < 3 && !s->run->has_best && (s->run->allow & TN__ALLOW_LOSSY); i++)
        if (gist_may(s, lossy[i])) TN_TRY(gist_meet(s, lossy[i]));
    return TN_OK;
}

static tn_status gist_solve(tn__pass_run *run) {
    gist_state s = {.run = run};
    if (run->graph == NULL || !(run->allow & TN__ALLOW_COMPRESS))
        TN_FAIL(run->error, TN_E_UNSUPPORTED, "gist encodes tensors of a graph%s",
                run->graph != NULL ? ", and encoding is not allowed" : "");
    tn__schedule_init(&s.schedule, &run->context);
    tn_status status = gist_all(&s);
    tn__schedule_release(&s.schedule);
    if (status == TN_OK && !run->has_best)
        TN_FAIL(run->error, TN_E_STOPPED,
                "encoding what may be encoded takes more than the budget");
    return status;
}

const tn_pass tn__pass_gist = {
    .name = "gist",
    .summary = "keeps bits, sparse rows or short floats of what waits for the backward pass",
    .source = "Jain et al., Gist (2018)",
    .features = TN__PASS_COMPRESSES | TN__PASS_BUDGETS | TN__PASS_GRAPH,
    .solve = gist_solve,
};
