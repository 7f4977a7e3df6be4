/* test_shard.c - ranks that divide optimizer state, gradients or parameters among them train bit by
 * bit as ranks that each keep everything, in what their plans say, and write checkpoints that are
 * the same as of one process, from which any number of ranks goes on, and of which the last one is
 * whole whenever the run ends. */
#include "count.h"
#include "nets.h"

#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <tenure/dist.h>

#define NETS case_count(16, 4)

typedef struct task {
    uint64_t seed, bucket, ahead, steps;
    uint32_t ranks;
    tn_shard shard;
    bool separate;           /* parameters are gathered beside buckets */
    const char *path, *from; /* checkpoints; NULL: none */
    const char *aside;       /* NULL, or that of the last rank, which takes it for the same */
    /* what came out, of each rank */
    double loss[8][8];
    uint64_t arena[8], statics[8];
} task;

static tn_status divide(void *self, const tn_program *program, tn_program **divided,
                        tn_error *error) {
    const task *it = self;
    tn_program_shard_options options = TN_PROGRAM_SHARD_OPTIONS_INIT;
    options.shard = it->shard;
    options.gather_group = it->separate ? 1 : 0;
    options.ahead_bytes = it->ahead;
    return it->shard == TN_SHARD_NONE ? tn_program_average(program, 0, divided, error)
                                      : tn_program_shard(program, &options, divided, error);
}

static tn_status all_steps(const task *it, uint32_t rank, kit_run *run, double *losses,
                           tn_error *error) {
    tn_engine_usage usage;
    TN_TRY(kit_open(run));
    while (tn_trainer_at(run->trainer)->done < it->steps) {
        uint64_t done = tn_trainer_at(run->trainer)->done;
        TN_TRY(tn_trainer_step(run->trainer, &run->error));
        losses[done] = tn_trainer_at(run->trainer)->loss;
    }
    tn_engine_measure(tn_trainer_engine(run->trainer), &usage);
    if (usage.measured_peak != usage.planned_peak)
        TN_FAIL(error, TN_E_INTERNAL, "rank %u: peak %llu, planned %llu", rank,
                (unsigned long long)usage.measured_peak, (unsigned long long)usage.planned_peak);
    if (it->path == NULL) return TN_OK;
    const char *path = it->aside != NULL && rank + 1 == it->ranks ? it->aside : it->path;
    bool writes = rank == 0 || it->shard != TN_SHARD_NONE;
    TN_TRY(tn_trainer_save(run->trainer, path, &run->error)); /* by all, whoever writes */
    if (tn_trainer_at(run->trainer)->saved == writes) return TN_OK;
    TN_FAIL(error, TN_E_INTERNAL, "rank %u has written what is not its own, or not its own", rank);
}

static tn_status one_rank(void *self, tn_world *world, tn_error *error) {
    task *it = self;
    uint32_t rank = tn_world_rank(world), all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    samples *some = calloc(1, sizeof *some);
    tn_engine_usage usage;
    kit_run run;
    TN_TRY(tn_world_group(world, 1, all, it->ranks, error));
    make_net(&run, it->seed, 12 / (int64_t)it->ranks);
    make_samples(some, it->seed);
    const tn_divide by = {.program = divide, .self = it};
    run.options.fill = NULL;
    run.options.data = some->data;
    run.options.resume = it->from;
    run.train.dynamic_loss_scale = false;
    run.train.bucket_bytes = it->bucket;
    run.train.shard = it->shard;
    run.train.shard_count = it->ranks;
    run.train.shard_index = rank;
    run.options.exchange = tn_world_exchange(world);
    if (it->ranks > 1) run.session.divide = &by;
    run.session.exchange = run.options.exchange;
    run.error = (tn_error){0};
    tn_status status = all_steps(it, rank, &run, it->loss[rank], error);
    if (status != TN_OK && error->message[0] == 0) *error = run.error;
    if (status == TN_OK) {
        tn_engine_measure(tn_trainer_engine(run.trainer), &usage);
        it->arena[rank] = usage.arena;
        it->statics[rank] = usage.static_bytes;
    }
    kit_end(&run);
    tn_data_destroy(some->data);
    free(some);
    return status;
}

