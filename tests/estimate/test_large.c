/* test_large.c - the formulas for large transformers, against published counts: the table of
 * Narayanan et al. 2021 (../shared/reference/remat_swap.md, 10.1), models whose parameters are
 * known, the published memory of ZeRO, and what must hold for any sizes.
 */
#include <math.h>

#include <tenure/estimate.h>

#include "base/base.h"
#include "support.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

static void the_published_table_of_sizes_is_reproduced(void **state) {
    (void)state;
    /* heads, hidden, layers, billions published */
    static const struct {
        uint64_t heads, hidden, layers;
        double billions;
    } rows[] = {{24, 2304, 24, 1.7},      {32, 3072, 30, 3.6},     {32, 4096, 36, 7.5},
                {48, 6144, 40, 18.4},     {64, 8192, 48, 39.1},    {80, 10240, 60, 76.1},
                {96, 12288, 80, 145.6},   {128, 16384, 96, 310.1}, {128, 20480, 105, 529.6},
                {160, 25600, 128, 1008.0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_large large = {.hidden = rows[i].hidden,
                          .layers = rows[i].layers,
                          .heads = rows[i].heads,
                          .vocabulary = 51200,
                          .sequence = 2048,
                          .positions = TN_SIZE_UNKNOWN};
        tn_large_estimate estimate;
        assert_ok(tn_large_estimate_make(&large, &estimate, &failure));
        assert_true(fabs(estimate.parameters / 1e9 - rows[i].billions) < 0.0601);
        /* counted matrix by matrix it is the same, but for the last normalisation */
        assert_true(fabs((double)estimate.exact_parameters - estimate.parameters -
                         2.0 * (double)rows[i].hidden) < 1e-6 * estimate.parameters);
    }
}

/* A layer's products do 24 b s h^2 + 4 b s^2 h forward; backward twice that, and forward once more
 * to recompute: counted one by one, they are the formula. */
static void the_formula_of_operations_counts_every_product(void **state) {
    (void)state;
    tn__random random = {.state = 7};
    for (int trial = 0; trial < 200; trial++) {
        tn_large large = {.heads = 1 + tn__random_below(&random, 64),
                          .layers = 1 + tn__random_below(&random, 90),
                          .vocabulary = 1 + tn__random_below(&random, 60000),
                          .sequence = 1 + tn__random_below(&random, 4000),
                          .batch = 1 + tn__random_below(&random, 2000)};
        large.hidden = large.heads * (1 + tn__random_below(&random, 200));
        tn_large_estimate estimate;
        assert_ok(tn_large_estimate_make(&large, &estimate, &failure));
        double tokens = (double)large.batch * (double)large.sequence, h = (double)large.hidden;
        double s = (double)large.sequence;
        double products = 2 * tokens * h * (3 * h)      /* query, key, value */
                          + 2 * tokens * s * h          /* scores */
                          + 2 * tokens * s * h          /* values */
                          + 2 * tokens * h * h          /* projection */
                          + 2 * 2 * tokens * h * 4 * h; /* inner layer */
        double all = 4 * (double)large.layers * products +
                     3 * 2 * tokens * h * (double)large.vocabulary; /* logits: not recomputed */
        assert_true(fabs(all / estimate.flops - 1) < 1e-12);
    }
}

static void config_files_give_the_known_parameter_counts(void **state) {
    (void)state;
    /* Counts as the published checkpoints have them; BERT without its pooler (590,592). */
    static const struct {
        const char *name, *json;
        uint64_t parameters;
    } rows[] = {
        {"gpt2",
         "{\"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"n_positions\": 1024, \"n_ctx\": "
         "1024,"
         " \"vocab_size\": 50257, \"n_inner\": null}",
         124439808},
        {"gpt2-xl",
         "{\"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25, \"n_positions\": 1024,"
         " \"vocab_size\": 50257}",
         1557611200},
        {"llama-7b",
         "{\"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
         " \"intermediate_size\": 11008, \"vocab_size\": 32000, \"max_position_embeddings\": 2048,"
         " \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": false}",
         UINT64_C(6738415616)},
        {"llama-3-8b",
         "{\"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
         " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 128256,"
         " \"max_position_embeddings\": 8192, \"rms_norm_eps\": 1e-05}",
         UINT64_C(8030261248)},
        {"bert-base",
         "{\"hidden_size\": 768, \"num_hidden_layers\": 12, \"num_attention_heads\": 12,"
         " \"intermediate_size\": 3072, \"vocab_size\": 30522, \"max_position_embeddings\": 512,"
         " \"type_vocab_size\": 2}",
         109482240 - 590592},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_large large = {0};
        tn_large_estimate estimate;
        assert_ok(tn_large_config(rows[i].name, rows[i].json, strlen(rows[i].json), NULL, &large,
                                  &failure));
        assert_ok(tn_large_estimate_make(&large, &estimate, &failure));
        assert_int_equal(estimate.exact_parameters, rows[i].parameters);
    }
}

