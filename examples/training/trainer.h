/* trainer.h - a net in training: the step, the loss, and how good it is on what was held out. */
#ifndef TRAINING_TRAINER_H
#define TRAINING_TRAINER_H

#include "net.h"

typedef struct trainer {
    net *n;
    tn_training training; /* forward, backward and update as one graph */
    tn_session *session;  /* that graph, planned and set up */
    tn_error error;
    int64_t step;
} trainer;

static inline tn_status trainer_open(trainer *t, net *n, const tn_train_options *train,
                                     const tn_session_options *session) {
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    if (session != NULL) options = *session;
    memset(t, 0, sizeof *t);
    t->n = n;
    options.read = net_read;
    options.self = n;
    tn_status status = tn_train(n->graph, train, &t->training, &t->error);
    if (status == TN_OK)
        status = tn_session_open(t->training.graph, &options, &t->session, &t->error);
    return status;
}

static inline void trainer_close(trainer *t) {
    tn_session_close(t->session);
    tn_training_release(&t->training);
}

/* Where the next batch goes. */
static inline tn_array *trainer_samples(trainer *t) {
    return tn_session_array(t->session, t->n->input);
}
static inline tn_array *trainer_labels(trainer *t) {
    return tn_session_array(t->session, t->training.labels);
}

/* A number for an input that this optimizer may not have. */
static inline void trainer_put(trainer *t, tn_tensor_id id, const void *number, size_t size) {
    tn_array *array = id != TN_NONE ? tn_session_array(t->session, id) : NULL;
    if (array != NULL) memcpy(array->data, number, size);
}

/* One run on the batch that is there; `micro` counts the runs of one update. */
static inline tn_status trainer_run(trainer *t, float rate, int64_t micro, float *loss) {
    trainer_put(t, t->training.learning_rate, &rate, sizeof rate);
    trainer_put(t, t->training.step, &t->step, sizeof t->step);
    trainer_put(t, t->training.micro, &micro, sizeof micro);
    tn_status status = tn_session_run(t->session, &t->error);
    if (status == TN_OK)
        memcpy(loss, tn_session_array(t->session, t->training.loss)->data, sizeof *loss);
    return status;
}

/* --- how good it is --- */

/* For tn_session_options.read of the model itself: parameters as they are by now. */
static inline tn_status trainer_read(void *self, const tn_graph *graph, tn_tensor_id id,
                                     void *bytes, uint64_t size, tn_error *error) {
    trainer *t = (trainer *)self;
    if (tn_graph_tensor(t->training.graph, id)->flags & TN_TENSOR_UPDATED)
        return tn_engine_get_static(tn_session_engine(t->session), id, bytes, size, error);
    return net_read(t->n, graph, id, bytes, size, error);
}

/* The model in inference, for scores: samples and scores are its arrays. */
static inline tn_status trainer_open_model(trainer *t, tn_session **session) {
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    options.read = trainer_read;
    options.self = t;
    return tn_session_open(t->n->graph, &options, session, &t->error);
}

typedef struct trainer_score {
    double loss;     /* nats, mean over labels */
    double accuracy; /* share of labels with the highest score */
    uint64_t count;
} trainer_score;

/* Adds scores of one batch against its labels, with the axis of classes where tn_train has it. */
static inline void trainer_judge(const tn_array *scores, const int64_t *labels, uint64_t count,
                                 trainer_score *score) {
    uint32_t axis = scores->rank <= 3 ? scores->rank - 1 : 1;
    uint64_t classes = (uint64_t)scores->shape[axis], inner = 1;
    for (uint32_t d = axis + 1; d < scores->rank; d++) inner *= (uint64_t)scores->shape[d];
    for (uint64_t i = 0; i < count; i++) {
        const float *at = (const float *)scores->data + i / inner * classes * inner + i % inner;
        double sum = 0, most = (double)at[0];
        uint64_t best = 0;
        for (uint64_t c = 1; c < classes; c++) {
            if ((double)at[c * inner] <= most) continue;
            most = (double)at[c * inner];
            best = c;
        }
        for (uint64_t c = 0; c < classes; c++) sum += exp((double)at[c * inner] - most);
        score->count++;
        double own = (double)at[(uint64_t)labels[i] * inner];
        score->loss += (most + log(sum) - own - score->loss) / (double)score->count;
        score->accuracy += ((best == (uint64_t)labels[i]) - score->accuracy) / (double)score->count;
    }
}

#endif
