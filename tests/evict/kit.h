/* kit.h - random commands on the core over real memory, and a plain interpreter beside it that
 * keeps everything. What the core's hooks compute depends on every operand's first word, so that a
 * value made from the wrong bytes is not the plain one.
 */
#ifndef TN_TESTS_EVICT_KIT_H
#define TN_TESTS_EVICT_KIT_H

#include "support.h"

#include "memory/evict/evict.h"

#define KIT_WORDS_MAX 40u
#define KIT_LIVE_MAX 96u
#define KIT_POISON 0xdeadbeefdeadbeefu

typedef struct kit_bytes { /* of a storage, plainly */
    uint64_t words[KIT_WORDS_MAX];
    uint32_t count, refs;
} kit_bytes;

typedef struct kit_what { /* an operator's description, owned by the core until it is forgotten */
    uint64_t seed;
    uint32_t output_count;
    uint32_t words[3]; /* of each result */
    uint32_t skip[3];  /* first word that is written, of an overwritten one */
    bool is_view[3];
} kit_what;

typedef struct kit_value {  /* what a caller holds */
    uint32_t tensor, shift; /* words */
    kit_bytes *bytes;
    bool is_lost;
    uint32_t locks;
} kit_value;

typedef struct kit {
    tn__evict *evict;
    uint64_t *memory, budget;
    tn__random random;
    uint64_t whats, copies; /* not yet given back */
    uint64_t copied_words;
    kit_value live[KIT_LIVE_MAX];
    uint32_t live_count;
    uint64_t applied, exhausted, failed, wants, overwrites;
    bool may_fail; /* hooks that compute and copy, now and then */
    const char *fault;
} kit;

static inline uint64_t kit_mix(uint64_t a, uint64_t b) {
    tn__random random = {a ^ (b * 0x9e3779b97f4a7c15u)};
    return tn__random_next(&random);
}
static inline uint64_t kit_word(uint64_t seed, const uint64_t *firsts, uint32_t count,
                                uint32_t at) {
    for (uint32_t i = 0; i < count; i++) seed = kit_mix(seed, firsts[i]);
    return kit_mix(seed, at);
}

/* Now and then, where hooks may fail. */
static inline bool kit_fails(kit *k) {
    if (!k->may_fail || tn__random_below(&k->random, 200) != 0) return false;
    k->failed++;
    return true;
}

static inline tn_status kit_compute(void *self, const tn__evict_run *run, uint64_t *cost,
                                    tn_error *error) {
    kit *k = self;
    const kit_what *what = run->what;
    uint64_t firsts[4];
    (void)cost;
    if (kit_fails(k)) return tn__fail(error, TN_E_UNSUPPORTED, "on purpose");
    for (uint32_t i = 0; i < run->input_count; i++) firsts[i] = k->memory[run->input_at[i] / 8];
    for (uint64_t i = 0; i < run->scratch_bytes / 8; i++) k->memory[run->scratch_at / 8 + i] = i;
    for (uint32_t o = 0; o < run->output_count; o++)
        for (uint32_t w = 0; !what->is_view[o] && w < what->words[o]; w++)
            k->memory[run->output_at[o] / 8 + w] =
                kit_word(what->seed + o, firsts, run->input_count, w);
    return TN_OK;
}
static inline void kit_move(void *self, uint64_t from, uint64_t to, uint64_t bytes) {
    kit *k = self;
    memmove(k->memory + to / 8, k->memory + from / 8, bytes);
}
static inline tn_status kit_copy_out(void *self, uint64_t at, uint64_t bytes, uint64_t *host,
                                     tn_error *error) {
    kit *k = self;
    if (kit_fails(k)) return tn__fail(error, TN_E_UNSUPPORTED, "on purpose");
    void *copy = malloc(bytes + 1);
    if (copy == NULL) return tn__no_memory(error, "a copy");
    memcpy(copy, k->memory + at / 8, bytes);
    *host = (uint64_t)(uintptr_t)copy;
    k->copies++;
    return TN_OK;
}
static inline tn_status kit_copy_in(void *self, uint64_t host, uint64_t at, uint64_t bytes,
                                    tn_error *error) {
    kit *k = self;
    if (kit_fails(k)) return tn__fail(error, TN_E_UNSUPPORTED, "on purpose");
    memcpy(k->memory + at / 8, (void *)(uintptr_t)host, bytes);
    return TN_OK;
}
static inline void kit_forget_copy(void *self, uint64_t host, uint64_t bytes) {
    kit *k = self;
    (void)bytes;
    free((void *)(uintptr_t)host);
    k->copies--;
}
static inline void kit_poison(void *self, uint64_t at, uint64_t bytes) {
    kit *k = self;
    for (uint64_t i = 0; i < bytes / 8; i++) k->memory[at / 8 + i] = KIT_POISON;
}
static inline void kit_forget(void *self, void *what) {
    kit *k = self;
    free(what);
    k->whats--;
}

