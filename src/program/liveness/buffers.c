/* buffers.c - assigns live ranges to buffers: views, in-place results, the ranges of an If output,
 * and concatenations without copies.
 *
 * Live ranges are taken in the order of their definition. Each one either opens a new buffer or
 * joins an existing one:
 *
 *   continuation  a later live range of an If's output: the same memory by construction.
 *   view          an alias by definition always joins; any other view joins when its offset is
 *                 aligned, so that a kernel never gets a less aligned address than it asked for.
 *   in-place      a result that overwrites an input which is read here for the last time. No other
 *                 live range may hold the input's bytes if it is still needed, or if this operator
 *                 reads it at other offsets.
 *
 * In-place never raises the curve of live bytes: output and input have the same size, so this step
 * saves that many bytes and all other steps stay as they were, for every choice of input. The
 * candidates differ only in which buffer becomes longer. The shortest resulting buffer is the
 * easiest to place, so the input with the buffer that began last is taken; ties go to the first
 * input.
 *
 * If only a partial order is known, "for the last time" means that every other use of these bytes
 * happens before the operator, including uses that come earlier in the program. Members then stay
 * in the list until an in-place live range covers them, because that live range comes after all of
 * their uses.
 *
 * The members of a buffer that may still matter are kept in a list. Dead members are dropped from
 * it during the walk, so that chains of 10^5 in-place operators cost O(1) each.
 */
#include "graph/op.h"
#include "program/liveness/liveness.h"

/* --- joining buffers -------------------------------------------------------------------------- */

typedef struct buffers_state {
    liveness_state *liveness;
    uint32_t *next; /* [ranges] next member of the buffer, RANGE_NONE at the end */
    /* [ranges] for the first live range of a buffer (its root): the newest member that may still be
     * live */
    uint32_t *head;
    uint32_t *begin; /* [ranges] for a root: the first step of its buffer */
    /* [ranges] for a root: the buffer's address if a claim of the caller fixes it, else
     * SIZE_UNKNOWN */
    uint64_t *base;
    /* [ranges] for a root: list of all members of its buffer, including those that are no longer
     * live */
    uint32_t *all;
    uint32_t *all_next; /* [ranges] next member in the list `all`, RANGE_NONE at the end */
    uint32_t *size;     /* [ranges] for a root: number of members of its buffer */
    /* [ranges] last step at which an operator writes into the source of this alias; 0: no operator
     * does */
    uint32_t *changed;
    /* [ranges] the last step at which this live range or a view of it is needed, including views of
     * views and views that are made later */
    uint32_t *needed;
    /* [ranges] the newest view of a live range, and the next older view of the same source;
     * RANGE_NONE: there is none */
    uint32_t *view, *older;
} buffers_state;

static void buffers_open(buffers_state *buffers, uint32_t id) {
    live_range *range = &buffers->liveness->ranges[id];
    range->root = id;
    range->delta = range->lo = 0;
    range->hi = range->bytes;
    range->share = TN_SHARE_OWN;
    buffers->begin[id] = range->first;
    buffers->head[id] = id;
    buffers->next[id] = RANGE_NONE;
    buffers->all[id] = id;
    buffers->all_next[id] = RANGE_NONE;
    buffers->size[id] = 1;
}

static void buffers_join(buffers_state *buffers, uint32_t id, uint32_t with, tn_share share) {
    live_range *range = &buffers->liveness->ranges[id];
    uint32_t root = buffers->liveness->ranges[with].root;
    range->root = root;
    range->share = share;
    range->taken = with;
    buffers->next[id] = buffers->head[root];
    buffers->head[root] = id;
    buffers->all_next[id] = buffers->all[root];
    buffers->all[root] = id;
    buffers->size[root]++;
}

/* --- claims: the addresses that another planner reports --- */

/* Returns the address that the caller's claims require for a live range; TN_SIZE_UNKNOWN if no
 * claim concerns it. */
static uint64_t buffers_claim(const liveness_state *liveness, const live_range *range) {
    bool claims =
        liveness->options.inplace == TN_INPLACE_CLAIMED && liveness->options.claimed != NULL;
    return claims && range->tensor != TN_NONE ? liveness->options.claimed[range->tensor]
                                              : TN_SIZE_UNKNOWN;
}

/* Whether a live range may lie at offset `delta` of a buffer: the buffer or the live range has no
 * claim, or both claims agree. */
