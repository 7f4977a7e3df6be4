/* test_program.c - the occupancy judged by running it.
 *
 * The judge executes a program on an array of bytes at the planned places. Every tensor has
 * contents of its own (numbers nobody else has), views have those of their source, and whoever
 * reads must find what was written. Element-wise operators read and write byte by byte, so that
 * working in place is right exactly when nothing is overwritten before its last reader; all others
 * write their outputs before they look at their inputs. Branches are taken both ways, loops run 0
 * to 3 times.
 */
#include "../random_graph.h" /* of uint8: bytes are elements */

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "count.h"
#include "base/base.h"
#include "holders.h"

#define BYTES_MAX 256u

/* --- the judge --- */

typedef struct judge {
    const tn_graph *graph;
    const tn_program *program;
    const tn_occupancy *occupancy;
    const tn_layout *layout;
    uint32_t *memory;                /* [peak], what was written there last */
    uint32_t (*contents)[BYTES_MAX]; /* [tensors] what each should hold */
    uint32_t fresh;
    tn__random random;
    uint64_t seed;
    bool other_order; /* the program is another order than the one that was planned */
} judge;

static uint64_t size_of(const judge *j, tn_tensor_id id) {
    return tn_graph_tensor(j->graph, id)->bytes;
}

/* Where a tensor lies at a step; NULL: it is static. */
static uint32_t *place(const judge *j, tn_tensor_id id, uint32_t step) {
    const tn_life *lives = tn_occupancy_lives(j->occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(j->occupancy); i++)
        if (lives[i].tensor == id &&
            (j->other_order || (lives[i].first <= step && step < lives[i].last)))
            return j->memory + j->layout->offset[lives[i].body] + lives[i].delta;
    return NULL;
}

static void write_byte(judge *j, tn_tensor_id id, uint32_t step, uint64_t byte) {
    uint32_t *at = place(j, id, step);
    if (at != NULL) at[byte] = j->contents[id][byte];
}

static void read_byte(const judge *j, tn_tensor_id id, uint32_t step, uint64_t byte) {
    const uint32_t *at = place(j, id, step);
    if (at != NULL && at[byte] != j->contents[id][byte])
        fail_msg("seed %llu: '%s' byte %llu is lost at step %u\n", (unsigned long long)j->seed,
                 tn_graph_tensor(j->graph, id)->name, (unsigned long long)byte, step);
}

static void read_all(const judge *j, tn_tensor_id id, uint32_t step) {
    for (uint64_t i = 0; i < size_of(j, id); i++) read_byte(j, id, step, i);
}

static void write_all(judge *j, tn_tensor_id id, uint32_t step) {
    for (uint64_t i = 0; i < size_of(j, id); i++) write_byte(j, id, step, i);
}

static void renew(judge *j, tn_tensor_id id) {
    for (uint64_t i = 0; i < size_of(j, id); i++) j->contents[id][i] = ++j->fresh;
}

/* The contents of an output: those of its source for a view, else new ones. */
static void compute(judge *j, tn_op_id id, uint32_t output) {
    const tn_op *op = tn_graph_op(j->graph, id);
    tn_view view = tn_op_view(j->graph, id, output);
    if (tn_op_joins(j->graph, id)) { /* a copy: equal contents may lie in one place */
        uint32_t *to = j->contents[op->outputs[0]];
        for (uint32_t i = 0; i < op->input_count; i++) {
            memmove(to, j->contents[op->inputs[i]], size_of(j, op->inputs[i]) * sizeof *to);
            to += size_of(j, op->inputs[i]);
        }
    } else if (view.source == TN_NONE || view.whole)
        renew(j, op->outputs[output]);
    else
        memmove(j->contents[op->outputs[output]], j->contents[view.source] + view.offset,
                size_of(j, op->outputs[output]) * sizeof(uint32_t));
}

static void run_op(judge *j, tn_op_id id, uint32_t step) {
    const tn_op *op = tn_graph_op(j->graph, id);
    bool each = tn_op_inplace(j->graph, id, 0) != 0;
    for (uint32_t k = 0; k < op->output_count; k++) compute(j, id, k);
    if (!each) {
        for (uint32_t k = 0; k < op->output_count; k++) write_all(j, op->outputs[k], step);
        for (uint32_t i = 0; i < op->input_count; i++) read_all(j, op->inputs[i], step);
        return;
    }
    for (uint64_t byte = 0; byte < size_of(j, op->outputs[0]); byte++) {
        for (uint32_t i = 0; i < op->input_count; i++)
            if (byte < size_of(j, op->inputs[i])) read_byte(j, op->inputs[i], step, byte);
        write_byte(j, op->outputs[0], step, byte);
    }
}

/* Results of a block into the outputs of its operator, or back into a loop's formals. */
static void hand_over(judge *j, const tn_tensor_id *from, const tn_tensor_id *to, uint32_t count,
                      uint32_t step) {
    for (uint32_t i = 0; i < count; i++) read_all(j, from[i], step);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(j->contents[to[i]], j->contents[from[i]], size_of(j, to[i]) * sizeof(uint32_t));
        write_all(j, to[i], step);
    }
}

