/* test_copies.c - a training whose activations are swapped out, encoded, dropped and made again in
 * every step: the bits of the plain one, whole, and killed and resumed.
 *
 * The program of a step is changed tensor by tensor, at random, as far as tn_program_verify takes
 * it: where a tensor is not looked at for a while, it is elsewhere.
 */
#include "kit.h"

#define STEPS_MAX 2048u
#define TENSORS_MAX 1024u

typedef enum how { HOW_KEPT, HOW_SWAPPED, HOW_ENCODED, HOW_AGAIN, HOW_COUNT } how;

typedef struct choice {
    how how;
    uint32_t away, back; /* steps of the plain program: behind the one, before the other */
} choice;

typedef struct busy { /* a program in the making */
    const tn_graph *graph;
    const tn_instruction *plain;
    uint32_t plain_count, signals;
    choice choices[TENSORS_MAX];
    tn_encoded encoded[TENSORS_MAX];
    uint32_t encoded_count;
    tn_instruction list[STEPS_MAX];
    uint32_t count;
} busy;

static tn_instruction *busy_add(busy *b, tn_opcode opcode, tn_tensor_id tensor, uint32_t stream) {
    static const tn_instruction none = TN_INSTRUCTION_INIT;
    assert_true(b->count < STEPS_MAX);
    tn_instruction *made = &b->list[b->count++];
    *made = none;
    made->opcode = opcode;
    made->tensor = tensor;
    made->stream = stream;
    return made;
}

static tn_tensor_id busy_form(busy *b, tn_tensor_id id) {
    uint32_t first = tn_graph_tensor_count(b->graph);
    for (uint32_t k = 0; k < b->encoded_count; k++)
        if (b->encoded[k].tensor == id) return first + k;
    b->encoded[b->encoded_count++] = (tn_encoded){.tensor = id, .codec = TN_CODEC_CSR};
    return first + b->encoded_count - 1;
}

static void busy_code(busy *b, tn_opcode opcode, tn_tensor_id id) {
    tn_tensor_id form = busy_form(b, id);
    tn_instruction *it = busy_add(b, opcode, id, 0);
    it->other = form;
    it->codec = TN_CODEC_CSR;
    busy_add(b, TN_DROP, opcode == TN_ENCODE ? id : form, 0);
}

/* Signals of a tensor's copies: 1 + 3 id and the two behind it. */
static void busy_behind(busy *b, uint32_t step, uint32_t at) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(b->graph); id++) {
        const choice *c = &b->choices[id];
        if (c->how == HOW_KEPT || c->away != step) continue;
        if (c->how == HOW_SWAPPED) {
            if (b->list[at].signal == 0) b->list[at].signal = 1 + 3 * id;
            tn_instruction *out = busy_add(b, TN_SWAP_OUT, id, 1);
            out->wait = b->list[at].signal;
            out->signal = 2 + 3 * id;
        } else if (c->how == HOW_ENCODED) {
            busy_code(b, TN_ENCODE, id);
        } else {
            busy_add(b, TN_DROP, id, 0);
        }
    }
}

static void busy_before(busy *b, uint32_t step) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(b->graph); id++) {
        const choice *c = &b->choices[id];
        if (c->how == HOW_SWAPPED && c->back - 1 == step) { /* a step ahead */
            tn_instruction *in = busy_add(b, TN_SWAP_IN, id, 2);
            in->wait = 2 + 3 * id;
            in->signal = 3 + 3 * id;
        }
        if (c->how == HOW_KEPT || c->back != step) continue;
        if (c->how == HOW_SWAPPED) busy_add(b, TN_WAIT, TN_NONE, 0)->wait = 3 + 3 * id;
        if (c->how == HOW_ENCODED) busy_code(b, TN_DECODE, id);
        if (c->how == HOW_AGAIN)
            busy_add(b, TN_APPLY, TN_NONE, 0)->op = tn_graph_tensor(b->graph, id)->producer;
    }
}

