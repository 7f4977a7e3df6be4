/* gist.c - encodes values that are kept for long, and decodes them directly before they are read.
 *
 *   bits    one bit per element, if all later readers only need to know which elements are
 *           positive, as the gradient of Relu does (the registry of operators knows this): 32 times
 *           smaller, with identical results
 *   csr     sparse rows, if enough elements are 0 that they are smaller. The share of zeros is
 *           measured (tn_setup_zeros), never assumed. 5 % more elements than measured are planned;
 *           if a tensor has even more, the engine keeps it on the host instead
 *   float16, float10, float8   for all other values, and where they are smaller than csr, if losses
 *           are allowed: the first of them that meets the budget
 *
 * At the job that needs the most memory, the value with the largest saving per time of the codec is
 * encoded; this is repeated until the budget is met. A value is encoded from the first idle
 * interval after which all readers accept its form, until its last reader.
 *
 * The paper also encodes the input of a maximum pool after Relu as bits, because its pool stores
 * the position of the maximum. Training graphs of Tenure already contain such pools (MaxPoolTrain),
 * and their inputs are not kept. Bits are therefore used for outputs of Relu that go to operators
 * of other types which keep no inputs.
 *
 * Limits: types other than float32 are not encoded. Cost: O(choices * (actions + idle intervals)).
 * Source: Jain et al., "Gist" (2018).
 */
#include <inttypes.h>
#include <stdio.h>

#include "fit/budget/algorithms/idle.h"

typedef struct gist_state {
    tn__pass_run *run;
    tn__idles gaps;
    tn__schedule schedule;
    tn__replay found;
    tn__codes codes;
    uint32_t worst; /* the job at which the current schedule needs the most bytes */
} gist_state;

/* --- choosing --- */

/* Whether the value is already encoded in another idle interval. A value has only one encoded
 * form. */
static bool gist_is_coded(const gist_state *s, uint32_t v) {
    for (uint32_t g = s->gaps.first[v]; g < s->gaps.first[v + 1]; g++)
        if (s->gaps.list[g].how == TN__IDLE_CODE) return true;
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
        s->gaps.list[g].how = TN__IDLE_CODE;
        s->gaps.list[g].codec = form.codec;
        s->gaps.list[g].bytes = form.bytes;
    }
    tn__idles_explain(&s->gaps, index, what, gist_why(form.codec));
}

/* Decides to encode the value of one more idle interval: of those that contain the job with the
 * most bytes, the one that saves the most bytes per time of the codec. Returns false if there is no
 * such interval. */
static bool gist_choose(gist_state *s) {
    double most = 0;
    uint32_t best = TN_NONE;
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        const tn__idle *gap = &s->gaps.list[g];
        if (gap->how != TN__IDLE_KEEP || gap->leave >= s->worst || gap->back <= s->worst) continue;
        tn__code form = tn__codes_of(&s->codes, g);
        if (form.codec == TN_CODEC_NONE || gist_is_coded(s, gap->value)) continue;
        uint64_t bytes = s->run->dag->values[gap->value].bytes;
        uint32_t decodes = s->gaps.first[gap->value + 1] - g;
        double saves = (double)(bytes - form.bytes);
        /* a codec reads one form and writes the other; a value is encoded once, and decoded for
         * each of its idle intervals */
        saves /= (double)(bytes + form.bytes) * (1 + decodes);
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
    TN_TRY(tn__idles_schedule(&s->gaps, &s->schedule, possible));
    if (!*possible) return TN_OK;
    TN_TRY(tn__replay_schedule(s->run->dag, &s->schedule, &s->found, NULL, s->run->error));
    for (uint32_t i = 0; i < s->found.peak_action; i++)
        next +=
            /* without repeats, the n-th RUN is the run of job n */
            s->schedule.actions[i].kind == TN__RUN;
    s->worst = next;
    return tn__pass_work(s->run, s->schedule.count + s->gaps.count);
}

static tn_status gist_meet(gist_state *s, tn_codec lossy) {
    bool possible, kept;
    s->codes.lossy = lossy;
    for (uint32_t g = 0; g < s->gaps.count; g++) s->gaps.list[g].how = TN__IDLE_KEEP;
    TN_TRY(gist_build(s, &possible));
    while (possible && s->found.peak > s->run->budget && gist_choose(s))
        TN_TRY(gist_build(s, &possible));
    return possible ? tn__pass_offer(s->run, &s->schedule, &kept) : TN_OK;
}

static tn_status gist_all(gist_state *s) {
    TN_TRY(tn__idles_find(s->run, &s->gaps));
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
    if (status == TN_OK && !run->has_best) return TN_E_STOPPED;
    return status;
}

const tn_pass tn__pass_gist = {
    .name = "gist",
    .summary = "keeps tensors for the backward pass as bits, sparse rows or short floats",
    .source = "Jain et al., Gist (2018)",
    .features = TN__PASS_COMPRESSES | TN__PASS_BUDGETS | TN__PASS_GRAPH,
    .solve = gist_solve,
};
