/* Memory where blocks are, on the stand-in of CUDA's driver: random blocks against a plain map of
 * granules, bytes that streams are late with, bounds, each call failing in turn. */
#include "interop/torch/pages.h"

#include <unistd.h>

#include "standin.h"
#include "support.h"

enum { SIZE = 4096, BLOCKS = 60, LIMIT = 64 };

static tn__cuda cuda;
static uint64_t random_state;

static uint64_t below(uint64_t end) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % end;
}

static void open_granules(tn__pages *of, uint64_t budget) {
    static const tn_context context = TN_CONTEXT_INIT;
    static tn_context whole;
    tn_error error = {0};
    whole = tn__context(&context);
    tn_status status = tn__pages_open(of, &whole, &cuda, 0, budget, &error);
    if (status != TN_OK) fail_msg("%s\n", error.message);
}

static void nap(void *self) {
    (void)self;
    usleep(20000);
}

typedef struct blocks { /* what lives, and how many lie in each granule */
    uint64_t offset[BLOCKS], size[BLOCKS];
    unsigned char byte[BLOCKS];
    uint32_t count, users[4 * LIMIT];
} blocks;

static bool is_free(const blocks *all, uint64_t offset, uint64_t size) {
    for (uint32_t i = 0; i < all->count; i++)
        if (offset < all->offset[i] + all->size[i] && all->offset[i] < offset + size) return false;
    return true;
}

static uint64_t count_used(const blocks *all) {
    uint64_t used = 0;
    for (uint32_t i = 0; i < 4 * LIMIT; i++) used += all->users[i] > 0;
    return used;
}

static void count(blocks *all, uint64_t offset, uint64_t size, bool is_in) {
    for (uint64_t at = offset / SIZE; at <= (offset + size - 1) / SIZE; at++)
        all->users[at] += is_in ? 1 : -1u;
}

static void expect_bytes(const tn__pages *of, const blocks *all, uint32_t at) {
    static unsigned char back[16 * SIZE];
    const void *block = (const void *)(uintptr_t)(of->base + all->offset[at]);
    assert_int_equal(cudaMemcpyAsync(back, block, (size_t)all->size[at], 2, NULL), 0);
    assert_int_equal(cudaDeviceSynchronize(), 0);
    for (uint64_t i = 0; i < all->size[at]; i++)
        if (back[i] != all->byte[at]) fail_msg("byte %d is not as written\n", (int)i);
}

/* A block is written by a stream that may be late when it is freed: no byte of another changes, and
 * no memory goes while it is used, which the stand-in would not survive. */