static tn_status busy_program(busy *b, tn_program **program, tn_error *error) {
    b->count = 0;
    for (uint32_t s = 0; s < b->plain_count; s++) {
        busy_before(b, s);
        uint32_t at = b->count;
        *busy_add(b, TN_WAIT, TN_NONE, 0) = b->plain[s];
        busy_behind(b, s, at);
    }
    return tn_program_from_encoded(b->graph, b->encoded, b->encoded_count, b->list, b->count, NULL,
                                   0, program, error);
}

static bool busy_touches(const busy *b, const tn_instruction *it, tn_tensor_id id) {
    if (it->opcode != TN_APPLY) return it->tensor == id;
    const tn_op *op = tn_graph_op(b->graph, it->op);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] == id) return true;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] == id) return true;
    return false;
}

/* Where a tensor is looked at: the longest time between two looks. */
static choice busy_gap(const busy *b, tn_tensor_id id) {
    choice found = {0};
    uint32_t last = TN_NONE;
    for (uint32_t s = 0; s < b->plain_count; s++) {
        if (!busy_touches(b, &b->plain[s], id)) continue;
        if (last != TN_NONE && s - last > found.back - found.away)
            found = (choice){.away = last, .back = s};
        last = s;
    }
    return found;
}

/* Tensor by tensor; what is refused stays. */
static void busy_choose(busy *b, tn__random *random, uint32_t *chosen) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(b->graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(b->graph, id);
        tn_program *program = NULL;
        tn_error error;
        uint32_t forms = b->encoded_count;
        choice made = busy_gap(b, id);
        made.how = (how)(1 + tn__random_below(random, HOW_COUNT - 1));
        if (tn_tensor_is_static(tensor) || made.back < made.away + 3) continue;
        if (made.how == HOW_ENCODED && tn_dtype_bits(tensor->dtype) != 32) continue;
        if (made.how == HOW_AGAIN && tensor->producer == TN_NONE) continue;
        b->choices[id] = made;
        if (busy_program(b, &program, &error) == TN_OK) {
            chosen[made.how]++;
        } else {
            b->choices[id].how = HOW_KEPT;
            b->encoded_count = forms;
        }
        tn_program_destroy(program);
    }
}

/* --- runs --- */

typedef struct play {
    kit_run run;
    tn_graph *model;
    tn_training training;
    tn_program *plain, *program;
    tn_setup *setup;
    tn_engine *engine;
} play;

static void play_net(kit_run *run) {
    kit_begin(run, 5);
    tn_tensor_id x = net_input(run->n, TN_FLOAT32, NET_SHAPE(8, 5)), y = x;
    for (int layer = 0; layer < 4; layer++) {
        y = net_dense(run->n, y, layer == 0 ? 5 : 12, 12);
        if (layer % 2 == 0) y = net_batch_norm(run->n, y, 12);
        y = net_unary(run->n, layer == 3 ? "Tanh" : "Relu", y);
    }
    if (net_finish(run->n, x, net_dense(run->n, y, 12, 3)) != TN_OK)
        fail_msg("%s", run->n->error.message);
    run->train.optimizer = TN_OPTIMIZER_ADAM;
    run->options.rate = 1e-2;
    run->options.steps = 12;
    run->options.checkpoint_every = 5;
}

