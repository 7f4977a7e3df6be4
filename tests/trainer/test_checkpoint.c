/* test_checkpoint.c - checkpoints of random tensors, whole and damaged, on full disks too. */
#include "kit.h"

#include <signal.h>
#include <sys/resource.h>

#include "run/trainer/checkpoint.h"

#define SEEDS 40u

static tn__file file_of(const char *path) {
    tn__file file;
    assert_int_equal(tn__file_map(path, &file, NULL), TN_OK);
    return file;
}

static void assert_same_files(const char *a, const char *b) {
    tn__file one = file_of(a), two = file_of(b);
    assert_int_equal(one.size, two.size);
    assert_memory_equal(one.bytes, two.bytes, one.size);
    tn__file_unmap(&one);
    tn__file_unmap(&two);
}

/* What a checkpoint holds of a tensor, against the engine that it was written from. */
static void assert_kept(kit_run *run, const tn_checkpoint *checkpoint, tn_tensor_id id,
                        tn_role role, uint32_t *at) {
    if (id == TN_NONE) return;
    const tn_kept *kept = tn_checkpoint_tensor(checkpoint, (*at)++);
    const tn_tensor *tensor = tn_graph_tensor(tn_trainer_training(run->trainer)->graph, id);
    uint8_t *bytes = malloc(tensor->bytes + 1);
    assert_true(kept != NULL && bytes != NULL);
    assert_string_equal(kept->name, tensor->name);
    assert_int_equal(kept->role, role);
    assert_int_equal(kept->dtype, tensor->dtype);
    assert_int_equal(kept->rank, tensor->rank);
    if (kept->rank > 0) assert_memory_equal(kept->shape, tensor->shape, 8 * kept->rank);
    assert_int_equal(kept->size, tensor->bytes);
    kit_must(run, tn_engine_get_static(tn_trainer_engine(run->trainer), id, bytes, tensor->bytes,
                                       &run->error));
    assert_memory_equal(kept->bytes, bytes, tensor->bytes);
    if (role != TN_ROLE_STATE) {
        assert_true(tn_checkpoint_find(checkpoint, tensor->name) == kept);
        assert_true(tn_trainer_read(run->trainer, tensor->name, bytes, tensor->bytes));
        assert_memory_equal(kept->bytes, bytes, tensor->bytes);
    }
    free(bytes);
}

static void assert_kept_all(kit_run *run, const tn_checkpoint *checkpoint) {
    const tn_training *step = tn_trainer_training(run->trainer);
    uint32_t at = 0;
    for (uint32_t i = 0; i < step->parameter_count; i++) {
        assert_kept(run, checkpoint, step->parameters[i].parameter, TN_ROLE_PARAMETER, &at);
        assert_kept(run, checkpoint, step->parameters[i].state[0], TN_ROLE_STATE, &at);
        assert_kept(run, checkpoint, step->parameters[i].state[1], TN_ROLE_STATE, &at);
        assert_kept(run, checkpoint, step->parameters[i].sum, TN_ROLE_STATE, &at);
    }
    for (uint32_t i = 0; i < step->statistic_count; i++)
        assert_kept(run, checkpoint, step->statistics[i], TN_ROLE_STATISTIC, &at);
    assert_kept(run, checkpoint, step->loss_scale, TN_ROLE_STATE, &at);
    assert_int_equal(at, tn_checkpoint_count(checkpoint));
}

