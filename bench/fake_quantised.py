#!/usr/bin/env python3
"""A model whose convolutions and products read quantised weights, for `tenure train` and `tenure run`.

fake_quantised.py MODEL FILE [--bits 4|8]

Writes MODEL (.onnx with its weights) with a QuantizeLinear and a DequantizeLinear behind the weights of every Conv and Gemm: signed integers,
one scale for each output channel (the largest magnitude of the channel), zero points 0. The weights themselves stay real numbers.
"""
import argparse

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {8: TensorProto.INT8, 4: 22}  # 22: INT4, which older packages of onnx have no name for


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4)
    words = parser.parse_args()
    model = onnx.load(words.model)
    model.opset_import[0].version, model.ir_version = 21, 10
    graph, nodes, most = model.graph, [], 2 ** (words.bits - 1) - 1
    weights = {tensor.name: tensor for tensor in graph.initializer}
    for node in list(graph.node):
        if node.op_type in ("Conv", "Gemm") and node.input[1] in weights:
            name = node.input[1]
            turned = any(a.name == "transB" and a.i for a in node.attribute)
            axis = 1 if node.op_type == "Gemm" and not turned else 0  # of output channels
            values = numpy.moveaxis(numpy_helper.to_array(weights[name]), axis, 0)
            scales = numpy.abs(values.reshape(len(values), -1)).max(1) / most
            scales[scales == 0] = 1
            zero = TensorProto(name=name + ".zero", data_type=TYPES[words.bits], dims=[len(values)])
            zero.raw_data = bytes((len(values) * words.bits + 7) // 8)
            graph.initializer.extend([numpy_helper.from_array(scales.astype(numpy.float32), name + ".scale"), zero])
            parameters = [name + ".scale", name + ".zero"]
            nodes.append(helper.make_node("QuantizeLinear", [name, *parameters], [name + ".stored"], axis=axis))
            nodes.append(helper.make_node("DequantizeLinear", [name + ".stored", *parameters], [name + ".read"], axis=axis))
            node.input[1] = name + ".read"
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, words.file)


if __name__ == "__main__":
    main()
