/* generate.c - perfect packings cut from one rectangle, a trap for first fit, training traces,
 * crowds of short lives.
 *
 * Tilings and pinwheels start from one rectangle, time x memory, and cut the largest piece again
 * and again: every byte is used at every step, so the height of the rectangle is the optimum and
 * equals the bound. A guillotine cut goes from side to side; a pinwheel (four pieces around a
 * fifth) cannot be made by such cuts. Alignments and windows make the optimum unknown (they only
 * ever take bytes away or push bodies up), and are then left out of the answer.
 * Source: OmniMalloc and MegEngine have generators of these kinds; ours are written from the idea.
 */
#include "bench/kit/generate.h"

#include "base/base.h"
#include "base/heap.h"

typedef struct generate_rectangle {
    int64_t first, last;
    uint64_t lo, hi;
    uint64_t weight; /* the heaviest is cut next */
} generate_rectangle;

typedef struct generate_maker {
    const generate_wish *wish;
    tn_problem *problem;
    tn__random random;
    tn_error *error;
} generate_maker;

static uint64_t generate_below(generate_maker *maker, uint64_t bound) {
    return tn__random_below(&maker->random, bound);
}

/* Adds a buffer with the alignment and the windows that were wished for. */
static tn_status generate_add(generate_maker *maker, int64_t first, int64_t last, uint64_t size) {
    const generate_wish *wish = maker->wish;
    tn_piece pieces[3];
    tn_body body = {.size = size, .first = first, .last = last, .pieces = pieces};
    uint32_t exponents = 0;
    while (exponents < 40 && (2ull << exponents) <= wish->alignment_max) exponents++;
    if (exponents > 0) body.alignment = 1ull << generate_below(maker, exponents + 1);
    if (last - first >= 3 && generate_below(maker, 100) < wish->windows) {
        int64_t third = (last - first) / 3;
        uint64_t lo = generate_below(maker, size);
        pieces[0] = (tn_piece){.first = first, .last = first + third, .hi = size};
        pieces[1] = (tn_piece){
            .first = first + third, .last = last - third, .lo = lo, .hi = lo + (size - lo + 1) / 2};
        pieces[2] = (tn_piece){.first = last - third, .last = last, .hi = size};
        body.piece_count = 3;
        if (generate_below(maker, 2) != 0) { /* nothing of it is alive in between */
            pieces[1] = pieces[2];
            body.piece_count = 2;
        }
    }
    return tn_problem_add(maker->problem, &body, NULL, maker->error);
}

static tn_status generate_begin(generate_maker *maker, const generate_wish *wish, tn_error *error) {
    *maker = (generate_maker){.wish = wish, .random = {.state = wish->seed}, .error = error};
    return tn_problem_create(NULL, &maker->problem, error);
}

static tn_status generate_end(generate_maker *maker, tn_status status, tn_problem **problem) {
    if (status == TN_OK)
        *problem = maker->problem;
    else
        tn_problem_destroy(maker->problem);
    return status;
}

static uint64_t generate_known(const generate_wish *wish, uint64_t optimum) {
    return wish->alignment_max > 1 || wish->windows > 0 ? 0 : optimum;
}

/* --- perfect packings --- */

typedef struct generate_heap {
    generate_rectangle *items; /* heaviest on top */
    uint32_t count;
} generate_heap;

static bool generate_heavier(const generate_rectangle *a, const generate_rectangle *b) {
    return a->weight > b->weight;
}
TN__HEAP(generate_queue, generate_rectangle, generate_heavier)

static void generate_push(generate_heap *heap, generate_rectangle item) {
    generate_queue_push(heap->items, heap->count++, item);
}

static generate_rectangle generate_pop(generate_heap *heap) {
    return generate_queue_pop(heap->items, heap->count--);
}

/* Large pieces first, but not strictly: the area counts up to a factor of four. */
static void generate_piece(generate_maker *maker, generate_heap *heap, int64_t first, int64_t last,
                           uint64_t lo, uint64_t hi) {
    uint64_t area = tn__mul_sat((uint64_t)(last - first), (hi - lo) / 64 + 1);
    generate_push(
        heap, (generate_rectangle){first, last, lo, hi, area / 4 * (1 + generate_below(maker, 4))});
}

/* A place strictly inside (0, length), in the middle half where there is room. */
static uint64_t generate_cut(generate_maker *maker, uint64_t length) {
    uint64_t margin = length / 4 > 0 ? length / 4 : 1;
    return margin + generate_below(maker, length - 2 * margin + 1);
}