static tn_status try_task(task *it, tn_error *error) {
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    options.driver = "threads";
    options.ranks = it->ranks;
    return tn_world_run(&options, one_rank, it, error);
}

static void run_task(task *it) {
    tn_error error = {0};
    if (try_task(it, &error) != TN_OK)
        fail_msg("seed %llu, %u ranks, %s: %s: %s", (unsigned long long)it->seed, it->ranks,
                 tn_shard_name(it->shard), error.where, error.message);
}

/* Everything that stays between two steps. */
static void same_checkpoints(const char *a, const char *b, uint64_t seed) {
    tn_checkpoint *one, *two;
    tn_error error;
    if (tn_checkpoint_open(a, NULL, &one, &error) || tn_checkpoint_open(b, NULL, &two, &error))
        fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
    assert_int_equal(tn_checkpoint_count(one), tn_checkpoint_count(two));
    assert_memory_equal(tn_checkpoint_of_run(one), tn_checkpoint_of_run(two),
                        sizeof(tn_checkpoint_run));
    for (uint32_t i = 0; i < tn_checkpoint_count(one); i++) {
        const tn_kept *x = tn_checkpoint_tensor(one, i), *y = tn_checkpoint_tensor(two, i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->role, y->role);
        assert_int_equal(x->size, y->size);
        if (x->size > 0 && memcmp(x->bytes, y->bytes, x->size) != 0)
            fail_msg("seed %llu: '%s' differs", (unsigned long long)seed, x->name);
    }
    tn_checkpoint_close(one);
    tn_checkpoint_close(two);
}

static task draw(uint64_t seed) {
    static const uint64_t buckets[] = {1, 300, 1500, 1 << 20}, ahead[] = {0, 1, 700};
    tn__random random = {.state = seed};
    return (task){.seed = seed,
                  .bucket = buckets[tn__random_below(&random, 4)],
                  .ahead = ahead[tn__random_below(&random, 3)],
                  .steps = 5,
                  .ranks = 2 + (uint32_t)tn__random_below(&random, 3),
                  .separate = tn__random_below(&random, 2)};
}

static void parts_train_as_wholes_do(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= NETS; seed++) {
        task whole = draw(seed);
        whole.path = kit_path("whole.ck");
        run_task(&whole);
        for (tn_shard shard = TN_SHARD_OPTIMIZER; shard <= TN_SHARD_PARAMETERS; shard++) {
            task part = draw(seed);
            part.path = kit_path("part.ck");
            part.shard = shard;
            run_task(&part);
            for (uint32_t r = 0; r < whole.ranks; r++)
                assert_memory_equal(part.loss[r], whole.loss[0], 5 * sizeof(double));
            same_checkpoints(kit_path("whole.ck"), kit_path("part.ck"), seed);
        }
    }
}

/* --- who keeps which part --- */

typedef struct said { /* of a rank among `ranks` */
    uint32_t ranks, count, shift;
    bool lone;
} said;

/* Its step says part `rank + shift` of `count`; its program talks to nobody. */
static tn_status other_parts(void *self, tn_world *world, tn_error *error) {
    const said *it = self;
    kit_run run;
    make_net(&run, 3, 4);
    run.train.dynamic_loss_scale = false;
    run.train.bucket_bytes = 300;
    run.train.shard = TN_SHARD_OPTIMIZER;
    run.train.shard_count = it->count;
    run.train.shard_index = (tn_world_rank(world) + it->shift) % it->count;
    if (!it->lone) run.options.exchange = tn_world_exchange(world);
    tn_status status = kit_open(&run);
    if (status != TN_OK) *error = run.error;
    kit_end(&run);
    return status;
}

