/* test_stream_fences.c - waits between streams, compared with clocks: each stream knows how far the
 * others are, as events report it. Bytes may be handed to a stream only if it knows of the end of
 * every use of them.
 */
#include "count.h"
#include "interop/torch/device_arena.h"

#include "support.h"

enum { STREAMS = 7, EVENTS = 4096, UNITS = 96, LIVE = 24 };

typedef struct clock_of {
    uint32_t at[STREAMS]; /* work of each stream that is known to be done before */
} clock_of;

static struct fake {
    clock_of streams[STREAMS], host, events[EVENTS];
    bool is_event[EVENTS];
    uint32_t next_event, live_events;
    uint64_t calls;
    uint32_t one_in; /* calls that fail; 0: none */
    uint64_t random;
} fake;

static uint64_t draw(uint64_t below) {
    fake.random = fake.random * 6364136223846793005u + 1442695040888963407u;
    return (fake.random >> 33) % below;
}

static bool fails(void) {
    fake.calls++;
    return fake.one_in != 0 && draw(fake.one_in) == 0;
}

static void learn(clock_of *who, const clock_of *from) {
    for (uint32_t i = 0; i < STREAMS; i++)
        if (from->at[i] > who->at[i]) who->at[i] = from->at[i];
}

static void *handle(uint64_t stream) { return (void *)(uintptr_t)(stream << 4); }
static clock_of *stream_of(void *stream) { return &fake.streams[(uintptr_t)stream >> 4]; }

static int fake_create(void **event, unsigned flags) {
    assert_int_equal(flags, TN__CUDA_EVENT_UNTIMED);
    if (fails() || fake.next_event == EVENTS) return 2;
    fake.is_event[fake.next_event] = true;
    fake.live_events++;
    *event = handle(fake.next_event++);
    return 0;
}
static int fake_destroy(void *event) {
    assert_true(fake.is_event[(uintptr_t)event >> 4]);
    fake.is_event[(uintptr_t)event >> 4] = false;
    fake.live_events--;
    return 0;
}
static int fake_record(void *event, void *stream) {
    assert_true(fake.is_event[(uintptr_t)event >> 4]);
    if (fails()) return 46;
    fake.events[(uintptr_t)event >> 4] = *stream_of(stream);
    return 0;
}
static int fake_wait(void *stream, void *event, unsigned flags) {
    assert_int_equal(flags, 0);
    assert_true(fake.is_event[(uintptr_t)event >> 4]);
    if (fails()) return 46;
    learn(stream_of(stream), &fake.events[(uintptr_t)event >> 4]);
    return 0;
}
static int fake_wait_here(void *event) {
    assert_true(fake.is_event[(uintptr_t)event >> 4]);
    if (fails()) return 46;
    learn(&fake.host, &fake.events[(uintptr_t)event >> 4]);
    return 0;
}
static int fake_wait_stream(void *stream) {
    if (fails()) return 46;
    learn(&fake.host, stream_of(stream));
    return 0;
}
static int fake_wait_all(void) {
    if (fails()) return 46;
    for (uint32_t i = 0; i < STREAMS; i++) learn(&fake.host, &fake.streams[i]);
    return 0;
}
static int fake_last(void) { return 0; }
static const char *fake_text(int status) {
    (void)status;
    return "made to fail";
}

static const tn__cuda fake_cuda = {.cudaEventCreateWithFlags = fake_create,
                                   .cudaEventDestroy = fake_destroy,
                                   .cudaEventRecord = fake_record,
                                   .cudaStreamWaitEvent = fake_wait,
                                   .cudaEventSynchronize = fake_wait_here,
                                   .cudaStreamSynchronize = fake_wait_stream,
                                   .cudaDeviceSynchronize = fake_wait_all,
                                   .cudaGetLastError = fake_last,
                                   .cudaGetErrorName = fake_text,
                                   .cudaGetErrorString = fake_text};

static void fake_begin(uint64_t seed, uint32_t one_in) {
    memset(&fake, 0, sizeof fake);
    fake.random = seed;
    fake.one_in = one_in;
}

/* --- a program --- */

typedef struct span { /* what a block is */
    uint64_t low, high;
    void *streams[TN__STREAM_FENCES_STREAMS];
    uint32_t count;
} span;

static struct program {
    clock_of used[UNITS]; /* by whom, last */
    bool taken[UNITS];
    span spans[LIVE];
    uint32_t count;
} program;

/* Something queued on a stream that uses the bytes. */
static void use(void *stream, uint64_t low, uint64_t high) {
    uint32_t s = (uint32_t)((uintptr_t)stream >> 4);
    learn(&fake.streams[s], &fake.host);
    uint32_t now = ++fake.streams[s].at[s];
    for (uint64_t i = low; i < high; i++) program.used[i].at[s] = now;
}

static void expect_ordered(void *stream, uint64_t low, uint64_t high) {
    clock_of knows = *stream_of(stream);
    learn(&knows, &fake.host);
    for (uint64_t i = low; i < high; i++)
        for (uint32_t s = 0; s < STREAMS; s++)
            if (handle(s) != stream && program.used[i].at[s] > knows.at[s])
                fail_msg("stream %zu gets byte %d, which stream %u may still use\n",
                         (uintptr_t)stream >> 4, (int)i, s);
}

