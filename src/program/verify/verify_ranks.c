/* verify_ranks.c - checks messages and collectives, within one program and across all ranks.
 *
 * In one program, messages that a receiver could not distinguish must keep their order, and so must
 * the calls of a group. With the programs of all ranks, the k-th SEND from one rank to another with
 * a tag matches the k-th RECV there, and the k-th call of a group matches the k-th call of all
 * members. Then the ranks are simulated. Each instruction runs as soon as its stream, signals and
 * caller allow; a message or a collective runs when all participants have reached it. An
 * instruction that is left at the end would deadlock.
 *
 * Cost: O(n + m log m) for n instructions, m of which communicate.
 */
#include "program/verify/verify.h"

#include <stdio.h>

typedef struct message {
    /* true: a call of a group of ranks (a collective); false: a message from one rank to another */
    bool group;
    uint32_t a, b; /* of a message: sender and receiver; of a collective: the group, and 0 */
    uint32_t tag;  /* tag of a message */
    /* for a message: 0 if it is sent, 1 if it is received; for a collective: the rank */
    uint32_t side;
    uint32_t rank, step;
    /* next participant in the same transfer (a message, or a call of a group), or VERIFY_NONE */
    uint32_t next;
    uint32_t meeting; /* index of the first participant in the same transfer */
    /* valid in the first participant: number of participants that have not arrived */
    uint32_t missing;
} message;

/* Compares the keys of two messages or collectives; returns 0 if they can match. */
static int message_compare(const message *x, const message *y) {
    if (x->group != y->group) return x->group ? 1 : -1;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    if (x->b != y->b) return x->b < y->b ? -1 : 1;
    return (x->tag > y->tag) - (x->tag < y->tag);
}

