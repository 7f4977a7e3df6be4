/* update.c - runs optimizers: for each parameter, the operator that tn_train also uses
 * (graph/ops/training/train.c), which updates the parameter and its state in place.
 *
 * During a step, the learning rate and the step number are two scalars in the arena. Each gradient
 * is released as soon as it was used, so that its memory can be used again.
 */
#include <math.h>
#include <stdio.h>

#include "graph/rules/fold.h"
#include "graph/gradients/gradient.h"
#include "graph/train/frame.h"
#include "run/eager/interpreter.h"

#define UPDATE_STATES 2u /* largest number of state tensors of a parameter */

typedef struct update_parameter {
    tn__eager_item_id item;
    /* state tensors of a parameter; TN_NONE: the optimizer does not need this one */
    tn__eager_item_id state[UPDATE_STATES];
} update_parameter;

struct tn_eager_optimizer {
    tn_eager *eager;
    tn_eager_optimizer_options options;
    update_parameter *parameters;
    uint32_t count, room, state_count;
    int64_t step; /* number of completed steps of the optimizer */
};

/* --- creating and destroying an optimizer --- */

static tn_status update_state(tn_eager_optimizer *it, tn__eager_item_id parameter, uint32_t number,
                              tn__eager_item_id *state, tn_error *error) {
    static const char *const names[][UPDATE_STATES] = {{"velocity", ""}, {"moment1", "moment2"}};
    tn_eager *eager = it->eager;
    const tn__type *type = tn__eager_item_type(eager, parameter);
    char name[200];
    snprintf(name, sizeof name, "%.180s.%s", eager->items[parameter].name,
             names[it->state_count - 1][number]);
    const tn_eager_data data = {.dtype = type->dtype,
                                .kind = TN_KIND_OPTIMIZER_STATE,
                                .rank = type->rank,
                                .shape = type->shape,
                                .name = eager->items[parameter].name[0] != '\0' ? name : NULL};
    return tn__put(eager, &data, state, error);
}

static tn_status update_parameter_add(tn_eager_optimizer *it, tn_handle handle, tn_error *error) {
    update_parameter *parameter = &it->parameters[it->count];
    tn__eager_item_id id;
    TN_TRY(tn__eager_item_of(it->eager, handle, "optimizer", &id, error));
    if (it->eager->items[id].kind != TN_KIND_PARAMETER ||
        !tn__is_float(tn__eager_item_type(it->eager, id)->dtype))
        TN_FAIL(error, TN_E_INVALID,
                "an optimizer updates what was put as a parameter of a floating type; number %u is "
                "none",
                it->count);
    *parameter = (update_parameter){.item = id, .state = {TN_NONE, TN_NONE}};
    tn__eager_item_hold(it->eager, id);
    it->count++;
    for (uint32_t s = 0; s < it->state_count; s++)
        TN_TRY(update_state(it, id, s, &parameter->state[s], error));
    return TN_OK;
}

/* Checks that no parameter is given twice: an optimizer updates each once in a step. */
static tn_status update_check_twice(const tn_eager_optimizer *it, tn_error *error) {
    const tn_context *context = &it->eager->context;
    size_t count = it->count, bytes = count * sizeof(tn__sort_item);
    tn__sort_item *items = tn__alloc_array(context, count, sizeof *items);
    if (items == NULL) return tn__no_memory(error, "an optimizer");
    for (uint32_t i = 0; i < count; i++)
        items[i] = (tn__sort_item){.key = it->parameters[i].item, .id = i};
    bool sorted = tn__sort_items(context, items, count);
    tn_status status = sorted ? TN_OK : tn__no_memory(error, "an optimizer");
    for (size_t i = 1; i < count && status == TN_OK; i++)
        if (items[i].key == items[i - 1].key)
            status = tn__fail(error, TN_E_INVALID,
                              "parameters %u and %u are one tensor, '%.80s'; give it once",
                              items[i - 1].id, items[i].id, it->eager->items[items[i].key].name);
    tn__free(context, items, bytes);
    return status;
}

static tn_status update_options(tn_eager_optimizer *it, tn_error *error) {
    tn_eager_optimizer_options *options = &it->options;
    if (options->optimizer >= TN_OPTIMIZER_NONE)
        TN_FAIL(error, TN_E_INVALID, "no optimizer of that number updates anything");
    tn_train_options all = TN_TRAIN_OPTIONS_INIT;
    all.momentum = options->momentum;
    all.beta1 = options->beta1;
    all.beta2 = options->beta2;
    all.epsilon = options->epsilon;
    all.weight_decay = options->weight_decay;
    all = tn__train_options(&all);
    TN_TRY(tn__train_check_numbers(&all, error));
    options->momentum = all.momentum;
    options->beta1 = all.beta1;
    options->beta2 = all.beta2;
    options->epsilon = all.epsilon;
    bool adam = options->optimizer == TN_OPTIMIZER_ADAM || options->optimizer == TN_OPTIMIZER_ADAMW;
    it->state_count = adam ? 2 : options->optimizer == TN_OPTIMIZER_MOMENTUM;
    return TN_OK;
}

