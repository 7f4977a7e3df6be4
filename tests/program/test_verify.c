/* test_verify.c - saboteurs: programs with one thing wrong, each refused for that reason. */
#include "opcodes.h"

static void expect_refusal(const tn_graph *graph, const tn_instruction *list, uint32_t count,
                           const tn_region *regions, uint32_t region_count, const char *why,
                           uint64_t seed) {
    tn_program *program = NULL;
    tn_error error = {0};
    tn_status status = tn_program_from(graph, list, count, regions, region_count, &program, &error);
    if (status != TN_E_INVALID || strstr(error.message, why) == NULL || error.where[0] == '\0')
        fail_msg("seed %llu: not refused as \"%s\" but: %s: %s\n", (unsigned long long)seed, why,
                 error.where, status == TN_OK ? "accepted" : error.message);
    assert_null(program);
}

/* --- one thing wrong in random programs of one stream
 * --------------------------------------------- */

static void insert(writer *made, uint32_t at, tn_opcode opcode, tn_tensor_id tensor) {
    tn_instruction one = TN_INSTRUCTION_INIT;
    one.opcode = opcode;
    one.tensor = tensor;
    memmove(&made->list[at + 1], &made->list[at], (made->count++ - at) * sizeof one);
    made->list[at] = one;
}

static void leave_out(writer *made, uint32_t at) {
    memmove(&made->list[at], &made->list[at + 1], (--made->count - at) * sizeof *made->list);
}

static uint32_t find(const writer *made, tn_opcode opcode) {
    for (uint32_t i = 0; i < made->count; i++)
        if (made->list[i].opcode == opcode) return i;
    return TN_NONE;
}

static bool without_a_put(writer *made) {
    uint32_t at = find(made, TN_PUT);
    if (at == TN_NONE) return false;
    leave_out(made, at);
    return true;
}

static bool without_a_get(writer *made) {
    uint32_t at = made->count - 1; /* that of the output */
    if (find(made, TN_SEND) != TN_NONE) return false;
    leave_out(made, at);
    return true;
}

static bool dropped_before_it_is_read(writer *made) {
    for (uint32_t tries = 0; tries < 50; tries++) {
        uint32_t at = (uint32_t)draw(made, made->count);
        const tn_instruction *it = &made->list[at];
        tn_tensor_id id = it->opcode == TN_APPLY ? tn_graph_op(made->graph, it->op)->inputs[0]
                                                 : tn_instruction_effects(it).reads;
        if (id == TN_NONE || tn_tensor_is_static(facts_of(made, id)) || id >= made->form[0])
            continue;
        insert(made, at, draw(made, 2) ? TN_DROP : TN_FREE, id);
        return true;
    }
    return false;
}

static bool twice(writer *made, const tn_opcode *opcodes, uint32_t count) {
    uint32_t at = find(made, opcodes[draw(made, count)]);
    if (at == TN_NONE) return false;
    const tn_instruction *it = &made->list[at];
    if (it->op != TN_NONE && is_norm(tn_graph_op(made->graph, it->op))) return false;
    insert(made, at, TN_DROP, 0);
    made->list[at] = made->list[at + 1];
    return true;
}

static bool defined_twice(writer *made) {
    return twice(made, (tn_opcode[]){TN_PUT, TN_SWAP_IN, TN_DECODE, TN_RECV, TN_APPLY}, 5);
}

static bool released_twice(writer *made) {
    return twice(made, (tn_opcode[]){TN_DROP, TN_FREE, TN_SWAP_OUT}, 3);
}

static bool swapped_in_only(writer *made) {
    uint32_t at = find(made, TN_SWAP_OUT);
    if (at == TN_NONE) return false;
    made->list[at].opcode = TN_DROP;
    made->list[at].slot = 0;
    return true;
}

static bool swapped_out_only(writer *made) {
    insert(made, made->count, TN_SWAP_OUT, made->list[made->count - 1].tensor);
    return true;
}

static bool encoded_in_vain(writer *made) {
    insert(made, made->count, TN_ENCODE, made->list[made->count - 1].tensor);
    made->list[made->count - 1].other = made->form[0];
    made->list[made->count - 1].codec = TN_CODEC_CSR;
    return true;
}

static bool decoded_by_another_codec(writer *made) {
    uint32_t at = find(made, TN_DECODE);
    if (at == TN_NONE) return false;
    made->list[at].codec = made->list[at].codec == TN_CODEC_CSR ? TN_CODEC_BITS : TN_CODEC_CSR;
    return true;
}

static bool decoded_from_what_is_none(writer *made) {
    uint32_t at = find(made, TN_ENCODE);
    if (at == TN_NONE) return false;
    made->list[at].opcode = TN_PUT;
    made->list[at].codec = TN_CODEC_NONE;
    made->list[at].tensor = made->list[at].other;
    made->list[at].other = TN_NONE;
    return true;
}

/* The index-th APPLY that runs a norm again, or not again; TN_NONE: there is none. */
static uint32_t find_norm(const writer *made, bool again) {
    for (uint32_t i = 0; i < made->count; i++)
        if (made->list[i].opcode == TN_APPLY && made->list[i].again == again &&
            is_norm(tn_graph_op(made->graph, made->list[i].op)))
            return i;
    return TN_NONE;
}