static void blocks_keep_their_bytes(void **state) {
    tn__pages of;
    blocks all = {0};
    uint64_t most = 0, refused = 0;
    (void)state;
    open_granules(&of, LIMIT * SIZE);
    for (uint32_t step = 0; step < 20000; step++) {
        uint64_t offset = below(3 * LIMIT * 8) * (SIZE / 8), size = (1 + below(80)) * (SIZE / 8);
        if (all.count == BLOCKS || (all.count > 0 && below(2) == 0)) {
            uint32_t at = (uint32_t)below(all.count);
            expect_bytes(&of, &all, at);
            void *block = (void *)(uintptr_t)(of.base + all.offset[at]);
            assert_int_equal(cudaMemsetAsync(block, 1, (size_t)all.size[at], NULL), 0);
            tn__pages_give(&of, all.offset[at], all.size[at]);
            count(&all, all.offset[at], all.size[at], false);
            uint32_t last = --all.count;
            all.offset[at] = all.offset[last], all.size[at] = all.size[last];
            all.byte[at] = all.byte[last];
        } else if (is_free(&all, offset, size)) {
            tn_error error = {0};
            count(&all, offset, size, true);
            uint64_t used = count_used(&all);
            tn_status status = tn__pages_take(&of, offset, size, &error);
            assert_int_equal(status, used <= LIMIT ? TN_OK : TN_E_EXHAUSTED);
            refused += status != TN_OK;
            if (status != TN_OK) {
                count(&all, offset, size, false);
                continue;
            }
            if (used > most) most = used;
            void *block = (void *)(uintptr_t)(of.base + offset);
            all.byte[all.count] = (unsigned char)below(256);
            assert_int_equal(cudaMemsetAsync(block, all.byte[all.count], (size_t)size, NULL), 0);
            all.offset[all.count] = offset;
            all.size[all.count++] = size;
        }
        assert_int_equal(of.used, count_used(&all));
        assert_int_equal(standin_used(0), of.had * SIZE);
        const char *wrong = tn__pages_check(&of);
        if (wrong != NULL) fail_msg("%s\n", wrong);
        assert_true(of.had <= most + most / TN__PAGES_EXTRA + of.waits / TN__PAGES_WAITS);
        if (below(1000) == 0) {
            tn__pages_trim(&of);
            assert_int_equal(of.had, of.used);
        }
    }
    print_message("%d refused, %d moved, %d waits\n", (int)refused, (int)of.moved, (int)of.waits);
    assert_true(refused > 0 && of.moved > 0);
    (void)cudaDeviceSynchronize();
    tn__pages_close(&of, true);
    assert_int_equal(standin_used(0), 0);
    assert_int_equal(standin_ranges(), 0);
}

/* Other processes have the rest: what is idle goes where it is needed, and no more than that; who
 * asks for more than there is leaves it to others. */
static void a_device_that_is_full(void **state) {
    tn__pages of;
    tn_error error = {0};
    (void)state;
    setenv("STANDIN_MEMORY", "40960", 1); /* ten */
    open_granules(&of, 0);
    assert_int_equal(tn__pages_take(&of, 0, 2 * SIZE, &error), TN_OK);
    assert_int_equal(tn__pages_take(&of, 2 * SIZE, 9 * SIZE, &error), TN_E_EXHAUSTED);
    assert_int_equal(standin_used(0), 2 * SIZE);
    assert_int_equal(tn__pages_take(&of, 2 * SIZE, 4 * SIZE, &error), TN_OK);
    assert_int_equal(tn__pages_take(&of, 6 * SIZE, 4 * SIZE, &error), TN_OK);
    assert_int_equal(tn__pages_take(&of, 10 * SIZE, 1, &error), TN_E_EXHAUSTED);
    assert_non_null(strstr(error.message, "the device has no more"));
    assert_int_equal(of.waits, 0);
    tn__pages_give(&of, 0, 2 * SIZE);
    tn__pages_give(&of, 2 * SIZE, 4 * SIZE);
    assert_int_equal(tn__pages_take(&of, 10 * SIZE, 7 * SIZE, &error), TN_E_EXHAUSTED);
    assert_int_equal(of.used, 4);
    assert_int_equal(tn__pages_take(&of, 10 * SIZE, 6 * SIZE, &error), TN_OK);
    assert_null(tn__pages_check(&of));
    tn__pages_give(&of, 10 * SIZE, 6 * SIZE);
    tn__pages_trim(&of);
    assert_int_equal(standin_used(0), 4 * SIZE);
    tn__pages_close(&of, true);
    open_granules(&of, 3 * SIZE);
    assert_int_equal(tn__pages_take(&of, SIZE / 2, 3 * SIZE, &error), TN_E_EXHAUSTED);
    assert_non_null(strstr(error.message, "the budget has no more"));
    assert_int_equal(standin_used(0), 0);
    tn__pages_close(&of, true);
    unsetenv("STANDIN_MEMORY");
}