static void nonsense_is_refused_with_the_key(void **state) {
    (void)state;
    static const struct {
        const char *json, *says;
    } rows[] = {
        {"", "end of file"},
        {"[1, 2]", "object"},
        {"{\"hello\": 1}", "hidden_size"},
        {"{\"hidden_size\": \"big\"}", "hidden_size"},
        {"{\"hidden_size\": 0}", "hidden_size"},
        {"{\"hidden_size\": -768}", "hidden_size"},
        {"{\"hidden_size\": 7.5}", "hidden_size"},
        {"{\"hidden_size\": 768, \"hidden_size\": 12}", "uplicate"},
        {"{\"hidden_size\": 768, \"num_hidden_layers\": 12}", "num_attention_heads"},
        {"{\"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"vocab_size\": 99}", "n_positions"},
        {"{\"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"vocab_size\": 99, \"n_ctx\": 9, "
         "\"tie_word_embeddings\": 3}",
         "tie_word_embeddings"},
        {"{\"n_embd\": 768, \"n_layer\": 12,", "expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_large large = {.data = 3}, before = large;
        tn_status status = tn_large_config("config.json", rows[i].json, strlen(rows[i].json), NULL,
                                           &large, &failure);
        assert_int_equal(status, TN_E_INVALID);
        if (strstr(failure.message, rows[i].says) == NULL)
            fail_msg("'%s' says '%s'\n", rows[i].json, failure.message);
        assert_memory_equal(&large, &before, sizeof large);
    }
}

static void sizes_and_ranks_that_do_not_fit_are_refused(void **state) {
    (void)state;
    const tn_large fine = {.hidden = 64,
                           .layers = 8,
                           .heads = 8,
                           .vocabulary = 100,
                           .sequence = 16,
                           .tensor = 4,
                           .pipeline = 2,
                           .data = 2,
                           .batch = 8};
    tn_large_estimate estimate;
    tn_large_stage stage;
    assert_ok(tn_large_estimate_make(&fine, &estimate, &failure));
    assert_int_equal(estimate.ranks, 16);
    assert_int_equal(tn_large_stage_make(&fine, 2, &stage, &failure), TN_E_INVALID);
    tn_large wrong[] = {fine, fine, fine, fine, fine, fine, fine};
    wrong[0].hidden = 0;
    wrong[1].heads = 3;
    wrong[2].tensor = 16;
    wrong[3].pipeline = 3;
    wrong[4].data = 3;
    wrong[5].micro = 3;
    wrong[6].layers = UINT64_MAX;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tn_large_estimate_make(&wrong[i], &estimate, &failure), TN_E_INVALID);
}

/* Rajbhandari et al. 2020: 7.5 B parameters, Adam, mixed precision, 64 ranks: 120 GB, 31.4, 16.6
 * and 1.9 GB, with gradients of 2 bytes. */
