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
        tn_large large = {.model.hidden = rows[i].hidden,
                          .model.layers = rows[i].layers,
                          .model.heads = rows[i].heads,
                          .model.vocabulary = 51200,
                          .sequence = 2048,
                          .model.position_rows = TN_SIZE_UNKNOWN};
        tn_large_estimate estimate;
        assert_ok(tn_large_estimate_make(&large, &estimate, &failure));
        assert_true(fabs(round(estimate.parameters / 1e8) / 10 - rows[i].billions) < 0.001);
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
        tn_large large = {.model.heads = 1 + tn__random_below(&random, 64),
                          .model.layers = 1 + tn__random_below(&random, 90),
                          .model.vocabulary = 1 + tn__random_below(&random, 60000),
                          .sequence = 1 + tn__random_below(&random, 4000),
                          .batch = 1 + tn__random_below(&random, 2000)};
        large.model.hidden = large.model.heads * (1 + tn__random_below(&random, 200));
        tn_large_estimate estimate;
        assert_ok(tn_large_estimate_make(&large, &estimate, &failure));
        double tokens = (double)large.batch * (double)large.sequence,
               h = (double)large.model.hidden;
        double s = (double)large.sequence;
        double products = 2 * tokens * h * (3 * h)      /* query, key, value */
                          + 2 * tokens * s * h          /* scores */
                          + 2 * tokens * s * h          /* values */
                          + 2 * tokens * h * h          /* projection */
                          + 2 * 2 * tokens * h * 4 * h; /* inner layer */
        double all =
            4 * (double)large.model.layers * products +
            3 * 2 * tokens * h * (double)large.model.vocabulary; /* logits: not recomputed */
        assert_true(fabs(all / estimate.flops - 1) < 1e-12);
    }
}