static void run_steps(judge *j, tn_block_id block, uint32_t first, uint32_t last);

/* Recursion as deep as the graphs of this file nest: twice. */
static void run_loop(judge *j, const tn_region *region) { /* Loop(M, cond, carried...) */
    const tn_op *op = tn_graph_op(j->graph, region->op);
    const tn_block *body = tn_graph_block(j->graph, region->block);
    uint32_t carried = op->input_count - 2, turns = (uint32_t)tn__random_below(&j->random, 4);
    hand_over(j, op->inputs + 2, body->inputs + 2, carried, region->first);
    for (uint32_t turn = 0; turn < turns; turn++) {
        renew(j, body->inputs[0]);
        write_all(j, body->inputs[0], region->first);
        run_steps(j, region->block, region->first, region->last);
        hand_over(j, body->outputs + 1, body->inputs + 2, carried, region->last);
    }
    hand_over(j, body->inputs + 2, op->outputs, carried, region->last);
}

static void run_branch(judge *j, const tn_region *regions, uint32_t count) {
    const tn_region *region = &regions[tn__random_below(&j->random, count)];
    const tn_op *op = tn_graph_op(j->graph, region->op);
    const tn_block *block = tn_graph_block(j->graph, region->block);
    uint32_t own = regions[count - 1].last;
    bool empty = region->first == region->last;
    run_steps(j, region->block, region->first, region->last);
    hand_over(j, block->outputs, op->outputs, op->output_count, empty ? own : region->last - 1);
}

static void run_one(judge *j, const tn_instruction *it, uint32_t step) {
    if (it->opcode == TN_APPLY) {
        run_op(j, it->op, step);
    } else if (it->opcode == TN_PUT) {
        renew(j, it->tensor);
        write_all(j, it->tensor, step);
    } else {
        read_all(j, it->tensor, step);
    }
}

/* Steps [first, last) of a block: where regions of an operator of this block begin, these are run,
 * then the operator. */
static void run_steps(judge *j, tn_block_id block, uint32_t first, uint32_t last) {
    const tn_region *regions = tn_program_regions(j->program);
    uint32_t count = tn_program_region_count(j->program);
    for (uint32_t step = first; step < last; step++) {
        uint32_t at = 0, alike = 0;
        while (at < count &&
               (regions[at].first != step || tn_graph_op(j->graph, regions[at].op)->block != block))
            at++;
        while (at < count && at + alike < count && regions[at + alike].op == regions[at].op)
            alike++;
        if (at == count) {
            run_one(j, &tn_program_instructions(j->program)[step], step);
            continue;
        }
        if (regions[at].repeats)
            run_loop(j, &regions[at]);
        else
            run_branch(j, &regions[at], alike);
        step = regions[at + alike - 1].last; /* the operator's own step is done */
        if (!regions[at].repeats)
            for (uint32_t k = 0; k < tn_graph_op(j->graph, regions[at].op)->output_count; k++)
                read_all(j, tn_graph_op(j->graph, regions[at].op)->outputs[k], step);
    }
}

static void run_judge(judge *j) {
    j->memory = calloc((size_t)j->layout->peak + 1, sizeof *j->memory);
    j->contents = calloc(tn_graph_tensor_count(j->graph), sizeof *j->contents);
    assert_non_null(j->memory);
    assert_non_null(j->contents);
    for (int path = 0; path < 6; path++) run_steps(j, 0, 0, tn_program_count(j->program));
    free(j->memory);
    free(j->contents);
}

static void judge_graph(tn_graph *graph, const char *order, tn_occupancy_options options,
                        uint64_t seed, uint64_t *peak) {
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_program_options how = TN_PROGRAM_OPTIONS_INIT;
    how.order = order;
    how.memory = &options;
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(tn_program_create(graph, &how, &program, &failure));
    assert_ok(tn_occupancy_create(program, &options, &occupancy, &failure));
    assert_ok(tn_plan(tn_occupancy_problem(occupancy), NULL, &layout, &failure));
    judge j = {.graph = graph,
               .program = program,
               .occupancy = occupancy,
               .layout = &layout,
               .random = {.state = seed},
               .seed = seed};
    run_judge(&j);
    if (seed % 8 < 2) judge_all_holders(occupancy);
    *peak = tn_occupancy_summary(occupancy).peak_live;
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
}