static bool buffers_claim_agrees(const buffers_state *buffers, const live_range *range,
                                 uint32_t root, uint64_t delta) {
    uint64_t claim = buffers_claim(buffers->liveness, range), base = buffers->base[root], sum;
    if (claim == TN_SIZE_UNKNOWN) return true;
    if (base == TN_SIZE_UNKNOWN) return claim >= delta;
    return tn__add(base, delta, &sum) && claim == sum;
}

/* Records the address that the first claim in a buffer gives to the whole buffer. */
static void buffers_note_claim(buffers_state *buffers, const live_range *range) {
    uint64_t claim = buffers_claim(buffers->liveness, range);
    uint64_t *base = &buffers->base[range->root];
    if (claim != TN_SIZE_UNKNOWN && *base == TN_SIZE_UNKNOWN && claim >= range->delta)
        *base = claim - range->delta;
}

/* --- views --- */

static bool buffers_view_fits(const buffers_state *buffers, const live_range *range) {
    const liveness_state *liveness = buffers->liveness;
    const live_range *source = &liveness->ranges[range->source];
    uint64_t end, alignment = liveness->options.alignment;
    if (range->must) return true;
    if (liveness->options.no_views || range->whole || source->whole) return false;
    if (!tn__add(range->offset, range->bytes, &end) || end > source->bytes) return false;
    return (source->delta + range->offset) % alignment == 0 &&
           buffers_claim_agrees(buffers, range, source->root, source->delta + range->offset);
}

static void buffers_view(buffers_state *buffers, uint32_t id) {
    liveness_state *liveness = buffers->liveness;
    live_range *range = &liveness->ranges[id];
    const live_range *source = &liveness->ranges[range->source];
    uint64_t end;
    bool known = !range->whole && !source->whole && tn__add(range->offset, range->bytes, &end) &&
                 end <= source->bytes;
    buffers_join(buffers, id, range->source, TN_SHARE_VIEW);
    range->whole = !known;
    range->delta = known ? source->delta + range->offset : source->delta;
    range->lo = known ? range->delta : source->lo;
    range->hi = known ? range->delta + range->bytes : source->hi;
}

/* --- in-place --- */

/* Returns the live range of a tensor that a read at this step reads. */
static uint32_t buffers_range_at(const liveness_state *liveness, tn_tensor_id tensor,
                                 uint32_t step) {
    if (tensor == TN_NONE || liveness->is_static[tensor]) return RANGE_NONE;
    uint32_t id = liveness->latest[tensor];
    while (id != RANGE_NONE && liveness->ranges[id].first > step) id = liveness->ranges[id].earlier;
    return id;
}

static bool buffers_meet(const live_range *a, const live_range *b) {
    return a->lo < b->hi && b->lo < a->hi;
}

/* Whether all uses of a live range happen before `step` or in it. */
static bool buffers_is_over(const liveness_state *liveness, const live_range *range,
                            uint32_t step) {
    if (range->first != step && !tn__happens_before(liveness->happens, range->first, step))
        return false;
    for (uint32_t at = range->newest; at != RANGE_NONE; at = liveness->uses.items[at].next) {
        uint32_t use = liveness->uses.items[at].step;
        if (use != step && !tn__happens_before(liveness->happens, use, step)) return false;
    }
    return true;
}

/* Removes those members of a buffer that an in-place live range replaces: all of their uses are
 * over. */
static void buffers_cover(buffers_state *buffers, uint32_t id) {
    const live_range *ranges = buffers->liveness->ranges, *range = &ranges[id];
    uint32_t *link = &buffers->head[range->root];
    while (*link != RANGE_NONE) {
        const live_range *member = &ranges[*link];
        if (*link != id && member->lo >= range->lo && member->hi <= range->hi)
            *link = buffers->next[*link];
        else
            link = &buffers->next[*link];
    }
}

/* Whether no live range that is needed after `step` holds any byte of the candidate. Removes dead
 * members from the list. */
static bool buffers_is_last(buffers_state *buffers, uint32_t candidate, uint32_t step) {
    const live_range *ranges = buffers->liveness->ranges;
    uint32_t *link = &buffers->head[ranges[candidate].root];
    while (*link != RANGE_NONE) {
        const live_range *member = &ranges[*link];
        if (member->last > step + 1) {
            if (buffers_meet(member, &ranges[candidate])) return false;
            link = &buffers->next[*link];
        } else if (buffers->liveness->happens != NULL) {
            if (buffers_meet(member, &ranges[candidate]) &&
                !buffers_is_over(buffers->liveness, member, step))
                return false;
            link = &buffers->next[*link];
        } else if (member->last < step + 1) {
            *link = buffers->next[*link];
        } else {
            link = &buffers->next[*link];
        }
    }
    return true;
}

