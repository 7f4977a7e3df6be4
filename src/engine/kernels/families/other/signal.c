/* signal.c - operators of signal processing: DFT, STFT, MelWeightMatrix.
 *
 * A line is copied to scratch memory as complex numbers in double precision, transformed there, and
 * written to the output.
 * Scratch memory: one line, and the tables of its transform, for the longest line that the shapes
 * of the graph allow.
 * Source: the ONNX specifications, opset 17 (opset 20 for DFT with the axis as an input).
 */
#include <math.h>

#include "base/base.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"

/* --- discrete Fourier transforms of any length, in memory that the caller provides ---
 *
 * The forward transform has no factor. The inverse transform is computed by the forward one: real
 * and imaginary parts are exchanged before and after it, and the result is divided by the length. A
 * length that is a power of two uses radix 2 with decimation in time. For any other length, the
 * identity jk = (j^2 + k^2 - (k-j)^2)/2 turns the sum into a convolution with a chirp. Two
 * transforms compute the convolution; their length is a power of two of at least twice the length.
 * All numbers are in double precision; each angle is computed directly, so that errors do not
 * accumulate.
 * Cost: O(n log n).
 * Source: Cooley, Tukey 1965; Bluestein 1970.
 */

#define SPECTRUM_MAX (UINT64_C(1) << 40)

typedef struct signal_spectrum {
    uint64_t length, size; /* `size`: length of the transforms that are computed, a power of two */
    double *turns;         /* table of size / 2 complex numbers: e^(-2 pi i k / size) for each k */
    /* `length` complex numbers: e^(-pi i k^2 / length); NULL: `length` is a power of two */
    double *chirp;
    double *filter, *work; /* two arrays of `size` complex numbers each */
} signal_spectrum;

#define SPECTRUM_PI 3.14159265358979323846

static uint64_t spectrum_power(uint64_t least) {
    uint64_t power = 1;
    while (power < least) power *= 2;
    return power;
}

/* Returns the number of doubles of scratch memory for a transform; UINT64_MAX for a length above
 * SPECTRUM_MAX. A longer transform never needs less. */
static uint64_t spectrum_scratch(uint64_t length) {
    if (length > SPECTRUM_MAX) return UINT64_MAX;
    return 2 * length + 5 * spectrum_power(2 * length);
}

/* --- transforms whose length is a power of two --- */

static void spectrum_exchange(double *line, uint64_t size) {
    /* in each turn, j has the bits of i in reverse order */
    for (uint64_t i = 1, j = 0; i < size; i++) {
        uint64_t bit = size / 2;
        for (; (j & bit) != 0; bit /= 2) j ^= bit;
        j |= bit;
        if (i >= j) continue;
        for (uint64_t part = 0; part < 2; part++) {
            double value = line[2 * i + part];
            line[2 * i + part] = line[2 * j + part];
            line[2 * j + part] = value;
        }
    }
}

static void spectrum_power_run(const signal_spectrum *spectrum, double *line) {
    uint64_t size = spectrum->size;
    spectrum_exchange(line, size);
    for (uint64_t half = 1; half < size; half *= 2)
        for (uint64_t first = 0; first < size; first += 2 * half)
            for (uint64_t k = 0; k < half; k++) {
                const double *turn = spectrum->turns + 2 * (k * (size / 2 / half));
                double *low = line + 2 * (first + k), *high = low + 2 * half;
                double real = high[0] * turn[0] - high[1] * turn[1];
                double imaginary = high[0] * turn[1] + high[1] * turn[0];
                high[0] = low[0] - real;
                high[1] = low[1] - imaginary;
                low[0] += real;
                low[1] += imaginary;
            }
}

/* --- transforms of any length, and the operator DFT --- */