static void every_read_finds_what_was_written(void **state) {
    (void)state;
    const uint32_t seeds = case_count(1200, 40);
    uint64_t fused = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        tn_graph *graph = random_graph(seed, seed % 2 == 0);
        uint64_t peaks[5];
        for (uint32_t mode = 0; mode < 5; mode++) {
            tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
            options.alignment = 1;
            options.inplace = mode == 1 || mode == 2 ? TN_INPLACE_NONE : TN_INPLACE_CHOOSE;
            options.no_views = mode == 2;
            options.fuse_concat = mode == 4;
            judge_graph(graph, mode == 3 ? "memory" : "file", options, seed, &peaks[mode]);
        }
        if (peaks[0] > peaks[1] || peaks[1] > peaks[2] || peaks[3] > peaks[0] ||
            peaks[4] > peaks[0])
            fail_msg("seed %llu: in-place %llu, views %llu, neither %llu, best order %llu, "
                     "fused %llu\n",
                     (unsigned long long)seed, (unsigned long long)peaks[0],
                     (unsigned long long)peaks[1], (unsigned long long)peaks[2],
                     (unsigned long long)peaks[3], (unsigned long long)peaks[4]);
        fused += peaks[4] < peaks[0];
        tn_graph_destroy(graph);
    }
    assert_true(fused * 60 > seeds); /* fusing lowered the peak of that many */
}

/* --- other orders of the same graph --- */

/* Moves operators outside of blocks about, as the graph, and what a plan adds, allow it. */
static tn_program *another_order(tn_graph *graph, tn__random *random, const tn_dependency *added,
                                 uint64_t added_count) {
    tn_op_id sequence[256];
    uint32_t count = tn_graph_op_count(graph), place[256];
    tn_program_options how = TN_PROGRAM_OPTIONS_INIT;
    tn_program *program = NULL;
    assert_true(count <= 256);
    for (uint32_t i = 0; i < count; i++) sequence[i] = i;
    how.sequence = sequence;
    how.sequence_count = count;
    for (int tries = 0; tries < 40; tries++) {
        tn_op_id kept[256];
        tn_program *made = NULL;
        memcpy(kept, sequence, sizeof kept);
        uint32_t from = (uint32_t)tn__random_below(random, count);
        uint32_t to = (uint32_t)tn__random_below(random, count);
        tn_op_id moved = sequence[from];
        if (tn_graph_op(graph, moved)->block != 0) continue; /* blocks run as they are listed */
        memmove(sequence + from, sequence + from + 1, (count - from - 1) * sizeof *sequence);
        memmove(sequence + to + 1, sequence + to, (count - to - 1) * sizeof *sequence);
        sequence[to] = moved;
        for (uint32_t i = 0; i < count; i++) place[sequence[i]] = i;
        bool allowed = true;
        for (uint64_t i = 0; i < added_count; i++)
            allowed = allowed && place[added[i].before] < place[added[i].after];
        if (allowed && tn_program_create(graph, &how, &made, &failure) == TN_OK) {
            tn_program_destroy(program);
            program = made;
        } else {
            memcpy(sequence, kept, sizeof kept);
        }
    }
    return program;
}

/* Plans the file's order once and runs others in its memory; returns how many there were. */
static uint32_t judge_other_orders(tn_graph *graph, tn_parallel parallel, uint64_t seed,
                                   uint64_t *added_count) {
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_dependency *added;
    tn__random random = {.state = seed};
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    uint32_t orders = 0;
    options.alignment = 1;
    options.parallel = parallel;
    assert_ok(tn_program_create(graph, NULL, &program, &failure));
    assert_ok(tn_occupancy_create(program, &options, &occupancy, &failure));
    assert_ok(tn_plan(tn_occupancy_problem(occupancy), NULL, &layout, &failure));
    assert_ok(tn_plan_dependencies(occupancy, &layout, &added, added_count, &failure));
    for (int i = 0; i < 4; i++) {
        tn_program *other = another_order(graph, &random, added, *added_count);
        if (other == NULL) continue;
        judge j = {.graph = graph,
                   .program = other,
                   .occupancy = occupancy,
                   .layout = &layout,
                   .random = {.state = seed},
                   .seed = seed,
                   .other_order = true};
        run_judge(&j);
        orders++;
        tn_program_destroy(other);
    }
    tn_dependencies_release(added);
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    return orders;
}

static void a_safe_plan_holds_in_every_order_of_the_graph(void **state) {
    (void)state;
    const uint32_t seeds = case_count(800, 40);
    uint32_t orders = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        uint64_t added;
        tn_graph *graph = random_graph(seed, seed % 2 == 0);
        assert_ok(tn_graph_infer(graph, &failure));
        orders += judge_other_orders(graph, TN_PARALLEL_SAFE, seed, &added);
        if (added != 0)
            fail_msg("seed %llu: a safe plan adds %llu\n", (unsigned long long)seed,
                     (unsigned long long)added);
        tn_graph_destroy(graph);
    }
    assert_true(orders * 2 > seeds * 5);
}

static void any_plan_holds_in_every_order_that_keeps_what_it_adds(void **state) {
    (void)state;
    const uint32_t seeds = case_count(800, 40);
    uint32_t orders = 0;
    uint64_t sum = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        uint64_t added;
        tn_graph *graph = random_graph(seed, seed % 2 == 0);
        assert_ok(tn_graph_infer(graph, &failure));
        orders += judge_other_orders(graph, TN_PARALLEL_SERIAL, seed, &added);
        sum += added;
        tn_graph_destroy(graph);
    }
    assert_true(orders * 4 > seeds * 5 && sum * 8 > seeds);
}

