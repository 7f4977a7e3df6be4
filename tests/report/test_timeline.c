/* test_timeline.c - what several ranks did: random runs, their sums counted tick by tick; the JSON
 * against the events; ranks as bytes, whole, cut and damaged; random lists of several ranks that
 * wait for each other, each step as early as all before it allow; memory that runs out. */
#include <math.h>
#include <unistd.h>

#include <jansson.h>

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "count.h"
#include "report_tools.h"

#include "graph/kit.h"
#include "report/timeline/timeline.h"

enum { STEPS = 96, TICKS = 400, RANKS = 3 };

typedef struct ran {
    test_kit kit;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_trace *trace;
    uint32_t steps;
    uint64_t live[STEPS][TN_KIND_COUNT];
} ran;

/* A chain with a REDUCE behind some of its operators. */
static void make(ran *made, tn__random *random) {
    tn_program *plain;
    tn_instruction list[STEPS];
    *made = (ran){.kit = kit_open()};
    test_kit *kit = &made->kit;
    tn_tensor_id x = kit_input(kit, "</script>\"x", TN_FLOAT32, KIT_SHAPE(3, 7));
    uint32_t ops = 3 + (uint32_t)tn__random_below(random, 20);
    for (uint32_t i = 0; i < ops; i++) {
        char name[32];
        snprintf(name, sizeof name, "<%u>", i);
        tn_tensor_id y = kit_tensor(kit, name, i + 1 == ops ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION,
                                    TN_UNDEFINED, TN_RANK_UNKNOWN, NULL);
        kit_op_to(kit, i % 2 == 0 ? "Relu" : "Sigmoid", KIT_LIST(x), KIT_LIST(y));
        x = y;
    }
    assert_ok(tn_graph_infer(kit->graph, &failure));
    assert_ok(tn_program_create(kit->graph, NULL, &plain, &failure));
    for (uint32_t s = 0; s < tn_program_count(plain); s++) {
        tn_instruction reduce = TN_INSTRUCTION_INIT;
        list[made->steps++] = tn_program_instructions(plain)[s];
        if (list[made->steps - 1].opcode != TN_APPLY || tn__random_below(random, 2) == 0) continue;
        reduce.opcode = TN_REDUCE;
        reduce.tensor = tn_graph_op(kit->graph, list[made->steps - 1].op)->outputs[0];
        list[made->steps++] = reduce;
    }
    assert_ok(tn_program_from(kit->graph, list, made->steps, NULL, 0, &made->program, &failure));
    assert_ok(tn_occupancy_create(made->program, NULL, &made->occupancy, &failure));
    assert_ok(tn_trace_create(NULL, 1000, &made->trace, &failure));
    assert_ok(tn_occupancy_live(made->occupancy, made->live, &failure));
    tn_program_destroy(plain);
}

static void unmake(ran *made) {
    tn_trace_destroy(made->trace);
    tn_occupancy_destroy(made->occupancy);
    tn_program_destroy(made->program);
    kit_close(&made->kit);
}

typedef struct counted { /* in ticks */
    bool compute[TICKS], talk[TICKS];
    uint32_t first, last;
    uint64_t peak, sent;
} counted;

/* Anywhere in whole ticks of a microsecond: what lies over each other counts once. */
static void tell(ran *made, uint32_t run, tn__random *random, counted *count) {
    *count = (counted){.first = TICKS};
    for (uint32_t step = 0; step < made->steps; step++) {
        const tn_instruction *it = &tn_program_instructions(made->program)[step];
        uint32_t from = (uint32_t)tn__random_below(random, TICKS - 20);
        uint32_t ticks = (uint32_t)tn__random_below(random, 20);
        tn_event event = {.kind = TN_EVENT_STEP,
                          .opcode = it->opcode,
                          .step = step,
                          .run = run,
                          .stream = it->opcode == TN_REDUCE ? 1 : 0,
                          .op = it->op,
                          .tensor = it->tensor,
                          .body = TN_NONE,
                          .bytes = it->opcode == TN_APPLY ? 0 : 84,
                          .start_s = 1000 + from * 1e-6,
                          .duration_s = ticks * 1e-6};
        memcpy(event.live, made->live[step], sizeof event.live);
        tn_trace_add(made->trace, &event);
        uint64_t live = 0;
        for (int kind = 0; kind < TN_KIND_COUNT; kind++) live += event.live[kind];
        if (live > count->peak) count->peak = live;
        if (from < count->first) count->first = from;
        if (from + ticks > count->last) count->last = from + ticks;
        if (it->opcode == TN_REDUCE) count->sent += 84;
        bool *to = it->opcode == TN_APPLY ? count->compute : count->talk;
        for (uint32_t t = from; t < from + ticks; t++)
            if (it->opcode == TN_APPLY || it->opcode == TN_REDUCE) to[t] = true;
    }
}

