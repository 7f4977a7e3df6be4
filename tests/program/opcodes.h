/* opcodes.h - random valid programs of all opcodes, and the judge that executes them.
 *
 * The maker walks over a small random graph. Before each operator it brings back what is away and
 * sends something else away: dropped, swapped out, encoded or sent to itself. Then it deals the
 * instructions to streams and has each wait for those that it must not overtake.
 *
 * The judge runs a program twice. In the order of the list, with memory of its own for every
 * definition, it learns what each instruction should read and write. Then on the planned bytes, one
 * element at a time, in an order of the streams drawn at random: a copy or an operator holds what
 * it reads and writes from its first element to its end, and whoever reads must find what it
 * should.
 */
#ifndef TN_TESTS_PROGRAM_OPCODES_H
#define TN_TESTS_PROGRAM_OPCODES_H

#include "../random_graph.h" /* of uint8: bytes are elements */

#include <tenure/occupancy.h>
#include <tenure/program.h>

#define STEPS_MAX 256u
#define TENSORS_MAX 128u
#define BYTES_MAX 24u
#define FORMS 3u
#define OWN_MAX 16u

/* --- programs ----------------------------------------------------------------------------------
 */

typedef enum place_of { AWAY_NOT, AWAY_DROPPED, AWAY_SWAPPED, AWAY_ENCODED, AWAY_SENT } place_of;

typedef struct writer {
    tn_graph *graph;
    tn__random random;
    tn_instruction list[STEPS_MAX];
    uint32_t count;
    tn_tensor_id
        form[FORMS]; /* no operator makes these: encoded forms, gathered, scattered parts */
    tn_tensor_id form_of[FORMS];
    bool form_read[FORMS];
    uint32_t slot[TENSORS_MAX], tag[TENSORS_MAX], uses[TENSORS_MAX];
    uint32_t slot_used[4]; /* by how many that are out */
    tn_codec codec[TENSORS_MAX];
    place_of where[TENSORS_MAX];
    bool here[TENSORS_MAX], known[TENSORS_MAX], changed[TENSORS_MAX], viewed[TENSORS_MAX];
    uint32_t home[TENSORS_MAX];
    bool full;
    bool owns;                   /* some of its forms are the program's own: */
    tn_encoded encoded[OWN_MAX]; /* [own_count] */
    tn_tensor own[OWN_MAX];      /* what there is to know of them */
    uint32_t own_count;
    tn_tensor_id coded[TENSORS_MAX]; /* the form of what is encoded */
    bool runs; /* only what one engine runs: no other ranks, and what is encoded keeps every bit */
    bool stored[TENSORS_MAX]; /* constant, and in a file */
} writer;

static inline uint64_t draw(writer *w, uint64_t below) {
    return tn__random_below(&w->random, below);
}

static inline const tn_tensor *facts_of(const writer *w, tn_tensor_id id) {
    uint32_t count = tn_graph_tensor_count(w->graph);
    return id < count ? tn_graph_tensor(w->graph, id) : &w->own[id - count];
}

static inline tn_instruction *emit(writer *w, tn_opcode opcode, tn_tensor_id tensor) {
    static const tn_instruction none = TN_INSTRUCTION_INIT;
    w->full |= w->count > STEPS_MAX / 4;
    assert_true(w->count < STEPS_MAX);
    tn_instruction *it = &w->list[w->count++];
    *it = none;
    it->opcode = opcode;
    it->tensor = tensor;
    return it;
}

static inline void bring(writer *w, tn_tensor_id id);

static inline void got(writer *w, tn_tensor_id id) {
    w->here[id] = w->known[id] = true;
    w->where[id] = AWAY_NOT;
}

/* Mean and variance (outputs 3, 4) are found once, and what runs again reads them. */
static inline bool is_norm(const tn_op *op) { return strcmp(op->type, "BatchNormTrain") == 0; }

static inline void run_operator(writer *w, tn_op_id id) {
    const tn_op *op = tn_graph_op(w->graph, id);
    tn_tensor_id out = op->outputs[0];
    bool again = is_norm(op) && w->known[out];
    for (uint32_t i = 0; i < op->input_count; i++)
        bring(w, again && i > 2 ? op->outputs[i] : op->inputs[i]);
    tn_instruction *it = emit(w, TN_APPLY, TN_NONE);
    it->op = id;
    it->again = again || (!is_norm(op) && w->known[out] && draw(w, 2));
    got(w, out);
    for (uint32_t k = 3; k < op->output_count && !again; k++) {
        got(w, op->outputs[k]);
        w->changed[op->outputs[k]] = true; /* nobody computes it once more */
        w->uses[op->outputs[k]]++;
    }
}

