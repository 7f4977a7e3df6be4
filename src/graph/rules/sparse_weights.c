/* sparse_weights.c - sizes of sparse weights, and the threshold of magnitudes.
 *
 * Magnitudes of float32 are in the order of their bits (without the sign), so the k largest are
 * found by counting bit patterns: no sorting, no copy, ties known exactly. NaN counts as larger
 * than all numbers.
 * Cost: two passes over the values, 512 KiB of counters.
 */
#include "graph/rules/sparse_weights.h"

uint64_t tn__sparse_blocks(const tn__sparse *form) {
    if (form->rows == 0 || form->columns == 0) return 0;
    return (form->columns - 1) / tn__sparse_span(form) + 1;
}

uint64_t tn__sparse_places(const tn__sparse *form) {
    uint64_t bytes = form->columns / 8 + (form->columns % 8 != 0), all;
    if (form->bits != 1) return form->kept;
    return tn__mul(form->rows, bytes, &all) ? all : TN_SIZE_UNKNOWN;
}

uint64_t tn__sparse_starts(const tn__sparse *form) {
    uint64_t all;
    bool fits = tn__mul(form->rows, tn__sparse_blocks(form), &all) && tn__add(all, 1, &all);
    return fits ? all : TN_SIZE_UNKNOWN;
}

/* The bytes of all three lists of a form; saturates. */
static uint64_t sparse_bytes(const tn__sparse *form) {
    uint64_t places = tn__mul_sat(tn__sparse_places(form), form->bits == 16 ? 2 : 1);
    uint64_t bytes = tn__add_sat(tn__mul_sat(form->kept, sizeof(float)), places);
    return tn__add_sat(bytes, tn__mul_sat(tn__sparse_starts(form), sizeof(uint32_t)));
}

bool tn__sparse_choose(tn__sparse *form) {
    static const uint32_t widths[] = {1, 8, 16};
    uint64_t least = tn__mul_sat(tn__mul_sat(form->rows, form->columns), sizeof(float));
    bool found = false;
    if (form->kept >= UINT32_MAX) return false;
    for (uint32_t i = 0; i < 3; i++) {
        tn__sparse other = *form;
        other.bits = widths[i];
        if (sparse_bytes(&other) >= least) continue;
        least = sparse_bytes(&other);
        *form = other;
        found = true;
    }
    return found;
}

/* --- which elements stay when weights are pruned --- */

void tn__magnitudes_count(tn__magnitudes *found, uint32_t pass, const float *values,
                          uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits = tn__magnitude(values[i]);
        if (pass == 0)
            found->bins[bits >> 16]++;
        else if (bits >> 16 == found->high)
            found->bins[bits & 0xffffu]++;
    }
}

void tn__magnitudes_end(tn__magnitudes *found, uint32_t pass, uint64_t kept) {
    uint32_t bin = TN__MAGNITUDE_BINS - 1;
    uint64_t left = pass == 0 ? kept : found->ties;
    while (bin > 0 && found->bins[bin] < left) left -= found->bins[bin--];
    if (pass == 0)
        found->high = bin;
    else
        found->threshold = found->high << 16 | bin;
    found->ties = left;
}

void tn__magnitudes_find(tn__magnitudes *found, const float *values, uint64_t count,
                         uint64_t kept) {
    for (uint32_t pass = 0; pass < 2; pass++) {
        memset(found->bins, 0, sizeof found->bins);
        tn__magnitudes_count(found, pass, values, count);
        tn__magnitudes_end(found, pass, kept);
    }
}
