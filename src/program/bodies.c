/* bodies.c - assigns live ranges to buffers: views, in-place results, the ranges of an If
 * output.
 *
 * In this folder a life is one live range and a body is one buffer. Lives are taken in the order
 * of their definition. Each one either opens a new body or joins an existing one:
 *
 *   continuation  a later life of an If's output: the same memory by construction.
 *   view          an alias by definition always joins; any other view joins when its offset is
 *                 aligned, so that a kernel never gets a less aligned address than it asked for.
 *   in-place      a result over an input that is read here for the last time: no other life that
 *                 is still needed, or that this operator reads at other places, may hold its bytes.
 *
 * In-place never raises the curve of live bytes: output and input have the same size, so this
 * step saves that many bytes and all other steps stay as they were, for every choice of input.
 * The candidates differ only in the body that grows longer. The shortest resulting body is the
 * easiest to place, so the input with the body that began last is taken; ties go to the first
 * input.
 *
 * If only a partial order is known, "for the last time" means that every other use of these
 * bytes happens before the operator, including uses that come earlier in the program. Members
 * then stay in the list until an in-place life covers them, because that life comes after all of
 * their uses.
 *
 * The members of a body that may still matter are kept in a list. Dead members are dropped from
 * it during the walk, so that chains of 10^5 in-place operators cost O(1) each.
 */
#include "program/bodies.h"

static void groups_open(groups_state *groups, uint32_t id) {
    occ_life *life = &groups->occ->lives[id];
    life->root = id;
    life->delta = life->lo = 0;
    life->hi = life->bytes;
    life->share = TN_SHARE_OWN;
    groups->begin[id] = life->first;
    groups->head[id] = id;
    groups->next[id] = OCC_NONE;
    groups->all[id] = id;
    groups->all_next[id] = OCC_NONE;
    groups->size[id] = 1;
}

static void groups_join(groups_state *groups, uint32_t id, uint32_t with, tn_share share) {
    occ_life *life = &groups->occ->lives[id];
    uint32_t root = groups->occ->lives[with].root;
    life->root = root;
    life->share = share;
    life->taken = with;
    groups->next[id] = groups->head[root];
    groups->head[root] = id;
    groups->all_next[id] = groups->all[root];
    groups->all[root] = id;
    groups->size[root]++;
}

/* --- claims: the addresses that another planner reports --- */

uint64_t tn__groups_claim(const occ_state *occ, const occ_life *life) {
    bool claims = occ->options.inplace == TN_INPLACE_CLAIMED && occ->options.claimed != NULL;
    return claims && life->tensor != TN_NONE ? occ->options.claimed[life->tensor] : TN_SIZE_UNKNOWN;
}

/* Whether a life may lie at `delta` of a body: one of them has no claim, or both claims agree. */
static bool groups_claim_agrees(const groups_state *groups, const occ_life *life, uint32_t root,
                                uint64_t delta) {
    uint64_t claim = tn__groups_claim(groups->occ, life), base = groups->base[root], sum;
    if (claim == TN_SIZE_UNKNOWN) return true;
    if (base == TN_SIZE_UNKNOWN) return claim >= delta;
    return tn__add(base, delta, &sum) && claim == sum;
}

/* The first claim in a body fixes the address of the body. */
static void groups_note_claim(groups_state *groups, const occ_life *life) {
    uint64_t claim = tn__groups_claim(groups->occ, life);
    uint64_t *base = &groups->base[life->root];
    if (claim != TN_SIZE_UNKNOWN && *base == TN_SIZE_UNKNOWN && claim >= life->delta)
        *base = claim - life->delta;
}

/* --- views --- */