static bool repeated_without_saying_so(writer *made) {
    uint32_t at = find_norm(made, true);
    if (at == TN_NONE) return false;
    made->list[at].again = false;
    return true;
}

static bool repeated_before_it_ran(writer *made) {
    uint32_t at = find(made, TN_APPLY);
    if (made->list[at].again) return false;
    made->list[at].again = true;
    const tn_op *op = tn_graph_op(made->graph, made->list[at].op);
    return !is_norm(op);
}

static bool repeated_what_is_no_operator(writer *made) {
    uint32_t at = find(made, TN_GET);
    if (at == TN_NONE) return false;
    made->list[at].again = true;
    return true;
}

/* What it reads beside x: what was found when it ran. */
static bool repeated_without_what_was_found(writer *made) {
    uint32_t at = find_norm(made, true);
    if (at == TN_NONE) return false;
    insert(made, at, TN_DROP,
           tn_graph_op(made->graph, made->list[at].op)->outputs[3 + draw(made, 2)]);
    return true;
}

static bool repeated_with_other_statistics(writer *made) {
    uint32_t at = find_norm(made, true);
    if (at == TN_NONE) return false;
    insert(made, at, TN_REDUCE,
           tn_graph_op(made->graph, made->list[at].op)->outputs[3 + draw(made, 2)]);
    return true;
}

typedef struct saboteur {
    bool (*damage)(writer *made);
    const char *why;
} saboteur;

static const saboteur saboteurs[] = {
    {without_a_put, "nothing has defined it"},
    {without_a_get, "no instruction fetches it"},
    {dropped_before_it_is_read, "released it"},
    {defined_twice, "nothing released it"},
    {released_twice, "released it"},
    {swapped_in_only, "its buffer of the host has"},
    {swapped_out_only, "it never comes back"},
    {encoded_in_vain, "nothing read it"},
    {decoded_by_another_codec, "by codec"},
    {decoded_from_what_is_none, "it is not an encoded form"},
    {repeated_without_saying_so, "set `again`"},
    {repeated_before_it_ran, "what has not run before"},
    {repeated_what_is_no_operator, "it cannot do so again"},
    {repeated_without_what_was_found, "released it"},
    {repeated_with_other_statistics, "it is not what it was"},
};

static void each_saboteur_is_refused_for_its_reason(void **state) {
    static writer made;
    (void)state;
    for (size_t k = 0; k < sizeof saboteurs / sizeof *saboteurs; k++) {
        uint32_t done = 0;
        for (uint64_t seed = 1; seed <= 300; seed++) {
            write_program(&made, seed, 1);
            if (saboteurs[k].damage(&made)) {
                expect_refusal(made.graph, made.list, made.count, NULL, 0, saboteurs[k].why, seed);
                done++;
            }
            tn_graph_destroy(made.graph);
        }
        if (done < 50) fail_msg("\"%s\" only %u times", saboteurs[k].why, done);
    }
}

/* --- fields
 * ----------------------------------------------------------------------------------------- */

#define X 0 /* tensors of this graph: input, output, a form */
#define Y 1
#define E 2

