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
 * Cost: O(choices x (acts + gaps)).
 * Source: Jain et al., "Gist" (2018).
 */
#include <inttypes.h>
#include <stdio.h>

#include "budget/codes.h"

typedef struct gist_state {
    tn__pass_run *run;
    tn__gaps gaps;
    tn__schedule schedule;
    tn__replay found;
    tn__codes codes;
    uint32_t worst; /* job at which the schedule needs most */
} gist_state;

/* --- choosing --- */

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

static void gist_encode(gist_state *s, uint32_t index, tn__code form) {
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
        tn__code form = tn__codes_of(&s->codes, g);
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
    gist_encode(s, best, tn__codes_of(&s->codes, best));
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
    s->codes.lossy = lossy;
    for (uint32_t g = 0; g < s->gaps.count; g++) s->gaps.list[g].how = TN__GAP_KEEP;
    TN_TRY(gist_build(s, &possible));
    while (possible && s->found.peak > s->run->budget && gist_choose(s))
        TN_TRY(gist_build(s, &possible));
    return possible ? tn__pass_offer(s->run, &s->schedule, &kept) : TN_OK;
}

static tn_status gist_all(gist_state *s) {
    TN_TRY(tn__gaps_find(s->run, &s->gaps));
    TN_TRY(tn__codes_find(&s->codes, s->run, &s->gaps));
    TN_TRY(gist_meet(s, TN_CODEC_NONE));
    for (int i = 0; i < TN__LOSSY_COUNT && !s->run->has_best; i++)
        if (tn__codes_allow(s->run, tn__lossy[i])) TN_TRY(gist_meet(s, tn__lossy[i]));
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
