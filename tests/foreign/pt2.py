#!/usr/bin/env python3
"""Programs of torch.export with known contents: pt2.py TENURE [--seed N] [--count N] [--corpus FOLDER]

The same networks are written as .pt2 and as .onnx: peaks of inference and of training must be equal, and the
results of runs. Random programs of views and operators in place are computed here on strides: the bytes that are
live with PyTorch's operators must be the same. Damaged files must be refused with status 2.
"""
import argparse
import array
import io
import itertools
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from count import case_count  # noqa: E402
from pt2_writer import BOOL, onnx, FLOAT, INT64, UINT8, Network, Program, dense, meta, onnx_node, product  # noqa: E402


def run(tenure, *words):
    done = subprocess.run([tenure, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def fail(name, text):
    sys.exit(f"{name}: {text}")


def check(name, word, told, expected):
    if told != expected:
        fail(name, f"{word} is {told}, expected {expected}")


# --- the same networks as .pt2 and .onnx -----------------------------------------------------------

def perceptron(net):
    x = net.input("x", [4, 32])
    for layer, width in enumerate((64, 48, 10)):
        x = net.linear(x, f"layers.{layer}", width)
        x = net.relu(x) if layer < 2 else x
    net.output(x)


def plain(net):
    x = net.input("x", [2, 3, 24, 24])
    for layer, width in enumerate((8, 16)):
        x = net.pool(net.relu(net.conv(x, f"conv.{layer}", width, 3, pad=1, export=layer == 0)), 2, 2)
    x = net.relu(net.linear(net.flatten(x), "head.0", 32))
    net.output(net.linear(x, "head.1", 10))


def residual(net):
    """In-place operators in one file, ordinary ones in the other."""
    x = net.relu(net.batch_norm(net.conv(net.input("x", [2, 3, 20, 20]), "stem", 8, 3, 1, 1, bias=False), "stem_norm"), inplace=True)
    for layer in range(3):
        y = net.relu(net.batch_norm(net.conv(x, f"{layer}.a", 8, 3, 1, 1, bias=False), f"{layer}.na", core=layer > 0), inplace=True)
        y = net.batch_norm(net.conv(y, f"{layer}.b", 8, 3, 1, 1, bias=False), f"{layer}.nb")
        x = net.relu(net.add_(y, x, inplace=True), inplace=True)
    net.output(net.linear(net.flatten(net.global_pool(x)), "head", 10))


def depthwise(net):
    x = net.unary("hardswish", net.conv(net.input("x", [1, 3, 32, 32]), "stem", 8, 3, 2, 1), "HardSwish")
    for layer in range(2):
        y = net.silu(net.conv(x, f"{layer}.up", 24, 1))
        y = net.silu(net.conv(y, f"{layer}.depth", 24, 3, 1, 1, groups=24))
        x = net.add_(net.conv(y, f"{layer}.down", 8, 1), x)
    net.output(net.linear(net.flatten(net.global_pool(x)), "head", 7))


def squeeze(net):
    x = net.relu(net.conv(net.input("x", [1, 3, 31, 31]), "stem", 8, 3, 2))
    for layer in range(2):
        s = net.relu(net.conv(x, f"{layer}.squeeze", 4, 1))
        x = net.cat([net.relu(net.conv(s, f"{layer}.one", 8, 1)), net.relu(net.conv(s, f"{layer}.three", 8, 3, 1, 1))], 1)
    x = net.pool(x, 3, 2, "average")
    net.output(net.flatten(net.global_pool(net.conv(x, "head", 10, 1))))


def hourglass(net):
    a = net.relu(net.conv(net.input("x", [1, 2, 32, 32]), "a", 8, 3, 1, 1))
    b = net.relu(net.conv(net.pool(a, 2, 2), "b", 16, 3, 1, 1))
    c = net.conv(b, "up", 8, 2, 2, transposed=True)
    x = net.relu(net.conv(net.cat([c, a], 1), "c", 8, 3, 1, 1))
    net.output(net.unary("sigmoid", net.conv(x, "head", 1, 1), "Sigmoid"))


def encoder(net):
    """A transformer as torch.export writes it before decomposition."""
    batch, length, width, heads = 2, 12, 32, 4
    x = net.input("x", [batch, length, width])
    for layer in range(2):
        n = net.layer_norm(x, f"{layer}.n1")
        q, k, v = (net.permute(net.view(net.linear(n, f"{layer}.{w}", width), [batch, length, heads, width // heads]), [0, 2, 1, 3])
                   for w in "qkv")
        a = net.permute(net.attention(q, k, v), [0, 2, 1, 3])
        a = net.view(a, [batch, length, width], "reshape.default")
        x = net.add_(x, net.linear(a, f"{layer}.o", width))
        m = net.linear(net.layer_norm(x, f"{layer}.n2"), f"{layer}.up", 4 * width)
        x = net.add_(x, net.linear(net.gelu(m, "none"), f"{layer}.down", width))
    net.output(net.linear(net.select(x, 1, 0), "head", 5))


def decoder(net):
    """A transformer of core operators: addmm and bmm of views, one product for queries, keys and values."""
    batch, length, width, heads, words = 2, 8, 24, 3, 40
    ids = net.input("ids", [batch, length], INT64)
    table = net.weight("words.weight", [words, width])
    x = net.add("embedding.default", [batch, length, width], {"weight": table, "indices": ids}, "Gather", None, {"axis": 0})
    place = net.weight("places", [length, width])
    x = net.add("add.Tensor", x[1], {"self": x, "other": place}, "Add")
    for layer in range(2):
        n = net.view(net.layer_norm(x, f"{layer}.n1"), [batch * length, width])
        parts = net.split(net.view(net.addmm(n, f"{layer}.qkv", 3 * width), [batch, length, 3 * width]), width, 2)
        q, k, v = (net.view(net.permute(net.view(p, [batch, length, heads, width // heads]), order),
                            [batch * heads] + ([width // heads, length] if order[2] == 3 else [length, width // heads]), "_unsafe_view.default")
                   for p, order in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])))
        s = net.softmax(net.scale(net.matmul(q, k, "bmm.default"), (width // heads) ** -0.5), "_softmax.default")
        a = net.view(net.matmul(s, v, "bmm.default"), [batch, heads, length, width // heads])
        a = net.view(net.permute(a, [0, 2, 1, 3]), [batch * length, width], "_unsafe_view.default")
        x = net.add_(x, net.view(net.addmm(a, f"{layer}.o", width), [batch, length, width]))
        m = net.addmm(net.view(net.layer_norm(x, f"{layer}.n2"), [batch * length, width]), f"{layer}.up", 2 * width)
        m = net.addmm(net.unary("tanh", m, "Tanh"), f"{layer}.down", width)
        x = net.add_(x, net.view(m, [batch, length, width]))
    net.output(net.linear(x, "head", words, bias=False))


def mixer(net):
    """Products over both axes of patches."""
    batch, width = 2, 16
    x = net.conv(net.input("x", [batch, 3, 16, 16]), "patches", width, 4, 4)
    x = net.permute(net.view(x, [batch, width, 16]), [0, 2, 1])
    for layer in range(2):
        t = net.permute(net.layer_norm(x, f"{layer}.n1"), [0, 2, 1])
        t = net.linear(net.gelu(net.linear(t, f"{layer}.t1", 24), "tanh"), f"{layer}.t2", 16)
        x = net.add_(x, net.permute(t, [0, 2, 1]))
        c = net.linear(net.layer_norm(x, f"{layer}.n2"), f"{layer}.c1", 32)
        x = net.add_(x, net.linear(net.gelu(c, "tanh"), f"{layer}.c2", width))
    mean = net.fresh("mean")
    net.program.node("mean.dim", {mean: ([batch, width],)}, self=x[0], dim=[1])
    net.nodes.append(onnx_node("ReduceMean", [x[0], net.numbers([1])[0]], [mean], keepdims=0))
    net.output(net.linear((mean, [batch, width]), "head", 6))


def gates(net):
    """Arithmetic with numbers, comparisons and gates."""
    x = net.input("x", [3, 20])
    a, b = net.split(net.linear(x, "both", 40), 20, 1)
    x = net.mul(net.unary("sigmoid", a, "Sigmoid"), net.unary("tanh", b, "Tanh"))
    mask = net.add("gt.Scalar", x[1], {"self": x}, "Greater", [x, net.scalar(0.1)], dtype=BOOL, other=0.1)
    small = net.scale(x, 0.5)
    x = net.add("where.self", x[1], {"condition": mask, "self": x, "other": small}, "Where")
    x = net.add("pow.Tensor_Scalar", x[1], {"self": x}, "Pow", [x, net.scalar(2.0)], exponent=2.0)
    x = net.add("rsqrt.default", x[1], {"self": net.add("add.Tensor", x[1], {"self": x}, "Add", [x, net.scalar(1.0)], other=1.0)}, None)
    root = net.fresh("root")
    net.nodes.append(onnx_node("Sqrt", [net.program.nodes[-1]["inputs"][0]["arg"]["as_tensor"]["name"]], [root]))
    net.nodes.append(onnx_node("Reciprocal", [root], [x[0]]))
    net.output(net.linear(x, "head", 4))


NETWORKS = [perceptron, plain, residual, depthwise, squeeze, hourglass, encoder, decoder, mixer, gates]


def numpy_array(path):
    data = path.read_bytes()
    length = int.from_bytes(data[8:10], "little")
    if b"'<f4'" not in data[:10 + length]:
        fail(path.name, "not float32")
    return array.array("f", data[10 + length:])


def plan(tenure, path, *words):
    status, out, error = run(tenure, "plan", path, "--json", *words)
    if status != 0:
        fail(path.name, f"status {status} of plan {' '.join(map(str, words))}: {error}")
    return json.loads(out)


def results_of(tenure, path, folder, *words):
    out = folder / f"{path.name}.out"
    status, _, error = run(tenure, "run", path, "--output-dir", out, "--plain", "--quiet", *words)
    if status != 0:
        fail(path.name, f"status {status} of run: {error}")
    return [numpy_array(file) for file in sorted(out.iterdir())]


def check_network(tenure, folder, build, seed):
    net = Network(seed)
    build(net)
    name = build.__name__
    program, model = net.write(folder, name, packed=False)
    for words in ([], ["--no-inplace"], ["--order", "memory"], ["--train", "--loss", "mean-squared"]):
        told, expected = (plan(tenure, path, *words) for path in (program, model))
        for key in ("peak", "lower_bound"):
            check(f"{name} {' '.join(words)}", key, told[key], expected[key])
    legacy = net.program.write(folder / f"{name}_legacy.pt2", legacy=True)
    packed = net.program.write(folder / f"{name}_packed.pt2", packed=True)
    weights = ["--weights", net.program.safetensors(folder / f"{name}.safetensors")]
    expected = results_of(tenure, model, folder)
    for path, words in ((program, []), (packed, []), (legacy, weights)):
        results = results_of(tenure, path, folder, *words)
        check(path.name, "the lengths of its results", list(map(len, results)), list(map(len, expected)))
        worst = max(abs(x - y) / (1 + abs(y)) for a, b in zip(results, expected) for x, y in zip(a, b))
        if not worst < 1e-4:
            fail(path.name, f"the results differ by {worst}")
    for path in (legacy, packed):
        check(path.name, "peak", plan(tenure, path)["peak"], plan(tenure, model)["peak"])


# --- single operators ------------------------------------------------------------------------------

def indices(shape):
    return list(itertools.product(*map(range, shape)))


def operators(choose):
    """(target, shape of the result, type, arguments, function of an index), on x and y of [2, 3, 4] and positive p."""
    shape = [2, 3, 4]
    x, y = ({i: choose.choice((-3.0, -1.5, -0.25, 0.5, 1.0, 2.0, 4.0)) for i in indices(shape)} for _ in "xy")
    p = {i: abs(v) + 0.125 for i, v in x.items()}
    given = {"x": x, "y": y, "p": p}

    def each(target, function, of="x", dtype=FLOAT, **arguments):
        return target, shape, dtype, {"self": of, **arguments}, lambda i: function(given[of][i])

    def both(target, function, dtype=FLOAT, **arguments):
        return target, shape, dtype, {"self": "x", "other": "y", **arguments}, lambda i: function(x[i], y[i])

    def over(i, axes, kept=False):
        """The elements of x over which a reduction runs."""
        fixed = [i[d] if kept else i[d - sum(a < d for a in axes)] for d in range(3) if d not in axes]
        return [x[k] for k in indices(shape) if [k[d] for d in range(3) if d not in axes] == fixed]

    sigmoid = lambda v: 1 / (1 + math.exp(-v))  # noqa: E731
    cases = [each("clamp.default", lambda v: max(-1, min(2, v)), min=-1.0, max=2.0), each("clamp.default", lambda v: max(0, v), min=0.0),
             each("clamp_max.default", lambda v: min(1, v), max=1.0),
             each("hardtanh.default", lambda v: max(-1, min(1, v))), each("hardtanh.default", lambda v: max(0, min(6, v)), min_val=0.0, max_val=6.0),
             each("relu6.default", lambda v: max(0, min(6, v))), each("leaky_relu.default", lambda v: v if v > 0 else 0.01 * v),
             each("leaky_relu.default", lambda v: v if v > 0 else 0.2 * v, negative_slope=0.2),
             each("elu.default", lambda v: v if v > 0 else math.exp(v) - 1), each("hardsigmoid.default", lambda v: max(0, min(1, v / 6 + 0.5))),
             each("hardswish.default", lambda v: v * max(0, min(1, v / 6 + 0.5))), each("softplus.default", lambda v: math.log1p(math.exp(v))),
             each("silu.default", lambda v: v * sigmoid(v)), each("mish.default", lambda v: v * math.tanh(math.log1p(math.exp(v)))),
             each("log.default", math.log, "p"), each("sqrt.default", math.sqrt, "p"), each("rsqrt.default", lambda v: v ** -0.5, "p"),
             each("reciprocal.default", lambda v: 1 / v, "p"), each("erf.default", math.erf), each("sign.default", lambda v: math.copysign(1, v)),
             each("neg.default", lambda v: -v), each("floor.default", math.floor), each("exp.default", math.exp),
             each("pow.Tensor_Scalar", lambda v: v ** 3, exponent=3.0), each("rsub.Scalar", lambda v: 2 - v, other=2.0),
             each("sub.Tensor", lambda v: v - 5, other=5), each("div.Tensor", lambda v: v / 8, other=8.0),
             each("add.Tensor", lambda v: v + 1.5, other=0.75, alpha=2.0),
             both("add.Tensor", lambda a, b: a + 3 * b, alpha=3), both("sub.Tensor", lambda a, b: a - 0.5 * b, alpha=0.5),
             both("mul.Tensor", lambda a, b: a * b), both("div.Tensor", lambda a, b: a / b), both("maximum.default", max), both("minimum.default", min),
             ("pow.Tensor_Tensor", shape, FLOAT, {"self": "p", "exponent": "y"}, lambda i: p[i] ** y[i]),
             ("masked_fill.Scalar", shape, FLOAT, {"self": "x", "mask": "less", "value": 7.0}, lambda i: 7.0 if x[i] < y[i] else x[i]),
             ("where.self", shape, FLOAT, {"condition": "less", "self": "x", "other": "y"}, lambda i: min(x[i], y[i])),
             ("to.dtype", shape, FLOAT, {"self": "same", "dtype": {"as_scalar_type": 7}}, lambda i: float(x[i] != y[i])),
             ("sum.dim_IntList", [3, 4], FLOAT, {"self": "x", "dim": [0]}, lambda i: sum(over(i, [0]))),
             ("sum.dim_IntList", [2, 1, 1], FLOAT, {"self": "x", "dim": [1, -1], "keepdim": True}, lambda i: sum(over(i, [1, 2], True))),
             ("mean.dim", [2, 4], FLOAT, {"self": "x", "dim": [1]}, lambda i: sum(over(i, [1])) / 3),
             ("mean.default", [], FLOAT, {"self": "x"}, lambda i: sum(x.values()) / 24),
             ("amax.default", [2, 3], FLOAT, {"self": "x", "dim": [-1]}, lambda i: max(over(i, [2]))),
             ("cumsum.default", shape, FLOAT, {"self": "x", "dim": 2}, lambda i: sum(x[i[0], i[1], k] for k in range(i[2] + 1))),
             ("triu.default", shape, FLOAT, {"self": "x", "diagonal": 1}, lambda i: x[i] if i[2] - i[1] >= 1 else 0),
             ("tril.default", shape, FLOAT, {"self": "x"}, lambda i: x[i] if i[2] <= i[1] else 0),
             ("constant_pad_nd.default", [2, 6, 6], FLOAT, {"self": "x", "pad": [2, 0, 1, 2], "value": 9.0},
              lambda i: x.get((i[0], i[1] - 1, i[2] - 2), 9.0)),
             ("repeat.default", [2, 2, 3, 8], FLOAT, {"self": "x", "repeats": [2, 1, 1, 2]}, lambda i: x[i[1], i[2], i[3] % 4]),
             ("stack.default", [2, 2, 3, 4], FLOAT, {"tensors": ["x", "y"], "dim": 1}, lambda i: (x, y)[i[1]][i[0], i[2], i[3]]),
             ("cat.default", [2, 3, 8], FLOAT, {"tensors": ["x", "y"], "dim": -1}, lambda i: (x, y)[i[2] // 4][i[0], i[1], i[2] % 4]),
             ("slice.Tensor", [2, 3, 2], FLOAT, {"self": "x", "dim": 2, "start": 1, "end": 9223372036854775807, "step": 2},
              lambda i: x[i[0], i[1], 1 + 2 * i[2]]),
             ("slice.Tensor", [2, 2, 4], FLOAT, {"self": "x", "dim": 1, "start": -2}, lambda i: x[i[0], i[1] + 1, i[2]]),
             ("narrow.default", [2, 3, 2], FLOAT, {"self": "x", "dim": 2, "start": 1, "length": 2}, lambda i: x[i[0], i[1], i[2] + 1]),
             ("select.int", [2, 4], FLOAT, {"self": "x", "dim": 1, "index": -1}, lambda i: x[i[0], 2, i[1]]),
             ("transpose.int", [4, 3, 2], FLOAT, {"self": "x", "dim0": 0, "dim1": -1}, lambda i: x[i[2], i[1], i[0]]),
             ("permute.default", [4, 2, 3], FLOAT, {"self": "x", "dims": [2, 0, 1]}, lambda i: x[i[1], i[2], i[0]]),
             ("expand.default", [2, 2, 3, 4], FLOAT, {"self": "x", "size": [2, -1, -1, -1]}, lambda i: x[i[1:]]),
             ("index.Tensor", [3, 3, 4], FLOAT, {"self": "x", "indices": ["rows"]}, lambda i: x[(1, 0, 1)[i[0]], i[1], i[2]]),
             ("index_select.default", [2, 3, 4], FLOAT, {"self": "x", "dim": 1, "index": "rows"}, lambda i: x[i[0], (1, 0, 1)[i[1]], i[2]]),
             ("full.default", [2, 2], FLOAT, {"size": [2, 2], "fill_value": 2.5}, lambda i: 2.5),
             ("ones_like.default", shape, FLOAT, {"self": "x"}, lambda i: 1),
             ("arange.start_step", [3], FLOAT, {"start": 1, "end": 4, "step": 1}, lambda i: 1 + i[0]),
             ("linear.default", [2, 3, 3], FLOAT, {"input": "x", "weight": "w", "bias": None},
              lambda i: sum(x[i[0], i[1], k] * x[0, i[2], k] for k in range(4))),
             ("baddbmm.default", [2, 3, 3], FLOAT, {"self": "square", "batch1": "x", "batch2": "turned"},
              lambda i: 1 + sum(x[i[0], i[1], k] * y[i[0], i[2], k] for k in range(4))),
             ("max_pool1d.default", [2, 3, 3], FLOAT, {"self": "x", "kernel_size": [2], "stride": [1]}, lambda i: max(x[i], x[i[0], i[1], i[2] + 1])),
             ("avg_pool1d.default", [2, 3, 3], FLOAT, {"self": "x", "kernel_size": [2], "stride": [2], "padding": [1]},
              lambda i: (x.get((i[0], i[1], 2 * i[2] - 1), 0) + x.get((i[0], i[1], 2 * i[2]), 0)) / 2),
             ("adaptive_avg_pool1d.default", [2, 3, 2], FLOAT, {"self": "x", "output_size": [2]},
              lambda i: (x[i[0], i[1], 2 * i[2]] + x[i[0], i[1], 2 * i[2] + 1]) / 2),
             ("softmax.int", shape, FLOAT, {"self": "x", "dim": 1}, lambda i: math.exp(x[i]) / sum(math.exp(x[i[0], k, i[2]]) for k in range(3)))]
    for name, mask, causal in (("causal", None, True), ("masked", "mask", False), ("free", None, False)):
        def attend(i, causal=causal, mask=mask):
            scores = [sum(x[i[0], i[1], e] * y[i[0], k, e] for e in range(4)) / 2 for k in range(3)]
            seen = [k for k in range(3) if not (causal and k > i[1]) and not (mask and k == 1)]
            shares = {k: math.exp(scores[k]) for k in seen}
            return sum(shares[k] * p[i[0], k, i[2]] for k in seen) / sum(shares.values())
        cases.append(("scaled_dot_product_attention.default", shape, FLOAT,
                      {"query": "x", "key": "y", "value": "p", "attn_mask": mask, "dropout_p": 0.0, "is_causal": causal}, attend))
    return given, cases


def operators_begin(given):
    """A program with the operands of all cases."""
    program, shape = Program(), [2, 3, 4]
    for name in given:
        program.input(name, shape)
    program.input("rows", [3], INT64)
    program.node("lt.Tensor", {"less": (shape, BOOL)}, self="x", other="y")
    program.node("ne.Tensor", {"same": (shape, BOOL)}, self="x", other="y")
    program.node("select.int", {"w": ([3, 4],)}, self="x", dim=0, index=0)
    program.node("ones.default", {"square": ([2, 3, 3],)}, size=[2, 3, 3])
    program.node("transpose.int", {"turned": ([2, 4, 3], FLOAT, [12, 1, 4])}, self="y", dim0=1, dim1=2)
    program.node("arange.default", {"numbers": ([3], INT64)}, end=3)
    program.node("ne.Scalar", {"mask": ([3], BOOL)}, self="numbers", other=1)
    return program


def operators_add(program, cases):
    names = []
    for number, (target, made, dtype, arguments, _) in enumerate(cases):
        names.append(program.node(target, {f"r{number}": (made, dtype)}, **arguments))
        program.output(names[-1])
    return names


def check_operators(tenure, folder, seed):
    given, cases = operators(random.Random(seed))
    program, words = operators_begin(given), []
    for name, data in given.items():
        onnx.npy(folder / f"{name}.npy", "<f4", "(2, 3, 4)", array.array("f", data.values()).tobytes())
        words += ["--input", f"{name}={folder / name}.npy"]
    onnx.npy(folder / "rows.npy", "<i8", "(3,)", array.array("q", [1, 0, 1]).tobytes())
    words += ["--input", f"rows={folder / 'rows'}.npy"]
    names = operators_add(program, cases)
    path, out = program.write(folder / "operators.pt2"), folder / "operators"
    status, _, error = run(tenure, "run", path, *words, "--output-dir", out, "--overwrite", "--plain")
    if status != 0:
        fail("operators", error)
    for name, (target, made, _, arguments, function) in zip(names, cases):
        told, expected = numpy_array(out / f"{name}.npy"), [function(i) for i in indices(made)]
        check(f"{target} {arguments}", "the number of elements", len(told), len(expected))
        if not all(abs(a - b) < 1e-4 * (1 + abs(b)) for a, b in zip(told, expected)):
            fail(f"{target} {arguments}", f"{list(told)} is not {expected}")
    return len(cases)


# --- storages --------------------------------------------------------------------------------------

class Strided:
    """A tensor as PyTorch has it: extents and strides over a storage, from an offset on."""

    def __init__(self, name, shape, strides, storage, offset=0):
        self.name, self.shape, self.strides, self.storage, self.offset = name, shape, strides, storage, offset

    def places(self):
        """The place of each element in the storage, in order."""
        places = [self.offset]
        for extent, stride in zip(self.shape, self.strides):
            places = [p + i * stride for p in places for i in range(extent)]
        return places

    def viewed(self, shape):
        """The strides of a view of another shape, or None: found by trying all elements."""
        places = [place - self.offset for place in self.places()]
        strides, step = [0] * len(shape), len(places)
        for d, extent in enumerate(shape):
            step //= extent
            strides[d] = places[step] - places[0] if extent > 1 else 1
        again = [0]
        for extent, stride in zip(shape, strides):
            again = [p + i * stride for p in again for i in range(extent)]
        return strides if again == places else None


def random_shape(choose):
    return [choose.choice((1, 2, 3, 4)) for _ in range(choose.randint(1, 4))]


def other_shape(choose, count):
    shape = []
    while count > 1:
        factors = [f for f in (2, 3, 4, 6) if count % f == 0] or [count]
        shape.append(choose.choice(factors))
        count //= shape[-1]
    return shape or [1]


def check_storages(tenure, folder, seed):
    choose, program = random.Random(seed), Program()
    shape = random_shape(choose)
    live = [Strided(program.input("x", shape), shape, dense(shape), 0)]
    given = [choose.choice((-2.0, -1.0, 0.5, 1.0, 3.0)) for _ in range(product(shape))]
    bytes_of, made, last, memory = {0: 4 * product(shape)}, {0: 0}, {0: 0}, {0: list(given)}
    for step in range(1, choose.randint(3, 25)):
        x, name = choose.choice(live), f"v{step}"
        kind = choose.choice(("relu", "relu", "relu_", "reshape", "reshape", "permute", "permute", "unsqueeze", "select", "expand", "slice",
                              "contiguous", "clone", "add_"))
        if kind in ("relu_", "add_") and (0 in x.strides or choose.random() < 0.6):
            kind = "relu"
        shape, strides, storage, arguments, target = x.shape, x.strides, x.storage, {"self": x.name}, kind + ".default"
        offset = x.offset
        if kind in ("relu", "clone"):
            strides, storage = dense(shape), step
        elif kind == "add_":
            target, arguments["other"] = "add_.Tensor", 1.0
        elif kind == "contiguous" and [s for s, e in zip(strides, shape) if e > 1] != [s for s, e in zip(dense(shape), shape) if e > 1]:
            strides, storage = dense(shape), step
        elif kind == "reshape":
            shape = other_shape(choose, product(x.shape))
            arguments["shape"], strides = shape, x.viewed(shape)
            if strides is None:
                strides, storage = dense(shape), step
        elif kind == "permute":
            order = choose.sample(range(len(shape)), len(shape))
            arguments["dims"], shape, strides = order, [x.shape[d] for d in order], [x.strides[d] for d in order]
        elif kind == "unsqueeze":
            shape, strides, arguments["dim"] = [1] + shape, [product(shape)] + strides, 0
        elif kind == "select" and len(shape) > 1:
            target, arguments["dim"], arguments["index"] = "select.int", 0, 0
            shape, strides = shape[1:], strides[1:]
        elif kind == "expand":
            shape, strides, arguments["size"] = [3] + shape, [0] + strides, [3] + shape
        elif kind == "slice" and shape[0] > 1:
            target, arguments["dim"], arguments["start"], arguments["end"] = "slice.Tensor", 0, 1, 9223372036854775807
            shape, offset = [shape[0] - 1] + shape[1:], offset + strides[0]
        elif kind in ("select", "slice"):
            target = "detach.default"
        if product(shape) > 5000:
            continue
        program.node(target, {name: (shape, FLOAT, strides)}, **arguments)
        number = len(program.nodes)
        last[x.storage] = number
        if kind in ("relu_", "add_"):
            for place in x.places():
                memory[x.storage][place] = max(0.0, memory[x.storage][place]) if kind == "relu_" else memory[x.storage][place] + 1
        if storage == step:
            old = [memory[x.storage][place] for place in x.places()]
            memory[step], offset = [max(0.0, v) for v in old] if kind == "relu" else old, 0
        if storage == step:
            bytes_of[storage], made[storage] = 4 * product(shape), number
        last[storage] = number
        live.append(Strided(name, shape, strides, storage, offset))
    result = choose.choice(live[1:] or live)
    program.output(result.name)
    last[result.storage] = len(program.nodes) + 1
    expected = max(sum(bytes_of[s] for s in bytes_of if made[s] <= at <= last[s]) for at in range(1, len(program.nodes) + 2)) \
        if program.nodes else bytes_of[0]
    path = program.write(folder / "storages.pt2")
    told = plan(tenure, path, "--keep-aten", "--no-inplace", "--alignment", 1)
    check(f"storages of seed {seed}", "the lower bound", told["lower_bound"], expected)
    onnx.npy(folder / "x.npy", "<f4", f"({', '.join(map(str, live[0].shape))},)", array.array("f", given).tobytes())
    out = folder / "storages"
    status, _, error = run(tenure, "run", path, "--input", f"x={folder / 'x.npy'}", "--output-dir", out, "--overwrite")
    if status != 0 and "views are read later" in error:
        return 0  # PyTorch's own operators, which do not run
    if status != 0:
        fail(f"storages of seed {seed}", error)
    check(f"storages of seed {seed}", "the result", list(numpy_array(out / f"{result.name}.npy")),
          [memory[result.storage][place] for place in result.places()])
    return 1


# --- symbols ---------------------------------------------------------------------------------------

SYMBOL = "Symbol('s77', positive=True, integer=True)"


def symbolic(most):
    program = Program()
    program.ranges = {"s77": {"min_val": 2, "max_val": most}}
    x = program.input("x", [(SYMBOL, 4), 6])
    two = (f"Mul(Integer(2), {SYMBOL})", 8)
    program.numbers["double"] = {"as_expr": {"expr_str": two[0], "hint": {"as_int": 8}}}
    sizes = {"as_sym_ints": [{"as_name": "double"}, {"as_int": 3}]}
    program.node("view.default", {"y": ([two, 3],)}, self=x, size=sizes)
    program.node("relu.default", {"z": ([(f"FloorDiv(Add({SYMBOL}, {SYMBOL}), Integer(1))", 8), 3],)}, self="y")
    program.output("z")
    return program


def check_symbols(tenure, folder):
    open_path = symbolic(None).write(folder / "open.pt2")
    bound_path = symbolic(16).write(folder / "bound.pt2")
    for words, size in ((["--dim", "s77=5"], 5), (["--input-shape", "x=7,6"], 7), (["--batch", "9"], 9)):
        check("symbols", "naive", plan(tenure, open_path, *words, "--alignment", 1, "--keep-aten")["naive"], size * 48)
    check("symbols", "naive at the bound", plan(tenure, bound_path, "--alignment", 1, "--keep-aten")["naive"], 16 * 48)
    for path, words, reason in ((open_path, [], "no value for 's77'"),  (open_path, ["--dim", "s78=3"], "s78"),
                                (open_path, ["--input-shape", "x=3,7"], "exported for 6 only"),
                                (open_path, ["--input-shape", "x=3"], "dimensions")):
        status, _, error = run(tenure, "plan", path, *words)
        if status != 2 or reason not in error:
            fail(f"symbols {words}", f"status {status}: {error}")
    for path, size, reason in ((open_path, 1, "for 2 to more"), (bound_path, 17, "for 2 to 16")):
        status, _, error = run(tenure, "plan", path, "--dim", f"s77={size}")
        if status != 0 or reason not in error:
            fail("symbols out of range", f"status {status}: {error}")
    net = Network()
    perceptron(net)
    status, _, error = run(tenure, "plan", net.write(folder, "other")[1], "--keep-aten")
    if status != 2 or "--keep-aten is for .pt2 programs" not in error:
        fail("--keep-aten of .onnx", f"status {status}: {error}")
    program = symbolic(None)
    program.values["z"]["sizes"][0] = {"as_expr": {"expr_str": f"Strange({SYMBOL})", "hint": {"as_int": 8}}}
    told = plan(tenure, program.write(folder / "hint.pt2"), "--dim", "s77=4", "--keep-aten", "--alignment", 1)
    check("symbols", "naive with a hint", told["naive"], 4 * 48)


def check_numbers(tenure, folder):
    """A symbol that is only an argument may have a value and needs none; one in a size that cannot be computed needs
    none, because the size of the example is used."""
    number = {"as_expr": {"expr_str": "Symbol('u0', integer=True)", "hint": None}}
    program = small()
    program.numbers["item"] = number
    program.node("view.default", {"z": ([3, 2],)}, self="y", size={"as_sym_ints": [{"as_name": "item"}, {"as_int": 2}]})
    program.output("z")
    argument_path = program.write(folder / "argument.pt2")
    program = small()
    program.node("relu.default", {"z": ([("Strange(Integer(1), Integer(2), Symbol('u0'))", 6), 2],)}, self="y")
    program.output("z")
    strange_path = program.write(folder / "strange.pt2")
    for path in (argument_path, strange_path):
        for words, status, text in (([], 0, ""), (["--dim", "u0=3"], 0, ""), (["--dim", "u1=3"], 2, "there is 'u0'")):
            done, _, error = run(tenure, "plan", path, "--keep-aten", *words)
            if done != status or text not in error or "no value" in error:
                fail(f"numbers {path.name} {words}", f"status {done}: {error}")
    done, _, error = run(tenure, "plan", symbolic(16).write(folder / "bound.pt2"), "--dim", "s78=3")
    if done != 2 or "there is 's77'" not in error:
        fail("the name of a bound symbol", f"status {done}: {error}")


# --- weights with strides --------------------------------------------------------------------------

def elements(shape, strides, offset, storage):
    """The elements in row-major order."""
    places = [offset]
    for extent, stride in zip(shape, strides):
        places = [p + i * stride for p in places for i in range(extent)]
    return [storage[p] for p in places]


def added(shapes, **more):
    """A program that adds zero to each weight, so that its results are the weights."""
    program = Program()
    zero = program.input("zero", [1])
    for number, shape in enumerate(shapes):
        w = program.parameter(f"w{number}", shape, [0.0], **more)
        program.node("add.Tensor", {f"y{number}": (shape or [1],)}, self=w, other=zero)
        program.output(f"y{number}")
    return program


def check_weights(tenure, folder, seed):
    """Strides and offsets of the list of weights count, whatever the program's own strides are: channels last,
    transposed, expanded, with gaps, and several tensors in one storage; in plain and in compressed archives."""
    choose = random.Random(seed)
    shapes, places = [], []
    for number in range(6):
        shape = [choose.randint(1, 4) for _ in range(choose.randint(0, 4))]
        order = list(range(len(shape)))
        choose.shuffle(order)
        if number == 0:
            shape, order = [3, 2, 2, 4], [0, 2, 3, 1]  # channels last
        strides, step, gap = [0] * len(shape), 1, choose.choice([1, 1, 2])
        for d in reversed(order):
            strides[d] = step * gap if choose.random() < 0.9 or number == 0 else 0
            step = strides[d] * shape[d] if strides[d] else step
        if number == 0:
            strides = [16, 1, 8, 2]
        offset = choose.choice([0, 0, 3])
        room = offset + sum((e - 1) * s for e, s in zip(shape, strides)) + 1 + choose.randint(0, 2)
        shapes.append(shape)
        places.append((strides, offset, [choose.uniform(-9, 9) for _ in range(room)]))
    program = added(shapes)
    expected = []
    for number, (shape, (strides, offset, storage)) in enumerate(zip(shapes, places)):
        program.stored(f"w{number}", storage, strides, offset)
        expected.append(elements(shape, strides, offset, storage))
    twins = len(shapes)  # the same storage as 2 x 3 and as its transpose, and the two square readings
    for strides, shape in (([3, 1], [2, 3]), ([1, 3], [3, 2]), ([2, 1], [2, 2]), ([1, 2], [2, 2])):
        number = len(shapes)
        shapes.append(shape)
        w = program.parameter(f"w{number}", shape, [0.0])
        program.node("add.Tensor", {f"y{number}": (shape,)}, self=w, other="zero")
        program.output(f"y{number}")
        storage = [float(i) for i in range(6)]
        program.stored(f"w{number}", storage, strides, 0, "shared")
        expected.append(elements(shape, strides, 0, storage))
    check("weights", "elements of the twins", expected[twins:], [[0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5], [0, 1, 2, 3], [0, 2, 1, 3]])
    for packed in (False, True):
        path = program.write(folder / f"weights{packed}.pt2", packed=packed)
        out = folder / f"weights{packed}"
        status, _, error = run(tenure, "run", path, "--value", "zero=0", "--output-dir", out)
        if status != 0:
            fail(f"weights, packed {packed}, seed {seed}", f"status {status}: {error}")
            return
        for number, numbers in enumerate(expected):
            told = list(numpy_array(out / f"y{number}.npy"))
            if any(abs(a - b) > 1e-6 for a, b in zip(told, numbers)) or len(told) != len(numbers):
                fail(f"weights, packed {packed}, seed {seed}, w{number} {shapes[number]}", f"{told} != {numbers}")


def check_wrong_weights(tenure, folder):
    """A list of weights that contradicts the program, or its storage, is refused."""
    for what, shape, storage, strides, offset, meta, reason in (
            ("short", [2, 3], [1.0] * 5, [3, 1], 0, {}, "strides reach byte 24"),
            ("offset", [2, 3], [1.0] * 6, [3, 1], 1, {}, "strides reach byte 28"),
            ("stride", [2, 3], [1.0] * 6, [1 << 62, 1], 0, {}, "damaged"),
            ("negative", [2, 3], [1.0] * 6, [-3, 1], 0, {}, "stride -3"),
            ("sizes", [2, 3], [1.0] * 6, [1, 2], 0, {"sizes": [{"as_int": 3}, {"as_int": 2}]}, "size 2 of dimension 0"),
            ("type", [2, 3], [1.0] * 6, [3, 1], 0, {"dtype": UINT8}, "type float32")):
        program = added([shape])
        program.stored("w0", storage, strides, offset, **meta)
        status, _, error = run(tenure, "plan", program.write(folder / f"wrong_{what}.pt2"))
        if status != 2 or reason not in error or "w0" not in error:
            fail(f"weights, {what}", f"status {status}: {error}")


# --- standard input, and wrong names ---------------------------------------------------------------

def check_standard_input(tenure, folder):
    """Each kind of file gives the same answer from standard input, as a file and as a pipe."""
    net = Network(5)
    gates(net)
    pt2, model = net.write(folder, "stdin")
    program = small()
    program.parameter("p", [3], [1.0, 2.0, 3.0])
    program.node("add.Tensor", {"z": ([2, 3],)}, self="y", other="p_p")
    program.output("z")
    weights = program.safetensors(folder / "stdin.safetensors")
    examples = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
    folders = examples / "foreign/xla"
    assignment = next(folders.glob("**/*-buffer-assignment.txt"))
    for words, path in ((["plan", "--json"], pt2), (["plan", "--json"], model), (["fit", "--budget", "1GB", "--json"], pt2),
                        (["plan", "--json"], examples / "models/keywords.tflite"),
                        (["plan", "--json"], examples / "foreign/convolutions.pte"),
                        (["report", "--json"], examples / "foreign/convolutions.pte"),
                        (["verify", "--json"], examples / "foreign/convolutions.pte"),
                        (["estimate", "--json"], weights)):
        file = subprocess.run([tenure, words[0], str(path), *words[1:]], capture_output=True, timeout=120)
        with open(path, "rb") as source:
            plain = subprocess.run([tenure, words[0], "-", *words[1:]], capture_output=True, timeout=120, stdin=source)
        piped = subprocess.run([tenure, words[0], "-", *words[1:]], capture_output=True, timeout=120, input=path.read_bytes())
        if file.returncode != 0:
            fail(f"{words[0]} {path.name}", file.stderr.decode())
        for done in (plain, piped):
            told, expected = (comparable(json.loads(text or "null")) for text in (done.stdout, file.stdout))
            if done.returncode != 0 or told != expected:
                fail(f"{words[0]} - < {path.name}", f"status {done.returncode}: {done.stderr.decode()}")
    done = subprocess.run([tenure, "report", "-"], capture_output=True, text=True, timeout=120, input=assignment.read_text())
    if "XLA" not in done.stdout and "-live-range.txt" not in done.stderr:
        fail("report - < *-buffer-assignment.txt", f"status {done.returncode}: {done.stderr}")


def comparable(answer):
    """An answer without the path of the input, times and random choices."""
    if isinstance(answer, dict):
        return {key: comparable(value) for key, value in answer.items()
                if key not in ("input", "plan", "stages") and "second" not in key}
    return [comparable(value) for value in answer] if isinstance(answer, list) else answer


def check_wrong_names(tenure, folder):
    """A file under the name of another kind: the error says what the file is, and what to do."""
    net = Network(5)
    gates(net)
    pt2, model = (path.read_bytes() for path in net.write(folder, "named"))
    arrays = io.BytesIO()
    with zipfile.ZipFile(arrays, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY")
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "text")
    examples = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
    pte = (examples / "foreign/convolutions.pte").read_bytes()
    lite = (examples / "models/keywords.tflite").read_bytes()
    kinds = {"pt2": (pt2, "a program of torch.export; give it a name that ends in .pt2"), "onnx": (model, "an ONNX model; give it a name that ends in .onnx"),
             "tflite": (lite, "a TensorFlow Lite model; give it a name that ends in .tflite"),
             "pte": (pte, "a program of ExecuTorch; give it a name that ends in .pte"),
             "npz": (arrays.getvalue(), "arrays of NumPy"), "zip": (other.getvalue(), "a zip archive; unpack it first"),
             "cut": (pt2[:len(pt2) // 2], "a damaged zip archive; copy or download it again"),
             "json": (b'{"a": 1}', "JSON text; give it a name that ends in .json"), "gz": (b"\x1f\x8b\x08" + bytes(30), "compressed by gzip; unpack it first")}
    for kind, (data, reason) in kinds.items():
        # a model is refused under the names of other kinds, too
        others = ("gguf", "safetensors", "h5", "npz", "pt", "pth", "ckpt") if kind in ("pt2", "onnx", "tflite") else ()
        for suffix in ("onnx", "tflite", "pt2", "pte") + others:
            if kind == suffix or (suffix == "pt2" and data[:2] == b"PK"):
                continue
            path = folder / f"really_{kind}.{suffix}"
            path.write_bytes(data)
            status, _, error = run(tenure, "plan", path)
            if status != 2 or reason not in error or f"its name says .{suffix}, but it is" not in error:
                fail(f"{kind} under the name of {suffix}", f"status {status}: {error}")


# --- what is refused -------------------------------------------------------------------------------

def small():
    program = Program()
    x = program.input("x", [2, 3])
    program.node("relu.default", {"y": ([2, 3],)}, self=x)
    program.output("y")
    return program


def hostile():
    """(name, program or its JSON, a word of the reason)."""
    for name, sizes, reason in (("negative", [{"as_int": -2}], "size -2"), ("rank", [{"as_int": 1}] * 65, "64 dimensions"),
                                ("huge", [{"as_int": 1 << 62}] * 2, "overflow"), ("text", [{"as_int": "2"}], "neither a number"),
                                ("division", [{"as_expr": {"expr_str": "FloorDiv(Integer(1), Integer(0))", "hint": None}}], "cannot be computed"),
                                ("deep", [{"as_expr": {"expr_str": "Add(" * 500, "hint": None}}], "cannot be computed"),
                                ("open", [{"as_expr": {"expr_str": "Symbol('s0", "hint": None}}], "cannot be computed"),
                                ("less", [{"as_expr": {"expr_str": "Add(Integer(2), Integer(-3))", "hint": None}}], "size -1")):
        program = small()
        for value in program.values.values():
            value["sizes"], value["strides"] = sizes, None
        yield name, program.json(), reason
    made = small()
    made.values["y"]["dtype"] = 99
    yield "type", made.json(), "element type 99"
    made = small()
    made.values["y"]["layout"] = 1
    yield "layout", made.json(), "layout 1"
    made = small()
    made.nodes[0]["inputs"][0]["arg"] = {"as_tensor": {"name": "nobody"}}
    yield "name", made.json(), "'nobody' is not in the list"
    made = small()
    made.node("relu.default", {"z": ([2, 3],)}, self="w")
    made.node("relu.default", {"w": ([2, 3],)}, self="z")
    yield "cycle", made.json(), "no node before it makes"
    made = small()
    made.node("relu.default", ["y"], self="x")
    yield "twice", made.json(), "made by another node"
    made = small()
    made.node("relu.default", ["x"], self="y")
    yield "input", made.json(), "an input already"
    made = small()
    made.inputs.append(made.inputs[0])
    yield "inputs", made.json(), "two inputs"
    made = small()
    made.values["other"] = meta([1])
    made.output("other")
    yield "output", made.json(), "made by no node"
    made = small()
    made.node("torch.ops.higher_order.cond", {"z": ([2, 3],)}, pred="x", true_graph={"as_graph": {"name": "g", "graph": {}}})
    yield "graph", made.json(), "graph of its own"
    for key, value, reason in (("schema_version", {"major": 9, "minor": 0}, "version 9.0"), ("schema_version", 2, "export the model"), ("schema_version", {}, "no schema_version"),
                               ("graph_module", {}, "no graph"), ("graph_module", [], "no graph")):
        made = small().json()
        made[key] = value
        yield f"{key} {reason}", made, reason
    for key, value in (("nodes", {}), ("nodes", None), ("tensor_values", [])):
        made = small().json()
        made["graph_module"]["graph"][key] = value
        yield f"{key} {value}", made, "list"
    yield "array", [], "no schema_version"
    yield "not json", b"{", "model.json"
    yield "depth", b"[" * 100000, "depth"
    yield "double", b'{"a": 1, "a": 2}', "duplicate"


def check_hostile(tenure, folder):
    for name, program, reason in hostile():
        path = small().write(folder / "hostile.pt2", program=program if isinstance(program, bytes) else json.dumps(program))
        status, _, error = run(tenure, "plan", path)
        if status != 2 or reason not in error:
            fail(f"hostile {name}", f"status {status}: {error}")
    whole = small().write(folder / "whole.pt2").read_bytes()
    path = folder / "damaged.pt2"
    for cut in range(0, len(whole), 1 + len(whole) // case_count(100, 20)):
        path.write_bytes(whole[:cut])
        check(f"cut at {cut}", "status", run(tenure, "plan", path, "--quiet")[0], 2)
    choose = random.Random(5)
    for _ in range(case_count(100, 20)):
        bad = bytearray(whole)
        bad[choose.randrange(len(bad))] ^= 1 << choose.randrange(8)
        path.write_bytes(bad)
        status = run(tenure, "plan", path, "--quiet")[0]
        if status not in (0, 2):
            fail("a changed bit", f"status {status}")
    for name, extra, reason in (("a member twice", [("model/models/model.json", "{}")], "two members"),
                                ("a path", [("../x", "")], "leave the folder"), ("an absolute path", [("/x", "")], "leave the folder")):
        small().write(path, extra=extra)
        status, _, error = run(tenure, "plan", path)
        if status != 2 or reason not in error:
            fail(name, f"status {status}: {error}")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    if "pickle of PyTorch" not in run(tenure, "plan", path)[2]:
        fail("a pickle", run(tenure, "plan", path)[2])


# --- operators without a counterpart, buffers ------------------------------------------------------

def check_strangers(tenure, folder):
    """They are planned with the stated sizes; run and train name the operator."""
    program = small()
    program.node("special_bessel_j0.default", {"z": ([2, 3],)}, self="y")
    program.outputs, program.output_specs = [], []
    program.output("z")
    path = program.write(folder / "stranger.pt2")
    check("a stranger", "naive", plan(tenure, path, "--alignment", 1)["naive"], 72)
    for words in (["run"], ["plan", "--train", "--loss", "mean-squared"], ["fit", "--train", "--loss", "mean-squared", "--budget", "1MiB"]):
        status, _, error = run(tenure, *words[:1], path, *words[1:])
        if words[0] != "plan" and (status == 0 or "special_bessel_j0" not in error):
            fail(f"{words[0]} of a stranger", f"status {status}: {error}")


def check_buffers(tenure, folder):
    """A counter and running statistics that change: functional, and in place."""
    for inplace in (False, True):
        program = Program()
        x = program.input("x", [4, 3])
        count = program.parameter("steps", [1], [7.0], "buffer")
        program.node("add_.Tensor" if inplace else "add.Tensor", {"new": ([1],)}, self=count, other=1.0)
        program.node("mul.Tensor", {"y": ([4, 3],)}, self=x, other="new")
        program.output("new", {"buffer_mutation": {"arg": {"name": "new"}, "buffer_name": "steps"}})
        program.output("y")
        path = program.write(folder / f"buffer{inplace}.pt2")
        out = folder / f"buffer{inplace}"
        status, _, error = run(tenure, "run", path, "--output-dir", out)
        check("a buffer", "status", status, 0)
        results = {file.stem: numpy_array(file) for file in out.iterdir()}
        check("a buffer", "its new contents", [list(v) for k, v in results.items() if "new" in k], [[8.0]])
        plan(tenure, path, "--keep-aten")


def attended(net):
    x = net.layer_norm(net.input("x", [2, 3, 8]), "norm")
    q, k, v = (net.permute(net.view(net.linear(x, w, 8), [2, 3, 2, 4]), [0, 2, 1, 3]) for w in "qkv")
    net.output(net.view(net.attention(q, k, v), [2, 24], "reshape.default"))


def windows(net):
    x = net.relu(net.batch_norm(net.conv(net.input("x", [1, 2, 8, 8]), "a", 4, 3, 1, 1), "n", core=False), inplace=True)
    net.output(net.flatten(net.global_pool(net.cat([net.pool(x, 2, 2), net.pool(x, 2, 2, "average")], 1))))


def short(program):
    return json.dumps(program.json(), separators=(",", ":"))


def write_corpus(folder):
    """Archives, and programs as JSON (fuzz_pt2.c)."""
    folder.mkdir(parents=True, exist_ok=True)
    for build in (attended, windows, gates):
        net = Network(3)
        build(net)
        (folder / f"{build.__name__}.json").write_text(short(net.program))
        net.program.weights = {}
        net.program.write(folder / f"{build.__name__}.pt2", packed=True)
    for seed in range(4):
        write_random(folder / f"random{seed}.json", seed)
    given, cases = operators(random.Random(1))
    for first in range(0, len(cases), 4):
        program = operators_begin(given)
        operators_add(program, cases[first:first + 4])
        (folder / f"operators{first}.json").write_text(short(program))
    small().write(folder / "small.pt2")
    small().write(folder / "legacy.pt2", legacy=True)
    program = small()
    program.parameter("p", [3], [1.0, 2.0, 3.0])
    program.node("add.Tensor", {"z": ([2, 3],)}, self="y", other="p_p")
    program.output("z")
    program.write(folder / "weight.pt2")
    (folder / "weight.json").write_text(short(program))
    (folder / "symbols.json").write_text(short(symbolic(16)))


def write_random(path, seed):
    """Operators that no network above has, on small tensors."""
    choose, program = random.Random(seed), Program()
    x = program.input("x", [2, 6])
    y = program.input("ids", [2], INT64)
    rows = [("clamp.default", [2, 6], dict(self=x, min=0.0)), ("sum.dim_IntList", [2], dict(self=x, dim=[1])), ("argmax.default", [2], dict(
        self=x, dim=1)), ("index.Tensor", [2, 6], dict(self=x, indices=[y])), ("constant_pad_nd.default", [2, 8], dict(self=x, pad=[1, 1], value=0.0)),
            ("stack.default", [2, 2, 6], dict(tensors=[x, x], dim=0)), ("unbind.int", None, dict(self=x)), ("arange.default", [4], dict(end=4)),
            ("full.default", [2, 3], dict(size=[2, 3], fill_value=1.0)), ("repeat.default", [4, 6], dict(self=x, repeats=[2, 1])),
            ("dropout.default", [2, 6], dict(input=x, p=0.5, train=True)), ("cumsum.default", [2, 6], dict(self=x, dim=1)),
            ("triu.default", [2, 6], dict(self=x, diagonal=1)), ("_foreach_add_.Scalar", None, dict(self=[x], scalar=1.0)),
            ("copy_.default", [2, 6], dict(self=x, src=x)), ("max_pool1d.default", [2, 3], dict(self=x, kernel_size=[2])),
            ("masked_fill.Scalar", [2, 6], dict(self=x, mask=x, value=0.0)), ("group_norm.default", [2, 6], dict(input=x, num_groups=2))]
    for number, (target, shape, arguments) in enumerate(choose.sample(rows, 9)):
        names = {f"v{number}": (shape,)} if shape else {f"v{number}": ([6],), f"w{number}": ([6],)}
        program.node(target, {} if target.startswith("_foreach") else names, **arguments)
        for name in names if not target.startswith("_foreach") else ():
            program.output(name)
    path.write_text(short(program))


def main():
    warnings.filterwarnings("ignore", "Duplicate name")  # an archive with a member twice is one of the cases
    parser = argparse.ArgumentParser()
    parser.add_argument("tenure")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--corpus", type=pathlib.Path)
    options = parser.parse_args()
    if options.corpus:
        return write_corpus(options.corpus)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for build in NETWORKS:
            check_network(options.tenure, folder, build, options.seed)
        count = check_operators(options.tenure, folder, options.seed)
        ran = sum(check_storages(options.tenure, folder, options.seed * 100000 + seed) for seed in range(case_count(options.count, 20)))
        check_symbols(options.tenure, folder)
        check_numbers(options.tenure, folder)
        for seed in range(case_count(8, 2)):
            check_weights(options.tenure, folder, options.seed * 100 + seed)
        check_wrong_weights(options.tenure, folder)
        check_standard_input(options.tenure, folder)
        check_wrong_names(options.tenure, folder)
        check_hostile(options.tenure, folder)
        check_strangers(options.tenure, folder)
        check_buffers(options.tenure, folder)
    print(f"{len(NETWORKS)} networks, {count} operators, {case_count(options.count, 20)} programs of views, of which {ran} run")


main()