static tn_graph *chain(const char *type, const char *domain) {
    tn_graph *graph;
    tn_tensor_id x, y;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    x = vector(graph, "x", TN_KIND_INPUT, 8, 0);
    y = vector(graph, "y", TN_KIND_OUTPUT, 8, 0);
    vector(graph, "e", TN_KIND_ACTIVATION, 4, 0);
    tn_op_spec spec = {.type = type,
                       .name = "n",
                       .domain = domain,
                       .inputs = &x,
                       .input_count = 1,
                       .outputs = &y,
                       .output_count = 1};
    assert_ok(tn_graph_add_op(graph, &spec, NULL, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    return graph;
}

typedef struct line { /* an instruction in few words */
    tn_opcode opcode;
    tn_tensor_id tensor, other;
    uint32_t stream, wait, signal, slot, peer, tag, group, parts;
    tn_codec codec;
    tn_op_id op; /* 1 + */
} line;

static uint32_t written(const line *lines, uint32_t count, tn_instruction *list) {
    for (uint32_t i = 0; i < count; i++) {
        const line *it = &lines[i];
        bool apply = it->opcode == TN_APPLY, none = apply || it->opcode == TN_WAIT;
        list[i] = (tn_instruction){.opcode = it->opcode,
                                   .stream = it->stream,
                                   .op = apply ? it->op : TN_NONE,
                                   .tensor = none ? TN_NONE : it->tensor,
                                   .other = it->other != 0 ? it->other : TN_NONE,
                                   .wait = it->wait,
                                   .signal = it->signal,
                                   .slot = it->slot,
                                   .peer = it->peer,
                                   .tag = it->tag,
                                   .group = it->group,
                                   .parts = it->parts,
                                   .codec = it->codec};
    }
    return count;
}

static void check(const tn_graph *graph, const char *why, const line *lines, uint32_t count) {
    tn_instruction list[16];
    tn_program *program;
    assert_true(count <= 16);
    written(lines, count, list);
    if (why != NULL) {
        expect_refusal(graph, list, count, NULL, 0, why, 0);
        return;
    }
    assert_ok(tn_program_from(graph, list, count, NULL, 0, &program, &failure));
    tn_program_destroy(program);
}

#define LINES(...) (const line[]){__VA_ARGS__}, sizeof((const line[]){__VA_ARGS__}) / sizeof(line)
#define REFUSED(graph, why, ...) check(graph, why, LINES(__VA_ARGS__))
#define ACCEPTED(graph, ...) check(graph, NULL, LINES(__VA_ARGS__))

static void every_field_is_checked(void **state) {
    (void)state;
    tn_graph *g = chain("Relu", NULL);
    tn_instruction good[4];
    const line lines[] = {{.opcode = TN_PUT, .tensor = X},
                          {.opcode = TN_APPLY},
                          {.opcode = TN_GET, .tensor = Y},
                          {.opcode = TN_SWAP_OUT, .tensor = Y}};
    uint32_t count = written(lines, 3, good);
    written(lines, 4, good);
    const struct {
        uint32_t at;
        size_t field;
        uint32_t value;
        const char *why;
    } bad[] = {
        {0, offsetof(tn_instruction, opcode), TN_OPCODE_COUNT, "there is no opcode"},
        {0, offsetof(tn_instruction, opcode), UINT32_MAX, "there is no opcode"},
        {0, offsetof(tn_instruction, tensor), 3, "names no tensor"},
        {0, offsetof(tn_instruction, tensor), TN_NONE, "names no tensor"},
        {0, offsetof(tn_instruction, op), 0, "uses no operator"},
        {0, offsetof(tn_instruction, other), E, "uses no other tensor"},
        {1, offsetof(tn_instruction, op), 1, "names no operator"},
        {1, offsetof(tn_instruction, tensor), X, "uses no tensor"},
        {0, offsetof(tn_instruction, stream), TN_STREAM_MAX, "stream 64"},
        {0, offsetof(tn_instruction, slot), 1, "uses no host buffer"},
        {0, offsetof(tn_instruction, peer), 1, "uses no peer"},
        {0, offsetof(tn_instruction, tag), 1, "uses no tag"},
        {0, offsetof(tn_instruction, group), 1, "uses no group"},
        {0, offsetof(tn_instruction, codec), 1, "uses no codec"},
        {0, offsetof(tn_instruction, reduction), 1, "uses no reduction"},
        {0, offsetof(tn_instruction, wait), 9, "which no instruction gives"},
        {3, offsetof(tn_instruction, slot), 5, "host buffer 5"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn_instruction list[4];
        memcpy(list, good, sizeof list);
        memcpy((char *)&list[bad[i].at] + bad[i].field, &bad[i].value, sizeof bad[i].value);
        expect_refusal(g, list, bad[i].at == 3 ? 4 : count, NULL, 0, bad[i].why, i);
    }
    REFUSED(g, "names no codec", {.opcode = TN_PUT, .tensor = X},
            {.opcode = TN_ENCODE, .tensor = X, .other = E});
    REFUSED(g, "needs two", {.opcode = TN_PUT, .tensor = Y},
            {.opcode = TN_ENCODE, .tensor = Y, .other = Y, .codec = TN_CODEC_CSR});
    REFUSED(g, "names no other tensor", {.opcode = TN_PUT, .tensor = X},
            {.opcode = TN_ENCODE, .tensor = X, .other = 7, .codec = TN_CODEC_CSR});
    REFUSED(g, "waits for nothing", {.opcode = TN_WAIT});
    REFUSED(g, "gives only later", {.opcode = TN_PUT, .tensor = X, .wait = 1},
            {.opcode = TN_DROP, .tensor = X, .signal = 1});
    REFUSED(g, "is given by instruction 0 already", {.opcode = TN_PUT, .tensor = X, .signal = 1},
            {.opcode = TN_DROP, .tensor = X, .signal = 1});
    tn_graph_destroy(g);
}

/* --- the host pool, forms, streams
 * ------------------------------------------------------------------ */

static void the_host_pool_gives_back_what_it_was_given(void **state) {
    (void)state;
    tn_graph *g = chain("Relu", NULL);
    const line apply_it = {.opcode = TN_APPLY};
    ACCEPTED(g, {.opcode = TN_PUT, .tensor = X}, {.opcode = TN_SWAP_OUT, .tensor = X},
             {.opcode = TN_SWAP_IN, .tensor = X}, {.opcode = TN_DROP, .tensor = X},
             {.opcode = TN_SWAP_IN, .tensor = X}, apply_it, {.opcode = TN_GET, .tensor = Y});
    ACCEPTED(g, {.opcode = TN_PUT, .tensor = X}, apply_it,
             {.opcode = TN_SWAP_OUT, .tensor = X, .slot = 2},
             {.opcode = TN_SWAP_IN, .tensor = X, .slot = 2},
             {.opcode = TN_SWAP_OUT, .tensor = Y, .slot = 2},
             {.opcode = TN_SWAP_IN, .tensor = Y, .slot = 2}, {.opcode = TN_GET, .tensor = Y});
    REFUSED(g, "still has 'x'", {.opcode = TN_PUT, .tensor = X}, apply_it,
            {.opcode = TN_SWAP_OUT, .tensor = X, .slot = 2},
            {.opcode = TN_SWAP_OUT, .tensor = Y, .slot = 2});
    REFUSED(g, "has tensor y", {.opcode = TN_PUT, .tensor = X}, apply_it,
            {.opcode = TN_SWAP_OUT, .tensor = X, .slot = 2},
            {.opcode = TN_SWAP_IN, .tensor = X, .slot = 2},
            {.opcode = TN_SWAP_OUT, .tensor = Y, .slot = 2}, {.opcode = TN_DROP, .tensor = X},
            {.opcode = TN_SWAP_IN, .tensor = X, .slot = 2});
    REFUSED(g, "it has changed since", {.opcode = TN_PUT, .tensor = X},
            {.opcode = TN_SWAP_OUT, .tensor = X}, {.opcode = TN_SWAP_IN, .tensor = X},
            {.opcode = TN_REDUCE, .tensor = X}, {.opcode = TN_DROP, .tensor = X},
            {.opcode = TN_SWAP_IN, .tensor = X});
    REFUSED(g, "it has changed since it was encoded", {.opcode = TN_PUT, .tensor = X},
            {.opcode = TN_ENCODE, .tensor = X, .other = E, .codec = TN_CODEC_CSR},
            {.opcode = TN_REDUCE, .tensor = X}, {.opcode = TN_DROP, .tensor = X},
            {.opcode = TN_DECODE, .tensor = X, .other = E, .codec = TN_CODEC_CSR});
    tn_graph_destroy(g);
}

/* --- forms of a program's own: tensors 3 and 4 behind those of the graph --- */

static tn_status owning(const tn_graph *graph, const tn_encoded *encoded, const line *lines,
                        uint32_t count, tn_program **program) {
    tn_instruction list[16];
    assert_true(count <= 16);
    written(lines, count, list);
    return tn_program_from_encoded(graph, encoded, 2, list, count, NULL, 0, program, &failure);
}

static void not_owned(const tn_graph *graph, const tn_encoded *encoded, const char *why,
                      const line *lines, uint32_t count) {
    tn_program *program = NULL;
    assert_int_equal(owning(graph, encoded, lines, count, &program), TN_E_INVALID);
    if (strstr(failure.message, why) == NULL)
        fail_msg("not refused as \"%s\" but: %s", why, failure.message);
    assert_null(program);
}

static void forms_of_the_programs_own_are_that_alone(void **state) {
    (void)state;
    const tn_encoded forms[] = {{.tensor = X, .codec = TN_CODEC_BITS},
                                {.tensor = X, .codec = TN_CODEC_CSR, .bytes = 30}};
    const line put = {.opcode = TN_PUT, .tensor = X}, run = {.opcode = TN_APPLY},
               get = {.opcode = TN_GET, .tensor = Y},
               bits = {.opcode = TN_ENCODE, .tensor = X, .other = 3, .codec = TN_CODEC_BITS},
               csr = {.opcode = TN_ENCODE, .tensor = X, .other = 4, .codec = TN_CODEC_CSR},
               drop = {.opcode = TN_DROP, .tensor = X},
               back = {.opcode = TN_DECODE, .tensor = X, .other = 4, .codec = TN_CODEC_CSR},
               out = {.opcode = TN_SWAP_OUT, .tensor = 4}, in = {.opcode = TN_SWAP_IN, .tensor = 4};
    tn_graph *g = chain("Relu", NULL);
    tn_program *program;
    tn_occupancy *occupancy;
    uint32_t count, found = 0;
    assert_ok(owning(g, forms, LINES(put, csr, drop, out, in, back, run, get), &program));
    assert_int_equal(tn_program_encoded(program, &count)[1].bytes, 30);
    assert_int_equal(count, 2);
    assert_int_equal(tn_graph_tensor_count(g), 3);
    assert_int_equal(tn_graph_tensor_count(tn_program_graph(program)), 5);
    assert_int_equal(tn_graph_tensor(tn_program_graph(program), 3)->bytes, 1);
    assert_string_equal(tn_graph_tensor(tn_program_graph(program), 4)->name, "x.csr");
    assert_ok(tn_occupancy_create(program, NULL, &occupancy, &failure));
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++) {
        const tn_life *life = &tn_occupancy_lives(occupancy)[i];
        if (life->tensor != 4) continue;
        assert_int_equal(life->bytes, 30);
        assert_int_equal(life->first,
                         found == 0 ? 1 : 4); /* ENCODE to SWAP_OUT, SWAP_IN to DECODE */
        assert_int_equal(life->last, found == 0 ? 4 : 6);
        found++;
    }
    assert_int_equal(found, 2);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    const line wrong = {.opcode = TN_ENCODE, .tensor = X, .other = 3, .codec = TN_CODEC_CSR};
    const line of_y = {.opcode = TN_ENCODE, .tensor = Y, .other = 4, .codec = TN_CODEC_CSR};
    const line put_form = {.opcode = TN_PUT, .tensor = 4},
               get_form = {.opcode = TN_GET, .tensor = 4};
    const line reduce = {.opcode = TN_REDUCE, .tensor = 4};
    const line gather = {.opcode = TN_GATHER, .tensor = X, .other = 4};
    not_owned(g, forms, "by codec bits alone", LINES(put, wrong, run, get));
    not_owned(g, forms, "'x' by codec csr alone", LINES(put, run, of_y, get));
    not_owned(g, forms, "DECODE it", LINES(put_form, put, run, get));
    not_owned(g, forms, "DECODE it", LINES(put, csr, get_form, run, get));
    not_owned(g, forms, "DECODE it", LINES(put, csr, reduce, run, get));
    not_owned(g, forms, "by codec csr alone", LINES(put, gather, run, get));
    not_owned(g, forms, "nothing read it", LINES(put, bits, run, get));
    const tn_encoded bad[][2] = {{{7, TN_CODEC_BITS, 0}, forms[1]},
                                 {{X, TN_CODEC_NONE, 0}, forms[1]},
                                 {{X, TN_CODEC_COUNT, 0}, forms[1]},
                                 {{X, TN_CODEC_CSR, 17}, forms[1]},
                                 {{X, TN_CODEC_CSR, UINT64_MAX}, forms[1]}};
    const char *const why[] = {"which there is not", "names no codec", "names no codec",
                               "at least 18", "more than 2^63"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        not_owned(g, bad[i], why[i], LINES(put, run, get));
    tn_graph_destroy(g);
}

static void streams_wait_for_each_other(void **state) {
    (void)state;
    tn_graph *g = chain("Relu", NULL);
    const line late = {.opcode = TN_APPLY, .stream = 1, .wait = 1, .signal = 2};
    ACCEPTED(g, {.opcode = TN_PUT, .tensor = X, .signal = 1}, late,
             {.opcode = TN_GET, .tensor = Y, .wait = 2});
    REFUSED(g, "(put, stream 0) defines it", {.opcode = TN_PUT, .tensor = X},
            {.opcode = TN_APPLY, .stream = 1}, {.opcode = TN_GET, .tensor = Y});
    REFUSED(g, "(apply, stream 1) defines it", {.opcode = TN_PUT, .tensor = X, .signal = 1}, late,
            {.opcode = TN_GET, .tensor = Y});
    /* it is put again while it is still read, or copied out */
    REFUSED(g, "(apply, stream 1) uses it", {.opcode = TN_PUT, .tensor = X, .signal = 1}, late,
            {.opcode = TN_DROP, .tensor = X}, {.opcode = TN_PUT, .tensor = X},
            {.opcode = TN_GET, .tensor = Y, .wait = 2});
    REFUSED(g, "(apply, stream 1) reads it", {.opcode = TN_PUT, .tensor = X, .signal = 1}, late,
            {.opcode = TN_REDUCE, .tensor = X}, {.opcode = TN_GET, .tensor = Y, .wait = 2});
    REFUSED(g, "(swap_out, stream 1) uses it", {.opcode = TN_PUT, .tensor = X, .signal = 1},
            {.opcode = TN_SWAP_OUT, .tensor = X, .stream = 1, .wait = 1},
            {.opcode = TN_PUT, .tensor = X}, {.opcode = TN_APPLY}, {.opcode = TN_GET, .tensor = Y});
    REFUSED(g, "uses the same buffer of the host", {.opcode = TN_PUT, .tensor = X, .signal = 1},
            {.opcode = TN_SWAP_OUT, .tensor = X, .stream = 1, .wait = 1, .slot = 1},
            {.opcode = TN_SWAP_IN, .tensor = X, .slot = 1});
    REFUSED(g, "could not tell the two apart", {.opcode = TN_PUT, .tensor = X, .signal = 1},
            {.opcode = TN_SEND, .tensor = X},
            {.opcode = TN_SEND, .tensor = X, .stream = 1, .wait = 1});
    tn_graph_destroy(g);
}

/* --- what runs twice
 * -------------------------------------------------------------------------------- */

static void only_what_gives_the_same_again_runs_twice(void **state) {
    (void)state;
    const line run = {.opcode = TN_APPLY};
    tn_graph *g = chain("Relu", NULL);
    ACCEPTED(g, {.opcode = TN_PUT, .tensor = X}, run, {.opcode = TN_DROP, .tensor = Y}, run,
             {.opcode = TN_GET, .tensor = Y});
    ACCEPTED(g, {.opcode = TN_PUT, .tensor = X}, run, {.opcode = TN_DROP, .tensor = X},
             {.opcode = TN_DROP, .tensor = Y}, {.opcode = TN_PUT, .tensor = X}, run,
             {.opcode = TN_GET, .tensor = Y});
    REFUSED(g, "is not what it was", {.opcode = TN_PUT, .tensor = X}, run,
            {.opcode = TN_DROP, .tensor = Y}, {.opcode = TN_REDUCE, .tensor = X}, run,
            {.opcode = TN_GET, .tensor = Y});
    REFUSED(g, "changed in place", {.opcode = TN_PUT, .tensor = X}, run,
            {.opcode = TN_REDUCE, .tensor = Y}, {.opcode = TN_DROP, .tensor = Y}, run,
            {.opcode = TN_GET, .tensor = Y});
    REFUSED(g, "nothing has defined it", run, {.opcode = TN_GET, .tensor = Y});
    tn_graph_destroy(g);
    g = chain("Bernoulli", NULL);
    REFUSED(g, "is not known to give the same again", {.opcode = TN_PUT, .tensor = X}, run,
            {.opcode = TN_DROP, .tensor = Y}, run, {.opcode = TN_GET, .tensor = Y});
    tn_graph_destroy(g);
    g = chain("relu_.default", "aten");
    REFUSED(g, "writes into its inputs", {.opcode = TN_PUT, .tensor = X}, run,
            {.opcode = TN_DROP, .tensor = Y}, run, {.opcode = TN_GET, .tensor = Y});
    /* y is x by another name: a copy of it that comes back would be none */
    REFUSED(g, "another name of 'x'", {.opcode = TN_PUT, .tensor = X}, run,
            {.opcode = TN_SWAP_OUT, .tensor = Y}, {.opcode = TN_SWAP_IN, .tensor = Y},
            {.opcode = TN_GET, .tensor = Y});
    tn_graph_destroy(g);
    g = chain("Identity", NULL); /* y may lie in x */
    REFUSED(g, "changed what may be its memory", {.opcode = TN_PUT, .tensor = X}, run,
            {.opcode = TN_REDUCE, .tensor = X}, {.opcode = TN_GET, .tensor = Y});
    ACCEPTED(g, {.opcode = TN_PUT, .tensor = X}, run, {.opcode = TN_REDUCE, .tensor = Y},
             {.opcode = TN_GET, .tensor = Y});
    tn_graph_destroy(g);
}

/* What is static may live in the host's memory between the runs. */
static void weights_come_in_and_go_out(void **state) {
    (void)state;
    tn_graph *g;
    tn_tensor_id in[2], y;
    assert_ok(tn_graph_create(NULL, &g, &failure));
    in[0] = vector(g, "x", TN_KIND_INPUT, 8, 0);
    in[1] = vector(g, "w", TN_KIND_PARAMETER, 8, 0);
    y = vector(g, "y", TN_KIND_OUTPUT, 8, 0);
    apply(g, "Max", 0, in, 2, &y, 1);
    assert_ok(tn_graph_infer(g, &failure));
    const line run = {.opcode = TN_APPLY}, w_in = {.opcode = TN_SWAP_IN, .tensor = in[1]},
               w_out = {.opcode = TN_SWAP_OUT, .tensor = in[1]};
    ACCEPTED(g, {.opcode = TN_PUT, .tensor = X}, w_in, run, w_out, {.opcode = TN_GET, .tensor = y});
    ACCEPTED(g, {.opcode = TN_PUT, .tensor = X}, w_in, run, {.opcode = TN_DROP, .tensor = in[1]},
             {.opcode = TN_GET, .tensor = y});
    ACCEPTED(g, {.opcode = TN_PUT, .tensor = X}, w_out, w_in, run, {.opcode = TN_GET, .tensor = y});
    REFUSED(g, "swap it in", {.opcode = TN_PUT, .tensor = X}, run, w_in,
            {.opcode = TN_GET, .tensor = y});
    REFUSED(g, "does not end there", {.opcode = TN_PUT, .tensor = X}, w_in, run,
            {.opcode = TN_GET, .tensor = y});
    REFUSED(g, "and not when it ends", {.opcode = TN_PUT, .tensor = X}, run, w_out,
            {.opcode = TN_GET, .tensor = y});
    REFUSED(g, "it is constant", {.opcode = TN_PUT, .tensor = X},
            {.opcode = TN_REDUCE, .tensor = in[1]}, run, {.opcode = TN_GET, .tensor = y});
    REFUSED(g, "before the program starts", {.opcode = TN_PUT, .tensor = X},
            {.opcode = TN_PUT, .tensor = in[1]}, run, {.opcode = TN_GET, .tensor = y});
    tn_graph_destroy(g);
}

/* --- control flow
 * ----------------------------------------------------------------------------------- */

typedef struct flow {
    tn_graph *graph;
    tn_instruction list[STEPS_MAX * 2];
    tn_region regions[16];
    uint32_t count, region_count;
} flow;

static void flow_of(flow *f, uint64_t seed) {
    tn_program *program;
    f->graph = random_graph(seed, true);
    assert_ok(tn_graph_infer(f->graph, &failure));
    assert_ok(tn_program_create(f->graph, NULL, &program, &failure));
    f->count = tn_program_count(program);
    f->region_count = tn_program_region_count(program);
    assert_true(f->count <= STEPS_MAX && f->region_count <= 16 && f->region_count > 0);
    memcpy(f->list, tn_program_instructions(program), f->count * sizeof *f->list);
    memcpy(f->regions, tn_program_regions(program), f->region_count * sizeof *f->regions);
    tn_program_destroy(program);
}

/* Does something to region r; NULL: it cannot be done to this one. */
static const char *spoil_region(flow *f, uint32_t r, uint32_t how) {
    tn_region *region = &f->regions[r];
    bool empty = region->first == region->last;
    tn_instruction extra = TN_INSTRUCTION_INIT, *first = &f->list[region->first];
    const tn_op *op = tn_graph_op(f->graph, region->op);
    switch (how) {
    case 0:
        memmove(region, region + 1, (--f->region_count - r) * sizeof *region);
        return "";
    case 1:
        region->repeats = !region->repeats;
        return region->repeats ? "it repeats" : "it runs once";
    case 2:
        region->block = 0;
        return "is none that its node runs";
    case 3:
        region->last = f->count + 1;
        return "lies outside";
    case 4:
        f->regions[f->region_count++] = *region;
        return "has region";
    case 5:
        if (empty) return NULL;
        region->last--;
        return "";
    case 6:
        if (empty) return NULL;
        first->stream = 3;
        return "the control flow around it is on stream";
    case 7:
        if (empty) return NULL;
        first->signal = 77;
        return "nobody waits or signals";
    case 8: { /* an input is released inside: the other branch, or the next turn, reads it */
        tn_tensor_id id = op->inputs[op->input_count - 1];
        if (empty || id == TN_NONE || tn_tensor_is_static(tn_graph_tensor(f->graph, id)) ||
            tn_graph_tensor(f->graph, id)->block != 0)
            return NULL;
        extra.opcode = TN_DROP;
        extra.tensor = id;
        *first = extra;
        return "outside of the control flow";
    }
    default:
        if (empty) return NULL;
        extra.opcode = TN_GET;
        extra.tensor = 0;
        *first = extra;
        return "nobody knows how often";
    }
}

static void control_flow_is_nested_whole_and_on_one_stream(void **state) {
    static flow f;
    uint32_t done[10] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        for (uint32_t how = 0; how < 10; how++) {
            flow_of(&f, seed);
            const char *why = spoil_region(&f, (uint32_t)(seed % f.region_count), how);
            if (why != NULL) {
                expect_refusal(f.graph, f.list, f.count, f.regions, f.region_count, why, seed);
                done[how]++;
            }
            tn_graph_destroy(f.graph);
        }
    for (uint32_t how = 0; how < 10; how++)
        if (done[how] < 50) fail_msg("kind %u only %u times", how, done[how]);
}

/* --- ranks
 * ------------------------------------------------------------------------------------------ */

static tn_program *rank_of(const tn_graph *graph, const line *lines, uint32_t count) {
    tn_instruction list[16];
    tn_program *program;
    assert_ok(
        tn_program_from(graph, list, written(lines, count, list), NULL, 0, &program, &failure));
    return program;
}

#define RANK(...) rank_of(g, LINES(__VA_ARGS__))

static void expect_ranks(tn_program *a, tn_program *b, const char *why) {
    const tn_program *both[2] = {a, b};
    tn_error error = {0};
    tn_status status = tn_programs_verify(both, b != NULL ? 2 : 1, &error);
    if (why == NULL ? status != TN_OK : status != TN_E_INVALID || !strstr(error.message, why))
        fail_msg("expected \"%s\": %s: %s\n", why ? why : "accepted", error.where, error.message);
    if (why != NULL) assert_non_null(strstr(error.where, "rank "));
    tn_program_destroy(a);
    tn_program_destroy(b);
}

static void a_send_meets_its_receive_and_nobody_waits_for_ever(void **state) {
    (void)state;
    tn_graph *g = chain("Relu", NULL);
    const line run = {.opcode = TN_APPLY}, put_x = {.opcode = TN_PUT, .tensor = X},
               get_y = {.opcode = TN_GET, .tensor = Y};
    const line to_1 = {.opcode = TN_SEND, .tensor = X, .peer = 1, .tag = 5},
               from_0 = {.opcode = TN_RECV, .tensor = X, .tag = 5};
    const line from_1 = {.opcode = TN_RECV, .tensor = E, .peer = 1, .tag = 6},
               to_0 = {.opcode = TN_SEND, .tensor = E, .tag = 6};
    const line put_e = {.opcode = TN_PUT, .tensor = E};
    expect_ranks(RANK(put_x, to_1), RANK(from_0, run, get_y), NULL);
    expect_ranks(RANK(put_x, to_1), RANK(put_x, run, get_y), "rank 1 has no RECV from rank 0");
    expect_ranks(RANK(put_x, run, get_y), RANK(from_0, run, get_y), "rank 0 has no SEND to rank 1");
    expect_ranks(RANK(put_x, {.opcode = TN_SEND, .tensor = X, .peer = 7}), RANK(put_x, run, get_y),
                 "there is no rank 7");
    expect_ranks(RANK(put_x, to_1), RANK({.opcode = TN_RECV, .tensor = E, .tag = 5}),
                 "has room for 4");
    /* each sends before it receives: both wait until the other is there */
    expect_ranks(RANK(put_x, to_1, from_1), RANK(put_e, from_0, to_0), NULL);
    expect_ranks(RANK(put_x, to_1, from_1), RANK(put_e, to_0, from_0), "waits for ever");
    /* on another stream the one need not wait for the other */
    expect_ranks(RANK(put_x, to_1, from_1),
                 RANK({.opcode = TN_PUT, .tensor = E, .signal = 1},
                      {.opcode = TN_SEND, .tensor = E, .tag = 6, .stream = 1, .wait = 1}, from_0),
                 NULL);
    /* but it starts when the list has come to it: not behind a WAIT for what the other end does
     * only then */
    const line sent = {
        .opcode = TN_SEND, .tensor = X, .peer = 1, .tag = 5, .stream = 1, .wait = 1, .signal = 2};
    const line taken = {.opcode = TN_RECV, .tensor = E, .peer = 1, .tag = 6, .stream = 2};
    const line put = {.opcode = TN_PUT, .tensor = X, .signal = 1};
    const line over = {.opcode = TN_WAIT, .wait = 2};
    expect_ranks(RANK(put, sent, taken, over), RANK(put_e, to_0, from_0), NULL);
    expect_ranks(RANK(put, sent, over, taken), RANK(put_e, to_0, from_0), "waits for ever");
    expect_ranks(RANK(put_x, {.opcode = TN_REDUCE, .tensor = X}),
                 RANK(put_x, {.opcode = TN_REDUCE, .tensor = X}), NULL);
    expect_ranks(RANK(put_x, {.opcode = TN_REDUCE, .tensor = X}),
                 RANK(put_x, {.opcode = TN_SCATTER, .tensor = X}), "in its turn");
    expect_ranks(
        RANK(put_x, {.opcode = TN_REDUCE, .tensor = X}, {.opcode = TN_REDUCE, .tensor = X}),
        RANK(put_x, {.opcode = TN_REDUCE, .tensor = X}), "has no such call");
    expect_ranks(RANK(put_x, {.opcode = TN_REDUCE, .tensor = X}), RANK(put_x, run, get_y),
                 "1 of 2 ranks");
    expect_ranks(RANK(put_x, {.opcode = TN_REDUCE, .tensor = X, .group = 1}),
                 RANK(put_x, run, get_y), NULL);
    /* what came in parts is brought together by as many ranks */
    for (uint32_t parts = 2; parts <= 4; parts += 2) {
        const line all = {.opcode = TN_GATHER, .tensor = X};
        expect_ranks(RANK(put_x, {.opcode = TN_SEND, .tensor = X, .peer = 1, .parts = parts}, all),
                     RANK({.opcode = TN_RECV, .tensor = X, .parts = parts}, all, run, get_y),
                     parts == 2 ? NULL : "one of 4 parts has come, and 2 ranks call group 0");
    }
    /* with itself: on one stream it never comes to what it waits for */
    expect_ranks(
        RANK(put_x, {.opcode = TN_SEND, .tensor = X}, {.opcode = TN_RECV, .tensor = Y}, get_y),
        NULL, "waits for ever");
    expect_ranks(RANK(put_x, {.opcode = TN_SEND, .tensor = X},
                      {.opcode = TN_RECV, .tensor = Y, .stream = 1, .signal = 1},
                      {.opcode = TN_GET, .tensor = Y, .wait = 1}),
                 NULL, "waits for ever");
    expect_ranks(RANK(put, {.opcode = TN_SEND, .tensor = X, .stream = 1, .wait = 1},
                      {.opcode = TN_RECV, .tensor = Y}, get_y),
                 NULL, NULL);
    tn_graph_destroy(g);
}

static void running_out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    uint64_t failures = 0;
    for (uint64_t fail_at = 1; status != TN_OK; fail_at++) {
        faulty memory = {0};
        tn_context context = faulty_context(&memory);
        tn_graph *g;
        tn_program *program = NULL;
        assert_ok(tn_graph_create(&context, &g, &failure));
        tn_tensor_id x = vector(g, "x", TN_KIND_INPUT, 8, 0),
                     y = vector(g, "y", TN_KIND_OUTPUT, 8, 0);
        vector(g, "e", TN_KIND_ACTIVATION, 4, 0);
        apply(g, "Relu", 0, &x, 1, &y, 1);
        assert_ok(tn_graph_infer(g, &failure));
        const line lines[] = {
            {.opcode = TN_PUT, .tensor = X, .signal = 1},
            {.opcode = TN_SWAP_OUT, .tensor = X, .stream = 1, .wait = 1},
            {.opcode = TN_SWAP_IN, .tensor = X, .stream = 1, .signal = 2},
            {.opcode = TN_ENCODE, .tensor = X, .other = 3, .codec = TN_CODEC_CSR, .wait = 2},
            {.opcode = TN_DROP, .tensor = X},
            {.opcode = TN_DECODE, .tensor = X, .other = 3, .codec = TN_CODEC_CSR},
            {.opcode = TN_APPLY},
            {.opcode = TN_GET, .tensor = Y},
            {.opcode = TN_REDUCE, .tensor = Y}};
        tn_instruction list[9];
        written(lines, 9, list);
        memory.requests = 0;
        memory.fail_at = fail_at;
        const tn_encoded form = {.tensor = X, .codec = TN_CODEC_CSR};
        status = tn_program_from_encoded(g, &form, 1, list, 9, NULL, 0, &program, &failure);
        if (status == TN_OK)
            status = tn_programs_verify((const tn_program *const[]){program}, 1, &failure);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        failures += status != TN_OK;
        tn_program_destroy(program);
        tn_graph_destroy(g);
        assert_int_equal(memory.held, 0);
    }
    assert_true(failures > 12);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_saboteur_is_refused_for_its_reason),
        cmocka_unit_test(every_field_is_checked),
        cmocka_unit_test(the_host_pool_gives_back_what_it_was_given),
        cmocka_unit_test(forms_of_the_programs_own_are_that_alone),
        cmocka_unit_test(streams_wait_for_each_other),
        cmocka_unit_test(only_what_gives_the_same_again_runs_twice),
        cmocka_unit_test(weights_come_in_and_go_out),
        cmocka_unit_test(control_flow_is_nested_whole_and_on_one_stream),
        cmocka_unit_test(a_send_meets_its_receive_and_nobody_waits_for_ever),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
