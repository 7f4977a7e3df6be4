/* apart.h - how far apart two trainings are; for tests whose `trained` has losses[STEPS],
 * parameters, counts and values. */
/* How far apart, as a share of the loss, and of the largest element of each parameter; or of a
 * hundredth of the largest of all, where a parameter is smaller. */
static double apart(const trained *a, const trained *b) {
    double worst = 0, largest = 0;
    assert_int_equal(a->parameters, b->parameters);
    for (uint32_t i = 0; i < a->parameters; i++)
        for (uint64_t k = 0; k < a->counts[i]; k++)
            largest = fmax(largest, fabs((double)a->values[i][k]));
    for (uint32_t s = 0; s < STEPS; s++) {
        if (!isfinite(a->losses[s]) || !isfinite(b->losses[s])) return INFINITY;
        worst = fmax(worst, fabs(a->losses[s] - b->losses[s]) / fabs(a->losses[s]));
    }
    for (uint32_t i = 0; i < a->parameters; i++) {
        double most = largest / 100, far = 0;
        assert_int_equal(a->counts[i], b->counts[i]);
        for (uint64_t k = 0; k < a->counts[i]; k++) {
            if (!isfinite((double)b->values[i][k])) return INFINITY;
            most = fmax(most, fabs((double)a->values[i][k]));
            far = fmax(far, fabs((double)a->values[i][k] - (double)b->values[i][k]));
        }
        worst = fmax(worst, far / most);
    }
    return worst;
}