/* Whether the operator also reads the candidate's bytes through another input, at another
 * offset. */
static bool buffers_reads_askew(const liveness_state *liveness, const tn_op_form *form,
                                uint32_t candidate, uint32_t step) {
    const live_range *mine = &liveness->ranges[candidate];
    for (uint32_t i = 0; i < form->input_count; i++) {
        uint32_t id = buffers_range_at(liveness, tn_op_form_input(form, i), step);
        if (id == RANGE_NONE || id == candidate || liveness->ranges[id].root != mine->root)
            continue;
        const live_range *other = &liveness->ranges[id];
        bool same = other->lo == mine->lo && other->hi == mine->hi && !other->whole;
        if (buffers_meet(other, mine) && !same) return true;
    }
    return false;
}

static uint32_t buffers_choose(buffers_state *buffers, uint32_t id) {
    const liveness_state *liveness = buffers->liveness;
    const live_range *range = &liveness->ranges[id];
    bool again = tn_program_instructions(liveness->program)[range->first].again;
    tn_op_form form = tn_op_form_of(liveness->graph, range->op, again);
    uint64_t mask = tn_op_inplace(liveness->graph, range->op, range->output) & ~form.found;
    uint32_t best = RANGE_NONE;
    for (uint32_t i = 0; i < form.input_count && i < 64; i++) {
        if (!(mask >> i & 1)) continue;
        uint32_t candidate = buffers_range_at(liveness, form.op->inputs[i], range->first);
        if (candidate == RANGE_NONE || candidate >= id) continue;
        const live_range *input = &liveness->ranges[candidate];
        if (tn_tensor_is_static(tn_graph_tensor(liveness->graph, input->tensor))) continue;
        if (input->bytes != range->bytes || input->whole || input->last != range->first + 1)
            continue;
        if (input->delta % liveness->options.alignment != 0) continue;
        if (!buffers_claim_agrees(buffers, range, input->root, input->delta)) continue;
        if (!buffers_is_last(buffers, candidate, range->first)) continue;
        if (buffers_reads_askew(liveness, &form, candidate, range->first)) continue;
        if (best == RANGE_NONE ||
            buffers->begin[input->root] > buffers->begin[liveness->ranges[best].root])
            best = candidate;
    }
    return best;
}

static void buffers_fuse(buffers_state *buffers, uint32_t id);

static void buffers_place(buffers_state *buffers, uint32_t id) {
    liveness_state *liveness = buffers->liveness;
    live_range *range = &liveness->ranges[id];
    uint32_t with = RANGE_NONE;
    tn_share share = TN_SHARE_OWN;
    if (range->source != RANGE_NONE && !range->joins && buffers_view_fits(buffers, range)) {
        buffers_view(buffers, id);
        return;
    }
    if (range->joins) {
        with = range->earlier;
    } else if (range->output != RANGE_NONE && range->bytes > 0 &&
               liveness->options.inplace != TN_INPLACE_NONE) {
        with = buffers_choose(buffers, id);
        share = TN_SHARE_INPLACE;
    }
    range->whole = false;
    if (with == RANGE_NONE) {
        buffers_open(buffers, id);
        buffers_note_claim(buffers, range);
        buffers_fuse(buffers, id);
        return;
    }
    buffers_join(buffers, id, with, share);
    range->delta = range->lo = liveness->ranges[with].delta;
    range->hi = range->delta + range->bytes;
    if (share == TN_SHARE_INPLACE && liveness->happens != NULL) buffers_cover(buffers, id);
}

static bool buffers_make(buffers_state *buffers, tn__arena *scratch) {
    size_t n = buffers->liveness->count;
    uint32_t **numbers[] = {&buffers->next,     &buffers->head, &buffers->begin,   &buffers->all,
                            &buffers->all_next, &buffers->size, &buffers->changed, &buffers->needed,
                            &buffers->view,     &buffers->older};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(*numbers[i] = tn__arena_array(scratch, n, sizeof **numbers[i]))) return false;
    buffers->base = tn__arena_array(scratch, n, sizeof *buffers->base);
    return buffers->base != NULL;
}

static void buffers_watch(buffers_state *buffers);
static void buffers_list_views(buffers_state *buffers);