/* A[1] feeds the branches A[2] A[3] A[4] and A[5] A[6] A[7], which A[8] joins. */
static void two_branches_may_run_side_by_side_in_a_safe_plan(void **state) {
    (void)state;
    static const int reads[] = {0, 1, 2, 3, 1, 5, 6};
    for (int safe = 0; safe < 2; safe++) {
        tn_graph *graph;
        tn_tensor_id tensors[9];
        tn_program *program;
        tn_occupancy *occupancy;
        tn_layout layout;
        tn_dependency *added;
        uint64_t count;
        tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
        options.parallel = safe ? TN_PARALLEL_SAFE : TN_PARALLEL_SERIAL;
        assert_ok(tn_graph_create(NULL, &graph, &failure));
        tensors[0] = vector(graph, "x", TN_KIND_INPUT, 1024, 0);
        for (int i = 1; i <= 8; i++)
            tensors[i] = vector(graph, "a", i < 8 ? TN_KIND_ACTIVATION : TN_KIND_OUTPUT, -1, 0);
        for (int i = 1; i <= 7; i++)
            apply(graph, "Relu", 0, &tensors[reads[i - 1]], 1, &tensors[i], 1);
        apply(graph, "Max", 0, (tn_tensor_id[]){tensors[4], tensors[7]}, 2, &tensors[8], 1);
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(tn_program_create(graph, NULL, &program, &failure));
        assert_ok(tn_occupancy_create(program, &options, &occupancy, &failure));
        assert_ok(tn_plan(tn_occupancy_problem(occupancy), NULL, &layout, &failure));
        assert_ok(tn_plan_dependencies(occupancy, &layout, &added, &count, &failure));
        assert_int_equal(count, safe ? 0 : 1);
        assert_int_equal(layout.peak, safe ? 3072 : 2048);
        if (!safe) assert_true(added[0].before == 1 && added[0].after == 4); /* A[2], A[5] */
        tn_dependencies_release(added);
        tn_layout_release(&layout);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_graph_destroy(graph);
    }
}

/* Two chains of small tensors beside one large step that decides the peak: the plan that reuses
 * bytes across the chains is no lower than one that does not. */
static void equally_low_plans_add_fewer_dependencies(void **state) {
    (void)state;
    uint32_t fewer = 0;
    for (uint32_t length = 2; length < 10; length++) {
        tn_graph *graph;
        tn_program *program;
        tn_occupancy *occupancy;
        tn_layout plain, loose;
        uint64_t before, after;
        tn_tensor_id ends[2], large;
        tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
        memory.inplace = TN_INPLACE_NONE;
        assert_ok(tn_graph_create(NULL, &graph, &failure));
        tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 16, 0);
        for (int chain = 0; chain < 2; chain++) {
            tn_tensor_id at = x;
            for (uint32_t k = 0; k < length; k++) {
                tn_tensor_id next = vector(graph, "t", TN_KIND_ACTIVATION, -1, 0);
                apply(graph, "Softmax", 0, &at, 1, &next, 1);
                at = next;
            }
            ends[chain] = at;
        }
        tn_tensor_id both = vector(graph, "both", TN_KIND_ACTIVATION, -1, 0);
        apply(graph, "Add", 0, ends, 2, &both, 1);
        large = vector(graph, "large", TN_KIND_ACTIVATION, -1, 0);
        tn_tensor_id times = numbers(graph, (int64_t[]){64}, 1);
        apply(graph, "Tile", 0, (tn_tensor_id[]){both, times}, 2, &large, 1);
        tn_tensor_id y = vector(graph, "y", TN_KIND_OUTPUT, -1, 0);
        apply(graph, "Softmax", 0, &large, 1, &y, 1);
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(tn_program_create(graph, NULL, &program, &failure));
        assert_ok(tn_occupancy_create(program, &memory, &occupancy, &failure));
        const tn_problem *problem = tn_occupancy_problem(occupancy);
        assert_ok(tn_plan(problem, NULL, &plain, &failure));
        assert_ok(tn_plan(problem, NULL, &loose, &failure));
        assert_ok(tn_plan_loosen(occupancy, &memory, NULL, &loose, &failure));
        assert_ok(tn_layout_verify(problem, &loose, NULL, &failure));
        assert_ok(tn_plan_dependencies(occupancy, &plain, NULL, &before, &failure));
        assert_ok(tn_plan_dependencies(occupancy, &loose, NULL, &after, &failure));
        assert_true(loose.peak <= plain.peak && after <= before);
        print_message("%u: %llu %llu\n", length, (unsigned long long)before,
                      (unsigned long long)after);
        fewer += after < before;
        tn_layout_release(&plain);
        tn_layout_release(&loose);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_graph_destroy(graph);
    }
    assert_true(fewer > 0);
}