static bool generate_guillotine(generate_maker *maker, generate_heap *heap) {
    generate_rectangle whole = generate_pop(heap);
    uint64_t length = (uint64_t)(whole.last - whole.first), height = whole.hi - whole.lo;
    bool upright = generate_below(maker, 2) != 0;
    if (length < 2 && height < 2) {
        whole.weight = 0;
        generate_push(heap, whole);
        return false;
    }
    if (upright ? length < 2 : height < 2) upright = !upright;
    int64_t middle = upright ? whole.first + (int64_t)generate_cut(maker, length) : whole.last;
    uint64_t level = upright ? whole.hi : whole.lo + generate_cut(maker, height);
    generate_piece(maker, heap, whole.first, middle, whole.lo, level);
    if (upright)
        generate_piece(maker, heap, middle, whole.last, whole.lo, whole.hi);
    else
        generate_piece(maker, heap, whole.first, whole.last, level, whole.hi);
    return true;
}

/*  +-----+--+     a < b are the times, p < q the levels of the piece in the middle; half of the
 *  |     |  |     wheels turn the other way.
 *  +--+--+  |
 *  |  |  |  |
 *  |  +--+--+
 *  |  |     |
 *  +--+-----+ */
static bool generate_wheel(generate_maker *maker, generate_heap *heap) {
    generate_rectangle whole = generate_pop(heap);
    uint64_t length = (uint64_t)(whole.last - whole.first), height = whole.hi - whole.lo;
    if (length < 3 || height < 3) {
        generate_push(heap, whole);
        return generate_guillotine(maker, heap);
    }
    int64_t first = whole.first, last = whole.last;
    int64_t a = first + 1 + (int64_t)generate_below(maker, (length - 1) / 2);
    int64_t b = a + 1 + (int64_t)generate_below(maker, (uint64_t)(last - a) - 1);
    uint64_t lo = whole.lo, hi = whole.hi;
    uint64_t p = lo + 1 + generate_below(maker, (height - 1) / 2);
    uint64_t q = p + 1 + generate_below(maker, hi - p - 1);
    generate_piece(maker, heap, a, b, p, q);
    if (generate_below(maker, 2) != 0) {
        generate_piece(maker, heap, first, a, lo, q);
        generate_piece(maker, heap, first, b, q, hi);
        generate_piece(maker, heap, b, last, p, hi);
        generate_piece(maker, heap, a, last, lo, p);
    } else {
        generate_piece(maker, heap, first, a, p, hi);
        generate_piece(maker, heap, a, last, q, hi);
        generate_piece(maker, heap, b, last, lo, q);
        generate_piece(maker, heap, first, b, lo, p);
    }
    return true;
}

/* The pieces in an order that tells nothing of where they were. */
static tn_status generate_shuffled(generate_maker *maker, generate_heap *heap) {
    for (uint32_t left = heap->count; left > 0; left--) {
        uint32_t at = (uint32_t)generate_below(maker, left);
        generate_rectangle piece = heap->items[at];
        heap->items[at] = heap->items[left - 1];
        TN_TRY(generate_add(maker, piece.first, piece.last, piece.hi - piece.lo));
    }
    return TN_OK;
}

static tn_status generate_packing(const generate_wish *wish, bool wheels, tn_problem **problem,
                                  uint64_t *optimum, tn_error *error) {
    generate_maker maker;
    TN_TRY(generate_begin(&maker, wish, error));
    tn_context context = tn__context(NULL);
    uint32_t count = wish->count > 0 ? wish->count : 1;
    uint64_t height = 1 << 20;
    while (height < 4096 * (uint64_t)count) height *= 2;
    size_t room = (size_t)count + 4;
    generate_heap heap = {.items = tn__alloc_array(&context, room, sizeof *heap.items)};
    tn_status status = heap.items != NULL ? TN_OK : tn__no_memory(error, "rectangles");
    if (status == TN_OK) {
        int64_t steps = (int64_t)(wish->steps > 0 ? wish->steps : 64) * (int64_t)count;
        generate_piece(&maker, &heap, 0, steps, 0, height);
        bool more = true;
        while (more && heap.count < count)
            more = wheels && heap.count + 4 <= count ? generate_wheel(&maker, &heap)
                                                     : generate_guillotine(&maker, &heap);
        status = generate_shuffled(&maker, &heap);
    }
    tn__free(&context, heap.items, room * sizeof *heap.items);
    if (status == TN_OK) *optimum = generate_known(wish, height);
    return generate_end(&maker, status, problem);
}

static tn_status generate_tiling(const generate_wish *wish, tn_problem **problem, uint64_t *optimum,
                                 tn_error *error) {
    return generate_packing(wish, false, problem, optimum, error);
}

