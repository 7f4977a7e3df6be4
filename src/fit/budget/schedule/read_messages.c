/* read_messages.c - reads the communication of a rank as jobs that keep their place.
 *
 *     program   APPLY a   RECV x  SEND a   APPLY b   WAIT x   APPLY c   WAIT a   APPLY d
 *     jobs      a         [makes x, reads a]  b      [reads x]  c       [reads a]  d
 *
 * Consecutive instructions that run no operator form one job, which costs nothing and is not
 * repeated. The exception is a REDUCE or SCATTER on stream 0 that computes the result of an
 * operator (RankSum): it belongs to the operator's job, which a rule of the user may repeat. First
 * runs in such a program keep their order (answer.c sets this), and no other instruction is
 * inserted between the instructions of such a job. So all ranks communicate in the order of their
 * original programs, and each rank waits only for the messages for which it waited before, and for
 * its own operators. Therefore, if the programs of all ranks are valid together
 * (tn_programs_verify), they stay valid if each one is fitted to its budget separately.
 *
 * A message runs on a stream of its own and uses its values until stream 0 knows that it is
 * complete. The job at that point counts as a reader of the values. Until then a value may not be
 * evicted and restored; so it is made once and not copied, like a value that operators write in
 * place. A tensor that is defined several times (ranks assemble it again for each read) is a new
 * value each time. It ends after the program's reads of it, so its readers are not repeated. Cost:
 * that of the order of streams, and O(n log n) for n instructions and operands.
 */
#include "fit/budget/schedule/read.h"

#include "program/liveness/happens.h"
#include "program/program.h"

static bool messages_is(const tn_instruction *it) { return it->opcode != TN_APPLY; }

/* --- before the walk --- */

static tn_status messages_check(const tn__read_state *s) {
    for (uint32_t step = 0; step < tn_program_count(s->map->program); step++) {
        const tn_instruction *it = &s->instructions[step];
        bool knows = it->opcode == TN_PUT || it->opcode == TN_GET || it->opcode == TN_DROP ||
                     it->opcode == TN_WAIT || tn__instruction_talks(it);
        if (it->opcode == TN_APPLY) knows = it->stream == 0 && !it->again;
        if (!knows)
            TN_FAIL(s->error, TN_E_UNSUPPORTED,
                    "instruction %u (%s): a program of several ranks that a pass has made is not "
                    "fitted again",
                    step, tn_opcode_name(it->opcode));
    }
    if (tn_program_region_count(s->map->program) == 0) return TN_OK;
    TN_FAIL(s->error, TN_E_UNSUPPORTED,
            "a program of several ranks with control flow is not fitted behind what they say");
}

/* Marks the operators that wait for other streams or signal them, and the tensors that are defined
 * more than once. */
static void messages_mark(tn__read_state *s, bool *once) {
    for (uint32_t step = 0; step < tn_program_count(s->map->program); step++) {
        const tn_instruction *it = &s->instructions[step];
        tn_tensor_id made = tn_instruction_effects(it).defines;
        if (!messages_is(it)) {
            s->marked[it->op] |= it->wait != 0 || it->signal != 0;
        } else if (made != TN_NONE) {
            s->several[made] |= once[made];
            once[made] = true;
        }
    }
}

/* Returns the first instruction of stream 0 after which a message is known to be complete; TN_NONE
 * if there is no such instruction. `main` [count] has the steps of stream 0. */