/* The concatenation writes nothing over the part that lies in it, so its other reader is free. */
static void a_concatenation_without_copies_adds_no_wait(void **state) {
    (void)state;
    tn_graph *graph;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_dependency *added;
    uint64_t count;
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    options.fuse_concat = true;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 64, 0), t[5];
    tn_tensor_id zero = numbers(graph, (int64_t[]){0}, 1);
    for (int i = 0; i < 5; i++)
        t[i] = vector(graph, "t", i % 2 == 0 ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, -1, 0);
    tn_attr axis = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = (int64_t[]){0}};
    apply(graph, "CumSum", 0, (tn_tensor_id[]){x, zero}, 2, &t[1], 1);
    apply(graph, "CumSum", 0, (tn_tensor_id[]){x, zero}, 2, &t[3], 1);
    apply(graph, "CumSum", 0, (tn_tensor_id[]){t[1], zero}, 2, &t[0], 1);
    tn_op_spec join = {.type = "Concat",
                       .name = "join",
                       .version = 17,
                       .inputs = (tn_tensor_id[]){t[1], t[3]},
                       .input_count = 2,
                       .outputs = &t[2],
                       .output_count = 1,
                       .attrs = &axis,
                       .attr_count = 1};
    assert_ok(tn_graph_add_op(graph, &join, NULL, &failure));
    apply(graph, "CumSum", 0, (tn_tensor_id[]){t[2], zero}, 2, &t[4], 1);
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(tn_program_create(graph, NULL, &program, &failure));
    assert_ok(tn_occupancy_create(program, &options, &occupancy, &failure));
    assert_ok(tn_plan(tn_occupancy_problem(occupancy), NULL, &layout, &failure));
    assert_ok(tn_plan_dependencies(occupancy, &layout, &added, &count, &failure));
    bool fused = false;
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++)
        fused |= tn_occupancy_lives(occupancy)[i].share == TN_SHARE_FUSED;
    assert_true(fused);
    for (uint64_t i = 0; i < count; i++) assert_int_not_equal(added[i].after, 3);
    tn_dependencies_release(added);
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(graph);
}

/* The streams of a program are all the order there is between its instructions: of two chains, one
 * on each, no interval says when the tensors of one are there for the other. */
static void streams_of_a_program_give_its_problem_clocks(void **state) {
    (void)state;
    for (int split = 0; split < 2; split++) {
        tn_graph *graph;
        tn_program *file, *program;
        tn_occupancy *occupancy;
        tn_instruction list[16];
        assert_ok(tn_graph_create(NULL, &graph, &failure));
        tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 64, 0), t[6];
        for (int i = 0; i < 6; i++)
            t[i] = vector(graph, "t", i % 3 == 2 ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, -1, 0);
        tn_tensor_id zero = numbers(graph, (int64_t[]){0}, 1);
        for (int i = 0; i < 6; i++)
            apply(graph, "CumSum", 0, (tn_tensor_id[]){i % 3 == 0 ? x : t[i - 1], zero}, 2, &t[i],
                  1);
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(tn_program_create(graph, NULL, &file, &failure));
        uint32_t count = tn_program_count(file);
        memcpy(list, tn_program_instructions(file), count * sizeof *list);
        for (uint32_t i = 0; i < count; i++) {
            if (list[i].opcode == TN_PUT) list[i].signal = 1;
            if (list[i].opcode == TN_GET && list[i].tensor == t[5]) list[i].wait = 2;
            if (list[i].opcode != TN_APPLY || list[i].op < 3) continue;
            list[i].stream = split ? 7 : 0;
            if (list[i].op == 3) list[i].wait = 1;
            if (list[i].op == 5) list[i].signal = 2;
        }
        assert_ok(tn_program_from(graph, list, count, NULL, 0, &program, &failure));
        assert_ok(tn_occupancy_create(program, NULL, &occupancy, &failure));
        uint32_t streams = tn_problem_streams(tn_occupancy_problem(occupancy));
        assert_true(split ? streams > 1 : streams == 1);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_program_destroy(file);
        tn_graph_destroy(graph);
    }
}

/* --- named cases --- */

typedef struct made {
    tn_program *program;
    tn_occupancy *occupancy;
} made;

static made make(tn_graph *graph) {
    made m;
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    options.alignment = 1;
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(tn_program_create(graph, NULL, &m.program, &failure));
    assert_ok(tn_occupancy_create(m.program, &options, &m.occupancy, &failure));
    return m;
}

static void unmake(made m, tn_graph *graph) {
    tn_occupancy_destroy(m.occupancy);
    tn_program_destroy(m.program);
    tn_graph_destroy(graph);
}

static const tn_life *life_of(made m, tn_tensor_id id) {
    const tn_life *lives = tn_occupancy_lives(m.occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(m.occupancy); i++)
        if (lives[i].tensor == id) return &lives[i];
    return NULL;
}

static void in_place_waits_for_the_last_reader(void **state) {
    (void)state;
    tn_graph *graph;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 8, 0),
                 a = vector(graph, "a", TN_KIND_ACTIVATION, -1, 0);
    tn_tensor_id b = vector(graph, "b", TN_KIND_OUTPUT, -1, 0);
    apply(graph, "Relu", 0, &x, 1, &a, 1);                    /* x is read again: not in place */
    apply(graph, "Max", 0, (tn_tensor_id[]){x, a}, 2, &b, 1); /* both die here */
    made m = make(graph);
    assert_int_equal(life_of(m, a)->share, TN_SHARE_OWN);
    assert_int_equal(life_of(m, b)->share, TN_SHARE_INPLACE);
    unmake(m, graph);
}