static void shards_take_the_published_memory(void **state) {
    (void)state;
    static const double published[] = {120, 31.4, 16.6, 1.9};
    for (uint32_t shard = 0; shard < 4; shard++) {
        tn_large large = {.hidden = 4096,
                          .layers = 36,
                          .heads = 32,
                          .vocabulary = 51200,
                          .sequence = 2048,
                          .positions = TN_SIZE_UNKNOWN,
                          .data = 64,
                          .weight_bytes = 2,
                          .gradient_bytes = 2,
                          .state_bytes = 12,
                          .shard = (tn_shard)shard};
        tn_large_estimate estimate;
        assert_ok(tn_large_estimate_make(&large, &estimate, &failure));
        double bytes = (double)(estimate.largest.total - estimate.largest.activations);
        bytes *= 7.5e9 / (double)estimate.exact_parameters;
        assert_true(fabs(bytes / 1e9 - published[shard]) < 0.051);
    }
}

/* Korthikanti et al. 2022, table 2: bytes of activations per layer. */
static void activations_are_those_of_the_published_table(void **state) {
    (void)state;
    double s = 2048, b = 4, h = 12288, a = 96, t = 8;
    const struct {
        uint64_t tensor;
        bool sequence_parallel;
        tn_recompute recompute;
        double bytes;
    } rows[] = {{1, false, TN_RECOMPUTE_NONE, s * b * h * (34 + 5 * a * s / h)},
                {8, false, TN_RECOMPUTE_NONE, s * b * h * (10 + 24 / t + 5 * a * s / (h * t))},
                {8, true, TN_RECOMPUTE_NONE, s * b * h / t * (34 + 5 * a * s / h)},
                {8, false, TN_RECOMPUTE_SELECTIVE, s * b * h * (10 + 24 / t)},
                {8, true, TN_RECOMPUTE_SELECTIVE, s * b * h * 34 / t}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_large large = {.hidden = 12288,
                          .layers = 24,
                          .heads = 96,
                          .vocabulary = 51200,
                          .sequence = 2048,
                          .micro = 4,
                          .batch = 4 * 64,
                          .tensor = rows[i].tensor,
                          .sequence_parallel = rows[i].sequence_parallel,
                          .pipeline = 3,
                          .recompute = rows[i].recompute};
        tn_large_stage stage; /* the middle one has nothing but layers, two micro-batches of them */
        assert_ok(tn_large_stage_make(&large, 1, &stage, &failure));
        assert_true(fabs((double)stage.activations / (2 * 8 * rows[i].bytes) - 1) < 1e-9);
    }
}

static void devices_are_found_and_plausible(void **state) {
    (void)state;
    static const char *const sources[] = {"k80", "P40", "v100-16", "t4", "V100S", "a100-40"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        assert_non_null(tn_hardware_find(sources[i]));
    assert_null(tn_hardware_find("abacus"));
    assert_null(tn_hardware_at(tn_hardware_count()));
    for (uint32_t i = 0; i < tn_hardware_count(); i++) {
        const tn_hardware *it = tn_hardware_at(i);
        assert_ptr_equal(tn_hardware_find(it->name), it);
        assert_true(it->memory >= (UINT64_C(8) << 30) && it->bytes_per_s > 1e11);
        assert_true(it->fp32 > 1e12 && it->year >= 2014 && it->year <= 2026);
        assert_true(it->fp16 == TN_RATE_UNKNOWN || it->fp16 > it->fp32);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_table_of_sizes_is_reproduced),
        cmocka_unit_test(the_formula_of_operations_counts_every_product),
        cmocka_unit_test(config_files_give_the_known_parameter_counts),
        cmocka_unit_test(nonsense_is_refused_with_the_key),
        cmocka_unit_test(sizes_and_ranks_that_do_not_fit_are_refused),
        cmocka_unit_test(shards_take_the_published_memory),
        cmocka_unit_test(activations_are_those_of_the_published_table),
        cmocka_unit_test(devices_are_found_and_plausible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
