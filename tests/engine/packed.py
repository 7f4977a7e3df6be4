"""Products with quantised weights: `tenure run` reads them in their stored bits, and computes what numpy computes.

    packed.py TENURE FOLDER [CASES] [SEED]

Random models of DequantizeLinear and MatMul, Gemm or Gather: weights of 2, 4 and 8 bits, with and without a sign and
zero points, also floats of 4 and 8 bits; one scale, one for each row or column, or one for each block of either; scales
of 16 bits, with everything else in 16 bits, or with a Cast of the scales or of the weights; the matrix also transposed,
by Gemm's transB or by a Transpose; a product and a Gather, or two products, may read one matrix. The right result is
computed in float64 from the unpacked numbers. The memory for weights may not exceed the bytes in the file, rounded up
for each tensor.
Exit status: 0 all right, 1 not, 77 something is absent.
"""
import json
import os
import subprocess
import sys

try:
    import numpy
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

TYPES = {"int8": (TensorProto.INT8, 8, True), "uint8": (TensorProto.UINT8, 8, False), "uint4": (21, 4, False),
         "int4": (22, 4, True), "uint2": (25, 2, False), "int2": (26, 2, True)}
FLOATS = {"float4e2m1": (23, 4, 2, 1), "float8e4m3fn": (17, 8, 4, 3), "float8e5m2": (19, 8, 5, 2)}  # exponent, mantissa


def float_of(code, exponent, mantissa):
    """The number of a code of a small float; codes of NaN and infinity are not asked for."""
    high, low = code >> mantissa & (1 << exponent) - 1, code & (1 << mantissa) - 1
    size = (low + (1 << mantissa if high else 0)) * 2.0 ** (max(high, 1) - (1 << exponent - 1) + 1 - mantissa)
    return -size if code >> exponent + mantissa & 1 else size


def pack(numbers, bits):
    flat = numbers.ravel().astype(numpy.int64) & ((1 << bits) - 1)
    each = 8 // bits
    flat = numpy.concatenate([flat, numpy.zeros(-len(flat) % each, numpy.int64)]).reshape(-1, each)
    return (flat << numpy.arange(each) * bits).sum(axis=1).astype(numpy.uint8).tobytes()


def tensor(name, kind, shape, raw):
    made = onnx.TensorProto(name=name, data_type=kind, raw_data=raw)
    made.dims.extend(shape)
    return made