static void an_output_nobody_reads_lives_for_its_step(void **state) {
    (void)state;
    tn_graph *graph;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 8, 0),
                 a = vector(graph, "a", TN_KIND_ACTIVATION, -1, 0);
    tn_tensor_id b = vector(graph, "b", TN_KIND_OUTPUT, -1, 0);
    apply(graph, "Relu", 0, &x, 1, &a, 1);
    apply(graph, "Relu", 0, &x, 1, &b, 1);
    made m = make(graph);
    const tn_life *life = life_of(m, a);
    assert_int_equal(life->last, life->first + 1);
    assert_int_not_equal(life->body, life_of(m, x)->body);
    unmake(m, graph);
}

static void an_input_that_is_an_output_is_never_written_over(void **state) {
    (void)state;
    tn_graph *graph;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "state", TN_KIND_INPUT, 8, 0),
                 y = vector(graph, "y", TN_KIND_ACTIVATION, -1, 0);
    tn_tensor_id z = vector(graph, "z", TN_KIND_ACTIVATION, -1, 0), outputs[2] = {x, y};
    apply(graph, "Relu", 0, &x, 1, &y, 1);
    apply(graph, "Identity", 0, &x, 1, &z, 1); /* a view of an input, and nobody reads it */
    assert_ok(tn_graph_set_block_io(graph, 0, &x, 1, outputs, 2, &failure));
    made m = make(graph);
    assert_int_not_equal(life_of(m, x)->body, life_of(m, y)->body);
    assert_int_equal(life_of(m, z)->share, TN_SHARE_VIEW);
    assert_true(life_of(m, x)->last > life_of(m, y)->first);
    unmake(m, graph);
}

static void outputs_may_be_views_of_an_input_and_of_each_other(void **state) {
    (void)state;
    tn_graph *graph;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 8, 0),
                 a = vector(graph, "a", TN_KIND_OUTPUT, -1, 0);
    tn_tensor_id b = vector(graph, "b", TN_KIND_OUTPUT, -1, 0);
    apply(graph, "Identity", 0, &x, 1, &a, 1);
    apply(graph, "Identity", 0, &a, 1, &b, 1);
    made m = make(graph);
    assert_int_equal(life_of(m, x)->body, life_of(m, b)->body);
    assert_int_equal(tn_occupancy_summary(m.occupancy).peak_live, 8);
    assert_int_equal(tn_occupancy_summary(m.occupancy).naive, 24);
    unmake(m, graph);
}

static void a_slice_keeps_only_its_part_alive(void **state) {
    (void)state;
    tn_graph *graph;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 100, 0),
                 a = vector(graph, "a", TN_KIND_ACTIVATION, -1, 0);
    tn_tensor_id c = vector(graph, "c", TN_KIND_OUTPUT, -1, 0);
    tn_tensor_id s[3] = {x, numbers(graph, (int64_t[]){40}, 1), numbers(graph, (int64_t[]){50}, 1)};
    apply(graph, "Slice", 0, s, 3, &a, 1);
    apply(graph, "CumSum", 0, (tn_tensor_id[]){a, numbers(graph, (int64_t[]){0}, 1)}, 2, &c, 1);
    made m = make(graph);
    const tn_body *body = tn_problem_body(tn_occupancy_problem(m.occupancy), life_of(m, x)->body);
    assert_int_equal(body->piece_count, 2);
    assert_true(body->pieces[1].lo == 40 && body->pieces[1].hi == 50);
    unmake(m, graph);
}

static void the_holders_of_a_step_are_told_by_size(void **state) {
    (void)state;
    tn_graph *graph;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 100, 0),
                 a = vector(graph, "a", TN_KIND_ACTIVATION, -1, 0);
    tn_tensor_id b = vector(graph, "b", TN_KIND_OUTPUT, -1, 0),
                 c = vector(graph, "c", TN_KIND_OUTPUT, -1, 0);
    tn_tensor_id s[3] = {x, numbers(graph, (int64_t[]){40}, 1), numbers(graph, (int64_t[]){50}, 1)};
    apply(graph, "CumSum", 0, (tn_tensor_id[]){x, numbers(graph, (int64_t[]){0}, 1)}, 2, &b, 1);
    apply(graph, "Slice", 0, s, 3, &a, 1);
    apply(graph, "CumSum", 0, (tn_tensor_id[]){a, numbers(graph, (int64_t[]){0}, 1)}, 2, &c, 1);
    made m = make(graph);
    const tn_life *lives = tn_occupancy_lives(m.occupancy);
    tn_occupant rows[4];
    /* step 3: b waits to be fetched; of x only what its slice shows; c */
    assert_int_equal(tn_occupancy_holders(m.occupancy, 3, rows, 4), 3);
    assert_true(lives[rows[0].life].tensor == b && rows[0].bytes == 100);
    assert_true(lives[rows[1].life].tensor == a && rows[1].bytes == 10);
    assert_true(lives[rows[2].life].tensor == c && rows[2].bytes == 10);
    assert_int_equal(tn_occupancy_holders(m.occupancy, 1000, rows, 4), 0);
    judge_all_holders(m.occupancy);
    unmake(m, graph);
}