static void what_is_written_is_read_and_written_again(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        kit_run run, other;
        tn_checkpoint *checkpoint;
        kit_tensors(&run, seed, 1);
        run.options.steps = 1 + seed % 4;
        run.options.rate = 1e-2;
        run.options.checkpoint = kit_path("a.ck");
        kit_must(&run, kit_open(&run));
        kit_must(&run, tn_trainer_run(run.trainer, &run.error));
        kit_must(&run, tn_checkpoint_open(kit_path("a.ck"), NULL, &checkpoint, &run.error));
        assert_int_equal(tn_checkpoint_of_run(checkpoint)->step, run.options.steps);
        assert_kept_all(&run, checkpoint);
        tn_checkpoint_close(checkpoint);
        kit_tensors(&other, seed, 2); /* other contents, until it is resumed */
        other.options = run.options;
        other.options.checkpoint = NULL;
        other.options.resume = kit_path("a.ck");
        kit_must(&other, kit_open(&other));
        kit_must(&other, tn_trainer_save(other.trainer, kit_path("b.ck"), &other.error));
        assert_same_files(kit_path("a.ck"), kit_path("b.ck"));
        kit_end(&run);
        kit_end(&other);
    }
}

/* --- damage --- */

static tn__file damaged_make(void) {
    kit_run run;
    kit_tensors(&run, 3, 1);
    run.train.optimizer = TN_OPTIMIZER_MOMENTUM;
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("whole.ck"), &run.error));
    kit_end(&run);
    return file_of(kit_path("whole.ck"));
}

static void assert_refused(const uint8_t *bytes, size_t size, const char *what, size_t at) {
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_checkpoint *checkpoint = NULL;
    tn_error error = {0};
    tn_status status = tn_checkpoint_read("d.ck", bytes, size, &context, &checkpoint, &error);
    if (status != TN_E_INVALID || checkpoint != NULL || strstr(error.message, "d.ck") == NULL)
        fail_msg("%s %zu: %s, '%s'", what, at, tn_status_name(status), error.message);
    assert_int_equal(memory.held, 0);
}

static void every_truncation_and_every_flipped_bit_is_refused(void **state) {
    (void)state;
    tn__file file = damaged_make();
    uint8_t *copy = calloc(1, file.size + 1);
    assert_non_null(copy);
    for (size_t size = 0; size < file.size; size++)
        assert_refused(file.bytes, size, "cut to", size);
    memcpy(copy, file.bytes, file.size);
    assert_refused(copy, file.size + 1, "longer than", file.size);
    for (size_t bit = 0; bit < 8 * file.size; bit++) {
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_refused(copy, file.size, "bit", bit);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(copy);
    tn__file_unmap(&file);
}

/* Whoever wrote the hash as well may say what he likes: nothing outside of the file is read. */
static void damage_under_a_right_hash_stays_inside_of_the_file(void **state) {
    (void)state;
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    tn__file file = damaged_make();
    uint8_t *copy = malloc(file.size);
    assert_non_null(copy);
    for (size_t at = 8; at < file.size; at++)
        for (size_t v = 0; v < sizeof values; v++) {
            tn_checkpoint *checkpoint = NULL;
            memcpy(copy, file.bytes, file.size);
            copy[at] = values[v];
            uint64_t hash = tn__checkpoint_hash(copy, file.size);
            memcpy(copy + offsetof(tn__checkpoint_head, hash), &hash, sizeof hash);
            tn_status status = tn_checkpoint_read("d.ck", copy, file.size, NULL, &checkpoint, NULL);
            assert_true(status == TN_OK || status == TN_E_INVALID);
            for (uint32_t i = 0; status == TN_OK && i < tn_checkpoint_count(checkpoint); i++) {
                const tn_kept *kept = tn_checkpoint_tensor(checkpoint, i);
                assert_true(kept->bytes >= copy && kept->size <= file.size &&
                            kept->bytes + kept->size <= copy + file.size);
                assert_true((const uint8_t *)kept->name + strlen(kept->name) < copy + file.size);
            }
            tn_checkpoint_close(checkpoint);
        }
    free(copy);
    tn__file_unmap(&file);
}

static void no_allocation_that_fails_leaves_anything(void **state) {
    (void)state;
    tn__file file = damaged_make();
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t at = 1; status != TN_OK; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_checkpoint *checkpoint = NULL;
        status = tn_checkpoint_open(kit_path("whole.ck"), &context, &checkpoint, NULL);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        assert_true(at < 1000);
        tn_checkpoint_close(checkpoint);
        assert_int_equal(memory.held, 0);
    }
    tn__file_unmap(&file);
}