/* Whatever is needed to have the tensor. As deep as the graph. */
static inline void bring(writer *w, tn_tensor_id id) {
    if (w->here[id] || (tn_tensor_is_static(facts_of(w, id)) && !w->stored[id])) return;
    if (w->stored[id]) {
        emit(w, TN_FETCH, id);
    } else if (w->where[id] == AWAY_SWAPPED) {
        emit(w, TN_SWAP_IN, id)->slot = w->slot[id];
        w->slot_used[w->slot[id]]--;
    } else if (w->where[id] == AWAY_ENCODED) {
        tn_instruction *it = emit(w, TN_DECODE, id);
        it->other = w->coded[id];
        it->codec = w->codec[id];
        for (uint32_t i = 0; i < FORMS; i++)
            if (w->form_of[i] == id) w->form_of[i] = TN_NONE;
        emit(w, draw(w, 2) ? TN_DROP : TN_FREE, w->coded[id]);
    } else if (w->where[id] == AWAY_SENT) {
        emit(w, TN_RECV, id)->tag = w->tag[id];
    } else if (facts_of(w, id)->producer != TN_NONE) {
        run_operator(w, facts_of(w, id)->producer);
    } else {
        emit(w, TN_PUT, id);
    }
    got(w, id);
}

static inline void release(writer *w, tn_tensor_id id, tn_opcode opcode, place_of where) {
    if (opcode != TN_SWAP_OUT) emit(w, opcode, id);
    w->here[id] = false;
    w->where[id] = where;
}

/* A form of the program's own, which may be there from an earlier time. */
static inline tn_tensor_id own_form(writer *w, tn_tensor_id id, tn_codec codec) {
    uint32_t first = tn_graph_tensor_count(w->graph), k = 0;
    while (k < w->own_count && (w->encoded[k].tensor != id || w->encoded[k].codec != codec)) k++;
    if (k < w->own_count) return first + k;
    uint64_t count = facts_of(w, id)->bytes;
    uint64_t bytes = w->runs ? tn_codec_bytes(codec, count / 4, count / 4) /* for any contents */
                             : tn_codec_bytes(codec, count, 0);
    assert_true(w->runs || bytes <= BYTES_MAX);
    w->encoded[w->own_count] = (tn_encoded){id, codec, bytes};
    w->home[first + k] = first + k;
    w->own[w->own_count++] = (tn_tensor){.name = "own", .bytes = bytes, .producer = TN_NONE};
    return first + k;
}

static inline void send_away(writer *w, tn_tensor_id id) {
    uint32_t free_form = 0;
    while (free_form < FORMS && w->form_of[free_form] != TN_NONE) free_form++;
    tn_op_id by = facts_of(w, id)->producer;
    bool norm = by != TN_NONE && is_norm(tn_graph_op(w->graph, by));
    switch (norm && draw(w, 2) ? 0 : draw(w, 5)) {
    case 0: /* and computed or put once more */
        if (w->changed[id]) return;
        release(w, id, draw(w, 3) ? TN_DROP : TN_FREE, AWAY_DROPPED);
        return;
    case 1:
    case 2: {
        uint32_t slot = (uint32_t)draw(w, 4);
        if (slot > 0 && w->slot_used[slot] > 0) slot = 0;
        w->slot[id] = slot;
        w->slot_used[slot]++;
        emit(w, TN_SWAP_OUT, id)->slot = slot;
        release(w, id, TN_SWAP_OUT, AWAY_SWAPPED);
        return;
    }
    case 3: {
        tn_codec codec = w->codec[id] =
            w->runs ? TN_CODEC_CSR : (tn_codec)(1 + draw(w, TN_CODEC_COUNT - 1));
        bool own = w->owns && w->own_count < OWN_MAX && draw(w, 2);
        if (!own && free_form == FORMS) return;
        w->coded[id] = own ? own_form(w, id, codec) : w->form[free_form];
        if (!own) w->form_of[free_form] = id;
        tn_instruction *it = emit(w, TN_ENCODE, id);
        it->other = w->coded[id];
        it->codec = codec;
        release(w, id, TN_DROP, AWAY_ENCODED);
        return;
    }
    default: /* who read it before could not know that the same comes back */
        if (w->uses[id] > 0 || w->runs) return;
        w->changed[id] = true;
        emit(w, TN_SEND, id)->tag = w->tag[id] = w->count;
        release(w, id, TN_DROP, AWAY_SENT);
    }
}