static bool find_room(uint64_t *low, uint64_t *high) {
    *low = draw(UNITS);
    for (uint64_t i = 0; i < UNITS && program.taken[*low]; i++) *low = (*low + 1) % UNITS;
    uint64_t most = *low + 1 + draw(12);
    *high = *low;
    while (*high < UNITS && *high < most && !program.taken[*high]) (*high)++;
    return *high > *low;
}

static void do_take(tn__stream_fences *turns, uint64_t streams) {
    span made = {.streams = {handle(draw(streams))}, .count = 1};
    tn_error error = {0};
    if (program.count == LIVE || !find_room(&made.low, &made.high)) return;
    if (tn__stream_fences_take(turns, made.low, made.high, made.streams[0], &error) != TN_OK) {
        assert_true(fake.one_in != 0);
        return;
    }
    expect_ordered(made.streams[0], made.low, made.high);
    memset(program.taken + made.low, 1, made.high - made.low);
    use(made.streams[0], made.low, made.high);
    program.spans[program.count++] = made;
}

/* Another stream, which waits for the first and then uses the block. */
static void do_share(uint64_t streams) {
    span *of = &program.spans[draw(program.count)];
    void *stream = handle(draw(streams));
    for (uint32_t i = 0; i < of->count; i++)
        if (of->streams[i] == stream) return;
    if (of->count == TN__STREAM_FENCES_STREAMS) return;
    learn(stream_of(stream), stream_of(of->streams[0]));
    use(stream, of->low, of->high);
    of->streams[of->count++] = stream;
}

static void do_give(tn__stream_fences *turns) {
    uint64_t at = draw(program.count);
    span of = program.spans[at];
    for (uint32_t i = 0; i < of.count; i++)
        if (draw(2) == 0) use(of.streams[i], of.low, of.high);
    tn__stream_fences_give(turns, of.low, of.high, of.streams, of.count);
    memset(program.taken + of.low, 0, of.high - of.low);
    program.spans[at] = program.spans[--program.count];
}

static void run_program(uint64_t seed, uint32_t steps, uint64_t streams, uint32_t one_in) {
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn__stream_fences turns;
    fake_begin(seed, one_in);
    memset(&program, 0, sizeof program);
    tn__fences_turns(&turns, &context, &fake_cuda);
    for (uint32_t i = 0; i < steps; i++) {
        memory.fail_at = one_in != 0 && draw(8) == 0 ? memory.requests + 1 : 0;
        uint64_t among = i < steps / 4 ? 1 : streams; /* the default stream alone for a while */
        uint64_t what = draw(8);
        if (what < 4 || program.count == 0)
            do_take(&turns, among);
        else if (what < 5)
            do_share(among);
        else
            do_give(&turns);
    }
    tn__stream_fences_release(&turns);
    assert_int_equal(fake.live_events, 0);
    assert_int_equal(memory.held, 0);
}

static void nobody_gets_bytes_before_their_end(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        if (seed % 100 == 0) print_message("seed %d\n", (int)seed);
        run_program(seed, 600, 2 + seed % (STREAMS - 1), 0);
    }
}

static void nor_when_any_call_fails(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++)
        run_program(seed, 600, 2 + seed % (STREAMS - 1), 2 + (uint32_t)(seed % 9));
}

static void one_stream_costs_no_call(void **state) {
    (void)state;
    run_program(7, 4000, 1, 0);
    assert_int_equal(fake.calls, 0);
}

/* A stream waits for the free and not for what was queued after it; and for nobody it need not. */
static void no_more_is_waited_for_than_the_end(void **state) {
    (void)state;
    tn_context context = tn__context(NULL);
    tn__stream_fences turns;
    void *a = handle(1), *b = handle(2), *c = handle(3);
    fake_begin(1, 0);
    memset(&program, 0, sizeof program);
    tn__fences_turns(&turns, &context, &fake_cuda);
    assert_int_equal(tn__stream_fences_take(&turns, 0, 10, a, NULL), TN_OK);
    assert_int_equal(tn__stream_fences_take(&turns, 20, 30, c, NULL), TN_OK);
    use(a, 0, 10);
    use(c, 20, 30);
    tn__stream_fences_give(&turns, 0, 10, &a, 1);
    tn__stream_fences_give(&turns, 20, 30, &c, 1);
    for (uint32_t i = 0; i < 5; i++) use(a, 0, 0);
    assert_int_equal(tn__stream_fences_take(&turns, 2, 6, b, NULL), TN_OK);
    assert_int_equal(fake.streams[2].at[1], 1);
    assert_int_equal(fake.streams[2].at[3], 0);
    uint64_t calls =
        fake.calls; /* its own bytes, and those that nobody ever had, are free to take */
    assert_int_equal(tn__stream_fences_take(&turns, 6, 10, a, NULL), TN_OK);
    assert_int_equal(fake.calls, calls);
    tn__stream_fences_release(&turns);
    assert_int_equal(fake.live_events, 0);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(nobody_gets_bytes_before_their_end),
        cmocka_unit_test(nor_when_any_call_fails),
        cmocka_unit_test(one_stream_costs_no_call),
        cmocka_unit_test(no_more_is_waited_for_than_the_end),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
