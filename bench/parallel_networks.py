#!/usr/bin/python3
"""Two networks whose operators can run at the same time, for bench/streams.c.

    bench/parallel_networks.py FOLDER

nasnet_cell.onnx         two cells after NASNet (Zoph et al. 2018): five blocks of two separable convolutions or
                         pools each, joined by a concatenation; 168 channels of 42 x 42, as in NASNet-A large
parallel_attention.onnx  four layers in which attention and MLP read the same normalised input and run beside each
                         other (GPT-J, PaLM): 128 tokens, width 256, 4 heads
"""
import os
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = numpy.random.default_rng(1)


class Net:
    def __init__(self):
        self.nodes, self.weights, self.count = [], [], 0

    def weight(self, *shape):
        name = "w%d" % len(self.weights)
        scale = 1 / numpy.sqrt(max(1, numpy.prod(shape[1:] if len(shape) > 2 else shape[:1])))
        self.weights.append(numpy_helper.from_array((scale * rng.standard_normal(shape)).astype(numpy.float32), name))
        return name

    def shape(self, *extents):
        name = "w%d" % len(self.weights)
        self.weights.append(numpy_helper.from_array(numpy.array(extents, numpy.int64), name))
        return name

    def op(self, kind, *inputs, **attributes):
        self.count += 1
        name = "%s_%d" % (kind, self.count)
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def save(self, path, x, shape, y):
        ends = [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)], \
               [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "net", ends[0], ends[1], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def separable(net, x, channels, kernel):
    deep = net.op("Conv", x, net.weight(channels, 1, kernel, kernel), group=channels, pads=[kernel // 2] * 4,
                  kernel_shape=[kernel, kernel])
    return net.op("Relu", net.op("Conv", deep, net.weight(channels, channels, 1, 1), kernel_shape=[1, 1]))


def nasnet(path):
    net, channels, before, now = Net(), 168, "x", "x"
    for _ in range(2):
        a, b = (net.op("Conv", of, net.weight(channels, channels if of == "x" else 5 * channels, 1, 1),
                       kernel_shape=[1, 1]) for of in (before, now))
        pool = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        blocks = [net.op("Add", separable(net, b, channels, 3), b),
                  net.op("Add", separable(net, a, channels, 3), separable(net, b, channels, 5)),
                  net.op("Add", net.op("AveragePool", b, **pool), a),
                  net.op("Add", net.op("MaxPool", a, **pool), net.op("AveragePool", a, **pool)),
                  net.op("Add", separable(net, a, channels, 5), separable(net, a, channels, 3))]
        before, now = now, net.op("Concat", *blocks, axis=1)
    net.save(path, "x", [1, channels, 42, 42], net.op("GlobalAveragePool", now))


def attention(net, x, tokens, width, heads):
    parts = []
    for axes in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):  # queries, keys, values
        flat = net.op("MatMul", x, net.weight(width, width))
        split = net.op("Reshape", flat, net.shape(1, tokens, heads, width // heads))
        parts.append(net.op("Transpose", split, perm=axes))
    scores = net.op("Softmax", net.op("MatMul", parts[0], parts[1]), axis=-1)
    joined = net.op("Transpose", net.op("MatMul", scores, parts[2]), perm=[0, 2, 1, 3])
    return net.op("MatMul", net.op("Reshape", joined, net.shape(1, tokens, width)), net.weight(width, width))


def transformer(path):
    net, tokens, width, x = Net(), 128, 256, "x"
    for _ in range(4):
        normal = net.op("LayerNormalization", x, net.weight(width), net.weight(width), axis=-1)
        hidden = net.op("Relu", net.op("MatMul", normal, net.weight(width, 4 * width)))
        wide = net.op("MatMul", hidden, net.weight(4 * width, width))
        x = net.op("Add", x, net.op("Add", attention(net, normal, tokens, width, 4), wide))
    net.save(path, "x", [1, tokens, width], x)


os.makedirs(sys.argv[1], exist_ok=True)
nasnet(os.path.join(sys.argv[1], "nasnet_cell.onnx"))
transformer(os.path.join(sys.argv[1], "parallel_attention.onnx"))
