#!/usr/bin/env python3
"""`tenure train --prune`: gradual magnitude pruning.

    train_pruned.py TENURE FOLDER

Two layers are trained by gradient descent with momentum, and the same steps are done here in float64
with numpy: the gradient is written down, the schedule is the formula of Zhu and Gupta (2017), and the
masks come from a sort. Weights and zeros must agree after every number of steps. Then: the same bits
when a run is resumed, without reuse of memory, and with two ranks; the sparse form of the weights
without error; bad input.
Exit status: 0 as it should be, 1 not so, 77 numpy is absent.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import end, must, run  # noqa: E402
from train_models import model, node, npy, read_npy, tensor, value  # noqa: E402

try:
    import numpy
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(77)

COUNT, WIDE, HIDDEN, CLASSES, RATE, STEPS = 24, 9, 12, 4, 0.05, 20
SETTINGS = 13 * 8  # bytes of settings after the hash of a checkpoint


def read_checkpoint(path):
    """{name: array}: float32, or uint8 for masks."""
    with open(path, "rb") as file:
        data = file.read()
    at, found = 80 + SETTINGS, {}
    for _ in range(int.from_bytes(data[12:16], "little")):
        length = int.from_bytes(data[at:at + 4], "little")
        name, at = data[at + 4:at + 4 + length].decode(), at + 5 + length
        kind, rank = (int.from_bytes(data[at + k:at + k + 4], "little") for k in (4, 8))
        shape = numpy.frombuffer(data, "<i8", rank, at + 12)
        size = int.from_bytes(data[at + 12 + 8 * rank:at + 20 + 8 * rank], "little")
        at += 20 + 8 * rank
        whole = numpy.frombuffer(data[at:at + size], "u1" if name.endswith(".mask") else "<f4")
        found[name] = whole.reshape(shape)
        at += size
    must(at == len(data), "%s has more bytes than tensors" % path)
    return found


def share_at(final, begin, end, done):
    if done < begin:
        return 0
    return final - final * (1 - min(1, (done - begin) / max(1, end - begin))) ** 3 if done < end else final


def trained(x, y, first, final, begin, end, every, pruned):
    """After each number of steps: the weights, and which are pruned."""
    p = {name: values.astype("f8") for name, values in first.items()}
    v = {name: numpy.zeros_like(values) for name, values in p.items()}
    masks = {name: numpy.zeros(p[name].size, bool) for name in pruned}
    for done in range(STEPS + 1):
        if begin <= done <= end and ((done - begin) % every == 0 or done == end):
            for name, mask in masks.items():
                target = round(share_at(final, begin, end, done) * mask.size)
                size = numpy.where(mask, -1, numpy.abs(p[name].ravel()))
                mask[numpy.argsort(size, kind="stable")[:max(target, mask.sum())]] = True
        for name, mask in masks.items():
            p[name].ravel()[mask] = 0
        yield {name: values.copy() for name, values in p.items()}, {name: mask.copy() for name, mask in masks.items()}
        h = x @ p["a"] + p["c"]
        r = numpy.maximum(h, 0)
        e = 2 * (r @ p["b"] - y) / y.size
        g = {"b": r.T @ e, "a": x.T @ (e @ p["b"].T * (h > 0)), "c": (e @ p["b"].T * (h > 0)).sum(0)}
        for name in p:
            v[name] = 0.9 * v[name] + g[name]
            p[name] -= RATE * v[name]


def main():
    tenure, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    random = numpy.random.default_rng(4)
    first = {"a": random.standard_normal((WIDE, HIDDEN)).astype("f4"), "c": random.standard_normal(HIDDEN).astype("f4"),
             "b": random.standard_normal((HIDDEN, CLASSES)).astype("f4")}
    x, y = random.standard_normal((COUNT, WIDE)).astype("f4"), random.standard_normal((COUNT, CLASSES)).astype("f4")
    npy("x.npy", "<f4", x.shape, x.tobytes())
    npy("y.npy", "<f4", y.shape, y.tobytes())
    model("net.onnx", [node("MatMul", "x,a", "u"), node("Add", "u,c", "h"), node("Relu", "h", "r"), node("MatMul", "r,b", "y")],
          [value("x", ["n", WIDE])], [value("y", ["n", CLASSES])],
          [tensor(name, list(values.shape), list(values.ravel())) for name, values in first.items()])
    train = ["train", "net.onnx", "--data", "x.npy,y.npy", "--loss", "mean-squared", "--batch", str(COUNT), "--optimizer",
             "momentum", "--lr", str(RATE)]

    for text, schedule, pruned, more in (
            ("0.8:begin=2,end=14,every=3", (0.8, 2, 14, 3), "ab", []),
            ("50%:end=15", (0.5, 0, 15, 1), "ab", []),
            ("0.6:begin=5,end=5", (0.6, 5, 5, 1), "ab", []),
            ("0.75:end=7,every=5", (0.75, 0, 7, 5), "bc", ["--prune-weights", "b", "--prune-weights", "c*"])):
        for done, (weights, masks) in enumerate(trained(x, y, first, *schedule, pruned)):
            if done == 0 or (done > 8 and done < STEPS and done % 3):
                continue
            told = json.loads(run(tenure, *train, "--steps", str(done), "--prune", text, *more, "--checkpoint", "p.ck",
                                  "--json").stdout)
            kept = read_checkpoint("p.ck")
            for name, values in weights.items():
                must(numpy.allclose(kept[name], values, rtol=1e-4, atol=1e-5), "%s, step %d: %s" % (text, done, name))
            zeros = 0
            for name, mask in masks.items():
                must(((kept[name].ravel() == 0) == mask).all(), "%s, step %d: zeros of %s" % (text, done, name))
                bits = numpy.unpackbits(kept[name + ".mask"], bitorder="little")
                must((bits[:mask.size] == mask).all() and not bits[mask.size:].any(), "%s, step %d: mask" % (text, done))
                zeros += int(mask.sum())
            must({"a", "b", "c"} - set(pruned) == {name for name in "abc" if name + ".mask" not in kept}, "masks")
            elements = sum(mask.size for mask in masks.values())
            must(told["pruned"] == {"elements": elements, "zeros": zeros, "share": told["pruned"]["share"]} and
                 abs(told["pruned"]["share"] - zeros / elements) < 1e-6, "%s, step %d: %s" % (text, done, told["pruned"]))

    # the same bits: resumed, without reuse, for every optimizer
    for optimizer in ("sgd", "momentum", "adam", "adamw"):
        some = [*train, "--batch", "6", "--optimizer", optimizer, "--prune", "0.8:end=15,every=2", "--weight-decay", "0.01",
                "--quiet"]
        run(tenure, *some, "--steps", "20", "--checkpoint", "whole.ck", "--check", "naive")
        for half in (1, 9, 17):
            run(tenure, *some, "--steps", str(half), "--checkpoint", "half.ck")
            run(tenure, *some, "--steps", "20", "--resume", "half.ck", "--checkpoint", "half.ck")
            with open("whole.ck", "rb") as a, open("half.ck", "rb") as b:
                must(a.read() == b.read(), "%s: resumed at %d, other bits" % (optimizer, half))
    # ranks with parts of the samples
    ranks = [*train, "--prune", "0.8:end=15", "--parallel", "data=2", "--ranks-as-threads", "--quiet"]
    run(tenure, *ranks, "--steps", "20", "--checkpoint", "ranks.ck")
    *_, (weights, masks) = trained(x, y, first, 0.8, 0, 15, 1, "ab")
    kept = read_checkpoint("ranks.ck")
    must(all(numpy.allclose(kept[name], weights[name], rtol=1e-4, atol=1e-5) for name in weights), "two ranks")
    run(tenure, *ranks, "--steps", "8", "--checkpoint", "half.ck")
    run(tenure, *ranks, "--steps", "20", "--resume", "half.ck", "--checkpoint", "half.ck")
    with open("ranks.ck", "rb") as a, open("half.ck", "rb") as b:
        must(a.read() == b.read(), "two ranks: resumed, other bits")

    # the zeros in the sparse form: no error, the same outputs, fewer bytes
    words = ["run", "net.onnx", "--dim", "n=%d" % COUNT, "--weights", "whole.ck", "--input", "x=x.npy", "--output-dir", "."]
    dense = json.loads(run(tenure, *words, "--json").stdout)
    plain = read_npy("y.npy", "f")
    sparse = json.loads(run(tenure, *words, "--prune", "0.8", "--prune-scope", "tensor", "--json").stdout)["pruned"]
    kept = read_checkpoint("whole.ck")
    must(sparse["error"] == 0 and sparse["stored"] < sparse["bytes"] and "pruned" not in dense, "sparse: %s" % sparse)
    must(sparse["zeros"] == sum(int((kept[name] == 0).sum()) for name in "ab"), "sparse zeros: %s" % sparse)
    must(numpy.allclose(read_npy("y.npy", "f"), plain, rtol=1e-4, atol=1e-5), "sparse weights give other outputs")

    npy("y.npy", "<f4", y.shape, y.tobytes())
    for text, why in (("1", "below 1"), ("100%", "below 1"), ("-0.5", "out of range"), ("nan", "not a number|out of range"),
                      ("0.5:begin=9,end=3", "begin=9 is after end=3"), ("0.5:begin", "'begin' is not begin=N"),
                      ("0.5:until=3", "'until=3' is not begin=N"), ("0.5:every=0", "out of range"), ("0.5:end=", "is not begin=N|number"),
                      ("0.5:begin=1,", "is not begin=N"), ("", "number")):
        done = run(tenure, *train, "--steps", "20", "--prune", text, status=2)
        must(any(part in done.stderr for part in why.split("|")), "--prune '%s': %s" % (text, done.stderr))
    for words, why in ((["--prune", "0.5", "--prune-weights", "z*"], "no trained parameter matches 'z*'"),
                       (["--prune", "0.5", "--freeze", "a", "--prune-weights", "a"], "no trained parameter matches 'a'"),
                       (["--prune-weights", "a"], "--prune-weights needs --prune"),
                       (["--prune", "0.5", "--parallel", "tensor=2", "--ranks-as-threads"], "divided among ranks"),
                       # whole.ck is of a run with --prune 0.8:end=15,every=2; both values are named
                       (["--resume", "whole.ck"], "another share of weights to prune: 0.8 there, 0 here"),
                       (["--prune", "0.5:end=15,every=2", "--resume", "whole.ck"], "share of weights to prune: 0.8 there, 0.5 here"),
                       (["--prune", "0.8:begin=1,end=15,every=2", "--resume", "whole.ck"], "pruning begins: 0 there, 1 here"),
                       (["--prune", "0.8:end=16,every=2", "--resume", "whole.ck"], "pruning ends: 15 there, 16 here"),
                       (["--prune", "0.8:end=15", "--resume", "whole.ck"], "between two prunings: 2 there, 1 here"),
                       (["--prune", "0.8:end=15,every=2", "--weight-decay", "0.02", "--resume", "whole.ck"],
                        "weight decay: 0.01 there, 0.02 here"),
                       (["--prune", "0.8:end=15,every=2", "--freeze", "c", "--resume", "whole.ck"], "'c', which this run does not train"),
                       (["--prune", "0.8:end=15,every=2", "--prune-weights", "a", "--resume", "whole.ck"], "prunes 'b.mask'")):
        more = ["--batch", "6", "--optimizer", "adamw"] if "--resume" in words else []
        more += ["--weight-decay", "0.01"] if more and "--weight-decay" not in words else []
        done = run(tenure, *train, *more, "--steps", "20", *words, status=2)
        must(any(part in done.stderr for part in why.split("|")), "%s: %s" % (words, done.stderr))
    run(tenure, *train, "--steps", "3", "--checkpoint", "none.ck", "--quiet")
    done = run(tenure, *train, "--steps", "20", "--prune", "0.5", "--resume", "none.ck", status=2)
    must("share of weights to prune: 0 there, 0.5 here" in done.stderr, done.stderr)
    done = run(tenure, *train, "--steps", "4", "--prune", "0.5:end=9")
    must("ends at step 9, but the run at step 4" in done.stderr, done.stderr)
    run(tenure, *train, "--steps", "3", "--prune", "0", "--checkpoint", "zero.ck", "--quiet")
    with open("none.ck", "rb") as a, open("zero.ck", "rb") as b:
        must(a.read() == b.read(), "--prune 0 changes something")
    end()


if __name__ == "__main__":
    main()