static void running_out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status != TN_OK && fail_at < 2000; fail_at++) {
        faulty memory = {0};
        tn_context context = faulty_context(&memory);
        tn_graph *graph;
        tn_program *program = NULL;
        tn_occupancy *occupancy = NULL;
        assert_ok(tn_graph_create(&context, &graph, &failure));
        tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 8, 0),
                     y = vector(graph, "y", TN_KIND_OUTPUT, -1, 0);
        apply(graph, "Relu", 0, &x, 1, &y, 1);
        assert_ok(tn_graph_infer(graph, &failure));
        memory.requests = 0;
        memory.fail_at = fail_at;
        status = tn_program_create(graph, NULL, &program, &failure);
        tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
        options.parallel = TN_PARALLEL_SAFE;
        if (status == TN_OK) status = tn_occupancy_create(program, &options, &occupancy, &failure);
        assert_true(status == TN_OK || (status == TN_E_NO_MEMORY && occupancy == NULL));
        uint64_t live[8][TN_KIND_COUNT];
        if (status == TN_OK) status = tn_occupancy_live(occupancy, live, &failure);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_graph_destroy(graph);
        assert_int_equal(memory.held, 0);
    }
    assert_int_equal(status, TN_OK);
}

/* --- waits --- */

enum { WAIT_STEPS = 256 };

static bool wait_path(bool edge[WAIT_STEPS][WAIT_STEPS], uint32_t from, uint32_t to) {
    bool reached[WAIT_STEPS] = {false};
    reached[from] = true;
    for (uint32_t step = from; step < to; step++) /* edges go forward */
        for (uint32_t next = step + 1; next <= to && reached[step]; next++)
            reached[next] |= edge[step][next];
    return reached[to];
}

/* The added dependencies that no other path implies. */
static uint64_t count_kept(bool edge[WAIT_STEPS][WAIT_STEPS], const tn_wait *added,
                           uint64_t count) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) edge[added[i].before][added[i].after] = true;
    for (uint64_t i = 0; i < count; i++) {
        edge[added[i].before][added[i].after] = false;
        kept += !wait_path(edge, added[i].before, added[i].after);
        edge[added[i].before][added[i].after] = true;
    }
    return kept;
}

/* The waits by spans of bytes are the dependencies that a sweep finds, after reduction. */
static void waits_are_the_dependencies_that_are_left(void **state) {
    (void)state;
    const uint32_t seeds = case_count(800, 60);
    uint64_t sum = 0, fewer = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        static bool edge[WAIT_STEPS][WAIT_STEPS];
        tn_graph *graph = random_graph(seed, seed % 2 == 0);
        tn_program *program;
        tn_occupancy *occupancy;
        tn_layout layout;
        tn_dependency *list;
        uint64_t count, waits;
        uint32_t orders;
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(tn_program_create(graph, NULL, &program, &failure));
        assert_ok(tn_occupancy_create(program, NULL, &occupancy, &failure));
        assert_ok(tn_plan(tn_occupancy_problem(occupancy), NULL, &layout, &failure));
        assert_ok(tn_plan_dependencies(occupancy, &layout, &list, &count, &failure));
        assert_ok(tn_occupancy_add_events(occupancy, &failure));
        assert_ok(tn_layout_waits(tn_occupancy_problem(occupancy), &layout, 0, NULL, &waits, NULL,
                                  &failure));
        uint32_t steps = tn_program_count(program);
        assert_true(steps <= WAIT_STEPS && count < 1000);
        memset(edge, 0, sizeof edge);
        const tn_wait *order = tn_problem_orders(tn_occupancy_problem(occupancy), &orders);
        for (uint32_t i = 0; i < orders; i++) edge[order[i].before][order[i].after] = true;
        tn_wait added[1000];
        for (uint64_t i = 0; i < count; i++)
            for (uint32_t s = 0; s < steps; s++) {
                const tn_instruction *it = &tn_program_instructions(program)[s];
                if (it->opcode == TN_APPLY && it->op == list[i].before) added[i].before = s;
                if (it->opcode == TN_APPLY && it->op == list[i].after) added[i].after = s;
            }
        uint64_t kept = count_kept(edge, added, count);
        if (kept != waits)
            fail_msg("seed %llu: %llu waits, but %llu dependencies are left",
                     (unsigned long long)seed, (unsigned long long)waits, (unsigned long long)kept);
        sum += waits;
        fewer += kept < count;
        tn_dependencies_release(list);
        tn_layout_release(&layout);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_graph_destroy(graph);
    }
    assert_true(sum > seeds / 8 && fewer > 0);
}

/* The dependencies of a layout in which bodies `a` and `b` share bytes and no others do; UINT64_MAX
 * if they cannot share bytes. */