static tn_status generate_pinwheel(const generate_wish *wish, tn_problem **problem,
                                   uint64_t *optimum, tn_error *error) {
    return generate_packing(wish, true, problem, optimum, error);
}

/* --- a trap for first fit ---------------------------------------------------------------------
 *
 * Phase k asks for buffers of 2^k bytes. Before it, everything dies but one buffer in each 2^k
 * bytes of what first fit has used so far: every hole is one byte too small, so first fit in order
 * of time goes on top, again and again, and ends at (1 + phases / 2) x the live bytes. */
static tn_status generate_first_fit(const generate_wish *wish, tn_problem **problem,
                                    uint64_t *optimum, tn_error *error) {
    generate_maker maker;
    TN_TRY(generate_begin(&maker, wish, error));
    uint64_t live = 4;
    while (3 * live <= wish->count) live *= 2; /* 3/2 live buffers in all */
    uint32_t phases = (uint32_t)__builtin_ctzll(live);
    int64_t pause = 4 + (int64_t)generate_below(&maker, 60), now = 0;
    tn_status status = TN_OK;
    for (uint32_t phase = 0; phase < phases; phase++) {
        uint64_t size = 1ull << phase, count = (phase == 0 ? live : live / 2) / size;
        for (uint64_t i = 0; i < count && status == TN_OK; i++) {
            /* the i-th survives phase after phase for as long as 2 divides i + 1 */
            uint32_t lives = (uint32_t)__builtin_ctzll(i + 1) + 1;
            if (lives > phases - phase) lives = phases - phase;
            status = generate_add(&maker, now + (int64_t)(i * (uint64_t)pause / count / 2),
                                  now + pause * lives, size);
        }
        now += pause;
    }
    *optimum = 0;
    return generate_end(&maker, status, problem);
}

/* --- training ---------------------------------------------------------------------------------
 *
 * Operators 0 ... n - 1 run forward at steps 0 ... n - 1 and backward in reverse order at steps n
 * ... 2n - 1. Each makes an activation that its backward step reads (or that dies young, or is read
 * by a later operator too, or is computed again), a gradient of it, now and then a workspace on
 * either side, and a parameter's gradient that lives to the end or to the end of its bucket. Sizes
 * are of a few classes per block of layers. */

#define GENERATE_CLASSES 6u

typedef struct generate_trace {
    generate_maker maker;
    int64_t operators;
    uint32_t left; /* buffers still to be made */
    uint64_t classes[GENERATE_CLASSES];
    tn_status status;
} generate_trace;

static void generate_buffer(generate_trace *trace, int64_t first, int64_t last, uint64_t size) {
    if (trace->status != TN_OK || trace->left == 0) return;
    trace->left--;
    trace->status = generate_add(&trace->maker, first, last, size);
}

/* Powers of two times 1, 3 or 5, small ones far more often than large ones. */
static uint64_t generate_size(generate_maker *maker) {
    uint64_t size = 512ull << generate_below(maker, 4);
    for (int i = 0; i < 5 && generate_below(maker, 2) != 0; i++) size *= 4;
    return size * (1 + 2 * generate_below(maker, 3));
}

static void generate_operator(generate_trace *trace, int64_t at) {
    generate_maker *maker = &trace->maker;
    int64_t end = 2 * trace->operators, back = end - 1 - at;
    uint64_t dice = generate_below(maker, 100);
    uint64_t size = trace->classes[generate_below(maker, GENERATE_CLASSES)];
    int64_t near = at + 2 + (int64_t)generate_below(maker, 6);
    if (near > end) near = end;
    if (dice < 60) { /* kept for the way back */
        generate_buffer(trace, at, back + 1, size);
    } else if (dice < 85 || near >= back) {
        generate_buffer(trace, at, near, size);
    } else { /* dropped and computed again */
        int64_t again = back - (int64_t)generate_below(maker, 4);
        generate_buffer(trace, at, near, size);
        if (again > near) generate_buffer(trace, again, back + 1, size);
    }
    if (dice % 4 == 0) /* a skip: the gradient waits as well */
        generate_buffer(trace, back, back + 4 < end ? back + 4 : end, size);
    else
        generate_buffer(trace, back, back + 2 < end ? back + 2 : end, size);
    if (dice % 3 == 0) generate_buffer(trace, at, at + 1, generate_size(maker));
    if (dice % 3 == 1) generate_buffer(trace, back, back + 1, generate_size(maker));
    if (dice % 2 == 0) {
        int64_t bucket = back + 1 + trace->operators / 50 + (int64_t)generate_below(maker, 8);
        bool to_end = trace->maker.wish->seed % 2 == 0;
        generate_buffer(trace, back, to_end || bucket > end ? end : bucket,
                        generate_size(maker) / 16);
    }
}

