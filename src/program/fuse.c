/* fuse.c - concatenation without copies: inputs are placed inside the output from the start.
 *
 * If an output is its inputs laid end to end, an input that already lies at its place in the
 * output need not be copied. The whole body of that input moves there, with everything else in
 * it:
 *
 *     output                 ###########        output       [##########]
 *     b            ----------                   b        ----------
 *     a       ----------                        a    ----------------
 *                 three bodies                       one body of three pieces
 *
 * An input joins under four conditions. Its place is aligned. Neither input nor output is
 * written later. Its elements lie as the output's do (a view that PyTorch defines may have
 * strides). No two members of the new body hold the same bytes at the same step, except bytes
 * that the concatenation makes equal. Other inputs are copied, as before.
 *
 * Live bytes never rise: until the concatenation each input holds its own bytes, from then on it
 * holds bytes of the output. One case is left out. An input that outlives the output keeps other
 * operators from working in place over the output; this is harmless only if such inputs fill the
 * output.
 *
 * If operators may run concurrently (streams, parallel-safe), all inputs are copied, because "at
 * the same step" is not defined then. Buckets are an exception: their inputs are over when the
 * bucket is made, and keep to their own bytes.
 *
 * A large rigid body is harder to place than small ones, so the arena may grow nevertheless.
 *
 * Cost: O(inputs^2 + members) per concatenation; bodies with many members are left alone.
 * Source: memory-efficient DenseNet (Pleiss et al., 2017) shares concatenations by hand.
 */
#include "graph/op.h"
#include "program/bodies.h"

#define FUSE_MEMBERS_MAX 4096u /* in a body that moves or is compared member by member */
#define FUSE_INPUTS_MAX 256u   /* of one join: the longest of a DenseNet has about sixty */

typedef struct fuse_input {
    uint32_t life, root;
    uint64_t at; /* its place in the output */
    bool joins;
} fuse_input;

typedef struct fuse_join {
    groups_state *groups;
    const occ_life *output;
    fuse_input inputs[FUSE_INPUTS_MAX];
    uint32_t count;
    uint64_t start; /* first byte of the output in the new body */
} fuse_join;

/* --- which lives are written into --- */

void tn__groups_watch(groups_state *groups) {
    occ_state *occ = groups->occ;
    uint32_t *root = groups->size; /* `size` is not in use yet; here it is the alias root of each
                                    * life */
    for (uint32_t id = 0; id < occ->count; id++) {
        const occ_life *life = &occ->lives[id];
        root[id] = life->source != OCC_NONE && life->must ? root[life->source] : id;
        bool writes =
            root[id] != id && life->op != TN_NONE && tn_op_changes(occ->graph, life->op) != 0;
        if (writes && life->first > groups->changed[root[id]])
            groups->changed[root[id]] = life->first;
    }
    for (size_t id = occ->count; id-- > 0;) groups->changed[id] = groups->changed[root[id]];
}

/* Whether the elements are contiguous. For aliases this is unknown, unless they return their own
 * operand after writing into it. */
static bool fuse_is_dense(const occ_state *occ, uint32_t id) {
    for (uint32_t steps = 0; steps < 64; steps++) {
        const occ_life *life = &occ->lives[id];
        if (life->whole) return false;
        if (life->source == OCC_NONE || life->share != TN_SHARE_VIEW) return true;
        if (life->must && tn_op_changes(occ->graph, life->op) == 0) return false;
        id = life->source;
    }
    return false;
}

/* --- checks of one input --- */

static bool fuse_may_join(const fuse_join *join, const fuse_input *input) {
    const groups_state *groups = join->groups;
    const occ_state *occ = groups->occ;
    const occ_life *life = &occ->lives[input->life];
    uint64_t alignment = occ->options.alignment;
    if (life->bytes == 0 || input->root == join->output->root) return false;
    if (input->at % alignment != 0 || life->delta % alignment != 0) return false;
    if (groups->size[input->root] > FUSE_MEMBERS_MAX || !fuse_is_dense(occ, input->life))
        return false;
    return groups->changed[input->life] <= join->output->first;
}

