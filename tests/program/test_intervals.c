/* test_intervals.c - what may lie over what, where streams copy beside the operators: the Problem
 * says of any two bodies exactly what follows from streams and signals, counted here pair by pair;
 * programs as a fit emits them need no clocks for that.
 */
#include "opcodes.h"

/* --- programs as a fit emits them ---------------------------------------------------------------
 *
 * Stream 0 computes; out of it, each swap follows what runs before it in the list, on stream 1 or
 * 2, what is fetched on stream 3, and a WAIT on stream 0 stands where the memory of what went out
 * is needed again. */

typedef struct fitted {
    tn_instruction list[STEPS_MAX];
    uint32_t count, signal;
    uint32_t newest;              /* on stream 0 */
    uint32_t out_of[TENSORS_MAX]; /* signal of a copy that nobody has waited for; 0: none */
    uint32_t back_of[TENSORS_MAX];
} fitted;

static uint32_t signal_of(fitted *f, uint32_t step) {
    if (f->list[step].signal == 0) f->list[step].signal = ++f->signal;
    return f->list[step].signal;
}

static void put_instruction(fitted *f, tn_instruction it) {
    assert_true(f->count < STEPS_MAX);
    if (it.stream == 0) f->newest = f->count;
    f->list[f->count++] = it;
}

static void wait_for(fitted *f, uint32_t *signal) {
    tn_instruction wait = TN_INSTRUCTION_INIT;
    if (*signal == 0) return;
    wait.opcode = TN_WAIT;
    wait.wait = *signal;
    *signal = 0;
    put_instruction(f, wait);
}

/* Whether an instruction reads a tensor, under this name. */
static bool reads_it(const tn_graph *graph, const tn_instruction *it, tn_tensor_id tensor) {
    tn_effects does = tn_instruction_effects(it);
    if (it->opcode != TN_APPLY) return does.reads == tensor || does.changes == tensor;
    tn_op_form form = tn_op_form_of(graph, it->op, it->again);
    for (uint32_t i = 0; i < form.input_count; i++)
        if (tn_op_form_input(&form, i) == tensor) return true;
    return false;
}

static bool is_read(const writer *w, uint32_t behind, tn_tensor_id tensor) {
    for (uint32_t i = behind + 1; i < w->count; i++)
        if (reads_it(w->graph, &w->list[i], tensor)) return true;
    return false;
}

/* Waits for what comes back before it is touched, at once if nobody does; for what goes out when it
 * comes back, and, of the others, here and there. */
static void fit_like(writer *w, fitted *f) {
    memset(f, 0, sizeof *f);
    for (uint32_t i = 0; i < w->count; i++) {
        tn_instruction it = w->list[i];
        touched touch;
        touch_of(w, &it, &touch);
        for (uint32_t t = 0; t < TENSORS_MAX; t++) {
            bool touches = ((touch.reads[t / 64] | touch.writes[t / 64]) >> (t % 64)) & 1;
            uint32_t buffer = it.slot != 0 && it.slot == w->slot[t] ? 1 : 0;
            if (touches) wait_for(f, &f->back_of[t]);
            if (touches || buffer || draw(w, 4) == 0) wait_for(f, &f->out_of[t]);
        }
        bool fetches = it.opcode == TN_FETCH;
        if (fetches || tn_opcode_facts_of(it.opcode)->flags & TN_USES_SLOT) {
            bool out = it.opcode == TN_SWAP_OUT;
            it.stream = fetches ? 3 : out ? 1 : 2;
            it.wait = signal_of(f, f->newest);
            it.signal = ++f->signal;
            (out ? f->out_of : f->back_of)[w->home[it.tensor]] = it.signal;
        }
        put_instruction(f, it);
        if ((it.opcode == TN_SWAP_IN || fetches) && !is_read(w, i, it.tensor))
            wait_for(f, &f->back_of[w->home[it.tensor]]);
    }
    memcpy(w->list, f->list, f->count * sizeof *f->list);
    w->count = f->count;
}

/* --- conflicts, pair by pair
 * ---------------------------------------------------------------------- */

