#!/usr/bin/python3
"""A small mixture of experts, trained on a text by `tenure train`, and its inputs for bench/experts.

experts_trained.py TENURE TEXT FOLDER [STEPS]

Writes FOLDER/trained.onnx, a model of operators MoE (tests/cli/mixtures.py), and FOLDER/tokens.f32: the vectors that
consecutive bytes of the last tenth of the text give to the first layer, one for each byte. In training all experts compute
and a mask chooses two of them, because the operator MoE has no gradient. bench/experts runs the result:

    bench/experts trained.onnx 400 tokens.f32 0.75 0.5 0.25
"""
import os
import subprocess
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "cli"))
import mixtures  # noqa: E402

LAYERS, HIDDEN, EXPERTS, CHOSEN, INNER, TIME, WINDOW, WIDTH = 6, 64, 16, 2, 64, 16, 8, 16


def trainable(path):
    """The mixture as operators that have gradients."""
    random = numpy.random.default_rng(5)
    nodes, weights = [], []

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs.split(), output.split(), **attributes))

    def weight(name, *shape, scale=None):
        data = random.standard_normal(shape) * (shape[-2] ** -0.5 if scale is None else scale)
        weights.append(numpy_helper.from_array(data.astype(numpy.float32), name))

    def constant(name, value, dtype=numpy.int64):
        node("Constant", "", name, value=numpy_helper.from_array(numpy.array(value, dtype), name + "_value"))

    weight("table", 256, WIDTH, scale=1)
    weight("mix", HIDDEN, WIDTH, WINDOW, scale=(WIDTH * WINDOW) ** -0.5)
    node("Gather", "table ids", "e")
    node("Transpose", "e", "et", perm=[0, 2, 1])
    node("Conv", "et mix", "c", pads=[WINDOW - 1, 0])
    node("Transpose", "c", "ct", perm=[0, 2, 1])
    constant("rows", [-1, HIDDEN])
    node("Reshape", "ct rows", "x")
    for name, value in (("k", [CHOSEN]), ("first", [CHOSEN - 1]), ("end", [CHOSEN]), ("one", [1]), ("zero", [0]), ("two", [2])):
        constant(name, value)
    constant("least", -1e9, numpy.float32)
    x = "x"
    for i in range(LAYERS):
        def n(names, i=i):
            return " ".join(name if name in ("k", "first", "end", "one", "zero", "two", "least") else "%s_%d" % (name, i)
                            for name in names.split())
        weights.append(numpy_helper.from_array(numpy.ones(HIDDEN, numpy.float32), n("gain")))
        for name, shape in (("shift", [HIDDEN]), ("router_bias", [EXPERTS]), ("b1", [EXPERTS, 1, INNER]), ("b2", [EXPERTS, 1, HIDDEN])):
            weights.append(numpy_helper.from_array(numpy.zeros(shape, numpy.float32), n(name)))
        weight(n("router"), HIDDEN, EXPERTS)
        weight(n("w1"), EXPERTS, HIDDEN, INNER)
        weight(n("w2"), EXPERTS, INNER, HIDDEN, scale=0.3 * INNER ** -0.5)
        node("LayerNormalization", x + " " + n("gain shift"), n("n"), axis=-1)
        node("MatMul", n("n router"), n("r0"))
        node("Add", n("r0 router_bias"), n("r"))
        node("TopK", n("r k"), n("best which"))
        node("Slice", n("best first end one"), n("limit"))
        node("GreaterOrEqual", n("r limit"), n("mask"))
        node("Where", n("mask r least"), n("chosen"))
        node("Softmax", n("chosen"), n("p"), axis=-1)
        node("Unsqueeze", n("n zero"), n("n1"))
        node("MatMul", n("n1 w1"), n("h0"))
        node("Add", n("h0 b1"), n("h"))
        node("Sigmoid", n("h"), n("g"))
        node("Mul", n("h g"), n("a"))
        node("MatMul", n("a w2"), n("y0"))
        node("Add", n("y0 b2"), n("y"))
        node("Transpose", n("p"), n("pt"), perm=[1, 0])
        node("Unsqueeze", n("pt two"), n("pu"))
        node("Mul", n("y pu"), n("yp"))
        node("ReduceSum", n("yp zero"), n("sum"), keepdims=0)
        node("Add", x + " " + n("sum"), n("x"))
        x = n("x")
    weight("head", HIDDEN, 256)
    node("MatMul", x + " head", "scores")
    constant("shape", [-1, TIME, 256])
    node("Reshape", "scores shape", "logits")
    graph = helper.make_graph(nodes, "trainable", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", TIME])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", TIME, 256])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def main():
    tenure, text, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    steps = sys.argv[4] if len(sys.argv) > 4 else "600"
    os.chdir(folder)
    trainable("trainable.onnx")
    subprocess.run([tenure, "train", "trainable.onnx", "--data", "text:" + text, "--batch", "32", "--steps", steps, "--lr", "2e-3",
                    "--save-model", "result.onnx"], check=True)
    data = {one.name: numpy_helper.to_array(one) for one in onnx.load("result.onnx").graph.initializer}
    mixture = mixtures.Mixture(layers=LAYERS, hidden=HIDDEN, experts=EXPERTS, chosen=CHOSEN, inner=INNER)
    for i, one in enumerate(mixture.layers_of):
        for name in one:
            value = data["%s_%d" % (name, i)]
            one[name] = numpy.ascontiguousarray(value.transpose(0, 2, 1) if name in ("w1", "w2") else
                                                value.reshape(EXPERTS, -1) if name in ("b1", "b2") else value)
    mixture.write("trained.onnx")
    with open(text, "rb") as file:
        tail = numpy.frombuffer(file.read(), numpy.uint8)
    tail = tail[len(tail) - len(tail) // 10:][:4096].astype(int)
    e = data["table"][numpy.concatenate([numpy.zeros(WINDOW - 1, int), tail])]
    e[:WINDOW - 1] = 0
    x = sum(e[k:k + len(tail)] @ data["mix"][:, :, k].T for k in range(WINDOW)).astype(numpy.float32)
    x.tofile("tokens.f32")
    y, used, guessed = mixture.compute(x)
    right = (numpy.argmax(y[:-1] @ data["head"], -1) == tail[1:]).mean()
    print("%.1f %% of the next bytes are right (numpy, last tenth)" % (100 * right))
    for i, chosen in enumerate(used):
        uses = numpy.bincount(chosen.flatten(), minlength=EXPERTS)
        hits = numpy.mean([len(set(u) & set(g)) for u, g in zip(chosen, guessed[i - 1])]) / CHOSEN if i > 0 else float("nan")
        print("layer %d: the busiest 4 of %d experts have %.0f %% of the uses; guesses right %.1f %%" %
              (i, EXPERTS, 100 * numpy.sort(uses)[-4:].sum() / uses.sum(), 100 * hits))


main()