/* What has been defined and nobody has read yet is reduced with other ranks, or handed about. */
static inline void share(writer *w, tn_tensor_id id) {
    static const tn_opcode opcodes[] = {TN_REDUCE, TN_GATHER, TN_SCATTER};
    tn_opcode opcode = opcodes[draw(w, 3)];
    bool alone = w->home[id] == id && !w->viewed[id] && w->uses[id] == 0;
    if (alone && (opcode == TN_REDUCE || draw(w, 2))) {
        tn_instruction *it = emit(w, opcode, id);
        if (opcode != TN_GATHER) it->reduction = (tn_reduction)draw(w, TN_REDUCTION_COUNT);
        it->group = (uint32_t)draw(w, 3);
        w->changed[id] = true;
        return;
    }
    uint32_t at = opcode == TN_SCATTER ? 1 : 2; /* smaller, or larger */
    if (opcode == TN_REDUCE || w->form_of[at] != TN_NONE) return;
    uint64_t a = facts_of(w, id)->bytes, b = facts_of(w, w->form[at])->bytes;
    if (at == 1 ? a % b != 0 : b % a != 0) return;
    emit(w, opcode, id)->other = w->form[at];
    if (draw(w, 2)) emit(w, TN_GET, w->form[at]);
    emit(w, TN_FREE, w->form[at]);
}

static inline void trouble(writer *w) {
    uint32_t tensors = tn_graph_tensor_count(w->graph);
    tn_tensor_id id = (tn_tensor_id)draw(w, tensors);
    for (uint32_t i = 0; i < tensors; i++, id = (id + 1) % tensors) {
        if (!w->here[id]) continue;
        if (w->stored[id]) {
            release(w, id, draw(w, 3) ? TN_DROP : TN_FREE, AWAY_DROPPED);
            continue;
        }
        if (draw(w, 3) == 0 && !w->runs)
            share(w, id);
        else
            send_away(w, id);
        return;
    }
}

/* --- streams ------------------------------------------------------------------------------------
 */

/* What must not be overtaken: for each thing the newest writer, and the readers since. Views count
 * as what they view; tensors first, then buffers of the host: a tensor's own, and the numbered. */
#define THINGS (2 * TENSORS_MAX + 64)
typedef struct touched { /* sets */
    uint64_t reads[THINGS / 64], writes[THINGS / 64];
} touched;

static inline void add_to(uint64_t *set, uint32_t thing) {
    set[thing / 64] |= 1ull << (thing % 64);
}

static inline void touch_of(const writer *w, const tn_instruction *it, touched *touch) {
    *touch = (touched){0};
    if (it->opcode == TN_APPLY) {
        const tn_op *op = tn_graph_op(w->graph, it->op);
        bool found = it->again && is_norm(op);
        for (uint32_t i = 0; i < op->input_count; i++)
            add_to(touch->reads, w->home[found && i > 2 ? op->outputs[i] : op->inputs[i]]);
        for (uint32_t k = 0; k < (found ? 1 : op->output_count); k++)
            add_to(touch->writes, w->home[op->outputs[k]]);
        return;
    }
    bool writes = it->opcode == TN_PUT || it->opcode == TN_SWAP_IN || it->opcode == TN_RECV ||
                  it->opcode == TN_DECODE || it->opcode == TN_REDUCE || it->opcode == TN_FETCH;
    bool in_place = it->other == TN_NONE && (it->opcode == TN_GATHER || it->opcode == TN_SCATTER);
    if (it->tensor != TN_NONE)
        add_to(writes || in_place ? touch->writes : touch->reads, w->home[it->tensor]);
    if (it->other != TN_NONE)
        add_to(it->opcode == TN_DECODE ? touch->reads : touch->writes, w->home[it->other]);
    uint32_t buffer = it->slot ? 2 * TENSORS_MAX + it->slot : TENSORS_MAX + it->tensor;
    if (it->opcode == TN_SWAP_OUT) add_to(touch->writes, buffer);
    if (it->opcode == TN_SWAP_IN) add_to(touch->reads, buffer);
}

/* Whether `b` must wait for `a`: they touch one thing and one of them writes it. Messages of one
 * kind keep their order, as the calls of one group do. */