/* A bucket may be changed later, also by code that runs concurrently with the program. So every
 * member of the input's body must stay within the input's bytes and end before the bucket is
 * made. */
static bool fuse_suits_bucket(const fuse_join *join, const fuse_input *input) {
    const groups_state *groups = join->groups;
    const occ_state *occ = groups->occ;
    const occ_life *life = &occ->lives[input->life];
    for (uint32_t m = groups->all[input->root]; m != OCC_NONE; m = groups->all_next[m]) {
        const occ_life *member = &occ->lives[m];
        if (member->lo < life->delta || member->hi > life->delta + life->bytes) return false;
        if (member->last > join->output->first + 1) return false;
        if (occ->happens != NULL && !tn__groups_is_over(occ, member, join->output->first))
            return false;
    }
    return true;
}

/* Inputs that share a body must keep their distances in the output: the first input decides. */
static void fuse_agree(fuse_join *join) {
    const occ_life *lives = join->groups->occ->lives;
    for (uint32_t i = 0; i < join->count; i++) {
        for (uint32_t k = 0; k < i && join->inputs[i].joins; k++) {
            const fuse_input *a = &join->inputs[k], *b = &join->inputs[i];
            bool same = lives[b->life].delta - lives[a->life].delta == b->at - a->at;
            if (a->joins && a->root == b->root && (!same || a->life == b->life))
                join->inputs[i].joins = false;
        }
    }
}

/* The claim of the output decides where the output lies, or else the first claim of an input.
 * Inputs with a claim for another address are copied. */
static void fuse_obey_claims(fuse_join *join) {
    const groups_state *groups = join->groups;
    uint64_t output = tn__groups_claim(groups->occ, join->output);
    for (uint32_t i = 0; i < join->count; i++) {
        fuse_input *input = &join->inputs[i];
        uint64_t base = groups->base[input->root];
        if (!input->joins || base == TN_SIZE_UNKNOWN) continue;
        uint64_t place = base + groups->occ->lives[input->life].delta;
        if (output == TN_SIZE_UNKNOWN && place >= input->at) output = place - input->at;
        if (output == TN_SIZE_UNKNOWN || place != output + input->at) input->joins = false;
    }
}

/* --- keeping in-place over the output possible --- */

/* Whether some of the input's bytes are still in use when the output's last reader runs.
 * *covered: all of them are. */
static bool fuse_is_outlived(const fuse_join *join, const fuse_input *input, bool *covered) {
    const groups_state *groups = join->groups;
    const occ_life *lives = groups->occ->lives, *life = &lives[input->life];
    bool any = false;
    *covered = false;
    for (uint32_t m = groups->all[input->root]; m != OCC_NONE; m = groups->all_next[m]) {
        if (lives[m].last < join->output->last) continue;
        if (lives[m].lo >= life->hi || lives[m].hi <= life->lo) continue;
        any = true;
        *covered = *covered || (lives[m].lo <= life->lo && lives[m].hi >= life->hi);
    }
    return any;
}

/* This rule only improves the result; it is not needed for validity. With claims it is not
 * applied. */
static void fuse_outliving(fuse_join *join) {
    if (join->groups->occ->options.inplace == TN_INPLACE_CLAIMED) return;
    uint64_t filled = 0;
    bool outlived[FUSE_INPUTS_MAX] = {false}, any = false;
    for (uint32_t i = 0; i < join->count; i++) {
        bool covered;
        if (!join->inputs[i].joins) continue;
        outlived[i] = fuse_is_outlived(join, &join->inputs[i], &covered);
        any = any || outlived[i];
        if (covered) filled += join->groups->occ->lives[join->inputs[i].life].bytes;
    }
    if (!any || filled == join->output->bytes) return;
    for (uint32_t i = 0; i < join->count; i++)
        if (outlived[i]) join->inputs[i].joins = false;
}

