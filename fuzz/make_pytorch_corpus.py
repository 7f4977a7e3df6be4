"""Writes the seeds of fuzz_pytorch into a folder: small networks of what its rules know, by Debian's python3-onnx.

    python3 make_pytorch_corpus.py fuzz/corpus/pytorch
"""
import os
import sys

import numpy
from onnx import TensorProto, helper, numpy_helper


def value(name, shape=None, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def ints(name, *values):
    return numpy_helper.from_array(numpy.array(values, dtype=numpy.int64), name)


def weights(name, *shape):
    return numpy_helper.from_array(numpy.zeros(shape, numpy.float32), name)


def node(kind, ins, outs, **attributes):
    return helper.make_node(kind, ins.split(","), outs.split(","), **attributes)


def attention():
    parts = [node("MatMul", "x,w", "m"), node("Add", "m,b", "a"), node("Split", "a,p", "q,k,v", axis=2)]
    parts += [node("Reshape", f"{c},s", f"{c}r") for c in "qkv"]
    parts += [node("Transpose", f"{c}r", f"{c}t", perm=perm) for c, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))]
    parts += [node("MatMul", "qt,kt", "sc"), node("Softmax", "sc", "sm"), node("Dropout", "sm", "sd"), node("MatMul", "sd,vt", "o"),
              node("Transpose", "o", "ot", perm=[0, 2, 1, 3]), node("Reshape", "ot,j", "y")]
    return parts, value("x", ["N", 4, 6]), [weights("w", 6, 18), weights("b", 18), ints("p", 6, 6, 6), ints("s", 2, 4, 2, 3), ints("j", 2, 4, 6)]


def blocks():
    parts = [node("Conv", "x,w", "c", pads=[1] * 4), node("BatchNormalization", "c,g,g,g,g", "n"), node("Sigmoid", "n", "s"),
             node("Mul", "n,s", "h"), node("Pad", "h,pp", "hp"), node("AveragePool", "hp", "ap", kernel_shape=[3, 3], strides=[1, 1]),
             node("MaxPool", "h", "mp", kernel_shape=[1, 1]), node("Concat", "ap,mp", "cc", axis=1), node("Slice", "cc,z,o,one", "s1"),
             node("Slice", "cc,o,t,one", "s2"), node("Add", "s1,s2", "ad"), node("GlobalAveragePool", "ad", "ga"),
             node("Flatten", "ga", "f"), node("Gemm", "f,v", "y", transB=1)]
    return parts, value("x", ["N", 3, 6, 6]), [weights("w", 4, 3, 3, 3), weights("g", 4), ints("pp", 0, 0, 1, 1, 0, 0, 1, 1), ints("z", 0),
                                               ints("o", 4), ints("one", 1), ints("t", 8), weights("v", 5, 4)]


def lstm():
    parts = [node("Gather", "e,x", "a"), node("Transpose", "a", "t", perm=[1, 0, 2]), node("Slice", "wi,z,h,z", "w1"),
             node("Slice", "wi,h,q,z", "w2"), node("Concat", "w2,w1", "wc", axis=0), node("Unsqueeze", "wc,z", "w"),
             node("LSTM", "t,w,r", "y0", hidden_size=3), node("Squeeze", "y0,o", "y1"), node("Gather", "y1,i", "y2"), node("MatMul", "y2,v", "y")]
    return parts, value("x", ["N", 5], TensorProto.INT64), [weights("e", 7, 4), weights("wi", 12, 4), ints("z", 0), ints("h", 6), ints("q", 12),
                                                            ints("o", 1), weights("r", 1, 12, 3), numpy_helper.from_array(numpy.array(0), "i"),
                                                            weights("v", 3, 5)]


def norm():
    parts = [node("LayerNormalization", "x,g,g", "l"), node("Gelu", "l", "u"), node("Where", "c,u,l", "h"), node("Expand", "k,s", "e"),
             node("Add", "h,e", "y")]
    mask = numpy_helper.from_array(numpy.array([True, False, True, True]), "c")
    return parts, value("x", ["N", 3, 4]), [weights("g", 4), mask, weights("k", 1, 4), ints("s", 2, 3, 4)]


folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for make, version in ((attention, 13), (blocks, 13), (lstm, 13), (norm, 20)):
    nodes, x, known = make()
    graph = helper.make_graph(nodes, make.__name__, [x], [value("y")], initializer=known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    with open(os.path.join(folder, make.__name__ + ".onnx"), "wb") as file:
        file.write(model.SerializeToString())