static inline bool must_follow(const tn_instruction *a, const touched *x, const tn_instruction *b,
                               const touched *y) {
    for (uint32_t i = 0; i < THINGS / 64; i++)
        if ((x->writes[i] & (y->reads[i] | y->writes[i])) || (x->reads[i] & y->writes[i]))
            return true;
    tn_blocks blocks = tn_opcode_facts_of(a->opcode)->blocks;
    if (blocks != tn_opcode_facts_of(b->opcode)->blocks) return false;
    if (blocks == TN_BLOCKS_GROUP) return a->group == b->group;
    return blocks == TN_BLOCKS_PEER && a->opcode == b->opcode && a->tag == b->tag;
}

/* order[b]: the set of those known to be over when b starts: from streams, signals, callers. The
 * rows before it are there. */
typedef uint64_t order_row[STEPS_MAX / 64];
static inline void know_order(const tn_instruction *list, uint32_t b, order_row *order) {
    memset(order[b], 0, sizeof order[b]);
    for (uint32_t a = b; a-- > 0;) {
        bool caller = tn_opcode_facts_of(list[a].opcode)->blocks == TN_BLOCKS_CALLER;
        if (list[a].stream != list[b].stream && !(caller && list[a].opcode == list[b].opcode) &&
            !(list[b].wait != 0 && list[b].wait == list[a].signal))
            continue;
        order[b][a / 64] |= 1ull << (a % 64);
        for (uint32_t i = 0; i < STEPS_MAX / 64; i++) order[b][i] |= order[a][i];
    }
}

static inline bool is_before(order_row *order, uint32_t a, uint32_t b) {
    return order[b][a / 64] >> (a % 64) & 1;
}

static inline uint32_t random_stream(writer *w, const tn_instruction *it, uint32_t streams) {
    bool copies = tn_opcode_facts_of(it->opcode)->link != TN_LINK_NONE;
    if (streams == 1) return 0;
    if (draw(w, 8) == 0) return (uint32_t)draw(w, streams);
    return copies ? 1 + (uint32_t)draw(w, streams - 1) : 0;
}

/* Deals the list to streams, with a WAIT in front of who must wait for more than one. */
static inline void deal(writer *w, uint32_t streams) {
    static tn_instruction plain[STEPS_MAX];
    static order_row order[STEPS_MAX];
    static touched touch[STEPS_MAX];
    uint32_t count = w->count, at[STEPS_MAX], signal = 0;
    memcpy(plain, w->list, count * sizeof *plain);
    w->count = 0;
    for (uint32_t b = 0; b < count; b++) {
        plain[b].stream = random_stream(w, &plain[b], streams);
        tn_instruction made = plain[b];
        touch_of(w, &made, &touch[b]);
        w->list[w->count] = made;
        know_order(w->list, w->count, order);
        for (uint32_t a = b; a-- > 0 && streams > 1;) {
            if (plain[a].stream == made.stream || is_before(order, at[a], w->count) ||
                !must_follow(&plain[a], &touch[a], &made, &touch[b]))
                continue;
            if (made.wait != 0) {
                tn_instruction *wait = emit(w, TN_WAIT, TN_NONE);
                wait->stream = made.stream;
                wait->wait = made.wait;
                know_order(w->list, w->count - 1, order);
            }
            if (w->list[at[a]].signal == 0) w->list[at[a]].signal = ++signal * 3;
            made.wait = w->list[at[a]].signal;
            w->list[w->count] = made;
            know_order(w->list, w->count, order);
        }
        at[b] = w->count;
        *emit(w, made.opcode, TN_NONE) = made;
    }
}

/* --- the whole program ---------------------------------------------------------------------------
 */

static inline void tensor_homes(writer *w) {
    for (uint32_t i = 0; i < tn_graph_tensor_count(w->graph); i++) w->home[i] = i;
    for (uint32_t o = 0; o < tn_graph_op_count(w->graph); o++) {
        tn_view view = tn_op_view(w->graph, o, 0);
        if (view.source == TN_NONE) continue;
        w->home[tn_graph_op(w->graph, o)->outputs[0]] = w->home[view.source];
        w->viewed[w->home[view.source]] = w->viewed[view.source] = true;
    }
}

/* Constants in files: not the running statistics, where new ones are written over the old. */
static inline void store_some(writer *w) {
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(w->graph); t++)
        w->stored[t] = draw(w, 3) == 0 && tn_tensor_is_constant(facts_of(w, t));
    for (uint32_t o = 0; o < tn_graph_op_count(w->graph); o++)
        for (uint32_t i = 3; i < 5 && is_norm(tn_graph_op(w->graph, o)); i++)
            w->stored[tn_graph_op(w->graph, o)->inputs[i]] = false;
}