tn_status tn__buffers_assign(liveness_state *liveness) {
    buffers_state buffers = {.liveness = liveness};
    tn__arena scratch;
    tn__arena_init(&scratch, liveness->context);
    bool all = buffers_make(&buffers, &scratch);
    if (all) buffers_watch(&buffers);
    if (all) buffers_list_views(&buffers);
    for (uint32_t id = 0; id < liveness->count && all; id++) {
        buffers.base[id] = TN_SIZE_UNKNOWN;
        buffers_place(&buffers, id);
        buffers_note_claim(&buffers, &liveness->ranges[id]);
    }
    tn__arena_release(&scratch);
    return all ? TN_OK : tn__no_memory(liveness->error, "bodies");
}

/* --- concatenation without copies ------------------------------------------------------------- */

/* Concatenation without copies: inputs are placed inside the output from the start.
 *
 * If an output is its inputs laid end to end, an input that already lies at its place in the output
 * need not be copied. The whole buffer of that input moves there, with everything else in it:
 *
 *     output                 ###########        output       [##########]
 *     b            ----------                   b        ----------
 *     a       ----------                        a    ----------------
 *                 three buffers                       one buffer of three sections
 *
 * An input joins under four conditions. Its place is aligned. Neither input nor output is written
 * later. Its elements lie as the output's do (a view that PyTorch defines may have strides). No two
 * members of the new buffer hold the same bytes at the same step, except bytes that the
 * concatenation makes equal. Other inputs are copied, as before.
 *
 * Live bytes never rise: until the concatenation each input holds its own bytes, from then on it
 * holds bytes of the output. Two cases are left out, because they keep other operators from working
 * in place. An input that outlives the output does so for the output; this is harmless only if such
 * inputs fill the output. An output that outlives a tensor of which it holds only a part does so
 * for that tensor. Views count as what they show, also if they are made after the concatenation.
 *
 * If operators may run concurrently (streams, parallel-safe), all inputs are copied, because "at
 * the same step" is not defined then. Buckets are an exception: their inputs are over when the
 * bucket is made, and keep to their own bytes.
 *
 * A large rigid buffer is harder to place than small ones, so the arena may grow nevertheless.
 *
 * Cost: for each pair of inputs in two buffers, the product of the numbers of members of these
 * buffers; buffers with many members are left alone.
 * Source: memory-efficient DenseNet (Pleiss et al., 2017) shares concatenations by hand.
 */

/* limit of the members of an input's buffer, because all of them are moved and compared */
#define FUSE_MEMBERS_MAX 4096u
/* limit of the inputs of one concatenation; the longest one of a DenseNet has about sixty */
#define FUSE_INPUTS_MAX 256u

typedef struct fuse_input {
    uint32_t range, root;
    uint64_t at; /* offset of this input in the output of the concatenation */
    bool joins;
} fuse_input;

typedef struct fuse_join {
    buffers_state *buffers;
    const live_range *output;
    fuse_input inputs[FUSE_INPUTS_MAX];
    uint32_t count;
    /* offset of the output's first byte in the buffer that it shares with its inputs */
    uint64_t start;
} fuse_join;

/* --- which live ranges are written into --- */

/* Computes `changed` (the last step at which an operator writes into an alias's source) for all
 * live ranges. */
static void buffers_watch(buffers_state *buffers) {
    liveness_state *liveness = buffers->liveness;
    /* root[id] is the live range that `id` is an alias of, directly or indirectly. It lies in the
     * memory of `size`, which is not in use yet. */
    uint32_t *root = buffers->size;
    for (uint32_t id = 0; id < liveness->count; id++) {
        const live_range *range = &liveness->ranges[id];
        root[id] = range->source != RANGE_NONE && range->must ? root[range->source] : id;
        bool writes = root[id] != id && range->op != TN_NONE &&
                      tn_op_changes(liveness->graph, range->op) != 0;
        if (writes && range->first > buffers->changed[root[id]])
            buffers->changed[root[id]] = range->first;
    }
    for (size_t id = liveness->count; id-- > 0;) buffers->changed[id] = buffers->changed[root[id]];
}

/* Computes `needed` and the lists of views. Views that get their own memory in the end count, too:
 * this is only known once they are placed. */
