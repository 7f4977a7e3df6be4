#!/usr/bin/env python3
"""`tenure train --loss output`: models that compute their own loss from any number of named inputs.

    train_own_loss.py TENURE FOLDER

Three models: distillation from a frozen teacher (samples and soft targets), an autoencoder (one
input), a triplet loss (three inputs that share weights). Each is trained by SGD for a few steps, and
the same steps are done here in float64 with numpy, where each gradient is a central difference of the
loss. The parameters must agree; the frozen ones must not change at all. Then bad input.
Exit status: 0 as it should be, 1 not so, 77 numpy is absent.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import end, must, run  # noqa: E402
from train_models import idx, model, node, npy, read_checkpoint, tensor, value  # noqa: E402

try:
    import numpy
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(77)

COUNT, RATE, STEPS = 12, 0.25, 4
WIDTHS = {"scores": 3, "y": 5, "a": 3}  # columns of outputs


def relu(x):
    return numpy.maximum(x, 0)


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - numpy.log(numpy.exp(x).sum(1, keepdims=True))


# --- the models: nodes, and the same loss in numpy ---

def distilled(d, p):
    teacher = numpy.exp(log_softmax(relu(d["x"] @ p["teacher.a"]) @ p["teacher.b"] / 2))
    student = relu(d["x"] @ p["student.a"]) @ p["student.b"]
    soft = -(teacher * log_softmax(student / 2)).sum(1)
    hard = -(d["target"] * log_softmax(student)).sum(1)
    return (soft + hard).mean()


DISTILLED = [
    node("MatMul", "x,teacher.a", "t1"), node("Relu", "t1", "t2"), node("MatMul", "t2,teacher.b", "t3"),
    node("Div", "t3,const_two", "t4"), node("Softmax", "t4", "t5", axis=1),
    node("MatMul", "x,student.a", "s1"), node("Relu", "s1", "s2"), node("MatMul", "s2,student.b", "scores"),
    node("Div", "scores,const_two", "s4"), node("LogSoftmax", "s4", "s5", axis=1), node("Mul", "t5,s5", "k1"),
    node("LogSoftmax", "scores", "s6", axis=1), node("Mul", "target,s6", "k2"), node("Add", "k1,k2", "k3"),
    node("ReduceSum", "k3,axis", "k4", keepdims=0), node("Neg", "k4", "k5"),
    node("ReduceMean", "k5", "loss", keepdims=0)]


def rebuilt(d, p):
    return ((relu(d["x"] @ p["down"]) @ p["up"] - d["x"]) ** 2).mean()


REBUILT = [
    node("MatMul", "x,down", "h"), node("Relu", "h", "r"), node("MatMul", "r,up", "y"), node("Sub", "y,x", "e"),
    node("Mul", "e,e", "q"), node("ReduceMean", "q", "loss", keepdims=0)]


def triplet(d, p):
    a, near, far = (d[name] @ p["w"] for name in ("anchor", "near", "far"))
    return relu(1 + ((a - near) ** 2).sum(1) - ((a - far) ** 2).sum(1)).mean()


TRIPLET = [
    node("MatMul", "anchor,w", "a"), node("MatMul", "near,w", "n"), node("MatMul", "far,w", "f"),
    node("Sub", "a,n", "an"), node("Mul", "an,an", "an2"), node("ReduceSum", "an2,axis", "dn", keepdims=0),
    node("Sub", "a,f", "af"), node("Mul", "af,af", "af2"), node("ReduceSum", "af2,axis", "df", keepdims=0),
    node("Sub", "dn,df", "d"), node("Add", "d,const_margin", "m"), node("Relu", "m", "l"),
    node("ReduceMean", "l", "loss", keepdims=0)]


def cases(random):
    def some(*shape):
        return random.standard_normal(shape).astype("f4")
    x = {"x": some(COUNT, 5)}
    target = numpy.eye(3, dtype="f4")[random.integers(0, 3, COUNT)]
    return [
        ("distilled", distilled, DISTILLED, {**x, "target": target},
         {"teacher.a": some(5, 6), "teacher.b": some(6, 3), "student.a": some(5, 2), "student.b": some(2, 3)},
         "teacher.", "scores"),
        ("rebuilt", rebuilt, REBUILT, x, {"down": some(5, 3), "up": some(3, 5)}, None, "y"),
        ("triplet", triplet, TRIPLET, {name: some(COUNT, 5) for name in ("anchor", "near", "far")},
         {"w": some(5, 3)}, None, "a")]


def steps(loss, data, parameters, frozen):
    """SGD in float64; the gradient of each element is a central difference."""
    p = {name: values.astype("f8") for name, values in parameters.items()}
    data = {name: values.astype("f8") for name, values in data.items()}
    losses = []
    for _ in range(STEPS):
        losses.append(loss(data, p))
        gradients = {name: numpy.zeros_like(values) for name, values in p.items()
                     if frozen is None or not name.startswith(frozen)}
        for name, gradient in gradients.items():
            for at in numpy.ndindex(*gradient.shape):
                kept, ends = p[name][at], []
                for h in (1e-6, -1e-6):
                    p[name][at] = kept + h
                    ends.append(loss(data, p))
                p[name][at] = kept
                gradient[at] = (ends[0] - ends[1]) / 2e-6
        for name, gradient in gradients.items():
            p[name] -= RATE * gradient
    return losses, p, loss(data, p)


def check(tenure, name, loss, nodes, data, parameters, frozen, other):
    weights = [tensor(key, list(values.shape), list(values.ravel())) for key, values in parameters.items()]
    constants = [tensor("const_two", [], [2.0]), tensor("const_margin", [], [1.0]), tensor("axis", [1], [1], 7)]
    inputs = [value(key, ["n", values.shape[1]]) for key, values in data.items()]
    for file, outputs in ((name + ".onnx", ["loss"]), (name + "2.onnx", [other, "loss"])):
        model(file, nodes, inputs, [value(key, [] if key == "loss" else ["n", WIDTHS[key]]) for key in outputs],
              weights + constants)
    for key, values in data.items():
        npy("%s_%s.npy" % (name, key), "<f4", values.shape, values.tobytes())
    files = ["%s=%s_%s.npy" % (key, name, key) for key in data]
    given = ",".join(reversed(files)) + ":" + ",".join(files)
    words = ["--batch", str(COUNT), "--epochs", str(STEPS), "--optimizer", "sgd", "--lr", str(RATE)]
    words += ["--freeze", frozen + "*"] if frozen else []
    first = run(tenure, "train", name + ".onnx", "--loss", "output", "--data", given, *words, "--log", "log.csv",
                "--checkpoint", name + ".ck", "--check", "naive", "--json")
    told = json.loads(first.stdout)
    losses, p, last = steps(loss, data, parameters, frozen)
    with open("log.csv") as file:
        logged = [float(row.split(",")[1]) for row in file.read().split()[1:]]
    must(numpy.allclose(logged, losses, rtol=1e-4), "%s: losses %s, here %s" % (name, logged, losses))
    must(losses[-1] < losses[0], "%s learns nothing" % name)
    must(abs(told["test_loss"] - last) < 1e-4 * abs(last), "%s: test loss %g, here %g" % (name, told["test_loss"], last))
    must("accuracy" not in told and "test_accuracy" not in told, "%s has no accuracy" % name)
    kept = read_checkpoint(name + ".ck")
    for key, values in p.items():
        if frozen and key.startswith(frozen):
            must(key not in kept, "%s is frozen, and in the checkpoint" % key)
            continue
        got = numpy.array(kept[key]).reshape(values.shape)
        must(numpy.allclose(got, values, rtol=1e-3, atol=1e-4), "%s: %s is %s, here %s" % (name, key, got, values))
    # another output first: the same bits, from the output by its name
    run(tenure, "train", name + "2.onnx", "--loss", "output:loss", "--data", given, *words, "--checkpoint", "second.ck")
    second = read_checkpoint("second.ck")
    must(kept == second, "%s: the second output gives other parameters" % name)
    ran = run(tenure, "run", name + "2.onnx", "--dim", "n=%d" % COUNT, "--weights", "second.ck",
              *(word for key in data for word in ("--input", "%s=%s_%s.npy" % (key, name, key))), "--output-dir", ".")
    must(ran.returncode == 0 and abs(float(numpy.load("loss.npy")) - last) < 1e-4 * abs(last), "%s: run" % name)
    return given, words


def main():
    tenure, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    random = numpy.random.default_rng(3)
    given = {}
    for case in cases(random):
        given[case[0]] = check(tenure, *case)
    # one input: a file without a name; Fashion-MNIST's labels are left out
    data, words = given["rebuilt"]
    run(tenure, "train", "rebuilt.onnx", "--loss", "output", "--data", "rebuilt_x.npy", *words, "--checkpoint", "plain.ck")
    must(read_checkpoint("plain.ck") == read_checkpoint("rebuilt.ck"), "a file without a name is another input")
    # idx files, packed or not, also through a link
    bytes_ = random.integers(0, 256, (COUNT, 5)).astype("u1")
    idx("real.gz", bytes_.shape, bytes_.tobytes())
    os.path.lexists("x.gz") or os.symlink("real.gz", "x.gz")
    npy("bytes.npy", "|u1", bytes_.shape, bytes_.tobytes())
    for file in ("x.gz", "bytes.npy"):
        run(tenure, "train", "rebuilt.onnx", "--loss", "output", "--data", "x=" + file, *words, "--checkpoint", file + ".ck")
    must(read_checkpoint("x.gz.ck") == read_checkpoint("bytes.npy.ck"), "an idx file gives other numbers")
    # resumed: the same bits
    data, words = given["distilled"]
    train = ["train", "distilled.onnx", "--loss", "output", "--data", data, "--freeze", "teacher.*", "--batch", "4"]
    run(tenure, *train, "--steps", "9", "--checkpoint", "whole.ck")
    run(tenure, *train, "--steps", "5", "--checkpoint", "half.ck")
    run(tenure, *train, "--steps", "9", "--resume", "half.ck", "--checkpoint", "half.ck")
    with open("whole.ck", "rb") as a, open("half.ck", "rb") as b:
        must(a.read() == b.read(), "a resumed run has other bits")

    # bad input
    few = numpy.zeros((3, 5), "f4")
    npy("few.npy", "<f4", few.shape, few.tobytes())
    x, target = "x=distilled_x.npy", "target=distilled_target.npy"
    for list_, why in (
            (x + ",goal=distilled_target.npy", "'goal' is no input; a step takes 'x', 'target'"),
            (x, "the data has nothing for 'target'"),
            (x + "," + target + ":" + x, "the data has nothing for 'target'"),
            (x + "," + x, "two files for 'x'"),
            (x + "," + target + ",labels=few.npy", "has 12 samples, but few.npy has 3"),
            ("x=few.npy," + target, "has 3 samples, but distilled_target.npy has 12"),
            (x + ",distilled_target.npy", "is not NAME=FILE"),
            (x + "," + target + ":" + x + "," + target + ":" + x, "no third list"),
            ("distilled_x.npy", "1 arrays without names, but a step takes 'x', 'target'"),
            (x + ",target=nothing.npy", "nothing.npy: cannot open"),
            (target.replace("target=", "x=") + "," + target, "each of its samples is float32"),
            ("=few.npy", "is not NAME=FILE"), (x + ",", "is not NAME=FILE")):
        done = run(tenure, *train[:5], list_, status=2)
        must(why in done.stderr, "--data %s: %s" % (list_, done.stderr))
    done = run(tenure, "train", "distilled.onnx", "--loss", "output:other", "--data", data, status=2)
    must("no output 'other'" in done.stderr, done.stderr)
    done = run(tenure, "train", "distilled2.onnx", "--loss", "output", "--data", data, status=2)
    must("'scores' is not a scalar" in done.stderr, done.stderr)
    end()


if __name__ == "__main__":
    main()
