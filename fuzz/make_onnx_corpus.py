"""Writes the seeds of fuzz_onnx into a folder: tiny models, one idea each, by Debian's python3-onnx.

    python3 make_onnx_corpus.py fuzz/corpus/onnx
"""
import os
import sys

import numpy
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, shape=None, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def ints(name, *values):
    return numpy_helper.from_array(numpy.array(values, dtype=numpy.int64), name)


def branch(name, *nodes, inputs=(), outputs=("r",), init=()):
    return helper.make_graph(list(nodes), name, list(inputs), [value(o) for o in outputs],
                             initializer=list(init))


def node(kind, ins, outs, **attributes):
    return helper.make_node(kind, ins.split(",") if ins else [], outs.split(","), **attributes)


def convolution():
    weights = helper.make_tensor("w", FLOAT, [4, 3, 3, 3], numpy.zeros(108, "f").tobytes(), raw=True)
    return [node("Conv", "x,w", "c", pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", "c", "y")], \
        [value("x", ["N", 3, 8, 8])], [value("y")], [weights]


def shapes():
    return [node("Shape", "x", "s"), node("Gather", "s,i", "g"), node("Unsqueeze", "g,z", "u"),
            node("Concat", "u,m", "t", axis=0), node("Reshape", "x,t", "y")], \
        [value("x", ["batch", 4, 6])], [value("y")], \
        [helper.make_tensor("i", INT64, [], [0]), ints("z", 0), ints("m", -1)]


def branches():
    return [node("If", "c", "y", then_branch=branch("a", node("Relu", "x", "r")),
                 else_branch=branch("b", node("Neg", "x", "q"), node("Abs", "q", "r")))], \
        [value("x", [2, 3]), value("c", [], BOOL)], [value("y", [2, 3])], []


def loop():
    body = helper.make_graph(
        [node("Add", "v,x", "w"), node("Identity", "k", "k2"), node("Identity", "w", "scan")], "body",
        [value("i", [], INT64), value("k", [], BOOL), value("v", [2, 3])],
        [value("k2", [], BOOL), value("w", [2, 3]), value("scan", [2, 3])])
    return [node("Loop", "n,,x", "last,all", body=body)], [value("x", [2, 3])], \
        [value("last"), value("all")], [helper.make_tensor("n", INT64, [], [4])]


def scan():
    body = helper.make_graph([node("Add", "s,e", "t"), node("Identity", "t", "o")], "body",
                             [value("s", [3]), value("e", [3])], [value("t", [3]), value("o", [3])])
    return [node("Scan", "h,x", "y,all", body=body, num_scan_inputs=1)], \
        [value("h", [3]), value("x", ["T", 3])], [value("y"), value("all")], []


def constants():
    half = helper.make_tensor("h", TensorProto.FLOAT16, [2], numpy.array([1, 2], "e").tobytes(),
                              raw=True)
    return [node("Constant", "", "a", value=half), node("Constant", "", "b", value_ints=[1, 2, 3]),
            node("Constant", "", "f", value_float=0.5), node("Constant", "", "s", value_string="q"),
            node("ConstantOfShape", "b", "z", value=helper.make_tensor("v", INT64, [1], [7])),
            node("Cast", "a", "y", to=FLOAT)], [], [value("y"), value("z", None, INT64)], []


def contents():
    """Elements in their typed fields, and a sparse tensor."""
    sparse = helper.make_sparse_tensor(helper.make_tensor("p", FLOAT, [2], [5, 6]),
                                       helper.make_tensor("q", INT64, [2, 2], [0, 1, 1, 2]), [2, 3])
    typed = [TensorProto(name="t", data_type=INT64, dims=[2], int64_data=[-1, 1 << 40]),
             TensorProto(name="u", data_type=TensorProto.UINT32, dims=[1], uint64_data=[7]),
             TensorProto(name="d", data_type=TensorProto.DOUBLE, dims=[1], double_data=[0.5]),
             TensorProto(name="e", data_type=TensorProto.FLOAT16, dims=[2], int32_data=[1, 0x3c00]),
             TensorProto(name="b", data_type=BOOL, dims=[2], int32_data=[1, 0])]
    constant = helper.make_node("Constant", [], ["s"])
    constant.attribute.add(name="sparse_value", type=11).sparse_tensor.CopyFrom(sparse)
    return [constant, node("Add", "x,s", "y")], [value("x", [2, 3])], [value("y")], typed


def known():
    """A shape that depends on what an input holds."""
    return [node("Range", "a,n,d", "r"), node("Unsqueeze", "r,z", "u"), node("Neg", "x", "e"),
            node("Mul", "u,e", "y")], \
        [value("n", [], INT64), value("x", [1], INT64)], [value("y", None, INT64)], \
        [helper.make_tensor(n, INT64, [], [v]) for n, v in (("a", 0), ("d", 1))] + [ints("z", 1)]


def external():
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4, 4],
                         data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "a.bin"), ("offset", "4096"), ("length", "64")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text
    return [node("MatMul", "x,w", "y")], [value("x", [2, 4])], [value("y")], [tensor]