static uint64_t count_together(const tn_occupancy *occupancy, tn_layout *apart, tn_body_id a,
                               tn_body_id b) {
    const tn_problem *problem = tn_occupancy_problem(occupancy);
    uint64_t count = UINT64_MAX, before = apart->offset[b];
    tn_layout together;
    apart->offset[b] = apart->offset[a];
    tn_status status =
        tn_layout_from_places(problem, apart->offset, apart->bank, &together, &failure);
    apart->offset[b] = before;
    if (status == TN_E_INVALID) return count; /* each is used after the other one is written */
    assert_ok(status);
    if (tn_layout_verify(problem, &together, NULL, &failure) == TN_OK)
        assert_ok(tn_plan_dependencies(occupancy, &together, NULL, &count, &failure));
    tn_layout_release(&together);
    return count;
}

/* Whether the body is in a group, or some of its spans have a part of its bytes only. */
static bool is_partial(const tn_problem *problem, tn_body_id id) {
    uint32_t spans;
    const tn_span *span = tn_problem_spans(problem, &spans);
    for (tn_body_id k = 0; k < tn_problem_count(problem); k++) {
        const tn_body *body = tn_problem_body(problem, k);
        if ((body->flags & TN_BODY_TIED) != 0 && (k == id || body->leader == id)) return true;
    }
    for (uint32_t i = 0; i < spans; i++)
        if (span[i].body == id &&
            (span[i].lo > 0 || span[i].hi < tn_problem_body(problem, id)->size))
            return true;
    return false;
}

/* A pair of buffers has a reuse cost if the search for dependencies, which shares no code with the
 * costs, finds one when only these two share bytes. */
static void pairs_cost_what_adds_a_dependency(void **state) {
    (void)state;
    const uint32_t seeds = case_count(100, 20);
    uint32_t costly = 0, cheap = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        tn_graph *graph = random_graph(seed, seed % 2 == 0);
        tn_program *program;
        tn_occupancy *occupancy;
        tn_layout apart;
        uint64_t always;
        uint32_t pairs, again;
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(tn_program_create(graph, NULL, &program, &failure));
        assert_ok(tn_occupancy_create(program, NULL, &occupancy, &failure));
        const tn_problem *problem = tn_occupancy_problem(occupancy);
        assert_ok(tn_occupancy_add_reuse_costs(occupancy, &failure));
        const tn_pair *cost = tn_problem_reuse_costs(problem, &pairs);
        assert_ok(tn_layout_without_reuse(problem, &apart, &failure));
        assert_ok(tn_plan_dependencies(occupancy, &apart, NULL, &always, &failure));
        for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
            if (is_partial(problem, b) || tn_problem_body(problem, b)->size == 0) continue;
            for (tn_body_id a = 0; a < b; a++) {
                uint32_t priced = 0;
                if (is_partial(problem, a) || tn_problem_body(problem, a)->size == 0) continue;
                uint64_t count = count_together(occupancy, &apart, a, b);
                if (count == UINT64_MAX) continue; /* a cost has no effect on this pair */
                for (uint32_t i = 0; i < pairs; i++)
                    priced += cost[i].a == a && cost[i].b == b && cost[i].cost == 1;
                assert_true(priced <= 1);
                /* a dependency within one buffer may be the one that the pair needs */
                if (count > always ? priced == 0 : priced > 0 && always == 0)
                    fail_msg("seed %llu, bodies %u and %u: cost %u, but %llu dependencies",
                             (unsigned long long)seed, a, b, priced, (unsigned long long)count);
                costly += priced;
                cheap += priced == 0;
            }
        }
        assert_ok(tn_occupancy_add_reuse_costs(occupancy, &failure));
        tn_problem_reuse_costs(problem, &again);
        assert_int_equal(again, pairs);
        tn_layout_release(&apart);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_graph_destroy(graph);
    }
    assert_true(costly > seeds && cheap > seeds);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_read_finds_what_was_written),
        cmocka_unit_test(a_safe_plan_holds_in_every_order_of_the_graph),
        cmocka_unit_test(any_plan_holds_in_every_order_that_keeps_what_it_adds),
        cmocka_unit_test(two_branches_may_run_side_by_side_in_a_safe_plan),
        cmocka_unit_test(waits_are_the_dependencies_that_are_left),
        cmocka_unit_test(pairs_cost_what_adds_a_dependency),
        cmocka_unit_test(equally_low_plans_add_fewer_dependencies),
        cmocka_unit_test(a_concatenation_without_copies_adds_no_wait),
        cmocka_unit_test(streams_of_a_program_give_its_problem_clocks),
        cmocka_unit_test(in_place_waits_for_the_last_reader),
        cmocka_unit_test(an_output_nobody_reads_lives_for_its_step),
        cmocka_unit_test(an_input_that_is_an_output_is_never_written_over),
        cmocka_unit_test(outputs_may_be_views_of_an_input_and_of_each_other),
        cmocka_unit_test(a_slice_keeps_only_its_part_alive),
        cmocka_unit_test(the_holders_of_a_step_are_told_by_size),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