/* Steps that need a little more than is had move that much; not for ever. */
static void what_moves_comes_to_rest(void **state) {
    tn__pages of;
    tn_error error = {0};
    uint64_t waits = 0;
    (void)state;
    open_granules(&of, 0);
    for (uint32_t round = 0; round < 400; round++) {
        if (round == 300) waits = of.waits;
        for (uint32_t part = 0; part < 2; part++) { /* 40 each, of 60 addresses */
            uint64_t offset = part * 20 * SIZE;
            assert_int_equal(tn__pages_take(&of, offset, 40 * SIZE, &error), TN_OK);
            tn__pages_give(&of, offset, 40 * SIZE);
        }
    }
    print_message("%d waits\n", (int)of.waits);
    assert_true(waits > 0 && of.waits == waits && of.had <= 60);
    tn__pages_close(&of, true);
}

enum { PARTS = 3 };
static const uint64_t part_offset[] = {4 * SIZE + 1, 16 * SIZE, SIZE / 2};
static const uint64_t part_size[] = {2 * SIZE, 5 * SIZE, SIZE};

/* The blocks that live behind it are bits of `*lives`. */
static tn_status use(tn__pages *of, uint32_t *lives, tn_error *error) {
    static tn_context context;
    context = tn__context(NULL);
    *lives = 0;
    TN_TRY(tn__pages_open(of, &context, &cuda, 0, 8 * SIZE, error));
    TN_TRY(tn__pages_take(of, 0, 4 * SIZE, error));
    tn__pages_give(of, 0, 4 * SIZE);
    for (uint32_t i = 0; i < PARTS; i++) {
        if (i == 2) tn__pages_trim(of); /* tells nobody */
        TN_TRY(tn__pages_take(of, part_offset[i], part_size[i], error));
        *lives |= 1u << i;
        if (i > 0) continue;
        tn__pages_give(of, part_offset[i], part_size[i]);
        *lives = 0;
    }
    return TN_OK;
}

static void write_part(const tn__pages *of, uint32_t part) {
    void *block = (void *)(uintptr_t)(of->base + part_offset[part]);
    assert_int_equal(cudaMemsetAsync(block, 1, (size_t)part_size[part], NULL), 0);
}

/* The device may write to every block, whatever failed before. */
static void expect_usable(tn__pages *of, uint32_t lives) {
    tn_error error = {0};
    for (uint32_t i = 0; i < PARTS; i++) {
        if ((lives >> i & 1) == 0) continue;
        write_part(of, i);
        tn__pages_give(of, part_offset[i], part_size[i]);
    }
    for (uint32_t i = 0; i < PARTS; i++) {
        if (tn__pages_take(of, part_offset[i], part_size[i], &error) != TN_OK)
            fail_msg("part %u: %s\n", i, error.message);
        write_part(of, i);
        tn__pages_give(of, part_offset[i], part_size[i]);
        assert_null(tn__pages_check(of));
    }
}

static void each_call_fails_in_turn(void **state) {
    static const char *const functions[] = {"cuDeviceGetAttribute",
                                            "cuMemGetAllocationGranularity",
                                            "cuMemAddressReserve",
                                            "cuMemCreate",
                                            "cuMemMap",
                                            "cuMemSetAccess",
                                            "cuMemUnmap",
                                            "cuMemRelease",
                                            "cudaDeviceSynchronize",
                                            "cudaMemGetInfo"};
    uint32_t refused[sizeof functions / sizeof *functions] = {0};
    (void)state;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        for (int status_of = 0; status_of < 3; status_of++) {
            static const int statuses[] = {2, 1, STANDIN_LOST};
            uint64_t calls = 1;
            for (uint64_t nth = 1; nth <= calls + 1; nth++) {
                tn__pages of;
                tn_error error = {0};
                uint32_t lives;
                uint64_t before = standin_calls(functions[f]);
                standin_fail(functions[f], (unsigned)nth, statuses[status_of]);
                tn_status status = use(&of, &lives, &error);
                calls = standin_calls(functions[f]) - before;
                standin_reset();
                refused[f] += status != TN_OK;
                if (status != TN_OK) assert_true(error.message[0] != '\0');
                if (of.size == 0) continue;
                assert_null(tn__pages_check(&of));
                if (strcmp(functions[f], "cuMemRelease") != 0) expect_usable(&of, lives);
                tn__pages_close(&of, true);
                assert_int_equal(standin_ranges(), 0);
                if (strcmp(functions[f], "cuMemRelease") != 0) assert_int_equal(standin_used(0), 0);
            }
        }
        bool tells = strcmp(functions[f], "cuMemRelease") != 0;
        if (tells && refused[f] < 2) fail_msg("%s failed, and nobody was told\n", functions[f]);
    }
    cudaDeviceSynchronize();
}