static void spectrum_plan(signal_spectrum *spectrum, uint64_t length, double *scratch) {
    bool even = length > 0 && tn__is_power_of_two(length);
    uint64_t size = even ? length : spectrum_power(2 * length);
    *spectrum = (signal_spectrum){.length = length, .size = size, .turns = scratch};
    for (uint64_t k = 0; k < size / 2; k++) {
        double angle = -2 * SPECTRUM_PI * (double)k / (double)size;
        spectrum->turns[2 * k] = cos(angle);
        spectrum->turns[2 * k + 1] = sin(angle);
    }
    if (even) return;
    spectrum->filter = scratch + size;
    spectrum->work = spectrum->filter + 2 * size;
    spectrum->chirp = spectrum->work + 2 * size;
    memset(spectrum->filter, 0, 2 * size * sizeof *spectrum->filter);
    uint64_t square = 0; /* k^2 modulo 2 * length, the period of the chirp */
    for (uint64_t k = 0; k < length; k++) {
        double angle = -SPECTRUM_PI * (double)square / (double)length;
        double real = cos(angle), imaginary = sin(angle);
        uint64_t mirror = k > 0 ? size - k : 0;
        spectrum->chirp[2 * k] = real;
        spectrum->chirp[2 * k + 1] = imaginary;
        spectrum->filter[2 * k] = spectrum->filter[2 * mirror] = real;
        spectrum->filter[2 * k + 1] = spectrum->filter[2 * mirror + 1] = -imaginary;
        square = (square + 2 * k + 1) % (2 * length);
    }
    spectrum_power_run(spectrum, spectrum->filter);
}

static void spectrum_multiply(const double *a, const double *b, double *to) {
    double real = a[0] * b[0] - a[1] * b[1];
    to[1] = a[0] * b[1] + a[1] * b[0];
    to[0] = real;
}

static void spectrum_run(const signal_spectrum *spectrum, double *line) {
    double *work = spectrum->work;
    uint64_t size = spectrum->size;
    if (spectrum->chirp == NULL) {
        spectrum_power_run(spectrum, line);
        return;
    }
    memset(work, 0, 2 * size * sizeof *work);
    for (uint64_t k = 0; k < spectrum->length; k++)
        spectrum_multiply(line + 2 * k, spectrum->chirp + 2 * k, work + 2 * k);
    spectrum_power_run(spectrum, work);
    /* conjugate the product, so that the inverse transform can be computed by the forward one */
    for (uint64_t k = 0; k < size; k++) {
        spectrum_multiply(work + 2 * k, spectrum->filter + 2 * k, work + 2 * k);
        work[2 * k + 1] = -work[2 * k + 1];
    }
    spectrum_power_run(spectrum, work);
    for (uint64_t k = 0; k < spectrum->length; k++) {
        const double back[2] = {work[2 * k] / (double)size, -work[2 * k + 1] / (double)size};
        spectrum_multiply(back, spectrum->chirp + 2 * k, line + 2 * k);
    }
}

/* Returns the scratch bytes for lines of `length` numbers. */
static uint64_t signal_scratch(uint64_t length) {
    uint64_t doubles = spectrum_scratch(length);
    return tn__mul_sat(tn__add_sat(doubles, tn__mul_sat(2, length)), sizeof(double));
}

/* Divides the scratch memory into a line and the tables of its transform, and computes the
 * tables. */
static tn_status signal_plan(const tn_kernel_call *call, uint64_t length, signal_spectrum *spectrum,
                             double **line) {
    if (length < 1) return tn__call_fail(call, TN_E_INVALID, "the length is below 1");
    TN_TRY(tn__check_scratch(call, signal_scratch(length)));
    *line = call->workspace;
    spectrum_plan(spectrum, length, *line + 2 * length);
    return TN_OK;
}

static tn_status signal_scalar(const tn_kernel_call *call, uint32_t index, int64_t *value) {
    const tn_operand *operand = tn__call_input(call, index);
    TN_TRY(tn__check_count(call, index, 1));
    if (operand != NULL) *value = tn__operand_int(operand, 0);
    return TN_OK;
}

/* --- DFT --- */

