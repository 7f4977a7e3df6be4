/* linear_loops.h - the loops of linear attention for one element type. linear.c includes this file
 * once per type, after it has defined LINEAR(name), LINEAR_TYPE and LINEAR_EXP.
 */

/* Returns the elements of operand `i` for one token and head; NULL: there is no such operand. */
static inline LINEAR_TYPE *LINEAR(at)(const linear_frame *it, void *const *operands, uint32_t i,
                                      uint64_t token, uint64_t head) {
    LINEAR_TYPE *first = operands[i];
    return first == NULL ? NULL : first + token * it->row[i] + head * it->step[i];
}

/* --- products with a state --- */

/* state += factor * left right^T */
static inline void LINEAR(add)(const linear_frame *it, const LINEAR_TYPE *left,
                               const LINEAR_TYPE *right, LINEAR_TYPE factor, LINEAR_TYPE *state) {
    for (uint64_t d = 0; d < it->size; d++) {
        const LINEAR_TYPE by = factor * left[d];
        for (uint64_t e = 0; e < it->value_size; e++)
            state[d * it->value_size + e] += by * right[e];
    }
}

/* y = factor * state^T left */
static inline void LINEAR(read)(const linear_frame *it, const LINEAR_TYPE *state,
                                const LINEAR_TYPE *left, LINEAR_TYPE factor, LINEAR_TYPE *y) {
    for (uint64_t e = 0; e < it->value_size; e++) y[e] = 0;
    for (uint64_t d = 0; d < it->size; d++)
        for (uint64_t e = 0; e < it->value_size; e++)
            y[e] += state[d * it->value_size + e] * left[d];
    for (uint64_t e = 0; e < it->value_size; e++) y[e] *= factor;
}

static inline LINEAR_TYPE LINEAR(dot)(uint64_t count, const LINEAR_TYPE *a, const LINEAR_TYPE *b) {
    LINEAR_TYPE sum = 0;
    for (uint64_t e = 0; e < count; e++) sum += a[e] * b[e];
    return sum;
}

/* y += factor * state right */
static inline void LINEAR(along)(const linear_frame *it, const LINEAR_TYPE *state,
                                 const LINEAR_TYPE *right, LINEAR_TYPE factor, LINEAR_TYPE *y) {
    for (uint64_t d = 0; d < it->size; d++)
        y[d] += factor * LINEAR(dot)(it->value_size, state + d * it->value_size, right);
}

/* --- a token --- */

static inline void LINEAR(decay)(const linear_frame *it, const LINEAR_TYPE *decay,
                                 LINEAR_TYPE *state) {
    for (uint64_t d = 0; d < it->size && decay != NULL; d++) {
        const LINEAR_TYPE factor = LINEAR_EXP(decay[it->step[4] == it->size ? d : 0]);
        for (uint64_t e = 0; e < it->value_size; e++) state[d * it->value_size + e] *= factor;
    }
}

/* u = v, or v - S'^T k with a delta rule */
static inline void LINEAR(rest)(const linear_frame *it, uint64_t token, uint64_t head,
                                const LINEAR_TYPE *state, LINEAR_TYPE *u) {
    const LINEAR_TYPE *key = LINEAR(at)(it, it->in, 1, token, head),
                      *value = LINEAR(at)(it, it->in, 2, token, head);
    if (it->in[5] != NULL) LINEAR(read)(it, state, key, 1, u);
    for (uint64_t e = 0; e < it->value_size; e++)
        u[e] = it->in[5] != NULL ? value[e] - u[e] : value[e];
}

/* Adds a token to a state that has decayed. */
static inline void LINEAR(update)(const linear_frame *it, uint64_t token, uint64_t head,
                                  LINEAR_TYPE *state) {
    const LINEAR_TYPE *beta = LINEAR(at)(it, it->in, 5, token, head);
    LINEAR_TYPE *u = it->work;
    LINEAR(rest)(it, token, head, state, u);
    LINEAR(add)(it, LINEAR(at)(it, it->in, 1, token, head), u, beta != NULL ? *beta : 1, state);
}

static inline void LINEAR(forward)(const linear_frame *it, uint64_t token, uint64_t head,
                                   LINEAR_TYPE *state) {
    LINEAR(decay)(it, LINEAR(at)(it, it->in, 4, token, head), state);
    LINEAR(update)(it, token, head, state);
    for (uint64_t r = 0; r < it->readers && it->y != NULL; r++) {
        uint64_t out = head * it->readers + r;
        LINEAR(read)
        (it, state, LINEAR(at)(it, it->in, 0, token, out / it->shared), (LINEAR_TYPE)it->scale,
         (LINEAR_TYPE *)it->y + (token * it->most + out) * it->value_size);
    }
}

/* Goes back through one token. `state` is S', `ds` the gradient of S" at first and that of S at
 * last. */