static bool groups_view_fits(const groups_state *groups, const occ_life *life) {
    const occ_state *occ = groups->occ;
    const occ_life *source = &occ->lives[life->source];
    uint64_t end, alignment = occ->options.alignment;
    if (life->must) return true;
    if (occ->options.no_views || life->whole || source->whole) return false;
    if (!tn__add(life->offset, life->bytes, &end) || end > source->bytes) return false;
    return (source->delta + life->offset) % alignment == 0 &&
           groups_claim_agrees(groups, life, source->root, source->delta + life->offset);
}

static void groups_view(groups_state *groups, uint32_t id) {
    occ_state *occ = groups->occ;
    occ_life *life = &occ->lives[id];
    const occ_life *source = &occ->lives[life->source];
    uint64_t end;
    bool known = !life->whole && !source->whole && tn__add(life->offset, life->bytes, &end) &&
                 end <= source->bytes;
    groups_join(groups, id, life->source, TN_SHARE_VIEW);
    life->whole = !known;
    life->delta = known ? source->delta + life->offset : source->delta;
    life->lo = known ? life->delta : source->lo;
    life->hi = known ? life->delta + life->bytes : source->hi;
}

/* --- in-place --- */

/* The life of a tensor that is read at a step. */
uint32_t tn__groups_life_at(const occ_state *occ, tn_tensor_id tensor, uint32_t step) {
    if (tensor == TN_NONE || occ->is_static[tensor]) return OCC_NONE;
    uint32_t id = occ->latest[tensor];
    while (id != OCC_NONE && occ->lives[id].first > step) id = occ->lives[id].earlier;
    return id;
}

static bool groups_meet(const occ_life *a, const occ_life *b) {
    return a->lo < b->hi && b->lo < a->hi;
}

/* Whether all uses of a life happen before `step` or in it. */
bool tn__groups_is_over(const occ_state *occ, const occ_life *life, uint32_t step) {
    if (life->first != step && !tn__happens_before(occ->happens, life->first, step)) return false;
    for (uint32_t at = life->newest; at != OCC_NONE; at = occ->uses.items[at].next) {
        uint32_t use = occ->uses.items[at].step;
        if (use != step && !tn__happens_before(occ->happens, use, step)) return false;
    }
    return true;
}

/* Removes the members that an in-place life covers: all of their uses are over. */
static void groups_cover(groups_state *groups, uint32_t id) {
    const occ_life *lives = groups->occ->lives, *life = &lives[id];
    uint32_t *link = &groups->head[life->root];
    while (*link != OCC_NONE) {
        const occ_life *member = &lives[*link];
        if (*link != id && member->lo >= life->lo && member->hi <= life->hi)
            *link = groups->next[*link];
        else
            link = &groups->next[*link];
    }
}

/* Whether no life that is needed after `step` holds any byte of the candidate. Drops dead
 * members. */
static bool groups_is_last(groups_state *groups, uint32_t candidate, uint32_t step) {
    const occ_life *lives = groups->occ->lives;
    uint32_t *link = &groups->head[lives[candidate].root];
    while (*link != OCC_NONE) {
        const occ_life *member = &lives[*link];
        if (member->last > step + 1) {
            if (groups_meet(member, &lives[candidate])) return false;
            link = &groups->next[*link];
        } else if (groups->occ->happens != NULL) {
            if (groups_meet(member, &lives[candidate]) &&
                !tn__groups_is_over(groups->occ, member, step))
                return false;
            link = &groups->next[*link];
        } else if (member->last < step + 1) {
            *link = groups->next[*link];
        } else {
            link = &groups->next[*link];
        }
    }
    return true;
}

/* Whether the operator reads the candidate's bytes at another offset through another input. */
static bool groups_reads_askew(const occ_state *occ, const tn_op_form *form, uint32_t candidate,
                               uint32_t step) {
    const occ_life *mine = &occ->lives[candidate];
    for (uint32_t i = 0; i < form->input_count; i++) {
        uint32_t id = tn__groups_life_at(occ, tn_op_form_input(form, i), step);
        if (id == OCC_NONE || id == candidate || occ->lives[id].root != mine->root) continue;
        const occ_life *other = &occ->lives[id];
        bool same = other->lo == mine->lo && other->hi == mine->hi && !other->whole;
        if (groups_meet(other, mine) && !same) return true;
    }
    return false;
}