static void near_ticks(double seconds, uint32_t ticks) {
    double off = seconds * 1e6 - ticks;
    assert_true(off > -1e-3 && off < 1e-3);
}

static void check_sums(const tn_timeline *line, uint32_t rank, tn_timeline_kind kind,
                       const counted *count) {
    tn_timeline_sums sums = tn_timeline_measure(line, rank, kind);
    uint32_t compute = 0, talk = 0, both = 0;
    for (uint32_t t = 0; t < TICKS; t++) {
        compute += count->compute[t];
        talk += count->talk[t];
        both += count->compute[t] && count->talk[t];
    }
    near_ticks(sums.span_s, count->last - count->first);
    near_ticks(sums.compute_s, compute);
    near_ticks(sums.talk_s, talk);
    near_ticks(sums.hidden_s, both);
    near_ticks(sums.idle_s, count->last - count->first - compute);
    assert_int_equal(sums.peak, count->peak);
    assert_int_equal(sums.sent, count->sent);
}

static char *written(const tn_timeline *line, const char *suffix, size_t *size) {
    char path[64];
    snprintf(path, sizeof path, "timeline-%d%s", (int)getpid(), suffix);
    assert_ok(tn_timeline_write(line, path, &failure));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    bytes[*size] = '\0';
    fclose(file);
    remove(path);
    return bytes;
}

/* Every instruction that takes time is there, with its name, its bytes and what lived. */
static void check_json(const tn_timeline *line, const ran *made, uint32_t rank) {
    size_t size;
    json_error_t error;
    char *text = written(line, ".json", &size);
    json_t *root = json_loadb(text, size, 0, &error);
    assert_non_null(root);
    json_t *of = json_array_get(json_object_get(root, "ranks"), rank);
    json_t *run = json_object_get(of, "measured"), *names = json_object_get(run, "name");
    assert_true(json_is_null(json_object_get(of, "predicted")));
    assert_int_equal(json_integer_value(json_object_get(run, "count")), made->steps);
    for (uint32_t step = 0; step < made->steps; step++) {
        const tn_instruction *it = &tn_program_instructions(made->program)[step];
        const char *name = it->op != TN_NONE ? tn_graph_op(made->kit.graph, it->op)->name
                                             : tn_graph_tensor(made->kit.graph, it->tensor)->name;
        uint64_t live = 0, found = 0;
        for (int kind = 0; kind < TN_KIND_COUNT; kind++) live += made->live[step][kind];
        for (size_t i = 0; i < json_array_size(names); i++) {
            if (strcmp(json_string_value(json_array_get(names, i)), name) != 0) continue;
            json_t *lives = json_array_get(json_object_get(run, "live"), i);
            found += (uint64_t)json_integer_value(lives) == live;
        }
        assert_true(found > 0);
    }
    json_decref(root);
    free(text);
}