def optional():
    return [node("Clip", "x,,m", "c"), node("Resize", "c,,s", "r", mode="linear"),
            node("Split", "r,p", "y,q", axis=1), node("Sum", "y,y", "t")], \
        [value("x", [1, 2, 3, 4])], [value("t"), value("q")], \
        [helper.make_tensor("m", FLOAT, [], [6.0]), helper.make_tensor("s", FLOAT, [4], [1, 1, 2, 2]),
         ints("p", 1, 1)]


def sequence():
    return [node("SequenceConstruct", "x,x", "s"), node("SequenceAt", "s,i", "a"),
            node("ConcatFromSequence", "s", "y", axis=0), node("Relu", "a", "z")], \
        [value("x", [2, 3])], [value("y"), value("z")], [helper.make_tensor("i", INT64, [], [0])]


def data_dependent():
    return [node("NonZero", "x", "n"), node("Transpose", "n", "t", perm=[1, 0]),
            node("GatherND", "x,t", "g"), node("TopK", "x,k", "y,j"),
            node("Range", "a,b,d", "r")], [value("x", [3, 4])], \
        [value("g"), value("y"), value("j", None, INT64), value("r", None, INT64)], \
        [ints("k", 2)] + [helper.make_tensor(n, INT64, [], [v]) for n, v in
                          (("a", 0), ("b", 9), ("d", 2))]


def aten():
    nodes = [node("view.default", "x", "v"), node("relu_.default", "v", "r"),
             node("add_.Tensor", "r,w", "y")]
    for n in nodes:
        n.domain = "aten"
    return nodes, [value("x", [2, 3]), value("w1", [6]), value("w", [6])], [value("y", [6])], []


def unsorted():
    return [node("Relu", "b", "y"), node("Relu", "a", "b"), node("Relu", "x", "a")], \
        [value("x", ["N", "N*2+1"])], [value("y", ["N", "M"])], []


def recurrent():
    zeros = numpy.zeros
    return [node("LSTM", "x,w,r", "y,h,", hidden_size=2)], [value("x", [5, 1, 2])], \
        [value("y"), value("h")], \
        [numpy_helper.from_array(zeros((1, 8, 2), "f"), "w"),
         numpy_helper.from_array(zeros((1, 8, 2), "f"), "r")]


def attention():
    return [node("MatMul", "q,k", "s"), node("Softmax", "s", "p", axis=-1),
            node("Einsum", "p,v", "e", equation="bij,bjk->bik"), node("Transpose", "e", "t",
                                                                      perm=[1, 0, 2]),
            node("ReduceMean", "t", "m", axes=[-1]), node("Sub", "t,m", "y")], \
        [value("q", ["N", "T", 4]), value("k", ["N", 4, "T"]), value("v", ["N", "T", 4])], \
        [value("y")], []


def write(folder, name, parts, functions=(), opset=17, extra=(), more=0):
    nodes, inputs, outputs, initializers = parts
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("aten", 1),
               helper.make_opsetid("f", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    for entry in extra:
        graph_extra = model.graph.value_info.add()
        graph_extra.CopyFrom(entry)
    symbols = {d.dim_param for i in inputs for d in i.type.tensor_type.shape.dim}
    pick = sum(bit for bit, known in ((1, "N"), (2, "batch"), (4, "T")) if known in symbols)
    pick += 64 * any(i.name == "n" for i in inputs) + more
    data = model.SerializeToString() + bytes([15 << 3, pick])  # options, see fuzz_onnx.c
    assert len(data) < 2048, name
    with open(os.path.join(folder, name + ".onnx"), "wb") as file:
        file.write(data)


def functions():
    inner = node("LeakyRelu", "a", "b")
    reference = inner.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "k", 1
    ops = [helper.make_opsetid("", 16), helper.make_opsetid("f", 1)]
    leaf = helper.make_function("f", "Leaf", ["a"], ["b"], [inner], ops, ["k"])
    call = node("Leaf", "p", "m", domain="f")
    forward = call.attribute.add()
    forward.name, forward.ref_attr_name, forward.type = "k", "k", 1
    last = node("Leaf", "m", "q", domain="f", k=0.25)
    twice = helper.make_function("f", "Twice", ["p", "o"], ["q", "p"], [call, last], ops, ["k"])
    parts = [node("Twice", "x", "y,z", domain="f", k=0.5)], [value("x", [2, 3])], \
        [value("y"), value("z")], []
    return parts, [leaf, twice]


def batch():
    return [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Reshape", "t,s", "h"), node("Reshape", "h,r", "y")], \
        [value("x", [1, 6, 8])], [value("y")], [ints("s", 6, 2, 4), ints("r", 6, 1, -1)]


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for make in (convolution, shapes, branches, loop, scan, constants, contents, known, external,
                 optional, sequence, data_dependent, aten, unsorted, recurrent, attention):
        write(folder, make.__name__, make())
    parts, local = functions()
    write(folder, "functions", parts, local)
    write(folder, "batch", batch(), more=8 + 32)
    write(folder, "old", ([node("Relu", "x", "y")], [value("x", [2, 3])], [value("y")], []), opset=7,
          extra=[value("y", [2, 3])])


main()