static void buffers_list_views(buffers_state *buffers) {
    const live_range *ranges = buffers->liveness->ranges;
    size_t count = buffers->liveness->count;
    for (size_t id = 0; id < count; id++) {
        buffers->needed[id] = ranges[id].last;
        buffers->view[id] = buffers->older[id] = RANGE_NONE;
    }
    for (size_t id = 0; id < count; id++) {
        uint32_t source = ranges[id].source;
        if (source == RANGE_NONE) continue;
        buffers->older[id] = buffers->view[source];
        buffers->view[source] = (uint32_t)id;
    }
    for (size_t id = count; id-- > 0;) {
        uint32_t source = ranges[id].source;
        if (source != RANGE_NONE && buffers->needed[id] > buffers->needed[source])
            buffers->needed[source] = buffers->needed[id];
    }
}

/* Whether the elements of a live range are contiguous. For aliases this is unknown, and the answer
 * is false, unless they return their own operand after writing into it. */
static bool fuse_is_dense(const liveness_state *liveness, uint32_t id) {
    for (uint32_t steps = 0; steps < 64; steps++) {
        const live_range *range = &liveness->ranges[id];
        if (range->whole) return false;
        if (range->source == RANGE_NONE || range->share != TN_SHARE_VIEW) return true;
        if (range->must && tn_op_changes(liveness->graph, range->op) == 0) return false;
        id = range->source;
    }
    return false;
}

/* --- checks of one input --- */

static bool fuse_may_join(const fuse_join *join, const fuse_input *input) {
    const buffers_state *buffers = join->buffers;
    const liveness_state *liveness = buffers->liveness;
    const live_range *range = &liveness->ranges[input->range];
    uint64_t alignment = liveness->options.alignment;
    if (range->bytes == 0 || input->root == join->output->root) return false;
    if (input->at % alignment != 0 || range->delta % alignment != 0) return false;
    if (buffers->size[input->root] > FUSE_MEMBERS_MAX || !fuse_is_dense(liveness, input->range))
        return false;
    return buffers->changed[input->range] <= join->output->first;
}

/* Whether an input can lie inside a bucket. A bucket may be changed later, also by code that runs
 * concurrently with the program. So every member of the input's buffer must stay within the input's
 * bytes and end before the bucket is made. */
static bool fuse_suits_bucket(const fuse_join *join, const fuse_input *input) {
    const buffers_state *buffers = join->buffers;
    const liveness_state *liveness = buffers->liveness;
    const live_range *range = &liveness->ranges[input->range];
    for (uint32_t m = buffers->all[input->root]; m != RANGE_NONE; m = buffers->all_next[m]) {
        const live_range *member = &liveness->ranges[m];
        if (member->lo < range->delta || member->hi > range->delta + range->bytes) return false;
        if (member->last > join->output->first + 1) return false;
        if (liveness->happens != NULL && !buffers_is_over(liveness, member, join->output->first))
            return false;
    }
    return true;
}

/* Excludes inputs that share a buffer but do not lie at the same distances from each other in the
 * output: an input that disagrees with an earlier input of its buffer is copied. */
static void fuse_agree(fuse_join *join) {
    const live_range *ranges = join->buffers->liveness->ranges;
    for (uint32_t i = 0; i < join->count; i++) {
        for (uint32_t k = 0; k < i && join->inputs[i].joins; k++) {
            const fuse_input *a = &join->inputs[k], *b = &join->inputs[i];
            bool same = ranges[b->range].delta - ranges[a->range].delta == b->at - a->at;
            if (a->joins && a->root == b->root && (!same || a->range == b->range))
                join->inputs[i].joins = false;
        }
    }
}

/* Finds the address that claims require for the output: that of its own claim, or else the one that
 * follows from the first input with a claim. Inputs with claims for another address are copied. */
static void fuse_obey_claims(fuse_join *join) {
    const buffers_state *buffers = join->buffers;
    uint64_t output = buffers_claim(buffers->liveness, join->output);
    for (uint32_t i = 0; i < join->count; i++) {
        fuse_input *input = &join->inputs[i];
        uint64_t base = buffers->base[input->root];
        if (!input->joins || base == TN_SIZE_UNKNOWN) continue;
        uint64_t place = base + buffers->liveness->ranges[input->range].delta;
        if (output == TN_SIZE_UNKNOWN && place >= input->at) output = place - input->at;
        if (output == TN_SIZE_UNKNOWN || place != output + input->at) input->joins = false;
    }
}

/* --- keeping in-place possible --- */

static uint64_t fuse_overlap(uint64_t a_lo, uint64_t a_hi, uint64_t b_lo, uint64_t b_hi) {
    uint64_t lo = a_lo > b_lo ? a_lo : b_lo, hi = a_hi < b_hi ? a_hi : b_hi;
    return lo < hi ? hi - lo : 0;
}