typedef struct signal_dft {
    const tn_operand *x, *y;
    /* lengths of a line of the input, of its transform and of the output, in numbers */
    uint64_t given, length, result;
    uint64_t outer, inner, parts_in, parts_out;
    /* `mirrored`: the input is the first half of a symmetric spectrum, and the output is real */
    bool inverse, mirrored;
} signal_dft;

static tn_status signal_dft_read(tn_kernel_call *call, signal_dft *job) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    bool late = call->version >= 20, onesided = tn__attr_int(call->op, "onesided", 0) != 0;
    int64_t axis_given = late ? -2 : tn__attr_int(call->op, "axis", 1), shape[TN_RANK_MAX], length;
    uint32_t axis;
    if (x->rank < 2) return tn__call_fail(call, TN_E_INVALID, "the input has rank %u", x->rank);
    if (late) TN_TRY(signal_scalar(call, 2, &axis_given));
    TN_TRY(tn__call_axis(call, axis_given, x->rank, &axis));
    int64_t parts = x->shape[x->rank - 1];
    if (axis == x->rank - 1 || parts < 1 || parts > 2)
        return tn__call_fail(call, TN_E_INVALID, "axis %u of rank %u, %lld parts of a number", axis,
                             x->rank, (long long)parts);
    *job = (signal_dft){.x = x,
                        .y = y,
                        .given = (uint64_t)x->shape[axis],
                        .outer = tn__operand_span(x, 0, axis),
                        .inner = tn__operand_span(x, axis + 1, x->rank - 1),
                        .parts_in = (uint64_t)parts,
                        .inverse = tn__attr_int(call->op, "inverse", 0) != 0};
    job->mirrored = job->inverse && onesided;
    length = x->shape[axis];
    if (job->mirrored) length = length > 0 && length < INT64_MAX / 2 ? 2 * (length - 1) : 0;
    TN_TRY(signal_scalar(call, 1, &length));
    if (length < 0 || length > (int64_t)SPECTRUM_MAX)
        return tn__call_fail(call, TN_E_INVALID, "a length of %lld", (long long)length);
    job->length = (uint64_t)length;
    job->result = onesided && !job->inverse ? job->length / 2 + 1 : job->length;
    job->parts_out = job->mirrored ? 1 : 2;
    for (uint32_t d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    shape[axis] = (int64_t)job->result;
    shape[x->rank - 1] = (int64_t)job->parts_out;
    return tn__check_result(call, 0, x->rank, shape);
}

/* Loads a line that begins at element `first` as complex numbers, and fills it up with zeros. For
 * the inverse transform, real and imaginary parts are exchanged. */
static void signal_dft_load(const signal_dft *job, uint64_t first, double *line) {
    uint64_t half = job->length / 2 + 1,
             count = job->given < job->length ? job->given : job->length;
    memset(line, 0, 2 * job->length * sizeof *line);
    for (uint64_t k = 0; k < count; k++) {
        uint64_t from = (first + k * job->inner) * job->parts_in;
        for (uint64_t part = 0; part < job->parts_in; part++)
            line[2 * k + (part ^ job->inverse)] = tn__real_get(job->x, from + part);
    }
    for (uint64_t k = 1; k < half && job->mirrored && k < job->length - k; k++) {
        /* the conjugate, with real and imaginary part exchanged */
        line[2 * (job->length - k) + 1] = line[2 * k + 1];
        line[2 * (job->length - k)] = -line[2 * k];
    }
}

static void signal_dft_store(const signal_dft *job, uint64_t first, const double *line) {
    double factor = job->inverse ? 1 / (double)job->length : 1;
    for (uint64_t k = 0; k < job->result; k++)
        for (uint64_t part = 0; part < job->parts_out; part++)
            tn__real_set(job->y, (first + k * job->inner) * job->parts_out + part,
                         line[2 * k + (part ^ job->inverse)] * factor);
}