static void sums_are_those_of_counting(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(200, 20); seed++) {
        tn__random random = {seed};
        tn_timeline *line;
        counted counts[2];
        ran made;
        make(&made, &random);
        uint32_t rank = (uint32_t)tn__random_below(&random, RANKS);
        assert_ok(tn_timeline_create(NULL, "a </script> model", RANKS, &line, &failure));
        for (uint32_t run = 0; run < 2; run++) tell(&made, run, &random, &counts[run]);
        for (uint32_t run = 0; run < 2; run++) {
            assert_ok(tn_timeline_add(line, rank, TN_TIMELINE_MEASURED, made.occupancy, made.trace,
                                      run, 5, &failure));
            check_sums(line, rank, TN_TIMELINE_MEASURED, &counts[run]);
        }
        assert_int_equal(tn_timeline_measure(line, (rank + 1) % RANKS, TN_TIMELINE_MEASURED).talks,
                         0);
        if (seed % 20 == 0) check_json(line, &made, rank);
        double alone = tn_timeline_measure(line, rank, TN_TIMELINE_MEASURED).idle_s;
        assert_ok(tn_timeline_add(line, (rank + 1) % RANKS, TN_TIMELINE_MEASURED, made.occupancy,
                                  made.trace, 1, 5 + 1e-3, &failure)); /* 1,000 ticks behind */
        for (uint32_t r = rank; r <= rank + 1; r++)
            near_ticks(tn_timeline_measure(line, r % RANKS, TN_TIMELINE_MEASURED).idle_s - alone -
                           1e-3,
                       0);
        tn_timeline_destroy(line);
        unmake(&made);
    }
}

static void ranks_go_as_bytes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        tn__random random = {seed * 977};
        tn_timeline *from, *to;
        counted count;
        ran made;
        void *bytes;
        uint64_t size;
        size_t sizes[2];
        make(&made, &random);
        assert_ok(tn_timeline_create(NULL, "m", 2, &from, &failure));
        assert_ok(tn_timeline_create(NULL, "m", 2, &to, &failure));
        tell(&made, 0, &random, &count);
        assert_ok(tn_timeline_rank(from, 1, "data 1", 12345, &failure));
        assert_ok(tn_timeline_add(from, 1, TN_TIMELINE_MEASURED, made.occupancy, made.trace, 0, 0,
                                  &failure));
        assert_ok(tn_timeline_pack(from, 1, &bytes, &size, &failure));
        for (int cut = 0; cut < 40; cut++) /* a part of it, copied so that reading on is seen */ {
            uint64_t part = tn__random_below(&random, size);
            uint8_t *copy = malloc(part + 1);
            assert_non_null(copy);
            memcpy(copy, bytes, part);
            assert_int_equal(tn_timeline_unpack(to, 0, copy, part, &failure), TN_E_INVALID);
            free(copy);
        }
        for (int hit = 0; hit < 60; hit++) { /* damaged: refused, or drawn */
            uint8_t *copy = malloc(size);
            size_t drawn;
            assert_non_null(copy);
            memcpy(copy, bytes, size);
            copy[tn__random_below(&random, size)] ^= (uint8_t)(1 + tn__random_below(&random, 255));
            if (tn_timeline_unpack(to, 0, copy, size, &failure) == TN_OK && hit % 10 == 0)
                free(written(to, ".svg", &drawn));
            free(copy);
        }
        assert_ok(tn_timeline_unpack(to, 1, bytes, size, &failure));
        check_sums(to, 1, TN_TIMELINE_MEASURED, &count);
        tn_timeline_release(from, bytes, size);
        assert_ok(tn_timeline_pack(to, 1, &bytes, &size, &failure));
        assert_ok(tn_timeline_unpack(to, 0, bytes, size, &failure));
        assert_ok(tn_timeline_unpack(from, 0, bytes, size, &failure));
        char *one = written(from, ".json", &sizes[0]), *two = written(to, ".json", &sizes[1]);
        assert_string_equal(one, two);
        free(one);
        free(two);
        tn_timeline_release(to, bytes, size);
        tn_timeline_destroy(from);
        tn_timeline_destroy(to);
        unmake(&made);
    }
}

