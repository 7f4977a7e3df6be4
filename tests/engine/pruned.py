#!/usr/bin/python3
"""fashion_resnet.onnx with pruned weights: its accuracy, and whether that is what pruning makes of it.

    pruned.py TENURE FOLDER [MODEL [IMAGES]]

For shares of 0.5, 0.8 and 0.9, both scopes, `tenure run --prune` answers the first IMAGES (500) of
Debian's dataset-fashion-mnist. The same zeros are put into a copy of the model here, by sorting,
and run as any model: the scores must be the same but for rounding, and what was told of bytes, zeros and
errors must be true. FOLDER keeps images and models.
Exit status: 0 as it should be, 1 not so, 77 the data set, numpy or python3-onnx is absent.
"""
import gzip
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from count import case_count  # noqa: E402

try:
    import numpy
    import onnx
    from onnx import numpy_helper
except ImportError:
    print("SKIP: numpy or python3-onnx is not installed")
    sys.exit(77)

DATA = "/usr/share/datasets/fashion-mnist/t10k-"
MODEL = "../../../shared/data/onnx/fashion_resnet.onnx"
SHARES = [0.5, 0.8, 0.9]


def idx(name, head):
    """An IDX file without its header of `head` bytes."""
    with gzip.open(DATA + name) as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=head)


def weights_of(model):
    """Weights of convolutions and products, in the order of nodes."""
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    return [held[node.input[1]] for node in model.graph.node
            if node.op_type in ("Conv", "Gemm", "MatMul") and node.input[1] in held]


def prune(arrays, share):
    """Zeros in the smallest of all; returns what is left. Python's sort keeps the order of equals."""
    flat = numpy.concatenate([a.ravel() for a in arrays])
    order = numpy.argsort(-numpy.abs(flat), kind="stable")
    flat[order[len(flat) - round(share * len(flat)):]] = 0
    parts = numpy.split(flat, numpy.cumsum([a.size for a in arrays])[:-1])
    return [part.reshape(a.shape) for part, a in zip(parts, arrays)]


def run(tenure, model, folder, count, *more):
    out = subprocess.run([tenure, "run", model, "--dim", "N=%d" % count, "--input",
                          "image=" + os.path.join(folder, "images.npy"), "--output-dir", folder,
                          "--json", *more], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out), numpy.load(os.path.join(folder, "logits.npy"))


def check(told, before, after, dense):
    """What `tenure run` says of one pruning."""
    norm = [float((b.astype(float) ** 2).sum()) for b in before]
    lost = [float(((b - a).astype(float) ** 2).sum()) for b, a in zip(before, after)]
    wrong = len(told["weights"]) != len(before)
    for row, b, a, n, l in zip(told["weights"], before, after, norm, lost):
        wrong |= row["elements"] != b.size or row["zeros"] != (a == 0).sum() or row["bytes"] != 4 * b.size
        wrong |= abs(row["error"] - (l / n) ** 0.5) > 1e-6 or row["stored"] > row["bytes"]
    wrong |= abs(told["error"] - (sum(lost) / sum(norm)) ** 0.5) > 1e-6
    wrong |= told["stored"] != sum(row["stored"] for row in told["weights"])
    return wrong or dense - told["bytes"] + told["stored"] > dense


def main():
    tenure, folder = map(os.path.abspath, sys.argv[1:3])
    path = sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(__file__), MODEL)
    count = int(sys.argv[4]) if len(sys.argv) > 4 else case_count(500, 100)
    for needed in (DATA + "images-idx3-ubyte.gz", path):
        if not os.path.exists(needed):
            print("SKIP: %s is absent (apt-get install dataset-fashion-mnist)" % needed)
            sys.exit(77)
    os.makedirs(folder, exist_ok=True)
    images = idx("images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)[:count]
    labels = idx("labels-idx1-ubyte.gz", 8)[:count]
    numpy.save(os.path.join(folder, "images.npy"), images.astype(numpy.float32) / 255)
    plain, scores = run(tenure, path, folder, count)
    right = (scores.argmax(1) == labels).sum()
    print("all weights: %d of %d right, %d bytes" % (right, count, plain["weights"]))
    failed = False
    for scope in ("global", "tensor"):
        for share in SHARES:
            model = onnx.load(path)
            tensors = weights_of(model)
            before = [numpy_helper.to_array(tensor) for tensor in tensors]
            after = prune(before, share) if scope == "global" else [prune([b], share)[0] for b in before]
            for tensor, array in zip(tensors, after):
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
            copy = os.path.join(folder, "pruned.onnx")
            onnx.save(model, copy)
            got, scores = run(tenure, path, folder, count, "--prune", str(share), "--prune-scope", scope)
            want = run(tenure, copy, folder, count)[1]
            apart = abs(scores - want).max() / max(1, abs(want).max())
            told = got["pruned"]
            wrong = apart > 1e-4 or check(told, before, after, plain["weights"])
            wrong |= got["weights"] > plain["weights"] - (told["bytes"] - told["stored"]) + 64 * 64
            failed |= wrong
            print("%s %.1f: %d right; weights of %d bytes as %d, all %d; error %.3f; %.1e from the same "
                  "zeros%s" % (scope, share, (scores.argmax(1) == labels).sum(), told["bytes"],
                               told["stored"], got["weights"], told["error"], apart,
                               ": WRONG" if wrong else ""))
    sys.exit(1 if failed else 0)


main()
