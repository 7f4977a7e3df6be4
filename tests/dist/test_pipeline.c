/* test_pipeline.c - models whose layers are divided among 2 and 4 ranks, and beside that cut within
 * layers and trained on parts of each batch, against one process that goes through the same
 * micro-batches; and how long their ranks stand still, against what is published. */
#ifdef __SANITIZE_THREAD__ /* each takes long, and any finds what threads do to each other */
#define STEPS 2
#define FILTER "so_they_do_*"
#else
#define STEPS 20
#define FILTER NULL
#endif
#include "staged.h"

#include <tenure/occupancy.h>
#include <tenure/program.h>

/* Bit for bit where every gradient is added up in the same order: each parameter is read once, on
 * one part of a batch, whole, by kernels that keep to it. */
static uint64_t compare(const way *how) {
    const tn_grid grid = grid_of(how);
    task it;
    trained whole = {0};
    by_ranks(how, &it);
    alone(how, &whole);
    double far = apart(&whole, &it.got);
    printf("%-12s data %u, tensor %u%s, %u stages of %u, %u micro-batches, %s%s: %.1e apart\n",
           names[how->which], how->data, grid.tensor, how->sequence ? " with sequences" : "",
           how->stages, how->pieces, how->rounds, tn_pipeline_name(how->schedule),
           how->fast ? ", fast" : "", far);
    assert_true(far <= 1e-5);
    bool same = how->data == 1 && grid.tensor == 1 && how->which != TIED && !how->fast;
    if (same) assert_true(far == 0);
    for (uint32_t s = 0; s < STEPS; s++) assert_int_equal(whole.correct[s], it.got.correct[s]);
    forget(&whole);
    forget(&it.got);
    return it.peak[0];
}

static void stages_train_as_one_process(void **state) {
    (void)state;
    for (uint32_t which = 0; which < NETWORKS; which++) {
        compare(&(way){which, 1, 2, 1, 4, TN_PIPELINE_ONE_BACK, which == CNN, 1, false, false});
        if (which != UNET && which != MLP)
            compare(&(way){which, 1, 4, 1, 3, TN_PIPELINE_ALL_AHEAD, false, 1, false, false});
    }
    compare(&(way){TRANSFORMER, 1, 4, 1, 8, TN_PIPELINE_ONE_BACK, true, 1, false, false});
    compare(&(way){MLP, 1, 2, 1, 1, TN_PIPELINE_ONE_BACK, false, 1, false, false});
}

/* The first of two stages keeps what two micro-batches need, however many there are: but for their
 * samples' places. */