/* --- writing --- */

static void a_full_disk_leaves_the_old_checkpoint(void **state) {
    (void)state;
    kit_run run;
    struct rlimit was, little;
    kit_classes(&run, 1);
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("old.ck"), &run.error));
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("kept.ck"), &run.error));
    kit_must(&run, tn_trainer_run(run.trainer, &run.error));
    uint64_t saved = tn_trainer_at(run.trainer)->saved;
    assert_int_equal(tn_trainer_save(run.trainer, "/dev/full", &run.error), TN_E_IO);
    assert_int_equal(tn_trainer_save(run.trainer, kit_path("none/a.ck"), &run.error), TN_E_IO);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 600; room += 100) {
        little = (struct rlimit){.rlim_cur = room, .rlim_max = was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
        tn_status status = tn_trainer_save(run.trainer, kit_path("old.ck"), &run.error);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        assert_int_equal(status, TN_E_IO);
        assert_same_files(kit_path("old.ck"), kit_path("kept.ck"));
        assert_int_equal(kit_count("*.part"), 0);
    }
    assert_int_equal(tn_trainer_at(run.trainer)->saved, saved);
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("old.ck"), &run.error));
    assert_int_equal(tn_trainer_at(run.trainer)->saved, saved + 1);
    kit_end(&run);
}

static void what_is_no_number_is_not_written(void **state) {
    (void)state;
    kit_run run;
    kit_classes(&run, 1);
    kit_must(&run, kit_open(&run));
    tn_tensor_id id = tn_trainer_training(run.trainer)->parameters[0].parameter;
    const tn_tensor *tensor = tn_graph_tensor(tn_trainer_training(run.trainer)->graph, id);
    float *values = calloc(1, tensor->bytes);
    assert_non_null(values);
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("n.ck"), &run.error));
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("m.ck"), &run.error));
    values[2] = NAN;
    kit_must(&run, tn_engine_set_static(tn_trainer_engine(run.trainer), id, values, tensor->bytes,
                                        &run.error));
    assert_int_equal(tn_trainer_save(run.trainer, kit_path("n.ck"), &run.error), TN_E_INVALID);
    assert_non_null(strstr(run.error.message, tensor->name));
    assert_same_files(kit_path("n.ck"), kit_path("m.ck"));
    free(values);
    kit_end(&run);
}

/* --- of another run --- */

static void assert_another(void (*change)(kit_run *run), const char *why) {
    kit_run run;
    kit_classes(&run, 1);
    change(&run);
    run.options.resume = kit_path("run.ck");
    assert_int_equal(kit_open(&run), TN_E_INVALID);
    assert_null(run.trainer);
    if (strstr(run.error.message, why) == NULL) fail_msg("'%s'", run.error.message);
    kit_end(&run);
}

static void change_nothing(kit_run *run) { (void)run; }
static void change_seed(kit_run *run) { run->options.seed = 2; }
static void change_optimizer(kit_run *run) { run->train.optimizer = TN_OPTIMIZER_SGD; }
static void change_dtype(kit_run *run) { run->train.dtype = TN_BFLOAT16; }
static void change_micro(kit_run *run) { run->train.micro_batches = 2; }
static void change_decay(kit_run *run) { run->train.weight_decay = 0.25; }
static void change_scale(kit_run *run) { run->train.loss_scale = 8; }
static void change_statistics(kit_run *run) { run->train.batch_norm_momentum = 0.5; }
static void change_dropout(kit_run *run) { run->train.seed = 7; }
static void change_pruned(kit_run *run) {
    static const tn_prune_schedule half = {.share = 0.5};
    run->options.prune = &half;
}
static void change_loss(kit_run *run) { run->train.loss = TN_LOSS_MEAN_SQUARED; }
static void change_frozen(kit_run *run) {
    static const char *const weights[] = {"weight.*"};
    run->train.freeze = weights;
    run->train.freeze_count = 1;
}
static void change_model(kit_run *run) {
    net_close(run->n);
    net_open(run->n, 1);
    tn_tensor_id x = net_input(run->n, TN_FLOAT32, NET_SHAPE(4, 5));
    assert_int_equal(net_finish(run->n, x, net_dense(run->n, x, 5, 3)), TN_OK);
}