static tn_status generate_training(const generate_wish *wish, tn_problem **problem,
                                   uint64_t *optimum, tn_error *error) {
    generate_trace trace = {.operators = wish->count / 4 + 1, .left = wish->count};
    TN_TRY(generate_begin(&trace.maker, wish, error));
    for (int64_t at = 0; at < trace.operators; at++) {
        if (at % 64 == 0)
            for (uint32_t i = 0; i < GENERATE_CLASSES; i++)
                trace.classes[i] = generate_size(&trace.maker);
        generate_operator(&trace, at);
    }
    while (trace.left > 0 && trace.status == TN_OK) /* parameters: there from the start */
        generate_buffer(&trace, 0, 2 * trace.operators, generate_size(&trace.maker) / 16);
    *optimum = 0;
    return generate_end(&trace.maker, trace.status, problem);
}

/* --- random --- */

/* No structure at all: half short lives, half of any length; sizes over three orders. */
static tn_status generate_random(const generate_wish *wish, tn_problem **problem, uint64_t *optimum,
                                 tn_error *error) {
    generate_maker maker;
    TN_TRY(generate_begin(&maker, wish, error));
    uint64_t steps = 2 * (uint64_t)wish->count + 2;
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < wish->count && status == TN_OK; i++) {
        uint64_t first = generate_below(&maker, steps - 1), left = steps - first;
        uint64_t most = i % 2 == 0 && left > 64 ? 64 : left;
        uint64_t life = 1 + generate_below(&maker, most);
        uint64_t size = (1 + generate_below(&maker, 1024)) << generate_below(&maker, 11);
        status = generate_add(&maker, (int64_t)first, (int64_t)(first + life), size);
    }
    *optimum = 0;
    return generate_end(&maker, status, problem);
}

/* --- few steps, and cuts anywhere --------------------------------------------------------------
 *
 * As a tiling, but cut at any step and any level of the piece with the largest area, over so few
 * steps that many cuts share one: rows cannot be told by their ends. */
static bool generate_slash(generate_maker *maker, generate_heap *heap) {
    generate_rectangle whole = generate_pop(heap);
    uint64_t length = (uint64_t)(whole.last - whole.first), height = whole.hi - whole.lo;
    bool upright = generate_below(maker, 2) != 0;
    if (upright ? length < 2 : height < 2) upright = !upright;
    if (length < 2 && height < 2) {
        generate_push(heap, whole);
        return false;
    }
    generate_rectangle rest = whole;
    if (upright)
        rest.first = whole.last = whole.first + 1 + (int64_t)generate_below(maker, length - 1);
    else
        rest.lo = whole.hi = whole.lo + 1 + generate_below(maker, height - 1);
    whole.weight = (uint64_t)(whole.last - whole.first) * (whole.hi - whole.lo);
    rest.weight = (uint64_t)(rest.last - rest.first) * (rest.hi - rest.lo);
    generate_push(heap, whole);
    generate_push(heap, rest);
    return true;
}

static tn_status generate_cuts(const generate_wish *wish, tn_problem **problem, uint64_t *optimum,
                               tn_error *error) {
    generate_maker maker;
    TN_TRY(generate_begin(&maker, wish, error));
    tn_context context = tn__context(NULL);
    size_t room = (size_t)wish->count + 2;
    generate_heap heap = {.items = tn__alloc_array(&context, room, sizeof *heap.items)};
    tn_status status = heap.items != NULL ? TN_OK : tn__no_memory(error, "rectangles");
    uint64_t height = 1 << 20;
    while (height < 256 * (uint64_t)wish->count) height *= 2;
    if (status == TN_OK) {
        int64_t steps = wish->steps > 0 ? wish->steps : 1000;
        generate_push(&heap, (generate_rectangle){0, steps, 0, height, 1});
        while (heap.count < wish->count && generate_slash(&maker, &heap)) continue;
        status = generate_shuffled(&maker, &heap);
    }
    tn__free(&context, heap.items, room * sizeof *heap.items);
    if (status == TN_OK) *optimum = generate_known(wish, height);
    return generate_end(&maker, status, problem);
}

/* --- many buffers, few at a time --- */

/* One buffer of a family: where it begins, how long it lives, how large it is. */
typedef void (*generate_draw)(generate_maker *maker, uint32_t index, int64_t *first, int64_t *life,
                              uint64_t *size);

