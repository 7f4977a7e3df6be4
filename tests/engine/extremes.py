"""Operators of exported models, with extreme operands and attributes, against ONNX Runtime.

    extremes.py TENURE FOLDER [CASES] [SEED]

TENURE is the command, FOLDER holds models, arrays and the npm package onnxruntime-node (installed there when it is
nowhere). Each case is a model of one random operator: tensors of rank 0 and with extents of 0 and 1, indices and axes
counted from the end, limits far outside, infinities and NaN. Operands are inputs or constants of the file, so results
come from kernels and from what is computed before the run. ONNX Runtime and Tenure run the same file. Models that ONNX
Runtime refuses are counted and not compared.
Exit status: 0 all agree, 1 not all, 77 something is absent.
"""
import json
import os
import subprocess
import sys

try:
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "onnxruntime-node@1.30.0"
TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "uint8": TensorProto.UINT8,
         "int8": TensorProto.INT8, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


class Draw:
    """Random pieces of a case."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)

    def below(self, count):
        return int(self.random.integers(count))

    def of(self, *choices):
        return choices[self.below(len(choices))]

    def between(self, first, last):
        return int(self.random.integers(first, last + 1))

    def shape(self, least=0, most=4, empty=True):
        extents = [self.between(1, 4) for _ in range(self.between(least, most))]
        if empty and extents and self.below(8) == 0:
            extents[self.below(len(extents))] = 0
        return extents

    def kind(self):
        return self.of("float32", "float32", "float64", "int32", "int64", "uint8", "int8", "bool")

    def array(self, shape, kind="float32", low=-9, high=9):
        if kind == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        if kind.startswith("float"):
            x = numpy.array(self.random.standard_normal(shape) * 3, kind)
            if x.size and self.below(12) == 0:
                x.flat[self.below(x.size)] = self.of(numpy.inf, -numpy.inf, numpy.nan, -0.0)
            return x
        return numpy.array(self.random.integers(0 if kind[0] == "u" else low, high + 1, shape), kind)

    def axis(self, rank):
        return self.between(-rank, rank - 1)

    def axes(self, rank):
        chosen = self.random.permutation(rank)[:self.between(0, rank)]
        return [int(a) - (rank if self.below(2) else 0) for a in chosen]

    def narrower(self, shape):
        """A shape that broadcasts with `shape`."""
        out = [1 if self.below(3) == 0 else e for e in shape]
        return out[self.between(0, len(out)):] if self.below(2) else out

    def finite(self, shape, kind="float32"):
        return numpy.nan_to_num(self.array(shape, kind), posinf=1, neginf=1)

    def index(self, extent, shape):
        """Indices from -extent to extent - 1."""
        return numpy.array(self.random.integers(-extent, extent, shape), self.of("int64", "int32"))


def ints(*values):
    return numpy.array(values, numpy.int64)


def listed(values):
    return numpy.array(list(values), numpy.int64)


# A case: type, operands (None: omitted), names of operands that must be constants, attributes, outputs, operator set.
def gather_nd(d):
    batch = d.below(3)
    shape = d.shape(batch + 1, batch + 3, empty=False)
    depth = d.between(1, len(shape) - batch)
    lead = shape[:batch] + d.shape(0, 2) if batch else d.shape(0 if d.below(2) else 1, 3)
    index = numpy.stack([d.random.integers(-e, e, lead) for e in shape[batch:batch + depth]], -1).astype("int64")
    return "GatherND", [d.array(shape, d.kind()), index], (), {"batch_dims": batch}, 1, 18


def scatter_nd(d):
    shape = d.shape(1, 4, empty=False)
    depth, lead = d.between(1, len(shape)), d.shape(0 if d.below(2) else 1, 2)
    index = numpy.stack([d.random.integers(-e, e, lead) for e in shape[:depth]], -1).astype("int64")
    kind, how = d.of("float32", "int32", "int64"), d.of("none", "add", "mul", "max", "min")
    if how == "none" and index.size:  # the order of two updates of one element is not defined
        flat = [numpy.ravel_multi_index(tuple(numpy.mod(i, shape[:depth])), shape[:depth])
                for i in index.reshape(-1, depth)]
        if len(set(flat)) < len(flat):
            how = "add"
    return ("ScatterND", [d.array(shape, kind), index, d.array(lead + shape[depth:], kind)], (), {"reduction": how},
            1, 18)


def gather(d):
    shape = d.shape(1, 4, empty=False)
    axis = d.axis(len(shape))
    return "Gather", [d.array(shape, d.kind()), d.index(shape[axis], d.shape(0, 3))], (), {"axis": axis}, 1, 13


def gather_elements(d):
    shape = d.shape(1, 4, empty=False)
    axis = d.axis(len(shape))
    lead = [d.between(0 if d.below(6) == 0 else 1, e) for e in shape]
    lead[axis] = d.between(0, 6)
    return "GatherElements", [d.array(shape, d.kind()), d.index(shape[axis], lead)], (), {"axis": axis}, 1, 13


def scatter_elements(d):
    shape = d.shape(1, 4, empty=False)
    axis, kind = d.axis(len(shape)), d.of("float32", "int64", "int32")
    lead = [d.between(0 if d.below(6) == 0 else 1, e) for e in shape]
    how = d.of("add", "mul", "max", "min")
    if d.below(2):  # without repetitions
        how, lead[axis] = "none", d.of(0, 1)
    return ("ScatterElements", [d.array(shape, kind), d.index(shape[axis], lead), d.array(lead, kind)], (),
            {"axis": axis, "reduction": how}, 1, 18)


def slicing(d):
    shape = d.shape(1, 4)
    axes = d.axes(len(shape)) or [0]
    far = [-2 ** 63, -2 ** 31, -7, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 2 ** 31 - 1, 2 ** 63 - 1]
    starts, ends = ([d.of(*far) for _ in axes] for _ in range(2))
    steps = [d.of(1, 1, 2, 3, -1, -2, 7, -7, 2 ** 63 - 1, -2 ** 63 + 1) for _ in axes]
    operands = [d.array(shape, d.kind()), listed(starts), listed(ends), listed(axes), listed(steps)]
    return "Slice", operands[:d.of(4, 5)], (1, 2, 3, 4), {}, 1, 13


def padding(d):
    shape, mode = d.shape(1, 4), d.of("constant", "edge", "reflect", "wrap")
    if mode != "constant":
        shape = [max(e, 1) for e in shape]
    kind, low = d.of("float32", "int64", "uint8"), -1 if mode == "constant" else 0
    axes = d.axes(len(shape)) if d.below(2) else None
    spread = [shape[a] for a in axes] if axes is not None else shape
    most = [max(0, e - 1) if mode == "reflect" else e if mode == "wrap" else 3 for e in spread]
    pads = [d.between(max(low, -(e // 2)), m) for e, m in zip(spread, most)]
    pads += [d.between(max(low, -(e // 2)), m) for e, m in zip(spread, most)]
    operands = [d.array(shape, kind), listed(pads)]
    operands.append(d.array([], kind) if mode == "constant" and d.below(2) else None)
    if axes is not None:
        operands.append(listed(axes))
    return "Pad", operands, (1, 3), {"mode": mode}, 1, 19


def expand(d):
    shape = d.shape()
    to = [d.of(1, e) if e != 1 else d.between(0 if d.below(6) == 0 else 1, 4) for e in shape]
    to = d.shape(0, 2) + to if d.below(2) else to[d.between(0, len(to)):]
    return "Expand", [d.array(shape, d.kind()), listed(to)], (1,), {}, 1, 13


def tile(d):
    shape = d.shape()
    return "Tile", [d.array(shape, d.kind()), listed(d.between(0 if d.below(5) == 0 else 1, 3) for _ in shape)], (1,), {}, 1, 13


def where(d):
    shape, kind = d.shape(), d.of("float32", "int64", "uint8", "bool")
    return ("Where", [d.array(d.narrower(shape), "bool"), d.array(d.narrower(shape), kind), d.array(shape, kind)], (), {},
            1, 16)


def top_k(d):
    shape = d.shape(1, 4, empty=False)
    axis = d.axis(len(shape))
    x = numpy.array(d.random.integers(-3, 4, shape), d.of("float32", "int64", "float64"))
    return ("TopK", [x, ints(d.between(0, shape[axis]))], (1,), {"axis": axis, "largest": d.below(2), "sorted": 1}, 2, 11)


def cum_sum(d):
    shape = d.shape(1, 4)
    return ("CumSum", [d.array(shape, d.of("float32", "int32", "int64")), numpy.array(d.axis(len(shape)), d.of("int64", "int32"))],
            (1,), {"exclusive": d.below(2), "reverse": d.below(2)}, 1, 14)


def non_zero(d):
    return "NonZero", [d.array(d.shape(), d.of("bool", "int64", "float32", "uint8"), -1, 1)], (), {}, 1, 13


def one_hot(d):
    depth, shape = d.between(1, 5), d.shape()
    index = d.array(shape, d.of("int64", "int32"), -depth - 1, depth)
    kind = d.of("float32", "int64")
    return ("OneHot", [index, numpy.array(depth, "int64"), d.array([2], kind)], (1,),
            {"axis": d.between(-len(shape) - 1, len(shape))}, 1, 11)


def trilu(d):
    shape = d.shape(2, 4)
    operands = [d.array(shape, d.of("float32", "int64", "bool", "float64"))]
    if d.below(3):
        operands.append(numpy.array(d.of(0, 1, -1, 3, -4, 9, -9), "int64"))
    return "Trilu", operands, (1,), {"upper": d.below(2)}, 1, 14


def counting(d):
    kind = d.of("float32", "float64", "int32", "int64")
    step = d.of(-3, -1, 1, 2, 3) if kind[0] == "i" else d.of(0.1, -0.3, 1.5, 0.7)
    scale = 1 if kind[0] == "i" else 0.1
    return ("Range", [numpy.array(d.between(-20, 20) * scale, kind), numpy.array(d.between(-20, 20) * scale, kind),
                      numpy.array(step, kind)], (0, 1, 2), {}, 1, 11)


def reduction(d):
    shape, kind = d.shape(), d.of("float32", "float32", "int64", "int32")
    how = d.of("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
    if how != "Sum":
        shape = [max(e, 1) for e in shape]
    if how in ("LogSum", "LogSumExp", "L2"):
        kind = "float32"
    x = d.array(shape, kind, -3, 3)
    if how in ("LogSum",):
        x = numpy.abs(x) + 1
    operands, attributes = [x], {"keepdims": d.below(2), "noop_with_empty_axes": d.below(2)}
    if 0 in shape:  # over all axes, ONNX Runtime keeps some of them
        operands.append(listed(a for a, e in enumerate(shape) if e != 0))
        attributes["noop_with_empty_axes"] = 1
    elif d.below(4):
        operands.append(listed(d.axes(len(shape))))
    return "Reduce" + how, operands, (1,), attributes, 1, 18


def arg_extreme(d):
    shape = d.shape(1, 4, empty=False)
    x = numpy.array(d.random.integers(-2, 3, shape), d.of("float32", "int32", "float64"))
    return (d.of("ArgMax", "ArgMin"), [x], (), {"axis": d.axis(len(shape)), "keepdims": d.below(2),
                                                "select_last_index": d.below(2)}, 1, 13)


def split(d):
    shape = d.shape(1, 4, empty=False)
    axis, parts = d.axis(len(shape)), d.between(1, 3)
    if d.below(2):
        sizes = [d.between(0, 3) for _ in range(parts)]
        shape[axis] = sum(sizes)
        return "Split", [d.array(shape, d.kind()), listed(sizes)], (1,), {"axis": axis}, parts, 18
    shape[axis] = d.between(parts, 7)
    each = -(-shape[axis] // parts)
    if (parts - 1) * each >= shape[axis]:
        shape[axis] = parts
    return "Split", [d.array(shape, d.kind())], (), {"axis": axis, "num_outputs": parts}, parts, 18


def concat(d):
    shape, kind = d.shape(1, 4), d.kind()
    axis, operands = d.axis(len(shape)), []
    for _ in range(d.between(1, 4)):
        own = list(shape)
        own[axis] = d.between(0, 3)
        operands.append(d.array(own, kind))
    return "Concat", operands, (), {"axis": axis}, 1, 13


def squeeze(d):
    shape = [d.of(1, 1, 2, 3) for _ in range(d.between(0, 5))]
    ones = [i for i, e in enumerate(shape) if e == 1]
    operands = [d.array(shape, d.kind())]
    if d.below(3):
        operands.append(listed(a - (len(shape) if d.below(2) else 0) for a in ones if d.below(2)))
    return "Squeeze", operands, (1,), {}, 1, 13


def unsqueeze(d):
    shape, more = d.shape(0, 3), d.between(1, 3)
    axes = d.random.permutation(len(shape) + more)[:more]
    return ("Unsqueeze", [d.array(shape, d.kind()), listed(int(a) - (len(shape) + more if d.below(2) else 0) for a in axes)],
            (1,), {}, 1, 13)


def reshape(d):
    shape = d.shape()
    count = int(numpy.prod(shape))
    to = list(d.random.permutation(shape).astype(int)) if d.below(2) else [count]
    allow = 1 if 0 in to else d.below(2)
    if to and d.below(2) and 0 not in to:
        to[d.below(len(to))] = -1
    if not allow and len(to) == len(shape) and shape and 0 not in shape and list(to) == shape:
        to[0] = 0
    return "Reshape", [d.array(shape, d.kind()), listed(to)], (1,), {"allowzero": allow}, 1, 14


def matmul(d):
    m, k, n = d.between(1, 5), d.between(0 if d.below(10) == 0 else 1, 9), d.between(1, 20)
    lead = d.shape(0, 2)
    a, b = d.narrower(lead) + [m, k], d.narrower(lead) + [k, n]
    if d.below(5) == 0:
        a = [k]
    if d.below(5) == 0:
        b = [k]
    kind = d.of("float32", "float32", "float64", "int32")
    return "MatMul", [d.array(a, kind), d.array(b, kind)], (), {}, 1, 13


def gemm(d):
    m, k, n = d.between(1, 5), d.between(1, 40), d.between(1, 20)
    ta, tb = d.below(2), d.below(2)
    operands = [d.array([k, m] if ta else [m, k]), d.array([n, k] if tb else [k, n])]
    if d.below(3):
        operands.append(d.array(d.of([], [1], [n], [1, n], [m, 1], [m, n], [1, 1])))
    return ("Gemm", operands, (), {"transA": ta, "transB": tb, "alpha": d.of(1.0, 0.5, 0.0), "beta": d.of(1.0, 2.0, 0.0)},
            1, 13)


def arithmetic(d):
    shape, type_ = d.shape(), d.of("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min")
    kind = d.of("float32", "int32", "int64", "float64")
    a, b = d.array(shape, kind), d.array(d.narrower(shape), kind)
    attributes = {}
    if type_ == "Mod" or (type_ == "Div" and kind[0] == "i"):
        b = numpy.where(b == 0, 3, b).astype(kind)
        attributes = {"fmod": 1} if type_ == "Mod" and (kind[0] == "f" or d.below(2)) else {}
    if type_ == "Pow" and kind[0] == "i":
        b = abs(b)
    return type_, [a, b] if d.below(2) else [b, a] if type_ in ("Add", "Max", "Min", "Mul", "Sub") else [a, b], (), attributes, 1, 13


def comparison(d):
    shape, kind = d.shape(), d.of("float32", "int32", "int64")
    type_ = d.of("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
    return type_, [d.array(shape, kind, -2, 2), d.array(d.narrower(shape), kind, -2, 2)], (), {}, 1, 16


def unary(d):
    type_ = d.of("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Exp", "Log", "Erf", "Sigmoid", "Tanh", "Softplus",
                 "Relu", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish", "Reciprocal", "IsNaN", "IsInf", "Sin",
                 "Cos", "Atan", "Softsign", "ThresholdedRelu", "Mish")
    return type_, [d.array(d.shape())], (), {}, 1, 20 if type_ == "IsInf" else 18


def clip(d):
    kind = d.of("float32", "int32", "int64", "int8", "uint8")
    operands = [numpy.nan_to_num(d.array(d.shape(), kind))]  # oneDNN makes NaN a bound
    operands += [d.of(None, numpy.array(d.between(0, 5), kind)), d.of(None, numpy.array(d.between(0, 5), kind))]
    while operands[-1] is None:
        operands.pop()
    return "Clip", operands, (), {}, 1, 13


def cast(d):
    kind, to = d.of("float32", "float64", "int32", "int64", "uint8", "bool"), d.kind()
    x = d.array(d.shape(), kind, 0, 9)
    if kind.startswith("float"):  # numbers that do not fit are not defined
        x = numpy.nan_to_num(numpy.abs(x), posinf=7)
    return "Cast", [x], (), {"to": TYPES[to]}, 1, 13


def normalisation(d):
    shape = d.shape(2, 4, empty=False)
    axis = d.axis(len(shape))
    tail = shape[axis % len(shape):]
    operands = [d.finite(shape), d.finite(tail)] + ([d.finite(tail)] if d.below(2) else [])
    return "LayerNormalization", operands, (), {"axis": axis, "epsilon": 1e-3}, 1, 17


def softmax(d):
    shape = d.shape(1, 4)
    return d.of("Softmax", "LogSoftmax", "Hardmax"), [d.finite(shape)], (), {"axis": d.axis(len(shape))}, 1, 13


def resize(d):
    shape = [1, d.between(1, 2), d.between(1, 9), d.between(1, 9)]
    mode = d.of("nearest", "linear", "cubic")
    attributes = {"mode": mode, "coordinate_transformation_mode": d.of("half_pixel", "asymmetric", "align_corners",
                                                                      "pytorch_half_pixel", "half_pixel_symmetric")}
    if mode == "nearest":
        attributes["nearest_mode"] = d.of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    else:
        attributes["antialias"] = d.below(2)
    if mode == "cubic":
        attributes.update(cubic_coeff_a=d.of(-0.5, -0.75), exclude_outside=d.below(2))
    x = d.finite(shape)
    if d.below(2):
        # by scales, ONNX Runtime rounds the length of the output, ONNX does not
        attributes["coordinate_transformation_mode"] = d.of("half_pixel", "asymmetric")
        return ("Resize", [x, None, numpy.array([1, 1, d.of(0.4, 0.5, 1, 1.5, 2, 2.3), d.of(0.6, 0.75, 1, 2, 3)], "float32")],
                (2,), attributes, 1, 19)
    sizes = [d.between(1, 12), d.between(1, 12)]
    # ONNX Runtime leaves an axis alone whose rounded extent is its own, also with a scale other than 1
    if attributes["coordinate_transformation_mode"] in ("half_pixel", "asymmetric") and mode == "nearest":
        attributes["keep_aspect_ratio_policy"] = d.of("stretch", "not_larger", "not_smaller")
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch" or d.below(2):
        return "Resize", [x, None, None, listed(sizes)], (3,), dict(attributes, axes=[2, 3]), 1, 19
    return "Resize", [x, None, None, listed(shape[:2] + sizes)], (3,), attributes, 1, 19


def windows(d):
    spatial = d.between(1, 3)
    kernel = [d.between(1, 3) for _ in range(spatial)]
    pads = [d.between(0, k // 2) for k in kernel] * 2
    attributes = {"kernel_shape": kernel, "strides": [d.between(1, 3) for _ in kernel], "pads": pads}
    shape = [d.between(1, 2), d.between(1, 3)] + [d.between(3, 8) for _ in kernel]
    type_ = d.of("MaxPool", "AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool")
    x = d.finite(shape)
    if type_.startswith("Global"):
        return type_, [x], (), {}, 1, 19
    attributes["dilations"] = [d.between(1, 2) for _ in kernel] if type_ != "AveragePool" else [1] * spatial
    if type_.endswith("Pool"):
        attributes["ceil_mode"] = d.below(2)
        if type_ == "AveragePool":
            attributes["count_include_pad"] = d.below(2)
        return type_, [x], (), attributes, 1, 19
    out = d.between(1, 4)
    weights = [out, shape[1]] if type_ == "Conv" else [shape[1], out]
    operands = [x, d.finite(weights + kernel)]
    if d.below(2):
        operands.append(d.finite([out]))
    return type_, operands, (), attributes, 1, 11


def transpose(d):
    shape = d.shape()
    return "Transpose", [d.array(shape, d.kind())], (), {"perm": [int(p) for p in d.random.permutation(len(shape))]}, 1, 13


def blocks(d):
    side = d.between(1, 3)
    if d.below(2):
        shape = [d.between(0 if d.below(5) == 0 else 1, 2), side * side * d.between(1, 2), d.between(1, 3), d.between(1, 3)]
        return "DepthToSpace", [d.array(shape)], (), {"blocksize": side, "mode": d.of("DCR", "CRD")}, 1, 13
    shape = [1, d.between(1, 2), side * d.between(1, 2), side * d.between(1, 2)]
    return "SpaceToDepth", [d.array(shape)], (), {"blocksize": side}, 1, 13


def shapes(d):
    shape, attributes = d.shape(), {}
    if d.below(2):
        attributes = {"start": d.between(-6, 6)}
        if d.below(2):
            attributes["end"] = d.between(-6, 6)
    if d.below(4) == 0:
        return "Size", [d.array(shape)], (), {}, 1, 13
    return "Shape", [d.array(shape)], (), attributes, 1, 15


def filled(d):
    if d.below(2):
        return "ConstantOfShape", [listed(d.shape())], (0,), {}, 1, 9
    shape = d.shape(2, 2)
    return "EyeLike", [d.array(shape)], (), {"k": d.between(-5, 5)}, 1, 9


def unique(d):
    shape, attributes = d.shape(1, 3, empty=False), {"sorted": d.below(2)}
    if d.below(2):
        attributes["axis"] = d.axis(len(shape))
    return "Unique", [numpy.array(d.random.integers(-2, 3, shape), d.of("float32", "int64"))], (), attributes, 4, 11


def compress(d):
    shape, attributes = d.shape(1, 3), {}
    length = int(numpy.prod(shape))
    if d.below(2):
        attributes["axis"] = d.axis(len(shape))
        length = shape[attributes["axis"]]
    return "Compress", [d.array(shape, d.of("float32", "int64")), d.array([d.between(0, length)], "bool")], (), attributes, 1, 11


def reverse(d):
    shape = d.shape(2, 4, empty=False)
    batch = d.below(2)
    lengths = listed(d.between(0, shape[1 - batch]) for _ in range(shape[batch]))
    return "ReverseSequence", [d.array(shape), lengths], (), {"batch_axis": batch, "time_axis": 1 - batch}, 1, 10


def einsum(d):
    i, j, k = d.between(1, 3), d.between(1, 3), d.between(1, 3)
    equation, shape = d.of(("ij,jk->ik", [[i, j], [j, k]]), ("bij,bjk->bik", [[2, i, j], [2, j, k]]), ("ij->ji", [[i, j]]),
                           ("ii->i", [[i, i]]), ("ij,ij->", [[i, j], [i, j]]), ("i,j->ij", [[i], [j]]),
                           ("...ij,...jk->...ik", [[2, 3, i, j], [1, 3, j, k]]), ("ij->", [[i, j]]))
    return "Einsum", [d.array(s) for s in shape], (), {"equation": equation}, 1, 12


def quantise(d):
    kind, shape = d.of("uint8", "int8"), d.shape(1, 4)
    axis = d.axis(len(shape))
    each = [shape[axis]] if d.below(2) else []
    scale = numpy.abs(d.finite(each)) + numpy.float32(0.01)
    zero = d.array(each, kind)
    if d.below(2):
        x = numpy.nan_to_num(d.array(shape), posinf=99, neginf=-99)
        return "QuantizeLinear", [x, scale.astype("float32"), zero], (), {"axis": axis}, 1, 13
    return "DequantizeLinear", [d.array(shape, kind), scale.astype("float32"), zero], (), {"axis": axis}, 1, 13


def grid(d):
    shape = [d.between(1, 2), d.between(1, 2), d.between(2, 5), d.between(2, 5)]
    points = d.random.uniform(-1.4, 1.4, [shape[0], d.between(1, 3), d.between(1, 3), 2]).astype("float32")
    return ("GridSample", [d.finite(shape), points], (),
            {"mode": d.of("bilinear", "nearest", "bicubic"), "padding_mode": d.of("zeros", "border", "reflection"),
             "align_corners": d.below(2)}, 1, 16)


def affine(d):
    axes = d.between(2, 3)
    theta = d.finite([d.between(1, 2), axes, axes + 1])
    size = [theta.shape[0], 3] + [d.between(2, 4) for _ in range(axes)]
    return "AffineGrid", [theta, listed(size)], (1,), {"align_corners": d.below(2)}, 1, 20


def columns(d):
    axes = d.between(1, 3)
    # dilations: in other than 2 dimensions, ONNX Runtime gives other results than the text
    block, stride, dilation = ([d.between(1, m) for _ in range(axes)] for m in (3, 2, 2 if axes == 2 else 1))
    pads = [d.between(0, 2) for _ in range(2 * axes)]
    image = [(b - 1) * g + d.between(1, 4) for b, g in zip(block, dilation)]
    steps = [(e + pads[i] + pads[axes + i] - (b - 1) * g - 1) // s + 1
             for i, (e, b, g, s) in enumerate(zip(image, block, dilation, stride))]
    x = d.array([d.between(1, 2), 2 * int(numpy.prod(block)), int(numpy.prod(steps))])
    return ("Col2Im", [numpy.nan_to_num(x, posinf=1, neginf=1), listed(image), listed(block)], (1, 2),
            {"strides": stride, "dilations": dilation, "pads": pads}, 1, 18)


def deform(d):
    k, group, moved = [d.between(1, 3), d.between(1, 3)], d.between(1, 2), d.between(1, 2)
    shape = [d.between(1, 2), 2, d.between(3, 6), d.between(3, 6)]
    out = [e - n + 1 for e, n in zip(shape[2:], k)]
    taps = moved * k[0] * k[1]
    clean = [d.finite(s)
             for s in (shape, [2 * group, 2 // group] + k, [shape[0], 2 * taps] + out, [2 * group], [shape[0], taps] + out)]
    return "DeformConv", clean[:d.of(3, 5)], (), {"group": group, "offset_group": moved, "kernel_shape": k}, 1, 19


def groups(d):
    shape = [d.between(1, 2), 4] + [e + 2 for e in d.shape(1, 2, empty=False)]
    x = d.finite(shape)
    if d.below(2):
        return "GroupNormalization", [x, d.finite([4]), d.finite([4])], (), {"num_groups": d.of(1, 2, 4)}, 1, 21
    return "InstanceNormalization", [x, d.finite([4]), d.finite([4])], (), {}, 1, 6


def logic(d):
    shape = d.shape()
    type_ = d.of("And", "Or", "Xor", "Not", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
    kind = d.of("int32", "uint8", "int64") if type_.startswith("Bit") else "bool"
    operands = [d.array(shape, kind), d.array(d.narrower(shape), kind)]
    return type_, operands[:1] if type_.endswith("Not") else operands, (), {}, 1, 18


def variadic(d):
    shape = d.shape()
    operands = [d.array(d.narrower(shape)) for _ in range(d.between(1, 4))]
    return d.of("Sum", "Mean", "Max", "Min"), operands, (), {}, 1, 13


def slopes(d):
    shape = d.shape(1, 4)
    return "PRelu", [d.array(shape), d.array(d.narrower(shape))], (), {}, 1, 16


def neighbours(d):
    shape = [d.between(1, 2), d.between(1, 6)] + d.shape(1, 2, empty=False)
    if d.below(2):
        return ("LRN", [d.finite(shape if len(shape) == 4 else shape + [2])], (),
                {"size": d.of(1, 3, 5), "alpha": 0.3, "beta": 0.6, "bias": 1.2}, 1, 13)
    return "LpNormalization", [d.finite(shape)], (), {"axis": d.axis(len(shape)), "p": d.of(1, 2)}, 1, 1


def norm_pools(d):
    shape = [d.between(1, 2), d.between(1, 3), d.between(3, 7), d.between(3, 7)]
    if d.below(2):
        return "GlobalLpPool", [d.finite(shape)], (), {"p": d.of(1, 2, 3)}, 1, 2
    return ("LpPool", [d.finite(shape)], (), {"p": d.of(1, 2), "kernel_shape": [2, 3], "strides": [d.between(1, 2), 1],
                                              "pads": [d.below(2)] * 4}, 1, 11)


def fourier(d):
    shape = [d.between(1, 2), d.between(1, 9), d.of(1, 2)]
    attributes = {"axis": 1, "inverse": d.below(2)}
    if shape[2] == 1 and not attributes["inverse"]:
        attributes["onesided"] = d.below(2)
    operands = [d.finite(shape)]
    if d.below(2):
        operands.append(numpy.array(d.between(1, 9), "int64"))
    return "DFT", operands, (1,), attributes, 1, 17


def shifts(d):
    shape = d.shape()
    return ("BitShift", [d.array(shape, "uint8", 0, 255), d.array(d.narrower(shape), "uint8", 0, 7)], (),
            {"direction": d.of("LEFT", "RIGHT")}, 1, 11)


def gelu(d):
    return "Gelu", [d.array(d.shape())], (), {"approximate": d.of("none", "tanh")}, 1, 20


def boxes(d):
    count, classes = d.between(0 if d.below(6) == 0 else 1, 6), d.between(1, 2)
    corners = d.random.uniform(0, 4, [1, count, 4]).astype("float32")
    scores = d.random.permutation(count * classes).reshape(1, classes, count).astype("float32") / 10
    operands = [corners, scores, ints(d.of(0, 1, 2, 9)), numpy.array([d.of(0.1, 0.5, 0.9)], "float32")]
    if d.below(2):
        operands.append(numpy.array([d.of(0.05, 0.45)], "float32"))
    return "NonMaxSuppression", operands, (2, 3, 4), {"center_point_box": d.below(2)}, 1, 11


def regions(d):
    rois = d.between(1, 3)
    corners = d.random.uniform(0, 5, [rois, 4]).astype("float32")
    corners[:, 2:] += corners[:, :2]
    return ("RoiAlign", [d.finite([2, 2, 6, 7]), corners, listed(d.below(2) for _ in range(rois))], (),
            {"output_height": d.between(1, 3), "output_width": d.between(1, 3), "sampling_ratio": d.between(0, 2),
             "spatial_scale": d.of(1.0, 0.5), "mode": "avg",
             "coordinate_transformation_mode": d.of("half_pixel", "output_half_pixel")}, 1, 16)


def crops(d):
    shape = d.shape(1, 3, empty=False)
    axes = d.axes(len(shape)) or [0]
    return "CenterCropPad", [d.array(shape), listed(d.between(1, 6) for _ in axes)], (1,), {"axes": axes}, 1, 18


def statistics(d):
    shape = [d.between(1, 2), d.between(1, 3), d.between(2, 4), d.between(2, 4)]
    if d.below(2):
        return "MeanVarianceNormalization", [d.finite(shape)], (), {"axes": d.of([0, 2, 3], [2, 3], [-1], [0, 1, 2, 3])}, 1, 13
    channels = [shape[1]]
    return ("BatchNormalization", [d.finite(shape), d.finite(channels), d.finite(channels), d.finite(channels),
                                   numpy.abs(d.finite(channels)) + numpy.float32(0.1)], (), {"epsilon": 1e-3}, 1, 15)


FAMILIES = (gather_nd, scatter_nd, gather, gather_elements, scatter_elements, slicing, padding, expand, tile, where, top_k,
            cum_sum, non_zero, one_hot, trilu, counting, reduction, arg_extreme, split, concat, squeeze, unsqueeze, reshape,
            matmul, gemm, arithmetic, comparison, unary, clip, cast, normalisation, softmax, resize, windows, transpose,
            blocks, shapes, filled, unique, compress, reverse, einsum, quantise, grid, affine, columns, deform, groups, logic, variadic, slopes, neighbours, norm_pools, fourier, shifts, gelu, boxes, regions,
            crops, statistics)


def write(folder, number, seed):
    draw = Draw([seed, number])
    family = FAMILIES[number % len(FAMILIES)]
    type_, operands, constant, attributes, outputs, opset = family(draw)
    names = ["" if x is None else "x%d" % i for i, x in enumerate(operands)]
    every = draw.below(4) == 0  # everything is known before the run
    fixed = {i for i in range(len(operands)) if i in constant or every or draw.below(4) == 0}
    node = helper.make_node(type_, names, ["y%d" % i for i in range(outputs)], **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(names[i], TYPES[str(x.dtype)], x.shape)
                      for i, x in enumerate(operands) if x is not None and i not in fixed],
        [onnx.ValueInfoProto(name="y%d" % i) for i in range(outputs)],
        [numpy_helper.from_array(numpy.array(x, order="C"), names[i]) for i, x in enumerate(operands)
         if x is not None and i in fixed])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    own = os.path.join(folder, "%d" % number)
    os.makedirs(own, exist_ok=True)
    onnx.save(model, own + "/model.onnx")
    inputs = []
    for i, x in enumerate(operands):
        if x is None or i in fixed:
            continue
        numpy.array(x, order="C").tofile("%s/%s.bin" % (own, names[i]))
        numpy.save("%s/%s.npy" % (own, names[i]), x)
        inputs.append({"name": names[i], "type": str(x.dtype), "dims": list(x.shape), "file": "%s/%s.bin" % (own, names[i])})
    what = "%s %s%s %s" % (type_, ["-" if x is None else "%s%s" % (x.dtype, list(x.shape)) for x in operands],
                           " fixed %s" % sorted(fixed) if fixed else "", attributes)
    return {"model": own + "/model.onnx", "folder": own, "inputs": inputs, "what": what}


def differs(tenure, run, entry):
    """What is wrong with Tenure's outputs; "" when nothing is."""
    line = [tenure, "run", run["model"], "--json", "--output-dir", run["folder"], "--poison"]
    for each in run["inputs"]:
        line += ["--input", "%s=%s" % (each["name"], each["file"][:-4] + ".npy")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip() or "status %d" % done.returncode
    for i, output in enumerate(entry["outputs"]):
        wanted = numpy.fromfile(os.path.join(run["folder"], "%d.bin" % i), output["type"]).reshape(output["dims"])
        got = numpy.load(os.path.join(run["folder"], output["name"] + ".npy"))
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return "%s is %s%s, not %s%s" % (output["name"], got.dtype, got.shape, wanted.dtype, wanted.shape)
        if wanted.dtype.kind != "f":
            same = (got == wanted).ravel()
        else:
            size = numpy.abs(wanted[numpy.isfinite(wanted)]).max(initial=0.1)
            same = numpy.isclose(got, wanted, rtol=1e-5, atol=2e-5 * size, equal_nan=True).ravel()
        if not numpy.all(same):
            at = int(numpy.argmin(same))
            return "%s from element %d on is %s, not %s" % (output["name"], at, str(got.ravel()[at:at + 6]),
                                                            str(wanted.ravel()[at:at + 6]))
    return ""


def main():
    tenure, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else len(FAMILIES)
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 34
    if not os.path.isdir(os.path.join(folder, "node_modules", "onnxruntime-node")):
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run(["npm", "install", "--ignore-scripts", "--no-save", "--no-package-lock", "--prefix",
                               folder, PACKAGE], capture_output=True, text=True, check=False)
        if done.returncode:
            print("SKIP: npm cannot install %s: %s" % (PACKAGE, done.stderr[-200:]))
            return 77
    runs = [write(os.path.join(folder, "extremes"), number, seed) for number in range(count)]
    manifest = os.path.join(folder, "extremes.json")
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump({"modules": folder, "runs": runs}, file)
    done = subprocess.run(["node", os.path.join(HERE, "ort_run.mjs"), manifest], capture_output=True, text=True, check=False)
    entries = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wrong, refused = len(runs) - len(entries), 0
    if wrong:
        print("ONNX Runtime ended after %d of %d models: %s" % (len(entries), len(runs), done.stderr[-300:]))
    for run, entry in zip(runs, entries):
        if "error" in entry:
            refused += 1
            if os.environ.get("TENURE_SHOW"):
                print("ONNX Runtime: %s: %s" % (run["what"], entry["error"][-200:]))
            continue
        reason = differs(tenure, run, entry)
        if reason:
            print("%s (%s): %s" % (os.path.basename(run["folder"]), run["what"], reason[-300:]))
            wrong += 1
    print("%d models of one operator, %d refused by ONNX Runtime, %d wrong" % (len(runs), refused, wrong))
    return 1 if wrong else 0


sys.exit(main())