/* Whether a view of `member` that is made after the concatenation holds some of the input's bytes
 * when the output's last reader runs. Views that exist already are members themselves. */
static bool fuse_is_viewed(const fuse_join *join, uint32_t member, const live_range *input) {
    const buffers_state *buffers = join->buffers;
    const live_range *ranges = buffers->liveness->ranges, *source = &ranges[member];
    for (uint32_t v = buffers->view[member]; v != RANGE_NONE; v = buffers->older[v]) {
        const live_range *view = &ranges[v];
        if (view <= join->output) break;
        if (buffers->needed[v] < join->output->last) continue;
        uint64_t lo = source->delta + view->offset;
        bool known = !view->must && !view->whole && !source->whole;
        if (!known || (lo < input->hi && input->lo < tn__add_sat(lo, view->bytes))) return true;
    }
    return false;
}

/* Whether some of the input's bytes are still needed when the output's last reader runs. *covered
 * is set if all of them are, for as long as the output or a view of it is needed. */
static bool fuse_is_outlived(const fuse_join *join, const fuse_input *input, bool *covered) {
    const buffers_state *buffers = join->buffers;
    const live_range *ranges = buffers->liveness->ranges, *range = &ranges[input->range];
    bool any = false;
    uint32_t end = buffers->needed[join->output - ranges];
    *covered = false;
    for (uint32_t m = buffers->all[input->root]; m != RANGE_NONE; m = buffers->all_next[m]) {
        if (!buffers_meet(&ranges[m], range)) continue;
        any = any || ranges[m].last >= join->output->last || fuse_is_viewed(join, m, range);
        bool holds = ranges[m].lo <= range->lo && ranges[m].hi >= range->hi;
        *covered = *covered || (holds && ranges[m].last >= end);
    }
    return any;
}

/* Copies inputs that outlive the output, unless such inputs fill the output: otherwise no later
 * operator could work in place over the output. The layout is valid without this rule. It is
 * skipped if claims fix the addresses. */
static void fuse_outliving(fuse_join *join) {
    if (join->buffers->liveness->options.inplace == TN_INPLACE_CLAIMED) return;
    uint64_t filled = 0;
    bool outlived[FUSE_INPUTS_MAX] = {false}, any = false;
    for (uint32_t i = 0; i < join->count; i++) {
        bool covered;
        if (!join->inputs[i].joins) continue;
        outlived[i] = fuse_is_outlived(join, &join->inputs[i], &covered);
        any = any || outlived[i];
        if (covered) filled += join->buffers->liveness->ranges[join->inputs[i].range].bytes;
    }
    if (!any || filled == join->output->bytes) return;
    for (uint32_t i = 0; i < join->count; i++)
        if (outlived[i]) join->inputs[i].joins = false;
}

/* Whether the output would hold a part of a tensor that has a later reader, and outlive that
 * tensor: the reader could then not work in place over it. A tensor that lies in the output as a
 * whole takes no bytes of its own, so nothing is lost. */
static bool fuse_holds_part(const fuse_join *join, const fuse_input *input) {
    const buffers_state *buffers = join->buffers;
    const live_range *ranges = buffers->liveness->ranges, *range = &ranges[input->range];
    uint32_t end = buffers->needed[join->output - ranges];
    for (uint32_t m = buffers->all[input->root]; m != RANGE_NONE; m = buffers->all_next[m]) {
        const live_range *member = &ranges[m];
        uint64_t inside = 0;
        if (member->last <= join->output->first + 1 || member->last >= end) continue;
        if (!buffers_meet(member, range)) continue;
        for (uint32_t i = 0; i < join->count; i++) {
            const live_range *other = &ranges[join->inputs[i].range];
            if (join->inputs[i].joins && join->inputs[i].root == input->root)
                inside += fuse_overlap(member->lo, member->hi, other->lo, other->hi);
        }
        if (inside < member->hi - member->lo) return true;
    }
    return false;
}

/* Copies inputs by which the output would hold a part of a tensor. */
static void fuse_parting(fuse_join *join) {
    if (join->buffers->liveness->options.inplace == TN_INPLACE_CLAIMED) return;
    for (uint32_t i = 0; i < join->count; i++)
        if (join->inputs[i].joins && fuse_holds_part(join, &join->inputs[i]))
            join->inputs[i].joins = false;
}

/* --- conflicts --- */

/* Returns the distance by which the buffer of an input moves up when it joins the output's
 * buffer. */
static uint64_t fuse_shift(const fuse_join *join, const fuse_input *input) {
    return join->start + input->at - join->buffers->liveness->ranges[input->range].delta;
}

