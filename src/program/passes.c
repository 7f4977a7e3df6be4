/* passes.c - implements passes.h: the k-th pass of a pipeline stage by arithmetic, in O(1). */
#include "program/passes.h"

/* The n-th forward pass of a stage; its n-th backward pass visits pieces from the last. */
static void passes_nth(const tn__passes *it, uint64_t stage, uint64_t n, tn__pass *pass) {
    uint64_t group = it->stages * it->pieces, within = n % group;
    uint64_t piece = it->pieces == 1 ? 0 : within / it->stages;
    if (pass->backward) piece = it->pieces - 1 - piece;
    pass->round = it->pieces == 1 ? n : n / group * it->stages + within % it->stages;
    pass->part = piece * it->stages + stage;
}

static uint64_t passes_ahead(const tn__passes *it, uint64_t stage) {
    uint64_t behind = it->stages - stage - 1, all = it->rounds * it->pieces;
    uint64_t ahead = it->pieces == 1 ? behind : 2 * behind + (it->pieces - 1) * it->stages;
    return ahead < all && !it->all_ahead ? ahead : all;
}

tn__pass tn__passes_kth(const tn__passes *it, uint64_t stage, uint64_t k) {
    uint64_t ahead = passes_ahead(it, stage), all = it->rounds * it->pieces;
    uint64_t n = k, paired = 2 * (all - ahead);
    tn__pass pass = {0};
    if (k >= ahead && k - ahead < paired) {
        pass.backward = (k - ahead) % 2 != 0;
        n = (k - ahead) / 2 + (pass.backward ? 0 : ahead);
    } else if (k >= ahead) {
        pass.backward = true;
        n = k - all;
    }
    passes_nth(it, stage, n, &pass);
    return pass;
}
