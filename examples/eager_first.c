/* eager_first.c - a network whose depth depends on its input, trained without a graph. */
#define TENURE_EXPERIMENTAL
#include <stdio.h>

#include <tenure/tenure.h>

static tn_eager *eager;
static tn_error error;

static int fail(void) { return fprintf(stderr, "%s: %s\n", error.where, error.message), 2; }

static tn_status put(tn_kind kind, int64_t rows, int64_t columns, const float *numbers,
                     tn_handle *handle) {
    const tn_eager_data data = {.dtype = TN_FLOAT32,
                                .kind = kind,
                                .rank = 2,
                                .shape = (int64_t[]){rows, columns},
                                .data = numbers};
    return tn_eager_put(eager, &data, handle, &error);
}

/* out = type(a, b); `a` is deleted unless it is `keep`. */
static tn_status apply(const char *type, const char *domain, tn_handle a, tn_handle b,
                       tn_handle keep, tn_handle *out) {
    const tn_handle inputs[] = {a, b};
    const tn_eager_call call = {.type = type,
                                .domain = domain,
                                .inputs = inputs,
                                .input_count = b != TN_HANDLE_NONE ? 2 : 1,
                                .output_count = 1};
    tn_status status = tn_eager_apply(eager, &call, out, &error);
    return status == TN_OK && a != keep ? tn_eager_del(eager, a, &error) : status;
}

int main(void) {
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    tn_eager_optimizer *optimizer;
    tn_eager_optimizer_options sgd = TN_EAGER_OPTIMIZER_OPTIONS_INIT;
    tn_handle weights, x, y, at, gradient;
    float start[64], in[8], out[8] = {0.5f, 0, 0.5f, 0, 0.5f, 0, 0.5f, 0}, loss;
    for (int i = 0; i < 64; i++) start[i] = (float)(i * 37 % 64) / 64 - 0.5f;
    sgd.optimizer = TN_OPTIMIZER_SGD;
    options.budget = 12 << 10; /* bytes, for all of it */
    if (tn_eager_create(&options, &eager, &error) ||
        put(TN_KIND_PARAMETER, 8, 8, start, &weights) ||
        tn_eager_optimizer_create(eager, &sgd, &weights, 1, &optimizer, &error))
        return fail();
    for (int step = 0; step < 200; step++) {
        int depth = 2 + step % 5;
        for (int i = 0; i < 8; i++) in[i] = (float)(i == depth) - 0.3f;
        if (put(TN_KIND_INPUT, 1, 8, in, &x) || put(TN_KIND_INPUT, 1, 8, out, &y)) return fail();
        at = x;
        for (int layer = 0; layer < depth; layer++)
            if (apply("MatMul", "", at, weights, TN_HANDLE_NONE, &at) ||
                apply("Tanh", "", at, TN_HANDLE_NONE, TN_HANDLE_NONE, &at))
                return fail();
        if (apply("MeanSquared", "tenure", at, y, TN_HANDLE_NONE, &at) ||
            tn_eager_backward(eager, at, &weights, 1, &gradient, &error) ||
            tn_eager_optimizer_step(optimizer, &gradient, 0.5, &error) ||
            tn_eager_get(eager, at, &loss, sizeof loss, &error) ||
            tn_eager_del(eager, at, &error) || tn_eager_del(eager, y, &error))
            return fail();
        if (step % 50 == 0 || step == 199) printf("step %d: loss %g\n", step, loss);
    }
    tn_eager_optimizer_destroy(optimizer);
    tn_eager_destroy(eager);
    return loss < 0.1f ? 0 : 1;
}