static void a_checkpoint_of_another_run_is_refused(void **state) {
    (void)state;
    kit_run run;
    kit_classes(&run, 1);
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("run.ck"), &run.error));
    kit_end(&run);
    assert_another(change_seed, "another seed");
    assert_another(change_optimizer, "another optimizer: adam there, sgd here");
    assert_another(change_dtype, "another element type: float32 there, bfloat16 here");
    assert_another(change_micro, "another number of micro-batches: 1 there, 2 here");
    assert_another(change_decay, "another weight decay: 0 there, 0.25 here");
    assert_another(change_scale, "another loss scale (0: it adapts): 1 there, 8 here");
    assert_another(change_statistics,
                   "another momentum of running statistics: 0.1 there, 0.5 here");
    assert_another(change_dropout, "another seed of dropout: 0 there, 7 here");
    assert_another(change_pruned, "another share of weights to prune: 0 there, 0.5 here");
    assert_another(change_frozen, "which this run does not train");
    assert_another(change_model, "another model");
    kit_classes(&run, 1);
    change_loss(&run);
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("run.ck"), &run.error));
    kit_end(&run);
    assert_another(change_nothing, "another loss: mean-squared there, cross-entropy here");
}

/* Rewrites a checkpoint as a file of version 3, which lacks the settings after the hash. */
static void make_old(const char *path) {
    static uint8_t bytes[1 << 16];
    const size_t more = sizeof(((tn__checkpoint_head *)0)->more);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    tn__checkpoint_head head;
    assert_true(size > sizeof head && size < sizeof bytes);
    memmove(bytes + sizeof head - more, bytes + sizeof head, size - sizeof head);
    size -= more;
    bytes[8] = 3;
    uint64_t hash = tn__checkpoint_hash(bytes, size);
    memcpy(bytes + offsetof(tn__checkpoint_head, hash), &hash, sizeof hash);
    file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A file of version 3 is read. Settings that it lacks are not compared, and all others are. */
static void a_checkpoint_of_version_3_is_read(void **state) {
    (void)state;
    kit_run run;
    kit_classes(&run, 1);
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("run.ck"), &run.error));
    kit_end(&run);
    make_old(kit_path("run.ck"));
    assert_another(change_seed, "another seed: 0 there, 2 here");
    assert_another(change_optimizer, "another optimizer: adam there, sgd here");
    for (int decays = 0; decays < 2; decays++) {
        kit_classes(&run, 1);
        if (decays) change_decay(&run);
        run.options.resume = kit_path("run.ck");
        kit_must(&run, kit_open(&run));
        kit_end(&run);
    }
}