/* Counts as the published checkpoints have them. */
static const struct {
    const char *name, *json;
    uint64_t parameters;
} config_known[] = {
    {"gpt2",
     "{\"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"n_positions\": 1024, \"n_ctx\": 1024,"
     " \"vocab_size\": 50257, \"n_inner\": null, \"model_type\": \"gpt2\"}",
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
    {"llama-2-70b",
     "{\"hidden_size\": 8192, \"num_hidden_layers\": 80, \"num_attention_heads\": 64,"
     " \"num_key_value_heads\": 8, \"intermediate_size\": 28672, \"vocab_size\": 32000,"
     " \"max_position_embeddings\": 4096, \"model_type\": \"llama\"}",
     UINT64_C(68976648192)},
    {"llama-3-8b",
     "{\"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 128256,"
     " \"max_position_embeddings\": 8192, \"rms_norm_eps\": 1e-05}",
     UINT64_C(8030261248)},
    {"mistral-7b",
     "{\"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000,"
     " \"max_position_embeddings\": 32768, \"model_type\": \"mistral\", \"sliding_window\": 4096}",
     UINT64_C(7241732096)},
    {"qwen2.5-7b",
     "{\"hidden_size\": 3584, \"num_hidden_layers\": 28, \"num_attention_heads\": 28,"
     " \"num_key_value_heads\": 4, \"intermediate_size\": 18944, \"vocab_size\": 152064,"
     " \"max_position_embeddings\": 131072, \"model_type\": \"qwen2\"}",
     UINT64_C(7615616512)},
    {"qwen2-0.5b",
     "{\"hidden_size\": 896, \"num_hidden_layers\": 24, \"num_attention_heads\": 14,"
     " \"num_key_value_heads\": 2, \"intermediate_size\": 4864, \"vocab_size\": 151936,"
     " \"max_position_embeddings\": 131072, \"model_type\": \"qwen2\","
     " \"tie_word_embeddings\": true}",
     494032768},
    {"qwen3-0.6b",
     "{\"hidden_size\": 1024, \"num_hidden_layers\": 28, \"num_attention_heads\": 16,"
     " \"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 3072,"
     " \"vocab_size\": 151936, \"max_position_embeddings\": 40960, \"model_type\": \"qwen3\","
     " \"attention_bias\": false, \"tie_word_embeddings\": true}",
     596049920},
    {"gemma-2b",
     "{\"hidden_size\": 2048, \"num_hidden_layers\": 18, \"num_attention_heads\": 8,"
     " \"num_key_value_heads\": 1, \"head_dim\": 256, \"intermediate_size\": 16384,"
     " \"vocab_size\": 256000, \"max_position_embeddings\": 8192, \"model_type\": \"gemma\"}",
     UINT64_C(2506172416)},
    {"phi-3-mini",
     "{\"hidden_size\": 3072, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 32, \"intermediate_size\": 8192, \"vocab_size\": 32064,"
     " \"max_position_embeddings\": 4096, \"model_type\": \"phi3\"}",
     UINT64_C(3821079552)},
    {"opt-125m",
     "{\"hidden_size\": 768, \"num_hidden_layers\": 12, \"num_attention_heads\": 12,"
     " \"ffn_dim\": 3072, \"vocab_size\": 50272, \"max_position_embeddings\": 2048,"
     " \"word_embed_proj_dim\": 768, \"model_type\": \"opt\"}",
     125239296},
    {"bloom-560m",
     "{\"hidden_size\": 1024, \"n_layer\": 24, \"n_head\": 16, \"vocab_size\": 250880,"
     " \"seq_length\": 2048, \"model_type\": \"bloom\"}",
     559214592},
    {"pythia-160m",
     "{\"hidden_size\": 768, \"num_hidden_layers\": 12, \"num_attention_heads\": 12,"
     " \"intermediate_size\": 3072, \"vocab_size\": 50304, \"max_position_embeddings\": 2048,"
     " \"model_type\": \"gpt_neox\"}",
     162322944},
    {"gpt-neo-125m",
     "{\"hidden_size\": 768, \"num_layers\": 12, \"num_heads\": 12, \"vocab_size\": 50257,"
     " \"max_position_embeddings\": 2048, \"intermediate_size\": null,"
     " \"model_type\": \"gpt_neo\"}",
     125198592},
    {"santacoder",
     "{\"n_embd\": 2048, \"n_layer\": 24, \"n_head\": 16, \"n_inner\": 8192,"
     " \"n_positions\": 2048, \"vocab_size\": 49280, \"multi_query\": true,"
     " \"model_type\": \"gpt_bigcode\"}",
     1124886528},
    {"starcoder2-3b",
     "{\"hidden_size\": 3072, \"num_hidden_layers\": 30, \"num_attention_heads\": 24,"
     " \"num_key_value_heads\": 2, \"intermediate_size\": 12288, \"vocab_size\": 49152,"
     " \"max_position_embeddings\": 16384, \"model_type\": \"starcoder2\"}",
     UINT64_C(3030371328)},
    {"bert-base",
     "{\"hidden_size\": 768, \"num_hidden_layers\": 12, \"num_attention_heads\": 12,"
     " \"intermediate_size\": 3072, \"vocab_size\": 30522, \"max_position_embeddings\": 512,"
     " \"type_vocab_size\": 2}",
     109482240},
    {"roberta-base",
     "{\"hidden_size\": 768, \"num_hidden_layers\": 12, \"num_attention_heads\": 12,"
     " \"intermediate_size\": 3072, \"vocab_size\": 50265, \"max_position_embeddings\": 514,"
     " \"type_vocab_size\": 1, \"model_type\": \"roberta\"}",
     124645632},
    {"distilbert-base",
     "{\"dim\": 768, \"n_layers\": 6, \"n_heads\": 12, \"hidden_dim\": 3072, \"vocab_size\": 30522,"
     " \"max_position_embeddings\": 512, \"model_type\": \"distilbert\"}",
     66362880},
};

/* The paper's own examples: 300 billion tokens through 175 billion parameters at 140 teraFLOP/s on
 * each of 1,024 processors take 34 days, 450 billion through 1 T at 163 on 3,072 take 84. */
static void the_published_days_of_training_follow(void **state) {
    (void)state;
    static const struct {
        uint64_t heads, hidden, layers, batch;
        double tokens, rate, processors, days;
    } rows[] = {{96, 12288, 96, 1536, 300e9, 140e12, 1024, 34},
                {160, 25600, 128, 3072, 450e9, 163e12, 3072, 84}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_large large = {.model.hidden = rows[i].hidden,
                          .model.layers = rows[i].layers,
                          .model.heads = rows[i].heads,
                          .model.vocabulary = 51200,
                          .sequence = 2048,
                          .batch = rows[i].batch};
        tn_large_estimate estimate;
        assert_ok(tn_large_estimate_make(&large, &estimate, &failure));
        double iterations = rows[i].tokens / (double)(rows[i].batch * 2048);
        double days = iterations * estimate.flops / rows[i].rate / rows[i].processors / 86400;
        assert_true(fabs(days / rows[i].days - 1) < 0.03);
    }
}

static void config_files_give_the_known_parameter_counts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof config_known / sizeof *config_known; i++) {
        const char *name = config_known[i].name, *json = config_known[i].json;
        tn_large large = {0};
        tn_large_estimate estimate;
        assert_ok(tn_large_config(name, json, strlen(json), NULL, &large, &failure));
        assert_ok(tn_large_estimate_make(&large, &estimate, &failure));
        if (estimate.exact_parameters != config_known[i].parameters)
            fail_msg("%s: %llu, published %llu\n", name,
                     (unsigned long long)estimate.exact_parameters,
                     (unsigned long long)config_known[i].parameters);
    }
}