static void names_stay_words(void **state) {
    (void)state;
    tn__random random = {7};
    tn_timeline *line;
    counted count;
    ran made;
    size_t size;
    make(&made, &random);
    tell(&made, 0, &random, &count);
    assert_ok(tn_timeline_create(NULL, "a </script><b> & \"model\"", 1, &line, &failure));
    assert_ok(tn_timeline_rank(line, 0, "<i>", 1, &failure));
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
        assert_ok(tn_timeline_add(line, 0, (tn_timeline_kind)kind, made.occupancy, made.trace, 0, 0,
                                  &failure));
    char *page = written(line, ".html", &size), *picture = written(line, ".svg", &size);
    assert_null(strstr(page, "</script><b>"));
    assert_null(strstr(page, "<i>\""));
    assert_null(strstr(picture, "<b>"));
    assert_non_null(strstr(picture, "&lt;/script&gt;&lt;b&gt;"));
    assert_non_null(strstr(picture, "planned"));
    free(page);
    free(picture);
    tn_timeline_destroy(line);
    unmake(&made);
}

/* --- ranks that wait for each other --- */

enum { MEET_STEPS = 60, MEET_RANKS = 4 };

typedef struct meeting { /* one call of several */
    uint32_t count, rank[MEET_RANKS], step[MEET_RANKS];
} meeting;

typedef struct lists { /* of all ranks */
    tn__line_step steps[MEET_RANKS][MEET_STEPS];
    uint32_t count[MEET_RANKS];
    uint32_t call[MEET_RANKS][MEET_STEPS]; /* TN_NONE: alone */
    meeting calls[MEET_RANKS * MEET_STEPS];
    uint32_t call_count;
} lists;

static uint32_t add_step(lists *it, tn__random *random, uint32_t rank, uint8_t call) {
    uint32_t s = it->count[rank]++;
    uint32_t stream = (uint32_t)tn__random_below(random, 3);
    it->call[rank][s] = TN_NONE;
    it->steps[rank][s] = (tn__line_step){.duration_s = (double)tn__random_below(random, 50),
                                         .stream = stream,
                                         .signal = tn__random_below(random, 2) ? s + 1 : 0,
                                         .call = call,
                                         .walks = stream == 0};
    uint32_t on = (uint32_t)tn__random_below(random, s + 1);
    if (s > 0 && tn__random_below(random, 2) && it->steps[rank][on].signal != 0 && on != s)
        it->steps[rank][s].wait = on + 1;
    return s;
}

/* One after the other on all ranks, so that none of it can stand still for ever. */
static void draw_lists(lists *it, tn__random *random) {
    memset(it, 0, sizeof *it);
    for (uint32_t i = 0; i < MEET_STEPS - 4; i++) {
        uint32_t a = (uint32_t)tn__random_below(random, MEET_RANKS);
        uint32_t b = (a + 1 + (uint32_t)tn__random_below(random, MEET_RANKS - 1)) % MEET_RANKS;
        uint64_t what = tn__random_below(random, 3);
        meeting *call = &it->calls[it->call_count];
        if (what == 0) {
            static const tn_link links[] = {TN_LINK_NONE, TN_LINK_TO_HOST, TN_LINK_FROM_HOST};
            uint32_t s = add_step(it, random, a, TN__STEP_ALONE);
            it->steps[a][s].link = (uint8_t)links[tn__random_below(random, 3)];
            continue;
        }
        for (uint32_t r = 0; r < MEET_RANKS; r++) {
            if (what == 1 ? r != a && r != b : r % 2 != a % 2) continue;
            uint8_t end = what == 2 ? TN__STEP_GROUP : r == a ? TN__STEP_SEND : TN__STEP_RECV;
            uint32_t s = add_step(it, random, r, end);
            it->steps[r][s].group = a % 2 + 7;
            it->steps[r][s].peer = r == a ? b : a;
            it->steps[r][s].tag = i; /* each message by itself: streams may overtake each other */
            if (what == 2) it->steps[r][s].stream = 0, it->steps[r][s].walks = 1;
            it->call[r][s] = it->call_count;
            call->rank[call->count] = r;
            call->step[call->count++] = s;
        }
        it->call_count++;
    }
}