/* Sets the output's offset in the new buffer: high enough that no input's buffer has to move
 * down. */
static void fuse_set_start(fuse_join *join) {
    join->start = 0;
    for (uint32_t i = 0; i < join->count; i++) {
        uint64_t delta = join->buffers->liveness->ranges[join->inputs[i].range].delta;
        bool above = join->inputs[i].joins && delta > join->inputs[i].at;
        if (above && delta - join->inputs[i].at > join->start)
            join->start = delta - join->inputs[i].at;
    }
}

/* Whether the output's buffer is correct after the concatenation: bytes of the inputs' buffers that
 * are still live inside the output must be bytes that the concatenation itself brought there. */
static bool fuse_suits_output(const fuse_join *join, const fuse_input *input) {
    const buffers_state *buffers = join->buffers;
    const live_range *ranges = buffers->liveness->ranges;
    uint64_t shift = fuse_shift(join, input), end = join->start + join->output->bytes;
    for (uint32_t m = buffers->all[input->root]; m != RANGE_NONE; m = buffers->all_next[m]) {
        const live_range *member = &ranges[m];
        if (member->last <= join->output->first) continue;
        uint64_t lo = member->lo + shift, hi = member->hi + shift, brought = 0;
        for (uint32_t i = 0; i < join->count; i++) {
            const fuse_input *other = &join->inputs[i];
            uint64_t from = join->start + other->at;
            if (other->joins && other->root == input->root)
                brought += fuse_overlap(lo, hi, from, from + ranges[other->range].bytes);
        }
        if (brought != fuse_overlap(lo, hi, join->start, end)) return false;
    }
    return true;
}

/* Whether the buffers of inputs a and b can be merged: no member of one holds bytes of a member of
 * the other at the same step. Buffers with too many members are not merged. */
static bool fuse_suits(const fuse_join *join, const fuse_input *a, const fuse_input *b) {
    const buffers_state *buffers = join->buffers;
    const live_range *ranges = buffers->liveness->ranges;
    uint64_t up_a = fuse_shift(join, a), up_b = fuse_shift(join, b);
    uint64_t pairs = (uint64_t)buffers->size[a->root] * buffers->size[b->root];
    if (pairs > 16 * FUSE_MEMBERS_MAX) return false;
    for (uint32_t m = buffers->all[a->root]; m != RANGE_NONE; m = buffers->all_next[m])
        for (uint32_t k = buffers->all[b->root]; k != RANGE_NONE; k = buffers->all_next[k]) {
            bool meet = ranges[m].first < ranges[k].last && ranges[k].first < ranges[m].last;
            if (meet && fuse_overlap(ranges[m].lo + up_a, ranges[m].hi + up_a, ranges[k].lo + up_b,
                                     ranges[k].hi + up_b) > 0)
                return false;
        }
    return true;
}

/* Excludes inputs from the merge (they are copied) until the remaining ones are compatible. With an
 * input, all inputs that share its buffer are excluded, too. */
static void fuse_resolve(fuse_join *join) {
    for (uint32_t i = 0; i < join->count; i++) {
        fuse_input *input = &join->inputs[i];
        bool suits = input->joins && fuse_suits_output(join, input);
        for (uint32_t k = 0; k < i && suits; k++)
            if (join->inputs[k].joins && join->inputs[k].root != input->root)
                suits = fuse_suits(join, &join->inputs[k], input);
        if (suits || !input->joins) continue;
        for (uint32_t k = 0; k < join->count; k++)
            if (join->inputs[k].root == input->root) join->inputs[k].joins = false;
    }
}

static uint32_t fuse_count(const fuse_join *join) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < join->count; i++) count += join->inputs[i].joins;
    return count;
}

/* Applies the rules until no input is excluded: the rules about in-place depend on which other
 * inputs join. */
static void fuse_settle(fuse_join *join) {
    for (uint32_t before = UINT32_MAX, count = fuse_count(join); count < before;) {
        before = count;
        fuse_outliving(join);
        fuse_parting(join);
        fuse_set_start(join);
        fuse_resolve(join);
        count = fuse_count(join);
    }
    fuse_set_start(join);
}

/* --- moving --- */

static void fuse_move(buffers_state *buffers, uint32_t root, uint64_t shift) {
    for (uint32_t m = buffers->all[root]; m != RANGE_NONE && shift != 0; m = buffers->all_next[m]) {
        live_range *range = &buffers->liveness->ranges[m];
        range->delta += shift;
        range->lo += shift;
        range->hi += shift;
    }
    if (buffers->base[root] != TN_SIZE_UNKNOWN && buffers->base[root] >= shift)
        buffers->base[root] -= shift;
}