static void ranks_keep_the_parts_that_their_steps_say(void **state) {
    static const said tries[] = {
        {4, 2, 0, false}, {2, 4, 0, false}, {2, 2, 1, false}, {1, 2, 0, true}, {2, 2, 0, false}};
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        said it = tries[i];
        tn_world_options options = TN_WORLD_OPTIONS_INIT;
        tn_error error = {0};
        options.driver = "threads";
        options.ranks = it.ranks;
        tn_status status = tn_world_run(&options, other_parts, &it, &error);
        if (status != (i < 4 ? TN_E_INVALID : TN_OK))
            fail_msg("try %u: %s: %s", i, tn_status_name(status), error.message);
        if (i < 4 && strstr(error.message, "shard_count") == NULL)
            fail_msg("try %u: %s", i, error.message);
    }
}

/* --- other numbers of ranks --- */

static double apart(const char *a, const char *b) {
    tn_checkpoint *one, *two;
    tn_error error;
    double worst = 0;
    if (tn_checkpoint_open(a, NULL, &one, &error) || tn_checkpoint_open(b, NULL, &two, &error))
        fail_msg("%s", error.message);
    assert_int_equal(tn_checkpoint_count(one), tn_checkpoint_count(two));
    for (uint32_t i = 0; i < tn_checkpoint_count(one); i++) {
        const tn_kept *x = tn_checkpoint_tensor(one, i), *y = tn_checkpoint_tensor(two, i);
        double far = 0, most = 1e-3;
        assert_int_equal(x->size, y->size);
        for (uint64_t at = 0; x->role == TN_ROLE_PARAMETER && at < x->size; at += 4) {
            float p, q;
            memcpy(&p, x->bytes + at, 4);
            memcpy(&q, y->bytes + at, 4);
            assert_true(isfinite((double)p) && isfinite((double)q));
            most = fmax(most, fabs((double)p));
            far = fmax(far, fabs((double)p - (double)q));
        }
        worst = fmax(worst, far / most);
    }
    tn_checkpoint_close(one);
    tn_checkpoint_close(two);
    return worst;
}

/* Two steps by some ranks, then three by others. */
static void any_number_of_ranks_goes_on(void **state) {
    static const uint32_t numbers[] = {1, 2, 3, 4, 6};
    tn__random random = {.state = 5};
    double worst = 0;
    (void)state;
    for (uint64_t seed = 31; seed < 31 + 3 * NETS / 4; seed++) {
        char whole[128], half[128], part[128];
        task first = draw(seed), then = first;
        first.ranks = numbers[tn__random_below(&random, 5)];
        first.shard = (tn_shard)tn__random_below(&random, TN_SHARD_COUNT);
        then.ranks = numbers[tn__random_below(&random, 5)];
        then.shard = (tn_shard)tn__random_below(&random, TN_SHARD_COUNT);
        snprintf(whole, sizeof whole, "%s", kit_path("whole.ck"));
        snprintf(half, sizeof half, "%s", kit_path("half.ck"));
        snprintf(part, sizeof part, "%s", kit_path("part.ck"));
        task all = first;
        first.steps = 2;
        all.path = whole;
        first.path = then.from = half;
        then.path = part;
        run_task(&all);
        run_task(&first);
        run_task(&then);
        double far = apart(whole, part);
        if (far > 1e-5)
            fail_msg("seed %llu: %u ranks (%s), then %u (%s): %.1e apart", (unsigned long long)seed,
                     first.ranks, tn_shard_name(first.shard), then.ranks, tn_shard_name(then.shard),
                     far);
        if (first.ranks == then.ranks) same_checkpoints(whole, part, seed);
        worst = fmax(worst, far);
    }
    printf("gone on by other numbers of ranks: %.1e apart at most\n", worst);
}

/* --- the end at any moment --- */

/* All that the library does to files goes through these: at number `end_at` of them the process
 * ends, in a write when half of the bytes are there. */
static atomic_uint changes;
static uint32_t end_at;
#define ENDED 77

static bool ends_here(void) { return end_at > 0 && atomic_fetch_add(&changes, 1) + 1 == end_at; }