tn_status tn_eager_optimizer_create(tn_eager *eager, const tn_eager_optimizer_options *options,
                                    const tn_handle *parameters, uint32_t count,
                                    tn_eager_optimizer **optimizer, tn_error *error) {
    tn_eager_optimizer_options asked = TN_EAGER_OPTIMIZER_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_eager_optimizer *made = tn__alloc_array(&eager->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "an optimizer");
    *made = (tn_eager_optimizer){.eager = eager, .options = asked};
    made->room = count;
    made->parameters = tn__alloc_array(&eager->context, count, sizeof *made->parameters);
    tn_status status = made->parameters != NULL ? update_options(made, error)
                                                : tn__no_memory(error, "an optimizer");
    for (uint32_t i = 0; i < count && status == TN_OK; i++)
        status = update_parameter_add(made, parameters[i], error);
    if (status == TN_OK && count > 1) status = update_check_twice(made, error);
    if (status == TN_OK)
        *optimizer = made;
    else
        tn_eager_optimizer_destroy(made);
    return tn__where(error, status, "optimizer");
}

void tn_eager_optimizer_destroy(tn_eager_optimizer *optimizer) {
    if (optimizer == NULL) return;
    tn_eager *eager = optimizer->eager;
    for (uint32_t i = 0; i < optimizer->count; i++) {
        for (uint32_t s = 0; s < UPDATE_STATES; s++)
            tn__eager_item_drop(eager, optimizer->parameters[i].state[s]);
        tn__eager_item_drop(eager, optimizer->parameters[i].item);
    }
    tn__free(&eager->context, optimizer->parameters,
             optimizer->room * sizeof *optimizer->parameters);
    tn__free(&eager->context, optimizer, sizeof *optimizer);
}

/* --- a step --- */

static uint32_t update_attrs(const tn_eager_optimizer *it, const int64_t *nesterov,
                             const int64_t *apart, tn_attr *attrs) {
    static const double one = 1;
    const tn_eager_optimizer_options *options = &it->options;
    uint32_t count = 0;
    attrs[count++] = TN__ATTR_FLOAT("scale", &one);
    attrs[count++] = TN__ATTR_FLOAT("weight_decay", &options->weight_decay);
    if (it->state_count == 1) {
        attrs[count++] = TN__ATTR_FLOAT("momentum", &options->momentum);
        attrs[count++] = TN__ATTR_INT("nesterov", nesterov);
    }
    if (it->state_count == 2) {
        attrs[count++] = TN__ATTR_FLOAT("beta1", &options->beta1);
        attrs[count++] = TN__ATTR_FLOAT("beta2", &options->beta2);
        attrs[count++] = TN__ATTR_FLOAT("epsilon", &options->epsilon);
        attrs[count++] = TN__ATTR_INT("decay_apart", apart);
    }
    return count;
}

static tn_status update_one(tn_eager_optimizer *it, const update_parameter *parameter,
                            tn__eager_item_id gradient, tn__eager_item_id rate,
                            tn__eager_item_id step, tn_error *error) {
    static const char *const types[] = {"SgdStep", "MomentumStep", "AdamStep"};
    const int64_t nesterov = it->options.nesterov;
    const int64_t apart = it->options.optimizer == TN_OPTIMIZER_ADAMW;
    tn__eager_item_id inputs[6], outputs[3];
    tn_attr attrs[8];
    tn__ask ask = {.type = types[it->state_count],
                   .domain = "tenure",
                   .attrs = attrs,
                   .output_count = 1 + it->state_count};
    ask.attr_count = update_attrs(it, &nesterov, &apart, attrs);
    inputs[ask.input_count++] = parameter->item;
    inputs[ask.input_count++] = gradient;
    for (uint32_t s = 0; s < it->state_count; s++) inputs[ask.input_count++] = parameter->state[s];
    inputs[ask.input_count++] = rate;
    if (it->state_count == 2) inputs[ask.input_count++] = step;
    return tn__apply_named(it->eager, &ask, inputs, outputs, error);
}

static tn_status update_all(tn_eager_optimizer *it, tn_handle *gradients, tn__eager_item_id rate,
                            tn__eager_item_id step, tn_error *error) {
    for (uint32_t i = 0; i < it->count; i++) {
        tn__eager_item_id gradient;
        if (gradients[i] == TN_HANDLE_NONE) continue;
        TN_TRY(tn__eager_item_of(it->eager, gradients[i], "gradient", &gradient, error));
        tn_status status = update_one(it, &it->parameters[i], gradient, rate, step, error);
        if (status != TN_OK)
            return tn__where(error, status, "update of parameter %u, '%.100s'", i,
                             it->eager->items[it->parameters[i].item].name);
        TN_TRY(tn_eager_del(it->eager, gradients[i], error));
        gradients[i] = TN_HANDLE_NONE;
    }
    return TN_OK;
}

tn_status tn_eager_optimizer_step(tn_eager_optimizer *it, tn_handle *gradients,
                                  double learning_rate, tn_error *error) {
    const float rate = (float)learning_rate;
    if (!isfinite(rate))
        return tn__where(
            error,
            tn__fail(error, TN_E_INVALID, "a learning rate of %g is not finite", learning_rate),
            "optimizer");
    const int64_t step = it->step; /* the operators count from 0 */
    const tn_eager_data rate_data = {
        .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT, .data = &rate, .name = "learning_rate"};
    const tn_eager_data step_data = {
        .dtype = TN_INT64, .kind = TN_KIND_INPUT, .data = &step, .name = "step"};
    tn__eager_item_id rate_item = TN_NONE, step_item = TN_NONE;
    tn_status status = tn__put(it->eager, &rate_data, &rate_item, error);
    if (status != TN_OK) return status;
    if (it->state_count == 2) status = tn__put(it->eager, &step_data, &step_item, error);
    if (status == TN_OK) status = update_all(it, gradients, rate_item, step_item, error);
    tn__eager_item_drop(it->eager, rate_item);
    tn__eager_item_drop(it->eager, step_item);
    if (status == TN_OK) it->step++;
    return status;
}
