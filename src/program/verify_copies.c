/* verify_copies.c - checks data outside the arena: buffers of the host pool, encoded forms,
 * files.
 *
 * A host buffer holds the tensor that was last swapped out to it. The tensor may return several
 * times, until it is changed. A static tensor may begin and end in host memory, where its first
 * swap brings it in; every other tensor that is swapped out must return. Tensors that are
 * fetched from a file are constant, so they may be released and fetched at any time.
 */
#include "program/verify_walk.h"

/* --- the host pool --- */

static walk_host *copies_host(walk_state *walk, const tn_instruction *it) {
    return &walk->hosts[it->slot == 0 ? it->tensor : walk->verify->tensor_count + it->slot];
}

static tn_status copies_wait(const walk_state *walk, uint32_t first, uint32_t step) {
    const verify_state *verify = walk->verify;
    if (tn__verify_is_over(verify, first, step)) return TN_OK;
    VERIFY_FAIL(verify, step, verify->instructions[step].tensor,
                "instruction %u (%s, stream %u) uses the same buffer of the host and may not be "
                "over: wait for a signal of it",
                first, tn_opcode_name(verify->instructions[first].opcode),
                verify->instructions[first].stream);
}

static const char *copies_name(const walk_state *walk, tn_tensor_id tensor) {
    return tensor == TN_NONE ? "nothing" : tn_graph_tensor(walk->verify->graph, tensor)->name;
}

static tn_status copies_out(walk_state *walk, uint32_t step) {
    const tn_instruction *it = &walk->verify->instructions[step];
    walk_host *host = copies_host(walk, it);
    if (host->pending)
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "its buffer of the host still has '%.60s', which instruction %u swapped out "
                    "and nothing swapped in",
                    copies_name(walk, host->tensor), host->writer);
    TN_TRY(copies_wait(walk, host->writer, step));
    for (uint32_t at = host->readers; at != VERIFY_NONE; at = walk->touches[at].next)
        TN_TRY(copies_wait(walk, walk->touches[at].what, step));
    *host = (walk_host){.tensor = it->tensor,
                        .contents = tn__walk_contents(walk, it->tensor),
                        .writer = step,
                        .readers = VERIFY_NONE,
                        .pending =
                            !tn_tensor_is_static(tn_graph_tensor(walk->verify->graph, it->tensor))};
    return TN_OK;
}

static tn_status copies_in(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    walk_host *host = copies_host(walk, it);
    if (host->tensor != it->tensor)
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "its buffer of the host has %s%.60s: swap it out there before this",
                    host->tensor == TN_NONE ? "" : "tensor ", copies_name(walk, host->tensor));
    TN_TRY(copies_wait(walk, host->writer, step));
    if (!walk->tensors[it->tensor].here && host->contents != tn__walk_contents(walk, it->tensor))
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "it has changed since the host's copy was made: swap it out again");
    *contents = host->contents;
    host->pending = false;
    return tn__walk_touch(walk, &host->readers, step);
}

/* --- encoded forms --- */

static tn_status copies_encode(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    *contents = ++walk->contents;
    walk->forms[it->other] = (walk_form){.of = it->tensor,
                                         .codec = it->codec,
                                         .contents = tn__walk_contents(walk, it->tensor),
                                         .itself = *contents,
                                         .received = VERIFY_NONE};
    return TN_OK;
}

static tn_status copies_decode(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    const walk_form *form = &walk->forms[it->other];
    uint32_t itself = tn__walk_contents(walk, it->other);
    if (form->received == itself) return TN_OK; /* from another rank, or static */
    if (form->itself != itself)
        VERIFY_FAIL(walk->verify, step, it->other,
                    "it is not an encoded form: ENCODE '%.60s' into it, or RECV it",
                    copies_name(walk, it->tensor));
    if (form->of != it->tensor || form->codec != it->codec)
        VERIFY_FAIL(walk->verify, step, it->other, "it is '%.60s' by codec %s, not '%.60s' by %s",
                    copies_name(walk, form->of), tn_codec_name(form->codec),
                    copies_name(walk, it->tensor), tn_codec_name(it->codec));
    if (!walk->tensors[it->tensor].here && form->contents != tn__walk_contents(walk, it->tensor))
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "it has changed since it was encoded: encode it again");
    *contents = form->contents;
    return TN_OK;
}