def build(random, path):
    """A model; its input, the right result and the bytes of its weights."""
    kind = random.choice(list(TYPES) + list(FLOATS))
    real = FLOATS.get(kind)
    number, bits, signed = (real[0], real[1], False) if real else TYPES[kind]
    short = random.choice(["no", "all", "weights", "scales"])  # what has 16 bits
    inner, columns = int(random.integers(1, 150)), int(random.integers(1, 150))
    if random.integers(2):  # whole blocks of a matrix that is stored transposed, also long ones
        inner = 32 * int(random.choice([1, 2, 3, 4, 40, 66]))
    if random.integers(6) == 0:  # more columns than the kernel computes together
        columns = int(random.integers(500, 1100))
    gemm, turn = bool(random.integers(2)), bool(random.integers(2))
    flip = gemm and bool(random.integers(2))
    shape = (columns, inner) if turn != flip else (inner, columns)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if real and bits == 8:
        high = 0x7b  # no NaN
    codes = random.integers(low, high + 1, shape)
    decode = numpy.vectorize(lambda code: float_of(int(code), *real[2:]), otypes=[float]) if real else numpy.float64
    how, axis = random.choice(["one", "each", "blocks"]), int(random.integers(2))
    block = int(random.choice([2, 16, 32, 64, 96, 2112])) if how == "blocks" else 0
    parts = [-(-n // block) if d == axis and block else n for d, n in enumerate(shape)]
    scales = random.random([] if how == "one" else [shape[axis]] if how == "each" else parts)
    scales = (scales / (1 if not real else decode(numpy.array(high)))).astype(
        numpy.float32 if short == "no" else numpy.float16)
    zeros = random.integers(low, high + 1, scales.shape) if random.integers(2) and not real else None

    def spread(values):
        if how == "each":
            return values.reshape([-1 if d == axis else 1 for d in range(2)])
        return numpy.repeat(values, block, axis)[:shape[0], :shape[1]] if how == "blocks" else values
    wide = (decode(codes) - (spread(zeros) if zeros is not None else 0)) * spread(scales).astype(float)
    initial = [tensor("w", number, shape, pack(codes, bits)),
               tensor("s", 1 if short == "no" else 10, scales.shape, scales.tobytes())]
    if zeros is not None:
        initial.append(tensor("z", number, scales.shape, pack(zeros, bits)))
    attributes = {"axis": axis - 2 if random.integers(2) else axis}
    if block:
        attributes["block_size"] = block
    nodes, names, matrix = [], [t.name for t in initial], "d"
    if short == "scales":
        nodes.append(helper.make_node("Cast", ["s"], ["c"], to=1))
        names[1] = "c"
    nodes.append(helper.make_node("DequantizeLinear", names, ["d"], **attributes))
    if short == "weights":
        nodes.append(helper.make_node("Cast", ["d"], ["f"], to=1))
        matrix = "f"
    if turn:
        nodes.append(helper.make_node("Transpose", [matrix], ["t"], perm=[1, 0]))
        matrix = "t"
    rows = [int(random.integers(1, 6)) for _ in range(1 if gemm else random.integers(1, 3))]
    plain, element = (numpy.float16, 10) if short == "all" else (numpy.float32, 1)
    x = random.standard_normal(rows + [inner]).astype(plain)
    wanted = x.astype(float) @ (wide.T if turn != flip else wide)
    if gemm:
        bias = random.standard_normal(columns).astype(plain) if random.integers(2) else None
        nodes.append(helper.make_node("Gemm", ["x", matrix] + (["b"] if bias is not None else []), ["y"],
                                      transB=int(flip)))
        if bias is not None:
            initial.append(tensor("b", element, [columns], bias.tobytes()))
            wanted = wanted + bias
    else:
        nodes.append(helper.make_node("MatMul", ["x", matrix], ["y"]))
    twice = not turn and bool(random.integers(2))
    if twice:  # y + -x times the matrix
        nodes[-1].output[0] = "once"
        nodes.append(helper.make_node("Neg", ["x"], ["n"]))
        nodes.append(helper.make_node("MatMul", ["n", matrix], ["again"]) if not flip else
                     helper.make_node("Gemm", ["n", matrix], ["again"], transB=1))
        nodes.append(helper.make_node("Sub", ["once", "again"], ["y"]))
        wanted = wanted + x.astype(float) @ (wide.T if flip else wide)
    gathers = not turn and not twice and bool(random.integers(2))
    if gathers:  # y + the mean of three rows, some by their numbers from the end
        places = random.integers(-shape[0], shape[0], 3)
        initial.append(tensor("i", 7, [3], places.astype(numpy.int64).tobytes()))
        for node in nodes:
            node.output[0] = "product" if node.output[0] == "y" else node.output[0]
        nodes.append(helper.make_node("Gather", [matrix, "i"], ["rows"], axis=int(random.choice([0, -2]))))
        nodes.append(helper.make_node("ReduceMean", ["rows"], ["mean"], keepdims=0))
        nodes.append(helper.make_node("Add", ["product", "mean"], ["y"]))
        wanted = wanted + wide[places].mean()
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", element, x.shape)],
                              [onnx.ValueInfoProto(name="y")], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    model.ir_version = 10
    onnx.save(model, path)
    what = "%s %s, scales %s along %d by %d, 16 bits: %s, %s%s%s" % (
        kind, shape, how, axis, block, short, "Gemm" if gemm else "MatMul",
        ", turned" if turn else ", twice" if twice else "", ", rows" if gathers else "")
    return x, wanted, sum(-(-len(t.raw_data) // 64) * 64 for t in initial), what


def run(tenure, path, x, folder, *more):
    numpy.save(folder + "/x.npy", x)
    done = subprocess.run([tenure, "run", path, "--json", "--output-dir", folder, "--poison", "--input",
                           "x=" + folder + "/x.npy", *more], capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip()
    return numpy.load(folder + "/y.npy"), json.loads(done.stdout)


def main():
    tenure, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    cases = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 34
    os.makedirs(folder, exist_ok=True)
    random, wrong = numpy.random.default_rng(seed), 0
    path = folder + "/packed.onnx"
    for case in range(cases):
        x, wanted, stored, what = build(random, path)
        got, facts = run(tenure, path, x, folder)
        if got is None:
            problem = facts
        elif got.shape != wanted.shape or numpy.abs(got - wanted).max(initial=0) > (
                1e-4 if got.dtype == numpy.float32 else 2e-3) * numpy.abs(wanted).max(initial=1):
            problem = "another result"
        else:
            problem = "%d bytes of weights, %d in the file" % (facts["weights"], stored) if facts["weights"] > stored else ""
        if not problem and case % 4 == 0:  # `estimate` for the same kernels counts the same bytes
            done = subprocess.run([tenure, "estimate", path, "--kernels", "onednn", "--json"], capture_output=True,
                                  text=True, check=False)
            told = json.loads(done.stdout)
            rounded = facts["weights"] - told["parts"]["weights"]  # each tensor begins at a multiple of 64
            given = {t.name: len(t.raw_data) for t in onnx.load(path).graph.initializer}
            packed = told.get("packed_weights", {})  # also if a Cast makes the scales
            if not 0 <= rounded < 6 * 64 or packed.get("counted") != "stored" or packed["stored"] != sum(
                    given.get(name, 0) for name in "wsz"):
                problem = "estimate tells %s, %s" % (told["parts"], packed)
        if problem:
            print("seed %d, case %d (%s): %s" % (seed, case, what, problem))
            wrong += 1
    print("%d models, %d wrong" % (cases, wrong))
    return 1 if wrong else 0


sys.exit(main())
