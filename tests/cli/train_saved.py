#!/usr/bin/env python3
"""`tenure train --save-model`: the trained model as an .onnx file, with quantised weights as integers.

    train_saved.py TENURE FOLDER

The integers in the file must be those that numpy rounds the trained weights of the checkpoint to. A run
of the file must give the bits of a run of the old file with the checkpoint. Everything but the weights
must be the bytes of the old file: nodes, inputs, outputs, unknown fields, external data.
Exit status: 0 as it should be, 1 not so, 77 numpy is absent.
"""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import end, must, run  # noqa: E402
from train_models import block, model, node, npy, number, read_checkpoint, tensor, value  # noqa: E402

try:
    import numpy
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(77)

COUNT, WIDE, CLASSES = 16, 12, 4
INT8, UINT8 = 3, 2


# --- protobuf, read field by field ---

def fields(data):
    at, found = 0, []

    def take():
        nonlocal at
        shift = result = 0
        while True:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result
    while at < len(data):
        start, tag = at, take()
        if tag & 7 == 0:
            inside = take()
        else:
            assert tag & 7 == 2, "wire type %d" % (tag & 7)
            size = take()
            inside, at = data[at:at + size], at + size
        found.append((tag >> 3, inside, data[start:at]))
    return found


def parts(path):
    """Of a model's file: fields of the model but the graph, of the graph but initializers, {name: (type, dims, bytes)}."""
    with open(path, "rb") as file:
        model_fields = fields(file.read())
    graph, = (inside for field, inside, _ in model_fields if field == 7)
    held = {}
    for field, inside, _ in fields(graph):
        if field != 5:
            continue
        of = fields(inside)
        name, = (x.decode() for f, x, _ in of if f == 8)
        raw = [x for f, x, _ in of if f == 9]
        assert name not in held, name
        held[name] = ([x for f, x, _ in of if f == 2][0], [x for f, x, _ in of if f == 1], raw[0] if raw else None)
    return (sorted(raw for field, _, raw in model_fields if field != 7),
            [(field, inside, raw) for field, inside, raw in fields(graph) if field != 5], held)


def bytes_tensor(name, dims, kind, data):
    return b"".join(number(1, d) for d in dims) + number(2, kind) + block(8, name) + block(9, data)


def nodes_of(graph):
    """[(type, inputs, outputs)]"""
    found = []
    for field, inside, _ in graph:
        if field == 1:
            of = fields(inside)
            found.append(([x.decode() for f, x, _ in of if f == 4][0], [x.decode() for f, x, _ in of if f == 1],
                          [x.decode() for f, x, _ in of if f == 2]))
    return found