tn_status tn__walk_check_form(walk_state *walk, tn_tensor_id tensor, uint32_t step) {
    const verify_state *verify = walk->verify;
    const walk_tensor *it = &walk->tensors[tensor];
    if (it->definer == VERIFY_NONE || verify->instructions[it->definer].opcode != TN_ENCODE ||
        it->readers != VERIFY_NONE)
        return TN_OK;
    VERIFY_FAIL(verify, step, tensor,
                "instruction %u encoded it and nothing read it: DECODE it, or do not ENCODE",
                it->definer);
}

/* --- files --- */

/* A fetch restores the original contents of the tensor, because its file never changes. */
static tn_status copies_fetch(const walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    if (!tn_tensor_is_constant(tn_graph_tensor(walk->verify->graph, it->tensor)))
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "it is not constant: no file has what it is now");
    if (walk->tensors[it->tensor].away)
        VERIFY_FAIL(walk->verify, step, it->tensor,
                    "it begins in the host's memory: swap it in there, or fetch it everywhere");
    *contents = WALK_FIRST;
    return TN_OK;
}

/* A tensor with a FETCH anywhere is not in memory when the program starts. */
static void copies_stored(walk_state *walk) {
    const verify_state *verify = walk->verify;
    for (uint32_t step = 0; step < verify->count; step++) {
        const tn_instruction *it = &verify->instructions[step];
        if (tn_opcode_facts_of(it->opcode)->link != TN_LINK_FROM_STORAGE) continue;
        walk_tensor *tensor = &walk->tensors[it->tensor];
        if (!tensor->here) continue; /* visited, or not static: its FETCH is refused */
        tensor->stored = true;
        tensor->here = tensor->known = false;
    }
}

/* --- parts, and all instructions --- */

/* Parts form a whole: one tensor is a multiple of the other. */
static tn_status copies_parts(walk_state *walk, uint32_t step) {
    const tn_instruction *it = &walk->verify->instructions[step];
    if (it->other == TN_NONE) return TN_OK;
    uint64_t a = tn_graph_tensor(walk->verify->graph, it->tensor)->bytes;
    uint64_t b = tn_graph_tensor(walk->verify->graph, it->other)->bytes;
    uint64_t part = it->opcode == TN_GATHER ? a : b, whole = it->opcode == TN_GATHER ? b : a;
    if (a == TN_SIZE_UNKNOWN || b == TN_SIZE_UNKNOWN || (part > 0 && whole % part == 0))
        return TN_OK;
    VERIFY_FAIL(walk->verify, step, it->other, "%llu bytes are not a whole number of parts of %llu",
                (unsigned long long)whole, (unsigned long long)part);
}

/* Equal parts give an equal whole, because all ranks take part and no rank has changed its own
 * part. */
static void copies_gather(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    walk_tensor *whole = &walk->tensors[it->other];
    const tn_instruction *was =
        whole->definer != VERIFY_NONE ? &walk->verify->instructions[whole->definer] : NULL;
    uint32_t part = tn__walk_contents(walk, it->tensor);
    bool again = was != NULL && was->opcode == TN_GATHER && was->tensor == it->tensor &&
                 was->other == it->other && was->group == it->group && whole->part == part &&
                 walk->memories[whole->memory].changes == whole->born;
    if (!again) whole->made = ++walk->contents;
    whole->part = part;
    *contents = whole->made;
}

tn_status tn__walk_copy(walk_state *walk, uint32_t step, uint32_t *contents) {
    const tn_instruction *it = &walk->verify->instructions[step];
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    if (facts->flags & TN_USES_SLOT)
        return facts->link == TN_LINK_TO_HOST ? copies_out(walk, step)
                                              : copies_in(walk, step, contents);
    if (facts->flags & TN_USES_CODEC)
        return facts->defines == TN_AFFECTS_OTHER ? copies_encode(walk, step, contents)
                                                  : copies_decode(walk, step, contents);
    if (it->opcode == TN_GATHER && it->other != TN_NONE) copies_gather(walk, step, contents);
    if (facts->flags & TN_MAY_CHANGE) return copies_parts(walk, step);
    const walk_tensor *tensor = facts->link == TN_LINK_NONE ? NULL : &walk->tensors[it->tensor];
    if (facts->link == TN_LINK_FROM_HOST && tensor->known &&
        walk->memories[tensor->memory].changes == tensor->born)
        *contents = tensor->contents; /* the caller passes the same contents again */
    if (facts->link == TN_LINK_FROM_STORAGE) return copies_fetch(walk, step, contents);
    if (facts->link == TN_LINK_FROM_PEER && walk->forms != NULL)
        walk->forms[it->tensor].received = *contents = ++walk->contents;
    return TN_OK;
}