static int message_order(const void *a, const void *b) {
    const message *x = a, *y = b;
    int key = message_compare(x, y);
    if (key != 0) return key;
    if (x->side != y->side) return x->side < y->side ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* Appends the messages and collectives of one program to the list. */
static void message_collect(const verify_state *verify, uint32_t rank, message *list,
                            size_t *count) {
    for (uint32_t step = 0; step < verify->count; step++) {
        const tn_instruction *it = &verify->instructions[step];
        if (!tn__instruction_talks(it)) continue;
        bool group = tn_opcode_facts_of(it->opcode)->blocks == TN_BLOCKS_GROUP;
        bool sends = tn_opcode_facts_of(it->opcode)->link == TN_LINK_TO_PEER;
        list[(*count)++] = (message){.group = group,
                                     .a = group   ? it->group
                                          : sends ? rank
                                                  : it->peer,
                                     .b = group   ? 0
                                          : sends ? it->peer
                                                  : rank,
                                     .tag = it->tag,
                                     .side = group ? rank : !sends,
                                     .rank = rank,
                                     .step = step,
                                     .next = VERIFY_NONE};
    }
}

static size_t message_count(const verify_state *verify) {
    size_t count = 0;
    for (uint32_t step = 0; step < verify->count; step++)
        count += tn__instruction_talks(&verify->instructions[step]);
    return count;
}

tn_status tn__verify_messages(verify_state *verify) {
    size_t count = message_count(verify), found = 0;
    if (count == 0) return TN_OK;
    message *list = tn__arena_array(&verify->arena, count, sizeof *list);
    if (list == NULL) return tn__verify_no_memory(verify);
    /* if there is only one program, its rank is unknown: a number is taken that no other rank
     * has */
    uint32_t self = verify->rank != VERIFY_NONE ? verify->rank : UINT32_MAX - 1;
    message_collect(verify, self, list, &found);
    qsort(list, count, sizeof *list, message_order);
    for (size_t i = 1; i < count; i++)
        if (message_compare(&list[i], &list[i - 1]) == 0 && list[i].side == list[i - 1].side &&
            !tn__verify_is_over(verify, list[i - 1].step, list[i].step))
            VERIFY_FAIL(
                verify, list[i].step, verify->instructions[list[i].step].tensor,
                "instruction %u talks to the same %s and may not be over: other ranks could "
                "not tell the two apart",
                list[i - 1].step, list[i].group ? "group" : "rank with the same tag");
    return TN_OK;
}

/* --- matching --- */

typedef struct ranks_state {
    verify_state *ranks; /* [count] the checks of the ranks, each of which has passed alone */
    uint32_t count;
    tn_error *error;
    tn__arena *arena;
    message *messages;
    size_t message_count;
} ranks_state;

static const tn_instruction *ranks_at(const ranks_state *all, const message *one) {
    return &all->ranks[one->rank].instructions[one->step];
}

static uint64_t ranks_bytes(const ranks_state *all, const message *one) {
    const tn_instruction *it = ranks_at(all, one);
    uint64_t bytes = tn_graph_tensor(all->ranks[one->rank].graph, it->tensor)->bytes;
    return it->parts > 0 ? bytes / it->parts : bytes;
}

static const char *ranks_name(const ranks_state *all, const message *one) {
    return tn_graph_tensor(all->ranks[one->rank].graph, ranks_at(all, one)->tensor)->name;
}

#define RANKS_FAIL(all, one, ...)                                                                  \
    VERIFY_FAIL(&(all)->ranks[(one)->rank], (one)->step, ranks_at(all, one)->tensor, __VA_ARGS__)

static void ranks_meet(ranks_state *all, size_t first, size_t other) {
    all->messages[other].meeting = (uint32_t)first;
    all->messages[other].next = all->messages[first].next;
    all->messages[first].next = (uint32_t)other;
    all->messages[first].missing++;
}

/* Matches the sends [first, middle) with the receives [middle, last): all messages with one tag
 * from one rank to another. */
static tn_status ranks_messages(ranks_state *all, size_t first, size_t last) {
    size_t middle = first;
    while (middle < last && all->messages[middle].side == 0) middle++;
    for (size_t i = 0; first + i < middle || middle + i < last; i++) {
        const message *sends = &all->messages[first + i], *takes = &all->messages[middle + i];
        if (middle + i >= last)
            RANKS_FAIL(all, sends, "rank %u has no RECV from rank %u with tag %u for it", sends->b,
                       sends->a, sends->tag);
        if (first + i >= middle)
            RANKS_FAIL(all, takes, "rank %u has no SEND to rank %u with tag %u for it", takes->a,
                       takes->b, takes->tag);
        if (ranks_bytes(all, sends) != ranks_bytes(all, takes))
            RANKS_FAIL(all, sends, "%llu bytes, and '%.60s' of rank %u has room for %llu",
                       (unsigned long long)ranks_bytes(all, sends), ranks_name(all, takes),
                       takes->rank, (unsigned long long)ranks_bytes(all, takes));
        all->messages[first + i].meeting = (uint32_t)(first + i);
        all->messages[first + i].missing = 1;
        ranks_meet(all, first + i, middle + i);
    }
    return TN_OK;
}

/* Checks that a GATHER of parts has one member in its group for each part. */
static tn_status ranks_brought(const ranks_state *all, size_t first, size_t last, size_t members) {
    for (size_t i = first; i < last; i++) {
        const message *one = &all->messages[i];
        uint32_t parts = all->ranks[one->rank].brings[one->step];
        if (parts > 0 && parts != members)
            RANKS_FAIL(all, one, "one of %u parts has come, and %zu ranks call group %u for it",
                       parts, members, one->a);
    }
    return TN_OK;
}

/* Matches the calls [first, last) of one group, which are sorted by rank. Each rank must make the
 * calls that the first rank makes. */
static tn_status ranks_group(ranks_state *all, size_t first, size_t last) {
    size_t calls = 0, members = 0;
    while (first + calls < last && all->messages[first + calls].side == all->messages[first].side) {
        all->messages[first + calls].meeting = (uint32_t)(first + calls);
        all->messages[first + calls].missing = 1;
        calls++;
    }
    for (size_t at = first, k; at < last; at += k, members++) {
        const message *lead = &all->messages[first];
        for (k = 0; at + k < last && all->messages[at + k].side == all->messages[at].side; k++) {
            const message *one = &all->messages[at + k];
            const tn_instruction *mine = ranks_at(all, one), *its = ranks_at(all, lead + k);
            if (k >= calls)
                RANKS_FAIL(all, one, "rank %u has no such call of group %u", lead->rank, one->a);
            if (mine->opcode != its->opcode || mine->reduction != its->reduction ||
                ranks_bytes(all, one) != ranks_bytes(all, lead + k))
                RANKS_FAIL(
                    all, one,
                    "rank %u calls group %u for %s of '%.40s' (%llu bytes) in its turn, this "
                    "has %llu",
                    lead->rank, one->a, tn_opcode_name(its->opcode), ranks_name(all, lead + k),
                    (unsigned long long)ranks_bytes(all, lead + k),
                    (unsigned long long)ranks_bytes(all, one));
            if (at > first) ranks_meet(all, first + k, at + k);
        }
        if (k < calls)
            RANKS_FAIL(all, lead + k, "rank %u has no such call of group %u",
                       all->messages[at].rank, lead->a);
    }
    if (all->messages[first].a == 0 && members < all->count)
        RANKS_FAIL(all, &all->messages[first], "%zu of %u ranks call group 0, which is all of them",
                   members, all->count);
    return ranks_brought(all, first, last, members);
}

static tn_status ranks_pair(ranks_state *all) {
    qsort(all->messages, all->message_count, sizeof *all->messages, message_order);
    for (size_t first = 0, last; first < all->message_count; first = last) {
        for (last = first + 1; last < all->message_count; last++)
            if (message_compare(&all->messages[first], &all->messages[last]) != 0) break;
        const message *one = &all->messages[first];
        if (!one->group && (one->a >= all->count || one->b >= all->count))
            RANKS_FAIL(all, one, "there is no rank %u: the programs of %u are given",
                       one->a >= all->count ? one->a : one->b, all->count);
        TN_TRY(one->group ? ranks_group(all, first, last) : ranks_messages(all, first, last));
    }
    return TN_OK;
}

/* --- simulation --- */

typedef struct play_step {
    uint32_t waits_for;     /* number of steps that must run before this one and have not run yet */
    uint32_t next;          /* next step on the same stream */
    uint32_t next_of_calls; /* next step with the same opcode, if this opcode blocks the caller */
    uint32_t waiters, next_waiter;
    /* list of the steps of other streams that follow this step of stream 0 in the program */
    uint32_t behind, next_behind;
    uint32_t message; /* index of the message or collective of this step, or VERIFY_NONE */
    bool over;
} play_step;

typedef struct play_state {
    const ranks_state *all;
    play_step *steps; /* the steps of all ranks, rank after rank */
    size_t *base;     /* [ranks + 1] where the steps of each rank begin */
    size_t *ready;    /* steps that may run, because all of their predecessors have run */
    size_t ready_count;
} play_state;

static void play_let(play_state *play, size_t base, uint32_t step) {
    if (step != VERIFY_NONE && --play->steps[base + step].waits_for == 0)
        play->ready[play->ready_count++] = base + step;
}

static void play_finish(play_state *play, uint32_t rank, uint32_t step) {
    size_t base = play->base[rank];
    play_step *it = &play->steps[base + step];
    it->over = true;
    play_let(play, base, it->next);
    play_let(play, base, it->next_of_calls);
    for (uint32_t w = it->waiters; w != VERIFY_NONE; w = play->steps[base + w].next_waiter)
        play_let(play, base, w);
    for (uint32_t b = it->behind; b != VERIFY_NONE; b = play->steps[base + b].next_behind)
        play_let(play, base, b);
}

/* Called when a participant of a transfer has arrived; after the last one, all participants may
 * run. */
static void play_arrive(play_state *play, uint32_t index) {
    message *messages = play->all->messages;
    uint32_t first = messages[index].meeting;
    if (messages[first].missing-- > 1) return;
    for (uint32_t at = first; at != VERIFY_NONE; at = messages[at].next)
        play_finish(play, messages[at].rank, messages[at].step);
}

/* Links the steps of one rank. The thread that walks the list runs stream 0 itself, and starts the
 * steps of other streams when it comes to them. So no step that follows a WAIT of stream 0 in the
 * list starts before that WAIT is over. */
static void play_link(play_state *play, uint32_t rank) {
    const verify_state *verify = &play->all->ranks[rank];
    play_step *steps = play->steps + play->base[rank];
    uint32_t last[TN_STREAM_MAX], calls[TN_OPCODE_COUNT];
    memset(last, 0xff, sizeof last);
    memset(calls, 0xff, sizeof calls);
    for (uint32_t s = 0; s < verify->count; s++) {
        const tn_instruction *it = &verify->instructions[s];
        uint32_t from = verify->waited[s];
        steps[s] = (play_step){.next = VERIFY_NONE,
                               .next_of_calls = VERIFY_NONE,
                               .waiters = VERIFY_NONE,
                               .behind = VERIFY_NONE,
                               .message = VERIFY_NONE};
        if (it->stream != 0 && last[0] != VERIFY_NONE) {
            steps[s].next_behind = steps[last[0]].behind;
            steps[last[0]].behind = s;
            steps[s].waits_for++;
        }
        if (last[it->stream] != VERIFY_NONE) steps[last[it->stream]].next = s, steps[s].waits_for++;
        last[it->stream] = s;
        if (from != VERIFY_NONE) {
            steps[s].next_waiter = steps[from].waiters;
            steps[from].waiters = s;
            steps[s].waits_for++;
        }
        if (tn_opcode_facts_of(it->opcode)->blocks != TN_BLOCKS_CALLER) continue;
        if (calls[it->opcode] != VERIFY_NONE)
            steps[calls[it->opcode]].next_of_calls = s, steps[s].waits_for++;
        calls[it->opcode] = s;
    }
}

/* Reports a deadlock, if there is one: the first two instructions that have arrived and still wait
 * for other ranks. */
static tn_status play_stuck(const play_state *play) {
    const ranks_state *all = play->all;
    const message *stuck[2] = {NULL, NULL};
    for (size_t i = 0; i < all->message_count; i++) {
        const message *one = &all->messages[i];
        const play_step *step = &play->steps[play->base[one->rank] + one->step];
        if (step->over || step->waits_for > 0) continue;
        if (stuck[0] == NULL)
            stuck[0] = one;
        else if (stuck[1] == NULL || stuck[1]->rank == stuck[0]->rank)
            stuck[1] = one;
    }
    if (stuck[0] == NULL) return TN_OK;
    if (stuck[1] == NULL) RANKS_FAIL(all, stuck[0], "it waits for ever: nobody can come to it");
    RANKS_FAIL(all, stuck[0],
               "it waits for ever, and so does instruction %u (%s '%.60s') of rank %u: each for "
               "what comes after the other",
               stuck[1]->step, tn_opcode_name(ranks_at(all, stuck[1])->opcode),
               ranks_name(all, stuck[1]), stuck[1]->rank);
}

static tn_status ranks_play(ranks_state *all) {
    play_state play = {.all = all};
    play.base = tn__arena_array(all->arena, (size_t)all->count + 1, sizeof *play.base);
    if (play.base == NULL) return tn__no_memory(all->error, "the check of ranks");
    for (uint32_t r = 0; r < all->count; r++) play.base[r + 1] = play.base[r] + all->ranks[r].count;
    size_t steps = play.base[all->count];
    play.steps = tn__arena_array(all->arena, steps, sizeof *play.steps);
    play.ready = tn__arena_array(all->arena, steps, sizeof *play.ready);
    if (play.steps == NULL || play.ready == NULL)
        return tn__no_memory(all->error, "the check of ranks");
    for (uint32_t r = 0; r < all->count; r++) play_link(&play, r);
    for (size_t i = 0; i < all->message_count; i++)
        play.steps[play.base[all->messages[i].rank] + all->messages[i].step].message = (uint32_t)i;
    for (size_t i = 0; i < steps; i++)
        if (play.steps[i].waits_for == 0) play.ready[play.ready_count++] = i;
    for (size_t at = 0; at < play.ready_count; at++) {
        size_t i = play.ready[at];
        uint32_t rank = 0, high = all->count;
        while (high - rank > 1) {
            uint32_t middle = rank + (high - rank) / 2;
            if (play.base[middle] <= i)
                rank = middle;
            else
                high = middle;
        }
        if (play.steps[i].message != VERIFY_NONE)
            play_arrive(&play, play.steps[i].message);
        else
            play_finish(&play, rank, (uint32_t)(i - play.base[rank]));
    }
    return play_stuck(&play);
}

static tn_status ranks_run(ranks_state *all, const tn_program *const *programs) {
    size_t message_count_all = 0;
    for (uint32_t r = 0; r < all->count; r++) {
        tn__verify_begin(&all->ranks[r], programs[r], r, all->error);
        TN_TRY(tn__verify_program(&all->ranks[r]));
        message_count_all += message_count(&all->ranks[r]);
    }
    if (message_count_all >= VERIFY_NONE)
        TN_FAIL(all->error, TN_E_INVALID, "more than 2^32 messages");
    all->messages = tn__arena_array(all->arena, message_count_all, sizeof *all->messages);
    if (all->messages == NULL) return tn__no_memory(all->error, "the check of ranks");
    for (uint32_t r = 0; r < all->count; r++)
        message_collect(&all->ranks[r], r, all->messages, &all->message_count);
    if (all->message_count == 0) return TN_OK;
    TN_TRY(ranks_pair(all));
    return ranks_play(all);
}

tn_status tn_programs_verify(const tn_program *const *programs, uint32_t count, tn_error *error) {
    if (count == 0) return TN_OK;
    tn__arena arena;
    tn__arena_init(&arena, &programs[0]->context);
    ranks_state all = {.count = count, .error = error, .arena = &arena};
    all.ranks = tn__arena_array(&arena, count, sizeof *all.ranks);
    tn_status status =
        all.ranks != NULL ? ranks_run(&all, programs) : tn__no_memory(error, "the check of ranks");
    for (uint32_t r = 0; all.ranks != NULL && r < count; r++)
        if (all.ranks[r].program != NULL) tn__arena_release(&all.ranks[r].arena);
    tn__arena_release(&arena);
    return status;
}