/* An operator that runs again by another type. */
static inline void make_norm(maker *m) {
    static const char *const names[] = {"scale", "bias", "mean", "variance"};
    tn_tensor_id in[5] = {pick(m)}, out[5];
    for (int i = 0; i < 4; i++) in[i + 1] = vector(m->graph, names[i], TN_KIND_PARAMETER, 4, 0);
    for (int k = 0; k < 5; k++) {
        tn_tensor_spec spec = {.name = k == 0  ? "norm"
                                       : k < 3 ? "updated"
                                               : "found",
                               .kind = TN_KIND_ACTIVATION};
        assert_ok(tn_graph_add_tensor(m->graph, &spec, &out[k], &failure));
    }
    tn_op_spec spec = {.type = "BatchNormTrain",
                       .name = "norm",
                       .domain = "tenure",
                       .inputs = in,
                       .input_count = 5,
                       .outputs = out,
                       .output_count = 5};
    assert_ok(tn_graph_add_op(m->graph, &spec, NULL, &failure));
    m->pool[m->count++] = out[0];
}

static inline tn_graph *small_graph(writer *w) {
    maker m = {.random = {.state = draw(w, UINT64_MAX)}, .size = 8};
    assert_ok(tn_graph_create(NULL, &m.graph, &failure));
    m.pool[m.count++] = vector(m.graph, "in", TN_KIND_INPUT, m.size, 0);
    m.pool[m.count++] = vector(m.graph, "in2", TN_KIND_INPUT, m.size, 0);
    for (uint64_t ops = 1 + draw(w, 4); ops > 0; ops--) {
        if (draw(w, 2) && !w->runs) make_norm(&m);
        make_op(&m, 0);
    }
    tn_tensor_id out = vector(m.graph, "out", TN_KIND_OUTPUT, -1, 0), in = m.pool[m.count - 1];
    apply(m.graph, draw(w, 2) ? "Identity" : "Relu", 0, &in, 1, &out, 1);
    w->form[0] = vector(m.graph, "code", TN_KIND_ACTIVATION, w->runs ? 12 : 5, 0);
    w->form[1] = vector(m.graph, "part", TN_KIND_ACTIVATION, w->runs ? 13 : 4, 0);
    w->form[2] = vector(m.graph, "all", TN_KIND_ACTIVATION, 16, 0);
    for (uint32_t i = 0; i < FORMS; i++) w->form_of[i] = TN_NONE;
    assert_ok(tn_graph_infer(m.graph, &failure));
    assert_true(tn_graph_tensor_count(m.graph) + OWN_MAX < TENSORS_MAX);
    return m.graph;
}

/* streams: 0: some. owns: forms of its own. runs: for one engine alone. */
static inline void write_program_for(writer *w, uint64_t seed, uint32_t streams, bool owns,
                                     bool runs) {
    memset(w, 0, sizeof *w);
    w->owns = owns;
    w->random.state = seed;
    w->runs = runs;
    w->graph = small_graph(w);
    tensor_homes(w);
    store_some(w);
    const tn_block *block = tn_graph_block(w->graph, 0);
    if (streams == 0) streams = draw(w, 4) == 0 ? 1 : 2 + (uint32_t)draw(w, 3);
    uint64_t often = draw(w, 4);
    for (uint32_t i = 0; i < block->op_count; i++) {
        const tn_op *op = tn_graph_op(w->graph, block->ops[i]);
        for (uint64_t n = draw(w, often + 1); n > 0 && !w->full; n--) trouble(w);
        if (w->here[op->outputs[0]]) continue;
        run_operator(w, block->ops[i]);
        for (uint32_t k = 0; k < op->input_count; k++) w->uses[op->inputs[k]]++;
    }
    for (uint64_t n = draw(w, often + 1); n > 0 && !w->full; n--) trouble(w);
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(w->graph); t++)
        if (w->where[t] == AWAY_SWAPPED || w->where[t] == AWAY_ENCODED) bring(w, t);
    for (uint32_t i = 0; i < block->op_count && !w->full; i++) { /* a last time, for nobody */
        tn_tensor_id out = tn_graph_op(w->graph, block->ops[i])->outputs[0];
        if (is_norm(tn_graph_op(w->graph, block->ops[i])) && !w->changed[out]) bring(w, out);
    }
    for (uint32_t i = 0; i < block->output_count; i++) {
        bring(w, block->outputs[i]);
        emit(w, TN_GET, block->outputs[i]);
    }
    deal(w, streams);
}