static uint32_t messages_over(const tn__happens *happens, const uint32_t *main, uint32_t count,
                              uint32_t message) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (main[middle] > message && tn__happens_before(happens, message, main[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return low < count ? main[low] : TN_NONE;
}

static tn_status messages_due(tn__read_state *s) {
    uint32_t steps = tn_program_count(s->map->program), count = 0;
    tn__happens happens = {0};
    uint32_t *main = tn__arena_array(&s->scratch, (size_t)steps + 1, sizeof *main);
    if (main == NULL) return tn__read_no_memory(s);
    tn_status status =
        tn__happens_create(s->map->program, TN__BY_STREAMS, TN__HAPPENS_MAX, &happens, s->error);
    for (uint32_t step = 0; step < steps; step++) {
        s->due[step] = s->next_due[step] = TN_NONE;
        s->held[2 * step] = s->held[2 * step + 1] = TN_NONE;
        if (s->instructions[step].stream == 0) main[count++] = step;
    }
    for (uint32_t step = 0; step < steps && status == TN_OK; step++) {
        if (s->instructions[step].stream == 0) continue;
        uint32_t over = messages_over(&happens, main, count, step);
        uint32_t *link = over != TN_NONE ? &s->due[over] : &s->never;
        s->next_due[step] = *link;
        *link = step;
    }
    tn__happens_release(&happens);
    return status;
}

tn_status tn__read_messages(tn__read_state *s) {
    uint32_t steps = tn_program_count(s->map->program);
    size_t tensors = tn_graph_tensor_count(s->graph), ops = tn_graph_op_count(s->graph);
    for (uint32_t step = 0; step < steps && !s->communicates; step++)
        s->communicates = tn__instruction_talks(&s->instructions[step]);
    if (!s->communicates) return TN_OK;
    TN_TRY(messages_check(s));
    s->marked = tn__arena_array(&s->scratch, ops + 1, sizeof *s->marked);
    s->several = tn__arena_array(&s->scratch, tensors + 1, sizeof *s->several);
    s->due = tn__arena_array(&s->scratch, (size_t)steps + 1, sizeof *s->due);
    s->next_due = tn__arena_array(&s->scratch, (size_t)steps + 1, sizeof *s->next_due);
    s->held = tn__arena_array(&s->scratch, 2 * (size_t)steps + 2, sizeof *s->held);
    bool *once = tn__arena_array(&s->scratch, tensors + 1, sizeof *once);
    if (!s->marked || !s->several || !s->due || !s->next_due || !s->held || once == NULL)
        return tn__read_no_memory(s);
    s->never = TN_NONE;
    messages_mark(s, once);
    return messages_due(s);
}

/* --- on the walk --- */

tn_status tn__read_held(tn__read_state *s, uint32_t first, uint32_t last, uint32_t below,
                        uint32_t *count) {
    for (uint32_t step = first; s->communicates && step < last; step++)
        for (uint32_t m = s->due[step]; m != TN_NONE; m = s->next_due[m])
            /* a job does not read the values from `below` on, because they are its own outputs */
            for (uint32_t k = 0; k < 2; k++)
                if (s->held[2 * m + k] < below) TN_TRY(tn__read_add(s, s->held[2 * m + k], count));
    return TN_OK;
}

/* Records that a message uses the value of a tensor until the message is complete, so that the
 * value may not be evicted. */
static void messages_hold(tn__read_state *s, uint32_t step, uint32_t which, tn_tensor_id id) {
    uint32_t value = id != TN_NONE ? s->map->value[id] : TN_NONE;
    if (value == TN_NONE) return;
    s->stays[value] = true;
    s->held[2 * step + which] = value;
}

/* Reads one instruction of a job of messages (communication with other ranks). Values numbered
 * `below` or higher are made by this job. */
static tn_status messages_one(tn__read_state *s, uint32_t step, uint32_t below, uint32_t *inputs) {
    const tn_instruction *it = &s->instructions[step];
    tn_effects does = tn_instruction_effects(it);
    tn_tensor_id of = does.reads != TN_NONE ? does.reads : does.changes;
    if (of != TN_NONE) {
        TN_TRY(tn__read_note(s, of));
        if (s->map->value[of] < below) TN_TRY(tn__read_add(s, s->map->value[of], inputs));
        messages_hold(s, step, 0, of);
    }
    if (does.defines == TN_NONE || tn__read_is_static(s, does.defines)) return TN_OK;
    TN_TRY(tn__read_new_value(s, does.defines));
    s->map->is_view[does.defines] = false;
    messages_hold(s, step, 1, does.defines);
    return TN_OK;
}

tn_status tn__read_message_job(tn__read_state *s, uint32_t step, uint32_t *next) {
    uint32_t id = s->job_count++, below = s->value_count, last = step;
    tn__job *job = &s->jobs[id].job;
    tn__dag_map *map = s->map;
    *job = (tn__job){.op = TN_NONE, .inplace = TN_NONE};
    map->first[id] = step;
    map->read_first[id] = (uint32_t)s->reads.count;
    s->places[id].inputs = tn__read_begin_list(s);
    for (; last < tn_program_count(map->program) && messages_is(&s->instructions[last]); last++) {
        /* a SCATTER that computes the result of an operator is a job of its own */
        if (last > step && tn__read_is_combined(s, last)) break;
        TN_TRY(messages_one(s, last, below, &job->input_count));
    }
    TN_TRY(tn__read_held(s, step, last, below, &job->input_count));
    map->last[id] = *next = last;
    map->read_count[id] = (uint32_t)s->reads.count - map->read_first[id];
    s->places[id].outputs = tn__read_begin_list(s);
    for (uint32_t value = below; value < s->value_count; value++)
        TN_TRY(tn__read_add(s, value, &job->output_count));
    return TN_OK;
}

/* --- after the walk --- */

/* Ends the use of values by messages, after all jobs are added. If no step knows that a message is
 * complete, its values are live at the end of the program. A view of memory that is received
 * several times belongs to the last value of that memory. */
void tn__read_messages_end(tn__read_state *s) {
    tn__dag_map *map = s->map;
    for (uint32_t m = s->communicates ? s->never : TN_NONE; m != TN_NONE; m = s->next_due[m])
        for (uint32_t k = 0; k < 2; k++)
            if (s->held[2 * m + k] != TN_NONE)
                s->values[s->held[2 * m + k]].flags |= TN__VALUE_KEPT;
    for (uint32_t t = 0; s->communicates && t < tn_graph_tensor_count(s->graph); t++)
        if (map->root[t] != TN_NONE) map->value[t] = map->value[map->root[t]];
}