static tn_status signal_run_dft(tn_kernel_call *call) {
    signal_dft job = {0};
    signal_spectrum spectrum;
    double *line = NULL;
    TN_TRY(signal_dft_read(call, &job));
    if (tn__operand_count(job.y) == 0) return TN_OK;
    TN_TRY(signal_plan(call, job.length, &spectrum, &line));
    for (uint64_t i = 0; i < job.outer * job.inner; i++) {
        uint64_t outer = i / job.inner, inner = i % job.inner;
        signal_dft_load(&job, outer * job.given * job.inner + inner, line);
        spectrum_run(&spectrum, line);
        signal_dft_store(&job, outer * job.result * job.inner + inner, line);
    }
    return TN_OK;
}

static uint64_t signal_workspace_dft(const tn_kernel_setup *setup) {
    const tn_tensor *y = tn__setup_output(setup, 0);
    int64_t axis = tn__attr_int(setup->op, "axis", 1);
    uint64_t length = 0, rank = y->rank;
    if (axis < 0) axis += (int64_t)rank;
    /* from opset 20 on, the axis may be known only during the run: take the longest one */
    for (uint32_t d = 0; d + 1 < rank; d++)
        if (y->shape[d] > 0 && (setup->version >= 20 || d == axis) &&
            (uint64_t)y->shape[d] > length)
            length = (uint64_t)y->shape[d];
    if (tn__attr_int(setup->op, "onesided", 0) != 0 && tn__attr_int(setup->op, "inverse", 0) == 0)
        length = tn__mul_sat(2, length);
    return signal_scratch(length);
}

static bool signal_accepts_dft(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0) &&
           tn__input_may_be(setup, 1, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 2, TN__TYPES_INDEX);
}

/* --- STFT --- */

static void signal_frame(const tn_kernel_call *call, uint64_t first, uint64_t parts,
                         uint64_t length, double *line) {
    const tn_operand *x = &call->inputs[0], *window = tn__call_input(call, 2);
    for (uint64_t k = 0; k < length; k++) {
        double weight = window != NULL ? tn__real_get(window, k) : 1;
        line[2 * k] = weight * tn__real_get(x, (first + k) * parts);
        line[2 * k + 1] = parts == 2 ? weight * tn__real_get(x, (first + k) * parts + 1) : 0;
    }
}

static tn_status signal_run_stft(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    const tn_operand *window = tn__call_input(call, 2);
    int64_t step = 1, length = window != NULL && window->rank == 1 ? window->shape[0] : 0;
    signal_spectrum spectrum;
    double *line = NULL;
    TN_TRY(signal_scalar(call, 1, &step));
    TN_TRY(signal_scalar(call, 3, &length));
    bool flat = x->rank == 2;
    int64_t parts = flat ? 1 : x->rank == 3 ? x->shape[2] : 0;
    if (parts < 1 || parts > 2 || step < 1 || length < 1 || length > x->shape[1])
        return tn__call_fail(call, TN_E_INVALID,
                             "frames of %lld every %lld do not fit the signal's shape",
                             (long long)length, (long long)step);
    int64_t bins = tn__attr_int(call->op, "onesided", 1) != 0 ? length / 2 + 1 : length;
    int64_t frames = (x->shape[1] - length) / step + 1;
    const int64_t shape[] = {x->shape[0], frames, bins, 2};
    TN_TRY(tn__check_result(call, 0, 4, shape));
    TN_TRY(tn__check_count(call, 2, (uint64_t)length));
    TN_TRY(signal_plan(call, (uint64_t)length, &spectrum, &line));
    for (uint64_t i = 0; i < (uint64_t)(x->shape[0] * frames); i++) {
        uint64_t batch = i / (uint64_t)frames, frame = i % (uint64_t)frames;
        signal_frame(call, batch * (uint64_t)x->shape[1] + frame * (uint64_t)step, (uint64_t)parts,
                     (uint64_t)length, line);
        spectrum_run(&spectrum, line);
        for (uint64_t k = 0; k < 2 * (uint64_t)bins; k += TN__REAL_TILE) {
            uint64_t left = 2 * (uint64_t)bins - k;
            tn__real_store(y, i * 2 * (uint64_t)bins + k,
                           left < TN__REAL_TILE ? left : TN__REAL_TILE, line + k);
        }
    }
    return TN_OK;
}

