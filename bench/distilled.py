#!/usr/bin/env python3
"""Knowledge distillation on Fashion-MNIST: a model that computes its own loss, for `tenure train --loss output`.

distilled.py TEACHER FOLDER [--hidden N] [--temperature T]

TEACHER is shared/data/onnx/fashion_resnet.onnx, or another .onnx model with one input [N, 1, 28, 28] and scores of 10 classes.
Writes two files: FOLDER/student.onnx, a perceptron of one hidden layer that takes `image` and gives `scores`, with made weights;
and FOLDER/distil.onnx, which takes `image` and `target` (class numbers) and gives `loss`: half the cross-entropy of the student's
scores against the classes, and half that against the teacher's at temperature T, times T * T (Hinton, Vinyals and Dean, 2015).
Parameters of the teacher begin with "teacher.", so that --freeze 'teacher.*' keeps them; those of the student have the same names
in both files.
"""
import argparse
import os

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def prefixed(model):
    """The nodes and weights of the teacher, with names that begin with "teacher."; its input is `image`."""
    graph = model.graph
    own = {graph.input[0].name: "image"}

    def name(text):
        return own.get(text, "teacher." + text) if text else ""
    nodes = []
    for node in graph.node:
        made = onnx.NodeProto()
        made.CopyFrom(node)
        made.name = name(node.name)
        del made.input[:], made.output[:]
        made.input.extend(map(name, node.input))
        made.output.extend(map(name, node.output))
        nodes.append(made)
    for tensor in graph.initializer:
        tensor.name = name(tensor.name)
    return nodes, list(graph.initializer), name(graph.output[0].name)


def student(hidden):
    random = numpy.random.default_rng(1)

    def weight(name, *shape):
        return numpy_helper.from_array((random.standard_normal(shape) * shape[0] ** -0.5).astype("f4"), name)
    nodes = [helper.make_node("Flatten", ["image"], ["pixels"]), helper.make_node("Gemm", ["pixels", "fc1.weight", "fc1.bias"], ["h"]),
             helper.make_node("Relu", ["h"], ["r"]), helper.make_node("Gemm", ["r", "fc2.weight", "fc2.bias"], ["scores"])]
    return nodes, [weight("fc1.weight", 784, hidden), numpy_helper.from_array(numpy.zeros(hidden, "f4"), "fc1.bias"),
                   weight("fc2.weight", hidden, 10), numpy_helper.from_array(numpy.zeros(10, "f4"), "fc2.bias")]


def loss(taught, temperature):
    """Nodes and constants from `scores`, `target` and the teacher's scores to `loss`."""
    constants = {"const_t": temperature, "const_half": 0.5, "const_share": -0.5 * temperature * temperature}
    nodes = [helper.make_node("SoftmaxCrossEntropyLoss", ["scores", "target"], ["hard"], reduction="mean"),
             helper.make_node("Div", [taught, "const_t"], ["t1"]), helper.make_node("Softmax", ["t1"], ["t2"], axis=1),
             helper.make_node("Div", ["scores", "const_t"], ["s1"]), helper.make_node("LogSoftmax", ["s1"], ["s2"], axis=1),
             helper.make_node("Mul", ["t2", "s2"], ["m"]), helper.make_node("ReduceSum", ["m", "const_axis"], ["m1"], keepdims=0),
             helper.make_node("ReduceMean", ["m1"], ["m2"], keepdims=0), helper.make_node("Mul", ["m2", "const_share"], ["soft"]),
             helper.make_node("Mul", ["hard", "const_half"], ["half"]), helper.make_node("Add", ["half", "soft"], ["loss"])]
    return nodes, [numpy_helper.from_array(numpy.float32(number), name) for name, number in constants.items()] + \
        [numpy_helper.from_array(numpy.array([1]), "const_axis")]


def save(path, nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*each) for each in inputs],
                              [helper.make_tensor_value_info(*each) for each in outputs], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("teacher")
    parser.add_argument("folder")
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--temperature", type=float, default=4)
    words = parser.parse_args()
    image = ("image", FLOAT, ["N", 1, 28, 28])
    nodes, weights = student(words.hidden)
    save(os.path.join(words.folder, "student.onnx"), nodes, [image], [("scores", FLOAT, ["N", 10])], weights)
    teacher, held, taught = prefixed(onnx.load(words.teacher))
    made, constants = loss(taught, words.temperature)
    save(os.path.join(words.folder, "distil.onnx"), nodes + teacher + made, [image, ("target", INT64, ["N"])], [("loss", FLOAT, [])],
         weights + held + constants)


if __name__ == "__main__":
    main()