/* --- conflicts --- */

/* The distance by which a body moves up. */
static uint64_t fuse_shift(const fuse_join *join, const fuse_input *input) {
    return join->start + input->at - join->groups->occ->lives[input->life].delta;
}

/* The output begins high enough that no body has to move down. */
static void fuse_set_start(fuse_join *join) {
    join->start = 0;
    for (uint32_t i = 0; i < join->count; i++) {
        uint64_t delta = join->groups->occ->lives[join->inputs[i].life].delta;
        bool above = join->inputs[i].joins && delta > join->inputs[i].at;
        if (above && delta - join->inputs[i].at > join->start)
            join->start = delta - join->inputs[i].at;
    }
}

static uint64_t fuse_overlap(uint64_t a_lo, uint64_t a_hi, uint64_t b_lo, uint64_t b_hi) {
    uint64_t lo = a_lo > b_lo ? a_lo : b_lo, hi = a_hi < b_hi ? a_hi : b_hi;
    return lo < hi ? hi - lo : 0;
}

/* After the concatenation, the live bytes of the body inside the output must be bytes that its
 * own inputs have brought there. */
static bool fuse_suits_output(const fuse_join *join, const fuse_input *input) {
    const groups_state *groups = join->groups;
    const occ_life *lives = groups->occ->lives;
    uint64_t shift = fuse_shift(join, input), end = join->start + join->output->bytes;
    for (uint32_t m = groups->all[input->root]; m != OCC_NONE; m = groups->all_next[m]) {
        const occ_life *member = &lives[m];
        if (member->last <= join->output->first) continue;
        uint64_t lo = member->lo + shift, hi = member->hi + shift, brought = 0;
        for (uint32_t i = 0; i < join->count; i++) {
            const fuse_input *other = &join->inputs[i];
            uint64_t from = join->start + other->at;
            if (other->joins && other->root == input->root)
                brought += fuse_overlap(lo, hi, from, from + lives[other->life].bytes);
        }
        if (brought != fuse_overlap(lo, hi, join->start, end)) return false;
    }
    return true;
}

/* No member of one body holds bytes of the other's at the same step. */
static bool fuse_suits(const fuse_join *join, const fuse_input *a, const fuse_input *b) {
    const groups_state *groups = join->groups;
    const occ_life *lives = groups->occ->lives;
    uint64_t up_a = fuse_shift(join, a), up_b = fuse_shift(join, b);
    uint64_t pairs = (uint64_t)groups->size[a->root] * groups->size[b->root];
    if (pairs > 16 * FUSE_MEMBERS_MAX) return false;
    for (uint32_t m = groups->all[a->root]; m != OCC_NONE; m = groups->all_next[m])
        for (uint32_t k = groups->all[b->root]; k != OCC_NONE; k = groups->all_next[k]) {
            bool meet = lives[m].first < lives[k].last && lives[k].first < lives[m].last;
            if (meet && fuse_overlap(lives[m].lo + up_a, lives[m].hi + up_a, lives[k].lo + up_b,
                                     lives[k].hi + up_b) > 0)
                return false;
        }
    return true;
}

/* Drops inputs until the remaining ones are compatible; the inputs of a body are dropped
 * together. */
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

/* --- moving --- */

static void fuse_move(groups_state *groups, uint32_t root, uint64_t shift) {
    for (uint32_t m = groups->all[root]; m != OCC_NONE && shift != 0; m = groups->all_next[m]) {
        occ_life *life = &groups->occ->lives[m];
        life->delta += shift;
        life->lo += shift;
        life->hi += shift;
    }
    if (groups->base[root] != TN_SIZE_UNKNOWN && groups->base[root] >= shift)
        groups->base[root] -= shift;
}

