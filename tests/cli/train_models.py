"""Writes small models and data to train on into a folder: train_models.py FOLDER

ONNX is written field by field, so that the tests need no package for it.

train_models.py --scores CHECKPOINT SCORES.npy TRAINED.json: computes scaled.onnx with what the
checkpoint has for its parameters, by itself, and compares with what `tenure run` gave; how many are
right must be what `tenure train` told.
train_models.py --right SCORES.npy OTHER.npy TRAINED.json: the same of two runs of another model, whose
scores must be close.
"""
import gzip
import json
import math
import os
import random
import struct
import sys

FLOAT, INT64 = 1, 7


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name, dims, values, kind=FLOAT):
    form = "<%d%s" % (len(values), "f" if kind == FLOAT else "q")
    return b"".join(number(1, d) for d in dims) + number(2, kind) + block(8, name) + \
        block(9, struct.pack(form, *values))


def value(name, dims, kind=FLOAT):
    def dim(d):
        return block(1, block(2, d) if isinstance(d, str) else number(1, d))
    shape = b"".join(dim(d) for d in dims)
    return block(1, name) + block(2, block(1, number(1, kind) + block(2, shape)))


def node(kind, ins, outs, **attributes):
    data = b"".join(block(1, i) for i in ins.split(",")) + b"".join(block(2, o) for o in outs.split(","))
    data += block(3, kind.lower() + "_" + outs.split(",")[0]) + block(4, kind)
    for key, what in attributes.items():
        ints = what if isinstance(what, list) else None
        data += block(5, block(1, key) + (b"".join(number(8, i) for i in ints) + number(20, 7)
                                          if ints is not None else number(3, what) + number(20, 2)))
    return data


def model(path, nodes, inputs, outputs, weights):
    graph = b"".join(block(1, n) for n in nodes) + block(2, "g") + \
        b"".join(block(5, w) for w in weights) + b"".join(block(11, i) for i in inputs) + \
        b"".join(block(12, o) for o in outputs)
    with open(path, "wb") as file:
        file.write(number(1, 8) + block(7, graph) + block(8, block(1, "") + number(2, 18)))