/* A failure that does not stay: the work that a wait was for may go on. */
static void what_cannot_be_waited_for_stays(void **state) {
    tn__pages of;
    tn_error error = {0};
    (void)state;
    open_granules(&of, 4 * SIZE);
    assert_int_equal(tn__pages_take(&of, 0, 4 * SIZE, &error), TN_OK);
    assert_int_equal(cudaLaunchHostFunc(NULL, nap, NULL), 0);
    void *block = (void *)(uintptr_t)of.base;
    assert_int_equal(cudaMemsetAsync(block, 1, 4 * SIZE, NULL), 0);
    tn__pages_give(&of, 0, 4 * SIZE);
    standin_fail("cudaDeviceSynchronize", 1, 46);
    standin_fail("cudaDeviceSynchronize", 1, 46);
    tn__pages_trim(&of);
    assert_int_equal(of.had, 4);
    assert_int_equal(tn__pages_take(&of, 8 * SIZE, SIZE, &error), TN_E_IO);
    assert_int_equal(cudaGetLastError(), 0);
    standin_reset();
    assert_int_equal(tn__pages_take(&of, 8 * SIZE, SIZE, &error), TN_OK);
    tn__pages_close(&of, true);
    assert_int_equal(standin_used(0), 0);
}

static void what_cannot_be_opened(void **state) {
    tn__pages of;
    tn_error error = {0};
    tn_context context = tn__context(NULL);
    (void)state;
    assert_int_equal(tn__pages_open(&of, &context, &cuda, 0, SIZE - 1, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "4.0 KiB"));
    setenv("STANDIN_PAGES", "0", 1);
    assert_int_equal(tn__pages_open(&of, &context, &cuda, 0, 0, &error), TN_E_UNSUPPORTED);
    unsetenv("STANDIN_PAGES");
    setenv("STANDIN_GRANULE", "12288", 1); /* no power of two */
    assert_int_equal(tn__pages_open(&of, &context, &cuda, 0, 0, &error), TN_E_UNSUPPORTED);
    setenv("STANDIN_GRANULE", "4096", 1);
    setenv("TENURE_CUDA", "nowhere.so", 1);
    assert_int_equal(tn__pages_open(&of, &context, &cuda, 0, 0, &error), TN_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "TENURE_CUDA cannot be loaded"));
    setenv("TENURE_CUDA", TENURE_STANDIN, 1);
}

int main(int argc, char **argv) {
    tn_error error = {0};
    random_state = argc > 1 ? strtoull(argv[1], NULL, 10) : 17;
    print_message("seed %d\n", (int)random_state);
    setenv("TENURE_CUDART", TENURE_STANDIN, 1);
    setenv("TENURE_CUDA", TENURE_STANDIN, 1);
    setenv("STANDIN_GRANULE", "4096", 1);
    if (tn__cuda_load(&cuda, &error) != TN_OK) return fprintf(stderr, "%s\n", error.message), 1;
    const struct CMUnitTest all[] = {
        cmocka_unit_test(blocks_keep_their_bytes),
        cmocka_unit_test(a_device_that_is_full),
        cmocka_unit_test(what_moves_comes_to_rest),
        cmocka_unit_test(each_call_fails_in_turn),
        cmocka_unit_test(what_cannot_be_waited_for_stays),
        cmocka_unit_test(what_cannot_be_opened),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