static void LINEAR(backward)(const linear_frame *it, uint64_t token, uint64_t head,
                             const LINEAR_TYPE *state, LINEAR_TYPE *ds) {
    const LINEAR_TYPE *key = LINEAR(at)(it, it->in, 1, token, head),
                      *decay = LINEAR(at)(it, it->in, 4, token, head),
                      *beta = LINEAR(at)(it, it->in, 5, token, head);
    LINEAR_TYPE *dkey = LINEAR(at)(it, it->out, 1, token, head),
                *dvalue = LINEAR(at)(it, it->out, 2, token, head),
                *ddecay = LINEAR(at)(it, it->out, 4, token, head),
                *dbeta = LINEAR(at)(it, it->out, 5, token, head);
    LINEAR_TYPE *rest = it->work, *du = rest + it->value_size;
    const LINEAR_TYPE rate = beta != NULL ? *beta : 1, scale = (LINEAR_TYPE)it->scale;
    LINEAR(rest)(it, token, head, state, rest);
    for (uint64_t r = 0; r < it->readers && it->dy != NULL; r++) {
        const uint64_t out = head * it->readers + r;
        const LINEAR_TYPE *dy =
            (const LINEAR_TYPE *)it->dy + (token * it->most + out) * it->value_size;
        LINEAR_TYPE *dquery = LINEAR(at)(it, it->out, 0, token, out / it->shared);
        /* y = scale (S' + rate k rest^T)^T q */
        const LINEAR_TYPE part = scale * rate * LINEAR(dot)(it->value_size, rest, dy);
        if (dquery != NULL) LINEAR(along)(it, state, dy, scale, dquery);
        for (uint64_t d = 0; d < it->size && dquery != NULL; d++) dquery[d] += part * key[d];
        LINEAR(add)(it, LINEAR(at)(it, it->in, 0, token, out / it->shared), dy, scale, ds);
    }
    LINEAR(read)(it, ds, key, 1, du);
    if (dkey != NULL) LINEAR(along)(it, ds, rest, rate, dkey);
    if (dbeta != NULL) *dbeta += LINEAR(dot)(it->value_size, du, rest);
    for (uint64_t e = 0; e < it->value_size; e++) du[e] *= rate;
    for (uint64_t e = 0; e < it->value_size && dvalue != NULL; e++) dvalue[e] += du[e];
    if (beta != NULL && dkey != NULL) LINEAR(along)(it, state, du, -1, dkey);
    if (beta != NULL) LINEAR(add)(it, key, du, -1, ds);
    for (uint64_t d = 0; d < it->size && ddecay != NULL; d++)
        ddecay[it->step[4] == it->size ? d : 0] +=
            LINEAR(dot)(it->value_size, ds + d * it->value_size, state + d * it->value_size);
    LINEAR(decay)(it, decay, ds);
}

/* --- a sequence --- */

static void LINEAR(sequence)(const linear_frame *it, uint64_t first, uint64_t head, void *state) {
    for (uint64_t t = 0; t < it->length; t++) LINEAR(forward)(it, first + t, head, state);
}

/* Goes back through the sequence that begins with token `first`. `past`: the state before it, or
 * NULL; `ds`: the gradient of the last state at first, and that of `past` at last. */
static void LINEAR(sequence_back)(const linear_frame *it, uint64_t first, uint64_t head,
                                  const void *past, LINEAR_TYPE *ds) {
    const uint64_t each = it->size * it->value_size, runs = it->runs, length = it->run_length;
    LINEAR_TYPE *kept = (LINEAR_TYPE *)it->work + 2 * it->value_size;
    LINEAR_TYPE *states = kept + runs * each;
    if (past != NULL)
        memcpy(kept, past, each * sizeof *kept);
    else
        memset(kept, 0, each * sizeof *kept);
    for (uint64_t run = 1; run < runs; run++) {
        LINEAR_TYPE *state = kept + run * each;
        memcpy(state, state - each, each * sizeof *state);
        for (uint64_t t = (run - 1) * length; t < run * length; t++)
            LINEAR(forward)(it, first + t, head, state);
    }
    for (uint64_t run = runs; run-- > 0;) {
        const uint64_t begin = run * length;
        const uint64_t count = it->length - begin < length ? it->length - begin : length;
        LINEAR_TYPE *state = kept + run * each;
        for (uint64_t t = 0; t < count; t++) {
            LINEAR(decay)(it, LINEAR(at)(it, it->in, 4, first + begin + t, head), state);
            memcpy(states + t * each, state, each * sizeof *state);
            LINEAR(update)(it, first + begin + t, head, state);
        }
        for (uint64_t t = count; t-- > 0;)
            LINEAR(backward)(it, first + begin + t, head, states + t * each, ds);
    }
}

#undef LINEAR
#undef LINEAR_TYPE
#undef LINEAR_EXP