static uint32_t fuse_tail(const uint32_t *next, uint32_t head) {
    while (next[head] != OCC_NONE) head = next[head];
    return head;
}

/* Members of the smaller body get the larger one's root. */
static void fuse_unite(groups_state *groups, uint32_t a, uint32_t b) {
    uint32_t root = groups->size[a] >= groups->size[b] ? a : b, gone = root == a ? b : a;
    for (uint32_t m = groups->all[gone]; m != OCC_NONE; m = groups->all_next[m])
        groups->occ->lives[m].root = root;
    groups->all_next[fuse_tail(groups->all_next, groups->all[gone])] = groups->all[root];
    groups->all[root] = groups->all[gone];
    if (groups->head[gone] != OCC_NONE) {
        groups->next[fuse_tail(groups->next, groups->head[gone])] = groups->head[root];
        groups->head[root] = groups->head[gone];
    }
    groups->size[root] += groups->size[gone];
    if (groups->begin[gone] < groups->begin[root]) groups->begin[root] = groups->begin[gone];
    if (groups->base[root] == TN_SIZE_UNKNOWN) groups->base[root] = groups->base[gone];
}

static void fuse_all(fuse_join *join, uint32_t id) {
    groups_state *groups = join->groups;
    occ_life *lives = groups->occ->lives;
    uint32_t first = OCC_NONE;
    fuse_move(groups, id, join->start);
    for (uint32_t i = 0; i < join->count; i++) {
        const fuse_input *input = &join->inputs[i];
        if (!input->joins) continue;
        if (first == OCC_NONE) first = input->life;
        if (lives[input->life].root == lives[id].root) continue; /* moved already */
        fuse_move(groups, input->root, fuse_shift(join, input));
        fuse_unite(groups, input->root, lives[id].root);
    }
    if (first == OCC_NONE) return;
    lives[id].share = TN_SHARE_FUSED;
    lives[id].taken = first;
}

/* --- entry points --- */

/* Concatenations join if the option asks for it and nothing runs concurrently. Buckets always
 * join, because they exist for this purpose. */
static bool fuse_wants(const groups_state *groups, uint32_t id) {
    const occ_state *occ = groups->occ;
    const occ_life *life = &occ->lives[id];
    if (life->op == TN_NONE || life->output != 0 || life->bytes == 0) return false;
    if (tn_graph_op(occ->graph, life->op)->input_count > FUSE_INPUTS_MAX) return false;
    if (tn__op_has(occ->graph, life->op, TN_RULE_SPACED))
        return occ->options.inplace != TN_INPLACE_NONE;
    return occ->options.fuse_concat && occ->happens == NULL && tn_op_joins(occ->graph, life->op) &&
           groups->changed[id] <= life->first;
}

void tn__groups_fuse(groups_state *groups, uint32_t id) {
    const occ_state *occ = groups->occ;
    const occ_life *life = &occ->lives[id];
    if (!fuse_wants(groups, id)) return;
    const tn_op *op = tn_graph_op(occ->graph, life->op);
    fuse_join join = {.groups = groups, .output = life};
    bool bucket = tn__op_has(occ->graph, life->op, TN_RULE_SPACED);
    uint64_t at = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t input = tn__groups_life_at(occ, op->inputs[i], life->first);
        if (input != OCC_NONE) {
            fuse_input *next = &join.inputs[join.count++];
            *next = (fuse_input){.life = input, .root = occ->lives[input].root, .at = at};
            next->joins = tn__op_holds_input(occ->graph, life->op, i) &&
                          fuse_may_join(&join, next) && (!bucket || fuse_suits_bucket(&join, next));
        }
        at = tn__add_sat(at, tn__op_input_room(occ->graph, life->op, i));
    }
    fuse_obey_claims(&join);
    fuse_agree(&join);
    fuse_outliving(&join);
    fuse_set_start(&join);
    fuse_resolve(&join);
    fuse_set_start(&join);
    fuse_all(&join, id);
}