static inline void write_program_of(writer *w, uint64_t seed, uint32_t streams, bool owns) {
    write_program_for(w, seed, streams, owns, false);
}

static inline void write_program(writer *w, uint64_t seed, uint32_t streams) {
    write_program_of(w, seed, streams, false);
}

static inline tn_status program_of(const writer *w, tn_program **program) {
    return tn_program_from_encoded(w->graph, w->encoded, w->own_count, w->list, w->count, NULL, 0,
                                   program, &failure);
}

/* --- the judge -----------------------------------------------------------------------------------
 */

typedef struct cells {
    uint32_t at[BYTES_MAX];
    uint32_t count;
} cells;

#define PARTS_MAX 6u
typedef struct part { /* of what an instruction reads or writes */
    tn_tensor_id tensor;
    cells holds;
    uint32_t *place; /* NULL: static */
} part;

typedef struct doing {
    part reads[PARTS_MAX], writes[PARTS_MAX];
    uint32_t read_count, write_count;
    bool each;      /* element by element, so that it may work in place */
    bool copies;    /* what it writes may be what it reads, in one place */
    uint32_t *host; /* the buffer that a swap fills or empties */
    uint32_t progress;
    bool over;
} doing;

typedef struct judge {
    const writer *made;
    const tn_program *program;
    tn_occupancy *occupancy;
    tn_layout *layout;
    doing list[STEPS_MAX];
    uint32_t *memory;
    uint32_t *host_memory;
    const tn_host *host; /* and where copies are in it */
    const tn_layout *host_layout;
    uint64_t lost; /* reads that did not find what they should */
    uint32_t lost_at;
} judge;

static inline uint32_t mix(uint32_t a, uint32_t b) {
    tn__random random = {.state = ((uint64_t)a << 32) ^ b};
    return (uint32_t)tn__random_next(&random);
}

static inline uint32_t digest(const cells *all) {
    uint32_t sum = all->count;
    for (uint32_t i = 0; i < all->count; i++) sum = mix(sum, all->at[i]);
    return sum;
}

static inline cells scrambled(const judge *j, tn_tensor_id id, uint32_t seed) {
    cells made = {.count = (uint32_t)facts_of(j->made, id)->bytes};
    for (uint32_t i = 0; i < made.count; i++) made.at[i] = mix(seed, i);
    return made;
}

/* What an operator makes of what it reads: output 0. */
static inline cells computed(const judge *j, tn_op_id id, const cells *now, bool *each) {
    const tn_op *op = tn_graph_op(j->made->graph, id);
    tn_view view = tn_op_view(j->made->graph, id, 0);
    cells made = scrambled(j, op->outputs[0], id);
    *each = tn_op_inplace(j->made->graph, id, 0) != 0;
    if (view.source != TN_NONE) {
        memcpy(made.at, now[view.source].at + view.offset, made.count * sizeof *made.at);
    } else if (tn_op_joins(j->made->graph, id)) {
        for (uint32_t i = 0, to = 0; i < op->input_count; i++)
            for (uint32_t k = 0; k < now[op->inputs[i]].count; k++)
                made.at[to++] = now[op->inputs[i]].at[k];
    } else {
        for (uint32_t i = 0; i < op->input_count; i++)
            for (uint32_t k = 0; k < made.count; k++)
                made.at[k] =
                    mix(made.at[k], *each ? now[op->inputs[i]].at[k] : digest(&now[op->inputs[i]]));
    }
    return made;
}

/* Statistics, and what is made of x with them: the same whether they were found now or before. */
static inline cells normalised(const judge *j, const tn_op *op, const cells *now) {
    cells made = scrambled(j, op->outputs[0], 7);
    uint32_t with = mix(digest(&now[op->outputs[3]]), digest(&now[op->outputs[4]]));
    for (uint32_t k = 0; k < made.count; k++) made.at[k] = mix(with, now[op->inputs[0]].at[k]);
    return made;
}

static inline void reads(doing *it, tn_tensor_id tensor, const cells *now) {
    assert_true(it->read_count < PARTS_MAX);
    it->reads[it->read_count++] = (part){tensor, now[tensor], NULL};
}

static inline void writes(doing *it, tn_tensor_id tensor, cells holds, cells *now) {
    it->writes[it->write_count++] = (part){tensor, holds, NULL};
    now[tensor] = holds;
}

