/* Memory where blocks are, on the stand-in of CUDA's driver: random blocks against a plain map of
 * granules, bytes that streams are late with, bounds, each call failing in turn. */
#include "torch/granules.h"

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

static void open_granules(tn__granules *of, uint64_t budget) {
    static const tn_context context = TN_CONTEXT_INIT;
    static tn_context whole;
    tn_error error = {0};
    whole = tn__context(&context);
    tn_status status = tn__granules_open(of, &whole, &cuda, 0, budget, &error);
    if (status != TN_OK) fail_msg("%s\n", error.message);
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

static void expect_bytes(const tn__granules *of, const blocks *all, uint32_t at) {
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
    tn__granules of;
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
            tn__granules_give(&of, all.offset[at], all.size[at]);
            count(&all, all.offset[at], all.size[at], false);
            uint32_t last = --all.count;
            all.offset[at] = all.offset[last], all.size[at] = all.size[last];
            all.byte[at] = all.byte[last];
        } else if (is_free(&all, offset, size)) {
            tn_error error = {0};
            count(&all, offset, size, true);
            uint64_t used = count_used(&all);
            if (used > most) most = used; /* refused or not */
            tn_status status = tn__granules_take(&of, offset, size, &error);
            assert_int_equal(status, used <= LIMIT ? TN_OK : TN_E_EXHAUSTED);
            refused += status != TN_OK;
            if (status != TN_OK) {
                count(&all, offset, size, false);
                continue;
            }
            void *block = (void *)(uintptr_t)(of.base + offset);
            all.byte[all.count] = (unsigned char)below(256);
            assert_int_equal(cudaMemsetAsync(block, all.byte[all.count], (size_t)size, NULL), 0);
            all.offset[all.count] = offset;
            all.size[all.count++] = size;
        }
        assert_int_equal(of.used, count_used(&all));
        assert_int_equal(standin_used(0), of.had * SIZE);
        assert_true(of.had <= LIMIT && of.had <= most + most / TN__GRANULES_BESIDE);
        if (below(1000) == 0) {
            tn__granules_trim(&of);
            assert_int_equal(of.had, of.used);
        }
    }
    print_message("%d refused, %d moved, %d waits\n", (int)refused, (int)of.moved, (int)of.waits);
    assert_true(refused > 0 && of.moved > 0);
    (void)cudaDeviceSynchronize();
    tn__granules_close(&of);
    assert_int_equal(standin_used(0), 0);
}

/* Other processes have the rest: what is idle goes where it is needed, and no more than that. */
static void a_device_that_is_full(void **state) {
    tn__granules of;
    tn_error error = {0};
    (void)state;
    setenv("STANDIN_MEMORY", "40960", 1); /* ten */
    open_granules(&of, 0);
    assert_int_equal(tn__granules_take(&of, 0, 6 * SIZE, &error), TN_OK);
    assert_int_equal(tn__granules_take(&of, 6 * SIZE, 4 * SIZE, &error), TN_OK);
    assert_int_equal(tn__granules_take(&of, 10 * SIZE, 1, &error), TN_E_EXHAUSTED);
    assert_non_null(strstr(error.message, "all in use"));
    tn__granules_give(&of, 0, 6 * SIZE);
    assert_int_equal(tn__granules_take(&of, 10 * SIZE, 7 * SIZE, &error), TN_E_EXHAUSTED);
    assert_int_equal(of.used, 4);
    assert_int_equal(tn__granules_take(&of, 10 * SIZE, 6 * SIZE, &error), TN_OK);
    assert_int_equal(of.moved, 6);
    tn__granules_give(&of, 10 * SIZE, 6 * SIZE);
    tn__granules_trim(&of);
    assert_int_equal(standin_used(0), 4 * SIZE);
    tn__granules_close(&of);
    unsetenv("STANDIN_MEMORY");
}

static tn_status use(tn__granules *of, tn_error *error) {
    static tn_context context;
    context = tn__context(NULL);
    TN_TRY(tn__granules_open(of, &context, &cuda, 0, 8 * SIZE, error));
    TN_TRY(tn__granules_take(of, 0, 4 * SIZE, error));
    TN_TRY(tn__granules_take(of, 4 * SIZE + 1, 2 * SIZE, error));
    tn__granules_give(of, 0, 4 * SIZE);
    TN_TRY(tn__granules_take(of, 16 * SIZE, 5 * SIZE, error));
    tn__granules_give(of, 4 * SIZE + 1, 2 * SIZE);
    tn__granules_trim(of);
    return tn__granules_take(of, SIZE / 2, SIZE, error);
}

static void each_call_fails_in_turn(void **state) {
    static const char *const functions[] = {"cuDeviceGetAttribute",
                                            "cuMemGetAllocationGranularity",
                                            "cuMemAddressReserve",
                                            "cuMemCreate",
                                            "cuMemMap",
                                            "cuMemSetAccess",
                                            "cuMemUnmap",
                                            "cudaDeviceSynchronize",
                                            "cudaMemGetInfo"};
    (void)state;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        for (int sticky = 0; sticky < 2; sticky++) {
            uint64_t calls = 1;
            for (uint64_t nth = 1; nth <= calls + 1; nth++) {
                tn__granules of;
                tn_error error = {0};
                uint64_t before = standin_calls(functions[f]);
                standin_fail(functions[f], (unsigned)nth, sticky ? STANDIN_LOST : 2);
                tn_status status = use(&of, &error);
                calls = standin_calls(functions[f]) - before;
                standin_reset();
                if (status != TN_OK) assert_true(error.message[0] != '\0');
                if (of.size != 0) tn__granules_close(&of);
                assert_int_equal(standin_used(0), 0);
            }
        }
    }
}

static void what_cannot_be_opened(void **state) {
    tn__granules of;
    tn_error error = {0};
    tn_context context = tn__context(NULL);
    (void)state;
    assert_int_equal(tn__granules_open(&of, &context, &cuda, 0, SIZE - 1, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "4.0 KiB"));
    setenv("STANDIN_PAGES", "0", 1);
    assert_int_equal(tn__granules_open(&of, &context, &cuda, 0, 0, &error), TN_E_UNSUPPORTED);
    unsetenv("STANDIN_PAGES");
    setenv("STANDIN_GRANULE", "12288", 1); /* no power of two */
    assert_int_equal(tn__granules_open(&of, &context, &cuda, 0, 0, &error), TN_E_UNSUPPORTED);
    setenv("STANDIN_GRANULE", "4096", 1);
    setenv("TENURE_CUDA", "nowhere.so", 1);
    assert_int_equal(tn__granules_open(&of, &context, &cuda, 0, 0, &error), TN_E_UNSUPPORTED);
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
        cmocka_unit_test(each_call_fails_in_turn),
        cmocka_unit_test(what_cannot_be_opened),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