/* Whether all that touches life `a` is over when life `b` begins. */
static bool is_over(const tn_occupancy *occupancy, order_row *order, uint32_t a, uint32_t b) {
    const tn_life *lives = tn_occupancy_lives(occupancy), *old = &lives[a];
    const tn_program *program = tn_occupancy_program(occupancy);
    const tn_instruction *list = tn_program_instructions(program);
    const tn_graph *graph = tn_program_graph(program);
    uint32_t to = lives[b].first, next = tn_program_count(program);
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++)
        if (lives[i].tensor == old->tensor && lives[i].first > old->first && lives[i].first < next)
            next = lives[i].first;
    if (!is_before(order, old->first, to)) return false;
    for (uint32_t s = old->first + 1; s < next && old->tensor != TN_NONE; s++) {
        bool uses = reads_it(graph, &list[s], old->tensor) ||
                    (list[s].opcode == TN_FREE && list[s].tensor == old->tensor);
        if (uses && !is_before(order, s, to)) return false;
    }
    return true;
}

static bool are_apart(const tn_piece *a, const tn_piece *b, uint32_t streams) {
    if (streams == 1) return a->last <= b->first;
    for (uint32_t s = 0; s < streams; s++)
        if (a->ends[s] > b->begins[s]) return false;
    return a->last <= b->first;
}

typedef struct found {
    uint64_t programs, straight, pairs, apart;
} found;

/* Without views and in-place every life is a body of one piece. */
static void compare(const writer *w, uint64_t seed, found *sum) {
    static order_row order[STEPS_MAX];
    tn_program *program;
    tn_occupancy *occupancy;
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    options.inplace = TN_INPLACE_NONE;
    options.no_views = true;
    if (program_of(w, &program) != TN_OK)
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, failure.where, failure.message);
    assert_ok(tn_occupancy_create(program, &options, &occupancy, &failure));
    const tn_problem *problem = tn_occupancy_problem(occupancy);
    const tn_life *lives = tn_occupancy_lives(occupancy);
    uint32_t count = tn_occupancy_life_count(occupancy), streams = tn_problem_streams(problem);
    for (uint32_t s = 0; s < w->count; s++) know_order(w->list, s, order);
    for (uint32_t a = 0; a < count; a++) {
        for (uint32_t b = 0; b < count; b++) {
            const tn_piece *p = tn_problem_body(problem, lives[a].body)->pieces;
            const tn_piece *q = tn_problem_body(problem, lives[b].body)->pieces;
            bool expected = is_over(occupancy, order, a, b), said = are_apart(p, q, streams);
            if (a == b) continue;
            if (expected != said)
                fail_msg("seed %llu: lives %u and %u (steps %u and %u) are %sapart",
                         (unsigned long long)seed, a, b, lives[a].first, lives[b].first,
                         said ? "" : "not ");
            if (streams == 1) assert_int_equal(lives[a].last, p->last);
            sum->pairs++;
            sum->apart += expected;
        }
    }
    sum->programs++;
    sum->straight += streams == 1;
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
}

static void random_streams_conflict_as_their_signals_say(void **state) {
    (void)state;
    static writer made;
    found sum = {0};
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        write_program_of(&made, seed, 0, seed % 2);
        compare(&made, seed, &sum);
        tn_graph_destroy(made.graph);
    }
    assert_true(sum.straight > 300 && sum.straight < 1200); /* both */
    assert_true(sum.apart > 10000 && 2 * sum.apart < sum.pairs);
}

static void a_fit_needs_no_clocks(void **state) {
    (void)state;
    static writer made;
    static fitted fit;
    found sum = {0};
    uint64_t longer = 0;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        write_program_of(&made, seed, 1, seed % 2);
        if (made.count < STEPS_MAX / 3) {
            fit_like(&made, &fit);
            compare(&made, seed, &sum);
            for (uint32_t i = 0; i < made.count; i++) longer += made.list[i].opcode == TN_WAIT;
        }
        tn_graph_destroy(made.graph);
    }
    assert_int_equal(sum.straight, sum.programs);
    assert_true(sum.programs > 1000 && longer > 3000);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_streams_conflict_as_their_signals_say),
        cmocka_unit_test(a_fit_needs_no_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