def weights(name, *dims):
    count = 1
    for d in dims:
        count *= d
    fan = max(1, count // dims[-1]) if len(dims) == 2 else max(1, count // dims[0])
    return tensor(name, dims, [random.gauss(0, fan ** -0.5) for _ in range(count)])


def npy(path, descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * (117 - len(head)) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def idx(path, dims, data):
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(bytes([0, 0, 8, len(dims)]) + struct.pack(">%dI" % len(dims), *dims) + data)


def models():
    """cnn.onnx: pictures of 8 x 8, 10 classes, batch normalisation, dropout. scaled.onnx: a parameter of one element,
    which must not be folded away with what the file has for it. drop.onnx: dropouts whose masks live while much does."""
    ratio = tensor("ratio", [], [0.25])
    layers = [node("Conv", "x,kernel,shift", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
              node("BatchNormalization", "c,gain,bias,mean,variance", "n"),
              node("Relu", "n", "r"),
              node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
              node("Flatten", "p", "f"), node("Dropout", "f,ratio", "d"),
              node("Gemm", "d,w,b", "s")]
    parameters = [weights("kernel", 6, 1, 3, 3), weights("shift", 6), weights("w", 96, 10),
                  tensor("gain", [6], [1.0] * 6), tensor("bias", [6], [0.0] * 6),
                  tensor("mean", [6], [0.0] * 6), tensor("variance", [6], [1.0] * 6),
                  tensor("b", [10], [0.0] * 10), ratio]
    model("cnn.onnx", layers + [node("Identity", "s", "y")],
          [value("x", ["n", 1, 8, 8])], [value("y", ["n", 10])], parameters)
    model("fixed.onnx", layers + [node("Identity", "s", "y")], [value("x", [4, 1, 8, 8])],
          [value("y", [4, 10])], parameters)
    for name, scale in (("rounded.onnx", "8"), ("fake.onnx", "7")):  # scales that differ, and one scale
        model(name, [node("MatMul", "x,w", "s"), node("QuantizeLinear", f"s,{scale}", "q"),
                     node("DequantizeLinear", "q,7", "y")],
              [value("x", ["n", 64])], [value("y", ["n", 10])],
              [weights("w", 64, 10), tensor("7", [], [0.1]), tensor("8", [], [0.2])])
    model("scaled.onnx", [node("MatMul", "x,w", "s"), node("Exp", "scale", "e"),
                          node("Mul", "s,e", "y")],
          [value("x", ["n", 64])], [value("y", ["n", 10])],
          [weights("w", 64, 10), tensor("scale", [1], [0.5])])
    model("nothing.onnx", [node("MatMul", "x,w", "y")], [value("x", [0, 64])],
          [value("y", [0, 10])], [weights("w", 64, 10)])
    model("two.onnx", [node("MatMul", "x,w", "s"), node("Add", "s,z", "y")],
          [value("x", ["n", 64]), value("z", ["n", 10])], [value("y", ["n", 10])],
          [weights("w", 64, 10)])
    same = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    model("drop.onnx", [node("Conv", "x,kernel", "c", **same), node("Dropout", "c,ratio", "d"),
                        node("Conv", "d,again", "e", **same), node("Dropout", "e,ratio", "f"),
                        node("Conv", "f,again", "g", **same), node("Flatten", "g", "h"),
                        node("MatMul", "h,wide", "y")],
          [value("x", ["n", 1, 8, 8])], [value("y", ["n", 10])],
          [tensor("kernel", [6, 1, 3, 3], [0.1] * 54), tensor("again", [6, 6, 3, 3], [0.1] * 324),
           tensor("wide", [384, 10], [i % 7 * 0.01 for i in range(3840)]), ratio])
    model("lm.onnx", [node("Gather", "table,x", "e"), node("MatMul", "e,w", "y")],
          [value("x", ["n", 16], INT64)], [value("y", ["n", 16, 256])],
          [weights("table", 256, 8), weights("w", 8, 256)])
    heads("heads.onnx", 1)
    heads("deep.onnx", 4)
    heads("placed.onnx", 3, True)


def pairs():
    """pair.onnx: weights that are quantised and dequantised by one scale for each of 300 rows. pairs.onnx: the same, with the scale and
    the zero point in two initializers each. pairs_other.onnx: two scales that differ."""
    rows = 300
    fixed = [weights("w", rows, 8), tensor("b", [rows], [0.0] * rows)]
    scale = [0.01 + 0.001 * (i % 7) for i in range(rows)]

    def zero(name):
        return number(1, rows) + number(2, 3) + block(8, name) + block(9, bytes(rows))

    for name, end, factor in (("pair", "", 1), ("pairs", "2", 1), ("pairs_other", "2", 2)):
        given = fixed + [tensor("s", [rows], scale), zero("z")]
        if end:
            given += [tensor("s2", [rows], [factor * s for s in scale]), zero("z2")]
        model(name + ".onnx", [node("QuantizeLinear", "w,s,z", "q", axis=0), node("DequantizeLinear", f"q,s{end},z{end}", "d", axis=0),
                               node("Gemm", "x,d,b", "y", transB=1)], [value("x", ["N", 8])], [value("y", ["N", rows])], given)
    npy("rows.npy", "<f4", (32, 8), struct.pack("<256f", *[random.gauss(0, 1) for _ in range(256)]))
    npy("row_labels.npy", "<i8", (32,), struct.pack("<32q", *[random.randrange(rows) for _ in range(32)]))


def compressed():
    """distil.onnx: a student that learns from a frozen teacher, and gives its own loss. quantised.onnx: two products of weights that
    are rounded to 8 bits. targets.npy: a row of 10 numbers for each sample of reals.npy."""
    own = random.Random(8)

    def made(name, *dims):
        return tensor(name, list(dims), [own.gauss(0, dims[0] ** -0.5) for _ in range(dims[0] * dims[1])])
    model("distil.onnx",
          [node("MatMul", "x,teacher.a", "t1"), node("Relu", "t1", "t2"), node("MatMul", "t2,teacher.b", "t3"),
           node("Softmax", "t3", "taught", axis=1),
           node("MatMul", "x,student.a", "s1"), node("Relu", "s1", "s2"), node("MatMul", "s2,student.b", "scores"),
           node("LogSoftmax", "scores", "logs", axis=1), node("Add", "taught,target", "wanted"), node("Mul", "wanted,logs", "m"),
           node("ReduceSum", "m,const_axis", "sums", keepdims=0), node("Neg", "sums", "each"),
           node("ReduceMean", "each", "loss", keepdims=0)],
          [value("x", ["n", 64]), value("target", ["n", 10])], [value("loss", [])],
          [made("teacher.a", 64, 48), made("teacher.b", 48, 10), made("student.a", 64, 8), made("student.b", 8, 10),
           tensor("const_axis", [1], [1], INT64)])
    zero = number(2, 3) + block(8, "zero") + block(9, b"\0")  # INT8
    model("quantised.onnx",
          [node("QuantizeLinear", "a,scale,zero", "qa"), node("DequantizeLinear", "qa,scale,zero", "da"),
           node("QuantizeLinear", "b,scale,zero", "qb"), node("DequantizeLinear", "qb,scale,zero", "db"),
           node("MatMul", "x,da", "h"), node("Relu", "h", "r"), node("MatMul", "r,db", "y")],
          [value("x", ["n", 64])], [value("y", ["n", 10])],
          [made("a", 64, 32), made("b", 32, 10), tensor("scale", [], [0.01]), zero])


def layer(x, p, nodes, parameters):
    """Attention by 4 heads of 8, and a hidden layer, on x; names begin with p."""
    turned = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
    nodes.append(node("LayerNormalization", f"{x},{p}gain,{p}bias", f"{p}n"))
    for name, order in turned.items():
        nodes += [node("MatMul", f"{p}n,{p}w{name}", f"{p}{name}0"), node("Reshape", f"{p}{name}0,split", f"{p}{name}1"),
                  node("Transpose", f"{p}{name}1", f"{p}{name}", perm=order)]
        parameters.append(weights(f"{p}w{name}", 32, 32))
    nodes += [node("MatMul", f"{p}q,{p}k", f"{p}s0"), node("Mul", f"{p}s0,{p}share", f"{p}s1"), node("Softmax", f"{p}s1", f"{p}s", axis=3),
              node("MatMul", f"{p}s,{p}v", f"{p}o0"), node("Transpose", f"{p}o0", f"{p}o1", perm=[0, 2, 1, 3]),
              node("Reshape", f"{p}o1,join", f"{p}o2"), node("MatMul", f"{p}o2,{p}wo", f"{p}o3"), node("Add", f"{p}o3,{p}bo", f"{p}o4"),
              node("Add", f"{p}o4,{x}", f"{p}a"), node("MatMul", f"{p}a,{p}up", f"{p}u0"), node("Add", f"{p}u0,{p}bu", f"{p}u1"),
              node("Relu", f"{p}u1", f"{p}u"), node("MatMul", f"{p}u,{p}down", f"{p}d"), node("Add", f"{p}d,{p}a", f"{p}f")]
    parameters += [tensor(f"{p}gain", [32], [1.0] * 32), tensor(f"{p}bias", [32], [0.0] * 32), weights(f"{p}wo", 32, 32),
                   tensor(f"{p}bo", [32], [0.0] * 32), weights(f"{p}up", 32, 128), tensor(f"{p}bu", [128], [0.0] * 128),
                   weights(f"{p}down", 128, 32), tensor(f"{p}share", [], [0.35])]
    return f"{p}f"


def heads(path, layers, placed=False):
    """A transformer over 16 bytes of a text; placed: every layer is told where they stand, by the same parameter."""
    nodes, x = [node("Gather", "table,x", "e")], "e"
    parameters = [weights("table", 256, 32), tensor("split", [4], [0, 16, 4, 8], INT64), tensor("join", [3], [0, 16, 32], INT64),
                  weights("out", 32, 256)]
    if placed:
        parameters.append(weights("places", 16, 32))
    for i in range(layers):
        if placed:
            nodes.append(node("Add", f"{x},places", f"p{i}"))
            x = f"p{i}"
        x = layer(x, f"l{i}." if i > 0 else "", nodes, parameters)
    nodes.append(node("MatMul", f"{x},out", "y"))
    model(path, nodes, [value("x", ["n", 16], INT64)], [value("y", ["n", 16, 256])], parameters)


def data():
    count = 96
    labels = [random.randrange(10) for _ in range(count)]
    pictures = bytes(random.randrange(64) + 19 * labels[i] for i in range(count) for _ in range(64))
    npy("x.npy", "|u1", (count, 1, 8, 8), pictures)
    npy("y.npy", "<i8", (count,), struct.pack("<%dq" % count, *labels))
    npy("few.npy", "<i8", (3,), struct.pack("<3q", 1, 2, 3))
    npy("none.npy", "<i8", (0,), b"")
    wrong = labels[:]
    wrong[41] = 10
    npy("wrong.npy", "<i8", (count,), struct.pack("<%dq" % count, *wrong))
    npy("rates.npy", "<f4", (count,), struct.pack("<%df" % count, *labels))
    npy("reals.npy", "<f4", (count, 64), struct.pack("<%df" % (64 * count), *[p / 255 for p in pictures]))
    npy("pictures.npy", "<f4", (count, 1, 8, 8),
        struct.pack("<%df" % (64 * count), *[p / 255 for p in pictures]))
    npy("big.npy", "|u1", (count, 1, 28, 28), bytes(random.randrange(256) for _ in range(784 * count)))
    npy("wide.npy", "|u1", (count, 1, 4, 16), pictures)
    npy("nan.npy", "<f4", (count, 1, 8, 8), struct.pack("<f", float("nan")) * 64 * count)
    npy("targets.npy", "<f4", (count, 10), b"".join(struct.pack("<10f", *[float(label == i) for i in range(10)]) for label in labels))
    with open("book.txt", "wb") as file:
        file.write(b"the quick brown fox jumps over the lazy dog. " * 40)
    for folder in ("set", "cut", "odd"):
        os.mkdir(folder)
        for part in ("train", "t10k"):
            idx(f"{folder}/{part}-images-idx3-ubyte.gz", [count, 8, 8], pictures)
            idx(f"{folder}/{part}-labels-idx1-ubyte.gz", [count], bytes(labels))
    idx("odd/train-labels-idx1-ubyte.gz", [count], bytes(wrong))


def read_npy(path, form):
    with open(path, "rb") as file:
        data = file.read()
    body = data[10 + struct.unpack_from("<H", data, 8)[0]:]
    return struct.unpack("<%d%s" % (len(body) // struct.calcsize(form), form), body)


def read_checkpoint(path):
    with open(path, "rb") as file:
        data = file.read()
    at, found = 80 + 13 * 8, {}  # the head, and the settings of version 4
    for _ in range(struct.unpack_from("<I", data, 12)[0]):
        length, = struct.unpack_from("<I", data, at)
        name, at = data[at + 4:at + 4 + length].decode(), at + 5 + length
        rank, = struct.unpack_from("<I", data, at + 8)
        size, = struct.unpack_from("<Q", data, at + 12 + 8 * rank)
        at += 20 + 8 * rank
        found[name] = struct.unpack_from("<%df" % (size // 4), data, at)
        at += size
    assert at == len(data)
    return found


def scores(checkpoint, given, trained):
    kept, labels = read_checkpoint(checkpoint), read_npy("y.npy", "q")
    x, got = read_npy("reals.npy", "f"), read_npy(given, "f")
    w, scale = kept["w"], math.exp(kept["scale"][0])
    right = 0
    for n, label in enumerate(labels):
        y = [scale * sum(x[64 * n + i] * w[10 * i + j] for i in range(64)) for j in range(10)]
        assert all(abs(a - b) < 1e-4 * (1 + abs(a)) for a, b in zip(y, got[10 * n:10 * n + 10])), (n, y)
        right += y.index(max(y)) == label
    with open(trained) as file:
        told = json.load(file)["test_accuracy"]
    assert abs(told - right / len(labels)) < 1e-6, (told, right)


def count_right(given, other, trained):
    labels, got = read_npy("y.npy", "q"), read_npy(given, "f")
    assert all(abs(a - b) < 1e-3 * (1 + abs(a)) for a, b in zip(got, read_npy(other, "f")))
    rows = [got[10 * n:10 * n + 10] for n in range(len(labels))]
    right = sum(row.index(max(row)) == label for row, label in zip(rows, labels))
    with open(trained) as file:
        told = json.load(file)["test_accuracy"]
    assert abs(told - right / len(labels)) < 1e-6 and right > 40, (told, right)


if __name__ == "__main__":
    random.seed(5)
    if sys.argv[1] == "--scores":
        scores(*sys.argv[2:])
    elif sys.argv[1] == "--right":
        count_right(*sys.argv[2:])
    else:
        os.chdir(sys.argv[1])
        models()
        compressed()
        data()
        pairs()
