"""FlexAttention of ai.onnx.preview, with and without graphs that change scores and probabilities, against numpy.

    flex.py TENURE FOLDER [CASES] [SEED]

Random heads, groups of heads, lengths and types; the operator in the main graph, in a branch of an If or in a function;
graphs that scale, cap, mask by position, and use a name of the graph around them. Some models are wrong: a graph of two
inputs, of no output, or in another attribute. They must be refused with a sentence.
Exit status: 0 all right, 1 not, 77 something is absent.
"""
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

TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16}
PREVIEW = "ai.onnx.preview"


def value(name, kind, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def graph_of(how, kind):
    """Nodes and initializers of a graph from s to t, and the same in numpy."""
    two = numpy_helper.from_array(numpy.array(2, "float64" if kind == TensorProto.DOUBLE else "float32"), "two")
    if how == "scale":
        return [helper.make_node("Mul", ["s", "two"], ["t"])], [two], lambda s, bias: s * 2
    if how == "cap":
        nodes = [helper.make_node("Div", ["s", "two"], ["u"]), helper.make_node("Tanh", ["u"], ["w"]),
                 helper.make_node("Mul", ["w", "two"], ["t"])]
        return nodes, [two], lambda s, bias: numpy.tanh(s / 2) * 2
    if how == "outer":  # reads a name of the graph around
        return [helper.make_node("Add", ["s", "bias"], ["t"])], [], lambda s, bias: s + bias
    nodes = [helper.make_node("Trilu", ["s"], ["t"], upper=0)]  # by position
    return nodes, [], lambda s, bias: numpy.tril(s)


def make(random, path, fault=""):
    precision = random.choice(["float32", "float32", "float64", "float16"])
    inner = TensorProto.DOUBLE if precision == "float64" else TensorProto.FLOAT
    batch, groups, share = (int(random.integers(1, 4)) for _ in range(3))
    queries, keys, size, value_size = (int(random.integers(1, 20)) for _ in range(4))
    q = random.standard_normal([batch, groups * share, queries, size]).astype(precision)
    k = random.standard_normal([batch, groups, keys, size]).astype(precision)
    v = random.standard_normal([batch, groups, keys, value_size]).astype(precision)
    bias = random.standard_normal([queries, keys]).astype("float64" if precision == "float64" else "float32")
    attributes, functions, scale = {}, {}, size ** -0.5
    if random.integers(2):
        scale = attributes["scale"] = float(numpy.float32(random.uniform(0.1, 2)))
    where = random.choice(["main", "branch", "function"])
    for name in ("score_mod", "prob_mod"):
        if random.integers(2) or (fault and name == "score_mod"):
            nodes, initial, functions[name] = graph_of(
                random.choice(["scale", "cap", "position"] + (["outer"] if where != "function" else [])), inner)
            inputs, outputs = [value("s", inner, ["B", "H", "S", "L"])], [value("t", inner, ["B", "H", "S", "L"])]
            if fault == "inputs":
                inputs.append(value("more", inner, [1]))
            if fault == "outputs":
                outputs = []
            attributes["mask_mod" if fault == "attribute" else name] = helper.make_graph(nodes, name, inputs, outputs, initial)
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain=PREVIEW, name="flex", **attributes)
    kind = TYPES[precision]
    arrays, extra = {"q": q, "k": k, "v": v}, {}
    top, initial = [node], [numpy_helper.from_array(bias, "bias")]
    if where == "branch":
        node.output[0] = "inside"
        other = helper.make_node("Identity", ["q"], ["outside"])
        branches = [helper.make_graph([one], name, [], [value(one.output[0], kind)])
                    for name, one in (("then", node), ("else", other))]
        initial.append(numpy_helper.from_array(numpy.array(True), "yes"))
        top = [helper.make_node("If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    if where == "function":
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(PREVIEW, 1)]
        extra["functions"] = [helper.make_function("own", "attend", ["q", "k", "v"], ["y"], [node], opsets)]
        top = [helper.make_node("attend", ["q", "k", "v"], ["y"], domain="own")]
    graph = helper.make_graph(top, "g", [value(n, kind, list(x.shape)) for n, x in arrays.items()],
                              [onnx.ValueInfoProto(name="y")], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(PREVIEW, 1),
                                                    helper.make_opsetid("own", 1)], **extra)
    model.ir_version = 10
    onnx.save(model, path)
    wide = [numpy.asarray(x, "float64") for x in (q, k.repeat(share, 1), v.repeat(share, 1))]
    scores = wide[0] @ wide[1].swapaxes(2, 3) * scale
    scores = functions.get("score_mod", lambda s, b: s)(scores, bias)
    scores = numpy.exp(scores - scores.max(-1, keepdims=True))
    probable = functions.get("prob_mod", lambda s, b: s)(scores / scores.sum(-1, keepdims=True), bias)
    what = "%s, %s, %s" % (precision, where, sorted(functions))
    return arrays, probable @ wide[2], what


def run(tenure, folder, path, arrays):
    line = [tenure, "run", path, "--output-dir", folder, "--poison"]
    for name, x in arrays.items():
        numpy.save("%s/%s.npy" % (folder, name), x)
        line += ["--input", "%s=%s/%s.npy" % (name, folder, name)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def main():
    tenure, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    cases = int(sys.argv[3]) if len(sys.argv) > 3 else 24
    random, wrong = numpy.random.default_rng(int(sys.argv[4]) if len(sys.argv) > 4 else 1), 0
    os.makedirs(folder, exist_ok=True)
    path = folder + "/flex.onnx"
    for case in range(cases):
        fault = ["inputs", "outputs", "attribute"][case // 8 % 3] if case % 8 == 7 else ""
        arrays, wanted, what = make(random, path, fault)
        done = run(tenure, folder, path, arrays)
        if fault:
            good = done.returncode == 2 and "FlexAttention" in done.stderr
            problem = "" if good else "a fault (%s) gives status %d: %s" % (fault, done.returncode, done.stderr[-200:])
        elif done.returncode:
            problem = done.stderr.strip()
        else:
            got = numpy.load(folder + "/y.npy")
            limit = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3}[str(arrays["q"].dtype)]
            same = got.shape == wanted.shape and got.dtype == arrays["v"].dtype
            error = numpy.abs(got - wanted).max(initial=0) if same else 1
            problem = "" if error <= limit * numpy.abs(wanted).max(initial=1) else "another result, by %.2g" % error
        if problem:
            print("case %d (%s): %s" % (case, what, problem))
            wrong += 1
    print("%d models, %d wrong" % (cases, wrong))
    return 1 if wrong else 0


sys.exit(main())
