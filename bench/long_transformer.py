#!/usr/bin/env python3
"""A transformer's layers at any length, as an ONNX model without weights: for `run --weights random:1`.

long_transformer.py FILE [--tokens 4096 | --image 1024] [--layers 2] [--width 768] [--heads 12] [--causal]

Pre-norm layers as GPT-2 has them (BERT's and ViT's without --causal, with --image behind ViT's patches of 16 x 16 pixels): what
a longer sequence of a published model would compute, whose file ends at the positions that it was trained with. Peaks of activations do not depend on the number of layers.
"""
import argparse

import onnx
from onnx import TensorProto, helper


class Graph:
    def __init__(self):
        self.nodes, self.inputs, self.initializers = [], [], []

    def op(self, kind, *inputs, **attributes):
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, *shape):
        name = f"weight_{len(self.initializers)}"
        size = 4
        for extent in shape:
            size *= extent
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "none.bin"), ("offset", "0"), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        self.initializers.append(tensor)
        return name

    def ints(self, *values):
        name = f"ints_{len(self.initializers)}"
        self.initializers.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def number(self, value):
        name = f"number_{len(self.initializers)}"
        self.initializers.append(helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
        return name

    def linear(self, x, rows, columns):
        return self.op("Add", self.op("MatMul", x, self.weight(rows, columns)), self.weight(columns))


def attention(graph, x, tokens, width, heads, causal):
    each = width // heads
    parts = []
    for _ in range(3):
        part = graph.op("Reshape", graph.linear(x, width, width), graph.ints(1, tokens, heads, each))
        parts.append(part)
    query, value = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (parts[0], parts[2]))
    key = graph.op("Transpose", parts[1], perm=[0, 2, 3, 1])
    scores = graph.op("Mul", graph.op("MatMul", query, key), graph.number(each**-0.5))
    if causal:
        scores = graph.op("Add", scores, graph.mask)
    mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
    joined = graph.op("Reshape", graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), graph.ints(1, tokens, width))
    return graph.linear(joined, width, width)


def patches(graph, image, width):
    """A picture as a sequence of patches of 16 x 16 pixels, each with what its place adds."""
    tokens = (image // 16) ** 2
    graph.inputs.append(helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, image, image]))
    x = graph.op("Conv", "image", graph.weight(width, 3, 16, 16), graph.weight(width), strides=[16, 16])
    x = graph.op("Transpose", graph.op("Reshape", x, graph.ints(1, width, tokens)), perm=[0, 2, 1])
    return graph.op("Add", x, graph.weight(1, tokens, width)), tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    for name, value in (("tokens", 4096), ("layers", 2), ("width", 768), ("heads", 12)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--image", type=int, help="height and width in pixels")
    a = parser.parse_args()
    graph, x = Graph(), "x"
    if a.causal:
        graph.mask = "mask"
        graph.inputs.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [a.tokens, a.tokens]))
    if a.image:
        x, a.tokens = patches(graph, a.image, a.width)
    else:
        graph.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, a.tokens, a.width]))
    for _ in range(a.layers):
        normal = graph.op("LayerNormalization", x, graph.weight(a.width), graph.weight(a.width), axis=-1)
        x = graph.op("Add", x, attention(graph, normal, a.tokens, a.width, a.heads, a.causal))
        normal = graph.op("LayerNormalization", x, graph.weight(a.width), graph.weight(a.width), axis=-1)
        inner = graph.op("Gelu", graph.linear(normal, a.width, 4 * a.width))
        x = graph.op("Add", x, graph.linear(inner, 4 * a.width, a.width))
    graph.nodes.append(helper.make_node("Identity", [x], ["y"]))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, a.tokens, a.width])
    made = helper.make_graph(graph.nodes, "transformer", graph.inputs, [y], graph.initializers)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)])
    with open(a.file, "wb") as file:
        file.write(model.SerializeToString())


if __name__ == "__main__":
    main()