static void memory_does_not_grow_where_passes_alternate(void **state) {
    (void)state;
    uint64_t some = compare(&(way){MLP, 1, 2, 1, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    uint64_t many = compare(&(way){MLP, 1, 2, 1, 12, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    uint64_t ahead =
        compare(&(way){MLP, 1, 2, 1, 12, TN_PIPELINE_ALL_AHEAD, false, 1, false, false});
    printf("%llu bytes for 4, %llu for 12, %llu with all ahead\n", (unsigned long long)some,
           (unsigned long long)many, (unsigned long long)ahead);
    assert_true(many <= some + some / 10);
    assert_true(ahead > many + many / 2);
}

static void so_they_do_with_several_pieces_each(void **state) {
    (void)state;
    compare(&(way){TRANSFORMER, 1, 2, 2, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){MLP, 1, 2, 3, 6, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){UNET, 1, 4, 2, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){TIED, 1, 3, 2, 3, TN_PIPELINE_ONE_BACK, false, 1, false, false});
}

static void so_they_do_on_parts_of_a_batch(void **state) {
    (void)state;
    compare(&(way){TRANSFORMER, 2, 2, 1, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){MLP, 2, 2, 2, 2, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){TIED, 2, 2, 1, 2, TN_PIPELINE_ALL_AHEAD, false, 1, false, false});
}

/* Every rank has some of each layer of some of the layers, and a part of each batch. */
static void so_they_do_with_parts_of_layers(void **state) {
    const tn_pipeline back = TN_PIPELINE_ONE_BACK, ahead = TN_PIPELINE_ALL_AHEAD;
    (void)state;
    compare(&(way){TRANSFORMER, 2, 2, 1, 4, back, false, 2, false, false});
    compare(&(way){TRANSFORMER, 1, 4, 1, 3, ahead, false, 2, false, false});
    compare(&(way){TRANSFORMER, 1, 2, 2, 4, back, true, 4, false, false});
    compare(&(way){MLP, 1, 2, 3, 4, back, false, 2, false, false});
    compare(&(way){MLP, 2, 2, 1, 1, back, false, 2, false, false});
    compare(&(way){CNN, 1, 2, 1, 2, back, false, 2, false, false});
    compare(&(way){DROPS, 1, 2, 1, 3, back, false, 2, false, false});
    compare(&(way){TIED, 1, 2, 1, 4, back, false, 2, false, false});
    compare(&(way){TIED, 2, 2, 2, 2, ahead, false, 2, false, false});
}

/* What lies between is kept in parts, and put together again where it is needed again. */
static void and_of_what_lies_between(void **state) {
    const tn_pipeline back = TN_PIPELINE_ONE_BACK;
    (void)state;
    uint64_t whole = compare(&(way){TRANSFORMER, 1, 2, 1, 4, back, false, 2, false, false});
    uint64_t parts = compare(&(way){TRANSFORMER, 1, 2, 1, 4, back, false, 2, true, false});
    printf("peak %llu, with what lies between in parts %llu\n", (unsigned long long)whole,
           (unsigned long long)parts);
    assert_true(parts < whole);
    compare(&(way){TRANSFORMER, 2, 2, 2, 2, back, false, 2, true, false});
    compare(&(way){DROPS, 1, 2, 1, 2, back, false, 4, true, false});
}

/* What ranks of a stage have alike goes from stage to stage once, in parts: the same bits in as
 * much memory, 1/t of the bytes between stages. */
static void what_they_have_alike_goes_in_parts(void **state) {
    (void)state;
    for (uint32_t tensor = 2; tensor <= 4; tensor *= 2) {
        way how = {TRANSFORMER, 1, 2, 1, 3, TN_PIPELINE_ONE_BACK, false, tensor, false, false};
        task parts, whole;
        by_ranks(&how, &parts);
        how.whole = true;
        by_ranks(&how, &whole);
        assert_true(apart(&parts.got, &whole.got) == 0);
        for (uint32_t r = 0; r < 2 * tensor; r++) {
            printf("rank %u of %u: %llu bytes to the other stage, %llu where each sends all\n", r,
                   2 * tensor, (unsigned long long)parts.direct[r],
                   (unsigned long long)whole.direct[r]);
            assert_true(whole.direct[r] > 0);
            assert_int_equal(parts.direct[r] * tensor, whole.direct[r]);
            assert_int_equal(parts.peak[r], whole.peak[r]);
        }
        forget(&parts.got);
        forget(&whole.got);
    }
}

/* Ranks that have the same of the model divide what they keep of it: not one bit is another. */
static void dividing_what_stages_keep_changes_no_bit(void **state) {
    const tn_pipeline back = TN_PIPELINE_ONE_BACK, ahead = TN_PIPELINE_ALL_AHEAD;
    const way all[] = {{TRANSFORMER, 2, 2, 1, 4, back, false, 1, false, false},
                       {TRANSFORMER, 2, 2, 1, 2, back, false, 2, true, false},
                       {CNN, 2, 2, 1, 3, ahead, false, 1, false, false},
                       {MLP, 4, 2, 1, 2, back, false, 1, false, false},
                       {TIED, 2, 2, 2, 2, ahead, false, 2, false, false}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        task plain, divided;
        const way how = all[i];
        const bool early = i % 2 == 0;
        by_ranks_that_share(&how, TN_SHARD_NONE, early, &plain);
        for (tn_shard shard = TN_SHARD_OPTIMIZER; shard < TN_SHARD_COUNT; shard++) {
            by_ranks_that_share(&how, shard, early, &divided);
            printf("%-12s data %u, tensor %u, %u stages of %u, %s: peak %llu, plain %llu\n",
                   names[how.which], how.data, how.tensor, how.stages, how.pieces,
                   tn_shard_name(shard), (unsigned long long)divided.peak[0],
                   (unsigned long long)plain.peak[0]);
            assert_true(apart(&plain.got, &divided.got) == 0);
            forget(&divided.got);
        }
        forget(&plain.got);
    }
}

/* --- how long they stand still --- */

/* One operator of each pass takes all of its time, a backward one twice as long; what is said to
 * others takes none. */
static void put_passes(tn_timeline *line, const staged *it, const tn_program *program) {
    const tn_stages *stages = it->step.stages;
    const tn_instruction *list = tn_program_instructions(program);
    uint32_t count = tn_program_count(program);
    bool *begun = calloc((size_t)stages->parts * stages->rounds * 2, sizeof *begun);
    tn_occupancy *occupancy;
    tn_trace *trace;
    double now = 0;
    assert_int_equal(tn_occupancy_create(program, NULL, &occupancy, NULL), TN_OK);
    assert_int_equal(tn_trace_create(NULL, count, &trace, NULL), TN_OK);
    for (uint32_t s = 0; s < count; s++) {
        tn_event event = {.opcode = list[s].opcode,
                          .step = s,
                          .stream = list[s].stream,
                          .op = list[s].op,
                          .tensor = list[s].tensor,
                          .body = TN_NONE,
                          .start_s = now};
        if (list[s].opcode == TN_APPLY) {
            const tn_op *op = tn_graph_op(it->step.graph, list[s].op);
            const tn_home *home = &stages->homes[op->outputs[0]];
            bool back = home->way == TN_WAY_BACKWARD;
            size_t pass = ((size_t)home->part * stages->rounds + home->round) * 2 + back;
            if (home->way != TN_WAY_UPDATE && home->of == TN_NONE && !begun[pass]) {
                begun[pass] = true;
                event.duration_s = 1 + back;
            }
        }
        now += event.duration_s;
        tn_trace_add(trace, &event);
    }
    assert_int_equal(
        tn_timeline_add(line, it->rank, TN_TIMELINE_PREDICTED, occupancy, trace, 0, 0, NULL),
        TN_OK);
    tn_trace_destroy(trace);
    tn_occupancy_destroy(occupancy);
    free(begun);
}

/* Of P stages with V pieces each and M micro-batches, a bubble of (P - 1) / V passes forward and as
 * many backward (Narayanan et al. 2021, section 2.2), by either order of passes. */
static void bubble(const way *how) {
    tn_program *all, *stage;
    tn_timeline *line;
    staged one;
    begin_alone(&one, how, 0);
    kit_must(&one.run, step_of(&one, &one.run.error));
    kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
    kit_must(&one.run, tn_timeline_create(NULL, "m", how->stages, &line, &one.run.error));
    for (one.rank = 0; one.rank < how->stages; one.rank++) {
        kit_must(&one.run, divide(&one, all, &stage, &one.run.error));
        put_passes(line, &one, stage);
        tn_program_destroy(stage);
    }
    kit_must(&one.run, tn_timeline_meet(line, &one.run.error));
    for (uint32_t r = 0; r < how->stages; r++) {
        tn_timeline_sums sums = tn_timeline_measure(line, r, TN_TIMELINE_PREDICTED);
        printf("%u stages of %u, %u micro-batches, %s: rank %u: %g, %g still\n", how->stages,
               how->pieces, how->rounds, tn_pipeline_name(how->schedule), r, sums.compute_s,
               sums.idle_s);
        assert_true(sums.compute_s == 3.0 * how->rounds * how->pieces);
        assert_true(sums.idle_s == 3.0 * (how->stages - 1));
    }
    tn_timeline_destroy(line);
    tn_program_destroy(all);
    close_rank(&one);
}

static void they_stand_still_as_long_as_published(void **state) {
    (void)state;
    for (uint32_t stages = 2; stages <= 4; stages++) {
        bubble(&(way){MLP, 1, stages, 1, 8, TN_PIPELINE_ONE_BACK, false, 1, false, false});
        bubble(&(way){MLP, 1, stages, 1, 5, TN_PIPELINE_ALL_AHEAD, false, 1, false, false});
    }
    bubble(&(way){TRANSFORMER, 1, 2, 2, 8, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    bubble(&(way){TRANSFORMER, 1, 4, 2, 8, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    bubble(&(way){MLP, 1, 2, 3, 6, TN_PIPELINE_ONE_BACK, false, 1, false, false});
}

/* --- what cannot be --- */

/* The list without its first message, and who waits for that on its own rank. */
static uint32_t without_one(const tn_instruction *list, uint32_t count, tn_instruction *to) {
    uint32_t made = 0, gone = 0;
    for (uint32_t s = 0; s < count; s++) {
        if (list[s].opcode == TN_SEND && gone == 0)
            gone = list[s].signal;
        else if (list[s].opcode != TN_WAIT || gone == 0 || list[s].wait != gone)
            to[made++] = list[s];
    }
    assert_true(gone != 0 && made < count);
    return made;
}

static void a_message_that_is_not_sent_is_told_before_anything_runs(void **state) {
    const way how = {MLP, 1, 2, 1, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false};
    tn_error error = {0};
    tn_program *stages[2], *all, *less;
    staged one;
    (void)state;
    begin_alone(&one, &how, 0);
    kit_must(&one.run, step_of(&one, &one.run.error));
    kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
    for (one.rank = 0; one.rank < 2; one.rank++)
        kit_must(&one.run, divide(&one, all, &stages[one.rank], &one.run.error));
    kit_must(&one.run, tn_programs_verify((const tn_program *const *)stages, 2, &error));
    uint32_t count = tn_program_count(stages[0]);
    tn_instruction *list = malloc(count * sizeof *list);
    count = without_one(tn_program_instructions(stages[0]), count, list);
    kit_must(&one.run,
             tn_program_from(one.step.graph, list, count, NULL, 0, &less, &one.run.error));
    const tn_program *const odd[] = {less, stages[1]};
    assert_int_equal(tn_programs_verify(odd, 2, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "rank 0 has no SEND to rank 1"));
    assert_non_null(strstr(error.where, "rank 1"));
    free(list);
    tn_program_destroy(less);
    for (uint32_t s = 0; s < 2; s++) tn_program_destroy(stages[s]);
    tn_program_destroy(all);
    close_rank(&one);
}

/* The list without the first of those that nobody waits for by a signal. */
static uint32_t without_a(tn_opcode opcode, const tn_instruction *list, uint32_t count,
                          tn_instruction *to) {
    uint32_t made = 0;
    bool gone = false;
    for (uint32_t s = 0; s < count; s++) {
        bool goes = !gone && list[s].opcode == opcode && list[s].signal == 0;
        if (!goes) to[made++] = list[s];
        gone = gone || goes;
    }
    assert_true(gone);
    return made;
}

/* Programs that ranks have made by themselves: all of 2 x 2 x 2. */
static void programs_of_all_ranks_hold_together(void **state) {
    const way how = {TRANSFORMER, 2, 2, 1, 4, TN_PIPELINE_ONE_BACK, false, 2, false, false};
    tn_error error = {0};
    tn_program *of[RANKS_MOST], *all, *less;
    staged *ranks = calloc(RANKS_MOST, sizeof *ranks);
    (void)state;
    for (uint32_t r = 0; r < RANKS_MOST; r++) {
        begin_alone(&ranks[r], &how, r);
        ranks[r].grid.data = how.data;
        kit_run *run = &ranks[r].run;
        kit_must(run, step_of(&ranks[r], &run->error));
        kit_must(run, tn_program_create(ranks[r].step.graph, NULL, &all, &run->error));
        kit_must(run, divide(&ranks[r], all, &of[r], &run->error));
        tn_program_destroy(all);
    }
    if (tn_programs_verify((const tn_program *const *)of, RANKS_MOST, &error) != TN_OK)
        fail_msg("%s: %s", error.where, error.message);
    for (uint32_t r = 0; r < RANKS_MOST; r++) {
        uint32_t count = tn_program_count(of[r]);
        tn_instruction *list = malloc(count * sizeof *list);
        tn_program *was = of[r];
        uint32_t some = without_a(TN_GATHER, tn_program_instructions(was), count, list);
        assert_int_equal(tn_program_from(ranks[r].step.graph, list, some, NULL, 0, &less, &error),
                         TN_E_INVALID);
        assert_non_null(strstr(error.message, "one of its 2 parts is there"));
        count = without_a(TN_REDUCE, tn_program_instructions(was), count, list);
        kit_must(&ranks[r].run,
                 tn_program_from(ranks[r].step.graph, list, count, NULL, 0, &less, &error));
        of[r] = less;
        assert_int_equal(tn_programs_verify((const tn_program *const *)of, RANKS_MOST, &error),
                         TN_E_INVALID);
        assert_non_null(strstr(error.message, "group "));
        of[r] = was;
        tn_program_destroy(less);
        free(list);
    }
    for (uint32_t r = 0; r < RANKS_MOST; r++) {
        tn_program_destroy(of[r]);
        close_rank(&ranks[r]);
    }
    free(ranks);
}

static void refuse(const way *how, void (*change)(tn_train_options *options), tn_status wanted,
                   const char *words) {
    tn_program *all, *stage;
    staged one;
    begin_alone(&one, how, 0);
    if (change != NULL) change(&one.run.train);
    tn_status status = step_of(&one, &one.run.error);
    if (status == TN_OK) {
        kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
        one.grid.pipeline = how->data; /* stages that the parts are not for */
        status = divide(&one, all, &stage, &one.run.error);
        tn_program_destroy(all);
    }
    if (status != wanted || strstr(one.run.error.message, words) == NULL)
        fail_msg("%s: %s", tn_status_name(status), one.run.error.message);
    close_rank(&one);
}

/* As if a rewrite had put what reads a parameter where that is not updated. */
static void what_is_read_where_it_is_not_updated_is_refused(void **state) {
    const way how = {MLP, 1, 2, 1, 2, TN_PIPELINE_ONE_BACK, false, 1, false, false};
    tn_program_pipeline_options options = TN_PROGRAM_PIPELINE_OPTIONS_INIT;
    tn_program *all, *stage;
    staged one;
    (void)state;
    begin_alone(&one, &how, 0);
    kit_must(&one.run, step_of(&one, &one.run.error));
    kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
    tn_stages stages = *one.step.stages;
    tn_tensor_id first = one.step.parameters[0].parameter;
    tn_home *homes = malloc(stages.tensors * sizeof *homes);
    memcpy(homes, stages.homes, stages.tensors * sizeof *homes);
    assert_int_equal(homes[first].readers, 1);
    homes[first].readers = 2;
    stages.homes = homes;
    options.stages = &stages;
    options.stage_count = 2;
    tn_error error = {0};
    assert_int_equal(tn_program_pipeline(all, &options, &stage, &error), TN_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, tn_graph_tensor(one.step.graph, first)->name));
    assert_non_null(strstr(error.message, "does not update it"));
    free(homes);
    tn_program_destroy(all);
    close_rank(&one);
}

/* The step of one rank with parts of a stage is not divided as another's. */
static void the_rank_is_that_of_the_step(void **state) {
    const way how = {TRANSFORMER, 1, 2, 1, 2, TN_PIPELINE_ONE_BACK, false, 2, false, false};
    tn_error error = {0};
    staged one = {0};
    tn_program *all, *stage;
    (void)state;
    begin_alone(&one, &how, 1);
    kit_must(&one.run, step_of(&one, &one.run.error));
    kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
    kit_must(&one.run, divide(&one, all, &stage, &one.run.error));
    tn_program_destroy(stage);
    one.rank = 0;
    assert_int_equal(divide(&one, all, &stage, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "of rank 1 of 2 with parts of a stage, not of 0 of 2"));
    tn_program_destroy(all);
    close_rank(&one);
}

static void scale(tn_train_options *options) { options->dynamic_loss_scale = true; }
static void halve(tn_train_options *options) { options->dtype = TN_BFLOAT16; }

static void what_cannot_be_is_refused(void **state) {
    const way plain = {MLP, 1, 2, 1, 2, TN_PIPELINE_ONE_BACK, false, 1, false, false};
    (void)state;
    refuse(&(way){MLP, 1, 60, 1, 2, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "more than the model's");
    refuse(&(way){MLP, 1, 65, 1, 2, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "at most 64 parts");
    refuse(&(way){MLP, 3, 4, 1, 4, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "not the same for 3 stages");
    refuse(&(way){MLP, 2, 2, 2, 3, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "do not divide among 2 stages");
    refuse(&(way){MLP, 1, 2, 1, 1 << 30, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "in one graph");
    refuse(&plain, scale, TN_E_UNSUPPORTED, "all gradients");
    refuse(&plain, halve, TN_E_UNSUPPORTED, "16 bits");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_train_as_one_process),
        cmocka_unit_test(memory_does_not_grow_where_passes_alternate),
        cmocka_unit_test(so_they_do_with_several_pieces_each),
        cmocka_unit_test(so_they_do_on_parts_of_a_batch),
        cmocka_unit_test(so_they_do_with_parts_of_layers),
        cmocka_unit_test(and_of_what_lies_between),
        cmocka_unit_test(what_they_have_alike_goes_in_parts),
        cmocka_unit_test(dividing_what_stages_keep_changes_no_bit),
        cmocka_unit_test(they_stand_still_as_long_as_published),
        cmocka_unit_test(programs_of_all_ranks_hold_together),
        cmocka_unit_test(a_message_that_is_not_sent_is_told_before_anything_runs),
        cmocka_unit_test(what_is_read_where_it_is_not_updated_is_refused),
        cmocka_unit_test(the_rank_is_that_of_the_step),
        cmocka_unit_test(what_cannot_be_is_refused)};
    cmocka_set_test_filter(FILTER);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