static uint64_t signal_workspace_stft(const tn_kernel_setup *setup) {
    const tn_tensor *y = tn__setup_output(setup, 0);
    if (y->rank != 4 || y->shape[2] < 0) return 0;
    return signal_scratch(tn__mul_sat(2, (uint64_t)y->shape[2]));
}

static bool signal_accepts_stft(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 5, 0) &&
           tn__input_is(setup, 1, TN__TYPES_INDEX) && tn__input_may_be(setup, 3, TN__TYPES_INDEX);
}

/* --- MelWeightMatrix --- */

typedef struct signal_mel {
    double low, step; /* distance of the band edges from 0 and from each other, on the mel scale */
    double length, rate;
} signal_mel;

/* Returns the bin of the spectrum in which edge number `edge` of the bands is. */
static double signal_mel_bin(const signal_mel *mel, int64_t edge) {
    double hertz = 700 * (pow(10, ((double)edge * mel->step + mel->low) / 2595) - 1);
    return floor((mel->length + 1) * hertz / mel->rate);
}

/* Returns the weight of a bin in a band: a triangle that rises from 0 at `low` to 1 at `center` and
 * falls to 0 at `high`. */
static double signal_mel_weight(double bin, double low, double center, double high) {
    if (bin == center) return 1;
    if (bin >= low && bin < center) return (bin - low) / (center - low);
    return bin > center && bin < high ? (high - bin) / (high - center) : 0;
}

static tn_status signal_run_mel(tn_kernel_call *call) {
    const tn_operand *in = call->inputs, *y = &call->outputs[0];
    for (uint32_t i = 0; i < 5; i++) TN_TRY(tn__check_count(call, i, 1));
    int64_t bands = tn__operand_int(&in[0], 0), length = tn__operand_int(&in[1], 0);
    const int64_t shape[] = {length / 2 + 1, bands};
    TN_TRY(tn__check_result(call, 0, 2, shape));
    double high = 2595 * log10(1 + tn__operand_float(&in[4], 0) / 700);
    signal_mel mel = {.low = 2595 * log10(1 + tn__operand_float(&in[3], 0) / 700),
                      .length = (double)length,
                      .rate = (double)tn__operand_int(&in[2], 0)};
    mel.step = (high - mel.low) / ((double)bands + 2);
    for (int64_t band = 0; band < bands; band++) {
        double low = signal_mel_bin(&mel, band), center = signal_mel_bin(&mel, band + 1);
        double end = signal_mel_bin(&mel, band + 2);
        for (int64_t bin = 0; bin < shape[0]; bin++)
            tn__store(y->dtype,
                      (char *)y->data + (uint64_t)(bin * bands + band) * tn__width(y->dtype),
                      signal_mel_weight((double)bin, low, center, end));
    }
    return TN_OK;
}

static bool signal_accepts_mel(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < 5; i++)
        if (!tn__input_is(setup, i, i < 3 ? TN__TYPES_INDEX : TN__TYPES_REAL)) return false;
    return tn__is_number(tn__output_type(setup, 0));
}

static const tn_kernel signal_kernels[] = {
    {.type = "DFT",
     .accepts = signal_accepts_dft,
     .workspace = signal_workspace_dft,
     .run = signal_run_dft},
    {.type = "MelWeightMatrix", .accepts = signal_accepts_mel, .run = signal_run_mel},
    {.type = "STFT",
     .accepts = signal_accepts_stft,
     .workspace = signal_workspace_stft,
     .run = signal_run_stft},
};

TN_KERNEL_FAMILY(signal, "");