static void put_lists(const lists *it, tn_timeline *line) {
    for (uint32_t r = 0; r < MEET_RANKS; r++) {
        tn__line_run *run = &line->ranks[r].runs[TN_TIMELINE_PREDICTED];
        tn__text_add(&run->strings, "", 1);
        run->steps = tn__alloc_array(&line->context, it->count[r] + 1, sizeof *run->steps);
        run->spans = tn__alloc_array(&line->context, it->count[r] + 1, sizeof *run->spans);
        assert_non_null(run->steps);
        assert_non_null(run->spans);
        memcpy(run->steps, it->steps[r], it->count[r] * sizeof *run->steps);
        run->room = it->count[r] + 1;
        run->step_count = it->count[r];
        for (run->count = 0; run->count < it->count[r]; run->count++)
            run->spans[run->count] = (tn__timeline_span){.step = (uint32_t)run->count,
                                                         .stream = it->steps[r][run->count].stream};
    }
}

/* What a step has to come behind, by what is known of all others: no order of walking through. */
static double earliest(const lists *it, uint32_t r, uint32_t s, double came[][MEET_STEPS],
                       double end[][MEET_STEPS]) {
    const tn__line_step *step = &it->steps[r][s];
    double at = 0;
    (void)came;
    for (uint32_t k = 0; k < s; k++) {
        const tn__line_step *before = &it->steps[r][k];
        bool walks = before->walks; /* the walk comes to a step behind all that it does itself */
        bool link = step->link != TN_LINK_NONE && before->link == step->link;
        if (before->stream == step->stream || walks || link) at = fmax(at, end[r][k]);
        if (step->wait != 0 && before->signal == step->wait) at = fmax(at, end[r][k]);
    }
    return at;
}

static void ranks_wait_for_each_other(void **state) {
    (void)state;
    static lists it;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        tn__random random = {seed * 31};
        static double came[MEET_RANKS][MEET_STEPS], end[MEET_RANKS][MEET_STEPS];
        tn_timeline *line;
        draw_lists(&it, &random);
        assert_ok(tn_timeline_create(NULL, "m", MEET_RANKS, &line, &failure));
        put_lists(&it, line);
        assert_ok(tn_timeline_meet(line, &failure));
        for (uint32_t r = 0; r < MEET_RANKS; r++) {
            const tn__line_run *run = &line->ranks[r].runs[TN_TIMELINE_PREDICTED];
            for (size_t i = 0; i < run->count; i++) {
                came[r][run->spans[i].step] = run->spans[i].start_s;
                end[r][run->spans[i].step] = run->spans[i].start_s + run->spans[i].duration_s;
            }
        }
        for (uint32_t r = 0; r < MEET_RANKS; r++)
            for (uint32_t s = 0; s < it.count[r]; s++) {
                double begins = came[r][s], takes = it.steps[r][s].duration_s;
                assert_true(came[r][s] == earliest(&it, r, s, came, end));
                const meeting *call = it.call[r][s] != TN_NONE ? &it.calls[it.call[r][s]] : NULL;
                for (uint32_t m = 0; call != NULL && m < call->count; m++) {
                    begins = fmax(begins, came[call->rank[m]][call->step[m]]);
                    takes = fmax(takes, it.steps[call->rank[m]][call->step[m]].duration_s);
                }
                assert_true(end[r][s] == begins + takes);
            }
        tn_timeline_destroy(line);
    }
}

enum { COPIED = 6 };

/* Tensors that are swapped out and in on two streams, so that their copies want one link at once.
 */