/* Keys and values of fewer heads than ranks are on several of them: on 8 ranks what is not divided
 * is there 8 times, and beyond the number of those heads they are as well. */
static void ranks_hold_the_parameters_between_them(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof config_known / sizeof *config_known; i++) {
        const char *json = config_known[i].json;
        tn_large large = {0};
        assert_ok(tn_large_config("x", json, strlen(json), NULL, &large, &failure));
        large.pipeline = 2;
        for (large.tensor = 1; large.tensor <= 16; large.tensor *= 2) {
            uint64_t sum = 0,
                     kv = large.model.kv_heads > 0 ? large.model.kv_heads : large.model.heads;
            tn_large_stage stage[2];
            if (large.model.heads % large.tensor != 0 || large.model.layers % 2 != 0) continue;
            if (kv % large.tensor != 0 && large.tensor % kv != 0) continue;
            for (uint32_t k = 0; k < 2; k++) {
                assert_ok(tn_large_stage_make(&large, k, &stage[k], &failure));
                sum += stage[k].parameters;
            }
            uint64_t own = large.model.untied
                               ? 0
                               : large.model.vocabulary * large.model.hidden; /* both ends */
            assert_true(sum * large.tensor >= config_known[i].parameters);
            if (large.tensor == 1) assert_int_equal(sum, config_known[i].parameters + own);
            uint64_t size = large.model.head_size > 0 ? large.model.head_size
                                                      : large.model.hidden / large.model.heads;
            uint64_t again = large.tensor > kv ? large.tensor - kv : 0; /* copies of such a head */
            uint64_t copied = again * 2 * size * (large.model.hidden + !large.model.no_query_bias) *
                              large.model.layers;
            uint64_t rest =
                16 * large.model.layers * large.model.hidden +
                (large.model.position_rows + large.model.types + 4 + large.model.vocabulary % 16) *
                    large.model.hidden +
                (large.model.pooled ? large.model.hidden * (large.model.hidden + 1) : 0);
            assert_true(sum * large.tensor <=
                        config_known[i].parameters + own + copied + large.tensor * rest);
        }
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
        {"{\"hidden_size\": 1e300}", "1e300"},
        {"{\"hidden_size\": 1e999}", "overflow"},
        {"{\"hidden_size\": 99999999999999999999}", "too big"},
        {"{\"hidden_size\": [[[]]]}", "[[[]]]"},
        {"{\"hidden_size\": -768}", "-768"},
        {"{\"hidden_size\": 2199023255552}", "2199023255552"},
        {"{\"model_type\": \"mixtral\"}", "mixtral"},
        {"{\"model_type\": \"gpt2\", \"text_config\": {\"n_embd\": true}}", "n_embd"},
        {"{\"model_type\": 7}", "model_type"},
        {"{\"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"vocab_size\": 99, \"n_ctx\": 9, "
         "\"attention_bias\": \"no\"}",
         "attention_bias"},
        {"{\"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"vocab_size\": 99, \"n_ctx\": 9, "
         "\"attn_pdrop\": 0.1, \"resid_pdrop\": \"none\"}",
         "resid_pdrop"},
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

/* OPT, say, has no dropout in its attention, but elsewhere. */
static void masks_are_kept_unless_no_key_asks_for_dropout(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        bool none;
    } rows[] = {{"", false},
                {", \"attention_dropout\": 0.0, \"dropout\": 0.1", false},
                {", \"dropout\": 0.1, \"attn_pdrop\": 0", false},
                {", \"attention_dropout\": 0.0, \"dropout\": 0", true},
                {", \"rms_norm_eps\": 1e-6, \"intermediate_size\": 8", true},
                {", \"rms_norm_eps\": 1e-6, \"intermediate_size\": 8, \"resid_pdrop\": 0.2", false},
                {", \"model_type\": null, \"attn_pdrop\": null", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[300];
        tn_large large = {0};
        snprintf(
            json, sizeof json,
            "{\"n_embd\": 8, \"n_layer\": 2, \"n_head\": 2, \"vocab_size\": 99, \"n_ctx\": 9%s}",
            rows[i].keys);
        assert_ok(tn_large_config("x", json, strlen(json), NULL, &large, &failure));
        assert_int_equal(large.model.no_dropout, rows[i].none);
    }
}

static void parts_that_are_not_counted_are_refused(void **state) {
    (void)state;
    static const char *const parts[] = {
        "\"num_local_experts\": 8",     "\"num_experts\": 60",     "\"n_routed_experts\": 64",
        "\"is_encoder_decoder\": true", "\"kv_lora_rank\": 512",   "\"embedding_size\": 128",
        "\"word_embed_proj_dim\": 512", "\"num_hidden_groups\": 2"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char json[300];
        tn_large large = {0};
        snprintf(json, sizeof json,
                 "{\"hidden_size\": 1024, \"num_hidden_layers\": 24, \"num_attention_heads\": 16,"
                 " \"vocab_size\": 1000, \"max_position_embeddings\": 512, %s}",
                 parts[i]);
        tn_status status = tn_large_config("x", json, strlen(json), NULL, &large, &failure);
        assert_int_equal(status, TN_E_UNSUPPORTED);
        char key[40];
        snprintf(key, sizeof key, "%.*s", (int)(strchr(parts[i], ':') - parts[i]), parts[i]);
        assert_non_null(strstr(failure.message, key));
    }
}

static void sizes_and_ranks_that_do_not_fit_are_refused(void **state) {
    (void)state;
    const tn_large fine = {.model.hidden = 64,
                           .model.layers = 8,
                           .model.heads = 8,
                           .model.vocabulary = 100,
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
    tn_large wrong[] = {fine, fine, fine, fine, fine, fine, fine, fine, fine};
    wrong[0].model.hidden = 0;
    wrong[1].model.heads = 3;
    wrong[2].tensor = 16;
    wrong[3].pipeline = 3;
    wrong[4].data = 3;
    wrong[5].micro = 3;
    wrong[6].model.layers = UINT64_MAX;
    wrong[7].model.kv_heads = 8, wrong[7].tensor = 6, wrong[7].model.heads = 24,
    wrong[7].model.hidden = 72;
    wrong[8].model.hidden = UINT64_C(1) << 40; /* 2^64 parameters */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tn_large_estimate_make(&wrong[i], &estimate, &failure), TN_E_INVALID);
}

/* Rajbhandari et al. 2020: 7.5 B parameters, Adam, mixed precision, 64 ranks: 120 GB, 31.4, 16.6
 * and 1.9 GB, with gradients of 2 bytes. */
static void shards_take_the_published_memory(void **state) {
    (void)state;
    static const double published[] = {120, 31.4, 16.6, 1.9};
    for (uint32_t shard = 0; shard < 4; shard++) {
        tn_large large = {.model.hidden = 4096,
                          .model.layers = 36,
                          .model.heads = 32,
                          .model.vocabulary = 51200,
                          .sequence = 2048,
                          .model.position_rows = TN_SIZE_UNKNOWN,
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
        tn_large large = {.model.hidden = 12288,
                          .model.layers = 24,
                          .model.heads = 96,
                          .model.vocabulary = 51200,
                          .sequence = 2048,
                          .micro = 4,
                          .batch = 4 * 64,
                          .tensor = rows[i].tensor,
                          .sequence_parallel = rows[i].sequence_parallel,
                          .pipeline = 3,
                          .attention = TN_ATTENTION_UNFUSED,
                          .recompute = rows[i].recompute};
        tn_large_stage stage; /* the middle one has nothing but layers, two micro-batches of them */
        assert_ok(tn_large_stage_make(&large, 1, &stage, &failure));
        assert_true(fabs((double)stage.kept / (2 * 8 * rows[i].bytes) - 1) < 1e-9);
    }
}

/* Sums by hand for Qwen3-8B; full recomputation was measured by others at 598,000 bytes a token (a
 * fine-tune on one card, 9.8 GB from 16k to 32k tokens, with a loss that is not known). */
static void fused_attention_keeps_no_scores(void **state) {
    (void)state;
    tn_large large = {.model.hidden = 4096,
                      .model.layers = 36,
                      .model.heads = 32,
                      .model.kv_heads = 8,
                      .model.head_size = 128,
                      .model.inner = 12288,
                      .model.vocabulary = 151936,
                      .model.gated = true,
                      .model.rms_norm = true,
                      .model.query_norm = true,
                      .model.no_dropout = true,
                      .model.untied = true,
                      .sequence = 131072,
                      .micro = 1,
                      .batch = 1,
                      .loss_tokens = 1024};
    const uint64_t n = 131072,
                   layer = 16 * 4096 + 4 * 4096 + 4 * 1024 + 4 * 32 + 8 * 12288 + 6 * (4096 + 1024);
    const uint64_t back = 6 * 12288, core = 2 * 4096 + 4 * 32;
    const uint64_t loss = n * 8 * 4096 + UINT64_C(14) * 1024 * 151936;
    const uint64_t kept[] = {36 * layer * n, 36 * (layer - core) * n, UINT64_C(38654705664)};
    const uint64_t more[] = {back * n, (core + back) * n, (layer + back) * n};
    uint64_t before = UINT64_MAX;
    for (int recompute = 0; recompute < 3; recompute++) {
        tn_large_estimate made;
        large.recompute = (tn_recompute)recompute;
        assert_ok(tn_large_estimate_make(&large, &made, &failure));
        assert_int_equal(made.largest.kept, kept[recompute]);
        assert_int_equal(made.largest.loss, loss);
        assert_int_equal(made.largest.activations, kept[recompute] + more[recompute] + loss);
        assert_true(made.largest.activations < before);
        before = made.largest.activations;
    }
    tn_large_estimate half, whole;
    assert_ok(tn_large_estimate_make(&large, &whole, &failure));
    large.sequence = 65536;
    assert_ok(tn_large_estimate_make(&large, &half, &failure));
    double token = (double)(whole.largest.activations - half.largest.activations) / 65536;
    assert_true(token > 598000 * 0.95 && token < 598000 * 1.05);
}

/* Recomputing more never needs more, whatever the sizes. */
static void recomputing_more_never_takes_more(void **state) {
    (void)state;
    tn__random random = {.state = 34};
    for (int trial = 0; trial < 2000; trial++) {
        uint64_t heads = UINT64_C(1) << tn__random_below(&random, 6);
        tn_large large = {.model.heads = heads,
                          .model.hidden = heads * (1 + tn__random_below(&random, 200)),
                          .model.layers = 1 + tn__random_below(&random, 90),
                          .model.vocabulary = 1 + tn__random_below(&random, 60000),
                          .sequence = 1 + tn__random_below(&random, 200000),
                          .model.gated = trial % 2 != 0,
                          .model.no_dropout = trial % 3 != 0,
                          .attention = (tn_attention)(trial % 4 == 0)};
        uint64_t taken[3];
        for (int recompute = 0; recompute < 3; recompute++) {
            tn_large_estimate made;
            large.recompute = (tn_recompute)recompute;
            assert_ok(tn_large_estimate_make(&large, &made, &failure));
            taken[recompute] = made.largest.activations;
        }
        if (taken[2] > taken[1] || taken[1] > taken[0]) fail_msg("seed 34, trial %d\n", trial);
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
        assert_true(it->memory >= (UINT64_C(8) << 30) && it->bytes_per_s > 5e10);
        assert_true(it->usable <= it->memory && it->usable >= it->memory / 5 * 2);
        assert_true(it->fp32 == TN_RATE_UNKNOWN || it->fp32 > 1e12);
        assert_true(it->year >= 2014 && it->year <= 2026);
        assert_true(it->fp16 == TN_RATE_UNKNOWN || it->fp16 > it->fp32);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_table_of_sizes_is_reproduced),
        cmocka_unit_test(the_formula_of_operations_counts_every_product),
        cmocka_unit_test(the_published_days_of_training_follow),
        cmocka_unit_test(ranks_hold_the_parameters_between_them),
        cmocka_unit_test(parts_that_are_not_counted_are_refused),
        cmocka_unit_test(config_files_give_the_known_parameter_counts),
        cmocka_unit_test(masks_are_kept_unless_no_key_asks_for_dropout),
        cmocka_unit_test(nonsense_is_refused_with_the_key),
        cmocka_unit_test(sizes_and_ranks_that_do_not_fit_are_refused),
        cmocka_unit_test(shards_take_the_published_memory),
        cmocka_unit_test(activations_are_those_of_the_published_table),
        cmocka_unit_test(fused_attention_keeps_no_scores),
        cmocka_unit_test(recomputing_more_never_takes_more),
        cmocka_unit_test(devices_are_found_and_plausible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