static inline tn_status kit_open(kit *k, const tn_context *context, const char *policy,
                                 uint64_t budget, uint64_t seed, tn_error *error) {
    memset(k, 0, sizeof *k);
    k->random.state = seed;
    k->budget = budget;
    k->memory = calloc(budget / 8 + 1, 8);
    tn__evict_options options = {.context = context,
                                 .policy = policy,
                                 .budget = budget,
                                 .addresses = true,
                                 .seed = seed,
                                 .sample = (seed & 1) != 0,
                                 .link_bytes_per_s = 1000000000,
                                 .hooks = {.self = k,
                                           .compute = kit_compute,
                                           .move = kit_move,
                                           .copy_out = kit_copy_out,
                                           .copy_in = kit_copy_in,
                                           .forget_copy = kit_forget_copy,
                                           .poison = kit_poison,
                                           .forget = kit_forget}};
    return tn__evict_create(&options, &k->evict, error);
}

static inline void kit_unref(kit_bytes *bytes) {
    if (--bytes->refs == 0) free(bytes);
}

static inline void kit_close(kit *k) {
    tn__evict_destroy(k->evict);
    for (uint32_t i = 0; i < k->live_count; i++) kit_unref(k->live[i].bytes);
    free(k->memory);
}

static inline uint32_t kit_pick(kit *k) {
    return (uint32_t)tn__random_below(&k->random, k->live_count);
}

static inline void kit_hold(kit *k, uint32_t tensor, uint32_t shift, kit_bytes *bytes) {
    bytes->refs++;
    k->live[k->live_count++] = (kit_value){.tensor = tensor, .shift = shift, .bytes = bytes};
}

static inline kit_bytes *kit_new_bytes(uint32_t count) {
    kit_bytes *bytes = calloc(1, sizeof *bytes);
    bytes->count = count;
    return bytes;
}

/* Its words are those of the plain interpreter. */
static inline void kit_compare(kit *k, const kit_value *value) {
    const uint64_t *words = k->memory + tn__evict_at(k->evict, value->tensor) / 8;
    for (uint32_t w = value->shift; w < value->bytes->count; w++)
        if (words[w - value->shift] != value->bytes->words[w]) k->fault = "a wrong value";
}

static inline void kit_release(kit *k, uint32_t index) {
    kit_value value = k->live[index];
    k->live[index] = k->live[--k->live_count];
    while (value.locks-- > 0) tn__evict_unlock(k->evict, value.tensor);
    tn__evict_release(k->evict, value.tensor);
    kit_unref(value.bytes);
}

static inline tn_status kit_constant(kit *k, tn_error *error) {
    uint32_t tensor, count = 1 + (uint32_t)tn__random_below(&k->random, KIT_WORDS_MAX);
    bool pinned = tn__random_below(&k->random, 4) == 0;
    TN_TRY(tn__evict_constant(k->evict, &(tn__evict_value){.bytes = 8ull * count, .pinned = pinned},
                              &tensor, error));
    kit_bytes *bytes = kit_new_bytes(count);
    uint64_t *words = k->memory + tn__evict_at(k->evict, tensor) / 8;
    for (uint32_t w = 0; w < count; w++) words[w] = bytes->words[w] = tn__random_next(&k->random);
    kit_hold(k, tensor, 0, bytes);
    return TN_OK;
}