/* seed 0: the plain program. */
static void play_open(play *p, uint64_t seed, uint32_t *chosen) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    kit_run *run = &p->run;
    kernels.plain = true;
    options.kernels = &kernels;
    engine.read = net_read;
    engine.self = run->n;
    engine.poison = seed % 2;
    device.link_bytes_per_s = seed % 3 == 0 ? 0 : 5e6;
    kit_must(run, tn_train_model(run->n->graph, &run->train, &p->model, &run->error));
    kit_must(run, tn_train(p->model, &run->train, &p->training, &run->error));
    kit_must(run, tn_program_create(p->training.graph, NULL, &p->plain, &run->error));
    if (seed > 0) {
        static busy b;
        tn__random random = {.state = seed};
        b = (busy){.graph = p->training.graph,
                   .plain = tn_program_instructions(p->plain),
                   .plain_count = tn_program_count(p->plain)};
        assert_true(tn_graph_tensor_count(b.graph) < TENSORS_MAX);
        busy_choose(&b, &random, chosen);
        kit_must(run, busy_program(&b, &p->program, &run->error));
    }
    options.given_program = seed > 0 ? p->program : p->plain;
    kit_must(run, tn_setup_create(p->training.graph, &options, &p->setup, &run->error));
    kit_must(run, tn_setup_open(p->setup, &device, &engine, &p->engine, &run->error));
    kit_must(run, tn_trainer_create(p->model, &p->training, p->engine, &run->options, &run->trainer,
                                    &run->error));
}

static void play_close(play *p) {
    tn_trainer_destroy(p->run.trainer);
    p->run.trainer = NULL;
    tn_engine_destroy(p->engine);
    tn_setup_destroy(p->setup);
    tn_program_destroy(p->program);
    tn_program_destroy(p->plain);
    tn_training_release(&p->training);
    tn_graph_destroy(p->model);
    kit_end(&p->run);
}

static bool stop_at_7(void *self, const tn_trainer_state *state) {
    (void)self;
    return state->done != 7;
}

/* `lost`: how many steps are done behind the last checkpoint and thrown away. */
static void train(uint64_t seed, const char *path, bool stops, uint32_t lost, uint32_t *chosen) {
    play p = {0};
    play_net(&p.run);
    p.run.options.checkpoint = path;
    p.run.options.go_on = true;
    p.run.options.step = stops ? stop_at_7 : NULL;
    play_open(&p, seed, chosen);
    kit_must(&p.run, tn_trainer_run(p.run.trainer, &p.run.error));
    for (uint32_t i = 0; i < lost; i++)
        kit_must(&p.run, tn_trainer_step(p.run.trainer, &p.run.error));
    tn_engine_usage usage;
    tn_engine_measure(p.engine, &usage);
    if (seed == 0) assert_int_equal(usage.out_bytes, 0);
    play_close(&p);
}

static void same_files(const char *a, const char *b, uint64_t seed) {
    tn__file files[2];
    assert_int_equal(tn__file_map(a, &files[0], NULL), TN_OK);
    assert_int_equal(tn__file_map(b, &files[1], NULL), TN_OK);
    if (files[0].size != files[1].size ||
        memcmp(files[0].bytes, files[1].bytes, files[0].size) != 0)
        fail_msg("seed %llu: other bits", (unsigned long long)seed);
    for (int i = 0; i < 2; i++) tn__file_unmap(&files[i]);
}

static void a_busy_training_has_the_bits_of_the_plain_one(void **state) {
    (void)state;
    uint32_t chosen[HOW_COUNT] = {0};
    const char *plain = kit_path("plain.ck"), *whole = kit_path("whole.ck");
    const char *parts = kit_path("parts.ck");
    train(0, plain, false, 0, chosen);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        train(seed, whole, false, 0, chosen);
        same_files(plain, whole, seed);
        train(seed, parts, true, (uint32_t)(seed % 3), chosen); /* killed behind step 7 */
        train(seed + 100, parts, false, 0, chosen);             /* resumed by another program */
        same_files(plain, parts, seed);
        unlink(whole);
        unlink(parts);
    }
    for (int i = HOW_SWAPPED; i < HOW_COUNT; i++) assert_true(chosen[i] > 20);
    printf("swapped %u, encoded %u, made again %u\n", chosen[HOW_SWAPPED], chosen[HOW_ENCODED],
           chosen[HOW_AGAIN]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_busy_training_has_the_bits_of_the_plain_one),
    };
    return cmocka_run_group_tests(tests, kit_enter, kit_leave);
}