static uint32_t fuse_tail(const uint32_t *next, uint32_t head) {
    while (next[head] != RANGE_NONE) head = next[head];
    return head;
}

/* Merges two buffers: members of the smaller buffer get the larger one's root. */
static void fuse_unite(buffers_state *buffers, uint32_t a, uint32_t b) {
    uint32_t root = buffers->size[a] >= buffers->size[b] ? a : b, gone = root == a ? b : a;
    for (uint32_t m = buffers->all[gone]; m != RANGE_NONE; m = buffers->all_next[m])
        buffers->liveness->ranges[m].root = root;
    buffers->all_next[fuse_tail(buffers->all_next, buffers->all[gone])] = buffers->all[root];
    buffers->all[root] = buffers->all[gone];
    if (buffers->head[gone] != RANGE_NONE) {
        buffers->next[fuse_tail(buffers->next, buffers->head[gone])] = buffers->head[root];
        buffers->head[root] = buffers->head[gone];
    }
    buffers->size[root] += buffers->size[gone];
    if (buffers->begin[gone] < buffers->begin[root]) buffers->begin[root] = buffers->begin[gone];
    if (buffers->base[root] == TN_SIZE_UNKNOWN) buffers->base[root] = buffers->base[gone];
}

static void fuse_all(fuse_join *join, uint32_t id) {
    buffers_state *buffers = join->buffers;
    live_range *ranges = buffers->liveness->ranges;
    uint32_t first = RANGE_NONE;
    fuse_move(buffers, id, join->start);
    for (uint32_t i = 0; i < join->count; i++) {
        const fuse_input *input = &join->inputs[i];
        if (!input->joins) continue;
        if (first == RANGE_NONE) first = input->range;
        /* the buffer of this input has already moved with an earlier input */
        if (ranges[input->range].root == ranges[id].root) continue;
        fuse_move(buffers, input->root, fuse_shift(join, input));
        fuse_unite(buffers, input->root, ranges[id].root);
    }
    if (first == RANGE_NONE) return;
    ranges[id].share = TN_SHARE_FUSED;
    ranges[id].taken = first;
}

/* --- entry points --- */

/* Whether the inputs of an output are to be placed inside it. For concatenations this is so if the
 * option asks for it and nothing runs concurrently; for buckets always, because they exist for this
 * purpose. */
static bool fuse_wants(const buffers_state *buffers, uint32_t id) {
    const liveness_state *liveness = buffers->liveness;
    const live_range *range = &liveness->ranges[id];
    if (range->op == TN_NONE || range->output != 0 || range->bytes == 0) return false;
    if (tn_graph_op(liveness->graph, range->op)->input_count > FUSE_INPUTS_MAX) return false;
    if (tn__op_has(liveness->graph, range->op, TN_RULE_SPACED))
        return liveness->options.inplace != TN_INPLACE_NONE;
    return liveness->options.fuse_concat && liveness->happens == NULL &&
           tn_op_joins(liveness->graph, range->op) && buffers->changed[id] <= range->first;
}

/* Places the inputs of a concatenation or a bucket inside the output, which has just opened a
 * buffer. */
static void buffers_fuse(buffers_state *buffers, uint32_t id) {
    const liveness_state *liveness = buffers->liveness;
    const live_range *range = &liveness->ranges[id];
    if (!fuse_wants(buffers, id)) return;
    const tn_op *op = tn_graph_op(liveness->graph, range->op);
    fuse_join join = {.buffers = buffers, .output = range};
    bool bucket = tn__op_has(liveness->graph, range->op, TN_RULE_SPACED);
    uint64_t at = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t input = buffers_range_at(liveness, op->inputs[i], range->first);
        if (input != RANGE_NONE) {
            fuse_input *next = &join.inputs[join.count++];
            *next = (fuse_input){.range = input, .root = liveness->ranges[input].root, .at = at};
            next->joins = tn__op_holds_input(liveness->graph, range->op, i) &&
                          fuse_may_join(&join, next) && (!bucket || fuse_suits_bucket(&join, next));
        }
        at = tn__add_sat(at, tn__op_input_room(liveness->graph, range->op, i));
    }
    fuse_obey_claims(&join);
    fuse_agree(&join);
    fuse_settle(&join);
    fuse_all(&join, id);
}