static uint32_t groups_choose(groups_state *groups, uint32_t id) {
    const occ_state *occ = groups->occ;
    const occ_life *life = &occ->lives[id];
    bool again = tn_program_instructions(occ->program)[life->first].again;
    tn_op_form form = tn_op_form_of(occ->graph, life->op, again);
    uint64_t mask = tn_op_inplace(occ->graph, life->op, life->output) & ~form.found;
    uint32_t best = OCC_NONE;
    for (uint32_t i = 0; i < form.input_count && i < 64; i++) {
        if (!(mask >> i & 1)) continue;
        uint32_t candidate = tn__groups_life_at(occ, form.op->inputs[i], life->first);
        if (candidate == OCC_NONE || candidate >= id) continue;
        const occ_life *input = &occ->lives[candidate];
        if (tn_tensor_is_static(tn_graph_tensor(occ->graph, input->tensor))) continue;
        if (input->bytes != life->bytes || input->whole || input->last != life->first + 1) continue;
        if (input->delta % occ->options.alignment != 0) continue;
        if (!groups_claim_agrees(groups, life, input->root, input->delta)) continue;
        if (!groups_is_last(groups, candidate, life->first)) continue;
        if (groups_reads_askew(occ, &form, candidate, life->first)) continue;
        if (best == OCC_NONE || groups->begin[input->root] > groups->begin[occ->lives[best].root])
            best = candidate;
    }
    return best;
}

static void groups_place(groups_state *groups, uint32_t id) {
    occ_state *occ = groups->occ;
    occ_life *life = &occ->lives[id];
    uint32_t with = OCC_NONE;
    tn_share share = TN_SHARE_OWN;
    if (life->source != OCC_NONE && !life->joins && groups_view_fits(groups, life)) {
        groups_view(groups, id);
        return;
    }
    if (life->joins) {
        with = life->earlier;
    } else if (life->output != OCC_NONE && life->bytes > 0 &&
               occ->options.inplace != TN_INPLACE_NONE) {
        with = groups_choose(groups, id);
        share = TN_SHARE_INPLACE;
    }
    life->whole = false;
    if (with == OCC_NONE) {
        groups_open(groups, id);
        groups_note_claim(groups, life);
        tn__groups_fuse(groups, id);
        return;
    }
    groups_join(groups, id, with, share);
    life->delta = life->lo = occ->lives[with].delta;
    life->hi = life->delta + life->bytes;
    if (share == TN_SHARE_INPLACE && occ->happens != NULL) groups_cover(groups, id);
}

static bool groups_make(groups_state *groups, tn__arena *scratch) {
    size_t n = groups->occ->count;
    uint32_t **numbers[] = {&groups->next,     &groups->head, &groups->begin,  &groups->all,
                            &groups->all_next, &groups->size, &groups->changed};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(*numbers[i] = tn__arena_array(scratch, n, sizeof **numbers[i]))) return false;
    groups->base = tn__arena_array(scratch, n, sizeof *groups->base);
    return groups->base != NULL;
}

tn_status tn__occ_join(occ_state *occ) {
    groups_state groups = {.occ = occ};
    tn__arena scratch;
    tn__arena_init(&scratch, occ->context);
    bool all = groups_make(&groups, &scratch);
    if (all) tn__groups_watch(&groups);
    for (uint32_t id = 0; id < occ->count && all; id++) {
        groups.base[id] = TN_SIZE_UNKNOWN;
        groups_place(&groups, id);
        groups_note_claim(&groups, &occ->lives[id]);
    }
    tn__arena_release(&scratch);
    return all ? TN_OK : tn__no_memory(occ->error, "bodies");
}
