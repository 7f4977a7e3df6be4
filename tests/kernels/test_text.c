/* TfIdfVectorizer against counting from the other side: every n-gram of a row, looked up in the
 * pool. */
#include "count.h"
#include "nn.h"

#define WORDS 3 /* items are 0 .. 2, so that n-grams do occur */

static void n_grams_are_counted_with_all_skips(void **state) {
    (void)state;
    static const char *const modes[] = {"TF", "IDF", "TFIDF"};
    for (uint64_t seed = 1; seed <= case_count(150, 15); seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "TfIdfVectorizer", .version = 9};
        /* pool: 1-grams 0 1, all 2-grams of 0 and 1, two 3-grams */
        const int64_t pool[] = {0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 0, 1, 2, 2, 1, 0};
        const int64_t starts[] = {0, 2, 10}, lengths[] = {1, 1, 2, 2, 2, 2, 3, 3};
        const int64_t indexes[] = {7, 0, 6, 1, 5, 2, 4, 3};
        int64_t shape[2] = {nn_in(&random, 1, 3), nn_in(&random, 1, 12)};
        int64_t least = nn_in(&random, 1, 3), most = nn_in(&random, least, 3);
        int64_t skips = nn_in(&random, 0, 4);
        uint32_t mode = (uint32_t)tn__random_below(&random, 3);
        double weights[8];
        nn_input(&op, &random, 0, nn_often(&random, 2) ? TN_INT64 : TN_INT32, 2, shape, 0, WORDS);
        nn_ints(&op, "pool_int64s", 16, pool);
        nn_ints(&op, "ngram_counts", 3, starts);
        nn_ints(&op, "ngram_indexes", 8, indexes);
        nn_int(&op, "min_gram_length", least);
        nn_int(&op, "max_gram_length", most);
        nn_int(&op, "max_skip_count", skips);
        nn_string(&op, "mode", modes[mode]);
        nn_float(&op, "weights", 0);
        for (uint32_t i = 0; i < 8; i++) weights[i] = 0.5 + i;
        memcpy(op.floats[op.attr_count - 1], weights, sizeof weights);
        op.attrs[op.attr_count - 1].type = TN_ATTR_FLOATS;
        op.attrs[op.attr_count - 1].count = 8;
        nn_run_well(&op, -1);
        for (int64_t row = 0; row < shape[0]; row++) {
            double want[8] = {0};
            for (int64_t n = least; n <= most; n++)
                for (int64_t skip = 0; skip <= (n == 1 ? 0 : skips); skip++)
                    for (int64_t at = 0; at + (n - 1) * (skip + 1) < shape[1]; at++)
                        for (int64_t gram = 0, from = 0; gram < 8; from += lengths[gram++]) {
                            bool same = lengths[gram] == n;
                            for (int64_t i = 0; same && i < n; i++)
                                same = number_get(op.inputs[0], (uint64_t)(row * shape[1] + at +
                                                                           i * (skip + 1))) ==
                                       (double)pool[from + i];
                            want[gram] += same;
                        }
            for (uint32_t gram = 0; gram < 8; gram++) {
                double count = mode == 1 ? want[gram] > 0 : want[gram];
                double value = count * (mode == 0 ? 1 : weights[gram]);
                nn_near(&op, 0, (uint64_t)(row * 8 + indexes[gram]), value, 0, seed);
            }
        }
        nn_clear(&op);
    }
}

static void a_pool_that_is_cut_wrongly_is_refused(void **state) {
    (void)state;
    static const int64_t cuts[3][2] = {{0, 9}, {0, 3}, {2, 0}};
    for (uint32_t i = 0; i < 3; i++) {
        tn__random random = {1};
        nn_op op = {.type = "TfIdfVectorizer", .version = 9};
        nn_input(&op, &random, 0, TN_INT64, 1, (int64_t[]){5}, 0, WORDS);
        nn_ints(&op, "pool_int64s", 4, (int64_t[]){0, 1, 0, 1});
        nn_ints(&op, "ngram_counts", 2, cuts[i]);
        nn_ints(&op, "ngram_indexes", 3, (int64_t[]){0, 1, 2});
        nn_refuses(&op, "a pool that is cut wrongly");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(n_grams_are_counted_with_all_skips),
        cmocka_unit_test(a_pool_that_is_cut_wrongly_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