static void make_copies(ran *made) {
    static tn_instruction list[4 * COPIED + 8];
    tn_program *plain;
    *made = (ran){.kit = kit_open()};
    test_kit *kit = &made->kit;
    tn_tensor_id x = kit_input(kit, "x", TN_FLOAT32, KIT_SHAPE(3, 7)), of[COPIED];
    tn_tensor_id y = kit_tensor(kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, TN_RANK_UNKNOWN, NULL);
    for (uint32_t i = 0; i < COPIED; i++) {
        char name[8];
        snprintf(name, sizeof name, "a%u", i);
        of[i] = kit_tensor(kit, name, TN_KIND_ACTIVATION, TN_UNDEFINED, TN_RANK_UNKNOWN, NULL);
        kit_op_to(kit, "Relu", KIT_LIST(x), KIT_LIST(of[i]));
    }
    kit_op_to(kit, "Sum", COPIED, of, KIT_LIST(y));
    assert_ok(tn_graph_infer(kit->graph, &failure));
    assert_ok(tn_program_create(kit->graph, NULL, &plain, &failure));
    for (uint32_t s = 0, relus = 0; s < tn_program_count(plain); s++) {
        const tn_instruction *it = &tn_program_instructions(plain)[s];
        for (uint32_t i = 0; i < COPIED && it->opcode == TN_APPLY && relus == COPIED; i++) {
            tn_instruction in = TN_INSTRUCTION_INIT;
            in.opcode = TN_SWAP_IN, in.tensor = of[i], in.stream = 2 - i % 2;
            in.wait = i + 1, in.signal = COPIED + i + 1;
            list[made->steps++] = in;
        }
        for (uint32_t i = 0; i < COPIED && it->opcode == TN_APPLY && relus == COPIED; i++) {
            tn_instruction wait = TN_INSTRUCTION_INIT;
            wait.opcode = TN_WAIT, wait.wait = COPIED + i + 1;
            list[made->steps++] = wait;
        }
        list[made->steps++] = *it;
        if (it->opcode != TN_APPLY || relus == COPIED) continue;
        list[made->steps - 1].signal = 2 * COPIED + relus + 1;
        tn_instruction out = TN_INSTRUCTION_INIT;
        out.opcode = TN_SWAP_OUT, out.tensor = of[relus], out.stream = 1 + relus % 2;
        out.wait = 2 * COPIED + relus + 1, out.signal = relus + 1;
        relus++;
        list[made->steps++] = out;
    }
    assert_ok(tn_program_from(kit->graph, list, made->steps, NULL, 0, &made->program, &failure));
    assert_ok(tn_program_verify(made->program, &failure));
    assert_ok(tn_occupancy_create(made->program, NULL, &made->occupancy, &failure));
    assert_ok(tn_trace_create(NULL, 1000, &made->trace, &failure));
    tn_program_destroy(plain);
}

/* A rank that waits for no other has the times of tn_simulate: copies of two streams that share a
 * link follow each other. */
static void one_rank_is_as_simulated(void **state) {
    (void)state;
    ran made;
    tn_timeline *line;
    tn_simulation simulation;
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    uint64_t costs[COPIED + 1];
    make_copies(&made);
    for (uint32_t i = 0; i <= COPIED; i++) costs[i] = 1000 * i + 7;
    options.costs = costs;
    options.to_host_bytes_per_s = 3e9; /* slower than the operators */
    options.from_host_bytes_per_s = 5e9;
    options.trace = made.trace;
    assert_ok(tn_simulate(made.program, &options, &simulation, &failure));
    tn_simulation_release(&simulation);
    assert_ok(tn_timeline_create(NULL, "m", 1, &line, &failure));
    assert_ok(tn_timeline_add(line, 0, TN_TIMELINE_PREDICTED, made.occupancy, made.trace, 0, 0,
                              &failure));
    const tn__line_run *run = &line->ranks[0].runs[TN_TIMELINE_PREDICTED];
    tn__timeline_span before[4 * COPIED + 8];
    memcpy(before, run->spans, run->count * sizeof *before);
    assert_true(run->count >= 3 * COPIED + 1);
    assert_ok(tn_timeline_meet(line, &failure));
    for (size_t i = 0; i < run->count; i++) {
        assert_int_equal(run->spans[i].step, before[i].step);
        assert_true(run->spans[i].start_s == before[i].start_s);
        assert_true(fabs(run->spans[i].duration_s - before[i].duration_s) < 1e-13);
    }
    tn_timeline_destroy(line);
    unmake(&made);
}