def main():
    tenure, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "away"))
    os.chdir(folder)
    random = numpy.random.default_rng(6)

    def some(*shape):
        return random.standard_normal(shape).astype("f4")
    a, b, c, head = some(WIDE, 10), some(10, 10), some(10), some(10, CLASSES)
    scale_a = (numpy.abs(a).max(0) / 127).astype("f4")  # one for each column
    npy("x.npy", "<f4", (COUNT, WIDE), some(COUNT, WIDE).tobytes())
    npy("y.npy", "<i8", (COUNT,), random.integers(0, CLASSES, COUNT).astype("<i8").tobytes())
    nodes = [node("QuantizeLinear", "a,scale_a,zero_a", "qa", axis=1), node("DequantizeLinear", "qa,scale_a,zero_a", "da", axis=1),
             node("QuantizeLinear", "b,scale_b,zero_b", "qb"), node("DequantizeLinear", "qb,scale_b,zero_b", "db"),
             node("QuantizeLinear", "head,scale_b,zero_a0", "qh"), node("DequantizeLinear", "qh,scale_b,zero_a0", "dh"),
             node("MatMul", "x,da", "h0"), node("Add", "h0,c", "h1"), node("Relu", "h1", "h2"),
             node("QuantizeLinear", "h2,scale_h,zero_b", "qx"), node("DequantizeLinear", "qx,scale_h,zero_b", "h3"),
             node("MatMul", "h3,db", "h4"), node("MatMul", "h4,b", "h5"), node("MatMul", "h5,dh", "y")]
    constants = [tensor("scale_a", [10], list(scale_a)), bytes_tensor("zero_a", [10], INT8, bytes(10)),
                 bytes_tensor("zero_a0", [], INT8, bytes([3])), tensor("scale_b", [], [0.02]),
                 bytes_tensor("zero_b", [], UINT8, bytes([128])), tensor("scale_h", [], [0.05])]
    weights = {"a": a, "b": b, "c": c, "head": head}
    model("q.onnx", nodes, [value("x", ["n", WIDE])], [value("y", ["n", CLASSES])],
          constants + [tensor(name, list(w.shape), list(w.ravel())) for name, w in weights.items()])
    with open("q.onnx", "ab") as file:  # metadata, and a field of no version of ONNX
        file.write(block(14, block(1, "who") + block(2, "me")) + block(99, "later"))
    train = ["train", "q.onnx", "--data", "x.npy,y.npy", "--batch", str(COUNT), "--optimizer", "sgd", "--lr", "0.02"]

    # head is frozen: stored as integers, too; b is also read as it is: it stays, next to its integers
    told = json.loads(run(tenure, *train, "--steps", "6", "--freeze", "head", "--checkpoint", "q.ck", "--save-model", "int.onnx",
                          "--json").stdout)["model"]
    kept = {name: numpy.array(values, "f4") for name, values in read_checkpoint("q.ck").items()}
    model_fields, graph, held = parts("int.onnx")
    was_fields, was_graph, was = parts("q.onnx")
    must(model_fields == was_fields, "other fields of the model differ")
    left = [raw for field, inside, raw in was_graph
            if field != 1 or not any(block(2, q) in inside and b"QuantizeLinear" in inside and b"Dequantize" not in inside for q in ("qa", "qb", "qh"))]
    must([raw for _, _, raw in graph] == left and len(left) == len(was_graph) - 3, "other fields of the graph differ")
    must(set(held) == set(was) - {"a", "head"} | {"qa", "qb", "qh"}, "initializers: %s" % sorted(held))

    def rounded(w, scale, zero, least, most, kind):
        q = numpy.clip(numpy.rint(w / scale) + zero, least, most)
        return (kind, list(w.shape), q.astype("i1" if kind == INT8 else "u1").tobytes())
    must(held["qa"] == rounded(kept["a"].reshape(a.shape), scale_a, 0, -128, 127, INT8), "integers of a")
    must(held["qb"] == rounded(kept["b"].reshape(b.shape), numpy.float32(0.02), 128, 0, 255, UINT8), "integers of b")
    must(held["qh"] == rounded(head, numpy.float32(0.02), 3, -128, 127, INT8), "integers of the frozen head")
    must(numpy.abs(kept["a"] - a.ravel()).max() > 1e-3 and "head" not in kept, "nothing was trained")
    for name in ("b", "c"):
        must(held[name] == (1, list(weights[name].shape), kept[name].tobytes()), "trained %s" % name)
    must(all(held[name] == was[name] for name in was if name not in weights), "constants differ")
    integers = a.size + b.size + head.size
    must(told == {"bytes": os.path.getsize("int.onnx"), "tensors": 2, "quantised": 3, "real_bytes": 4 * integers,
                  "stored_bytes": integers}, "told: %s" % told)

    def outputs(file, *words):
        text = run(tenure, "run", file, "--dim", "n=%d" % COUNT, "--input", "x=x.npy", "--json", *words).stdout
        return json.loads(text) if text else {}

    def same(one, other):
        return one["outputs"][0]["xxh3"] == other["outputs"][0]["xxh3"]
    for words in (["--plain"], ["--plain", "--no-rewrite"]):
        must(same(outputs("q.onnx", "--weights", "q.ck", *words), outputs("int.onnx", *words)), "other outputs: %s" % words)
    must(outputs("int.onnx")["weights"] < outputs("q.onnx", "--weights", "q.ck")["weights"], "memory of integers")
    packed = json.loads(run(tenure, "estimate", "int.onnx", "--dim", "n=1", "--json").stdout)
    real = json.loads(run(tenure, "estimate", "q.onnx", "--dim", "n=1", "--json").stdout)
    must(integers <= packed["packed_weights"]["stored"] < integers + 100 and
         packed["parts"]["weights"] < real["parts"]["weights"], "estimate: %s, %s" % (packed, real))
    # two ranks, which divide the parameters
    run(tenure, *train, "--steps", "6", "--freeze", "head", "--parallel", "data=2", "--shard", "parameters", "--ranks-as-threads",
        "--checkpoint", "two.ck", "--save-model", "two.onnx", "--quiet")
    must(same(outputs("q.onnx", "--weights", "two.ck", "--plain"), outputs("two.onnx", "--plain")), "two ranks")

    # parameters in other forms: merged by an exporter, left out of the file, of external data; frozen by another file
    model("forms.onnx", [node("Identity", "gain", "gain2").replace(b"identity_gain2", b"Identity_00007"),
                         node("ConstantOfShape", "shape", "made"), node("Mul", "x,gain", "h0"), node("MatMul", "h0,out", "h1"),
                         node("MatMul", "h1,made", "h2"), node("Relu", "h2", "h3"), node("Mul", "h3,gain2", "y")],
          [value("x", ["n", WIDE])], [value("y", ["n", WIDE])],
          [tensor("gain", [WIDE], [1.0] * WIDE), tensor("shape", [2], [WIDE, WIDE], 7),
           b"".join([number(1, WIDE), number(1, WIDE), number(2, 1), block(8, "out"), number(14, 1),
                     block(13, block(1, "location") + block(2, "out.bin")),
                     block(13, block(1, "offset") + block(2, "8"))])])
    with open("out.bin", "wb") as file:
        file.write(bytes(8) + some(WIDE, WIDE).tobytes())
    npy("t.npy", "<f4", (COUNT, WIDE), some(COUNT, WIDE).tobytes())
    forms = ["train", "forms.onnx", "--data", "x.npy,t.npy", "--loss", "mean-squared", "--batch", str(COUNT), "--weights", "random:3",
             "--steps", "3", "--quiet", "--checkpoint", "forms.ck"]
    for words, file in (([], "trained.onnx"), ([], "away/trained.onnx"), (["--freeze", "out"], "frozen.onnx"),
                        (["--freeze", "out"], "away/frozen.onnx")):
        run(tenure, *forms, *words, "--save-model", file)
        must(same(outputs("forms.onnx", "--weights", "forms.ck", "--plain"), outputs(file, "--plain")), "%s: outputs" % file)
        _, graph, held = parts(file)
        must({"gain", "gain2", "made", "shape", "out"} == set(held), "%s: %s" % (file, sorted(held)))
        must((held["out"][2] is None) == (file == "frozen.onnx"), "%s: external data" % file)
        must([kind for kind, _, _ in nodes_of(graph)] == ["Mul", "MatMul", "MatMul", "Relu", "Mul"], "%s: nodes" % file)

    # parameters that only operators without data read: whether their values are known before the run (as in the file of a
    # model) or not (as in a checkpoint), every output has the same bits
    folded = [("Exp", "p", {}), ("Log", "u", {}), ("Sqrt", "u", {}), ("Reciprocal", "p", {}), ("Neg", "p", {}), ("Abs", "p", {}),
              ("Relu", "p", {}), ("Floor", "p", {}), ("Sign", "p", {}), ("Pow", "u,p", {}), ("Pow", "p,two", {}), ("Pow", "p,three", {}),
              ("Add", "p,u", {}), ("Sub", "p,u", {}), ("Mul", "p,u", {}), ("Div", "p,u", {}), ("Max", "p,u", {}), ("Min", "p,u", {}),
              ("ReduceSum", "p", {"keepdims": 1}), ("ReduceMean", "p", {"keepdims": 1}), ("ReduceProd", "p", {"keepdims": 1}),
              ("ReduceMax", "p", {"keepdims": 1}), ("Sum", "p,u,p", {}), ("Clip", "p,zero,two", {})]
    nodes = [node(kind, ins, "f%d" % i, **attributes) for i, (kind, ins, attributes) in enumerate(folded)]
    nodes += [node("Exp", "f0", "ff"), node("Mul", "ff,f1", "fg")]  # depends on such a value
    names = ["f%d" % i for i in range(len(folded))] + ["fg"]
    nodes += [node("Mul", "x,%s" % name, "y" + name) for name in names]
    model("fold.onnx", nodes, [value("x", ["n", WIDE])], [value("y" + name, ["n", WIDE]) for name in names],
          [tensor("p", [WIDE], list(some(WIDE))), tensor("u", [WIDE], list(numpy.abs(some(WIDE)) + 1)), tensor("zero", [], [0.0]),
           tensor("two", [], [2.0]), tensor("three", [], [3.0])])
    run(tenure, "train", "fold.onnx", "--data", "x.npy,t.npy", "--loss", "mean-squared", "--batch", str(COUNT), "--steps", "2", "--quiet",
        "--checkpoint", "fold.ck", "--save-model", "folded.onnx")
    for words in ([], ["--plain"], ["--no-rewrite"], ["--plain", "--no-rewrite"]):
        one, other = (outputs(*file, *words)["outputs"] for file in (("fold.onnx", "--weights", "fold.ck"), ("folded.onnx",)))
        unlike = [folded[i][0] if i < len(folded) else "fg" for i in range(len(names)) if one[i]["xxh3"] != other[i]["xxh3"]]
        must(len(one) == len(names) and not unlike, "known values give other bits %s: %s" % (words, unlike))

    # bad input
    done = run(tenure, *train, "--steps", "1", "--save-model", "q.onnx", status=2)
    must("is the model itself" in done.stderr, done.stderr)
    done = run(tenure, *train, "--steps", "1", "--save-model", "nowhere/q.onnx", status=2)
    must("nowhere" in done.stderr, done.stderr)
    os.symlink("q.onnx", "link.onnx")
    done = run(tenure, *train, "--steps", "1", "--save-model", "link.onnx", status=2)
    must("is the model itself" in done.stderr, done.stderr)
    end()


if __name__ == "__main__":
    main()
