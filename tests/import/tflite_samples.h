/* tflite_samples.h - small .tflite models, one idea each: for the tests, and seeds of the fuzzer.
 */
#ifndef TESTS_IMPORT_TFLITE_SAMPLES_H
#define TESTS_IMPORT_TFLITE_SAMPLES_H

#include "flatbuf.h"

/* x -> CONV_2D with weights and bias -> RELU -> y */
static inline lite *sample_convolution(void) {
    lite *m = lite_new();
    lite_add(
        m, (lite_tensor){.name = "x", .shape = "1,8,8,3", .signature = "-1,8,8,3", .type = T_INT8});
    lite_add(m, (lite_tensor){.name = "w", .shape = "4,3,3,3", .type = T_INT8, .bytes = 108});
    lite_add(m, (lite_tensor){.name = "b", .shape = "4", .type = T_INT32, .bytes = 16});
    lite_add(
        m, (lite_tensor){.name = "c", .shape = "1,8,8,4", .signature = "-1,8,8,4", .type = T_INT8});
    lite_add(
        m, (lite_tensor){.name = "y", .shape = "1,8,8,4", .signature = "-1,8,8,4", .type = T_INT8});
    lite_add(m, (lite_tensor){.name = "nobody", .shape = "5,5", .type = T_INT8});
    lite_op(m, OP_CONV, "0,1,2", "3");
    lite_op(m, OP_RELU, "3", "4");
    lite_end(m, "main", "0", "4");
    return m;
}

/* Weights behind DENSIFY and DEQUANTIZE; MUL of two constants runs each time. */
static inline lite *sample_constants(void) {
    lite *m = lite_new();
    lite_float(m, "x", "2,3");
    lite_add(m,
             (lite_tensor){
                 .name = "sparse", .shape = "2,3", .type = T_FLOAT16, .bytes = 4, .sparse = true});
    lite_add(m, (lite_tensor){.name = "dense", .shape = "2,3", .type = T_FLOAT16});
    lite_float(m, "w", "2,3");
    lite_add(m, (lite_tensor){.name = "k", .shape = "2,3", .type = T_FLOAT32, .bytes = 24});
    lite_float(m, "kk", "2,3");
    lite_float(m, "s", "2,3");
    lite_float(m, "y", "2,3");
    lite_add(m, (lite_tensor){.name = "empty", .shape = "0", .type = T_INT32});
    lite_op(m, OP_DENSIFY, "1", "2");
    lite_op(m, OP_DEQUANTIZE, "2", "3");
    lite_op(m, OP_MUL, "4,4", "5");
    lite_op(m, OP_ADD, "0,3", "6");
    lite_op(m, OP_CUSTOM, "6,5,8,-1", "7");
    lite_end(m, "main", "0", "7");
    return m;
}

/* c decides between x + x and relu(x). */
static inline lite *sample_branches(void) {
    lite *m = lite_new();
    lite_add(m, (lite_tensor){.name = "c", .shape = "1", .type = T_BOOL});
    lite_float(m, "x", "4,4");
    lite_float(m, "y", "4,4");
    lite_op_with(m, OP_IF, "0,1", "2", 92, 1, 2);
    lite_end(m, "main", "0,1", "2");
    lite_float(m, "a", "4,4");
    lite_float(m, "t", "4,4");
    lite_float(m, "sum", "4,4");
    lite_op(m, OP_LOGISTIC, "0", "1");
    lite_op(m, OP_ADD, "0,1", "2");
    lite_end(m, "then", "0", "2");
    lite_float(m, "a", "4,4");
    lite_float(m, "r", "4,4");
    lite_op(m, OP_RELU, "0", "1");
    lite_end(m, "else", "0", "1");
    return m;
}

/* i, v carried round a body and a condition; CALL_ONCE sets a variable before. */
static inline lite *sample_loop(void) {
    lite *m = lite_new();
    lite_add(m, (lite_tensor){.name = "i", .shape = "1", .type = T_INT32});
    lite_float(m, "v", "8,8");
    lite_add(m, (lite_tensor){.name = "i_out", .shape = "1", .type = T_INT32});
    lite_float(m, "v_out", "8,8");
    lite_op_with(m, OP_CALL_ONCE, "", "", 103, 3, 0);
    lite_op_with(m, OP_WHILE, "0,1", "2,3", 93, 1, 2);
    lite_end(m, "main", "0,1", "2,3");
    lite_add(m, (lite_tensor){.name = "ci", .shape = "1", .type = T_INT32});
    lite_float(m, "cv", "8,8");
    lite_add(m, (lite_tensor){.name = "go", .shape = "1", .type = T_BOOL});
    lite_op(m, OP_CUSTOM, "0,1", "2");
    lite_end(m, "cond", "0,1", "2");
    lite_add(m, (lite_tensor){.name = "bi", .shape = "1", .type = T_INT32});
    lite_float(m, "bv", "8,8");
    lite_add(m, (lite_tensor){.name = "one", .shape = "1", .type = T_INT32, .bytes = 4});
    lite_add(m, (lite_tensor){.name = "next", .shape = "1", .type = T_INT32});
    lite_float(m, "square", "8,8");
    lite_op(m, OP_ADD, "0,2", "3");
    lite_op(m, OP_MUL, "1,1", "4");
    lite_end(m, "body", "0,1", "3,4");
    lite_add(m, (lite_tensor){.name = "handle", .shape = "", .type = T_RESOURCE});
    lite_add(m, (lite_tensor){.name = "first", .shape = "4", .type = T_FLOAT32, .bytes = 16});
    lite_op(m, OP_VAR_HANDLE, "", "0");
    lite_op(m, OP_ASSIGN_VARIABLE, "0,1", "");
    lite_end(m, "init", "", "");
    return m;
}

/* A variable tensor keeps its contents from run to run. */
static inline lite *sample_state(void) {
    lite *m = lite_new();
    lite_float(m, "x", "1,16");
    lite_add(m,
             (lite_tensor){.name = "state", .shape = "1,16", .type = T_FLOAT32, .variable = true});
    lite_float(m, "h", "1,16");
    lite_float(m, "flat", "16");
    lite_float(m, "y", "16");
    lite_op(m, OP_LSTM_SEQUENCE, "0,-1,1", "2");
    lite_op(m, OP_RESHAPE, "2", "3");
    lite_op(m, OP_LOGISTIC, "3", "4");
    lite_end(m, "main", "0", "4");
    return m;
}

/* Two operators call one subgraph. */
static inline lite *sample_calls(void) {
    lite *m = lite_new();
    lite_float(m, "x", "3");
    lite_float(m, "m", "3");
    lite_float(m, "y", "3");
    lite_op_with(m, OP_CALL, "0", "1", 16, 1, 0);
    lite_op_with(m, OP_CALL, "1", "2", 16, 1, 0);
    lite_end(m, "main", "0", "2");
    lite_float(m, "in", "3");
    lite_float(m, "out", "3");
    lite_op(m, OP_RELU, "0", "1");
    lite_end(m, "f", "0", "1");
    return m;
}

/* Nothing to do: the input is the output. */
static inline lite *sample_nothing(void) {
    lite *m = lite_new();
    lite_float(m, "x", "3");
    lite_end(m, "main", "0", "0");
    return m;
}

static const struct {
    const char *name;
    lite *(*make)(void);
} samples[] = {{"branches", sample_branches},   {"calls", sample_calls},
               {"constants", sample_constants}, {"convolution", sample_convolution},
               {"loop", sample_loop},           {"nothing", sample_nothing},
               {"state", sample_state}};
#define SAMPLES (sizeof samples / sizeof *samples)

#endif