static inline void learn_norm(const judge *j, const tn_instruction *it, doing *does, cells *now) {
    const tn_op *op = tn_graph_op(j->made->graph, it->op);
    uint32_t seen = digest(&now[op->inputs[0]]);
    does->each = true;
    for (uint32_t i = 0; i < 3; i++) reads(does, op->inputs[i], now);
    for (uint32_t k = 3; k < 5; k++) {
        if (it->again)
            reads(does, op->outputs[k], now);
        else
            writes(does, op->outputs[k], scrambled(j, op->outputs[k], mix(seen, k)), now);
    }
    writes(does, op->outputs[0], normalised(j, op, now), now);
}

static inline void learn_operator(const judge *j, const tn_instruction *it, doing *does,
                                  cells *now) {
    const tn_op *op = tn_graph_op(j->made->graph, it->op);
    if (is_norm(op)) {
        learn_norm(j, it, does, now);
        return;
    }
    for (uint32_t i = 0; i < op->input_count; i++) reads(does, op->inputs[i], now);
    cells made = computed(j, it->op, now, &does->each);
    does->copies = tn_op_joins(j->made->graph, it->op) ||
                   tn_op_view(j->made->graph, it->op, 0).source != TN_NONE;
    writes(does, op->outputs[0], made, now);
}

/* What each instruction reads and writes when the list is run as it stands. */
static inline void learn(judge *j) {
    static cells now[TENSORS_MAX], away[TENSORS_MAX], sent[STEPS_MAX * 4], code[TENSORS_MAX];
    const tn_instruction *list = tn_program_instructions(j->program);
    memset(now, 0, sizeof now);
    for (uint32_t step = 0; step < tn_program_count(j->program); step++) {
        const tn_instruction *it = &list[step];
        doing *does = &j->list[step];
        tn_effects effects = tn_instruction_effects(it);
        *does = (doing){0};
        if (it->opcode == TN_APPLY) {
            learn_operator(j, it, does, now);
            continue;
        }
        if (effects.reads != TN_NONE) reads(does, effects.reads, now);
        if (it->opcode == TN_SWAP_OUT) away[it->tensor] = now[it->tensor];
        if (it->opcode == TN_SEND) sent[it->tag] = now[it->tensor];
        if (it->opcode == TN_ENCODE) code[it->other] = now[it->tensor];
        uint32_t salt = mix(it->opcode, (uint32_t)it->codec * 8 + it->group * 4 + it->reduction);
        uint32_t seen = effects.reads == TN_NONE ? it->tensor : digest(&now[effects.reads]);
        cells fresh = {0};
        tn_tensor_id to = effects.defines != TN_NONE ? effects.defines : effects.changes;
        if (to != TN_NONE)
            fresh = it->opcode == TN_SWAP_IN  ? away[it->tensor]
                    : it->opcode == TN_RECV   ? sent[it->tag]
                    : it->opcode == TN_DECODE ? code[it->other]
                                              : scrambled(j, to, mix(salt, seen));
        if (to != TN_NONE) writes(does, to, fresh, now);
        if (it->opcode == TN_SWAP_OUT || it->opcode == TN_SWAP_IN)
            does->host = j->host_memory + j->host_layout->offset[j->host->body[step]];
    }
}

/* Where a tensor is at a step of the list: a definition takes the life that begins there. */
static inline uint32_t *place_at(const judge *j, tn_tensor_id id, uint32_t step, bool defines) {
    const tn_life *lives = tn_occupancy_lives(j->occupancy);
    for (uint32_t i = tn_occupancy_life_count(j->occupancy); i-- > 0;)
        if (lives[i].tensor == id &&
            (defines ? lives[i].first == step : lives[i].first <= step && step < lives[i].last))
            return j->memory + j->layout->offset[lives[i].body] + lives[i].delta;
    return NULL;
}

static inline void find_places(judge *j) {
    const tn_instruction *list = tn_program_instructions(j->program);
    for (uint32_t step = 0; step < tn_program_count(j->program); step++) {
        doing *it = &j->list[step];
        bool defines = tn_instruction_effects(&list[step]).changes == TN_NONE;
        for (uint32_t i = 0; i < it->read_count; i++) {
            it->reads[i].place = place_at(j, it->reads[i].tensor, step, false);
            if (it->reads[i].place == NULL &&
                !tn_tensor_is_static(facts_of(j->made, it->reads[i].tensor)))
                fail_msg("step %u reads tensor %u, which has no life", step, it->reads[i].tensor);
        }
        for (uint32_t i = 0; i < it->write_count; i++) {
            it->writes[i].place = place_at(j, it->writes[i].tensor, step, defines);
            if (it->writes[i].place == NULL)
                fail_msg("step %u writes tensor %u, which has no life", step, it->writes[i].tensor);
        }
    }
}

