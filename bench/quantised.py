#!/usr/bin/env python3
"""A network of 8-bit integers with the shapes of one of floats: for `plan --split` and `run --weights random:1`.

quantised.py MODEL FILE

Writes MODEL (.onnx, shapes known) as a quantiser of ONNX does: convolutions and products are QLinearConv and QLinearMatMul with
the activation behind them in the range of their result, what only moves elements stays as it is, all else computes in floats
between DequantizeLinear and QuantizeLinear. Weights have no contents, and scales are made up: bytes, work and bits are those
of any such network, answers mean nothing. Input and output are bytes.
"""
import argparse
import math

import onnx
from onnx import TensorProto, helper, shape_inference

SCALE = 6 / 255  # of all activations, so that a Clip to [0, 6] is where the type ends
MOVERS = {"MaxPool", "Concat", "Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Identity", "Dropout"}
WINDOW = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}


class Quantiser:
    def __init__(self, model):
        graph = shape_inference.infer_shapes(model).graph
        self.graph, self.nodes, self.initializers = graph, [], []
        self.static = {tensor.name: tensor for tensor in graph.initializer}
        self.static.update({node.output[0]: None for node in graph.node if node.op_type == "Constant"})
        self.zero = {}  # of what is a tensor of bytes: the name of its zero point
        self.readers = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.small("scale", TensorProto.FLOAT, SCALE)
        self.small("zero", TensorProto.UINT8, 0)  # behind an activation
        self.small("middle", TensorProto.UINT8, 128)
        self.small("none", TensorProto.INT8, 0)  # of weights

    def small(self, name, kind, value):
        self.initializers.append(helper.make_tensor(name, kind, [], [value]))
        return name

    def weight(self, name, kind, shape):
        tensor = TensorProto(name=name, data_type=kind, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        size = math.prod(shape) * (4 if kind == TensorProto.INT32 else 1)
        for key, value in (("location", "none.bin"), ("offset", "0"), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        self.initializers.append(tensor)
        return name

    def add(self, kind, inputs, outputs, name, attributes=()):
        node = helper.make_node(kind, list(inputs), list(outputs), name=name)
        node.attribute.extend(attributes)
        self.nodes.append(node)

    def activated(self, node):
        """The Relu or Clip from 0 that alone reads a node's result."""
        readers = self.readers.get(node.output[0], [])
        return readers[0] if len(readers) == 1 and readers[0].op_type in ("Relu", "Clip") else None

    def product(self, node, skip):
        weights, name = self.static[node.input[1]], node.name or node.output[0]
        shape, conv = list(weights.dims), node.op_type == "Conv"
        if not conv and any(a.name == "transB" and a.i for a in node.attribute):
            shape.reverse()
        inner = math.prod(shape[1:]) if conv else shape[0]
        scale = self.small(f"{name}.scale", TensorProto.FLOAT, 0.16 / math.sqrt(inner))
        inputs = [node.input[0], "scale", self.zero[node.input[0]]]
        inputs += [self.weight(node.input[1], TensorProto.INT8, shape), scale, "none"]
        after = self.activated(node)
        result = after.output[0] if after else node.output[0]
        self.zero[result] = "zero" if after else "middle"
        inputs += ["scale", self.zero[result]]
        if conv and len(node.input) > 2 and node.input[2]:
            inputs.append(self.weight(node.input[2], TensorProto.INT32, shape[:1]))
        kept = [a for a in node.attribute if conv and a.name in WINDOW]
        self.add("QLinearConv" if conv else "QLinearMatMul", inputs, [result], name, kept)
        if after:
            skip.add(after.output[0])

    def in_floats(self, node):
        def read(tensor):
            if tensor not in self.zero:
                return tensor
            self.add("DequantizeLinear", [tensor, "scale", self.zero[tensor]], [f"{tensor}.real"], f"{tensor}.real")
            return f"{tensor}.real"

        made = [f"{tensor}.{node.name or node.output[0]}" for tensor in node.output]
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        before = len(self.nodes)
        inputs = [read(tensor) for tensor in node.input]
        for new in self.nodes[before:]:  # each reader has its own
            new.output[0] = f"{new.output[0]}.{node.output[0]}"
        inputs = [f"{tensor}.{node.output[0]}" if tensor.endswith(".real") else tensor for tensor in inputs]
        for words, names in ((copy.input, inputs), (copy.output, made)):
            del words[:]
            words.extend(names)
        self.nodes.append(copy)
        for tensor, real in zip(node.output, made):
            self.zero[tensor] = "zero" if node.op_type in ("Relu", "Clip") else "middle"
            self.add("QuantizeLinear", [real, "scale", self.zero[tensor]], [tensor], f"{tensor}.bytes")

    def is_product(self, node):
        if node.op_type == "Conv":
            return self.static.get(node.input[1]) is not None
        plain = not any(a.name == "transA" and a.i for a in node.attribute)
        return node.op_type in ("Gemm", "MatMul") and plain and self.static.get(node.input[1]) is not None

    def moves(self, node):
        zeros = {self.zero.get(name) for name in node.input if name not in self.static}
        return node.op_type in MOVERS and len(zeros) == 1 and None not in zeros

    def bytes_of(self, values):
        for value in values:
            value.type.tensor_type.elem_type = TensorProto.UINT8
        return values

    def model(self):
        inputs = self.bytes_of([value for value in self.graph.input if value.name not in self.static])
        self.zero.update({value.name: "middle" for value in inputs})
        skip, names = set(), set()
        for node in self.graph.node:
            if node.op_type == "Constant":
                self.nodes.append(node)
            elif node.output[0] in skip:
                continue
            elif self.is_product(node):
                self.product(node, skip)
            elif self.moves(node):
                self.nodes.append(node)
                self.zero[node.output[0]] = self.zero[next(n for n in node.input if n in self.zero)]
            else:
                self.in_floats(node)
        for node in self.nodes:
            names.update(node.input)
        here = {tensor.name for tensor in self.initializers}
        self.initializers += [t for n, t in self.static.items() if t is not None and n in names and n not in here]
        outputs = self.bytes_of(self.graph.output)
        made = helper.make_graph(self.nodes, f"{self.graph.name}-int8", inputs, outputs, self.initializers)
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("file")
    given = parser.parse_args()
    model = Quantiser(onnx.load(given.model, load_external_data=False)).model()
    with open(given.file, "wb") as file:
        file.write(model.SerializeToString())


if __name__ == "__main__":
    main()