/* Two that wait for what the other says later: nothing is made up, and nothing hangs. */
static void calls_that_never_meet_stay(void **state) {
    (void)state;
    static lists it;
    tn_timeline *line;
    memset(&it, 0, sizeof it);
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t s = 0; s < 2; s++) {
            bool sends = (r == 0) == (s == 0);
            it.steps[r][it.count[r]++] = (tn__line_step){
                .duration_s = 1, .call = TN__STEP_GROUP, .group = sends ? 1 : 2, .walks = 1};
        }
    assert_ok(tn_timeline_create(NULL, "m", MEET_RANKS, &line, &failure));
    put_lists(&it, line);
    assert_ok(tn_timeline_meet(line, &failure));
    for (uint32_t r = 0; r < 2; r++)
        assert_true(line->ranks[r].runs[TN_TIMELINE_PREDICTED].spans[0].duration_s == 0);
    tn_timeline_destroy(line);
}

static void mistakes_are_told(void **state) {
    (void)state;
    tn__random random = {9};
    tn_timeline *line;
    counted count;
    ran made;
    make(&made, &random);
    tell(&made, 0, &random, &count);
    assert_int_equal(tn_timeline_create(NULL, "m", 0, &line, &failure), TN_E_INVALID);
    assert_ok(tn_timeline_create(NULL, "m", 2, &line, &failure));
    assert_int_equal(tn_timeline_rank(line, 2, "", 0, &failure), TN_E_INVALID);
    assert_int_equal(
        tn_timeline_add(line, 2, TN_TIMELINE_MEASURED, made.occupancy, made.trace, 0, 0, &failure),
        TN_E_INVALID);
    assert_int_equal(
        tn_timeline_add(line, 0, TN_TIMELINE_MEASURED, made.occupancy, made.trace, 1, 0, &failure),
        TN_E_INVALID);
    assert_non_null(strstr(failure.message, "run 1"));
    assert_int_equal(tn_timeline_write(line, "ranks.pdf", &failure), TN_E_UNSUPPORTED);
    assert_false(tn_timeline_writes("html"));
    assert_true(tn_timeline_writes("A.SVG"));
    tn_timeline_destroy(line);
    unmake(&made);
}

static tn_status all_of_it(const tn_context *context, const ran *made) {
    tn_timeline *line;
    void *bytes;
    uint64_t size;
    char path[64];
    snprintf(path, sizeof path, "timeline-%d.html", (int)getpid());
    TN_TRY(tn_timeline_create(context, "m", 2, &line, &failure));
    tn_status status = tn_timeline_add(line, 0, TN_TIMELINE_PREDICTED, made->occupancy, made->trace,
                                       0, 0, &failure);
    if (status == TN_OK) status = tn_timeline_pack(line, 0, &bytes, &size, &failure);
    if (status == TN_OK) {
        status = tn_timeline_unpack(line, 1, bytes, size, &failure);
        tn_timeline_release(line, bytes, size);
    }
    if (status == TN_OK) status = tn_timeline_meet(line, &failure);
    if (status == TN_OK) status = tn_timeline_write(line, path, &failure);
    remove(path);
    tn_timeline_destroy(line);
    return status;
}

static void memory_may_run_out(void **state) {
    (void)state;
    tn__random random = {3};
    counting count = {0};
    counted ticks;
    ran made;
    make(&made, &random);
    tell(&made, 0, &random, &ticks);
    tn_context context = counting_context(&count);
    for (size_t call = 1;; call++) {
        count.calls = 0;
        count.fail_at = call;
        tn_status status = all_of_it(&context, &made);
        assert_int_equal(count.blocks, 0);
        assert_int_equal(count.bytes, 0);
        if (status == TN_OK) break;
        assert_int_equal(status, TN_E_NO_MEMORY);
    }
    unmake(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_counting), cmocka_unit_test(ranks_go_as_bytes),
        cmocka_unit_test(ranks_wait_for_each_other),  cmocka_unit_test(one_rank_is_as_simulated),
        cmocka_unit_test(calls_that_never_meet_stay), cmocka_unit_test(names_stay_words),
        cmocka_unit_test(mistakes_are_told),          cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