static inline void expect(judge *j, uint32_t step, const uint32_t *place, const cells *holds,
                          uint32_t i) {
    if (place == NULL || i >= holds->count || place[i] == holds->at[i]) return;
    if (j->lost++ == 0) j->lost_at = step;
}

static inline void look(judge *j, uint32_t step, uint32_t i) {
    doing *it = &j->list[step];
    for (uint32_t p = 0; p < it->read_count; p++)
        expect(j, step, it->reads[p].place, &it->reads[p].holds, i);
}

static inline void put(const part *to, uint32_t i, uint32_t garbage) {
    if (i < to->holds.count) to->place[i] = garbage != 0 ? garbage : to->holds.at[i];
}

/* One element of one instruction. A swap out looks at all of its tensor once more at its end; who
 * does not work element by element spoils what it will write before it reads anything. */
static inline void advance(judge *j, uint32_t step) {
    const tn_instruction *list = tn_program_instructions(j->program);
    doing *it = &j->list[step];
    uint32_t i = it->progress++;
    bool in_place = tn_instruction_effects(&list[step]).changes != TN_NONE;
    bool spoils = !it->each && !it->copies && !in_place, brings = list[step].opcode == TN_SWAP_IN;
    if (i == 0 && spoils)
        for (uint32_t p = 0; p < it->write_count; p++)
            for (uint32_t k = 0; k < BYTES_MAX; k++) put(&it->writes[p], k, 1 + step);
    if (i < BYTES_MAX) {
        look(j, step, i);
        if (brings) expect(j, step, it->host, &it->writes[0].holds, i);
        if (it->host != NULL && !brings && i < it->reads[0].holds.count)
            it->host[i] = it->reads[0].holds.at[i];
        for (uint32_t p = 0; p < it->write_count && it->each; p++) put(&it->writes[p], i, 0);
        return;
    }
    for (uint32_t k = 0; k < BYTES_MAX; k++) {
        if (!it->each) look(j, step, k);
        for (uint32_t p = 0; p < it->write_count; p++) {
            if (it->each) expect(j, step, it->writes[p].place, &it->writes[p].holds, k);
        }
    }
    for (uint32_t p = 0; p < it->write_count && !it->each; p++)
        for (uint32_t k = 0; k < BYTES_MAX; k++) put(&it->writes[p], k, 0);
    it->over = true;
}

/* Whether an instruction may start: its stream has come to it, what it waits for is over, the
 * caller is free, and the message that it receives was sent. */
static inline bool may_start(const judge *j, uint32_t step) {
    const tn_instruction *list = tn_program_instructions(j->program);
    bool caller = tn_opcode_facts_of(list[step].opcode)->blocks == TN_BLOCKS_CALLER;
    for (uint32_t a = 0; a < step; a++) {
        if (j->list[a].over) continue;
        if (list[a].stream == list[step].stream) return false;
        if (list[step].wait != 0 && list[a].signal == list[step].wait) return false;
        if (caller && list[a].opcode == list[step].opcode) return false;
        if (list[step].opcode == TN_RECV && list[a].opcode == TN_SEND &&
            list[a].tag == list[step].tag)
            return false;
    }
    return true;
}

/* Runs the program in one of the ways that its streams allow. */
static inline void judge_run(judge *j, tn__random *random) {
    uint32_t count = tn_program_count(j->program), left = count, ready[STEPS_MAX];
    for (uint32_t i = 0; i < count; i++) j->list[i].progress = 0, j->list[i].over = false;
    for (uint64_t i = 0; i < j->layout->peak; i++) j->memory[i] = 0;
    for (uint32_t going = 0; left > 0;) {
        going = 0;
        for (uint32_t i = 0; i < count; i++)
            if (!j->list[i].over && may_start(j, i)) ready[going++] = i;
        uint32_t step = going > 0 ? ready[tn__random_below(random, going)] : STEPS_MAX;
        if (step >= STEPS_MAX) {
            fail_msg("nobody can go on");
            return;
        }
        uint64_t steps = tn__random_below(random, 4) ? 1 + tn__random_below(random, 3 * BYTES_MAX)
                                                     : BYTES_MAX + 1;
        for (uint64_t n = 0; n < steps && !j->list[step].over; n++) advance(j, step);
        left -= j->list[step].over;
    }
}

#endif