/* An operator's results, plainly; then by the core. */
static inline tn_status kit_apply(kit *k, tn_error *error) {
    kit_what *what = calloc(1, sizeof *what);
    tn__evict_output outputs[3];
    uint32_t inputs[4], picked[4], results[3];
    uint64_t firsts[4];
    tn__evict_call call = {.what = what, .inputs = inputs, .outputs = outputs};
    what->seed = tn__random_next(&k->random);
    call.input_count = (uint32_t)tn__random_below(&k->random, 5);
    call.output_count = what->output_count = 1 + (uint32_t)tn__random_below(&k->random, 3);
    call.cost = tn__random_below(&k->random, 1000);
    call.scratch = 8 * tn__random_below(&k->random, 20);
    call.flags = tn__random_below(&k->random, 16) == 0 ? TN__EVICT_ONCE : 0;
    if (k->live_count == 0) call.input_count = 0;
    for (uint32_t i = 0; i < call.input_count; i++) {
        picked[i] = kit_pick(k);
        const kit_value *value = &k->live[picked[i]];
        inputs[i] = value->tensor;
        firsts[i] = value->bytes->words[value->shift];
        if (value->is_lost) call.input_count = i; /* may only be released */
    }
    int32_t overwritten = -1;
    for (uint32_t o = 0; o < call.output_count; o++) {
        uint64_t way = tn__random_below(&k->random, 8);
        outputs[o] = (tn__evict_output){.alias = TN__EVICT_NONE};
        what->words[o] = 1 + (uint32_t)tn__random_below(&k->random, KIT_WORDS_MAX);
        outputs[o].bytes = 8ull * what->words[o];
        if (way > 1 || call.input_count == 0 || overwritten >= 0) continue;
        uint32_t alias = (uint32_t)tn__random_below(&k->random, call.input_count);
        const kit_value *of = &k->live[picked[alias]];
        outputs[o] = (tn__evict_output){.alias = alias};
        if (way == 1 && o == 0) {
            outputs[o].overwrites = true;
            overwritten = (int32_t)o;
            what->words[o] = of->bytes->count - of->shift;
        } else {
            what->is_view[o] = true;
            outputs[o].shift = 8 * tn__random_below(&k->random, of->bytes->count - of->shift);
        }
    }
    k->whats++;
    tn_status status = tn__evict_apply(k->evict, &call, results, error);
    if (status != TN_OK) {
        k->whats--;
        free(what);
        return status;
    }
    k->applied++;
    for (uint32_t o = 0; o < call.output_count; o++) {
        if (outputs[o].alias == TN__EVICT_NONE) {
            kit_bytes *bytes = kit_new_bytes(what->words[o]);
            for (uint32_t w = 0; w < bytes->count; w++)
                bytes->words[w] = kit_word(what->seed + o, firsts, call.input_count, w);
            kit_hold(k, results[o], 0, bytes);
            continue;
        }
        const kit_value *of = &k->live[picked[outputs[o].alias]];
        kit_bytes *bytes = of->bytes;
        uint32_t shift = of->shift + (uint32_t)(outputs[o].shift / 8);
        if (outputs[o].overwrites) {
            k->overwrites++;
            for (uint32_t w = 0; w < what->words[o]; w++)
                bytes->words[shift + w] = kit_word(what->seed + o, firsts, call.input_count, w);
            for (uint32_t i = 0; i < k->live_count; i++)
                if (k->live[i].bytes == bytes) k->live[i].is_lost = true;
        }
        kit_hold(k, results[o], shift, bytes);
        /* views made by the operator that overwrites see what it wrote */
    }
    return TN_OK;
}

static inline tn_status kit_want(kit *k, tn_error *error) {
    if (k->live_count == 0) return TN_OK;
    kit_value *value = &k->live[kit_pick(k)];
    if (value->is_lost) return TN_OK;
    TN_TRY(tn__evict_want(k->evict, value->tensor, error));
    k->wants++;
    kit_compare(k, value);
    if (tn__random_below(&k->random, 50) == 0)
        value->locks++;
    else
        tn__evict_unlock(k->evict, value->tensor);
    return TN_OK;
}

/* One random command. False: a fault, in k->fault. */
static inline bool kit_step(kit *k) {
    tn_error error = {0};
    tn_status status = TN_OK;
    uint64_t what = tn__random_below(&k->random, 100);
    if (k->live_count + 4 > KIT_LIVE_MAX || (what < 30 && k->live_count > 0))
        kit_release(k, kit_pick(k));
    else if (what < 35)
        status = kit_constant(k, &error);
    else if (what < 75)
        status = kit_apply(k, &error);
    else if (what < 97)
        status = kit_want(k, &error);
    else if (k->live_count > 0) {
        kit_value value = k->live[kit_pick(k)];
        tn__evict_retain(k->evict, value.tensor);
        value.locks = 0;
        k->live[k->live_count++] = value;
        value.bytes->refs++;
    }
    if (status == TN_E_EXHAUSTED) {
        k->exhausted++;
        for (int i = 0; i < 4 && k->live_count > 0; i++) kit_release(k, kit_pick(k));
    } else if (status != TN_OK && status != TN_E_UNSUPPORTED && status != TN_E_NO_MEMORY) {
        k->fault = tn_status_name(status);
    }
    return k->fault == NULL;
}

#endif