ssize_t write(int file, const void *bytes, size_t size) {
    if (!ends_here()) return syscall(SYS_write, file, bytes, size);
    (void)syscall(SYS_write, file, bytes, size / 2);
    _exit(ENDED);
}
int rename(const char *from, const char *to) {
    if (ends_here()) _exit(ENDED);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int unlinkat(int folder, const char *name, int flags) {
    if (ends_here()) _exit(ENDED);
    return (int)syscall(SYS_unlinkat, folder, name, flags);
}
int fsync(int file) {
    if (ends_here()) _exit(ENDED);
    return (int)syscall(SYS_fsync, file);
}

/* The second checkpoint takes the place of the first, and does not come to its end. */
static int end_in_the_second(const task *it, const char *path, uint32_t at) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        task again = *it;
        again.from = again.path = path;
        again.steps = 4;
        end_at = at;
        run_task(&again);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_checkpoint_is_whole_whenever_the_run_ends(void **state) {
#ifdef __SANITIZE_THREAD__
    skip(); /* processes that end, not threads */
#endif
    char path[128], wholes[2][128];
    uint32_t at = 0, kept[2] = {0, 0};
    task it = draw(50);
    (void)state;
    snprintf(path, sizeof path, "%s", kit_path("run.ck"));
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(wholes[i], sizeof wholes[i], "%s", kit_path(i == 0 ? "two.ck" : "four.ck"));
        task plain = it;
        plain.steps = 2 + 2 * i;
        plain.path = wholes[i];
        run_task(&plain);
    }
    it.ranks = 3;
    it.shard = TN_SHARD_PARAMETERS;
    for (int ended = ENDED; ended == ENDED;) {
        tn_checkpoint *found;
        tn_error error;
        task first = it;
        first.steps = 2;
        first.path = path;
        run_task(&first);
        assert_int_equal(kit_count("run.ck*"), 1 + it.ranks); /* what was left has gone */
        ended = end_in_the_second(&it, path, ++at);
        if (tn_checkpoint_open(path, NULL, &found, &error) != TN_OK)
            fail_msg("ended at change %u: %s", at, error.message);
        bool later = tn_checkpoint_of_run(found)->step == 4;
        tn_checkpoint_close(found);
        kept[later]++;
        assert_true(apart(path, wholes[later]) <= 1e-5);
    }
    printf("ended at each of %u changes of files: the first checkpoint %u times, the second %u\n",
           at - 1, kept[0], kept[1]);
    assert_true(at > 10 && kept[0] > 3 && kept[1] > 1);
}

/* --- in which folder, and for whom --- */

static uint32_t mode_of(const char *path) {
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    return facts.st_mode & 07777;
}

/* A rank that writes elsewhere: what is there stays, and can be read. */
static void parts_are_beside_what_names_them(void **state) {
    char path[128], aside[128];
    task it = draw(60), other;
    tn_checkpoint *found;
    tn_error error = {0};
    (void)state;
    snprintf(path, sizeof path, "%s", kit_path("here.ck"));
    snprintf(aside, sizeof aside, "%s", kit_path("aside.ck"));
    it.ranks = 2;
    it.shard = TN_SHARD_GRADIENTS;
    it.path = path;
    it.steps = 2;
    run_task(&it);
    assert_int_equal(chmod(path, 0600), 0);
    other = it;
    other.aside = aside;
    other.steps = 4;
    assert_int_equal(try_task(&other, &error), TN_E_IO);
    assert_non_null(strstr(error.message, "part 1 of 2 is not next to it"));
    if (tn_checkpoint_open(path, NULL, &found, &error) != TN_OK) fail_msg("%s", error.message);
    assert_int_equal(tn_checkpoint_of_run(found)->step, 2);
    tn_checkpoint_close(found);
    run_task(&it); /* who may read a checkpoint may read its parts, and nobody else */
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(kit_count("here.ck.*-of-2"), 2);
    for (uint32_t i = 0; i < 2; i++) {
        char part[160];
        snprintf(part, sizeof part, "%s.3.%u-of-2", path, i);
        assert_int_equal(mode_of(part), 0600);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_train_as_wholes_do),
        cmocka_unit_test(ranks_keep_the_parts_that_their_steps_say),
        cmocka_unit_test(any_number_of_ranks_goes_on),
        cmocka_unit_test(a_checkpoint_is_whole_whenever_the_run_ends),
        cmocka_unit_test(parts_are_beside_what_names_them),
    };
    return cmocka_run_group_tests(tests, kit_enter, kit_leave);
}