/* A model that is run finds what was trained, and is refused when it is another. */
static void a_checkpoint_makes_the_model_that_it_is_of(void **state) {
    (void)state;
    kit_run run;
    tn_checkpoint *checkpoint;
    tn_graph *model = NULL;
    kit_classes(&run, 1);
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("run.ck"), &run.error));
    kit_must(&run, tn_checkpoint_open(kit_path("run.ck"), NULL, &checkpoint, &run.error));
    kit_must(&run, tn_checkpoint_model(checkpoint, run.n->graph, &model, &run.error));
    for (uint32_t i = 0; i < tn_checkpoint_count(checkpoint); i++) {
        const tn_kept *kept = tn_checkpoint_tensor(checkpoint, i);
        if (kept->role == TN_ROLE_STATE) continue;
        tn_tensor_id id = tn_graph_find(model, kept->name);
        assert_true(id != TN_NONE && tn_graph_tensor(model, id)->kind == TN_KIND_PARAMETER);
    }
    tn_graph_destroy(model);
    model = NULL;
    change_model(&run);
    assert_int_equal(tn_checkpoint_model(checkpoint, run.n->graph, &model, &run.error),
                     TN_E_INVALID);
    assert_null(model);
    tn_checkpoint_close(checkpoint);
    kit_end(&run);
}

/* --- of several ranks --- */

static void write_sealed(const char *path, uint8_t *bytes, size_t size, const char *magic,
                         uint32_t count) {
    tn__checkpoint_head head = {.version = TN__CHECKPOINT_VERSION, .count = count};
    memcpy(head.magic, magic, 8);
    tn__checkpoint_seal(bytes, size, &head);
    assert_int_equal(tn__file_write(path, bytes, size, NULL), TN_OK);
}

/* One part without tensors, that is named `count` times as of so many. */
static tn_status open_named(uint32_t count, tn_error *error) {
    tn_checkpoint *checkpoint = NULL, *whole = NULL;
    uint8_t part[sizeof(tn__checkpoint_head)] = {0}, index[512] = {0};
    uint8_t *at = index + sizeof(tn__checkpoint_head);
    char name[40], path[128];
    uint32_t length = (uint32_t)snprintf(name, sizeof name, "s.ck.1.0-of-%u", count);
    snprintf(path, sizeof path, "%s", kit_path(name));
    write_sealed(path, part, sizeof part, TN__SHARD_MAGIC, 0);
    assert_int_equal(tn_checkpoint_open(path, NULL, &whole, error), TN_E_INVALID);
    assert_non_null(strstr(error->message, "one of the parts"));
    const uint64_t entry[] = {sizeof part, tn__checkpoint_hash(part, sizeof part)};
    for (uint32_t i = 0; i < count; i++) {
        memcpy(at, &length, 4);
        memcpy(at + 4, name, length + 1);
        memcpy(at + 5 + length, entry, sizeof entry);
        at += 5 + length + sizeof entry;
    }
    write_sealed(kit_path("s.ck"), index, (size_t)(at - index), TN__SHARDS_MAGIC, count);
    assert_int_equal(tn_checkpoint_read("s", index, (size_t)(at - index), NULL, &whole, error),
                     TN_E_INVALID);
    assert_non_null(strstr(error->message, "lie next to it"));
    tn_status status = tn_checkpoint_open(kit_path("s.ck"), NULL, &checkpoint, error);
    tn_checkpoint_close(checkpoint);
    return status;
}

static void a_part_is_named_once(void **state) {
    tn_error error = {0};
    (void)state;
    assert_int_equal(open_named(1, &error), TN_OK);
    assert_int_equal(open_named(3, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "part 1 of 3 is 's.ck.1.0-of-3'"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_and_written_again),
        cmocka_unit_test(every_truncation_and_every_flipped_bit_is_refused),
        cmocka_unit_test(damage_under_a_right_hash_stays_inside_of_the_file),
        cmocka_unit_test(no_allocation_that_fails_leaves_anything),
        cmocka_unit_test(a_full_disk_leaves_the_old_checkpoint),
        cmocka_unit_test(what_is_no_number_is_not_written),
        cmocka_unit_test(a_checkpoint_of_another_run_is_refused),
        cmocka_unit_test(a_checkpoint_of_version_3_is_read),
        cmocka_unit_test(a_checkpoint_makes_the_model_that_it_is_of),
        cmocka_unit_test(a_part_is_named_once),
    };
    return cmocka_run_group_tests(tests, kit_enter, kit_leave);
}