/* --- begin and end of the program --- */

/* A static tensor that is swapped in before it is swapped out is in host memory when the program
 * starts. */
static void copies_away(walk_state *walk) {
    const verify_state *verify = walk->verify;
    for (uint32_t step = verify->count; step-- > 0;) {
        const tn_instruction *it = &verify->instructions[step];
        const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
        if (!(facts->flags & TN_USES_SLOT)) continue;
        walk_tensor *tensor = &walk->tensors[it->tensor];
        if (tensor->here || tensor->away) /* static: the first swap in the list decides */
            tensor->away = facts->link == TN_LINK_FROM_HOST && it->slot == 0;
        if (tensor->known) tensor->here = !tensor->away;
    }
    for (uint32_t i = 0; i < verify->tensor_count; i++) {
        if (!walk->tensors[i].away) continue;
        walk->tensors[i].known = false;
        walk->hosts[i].tensor = i;
        walk->hosts[i].contents = WALK_FIRST;
    }
}

tn_status tn__walk_copies_begin(walk_state *walk) {
    verify_state *verify = walk->verify;
    uint32_t uses = 0;
    copies_stored(walk);
    for (uint32_t step = 0; step < verify->count; step++)
        uses |= tn_opcode_facts_of(verify->instructions[step].opcode)->flags;
    if (uses & TN_USES_CODEC) {
        walk->forms = tn__arena_array(&verify->arena, verify->tensor_count, sizeof *walk->forms);
        if (walk->forms == NULL) return tn__verify_no_memory(verify);
        for (uint32_t i = 0; i < verify->tensor_count; i++)
            walk->forms[i] =
                (walk_form){.itself = VERIFY_NONE,
                            .received = walk->tensors[i].here ? WALK_FIRST : VERIFY_NONE};
    }
    if (!(uses & TN_USES_SLOT)) return TN_OK;
    size_t hosts = (size_t)verify->tensor_count + verify->count + 1;
    walk->hosts = tn__arena_array(&verify->arena, hosts, sizeof *walk->hosts);
    if (walk->hosts == NULL) return tn__verify_no_memory(verify);
    for (size_t i = 0; i < hosts; i++)
        walk->hosts[i] =
            (walk_host){.tensor = TN_NONE, .writer = VERIFY_NONE, .readers = VERIFY_NONE};
    copies_away(walk);
    return TN_OK;
}

#define COPIES_FAIL(walk, tensor, ...)                                                             \
    return tn__where((walk)->verify->error,                                                        \
                     tn__fail((walk)->verify->error, TN_E_INVALID, __VA_ARGS__), "tensor '%.80s'", \
                     copies_name(walk, tensor))

tn_status tn__walk_copies_end(walk_state *walk) {
    const verify_state *verify = walk->verify;
    for (uint32_t i = 0; i < verify->tensor_count; i++) {
        const walk_tensor *it = &walk->tensors[i];
        bool fixed = tn_tensor_is_static(tn_graph_tensor(verify->graph, i));
        if (fixed && !it->away && !it->stored && !it->here)
            COPIES_FAIL(walk, i, "it is there when the program starts, and not when it ends");
        if (it->away && (it->here || walk->hosts[i].contents != tn__walk_contents(walk, i)))
            COPIES_FAIL(walk, i,
                        "it begins in the host's memory, and does not end there: swap it out");
        if (it->here && it->known) TN_TRY(tn__walk_check_form(walk, i, verify->count - 1));
    }
    size_t hosts = walk->hosts == NULL ? 0 : (size_t)verify->tensor_count + verify->count + 1;
    for (size_t i = 0; i < hosts; i++)
        if (walk->hosts[i].pending)
            VERIFY_FAIL(verify, walk->hosts[i].writer, walk->hosts[i].tensor,
                        "it never comes back: DROP it, or SWAP_IN it where it is needed");
    return TN_OK;
}