static tn_status generate_drawn(const generate_wish *wish, generate_draw draw, tn_problem **problem,
                                uint64_t *optimum, tn_error *error) {
    generate_maker maker;
    TN_TRY(generate_begin(&maker, wish, error));
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < wish->count && status == TN_OK; i++) {
        int64_t first, life;
        uint64_t size;
        draw(&maker, i, &first, &life, &size);
        status = generate_add(&maker, first, first + life, size);
    }
    *optimum = 0;
    return generate_end(&maker, status, problem);
}

static uint64_t generate_steps(const generate_maker *maker, uint64_t else_count) {
    return maker->wish->steps > 0 ? maker->wish->steps : else_count;
}

static void generate_draw_short(generate_maker *maker, uint32_t index, int64_t *first,
                                int64_t *life, uint64_t *size) {
    (void)index;
    *first = (int64_t)generate_below(maker, generate_steps(maker, maker->wish->count));
    *life = 1 + (int64_t)generate_below(maker, 50);
    *size = 64 * (1 + generate_below(maker, 1000));
}

static tn_status generate_short(const generate_wish *wish, tn_problem **problem, uint64_t *optimum,
                                tn_error *error) {
    return generate_drawn(wish, generate_draw_short, problem, optimum, error);
}

/* One in a hundred lives for a twentieth to a half of all steps, the others for a few. */
static void generate_draw_long(generate_maker *maker, uint32_t index, int64_t *first, int64_t *life,
                               uint64_t *size) {
    uint64_t steps = generate_steps(maker, (uint64_t)maker->wish->count / 4 + 100);
    bool is_long = index % 100 == 0;
    *first = (int64_t)generate_below(maker, is_long ? steps / 2 : steps);
    *life = 1 + (int64_t)generate_below(maker, is_long ? steps / 2 : 8);
    if (is_long) *life += (int64_t)steps / 20;
    *size = 256 * (1 + generate_below(maker, is_long ? 4000 : 400));
}

static tn_status generate_long(const generate_wish *wish, tn_problem **problem, uint64_t *optimum,
                               tn_error *error) {
    return generate_drawn(wish, generate_draw_long, problem, optimum, error);
}

/* Half of the buffers twice as large as the smallest, half of the rest four times, and so on, times
 * a factor of one to two; lives alike. */
static void generate_draw_power(generate_maker *maker, uint32_t index, int64_t *first,
                                int64_t *life, uint64_t *size) {
    (void)index;
    uint32_t exponent = 0, lives = 0;
    while (exponent < 24 && generate_below(maker, 2) != 0) exponent++;
    while (lives < 10 && generate_below(maker, 2) != 0) lives++;
    *first = (int64_t)generate_below(maker, generate_steps(maker, maker->wish->count));
    *life = 1 + (int64_t)generate_below(maker, 4u << lives);
    *size = (64ull << exponent) + generate_below(maker, 64ull << exponent);
}

static tn_status generate_power(const generate_wish *wish, tn_problem **problem, uint64_t *optimum,
                                tn_error *error) {
    return generate_drawn(wish, generate_draw_power, problem, optimum, error);
}

/* Long trains of which part after part is no longer needed: every second one has windows. */
static tn_status generate_windows(const generate_wish *wish, tn_problem **problem,
                                  uint64_t *optimum, tn_error *error) {
    generate_wish more = *wish;
    if (more.windows == 0) more.windows = 50;
    return generate_training(&more, problem, optimum, error);
}

/* --- the table --- */

const generate_kind generate_kinds[] = {
    {"tiling", "a rectangle cut from side to side; the optimum is the bound", generate_tiling},
    {"pinwheel", "a rectangle cut into wheels of five; the optimum is the bound",
     generate_pinwheel},
    {"first-fit", "survivors that leave every hole too small for what comes", generate_first_fit},
    {"training", "forward, backward, workspaces, gradients", generate_training},
    {"random", "no structure", generate_random},
    {"cuts", "a rectangle cut anywhere over 1,000 steps; the optimum is the bound", generate_cuts},
    {"short", "random lives of 1 to 50 steps, 25 at a time", generate_short},
    {"long", "few that live long among many that live short", generate_long},
    {"power", "sizes and lives by powers of two, the smaller the more", generate_power},
    {"windows", "training in which half of the buffers are alive in part only", generate_windows},
};
const uint32_t generate_kind_count = sizeof generate_kinds / sizeof *generate_kinds;

const generate_kind *generate_find(const char *name) {
    for (uint32_t i = 0; i < generate_kind_count; i++)
        if (strcmp(generate_kinds[i].name, name) == 0) return &generate_kinds[i];
    return NULL;
}
